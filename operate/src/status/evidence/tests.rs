use std::collections::BTreeMap;

use switchhook_domain::{Provider, ProviderHealth};

use super::*;
use crate::aws::MetricQuery;
use crate::error::{ErrorKind, Explanation};
use crate::stack::StackNames;
use crate::status::sources::{MINUTE, queries};
use crate::status::{Question, Subject};

const NOW: Timestamp = Timestamp::from_millis(1_760_961_600_000);

fn ago(seconds: u64) -> Timestamp {
    NOW.minus(Duration::from_secs(seconds))
}

fn series(values: &[(u64, f64)]) -> Series {
    Series(values.iter().map(|(seconds, value)| (ago(*seconds), *value)).collect())
}

/// Sources of a stack in which everything is fine.
fn fine() -> Sources {
    let metrics = Metrics {
        received: series(&[(60, 100.0)]),
        providers: Provider::ALL.into(),
        answer: series(&[(60, 38.0)]),
        scheduler_runs: runs(5.0, 5.0),
        reconciler_runs: runs(5.0, 5.0),
        ..Metrics::default()
    };
    Sources {
        is_local: false,
        alarms: Some(Ok(vec![alarm("P1-dead-letters", AlarmState::Ok), alarm("P2-latency", AlarmState::Ok)])),
        metrics: Ok(metrics),
        events_queue: Ok(0),
        dial_queue: Ok(0),
        due_queue: Ok(0),
        dead_letters: Ok(0),
        relay_failures: Ok(0),
        due: Ok(Overdue::default()),
        wake: Ok(Overdue::default()),
        swept: Ok(Some(ago(120))),
        health: Ok(Provider::ALL.map(ProviderHealth::new).to_vec()),
        quarantined: Ok(Count::default()),
        dead_lettered: Ok(Count::default()),
        retrying: Ok(Count::default()),
        conflicts: Ok(Count::default()),
    }
}

/// Runs of the last minute: those that a schedule asked for, and all invocations.
fn runs(scheduled: f64, invocations: f64) -> Runs {
    Runs {
        scheduled: series(&[(60, scheduled)]),
        invocations: series(&[(60, invocations)]),
        errors: series(&[(60, 0.0)]),
    }
}

fn alarm(name: &str, state: AlarmState) -> Alarm {
    Alarm { name: format!("switchhook-{name}"), state, reason: String::new() }
}

/// Answers to the three questions.
fn answers(sources: &Sources) -> [Level; 3] {
    [healthy(sources, NOW), backlog(sources, NOW), poison(sources)].map(|lines| Question::new("", lines).answer)
}

/// The line of this name.
fn evidence(sources: &Sources, name: &str) -> Evidence {
    let all = [healthy(sources, NOW), backlog(sources, NOW), poison(sources)].concat();
    all.into_iter().find(|line| line.name == name).unwrap()
}

#[test]
fn all_answers_are_ok_if_nothing_is_wrong() {
    assert_eq!(answers(&fine()), [Level::Ok; 3]);
}

#[test]
fn what_cannot_be_read_is_unknown_and_hides_nothing_else() {
    let denied = || Explanation {
        kind: ErrorKind::Denied,
        text: "not authorized".to_owned(),
        request: None,
        resource: None,
        remedy: None,
    };
    let unread = Sources {
        alarms: Some(Err(denied())),
        metrics: Err(denied()),
        due: Err(denied()),
        dead_letters: Err(denied()),
        ..fine()
    };
    assert_eq!(answers(&unread), [Level::Unknown; 3]);
    let due = evidence(&unread, "due calls");
    assert_eq!((due.text.as_str(), due.error), ("not authorized", Some(ErrorKind::Denied)));
    assert_eq!(evidence(&unread, "quarantined").level, Level::Ok);
    let poisoned = Sources { relay_failures: Ok(1), ..unread };
    assert_eq!(answers(&poisoned)[2], Level::Act, "a known failure is worse than an unknown one");
    let unlisted = |depth| Sources { dead_letters: Ok(depth), dead_lettered: Err(denied()), ..fine() };
    let level = |depth| evidence(&unlisted(depth), "dead letters").level;
    assert_eq!([0, 1].map(level), [Level::Unknown, Level::Act]);
    assert_eq!(answers(&Sources { alarms: Some(Ok(Vec::new())), ..fine() })[0], Level::Unknown);
}

