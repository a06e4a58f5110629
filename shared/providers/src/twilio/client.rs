//! Placing calls and asking about them at Twilio: `POST …/Calls.json`, `GET …/Calls/{sid}.json`.
//!
//! Twilio keeps nothing for us, so our ids go into the query of the callback URLs, which Twilio signs. A call whose id is not known
//! cannot be found again. There is no idempotency key.

use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::{Map, Value};

use super::payload::CallStatus;
use crate::client::{ApiRequest, DialRequest, Lookup, ParsedAnswer, basic, encoded, object, query, text};
use crate::config::{Account, DialFields, ProviderConfig};
use crate::ids::bounded;
use crate::key::Key;

const CALLBACK_PATH: &str = "/webhooks/twilio";

/// Five retries on every failure. By default Twilio loses a callback that is answered by an error.
const CALLBACK_RETRIES: &str = "rc=5&rp=all";

#[derive(Clone)]
pub(crate) struct TwilioAccount {
    account_sid: String,
    /// The account or an API key.
    user: String,
    password: Key,
    twiml_url: String,
    machine_detection: bool,
}

impl TwilioAccount {
    pub(crate) const FIELDS: &str =
        "account_sid, auth_token (or api_key_sid and api_key_secret), twiml_url, machine_detection";

    pub(crate) fn read(fields: &mut DialFields<'_, '_>) -> Option<Self> {
        let account_sid = fields.text("account_sid");
        let login = if fields.has("api_key_sid") || fields.has("api_key_secret") {
            if fields.has("auth_token") {
                fields.problem("auth_token", "not beside api_key_sid and api_key_secret");
            }
            (fields.text("api_key_sid"), fields.key("api_key_secret"))
        } else {
            (account_sid.clone(), fields.key("auth_token"))
        };
        // With an application, Twilio takes the application's callbacks and ignores those of the request.
        if fields.has("application_sid") {
            fields
                .problem("application_sid", "not supported: Twilio then ignores the callback URL that carries our ids");
        }
        let twiml_url = fields.url("twiml_url");
        let machine_detection = fields.flag("machine_detection").unwrap_or(false);
        let (user, password) = login;
        Some(Self {
            account_sid: account_sid?,
            user: user?,
            password: password?,
            twiml_url: twiml_url?,
            machine_detection,
        })
    }
}

pub(crate) fn dial_api_request(config: &ProviderConfig, request: &DialRequest<'_>) -> Option<ApiRequest> {
    let account = account(config)?;
    let echo = query(request.metadata_to_echo());
    let callback = format!("{}{CALLBACK_PATH}?{echo}#{CALLBACK_RETRIES}", config.public_url()?);
    // What the agent is told elsewhere, the application that answers with TwiML is told here.
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
        // Asynchronous: whoever answers hears somebody at once.
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
            ParsedAnswer::Ended { query: lookup_ids(lookup), body: callback(&call).into_bytes() }
        }
        CallStatus::Other => ParsedAnswer::Unreadable,
    }
}

fn lookup_ids(lookup: &Lookup<'_>) -> String {
    query([("switchhook_call_id", lookup.call_id.as_str()), ("switchhook_attempt", lookup.attempt.as_str())])
}

/// The status callback that says the same. Only what a call that is over keeps for ever is in it, because the event's id is made of
/// these bytes: Twilio numbers its own callbacks, and the number is not in the answer.
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
    if let Some(ended_at) = text(call, "end_time").filter(|text| is_time(text)) {
        form.append_pair("Timestamp", ended_at);
    }
    form.finish()
}

fn is_time(text: &str) -> bool {
    const PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text).is_ok()
}

fn account(config: &ProviderConfig) -> Option<&TwilioAccount> {
    match config.dial()?.account() {
        Account::Twilio(account) => Some(account),
        Account::Retell(_) | Account::Vapi(_) | Account::Telnyx(_) => None,
    }
}
