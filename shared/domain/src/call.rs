//! A call as data, as stored in one row.
//!
//! **The state of a call is computed from its history.** Attempts, their states, the job, the appointment status and the
//! dispositions are functions of the set of call events. They are never updated step by step.
//!
//! **An attempt has a provider, and a call has none.** Several providers may report one call, and its state does not depend on
//! whose report came first.
//!
//! Some data depends on the order in which the events arrived. It is bounded, and stored with the call:
//! - which events were refused because the call was full;
//! - the list of announcements;
//! - descriptions: phone numbers, appointment and the provider's id of an attempt. The first event that names one of them
//!   decides. Only the dialled provider and Switchhook name the provider's id of an attempt that Switchhook dialled.

use std::cmp::Ordering;
use std::time::Duration;

use crate::announcement::{Announcement, AnnouncementSource};
use crate::event::{AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, TraceId};
use crate::moves::Move;
use crate::number::PhoneNumber;
use crate::plan::{ManualTrigger, Plan, Refusals, StopReason};
use crate::provider::{Provider, ProviderSet};
use crate::time::Timestamp;

/// Maximum number of call events per attempt, and per call for events that name no attempt. Kinds that only Switchhook makes, such
/// as `alive` and `deadline_passed`, do not count.
///
/// Events beyond the limit stay in the inbox and are quarantined, so that a row never comes near DynamoDB's limit of 400 KB.
pub const ATTEMPT_EVENTS_MAX: usize = 64;
/// Number of entries in the history of a call from which on further entries have no trace id. The row of the largest call has about three
/// thousand entries, and has no room for the trace id of each.
pub const TRACED_ENTRIES_MAX: usize = 256;
/// Maximum number of attempts per call.
pub const CALL_ATTEMPTS_MAX: usize = 16;
/// Maximum number of dials per call that were not made. They are no attempts, and so this limit is beside [`CALL_ATTEMPTS_MAX`]: a
/// call has at most 48 records of dials.
///
/// **It ends no call.** From the 17th such dial on, each pause is twice as long as the one before. The pause before the 32nd dial is
/// longer than a thousand years. So only triggers by hand use the room up. The call then stays PENDING.
pub const WITHDRAWN_DIALS_MAX: usize = 2 * CALL_ATTEMPTS_MAX;

/// One call: one or several attempts to reach a person, or to be reached by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub call_id: CallId,
    /// `Outbound` if Switchhook places the call. Otherwise `Inbound` if any event reports an inbound call, else the first direction
    /// that an event reports.
    pub direction: Option<Direction>,
    pub from: Option<PhoneNumber>,
    pub to: Option<PhoneNumber>,
    pub appointment_id: Option<String>,
    /// Request that created the call. `None` if Switchhook does not place the call.
    pub plan: Option<Plan>,
    pub job: Job,
    /// Time before which the next attempt is not made, even if the call is due earlier. Set by a dialer that postponed, held or withdrew
    /// a dial, and by a consumer that resumed the call while another call of its booking was under way.
    pub not_before: Option<Timestamp>,
    /// Latest manual trigger that found the call pending.
    pub manual_trigger: Option<ManualTrigger>,
    /// Reason why Switchhook makes no further attempt. `None` if the retry policy decides.
    pub stop_reason: Option<StopReason>,
    /// Providers that refused to place the next attempt. `None` if none has refused a dial so far.
    pub refusals: Option<Refusals>,
    pub attempt_records: Vec<AttemptRecord>,
    /// Call events, in the order of arrival.
    pub history: Vec<HistoryEntry>,
    /// Everything that the call has announced. The n-th announcement has sequence n, counted from 1.
    pub announcements: Vec<Announcement>,
    /// Moves of the job by workers and users, the newest [`MOVES_MAX`](crate::MOVES_MAX). For display only: no state depends on
    /// it.
    pub moves: Vec<Move>,
    /// Time at which a worker looks at the call again. It is never later than the next time at which something is due: a dial, the
    /// end of a lease, or an inactivity timeout. `None` if the call is settled.
    pub wake_at: Option<Timestamp>,
    /// Work that the call needed when `wake_at` was set. It has no meaning while the call is pending or settled.
    pub wake_for: WakeFor,
    /// Time since which the provider of an overdue attempt was asked and gave no usable answer. See [`Call::unanswered_from`].
    pub unanswered_since: Option<Timestamp>,
    /// Place that the call takes among the calls of a provider, as of the last write.
    pub in_flight: Option<InFlight>,
    /// Time at which the call was settled. `None` if it is not settled. [`Call::is_settled`] computes the same from the history, and the test
    /// `invariant_an_unsettled_call_wakes_up` checks that they agree.
    pub settled_at: Option<Timestamp>,
    /// Time at which the [person was forgotten](Call::forget). `None` if the person was not forgotten.
    pub forgotten_at: Option<Timestamp>,
    /// Version of the row. Grows by one with every write.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Stored data of one attempt. Records are in the order in which Switchhook learned of the attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Key of the attempt. `None` until an event names the attempt.
    pub key: Option<AttemptKey>,
    /// Provider that Switchhook asked to place the attempt. `None` if another system placed it:
    /// [`Call::attempt_provider`] tells the provider of every attempt.
    pub provider: Option<Provider>,
    /// The provider's id of the call. If Switchhook dialled the attempt, only [`provider`](Self::provider) names this id: another sender that
    /// reports the attempt has its own id of it.
    pub provider_call_id: Option<String>,
    /// True if an outcome may follow the ending of the attempt. Set from the [`Policy`] whenever the row is written.
    pub awaits_outcome: bool,
    /// Time at which Switchhook asked the provider to place the attempt. `None` if another system placed it.
    pub dialled_at: Option<Timestamp>,
    /// True if the provider was [doubted](crate::ProviderHealth) when it got this dial, or if an accepted probe had just closed its
    /// circuit. The first report that it really dialled ends the doubt, and confirms the probe.
    pub is_watched: bool,
    /// Random id of the dial and tag of the account that makes it. A dialer that got no response to the write of this record
    /// recognises its own dial by this key.
    pub dial_key: Option<String>,
}

