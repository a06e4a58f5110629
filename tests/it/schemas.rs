//! The schemas of `infra/events` describe exactly the domain events that are published.
//!
//! Each test of a whole flow checks its published events against the schemas when its `World` is dropped. The tests
//! here check that the schemas cover every published type and no other, and that they refuse wrong events.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, EventId, EventKind, NeverDialled, NewCall, Origin, PhoneNumber, Plan, Policy,
    Provider, ProviderEvent, RetryPolicy, StopReason, Timestamp, fold, refold,
};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_tests::contract::{described_types, schema_documents, schema_violation};
use switchhook_tests::{MINUTE, World, generic, text};

use crate::outbound::{HOUR, call_request, create, send, wait_for_all};
use crate::repair::{carry_out, of_call, plan_replay, stack_of};

fn all_types() -> BTreeSet<String> {
    schema_documents().iter().flat_map(described_types).collect()
}

fn examples() -> Vec<Value> {
    schema_documents().iter().flat_map(|schema| schema["examples"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn each_type_has_an_example_that_is_as_described() {
    let shown: Vec<String> = examples().iter().map(|example| text(&example["type"])).collect();
    assert_eq!(shown.iter().cloned().collect::<BTreeSet<_>>(), all_types());
    for example in examples() {
        assert_eq!(schema_violation(&example), None, "{example}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_type_is_published_and_no_other() {
    let world = World::with_secret(&crate::received::secret());
    // Somebody changes a row by hand, and the drift check repairs it.
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let altered = create(&world, &call_request("declines")).await;
    world.wait(MINUTE * 20).await;
    world.alter_history(&altered, |history| history.retain(|entry| !entry.contains("completed"))).await;
    world.cloud.check_drift().await.unwrap().unwrap();

    world.cloud.fake().set_delivery_faults(DeliveryFaults::USUAL);
    let mut placed = Vec::new();
    for behaviour in ["confirms", "voicemail", "busy,confirms", "no_answer", "fails", "forgotten", "invalid"] {
        placed.push(create(&world, &call_request(behaviour)).await);
    }
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let canceled = create(&world, &later).await;
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, &Value::Null).await;
    let mut blocked = call_request("confirms");
    blocked["to"] = json!("+15550198");
    send(&world, "PUT", "/do-not-call?number=+15550198", None, &Value::Null).await;
    create(&world, &blocked).await;
    wait_for_all(&world, HOUR * 12, &placed).await;

    // The account of a provider has a problem, and then none.
    world.cloud.fake().set_mode(Mode::OutOfCredit);
    for _ in 0..3 {
        create(&world, &call_request("confirms")).await;
    }
    world.wait(MINUTE * 10).await;
    world.cloud.fake().set_mode(Mode::Normal);
    world.wait(HOUR).await;

    // No event of a call arrives for an hour, and then its ending does.
    world.accept(Provider::Generic, &generic("late", "e1", "RINGING", 0)).await;
    world.wait(HOUR).await;
    world.accept(Provider::Generic, &generic("late", "e2", "BUSY", 5)).await;
    // An operator replays a call.
    let stack = stack_of(&world);
    let plan = plan_replay(&stack, &of_call(&canceled)).await;
    carry_out(&stack, &plan).await.unwrap();
    // A webhook is about no call.
    let payment = json!({"id": "e1", "type": "payment.changed", "payment": {"id": "pi_1"}});
    assert_eq!(crate::received::post(&world, &payment).await, "accepted");
    // A webhook cannot be read.
    let (_, answer) = world.post(Provider::Generic, "{").await;
    assert_eq!(answer["status"], "quarantined");
    world.wait(MINUTE * 2).await;

    let seen: BTreeSet<String> = world.domain_events().iter().map(|event| text(&event["type"])).collect();
    assert_eq!(seen, all_types());
}

#[test]
fn spoiled_event_is_refused() {
    for example in examples() {
        let check_refused = |name: &str, value: Value| {
            let mut event = example.clone();
            event[name] = value;
            assert!(schema_violation(&event).is_some(), "the schema must refuse this {name}: {event}");
        };
        for (name, value) in example.as_object().unwrap() {
            let mut event = example.clone();
            event.as_object_mut().unwrap().remove(name);
            assert!(schema_violation(&event).is_some(), "the schema must refuse an event without {name}: {event}");
            check_refused(name, json!([]));
            if !value.is_number() && name != "attempt" {
                check_refused(name, json!(1));
            }
        }
        check_refused("surprise", json!("to"));
        check_refused("schema_version", json!(2));
        check_refused("type", json!("appointment.pending"));
        check_refused("occurred_at", json!("2026-02-30T09:00:00.000Z"));
        check_refused("occurred_at", json!("2026-01-01T09:00:00Z"));
        check_refused("id", json!("1"));
        let event_type = text(&example["type"]);
        if !event_type.starts_with("call.") && !event_type.starts_with("appointment.") {
            continue;
        }
        check_refused("sequence", json!(0));
        check_refused("attempt", json!(0));
        check_refused("provider", json!("switchhook"));
        check_refused("reason", json!("else"));
        check_refused("provider", if example["provider"].is_null() { json!("retell") } else { Value::Null });
        check_refused("status", json!("pending"));
        if event_type != "call.retry_scheduled" {
            check_refused("due_at", json!("2026-01-01T09:00:00.000Z"));
        }
        if example.get("reason").is_none() {
            check_refused("reason", json!("attempts_used"));
        }
        if !["call.outcome", "call.corrected", "call.drift_repaired"].contains(&event_type.as_str()) {
            let other = if event_type.ends_with(".inconclusive") { "no_answer" } else { "inconclusive" };
            check_refused("status", json!(other));
        }
        // Some calls end without an attempt, and by a request.
        if !example["attempt"].is_null() && event_type != "call.exhausted" {
            check_refused("attempt", Value::Null);
        }
        if !example["source_event_id"].is_null() && event_type != "call.exhausted" {
            check_refused("source_event_id", Value::Null);
        }
    }
}

const LEASE: Duration = Duration::from_secs(300);

fn policy() -> Policy {
    let outcome_providers = Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()).collect();
    Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers }
}

/// A step in the life of a random call.
#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Dial,
    /// The provider did not place the call, so the dialer takes the attempt back.
    Withdraw,
    /// The provider will never place the call.
    Reject,
    /// The dialer finds the number on the do-not-call list.
    GiveUp,
    Cancel,
    /// The booking of the call is moved or canceled.
    CallOff,
    /// The booking of the call is again as it was.
    Resume,
    /// The reconciler looks for deadlines that have passed.
    FindDeadlines,
    /// The provider has no such call, so the reconciler withdraws the latest attempt.
    FindNoDial,
    /// An event from a provider.
    Report(ShortReport),
    /// The row loses the event at this place of its history, and is folded again from the inbox.
    Drift(usize),
}

/// An event from a provider, with one call event.
#[derive(Clone, Copy, Debug)]
struct ShortReport {
    provider: Provider,
    attempt: Option<u8>,
    kind: EventKind,
    /// Time in seconds by the provider's clock.
    at: Option<i64>,
    /// True if a failure is permanent.
    permanent: bool,
    /// Reason why the provider dialled nobody.
    never_dialled: Option<NeverDialled>,
}

fn a_report() -> impl Strategy<Value = ShortReport> {
    let kinds: Vec<EventKind> = EventKind::ALL
        .into_iter()
        .filter(|kind| {
            use EventKind::{Alive, ClaimExpired, DeadlinePassed, DialNotFound, DriftFound, RetryMissed};
            ![Alive, ClaimExpired, DeadlinePassed, DialNotFound, DriftFound, RetryMissed].contains(kind)
        })
        .collect();
    (
        prop::sample::select(vec![Provider::Retell, Provider::Retell, Provider::Twilio]),
        prop::option::weighted(0.9, 1..4_u8),
        prop::sample::select(kinds),
        prop::option::of(0..4_000_i64),
        any::<bool>(),
        prop::option::weighted(0.1, prop::sample::select(NeverDialled::ALL.to_vec())),
    )
        .prop_map(|(provider, attempt, kind, at, permanent, never_dialled)| ShortReport {
            provider,
            attempt,
            kind,
            at,
            permanent,
            never_dialled,
        })
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..2_000_i64).prop_map(Step::Wait),
        3 => Just(Step::Dial),
        1 => Just(Step::Withdraw),
        1 => Just(Step::Reject),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Cancel),
        1 => Just(Step::CallOff),
        1 => Just(Step::Resume),
        3 => Just(Step::FindDeadlines),
        1 => Just(Step::FindNoDial),
        8 => a_report().prop_map(Step::Report),
        1 => (0..8_usize).prop_map(Step::Drift),
    ]
}

