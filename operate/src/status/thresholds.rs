//! Limits of the verdicts. They are those of the template's alarms, where there is one: a test compares the two.

use super::Level;

/// Limit of one line of evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Logical id of the alarm in the template, which is also the name of its section in the runbook. `None` if no alarm
    /// watches this.
    pub alarm: Option<&'static str>,
    /// Section of the runbook that helps, if no alarm watches this.
    pub section: Option<&'static str>,
    /// A larger value breaches the limit.
    pub limit: f64,
    /// Level of a line that breaches the limit.
    pub breach: Level,
    /// Advice to the operator.
    pub advice: &'static str,
    /// Command that shows more.
    pub command: &'static str,
}

/// Every threshold, by the name of its line.
pub const THRESHOLDS: [(&str, Threshold); 27] = [
    ("rejected webhooks", REJECTED),
    ("failed secret reads", SECRET_FAILURES),
    ("disabled providers", DISABLED),
    ("answer p99", ANSWER),
    ("received to applied p99", APPLIED),
    ("received to announced p99", ANNOUNCED),
    ("last webhook", SILENCE),
    ("provider circuits", CIRCUITS),
    ("failed runs", RUN_ERRORS),
    ("dials in doubt", DOUBTS),
    ("calls stuck in dialling", STUCK),
    ("failed claims", FAILED_CLAIMS),
    ("events not folded", UNFOLDED),
    ("events queue age", EVENTS_AGE),
    ("dial queue age", DIAL_AGE),
    ("due calls", DUE),
    ("overdue wake-ups", WAKE),
    ("sweep lag", SWEEP),
    ("dead letters", DEAD_LETTERS),
    ("relay gave up", RELAY_FAILURES),
    ("quarantined", QUARANTINED),
    ("retrying", RETRYING),
    ("conflicting bodies", CONFLICTS),
    ("drift", DRIFT),
    ("forgotten dials", DIALLED_BEFORE),
    ("skipped writes", SKIPPED),
    ("refolds given up", REFOLDS_GIVEN_UP),
];

const fn act(alarm: &'static str, limit: f64, advice: &'static str, command: &'static str) -> Threshold {
    Threshold { alarm: Some(alarm), section: None, limit, breach: Level::Act, advice, command }
}

const fn watch(alarm: &'static str, limit: f64, advice: &'static str, command: &'static str) -> Threshold {
    Threshold { alarm: Some(alarm), section: None, limit, breach: Level::Watch, advice, command }
}

/// Threshold that no alarm watches. `section` is the section of the runbook that helps.
const fn unalarmed(section: &'static str, limit: f64, advice: &'static str, command: &'static str) -> Threshold {
    Threshold { alarm: None, section: Some(section), limit, breach: Level::Watch, advice, command }
}

