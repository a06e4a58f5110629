//! HTTP requests to the providers' APIs, and helpers to write them and to read the responses.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use switchhook_domain::{Provider, Timestamp};
use thiserror::Error;

use crate::config::AccountConfig;
use crate::correlation::EchoedIds;
use crate::json;
use crate::jwt::TokenLogin;
use crate::key::Key;

/// Characters that stay as they are in a path segment and in a query. Every decoder reads the result alike.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const AUTHORIZATION: &str = "authorization";

/// Base URL of a provider's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiUrl {
    /// Every account has the same.
    Fixed(&'static str),
    /// The provider has one in each of its regions. An account has the first, unless `dial.api_url` names another one.
    OfRegion(&'static [&'static str]),
    /// Each account has its own, which its configuration names in `dial.api_url`. See [`ApiRequest::base_url`].
    OfAccount,
}

/// <https://www.twilio.com/docs/global-infrastructure/using-the-twilio-rest-api-in-a-non-us-region>
const TWILIO_URLS: [&str; 3] =
    ["https://api.twilio.com", "https://api.dublin.ie1.twilio.com", "https://api.sydney.au1.twilio.com"];
/// <https://docs.vapi.ai/security-and-privacy/eu-region>
const VAPI_URLS: [&str; 2] = ["https://api.vapi.ai", "https://api.eu.vapi.ai"];
/// Servers in the API reference of ElevenLabs.
const ELEVENLABS_URLS: [&str; 5] = [
    "https://api.elevenlabs.io",
    "https://api.us.elevenlabs.io",
    "https://api.eu.residency.elevenlabs.io",
    "https://api.in.residency.elevenlabs.io",
    "https://api.sg.residency.elevenlabs.io",
];

/// Base URL of the provider's API. `None` if the provider has no API that Switchhook can use (Daily, generic, and configured ones).
#[must_use]
pub fn api_url(provider: Provider) -> Option<ApiUrl> {
    let url = match provider.vendor() {
        Provider::Retell => "https://api.retellai.com",
        Provider::Twilio => return Some(ApiUrl::OfRegion(&TWILIO_URLS)),
        Provider::Vapi => return Some(ApiUrl::OfRegion(&VAPI_URLS)),
        Provider::Telnyx => "https://api.telnyx.com",
        Provider::ElevenLabs => return Some(ApiUrl::OfRegion(&ELEVENLABS_URLS)),
        Provider::Plivo => "https://api.plivo.com",
        Provider::Vonage => "https://api.nexmo.com",
        Provider::Bland => "https://api.bland.ai",
        Provider::SignalWire => return Some(ApiUrl::OfAccount),
        Provider::LiveKit => return Some(ApiUrl::OfAccount),
        Provider::Daily | Provider::Generic | Provider::Named(_) => return None,
    };
    Some(ApiUrl::Fixed(url))
}

/// Request to a provider's API. Send it to `base_url`, or to [`api_url`] if that is `None`, or to a stand-in for it, followed by `path`.
///
/// `Debug` hides headers and body.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiRequest {
    pub method: Method,
    /// Base URL of the account's API, without a slash at the end. `None` for the one that accounts of the provider have by default.
    pub base_url: Option<String>,
    /// Starts with a slash and includes the query.
    pub path: String,
    /// Names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Login that becomes a header when the request is sent. See [`Self::authorized`]. `None` if `headers` contain the login, or if
    /// the request needs none.
    pub token_login: Option<TokenLogin>,
}

impl ApiRequest {
    pub(crate) fn get(path: String, login: Login) -> Self {
        Self::new(Method::GET, path, login, None, Vec::new())
    }

    pub(crate) fn post_json(path: String, login: Login, body: &Value) -> Self {
        Self::post(path, login, "application/json", body.to_string())
    }

    pub(crate) fn post(path: String, login: Login, content_type: &str, body: String) -> Self {
        Self::new(Method::POST, path, login, Some(content_type), body.into_bytes())
    }

    fn new(method: Method, path: String, login: Login, content_type: Option<&str>, body: Vec<u8>) -> Self {
        let (header, token_login) = match login {
            Login::Header(name, value) => (Some((name, value)), None),
            Login::Token(login) => (None, Some(login)),
        };
        let mut headers: Vec<_> = header.into_iter().collect();
        headers.push(("accept", "application/json".to_owned()));
        headers.extend(content_type.map(|content_type| ("content-type", content_type.to_owned())));
        Self { method, base_url: None, path, headers, body, token_login }
    }

    /// The request, sent to the API of this account.
    pub(crate) fn of_account(mut self, config: &AccountConfig) -> Self {
        self.base_url = config.base_url().map(str::to_owned);
        self
    }

    /// Adds the header of a login by token. The token contains the time, so call this when the request is sent, each time. `None` if
    /// no token can be made.
    #[must_use]
    pub fn authorized(mut self, now: Timestamp) -> Option<Self> {
        if let Some(login) = self.token_login.take() {
            let token = login.token(&[self.path.as_bytes(), &self.body], now)?;
            self.headers.push((AUTHORIZATION, format!("Bearer {token}")));
        }
        Some(self)
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

/// Reason why no request can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The provider has no `dial` in its configuration, or no API that places calls (Daily, generic, and configured ones).
    #[error("the provider is not configured to place calls")]
    DialUnsupported,
    /// The provider has no API or no `dial` in its configuration, or the call cannot be identified there.
    #[error("the provider cannot be asked about this call")]
    LookupUnsupported,
}

/// Data that authenticates a request.
pub(crate) enum Login {
    /// Name and value of a header.
    Header(&'static str, String),
    Token(TokenLogin),
}

pub(crate) fn bearer(key: &Key) -> Login {
    Login::Header(AUTHORIZATION, format!("Bearer {}", key.as_str()))
}

pub(crate) fn basic(user: &str, password: &Key) -> Login {
    Login::Header(AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.as_str()))))
}

pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Query string `name=value&…`. A space becomes `%20`, because not every decoder reads `+` as a space.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

/// Parses a JSON object. `None` if the body is anything else.
pub(crate) fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match json::value(body)? {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// The objects of a list.
pub(crate) fn objects(values: Vec<Value>) -> impl Iterator<Item = Map<String, Value>> {
    values.into_iter().filter_map(|value| match value {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    })
}

/// Text field of an object. `None` if it is missing, blank or not a text.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

/// Texts of an error response, in lower case: those of `message`, `error_message` and `error`, each a text or a list of
/// texts.
pub(crate) fn error_messages(body: &[u8]) -> Vec<String> {
    let Some(object) = object(body) else { return Vec::new() };
    let values = ["message", "error_message", "error"].into_iter().filter_map(|name| object.get(name));
    let texts = values.flat_map(|value| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => vec![text.as_str()],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    });
    texts.map(str::to_lowercase).collect()
}

/// JSON object with text values.
pub(crate) fn json_object(pairs: &BTreeMap<&str, &str>) -> Value {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// Our ids in an object of a response, which the provider echoes.
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
    fn queries_are_decoded_to_what_they_were_made_of() {
        let pairs = [("a b", "1+1=2&#"), ("é", "/?%20'*~")];
        let query = query(pairs);
        assert_eq!(query, "a%20b=1%2B1%3D2%26%23&%C3%A9=%2F%3F%2520%27%2A~");
        let decoded: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!(decoded, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
