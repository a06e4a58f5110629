//! Requests to Vonage that place a call, their tokens, and the meaning of refusals.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use insta::assert_snapshot;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{ApiRequest, dial_api_request};

use crate::api::{NOW, PRIVATE_KEY, dial_request, job, shown, with_private_key};
use crate::dialling::answers;

#[test]
fn vonage_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Vonage)), @r#"
    POST /v1/calls
    accept: application/json
    content-type: application/json
    {
      "advanced_machine_detection": {
        "behavior": "continue",
        "mode": "detect"
      },
      "answer_method": "POST",
      "answer_url": [
        "https://app.example.com/answer?lang=en&appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true"
      ],
      "event_method": "POST",
      "event_url": [
        "https://hooks.example.com/prod/webhooks/vonage"
      ],
      "from": {
        "number": "442079460018",
        "type": "phone"
      },
      "to": [
        {
          "number": "447700900000",
          "type": "phone"
        }
      ]
    }
    "#);
    // Without a public URL, Vonage posts to the event URL of the application.
    let plain = with_private_key(
        r#"{"vonage": {"keys": ["k"], "dial": {
            "application_id": "app-1", "private_key": "PRIVATE_KEY", "answer_url": "https://app.example.com/answer"}}}"#,
    );
    let providers = crate::providers_file(&plain).unwrap();
    let account = providers.dial_accounts().config(Provider::Vonage).unwrap();
    let body = dial_api_request(Provider::Vonage, account, &job().request()).unwrap().body;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["answer_method", "answer_url", "from", "to"]);
}

#[test]
fn vonage_gets_a_token_that_the_application_signs() {
    let request = dial_request(Provider::Vonage);
    assert!(request.headers.iter().all(|(name, _)| *name != "authorization"));
    let token = |request: &ApiRequest, now: Timestamp| {
        let request = request.clone().authorized(now).unwrap();
        assert_eq!(request.token_login, None);
        let values: Vec<&str> = request
            .headers
            .iter()
            .filter(|(name, _)| *name == "authorization")
            .map(|(_, value)| value.as_str())
            .collect();
        values.join(" ").strip_prefix("Bearer ").unwrap().to_owned()
    };
    let first = token(&request, NOW);
    let parts: Vec<&str> = first.split('.').collect();
    let [header, claims, signature] = parts.as_slice() else { panic!("{first}") };
    let json = |part: &str| -> Value { serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    assert_eq!(json(header), json!({"alg": "RS256", "typ": "JWT"}));
    let claims = json(claims);
    assert_eq!(claims["application_id"], "app-1");
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1_760_962_600), &json!(1_760_962_900)));
    assert_eq!(claims.as_object().unwrap().len(), 4);
    let signed = first.rsplit_once('.').unwrap().0;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    assert!(public_key().verify(signed.as_bytes(), &signature).is_ok());
    assert!(public_key().verify(b"other", &signature).is_err());
    // The id of a token differs from one request, and from one moment, to the next.
    let id = |token: &str| json(token.split('.').nth(1).unwrap())["jti"].as_str().unwrap().to_owned();
    let other = ApiRequest { path: "/v1/calls?x".to_owned(), ..request.clone() };
    let ids = [id(&first), id(&token(&other, NOW)), id(&token(&request, Timestamp::from_millis(NOW.as_millis() + 1)))];
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
    let shown = format!("{request:?} {:?}", request.token_login);
    assert!(!shown.contains("PRIVATE") && shown.contains("TokenLogin(hidden)"), "{shown}");
}

/// Public half of [`PRIVATE_KEY`].
fn public_key() -> UnparsedPublicKey<Vec<u8>> {
    let base64: String = PRIVATE_KEY.lines().filter(|line| !line.starts_with("-----")).collect();
    let pair = RsaKeyPair::from_pkcs8(&BASE64_STANDARD.decode(base64).unwrap()).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref().to_vec())
}

#[test]
fn vonage_refusals_are_read_from_the_parameters_that_they_name() {
    let refused = |parameters: Value| json!({"title": "Bad Request", "invalid_parameters": parameters});
    assert_snapshot!(answers(Provider::Vonage, [
        (400, refused(json!({"to[0].number": "is not valid"}))),
        (400, refused(json!([{"name": "to", "reason": "is not valid"}]))),
        (400, refused(json!([{"name": "to", "reason": "x"}, {"name": "from", "reason": "x"}]))),
        (400, refused(json!({"ton": "x"}))),
        (400, refused(json!([]))),
        (400, json!({"title": "to is not valid"})),
        (401, json!({"title": "Unauthorized"})),
        (403, json!({"title": "Forbidden", "detail": "The destination is not allowed"})),
        (403, json!("blocked")),
        (429, json!({"title": "Throughput exceeded"})),
        (201, json!({"status": "started"})),
    ]), @r#"
    400 {"invalid_parameters":{"to[0].number":"is not valid"},"title":"Bad Request"} -> number: invalid_number
    400 {"invalid_parameters":[{"name":"to","reason":"is not valid"}],"title":"Bad Request"} -> number: invalid_number
    400 {"invalid_parameters":[{"name":"to","reason":"x"},{"name":"from","reason":"x"}],"title":"Bad Request"} -> account: bad_request
    400 {"invalid_parameters":{"ton":"x"},"title":"Bad Request"} -> account: bad_request
    400 {"invalid_parameters":[],"title":"Bad Request"} -> account: bad_request
    400 {"title":"to is not valid"} -> account: bad_request
    401 {"title":"Unauthorized"} -> account: unauthorized
    403 {"detail":"The destination is not allowed","title":"Forbidden"} -> number or account: destination_forbidden
    403 "blocked" -> number or account: destination_forbidden
    429 {"title":"Throughput exceeded"} -> busy: rate_limited
    201 {"status":"started"} -> in doubt
    "#);
}
