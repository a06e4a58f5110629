//! A call: the set of its events, and everything that follows from it.
//!
//! **Whatever is shown, announced or settled is computed from the history**, never kept beside it and mended: attempts,
//! their states, the job of a call that others placed, the appointment and the dispositions are functions of the set of
//! call events. What depends on the order of arrival is bounded and kept: which provider owns the call (its first event's),
//! which events a full call no longer takes, the log of what was announced, and what only describes (numbers, direction,
//! appointment, the provider's id of an attempt: as the first event said that said it).

use std::cmp::Ordering;
use std::time::Duration;

use crate::announce::{self, Announcement, AnnouncementKind, AnnouncementSource, NOT_PLACED};
use crate::event::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent,
};
use crate::lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome};
use crate::machine::{MachineFold, Verdict};
use crate::plan::{ManualTrigger, Plan, StopReason, Transition};
use crate::time::Timestamp;

/// Call events per attempt, and per call for those that name no attempt; deadlines not counted. What is beyond is kept in
/// the inbox and quarantined: a call's row must never near DynamoDB's 400 KB.
pub const ATTEMPT_EVENTS_MAX: usize = 64;
/// Attempts per call.
pub const CALL_ATTEMPTS_MAX: usize = 16;

/// What became of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// On the path of legal edges that leads to the present state.
    Applied,
    /// No legal path reaches it.
    Parked,
    /// Legal, after the event that made the present state, and leading elsewhere: contradictory. Or the claim of another
    /// provider on this call.
    Refused,
    /// Legal and superseded.
    Stale,
    /// Its id is in the history already.
    Duplicate,
    /// Of a type that is not folded.
    Recorded,
    /// Unreadable, or beyond what a call holds.
    Quarantined,
}

impl Disposition {
    pub const ALL: [Self; 7] =
        [Self::Applied, Self::Parked, Self::Refused, Self::Stale, Self::Duplicate, Self::Recorded, Self::Quarantined];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Parked => "parked",
            Self::Refused => "refused",
            Self::Stale => "stale",
            Self::Duplicate => "duplicate",
            Self::Recorded => "recorded",
            Self::Quarantined => "quarantined",
        }
    }
}

/// One call event in the history of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The provider event that said it.
    pub source_event_id: EventId,
    pub event: CallEvent,
    pub received_at: Timestamp,
    /// When it was first folded, by our clock. For people; nothing depends on it.
    pub folded_at: Timestamp,
    /// Index into [`Call::attempt_records`]; none: it names no attempt.
    pub attempt_index: Option<usize>,
    pub disposition: Disposition,
}

impl HistoryEntry {
    /// The id shown: that of the provider event, with the kind appended if the event is implied.
    #[must_use]
    pub fn id(&self) -> EventId {
        if self.event.implied {
            EventId::new(format!("{}~{}", self.source_event_id, self.event.kind))
        } else {
            self.source_event_id.clone()
        }
    }

    /// When it happened as far as anyone knows: the provider's time, else ours.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.event.occurred_at.unwrap_or(self.received_at)
    }

    /// Canonical order: time, the provider's sequence, rank of the kind, what is said before what is only implied, event
    /// id, all of which belong to the event alone. Without a time of the provider's it sorts by kind: beginnings first, all else last.
    fn canonical(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| match entry.event.occurred_at {
            Some(at) => (at, entry.event.sequence),
            None if entry.event.kind.is_beginning() => (Timestamp::MIN, None),
            None => (Timestamp::MAX, None),
        };
        key(self)
            .cmp(&key(other))
            .then_with(|| self.event.kind.cmp(&other.event.kind))
            .then_with(|| self.event.implied.cmp(&other.event.implied))
            .then_with(|| self.source_event_id.cmp(&other.source_event_id))
    }
}

/// The place of an attempt in a call, in the order in which the attempts were first heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// None while no event has named the attempt.
    pub key: Option<AttemptKey>,
    pub provider_call_id: Option<String>,
    /// When Switchhook asked the provider to place it; none if others did.
    pub dialled_at: Option<Timestamp>,
    /// Which dial it was: by this a dialer whose write was done, and the answer to it lost, knows it for its own.
    pub dial_key: Option<String>,
}

/// Who owns the call now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Waits to be placed.
    Pending {
        due_at: Timestamp,
    },
    /// Held by one dialer, until the lease ends.
    Claimed {
        token: String,
        lease_ends_at: Timestamp,
    },
    InProgress,
    Completed,
    Failed,
    /// By the user, before it was ever dialled.
    Canceled,
}

impl Job {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "PENDING",
            Self::Claimed { .. } => "CLAIMED",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    pub(crate) const fn is_final(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Claimed { .. } | Self::InProgress => false,
            Self::Completed | Self::Failed | Self::Canceled => true,
        }
    }
}

