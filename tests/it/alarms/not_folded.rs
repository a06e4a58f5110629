//! Events that fail again and again. SQS leaves their messages out of the age of the oldest one, so the reconciler tells of them.

use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::EventId;
use switchhook_local::connector::RequestInfo;
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, down, is_request_to};

use super::{fired, generic_event};

const ALARM: &str = "P1EventsNotFoldedAlarm";

/// Posts an event while the world is in trouble. Expects the alarm within eight minutes, and its end once the trouble is over.
async fn alarm_within_eight_minutes(cause: &str, trouble: impl Fn(&World)) {
    let world = World::new();
    let began = world.now();
    let times_in_alarm = || fired(&world, began).remove(ALARM).unwrap_or_default();
    generic_event(&world, "c1", "e1", "CALL_STARTED").await;
    world.wait(MINUTE * 10).await;
    assert_eq!(times_in_alarm(), [0; 0], "{cause}");
    trouble(&world);
    generic_event(&world, "c1", "e2", "RINGING").await;
    world.wait(MINUTE * 8).await;
    assert!(!times_in_alarm().is_empty(), "{cause}");

    world.clear_faults();
    world.wait(MINUTE * 20).await;
    assert_eq!(world.attention(AttentionKind::Retrying).await, [], "{cause}");
    assert!(world.call("c1").await.contains_event(&EventId::new("generic:e2")), "{cause}");
    let over = u64::try_from(world.now().as_millis()).unwrap();
    world.wait(MINUTE * 5).await;
    assert!(times_in_alarm().into_iter().all(|at| at <= over), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_cannot_be_read_set_off_the_alarm() {
    let is_read = |call: &RequestInfo<'_>| call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
    alarm_within_eight_minutes("read", |world| world.set_fault_hook(move |call| is_read(call).then(down))).await;
}

#[tokio::test(start_paused = true)]
async fn events_without_a_note_set_off_the_alarm() {
    let is_refused = |call: &RequestInfo<'_>| {
        let is_note = is_request_to(call, INBOX_TABLE) && String::from_utf8_lossy(call.body).contains("note:");
        call.operation == "PutItem" && (is_note || is_request_to(call, CALLS_TABLE))
    };
    alarm_within_eight_minutes("note", |world| world.set_fault_hook(move |call| is_refused(call).then(down))).await;
}

#[tokio::test(start_paused = true)]
async fn consumer_that_crashes_sets_off_the_alarm() {
    alarm_within_eight_minutes("crash", |world| world.crash_at("PutItem", CALLS_TABLE)).await;
}

/// The sweep pauses while so many messages wait, so it marks no event.
#[tokio::test(start_paused = true)]
async fn queue_that_nobody_reads_counts_as_the_age_of_the_sweep() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    for number in 0..1_100 {
        let name = Some(number.to_string());
        let message =
            NewMessage { body: "{}".to_owned(), group: name.clone(), deduplication_id: name, ..NewMessage::default() };
        world.cloud.services().sqs().send(EVENTS_QUEUE, message).unwrap();
    }
    let mut ages = Vec::new();
    for _ in 0..6 {
        world.wait(MINUTE).await;
        ages.push(world.reconciler.run("test").await.unwrap().unfolded_ms);
    }
    assert!(ages[2] < 300_000 && ages[5] > 300_000, "{ages:?}");
}
