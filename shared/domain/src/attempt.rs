//! The state of each attempt, derived from the history of its call.

use crate::announcement::AppointmentStatus;
use crate::call::{AttemptRecord, Call, HistoryEntry};
use crate::event::{AttemptKey, EventKind};
use crate::lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome};
use crate::machine::Verdict;
use crate::time::Timestamp;

/// State of one attempt, derived from the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptState {
    /// Index into [`Call::attempt_records`]. [`Call::attempt_provider`] tells the provider.
    pub index: usize,
    /// Number for display: 1 is the attempt that started first.
    pub number: u8,
    pub lifecycle: Lifecycle,
    pub outcome: Outcome,
    /// True if the attempt was silent for its inactivity timeout, and a `deadline_passed` event reports that. An event that arrives
    /// afterwards makes it false again.
    pub timed_out: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Time of receipt of the last event that restarts the inactivity timeout.
    pub last_event_at: Timestamp,
    /// Time of receipt of the event that ended the attempt: its ending, or the passed deadline. Equal to `last_event_at` while
    /// the attempt has not ended.
    pub(crate) end_received_at: Timestamp,
    /// True if an outcome may follow the ending.
    pub(crate) awaits_outcome: bool,
    /// True if the attempt failed for a reason that another attempt would meet again.
    pub(crate) permanent: bool,
    /// Index into the history of the event by which subscribers learn of the attempt: its first event, or else its passed
    /// deadline. `None` if the attempt was dialled and neither has arrived.
    pub(crate) first: Option<usize>,
    /// Running maximum of the lifecycle: the states that were the highest at some point of the fold. Each state comes with the
    /// index into the history of the event that led to it.
    pub(crate) lifecycle_maxima: Vec<(Lifecycle, usize)>,
    /// Running maximum of the outcome, in the same form.
    pub(crate) outcome_maxima: Vec<(Outcome, usize)>,
    /// Index into the history of the passed deadline by which the attempt timed out.
    pub(crate) deadline: Option<usize>,
    /// Verdict on each event of the attempt, with its index into the history.
    pub(crate) verdicts: Vec<(usize, Verdict)>,
}

impl AttemptState {
    /// True if the attempt timed out without an ending.
    #[must_use]
    pub const fn is_inconclusive(&self) -> bool {
        self.timed_out && !self.lifecycle.is_ending()
    }

    /// Returns the name of the lifecycle state for display and for the API.
    #[must_use]
    pub const fn lifecycle_label(&self) -> &'static str {
        if self.is_inconclusive() { INCONCLUSIVE } else { self.lifecycle.label() }
    }

    /// Returns the name of the outcome for display and for the API.
    #[must_use]
    pub const fn outcome_label(&self) -> &'static str {
        if self.outcome_is_inconclusive() { INCONCLUSIVE } else { self.outcome.label() }
    }

    pub(crate) const fn outcome_is_inconclusive(&self) -> bool {
        self.timed_out && !self.outcome_is_final()
    }

    /// True if no other outcome is awaited. `Connected` is final after the ending of an attempt whose provider reports no
    /// outcome.
    pub(crate) const fn outcome_is_final(&self) -> bool {
        match self.outcome {
            Outcome::Dialing => false,
            Outcome::Connected => !self.awaits_outcome && self.lifecycle.is_ending(),
            Outcome::NoAnswer | Outcome::Voicemail | Outcome::Declined | Outcome::Confirmed => true,
        }
    }

    /// True if the attempt reached an ending or timed out. Its outcome may still follow.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.lifecycle.is_ending() || self.timed_out
    }

    /// True if neither an ending nor an outcome is awaited.
    pub(crate) const fn is_settled(&self) -> bool {
        self.timed_out || (self.lifecycle.is_ending() && self.outcome_is_final())
    }

    /// Returns the index into the history of the event that ended the attempt: its ending, or the passed deadline.
    pub(crate) fn ended_by(&self) -> Option<usize> {
        let ending = self.lifecycle_maxima.last().filter(|(state, _)| state.is_ending());
        ending.map(|(_, index)| *index).or(self.deadline)
    }

    /// Returns the answer of the person to the appointment. `None` if there is no answer.
    pub(crate) const fn decision(&self) -> Option<AppointmentStatus> {
        match self.outcome {
            Outcome::Confirmed => Some(AppointmentStatus::Confirmed),
            Outcome::Declined => Some(AppointmentStatus::Declined),
            Outcome::Dialing | Outcome::NoAnswer | Outcome::Connected | Outcome::Voicemail => None,
        }
    }
}

