//! Searches at Plivo: a call is read in each of three states, and lists are compared by numbers and time.

use serde_json::{Value, json};
use switchhook_domain::{EventKind, Provider};
use switchhook_providers::{CallSearch, LookupAnswer, SearchStep};

use crate::api::{NOW, config, job};

/// Plays a search against these responses. Returns its requests, without the path of the account, and its answer.
fn play(provider_call_id: Option<&str>, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (config, job) = (config(Provider::Plivo), job());
    let mut search = CallSearch::start(Provider::Plivo, &config, job.lookup(provider_call_id)).unwrap();
    let mut requests = Vec::new();
    for (status, body) in responses {
        requests.push(search.request().path.replace("/v1/Account/MA1/Call/", ""));
        match search.respond(*status, body.to_string().as_bytes(), NOW) {
            SearchStep::Ask(next) => search = next,
            SearchStep::Answer(answer) => return (requests, answer),
        }
    }
    panic!("no answer after {requests:?}")
}

fn live(id: &str, started: &str) -> Value {
    json!({
        "call_uuid": id, "request_uuid": id, "call_status": "in-progress", "direction": "outbound",
        "from": "442079460018", "to": "447700900000", "session_start": started,
    })
}

fn record(id: &str, created: &str, answered: Option<&str>, cause: u32, name: &str) -> Value {
    json!({
        "call_uuid": id, "call_direction": "outbound", "from_number": "+442079460018", "to_number": "447700900000",
        "initiation_time": created, "answer_time": answered, "end_time": "2025-10-20 12:15:21+00:00",
        "bill_duration": if answered.is_some() { 78 } else { 0 }, "parent_call_uuid": null,
        "hangup_cause_code": cause, "hangup_cause_name": name,
    })
}

const CREATED: &str = "2025-10-20 12:13:56+00:00";

fn not_found() -> (u16, Value) {
    (404, json!({"error": "not found"}))
}

fn named(ids: &[&str]) -> (u16, Value) {
    (200, json!({"calls": ids}))
}

fn page(calls: &[Value], next: Option<&str>) -> (u16, Value) {
    (200, json!({"objects": calls, "meta": {"next": next}}))
}

fn alive(id: &str) -> LookupAnswer {
    LookupAnswer::Alive { provider_call_id: id.to_owned() }
}

