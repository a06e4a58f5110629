//! Parser of one provider's object. It goes on after a problem, so that one run reports all of them.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::error::Category;
use serde_json::{Map, Value};
use switchhook_domain::{Provider, UnknownProvider};

use super::account::{Account, AccountConfig};
use super::decision;
use super::fields::{ConfigError, Fields, is_base_url};
use super::keys;
use super::question::{self, QuestionConfig};
use super::scheme::SharedKey;
use super::webhook::{WINDOW_MAX, WebhookConfig};
use crate::api::{ApiUrl, api_url};
use crate::configured::EventMapping;
use crate::distinct::distinct_document;
use crate::scheme::Scheme;
use crate::user_decision::DecisionRule;
use crate::webhook::signs_url;

/// Default signature window: five minutes in either direction, inclusive. Retell's own SDK, Telnyx's SDK and our
/// generic scheme use it. Vapi documents none.
const WINDOW_DEFAULT: Duration = Duration::from_secs(300);

/// Default signature window of ElevenLabs. Its last retry comes after 30 minutes, and nothing says whether a retry is signed
/// anew.
const ELEVENLABS_WINDOW_DEFAULT: Duration = Duration::from_secs(45 * 60);

/// Default signature window of Daily. It repeats a webhook at most five times, after up to 15 minutes each, and nothing says whether a
/// repetition is signed anew. So the last one may come 75 minutes after its signature. Five minutes are for the clocks.
const DAILY_WINDOW_DEFAULT: Duration = Duration::from_secs(80 * 60);

/// Fields of the webhook half, of all providers. [`webhook_field_names`] lists those of one provider.
const WEBHOOK_FIELDS: [&str; 8] =
    ["keys", "window_seconds", "allowed_sources", "signature", "shared_keys", "events", "reports_outcome", "question"];
/// Fields of the account half.
pub(super) const ACCOUNT_FIELDS: [&str; 2] = ["dial", "discover"];
/// Entry that names the JSON Schema of the document, for editors. It is no provider.
const SCHEMA: &str = "$schema";
/// Fields of both halves.
pub(super) const SHARED_FIELDS: [&str; 2] = [PUBLIC_URL, "decision"];
const PUBLIC_URL: &str = "public_url";

/// Fewest characters of a key that the vendor makes, or that is entered at the vendor. No vendor documents a length. HMAC
/// needs half the length of the hash at least (FIPS 198, section 3): 16 bytes of SHA-256.
const KEY_CHARS_MIN: usize = 16;
/// Fewest characters of a key of the generic provider, which its operator makes: the length of the hash, as RFC 2104
/// (section 3) recommends.
const GENERIC_KEY_CHARS_MIN: usize = 32;

/// Rule for the length of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLengths {
    /// Short keys are refused: anybody could guess them.
    Enforced,
    /// Any length, for the vendors' own test vectors.
    Any,
}

impl KeyLengths {
    fn chars_min(self, provider: Provider) -> usize {
        match (self, provider.vendor()) {
            (Self::Any, _) => 0,
            (Self::Enforced, Provider::Generic) => GENERIC_KEY_CHARS_MIN,
            (
                Self::Enforced,
                Provider::Retell
                | Provider::Twilio
                | Provider::Vapi
                | Provider::Telnyx
                | Provider::ElevenLabs
                | Provider::Plivo
                | Provider::Vonage
                | Provider::LiveKit
                | Provider::Daily
                | Provider::Bland
                | Provider::SignalWire
                | Provider::Named(_),
            ) => KEY_CHARS_MIN,
        }
    }
}

/// Part of the configuration that a document holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A providers file.
    Both,
    WebhookKeys,
    DialAccounts,
}

/// Configuration of one provider, in two halves: one is stored in the secret of the webhook keys, the other one in the secret
/// of the dial accounts.
pub(super) struct Halves {
    /// `None` in a document without webhook keys.
    pub(super) webhook: Option<WebhookConfig>,
    /// `None` in a document without dial accounts, or if the provider places no calls.
    pub(super) account: Option<AccountConfig>,
}

/// Message about an entry with the name of no provider.
pub(super) fn unknown_name(unknown: &UnknownProvider) -> String {
    format!("{unknown}, and names such as x-acme, whose entries describe the provider")
}

