//! Signature modes that are configured: every setting of a Vapi credential, and the shared keys of Twilio. The signatures
//! are computed here, from the vendors' documented steps alone.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{UnverifiedWebhook, VerifyError, sign_as_configured, verify};

const NOW: Timestamp = Timestamp::from_millis(1_760_962_445_000);
const BODY: &str = r#"{"message":{"type":"hang","call":{"id":"c"}}}"#;
const SECRET: &str = "secret of the credential";

const ALGORITHMS: [&str; 3] = ["sha256", "sha512", "sha1"];

fn mac(algorithm: &str, secret: &[u8], message: &str) -> Vec<u8> {
    fn with<M: Mac + hmac::digest::KeyInit>(secret: &[u8], message: &str) -> Vec<u8> {
        let mut mac = <M as Mac>::new_from_slice(secret).unwrap();
        mac.update(message.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
    match algorithm {
        "sha1" => with::<Hmac<Sha1>>(secret, message),
        "sha256" => with::<Hmac<Sha256>>(secret, message),
        "sha512" => with::<Hmac<Sha512>>(secret, message),
        other => panic!("{other}"),
    }
}

fn encoded(encoding: &str, mac: &[u8]) -> String {
    match encoding {
        "hex" => hex::encode(mac),
        "base64" => BASE64_STANDARD.encode(mac),
        other => panic!("{other}"),
    }
}

/// Index of the key that verified the webhook.
fn verified(
    provider: Provider,
    config: &Value,
    headers: &[(&str, &str)],
    query: &str,
    body: &str,
) -> Result<usize, VerifyError> {
    let providers = crate::providers_file(&json!({provider.as_str(): config}).to_string()).unwrap();
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let webhook = UnverifiedWebhook { headers: &map, path: "/webhooks", query, body: body.as_bytes() };
    let webhook = verify(provider, providers.webhook_keys().config(provider).unwrap(), &webhook, NOW)?;
    Ok(webhook.key_index())
}

fn vapi(keys: &[&str], signature: &Value, headers: &[(&str, &str)], body: &str) -> Result<usize, VerifyError> {
    verified(Provider::Vapi, &json!({"keys": keys, "signature": signature}), headers, "", body)
}

#[test]
fn every_hmac_setting_of_vapi_verifies() {
    for algorithm in ALGORITHMS {
        for encoding in ["hex", "base64"] {
            for include_timestamp in [true, false] {
                for (prefix, header) in [("", "x-signature"), ("sha256=", "X-Vapi-Signature")] {
                    for base64_keys in [false, true] {
                        let key = if base64_keys { BASE64_STANDARD.encode(SECRET) } else { SECRET.to_owned() };
                        let mut settings = json!({
                            "mode": "hmac", "header": header, "include_timestamp": include_timestamp,
                            "algorithm": algorithm, "encoding": encoding, "base64_keys": base64_keys,
                        });
                        if !prefix.is_empty() {
                            settings["prefix"] = json!(prefix);
                        }
                        let message = if include_timestamp { format!("1760962445.{BODY}") } else { BODY.to_owned() };
                        let tag = mac(algorithm, SECRET.as_bytes(), &message);
                        let signature = format!("{prefix}{}", encoded(encoding, &tag));
                        let headers = [(header, signature.as_str()), ("x-timestamp", "1760962445")];
                        let with = |key: &str, body: &str| vapi(&[key], &settings, &headers, body);
                        assert_eq!(with(&key, BODY), Ok(0), "{settings}");
                        assert_eq!(with(&key, &BODY.replace("hang", "bang")), Err(VerifyError::WrongSignature));
                        assert_eq!(with("b3RoZXI=", BODY), Err(VerifyError::WrongSignature), "{settings}");
                    }
                }
            }
        }
    }
}

#[test]
fn vapi_signature_of_another_mode_is_refused() {
    let sha256 = hex::encode(mac("sha256", SECRET.as_bytes(), &format!("1760962445.{BODY}")));
    let body_alone = hex::encode(mac("sha256", SECRET.as_bytes(), BODY));
    let check = |settings: Value, signature: &str| {
        vapi(&[SECRET], &settings, &[("x-signature", signature), ("x-timestamp", "1760962445")], BODY)
    };
    assert_eq!(check(json!({}), &sha256), Ok(0));
    // A signature without timestamp could be replayed for ever.
    assert_eq!(check(json!({}), &body_alone), Err(VerifyError::WrongSignature));
    assert_eq!(check(json!({"include_timestamp": false}), &sha256), Err(VerifyError::WrongSignature));
    // A weaker or shorter MAC.
    let sha1 = hex::encode(mac("sha1", SECRET.as_bytes(), &format!("1760962445.{BODY}")));
    assert_eq!(check(json!({}), &sha1), Err(VerifyError::MalformedSignature));
    assert_eq!(check(json!({"algorithm": "sha512"}), &sha256), Err(VerifyError::MalformedSignature));
    // A missing prefix, a prefix that is not configured, and the other encoding.
    assert_eq!(check(json!({"prefix": "sha256="}), &sha256), Err(VerifyError::MalformedSignature));
    assert_eq!(check(json!({}), &format!("sha256={sha256}")), Err(VerifyError::MalformedSignature));
    assert_eq!(check(json!({"encoding": "base64"}), &sha256), Err(VerifyError::MalformedSignature));
    // The secret itself is no signature, and the default header does not count if another one is configured.
    let secret = [("x-vapi-secret", SECRET), ("authorization", "Bearer secret of the credential")];
    assert_eq!(vapi(&[SECRET], &json!({}), &secret, BODY), Err(VerifyError::MissingSignature));
    assert_eq!(check(json!({"header": "x-other"}), &sha256), Err(VerifyError::MissingSignature));
    // Vapi's documentation does not name the unit of the timestamp.
    let millis = hex::encode(mac("sha256", SECRET.as_bytes(), &format!("1760962445000.{BODY}")));
    let headers = [("x-signature", millis.as_str()), ("x-timestamp", "1760962445000")];
    assert_eq!(vapi(&[SECRET], &json!({}), &headers, BODY), Ok(0));
}

#[test]
fn vapi_shared_secret_must_be_asked_for() {
    let secret = |header: &str, value: &str| {
        let settings = json!({"mode": "shared_secret", "header": header});
        vapi(&["old", SECRET], &settings, &[(header, value)], BODY)
    };
    assert_eq!(secret("X-Vapi-Secret", SECRET), Ok(1));
    assert_eq!(secret("authorization", &format!("Bearer {SECRET}")), Ok(1));
    assert_eq!(secret("authorization", &format!("bearer {SECRET}")), Ok(1));
    assert_eq!(secret("authorization", SECRET), Err(VerifyError::MalformedSignature));
    assert_eq!(secret("authorization", &format!("Basic {SECRET}")), Err(VerifyError::MalformedSignature));
    assert_eq!(secret("X-Vapi-Secret", "other"), Err(VerifyError::WrongSignature));
    assert_eq!(secret("X-Vapi-Secret", &format!("{SECRET}x")), Err(VerifyError::WrongSignature));
    assert_eq!(secret("X-Vapi-Secret", ""), Err(VerifyError::MissingSignature));
    let default = json!({"mode": "shared_secret"});
    assert_eq!(vapi(&[SECRET], &default, &[("x-vapi-secret", SECRET)], BODY), Ok(0));
    assert_eq!(vapi(&[SECRET], &default, &[], BODY), Err(VerifyError::MissingSignature));

    let is_unsigned = |signature: Value| {
        let json = json!({"vapi": {"keys": [SECRET], "signature": signature}}).to_string();
        crate::providers_file(&json).unwrap().webhook_keys().config(Provider::Vapi).unwrap().is_unsigned()
    };
    assert!(is_unsigned(default));
    assert!(!is_unsigned(json!({"include_timestamp": false})));
}

const FORM: &str = "CallSid=CA1&CallStatus=completed&Name=%201";
const URL: &str = "https://example.com/webhooks?appointment_id=7";

/// Twilio's signature of the form above, with this secret.
fn twilio_signature(algorithm: &str, secret: &str) -> String {
    let message = format!("{URL}CallSidCA1CallStatuscompletedName 1");
    BASE64_STANDARD.encode(mac(algorithm, secret.as_bytes(), &message))
}

fn twilio(config: &Value, signature: &str, settings: Option<&str>) -> Result<usize, VerifyError> {
    let mut headers = vec![("x-twilio-signature", signature)];
    headers.extend(settings.map(|settings| ("X-Twilio-Webhooks-Signature-Settings", settings)));
    verified(Provider::Twilio, config, &headers, "appointment_id=7", FORM)
}

#[test]
fn twilio_shared_keys_are_chosen_by_their_id() {
    let config = json!({
        "keys": ["auth token"],
        "public_url": "https://example.com",
        "shared_keys": [
            {"id": "key_1", "key": "first"},
            {"id": "key_2", "key": "second", "algorithm": "HMAC_SHA1"},
        ],
    });
    let check = |algorithm: &str, secret: &str, settings: Option<&str>| {
        twilio(&config, &twilio_signature(algorithm, secret), settings)
    };
    assert_eq!(check("sha1", "auth token", None), Ok(0));
    assert_eq!(check("sha256", "first", Some("key=key_1,algorithm=HMAC_SHA256")), Ok(1));
    assert_eq!(check("sha256", "first", Some("algorithm=HMAC_SHA256, key=key_1")), Ok(1));
    assert_eq!(check("sha1", "second", Some("key=key_2,algorithm=HMAC_SHA1")), Ok(2));
    assert_eq!(check("sha1", "second", Some("key=key_2")), Ok(2));
    // Stronger than configured.
    assert_eq!(check("sha256", "second", Some("key=key_2,algorithm=HMAC_SHA256")), Ok(2));

    // Weaker than configured, named or by leaving the name out.
    let weak = Err(VerifyError::UnacceptableAlgorithm);
    assert_eq!(check("sha1", "first", Some("key=key_1,algorithm=HMAC_SHA1")), weak);
    assert_eq!(check("sha1", "first", Some("key=key_1")), weak);
    assert_eq!(check("sha512", "first", Some("key=key_1,algorithm=HMAC_SHA512")), weak);
    assert_eq!(check("sha1", "first", Some("key=key_1,algorithm=none")), weak);
    // Without the header, only an auth token counts; with it, only the named key.
    assert_eq!(check("sha1", "first", None), Err(VerifyError::WrongSignature));
    assert_eq!(check("sha256", "first", None), Err(VerifyError::MalformedSignature));
    let wrong = Err(VerifyError::WrongSignature);
    assert_eq!(check("sha256", "second", Some("key=key_1,algorithm=HMAC_SHA256")), wrong);
    assert_eq!(check("sha256", "auth token", Some("key=key_1,algorithm=HMAC_SHA256")), wrong);
    assert_eq!(check("sha1", "auth token", Some("key=key_2,algorithm=HMAC_SHA1")), wrong);
    assert_eq!(check("sha256", "first", Some("key=key_9,algorithm=HMAC_SHA256")), Err(VerifyError::UnknownKey));
    assert_eq!(check("sha1", "auth token", Some("algorithm=HMAC_SHA1")), Err(VerifyError::MalformedSignature));
    assert_eq!(check("sha1", "auth token", Some("")), Err(VerifyError::MissingSignature));
    // A MAC of another length than the named algorithm makes.
    let malformed = Err(VerifyError::MalformedSignature);
    assert_eq!(check("sha1", "first", Some("key=key_1,algorithm=HMAC_SHA256")), malformed);
}

#[test]
fn twilio_shared_keys_alone_are_enough() {
    let config = json!({"public_url": "https://example.com", "shared_keys": [{"id": "key_1", "key": "first"}]});
    let settings = "key=key_1,algorithm=HMAC_SHA256";
    assert_eq!(twilio(&config, &twilio_signature("sha256", "first"), Some(settings)), Ok(0));
    assert_eq!(twilio(&config, &twilio_signature("sha1", "first"), None), Err(VerifyError::WrongSignature));
    // A JSON body is signed by its hash in the URL.
    let body = r#"{"CallSid":"CA1"}"#;
    let query = format!("bodySHA256={}", hex::encode(Sha256::digest(body)));
    let tag = BASE64_STANDARD.encode(mac("sha256", b"first", &format!("https://example.com/webhooks?{query}")));
    let headers = [("x-twilio-signature", tag.as_str()), ("x-twilio-webhooks-signature-settings", settings)];
    assert_eq!(verified(Provider::Twilio, &config, &headers, &query, body), Ok(0));
    let other = verified(Provider::Twilio, &config, &headers, &query, r#"{"CallSid":"CA2"}"#);
    assert_eq!(other, Err(VerifyError::WrongBodyHash));
}

#[test]
fn wrong_signature_settings_are_refused() {
    let problems = |json: Value| {
        crate::providers_file(&json.to_string())
            .map(|_| ())
            .map_err(|error| error.problems().to_vec())
            .expect_err("refused")
    };
    assert_eq!(
        problems(json!({"vapi": {"keys": ["SECRET?"], "window_seconds": 60, "signature": {
            "mode": "hmac", "header": "x signature", "include_timestamp": false, "timestamp_header": "x-timestamp",
            "algorithm": "md5", "encoding": "binary", "base64_keys": true, "secret": "SECRET",
        }}})),
        [
            "vapi.signature.timestamp_header: not beside \"include_timestamp\": false",
            "vapi.signature.algorithm: none of sha256, sha512, sha1",
            "vapi.signature.header: not the name of a header",
            "vapi.signature.encoding: neither hex nor base64",
            "vapi.signature.\"secret\": unknown field: known are mode, header, timestamp_header, include_timestamp, \
             algorithm, encoding, prefix, base64_keys",
            "vapi.keys[0]: not base64, although base64_keys is true",
            "vapi.window_seconds: not for a signature without timestamp",
        ]
    );
    assert_eq!(
        problems(json!({"vapi": {"keys": ["k"], "signature": {"mode": "shared_secret", "algorithm": "sha256"}}})),
        ["vapi.signature.\"algorithm\": unknown field: known are mode, header"]
    );
    assert_eq!(
        problems(json!({"vapi": {"keys": ["k"], "signature": {"mode": "none"}}})),
        ["vapi.signature.mode: neither hmac nor shared_secret"]
    );
    assert_eq!(
        problems(json!({"twilio": {"public_url": "https://example.com", "shared_keys": [
            {"id": "a", "key": "k"}, {"id": "a", "key": "k"}, {"id": "b", "key": "", "algorithm": "SHA1"}, 7,
        ]}})),
        [
            "twilio.shared_keys[1].id: another shared key has this id",
            "twilio.shared_keys[2].algorithm: neither HMAC_SHA256 nor HMAC_SHA1",
            "twilio.shared_keys[2].key: the key is empty",
            "twilio.shared_keys[3]: not an object",
        ]
    );
    assert_eq!(
        problems(json!({"twilio": {"public_url": "https://example.com", "shared_keys": []}})),
        ["twilio.shared_keys: not a list of at least one object", "twilio.keys: missing"]
    );
    assert_eq!(
        problems(json!({"retell": {"keys": ["k"], "signature": {}}})),
        [
            "retell.\"signature\": unknown field: known are keys, window_seconds, allowed_sources, question, public_url, decision, dial, \
             discover"
        ]
    );
}

/// `switchhook send` signs in every mode that can be configured, and the stack with that configuration accepts it.
#[test]
fn webhook_is_signed_in_every_mode_that_is_configured() {
    let base64_key = BASE64_STANDARD.encode(SECRET);
    let vapi = |signature: Value| (Provider::Vapi, json!({"keys": [SECRET], "signature": signature}));
    let shared = |algorithm: &str| {
        let keys = json!([{"id": "k1", "key": SECRET, "algorithm": algorithm}]);
        (Provider::Twilio, json!({"keys": ["token"], "public_url": "https://example.com", "shared_keys": keys}))
    };
    let twilio = json!({"keys": ["token"], "public_url": "https://example.com"});
    let modes = [
        vapi(json!({})),
        vapi(json!({"include_timestamp": false})),
        vapi(json!({"algorithm": "sha512", "encoding": "base64", "prefix": "v1=", "header": "X-Hook"})),
        vapi(json!({"algorithm": "sha1", "timestamp_header": "X-Time"})),
        vapi(json!({"mode": "shared_secret"})),
        vapi(json!({"mode": "shared_secret", "header": "Authorization"})),
        (Provider::Vapi, json!({"keys": [base64_key], "signature": {"base64_keys": true}})),
        shared("HMAC_SHA256"),
        shared("HMAC_SHA1"),
        (Provider::Twilio, twilio),
        (Provider::Retell, json!({"keys": [SECRET]})),
        (Provider::Generic, json!({"keys": [SECRET, "old"]})),
    ];
    for (provider, config) in modes {
        let providers = crate::providers_file(&json!({provider.as_str(): config}).to_string()).unwrap();
        let of_provider = providers.webhook_keys().config(provider).unwrap();
        for body in [BODY, "CallSid=CA1&CallStatus=ringing"] {
            let url = "https://example.com/webhooks?appointment_id=a";
            let signed = sign_as_configured(provider, of_provider, url, body.as_bytes(), NOW).unwrap();
            let headers: Vec<(&str, &str)> =
                signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let query = signed.url.split_once('?').unwrap().1;
            assert!(verified(provider, &config, &headers, query, body).is_ok(), "{provider} {config}: {headers:?}");
        }
    }
}
