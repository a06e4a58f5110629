//! Folding provider events into a call.

use std::time::Duration;

use crate::announce::{Cause, call_announcement};
use crate::announcement::{Announcement, AnnouncementKind, AnnouncementSource, NOT_PLACED};
use crate::attempt::AttemptState;
use crate::call::{
    ATTEMPT_EVENTS_MAX, AttemptRecord, CALL_ATTEMPTS_MAX, Call, Disposition, HistoryEntry, Job, Policy,
    TRACED_ENTRIES_MAX,
};
use crate::derive::Transition;
use crate::event::{AttemptKey, CallEvent, Direction, EventId, EventKind, Origin, ProviderEvent};
use crate::time::Timestamp;

/// Time by which the clock of a sender may be behind. The check of a signature that names its time allows as much by default.
const SENDER_CLOCK_LAG_MAX: Duration = Duration::from_secs(5 * 60);

/// Result of [`fold`] and [`refold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Next row of the call. `None` if no event changed anything.
    pub transition: Option<Transition>,
    /// Outcome of each event, in the order given.
    pub outcomes: Vec<FoldOutcome>,
}

/// Result of folding one provider event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldOutcome {
    /// The event is now in the history, with its disposition.
    Folded,
    /// The event was in the history already.
    Duplicate,
    /// Switchhook itself made the event, and there is no such call.
    Refused,
    /// The call has no room for the event.
    Quarantined,
}

/// Folds provider events into a call, or into a new one.
#[must_use]
pub fn fold(call: Option<&Call>, events: &[ProviderEvent], policy: &Policy, now: Timestamp) -> Fold {
    let mut after = call.cloned();
    let outcomes: Vec<FoldOutcome> = events
        .iter()
        .map(|event| match (&mut after, event.origin) {
            (Some(call), _) => call.add_event(event, now),
            (none @ None, Origin::Provider(_)) => {
                // A call that Switchhook did not place starts with its first event.
                let call = Call::new(event.call_id.clone(), Job::InProgress, event.received_at);
                none.insert(call).add_event(event, now)
            }
            (None, Origin::Switchhook) => FoldOutcome::Refused,
        })
        .collect();
    let is_changed = outcomes.contains(&FoldOutcome::Folded);
    let transition = after.filter(|_| is_changed).map(|call| call.rederive(Cause::Events, policy, now));
    Fold { transition, outcomes }
}

/// Repairs a row that does not match its events: folds the call again from the events in the inbox.
///
/// - `events` are the provider events of the call; `drift` is the event that reports the disagreement.
/// - An entry of the history whose event is not among `events` is removed, unless `is_kept` returns true for it. So the caller can
///   keep events that are too old to be in the inbox.
/// - The plan, the dials and the announcements stay. If the event of an announcement was removed, the announcement gets `drift`
///   as its source.
#[must_use]
pub fn refold(
    call: &Call,
    events: &[ProviderEvent],
    is_kept: impl Fn(&HistoryEntry) -> bool,
    drift: &ProviderEvent,
    policy: &Policy,
    now: Timestamp,
) -> Fold {
    if call.contains_event(&drift.event_id) {
        return Fold { transition: None, outcomes: vec![FoldOutcome::Duplicate] };
    }
    let mut after = rebuild_history(call, events, is_kept, now);
    let label = |call: &Call| call.attempts().last().map_or(NOT_PLACED, AttemptState::lifecycle_label);
    let label_before = label(call);
    after.add_event(drift, now);
    let drift_at = after.history.len() - 1;
    after.announcements = moved_announcements(call, &after, drift_at);

    let Transition { call: mut after, mut new_announcements } = after.rederive(Cause::Events, policy, now);
    let label_after = label(&after);
    let is_repaired = (label_before, &call.job) != (label_after, &after.job);
    if is_repaired || call.history.len() + 1 != after.history.len() {
        let kind = AnnouncementKind::DriftRepaired { before: label_before, after: label_after };
        after.announcements.push(call_announcement(&after, kind, Some(drift_at), now));
        new_announcements += 1;
    }
    Fold { transition: Some(Transition { call: after, new_announcements }), outcomes: vec![FoldOutcome::Folded] }
}

