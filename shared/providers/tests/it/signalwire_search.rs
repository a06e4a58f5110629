//! Searches at SignalWire: a call is read by its sid, or a list is compared by numbers and time.

use serde_json::{Value, json};
use switchhook_domain::{EventKind, Provider};
use switchhook_providers::{CallSearch, ClientError, Lookup, LookupAnswer, Reading, VerifiedWebhook, read};

use crate::api::{NOW, alive, config, job, undecided};

/// Plays a search against these responses. Returns the paths of its requests, and its answer.
fn play(provider_call_id: Option<&str>, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (requests, answer) = job().search(Provider::SignalWire, provider_call_id, NOW, responses.iter().cloned());
    let base_url = Some("https://example.signalwire.com");
    assert!(requests.iter().all(|request| request.base_url.as_deref() == base_url));
    (requests.into_iter().map(|request| request.path).collect(), answer.unwrap())
}

fn call(sid: &str, status: &str, more: Value) -> Value {
    let mut call = json!({
        "sid": sid, "status": status, "direction": "outbound-api", "from": "+442079460018", "to": "+447700900000",
        "date_created": "Mon, 20 Oct 2025 12:13:56 +0000", "start_time": "Mon, 20 Oct 2025 12:14:03 +0000",
        "end_time": "Mon, 20 Oct 2025 12:14:47 +0000", "duration": 44, "answered_by": null, "parent_call_sid": null,
        "price": -0.005,
    });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

fn list(calls: &[Value]) -> (u16, Value) {
    (200, json!({"calls": calls, "page": 0, "next_page_uri": null}))
}

fn search(calls: &[Value]) -> LookupAnswer {
    play(None, &[list(calls)]).1
}

#[test]
fn known_call_is_read_by_its_sid() {
    let by_id = |call: Value| play(Some("s1"), &[(200, call)]);
    for status in ["queued", "initiated", "ringing", "in-progress"] {
        assert_eq!(by_id(call("s1", status, json!({}))).1, alive("s1"), "{status}");
    }
    let (requests, answer) = by_id(call("s1", "completed", json!({})));
    assert_eq!(requests, ["/api/laml/2010-04-01/Accounts/project-1/Calls/s1.json"]);
    let LookupAnswer::Ended { webhook, event, .. } = answer else { panic!("it has ended") };
    // Our ids are in the query, as in a callback.
    assert_eq!((event.call_id.as_str(), event.provider_call_id.as_deref()), ("call 1/ä", Some("s1")));
    let kinds: Vec<EventKind> = event.call_events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Ringing, EventKind::InProgress, EventKind::Completed]);
    let stored =
        VerifiedWebhook::from_inbox(Provider::SignalWire, webhook.query().to_owned(), webhook.body().to_vec(), 0);
    let Reading::Event(reread) = read(&stored, NOW) else { panic!("an event") };
    assert_eq!(reread, *event);

    assert_eq!(by_id(call("s1", "paused", json!({}))).1, LookupAnswer::UnknownValue { field: "status" });
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for other in [json!({}), json!({"sid": "s1"}), call("s2", "completed", json!({}))] {
        assert_eq!(by_id(other).1, unreadable);
    }
    assert_eq!(play(Some("s1"), &[(404, json!({}))]).1, LookupAnswer::Gone);
}

#[test]
fn only_call_between_both_numbers_at_that_time_is_ours() {
    let ours = || call("s1", "in-progress", json!({}));
    let (requests, answer) = play(None, &[list(&[ours()])]);
    assert_eq!(
        requests,
        [
            "/api/laml/2010-04-01/Accounts/project-1/Calls.json?To=%2B447700900000&From=%2B442079460018&StartTime%3E=2025-10-20&PageSize=50"
        ]
    );
    assert_eq!(answer, alive("s1"));
    for others in [
        json!({"direction": "inbound"}),
        json!({"parent_call_sid": "s9"}),
        json!({"to": "+447700900001"}),
        json!({"from": "+442079460019"}),
        json!({"date_created": "Mon, 20 Oct 2025 12:12:54 +0000"}),
        json!({"date_created": "Mon, 20 Oct 2025 12:15:56 +0000"}),
    ] {
        assert_eq!(search(&[call("s2", "completed", others.clone()), ours()]), alive("s1"), "{others}");
        assert_eq!(search(&[call("s2", "completed", others.clone())]), undecided("no_listed_call"), "{others}");
    }
    // The same call on two pages is one call.
    assert_eq!(search(&[ours(), ours()]), alive("s1"));
    assert_eq!(search(&[call("s1", "ringing", json!({"to": "447700900000"}))]), alive("s1"));
}

#[test]
fn search_that_is_not_sure_is_undecided() {
    let one = |more: Value| call("s1", "in-progress", more);
    assert_eq!(search(&[]), undecided("no_listed_call"));
    assert_eq!(search(&[one(json!({})), call("s2", "completed", json!({}))]), undecided("several_calls"));
    for unclear in [
        json!({"sid": null}),
        json!({"to": null}),
        json!({"from": null}),
        json!({"date_created": null, "start_time": null}),
        json!({"date_created": "Mon, 20 Sept 2025 12:13:56 +0000"}),
    ] {
        assert_eq!(search(&[one(unclear.clone())]), undecided("unclear_calls"), "{unclear}");
        let other = call("s2", "completed", unclear.clone());
        assert_eq!(search(&[one(json!({})), other]), undecided("unclear_calls"), "{unclear}");
    }
}

#[test]
fn pages_are_followed_within_the_api_alone() {
    let page = |calls: &[Value], next: &str| (200, json!({"calls": calls, "next_page_uri": next}));
    let next = "/api/laml/2010-04-01/Accounts/project-1/Calls.json?Page=1";
    let (requests, answer) = play(None, &[page(&[], next), list(&[call("s1", "ringing", json!({}))])]);
    assert_eq!((requests[1].as_str(), answer), (next, alive("s1")));
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for elsewhere in ["https://evil.example.com/", "//evil", "/api/fabric/"] {
        assert_eq!(play(None, &[page(&[], elsewhere)]).1, unreadable, "{elsewhere}");
    }
    assert_eq!(play(None, &[(404, json!({}))]).1, unreadable);
    assert_eq!(play(None, &vec![page(&[], next); 30]).1, undecided("too_many_calls"));
}

#[test]
fn search_needs_both_numbers_and_the_time() {
    let (config, job) = (config(Provider::SignalWire), job());
    for lookup in [
        Lookup { dialled_at: None, ..job.lookup(None) },
        Lookup { to: None, ..job.lookup(None) },
        Lookup { from: None, ..job.lookup(None) },
    ] {
        let search = CallSearch::start(Provider::SignalWire, &config, lookup);
        assert!(matches!(search, Err(ClientError::LookupUnsupported)));
    }
}
