//! SQS.

use std::time::Duration;

use aws_sdk_sqs::operation::delete_message::DeleteMessageError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{
    MessageSystemAttributeName, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use switchhook_local::EVENTS_QUEUE;
use switchhook_local::sqs::queue_url;

use crate::world::{send, world};

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

    send(&world, "call-1", "e2").send().await.unwrap();
    world.sqs.purge_queue().queue_url(queue_url(EVENTS_QUEUE)).send().await.unwrap();
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
