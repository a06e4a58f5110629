//! Load on every limit, at the mean and at the busiest time.

use serde::Serialize;
use switchhook_aws::inbox::retry_ages;
use switchhook_aws::queue::failing_time;
use switchhook_aws::shards::{SHARDS_DEFAULT, SHARDS_MAX, shards_of_marks};
use switchhook_providers::{BOOKED_SHARE, PER_SECOND_MAX};

use super::claims::{CLAIM_RUN_S, bookings_max, run_claims_max};
use super::partitions::{new_keys_writes_at_most, new_keys_writes_max, partitions};
use super::provider::{discovered_calls_in_time, silent_calls};
use super::sweep::{PAGE_REQUESTS, reconciler_vcpus, retries_max, sweep_reads_max};
use super::{DIALER_S, FAILING_SHARE, QUEUE_S, ReconcilerLimits, Traffic, count, parameter, quota, relay, vcpus};
use crate::cost::{INVOCATION_S, MEMORY_GB};

/// Consequence of a load beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Providers get an error, and must send their webhooks again.
    RefusesWebhooks,
    /// Work is done later, or a request must be repeated.
    Delays,
}

/// Something that is limited, and its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resource {
    pub name: &'static str,
    pub mean: f64,
    pub peak: f64,
    pub limit: f64,
    /// Limit with the largest value of the parameter that moves it, if the parameter has one.
    pub limit_max: Option<f64>,
    /// Webhooks per day at which growing traffic first needs the whole limit. `None` if the limit grows faster than the load.
    pub webhooks_per_day_max: Option<f64>,
    /// The same with [`limit_max`](Self::limit_max).
    pub webhooks_per_day_at_most: Option<f64>,
    /// Formula of the load at the mean.
    pub load_is: &'static str,
    pub limit_is: String,
    /// Parameter, constant or quota that moves the limit.
    pub moved_by: &'static str,
    pub effect: Effect,
    pub beyond: &'static str,
}

impl Resource {
    /// Share of the limit that the busiest time uses.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.peak / self.limit
    }

    /// Share of the largest possible limit that the busiest time uses.
    fn share_at_most(&self) -> f64 {
        self.peak / self.limit_max.unwrap_or(self.limit)
    }

    /// True if the busiest time needs more than the limit.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.peak > self.limit
    }
}

/// Webhooks per day up to which walls are looked for.
pub const WEBHOOKS_PER_DAY_MAX: f64 = 1e12;

/// Returns every limit with its load. Webhooks come first, then dials, then repair.
#[must_use]
pub fn resources(traffic: &Traffic, reconciler: &ReconcilerLimits) -> Vec<Resource> {
    let mut resources = loads(traffic, reconciler);
    for (index, resource) in resources.iter_mut().enumerate() {
        let share_at = |webhooks_per_day, share: fn(&Resource) -> f64| {
            let at = loads(&Traffic { webhooks_per_day, ..*traffic }, reconciler);
            at.get(index).map_or(0.0, share)
        };
        resource.webhooks_per_day_max = wall(|size| share_at(size, Resource::share));
        if resource.limit_max.is_some() {
            resource.webhooks_per_day_at_most = wall(|size| share_at(size, Resource::share_at_most));
        }
    }
    resources
}

/// Returns the smallest number of webhooks per day that uses the whole of a limit.
///
/// The limit may grow with the traffic, so the limit at one size does not tell. This begins with one webhook per day, and goes on to the
/// size that the limit allows there, until the limit stays the same.
fn wall(share_at: impl Fn(f64) -> f64) -> Option<f64> {
    let mut size = 1.0;
    while size < WEBHOOKS_PER_DAY_MAX {
        let share = share_at(size);
        if share > 1.0 - 1e-9 {
            return Some(size);
        }
        size /= share;
    }
    None
}