#[test]
fn severity_of_the_worst_alarm_decides() {
    let with = |alarms: Vec<Alarm>| Sources { alarms: Some(Ok(alarms)), ..fine() };
    let low = with(vec![alarm("P2-latency", AlarmState::Alarm), alarm("P1-dead-letters", AlarmState::Ok)]);
    assert_eq!(answers(&low)[0], Level::Watch);
    let high = with(vec![
        alarm("P2-latency", AlarmState::Alarm),
        alarm("P1-dead-letters", AlarmState::Alarm),
        alarm("P3-duplicates", AlarmState::InsufficientData),
    ]);
    let line = evidence(&high, "alarms");
    assert_eq!((line.level, line.text.as_str()), (Level::Act, "2 of 3: P1-dead-letters, P2-latency, 1 without data"));
    assert_eq!(line.advice.unwrap().runbook.as_deref(), Some("P1DeadLettersAlarm"));
}

#[test]
fn each_limit_is_breached_above_it_and_not_at_it() {
    let metrics = |change: fn(&mut Metrics)| {
        let mut sources = fine();
        change(sources.metrics.as_mut().unwrap());
        sources
    };
    for (sources, name, level) in [
        (metrics(|metrics| metrics.rejected = series(&[(60, 4.0)])), "rejected webhooks", Level::Ok),
        (metrics(|metrics| metrics.rejected = series(&[(60, 5.0)])), "rejected webhooks", Level::Watch),
        (
            metrics(|metrics| {
                metrics.received = series(&[(60, 500.0)]);
                metrics.rejected = series(&[(60, 5.0)]);
            }),
            "rejected webhooks",
            Level::Ok,
        ),
        (metrics(|metrics| metrics.secret_failures = series(&[(500, 1.0)])), "failed secret reads", Level::Act),
        (metrics(|metrics| metrics.secret_failures = series(&[(700, 1.0)])), "failed secret reads", Level::Ok),
        (metrics(|metrics| metrics.disabled = series(&[(60, 1.0)])), "disabled providers", Level::Act),
        (metrics(|metrics| metrics.answer = series(&[(60, 500.0)])), "answer p99", Level::Ok),
        (metrics(|metrics| metrics.answer = series(&[(60, 501.0)])), "answer p99", Level::Watch),
        (metrics(|metrics| metrics.answer = series(&[(7_200, 900.0)])), "answer p99", Level::Ok),
        (metrics(|metrics| metrics.drifted = series(&[(80_000, 1.0)])), "drift", Level::Watch),
        (metrics(|metrics| metrics.doubts = series(&[(60, 1.0)])), "dials in doubt", Level::Watch),
        (metrics(|metrics| metrics.unfolded = series(&[(60, 301_000.0)])), "events not folded", Level::Act),
        (metrics(|metrics| metrics.unfolded = series(&[(600, 301_000.0)])), "events not folded", Level::Ok),
        (metrics(|metrics| metrics.scheduler_runs = Runs::default()), "scheduler runs", Level::Act),
        // Its queue and its stream invoke it.
        (metrics(|metrics| metrics.scheduler_runs = runs(0.0, 99.0)), "scheduler runs", Level::Act),
        // Lambda drops what the schedule asks for.
        (metrics(|metrics| metrics.scheduler_runs = runs(5.0, 0.0)), "scheduler runs", Level::Act),
        (metrics(|metrics| metrics.reconciler_runs.errors = series(&[(60, 1.0)])), "failed runs", Level::Watch),
        (metrics(|metrics| metrics.scheduler_runs.errors = series(&[(700, 1.0)])), "failed runs", Level::Ok),
        (metrics(|metrics| metrics.stuck = series(&[(600, 1.0)])), "calls stuck in dialling", Level::Watch),
        (metrics(|metrics| metrics.stuck = series(&[(800, 1.0), (200, 0.0)])), "calls stuck in dialling", Level::Ok),
        (metrics(|metrics| metrics.failed_claims = series(&[(60, 1.0)])), "failed claims", Level::Watch),
        (metrics(|metrics| metrics.dialled_before = series(&[(80_000, 1.0)])), "forgotten dials", Level::Watch),
        (metrics(|metrics| metrics.skipped = series(&[(80_000, 1.0)])), "skipped writes", Level::Watch),
        (metrics(|metrics| metrics.refolds_given_up = series(&[(80_000, 1.0)])), "refolds given up", Level::Watch),
        (Sources { swept: Ok(Some(ago(901))), ..fine() }, "sweep lag", Level::Watch),
        (Sources { swept: Ok(None), ..fine() }, "sweep lag", Level::Unknown),
        (Sources { dead_letters: Ok(1), ..fine() }, "dead letters", Level::Act),
        // Its message is gone, and it holds its call.
        (Sources { dead_lettered: Ok(Count { number: 1, ..Count::default() }), ..fine() }, "dead letters", Level::Act),
        (Sources { relay_failures: Ok(1), ..fine() }, "relay gave up", Level::Act),
        (Sources { quarantined: Ok(Count { number: 1, ..Count::default() }), ..fine() }, "quarantined", Level::Watch),
    ] {
        assert_eq!(evidence(&sources, name).level, level, "{name}: {}", evidence(&sources, name).text);
    }
}

