use super::*;

/// Token and signature secret of the test of Vonage's SDK for Ruby (`test/vonage/test.rb`).
const RUBY: (&str, &str) = (
    "ZYtdTtGV3BCFN7tWmOWr1md66XsquMggr4W2cTtXtcPgfnI0Xw",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpYXQiOjE1ODc0OTQ5NjIsImp0aSI6ImM1YmE4ZjI0LTFhMTQtNGMxMC1iZmRmLTNmYmU4Y2U1MTFiNSIsImlzcyI6IlZvbmFnZSIsInBheWxvYWRfaGFzaCI6ImQ2YzBlNzRiNTg1N2RmMjBlM2I3ZTUxYjMwYzBjMmE0MGVjNzNhNzc4NzliNmYwNzRkZGM3YTIzMTdkZDAzMWIiLCJhcGlfa2V5IjoiYTFiMmMzZCIsImFwcGxpY2F0aW9uX2lkIjoiYWFhYWFhYWEtYmJiYi1jY2NjLWRkZGQtMDEyMzQ1Njc4OWFiIn0.JQRKi1d0SQitmjPINfTWMpt3XZkGsLbD7EjCdXoNSbk",
);
/// Token and signature secret of the test of Vonage's SDK for Python (`jwt/tests/test_verify_jwt.py`).
const PYTHON: (&str, &str) = (
    "qwertyuiopasdfghjklzxcvbnm123456",
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJPbmxpbmUgSldUIEJ1aWxkZXIiLCJpYXQiOjE2OTc2MzQ2ODAsImV4cCI6MzMyNTQ1NDA4MjgsImF1ZCI6IiIsInN1YiI6IiJ9.88vJc3I2HhuqEDixHXVhc9R30tA6U_HQHZTC29y6CGM",
);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn error(keys: &[Key], token: &str) -> Option<VerifyError> {
    verify_hs256(keys, token).err()
}

#[test]
fn published_tokens_verify() {
    let token = verify_hs256(&[key("another"), key(RUBY.0)], RUBY.1).unwrap();
    assert_eq!((token.key_index, token.text("api_key")), (1, Some("a1b2c3d")));
    assert_eq!(token.time("iat"), Ok(Some(Timestamp::from_millis(1_587_494_962_000))));
    assert_eq!(token.time("exp"), Ok(None));
    assert_eq!(token.text("iat"), None);
    // The wrong secret of the same test.
    let wrong = key("ZYtdTtGV3BCFN7tWmOWr1md66XsquMggr4W2cTtXtcPgf55555");
    assert_eq!(error(&[wrong], RUBY.1), Some(VerifyError::WrongSignature));
    let python = verify_hs256(&[key(PYTHON.0)], PYTHON.1).unwrap();
    assert_eq!(python.text("iss"), Some("Online JWT Builder"));
    let at = |millis| python.check_expiry(Duration::from_secs(1), Timestamp::from_millis(millis));
    assert_eq!(at(33_254_540_829_000), Ok(()));
    assert_eq!(at(33_254_540_829_001), Err(VerifyError::StaleTimestamp { skew_ms: 1_001 }));
}

#[test]
fn no_key_verifies_nothing() {
    assert_eq!(error(&[], RUBY.1), Some(VerifyError::WrongSignature));
}

#[test]
fn one_flipped_bit_is_refused() {
    for index in 0..RUBY.1.len() {
        for bit in 0..7 {
            let mut bytes = RUBY.1.as_bytes().to_vec();
            bytes[index] ^= 1 << bit;
            let flipped = String::from_utf8(bytes).unwrap();
            assert!(verify_hs256(&[key(RUBY.0)], &flipped).is_err(), "{flipped}");
        }
    }
}

#[test]
fn malformed_tokens_are_refused() {
    let (header, rest) = RUBY.1.split_once('.').unwrap();
    let (claims, tag) = rest.split_once('.').unwrap();
    for malformed in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        header.to_owned(),
        format!("{header}.{claims}"),
        format!("{header}..{tag}"),
        format!(".{claims}.{tag}"),
        format!("{header}.{claims}.{tag}.{tag}"),
        format!("{header}.{claims}.{tag}="),
        format!("{header}=.{claims}.{tag}"),
        format!("{header}.{claims}.+{tag}"),
        format!("e30=.{claims}.{tag}"),
    ] {
        let error = error(&[key(RUBY.0)], &malformed);
        assert!(matches!(error, Some(VerifyError::MalformedSignature | VerifyError::WrongSignature)), "{malformed}");
    }
}

#[test]
fn what_we_sign_we_verify() {
    let token = sign_hs256(&key("secret"), &json!({"a": "b"}));
    let verified = verify_hs256(&[key("secret")], &token).unwrap();
    assert_eq!(verified.text("a"), Some("b"));
}

#[test]
fn hash_of_the_body_has_its_length() {
    let hash = Sha256::digest(b"body");
    assert!(is_hash_of(&hash, b"body"));
    assert!(!is_hash_of(&hash, b"bodY") && !is_hash_of(&hash[1..], b"body") && !is_hash_of(b"", b"body"));
}

#[test]
fn private_keys_are_read_from_both_pem_forms() {
    let pem = include_str!("../../fixtures/vonage/private_key.pem");
    let key = RsaKey::from_pem(pem).unwrap();
    let same = include_str!("../../fixtures/vonage/private_key_pkcs1.pem");
    assert_eq!(key.sign(b"message"), RsaKey::from_pem(same).unwrap().sign(b"message"));
    assert_eq!(key.sign(b"message").map(|signature| signature.len()), Some(256));
    assert!(RsaKey::from_pem(&pem.replace('\n', "\r\n")).is_some());
    for wrong in [
        "",
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        &pem.replace("PRIVATE", "PUBLIC"),
        &pem.replace("-----END", "----END"),
        &pem[..pem.len() / 2],
    ] {
        assert!(RsaKey::from_pem(wrong).is_none(), "{wrong}");
    }
    assert_eq!(format!("{key:?}"), "RsaKey(hidden)");
}