/// One call event in the history of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Id of the provider event that this call event was read from.
    pub source_event_id: EventId,
    pub event: CallEvent,
    pub received_at: Timestamp,
    /// Time by our clock at which the event was first folded. For display only: no state depends on it.
    pub folded_at: Timestamp,
    /// Index into [`Call::attempt_records`]. `None` if the event names no attempt.
    pub attempt_index: Option<usize>,
    pub disposition: Disposition,
    /// Trace id of the source event. For domain events only: no state depends on it. `None` too if the history had
    /// [`TRACED_ENTRIES_MAX`] entries before.
    pub trace_id: Option<TraceId>,
}

impl HistoryEntry {
    /// Returns the id for display: the id of the provider event, followed by `~` and the kind if the call event is implied.
    #[must_use]
    pub fn id(&self) -> EventId {
        if self.event.implied {
            EventId::new(format!("{}~{}", self.source_event_id, self.event.kind))
        } else {
            self.source_event_id.clone()
        }
    }

    /// True if the event says that a dial was not made.
    pub(crate) fn is_withdrawal(&self) -> bool {
        self.event.kind == EventKind::DialNotFound || self.event.never_dialled.is_some()
    }

    /// True if the event shows that there is a call for the dial: the provider took the dial, or somebody reported it. So a search that found no
    /// such call proves nothing. The provider may still have dialled nobody, and report that.
    pub(crate) fn disproves_not_found(&self) -> bool {
        matches!(self.event.kind, EventKind::Initiated | EventKind::Alive) || self.disproves_withdrawal()
    }

    /// True if the event is evidence that a person was reached, or a phone rang. `initiated` and `alive` are not: a provider may accept
    /// a call, report it as queued, and then dial nobody. The promise of a retry is not either.
    pub(crate) fn disproves_withdrawal(&self) -> bool {
        let kind = self.event.kind;
        let says_undialled = kind == EventKind::Initiated || self.event.never_dialled.is_some();
        kind.is_evidence() && !kind.is_call_level() && !says_undialled
    }

