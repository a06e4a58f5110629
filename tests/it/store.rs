//! The tables: what each condition lets through, what a row carries, what the indexes hold.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_dynamo::AttributeValue;
use switchhook_aws::Error;
use switchhook_aws::calls::{Found, StoreOutcome, TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::inbox::{NewEvent, Note, PutOutcome, SweepCursor};
use switchhook_domain::{
    ATTEMPT_EVENTS_MAX, AttemptKey, CALL_ATTEMPTS_MAX, Call, CallEvent, CallId, Direction, Disposition, EventId,
    EventKind, Job, Origin, PhoneNumber, Policy, Provider, ProviderEvent, Timestamp, fold,
};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_providers::ID_BYTES_MAX;
use switchhook_tests::{CALL_RETENTION, INACTIVITY_TIMEOUT, Item, KEY, MINUTE, World, generic};

use crate::traffic::{at, noise, retell_call, twilio_call};

const POLICY: Policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT };
/// What DynamoDB takes: 400 KB.
const ITEM_BYTES_MAX: usize = 400 * 1_024;

fn provider_event(call_id: &str, event_id: &str, kind: EventKind, second: u64) -> ProviderEvent {
    ProviderEvent {
        event_id: EventId::new(event_id),
        origin: Origin::Provider(Provider::Generic),
        event_type: kind.as_str().to_owned(),
        call_id: CallId::new(call_id),
        attempt: Some(AttemptKey::new("a1")),
        provider_call_id: Some("a1".to_owned()),
        appointment_id: None,
        direction: None,
        from: None,
        to: None,
        received_at: at(second),
        call_events: vec![CallEvent {
            kind,
            implied: false,
            occurred_at: Some(at(second)),
            sequence: None,
            permanent: false,
        }],
    }
}

fn folded(call: Option<&Call>, events: &[ProviderEvent], second: u64) -> Call {
    fold(call, events, &POLICY, at(second)).transition.unwrap().call
}

async fn store(world: &World, call: &Call) -> StoreOutcome {
    world.calls.store(call, 0, CALL_RETENTION).await.unwrap()
}

// Conditions

#[tokio::test(start_paused = true)]
async fn first_write_of_a_call_needs_its_place_to_be_free() {
    let world = World::stopped();
    let ours = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let theirs = folded(None, &[provider_event("c1", "e2", EventKind::InProgress, 0)], 1);
    assert_eq!(store(&world, &ours).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &theirs).await, StoreOutcome::LostRace);
    assert_eq!(store(&world, &ours).await, StoreOutcome::LostRace, "also to oneself");
    assert_eq!(world.call("c1").await, ours);
}

#[tokio::test(start_paused = true)]
async fn further_write_needs_the_version_that_was_read() {
    let world = World::stopped();
    let first = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let ours = folded(Some(&first), &[provider_event("c1", "e2", EventKind::InProgress, 2)], 3);
    let theirs = folded(Some(&first), &[provider_event("c1", "e3", EventKind::Busy, 2)], 3);
    assert_eq!(store(&world, &ours).await, StoreOutcome::LostRace, "no row yet");
    assert_eq!(world.items(CALLS_TABLE).await, []);
    assert_eq!(store(&world, &first).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &ours).await, StoreOutcome::Committed);
    assert_eq!(store(&world, &theirs).await, StoreOutcome::LostRace);
    assert_eq!(world.call("c1").await, ours);
    let again = folded(Some(&ours), &theirs_events(&theirs), 4);
    assert_eq!(store(&world, &again).await, StoreOutcome::Committed, "after it was read again");
    assert_eq!(world.call("c1").await.version, 3);
}

fn theirs_events(call: &Call) -> Vec<ProviderEvent> {
    let entry = call.history.last().unwrap();
    vec![provider_event(call.call_id.as_str(), entry.source_event_id.as_str(), entry.event.kind, 2)]
}

