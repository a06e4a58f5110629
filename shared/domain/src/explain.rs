//! Reasons for the dispositions that the fold gives.
//!
//! **A reason agrees with the disposition**, because both come from the same tables: [`Machine::explain`] follows the same
//! edges as the fold. A test compares them over every short history.

use crate::attempt::AttemptState;
use crate::call::{Call, HistoryEntry};
use crate::event::EventKind;
use crate::lifecycle::{LIFECYCLE, Lifecycle, OUTCOME, Outcome};
use crate::machine::{Finding, Machine, State, Verdict};
use crate::reason::{EntryRef, Reason, Step};

/// Returns the reason for the disposition of the entry at this index of the call's history. `None` if there is no such entry.
#[must_use]
pub fn explain(call: &Call, index: usize) -> Option<Reason> {
    let entry = call.history.get(index)?;
    Some(explain_entry(call, &call.attempts(), index, entry))
}

/// Returns the reasons for the dispositions of all entries of the call's history, in the same order.
#[must_use]
pub fn explain_all(call: &Call) -> Vec<Reason> {
    let attempts = call.attempts();
    call.history.iter().enumerate().map(|(index, entry)| explain_entry(call, &attempts, index, entry)).collect()
}

fn explain_entry(call: &Call, attempts: &[AttemptState], index: usize, entry: &HistoryEntry) -> Reason {
    let verdict_of =
        |attempt: &AttemptState| attempt.verdicts.iter().find(|(at, _)| *at == index).map(|(_, verdict)| *verdict);
    let concerned: Vec<(&AttemptState, Verdict)> =
        attempts.iter().filter_map(|attempt| Some((attempt, verdict_of(attempt)?))).collect();
    // If two attempts have the same verdict, the later one says more about the present.
    let strongest = concerned.iter().max_by_key(|(_, verdict)| *verdict);
    let Some((attempt, _)) = strongest.filter(|(_, verdict)| *verdict > Verdict::Unhandled) else {
        return reason_of_call(call, attempts, index, entry);
    };
    let reason = reason_of_attempt(call, attempt, index, entry);
    // In a call with one attempt, an event can only concern that one.
    if entry.attempt_index.is_none() && attempts.len() > 1 {
        let attempts = concerned.iter().map(|(attempt, _)| attempt.number).collect();
        Reason::Unnamed { attempts, reason: Box::new(reason) }
    } else {
        reason
    }
}

fn entry_ref(call: &Call, index: usize) -> Option<EntryRef> {
    let entry = call.history.get(index)?;
    Some(EntryRef { index, id: entry.id(), kind: entry.event.kind })
}

