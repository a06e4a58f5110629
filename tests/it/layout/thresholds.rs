//! The limits of `switchhook status` are those of the template's alarms, and its commands are those of the runbook.

use switchhook_operate::status::{Level, REJECTED_MIN, RUNS_MIN, SCHEDULES, THRESHOLDS};

use super::TEMPLATE;
use crate::files::{read, yaml};

/// Operator and threshold of an alarm.
fn limit(alarm: &str) -> (String, f64) {
    let properties = &yaml(TEMPLATE)["Resources"][alarm]["Properties"];
    assert!(properties.is_object(), "the template has no alarm {alarm}");
    (properties["ComparisonOperator"].as_str().unwrap().to_owned(), properties["Threshold"].as_f64().unwrap())
}

#[test]
fn limits_of_the_status_are_those_of_the_alarms() {
    for (line, threshold) in THRESHOLDS {
        let Some(alarm) = threshold.alarm else { continue };
        let (operator, value) = limit(alarm);
        // Ages and latencies are judged in the unit of their metric.
        assert_eq!((operator.as_str(), value), ("GreaterThanThreshold", threshold.limit), "{line}: {alarm}");
        let severity = if alarm.starts_with("P1") { Level::Act } else { Level::Watch };
        assert_eq!(threshold.breach, severity, "{line}: {alarm}");
    }
}

#[test]
fn as_many_rejected_webhooks_as_the_alarm_needs_breach_the_limit() {
    let metrics = &yaml(TEMPLATE)["Resources"]["P2RejectedWebhooksAlarm"]["Properties"]["Metrics"];
    let rate = metrics.as_array().unwrap().iter().find(|metric| metric["Id"] == "rate").unwrap();
    let expression = rate["Expression"].as_str().unwrap();
    assert!(expression.ends_with(&format!("* (rejected >= {REJECTED_MIN})")), "{expression}");
}

#[test]
fn lines_without_an_alarm_name_a_section_of_the_runbook_with_their_command() {
    let runbook = read("infra/runbook.md");
    for (line, threshold) in THRESHOLDS {
        let Some(name) = threshold.section else {
            assert!(threshold.alarm.is_some(), "{line} has neither an alarm nor a section");
            continue;
        };
        assert_eq!(threshold.alarm, None, "{line}");
        let section = runbook.split("\n## ").find(|section| section.lines().next() == Some(name));
        let command = format!("    target/debug/{} --stack ", threshold.command);
        assert!(section.is_some_and(|section| section.contains(&command)), "{line}: {name}");
    }
}

/// One line counts webhooks that cannot be read, and events for which their call has no room.
#[test]
fn advice_names_further_sections_of_the_runbook() {
    let runbook = read("infra/runbook.md");
    let mut named = Vec::new();
    for (line, threshold) in THRESHOLDS {
        let words = threshold.advice.split(|c: char| !c.is_ascii_alphanumeric());
        for name in words.filter(|word| word.ends_with("Alarm")) {
            assert!(runbook.contains(&format!("\n## {name}\n")), "{line}: {name}");
            named.push((line, name));
        }
    }
    assert_eq!(named, [("quarantined", "P2CallLimitAlarm")]);
}

#[test]
fn schedules_run_as_often_as_their_alarms_say() {
    for (function, alarm, _) in SCHEDULES {
        let (operator, value) = limit(alarm);
        assert_eq!((operator.as_str(), value), ("LessThanThreshold", RUNS_MIN as f64), "{function}");
    }
}

#[test]
fn status_and_runbook_name_the_same_commands() {
    let runbook = read("infra/runbook.md");
    let of_lines = THRESHOLDS.iter().filter_map(|(_, threshold)| Some((threshold.alarm?, threshold.command)));
    let of_schedules = SCHEDULES.iter().map(|(_, alarm, command)| (*alarm, *command));
    let mut missing = Vec::new();
    for (alarm, command) in of_lines.chain(of_schedules) {
        let section = runbook.split("\n## ").find(|section| section.lines().next().unwrap().contains(alarm));
        if !section.is_some_and(|section| section.contains(&format!("    target/debug/{command} --stack "))) {
            missing.push(format!("{alarm}: {command}"));
        }
    }
    assert!(
        missing.is_empty(),
        "these sections of infra/runbook.md do not have the command of the status: {missing:#?}"
    );
}
