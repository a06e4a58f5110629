//! Reasons for the dispositions of events, as data and as one sentence each.

use std::fmt;

use crate::call::Disposition;
use crate::event::{EventId, EventKind};

/// Reference to an entry of a call's history, in a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRef {
    /// Index into [`Call::history`](crate::Call::history).
    pub index: usize,
    /// Id for display: see [`HistoryEntry::id`](crate::HistoryEntry::id).
    pub id: EventId,
    pub kind: EventKind,
}

/// State of an attempt before and after an event, by the labels that the API shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: &'static str,
    pub to: &'static str,
    /// True if the step ended the attempt, or gave it its final outcome.
    pub is_ending: bool,
    /// True if the step is legal only because the deadline of the attempt has passed.
    pub is_presumed: bool,
}

/// Reason for the disposition of one event. [`Display`](fmt::Display) gives one sentence. Attempts are named by the number
/// that is displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The event is on the path that leads to the present state. At least one of the two steps is there. `waits_for` are the
    /// kinds that the lifecycle still lacks, if the event changed only the outcome.
    Stepped {
        attempt: u8,
        lifecycle: Option<Step>,
        outcome: Option<Step>,
        waits_for: Vec<EventKind>,
    },
    /// The event is the first `initiated` of its attempt.
    Began {
        attempt: u8,
    },
    /// The provider was asked, and reports the attempt alive.
    Alive {
        attempt: u8,
    },
    /// The inactivity timeout of the attempt passed, and its state depends on that.
    DeadlineCounts {
        attempt: u8,
        lifecycle: &'static str,
        outcome: &'static str,
    },
    /// The event says that nobody was dialled, so the dial was withdrawn.
    Withdrew,
    ClaimExpired,
    /// Another system promised a retry. `missed` is the finding that the retry did not come.
    RetryPromised {
        is_awaited: bool,
        missed: Option<EntryRef>,
    },
    /// The retry that another system promised did not come. `promise` is the latest promise before.
    RetryMissed {
        promise: Option<EntryRef>,
    },
    DriftFound,

    /// No legal path reaches the event yet.
    NoPath {
        attempt: u8,
        /// Kinds of the events that would have to come before. Empty if only a passed deadline makes the event legal.
        missing: Vec<EventKind>,
        /// Earlier event of the path, which waits for the same kinds.
        waits_with: Option<EntryRef>,
        /// Event of a missing kind that has arrived but happened later.
        too_late: Option<EntryRef>,
    },

    /// An earlier event made the present state `present`. This event leads to another state, so it contradicts that event.
    Contradicts {
        attempt: u8,
        present: &'static str,
        leads_to: &'static str,
        by: EntryRef,
    },

    /// Another event had reached the state that the event leads to.
    Repeated {
        attempt: u8,
        state: &'static str,
        by: EntryRef,
    },
    /// A later event led to a state of higher precedence, on another path.
    Outranked {
        attempt: u8,
        leads_to: &'static str,
        present: &'static str,
        by: EntryRef,
    },
    /// Another event was the first `initiated` of the attempt.
    BeganBefore {
        attempt: u8,
        by: EntryRef,
    },
    /// An event arrived since the inactivity timeout began, so the passed deadline no longer counts.
    DeadlineLifted {
        attempt: u8,
        by: EntryRef,
    },
    /// The silence that the `deadline_passed` event reports began before the attempt.
    DeadlineTooEarly {
        attempt: u8,
    },
    /// Another `deadline_passed` event reports the same silence.
    DeadlineRepeated {
        attempt: u8,
        by: EntryRef,
    },
    /// The event belongs to a dial that was withdrawn.
    OfWithdrawnDial {
        by: EntryRef,
    },
    /// A `dial_not_found` event says that the dial was never made, but another event proves that it was, or that the provider took it.
    DialProved {
        by: EntryRef,
    },
    /// A `dial_not_found` event concerns a dial that Switchhook did not make.
    NotOurDial,
    /// A further attempt has started since the promised retry.
    RetryBegan {
        attempt: u8,
    },
    /// Another system promised a retry again, later.
    RetryPromisedAgain {
        by: EntryRef,
    },
    /// The event names no attempt, and the call has none.
    NoAttempt,

    /// The event names no attempt, so it counts for these attempts. `reason` is the strongest one.
    Unnamed {
        attempts: Vec<u8>,
        reason: Box<Reason>,
    },
}

