//! Tests that the oracle finds errors. Each test changes one thing in a correct run, and expects a mismatch about it.

use serde_json::{Value, json};

use super::evidence::ReceivedReport;
use super::scripted_calls;
use crate::demo::observation::ObservedCall;
use crate::demo::script::{
    Attempt, Correlation, Ending, Fact, GroundTruth, MINUTE, Millis, Provider, Report, SECOND, START, Scenario, Script,
    Statement,
};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

const ID: &str = "call-1";

/// Script of a call that was answered and confirmed. Each of its reports states one fact.
fn script() -> Script {
    let at = |seconds: i64| START + seconds * SECOND;
    let facts = [
        (Fact::Initiated, 0),
        (Fact::Ringing, 2),
        (Fact::Answered, 10),
        (Fact::Confirmed, 20),
        (Fact::Ended(Ending::Completed), 30),
    ];
    let report = |(fact, seconds)| Report {
        name: format!("{fact:?}"),
        attempt: 0,
        has_provider_call_id: true,
        names_appointment: true,
        statements: vec![Statement { fact, at: Some(at(seconds)) }],
        emitted_at: at(seconds),
        query: String::new(),
        body: Vec::new(),
    };
    let truth = GroundTruth {
        scenario: Scenario::Confirmed,
        placed_at: at(0),
        rang_at: Some(at(2)),
        answered_at: Some(at(10)),
        outcome_fact: Some((Fact::Confirmed, at(20))),
        ending: Ending::Completed,
        ended_at: at(30),
    };
    Script {
        correlation: Correlation::Call,
        call_id: ID.to_owned(),
        appointment_id: Some("appt-1".to_owned()),
        inbound: false,
        foreign_call_id: None,
        attempts: vec![Attempt { provider: Provider::Generic, provider_call_id: Some("line-1".to_owned()), truth }],
        reports: facts.map(report).to_vec(),
        seed: 0,
    }
}

/// Returns the received reports. Each arrival is the index of a report, and the seconds since the call was placed.
fn received_reports(arrivals: &[(usize, Millis)]) -> Vec<ReceivedReport> {
    let received = |(report, seconds): &(usize, Millis)| ReceivedReport {
        report: *report,
        event_id: format!("generic:e{report}"),
        at: START + seconds * SECOND,
    };
    arrivals.iter().map(received).collect()
}

const IN_ORDER: [(usize, Millis); 5] = [(0, 0), (1, 2), (2, 10), (3, 20), (4, 30)];

fn observed(
    lifecycle: &str,
    outcome: &str,
    appointment: &str,
    job: &str,
    domain_events: Vec<Value>,
    arrivals: &[(usize, Millis)],
) -> ObservedCall {
    let ended_at = if lifecycle == "inconclusive" { at(10) + INACTIVITY_TIMEOUT } else { at(30) };
    let timeline = arrivals.iter().map(|(report, _)| json!({"event_id": format!("generic:e{report}"), "kind": "x"}));
    ObservedCall {
        call: Some(json!({
            "call_id": ID,
            "provider": "generic",
            "direction": "outbound",
            "appointment_id": "appt-1",
            "appointment_status": appointment,
            "job": {"state": job},
            "lifecycle": lifecycle,
            "outcome": outcome,
            "settled": true,
            "attempts": [{
                "number": 1,
                "provider": "generic",
                "provider_call_id": "line-1",
                "lifecycle": lifecycle,
                "outcome": outcome,
                "ended_at": rfc3339(ended_at),
            }],
        })),
        timeline: timeline.collect(),
        published_at: vec![START; domain_events.len()],
        domain_events,
    }
}

/// Returns a domain event. `corrects` is the sequence of the corrected event, or 0.
fn event(
    sequence: usize,
    event_type: &str,
    previous: Option<&str>,
    source: &str,
    at: Millis,
    corrects: usize,
) -> Value {
    let mut event = json!({
        "schema_version": 1,
        "id": format!("{ID}/{sequence}"),
        "type": event_type,
        "call_id": ID,
        "sequence": sequence,
        "provider": "generic",
        "provider_call_id": "line-1",
        "appointment_id": "appt-1",
        "attempt": 1,
        "previous": previous,
        "status": event_type.split('.').next_back(),
        "source_event_id": source,
        "occurred_at": rfc3339(at),
    });
    if corrects > 0 {
        event["corrects"] = json!(format!("{ID}/{corrects}"));
    }
    event
}

