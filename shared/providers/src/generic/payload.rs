//! Names of the generic provider. Most of them have two spellings.

use serde::Deserialize;
use switchhook_domain::{Direction, EventKind, Timestamp};

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
    #[serde(deserialize_with = "lenient::text")]
    attempt: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    meta: Option<Extra>,
    #[serde(deserialize_with = "lenient::object")]
    data: Option<Extra>,
}

/// Ids in `meta` or `data`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Extra {
    #[serde(deserialize_with = "lenient::text")]
    switchhook_call_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    switchhook_attempt: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    appointment_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    attempt: Option<String>,
}

impl Extra {
    fn echoed_ids(&self) -> EchoedIds {
        EchoedIds {
            switchhook_call_id: self.switchhook_call_id.clone(),
            switchhook_attempt: self.switchhook_attempt.clone(),
            appointment_id: self.appointment_id.clone(),
        }
    }
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
        self.extras().fold(top, |ids, extra| ids.or(extra.echoed_ids()))
    }

    /// Number that the sender gives the attempt. `None` if no such field holds a whole number.
    pub(super) fn attempt_number(&self) -> Option<u32> {
        let texts = self.extras().filter_map(|extra| extra.attempt.as_deref()).chain(self.attempt.as_deref());
        texts.filter_map(|text| text.trim().parse().ok()).next()
    }

    fn extras(&self) -> impl Iterator<Item = &Extra> {
        [&self.meta, &self.data].into_iter().flatten()
    }
}

/// Earlier facts that an event of the generic provider proves.
#[derive(Clone, Copy)]
pub(super) enum Proof {
    Nothing,
    /// The phone rang.
    Ringing,
    /// The phone rang, and somebody or something answered.
    Answer,
}

/// Kind of the call event, and the earlier facts that it proves. `None` if the event type is unknown.
pub(super) fn meaning(event_type: &str) -> Option<(EventKind, Proof)> {
    match event_type {
        "call.initiated" | "CALL_STARTED" => Some((EventKind::Initiated, Proof::Nothing)),
        "call.ringing" | "RINGING" => Some((EventKind::Ringing, Proof::Nothing)),
        "call.in_progress" | "ANSWERED" => Some((EventKind::InProgress, Proof::Ringing)),
        // A call can end without an answer.
        "call.completed" | "ENDED" => Some((EventKind::Completed, Proof::Ringing)),
        "call.failed" | "FAILED" => Some((EventKind::Failed, Proof::Nothing)),
        "call.busy" | "BUSY" => Some((EventKind::Busy, Proof::Ringing)),
        // `TIMEOUT` is the provider's ring timeout: nobody answered.
        "call.no_answer" | "NO_ANSWER" | "TIMEOUT" => Some((EventKind::NoAnswer, Proof::Ringing)),
        "call.canceled" | "CANCELED" => Some((EventKind::Canceled, Proof::Nothing)),
        "voicemail.detected" | "VOICEMAIL_DETECTED" => Some((EventKind::VoicemailDetected, Proof::Answer)),
        "user.confirmed" | "USER_CONFIRMED" => Some((EventKind::UserConfirmed, Proof::Answer)),
        "user.declined" | "USER_DECLINED" => Some((EventKind::UserDeclined, Proof::Answer)),
        "retry.scheduled" | "RETRY_SCHEDULED" => Some((EventKind::RetryScheduled, Proof::Nothing)),
        _ => None,
    }
}