/// What the business sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppointmentStatus {
    Pending,
    Dialing,
    Connected,
    Confirmed,
    Declined,
    NoAnswer,
    Voicemail,
    Retrying,
    Inconclusive,
}

impl AppointmentStatus {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Dialing,
        Self::Connected,
        Self::Confirmed,
        Self::Declined,
        Self::NoAnswer,
        Self::Voicemail,
        Self::Retrying,
        Self::Inconclusive,
    ];

    /// The name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Dialing => "Dialing",
            Self::Connected => "Connected",
            Self::Confirmed => "Confirmed",
            Self::Declined => "Declined",
            Self::NoAnswer => "NoAnswer",
            Self::Voicemail => "Voicemail",
            Self::Retrying => "Retrying",
            Self::Inconclusive => "Inconclusive",
        }
    }

    pub(crate) const fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Dialing => Self::Dialing,
            Outcome::NoAnswer => Self::NoAnswer,
            Outcome::Connected => Self::Connected,
            Outcome::Voicemail => Self::Voicemail,
            Outcome::Declined => Self::Declined,
            Outcome::Confirmed => Self::Confirmed,
        }
    }
}

/// One piece of work: reach someone, or be reached. As stored, in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub call_id: CallId,
    /// The only provider whose events may join.
    pub provider: Provider,
    pub direction: Option<Direction>,
    pub from: Option<PhoneNumber>,
    pub to: Option<PhoneNumber>,
    pub appointment_id: Option<String>,
    /// What was asked of it; none if Switchhook does not place it.
    pub plan: Option<Plan>,
    pub job: Job,
    /// The next attempt is not made before this, whenever it is due.
    pub not_before: Option<Timestamp>,
    /// The last manual trigger that found the call waiting.
    pub manual_trigger: Option<ManualTrigger>,
    /// No further attempt is made.
    pub stop_reason: Option<StopReason>,
    /// How often in a row the provider would not take an attempt.
    pub refusals: u32,
    pub attempt_records: Vec<AttemptRecord>,
    /// In the order of arrival.
    pub history: Vec<HistoryEntry>,
    /// Everything ever announced; the n-th has sequence n, counted from 1.
    pub announcements: Vec<Announcement>,
    /// Not later than the next thing that time alone brings about; none if the call is settled.
    pub wake_at: Option<Timestamp>,
    /// Since when it is settled; none if it is not.
    pub settled_at: Option<Timestamp>,
    /// Grows by one with every write.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Silence of an attempt after which its deadline has passed.
    pub inactivity_timeout: Duration,
}

/// What the fold made of one provider event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldOutcome {
    /// It is in the history now; its disposition stands there.
    Folded,
    /// It was in the history already.
    Duplicate,
    /// It claims a call of another provider, or of none.
    Refused,
    /// The call holds no more.
    Quarantined,
}

/// The outcome of [`fold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The call to store. `None` if no event changed anything.
    pub transition: Option<Transition>,
    /// One outcome for each event, in the order given.
    pub outcomes: Vec<FoldOutcome>,
}

/// Folds provider events into a call, or into a new one.
#[must_use]
pub fn fold(call: Option<&Call>, events: &[ProviderEvent], policy: &Policy, now: Timestamp) -> Fold {
    let mut after = call.cloned();
    let outcomes: Vec<FoldOutcome> = events
        .iter()
        .map(|event| match (&mut after, event.origin) {
            (Some(call), _) => call.add_event(event, now),
            (none @ None, Origin::Provider(provider)) => {
                none.insert(Call::from_first_event(event, provider)).add_event(event, now)
            }
            (None, Origin::Switchhook) => FoldOutcome::Refused,
        })
        .collect();
    if !outcomes.contains(&FoldOutcome::Folded) {
        return Fold { transition: None, outcomes };
    }
    let transition = after.map(|mut call| {
        let new_announcements = call.rederive(policy, now);
        Transition { call, new_announcements }
    });
    Fold { transition, outcomes }
}

