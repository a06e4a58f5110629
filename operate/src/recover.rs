//! Recovery after a disaster: copies of restored tables, an inbox that lost events, and calls whose dials are forgotten.
//!
//! `docs/recovery.md` says which of them a disaster needs, and in which order. [`verify`](crate::verify) does the rest.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use switchhook_aws::calls::{TimeRange, WAKE_SHARDS, WakeQueue};
use switchhook_aws::dynamodb::{CopyCounts, copy_items};
use switchhook_aws::inbox::{NewEvent, PutOutcome};
use switchhook_domain::{Call, CallId, Job, Timestamp, TraceId};

use crate::concurrent::concurrently;
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::plan::{Action, LeftAlone, Plan, PlanItem, Verb};
use crate::selection::{self, Progress};
use crate::stack::Stack;

/// Time after the end of a call in which a late event may still change it.
const LATE: Duration = Duration::from_secs(24 * 60 * 60);
/// Rows read at the same time.
const CONCURRENCY: usize = 16;

/// Tables whose items are copied into the tables of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFrom {
    pub inbox: Option<String>,
    pub calls: Option<String>,
}

/// Result of copying tables. `None` for a table that was not copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    pub inbox: Option<Copied>,
    pub calls: Option<Copied>,
}

/// Items of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Items that were copied.
    pub copied: u64,
    /// Items that the table of the stack has already. They were left alone.
    pub present: u64,
    /// Items whose time is over, which were not copied.
    pub expired: u64,
}

/// Copies the items of restored or retained tables into the tables of the stack: the inbox first, because it knows which calls were
/// dialled. An item whose key the table of the stack has stays as it is there, so a repetition is safe. `progress` gets the number
/// of items of the present table that were read.
///
/// # Errors
/// [`Refusal::EmptyFilter`] if no table is named, [`Refusal::SameTable`] if a table would be copied into itself, and the errors of
/// the tables.
pub async fn copy(stack: &Stack, from: &CopyFrom, progress: &mut (dyn FnMut(u64) + Send)) -> Result<CopyReport, Error> {
    if *from == CopyFrom::default() {
        return Err(Refusal::EmptyFilter("name a table with --inbox-from or --calls-from").into());
    }
    let tables = [
        (from.inbox.as_ref(), &stack.names.inbox_table, "event_id"),
        (from.calls.as_ref(), &stack.names.calls_table, "call_id"),
    ];
    for (from, to, _) in tables {
        if from == Some(to) {
            return Err(Refusal::SameTable(to.clone()).into());
        }
    }
    let mut copied = [None, None];
    for (copied, (from, to, key)) in copied.iter_mut().zip(tables) {
        let Some(from) = from else { continue };
        let CopyCounts { copied: new, present, expired } =
            copy_items(&stack.dynamodb, from, to, key, stack.now(), progress).await?;
        *copied = Some(Copied { copied: new, present, expired });
    }
    let [inbox, calls] = copied;
    Ok(CopyReport { inbox, calls })
}

/// Plans to write the events into the inbox that it has lost since `since` and the rows of the calls still hold.
///
/// # Errors
/// The errors of the tables.
pub async fn plan_refill(
    stack: &Stack,
    since: Timestamp,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    let now = stack.now();
    let mut calls = selection::calls_since(&stack.inbox, &stack.calls, since, now, progress).await?;
    for call_id in selection::open_calls(&stack.calls).await? {
        calls.entry(call_id).or_default();
    }
    let rows = read_rows(stack, calls.into_keys().collect()).await?;
    let written = rows.iter().filter(|call| call.updated_at >= since);
    let items: Vec<PlanItem> = written.map(|call| PlanItem::of_call(Action::Refill, call.call_id.clone())).collect();
    into_plan(stack, Verb::Refill, json!({ "since": since.to_string() }), items, rows.len(), items_max).await
}

