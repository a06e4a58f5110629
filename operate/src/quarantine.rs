//! Quarantined events: authentic webhooks that cannot be read, and events for which their call has no room.
//!
//! A later version of the program may read such a webhook. Reprocessing it reads the stored body again. If that gives an event,
//! the stored event becomes foldable under the id that it always had, and is queued as if it had just been accepted.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::json;
use switchhook_aws::inbox::{Attention, AttentionKind, StoredEvent};
use switchhook_domain::{CallId, Disposition, EventId, Origin, Timestamp};

use crate::attention;
use crate::dead_letters;
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::events;
use crate::plan::{Action, LeftAlone, NotFound, Plan, PlanItem, Verb};
use crate::stack::Stack;

/// Default limit on the events that a list shows.
pub const LISTED_DEFAULT: usize = 1_000;
/// Entries of one page of the index of quarantined events.
const INDEX_PAGE_MAX: i32 = 1_000;
/// Longest time for which the notice of ingress is in the dead-letter queue, in milliseconds. SQS keeps no message for longer.
const NOTICE_MS_MAX: i64 = 14 * 24 * 60 * 60 * 1_000;

/// Part of Switchhook that quarantined an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantinedBy {
    /// Ingress could not read the webhook.
    Ingress,
    /// The consumer found that the call has no room for the event.
    Consumer,
}

/// Event that is quarantined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    pub event_id: EventId,
    pub by: QuarantinedBy,
    pub origin: Option<Origin>,
    pub event_type: Option<String>,
    pub call_id: Option<CallId>,
    pub cause: Option<String>,
    #[serde(with = "crate::time_text")]
    pub quarantined_at: Timestamp,
    /// Key of the marked item.
    #[serde(skip)]
    item_key: String,
}

/// Selection of quarantined events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuarantineFilter {
    pub event_ids: Vec<EventId>,
    /// Name of the sender, such as `retell`.
    pub origin: Option<Origin>,
    /// Part of the cause.
    pub cause: Option<String>,
    /// True if all quarantined events are selected.
    pub all: bool,
}

impl QuarantineFilter {
    fn check(&self) -> Result<(), Error> {
        let is_empty = self.event_ids.is_empty() && self.origin.is_none() && self.cause().is_none() && !self.all;
        if is_empty {
            return Err(Refusal::EmptyFilter("name event ids, --provider NAME, --cause TEXT or --all").into());
        }
        Ok(())
    }

    fn takes(&self, event: &Quarantined) -> bool {
        (self.event_ids.is_empty() || self.event_ids.contains(&event.event_id))
            && self.origin.is_none_or(|origin| event.origin == Some(origin))
            && self.cause().is_none_or(|part| event.cause.as_ref().is_some_and(|cause| cause.contains(part)))
    }

    /// Returns the part of the cause. A blank one is none: it is a part of every cause.
    fn cause(&self) -> Option<&str> {
        self.cause.as_deref().filter(|cause| !cause.trim().is_empty())
    }
}

/// Lists the quarantined events, the latest first, at most `limit` of them.
///
/// # Errors
/// The errors of the inbox.
pub async fn list(stack: &Stack, limit: usize) -> Result<Vec<Quarantined>, Error> {
    let entries = attention::all(stack, AttentionKind::Quarantined, limit).await?;
    Ok(entries.into_iter().filter_map(of_index).collect())
}

/// Plans to read quarantined events again, and to queue those that this version can read.
///
/// # Errors
/// [`Refusal::EmptyFilter`], and the errors of the tables.
pub async fn plan_reprocess(stack: &Stack, filter: &QuarantineFilter, items_max: usize) -> Result<Plan, Error> {
    plan(stack, filter, items_max, Verb::Reprocess, Action::Reprocess).await
}

/// Plans to take quarantined events off the list. The events stay in the inbox.
///
/// # Errors
/// The same as [`plan_reprocess`].
pub async fn plan_discard(stack: &Stack, filter: &QuarantineFilter, items_max: usize) -> Result<Plan, Error> {
    plan(stack, filter, items_max, Verb::DiscardQuarantined, Action::DiscardQuarantined).await
}

