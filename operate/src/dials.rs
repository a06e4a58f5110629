//! Dials: for each provider whether calls go out, and for each call in doubt what happens next.
//!
//! **No secret is read**, so whoever may look at dials needs no permission for the providers' keys.

use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use switchhook_aws::calls::{Loaded, WakeEntry, WakeQueue};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::{CallId, PhoneNumber, Provider, ProviderHealth, STUCK_AFTER, Timestamp};
use switchhook_providers::Pacing;

use crate::calls::{OpenCalls, StuckCall, StuckKind, judge};
use crate::concurrent::CONCURRENCY;
use crate::error::Error;
use crate::providers::{OpenCircuit, is_in_flight, view};
use crate::stack::Stack;
use crate::time_text;

/// Largest number of due calls that are counted for a shard of a wake queue.
const COUNT_MAX: i32 = 1_000;
/// Largest number of calls whose rows are read.
pub const EXAMINED_MAX: usize = 200;
/// Calls that are due next.
pub const NEXT_MAX: usize = 10;

/// Dials of one provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderDials {
    pub provider: Provider,
    /// Calls per second that the provider is asked to place, by the stack's `DialRates`. `None` if it is asked to place none.
    pub per_second: Option<f64>,
    /// Share of that rate that is used now, in thousandths. It is lower after the provider was busy.
    pub rate: u64,
    /// `None` if the circuit is closed.
    pub open: Option<OpenCircuit>,
    /// Time until which the provider gets no calls because it was busy.
    #[serde(serialize_with = "time_text::optional::serialize")]
    pub paused_until: Option<Timestamp>,
    /// Weight of the failed dials since the last one that worked.
    pub failure_score: u32,
    /// Calls among the examined ones that were dialled and have not ended.
    pub in_flight: usize,
    /// Limit on the calls in flight: the one in `DialRates`, or a lower one that the provider set by a refusal. `None` if there is none.
    pub calls_max: Option<u64>,
    /// Calls in doubt among the examined ones.
    pub in_doubt: usize,
    /// Calls that are due and not claimed.
    pub due: usize,
    /// True if more are due than were counted.
    pub more_due: bool,
    #[serde(serialize_with = "time_text::optional::serialize")]
    pub oldest_due: Option<Timestamp>,
}

/// Call that becomes due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DueCall {
    pub call_id: CallId,
    pub provider: Provider,
    #[serde(serialize_with = "time_text::serialize")]
    pub due_at: Timestamp,
}

/// Dials of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DialReport {
    #[serde(serialize_with = "time_text::serialize")]
    pub at: Timestamp,
    /// Providers with a dial rate, and those that something is known of.
    pub providers: Vec<ProviderDials>,
    /// Calls in doubt, the longest first.
    pub in_doubt: Vec<StuckCall>,
    /// Calls whose claim has not been used in time, the longest first.
    pub expired_claims: Vec<StuckCall>,
    /// Calls that become due next, the earliest first.
    pub next: Vec<DueCall>,
    /// Calls whose row cannot be read. Any of them may be in doubt.
    pub unreadable: Vec<CallId>,
    /// Number of open calls whose rows were read.
    pub examined: usize,
    /// True if there are more open calls.
    pub more: bool,
}

impl DialReport {
    /// True if the rows of all open calls were read.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.unreadable.is_empty() && !self.more
    }
}

/// Due calls of one provider.
#[derive(Debug, Default)]
struct Due {
    count: usize,
    more: bool,
    oldest: Option<Timestamp>,
    next: Vec<WakeEntry>,
}

/// Reads the dials of a stack.
///
/// # Errors
/// The health of a provider, the index or a row could not be read.
pub async fn dials(stack: &Stack) -> Result<DialReport, Error> {
    let now = stack.now();
    let OpenCalls { calls, unreadable, examined, more } = open_calls(stack).await?;
    let stuck: Vec<StuckCall> = calls.iter().filter_map(|call| judge(call, now, STUCK_AFTER)).collect();
    let of_kind = |kind| {
        let mut found: Vec<StuckCall> = stuck.iter().filter(|call| call.kind == kind).cloned().collect();
        found.sort_by(|a, b| (a.since, &a.call_id).cmp(&(b.since, &b.call_id)));
        found
    };
    let (in_doubt, expired_claims) = (of_kind(StuckKind::InDoubt), of_kind(StuckKind::Claimed));
    let (mut providers, mut next) = (Vec::new(), Vec::new());
    let accounts = stack.calls.accounts().await?;
    for provider in Provider::ALL.into_iter().chain(accounts) {
        let health = stack.calls.provider_health_eventual(provider).await?;
        let due = due(stack, provider, now).await?;
        next.extend(due.next.iter().map(|entry| DueCall {
            call_id: entry.call_id.clone(),
            provider,
            due_at: entry.wake_at,
        }));
        let pacing = stack.dial_rates().pacing(provider);
        let per_second = pacing.map(Pacing::per_second);
        let in_flight = calls.iter().filter(|call| is_in_flight(call, provider)).count();
        let is_known = per_second.is_some() || due.count > 0 || in_flight > 0;
        if !is_known && health == ProviderHealth::new(provider) {
            continue;
        }
        let view = view(&health, None, in_flight, now);
        providers.push(ProviderDials {
            provider,
            per_second,
            rate: health.rate(now),
            open: view.open,
            paused_until: view.paused_until,
            failure_score: health.failure_score,
            in_flight,
            calls_max: health.call_limit.calls_max(pacing.and_then(Pacing::calls_max), now),
            in_doubt: in_doubt.iter().filter(|call| call.provider == Some(provider)).count(),
            due: due.count,
            more_due: due.more,
            oldest_due: due.oldest,
        });
    }
    next.sort_by(|a, b| (a.due_at, &a.call_id).cmp(&(b.due_at, &b.call_id)));
    next.truncate(NEXT_MAX);
    Ok(DialReport { at: now, providers, in_doubt, expired_claims, next, unreadable, examined, more })
}