/// Reads a stored document: one object per provider. If a name occurs twice, the last value counts.
pub(super) fn document(json: &str) -> Result<Map<String, Value>, ConfigError> {
    entries(serde_json::from_str(json))
}

/// Reads a document that is not in use yet: one object per provider. If an object names a field twice, nothing tells which value is meant.
pub(super) fn new_document(json: &str) -> Result<Map<String, Value>, ConfigError> {
    entries(distinct_document(json))
}

fn entries(document: serde_json::Result<Value>) -> Result<Map<String, Value>, ConfigError> {
    let document = document.map_err(|error| {
        ConfigError::one(match error.classify() {
            Category::Io | Category::Syntax | Category::Eof => {
                format!("not JSON at line {}, column {}", error.line(), error.column())
            }
            Category::Data => error.to_string(),
        })
    })?;
    match document {
        Value::Object(mut document) => {
            document.remove(SCHEMA);
            Ok(document)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ConfigError::one("not a JSON object".to_owned()))
        }
    }
}

/// Reads one provider's object. `None` if it has problems, which are then in `problems`.
pub(super) fn entry(
    provider: Provider,
    fields: Value,
    part: Part,
    lengths: KeyLengths,
    problems: &mut Vec<String>,
) -> Option<Halves> {
    let Value::Object(object) = fields else {
        problems.push(format!("{provider}: not an object"));
        return None;
    };
    let problems_before = problems.len();
    let mut fields = Fields::new(provider.to_string(), object, lengths.chars_min(provider), problems);
    let halves = match part {
        Part::DialAccounts if provider.is_configured() => {
            let message = "belongs in the secret of the webhook keys: a configured provider places no calls";
            problems.push(format!("{provider}: {message}"));
            return None;
        }
        Part::Both | Part::WebhookKeys if provider.is_configured() => {
            let webhook = webhook(provider, Shared::default(), &mut fields);
            fields.reject_unknown(webhook_field_names(provider));
            Halves { webhook: Some(webhook), account: None }
        }
        Part::Both => {
            let shared = Shared::read(provider, &mut fields);
            let webhook = webhook(provider, shared.clone(), &mut fields);
            let account = account(provider, shared, &mut fields);
            if account.is_none() && fields.flag("discover") == Some(true) {
                let needs_dial = || "needs dial, the account whose calls are listed".to_owned();
                fields.problem("discover", &places_no_calls(provider).unwrap_or_else(needs_dial));
            }
            let known = [webhook_field_names(provider), Shared::field_names(provider), account_field_names(provider)];
            fields.reject_unknown(known.join(", ").trim_end_matches(", "));
            Halves { webhook: Some(webhook), account }
        }
        Part::WebhookKeys => {
            for name in ACCOUNT_FIELDS {
                fields.reject(name, "belongs in the secret of the dial accounts");
            }
            let shared = Shared::read(provider, &mut fields);
            let webhook = webhook(provider, shared, &mut fields);
            fields.reject_unknown(&format!("{}, {}", webhook_field_names(provider), Shared::field_names(provider)));
            Halves { webhook: Some(webhook), account: None }
        }
        Part::DialAccounts => {
            for name in WEBHOOK_FIELDS {
                fields.reject(name, "belongs in the secret of the webhook keys");
            }
            let shared = Shared::read(provider, &mut fields);
            if !fields.has("dial") {
                fields.problem("dial", &places_no_calls(provider).unwrap_or_else(|| "missing".to_owned()));
            }
            let account = account(provider, shared, &mut fields);
            let known = format!("{}, {}", Shared::field_names(provider), account_field_names(provider));
            fields.reject_unknown(known.trim_end_matches(", "));
            Halves { webhook: None, account }
        }
    };
    (problems.len() == problems_before).then_some(halves)
}

/// Names of the fields of the provider's webhook half, for the message about an unknown field.
fn webhook_field_names(provider: Provider) -> &'static str {
    match provider.vendor() {
        Provider::Vapi => "keys, signature, window_seconds, allowed_sources, question",
        Provider::Twilio => "keys, shared_keys, allowed_sources, question",
        Provider::Retell => "keys, window_seconds, allowed_sources, question",
        Provider::Named(_) => "keys, signature, events, reports_outcome, window_seconds, public_url, allowed_sources",
        Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Generic => "keys, window_seconds, allowed_sources",
        Provider::Plivo | Provider::Bland | Provider::SignalWire => "keys, allowed_sources",
    }
}

