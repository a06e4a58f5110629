//! How each provider is verified and dialled: read once, from one secret, and refused with every problem at once.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use ipnet::IpNet;
use serde_json::{Map, Value};
use switchhook_domain::Provider;
use thiserror::Error;

use crate::key::Key;
use crate::retell::RetellAccount;
use crate::telnyx::{self, TelnyxAccount};
use crate::twilio::TwilioAccount;
use crate::vapi::VapiAccount;

/// How long the inbox remembers an event id, at least: the least that ingress and the parameter `InboxRetentionDays` take.
pub const DEDUPE_RETENTION: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The longest signature window that can be configured, either way.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);

// A webhook that is still accepted must still be remembered: a window longer than the memory would let a recorded
// webhook be replayed as a new event once its id is forgotten. Twice, because a timestamp may lie in the future too.
const _: () = assert!(2 * WINDOW_MAX.as_secs() <= DEDUPE_RETENTION.as_secs());

/// Five minutes either way, inclusive: Retell's own SDK and Telnyx's, and our generic scheme; Vapi names none.
const WINDOW_DEFAULT: Duration = Duration::from_secs(300);

/// Each key costs one MAC over the body of every webhook that is refused; a rotation needs two.
const KEYS_MAX: usize = 8;

/// What every provider lets a new account do.
const PER_SECOND_DEFAULT: f64 = 1.0;

/// More is a mistake: no provider takes a hundred calls in a second from one account.
const PER_SECOND_MAX: f64 = 100.0;
/// Slower than that and a dialer would have to wait longer for its turn than it may live.
const PER_SECOND_MIN: f64 = 0.1;
/// A lane places a call every so many seconds at least.
const LANE_SECONDS: f64 = 5.0;
/// How long a provider takes to answer a request to place a call, one time with another.
const ANSWER_SECONDS: f64 = 2.0;

/// The providers that are configured.
#[derive(Clone, Debug)]
pub struct Providers(BTreeMap<Provider, ProviderConfig>);

impl Providers {
    /// Reads `{"retell":{"keys":["new","old"]},"twilio":{"keys":["…"],"public_url":"https://example.com"},
    /// "generic":{"keys":["…"],"window_seconds":300,"allowed_sources":["10.0.0.0/8"]}}`.
    ///
    /// What is to place calls has a `dial` too: of Retell `{"api_key":"…","agent_id":"…"}`, of Twilio `{"account_sid":"…",
    /// "auth_token":"…","twiml_url":"https://…","machine_detection":true}` with `api_key_sid` and `api_key_secret` instead of the token
    /// if that is preferred, of Vapi `{"api_key":"…","assistant_id":"…","phone_number_id":"…"}`, of Telnyx `{"api_key":"…",
    /// "connection_id":"…"}`; in each, `"per_second":1.0`. The `keys` of Telnyx are the account's public keys.
    ///
    /// # Errors
    ///
    /// Every problem of the whole document at once, each with its provider and field, none with the text of a value.
    pub fn from_json(json: &str) -> Result<Self, ConfigError> {
        let document: Value = serde_json::from_str(json).map_err(|error| {
            ConfigError::one(format!("not JSON at line {}, column {}", error.line(), error.column()))
        })?;
        let Value::Object(document) = document else {
            return Err(ConfigError::one("not a JSON object".to_owned()));
        };

        let mut problems = Vec::new();
        let mut providers = BTreeMap::new();
        for (name, fields) in document {
            match name.parse::<Provider>() {
                Ok(provider) => {
                    let mut reader = ProviderReader { provider, problems: &mut problems };
                    if let Some(config) = reader.config(fields) {
                        providers.insert(provider, config);
                    }
                }
                Err(unknown) => problems.push(unknown.to_string()),
            }
        }
        if problems.is_empty() { Ok(Self(providers)) } else { Err(ConfigError { problems }) }
    }

    /// None: the provider is not configured, and its webhooks are answered like those of a provider nobody knows.
    #[must_use]
    pub fn config(&self, provider: Provider) -> Option<&ProviderConfig> {
        self.0.get(&provider)
    }
}

/// How one provider is verified, and dialled if it is.
#[derive(Clone)]
pub struct ProviderConfig {
    keys: Vec<Key>,
    public_url: Option<String>,
    window: Option<Duration>,
    allowed_sources: Vec<IpNet>,
    dial: Option<DialConfig>,
}

/// With whose account, and how fast, calls are placed. `Debug` hides the account.
#[derive(Clone)]
pub struct DialConfig {
    per_second: f64,
    account: Account,
}

