//! The check of placed calls can fail: it is shown worlds that are wrong in one thing each.

use serde_json::{Value, json};

use super::super::Request;
use super::{Course, DOWN_FROM, Demand, Millis, Order, Person, findings};
use crate::demo::play::{Placed, Rang, Reply, RequestResult, Sent, Shown, Told};
use crate::demo::script::{SECOND, START};
use crate::demo::traffic::PATIENCE;

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

fn order(course: Course, people: &[Person]) -> Order {
    Order {
        key: "order-1".to_owned(),
        course,
        appointment_id: Some("appt-1".to_owned()),
        people: people.to_vec(),
        due_at: None,
        triggered_at: None,
        to: String::new(),
    }
}

fn reply(seconds: Millis, demand: Demand) -> Reply {
    Reply { request: Request { at: at(seconds), order: 0, demand }, code: demand.answer(), body: Value::Null }
}

fn told(attempt: usize, at: Millis, tale: RequestResult) -> Told {
    Told { attempt: attempt.to_string(), at, tale }
}

fn sent(provider_call_id: &str, seconds: Millis, event: &'static str) -> Sent {
    Sent { provider_call_id: provider_call_id.to_owned(), at: at(seconds), event }
}

/// A domain event as `{type} {attempt} {previous}`, the provider's call id, its source and when it happened.
type Line<'a> = (&'a str, Option<&'a str>, &'a str, Millis);

