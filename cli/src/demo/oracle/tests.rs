//! The oracle can fail: it is shown worlds that are wrong in one thing each.

use serde_json::{Value, json};

use super::{Receipt, call_findings};
use crate::demo::play::Shown;
use crate::demo::script::{
    Attempt, Ending, Fact, Keyed, MINUTE, Millis, Plot, Report, SECOND, START, Said, Script, Story, Vendor,
};
use crate::demo::traffic::PATIENCE;

const ID: &str = "call-1";

/// A generic call that was answered and confirmed: each of its reports says one thing.
fn script() -> Script {
    let at = |seconds: i64| START + seconds * SECOND;
    let facts = [
        (Fact::Begun, 0),
        (Fact::Rang, 2),
        (Fact::Answered, 10),
        (Fact::Confirmed, 20),
        (Fact::Ended(Ending::Completed), 30),
    ];
    let report = |(fact, seconds)| Report {
        name: format!("{fact:?}"),
        attempt: 0,
        names_attempt: true,
        says: vec![Said { fact, at: Some(at(seconds)) }],
        emitted_at: at(seconds),
        query: String::new(),
        body: Vec::new(),
    };
    let story = Story {
        plot: Plot::Confirmed,
        placed_at: at(0),
        rang_at: Some(at(2)),
        answered_at: Some(at(10)),
        word: Some((Fact::Confirmed, at(20))),
        ending: Ending::Completed,
        ended_at: at(30),
    };
    Script {
        vendor: Vendor::Generic,
        keyed: Keyed::OurId,
        call_id: ID.to_owned(),
        appointment_id: Some("appt-1".to_owned()),
        inbound: false,
        attempts: vec![Attempt { vendor_call_id: Some("line-1".to_owned()), story }],
        reports: facts.map(report).to_vec(),
        seed: 0,
    }
}

/// That these reports came, each so many seconds after the call was placed.
fn receipts(came: &[(usize, Millis)]) -> Vec<Receipt> {
    let receipt = |(report, seconds): &(usize, Millis)| Receipt {
        report: *report,
        event_id: format!("generic:e{report}"),
        at: START + seconds * SECOND,
    };
    came.iter().map(receipt).collect()
}

const IN_ORDER: [(usize, Millis); 5] = [(0, 0), (1, 2), (2, 10), (3, 20), (4, 30)];

fn shown(
    lifecycle: &str,
    outcome: &str,
    appointment: &str,
    job: &str,
    announced: Vec<Value>,
    came: &[(usize, Millis)],
) -> Shown {
    let ended_at = if lifecycle == "inconclusive" { at(10) + PATIENCE } else { at(30) };
    let timeline = came.iter().map(|(report, _)| json!({"event_id": format!("generic:e{report}"), "kind": "x"}));
    Shown {
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
                "provider_call_id": "line-1",
                "lifecycle": lifecycle,
                "outcome": outcome,
                "ended_at": rfc3339(ended_at),
            }],
        })),
        timeline: timeline.collect(),
        published_at: vec![START; announced.len()],
        announced,
    }
}

/// A domain event; `corrects` is the sequence of another, 0 for none.
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