    /// Returns the time by the provider's clock if the provider names one, else the time of receipt.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.event.occurred_at.unwrap_or(self.received_at)
    }

    /// Compares by canonical order: time, the provider's sequence, rank of the kind, explicit before implied, event id. All of
    /// these belong to the event alone.
    ///
    /// An event without a time by the provider's clock sorts by its kind: beginnings first, all others last.
    pub(crate) fn canonical_cmp(&self, other: &Self) -> Ordering {
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

/// Effect that an event has on the state of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// The event is on the path of legal edges that leads to the present state.
    Applied,
    /// No legal path reaches the event. Example: `completed` before any `in_progress`.
    Parked,
    /// The event is legal but contradicts the present state: it comes after the event that made that state and leads
    /// elsewhere.
    Refused,
    /// The event is legal, and other events superseded it. Example: a second `ringing`.
    Stale,
    /// The id of the event is in the history already.
    Duplicate,
    /// The type of the event is not folded.
    Recorded,
    /// The event is unreadable, or the call has no room for it.
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

/// State of the work on a call, with the data of that state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// The call waits until it is due.
    Pending {
        due_at: Timestamp,
    },
    /// One dialer holds the call until the lease ends, to place it through this provider.
    Claimed {
        token: String,
        provider: Provider,
        lease_ends_at: Timestamp,
    },
    InProgress,
    Completed,
    Failed,
    /// An inbound call ended, and nobody had answered it.
    Missed,
    /// The user canceled the call, or its booking was moved or canceled, and no attempt succeeded.
    Canceled,
}

impl Job {
    #[must_use]
    pub const fn state(&self) -> JobState {
        match self {
            Self::Pending { .. } => JobState::Pending,
            Self::Claimed { .. } => JobState::Claimed,
            Self::InProgress => JobState::InProgress,
            Self::Completed => JobState::Completed,
            Self::Failed => JobState::Failed,
            Self::Missed => JobState::Missed,
            Self::Canceled => JobState::Canceled,
        }
    }

    /// Returns the name of the state.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.state().as_str()
    }

    pub(crate) const fn is_final(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Claimed { .. } | Self::InProgress => false,
            Self::Completed | Self::Failed | Self::Missed | Self::Canceled => true,
        }
    }
}

/// State of a [`Job`] without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    Pending,
    Claimed,
    InProgress,
    Completed,
    Failed,
    Missed,
    Canceled,
}

impl JobState {
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Claimed, Self::InProgress, Self::Completed, Self::Failed, Self::Missed, Self::Canceled];

    /// Returns the name used in the API and in rows, for example `IN_PROGRESS`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Claimed => "CLAIMED",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Missed => "MISSED",
            Self::Canceled => "CANCELED",
        }
    }

    /// Returns the state of this name. `None` if there is no such state.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Time limits that hold for every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Time after the last event of an attempt at which the deadline of the attempt passes.
    pub inactivity_timeout: Duration,
    /// Providers that report what the person said after the call has ended. An attempt through another provider is settled by
    /// its ending.
    pub outcome_providers: ProviderSet,
}

/// Place that a call takes among the calls that Switchhook has in flight at a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// The call is claimed, to be placed through this provider.
    Claimed(Provider),
    /// Switchhook asked this provider to place the call, and no end of the attempt is known.
    Dialled(Provider),
}

impl InFlight {
    #[must_use]
    pub const fn provider(self) -> Provider {
        match self {
            Self::Claimed(provider) | Self::Dialled(provider) => provider,
        }
    }
}

/// Work for which an open call wakes up, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeFor {
    /// A dialer must use a claim, or a dial is in doubt.
    Claim,
    /// An attempt has not ended.
    Ending,
    /// Every attempt has ended. The call waits for an outcome, or for a retry by another system.
    Outcome,
}

impl Call {
    pub(crate) fn new(call_id: CallId, job: Job, created_at: Timestamp) -> Self {
        Self {
            call_id,
            direction: None,
            from: None,
            to: None,
            appointment_id: None,
            plan: None,
            job,
            not_before: None,
            manual_trigger: None,
            stop_reason: None,
            refusals: None,
            attempt_records: Vec::new(),
            history: Vec::new(),
            announcements: Vec::new(),
            moves: Vec::new(),
            wake_at: None,
            wake_for: WakeFor::Outcome,
            unanswered_since: None,
            in_flight: None,
            settled_at: None,
            forgotten_at: None,
            version: 0,
            created_at,
            updated_at: created_at,
        }
    }

