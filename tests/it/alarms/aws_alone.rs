//! Alarms on metrics that AWS alone produces: throttles of its services, new versions, the edge, posted events, and exports.
//!
//! The local cloud has none of these causes. So the values that AWS would record are recorded by hand, for each series that the
//! alarm must watch, and nothing else of a stack is needed.

use switchhook_local::metrics::{MINUTE_MS, Metrics, SeriesKey, function_name};
use switchhook_local::{CALLS_TABLE, EVENTS_QUEUE, INBOX_TABLE};

use super::WITHOUT_SCHEDULES;
use super::template::alarms;

const HOUR_MS: u64 = 60 * MINUTE_MS;
const FUNCTIONS: [&str; 7] = ["ingress", "consumer", "relay", "scheduler", "dialer", "reconciler", "api"];

/// One alarm, and the metrics that must set it off.
pub(super) struct Case {
    pub alarm: &'static str,
    /// Each series alone must set the alarm off.
    series: fn() -> Vec<SeriesKey>,
    /// Value that AWS records in each minute of trouble, and one that is no trouble.
    values: (f64, f64),
}

pub(super) const CASES: &[Case] = &[
    Case { alarm: "P1RequestsThrottledAlarm", series: requests_throttled, values: (1.0, 0.0) },
    Case { alarm: "P1WebhookUrlErrorRateAlarm", series: webhook_url_errors, values: (2.0, 1.0) },
    Case { alarm: "P1IngressThrottledAlarm", series: ingress_throttles, values: (1.0, 0.0) },
    Case { alarm: "P2ReleaseErrorsAlarm", series: release_errors, values: (1.0, 0.0) },
    Case { alarm: "P3FunctionThrottlesAlarm", series: function_throttles, values: (1.0, 0.0) },
    Case { alarm: "P3TableThrottlesAlarm", series: table_throttles, values: (1.0, 0.0) },
    Case { alarm: "P3IndexReadThrottlesAlarm", series: index_read_throttles, values: (1.0, 0.0) },
    Case { alarm: "P1ForwardDeadLettersAlarm", series: forward_dead_letters, values: (1.0, 0.0) },
    Case { alarm: "P1ForwardEventsLostAlarm", series: forward_events_lost, values: (1.0, 0.0) },
    Case { alarm: "P2ForwardRetriesAlarm", series: forward_retries, values: (1.0, 0.0) },
    Case { alarm: "P1EdgeErrorRateAlarm", series: edge_error_rate, values: (6.0, 5.0) },
    Case { alarm: "P2EdgeRateLimitAlarm", series: edge_rate_limit, values: (1.0, 0.0) },
    Case { alarm: "P3InboxExportAlarm", series: inbox_export, values: (1.0, 0.0) },
];

/// A filter of the gateway's access log counts the requests that were answered 429.
fn requests_throttled() -> Vec<SeriesKey> {
    vec![SeriesKey::new("Switchhook/local", "throttled", &[])]
}

fn webhook_url_errors() -> Vec<SeriesKey> {
    vec![of_function("Url5xxCount", "ingress")]
}

fn ingress_throttles() -> Vec<SeriesKey> {
    vec![of_function("Throttles", "ingress")]
}

fn of_function(metric: &str, function: &str) -> SeriesKey {
    SeriesKey::new("AWS/Lambda", metric, &[("FunctionName", &function_name(function))])
}

fn release_errors() -> Vec<SeriesKey> {
    let of = |function: &&str| {
        let (name, alias) = (function_name(function), format!("{}:live", function_name(function)));
        let dimensions = [("FunctionName", name.as_str()), ("Resource", &alias), ("ExecutedVersion", &name)];
        SeriesKey::new("AWS/Lambda", "Errors", &dimensions)
    };
    FUNCTIONS.iter().map(of).collect()
}

/// Without those of ingress, which have an alarm of their own too.
fn function_throttles() -> Vec<SeriesKey> {
    let others = FUNCTIONS.iter().filter(|function| **function != "ingress");
    others.map(|function| of_function("Throttles", function)).collect()
}

