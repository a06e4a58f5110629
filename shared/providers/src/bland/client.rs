//! Bland's API.
//!
//! * Dial: `POST /v1/calls`. Bland has no idempotency key for it.
//! * Lookup: `GET /v1/calls/{id}`. If the id is unknown, `GET /v1/calls` lists the calls to our number, the newest
//!   first. Each call of the time around our dial is then read by its id, because no documented row shows the metadata.
//!
//! **A search never proves that there was no call.** The list shows the calls that Bland has dispatched, and nothing says how long a
//! call may wait before that, nor how the filter compares numbers. So a search that finds nothing is undecided, and the dial is not
//! repeated.
//!
//! The call to a colleague during a warm transfer is left out of searches and of discovery.

use serde_json::{Map, Value, json};
use switchhook_domain::Timestamp;

use super::payload::{CALL_RECORD, Call};
use crate::api::{ApiRequest, Login, echoed_ids, encoded, error_messages, json_object, object, objects, query, text};
use crate::config::{AccountConfig, BlandAccount, BlandAgent};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lenient;
use crate::lookup::{Lookup, ParsedAnswer, Period, Step};

const CALLS_PATH: &str = "/v1/calls";
/// Calls per page of a list.
const PAGE_SIZE: usize = 100;
/// Ways to name the parameter `from` in a text. The bare word has other uses, as in "blocked from making calls".
const FROM: [&str; 8] =
    ["`from`", "'from'", "\"from\"", "from number", "from phone", "from parameter", "from field", "from must"];

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = BlandAccount::of(config)?;
    let echo = json_object(&request.metadata_to_echo());
    let mut body = Map::new();
    body.insert("phone_number".to_owned(), request.to.as_str().into());
    body.insert("from".to_owned(), request.from.as_str().into());
    match &account.agent {
        BlandAgent::Task(task) => body.insert("task".to_owned(), task.as_str().into()),
        BlandAgent::Pathway(id) => body.insert("pathway_id".to_owned(), id.as_str().into()),
    };
    body.insert("webhook".to_owned(), config.webhook_url()?.into());
    // The webhook echoes the metadata. The agent sees only the request data.
    body.insert("metadata".to_owned(), echo.clone());
    body.insert("request_data".to_owned(), echo);
    // Without it, the webhook does not say whether anybody answered.
    body.insert("answered_by_enabled".to_owned(), true.into());
    body.extend(account.max_duration.map(|minutes| ("max_duration".to_owned(), minutes.into())));
    body.extend(account.voicemail.clone().map(|voicemail| ("voicemail".to_owned(), voicemail.into())));
    Some(ApiRequest::post_json(CALLS_PATH.to_owned(), login(account), &Value::Object(body)))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "call_id").map(|id| bounded("", id))
}

/// Reads the texts of an error. Bland documents no codes. Only a text that names the parameter `phone_number`, and no other, blames the
/// number. One that names `from` blames the calling number. One about a phone number may mean the number itself, or what the account may
/// call. A response of success refuses nothing, whatever its text says: Bland may queue the call.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Option<Refusal> {
    if (200..=299).contains(&status) {
        return None;
    }
    let messages = texts(body);
    let mention = |words: &[&str]| messages.iter().any(|text| words.iter().any(|word| text.contains(word)));
    if mention(&["concurrent", "concurrency"]) {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if mention(&["balance", "credit"]) {
        Some(Refusal::Account("payment_required"))
    } else if mention(&["pathway", "task", "webhook", "voicemail"]) {
        None
    } else if mention(&FROM) {
        Some(Refusal::CallingNumber("invalid_calling_number"))
    } else if mention(&["from"]) {
        None
    } else if mention(&["phone_number"]) {
        Some(Refusal::Number("invalid_number"))
    } else if mention(&["phone number"]) {
        Some(Refusal::NumberOrAccount("number_refused"))
    } else {
        None
    }
}

