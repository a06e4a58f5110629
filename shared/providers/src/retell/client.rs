//! Retell's API.
//!
//! * Dial: `POST /v2/create-phone-call`. The same request with the same `idempotency_key` places no second call for an
//!   hour.
//! * Lookup: `GET /v2/get-call/{call_id}`, or `POST /v3/list-calls` filtered by our metadata if the call id is unknown.

use serde_json::{Map, Value, json};

use crate::api::{ApiRequest, bearer, echoed_ids, encoded, error_messages, json_object, object, objects, text};
use crate::config::{AccountConfig, RetellAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, NO_PHONE_CALL, ParsedAnswer, ParsedPage, Period, Step, endings};

/// Calls per page. Retell allows 1,000, but each one includes its whole transcript, and a response may have 4 MB. Our ids belong to one call,
/// so a longer list of a search means that the filter did not work.
const LISTED_MAX: u32 = 10;

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = RetellAccount::of(config)?;
    let echo = json_object(&request.metadata_to_echo());
    let mut body = Map::new();
    body.insert("from_number".to_owned(), request.from.as_str().into());
    body.insert("to_number".to_owned(), request.to.as_str().into());
    if let Some(agent_id) = &account.agent_id {
        body.insert("override_agent_id".to_owned(), agent_id.as_str().into());
    }
    body.insert("idempotency_key".to_owned(), request.dial_key.into());
    if account.honor_internal_dnc {
        body.insert("honor_internal_dnc".to_owned(), true.into());
    }
    // Webhooks echo the metadata. The agent sees only the variables.
    body.insert("metadata".to_owned(), echo.clone());
    body.insert("retell_llm_dynamic_variables".to_owned(), echo);
    Some(ApiRequest::post_json("/v2/create-phone-call".to_owned(), bearer(&account.api_key), &Value::Object(body)))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "call_id").map(|id| bounded("", id))
}

/// Reads the texts of an error. Retell documents no codes. `Cannot find requested asset under given api key` means a
/// wrong agent. Two texts are about the calling number, and neither names its field: `Item +14155550100 not found from phone-number`, if the account
/// does not have it, and `No outbound agent id set up for phone number`.
///
/// Only a whole word blames a number, because such a refusal may end the call: `dnc` is also a part of the name of a parameter.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let messages = error_messages(body);
    let mention = |words: &[&str]| messages.iter().any(|text| words.iter().any(|word| text.contains(word)));
    let name = |words: &[&str]| messages.iter().any(|text| words.iter().any(|word| has_word(text, word)));
    let (names_to, names_from) = (name(&["to_number", "to number"]), name(&["from_number", "from number"]));
    if mention(&["requested asset"]) {
        Some(Refusal::Account("unknown_asset"))
    } else if name(&["do_not_call", "do not call", "dnc"]) {
        Some(Refusal::Number("do_not_call"))
    } else if mention(&["concurrency", "concurrent"]) {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if mention(&["not found from phone-number"]) {
        Some(Refusal::CallingNumber("unknown_calling_number"))
    } else if mention(&["no outbound agent id"]) {
        Some(Refusal::CallingNumber("no_outbound_agent"))
    } else if mention(&["international call", "country", "countries"]) && !mention(&["country code"]) {
        // The account may not call there, or nobody can.
        Some(Refusal::NumberOrAccount("country_not_enabled"))
    } else if names_to && !names_from {
        Some(Refusal::Number("invalid_number"))
    } else if names_from && !names_to {
        Some(Refusal::CallingNumber("invalid_calling_number"))
    } else {
        None
    }
}

/// True if a text has a word or a phrase, and not as a part of longer words.
fn has_word(text: &str, word: &str) -> bool {
    let goes_on = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    let mut sides = text.split(word).zip(text.split(word).skip(1));
    sides.any(|(before, after)| !goes_on(before.chars().next_back()) && !goes_on(after.chars().next()))
}

/// True if the body of a 422 says that Retell has no such call.
pub(crate) fn is_unknown(body: &[u8]) -> bool {
    refusal(body) == Some(Refusal::Account("unknown_asset"))
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    List,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let Some(id) = lookup.provider_call_id else {
        return Some((list_request(config, lookup, None)?, Search::List));
    };
    let path = format!("/v2/get-call/{}", encoded(id));
    Some((ApiRequest::get(path, bearer(&RetellAccount::of(config)?.api_key)), Search::ById))
}