/// Returns the call with a history that consists of `events` and of the entries that are kept.
pub(crate) fn rebuild_history(
    call: &Call,
    events: &[ProviderEvent],
    is_kept: impl Fn(&HistoryEntry) -> bool,
    now: Timestamp,
) -> Call {
    let mut after = Call { history: Vec::new(), ..call.clone() };
    let position = |id: &EventId| call.history.iter().position(|entry| entry.source_event_id == *id);
    let mut ordered: Vec<(Option<usize>, &ProviderEvent)> =
        events.iter().map(|event| (position(&event.event_id), event)).collect();
    // Events that were in the row come first and keep their order, so that as many entries as possible keep their index.
    ordered.sort_by_key(|(at, event)| (at.is_none(), *at, event.received_at));
    for (_, event) in &ordered {
        after.add_event(event, now);
    }
    let is_known = |entry: &HistoryEntry| ordered.iter().any(|(_, event)| event.event_id == entry.source_event_id);
    after.history.extend(call.history.iter().filter(|entry| !is_known(entry) && is_kept(entry)).cloned());
    for entry in &mut after.history {
        let before = call.history.iter().find(|old| old.source_event_id == entry.source_event_id);
        entry.folded_at = before.map_or(now, |old| old.folded_at);
    }
    after
}

/// Returns the announcements with sources that point into the new history. `drift_at` is the index of the drift event there.
fn moved_announcements(before: &Call, after: &Call, drift_at: usize) -> Vec<Announcement> {
    let new_index = |index: usize| match before.history.get(index) {
        Some(old) => after
            .history
            .iter()
            .position(|entry| (&entry.source_event_id, entry.event.kind) == (&old.source_event_id, old.event.kind)),
        // The row had lost the end of its history. The new history has the same order, so the index is still right.
        None => Some(index).filter(|index| *index < drift_at),
    };
    let moved = |announcement: &Announcement| match announcement.source {
        AnnouncementSource::Event(index) => match new_index(index) {
            Some(index) => Announcement { source: AnnouncementSource::Event(index), ..announcement.clone() },
            // The drift event has no provider, and the announced attempt has one.
            None => Announcement {
                source: AnnouncementSource::Event(drift_at),
                provider: announcement.provider.or_else(|| before.provider_of_source(announcement.source)),
                ..announcement.clone()
            },
        },
        AnnouncementSource::Transition(_) => announcement.clone(),
    };
    after.announcements.iter().map(moved).collect()
}

impl Call {
    /// True if folding the event would change nothing: the history has it, or a later event that took its place. `event` names the call and
    /// the attempt of this row, also if it came under an alias.
    #[must_use]
    pub fn includes_event(&self, event: &ProviderEvent) -> bool {
        self.clone().add_event(event, event.received_at) == FoldOutcome::Duplicate
    }

    /// Adds an event to the history. Nothing is derived from it yet.
    fn add_event(&mut self, event: &ProviderEvent, now: Timestamp) -> FoldOutcome {
        if self.contains_event(&event.event_id) {
            return FoldOutcome::Duplicate;
        }
        let is_call_level = event.call_events.iter().all(|call_event| call_event.kind.is_call_level());
        let key = event.attempt.as_ref().filter(|_| !is_call_level);
        let found = key.and_then(|key| self.find_attempt(key, event));
        // False if the event names an attempt that has no record yet.
        let is_of_known_attempt = key.is_some() == found.is_some();
        if is_of_known_attempt && let Some(outcome) = self.replace_latest(event, found, now) {
            return outcome;
        }
        let is_own = event.origin == Origin::Switchhook;
        // If Switchhook places the call, an event that concerns no attempt tells nothing about a dial.
        let is_about_attempt = !(is_own || is_call_level && self.plan.is_some());
        let needs_record = match key {
            Some(_) => found.is_none(),
            None => is_about_attempt && (self.attempt_records.is_empty() || self.is_before_dials(event)),
        };
        // Switchhook's own events need no limit: it makes at most one for each event of a provider that had room, and each attempt that
        // the event belongs to.
        if !is_own && !self.has_room(event, found, is_of_known_attempt, needs_record) {
            return FoldOutcome::Quarantined;
        }
        if needs_record {
            self.attempt_records.push(AttemptRecord {
                key: None,
                provider: None,
                provider_call_id: None,
                awaits_outcome: true,
                dialled_at: None,
                is_watched: false,
                dial_key: None,
            });
        }
        let attempt_index = key.map(|_| found.unwrap_or(self.attempt_records.len() - 1));
        if let Some(index) = attempt_index {
            self.describe_attempt(index, key, event);
        }
        self.describe_call(event);
        if let Some(forgotten_at) = event.forgotten_at.or(self.forgotten_at) {
            self.erase_person(forgotten_at);
        }
        let is_traced = self.history.len() < TRACED_ENTRIES_MAX;
        let entries = event.call_events.iter().map(|call_event| {
            let entry = new_entry(event, call_event, attempt_index, now);
            HistoryEntry { trace_id: entry.trace_id.filter(|_| is_traced), ..entry }
        });
        self.history.extend(entries);
        FoldOutcome::Folded
    }

