//! Plivo's API.
//!
//! * Dial: `POST /v1/Account/{auth_id}/Call/`. Plivo has no idempotency key for it. The response names the request, and a request for
//!   one number has the id of its call.
//! * Lookup: `GET /v1/Account/{auth_id}/Call/{id}/` shows a live call with `?status=live`, a queued one with `?status=queued`, and
//!   the record of an ended call without a status. If nobody knows the id, three lists
//!   are searched for calls between both numbers around the time of our dial: queued, live and ended calls.
//!
//! Plivo stores no metadata. Our ids are in the query of the callback URLs, which Plivo signs. No answer of the API shows them, so a
//! search that finds several calls is undecided.
//!
//! Plivo writes a number with or without `+`. So its filters are tried with both, and digits are compared. **Nothing says that a list
//! shows the calling number of our dial.** So a call to our number from another one, or without one, leaves a search undecided.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use switchhook_domain::{PhoneNumber, Timestamp};

use super::payload::{CallStatus, is_canceled_by_plivo};
use crate::api::{ApiRequest, basic, encoded, error_messages, object, objects, query, text};
use crate::config::{AccountConfig, PlivoAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lenient;
use crate::lookup::{Lookup, ParsedAnswer, ParsedPage, Period, SIP_ADDRESS, Step, created_from, endings};
use crate::normalized::without_plus;
use crate::times::{has_offset, parse_time};

/// Five retries, after every kind of failure. By default, Plivo repeats a callback once, and never one that was answered with an
/// error.
const CALLBACK_RETRIES: &str = "rc=5&rp=ct,rt,4xx,5xx";
/// Calls per page of a list. Plivo allows no more.
const PAGE_SIZE: usize = 20;
/// Event of the callback that [`callback`] makes of a record. It differs from Plivo's own `Hangup`, because the record does not have
/// all fields of that callback.
const CALL_RECORD: &str = "CallRecord";

pub(crate) fn dial_api_request(config: &AccountConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = PlivoAccount::of(config)?;
    let echo = request.metadata_to_echo();
    let ids = ["switchhook_call_id", "switchhook_attempt", "appointment_id"];
    let ids = query(ids.into_iter().filter_map(|name| Some((name, *echo.get(name)?))));
    let callback = format!("{}?{ids}#{CALLBACK_RETRIES}", config.webhook_url()?);
    // The application that answers with XML gets the metadata here. Other providers give it to their agent.
    let separator = if account.answer_url.contains('?') { '&' } else { '?' };
    let answer_url = format!("{}{separator}{}", account.answer_url, query(echo));

    let mut body = json!({
        "from": without_plus(request.from.as_str()),
        "to": without_plus(request.to.as_str()),
        "answer_url": answer_url,
        "answer_method": "POST",
        "ring_url": callback,
        "ring_method": "POST",
        "hangup_url": callback,
        "hangup_method": "POST",
    });
    if account.machine_detection
        && let Value::Object(body) = &mut body
    {
        // With a URL the detection is asynchronous: the person who answers hears the call at once.
        body.insert("machine_detection".to_owned(), "true".into());
        body.insert("machine_detection_url".to_owned(), callback.into());
        body.insert("machine_detection_method".to_owned(), "POST".into());
    }
    Some(ApiRequest::post_json(calls_path(account), basic(&account.auth_id, &account.auth_token), &body))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "request_uuid").map(|id| bounded("", id))
}

/// Reads the `error` of a response. Plivo documents no codes, so only a message that names the parameter `to` blames the number. A trial
/// account may call verified numbers only, so a message about verification says nothing about the number itself.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let messages = error_messages(body);
    let says = |words: &[&str]| messages.iter().any(|message| words.iter().any(|word| message.contains(word)));
    if says(&["concurrent call", "concurrency"]) {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if says(&["verified", "verify", "trial", "sandbox"]) {
        says(&["number", "'to'", "trial", "sandbox"]).then_some(Refusal::NumberOrAccount("trial_account"))
    } else if says(&["geo permission", "country", "barred"]) {
        Some(Refusal::NumberOrAccount("country_not_enabled"))
    } else if says(&["destination number", "to number", "`to`", "'to'"]) {
        Some(Refusal::Number("invalid_number"))
    } else if says(&["from parameter", "from number", "`from`", "'from'"]) {
        Some(Refusal::CallingNumber("invalid_calling_number"))
    } else {
        None
    }
}

