//! Entities: things that webhooks are about and that are no calls, such as a payment or a repository.
//!
//! **The latest event of an entity is a function of the set of its events.** Events are ordered by their time, then by the
//! sender's counter, then by their id. An event is stale if the latest one has a later time, or a higher counter at the same time: nothing is
//! published for it. So a subscriber sees the events of an entity in the order of their times, whatever the order of delivery was.
//! Events of the same time are all published, because nothing tells which of them came first.
//!
//! An entity without an id is a single event, and therefore never stale.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::Disposition;
use crate::domain_event::DOMAIN_EVENT_SCHEMA_VERSION;
use crate::entity_report::{EntityReport, Scalar};
use crate::event::{CallId, EventId, Origin, ProviderEvent, TraceId};
use crate::time::Timestamp;

/// Events that an entity remembers, the latest ones. They tell operators what became of an event.
pub const ENTITY_EVENTS_MAX: usize = 10;
/// An event that claims to be further in the future counts as this far in the future. Otherwise it would make every later event
/// stale.
const CLOCK_MARGIN: Duration = Duration::from_secs(5 * 60);

/// Place of an event among the events of its entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityPosition {
    pub at: Timestamp,
    pub sequence: Option<u32>,
    pub event_id: EventId,
}

/// Time by which an event is ordered.
fn ordered_at(report: &EntityReport, received_at: Timestamp) -> Timestamp {
    report.occurred_at.map_or(received_at, |at| at.min(received_at.plus(CLOCK_MARGIN)))
}

impl EntityPosition {
    /// Place of an event. `None` if the event is not about an entity.
    #[must_use]
    pub fn of(event: &ProviderEvent) -> Option<Self> {
        let report = event.entity.as_ref()?;
        let at = ordered_at(report, event.received_at);
        Some(Self { at, sequence: report.sequence, event_id: event.event_id.clone() })
    }

    /// True if the time or the counter says that this event came first.
    fn is_before(&self, other: &Self) -> bool {
        let counters = self.sequence.zip(other.sequence);
        self.at < other.at || (self.at == other.at && counters.is_some_and(|(own, other)| own < other))
    }
}

/// An entity as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Key of the row, which begins with [`ENTITY_PREFIX`](crate::ENTITY_PREFIX).
    pub key: CallId,
    /// Number of writes of the row.
    pub version: u64,
    /// The latest events that were not stale, in their order. At most [`ENTITY_EVENTS_MAX`], or all events of the last write.
    pub latest: Vec<EntityPosition>,
    /// Events of the last write, which announces them.
    pub announced: Vec<AnnouncedEvent>,
}

/// Event of an entity with everything that its domain event repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedEvent {
    pub event_id: EventId,
    pub event_type: String,
    pub received_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
    #[serde(flatten)]
    pub report: EntityReport,
}

/// Result of folding events into an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityFold {
    /// The next row. `None` if no event is new.
    pub next: Option<Entity>,
    /// Disposition of each event: applied, stale or duplicate.
    pub dispositions: Vec<Disposition>,
}

impl Entity {
    /// Returns what became of the event at this place. `None` if the event was not folded, or if the entity has forgotten it.
    #[must_use]
    pub fn disposition(&self, position: &EntityPosition) -> Option<Disposition> {
        if self.latest.contains(position) {
            return Some(Disposition::Applied);
        }
        // An entity that remembers all its events remembers which one was never applied.
        let remembers_all = self.latest.len() < ENTITY_EVENTS_MAX;
        let is_known = remembers_all || self.latest.first().is_some_and(|first| position > first);
        (is_known && self.is_stale(position)).then_some(Disposition::Stale)
    }

    /// True if the event at this place needs no further fold.
    #[must_use]
    pub fn includes(&self, position: &EntityPosition) -> bool {
        self.is_stale(position) || self.latest.contains(position)
    }

    fn is_stale(&self, position: &EntityPosition) -> bool {
        self.latest.last().is_some_and(|latest| position.is_before(latest))
    }

