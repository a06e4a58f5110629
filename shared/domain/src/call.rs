//! A call: the set of its events, and everything that follows from it.
//!
//! **Whatever is shown, announced or settled is computed from the history**, never kept beside it and mended: attempts,
//! their states, the job of a call that others placed, the appointment and the dispositions are functions of the set of
//! call events. Only three things depend on the order of arrival, and they are bounded and kept: which provider owns the
//! call (its first event's), which events a full call no longer takes, and the log of what was announced.

use std::cmp::Ordering;
use std::time::Duration;

use crate::announce::{self, Announcement};
use crate::event::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent,
};
use crate::lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome};
use crate::machine::{Folded, Verdict};
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
    pub source: EventId,
    pub event: CallEvent,
    pub received_at: Timestamp,
    /// When it was first folded, by our clock. For people; nothing depends on it.
    pub folded_at: Timestamp,
    /// Index into [`Call::slots`]; none: it names no attempt.
    pub slot: Option<usize>,
    pub disposition: Disposition,
}

impl HistoryEntry {
    /// The id shown: that of the provider event, with the kind appended if the event is implied.
    #[must_use]
    pub fn id(&self) -> EventId {
        if self.event.implied {
            EventId::new(format!("{}~{}", self.source, self.event.kind))
        } else {
            self.source.clone()
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
            .then_with(|| self.source.cmp(&other.source))
    }
}

/// The place of an attempt in a call, in the order in which the attempts were first heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// None while no event has named the attempt.
    pub key: Option<AttemptKey>,
    pub provider_call_id: Option<String>,
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

    const fn is_final(&self) -> bool {
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

    pub(crate) const fn of(outcome: Outcome) -> Self {
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
    pub job: Job,
    pub slots: Vec<Slot>,
    /// In the order of arrival.
    pub history: Vec<HistoryEntry>,
    /// Everything ever announced; the n-th has sequence n, counted from 1.
    pub log: Vec<Announcement>,
    /// Not later than the next thing that time alone brings about; none if the call is settled.
    pub wake_at: Option<Timestamp>,
    /// Grows by one with every write.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Silence of an attempt after which its deadline has passed.
    pub patience: Duration,
}

/// What the fold made of one provider event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
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
    /// The call to write, with its version raised; none if no event changed anything.
    pub call: Option<Call>,
    /// How many announcements at the end of the log are new.
    pub announced: usize,
    /// One for each event, in the order given.
    pub taken: Vec<Taken>,
}

/// Folds provider events into a call, or into a new one.
#[must_use]
pub fn fold(call: Option<&Call>, events: &[ProviderEvent], policy: &Policy, now: Timestamp) -> Fold {
    let mut after = call.cloned();
    let taken: Vec<Taken> = events
        .iter()
        .map(|event| match (&mut after, event.origin) {
            (Some(call), _) => call.take(event, now),
            (none @ None, Origin::Provider(provider)) => none.insert(Call::opened_by(event, provider)).take(event, now),
            (None, Origin::Switchhook(_)) => Taken::Refused,
        })
        .collect();
    if !taken.contains(&Taken::Folded) {
        return Fold { call: None, announced: 0, taken };
    }
    let announced = after.as_mut().map_or(0, |call| call.settle(policy, now));
    Fold { call: after, announced, taken }
}

/// One attempt, as the history tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Index into [`Call::slots`].
    pub slot: usize,
    /// For people: 1 is the attempt that started first.
    pub number: u8,
    pub lifecycle: Lifecycle,
    pub outcome: Outcome,
    /// A deadline passed, and no event was received after what it speaks of.
    pub silent: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When the last event was received that grants patience.
    pub(crate) heard_at: Timestamp,
    /// Index into the history of its first event.
    pub(crate) first: usize,
    /// The states that the fold ran through, with the index into the history of what made each.
    pub(crate) lifecycle_run: Vec<(Lifecycle, usize)>,
    pub(crate) outcome_run: Vec<(Outcome, usize)>,
    /// Index into the history of the deadline that made it silent.
    pub(crate) deadline: Option<usize>,
    /// Index into the history and verdict of each event of the attempt.
    verdicts: Vec<(usize, Verdict)>,
}

impl Attempt {
    /// True if it ended without an ending: nothing was heard for the whole of its patience.
    #[must_use]
    pub const fn is_inconclusive(&self) -> bool {
        self.silent && !self.lifecycle.is_ending()
    }

