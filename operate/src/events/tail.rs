//! Follows a stack: new events as they arrive, and the domain events of their calls.
//!
//! A deployed stack has nothing to listen to, so the newest part of the index is read again and again. **Each poll begins where the last
//! one ended, and somewhat earlier.** It reads page after page, and names the span that it did not read if there were too many.
//! The clock of the stack counts, because times of receipt are compared with it.
//!
//! Domain events are read from the rows of the calls that had an event. Those that a worker caused are shown with the next event of
//! their call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use switchhook_domain::{Call, CallId, EventId, Timestamp};

use super::{AHEAD, EventLine, Filter, UnreadableEvent, list};
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::Error;
use crate::stack::Stack;

/// Time after its receipt within which an event becomes visible in the index and in its call.
const SETTLING: Duration = Duration::from_secs(15);
/// Events of one page.
const PAGE_LIMIT: usize = 200;
/// Pages of one poll. So the events of a poll fit into memory, and it ends even if events arrive faster than they are read.
const PAGES_MAX: usize = 25;

/// Position of a reader that follows a stack.
#[derive(Debug)]
pub struct Tail {
    since: Timestamp,
    /// Time of the last poll that succeeded.
    polled_at: Option<Timestamp>,
    /// Events that were shown: the time of the poll that read them last, and the status that it read.
    seen: BTreeMap<EventId, (Timestamp, &'static str)>,
    /// Number of domain events of each call that were shown.
    announced: BTreeMap<CallId, usize>,
}

/// One line of a tail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TailItem {
    /// A new event, or one whose status has changed since it was shown.
    Event(EventLine),
    /// A new event that this program cannot read.
    Unreadable(UnreadableEvent),
    DomainEvent {
        at: String,
        id: String,
        #[serde(rename = "type")]
        event_type: String,
        call_id: String,
    },
    /// Time of receipt of events that were not read, because too many arrived since the last poll.
    Skipped { since: String, until: String },
}

/// Events of one poll.
#[derive(Default)]
struct Found {
    /// The latest first.
    events: Vec<EventLine>,
    unreadable: Vec<UnreadableEvent>,
    skipped: Option<TailItem>,
}

impl Tail {
    /// Starts to follow a stack: events that arrive from `since` on.
    #[must_use]
    pub const fn new(since: Timestamp) -> Self {
        Self { since, polled_at: None, seen: BTreeMap::new(), announced: BTreeMap::new() }
    }

    /// Returns the new events since the last poll in the order in which they arrived, and then the new domain events of their
    /// calls.
    ///
    /// # Errors
    /// A read failed. The next poll returns what this one could not.
    pub async fn poll(&mut self, stack: &Stack) -> Result<Vec<TailItem>, Error> {
        let now = stack.read_clock().await;
        // The clock of a machine may be set back.
        let since = self.polled_at.map_or(self.since, |at| self.since.max(at.min(now).minus(SETTLING)));
        let Found { events, unreadable, skipped } = read(stack, since, now.plus(AHEAD)).await?;
        let calls: BTreeSet<CallId> =
            events.iter().filter_map(|line| line.call_id.as_deref().map(CallId::new)).collect();
        let reads = calls.iter().map(|call_id| async move {
            match stack.calls.resolve_eventual(call_id).await {
                Ok(resolved) => Ok(resolved.call),
                // The lines of its events name the error.
                Err(error) if error.is_unreadable() => Ok(None),
                Err(error) => Err(error),
            }
        });
        let calls = concurrently(CONCURRENCY, reads).await?;
        // Nothing is marked as shown before all reads have succeeded.
        self.polled_at = Some(now);
        let mut items: Vec<TailItem> = skipped.into_iter().collect();
        for line in events.into_iter().rev() {
            if self.is_news(&line.event_id, line.status, now) {
                items.push(TailItem::Event(line));
            }
        }
        for event in unreadable {
            if self.is_news(&event.event_id, "unreadable", now) {
                items.push(TailItem::Unreadable(event));
            }
        }
        for call in calls.into_iter().flatten() {
            items.extend(self.domain_events(&call));
        }
        // Older events are not read any more.
        let forgotten = now.minus(SETTLING * 4);
        self.seen.retain(|_, (at, _)| *at > forgotten);
        Ok(items)
    }

    /// True if the event was not shown with this status yet. Notes that it was read now.
    fn is_news(&mut self, event_id: &str, status: &'static str, now: Timestamp) -> bool {
        let before = self.seen.insert(EventId::new(event_id), (now, status));
        before.is_none_or(|(_, shown)| shown != status)
    }

    /// Returns the domain events of a call that were committed since the tail began and were not shown yet.
    fn domain_events(&mut self, call: &Call) -> Vec<TailItem> {
        let writes = call.writes();
        let committed_at = |sequence: usize| {
            writes.iter().find(|write| write.announcements.contains(&(sequence - 1))).map(|write| write.at)
        };
        let shown = self.announced.insert(call.call_id.clone(), call.announcements.len()).unwrap_or_default();
        let events = call.domain_events_from(shown + 1).into_iter();
        let items = events.filter_map(|event| {
            let at = committed_at(event.sequence).filter(|at| *at >= self.since)?;
            let call_id = event.call_id;
            Some(TailItem::DomainEvent { at: at.to_string(), id: event.id, event_type: event.event_type, call_id })
        });
        items.collect()
    }
}

/// Reads the events that arrived in this span, page by page.
async fn read(stack: &Stack, since: Timestamp, mut until: Timestamp) -> Result<Found, Error> {
    let mut found = Found::default();
    for _ in 0..PAGES_MAX {
        let filter =
            Filter { status: None, provider: None, event_type: None, call: None, since, until, limit: PAGE_LIMIT };
        let page = list(stack, &filter).await?;
        found.events.extend(page.events);
        found.unreadable.extend(page.unreadable);
        match page.next_until.as_deref().and_then(Timestamp::parse_rfc3339) {
            Some(next) => until = next,
            None => return Ok(found),
        }
    }
    found.skipped = Some(TailItem::Skipped { since: since.to_string(), until: until.to_string() });
    Ok(found)
}
