//! `switchhook forget`, with a `switchhook dev` that knows a person.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::call::in_a_day;
use crate::stack::{CREATE_CALL, PROGRAM, Scratch, Stack, run, text, wait_for};

const NUMBER: &str = "+447700900000";
/// Command that plans to forget the person. It reads an hour of the inbox, because all of its retention takes long.
const FORGET: [&str; 5] = ["forget", "--since", "1h", "--number", NUMBER];

/// A stack with the call of Retell's samples, which has ended.
fn with_a_call() -> (Scratch, Stack) {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    for sample in ["retell/call_started", "retell/call_ended"] {
        let (code, _, errors) = stack.send_sample(sample, "a key for Retell");
        assert_eq!(code, Some(0), "{errors}");
    }
    wait_for("the end of the call", || {
        let (_, out, errors) = run(&stack, &["show", "appointment:appt_201"]);
        if out.contains("COMPLETED") { Ok(()) } else { Err(format!("{out}{errors}")) }
    });
    (scratch, stack)
}

#[test]
fn person_is_planned_forgotten_and_gone() {
    let (_scratch, stack) = with_a_call();
    let (code, out, errors) = run(&stack, &FORGET);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("forget 3 items of 1 call"), "{out}");
    assert!(out.contains("Nothing has changed") && !out.contains(NUMBER), "{out}");
    let plan = out.split_whitespace().nth(1).expect("an id").trim_end_matches(':').to_owned();
    let refused = run(&stack, &["forget", "--plan", &plan, "--yes", "--reason", NUMBER]);
    assert_eq!(refused.0, Some(3));
    assert!(refused.2.contains("the reason may hold a phone number") && !refused.2.contains(NUMBER), "{}", refused.2);
    let (code, out, errors) = run(&stack, &["forget", "--plan", &plan, "--yes", "--reason", "ticket 812"]);
    assert_eq!((code, out.contains("finished: 3 done")), (Some(0), true), "{out}{errors}");

    let (_, out, _) = run(&stack, &["show", "appointment:appt_201"]);
    assert!(out.contains("COMPLETED") && out.contains("person       forgotten 2"), "{out}");
    assert!(run(&stack, &["timeline", "appointment:appt_201"]).1.contains("person       forgotten 2"));
    let event = ["event", "show", "retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70:call_ended"];
    let (_, out, _) = run(&stack, &event);
    assert!(out.contains("erased     2") && !out.contains("transcript"), "{out}");
    let body = run(&stack, &[&event[..], &["--body", "--reason", "a test"]].concat());
    assert!(!body.1.contains("Ada") && !body.1.contains(NUMBER), "{}", body.1);
    assert_eq!(run(&stack, &["verify", "appointment:appt_201"]).0, Some(0));
    let (code, out, _) = run(&stack, &["forget", "--since", "1h", "--call", "appointment:appt_201", "--json"]);
    let plan: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, plan["items"].as_array().map(Vec::len)), (Some(1), Some(0)));
}

#[test]
fn person_with_a_call_that_waits_is_not_forgotten_by_a_plan_either() {
    let (_scratch, stack) = with_a_call();
    let due = in_a_day();
    let create = [&CREATE_CALL[..6], &["--to-number", NUMBER, "--due", &due]].concat();
    let (code, _, errors) = run(&stack, &create);
    assert_eq!(code, Some(0), "{errors}");
    let (code, out, errors) = run(&stack, &[&FORGET[..], &["--json"]].concat());
    let plan: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &plan["skipped_count"]), (Some(0), &2.into()), "{out}{errors}");
    let id = plan["id"].as_str().expect("an id");
    let (code, out, errors) = run(&stack, &["forget", "--plan", id, "--yes", "--reason", "ticket 812", "--json"]);
    let done: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &done["run"]["counts"]["skipped"]), (Some(1), &0.into()), "{out}{errors}");
    assert_eq!((&done["plan"]["id"], &done["plan"]["skipped_count"]), (&id.into(), &2.into()), "{out}");
}

/// Plans to forget the person whose number this text on standard input names.
fn from_standard_input(url: &str, input: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(["forget", "--since", "1h", "--number", "-", "--json", "--to", url]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut forget = command.spawn().expect("the program starts");
    forget.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the number is read");
    forget.wait_with_output().expect("the program ends")
}

#[test]
fn number_is_read_from_standard_input() {
    let (_scratch, stack) = with_a_call();
    let output = from_standard_input(&stack.url, &format!("\r\n{NUMBER}\r\n\n"));
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &plan["calls"]), (Some(0), &1.into()));
    assert!(!text(&output.stdout).contains(NUMBER), "{plan}");
}

/// The plan shows no number, so nobody would see which person it leaves out.
#[test]
fn second_number_on_standard_input_is_refused() {
    let output = from_standard_input("http://127.0.0.1:1", &format!("{NUMBER}\n+447700900001\n"));
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{errors}");
    assert!(errors.contains("more than one line") && !errors.contains("+44"), "{errors}");
}
