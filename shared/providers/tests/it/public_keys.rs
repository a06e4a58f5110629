//! Schemes whose configured keys are public. `fixtures/public_keys.json` has webhooks that the package `cryptography` for Python (50.0.2)
//! signed with keys that exist nowhere else; `every_scheme` changes each of their bits.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::Provider;
use switchhook_providers::{
    Key, SignedWebhook, UnverifiedWebhook, VerifyError, WebhookConfig, sign_as_configured, sign_with_key, verify,
};

use crate::signatures::NOW;
use crate::tokens::made_token;

const BODY: &[u8] = br#"{"id":"e1"}"#;
const URL: &str = "https://example.com/webhooks/x-a";

/// Keys of RFC 8032, section 7.1, test 1, in every form.
const ED25519_PRIVATE: [&str; 4] = [
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=",
    "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----",
];
const ED25519_PUBLIC: [&str; 5] = [
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    "D75A980182B10AB7D54BFED3C964073A0EE172F3DAA62325AF021A68F707511A",
    "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    // With the line end that tools write.
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n",
];

/// Public key of RSA with 1024 bits.
const RSA_1024: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCYKQCwdh93m923T53Ms7xSWFxG
oDpIJTF478rA9UGUuYj4JtKz9qpNEoAdN7T007tOMq+3YO5OdihjAzIVuebIlgwk
E2rFmV1PY/UvUbLTAldQhTSsHfBOPwjw8LBwK589nv6uAeZLPuxowh9OncyGK2Ih
EhlOb60hzptVvrahpQIDAQAB
-----END PUBLIC KEY-----";
/// Public key on P-384.
const P384: &str = "-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEtwGjxZxGp34RNBATw970/Th0jIG6W9iR
2ejPdHvsug+KsrL2dZ2SE2mxNAUB+14AntPYtIRhjrAOMyxl9iwNMJnX4xanFE5W
afy8WI+v5kxnWP17mW5tDDfh7x/ruSCF
-----END PUBLIC KEY-----";
const RSA_PRIVATE: &str = include_str!("../../fixtures/vonage/private_key.pem");

fn a() -> Provider {
    "x-a".parse().unwrap()
}

fn entry(keys: &[&str], signature: &Value) -> Value {
    json!({"keys": keys, "signature": signature, "events": {"event_id": "/id"}})
}

fn config(keys: &[&str], signature: &Value) -> WebhookConfig {
    let file = crate::providers_file(&json!({"x-a": entry(keys, signature)}).to_string());
    file.unwrap_or_else(|error| panic!("{error}")).webhook_keys().config(a()).unwrap().clone()
}

fn problems(key: &str, signature: &Value) -> String {
    let error = crate::providers_file(&json!({"x-a": entry(&[key], signature)}).to_string()).unwrap_err();
    assert!(!error.to_string().contains(key));
    error.problems().join("\n")
}

fn verified(config: &WebhookConfig, headers: &[(&str, &str)], body: &[u8]) -> Result<usize, VerifyError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let webhook = UnverifiedWebhook { headers: &map, path: "/webhooks/x-a", query: "", body };
    verify(a(), config, &webhook, NOW).map(|webhook| webhook.key_index())
}

fn verified_signed(config: &WebhookConfig, signed: &SignedWebhook<String>) -> Result<usize, VerifyError> {
    let headers: Vec<(&str, &str)> =
        signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    verified(config, &headers, BODY)
}

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../../fixtures/public_keys.json")).unwrap()
}

fn vector(name: &str) -> Value {
    vectors().into_iter().find(|vector| vector["name"] == name).unwrap()
}

