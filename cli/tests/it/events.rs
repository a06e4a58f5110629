//! `switchhook timeline`, `event` and `tail` with a running `switchhook dev`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::playground::Browser;
use crate::stack::{KEY, Stack, text, wait_for};

fn send(stack: &Stack, provider: &str, key: &str, content: [&str; 2]) {
    let [option, value] = content;
    let to = stack.url.as_str();
    let output = stack.switchhook(&["send", "--provider", provider, "--key", key, option, value, "--to", to]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Runs a command until it succeeds: a webhook gets its response before it is folded.
fn until_found(stack: &Stack, arguments: &[&str], is_there: impl Fn(&Value) -> bool) -> Value {
    wait_for(&format!("the output of {arguments:?}"), || {
        let output = stack.switchhook(arguments);
        let found = serde_json::from_slice(&output.stdout).ok().filter(&is_there);
        found.ok_or_else(|| text(&output.stdout) + &text(&output.stderr))
    })
}

fn printed(stack: &Stack, arguments: &[&str]) -> String {
    let output = stack.switchhook(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

const ENDED: &str = "retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_ended";

#[test]
fn events_of_a_call_that_are_not_in_its_history_are_listed() {
    let (scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    until_found(&stack, &["event", "show", ENDED, "--json"], |line| line["status"] == "applied");
    let unfolded = ["event", "list", "--call", "appt_201", "--unfolded"];
    let nothing = stack.switchhook(&unfolded);
    assert_eq!((nothing.status.code(), text(&nothing.stdout)), (Some(1), String::new()), "{}", text(&nothing.stderr));
    assert!(text(&nothing.stderr).contains("0 shown; examined "), "{}", text(&nothing.stderr));
    // A type that Switchhook does not fold is stored with its call.
    let body = r#"{"event_id": "e-new", "event_type": "call.transferred", "appointment_id": "appt_201"}"#;
    let file = scratch.0.join("new.json");
    std::fs::write(&file, body).expect("a file");
    send(&stack, "generic", KEY, ["--file", file.to_str().expect("UTF-8")]);
    let nobody = stack.switchhook(&["event", "list", "--call", "nobody", "--unfolded"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("has no call \"nobody\""), "{}", text(&nobody.stderr));
    let refused = stack.switchhook(&["event", "list", "--unfolded"]);
    assert!(text(&refused.stderr).contains("--call"), "{}", text(&refused.stderr));
    let page = until_found(&stack, &[&unfolded[..], &["--json"]].concat(), |page| page["events"][0].is_object());
    assert_eq!(
        (&page["events"][0]["event_id"], &page["events"][0]["status"]),
        (&"generic:e-new".into(), &"recorded".into())
    );
}

#[test]
fn story_of_a_call_is_found_from_every_id_and_says_why() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    let story =
        until_found(&stack, &["timeline", "appt_201", "--json"], |story| story["call"]["lifecycle"] == "completed");
    assert_eq!(story["call"]["call_id"], "appointment:appt_201");
    let lines = story["story"].as_array().expect("lines");
    let events: Vec<&Value> = lines.iter().filter(|line| line["what"] == "event").collect();
    assert_eq!(events.len(), 3);
    for event in &events {
        assert_eq!(event["disposition"], "applied");
        assert!(event["why"].as_str().is_some_and(|why| why.ends_with('.')), "{event}");
        assert_eq!(event["is_late"], true, "the sample is from last year");
    }
    let write = lines.last().expect("a write");
    assert_eq!(
        (&write["what"], &write["lifecycle"], &write["job"]),
        (&"write".into(), &"completed".into(), &"COMPLETED".into())
    );
    assert!(
        write["announced"]
            .as_array()
            .is_some_and(|announced| announced.iter().any(|event| event["type"] == "call.completed"))
    );

    let id = ENDED.trim_end_matches(":call_ended");
    for name in ["appointment:appt_201", ENDED, "+447700900000", "+44 7700 900000"] {
        assert!(printed(&stack, &["timeline", name, "--json"]).contains("appointment:appt_201"), "{name}");
    }
    // The event named its appointment, so no call and no alias has the provider's id.
    assert_eq!(stack.switchhook(&["timeline", id]).status.code(), Some(1));

    let told = printed(&stack, &["timeline", "appt_201"]);
    for part in [
        "retell, outbound",
        "state        completed, outcome connected",
        "late",
        "(implied)",
        "● applied",
        "announced #1",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    let widest = told.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns:\n{told}");

    let before = stack.switchhook(&["timeline", "appt_201", "--as-of", "2025-10-20T12:00:00Z"]);
    assert_eq!(before.status.code(), Some(1));
    assert!(text(&before.stderr).contains("was not known then"), "{}", text(&before.stderr));
    let nobody = stack.switchhook(&["timeline", "a/b?c#d%e 😀"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("no call is found"), "{}", text(&nobody.stderr));
}

#[test]
fn events_are_listed_by_filter_and_shown_masked() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/transcript_updated"]);
    let all = until_found(&stack, &["event", "list", "--json"], |page| {
        let events = page["events"].as_array();
        events.is_some_and(|events| events.len() == 2 && events.iter().any(|event| event["status"] == "applied"))
    });
    assert!(all["queries"].as_u64().is_some_and(|queries| queries <= 244), "{all}");
    let count = |arguments: &[&str]| {
        let output = stack.switchhook(&[&["event", "list", "--json"], arguments].concat());
        let page: Value = serde_json::from_slice(&output.stdout).expect("a page");
        let found = page["events"].as_array().map_or(0, Vec::len);
        assert_eq!(output.status.code(), Some(i32::from(found == 0)), "{arguments:?}");
        found
    };
    assert_eq!(count(&["--status", "applied"]), 1);
    assert_eq!(count(&["--status", "recorded"]), 1);
    assert_eq!(count(&["--type", "call_ended"]), 1);
    assert_eq!(count(&["--provider", "retell"]), 2);
    assert_eq!(count(&["--provider", "twilio"]), 0);
    assert_eq!(count(&["--call", "appt_201"]), 2, "folded and recorded events of the call");
    assert_eq!(count(&["--until", "2026-01-01T00:00:00Z", "--since", "2025-12-31T23:30:00Z"]), 0);
    assert_eq!(count(&["--limit", "1"]), 1);

    let shown = printed(&stack, &["event", "show", ENDED, "--headers"]);
    for part in [
        "by key 1 of the provider, the newest",
        "folded     ",
        "announced  ",
        "● completed, applied",
        "\"call_ended\"",
        "header     ",
        "‹text A",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    for personal in ["+447700900000", "+442079460018", "Ada", "https://"] {
        assert!(!shown.contains(personal), "{personal} is in\n{shown}");
    }
    let status = printed(&stack, &["event", "show", ENDED, "--json"]);
    let status: Value = serde_json::from_str(&status).expect("one object");
    assert_eq!((&status["status"], &status["call_id"]), (&"applied".into(), &"appointment:appt_201".into()));
    let none = stack.switchhook(&["event", "show", "retell:a/b?c#d"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("holds no event"), "{}", text(&none.stderr));
}

/// Standard output keeps a short text without a line end until it is flushed.
#[cfg(target_os = "linux")]
#[test]
fn body_that_cannot_be_written_is_an_error() {
    let (scratch, stack) = Stack::quiet();
    let body = r#"{"event_id": "e-full", "event_type": "call.transferred", "appointment_id": "appt_201"}"#;
    let file = scratch.0.join("full.json");
    std::fs::write(&file, body).expect("a file");
    send(&stack, "generic", KEY, ["--file", file.to_str().expect("UTF-8")]);
    let show = ["event", "show", "generic:e-full", "--body", "--reason", "a test"];
    assert_eq!(printed(&stack, &show), body);
    let full = std::fs::File::create("/dev/full").expect("a device that is full");
    let mut command = stack.command(&show);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let output = child.wait_with_output().expect("the program ends");
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), errors.contains("could not print the result")), (Some(2), true), "{errors}");
}

#[test]
fn conflicting_body_is_shown_as_a_difference() {
    let (scratch, stack) = Stack::quiet();
    send(&stack, "generic", KEY, ["--sample", "generic/user_confirmed"]);
    let sample = include_str!("../../../shared/providers/fixtures/generic/user_confirmed.json");
    let path = scratch.0.join("other.json");
    std::fs::write(&path, sample.replace("USER_CONFIRMED", "USER_DECLINED")).expect("the file is written");
    send(&stack, "generic", KEY, ["--file", path.to_str().expect("UTF-8")]);
    let shown = printed(&stack, &["event", "show", "generic:evt_8f1a2c"]);
    for line in ["-  \"type\": \"USER_CONFIRMED\"", "+  \"type\": \"USER_DECLINED\""] {
        assert!(shown.lines().any(|shown| shown.trim_end_matches(',') == line), "{line} is not in\n{shown}");
    }
}

/// A running `switchhook tail`. It is killed when the value is dropped.
struct Tail {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Tail {
    fn start(stack: &Stack, options: &[&str]) -> Self {
        let arguments = [&["tail", "--json"], options].concat();
        let mut child = stack.command(&arguments).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        Self { child, lines }
    }

    /// Reads up to the first line about an event of this type. Fails if the command ends before.
    fn until_event(&mut self, event_type: &str) {
        let mut before = Vec::new();
        loop {
            let line = self.lines.next().unwrap_or_else(|| panic!("no {event_type}, but {before:?}")).expect("UTF-8");
            let item: Value = serde_json::from_str(&line).expect("one object per line");
            if item["what"] == "event" && item["type"] == event_type {
                return;
            }
            before.push(line);
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn tail_shows_what_arrived_long_before_the_next_poll() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    let mut tail = Tail::start(&stack, &["--since", "10m", "--every", "18s", "--stop-after", "40s"]);
    tail.until_event("call_ended");
    let polled = Instant::now();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/transcript_updated"]);
    tail.until_event("transcript_updated");
    assert!(polled.elapsed() > Duration::from_secs(16), "it was shown by the second poll");
}

#[test]
fn tail_shows_what_arrives_after_its_user_has_skipped_time() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    let mut tail = Tail::start(&stack, &["--since", "10m", "--every", "200ms", "--stop-after", "40s"]);
    tail.until_event("call_ended");
    Browser::open(&stack).press("skip 15");
    // It is signed with the time of the stack.
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/transcript_updated"]);
    tail.until_event("transcript_updated");
}

#[test]
fn tail_prints_events_and_domain_events_once() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    let arguments = ["tail", "--since", "10m", "--every", "200ms", "--stop-after", "60s", "--json"];
    let mut tail = stack.command(&arguments).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(tail.stdout.take().expect("standard output")).lines();
    let mut items: Vec<Value> = Vec::new();
    let is_applied = |item: &Value| item["what"] == "event" && item["status"] == "applied";
    let is_completed = |item: &Value| item["type"] == "call.completed";
    let is_later = |item: &Value| item["type"] == "transcript_updated";
    // An event that was sent later shows that `tail` has looked again.
    for is_awaited in [&[&is_applied as &dyn Fn(&Value) -> bool, &is_completed][..], &[&is_later]] {
        while !is_awaited.iter().all(|is_it| items.iter().any(is_it)) {
            let line = lines.next().unwrap_or_else(|| panic!("it ended after {items:?}")).expect("UTF-8");
            items.push(serde_json::from_str(&line).expect("one object per line"));
        }
        send(&stack, "retell", "a key for Retell", ["--sample", "retell/transcript_updated"]);
    }
    tail.kill().expect("it is running");
    tail.wait().expect("it ends");
    assert_eq!(items.iter().filter(|item| is_applied(item)).count(), 1, "{items:?}");
    assert_eq!(items.iter().filter(|item| is_completed(item)).count(), 1, "{items:?}");
}

#[test]
fn whole_payload_is_shown_for_a_reason_and_recorded() {
    let (_scratch, stack) = Stack::quiet();
    send(&stack, "retell", "a key for Retell", ["--sample", "retell/call_ended"]);
    until_found(&stack, &["event", "show", ENDED, "--json"], |line| line["status"] == "applied");
    let without = stack.switchhook(&["event", "show", ENDED, "--body"]);
    assert_eq!(without.status.code(), Some(2), "{}", text(&without.stderr));
    for (reason, part) in [(" ", "a reason is needed"), ("call 447700900123", "may hold a phone number")] {
        let refused = stack.switchhook(&["event", "show", ENDED, "--body", "--reason", reason]);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(3), String::new()));
        let errors = text(&refused.stderr);
        assert!(errors.starts_with("switchhook: refused: ") && errors.contains(part), "{errors}");
    }
    let nobody = stack.switchhook(&["event", "show", "retell:x", "--body", "--reason", "ticket 812"]);
    assert_eq!(nobody.status.code(), Some(1));

    let whole = printed(&stack, &["event", "show", ENDED, "--body", "--reason", "ticket 812"]);
    assert!(whole.contains("+447700900000"), "{whole}");
    let records: Value = serde_json::from_str(&printed(&stack, &["audit", "list", "--json"])).expect("records");
    let records = records["records"].as_array().expect("records");
    assert_eq!(records.len(), 1, "{records:?}");
    for (field, value) in [("verb", "show_body"), ("moment", "unmasked"), ("event_id", ENDED), ("reason", "ticket 812")]
    {
        assert_eq!(records[0][field], value);
    }
}
