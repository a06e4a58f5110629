//! Plivo's names: the parameters of a callback. Every value is a text, and Plivo may add parameters at any time.

use serde::Deserialize;
use switchhook_domain::Timestamp;

use crate::lenient;
use crate::times::parse_time;

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
        [&self.start_time, &self.session_start].into_iter().find_map(|time| parse_time(time.as_deref()?))
    }

    pub(super) fn answered_at(&self) -> Option<Timestamp> {
        parse_time(self.answer_time.as_deref()?)
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        parse_time(self.end_time.as_deref()?)
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
