//! Searches at Telnyx: the events of all calls are read for our ids, and then the active calls.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{EventKind, Provider, Timestamp};
use switchhook_providers::LookupAnswer;

use crate::api::{NOW, alive, job, undecided};
use crate::lookups::{event, ours, play, summary, telnyx_call};

/// Row of Telnyx's list of events, with the raw webhook in its metadata.
fn telnyx_row(id: &str, event_type: &str, call_control_id: &str, ours: &Value) -> Value {
    let event = json!({
        "record_type": "event", "event_type": event_type, "id": id, "occurred_at": "2025-10-20T12:14:47.224107Z",
        "payload": {
            "call_control_id": call_control_id, "client_state": BASE64_STANDARD.encode(ours.to_string()),
            "hangup_cause": "user_busy", "start_time": "2025-10-20T12:13:55.127783Z",
        },
    });
    json!({"record_type": "call_event", "type": "webhook", "name": event_type, "metadata": event})
}

fn telnyx_page(rows: &[Value], page: u64, pages: u64) -> (u16, Value) {
    (200, json!({"data": rows, "meta": {"page_number": page, "total_pages": pages}}))
}

fn other_ids(answer: Option<&LookupAnswer>) -> Vec<&str> {
    let Some(LookupAnswer::Ended { others, .. }) = answer else { panic!("{answer:?}") };
    others.iter().map(|(_, event)| event.event_id.as_str()).collect()
}

