//! Tests that the check of placed calls finds errors. Each test changes one thing in a correct run, and expects a
//! mismatch about it.

use serde_json::{Value, json};

use super::super::hindrance::Hindrance;
use crate::demo::observation::{
    ApiResponse, ObservedCall, PhoneRing, PlacedCall, ProviderResponse, RequestResult, SentWebhook,
};
use crate::demo::placed_script::{ApiAction, ApiRequest, DialScenario, OUTAGE_START, PlacedScript, RequestPattern};
use crate::demo::script::{Millis, SECOND, START};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

fn mismatches(script: &PlacedScript, observed: &PlacedCall) -> Vec<String> {
    super::mismatches(script, observed, &[])
}

const ID: &str = "call-1";
const DIALLED_1: &str = "switchhook:call-1/1/dial_accepted";
const DIALLED_2: &str = "switchhook:call-1/2/dial_accepted";
const ENDED_1: &str = "retell:call_a:call_ended";
const ANALYSED_1: &str = "retell:call_a:call_analyzed:f00d";
const ENDED_2: &str = "retell:call_b:call_ended";
const ANALYSED_2: &str = "retell:call_b:call_analyzed:beef";

fn at(seconds: Millis) -> Millis {
    START + seconds * SECOND
}

fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

fn script(pattern: RequestPattern, scenarios: &[DialScenario]) -> PlacedScript {
    PlacedScript {
        key: "order-1".to_owned(),
        pattern,
        appointment_id: Some("appt-1".to_owned()),
        scenarios: scenarios.to_vec(),
        due_at: None,
        triggered_at: None,
        to: String::new(),
    }
}

fn api_response(seconds: Millis, action: ApiAction) -> ApiResponse {
    ApiResponse {
        request: ApiRequest { at: at(seconds), script: 0, action },
        code: action.expected_status(),
        body: Value::Null,
    }
}

fn provider_response(attempt: usize, at: Millis, result: RequestResult) -> ProviderResponse {
    ProviderResponse { attempt: attempt.to_string(), at, result }
}

fn sent_webhook(provider_call_id: &str, seconds: Millis, event: &'static str) -> SentWebhook {
    SentWebhook { provider_call_id: provider_call_id.to_owned(), at: at(seconds), event }
}

/// A domain event in short form: `{type} {attempt} {previous}`, the provider's call id, the source event id, and the
/// time at which it occurred.
type ShortEvent<'a> = (&'a str, Option<&'a str>, &'a str, Millis);

fn domain_events(events: &[ShortEvent<'_>]) -> Vec<Value> {
    let event = |((head, provider_call_id, source, at), sequence): (&ShortEvent<'_>, usize)| {
        let mut words = head.split(' ');
        let event_type = words.next().unwrap();
        let number = words.next().and_then(|number| number.parse::<usize>().ok());
        json!({
            "schema_version": 1,
            "id": format!("{ID}/{sequence}"),
            "type": event_type,
            "call_id": ID,
            "sequence": sequence,
            "provider": number.map(|_| "retell"),
            "provider_call_id": provider_call_id,
            "appointment_id": "appt-1",
            "attempt": number,
            "previous": words.next(),
            "status": event_type.split('.').next_back(),
            "source_event_id": (!source.is_empty()).then_some(source),
            "occurred_at": rfc3339(*at),
        })
    };
    events.iter().zip(1..).map(event).collect()
}

struct Attempt<'a> {
    lifecycle: &'a str,
    outcome: &'a str,
    provider_call_id: Option<&'a str>,
    dialled_at: Millis,
    ended_at: Millis,
}