    /// The state as people and programs are shown it.
    #[must_use]
    pub const fn lifecycle_shown(&self) -> &'static str {
        if self.is_inconclusive() { INCONCLUSIVE } else { self.lifecycle.shown() }
    }

    /// The outcome as people and programs are shown it.
    #[must_use]
    pub const fn outcome_shown(&self) -> &'static str {
        if self.outcome_is_inconclusive() { INCONCLUSIVE } else { self.outcome.shown() }
    }

    const fn outcome_is_inconclusive(&self) -> bool {
        self.silent && !self.outcome.is_ending()
    }

    const fn has_ended(&self) -> bool {
        self.lifecycle.is_ending() || self.silent
    }

    const fn is_settled(&self) -> bool {
        self.silent || (self.lifecycle.is_ending() && self.outcome.is_ending())
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
    fn opened_by(event: &ProviderEvent, provider: Provider) -> Self {
        Self {
            call_id: event.call_id.clone(),
            provider,
            direction: None,
            from: None,
            to: None,
            appointment_id: None,
            job: Job::InProgress,
            slots: Vec::new(),
            history: Vec::new(),
            log: Vec::new(),
            wake_at: None,
            version: 0,
            created_at: event.received_at,
            updated_at: event.received_at,
        }
    }

    /// True if the history holds this provider event.
    #[must_use]
    pub fn holds(&self, event_id: &EventId) -> bool {
        self.history.iter().any(|entry| entry.source == *event_id)
    }

    /// The attempts, in the order of their numbers.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut starts: Vec<(Timestamp, &Slot, usize)> =
            self.slots.iter().enumerate().map(|(index, slot)| (self.started_at(index), slot, index)).collect();
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
        self.appointment_given(&self.attempts())
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
        self.job.is_final() && self.attempts().iter().all(Attempt::is_settled)
    }

    /// When time alone will next bring something about: the call is due, its claim expires, an attempt's patience ends.
    /// None if the call is settled.
    #[must_use]
    pub fn next_due(&self, policy: &Policy) -> Option<Timestamp> {
        let job = match &self.job {
            Job::Pending { due_at } => Some(*due_at),
            Job::Claimed { lease_ends_at, .. } => Some(*lease_ends_at),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => None,
        };
        let patience = self
            .attempts()
            .into_iter()
            .filter(|attempt| !attempt.is_settled())
            .map(|attempt| attempt.heard_at.plus(policy.patience));
        patience.chain(job).min()
    }

    /// The deadlines that have passed by `now`: one event for each attempt whose patience has ended. Its id says which
    /// silence it speaks of, so that finding it twice is one event.
    #[must_use]
    pub fn deadlines_passed(&self, policy: &Policy, now: Timestamp) -> Vec<ProviderEvent> {
        self.attempts()
            .into_iter()
            .filter(|attempt| !attempt.is_settled())
            .filter(|attempt| attempt.heard_at.plus(policy.patience) <= now)
            .map(|attempt| {
                let key = self.slots.get(attempt.slot).and_then(|slot| slot.key.clone());
                let name = key.as_ref().map_or("-", AttemptKey::as_str);
                let since = attempt.heard_at.as_millis();
                ProviderEvent {
                    event_id: EventId::new(format!("switchhook:{}/{name}/deadline/{since}", self.call_id)),
                    origin: Origin::SWITCHHOOK,
                    event_type: EventKind::DeadlinePassed.as_str().to_owned(),
                    call_id: self.call_id.clone(),
                    attempt: key,
                    provider_call_id: None,
                    appointment_id: None,
                    direction: None,
                    from: None,
                    to: None,
                    received_at: now,
                    call_events: vec![CallEvent {
                        kind: EventKind::DeadlinePassed,
                        implied: false,
                        occurred_at: Some(attempt.heard_at),
                        sequence: None,
                    }],
                }
            })
            .collect()
    }

    fn take(&mut self, event: &ProviderEvent, now: Timestamp) -> Taken {
        match event.origin {
            Origin::Provider(provider) if provider != self.provider => return Taken::Refused,
            Origin::Provider(_) | Origin::Switchhook(_) => {}
        }
        if self.holds(&event.event_id) {
            return Taken::Duplicate;
        }
        // A scheduled retry is of the call, whatever attempt it names.
        let of_call = |e: &CallEvent| e.kind == EventKind::RetryScheduled;
        let named = event.attempt.as_ref().filter(|_| !event.call_events.iter().all(of_call));
        // The first attempt may have been heard of before anything named it.
        let slot = named.and_then(|key| {
            let known = self.slots.iter().position(|slot| slot.key.as_ref() == Some(key));
            known.or_else(|| self.slots.iter().position(|slot| slot.key.is_none()))
        });
        let needs_slot = self.slots.is_empty() || (named.is_some() && slot.is_none());
        let held = self
            .history
            .iter()
            .filter(|entry| entry.slot == slot && named.is_some() == slot.is_some())
            .filter(|entry| entry.event.kind != EventKind::DeadlinePassed)
            .count();
        let within = held + event.call_events.len() <= ATTEMPT_EVENTS_MAX
            && !(needs_slot && self.slots.len() == CALL_ATTEMPTS_MAX);
        // A deadline always fits: there is at most one for each event that fitted.
        if !within && event.origin != Origin::SWITCHHOOK {
            return Taken::Quarantined;
        }
        if needs_slot {
            self.slots.push(Slot { key: None, provider_call_id: None });
        }
        let slot = named.map(|_| slot.unwrap_or(self.slots.len() - 1));
        if let Some(slot) = slot.and_then(|index| self.slots.get_mut(index)) {
            if slot.key.is_none() {
                slot.key = named.cloned();
            }
            if slot.provider_call_id.is_none() {
                slot.provider_call_id.clone_from(&event.provider_call_id);
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
        self.history.extend(event.call_events.iter().map(|call_event| HistoryEntry {
            source: event.event_id.clone(),
            event: call_event.clone(),
            received_at: event.received_at,
            folded_at: now,
            slot,
            disposition: Disposition::Parked,
        }));
        Taken::Folded
    }

    /// Derives everything from the history again, and announces what is new. Returns how much.
    fn settle(&mut self, policy: &Policy, now: Timestamp) -> usize {
        let attempts = self.attempts();
        self.job = self.derived_job(&attempts);
        self.relabel(&attempts);
        let news = announce::news(self, &attempts);
        let announced = news.len();
        self.log.extend(news);
        // The index is written only when it must be: an earlier wake-up finds nothing due and is moved on.
        self.wake_at = match (self.wake_at, self.next_due(policy)) {
            (Some(set), Some(due)) => Some(set.min(due)),
            (None, due) => due,
            (Some(_), None) => None,
        };
        self.version += 1;
        self.updated_at = now;
        announced
    }

    /// The first that matches. Calls that Switchhook did not place are never dialled by it: without success they failed.
    fn derived_job(&self, attempts: &[Attempt]) -> Job {
        if attempts.is_empty() {
            self.job.clone()
        } else if attempts.iter().any(|attempt| attempt.decided().is_some()) {
            Job::Completed
        } else if attempts.iter().any(|attempt| !attempt.has_ended()) {
            Job::InProgress
        } else if attempts.iter().any(|attempt| match attempt.lifecycle {
            Lifecycle::Completed | Lifecycle::CompletedBelieved => true,
            Lifecycle::Initiated
            | Lifecycle::Ringing
            | Lifecycle::NoAnswer
            | Lifecycle::Canceled
            | Lifecycle::Busy
            | Lifecycle::Failed
            | Lifecycle::InProgress
            | Lifecycle::BusyAfterAnswer
            | Lifecycle::FailedAfterAnswer => false,
        }) {
            Job::Completed
        } else {
            Job::Failed
        }
    }

    pub(crate) fn appointment_given(&self, attempts: &[Attempt]) -> AppointmentStatus {
        let decided = attempts.iter().rev().find_map(Attempt::decided);
        let retrying = match self.job {
            Job::Pending { .. } | Job::Claimed { .. } => !attempts.is_empty(),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => self.retry_scheduled(attempts).is_some(),
        };
        match (decided, attempts.last()) {
            (Some(status), _) => status,
            (None, _) if retrying => AppointmentStatus::Retrying,
            (None, Some(latest)) if latest.outcome_is_inconclusive() => AppointmentStatus::Inconclusive,
            (None, Some(latest)) => AppointmentStatus::of(latest.outcome),
            (None, None) => AppointmentStatus::Pending,
        }
    }

    /// The last word of another system that it will try again, unless a later attempt has started since. Index into the
    /// history.
    pub(crate) fn retry_scheduled(&self, attempts: &[Attempt]) -> Option<usize> {
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

    /// When the attempt started: the time of its first event, of those that name it if any do.
    fn started_at(&self, slot: usize) -> Timestamp {
        let earliest = |named: Option<usize>| {
            let entries = self.history.iter().filter(|entry| entry.slot == named);
            entries.filter(|e| e.event.kind != EventKind::DeadlinePassed).map(HistoryEntry::happened_at).min()
        };
        earliest(Some(slot)).or_else(|| earliest(None)).unwrap_or(self.created_at)
    }

    fn attempt(&self, slot: usize, number: u8, started_at: Timestamp, first: bool) -> Attempt {
        // An event that names no attempt belongs to every attempt that had started by then, or else to the first.
        let mut members: Vec<(usize, &HistoryEntry)> = self
            .history
            .iter()
            .enumerate()
            .filter(|(_, entry)| match entry.slot {
                Some(named) => named == slot,
                None => first || entry.happened_at() >= started_at,
            })
            .collect();
        members.sort_by(|(_, a), (_, b)| a.canonical(b));
        let is_deadline = |entry: &HistoryEntry| entry.event.kind == EventKind::DeadlinePassed;
        let heard_at = members
            .iter()
            .filter(|(_, entry)| !is_deadline(entry))
            .map(|(_, entry)| entry.received_at)
            .max()
            .unwrap_or(started_at);
        let first_event = members.iter().find(|(_, entry)| !is_deadline(entry)).map_or(0, |(index, _)| *index);
        let believing = members.iter().any(|(_, entry)| is_deadline(entry));
        let deadline = members
            .iter()
            .filter(|(_, entry)| is_deadline(entry))
            .filter(|(_, entry)| entry.event.occurred_at >= Some(heard_at))
            .map(|(index, _)| *index)
            .next();
        let kinds: Vec<EventKind> = members.iter().map(|(_, entry)| entry.event.kind).collect();
        let lifecycle = LIFECYCLE.fold(&kinds, believing);
        let outcome = OUTCOME.fold(&kinds, believing);
        let belief_matters = believing
            && (LIFECYCLE.fold(&kinds, false).state != lifecycle.state
                || OUTCOME.fold(&kinds, false).state != outcome.state);
        let origin = kinds.iter().position(|kind| *kind == EventKind::Initiated);
        let verdicts = members
            .iter()
            .enumerate()
            .map(|(at, (index, entry))| {
                let own = match entry.event.kind {
                    EventKind::Initiated if origin == Some(at) => Verdict::Applied,
                    EventKind::DeadlinePassed if deadline == Some(*index) || belief_matters => Verdict::Applied,
                    EventKind::Initiated | EventKind::DeadlinePassed => Verdict::Stale,
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
                    | EventKind::RetryScheduled => better(verdict(&lifecycle, at), verdict(&outcome, at)),
                };
                (*index, own)
            })
            .collect();
        let at = |index: usize| members.get(index).map_or(0, |(entry, _)| *entry);
        let made = lifecycle.run.last().and_then(|(_, index)| members.get(*index));
        let ended_at = if lifecycle.state.is_ending() {
            made.map(|(_, entry)| entry.happened_at())
        } else {
            deadline.and_then(|index| self.history.get(index)).map(|entry| entry.received_at)
        };
        Attempt {
            slot,
            number,
            lifecycle: lifecycle.state,
            outcome: outcome.state,
            silent: deadline.is_some(),
            started_at,
            ended_at,
            heard_at,
            first: first_event,
            lifecycle_run: lifecycle.run.iter().map(|(state, index)| (*state, at(*index))).collect(),
            outcome_run: outcome.run.iter().map(|(state, index)| (*state, at(*index))).collect(),
            deadline,
            verdicts,
        }
    }

    fn relabel(&mut self, attempts: &[Attempt]) {
        let retry = self.retry_scheduled(attempts);
        for (index, entry) in self.history.iter_mut().enumerate() {
            let best = attempts
                .iter()
                .flat_map(|attempt| &attempt.verdicts)
                .filter(|(at, _)| *at == index)
                .fold(Verdict::Foreign, |best, (_, verdict)| better(best, *verdict));
            entry.disposition = match best {
                Verdict::Applied => Disposition::Applied,
                Verdict::Refused => Disposition::Refused,
                Verdict::Stale => Disposition::Stale,
                Verdict::Parked => Disposition::Parked,
                Verdict::Foreign if retry == Some(index) => Disposition::Applied,
                Verdict::Foreign => Disposition::Stale,
            };
        }
    }
}

fn verdict<S>(folded: &Folded<S>, at: usize) -> Verdict {
    folded.verdicts.get(at).copied().unwrap_or(Verdict::Foreign)
}

/// Of what two machines, or two attempts, make of one event, what is said of it.
fn better(a: Verdict, b: Verdict) -> Verdict {
    let rank = |verdict| match verdict {
        Verdict::Applied => 4,
        Verdict::Refused => 3,
        Verdict::Stale => 2,
        Verdict::Parked => 1,
        Verdict::Foreign => 0,
    };
    if rank(a) >= rank(b) { a } else { b }
}
