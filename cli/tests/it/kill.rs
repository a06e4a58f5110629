//! **After a kill, every acknowledged webhook is stored and applied.**

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Key, sign};

use crate::playground::Browser;
use crate::stack::{CREATE_CALL, KEY, Scratch, Stack, agent, pasted, text, wait_for};

const SENDERS: u64 = 4;
const KILLS: usize = 3;
/// Smallest number of calls that are started before each kill.
const CALLS_BEFORE_KILL: u64 = 40;

/// Events of one call, in an order in which some must be parked until others arrive.
const STORY: [(&str, i64); 5] = [
    ("call.ringing", 2),
    ("call.completed", 30),
    ("user.confirmed", 20),
    ("call.initiated", 1),
    ("call.in_progress", 10),
];

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let scratch = Scratch::new();
    let (data, providers) = (scratch.0.join("data"), scratch.providers());
    let calls = AtomicU64::new(0);
    let mut acknowledged: Vec<String> = Vec::new();
    let mut stack = Stack::with_data(&data, &providers, &[]);
    for _ in 0..KILLS {
        let url = stack.url.clone();
        let enough = calls.load(Ordering::Relaxed) + CALLS_BEFORE_KILL;
        acknowledged.extend(std::thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(|| send_until_killed(&url, &calls))).collect();
            wait_for("enough calls", || {
                let started = calls.load(Ordering::Relaxed);
                // Senders that have failed tell it when they are joined.
                let is_over = started >= enough || senders.iter().all(|sender| sender.is_finished());
                if is_over { Ok(()) } else { Err(format!("{started} calls")) }
            });
            stack.kill();
            senders.into_iter().flat_map(|sender| sender.join().expect("the sender ends")).collect::<Vec<_>>()
        }));
        stack = Stack::with_data(&data, &providers, &[]);
    }
    let caused_by = |id: &String| {
        let status = wait_for(&format!("the result of {id}"), || match stack.get(&format!("/event/status?id={id}")) {
            Some(status) if status["status"] == "processed" => Ok(status),
            status => Err(format!("{status:?}")),
        });
        let types = status["action"].as_array().expect("a list").clone();
        let pair = |event_type: Value| (id.clone(), event_type.as_str().expect("a text").to_owned());
        types.into_iter().map(pair).collect::<Vec<_>>()
    };
    let expected: BTreeSet<(String, String)> = acknowledged.iter().flat_map(caused_by).collect();
    let published = wait_for("every domain event of an acknowledged webhook", || {
        let published = stack.domain_events(None);
        let text = |event: &Value, name: &str| event[name].as_str().expect("a text").to_owned();
        let caused: BTreeSet<(String, String)> = published
            .iter()
            .map(|(_, event_type, event)| (text(event, "source_event_id"), event_type.clone()))
            .collect();
        match expected.difference(&caused).next() {
            None => Ok(published),
            Some((id, event_type)) => Err(format!("{id} caused {event_type}, which is not published")),
        }
    });
    assert!(acknowledged.len() > KILLS * 20, "only {} events were acknowledged", acknowledged.len());
    let mut by_call: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut contents: BTreeMap<&str, &Value> = BTreeMap::new();
    for (id, _, event) in &published {
        assert_eq!(event["id"], *id);
        assert_eq!(*contents.entry(id).or_insert(event), event, "one id, one content");
        let call_id = event["call_id"].as_str().expect("a text").to_owned();
        by_call.entry(call_id).or_default().insert(event["sequence"].as_u64().expect("a number"));
    }
    for (call, sequences) in by_call {
        let all: BTreeSet<u64> = (1..=sequences.len() as u64).collect();
        assert_eq!(sequences, all, "{call}");
    }
}

