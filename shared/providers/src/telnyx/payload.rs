//! Telnyx's names. Envelope: `{"data": {"event_type": …, "id": …, "occurred_at": …, "payload": {…}}, "meta": {…}}`.
//!
//! `meta` describes one delivery of the event, and is ignored.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use switchhook_domain::Timestamp;

use crate::correlation::EchoedIds;
use crate::lenient;
use crate::user_decision::{CustomData, UserDecision};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Webhook {
    #[serde(deserialize_with = "lenient::object")]
    pub(super) data: Option<Event>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event_type: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    occurred_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    created_at: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) payload: Option<Payload>,
}

impl Event {
    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        time(&self.occurred_at).or_else(|| time(&self.created_at))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_control_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    client_state: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) direction: Option<Direction>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    start_time: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    end_time: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) hangup_cause: Option<HangupCause>,
    #[serde(deserialize_with = "lenient::text")]
    sip_hangup_cause: Option<String>,
    /// Result of a machine detection, or of the detection of its greeting.
    #[serde(deserialize_with = "lenient::text")]
    result: Option<String>,
    /// Length of the conversation with an assistant, in seconds.
    #[serde(deserialize_with = "lenient::millis")]
    duration_sec: Option<i64>,
    conversation_insights: Option<Value>,
}

impl Payload {
    /// Ids in `client_state`, which is base64 of a JSON object if Switchhook or a team following our documentation set
    /// it. Any other content is ignored.
    pub(super) fn echoed_ids(&self) -> EchoedIds {
        let decoded = self.client_state.as_deref().and_then(|state| BASE64_STANDARD.decode(state).ok());
        decoded.and_then(|json| lenient::from_body(&json).ok()).unwrap_or_default()
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        time(&self.start_time)
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        time(&self.end_time)
    }

    /// True if the called side rejected the call with a SIP status from 400 to 699. Then nobody answered.
    pub(super) fn was_rejected(&self) -> bool {
        self.sip_status().is_some_and(|status| (400..700).contains(&status))
    }

    /// True if the network forbade the call. The person did not reject it.
    pub(super) fn was_forbidden(&self) -> bool {
        self.sip_status() == Some(403)
    }

    fn sip_status(&self) -> Option<u16> {
        self.sip_hangup_cause.as_deref()?.parse().ok()
    }

    pub(super) fn detection(&self) -> Detection {
        match self.result.as_deref() {
            Some("machine" | "fax_detected" | "beep_detected" | "ended") => Detection::Machine,
            Some(
                "human" | "human_residence" | "human_business" | "silence" | "not_sure" | "no_beep_detected"
                | "prompt_ended" | "screening",
            )
            | None => Detection::NoMachine,
            Some(_) => Detection::Unknown,
        }
    }

    /// True if an assistant talked in this call.
    pub(super) fn has_conversation(&self) -> bool {
        self.duration_sec.is_some()
    }

    /// The person's decision, from the insights of the conversation. A result is a text, which holds a JSON object if the
    /// insight has a schema.
    pub(super) fn decision(&self) -> Option<UserDecision> {
        let entries = self.conversation_insights.as_ref()?.as_array()?.iter();
        let insights = entries.filter_map(|entry| entry.get("conversation_insights")?.as_array()).flatten();
        let results = insights.filter_map(|insight| insight.get("result")?.as_str());
        let data = results.filter_map(|result| lenient::from_body::<CustomData>(result.as_bytes()).ok());
        data.filter_map(|data| data.decision()).next()
    }
}

/// Result of a machine detection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detection {
    /// A voicemail or a fax.
    Machine,
    /// A person, a phone that screens the call, or no certain result.
    NoMachine,
    /// Future names.
    Unknown,
}

fn time(text: &Option<String>) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(text.as_deref()?)
}

/// Type of an event. Telnyx has none for ringing.
#[derive(Clone, Copy)]
pub(super) enum EventType {
    Initiated,
    Answered,
    Hangup,
    /// Detection of a machine, of the end of its greeting, or of a phone that screens the call.
    MachineDetection,
    /// Analysis of a conversation with an assistant, after the end of the call.
    Analyzed,
    /// Bridges, recordings, keys, speech, queues, conferences, payments: they do not change a call.
    Ignored,
    /// Future names.
    Other,
}

/// Beginnings of the names of events that do not change a call. Telnyx adds events to these families, which are about what
/// happens during a call. `call.machine` is not among them, because a new event of it may say who answered.
///
/// The families `call.left_queue` and `call.siprec` are not verified: Telnyx's packages name no event of them, but `call.dequeued`
/// and `siprec`.
const FAMILIES_WITHOUT_STATE: [&str; 24] = [
    "call.ai_gather",
    "call.bridged",
    "call.conversation",
    "call.conversation_insights",
    "call.cost",
    "call.deepfake_detection",
    "call.dequeued",
    "call.dtmf",
    "call.enqueued",
    "call.fork",
    "call.gather",
    "call.hold",
    "call.left_queue",
    "call.payment",
    "call.playback",
    "call.recording",
    "call.refer",
    "call.siprec",
    "call.speak",
    "call.transcription",
    "call.unhold",
    "conference",
    "siprec",
    "streaming",
];

impl EventType {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "call.initiated" => Self::Initiated,
            "call.answered" => Self::Answered,
            "call.hangup" => Self::Hangup,
            "call.machine.detection.ended"
            | "call.machine.greeting.ended"
            | "call.machine.premium.detection.ended"
            | "call.machine.premium.greeting.ended"
            | "call.machine.premium.call_screening.detected" => Self::MachineDetection,
            "call.analyzed" => Self::Analyzed,
            // Telnyx's example of it has no `call_control_id`, so it may not say which attempt was answered.
            "call.machine.premium.detection.started" => Self::Ignored,
            _ if FAMILIES_WITHOUT_STATE.iter().any(|family| is_of_family(name, family)) => Self::Ignored,
            _ => Self::Other,
        }
    }
}

/// True if the name is the name of the family, or continues it after a dot.
fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Incoming,
    Outgoing,
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HangupCause {
    CallRejected,
    NormalClearing,
    OriginatorCancel,
    Timeout,
    TimeLimit,
    UserBusy,
    NotFound,
    NoAnswer,
    Unspecified,
    /// Future names.
    #[serde(other)]
    Other,
}
