//! Marks of events that are folded. The reconciler removes them, so that they count for nothing.

use std::time::Duration;

use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::{AttentionKind, NewEvent, Note, submit};
use switchhook_domain::{AttemptKey, CallId, EventId, Provider, ProviderEvent};
use switchhook_local::connector::Fault;
use switchhook_tests::{INBOX_RETENTION, MINUTE, World, generic};

/// Marks an event, as the sweep does if it read the call before the fold.
pub(crate) async fn mark(world: &World, event_id: &EventId) {
    let stored = world.inbox.get(event_id).await.unwrap().unwrap();
    world.inbox.mark_unfolded(&stored, stored.received_at, world.now()).await.unwrap();
}

/// Folds the event `generic:e1` into the call `c1`.
async fn fold_first(world: &World) {
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.consume(&world.receive()).await;
}

/// Folds the first event, and marks this many events that nobody can fold any more, because they were removed from the inbox.
async fn mark_removed(world: &World, count: usize) {
    fold_first(world).await;
    let first = world.inbox.get_normalized(&EventId::new("generic:e1")).await.unwrap().unwrap();
    let note = Note { attempts: 1, next_retry_at: Some(world.now()), ..Note::default() };
    for number in 0..count {
        let event_id = EventId::new(format!("generic:removed{number}"));
        let removed = ProviderEvent { event_id, ..first.clone() };
        world.inbox.put_note(&removed, &note, world.now()).await.unwrap();
    }
}

/// Stores and folds an event that Switchhook itself made.
pub(crate) async fn fold_own(world: &World, event: &ProviderEvent) {
    let new_event = NewEvent::from_switchhook(event, "test").unwrap();
    drop(submit(&world.inbox, &world.queue, &new_event, event).await.unwrap());
    assert_eq!(world.consume(&world.receive()).await, 1);
}

/// Runs the reconciler until marks of now are old enough to be trouble. Expects that it removes them all, and that no run counts them.
async fn all_are_removed(world: &World) {
    assert!(!world.attention(AttentionKind::Retrying).await.is_empty());
    for _ in 0..8 {
        world.wait(MINUTE).await;
        let report = world.reconciler.run("test").await.unwrap();
        assert!(report.unfolded_ms <= 300_000, "{report:?}");
        world.consume(&world.receive()).await;
    }
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// The sweep can read the call before the fold, and write its mark after it.
#[tokio::test(start_paused = true)]
async fn mark_that_comes_after_the_fold_is_removed_and_counts_for_nothing() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    mark(&world, &EventId::new("generic:e1")).await;
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 1);
    world.wait(MINUTE * 8).await;
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    assert!(!world.log_text().contains("unfolded_ms"));
}

#[tokio::test(start_paused = true)]
async fn mark_of_an_event_that_a_later_one_replaced_in_its_call_is_removed() {
    let world = World::stopped();
    fold_first(&world).await;
    let mut replaced = Vec::new();
    for _ in 0..3 {
        world.wait(MINUTE * 3).await;
        world.reconciler.run("test").await.unwrap();
        let call = world.call("c1").await;
        let alive = call.alive_event(&call.attempts()[0], world.now());
        fold_own(&world, &alive).await;
        replaced.push(alive.event_id);
    }
    let latest = replaced.pop().unwrap();
    let call = world.call("c1").await;
    assert!(call.contains_event(&latest) && !replaced.iter().any(|id| call.contains_event(id)));
    // The sweep has passed both.
    world.wait(MINUTE * 3).await;
    world.reconciler.run("test").await.unwrap();
    world.consume(&world.receive()).await;
    for id in &replaced {
        mark(&world, id).await;
    }
    all_are_removed(&world).await;
}

#[tokio::test(start_paused = true)]
async fn mark_of_an_event_of_switchhook_whose_call_became_an_alias_is_removed() {
    let world = World::stopped();
    fold_first(&world).await;
    let call = world.call("c1").await;
    let alive = call.alive_event(&call.attempts()[0], world.now());
    fold_own(&world, &alive).await;
    world.wait(MINUTE * 3).await;
    world.reconciler.run("test").await.unwrap();
    mark(&world, &alive.event_id).await;
    let alias = Alias { call_id: CallId::new("ours"), attempt: AttemptKey::new("1") };
    drop(world.calls.write_alias(&CallId::new("c1"), &alias, INBOX_RETENTION, world.now()).await.unwrap());
    world.wait(MINUTE * 6).await;
    world.reconciler.run("test").await.unwrap();
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
    let note = world.inbox.get_note(&alive.event_id).await.unwrap().unwrap();
    assert_eq!(note.disposition.map(|it| it.as_str()), Some("refused"), "as the consumer would do with the event");
}

/// The alarm must not outlast an incident by an hour.
#[tokio::test(start_paused = true)]
async fn run_removes_many_marks_in_the_seconds_that_it_has() {
    let world = World::stopped();
    mark_removed(&world, 800).await;
    world.wait(MINUTE * 6).await;
    let slow = Duration::from_millis(20);
    world.set_fault_hook(move |call| ["GetItem", "UpdateItem"].contains(&call.operation).then_some(Fault::Delay(slow)));
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!(world.attention(AttentionKind::Retrying).await.len(), 0, "{report:?}");
}

/// The marks that a run has no time for count, until a later run looks at them.
#[tokio::test(start_paused = true)]
async fn many_marks_of_folded_events_take_a_run_only_some_seconds() {
    let world = World::stopped();
    mark_removed(&world, 200).await;
    world.wait(MINUTE * 6).await;
    let slow = Duration::from_millis(500);
    world.set_fault_hook(move |call| (call.operation == "GetItem").then_some(Fault::Delay(slow)));
    let before = world.now();
    let report = world.reconciler.run("test").await.unwrap();
    let spent = world.now().millis_since(before);
    assert!(spent < 25_000 && report.unfolded_ms > 300_000, "{spent} ms, {}", report.unfolded_ms);
    let left = world.attention(AttentionKind::Retrying).await.len();
    assert!((1..200).contains(&left), "{left}");
    world.clear_faults();
    let later = world.reconciler.run("test").await.unwrap().unfolded_ms;
    assert!(later < 300_000, "{later}: the age of the sweep alone");
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}
