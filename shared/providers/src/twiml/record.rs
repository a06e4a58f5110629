//! The record of a call in the API.

use serde_json::{Map, Value};
use switchhook_domain::Timestamp;

use super::payload::CallStatus;
use crate::api::text;
use crate::ids::bounded;
use crate::lookup::ParsedAnswer;
use crate::times::parse_rfc2822;

/// Time at which the call was created. `None` if the record has none that can be read. Twilio shows none while the call waits in its queue, so
/// the time may be long after the dial.
pub(crate) fn created_at(call: &Map<String, Value>) -> Option<Timestamp> {
    text(call, "date_created").or_else(|| text(call, "start_time")).and_then(parse_rfc2822)
}

/// Reads a call. `ids` is the query of the callback that would report its ending.
pub(crate) fn parse_call(ids: String, call: &Map<String, Value>) -> ParsedAnswer {
    let (Some(call_sid), Some(status)) = (text(call, "sid"), text(call, "status")) else {
        return ParsedAnswer::Unreadable;
    };
    match CallStatus::from_name(status) {
        CallStatus::Queued | CallStatus::Initiated | CallStatus::Ringing | CallStatus::InProgress => {
            ParsedAnswer::Alive { provider_call_id: bounded("", call_sid) }
        }
        CallStatus::Completed | CallStatus::Busy | CallStatus::NoAnswer | CallStatus::Failed | CallStatus::Canceled => {
            ParsedAnswer::Ended { others: Vec::new(), query: ids, body: callback(call).into_bytes() }
        }
        CallStatus::Other => ParsedAnswer::UnknownValue("status"),
    }
}

/// Status callback that reports the same ending as the API. The event id contains a hash of these bytes, so they
/// contain only fields that never change after the call. The provider's own callbacks have a sequence number, but the
/// API does not return it.
fn callback(call: &Map<String, Value>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, field) in [
        ("CallSid", "sid"),
        ("ParentCallSid", "parent_call_sid"),
        ("CallStatus", "status"),
        ("Direction", "direction"),
        ("From", "from"),
        ("To", "to"),
        ("AnsweredBy", "answered_by"),
    ] {
        if let Some(value) = text(call, field) {
            form.append_pair(name, value);
        }
    }
    if let Some(ended_at) = text(call, "end_time").filter(|text| parse_rfc2822(text).is_some()) {
        form.append_pair("Timestamp", ended_at);
    }
    form.finish()
}
