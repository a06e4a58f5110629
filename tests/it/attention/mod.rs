//! Inbox items that a person should look at: which ones the index holds, and until when.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod folded;
mod notices;
mod removal;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_aws::shards::{SHARDS_DEFAULT, shards_of_marks};
use switchhook_domain::{ATTEMPT_EVENTS_MAX, CallId, EventId, Origin, Provider, Timestamp};
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_operate::events::{self, Filter};
use switchhook_tests::{MINUTE, World, down, generic};

use crate::outbound::{call_request, create};
use crate::repair::{drop_messages, stack_of};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The ids and causes of the events of a kind.
async fn marked(world: &World, kind: AttentionKind) -> Vec<(String, String)> {
    let all = world.attention(kind).await.into_iter();
    all.map(|one| (one.event_id.unwrap().to_string(), one.cause.unwrap())).collect()
}

fn named(event_id: &str, cause: &str) -> Vec<(String, String)> {
    vec![(event_id.to_owned(), cause.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn healthy_event_is_in_no_list() {
    let world = World::new();
    for (number, word) in ["CALL_STARTED", "RINGING", "ANSWERED", "ENDED", "SOMETHING_ELSE"].into_iter().enumerate() {
        world.post(Provider::Generic, &generic("c1", &format!("e{number}"), word, 0)).await;
    }
    world.wait(HOUR * 2).await;
    assert!(world.call("c1").await.is_settled());
    for kind in AttentionKind::ALL {
        assert_eq!(world.attention(kind).await, [], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_that_cannot_be_read_is_listed_with_its_cause() {
    let world = World::new();
    let (_, answer) = world.post(Provider::Generic, "{").await;
    let event_id = EventId::new(answer["event_id"].as_str().unwrap());
    let expected = Attention {
        kind: AttentionKind::Quarantined,
        item_key: event_id.to_string(),
        event_id: Some(event_id.clone()),
        call_id: None,
        origin: Some(Origin::Provider(Provider::Generic)),
        event_type: None,
        cause: Some("invalid_json".to_owned()),
        at: world.now(),
    };
    assert_eq!(world.attention(AttentionKind::Quarantined).await, [expected]);
    assert!(world.inbox.clear_attention(event_id.as_str()).await.unwrap());
    assert!(!world.inbox.clear_attention(event_id.as_str()).await.unwrap());
    assert_eq!(world.attention(AttentionKind::Quarantined).await, []);
    assert!(world.inbox.get(&event_id).await.unwrap().is_some(), "the event itself must stay");
}

#[tokio::test(start_paused = true)]
async fn event_beyond_the_limit_of_its_call_is_listed_with_its_call() {
    let world = World::new();
    for number in 0..=ATTEMPT_EVENTS_MAX {
        world.accept(Provider::Generic, &generic("c1", &format!("e{number}"), "RINGING", 0)).await;
        world.quiesce().await;
    }
    let listed = world.attention(AttentionKind::Quarantined).await;
    assert_eq!(listed.len(), 1);
    let Attention { item_key, event_id, call_id, event_type, cause, .. } = listed[0].clone();
    assert_eq!((item_key.as_str(), event_id), ("note:generic:e64", Some(EventId::new("generic:e64"))));
    assert_eq!((call_id, event_type.as_deref()), (Some(CallId::new("c1")), Some("RINGING")));
    assert_eq!(cause.as_deref(), Some("call_full"));
}

#[tokio::test(start_paused = true)]
async fn conflicting_body_is_listed_once() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "ANSWERED", 0)).await;
    for word in ["FAILED", "BUSY"] {
        world.post(Provider::Generic, &generic("c1", "e1", word, 0)).await;
    }
    let listed = world.attention(AttentionKind::Conflict).await;
    assert_eq!(marked(&world, AttentionKind::Conflict).await, named("generic:e1", "conflicting_body"));
    assert_eq!((listed[0].item_key.as_str(), &listed[0].call_id), ("conflict:generic:e1", &Some(CallId::new("c1"))));
}

#[tokio::test(start_paused = true)]
async fn retried_event_is_listed_since_its_first_try_and_until_it_is_folded() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, 3, down());
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait(Duration::from_millis(100)).await;
    let first = world.attention(AttentionKind::Retrying).await;
    assert_eq!(marked(&world, AttentionKind::Retrying).await, named("generic:e1", "write_call"));
    world.wait(Duration::from_secs(4)).await;
    let retried = world.logged("retried");
    assert!(retried.len() >= 2 && retried.iter().all(|line| line["provider"] == "generic"), "{retried:?}");
    assert_eq!(world.attention(AttentionKind::Retrying).await, first, "the time must be that of the first try");
    world.wait(MINUTE).await;
    assert_eq!(world.call("c1").await.version, 1);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    let note = world.inbox.get_note(&EventId::new("generic:e1")).await.unwrap().unwrap();
    assert_eq!((note.attempts, note.cause.as_deref()), (3, Some("write_call")), "the note itself must stay");
}

#[tokio::test(start_paused = true)]
async fn event_that_is_not_folded_is_listed_since_its_receipt_and_until_it_is_folded() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let received_at = world.now();
    world.wait(MINUTE * 3).await;
    assert_eq!(world.reconciler.run("test").await.unwrap().requeued, 1);
    let listed = world.attention(AttentionKind::Retrying).await;
    let shown: Vec<_> = listed.into_iter().map(|one| (one.event_id, one.call_id, one.cause, one.at)).collect();
    assert_eq!(shown, [(Some(EventId::new("generic:e1")), Some(CallId::new("c1")), None, received_at)]);
    assert_eq!(world.consume(&world.receive()).await, 1);
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// Selects the events of the last day with this status.
fn of_status(world: &World, status: &str) -> Filter {
    Filter {
        status: Some(status.to_owned()),
        provider: None,
        event_type: None,
        call: None,
        since: world.now().minus(HOUR * 24),
        until: world.now().plus(MINUTE),
        limit: 20,
    }
}

/// The events that a list with this status shows.
async fn with_status(world: &World, status: &str) -> Vec<String> {
    let page = events::list(&stack_of(world), &of_status(world, status)).await.unwrap();
    // Queued events are looked for by their time too.
    assert_eq!(page.next_until.is_some(), status == "queued", "{page:?}");
    page.events.into_iter().map(|line| line.event_id).collect()
}

/// A list by time reads the newest events, and the first minutes of an alarm bring more than it reads.
#[tokio::test(start_paused = true)]
async fn event_with_trouble_is_listed_however_many_others_have_arrived_since() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "queued", "RINGING", 0)).await;
    drop_messages(&world);
    world.wait(MINUTE * 3).await;
    assert_eq!(world.reconciler.run("test").await.unwrap().requeued, 1);
    drop_messages(&world);
    world.accept(Provider::Generic, &generic("c2", "retried", "RINGING", 0)).await;
    world.inject_fault("GetItem", CALLS_TABLE, 1, down());
    world.consume(&world.receive()).await;
    drop_messages(&world);
    for number in 0..300 {
        world.post(Provider::Generic, &generic("other", &format!("e{number}"), "SOMETHING_ELSE", 0)).await;
    }
    assert_eq!(with_status(&world, "retrying").await, ["generic:retried"]);
    assert_eq!(with_status(&world, "queued").await, ["generic:queued"]);
    world.accept(Provider::Generic, &generic("c3", "new", "RINGING", 0)).await;
    assert_eq!(with_status(&world, "queued").await, ["generic:new", "generic:queued"]);
}