impl Reason {
    /// Returns the disposition that the reason explains.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Stepped { .. }
            | Self::Began { .. }
            | Self::Alive { .. }
            | Self::DeadlineCounts { .. }
            | Self::Withdrew
            | Self::ClaimExpired
            | Self::RetryPromised { .. }
            | Self::RetryMissed { .. }
            | Self::DriftFound => Disposition::Applied,
            Self::NoPath { .. } => Disposition::Parked,
            Self::Contradicts { .. } => Disposition::Refused,
            Self::Repeated { .. }
            | Self::Outranked { .. }
            | Self::BeganBefore { .. }
            | Self::DeadlineLifted { .. }
            | Self::DeadlineTooEarly { .. }
            | Self::DeadlineRepeated { .. }
            | Self::OfWithdrawnDial { .. }
            | Self::DialProved { .. }
            | Self::NotOurDial
            | Self::RetryBegan { .. }
            | Self::RetryPromisedAgain { .. }
            | Self::NoAttempt => Disposition::Stale,
            Self::Unnamed { reason, .. } => reason.disposition(),
        }
    }

    /// Returns the name of the reason for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stepped { .. } => "stepped",
            Self::Began { .. } => "began",
            Self::Alive { .. } => "alive",
            Self::DeadlineCounts { .. } => "deadline_counts",
            Self::Withdrew => "withdrew",
            Self::ClaimExpired => "claim_expired",
            Self::RetryPromised { .. } => "retry_promised",
            Self::RetryMissed { .. } => "retry_missed",
            Self::DriftFound => "drift_found",
            Self::NoPath { .. } => "no_path",
            Self::Contradicts { .. } => "contradicts",
            Self::Repeated { .. } => "repeated",
            Self::Outranked { .. } => "outranked",
            Self::BeganBefore { .. } => "began_before",
            Self::DeadlineLifted { .. } => "deadline_lifted",
            Self::DeadlineTooEarly { .. } => "deadline_too_early",
            Self::DeadlineRepeated { .. } => "deadline_repeated",
            Self::OfWithdrawnDial { .. } => "of_withdrawn_dial",
            Self::DialProved { .. } => "dial_proved",
            Self::NotOurDial => "not_our_dial",
            Self::RetryBegan { .. } => "retry_began",
            Self::RetryPromisedAgain { .. } => "retry_promised_again",
            Self::NoAttempt => "no_attempt",
            Self::Unnamed { reason, .. } => reason.name(),
        }
    }

    /// Returns the other events that the reason refers to.
    #[must_use]
    pub fn entries(&self) -> Vec<&EntryRef> {
        match self {
            Self::Stepped { .. }
            | Self::Began { .. }
            | Self::Alive { .. }
            | Self::DeadlineCounts { .. }
            | Self::Withdrew
            | Self::ClaimExpired
            | Self::DriftFound
            | Self::DeadlineTooEarly { .. }
            | Self::NotOurDial
            | Self::RetryBegan { .. }
            | Self::NoAttempt => Vec::new(),
            Self::RetryPromised { missed: entry, .. } | Self::RetryMissed { promise: entry } => entry.iter().collect(),
            Self::NoPath { waits_with, too_late, .. } => waits_with.iter().chain(too_late).collect(),
            Self::Contradicts { by, .. }
            | Self::Repeated { by, .. }
            | Self::Outranked { by, .. }
            | Self::BeganBefore { by, .. }
            | Self::DeadlineLifted { by, .. }
            | Self::DeadlineRepeated { by, .. }
            | Self::OfWithdrawnDial { by }
            | Self::DialProved { by }
            | Self::RetryPromisedAgain { by } => vec![by],
            Self::Unnamed { reason, .. } => reason.entries(),
        }
    }
}

