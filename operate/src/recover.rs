//! Recovery after a disaster: an inbox that lost events, and calls whose dials are forgotten. [`copy`](crate::copy) copies restored tables.
//!
//! `docs/recovery.md` says which of them a disaster needs, and in which order. [`verify`](crate::verify) does the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use switchhook_aws::calls::{TimeRange, WakeQueue};
use switchhook_aws::inbox::{NewEvent, PutOutcome, Reread, StoredEvent};
use switchhook_domain::{Call, CallId, Disposition, Job, ProviderEvent, Timestamp, TraceId};

use crate::concurrent::{CONCURRENCY, concurrently};
use crate::draft::Draft;
use crate::error::Error;
use crate::plan::{Action, LeftAlone, Plan, PlanItem, Verb};
use crate::reread::ReadAnew;
use crate::selection::{self, Progress};
use crate::stack::Stack;

/// Time after the end of a call in which a late event may still change it.
const LATE: Duration = Duration::from_secs(24 * 60 * 60);

/// Plans to write the events into the inbox that it has lost since `since` and the rows of the calls still hold. Finds late events of calls that
/// were settled up to three days before `since`.
///
/// # Errors
/// [`Refusal::FutureTime`](crate::Refusal::FutureTime), and the errors of the tables.
pub async fn plan_refill(
    stack: &Stack,
    since: Timestamp,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    selection::refuse_future(stack, since).await?;
    let now = stack.now();
    let selected = selection::changed_since(&stack.inbox, &stack.calls, since, now, progress).await?;
    let open: BTreeSet<CallId> = selection::open_calls(&stack.calls).await?.into_iter().collect();
    let calls: BTreeSet<&CallId> = selected.keys().chain(&open).collect();
    let times = |call: Call| (selection::written_at(&call), call.call_id);
    let Rows { kept: rows, unreadable } = read_rows(stack, calls.into_iter().cloned().collect(), &times).await?;
    let examined = rows.len() + unreadable.len();
    // An open call is selected whenever it was written. Any other is selected up to the time that its selection names.
    let found_until = |call_id: &CallId, written_at: Timestamp| {
        let last_at = selected.get(call_id).filter(|_| !open.contains(call_id)).map(|found| found.last_at);
        last_at.map_or(written_at, |at| at.min(written_at))
    };
    let written = rows.into_iter().filter(|(written_at, _)| *written_at >= since);
    let mut calls: Vec<(Timestamp, CallId)> =
        written.map(|(written_at, call_id)| (found_until(&call_id, written_at), call_id)).collect();
    calls.extend(unreadable.into_iter().map(|call_id| (found_until(&call_id, now), call_id)));
    let capped = calls.len() > items_max;
    let continue_at = selection::earliest(&mut calls, items_max).filter(|at| *at > since);
    let items = calls.into_iter().map(|(_, call_id)| PlanItem::of_call(Action::Refill, call_id)).collect();
    let filter = json!({ "since": since.to_string() });
    Draft { verb: Verb::Refill, filter, items, capped, continue_at, examined, not_found: Vec::new() }
        .into_plan(stack)
        .await
}

