//! LiveKit's API for servers, in JSON over HTTP (Twirp).
//!
//! * Dial: `POST /twirp/livekit.SIP/CreateSIPParticipant`. LiveKit documents no idempotency key for it.
//! * Lookup: `POST /twirp/livekit.RoomService/ListParticipants` lists the participants of a room. Each attempt has a room of its own,
//!   whose name follows from its ids.
//!
//! Every request has a token of its own, which the API secret signs. It permits this one kind of request.
//!
//! **A call that is over cannot be looked up**: its participant is gone, and LiveKit lists no calls. So a search never proves that
//! there was no call. If it finds nothing, it is undecided, and the dial is not repeated. There is no discovery for the same reason.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::{AttemptKey, CallId};

use super::payload::{Kind, Participant};
use crate::api::{ApiRequest, Login, object, text};
use crate::config::{AccountConfig, LiveKitAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::jwt::TokenLogin;
use crate::lookup::{Lookup, ParsedAnswer, Step};

const DIAL_PATH: &str = "/twirp/livekit.SIP/CreateSIPParticipant";
const LIST_PATH: &str = "/twirp/livekit.RoomService/ListParticipants";
/// Hex digits of a room name: 128 bits of a hash.
const ROOM_DIGITS: usize = 32;

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = LiveKitAccount::of(config)?;
    let mut body = Map::new();
    body.insert("sip_trunk_id".to_owned(), account.sip_trunk_id.clone().into());
    body.insert("sip_call_to".to_owned(), request.to.as_str().into());
    body.insert("sip_number".to_owned(), request.from.as_str().into());
    body.insert("room_name".to_owned(), room_name(account, request.call_id, request.attempt).into());
    body.insert("participant_identity".to_owned(), request.dial_key.into());
    // The agent in the room sees these, and every webhook about the participant repeats them. Names that begin with `sip.` are LiveKit's
    // own, and say for example whether the call is inbound.
    let mut attributes = request.metadata_to_echo();
    attributes.retain(|name, _| !name.starts_with("sip."));
    body.insert("participant_attributes".to_owned(), json!(attributes));
    if let Some(seconds) = account.ringing_timeout_s {
        body.insert("ringing_timeout".to_owned(), format!("{seconds}s").into());
    }
    // With true, the response would come when somebody has answered, which is too late to wait for.
    body.insert("wait_until_answered".to_owned(), false.into());
    let login = login(account, json!({"sip": {"call": true}}));
    Some(ApiRequest::post_json(DIAL_PATH.to_owned(), login, &Value::Object(body)))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    let answer = object(body)?;
    text(&answer, "sip_call_id").or_else(|| text(&answer, "sipCallId")).map(|id| bounded("", id))
}

/// Reads a refusal: a code of Twirp, and a message. Only the message about a SIP address blames the called number. None is known that
/// blames the calling number, so a wrong one counts as a problem of the account.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Option<Refusal> {
    let error = object(body)?;
    let message = text(&error, "msg").unwrap_or_default().to_lowercase();
    match text(&error, "code")? {
        "resource_exhausted" if status != 429 || message.contains("concurren") => {
            Some(Refusal::Capacity("too_many_calls"))
        }
        "invalid_argument" if message.contains("sipcallto should be a phone number") => {
            Some(Refusal::Number("invalid_number"))
        }
        _ => None,
    }
}

/// The one request of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search;

/// Starts a search for a call that Switchhook placed. The rooms of other calls are not known.
pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = LiveKitAccount::of(config)?;
    lookup.dialled_at?;
    let room = room_name(account, lookup.call_id, lookup.attempt);
    let login = login(account, json!({"video": {"roomAdmin": true, "room": room}}));
    Some((ApiRequest::post_json(LIST_PATH.to_owned(), login, &json!({"room": room})), Search))
}

/// Reads the response. `body` is `None` if LiveKit does not know the room.
pub(crate) fn next_step(lookup: &Lookup<'_>, body: Option<&[u8]>) -> Step<Search> {
    Step::Answer(match body.map(participants) {
        Some(None) => ParsedAnswer::Unreadable,
        Some(Some(participants)) => match participants.iter().find_map(|participant| our_call(participant, lookup)) {
            Some(id) => ParsedAnswer::Alive { provider_call_id: bounded("", id) },
            None => not_listed(lookup),
        },
        None => not_listed(lookup),
    })
}

/// Participants of a room. `None` if this is no list.
fn participants(body: &[u8]) -> Option<Vec<Participant>> {
    match object(body)?.remove("participants") {
        Some(participants @ Value::Array(_)) => serde_json::from_value(participants).ok(),
        Some(Value::Null) | None => Some(Vec::new()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => None,
    }
}

/// LiveKit's id of the call, if this participant is the attempt.
fn our_call<'a>(participant: &'a Participant, lookup: &Lookup<'_>) -> Option<&'a str> {
    let attributes = participant.attributes().filter(|_| participant.kind() == Kind::Sip)?;
    let id = attributes.call_id.as_deref()?;
    (lookup.matches(&attributes.echoed_ids()) || lookup.provider_call_id == Some(id)).then_some(id)
}

/// Answer about an attempt that is not in its room.
fn not_listed(lookup: &Lookup<'_>) -> ParsedAnswer {
    match lookup.provider_call_id {
        Some(_) => ParsedAnswer::Gone,
        None => ParsedAnswer::Undecided("no_listed_call"),
    }
}

/// Name of the room of an attempt. It follows from our ids, so a search finds the room of a dial whose response was lost.
fn room_name(account: &LiveKitAccount, call_id: &CallId, attempt: &AttemptKey) -> String {
    let mut hash = Sha256::new();
    hash.update(call_id.as_str().len().to_be_bytes());
    hash.update(call_id.as_str());
    hash.update(attempt.as_str());
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(ROOM_DIGITS);
    format!("{}{digits}", account.room_prefix)
}

fn login(account: &LiveKitAccount, grants: Value) -> Login {
    let mut claims = match grants {
        Value::Object(claims) => claims,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    claims.insert("iss".to_owned(), account.api_key.clone().into());
    Login::Token(TokenLogin::hs256(account.api_secret.clone(), claims))
}
