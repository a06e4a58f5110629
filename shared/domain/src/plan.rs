//! The request that created a call, and the retry policy.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::event::{CallId, TraceId};
use crate::number::PhoneNumber;
use crate::provider::Provider;
use crate::time::Timestamp;
use crate::window::CallingWindow;

/// Request for a call that Switchhook places. Never changes after the call was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCall {
    pub call_id: CallId,
    pub from: PhoneNumber,
    pub to: PhoneNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appointment_id: Option<String>,
    pub plan: Plan,
}

/// Times, retries and metadata that the user asked for when the call was created. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Providers that may place the call, the preferred one first. At least one.
    pub providers: Vec<Provider>,
    /// Earliest time of the first attempt. If the calling window is closed then, the attempt waits until it opens.
    pub due_at: Timestamp,
    /// Time from which no attempt begins. Example: the start of the appointment that the call is about. `None` if there is no such
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CallingWindow>,
    pub retry: RetryPolicy,
    /// Key-value pairs that Switchhook sends to the provider with every attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Hash of the request that created the call. A second request with the same idempotency key is a repetition only if it
    /// has the same hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// Trace id of the request that created the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

impl Plan {
    /// Returns `due_at` if the calling window is open then, else its next opening.
    ///
    /// If the time zone is unknown, `due_at` stays as it is: the dialer then ends the call.
    #[must_use]
    pub fn moved_into_window(&self, due_at: Timestamp) -> Timestamp {
        let opening = self.window.as_ref().and_then(|window| window.next_opening(due_at).ok().flatten());
        opening.unwrap_or(due_at)
    }

    /// Returns the earliest time at which the retention of the row and of the records begins: the due time, or the time from which no attempt
    /// begins. Until then, an event of the booking could make the call due again.
    #[must_use]
    pub fn kept_from(&self) -> Timestamp {
        self.not_after.map_or(self.due_at, |not_after| not_after.max(self.due_at))
    }

    /// True if no attempt may begin at this time, because it [makes no sense](Self::not_after) any more.
    pub(crate) fn is_too_late(&self, at: Timestamp) -> bool {
        self.not_after.is_some_and(|not_after| at >= not_after)
    }

    /// Returns the earlier of a due time and the time from which no attempt begins. The call is looked at then, and ends.
    pub(crate) fn bounded(&self, due_at: Timestamp) -> Timestamp {
        self.not_after.map_or(due_at, |not_after| due_at.min(not_after))
    }
}

/// Largest distance of a due time from now.
pub const DUE_AHEAD_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Settings of the stack, for calls whose request omits them.
#[derive(Clone, Debug)]
pub struct CallDefaults {
    pub retry: RetryPolicy,
    /// Calling window. `None`: calls are placed at any time.
    pub window: Option<CallingWindow>,
}

/// Number of attempts, and the delays between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first one.
    pub attempts_max: u8,
    /// Longest delay before the second attempt, in seconds. It doubles with every further attempt.
    pub delay_seconds: u32,
    /// Longest delay before any attempt, in seconds.
    pub delay_max_seconds: u32,
    /// True if a call that reached a voicemail is tried again.
    #[serde(default)]
    pub voicemail: bool,
    /// True if an unheard call is tried again, although the person may have answered. Unheard means: the provider accepted the
    /// attempt, and its inactivity timeout passed without an answer or an ending.
    #[serde(default)]
    pub unheard: bool,
}

impl RetryPolicy {
    /// Returns the due time of the attempt after attempt `number`, whose end was received at `end_received_at`.
    ///
    /// The delay has full jitter: any length up to the longest delay. It is derived from the id of the call and the number of
    /// the ended attempt. So every fold of the same events computes the same due time. A later event may give the attempt its key, so the
    /// delay does not depend on that.
    pub(crate) fn due_after(&self, call_id: &CallId, number: u8, end_received_at: Timestamp) -> Timestamp {
        let doublings = u32::from(number.saturating_sub(1)).min(31);
        let cap = u64::from(self.delay_seconds) << doublings;
        let cap_ms = cap.min(self.delay_max_seconds.into()) * 1_000;
        let mut hasher = Sha256::new();
        hasher.update(call_id.as_str());
        hasher.update([0]);
        hasher.update(number.to_string());
        let drawn = hasher.finalize().iter().take(8).fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
        end_received_at.plus(Duration::from_millis(drawn % (cap_ms + 1)))
    }
}

