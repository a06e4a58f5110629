//! What the tool says of itself, and of arguments that make no sense.

use crate::stack::{switchhook, text};

fn help(arguments: &[&str]) -> String {
    let output = switchhook(arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    text(&output.stdout)
}

#[test]
fn help_of_the_tool() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn help_of_dev() {
    insta::assert_snapshot!(help(&["dev", "--help"]));
}

#[test]
fn help_of_demo() {
    insta::assert_snapshot!(help(&["demo", "--help"]));
}

#[test]
fn help_of_send() {
    insta::assert_snapshot!(help(&["send", "--help"]));
}

#[test]
fn help_of_show() {
    insta::assert_snapshot!(help(&["show", "--help"]));
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
        (&["dev", "--patience", "0s"], "not between"),
        (&["send", "--provider", "retell", "--key", "k", "--to", "http://127.0.0.1:1"], "--sample"),
        (&["send", "--provider", "vapi", "--key", "k", "--sample", "x", "--to", "x"], "unknown provider \"vapi\""),
        (&["send", "--provider", "retell", "--key", " ", "--sample", "x", "--to", "x"], "the key is empty"),
        (&["send", "--provider", "retell", "--key", "k", "--sample", "x", "--to", "x"], "retell/call_analyzed"),
        (&["send", "--provider", "retell", "--key", "k", "--sample", "twilio/busy", "--to", "x"], "not of retell"),
        (&["send", "--provider", "retell", "--key", "k", "--sample", "retell/call_ended", "--to", "x"], "no URL"),
        (&["send", "--provider", "retell", "--key", "k", "--file", "none.json", "--to", "http://h"], "none.json"),
        (&["show", "call", "--to", "ftp://h"], "no URL"),
        (&["show", "call", "--to", "http://127.0.0.1:1"], "no answer from http://127.0.0.1:1/calls/call"),
    ] {
        let output = switchhook(arguments);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {part} is not in {errors}");
    }
}

#[test]
fn key_is_in_no_complaint() {
    let output = switchhook(&["send", "--provider", "retell", "--key", "hunter2 ", "--sample", "x", "--to", "x"]);
    let errors = text(&output.stderr);
    assert!(errors.contains("white space") && !errors.contains("hunter2"), "{errors}");
}
