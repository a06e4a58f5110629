//! Twilio's API.
//!
//! * Dial: `POST /2010-04-01/Accounts/{account}/Calls.json`. Twilio has no idempotency key for it.
//! * Lookup: `GET /2010-04-01/Accounts/{account}/Calls/{sid}.json`. Without the sid, a call cannot be found.
//!
//! Twilio stores no metadata. Our ids are in the query of the callback URLs, which Twilio signs.

use serde_json::{Map, Value};

use super::payload::{CallStatus, parse_time};
use crate::api::{ApiRequest, basic, encoded, object, query, text};
use crate::config::{Account, ProviderConfig, TwilioAccount};
use crate::dial::{DialRequest, Refusal};
use crate::ids::bounded;
use crate::lookup::{Lookup, ParsedAnswer};

const CALLBACK_PATH: &str = "/webhooks/twilio";

/// Five retries, after every kind of failure. By default, Twilio never repeats a callback that was answered with an
/// error.
const CALLBACK_RETRIES: &str = "rc=5&rp=all";

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = query(request.metadata_to_echo());
    let callback = format!("{}{CALLBACK_PATH}?{echo}#{CALLBACK_RETRIES}", config.public_url()?);
    // The application that answers with TwiML gets the metadata here. Other providers give it to their agent.
    let separator = if account.twiml_url.contains('?') { '&' } else { '?' };
    let twiml_url = format!("{}{separator}{echo}", account.twiml_url);

    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("To", request.to.as_str());
    form.append_pair("From", request.from.as_str());
    form.append_pair("Url", &twiml_url);
    form.append_pair("StatusCallback", &callback);
    form.append_pair("StatusCallbackMethod", "POST");
    for event in ["initiated", "ringing", "answered", "completed"] {
        form.append_pair("StatusCallbackEvent", event);
    }
    if account.machine_detection {
        // Asynchronous detection: the person who answers hears the call at once, not after the detection.
        form.append_pair("MachineDetection", "Enable");
        form.append_pair("AsyncAmd", "true");
        form.append_pair("AsyncAmdStatusCallback", &callback);
        form.append_pair("AsyncAmdStatusCallbackMethod", "POST");
    }
    Some(ApiRequest::post(
        format!("/2010-04-01/Accounts/{}/Calls.json", encoded(&account.account_sid)),
        basic(&account.user, &account.password),
        "application/x-www-form-urlencoded",
        form.finish(),
    ))
}

pub(crate) fn dialled_call_id(body: &[u8]) -> Option<String> {
    text(&object(body)?, "sid").map(|id| bounded("", id))
}

/// Reads the `code` of an error. A code that is not listed counts as one of the account, for example 20003 (login),
/// 21210 and 21212 (calling number), 21215 (country not enabled) and 21219 (trial account).
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    match object(body)?.get("code")?.as_u64()? {
        // Invalid, not reachable, a premium number, or a number that Twilio does not support.
        13_223..=13_226 | 21_201 | 21_202 | 21_211 | 21_214 | 21_217 | 21_401 => {
            Some(Refusal::Number("invalid_number"))
        }
        21_216 => Some(Refusal::Number("blocked_number")),
        10_004 | 20_429 => Some(Refusal::Capacity("concurrency_limit")),
        20_003 => Some(Refusal::Account("unauthorized")),
        21_210 | 21_212 | 21_213 => Some(Refusal::Account("invalid_calling_number")),
        21_215 => Some(Refusal::Account("country_not_enabled")),
        21_219 => Some(Refusal::Account("trial_account")),
        _ => None,
    }
}

pub(crate) fn lookup_api_request(config: &ProviderConfig, lookup: &Lookup<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let call_sid = encoded(lookup.provider_call_id?);
    let path = format!("/2010-04-01/Accounts/{}/Calls/{call_sid}.json", encoded(&account.account_sid));
    Some(ApiRequest::get(path, basic(&account.user, &account.password)))
}

pub(crate) fn parse_lookup_answer(lookup: &Lookup<'_>, body: &[u8]) -> ParsedAnswer {
    let Some(call) = object(body) else {
        return ParsedAnswer::Unreadable;
    };
    let (Some(call_sid), Some(status)) = (text(&call, "sid"), text(&call, "status")) else {
        return ParsedAnswer::Unreadable;
    };
    if lookup.provider_call_id != Some(call_sid) {
        return ParsedAnswer::Unreadable;
    }
    match CallStatus::from_name(status) {
        CallStatus::Queued | CallStatus::Initiated | CallStatus::Ringing | CallStatus::InProgress => {
            ParsedAnswer::Alive { provider_call_id: bounded("", call_sid) }
        }
        CallStatus::Completed | CallStatus::Busy | CallStatus::NoAnswer | CallStatus::Failed | CallStatus::Canceled => {
            ParsedAnswer::Ended { query: ids_query(lookup), body: callback(&call).into_bytes() }
        }
        CallStatus::Other => ParsedAnswer::Unreadable,
    }
}

/// Our ids, as in the query of a callback URL.
fn ids_query(lookup: &Lookup<'_>) -> String {
    query([("switchhook_call_id", lookup.call_id.as_str()), ("switchhook_attempt", lookup.attempt.as_str())])
}

/// Status callback that reports the same ending as the API. The event id contains a hash of these bytes, so they
/// contain only fields that never change after the call. Twilio's own callbacks have a sequence number, but the API
/// does not return it.
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
    if let Some(ended_at) = text(call, "end_time").filter(|text| parse_time(text).is_some()) {
        form.append_pair("Timestamp", ended_at);
    }
    form.finish()
}

fn account(config: &ProviderConfig) -> Option<&TwilioAccount> {
    match config.dial()?.account() {
        Account::Twilio(account) => Some(account),
        Account::Retell(_) | Account::Vapi(_) | Account::Telnyx(_) => None,
    }
}