async fn plan(
    stack: &Stack,
    filter: &QuarantineFilter,
    items_max: usize,
    verb: Verb,
    action: Action,
) -> Result<Plan, Error> {
    filter.check()?;
    let (mut selected, others) = select(stack, filter, items_max).await?;
    let marked: BTreeSet<EventId> = selected.iter().map(|event| event.event_id.clone()).collect();
    let mut not_found = Vec::new();
    for event_id in &filter.event_ids {
        if selected.iter().any(|event| event.event_id == *event_id) {
            continue;
        }
        let id = event_id.to_string();
        if let Some(other) = others.iter().find(|event| event.event_id == *event_id) {
            let cause = other.cause.as_deref().unwrap_or("unknown");
            let reason = format!("it is quarantined, and its provider or its cause is another: {cause}");
            not_found.push(NotFound { id, reason });
            continue;
        }
        match stack.inbox.get(event_id).await? {
            // A named event that is in no index was reprocessed halfway, or is not quarantined: the plan says which.
            Some(stored) if verb == Verb::Reprocess || stored.disposition == Some(Disposition::Quarantined) => {
                selected.push(of_stored(&stored));
            }
            // A discard would delete the dead letter of an event that is not quarantined.
            Some(_) => {
                let status = events::status(stack, event_id).await?.map_or("unknown", |line| line.status);
                let reason = format!(
                    "the event is not quarantined: its status is {status}. `switchhook event show` shows it, and `switchhook \
                     quarantine list` lists the quarantined events"
                );
                not_found.push(NotFound { id, reason });
            }
            None => {
                let reason = format!(
                    "the inbox of the stack {} holds no event with this id. `switchhook quarantine list` lists the quarantined \
                     events; an event is kept for {} days",
                    stack.names.stack, stack.names.settings.inbox_retention_days
                );
                not_found.push(NotFound { id, reason });
            }
        }
    }
    selected.sort_by(|a, b| (a.quarantined_at, &a.event_id).cmp(&(b.quarantined_at, &b.event_id)));
    let examined = selected.len();
    let capped = selected.len() > items_max;
    selected.truncate(items_max);
    let now = stack.now();
    let item = |event: Quarantined| {
        // Only ingress sends a notice. It is deleted after the mark.
        let has_notice = event.by == QuarantinedBy::Ingress
            && marked.contains(&event.event_id)
            && now.millis_since(event.quarantined_at) < NOTICE_MS_MAX;
        let messages = usize::from(has_notice);
        let call_id = event.call_id.filter(|_| action == Action::Reprocess);
        PlanItem { key: Some(event.item_key), messages, ..PlanItem::of_event(action, event.event_id, call_id) }
    };
    let items = selected.into_iter().map(item).collect();
    let filter = json!({ "quarantine": filter });
    Draft { verb, filter, items, capped, continue_at: None, examined, not_found }.into_plan(stack).await
}

/// Selects from the list of quarantined events: the earliest that match the filter, more than `items_max` if there are more. Returns them
/// with those that the filter names and whose sender or cause is another.
///
/// A dead-letter queue gives out the earliest notices first, so a run need not search far for those of the earliest events.
async fn select(
    stack: &Stack,
    filter: &QuarantineFilter,
    items_max: usize,
) -> Result<(Vec<Quarantined>, Vec<Quarantined>), Error> {
    let (mut selected, mut others) = (Vec::new(), Vec::new());
    let (first, last) = (Timestamp::from_millis(0), Timestamp::from_millis(i64::MAX));
    for shard in stack.inbox.attention_shards() {
        let mut pages = stack.inbox.attention_between(AttentionKind::Quarantined, shard, first, last, INDEX_PAGE_MAX);
        let mut of_shard = 0;
        while of_shard <= items_max
            && let Some(page) = pages.next().await?
        {
            for event in page.items.into_iter().filter_map(of_index) {
                if filter.takes(&event) {
                    of_shard += 1;
                    selected.push(event);
                } else if filter.event_ids.contains(&event.event_id) {
                    others.push(event);
                }
            }
        }
    }
    Ok((selected, others))
}

/// Takes events off the list of quarantined ones, and then deletes their notices: those that are discarded, and those that are queued or in
/// their calls. Returns the items whose notices did not come. A plan that names such an event deletes its notice.
pub(crate) async fn take_off(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    for key in items.iter().filter_map(|item| item.key.as_ref()) {
        stack.inbox.clear_attention(key).await?;
    }
    dead_letters::delete_messages(stack, &stack.dlq, items, |item| item.event_id.as_ref().map(EventId::as_str)).await
}

/// Takes replayed events off the list, and deletes their notices. Only an event that ingress quarantined has a mark and a notice.
pub(crate) async fn take_off_replayed(stack: &Stack, items: &[PlanItem]) -> Result<(), Error> {
    let mut marked = Vec::new();
    for item in items.iter().filter(|item| item.action == Action::Replay) {
        let Some(event_id) = &item.event_id else { continue };
        if stack.inbox.clear_attention(event_id.as_str()).await? {
            marked.push(PlanItem { messages: 0, ..item.clone() });
        }
    }
    take_off(stack, &marked).await.map(drop)
}

fn of_index(entry: Attention) -> Option<Quarantined> {
    let event_id = entry.event_id?;
    let is_own_item = entry.item_key == event_id.as_str();
    Some(Quarantined {
        by: if is_own_item { QuarantinedBy::Ingress } else { QuarantinedBy::Consumer },
        origin: entry.origin.or_else(|| event_id.origin()),
        event_id,
        event_type: entry.event_type,
        call_id: entry.call_id,
        cause: entry.cause,
        quarantined_at: entry.at,
        item_key: entry.item_key,
    })
}

fn of_stored(stored: &StoredEvent) -> Quarantined {
    Quarantined {
        event_id: stored.event_id.clone(),
        by: QuarantinedBy::Ingress,
        origin: Some(stored.origin),
        event_type: Some(stored.event_type.clone()).filter(|name| !name.is_empty()),
        call_id: stored.call_id.clone(),
        cause: stored.cause.clone(),
        quarantined_at: stored.received_at,
        item_key: stored.event_id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_cause_selects_nothing() {
        let check =
            |cause: &str| QuarantineFilter { cause: Some(cause.to_owned()), ..QuarantineFilter::default() }.check();
        for blank in ["", "  "] {
            assert!(matches!(check(blank), Err(Error::Refusal(Refusal::EmptyFilter(_)))), "{blank:?}");
        }
        assert!(check("no call id").is_ok());
        let all = QuarantineFilter { cause: Some(String::new()), all: true, ..QuarantineFilter::default() };
        assert!(all.check().is_ok() && all.cause().is_none());
    }
}
