//! Benchmark of a running stack: webhooks of invented calls at a fixed rate, the answers, and the time until each webhook is applied.
//!
//! **A benchmark leaves nothing behind.** The names of its calls and events follow from its id, so they can be removed by the id alone, also
//! after a benchmark that was killed. Only counts in metrics and log lines stay, and subscribers see the domain events.
//!
//! The time of an answer includes a new connection. The time until an event is applied is from its receipt by ingress to its fold by the
//! consumer, by the clocks of the stack. The metric `received_to_applied_ms` has the same time.

mod consumed;
mod id;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use serde_json::{Value, json};
use switchhook_aws::sdk::Patience;
use switchhook_domain::{CallId, EventId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::check::{StoredKey, url_of_webhooks};
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::{Error, Refusal};
use crate::stack::{Address, Stack};
use crate::web;

pub use consumed::Consumed;
pub use id::{BenchId, NotABenchId};

/// Default number of calls.
pub const CALLS_DEFAULT: u32 = 20;
/// Largest number of calls.
pub const CALLS_MAX: u32 = 10_000;
/// Default rate, in webhooks per second.
pub const RATE_DEFAULT: u32 = 10;
/// Largest rate, in webhooks per second.
pub const RATE_MAX: u32 = 1_000;
/// Webhooks of each call, in their order. Of all endings, the last one means least to a subscriber.
const STORY: [&str; 3] = ["call.initiated", "call.ringing", "call.canceled"];
/// Webhooks that wait for their answers at the same time.
const SENDERS: usize = 200;
/// Time between two looks at the calls.
const POLL: Duration = Duration::from_millis(500);

/// Options of a benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    pub calls: u32,
    /// Webhooks per second.
    pub rate: u32,
    /// Base URL that providers post to, if it is not the output `ApiUrl`: a custom domain, or CloudFront.
    pub webhook_url: Option<String>,
    /// Longest wait, after the last answer, until all accepted webhooks are applied.
    pub timeout: Duration,
    /// True if the units of the tables are read too. On AWS that takes up to four minutes more.
    pub units: bool,
}

/// Milliseconds of many events, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

/// Result of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub bench_id: String,
    /// Webhooks that were to be sent.
    pub webhooks: u64,
    /// Webhooks that were sent. Fewer, if the benchmark was stopped.
    pub sent: u64,
    /// Seconds from the first webhook to the last answer.
    pub seconds: f64,
    /// Webhooks that were sent per second.
    pub per_second: f64,
    /// Number of each answer, such as `200 accepted`, `429` or `no answer`.
    pub answers: BTreeMap<String, u64>,
    /// Webhooks that were accepted.
    pub accepted: u64,
    /// Time from the sending of a webhook to its answer, in milliseconds. `None` without an answer.
    pub answer_ms: Option<Spread>,
    /// Time from the receipt of a webhook to its fold, in milliseconds. `None` if none was applied.
    pub applied_ms: Option<Spread>,
    /// Accepted webhooks that were not applied in time.
    pub not_applied: u64,
    /// Units of the tables and messages per webhook. `None` if they were not asked for, or ingress received nothing.
    pub consumed: Option<Consumed>,
    /// Calls that were not removed, because an event of theirs may still be folded.
    pub left: u64,
}

impl Report {
    /// True if all webhooks were sent, accepted and applied.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        self.accepted == self.webhooks && self.not_applied == 0
    }
}

impl Spread {
    /// `None` without values.
    #[must_use]
    pub fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let rank = |percent: usize| values.get((values.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Self { p50: rank(50)?, p95: rank(95)?, p99: rank(99)?, max: rank(100)? })
    }
}

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of webhooks whose answers have come, or were waited for in vain.
    Answered(u64),
    /// The webhooks of this number of calls are not applied yet.
    WaitsUntilApplied(usize),
    /// The metrics of AWS come late.
    WaitsForMetrics,
}

/// One webhook of a benchmark.
struct Webhook {
    call: u32,
    event_type: &'static str,
}

/// Answer to one webhook, and the milliseconds until it came.
enum Answer {
    Accepted(EventId, u64),
    Other(String, u64),
    Missing,
}