fn scheduled_call(appointment_id: Option<&str>) -> Call {
    let retry =
        RetryPolicy { attempts_max: 3, delay_seconds: 60, delay_max_seconds: 600, voicemail: true, unheard: true };
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: Timestamp::from_millis(0),
        not_after: None,
        window: None,
        retry,
        metadata: BTreeMap::new(),
        request_hash: None,
        trace_id: None,
    };
    let new = NewCall {
        call_id: CallId::new("call-1"),
        from: PhoneNumber::new("+15550100"),
        to: PhoneNumber::new("+15550101"),
        appointment_id: appointment_id.map(str::to_owned),
        plan,
    };
    Call::schedule(new, &policy(), Timestamp::from_millis(0)).call
}

/// The provider event of a report.
fn report(number: usize, report: ShortReport, now: Timestamp) -> ProviderEvent {
    let ShortReport { provider, attempt, kind, at, permanent, never_dialled } = report;
    let occurred_at = at.map(|seconds| Timestamp::from_millis(seconds * 1_000));
    let (event_id, origin) = (EventId::new(format!("{provider}:e{number}")), Origin::Provider(provider));
    ProviderEvent {
        attempt: attempt.map(|attempt| AttemptKey::new(attempt.to_string())),
        provider_call_id: attempt.map(|attempt| format!("p{attempt}")),
        appointment_id: number.is_multiple_of(3).then(|| "apt".to_owned()),
        call_events: vec![CallEvent { permanent, never_dialled, ..CallEvent::new(kind, occurred_at) }],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("call-1"), now)
    }
}

