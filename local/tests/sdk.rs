//! The local services as the real SDK clients see them.
#![expect(clippy::unwrap_used, reason = "allow-unwrap-in-tests does not cover the helpers of a test")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, Put, ReturnConsumedCapacity, TimeToLiveSpecification, TransactWriteItem, Update,
};
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use aws_sdk_sqs::operation::delete_message::DeleteMessageError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{
    MessageSystemAttributeName, MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use switchhook_local::clock::{self, Clock};
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::dynamodb::Count;
use switchhook_local::sqs::{queue_arn, queue_url};
use switchhook_local::stream::EventName;
use switchhook_local::{
    CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, Options, RELAY_FAILURES_QUEUE, Services,
};

type Item = HashMap<String, AttributeValue>;

struct World {
    services: Services,
    dynamodb: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    eventbridge: aws_sdk_eventbridge::Client,
}

fn world() -> World {
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let services = Services::open(Options::new(clock)).unwrap();
    let config = services.sdk_config();
    World {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        sqs: aws_sdk_sqs::Client::new(&config),
        eventbridge: aws_sdk_eventbridge::Client::new(&config),
        services,
    }
}

impl World {
    fn count(&self, operation: &str) -> Count {
        self.services.dynamodb().counts().get(operation).copied().unwrap_or_default()
    }

    fn requests(&self, service: Service, operation: &str) -> u64 {
        self.services.connector().requests().get(&(service, operation.to_owned())).copied().unwrap_or_default()
    }

    /// Does to the `number`th request from now on, counted from 0, what `fault` says.
    fn fault_once(&self, number: usize, fault: Fault) {
        let seen = AtomicUsize::new(0);
        let hook = move |_: &RequestInfo<'_>| (seen.fetch_add(1, Ordering::Relaxed) == number).then(|| fault.clone());
        self.services.connector().set_fault_hook(Some(Arc::new(hook)));
    }

    async fn call_row(&self, call_id: &str) -> Option<Item> {
        let key = AttributeValue::S(call_id.to_owned());
        let request = self.dynamodb.get_item().table_name(CALLS_TABLE).consistent_read(true).key("call_id", key);
        request.send().await.unwrap().item
    }
}

fn s(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn n(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn event(event_id: &str, body_bytes: usize) -> Item {
    item([
        ("event_id", s(event_id)),
        ("call_id", s("call-1")),
        ("received_bucket", s("2027-01-15T08:00#3")),
        ("received_at", n(1_800_000_000_000)),
        ("body", AttributeValue::B(vec![7; body_bytes].into())),
    ])
}

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

    let put = Put::builder().table_name(CALLS_TABLE).item("call_id", s("c2")).build().unwrap();
    let change = Update::builder()
        .table_name(CALLS_TABLE)
        .key("call_id", s("c1"))
        .update_expression("SET version = :new")
        .expression_attribute_values(":new", n(3))
        .build()
        .unwrap();
    world
        .dynamodb
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().put(put).build())
        .transact_items(TransactWriteItem::builder().update(change).build())
        .send()
        .await
        .unwrap();
    world.dynamodb.delete_item().table_name(CALLS_TABLE).key("call_id", s("c2")).send().await.unwrap();
    world.dynamodb.put_item().table_name(INBOX_TABLE).set_item(Some(event("e1", 1))).send().await.unwrap();

    let names: Vec<EventName> = table.stream().next_batch(10).iter().map(|record| record.event_name()).collect();
    use EventName::{Insert, Modify, Remove};
    assert_eq!(names, [Insert, Modify, Insert, Modify, Remove]);
    assert_eq!(world.count("TransactWriteItems").write_units, 4.0);
    assert_eq!(world.call_row("c1").await, Some(item([("call_id", s("c1")), ("version", n(3))])));
}

#[tokio::test(start_paused = true)]
async fn cancelled_transaction_says_why_and_is_billed() {
    let world = world();
    let row = item([("call_id", s("c1")), ("version", n(1))]);
    world.dynamodb.put_item().table_name(CALLS_TABLE).set_item(Some(row)).send().await.unwrap();
    let put = Put::builder()
        .table_name(CALLS_TABLE)
        .item("call_id", s("c1"))
        .condition_expression("attribute_not_exists(call_id)")
        .build()
        .unwrap();
    let error = world
        .dynamodb
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().put(put).build())
        .send()
        .await
        .unwrap_err()
        .into_service_error();

    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("another error: {error}");
    };
    assert_eq!(cancelled.cancellation_reasons()[0].code(), Some("ConditionalCheckFailed"));
    assert_eq!(world.count("TransactWriteItems").write_units, 2.0);
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
async fn tables_of_the_application_are_the_only_ones_listed() {
    let dir = TempDir::new("tables");
    let services = Services::open(Options::new(Clock::system()).data_dir(&dir.0)).unwrap();
    let dynamodb = aws_sdk_dynamodb::Client::new(&services.sdk_config());

    let tables = dynamodb.list_tables().send().await.unwrap();
    assert_eq!(tables.table_names(), [CALLS_TABLE, INBOX_TABLE]);
    let scan = dynamodb.scan().table_name(CALLS_TABLE).send().await.unwrap();
    assert_eq!(scan.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn table_can_be_described_and_given_a_time_to_live() {
    let world = world();
    let described = world.dynamodb.describe_table().table_name(CALLS_TABLE).send().await.unwrap().table.unwrap();
    let mut indexes: Vec<&str> =
        described.global_secondary_indexes().iter().filter_map(|index| index.index_name()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["by_appointment", "by_wake"]);
    assert_eq!(described.latest_stream_arn(), None, "the stream is ours");

    let lifetime = TimeToLiveSpecification::builder().attribute_name("expires_at").enabled(true).build().unwrap();
    let update = world.dynamodb.update_time_to_live().table_name(INBOX_TABLE).time_to_live_specification(lifetime);
    update.send().await.unwrap();
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

fn send(
    world: &World,
    group: &str,
    id: &str,
) -> aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder {
    let send = world.sqs.send_message().queue_url(queue_url(EVENTS_QUEUE)).message_body(format!("{{\"id\":\"{id}\"}}"));
    send.message_group_id(group).message_deduplication_id(id)
}

#[tokio::test(start_paused = true)]
async fn message_is_sent_received_and_deleted() {
    let world = world();
    let header = MessageSystemAttributeValue::builder().data_type("String").string_value("Root=1-2-3").build().unwrap();
    let sent = send(&world, "call-1", "e1")
        .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, header)
        .send()
        .await
        .unwrap();
    let again = send(&world, "call-1", "e1").send().await.unwrap();
    assert_eq!((again.message_id(), again.sequence_number()), (sent.message_id(), sent.sequence_number()));

    let receive = || {
        let receive = world.sqs.receive_message().queue_url(queue_url(EVENTS_QUEUE)).max_number_of_messages(10);
        receive.message_system_attribute_names(MessageSystemAttributeName::All).send()
    };
    let received = receive().await.unwrap();
    let [message] = received.messages() else { panic!("{received:?}") };
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(message.body(), Some("{\"id\":\"e1\"}"));
    let attributes = message.attributes().unwrap();
    let expected = [
        (MessageSystemAttributeName::MessageGroupId, "call-1"),
        (MessageSystemAttributeName::MessageDeduplicationId, "e1"),
        (MessageSystemAttributeName::ApproximateReceiveCount, "1"),
        (MessageSystemAttributeName::SentTimestamp, "1800000000000"),
        (MessageSystemAttributeName::ApproximateFirstReceiveTimestamp, "1800000000000"),
        (MessageSystemAttributeName::SequenceNumber, sent.sequence_number().unwrap()),
        (MessageSystemAttributeName::AwsTraceHeader, "Root=1-2-3"),
    ];
    for (name, value) in expected {
        assert_eq!(attributes.get(&name).map(String::as_str), Some(value), "{name}");
    }

    let delete = world.sqs.delete_message().queue_url(queue_url(EVENTS_QUEUE));
    delete.receipt_handle(message.receipt_handle().unwrap()).send().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(receive().await.unwrap().messages(), []);
}

#[tokio::test(start_paused = true)]
async fn batch_answers_every_entry() {
    let world = world();
    let entry = |id: &str, group: Option<&str>| {
        let entry = SendMessageBatchRequestEntry::builder().id(id).message_body("x").message_deduplication_id(id);
        entry.set_message_group_id(group.map(str::to_owned)).build().unwrap()
    };
    let url = queue_url(EVENTS_QUEUE);
    let sent = world
        .sqs
        .send_message_batch()
        .queue_url(&url)
        .entries(entry("a", Some("g")))
        .entries(entry("b", None))
        .entries(entry("c", Some("g")))
        .send()
        .await
        .unwrap();
    let ids: Vec<&str> = sent.successful().iter().map(|entry| entry.id()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert_eq!((sent.failed()[0].id(), sent.failed()[0].code()), ("b", "MissingParameter"));

    let twice = world.sqs.send_message_batch().queue_url(&url);
    let twice = twice.entries(entry("d", Some("g"))).entries(entry("d", Some("g"))).send().await.unwrap_err();
    assert_eq!(twice.into_service_error().meta().code(), Some("AWS.SimpleQueueService.BatchEntryIdsNotDistinct"));
}

#[tokio::test(start_paused = true)]
async fn queue_errors_are_those_the_sdk_knows() {
    let world = world();
    let elsewhere = world.sqs.send_message().queue_url(queue_url("other.fifo")).message_body("x").send().await;
    assert!(matches!(elsewhere.unwrap_err().into_service_error(), SendMessageError::QueueDoesNotExist(_)));

    let control = send(&world, "g", "e1").message_body("\u{1}").send().await;
    assert!(matches!(control.unwrap_err().into_service_error(), SendMessageError::InvalidMessageContents(_)));

    let unicode = send(&world, "grüße", "e1").send().await.unwrap_err().into_service_error();
    assert_eq!(unicode.meta().code(), Some("InvalidParameterValue"));

    let delete = world.sqs.delete_message().queue_url(queue_url(EVENTS_QUEUE)).receipt_handle("nonsense").send().await;
    assert!(matches!(delete.unwrap_err().into_service_error(), DeleteMessageError::ReceiptHandleIsInvalid(_)));
}

#[tokio::test(start_paused = true)]
async fn poison_message_reaches_the_dead_letter_queue_and_is_moved_back() {
    let world = world();
    send(&world, "call-1", "poison").send().await.unwrap();
    for _ in 0..21 {
        world.sqs.receive_message().queue_url(queue_url(EVENTS_QUEUE)).send().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    let attributes = async |queue: &str| {
        let get = world.sqs.get_queue_attributes().queue_url(queue_url(queue));
        get.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap()
    };
    let depth = QueueAttributeName::ApproximateNumberOfMessages;
    assert_eq!(attributes(EVENTS_QUEUE).await[&depth], "0");
    let dead = attributes(EVENTS_DEAD_LETTER_QUEUE).await;
    assert_eq!(
        (dead[&depth].as_str(), &dead[&QueueAttributeName::QueueArn]),
        ("1", &queue_arn(EVENTS_DEAD_LETTER_QUEUE))
    );

    let arn = queue_arn(EVENTS_DEAD_LETTER_QUEUE);
    world.sqs.start_message_move_task().source_arn(arn).send().await.unwrap();
    assert_eq!(attributes(EVENTS_QUEUE).await[&depth], "1");
    world.sqs.purge_queue().queue_url(queue_url(EVENTS_QUEUE)).send().await.unwrap();
    assert_eq!(attributes(EVENTS_QUEUE).await[&depth], "0");
}

#[tokio::test(start_paused = true)]
async fn visibility_changes_through_the_client() {
    let world = world();
    send(&world, "call-1", "e1").send().await.unwrap();
    let url = queue_url(EVENTS_QUEUE);
    let receive = || world.sqs.receive_message().queue_url(&url).send();
    let received = receive().await.unwrap();
    let handle = received.messages()[0].receipt_handle().unwrap();

    let change = |seconds: i32| {
        world.sqs.change_message_visibility().queue_url(&url).receipt_handle(handle).visibility_timeout(seconds).send()
    };
    change(900).await.unwrap();
    tokio::time::sleep(Duration::from_secs(899)).await;
    assert_eq!(receive().await.unwrap().messages().len(), 0);
    change(0).await.unwrap();
    assert_eq!(receive().await.unwrap().messages().len(), 1);
    assert!(change(5).await.is_err(), "the handle is of the earlier receive");
}

#[tokio::test(start_paused = true)]
async fn standard_queue_takes_messages_without_group() {
    let world = world();
    let url = queue_url(RELAY_FAILURES_QUEUE);
    let sent = world.sqs.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    assert_eq!(sent.sequence_number(), None);
    assert_eq!(world.sqs.receive_message().queue_url(&url).send().await.unwrap().messages().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn long_poll_waits_in_virtual_time() {
    let world = world();
    let started = tokio::time::Instant::now();
    let url = queue_url(EVENTS_QUEUE);
    let received = world.sqs.receive_message().queue_url(&url).wait_time_seconds(20).send().await.unwrap();

    assert_eq!(received.messages(), []);
    assert_eq!(started.elapsed(), Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn events_reach_the_bus() {
    let world = world();
    let entry = |detail: &str| {
        let entry = PutEventsRequestEntry::builder().source("switchhook").detail_type("call.completed").detail(detail);
        entry.event_bus_name("calls").time(aws_sdk_eventbridge::primitives::DateTime::from_millis(1_500)).build()
    };
    let put = world.eventbridge.put_events().entries(entry("{\"n\":1}")).entries(entry("nonsense"));
    let answer = put.send().await.unwrap();

    assert_eq!(answer.failed_entry_count(), 1);
    assert_eq!(answer.entries()[1].error_code(), Some("MalformedDetail"));
    let events = world.services.bus().events_since(0);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.bus.as_str(), event.detail.as_str(), event.time_ms), ("calls", "{\"n\":1}", 1_500));
    assert_eq!(Some(event.id.as_str()), answer.entries()[0].event_id());
}

fn versioned_put(world: &World) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
    let put = world.dynamodb.put_item().table_name(CALLS_TABLE).item("call_id", s("c1")).item("version", n(1));
    put.condition_expression("attribute_not_exists(call_id)")
}

#[tokio::test(start_paused = true)]
async fn throttled_request_is_retried_by_the_client() {
    let world = world();
    world.fault_once(0, Fault::ErrorBefore { status: 400, code: "ProvisionedThroughputExceededException".to_owned() });
    versioned_put(&world).send().await.unwrap();

    assert_eq!(world.requests(Service::DynamoDb, "PutItem"), 2);
    assert_eq!(world.count("PutItem").requests, 1);
}

#[tokio::test(start_paused = true)]
async fn write_whose_answer_is_lost_is_applied_and_its_retry_refused() {
    for fault in [Fault::ResponseLost, Fault::ErrorAfter { status: 500, code: "InternalServerError".to_owned() }] {
        let world = world();
        world.fault_once(0, fault);
        let error = versioned_put(&world).send().await.unwrap_err().into_service_error();

        assert!(error.is_conditional_check_failed_exception(), "{error:?}");
        assert!(world.call_row("c1").await.is_some());
        assert_eq!(world.services.dynamodb().stream().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_never_arrives_is_retried_and_applied_once() {
    for fault in [Fault::NotSent, Fault::Timeout] {
        let world = world();
        world.fault_once(0, fault);
        versioned_put(&world).send().await.unwrap();
        assert_eq!(world.count("PutItem").requests, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn delay_passes_in_virtual_time() {
    for (fault, applied_at_once) in
        [(Fault::Delay(Duration::from_secs(7)), false), (Fault::ResponseDelay(Duration::from_secs(7)), true)]
    {
        let world = world();
        let started = tokio::time::Instant::now();
        world.fault_once(0, fault);
        let put = tokio::spawn(versioned_put(&world).send());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.services.dynamodb().stream().len() == 1, applied_at_once);
        put.await.unwrap().unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }
}

#[test]
fn one_seed_is_one_run() {
    // The moments at which the requests of a throttled client arrive, which the jitter of its retries decides.
    let arrivals = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            clock::seed(seed);
            let world = world();
            let clock = world.services.clock();
            let arrivals = Arc::new(Mutex::new(Vec::new()));
            let hook = {
                let arrivals = arrivals.clone();
                move |_: &RequestInfo<'_>| {
                    arrivals.lock().unwrap().push(clock.now_ms());
                    Some(Fault::ErrorBefore { status: 500, code: "InternalServerError".to_owned() })
                }
            };
            world.services.connector().set_fault_hook(Some(Arc::new(hook)));
            for _ in 0..3 {
                versioned_put(&world).send().await.unwrap_err();
            }
            arrivals.lock().unwrap().clone()
        })
    };

    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
}

#[tokio::test(start_paused = true)]
async fn data_dir_keeps_everything_and_belongs_to_one_process() {
    let dir = TempDir::new("restart");
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let open = || Services::open(Options::new(clock).data_dir(&dir.0));
    let services = open().unwrap();
    assert!(open().is_err(), "in use");

    let config = services.sdk_config();
    let world = World {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        sqs: aws_sdk_sqs::Client::new(&config),
        eventbridge: aws_sdk_eventbridge::Client::new(&config),
        services,
    };
    versioned_put(&world).send().await.unwrap();
    send(&world, "call-1", "e1").send().await.unwrap();
    let entry = PutEventsRequestEntry::builder().source("s").detail_type("t").detail("{}").build();
    world.eventbridge.put_events().entries(entry).send().await.unwrap();
    drop((world, config));

    let services = open().unwrap();
    assert_eq!(services.dynamodb().stream().len(), 1);
    assert_eq!(services.sqs().depth(EVENTS_QUEUE).unwrap().visible, 1);
    assert_eq!(services.bus().events_since(0).len(), 1);
}

/// A directory of this test alone, removed at its end.
struct TempDir(std::path::PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("switchhook-local-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
