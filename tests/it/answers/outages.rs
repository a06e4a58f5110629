//! While DynamoDB or SQS is down, no webhook is acknowledged.

use serde_json::{Value, json};
use switchhook_domain::EventId;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{World, database_down, down};

use super::accepted::{FOLDED_SAMPLES, post_sample};
use super::{OK, id_of, storage_failure};

#[tokio::test(start_paused = true)]
async fn while_the_store_is_down_nothing_is_acknowledged() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        world.set_fault_hook(database_down);
        assert_eq!(post_sample(&world, name).await, storage_failure(), "{name}");
        assert_eq!(world.queued(), [] as [Value; 0], "{name}");
        world.clear_faults();
        assert_eq!(world.items(INBOX_TABLE).await, [], "{name}");

        let (code, answered) = post_sample(&world, name).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{name}");
        world.quiesce().await;
        let status = world.status(&EventId::new(id_of(&answered))).await;
        assert_eq!(status["status"], "processed", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_queue_is_down_nothing_is_acknowledged_and_the_retry_is_folded() {
    for (name, ..) in FOLDED_SAMPLES {
        let world = World::new();
        world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, down());
        assert_eq!(post_sample(&world, name).await, storage_failure(), "{name}");
        assert_eq!(
            post_sample(&world, name).await,
            storage_failure(),
            "{name}: a repeated webhook must not be acknowledged either"
        );
        world.quiesce().await;
        assert_eq!(world.items(CALLS_TABLE).await, [], "{name}");

        world.clear_faults();
        let (code, answered) = post_sample(&world, name).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("already_processed")), "{name}");
        world.quiesce().await;
        let status = world.status(&EventId::new(id_of(&answered))).await;
        assert_eq!(status["status"], "processed", "{name}");
    }
}
