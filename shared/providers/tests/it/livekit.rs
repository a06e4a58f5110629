//! LiveKit: the token of a webhook, the requests that place and look up calls, and the meaning of their responses.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use insta::assert_snapshot;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use switchhook_domain::{AttemptKey, CallId, Provider, Timestamp};
use switchhook_providers::{
    ApiRequest, CallSearch, ClientError, DialRequest, Lookup, LookupAnswer, VerifyError, dial_api_request,
};

use crate::api::{Job, NOW, alive, config, dial_request, job, lookup_request, shown, undecided};
use crate::dialling::answers;
use crate::signatures::{self, LIVEKIT_BODY, Request};
use crate::tokens::made_token;

/// Time in the tokens of these tests, in Unix seconds.
const SIGNED_AT: i64 = signatures::NOW.as_millis() / 1000;

fn hash(body: &[u8]) -> String {
    BASE64_STANDARD.encode(Sha256::digest(body))
}

/// Error for a webhook whose token has these claims.
fn error(claims: &Value) -> Option<VerifyError> {
    error_at(claims, 0)
}

fn error_at(claims: &Value, millis_later: i64) -> Option<VerifyError> {
    let request = Request::signed(Provider::LiveKit, LIVEKIT_BODY);
    let token = made_token(b"key", &json!({"alg": "HS256", "typ": "JWT"}), claims);
    let now = Timestamp::from_millis(signatures::NOW.as_millis() + millis_later);
    request.set("authorization", &token).with(|request| request.now = now).error()
}