fn at(seconds: Millis) -> Millis {
    START + seconds * SECOND
}

fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

fn events_in_order() -> Vec<Value> {
    vec![
        event(1, "call.initiated", None, "generic:e0", at(0), 0),
        event(2, "appointment.dialing", None, "generic:e0", at(0), 0),
        event(3, "call.ringing", Some("initiated"), "generic:e1", at(2), 0),
        event(4, "call.in_progress", Some("ringing"), "generic:e2", at(10), 0),
        event(5, "appointment.connected", Some("dialing"), "generic:e2", at(10), 0),
        event(6, "appointment.confirmed", Some("connected"), "generic:e3", at(20), 0),
        event(7, "call.completed", Some("in_progress"), "generic:e4", at(30), 0),
    ]
}

fn right() -> ObservedCall {
    observed("completed", "confirmed", "Confirmed", "COMPLETED", events_in_order(), &IN_ORDER)
}

fn mismatches(arrivals: &[(usize, Millis)], observed: &ObservedCall) -> Vec<String> {
    scripted_calls::mismatches(&script(), &received_reports(arrivals), observed)
}

/// Changes one thing in the correct run, and expects a mismatch that contains `about`.
#[track_caller]
fn complains(about: &str, change: impl FnOnce(&mut ObservedCall)) {
    let mut world = right();
    change(&mut world);
    let mismatches = mismatches(&IN_ORDER, &world);
    assert!(mismatches.iter().any(|mismatch| mismatch.contains(about)), "{about}: {mismatches:?}");
}

fn call(observed: &mut ObservedCall) -> &mut Value {
    observed.call.as_mut().unwrap()
}

#[test]
fn right_world_is_right() {
    assert_eq!(mismatches(&IN_ORDER, &right()), [""; 0]);
}

#[test]
fn wrong_state_is_found() {
    complains("not known", |observed| observed.call = None);
    complains("/lifecycle is \"busy\", must be \"completed\"", |observed| call(observed)["lifecycle"] = json!("busy"));
    complains("/outcome", |observed| call(observed)["outcome"] = json!("declined"));
    complains("/appointment_status", |observed| call(observed)["appointment_status"] = json!("Declined"));
    complains("/job/state", |observed| call(observed)["job"]["state"] = json!("IN_PROGRESS"));
    complains("/settled", |observed| call(observed)["settled"] = json!(false));
    complains("/provider", |observed| call(observed)["provider"] = json!("retell"));
    complains("/attempts/0/provider", |observed| call(observed)["attempts"][0]["provider"] = json!("retell"));
    complains("/direction", |observed| call(observed)["direction"] = json!("inbound"));
    complains("/attempts/0/lifecycle", |observed| call(observed)["attempts"][0]["lifecycle"] = json!("failed"));
    complains("/attempts/0/ended_at", |observed| call(observed)["attempts"][0]["ended_at"] = json!(rfc3339(at(31))));
    complains("/attempts/1", |observed| {
        let attempt = call(observed)["attempts"][0].clone();
        call(observed)["attempts"].as_array_mut().unwrap().push(attempt);
    });
}

#[test]
fn missing_domain_event_is_found() {
    complains("domain event 7 is missing: call.completed", |observed| drop(observed.domain_events.pop()));
    complains("domain event 4, call.in_progress", |observed| drop(observed.domain_events.remove(3)));
    complains("domain event 1 is missing", |observed| observed.domain_events.clear());
}

#[test]
fn domain_event_too_many_is_found() {
    complains("one too many", |observed| {
        observed.domain_events.push(event(8, "call.failed", Some("completed"), "generic:e4", at(30), 7));
    });
    complains("domain event 4", |observed| observed.domain_events.insert(3, events_in_order().remove(2)));
}