/// The events of a call that a list shows, all of them or those with this status.
async fn of_call(world: &World, call_id: &str, status: Option<&str>) -> Vec<String> {
    let status = status.map(str::to_owned);
    let filter = Filter { status, call: Some(CallId::new(call_id)), ..of_status(world, "") };
    let page = events::list(&stack_of(world), &filter).await.unwrap();
    page.events.into_iter().map(|line| line.event_id).collect()
}

/// The sender's clock is ahead, so by its times the attempt begins after all its events have arrived.
#[tokio::test(start_paused = true)]
async fn events_of_a_call_are_listed_although_the_clock_of_their_sender_is_ahead() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 2 * 60 * 60)).await;
    assert_eq!(world.consume(&world.receive()).await, 1);
    world.post(Provider::Generic, &generic("c1", "e2", "SOMETHING_ELSE", 2 * 60 * 60)).await;
    assert_eq!(of_call(&world, "c1", None).await, ["generic:e2", "generic:e1"]);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_of_a_call_that_was_not_dialled_yet_is_listed() {
    let world = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T05:00:00Z");
    let call_id = create(&world, &request).await;
    world.wait(HOUR).await;
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    let event_id = world.accept(Provider::Generic, &generic(&call_id, "e1", "RINGING", 0)).await;
    world.wait(MINUTE * 4).await;
    assert!(world.inbox.give_up(&event_id, world.now()).await.unwrap());
    assert_eq!(of_call(&world, &call_id, Some("dead_lettered")).await, [event_id.as_str()]);
}