/// Returns every limit with its load, without the webhooks per day at which it is met.
fn loads(traffic: &Traffic, reconciler: &ReconcilerLimits) -> Vec<Resource> {
    let (webhooks, dials) = (traffic.webhooks(), traffic.dials());
    let units = traffic.units();
    let batches = webhooks * units.messages / traffic.batch();
    let invocations = webhooks * (units.invocations + relay::batches(traffic)) + batches;
    let partitions = partitions(traffic);
    let resource = |name, mean: f64, load_is, (limit, limit_is): (f64, String), moved_by, effect, beyond| Resource {
        name,
        mean,
        peak: mean * traffic.peak_factor,
        limit,
        limit_max: None,
        webhooks_per_day_max: None,
        webhooks_per_day_at_most: None,
        load_is,
        limit_is,
        moved_by,
        effect,
        beyond,
    };
    let quota = |limit: f64| (limit, "quota".to_owned());
    let default = |limit: f64, name: &str| (limit, format!("default of `{name}`"));
    let up_to = |limit_max: f64, limited: Resource| Resource { limit_max: Some(limit_max), ..limited };
    let of_lookups = |limit: f64| {
        let percent = 100.0 * limit / reconciler.lookups;
        (limit, format!("{percent:.0} % of `REQUESTS_PER_MINUTE` ({})", reconciler.lookups))
    };
    let waits = "Messages wait in the queue";
    vec![
        resource(
            "webhooks per second",
            webhooks,
            "w",
            default(parameter::WEBHOOK_RATE, "WebhookRatePerSecond"),
            "`WebhookRatePerSecond`",
            Effect::RefusesWebhooks,
            "API Gateway answers 429, and P1RequestsThrottledAlarm goes off",
        ),
        resource(
            "requests to the HTTP API per second",
            webhooks * units.http_requests,
            "w × requests to the HTTP API",
            quota(quota::API_GATEWAY),
            "API Gateway's throttle quota",
            Effect::RefusesWebhooks,
            "API Gateway answers 429",
        ),
        resource(
            "invocations per second",
            invocations,
            "w × invocations + w × messages / b + w × records / g",
            (
                quota::LAMBDA_CONCURRENCY * quota::LAMBDA_RATE_PER_CONCURRENCY,
                format!("{} × the quota of concurrency", quota::LAMBDA_RATE_PER_CONCURRENCY),
            ),
            "Lambda's concurrency quota",
            Effect::RefusesWebhooks,
            "Lambda throttles: ingress answers 5xx, and queues wait",
        ),
        resource(
            "concurrent invocations",
            invocations * INVOCATION_S + dials * DIALER_S,
            "invocations per second × i + d × a",
            quota(quota::LAMBDA_CONCURRENCY),
            "Lambda's concurrency quota",
            Effect::RefusesWebhooks,
            "Lambda throttles: ingress answers 5xx, and queues wait",
        ),
        resource(
            "messages sent to the events queue per second",
            webhooks * units.messages,
            "w × messages",
            quota(quota::FIFO_REQUESTS),
            "SQS's quota for FIFO queues with high throughput",
            Effect::RefusesWebhooks,
            "Ingress answers 5xx; what it stored is queued by the sweep",
        ),
        resource(
            "write units of the inbox table per second",
            webhooks * units.inbox_writes,
            "w × write units of the inbox table",
            quota(quota::TABLE_WRITES),
            "DynamoDB's quota per table",
            Effect::RefusesWebhooks,
            "DynamoDB throttles, and ingress answers 5xx",
        ),
        up_to(
            new_keys_writes_at_most(SHARDS_MAX, partitions.received),
            resource(
                "writes to `by_received` per second",
                webhooks * units.received_writes,
                "w × write units of `by_received`",
                (
                    new_keys_writes_max(SHARDS_DEFAULT, partitions.received),
                    format!("default of `IndexShards` ({SHARDS_DEFAULT}) × the writes of a partition / m"),
                ),
                "`IndexShards`, at most 99",
                Effect::RefusesWebhooks,
                "The index throttles its table, and ingress answers 5xx",
            ),
        ),
        up_to(
            new_keys_writes_at_most(shards_of_marks(SHARDS_MAX), quota::TABLE_WRITES / quota::PARTITION_WRITES),
            resource(
                "writes to `by_attention` per second, while no event can be folded",
                webhooks * units.messages,
                "w × messages",
                (
                    new_keys_writes_max(shards_of_marks(SHARDS_DEFAULT), quota::NEW_TABLE_PARTITIONS),
                    format!(
                        "half of the default of `IndexShards` ({SHARDS_DEFAULT}) × the writes of a partition / m, on the {} partitions of a \
                         new index",
                        quota::NEW_TABLE_PARTITIONS
                    ),
                ),
                "`IndexShards`, at most 99, and the [warm throughput](deploy.md#warm-indexes) of the index",
                Effect::RefusesWebhooks,
                "The index throttles its table, and ingress answers 5xx",
            ),
        ),
        up_to(
            parameter::CONSUMER_CONCURRENCY_MAX,
            resource(
                "concurrent invocations of the consumer",
                batches * INVOCATION_S,
                "w × messages / b × i",
                default(parameter::CONSUMER_CONCURRENCY, "ConsumerMaxConcurrency"),
                "`ConsumerMaxConcurrency`, at most 1,000",
                Effect::Delays,
                waits,
            ),
        ),
        resource(
            "messages in flight, while a tenth of the events cannot be folded",
            webhooks * units.messages * FAILING_SHARE * failing_time().as_secs_f64(),
            "w × messages × 0.1 × t",
            quota(quota::FIFO_IN_FLIGHT),
            "SQS's quota for messages in flight",
            Effect::Delays,
            "The queue hands out no more messages, so all events wait until the failing ones wait in the inbox",
        ),
        up_to(
            retries_max(SHARDS_MAX, reconciler),
            resource(
                "events sent again per second, while a tenth of the events cannot be folded for hours",
                webhooks * units.messages * FAILING_SHARE * count(retry_ages().count() as u64),
                "w × messages × 0.1 × 10",
                (
                    retries_max(SHARDS_DEFAULT, reconciler),
                    format!(
                        "half of the default of `IndexShards` ({SHARDS_DEFAULT}) × {} s of each minute × the smaller of {} / r and {:.3} vCPU / v",
                        reconciler.retry_s,
                        reconciler.retries_at_once,
                        reconciler_vcpus()
                    ),
                ),
                "`IndexShards`, up to the 8 workers of `RepairQueueMapping`, and `MemorySize` of `ReconcilerFunction`",
                Effect::Delays,
                "Failing events are tried less often, and other work of the reconciler waits",
            ),
        ),
        resource(
            "write units of the calls table per second",
            webhooks * units.calls_writes,
            "w × write units of the calls table",
            quota(quota::TABLE_WRITES),
            "DynamoDB's quota per table",
            Effect::Delays,
            waits,
        ),
        resource(
            "read units of both tables per second",
            webhooks * (units.reads + units.sweep_reads),
            "w × (read units + those of the sweep)",
            (quota::TABLE_READS, "quota of one table".to_owned()),
            "DynamoDB's quota per table",
            Effect::Delays,
            waits,
        ),
        up_to(
            count(SHARDS_MAX) * quota::PARTITION_WRITES,
            resource(
                "writes to the reconciler's queues in `by_wake` per second",
                webhooks * units.reconcile_writes,
                "w × write units in the reconciler's queues",
                (
                    count(SHARDS_DEFAULT) * quota::PARTITION_WRITES,
                    format!("default of `IndexShards` ({SHARDS_DEFAULT}) × the writes of a partition"),
                ),
                "`IndexShards`, at most 99",
                Effect::Delays,
                "The index throttles its table, and messages wait in the queue",
            ),
        ),
        resource(
            "concurrent invocations of the relay in a new stack",
            webhooks * relay::put_events(&relay::in_new_stack(traffic)) * INVOCATION_S,
            "`PutEvents` requests of a new stack × i",
            (
                partitions.calls_by_writes * parameter::RELAY_PARALLELIZATION,
                format!(
                    "partitions that the writes of the calls table need × `ParallelizationFactor` ({})",
                    parameter::RELAY_PARALLELIZATION
                ),
            ),
            "`ParallelizationFactor` of `RelayMapping`, at most 10",
            Effect::Delays,
            "Domain events are late, and P1RelayAgeAlarm goes off",
        ),
        resource(
            "`PutEvents` requests per second",
            webhooks * relay::put_events(traffic),
            "the larger of w × records / g and w × domain events / 10",
            quota(quota::PUT_EVENTS),
            "EventBridge's `PutEvents` quota",
            Effect::Delays,
            "Domain events are late: the relay sends refused ones again",
        ),
        resource(
            "requests to CloudWatch Logs per second, if each invocation sends one",
            invocations,
            "invocations per second",
            quota(quota::PUT_LOG_EVENTS),
            "CloudWatch Logs' `PutLogEvents` quota",
            Effect::Delays,
            "Log lines come late or never, and the metrics in them too. So alarms may be silent",
        ),
        resource(
            "calls created per second, one per request",
            dials,
            "d",
            default(parameter::API_RATE, "ApiRatePerSecond"),
            "`ApiRatePerSecond`, or requests with up to 100 calls",
            Effect::Delays,
            "The API answers 429",
        ),
        up_to(
            PER_SECOND_MAX * BOOKED_SHARE,
            resource(
                "dials per second, all through one account",
                dials,
                "d",
                (
                    parameter::DIAL_RATE * BOOKED_SHARE,
                    format!("{:.0} % of the default of `DialRates`", 100.0 * BOOKED_SHARE),
                ),
                "`DialRates` without `*`, at most 200 for each account, with enough dialers, or more accounts",
                Effect::Delays,
                "Calls are placed later than they are due",
            ),
        ),
        up_to(
            parameter::DIALER_CONCURRENCY_MAX,
            resource(
                "dialers at work",
                dials * DIALER_S,
                "d × a",
                default(parameter::DIALER_CONCURRENCY, "DialerMaxConcurrency"),
                "`DialerMaxConcurrency`, at most 1,000",
                Effect::Delays,
                "Calls are placed later than they are due",
            ),
        ),
        resource(
            "bookings per second, all for one account, if each call is claimed alone",
            dials,
            "d",
            (bookings_max(), "1 / 2r: each reads and writes the row of its account".to_owned()),
            "more accounts",
            Effect::Delays,
            "The next run of the schedule claims the call, up to a minute late",
        ),
        resource(
            "claims per second, if all calls wait for a run of the schedule",
            dials,
            "d",
            (run_claims_max(), format!("{CLAIM_RUN_S} s of each minute × {:.3} vCPU / v'", vcpus(MEMORY_GB))),
            "`MemorySize` of `SchedulerFunction`",
            Effect::Delays,
            "Calls are placed later than they are due",
        ),
        up_to(
            sweep_reads_max(SHARDS_MAX, reconciler),
            resource(
                "calls that the sweep reads per second",
                webhooks * units.messages,
                "w × messages, if no two events of a call come in the same minute",
                (
                    sweep_reads_max(SHARDS_DEFAULT, reconciler),
                    format!(
                        "default of `IndexShards` ({SHARDS_DEFAULT}) × {} s of each minute × the smaller of {} reads at once × {} calls / r' and {:.3} \
                         vCPU / u, with {PAGE_REQUESTS} × r more for each {} calls",
                        reconciler.sweep_s,
                        reconciler.sweep_reads_at_once,
                        reconciler.sweep_calls_per_read,
                        reconciler_vcpus(),
                        reconciler.sweep_page
                    ),
                ),
                "`IndexShards`, up to the 8 workers of `RepairQueueMapping`, and `MemorySize` of `ReconcilerFunction`",
                Effect::Delays,
                "An event that was stored and not queued is folded late. That also happens while many calls are due: each shard has \
             three wake queues beside the sweep, and 8 workers take turns. P1EventsNotFoldedAlarm goes off once the sweep is five minutes \
             late",
            ),
        ),
        up_to(
            count(SHARDS_MAX) * reconciler.queue_depth_per_shard,
            resource(
                "messages in the events queue",
                webhooks * units.messages * (QUEUE_S + INVOCATION_S),
                "w × messages × (q + i)",
                (
                    count(SHARDS_DEFAULT) * reconciler.queue_depth_per_shard,
                    format!(
                        "default of `IndexShards` ({SHARDS_DEFAULT}) × {} messages",
                        reconciler.queue_depth_per_shard
                    ),
                ),
                "`IndexShards`, at most 99",
                Effect::Delays,
                "The sweep takes the load for a backlog, and pauses. P1EventsNotFoldedAlarm goes off after five minutes",
            ),
        ),
        resource(
            "questions about silent calls per minute, all to one account",
            silent_calls(traffic),
            "c × share of silent calls × 60",
            of_lookups(reconciler.ending_lookups),
            "the constant `REQUESTS_PER_MINUTE`, or more accounts",
            Effect::Delays,
            "Silent calls are settled late; dials in doubt have requests of their own",
        ),
        resource(
            "calls per hour in one provider's list",
            traffic.calls() * 3_600.0,
            "c × 3,600",
            (
                discovered_calls_in_time(traffic, reconciler),
                format!(
                    "{} pages per minute × 60 × {} calls per page / {} periods that have each call",
                    reconciler.discovery_pages, traffic.profile.calls_per_page, reconciler.discovery_periods
                ),
            ),
            "the constant `PAGES_MAX` of discovery, or more accounts",
            Effect::Delays,
            "Calls that nobody reported are found hours later. If the list grows faster than it is read, some are left out, and \
             `discovery_skipped_ms` counts their time",
        ),
    ]
}

/// Returns the value of `ConsumerPollers` that the busiest time needs, whatever the template allows. A poller polls so many times per
/// second, and has so many invocations at the same time. Both are limits.
#[must_use]
pub fn pollers(traffic: &Traffic) -> f64 {
    let batches = traffic.webhooks() * traffic.units().messages / traffic.batch() * traffic.peak_factor;
    let by_polls = batches / quota::POLLER_POLLS;
    let by_concurrency = batches * INVOCATION_S / quota::POLLER_CONCURRENCY;
    by_polls.max(by_concurrency).ceil().max(quota::POLLERS_MIN)
}
