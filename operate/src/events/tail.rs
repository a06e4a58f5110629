//! Follows a stack: new events as they arrive, and the domain events of their calls.
//!
//! A deployed stack has nothing to listen to, so the newest minute of the index is read again and again. Domain events are read
//! from the rows of the calls that had an event. Those that a worker caused are shown with the next event of their call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use switchhook_domain::{CallId, EventId, Timestamp};

use super::{EventLine, Filter, UnreadableEvent, list};
use crate::error::Error;
use crate::stack::Stack;

/// Time after its receipt within which an event becomes visible in the index and in its call.
const SETTLING: Duration = Duration::from_secs(15);
/// Largest number of events of one poll.
const POLL_LIMIT: usize = 200;

/// Position of a reader that follows a stack.
#[derive(Debug)]
pub struct Tail {
    since: Timestamp,
    /// Events that were shown: the time of the poll that showed them last, and the status that it showed.
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
}

impl Tail {
    /// Starts to follow a stack: events that arrive from `since` on.
    #[must_use]
    pub const fn new(since: Timestamp) -> Self {
        Self { since, seen: BTreeMap::new(), announced: BTreeMap::new() }
    }

    /// Returns the new events since the last poll in the order in which they arrived, and then the new domain events of their
    /// calls.
    ///
    /// # Errors
    /// A read failed. The next poll returns what this one could not.
    pub async fn poll(&mut self, stack: &Stack) -> Result<Vec<TailItem>, Error> {
        let now = stack.now();
        let since = self.since.max(now.minus(SETTLING));
        let filter = Filter {
            status: None,
            provider: None,
            event_type: None,
            call: None,
            since,
            until: now.plus(Duration::from_secs(1)),
            limit: POLL_LIMIT,
        };
        let page = list(stack, &filter).await?;
        let mut items = Vec::new();
        let mut calls = BTreeSet::new();
        for line in page.events.into_iter().rev() {
            let id = EventId::new(&line.event_id);
            calls.extend(line.call_id.as_deref().map(CallId::new));
            if self.seen.get(&id).is_none_or(|(_, status)| *status != line.status) {
                self.seen.insert(id, (now, line.status));
                items.push(TailItem::Event(line));
            }
        }
        for event in page.unreadable {
            if self.seen.insert(EventId::new(&event.event_id), (now, "unreadable")).is_none() {
                items.push(TailItem::Unreadable(event));
            }
        }
        for call_id in calls {
            items.extend(self.domain_events(stack, &call_id).await?);
        }
        // Older events are not read any more.
        let forgotten = now.minus(SETTLING * 4);
        self.seen.retain(|_, (at, _)| *at > forgotten);
        Ok(items)
    }

    /// Returns the domain events of a call that were committed since the tail began and were not shown yet.
    async fn domain_events(&mut self, stack: &Stack, call_id: &CallId) -> Result<Vec<TailItem>, Error> {
        let Some(call) = stack.calls.resolve_eventual(call_id).await?.call else { return Ok(Vec::new()) };
        let writes = call.writes();
        let committed_at = |sequence: usize| {
            writes.iter().find(|write| write.announcements.contains(&(sequence - 1))).map(|write| write.at)
        };
        let shown = self.announced.insert(call.call_id.clone(), call.announcements.len()).unwrap_or_default();
        let events = call.domain_events_from(shown + 1).into_iter();
        Ok(events
            .filter_map(|event| {
                let at = committed_at(event.sequence).filter(|at| *at >= self.since)?;
                let call_id = event.call_id;
                Some(TailItem::DomainEvent { at: at.to_string(), id: event.id, event_type: event.event_type, call_id })
            })
            .collect())
    }
}
