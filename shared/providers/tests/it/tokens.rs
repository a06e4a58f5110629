//! Webhooks that are signed by a JSON Web Token: every token that is not exactly the expected one is refused.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::Provider;
use switchhook_providers::VerifyError;

use crate::signatures::{Request, VONAGE_BODY};

/// A token, made by hand.
pub(crate) fn made_token(key: &[u8], header: &Value, claims: &Value) -> String {
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
    let mut mac: Hmac<Sha256> = Mac::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", encoded(&mac.finalize().into_bytes()))
}

#[test]
fn vonage_token_has_one_algorithm() {
    let vonage = Request::signed(Provider::Vonage, VONAGE_BODY);
    let claims = json!({"iat": 1_760_962_445, "payload_hash": hex::encode(Sha256::digest(VONAGE_BODY))});
    let error = |header: Value| {
        let token = made_token(b"key", &header, &claims);
        vonage.set("authorization", &format!("Bearer {token}")).error()
    };
    assert_eq!(error(json!({"alg": "HS256"})), None);
    assert_eq!(error(json!({"alg": "HS256", "typ": "anything", "kid": "1"})), None);
    for header in [
        json!({}),
        json!({"alg": null}),
        json!({"alg": ["HS256"]}),
        json!({"alg": "none"}),
        json!({"alg": "hs256"}),
        json!({"alg": "HS256 "}),
        json!({"alg": "HS384"}),
        json!({"alg": "HS512"}),
        json!({"alg": "RS256"}),
        json!({"alg": "ES256"}),
        json!({"alg": "HS256", "crit": ["b64"], "b64": false}),
    ] {
        assert_eq!(error(header.clone()), Some(VerifyError::UnacceptableAlgorithm), "{header}");
    }
    assert_eq!(error(json!(["HS256"])), Some(VerifyError::MalformedSignature));
    // A token without a signature, as `none` has it.
    for (header, expected) in [
        (json!({"alg": "none"}), VerifyError::UnacceptableAlgorithm),
        (json!({"alg": "HS256"}), VerifyError::WrongSignature),
    ] {
        let token = made_token(b"key", &header, &claims);
        let unsigned = token.rsplit_once('.').unwrap().0;
        assert_eq!(vonage.set("authorization", &format!("Bearer {unsigned}.")).error(), Some(expected));
        let error = vonage.set("authorization", &format!("Bearer {unsigned}")).error();
        assert_eq!(error, Some(VerifyError::MalformedSignature));
    }
}

#[test]
fn vonage_token_must_name_the_hash_of_the_body_and_its_time() {
    let vonage = Request::signed(Provider::Vonage, VONAGE_BODY);
    let hash = hex::encode(Sha256::digest(VONAGE_BODY));
    let error = |claims: Value| {
        let token = made_token(b"key", &json!({"alg": "HS256", "typ": "JWT"}), &claims);
        vonage.set("authorization", &format!("Bearer {token}")).error()
    };
    let seconds = 1_760_962_445;
    assert_eq!(error(json!({"iat": seconds, "payload_hash": hash})), None);
    assert_eq!(error(json!({"iat": seconds, "payload_hash": hash.to_uppercase()})), None);
    for wrong in [json!(null), json!(""), json!(7), json!("00"), json!(&hash[2..]), json!(format!("{hash}00"))] {
        let claims = json!({"iat": seconds, "payload_hash": wrong});
        assert_eq!(error(claims), Some(VerifyError::WrongBodyHash), "{wrong}");
    }
    assert_eq!(error(json!({"iat": seconds})), Some(VerifyError::WrongBodyHash));
    assert_eq!(error(json!({"payload_hash": hash})), Some(VerifyError::MissingTimestamp));
    assert_eq!(error(json!({"iat": 1_760_962_445.5, "payload_hash": hash})), None);
    for wrong in [json!(null), json!("1760962445"), json!(-1), json!(-0.5), json!(i64::MAX), json!(1e300)] {
        let claims = json!({"iat": wrong, "payload_hash": hash});
        assert_eq!(error(claims), Some(VerifyError::MalformedTimestamp), "{wrong}");
    }
    // Vonage's tokens do not expire. One that does is refused once it has.
    let expiring = |exp: i64| error(json!({"iat": seconds, "exp": exp, "payload_hash": hash}));
    assert_eq!(expiring(seconds - 300), None);
    assert_eq!(expiring(seconds - 301), Some(VerifyError::StaleTimestamp { skew_ms: 301_000 }));
    let fraction = json!({"iat": seconds, "exp": 1_760_962_143.75, "payload_hash": hash});
    assert_eq!(error(fraction), Some(VerifyError::StaleTimestamp { skew_ms: 301_250 }));
    let not_before = |nbf: i64| error(json!({"iat": seconds, "nbf": nbf, "payload_hash": hash}));
    assert_eq!(not_before(seconds + 300), None);
    assert_eq!(not_before(seconds + 301), Some(VerifyError::StaleTimestamp { skew_ms: -301_000 }));
    for claims in [json!([]), json!("x"), json!(null)] {
        assert_eq!(error(claims.clone()), Some(VerifyError::MalformedSignature), "{claims}");
    }
}

#[test]
fn vonage_webhook_without_a_body_is_refused() {
    // Its event is in the query, which the token does not cover.
    let empty = Request::signed(Provider::Vonage, b"");
    let with_event = empty.with(|request| request.query = "status=completed&uuid=c".to_owned());
    assert_eq!(with_event.error(), Some(VerifyError::WrongBodyHash));
}

#[test]
fn vonage_token_is_a_bearer_token() {
    let vonage = Request::signed(Provider::Vonage, VONAGE_BODY);
    let header = vonage.header("authorization");
    let token = header.strip_prefix("Bearer ").unwrap();
    for other in [token.to_owned(), format!("bearer {token}"), format!("Basic {token}"), format!("Bearer  {token}")] {
        let error = vonage.set("authorization", &other).error();
        assert_eq!(error, Some(VerifyError::MalformedSignature), "{other}");
    }
    // Any query is accepted, because nothing of it is used.
    let other_query = vonage.with(|request| request.query = "switchhook_call_id=x".to_owned());
    assert_eq!(other_query.verify().unwrap().query(), "");
}