/// Applies the steps one after the other. Returns the call after each step that changed it.
fn run_steps(mut call: Option<Call>, steps: &[Step]) -> Vec<Call> {
    let mut now = Timestamp::from_millis(1_000);
    let mut events: Vec<ProviderEvent> = Vec::new();
    let mut states = Vec::new();
    let policy = &policy();
    for (number, step) in steps.iter().enumerate() {
        now = now.plus(Duration::from_secs(1));
        let claimed = |call: &Call| Some(call.claim("token", Provider::Retell, LEASE, true, policy, now)?.call);
        let next = match (step, &call) {
            (Step::Wait(seconds), _) => {
                now = now.plus(Duration::from_secs(seconds.unsigned_abs()));
                None
            }
            (Step::Dial, Some(call)) => claimed(call)
                .and_then(|call| call.start_dial("token", &format!("d{number}"), Provider::Retell, policy, now))
                .map(|dialled| dialled.transition.call),
            (Step::Withdraw, Some(call)) => {
                let key = call.attempt_records.last().and_then(|record| record.dial_key.clone());
                key.and_then(|key| call.withdraw(&key, now, policy, now)).map(|transition| transition.call)
            }
            (Step::Reject, Some(call)) => {
                let key = call.attempt_records.last().and_then(|record| record.dial_key.clone());
                key.and_then(|key| call.reject(&key, policy, now)).map(|transition| transition.call)
            }
            (Step::GiveUp, Some(call)) => claimed(call)
                .and_then(|call| call.give_up("token", StopReason::DoNotCall, policy, now))
                .map(|transition| transition.call),
            (Step::Cancel, Some(call)) => call.cancel(policy, now).map(|transition| transition.call),
            (Step::CallOff, Some(call)) => call.call_off(policy, now).map(|transition| transition.call),
            (Step::Resume, Some(call)) => call.resume(None, policy, now).map(|transition| transition.call),
            (Step::FindDeadlines, Some(call)) => {
                let found = call.deadline_passed_events(policy, now);
                events.extend(found.iter().cloned());
                fold(Some(call), &found, policy, now).transition.map(|it| it.call)
            }
            (Step::FindNoDial, Some(call)) => {
                let key = call.attempt_records.last().and_then(|record| record.key.clone());
                let found: Vec<ProviderEvent> = key.iter().map(|key| call.dial_not_found_event(key, now)).collect();
                events.extend(found.iter().cloned());
                fold(Some(call), &found, policy, now).transition.map(|it| it.call)
            }
            (Step::Report(short), call) => {
                let event = report(number, *short, now);
                events.push(event.clone());
                fold(call.as_ref(), &[event], policy, now).transition.map(|it| it.call)
            }
            (Step::Drift(lost), Some(call)) => {
                let mut altered = call.clone();
                if *lost < altered.history.len() {
                    let gone = altered.history.remove(*lost).source_event_id;
                    altered.history.retain(|entry| entry.source_event_id != gone);
                    altered.announcements.clear();
                }
                let drift = altered.drift_found_event(&number.to_string(), now);
                refold(&altered, &events, |_| false, &drift, policy, now).transition.map(|it| it.call)
            }
            (
                Step::Dial
                | Step::Withdraw
                | Step::Reject
                | Step::GiveUp
                | Step::Cancel
                | Step::CallOff
                | Step::Resume
                | Step::FindDeadlines
                | Step::FindNoDial
                | Step::Drift(_),
                None,
            ) => None,
        };
        if let Some(next) = next {
            states.push(next.clone());
            call = Some(next);
        }
    }
    states
}

