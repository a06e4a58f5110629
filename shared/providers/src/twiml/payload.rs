//! Names of the parameters of a status callback, of an answering-machine callback, or of a request for instructions.
//!
//! They arrive in a form or in a flat JSON object, and every value is a text. A provider may add parameters at any time.

use serde::Deserialize;
use switchhook_domain::Timestamp;

use crate::lenient;
use crate::times::parse_rfc2822;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Callback {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_sid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) account_sid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) parent_call_sid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_status: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) callback_source: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) sequence_number: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) answered_by: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) direction: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    timestamp: Option<String>,
    /// Seconds.
    #[serde(deserialize_with = "lenient::text")]
    call_duration: Option<String>,
}

impl Callback {
    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        parse_rfc2822(self.timestamp.as_deref()?)
    }

    /// End of a call whose timestamp is its beginning.
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        let began_at = self.occurred_at()?;
        Some(Timestamp::from_millis(began_at.as_millis().saturating_add(i64::from(self.duration_s()) * 1000)))
    }

    /// Duration in seconds. Zero if the callback names none.
    pub(super) fn duration_s(&self) -> u32 {
        self.call_duration.as_deref().and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0)
    }

    pub(super) fn sequence(&self) -> Option<u32> {
        self.sequence_number.as_deref()?.parse().ok()
    }
}

pub(super) enum CallStatus {
    Queued,
    Initiated,
    Ringing,
    InProgress,
    Completed,
    Busy,
    NoAnswer,
    Failed,
    Canceled,
    Other,
}

impl CallStatus {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "queued" => Self::Queued,
            "initiated" => Self::Initiated,
            "ringing" => Self::Ringing,
            "in-progress" | "answered" => Self::InProgress,
            "completed" => Self::Completed,
            "busy" => Self::Busy,
            "no-answer" => Self::NoAnswer,
            "failed" => Self::Failed,
            "canceled" => Self::Canceled,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum AnsweredBy {
    Human,
    /// An answering machine at any stage of its greeting, or a fax.
    Machine,
    /// Somebody or something answered.
    Unknown,
    /// Future names, which are read as [`AnsweredBy::Unknown`].
    Other,
}

impl AnsweredBy {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "human" => Self::Human,
            "fax" => Self::Machine,
            _ if name.starts_with("machine") => Self::Machine,
            "unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }
}