/// Folds a call again from what the inbox holds of it, whatever its row says: for a row that is not what its events make it.
///
/// `events` are the call's provider events, `drift` is why this is done. An entry of the history that is not among them goes,
/// unless it is `kept`: too old for the inbox to hold it still. What Switchhook decided itself (the plan, what was dialled,
/// what was announced) stands; an announcement whose event is gone names `drift` as its source.
#[must_use]
pub fn refold(
    call: &Call,
    events: &[ProviderEvent],
    kept: impl Fn(&HistoryEntry) -> bool,
    drift: &ProviderEvent,
    policy: &Policy,
    now: Timestamp,
) -> Fold {
    if call.contains_event(&drift.event_id) {
        return Fold { transition: None, outcomes: vec![FoldOutcome::Duplicate] };
    }
    let mut after = Call { history: Vec::new(), ..call.clone() };
    let position = |id: &EventId| call.history.iter().position(|entry| entry.source_event_id == *id);
    let mut known: Vec<(Option<usize>, &ProviderEvent)> =
        events.iter().map(|event| (position(&event.event_id), event)).collect();
    // What the row knew comes first and in its order, so that as much as possible stays where it was.
    known.sort_by_key(|(at, event)| (at.is_none(), *at, event.received_at));
    let known: Vec<&ProviderEvent> = known.into_iter().map(|(_, event)| event).collect();
    for event in &known {
        after.add_event(event, now);
    }
    let is_known = |entry: &HistoryEntry| known.iter().any(|event| event.event_id == entry.source_event_id);
    after.history.extend(call.history.iter().filter(|entry| !is_known(entry) && kept(entry)).cloned());
    for entry in &mut after.history {
        let before = call.history.iter().find(|old| old.source_event_id == entry.source_event_id);
        entry.folded_at = before.map_or(now, |old| old.folded_at);
    }
    let label = |call: &Call| call.attempts().last().map_or(NOT_PLACED, AttemptState::lifecycle_label);
    let label_before = label(call);
    after.add_event(drift, now);
    let drift_at = after.history.len() - 1;
    let moved = |index: usize| match call.history.get(index) {
        Some(old) => after
            .history
            .iter()
            .position(|e| (&e.source_event_id, e.event.kind) == (&old.source_event_id, old.event.kind)),
        // It was cut off; what took its place was taken in the same order.
        None => Some(index).filter(|index| *index < drift_at),
    };
    let announcements: Vec<Announcement> = after
        .announcements
        .iter()
        .map(|said| Announcement {
            source: match said.source {
                AnnouncementSource::Event(index) => AnnouncementSource::Event(moved(index).unwrap_or(drift_at)),
                AnnouncementSource::Transition(at) => AnnouncementSource::Transition(at),
            },
            ..said.clone()
        })
        .collect();
    after.announcements = announcements;
    let before = after.announcements.len();
    after.rederive(policy, now);
    let repaired =
        (label_before, &call.job) != (label(&after), &after.job) || call.history.len() + 1 != after.history.len();
    if repaired {
        let kind = AnnouncementKind::DriftRepaired { before: label_before, after: label(&after) };
        after.announcements.push(announce::of_call(&after, kind, Some(drift_at), now));
    }
    let new_announcements = after.announcements.len() - before;
    Fold { transition: Some(Transition { call: after, new_announcements }), outcomes: vec![FoldOutcome::Folded] }
}

/// One attempt, as the history tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptState {
    /// Index into [`Call::attempt_records`].
    pub index: usize,
    /// For people: 1 is the attempt that started first.
    pub number: u8,
    pub lifecycle: Lifecycle,
    pub outcome: Outcome,
    /// A deadline passed, and no event was received after what it speaks of.
    pub timed_out: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When the last event was received that grants patience.
    pub last_event_at: Timestamp,
    /// By our clock, when what ended it was received, or its patience.
    pub(crate) end_received_at: Timestamp,
    /// The ending that it has will not be another one next time.
    pub(crate) permanent: bool,
    /// Index into the history of its first event; none if it was dialled and never heard of.
    pub(crate) first: Option<usize>,
    /// The states that the fold ran through, with the index into the history of what made each.
    pub(crate) lifecycle_maxima: Vec<(Lifecycle, usize)>,
    pub(crate) outcome_maxima: Vec<(Outcome, usize)>,
    /// Index into the history of the deadline that made it silent.
    pub(crate) deadline: Option<usize>,
    /// Index into the history and verdict of each event of the attempt.
    verdicts: Vec<(usize, Verdict)>,
}

impl AttemptState {
    /// True if it ended without an ending: nothing was heard for the whole of its patience.
    #[must_use]
    pub const fn is_inconclusive(&self) -> bool {
        self.timed_out && !self.lifecycle.is_ending()
    }