fn table_throttles() -> Vec<SeriesKey> {
    let mut series = index_throttles("WriteThrottleEvents");
    for table in [INBOX_TABLE, CALLS_TABLE] {
        for metric in ["ReadThrottleEvents", "WriteThrottleEvents"] {
            series.push(SeriesKey::new("AWS/DynamoDB", metric, &[("TableName", table)]));
        }
    }
    series
}

fn index_read_throttles() -> Vec<SeriesKey> {
    index_throttles("ReadThrottleEvents")
}

fn index_throttles(metric: &str) -> Vec<SeriesKey> {
    let of = |(table, index): (&str, &str)| {
        SeriesKey::new("AWS/DynamoDB", metric, &[("TableName", table), ("GlobalSecondaryIndexName", index)])
    };
    let indexes = [
        (INBOX_TABLE, "by_received"),
        (INBOX_TABLE, "by_attention"),
        (CALLS_TABLE, "by_wake"),
        (CALLS_TABLE, "by_appointment"),
        (CALLS_TABLE, "by_party"),
    ];
    indexes.into_iter().map(of).collect()
}

fn forward_dead_letters() -> Vec<SeriesKey> {
    vec![SeriesKey::new("AWS/SQS", "ApproximateNumberOfMessagesVisible", &[("QueueName", "forward-dlq")])]
}

fn forward_events_lost() -> Vec<SeriesKey> {
    vec![forward_rule("InvocationsFailedToBeSentToDlq")]
}

fn forward_retries() -> Vec<SeriesKey> {
    vec![forward_rule("RetryInvocationAttempts")]
}

fn forward_rule(metric: &str) -> SeriesKey {
    SeriesKey::new("AWS/Events", metric, &[("EventBusName", "bus"), ("RuleName", "local-forward")])
}

fn edge_error_rate() -> Vec<SeriesKey> {
    vec![SeriesKey::new("AWS/CloudFront", "5xxErrorRate", &[("DistributionId", "distribution"), ("Region", "Global")])]
}

fn edge_rate_limit() -> Vec<SeriesKey> {
    vec![SeriesKey::new("AWS/WAFV2", "BlockedRequests", &[("WebACL", "local"), ("Rule", "rate-per-address")])]
}

fn inbox_export() -> Vec<SeriesKey> {
    vec![SeriesKey::new("AWS/Scheduler", "TargetErrorCount", &[("ScheduleGroup", "exports")])]
}

/// Names of the alarms that fire in six hours. The series has this value in each minute of the third hour. The URL of ingress gets
/// a hundred requests a minute meanwhile, because one of the alarms is a share of them.
fn fired(series: &SeriesKey, value: f64) -> Vec<String> {
    fired_in(60, series, value)
}

/// The same if this lasts for so many minutes.
fn fired_in(minutes: u64, series: &SeriesKey, value: f64) -> Vec<String> {
    let metrics = Metrics::default();
    for minute in 0..minutes {
        let at = 2 * HOUR_MS + minute * MINUTE_MS;
        metrics.record(of_function("UrlRequestCount", "ingress"), 100.0, at);
        metrics.record(series.clone(), value, at);
    }
    let fires = |alarm: &switchhook_local::metrics::Alarm| {
        !alarm.times_in_alarm(&metrics, 0, 6 * HOUR_MS).unwrap_or_else(|error| panic!("{error}")).is_empty()
    };
    alarms().into_iter().filter(|(_, alarm)| fires(alarm)).map(|(name, _)| name).collect()
}

#[test]
fn metric_of_aws_sets_off_its_alarm_and_no_other() {
    for Case { alarm, series, values: (trouble, _) } in CASES {
        for series in series() {
            let mut fired = fired(&series, *trouble);
            if *alarm == "P1IngressThrottledAlarm" {
                assert_eq!(fired.pop().as_deref(), Some("P3FunctionThrottlesAlarm"), "ingress is a function too");
            }
            assert_eq!(fired, [*alarm], "{series:?}");
        }
    }
}

#[test]
fn value_that_is_no_trouble_sets_off_no_alarm() {
    for Case { series, values: (_, usual), .. } in CASES {
        for series in series() {
            assert_eq!(fired(&series, *usual), Vec::<String>::new(), "{series:?}");
        }
    }
}

