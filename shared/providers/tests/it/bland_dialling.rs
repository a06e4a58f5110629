//! Requests to Bland that place a call, and the meaning of refusals.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_providers::dial_api_request;

use crate::api::{dial_request, job, shown};
use crate::dialling::answers;

#[test]
fn bland_is_told_to_call() {
    let request = dial_request(Provider::Bland);
    assert!(request.headers.contains(&("authorization", "SECRET".to_owned())));
    assert_snapshot!(shown(&request), @r#"
    POST /v1/calls
    authorization: …
    accept: application/json
    content-type: application/json
    {
      "answered_by_enabled": true,
      "from": "+442079460018",
      "max_duration": 12,
      "metadata": {
        "appointment_id": "appt_7",
        "customer_name": "Ada & Co",
        "switchhook_attempt": "2",
        "switchhook_call_id": "call 1/ä",
        "switchhook_last_attempt": "true"
      },
      "pathway_id": "path-1",
      "phone_number": "+447700900000",
      "request_data": {
        "appointment_id": "appt_7",
        "customer_name": "Ada & Co",
        "switchhook_attempt": "2",
        "switchhook_call_id": "call 1/ä",
        "switchhook_last_attempt": "true"
      },
      "voicemail": {
        "action": "leave_message",
        "message": "Please call us back."
      },
      "webhook": "https://hooks.example.com/prod/webhooks/bland"
    }
    "#);
    let plain = r#"{"bland": {"keys": ["k"], "public_url": "https://hooks.example.com/", "dial":
        {"api_key": "k", "task": "Ask whether {{customer_name}} comes."}}}"#;
    let providers = crate::providers_file(plain).unwrap();
    let account = providers.dial_accounts().config(Provider::Bland).unwrap();
    let body = dial_api_request(Provider::Bland, account, &job().request()).unwrap().body;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["answered_by_enabled", "from", "metadata", "phone_number", "request_data", "task", "webhook"]);
    assert_eq!(body["webhook"], "https://hooks.example.com/webhooks/bland");
}

#[test]
fn bland_account_has_one_agent_and_a_public_url() {
    let problems = |dial: Value, public_url: Option<&str>| {
        let file =
            json!({"bland": {"keys": ["k"], "public_url": public_url.unwrap_or("https://example.com"), "dial": dial}});
        let mut file = file;
        if public_url.is_none() {
            file["bland"].as_object_mut().unwrap().remove("public_url");
        }
        crate::providers_file(&file.to_string()).unwrap_err().problems().join("\n")
    };
    let url = Some("https://example.com");
    assert_snapshot!(problems(json!({"api_key": "k"}), url), @r"bland.dial.task: missing: either task, the instructions of the agent, or pathway_id");
    assert_snapshot!(problems(json!({"api_key": "k", "task": "t", "pathway_id": "p"}), url), @r"bland.dial.pathway_id: not beside task: one of them speaks");
    assert_snapshot!(problems(json!({"api_key": "k", "task": "t"}), None), @r"bland.public_url: missing: bland posts to the URL that the request for a call names, for example https://example.com");
    assert_snapshot!(
        problems(json!({"task": " ", "max_duration": 0, "voicemail": "hang up", "voice": "x"}), url), @r#"
        bland.dial.api_key: missing
        bland.dial.task: empty, or with white space around it
        bland.dial.max_duration: not a whole number of minutes from 1 to 1440
        bland.dial.voicemail: not an object
        bland.dial."voice": unknown field: known are api_key, task (or pathway_id), max_duration, voicemail
        "#);
    assert_snapshot!(problems(json!({"api_key": "k", "task": "t", "max_duration": 1.5}), url), @r"bland.dial.max_duration: not a whole number of minutes from 1 to 1440");
    let window = crate::providers_file(r#"{"bland": {"keys": ["k"], "window_seconds": 300}}"#);
    assert_snapshot!(window.unwrap_err().problems().join("\n"), @r"bland.window_seconds: not for bland, which signs no timestamp");
}

#[test]
fn bland_refusals_are_read_from_their_texts() {
    let refused = |message: &str| json!({"status": "error", "message": message});
    assert_snapshot!(answers(Provider::Bland, [
        (400, refused("phone_number is invalid")),
        (400, json!({"status": "error", "message": "Invalid parameters", "errors": ["phone_number must be in E.164 format"]})),
        (400, json!({"data": null, "errors": [{"error": "BAD_REQUEST", "message": "phone_number is not valid"}]})),
        (400, refused("from phone_number is not yours")),
        (400, json!({"status": "error", "message": "Invalid parameters", "errors": ["from must be in E.164 format"]})),
        (400, refused("Unknown 'from' in the pathway")),
        (403, refused("This phone_number is blocked from your account")),
        (400, refused("Invalid phone number")),
        (400, json!({"status": "error", "errors": ["phone_number is required", "pathway_id is unknown"]})),
        (400, refused("Insufficient balance")),
        (402, refused("Insufficient balance")),
        (429, refused("Concurrent call limit reached")),
        (429, refused("Rate limit exceeded")),
        (401, refused("Invalid API key")),
        (500, refused("Internal error")),
        // Nothing says that such a call is not placed, so a search has to find out.
        (200, refused("phone_number is invalid")),
        (200, json!({"status": "success", "message": "Call successfully queued."})),
        // Bland may place a call later that it has queued, so its text does not withdraw it.
        (200, json!({"status": "success", "message": "Queued: concurrency limit reached", "call_id": "c1"})),
        (200, json!({"status": "success", "message": "Queued: concurrency limit reached"})),
    ]), @r#"
    400 {"message":"phone_number is invalid","status":"error"} -> number: invalid_number
    400 {"errors":["phone_number must be in E.164 format"],"message":"Invalid parameters","status":"error"} -> number: invalid_number
    400 {"data":null,"errors":[{"error":"BAD_REQUEST","message":"phone_number is not valid"}]} -> number: invalid_number
    400 {"message":"from phone_number is not yours","status":"error"} -> calling number: invalid_calling_number
    400 {"errors":["from must be in E.164 format"],"message":"Invalid parameters","status":"error"} -> calling number: invalid_calling_number
    400 {"message":"Unknown 'from' in the pathway","status":"error"} -> account: bad_request
    403 {"message":"This phone_number is blocked from your account","status":"error"} -> account: forbidden
    400 {"message":"Invalid phone number","status":"error"} -> number or account: number_refused
    400 {"errors":["phone_number is required","pathway_id is unknown"],"status":"error"} -> account: bad_request
    400 {"message":"Insufficient balance","status":"error"} -> account: payment_required
    402 {"message":"Insufficient balance","status":"error"} -> account: payment_required
    429 {"message":"Concurrent call limit reached","status":"error"} -> too many calls: concurrency_limit
    429 {"message":"Rate limit exceeded","status":"error"} -> busy: rate_limited
    401 {"message":"Invalid API key","status":"error"} -> account: unauthorized
    500 {"message":"Internal error","status":"error"} -> in doubt
    200 {"message":"phone_number is invalid","status":"error"} -> in doubt
    200 {"message":"Call successfully queued.","status":"success"} -> in doubt
    200 {"call_id":"c1","message":"Queued: concurrency limit reached","status":"success"} -> accepted as c1
    200 {"message":"Queued: concurrency limit reached","status":"success"} -> in doubt
    "#);
}
