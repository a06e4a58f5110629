//! Reads everything that the status is made of. Each source is read by itself.

use std::time::Duration;

use switchhook_aws::calls::WakeQueue;
use switchhook_aws::inbox::AttentionKind;
use switchhook_aws::queue::Queue;
use switchhook_domain::{Provider, ProviderHealth, Timestamp};

use super::{COUNT_MAX, Subject};
use crate::aws::{Alarm, MetricQuery, Series};
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::{Error, Explanation};
use crate::stack::{Stack, StackNames};

/// Time for which metrics are read: the longest that a line looks back.
pub(super) const LOOK_BACK: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for which rejected webhooks count.
pub(super) const REJECTED_IN: Duration = Duration::from_secs(60 * 60);
/// Seconds that one value of a metric covers.
const PERIOD: u32 = 300;
/// Time in which the usual pauses of a provider are looked for. It is a week and a long weekend: until Monday morning, the pause of the
/// weekend before must be in it from its beginning.
pub(super) const PAUSES_IN: Duration = Duration::from_secs(10 * 24 * 60 * 60);
/// Seconds that one value covers of the webhooks' metrics, and of those that are judged by their last ten minutes. Values of five
/// minutes would leave out up to half of that time.
pub(super) const MINUTE: u32 = 60;
/// Ids that a count names.
const FIRST_MAX: usize = 3;

/// Value of a source, or the error that kept it from being read.
pub(super) type Read<T> = Result<T, Explanation>;

/// Number of items, up to [`COUNT_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) number: usize,
    /// True if there are more.
    pub(super) more: bool,
    /// A few of them.
    pub(super) first: Vec<Subject>,
}

/// Calls whose time in a wake queue has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overdue {
    pub(super) count: Count,
    pub(super) oldest: Option<Timestamp>,
}

/// Metrics of the last day.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metrics {
    pub(super) received: Series,
    pub(super) rejected: Series,
    /// `None` if no webhook was rejected in the last hour.
    pub(super) rejections: Option<Rejections>,
    pub(super) duplicate: Series,
    pub(super) answer: Series,
    pub(super) applied: Series,
    pub(super) announced: Series,
    pub(super) scheduler_runs: Runs,
    pub(super) reconciler_runs: Runs,
    pub(super) doubts: Series,
    pub(super) drifted: Series,
    /// Calls that have been dialling for more than ten minutes. They are counted about every ten minutes.
    pub(super) stuck: Series,
    /// Claims that the dialer could not process because a table or a queue failed.
    pub(super) failed_claims: Series,
    /// Dials that the inbox knows and the calls table does not.
    pub(super) dialled_before: Series,
    /// Writes whose domain events the relay did not publish.
    pub(super) skipped: Series,
    /// Calls that were not computed again because they have too many events.
    pub(super) refolds_given_up: Series,
    /// Age of the oldest event that is not known to be folded, in milliseconds. No value while there is none.
    pub(super) unfolded: Series,
    /// Reads of a secret that failed or found a wrong entry, and those that disabled a provider.
    pub(super) secret_failures: Series,
    pub(super) disabled: Series,
    pub(super) events_age: Series,
    pub(super) dial_age: Series,
    /// Providers that Switchhook has code for, and the further accounts of them that place calls.
    pub(super) providers: Vec<Provider>,
    /// Received webhooks of each of the `providers`. Empty for one that sent none in the last ten days.
    pub(super) by_provider: Vec<Series>,
    /// The same of the last ten days, by five minutes.
    pub(super) ten_days: Vec<Series>,
}

/// Runs of a function that has a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Runs {
    /// Runs that the schedule asked for, also those that Lambda drops. Only the schedules invoke these functions asynchronously.
    pub(super) scheduled: Series,
    /// All invocations, also those by a queue, a stream or the API. None if Lambda may not or cannot invoke the function.
    pub(super) invocations: Series,
    /// Invocations that failed.
    pub(super) errors: Series,
}

