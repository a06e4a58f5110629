//! Received events: what arrived, how each was processed, and its payload.

mod list;
mod path;
mod tail;
mod unfolded;

use std::time::Duration;

use serde::Serialize;
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_aws::inbox::{Note, StoredEvent};
use switchhook_domain::{Call, CallId, Disposition, EntityFate, EventId, HistoryEntry, Origin, Timestamp};

use crate::attention::text_of_cause;
use crate::audit;
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::Error;
use crate::stack::Stack;

pub use crate::received::MinuteCount;
pub use list::{EventPage, Filter, list, mark_of};
pub use path::{Announced, Conflict, DiffLine, EventPath, FoldedEntry, Retries, show, show_masked};
pub use tail::{Tail, TailItem};
pub use unfolded::{UnfoldedPage, unfolded};

/// Time by which the time of receipt of an event may be ahead of the time of a reader: the clocks of AWS differ a little.
const AHEAD: Duration = Duration::from_secs(60);

/// One received event and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventLine {
    pub event_id: String,
    pub provider: Origin,
    #[serde(rename = "type")]
    pub event_type: String,
    /// The call that has the event. If the event arrived under a derived id, this is the call that the alias leads to.
    pub call_id: Option<String>,
    /// Key of the entity that the event is about, if it is about no call.
    pub entity: Option<String>,
    /// Disposition of the event, or [`PROCESSED`] if its entity no longer tells it, or `queued`, `retrying`, `dead_lettered` or `discarded` if it has
    /// none. The event that decides a booking has none before the calls of the booking agree with it. `unknown` if the row of its call cannot be read,
    /// and nothing else tells.
    pub status: &'static str,
    pub received_at: String,
    pub occurred_at: Option<String>,
    /// Time between the event and its receipt. `None` if the provider names no time.
    pub late_ms: Option<i64>,
    /// Time between the receipt and the first fold. `None` if the event is not folded.
    pub applied_after_ms: Option<i64>,
    /// Number of times that the consumer tried to fold the event.
    pub attempts: u32,
    /// Cause of the quarantine, error of the last failed try, or error of the row of its call if that cannot be read.
    pub error: Option<String>,
}

/// Stored event that this program cannot read: a newer version wrote it, or it is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableEvent {
    pub event_id: String,
    pub error: String,
}

/// Status of an event that is folded, if the row of its entity no longer tells whether it was applied or stale.
pub const PROCESSED: &str = "processed";

/// Statuses of an event: the dispositions, and those of an event without one.
pub const STATUSES: [&str; 12] = [
    "applied",
    "parked",
    "refused",
    "stale",
    "duplicate",
    PROCESSED,
    "recorded",
    "quarantined",
    "queued",
    "retrying",
    "dead_lettered",
    "discarded",
];

/// An event with everything that says what became of it.
pub(crate) struct Fate {
    pub(crate) stored: StoredEvent,
    pub(crate) note: Note,
    pub(crate) call: Option<Call>,
    /// Error of the row of its call, if this program cannot read the row.
    pub(crate) call_error: Option<String>,
    /// Fate of an event in its entity, if the event is about no call.
    pub(crate) in_entity: EntityFate,
}

impl Fate {
    /// Reads an event, its note and its call. `None` if there is no such event. A row of a call that cannot be read hides no event.
    pub(crate) async fn read(stack: &Stack, id: &EventId) -> Result<Option<Self>, Error> {
        // A text that can be no key is the id of no event.
        if id.as_str().is_empty() || id.as_str().len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let Some(stored) = stack.inbox.get(id).await? else { return Ok(None) };
        let mut in_entity = EntityFate::NotFolded;
        let (call, call_error) = match &stored.call_id {
            Some(key) if key.is_entity() => match entity_fate(stack, key, &stored).await {
                Ok(fate) => {
                    in_entity = fate;
                    (None, None)
                }
                Err(Error::Aws(error)) if error.is_unreadable() => (None, Some(error.to_string())),
                Err(error) => return Err(error),
            },
            Some(call_id) => match stack.calls.resolve_eventual(call_id).await {
                Ok(resolved) => (resolved.call, None),
                Err(error) if error.is_unreadable() => (None, Some(error.to_string())),
                Err(error) => return Err(error.into()),
            },
            None => (None, None),
        };
        let is_folded = call.as_ref().is_some_and(|call| call.contains_event(id));
        // The note tells why an event was not folded, or how often it was tried before.
        let note = if is_folded && stored.disposition.is_some() { None } else { stack.inbox.get_note(id).await? };
        Ok(Some(Self { stored, note: note.unwrap_or_default(), call, call_error, in_entity }))
    }

    /// Returns the entries of the event in the history of its call. The event itself comes before the events that it implies.
    pub(crate) fn entries(&self) -> Vec<(usize, &HistoryEntry)> {
        let history = self.call.iter().flat_map(|call| call.history.iter().enumerate());
        let mut entries: Vec<_> = history.filter(|(_, entry)| entry.source_event_id == self.stored.event_id).collect();
        entries.sort_by_key(|(_, entry)| entry.event.implied);
        entries
    }