#[test]
fn domain_events_out_of_order_are_found() {
    complains("domain event 3", |observed| observed.domain_events.swap(2, 3));
}

#[test]
fn every_field_of_a_domain_event_counts() {
    for field in [
        "id",
        "type",
        "call_id",
        "sequence",
        "provider",
        "provider_call_id",
        "appointment_id",
        "attempt",
        "previous",
        "status",
    ] {
        complains(&format!("call.completed: {field} is"), |observed| observed.domain_events[6][field] = json!("else"));
    }
    complains("source_event_id", |observed| observed.domain_events[6]["source_event_id"] = json!("generic:e3"));
    complains("occurred_at", |observed| observed.domain_events[6]["occurred_at"] = json!("2025-10-20T12:00:31Z"));
    complains("corrects", |observed| observed.domain_events[6]["corrects"] = json!(format!("{ID}/6")));
}

#[test]
fn timeline_must_hold_what_was_acknowledged_and_nothing_else() {
    complains("lacks generic:e4", |observed| drop(observed.timeline.pop()));
    complains("holds generic:forged", |observed| {
        observed.timeline.push(json!({"event_id": "generic:forged", "kind": "x"}))
    });
}

#[test]
fn lost_ending_must_be_inconclusive() {
    let arrivals = &IN_ORDER[..3];
    let mut domain_events = events_in_order();
    domain_events.truncate(5);
    let detected_at = at(10) + INACTIVITY_TIMEOUT + 30 * SECOND;
    let own = format!("switchhook:{ID}/line-1/deadline/{}", at(10));
    domain_events.push(event(6, "call.inconclusive", Some("in_progress"), &own, detected_at, 0));
    domain_events.push(event(7, "appointment.inconclusive", Some("connected"), &own, detected_at, 0));
    let world = |lifecycle: &str, outcome: &str, appointment: &str, domain_events: &[Value]| {
        mismatches(arrivals, &observed(lifecycle, outcome, appointment, "FAILED", domain_events.to_vec(), arrivals))
    };
    assert_eq!(world("inconclusive", "inconclusive", "Inconclusive", &domain_events), [""; 0]);
    // Four observations are wrong. The first shows the truth, which no report stated. The second shows the state before
    // the timeout. The third lacks a domain event. The fourth has it too early.
    assert_ne!(world("completed", "confirmed", "Confirmed", &domain_events), [""; 0]);
    assert_ne!(world("in_progress", "connected", "Connected", &domain_events), [""; 0]);
    assert_ne!(world("inconclusive", "inconclusive", "Inconclusive", &domain_events[..5]), [""; 0]);
    domain_events[5]["occurred_at"] = json!(rfc3339(at(11)));
    assert_ne!(world("inconclusive", "inconclusive", "Inconclusive", &domain_events), [""; 0]);
}

#[test]
fn late_ending_must_correct_what_was_announced() {
    let late = (INACTIVITY_TIMEOUT + 10 * MINUTE) / SECOND;
    let arrivals = [(0, 0), (1, 2), (2, 10), (4, late)];
    let own = format!("switchhook:{ID}/line-1/deadline/{}", at(10));
    let mut domain_events = events_in_order();
    domain_events.truncate(5);
    let detected_at = at(10) + INACTIVITY_TIMEOUT;
    domain_events.push(event(6, "call.inconclusive", Some("in_progress"), &own, detected_at, 0));
    domain_events.push(event(7, "appointment.inconclusive", Some("connected"), &own, detected_at, 0));
    domain_events.push(event(8, "call.completed", Some("inconclusive"), "generic:e4", at(30), 6));
    domain_events.push(event(9, "call.corrected", Some("inconclusive"), "generic:e4", at(30), 6));
    domain_events[8]["status"] = json!("completed");
    let world = |domain_events: &[Value]| {
        let domain_events = domain_events.to_vec();
        let shown = observed("completed", "inconclusive", "Inconclusive", "COMPLETED", domain_events, &arrivals);
        mismatches(&arrivals, &shown)
    };
    assert_eq!(world(&domain_events), [""; 0]);
    for (field, wrong) in [("status", json!("failed")), ("previous", json!("ringing")), ("corrects", Value::Null)] {
        let mut changed = domain_events.clone();
        changed[8][field] = wrong;
        assert_ne!(world(&changed), [""; 0], "{field}");
    }
    assert_ne!(world(&domain_events[..8]), [""; 0], "call.corrected is missing");
    domain_events[7].as_object_mut().unwrap().remove("corrects");
    assert_ne!(world(&domain_events), [""; 0]);
    assert_ne!(world(&events_in_order()), [""; 0]);
}