/// Sends webhooks to a running stack, waits until they are applied, and removes them. Calls `started` before the first webhook.
///
/// Each future of `stopped` ends one part of the benchmark: the first one the sending, and the second one the wait. The webhooks are removed
/// all the same.
///
/// # Errors
/// [`Refusal::NoKey`] if the stack has no key of the generic provider, and the errors of the tables. Another answer to a webhook is a
/// result, not an error.
pub async fn bench<S: Future<Output = ()>>(
    address: &Address,
    options: &Options,
    stopped: impl Fn() -> S,
    started: &mut (dyn FnMut(&Stack, &BenchId) + Send),
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, Error> {
    let stack = Stack::connect(address, Patience::Short).await?;
    let (key, _) = StoredKey::read(&stack)
        .await
        .map_err(|found| Refusal::NoKey { text: found.text, advice: found.advice.unwrap_or_default() })?;
    let id = BenchId::new(options.calls)?;
    started(&stack, &id);
    let url = url_of_webhooks(&stack, options.webhook_url.as_deref());
    // The webhooks of a call are far apart, as in real traffic.
    let webhooks: Vec<Webhook> =
        STORY.iter().flat_map(|event_type| (0..options.calls).map(|call| Webhook { call, event_type })).collect();
    let planned = webhooks.len() as u64;
    let (sending, is_sending) = watch::channel(true);
    let first_sent_at = stack.now();
    let (began, pause) = (Instant::now(), Duration::from_secs(1) / options.rate.max(1));
    let (stack_ref, key, id_ref, url) = (&stack, &key, &id, url.as_str());
    let mut answers = stream::iter(webhooks.into_iter().zip(0_u32..))
        .map(|(webhook, number)| {
            let mut is_sending = is_sending.clone();
            async move {
                tokio::select! {
                    biased;
                    () = async { drop(is_sending.wait_for(|is_sending| !is_sending).await) } => Ok(None),
                    () = sleep_until(began + pause * number) => {
                        post(stack_ref, key, id_ref, url, &webhook).await.map(Some)
                    }
                }
            }
        })
        .buffer_unordered(SENDERS);
    let mut stop = std::pin::pin!(stopped());
    let (mut counts, mut answer_ms, mut accepted) = (BTreeMap::<String, u64>::new(), Vec::new(), BTreeSet::new());
    let (mut sent, mut failed) = (0, None);
    loop {
        let answer = tokio::select! {
            answer = answers.next() => answer,
            () = &mut stop => {
                stop.set(stopped());
                sending.send_replace(false);
                continue;
            }
        };
        let text = match answer {
            None => break,
            Some(Ok(None)) => continue,
            Some(Ok(Some(Answer::Accepted(event_id, took)))) => {
                accepted.insert(event_id);
                answer_ms.push(took);
                "200 accepted".to_owned()
            }
            Some(Ok(Some(Answer::Other(text, took)))) => {
                answer_ms.push(took);
                text
            }
            Some(Ok(Some(Answer::Missing))) => "no answer".to_owned(),
            Some(Err(error)) => {
                // The webhooks that were sent before are removed all the same.
                sending.send_replace(false);
                failed.get_or_insert(error);
                continue;
            }
        };
        sent += 1;
        *counts.entry(text).or_default() += 1;
        progress(Progress::Answered(sent));
    }
    drop(answers);
    let seconds = began.elapsed().as_secs_f64();
    let mut applied = BTreeMap::new();
    let waited = tokio::select! {
        biased;
        () = &mut stop => {
            sending.send_replace(false);
            Ok(())
        }
        waited = wait_until_applied(&stack, &id, &accepted, options.timeout, &mut applied, progress) => waited,
    };
    failed = failed.or(waited.err());
    // The removal consumes units too.
    let is_read = options.units && failed.is_none() && *is_sending.borrow();
    let consumed = tokio::select! {
        biased;
        () = &mut stop, if is_read => Ok(None),
        consumed = Consumed::read(&stack, first_sent_at, progress), if is_read => consumed,
        else => Ok(None),
    };
    let Removed { left, .. } = remove(&stack, &id).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    #[expect(clippy::cast_precision_loss, reason = "a benchmark sends some thousand webhooks")]
    let per_second = sent as f64 / seconds;
    let report = Report {
        bench_id: id.to_string(),
        webhooks: planned,
        sent,
        seconds,
        per_second,
        answers: counts,
        accepted: accepted.len() as u64,
        answer_ms: Spread::of(answer_ms),
        not_applied: (accepted.len() - applied.len()) as u64,
        applied_ms: Spread::of(applied.into_values().collect()),
        consumed: consumed?,
        left,
    };
    Ok(report)
}

/// Calls of a benchmark that were removed with their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Removed {
    pub removed: u64,
    /// Calls that stay, because an event of theirs may still be folded.
    pub left: u64,
}

