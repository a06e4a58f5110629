//! Searches at Plivo: a call is read in each of three states, and lists are compared by numbers and time.

use serde_json::{Value, json};
use switchhook_domain::{EventKind, NeverDialled, Provider, ProviderEvent};
use switchhook_providers::LookupAnswer;

use crate::api::{NOW, alive, job, undecided};
use crate::reading::{into_event, read_body};

/// Plays a search against these responses. Returns the paths of its requests, without the path of the account, and its answer.
fn play(provider_call_id: Option<&str>, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (requests, answer) = job().search(Provider::Plivo, provider_call_id, NOW, responses.iter().cloned());
    let paths = requests.into_iter().map(|request| request.path.replace("/v1/Account/MA1/Call/", ""));
    (paths.collect(), answer.unwrap())
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
    assert_eq!(kinds(ended(6010, "Ring Timeout Reached")), [EventKind::Ringing, EventKind::NoAnswer]);
    for (cause, name) in [(3010, "Busy Line"), (3020, "Rejected"), (3100, "Busy Everywhere"), (3110, "Declined")] {
        assert_eq!(kinds(ended(cause, name)), [EventKind::Ringing, EventKind::Busy], "{cause}");
    }
    assert_eq!(kinds(ended(1000, "Canceled")), [EventKind::Canceled]);
    let failures = [
        (2000, "Invalid Destination Address"),
        (3030, "Unknown Caller ID"),
        (3050, "Unallocated Number"),
        (3090, "Network Congestion"),
        (3120, "User Does Not Exist Anywhere"),
        (3140, "DNO Caller ID"),
        (5000, "Network Error"),
    ];
    for (cause, name) in failures {
        assert_eq!(kinds(ended(cause, name)), [EventKind::Failed], "{cause}");
    }
    assert_eq!(kinds(ended(1010, "Canceled (Out Of Credits)")), [EventKind::Failed]);
    // The call is over, and Plivo does not know why. That is no status which it may report later. With the other causes, somebody or a
    // machine answered, so nobody may be called again.
    let answered = [
        (7011, "Error Reaching Answer URL"),
        (8011, "Invalid Answer XML"),
        (9000, "Lost Race"),
        (9100, "Machine Detected"),
    ];
    for (cause, name) in [(0, "Unknown")].into_iter().chain(answered) {
        assert_eq!(kinds(ended(cause, name)), [EventKind::Completed], "{cause}");
    }
    assert_eq!(ended(9999, "New"), LookupAnswer::UnknownValue { field: "hangup_cause_code" });
    let unfinished = json!({"call_uuid": "p1", "end_time": null, "bill_duration": 1});
    let answer = play(Some("p1"), &[not_found(), (200, unfinished)]).1;
    assert_eq!(answer, LookupAnswer::RetryLater { reason: "unreadable" });
}

/// Call events of an event, without their times.
fn meaning(event: &ProviderEvent) -> Vec<(EventKind, bool, Option<NeverDialled>)> {
    event.call_events.iter().map(|event| (event.kind, event.permanent, event.never_dialled)).collect()
}

#[test]
fn record_of_a_failed_call_says_the_same_as_its_callback() {
    let never_dialled = Some(NeverDialled::Unclear);
    for (cause, permanent, never_dialled) in [
        (2000, true, None),
        (3050, true, None),
        (3120, true, None),
        (2030, false, never_dialled),
        (2040, false, never_dialled),
        (2050, false, never_dialled),
        (1010, false, None),
        (1020, false, None),
        (2010, false, None),
        (3030, false, None),
        (3140, false, None),
        (5000, false, None),
    ] {
        let answer = play(Some("p1"), &[not_found(), (200, record("p1", CREATED, None, cause, "Failed"))]).1;
        let LookupAnswer::Ended { event, .. } = answer else { panic!("{answer:?}") };
        let form = format!("CallUUID=p1&Event=Hangup&CallStatus=failed&HangupCauseCode={cause}&BillDuration=0");
        let callback = into_event(read_body(Provider::Plivo, "", form.as_bytes()));
        assert_eq!(meaning(&event), [(EventKind::Failed, permanent, never_dialled)], "{cause}");
        assert_eq!(meaning(&event), meaning(&callback), "{cause}");
    }
}

