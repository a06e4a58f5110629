//! Vonage's names: the fields of an event.

use serde::Deserialize;
use serde::de::IgnoredAny;
use switchhook_domain::Timestamp;

use crate::lenient;
use crate::times::parse_time;

/// Value of the field `event` in a body that [`client`](super::client) makes of a record of the API. Vonage has no such event.
pub(super) const CALL_RECORD: &str = "call_record";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(deserialize_with = "lenient::text")]
    uuid: Option<String>,
    /// Name of `uuid` in the verdict about an answering machine.
    #[serde(deserialize_with = "lenient::text")]
    call_uuid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) status: Option<String>,
    /// Name of the event if it has no status. [`CALL_RECORD`] if this is no event, but a record of the API.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event: Option<String>,
    /// Error in the instructions for a call. Such an event has neither a status nor a call, only its conversation.
    reason: Option<IgnoredAny>,
    /// Conversation that a transferred leg left. Such an event has no status.
    conversation_uuid_from: Option<IgnoredAny>,
    /// Keys that a person pressed. Such an event has no status, and the same holds for `speech`.
    dtmf: Option<IgnoredAny>,
    /// Words that a person said.
    speech: Option<IgnoredAny>,
    /// Address of a recording. Such an event has neither a status nor a call.
    recording_url: Option<IgnoredAny>,
    /// More about the status.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) detail: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) direction: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) timestamp: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    start_time: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    end_time: Option<String>,
    /// Seconds that the call lasted. Zero if nobody answered.
    #[serde(deserialize_with = "lenient::text")]
    duration: Option<String>,
}

impl Event {
    /// Name of the event. Vonage gives some events none. They are known by a field that no other event has, as in Vonage's own SDKs.
    pub(super) fn name(&self) -> Option<&str> {
        let by_field = [
            (self.reason.is_some(), "error"),
            (self.conversation_uuid_from.is_some(), "transfer"),
            (self.dtmf.is_some() || self.speech.is_some(), "input"),
            (self.recording_url.is_some(), "record"),
        ];
        let by_field = || by_field.into_iter().find_map(|(has_field, name)| has_field.then_some(name));
        self.status.as_deref().or(self.event.as_deref()).or_else(by_field)
    }

    pub(super) fn call_id(&self) -> Option<&str> {
        self.uuid.as_deref().or(self.call_uuid.as_deref())
    }

    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        parse_time(self.timestamp.as_deref()?)
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        parse_time(self.start_time.as_deref()?)
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        parse_time(self.end_time.as_deref()?)
    }

    /// True if the call lasted, so somebody or something answered.
    pub(super) fn has_duration(&self) -> bool {
        lenient::is_positive(self.duration.as_deref())
    }
}

/// Status of an event. The API has the same names for the states of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Started,
    Ringing,
    Answered,
    /// A person answered.
    Human,
    /// A machine answered.
    Machine,
    Busy,
    Cancelled,
    Failed,
    Rejected,
    Timeout,
    Unanswered,
    /// The call is over. Vonage sends it after most of the other endings too.
    Completed,
    /// `disconnected` (the WebSocket of an application), `record`, `input`, `transfer`, `error`: they do not change the call.
    Ignored,
    /// Future names.
    Other,
}

impl Status {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "started" => Self::Started,
            "ringing" => Self::Ringing,
            "answered" => Self::Answered,
            "human" => Self::Human,
            "machine" => Self::Machine,
            "busy" => Self::Busy,
            "cancelled" => Self::Cancelled,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            "timeout" => Self::Timeout,
            "unanswered" => Self::Unanswered,
            "completed" => Self::Completed,
            "disconnected" | "record" | "input" | "transfer" | "error" => Self::Ignored,
            _ => Self::Other,
        }
    }
}
