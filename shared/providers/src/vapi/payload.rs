//! Vapi's names. Envelope: `{"message": {"type": …, "call": {…}, …}}`. Some facts are in the message, in its call, or
//! in both.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchhook_domain::{NeverDialled, Timestamp};

use crate::correlation::EchoedIds;
use crate::ending::Ending;
use crate::lenient;
use crate::user_decision::{CustomData, UserDecision};

/// Name of a field that Vapi does not send: it marks the answer to a lookup, which is written as a message.
pub(super) const LOOKED_UP: &str = "lookedUp";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Webhook {
    #[serde(deserialize_with = "lenient::object")]
    pub(super) message: Option<Message>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Message {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) event_type: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) status: Option<String>,
    #[serde(deserialize_with = "lenient::millis")]
    timestamp: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    ended_reason: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    started_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    ended_at: Option<String>,
    /// [`LOOKED_UP`].
    #[serde(deserialize_with = "lenient::text")]
    looked_up: Option<String>,
    /// The whole analysis, because its hash is part of the event id. So another result for the same call is another event.
    #[serde(deserialize_with = "lenient::object")]
    analysis: Option<Map<String, Value>>,
    #[serde(deserialize_with = "lenient::object")]
    artifact: Option<Artifact>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) call: Option<Call>,
    #[serde(deserialize_with = "lenient::object")]
    assistant: Option<Assistant>,
    #[serde(deserialize_with = "lenient::object")]
    customer: Option<Party>,
    #[serde(deserialize_with = "lenient::object")]
    phone_number: Option<Party>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Call {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(rename = "type", deserialize_with = "lenient::word")]
    pub(super) call_type: Option<CallType>,
    #[serde(deserialize_with = "lenient::text")]
    ended_reason: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    started_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    ended_at: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    analysis: Option<Map<String, Value>>,
    #[serde(deserialize_with = "lenient::object")]
    artifact: Option<Artifact>,
    #[serde(deserialize_with = "lenient::object")]
    metadata: Option<EchoedIds>,
    #[serde(deserialize_with = "lenient::object")]
    assistant_overrides: Option<Assistant>,
    #[serde(deserialize_with = "lenient::object")]
    assistant: Option<Assistant>,
    #[serde(deserialize_with = "lenient::object")]
    customer: Option<Party>,
    #[serde(deserialize_with = "lenient::object")]
    phone_number: Option<Party>,
}

/// An assistant, or its overrides for one call.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Assistant {
    #[serde(deserialize_with = "lenient::object")]
    metadata: Option<EchoedIds>,
    #[serde(deserialize_with = "lenient::object")]
    variable_values: Option<EchoedIds>,
}