/// Plans to end the placed calls whose dials since `since` nobody may know: calls that were created before, and are open or ended
/// shortly before. A call that a booking called off is among them, because the booking may have come back. With `keep_not_due`, calls that are not due yet stay.
///
/// # Errors
/// [`Refusal::FutureTime`](crate::Refusal::FutureTime), and the errors of the tables.
pub async fn plan_stop(stack: &Stack, since: Timestamp, keep_not_due: bool, items_max: usize) -> Result<Plan, Error> {
    selection::refuse_future(stack, since).await?;
    let now = stack.now();
    let mut calls = selection::open_calls(&stack.calls).await?;
    for shard in stack.calls.wake_shards() {
        let range = TimeRange::Since(since.minus(LATE));
        let mut pages = stack.calls.wake_queue_pages(WakeQueue::Settled, shard, range, None);
        while let Some(page) = pages.next().await? {
            calls.extend(page.items);
        }
    }
    let is_later = |call: &Call| match call.job {
        Job::Pending { due_at } => due_at > now,
        // Its booking has called it off, and may call it back.
        Job::Canceled => call.plan.as_ref().is_some_and(|plan| plan.due_at > now),
        Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed => false,
    };
    let stopped = |call: Call| {
        let is_stopped = call.created_at <= since
            && call.stop_unknown(&stack.policy(), now).is_some()
            && !(keep_not_due && is_later(&call));
        is_stopped.then(|| PlanItem::of_call(Action::Stop, call.call_id))
    };
    let Rows { kept: rows, unreadable } = read_rows(stack, calls, &stopped).await?;
    let examined = rows.len() + unreadable.len();
    let mut items: Vec<PlanItem> = rows.into_iter().flatten().collect();
    // They come last, because no number of repetitions takes them off the plan.
    items.extend(unreadable.into_iter().map(|call_id| PlanItem::of_call(Action::Stop, call_id)));
    let filter = json!({ "since": since.to_string(), "keep_not_due": keep_not_due });
    let capped = items.len() > items_max;
    items.truncate(items_max);
    Draft { verb: Verb::Stop, filter, items, capped, continue_at: None, examined, not_found: Vec::new() }
        .into_plan(stack)
        .await
}