/// Request of a search that waits for its response.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// Reads the call by its id.
    ById(Kind),
    /// Reads a page of a list. `offset` is the number of calls before it.
    List { list: List, offset: usize, found: Box<Found> },
    /// Reads a call that a list names, in the state of the list or in a later one. `offset` is the one of the next page.
    Listed { id: String, kind: Kind, list: List, offset: Option<usize>, found: Box<Found> },
}

/// State in which a call is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Queued,
    Live,
    Ended,
}

impl Kind {
    /// State that a call reaches after this one.
    const fn next(self) -> Option<Self> {
        match self {
            Self::Queued => Some(Self::Live),
            Self::Live => Some(Self::Ended),
            Self::Ended => None,
        }
    }

    const fn status(self) -> Option<&'static str> {
        match self {
            Self::Queued => Some("queued"),
            Self::Live => Some("live"),
            Self::Ended => None,
        }
    }
}

/// A list of the calls in one state, filtered by the called number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    kind: Kind,
    with_plus: bool,
}

impl List {
    const FIRST: Self = Self { kind: Kind::Queued, with_plus: false };

    /// The next list, in the order of a call's life. So a call that goes on during the search is not missed.
    const fn next(self) -> Option<Self> {
        match (self.with_plus, self.kind.next()) {
            (false, _) => Some(Self { with_plus: true, ..self }),
            (true, Some(kind)) => Some(Self { kind, with_plus: false }),
            (true, None) => None,
        }
    }
}

/// Calls that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Calls that may be ours, by their ids.
    candidates: BTreeMap<String, (Kind, Map<String, Value>)>,
    /// Ids of listed calls that are not read yet, the next one last.
    unread: Vec<String>,
    /// All ids that a list named. None is read twice.
    named: BTreeSet<String>,
    /// True if a call may be ours or not. Either it cannot be read, or its time has no zone or is later than the period, or its calling number
    /// is another one. Then nothing proves that there was no call, or only one.
    is_unclear: bool,
}

pub(crate) fn start_search(config: &AccountConfig, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    let account = PlivoAccount::of(config)?;
    match lookup.provider_call_id {
        Some(id) => Some((call_request(account, id, Kind::Live), Search::ById(Kind::Live))),
        None => first_list(account, lookup),
    }
}

/// Starts to read the lists. `None` if the numbers or the time of the dial are unknown.
fn first_list(account: &PlivoAccount, lookup: &Lookup<'_>) -> Option<(ApiRequest, Search)> {
    lookup.from?;
    let list = List::FIRST;
    Some((list_request(account, lookup, list, 0)?, Search::List { list, offset: 0, found: Box::default() }))
}

/// Reads a response. `body` is `None` if Plivo does not know the call.
pub(crate) fn next_step(
    config: &AccountConfig,
    lookup: &Lookup<'_>,
    search: Search,
    body: Option<&[u8]>,
) -> Step<Search> {
    let Some(account) = PlivoAccount::of(config) else { return Step::Answer(ParsedAnswer::Unreadable) };
    match search {
        Search::ById(kind) => by_id(account, lookup, kind, body),
        Search::List { list, offset, mut found } => {
            let Some(page) = body.and_then(object) else { return Step::Answer(ParsedAnswer::Unreadable) };
            let has_next = match list.kind {
                Kind::Queued | Kind::Live => {
                    let Some(ids) = listed_ids(&page) else { return Step::Answer(ParsedAnswer::Unreadable) };
                    let is_full = ids.len() >= PAGE_SIZE;
                    found.unread = ids.into_iter().filter(|id| found.named.insert(id.clone())).collect();
                    // Plivo documents no pages for these lists. If it ignores the offset, the next page would be the same again.
                    is_full && !found.unread.is_empty()
                }
                Kind::Ended => {
                    let Some((calls, has_next)) = records(page) else {
                        return Step::Answer(ParsedAnswer::Unreadable);
                    };
                    for call in calls {
                        found.consider(lookup, Kind::Ended, call);
                    }
                    has_next
                }
            };
            let offset = has_next.then(|| offset.saturating_add(PAGE_SIZE));
            read_on(account, lookup, list, offset, found)
        }
        Search::Listed { id, kind, list, offset, mut found } => {
            match (body.map(object), kind.next()) {
                (Some(Some(call)), _) => found.consider(lookup, kind, call),
                (Some(None), _) => return Step::Answer(ParsedAnswer::Unreadable),
                // It has gone on since it was listed.
                (None, Some(kind)) => {
                    let request = call_request(account, &id, kind);
                    return Step::Ask(request, Search::Listed { id, kind, list, offset, found });
                }
                (None, None) => found.is_unclear = true,
            }
            read_on(account, lookup, list, offset, found)
        }
    }
}

