//! Searches at Vonage: a call is read by its id, or a list is compared by numbers and time.

use serde_json::{Value, json};
use switchhook_domain::{EventKind, Provider};
use switchhook_providers::LookupAnswer;

use crate::api::{NOW, alive, job, undecided};

/// Plays a search against these responses. Returns the paths of its requests, and its answer.
fn play(provider_call_id: Option<&str>, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (requests, answer) = job().search(Provider::Vonage, provider_call_id, NOW, responses.iter().cloned());
    assert!(requests.iter().all(|request| request.token_login.is_some()));
    (requests.into_iter().map(|request| request.path).collect(), answer.unwrap())
}

const STARTED: &str = "2025-10-20 12:14:03";

fn call(id: &str, status: &str, started: Option<&str>) -> Value {
    json!({
        "uuid": id, "status": status, "direction": "outbound", "conversation_uuid": "CON-1",
        "from": {"type": "phone", "number": "442079460018"}, "to": {"type": "phone", "number": "447700900000"},
        "start_time": started, "end_time": "2025-10-20 12:15:21",
        "duration": if started.is_some() { "78" } else { "0" }, "rate": "0.01", "price": "0.02", "network": "23410",
    })
}

fn list(calls: &[Value], count: usize) -> (u16, Value) {
    (200, json!({"count": count, "page_size": 100, "record_index": 0, "_embedded": {"calls": calls}}))
}

fn search(calls: &[Value]) -> LookupAnswer {
    play(None, &[list(calls, calls.len())]).1
}

/// Kinds of the events of an ended call.
fn kinds(answer: LookupAnswer) -> Vec<EventKind> {
    let LookupAnswer::Ended { event, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(event.provider_call_id.as_deref(), Some("v1"));
    event.call_events.iter().map(|event| event.kind).collect()
}

#[test]
fn known_call_is_read_by_its_id() {
    let by_id = |status: &str, started| play(Some("v1"), &[(200, call("v1", status, started))]);
    let (requests, answer) = by_id("answered", Some(STARTED));
    assert_eq!((requests, answer), (vec!["/v1/calls/v1".to_owned()], alive("v1")));
    for status in ["started", "ringing", "answered", "human", "machine"] {
        assert_eq!(by_id(status, None).1, alive("v1"), "{status}");
    }
    let answered = [EventKind::Ringing, EventKind::InProgress, EventKind::Completed];
    assert_eq!(kinds(by_id("completed", Some(STARTED)).1), answered);
    assert_eq!(kinds(by_id("completed", None).1), [EventKind::Completed]);
    assert_eq!(kinds(by_id("busy", None).1), [EventKind::Ringing, EventKind::Busy]);
    assert_eq!(kinds(by_id("unanswered", None).1), [EventKind::Ringing, EventKind::NoAnswer]);
    assert_eq!(kinds(by_id("timeout", None).1), [EventKind::Ringing, EventKind::NoAnswer]);
    assert_eq!(kinds(by_id("cancelled", None).1), [EventKind::Canceled]);
    assert_eq!(kinds(by_id("failed", None).1), [EventKind::Failed]);
    assert_eq!(kinds(by_id("rejected", None).1), [EventKind::Ringing, EventKind::Busy]);
    for status in ["new", "record"] {
        assert_eq!(by_id(status, None).1, LookupAnswer::UnknownValue { field: "status" });
    }
    // Vonage answers 404 in every region but the one of the call.
    assert_eq!(play(Some("v1"), &[(404, json!({}))]).1, LookupAnswer::Gone);
    let other = play(Some("v1"), &[(200, call("v2", "busy", None))]).1;
    assert_eq!(other, LookupAnswer::RetryLater { reason: "unreadable" });
}

#[test]
fn one_call_between_both_numbers_around_the_dial_is_ours() {
    let ours = call("v1", "completed", Some(STARTED));
    let (requests, answer) = play(None, &[list(std::slice::from_ref(&ours), 1)]);
    assert_eq!(
        requests,
        [
            "/v1/calls?date_start=2025-10-20T12%3A12%3A55Z&date_end=2025-10-20T12%3A15%3A55Z&order=asc&page_size=100&record_index=0"
        ]
    );
    assert_eq!(kinds(answer), [EventKind::Ringing, EventKind::InProgress, EventKind::Completed]);
    assert_eq!(search(&[call("v1", "answered", Some(STARTED))]), alive("v1"));

    let changed = |field: &str, value: Value| {
        let mut call = call("v2", "completed", Some(STARTED));
        call[field] = value;
        call
    };
    let others = [
        changed("direction", json!("inbound")),
        changed("from", json!({"type": "phone", "number": "442079460019"})),
        changed("to", json!({"type": "phone", "number": "447700900001"})),
        changed("to", json!({"type": "websocket", "uri": "wss://example.com"})),
        changed("start_time", json!("2025-10-20 12:16:00")),
    ];
    let listed: Vec<Value> = others.into_iter().chain([ours.clone()]).collect();
    assert_eq!(kinds(search(&listed)).len(), 3);
    let several = [ours.clone(), call("v2", "completed", Some(STARTED))];
    assert_eq!(search(&several), undecided("several_calls"));
    // A call without a time may be ours too.
    assert_eq!(search(&[ours, call("v2", "busy", None)]), undecided("unclear_calls"));
}

#[test]
fn empty_list_proves_nothing() {
    assert_eq!(search(&[]), undecided("no_listed_call"));
    assert_eq!(search(&[call("v1", "busy", None)]), undecided("no_listed_call"));
}

#[test]
fn pages_are_followed_to_the_end() {
    let others = vec![json!({"uuid": "x"}); 100];
    let ours = call("v1", "answered", Some(STARTED));
    let (requests, answer) = play(None, &[list(&others, 101), list(&[ours], 101)]);
    assert!(requests[1].ends_with("&page_size=100&record_index=100"), "{requests:?}");
    assert_eq!(answer, alive("v1"));
    // A page may be shorter than asked for.
    let ours = call("v1", "answered", Some(STARTED));
    let (requests, answer) = play(None, &[list(&others[..60], 61), list(&[ours], 61)]);
    assert!(requests[1].ends_with("&record_index=60"), "{requests:?}");
    assert_eq!(answer, alive("v1"));
    // A list that counts calls and shows none is over.
    assert_eq!(play(None, &[list(&others, 900), list(&[], 900)]).1, undecided("no_listed_call"));
}