impl DialConfig {
    /// How many calls may be placed per second: 0.1 to 100.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// How many calls are placed at once, of at most `lanes_max`: at a low rate fewer, so that none waits long for its turn.
    #[must_use]
    pub fn lanes(&self, lanes_max: u32) -> u32 {
        let wanted = (1..lanes_max).find(|lanes| f64::from(*lanes) >= self.per_second * LANE_SECONDS);
        wanted.unwrap_or(lanes_max).max(1)
    }

    /// From one call to the next in one of [`DialConfig::lanes`]: all of them together keep the rate.
    #[must_use]
    pub fn lane_interval(&self, lanes_max: u32) -> Duration {
        Duration::from_secs(1).mul_f64(f64::from(self.lanes(lanes_max)) / self.per_second)
    }

    /// Calls that all lanes together place in a second: no more than the rate, nor than the provider's answers let them.
    #[must_use]
    pub fn throughput(&self, lanes_max: u32) -> f64 {
        self.per_second.min(f64::from(self.lanes(lanes_max)) / ANSWER_SECONDS)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }
}

impl fmt::Debug for DialConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialConfig").field("per_second", &self.per_second).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(crate) enum Account {
    Retell(RetellAccount),
    Twilio(TwilioAccount),
    Vapi(VapiAccount),
    Telnyx(TelnyxAccount),
}

impl ProviderConfig {
    /// At least one; the first is the one to sign with, the others are on their way out or in.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// What the provider puts before our path: scheme, host, perhaps user-info, port and a path; no slash at the end. Twilio signs
    /// it, and behind a proxy nothing else tells it.
    #[must_use]
    pub fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// How far a signed timestamp may lie from now, either way, inclusive. None: the scheme signs no timestamp (Twilio).
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// Where webhooks may come from; empty: from anywhere.
    #[must_use]
    pub fn allowed_sources(&self) -> &[IpNet] {
        &self.allowed_sources
    }

    /// None: this provider places no calls and cannot be asked about any.
    #[must_use]
    pub fn dial(&self) -> Option<&DialConfig> {
        self.dial.as_ref()
    }

    /// True if no allow-list is set or the address is on it. An IPv4 address in IPv6 clothes counts as the IPv4 address.
    #[must_use]
    pub fn allows(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.allowed_sources.is_empty() || self.allowed_sources.iter().any(|net| net.contains(&source))
    }
}

/// Without the URL, which may carry a password.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("keys", &self.keys)
            .field("window", &self.window)
            .field("allowed_sources", &self.allowed_sources)
            .field("dial", &self.dial)
            .finish_non_exhaustive()
    }
}

/// Everything that is wrong with the configuration of the providers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid provider configuration: {}", problems.join("; "))]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }

    /// One sentence each, never empty.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Reads the fields of one provider and collects what is wrong with them.
struct ProviderReader<'a> {
    provider: Provider,
    problems: &'a mut Vec<String>,
}