#[test]
fn record_of_an_answered_call_says_how_it_ended() {
    let ended = |cause, name| {
        let record = record("p1", CREATED, Some("2025-10-20 12:14:03+00:00"), cause, name);
        kinds(play(Some("p1"), &[not_found(), (200, record)]).1).pop().unwrap()
    };
    for (cause, name) in [(0, "Unknown"), (4000, "Normal Hangup"), (7011, "Error Reaching Answer URL"), (9999, "New")] {
        assert_eq!(ended(cause, name), EventKind::Completed, "{cause}");
    }
    // The callback says `failed`, and the record must not make it `completed`.
    for (cause, name) in [(1010, "Canceled (Out Of Credits)"), (5010, "Internal Error")] {
        assert_eq!(ended(cause, name), EventKind::Failed, "{cause}");
    }
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
    let none = || [named(&[]), named(&[]), named(&[]), named(&[]), page(&[], None), page(&[], None)];
    let (requests, answer) = play(None, &none());
    assert_eq!(
        requests,
        [
            "?status=queued&to_number=447700900000&limit=20&offset=0",
            "?status=queued&to_number=%2B447700900000&limit=20&offset=0",
            "?status=live&to_number=447700900000&limit=20&offset=0",
            "?status=live&to_number=%2B447700900000&limit=20&offset=0",
            "?end_time__gte=2025-10-20%2012%3A12%3A55&to_number=447700900000&limit=20&offset=0",
            "?end_time__gte=2025-10-20%2012%3A12%3A55&to_number=%2B447700900000&limit=20&offset=0",
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
        play(None, &[named(&[]), named(&[]), named(&[]), named(&[]), page(first, None), page(second, None)]).1
    };
    let ours = ended("p1", CREATED);
    assert_eq!(kinds(search(std::slice::from_ref(&ours), &[])), [EventKind::Ringing, EventKind::Busy]);
    // Both filters may find the same call.
    assert_eq!(kinds(search(std::slice::from_ref(&ours), std::slice::from_ref(&ours))).len(), 2);
    let mut leg = ended("p3", CREATED);
    leg["parent_call_uuid"] = "p9".into();
    let earlier = ended("p4", "2025-10-20 12:10:00+00:00");
    assert_eq!(search(&[leg.clone(), earlier.clone()], &[]), LookupAnswer::NotFound);
    assert_eq!(kinds(search(&[leg.clone(), earlier, ours.clone()], &[])).len(), 2);
    let several = search(std::slice::from_ref(&ours), &[ended("p5", CREATED)]);
    assert_eq!(several, undecided("several_calls"));
    // Our dial may have waited in Plivo's queue.
    let unclear = undecided("unclear_calls");
    let later = ended("p6", "2025-10-20 12:18:00+00:00");
    assert_eq!(search(std::slice::from_ref(&later), &[]), unclear);
    assert_eq!(search(&[later.clone(), ours], &[]), unclear);
    let mut elsewhere = later;
    elsewhere["to_number"] = "447700900001".into();
    leg["initiation_time"] = "2025-10-20 12:18:00+00:00".into();
    assert_eq!(search(&[elsewhere, leg], &[]), LookupAnswer::NotFound);
    // A time without a zone proves nothing, unless it fits.
    assert_eq!(search(&[ended("p7", "2025-10-20 17:43:56")], &[]), unclear);
    assert_eq!(kinds(search(&[ended("p8", "2025-10-20 12:13:56")], &[])).len(), 2);
}

#[test]
fn call_that_may_be_ours_keeps_the_search_undecided() {
    let ours = record("p1", CREATED, None, 3010, "Busy Line");
    let unclear = undecided("unclear_calls");
    let search = |records: &[Value]| {
        play(None, &[named(&[]), named(&[]), named(&[]), named(&[]), page(records, None), page(&[], None)]).1
    };
    let with = |field: &str, value: Value| {
        let mut other = record("p2", CREATED, None, 3010, "Busy Line");
        other[field] = value;
        other
    };
    // Plivo may show another calling number than the one of the request. The two last calls have no id and no readable time.
    for other in [
        with("from_number", json!("442079460019")),
        with("from_number", json!("anonymous")),
        with("from_number", Value::Null),
        with("to_number", Value::Null),
        with("call_uuid", Value::Null),
        with("initiation_time", Value::Null),
    ] {
        assert_eq!(search(std::slice::from_ref(&other)), unclear, "{other}");
        assert_eq!(search(&[ours.clone(), other.clone()]), unclear, "{other}");
    }
    // A call to somebody else, one of another time, and one that another call dialled are not ours.
    let mut later = with("from_number", json!("442079460019"));
    later["initiation_time"] = "2025-10-20 12:30:00+00:00".into();
    let mut leg = with("from_number", json!("442079460019"));
    leg["parent_call_uuid"] = "p9".into();
    let elsewhere = with("to_number", json!("447700900001"));
    assert_eq!(search(&[later.clone(), leg.clone(), elsewhere.clone()]), LookupAnswer::NotFound);
    assert_eq!(kinds(search(&[later, leg, elsewhere, ours])), [EventKind::Ringing, EventKind::Busy]);
}

#[test]
fn listed_call_is_followed_until_it_is_read() {
    let rest = || [named(&[]), page(&[], None), page(&[], None)];
    let found = |responses: &[(u16, Value)]| {
        let first = [named(&[]), named(&[]), named(&["p1"])];
        play(None, &first.into_iter().chain(responses.iter().cloned()).chain(rest()).collect::<Vec<_>>())
    };
    let (requests, answer) = found(&[(200, live("p1", "2025-10-20 12:13:56.238707"))]);
    assert_eq!((requests[3].as_str(), answer), ("p1/?status=live", alive("p1")));
    // It ended before it was read.
    let ended = record("p1", CREATED, None, 3010, "Busy Line");
    let (requests, answer) = found(&[not_found(), (200, ended)]);
    assert_eq!((requests[4].as_str(), kinds(answer).len()), ("p1/", 2));
    // It cannot be read at all, or its time has no zone and does not fit.
    let unclear = undecided("unclear_calls");
    assert_eq!(found(&[not_found(), not_found()]).1, unclear);
    assert_eq!(found(&[(200, live("p1", "2025-10-20 17:43:56"))]).1, unclear);
    // A queued call that went on is no reason to give up.
    let mut elsewhere = live("p1", "2025-10-20 12:13:56");
    elsewhere["to"] = "447700900001".into();
    let rest = [named(&[]), named(&[]), named(&[]), page(&[], None), page(&[], None)];
    let responses: Vec<_> = [named(&["p1"]), not_found(), (200, elsewhere)].into_iter().chain(rest).collect();
    let (requests, answer) = play(None, &responses);
    assert_eq!(requests[1..3], ["p1/?status=queued", "p1/?status=live"]);
    assert_eq!(answer, LookupAnswer::NotFound);
}

#[test]
fn pages_are_followed_and_no_call_is_read_twice() {
    let responses =
        [named(&[]), named(&[]), named(&[]), named(&[]), page(&[], Some("/next")), page(&[], None), page(&[], None)];
    let (requests, answer) = play(None, &responses);
    assert!(requests[5].ends_with("&limit=20&offset=20"), "{requests:?}");
    assert_eq!(answer, LookupAnswer::NotFound);

    // Plivo may ignore the filter and the offset of a list of ids. Then every list shows the same full page.
    let ids: Vec<String> = (0..20).map(|id| format!("p{id}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut elsewhere = live("p1", "2025-10-20 12:13:56");
    elsewhere["to"] = "447700900001".into();
    let reads = std::iter::repeat_n((200, elsewhere), ids.len());
    let rest = [named(&ids), named(&ids), named(&[]), named(&[]), page(&[], None), page(&[], None)];
    let responses: Vec<_> = [named(&ids)].into_iter().chain(reads).chain(rest).collect();
    let (requests, answer) = play(None, &responses);
    assert_eq!((requests.len(), answer), (27, LookupAnswer::NotFound));
}

#[test]
fn call_is_ours_if_either_of_its_ids_is_the_one_of_our_dial() {
    // Nothing says that the id of a request is the one of its call. So a call that has ours under either name wins.
    let mut ours = live("p1", "2025-10-20 12:13:56");
    ours["request_uuid"] = "r1".into();
    let responses = |call: &Value| {
        let lists = [named(&[]), named(&[]), named(&["p1"]), (200, call.clone()), named(&[])];
        let records = [record("p2", CREATED, None, 3010, "Busy Line")];
        let lists = lists.into_iter().chain([page(&records, None), page(&[], None)]);
        std::iter::repeat_with(not_found).take(3).chain(lists).collect::<Vec<_>>()
    };
    assert_eq!(play(Some("r1"), &responses(&ours)).1, alive("p1"));
    // The other call between both numbers is of another request.
    ours["request_uuid"] = "r2".into();
    assert_eq!(play(Some("r1"), &responses(&ours)).1, undecided("unclear_calls"));
}