fn list_request(config: &AccountConfig, lookup: &Lookup<'_>, pagination_key: Option<&str>) -> Option<ApiRequest> {
    let metadata = |key: &str, value: &str| json!({"key": key, "type": "string", "op": "eq", "value": value});
    let mut body = json!({
        "filter_criteria": {"metadata": [
            metadata("switchhook_call_id", lookup.call_id.as_str()),
            metadata("switchhook_attempt", lookup.attempt.as_str()),
        ]},
        "sort_order": "descending",
        "limit": LISTED_MAX,
    });
    if let (Some(key), Value::Object(body)) = (pagination_key, &mut body) {
        body.insert("pagination_key".to_owned(), key.into());
    }
    Some(ApiRequest::post_json("/v3/list-calls".to_owned(), bearer(&RetellAccount::of(config)?.api_key), &body))
}

/// Reads a response. `body` is `None` if Retell does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let answer = body.and_then(object);
    Step::Answer(match (search, answer) {
        (Search::ById, None) if body.is_none() => ParsedAnswer::Gone,
        (Search::ById, Some(call)) if text(&call, "call_id") == lookup.provider_call_id => parse_call(call),
        (Search::List, Some(mut answer)) => {
            let Some(Value::Array(items)) = answer.remove("items") else {
                return Step::Answer(ParsedAnswer::Unreadable);
            };
            // Retell filters the list. If the filter fails, the first call of the list may be another one.
            let ours = objects(items).find(|call| lookup.matches(&echoed_ids(call.get("metadata"))));
            let has_more = answer.get("has_more").and_then(Value::as_bool) == Some(true);
            match (ours, text(&answer, "pagination_key").filter(|_| has_more)) {
                (Some(call), _) if matches!(text(&call, "call_type"), Some("phone_call") | None) => parse_call(call),
                (Some(_), _) => NO_PHONE_CALL,
                (None, Some(key)) => match list_request(config, lookup, Some(key)) {
                    Some(request) => return Step::Ask(request, Search::List),
                    None => ParsedAnswer::Unreadable,
                },
                (None, None) if has_more => ParsedAnswer::Undecided("too_many_calls"),
                (None, None) => ParsedAnswer::NotFound,
            }
        }
        (Search::ById, Some(_) | None) | (Search::List, None) => ParsedAnswer::Unreadable,
    })
}

/// Lists the calls that were answered in the period. A call that nobody answered has no time at all: its webhooks have neither
/// `start_timestamp` nor `end_timestamp`, and `/v3/list-calls` filters and sorts by no other time. So the recent ones of these
/// calls cannot be listed.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let limits = [period.from.as_millis(), period.until.as_millis()];
    let mut body = json!({
        "filter_criteria": {"start_timestamp": {"type": "range", "op": "bt", "value": limits}},
        "sort_order": "ascending",
        "limit": LISTED_MAX,
    });
    if let (Some(key), Value::Object(body)) = (page, &mut body) {
        body.insert("pagination_key".to_owned(), key.into());
    }
    Some(ApiRequest::post_json("/v3/list-calls".to_owned(), bearer(&RetellAccount::of(config)?.api_key), &body))
}

pub(crate) fn parse_page(body: &[u8]) -> Option<ParsedPage> {
    let mut answer = object(body)?;
    let Some(Value::Array(items)) = answer.remove("items") else { return None };
    let has_more = answer.get("has_more").and_then(Value::as_bool) == Some(true);
    let next_page = text(&answer, "pagination_key").filter(|_| has_more).map(str::to_owned);
    Some((endings(objects(items).map(parse_call)), next_page))
}

/// Converts an ended call into `call_analyzed` if it has an analysis, otherwise into `call_ended`.
fn parse_call(call: Map<String, Value>) -> ParsedAnswer {
    let Some(call_id) = text(&call, "call_id") else {
        return ParsedAnswer::Unreadable;
    };
    match text(&call, "call_status") {
        Some("registered" | "ongoing") => ParsedAnswer::Alive { provider_call_id: bounded("", call_id) },
        Some("ended" | "error" | "not_connected") => {
            let analysed = call.get("call_analysis").and_then(Value::as_object).is_some_and(|data| !data.is_empty());
            let event = if analysed { "call_analyzed" } else { "call_ended" };
            ParsedAnswer::ended(&json!({"event": event, "call": call}))
        }
        Some(_) => ParsedAnswer::UnknownValue("call_status"),
        None => ParsedAnswer::Unreadable,
    }
}