/// Returns the reason for the verdict that one attempt has on an event.
fn reason_of_attempt(call: &Call, attempt: &AttemptState, index: usize, entry: &HistoryEntry) -> Reason {
    let number = attempt.number;
    // The entries of the attempt in canonical order, by their index into the history.
    let order: Vec<usize> = attempt.verdicts.iter().map(|(at, _)| *at).collect();
    let of_kind = |kind: EventKind| {
        let entries =
            order.iter().filter(move |at| call.history.get(**at).is_some_and(|other| other.event.kind == kind));
        entries.copied().filter(|at| *at != index)
    };
    match entry.folded_kind(call.was_not_dialled(attempt.index)) {
        EventKind::Initiated => match of_kind(EventKind::Initiated).next().and_then(|first| entry_ref(call, first)) {
            Some(by) if is_stale(attempt, index) => Reason::BeganBefore { attempt: number, by },
            Some(_) | None => Reason::Began { attempt: number },
        },
        EventKind::Alive => Reason::Alive { attempt: number },
        EventKind::DialNotFound => {
            let proves_dial = |other: &HistoryEntry| match entry.event.never_dialled {
                Some(_) => other.disproves_withdrawal(),
                None => other.disproves_not_found(),
            };
            let is_proof = |at: &usize| call.history.get(*at).is_some_and(proves_dial);
            let is_named = |at: &usize| call.history.get(*at).is_some_and(|other| other.attempt_index.is_some());
            let proofs = || order.iter().copied().filter(is_proof);
            let proof = proofs().find(is_named).or_else(|| proofs().next());
            let is_ours = call.attempt_records.get(attempt.index).is_some_and(|record| record.dialled_at.is_some());
            match proof.filter(|_| is_ours).and_then(|at| entry_ref(call, at)) {
                Some(by) => Reason::DialProved { by },
                None => Reason::NotOurDial,
            }
        }
        EventKind::DeadlinePassed if !is_stale(attempt, index) => Reason::DeadlineCounts {
            attempt: number,
            lifecycle: attempt.lifecycle_label(),
            outcome: attempt.outcome_label(),
        },
        EventKind::DeadlinePassed => {
            let last_event = order.iter().copied().find(|at| {
                let was_not_dialled = call.was_not_dialled(attempt.index);
                let restarts = |other: &&HistoryEntry| other.folded_kind(was_not_dialled).restarts_timeout();
                let other = call.history.get(*at).filter(restarts);
                other.is_some_and(|other| Some(other.received_at) > entry.event.occurred_at)
            });
            let counting = attempt.deadline.filter(|deadline| *deadline != index);
            match (last_event, counting) {
                (Some(by), _) => reason_of_lifted_deadline(call, number, by),
                (None, Some(by)) => match entry_ref(call, by) {
                    Some(by) => Reason::DeadlineRepeated { attempt: number, by },
                    None => Reason::DeadlineTooEarly { attempt: number },
                },
                (None, None) => Reason::DeadlineTooEarly { attempt: number },
            }
        }
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
        | EventKind::RetryScheduled
        | EventKind::ClaimExpired
        | EventKind::RetryMissed
        | EventKind::DriftFound => reason_of_machines(call, attempt, index, &order),
    }
}

fn reason_of_lifted_deadline(call: &Call, attempt: u8, by: usize) -> Reason {
    match entry_ref(call, by) {
        Some(by) => Reason::DeadlineLifted { attempt, by },
        None => Reason::DeadlineTooEarly { attempt },
    }
}

fn is_stale(attempt: &AttemptState, index: usize) -> bool {
    attempt.verdicts.contains(&(index, Verdict::Stale))
}

/// Returns the reason for the verdict of the two machines of an attempt on an event. The stronger verdict decides.
fn reason_of_machines(call: &Call, attempt: &AttemptState, index: usize, order: &[usize]) -> Reason {
    let was_not_dialled = call.was_not_dialled(attempt.index);
    let entries = order.iter().filter_map(|at| call.history.get(*at));
    let kinds: Vec<EventKind> = entries.map(|entry| entry.folded_kind(was_not_dialled)).collect();
    let presuming = kinds.contains(&EventKind::DeadlinePassed);
    let at = order.iter().position(|other| *other == index).unwrap_or_default();
    let lifecycle = LIFECYCLE.explain(&kinds, presuming, at);
    let outcome = OUTCOME.explain(&kinds, presuming, at);
    let event = EventOfAttempt { call, number: attempt.number, order, kinds: &kinds, at };
    let (first, second) = (lifecycle.verdict(), outcome.verdict());
    match first.stronger(second) {
        Verdict::Applied => {
            let waits_for = match &lifecycle {
                Finding::NoPath { missing } if !presuming => missing.clone(),
                Finding::NoPath { .. }
                | Finding::Unhandled
                | Finding::Repeated { .. }
                | Finding::Outranked { .. }
                | Finding::Contradicts { .. }
                | Finding::Step { .. } => Vec::new(),
            };
            Reason::Stepped {
                attempt: attempt.number,
                lifecycle: step(&lifecycle, Lifecycle::label, Lifecycle::is_ending),
                outcome: step(&outcome, Outcome::label, Outcome::is_ending),
                waits_for,
            }
        }
        Verdict::Parked => {
            // An event that only one machine can wait for is explained by that machine.
            let is_lifecycle = matches!(&lifecycle, Finding::NoPath { missing } if !missing.is_empty());
            if is_lifecycle || second != Verdict::Parked {
                event.reason(&LIFECYCLE, &lifecycle, attempt.lifecycle, Lifecycle::label)
            } else {
                event.reason(&OUTCOME, &outcome, attempt.outcome, Outcome::label)
            }
        }
        strongest @ (Verdict::Repeated | Verdict::Refused | Verdict::Stale | Verdict::Unhandled)
            if first == strongest =>
        {
            event.reason(&LIFECYCLE, &lifecycle, attempt.lifecycle, Lifecycle::label)
        }
        Verdict::Repeated | Verdict::Refused | Verdict::Stale | Verdict::Unhandled => {
            event.reason(&OUTCOME, &outcome, attempt.outcome, Outcome::label)
        }
    }
}

