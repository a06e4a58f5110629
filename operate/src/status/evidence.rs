//! Lines of evidence, made from the values that were read.

use std::time::Duration;

use switchhook_domain::Timestamp;

use super::sources::{Count, Metrics, Overdue, REJECTED_IN, Read, Rejections, Runs, Sources};
use super::thresholds::{
    ANNOUNCED, ANSWER, APPLIED, CIRCUITS, CONFLICTS, DEAD_LETTERS, DIAL_AGE, DIALLED_BEFORE, DISABLED, DOUBTS, DRIFT,
    DUE, EVENTS_AGE, FAILED_CLAIMS, QUARANTINED, REFOLDS_GIVEN_UP, REJECTED, REJECTED_MIN, RELAY_FAILURES, RETRYING,
    RUN_ERRORS, RUNS_MIN, SCHEDULES, SECRET_FAILURES, SILENCE, SKIPPED, STUCK, SWEEP, Threshold, UNFOLDED, WAKE,
};
use super::{Advice, Evidence, Level, Silence};
use crate::aws::{Alarm, AlarmState, Series};
use crate::duration::age;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Time in which each schedule runs at least once. Its alarm has the same time.
const RUNS_IN: Duration = Duration::from_secs(10 * 60);
/// Time in which a function that is used reads its secret again, with room for metrics that arrive late.
const SECRETS_IN: Duration = Duration::from_secs(10 * 60);
/// Time for which an event that was not folded counts. The reconciler tells of it every minute, and a value covers five minutes.
const UNFOLDED_IN: Duration = Duration::from_secs(8 * 60);
/// Time for which the latest value of a gauge counts. Metrics arrive after a few minutes.
const GAUGE_AGE_MAX: Duration = Duration::from_secs(15 * 60);
/// Time for which the latest count of stuck calls counts. There is one about every ten minutes, and one may be skipped.
const STUCK_IN: Duration = Duration::from_secs(30 * 60);

