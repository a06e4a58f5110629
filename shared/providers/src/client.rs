//! What a provider is asked and told over its API, as data: requests to send, and what the answers say. Whoever carries them out has
//! the connection, the clock and the limits.
//!
//! **What is asked about comes back as a webhook.** The answer to a lookup is put into the words of the same provider's webhook, so
//! that it is stored, read and replayed as every other event. Nothing is put in that the answer does not say, and the event's id is
//! made of what it says: asking twice gives one event, and where the webhook's own id can be known (Retell, Vapi), that very id.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider, ProviderEvent, Timestamp};
use thiserror::Error;

use crate::config::ProviderConfig;
use crate::correlation::EchoedIds;
use crate::ids::bounded;
use crate::key::Key;
use crate::reading::{Reading, read};
use crate::webhook::VerifiedWebhook;
use crate::{retell, telnyx, twilio, vapi};

/// Longer waits are cut to this: what a provider asks for decides when somebody is called.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// What needs no encoding in a path segment or in a query, whoever reads it.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The names that are not for metadata: those that only we give, and the one by which Twilio says that a body is JSON.
const APPOINTMENT_ID: &str = "appointment_id";
const RESERVED: [&str; 2] = [APPOINTMENT_ID, twilio::BODY_HASH];
const RESERVED_PREFIX: &str = "switchhook_";

/// Everything that a provider is told when it places a call. `Debug` hides the numbers and the metadata.
#[derive(Clone, Copy)]
pub struct DialRequest<'a> {
    pub call_id: &'a CallId,
    pub attempt: &'a AttemptKey,
    /// Policy allows no attempt after this one, whatever becomes of it: the agent may want to say so.
    pub last_attempt: bool,
    pub from: &'a PhoneNumber,
    pub to: &'a PhoneNumber,
    pub appointment_id: Option<&'a str>,
    /// Passed on as it is, but for names that are reserved: `appointment_id`, `bodySHA256`, and all that
    /// begin with `switchhook_`.
    pub metadata: &'a BTreeMap<String, String>,
    /// Unique for this very dial, and the same if its request is sent again: Telnyx ignores the second within a minute.
    pub dial_key: &'a str,
}

impl fmt::Debug for DialRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialRequest")
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .field("last_attempt", &self.last_attempt)
            .finish_non_exhaustive()
    }
}

impl DialRequest<'_> {
    /// What the provider is to echo, and to tell its agent: the metadata, with our own names put in last.
    pub(crate) fn metadata_to_echo(&self) -> BTreeMap<&str, &str> {
        let metadata = self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut echo: BTreeMap<&str, &str> = metadata.filter(|(name, _)| !is_reserved(name)).collect();
        echo.insert("switchhook_call_id", self.call_id.as_str());
        echo.insert("switchhook_attempt", self.attempt.as_str());
        echo.insert("switchhook_last_attempt", if self.last_attempt { "true" } else { "false" });
        if let Some(appointment_id) = self.appointment_id {
            echo.insert(APPOINTMENT_ID, appointment_id);
        }
        echo
    }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX)
}

/// A request to a provider's API, to be sent to [`api_url`] (or whatever stands in for it) followed by `path`. `Debug` hides headers
/// and body.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiRequest {
    pub method: Method,
    /// Begins with a slash; with the query, if there is one.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl ApiRequest {
    pub(crate) fn get(path: String, authorization: String) -> Self {
        let headers = vec![("authorization", authorization), ("accept", "application/json".to_owned())];
        Self { method: Method::GET, path, headers, body: Vec::new() }
    }

    pub(crate) fn post_json(path: String, authorization: String, body: &Value) -> Self {
        Self::post(path, authorization, "application/json", body.to_string())
    }

    pub(crate) fn post(path: String, authorization: String, content_type: &str, body: String) -> Self {
        let headers = vec![
            ("authorization", authorization),
            ("accept", "application/json".to_owned()),
            ("content-type", content_type.to_owned()),
        ];
        Self { method: Method::POST, path, headers, body: body.into_bytes() }
    }
}

impl fmt::Debug for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiRequest")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why there is no request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The provider has no `dial` in its configuration, or no API (generic).
    #[error("the provider is not configured to place calls")]
    DialUnsupported,
    /// There is no way to ask: no API, no `dial` in the configuration, or nothing to find the call by.
    #[error("the provider cannot be asked about this call")]
    LookupUnsupported,
}

/// Where the provider's API is. None: it has none.
#[must_use]
pub const fn api_url(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Retell => Some("https://api.retellai.com"),
        Provider::Twilio => Some("https://api.twilio.com"),
        Provider::Vapi => Some("https://api.vapi.ai"),
        Provider::Telnyx => Some("https://api.telnyx.com"),
        Provider::Generic => None,
    }
}