impl Call {
    /// Returns the attempts, in the order of their numbers. A dial after which the provider dialled nobody is no attempt.
    #[must_use]
    pub fn attempts(&self) -> Vec<AttemptState> {
        let starts = self.starts().into_iter().filter(|(_, index)| !self.is_withdrawn(*index));
        starts.zip(1..).map(|((started_at, index), number)| self.attempt(index, number, started_at)).collect()
    }

    /// Returns the start of each attempt record, with its index, in the order of the starts. Contains the dials that were not made.
    ///
    /// Events without an attempt have one of their own [only before a dial](Self::is_before_dials). A later report may show that an
    /// attempt of another system began before all dials. Then they belong to that one, and the record without a key is left out. So the
    /// order of the reports does not change the number of attempts.
    pub(crate) fn starts(&self) -> Vec<(Timestamp, usize)> {
        let records = self.attempt_records.iter().enumerate();
        let mut starts: Vec<(Timestamp, &AttemptRecord, usize)> =
            records.map(|(index, record)| (self.started_at(index), record, index)).collect();
        starts.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
        let first_with_key = starts.iter().find(|(_, record, _)| record.key.is_some());
        if first_with_key.is_some_and(|(_, first, _)| first.dialled_at.is_none()) {
            starts.retain(|(_, record, _)| record.key.is_some());
        }
        starts.into_iter().map(|(started_at, _, index)| (started_at, index)).collect()
    }

    pub(crate) fn attempt_key(&self, attempt: &AttemptState) -> Option<&AttemptKey> {
        self.attempt_records.get(attempt.index).and_then(|record| record.key.as_ref())
    }

    /// Returns the time at which Switchhook dialled the attempt. If it did not, returns the time of the first event that names the
    /// attempt, or else of the first event that names no attempt.
    pub(crate) fn started_at(&self, index: usize) -> Timestamp {
        let time = |entry: &HistoryEntry| entry.event.occurred_at.unwrap_or_else(|| self.reported_at(entry));
        // The clock of a sender may be ahead. What arrived before a dial must not begin after it.
        let has_dial = self.attempt_records.iter().any(|record| record.dialled_at.is_some());
        let earliest = |named: Option<usize>| {
            let entries = self.history.iter().filter(|entry| entry.attempt_index == named);
            let entries = entries.filter(|entry| entry.event.kind.is_evidence() && self.concerns_attempt(entry, None));
            let is_limited = has_dial || named.is_none();
            entries.map(|entry| if is_limited { time(entry).min(entry.received_at) } else { time(entry) }).min()
        };
        let dialled_at = self.attempt_records.get(index).and_then(|record| record.dialled_at);
        dialled_at.or_else(|| earliest(Some(index))).or_else(|| earliest(None)).unwrap_or(self.created_at)
    }

    /// True if an event of an attempt tells that this attempt began or went on. If Switchhook places the call, the promise of a retry by
    /// another system does not. Nor does the start of a call, without an attempt and before the dial.
    fn concerns_attempt(&self, entry: &HistoryEntry, dialled_at: Option<Timestamp>) -> bool {
        let is_promise = self.plan.is_some() && entry.event.kind.is_call_level();
        let is_unnamed_start = entry.attempt_index.is_none() && entry.event.kind == EventKind::Initiated;
        // The history is searched for this time, so only for the few events that it decides about.
        let is_before_dial = || dialled_at.is_some_and(|dialled_at| !self.is_since_dial(entry, dialled_at));
        !(is_promise || is_unnamed_start && is_before_dial())
    }