/// Lines of "Healthy?".
pub(super) fn healthy(sources: &Sources, now: Timestamp) -> Vec<Evidence> {
    let mut lines: Vec<Evidence> =
        sources.alarms.iter().map(|alarms| line("alarms", alarms, |all| alarm_line(all))).collect();
    let metrics = |name, make: &dyn Fn(&Metrics) -> Evidence| line(name, &sources.metrics, make);
    lines.push(metrics("rejected webhooks", &|metrics| rejected_line(metrics, now)));
    for (name, threshold, series) in [
        (
            "failed secret reads",
            SECRET_FAILURES,
            (|metrics: &Metrics| &metrics.secret_failures) as fn(&Metrics) -> &Series,
        ),
        ("disabled providers", DISABLED, |metrics| &metrics.disabled),
    ] {
        lines.push(metrics(name, &|metrics| {
            let reads = last(series(metrics), now, SECRETS_IN).sum();
            let text = match reads > 0.0 {
                true => format!("found by {reads} reads of a secret in ten minutes"),
                false => "none in ten minutes".to_owned(),
            };
            judged(name, &threshold, Some(reads), text)
        }));
    }
    for (name, threshold, series) in [
        ("answer p99", ANSWER, (|metrics: &Metrics| metrics.answer.clone()) as fn(&Metrics) -> Series),
        ("received to applied p99", APPLIED, |metrics| metrics.applied.clone()),
        ("received to announced p99", ANNOUNCED, |metrics| metrics.announced.clone()),
    ] {
        lines.push(metrics(name, &|metrics| {
            let worst = last(&series(metrics), now, HOUR).max();
            let text = worst.map_or_else(|| "nothing in the last hour".to_owned(), milliseconds);
            judged(name, &threshold, worst, text)
        }));
    }
    lines.push(metrics("last webhook", &|metrics| {
        let at = metrics.received.0.iter().filter(|(_, value)| *value > 0.0).map(|(at, _)| *at).max();
        let mut text = at.map_or_else(
            || "none in the last day".to_owned(),
            |at| format!("at most {} ago", age(now.millis_since(at))),
        );
        let silent: Vec<Silence> =
            Silence::all(metrics, now).into_iter().filter(|silence| silence.is_unusual()).collect();
        for silence in &silent {
            let millis = i64::try_from(silence.seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            text.push_str(&format!("; {} is silent for {}", silence.provider, age(millis)));
        }
        judged("last webhook", &SILENCE, Some(silent.len() as f64), text)
    }));
    for (function, alarm, command) in SCHEDULES {
        let name = if function == "scheduler" { "scheduler runs" } else { "reconciler runs" };
        lines.push(metrics(name, &|metrics| {
            let runs = if function == "scheduler" { &metrics.scheduler_runs } else { &metrics.reconciler_runs };
            schedule_line(name, alarm, command, runs, now, sources.is_local)
        }));
    }
    lines.push(metrics("failed runs", &|metrics| {
        let errors = |runs: &Runs| last(&runs.errors, now, RUNS_IN).sum();
        let (scheduler, reconciler) = (errors(&metrics.scheduler_runs), errors(&metrics.reconciler_runs));
        let text = format!("{scheduler} of the scheduler, {reconciler} of the reconciler in ten minutes");
        judged("failed runs", &RUN_ERRORS, Some(scheduler + reconciler), text)
    }));
    lines.push(line("provider circuits", &sources.health, |health| {
        let open: Vec<&str> =
            health.iter().filter(|health| health.is_open()).map(|health| health.provider.as_str()).collect();
        let text = if open.is_empty() { "all closed".to_owned() } else { format!("open: {}", open.join(", ")) };
        judged("provider circuits", &CIRCUITS, Some(open.len() as f64), text)
    }));
    let in_an_hour = |name, threshold: &Threshold, series: fn(&Metrics) -> &Series| {
        metrics(name, &|metrics| {
            let count = last(series(metrics), now, HOUR).sum();
            judged(name, threshold, Some(count), format!("{count} in the last hour"))
        })
    };
    lines.push(in_an_hour("dials in doubt", &DOUBTS, |metrics| &metrics.doubts));
    lines.push(metrics("calls stuck in dialling", &|metrics| {
        let stuck = last(&metrics.stuck, now, STUCK_IN).latest();
        let text = stuck.map_or_else(
            || "not counted in the last half hour".to_owned(),
            |stuck| format!("{stuck} at the last count, every ten minutes"),
        );
        judged("calls stuck in dialling", &STUCK, stuck, text)
    }));
    lines.push(in_an_hour("failed claims", &FAILED_CLAIMS, |metrics| &metrics.failed_claims));
    lines
}

/// Lines of "Backlog?".
pub(super) fn backlog(sources: &Sources, now: Timestamp) -> Vec<Evidence> {
    let queue = |name, depth: &Read<u64>, threshold: &Threshold, series: fn(&Metrics) -> &Series| {
        let read = depth.as_ref().and_then(|depth| Ok((*depth, sources.metrics.as_ref()?))).map_err(Clone::clone);
        line(name, &read, |(depth, metrics)| {
            let oldest = last(series(metrics), now, GAUGE_AGE_MAX).latest();
            // An empty queue has no oldest message. Its metric may be minutes old.
            let oldest = oldest.filter(|_| *depth > 0);
            let text = match oldest {
                Some(oldest) => format!("{depth} waiting, oldest {}", age(seconds(oldest))),
                None => format!("{depth} waiting"),
            };
            judged(name, threshold, oldest, text)
        })
    };
    let overdue = |name, read: &Read<Overdue>, threshold: &Threshold| {
        line(name, read, |overdue| {
            let late = overdue.oldest.map(|oldest| now.millis_since(oldest));
            let text = match late {
                Some(late) => format!("{}, longest overdue by {}", number(&overdue.count), age(late)),
                None => "0".to_owned(),
            };
            let line = judged(name, threshold, late.map(|late| late as f64), text);
            Evidence { first: overdue.count.first.clone(), ..line }
        })
    };
    vec![
        line("events not folded", &sources.metrics, |metrics| {
            let oldest = last(&metrics.unfolded, now, UNFOLDED_IN).latest();
            let text = match oldest {
                Some(oldest) => format!("the oldest for {}", age(oldest as i64)),
                None => "none for five minutes".to_owned(),
            };
            judged("events not folded", &UNFOLDED, oldest, text)
        }),
        queue("events queue age", &sources.events_queue, &EVENTS_AGE, |metrics| &metrics.events_age),
        queue("dial queue age", &sources.dial_queue, &DIAL_AGE, |metrics| &metrics.dial_age),
        line("calls due within a minute", &sources.due_queue, |depth| {
            fine("calls due within a minute", depth.to_string())
        }),
        overdue("due calls", &sources.due, &DUE),
        overdue("overdue wake-ups", &sources.wake, &WAKE),
        line("sweep lag", &sources.swept, |swept| match swept {
            Some(swept) => {
                let lag = now.millis_since(*swept).max(0);
                judged("sweep lag", &SWEEP, Some(lag as f64 / 1_000.0), age(lag))
            }
            None => unknown("sweep lag", "no sweep has run yet"),
        }),
    ]
}

/// Lines of "Poison?".
pub(super) fn poison(sources: &Sources) -> Vec<Evidence> {
    let count = |name, read: &Read<Count>, threshold: &Threshold| {
        line(name, read, |count| {
            let first = count.first.clone();
            Evidence { first, ..judged(name, threshold, Some(count.number as f64), number(count)) }
        })
    };
    let in_a_day = |name, threshold: &Threshold, series: fn(&Metrics) -> &Series| {
        line(name, &sources.metrics, |metrics| {
            let count = series(metrics).sum();
            judged(name, threshold, Some(count), format!("{count} in the last day"))
        })
    };
    vec![
        line("dead letters", &sources.dead_letters, |depth| dead_letters_line(*depth, &sources.dead_lettered)),
        count("quarantined", &sources.quarantined, &QUARANTINED),
        count("retrying", &sources.retrying, &RETRYING),
        line("relay gave up", &sources.relay_failures, |depth| {
            judged("relay gave up", &RELAY_FAILURES, Some(*depth as f64), depth.to_string())
        }),
        line("conflicting bodies", &sources.conflicts, |count| {
            let text = format!("{} in the last day", number(count));
            let first = count.first.clone();
            Evidence { first, ..judged("conflicting bodies", &CONFLICTS, Some(count.number as f64), text) }
        }),
        in_a_day("drift", &DRIFT, |metrics| &metrics.drifted),
        in_a_day("forgotten dials", &DIALLED_BEFORE, |metrics| &metrics.dialled_before),
        in_a_day("skipped writes", &SKIPPED, |metrics| &metrics.skipped),
        in_a_day("refolds given up", &REFOLDS_GIVEN_UP, |metrics| &metrics.refolds_given_up),
    ]
}

/// Line of the dead letters: the messages in their queue, or the events on the list of those that need attention if these are more. **A dead letter
/// without a message holds its call like any other.** SQS deletes a message after 14 days, and an event that cannot be read never had one.
fn dead_letters_line(depth: u64, listed: &Read<Count>) -> Evidence {
    let name = "dead letters";
    let in_queue = |first| Evidence { first, ..judged(name, &DEAD_LETTERS, Some(depth as f64), depth.to_string()) };
    match listed {
        Ok(listed) if listed.number as u64 > depth => {
            let text = format!("{} listed, {depth} in the queue", number(listed));
            let first = listed.first.clone();
            Evidence { first, ..judged(name, &DEAD_LETTERS, Some(listed.number as f64), text) }
        }
        Ok(listed) => in_queue(listed.first.clone()),
        Err(_) if depth > 0 => in_queue(Vec::new()),
        Err(reason) => Evidence { error: Some(reason.kind), ..unknown(name, &reason.to_string()) },
    }
}

fn alarm_line(alarms: &[Alarm]) -> Evidence {
    if alarms.is_empty() {
        return unknown("alarms", "the stack has no alarms");
    }
    // Names are `{stack}-P1-dead-letters`. Severity and rest of the name come last.
    let short = |alarm: &Alarm| {
        let parts: Vec<&str> = alarm.name.split("-P").collect();
        format!("P{}", parts.last().copied().unwrap_or_default())
    };
    let in_state = |state| alarms.iter().filter(move |alarm| alarm.state == state);
    let mut firing: Vec<String> = in_state(AlarmState::Alarm).map(short).collect();
    firing.sort();
    let without_data = in_state(AlarmState::InsufficientData).count();
    let mut text = format!("{} of {}", firing.len(), alarms.len());
    if !firing.is_empty() {
        text.push_str(&format!(": {}", firing.join(", ")));
    }
    if without_data > 0 {
        text.push_str(&format!(", {without_data} without data"));
    }
    let level = match firing.first() {
        None => Level::Ok,
        Some(first) if first.starts_with("P1-") => Level::Act,
        Some(_) => Level::Watch,
    };
    let advice = firing.first().map(|first| Advice {
        text: "each alarm has its section in infra/runbook.md",
        runbook: Some(section(first)),
        command: "switchhook status --json",
    });
    Evidence { level, advice, ..fine("alarms", text) }
}

/// Returns the section of the runbook for an alarm: `P1DeadLettersAlarm` for `P1-dead-letters`.
fn section(alarm: &str) -> String {
    let words = alarm.split('-').map(|word| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str()))
    });
    format!("{}Alarm", words.collect::<String>())
}

