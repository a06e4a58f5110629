//! Plivo's names: the parameters of a callback. Every value is a text, and Plivo may add parameters at any time.

use serde::Deserialize;
use switchhook_domain::{NeverDialled, Timestamp};

use crate::ending::Ending;
use crate::lenient;
use crate::times::{has_offset, parse_time};

/// Offsets from UTC are multiples of this.
const ZONE_STEP_MS: i64 = 15 * 60 * 1000;
/// Largest offset of a zone from UTC.
const ZONE_MAX_MS: i64 = 14 * 60 * 60 * 1000;
/// A session begins within this time of the call's start. If it does not, the two times do not tell the zone.
const SESSION_START_MS: u64 = 5 * 60 * 1000;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Callback {
    #[serde(rename = "CallUUID", deserialize_with = "lenient::text")]
    pub(super) call_uuid: Option<String>,
    /// First leg of the call. Differs from `call_uuid` if the callback is about another leg.
    #[serde(rename = "ALegUUID", deserialize_with = "lenient::text")]
    pub(super) a_leg_uuid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_status: Option<String>,
    /// Verdict of answering-machine detection.
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) machine: Option<bool>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) direction: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    bill_duration: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    hangup_cause_code: Option<String>,
    /// Start of the session, in UTC. The other times have no offset either, but are in the zone of the account.
    #[serde(deserialize_with = "lenient::text")]
    session_start: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    start_time: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    answer_time: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    end_time: Option<String>,
}

impl Callback {
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.local_time(self.start_time.as_deref()).or_else(|| parse_time(self.session_start.as_deref()?))
    }

    pub(super) fn answered_at(&self) -> Option<Timestamp> {
        self.local_time(self.answer_time.as_deref())
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        self.local_time(self.end_time.as_deref())
    }

    /// Parses a time in the zone of the account. If the callback does not tell the zone, the time counts as UTC.
    fn local_time(&self, text: Option<&str>) -> Option<Timestamp> {
        let text = text?;
        let time = parse_time(text)?;
        let offset_ms = if has_offset(text) { 0 } else { self.zone_offset_ms().unwrap_or(0) };
        Some(Timestamp::from_millis(time.as_millis().saturating_sub(offset_ms)))
    }

    /// Offset of the account's zone from UTC. The call and its session start at almost the same time, which the callback has in both zones.
    fn zone_offset_ms(&self) -> Option<i64> {
        let local = parse_time(self.start_time.as_deref()?)?;
        let utc = parse_time(self.session_start.as_deref()?)?;
        let difference_ms = local.millis_since(utc);
        let offset_ms = difference_ms.saturating_add(ZONE_STEP_MS / 2).div_euclid(ZONE_STEP_MS) * ZONE_STEP_MS;
        let is_of_zone = offset_ms.abs() <= ZONE_MAX_MS && difference_ms.abs_diff(offset_ms) <= SESSION_START_MS;
        is_of_zone.then_some(offset_ms)
    }

    /// Cause of the hangup, if the callback has one.
    pub(super) fn hangup_cause(&self) -> Option<u64> {
        self.hangup_cause_code.as_deref()?.trim().parse().ok()
    }

    /// True if Plivo bills seconds of the call, so somebody or something answered.
    pub(super) fn is_billed(&self) -> bool {
        lenient::is_positive(self.bill_duration.as_deref())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStatus {
    Ringing,
    InProgress,
    Completed,
    Busy,
    Failed,
    Timeout,
    NoAnswer,
    Cancel,
    /// The call is over, and Plivo does not know why. Only the record of a call is read in this way.
    Ended,
    Other,
}

/// True if Plivo itself canceled the call: the account is out of credit (1010), or has too many calls to this number (1020). See
/// <https://www.plivo.com/docs/voice/troubleshooting/hangup-causes/>.
pub(super) const fn is_canceled_by_plivo(hangup_cause: u64) -> bool {
    matches!(hangup_cause, 1010 | 1020)
}

/// Ending of a call that failed before anybody answered. The hangup cause tells whether another attempt can help, and whether Plivo dialled:
/// see <https://www.plivo.com/docs/voice/troubleshooting/hangup-causes/>.
///
/// Plivo may give the causes 1010 and 1020 to a call whose phone rings. So they do not say that nobody was dialled.
pub(super) const fn failure(hangup_cause: Option<u64>) -> Ending {
    match hangup_cause {
        // There is no such number.
        Some(2000 | 3050 | 3120) => Ending::FAILED_PERMANENTLY,
        // The account may not call the country, the number, or numbers with its beginning.
        Some(2030 | 2040 | 2050) => Ending::NeverDialled(NeverDialled::Unclear),
        Some(_) | None => Ending::FAILED,
    }
}

impl CallStatus {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "ringing" => Self::Ringing,
            "in-progress" => Self::InProgress,
            "completed" => Self::Completed,
            "busy" => Self::Busy,
            "failed" => Self::Failed,
            "timeout" => Self::Timeout,
            "no-answer" => Self::NoAnswer,
            "cancel" => Self::Cancel,
            "ended" => Self::Ended,
            _ => Self::Other,
        }
    }

    /// Plivo's name. `ended` is Switchhook's own.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ringing => "ringing",
            Self::InProgress => "in-progress",
            Self::Completed => "completed",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::NoAnswer => "no-answer",
            Self::Cancel => "cancel",
            Self::Ended => "ended",
            Self::Other => "other",
        }
    }
}
