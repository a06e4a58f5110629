//! Dead letters: events that could not be folded within two hours, and notices of unreadable webhooks.
//!
//! Two sources name them: the messages of the dead-letter queue, and the index of items that need attention. They should
//! agree, and every list shows where they do not: a message may have expired, or the note of the consumer could not be written.
//!
//! **A dead letter is deleted only once its event is in its call, or is refused for good.** Until then it stays in the queue, so
//! nothing is lost if a run is interrupted. Deleting a dead letter never removes the stored event.

mod describe;
mod letter;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use switchhook_aws::calls::Resolved;
use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_aws::queue::ReceivedMessage;
use switchhook_domain::{Disposition, EntityPosition, EventId, Origin, ProviderEvent};

use self::describe::{describe, of_index};
pub use self::letter::{DeadLetter, LetterKind};
pub(crate) use self::messages::{delete_messages, receive};
use self::messages::{events_in_queue, key_of};
use crate::attention;
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::plan::{Action, LeftAlone, NotFound, Plan, PlanItem, Verb};
use crate::stack::Stack;

/// Default limit on the messages that a list receives.
pub const LISTED_DEFAULT: usize = 1_000;
/// Longest wait for the consumer to fold the events of one page.
const FOLD_WAIT: Duration = Duration::from_secs(20);
/// Time between two looks at a call that is about to be folded.
const FOLD_POLL: Duration = Duration::from_millis(500);

/// Dead letters, and how their two sources compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadLetters {
    /// Dead letters by cause, the most frequent cause first.
    pub causes: Vec<Cause>,
    /// Messages in the queue, those that were not received included.
    pub in_queue: u64,
    /// Messages in the queue that this list does not hold: it reached its limit, or they are behind others of their call.
    pub not_received: u64,
}

/// Dead letters with the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    pub cause: String,
    /// The earliest first.
    pub letters: Vec<DeadLetter>,
}

/// Selection of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LetterFilter {
    /// Ids of events or messages.
    pub keys: Vec<String>,
    /// Part of the cause, or the cause in the index.
    pub cause: Option<String>,
    /// Sender of the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// True if all dead letters are selected.
    pub all: bool,
}

impl LetterFilter {
    fn check(&self) -> Result<(), Error> {
        let is_empty = self.keys.is_empty() && self.cause().is_none() && self.origin.is_none() && !self.all;
        if is_empty { Err(Refusal::EmptyFilter("name ids, --cause TEXT or --all").into()) } else { Ok(()) }
    }

    fn takes(&self, cause: &str, letter: &DeadLetter) -> bool {
        let is_named = self.keys.is_empty() || self.keys.iter().any(|key| letter.is_named(key));
        let is_cause = |part: &str| cause.contains(part) || letter.index_cause.as_deref() == Some(part);
        let is_from = self.origin.is_none_or(|origin| letter.origin == Some(origin));
        is_named && is_from && self.cause().is_none_or(is_cause)
    }

    /// Returns the part of the cause. A blank one is none: it is a part of every cause.
    fn cause(&self) -> Option<&str> {
        self.cause.as_deref().filter(|cause| !cause.trim().is_empty())
    }
}

impl DeadLetter {
    /// True if this is the id of its event or of its message.
    #[must_use]
    pub fn is_named(&self, id: &str) -> bool {
        self.key == id || self.message_id.as_deref() == Some(id)
    }
}

impl DeadLetters {
    /// Returns all letters with their causes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DeadLetter)> {
        self.causes.iter().flat_map(|group| group.letters.iter().map(move |letter| (group.cause.as_str(), letter)))
    }
}

/// Lists the dead letters: `limit` messages of the queue or a few more, and the entries of the index. Receives the messages, and shows
/// them again at once.
///
/// # Errors
/// The errors of the queue and of the inbox.
pub async fn list(stack: &Stack, limit: usize) -> Result<DeadLetters, Error> {
    let in_queue = stack.dlq.depth().await?;
    let mut messages = Vec::new();
    let received = receive(stack, &stack.dlq, |more| {
        messages.extend(more);
        messages.len() < limit
    });
    let not_received = in_queue.saturating_sub(received.await?);
    let letters = described(stack, &messages, limit, |_| true).await?;
    Ok(DeadLetters { causes: by_cause(letters), in_queue, not_received })
}

