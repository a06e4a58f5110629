//! ElevenLabs' names. Envelope: `{"type": …, "event_timestamp": <unix s>, "data": {…}}`. The data of
//! `post_call_transcription` is the whole conversation, as the API shows it.

use serde::Deserialize;
use serde_json::{Map, Value};
use switchhook_domain::{Direction, Timestamp};

use crate::correlation::EchoedIds;
use crate::lenient;
use crate::user_decision::{CustomData, UserDecision};

/// Name of a field that ElevenLabs does not send: it marks a record of the API, which was looked up and is written as a webhook.
pub(super) const LOOKED_UP: &str = "looked_up";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Webhook {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) event_type: Option<String>,
    /// Unix seconds. Every webhook has it.
    #[serde(deserialize_with = "lenient::millis")]
    event_timestamp: Option<i64>,
    /// [`LOOKED_UP`].
    #[serde(deserialize_with = "lenient::flag")]
    looked_up: Option<bool>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) data: Option<Conversation>,
}

impl Webhook {
    /// True if this is a record of the API, which was looked up. Such a record has no time of its own.
    pub(super) fn is_record(&self) -> bool {
        self.looked_up == Some(true)
    }

    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        from_seconds(self.event_timestamp?)
    }
}

/// Type of a webhook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    PostCallTranscription,
    CallInitiationFailure,
    /// Recordings, and notices about voices: they do not change a call.
    Ignored,
    /// Future types, and those that ElevenLabs does not document, for example the type of its answering-machine detection.
    Other,
}

impl Event {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "post_call_transcription" => Self::PostCallTranscription,
            "call_initiation_failure" => Self::CallInitiationFailure,
            "post_call_audio" | "voice_removal_notice" | "voice_removal_notice_withdrawn" | "voice_removed" => {
                Self::Ignored
            }
            _ => Self::Other,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Conversation {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) conversation_id: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) status: Option<Status>,
    /// Reason of `call_initiation_failure`.
    #[serde(deserialize_with = "lenient::word")]
    pub(super) failure_reason: Option<FailureReason>,
    #[serde(deserialize_with = "lenient::object")]
    metadata: Option<Metadata>,
    #[serde(deserialize_with = "lenient::object")]
    conversation_initiation_client_data: Option<ClientData>,
    /// The whole analysis, because its hash is part of the event id. So a second analysis of the same conversation is another
    /// event.
    analysis: Option<Value>,
}

impl Conversation {
    /// The analysis as JSON text with sorted fields.
    pub(super) fn canonical_analysis(&self) -> Option<String> {
        let mut analysis = self.analysis.clone().filter(|analysis| !analysis.is_null())?;
        analysis.sort_all_objects();
        Some(analysis.to_string())
    }

    /// The person's decision, from the collected data. Each item has the value and the reason for it.
    pub(super) fn decision(&self) -> Option<UserDecision> {
        let items = self.analysis.as_ref()?.get("data_collection_results")?.as_object()?;
        let values = items.iter().filter_map(|(id, item)| Some((id.clone(), item.get("value")?.clone())));
        let data: Option<CustomData> = lenient::object(Value::Object(values.collect::<Map<_, _>>())).ok().flatten();
        data?.decision()
    }

    /// Our ids. The request that placed the call set them.
    pub(super) fn echoed_ids(&self) -> EchoedIds {
        let client_data = self.conversation_initiation_client_data.as_ref();
        client_data.and_then(|data| data.dynamic_variables.clone()).unwrap_or_default()
    }

    /// False for a conversation that is no call.
    pub(super) fn is_call(&self) -> bool {
        self.metadata.as_ref().is_none_or(Metadata::is_call)
    }

    pub(super) fn phone_call(&self) -> Option<&PhoneCall> {
        self.metadata.as_ref()?.phone_call.as_ref()
    }