fn claims() -> Value {
    json!({"iss": "APIk1", "nbf": SIGNED_AT, "exp": SIGNED_AT + 300, "sha256": hash(LIVEKIT_BODY)})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

/// Made with `AccessToken` of livekit-api 1.2.2 for Python, with `with_sha256` as LiveKit's server has it and a lifetime of five minutes.
#[test]
fn token_of_the_vendors_package_verifies() {
    let body = br#"{"event":"participant_left","room":{"sid":"RM_0001","name":"switchhook-1"},"participant":{"sid":"PA_0001","identity":"dial-1","state":"DISCONNECTED","kind":"SIP","attributes":{"sip.callID":"SCL_0001","sip.callStatus":"hangup"},"disconnectReason":"CLIENT_INITIATED"},"id":"EV_0001","createdAt":"1760962445"}"#;
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzaGEyNTYiOiJlK3QxbEwrTmluanpLQXRZREFDMnladkpSTzk2MkdLeTgxb2VFMzd4Nm5RPSIsInN1YiI6IiIsImlzcyI6IkFQSVN3aXRjaGhvb2tUZXN0IiwibmJmIjoxNzYwOTYyNDQ1LCJleHAiOjE3NjA5NjI3NDV9.aCeSKDHBJnlEyaUXzAkRXzBTOTvz-Ot5Qj7dVnCswWI";
    let request = Request::signed(Provider::LiveKit, body).set("authorization", token);
    let configured = request.with(|request| request.keys = vec!["a secret of LiveKit for tests, long".to_owned()]);
    assert_eq!(configured.error(), None);
    assert_eq!(request.error(), Some(VerifyError::WrongSignature));
    let other = configured.with(|request| request.body.push(b' '));
    assert_eq!(other.error(), Some(VerifyError::WrongBodyHash));
}

#[test]
fn token_is_valid_for_its_time_and_the_window_around_it() {
    let (late, early) = (600_000, -300_000);
    for millis in [early, 0, 300_000, late] {
        assert_eq!(error_at(&claims(), millis), None, "{millis}");
    }
    // An expired token is as old as the time since its end.
    assert_eq!(error_at(&claims(), late + 1), Some(VerifyError::StaleTimestamp { skew_ms: 300_001 }));
    assert_eq!(error_at(&claims(), early - 1), Some(VerifyError::StaleTimestamp { skew_ms: -300_001 }));
    // LiveKit's package for Python makes tokens of six hours, and that for JavaScript tokens that were always valid.
    assert_eq!(error(&with("exp", json!(SIGNED_AT + 6 * 3600))), None);
    assert_eq!(error(&with("nbf", json!(0))), None);
    // A token that is valid for longer than the inbox remembers ids could make an old webhook pass as new.
    let day = 24 * 3600;
    assert_eq!(error(&with("exp", json!(SIGNED_AT + day))), None);
    let too_long = VerifyError::StaleTimestamp { skew_ms: -(day + 1) * 1000 };
    assert_eq!(error(&with("exp", json!(SIGNED_AT + day + 1))), Some(too_long));
}

#[test]
fn token_without_one_of_its_claims_is_refused() {
    assert_eq!(error(&claims()), None);
    // A token that opens a room has no hash.
    assert_eq!(error(&without("sha256")), Some(VerifyError::WrongBodyHash));
    let digest = Sha256::digest(LIVEKIT_BODY);
    let url_safe = BASE64_URL_SAFE_NO_PAD.encode(digest);
    for wrong in [json!(null), json!(""), json!(7), json!("AA=="), json!(hex::encode(digest)), json!(url_safe)] {
        assert_eq!(error(&with("sha256", wrong.clone())), Some(VerifyError::WrongBodyHash), "{wrong}");
    }
    assert_eq!(error(&without("iss")), Some(VerifyError::MalformedSignature));
    assert_eq!(error(&with("iss", json!(""))), Some(VerifyError::MalformedSignature));
    for name in ["nbf", "exp"] {
        assert_eq!(error(&without(name)), Some(VerifyError::MissingTimestamp), "{name}");
        for wrong in [json!(null), json!("1760962445"), json!(-1), json!(-0.5), json!(i64::MAX)] {
            assert_eq!(error(&with(name, wrong.clone())), Some(VerifyError::MalformedTimestamp), "{name} {wrong}");
        }
    }
}

#[test]
fn token_has_one_algorithm_and_no_scheme_before_it() {
    let request = Request::signed(Provider::LiveKit, LIVEKIT_BODY);
    for algorithm in ["none", "HS384", "HS512", "RS256", "hs256"] {
        let token = made_token(b"key", &json!({"alg": algorithm}), &claims());
        let error = request.set("authorization", &token).error();
        assert_eq!(error, Some(VerifyError::UnacceptableAlgorithm), "{algorithm}");
    }
    let token = request.header("authorization");
    for other in [format!("Bearer {token}"), format!("bearer {token}")] {
        assert_eq!(request.set("authorization", &other).error(), Some(VerifyError::MalformedSignature));
    }
}

#[test]
fn livekit_is_told_to_call() {
    let request = dial_request(Provider::LiveKit);
    assert_eq!(request.base_url.as_deref(), Some("https://name.livekit.example"));
    assert_snapshot!(shown(&request), @r#"
    POST /twirp/livekit.SIP/CreateSIPParticipant
    accept: application/json
    content-type: application/json
    {
      "participant_attributes": {
        "appointment_id": "appt_7",
        "customer_name": "Ada & Co",
        "switchhook_attempt": "2",
        "switchhook_call_id": "call 1/ä",
        "switchhook_last_attempt": "true"
      },
      "participant_identity": "call 1/ä#2",
      "ringing_timeout": "45s",
      "room_name": "switchhook-e7dee10ea3f6a193ac72cf4cb8dce203",
      "sip_call_to": "+447700900000",
      "sip_number": "+442079460018",
      "sip_trunk_id": "ST_1",
      "wait_until_answered": false
    }
    "#);
    // Without these settings, LiveKit has its own ringing timeout, and the rooms have a default prefix.
    let minimal = r#"{"livekit": {"keys": ["k"], "dial": {"api_url": "https://name.livekit.example/", "api_key": "k",
        "api_secret": "SECRET", "sip_trunk_id": "ST_1", "room_prefix": "calls-"}}}"#;
    let providers = crate::providers_file(minimal).unwrap();
    let account = providers.dial_accounts().config(Provider::LiveKit).unwrap();
    let request = dial_api_request(Provider::LiveKit, account, &job().request()).unwrap();
    assert_eq!(request.base_url.as_deref(), Some("https://name.livekit.example"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert!(body["room_name"].as_str().unwrap().starts_with("calls-") && body["ringing_timeout"].is_null(), "{body}");
}

/// A request that sets such a name may be refused, and that would count as a problem of the account.
#[test]
fn names_that_are_a_providers_own_are_not_sent_to_it() {
    let job = Job::new(&[("sip.callStatus", "active"), ("system__caller_id", "theirs")]);
    for (provider, place, own, other) in [
        (Provider::LiveKit, "/participant_attributes", "sip.callStatus", "system__caller_id"),
        (
            Provider::ElevenLabs,
            "/conversation_initiation_client_data/dynamic_variables",
            "system__caller_id",
            "sip.callStatus",
        ),
    ] {
        let request = dial_api_request(provider, &config(provider), &job.request()).unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let sent = body.pointer(place).unwrap();
        assert!(sent.get(own).is_none() && sent.get(other).is_some(), "{provider}: {sent}");
    }
}

/// Name of the room of an attempt.
fn room(call_id: &str, attempt: &str) -> String {
    let (job, call_id, attempt) = (job(), CallId::new(call_id), AttemptKey::new(attempt));
    let request = DialRequest { call_id: &call_id, attempt: &attempt, ..job.request() };
    let request = dial_api_request(Provider::LiveKit, &config(Provider::LiveKit), &request).unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body["room_name"].as_str().unwrap().to_owned()
}

#[test]
fn every_attempt_has_a_room_of_its_own() {
    let rooms = [room("c", "1"), room("c", "2"), room("c1", "1"), room("c", "11"), room("", "c1")];
    for (index, room) in rooms.iter().enumerate() {
        assert_eq!(room.len(), "switchhook-".len() + 32);
        assert!(!rooms[..index].contains(room), "{rooms:?}");
    }
    let search = lookup_request(Provider::LiveKit, None).unwrap();
    let body: Value = serde_json::from_slice(&search.body).unwrap();
    assert_eq!(body["room"], room("call 1/ä", "2"));
}

/// Claims of the token of a request, whose signature is checked.
fn token_claims(request: &ApiRequest, now: Timestamp) -> Value {
    let request = request.clone().authorized(now).unwrap();
    let mut values = request.headers.iter().filter(|(name, _)| *name == "authorization");
    let token = values.next().unwrap().1.strip_prefix("Bearer ").unwrap();
    assert!(values.next().is_none() && request.token_login.is_none());
    let part = |index: usize| BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(index).unwrap()).unwrap();
    let [header, claims] = [0, 1].map(|index| serde_json::from_slice::<Value>(&part(index)).unwrap());
    assert_eq!(header, json!({"alg": "HS256", "typ": "JWT"}));
    assert_eq!(made_token(b"SECRET", &header, &claims), token);
    claims
}