/// Metrics of the last ten minutes: those of Lambda, and those of the secrets.
fn of_last_ten_minutes() -> Vec<MetricQuery> {
    let names = StackNames {
        stack: "switchhook".to_owned(),
        region: "eu-west-1".to_owned(),
        scheduler_function: "switchhook-scheduler:live".to_owned(),
        reconciler_function: "switchhook-reconciler:live".to_owned(),
        ..StackNames::default()
    };
    let of_secret = ("function".to_owned(), "secret".to_owned());
    let is_one = |query: &MetricQuery| query.namespace == "AWS/Lambda" || query.dimensions.contains(&of_secret);
    queries(&names).into_iter().filter(is_one).collect()
}

/// CloudWatch adds up by whole periods, and shows a value up to four minutes later.
#[test]
fn last_ten_minutes_are_judged_alike_at_every_second() {
    let periods: Vec<u32> = of_last_ten_minutes().iter().map(|query| query.period).collect();
    assert_eq!(periods, [MINUTE; 8]);
    let period = i64::from(MINUTE) * 1_000;
    for offset in 0..300 {
        let now = NOW.plus(Duration::from_secs(offset));
        // Values of something that happens once in this time, and is shown late.
        let every = |seconds: u64| {
            let mut values = BTreeMap::<i64, f64>::new();
            for at in (1..10).map(|n| now.minus(Duration::from_secs(239 + n * seconds)).as_millis()) {
                *values.entry(at - at.rem_euclid(period)).or_default() += 1.0;
            }
            Series(values.into_iter().rev().map(|(at, value)| (Timestamp::from_millis(at), value)).collect())
        };
        let mut sources = fine();
        let metrics = sources.metrics.as_mut().unwrap();
        metrics.scheduler_runs = Runs { scheduled: every(60), invocations: every(60), errors: Series::default() };
        metrics.disabled = every(300);
        let lines = healthy(&sources, now);
        let level = |name: &str| lines.iter().find(|line| line.name == name).map(|line| line.level);
        let levels = (level("scheduler runs"), level("disabled providers"));
        assert_eq!(levels, (Some(Level::Ok), Some(Level::Act)), "{offset} s after the start of a period");
    }
}

