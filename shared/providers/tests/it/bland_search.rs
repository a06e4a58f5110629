//! Searches at Bland: a call is read by its id, or the listed calls are read one by one until one has our ids.

use serde_json::{Value, json};
use switchhook_domain::{EventKind, Provider};
use switchhook_providers::{CallSearch, ClientError, Lookup, LookupAnswer, Reading, VerifiedWebhook, read};

use crate::api::{NOW, alive, config, job, undecided};

/// Plays a search against these responses. Returns the paths of its requests, and its answer.
fn play(provider_call_id: Option<&str>, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (requests, answer) = job().search(Provider::Bland, provider_call_id, NOW, responses.iter().cloned());
    (requests.into_iter().map(|request| request.path).collect(), answer.unwrap())
}

const CREATED: &str = "2025-10-20T12:13:56.104213+00:00";
const EARLIER: &str = "2025-10-20T12:12:54.900000+00:00";
const LATER: &str = "2025-10-20T12:15:55.100000+00:00";

fn ours() -> Value {
    json!({"switchhook_call_id": "call 1/ä", "switchhook_attempt": "2"})
}

fn theirs() -> Value {
    json!({"switchhook_call_id": "call 1/ä", "switchhook_attempt": "1"})
}

fn call(id: &str, metadata: &Value) -> Value {
    json!({
        "call_id": id, "completed": true, "status": "completed", "queue_status": "complete", "answered_by": "human",
        "inbound": false, "from": "+442079460018", "to": "+447700900000", "created_at": CREATED, "call_length": 1.3,
        "metadata": metadata, "transcripts": [{"text": "Hello"}], "concatenated_transcript": "user: Hello",
        "recording_url": "https://example.com/1?signature=1", "price": 0.1, "analysis": {"outcome": "confirmed"},
    })
}

fn going_on(id: &str, metadata: &Value) -> Value {
    json!({"call_id": id, "completed": false, "queue_status": "started", "metadata": metadata})
}

/// Row of the list, as documented: without metadata.
fn row(id: &str, created: &str) -> Value {
    json!({"call_id": id, "created_at": created, "completed": true, "queue_status": "complete", "to": "+447700900000"})
}

fn list(rows: &[Value]) -> (u16, Value) {
    (200, json!({"count": rows.len(), "calls": rows}))
}

#[test]
fn known_call_is_read_by_its_id() {
    let by_id = |call: Value| play(Some("b1"), &[(200, call)]).1;
    let LookupAnswer::Ended { webhook, event, .. } = by_id(call("b1", &ours())) else { panic!("it has ended") };
    assert!(event.event_id.as_str().starts_with("bland:b1:call_record:"), "{}", event.event_id);
    assert_eq!((event.call_id.as_str(), event.provider_call_id.as_deref()), ("call 1/ä", Some("b1")));
    let kinds: Vec<EventKind> = event.call_events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Ringing, EventKind::InProgress, EventKind::UserConfirmed, EventKind::Completed]);
    // The fields that may change from one request to the next are left out.
    let body = String::from_utf8(webhook.body().to_vec()).unwrap();
    assert!(["Hello", "recording_url", "price"].iter().all(|text| !body.contains(text)), "{body}");
    let stored = VerifiedWebhook::from_inbox(Provider::Bland, String::new(), webhook.body().to_vec(), 0);
    let Reading::Event(reread) = read(&stored, NOW) else { panic!("an event") };
    assert_eq!(reread, *event);

    assert_eq!(by_id(going_on("b1", &ours())), alive("b1"));
    for queue_status in ["new", "queued", "allocated", "started"] {
        assert_eq!(by_id(json!({"call_id": "b1", "queue_status": queue_status})), alive("b1"), "{queue_status}");
    }
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    let unknown = |field| LookupAnswer::UnknownValue { field };
    assert_eq!(by_id(json!({"call_id": "b1", "status": "new"})), unknown("status"));
    assert_eq!(by_id(json!({"call_id": "b1", "queue_status": "paused"})), unknown("queue_status"));
    for other in
        [json!({"call_id": "b1"}), call("b2", &ours()), json!({"status": "error", "message": "Call not found"})]
    {
        assert_eq!(by_id(other), unreadable);
    }
    assert_eq!(play(Some("b1"), &[(404, json!({}))]).1, LookupAnswer::Gone);
}