#[test]
fn telnyx_tells_how_a_call_ended_by_the_raw_webhook() {
    let gone = (404, json!({"errors": [{"code": "10005"}]}));
    // Telnyx documents 422 with one of these codes, as a text, for a call that it has forgotten.
    let refused = |code: Value| (422, json!({"errors": [{"code": code, "title": "Invalid Call Control ID"}]}));
    let forgotten = [refused("90015".into()), refused("90018".into()), refused(90015.into())];
    let ended = (200, telnyx_call(false, Some("2025-10-20T12:14:47.224107Z")));
    let other = telnyx_row("e0", "call.hangup", "v3:0", &ours());
    let initiated = telnyx_row("e1", "call.initiated", "v3:1", &ours());
    let hangup = telnyx_row("e2", "call.hangup", "v3:1", &json!({}));
    for first in [gone.clone(), ended.clone()].into_iter().chain(forgotten.clone()) {
        let pages =
            [telnyx_page(&[other.clone(), initiated.clone()], 1, 2), telnyx_page(std::slice::from_ref(&hangup), 2, 2)];
        let (requests, answer) = play(Provider::Telnyx, Some("v3:1"), [first].into_iter().chain(pages));
        assert_eq!(requests.len(), 3, "{requests:?}");
        assert_eq!(other_ids(answer.as_ref()), ["telnyx:e1"], "the event of another call is left out");
        let event = event(answer.unwrap());
        assert_eq!((event.event_id.as_str(), event.event_type.as_str()), ("telnyx:e2", "call.hangup"));
        assert!(event.call_events.iter().any(|event| event.kind == EventKind::Busy));
    }
    // An ended call is asked about by its leg, and a forgotten call by its numbers.
    let (requests, _) = play(Provider::Telnyx, Some("v3:1"), [ended.clone(), telnyx_page(&[], 1, 0)]);
    assert_snapshot!(requests.last().unwrap(), @"GET /v2/call_events?filter%5Bleg_id%5D=l1&filter%5Btype%5D=webhook&page%5Bnumber%5D=1&page%5Bsize%5D=100");
    // Raw webhooks may lie deeper in the metadata, and nobody knows the order of the list.
    let mut deeper = hangup.clone();
    deeper["metadata"] = json!({"raw": {"data": hangup["metadata"]}, "delivered": true});
    let (_, answer) = play(Provider::Telnyx, Some("v3:1"), [gone.clone(), telnyx_page(&[deeper, initiated], 1, 1)]);
    assert_eq!(other_ids(answer.as_ref()), ["telnyx:e1"]);
    assert_eq!(event(answer.unwrap()).event_id.as_str(), "telnyx:e2");
    // Without the event, the end of the call is all that is known.
    let (_, answer) = play(Provider::Telnyx, Some("v3:1"), [ended, telnyx_page(&[], 1, 0)]);
    assert_snapshot!(summary(answer.unwrap()), @r"
    telnyx:v3:1:call.hangup call.hangup
    call 1/ä 2
    completed 2025-10-20T12:14:47.224Z
    ");
    for first in [gone].into_iter().chain(forgotten.clone()) {
        let (_, answer) = play(Provider::Telnyx, Some("v3:1"), [first, telnyx_page(&[], 1, 0)]);
        assert_eq!(answer, Some(LookupAnswer::Gone));
    }
    // Another refusal says nothing about the call, and a list is never forgotten.
    let failed = Some(LookupAnswer::RetryLater { reason: "failed" });
    for refusal in [refused("10033".into()), (422, json!({"errors": []})), (422, Value::Null)] {
        assert_eq!(play(Provider::Telnyx, Some("v3:1"), [refusal]).1, failed);
    }
    for list in forgotten {
        assert_eq!(play(Provider::Telnyx, Some("v3:1"), [(404, json!({})), list.clone()]).1, failed);
        assert_eq!(play(Provider::Telnyx, None, [list]).1, failed);
    }
}

#[test]
fn telnyx_is_searched_in_its_events_and_then_in_its_active_calls() {
    let other = theirs();
    let theirs = telnyx_row("e0", "call.hangup", "v3:0", &other);
    let hangup = telnyx_row("e2", "call.hangup", "v3:1", &ours());
    let initiated = telnyx_row("e1", "call.initiated", "v3:1", &ours());
    let alive = Some(alive("v3:1"));

    let (requests, answer) = play(
        Provider::Telnyx,
        None,
        [telnyx_page(&[theirs.clone(), initiated.clone()], 1, 2), telnyx_page(&[hangup], 2, 2)],
    );
    assert_eq!((requests.len(), event(answer.unwrap()).event_id.as_str()), (2, "telnyx:e2"));

    let (_, answer) = play(Provider::Telnyx, None, [telnyx_page(&[theirs.clone(), initiated], 1, 1)]);
    assert_eq!(answer, alive);

    let (requests, answer) = play(
        Provider::Telnyx,
        None,
        [
            telnyx_page(std::slice::from_ref(&theirs), 1, 1),
            active_page(&[active("v3:0", &other)], Some("v1:g3QAAAAD=")),
            active_page(&[active("v3:1", &ours())], None),
        ],
    );
    assert_eq!(answer, alive);
    assert_snapshot!(requests[1..].join("\n"), @r"
    GET /v2/connections/281/active_calls?page%5Blimit%5D=100
    GET /v2/connections/281/active_calls?page%5Bafter%5D=v1%3Ag3QAAAAD%3D&page%5Blimit%5D=100
    ");

    let (_, answer) = play(Provider::Telnyx, None, [telnyx_page(&[theirs], 1, 1), active_page(&[], None)]);
    assert_eq!(answer, Some(LookupAnswer::NotFound));
}

/// Row of Telnyx's list of active calls.
fn active(id: &str, ours: &Value) -> Value {
    json!({
        "record_type": "call", "call_control_id": id, "call_leg_id": id, "call_duration": 50,
        "client_state": BASE64_STANDARD.encode(ours.to_string()),
    })
}

/// Page of Telnyx's list of active calls.
fn active_page(rows: &[Value], after: Option<&str>) -> (u16, Value) {
    let next = after.map(|after| format!("/v2/connections/281/active_calls?page[after]={after}"));
    let cursors = json!({"after": after, "before": null});
    let meta = json!({"cursors": cursors, "next": next, "previous": null, "total_items": rows.len()});
    (200, json!({"data": rows, "meta": meta}))
}

fn theirs() -> Value {
    let mut other = ours();
    other["switchhook_attempt"] = "1".into();
    other
}

#[test]
fn event_that_cannot_be_read_may_be_ours() {
    let unclear = Some(undecided("unclear_calls"));
    let alive = Some(alive("v3:1"));
    let theirs = telnyx_row("e0", "call.hangup", "v3:0", &theirs());
    let mut without_payload = theirs.clone();
    without_payload["metadata"]["payload"] = Value::Null;
    for unreadable in
        [json!({"type": "webhook", "metadata": {}}), json!({"type": "webhook"}), json!(7), without_payload]
    {
        let events = telnyx_page(&[theirs.clone(), unreadable.clone()], 1, 1);
        let (_, answer) = play(Provider::Telnyx, None, [events.clone(), active_page(&[], None)]);
        assert_eq!(answer, unclear, "{unreadable}");
        // It may stand on an earlier page.
        let pages =
            [telnyx_page(std::slice::from_ref(&unreadable), 1, 2), telnyx_page(&[], 2, 2), active_page(&[], None)];
        assert_eq!(play(Provider::Telnyx, None, pages).1, unclear, "{unreadable}");
        // Our call is found all the same.
        let (_, answer) = play(Provider::Telnyx, None, [events, active_page(&[active("v3:1", &ours())], None)]);
        assert_eq!(answer, alive, "{unreadable}");
        let initiated = telnyx_row("e1", "call.initiated", "v3:1", &ours());
        let (_, answer) = play(Provider::Telnyx, None, [telnyx_page(&[unreadable.clone(), initiated], 1, 1)]);
        assert_eq!(answer, alive, "{unreadable}");
        // And so is its ending, by our ids and by its own.
        let hangup = telnyx_row("e2", "call.hangup", "v3:1", &ours());
        for (id, first) in [(None, None), (Some("v3:1"), Some((404, json!({}))))] {
            let events = telnyx_page(&[unreadable.clone(), hangup.clone()], 1, 1);
            let (_, answer) = play(Provider::Telnyx, id, first.into_iter().chain([events]));
            assert_eq!(event(answer.unwrap()).event_id.as_str(), "telnyx:e2", "{unreadable}");
        }
    }
}

#[test]
fn active_call_that_cannot_be_read_may_be_ours() {
    let search = |page| play(Provider::Telnyx, None, [telnyx_page(&[], 1, 0), page]).1;
    let unclear = Some(undecided("unclear_calls"));
    for unreadable in [json!({}), json!(7), json!({"client_state": ""}), json!({"call_control_id": "v3:0"})] {
        assert_eq!(
            search(active_page(&[active("v3:0", &theirs()), unreadable.clone()], None)),
            unclear,
            "{unreadable}"
        );
    }
    // Calls of other programs have another state, or none.
    let mut stateless = active("v3:0", &theirs());
    for state in [Value::Null, "".into(), "b3RoZXI=".into()] {
        stateless["client_state"] = state;
        assert_eq!(search(active_page(std::slice::from_ref(&stateless), None)), Some(LookupAnswer::NotFound));
    }
}

#[test]
fn list_that_cannot_be_read_to_its_end_proves_nothing() {
    let theirs = || vec![active("v3:0", &theirs())];
    let search = |pages: Vec<(u16, Value)>| {
        let (requests, answer) = play(Provider::Telnyx, None, [telnyx_page(&[], 1, 0)].into_iter().chain(pages));
        (requests.len(), answer.unwrap())
    };
    let active = |meta: Value| (200, json!({"data": theirs(), "meta": meta}));
    let unclear = undecided("unclear_calls");
    // A next page without a cursor, a page that names itself, and pages that say nothing about the next one.
    assert_eq!(search(vec![active(json!({"next": "/v2/somewhere"}))]), (2, unclear.clone()));
    let same = || active_page(&theirs(), Some("x"));
    assert_eq!(search(vec![same(), same()]), (3, unclear.clone()));
    for meta in [Value::Null, json!({}), json!({"total_pages": "2"})] {
        assert_eq!(search(vec![active(meta)]), (2, unclear.clone()));
    }
    // Either of the two names the next page.
    let last = || active_page(&theirs(), None);
    let next = "/v2/connections/281/active_calls?page[after]=v1:x%3D&page[limit]=100";
    for meta in [json!({"cursors": {"after": "v1:x="}}), json!({"next": next})] {
        let (requests, _) = play(Provider::Telnyx, None, [telnyx_page(&[], 1, 0), active(meta.clone()), last()]);
        assert_eq!(requests[2], "GET /v2/connections/281/active_calls?page%5Bafter%5D=v1%3Ax%3D&page%5Blimit%5D=100");
        assert_eq!(search(vec![active(meta), last()]), (3, LookupAnswer::NotFound));
    }
    // Telnyx's newer packages count the pages of this list too.
    let (requests, answer) = play(
        Provider::Telnyx,
        None,
        [telnyx_page(&[], 1, 0), telnyx_page(&theirs(), 1, 2), telnyx_page(&theirs(), 2, 2)],
    );
    assert_eq!(requests[2], "GET /v2/connections/281/active_calls?page%5Bnumber%5D=2&page%5Blimit%5D=100");
    assert_eq!(answer, Some(LookupAnswer::NotFound));
    // A list without an end is read for 30 requests.
    let endless: Vec<(u16, Value)> = (0..40).map(|page| active_page(&theirs(), Some(&page.to_string()))).collect();
    assert_eq!(search(endless), (30, undecided("too_many_calls")));
    // The same holds for the events.
    let events = (200, json!({"data": [telnyx_row("e0", "call.hangup", "v3:0", &json!({}))]}));
    assert_eq!(play(Provider::Telnyx, None, [events, last()]).1, Some(unclear));
    let unreadable = Some(LookupAnswer::RetryLater { reason: "unreadable" });
    for data in [Value::Null, json!({})] {
        assert_eq!(play(Provider::Telnyx, None, [(200, json!({"data": data}))]).1, unreadable);
        assert_eq!(play(Provider::Telnyx, None, [telnyx_page(&[], 1, 0), (200, json!({"data": data}))]).1, unreadable);
    }
}

#[test]
fn telnyx_events_are_gone_after_a_day() {
    let day_later = Timestamp::from_millis(NOW.as_millis() + 24 * 60 * 60 * 1000);
    let responses = std::iter::repeat_n((200, json!({"data": []})), 2);
    let (requests, answer) = job().search(Provider::Telnyx, None, day_later, responses);
    assert_eq!((requests.len(), answer), (2, Some(undecided("forgotten"))));
}