#[test]
fn provider_whose_webhooks_no_key_verifies_is_named_however_many_others_send() {
    let at = |provider: Provider, value: f64| {
        let of = |other| if other == provider { series(&[(60, value)]) } else { Series::default() };
        Provider::ALL.map(of).to_vec()
    };
    let sources = |bad_signature: f64| {
        let mut sources = fine();
        let metrics = sources.metrics.as_mut().unwrap();
        metrics.received = series(&[(60, 1_000.0)]);
        metrics.rejected = series(&[(60, 6.0)]);
        metrics.by_provider = at(Provider::Retell, 6.0);
        let bad_signature = series(&[(60, bad_signature)]);
        metrics.rejections = Some(Rejections { by_provider: at(Provider::Retell, 6.0), bad_signature });
        sources
    };
    let line = evidence(&sources(6.0), "rejected webhooks");
    let text = "6 of 1000 in the last hour, 0.6 %; retell: none of 6 accepted; verified by no key: 6";
    assert_eq!((line.level, line.text.as_str()), (Level::Watch, text));
    // Somebody probes the address of a provider that the stack does not have.
    assert_eq!(evidence(&sources(0.0), "rejected webhooks").level, Level::Ok);
}

#[test]
fn late_events_lead_to_the_queue_in_which_they_waited() {
    let mut sources = fine();
    sources.metrics.as_mut().unwrap().applied = series(&[(60, 61_000.0)]);
    let advice = evidence(&sources, "received to applied p99").advice.unwrap();
    assert_eq!(advice.runbook.as_deref(), Some("P1EventsNotFoldedAlarm"));
    assert_eq!(advice.command, "switchhook event list --status queued");
}

/// The list of stuck calls is of now, and may be empty meanwhile.
#[test]
fn number_of_stuck_calls_is_that_of_the_last_count() {
    let mut sources = fine();
    assert_eq!(evidence(&sources, "calls stuck in dialling").text, "not counted in the last half hour");
    sources.metrics.as_mut().unwrap().stuck = series(&[(600, 1.0)]);
    assert_eq!(evidence(&sources, "calls stuck in dialling").text, "1 at the last count, every ten minutes");
}

#[test]
fn age_of_a_queue_counts_only_while_it_holds_messages() {
    let mut sources = fine();
    sources.metrics.as_mut().unwrap().events_age = series(&[(60, 400.0)]);
    assert_eq!(evidence(&sources, "events queue age").level, Level::Ok, "the queue is empty again");
    sources.events_queue = Ok(212);
    let line = evidence(&sources, "events queue age");
    assert_eq!((line.level, line.text.as_str()), (Level::Watch, "212 waiting, oldest 6 min"));
}

#[test]
fn counts_stop_and_name_the_first() {
    let many = Count {
        number: 1_000,
        more: true,
        first: ["call-1", "call-2"].map(|id| Subject::Call(id.to_owned())).to_vec(),
    };
    let due = Overdue { count: many.clone(), oldest: Some(ago(700)) };
    let sources = Sources { due: Ok(due), dead_letters: Ok(2), dead_lettered: Ok(many), ..fine() };
    let line = evidence(&sources, "due calls");
    assert_eq!((line.level, line.text.as_str()), (Level::Watch, "1,000+, longest overdue by 11 min"));
    let line = evidence(&sources, "dead letters");
    assert_eq!((line.text.as_str(), line.first.len()), ("1,000+ listed, 2 in the queue", 2));
}

#[test]
fn local_stack_has_no_alarms_and_may_have_started_just_now() {
    let mut sources = Sources { is_local: true, alarms: None, ..fine() };
    assert_eq!(answers(&sources), [Level::Ok; 3]);
    sources.metrics.as_mut().unwrap().reconciler_runs = Runs::default();
    let line = evidence(&sources, "reconciler runs");
    let advice = line.advice.unwrap();
    assert_eq!(line.level, Level::Unknown);
    assert!(advice.text.ends_with("two runs may not have been due yet"), "{advice:?}");
}
