//! Every signature scheme in every mode that can be configured. Each is tried with a flipped bit, another key and a second key.
//! It is also tried at a later and an earlier time, and with a header that is missing or doubled.

use hmac::{Hmac, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha1::Sha1;
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{
    Key, SignedWebhook, UnverifiedWebhook, VerifiedWebhook, VerifyError, WebhookConfig, sign, sign_as_configured,
    verify, verifying_key,
};

use crate::signatures::NOW;

const MINUTE_MS: i64 = 60_000;
const URL: &str = "https://example.com/webhooks/a?appointment_id=7&note=a%2Bb+c%C3%A9";
const JSON: &[u8] = br#"{"type":"call.ended","id":"e1","call":{"id":"c1","note":"yes"}}"#;
const FORM: &[u8] = b"CallSid=CA1&CallStatus=completed&Tag=b&Tag=a&Tag=b&Name=%2B1+x%20y";
const SETTINGS: &str = "x-twilio-webhooks-signature-settings";

type Config = Box<dyn Fn(&[&str]) -> Value>;
type Sign = Box<dyn Fn(&WebhookConfig) -> SignedWebhook<String>>;

/// A scheme in one of its modes.
struct Mode {
    name: String,
    provider: Provider,
    /// Entry of the providers file with these keys.
    config: Config,
    sign: Sign,
    /// The key as it is configured, and another one.
    keys: [String; 2],
    body: &'static [u8],
    /// Greatest age and greatest lead of a webhook, in milliseconds. `None` if nothing says when it was signed.
    window: Option<(i64, i64)>,
    signs_url: bool,
    signs_body: bool,
}

impl Mode {
    fn config(&self, keys: &[&str]) -> WebhookConfig {
        let document = json!({self.provider.as_str(): (self.config)(keys)});
        let file =
            crate::providers_file(&document.to_string()).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        file.webhook_keys().config(self.provider).unwrap().clone()
    }

    /// Webhook that the provider would send now.
    fn webhook(&self) -> Webhook {
        let config = self.config(&[&self.keys[0]]);
        let signed = (self.sign)(&config);
        let (path, query) = signed.url.strip_prefix("https://example.com").unwrap().split_once('?').unwrap();
        Webhook {
            provider: self.provider,
            config,
            headers: signed.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: self.body.to_vec(),
            now: NOW,
        }
    }
}

/// A webhook whose parts can be changed.
#[derive(Clone)]
struct Webhook {
    provider: Provider,
    config: WebhookConfig,
    headers: Vec<(String, Vec<u8>)>,
    path: String,
    query: String,
    body: Vec<u8>,
    now: Timestamp,
}

impl Webhook {
    /// `None` if the change left no valid header.
    fn verify(&self) -> Option<Result<VerifiedWebhook, VerifyError>> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).ok()?);
        }
        let webhook = UnverifiedWebhook { headers: &headers, path: &self.path, query: &self.query, body: &self.body };
        Some(verify(self.provider, &self.config, &webhook, self.now))
    }

    fn error(&self) -> Option<VerifyError> {
        self.verify().unwrap().err()
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut webhook = self.clone();
        change(&mut webhook);
        webhook
    }
}

/// Mode without settings.
fn built_in(provider: Provider, body: &'static [u8], window: Option<(i64, i64)>) -> Mode {
    let signs_url = matches!(provider, Provider::Twilio | Provider::Plivo | Provider::SignalWire);
    let config = move |keys: &[&str]| {
        if signs_url { json!({"keys": keys, "public_url": "https://example.com"}) } else { json!({"keys": keys}) }
    };
    let key = || Key::new("key").unwrap();
    Mode {
        name: format!("{provider} {}", String::from_utf8_lossy(&body[..8])),
        provider,
        config: Box::new(config),
        sign: Box::new(move |_| sign(provider, &key(), URL, body, NOW).into()),
        keys: ["key", "other"].map(|text| verifying_key(provider, &Key::new(text).unwrap())),
        body,
        window,
        signs_url,
        signs_body: true,
    }
}

