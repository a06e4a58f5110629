use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::*;
use crate::database::Database;
use crate::queue::RedrivePolicy;

const QUEUE: &str = "q.fifo";
const DEAD: &str = "dead.fifo";

fn open(database: &Database) -> Sqs {
    let settings = vec![
        QueueSettings {
            name: QUEUE.to_owned(),
            fifo: true,
            visibility_timeout_ms: 1_000,
            retention_ms: 60_000,
            redrive_policy: Some(RedrivePolicy { dead_letter_queue: DEAD.to_owned(), max_receive_count: 1 }),
        },
        QueueSettings {
            name: DEAD.to_owned(),
            fifo: true,
            visibility_timeout_ms: 1_000,
            retention_ms: 60_000,
            redrive_policy: None,
        },
    ];
    let journal = Journal::open(database, JOURNAL).unwrap();
    Sqs::open(settings, Some(journal), Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1))).unwrap()
}

fn message(body: &str) -> NewMessage {
    NewMessage {
        body: body.to_owned(),
        group: Some("g".to_owned()),
        deduplication_id: Some(body.to_owned()),
        ..Default::default()
    }
}

fn bodies(sqs: &Sqs, queue: &str) -> Vec<String> {
    sqs.messages(queue).unwrap().into_iter().map(|message| message.body).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_survive_a_restart_in_order_and_visible() {
    let database = Database::memory().unwrap();
    let before = open(&database);
    for body in ["1", "2", "3", "4"] {
        before.send(QUEUE, message(body)).unwrap();
    }
    let received = before.receive(QUEUE, 2, None).unwrap();
    before.delete(QUEUE, &received[0].receipt_handle).unwrap();
    drop(before);

    let after = open(&database);
    assert_eq!(bodies(&after, QUEUE), ["2", "3", "4"]);
    assert_eq!(after.depth(QUEUE).unwrap(), Depth { visible: 3, in_flight: 0 });
    assert!(matches!(after.send(QUEUE, message("2")), Ok(SendOutcome::Duplicate { .. })));
    after.send(QUEUE, message("5")).unwrap();
    assert_eq!(bodies(&after, QUEUE), ["2", "3", "4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_keep_group_and_order_and_are_deduplicated_by_message_id() {
    let database = Database::memory().unwrap();
    let sqs = open(&database);
    for body in ["1", "2"] {
        sqs.send(QUEUE, message(body)).unwrap();
    }
    let ids: Vec<String> = sqs.messages(QUEUE).unwrap().iter().map(Message::id).collect();
    sqs.receive(QUEUE, 10, None).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sqs.receive(QUEUE, 10, None).unwrap(), []);

    for sqs in [sqs, open(&database)] {
        let dead = sqs.messages(DEAD).unwrap();
        assert_eq!(bodies(&sqs, DEAD), ["1", "2"]);
        assert_eq!(bodies(&sqs, QUEUE), [""; 0]);
        for (message, id) in dead.iter().zip(&ids) {
            assert_eq!(message.id(), *id);
            assert_eq!(message.deduplication_id.as_ref(), Some(id));
            assert_eq!(message.group.as_deref(), Some("g"));
            assert_eq!(message.dead_letter_source.as_deref(), Some(QUEUE));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn redriven_messages_are_new_at_the_end_of_the_queue() {
    let database = Database::memory().unwrap();
    let sqs = open(&database);
    sqs.send(QUEUE, message("1")).unwrap();
    sqs.receive(QUEUE, 1, None).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    sqs.receive(QUEUE, 1, None).unwrap();
    sqs.send(QUEUE, message("2")).unwrap();
    let dead = sqs.messages(DEAD).unwrap().remove(0);

    assert_eq!(sqs.redrive(DEAD, QUEUE).unwrap(), 1);
    assert_eq!(bodies(&sqs, QUEUE), ["2", "1"]);
    assert_eq!(bodies(&sqs, DEAD), [""; 0]);
    assert_eq!(bodies(&open(&database), QUEUE), ["2", "1"]);
    let redriven = sqs.messages(QUEUE).unwrap().remove(1);
    assert_ne!(redriven.id(), dead.id());
    assert_eq!(redriven.receive_count, 0);
}

#[tokio::test(start_paused = true)]
async fn batch_is_deleted_without_the_messages_whose_handles_have_expired() {
    let database = Database::memory().unwrap();
    let sqs = open(&database);
    for body in ["1", "2", "3"] {
        sqs.send(DEAD, message(body)).unwrap();
    }
    let expired = sqs.receive(DEAD, 1, None).unwrap().remove(0).receipt_handle;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let received = sqs.receive(DEAD, 2, None).unwrap();
    let handles = [expired.as_str(), "no handle", received[1].receipt_handle.as_str()];
    sqs.delete_batch(DEAD, handles).unwrap();

    for sqs in [sqs, open(&database)] {
        assert_eq!(bodies(&sqs, DEAD), ["1", "3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_is_older_than_the_retention_is_gone() {
    let database = Database::memory().unwrap();
    let sqs = open(&database);
    sqs.send(QUEUE, message("1")).unwrap();
    sqs.send(DEAD, message("2")).unwrap();
    sqs.receive(DEAD, 1, Some(120_000)).unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    sqs.send(QUEUE, message("3")).unwrap();
    assert_eq!(bodies(&sqs, QUEUE), ["1", "3"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sqs.receive(QUEUE, 10, None).unwrap().len(), 1);
    assert_eq!(sqs.depth(DEAD).unwrap(), Depth::default(), "a message in flight expires too");

    for sqs in [sqs, open(&database)] {
        assert_eq!(bodies(&sqs, QUEUE), ["3"]);
        assert_eq!(bodies(&sqs, DEAD), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_receive_ends_with_a_send_a_timeout_or_its_time() {
    let sqs = std::sync::Arc::new(open(&Database::memory().unwrap()));
    let started = tokio::time::Instant::now();

    assert_eq!(sqs.long_poll(QUEUE, 1, None, 20_000).await.unwrap(), []);
    assert_eq!(started.elapsed(), Duration::from_secs(20));

    let waiting = tokio::spawn({
        let sqs = sqs.clone();
        async move { sqs.long_poll(QUEUE, 1, None, 20_000).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    sqs.send(QUEUE, message("1")).unwrap();
    assert_eq!(waiting.await.unwrap().len(), 1);
    assert_eq!(started.elapsed(), Duration::from_secs(23));

    sqs.send(DEAD, message("2")).unwrap();
    sqs.receive(DEAD, 1, None).unwrap();
    assert_eq!(sqs.long_poll(DEAD, 1, None, 20_000).await.unwrap().len(), 1);
    assert_eq!(started.elapsed(), Duration::from_secs(24));
}

#[test]
fn received_message_reads_as_the_event_of_a_function() {
    let sqs = open(&Database::memory().unwrap());
    sqs.send(QUEUE, message("hello")).unwrap();
    let received = sqs.receive(QUEUE, 1, None).unwrap();

    let records: Vec<Value> = received.iter().map(|received| to_event_record(QUEUE, received)).collect();
    let event: aws_lambda_events::event::sqs::SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
    let record = &event.records[0];
    assert_eq!(record.body.as_deref(), Some("hello"));
    assert_eq!(record.attributes["MessageGroupId"], "g");
    assert_eq!(record.attributes["ApproximateReceiveCount"], "1");
}