/// Line of the rejected webhooks. Fewer than [`REJECTED_MIN`] breach nothing. A provider whose webhooks are all rejected breaches the
/// limit even if those of others are many.
fn rejected_line(metrics: &Metrics, now: Timestamp) -> Evidence {
    let sum = |series: &Series| last(series, now, REJECTED_IN).sum();
    let (received, rejected) = (sum(&metrics.received), sum(&metrics.rejected));
    let percent = if received > 0.0 { 100.0 * rejected / received } else { 0.0 };
    let mut text = format!("{rejected} of {received} in the last hour, {percent:.1} %");
    let mut is_wrong_key = false;
    if let Some(Rejections { by_provider, bad_signature }) = &metrics.rejections {
        let bad_signature = sum(bad_signature);
        for (provider, (rejected, received)) in
            metrics.providers.iter().zip(by_provider.iter().zip(&metrics.by_provider))
        {
            let (rejected, received) = (sum(rejected), sum(received));
            if rejected > 0.0 && rejected >= received {
                text.push_str(&format!("; {provider}: none of {rejected} accepted"));
                is_wrong_key |= rejected >= REJECTED_MIN && bad_signature >= rejected;
            } else if rejected > 0.0 {
                text.push_str(&format!("; {provider}: {rejected} of {received}"));
            }
        }
        if bad_signature > 0.0 {
            text.push_str(&format!("; verified by no key: {bad_signature}"));
        }
    }
    let judged_percent = if is_wrong_key { 100.0 } else { percent };
    judged("rejected webhooks", &REJECTED, Some(judged_percent).filter(|_| rejected >= REJECTED_MIN), text)
}