/// Applies steps whose domain events once violated the schema. Checks every event, and returns the last one.
fn last_event_of_life(steps: &[Step]) -> Value {
    let call = run_steps(Some(scheduled_call(Some("apt"))), steps).pop().unwrap();
    let events: Vec<Value> = call.domain_events_from(1).iter().map(|event| json!(event)).collect();
    for event in &events {
        assert_eq!(schema_violation(event), None, "{event}");
    }
    events.last().unwrap().clone()
}

const fn retell(attempt: Option<u8>, kind: EventKind, at: Option<i64>) -> Step {
    let (provider, permanent, never_dialled) = (Provider::Retell, false, None);
    Step::Report(ShortReport { provider, attempt, kind, at, permanent, never_dialled })
}

/// The provider reports a failure and then an answer, both without an attempt. Then the number turns out to be on the
/// do-not-call list. The first `appointment.connected` has corrected the failure, so the last one corrects nothing.
#[test]
fn retry_called_off_after_a_late_answer_is_told_as_described() {
    let report = |kind| retell(None, kind, None);
    let event = last_event_of_life(&[report(EventKind::Failed), report(EventKind::InProgress), Step::GiveUp]);
    assert_eq!((&event["type"], &event["previous"]), (&json!("appointment.connected"), &json!("retrying")));
    assert_eq!((&event["source_event_id"], event.get("corrects")), (&Value::Null, None));
}