#[test]
fn key_of_ed25519_is_read_in_every_form() {
    let signature = json!({"scheme": "ed25519", "header": "x-sig", "timestamp_header": "x-time"});
    for private in ED25519_PRIVATE {
        for public in ED25519_PUBLIC {
            let config = config(&[ED25519_PUBLIC[0], public], &signature);
            let signed = sign_with_key(a(), &config, &Key::new(private).unwrap(), URL, BODY, NOW).unwrap();
            assert_eq!(verified_signed(&config, &signed), Ok(0));
            let alone = self::config(&[public], &signature);
            assert_eq!(verified_signed(&alone, &signed), Ok(0), "{public}");
            // The configured key is public, so it signs nothing.
            assert_eq!(sign_as_configured(a(), &alone, URL, BODY, NOW), None);
        }
    }
    let config = config(&[ED25519_PUBLIC[0]], &signature);
    assert_eq!(sign_with_key(a(), &config, &Key::new("some text").unwrap(), URL, BODY, NOW), None);
    // The public key is another key if it is taken for a private one.
    let forged = sign_with_key(a(), &config, &Key::new(ED25519_PUBLIC[0]).unwrap(), URL, BODY, NOW).unwrap();
    assert_eq!(verified_signed(&config, &forged), Err(VerifyError::WrongSignature));
}

#[test]
fn signatures_of_the_other_version_of_standard_webhooks_are_skipped() {
    let vector = vector("standard webhooks v1a");
    let config = config(&[vector["key"].as_str().unwrap()], &vector["signature"]);
    let headers = &vector["headers"];
    let right = headers["webhook-signature"].as_str().unwrap();
    let check = |list: &str| {
        let named = |name: &'static str| (name, headers[name].as_str().unwrap());
        let body = vector["body"].as_str().unwrap().as_bytes();
        verified(&config, &[named("webhook-id"), named("webhook-timestamp"), ("webhook-signature", list)], body)
    };
    let (mac, other) = (BASE64_STANDARD.encode([7; 32]), BASE64_STANDARD.encode([7; 64]));
    for list in [right, &format!("v1,{mac} {right}"), &format!("v1a,{other} {right}"), &format!("{right} v2,x")] {
        assert_eq!(check(list), Ok(0), "{list}");
    }
    assert_eq!(check(&format!("v1,{mac}")), Err(VerifyError::MalformedSignature));
    assert_eq!(check(&format!("v1a,{mac}")), Err(VerifyError::MalformedSignature));
    assert_eq!(check(&format!("v1a,{other}")), Err(VerifyError::WrongSignature));
    assert_eq!(check(&right.replace("v1a,", "v1,")), Err(VerifyError::MalformedSignature));
}

/// Each check of a signature hashes the whole body. A stranger must not choose how many there are.
#[test]
fn signatures_times_keys_are_bounded() {
    let vector = vector("standard webhooks v1a");
    let key = vector["key"].as_str().unwrap();
    let headers = &vector["headers"];
    let right = headers["webhook-signature"].as_str().unwrap();
    let others = format!("v1a,{} ", BASE64_STANDARD.encode([7; 64]));
    let check = |keys: usize, signatures: usize| {
        let config = config(&vec![key; keys], &vector["signature"]);
        let named = |name: &'static str| (name, headers[name].as_str().unwrap());
        let list = format!("{}{right}", others.repeat(signatures - 1));
        let body = vector["body"].as_str().unwrap().as_bytes();
        verified(&config, &[named("webhook-id"), named("webhook-timestamp"), ("webhook-signature", &list)], body)
    };
    for (keys, signatures) in [(1, 8), (2, 8), (8, 2)] {
        assert_eq!(check(keys, signatures), Ok(0), "{keys} keys");
    }
    for (keys, signatures) in [(1, 9), (3, 8), (8, 3)] {
        assert_eq!(check(keys, signatures), Err(VerifyError::MalformedSignature), "{keys} keys");
    }
}

/// The order of the group of Ed25519. A signature whose second half is larger by it fits the same equation (RFC 8032, section 5.1.7).
const GROUP_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

#[test]
fn second_form_of_a_signature_is_refused() {
    let signature = json!({"scheme": "ed25519", "header": "x-sig"});
    let config = config(&[ED25519_PUBLIC[0]], &signature);
    let mut signed = sign_with_key(a(), &config, &Key::new(ED25519_PRIVATE[0]).unwrap(), URL, BODY, NOW).unwrap();
    assert_eq!(verified_signed(&config, &signed), Ok(0));
    let mut bytes = hex::decode(&signed.headers[0].1).unwrap();
    let mut carry = 0;
    for (byte, order) in bytes[32..].iter_mut().zip(GROUP_ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        [*byte, _] = sum.to_le_bytes();
        carry = sum >> 8;
    }
    signed.headers[0].1 = hex::encode(bytes);
    assert_eq!(verified_signed(&config, &signed), Err(VerifyError::WrongSignature));
}

