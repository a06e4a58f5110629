//! Retell's names. Envelope: `{"event": …, "call": {…}}`; `data` is an older name for `call`.

use serde::Deserialize;
use serde_json::Value;
use switchhook_domain::Direction;

use crate::correlation::EchoedIds;
use crate::lenient;
use crate::user_decision::CustomData;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Webhook {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) call: Option<Call>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) data: Option<Call>,
}

/// Type of a webhook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    CallStarted,
    CallEnded,
    CallAnalyzed,
    /// Transcripts, transfers, chats, and questions about inbound calls: they do not change a call.
    Ignored,
    /// Future names.
    Other,
}

impl Event {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "call_started" => Self::CallStarted,
            "call_ended" => Self::CallEnded,
            "call_analyzed" => Self::CallAnalyzed,
            "transcript_updated" | "transfer_started" | "transfer_bridged" | "transfer_cancelled"
            | "transfer_ended" | "chat_started" | "chat_ended" | "chat_analyzed" | "call_inbound" | "chat_inbound" => {
                Self::Ignored
            }
            _ => Self::Other,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_id: Option<String>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) call_type: Option<CallType>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) call_status: Option<CallStatus>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) direction: Option<Direction>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from_number: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to_number: Option<String>,
    #[serde(deserialize_with = "lenient::millis")]
    pub(super) start_timestamp: Option<i64>,
    #[serde(deserialize_with = "lenient::millis")]
    pub(super) end_timestamp: Option<i64>,
    #[serde(deserialize_with = "lenient::word")]
    pub(super) disconnection_reason: Option<DisconnectionReason>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) metadata: Option<EchoedIds>,
    /// Variables from the request that placed the call. (`collected_dynamic_variables` come from the conversation, so
    /// no id in them can be trusted.)
    #[serde(deserialize_with = "lenient::object")]
    pub(super) retell_llm_dynamic_variables: Option<EchoedIds>,
    /// The whole analysis, because its hash is part of the event id. So a second analysis of the same call is another
    /// event.
    pub(super) call_analysis: Option<Value>,
}

impl Call {
    /// The analysis as JSON text with sorted fields.
    pub(super) fn canonical_analysis(&self) -> Option<String> {
        let mut analysis = self.call_analysis.clone()?;
        analysis.sort_all_objects();
        Some(analysis.to_string())
    }

    pub(super) fn analysis(&self) -> CallAnalysis {
        self.call_analysis.clone().and_then(|analysis| lenient::object(analysis).ok().flatten()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallType {
    PhoneCall,
    /// Calls of web pages, and future types.
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallStatus {
    Registered,
    NotConnected,
    Ongoing,
    Ended,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DisconnectionReason {
    UserHangup,
    AgentHangup,
    /// The person asked not to be called again.
    UserRequestedDnc,
    UserRequestedCallback,
    CallTransfer,
    VoicemailReached,
    IvrReached,
    Inactivity,
    MaxDurationReached,
    ConcurrencyLimitReached,
    NoConcurrencyFallback,
    NoValidPayment,
    CreditExhausted,
    BudgetReached,
    ScamDetected,
    DialBusy,
    DialFailed,
    DialNoAnswer,
    InvalidDestination,
    TelephonyProviderPermissionDenied,
    TelephonyProviderUnavailable,
    SipRoutingError,
    MarkedAsSpam,
    NetworkBlocked,
    UserDeclined,
    ErrorLlmWebsocketOpen,
    ErrorLlmWebsocketLostConnection,
    ErrorLlmWebsocketRuntime,
    ErrorLlmWebsocketCorruptPayload,
    ErrorNoAudioReceived,
    ErrorAsr,
    ErrorRetell,
    ErrorUnknown,
    ErrorUserNotJoined,
    RegisteredCallTimeout,
    TransferBridged,
    TransferCancelled,
    ManualStopped,
    CallTakeOver,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallAnalysis {
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) in_voicemail: Option<bool>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) custom_analysis_data: Option<CustomData>,
}