fn announced_in_order() -> Vec<Value> {
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

fn right() -> Shown {
    shown("completed", "confirmed", "Confirmed", "COMPLETED", announced_in_order(), &IN_ORDER)
}

fn findings(came: &[(usize, Millis)], shown: &Shown) -> Vec<String> {
    call_findings(&script(), &receipts(came), shown)
}

/// The right world with one thing changed gives one complaint, about that.
#[track_caller]
fn complains(about: &str, change: impl FnOnce(&mut Shown)) {
    let mut world = right();
    change(&mut world);
    let findings = findings(&IN_ORDER, &world);
    assert!(findings.iter().any(|finding| finding.contains(about)), "{about}: {findings:?}");
}

fn call(shown: &mut Shown) -> &mut Value {
    shown.call.as_mut().unwrap()
}

#[test]
fn right_world_is_right() {
    assert_eq!(findings(&IN_ORDER, &right()), [""; 0]);
}

#[test]
fn wrong_state_is_found() {
    complains("not known", |shown| shown.call = None);
    complains("/lifecycle is \"busy\", must be \"completed\"", |shown| call(shown)["lifecycle"] = json!("busy"));
    complains("/outcome", |shown| call(shown)["outcome"] = json!("declined"));
    complains("/appointment_status", |shown| call(shown)["appointment_status"] = json!("Declined"));
    complains("/job/state", |shown| call(shown)["job"]["state"] = json!("IN_PROGRESS"));
    complains("/settled", |shown| call(shown)["settled"] = json!(false));
    complains("/provider", |shown| call(shown)["provider"] = json!("retell"));
    complains("/direction", |shown| call(shown)["direction"] = json!("inbound"));
    complains("/attempts/0/lifecycle", |shown| call(shown)["attempts"][0]["lifecycle"] = json!("failed"));
    complains("/attempts/0/ended_at", |shown| call(shown)["attempts"][0]["ended_at"] = json!(rfc3339(at(31))));
    complains("/attempts/1", |shown| {
        let attempt = call(shown)["attempts"][0].clone();
        call(shown)["attempts"].as_array_mut().unwrap().push(attempt);
    });
}

#[test]
fn missing_domain_event_is_found() {
    complains("domain event 7 is missing: call.completed", |shown| drop(shown.announced.pop()));
    complains("domain event 4, call.in_progress", |shown| drop(shown.announced.remove(3)));
    complains("domain event 1 is missing", |shown| shown.announced.clear());
}

#[test]
fn domain_event_too_many_is_found() {
    complains("one too many", |shown| {
        shown.announced.push(event(8, "call.failed", Some("completed"), "generic:e4", at(30), 7));
    });
    complains("domain event 4", |shown| shown.announced.insert(3, announced_in_order().remove(2)));
}

#[test]
fn domain_events_out_of_order_are_found() {
    complains("domain event 3", |shown| shown.announced.swap(2, 3));
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
        complains(&format!("call.completed: {field} is"), |shown| shown.announced[6][field] = json!("else"));
    }
    complains("source_event_id", |shown| shown.announced[6]["source_event_id"] = json!("generic:e3"));
    complains("occurred_at", |shown| shown.announced[6]["occurred_at"] = json!("2025-10-20T12:00:31Z"));
    complains("corrects", |shown| shown.announced[6]["corrects"] = json!(format!("{ID}/6")));
}

#[test]
fn timeline_must_hold_what_was_acknowledged_and_nothing_else() {
    complains("lacks generic:e4", |shown| drop(shown.timeline.pop()));
    complains("holds generic:forged", |shown| shown.timeline.push(json!({"event_id": "generic:forged", "kind": "x"})));
}

#[test]
fn lost_ending_must_be_inconclusive() {
    let came = &IN_ORDER[..3];
    let mut announced = announced_in_order();
    announced.truncate(5);
    let found_out = at(10) + PATIENCE + 30 * SECOND;
    let own = format!("switchhook:{ID}/line-1/deadline/{}", at(10));
    announced.push(event(6, "call.inconclusive", Some("in_progress"), &own, found_out, 0));
    announced.push(event(7, "appointment.inconclusive", Some("connected"), &own, found_out, 0));
    let world = |lifecycle: &str, outcome: &str, appointment: &str, announced: &[Value]| {
        findings(came, &shown(lifecycle, outcome, appointment, "FAILED", announced.to_vec(), came))
    };
    assert_eq!(world("inconclusive", "inconclusive", "Inconclusive", &announced), [""; 0]);
    // Neither the truth, which nobody told, nor the state before is right; nor may it go unsaid, or be said too early.
    assert_ne!(world("completed", "confirmed", "Confirmed", &announced), [""; 0]);
    assert_ne!(world("in_progress", "connected", "Connected", &announced), [""; 0]);
    assert_ne!(world("inconclusive", "inconclusive", "Inconclusive", &announced[..5]), [""; 0]);
    announced[5]["occurred_at"] = json!(rfc3339(at(11)));
    assert_ne!(world("inconclusive", "inconclusive", "Inconclusive", &announced), [""; 0]);
}