impl ProviderReader<'_> {
    fn config(&mut self, fields: Value) -> Option<ProviderConfig> {
        let Value::Object(mut fields) = fields else {
            self.problems.push(format!("{}: not an object", self.provider));
            return None;
        };
        let problems_before = self.problems.len();
        let config = ProviderConfig {
            keys: self.keys(fields.remove("keys")),
            public_url: self.public_url(fields.remove("public_url")),
            window: self.window(fields.remove("window_seconds")),
            allowed_sources: self.allowed_sources(fields.remove("allowed_sources")),
            dial: self.dial(fields.remove("dial")),
        };
        self.unknown(&fields);
        (self.problems.len() == problems_before).then_some(config)
    }

    fn keys(&mut self, value: Option<Value>) -> Vec<Key> {
        let texts = match value {
            Some(Value::Array(texts)) if !texts.is_empty() => texts,
            Some(Value::Array(_)) => return self.problem("keys", "the list is empty"),
            Some(_) => return self.problem("keys", "not a list"),
            None => return self.problem("keys", "missing"),
        };
        if texts.len() > KEYS_MAX {
            return self.problem("keys", &format!("more than {KEYS_MAX}"));
        }
        let mut keys = Vec::new();
        for (index, text) in texts.into_iter().enumerate() {
            let field = format!("keys[{index}]");
            match text {
                Value::String(text) => match Key::new(text) {
                    Ok(key) if self.provider == Provider::Telnyx && !telnyx::is_public_key(&key) => {
                        self.problem(&field, "not the base64 of an Ed25519 public key")
                    }
                    Ok(key) => keys.push(key),
                    Err(error) => self.problem(&field, &error.to_string()),
                },
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    self.problem(&field, "not a text")
                }
            }
        }
        keys
    }

    fn public_url(&mut self, value: Option<Value>) -> Option<String> {
        match (value, self.provider) {
            (Some(Value::String(url)), _) => {
                let url = url.trim_end_matches('/');
                if is_base_url(url) {
                    Some(url.to_owned())
                } else {
                    self.problem("public_url", "not an http or https URL without query and fragment")
                }
            }
            (Some(_), _) => self.problem("public_url", "not a text"),
            (None, Provider::Twilio) => self.problem(
                "public_url",
                "missing: twilio signs the URL that it posts to, for example https://example.com",
            ),
            (None, Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::Generic) => None,
        }
    }

    fn window(&mut self, value: Option<Value>) -> Option<Duration> {
        match (value, self.provider) {
            (None, Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::Generic) => Some(WINDOW_DEFAULT),
            (None, Provider::Twilio) => None,
            (Some(_), Provider::Twilio) => self.problem("window_seconds", "not for twilio, which signs no timestamp"),
            (Some(value), Provider::Retell | Provider::Vapi | Provider::Telnyx | Provider::Generic) => {
                let seconds_max = WINDOW_MAX.as_secs();
                match value.as_u64() {
                    Some(seconds) if (1..=seconds_max).contains(&seconds) => Some(Duration::from_secs(seconds)),
                    Some(_) | None => {
                        self.problem("window_seconds", &format!("not a whole number from 1 to {seconds_max}"))
                    }
                }
            }
        }
    }

    fn allowed_sources(&mut self, value: Option<Value>) -> Vec<IpNet> {
        let texts = match value {
            None => return Vec::new(),
            // Who writes an empty list means "nobody" as easily as "anybody".
            Some(Value::Array(texts)) if texts.is_empty() => {
                return self.problem("allowed_sources", "the list is empty; leave it out to allow every source");
            }
            Some(Value::Array(texts)) => texts,
            Some(_) => return self.problem("allowed_sources", "not a list"),
        };
        let mut nets = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match text.as_str().and_then(parse_net) {
                Some(net) => nets.push(net),
                None => self.problem(
                    &format!("allowed_sources[{index}]"),
                    "not an address block such as 10.0.0.0/8, nor an address",
                ),
            }
        }
        nets
    }

    fn dial(&mut self, value: Option<Value>) -> Option<DialConfig> {
        let mut object = match value? {
            Value::Object(object) => object,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return self.problem("dial", "not an object");
            }
        };
        if self.provider == Provider::Generic {
            return self.problem("dial", "not for generic, which has no API");
        }
        let mut fields = DialFields { reader: self, object: &mut object };
        let per_second = fields.per_second();
        let (account, known) = match fields.reader.provider {
            Provider::Retell => (RetellAccount::read(&mut fields).map(Account::Retell), RetellAccount::FIELDS),
            Provider::Twilio => (TwilioAccount::read(&mut fields).map(Account::Twilio), TwilioAccount::FIELDS),
            Provider::Vapi => (VapiAccount::read(&mut fields).map(Account::Vapi), VapiAccount::FIELDS),
            Provider::Telnyx => (TelnyxAccount::read(&mut fields).map(Account::Telnyx), TelnyxAccount::FIELDS),
            Provider::Generic => (None, ""),
        };
        for name in object.keys() {
            self.problem(&format!("dial.{name:?}"), &format!("unknown field: known are {known}, per_second"))
        }
        Some(DialConfig { per_second, account: account? })
    }

    fn unknown(&mut self, fields: &Map<String, Value>) {
        for name in fields.keys() {
            self.problem(
                &format!("{name:?}"),
                "unknown field: known are keys, public_url, window_seconds, allowed_sources, dial",
            )
        }
    }

    /// Notes the problem; the value that stands in for what could not be read is never used.
    fn problem<T: Default>(&mut self, field: &str, message: &str) -> T {
        self.problems.push(format!("{}.{field}: {message}", self.provider));
        T::default()
    }
}

/// The fields of one provider's `dial`, each taken out as it is read; what is left over is unknown.
pub(crate) struct DialFields<'a, 'b> {
    reader: &'a mut ProviderReader<'b>,
    object: &'a mut Map<String, Value>,
}