/// Rejected webhooks of the last hour. No metric has both a provider and a cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rejections {
    /// In the order of [`Metrics::providers`].
    pub(super) by_provider: Vec<Series>,
    /// Webhooks that no key verified.
    pub(super) bad_signature: Series,
}

#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) is_local: bool,
    /// `None` for a local stack, which has no alarms.
    pub(super) alarms: Option<Read<Vec<Alarm>>>,
    pub(super) metrics: Read<Metrics>,
    pub(super) events_queue: Read<u64>,
    pub(super) dial_queue: Read<u64>,
    pub(super) due_queue: Read<u64>,
    pub(super) dead_letters: Read<u64>,
    pub(super) relay_failures: Read<u64>,
    pub(super) due: Read<Overdue>,
    pub(super) wake: Read<Overdue>,
    /// Last minute that was swept to its end. `None` before the first sweep.
    pub(super) swept: Read<Option<Timestamp>>,
    pub(super) health: Read<Vec<ProviderHealth>>,
    pub(super) quarantined: Read<Count>,
    pub(super) dead_lettered: Read<Count>,
    pub(super) retrying: Read<Count>,
    /// Conflicts of the last day.
    pub(super) conflicts: Read<Count>,
}

/// Reads all sources.
pub(super) async fn read(stack: &Stack, now: Timestamp) -> Sources {
    let depth = |queue: &Queue| {
        let queue = queue.clone();
        async move { queue.depth().await.map_err(|error| reason(error.into())) }
    };
    let count_since = |kind, since| async move { attention(stack, kind, since).await.map_err(reason) };
    let count = |kind| count_since(kind, Timestamp::from_millis(0));
    let accounts = stack.calls.accounts().await.map_err(|error| reason(error.into()));
    // Without the list, only the providers that Switchhook has code for are shown.
    let named: Vec<Provider> = Provider::ALL.into_iter().chain(accounts.iter().flatten().copied()).collect();
    let pending = async {
        let queues = accounts.as_ref().map(WakeQueue::pending).map_err(Clone::clone)?;
        overdue(stack, &queues, now).await.map_err(reason)
    };
    let (alarms, metrics, swept, health) =
        tokio::join!(alarms(stack), metrics(stack, &named, now), swept(stack), provider_health(stack, &named));
    let (events_queue, dial_queue, due_queue, dead_letters, relay_failures) = tokio::join!(
        depth(&stack.events_queue),
        depth(&stack.dial_queue),
        depth(&stack.due_queue),
        depth(&stack.dlq),
        depth(&stack.relay_failures_queue)
    );
    let (due, wake, quarantined, dead_lettered, retrying, conflicts) = tokio::join!(
        pending,
        overdue(stack, &WakeQueue::OPEN, now),
        count(AttentionKind::Quarantined),
        count(AttentionKind::DeadLettered),
        count(AttentionKind::Retrying),
        // Nobody takes these marks away, so older ones would count until they expire.
        count_since(AttentionKind::Conflict, now.minus(LOOK_BACK))
    );
    Sources {
        is_local: stack.local.is_some(),
        alarms,
        metrics: metrics.map_err(reason),
        events_queue,
        dial_queue,
        due_queue,
        dead_letters,
        relay_failures,
        due,
        wake: wake.map_err(reason),
        swept: swept.map_err(reason),
        health: health.map_err(reason),
        quarantined,
        dead_lettered,
        retrying,
        conflicts,
    }
}

async fn alarms(stack: &Stack) -> Option<Read<Vec<Alarm>>> {
    let services = stack.services.as_ref()?;
    Some(services.alarms(&stack.names.stack).await.map_err(reason))
}

