//! The alarms of the templates. Each one's cause is provoked in the local cloud, and the alarm's own expression is evaluated
//! over the metrics of that run. If only AWS can produce the cause, the test records the metric that AWS would have.

#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod aws_alone;
mod not_folded;
mod picture;
mod provoked;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::connector::Service;
use switchhook_local::metrics::{MINUTE_MS, Metrics, SeriesKey};
use switchhook_local::{CALLS_TABLE, CloudOptions, DIAL_QUEUE, DUE_QUEUE, EVENTS_QUEUE};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, all_providers, down, generic, is_request_to, options};

use crate::outbound::{HOUR, call_request, create};
use crate::traffic::retell_call;
use template::alarms;

/// Alarms of a stack whose schedules are gone.
const WITHOUT_SCHEDULES: [&str; 2] = ["P1ReconcilerNotRunningAlarm", "P1SchedulerNotRunningAlarm"];

/// Times at which each alarm was in the state ALARM, from the start of a run until now. Alarms that never were are left out.
fn fired(world: &World, start: Timestamp) -> BTreeMap<String, Vec<u64>> {
    let metrics = world.cloud.metrics();
    for line in world.log_text().lines() {
        metrics.record_line(line);
    }
    let ms = |at: Timestamp| u64::try_from(at.as_millis()).unwrap();
    let times = alarms().into_iter().map(|(name, alarm)| {
        let times = alarm.times_in_alarm(metrics, ms(start), ms(world.now()));
        (name, times.unwrap_or_else(|error| panic!("{error}")))
    });
    times.filter(|(_, times)| !times.is_empty()).collect()
}

/// Posts the webhooks of one ordinary call.
async fn ordinary_call(world: &World, number: u64) {
    for webhook in retell_call(number, 4, 1) {
        world.post_signed(webhook.provider, switchhook_tests::KEY, &webhook.query, webhook.body.as_bytes()).await;
        world.quiesce().await;
    }
}

#[tokio::test(start_paused = true)]
async fn healthy_stack_fires_no_alarm() {
    let world = World::new();
    let start = world.now();
    for number in 0..50 {
        ordinary_call(&world, number).await;
        if number % 5 == 0 {
            create(&world, &call_request("confirms")).await;
        }
        // One duplicate in a while is usual.
        if number % 10 == 0 {
            let webhook = &retell_call(number, 4, 1)[0];
            world.post_signed(webhook.provider, switchhook_tests::KEY, &webhook.query, webhook.body.as_bytes()).await;
        }
        world.wait(MINUTE * 6).await;
    }
    assert_eq!(fired(&world, start), BTreeMap::new());
}