/// Lists the dead letters with these ids of events or messages. Receives the messages of the queue until all are found.
///
/// # Errors
/// The same as [`list`].
pub async fn find(stack: &Stack, ids: &[String]) -> Result<DeadLetters, Error> {
    let in_queue = stack.dlq.depth().await?;
    let mut missing: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let mut messages = Vec::new();
    let received = receive(stack, &stack.dlq, |more| {
        for message in more {
            let names = [key_of(&message), message.message_id.clone()];
            if names.iter().any(|name| ids.contains(name)) {
                missing.retain(|id| !names.iter().any(|name| name == id));
                messages.push(message);
            }
        }
        !missing.is_empty()
    });
    let not_received = in_queue.saturating_sub(received.await?);
    let letters = described(stack, &messages, usize::MAX, |id| ids.iter().any(|named| named == id.as_str())).await?;
    Ok(DeadLetters { causes: by_cause(letters), in_queue, not_received })
}

/// Describes messages, and the entries of the index that belong to none of them and are wanted. Reads at most `limit` entries.
async fn described(
    stack: &Stack,
    messages: &[ReceivedMessage],
    limit: usize,
    is_wanted: impl Fn(&EventId) -> bool + Send,
) -> Result<Vec<(String, DeadLetter)>, Error> {
    let marked = attention::all(stack, AttentionKind::DeadLettered, limit).await?;
    let quarantined = attention::all(stack, AttentionKind::Quarantined, limit).await?;
    let of_messages = messages.iter().map(|message| describe(stack, message, &marked, &quarantined, limit));
    let mut letters = concurrently(CONCURRENCY, of_messages).await?;
    let known: BTreeSet<EventId> = letters.iter().filter_map(|(_, letter)| letter.event_id.clone()).collect();
    let is_left = |id: &EventId| !known.contains(id) && is_wanted(id);
    let left: Vec<&Attention> = marked.iter().filter(|entry| entry.event_id.as_ref().is_some_and(is_left)).collect();
    for entry in left {
        letters.push(of_index(stack, entry).await?);
    }
    Ok(letters)
}

/// Groups letters by cause, the most frequent cause first.
fn by_cause(letters: Vec<(String, DeadLetter)>) -> Vec<Cause> {
    let mut causes: BTreeMap<String, Vec<DeadLetter>> = BTreeMap::new();
    for (cause, letter) in letters {
        causes.entry(cause).or_default().push(letter);
    }
    let mut causes: Vec<Cause> = causes
        .into_iter()
        .map(|(cause, mut letters)| {
            letters.sort_by_key(|letter| letter.dead_lettered_at);
            Cause { cause, letters }
        })
        .collect();
    causes.sort_by_key(|group| std::cmp::Reverse(group.letters.len()));
    causes
}

/// Plans to send the events of dead letters again. Notices of unreadable webhooks are left out: `quarantine` handles them.
///
/// # Errors
/// [`Refusal::EmptyFilter`], and the errors of the queue and of the tables.
pub async fn plan_redrive(stack: &Stack, filter: &LetterFilter, items_max: usize) -> Result<Plan, Error> {
    plan(stack, filter, items_max, Verb::Redrive, |letter| {
        let event_id = letter.event_id.clone().filter(|_| letter.kind == LetterKind::Event)?;
        let item = PlanItem::of_event(Action::Redrive, event_id, letter.call_id.clone());
        Some(PlanItem { messages: usize::from(letter.message_id.is_some()), message: letter.event.clone(), ..item })
    })
    .await
}