/// At night few webhooks come. One that fails and succeeds at its repetition wakes nobody, and two failures do.
#[test]
fn single_failure_at_night_sets_off_no_alarm() {
    let failures = |at: &[u64]| {
        let metrics = Metrics::default();
        for minute in 0..60 {
            metrics.record(of_function("UrlRequestCount", "ingress"), 1.0, 2 * HOUR_MS + minute * MINUTE_MS);
        }
        for minute in at {
            metrics.record(of_function("Url5xxCount", "ingress"), 1.0, 2 * HOUR_MS + minute * MINUTE_MS);
        }
        let (_, alarm) = alarms().into_iter().find(|(name, _)| name == "P1WebhookUrlErrorRateAlarm").unwrap();
        alarm.times_in_alarm(&metrics, 0, 6 * HOUR_MS).unwrap_or_else(|error| panic!("{error}")).len()
    };
    assert_eq!([failures(&[21]), failures(&[21, 31]), failures(&[21, 22])], [0, 0, 1]);
}

/// Many calls may end at once. Senders that do not repeat a refused webhook lose it.
#[test]
fn one_minute_of_refused_webhooks_sets_off_its_alarm() {
    let by_the_api = SeriesKey::new("Switchhook/local", "throttled", &[]);
    let by_the_url = of_function("Throttles", "ingress");
    for (series, alarm) in [(by_the_api, "P1RequestsThrottledAlarm"), (by_the_url, "P1IngressThrottledAlarm")] {
        assert_eq!(fired_in(1, &series, 4_000.0), [alarm]);
        assert_eq!(fired_in(1, &series, 2.0), [alarm]);
        assert_eq!(fired_in(1, &series, 1.0), Vec::<String>::new(), "a single one wakes nobody");
    }
}

/// Schedules that run, and whose functions crash at their start. Lambda counts such a run as an invocation too.
#[test]
fn runs_that_all_fail_set_off_the_alarms_of_the_schedules_and_a_few_failures_do_not() {
    // Minutes from the start, in periods of five. A queue also invokes the functions so many times a minute, and these runs end well.
    let times_with_queue = |name: &str, by_queue: usize, fails: fn(u64) -> bool| {
        let metrics = Metrics::default();
        for minute in 0..60 {
            let at_ms = minute * MINUTE_MS;
            let waiting =
                SeriesKey::new("AWS/SQS", "ApproximateNumberOfMessagesVisible", &[("QueueName", EVENTS_QUEUE)]);
            metrics.record(waiting, 0.0, at_ms);
            for function in ["scheduler", "reconciler"] {
                metrics.record_scheduled_event(function, at_ms);
                metrics.record_invocation(function, 5, fails(minute), at_ms);
                if fails(minute) {
                    metrics.record_dropped_event(function, at_ms);
                }
                for _ in 0..by_queue {
                    metrics.record_invocation(function, 5, false, at_ms);
                }
            }
        }
        let times = alarms()[name].times_in_alarm(&metrics, 0, 60 * MINUTE_MS);
        times.unwrap_or_else(|error| panic!("{error}")).into_iter().map(|at| at / MINUTE_MS).collect::<Vec<_>>()
    };
    let times_in_alarm = |name: &str, fails: fn(u64) -> bool| times_with_queue(name, 0, fails);
    for name in WITHOUT_SCHEDULES {
        // The queue hides no failed run.
        assert_eq!(times_with_queue(name, 1, |minute| minute >= 30), [40, 45, 50, 55, 60], "{name}");
        assert_eq!(times_in_alarm(name, |minute| (30..40).contains(&minute)), [40], "{name}");
        // One run of five ends without an error.
        assert_eq!(times_in_alarm(name, |minute| minute >= 30 && minute % 5 != 0), [40, 45, 50, 55, 60], "{name}");
        // Five minutes, three runs of five, and none.
        let few: [fn(u64) -> bool; 3] = [|minute| (30..35).contains(&minute), |minute| minute % 5 < 3, |_| false];
        for fails in few {
            assert_eq!(times_in_alarm(name, fails), [0; 0], "{name}");
        }
    }
}
