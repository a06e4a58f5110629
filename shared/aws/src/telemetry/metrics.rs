//! The table of all metrics.
//!
//! **A number in a log line is a metric only if this table names it.** Each combination of a metric and the values of
//! its dimensions is a series that CloudWatch charges for, so other numbers are fields of the line alone.

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    Milliseconds,
}

/// One metric of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric, and of the field that holds its value.
    pub name: &'static str,
    /// Function that emits it: a dimension of the metric.
    pub function: &'static str,
    /// Unit, for the documentation. Lines do not name it.
    pub unit: Unit,
    /// True if the metric is also counted with the dimension `provider`. Each provider then has a series of its own.
    pub by_provider: bool,
    /// Meaning, as in the documentation.
    pub meaning: &'static str,
}

const fn count(function: &'static str, name: &'static str, meaning: &'static str) -> Metric {
    Metric { name, function, unit: Unit::Count, by_provider: false, meaning }
}

const fn milliseconds(function: &'static str, name: &'static str, meaning: &'static str) -> Metric {
    Metric { name, function, unit: Unit::Milliseconds, by_provider: false, meaning }
}

impl Metric {
    const fn by_provider(self) -> Self {
        Self { by_provider: true, ..self }
    }
}

/// Every metric. `docs/operate.md` has the same table, and the alarms and the dashboard use these names.
pub const METRICS: &[Metric] = &[
    count("ingress", "received", "Requests to a webhook URL").by_provider(),
    count("ingress", "accepted", "Webhooks stored and queued"),
    count("ingress", "duplicate", "Webhooks that were stored before"),
    count("ingress", "rejected", "Requests refused: the cause tells why").by_provider(),
    count("ingress", "quarantined", "Authentic webhooks that cannot be read"),
    count("ingress", "recorded", "Webhooks stored only, because they change no call"),
    count("ingress", "storage_failure", "Webhooks answered with 500, because storing or queueing failed"),
    count(
        "ingress",
        "edge_disabled",
        "Webhooks answered with 503, because the secret or its entry `edge` cannot be read",
    ),
    count("ingress", "provider_disabled", "Webhooks answered with 503, because their provider is disabled"),
    count("ingress", "conflicting_body", "Webhooks with the id of a stored one and another content"),
    count("ingress", "unsigned", "Webhooks whose sender proved only that it knows a key"),
    count("ingress", "reserved_call_id", "Webhooks that named a call that their sender may not name"),
    count("ingress", "unknown_value", "Webhooks with a value that Switchhook does not know"),
    count("ingress", "question_fallback", "Questions with the fixed answer, because the URL gave none in time"),
    count("ingress", "key_1", "Webhooks that the first of several keys, the newest, verified").by_provider(),
    count("ingress", "key_2", "Webhooks that the second key verified").by_provider(),
    count("ingress", "key_3", "Webhooks that the third key verified").by_provider(),
    count("ingress", "key_4", "Webhooks that the fourth key, or a later one, verified").by_provider(),
    milliseconds("ingress", "answer_ms", "Time to answer a webhook"),
    count("consumer", "received", "Events folded or decided about"),
    count("consumer", "applied", "Events that led to the present state"),
    count("consumer", "parked", "Events that no legal transition reaches yet"),
    count("consumer", "unparked", "Parked events that a later event made legal"),
    count("consumer", "refused", "Events that contradict the state of their call, or have no call"),
    count("consumer", "stale", "Legal events that others had superseded"),
    count("consumer", "duplicate", "Events that their call had already"),
    count("consumer", "quarantined", "Events that their call has no room for"),
    count("consumer", "fold_conflicts", "Lost races: another writer changed the call first"),
    count("consumer", "retried", "Failures to fold an event that is tried again"),
    count("consumer", "dead_lettered", "Messages that failed at their last receive"),
    count("consumer", "backoff_failed", "Batches whose failed messages got no backoff time"),
    count("consumer", "refold_too_long", "Repairs of a call that would read too much"),
    count("consumer", "refold_unreadable", "Repairs of a call that has an event which cannot be read"),
    count("consumer", "number_blocked", "Numbers put on the do-not-call list, as the person asked"),
    count("consumer", "number_unknown", "Such wishes without a number to block"),
    count("consumer", "circuit_open", "Circuits that opened, because the provider dialled nobody"),
    count("consumer", "circuit_closed", "Circuits that closed, because a call was heard of"),
    count("consumer", "health_not_noted", "Failed notes in the health of a provider"),
    count("consumer", "call_booked", "Calls scheduled or resumed, because of a booking"),
    count("consumer", "call_called_off", "Calls called off, because their booking was moved or canceled"),
    count("consumer", "booking_without_call", "Bookings that schedule no call: the cause tells why"),
    milliseconds("consumer", "received_to_applied_ms", "Time from the receipt of an applied event to its fold"),
    count("relay", "relayed", "Batches of the stream that were published"),
    count("relay", "relay_failed", "Batches that the stream delivers again"),
    count("relay", "published", "Domain events published"),
    count("relay", "call_completed", "Attempts announced as completed"),
    count("relay", "call_no_answer", "Attempts announced as not answered"),
    count("relay", "call_busy", "Attempts announced as busy"),
    count("relay", "call_failed", "Attempts announced as failed"),
    count("relay", "call_canceled", "Attempts and waiting calls announced as canceled"),
    count("relay", "call_inconclusive", "Attempts announced as inconclusive"),
    count("relay", "record_skipped", "Records that can never be read"),
    milliseconds(
        "relay",
        "received_to_announced_ms",
        "Time from the receipt of an event to its domain event, the longest of a batch",
    ),
    count("scheduler", "schedule_failed", "Runs and batches with an error"),
    count("scheduler", "claimed", "Calls claimed"),
    count("scheduler", "waiting", "Due calls that no provider takes now"),
    count(
        "scheduler",
        "unconfigured",
        "Providers whose due calls wait, because no provider of the call has a rate in `DialRates`, counted at least every ten minutes",
    ),
    count("scheduler", "providers_unavailable", "Providers whose circuit is open"),
    count("scheduler", "budget_used_up", "Runs that ended because their time was up"),
    count("scheduler", "triggered", "Calls claimed by hand"),
    count("scheduler", "storage_failure", "Manual triggers that failed"),
    milliseconds("scheduler", "due_overdue_ms", "Time since the oldest due time, if a run found a due call"),
    count("dialer", "dialled", "Dials that the provider accepted"),
    count("dialer", "claim_lost", "Claims that were used, had expired or were replaced"),
    count("dialer", "window_closed", "Claims returned, because the calling window is closed"),
    count("dialer", "dial_held", "Claims returned, because an event of the call is not folded"),
    count(
        "dialer",
        "dial_released",
        "Claims returned, because the provider takes no calls, the dialers were late, or a dialer could not read the accounts",
    ),
    count("dialer", "dial_stopped", "Calls ended, because they must not be placed"),
    count("dialer", "dial_withdrawn", "Dials that reached nobody and are tried again"),
    count("dialer", "no_account", "Dials without a request, because the provider has no account that can be read"),
    count("dialer", "dial_rejected", "Dials that the provider will never make"),
    count("dialer", "dial_in_doubt", "Dials of which nobody knows whether they were made"),
    count("dialer", "dialled_before", "Dials refused, because the inbox knows one that the row had forgotten"),
    count("dialer", "record_not_deleted", "Records of dials that were not made and could not be deleted"),
    count("dialer", "dial_failed", "Claims that failed with an error"),
    count("dialer", "circuit_open", "Circuits that opened: the provider gets probes only"),
    count("dialer", "circuit_closed", "Circuits that closed again"),
    count("dialer", "health_not_noted", "Failed notes in the health of a provider"),
    count("dialer", "provider_request_failed", "Dial requests without a usable answer").by_provider(),
    milliseconds(
        "dialer",
        "due_to_request_ms",
        "Time from the due time of a call to its dial request, without calls that were triggered before",
    )
    .by_provider(),
    milliseconds("dialer", "provider_request_ms", "Time of a dial request, with its repetition").by_provider(),
    count("reconciler", "reconcile_failed", "Runs with an error"),
    count(
        "reconciler",
        "shard_worked",
        "Shards with due calls or received events that a worker handled without an error",
    ),
    count("reconciler", "shard_failed", "Messages of the repair queue that a worker handled with an error"),
    count(
        "reconciler",
        "handed_on",
        "Shards with more due calls or received events than one invocation handles, handed to a worker",
    ),
    count("reconciler", "failed", "Calls, index pages and sweeps that failed in a run"),
    count("reconciler", "woken", "Calls that were due"),
    count("reconciler", "timeouts", "Attempts ended by their inactivity timeout"),
    count("reconciler", "doubts", "Dials in doubt that were due for a lookup"),
    count("reconciler", "claims_expired", "Claims whose lease ended without a dial"),
    count("reconciler", "requeued", "Stored events that their call lacked, queued again"),
    count("reconciler", "retried", "Events that wait in the inbox after failures, queued again"),
    count("reconciler", "given_up", "Events that waited in the inbox for hours, and became dead letters"),
    count("reconciler", "not_requeued", "Stored events that cannot be read"),
    count("reconciler", "discovered", "Calls that nobody reported, found in a provider's list"),
    count("reconciler", "not_discovered", "Pages of a provider's list that cannot be read"),
    milliseconds(
        "reconciler",
        "discovery_skipped_ms",
        "Time whose calls discovery left out of a provider's list, because it was more than 20 hours behind or gave a period up",
    ),
    count("reconciler", "discovery_postponed", "Providers' lists that were due and for which no worker had time"),
    count("reconciler", "drift_run_failed", "Drift checks with an error"),
    count("reconciler", "drift_found", "Attempts that their provider reports differently"),
    count("reconciler", "drifted", "Disagreements found by a drift check, rows that differ from their events included"),
    milliseconds(
        "reconciler",
        "drift_skipped_ms",
        "Time whose settled calls a drift check left out, because it was hours behind, summed over the shards and the providers behind. A provider that the accounts do not name does not count",
    ),
    count(
        "reconciler",
        "stuck_dialing",
        "Calls that have been dialling for more than ten minutes, counted every ten minutes, and dials whose ending only a lookup found",
    ),
    count("reconciler", "budget_used_up", "Runs without time or requests for all that was due"),
    count("reconciler", "provider_requests", "Requests to providers: lookups, and pages of their lists of calls")
        .by_provider(),
    count("reconciler", "provider_request_failed", "Requests to providers without a usable answer").by_provider(),
    count("reconciler", "unknown_value", "Calls in providers' answers with a value that Switchhook does not know"),
    milliseconds("reconciler", "provider_request_ms", "Time of a request to a provider, the longest of a run")
        .by_provider(),
    milliseconds("reconciler", "overdue_wake_ms", "Time since the oldest wake-up time, if a run woke a call"),
    milliseconds(
        "reconciler",
        "unfolded_ms",
        "Age of the oldest event that is not known to be folded, if it is more than five minutes",
    ),
    count("api", "created", "Calls created"),
    count("api", "repeated", "Requests that had created their call before"),
    count("api", "canceled", "Calls canceled"),
    count("api", "number_blocked", "Numbers put on the do-not-call list"),
    count("api", "number_unblocked", "Numbers taken off the do-not-call list"),
    count("api", "storage_failure", "Requests that failed, because a table failed"),
    count("secret", "secret_refresh_failed", "Reads of a secret that failed, or that found a wrong entry"),
    count("secret", "provider_disabled", "Providers that a read of a secret disabled: it found no right entry"),
];

/// Returns a metric of a function. `None` if the table does not name it.
pub(super) fn metric(function: &str, name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.function == function && metric.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn metric_of_a_function_is_named_once_and_tells_its_unit() {
        let names: BTreeSet<(&str, &str)> = METRICS.iter().map(|metric| (metric.function, metric.name)).collect();
        assert_eq!(names.len(), METRICS.len());
        for Metric { name, unit, meaning, .. } in METRICS {
            assert_eq!(name.ends_with("_ms"), *unit == Unit::Milliseconds, "{name}");
            assert!(!meaning.is_empty() && !meaning.contains('|'), "{name}");
        }
    }
}