/// The token's own header never chooses the algorithm. A public key is known to everybody, so a token that is signed with its text as
/// the secret of HS256 must not count.
#[test]
fn token_has_the_configured_algorithm() {
    for (name, algorithm) in [("jwt RS256 2048", "RS256"), ("jwt ES256", "ES256")] {
        let vector = vector(name);
        let key = vector["key"].as_str().unwrap();
        let signature = json!({"scheme": "jwt", "algorithm": algorithm, "header": "x-token", "body_hash": "hash"});
        let config = config(&[key], &signature);
        let claims = json!({"iat": NOW.as_millis() / 1000, "hash": hex::encode(Sha256::digest(BODY))});
        let check = |token: &str| verified(&config, &[("x-token", token)], BODY);
        for secret in [key, key.trim()] {
            let token = made_token(secret.as_bytes(), &json!({"alg": "HS256"}), &claims);
            assert_eq!(check(&token), Err(VerifyError::UnacceptableAlgorithm), "{name}");
        }
        for other in ["none", "HS256", "RS256", "ES256", "PS256", "RS512", "ES384", "EdDSA"] {
            let token = made_token(key.as_bytes(), &json!({"alg": other}), &claims);
            let expected =
                if other == algorithm { VerifyError::WrongSignature } else { VerifyError::UnacceptableAlgorithm };
            assert_eq!(check(&token), Err(expected), "{name} {other}");
            let (unsigned, _) = token.rsplit_once('.').unwrap();
            assert_eq!(check(&format!("{unsigned}.")), Err(expected), "{name} {other}");
        }
        let critical = made_token(key.as_bytes(), &json!({"alg": algorithm, "crit": ["b64"]}), &claims);
        assert_eq!(check(&critical), Err(VerifyError::UnacceptableAlgorithm), "{name}");
    }
}

#[test]
fn signature_of_es256_is_two_numbers_of_32_bytes() {
    let vector = vector("jwt ES256");
    let config = config(&[vector["key"].as_str().unwrap()], &vector["signature"]);
    let token = vector["headers"]["x-token"].as_str().unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let check = |bytes: &[u8]| {
        let token = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        verified(&config, &[("x-token", token.as_str())], vector["body"].as_str().unwrap().as_bytes())
    };
    assert_eq!(check(&bytes), Ok(0));
    // Numbers that are zero, and the other notation, in DER.
    let number = |bytes: &[u8]| [&[0x02, 33, 0], bytes].concat();
    let numbers = [number(&bytes[..32]), number(&bytes[32..])].concat();
    let der = [&[0x30, u8::try_from(numbers.len()).unwrap()], numbers.as_slice()].concat();
    for wrong in [&[][..], &[0; 64], &bytes[1..], &[&bytes[..], &[0]].concat(), &der] {
        assert_eq!(check(wrong), Err(VerifyError::WrongSignature));
    }
}

#[test]
fn private_key_of_rsa_signs_for_its_public_key() {
    // `openssl pkey -in private_key.pem -pubout`
    let public = include_str!("../../fixtures/vonage/public_key.pem");
    let signature = json!({"scheme": "jwt", "algorithm": "RS256", "body_hash": "hash", "claims": {"iss": "Acme"}});
    let config = config(&[public], &signature);
    let signed = sign_with_key(a(), &config, &Key::new(RSA_PRIVATE.trim()).unwrap(), URL, BODY, NOW).unwrap();
    assert_eq!(verified_signed(&config, &signed), Ok(0));
    assert_eq!(sign_as_configured(a(), &config, URL, BODY, NOW), None);
    assert_eq!(sign_with_key(a(), &config, &Key::new("some text").unwrap(), URL, BODY, NOW), None);
    // ECDSA needs random numbers, so it is left out.
    let vector = vector("jwt ES256");
    let es256 = self::config(&[vector["key"].as_str().unwrap()], &vector["signature"]);
    assert_eq!(sign_with_key(a(), &es256, &Key::new(RSA_PRIVATE.trim()).unwrap(), URL, BODY, NOW), None);
}