/// Mode that `switchhook send` can sign in.
fn configured(name: &str, provider: Provider, keys: [&str; 2], body: &'static [u8], config: Config) -> Mode {
    Mode {
        name: format!("{provider} {name}"),
        provider,
        config,
        sign: Box::new(move |config| sign_as_configured(provider, config, URL, body, NOW).unwrap()),
        keys: keys.map(str::to_owned),
        body,
        window: Some((5 * MINUTE_MS, 5 * MINUTE_MS)),
        signs_url: false,
        signs_body: true,
    }
}

fn vapi(settings: Value) -> Mode {
    // Base64 of the two keys.
    let keys = if settings["base64_keys"] == true { ["a2V5", "b3RoZXI="] } else { ["key", "other"] };
    let has_time = settings["include_timestamp"] != false && settings["mode"] != "shared_secret";
    let signs_body = settings["mode"] != "shared_secret";
    let name = settings.to_string();
    let config = move |keys: &[&str]| json!({"keys": keys, "signature": settings});
    let mode = configured(&name, Provider::Vapi, keys, JSON, Box::new(config));
    Mode { window: mode.window.filter(|_| has_time), signs_body, ..mode }
}

/// Twilio with a shared key. A key is chosen by its id, so the key that signs keeps its own.
fn shared_key(algorithm: &'static str, body: &'static [u8]) -> Mode {
    let config = move |keys: &[&str]| {
        let shared: Vec<Value> = keys
            .iter()
            .map(|key| json!({"id": if *key == "key" || keys.len() == 1 { "k1" } else { "k0" }, "key": key, "algorithm": algorithm}))
            .collect();
        json!({"public_url": "https://example.com", "shared_keys": shared})
    };
    let mode = configured(algorithm, Provider::Twilio, ["key", "other"], body, Box::new(config));
    Mode { window: None, signs_url: true, ..mode }
}

/// Signature of SWML, which Switchhook never makes: hex of the URL and the body.
fn swml() -> Mode {
    let mode = built_in(Provider::SignalWire, JSON, None);
    let signed = || {
        let mut mac: Hmac<Sha1> = Mac::new_from_slice(b"key").unwrap();
        mac.update(&[URL.as_bytes(), JSON].concat());
        let headers = vec![("x-signalwire-signature".to_owned(), hex::encode(mac.finalize().into_bytes()))];
        SignedWebhook { headers, url: URL.to_owned(), content_type: "application/json" }
    };
    Mode { name: "signalwire swml".to_owned(), sign: Box::new(move |_| signed()), ..mode }
}

/// Example that people copy.
fn example(name: &str, keys: [&str; 2], window_minutes: Option<i64>) -> Mode {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/providers");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let provider = format!("x-{name}");
    let entry = serde_json::from_str::<Value>(&text).unwrap()[&provider].clone();
    let config = move |keys: &[&str]| {
        let mut entry = entry.clone();
        entry["keys"] = json!(keys);
        entry
    };
    let mode = configured("", provider.parse().unwrap(), keys, JSON, Box::new(config));
    Mode { window: window_minutes.map(|minutes| (minutes * MINUTE_MS, minutes * MINUTE_MS)), ..mode }
}

/// Entry with this signature.
fn described(signature: Value, body: &'static [u8]) -> Mode {
    let scheme = signature["scheme"].as_str().unwrap();
    let (signs_url, signs_body) = (["twilio", "signalwire", "plivo"].contains(&scheme), scheme != "shared_secret");
    let (name, has_time) = (signature.to_string(), scheme == "jwt");
    let config = move |keys: &[&str]| {
        let mut entry = json!({"keys": keys, "signature": signature, "events": {"event_id": "/id"}});
        if signs_url {
            entry["public_url"] = json!("https://example.com");
        }
        entry
    };
    let mode = configured(&name, "x-a".parse().unwrap(), ["key", "other"], body, Box::new(config));
    Mode { window: mode.window.filter(|_| has_time), signs_url, signs_body, ..mode }
}

/// HMAC over a template with a time in milliseconds. The keys are base64.
fn hmac_with_milliseconds() -> Mode {
    let signature = json!({
        "scheme": "hmac", "header": "x-sig", "algorithm": "sha512", "timestamp_header": "x-time",
        "timestamp_unit": "milliseconds", "signed": "v0:{timestamp}:{body}", "prefix": "v0=",
        "key_encoding": "base64",
    });
    Mode {
        keys: ["a2V5", "b3RoZXI="].map(str::to_owned),
        window: Some((5 * MINUTE_MS, 5 * MINUTE_MS)),
        ..described(signature, JSON)
    }
}