/// Reads the response about one id.
fn by_id(account: &PlivoAccount, lookup: &Lookup<'_>, kind: Kind, body: Option<&[u8]>) -> Step<Search> {
    let Some(id) = lookup.provider_call_id else { return Step::Answer(ParsedAnswer::Unreadable) };
    if let Some(body) = body {
        let call = object(body);
        return Step::Answer(match call.as_ref().filter(|call| has_id(call, id)) {
            Some(call) => parse_call(kind, call, lookup.ids_query()),
            None => ParsedAnswer::Unreadable,
        });
    }
    // A call that ends between two requests is found by the later one. A queued call that goes on is found next time.
    let next = match kind {
        Kind::Live => Kind::Ended,
        Kind::Ended => Kind::Queued,
        Kind::Queued => {
            // Plivo's own id of the request may not be the id of the call.
            return match first_list(account, lookup) {
                Some((request, search)) => Step::Ask(request, search),
                None => Step::Answer(ParsedAnswer::Gone),
            };
        }
    };
    Step::Ask(call_request(account, id, next), Search::ById(next))
}

/// Reads the next listed call, the next page, or the next list. Without any, the search is over.
fn read_on(
    account: &PlivoAccount,
    lookup: &Lookup<'_>,
    list: List,
    offset: Option<usize>,
    mut found: Box<Found>,
) -> Step<Search> {
    if let Some(id) = found.unread.pop() {
        let kind = list.kind;
        return Step::Ask(call_request(account, &id, kind), Search::Listed { id, kind, list, offset, found });
    }
    let next = match offset {
        Some(offset) => Some((list, offset)),
        None => list.next().map(|list| (list, 0)),
    };
    let Some((list, offset)) = next else { return Step::Answer(found.answer(lookup)) };
    match list_request(account, lookup, list, offset) {
        Some(request) => Step::Ask(request, Search::List { list, offset, found }),
        None => Step::Answer(ParsedAnswer::Unreadable),
    }
}

impl Found {
    /// Keeps the call if it may be ours.
    fn consider(&mut self, lookup: &Lookup<'_>, kind: Kind, call: Map<String, Value>) {
        let is_number = |names: [&str; 2], asked: Option<&PhoneNumber>| {
            let shown = names.into_iter().find_map(|name| text(&call, name)).map(without_plus);
            shown.map(|shown| asked.is_some_and(|asked| shown == without_plus(asked.as_str())))
        };
        let (from, to) = (["from_number", "from"], ["to_number", "to"]);
        let created = text(&call, "initiation_time").or_else(|| text(&call, "session_start"));
        let created_at = created.and_then(parse_time);
        let period = lookup.period();
        let is_in_period = match (created_at, period) {
            (Some(at), Some(period)) if period.contains(at) => Some(true),
            (Some(_), Some(_)) if created.is_some_and(has_offset) => Some(false),
            (Some(_) | None, Some(_) | None) => None,
        };
        let has_our_id = lookup.provider_call_id.is_some_and(|id| has_id(&call, id));
        let is_between = is_number(from, lookup.from) == Some(true) && is_number(to, lookup.to) == Some(true);
        // Plivo starts two calls per second by default, so a dial behind many others waits longer than the period.
        let may_have_waited = is_between && period.zip(created_at).is_some_and(|(period, at)| at > period.until);
        // Another call dialled this one, or it is to another number, or of another time.
        let is_of_others = text(&call, "parent_call_uuid").is_some()
            || is_number(to, lookup.to) == Some(false)
            || (is_in_period == Some(false) && !may_have_waited);
        if is_of_others && !has_our_id {
            return;
        }
        let may_be_ours = is_between && is_in_period == Some(true);
        // It belongs to another request than ours. But nothing says that a request and its call have one id.
        let is_of_other_request = lookup.provider_call_id.is_some() && text(&call, "request_uuid").is_some();
        match text(&call, "call_uuid").or_else(|| text(&call, "request_uuid")) {
            Some(id) if has_our_id || (may_be_ours && !is_of_other_request) => {
                self.candidates.insert(id.to_owned(), (kind, call));
            }
            Some(_) | None => self.is_unclear = true,
        }
    }