/// Plans to delete dead letters. Their events stay in the inbox. An event that was redriven may still be tried, and the others are not folded,
/// also if the rows of their calls are made again.
/// Notices of webhooks that still are quarantined are left out.
///
/// # Errors
/// The same as [`plan_redrive`].
pub async fn plan_discard(stack: &Stack, filter: &LetterFilter, items_max: usize) -> Result<Plan, Error> {
    plan(stack, filter, items_max, Verb::DiscardDeadLetters, |letter| {
        // The run clears the note of an item's event. The event of a notice may be retried since, and then needs its note.
        let event_id = match letter.kind {
            LetterKind::Event | LetterKind::Unreadable => letter.event_id.clone(),
            LetterKind::QuarantineNotice if letter.in_index => return None,
            LetterKind::QuarantineNotice => None,
        };
        let messages = usize::from(letter.message_id.is_some());
        // After the discard, the dialer may dial the call. Nobody dials an entity.
        let call_id = letter.call_id.clone().filter(|id| event_id.is_some() && !id.is_entity());
        Some(PlanItem {
            event_id,
            call_id,
            messages,
            ..PlanItem::of_key(Action::DiscardDeadLetter, letter.key.clone())
        })
    })
    .await
}

async fn plan(
    stack: &Stack,
    filter: &LetterFilter,
    items_max: usize,
    verb: Verb,
    item_of: impl Fn(&DeadLetter) -> Option<PlanItem>,
) -> Result<Plan, Error> {
    filter.check()?;
    let listed = match filter.keys.as_slice() {
        [] => list(stack, items_max.saturating_add(1)).await?,
        keys => find(stack, keys).await?,
    };
    let mut selected: Vec<&DeadLetter> =
        listed.iter().filter(|(cause, letter)| filter.takes(cause, letter)).map(|(_, letter)| letter).collect();
    selected.sort_by_key(|letter| letter.dead_lettered_at);
    let examined = selected.len();
    let not_found = filter.keys.iter().collect::<BTreeSet<_>>().into_iter();
    let not_found: Vec<NotFound> =
        not_found.filter_map(|key| not_found_reason(&listed, filter, key, &item_of)).collect();
    let mut items = merged(selected.into_iter().filter_map(item_of));
    let has_all_named = !filter.keys.is_empty() && not_found.is_empty();
    let capped = items.len() > items_max || (listed.not_received > 0 && !has_all_named);
    items.truncate(items_max);
    let filter = json!({ "dead_letters": filter });
    Draft { verb, filter, items, capped, continue_at: None, examined, not_found }.into_plan(stack).await
}

/// Makes one item of the dead letters of an event that the consumer gave up more than once. The event is handled once, and all messages
/// are deleted.
pub(crate) fn merged(letters: impl Iterator<Item = PlanItem>) -> Vec<PlanItem> {
    let mut items: Vec<PlanItem> = Vec::new();
    let mut places = BTreeMap::new();
    for letter in letters {
        let place = *places.entry((letter.event_id.clone(), letter.key.clone())).or_insert(items.len());
        match items.get_mut(place) {
            Some(first) => first.messages += letter.messages,
            None => items.push(letter),
        }
    }
    items
}

/// Says why nothing is done with a named id. `None` if the plan has its dead letter.
fn not_found_reason(
    listed: &DeadLetters,
    filter: &LetterFilter,
    key: &str,
    item_of: impl Fn(&DeadLetter) -> Option<PlanItem>,
) -> Option<NotFound> {
    let named: Vec<(&str, &DeadLetter)> = listed.iter().filter(|(_, letter)| letter.is_named(key)).collect();
    let taken: Vec<&(&str, &DeadLetter)> = named.iter().filter(|(cause, letter)| filter.takes(cause, letter)).collect();
    if taken.iter().any(|(_, letter)| item_of(letter).is_some()) {
        return None;
    }
    let reason = match (taken.first(), named.first()) {
        (Some((_, letter)), _) => match letter.kind {
            LetterKind::QuarantineNotice => {
                "it is the notice of a webhook that could not be read: `switchhook quarantine` handles it".to_owned()
            }
            LetterKind::Event | LetterKind::Unreadable => {
                "the message holds no event that could be sent again: `switchhook dlq discard` deletes it".to_owned()
            }
        },
        (None, Some((cause, _))) => format!("it is a dead letter with another cause: {cause}"),
        (None, None) => {
            let hidden = match listed.not_received {
                0 => String::new(),
                more => format!(
                    ". Messages of the queue that could not be received: {more}; it may be one of them, so try again later"
                ),
            };
            format!(
                "no dead letter has this id: it was looked for as the id of an event and of a message, in the queue and in the list \
                 of events that need attention. `switchhook dlq list` lists the dead letters, and `switchhook event show` says what \
                 became of an event{hidden}"
            )
        }
    };
    Some(NotFound { id: key.to_owned(), reason })
}

