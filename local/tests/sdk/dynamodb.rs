//! DynamoDB and the stream of the calls table.

use std::sync::Arc;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{KeysAndAttributes, ReturnConsumedCapacity};
use switchhook_local::dynamodb::Count;
use switchhook_local::stream::EventName;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};

use crate::world::{Item, event, item, n, s, world};

#[tokio::test(start_paused = true)]
async fn refused_put_returns_the_item_that_refused_it() {
    let world = world();
    let put = |item: Item| {
        world
            .dynamodb
            .put_item()
            .table_name(INBOX_TABLE)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(event_id)")
            .return_values_on_condition_check_failure("ALL_OLD".into())
            .send()
    };
    put(event("e1", 100)).await.unwrap();
    let error = put(event("e1", 200)).await.unwrap_err();

    let PutItemError::ConditionalCheckFailedException(refused) = error.into_service_error() else {
        panic!("another error");
    };
    assert_eq!(refused.item, Some(event("e1", 100)));
}

#[tokio::test(start_paused = true)]
async fn capacity_is_counted_as_it_is_billed() {
    let world = world();
    let put = |item: Item| {
        world
            .dynamodb
            .put_item()
            .table_name(INBOX_TABLE)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(event_id)")
            .send()
    };

    let output = put(event("e1", 1_500)).await.unwrap();
    assert_eq!(output.consumed_capacity, None, "not asked for, not answered");
    assert_eq!(
        world.count("PutItem"),
        Count { requests: 1, read_units: 0.0, write_units: 2.0, index_write_units: 1.0 }
    );

    put(event("e1", 2_500)).await.unwrap_err();
    assert_eq!(
        world.count("PutItem"),
        Count { requests: 2, read_units: 0.0, write_units: 5.0, index_write_units: 1.0 },
        "a refused write is billed by the larger item"
    );

    for (consistent, read_units) in [(true, 1.0), (false, 1.5)] {
        let get = world.dynamodb.get_item().table_name(INBOX_TABLE).key("event_id", s("e1"));
        get.consistent_read(consistent).send().await.unwrap();
        assert_eq!(world.count("GetItem").read_units, read_units);
    }
    world.services.dynamodb().reset_counts();
    assert_eq!(world.count("GetItem"), Count::default());
}