    /// Decides between the calls that may be ours. The one that has the id of our dial is ours. Without that id, one is ours if it is the
    /// only one.
    fn answer(mut self, lookup: &Lookup<'_>) -> ParsedAnswer {
        let is_asked = |call: &Map<String, Value>| lookup.provider_call_id.is_some_and(|id| has_id(call, id));
        if let Some((kind, call)) = self.candidates.values().find(|(_, call)| is_asked(call)) {
            return parse_call(*kind, call, lookup.ids_query());
        }
        match (self.candidates.len(), self.candidates.pop_first()) {
            (1, Some((_, (kind, call)))) if !self.is_unclear => parse_call(kind, &call, lookup.ids_query()),
            (2.., Some(_)) => ParsedAnswer::Undecided("several_calls"),
            (_, _) if self.is_unclear => ParsedAnswer::Undecided("unclear_calls"),
            (_, _) if lookup.provider_call_id.is_some() => ParsedAnswer::Gone,
            (_, _) if !lookup.is_filtered_by_numbers() => SIP_ADDRESS,
            (_, _) => ParsedAnswer::NotFound,
        }
    }
}

/// True if Plivo shows the call under this id. Nothing says that the id of a request is the one of its call.
fn has_id(call: &Map<String, Value>, id: &str) -> bool {
    [text(call, "call_uuid"), text(call, "request_uuid")].contains(&Some(id))
}

/// Lists the records of the calls that ended since the start of the period.
pub(crate) fn discovery_request(config: &AccountConfig, period: Period, page: Option<&str>) -> Option<ApiRequest> {
    let account = PlivoAccount::of(config)?;
    let since = list_time(period.from);
    let (limit, offset) = (PAGE_SIZE.to_string(), page.unwrap_or("0"));
    let filters = query([("end_time__gte", since.as_str()), ("limit", &limit), ("offset", offset)]);
    Some(get(account, format!("{}?{filters}", calls_path(account))))
}

/// Reads one page. Calls that another call dialled are left out. The ids that we gave to a call are not in the list.
pub(crate) fn parse_page(body: &[u8], period: Period, page: Option<&str>) -> Option<ParsedPage> {
    let offset: usize = page.map_or(Some(0), |page| page.parse().ok())?;
    let (calls, has_next) = records(object(body)?)?;
    let next_page = has_next.then(|| offset.saturating_add(PAGE_SIZE).to_string());
    let wanted = calls.iter().filter(|call| {
        let created_at = text(call, "initiation_time").and_then(parse_time);
        text(call, "parent_call_uuid").is_none() && created_at.is_some_and(|at| period.contains(at))
    });
    Some((endings(wanted.map(|call| parse_call(Kind::Ended, call, String::new()))), next_page))
}

fn calls_path(account: &PlivoAccount) -> String {
    format!("/v1/Account/{}/Call/", encoded(&account.auth_id))
}

fn get(account: &PlivoAccount, path: String) -> ApiRequest {
    ApiRequest::get(path, basic(&account.auth_id, &account.auth_token))
}

fn call_request(account: &PlivoAccount, id: &str, kind: Kind) -> ApiRequest {
    let status = kind.status().map(|status| format!("?status={status}")).unwrap_or_default();
    get(account, format!("{}{}/{status}", calls_path(account), encoded(id)))
}

/// `None` if the called number or the time of the dial is unknown.
fn list_request(account: &PlivoAccount, lookup: &Lookup<'_>, list: List, offset: usize) -> Option<ApiRequest> {
    let to = without_plus(lookup.to?.as_str());
    let to = if list.with_plus { format!("+{to}") } else { to.to_owned() };
    let (limit, offset) = (PAGE_SIZE.to_string(), offset.to_string());
    let since = list_time(created_from(lookup.dialled_at?));
    let state = match list.kind.status() {
        Some(status) => ("status", status),
        None => ("end_time__gte", since.as_str()),
    };
    let filters = query([state, ("to_number", &to), ("limit", &limit), ("offset", &offset)]);
    Some(get(account, format!("{}?{filters}", calls_path(account))))
}

/// Time in a filter: UTC, with a resolution of one second.
fn list_time(time: Timestamp) -> String {
    let time = time.to_string();
    time.split('.').next().unwrap_or(&time).trim_end_matches('Z').replace('T', " ")
}

/// Ids of a list of queued or live calls. `None` if this is no list.
fn listed_ids(page: &Map<String, Value>) -> Option<Vec<String>> {
    let ids = page.get("calls")?.as_array()?;
    ids.iter().map(|id| id.as_str().map(str::to_owned)).collect()
}