    /// The state as people and programs are shown it.
    #[must_use]
    pub const fn lifecycle_label(&self) -> &'static str {
        if self.is_inconclusive() { INCONCLUSIVE } else { self.lifecycle.label() }
    }

    /// The outcome as people and programs are shown it.
    #[must_use]
    pub const fn outcome_label(&self) -> &'static str {
        if self.outcome_is_inconclusive() { INCONCLUSIVE } else { self.outcome.label() }
    }

    const fn outcome_is_inconclusive(&self) -> bool {
        self.timed_out && !self.outcome.is_ending()
    }

    /// True if nothing more will happen in it, as far as anyone knows.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.lifecycle.is_ending() || self.timed_out
    }

    const fn is_settled(&self) -> bool {
        self.timed_out || (self.lifecycle.is_ending() && self.outcome.is_ending())
    }

    /// Index into the history of what ended it: its ending, or the end of patience.
    pub(crate) fn ended_by(&self) -> Option<usize> {
        let ending = self.lifecycle_maxima.last().filter(|(state, _)| state.is_ending());
        ending.map(|(_, index)| *index).or(self.deadline)
    }

    pub(crate) const fn decided(&self) -> Option<AppointmentStatus> {
        match self.outcome {
            Outcome::Confirmed => Some(AppointmentStatus::Confirmed),
            Outcome::Declined => Some(AppointmentStatus::Declined),
            Outcome::Dialing | Outcome::NoAnswer | Outcome::Connected | Outcome::Voicemail => None,
        }
    }
}

impl Call {
    /// A call that Switchhook did not start, at its first event, which is still to be folded.
    fn from_first_event(event: &ProviderEvent, provider: Provider) -> Self {
        Self::empty(event.call_id.clone(), provider, Job::InProgress, event.received_at)
    }

    pub(crate) fn empty(call_id: CallId, provider: Provider, job: Job, created_at: Timestamp) -> Self {
        Self {
            call_id,
            provider,
            direction: None,
            from: None,
            to: None,
            appointment_id: None,
            plan: None,
            job,
            not_before: None,
            manual_trigger: None,
            stop_reason: None,
            refusals: 0,
            attempt_records: Vec::new(),
            history: Vec::new(),
            announcements: Vec::new(),
            wake_at: None,
            settled_at: None,
            version: 0,
            created_at,
            updated_at: created_at,
        }
    }

    /// True if the history holds this provider event.
    #[must_use]
    pub fn contains_event(&self, event_id: &EventId) -> bool {
        self.history.iter().any(|entry| entry.source_event_id == *event_id)
    }

    /// The attempts, in the order of their numbers.
    #[must_use]
    pub fn attempts(&self) -> Vec<AttemptState> {
        let mut starts: Vec<(Timestamp, &AttemptRecord, usize)> = self
            .attempt_records
            .iter()
            .enumerate()
            .map(|(index, slot)| (self.started_at(index), slot, index))
            .collect();
        starts.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
        let first = starts.first().map(|(_, _, slot)| *slot);
        starts
            .iter()
            .zip(1..)
            .map(|((start, _, slot), number)| self.attempt(*slot, number, *start, first == Some(*slot)))
            .collect()
    }

    /// What the business sees of the call.
    #[must_use]
    pub fn appointment_status(&self) -> AppointmentStatus {
        self.appointment_status_from(&self.attempts())
    }

    /// The history in canonical order.
    #[must_use]
    pub fn timeline(&self) -> Vec<&HistoryEntry> {
        let mut entries: Vec<&HistoryEntry> = self.history.iter().collect();
        entries.sort_by(|a, b| a.canonical(b));
        entries
    }

