//! `switchhook bench`, on a `switchhook dev`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fake_aws::FakeAws;
use crate::stack::{KEY, PROGRAM, Scratch, Stack, signal, text, wait_for, without_choice};

#[test]
fn stack_is_measured_and_nothing_is_left() {
    let (_scratch, stack) = Stack::quiet();
    let output = stack.switchhook(&["bench", "--calls", "8", "--rate", "40", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["consumed"], Value::Null, "nobody asked");
    assert_eq!((&report["webhooks"], &report["accepted"], &report["left"]), (&json!(24), &json!(24), &json!(0)));
    assert_eq!(report["answers"], json!({"200 accepted": 24}));
    // The last webhook is sent 23 pauses after the first.
    let seconds = report["seconds"].as_f64().expect("a number");
    assert!(seconds >= 23.0 / 40.0, "{report:#}");
    for spread in ["answer_ms", "applied_ms"] {
        assert!(report[spread]["p50"].as_u64() <= report[spread]["max"].as_u64(), "{report:#}");
    }
    assert!(!text(&output.stdout).contains(KEY));
    let id = report["bench_id"].as_str().expect("an id").trim_end_matches("-8").to_owned();
    let told = text(&output.stderr);
    assert!(told.contains(&format!("bench --clean-up {id}-8 --to {}", stack.url)), "{told}");
    assert_eq!(stack.get(&format!("/call?id={id}-0")), None);
    assert_eq!(stack.get(&format!("/event/status?id=generic:{id}-7-call.ringing")), None);
    let events = stack.domain_events(None);
    assert_eq!(events.iter().filter(|event| event.1 == "call.canceled").count(), 8, "{events:?}");

    let output = stack.switchhook(&["bench", "--calls", "2", "--rate", "100"]);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("6 of 6 webhooks sent in "), "{printed}");
    assert!(printed.contains("\nanswered 200 accepted: 6\nanswered after  p50 "), "{printed}");
    assert!(printed.ends_with("-2: its calls and events are removed\n"), "{printed}");
}

/// The stack has no other traffic, so the units are those of the webhooks alone.
#[test]
fn units_per_webhook_are_read_from_the_metrics_of_the_stack() {
    let (_scratch, stack) = Stack::quiet();
    let output = stack.switchhook(&["bench", "--calls", "8", "--rate", "40", "--units", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let consumed = &report["consumed"];
    assert_eq!(consumed["received"], json!(24.0), "{report:#}");
    assert_eq!(consumed["messages"], json!(1.0), "{report:#}");
    let of = |kind: &str, place: &str| {
        consumed[kind][place].as_f64().unwrap_or_else(|| panic!("{kind} {place}: {report:#}"))
    };
    assert_eq!(of("write_units", "inbox/by_received"), 1.0, "one entry for each webhook");
    let (inbox, calls) = (of("write_units", "inbox"), of("write_units", "calls"));
    assert!((1.0..3.0).contains(&inbox) && (0.3..2.0).contains(&calls), "{report:#}");
    let all = |kind: &str| consumed[kind].as_object().expect("places").values().filter_map(Value::as_f64).sum::<f64>();
    let dollars = all("write_units") * 0.625 + all("read_units") * 0.125;
    assert!((consumed["dollars_per_million"].as_f64().expect("a price") - dollars).abs() < 1e-9, "{report:#}");
    let output = stack.switchhook(&["bench", "--calls", "2", "--rate", "100", "--units"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("\nper webhook, of ") && printed.contains("\n  write units  "), "{printed}");
}

#[test]
fn stopped_benchmark_removes_what_it_has_sent() {
    let (_scratch, stack) = Stack::quiet();
    let mut command = Command::new(PROGRAM);
    let command =
        without_choice(command.args(["bench", "--to", &stack.url, "--calls", "100", "--rate", "5", "--json"]));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    wait_for("a call of the benchmark", || {
        let events = stack.domain_events(None);
        if events.is_empty() { Err("no domain event".to_owned()) } else { Ok(()) }
    });
    signal("-INT", child.id());
    let mut printed = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{printed}");
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    assert!(report["sent"].as_u64() >= Some(1) && report["sent"].as_u64() < Some(300), "{report:#}");
    assert_eq!((&report["not_applied"], &report["left"]), (&json!(0), &json!(0)), "{report:#}");
    let id = report["bench_id"].as_str().expect("an id");
    assert_eq!(stack.get(&format!("/call?id={}-0", id.trim_end_matches("-100"))), None);

    let again = stack.switchhook(&["bench", "--clean-up", id]);
    let printed = format!("{id}: calls removed: 0; calls with events that may still be folded: 0\n");
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(1), printed));
}

/// Runs a benchmark until it prints a line with this text on standard error, and then stops it by Ctrl-C. Returns its exit status
/// and its report.
fn stopped_at(line_with: &str, mut command: Command) -> (Option<i32>, Value) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut told = String::new();
    while !told.contains(line_with) {
        let length = errors.read_line(&mut told).expect("UTF-8");
        assert!(length > 0, "{line_with} is not in {told}");
    }
    signal("-INT", child.id());
    let mut printed = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut printed).expect("UTF-8");
    let report = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    (child.wait().expect("it ends").code(), report)
}

/// Another stack with the same key takes the webhooks, so this one never applies them.
#[test]
fn wait_until_webhooks_are_applied_can_be_stopped() {
    let ((_scratch, stack), (_other_scratch, other)) = (Stack::quiet(), Stack::quiet());
    let began = Instant::now();
    let bench = ["bench", "--calls", "2", "--rate", "100", "--timeout", "10m", "--json"];
    let command = stack.command(&[&bench[..], &["--to", &stack.url, "--webhook-url", &other.url]].concat());
    let (code, report) = stopped_at("waiting up to 600 s until the webhooks of 2 calls are applied", command);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    assert_eq!(code, Some(1), "{report:#}");
    let counts = ["accepted", "not_applied", "left"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(6), Some(6), Some(0)], "{report:#}");
}

#[test]
fn wait_for_the_metrics_of_aws_can_be_stopped_and_nothing_is_left() {
    let (_scratch, stack) = Stack::quiet();
    let aws = FakeAws::start(&stack, &[]);
    let command = aws.command(&["bench", "--calls", "2", "--rate", "100", "--units", "--json"], &[]);
    let (code, report) = stopped_at("waiting up to four minutes for the metrics of AWS", command);
    assert_eq!((code, &report["consumed"]), (Some(0), &Value::Null), "{report:#}");
    let counts = ["accepted", "not_applied", "left"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(6), Some(0), Some(0)], "{report:#}");
    let id = report["bench_id"].as_str().expect("an id").trim_end_matches("-2");
    assert_eq!(stack.get(&format!("/call?id={id}-0")), None);
    assert_eq!(stack.get(&format!("/event/status?id=generic:{id}-1-call.ringing")), None);
}

#[test]
fn stack_without_a_generic_key_is_refused() {
    let scratch = Scratch::new();
    let providers = scratch.providers();
    std::fs::write(&providers, "{}").expect("the file is written");
    let stack = Stack::start(&["--providers", providers.to_str().expect("UTF-8"), "--tick", "1h"]);
    let output = stack.switchhook(&["bench"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("no key of the generic provider") || errors.contains("the secret is empty"), "{errors}");
}
