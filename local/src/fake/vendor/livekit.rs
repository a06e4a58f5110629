//! LiveKit: `livekit.SIP/CreateSIPParticipant`, and `livekit.RoomService/ListParticipants` of a room.

use serde_json::{Map, Value, json};

use super::{Order, Request, Webhook};
use crate::fake::behaviour::Ending;
use crate::fake::call::FakeCall;
use crate::fake::response::{ApiResponse, respond};
use crate::fake::state::State;

const DIAL_PATH: &str = "/twirp/livekit.SIP/CreateSIPParticipant";
const LIST_PATH: &str = "/twirp/livekit.RoomService/ListParticipants";

pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    if (request.method, request.path) != ("POST", DIAL_PATH) {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    Some(Order {
        provider: request.provider,
        from: body["sip_number"].clone(),
        to: body["sip_call_to"].clone(),
        metadata: body["participant_attributes"].clone(),
        idempotency_key: None,
        echoed: json!({
            "room": body["room_name"], "identity": body["participant_identity"], "trunk": body["sip_trunk_id"],
        }),
    })
}

pub(super) fn dialled(call: &FakeCall, id: &str) -> Value {
    json!({
        "participant_id": sid(id), "participant_identity": call.echoed["identity"], "room_name": call.echoed["room"],
        "sip_call_id": id,
    })
}

/// Lists the participants of a room. Those of calls that are over have left it.
pub(super) fn answer(state: &mut State, request: &Request<'_>, now: i64) -> Option<ApiResponse> {
    if (request.method, request.path) != ("POST", LIST_PATH) {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let mut known = state.known(request.provider, now);
    known.retain(|(_, call)| call.echoed["room"] == body["room"] && now < call.ended_ms);
    let participants: Vec<Value> = known
        .into_iter()
        .map(|(id, call)| {
            let status = match (call.answered_by(now), call.rings_by(now)) {
                (Some(_), _) => "active",
                (None, true) => "ringing",
                (None, false) => "dialing",
            };
            json!({
                "sid": sid(id), "identity": call.echoed["identity"], "state": "ACTIVE", "kind": "SIP",
                "attributes": attributes(call, id, status), "joined_at": seconds(call.created_ms),
            })
        })
        .collect();
    Some(respond(200, &json!({"participants": participants})))
}

/// LiveKit reports neither the ringing nor the answer. The participant joins while LiveKit dials, and its last status says the rest.
pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    let webhook = |event: &'static str, at: i64, status: &str, more: Value| {
        let mut participant = json!({
            "sid": sid(id), "identity": call.echoed["identity"], "state": "ACTIVE", "kind": "SIP",
            "attributes": attributes(call, id, status), "joinedAt": seconds(call.created_ms),
            "joinedAtMs": call.created_ms.to_string(),
        });
        if let (Value::Object(participant), Value::Object(more)) = (&mut participant, more) {
            participant.extend(more);
        }
        let room = json!({"sid": format!("RM_{id}"), "name": call.echoed["room"]});
        let body = json!({
            "event": event, "room": room, "participant": participant, "id": format!("EV_{event}_{id}"),
            "createdAt": seconds(at),
        });
        Webhook { event, at, body: body.to_string() }
    };
    let before_answer = if call.rang_ms().is_some() { "ringing" } else { "dialing" };
    let (status, reason) = match call.behaviour.ending() {
        Ending::Conversation | Ending::Voicemail if call.answered_ms.is_some() => ("hangup", "CLIENT_INITIATED"),
        Ending::Busy => (before_answer, "USER_REJECTED"),
        Ending::NoAnswer | Ending::WrongNumber => (before_answer, "USER_UNAVAILABLE"),
        Ending::Conversation | Ending::Voicemail | Ending::Failed => (before_answer, "SIP_TRUNK_FAILURE"),
    };
    let left = json!({"state": "DISCONNECTED", "disconnectReason": reason});
    vec![
        webhook("participant_joined", call.created_ms, "dialing", Value::Null),
        webhook("participant_left", call.ended_ms, status, left),
    ]
}

/// The attributes of the dial request, and LiveKit's own.
fn attributes(call: &FakeCall, id: &str, status: &str) -> Map<String, Value> {
    let mut attributes = call.metadata.as_object().cloned().unwrap_or_default();
    for (name, value) in [
        ("sip.callID", id.into()),
        ("sip.callStatus", status.into()),
        ("sip.phoneNumber", call.to.clone()),
        ("sip.trunkID", call.echoed["trunk"].clone()),
        ("sip.trunkPhoneNumber", call.from.clone()),
    ] {
        attributes.insert(name.to_owned(), value);
    }
    attributes
}

fn sid(id: &str) -> String {
    format!("PA_{id}")
}

/// Unix time in seconds, as protobuf writes a number of 64 bits.
fn seconds(at: i64) -> String {
    at.div_euclid(1000).to_string()
}
