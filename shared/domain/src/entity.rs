//! Entities: things that webhooks are about and that are no calls, such as a payment or a repository.
//!
//! **The latest event of an entity is a function of the set of its events.** Events are ordered by their time, then by the
//! sender's counter, then by their id. An event is stale if the latest one has a later time, or a higher counter at the same time: nothing is
//! published for it. So a subscriber sees the events of an entity in the order of their times, whatever the order of delivery was.
//! Events of the same time are all published, because nothing tells which of them came first.
//!
//! An entity without an id is a single event, and therefore never stale.
//!
//! **A forgotten entity keeps its order, and loses `data`.** Its later events are published without `data` too. An event that was
//! erased in the inbox has no `data`, so folding it again erases what a row restored from a backup says of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::booking::Booking;
use crate::call::Disposition;
use crate::domain_event::DOMAIN_EVENT_SCHEMA_VERSION;
use crate::entity_position::{EntityPosition, ordered_at};
use crate::entity_report::{EntityReport, Scalar};
use crate::event::{CallId, EventId, Origin, ProviderEvent, TraceId};
use crate::time::Timestamp;

/// Events that an entity remembers, the latest ones. They tell operators what became of an event.
pub const ENTITY_EVENTS_MAX: usize = 10;
/// Events of the latest time that an entity remembers in any case. None of them makes another one stale, so only this memory tells
/// that one was folded before. If an entity remembers so many, a further event of that time counts as folded for repairs.
pub const ENTITY_TIED_MAX: usize = 100;

/// An entity as its row holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Key of the row, which begins with [`ENTITY_PREFIX`](crate::ENTITY_PREFIX).
    pub key: CallId,
    /// Number of writes of the row.
    pub version: u64,
    /// Version of the write that announced `announced`. `None` in a copied table, where the relay must not publish them again.
    pub outbox_start: Option<u64>,
    /// The latest events that were not stale, in their order. At most [`ENTITY_EVENTS_MAX`], or all events of the last write, and up
    /// to [`ENTITY_TIED_MAX`] events of the latest time.
    pub latest: Vec<EntityPosition>,
    /// Events of the last write that announced any.
    pub announced: Vec<AnnouncedEvent>,
    /// Time at which an operator forgot the entity. `None` if nobody did.
    pub forgotten_at: Option<Timestamp>,
    /// State of the booking that the entity is. `None` if no event was about a booking.
    pub booking: Option<Booking>,
}

/// Fate of an event, as the row of its entity tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityFate {
    NotFolded,
    /// The event is folded and decides its booking, and the calls of the booking do not agree with it yet. So the consumer is not done with the event.
    /// The disposition is as in `Folded`.
    CallsDisagree(Option<Disposition>),
    /// The event is folded, or is stale and so changes nothing. `None` if the entity no longer remembers whether it was applied.
    Folded(Option<Disposition>),
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
    /// The next row. `None` if no event is new, and none erases anything of the row.
    pub next: Option<Entity>,
    /// Disposition of each event: applied, stale or duplicate.
    pub dispositions: Vec<Disposition>,
}

impl Entity {
    /// Returns what became of the event at this place.
    #[must_use]
    pub fn fate(&self, position: &EntityPosition) -> EntityFate {
        let is_open = self.booking.as_ref().is_some_and(|booking| {
            // An earlier event of the booking needs no calls of its own any more.
            !booking.calls_agree && booking.decided_by.event_id == position.event_id
        });
        let folded = |disposition| {
            if is_open { EntityFate::CallsDisagree(disposition) } else { EntityFate::Folded(disposition) }
        };
        if self.latest.contains(position) {
            return folded(Some(Disposition::Applied));
        }
        if self.is_stale(position) {
            // An applied event that is later than the oldest of these would be among them.
            let oldest = self.latest.len().checked_sub(ENTITY_EVENTS_MAX).and_then(|index| self.latest.get(index));
            let was_never_applied = oldest.is_none_or(|oldest| position > oldest);
            return folded(was_never_applied.then_some(Disposition::Stale));
        }
        let is_tied = self.latest.last().is_some_and(|latest| !latest.is_before(position));
        if is_tied && tied_count(&self.latest) >= ENTITY_TIED_MAX {
            return folded(None);
        }
        EntityFate::NotFolded
    }

    /// True if the event at this place is folded, or changes nothing.
    #[must_use]
    pub fn includes(&self, position: &EntityPosition) -> bool {
        self.fate(position) != EntityFate::NotFolded
    }

    /// Forgets the entity, for an operator. Returns the next row, which announces nothing.
    #[must_use]
    pub fn forget(&self, now: Timestamp) -> Self {
        let mut next = Self { version: self.version + 1, ..self.clone() };
        next.erase_data(now);
        next
    }

