//! ElevenLabs' API.
//!
//! * Dial: `POST /v1/convai/twilio/outbound-call`, or `…/sip-trunk/outbound-call` for the number of a SIP trunk. ElevenLabs has
//!   no idempotency key.
//! * Lookup: `GET /v1/convai/conversations/{id}`. If the conversation id is unknown, `GET /v1/convai/conversations` lists the
//!   conversations with our dial id. A list shows no ids of ours, so each listed conversation is read by its id.

use serde_json::{Map, Value, json};

use super::payload::{LOOKED_UP, Metadata, Status, may_be_call};
use crate::api::{ApiRequest, Login, echoed_ids, encoded, json_object, object, objects, query, text};
use crate::config::{AccountConfig, ElevenLabsAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::{bounded, short_hash};
use crate::lenient;
use crate::lookup::{Lookup, NO_PHONE_CALL, ParsedAnswer, Period, Step};

const CONVERSATIONS: &str = "/v1/convai/conversations";

/// Conversations per page. A dial id belongs to one conversation, so a longer list means that the filter did not work.
const LISTED_MAX: usize = 10;

/// Conversations per page of discovery, the most that ElevenLabs allows. A row has no transcript, so a page is small.
const DISCOVERED_MAX: usize = 100;

/// Variable that identifies one dial. See [`dial_id`].
const DIAL_ID: &str = "switchhook_dial";

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = ElevenLabsAccount::of(config)?;
    // Names that begin with `system__` are ElevenLabs' own.
    let mut variables = request.metadata_to_echo();
    variables.retain(|name, _| !name.starts_with("system__"));
    let dial_id = dial_id(request.call_id.as_str(), request.attempt.as_str());
    variables.insert(DIAL_ID, &dial_id);
    let body = json!({
        "agent_id": account.agent_id,
        "agent_phone_number_id": account.agent_phone_number_id,
        "to_number": request.to.as_str(),
        "conversation_initiation_client_data": {"dynamic_variables": json_object(&variables)},
    });
    let path = if account.uses_sip_trunk { "sip-trunk" } else { "twilio" };
    let path = format!("/v1/convai/{path}/outbound-call");
    Some(ApiRequest::post_json(path, login(account), &body))
}

/// Value that identifies one dial in a filter. A filter is `name:operator:value`, so a call id with a colon could be
/// misread there, and an attempt number alone identifies no call.
fn dial_id(call_id: &str, attempt: &str) -> String {
    format!("dial-{}", short_hash(format!("{call_id}/{attempt}").as_bytes()))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "conversation_id").map(|id| bounded("", id))
}

/// Reads the `detail` of an error: an object with a status, or the list of the fields that are not valid.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    match object(body)?.remove("detail")? {
        Value::Object(detail) => match text(&detail, "status")? {
            "too_many_concurrent_requests" => Some(Refusal::Capacity("concurrency_limit")),
            "quota_exceeded" => Some(Refusal::Account("quota_exceeded")),
            _ => None,
        },
        Value::Array(problems) => {
            let blames_number = |problem: &Value| {
                let location = problem.get("loc").and_then(Value::as_array);
                location.and_then(|names| names.last()?.as_str()) == Some("to_number")
            };
            let only_number = !problems.is_empty() && problems.iter().all(blames_number);
            only_number.then_some(Refusal::Number("invalid_number"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    List,
    /// Reads a listed conversation, to see whether it is ours. `others` are the ids of those that follow.
    Listed {
        others: Vec<String>,
        /// True if a conversation that could be ours was not read: the list has more pages, or it names a conversation that
        /// was deleted since. Then nothing proves that there was no call.
        is_incomplete: bool,
    },
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = ElevenLabsAccount::of(config)?;
    if let Some(id) = lookup.provider_call_id {
        return Some((conversation_request(account, id), Search::ById));
    }
    let filter = format!("{DIAL_ID}:eq:{}", dial_id(lookup.call_id.as_str(), lookup.attempt.as_str()));
    let limit = LISTED_MAX.to_string();
    let pairs = [("dynamic_variable_params", filter.as_str()), ("page_size", limit.as_str())];
    Some((get(account, format!("{CONVERSATIONS}?{}", query(pairs))), Search::List))
}

/// Reads a response. `body` is `None` if ElevenLabs does not know the conversation.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let (ids, is_incomplete): (Vec<String>, bool) = match (search, body.map(object)) {
        (Search::ById, None) => return Step::Answer(ParsedAnswer::Gone),
        (Search::ById, Some(Some(conversation)))
            if text(&conversation, "conversation_id") == lookup.provider_call_id =>
        {
            return Step::Answer(parse_conversation(conversation));
        }
        (Search::List, Some(Some(list))) => match parse_list(list) {
            Some((rows, next_cursor)) => (rows.into_iter().map(|row| row.id).collect(), next_cursor.is_some()),
            None => return Step::Answer(ParsedAnswer::Unreadable),
        },
        // ElevenLabs filters the list. If the filter fails, a listed conversation may be another one.
        (Search::Listed { .. }, Some(Some(conversation))) if lookup.matches(&echoed_ids(variables(&conversation))) => {
            let is_phone_call =
                conversation.get("metadata").and_then(|data| data.get("phone_call")?.as_object()).is_some();
            return Step::Answer(if is_phone_call { parse_conversation(conversation) } else { NO_PHONE_CALL });
        }
        (Search::Listed { others, is_incomplete }, Some(Some(conversation))) if variables(&conversation).is_some() => {
            (others, is_incomplete)
        }
        (Search::Listed { others, .. }, None) => (others, true),
        (Search::ById, Some(Some(_) | None)) | (Search::List, None | Some(None)) | (Search::Listed { .. }, Some(_)) => {
            return Step::Answer(ParsedAnswer::Unreadable);
        }
    };
    let mut ids = ids.into_iter();
    match (ids.next(), ElevenLabsAccount::of(config)) {
        (Some(id), Some(account)) => {
            Step::Ask(conversation_request(account, &id), Search::Listed { others: ids.collect(), is_incomplete })
        }
        (None, _) if is_incomplete => Step::Answer(ParsedAnswer::Undecided("unread_calls")),
        (None, _) => Step::Answer(ParsedAnswer::NotFound),
        (Some(_), None) => Step::Answer(ParsedAnswer::Unreadable),
    }
}