/// Webhook that another program signed. Its private key is not known here.
fn with_public_key(vector: &Value) -> Mode {
    let text = |name: &str| vector[name].as_str().unwrap().to_owned();
    let (signature, headers) = (vector["signature"].clone(), vector["headers"].as_object().unwrap());
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    let has_time = signature["scheme"] != "ed25519" || signature.to_string().contains("timestamp_");
    let signed =
        move || SignedWebhook { headers: headers.clone(), url: URL.to_owned(), content_type: "application/json" };
    Mode {
        name: text("name"),
        provider: "x-a".parse().unwrap(),
        config: Box::new(move |keys| json!({"keys": keys, "signature": signature, "events": {"event_id": "/id"}})),
        sign: Box::new(move |_| signed()),
        keys: [text("key"), text("other_key")],
        body: JSON,
        window: has_time.then_some((5 * MINUTE_MS, 5 * MINUTE_MS)),
        signs_url: false,
        signs_body: true,
    }
}

fn modes() -> Vec<Mode> {
    let window = |minutes: i64| Some((minutes * MINUTE_MS, minutes * MINUTE_MS));
    let mut modes = vec![
        built_in(Provider::Retell, JSON, window(5)),
        built_in(Provider::Twilio, FORM, None),
        built_in(Provider::Twilio, JSON, None),
        built_in(Provider::Vapi, JSON, window(5)),
        built_in(Provider::Telnyx, JSON, window(5)),
        built_in(Provider::ElevenLabs, JSON, window(45)),
        built_in(Provider::Plivo, FORM, None),
        built_in(Provider::Vonage, JSON, window(5)),
        // The token itself is valid for five minutes.
        built_in(Provider::LiveKit, JSON, Some((10 * MINUTE_MS, 5 * MINUTE_MS))),
        built_in(Provider::Daily, JSON, window(80)),
        built_in(Provider::Bland, JSON, None),
        built_in(Provider::SignalWire, FORM, None),
        built_in(Provider::SignalWire, JSON, None),
        swml(),
        built_in(Provider::Generic, JSON, window(5)),
        shared_key("HMAC_SHA256", FORM),
        shared_key("HMAC_SHA256", JSON),
        shared_key("HMAC_SHA1", FORM),
        vapi(json!({"mode": "shared_secret"})),
        vapi(json!({"mode": "shared_secret", "header": "authorization"})),
        vapi(json!({"prefix": "sha256=", "header": "x-hook", "timestamp_header": "x-time"})),
        example("calcom", ["key", "other"], None),
        example("calendly", ["key", "other"], Some(24 * 60)),
        example("elevenlabs", ["key", "other"], Some(45)),
        example("github", ["key", "other"], None),
        example("openai", ["whsec_MDEyMzQ1Njc4OWFiY2RlZjA=", "whsec_MDEyMzQ1Njc4OWFiY2RlZjE="], Some(5)),
        example("shopify", ["key", "other"], None),
        example("stripe", ["whsec_key", "whsec_other"], Some(5)),
        example("svix", ["whsec_MDEyMzQ1Njc4OWFiY2RlZjA=", "whsec_MDEyMzQ1Njc4OWFiY2RlZjE="], Some(5)),
        described(json!({"scheme": "jwt", "body_hash": "hash"}), JSON),
        described(
            json!({"scheme": "jwt", "body_hash": "hash", "body_hash_encoding": "base64", "header": "x-token"}),
            JSON,
        ),
        described(json!({"scheme": "twilio"}), FORM),
        described(json!({"scheme": "twilio", "algorithm": "sha256", "header": "x-acme"}), JSON),
        described(json!({"scheme": "signalwire"}), FORM),
        described(json!({"scheme": "plivo"}), FORM),
        described(json!({"scheme": "shared_secret", "header": "x-key"}), JSON),
        described(json!({"scheme": "hmac", "header": "x-sig", "separator": "comma", "id_header": "x-id"}), JSON),
        described(json!({"scheme": "hmac", "header": "x-sig", "algorithm": "sha1", "encoding": "base64"}), JSON),
        hmac_with_milliseconds(),
    ];
    for algorithm in ["sha1", "sha256", "sha512"] {
        for encoding in ["hex", "base64"] {
            for (include_timestamp, base64_keys) in [(true, false), (false, true)] {
                modes.push(vapi(json!({
                    "algorithm": algorithm, "encoding": encoding, "include_timestamp": include_timestamp,
                    "base64_keys": base64_keys,
                })));
            }
        }
    }
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../../fixtures/public_keys.json")).unwrap();
    modes.extend(vectors.iter().map(with_public_key));
    modes
}