    /// True if the history contains this provider event.
    #[must_use]
    pub fn contains_event(&self, event_id: &EventId) -> bool {
        // The ids of a call's events begin alike, so their ends are compared first.
        let end = |id: &EventId| id.as_str().as_bytes().last_chunk::<8>().copied();
        let wanted = end(event_id);
        self.history.iter().any(|entry| end(&entry.source_event_id) == wanted && entry.source_event_id == *event_id)
    }

    /// True if the two rows have the same state. The moves, the version, and the time of the last write are not part of it.
    #[must_use]
    pub fn has_same_state(&self, other: &Self) -> bool {
        let Self { version, updated_at, moves, .. } = self.clone();
        *self == Self { version, updated_at, moves, ..other.clone() }
    }

    /// Returns the index into the history of the event that arrived last. `None` if there is no event. Events that later ones replace do not
    /// count.
    pub(crate) fn newest_event(&self) -> Option<usize> {
        self.history.iter().rposition(|entry| !entry.event.kind.is_kept_once())
    }

    /// Returns the provider of an announcement's source event. `None` if the source is no event of a provider.
    pub(crate) fn provider_of_source(&self, source: AnnouncementSource) -> Option<Provider> {
        match source {
            AnnouncementSource::Event(index) => self.history.get(index)?.source_event_id.provider().copied(),
            AnnouncementSource::Transition(_) => None,
        }
    }

    /// Returns the number of the other person in canonical form: the called number of an outbound call, the calling number
    /// of an inbound one. `None` if the number or the direction is not known.
    #[must_use]
    pub fn party(&self) -> Option<PhoneNumber> {
        let number = match self.direction? {
            Direction::Outbound => self.to.as_ref(),
            Direction::Inbound => self.from.as_ref(),
        };
        number.map(PhoneNumber::canonical)
    }

    /// Returns the history in canonical order.
    #[must_use]
    pub fn timeline(&self) -> Vec<&HistoryEntry> {
        let mut entries: Vec<&HistoryEntry> = self.history.iter().collect();
        entries.sort_by(|a, b| a.canonical_cmp(b));
        entries
    }

    /// True if the call waits until it is due. The scheduler wakes such a call; the reconciler wakes all others.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        match self.job {
            Job::Pending { .. } => true,
            Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => false,
        }
    }

    /// Returns the provider of an attempt, by its index into [`Call::attempt_records`]: the one that Switchhook asked to place
    /// it, else the one that reports it. Another provider that reports it is preferred to the generic one.
    #[must_use]
    pub fn attempt_provider(&self, index: usize) -> Option<Provider> {
        let dialled = self.attempt_records.get(index).and_then(|record| record.provider);
        let reporting = |named: Option<usize>| {
            let entries = self.history.iter().filter(move |entry| entry.attempt_index == named);
            let providers = entries.filter_map(|entry| entry.source_event_id.provider());
            let rank = |provider: &Provider| (provider.vendor(), *provider);
            // The events of an attempt mostly have one provider, and each fold asks for it. So only different ones are ranked.
            providers.reduce(|a, b| if a == b || rank(a) <= rank(b) { a } else { b }).copied()
        };
        dialled.or_else(|| reporting(Some(index))).or_else(|| reporting(None))
    }

    /// Returns the provider and the time of the dial that an event proves, if the dial [is watched](AttemptRecord::is_watched).
    /// `None` if the event does not prove a dial, or proves one that is not watched.
    #[must_use]
    pub fn watched_dial(&self, event_id: &EventId) -> Option<(Provider, Timestamp)> {
        let mut reports = self.history.iter().filter(|entry| entry.source_event_id == *event_id);
        let record = self.attempt_records.get(reports.find(|entry| entry.disproves_withdrawal())?.attempt_index?)?;
        record.provider.zip(record.dialled_at).filter(|_| record.is_watched)
    }

    /// Returns the attempts in doubt: Switchhook dialled them, no event has arrived, and the provider's call id is unknown
    /// because the response to the dial was lost.
    #[must_use]
    pub fn in_doubt(&self) -> Vec<&AttemptRecord> {
        let has_event = |index: usize| self.history.iter().any(|entry| entry.attempt_index == Some(index));
        let records = self.attempt_records.iter().enumerate();
        let doubtful = records.filter(|(index, record)| {
            record.dialled_at.is_some() && record.provider_call_id.is_none() && !has_event(*index)
        });
        doubtful.map(|(_, record)| record).collect()
    }
}