    /// True if nothing more is expected: the job is final, and every attempt has ended or is inconclusive, its outcome
    /// included.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.job.is_final() && self.attempts().iter().all(AttemptState::is_settled)
    }

    /// When time alone will next bring something about: the call is due, its claim expires, an attempt's patience ends.
    /// None if the call is settled.
    #[must_use]
    pub fn next_wake_at(&self, policy: &Policy) -> Option<Timestamp> {
        let job = match &self.job {
            Job::Pending { due_at } => Some(*due_at),
            Job::Claimed { lease_ends_at, .. } => Some(*lease_ends_at),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => None,
        };
        let patience = self
            .attempts()
            .into_iter()
            .filter(|attempt| !attempt.is_settled())
            .map(|attempt| attempt.last_event_at.plus(policy.inactivity_timeout));
        patience.chain(job).min()
    }

    /// True if it waits for its time to be placed: the scheduler wakes it, otherwise the reconciler.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        match self.job {
            Job::Pending { .. } => true,
            Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => false,
        }
    }

    /// The attempts whose patience has ended by `now`.
    #[must_use]
    pub fn overdue_attempts(&self, policy: &Policy, now: Timestamp) -> Vec<AttemptState> {
        let mut attempts = self.attempts();
        attempts
            .retain(|attempt| !attempt.is_settled() && attempt.last_event_at.plus(policy.inactivity_timeout) <= now);
        attempts
    }

    /// The deadlines that have passed by `now`: one event for each attempt whose patience has ended.
    #[must_use]
    pub fn deadline_passed_events(&self, policy: &Policy, now: Timestamp) -> Vec<ProviderEvent> {
        self.overdue_attempts(policy, now).iter().map(|attempt| self.deadline_passed_event(attempt, now)).collect()
    }

    /// The patience of an attempt has ended. The event's id says which silence it speaks of, so that finding it twice is one
    /// event.
    #[must_use]
    pub fn deadline_passed_event(&self, attempt: &AttemptState, now: Timestamp) -> ProviderEvent {
        let key = self.key_of(attempt);
        let name = format!("{}/deadline/{}", key_or_dash(key), attempt.last_event_at.as_millis());
        self.own_event(EventKind::DeadlinePassed, &name, key.cloned(), Some(attempt.last_event_at), now)
    }

    /// The provider was asked about an attempt whose patience had ended, and says that it lives.
    #[must_use]
    pub fn alive_event(&self, attempt: &AttemptState, now: Timestamp) -> ProviderEvent {
        let key = self.key_of(attempt);
        let name = format!("{}/alive/{}", key_or_dash(key), attempt.last_event_at.as_millis());
        self.own_event(EventKind::Alive, &name, key.cloned(), None, now)
    }

    /// The lease of the claim has ended; none if there is no claim, or its lease is alive.
    #[must_use]
    pub fn claim_expired_event(&self, now: Timestamp) -> Option<ProviderEvent> {
        match &self.job {
            Job::Claimed { lease_ends_at, .. } if *lease_ends_at <= now => {
                let name = format!("claim/{}", lease_ends_at.as_millis());
                Some(self.own_event(EventKind::ClaimExpired, &name, None, Some(*lease_ends_at), now))
            }
            Job::Claimed { .. }
            | Job::Pending { .. }
            | Job::InProgress
            | Job::Completed
            | Job::Failed
            | Job::Canceled => None,
        }
    }

    /// The row disagrees with what the provider says, or with itself. `what` names the disagreement, so that finding it twice
    /// is one event.
    #[must_use]
    pub fn drift_found_event(&self, what: &str, now: Timestamp) -> ProviderEvent {
        self.own_event(EventKind::DriftFound, &format!("drift/{what}"), None, None, now)
    }

    /// True if what the row says of its job and its dispositions is what its history makes of them.
    #[must_use]
    pub fn matches_history(&self) -> bool {
        let mut derived = self.clone();
        let attempts = derived.attempts();
        derived.job = derived.derived_job(&attempts);
        derived.relabel(&attempts);
        derived.job == self.job && derived.history == self.history
    }

    /// The provider took an attempt, or was found to have taken it, and calls it by this id.
    #[must_use]
    pub fn dial_accepted_event(&self, attempt: &AttemptKey, provider_call_id: &str, now: Timestamp) -> ProviderEvent {
        let name = format!("{attempt}/dial_accepted");
        let event = self.own_event(EventKind::Initiated, &name, Some(attempt.clone()), None, now);
        ProviderEvent {
            event_type: "dial_accepted".to_owned(),
            provider_call_id: Some(provider_call_id.to_owned()),
            ..event
        }
    }

    /// The provider says that this attempt can never be placed.
    #[must_use]
    pub fn dial_refused_event(&self, attempt: &AttemptKey, now: Timestamp) -> ProviderEvent {
        let name = format!("{attempt}/dial_refused");
        let mut event = self.own_event(EventKind::Failed, &name, Some(attempt.clone()), None, now);
        event.event_type = "dial_refused".to_owned();
        for call_event in &mut event.call_events {
            call_event.permanent = true;
        }
        event
    }

    fn own_event(
        &self,
        kind: EventKind,
        name: &str,
        attempt: Option<AttemptKey>,
        occurred_at: Option<Timestamp>,
        now: Timestamp,
    ) -> ProviderEvent {
        ProviderEvent {
            event_id: EventId::new(format!("switchhook:{}/{name}", self.call_id)),
            origin: Origin::Switchhook,
            event_type: kind.as_str().to_owned(),
            call_id: self.call_id.clone(),
            attempt,
            provider_call_id: None,
            appointment_id: None,
            direction: None,
            from: None,
            to: None,
            received_at: now,
            call_events: vec![CallEvent { kind, implied: false, occurred_at, sequence: None, permanent: false }],
        }
    }

    fn key_of(&self, attempt: &AttemptState) -> Option<&AttemptKey> {
        self.attempt_records.get(attempt.index).and_then(|slot| slot.key.as_ref())
    }

    fn add_event(&mut self, event: &ProviderEvent, now: Timestamp) -> FoldOutcome {
        match event.origin {
            Origin::Provider(provider) if provider != self.provider => return FoldOutcome::Refused,
            Origin::Provider(_) | Origin::Switchhook => {}
        }
        if self.contains_event(&event.event_id) {
            return FoldOutcome::Duplicate;
        }
        let of_call = event.call_events.iter().all(|e| e.kind.is_call_level());
        let named = event.attempt.as_ref().filter(|_| !of_call);
        let of_key = |key: &AttemptKey| self.attempt_records.iter().position(|slot| slot.key.as_ref() == Some(key));
        // What we dialled has a key of ours, and the provider's own id may be all that an event knows of it. Any other attempt
        // goes by its key alone: two keys under one id are two attempts, whichever came first.
        let of_provider_call = || {
            let id = event.provider_call_id.as_ref()?;
            let dialled =
                |slot: &AttemptRecord| slot.dialled_at.is_some() && slot.provider_call_id.as_ref() == Some(id);
            self.attempt_records.iter().position(dialled)
        };
        // The first attempt may have been heard of before anything named it.
        let unnamed = || self.attempt_records.iter().position(|slot| slot.key.is_none());
        let slot = named.and_then(|key| of_key(key).or_else(of_provider_call).or_else(unnamed));
        if named.is_some() == slot.is_some()
            && let Some(outcome) = self.replace_latest(event, slot, now)
        {
            return outcome;
        }
        let ours = event.origin == Origin::Switchhook;
        let needs_slot = if named.is_some() { slot.is_none() } else { self.attempt_records.is_empty() && !ours };
        let held = self
            .history
            .iter()
            .filter(|entry| entry.attempt_index == slot && named.is_some() == slot.is_some())
            .filter(|entry| entry.event.kind.is_evidence())
            .count();
        let within = held + event.call_events.len() <= ATTEMPT_EVENTS_MAX
            && !(needs_slot && self.attempt_records.len() == CALL_ATTEMPTS_MAX);
        // What Switchhook itself found out always fits: there is at most one for each event that fitted.
        if !within && !ours {
            return FoldOutcome::Quarantined;
        }
        if needs_slot {
            self.attempt_records.push(AttemptRecord {
                key: None,
                provider_call_id: None,
                dialled_at: None,
                dial_key: None,
            });
        }
        let slot = named.map(|_| slot.unwrap_or(self.attempt_records.len() - 1));
        if let Some(slot) = slot.and_then(|index| self.attempt_records.get_mut(index)) {
            if slot.key.is_none() {
                slot.key = named.cloned();
            }
            if slot.provider_call_id.is_none() {
                slot.provider_call_id.clone_from(&event.provider_call_id);
            }
            // Whatever is heard of an attempt, the provider took it.
            if slot.dialled_at.is_some() && event.call_events.iter().any(|e| e.kind.is_evidence()) {
                self.refusals = 0;
            }
        }
        self.direction = self.direction.or(event.direction);
        for (known, said) in [(&mut self.from, &event.from), (&mut self.to, &event.to)] {
            if known.is_none() {
                known.clone_from(said);
            }
        }
        if self.appointment_id.is_none() {
            self.appointment_id.clone_from(&event.appointment_id);
        }
        self.history.extend(event.call_events.iter().map(|call_event| entry_of(event, call_event, slot, now)));
        FoldOutcome::Folded
    }

    /// Takes an event of which the call keeps the last alone, so that a call that lives for days does not fill up; none if it
    /// is not such an event, or the first.
    fn replace_latest(&mut self, event: &ProviderEvent, slot: Option<usize>, now: Timestamp) -> Option<FoldOutcome> {
        let [call_event] = event.call_events.as_slice() else { return None };
        if !matches!(call_event.kind, EventKind::Alive | EventKind::ClaimExpired) {
            return None;
        }
        let held =
            self.history.iter_mut().find(|entry| entry.event.kind == call_event.kind && entry.attempt_index == slot)?;
        if (held.received_at, &held.source_event_id) >= (event.received_at, &event.event_id) {
            return Some(FoldOutcome::Duplicate);
        }
        *held = entry_of(event, call_event, slot, now);
        Some(FoldOutcome::Folded)
    }

    /// Derives everything from the history again, and announces what is new. Returns how much.
    pub(crate) fn rederive(&mut self, policy: &Policy, now: Timestamp) -> usize {
        let attempts = self.attempts();
        let was_to_be_placed = self.is_pending();
        self.job = self.derived_job(&attempts);
        self.relabel(&attempts);
        let news = announce::news(self, &attempts, now);
        let announced = news.len();
        self.announcements.extend(news);
        // The index is written only when it must be: an earlier wake-up finds nothing due and is moved on. Who waits to be
        // placed stands elsewhere in it than who waits to be settled.
        let set = self.wake_at.filter(|_| was_to_be_placed == self.is_pending());
        self.wake_at = match (set, self.next_wake_at(policy)) {
            (Some(set), Some(due)) => Some(set.min(due)),
            (None, due) => due,
            (Some(_), None) => None,
        };
        self.settled_at = if self.wake_at.is_none() { self.settled_at.or(Some(now)) } else { None };
        self.version += 1;
        self.updated_at = now;
        announced
    }

    /// The first that matches. Calls that Switchhook did not place are never dialled by it: without success they failed.
    fn derived_job(&self, attempts: &[AttemptState]) -> Job {
        if attempts.iter().any(|attempt| attempt.decided().is_some()) {
            Job::Completed
        } else if attempts.iter().any(|attempt| !attempt.has_ended()) {
            Job::InProgress
        } else if attempts.iter().any(|attempt| self.is_completed_by(attempt)) {
            Job::Completed
        } else if let Some(plan) = &self.plan {
            self.job_by_policy(plan, attempts)
        } else if attempts.is_empty() {
            self.job.clone()
        } else {
            Job::Failed
        }
    }

    pub(crate) fn appointment_status_from(&self, attempts: &[AttemptState]) -> AppointmentStatus {
        let decided = attempts.iter().rev().find_map(AttemptState::decided);
        let retrying = match self.job {
            Job::Pending { .. } | Job::Claimed { .. } => !attempts.is_empty(),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => self.retry_scheduled(attempts).is_some(),
        };
        match (decided, attempts.last()) {
            (Some(status), _) => status,
            (None, _) if retrying => AppointmentStatus::Retrying,
            (None, Some(latest)) if latest.outcome_is_inconclusive() => AppointmentStatus::Inconclusive,
            (None, Some(latest)) => AppointmentStatus::from_outcome(latest.outcome),
            (None, None) => AppointmentStatus::Pending,
        }
    }

    /// The last word of another system that it will try again, unless a later attempt has started since. Index into the
    /// history.
    pub(crate) fn retry_scheduled(&self, attempts: &[AttemptState]) -> Option<usize> {
        let started = attempts.last().map_or(Timestamp::MIN, |latest| latest.started_at);
        self.history
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.event.kind == EventKind::RetryScheduled)
            // In the same instant as its start, a retry of several attempts belongs to the one before.
            .filter(|(_, entry)| {
                entry.happened_at() > started || (attempts.len() < 2 && entry.happened_at() == started)
            })
            .max_by(|(_, a), (_, b)| a.canonical(b))
            .map(|(index, _)| index)
    }

    /// When the attempt started: when we dialled it, else the time of its first event, of those that name it if any do.
    fn started_at(&self, slot: usize) -> Timestamp {
        let earliest = |named: Option<usize>| {
            let entries = self.history.iter().filter(|entry| entry.attempt_index == named);
            entries.filter(|e| e.event.kind.is_evidence()).map(HistoryEntry::happened_at).min()
        };
        let dialled_at = self.attempt_records.get(slot).and_then(|slot| slot.dialled_at);
        dialled_at.or_else(|| earliest(Some(slot))).or_else(|| earliest(None)).unwrap_or(self.created_at)
    }

    fn attempt(&self, slot: usize, number: u8, started_at: Timestamp, first: bool) -> AttemptState {
        // An event that names no attempt belongs to every attempt that had started by then, or else to the first.
        let mut members: Vec<(usize, &HistoryEntry)> = self
            .history
            .iter()
            .enumerate()
            .filter(|(_, entry)| match entry.attempt_index {
                Some(named) => named == slot,
                None => first || entry.happened_at() >= started_at,
            })
            .collect();
        members.sort_by(|(_, a), (_, b)| a.canonical(b));
        let is_deadline = |entry: &HistoryEntry| entry.event.kind == EventKind::DeadlinePassed;
        let last_event_at = members
            .iter()
            .filter(|(_, entry)| entry.event.kind.restarts_timeout())
            .map(|(_, entry)| entry.received_at)
            .max()
            .unwrap_or(started_at);
        // What was dialled and never heard of begins, for others, with its deadline.
        let evidence = members.iter().find(|(_, entry)| entry.event.kind.is_evidence());
        let first_event = evidence.or_else(|| members.iter().find(|(_, e)| is_deadline(e))).map(|(index, _)| *index);
        let presuming = members.iter().any(|(_, entry)| is_deadline(entry));
        let deadline = members
            .iter()
            .filter(|(_, entry)| is_deadline(entry))
            .filter(|(_, entry)| entry.event.occurred_at >= Some(last_event_at))
            .map(|(index, _)| *index)
            .next();
        let kinds: Vec<EventKind> = members.iter().map(|(_, entry)| entry.event.kind).collect();
        let lifecycle = LIFECYCLE.fold(&kinds, presuming);
        let outcome = OUTCOME.fold(&kinds, presuming);
        let presumption_matters = presuming
            && (LIFECYCLE.fold(&kinds, false).state != lifecycle.state
                || OUTCOME.fold(&kinds, false).state != outcome.state);
        let origin = kinds.iter().position(|kind| *kind == EventKind::Initiated);
        let verdicts = members
            .iter()
            .enumerate()
            .map(|(at, (index, entry))| {
                let own = match entry.event.kind {
                    EventKind::Initiated if origin == Some(at) => Verdict::Applied,
                    EventKind::DeadlinePassed if deadline == Some(*index) || presumption_matters => Verdict::Applied,
                    EventKind::Alive => Verdict::Applied,
                    EventKind::Initiated | EventKind::DeadlinePassed => Verdict::Stale,
                    EventKind::ClaimExpired | EventKind::DriftFound => Verdict::Unhandled,
                    EventKind::Ringing
                    | EventKind::InProgress
                    | EventKind::VoicemailDetected
                    | EventKind::UserDeclined
                    | EventKind::UserConfirmed
                    | EventKind::NoAnswer
                    | EventKind::Canceled
                    | EventKind::Busy
                    | EventKind::Failed
                    | EventKind::Completed
                    | EventKind::RetryScheduled => stronger(verdict(&lifecycle, at), verdict(&outcome, at)),
                };
                (*index, own)
            })
            .collect();
        let at = |index: usize| members.get(index).map_or(0, |(entry, _)| *entry);
        let made = lifecycle.running_maxima.last().and_then(|(_, index)| members.get(*index));
        let closed_by = made.map(|(_, entry)| entry.received_at).filter(|_| lifecycle.state.is_ending());
        let closed_by = closed_by.or_else(|| Some(self.history.get(deadline?)?.received_at));
        let ended_at = if lifecycle.state.is_ending() {
            made.map(|(_, entry)| entry.happened_at())
        } else {
            deadline.and_then(|index| self.history.get(index)).map(|entry| entry.received_at)
        };
        AttemptState {
            index: slot,
            number,
            lifecycle: lifecycle.state,
            outcome: outcome.state,
            timed_out: deadline.is_some(),
            started_at,
            ended_at,
            last_event_at,
            end_received_at: closed_by.unwrap_or(last_event_at),
            permanent: made.is_some_and(|(_, entry)| entry.event.permanent),
            first: first_event,
            lifecycle_maxima: lifecycle.running_maxima.iter().map(|(state, index)| (*state, at(*index))).collect(),
            outcome_maxima: outcome.running_maxima.iter().map(|(state, index)| (*state, at(*index))).collect(),
            deadline,
            verdicts,
        }
    }

    fn relabel(&mut self, attempts: &[AttemptState]) {
        let retry = self.retry_scheduled(attempts);
        for (index, entry) in self.history.iter_mut().enumerate() {
            let best = attempts
                .iter()
                .flat_map(|attempt| &attempt.verdicts)
                .filter(|(at, _)| *at == index)
                .fold(Verdict::Unhandled, |best, (_, verdict)| stronger(best, *verdict));
            let of_ours = matches!(entry.event.kind, EventKind::ClaimExpired | EventKind::DriftFound);
            entry.disposition = match best {
                Verdict::Unhandled if of_ours => Disposition::Applied,
                Verdict::Applied => Disposition::Applied,
                Verdict::Refused => Disposition::Refused,
                Verdict::Stale => Disposition::Stale,
                Verdict::Parked => Disposition::Parked,
                Verdict::Unhandled if retry == Some(index) => Disposition::Applied,
                Verdict::Unhandled => Disposition::Stale,
            };
        }
    }
}

fn key_or_dash(key: Option<&AttemptKey>) -> &str {
    key.map_or("-", AttemptKey::as_str)
}

fn entry_of(event: &ProviderEvent, call_event: &CallEvent, slot: Option<usize>, now: Timestamp) -> HistoryEntry {
    HistoryEntry {
        source_event_id: event.event_id.clone(),
        event: call_event.clone(),
        received_at: event.received_at,
        folded_at: now,
        attempt_index: slot,
        disposition: Disposition::Parked,
    }
}

fn verdict<S>(folded: &MachineFold<S>, at: usize) -> Verdict {
    folded.verdicts.get(at).copied().unwrap_or(Verdict::Unhandled)
}

/// Of what two machines, or two attempts, make of one event, what is said of it.
fn stronger(a: Verdict, b: Verdict) -> Verdict {
    let rank = |verdict| match verdict {
        Verdict::Applied => 4,
        Verdict::Refused => 3,
        Verdict::Stale => 2,
        Verdict::Parked => 1,
        Verdict::Unhandled => 0,
    };
    if rank(a) >= rank(b) { a } else { b }
}
