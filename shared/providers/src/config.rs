//! How each provider is verified: read once, from one secret, and refused with every problem at once.

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

/// How long the inbox remembers an event id, at least.
pub const DEDUPE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The longest signature window that can be configured, either way.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);

// A webhook that is still accepted must still be remembered: a window longer than the memory would let a recorded
// webhook be replayed as a new event once its id is forgotten. Twice, because a timestamp may lie in the future too.
const _: () = assert!(2 * WINDOW_MAX.as_secs() <= DEDUPE_RETENTION.as_secs());

/// Five minutes either way, inclusive: Retell's own SDK, and our generic scheme.
const WINDOW_DEFAULT: Duration = Duration::from_secs(300);

/// Each key costs one MAC over the body of every webhook that is refused; a rotation needs two.
const KEYS_MAX: usize = 8;

/// The providers that are configured.
#[derive(Clone, Debug)]
pub struct Providers(BTreeMap<Provider, ProviderConfig>);

impl Providers {
    /// Reads `{"retell":{"keys":["new","old"]},"twilio":{"keys":["…"],"public_url":"https://example.com"},
    /// "generic":{"keys":["…"],"window_seconds":300,"allowed_sources":["10.0.0.0/8"]}}`.
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
                    let mut reader = Reader { provider, problems: &mut problems };
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

    /// The providers that are configured, in the order of [`Provider::ALL`].
    pub fn configured(&self) -> impl Iterator<Item = Provider> + '_ {
        self.0.keys().copied()
    }
}

/// How one provider is verified.
#[derive(Clone)]
pub struct ProviderConfig {
    keys: Vec<Key>,
    public_url: Option<String>,
    window: Option<Duration>,
    allowed_sources: Vec<IpNet>,
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
struct Reader<'a> {
    provider: Provider,
    problems: &'a mut Vec<String>,
}

impl Reader<'_> {
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
            (None, Provider::Retell | Provider::Generic) => None,
        }
    }

    fn window(&mut self, value: Option<Value>) -> Option<Duration> {
        match (value, self.provider) {
            (None, Provider::Retell | Provider::Generic) => Some(WINDOW_DEFAULT),
            (None, Provider::Twilio) => None,
            (Some(_), Provider::Twilio) => self.problem("window_seconds", "not for twilio, which signs no timestamp"),
            (Some(value), Provider::Retell | Provider::Generic) => {
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

    fn unknown(&mut self, fields: &Map<String, Value>) {
        for name in fields.keys() {
            self.problem(
                &format!("{name:?}"),
                "unknown field: known are keys, public_url, window_seconds, allowed_sources",
            )
        }
    }

    /// Notes the problem; the value that stands in for what could not be read is never used.
    fn problem<T: Default>(&mut self, field: &str, message: &str) -> T {
        self.problems.push(format!("{}.{field}: {message}", self.provider));
        T::default()
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

        assert_eq!(providers.configured().collect::<Vec<_>>(), Provider::ALL);
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
                "generic.\"key\": unknown field: known are keys, public_url, window_seconds, allowed_sources",
                "unknown provider \"plivo\": known are retell, twilio, generic",
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
        let providers =
            Providers::from_json(r#"{"twilio":{"keys":["SECRET"],"public_url":"https://user:SECRET@example.com"}}"#)
                .unwrap();
        assert!(!format!("{providers:?}").contains("SECRET"));
    }
}