/// Lists the conversations that started in the period, the newest first.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let [from, until] = [period.from, period.until].map(|time| time.as_millis().div_euclid(1000).to_string());
    let limit = DISCOVERED_MAX.to_string();
    // A chat is no call. A row does not say that it is one.
    let pairs = [
        ("call_start_after_unix", from.as_str()),
        ("call_start_before_unix", &until),
        ("text_only", "false"),
        ("page_size", &limit),
    ];
    let query = query(pairs.into_iter().chain(page.map(|cursor| ("cursor", cursor))));
    Some(get(ElevenLabsAccount::of(config)?, format!("{CONVERSATIONS}?{query}")))
}

/// Ids of the listed calls that have ended, and the next page.
pub(crate) fn parse_page(body: &[u8]) -> Option<(Vec<String>, Option<String>)> {
    let (rows, next_cursor) = parse_list(object(body)?)?;
    let ended = rows.into_iter().filter(|row| row.may_have_ended && row.may_be_call);
    Some((ended.map(|row| row.id).collect(), next_cursor))
}

fn conversation_request(account: &ElevenLabsAccount, id: &str) -> ApiRequest {
    get(account, format!("{CONVERSATIONS}/{}", encoded(id)))
}

fn login(account: &ElevenLabsAccount) -> Login {
    Login::Header("xi-api-key", account.api_key.as_str().to_owned())
}

fn get(account: &ElevenLabsAccount, path: String) -> ApiRequest {
    ApiRequest::get(path, login(account))
}

/// Row of a list of conversations.
struct Row {
    id: String,
    /// True if it has ended, or has a status that Switchhook does not know.
    may_have_ended: bool,
    /// False if it began at a source that has no calls.
    may_be_call: bool,
}

/// Rows of a list, and the cursor of the next page. `None` if this is no list.
fn parse_list(mut list: Map<String, Value>) -> Option<(Vec<Row>, Option<String>)> {
    let Some(Value::Array(rows)) = list.remove("conversations") else { return None };
    let rows = objects(rows).map(|row| {
        let may_have_ended = matches!(status(&row), Some(Status::Done | Status::Failed | Status::Other));
        let may_be_call = text(&row, "conversation_initiation_source").is_none_or(may_be_call);
        Some(Row { id: text(&row, "conversation_id")?.to_owned(), may_have_ended, may_be_call })
    });
    let rows = rows.collect::<Option<_>>()?;
    let has_more = list.get("has_more").and_then(Value::as_bool)?;
    match (has_more, text(&list, "next_cursor")) {
        (false, _) => Some((rows, None)),
        (true, Some(cursor)) => Some((rows, Some(cursor.to_owned()))),
        (true, None) => None,
    }
}

fn status(conversation: &Map<String, Value>) -> Option<Status> {
    serde_json::from_value(conversation.get("status")?.clone()).ok()
}

fn variables(conversation: &Map<String, Value>) -> Option<&Value> {
    conversation.get("conversation_initiation_client_data")?.get("dynamic_variables").filter(|value| value.is_object())
}

/// Converts an ended conversation into `post_call_transcription`. ElevenLabs makes the analysis while the status is
/// `processing`, so such a conversation counts as not ended. A text conversation is no call, so nobody can say how the call ended.
fn parse_conversation(conversation: Map<String, Value>) -> ParsedAnswer {
    let Some(id) = text(&conversation, "conversation_id") else {
        return ParsedAnswer::Unreadable;
    };
    let metadata: Option<Metadata> =
        conversation.get("metadata").and_then(|metadata| lenient::object(metadata.clone()).ok().flatten());
    if metadata.is_some_and(|metadata| !metadata.is_call()) {
        return ParsedAnswer::Gone;
    }
    match status(&conversation) {
        Some(Status::Initiated | Status::InProgress | Status::Processing) => {
            ParsedAnswer::Alive { provider_call_id: bounded("", id) }
        }
        Some(Status::Done | Status::Failed) => {
            let body = json!({"type": "post_call_transcription", LOOKED_UP: true, "data": conversation});
            ParsedAnswer::ended(&body)
        }
        Some(Status::Other) => ParsedAnswer::UnknownValue("status"),
        None => ParsedAnswer::Unreadable,
    }
}
