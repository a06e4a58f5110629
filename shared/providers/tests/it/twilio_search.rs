//! Searches at Twilio: the queued calls and the started ones between both numbers, and the requests that Twilio made for each.

use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{CallSearch, LookupAnswer, SearchStep};

use crate::api::{config, job};

/// Time at which the requests of every ended call of these tests are listed: half an hour after the dial.
const LATER: Timestamp = Timestamp::from_millis(1_760_964_235_000);

const UNREADABLE: LookupAnswer = LookupAnswer::RetryLater { reason: "unreadable" };

/// Plays a search by both numbers against these responses. Returns its requests and its answer.
fn play(now: Timestamp, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (config, job) = (config(Provider::Twilio), job());
    let mut search = CallSearch::start(Provider::Twilio, &config, job.lookup(None)).unwrap();
    let mut requests = Vec::new();
    for (status, body) in responses {
        let path = search.request().path.strip_prefix("/2010-04-01/Accounts/AC1/").unwrap();
        requests.push(path.to_owned());
        match search.respond(*status, body.to_string().as_bytes(), now) {
            SearchStep::Ask(next) => search = next,
            SearchStep::Answer(answer) => return (requests, answer),
        }
    }
    panic!("no answer after {requests:?}")
}

/// A call that the API created a second after the dial, and that has ended.
fn call(sid: &str, more: Value) -> Value {
    let mut call = json!({
        "sid": sid, "status": "completed", "direction": "outbound-api", "from": "+442079460018", "to": "+447700900000",
        "date_created": "Mon, 20 Oct 2025 12:13:56 +0000", "start_time": "Mon, 20 Oct 2025 12:13:57 +0000",
        "end_time": "Mon, 20 Oct 2025 12:14:47 +0000",
    });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

fn live(sid: &str) -> Value {
    call(sid, json!({"status": "in-progress", "end_time": null}))
}

fn page(calls: &[Value], next: Value) -> (u16, Value) {
    (200, json!({"calls": calls, "next_page_uri": next}))
}

fn list(calls: &[Value]) -> (u16, Value) {
    page(calls, Value::Null)
}

/// Requests that Twilio made for a call.
fn requested(urls: &[&str]) -> (u16, Value) {
    let events = urls.iter().map(|url| json!({"request": {"method": "POST", "url": url}, "response": {}}));
    (200, json!({"events": events.collect::<Value>(), "next_page_uri": null}))
}

fn ours() -> (u16, Value) {
    requested(&[
        THEIR_URL,
        "https://hooks.example.com/prod/webhooks/twilio?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2",
    ])
}

const THEIR_URL: &str = "https://crm.example.com/twiml?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=1";

fn theirs() -> (u16, Value) {
    requested(&[THEIR_URL, "https://crm.example.com/status"])
}

/// Searches in this list of started calls, and reads these requests of them. No call is queued.
fn search(now: Timestamp, calls: &[Value], requests: &[(u16, Value)]) -> LookupAnswer {
    let lists = [list(&[]), list(calls)];
    let responses: Vec<_> = lists.into_iter().chain(requests.iter().cloned()).collect();
    let (asked, answer) = play(now, &responses);
    assert_eq!(asked.len(), responses.len(), "{asked:?}");
    answer
}

fn alive(sid: &str) -> LookupAnswer {
    LookupAnswer::Alive { provider_call_id: sid.to_owned() }
}

fn ended_call(answer: LookupAnswer) -> String {
    let LookupAnswer::Ended { event, .. } = answer else { panic!("{answer:?}") };
    event.provider_call_id.unwrap()
}

#[test]
fn queued_calls_are_read_before_the_started_ones() {
    let queued = call("CA1", json!({"status": "queued", "start_time": null, "end_time": null}));
    let (requests, answer) = play(LATER, &[list(std::slice::from_ref(&queued)), list(&[])]);
    assert_eq!(
        requests,
        [
            "Calls.json?To=%2B447700900000&From=%2B442079460018&Status=queued&PageSize=50",
            "Calls.json?To=%2B447700900000&From=%2B442079460018&StartTime%3E=2025-10-20&PageSize=50",
        ]
    );
    assert_eq!(answer, alive("CA1"));
    // It may start between the two requests. Then it is still one call.
    assert_eq!(play(LATER, &[list(&[queued]), list(&[live("CA1")])]).1, alive("CA1"));
    assert_eq!(play(LATER, &[list(&[]), list(&[])]).1, LookupAnswer::NotFound);
}

#[test]
fn calls_of_another_time_or_direction_are_left_out() {
    let early = call("CA0", json!({"date_created": "Mon, 20 Oct 2025 12:12:00 +0000"}));
    let late = call("CA3", json!({"date_created": "Mon, 20 Oct 2025 12:16:30 +0000"}));
    let inbound = call("CA4", json!({"direction": "inbound"}));
    let others = [early, late, inbound];
    assert_eq!(search(LATER, &others, &[]), LookupAnswer::NotFound);
    let next = "/2010-04-01/Accounts/AC1/Calls.json?Page=1";
    let responses = [list(&[]), page(&others, next.into()), list(&[call("CA1", json!({}))])];
    let (requests, answer) = play(LATER, &responses);
    assert_eq!((requests[2].as_str(), ended_call(answer)), ("Calls.json?Page=1", "CA1".to_owned()));
}

#[test]
fn call_that_requested_a_url_with_our_ids_is_ours() {
    let both = [call("CA1", json!({})), call("CA2", json!({}))];
    assert_eq!(ended_call(search(LATER, &both, &[theirs(), ours()])), "CA1");
    assert_eq!(ended_call(search(LATER, &both, &[ours()])), "CA2");
    let several = LookupAnswer::Undecided { reason: "several_calls" };
    assert_eq!(search(LATER, &both, &[theirs(), requested(&[])]), several);
    let many: Vec<Value> = (0..11).map(|number| call(&format!("CA{number}"), json!({}))).collect();
    assert_eq!(search(LATER, &many, &[]), several);
}

#[test]
fn next_page_that_is_elsewhere_is_not_the_last_one() {
    for elsewhere in ["https://evil.example.com/", "//evil", "/2010-04-01/Other/"] {
        assert_eq!(play(LATER, &[page(&[], elsewhere.into())]).1, UNREADABLE, "{elsewhere}");
        assert_eq!(play(LATER, &[list(&[]), page(&[], elsewhere.into())]).1, UNREADABLE, "{elsewhere}");
    }
    let next = "/2010-04-01/Accounts/AC1/Calls.json?Page=1";
    let too_many = LookupAnswer::Undecided { reason: "too_many_calls" };
    assert_eq!(play(LATER, &vec![page(&[], next.into()); 30]).1, too_many);
}