/// Texts of an error response, in lower case. Newer parts of the API have a list `errors` of texts, or of objects with a message.
fn texts(body: &[u8]) -> Vec<String> {
    let mut texts = error_messages(body);
    let errors = object(body).and_then(|mut object| object.remove("errors"));
    if let Some(Value::Array(errors)) = errors {
        let text = |error: Value| error.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_lowercase);
        texts.extend(errors.into_iter().filter_map(text));
    }
    texts
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    ById,
    /// Reads a page of the list. `index` is the number of calls before it.
    List {
        index: usize,
        found: Found,
    },
    /// Reads a listed call, to see whether it is ours.
    Listed {
        found: Found,
    },
}

/// Calls that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Ids of the calls that may be ours and are not read yet.
    unread: Vec<String>,
    /// True if a call cannot be read, or has no metadata. So nothing is known about it.
    is_unclear: bool,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = BlandAccount::of(config)?;
    match lookup.provider_call_id {
        Some(id) => Some((call_request(account, id), Search::ById)),
        None => {
            lookup.dialled_at?;
            let request = list_request(account, Some(lookup.to?.as_str()), 0);
            Some((request, Search::List { index: 0, found: Found::default() }))
        }
    }
}

/// Reads a response. `body` is `None` if Bland does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let unreadable = Step::Answer(ParsedAnswer::Unreadable);
    let Some(account) = BlandAccount::of(config) else { return unreadable };
    match search {
        Search::ById => match body.map(object) {
            None => Step::Answer(ParsedAnswer::Gone),
            Some(Some(call)) if text(&call, "call_id") == lookup.provider_call_id => Step::Answer(parse_call(call)),
            Some(Some(_) | None) => unreadable,
        },
        Search::List { index, mut found } => {
            let (Some(to), Some(period)) = (lookup.to, lookup.period()) else { return unreadable };
            let Some(rows) = body.and_then(parse_list) else { return unreadable };
            let next = next_index(index, &rows, period);
            for row in rows.into_iter().filter(|row| !is_proxy_agent_call(&row.fields)) {
                if lookup.matches(&echoed_ids(row.fields.get("metadata"))) {
                    return ask_about(account, row.id, found);
                }
                if row.created_at.is_none_or(|at| period.contains(at)) {
                    found.unread.push(row.id);
                }
            }
            match next {
                Some(index) => {
                    Step::Ask(list_request(account, Some(to.as_str()), index), Search::List { index, found })
                }
                None => read_on(account, found),
            }
        }
        Search::Listed { mut found } => {
            match body.map(object) {
                Some(Some(call)) if is_proxy_agent_call(&call) => {}
                Some(Some(call)) if lookup.matches(&echoed_ids(call.get("metadata"))) => {
                    return Step::Answer(parse_call(call));
                }
                Some(Some(call)) => found.is_unclear |= !call.get("metadata").is_some_and(Value::is_object),
                Some(None) => return unreadable,
                None => found.is_unclear = true,
            }
            read_on(account, found)
        }
    }
}

/// Reads the next listed call. Without any, the search is over.
fn read_on(account: &BlandAccount, mut found: Found) -> Step<Search> {
    match found.unread.pop() {
        Some(id) => ask_about(account, id, found),
        None if found.is_unclear => Step::Answer(ParsedAnswer::Undecided("unclear_calls")),
        None => Step::Answer(ParsedAnswer::Undecided("no_listed_call")),
    }
}

fn ask_about(account: &BlandAccount, id: String, found: Found) -> Step<Search> {
    Step::Ask(call_request(account, &id), Search::Listed { found })
}

/// Lists all calls, the newest first. `page` is the number of calls before it.
pub(crate) fn discovery_request(config: &AccountConfig, _: Period, page: Option<&str>) -> Option<ApiRequest> {
    let index = page.map_or(Some(0), |page| page.parse().ok())?;
    Some(list_request(BlandAccount::of(config)?, None, index))
}

/// Ids of the calls of the period that have ended, and the next page. A call that arrives while the list is read moves the others to later
/// places, so it is read twice and none is missed.
pub(crate) fn parse_page(body: &[u8], period: Period, page: Option<&str>) -> Option<(Vec<String>, Option<String>)> {
    let index = page.map_or(Some(0), |page| page.parse().ok())?;
    let rows = parse_list(body)?;
    let next = next_index(index, &rows, period);
    let is_of_period = |row: &Row| row.created_at.is_none_or(|at| period.contains(at));
    let wanted =
        rows.into_iter().filter(|row| row.may_be_over && is_of_period(row) && !is_proxy_agent_call(&row.fields));
    Some((wanted.map(|row| row.id).collect(), next.map(|index| index.to_string())))
}

