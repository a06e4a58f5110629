//! Publishes the domain events of calls and entities again. This helps after the stream dropped records that were never relayed, and when
//! a subscriber lost its data.
//!
//! **The events are the same**: the function that the relay uses derives them from the announcements in the row, with the same ids
//! and the same content. A subscriber that handles each id once does not notice the repetition.
//!
//! The row of an entity holds only the domain events of its last write. The others are made from the stored events. An event that is
//! older than the memory of its entity may have been stale. It is published all the same, because leaving it out could lose it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use switchhook_aws::bus::{BATCH_MAX, Bus, OutboxEvent};
use switchhook_aws::calls::Calls;
use switchhook_domain::{CallId, EventId, Timestamp, WebhookReceived};

use crate::concurrent::{CONCURRENCY, concurrently};
use crate::dead_letters;
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::plan::{Action, LeftAlone, Plan, PlanItem, Verb};
use crate::selection::{self, Progress};
use crate::stack::Stack;

/// Time by which an event may have waited in the queue before the write whose announcements were not published.
const LOOK_BACK: Duration = Duration::from_secs(6 * 60 * 60);
/// Difference of the clocks of the stream and of the functions.
const CLOCK_MARGIN: Duration = Duration::from_secs(60);
/// Pauses before events that the bus refused are sent again, in milliseconds.
const REFUSED_PAUSES_MS: [u64; 5] = [200, 500, 1_000, 2_000, 4_000];

/// Calls and entities whose domain events are published again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepublishFilter {
    /// These calls. The key of an entity stands for the events that it remembers.
    Calls(Vec<CallId>),
    /// Calls that received an event or were settled since this time, open calls that were written since then, and the events of entities that were
    /// received since then.
    Since(#[serde(with = "crate::time_text")] Timestamp),
    /// Calls that were written since the relay gave up, as the messages of its failures queue say. Events of entities that may have
    /// been folded since then are selected too. With a time, only those that were written or received since then: a plan goes on there
    /// after one that reached its limit.
    Failed(#[serde(with = "crate::time_text::optional")] Option<Timestamp>),
}

/// Call, or entity with one of its events.
type Subject = (CallId, Option<EventId>);

/// Message that Lambda sends when the relay has given up on a part of the stream.
#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(rename = "DDBStreamBatchInfo")]
    batch: FailedBatch,
}

#[derive(Debug, Deserialize)]
struct FailedBatch {
    #[serde(rename = "approximateArrivalOfFirstRecord")]
    first_at: String,
}

/// Message of the failures queue, as far as a republish needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelayFailure {
    pub message_id: String,
    /// Time of the first record that was not published. The time of the message if it does not say.
    #[serde(with = "crate::time_text")]
    pub first_at: Timestamp,
}

/// Publishes the domain events of a call again. The id may be the derived id of an attempt, such as `retell:call_1`. Returns the
/// number of events. `None` if there is no such call.
///
/// # Errors
/// Returns the error of the table or the bus. A repetition is safe.
pub async fn republish_call(calls: &Calls, bus: &Bus, call_id: &CallId) -> Result<Option<u64>, switchhook_aws::Error> {
    match calls.resolve(call_id).await?.call {
        Some(call) => {
            publish(bus, call.domain_events_from(1).into_iter().map(OutboxEvent::from).collect()).await.map(Some)
        }
        None => Ok(None),
    }
}