async fn metrics(stack: &Stack, named: &[Provider], now: Timestamp) -> Result<Metrics, Error> {
    let by_minute = |name: &str| of_minute(&stack.names, "ingress", name);
    let with = |query: MetricQuery, name: &str, value: &str| {
        let mut query = query;
        query.dimensions.push((name.to_owned(), value.to_owned()));
        query
    };
    let of_provider = |provider: Provider, period: u32| {
        with(MetricQuery { period, ..by_minute("received") }, "provider", provider.as_str())
    };
    let queries = queries(&stack.names);
    // A request has one beginning for all its metrics, so the ten days need a request of their own. CloudWatch charges for metrics, not
    // for requests.
    let of_ten_days: Vec<MetricQuery> = named.iter().map(|provider| of_provider(*provider, PERIOD)).collect();
    let (all, ten_days) =
        tokio::join!(stack.metrics(&queries, now.minus(LOOK_BACK)), stack.metrics(&of_ten_days, now.minus(PAUSES_IN)));
    let (mut all, ten_days) = (all?.into_iter(), ten_days?);
    let mut next = || all.next().unwrap_or_default();
    let (received, rejected) = (next(), next());
    // CloudWatch charges for each metric, so these are read only if there is something to tell.
    let hour = now.minus(REJECTED_IN);
    let is_rejecting = rejected.0.iter().any(|(at, value)| *at >= hour && *value > 0.0);
    let heard: Vec<bool> = ten_days.iter().map(|series| series.sum() > 0.0).collect();
    let providers = || named.iter().zip(&heard).filter(|(_, heard)| **heard).map(|(provider, _)| *provider);
    let mut details: Vec<MetricQuery> = providers().map(|provider| of_provider(provider, MINUTE)).collect();
    if is_rejecting {
        details.extend(providers().map(|provider| with(by_minute("rejected"), "provider", provider.as_str())));
        details.push(with(by_minute("rejected"), "cause", "bad_signature"));
    }
    let mut details = match details.is_empty() {
        true => Vec::new(),
        false => stack.metrics(&details, now.minus(LOOK_BACK)).await?,
    }
    .into_iter();
    let of_each = |details: &mut std::vec::IntoIter<Series>| -> Vec<Series> {
        heard.iter().map(|heard| if *heard { details.next().unwrap_or_default() } else { Series::default() }).collect()
    };
    let by_provider = of_each(&mut details);
    let rejections = is_rejecting
        .then(|| Rejections { by_provider: of_each(&mut details), bad_signature: details.next().unwrap_or_default() });
    Ok(Metrics {
        received,
        rejected,
        rejections,
        duplicate: next(),
        answer: next(),
        applied: next(),
        announced: next(),
        doubts: next(),
        drifted: next(),
        unfolded: next(),
        secret_failures: next(),
        disabled: next(),
        events_age: next(),
        dial_age: next(),
        stuck: next(),
        failed_claims: next(),
        dialled_before: next(),
        skipped: next(),
        refolds_given_up: next(),
        scheduler_runs: Runs { scheduled: next(), invocations: next(), errors: next() },
        reconciler_runs: Runs { scheduled: next(), invocations: next(), errors: next() },
        providers: named.to_vec(),
        by_provider,
        ten_days,
    })
}

/// Returns the queries of the last day that every stack has, in the order in which `metrics` takes their values.
pub(super) fn queries(names: &StackNames) -> Vec<MetricQuery> {
    let of_function = |function: &str, name: &str, statistic: &str| of_function(names, function, name, statistic);
    let of_minute = |function: &str, name: &str| of_minute(names, function, name);
    // The stack names an alias, and Lambda counts the invocations of all versions under the name before the colon.
    let of_lambda = |function: &str, name: &str| {
        let function = function.split(':').next().unwrap_or_default();
        MetricQuery::new("AWS/Lambda", name, &[("FunctionName", function)], "Sum", MINUTE)
    };
    let of_queue = |url: &str| MetricQuery::of_queue(url, "ApproximateAgeOfOldestMessage", "Maximum", PERIOD);
    let mut queries = vec![
        of_minute("ingress", "received"),
        of_minute("ingress", "rejected"),
        of_minute("ingress", "duplicate"),
        of_function("ingress", "answer_ms", "p99"),
        of_function("consumer", "received_to_applied_ms", "p99"),
        of_function("relay", "received_to_announced_ms", "p99"),
        of_function("dialer", "dial_in_doubt", "Sum"),
        of_function("reconciler", "drifted", "Sum"),
        of_function("reconciler", "unfolded_ms", "Maximum"),
        of_minute("secret", "secret_refresh_failed"),
        of_minute("secret", "provider_disabled"),
        of_queue(&names.events_queue_url),
        of_queue(&names.dial_queue_url),
        of_function("reconciler", "stuck_dialing", "Maximum"),
        of_function("dialer", "dial_failed", "Sum"),
        of_function("dialer", "dialled_before", "Sum"),
        of_function("relay", "record_skipped", "Sum"),
        of_function("consumer", "refold_too_long", "Sum"),
    ];
    for function in [&names.scheduler_function, &names.reconciler_function] {
        queries.extend(["AsyncEventsReceived", "Invocations", "Errors"].map(|name| of_lambda(function, name)));
    }
    queries
}

