//! `switchhook demo` by its properties. The figures themselves may change with the stack.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stack::{PROGRAM, Scratch, Stack, switchhook, text, wait_for, without_choice};

fn run(calls: &str, seed: &str) -> Value {
    let output = switchhook(&["demo", "--calls", calls, "--seed", seed, "--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn figures_add_up() {
    let summary = run("20", "1");
    let figure = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(figure("calls"), 20);
    assert_eq!((figure("wrong_calls"), figure("other_mismatches")), (0, 0));
    let answered = ["accepted", "duplicates", "rejected", "recorded", "quarantined"].map(figure);
    assert_eq!(figure("webhooks_delivered"), answered.iter().sum::<u64>());
    let disposed = ["applied", "stale", "parked", "refused"].map(figure);
    assert_eq!(figure("accepted"), disposed.iter().sum::<u64>());
    assert!(figure("calls_inconclusive") <= 20 && figure("domain_events") > 20);
    let at_least_one = ["phones_rung", "retries", "dials_in_doubt", "claims"];
    assert!(at_least_one.into_iter().all(|name| figure(name) > 0), "{summary}");
    assert_eq!((figure("calls_placed"), figure("phones_rung_twice")), (10, 0));
    // Every phone that rang needs a claim.
    assert!(figure("claims") >= figure("phones_rung"), "{summary}");
    assert!(figure("phones_rung") + figure("calls_canceled") >= 9, "{summary}");
    for states in ["lifecycles", "outcomes", "appointment_statuses", "job_states"] {
        let counts = summary[states].as_object().expect("counts");
        assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 20, "{states}");
    }
}

#[test]
fn same_seed_gives_the_same_output() {
    assert_eq!(run("20", "7"), run("20", "7"));
    assert_ne!(run("20", "7"), run("20", "8"));
}

#[test]
fn calls_that_every_provider_reports_come_out_right() {
    let output = switchhook(&["demo", "--calls", "200", "--seed", "2", "--providers", "all", "--json"]);
    let summary: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (output.status.code(), &summary["wrong_calls"], &summary["mismatches"]),
        (Some(0), &json!(0), &json!([]))
    );
}

#[test]
fn two_hundred_calls_come_out_right() {
    // The same command as in `make demo`.
    let mut demo = Command::new(PROGRAM);
    demo.arg0("target/debug/switchhook").arg("demo");
    let output = without_choice(&mut demo).output().expect("the binary starts");
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    for figure in ["wrong calls", "other differences", "phones rang twice"] {
        assert!(printed.lines().any(|line| line.trim_start().starts_with(&format!("0  {figure}"))), "{printed}");
    }
    for title in [
        "Webhooks out of order",
        "Lost webhooks",
        "Forged webhooks",
        "Two providers",
        "Placed by Switchhook, and retried",
        "Result, after",
    ] {
        assert!(printed.contains(title), "{title} is not in\n{printed}");
    }
    readme_shows(&printed);
}

/// Checks that the demo printed every line that README shows as its output, in this order. A line `…` in README stands
/// for omitted lines. The time that the run took may differ.
fn readme_shows(printed: &str) {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).expect("README.md");
    let (_, block) = readme.split_once("```\nFive calls in full\n").expect("the output of the demo");
    let (block, _) = block.split_once("\n```").expect("the end of the output");
    let without_time = |line: &str| match line.strip_prefix("Result, after ").and_then(|rest| rest.split_once(" s: ")) {
        Some((_, rest)) => format!("Result: {rest}"),
        None => line.to_owned(),
    };
    let mut lines = printed.lines().map(without_time);
    for line in block.lines().filter(|line| *line != "…").map(without_time) {
        assert!(lines.any(|printed| printed == line), "README shows a line that the demo does not print here: {line}");
    }
}

#[test]
fn last_line_shows_the_calls_that_were_played() {
    let arguments = ["demo", "--calls", "4", "--seed", "3", "--providers", "all"];
    let output = switchhook(&arguments);
    let printed = text(&output.stdout);
    let (demo, dev) = (arguments.join(" "), "dev --data calls --freeze");
    let expected = format!("look at these calls: {PROGRAM} {demo} --data calls && {PROGRAM} {dev}");
    assert_eq!(printed.lines().last(), Some(expected.as_str()), "{printed}{}", text(&output.stderr));
}