    /// True if the conversation began as a phone call, by its own words. A client of ElevenLabs may name any source.
    pub(super) fn began_by_phone(&self) -> bool {
        let source = self.metadata.as_ref().and_then(|metadata| metadata.conversation_initiation_source.as_deref());
        matches!(source, Some("twilio" | "sip_trunk"))
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        from_seconds(self.metadata.as_ref()?.start_time_unix_secs?)
    }

    /// Length of the conversation. `None` if ElevenLabs does not state it.
    pub(super) fn seconds(&self) -> Option<i64> {
        let text = self.metadata.as_ref()?.call_duration_secs.as_deref()?;
        text.parse().ok().filter(|seconds| *seconds >= 0)
    }

    /// True if the agent's tool for it found out that a machine had answered. See `FeaturesUsageCommonModel` in the SDK `elevenlabs` 2.78.0.
    pub(super) fn found_voicemail(&self) -> bool {
        let usage = self.metadata.as_ref().and_then(|metadata| metadata.features_usage.as_ref());
        usage.and_then(|usage| usage.voicemail_detection.as_ref()).and_then(|detection| detection.used) == Some(true)
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        let started_at = self.started_at()?.as_millis();
        Some(Timestamp::from_millis(started_at.saturating_add(self.seconds()?.saturating_mul(1000))))
    }
}

/// Sources of conversations that are no calls: text channels, the widget of a web page, and the tools of ElevenLabs itself. WhatsApp has
/// calls too, so only `text_only` tells there.
const SOURCES_WITHOUT_CALLS: [&str; 11] = [
    "freshdesk_integration",
    "genesys_bot_connector",
    "intercom_integration",
    "salesforce_integration",
    "slack_integration",
    "subagent_tool",
    "telegram_integration",
    "template_preview",
    "twilio_sms",
    "widget",
    "zendesk_integration",
];

/// True if conversations that began at this source may be calls. A source that ElevenLabs adds may be one.
pub(super) fn may_be_call(source: &str) -> bool {
    !SOURCES_WITHOUT_CALLS.contains(&source)
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    #[serde(deserialize_with = "lenient::millis")]
    start_time_unix_secs: Option<i64>,
    /// Text, because zero is a meaningful length.
    #[serde(deserialize_with = "lenient::text")]
    call_duration_secs: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    phone_call: Option<PhoneCall>,
    #[serde(deserialize_with = "lenient::flag")]
    text_only: Option<bool>,
    #[serde(deserialize_with = "lenient::text")]
    conversation_initiation_source: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    features_usage: Option<FeaturesUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FeaturesUsage {
    #[serde(deserialize_with = "lenient::object")]
    voicemail_detection: Option<FeatureUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FeatureUsage {
    #[serde(deserialize_with = "lenient::flag")]
    used: Option<bool>,
}

impl Metadata {
    /// False for a conversation that is no call.
    pub(super) fn is_call(&self) -> bool {
        let source = self.conversation_initiation_source.as_deref();
        self.phone_call.is_some() || (self.text_only != Some(true) && source.is_none_or(may_be_call))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClientData {
    #[serde(deserialize_with = "lenient::object")]
    dynamic_variables: Option<EchoedIds>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PhoneCall {
    #[serde(deserialize_with = "lenient::word")]
    pub(super) direction: Option<Direction>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) agent_number: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) external_number: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) call_result: Option<CallResult>,
}

/// Status of a conversation, in a webhook and in a response of the API.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    Initiated,
    InProgress,
    /// The conversation is over, and its analysis is not made yet.
    Processing,
    Done,
    Failed,
    #[serde(other)]
    Other,
}

/// Result of the phone call, as the carrier reported it to ElevenLabs.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallResult {
    Answered,
    Voicemail,
    Busy,
    NoAnswer,
    Failed,
    #[serde(other)]
    Other,
}

/// Reason why a call never became a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FailureReason {
    Busy,
    NoAnswer,
    Unknown,
    #[serde(other)]
    Other,
}

fn from_seconds(seconds: i64) -> Option<Timestamp> {
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}