/// Rejected webhooks in the last hour, in percent of all.
pub(super) const REJECTED: Threshold = watch(
    "P2RejectedWebhooksAlarm",
    1.0,
    "a key or a clock is wrong at a provider, or somebody guesses",
    "switchhook providers list",
);
/// Rejected webhooks in the last hour, below which the line is OK. The alarm has the same number for 15 minutes.
pub const REJECTED_MIN: f64 = 5.0;
/// Reads of a secret in the last ten minutes.
pub(super) const SECRET_FAILURES: Threshold = act(
    "P1SecretRefreshFailedAlarm",
    0.0,
    "a secret cannot be read, or has a wrong entry: see which, and store a right one",
    "switchhook providers list",
);
/// Reads of a secret in the last ten minutes.
pub(super) const DISABLED: Threshold = act(
    "P1ProviderDisabledAlarm",
    0.0,
    "webhooks of a provider are answered 503, or its calls are not placed: store a right entry",
    "switchhook providers list",
);
/// Milliseconds.
pub(super) const ANSWER: Threshold = watch(
    "P2LatencyAlarm",
    500.0,
    "webhooks are answered slowly, and providers give up after seconds",
    "switchhook check",
);
/// Milliseconds.
pub(super) const APPLIED: Threshold = unalarmed(
    "P1EventsNotFoldedAlarm",
    60_000.0,
    "events waited for the consumer: see which still wait, and why. After a replay of old events, nothing is wrong",
    "switchhook event list --status queued",
);
/// Milliseconds.
pub(super) const ANNOUNCED: Threshold = unalarmed(
    "P1RelayAgeAlarm",
    60_000.0,
    "domain events were late: the consumer was, or the relay. After a replay of old events, nothing is wrong",
    "switchhook event list --status queued",
);
/// Providers that have sent nothing for longer than in any pause of the last ten days.
pub(super) const SILENCE: Threshold = unalarmed(
    "P2FewWebhooksAlarm",
    0.0,
    "a provider is silent for longer than in any pause of the last ten days: look at its settings for webhooks",
    "switchhook event list --since 24h",
);
/// Providers whose circuit is open.
pub(super) const CIRCUITS: Threshold = watch(
    "P2CircuitOpenAlarm",
    0.0,
    "a provider takes no calls; its calls wait, or go to the next provider that they name",
    "switchhook providers list",
);
/// Dials in doubt in the last hour.
pub(super) const DOUBTS: Threshold = watch(
    "P2DialInDoubtAlarm",
    0.0,
    "the reconciler asks the provider; nothing is dialled again before it knows",
    "switchhook stuck",
);
/// Invocations of the scheduler and the reconciler that failed in the last ten minutes.
pub(super) const RUN_ERRORS: Threshold = watch(
    "P2RunErrorsAlarm",
    0.0,
    "runs panicked, timed out or met an error; the next run does what is left, but calls are late if all fail",
    "switchhook check",
);
/// Calls that were dialling for more than ten minutes when they were counted last.
pub(super) const STUCK: Threshold = watch(
    "P2StuckDialingAlarm",
    0.0,
    "no report says whether anybody answered: see whether webhooks arrive, and which of these calls are not over",
    "switchhook stuck",
);
/// Claims that failed in the last hour.
pub(super) const FAILED_CLAIMS: Threshold = watch(
    "P2DialFailedAlarm",
    0.0,
    "a table or a queue failed while calls were dialled; they recover by themselves, or their dials are in doubt",
    "switchhook stuck",
);
/// Dials of the last day that the calls table had forgotten.
pub(super) const DIALLED_BEFORE: Threshold = watch(
    "P2DialledBeforeAlarm",
    0.0,
    "the calls table lost rows that the inbox knows. Nobody was dialled twice: recover the rows",
    "switchhook verify --since 24h",
);
/// Writes that the relay skipped in the last day.
pub(super) const SKIPPED: Threshold = watch(
    "P2RelaySkippedAlarm",
    0.0,
    "domain events were not published because a row cannot be read: see which, and who wrote it",
    "switchhook republish --call CALL_ID",
);
/// Calls of the last day that were not computed again.
pub(super) const REFOLDS_GIVEN_UP: Threshold = watch(
    "P2RefoldLimitAlarm",
    0.0,
    "calls may differ from their events, because reading these takes too long",
    "switchhook verify CALL_ID",
);
/// Milliseconds since the oldest event arrived that is not known to be folded.
pub(super) const UNFOLDED: Threshold = act(
    "P1EventsNotFoldedAlarm",
    300_000.0,
    "events are not folded, or not fast enough: see which, and why",
    "switchhook event list --status retrying",
);
/// Seconds. SQS leaves out messages that were received more than three times.
pub(super) const EVENTS_AGE: Threshold = unalarmed(
    "P1EventsNotFoldedAlarm",
    300.0,
    "events are not folded fast enough",
    "switchhook event list --status queued",
);
/// Seconds.
pub(super) const DIAL_AGE: Threshold =
    watch("P2DialQueueAgeAlarm", 240.0, "claimed calls are not dialled in time", "switchhook stuck --for 2m");
/// Milliseconds for which the longest due call is overdue.
pub(super) const DUE: Threshold = unalarmed(
    "P2DialUnconfiguredAlarm",
    600_000.0,
    "calls are due and no provider takes them, or the scheduler does not run",
    "switchhook dials",
);
/// Milliseconds for which the longest due wake-up is overdue.
pub(super) const WAKE: Threshold = watch(
    "P2RepairBehindAlarm",
    600_000.0,
    "the reconciler does not keep up, or does not run",
    "switchhook stuck --for 10m",
);
/// Seconds.
pub(super) const SWEEP: Threshold = unalarmed(
    "P1SchedulerNotRunningAlarm, P1ReconcilerNotRunningAlarm",
    900.0,
    "the reconciler's sweep is behind: events that never reached the queue wait",
    "switchhook reconcile",
);
pub(super) const DEAD_LETTERS: Threshold = act(
    "P1DeadLettersAlarm",
    0.0,
    "events or webhooks could not be processed: see why, then redrive events and reprocess or discard webhooks",
    "switchhook dlq list",
);
pub(super) const RELAY_FAILURES: Threshold = act(
    "P1RelayFailuresAlarm",
    0.0,
    "domain events were not published: publish those of the calls again",
    "switchhook republish --failed",
);
pub(super) const QUARANTINED: Threshold = unalarmed(
    "P1DeadLettersAlarm",
    0.0,
    "webhooks could not be read: look at them, then process them again, or see P2CallLimitAlarm if their call is full",
    "switchhook quarantine list",
);
pub(super) const RETRYING: Threshold = unalarmed(
    "P3RetryRateAlarm",
    0.0,
    "events fail and are tried again; they become dead letters if that goes on",
    "switchhook event list --status retrying",
);
pub(super) const CONFLICTS: Threshold = watch(
    "P2ConflictingBodyAlarm",
    0.0,
    "a sender used the id of an event again for other content",
    "switchhook event show EVENT_ID",
);
/// Disagreements found in the last day.
pub(super) const DRIFT: Threshold =
    watch("P2DriftFoundAlarm", 0.0, "calls differed from their providers' reports", "switchhook verify --since 24h");

/// Runs of a schedule in the last ten minutes, below which a schedule does not run. The hourly drift check is one run of the reconciler.
pub const RUNS_MIN: u64 = 2;
/// Functions that run on a schedule, each with the alarm of the schedule and a command that shows more.
pub const SCHEDULES: [(&str, &str, &str); 2] = [
    ("scheduler", "P1SchedulerNotRunningAlarm", "switchhook call list --job PENDING"),
    ("reconciler", "P1ReconcilerNotRunningAlarm", "switchhook reconcile"),
];