    fn attempt(&self, index: usize, number: u8, started_at: Timestamp) -> AttemptState {
        let entries = self.entries_of_attempt(index, number == 1, started_at);
        let was_not_dialled = self.was_not_dialled(index);
        let kinds: Vec<EventKind> = entries.iter().map(|(_, entry)| entry.folded_kind(was_not_dialled)).collect();
        let dialled_at = self.attempt_records.get(index).and_then(|record| record.dialled_at);
        let concerns_attempt = |entry: &HistoryEntry| self.concerns_attempt(entry, dialled_at);
        let restarts =
            entries.iter().zip(&kinds).filter(|((_, entry), kind)| kind.restarts_timeout() && concerns_attempt(entry));
        // The promise of an attempt restarts nothing, but it may be all that is known.
        let evidence = entries.iter().filter(|(_, entry)| entry.event.kind.is_evidence());
        let first_received_at = || evidence.map(|(_, entry)| entry.received_at).min();
        let last_event_at = restarts.map(|((_, entry), _)| entry.received_at).max().max(dialled_at);
        let last_event_at = last_event_at.or_else(first_received_at).unwrap_or(started_at);
        let deadlines = entries.iter().zip(&kinds).filter(|(_, kind)| **kind == EventKind::DeadlinePassed);
        let deadlines: Vec<(usize, &HistoryEntry)> = deadlines.map(|(entry, _)| *entry).collect();
        // Subscribers learn of a dialled attempt by its first event. If none arrives, they learn of it when its deadline passes.
        let mut folded = entries.iter().zip(&kinds);
        let evidence =
            folded.find(|((_, entry), kind)| kind.is_evidence() && concerns_attempt(entry)).map(|(entry, _)| entry);
        let first = evidence.or_else(|| deadlines.first()).map(|(at, _)| *at);
        let deadline =
            deadlines.iter().find(|(_, entry)| entry.event.occurred_at >= Some(last_event_at)).map(|(at, _)| *at);

        let presuming = !deadlines.is_empty();
        let lifecycle = LIFECYCLE.fold(&kinds, presuming);
        let outcome = OUTCOME.fold(&kinds, presuming);
        // A passed deadline stays applied for as long as a presumed edge makes a difference.
        let presumption_matters = presuming
            && (LIFECYCLE.state(&kinds, false) != lifecycle.state || OUTCOME.state(&kinds, false) != outcome.state);
        let deadline_entry = deadline.and_then(|at| self.history.get(at));
        let last_step = lifecycle.running_maxima.last().and_then(|(_, at)| entries.get(*at)).map(|(_, entry)| *entry);
        let ending = last_step.filter(|_| lifecycle.state.is_ending());
        let ended_at = match ending {
            Some(ending) => Some(ending.happened_at()),
            None => deadline_entry.map(|entry| entry.received_at),
        };
        let history_index = |at: usize| entries.get(at).map_or(0, |(index, _)| *index);
        AttemptState {
            index,
            number,
            lifecycle: lifecycle.state,
            outcome: outcome.state,
            timed_out: deadline.is_some(),
            started_at,
            ended_at,
            last_event_at,
            end_received_at: ending.or(deadline_entry).map_or(last_event_at, |entry| entry.received_at),
            awaits_outcome: self.attempt_records.get(index).is_some_and(|record| record.awaits_outcome),
            permanent: last_step.is_some_and(|entry| entry.event.permanent),
            first,
            lifecycle_maxima: lifecycle
                .running_maxima
                .into_iter()
                .map(|(state, at)| (state, history_index(at)))
                .collect(),
            outcome_maxima: outcome.running_maxima.into_iter().map(|(state, at)| (state, history_index(at))).collect(),
            deadline,
            verdicts: verdicts(entries, &kinds, &lifecycle.verdicts, &outcome.verdicts, deadline, presumption_matters),
        }
    }

    /// Returns the earliest time that the provider event of an entry names, else its time of receipt. An implied entry may have no
    /// time of its own, although its provider event names one. **The time of receipt is by another clock**, so it is compared with
    /// times of the provider only if the provider names none.
    pub(crate) fn reported_at(&self, entry: &HistoryEntry) -> Timestamp {
        let siblings = self.history.iter().filter(|other| other.source_event_id == entry.source_event_id);
        siblings.filter_map(|other| other.event.occurred_at).min().unwrap_or(entry.received_at)
    }