    /// Erases the `data` of these events. Returns the next row, which announces nothing. `None` if the row holds no `data` of them.
    #[must_use]
    pub fn erase_events(&self, ids: &BTreeSet<EventId>) -> Option<Self> {
        let mut next = Self { version: self.version + 1, ..self.clone() };
        for event in next.announced.iter_mut().filter(|event| ids.contains(&event.event_id)) {
            event.report.data.clear();
        }
        (next.announced != self.announced).then_some(next)
    }

    fn erase_data(&mut self, forgotten_at: Timestamp) {
        self.forgotten_at = Some(self.forgotten_at.map_or(forgotten_at, |before| before.min(forgotten_at)));
        for event in &mut self.announced {
            event.report.data.clear();
        }
    }

    /// True if the row takes this event into account, and the calls of its booking agree with the row. So the event needs no further
    /// fold.
    #[must_use]
    pub fn includes_event(&self, event: &ProviderEvent) -> bool {
        let Some(position) = EntityPosition::of(event) else { return true };
        let booking = || self.booking.as_ref();
        let is_in_booking = |report| booking().is_some_and(|booking| booking.includes(&position, report));
        self.includes(&position) && event.booking.as_deref().is_none_or(is_in_booking)
    }

    fn is_stale(&self, position: &EntityPosition) -> bool {
        self.latest.last().is_some_and(|latest| position.is_before(latest))
    }

    /// Returns the domain events of the last write that announced any.
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
    let before = entity.and_then(|entity| entity.booking.as_ref());
    let mut booking: Option<Booking> = None;
    for (index, position) in order {
        if let Some(event) = events.get(index) {
            booking = Booking::after(booking.as_ref().or(before), &position, event).or(booking);
        }
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
    let announces = !announced.is_empty();
    let next = if announces || booking.is_some() {
        let version = entity.map_or(0, |entity| entity.version) + 1;
        let latest = remembered(latest, announced.len());
        let forgotten_at = entity.and_then(|entity| entity.forgotten_at);
        let outbox_start = if announces { Some(version) } else { entity.and_then(|entity| entity.outbox_start) };
        if !announces {
            announced = entity.map(|entity| entity.announced.clone()).unwrap_or_default();
        }
        let booking = booking.or_else(|| before.cloned());
        let mut next = Entity { key: key.clone(), version, outbox_start, latest, announced, forgotten_at, booking };
        if let Some(at) = forgotten_at.or_else(|| forgotten_in(events)) {
            next.erase_data(at);
        }
        Some(next)
    } else {
        entity.and_then(|entity| erased(entity, events))
    };
    EntityFold { next, dispositions }
}

/// Returns the row without the data that was erased in the inbox. `None` if the row holds no such data.
fn erased(entity: &Entity, events: &[ProviderEvent]) -> Option<Entity> {
    let is_erased = |event: &&ProviderEvent| event.entity.as_ref().is_some_and(|report| report.data.is_empty());
    let ids = events.iter().filter(is_erased).map(|event| event.event_id.clone()).collect();
    match forgotten_in(events).filter(|_| entity.forgotten_at.is_none()) {
        Some(at) => Some(entity.forget(at)),
        None => entity.erase_events(&ids),
    }
}

/// Time at which the entity of these events was forgotten, as they say.
fn forgotten_in(events: &[ProviderEvent]) -> Option<Timestamp> {
    events.iter().filter_map(|event| event.forgotten_at).min()
}

/// Number of events of the latest time that no other one makes stale.
fn tied_count(latest: &[EntityPosition]) -> usize {
    let last = latest.last();
    latest.iter().filter(|position| last.is_some_and(|last| !position.is_before(last))).count()
}

/// Returns the events that the row keeps.
fn remembered(latest: Vec<EntityPosition>, announced: usize) -> Vec<EntityPosition> {
    let others = latest.len().saturating_sub(ENTITY_EVENTS_MAX.max(announced));
    let mut tied_beyond = tied_count(&latest).saturating_sub(ENTITY_TIED_MAX);
    let last = latest.last().cloned();
    let is_kept = |(index, position): &(usize, EntityPosition)| {
        let is_tied = last.as_ref().is_some_and(|last| !position.is_before(last));
        let is_among_tied = is_tied && tied_beyond == 0;
        tied_beyond = tied_beyond.saturating_sub(usize::from(is_tied));
        *index >= others || is_among_tied
    };
    latest.into_iter().enumerate().filter(is_kept).map(|(_, position)| position).collect()
}

impl AnnouncedEvent {
    /// `None` if the event is not about an entity.
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

    /// Returns the domain event of an event. `None` if the event is not about an entity.
    #[must_use]
    pub fn of_event(event: &ProviderEvent) -> Option<Self> {
        AnnouncedEvent::of(event).map(|event| Self::of(&event))
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