fn step<S: Copy>(
    finding: &Finding<S, EventKind>,
    label: impl Fn(S) -> &'static str,
    is_ending: impl Fn(S) -> bool,
) -> Option<Step> {
    match finding {
        Finding::Step { from, to, is_presumed } => {
            Some(Step { from: label(*from), to: label(*to), is_ending: is_ending(*to), is_presumed: *is_presumed })
        }
        Finding::Unhandled
        | Finding::NoPath { .. }
        | Finding::Repeated { .. }
        | Finding::Outranked { .. }
        | Finding::Contradicts { .. } => None,
    }
}

/// One event among the events of its attempt.
struct EventOfAttempt<'a> {
    call: &'a Call,
    number: u8,
    /// Entries of the attempt in canonical order, by their index into the history.
    order: &'a [usize],
    kinds: &'a [EventKind],
    /// Position of the event in `order`.
    at: usize,
}

impl EventOfAttempt<'_> {
    fn entry(&self, at: usize) -> Option<EntryRef> {
        entry_ref(self.call, *self.order.get(at)?)
    }

    /// Returns the reason for what one machine found. `present` is the state of that machine.
    fn reason<S: State>(
        &self,
        machine: &Machine<S, EventKind>,
        finding: &Finding<S, EventKind>,
        present: S,
        label: impl Fn(S) -> &'static str,
    ) -> Reason {
        let attempt = self.number;
        match finding {
            Finding::NoPath { missing } => self.no_path(machine, missing),
            Finding::Contradicts { state, by } => match self.entry(*by) {
                Some(by) => Reason::Contradicts { attempt, present: label(present), leads_to: label(*state), by },
                None => Reason::NoAttempt,
            },
            Finding::Outranked { state, by } => match self.entry(*by) {
                Some(by) => Reason::Outranked { attempt, leads_to: label(*state), present: label(present), by },
                None => Reason::NoAttempt,
            },
            Finding::Repeated { state, by, is_applied: _ } => match self.entry(*by) {
                Some(by) => Reason::Repeated { attempt, state: label(*state), by },
                None => Reason::NoAttempt,
            },
            Finding::Step { .. } | Finding::Unhandled => {
                debug_assert!(false, "the caller explains such a finding");
                Reason::NoAttempt
            }
        }
    }

    /// Returns the reason for an event that no path of this machine reaches. An earlier event may be of the missing kinds and
    /// wait itself: then both lack what that one lacks.
    fn no_path<S: State>(&self, machine: &Machine<S, EventKind>, missing: &[EventKind]) -> Reason {
        let presuming = self.kinds.contains(&EventKind::DeadlinePassed);
        let is_of_path = |at: &usize| self.kinds.get(*at).is_some_and(|kind| missing.contains(kind));
        let waiting = (0..self.at).filter(is_of_path).find_map(|at| match machine.explain(self.kinds, presuming, at) {
            Finding::NoPath { missing } if !missing.is_empty() => Some((at, missing)),
            Finding::NoPath { .. }
            | Finding::Unhandled
            | Finding::Repeated { .. }
            | Finding::Outranked { .. }
            | Finding::Contradicts { .. }
            | Finding::Step { .. } => None,
        });
        let waits_with = waiting.as_ref().and_then(|(at, _)| self.entry(*at));
        let missing = waiting.map_or_else(|| missing.to_vec(), |(_, missing)| missing);
        let is_missing = |at: &usize| self.kinds.get(*at).is_some_and(|kind| missing.contains(kind));
        let too_late = (self.at + 1..self.kinds.len()).find(is_missing).and_then(|at| self.entry(at));
        Reason::NoPath { attempt: self.number, waits_with, too_late, missing }
    }
}

