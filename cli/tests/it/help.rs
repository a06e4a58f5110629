//! Help texts, and error messages about invalid arguments.

use std::process::{Command, Stdio};

use crate::stack::{PROGRAM, switchhook, text};

const CREATE: [&str; 8] = ["call", "create", "--from-number", "+1", "--to-number", "+1", "--to", "http://127.0.0.1:1"];

/// Message about a delay that the API does not take.
const SECONDS: &str = "not a whole number of seconds between 1s and 24h";

/// Message about an unknown provider, where the names of configured providers are accepted too.
const PROVIDERS: &str =
    "signalwire, generic, and accounts of them such as twilio-eu, and names such as x-acme of configured providers\n";
/// The same, where the name of Switchhook itself is accepted too.
const SENDERS: &str = "signalwire, generic, and accounts of them such as twilio-eu, switchhook, and names such as x-acme of configured providers\n";

fn help(arguments: &[&str]) -> String {
    let output = switchhook(arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    text(&output.stdout)
}

/// Runs a command that writes to `out`. Returns its exit status and its standard error.
fn writing_to(out: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    let child = command.args(["completions", "bash"]).stdout(out).stderr(Stdio::piped()).spawn();
    let output = child.expect("the binary starts").wait_with_output().expect("it ends");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn output_that_nobody_reads_ends_the_command_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(writing_to(writer), (Some(141), String::new()));
    let full = std::fs::File::create("/dev/full").expect("a device");
    let (code, errors) = writing_to(full);
    assert!(code == Some(2) && errors.starts_with("switchhook: could not print"), "{code:?} {errors}");
}

#[test]
fn help_texts_are_in_snapshots() {
    for command in [
        "",
        "dev",
        "demo",
        "fake",
        "forget",
        "send",
        "show",
        "call",
        "call create",
        "call import",
        "call trigger",
        "call cancel",
        "call list",
        "check",
        "completions",
        "providers",
        "providers list",
        "providers put",
        "providers check",
        "status",
        "stuck",
        "reconcile",
        "republish",
        "verify",
        "dlq",
        "dlq redrive",
        "quarantine",
        "quarantine reprocess",
    ] {
        let words: Vec<&str> = command.split_whitespace().collect();
        let name = if words.is_empty() { "the_tool".to_owned() } else { words.join("_") };
        insta::assert_snapshot!(format!("help_of_{name}"), help(&[&words[..], &["--help"]].concat()));
    }
}

#[test]
fn every_list_says_how_it_ends_if_it_is_empty() {
    for list in ["audit", "dlq", "event", "quarantine", "run"] {
        let help = help(&[list, "list", "--help"]);
        assert!(help.contains(", 1 if there is none, ") || help.contains(", 1 if none was, "), "{help}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, part) in [
        (&[][..], "Usage"),
        (&["ring"], "ring"),
        (&["demo", "--calls", "0"], "--calls"),
        (&["demo", "--calls", "many"], "--calls"),
        (&["dev", "--port", "70000"], "--port"),
        (&["dev", "--tick", "soon"], "not a time such as"),
        (&["dev", "--inactivity-timeout", "0s"], "not between"),
        (&["fake", "--webhooks-to", "http://h"], "--key"),
        (&["fake", "--webhooks-to", "http://h", "--key", "k", "--delivery-faults", "worse"], "all-lost"),
        (&["fake", "--webhooks-to", "http://h", "--key", " "], "the key is empty"),
        (&["fake", "--webhooks-to", "h", "--key", "k"], "not a URL"),
        (&["fake", "--webhooks-to", "http://h", "--key", "k"], "add /webhooks/retell"),
        (&["send", "--provider", "retell", "--key", "k", "--to", "http://127.0.0.1:1"], "--sample"),
        (&["send", "--provider", "nobody", "--key", "k", "--sample", "x", "--to", "x"], PROVIDERS),
        (&["send", "--provider", "retell", "--key", " ", "--sample", "x", "--to", "x"], "the key is empty"),
        (&["send", "--provider", "retell", "--key", "k", "--sample", "x", "--to", "x"], "retell/call_analyzed"),
        (
            &["send", "--provider", "retell", "--key", "k", "--sample", "twilio/busy", "--to", "x"],
            "not a webhook of retell",
        ),
        (&["send", "--provider", "retell", "--key", "k", "--sample", "retell/call_ended", "--to", "x"], "not a URL"),
        (&["send", "--provider", "retell", "--key", "k", "--file", "none.json", "--to", "http://h"], "none.json"),
        (&["send", "--provider", "retell", "--key", "-", "--file", "-", "--to", "http://h"], "name a file with --file"),
        (&["show", "call", "--to", "ftp://h"], "not a URL"),
        (&["dev", "--delivery-faults", "some"], "some"),
        (&["dev", "--seed", "x"], "--seed"),
        (&["call"], "Usage"),
        (&["call", "list"], "--to"),
        (&["call", "list", "--to", "h"], "not a URL"),
        (&["call", "list", "--limit", "many", "--to", "http://h"], "--limit"),
        (&["call", "list", "--limit", "0", "--to", "http://h"], "0 is not in 1..=100"),
        (&["call", "list", "--limit", "101", "--tab", "recent", "--to", "http://h"], "101 is not in 1..=100"),
        (&["call", "cancel", "", "--to", "http://h"], "a value is required"),
        (&["show", "", "--to", "http://h"], "a value is required"),
        (&["verify", "", "--to", "http://h"], "a value is required"),
        (&["forget", "--call", "", "--to", "http://h"], "a value is required"),
        (&["forget", "--number", "", "--to", "http://h"], "is no phone number"),
        (&["replay", "--since", "1h", "--max", "0", "--to", "http://h"], "--max"),
        (&["forget", "--number", "Zoe", "--to", "http://h"], "is no phone number"),
        (&["forget", "--number", "sip:desk@example.com", "--to", "http://127.0.0.1:1"], "no answer from"),
        (&["call", "create", "--provider", "retell", "--to", "http://h"], "--from-number"),
        (&[&CREATE[..], &["--provider", "nobody"]].concat(), "unknown provider"),
        (&[&CREATE[..], &["--provider", "retell", "--window", "London"]].concat(), "not a window such as"),
        (
            &[&CREATE[..], &["--provider", "retell", "--window", "UTC 09:00-18:00 mon,tues"]].concat(),
            "a day of the window is none of mon, tue",
        ),
        (&[&CREATE[..], &["--provider", "retell", "--metadata", "fake"]].concat(), "not NAME=VALUE"),
        (
            &[&CREATE[..], &["--provider", "retell", "--metadata", "a=1", "--metadata", "b=1", "--metadata", "a=2"]]
                .concat(),
            "--metadata names \"a\" twice",
        ),
        (&[&CREATE[..], &["--provider", "retell", "--delay", "soon"]].concat(), "not a time such as"),
        (&[&CREATE[..], &["--provider", "retell", "--delay", "900ms"]].concat(), SECONDS),
        (&[&CREATE[..], &["--provider", "retell", "--delay", "1500ms"]].concat(), SECONDS),
        (&[&CREATE[..], &["--provider", "retell", "--delay", "0s"]].concat(), SECONDS),
        (&[&CREATE[..], &["--provider", "retell", "--delay", "25h"]].concat(), SECONDS),
        (&["call", "import", "calls.csv"], "--to"),
        (&["call", "import", "calls.csv", "--plan", "--per-second", "0"], "not between 0.1 and 200"),
        (&["republish", "--to", "http://h"], "--call"),
        (&["republish", "--call", "c", "--since", "1h", "--to", "http://h"], "--since"),
        (&["republish", "--since", "soon", "--to", "http://h"], "not a time ago"),
        (&["verify", "--to", "http://h"], "\n  <CALL|--appointment <ID>|--since <TIME>|--plan <PLAN>>\n"),
        (&["forget", "--to", "http://h"], "\n  <--call <CALL>|--number <NUMBER>|--appointment <ID>|--plan <PLAN>>\n"),
        (&["verify", "c", "--to", "http://127.0.0.1:1"], "no answer from"),
        (&["check", "--to", "http://127.0.0.1:1", "--clean-up", "appointment:1"], "not the id of a check"),
        (&["check", "--timeout", "soon"], "not a time such as"),
        (&["check", "--webhook-url", "foo", "--to", "http://127.0.0.1:1"], "\"foo\" is not a URL"),
        (&["dlq"], "Usage"),
        (&["dlq", "list", "--to", "http://127.0.0.1:1"], "no answer from"),
        (&["dlq", "redrive", "--cause", "", "--to", "http://h"], "a value is required"),
        (&["quarantine", "discard", "--provider", "retell", "--cause", "", "--to", "http://h"], "a value is required"),
        (&["quarantine", "reprocess", "--provider", "nobody"], PROVIDERS),
        (&["quarantine", "discard", "--provider", "switchhook"], PROVIDERS),
        (&["event", "list", "--provider", "nobody"], SENDERS),
        (&["replay", "--provider", "nobody"], PROVIDERS),
        (&["call", "list", "--tab", "recent", "--provider", "nobody"], PROVIDERS),
        (&["republish", "--call", "c", "--to", "http://127.0.0.1:1"], "no answer from"),
        (&["dlq", "redrive", "--all", "--plan", "p"], "'--all' cannot be used with '--plan"),
        (&["dlq", "redrive", "--cause", "c", "--plan", "p"], "'--cause <TEXT>' cannot be used with '--plan"),
        (&["dlq", "discard", "m", "--plan", "p"], "'[ID]...' cannot be used with '--plan"),
        (&["quarantine", "discard", "e", "--plan", "p"], "'[EVENT]...' cannot be used with '--plan"),
        (&["quarantine", "discard", "--all", "--plan", "p"], "'--all' cannot be used with '--plan"),
        (&["quarantine", "reprocess", "--cause", "c", "--plan", "p"], "'--cause <TEXT>' cannot be used with '--plan"),
        (&["quarantine", "reprocess", "--provider", "vapi", "--plan", "p"], "<NAME>' cannot be used with '--plan"),
        (
            &["recover", "copy", "--inbox-from", "t", "--plan", "p"],
            "'--inbox-from <TABLE>' cannot be used with '--plan",
        ),
        (
            &["recover", "copy", "--calls-from", "t", "--plan", "p"],
            "'--calls-from <TABLE>' cannot be used with '--plan",
        ),
        (&["recover", "inbox", "--since", "1h", "--plan", "p"], "'--since <TIME>' cannot be used with '--plan"),
        (&["recover", "stop", "--since", "1h", "--plan", "p"], "'--since <TIME>' cannot be used with '--plan"),
        (&["recover", "stop", "--keep-not-due", "--plan", "p"], "'--keep-not-due' cannot be used with '--plan"),
        (&["verify", "c", "--plan", "p"], "'[CALL]...' cannot be used with '--plan"),
        (&["verify", "--appointment", "a", "--plan", "p"], "'--appointment <ID>' cannot be used with '--plan"),
        (&["verify", "--since", "1h", "--plan", "p"], "'--since <TIME>' cannot be used with '--plan"),
        (&["verify", "--repair", "--plan", "p"], "'--repair' cannot be used with '--plan"),
        (&["verify", "--since", "1h", "--yes", "--reason", "r", "--to", "http://127.0.0.1:1"], "--repair"),
        (&["replay", "--max", "1", "--plan", "p"], "'--max <N>' cannot be used with '--plan"),
        (&["recover", "copy", "--max", "1", "--plan", "p"], "'--max <N>' cannot be used with '--plan"),
        (&["simulate", "--events-per-day", "1e6,0"], "not a number from 1 to 1000000000000"),
        (&["simulate", "--events-per-day", "1e300"], "not a number from 1 to 1000000000000"),
        (&["simulate", "--peak-factor", "0.5"], "not a number from 1 to 86400"),
        (&["simulate", "--peak-factor", "NaN"], "not a number from 1 to 86400"),
        (&["simulate", "--dialled-share", "-1"], "not a number from 0 to 1"),
        (&["simulate", "--silent-share", "1.1"], "not a number from 0 to 1"),
        (&["simulate", "--inbox-days", "inf"], "not a number from 3 to 3650"),
        (&["simulate", "--call-days", "1e9"], "not a number from 44 to 3650"),
        (&["show", "call", "--to", "http://127.0.0.1:1"], "no answer from http://127.0.0.1:1/call?id=call"),
    ] {
        let output = switchhook(arguments);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {part} is not in {errors}");
    }
}

/// A search would take minutes. There is no stack, so nothing is searched.
#[test]
fn run_without_a_right_reason_is_refused_before_a_search() {
    for command in [
        &["forget", "--call", "c"][..],
        &["replay", "--since", "1h"],
        &["republish", "--since", "1h"],
        &["verify", "--since", "1h", "--repair"],
        &["recover", "copy", "--calls-from", "t"],
        &["dlq", "redrive", "--all"],
    ] {
        for (reason, part) in
            [(&[][..], "a reason is needed"), (&["--reason", "call +447700900123"], "may hold a phone number")]
        {
            let nowhere = ["--yes", "--to", "http://127.0.0.1:1"];
            let output = switchhook(&[command, &nowhere, reason].concat());
            let errors = text(&output.stderr);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), String::new()), "{command:?}: {errors}");
            assert!(errors.starts_with("switchhook: refused: ") && errors.contains(part), "{command:?}: {errors}");
        }
    }
}

#[test]
fn key_is_in_no_complaint() {
    let output = switchhook(&["send", "--provider", "retell", "--key", "hunter2 ", "--sample", "x", "--to", "x"]);
    let errors = text(&output.stderr);
    assert!(errors.contains("white space") && !errors.contains("hunter2"), "{errors}");
    let output = switchhook(&["fake", "--key", "hunter2 ", "--webhooks-to", "http://h"]);
    let errors = text(&output.stderr);
    assert!(errors.contains("white space") && !errors.contains("hunter2"), "{errors}");
}