fn call(appointment: &str, job: &str, attempts: &[Attempt<'_>]) -> Value {
    let attempt = |(attempt, number): (&Attempt<'_>, usize)| {
        json!({
            "number": number,
            "provider": "retell",
            "lifecycle": attempt.lifecycle,
            "outcome": attempt.outcome,
            "provider_call_id": attempt.provider_call_id,
            "dialled_at": rfc3339(attempt.dialled_at),
            "ended_at": rfc3339(attempt.ended_at),
        })
    };
    json!({
        "call_id": ID,
        "provider": "retell",
        "direction": "outbound",
        "appointment_id": "appt-1",
        "appointment_status": appointment,
        "job": {"state": job},
        "lifecycle": attempts.last().map(|attempt| attempt.lifecycle),
        "outcome": attempts.last().map(|attempt| attempt.outcome),
        "settled": true,
        "attempts": attempts.iter().zip(1..).map(attempt).collect::<Vec<_>>(),
    })
}

fn observed(call: Value, timeline: &[&str], domain_events: Vec<Value>) -> ObservedCall {
    let timeline = timeline.iter().map(|id| json!({"event_id": id, "kind": "x"}));
    ObservedCall {
        call: Some(call),
        timeline: timeline.collect(),
        published_at: vec![START; domain_events.len()],
        domain_events,
    }
}

fn busy_then_confirms() -> PlacedScript {
    script(RequestPattern::DueNow, &[DialScenario::Busy, DialScenario::Confirms])
}

/// The first attempt is busy, the second is confirmed. For the second attempt only the webhook `call_ended` was sent.
/// Switchhook learned the rest by a lookup.
fn right() -> PlacedCall {
    let phone_ring =
        |provider_call_id: &str, attempt: &str, behaviour, started_at, answered_at: Option<Millis>, ended_at| {
            PhoneRing {
                provider_call_id: provider_call_id.to_owned(),
                attempt: attempt.to_owned(),
                behaviour,
                started_at: at(started_at),
                answered_at: answered_at.map(at),
                ended_at: at(ended_at),
            }
        };
    let (a, b) = (Some("call_a"), Some("call_b"));
    let mut domain_events = domain_events(&[
        ("call.initiated 1", a, DIALLED_1, at(60)),
        ("appointment.dialing 1", a, DIALLED_1, at(60)),
        ("call.ringing 1 initiated", a, ENDED_1, at(66)),
        ("call.busy 1 ringing", a, ENDED_1, at(66)),
        ("call.retry_scheduled 1 busy", None, ENDED_1, at(66)),
        ("appointment.no_answer 1 dialing", a, ENDED_1, at(66)),
        ("appointment.retrying 1 no_answer", a, ENDED_1, at(66)),
        ("call.initiated 2", b, DIALLED_2, at(180)),
        ("appointment.dialing 2 retrying", b, DIALLED_2, at(180)),
        ("call.ringing 2 initiated", b, ENDED_2, at(190)),
        ("call.in_progress 2 ringing", b, ENDED_2, at(190)),
        ("call.completed 2 in_progress", b, ENDED_2, at(230)),
        ("appointment.connected 2 dialing", b, ENDED_2, at(190)),
        ("appointment.confirmed 2 connected", b, ANALYSED_2, at(230)),
    ]);
    domain_events[4]["due_at"] = json!(rfc3339(at(166)));
    let attempt = |lifecycle, outcome, provider_call_id, dialled, ended| Attempt {
        lifecycle,
        outcome,
        provider_call_id,
        dialled_at: at(dialled),
        ended_at: at(ended),
    };
    let attempts = [attempt("busy", "no_answer", a, 60, 66), attempt("completed", "confirmed", b, 180, 230)];
    PlacedCall {
        call_id: ID.to_owned(),
        api_responses: vec![api_response(10, ApiAction::Create)],
        phone_rings: vec![
            phone_ring("call_a", "1", "busy", 60, None, 65),
            phone_ring("call_b", "2", "confirms", 180, Some(190), 230),
        ],
        sent_webhooks: vec![
            sent_webhook("call_a", 66, "call_ended"),
            sent_webhook("call_a", 70, "call_analyzed"),
            sent_webhook("call_b", 231, "call_ended"),
            sent_webhook("call_b", 240, "call_ended"),
        ],
        provider_responses: vec![
            provider_response(1, at(60), RequestResult::Accepted),
            provider_response(2, at(180), RequestResult::Accepted),
            provider_response(2, at(231) + INACTIVITY_TIMEOUT, RequestResult::Analysed),
        ],
        observed: observed(
            call("Confirmed", "COMPLETED", &attempts),
            &[DIALLED_1, ENDED_1, ANALYSED_1, DIALLED_2, ENDED_2, ANALYSED_2],
            domain_events,
        ),
    }
}

fn while_down() -> PlacedScript {
    script(RequestPattern::DuringOutage, &[DialScenario::Confirms, DialScenario::Forgotten])
}

const DIALLED_IN_OUTAGE: Millis = OUTAGE_START + 60 * SECOND;
const NOT_FOUND: Millis = DIALLED_IN_OUTAGE + INACTIVITY_TIMEOUT + 30 * SECOND;
const DIALLED_AGAIN: Millis = NOT_FOUND + 60 * SECOND;
const TIMEOUT_DETECTED: Millis = DIALLED_AGAIN + INACTIVITY_TIMEOUT + 30 * SECOND;

/// The provider is down and does not answer the first dial, which is therefore no attempt. It accepts the second dial and
/// forgets the call. Nobody knows whether the person answered, so there is no third dial.
fn right_while_down() -> PlacedCall {
    let provider_call_id = Some("call_b");
    let timeout = format!("switchhook:{ID}/2/deadline/{DIALLED_AGAIN}");
    let mut domain_events = domain_events(&[
        ("call.initiated 1", provider_call_id, DIALLED_2, DIALLED_AGAIN),
        ("appointment.dialing 1", provider_call_id, DIALLED_2, DIALLED_AGAIN),
        ("call.inconclusive 1 initiated", provider_call_id, &timeout, TIMEOUT_DETECTED),
        ("call.exhausted 1 inconclusive", None, &timeout, DIALLED_AGAIN),
        ("appointment.inconclusive 1 dialing", provider_call_id, &timeout, TIMEOUT_DETECTED),
    ]);
    domain_events[3]["reason"] = json!("unheard");
    let attempt = Attempt {
        lifecycle: "inconclusive",
        outcome: "inconclusive",
        provider_call_id,
        dialled_at: DIALLED_AGAIN,
        ended_at: TIMEOUT_DETECTED,
    };
    PlacedCall {
        call_id: ID.to_owned(),
        api_responses: vec![api_response(10, ApiAction::Create)],
        phone_rings: vec![PhoneRing {
            provider_call_id: "call_b".to_owned(),
            attempt: "2".to_owned(),
            behaviour: "forgotten",
            started_at: DIALLED_AGAIN,
            answered_at: None,
            ended_at: DIALLED_AGAIN + 60 * SECOND,
        }],
        provider_responses: vec![
            provider_response(1, DIALLED_IN_OUTAGE, RequestResult::Unavailable),
            // A lookup without result counts only after the inactivity timeout.
            provider_response(1, DIALLED_IN_OUTAGE + INACTIVITY_TIMEOUT / 2, RequestResult::NotFound),
            provider_response(1, NOT_FOUND, RequestResult::NotFound),
            provider_response(2, DIALLED_AGAIN, RequestResult::Accepted),
            provider_response(2, TIMEOUT_DETECTED, RequestResult::NotFound),
        ],
        observed: observed(call("Inconclusive", "FAILED", &[attempt]), &[&timeout, DIALLED_2], domain_events),
        ..PlacedCall::default()
    }
}

/// A call that ended without an attempt. `status` is the status of the appointment.
fn right_without_attempt(status: &str, job: &str, reason: &str, at: Millis) -> PlacedCall {
    let job_event = if job == "CANCELED" { "call.canceled" } else { "call.exhausted" };
    let appointment_event = format!("appointment.{}", status.to_lowercase());
    let mut domain_events = domain_events(&[(job_event, None, "", at), (&appointment_event, None, "", at)]);
    for event in &mut domain_events {
        event["reason"] = json!(reason);
    }
    PlacedCall {
        call_id: ID.to_owned(),
        api_responses: vec![api_response(10, ApiAction::Create)],
        observed: observed(call(status, job, &[]), &[], domain_events),
        ..PlacedCall::default()
    }
}

fn right_canceled() -> PlacedCall {
    let mut placed = right_without_attempt("Canceled", "CANCELED", "canceled_by_user", at(20));
    placed.api_responses.push(api_response(20, ApiAction::Cancel));
    placed.api_responses.push(api_response(30, ApiAction::TriggerCanceled));
    placed
}

fn right_rejected() -> PlacedCall {
    let mut placed = right_without_attempt("Failed", "FAILED", "rejected_by_provider", at(60));
    placed.provider_responses.push(provider_response(1, at(60), RequestResult::Rejected));
    placed
}

fn blocked() -> PlacedScript {
    PlacedScript { due_at: Some(at(60)), ..script(RequestPattern::Blocked, &[DialScenario::Confirms]) }
}

fn right_blocked() -> PlacedCall {
    let mut placed = right_without_attempt("Blocked", "FAILED", "do_not_call", at(90));
    placed.api_responses.push(api_response(20, ApiAction::Block));
    placed
}

#[track_caller]
fn complains_of(script: &PlacedScript, right: PlacedCall, about: &str, change: impl FnOnce(&mut PlacedCall)) {
    assert_eq!(mismatches(script, &right), [""; 0], "the right world is right");
    let mut world = right;
    change(&mut world);
    let mismatches = mismatches(script, &world);
    assert!(mismatches.iter().any(|mismatch| mismatch.contains(about)), "{about}: {mismatches:?}");
}

/// Changes one thing in a correct run, and expects a mismatch that contains `about`.
#[track_caller]
fn complains(about: &str, change: impl FnOnce(&mut PlacedCall)) {
    complains_of(&busy_then_confirms(), right(), about, change);
}

#[track_caller]
fn complains_while_down(about: &str, change: impl FnOnce(&mut PlacedCall)) {
    complains_of(&while_down(), right_while_down(), about, change);
}

fn call_of(placed: &mut PlacedCall) -> &mut Value {
    placed.observed.call.as_mut().unwrap()
}

/// Returns the domain event with this sequence, counted from 1.
fn event(placed: &mut PlacedCall, sequence: usize) -> &mut Value {
    &mut placed.observed.domain_events[sequence - 1]
}

/// Removes the domain event with this sequence, and numbers the others anew.
fn remove_event(placed: &mut PlacedCall, sequence: usize) {
    placed.observed.domain_events.remove(sequence - 1);
    renumber(placed);
}

fn renumber(placed: &mut PlacedCall) {
    for (event, sequence) in placed.observed.domain_events.iter_mut().zip(1..) {
        event["sequence"] = json!(sequence);
        event["id"] = json!(format!("{ID}/{sequence}"));
    }
}

#[test]
fn right_worlds_are_right() {
    assert_eq!(mismatches(&busy_then_confirms(), &right()), [""; 0]);
    assert_eq!(mismatches(&while_down(), &right_while_down()), [""; 0]);
    assert_eq!(mismatches(&script(RequestPattern::Canceled, &[DialScenario::Confirms]), &right_canceled()), [""; 0]);
    assert_eq!(mismatches(&script(RequestPattern::DueNow, &[DialScenario::Invalid]), &right_rejected()), [""; 0]);
    assert_eq!(mismatches(&blocked(), &right_blocked()), [""; 0]);
}

#[test]
fn wrong_answer_is_found() {
    complains("POST /calls was answered 500", |placed| placed.api_responses[0].code = 500);
    complains("not as the first time", |placed| {
        let again = ApiResponse { body: json!({"call_id": "call-2"}), ..api_response(20, ApiAction::CreateAgain) };
        placed.api_responses.push(again);
    });
}

#[test]
fn wrong_state_is_found() {
    complains("not known", |placed| placed.observed.call = None);
    complains("/provider is", |placed| call_of(placed)["provider"] = json!("twilio"));
    complains("/attempts/0/provider is", |placed| call_of(placed)["attempts"][0]["provider"] = json!("twilio"));
    complains("/direction is", |placed| call_of(placed)["direction"] = json!("inbound"));
    complains("/appointment_id is", |placed| call_of(placed)["appointment_id"] = json!("appt-2"));
    complains("/appointment_status is", |placed| call_of(placed)["appointment_status"] = json!("Retrying"));
    complains("/job/state is", |placed| call_of(placed)["job"]["state"] = json!("FAILED"));
    complains("/lifecycle is", |placed| call_of(placed)["lifecycle"] = json!("in_progress"));
    complains("/outcome is", |placed| call_of(placed)["outcome"] = json!("declined"));
    complains("/settled is", |placed| call_of(placed)["settled"] = json!(false));
    complains("/attempts/0/number", |placed| call_of(placed)["attempts"][0]["number"] = json!(2));
    complains("/attempts/0/lifecycle", |placed| call_of(placed)["attempts"][0]["lifecycle"] = json!("no_answer"));
    complains("/attempts/1/outcome", |placed| call_of(placed)["attempts"][1]["outcome"] = json!("connected"));
    complains("/attempts/1/provider_call_id", |placed| {
        call_of(placed)["attempts"][1]["provider_call_id"] = json!("call_a");
    });
    complains("/attempts/0/dialled_at", |placed| {
        call_of(placed)["attempts"][0]["dialled_at"] = json!(rfc3339(at(61)));
    });
    complains("/attempts/0/ended_at", |placed| call_of(placed)["attempts"][0]["ended_at"] = json!(rfc3339(at(65))));
    complains("/attempts/1/ended_at", |placed| call_of(placed)["attempts"][1]["ended_at"] = json!(rfc3339(at(231))));
    complains("/attempts/2 is", |placed| {
        let attempt = call_of(placed)["attempts"][1].clone();
        call_of(placed)["attempts"].as_array_mut().unwrap().push(attempt);
    });
    complains("/attempts/1/number is null", |placed| {
        call_of(placed)["attempts"].as_array_mut().unwrap().pop();
    });
}

#[test]
fn every_domain_event_is_missed() {
    for sequence in 1..=right().observed.domain_events.len() {
        complains(&format!("domain event {sequence}"), |placed| remove_event(placed, sequence));
    }
    for sequence in 1..=right_while_down().observed.domain_events.len() {
        complains_while_down(&format!("domain event {sequence}"), |placed| remove_event(placed, sequence));
    }
    complains_of(
        &script(RequestPattern::Canceled, &[]),
        right_canceled(),
        "domain event 1 is missing: call.canceled",
        |placed| {
            placed.observed.domain_events.clear();
        },
    );
}

#[test]
fn every_field_of_every_domain_event_counts() {
    let wrong = [
        ("schema_version", json!(2)),
        ("id", json!("call-1/99")),
        ("type", json!("call.else")),
        ("call_id", json!("call-2")),
        ("sequence", json!(99)),
        ("provider", json!("twilio")),
        ("provider_call_id", json!("call_c")),
        ("appointment_id", Value::Null),
        ("attempt", json!(3)),
        ("previous", json!("else")),
        ("status", json!("else")),
        ("source_event_id", json!("retell:call_b:call_started")),
        ("occurred_at", json!(rfc3339(at(7_777_777)))),
        ("corrects", json!("call-1/1")),
        ("reason", json!("else")),
    ];
    for (field, wrong) in wrong {
        for sequence in 1..=right().observed.domain_events.len() {
            let what = format!("domain event {sequence}, ");
            complains(&what, |placed| event(placed, sequence)[field] = wrong.clone());
            complains(field, |placed| event(placed, sequence)[field] = wrong.clone());
        }
        for sequence in 1..=right_while_down().observed.domain_events.len() {
            complains_while_down(field, |placed| event(placed, sequence)[field] = wrong.clone());
        }
        let canceled = script(RequestPattern::Canceled, &[]);
        let rejected = script(RequestPattern::DueNow, &[DialScenario::Invalid]);
        for sequence in 1..=2 {
            let change = |placed: &mut PlacedCall| event(placed, sequence)[field] = wrong.clone();
            complains_of(&canceled, right_canceled(), field, change);
            complains_of(&rejected, right_rejected(), field, change);
            complains_of(&blocked(), right_blocked(), field, change);
        }
    }
}

#[test]
fn right_source_of_something_else_is_wrong() {
    complains("source_event_id", |placed| event(placed, 12)["source_event_id"] = json!(ANALYSED_2));
    complains("source_event_id", |placed| event(placed, 14)["source_event_id"] = json!(ENDED_2));
    complains("source_event_id", |placed| event(placed, 8)["source_event_id"] = json!(DIALLED_1));
    complains("occurred_at", |placed| event(placed, 11)["occurred_at"] = json!(rfc3339(at(230))));
}

#[test]
fn timeout_events_are_dated_by_its_start_or_its_detection() {
    complains_while_down("not the detection of the inactivity timeout", |placed| {
        event(placed, 3)["occurred_at"] = json!(rfc3339(DIALLED_AGAIN));
    });
    complains_while_down("not dated by the start of the inactivity timeout", |placed| {
        event(placed, 4)["occurred_at"] = json!(rfc3339(TIMEOUT_DETECTED));
    });
    complains_while_down("not the detection of the inactivity timeout", |placed| {
        event(placed, 3)["source_event_id"] = json!(format!("switchhook:{ID}/1/deadline/{DIALLED_AGAIN}"));
    });
    complains_while_down("was detected at", |placed| placed.provider_responses[4].at += INACTIVITY_TIMEOUT);
}

#[test]
fn dial_that_was_not_made_must_not_be_shown() {
    complains_while_down("/attempts/1 is", |placed| {
        let attempts = call_of(placed)["attempts"].as_array_mut().unwrap();
        attempts.push(attempts[0].clone());
    });
    complains_while_down("got a request for dial 3", |placed| {
        placed.provider_responses.push(provider_response(3, TIMEOUT_DETECTED + SECOND, RequestResult::Accepted));
    });
}

#[test]
fn unexpected_domain_event_is_found() {
    let drift = ("call.drift_repaired", None, "switchhook:call-1/drift/1", at(300));
    let extra = [
        ("call.failed 2 completed", Some("call_b"), ENDED_2, at(230)),
        ("call.completed 2 completed", Some("call_b"), ENDED_2, at(230)),
        ("call.exhausted 2 completed", None, ENDED_2, at(230)),
        ("call.retry_scheduled 2 completed", None, ENDED_2, at(230)),
        ("call.corrected 2 busy", Some("call_b"), ENDED_2, at(230)),
        ("call.canceled", None, "", at(300)),
        ("call.unknown_type 2 completed", Some("call_b"), ENDED_2, at(230)),
        ("appointment.declined 2 confirmed", Some("call_b"), ANALYSED_2, at(230)),
        drift,
    ];
    for event in extra {
        for place in 0..=right().observed.domain_events.len() {
            complains(&format!("domain event {}", place + 1), |placed| {
                let extra = domain_events(&[event]).remove(0);
                placed.observed.domain_events.insert(place, extra);
                renumber(placed);
            });
        }
    }
}

#[test]
fn domain_events_out_of_order_are_found() {
    for place in 0..right().observed.domain_events.len() - 1 {
        complains(&format!("domain event {}", place + 1), |placed| {
            placed.observed.domain_events.swap(place, place + 1);
            renumber(placed);
        });
    }
}

#[test]
fn retry_must_be_due_within_its_delay() {
    complains("due_at", |placed| event(placed, 5)["due_at"] = json!(rfc3339(at(65))));
    complains("due_at", |placed| event(placed, 5)["due_at"] = json!(rfc3339(at(181))));
    complains("due_at", |placed| drop(event(placed, 5).as_object_mut().unwrap().remove("due_at")));
    complains("due_at", |placed| event(placed, 4)["due_at"] = json!(rfc3339(at(166))));
    complains("due_at", |placed| {
        // The retry was dialled when it was due, but it was due too late.
        event(placed, 5)["due_at"] = json!(rfc3339(at(66 + 301)));
        placed.provider_responses[1].at = at(66 + 301);
    });
}

#[test]
fn phone_that_rings_twice_is_found() {
    complains("phones rang for", |placed| {
        let again = PhoneRing { provider_call_id: "call_c".to_owned(), ..placed.phone_rings[1].clone() };
        placed.phone_rings.push(again);
    });
    complains("before the previous attempt was over", |placed| placed.phone_rings[0].ended_at = at(181));
    complains("the requests of dial 2 were answered [Accepted, Accepted]", |placed| {
        placed.provider_responses.push(provider_response(2, at(200), RequestResult::Accepted));
    });
    complains("the requests of dial 2 were answered [RateLimited, Accepted]", |placed| {
        placed.provider_responses.insert(1, provider_response(2, at(170), RequestResult::RateLimited));
    });
    complains("got a request for dial 3", |placed| {
        placed.provider_responses.push(provider_response(3, at(2000), RequestResult::Accepted))
    });
    complains("phones rang for", |placed| drop(placed.phone_rings.pop()));
}

#[test]
fn call_out_of_its_time_is_found() {
    let later = PlacedScript { due_at: Some(at(61)), ..busy_then_confirms() };
    let mismatches = mismatches(&later, &right());
    assert!(mismatches.iter().any(|mismatch| mismatch.contains("outside its time")), "{mismatches:?}");
    let canceled = script(RequestPattern::Canceled, &[DialScenario::Confirms]);
    complains_of(&canceled, right_canceled(), "got a request for dial 1", |placed| {
        placed.provider_responses.push(provider_response(1, at(40), RequestResult::Accepted));
    });
}

#[test]
fn timeline_must_hold_what_came_and_nothing_else() {
    complains("lacks retell:call_a:call_analyzed:", |placed| drop(placed.observed.timeline.remove(2)));
    complains("lacks switchhook:call-1/2/dial_accepted", |placed| drop(placed.observed.timeline.remove(3)));
    complains("holds retell:call_b:call_started", |placed| {
        placed.observed.timeline.push(json!({"event_id": "retell:call_b:call_started", "kind": "in_progress"}));
    });
}

#[test]
fn provider_record_decides_the_history() {
    // The analysis arrives by a webhook instead of a lookup. The same domain events are correct.
    let mut by_webhook = right();
    by_webhook.provider_responses.pop();
    by_webhook.sent_webhooks.push(sent_webhook("call_b", 245, "call_analyzed"));
    assert_eq!(mismatches(&busy_then_confirms(), &by_webhook), [""; 0]);
    // Without the webhook and without the lookup, Switchhook cannot know the outcome.
    complains("domain event 14 is one too many", |placed| drop(placed.provider_responses.pop()));
    // An answer before the inactivity timeout belongs to the drift check, which does not use it.
    complains("domain event 14 is one too many", |placed| placed.provider_responses[2].at -= SECOND);
    // If `call_started` was sent, it is the source of `call.ringing` and `call.in_progress`.
    complains("domain event 10, call.ringing: source_event_id", |placed| {
        placed.sent_webhooks.insert(2, sent_webhook("call_b", 191, "call_started"));
        placed.observed.timeline.push(json!({"event_id": "retell:call_b:call_started", "kind": "in_progress"}));
    });
}

#[test]
fn triggered_call_waits_only_while_the_provider_hinders_it() {
    let mut waiting = right();
    let mut trigger = waiting.api_responses[0].clone();
    trigger.request.action = ApiAction::Trigger;
    trigger.code = 202;
    let at = trigger.request.at;
    waiting.api_responses.push(trigger);
    let from = |from, until| super::mismatches(&busy_then_confirms(), &waiting, &[Hindrance { from, until }]);
    assert_eq!(from(at - 1, at + 1), [""; 0]);
    assert_eq!(from(at + 1, at + 2).len(), 1);
}