/// Part of a webhook in which a bit is flipped.
#[derive(Clone, Copy, Debug)]
enum Part {
    Body,
    Path,
    Query,
    Header(usize),
}

impl Part {
    fn bytes(self, webhook: &Webhook) -> Vec<u8> {
        match self {
            Self::Body => webhook.body.clone(),
            Self::Path => webhook.path.clone().into_bytes(),
            Self::Query => webhook.query.clone().into_bytes(),
            Self::Header(index) => webhook.headers[index].1.clone(),
        }
    }

    /// The webhook with other bytes in this part. `None` if no request can have them.
    fn with(self, webhook: &Webhook, bytes: Vec<u8>) -> Option<Webhook> {
        let mut changed = webhook.clone();
        match self {
            Self::Body => changed.body = bytes,
            Self::Path => changed.path = String::from_utf8(bytes).ok()?,
            Self::Query => changed.query = String::from_utf8(bytes).ok()?,
            Self::Header(index) => changed.headers[index].1 = bytes,
        }
        Some(changed)
    }
}

/// True if the byte is a letter in an escape such as `%2B`, whose case means nothing.
fn is_in_escape(bytes: &[u8], index: usize) -> bool {
    bytes[index].is_ascii_alphabetic() && bytes[index.saturating_sub(2)..index].contains(&b'%')
}

/// Reason why the protocol does not notice that this bit is flipped. `None` if it must.
fn unsigned(mode: &Mode, webhook: &Webhook, part: Part, index: usize, is_case: bool) -> Option<&'static str> {
    let bytes = part.bytes(webhook);
    let is_form = mode.body == FORM;
    match part {
        Part::Path | Part::Query if !mode.signs_url => Some("the URL is not signed, and is not read"),
        Part::Query if is_case && is_in_escape(&bytes, index) => Some("an escape has no case"),
        Part::Body if !mode.signs_body => Some("a shared secret signs nothing"),
        Part::Body if is_form && is_case && is_in_escape(&bytes, index) => Some("an escape has no case"),
        Part::Header(header) => {
            let name = webhook.headers[header].0.to_ascii_lowercase();
            let value_at = bytes.iter().rposition(|byte| *byte == b'=').map_or(0, |at| at + 1);
            let is_hex = bytes[value_at..].len() >= 40 && bytes[value_at..].iter().all(u8::is_ascii_hexdigit);
            if name == SETTINGS {
                Some("the settings are not signed, and only choose among the keys")
            } else if is_case && is_hex && index >= value_at {
                Some("a hex digit has no case")
            } else if is_case && has_lenient_bearer(mode) && bytes.starts_with(b"Bearer ") && index < "Bearer".len() {
                Some("the name of a scheme has no case")
            } else {
                None
            }
        }
        Part::Body | Part::Path | Part::Query => None,
    }
}

/// True if a webhook may be refused for this reason after a change of this byte of its body. SWML without its first brace is no JSON.
fn is_of_body(error: VerifyError, index: usize) -> bool {
    matches!(error, VerifyError::WrongSignature | VerifyError::WrongBodyHash)
        || (error == VerifyError::MalformedSignature && index == 0)
}

/// True if the name of the scheme in the header `authorization` may be in any case. Vonage writes it in one way.
fn has_lenient_bearer(mode: &Mode) -> bool {
    !mode.signs_body || mode.provider.is_configured()
}