/// Writes into the inbox what the rows of these calls hold: their creations, their dials, and their events. What the inbox holds
/// already stays as it is, with three exceptions. An event gets the meaning that it has in the row. Forgotten persons are erased. A
/// cancellation goes which its booking took back.
pub(crate) async fn refill(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let refilled = items.iter().map(|item| async move {
        let Some(call_id) = &item.call_id else { return Ok(None) };
        let left = match stack.calls.get_call(call_id).await {
            Ok(Some(call)) => refill_call(stack, &call).await?,
            Ok(None) => Some("the call does not exist".to_owned()),
            Err(error) if error.is_unreadable() => Some(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        Ok::<_, Error>(left.map(|reason| (item.clone(), reason)))
    });
    Ok(concurrently(CONCURRENCY, refilled).await?.into_iter().flatten().collect())
}

/// Refills the inbox from one row. A stored item that cannot be read, or an event that does not get its meaning back, does not keep the others
/// from being written. Then the first reason is returned.
async fn refill_call(stack: &Stack, call: &Call) -> Result<Option<String>, Error> {
    let (now, mut left) = (stack.now(), Vec::new());
    if let Some(creation) = call.creation() {
        let trace_id = creation.call.plan.trace_id.as_ref().map_or("", TraceId::as_str);
        left.extend(unreadable(stack.inbox.put_creation(&creation, trace_id).await)?);
    }
    if let (Some(plan), Some(forgotten_at)) = (&call.plan, call.forgotten_at) {
        let erased =
            stack.inbox.put_erased_creation(&call.call_id, call.created_at, plan.kept_from(), forgotten_at).await;
        left.extend(unreadable(erased)?);
    }
    if call.plan.is_some() && call.stop_reason.is_none() {
        // The booking came back after the time to which the inbox was restored. With the old record, the call could not be dialled.
        left.extend(unreadable(stack.inbox.lift_cancellation(&call.call_id).await)?);
    }
    let kept_from = call.plan.as_ref().map_or(now, switchhook_domain::Plan::kept_from);
    for dial in call.dials() {
        left.extend(unreadable(stack.inbox.record_dial(&call.call_id, &dial, kept_from, now).await)?);
    }
    left.extend(unreadable(record_stop(stack, call).await)?);
    for event in call.held_events() {
        left.extend(refill_event(stack, call, &event).await?);
        // A restored inbox may hold the event as it was before the person was forgotten.
        if let Some(forgotten_at) = call.forgotten_at {
            left.extend(unreadable(stack.inbox.erase(&event.event_id, forgotten_at).await)?);
        }
    }
    Ok(left.into_iter().next())
}

/// Records in the inbox why a call was canceled or stopped. So it stays so if its row is lost. The inbox records no other reason.
pub(crate) async fn record_stop(stack: &Stack, call: &Call) -> Result<(), switchhook_aws::Error> {
    let Some(reason) = call.stop_reason.filter(|reason| reason.is_recorded()) else { return Ok(()) };
    let kept_from = call.plan.as_ref().map(switchhook_domain::Plan::kept_from);
    stack.inbox.record_cancellation(&call.call_id, reason, kept_from, stack.now()).await
}

/// Writes one event of a row into the inbox. Returns why it does not get its meaning back, or why the stored event cannot be read.
async fn refill_event(stack: &Stack, call: &Call, event: &ProviderEvent) -> Result<Option<String>, Error> {
    let written = async {
        match stack.inbox.put(&NewEvent::from_row(event)?).await? {
            PutOutcome::Stored => Ok(None),
            PutOutcome::Duplicate { stored, .. } => give_meaning(stack, call, &stored, event).await,
        }
    };
    match written.await {
        Err(Error::Aws(error)) => unreadable::<()>(Err(error)),
        other => other,
    }
}

/// Returns the error of an item that cannot be read. Any other error stops the run.
fn unreadable<T>(written: Result<T, switchhook_aws::Error>) -> Result<Option<String>, Error> {
    match written {
        Ok(_) => Ok(None),
        Err(error) if error.is_unreadable() => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Gives a stored event the meaning that it has in the row of its call. A restored inbox may hold the event as it was before an operator had
/// it read again. An event that this version and the entry of its provider read in another way than the row stays as it is. Then the reason is
/// returned, if a refold would take the event out of the row.
async fn give_meaning(
    stack: &Stack,
    call: &Call,
    stored: &StoredEvent,
    held: &ProviderEvent,
) -> Result<Option<String>, Error> {
    if stored.disposition.is_none() && stored.provider_to_ask().is_none() {
        return Ok(None);
    }
    let reason = match stack.read_anew(stored).await? {
        ReadAnew::Read(Reread::Foldable(event)) if event.call_events == held.call_events => {
            let found = stack.calls.resolve(&event.call_id).await?.call;
            if found.is_some_and(|found| found.call_id == call.call_id) {
                // The event is in its row, so it needs no attention even if this run is interrupted now.
                if stored.disposition == Some(Disposition::Quarantined) {
                    stack.inbox.clear_attention(stored.event_id.as_str()).await?;
                }
                stack.make_foldable(stored, &event).await?;
                return Ok(None);
            }
            "it is read as an event of another call than the row".to_owned()
        }
        ReadAnew::Read(Reread::Erased) => return Ok(None),
        ReadAnew::Read(Reread::Foldable(_) | Reread::Recorded | Reread::Quarantined(_)) => {
            "it is read in another way than the row has it".to_owned()
        }
        ReadAnew::NoEntry(reason) => reason,
    };
    // An event that is foldable stays in its call.
    Ok(stored.disposition.map(|_| format!("{}: {reason}", stored.event_id)))
}

/// Rows of calls that were read.
struct Rows<T> {
    kept: Vec<T>,
    /// Calls whose rows cannot be read. A plan of them names them.
    unreadable: Vec<CallId>,
}

/// Reads the rows of calls, and keeps of each what `kept` returns: a row takes kilobytes, and there may be a million.
async fn read_rows<T: Send>(
    stack: &Stack,
    calls: Vec<CallId>,
    kept: &(impl Fn(Call) -> T + Sync),
) -> Result<Rows<T>, Error> {
    let read = calls.iter().map(|call_id| async move {
        match stack.calls.get_call(call_id).await {
            Err(error) if error.is_unreadable() => Ok(Some(Err(call_id.clone()))),
            Err(error) => Err(error),
            Ok(call) => Ok(call.map(|call| Ok(kept(call)))),
        }
    });
    let mut rows = Rows { kept: Vec::new(), unreadable: Vec::new() };
    for row in concurrently(CONCURRENCY, read).await?.into_iter().flatten() {
        match row {
            Ok(row) => rows.kept.push(row),
            Err(call_id) => rows.unreadable.push(call_id),
        }
    }
    Ok(rows)
}