impl Assistant {
    fn echoed_ids(&self, is_inbound: bool) -> EchoedIds {
        let variables = self.variable_values.clone().filter(|_| !is_inbound).unwrap_or_default();
        self.metadata.clone().unwrap_or_default().or(variables)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Party {
    #[serde(deserialize_with = "lenient::text")]
    number: Option<String>,
    /// Address of a party that has no number.
    #[serde(rename = "sipUri", deserialize_with = "lenient::text")]
    sip_uri: Option<String>,
}

impl Party {
    fn address(&self) -> Option<String> {
        self.number.clone().or_else(|| self.sip_uri.clone())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Artifact {
    /// Results of the structured outputs, by the id of the output.
    #[serde(deserialize_with = "lenient::object")]
    structured_outputs: Option<BTreeMap<String, Value>>,
}

impl Artifact {
    /// Decision in the results. A result is an object with our fields, or the value of one field that names the output.
    fn decision(&self) -> Option<UserDecision> {
        let outputs = self.structured_outputs.iter().flat_map(BTreeMap::values).filter_map(Value::as_object);
        let mut fields = Map::new();
        for output in outputs {
            match (output.get("result"), output.get("name").and_then(Value::as_str)) {
                (Some(Value::Object(result)), _) => fields.extend(result.clone()),
                (Some(result), Some(name)) => {
                    fields.insert(name.to_owned(), result.clone());
                }
                (_, _) => {}
            }
        }
        let data: Option<CustomData> = lenient::object(Value::Object(fields)).ok().flatten();
        data?.decision()
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CallType {
    InboundPhoneCall,
    OutboundPhoneCall,
    /// Calls of web pages and of programs, and future types.
    #[serde(other)]
    Other,
}

impl Message {
    /// Time at which Vapi made the message.
    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        self.timestamp.map(Timestamp::from_millis)
    }

    pub(super) fn ended_reason(&self) -> Option<&str> {
        self.ended_reason.as_deref().or(self.call.as_ref()?.ended_reason.as_deref())
    }

    /// True if the message is the answer to a lookup.
    pub(super) const fn is_looked_up(&self) -> bool {
        self.looked_up.is_some()
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        time(&self.started_at).or_else(|| time(&self.call.as_ref()?.started_at))
    }

    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        time(&self.ended_at).or_else(|| time(&self.call.as_ref()?.ended_at))
    }

    /// The person's decision, from the structured outputs or from the analysis.
    pub(super) fn decision(&self) -> Option<UserDecision> {
        let of_analysis = |analysis: &Map<String, Value>| {
            let data = analysis.get("structuredData")?.clone();
            lenient::object::<_, CustomData>(data).ok().flatten()?.decision()
        };
        let from_outputs = self.artifacts().find_map(Artifact::decision);
        from_outputs.or_else(|| self.analyses().find_map(of_analysis))
    }

    /// The analysis and the structured outputs as JSON text with sorted fields. `None` if Vapi has no result yet.
    pub(super) fn canonical_result(&self) -> Option<String> {
        let analysis = self.analyses().find(|analysis| !analysis.is_empty());
        let outputs = self
            .artifacts()
            .filter_map(|artifact| artifact.structured_outputs.as_ref())
            .find(|outputs| !outputs.is_empty());
        if analysis.is_none() && outputs.is_none() {
            return None;
        }
        let mut result = json!({"analysis": analysis, "structuredOutputs": outputs});
        result.sort_all_objects();
        Some(result.to_string())
    }

    /// Analyses of the message and of its call.
    fn analyses(&self) -> impl Iterator<Item = &Map<String, Value>> {
        let of_call = self.call.as_ref().and_then(|call| call.analysis.as_ref());
        self.analysis.iter().chain(of_call)
    }

    /// Artifacts of the message and of its call.
    fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let of_call = self.call.as_ref().and_then(|call| call.artifact.as_ref());
        self.artifact.iter().chain(of_call)
    }

    /// Ids from the call first. Those of the assistant come last, because they are the same for all its calls. The variables of an inbound
    /// call are left out: Vapi fills them from SIP headers, which the caller chooses.
    pub(super) fn echoed_ids(&self) -> EchoedIds {
        let call_type = self.call.as_ref().and_then(|call| call.call_type);
        let is_inbound = matches!(call_type, Some(CallType::InboundPhoneCall));
        let mut ids = EchoedIds::default();
        if let Some(call) = &self.call {
            ids = ids.or(call.metadata.clone().unwrap_or_default());
            for assistant in [&call.assistant_overrides, &call.assistant].into_iter().flatten() {
                ids = ids.or(assistant.echoed_ids(is_inbound));
            }
        }
        match &self.assistant {
            Some(assistant) => ids.or(assistant.echoed_ids(is_inbound)),
            None => ids,
        }
    }

    pub(super) fn customer_number(&self) -> Option<String> {
        let of_call = || self.call.as_ref()?.customer.as_ref();
        self.customer.as_ref().or_else(of_call)?.address()
    }

    pub(super) fn our_number(&self) -> Option<String> {
        let of_call = || self.call.as_ref()?.phone_number.as_ref();
        self.phone_number.as_ref().or_else(of_call)?.address()
    }
}

fn time(text: &Option<String>) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(text.as_deref()?)
}

/// Types of messages that do not change a call, but for the families of [`FAMILIES_WITHOUT_STATE`].
const TYPES_WITHOUT_STATE: [&str; 25] = [
    "assistant-request",
    "call.artifact.upload",
    "call.delete.failed",
    "call.deleted",
    "call.endpointing.request",
    "campaign.predial",
    "conversation-update",
    "function-call",
    "handoff-destination-request",
    "hang",
    "knowledge-base-request",
    "language-change-detected",
    "language-changed",
    "model-output",
    "phone-call-control",
    "speech-update",
    "tool-calls",
    "tool-calls-result",
    "transcript",
    "transfer-destination-request",
    "transfer-update",
    "user-interrupted",
    "voice-input",
    "voice-request",
    "workflow.node.started",
];
/// Beginnings of the types of messages about chats, sessions, and the speech of an assistant.
const FAMILIES_WITHOUT_STATE: [&str; 4] = ["assistant.", "chat.", "session.", "transcript["];

/// True if Switchhook knows the type of a message.
pub(super) fn is_known_type(message_type: &str) -> bool {
    ["status-update", "end-of-call-report"].contains(&message_type)
        || TYPES_WITHOUT_STATE.contains(&message_type)
        || FAMILIES_WITHOUT_STATE.iter().any(|family| message_type.starts_with(family))
}

/// Status of a call, in a `status-update` and in a response of the API.
#[derive(Clone, Copy)]
pub(super) enum CallStatus {
    /// Planned for later. The call has not started.
    Scheduled,
    Queued,
    Ringing,
    InProgress,
    Forwarding,
    Ended,
    /// The API has no such call, or could not delete it.
    NotFound,
    /// Future names.
    Other,
}

impl CallStatus {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "scheduled" => Self::Scheduled,
            "queued" => Self::Queued,
            "ringing" => Self::Ringing,
            "in-progress" => Self::InProgress,
            "forwarding" => Self::Forwarding,
            "ended" => Self::Ended,
            "not-found" | "deletion-failed" => Self::NotFound,
            _ => Self::Other,
        }
    }
}