#[tokio::test(start_paused = true)]
async fn capacity_is_answered_as_it_was_asked_for() {
    let world = world();
    let put = |capacity: Option<ReturnConsumedCapacity>| {
        let put = world.dynamodb.put_item().table_name(INBOX_TABLE).set_item(Some(event("e1", 10)));
        put.set_return_consumed_capacity(capacity).send()
    };
    put(None).await.unwrap();

    let total = put(Some(ReturnConsumedCapacity::Total)).await.unwrap().consumed_capacity.unwrap();
    assert_eq!((total.capacity_units, total.table), (Some(1.0), None));
    let indexes = put(Some(ReturnConsumedCapacity::Indexes)).await.unwrap().consumed_capacity.unwrap();
    assert_eq!(indexes.table.unwrap().capacity_units, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn index_holds_its_projection_in_order() {
    let world = world();
    for (event_id, at) in [("e2", 2_000), ("e1", 1_000), ("e3", 3_000)] {
        let mut item = event(event_id, 10);
        item.insert("received_at".to_owned(), n(at));
        world.dynamodb.put_item().table_name(INBOX_TABLE).set_item(Some(item)).send().await.unwrap();
    }

    let page = world
        .dynamodb
        .query()
        .table_name(INBOX_TABLE)
        .index_name("by_received")
        .key_condition_expression("received_bucket = :bucket AND received_at >= :from")
        .expression_attribute_values(":bucket", s("2027-01-15T08:00#3"))
        .expression_attribute_values(":from", n(2_000))
        .send()
        .await
        .unwrap();

    let shown = |event_id: &str, at: u64| {
        item([
            ("event_id", s(event_id)),
            ("call_id", s("call-1")),
            ("received_bucket", s("2027-01-15T08:00#3")),
            ("received_at", n(at)),
        ])
    };
    assert_eq!(page.items(), [shown("e2", 2_000), shown("e3", 3_000)]);
    assert_eq!(world.count("Query").read_units, 0.5);
}

#[tokio::test(start_paused = true)]
async fn stream_follows_every_kind_of_write_to_the_calls() {
    let world = world();
    let table = world.services.dynamodb();
    let row = item([("call_id", s("c1")), ("version", n(1))]);
    world.dynamodb.put_item().table_name(CALLS_TABLE).set_item(Some(row)).send().await.unwrap();

    let update = || {
        world
            .dynamodb
            .update_item()
            .table_name(CALLS_TABLE)
            .key("call_id", s("c1"))
            .update_expression("SET version = :new")
            .condition_expression("version = :old")
            .expression_attribute_values(":old", n(1))
            .expression_attribute_values(":new", n(2))
    };
    update().send().await.unwrap();
    update().send().await.unwrap_err();

    let row = item([("call_id", s("c2"))]);
    world.dynamodb.put_item().table_name(CALLS_TABLE).set_item(Some(row)).send().await.unwrap();
    world.dynamodb.delete_item().table_name(CALLS_TABLE).key("call_id", s("c2")).send().await.unwrap();
    world.dynamodb.put_item().table_name(INBOX_TABLE).set_item(Some(event("e1", 1))).send().await.unwrap();

    let names: Vec<EventName> = table.stream().next_batch(10).iter().map(|record| record.event_name()).collect();
    use EventName::{Insert, Modify, Remove};
    assert_eq!(names, [Insert, Modify, Insert, Remove]);
    assert_eq!(world.call_row("c1").await, Some(item([("call_id", s("c1")), ("version", n(2))])));
}

#[tokio::test(start_paused = true)]
async fn unknown_operation_is_named() {
    let world = world();
    let error = world.dynamodb.describe_limits().send().await.unwrap_err();

    assert!(matches!(error, SdkError::ServiceError(_)), "{error:?}");
    let error = error.into_service_error();
    assert_eq!(error.meta().code(), Some("UnknownOperationException"));
    assert!(error.meta().message().unwrap().contains("DescribeLimits"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn batch_of_gets_is_one_request() {
    let world = world();
    for event_id in ["e1", "e2"] {
        let put = world.dynamodb.put_item().table_name(INBOX_TABLE).set_item(Some(event(event_id, 10)));
        put.send().await.unwrap();
    }
    let keys = ["e1", "e2"].map(|event_id| item([("event_id", s(event_id))]));
    let keys = KeysAndAttributes::builder().set_keys(Some(keys.to_vec())).consistent_read(true).build().unwrap();
    let got = world.dynamodb.batch_get_item().request_items(INBOX_TABLE, keys).send().await.unwrap();

    assert_eq!(got.responses.unwrap()[INBOX_TABLE].len(), 2);
    assert_eq!(world.count("BatchGetItem"), Count { requests: 1, read_units: 2.0, ..Count::default() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_lose_no_update_and_no_record() {
    const WRITERS: u64 = 8;
    const UPDATES: u64 = 25;
    let world = Arc::new(world());
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                for _ in 0..UPDATES {
                    let update = world.dynamodb.update_item().table_name(CALLS_TABLE).key("call_id", s("c1"));
                    let update = update.update_expression("ADD version :one").expression_attribute_values(":one", n(1));
                    update.send().await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }

    assert_eq!(world.call_row("c1").await.unwrap()["version"], n(WRITERS * UPDATES));
    let records = world.services.dynamodb().stream().next_batch(usize::MAX);
    let versions: Vec<u64> = records
        .iter()
        .map(|record| {
            record.to_event_record()["dynamodb"]["NewImage"]["version"]["N"].as_str().unwrap().parse().unwrap()
        })
        .collect();
    assert_eq!(versions, (1..=WRITERS * UPDATES).collect::<Vec<_>>());
}