/// Plans to publish the domain events of calls again.
///
/// # Errors
/// [`Refusal::EmptyFilter`], [`Refusal::FutureTime`], and the errors of the queue and of the tables.
pub async fn plan(
    stack: &Stack,
    filter: &RepublishFilter,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    let now = stack.now();
    let item = |(call_id, event_id): Subject| PlanItem { event_id, ..PlanItem::of_call(Action::Republish, call_id) };
    let (mut continue_at, mut examined) = (None, 0);
    let (mut items, failures): (Vec<PlanItem>, Vec<RelayFailure>) = match filter {
        RepublishFilter::Calls(calls) if calls.is_empty() => {
            return Err(Refusal::EmptyFilter("name a call with --call, or use --since or --failed").into());
        }
        RepublishFilter::Calls(calls) => {
            let mut subjects = Vec::new();
            for id in calls {
                subjects.extend(subjects_of(stack, id).await?);
            }
            (subjects.into_iter().map(item).collect(), Vec::new())
        }
        RepublishFilter::Since(since) => {
            selection::refuse_future(stack, *since).await?;
            let mut calls = selection::calls_since(&stack.inbox, &stack.calls, *since, now, progress).await?;
            selection::add_open_written_since(&stack.calls, *since, &mut calls).await?;
            let mut subjects: Vec<(Timestamp, Subject)> = calls.into_iter().flat_map(subjects_in).collect();
            examined = subjects.len();
            continue_at = selection::earliest(&mut subjects, items_max).filter(|at| at > since);
            (subjects.into_iter().map(|(_, subject)| item(subject)).collect(), Vec::new())
        }
        RepublishFilter::Failed(after) => {
            if let Some(after) = after {
                selection::refuse_future(stack, *after).await?;
            }
            let failures = failures(stack).await?;
            let mut subjects = written_since_failure(stack, &failures, *after, now, progress).await?;
            examined = subjects.len();
            continue_at =
                selection::earliest(&mut subjects, items_max).filter(|at| after.is_none_or(|after| *at > after));
            (subjects.into_iter().map(|(_, subject)| item(subject)).collect(), failures)
        }
    };
    let examined = examined.max(items.len());
    let capped = examined > items_max;
    items.truncate(items_max);
    // The messages are deleted last, and only by a plan that holds every call and event. Nobody knows whether the plans before a plan with a
    // time were carried out.
    let is_whole = !capped && matches!(filter, RepublishFilter::Failed(None));
    let messages = failures.iter().filter(|_| is_whole).map(|failure| PlanItem {
        messages: 1,
        ..PlanItem::of_key(Action::DeleteRelayFailure, failure.message_id.clone())
    });
    items.extend(messages);
    let filter = json!({ "republish": filter, "failures": failures });
    let not_found = Vec::new();
    let draft = Draft { verb: Verb::Republish, filter, items, capped, continue_at, examined, not_found };
    let mut plan = draft.work_out(stack).await?;
    let deletes_messages = plan.items.iter().any(|item| item.action == Action::DeleteRelayFailure);
    if deletes_messages && plan.skipped_count > plan.not_folded_count {
        // Without the messages, nobody would find again what this version cannot read.
        plan.items.retain(|item| item.action != Action::DeleteRelayFailure);
        let kept = "the messages of the relay stay in their queue, because a row or an event cannot be read";
        plan.warnings.push(kept.to_owned());
    }
    plan.store(stack).await?;
    Ok(plan)
}

/// Returns what the messages of the failures queue say. Receives them, and shows them again at once.
///
/// # Errors
/// The errors of the queue.
pub async fn failures(stack: &Stack) -> Result<Vec<RelayFailure>, Error> {
    let mut messages = Vec::new();
    let received = dead_letters::receive(stack, &stack.relay_failures_queue, |more| {
        messages.extend(more);
        true
    });
    received.await?;
    let failure = |message: switchhook_aws::queue::ReceivedMessage| {
        let content: Option<Failure> = serde_json::from_str(&message.body).ok();
        let first_at = content.and_then(|content| Timestamp::parse_rfc3339(&content.batch.first_at));
        // The relay gives a record up when it is 21 hours old, so it is not older than a day.
        let first_at = first_at.unwrap_or_else(|| message.sent_at.minus(Duration::from_secs(24 * 60 * 60)));
        RelayFailure { message_id: message.message_id, first_at }
    };
    Ok(messages.into_iter().map(failure).collect())
}