/// Returns the reason for the disposition of an event that no attempt has a verdict on.
fn reason_of_call(call: &Call, attempts: &[AttemptState], index: usize, entry: &HistoryEntry) -> Reason {
    let withdrawn = entry.attempt_index.filter(|of| call.is_withdrawn(*of));
    match (entry.event.kind, withdrawn) {
        (EventKind::ClaimExpired, _) => Reason::ClaimExpired,
        (EventKind::DriftFound, _) => Reason::DriftFound,
        (EventKind::RetryMissed, _) => {
            let promises = call.history.iter().enumerate().filter(|(_, other)| {
                other.event.kind == EventKind::RetryScheduled && Some(other.received_at) <= entry.event.occurred_at
            });
            let promise = promises.max_by(|(_, a), (_, b)| a.canonical_cmp(b)).map(|(at, _)| at);
            Reason::RetryMissed { promise: promise.and_then(|at| entry_ref(call, at)) }
        }
        (EventKind::RetryScheduled, _) => reason_of_retry(call, attempts, index, entry),
        (_, Some(_)) if entry.is_withdrawal() => Reason::Withdrew,
        (_, Some(of)) => {
            let mut others = call.history.iter().enumerate().filter(|(_, other)| other.attempt_index == Some(of));
            match others.find(|(_, other)| other.is_withdrawal()).and_then(|(at, _)| entry_ref(call, at)) {
                Some(by) => Reason::OfWithdrawnDial { by },
                None => Reason::NoAttempt,
            }
        }
        (EventKind::DialNotFound, None) => Reason::NotOurDial,
        (
            EventKind::Initiated
            | EventKind::Ringing
            | EventKind::InProgress
            | EventKind::VoicemailDetected
            | EventKind::UserDeclined
            | EventKind::UserConfirmed
            | EventKind::NoAnswer
            | EventKind::Canceled
            | EventKind::Busy
            | EventKind::Failed
            | EventKind::Completed
            | EventKind::Alive
            | EventKind::DeadlinePassed,
            None,
        ) => Reason::NoAttempt,
    }
}

/// Returns the reason for the disposition of a retry that another system promised.
fn reason_of_retry(call: &Call, attempts: &[AttemptState], index: usize, entry: &HistoryEntry) -> Reason {
    match call.external_retry(attempts) {
        Some(latest) if latest == index => {
            let missed = call.missed_retry(attempts).and_then(|at| entry_ref(call, at));
            Reason::RetryPromised { is_awaited: call.awaited_retry(attempts).is_some(), missed }
        }
        Some(latest) if call.history.get(latest).is_some_and(|other| other.canonical_cmp(entry).is_gt()) => {
            match entry_ref(call, latest) {
                Some(by) => Reason::RetryPromisedAgain { by },
                None => Reason::NoAttempt,
            }
        }
        Some(_) | None => {
            let since = |attempt: &&AttemptState| attempt.started_at >= entry.happened_at();
            let started = attempts.iter().find(since).or(attempts.last());
            started.map_or(Reason::NoAttempt, |attempt| Reason::RetryBegan { attempt: attempt.number })
        }
    }
}

#[cfg(test)]
mod tests;