    /// Returns the domain events of the last write.
    #[must_use]
    pub fn domain_events(&self) -> Vec<WebhookReceived> {
        self.announced.iter().map(WebhookReceived::of).collect()
    }
}

/// Folds events into an entity. `entity` is `None` if it has no row yet. Events that are about no entity are duplicates.
#[must_use]
pub fn fold_entity(entity: Option<&Entity>, key: &CallId, events: &[ProviderEvent]) -> EntityFold {
    let mut order: Vec<(usize, EntityPosition)> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        order.extend(EntityPosition::of(event).map(|position| (index, position)));
    }
    order.sort_by(|(_, a), (_, b)| a.cmp(b));
    let mut dispositions = vec![Disposition::Duplicate; events.len()];
    let mut latest = entity.map(|entity| entity.latest.clone()).unwrap_or_default();
    let mut announced: Vec<AnnouncedEvent> = Vec::new();
    let mut seen: BTreeSet<EntityPosition> = latest.iter().cloned().collect();
    for (index, position) in order {
        if !seen.insert(position.clone()) {
            continue;
        }
        let is_new = latest.last().is_none_or(|last| !position.is_before(last));
        if let Some(disposition) = dispositions.get_mut(index) {
            *disposition = if is_new { Disposition::Applied } else { Disposition::Stale };
        }
        if is_new {
            latest.push(position);
            latest.sort();
            announced.extend(events.get(index).and_then(AnnouncedEvent::of));
        }
    }
    let next = (!announced.is_empty()).then(|| {
        let kept = latest.len().saturating_sub(ENTITY_EVENTS_MAX.max(announced.len()));
        let latest = latest.split_off(kept);
        Entity { key: key.clone(), version: entity.map_or(0, |entity| entity.version) + 1, latest, announced }
    });
    EntityFold { next, dispositions }
}

impl AnnouncedEvent {
    fn of(event: &ProviderEvent) -> Option<Self> {
        Some(Self {
            event_id: event.event_id.clone(),
            event_type: event.event_type.clone(),
            received_at: event.received_at,
            trace_id: event.trace_id.clone(),
            report: event.entity.clone()?,
        })
    }
}

/// Event that Switchhook publishes about a webhook that is about no call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookReceived {
    pub schema_version: u32,
    /// `{event_id}/received`.
    pub id: String,
    /// `webhook.received`.
    #[serde(rename = "type")]
    pub event_type: &'static str,
    pub provider: Option<Origin>,
    pub event_id: String,
    /// The sender's name for the type of the event.
    pub webhook_type: String,
    /// The sender's id of the entity. `None` if the configuration names no place for it, or if the webhook has none.
    pub entity_id: Option<String>,
    /// The sender's counter of the events of the entity. `None` if the configuration names no place for it.
    pub sequence: Option<u32>,
    pub data: BTreeMap<String, Scalar>,
    /// Trace id of the request that stored the webhook. `None` if it is not known.
    pub trace_id: Option<String>,
    /// Time by which the event is ordered: the time by the sender's clock, or the time of receipt. RFC 3339.
    pub occurred_at: String,
    /// Time of receipt. RFC 3339.
    pub received_at: String,
}

impl WebhookReceived {
    pub const TYPE: &str = "webhook.received";

    /// Id of the domain event of this event.
    #[must_use]
    pub fn id_of(event_id: &EventId) -> String {
        format!("{event_id}/received")
    }

    fn of(event: &AnnouncedEvent) -> Self {
        Self {
            schema_version: DOMAIN_EVENT_SCHEMA_VERSION,
            id: Self::id_of(&event.event_id),
            event_type: Self::TYPE,
            provider: event.event_id.origin(),
            event_id: event.event_id.to_string(),
            webhook_type: event.event_type.clone(),
            entity_id: event.report.id.clone(),
            sequence: event.report.sequence,
            data: event.report.data.clone(),
            trace_id: event.trace_id.as_ref().map(|trace_id| trace_id.as_str().to_owned()),
            occurred_at: ordered_at(&event.report, event.received_at).to_string(),
            received_at: event.received_at.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
