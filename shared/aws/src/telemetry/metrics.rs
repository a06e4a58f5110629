//! The table of all metrics.
//!
//! **A number in a log line is a metric only if this table names it.** Each combination of a metric and the values of
//! its dimensions is a series that CloudWatch charges for, so other numbers are fields of the line alone.

/// One metric of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric, and of the field that holds its value. The name of a duration in milliseconds ends in `_ms`.
    pub name: &'static str,
    /// Function that emits it: a dimension of the metric.
    pub function: &'static str,
    /// True if the metric is also counted with the dimension `provider`. Each provider then has a series of its own.
    pub by_provider: bool,
}

impl Metric {
    const fn new(function: &'static str, name: &'static str) -> Self {
        Self { name, function, by_provider: false }
    }

    const fn by_provider(self) -> Self {
        Self { by_provider: true, ..self }
    }

    /// True if the values are durations in milliseconds. Those of other metrics are counts.
    #[must_use]
    pub fn is_duration(&self) -> bool {
        self.name.ends_with("_ms")
    }
}

/// Every metric. `docs/operate.md` has their meanings in the same order, and the alarms and the dashboard use these names.
pub const METRICS: &[Metric] = &[
    Metric::new("ingress", "received").by_provider(),
    Metric::new("ingress", "accepted"),
    Metric::new("ingress", "duplicate"),
    Metric::new("ingress", "rejected").by_provider(),
    Metric::new("ingress", "quarantined"),
    Metric::new("ingress", "recorded"),
    Metric::new("ingress", "storage_failure"),
    Metric::new("ingress", "edge_disabled"),
    Metric::new("ingress", "provider_disabled"),
    Metric::new("ingress", "conflicting_body"),
    Metric::new("ingress", "unsigned"),
    Metric::new("ingress", "reserved_call_id"),
    Metric::new("ingress", "unknown_value"),
    Metric::new("ingress", "question_fallback"),
    Metric::new("ingress", "key_1").by_provider(),
    Metric::new("ingress", "key_2").by_provider(),
    Metric::new("ingress", "key_3").by_provider(),
    Metric::new("ingress", "key_4").by_provider(),
    Metric::new("ingress", "answer_ms"),
    Metric::new("consumer", "received"),
    Metric::new("consumer", "applied"),
    Metric::new("consumer", "parked"),
    Metric::new("consumer", "unparked"),
    Metric::new("consumer", "refused"),
    Metric::new("consumer", "stale"),
    Metric::new("consumer", "duplicate"),
    Metric::new("consumer", "quarantined"),
    Metric::new("consumer", "fold_conflicts"),
    Metric::new("consumer", "retried"),
    Metric::new("consumer", "dead_lettered"),
    Metric::new("consumer", "backoff_failed"),
    Metric::new("consumer", "refold_too_long"),
    Metric::new("consumer", "refold_unreadable"),
    Metric::new("consumer", "number_blocked"),
    Metric::new("consumer", "number_unknown"),
    Metric::new("consumer", "circuit_open"),
    Metric::new("consumer", "circuit_closed"),
    Metric::new("consumer", "health_not_noted"),
    Metric::new("consumer", "call_booked"),
    Metric::new("consumer", "call_called_off"),
    Metric::new("consumer", "booking_without_call"),
    Metric::new("consumer", "received_to_applied_ms"),
    Metric::new("relay", "relayed"),
    Metric::new("relay", "relay_failed"),
    Metric::new("relay", "published"),
    Metric::new("relay", "call_completed"),
    Metric::new("relay", "call_no_answer"),
    Metric::new("relay", "call_busy"),
    Metric::new("relay", "call_failed"),
    Metric::new("relay", "call_canceled"),
    Metric::new("relay", "call_inconclusive"),
    Metric::new("relay", "record_skipped"),
    Metric::new("relay", "received_to_announced_ms"),
    Metric::new("scheduler", "schedule_failed"),
    Metric::new("scheduler", "batch_failed"),
    Metric::new("scheduler", "claimed"),
    Metric::new("scheduler", "waiting"),
    Metric::new("scheduler", "unconfigured"),
    Metric::new("scheduler", "providers_unavailable"),
    Metric::new("scheduler", "budget_used_up"),
    Metric::new("scheduler", "triggered"),
    Metric::new("scheduler", "storage_failure"),
    Metric::new("scheduler", "due_overdue_ms"),
    Metric::new("dialer", "dialled"),
    Metric::new("dialer", "claim_lost"),
    Metric::new("dialer", "window_closed"),
    Metric::new("dialer", "dial_held"),
    Metric::new("dialer", "dial_released"),
    Metric::new("dialer", "dial_stopped"),
    Metric::new("dialer", "dial_withdrawn"),
    Metric::new("dialer", "no_account"),
    Metric::new("dialer", "dial_rejected"),
    Metric::new("dialer", "dial_in_doubt"),
    Metric::new("dialer", "dialled_before"),
    Metric::new("dialer", "record_not_deleted"),
    Metric::new("dialer", "dial_failed"),
    Metric::new("dialer", "circuit_open"),
    Metric::new("dialer", "circuit_closed"),
    Metric::new("dialer", "health_not_noted"),
    Metric::new("dialer", "provider_request_failed").by_provider(),
    Metric::new("dialer", "due_to_request_ms").by_provider(),
    Metric::new("dialer", "provider_request_ms").by_provider(),
    Metric::new("reconciler", "reconcile_failed"),
    Metric::new("reconciler", "shard_worked"),
    Metric::new("reconciler", "shard_failed"),
    Metric::new("reconciler", "handed_on"),
    Metric::new("reconciler", "failed"),
    Metric::new("reconciler", "woken"),
    Metric::new("reconciler", "timeouts"),
    Metric::new("reconciler", "doubts"),
    Metric::new("reconciler", "claims_expired"),
    Metric::new("reconciler", "requeued"),
    Metric::new("reconciler", "retried"),
    Metric::new("reconciler", "given_up"),
    Metric::new("reconciler", "not_requeued"),
    Metric::new("reconciler", "discovered"),
    Metric::new("reconciler", "not_discovered"),
    Metric::new("reconciler", "discovery_skipped_ms"),
    Metric::new("reconciler", "discovery_postponed"),
    Metric::new("reconciler", "drift_run_failed"),
    Metric::new("reconciler", "drift_found"),
    Metric::new("reconciler", "drifted"),
    Metric::new("reconciler", "drift_skipped_ms"),
    Metric::new("reconciler", "stuck_dialing"),
    Metric::new("reconciler", "budget_used_up"),
    Metric::new("reconciler", "provider_requests").by_provider(),
    Metric::new("reconciler", "provider_request_failed").by_provider(),
    Metric::new("reconciler", "unknown_value"),
    Metric::new("reconciler", "provider_request_ms").by_provider(),
    Metric::new("reconciler", "overdue_wake_ms"),
    Metric::new("reconciler", "unfolded_ms"),
    Metric::new("api", "created"),
    Metric::new("api", "repeated"),
    Metric::new("api", "canceled"),
    Metric::new("api", "number_blocked"),
    Metric::new("api", "number_unblocked"),
    Metric::new("api", "storage_failure"),
    Metric::new("secret", "secret_refresh_failed"),
    Metric::new("secret", "provider_disabled"),
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
    fn metric_of_a_function_is_named_once() {
        let names: BTreeSet<(&str, &str)> = METRICS.iter().map(|metric| (metric.function, metric.name)).collect();
        assert_eq!(names.len(), METRICS.len());
    }
}