#[tokio::test(start_paused = true)]
async fn waking_time_of_a_call_moves_under_the_version_that_was_read() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    assert_eq!(
        world.calls.set_wake_at(&call, at(98)).await.unwrap(),
        StoreOutcome::LostRace,
        "no row is made of nothing"
    );
    assert_eq!(world.items(CALLS_TABLE).await, []);

    assert_eq!(store(&world, &call).await, StoreOutcome::Committed);
    assert_eq!(world.calls.set_wake_at(&call, at(99)).await.unwrap(), StoreOutcome::Committed);
    let moved = Call { version: 2, wake_at: Some(at(99)), ..call.clone() };
    assert_eq!(world.call("c1").await, moved, "and nothing else changes");
    assert_eq!(world.calls.set_wake_at(&call, at(100)).await.unwrap(), StoreOutcome::LostRace);
    assert_eq!(world.calls.set_wake_at(&moved, at(101)).await.unwrap(), StoreOutcome::Committed);
    assert_eq!(world.call("c1").await, Call { version: 3, wake_at: Some(at(101)), ..call });
}

#[tokio::test(start_paused = true)]
async fn failure_of_the_database_is_no_lost_race() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    for code in ["ThrottlingException", "InternalServerError", "TransactionConflictException", "ValidationException"] {
        let fault = Fault::ErrorBefore { status: 400, code: code.to_owned() };
        world.inject_fault("PutItem", CALLS_TABLE, 3, fault);
        let written = world.calls.store(&call, 0, CALL_RETENTION).await;
        assert!(matches!(written, Err(Error::WriteCall(_))), "{code}: {written:?}");
    }
    world.clear_faults();
    assert_eq!(world.items(CALLS_TABLE).await, []);
}

#[tokio::test(start_paused = true)]
async fn outage_of_one_stack_takes_no_retries_from_another() {
    let (down, up) = (World::stopped(), World::stopped());
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let fault = || Fault::ErrorBefore { status: 500, code: "InternalServerError".to_owned() };
    down.inject_fault("PutItem", CALLS_TABLE, u64::MAX, fault());
    for _ in 0..200 {
        assert!(down.calls.store(&call, 0, CALL_RETENTION).await.is_err());
    }
    let asked = down.requests()["PutItem"];
    assert!(asked < 3 * 200, "its own quota is used up: {asked}");
    up.inject_fault("PutItem", CALLS_TABLE, 2, fault());
    assert_eq!(store(&up, &call).await, StoreOutcome::Committed, "at the third try");
}

#[tokio::test(start_paused = true)]
async fn database_that_is_throttled_for_a_moment_is_asked_again() {
    let world = World::stopped();
    let call = folded(None, &[provider_event("c1", "e1", EventKind::Ringing, 0)], 1);
    let fault = Fault::ErrorBefore { status: 400, code: "ThrottlingException".to_owned() };
    world.inject_fault("PutItem", CALLS_TABLE, 2, fault);
    let before = world.now();
    assert_eq!(store(&world, &call).await, StoreOutcome::Committed);
    assert!(world.now().millis_since(before) < 500, "and soon");
}