/// Row of a list of calls.
struct Row {
    id: String,
    created_at: Option<Timestamp>,
    /// True if it is over, or has a status that Switchhook does not know.
    may_be_over: bool,
    fields: Map<String, Value>,
}

/// Rows of a page. `None` if this is no page, or if a row is no call.
fn parse_list(body: &[u8]) -> Option<Vec<Row>> {
    let Some(Value::Array(calls)) = object(body)?.remove("calls") else { return None };
    let count = calls.len();
    let row = |fields: Map<String, Value>| {
        let call: Call = lenient::object(Value::Object(fields.clone())).ok().flatten()?;
        let may_be_over = call.is_over().unwrap_or_else(|| call.unknown_value().is_some());
        Some(Row { created_at: call.created_at(), may_be_over, id: call.call_id?, fields })
    };
    let rows: Vec<Row> = objects(calls).map(row).collect::<Option<_>>()?;
    (rows.len() == count).then_some(rows)
}

/// True if a call of the API is the one to a colleague during a warm transfer. It is never ours, although it may repeat our ids.
fn is_proxy_agent_call(fields: &Map<String, Value>) -> bool {
    fields.get("is_proxy_agent_call").is_some_and(|flag| lenient::flag(flag).is_ok_and(|flag| flag == Some(true)))
}

/// Index of the next page. `None` if this page is the last one, or if it reaches back before the period.
fn next_index(index: usize, rows: &[Row], period: Period) -> Option<usize> {
    let is_past = rows.iter().any(|row| row.created_at.is_some_and(|at| at < period.from));
    (rows.len() >= PAGE_SIZE && !is_past).then(|| index.saturating_add(rows.len()))
}

fn list_request(account: &BlandAccount, to: Option<&str>, index: usize) -> ApiRequest {
    let (size, from, until) = (PAGE_SIZE.to_string(), index.to_string(), index.saturating_add(PAGE_SIZE).to_string());
    let pairs =
        [("sort_by", "created_at"), ("ascending", "false"), ("from", &from), ("to", &until), ("limit", size.as_str())];
    let query = query(to.map(|to| ("to_number", to)).into_iter().chain(pairs));
    get(account, format!("{CALLS_PATH}?{query}"))
}

fn call_request(account: &BlandAccount, id: &str) -> ApiRequest {
    get(account, format!("{CALLS_PATH}/{}", encoded(id)))
}

/// Converts an ended call into a webhook. It leaves out what may change from one request to the next: the transcript, the URL of the
/// recording and the price.
fn parse_call(fields: Map<String, Value>) -> ParsedAnswer {
    const KEPT: [&str; 19] = [
        "call_id",
        "is_proxy_agent_call",
        "to",
        "from",
        "inbound",
        "completed",
        "status",
        "queue_status",
        "answered_by",
        "error_message",
        "call_ended_by",
        "call_length",
        "created_at",
        "started_at",
        "metadata",
        "analysis",
        "disposition_tag",
        "variables",
        "summary",
    ];
    let call: Option<Call> = lenient::object(Value::Object(fields.clone())).ok().flatten();
    let Some((id, call)) = call.and_then(|call| Some((call.call_id.clone()?, call))) else {
        return ParsedAnswer::Unreadable;
    };
    match (call.is_over(), call.unknown_value()) {
        (Some(true), _) => {
            let mut body: Map<String, Value> =
                fields.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str())).collect();
            body.insert("event".to_owned(), json!(CALL_RECORD));
            ParsedAnswer::ended(&Value::Object(body))
        }
        (Some(false), _) => ParsedAnswer::Alive { provider_call_id: bounded("", &id) },
        (None, Some(field)) => ParsedAnswer::UnknownValue(field),
        (None, None) => ParsedAnswer::Unreadable,
    }
}

fn get(account: &BlandAccount, path: String) -> ApiRequest {
    ApiRequest::get(path, login(account))
}

/// Bland wants the bare key.
fn login(account: &BlandAccount) -> Login {
    Login::Header("authorization", account.api_key.as_str().to_owned())
}