/// Returns what a named id stands for.
async fn subjects_of(stack: &Stack, id: &CallId) -> Result<Vec<Subject>, Error> {
    let whole = || vec![(id.clone(), None)];
    if !id.is_entity() {
        return Ok(whole());
    }
    match stack.calls.entity(id).await {
        Ok(Some(entity)) => {
            Ok(entity.latest.into_iter().map(|position| (id.clone(), Some(position.event_id))).collect())
        }
        // The forecast says why there is nothing to publish.
        Ok(None) => Ok(whole()),
        Err(error) if error.is_unreadable() => Ok(whole()),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a selected id stands for: a call, or each of its events in the period if it is an entity.
fn subjects_in((id, selected): (CallId, selection::Selected)) -> Vec<(Timestamp, Subject)> {
    if id.is_entity() {
        selected.events.into_iter().map(|(at, event_id)| (at, (id.clone(), Some(event_id)))).collect()
    } else {
        vec![(selected.last_at, (id, None))]
    }
}

/// Publishes the domain events of these items. What cannot be read is left alone, and the others go on.
pub(crate) async fn republish(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let groups = items.chunk_by(|a, b| a.call_id == b.call_id);
    let published = groups.map(|items| async move {
        match items.first().and_then(|item| item.call_id.as_ref()) {
            Some(key) if key.is_entity() => republish_entity(stack, key, items).await,
            Some(call_id) => republish_whole(stack, call_id, items).await,
            None => Ok(Vec::new()),
        }
    });
    Ok(concurrently(CONCURRENCY, published).await?.into_iter().flatten().collect())
}

async fn republish_whole(stack: &Stack, call_id: &CallId, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let left = |reason: String| Ok(items.iter().map(|item| (item.clone(), reason.clone())).collect());
    match republish_call(&stack.calls, &stack.bus, call_id).await {
        Ok(Some(_)) => Ok(Vec::new()),
        Ok(None) => left("the call does not exist".to_owned()),
        Err(error) if error.is_unreadable() => left(error.to_string()),
        Err(error) => Err(Error::from(error)),
    }
}

/// Publishes the domain events of events of one entity, in their order.
async fn republish_entity(stack: &Stack, key: &CallId, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let entity = match stack.calls.entity(key).await {
        Ok(entity) => entity,
        Err(error) if error.is_unreadable() => {
            return Ok(items.iter().map(|item| (item.clone(), error.to_string())).collect());
        }
        Err(error) => return Err(error.into()),
    };
    let in_row = entity.map(|entity| entity.domain_events()).unwrap_or_default();
    let (mut events, mut left) = (Vec::new(), Vec::new());
    for item in items {
        let Some(id) = &item.event_id else { continue };
        let event = match in_row.iter().find(|event| event.event_id == id.as_str()) {
            Some(event) => Ok(Some(event.clone())),
            None => stack.inbox.get_normalized(id).await.map(|event| WebhookReceived::of_event(&event?)),
        };
        match event {
            Ok(Some(event)) => events.push(event),
            Ok(None) => left.push((item.clone(), "the inbox no longer holds the event".to_owned())),
            Err(error) if error.is_unreadable() => {
                left.push((item.clone(), error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Times of this form sort as their text does.
    events.sort_by(|a, b| (&a.occurred_at, a.sequence, &a.event_id).cmp(&(&b.occurred_at, b.sequence, &b.event_id)));
    publish(&stack.bus, events.into_iter().map(OutboxEvent::OfEntity).collect()).await?;
    Ok(left)
}

/// Deletes messages of the failures queue. A message that is gone is not an error. Returns the items whose messages did not come.
pub(crate) async fn delete_failures(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    dead_letters::delete_messages(stack, &stack.relay_failures_queue, items, |item| item.key.as_deref()).await
}

/// Returns the calls and events that were written since the first failure, and since `after`, with their times. Such calls are open, or were
/// settled up to three days before, or received an event since then or shortly before. The events of entities that arrived in this time may have been
/// folded since the failure.
async fn written_since_failure(
    stack: &Stack,
    failures: &[RelayFailure],
    after: Option<Timestamp>,
    now: Timestamp,
    progress: Progress<'_>,
) -> Result<Vec<(Timestamp, Subject)>, Error> {
    let Some(first_at) = failures.iter().map(|failure| failure.first_at).min() else { return Ok(Vec::new()) };
    let from = first_at.minus(CLOCK_MARGIN);
    let since = after.into_iter().fold(from, Timestamp::max);
    let received = selection::changed_since(&stack.inbox, &stack.calls, from.minus(LOOK_BACK), now, progress).await?;
    let (entities, calls): (selection::SelectedCalls, selection::SelectedCalls) =
        received.into_iter().partition(|(id, _)| id.is_entity());
    let of_entities = entities.into_iter().flat_map(subjects_in);
    let of_entities = of_entities.filter(|(at, _)| after.is_none_or(|after| *at >= after));
    let mut candidates: BTreeSet<CallId> = calls.into_keys().collect();
    candidates.extend(selection::open_calls(&stack.calls).await?);
    let subject = |call_id: CallId| -> Subject { (call_id, None) };
    let written = candidates.into_iter().map(|call_id| async move {
        match stack.calls.resolve(&call_id).await {
            Ok(resolved) => {
                let call = resolved.call.filter(|call| call.updated_at >= since);
                Ok(call.map(|call| (call.updated_at, subject(call.call_id))))
            }
            // The run names a row that cannot be read.
            Err(error) if error.is_unreadable() => Ok(Some((since, subject(call_id)))),
            Err(error) => Err(Error::from(error)),
        }
    });
    let written = concurrently(CONCURRENCY, written).await?.into_iter().flatten();
    // Two ids may lead to one call.
    let unique: BTreeSet<(Timestamp, Subject)> = written.chain(of_entities).collect();
    Ok(unique.into_iter().collect())
}

/// Publishes domain events. The bus refuses single events above its rate limit, and the SDK repeats whole requests alone. So refused events
/// are sent again, after growing pauses.
async fn publish(bus: &Bus, events: Vec<OutboxEvent>) -> Result<u64, switchhook_aws::Error> {
    for chunk in events.chunks(BATCH_MAX) {
        let mut left: Vec<&OutboxEvent> = chunk.iter().collect();
        let mut pauses = REFUSED_PAUSES_MS.into_iter();
        loop {
            let refused = bus.publish(left.iter().copied()).await?;
            let Some((_, reason)) = refused.first() else { break };
            let Some(pause) = pauses.next() else { return Err(switchhook_aws::Error::PublishRefused(reason.clone())) };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            left = refused.iter().filter_map(|(at, _)| left.get(*at).copied()).collect();
        }
    }
    Ok(events.len() as u64)
}