fn new_event(event_id: &str, body: &str) -> NewEvent {
    NewEvent {
        event_id: EventId::new(event_id),
        call_id: Some(CallId::new("c1")),
        origin: Origin::Provider(Provider::Generic),
        event_type: "RINGING".to_owned(),
        occurred_at: None,
        received_at: at(0),
        query: String::new(),
        body: body.as_bytes().to_vec(),
        key_index: 0,
        headers: BTreeMap::new(),
        disposition: None,
        trace_id: "t".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn event_is_kept_once_and_what_stands_there_comes_back() {
    let world = World::stopped();
    let first = new_event("generic:e1", "{\"first\":true}");
    assert!(matches!(world.inbox.put(&first).await.unwrap(), PutOutcome::Stored));
    let item = world.item(INBOX_TABLE, "generic:e1").await;
    for (body, same) in [("{\"first\":true}", true), ("{ \"first\" : true }", true), ("{\"first\":false}", false)] {
        let again = NewEvent { received_at: at(99), trace_id: "u".to_owned(), ..new_event("generic:e1", body) };
        let PutOutcome::Duplicate { stored, same_content } = world.inbox.put(&again).await.unwrap() else {
            panic!("kept twice");
        };
        assert_eq!((same_content, stored.received_at, stored.trace_id.as_str()), (same, at(0), "t"));
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), first.body);
        assert_eq!(world.item(INBOX_TABLE, "generic:e1").await, item);
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_before_there_was_a_dictionary_is_read_and_one_of_a_later_dictionary_waits() {
    let world = World::stopped();
    let body = r#"{"event_id":"e1","type":"RINGING","call_id":"c1"}"#;
    let event = new_event("generic:e1", body);
    assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
    let mut item = world.item(INBOX_TABLE, "generic:e1").await;
    assert_eq!(
        item.insert("dictionary".to_owned(), AttributeValue::N("2".to_owned())),
        Some(AttributeValue::N("1".to_owned()))
    );
    world.put_item(INBOX_TABLE, item.clone()).await;
    let later = world.inbox.get(&event.event_id).await.unwrap().unwrap();
    assert!(matches!(world.inbox.read_body(&later).await, Err(Error::NewerSchema(2))));

    let frame = "28b52ffd20318901007b226576656e745f6964223a226531222c2274797065223a2252494e47494e47222c2263616c6c5f6964223a226331227d";
    let bytes = (0..frame.len()).step_by(2).map(|at| u8::from_str_radix(&frame[at..at + 2], 16).unwrap());
    item.insert("body".to_owned(), AttributeValue::B(bytes.collect()));
    item.remove("dictionary");
    world.put_item(INBOX_TABLE, item).await;
    let before = world.inbox.get(&event.event_id).await.unwrap().unwrap();
    assert_eq!(world.inbox.read_body(&before).await.unwrap(), body.as_bytes());
    let PutOutcome::Duplicate { same_content, .. } = world.inbox.put(&event).await.unwrap() else {
        panic!("kept twice")
    };
    assert!(same_content);
}

#[tokio::test(start_paused = true)]
async fn one_conflicting_body_is_kept() {
    let world = World::stopped();
    assert!(world.inbox.put_conflict(&new_event("generic:e1", "second")).await.unwrap());
    assert!(!world.inbox.put_conflict(&new_event("generic:e1", "third")).await.unwrap());
    assert!(world.inbox.put_conflict(&new_event("generic:e2", "other")).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn cursor_of_the_sweep_moves_from_where_it_was_read() {
    let world = World::stopped();
    let inbox = &world.inbox;
    assert_eq!(inbox.sweep_cursor().await.unwrap(), None);
    let at = |minute| SweepCursor { minute, position: None };
    assert!(!inbox.advance_sweep_cursor(Some(4), &at(5)).await.unwrap(), "there is none to move");
    assert!(inbox.advance_sweep_cursor(None, &at(5)).await.unwrap());
    assert!(!inbox.advance_sweep_cursor(None, &at(6)).await.unwrap(), "another sweep began");
    assert!(!inbox.advance_sweep_cursor(Some(4), &at(6)).await.unwrap(), "another sweep went on");
    assert!(inbox.advance_sweep_cursor(Some(5), &at(6)).await.unwrap());
    assert_eq!(inbox.sweep_cursor().await.unwrap(), Some(at(6)));
}

#[tokio::test(start_paused = true)]
async fn note_reads_back_as_it_was_written_and_the_last_one_stands() {
    let world = World::stopped();
    let id = EventId::new("generic:e1");
    assert_eq!(world.inbox.get_note(&id).await.unwrap(), None);
    let notes = [
        Note {
            attempts: 3,
            error: Some("could not read the call".to_owned()),
            next_retry_at: Some(at(5)),
            dead_lettered_at: None,
            disposition: None,
        },
        Note { attempts: 20, dead_lettered_at: Some(at(6)), ..Note::default() },
        Note { disposition: Some(Disposition::Refused), ..Note::default() },
    ];
    for note in notes {
        world.inbox.put_note(&id, &note, at(0)).await.unwrap();
        assert_eq!(world.inbox.get_note(&id).await.unwrap(), Some(note));
    }
}

#[tokio::test(start_paused = true)]
async fn everything_stored_knows_when_it_may_be_removed() {
    let world = World::new();
    let large = serde_json::json!({"event_id": "large", "type": "RINGING", "call_id": "c1", "noise": noise(500_000)})
        .to_string();
    world.accept(Provider::Generic, &large).await;
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    drop(world.post(Provider::Generic, &generic("c1", "e1", "BUSY", 0)).await);
    world.quiesce().await;
    world.inbox.put_note(&EventId::new("generic:e1"), &Note::default(), world.now()).await.unwrap();

    let days = |item: &Item| match item.get("expires_at") {
        Some(AttributeValue::N(seconds)) => (seconds.parse::<i64>().unwrap() - at(0).as_millis() / 1_000) / 86_400,
        other => panic!("{other:?} in {:?}", item.keys()),
    };
    let inbox = world.items(INBOX_TABLE).await;
    assert!(inbox.len() > 5, "events, chunks, a conflict, a note");
    assert!(inbox.iter().all(|item| days(item) == 30));
    assert!(world.items(CALLS_TABLE).await.iter().all(|item| days(item) == 400));

    // A call that is due in a year is not removed before it.
    let order = serde_json::json!({"provider": "retell", "from": "+15550100", "to": "+15550199", "due_at": "2026-12-31T00:00:00Z"});
    let call_id = crate::outbound::create(&world, &order).await;
    assert_eq!(days(&world.item(CALLS_TABLE, &call_id).await), 364 + 400);
}

// Rows

prop_compose! {
    fn any_call_event()(
        kind in proptest::sample::select(EventKind::ALL.to_vec()),
        implied in any::<bool>(),
        occurred_at in proptest::option::of(-2_000_000_000_000_i64..4_000_000_000_000),
        sequence in proptest::option::of(any::<u32>()),
        permanent in any::<bool>(),
    ) -> CallEvent {
        CallEvent { kind, implied, occurred_at: occurred_at.map(Timestamp::from_millis), sequence, permanent }
    }
}

/// Ids as foreign as `normalize` lets them through: anything but control characters.
fn any_id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9]{1,12}", "[ -~]{1,24}", "[=~ -]{1,4}", "\\PC{1,24}"]
}

prop_compose! {
    fn any_event()(
        event_id in any_id(),
        attempt in proptest::option::of(prop_oneof![Just("1".to_owned()), Just("=".to_owned()), any_id()]),
        provider_call in proptest::option::of(prop_oneof![Just("1".to_owned()), any_id()]),
        appointment_id in proptest::option::of(any_id()),
        direction in proptest::option::of(prop_oneof![Just(Direction::Inbound), Just(Direction::Outbound)]),
        numbers in proptest::option::of(("\\PC{0,20}", "[+0-9]{1,16}")),
        received_at in 0_i64..4_000_000_000_000,
        call_events in proptest::collection::vec(any_call_event(), 1..5),
        of_switchhook in proptest::bool::weighted(0.1),
    ) -> ProviderEvent {
        let (from, to) = numbers.unzip();
        ProviderEvent {
            event_id: EventId::new(event_id),
            origin: if of_switchhook { Origin::Switchhook } else { Origin::Provider(Provider::Twilio) },
            event_type: String::new(),
            call_id: CallId::new("any"),
            attempt: attempt.map(AttemptKey::new),
            provider_call_id: provider_call,
            appointment_id,
            direction,
            from: from.map(PhoneNumber::new),
            to: to.map(PhoneNumber::new),
            received_at: Timestamp::from_millis(received_at),
            call_events,
        }
    }
}

fn any_job() -> impl Strategy<Value = Option<Job>> {
    prop_oneof![
        3 => Just(None),
        1 => any::<i64>().prop_map(|at| Some(Job::Pending { due_at: Timestamp::from_millis(at) })),
        1 => (".{0,12}", any::<i64>())
            .prop_map(|(token, at)| Some(Job::Claimed { token, lease_ends_at: Timestamp::from_millis(at) })),
        1 => Just(Some(Job::Canceled)),
    ]
}

/// Calls as folds leave them, in several batches.
fn any_folded_call() -> impl Strategy<Value = Call> {
    let batches = proptest::collection::vec(proptest::collection::vec(any_event(), 1..6), 1..6);
    batches.prop_filter_map("its first event opens it", |batches| {
        let mut call = None;
        for (batch, now) in batches.iter().zip(1_767_225_600_000..) {
            let folded = fold(call.as_ref(), batch, &POLICY, Timestamp::from_millis(now));
            call = folded.transition.map(|it| it.call).or(call);
        }
        call
    })
}

/// Also with the jobs that no fold makes yet.
fn any_call() -> impl Strategy<Value = Call> {
    (any_folded_call(), any_job()).prop_map(|(call, job)| Call { job: job.unwrap_or_else(|| call.job.clone()), ..call })
}

/// Runs `check` on so many calls, each under an id of its own, in one stack.
fn for_any(
    cases: u32,
    strategy: impl Strategy<Value = Call>,
    check: impl AsyncFn(&World, &Call),
) -> (tokio::runtime::Runtime, World, Vec<Call>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let world = runtime.block_on(async { World::stopped() });
    let calls = std::cell::RefCell::new(Vec::new());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |call| {
        let call = Call { call_id: CallId::new(format!("any {}", calls.borrow().len())), version: 1, ..call };
        runtime.block_on(check(&world, &call));
        calls.borrow_mut().push(call);
        Ok(())
    });
    outcome.unwrap();
    (runtime, world, calls.into_inner())
}

#[test]
fn any_call_reads_back_as_it_was_stored() {
    let (_, _, calls) = for_any(300, any_call(), async |world, call| {
        assert_eq!(store(world, call).await, StoreOutcome::Committed);
        assert_eq!(world.call(call.call_id.as_str()).await, *call);
        assert_eq!(world.calls.get_eventual(&call.call_id).await.unwrap(), Found::Call(Box::new(call.clone())));
    });
    // What was drawn is worth the name.
    assert!(
        calls.iter().any(|call| call.attempt_records.len() > 3)
            && calls.iter().any(|call| call.announcements.len() > 5)
    );
    let jobs: BTreeSet<&str> = calls.iter().map(|call| call.job.as_str()).collect();
    assert_eq!(jobs.len(), 6, "{jobs:?}");
}

#[test]
fn domain_events_of_a_stored_call_are_those_of_the_folded_one() {
    let (..) = for_any(100, any_call(), async |world, call| {
        assert_eq!(store(world, call).await, StoreOutcome::Committed);
        let stored = world.call(call.call_id.as_str()).await;
        assert_eq!(stored.domain_events_from(1), call.domain_events_from(1));
    });
}

// Indexes

/// The calls that the index has, and those that it should have.
async fn waking(world: &World, calls: &[CallId]) -> (BTreeSet<CallId>, BTreeSet<CallId>) {
    let mut indexed = BTreeSet::new();
    let queues = WakeQueue::ALL.into_iter().filter(|queue| *queue != WakeQueue::Settled);
    for (queue, shard) in queues.flat_map(|queue| (0..WAKE_SHARDS).map(move |shard| (queue, shard))) {
        let mut start = None;
        loop {
            let range = TimeRange::UpTo(Timestamp::from_millis(1 << 50));
            let (page, next) = world.calls.wake_queue_page(queue, shard, range, None, start).await.unwrap();
            indexed.extend(page);
            start = next;
            if start.is_none() {
                break;
            }
        }
    }
    let mut unsettled = BTreeSet::new();
    for call_id in calls {
        if world.calls.get_call(call_id).await.unwrap().is_some_and(|call| !call.is_settled()) {
            unsettled.insert(call_id.clone());
        }
    }
    (indexed, unsettled)
}

#[test]
fn index_of_waking_calls_holds_exactly_those_that_are_not_settled() {
    let (runtime, world, calls) = for_any(300, any_folded_call(), async |world, call| {
        assert_eq!(store(world, call).await, StoreOutcome::Committed);
    });
    let ids: Vec<CallId> = calls.into_iter().map(|call| call.call_id).collect();
    let (indexed, unsettled) = runtime.block_on(waking(&world, &ids));
    assert_eq!(indexed, unsettled);
    assert!(unsettled.len() > 30 && unsettled.len() < 270, "{} of 300", unsettled.len());
}

#[tokio::test(start_paused = true)]
async fn call_is_in_the_index_from_its_first_event_until_it_is_settled() {
    let world = World::new();
    let mut ids: BTreeSet<CallId> = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let calls: Vec<_> = (0..12).map(|n| if n % 2 == 0 { retell_call(n, 4, 1) } else { twilio_call(n, true) }).collect();
    for event in 0..5 {
        for webhook in calls.iter().filter_map(|call| call.get(event)) {
            let body = webhook.body.as_bytes();
            let (_, answer) = world.post_signed(webhook.provider, KEY, &webhook.query, body).await;
            world.quiesce().await;
            let status = world.status(&EventId::new(switchhook_tests::text(&answer["event_id"]))).await;
            ids.insert(CallId::new(switchhook_tests::text(&status["call_id"])));
        }
        let ids: Vec<CallId> = ids.iter().cloned().collect();
        let (indexed, unsettled) = waking(&world, &ids).await;
        assert_eq!(indexed, unsettled, "after {} events", event + 1);
        seen.insert(indexed.len());
    }
    assert!(seen.contains(&12) && seen.contains(&6), "all began, those of Retell are settled: {seen:?}");
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
    let ids: Vec<CallId> = ids.into_iter().collect();
    assert_eq!(waking(&world, &ids).await, (BTreeSet::new(), BTreeSet::new()), "time settles the rest");
}

// Sizes

/// Bytes of an item as DynamoDB counts them.
fn bytes_of(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + bytes_of_value(value)).sum()
}