impl DialFields<'_, '_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        if !self.has(name) {
            self.problem(name, "missing");
        }
        self.optional_text(name)
    }

    pub(crate) fn optional_text(&mut self, name: &str) -> Option<String> {
        let value = self.object.remove(name)?;
        match value.as_str() {
            Some(text) if text.trim() == text && !text.is_empty() => return Some(text.to_owned()),
            Some(_) => self.problem(name, "empty, or with white space around it"),
            None => self.problem(name, "not a text"),
        }
        None
    }

    pub(crate) fn key(&mut self, name: &str) -> Option<Key> {
        match self.object.remove(name) {
            Some(Value::String(text)) => match Key::new(text) {
                Ok(key) => return Some(key),
                Err(error) => self.problem(name, &error.to_string()),
            },
            Some(_) => self.problem(name, "not a text"),
            None => self.problem(name, "missing"),
        }
        None
    }

    /// With a query, perhaps; without a fragment.
    pub(crate) fn url(&mut self, name: &str) -> Option<String> {
        let url = self.text(name)?;
        if url.contains('#') || !is_base_url(url.split_once('?').map_or(url.as_str(), |(base, _)| base)) {
            self.problem(name, "not an http or https URL without fragment");
            return None;
        }
        Some(url)
    }

    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.object.remove(name)?;
        if value.as_bool().is_none() {
            self.problem(name, "neither true nor false");
        }
        value.as_bool()
    }

    pub(crate) fn problem(&mut self, name: &str, message: &str) {
        self.object.remove(name);
        self.reader.problem(&format!("dial.{name}"), message)
    }

    fn per_second(&mut self) -> f64 {
        match self.object.remove("per_second") {
            None => PER_SECOND_DEFAULT,
            Some(value) => match value.as_f64() {
                Some(number) if (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&number) => number,
                Some(_) | None => {
                    self.problem("per_second", &format!("not a number from {PER_SECOND_MIN} to {PER_SECOND_MAX}"));
                    PER_SECOND_DEFAULT
                }
            },
        }
    }
}

fn is_base_url(url: &str) -> bool {
    if url.contains(['?', '#']) {
        return false;
    }
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
}

