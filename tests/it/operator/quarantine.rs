//! Quarantined events are listed, read again by a newer version, and discarded.

use std::collections::BTreeMap;

use serde_json::json;
use switchhook_aws::inbox::{NewEvent, PutOutcome};
use switchhook_domain::{Disposition, EventId, Origin, Provider};
use switchhook_operate::dead_letters::{self, LetterFilter};
use switchhook_operate::events;
use switchhook_operate::plan::EFFECTS_MAX;
use switchhook_operate::quarantine::{
    LISTED_DEFAULT, QuarantineFilter, QuarantinedBy, list, plan_discard, plan_reprocess,
};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{MINUTE, World, generic, text};

use super::{MAX, carry_out, carry_out_in_two, carry_out_killed, stack};
use crate::repair::{consume_all, everything, plan_replay};

/// Posts a body that no version can read. Returns its id.
pub(crate) async fn unreadable(world: &World) -> EventId {
    let (_, answer) = world.post(Provider::Generic, "not JSON").await;
    assert_eq!(answer["status"], json!("quarantined"), "{answer}");
    EventId::new(text(&answer["event_id"]))
}

/// Stores an event as a version did that could not read its body: under the hash of the body, with the notice of ingress. This
/// version can read the body.
pub(crate) async fn quarantined_by_older_version(world: &World, call_id: &str, disposition: Disposition) -> EventId {
    let event = event_of_older_version(world, call_id, disposition);
    assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
    let stack = stack(world);
    stack.dlq.send_quarantine_notice(&event.event_id, "the body is not a JSON object", "trace").await.unwrap();
    event.event_id
}

fn event_of_older_version(world: &World, call_id: &str, disposition: Disposition) -> NewEvent {
    NewEvent {
        event_id: EventId::new(format!("generic:sha256-{call_id}")),
        call_id: None,
        origin: Origin::Provider(Provider::Generic),
        event_type: String::new(),
        occurred_at: None,
        received_at: world.now(),
        query: String::new(),
        body: generic(call_id, "e1", "RINGING", 0).into_bytes(),
        key_index: 0,
        headers: BTreeMap::new(),
        disposition: Some(disposition),
        reading: None,
        decision: None,
        cause: None,
        trace_id: "trace".to_owned(),
    }
}

fn all() -> QuarantineFilter {
    QuarantineFilter { all: true, ..QuarantineFilter::default() }
}

fn only(event_id: &EventId) -> QuarantineFilter {
    QuarantineFilter { event_ids: vec![event_id.clone()], ..QuarantineFilter::default() }
}