/// Creates a call to this number, and waits for its dial. Returns the path at which the API shows the call.
fn path_of_dialled(stack: &Stack, number: &str) -> String {
    let created = stack.switchhook(&[&CREATE_CALL[..7], &[number, "--json"]].concat());
    assert_eq!(created.status.code(), Some(0), "{}", text(&created.stderr));
    let created: Value = serde_json::from_slice(&created.stdout).expect("a call");
    let path = format!("/call?id={}", created["call_id"].as_str().expect("an id"));
    wait_for("the dial", || {
        let shown = stack.get(&path).expect("the call");
        if shown["attempts"].get(0).is_some() { Ok(()) } else { Err(shown.to_string()) }
    });
    path
}

#[test]
fn restarted_stack_rings_no_phone_again() {
    let scratch = Scratch::new();
    let (data, providers) = (scratch.0.join("data"), scratch.providers());
    let mut stack = Stack::with_data(&data, &providers, &[]);
    // The response to the dial request is lost, so the attempt is in doubt.
    let path = path_of_dialled(&stack, "+447700900127");
    stack.kill();

    let stack = Stack::with_data(&data, &providers, &[]);
    let browser = Browser::open(&stack);
    let shown = wait_for("the end of the call", || {
        browser.press("skip 15");
        let shown = stack.get(&path).expect("the call");
        if shown["settled"] == true { Ok(shown) } else { Err(shown.to_string()) }
    });
    let attempts = shown["attempts"].as_array().expect("attempts");
    assert_eq!((attempts.len(), &attempts[0]["number"]), (1, &json!(1)), "{shown:#}");
    assert_eq!((&shown["lifecycle"], &shown["outcome"]), (&json!("completed"), &json!("confirmed")), "{shown:#}");
}

/// Only the account that may have made a dial can tell that there was none.
#[test]
fn dial_in_doubt_that_was_not_made_is_made_after_a_restart_with_generated_keys() {
    let scratch = Scratch::new();
    let data = scratch.0.join("data");
    let start = || Stack::start(&["--data", data.to_str().expect("UTF-8"), "--tick", "1s"]);
    let mut stack = start();
    // The provider answers no request and carries out none.
    Browser::open(&stack).press("set&faults=none&mode=unresponsive&crash=never");
    let path = path_of_dialled(&stack, "+447700900120");
    stack.kill();

    let mut stack = start();
    let printed = stack.error_line(" send --provider retell --key ");
    assert_eq!(pasted(&printed).status.code(), Some(0), "the printed key is the one that ingress has: {printed}");
    let browser = Browser::open(&stack);
    let shown = wait_for("the end of the call", || {
        browser.press("skip 15");
        let shown = stack.get(&path).expect("the call");
        if shown["settled"] == true { Ok(shown) } else { Err(shown.to_string()) }
    });
    assert_eq!((&shown["lifecycle"], &shown["outcome"]), (&json!("completed"), &json!("confirmed")), "{shown:#}");
}

/// Sends calls until the stack stops responding. Several senders run at the same time. Returns the ids of the
/// acknowledged events.
fn send_until_killed(url: &str, calls: &AtomicU64) -> Vec<String> {
    let (agent, key) = (agent(), Key::new(KEY).expect("a key"));
    let mut acknowledged = Vec::new();
    loop {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        for (event_type, seconds) in STORY {
            let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
            let body = json!({
                "event_id": format!("{call}-{event_type}"),
                "event_type": event_type,
                "occurred_at": Timestamp::from_millis(1_760_961_600_000 + seconds * 1_000).to_string(),
                "call_id": format!("call-{call}"),
                "call": {"sid": format!("line-{call}")},
            });
            let body = body.to_string().into_bytes();
            let signed = sign(Provider::Generic, &key, &format!("{url}/webhooks/generic"), &body, now);
            let mut request = agent.post(&signed.url).content_type(signed.content_type);
            for (name, value) in &signed.headers {
                request = request.header(*name, value);
            }
            let Ok(mut answer) = request.send(&body) else { return acknowledged };
            let status = answer.status();
            let Ok(answer) = answer.body_mut().read_to_string() else { return acknowledged };
            assert_eq!(status, 200, "{answer}");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            acknowledged.push(answer["event_id"].as_str().expect("an id").to_owned());
        }
    }
}
