//! Names of the generic provider. Most of them have two spellings.

use serde::Deserialize;
use switchhook_domain::{EventKind, Timestamp};

use crate::correlation::EchoedIds;
use crate::lenient;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    event_type: Option<String>,
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    short_event_type: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    occurred_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    created_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    call_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    switchhook_call_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    switchhook_attempt: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    appointment_id: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) call: Option<Call>,
    #[serde(deserialize_with = "lenient::object")]
    meta: Option<EchoedIds>,
    #[serde(deserialize_with = "lenient::object")]
    data: Option<EchoedIds>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) sid: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) direction: Option<Direction>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Inbound,
    Outbound,
    #[serde(other)]
    Other,
}

impl Event {
    pub(super) fn event_type(&self) -> Option<&str> {
        self.event_type.as_deref().or(self.short_event_type.as_deref())
    }

    /// `None` if no time can be parsed. The event is valid without a time.
    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        [&self.occurred_at, &self.created_at].into_iter().flatten().find_map(|text| Timestamp::parse_rfc3339(text))
    }

    pub(super) fn echoed_ids(&self) -> EchoedIds {
        let top = EchoedIds {
            switchhook_call_id: self.call_id.clone().or_else(|| self.switchhook_call_id.clone()),
            switchhook_attempt: self.switchhook_attempt.clone(),
            appointment_id: self.appointment_id.clone(),
        };
        top.or(self.meta.clone().unwrap_or_default()).or(self.data.clone().unwrap_or_default())
    }
}

/// Kind of the call event. `None` if the event type is unknown.
pub(super) fn event_kind(event_type: &str) -> Option<EventKind> {
    match event_type {
        "call.initiated" | "CALL_STARTED" => Some(EventKind::Initiated),
        "call.ringing" | "RINGING" => Some(EventKind::Ringing),
        "call.in_progress" | "ANSWERED" => Some(EventKind::InProgress),
        "call.completed" | "ENDED" => Some(EventKind::Completed),
        "call.failed" | "FAILED" => Some(EventKind::Failed),
        "call.busy" | "BUSY" => Some(EventKind::Busy),
        // `TIMEOUT` is the provider's ring timeout: nobody answered.
        "call.no_answer" | "NO_ANSWER" | "TIMEOUT" => Some(EventKind::NoAnswer),
        "call.canceled" | "CANCELED" => Some(EventKind::Canceled),
        "voicemail.detected" | "VOICEMAIL_DETECTED" => Some(EventKind::VoicemailDetected),
        "user.confirmed" | "USER_CONFIRMED" => Some(EventKind::UserConfirmed),
        "user.declined" | "USER_DECLINED" => Some(EventKind::UserDeclined),
        "retry.scheduled" | "RETRY_SCHEDULED" => Some(EventKind::RetryScheduled),
        _ => None,
    }
}