fn announced(lines: &[Line<'_>]) -> Vec<Value> {
    let event = |((head, provider_call_id, source, at), sequence): (&Line<'_>, usize)| {
        let mut words = head.split(' ');
        let event_type = words.next().unwrap();
        json!({
            "schema_version": 1,
            "id": format!("{ID}/{sequence}"),
            "type": event_type,
            "call_id": ID,
            "sequence": sequence,
            "provider": "retell",
            "provider_call_id": provider_call_id,
            "appointment_id": "appt-1",
            "attempt": words.next().and_then(|number| number.parse::<usize>().ok()),
            "previous": words.next(),
            "status": event_type.split('.').next_back(),
            "source_event_id": (!source.is_empty()).then_some(source),
            "occurred_at": rfc3339(*at),
        })
    };
    lines.iter().zip(1..).map(event).collect()
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

fn shown(call: Value, timeline: &[&str], announced: Vec<Value>) -> Shown {
    let timeline = timeline.iter().map(|id| json!({"event_id": id, "kind": "x"}));
    Shown { call: Some(call), timeline: timeline.collect(), published_at: vec![START; announced.len()], announced }
}

fn busy_then_confirms() -> Order {
    order(Course::AtOnce, &[Person::Busy, Person::Confirms])
}

/// Busy, then confirmed: of the second attempt `call_ended` alone was sent, and the rest was learned by asking.
fn right() -> Placed {
    let rang = |provider_call_id: &str, attempt: &str, behaviour, began, answered: Option<Millis>, ended| Rang {
        provider_call_id: provider_call_id.to_owned(),
        attempt: attempt.to_owned(),
        behaviour,
        began: at(began),
        answered: answered.map(at),
        ended: at(ended),
    };
    let (a, b) = (Some("call_a"), Some("call_b"));
    let mut announced = announced(&[
        ("call.initiated 1", a, DIALLED_1, at(60)),
        ("appointment.dialing 1", a, DIALLED_1, at(60)),
        ("call.ringing 1 initiated", a, ENDED_1, at(65)),
        ("call.busy 1 ringing", a, ENDED_1, at(65)),
        ("call.retry_scheduled 1 busy", None, ENDED_1, at(65)),
        ("appointment.no_answer 1 dialing", a, ENDED_1, at(65)),
        ("appointment.retrying 1 no_answer", a, ENDED_1, at(65)),
        ("call.initiated 2", b, DIALLED_2, at(180)),
        ("appointment.dialing 2 retrying", b, DIALLED_2, at(180)),
        ("call.ringing 2 initiated", b, ENDED_2, at(190)),
        ("call.in_progress 2 ringing", b, ENDED_2, at(190)),
        ("call.completed 2 in_progress", b, ENDED_2, at(230)),
        ("appointment.connected 2 dialing", b, ENDED_2, at(190)),
        ("appointment.confirmed 2 connected", b, ANALYSED_2, at(230)),
    ]);
    announced[4]["due_at"] = json!(rfc3339(at(166)));
    let attempt = |lifecycle, outcome, provider_call_id, dialled, ended| Attempt {
        lifecycle,
        outcome,
        provider_call_id,
        dialled_at: at(dialled),
        ended_at: at(ended),
    };
    let attempts = [attempt("busy", "no_answer", a, 60, 65), attempt("completed", "confirmed", b, 180, 230)];
    Placed {
        call_id: ID.to_owned(),
        replies: vec![reply(10, Demand::Create)],
        rang: vec![rang("call_a", "1", "busy", 60, None, 65), rang("call_b", "2", "confirms", 180, Some(190), 230)],
        sent: vec![
            sent("call_a", 66, "call_ended"),
            sent("call_a", 70, "call_analyzed"),
            sent("call_b", 231, "call_ended"),
            sent("call_b", 240, "call_ended"),
        ],
        told: vec![
            told(1, at(60), RequestResult::Accepted),
            told(2, at(180), RequestResult::Accepted),
            told(2, at(231) + PATIENCE, RequestResult::Analysed),
        ],
        shown: shown(
            call("Confirmed", "COMPLETED", &attempts),
            &[DIALLED_1, ENDED_1, ANALYSED_1, DIALLED_2, ENDED_2, ANALYSED_2],
            announced,
        ),
    }
}

fn while_down() -> Order {
    order(Course::WhileDown, &[Person::Confirms, Person::Invalid])
}

const DIALLED_DOWN: Millis = DOWN_FROM + 60 * SECOND;
const FOUND_OUT: Millis = DIALLED_DOWN + PATIENCE + 30 * SECOND;
const REFUSED: Millis = FOUND_OUT + 60 * SECOND;

/// The provider is down and does not say whether it took the first dial, and there is no such number.
fn right_while_down() -> Placed {
    let silence = format!("switchhook:{ID}/1/deadline/{DIALLED_DOWN}");
    let refused = format!("switchhook:{ID}/2/dial_refused");
    let mut announced = announced(&[
        ("call.initiated 1", None, &silence, DIALLED_DOWN),
        ("call.inconclusive 1 initiated", None, &silence, FOUND_OUT),
        ("call.retry_scheduled 1 inconclusive", None, &silence, DIALLED_DOWN),
        ("appointment.dialing 1", None, &silence, DIALLED_DOWN),
        ("appointment.retrying 1 dialing", None, &silence, DIALLED_DOWN),
        ("call.initiated 2", None, &refused, REFUSED),
        ("call.failed 2 initiated", None, &refused, REFUSED),
        ("call.exhausted 2 failed", None, &refused, REFUSED),
        ("appointment.dialing 2 retrying", None, &refused, REFUSED),
        ("appointment.no_answer 2 dialing", None, &refused, REFUSED),
    ]);
    announced[2]["due_at"] = json!(rfc3339(FOUND_OUT + 10 * SECOND));
    let attempt = |lifecycle, outcome, dialled_at, ended_at| Attempt {
        lifecycle,
        outcome,
        provider_call_id: None,
        dialled_at,
        ended_at,
    };
    let attempts = [
        attempt("inconclusive", "inconclusive", DIALLED_DOWN, FOUND_OUT),
        attempt("failed", "no_answer", REFUSED, REFUSED),
    ];
    Placed {
        call_id: ID.to_owned(),
        replies: vec![reply(10, Demand::Create)],
        told: vec![
            told(1, DIALLED_DOWN, RequestResult::Unavailable),
            // That it is not found counts at the end of patience alone.
            told(1, DIALLED_DOWN + PATIENCE / 2, RequestResult::NotFound),
            told(1, FOUND_OUT, RequestResult::NotFound),
            told(2, REFUSED, RequestResult::Rejected),
        ],
        shown: shown(call("NoAnswer", "FAILED", &attempts), &[&silence, &refused], announced),
        ..Placed::default()
    }
}

fn right_canceled() -> Placed {
    Placed {
        call_id: ID.to_owned(),
        replies: vec![reply(10, Demand::Create), reply(20, Demand::Cancel), reply(30, Demand::TriggerCanceled)],
        shown: shown(call("Pending", "CANCELED", &[]), &[], announced(&[("call.canceled", None, "", at(20))])),
        ..Placed::default()
    }
}

#[track_caller]
fn complains_of(order: &Order, right: Placed, about: &str, change: impl FnOnce(&mut Placed)) {
    assert_eq!(findings(order, &right), [""; 0], "the right world is right");
    let mut world = right;
    change(&mut world);
    let findings = findings(order, &world);
    assert!(findings.iter().any(|finding| finding.contains(about)), "{about}: {findings:?}");
}

/// The right world with one thing changed gives a complaint about that.
#[track_caller]
fn complains(about: &str, change: impl FnOnce(&mut Placed)) {
    complains_of(&busy_then_confirms(), right(), about, change);
}

#[track_caller]
fn complains_while_down(about: &str, change: impl FnOnce(&mut Placed)) {
    complains_of(&while_down(), right_while_down(), about, change);
}

fn call_of(placed: &mut Placed) -> &mut Value {
    placed.shown.call.as_mut().unwrap()
}

/// What is there of a right world may be counted from 1.
fn event(placed: &mut Placed, sequence: usize) -> &mut Value {
    &mut placed.shown.announced[sequence - 1]
}

/// The domain event of this sequence never was: those after it are counted as if it had not been.
fn never_announced(placed: &mut Placed, sequence: usize) {
    placed.shown.announced.remove(sequence - 1);
    count_again(placed);
}

fn count_again(placed: &mut Placed) {
    for (event, sequence) in placed.shown.announced.iter_mut().zip(1..) {
        event["sequence"] = json!(sequence);
        event["id"] = json!(format!("{ID}/{sequence}"));
    }
}

#[test]
fn right_worlds_are_right() {
    assert_eq!(findings(&busy_then_confirms(), &right()), [""; 0]);
    assert_eq!(findings(&while_down(), &right_while_down()), [""; 0]);
    assert_eq!(findings(&order(Course::Canceled, &[Person::Confirms]), &right_canceled()), [""; 0]);
}

#[test]
fn wrong_answer_is_found() {
    complains("POST /calls was answered 500", |placed| placed.replies[0].code = 500);
    complains("not as the first time", |placed| {
        let again = Reply { body: json!({"call_id": "call-2"}), ..reply(20, Demand::CreateAgain) };
        placed.replies.push(again);
    });
}

#[test]
fn wrong_state_is_found() {
    complains("not known", |placed| placed.shown.call = None);
    complains("/provider is", |placed| call_of(placed)["provider"] = json!("twilio"));
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
    for sequence in 1..=right().shown.announced.len() {
        complains(&format!("domain event {sequence}"), |placed| never_announced(placed, sequence));
    }
    for sequence in 1..=right_while_down().shown.announced.len() {
        complains_while_down(&format!("domain event {sequence}"), |placed| never_announced(placed, sequence));
    }
    complains_of(
        &order(Course::Canceled, &[]),
        right_canceled(),
        "domain event 1 is missing: call.canceled",
        |placed| {
            placed.shown.announced.clear();
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
        ("occurred_at", json!(rfc3339(at(77)))),
        ("corrects", json!("call-1/1")),
    ];
    for (field, wrong) in wrong {
        for sequence in 1..=right().shown.announced.len() {
            let what = format!("domain event {sequence}, ");
            complains(&what, |placed| event(placed, sequence)[field] = wrong.clone());
            complains(field, |placed| event(placed, sequence)[field] = wrong.clone());
        }
        for sequence in 1..=right_while_down().shown.announced.len() {
            complains_while_down(field, |placed| event(placed, sequence)[field] = wrong.clone());
        }
        let canceled = order(Course::Canceled, &[]);
        complains_of(&canceled, right_canceled(), field, |placed| event(placed, 1)[field] = wrong.clone());
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
fn silence_is_dated_by_what_it_says() {
    complains_while_down("no finding of silence", |placed| {
        event(placed, 2)["occurred_at"] = json!(rfc3339(DIALLED_DOWN));
    });
    complains_while_down("not dated by silence", |placed| {
        event(placed, 3)["occurred_at"] = json!(rfc3339(FOUND_OUT));
    });
    complains_while_down("no finding of silence", |placed| {
        event(placed, 2)["source_event_id"] = json!(format!("switchhook:{ID}/2/deadline/{DIALLED_DOWN}"));
    });
    complains_while_down("found out at", |placed| placed.told[2].at += PATIENCE);
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
        ("call.unheard_of 2 completed", Some("call_b"), ENDED_2, at(230)),
        ("appointment.declined 2 confirmed", Some("call_b"), ANALYSED_2, at(230)),
        drift,
    ];
    for line in extra {
        for place in 0..=right().shown.announced.len() {
            complains(&format!("domain event {}", place + 1), |placed| {
                let extra = announced(&[line]).remove(0);
                placed.shown.announced.insert(place, extra);
                count_again(placed);
            });
        }
    }
}

#[test]
fn domain_events_out_of_order_are_found() {
    for place in 0..right().shown.announced.len() - 1 {
        complains(&format!("domain event {}", place + 1), |placed| {
            placed.shown.announced.swap(place, place + 1);
            count_again(placed);
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
        // Dialled when it was due, and due too late.
        event(placed, 5)["due_at"] = json!(rfc3339(at(66 + 301)));
        placed.told[1].at = at(66 + 301);
    });
}

#[test]
fn phone_that_rings_twice_is_found() {
    complains("phones rang for", |placed| {
        let again = Rang { provider_call_id: "call_c".to_owned(), ..placed.rang[1].clone() };
        placed.rang.push(again);
    });
    complains("was not over", |placed| placed.rang[0].ended = at(181));
    complains("dials of attempt 2 were answered [Taken, Taken]", |placed| {
        placed.told.push(told(2, at(200), RequestResult::Accepted));
    });
    complains("dials of attempt 2 were answered [NotNow, Taken]", |placed| {
        placed.told.insert(1, told(2, at(170), RequestResult::RateLimited));
    });
    complains("was asked for attempt 3", |placed| placed.told.push(told(3, at(2000), RequestResult::Accepted)));
    complains("phones rang for", |placed| drop(placed.rang.pop()));
}

#[test]
fn call_out_of_its_time_is_found() {
    let later = Order { due_at: Some(at(61)), ..busy_then_confirms() };
    let findings = findings(&later, &right());
    assert!(findings.iter().any(|finding| finding.contains("when it must not")), "{findings:?}");
    let canceled = order(Course::Canceled, &[Person::Confirms]);
    complains_of(&canceled, right_canceled(), "was asked for attempt 1", |placed| {
        placed.told.push(told(1, at(40), RequestResult::Accepted));
    });
}

#[test]
fn timeline_must_hold_what_came_and_nothing_else() {
    complains("lacks retell:call_a:call_analyzed:", |placed| drop(placed.shown.timeline.remove(2)));
    complains("lacks switchhook:call-1/2/dial_accepted", |placed| drop(placed.shown.timeline.remove(3)));
    complains("holds retell:call_b:call_started", |placed| {
        placed.shown.timeline.push(json!({"event_id": "retell:call_b:call_started", "kind": "in_progress"}));
    });
}

#[test]
fn history_must_be_the_one_that_the_provider_tells() {
    // Told by a webhook instead of an answer: the same domain events are right.
    let mut by_webhook = right();
    by_webhook.told.pop();
    by_webhook.sent.push(sent("call_b", 245, "call_analyzed"));
    assert_eq!(findings(&busy_then_confirms(), &by_webhook), [""; 0]);
    // Told by neither, nobody can have known.
    complains("domain event 14 is one too many", |placed| drop(placed.told.pop()));
    // An answer that came before the end of patience was to another question, and taken by nobody.
    complains("domain event 14 is one too many", |placed| placed.told[2].at -= SECOND);
    // The start was told, so the ringing and the answer are news of the start.
    complains("domain event 10, call.ringing: source_event_id", |placed| {
        placed.sent.insert(2, sent("call_b", 191, "call_started"));
        placed.shown.timeline.push(json!({"event_id": "retell:call_b:call_started", "kind": "in_progress"}));
    });
}