/// True if the number may not be called.
///
/// # Errors
/// The list could not be read.
pub async fn is_blocked(stack: &Stack, number: &PhoneNumber) -> Result<bool, Error> {
    Ok(DoNotCallList::new(&stack.calls, &stack.inbox).contains(number).await?)
}

/// Reads at most [`EXAMINED_MAX`] rows of the calls that the reconciler watches. The claims come first, and the calls in doubt are among
/// them. Then come the calls that it wakes first.
async fn open_calls(stack: &Stack) -> Result<OpenCalls, Error> {
    let range = Timestamp::from_millis(0)..=Timestamp::MAX;
    let limit = i32::try_from(EXAMINED_MAX).unwrap_or(i32::MAX);
    let shards =
        WakeQueue::OPEN.into_iter().flat_map(|queue| stack.calls.wake_shards().map(move |shard| (queue, shard)));
    let mut pages =
        stream::iter(shards)
            .map(|(queue, shard)| {
                let range = range.clone();
                async move {
                    Ok::<_, Error>((queue, stack.calls.wake_entries(queue, shard, range, false, limit, None).await?))
                }
            })
            .buffer_unordered(CONCURRENCY);
    let (mut entries, mut more) = (Vec::new(), false);
    while let Some((queue, (page, is_more))) = pages.try_next().await? {
        more |= is_more;
        entries.extend(page.into_iter().map(|entry| (queue != WakeQueue::Claims, entry)));
    }
    entries
        .sort_by(|(a_later, a), (b_later, b)| (a_later, a.wake_at, &a.call_id).cmp(&(b_later, b.wake_at, &b.call_id)));
    more |= entries.len() > EXAMINED_MAX;
    entries.truncate(EXAMINED_MAX);
    let Loaded { calls, unreadable } = stack.calls.load(entries.into_iter().map(|(_, entry)| entry.call_id)).await?;
    let examined = calls.len();
    Ok(OpenCalls { calls, unreadable: unreadable.into_iter().map(|(id, _)| id).collect(), examined, more })
}

/// Reads the calls that wait to be placed through a provider: counts those that are due, and names those that are due next.
async fn due(stack: &Stack, provider: Provider, now: Timestamp) -> Result<Due, Error> {
    let queues = [WakeQueue::Dial(provider), WakeQueue::DialAny(provider)];
    let next_max = i32::try_from(NEXT_MAX).unwrap_or(i32::MAX);
    let past = Timestamp::from_millis(0)..=now;
    let future = now.plus(Duration::from_millis(1))..=Timestamp::MAX;
    let reads: Vec<_> = queues
        .into_iter()
        .flat_map(|queue| stack.calls.wake_shards().map(move |shard| (queue, shard)))
        .flat_map(|place| [(place, past.clone(), COUNT_MAX), (place, future.clone(), next_max)])
        .collect();
    let mut pages = stream::iter(reads)
        .map(|((queue, shard), range, limit)| async move {
            let is_due = *range.start() <= now;
            let page = stack.calls.wake_entries(queue, shard, range, false, limit, None).await?;
            Ok::<_, Error>((is_due, page))
        })
        .buffer_unordered(CONCURRENCY);
    let mut due = Due::default();
    while let Some((is_due, (entries, is_more))) = pages.try_next().await? {
        if is_due {
            due.count += entries.len();
            due.more |= is_more;
            due.oldest = due.oldest.into_iter().chain(entries.first().map(|entry| entry.wake_at)).min();
        } else {
            due.next.extend(entries);
        }
    }
    Ok(due)
}