/// Kinds of the events of an ended call. The event belongs to the attempt that was looked up.
fn kinds(answer: LookupAnswer) -> Vec<EventKind> {
    let LookupAnswer::Ended { event, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((event.call_id, event.attempt), (job().call_id, Some(job().attempt)));
    event.call_events.iter().map(|event| event.kind).collect()
}

#[test]
fn known_call_is_read_in_each_state() {
    let (requests, answer) = play(Some("p1"), &[(200, live("p1", "2025-10-20 12:13:56"))]);
    assert_eq!((requests, answer), (vec!["p1/?status=live".to_owned()], alive("p1")));

    let ended = record("p1", CREATED, Some("2025-10-20 12:14:03+00:00"), 4000, "Normal Hangup");
    let (requests, answer) = play(Some("p1"), &[not_found(), (200, ended)]);
    assert_eq!(requests, ["p1/?status=live", "p1/"]);
    assert_eq!(kinds(answer), [EventKind::Ringing, EventKind::InProgress, EventKind::Completed]);

    let (requests, answer) = play(Some("p1"), &[not_found(), not_found(), (200, live("p1", "2025-10-20 12:13:56"))]);
    assert_eq!((requests.last().unwrap().as_str(), answer), ("p1/?status=queued", alive("p1")));

    let other = play(Some("p1"), &[(200, live("p2", "2025-10-20 12:13:56"))]).1;
    assert_eq!(other, LookupAnswer::RetryLater { reason: "unreadable" });
}

#[test]
fn record_says_how_an_unanswered_call_ended() {
    let ended = |cause, name| play(Some("p1"), &[not_found(), (200, record("p1", CREATED, None, cause, name))]).1;
    assert_eq!(kinds(ended(3000, "No Answer")), [EventKind::Ringing, EventKind::NoAnswer]);
    assert_eq!(kinds(ended(3010, "Busy Line")), [EventKind::Ringing, EventKind::Busy]);
    assert_eq!(kinds(ended(3020, "Rejected")), [EventKind::Ringing, EventKind::Busy]);
    assert_eq!(kinds(ended(1000, "Canceled")), [EventKind::Canceled]);
    assert_eq!(kinds(ended(2000, "Invalid Destination Address")), [EventKind::Failed]);
    assert_eq!(ended(9999, "New"), LookupAnswer::UnknownValue { field: "hangup_cause_code" });
    let unfinished = json!({"call_uuid": "p1", "end_time": null, "bill_duration": 1});
    let answer = play(Some("p1"), &[not_found(), (200, unfinished)]).1;
    assert_eq!(answer, LookupAnswer::RetryLater { reason: "unreadable" });
}

#[test]
fn same_record_gives_the_same_event_in_every_time_zone() {
    let in_zone = |created: &str, answered: &str| {
        play(Some("p1"), &[not_found(), (200, record("p1", created, Some(answered), 4000, "Normal Hangup"))]).1
    };
    let utc = in_zone(CREATED, "2025-10-20 12:14:03+00:00");
    assert_eq!(utc, in_zone("2025-10-20 17:43:56+05:30", "2025-10-20 17:44:03+05:30"));
}

#[test]
fn unknown_call_is_searched_in_every_list() {
    let none = || [named(&[]), named(&[]), named(&[]), page(&[], None), page(&[], None)];
    let (requests, answer) = play(None, &none());
    assert_eq!(
        requests,
        [
            "?status=queued&limit=20&offset=0",
            "?status=live&to_number=447700900000&limit=20&offset=0",
            "?status=live&to_number=%2B447700900000&limit=20&offset=0",
            "?to_number=447700900000&end_time__gte=2025-10-20%2012%3A12%3A55&limit=20&offset=0",
            "?to_number=%2B447700900000&end_time__gte=2025-10-20%2012%3A12%3A55&limit=20&offset=0",
        ]
    );
    assert_eq!(answer, LookupAnswer::NotFound);
    // A call with an id was placed, so it is gone, not never placed.
    let known: Vec<_> = std::iter::repeat_with(not_found).take(3).chain(none()).collect();
    assert_eq!(play(Some("p1"), &known).1, LookupAnswer::Gone);
}

#[test]
fn one_call_between_both_numbers_around_the_dial_is_ours() {
    let ended = |id: &str, created: &str| record(id, created, None, 3010, "Busy Line");
    let search = |first: &[Value], second: &[Value]| {
        play(None, &[named(&[]), named(&[]), named(&[]), page(first, None), page(second, None)]).1
    };
    let ours = ended("p1", CREATED);
    assert_eq!(kinds(search(std::slice::from_ref(&ours), &[])), [EventKind::Ringing, EventKind::Busy]);
    // Both filters may find the same call.
    assert_eq!(kinds(search(std::slice::from_ref(&ours), std::slice::from_ref(&ours))).len(), 2);
    let mut elsewhere = ended("p2", CREATED);
    elsewhere["from_number"] = "442079460019".into();
    let mut leg = ended("p3", CREATED);
    leg["parent_call_uuid"] = "p9".into();
    let later = ended("p4", "2025-10-20 12:30:00+00:00");
    assert_eq!(search(&[elsewhere, leg, later], &[]), LookupAnswer::NotFound);
    let several = search(&[ours], &[ended("p5", CREATED)]);
    assert_eq!(several, LookupAnswer::Undecided { reason: "several_calls" });
    // A time without a zone proves nothing, unless it fits.
    let unclear = LookupAnswer::Undecided { reason: "unclear_calls" };
    assert_eq!(search(&[ended("p6", "2025-10-20 17:43:56")], &[]), unclear);
    assert_eq!(kinds(search(&[ended("p7", "2025-10-20 12:13:56")], &[])).len(), 2);
}

#[test]
fn listed_live_call_is_read_and_pages_are_followed() {
    let rest = || [named(&[]), page(&[], None), page(&[], None)];
    let found = |response: (u16, Value)| {
        let responses: Vec<_> = [named(&[]), named(&["p1"]), response].into_iter().chain(rest()).collect();
        play(None, &responses)
    };
    let (requests, answer) = found((200, live("p1", "2025-10-20 12:13:56.238707")));
    assert_eq!((requests[2].as_str(), answer), ("p1/?status=live", alive("p1")));
    // It went on before it was read, or its time has no zone and does not fit.
    let unclear = LookupAnswer::Undecided { reason: "unclear_calls" };
    assert_eq!(found(not_found()).1, unclear);
    assert_eq!(found((200, live("p1", "2025-10-20 17:43:56"))).1, unclear);

    let responses = [named(&[]), named(&[]), named(&[]), page(&[], Some("/next")), page(&[], None), page(&[], None)];
    let (requests, answer) = play(None, &responses);
    assert!(requests[4].ends_with("&limit=20&offset=20"), "{requests:?}");
    assert_eq!(answer, LookupAnswer::NotFound);
}