fn of_function(names: &StackNames, function: &str, name: &str, statistic: &str) -> MetricQuery {
    let dimensions = [("stack", names.stack.as_str()), ("function", function)];
    MetricQuery::new("Switchhook", name, &dimensions, statistic, PERIOD)
}

fn of_minute(names: &StackNames, function: &str, name: &str) -> MetricQuery {
    MetricQuery { period: MINUTE, ..of_function(names, function, name, "Sum") }
}

/// Counts the calls of these queues whose time has passed.
async fn overdue(stack: &Stack, queues: &[WakeQueue], now: Timestamp) -> Result<Overdue, Error> {
    let range = Timestamp::from_millis(0)..=now;
    let limit = i32::try_from(COUNT_MAX).unwrap_or(i32::MAX);
    let shards = queues.iter().flat_map(|queue| stack.calls.wake_shards().map(move |shard| (*queue, shard)));
    let pages = shards.map(|(queue, shard)| stack.calls.wake_entries(queue, shard, range.clone(), false, limit, None));
    let mut entries = Vec::new();
    let mut more = false;
    for (page, is_more) in concurrently(CONCURRENCY, pages).await? {
        more |= is_more;
        entries.extend(page);
    }
    entries.sort_by(|a, b| (a.wake_at, &a.call_id).cmp(&(b.wake_at, &b.call_id)));
    let first = entries.iter().take(FIRST_MAX).map(|entry| Subject::Call(entry.call_id.to_string())).collect();
    let number = entries.len().min(COUNT_MAX);
    let count = Count { number, more: more || entries.len() > COUNT_MAX, first };
    Ok(Overdue { count, oldest: entries.first().map(|entry| entry.wake_at) })
}

async fn swept(stack: &Stack) -> Result<Option<Timestamp>, Error> {
    let cursor = stack.inbox.sweep_cursor().await?;
    Ok(cursor.map(|cursor| Timestamp::from_millis((cursor.swept_minute() + 1).saturating_mul(60_000))))
}

async fn provider_health(stack: &Stack, named: &[Provider]) -> Result<Vec<ProviderHealth>, Error> {
    let reads = named.iter().map(|provider| stack.calls.provider_health_eventual(*provider));
    Ok(concurrently(CONCURRENCY, reads).await?)
}

/// Counts the inbox items that a person should look at.
async fn attention(stack: &Stack, kind: AttentionKind, since: Timestamp) -> Result<Count, Error> {
    let mut count = Count::default();
    let (page_max, until) = (i32::try_from(COUNT_MAX).unwrap_or(i32::MAX), Timestamp::from_millis(i64::MAX));
    for shard in stack.inbox.attention_shards() {
        let mut pages = stack.inbox.attention_between(kind, shard, since, until, page_max);
        while let Some(page) = pages.next().await? {
            let ids =
                page.items.iter().filter_map(|item| item.event_id.as_ref().map(|id| Subject::Event(id.to_string())));
            let room = FIRST_MAX.saturating_sub(count.first.len());
            count.first.extend(ids.take(room));
            count.number += page.items.len();
            if count.number >= COUNT_MAX {
                return Ok(Count { number: COUNT_MAX, more: true, ..count });
            }
        }
    }
    Ok(count)
}

fn reason(error: Error) -> Explanation {
    error.explanation()
}