/// A report without an attempt counts for the first attempt. A later report shows that another attempt was the first,
/// so the decision `declined` moves there. Only the announcement that calls the retry off can correct `declined`.
#[test]
fn retry_called_off_after_a_decision_went_to_another_attempt_is_told_as_described() {
    let event = last_event_of_life(&[
        retell(Some(1), EventKind::VoicemailDetected, Some(1303)),
        Step::Wait(898),
        Step::FindDeadlines,
        retell(None, EventKind::UserDeclined, None),
        retell(Some(2), EventKind::Canceled, None),
        Step::GiveUp,
    ]);
    assert_eq!((&event["type"], &event["previous"]), (&json!("appointment.voicemail"), &json!("retrying")));
    assert_eq!((&event["source_event_id"], &event["corrects"]), (&Value::Null, &json!("call-1/7")));
}

/// The first attempt times out, and the second one is withdrawn after a late report that the first one was completed.
/// The outcome of the first attempt is still open, so the appointment returns to `dialing`.
#[test]
fn retry_withdrawn_while_the_outcome_is_open_is_told_as_described() {
    let completed = retell(Some(1), EventKind::Completed, None);
    let event =
        last_event_of_life(&[Step::Dial, Step::Wait(898), Step::FindDeadlines, Step::Dial, completed, Step::Withdraw]);
    assert_eq!((&event["type"], &event["previous"]), (&json!("appointment.dialing"), &json!("retrying")));
    assert_eq!((&event["source_event_id"], event.get("corrects")), (&Value::Null, None));
}

/// The provider reports the dial, and then that it dialled nobody. The booking moves away and back.
#[test]
fn dial_of_a_booking_that_came_back_is_told_as_described() {
    let initiated = retell(Some(1), EventKind::Initiated, None);
    let nobody = Step::Report(ShortReport {
        provider: Provider::Retell,
        attempt: Some(1),
        kind: EventKind::Failed,
        at: None,
        permanent: false,
        never_dialled: Some(NeverDialled::Account),
    });
    let event = last_event_of_life(&[Step::Dial, initiated, nobody, Step::CallOff, Step::Resume]);
    assert_eq!((&event["type"], &event["previous"]), (&json!("appointment.retrying"), &json!("canceled")));
    assert_eq!((&event["source_event_id"], &event["attempt"]), (&Value::Null, &json!(1)));
}

/// The dial is taken back before the booking moves away and back, so no dial is left that the event could be about.
#[test]
fn booking_that_comes_back_after_its_dial_was_taken_back_is_told_as_described() {
    let initiated = retell(None, EventKind::Initiated, None);
    let event = last_event_of_life(&[Step::Dial, initiated, Step::Withdraw, Step::CallOff, Step::Resume]);
    assert_eq!((&event["type"], &event["attempt"]), (&json!("call.retry_scheduled"), &Value::Null));
}

/// The provider never dials the number. The call ends without an attempt, and says why.
#[test]
fn rejected_number_is_told_as_described() {
    let event = last_event_of_life(&[Step::Dial, Step::Reject]);
    assert_eq!((&event["type"], &event["reason"]), (&json!("appointment.failed"), &json!("rejected_by_provider")));
    assert_eq!((&event["attempt"], &event["provider"]), (&Value::Null, &Value::Null));
}

mod random {
    use super::*;

    #[test]
    fn invariant_every_life_of_a_call_is_told_as_described() {
        let seen = RefCell::new(BTreeSet::new());
        let config = switchhook_random::config(2_000, None);
        let start = prop::sample::select(vec![None, Some(scheduled_call(None)), Some(scheduled_call(Some("apt")))]);
        let steps_of_calls = (start, prop::collection::vec(a_step(), 1..16));
        let result = TestRunner::new(config).run(&steps_of_calls, |(start, steps)| {
            for call in run_steps(start, &steps) {
                for event in call.domain_events_from(1) {
                    let event = json!(event);
                    prop_assert_eq!(schema_violation(&event), None, "{}", event);
                    seen.borrow_mut().insert(text(&event["type"]));
                }
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
        // The random calls must produce every type.
        let mut of_calls = all_types();
        of_calls.retain(|event_type| event_type.starts_with("call.") || event_type.starts_with("appointment."));
        assert_eq!(seen.into_inner(), of_calls);
    }
}