#[test]
fn livekit_gets_a_token_that_permits_one_kind_of_request() {
    let without_id = |mut claims: Value| {
        claims.as_object_mut().unwrap().remove("jti").unwrap();
        claims
    };
    let dial = token_claims(&dial_request(Provider::LiveKit), NOW);
    let times = json!({"iss": "APIk1", "iat": 1_760_962_600, "exp": 1_760_962_900});
    let with_times = |mut grants: Value| {
        grants.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
        grants
    };
    assert_eq!(without_id(dial), with_times(json!({"sip": {"call": true}})));
    let list = token_claims(&lookup_request(Provider::LiveKit, None).unwrap(), NOW);
    let room = room("call 1/ä", "2");
    assert_eq!(without_id(list), with_times(json!({"video": {"roomAdmin": true, "room": room}})));
}

#[test]
fn livekit_refusals_are_read_from_their_codes() {
    let refused = |code: &str, message: &str| json!({"code": code, "msg": message, "meta": {}});
    assert_snapshot!(answers(Provider::LiveKit, [
        (400, refused("invalid_argument", "SipCallTo should be a phone number or SIP user, not a full SIP URI")),
        (400, refused("invalid_argument", "missing sip trunk id and sip number")),
        (400, refused("malformed", "the json request could not be decoded")),
        (401, refused("unauthenticated", "permissions denied")),
        (403, refused("permission_denied", "permissions denied")),
        (403, refused("resource_exhausted", "quota exceeded")),
        (404, refused("not_found", "requested sip trunk does not exist")),
        (412, refused("failed_precondition", "no numbers on outbound trunk")),
        (429, refused("resource_exhausted", "rate limit exceeded")),
        (429, refused("resource_exhausted", "concurrent SIP calls limit exceeded")),
        (408, refused("deadline_exceeded", "request timed out")),
        (500, refused("internal", "update room failed")),
        (503, refused("unavailable", "no response from servers")),
        (200, json!({"participant_id": "PA_1", "participant_identity": "i", "room_name": "r", "sip_call_id": ""})),
        (200, json!({"sipCallId": "SCL_1"})),
    ]), @r#"
    400 {"code":"invalid_argument","meta":{},"msg":"SipCallTo should be a phone number or SIP user, not a full SIP URI"} -> number: invalid_number
    400 {"code":"invalid_argument","meta":{},"msg":"missing sip trunk id and sip number"} -> account: bad_request
    400 {"code":"malformed","meta":{},"msg":"the json request could not be decoded"} -> account: bad_request
    401 {"code":"unauthenticated","meta":{},"msg":"permissions denied"} -> account: unauthorized
    403 {"code":"permission_denied","meta":{},"msg":"permissions denied"} -> account: forbidden
    403 {"code":"resource_exhausted","meta":{},"msg":"quota exceeded"} -> too many calls: too_many_calls
    404 {"code":"not_found","meta":{},"msg":"requested sip trunk does not exist"} -> account: not_found
    412 {"code":"failed_precondition","meta":{},"msg":"no numbers on outbound trunk"} -> account: refused
    429 {"code":"resource_exhausted","meta":{},"msg":"rate limit exceeded"} -> busy: rate_limited
    429 {"code":"resource_exhausted","meta":{},"msg":"concurrent SIP calls limit exceeded"} -> too many calls: too_many_calls
    408 {"code":"deadline_exceeded","meta":{},"msg":"request timed out"} -> in doubt
    500 {"code":"internal","meta":{},"msg":"update room failed"} -> in doubt
    503 {"code":"unavailable","meta":{},"msg":"no response from servers"} -> in doubt
    200 {"participant_id":"PA_1","participant_identity":"i","room_name":"r","sip_call_id":""} -> in doubt
    200 {"sipCallId":"SCL_1"} -> accepted as SCL_1
    "#);
}

fn search(provider_call_id: Option<&str>, status: u16, body: &Value) -> LookupAnswer {
    job().search(Provider::LiveKit, provider_call_id, NOW, [(status, body.clone())]).1.unwrap()
}

#[test]
fn call_in_its_room_is_alive() {
    let participant = |kind: &str, call_id: &str, attempt: &str| {
        let attributes = json!({
            "sip.callID": call_id, "sip.callStatus": "ringing", "switchhook_call_id": "call 1/ä",
            "switchhook_attempt": attempt,
        });
        json!({"sid": "PA_1", "kind": kind, "state": "ACTIVE", "attributes": attributes, "joined_at": "1760962436"})
    };
    let agent = json!({"sid": "PA_2", "kind": "AGENT", "attributes": {}});
    let listed = json!({"participants": [agent, participant("SIP", "SCL_1", "2")]});
    assert_eq!(search(None, 200, &listed), alive("SCL_1"));
    assert_eq!(search(Some("SCL_1"), 200, &listed), alive("SCL_1"));
    // Neither another attempt nor an agent with the same attributes is this call.
    for other in [participant("SIP", "SCL_2", "1"), participant("AGENT", "SCL_1", "2")] {
        let listed = json!({"participants": [other]});
        assert_eq!(search(None, 200, &listed), undecided("no_listed_call"));
        assert_eq!(search(Some("SCL_1"), 200, &listed), LookupAnswer::Gone);
    }
}

#[test]
fn call_that_is_in_no_room_is_never_known_not_to_exist() {
    for (status, body) in [
        (200, json!({"participants": []})),
        (200, json!({"participants": null})),
        (200, json!({})),
        (404, json!({"code": "not_found", "msg": "requested room does not exist"})),
    ] {
        assert_eq!(search(None, status, &body), undecided("no_listed_call"), "{body}");
        assert_eq!(search(Some("SCL_1"), status, &body), LookupAnswer::Gone, "{body}");
    }
    for (status, body) in [
        (200, json!([])),
        (200, json!({"participants": {}})),
        (200, json!({"participants": [7]})),
        (503, json!({"code": "unavailable"})),
    ] {
        assert!(matches!(search(None, status, &body), LookupAnswer::RetryLater { .. }), "{body}");
    }
}

#[test]
fn call_of_another_system_is_in_a_room_that_is_not_known() {
    let (config, job) = (config(Provider::LiveKit), job());
    let lookup = Lookup { dialled_at: None, ..job.lookup(Some("SCL_1")) };
    let search = CallSearch::start(Provider::LiveKit, &config, lookup);
    assert!(matches!(search, Err(ClientError::LookupUnsupported)));
}