    pub(crate) fn status(&self) -> &'static str {
        let decided = match self.in_entity {
            EntityFate::Folded(disposition) => return disposition.map_or(PROCESSED, Disposition::as_str),
            EntityFate::CallsDisagree(_) | EntityFate::NotFolded => self.stored.disposition.or(self.note.disposition),
        };
        match (self.entries().first(), decided) {
            (Some((_, entry)), _) => entry.disposition.as_str(),
            (None, Some(disposition)) => Disposition::as_str(disposition),
            (None, None) if self.note.discarded_at.is_some() => "discarded",
            (None, None) if self.note.dead_lettered_at.is_some() => "dead_lettered",
            (None, None) if self.note.attempts > 0 => "retrying",
            (None, None) if self.call_error.is_some() => "unknown",
            (None, None) => "queued",
        }
    }

    pub(crate) fn line(&self) -> EventLine {
        let Self { stored, note, call, call_error, in_entity } = self;
        let (entity, own_call) = match &stored.call_id {
            Some(key) if key.is_entity() => (Some(key), None),
            call_id => (None, call_id.as_ref()),
        };
        let folded = self.entries().first().map(|(_, entry)| entry.folded_at);
        let is_folded = folded.is_some() || matches!(in_entity, EntityFate::Folded(_));
        let shown = |time: Timestamp| time.to_string();
        let status = self.status();
        let cause = stored.cause.as_deref().filter(|_| status == Disposition::Quarantined.as_str());
        EventLine {
            event_id: stored.event_id.to_string(),
            provider: stored.origin,
            event_type: stored.event_type.clone(),
            call_id: call.as_ref().map(|call| &call.call_id).or(own_call).map(ToString::to_string),
            entity: entity.map(ToString::to_string),
            status,
            received_at: shown(stored.received_at),
            occurred_at: stored.occurred_at.map(shown),
            late_ms: stored.occurred_at.map(|at| stored.received_at.millis_since(at)),
            applied_after_ms: folded.map(|at| at.millis_since(stored.received_at)),
            attempts: note.tries(is_folded),
            error: cause.and_then(text_of_cause).or_else(|| note.error.clone()).or_else(|| call_error.clone()),
        }
    }
}

/// Events that were read. Those that this program cannot read are named apart, so that they hide no other.
#[derive(Default)]
pub(crate) struct Fates {
    pub(crate) found: Vec<Fate>,
    pub(crate) unreadable: Vec<UnreadableEvent>,
}

impl Fates {
    /// Adds what reading an event returned. An event whose retention has ended may still be in an index; it is left out.
    fn add(&mut self, id: &EventId, read: Result<Option<Fate>, Error>) -> Result<(), Error> {
        match read {
            Ok(fate) => self.found.extend(fate),
            Err(Error::Aws(error)) if error.is_unreadable() => {
                self.unreadable.push(UnreadableEvent { event_id: id.to_string(), error: error.to_string() });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads these events, in the order of their ids.
    async fn read<'a, F>(ids: &'a [EventId], fate: impl Fn(&'a EventId) -> F + Send + 'a) -> Result<Self, Error>
    where
        F: Future<Output = Result<Option<Fate>, Error>> + Send + 'a,
    {
        let reads = ids.iter().map(move |id| {
            let read = fate(id);
            async move { Ok::<_, Error>((id, read.await)) }
        });
        let mut fates = Self::default();
        for (id, read) in concurrently(CONCURRENCY, reads).await? {
            fates.add(id, read)?;
        }
        Ok(fates)
    }
}

/// Returns what the row of its entity says about an event.
///
/// # Errors
/// A read failed.
pub(crate) async fn entity_fate(stack: &Stack, key: &CallId, stored: &StoredEvent) -> Result<EntityFate, Error> {
    let Some(entity) = stack.calls.entity_eventual(key).await? else { return Ok(EntityFate::NotFolded) };
    Ok(stack.inbox.fate_in(&entity, stored).await?)
}

/// Returns what became of one event. `None` if there is no such event.
///
/// # Errors
/// A read failed.
pub async fn status(stack: &Stack, id: &EventId) -> Result<Option<EventLine>, Error> {
    Ok(Fate::read(stack, id).await?.map(|fate| fate.line()))
}

/// Returns the exact bytes that the provider sent, after an audit record was written. `None` if there is no such event, which
/// writes no record.
///
/// # Errors
/// The record could not be written, or a read failed.
pub async fn unmasked(stack: &Stack, id: &EventId, reason: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(stored) = stack.inbox.get(id).await? else { return Ok(None) };
    audit::record_unmasking(stack, id, reason).await?;
    Ok(Some(stack.inbox.read_body(&stored).await?))
}