#[test]
fn listed_calls_of_that_time_are_read_until_one_has_our_ids() {
    let rows = [row("b5", LATER), row("b1", CREATED), row("b2", CREATED), row("b3", EARLIER)];
    let (requests, answer) = play(None, &[list(&rows), (200, call("b2", &theirs())), (200, going_on("b1", &ours()))]);
    assert_eq!(
        requests,
        [
            "/v1/calls?to_number=%2B447700900000&sort_by=created_at&ascending=false&from=0&to=100&limit=100",
            "/v1/calls/b2",
            "/v1/calls/b1",
        ]
    );
    assert_eq!(answer, alive("b1"));
    // A row that shows our ids needs no search.
    let mut shown = row("b2", CREATED);
    shown["metadata"] = ours();
    let (requests, answer) = play(None, &[list(&[row("b1", CREATED), shown]), (200, call("b2", &ours()))]);
    assert_eq!(requests.last().unwrap(), "/v1/calls/b2");
    assert!(matches!(answer, LookupAnswer::Ended { .. }), "{answer:?}");
    // A call without a time may be ours.
    let mut undated = row("b1", CREATED);
    undated["created_at"] = Value::Null;
    assert_eq!(play(None, &[list(&[undated]), (200, going_on("b1", &ours()))]).1, alive("b1"));
}

/// Bland's agent briefs a colleague in a call of its own, which may have our metadata.
#[test]
fn call_to_a_colleague_is_not_ours() {
    let to_colleague = |mut call: Value| {
        call["is_proxy_agent_call"] = true.into();
        call
    };
    let listed = list(&[row("b1", CREATED), row("b2", CREATED)]);
    let read = (200, to_colleague(call("b2", &ours())));
    let (requests, answer) = play(None, &[listed, read.clone(), (200, going_on("b1", &ours()))]);
    assert_eq!((requests[1].as_str(), answer), ("/v1/calls/b2", alive("b1")));
    // The row may say it already.
    let mut shown = to_colleague(row("b2", CREATED));
    shown["metadata"] = ours();
    assert_eq!(play(None, &[list(&[shown])]).1, undecided("no_listed_call"));
    // It tells nothing about the call that its id names.
    assert_eq!(play(Some("b2"), &[read]).1, undecided("no_call_event"));
    let mut own = call("b1", &ours());
    own["is_proxy_agent_call"] = false.into();
    assert!(matches!(play(Some("b1"), &[(200, own)]).1, LookupAnswer::Ended { .. }));
}

#[test]
fn search_that_finds_nothing_proves_nothing() {
    assert_eq!(play(None, &[list(&[])]).1, undecided("no_listed_call"));
    assert_eq!(play(None, &[list(&[row("b1", LATER), row("b2", EARLIER)])]).1, undecided("no_listed_call"));
    let one = list(&[row("b1", CREATED)]);
    assert_eq!(play(None, &[one.clone(), (200, call("b1", &theirs()))]).1, undecided("no_listed_call"));
    // A call whose metadata is missing may be ours.
    assert_eq!(play(None, &[one.clone(), (200, call("b1", &Value::Null))]).1, undecided("unclear_calls"));
    assert_eq!(play(None, &[one.clone(), (404, json!({}))]).1, undecided("unclear_calls"));
    assert_eq!(play(None, &[one, (500, json!({}))]).1, LookupAnswer::RetryLater { reason: "failed" });
    let rows = [row("b1", CREATED), json!({"created_at": CREATED})];
    assert_eq!(play(None, &[list(&rows)]).1, LookupAnswer::RetryLater { reason: "unreadable" });
}

#[test]
fn long_lists_are_read_page_by_page_and_a_search_has_a_limit() {
    let full = list(&vec![row("b9", LATER); 100]);
    let (requests, answer) = play(None, &[full.clone(), list(&[row("b1", CREATED)]), (200, going_on("b1", &ours()))]);
    assert!(requests[1].ends_with("&from=100&to=200&limit=100"), "{}", requests[1]);
    assert_eq!(answer, alive("b1"));
    // The list is sorted by time, so nothing of the period follows after an earlier call.
    let mut reaching_back = vec![row("b9", LATER); 99];
    reaching_back.push(row("b0", EARLIER));
    assert_eq!(play(None, &[list(&reaching_back)]).1, undecided("no_listed_call"));
    assert_eq!(play(None, &vec![full; 30]).1, undecided("too_many_calls"));
    let mut many = vec![list(&vec![row("b1", CREATED); 40])];
    many.extend(vec![(200, call("b1", &theirs())); 30]);
    assert_eq!(play(None, &many).1, undecided("too_many_calls"));
}

#[test]
fn search_needs_the_number_and_the_time() {
    let (config, job) = (config(Provider::Bland), job());
    for lookup in [Lookup { dialled_at: None, ..job.lookup(None) }, Lookup { to: None, ..job.lookup(None) }] {
        let search = CallSearch::start(Provider::Bland, &config, lookup);
        assert!(matches!(search, Err(ClientError::LookupUnsupported)));
    }
}