/// Gives the items of a redrive the events of their messages, if the inbox no longer holds these events. Waits for messages that another
/// reader hides. An item whose message is not found stays as it is.
///
/// # Errors
/// The errors of the inbox and of the queue.
pub(crate) async fn read_lost_events(stack: &Stack, items: &mut [PlanItem]) -> Result<(), Error> {
    let of_letters = items.iter().filter(|item| item.action == Action::Redrive && item.has_message());
    let looked = of_letters.filter_map(|item| item.event_id.clone()).map(|id| async move {
        match stack.inbox.get(&id).await {
            Ok(None) => Ok(Some(id)),
            Ok(Some(_)) => Ok(None),
            // The forecast reports an event that cannot be read.
            Err(error) if error.is_unreadable() => Ok(None),
            Err(error) => Err(Error::from(error)),
        }
    });
    let lost: BTreeSet<EventId> = concurrently(CONCURRENCY, looked).await?.into_iter().flatten().collect();
    let events = events_in_queue(stack, lost).await?;
    for item in items {
        item.message = item.event_id.as_ref().and_then(|id| events.get(id)).cloned().map(Box::new);
    }
    Ok(())
}

/// Ends the redrive of events that were queued again: waits until each is in its call or is refused, and then deletes its dead
/// letter. Returns the items whose dead letters may stay: their events were not folded in time, or their messages did not come.
pub(crate) async fn finish_redrive(stack: &Stack, items: Vec<PlanItem>) -> Result<Vec<LeftAlone>, Error> {
    let mut waiting = items;
    let mut decided = Vec::new();
    let give_up_at = stack.now().plus(FOLD_WAIT);
    loop {
        let looked = concurrently(CONCURRENCY, waiting.iter().map(|item| is_decided(stack, item))).await?;
        let mut still = Vec::new();
        for (item, is_decided) in waiting.into_iter().zip(looked) {
            if is_decided {
                decided.push(item);
            } else {
                still.push(item);
            }
        }
        waiting = still;
        if waiting.is_empty() || stack.now() >= give_up_at {
            break;
        }
        tokio::time::sleep(FOLD_POLL).await;
    }
    let hidden =
        delete_messages(stack, &stack.dlq, &decided, |item| item.event_id.as_ref().map(EventId::as_str)).await?;
    for event_id in deleted_events(&decided, &hidden) {
        stack.inbox.clear_retry(event_id).await?;
    }
    let reason = |item: &PlanItem| {
        let id = item.event_id.as_ref().map_or("-", EventId::as_str);
        format!(
            "the event {id} could not be folded yet, so its dead letter stays. The event is tried for two more hours. Redrive it again \
             when it is folded, which deletes the dead letter, or when its tries have ended"
        )
    };
    let late = waiting.into_iter().map(|item| (item.clone(), reason(&item)));
    Ok(hidden.into_iter().chain(late).collect())
}

/// Deletes dead letters, and takes their notes off the list of items that need attention. Returns the items whose messages did not come. They
/// stay on the list.
pub(crate) async fn delete(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let hidden = delete_messages(stack, &stack.dlq, items, |item| item.key.as_deref()).await?;
    for event_id in deleted_events(items, &hidden) {
        stack.inbox.clear_dead_letter(event_id).await?;
    }
    Ok(hidden)
}