/// Names of the fields of the provider's account half, for the message about an unknown field. Empty if Switchhook places no calls with it.
fn account_field_names(provider: Provider) -> &'static str {
    match api_url(provider) {
        None => "",
        Some(_) if provider.vendor() == Provider::LiveKit => "dial",
        Some(_) => "dial, discover",
    }
}

/// Message about a field of an account. `None` if Switchhook places calls with the provider.
fn places_no_calls(provider: Provider) -> Option<String> {
    api_url(provider).is_none().then(|| format!("not for {provider}, with which Switchhook places no calls"))
}

/// Settings of both halves.
#[derive(Clone, Default)]
struct Shared {
    public_url: Option<String>,
    decision: Option<DecisionRule>,
}

impl Shared {
    fn read(provider: Provider, fields: &mut Fields<'_>) -> Self {
        Self { public_url: public_url(provider, fields), decision: DecisionRule::read(provider, fields) }
    }

    /// Names of the fields, for the message about an unknown field.
    fn field_names(provider: Provider) -> &'static str {
        if decision::can_decide(provider) { "public_url, decision" } else { "public_url" }
    }
}

fn webhook(provider: Provider, mut shared: Shared, fields: &mut Fields<'_>) -> WebhookConfig {
    let (mut scheme, mut shared_keys, mut mapping, mut reports_outcome) = (None, Vec::new(), None, false);
    match provider.vendor() {
        Provider::Vapi => scheme = Scheme::read_vapi(fields),
        Provider::Twilio => shared_keys = SharedKey::read_list(fields),
        Provider::Named(_) => {
            scheme = Scheme::read_configured(fields);
            mapping = EventMapping::read(scheme.as_ref(), fields);
            shared.public_url = configured_public_url(provider, scheme.as_ref(), fields);
            reports_outcome = fields.flag("reports_outcome").unwrap_or(false);
        }
        Provider::Retell
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic => {}
    }
    if !question::asks(provider) {
        fields.reject("question", &format!("not for {provider}, which asks none"));
    }
    WebhookConfig {
        keys: keys::read(provider, scheme.as_ref(), !shared_keys.is_empty(), fields),
        public_url: shared.public_url,
        decision: shared.decision,
        window: window(provider, scheme.as_ref(), fields),
        allowed_sources: allowed_sources(fields),
        scheme,
        mapping,
        reports_outcome,
        shared_keys,
        question: QuestionConfig::read(provider, fields),
    }
}

/// Reads the account half. `None` if the provider has no `dial`, or if there is a problem.
fn account(provider: Provider, shared: Shared, fields: &mut Fields<'_>) -> Option<AccountConfig> {
    let (account, base_url) = dial(provider, fields)?;
    if provider.vendor() == Provider::Bland && shared.public_url.is_none() {
        fields.problem(
            "public_url",
            "missing: bland posts to the URL that the request for a call names, for example https://example.com",
        );
    }
    let discover = fields.flag("discover").unwrap_or(false);
    if discover && provider.vendor() == Provider::LiveKit {
        fields.problem("discover", "not for livekit, which lists no calls that have ended");
    }
    Some(AccountConfig {
        provider,
        account,
        base_url,
        public_url: shared.public_url,
        discover,
        decision: shared.decision,
    })
}

fn public_url(provider: Provider, fields: &mut Fields<'_>) -> Option<String> {
    let missing = signs_url(provider.vendor())
        .then(|| format!("missing: {provider} signs the URL that it posts to, for example https://example.com"));
    let problem = match fields.take(PUBLIC_URL) {
        Some(Value::String(url)) => match start_of_url(provider, &url) {
            Ok(url) => return Some(url),
            Err(message) => Some(message),
        },
        Some(_) => Some("not a text".to_owned()),
        None => missing,
    };
    fields.problem(PUBLIC_URL, &problem?);
    None
}

/// Returns the URL without slashes at its end. The path of webhooks is added to it, so it must not have that path.
fn start_of_url(provider: Provider, url: &str) -> Result<String, String> {
    let url = url.trim_end_matches('/');
    if !is_base_url(url) {
        return Err("not an http or https URL without query and fragment, for example https://example.com".to_owned());
    }
    let path = format!("/webhooks/{provider}");
    let (_, host_and_path) = url.split_once("://").unwrap_or_default();
    let ends = ["/webhooks", &path, &format!("{path}/inbound")];
    match ends.into_iter().find(|end| host_and_path.ends_with(end)) {
        Some(end) => Err(format!(
            "ends with {end}, and {path} is added to it: write only the start of the URL, for example https://example.com"
        )),
        None => Ok(url.to_owned()),
    }
}