/// The request that places a call.
///
/// # Errors
///
/// [`ClientError::DialUnsupported`].
pub fn dial_api_request(
    provider: Provider,
    config: &ProviderConfig,
    request: &DialRequest<'_>,
) -> Result<ApiRequest, ClientError> {
    let request = match provider {
        Provider::Retell => retell::dial_api_request(config, request),
        Provider::Twilio => twilio::dial_api_request(config, request),
        Provider::Vapi => vapi::dial_api_request(config, request),
        Provider::Telnyx => telnyx::dial_api_request(config, request),
        Provider::Generic => None,
    };
    request.ok_or(ClientError::DialUnsupported)
}

/// What the provider's answer to a dial says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialAnswer {
    Accepted {
        provider_call_id: String,
    },
    /// Nothing was dialled, and later may help: it was too much at once, or an operator must mend the account.
    RetryLater {
        reason: &'static str,
        /// As the provider asks, an hour at most.
        retry_after: Option<Duration>,
    },
    /// Nothing was dialled, and the same request never will be: it is itself wrong.
    Rejected {
        reason: &'static str,
    },
    /// It may have been dialled.
    InDoubt,
}

/// What the provider's answer to a dial says. `retry_after` is the header of that name; a date in it is not read.
///
/// Only what says for certain that nothing was dialled counts as that. No provider documents a server error as such, so all of them
/// are [`DialAnswer::InDoubt`].
#[must_use]
pub fn read_dial_answer(provider: Provider, status: u16, retry_after: Option<&str>, body: &[u8]) -> DialAnswer {
    let not_now = |reason| DialAnswer::RetryLater { reason, retry_after: retry_after.and_then(parse_retry_after) };
    match status {
        200..=299 => {
            let provider_call_id = match provider {
                Provider::Retell => retell::dialled_call_id(body),
                Provider::Twilio => twilio::dialled_call_id(body),
                Provider::Vapi => vapi::dialled_call_id(body),
                Provider::Telnyx => telnyx::dialled_call_id(body),
                Provider::Generic => None,
            };
            provider_call_id.map_or(DialAnswer::InDoubt, |provider_call_id| DialAnswer::Accepted { provider_call_id })
        }
        400 => DialAnswer::Rejected { reason: "bad_request" },
        401 => not_now("unauthorized"),
        402 => not_now("payment_required"),
        403 => not_now("forbidden"),
        404 => not_now("not_found"),
        422 => DialAnswer::Rejected { reason: "unprocessable" },
        429 => not_now("rate_limited"),
        _ => DialAnswer::InDoubt,
    }
}

/// Whole seconds.
fn parse_retry_after(header: &str) -> Option<Duration> {
    header.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// The id of the call that an attempt's events make where they carry none of ours: under it the alias of the attempt stands.
#[must_use]
pub fn derived_call_id(provider: Provider, provider_call_id: &str) -> String {
    bounded(&format!("{provider}:"), provider_call_id)
}

/// Of which attempt we ask.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    pub call_id: &'a CallId,
    pub attempt: &'a AttemptKey,
    /// None: the provider's answer to the dial was lost, and all there is to find the call by are our ids.
    pub provider_call_id: Option<&'a str>,
    /// By our clock, when the dial was sent; none if it was not us who dialled.
    pub dialled_at: Option<Timestamp>,
}

impl Lookup<'_> {
    /// True if the provider echoes our ids of this very attempt.
    pub(crate) fn is_about(&self, echo: &EchoedIds) -> bool {
        echo.switchhook_call_id.as_deref() == Some(self.call_id.as_str())
            && echo.switchhook_attempt.as_deref() == Some(self.attempt.as_str())
    }
}

/// The request that asks about an attempt: by the provider's call id if it is known, else by our own ids.
///
/// # Errors
///
/// [`ClientError::LookupUnsupported`]: generic; Twilio and Telnyx without the provider's call id; Vapi without that and without the time
/// of the dial.
pub fn lookup_api_request(
    provider: Provider,
    config: &ProviderConfig,
    lookup: &Lookup<'_>,
) -> Result<ApiRequest, ClientError> {
    let request = match provider {
        Provider::Retell => retell::lookup_api_request(config, lookup),
        Provider::Twilio => twilio::lookup_api_request(config, lookup),
        Provider::Vapi => vapi::lookup_api_request(config, lookup),
        Provider::Telnyx => telnyx::lookup_api_request(config, lookup),
        Provider::Generic => None,
    };
    request.ok_or(ClientError::LookupUnsupported)
}

