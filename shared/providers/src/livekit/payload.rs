//! LiveKit's names: the fields of a webhook. LiveKit writes them as protobuf does in JSON: a number of 64 bits is a text, and a field
//! with its default value is left out. An enum is a name, and may be a number.

use serde::Deserialize;
use switchhook_domain::Timestamp;

use crate::correlation::EchoedIds;
use crate::lenient;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Webhook {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event: Option<String>,
    /// Unix time in seconds.
    #[serde(deserialize_with = "lenient::millis")]
    created_at: Option<i64>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) participant: Option<Participant>,
}

impl Webhook {
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        from_seconds(self.created_at?)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Participant {
    #[serde(deserialize_with = "lenient::text")]
    kind: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    attributes: Option<Attributes>,
    #[serde(deserialize_with = "lenient::text")]
    disconnect_reason: Option<String>,
    /// Unix time in seconds.
    #[serde(deserialize_with = "lenient::millis")]
    joined_at: Option<i64>,
    #[serde(deserialize_with = "lenient::millis")]
    joined_at_ms: Option<i64>,
}

impl Participant {
    pub(super) fn kind(&self) -> Kind {
        Kind::from_name(self.kind.as_deref())
    }

    pub(super) fn disconnect_reason(&self) -> DisconnectReason {
        DisconnectReason::from_name(self.disconnect_reason.as_deref())
    }

    /// Time at which the participant joined the room. LiveKit dials from then on.
    pub(super) fn joined_at(&self) -> Option<Timestamp> {
        self.joined_at_ms.map(Timestamp::from_millis).or_else(|| from_seconds(self.joined_at?))
    }

    pub(super) fn into_attributes(self) -> Attributes {
        self.attributes.unwrap_or_default()
    }

    pub(super) fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_ref()
    }
}

/// Attributes of a participant: LiveKit's own, and those that the dial request gave it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Attributes {
    #[serde(rename = "sip.callID", deserialize_with = "lenient::text")]
    pub(super) call_id: Option<String>,
    #[serde(rename = "sip.callStatus", deserialize_with = "lenient::text")]
    call_status: Option<String>,
    /// Number of the person, in both directions.
    #[serde(rename = "sip.phoneNumber", deserialize_with = "lenient::text")]
    pub(super) phone_number: Option<String>,
    /// Own number, in both directions.
    #[serde(rename = "sip.trunkPhoneNumber", deserialize_with = "lenient::text")]
    pub(super) trunk_phone_number: Option<String>,
    /// Dispatch rule of an inbound call. No outbound call has one.
    #[serde(rename = "sip.ruleID", deserialize_with = "lenient::text")]
    pub(super) rule_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    switchhook_call_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    switchhook_attempt: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    appointment_id: Option<String>,
}

impl Attributes {
    pub(super) fn call_status(&self) -> CallStatus {
        CallStatus::from_name(self.call_status.as_deref())
    }

    pub(super) fn echoed_ids(&self) -> EchoedIds {
        EchoedIds {
            switchhook_call_id: self.switchhook_call_id.clone(),
            switchhook_attempt: self.switchhook_attempt.clone(),
            appointment_id: self.appointment_id.clone(),
        }
    }
}

/// Event of a webhook.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventName {
    ParticipantJoined,
    ParticipantLeft,
    /// The participant's connection to the room failed before it was complete.
    ParticipantConnectionAborted,
    /// Rooms, tracks, egress, ingress and jobs of agents: they do not change a call.
    Ignored,
    /// Future names.
    Other,
}

impl EventName {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "participant_joined" => Self::ParticipantJoined,
            "participant_left" => Self::ParticipantLeft,
            "participant_connection_aborted" => Self::ParticipantConnectionAborted,
            "room_started" | "room_finished" | "track_published" | "track_unpublished" | "egress_started"
            | "egress_updated" | "egress_ended" | "ingress_started" | "ingress_ended" | "agent_job_pending"
            | "agent_job_started" | "agent_job_ended" => Self::Ignored,
            _ => Self::Other,
        }
    }
}

/// Kind of a participant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sip,
    /// Programs, agents, and connections that are no telephone calls.
    Ignored,
    /// Future kinds.
    Other,
}

impl Kind {
    fn from_name(name: Option<&str>) -> Self {
        match name {
            Some("SIP" | "3") => Self::Sip,
            None
            | Some(
                "STANDARD" | "0" | "INGRESS" | "1" | "EGRESS" | "2" | "AGENT" | "4" | "CONNECTOR" | "7" | "BRIDGE"
                | "8",
            ) => Self::Ignored,
            Some(_) => Self::Other,
        }
    }
}

/// Status of a SIP call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStatus {
    Dialing,
    Ringing,
    /// Somebody answered, and LiveKit sends the digits of the dial request.
    Automation,
    /// Somebody answered.
    Active,
    /// One of the sides hung up. An outbound call that nobody answered keeps its earlier status.
    Hangup,
    Missing,
    /// Future names.
    Other,
}

impl CallStatus {
    fn from_name(name: Option<&str>) -> Self {
        match name {
            Some("dialing") => Self::Dialing,
            Some("ringing") => Self::Ringing,
            Some("automation") => Self::Automation,
            Some("active") => Self::Active,
            Some("hangup") => Self::Hangup,
            None => Self::Missing,
            Some(_) => Self::Other,
        }
    }
}

/// Reason why a participant left its room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// The person did not answer in time, or cannot be reached.
    UserUnavailable,
    /// The person or the network rejected the call.
    UserRejected,
    /// The SIP trunk failed.
    SipTrunkFailure,
    MediaFailure,
    /// The participant moves to another server, or another connection of the same participant replaced this one.
    Replaced,
    /// Every reason that says nothing about the call. LiveKit leaves out an unknown reason.
    Unspecific,
    /// Future names.
    Other,
}

impl DisconnectReason {
    fn from_name(name: Option<&str>) -> Self {
        match name {
            Some("USER_UNAVAILABLE" | "11") => Self::UserUnavailable,
            Some("USER_REJECTED" | "12") => Self::UserRejected,
            Some("SIP_TRUNK_FAILURE" | "13") => Self::SipTrunkFailure,
            Some("MEDIA_FAILURE" | "15") => Self::MediaFailure,
            Some("DUPLICATE_IDENTITY" | "2" | "MIGRATION" | "8") => Self::Replaced,
            None
            | Some(
                "UNKNOWN_REASON"
                | "0"
                | "CLIENT_INITIATED"
                | "1"
                | "SERVER_SHUTDOWN"
                | "3"
                | "PARTICIPANT_REMOVED"
                | "4"
                | "ROOM_DELETED"
                | "5"
                | "STATE_MISMATCH"
                | "6"
                | "JOIN_FAILURE"
                | "7"
                | "SIGNAL_CLOSE"
                | "9"
                | "ROOM_CLOSED"
                | "10"
                | "CONNECTION_TIMEOUT"
                | "14"
                | "AGENT_ERROR"
                | "16",
            ) => Self::Unspecific,
            Some(_) => Self::Other,
        }
    }
}

fn from_seconds(seconds: i64) -> Option<Timestamp> {
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}