/// Records of a page, and whether another page follows. `None` if this is no page of records.
fn records(mut page: Map<String, Value>) -> Option<(Vec<Map<String, Value>>, bool)> {
    let Some(Value::Array(calls)) = page.remove("objects") else { return None };
    let has_next = page.get("meta")?.get("next").is_some_and(|next| !next.is_null());
    Some((objects(calls).collect(), has_next))
}

/// Reads a call. `ids` is the query of the callback that would report its ending.
fn parse_call(kind: Kind, call: &Map<String, Value>, ids: String) -> ParsedAnswer {
    let Some(id) = text(call, "call_uuid").or_else(|| text(call, "request_uuid")) else {
        return ParsedAnswer::Unreadable;
    };
    match kind {
        Kind::Queued | Kind::Live => ParsedAnswer::Alive { provider_call_id: bounded("", id) },
        Kind::Ended if text(call, "end_time").is_none() => ParsedAnswer::Unreadable,
        Kind::Ended => match record_status(call) {
            Some(status) => {
                ParsedAnswer::Ended { others: Vec::new(), query: ids, body: callback(call, status).into_bytes() }
            }
            None => ParsedAnswer::UnknownValue("hangup_cause_code"),
        },
    }
}

/// `CallStatus` of a record, which has none. A call that nobody answered ended for the reason in its hangup cause: see
/// <https://www.plivo.com/docs/voice/troubleshooting/hangup-causes/>.
fn record_status(call: &Map<String, Value>) -> Option<CallStatus> {
    let cause = hangup_cause(call);
    let is_billed = billed_seconds(call).is_some();
    // Plivo or its network ended the call. The callback of such a call says `failed`.
    if is_billed && cause.is_some_and(|cause| is_canceled_by_plivo(cause) || (5000..6000).contains(&cause)) {
        return Some(CallStatus::Failed);
    }
    if is_billed || text(call, "answer_time").is_some() || text(call, "call_state") == Some("ANSWER") {
        return Some(CallStatus::Completed);
    }
    match cause? {
        0 => Some(CallStatus::Ended),
        // A machine answered, or another leg of the same dial. Plivo asks for the instructions of an outbound call after its answer.
        9000 | 9100 => Some(CallStatus::Ended),
        7011 | 8011 if text(call, "call_direction") == Some("outbound") => Some(CallStatus::Ended),
        1000 => Some(CallStatus::Cancel),
        cause if is_canceled_by_plivo(cause) => Some(CallStatus::Failed),
        // Errors of the request, of a network, of the answer URL or its XML, and of Plivo.
        2000..=2070 | 3030..=3090 | 3120..=3140 | 5000..=5020 | 7011 | 8011 => Some(CallStatus::Failed),
        3010 | 3020 | 3100 | 3110 => Some(CallStatus::Busy),
        // Nobody answered within the ring timeout, whose end Plivo or the network noticed.
        3000 | 6010 => Some(CallStatus::NoAnswer),
        _ => None,
    }
}

fn hangup_cause(call: &Map<String, Value>) -> Option<u64> {
    call.get("hangup_cause_code")?.as_u64()
}

/// Seconds that Plivo bills. `None` if it bills none.
fn billed_seconds(call: &Map<String, Value>) -> Option<String> {
    let seconds = match call.get("bill_duration")? {
        Value::Number(seconds) => seconds.to_string(),
        Value::String(seconds) => seconds.clone(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    lenient::is_positive(Some(&seconds)).then_some(seconds)
}

/// Callback that reports the ending of a record. It contains only fields that never change after the call, and times in UTC, because
/// the record has them in the time zone of the account.
fn callback(call: &Map<String, Value>, status: CallStatus) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Event", CALL_RECORD).append_pair("CallStatus", status.name());
    if let Some(seconds) = billed_seconds(call) {
        form.append_pair("BillDuration", &seconds);
    }
    // The cause of another status says no more than the status.
    if let Some(cause) = hangup_cause(call).filter(|_| status == CallStatus::Failed) {
        form.append_pair("HangupCauseCode", &cause.to_string());
    }
    for (name, field) in
        [("CallUUID", "call_uuid"), ("Direction", "call_direction"), ("From", "from_number"), ("To", "to_number")]
    {
        if let Some(value) = text(call, field) {
            form.append_pair(name, value);
        }
    }
    for (name, field) in [("StartTime", "initiation_time"), ("AnswerTime", "answer_time"), ("EndTime", "end_time")] {
        if let Some(time) = text(call, field).and_then(parse_time) {
            form.append_pair(name, &time.to_string());
        }
    }
    form.finish()
}