fn schedule_line(
    name: &'static str,
    alarm: &str,
    command: &'static str,
    runs: &Runs,
    now: Timestamp,
    is_local: bool,
) -> Evidence {
    let sum = |series: &Series| last(series, now, RUNS_IN).sum();
    let (scheduled, invocations) = (sum(&runs.scheduled), sum(&runs.invocations));
    let (is_scheduled, is_invoked) = (scheduled >= RUNS_MIN as f64, invocations >= RUNS_MIN as f64);
    let mut text = format!("{scheduled} in ten minutes");
    if is_scheduled && is_invoked {
        return fine(name, text);
    }
    let cause = if is_scheduled {
        text.push_str(", and Lambda dropped them");
        "Lambda does not run the function, and its work waits: it has no free or no reserved concurrency, or no role"
    } else if is_local {
        // The stack may have started a moment ago, and its --tick may be long.
        "`switchhook dev` runs it once per --tick, so two runs may not have been due yet"
    } else {
        "the schedule does not run: its work waits"
    };
    let level = if is_local { Level::Unknown } else { Level::Act };
    let advice = Advice { text: cause, runbook: Some(alarm.to_owned()), command };
    Evidence { level, advice: Some(advice), ..fine(name, text) }
}

const fn fine(name: &'static str, text: String) -> Evidence {
    Evidence { name, level: Level::Ok, text, error: None, first: Vec::new(), advice: None }
}

/// Makes a line from a value that was read. What could not be read is unknown.
fn line<T>(name: &'static str, read: &Read<T>, make: impl Fn(&T) -> Evidence) -> Evidence {
    match read {
        Ok(value) => make(value),
        Err(reason) => Evidence { error: Some(reason.kind), ..unknown(name, &reason.to_string()) },
    }
}

fn unknown(name: &'static str, reason: &str) -> Evidence {
    Evidence { level: Level::Unknown, ..fine(name, reason.to_owned()) }
}

/// Judges a value. `None` means that there is nothing to judge, which is fine.
fn judged(name: &'static str, threshold: &Threshold, value: Option<f64>, text: String) -> Evidence {
    if value.is_none_or(|value| value <= threshold.limit) {
        return fine(name, text);
    }
    let Threshold { alarm, section, breach, advice, command, limit: _ } = *threshold;
    let advice = Advice { text: advice, runbook: alarm.or(section).map(str::to_owned), command };
    Evidence { level: breach, advice: Some(advice), ..fine(name, text) }
}

/// Values of the last time.
fn last(series: &Series, now: Timestamp, time: Duration) -> Series {
    let from = now.minus(time);
    Series(series.0.iter().filter(|(at, _)| *at >= from).copied().collect())
}

fn number(count: &Count) -> String {
    if count.more { "1,000+".to_owned() } else { count.number.to_string() }
}

fn milliseconds(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.0} ms") } else { format!("{:.1} s", value / 1_000.0) }
}

fn seconds(value: f64) -> i64 {
    (value * 1_000.0) as i64
}

#[cfg(test)]
mod tests;