#[test]
fn finished_stack_is_kept_and_looked_at() {
    let scratch = Scratch::new();
    let data = scratch.0.join("calls");
    let data = data.to_str().expect("UTF-8");
    let demo = ["demo", "--calls", "4", "--seed", "3", "--data", data];
    let output = switchhook(&demo);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    assert!(printed.ends_with(&format!(" dev --data {data} --freeze\n")), "{printed}");
    #[cfg(unix)]
    {
        let file = std::fs::metadata(scratch.0.join("calls/providers.json")).expect("the keys");
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.permissions());
        assert_eq!(mode & 0o077, 0, "only the owner can read the keys");
    }
    let again = switchhook(&demo);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is not empty: name a new directory"), "{}", text(&again.stderr));

    let key = "the new key of the demo for generic";
    let send = |stack: &Stack| {
        switchhook(&["send", "--provider", "generic", "--key", key, "--sample", "generic/busy", "--to", &stack.url])
    };
    let status_of = |stack: &Stack| -> serde_json::Value {
        let status = switchhook(&["status", "--json", "--to", &stack.url]);
        serde_json::from_slice(&status.stdout).expect("the status")
    };
    let needs_a_person = |status: &serde_json::Value| -> Vec<bool> {
        let questions = status["questions"].as_array().expect("questions");
        questions.iter().map(|question| question["answer"] == "act").collect()
    };
    let looked = || {
        let stack = Stack::start(&["--data", data, "--freeze"]);
        let list = stack.get("/calls?limit=100").expect("the calls");
        let status = status_of(&stack);
        let refused = send(&stack);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
        assert!(text(&refused.stdout).contains("this stack is frozen"), "{}", text(&refused.stdout));
        for command in [&["dlq", "list"][..], &["reconcile"]] {
            let refused = stack.switchhook(command);
            let errors = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{command:?}: {errors}");
            assert!(errors.contains(": this stack is frozen, so nothing"), "{command:?}: {errors}");
        }
        (list, stack.get("/calls?limit=100").expect("the calls"), status)
    };
    let (first, later, status) = looked();
    let calls = first["calls"].as_array().expect("calls");
    assert!(calls.len() >= 4 && calls.iter().all(|call| call["settled"] == true), "{first}");
    assert_eq!(first, later, "nothing moves");
    for question in status["questions"].as_array().expect("questions") {
        assert_ne!(question["answer"], "unknown", "{question:#}");
    }
    let at_the_end = needs_a_person(&status);
    assert_eq!(looked(), (first, later, status), "every start shows the same");

    // Without --freeze the keys are the same, and the stack goes on from the end of the demo.
    let now = |stack: &Stack| stack.get("/clock").expect("the time")["now"].to_string();
    let stack = Stack::start(&["--data", data, "--freeze"]);
    let ended = now(&stack);
    drop(stack);
    let stack = Stack::start(&["--data", data]);
    let started = now(&stack);
    assert!(started > ended && started[..11] == ended[..11], "{ended}, then {started}");
    let output = switchhook(&["verify", "--since", "1d", "--to", &stack.url]);
    assert_eq!(text(&output.stdout), "verified 4 calls: all match their events\n");
    let status = status_of(&stack);
    assert_eq!(needs_a_person(&status), at_the_end, "{status:#}");
    assert_eq!(send(&stack).status.code(), Some(0));
    drop(stack);
    let again = now(&Stack::start(&["--data", data]));
    assert!(again > started && again[..11] == ended[..11], "{started}, then {again}");

    // The clock of the demo's end would show rows of its future.
    let frozen = switchhook(&["dev", "--port", "0", "--data", data, "--freeze"]);
    assert_eq!(frozen.status.code(), Some(2), "{}", text(&frozen.stdout));
    assert!(text(&frozen.stderr).contains("has gone on from the end of its demo"), "{}", text(&frozen.stderr));
}

#[test]
fn directory_with_files_of_the_user_is_left_alone() {
    let scratch = Scratch::new();
    let file = scratch.providers();
    let content = std::fs::read(&file).expect("the file");
    let output = switchhook(&["demo", "--calls", "2", "--data", scratch.0.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("is not empty: name a new directory"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(&file).expect("the file"), content);
    assert_eq!(std::fs::read_dir(&scratch.0).expect("the directory").count(), 1, "nothing was written");
}

#[test]
fn interrupted_demo_is_named_by_every_command_and_begins_again_in_a_new_directory() {
    let scratch = Scratch::new();
    let path = scratch.0.join("calls");
    let data = path.to_str().expect("UTF-8");
    let mut demo = Command::new(PROGRAM)
        .args(["demo", "--calls", "20000", "--data", data])
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    wait_for("the database of the demo", || {
        if path.join("switchhook.sqlite").exists() { Ok(()) } else { Err("no database".to_owned()) }
    });
    demo.kill().expect("it is running");
    demo.wait().expect("it ends");

    let unfinished = format!("{data} holds an unfinished demo: if it no longer runs, delete the directory and run");
    let again = ["demo", "--calls", "2", "--data", data];
    let looks = [&["dev", "--port", "0", "--data", data][..], &["dev", "--port", "0", "--data", data, "--freeze"]];
    for arguments in looks.into_iter().chain([&again[..]]) {
        let output = switchhook(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(&unfinished), "{arguments:?}: {}", text(&output.stderr));
    }
    std::fs::remove_dir_all(&path).expect("the directory is deleted");
    assert_eq!(switchhook(&again).status.code(), Some(0));
}

#[test]
fn only_a_demo_can_be_frozen() {
    let scratch = Scratch::new();
    let data = scratch.0.to_str().expect("UTF-8");
    let output = switchhook(&["dev", "--port", "0", "--data", data, "--freeze"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("holds no finished demo"), "{}", text(&output.stderr));
    assert_eq!(switchhook(&["dev", "--port", "0", "--freeze"]).status.code(), Some(2), "--freeze needs --data");
}
