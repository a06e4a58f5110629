//! Requests to SignalWire that place a call, and the meaning of refusals.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_providers::dial_api_request;

use crate::api::{dial_request, job, lookup_request, shown};
use crate::dialling::answers;

#[test]
fn signalwire_is_told_to_call() {
    let request = dial_request(Provider::SignalWire);
    let login = format!("Basic {}", BASE64_STANDARD.encode("project-1:SECRET"));
    assert!(request.headers.contains(&("authorization", login)));
    assert_snapshot!(shown(&request), @r"
    POST /api/laml/2010-04-01/Accounts/project-1/Calls.json
    authorization: Basic
    accept: application/json
    content-type: application/x-www-form-urlencoded
    To = +447700900000
    From = +442079460018
    Url = https://app.example.com/cxml?lang=en&appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true
    StatusCallback = https://hooks.example.com/prod/webhooks/signalwire?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7
    StatusCallbackMethod = POST
    StatusCallbackEvent = initiated
    StatusCallbackEvent = ringing
    StatusCallbackEvent = answered
    StatusCallbackEvent = completed
    MachineDetection = Enable
    AsyncAmd = true
    AsyncAmdStatusCallback = https://hooks.example.com/prod/webhooks/signalwire?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7
    AsyncAmdStatusCallbackMethod = POST
    ");
    let plain = r#"{"signalwire": {"keys": ["k"], "public_url": "https://hooks.example.com/", "dial": {
        "api_url": "https://example.signalwire.com", "project_id": "p", "api_token": "t", "cxml_url": "https://app.example.com/cxml"}}}"#;
    let providers = crate::providers_file(plain).unwrap();
    let account = providers.dial_accounts().config(Provider::SignalWire).unwrap();
    let form = dial_api_request(Provider::SignalWire, account, &job().request()).unwrap().body;
    let form = String::from_utf8(form).unwrap();
    assert!(
        !form.contains("MachineDetection")
            && form.contains("Url=https%3A%2F%2Fapp.example.com%2Fcxml%3Fappointment_id")
    );
}

#[test]
fn signalwire_requests_go_to_the_host_of_the_space() {
    let requests = [
        dial_request(Provider::SignalWire),
        lookup_request(Provider::SignalWire, None).unwrap(),
        lookup_request(Provider::SignalWire, Some("s1")).unwrap(),
    ];
    for request in requests {
        assert_eq!(request.base_url.as_deref(), Some("https://example.signalwire.com"));
    }
}

#[test]
fn signalwire_account_is_checked() {
    let problems = |entry: serde_json::Value| {
        let file = json!({"signalwire": entry}).to_string();
        crate::providers_file(&file).unwrap_err().problems().join("\n")
    };
    assert_snapshot!(problems(json!({"keys": ["k"], "dial": {"api_url": "http://example.signalwire.com", "account_sid": "p"}})), @r#"
    signalwire.public_url: missing: signalwire signs the URL that it posts to, for example https://example.com
    signalwire.dial.api_url: not an https URL of a host alone, such as https://name.example.com
    signalwire.dial.project_id: missing
    signalwire.dial.api_token: missing
    signalwire.dial.cxml_url: missing
    signalwire.dial."account_sid": unknown field: known are api_url, project_id, api_token, cxml_url, machine_detection
    "#);
    assert_snapshot!(problems(json!({"keys": ["k"], "public_url": "https://example.com", "window_seconds": 300})), @r"signalwire.window_seconds: not for signalwire, which signs no timestamp");
}

#[test]
fn signalwire_refusals_are_read_from_their_code() {
    let error = |code: serde_json::Value| json!({"code": code, "message": "…", "status": 400});
    assert_snapshot!(answers(Provider::SignalWire, [
        (400, error(json!(21_211))),
        (422, error(json!("21211"))),
        (400, error(json!(21_210))),
        (400, error(json!(21_212))),
        (400, error(json!(21_217))),
        (400, error(json!(21_219))),
        (400, error(json!(21_215))),
        (400, error(json!("invalid"))),
        (401, error(json!(20_003))),
        (429, error(json!(20_429))),
        (500, error(json!(21_211))),
        (201, json!({"status": "queued"})),
    ]), @r#"
    400 {"code":21211,"message":"…","status":400} -> number: invalid_number
    422 {"code":"21211","message":"…","status":400} -> number: invalid_number
    400 {"code":21210,"message":"…","status":400} -> calling number: invalid_calling_number
    400 {"code":21212,"message":"…","status":400} -> calling number: invalid_calling_number
    400 {"code":21217,"message":"…","status":400} -> number: invalid_number
    400 {"code":21219,"message":"…","status":400} -> number or account: trial_account
    400 {"code":21215,"message":"…","status":400} -> account: bad_request
    400 {"code":"invalid","message":"…","status":400} -> account: bad_request
    401 {"code":20003,"message":"…","status":400} -> account: unauthorized
    429 {"code":20429,"message":"…","status":400} -> busy: rate_limited
    500 {"code":21211,"message":"…","status":400} -> in doubt
    201 {"status":"queued"} -> in doubt
    "#);
}