#[test]
fn late_ending_must_correct_what_was_announced() {
    let late = (PATIENCE + 10 * MINUTE) / SECOND;
    let came = [(0, 0), (1, 2), (2, 10), (3, 20), (4, late)];
    let own = format!("switchhook:{ID}/line-1/deadline/{}", at(20));
    let mut announced = announced_in_order();
    let found_out = at(20) + PATIENCE;
    announced[6] = event(7, "call.inconclusive", Some("in_progress"), &own, found_out, 0);
    announced.push(event(8, "call.completed", Some("inconclusive"), "generic:e4", at(30), 7));
    announced.push(event(9, "call.corrected", Some("inconclusive"), "generic:e4", at(30), 7));
    announced[8]["status"] = json!("completed");
    let world = |announced: &[Value]| {
        findings(&came, &shown("completed", "confirmed", "Confirmed", "COMPLETED", announced.to_vec(), &came))
    };
    assert_eq!(world(&announced), [""; 0]);
    for (field, wrong) in [("status", json!("failed")), ("previous", json!("ringing")), ("corrects", Value::Null)] {
        let mut changed = announced.clone();
        changed[8][field] = wrong;
        assert_ne!(world(&changed), [""; 0], "{field}");
    }
    assert_ne!(world(&announced[..8]), [""; 0], "nobody is told that it is corrected");
    announced[7].as_object_mut().unwrap().remove("corrects");
    assert_ne!(world(&announced), [""; 0]);
    assert_ne!(world(&announced_in_order()), [""; 0]);
}

#[test]
fn completion_must_wait_for_a_lost_answer_and_then_be_believed() {
    let came = [(0, 0), (1, 2), (4, 30)];
    let announced = vec![
        event(1, "call.initiated", None, "generic:e0", at(0), 0),
        event(2, "appointment.dialing", None, "generic:e0", at(0), 0),
        event(3, "call.ringing", Some("initiated"), "generic:e1", at(2), 0),
        event(4, "call.completed", Some("ringing"), "generic:e4", at(30), 0),
        event(
            5,
            "appointment.inconclusive",
            Some("dialing"),
            "switchhook:call-1/line-1/deadline/1760961630000",
            at(30) + PATIENCE,
            0,
        ),
    ];
    let world = |lifecycle: &str, job: &str, announced: &[Value]| {
        findings(&came, &shown(lifecycle, "inconclusive", "Inconclusive", job, announced.to_vec(), &came))
    };
    assert_eq!(world("completed", "COMPLETED", &announced), [""; 0]);
    assert_ne!(world("ringing", "IN_PROGRESS", &announced[..3]), [""; 0]);
    assert_ne!(world("inconclusive", "FAILED", &announced), [""; 0]);
}

#[test]
fn two_reports_at_once_may_be_taken_in_either_order() {
    let came = [(0, 0), (1, 10), (2, 10), (3, 20), (4, 30)];
    assert_eq!(findings(&came, &right()), [""; 0]);
    // The answer first: it waits for the ringing, but somebody is connected.
    let mut world = right();
    world.announced = vec![
        event(1, "call.initiated", None, "generic:e0", at(0), 0),
        event(2, "appointment.dialing", None, "generic:e0", at(0), 0),
        event(3, "appointment.connected", Some("dialing"), "generic:e2", at(10), 0),
        event(4, "call.ringing", Some("initiated"), "generic:e1", at(2), 0),
        event(5, "call.in_progress", Some("ringing"), "generic:e2", at(10), 0),
        event(6, "appointment.confirmed", Some("connected"), "generic:e3", at(20), 0),
        event(7, "call.completed", Some("in_progress"), "generic:e4", at(30), 0),
    ];
    assert_eq!(findings(&came, &world), [""; 0]);
    assert_ne!(findings(&IN_ORDER, &world), [""; 0]);
}

#[test]
fn oracle_uses_nothing_of_switchhooks_own() {
    for source in [
        include_str!("mod.rs"),
        include_str!("known.rs"),
        include_str!("announced.rs"),
        include_str!("choices.rs"),
        include_str!("../placed/mod.rs"),
        include_str!("../placed/check.rs"),
        include_str!("../placed/learned.rs"),
        include_str!("../script/mod.rs"),
        include_str!("../script/story.rs"),
        include_str!("../script/retell.rs"),
        include_str!("../script/twilio.rs"),
        include_str!("../script/generic.rs"),
    ] {
        assert!(!source.contains("use switchhook_") && !source.contains("switchhook_domain"));
        assert!(!source.contains("switchhook_providers") && !source.contains("switchhook_local"));
    }
}