fn bytes_of_value(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::L(list) => 3 + list.iter().map(|value| 1 + bytes_of_value(value)).sum::<usize>(),
        AttributeValue::M(map) => {
            3 + map.iter().map(|(name, value)| 1 + name.len() + bytes_of_value(value)).sum::<usize>()
        }
        AttributeValue::Ss(set) => set.iter().map(String::len).sum(),
        AttributeValue::Ns(set) => set.iter().map(|number| number.len().div_ceil(2) + 1).sum(),
        AttributeValue::Bs(set) => set.iter().map(Vec::len).sum(),
    }
}

#[tokio::test(start_paused = true)]
async fn row_of_a_typical_call_has_at_most_two_kilobytes() {
    for (what, webhooks) in [("twilio", twilio_call(1, true)), ("retell", retell_call(1, 12, 2))] {
        let world = World::new();
        for webhook in &webhooks {
            let body = webhook.body.as_bytes();
            drop(world.post_signed(webhook.provider, KEY, &webhook.query, body).await);
            world.quiesce().await;
        }
        world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
        let rows = world.items(CALLS_TABLE).await;
        assert_eq!(rows.len(), 1);
        println!(
            "{what}: {} bytes, {} of them history, {} the log",
            bytes_of(&rows[0]),
            bytes_of_value(&rows[0]["history"]),
            bytes_of_value(&rows[0]["log"])
        );
        assert!(bytes_of(&rows[0]) <= 2_048, "{what}: {} bytes", bytes_of(&rows[0]));
    }
}

