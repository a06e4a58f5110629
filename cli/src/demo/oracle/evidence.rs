//! The evidence that reached Switchhook about one call. All expectations are computed from it.

use crate::demo::script::{Millis, Provider, Report};
use crate::demo::stack_settings::{INACTIVITY_TIMEOUT, RECONCILER_PERIOD};

/// A call that the oracle checks, placed by others or by Switchhook.
#[derive(Debug)]
pub(super) struct CheckedCall<'a> {
    pub(super) call_id: &'a str,
    pub(super) provider: Provider,
    pub(super) appointment_id: Option<&'a str>,
    /// One per attempt.
    pub(super) provider_call_ids: Vec<Option<&'a str>>,
    pub(super) reports: &'a [Report],
    /// `None` if others place the call.
    pub(super) placement: Option<Placement>,
}

/// The part of the truth that exists only for calls that Switchhook places.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    /// Time at which each attempt was dialled.
    pub(super) dialled_at: Vec<Millis>,
    /// One per attempt that must be followed by another.
    pub(super) retries: Vec<Retry>,
    /// True if the job must fail after the last attempt.
    pub(super) fails: bool,
    /// Time of the request that cancels the call.
    pub(super) canceled_at: Option<Millis>,
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

impl Placement {
    /// True if the attempt with this index must be followed by another.
    pub(super) fn retries(&self, attempt: usize) -> bool {
        attempt < self.retries.len()
    }

    /// Returns the earliest and the latest time at which the next attempt may be due, if the end of this one became
    /// known between `earliest` and `latest`. `None` if no attempt follows.
    pub(super) fn retry_due_between(
        &self,
        attempt: usize,
        (earliest, latest): (Millis, Millis),
    ) -> Option<(Millis, Millis)> {
        let Retry { delay_max, dialled_at } = *self.retries.get(attempt)?;
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