#[test]
fn completion_must_wait_for_a_lost_answer_and_then_be_presumed() {
    let arrivals = [(0, 0), (1, 2), (4, 30)];
    let domain_events = vec![
        event(1, "call.initiated", None, "generic:e0", at(0), 0),
        event(2, "appointment.dialing", None, "generic:e0", at(0), 0),
        event(3, "call.ringing", Some("initiated"), "generic:e1", at(2), 0),
        event(4, "call.completed", Some("ringing"), "generic:e4", at(30), 0),
        event(
            5,
            "appointment.inconclusive",
            Some("dialing"),
            "switchhook:call-1/line-1/deadline/1760961630000",
            at(30) + INACTIVITY_TIMEOUT,
            0,
        ),
    ];
    let world = |lifecycle: &str, job: &str, domain_events: &[Value]| {
        mismatches(
            &arrivals,
            &observed(lifecycle, "inconclusive", "Inconclusive", job, domain_events.to_vec(), &arrivals),
        )
    };
    assert_eq!(world("completed", "COMPLETED", &domain_events), [""; 0]);
    assert_ne!(world("ringing", "IN_PROGRESS", &domain_events[..3]), [""; 0]);
    assert_ne!(world("inconclusive", "FAILED", &domain_events), [""; 0]);
}

#[test]
fn two_reports_at_once_may_be_folded_in_either_order() {
    let arrivals = [(0, 0), (1, 10), (2, 10), (3, 20), (4, 30)];
    assert_eq!(mismatches(&arrivals, &right()), [""; 0]);
    // The answer is folded first. The lifecycle waits for the ringing, but the appointment is connected at once.
    let mut world = right();
    world.domain_events = vec![
        event(1, "call.initiated", None, "generic:e0", at(0), 0),
        event(2, "appointment.dialing", None, "generic:e0", at(0), 0),
        event(3, "appointment.connected", Some("dialing"), "generic:e2", at(10), 0),
        event(4, "call.ringing", Some("initiated"), "generic:e1", at(2), 0),
        event(5, "call.in_progress", Some("ringing"), "generic:e2", at(10), 0),
        event(6, "appointment.confirmed", Some("connected"), "generic:e3", at(20), 0),
        event(7, "call.completed", Some("in_progress"), "generic:e4", at(30), 0),
    ];
    assert_eq!(mismatches(&arrivals, &world), [""; 0]);
    assert_ne!(mismatches(&IN_ORDER, &world), [""; 0]);
}

#[test]
fn oracle_uses_nothing_of_switchhooks_own() {
    for source in [
        include_str!("mod.rs"),
        include_str!("attempt_knowledge.rs"),
        include_str!("choices.rs"),
        include_str!("domain_events.rs"),
        include_str!("evidence.rs"),
        include_str!("expected_event.rs"),
        include_str!("knowledge.rs"),
        include_str!("placed_calls/mod.rs"),
        include_str!("placed_calls/provider_record.rs"),
        include_str!("scripted_calls.rs"),
        include_str!("silence.rs"),
        include_str!("timeline.rs"),
        include_str!("whole_run.rs"),
        include_str!("../json.rs"),
        include_str!("../placed_script.rs"),
        include_str!("../script/mod.rs"),
        include_str!("../script/ground_truth.rs"),
        include_str!("../script/retell.rs"),
        include_str!("../script/twilio.rs"),
        include_str!("../script/generic.rs"),
    ] {
        assert!(!source.contains("use switchhook_") && !source.contains("switchhook_domain"));
        assert!(!source.contains("switchhook_providers") && !source.contains("switchhook_local"));
    }
}
