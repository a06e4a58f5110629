//! Configured providers whose signature has the form of another vendor: Twilio's, SignalWire's, Plivo's, and tokens.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{
    Key, Reading, SignedWebhook, UnverifiedWebhook, VerifiedWebhook, VerifyError, WebhookConfig, read_as_configured,
    sign, sign_as_configured, verify,
};

use crate::tokens::made_token;

const NOW: Timestamp = Timestamp::from_millis(1_767_225_660_000);
const URL: &str = "https://example.com/webhooks/x-a?appointment_id=apt_7";
const FORM: &[u8] =
    b"CallSid=CA1&CallStatus=completed&Tag=b&Tag=a&To=%2B14155550123&At=Thu%2C+01+Jan+2026+00%3A01%3A00+%2B0000";
const JSON: &[u8] = br#"{"CallSid":"CA1","CallStatus":"completed","At":1767225660}"#;

fn a() -> Provider {
    "x-a".parse().unwrap()
}

/// Entry with this signature, for webhooks whose fields have Twilio's names.
fn entry(keys: &[&str], signature: &Value) -> Value {
    let mut entry = json!({
        "keys": keys,
        "signature": signature,
        "events": {
            "event_id": ["/CallSid", "/CallStatus"], "type": "/CallStatus", "call_id": "/CallSid", "to": "/To", "time": "/At",
            "rules": [{"when": {"type": "completed", "/Tag/1": "b"}, "event": "busy"}, {"when": {"type": "completed"}, "event": "completed"}],
        },
    });
    if ["twilio", "signalwire", "plivo"].contains(&signature["scheme"].as_str().unwrap()) {
        entry["public_url"] = "https://example.com".into();
    }
    entry
}

fn config_of(entry: &Value) -> WebhookConfig {
    let file = crate::providers_file(&json!({"x-a": entry}).to_string()).unwrap_or_else(|error| panic!("{error}"));
    file.webhook_keys().config(a()).unwrap().clone()
}

fn config(keys: &[&str], signature: &Value) -> WebhookConfig {
    config_of(&entry(keys, signature))
}

fn verified(
    config: &WebhookConfig,
    signed: &SignedWebhook<String>,
    body: &[u8],
    now: Timestamp,
) -> Result<VerifiedWebhook, VerifyError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &signed.headers {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let (base, query) = signed.url.split_once('?').unwrap_or((&signed.url, ""));
    let path = base.strip_prefix("https://example.com").unwrap();
    verify(a(), config, &UnverifiedWebhook { headers: &headers, path, query, body }, now)
}

/// Scheme, provider that has it too, and body.
fn schemes() -> Vec<(Value, Provider, &'static [u8])> {
    let jwt = |body_hash: &str, encoding: &str, claims: Value| json!({"scheme": "jwt", "algorithm": "HS256", "body_hash": body_hash, "body_hash_encoding": encoding, "claims": claims});
    vec![
        (json!({"scheme": "twilio"}), Provider::Twilio, FORM),
        (json!({"scheme": "twilio"}), Provider::Twilio, JSON),
        (json!({"scheme": "signalwire"}), Provider::SignalWire, FORM),
        (json!({"scheme": "signalwire"}), Provider::SignalWire, JSON),
        (json!({"scheme": "plivo"}), Provider::Plivo, FORM),
        (jwt("payload_hash", "hex", json!({"iss": "Vonage", "api_key": "a1b2c3d4"})), Provider::Vonage, JSON),
        (jwt("sha256", "base64", json!({"iss": "APISwitchhook"})), Provider::LiveKit, JSON),
    ]
}