/// CloudWatch evaluates a new alarm over periods before the stack existed, which have no data.
#[tokio::test(start_paused = true)]
async fn new_stack_and_one_that_nobody_uses_fire_no_alarm() {
    let world = World::new();
    let long_before = world.now().minus(HOUR * 24);
    // The longest alarm looks at three hours, and the band of another one needs as many.
    world.wait(HOUR * 5).await;
    assert_eq!(fired(&world, long_before), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn stack_without_schedules_fires_their_alarms() {
    let mut world = World::with_options(CloudOptions { tick: HOUR * 24, ..options(&all_providers()) });
    world.start();
    let start = world.now();
    world.wait(HOUR * 5).await;
    assert_eq!(fired(&world, start).into_keys().collect::<Vec<_>>(), WITHOUT_SCHEDULES);
}

/// The stream and the queue of due calls invoke the scheduler too, and the drift check has a schedule of its own.
#[tokio::test(start_paused = true)]
async fn stack_that_dials_without_schedules_fires_their_alarms() {
    let mut world = World::with_options(CloudOptions { tick: HOUR * 24, ..options(&all_providers()) });
    world.start();
    let start = world.now();
    for number in 0..30 {
        create(&world, &call_request("confirms")).await;
        if number == 15 {
            world.cloud.check_drift().await.unwrap().unwrap();
        }
        world.wait(MINUTE * 4).await;
    }
    assert!(!world.cloud.fake().dials().is_empty());
    let fired = fired(&world, start);
    for alarm in WITHOUT_SCHEDULES {
        // From the end of the first ten minutes on, the alarm is on for every five minutes of the two hours.
        assert_eq!(fired[alarm].len(), 23, "{alarm} {fired:?}");
    }
}

/// The rows of two calls are damaged. The runs of the schedules find them in every minute, and do everything else.
#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_read_set_off_no_alarm_of_the_schedules() {
    let world = World::new();
    let start = world.now();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:30:00Z");
    let due = create(&world, &request).await;
    generic_event(&world, "c1", "e1", "RINGING").await;
    world.wait(MINUTE).await;
    for call_id in [due.as_str(), "c1"] {
        let mut row = world.item(CALLS_TABLE, call_id).await;
        row.insert("version".to_owned(), AttributeValue::S("damaged".to_owned()));
        world.put_item(CALLS_TABLE, row).await;
    }
    world.wait(INACTIVITY_TIMEOUT + HOUR).await;
    for action in ["schedule_failed", "reconcile_failed"] {
        assert!(world.logged(action).len() > 30, "{action}");
    }
    let in_alarm = fired(&world, start);
    assert!(in_alarm.contains_key("P2RunErrorsAlarm"), "{in_alarm:?}");
    assert!(WITHOUT_SCHEDULES.iter().all(|alarm| !in_alarm.contains_key(*alarm)), "{in_alarm:?}");

    // Now every run of the scheduler meets another error too: in one minute, it cannot have a call delivered when it will be due. In the next, it
    // cannot queue the claim.
    let start = world.now();
    for number in 0..15 {
        request["due_at"] = json!(start.plus(MINUTE * 2 * number + MINUTE / 2).to_string());
        create(&world, &request).await;
    }
    world.set_fault_hook(|call| {
        let is_send = call.service == Service::Sqs && call.operation.starts_with("SendMessage");
        (is_send && [DIAL_QUEUE, DUE_QUEUE].iter().any(|queue| is_request_to(call, queue))).then(down)
    });
    world.wait(MINUTE * 30).await;
    let in_alarm = fired(&world, start);
    assert!(in_alarm.contains_key("P1SchedulerNotRunningAlarm"), "{in_alarm:?}");
    assert!(!world.logged("batch_failed").is_empty(), "expired claims wake the scheduler");
}

/// The functions of the schedules, whose runs Lambda receives and does not invoke.
#[test]
fn runs_that_lambda_drops_set_off_the_alarms_of_the_schedules() {
    let metrics = Metrics::default();
    for minute in 0..60 {
        let at_ms = minute * MINUTE_MS;
        let waiting = SeriesKey::new("AWS/SQS", "ApproximateNumberOfMessagesVisible", &[("QueueName", EVENTS_QUEUE)]);
        metrics.record(waiting, 0.0, at_ms);
        for function in ["scheduler", "reconciler"] {
            metrics.record_scheduled_event(function, at_ms);
            // The first half of the hour is healthy.
            if minute < 30 {
                metrics.record_invocation(function, 5, false, at_ms);
            } else {
                metrics.record_dropped_event(function, at_ms);
            }
        }
    }
    let alarms = alarms();
    for name in WITHOUT_SCHEDULES {
        let times = alarms[name].times_in_alarm(&metrics, 0, 60 * MINUTE_MS).unwrap();
        // Two periods of five minutes without an invocation.
        assert_eq!(times.first(), Some(&(40 * MINUTE_MS)), "{name} {times:?}");
        assert_eq!(times.len(), 5, "{name} {times:?}");
    }
}

/// AWS starts a run up to a minute late. So no run may start in a minute in which calls are counted.
#[test]
fn skipped_count_ends_no_alarm() {
    let counted = [
        ("P2StuckDialingAlarm", "stuck_dialing", "reconciler"),
        ("P2DialUnconfiguredAlarm", "unconfigured", "scheduler"),
    ];
    let alarms = alarms();
    for (name, metric, function) in counted {
        let metrics = Metrics::default();
        let series = SeriesKey::new("Switchhook", metric, &[("stack", "local"), ("function", function)]);
        // The count of minute 70 is skipped.
        for minute in [60, 80, 90] {
            metrics.record(series.clone(), 1.0, minute * MINUTE_MS);
        }
        let times = alarms[name].times_in_alarm(&metrics, 0, 180 * MINUTE_MS).unwrap();
        let minutes: Vec<u64> = times.into_iter().map(|at| at / MINUTE_MS).collect();
        assert_eq!(minutes, [70, 80, 90, 100, 110, 120], "{name}");
    }
}

#[test]
fn every_alarm_is_provoked_once() {
    let aws_alone: Vec<&str> = aws_alone::CASES.iter().map(|case| case.alarm).collect();
    let listed = [provoked::ALARMS, &WITHOUT_SCHEDULES, &aws_alone].concat();
    let provoked: BTreeSet<String> = listed.iter().copied().map(str::to_owned).collect();
    assert_eq!(provoked, alarms().into_keys().collect());
    assert_eq!(provoked.len(), listed.len());
}

/// Posts an event of a generic sender, and expects it to be accepted.
async fn generic_event(world: &World, call_id: &str, event_id: &str, event_type: &str) {
    world.accept(Provider::Generic, &generic(call_id, event_id, event_type, 1)).await;
}