/// Meaning of the hundreds of reasons for which a Vapi call ends. The list grows, so reasons that are not named here
/// are classified by their prefix.
#[derive(Clone, Copy)]
pub(super) enum EndedReason {
    /// A person answered.
    Conversation,
    Voicemail,
    Busy,
    NoAnswer,
    /// The caller hung up before anybody answered.
    CallerHungUp,
    /// The caller stopped the call through the API, before the answer or after it.
    Stopped,
    /// Vapi accepted the call, and then dialled nobody.
    NeverDialled(NeverDialled),
    /// The call never reached the person.
    NeverConnected,
    /// The dial ended so. Or the person answered, and a transfer or the connection ended so: Vapi names most errors of a dial for
    /// transfers and conversations too (<https://docs.vapi.ai/calls/troubleshoot-call-errors>, "Transfer failed" and "Call dropped
    /// mid-conversation").
    DialOrTransfer(Ending),
    /// The number does not exist, or this account may not call it. A retry cannot help.
    WrongNumber,
    /// A fault that occurs before the answer as well as after it.
    Fault,
    /// The assistant is missing or not valid. Before the start of the call, this is a problem of the account, and nobody
    /// was dialled. A start proves nothing: Vapi documents these reasons for a phone that never rang, with a duration that is
    /// zero or nearly zero.
    NoAssistant,
    /// The trunk rejected the credentials of the account, so nobody was dialled. After the start of the call, it rejected something
    /// else: for example, a transfer.
    TrunkRefused,
    /// The call is over, and the reason does not say whether anybody answered.
    Unclear,
    /// Future names, which are read as [`EndedReason::Unclear`].
    Unknown,
}