#[test]
fn webhook_of_a_built_in_provider_verifies_under_an_entry_with_its_scheme() {
    for (signature, provider, body) in schemes() {
        let signed: SignedWebhook<String> = sign(provider, &Key::new("key").unwrap(), URL, body, NOW).into();
        let config = config(&["newer", "key"], &signature);
        assert_eq!(verified(&config, &signed, body, NOW).unwrap().key_index(), 1, "the second key, {signature}");
        let stranger = crate::named_schemes::config(&["other"], &signature);
        assert_eq!(verified(&stranger, &signed, body, NOW), Err(VerifyError::WrongSignature), "{signature}");
        for bit in 0..body.len() * 8 {
            let mut flipped = body.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // In a form, two encodings of one text mean the same.
            if form_urlencoded::parse(&flipped).eq(form_urlencoded::parse(body)) {
                continue;
            }
            let error = verified(&config, &signed, &flipped, NOW).unwrap_err();
            assert!(
                matches!(error, VerifyError::WrongSignature | VerifyError::WrongBodyHash),
                "bit {bit}, {signature}"
            );
        }
        for index in 0..signed.headers.len() {
            for bit in 0..signed.headers[index].1.len() * 8 {
                let mut tampered = signed.clone();
                let mut bytes = tampered.headers[index].1.clone().into_bytes();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let Ok(text) = String::from_utf8(bytes) else { continue };
                // The name of the scheme before a bearer token may be in any case.
                if HeaderValue::from_str(&text).is_err() || text.to_lowercase().starts_with("bearer ") && bit < 6 * 8 {
                    continue;
                }
                tampered.headers[index].1 = text;
                assert!(verified(&config, &tampered, body, NOW).is_err(), "bit {bit} of header {index}, {signature}");
            }
            let mut tampered = signed.clone();
            tampered.headers.remove(index);
            assert!(verified(&config, &tampered, body, NOW).is_err(), "no header {index}, {signature}");
        }
        let is_url_signed = config.public_url().is_some();
        for url in [URL.replace("apt_7", "apt_8"), URL.replace("x-a?", "x-a/?"), "https://example.com/".to_owned()] {
            let other = SignedWebhook { url, ..signed.clone() };
            assert_eq!(verified(&config, &other, body, NOW).is_err(), is_url_signed, "{signature}");
        }
    }
}