impl fmt::Display for EntryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.id)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stepped { attempt, lifecycle, outcome, waits_for } => {
                write_step(f, *attempt, lifecycle.as_ref(), outcome.as_ref())?;
                if waits_for.is_empty() {
                    f.write_str(".")
                } else {
                    write!(f, "; the lifecycle still waits for {}.", list(waits_for))
                }
            }
            Self::Began { attempt } => write!(f, "It is the first report that attempt {attempt} began."),
            Self::Alive { attempt } => {
                write!(f, "The provider reported attempt {attempt} alive, so its inactivity timeout began again.")
            }
            Self::DeadlineCounts { attempt, lifecycle, outcome } => write!(
                f,
                "Attempt {attempt} was silent for its inactivity timeout, so it counts as {lifecycle} with the outcome \
                 {outcome}."
            ),
            Self::Withdrew => {
                f.write_str("The provider dialled nobody, so the dial was withdrawn and counts as no attempt.")
            }
            Self::ClaimExpired => {
                f.write_str("The lease of the claim ended without a dial, so the claim no longer counts.")
            }
            Self::RetryPromised { is_awaited: true, .. } => {
                f.write_str("Another system promised a retry, so the call stays open until it comes.")
            }
            Self::RetryPromised { is_awaited: false, missed: None } => f.write_str(
                "Another system promised a retry, but the call does not wait for it: the person decided, or Switchhook \
                 places the call.",
            ),
            Self::RetryPromised { is_awaited: false, missed: Some(missed) } => {
                write!(f, "Another system promised a retry, but {missed} found that it did not come.")
            }
            Self::RetryMissed { promise: Some(promise) } => {
                write!(f, "The retry promised by {promise} did not come within the inactivity timeout.")
            }
            Self::RetryMissed { promise: None } => {
                f.write_str("A promised retry did not come, but the call has no promise from before that time.")
            }
            Self::DriftFound => f.write_str(
                "The row differed from the provider's report or from its own events, so the call was computed again.",
            ),
            Self::NoPath { attempt, missing, waits_with, too_late } => {
                if missing.is_empty() {
                    return write!(
                        f,
                        "It has no effect on attempt {attempt} unless the deadline of the attempt passes."
                    );
                }
                write!(f, "Attempt {attempt} lacks {} before it", list(missing))?;
                if let Some(entry) = waits_with {
                    write!(f, "; {entry} waits for the same")?;
                }
                match too_late {
                    Some(entry) => write!(f, "; {entry} has arrived, but comes later in the order of events."),
                    None => f.write_str("."),
                }
            }
            Self::Contradicts { attempt, present, leads_to, by } if present == leads_to => write!(
                f,
                "It leads to {leads_to} in another way, but {by} counts first and made attempt {attempt} {present}."
            ),
            Self::Contradicts { attempt, present, leads_to, by } => write!(
                f,
                "It leads to {leads_to}, which contradicts {by}: attempt {attempt} was already {present} by then."
            ),
            Self::Repeated { attempt, state, by } => {
                write!(f, "It says the same as {by}, which counts first and made attempt {attempt} {state}.")
            }
            Self::Outranked { attempt, leads_to, present, by } => write!(
                f,
                "It leads to {leads_to}, but {by} came later and made attempt {attempt} {present}, which outranks it."
            ),
            Self::BeganBefore { attempt, by } => {
                write!(f, "It says the same as {by}, which counts first: attempt {attempt} began.")
            }
            Self::DeadlineLifted { attempt, by } => {
                write!(f, "It no longer counts for attempt {attempt}, because {by} arrived after the silence began.")
            }
            Self::DeadlineTooEarly { attempt } => {
                write!(f, "It reports a silence that began before attempt {attempt} did, so it does not count.")
            }
            Self::DeadlineRepeated { attempt, by } => {
                write!(f, "It says the same as {by}, which counts first: attempt {attempt} was silent.")
            }
            Self::OfWithdrawnDial { by } => write!(f, "Its dial was withdrawn: {by} says that nobody was dialled."),
            Self::DialProved { by } => write!(f, "The attempt counts all the same: {by} is evidence of it."),
            Self::NotOurDial => f.write_str("Switchhook did not make that dial, so there is nothing to withdraw."),
            Self::RetryBegan { attempt } => {
                write!(f, "The promised retry has come: attempt {attempt} has started since.")
            }
            Self::RetryPromisedAgain { by } => write!(f, "A later promise of a retry replaced it: {by}."),
            Self::NoAttempt => f.write_str("It names no attempt, and the call has none."),
            Self::Unnamed { attempts, reason } => {
                let numbers: Vec<String> = attempts.iter().map(u8::to_string).collect();
                let (noun, numbers) = (if numbers.len() == 1 { "attempt" } else { "attempts" }, numbers.join(", "));
                write!(f, "It names no attempt, so it counts for {noun} {numbers}. {reason}")
            }
        }
    }
}

fn write_step(
    f: &mut fmt::Formatter<'_>,
    attempt: u8,
    lifecycle: Option<&Step>,
    outcome: Option<&Step>,
) -> fmt::Result {
    match (lifecycle, outcome) {
        (Some(step), outcome) => {
            let verb = if step.is_ending { "ended" } else { "moved" };
            write!(f, "It {verb} attempt {attempt}: {} → {}", step.from, step.to)?;
            if let Some(outcome) = outcome {
                write!(f, ", outcome {} → {}", outcome.from, outcome.to)?;
            }
        }
        (None, Some(step)) => write!(f, "It set the outcome of attempt {attempt}: {} → {}", step.from, step.to)?,
        (None, None) => write!(f, "It counts for attempt {attempt}")?,
    }
    if [lifecycle, outcome].into_iter().flatten().any(|step| step.is_presumed) {
        f.write_str(", presumed because the deadline passed")?;
    }
    Ok(())
}

/// Returns `a`, `a and b`, or `a, b and c`.
fn list(kinds: &[EventKind]) -> String {
    match kinds {
        [] => String::new(),
        [only] => only.to_string(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(|kind| kind.as_str()).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}