/// Plans to end the placed calls whose dials since `since` nobody may know: calls that were created before, and are open or ended
/// shortly before. With `keep_not_due`, calls that are not due yet stay.
///
/// # Errors
/// The errors of the tables.
pub async fn plan_stop(stack: &Stack, since: Timestamp, keep_not_due: bool, items_max: usize) -> Result<Plan, Error> {
    let now = stack.now();
    let mut calls = selection::open_calls(&stack.calls).await?;
    for shard in 0..WAKE_SHARDS {
        let range = TimeRange::Since(since.minus(LATE));
        let mut pages = stack.calls.wake_queue_pages(WakeQueue::Settled, shard, range, None, None);
        while let Some(page) = pages.next().await? {
            calls.extend(page.items);
        }
    }
    let rows = read_rows(stack, calls).await?;
    let is_later = |call: &Call| matches!(call.job, Job::Pending { due_at } if due_at > now);
    let stopped = rows.iter().filter(|call| {
        call.created_at <= since
            && call.stop_unknown(&stack.policy(), now).is_some()
            && !(keep_not_due && is_later(call))
    });
    let items: Vec<PlanItem> = stopped.map(|call| PlanItem::of_call(Action::Stop, call.call_id.clone())).collect();
    let filter = json!({ "since": since.to_string(), "keep_not_due": keep_not_due });
    into_plan(stack, Verb::Stop, filter, items, rows.len(), items_max).await
}

/// Writes into the inbox what the rows of these calls hold: their creations, their dials, and their events. What the inbox holds
/// already stays as it is, except that forgotten persons are erased from it.
pub(crate) async fn refill(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let mut left = Vec::new();
    for item in items {
        let Some(call_id) = &item.call_id else { continue };
        match stack.calls.get_call(call_id).await {
            Ok(Some(call)) => refill_call(stack, &call).await?,
            Ok(None) => left.push((item.clone(), "the call does not exist".to_owned())),
            Err(error @ (switchhook_aws::Error::DecodeCall(_) | switchhook_aws::Error::NewerSchema(_))) => {
                left.push((item.clone(), error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(left)
}

async fn refill_call(stack: &Stack, call: &Call) -> Result<(), Error> {
    let now = stack.now();
    if let Some(creation) = call.creation() {
        let trace_id = creation.call.plan.trace_id.as_ref().map_or("", TraceId::as_str);
        drop(stack.inbox.put_creation(&creation, trace_id).await?);
    }
    if let (Some(plan), Some(forgotten_at)) = (&call.plan, call.forgotten_at) {
        stack.inbox.put_erased_creation(&call.call_id, call.created_at, plan.due_at, forgotten_at).await?;
    }
    for dial in call.dials() {
        drop(stack.inbox.record_dial(&call.call_id, &dial, now).await?);
    }
    if call.plan.is_some() && call.job == Job::Canceled {
        stack.inbox.record_cancellation(&call.call_id, now, now).await?;
    }
    for event in call.held_events() {
        match stack.inbox.put(&NewEvent::from_row(&event)?).await? {
            PutOutcome::Stored | PutOutcome::Duplicate { .. } => {}
        }
        // A restored inbox may hold the event as it was before the person was forgotten.
        if let Some(forgotten_at) = call.forgotten_at {
            stack.inbox.erase(&event.event_id, forgotten_at).await?;
        }
    }
    Ok(())
}

async fn read_rows(stack: &Stack, calls: Vec<CallId>) -> Result<Vec<Call>, Error> {
    let read = calls.iter().map(|call_id| async move {
        match stack.calls.get_call(call_id).await {
            // `verify` names a row that cannot be read.
            Err(switchhook_aws::Error::DecodeCall(_) | switchhook_aws::Error::NewerSchema(_)) => Ok(None),
            other => other,
        }
    });
    Ok(concurrently(CONCURRENCY, read).await?.into_iter().flatten().collect())
}

async fn into_plan(
    stack: &Stack,
    verb: Verb,
    filter: serde_json::Value,
    mut items: Vec<PlanItem>,
    examined: usize,
    items_max: usize,
) -> Result<Plan, Error> {
    let capped = items.len() > items_max;
    items.truncate(items_max);
    Draft { verb, filter, items, capped, continue_at: None, examined }.into_plan(stack).await
}