#[test]
fn webhook_of_send_verifies_and_is_read() {
    let mut lines = Vec::new();
    for (signature, _, body) in schemes() {
        let config = config(&["key"], &signature);
        let signed = sign_as_configured(a(), &config, URL, body, NOW).unwrap();
        let webhook = verified(&config, &signed, body, NOW).unwrap();
        let Reading::Event(event) = read_as_configured(&config, &webhook, NOW).0 else { panic!("{signature}") };
        let (query, stored) = (webhook.query().to_owned(), webhook.body().to_vec());
        let stored = VerifiedWebhook::from_inbox(a(), query, stored, webhook.key_index());
        assert_eq!(
            read_as_configured(&config, &stored, NOW).0,
            Reading::Event(event.clone()),
            "{signature}, from the inbox"
        );
        let kinds: Vec<String> =
            event.call_events.iter().map(|event| format!("{} {:?}", event.kind, event.occurred_at)).collect();
        let to = event.to.as_ref().map(|to| to.as_str());
        lines.push(format!(
            "{} {}: {} of {}, {to:?}, query {:?}: {}",
            signature["scheme"],
            signed.content_type,
            event.event_id,
            event.call_id,
            webhook.query(),
            kinds.join(", ")
        ));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "twilio" application/x-www-form-urlencoded: x-a:CA1:completed of appointment:apt_7, Some("+14155550123"), query "appointment_id=apt_7": ringing Some(Timestamp(1767225660000)), busy Some(Timestamp(1767225660000))
    "twilio" application/json: x-a:CA1:completed of appointment:apt_7, None, query "appointment_id=apt_7&bodySHA256=91d73590745306ebfd0d2ab11bb630e4a03491d0b9eab04f56e0858ec1498c3f": ringing Some(Timestamp(1767225660000)), completed Some(Timestamp(1767225660000))
    "signalwire" application/x-www-form-urlencoded: x-a:CA1:completed of appointment:apt_7, Some("+14155550123"), query "appointment_id=apt_7": ringing Some(Timestamp(1767225660000)), busy Some(Timestamp(1767225660000))
    "signalwire" application/json: x-a:CA1:completed of appointment:apt_7, None, query "appointment_id=apt_7&bodySHA256=91d73590745306ebfd0d2ab11bb630e4a03491d0b9eab04f56e0858ec1498c3f": ringing Some(Timestamp(1767225660000)), completed Some(Timestamp(1767225660000))
    "plivo" application/x-www-form-urlencoded: x-a:CA1:completed of appointment:apt_7, Some("+14155550123"), query "appointment_id=apt_7": ringing Some(Timestamp(1767225660000)), busy Some(Timestamp(1767225660000))
    "jwt" application/json: x-a:CA1:completed of x-a:CA1, None, query "": ringing Some(Timestamp(1767225660000)), completed Some(Timestamp(1767225660000))
    "jwt" application/json: x-a:CA1:completed of x-a:CA1, None, query "": ringing Some(Timestamp(1767225660000)), completed Some(Timestamp(1767225660000))
    "#);
}

#[test]
fn header_and_algorithm_of_the_form_of_twilio_are_configured() {
    let signature = json!({"scheme": "twilio", "header": "X-Acme-Signature", "algorithm": "sha256"});
    let config = config(&["key"], &signature);
    let signed = sign_as_configured(a(), &config, URL, FORM, NOW).unwrap();
    assert_eq!(signed.headers[0].0, "x-acme-signature");
    assert!(verified(&config, &signed, FORM, NOW).is_ok());
    let classic: SignedWebhook<String> = sign(Provider::Twilio, &Key::new("key").unwrap(), URL, FORM, NOW).into();
    assert_eq!(verified(&config, &classic, FORM, NOW), Err(VerifyError::MissingSignature));
    let weaker =
        SignedWebhook { headers: vec![("x-acme-signature".to_owned(), classic.headers[0].1.clone())], ..classic };
    assert_eq!(verified(&config, &weaker, FORM, NOW), Err(VerifyError::MalformedSignature));
}

#[test]
fn json_of_swml_is_read_as_json() {
    let config = config(&["key"], &json!({"scheme": "signalwire"}));
    let cxml = sign_as_configured(a(), &config, URL, b"x=1", NOW).unwrap();
    let tag = {
        use hmac::{Hmac, Mac};
        let mut mac: Hmac<sha1::Sha1> = Mac::new_from_slice(b"key").unwrap();
        mac.update(URL.as_bytes());
        mac.update(JSON);
        hex::encode(mac.finalize().into_bytes())
    };
    let swml = SignedWebhook { headers: vec![(cxml.headers[0].0.clone(), tag)], ..cxml };
    let webhook = verified(&config, &swml, JSON, NOW).unwrap();
    assert!(matches!(read_as_configured(&config, &webhook, NOW).0, Reading::Event(_)));
}

/// A signature of JSON that is written like a signature of a form covers the decoded text alone, and other bytes are read.
#[test]
fn signature_of_swml_does_not_pass_for_that_of_a_form() {
    use base64::Engine;
    use hmac::{Hmac, Mac};
    let config = config(&["key"], &json!({"scheme": "signalwire"}));
    let cxml = sign_as_configured(a(), &config, URL, b"x=1", NOW).unwrap();
    let mut mac: Hmac<sha1::Sha1> = Mac::new_from_slice(b"key").unwrap();
    mac.update(URL.as_bytes());
    mac.update(br#"{"CallSid":"CA1","CallStatus":"completed"}"#);
    let tag = base64::prelude::BASE64_STANDARD.encode(mac.finalize().into_bytes());
    let swml = SignedWebhook { headers: vec![(cxml.headers[0].0.clone(), tag)], ..cxml };
    for body in [r#"{"CallSid":"CA1","CallStatus":"completed"}"#, r#"{"CallSid":"%43A1","CallStatus":"completed"}"#] {
        assert_eq!(verified(&config, &swml, body.as_bytes(), NOW), Err(VerifyError::MalformedSignature), "{body}");
    }
}

/// A value of the id may be missing. Then the hash of the form is the id, which does not depend on the order either.
#[test]
fn order_of_a_form_without_its_id_makes_no_new_event() {
    let config = config(&["key"], &json!({"scheme": "plivo"}));
    let ids: std::collections::BTreeSet<String> = [&b"CallStatus=completed&B=2"[..], b"B=2&CallStatus=completed"]
        .into_iter()
        .map(|body| {
            let signed = sign_as_configured(a(), &config, URL, body, NOW).unwrap();
            let webhook = verified(&config, &signed, body, NOW).unwrap();
            read_as_configured(&config, &webhook, NOW).0.event_id().to_string()
        })
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

/// Without `event_id` in its body, and without a signature that covers the order, a repeated form could pass as a new event.
#[test]
fn order_of_a_form_makes_no_new_event() {
    let config = config(&["key"], &json!({"scheme": "twilio"}));
    let signed = sign_as_configured(a(), &config, URL, FORM, NOW).unwrap();
    let reordered =
        b"CallStatus=completed&CallSid=CA1&Tag=a&Tag=b&Tag=b&To=%2b14155550123&At=Thu,+01+Jan+2026+00:01:00+%2B0000";
    let id = |body: &[u8]| {
        let webhook = verified(&config, &signed, body, NOW).unwrap();
        (read_as_configured(&config, &webhook, NOW).0.event_id().clone(), switchhook_providers::content_hash(a(), body))
    };
    assert_eq!(id(FORM), id(reordered));
}

#[test]
fn form_that_is_signed_byte_for_byte_must_be_configured() {
    let mut entry = entry(&["key"], &json!({"scheme": "hmac", "header": "x-sig"}));
    let config_of = |entry: &Value| config_of(entry);
    let reading = |config: &WebhookConfig| {
        let signed = sign_as_configured(a(), config, URL, FORM, NOW).unwrap();
        let webhook = verified(config, &signed, FORM, NOW).unwrap();
        assert_eq!(webhook.query(), "", "the query is not signed");
        (read_as_configured(config, &webhook, NOW).0, signed.content_type)
    };
    assert!(matches!(reading(&config_of(&entry)), (Reading::Quarantined { .. }, "application/json")));
    entry["events"]["body"] = "form".into();
    let (Reading::Event(event), content_type) = reading(&config_of(&entry)) else { panic!("no event") };
    assert_eq!((event.call_id.as_str(), content_type), ("x-a:CA1", "application/x-www-form-urlencoded"));
}

/// Error for a token with this header and these claims. A claim that is null is left out.
fn token_error(header: &Value, changes: &Value, seconds_later: i64) -> Option<VerifyError> {
    let signature = json!({"scheme": "jwt", "header": "X-Token", "body_hash": "hash", "claims": {"iss": "Acme"}});
    let config = config(&["key"], &signature);
    let issued_at = NOW.as_millis() / 1000;
    let mut claims = json!({"iss": "Acme", "iat": issued_at, "hash": hex::encode(Sha256::digest(JSON))});
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let signed = SignedWebhook {
        headers: vec![("x-token".to_owned(), made_token(b"key", header, &claims))],
        url: URL.to_owned(),
        content_type: "application/json",
    };
    verified(&config, &signed, JSON, Timestamp::from_millis(NOW.as_millis() + seconds_later * 1000)).err()
}

#[test]
fn token_has_the_pinned_algorithm_and_the_configured_claims() {
    let issued_at = NOW.as_millis() / 1000;
    let error = |claims: Value| token_error(&json!({"alg": "HS256"}), &claims, 0);
    assert_eq!(error(json!({})), None);
    for header in [json!({"alg": "none"}), json!({"alg": "RS256"}), json!({"alg": "HS512"}), json!({})] {
        assert_eq!(token_error(&header, &json!({}), 0), Some(VerifyError::UnacceptableAlgorithm), "{header}");
    }
    assert_eq!(error(json!({"hash": null})), Some(VerifyError::WrongBodyHash));
    assert_eq!(error(json!({"hash": hex::encode(Sha256::digest(FORM))})), Some(VerifyError::WrongBodyHash));
    for issuer in [json!(null), json!("acme"), json!(["Acme"])] {
        assert_eq!(error(json!({"iss": issuer})), Some(VerifyError::WrongClaim));
    }
    assert_eq!(error(json!({"iat": null})), Some(VerifyError::MissingTimestamp));
    assert_eq!(error(json!({"iat": null, "nbf": issued_at})), None);
    assert_eq!(error(json!({"iat": "soon"})), Some(VerifyError::MalformedTimestamp));
    assert_eq!(error(json!({"nbf": "soon"})), Some(VerifyError::MalformedTimestamp));
    for (claims, seconds_later, is_fresh) in [
        (json!({}), 300, true),
        (json!({}), 301, false),
        (json!({}), -300, true),
        (json!({}), -301, false),
        (json!({"exp": issued_at - 300}), 0, true),
        (json!({"exp": issued_at - 301}), 0, false),
        // A token is not valid before its `nbf`, whatever its `iat` says.
        (json!({"nbf": issued_at - 301}), 0, true),
        (json!({"nbf": issued_at + 300}), 0, true),
        (json!({"nbf": issued_at + 301}), 0, false),
    ] {
        let error = token_error(&json!({"alg": "HS256"}), &claims, seconds_later);
        assert_eq!(error.is_none(), is_fresh, "{claims} {seconds_later} {error:?}");
    }
}

#[test]
fn problems_name_the_field() {
    let problems = |signature: Value, more: Value| {
        let mut entry = entry(&["key"], &json!({"scheme": "plivo"}));
        entry["signature"] = signature;
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        crate::providers_file(&json!({"x-a": entry}).to_string()).unwrap_err().problems().join("\n")
    };
    let form = json!({"body": "form", "type": "/T", "call_id": "/C"});
    let all = [
        problems(json!({"scheme": "SECRET"}), json!({})),
        problems(json!({}), json!({"public_url": null})),
        problems(
            json!({"scheme": "twilio", "algorithm": "sha512", "header": "a b", "zzz": 1}),
            json!({"public_url": null, "events": form}),
        ),
        problems(
            json!({"scheme": "plivo", "header": "x"}),
            json!({"public_url": "example.com", "window_seconds": 300}),
        ),
        problems(json!({"scheme": "signalwire", "header": "x"}), json!({"public_url": 7})),
        problems(
            json!({"scheme": "signalwire"}),
            json!({"public_url": "https://example.com/webhooks/x-a/",
                   "events": {"event_id": "/a", "type": "T", "call_id": "C", "rules": [{"when": {"type": "a"}, "event": "busy"}]}}),
        ),
        problems(json!({"scheme": "jwt"}), json!({})),
        problems(
            json!({"scheme": "jwt", "algorithm": "RS512", "body_hash": "h", "body_hash_encoding": "SECRET",
                   "claims": {"iat": "1", "h": "SECRET", "iss": 7}}),
            json!({"public_url": null, "events": {"body": "xml"}}),
        ),
        problems(json!({"scheme": "jwt", "body_hash": "h", "claims": {}}), json!({"public_url": null})),
    ];
    assert!(!all.join("\n").contains("SECRET"));
    insta::assert_snapshot!(all.join("\n\n"), @r#"
    x-a.signature.scheme: none of hmac, ed25519, standard_webhooks, jwt, twilio, signalwire, plivo, shared_secret

    x-a.signature.scheme: missing: one of hmac, ed25519, standard_webhooks, jwt, twilio, signalwire, plivo, shared_secret

    x-a.signature.header: not the name of a header
    x-a.signature.algorithm: neither sha1 nor sha256
    x-a.signature."zzz": unknown field: known are scheme, header, algorithm
    x-a.events.body: not beside this signature, which says itself whether the body is a form
    x-a.events.event_id: missing: this signature does not cover the order of parameters, so the body identifies no event
    x-a.public_url: missing: the provider signs the URL that it posts to, for example https://example.com

    x-a.signature."header": unknown field: known are scheme
    x-a.public_url: not an http or https URL without query and fragment, for example https://example.com
    x-a.window_seconds: not for a signature without timestamp

    x-a.signature."header": unknown field: known are scheme
    x-a.public_url: not a text

    x-a.events.type: not a JSON pointer such as /data/id
    x-a.events.call_id: not a JSON pointer such as /data/id
    x-a.public_url: ends with /webhooks/x-a, and /webhooks/x-a is added to it: write only the start of the URL, for example https://example.com

    x-a.signature.body_hash: missing: the name of the claim with the SHA-256 of the body, such as payload_hash

    x-a.signature.algorithm: none of HS256, RS256, ES256
    x-a.signature.body_hash_encoding: neither hex nor base64
    x-a.signature.claims."h": differs from webhook to webhook, and is checked anyway
    x-a.signature.claims."iat": differs from webhook to webhook, and is checked anyway
    x-a.signature.claims."iss": not a text
    x-a.events.body: neither json nor form

    x-a.signature.claims: not an object with one to 8 texts
    "#);
}