    /// Returns the index of the attempt record that an event with this key belongs to. `None` if there is no record yet.
    fn find_attempt(&self, key: &AttemptKey, event: &ProviderEvent) -> Option<usize> {
        let records = &self.attempt_records;
        let by_key = || records.iter().position(|record| record.key.as_ref() == Some(key));
        // An attempt that Switchhook dialled has Switchhook's key, but an event may know only the provider's call id. Any other
        // attempt is found by its key alone: two keys with one call id are two attempts, whichever arrives first.
        let by_provider_call = || {
            let id = event.provider_call_id.as_ref()?;
            records.iter().position(|record| {
                record.provider.is_some_and(|provider| Origin::Provider(provider) == event.origin)
                    && record.provider_call_id.as_ref() == Some(id)
            })
        };
        // Events that named no attempt may have made the record of the first attempt. If Switchhook has dialled since, this event is
        // about a later one.
        let unnamed = || {
            let index = records.iter().position(|record| record.key.is_none())?;
            let since_then = self.started_at(index)..=reported_at(event);
            let mut dials = records.iter().filter_map(|record| record.dialled_at);
            (!dials.any(|dialled_at| since_then.contains(&dialled_at))).then_some(index)
        };
        by_key().or_else(by_provider_call).or_else(unnamed)
    }

    /// True if an event that names no attempt is about an attempt before all that have a record, and the first of these is a dial of
    /// Switchhook's. **The event must not end that dial**: the phone would be dialled again while it rings.
    ///
    /// Two events need no attempt of their own. An answer of the person to the appointment counts for the dial, whenever it was given.
    /// And the clock of the sender may be behind: if something began shortly before the dial, it was the dial that began.
    fn is_before_dials(&self, event: &ProviderEvent) -> bool {
        // The events share one such attempt, whose record has no key.
        let has_record = self.attempt_records.iter().any(|record| record.key.is_none());
        if has_record || self.attempt_records.iter().all(|record| record.dialled_at.is_none()) {
            return false;
        }
        let starts = self.starts();
        let Some((started_at, index)) = starts.first() else { return false };
        let is_dialled = self.attempt_records.get(*index).is_some_and(|record| record.dialled_at.is_some());
        let kinds = event.call_events.iter().map(|call_event| call_event.kind);
        // The clock may be ahead as well: an event happened before it arrived.
        let reported_at = reported_at(event).min(event.received_at);
        let counts_for_dial = counts_for_later_dial(kinds, reported_at, event.received_at, *started_at);
        is_dialled && reported_at < *started_at && !counts_for_dial
    }

    /// True if an event that names no attempt is from before a dial of Switchhook's, and [counts for it](Self::is_before_dials) all the same.
    pub(crate) fn entry_counts_for_later_dial(&self, entry: &HistoryEntry, dialled_at: Timestamp) -> bool {
        let siblings = self.history.iter().filter(|other| other.source_event_id == entry.source_event_id);
        let reported_at = self.reported_at(entry).min(entry.received_at);
        counts_for_later_dial(siblings.map(|other| other.event.kind), reported_at, entry.received_at, dialled_at)
    }

