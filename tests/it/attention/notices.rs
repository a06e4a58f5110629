//! Notices to operators about new trouble, and dead letters that the consumer did not note.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, INBOX_TABLE};
use switchhook_tests::{MAX_RECEIVE_COUNT, MINUTE, World, down, generic, is_request_to, text};

use super::{marked, named};

/// The notices that were published.
fn notices(world: &World) -> Vec<Value> {
    world.domain_events().into_iter().filter(|event| event["type"] == "operator.attention").collect()
}

async fn quarantine(world: &World, count: usize) {
    for number in 0..count {
        world.post(Provider::Generic, &format!("{{{number} {}", world.now())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn notice_counts_what_is_new_and_names_the_first_ten() {
    let world = World::new();
    quarantine(&world, 12).await;
    let at = world.now();
    world.wait(MINUTE * 2).await;
    let first = notices(&world);
    assert_eq!(first.len(), 1);
    let expected = json!([
        format!("operator.attention/quarantined/0-{}-12", at.as_millis()),
        "quarantined",
        12,
        false,
        10,
        null,
        "invalid_json"
    ]);
    let event = &first[0];
    let shown = json!([
        event["id"],
        event["kind"],
        event["count"],
        event["more"],
        event["events"].as_array().unwrap().len(),
        event["events"][0]["call_id"],
        event["events"][0]["cause"],
    ]);
    assert_eq!(shown, expected);

    // Within ten minutes there is no second notice. After them there is one, about the new events since the first.
    quarantine(&world, 2).await;
    world.wait(MINUTE * 8).await;
    assert_eq!(notices(&world).len(), 1);
    world.wait(MINUTE * 3).await;
    let second = notices(&world);
    assert_eq!((second.len(), &second[1]["count"]), (2, &json!(2)));
    assert_ne!(second[1]["id"], second[0]["id"]);
    world.wait(MINUTE * 60).await;
    assert_eq!(notices(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn notice_that_was_published_before_its_cursor_moved_is_repeated_under_its_id() {
    let world = World::stopped();
    quarantine(&world, 1).await;
    let id = format!("operator.attention/quarantined/0-{}-1", world.now().as_millis());
    world.wait(MINUTE).await;
    world.set_fault_hook(|call| {
        let is_cursor = String::from_utf8_lossy(call.body).contains("sweep:attention");
        (call.operation == "PutItem" && is_cursor).then(down)
    });
    assert!(world.reconciler.run("test").await.is_err());
    world.clear_faults();
    world.reconciler.run("test").await.unwrap();
    world.reconciler.run("test").await.unwrap();
    let ids: Vec<String> = notices(&world).iter().map(|event| text(&event["id"])).collect();
    assert_eq!(ids, [id.clone(), id]);
    assert_eq!(notices(&world)[0], notices(&world)[1]);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_retried_for_five_minutes_is_published_once() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(notices(&world), Vec::<Value>::new());
    world.wait(MINUTE * 30).await;
    let event = json!({"event_id": "generic:e1", "call_id": "c1", "entity": null, "cause": "write_call"});
    let shown: Vec<Value> =
        notices(&world).iter().map(|notice| json!([notice["kind"], notice["count"], notice["events"]])).collect();
    assert_eq!(shown, [json!(["retrying", 1, [event]])]);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_folded_after_some_retries_is_not_published() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, 3, down());
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 15).await;
    assert!(!world.logged("retried").is_empty());
    assert_eq!(notices(&world), Vec::<Value>::new());
}

/// Queues one event of `c1` for each name. Every consumer crashes before it can write a note, so all become dead letters.
async fn dead_letters_without_note(world: &World, names: &[String]) {
    for name in names {
        world.accept(Provider::Generic, &generic("c1", name, "RINGING", 0)).await;
    }
    receive_until_dead(world, names.len()).await;
}

/// Receives the messages of the queue until all are dead letters.
async fn receive_until_dead(world: &World, messages: usize) {
    for _ in 0..(MAX_RECEIVE_COUNT as usize + 1) * messages.div_ceil(10) {
        drop(world.receive());
        world.wait(MINUTE * 2).await;
    }
    assert_eq!(world.dead_letters().len(), messages);
}

/// Number of dead letters that a run marked.
async fn newly_marked(world: &World) -> u64 {
    world.reconciler.run("test").await.unwrap().dead_letters_marked
}

#[tokio::test(start_paused = true)]
async fn dead_letter_that_no_consumer_noted_is_marked_and_published() {
    let world = World::stopped();
    dead_letters_without_note(&world, &["e1".to_owned()]).await;
    let id = EventId::new("generic:e1");
    assert_eq!(world.inbox.get_note(&id).await.unwrap(), None);
    let report = world.reconciler.run("test").await.unwrap();
    // The sweep came first, and found an event that nobody had folded.
    assert_eq!((report.dead_letters_marked, report.notices), (1, 1));
    assert_eq!(notices(&world)[0]["kind"], "retrying");
    assert_eq!(marked(&world, AttentionKind::DeadLettered).await, named("generic:e1", "crashed_or_throttled"));
    assert!(world.inbox.get_note(&id).await.unwrap().unwrap().dead_lettered_at.is_some());
    assert_eq!(world.inbox.unfolded_events(&[CallId::new("c1")].into()).await.unwrap()[0].event_id, Some(id));
    let visible = world.cloud.services().sqs().receive(EVENTS_DEAD_LETTER_QUEUE, 10, None).unwrap();
    assert_eq!(visible.len(), 1, "the message must be visible again");

    world.wait(MINUTE).await;
    drop(world.requests());
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.dead_letters_marked, report.notices), (0, 1));
    assert!(!world.requests().contains_key("ReceiveMessage"), "the queue has not grown");
    let notice = &notices(&world)[1];
    let event = json!({"event_id": "generic:e1", "call_id": "c1", "entity": null, "cause": "crashed_or_throttled"});
    assert_eq!((&notice["kind"], &notice["events"]), (&json!("dead_lettered"), &json!([event])));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_a_run_has_no_time_for_are_marked_by_the_next_and_other_notices_do_not_wait() {
    const CALLS: usize = 150;
    let world = World::stopped();
    for number in 0..CALLS {
        let (call_id, event_id) = (format!("c{number}"), format!("e{number}"));
        world.accept(Provider::Generic, &generic(&call_id, &event_id, "RINGING", 0)).await;
    }
    receive_until_dead(&world, CALLS).await;
    quarantine(&world, 1).await;
    world.wait(MINUTE).await;
    world.set_fault_hook(|call| {
        let is_slow = match call.operation {
            "ReceiveMessage" => is_request_to(call, EVENTS_DEAD_LETTER_QUEUE),
            operation => operation == "UpdateItem" && is_request_to(call, INBOX_TABLE),
        };
        is_slow.then_some(Fault::Delay(Duration::from_millis(950)))
    });
    let first = newly_marked(&world).await;
    assert!((10..CALLS as u64).contains(&first), "{first} dead letters are marked");
    assert!(notices(&world).iter().any(|notice| notice["kind"] == "quarantined"), "{:?}", notices(&world));
    world.clear_faults();
    world.wait(MINUTE).await;
    assert_eq!(first + newly_marked(&world).await, CALLS as u64);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_that_another_reader_hides_is_marked_later() {
    let world = World::stopped();
    dead_letters_without_note(&world, &["e1".to_owned()]).await;
    let read = world.cloud.services().sqs().receive(EVENTS_DEAD_LETTER_QUEUE, 10, Some(90_000)).unwrap();
    assert_eq!((read.len(), newly_marked(&world).await), (1, 0));
    world.wait(MINUTE * 2).await;
    assert_eq!(newly_marked(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_are_behind_others_of_their_call_are_not_waited_for() {
    let world = World::stopped();
    let names: Vec<String> = (10..22).map(|number| format!("e{number}")).collect();
    dead_letters_without_note(&world, &names).await;
    // A FIFO queue gives ten messages of a call, and none of the others while these are hidden.
    assert_eq!(newly_marked(&world).await, 10);
    world.wait(MINUTE).await;
    drop(world.requests());
    assert_eq!(newly_marked(&world).await, 0);
    assert!(!world.requests().contains_key("ReceiveMessage"), "the queue has not grown");
}

#[tokio::test(start_paused = true)]
async fn note_of_the_consumer_stays_and_only_its_kind_changes() {
    let world = World::stopped();
    let id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.inject_fault("GetItem", CALLS_TABLE, 1, down());
    world.consume(&world.receive()).await;
    assert_eq!(marked(&world, AttentionKind::Retrying).await, named("generic:e1", "read_call"));
    for _ in 0..MAX_RECEIVE_COUNT {
        world.wait(MINUTE * 2).await;
        drop(world.receive());
    }
    world.reconciler.run("test").await.unwrap();
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    assert_eq!(marked(&world, AttentionKind::DeadLettered).await, named("generic:e1", "read_call"));
    let note = world.inbox.get_note(&EventId::new(id.as_str())).await.unwrap().unwrap();
    assert_eq!((note.attempts, note.next_retry_at), (1, None));
}