/// A call that holds all it can, with ids of this many bytes: every attempt full, and what names none. With a deadline
/// after every event, or after none.
fn full_call(id_bytes: usize, deadlines: bool) -> Call {
    let long = |text: String| format!("{text:x<id_bytes$}");
    let call_id = long("call-".to_owned());
    let mut call = None;
    let mut second = 0;
    let attempts = (0..CALL_ATTEMPTS_MAX).map(Some).chain([None]);
    for attempt in attempts {
        for number in 0..ATTEMPT_EVENTS_MAX {
            let kind = EventKind::ALL[number % (EventKind::ALL.len() - 5)];
            let key = attempt.map(|attempt| long(format!("attempt-{attempt:02}-")));
            let mut event = provider_event(&call_id, &long(format!("generic:{attempt:?}-{number:02}-")), kind, second);
            event.provider_call_id = key.as_ref().map(|_| long(format!("provider-call-{attempt:?}-")));
            event.appointment_id = Some(long("appointment-".to_owned()));
            event.attempt = key.map(AttemptKey::new);
            event.call_events[0].sequence = Some(u32::MAX);
            let folded = fold(call.as_ref(), &[event], &POLICY, at(second));
            call = folded.transition.map(|it| it.call).or(call);
            second += 1_000;
            if deadlines && let Some(before) = &call {
                let passed = before.deadline_passed_events(&POLICY, at(second));
                call = fold(Some(before), &passed, &POLICY, at(second)).transition.map(|it| it.call).or(call);
            }
        }
    }
    Call { version: 1, ..call.unwrap() }
}

#[tokio::test(start_paused = true)]
async fn row_of_a_full_call_fits_into_an_item() {
    let held = (CALL_ATTEMPTS_MAX + 1) * ATTEMPT_EVENTS_MAX;
    for (what, id_bytes, deadlines) in [
        ("ids of Twilio's length", 52, false),
        ("ids of Twilio's length, silent after every event", 52, true),
        ("ids as long as they can be", ID_BYTES_MAX, false),
    ] {
        let world = World::stopped();
        let call = full_call(id_bytes, deadlines);
        let told = call.history.iter().filter(|entry| entry.event.kind != EventKind::DeadlinePassed).count();
        assert_eq!(told, held, "{what}");
        assert_eq!(store(&world, &call).await, StoreOutcome::Committed, "{what}");
        assert_eq!(world.call(call.call_id.as_str()).await, call, "{what}");
        let bytes = bytes_of(&world.items(CALLS_TABLE).await[0]);
        println!("full call, {what}: {bytes} bytes, {} deadlines", call.history.len() - told);
        assert!(bytes < ITEM_BYTES_MAX, "{what}: {bytes} bytes");
    }
}