/// Reason why Switchhook makes no further attempt, whatever the retry policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The user canceled the call.
    CanceledByUser,
    /// The number is on the do-not-call list.
    DoNotCall,
    /// The time zone of the calling window is unknown, so no time is known to be inside the window.
    UnknownTimeZone,
    /// The provider will never place this call, for example because the number is not valid.
    RejectedByProvider,
    /// The records of the call's dials were lost in a disaster, so nobody knows whether the person was called.
    DialsUnknown,
    /// The booking that the call is for was moved or canceled. A call gets this reason even while it rings, so that no further
    /// attempt follows. It is the only reason that can be [lifted](crate::Call::resume).
    BookingChanged,
    /// The time after which the call makes no sense has passed. See [`Plan::not_after`].
    TooLate,
}

impl StopReason {
    pub const ALL: [Self; 7] = [
        Self::CanceledByUser,
        Self::DoNotCall,
        Self::UnknownTimeZone,
        Self::RejectedByProvider,
        Self::DialsUnknown,
        Self::BookingChanged,
        Self::TooLate,
    ];

    /// Returns the name used in API answers, domain events and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CanceledByUser => "canceled_by_user",
            Self::DoNotCall => "do_not_call",
            Self::UnknownTimeZone => "unknown_time_zone",
            Self::RejectedByProvider => "rejected_by_provider",
            Self::DialsUnknown => "dials_unknown",
            Self::BookingChanged => "booking_changed",
            Self::TooLate => "too_late",
        }
    }

    /// True if the [records](crate::DialRecords) of a call keep the reason. The next dial finds the others again.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        match self {
            Self::CanceledByUser | Self::DialsUnknown | Self::BookingChanged => true,
            Self::DoNotCall | Self::UnknownTimeZone | Self::RejectedByProvider | Self::TooLate => false,
        }
    }
}

/// Reason why a call ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    Stopped(StopReason),
    /// The call has made as many attempts as the retry policy allows.
    AttemptsUsed,
    /// The retry policy never retries an attempt that ended like the latest one, or a person had answered an earlier attempt.
    NotRetryable,
    /// Nobody knows whether the person answered the latest attempt, and the retry policy does not retry such an attempt.
    Unheard,
    /// The person was forgotten, so there is no number to dial.
    Forgotten,
}

impl EndReason {
    /// Returns all reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        let others = [Self::AttemptsUsed, Self::NotRetryable, Self::Unheard, Self::Forgotten];
        StopReason::ALL.into_iter().map(Self::Stopped).chain(others)
    }

    /// Returns the name used in domain events and in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped(reason) => reason.as_str(),
            Self::AttemptsUsed => "attempts_used",
            Self::NotRetryable => "not_retryable",
            Self::Unheard => "unheard",
            Self::Forgotten => "forgotten",
        }
    }

    /// Returns the reason of this name. `None` if there is no such reason.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.as_str() == name)
    }
}

/// Manual trigger of one attempt: the attempt no longer waits for its due time. The calling window still applies.
///
/// This holds until the attempt is made. If the provider refuses the attempt for now, or the dialer crashes, the call does not
/// wait for its planned due time again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualTrigger {
    /// Number of [attempts](crate::Call::attempts) before the triggered one. A dial that was not made is none of them.
    pub after_attempts: usize,
    pub at: Timestamp,
}

/// Providers that refused to place the next attempt, each once, in the order of their last refusals. None if all have refused, so that all
/// are asked again. They are remembered until a later dial makes the attempt. A late event may show that an earlier dial made it, although that
/// dial was withdrawn. Then they count for the next attempt. Later dials that were not made are in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Number of [attempt records](crate::Call::attempt_records) when the providers refused.
    pub(crate) after_dials: usize,
    pub(crate) providers: Vec<Provider>,
    /// Number of pauses of the attempt after refusals that may be because of one of its numbers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) pauses: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_drawn_once_up_to_a_cap_that_doubles() {
        let retry = RetryPolicy {
            attempts_max: 9,
            delay_seconds: 60,
            delay_max_seconds: 300,
            voicemail: false,
            unheard: false,
        };
        let ended = Timestamp::from_millis(0);
        let mut latest = 0;
        for call in 0..200 {
            let id = CallId::new(format!("call-{call}"));
            for number in 1..=8_u8 {
                let due = retry.due_after(&id, number, ended);
                assert_eq!(due, retry.due_after(&id, number, ended));
                let cap_ms = (60_000_i64 << (number - 1)).min(300_000);
                assert!((0..=cap_ms).contains(&due.as_millis()), "{due:?} after attempt {number}");
                latest = latest.max(due.as_millis());
            }
        }
        assert!(latest > 290_000, "delays use the whole range: {latest}");
    }
}