    fn has_room(
        &self,
        event: &ProviderEvent,
        attempt_index: Option<usize>,
        is_of_known_attempt: bool,
        needs_record: bool,
    ) -> bool {
        let is_counted = |entry: &&HistoryEntry| {
            is_of_known_attempt && entry.attempt_index == attempt_index && entry.event.kind.is_evidence()
        };
        let held = || self.history.iter().filter(is_counted).count();
        let fits = |held: usize| held + event.call_events.len() <= ATTEMPT_EVENTS_MAX;
        // Most calls are so short that nothing needs to be counted.
        (fits(self.history.len()) || fits(held())) && !(needs_record && self.attempts().len() >= CALL_ATTEMPTS_MAX)
    }

    fn describe_attempt(&mut self, index: usize, key: Option<&AttemptKey>, event: &ProviderEvent) {
        let Some(record) = self.attempt_records.get_mut(index) else { return };
        if record.key.is_none() {
            record.key = key.cloned();
        }
        // Switchhook asks the dialled provider about this id, so another sender's own id does not become the id of a dial.
        let is_from_dialled = match event.origin {
            Origin::Switchhook => true,
            Origin::Provider(provider) => record.dialled_at.is_none() || record.provider == Some(provider),
        };
        if record.provider_call_id.is_none() && is_from_dialled {
            record.provider_call_id.clone_from(&event.provider_call_id);
        }
        record.provider = record.provider.or(event.dialled_provider);
    }

    fn describe_call(&mut self, event: &ProviderEvent) {
        if self.plan.is_none() && event.direction == Some(Direction::Inbound) {
            self.direction = event.direction;
        }
        self.direction = self.direction.or(event.direction);
        for (known, reported) in [(&mut self.from, &event.from), (&mut self.to, &event.to)] {
            if known.is_none() {
                known.clone_from(reported);
            }
        }
        if self.appointment_id.is_none() {
            self.appointment_id.clone_from(&event.appointment_id);
        }
    }

    /// Replaces the entry of an earlier event, if the call keeps only the latest event of this kind. So a call that lasts for days
    /// does not fill up. `None` if nothing is to be replaced: the call keeps all events of this kind, or has none yet.
    fn replace_latest(
        &mut self,
        event: &ProviderEvent,
        attempt_index: Option<usize>,
        now: Timestamp,
    ) -> Option<FoldOutcome> {
        let [call_event] = event.call_events.as_slice() else { return None };
        if !call_event.kind.is_kept_once() {
            return None;
        }
        let is_same =
            |entry: &&mut HistoryEntry| entry.event.kind == call_event.kind && entry.attempt_index == attempt_index;
        let held = self.history.iter_mut().find(is_same)?;
        if (held.received_at, &held.source_event_id) >= (event.received_at, &event.event_id) {
            return Some(FoldOutcome::Duplicate);
        }
        *held = new_entry(event, call_event, attempt_index, now);
        Some(FoldOutcome::Folded)
    }
}

/// Returns the earliest time that an event names, else its time of receipt. See [`Call::reported_at`].
fn reported_at(event: &ProviderEvent) -> Timestamp {
    event.call_events.iter().filter_map(|call_event| call_event.occurred_at).min().unwrap_or(event.received_at)
}

fn new_entry(
    event: &ProviderEvent,
    call_event: &CallEvent,
    attempt_index: Option<usize>,
    now: Timestamp,
) -> HistoryEntry {
    HistoryEntry {
        source_event_id: event.event_id.clone(),
        event: call_event.clone(),
        received_at: event.received_at,
        folded_at: now,
        attempt_index,
        disposition: Disposition::Parked,
        trace_id: event.trace_id.clone(),
    }
}

/// True if an event with these kinds, which names no attempt, counts for a dial after it. See [`Call::is_before_dials`].
fn counts_for_later_dial(
    mut kinds: impl Iterator<Item = EventKind> + Clone,
    reported_at: Timestamp,
    received_at: Timestamp,
    dialled_at: Timestamp,
) -> bool {
    kinds.clone().any(|kind| matches!(kind, EventKind::UserConfirmed | EventKind::UserDeclined))
        || kinds.all(EventKind::is_beginning)
            && received_at >= dialled_at
            && reported_at.plus(SENDER_CLOCK_LAG_MAX) >= dialled_at
}
