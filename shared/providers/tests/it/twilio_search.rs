//! Searches at Twilio: the queued calls and the started ones between both numbers, and the requests that Twilio made for each.

use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::LookupAnswer;

use crate::api::{alive, job, undecided};

/// Time at which the requests of every ended call of these tests are listed: half an hour after the dial.
const LATER: Timestamp = Timestamp::from_millis(1_760_964_235_000);
const UNREADABLE: LookupAnswer = LookupAnswer::RetryLater { reason: "unreadable" };
const UNCLEAR: LookupAnswer = LookupAnswer::Undecided { reason: "unclear_calls" };
const TOO_EARLY: LookupAnswer = LookupAnswer::TooEarly { reason: "requests_not_listed" };

/// Plays a search by both numbers against these responses. Returns the paths of its requests, without the path of the account, and its
/// answer.
fn play(now: Timestamp, responses: &[(u16, Value)]) -> (Vec<String>, LookupAnswer) {
    let (requests, answer) = job().search(Provider::Twilio, None, now, responses.iter().cloned());
    let paths = requests.iter().map(|request| request.path.strip_prefix("/2010-04-01/Accounts/AC1/").unwrap());
    (paths.map(str::to_owned).collect(), answer.unwrap())
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

fn ended_call(answer: LookupAnswer) -> String {
    let LookupAnswer::Ended { event, .. } = answer else { panic!("{answer:?}") };
    event.provider_call_id.unwrap()
}

#[test]
fn queued_calls_are_read_before_the_started_ones() {
    // Twilio shows no times of a call that waits in its queue.
    let queued = call("CA1", json!({"status": "queued", "date_created": null, "start_time": null, "end_time": null}));
    let (requests, answer) = play(LATER, &[list(std::slice::from_ref(&queued)), list(&[]), ours()]);
    assert_eq!(
        requests,
        [
            "Calls.json?To=%2B447700900000&From=%2B442079460018&Status=queued&PageSize=50",
            "Calls.json?To=%2B447700900000&From=%2B442079460018&StartTime%3E=2025-10-20&PageSize=50",
            "Calls/CA1/Events.json",
        ]
    );
    assert_eq!(answer, alive("CA1"));
    // Nothing shows yet whose it is.
    assert_eq!(play(LATER, &[list(std::slice::from_ref(&queued)), list(&[]), requested(&[])]).1, TOO_EARLY);
    // It may start between the two requests. Then it is still one call.
    assert_eq!(play(LATER, &[list(&[queued]), list(&[live("CA1")]), ours()]).1, alive("CA1"));
    assert_eq!(play(LATER, &[list(&[]), list(&[])]).1, LookupAnswer::NotFound);
}

#[test]
fn calls_of_an_earlier_time_or_another_direction_are_left_out() {
    let early = call("CA0", json!({"date_created": "Mon, 20 Oct 2025 12:12:00 +0000"}));
    let inbound = call("CA4", json!({"direction": "inbound"}));
    let others = [early, inbound];
    assert_eq!(search(LATER, &others, &[]), LookupAnswer::NotFound);
    // A call may have waited in Twilio's queue, so none is too late. Its requests tell whose it is.
    let late = |sid: &str| call(sid, json!({"date_created": "Mon, 20 Oct 2025 12:16:30 +0000"}));
    assert_eq!(ended_call(search(LATER, &[late("CA3")], &[ours()])), "CA3");
    assert_eq!(search(LATER, &[late("CA3")], &[theirs()]), LookupAnswer::NotFound);
    let many: Vec<Value> = (0..11).map(|number| late(&format!("CA{number}"))).collect();
    assert_eq!(search(LATER, &many, &[]), undecided("several_calls"));
    let next = "/2010-04-01/Accounts/AC1/Calls.json?Page=1";
    let responses = [list(&[]), page(&others, next.into()), list(&[call("CA1", json!({}))]), ours()];
    let (requests, answer) = play(LATER, &responses);
    assert_eq!((requests[2].as_str(), ended_call(answer)), ("Calls.json?Page=1", "CA1".to_owned()));
}

#[test]
fn single_call_is_ours_only_if_it_requested_our_url() {
    let ended = || [call("CA1", json!({}))];
    assert_eq!(ended_call(search(LATER, &ended(), &[ours()])), "CA1");
    assert_eq!(search(LATER, &[live("CA1")], &[ours()]), alive("CA1"));
    // Another program placed it: all its requests are known, and none is for us.
    assert_eq!(search(LATER, &ended(), &[theirs()]), LookupAnswer::NotFound);
    // Twilio lists the requests 15 minutes after the end, and the clocks may differ. Before, some may be missing.
    let soon = |minute: u32| Timestamp::parse_rfc3339(&format!("2025-10-20T12:{minute}:47.000Z")).unwrap();
    for unproven in [theirs(), requested(&[]), (404, json!({}))] {
        assert_eq!(search(soon(33), &ended(), std::slice::from_ref(&unproven)), TOO_EARLY);
        assert_eq!(search(LATER, &[live("CA1")], std::slice::from_ref(&unproven)), TOO_EARLY);
        // The time of the end may be missing. Then the last change of the record counts.
        let updated = |at: &str| [call("CA1", json!({"status": "no-answer", "end_time": null, "date_updated": at}))];
        let changed = "Mon, 20 Oct 2025 12:40:00 +0000";
        assert_eq!(search(LATER, &updated(changed), std::slice::from_ref(&unproven)), TOO_EARLY);
        assert_eq!(search(LATER, &updated("x"), &[unproven]), TOO_EARLY);
    }
    assert_eq!(search(soon(34), &ended(), &[theirs()]), LookupAnswer::NotFound);
    // No request at all proves neither. Nor do requests that cannot be read, or not all of them.
    let with_next = |next: &str| (200, json!({"events": theirs().1["events"], "next_page_uri": next}));
    for unproven in [
        requested(&[]),
        (404, json!({})),
        (200, json!({"events": [{"request": {"url": THEIR_URL}}, {"request": null}]})),
        (200, json!({"events": [{"request": {"url": THEIR_URL}}, 7]})),
        with_next("https://evil.example.com/"),
    ] {
        let unclear = undecided("unproven_call");
        assert_eq!(search(LATER, &ended(), std::slice::from_ref(&unproven)), unclear, "{unproven:?}");
    }
    let next = "/2010-04-01/Accounts/AC1/Calls/CA1/Events.json?Page=1";
    assert_eq!(ended_call(search(LATER, &ended(), &[with_next(next), ours()])), "CA1");
    assert_eq!(search(LATER, &ended(), &[with_next(next), theirs()]), LookupAnswer::NotFound);
    assert_eq!(search(LATER, &ended(), &[with_next(next), requested(&[])]), LookupAnswer::NotFound);
    assert_eq!(search(LATER, &ended(), &[(429, json!({}))]), LookupAnswer::RetryLater { reason: "rate_limited" });
}

#[test]
fn each_of_several_calls_is_compared() {
    let both = [call("CA1", json!({})), call("CA2", json!({}))];
    assert_eq!(ended_call(search(LATER, &both, &[theirs(), ours()])), "CA1");
    assert_eq!(ended_call(search(LATER, &both, &[ours()])), "CA2");
    assert_eq!(search(LATER, &both, &[theirs(), theirs()]), LookupAnswer::NotFound);
    let several = undecided("several_calls");
    assert_eq!(search(LATER, &both, &[requested(&[]), requested(&[])]), several);
    let one = undecided("unproven_call");
    assert_eq!(search(LATER, &both, &[theirs(), requested(&[])]), one);
    assert_eq!(search(LATER, &[live("CA1"), call("CA2", json!({}))], &[requested(&[]), requested(&[])]), TOO_EARLY);
    let many: Vec<Value> = (0..11).map(|number| call(&format!("CA{number}"), json!({}))).collect();
    assert_eq!(search(LATER, &many, &[]), several);
}

#[test]
fn call_that_cannot_be_read_may_be_ours() {
    for unclear in [
        json!({"sid": null}),
        json!({"direction": null}),
        json!({"date_created": null, "start_time": null}),
        json!({"date_created": "yesterday"}),
    ] {
        assert_eq!(search(LATER, &[call("CA1", unclear.clone())], &[]), UNCLEAR, "{unclear}");
        let calls = [call("CA1", unclear.clone()), call("CA2", json!({}))];
        assert_eq!(search(LATER, &calls, &[theirs()]), UNCLEAR, "{unclear}");
        assert_eq!(ended_call(search(LATER, &calls, &[ours()])), "CA2", "{unclear}");
    }
    assert_eq!(search(LATER, &[json!(7)], &[]), UNCLEAR);
}

#[test]
fn next_page_that_is_elsewhere_is_not_the_last_one() {
    for elsewhere in ["https://evil.example.com/", "//evil", "/2010-04-01/Other/"] {
        assert_eq!(play(LATER, &[page(&[], elsewhere.into())]).1, UNREADABLE, "{elsewhere}");
        assert_eq!(play(LATER, &[list(&[]), page(&[], elsewhere.into())]).1, UNREADABLE, "{elsewhere}");
    }
    let next = "/2010-04-01/Accounts/AC1/Calls.json?Page=1";
    let too_many = undecided("too_many_calls");
    assert_eq!(play(LATER, &vec![page(&[], next.into()); 30]).1, too_many);
}
