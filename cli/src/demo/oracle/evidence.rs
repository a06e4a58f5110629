//! The evidence that reached Switchhook about one call. All expectations are computed from it.

use crate::demo::script::{Millis, Provider, Report};
use crate::demo::stack_settings::{INACTIVITY_TIMEOUT, RECONCILER_PERIOD};

/// A call that the oracle checks, placed by others or by Switchhook.
#[derive(Debug)]
pub(super) struct CheckedCall<'a> {
    pub(super) call_id: &'a str,
    pub(super) appointment_id: Option<&'a str>,
    /// For calls that Switchhook places: one per dial, whether it became an attempt or not.
    pub(super) attempts: Vec<CheckedAttempt<'a>>,
    pub(super) reports: &'a [Report],
    /// `None` if others place the call.
    pub(super) placement: Option<Placement>,
}

/// An attempt at a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedAttempt<'a> {
    pub(super) provider: Provider,
    pub(super) provider_call_id: Option<&'a str>,
}

/// The part of the truth that exists only for calls that Switchhook places.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    /// One per dial. `None` if it was no attempt, or no retry must follow it.
    pub(super) retries: Vec<Option<Retry>>,
    /// Index of the attempt after which the job must fail, with the reason.
    pub(super) fails_after: Option<(usize, &'static str)>,
    /// End of a call without any attempt.
    pub(super) ended: Option<EndWithoutAttempt>,
}

/// End of a call that had no attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndWithoutAttempt {
    /// Earliest and latest time at which it ended, both included.
    pub(super) between: (Millis, Millis),
    /// Status of the call: `canceled` or `exhausted`.
    pub(super) status: &'static str,
    pub(super) appointment_status: &'static str,
    pub(super) reason: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    /// Longest time from the moment when the previous attempt is known to have ended until the retry is due.
    pub(super) delay_max: Millis,
    /// Time of the first dial of the retry.
    pub(super) dialled_at: Millis,
}

/// One thing that reached Switchhook about a call.
#[derive(Clone, Debug)]
pub(super) enum Evidence {
    /// A webhook arrived, or the provider answered a dial.
    Received(ReceivedReport),
    /// Switchhook looked the call up, and the provider answered with this report.
    LookupAnswered(ReceivedReport),
    /// Switchhook looked the call up, and the provider has no such call.
    LookupNotFound {
        /// Index into the attempts of the call.
        attempt: usize,
        at: Millis,
    },
}

/// A report that Switchhook received and accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReceivedReport {
    /// Index into the reports of the call.
    pub(super) report: usize,
    /// Id under which Switchhook acknowledged the report.
    pub(super) event_id: String,
    /// Time of its first arrival by the system's clock.
    pub(super) at: Millis,
}

/// An inactivity timeout of an attempt, which the reconciler has detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InactivityTimeout {
    /// Index into the attempts of the call.
    pub(super) attempt: usize,
    /// Time of the attempt's last event.
    pub(super) since: Millis,
    /// Earliest and latest time of the detection, both included.
    pub(super) detected_between: (Millis, Millis),
}

/// The detection that a retry, which another system had promised, has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedRetry {
    /// Time at which the promise arrived.
    pub(super) since: Millis,
    /// Earliest and latest time of the detection, both included.
    pub(super) detected_between: (Millis, Millis),
}

impl MissedRetry {
    pub(super) const fn since(since: Millis) -> Self {
        Self { since, detected_between: timeout_detected_between(since) }
    }
}

impl Placement {
    /// True if the attempt with this index must be followed by another.
    pub(super) fn retries(&self, attempt: usize) -> bool {
        self.retries.get(attempt).copied().flatten().is_some()
    }

    /// Returns the earliest and the latest time at which the next attempt may be due, if the end of this one became
    /// known between `earliest` and `latest`. `None` if no attempt follows.
    pub(super) fn retry_due_between(
        &self,
        attempt: usize,
        (earliest, latest): (Millis, Millis),
    ) -> Option<(Millis, Millis)> {
        let Retry { delay_max, dialled_at } = self.retries.get(attempt).copied().flatten()?;
        Some((earliest, dialled_at.min(latest + delay_max)))
    }
}

impl Evidence {
    pub(super) const fn at(&self) -> Millis {
        match self {
            Self::Received(report) | Self::LookupAnswered(report) => report.at,
            Self::LookupNotFound { at, .. } => *at,
        }
    }
}

/// Returns the earliest and the latest time at which the reconciler detects the inactivity timeout of an attempt whose
/// last event came at `last_event_at`.
pub(super) const fn timeout_detected_between(last_event_at: Millis) -> (Millis, Millis) {
    let due_at = last_event_at + INACTIVITY_TIMEOUT;
    (due_at, due_at + 2 * RECONCILER_PERIOD)
}