#[test]
fn key_of_another_kind_is_refused() {
    let ed25519 = json!({"scheme": "ed25519", "header": "x-sig"});
    let v1a = json!({"scheme": "standard_webhooks", "version": "v1a"});
    let jwt = |algorithm: &str| json!({"scheme": "jwt", "algorithm": algorithm, "body_hash": "hash"});
    let (rs256, es256) = (jwt("RS256"), jwt("ES256"));
    let not_ed25519 = "x-a.keys[0]: not an Ed25519 public key: hex or base64 of 32 bytes, or PEM";
    let not_rsa = "x-a.keys[0]: not an RSA public key in PEM form, of 2048 to 8192 bits";
    let not_p256 = "x-a.keys[0]: not a public key on P-256 in PEM form";
    let private = "x-a.keys[0]: a private key, which only the provider may have: write the public key";
    let named = |name: &str| vector(name)["key"].as_str().unwrap().to_owned();
    let (rsa, p256) = (named("jwt RS256 2048"), named("jwt ES256"));
    let cut = rsa.replace("MIIB", "MIIC");
    for (key, signature, expected) in [
        ("the secret of the provider", &ed25519, not_ed25519),
        (&ED25519_PUBLIC[0][2..], &ed25519, not_ed25519),
        // A weak key: anybody could sign for it.
        ("0000000000000000000000000000000000000000000000000000000000000000", &ed25519, not_ed25519),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &v1a, not_ed25519),
        (&rsa, &ed25519, not_ed25519),
        (&p256, &v1a, not_ed25519),
        (ED25519_PRIVATE[2], &v1a, private),
        (ED25519_PRIVATE[3], &ed25519, private),
        (RSA_PRIVATE, &rs256, private),
        (RSA_PRIVATE, &es256, private),
        (RSA_PRIVATE, &ed25519, private),
        ("the secret of the provider", &rs256, not_rsa),
        (RSA_1024, &rs256, not_rsa),
        (&cut, &rs256, not_rsa),
        (&p256, &rs256, not_rsa),
        (ED25519_PUBLIC[4], &rs256, not_rsa),
        (&rsa, &es256, not_p256),
        (P384, &es256, not_p256),
        (ED25519_PUBLIC[4], &es256, not_p256),
        (ED25519_PUBLIC[0], &es256, not_p256),
    ] {
        assert_eq!(problems(key, signature), expected, "{key}");
    }
    assert_eq!(
        problems(ED25519_PUBLIC[3], &json!({"scheme": "standard_webhooks"})),
        "x-a.keys[0]: a public key: add \"version\": \"v1a\" to the signature"
    );
    // Everybody may know a public key. So it is no secret, with which everybody could sign.
    for signature in [json!({"scheme": "jwt", "body_hash": "hash"}), json!({"scheme": "hmac", "header": "x-sig"})] {
        for key in [rsa.trim(), p256.trim(), ED25519_PUBLIC[4].trim()] {
            assert_eq!(
                problems(key, &signature),
                "x-a.keys[0]: a key in PEM form: this signature needs a secret. If the provider signs with a private key, choose the \
                 scheme ed25519, or jwt with RS256 or ES256"
            );
        }
    }
}

#[test]
fn fields_of_secrets_do_not_exist_for_public_keys() {
    let header = "known are scheme, header, signature_field, separator, id_header, timestamp_header, timestamp_field, timestamp_unit, \
                  signed, encoding, prefix";
    for field in ["algorithm", "key_encoding"] {
        let signature = json!({"scheme": "ed25519", "header": "x-sig", field: "sha256"});
        let expected = format!("x-a.signature.{field:?}: unknown field: {header}");
        assert_eq!(problems(ED25519_PUBLIC[0], &signature), expected);
    }
    let version = json!({"scheme": "standard_webhooks", "version": "v2"});
    assert_eq!(
        problems("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &version),
        "x-a.signature.version: neither v1 nor v1a"
    );
}