#[tokio::test(start_paused = true)]
async fn event_is_listed_and_shown_with_the_cause() {
    let world = World::new();
    let event_id = unreadable(&world).await;
    let stack = stack(&world);
    let listed = list(&stack, LISTED_DEFAULT).await.unwrap();
    assert_eq!((listed.len(), &listed[0].event_id, listed[0].by), (1, &event_id, QuarantinedBy::Ingress));
    let shown = events::show(&stack, &event_id).await.unwrap().unwrap();
    assert_eq!((shown.line.status, shown.line.error.as_deref()), ("quarantined", Some("the body is not JSON")));
    assert_eq!(shown.headers["switchhook-version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(start_paused = true)]
async fn reprocess_folds_what_this_version_can_read_under_its_old_id() {
    let world = World::new();
    let first = quarantined_by_older_version(&world, "c1", Disposition::Quarantined).await;
    let second = quarantined_by_older_version(&world, "c2", Disposition::Quarantined).await;
    let hopeless = unreadable(&world).await;
    let stack = stack(&world);
    let plan = plan_reprocess(&stack, &all(), MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.skipped_count), (2, 1), "{plan:?}");
    assert_eq!(plan.skipped[0].item, hopeless.as_str());
    assert!(plan.skipped[0].reason.contains("not JSON"), "{plan:?}");
    assert_eq!(plan.effects[0].after.as_ref().unwrap().lifecycle, "ringing");

    let run = carry_out_in_two(&stack, &plan).await;
    assert_eq!(run.result(), "2 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    for (call, event_id) in [("c1", &first), ("c2", &second)] {
        assert!(world.call(call).await.contains_event(event_id));
        assert_eq!(world.status(event_id).await["status"], json!("processed"));
    }
    let left: Vec<EventId> = list(&stack, LISTED_DEFAULT).await.unwrap().into_iter().map(|one| one.event_id).collect();
    assert_eq!(left, std::slice::from_ref(&hopeless));
    assert_eq!(world.dead_letters().len(), 1, "the notices of the others are deleted");

    // A refold finds the event like any other.
    let events = world.inbox.events_of_call(&world.call("c1").await, world.now()).await.unwrap().unwrap();
    assert_eq!(events.iter().map(|event| &event.event_id).collect::<Vec<_>>(), [&first]);
}

#[tokio::test(start_paused = true)]
async fn event_that_was_made_foldable_and_never_queued_is_finished_by_a_repetition() {
    let world = World::new();
    let event_id = quarantined_by_older_version(&world, "c1", Disposition::Quarantined).await;
    // A run died after its first write.
    let stored = world.inbox.get(&event_id).await.unwrap().unwrap();
    let _ = world.inbox.make_foldable(&stored, None).await.unwrap();
    let stack = stack(&world);
    assert_eq!(
        list(&stack, LISTED_DEFAULT).await.unwrap()[0].event_id,
        event_id,
        "it needs attention until it is queued"
    );
    let plan = plan_reprocess(&stack, &all(), MAX).await.unwrap();
    carry_out(&stack, &plan).await;
    world.quiesce().await;
    assert!(world.call("c1").await.contains_event(&event_id));
    assert!(list(&stack, LISTED_DEFAULT).await.unwrap().is_empty());
    assert!(world.dead_letters().is_empty());
    // Once more changes nothing.
    let again = plan_reprocess(&stack, &only(&event_id), MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &again).await.result(), "0 done, 1 unchanged, 0 skipped");
}

#[tokio::test(start_paused = true)]
async fn quarantined_event_that_is_replayed_is_off_the_list() {
    let world = World::new();
    let event_id = quarantined_by_older_version(&world, "c1", Disposition::Quarantined).await;
    let stack = stack(&world);
    carry_out(&stack, &plan_replay(&stack, &everything()).await).await;
    world.quiesce().await;
    assert!(world.call("c1").await.contains_event(&event_id));
    assert!(list(&stack, LISTED_DEFAULT).await.unwrap().is_empty());
    assert!(world.dead_letters().is_empty(), "its notice is deleted too");
}

#[tokio::test(start_paused = true)]
async fn notice_of_an_event_that_is_no_longer_quarantined_can_be_discarded() {
    let world = World::new();
    let read_since = quarantined_by_older_version(&world, "c1", Disposition::Quarantined).await;
    let hopeless = unreadable(&world).await;
    world.inbox.clear_attention(read_since.as_str()).await.unwrap();
    let stack = stack(&world);
    let all = LetterFilter { all: true, ..LetterFilter::default() };
    let plan = dead_letters::plan_discard(&stack, &all, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    let left = dead_letters::list(&stack, MAX).await.unwrap();
    assert_eq!(left.iter().map(|(_, letter)| letter.key.as_str()).collect::<Vec<_>>(), [hopeless.as_str()]);
}

/// The run is killed at each of its requests in turn.
#[tokio::test(start_paused = true)]
async fn quarantined_event_whose_replay_was_killed_is_off_the_list_after_it_is_resumed() {
    let mut is_killed = true;
    let mut requests = 0;
    while is_killed {
        let world = World::stopped();
        let event_id = quarantined_by_older_version(&world, "c1", Disposition::Quarantined).await;
        let stack = stack(&world);
        let plan = plan_replay(&stack, &everything()).await;
        (_, is_killed) = carry_out_killed(&world, &plan, requests, async || consume_all(&world).await).await;
        consume_all(&world).await;
        assert!(world.call("c1").await.contains_event(&event_id));
        assert!(list(&stack, LISTED_DEFAULT).await.unwrap().is_empty(), "killed after {requests} requests");
        requests += 1;
    }
    assert!(requests > 5, "{requests}");
}

#[tokio::test(start_paused = true)]
async fn every_event_of_a_long_plan_is_folded() {
    let world = World::new();
    let calls = EFFECTS_MAX + 1;
    for number in 0..calls {
        quarantined_by_older_version(&world, &format!("c{number}"), Disposition::Quarantined).await;
    }
    let stack = stack(&world);
    let plan = plan_reprocess(&stack, &all(), MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.calls, plan.effects.len()), (calls, calls, EFFECTS_MAX));
    assert_eq!(carry_out(&stack, &plan).await.result(), format!("{calls} done, 0 unchanged, 0 skipped"));
    world.quiesce().await;
    assert_eq!(world.call(&format!("c{EFFECTS_MAX}")).await.history.len(), 1);
    assert!(world.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn old_event_behind_many_others_is_selected() {
    let world = World::new();
    let event_id = unreadable(&world).await;
    let stack = stack(&world);
    let cause = list(&stack, LISTED_DEFAULT).await.unwrap()[0].cause.clone().unwrap();
    world.wait(MINUTE).await;
    for number in 0..=LISTED_DEFAULT {
        let event = event_of_older_version(&world, &format!("c{number}"), Disposition::Quarantined);
        assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
    }
    let filter = QuarantineFilter { cause: Some(cause), ..QuarantineFilter::default() };
    let plan = plan_discard(&stack, &filter, 1).await.unwrap();
    assert_eq!((plan.items.len(), plan.capped), (1, false), "{plan:?}");
    assert_eq!(plan.items[0].event_id.as_ref(), Some(&event_id));
    let earliest = plan_discard(&stack, &all(), 1).await.unwrap();
    assert_eq!((earliest.items.len(), earliest.capped), (1, true));
    assert_eq!(earliest.items[0].event_id.as_ref(), Some(&event_id));
}

#[tokio::test(start_paused = true)]
async fn discard_takes_it_off_the_list_and_keeps_the_event() {
    let world = World::new();
    let event_id = unreadable(&world).await;
    let stack = stack(&world);
    let none = plan_discard(&stack, &QuarantineFilter::default(), MAX).await;
    assert!(matches!(none, Err(Error::Refusal(Refusal::EmptyFilter(_)))), "{none:?}");
    let plan = plan_discard(&stack, &only(&event_id), MAX).await.unwrap();
    carry_out(&stack, &plan).await;
    assert!(list(&stack, LISTED_DEFAULT).await.unwrap().is_empty());
    assert!(world.dead_letters().is_empty());
    assert!(world.inbox.get(&event_id).await.unwrap().is_some());
}