fn parse_net(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(json: &str) -> Vec<String> {
        Providers::from_json(json).map_err(|error| error.problems).expect_err("refused")
    }

    #[test]
    fn the_documented_shape_is_read() {
        let providers = Providers::from_json(
            r#"{"retell":{"keys":["new","old"]},
                "twilio":{"keys":["t"],"public_url":"https://user:pass@example.com:8443/prod/"},
                "vapi":{"keys":["v"]},
                "telnyx":{"keys":["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
                          "dial":{"api_key":"KEY0","connection_id":"281"}},
                "generic":{"keys":["g"],"window_seconds":60,"allowed_sources":["10.0.0.0/8","::1","192.0.2.7"]}}"#,
        )
        .unwrap();

        let retell = providers.config(Provider::Retell).unwrap();
        assert_eq!(retell.keys().len(), 2);
        assert_eq!(retell.window(), Some(Duration::from_secs(300)));
        assert_eq!(retell.public_url(), None);

        let twilio = providers.config(Provider::Twilio).unwrap();
        assert_eq!(twilio.public_url(), Some("https://user:pass@example.com:8443/prod"));
        assert_eq!(twilio.window(), None);

        let generic = providers.config(Provider::Generic).unwrap();
        assert_eq!(generic.window(), Some(Duration::from_secs(60)));
        assert_eq!(generic.allowed_sources().len(), 3);

        let telnyx = providers.config(Provider::Telnyx).unwrap();
        assert_eq!(telnyx.window(), Some(Duration::from_secs(300)));
        assert_eq!(telnyx.dial().map(DialConfig::per_second), Some(1.0));

        assert!(Provider::ALL.into_iter().all(|provider| providers.config(provider).is_some()));
    }

    #[test]
    fn a_provider_that_is_left_out_is_not_configured() {
        let providers = Providers::from_json(r#"{"generic":{"keys":["g"]}}"#).unwrap();
        assert!(providers.config(Provider::Retell).is_none());
    }

    #[test]
    fn every_problem_is_reported_at_once_and_no_value_is_shown() {
        let json = r#"{
            "generic":{"keys":["SECRET","  ","SECRET\n",7],"window_seconds":0,"allowed_sources":["SECRET","10.0.0.0/8"],"key":"SECRET"},
            "plivo":{"keys":["SECRET"]},
            "retell":{"keys":[],"window_seconds":86401,"allowed_sources":[]},
            "twilio":{"keys":"SECRET","window_seconds":300}}"#;
        let problems = problems(json);
        assert_eq!(
            problems,
            [
                "generic.keys[1]: the key is empty",
                "generic.keys[2]: the key begins or ends with white space",
                "generic.keys[3]: not a text",
                "generic.window_seconds: not a whole number from 1 to 86400",
                "generic.allowed_sources[0]: not an address block such as 10.0.0.0/8, nor an address",
                "generic.\"key\": unknown field: known are keys, public_url, window_seconds, allowed_sources, dial",
                "unknown provider \"plivo\": known are retell, twilio, vapi, telnyx, generic",
                "retell.keys: the list is empty",
                "retell.window_seconds: not a whole number from 1 to 86400",
                "retell.allowed_sources: the list is empty; leave it out to allow every source",
                "twilio.keys: not a list",
                "twilio.public_url: missing: twilio signs the URL that it posts to, for example https://example.com",
                "twilio.window_seconds: not for twilio, which signs no timestamp",
            ]
        );
        let error = Providers::from_json(json).expect_err("refused");
        assert!(!format!("{error} {error:?}").contains("SECRET"));
    }

    #[test]
    fn telnyx_keys_must_be_public_keys() {
        let telnyx = |key: &str| format!(r#"{{"telnyx":{{"keys":["{key}"]}}}}"#);
        // Short, long, not base64, not on the curve, and the neutral element, for which anybody can sign.
        for key in [
            "key",
            "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURoA",
            "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        ] {
            assert_eq!(problems(&telnyx(key)), ["telnyx.keys[0]: not the base64 of an Ed25519 public key"], "{key}");
        }
        assert!(Providers::from_json(&telnyx("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")).is_ok());
    }

    #[test]
    fn dialling_is_configured_per_provider() {
        let dial = |provider: &str, dial: &str| {
            let key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
            let url = "https://example.com";
            let json = format!(r#"{{"{provider}":{{"keys":["{key}"],"public_url":"{url}","dial":{dial}}}}}"#);
            Providers::from_json(&json).map(|providers| {
                let config = providers.config(provider.parse().unwrap()).cloned().unwrap();
                config.dial().unwrap().per_second()
            })
        };
        for (provider, good) in [
            ("retell", r#"{"api_key":"SECRET","per_second":0.5}"#),
            ("retell", r#"{"api_key":"SECRET","agent_id":"agent_1","per_second":0.5}"#),
            (
                "twilio",
                r#"{"account_sid":"AC1","auth_token":"SECRET","twiml_url":"https://x.example/t?a=1","per_second":0.5}"#,
            ),
            (
                "twilio",
                r#"{"account_sid":"AC1","api_key_sid":"SK1","api_key_secret":"SECRET","twiml_url":"https://x.example",
                    "machine_detection":true,"per_second":0.5}"#,
            ),
            ("vapi", r#"{"api_key":"SECRET","assistant_id":"a","phone_number_id":"p","per_second":0.5}"#),
            ("telnyx", r#"{"api_key":"SECRET","connection_id":"c","per_second":0.5}"#),
        ] {
            assert_eq!(dial(provider, good), Ok(0.5), "{good}");
        }
        let problems =
            |provider: &str, json: &str| dial(provider, json).map_err(|error| error.problems).expect_err("refused");
        assert_eq!(
            problems("retell", r#"{"api_key":"SECRET ","agent_id":7,"per_second":0,"agent":"SECRET"}"#),
            [
                "retell.dial.per_second: not a number from 0.1 to 100",
                "retell.dial.api_key: the key begins or ends with white space",
                "retell.dial.agent_id: not a text",
                "retell.dial.\"agent\": unknown field: known are api_key, agent_id, per_second",
            ]
        );
        assert_eq!(
            problems(
                "twilio",
                r#"{"auth_token":"SECRET","api_key_sid":"SK1","application_sid":"AP1","twiml_url":"https://x.example/#a",
                    "machine_detection":"yes"}"#
            ),
            [
                "twilio.dial.account_sid: missing",
                "twilio.dial.auth_token: not beside api_key_sid and api_key_secret",
                "twilio.dial.api_key_secret: missing",
                "twilio.dial.application_sid: not supported: Twilio then ignores the callback URL that carries our ids",
                "twilio.dial.twiml_url: not an http or https URL without fragment",
                "twilio.dial.machine_detection: neither true nor false",
            ]
        );
        assert_eq!(
            problems("vapi", "{}"),
            ["vapi.dial.api_key: missing", "vapi.dial.assistant_id: missing", "vapi.dial.phone_number_id: missing",]
        );
        assert_eq!(
            problems("telnyx", r#"{"connection_id":"","per_second":1000}"#),
            [
                "telnyx.dial.per_second: not a number from 0.1 to 100",
                "telnyx.dial.api_key: missing",
                "telnyx.dial.connection_id: empty, or with white space around it",
            ]
        );
        assert_eq!(problems("telnyx", r#""SECRET""#), ["telnyx.dial: not an object"]);
        assert_eq!(problems("generic", "{}"), ["generic.dial: not for generic, which has no API"]);
    }

    #[test]
    fn documents_that_are_no_object_are_refused() {
        assert_eq!(problems("{\"retell\": SECRET}"), ["not JSON at line 1, column 12"]);
        assert_eq!(problems("\"SECRET\""), ["not a JSON object"]);
        assert_eq!(problems(r#"{"retell":"SECRET"}"#), ["retell: not an object"]);
        assert_eq!(problems(r#"{"retell":{}}"#), ["retell.keys: missing"]);
        let many = format!(r#"{{"retell":{{"keys":{:?}}}}}"#, ["k"; KEYS_MAX + 1]);
        assert_eq!(problems(&many), ["retell.keys: more than 8"]);
    }

    #[test]
    fn bad_urls_are_refused() {
        for url in [
            "",
            "example.com",
            "/path",
            "ftp://example.com",
            "https://",
            "https:///path",
            "https://example.com?x=1",
            "https://example.com#part",
            "https://exa mple.com",
        ] {
            let json = format!(r#"{{"twilio":{{"keys":["t"],"public_url":"{url}"}}}}"#);
            assert_eq!(
                problems(&json),
                ["twilio.public_url: not an http or https URL without query and fragment"],
                "{url}"
            );
        }
    }

    #[test]
    fn lanes_together_keep_the_rate_and_no_turn_is_far_off() {
        let config = |per_second: f64| {
            let json = format!(r#"{{"retell":{{"keys":["k"],"dial":{{"api_key":"a","per_second":{per_second}}}}}}}"#);
            Providers::from_json(&json).unwrap().config(Provider::Retell).unwrap().dial().unwrap().clone()
        };
        let lanes_and_interval =
            |per_second: f64| (config(per_second).lanes(5), config(per_second).lane_interval(5).as_millis());
        assert_eq!(lanes_and_interval(0.1), (1, 10_000));
        assert_eq!(lanes_and_interval(0.5), (3, 6_000));
        assert_eq!(lanes_and_interval(1.0), (5, 5_000));
        assert_eq!(lanes_and_interval(100.0), (5, 50));
        let throughput = |per_second: f64, lanes_max| config(per_second).throughput(lanes_max);
        assert_eq!((throughput(0.1, 5), throughput(1.0, 5), throughput(100.0, 5)), (0.1, 1.0, 2.5));
        assert_eq!(throughput(100.0, 200), 100.0);
    }

    #[test]
    fn sources_are_allowed_by_address_block() {
        let config = |json: &str| {
            Providers::from_json(&format!(r#"{{"generic":{json}}}"#))
                .unwrap()
                .config(Provider::Generic)
                .cloned()
                .unwrap()
        };
        let allows = |config: &ProviderConfig, source: &str| config.allows(source.parse().unwrap());

        let anywhere = config(r#"{"keys":["g"]}"#);
        assert!(allows(&anywhere, "192.0.2.1"));

        let somewhere = config(r#"{"keys":["g"],"allowed_sources":["10.0.0.0/8","2001:db8::1"]}"#);
        assert!(allows(&somewhere, "10.1.2.3"));
        assert!(allows(&somewhere, "::ffff:10.1.2.3"));
        assert!(allows(&somewhere, "2001:db8::1"));
        assert!(!allows(&somewhere, "11.1.2.3"));
        assert!(!allows(&somewhere, "2001:db8::2"));
    }

    #[test]
    fn debug_hides_keys_and_the_password_of_the_url() {
        let providers = Providers::from_json(
            r#"{"twilio":{"keys":["SECRET"],"public_url":"https://user:SECRET@example.com",
                    "dial":{"account_sid":"SECRET","auth_token":"SECRET","twiml_url":"https://SECRET.example"}},
                    "retell":{"keys":["SECRET"],"dial":{"api_key":"SECRET"}}}"#,
        )
        .unwrap();
        assert!(!format!("{providers:?}").contains("SECRET"));
    }
}
