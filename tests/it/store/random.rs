//! Random calls: each reads back as it was stored, and the index `by_wake` holds those that are not settled.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use switchhook_aws::calls::{Found, StoreOutcome, TimeRange, WakeQueue};
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, Direction, EventId, EventKind, InFlight, Job, JobState, NeverDialled, Origin,
    PhoneNumber, Provider, ProviderEvent, Timestamp, TraceId, fold,
};
use switchhook_tests::{INACTIVITY_TIMEOUT, KEY, MINUTE, World};

use super::{POLICY, store};
use crate::traffic::{retell_call, twilio_call};

prop_compose! {
    fn any_call_event()(
        kind in proptest::sample::select(EventKind::ALL.to_vec()),
        implied in any::<bool>(),
        occurred_at in proptest::option::of(-2_000_000_000_000_i64..4_000_000_000_000),
        sequence in proptest::option::of(any::<u32>()),
        permanent in any::<bool>(),
        never_dialled in proptest::option::of(proptest::sample::select(NeverDialled::ALL.to_vec())),
    ) -> CallEvent {
        CallEvent { kind, implied, occurred_at: occurred_at.map(Timestamp::from_millis), sequence, permanent, never_dialled }
    }
}

/// Any id that `normalize` accepts: all characters except control characters.
fn any_id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9]{1,12}", "[ -~]{1,24}", "[=~*:/ -]{1,4}", "1:[*a-z]{0,3}", "\\PC{1,24}"]
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
        let origin = if of_switchhook { Origin::Switchhook } else { Origin::Provider(Provider::Twilio) };
        let received_at = Timestamp::from_millis(received_at);
        ProviderEvent {
            trace_id: TraceId::new(&event_id),
            attempt: attempt.map(AttemptKey::new),
            provider_call_id: provider_call,
            appointment_id,
            direction,
            from: from.map(PhoneNumber::new),
            to: to.map(PhoneNumber::new),
            call_events,
            ..ProviderEvent::new(EventId::new(event_id), origin, "", CallId::new("any"), received_at)
        }
    }
}

fn any_job() -> impl Strategy<Value = Option<Job>> {
    prop_oneof![
        3 => Just(None),
        1 => any::<i64>().prop_map(|at| Some(Job::Pending { due_at: Timestamp::from_millis(at) })),
        1 => (".{0,12}", any::<i64>())
            .prop_map(|(token, at)| {
                Some(Job::Claimed { token, provider: Provider::Retell, lease_ends_at: Timestamp::from_millis(at) })
            }),
        1 => Just(Some(Job::Canceled)),
    ]
}

/// Calls that are folded from random events, in several batches.
fn any_folded_call() -> impl Strategy<Value = Call> {
    let batches = proptest::collection::vec(proptest::collection::vec(any_event(), 1..6), 1..6);
    batches.prop_filter_map("the first event must open the call", |batches| {
        let mut call = None;
        for (batch, now) in batches.iter().zip(1_767_225_600_000..) {
            let folded = fold(call.as_ref(), batch, &POLICY, Timestamp::from_millis(now));
            call = folded.transition.map(|it| it.call).or(call);
        }
        call
    })
}

/// Folded calls, some of them with a job that only a worker or a user can set.
fn any_call() -> impl Strategy<Value = Call> {
    (any_folded_call(), any_job()).prop_map(|(call, job)| {
        let job = job.unwrap_or_else(|| call.job.clone());
        let in_flight = match &job {
            Job::Claimed { provider, .. } => Some(InFlight::Claimed(*provider)),
            Job::Pending { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
                call.in_flight
            }
        };
        Call { job, in_flight, ..call }
    })
}

/// Runs `check` on `cases` random calls in one stack. Each call has its own id. Returns the stack and the calls.
fn for_any(
    cases: u32,
    strategy: impl Strategy<Value = Call>,
    check: impl AsyncFn(&World, &Call),
) -> (tokio::runtime::Runtime, World, Vec<Call>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let world = runtime.block_on(async { World::stopped() });
    let calls = std::cell::RefCell::new(Vec::new());
    let mut runner = TestRunner::new(switchhook_random::config(cases, None));
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
    // Some of the random calls must be large, and every job must occur.
    assert!(
        calls.iter().any(|call| call.attempt_records.len() > 3)
            && calls.iter().any(|call| call.announcements.len() > 5)
    );
    let jobs: BTreeSet<&str> = calls.iter().map(|call| call.job.as_str()).collect();
    assert_eq!(jobs.len(), JobState::ALL.len(), "{jobs:?}");
}

#[test]
fn domain_events_of_a_stored_call_are_those_of_the_folded_one() {
    let (..) = for_any(100, any_call(), async |world, call| {
        assert_eq!(store(world, call).await, StoreOutcome::Committed);
        let stored = world.call(call.call_id.as_str()).await;
        assert_eq!(stored.domain_events_from(1), call.domain_events_from(1));
    });
}

/// The unsettled calls in the index `by_wake`, and the unsettled calls in the table. The two sets must be equal.
async fn waking(world: &World, calls: &[CallId]) -> (BTreeSet<CallId>, BTreeSet<CallId>) {
    let mut indexed = BTreeSet::new();
    let queues = WakeQueue::all(&BTreeSet::new()).into_iter().filter(|queue| *queue != WakeQueue::Settled);
    for (queue, shard) in queues.flat_map(|queue| (0..SHARDS_DEFAULT).map(move |shard| (queue, shard))) {
        let range = TimeRange::UpTo(Timestamp::from_millis(1 << 50));
        let mut pages = world.calls.wake_queue_pages(queue, shard, range, None);
        while let Some(page) = pages.next().await.unwrap() {
            indexed.extend(page.items);
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
    let all = ids.len();
    assert!(unsettled.len() > all / 10 && unsettled.len() < all / 10 * 9, "{} of {all}", unsettled.len());
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
    assert!(
        seen.contains(&12) && seen.contains(&6),
        "all twelve calls must have been open, and six of them after Retell's were settled: {seen:?}"
    );
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
    let ids: Vec<CallId> = ids.into_iter().collect();
    assert_eq!(
        waking(&world, &ids).await,
        (BTreeSet::new(), BTreeSet::new()),
        "the inactivity timeout must settle the other calls"
    );
}