/// Removes the calls and events of a benchmark that was killed, or whose events were applied only after its end.
///
/// # Errors
/// The stack could not be reached, and the errors of the tables. A repetition is safe.
pub async fn clean_up(address: &Address, id: &BenchId) -> Result<Removed, Error> {
    let stack = Stack::connect(address, Patience::Short).await?;
    remove(&stack, id).await
}

async fn post(stack: &Stack, key: &StoredKey, id: &BenchId, url: &str, webhook: &Webhook) -> Result<Answer, Error> {
    let Webhook { call, event_type } = webhook;
    let (now, call_id) = (stack.now(), id.call_id(*call));
    let body = json!({
        "event_id": id.event_name(*call, event_type), "event_type": event_type, "occurred_at": now.to_string(),
        "call_id": call_id.as_str(), "call": {"sid": call_id.as_str()},
    });
    let Some(request) = key.signed_webhook(url, body.to_string().into_bytes(), now)? else {
        let (text, advice) = ("the key signs nothing".to_owned(), "give the generic provider a key".to_owned());
        return Err(Refusal::NoKey { text, advice }.into());
    };
    let sent_at = Instant::now();
    let Ok(answer) = web::send_in_background(request, web::TIMEOUT).await else { return Ok(Answer::Missing) };
    let took = u64::try_from(sent_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let text = |name: &str| json.get(name).and_then(Value::as_str);
    Ok(match (answer.status, text("status"), text("error")) {
        (200, Some("accepted"), _) => Answer::Accepted(id.event_id(*call, event_type), took),
        (status, Some(word), _) | (status, None, Some(word)) => Answer::Other(format!("{status} {word}"), took),
        (status, None, None) => Answer::Other(status.to_string(), took),
    })
}

/// Waits until the events are in their calls. Adds the milliseconds from receipt to fold of those that are.
async fn wait_until_applied(
    stack: &Stack,
    id: &BenchId,
    events: &BTreeSet<EventId>,
    timeout: Duration,
    applied: &mut BTreeMap<EventId, u64>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), Error> {
    let give_up_at = Instant::now() + timeout;
    let is_open = |call: &u32, applied: &BTreeMap<EventId, u64>| {
        let of_call = STORY.map(|event_type| id.event_id(*call, event_type));
        of_call.iter().any(|event| events.contains(event) && !applied.contains_key(event))
    };
    let mut open: Vec<u32> = (0..id.calls()).filter(|call| is_open(call, applied)).collect();
    let mut is_told = false;
    while !open.is_empty() {
        let reads = open.iter().map(|call| async { stack.calls.get_call(&id.call_id(*call)).await });
        for call in concurrently(CONCURRENCY, reads).await?.into_iter().flatten() {
            for entry in call.history.iter().filter(|entry| events.contains(&entry.source_event_id)) {
                let took = entry.folded_at.millis_since(entry.received_at);
                applied.insert(entry.source_event_id.clone(), u64::try_from(took).unwrap_or_default());
            }
        }
        open.retain(|call| is_open(call, applied));
        if open.is_empty() || Instant::now() >= give_up_at {
            break;
        }
        if !is_told {
            progress(Progress::WaitsUntilApplied(open.len()));
            is_told = true;
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Removes the calls with their events. A call stays if the inbox holds an event of the call that is not folded.
async fn remove(stack: &Stack, id: &BenchId) -> Result<Removed, Error> {
    let removed = (0..id.calls()).map(|call| async move {
        let call_id: CallId = id.call_id(call);
        let row = stack.calls.get_call(&call_id).await?;
        let events = STORY.map(|event_type| id.event_id(call, event_type));
        for event in &events {
            let is_folded = row.as_ref().is_some_and(|row| row.contains_event(event));
            if !is_folded && stack.inbox.get(event).await?.is_some() {
                return Ok(Removed { removed: 0, left: 1 });
            }
        }
        // The sweep would queue an event again that its call lacks.
        for event in &events {
            stack.inbox.remove(event).await?;
        }
        stack.calls.remove(&call_id).await?;
        Ok::<_, Error>(Removed { removed: u64::from(row.is_some()), left: 0 })
    });
    let all = concurrently(CONCURRENCY, removed).await?;
    Ok(Removed { removed: all.iter().map(|one| one.removed).sum(), left: all.iter().map(|one| one.left).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_by_nearest_rank() {
        assert_eq!(Spread::of(Vec::new()), None);
        assert_eq!(Spread::of(vec![7]), Some(Spread { p50: 7, p95: 7, p99: 7, max: 7 }));
        let hundred = Spread::of((1..=100).rev().collect());
        assert_eq!(hundred, Some(Spread { p50: 50, p95: 95, p99: 99, max: 100 }));
    }
}
