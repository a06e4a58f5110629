//! Daily's names: the fields of an event.

use serde::Deserialize;
use switchhook_domain::Timestamp;

use crate::lenient;
use crate::webhook::parse_unix_seconds;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub(super) event_type: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) payload: Option<Payload>,
    /// Only field of the body that Daily sends to try the URL of a webhook. Its value is `test`.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) test: Option<String>,
}

/// Payload of an event about a phone in a room. The other events have other fields, too.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload {
    /// Id of the phone's stay in the room. It is the call.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) session_id: Option<String>,
    /// Id that the caller of the API gave to a dial-out.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) user_id: Option<String>,
    /// Time of the event in seconds, as a number or as a text.
    #[serde(deserialize_with = "lenient::text")]
    timestamp: Option<String>,
    /// Number or SIP address that is called.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) destination: Option<String>,
    /// Number or SIP address that calls. Only Daily's examples have it.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) origin: Option<String>,
    /// SIP address of somebody who calls in.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) sip_from: Option<String>,
}

impl Payload {
    pub(super) fn occurred_at(&self) -> Option<Timestamp> {
        parse_unix_seconds(self.timestamp.as_deref()?)
    }

    /// Text of the timestamp, as Daily wrote it.
    pub(super) fn timestamp(&self) -> Option<&str> {
        self.timestamp.as_deref()
    }
}

/// Type of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    /// The phone rings.
    DialOutConnected,
    DialOutAnswered,
    DialOutStopped,
    DialOutError,
    /// The phone of the caller is in the room.
    DialInConnected,
    DialInStopped,
    DialInError,
    /// A warning about a call, or its transfer: it changes nothing.
    NoChange,
    /// About a room, a recording or something else, and not about a call.
    NoCall,
    /// Future names.
    Other,
}

/// First parts of the names of events that are about no call.
const FAMILIES_WITHOUT_CALLS: [&str; 7] =
    ["meeting", "participant", "waiting-participant", "recording", "transcript", "streaming", "batch-processor"];

impl EventType {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "dialout.connected" => Self::DialOutConnected,
            "dialout.answered" => Self::DialOutAnswered,
            "dialout.stopped" => Self::DialOutStopped,
            "dialout.error" => Self::DialOutError,
            "dialin.connected" => Self::DialInConnected,
            "dialin.stopped" => Self::DialInStopped,
            "dialin.error" => Self::DialInError,
            "dialout.warning" | "dialin.warning" | "calltransfer.triggered" | "calltransfer.answered" => Self::NoChange,
            // The room can take a call now.
            "dialin.ready" => Self::NoCall,
            _ => match name.split_once('.') {
                Some((family, _)) if FAMILIES_WITHOUT_CALLS.contains(&family) => Self::NoCall,
                Some(_) | None => Self::Other,
            },
        }
    }
}