#[test]
fn every_example_is_a_mode() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/providers");
    let modes = modes();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let provider = format!("x-{}", path.file_stem().unwrap().to_str().unwrap());
            assert!(modes.iter().any(|mode| mode.provider.as_str() == provider), "{provider}");
        }
    }
}

#[test]
fn no_flipped_bit_verifies_that_is_signed() {
    for mode in modes() {
        let webhook = mode.webhook();
        let verified = webhook.verify().unwrap().unwrap_or_else(|error| panic!("{}: {error}", mode.name));
        assert_eq!(verified.query(), if mode.signs_url { webhook.query.as_str() } else { "" }, "{}", mode.name);
        let headers = (0..webhook.headers.len()).map(Part::Header);
        for part in [Part::Body, Part::Path, Part::Query].into_iter().chain(headers) {
            let bytes = part.bytes(&webhook);
            for bit in 0..bytes.len() * 8 {
                let (index, mask) = (bit / 8, 1 << (bit % 8));
                let mut flipped = bytes.clone();
                flipped[index] ^= mask;
                let is_case = flipped[index].eq_ignore_ascii_case(&bytes[index]);
                let Some(found) = part.with(&webhook, flipped).and_then(|webhook| webhook.verify()) else { continue };
                let at = format!("{}: bit {} of byte {index} of {part:?}", mode.name, bit % 8);
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        assert!(!matches!(part, Part::Body) || is_of_body(error, index), "{at}: {error:?}");
                        continue;
                    }
                };
                assert!(unsigned(&mode, &webhook, part, index, is_case).is_some(), "{at}");
                // Such a bit does not change which key counts, and no query is read from a URL that is not signed.
                assert_eq!(found.key_index(), verified.key_index(), "{at}");
                assert!(mode.signs_url || found.query().is_empty(), "{at}");
            }
        }
    }
}

#[test]
fn another_key_is_refused_and_a_second_one_is_told() {
    for mode in modes() {
        let webhook = mode.webhook();
        let [key, other] = [mode.keys[0].as_str(), mode.keys[1].as_str()];
        let with_keys = |keys: &[&str]| webhook.with(|webhook| webhook.config = mode.config(keys));
        assert_eq!(with_keys(&[other]).error(), Some(VerifyError::WrongSignature), "{}", mode.name);
        for (keys, expected) in [([key, other], 0), ([other, key], 1)] {
            assert_eq!(with_keys(&keys).verify().unwrap().unwrap().key_index(), expected, "{}", mode.name);
        }
    }
}

#[test]
fn late_and_early_webhooks_are_refused_if_they_say_their_time() {
    for mode in modes() {
        let webhook = mode.webhook();
        let at = |millis: i64| {
            webhook.with(|webhook| webhook.now = Timestamp::from_millis(NOW.as_millis() + millis)).error()
        };
        assert_eq!(webhook.config.window().is_some(), mode.window.is_some(), "{}", mode.name);
        let Some((late, early)) = mode.window else {
            for years in [-10, 10] {
                assert_eq!(at(years * 365 * 24 * 60 * MINUTE_MS), None, "{}", mode.name);
            }
            continue;
        };
        assert_eq!((at(late), at(-early)), (None, None), "{}", mode.name);
        for skew_ms in [late + 1, -early - 1] {
            let error = at(skew_ms);
            assert!(matches!(error, Some(VerifyError::StaleTimestamp { .. })), "{} {skew_ms}: {error:?}", mode.name);
        }
    }
}

#[test]
fn missing_and_doubled_headers_are_refused() {
    for mode in modes() {
        let webhook = mode.webhook();
        for index in 0..webhook.headers.len() {
            let (name, value) = webhook.headers[index].clone();
            let missing = webhook.with(|webhook| drop(webhook.headers.remove(index))).error();
            let doubled = webhook.with(|webhook| webhook.headers.push((name.clone(), value.clone()))).error();
            let other = webhook.with(|webhook| webhook.headers.insert(0, (name.clone(), b"0".to_vec()))).error();
            for (what, error) in [("missing", missing), ("doubled", doubled), ("doubled with another", other)] {
                assert!(error.is_some(), "{}: {name} {what}", mode.name);
            }
        }
    }
}