/// What the provider's answer to a lookup says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupAnswer {
    /// How the call ended, in the words of a webhook: to be stored (query, body) and folded.
    Ended {
        webhook: VerifiedWebhook,
        /// What [`read`] makes of it, now and from the inbox.
        event: Box<ProviderEvent>,
    },
    /// The call is not over.
    Alive { provider_call_id: String },
    /// No call bears our ids. Only said of an attempt whose provider call id is unknown: a call that was placed and is no longer
    /// known (Telnyx forgets after ten minutes) has not become one that never was.
    NotFound,
    /// The provider knows no call under the id that we asked by: it was placed, and is forgotten by now.
    Gone,
    /// The answer says nothing: ask again later.
    RetryLater { reason: &'static str },
}

/// What the provider's answer to a lookup says. `received_at` is ours, of now.
#[must_use]
pub fn read_lookup_answer(
    provider: Provider,
    lookup: &Lookup<'_>,
    status: u16,
    body: &[u8],
    received_at: Timestamp,
) -> LookupAnswer {
    match StatusCode::from_u16(status) {
        Ok(status) if status.is_success() => {}
        Ok(StatusCode::NOT_FOUND) => return LookupAnswer::Gone,
        Ok(StatusCode::TOO_MANY_REQUESTS) => return LookupAnswer::RetryLater { reason: "rate_limited" },
        Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            return LookupAnswer::RetryLater { reason: "unauthorized" };
        }
        Ok(_) | Err(_) => return LookupAnswer::RetryLater { reason: "failed" },
    }
    let answer = match provider {
        Provider::Retell => retell::parse_lookup_answer(lookup, body),
        Provider::Twilio => twilio::parse_lookup_answer(lookup, body),
        Provider::Vapi => vapi::parse_lookup_answer(lookup, body),
        Provider::Telnyx => telnyx::parse_lookup_answer(lookup, body),
        Provider::Generic => ParsedAnswer::Unreadable,
    };
    match answer {
        ParsedAnswer::Ended { query, body } => {
            let webhook = VerifiedWebhook::from_lookup_answer(provider, &query, body);
            match read(&webhook, received_at) {
                Reading::Event(event) => LookupAnswer::Ended { webhook, event: Box::new(event) },
                Reading::Recorded { .. } | Reading::Quarantined { .. } => {
                    LookupAnswer::RetryLater { reason: "unreadable" }
                }
            }
        }
        ParsedAnswer::Alive { provider_call_id } => LookupAnswer::Alive { provider_call_id },
        ParsedAnswer::NotFound => LookupAnswer::NotFound,
        ParsedAnswer::NotOnFirstPage => LookupAnswer::RetryLater { reason: "too_many" },
        ParsedAnswer::Unreadable => LookupAnswer::RetryLater { reason: "unreadable" },
    }
}

/// What a provider's answer says, before it is read as a webhook.
pub(crate) enum ParsedAnswer {
    Ended {
        query: String,
        body: Vec<u8>,
    },
    Alive {
        provider_call_id: String,
    },
    NotFound,
    /// None of those on the first page, and there are more.
    NotOnFirstPage,
    Unreadable,
}

pub(crate) fn bearer(key: &Key) -> String {
    format!("Bearer {}", key.as_str())
}

pub(crate) fn basic(user: &str, password: &Key) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.as_str())))
}

pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// `name=value&…`, decoded alike by whoever decodes it: a space is `%20`.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

/// A JSON object, else nothing.
pub(crate) fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Some(object),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => None,
    }
}

/// A text of an object that is not blank.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

/// An object as JSON object of texts.
pub(crate) fn json_object(pairs: &BTreeMap<&str, &str>) -> Value {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// What an object of an answer echoes.
pub(crate) fn echoed_ids(value: Option<&Value>) -> EchoedIds {
    value
        .filter(|value| value.is_object())
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_seconds_and_an_hour_at_most() {
        assert_eq!(parse_retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse_retry_after(" 0 "), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("99999999999"), Some(RETRY_AFTER_MAX));
        for other in ["", "-1", "1.5", "soon", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            assert_eq!(parse_retry_after(other), None, "{other}");
        }
    }

    #[test]
    fn queries_are_decoded_to_what_they_were_made_of() {
        let pairs = [("a b", "1+1=2&#"), ("é", "/?%20'*~")];
        let query = query(pairs);
        assert_eq!(query, "a%20b=1%2B1%3D2%26%23&%C3%A9=%2F%3F%2520%27%2A~");
        let decoded: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!(decoded, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