    /// True if an event that names no attempt happened and arrived after a dial. Its time alone is no proof, because the clock of its sender
    /// may be ahead.
    pub(crate) fn is_since_dial(&self, entry: &HistoryEntry, dialled_at: Timestamp) -> bool {
        entry.received_at >= dialled_at && self.reported_at(entry) >= dialled_at
    }

    /// True if an attempt had started when an event that names no attempt happened.
    pub(crate) fn had_started(&self, index: usize, started_at: Timestamp, entry: &HistoryEntry) -> bool {
        match self.attempt_records.get(index).and_then(|record| record.dialled_at) {
            Some(dialled_at) => self.is_since_dial(entry, dialled_at),
            None => self.reported_at(entry) >= started_at,
        }
    }

    /// Returns the events of an attempt in canonical order, each with its index into the history.
    ///
    /// An event that names no attempt belongs to every attempt that had started by then, and always to the first attempt. If that is a
    /// dial, [few events](Self::is_before_dials) from before it have no attempt of their own. They belong to the first dial also if others
    /// have one: a further report takes nothing away from it.
    ///
    /// The passed deadline of an attempt without a key names no attempt either. **It never belongs to a dial**: the provider of the dial may
    /// still tell whether a phone rings.
    fn entries_of_attempt(&self, index: usize, is_first: bool, started_at: Timestamp) -> Vec<(usize, &HistoryEntry)> {
        let is_dial = |index: usize| self.attempt_records.get(index).is_some_and(|record| record.dialled_at.is_some());
        let is_dialled = is_dial(index);
        // Attempts before the first dial take away none of the events that count for it.
        let is_first_dial = is_dialled
            && !is_first
            && self.starts().iter().map(|(_, index)| *index).find(|index| is_dial(*index)) == Some(index);
        let is_of_attempt = |entry: &HistoryEntry| match entry.attempt_index {
            Some(named) => named == index,
            None if is_dialled && entry.event.kind == EventKind::DeadlinePassed => false,
            None => {
                is_first
                    || self.had_started(index, started_at, entry)
                    || is_first_dial && self.entry_counts_for_later_dial(entry, started_at)
            }
        };
        let mut entries: Vec<(usize, &HistoryEntry)> = Vec::with_capacity(self.history.len());
        for (at, entry) in self.history.iter().enumerate().filter(|(_, entry)| is_of_attempt(entry)) {
            let is_before = |(_, other): &(usize, &HistoryEntry)| other.canonical_cmp(entry).is_le();
            // Most events arrive in canonical order, so most belong at the end.
            if entries.last().is_none_or(is_before) {
                entries.push((at, entry));
            } else {
                entries.insert(entries.partition_point(is_before), (at, entry));
            }
        }
        entries
    }
}

/// Returns the verdict on each event of an attempt, with the event's index into the history.
fn verdicts(
    entries: Vec<(usize, &HistoryEntry)>,
    kinds: &[EventKind],
    lifecycle: &[Verdict],
    outcome: &[Verdict],
    deadline: Option<usize>,
    presumption_matters: bool,
) -> Vec<(usize, Verdict)> {
    let first_initiated = entries.iter().find(|(_, entry)| entry.event.kind == EventKind::Initiated);
    let first_initiated = first_initiated.map(|(index, _)| *index);
    entries
        .into_iter()
        .zip(kinds)
        .zip(lifecycle.iter().zip(outcome))
        .map(|(((index, _), kind), (lifecycle, outcome))| {
            let verdict = match kind {
                EventKind::Initiated if first_initiated == Some(index) => Verdict::Applied,
                EventKind::DeadlinePassed if deadline == Some(index) || presumption_matters => Verdict::Applied,
                EventKind::Alive => Verdict::Applied,
                EventKind::Initiated | EventKind::DialNotFound | EventKind::DeadlinePassed => Verdict::Stale,
                EventKind::ClaimExpired | EventKind::RetryMissed | EventKind::DriftFound => Verdict::Unhandled,
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
                | EventKind::RetryScheduled => lifecycle.stronger(*outcome),
            };
            (index, verdict)
        })
        .collect()
}