/// Does the same as [`delete`], and marks the events as [discarded](switchhook_aws::inbox::Inbox::discard).
pub(crate) async fn discard(stack: &Stack, items: &[PlanItem]) -> Result<Vec<LeftAlone>, Error> {
    let hidden = delete_messages(stack, &stack.dlq, items, |item| item.key.as_deref()).await?;
    let deleted: Vec<&PlanItem> = deleted(items, &hidden).collect();
    concurrently(CONCURRENCY, deleted.iter().map(|item| set_aside(stack, item))).await?;
    Ok(hidden)
}

/// Marks the event of a deleted dead letter as discarded. An event that is in its call after all stays there, so it only leaves the list.
async fn set_aside(stack: &Stack, item: &PlanItem) -> Result<(), Error> {
    let Some(event_id) = &item.event_id else { return Ok(()) };
    if is_known_as_decided(stack, item).await? {
        stack.inbox.clear_dead_letter(event_id).await?;
    } else if stack.inbox.discard(event_id, stack.now()).await? && is_known_as_decided(stack, item).await? {
        // The consumer folded the event before the mark. With the mark, a row that is made again would lack the event.
        stack.inbox.clear_retry(event_id).await?;
    }
    Ok(())
}

/// Does the same as [`is_decided`]. The fate of an event that cannot be read is not decided.
async fn is_known_as_decided(stack: &Stack, item: &PlanItem) -> Result<bool, Error> {
    match is_decided(stack, item).await {
        Err(Error::Aws(error)) if error.is_unreadable() => Ok(false),
        decided => decided,
    }
}

/// Returns the events of the items whose dead letters were deleted.
fn deleted_events<'a>(items: &'a [PlanItem], hidden: &'a [LeftAlone]) -> impl Iterator<Item = &'a EventId> {
    deleted(items, hidden).filter_map(|item| item.event_id.as_ref())
}

/// Returns the items whose dead letters were deleted.
fn deleted<'a>(items: &'a [PlanItem], hidden: &'a [LeftAlone]) -> impl Iterator<Item = &'a PlanItem> {
    items.iter().filter(|item| hidden.iter().all(|(left, _)| left != *item))
}

/// True if the fate of an event is decided: it is in its call, it would change nothing there, or the consumer refused it. The calls of a
/// booking must agree with it too.
async fn is_decided(stack: &Stack, item: &PlanItem) -> Result<bool, Error> {
    let Some(id) = &item.event_id else { return Ok(true) };
    let stored = stack.inbox.get_normalized(id).await?;
    let Some(event) = stored.or_else(|| item.message.as_deref().cloned()) else { return Ok(false) };
    if EntityPosition::of(&event).is_some() {
        return match stack.calls.entity(&event.call_id).await {
            Ok(entity) => Ok(entity.is_some_and(|entity| entity.includes_event(&event))),
            // The consumer cannot read the row either.
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error.into()),
        };
    }
    let Resolved { call, alias } = match stack.calls.resolve(&event.call_id).await {
        Ok(resolved) => resolved,
        // The consumer cannot read the row either.
        Err(error) if error.is_unreadable() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let event = match alias {
        Some(alias) => ProviderEvent { call_id: alias.call_id, attempt: Some(alias.attempt), ..event },
        None => event,
    };
    if call.is_some_and(|call| call.includes_event(&event)) {
        return Ok(true);
    }
    let note = stack.inbox.get_note(id).await?;
    Ok(matches!(note.and_then(|note| note.disposition), Some(Disposition::Refused | Disposition::Quarantined)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_cause_selects_nothing() {
        let check = |cause: &str| LetterFilter { cause: Some(cause.to_owned()), ..LetterFilter::default() }.check();
        for blank in ["", "  "] {
            assert!(matches!(check(blank), Err(Error::Refusal(Refusal::EmptyFilter(_)))), "{blank:?}");
        }
        assert!(check("timed out").is_ok());
        let all = LetterFilter { cause: Some(String::new()), all: true, ..LetterFilter::default() };
        assert!(all.check().is_ok() && all.cause().is_none());
    }
}