/// Reads the field `public_url` of a configured provider. A scheme that signs the URL needs it, and no other one has a use for it.
fn configured_public_url(provider: Provider, scheme: Option<&Scheme>, fields: &mut Fields<'_>) -> Option<String> {
    if scheme.is_some_and(|scheme| !scheme.signs_url()) {
        fields.reject(PUBLIC_URL, "not for this signature, which does not cover the URL");
    }
    if scheme.is_some_and(Scheme::signs_url) && !fields.has(PUBLIC_URL) {
        let message = "missing: the provider signs the URL that it posts to, for example https://example.com";
        fields.problem(PUBLIC_URL, message);
    }
    public_url(provider, fields)
}

fn window(provider: Provider, scheme: Option<&Scheme>, fields: &mut Fields<'_>) -> Option<Duration> {
    let vendor = provider.vendor();
    let has_timestamp = match vendor {
        Provider::Twilio | Provider::Plivo | Provider::Bland | Provider::SignalWire => false,
        Provider::Vapi | Provider::Named(_) => scheme.is_none_or(Scheme::has_timestamp),
        Provider::Retell
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Generic => true,
    };
    match (fields.take("window_seconds"), has_timestamp) {
        (None, true) if vendor == Provider::ElevenLabs => Some(ELEVENLABS_WINDOW_DEFAULT),
        (None, true) if vendor == Provider::Daily => Some(DAILY_WINDOW_DEFAULT),
        (None, true) => Some(WINDOW_DEFAULT),
        (None, false) => None,
        (Some(_), false)
            if matches!(vendor, Provider::Twilio | Provider::Plivo | Provider::Bland | Provider::SignalWire) =>
        {
            fields.problem("window_seconds", &format!("not for {provider}, which signs no timestamp"));
            None
        }
        (Some(_), false) => {
            fields.problem("window_seconds", "not for a signature without timestamp");
            None
        }
        (Some(value), true) => {
            let seconds_max = WINDOW_MAX.as_secs();
            let seconds = value.as_u64().filter(|seconds| (1..=seconds_max).contains(seconds));
            if seconds.is_none() {
                fields.problem("window_seconds", &format!("not a whole number from 1 to {seconds_max}"));
            }
            seconds.map(Duration::from_secs)
        }
    }
}

fn allowed_sources(fields: &mut Fields<'_>) -> Vec<IpNet> {
    let texts = match fields.take("allowed_sources") {
        None => return Vec::new(),
        // Rejected, because its author could mean "no source" as well as "every source".
        Some(Value::Array(texts)) if texts.is_empty() => Err("the list is empty; leave it out to allow every source"),
        Some(Value::Array(texts)) => Ok(texts),
        Some(_) => Err("not a list"),
    };
    let texts = texts.unwrap_or_else(|message| {
        fields.problem("allowed_sources", message);
        Vec::new()
    });
    let mut nets = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match text.as_str().and_then(parse_net) {
            Some(net) => nets.push(net),
            None => fields.problem(
                &format!("allowed_sources[{index}]"),
                "not an address block such as 10.0.0.0/8, nor an address",
            ),
        }
    }
    nets
}

fn parse_net(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Reads the account, and the base URL of its API if that is not the one of every account.
fn dial(provider: Provider, fields: &mut Fields<'_>) -> Option<(Account, Option<String>)> {
    let Value::Object(object) = fields.take("dial")? else {
        fields.problem("dial", "not an object");
        return None;
    };
    if let Some(message) = places_no_calls(provider) {
        fields.problem("dial", &message);
        return None;
    }
    let url = api_url(provider)?;
    let mut fields = fields.inner("dial", object);
    let base_url = match url {
        ApiUrl::Fixed(_) => None,
        ApiUrl::OfRegion(urls) => fields.region_url("api_url", urls),
        ApiUrl::OfAccount => fields.host_url("api_url"),
    };
    let account = Account::read(provider, &mut fields);
    fields.reject("per_second", "not here: the parameter DialRates of the stack sets the rate");
    fields.reject_unknown(Account::field_names(provider));
    Some((account?, base_url))
}