impl EndedReason {
    pub(super) fn from_name(reason: &str) -> Self {
        match reason {
            "assistant-forwarded-call"
            | "assistant-said-end-call-phrase"
            | "call.in-progress.sip-completed-call"
            | "call.in-progress.twilio-completed-call"
            | "exceeded-max-duration"
            | "silence-timed-out" => Self::Conversation,
            "voicemail" => Self::Voicemail,
            // Vonage reports "rejected" if the person rejects the call.
            "vonage-rejected" => Self::DialOrTransfer(Ending::BUSY),
            "customer-busy" => Self::Busy,
            "customer-did-not-answer" => Self::NoAnswer,
            "call.ringing.sip-inbound-caller-hungup-before-call-connect" => Self::CallerHungUp,
            "manually-canceled" | "call-deleted" | "scheduled-call-deleted" => Self::Stopped,
            "customer-did-not-give-microphone-permission"
            | "phone-call-provider-bypass-enabled-but-no-call-received" => Self::NeverConnected,
            // Vapi documents the first one for a phone that never rang, although it names a call in progress.
            "call.in-progress.error-vapifault-worker-not-available"
            | "twilio-failed-to-connect-call"
            | "vonage-failed-to-connect-call" => Self::DialOrTransfer(Ending::FAILED),
            "twilio-reported-customer-misdialed" | "sip-outbound-unallocated-number" => Self::WrongNumber,
            "assistant-not-found" | "assistant-not-valid" => Self::NoAssistant,
            "assistant-join-timed-out"
            | "phone-call-provider-closed-websocket"
            | "sip-outbound-carrier-released-call"
            | "worker-shutdown" => Self::Fault,
            // The call was to be forwarded to a number instead of an assistant. Nothing says whether that number
            // answered.
            "assistant-request-returned-forwarding-phone-number" | "vonage-completed" | "vonage-disconnected" => {
                Self::Unclear
            }
            _ => Self::by_pattern(reason),
        }
    }

    fn by_pattern(reason: &str) -> Self {
        let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| reason.starts_with(prefix));
        if starts_with(&[
            "assistant-ended-call",
            "customer-ended-call",
            "call.ending.hook-executed-",
            // The call was answered, and the person to whom it was forwarded was not reached.
            "call.forwarding.",
        ]) {
            Self::Conversation
        } else if let Some((_, status)) = reason.split_once("-outbound-sip-") {
            Self::by_sip_status(status)
        } else if starts_with(&["call.start.", "call-start-error-"]) {
            Self::NeverDialled(Self::start_error(reason))
        } else if starts_with(&["call.ringing.error-"]) || reason.ends_with("bound-call-failed-to-connect") {
            Self::NeverConnected
        } else if reason.ends_with("-transport-never-connected") {
            // Vapi documents it for a phone that never rang, and for a conversation whose connection the provider lost.
            Self::DialOrTransfer(Ending::FAILED)
        } else if starts_with(&["assistant-request-"]) {
            Self::NoAssistant
        } else if starts_with(&["call.in-progress.error-", "pipeline-error-"]) {
            Self::Fault
        } else if starts_with(&["call.ringing.hook-executed-"]) {
            Self::Unclear
        } else {
            Self::Unknown
        }
    }

    /// Meaning of an error at the start of a call. A name does not always tell whether every call meets the error.
    fn start_error(reason: &str) -> NeverDialled {
        match reason.strip_prefix("call.start.error-") {
            Some("subscription-concurrency-limit-reached") => NeverDialled::Capacity,
            Some("vapi-number-outbound-daily-limit") => NeverDialled::Account,
            Some(error) if error.starts_with("subscription-") || error.starts_with("enterprise-feature-") => {
                NeverDialled::Account
            }
            Some(_) | None => NeverDialled::Unclear,
        }
    }

    /// Meaning of the SIP status with which the called side rejected the call, for example `486-busy-here`.
    fn by_sip_status(status: &str) -> Self {
        match status.get(..3) {
            Some("404" | "484" | "604") => Self::DialOrTransfer(Ending::FAILED_PERMANENTLY),
            Some("486" | "600" | "603") => Self::DialOrTransfer(Ending::BUSY),
            Some("401" | "407") => Self::TrunkRefused,
            // The phone rang, and nobody answered.
            Some("408" | "480") => Self::DialOrTransfer(Ending::NO_ANSWER),
            Some(_) | None => Self::DialOrTransfer(Ending::FAILED),
        }
    }
}
