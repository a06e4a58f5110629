//! `switchhook demo` by its properties; figures may change with the stack.

use serde_json::Value;

use crate::stack::{switchhook, text};

fn json(calls: &str, seed: &str) -> Value {
    let output = switchhook(&["demo", "--calls", calls, "--seed", seed, "--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn figures_add_up() {
    let summary = json("20", "1");
    let figure = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(figure("calls"), 20);
    assert_eq!(figure("wrong"), 0);
    let answered = ["accepted", "duplicates", "rejected", "recorded", "quarantined"].map(figure);
    assert_eq!(figure("deliveries"), answered.iter().sum::<u64>());
    let disposed = ["applied", "stale", "parked", "refused"].map(figure);
    assert_eq!(figure("accepted"), disposed.iter().sum::<u64>());
    assert!(figure("inconclusive") <= 20 && figure("domain_events") > 20);
    let at_least = ["dialled", "retried", "in_doubt", "claimed"];
    assert!(at_least.into_iter().all(|name| figure(name) > 0), "{summary}");
    assert_eq!((figure("placed"), figure("phones_rung_twice")), (10, 0));
    // Every phone that rang was claimed for.
    assert!(figure("claimed") >= figure("dialled") && figure("dialled") + figure("canceled") >= 9, "{summary}");
    for states in ["lifecycles", "outcomes", "appointments", "jobs"] {
        let counts = summary[states].as_object().expect("counts");
        assert_eq!(counts.values().filter_map(Value::as_u64).sum::<u64>(), 20, "{states}");
    }
}

#[test]
fn same_seed_gives_the_same_output() {
    assert_eq!(json("20", "7"), json("20", "7"));
    assert_ne!(json("20", "7"), json("20", "8"));
}

#[test]
fn two_hundred_calls_come_out_right() {
    let output = switchhook(&["demo", "--seed", "3"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.lines().any(|line| line == "wrong states: 0"), "{printed}");
    for title in [
        "Reports out of order",
        "Reports that never came",
        "Reports that nobody should believe",
        "Placed, and placed again",
        "wall time",
    ] {
        assert!(printed.contains(title), "{title} is not in\n{printed}");
    }
}