/// The events of one batch are marked with one time. A page examines 200 of them.
#[tokio::test(start_paused = true)]
async fn pages_leave_out_no_event_that_has_its_time_of_trouble_in_common_with_others() {
    let pair_between_two_pages: Vec<i64> = [0, 0].into_iter().chain(1..=199).collect();
    for times in [pair_between_two_pages, vec![0; 230]] {
        let world = World::stopped();
        world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
        world.inject_fault("GetItem", CALLS_TABLE, 1, down());
        world.consume(&world.receive()).await;
        let items = world.items(INBOX_TABLE).await;
        let item = |key: &str| items.iter().find(|item| item["event_id"] == AttributeValue::S(key.to_owned())).unwrap();
        let keys = |prefix: &'static str| {
            (0..times.len()).map(move |n| ("event_id", AttributeValue::S(format!("{prefix}generic:copy{n}"))))
        };
        world.store_copies(INBOX_TABLE, item("generic:e1"), keys("").map(|key| vec![key]));
        let at = |time: &i64| AttributeValue::N((world.now().as_millis() + time).to_string());
        let marked = keys("note:").zip(&times).map(|(key, time)| vec![key, ("attention_at", at(time))]);
        world.store_copies(INBOX_TABLE, item("note:generic:e1"), marked);
        world.delete_item(INBOX_TABLE, "note:generic:e1").await;

        let stack = stack_of(&world);
        let mut filter = Filter { limit: 1_000, ..of_status(&world, "retrying") };
        let mut listed = Vec::new();
        loop {
            let page = events::list(&stack, &filter).await.unwrap();
            listed.extend(page.events.into_iter().map(|line| line.event_id));
            let Some(next) = page.next_until else { break };
            filter.until = Timestamp::parse_rfc3339(&next).unwrap();
        }
        let different: BTreeSet<&String> = listed.iter().collect();
        assert_eq!((listed.len(), different.len()), (times.len(), times.len()));
    }
}

#[tokio::test(start_paused = true)]
async fn event_that_the_consumer_decided_against_is_not_listed_as_retried() {
    let world = World::new();
    for number in 0..=ATTEMPT_EVENTS_MAX {
        world.accept(Provider::Generic, &generic("c1", &format!("e{number}"), "RINGING", 0)).await;
        world.quiesce().await;
    }
    world.wait(MINUTE * 4).await;
    assert!(!world.logged("reconciled").is_empty());
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

#[tokio::test(start_paused = true)]
async fn dead_letter_is_listed_with_its_cause() {
    let mut world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, down());
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.wait_for_dead_letters(1).await;
    assert_eq!(world.dead_letters().len(), 1);
    assert_eq!(world.logged("given_up")[0]["provider"], "generic");
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    assert_eq!(marked(&world, AttentionKind::DeadLettered).await, named("generic:e1", "write_call"));
    let at = world.attention(AttentionKind::DeadLettered).await[0].at;
    let shard = shard_of("note:generic:e1", shards_of_marks(SHARDS_DEFAULT));
    let of = |at| world.inbox.attention_pages(AttentionKind::DeadLettered, shard, Some(at), None);
    assert_eq!(of(at).next().await.unwrap().unwrap().items, [], "only items marked before that time");
    assert_eq!(of(at.plus(Duration::from_millis(1))).next().await.unwrap().unwrap().items.len(), 1);
    world.clear_faults();
    assert_eq!(world.cloud.services().sqs().redrive(EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE).unwrap(), 1);
    world.quiesce().await;
    assert_eq!(world.attention(AttentionKind::DeadLettered).await, [], "a redriven event is folded");
}
