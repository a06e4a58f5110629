//! Requests that place a call, and the meaning of their responses.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider};
use switchhook_providers::{
    ApiRequest, ApiUrl, CallSearch, ClientError, DialAnswer, DialRequest, Reading, VerifiedWebhook, api_url,
    dial_api_request, read, read_dial_answer, repeats_safely_for,
};

use crate::api::{CONFIG, DIALLED, Job, NOW, config, dial_request, job, shown, with_private_key};

#[test]
fn retell_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Retell)), @r#"
    POST /v2/create-phone-call
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "from_number": "+442079460018",
      "idempotency_key": "call 1/ä#2",
      "metadata": {
        "appointment_id": "appt_7",
        "customer_name": "Ada & Co",
        "switchhook_attempt": "2",
        "switchhook_call_id": "call 1/ä",
        "switchhook_last_attempt": "true"
      },
      "override_agent_id": "agent_1",
      "retell_llm_dynamic_variables": {
        "appointment_id": "appt_7",
        "customer_name": "Ada & Co",
        "switchhook_attempt": "2",
        "switchhook_call_id": "call 1/ä",
        "switchhook_last_attempt": "true"
      },
      "to_number": "+447700900000"
    }
    "#);
}

#[test]
fn twilio_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Twilio)), @r"
    POST /2010-04-01/Accounts/AC1/Calls.json
    authorization: Basic
    accept: application/json
    content-type: application/x-www-form-urlencoded
    To = +447700900000
    From = +442079460018
    Url = https://app.example.com/twiml?lang=en&appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true
    StatusCallback = https://hooks.example.com/prod/webhooks/twilio?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7#rc=5&rp=all
    StatusCallbackMethod = POST
    StatusCallbackEvent = initiated
    StatusCallbackEvent = ringing
    StatusCallbackEvent = answered
    StatusCallbackEvent = completed
    MachineDetection = Enable
    AsyncAmd = true
    AsyncAmdStatusCallback = https://hooks.example.com/prod/webhooks/twilio?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7#rc=5&rp=all
    AsyncAmdStatusCallbackMethod = POST
    ");
}

#[test]
fn vapi_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Vapi)), @r#"
    POST /call
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "assistantId": "as-1",
      "assistantOverrides": {
        "metadata": {
          "appointment_id": "appt_7",
          "customer_name": "Ada & Co",
          "switchhook_attempt": "2",
          "switchhook_call_id": "call 1/ä",
          "switchhook_last_attempt": "true"
        },
        "variableValues": {
          "appointment_id": "appt_7",
          "customer_name": "Ada & Co",
          "switchhook_attempt": "2",
          "switchhook_call_id": "call 1/ä",
          "switchhook_last_attempt": "true"
        }
      },
      "customer": {
        "number": "+447700900000"
      },
      "phoneNumberId": "pn-1"
    }
    "#);
}

#[test]
fn plivo_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Plivo)), @r#"
    POST /v1/Account/MA1/Call/
    authorization: Basic
    accept: application/json
    content-type: application/json
    {
      "answer_method": "POST",
      "answer_url": "https://app.example.com/answer?lang=en&appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true",
      "from": "442079460018",
      "hangup_method": "POST",
      "hangup_url": "https://hooks.example.com/prod/webhooks/plivo?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7#rc=5&rp=ct,rt,4xx,5xx",
      "machine_detection": "true",
      "machine_detection_method": "POST",
      "machine_detection_url": "https://hooks.example.com/prod/webhooks/plivo?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7#rc=5&rp=ct,rt,4xx,5xx",
      "ring_method": "POST",
      "ring_url": "https://hooks.example.com/prod/webhooks/plivo?switchhook_call_id=call%201%2F%C3%A4&switchhook_attempt=2&appointment_id=appt_7#rc=5&rp=ct,rt,4xx,5xx",
      "to": "447700900000"
    }
    "#);
}

#[test]
fn elevenlabs_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::ElevenLabs)), @r#"
    POST /v1/convai/twilio/outbound-call
    xi-api-key: …
    accept: application/json
    content-type: application/json
    {
      "agent_id": "ag-1",
      "agent_phone_number_id": "pn-1",
      "conversation_initiation_client_data": {
        "dynamic_variables": {
          "appointment_id": "appt_7",
          "customer_name": "Ada & Co",
          "switchhook_attempt": "2",
          "switchhook_call_id": "call 1/ä",
          "switchhook_dial": "dial-c7e73438f6f4a204",
          "switchhook_last_attempt": "true"
        }
      },
      "to_number": "+447700900000"
    }
    "#);

    let trunk = with_private_key(CONFIG)
        .replace(r#""agent_id": "ag-1","#, r#""agent_id": "ag-1", "phone_number_type": "sip_trunk","#);
    let providers = crate::providers_file(&trunk).unwrap();
    let config = providers.dial_accounts().config(Provider::ElevenLabs).unwrap();
    let request = dial_api_request(Provider::ElevenLabs, config, &job().request()).unwrap();
    assert_eq!(request.path, "/v1/convai/sip-trunk/outbound-call");
    assert_eq!(request.body, dial_request(Provider::ElevenLabs).body);
}

#[test]
fn telnyx_is_told_to_call() {
    let mut request = dial_request(Provider::Telnyx);
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    let policies = body.as_object_mut().unwrap().remove("webhook_retries_policies").unwrap();
    request.body = body.to_string().into_bytes();
    assert_snapshot!(shown(&request), @r#"
    POST /v2/calls
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "answering_machine_detection": "premium",
      "assistant": {
        "dynamic_variables": {
          "appointment_id": "appt_7",
          "customer_name": "Ada & Co",
          "switchhook_attempt": "2",
          "switchhook_call_id": "call 1/ä",
          "switchhook_last_attempt": "true"
        },
        "id": "assistant-1"
      },
      "client_state": "eyJhcHBvaW50bWVudF9pZCI6ImFwcHRfNyIsImN1c3RvbWVyX25hbWUiOiJBZGEgJiBDbyIsInN3aXRjaGhvb2tfYXR0ZW1wdCI6IjIiLCJzd2l0Y2hob29rX2NhbGxfaWQiOiJjYWxsIDEvw6QiLCJzd2l0Y2hob29rX2xhc3RfYXR0ZW1wdCI6InRydWUifQ==",
      "command_id": "call 1/ä#2",
      "connection_id": "281",
      "from": "+442079460018",
      "to": "+447700900000",
      "webhook_url": "https://hooks.example.com/prod/webhooks/telnyx",
      "webhook_url_method": "POST"
    }
    "#);
    // Telnyx allows five retries, of at most a minute together.
    for (event, policy) in policies.as_object().unwrap() {
        let retries: Vec<u64> = serde_json::from_value(policy["retries_ms"].clone()).unwrap();
        assert!(event.starts_with("call.") && retries.len() <= 5 && retries.iter().sum::<u64>() <= 60_000);
    }
    // Only an analysis has the person's decision.
    for event in ["call.answered", "call.hangup", "call.analyzed"] {
        assert!(policies[event].is_object(), "{event}");
    }
    let state = BASE64_STANDARD.decode(body["client_state"].as_str().unwrap()).unwrap();
    assert_snapshot!(String::from_utf8(state).unwrap(), @r#"
    {"appointment_id":"appt_7","customer_name":"Ada & Co","switchhook_attempt":"2","switchhook_call_id":"call 1/ä","switchhook_last_attempt":"true"}
    "#);
}

#[test]
fn account_of_one_provider_is_of_no_use_at_another() {
    let job = job();
    let retell = config(Provider::Retell);
    for provider in Provider::ALL.into_iter().filter(|provider| *provider != Provider::Retell) {
        assert_eq!(dial_api_request(provider, &retell, &job.request()), Err(ClientError::DialUnsupported));
        let search = CallSearch::start(provider, &retell, job.lookup(Some("id")));
        assert!(matches!(search, Err(ClientError::LookupUnsupported)));
    }
    assert_eq!((api_url(Provider::Daily), api_url(Provider::Generic)), (None, None));
    let is_https = |provider: &Provider| match api_url(*provider).unwrap() {
        ApiUrl::Fixed(url) => url.starts_with("https://api."),
        ApiUrl::OfRegion(urls) => urls.iter().all(|url| url.starts_with("https://api.")),
        ApiUrl::OfAccount => true,
    };
    assert!(DIALLED.iter().all(is_https));
}

#[test]
fn twilio_account_logs_in_with_its_token() {
    let providers = crate::providers_file(
        r#"{"twilio": {"keys": ["k"], "public_url": "https://example.com", "dial":
            {"account_sid": "AC1", "auth_token": "token", "twiml_url": "https://app.example.com/twiml"}}}"#,
    )
    .unwrap();
    let accounts = providers.dial_accounts();
    let request =
        dial_api_request(Provider::Twilio, accounts.config(Provider::Twilio).unwrap(), &job().request()).unwrap();
    let login = format!("Basic {}", BASE64_STANDARD.encode("AC1:token"));
    assert!(request.headers.contains(&("authorization", login)));
    let form = String::from_utf8(request.body).unwrap();
    assert!(
        !form.contains("MachineDetection")
            && form.contains("Url=https%3A%2F%2Fapp.example.com%2Ftwiml%3Fappointment_id")
    );
}

#[test]
fn nothing_secret_is_shown() {
    let job = job();
    for provider in DIALLED {
        let config = config(provider);
        let debug = format!("{:?} {:?} {:?}", config, dial_request(provider), job.request());
        for secret in ["SECRET", "SK1", "+44", "Ada", "theirs"] {
            assert!(!debug.contains(secret), "{debug}");
        }
    }
}

fn accepted(provider: Provider) -> Value {
    match provider {
        Provider::Retell => json!({"call_id": "c1", "call_status": "registered"}),
        Provider::Twilio | Provider::SignalWire => json!({"sid": "c1", "status": "queued"}),
        Provider::Vapi => json!({"id": "c1", "status": "queued"}),
        Provider::Telnyx => json!({"data": {"call_control_id": "c1", "call_leg_id": "l1", "is_alive": false}}),
        Provider::ElevenLabs => json!({"success": true, "message": "", "conversation_id": "c1", "callSid": "CA1"}),
        Provider::Vonage => {
            json!({"uuid": "c1", "status": "started", "direction": "outbound", "conversation_uuid": "CON-1"})
        }
        Provider::LiveKit => {
            json!({"participant_id": "PA_1", "participant_identity": "i", "room_name": "r", "sip_call_id": "c1"})
        }
        Provider::Bland => {
            json!({"status": "success", "message": "Call successfully queued.", "call_id": "c1", "batch_id": null})
        }
        Provider::Plivo => json!({"message": "call fired", "request_uuid": "c1", "api_id": "a1"}),
        Provider::Daily | Provider::Generic | Provider::Named(_) => {
            json!({"id": "c1", "call_id": "c1", "sid": "c1"})
        }
    }
}

pub(crate) fn number() -> PhoneNumber {
    PhoneNumber::new("+15550199")
}

#[test]
fn only_a_certain_no_is_a_no() {
    for provider in DIALLED {
        let body = accepted(provider).to_string();
        let answer = |status: u16| read_dial_answer(provider, &number(), status, Some("7"), body.as_bytes());
        let of_account = |reason| DialAnswer::AccountProblem { reason };
        // The refusal names a call, which the provider may report.
        let named = |refusal: &DialAnswer| DialAnswer::NotDialled {
            provider_call_id: "c1".to_owned(),
            refusal: Box::new(refusal.clone()),
        };
        for status in [200, 201, 202] {
            assert_eq!(answer(status), DialAnswer::Accepted { provider_call_id: "c1".to_owned() });
        }
        // Without a body that blames the number, every certain no counts as one of the account.
        for (status, reason) in [
            (400, "bad_request"),
            (401, "unauthorized"),
            (402, "payment_required"),
            (403, "forbidden"),
            (404, "not_found"),
            (405, "refused"),
            (413, "refused"),
            (422, "unprocessable"),
            (451, "refused"),
        ] {
            // Vonage answers 403 to a destination that the account may not call.
            let expected = match (provider, status) {
                (Provider::Vonage, 403) => DialAnswer::NumberOrAccountProblem { reason: "destination_forbidden" },
                (_, _) => of_account(reason),
            };
            assert_eq!(answer(status), named(&expected), "{provider} {status}");
            let page = read_dial_answer(provider, &number(), status, None, b"<html>");
            assert_eq!(page, expected, "{provider} {status}");
        }
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(answer(429), named(&DialAnswer::Busy { reason: "rate_limited", retry_after }));
        for status in [0, 100, 302, 408, 409, 425, 499, 500, 502, 503, 504, 599, 65535] {
            assert_eq!(answer(status), DialAnswer::InDoubt, "{status}");
        }
        assert_eq!(
            read_dial_answer(provider, &number(), 429, None, b""),
            DialAnswer::Busy { reason: "rate_limited", retry_after: None }
        );
        for body in
            ["", "null", "[]", "{}", "\"c1\"", "<html>", "{\"data\":[]}", "{\"id\":7,\"sid\":{},\"call_id\":\" \"}"]
        {
            assert_eq!(
                read_dial_answer(provider, &number(), 201, None, body.as_bytes()),
                DialAnswer::InDoubt,
                "{body}"
            );
        }
    }
    assert_eq!(
        read_dial_answer(Provider::Generic, &number(), 201, None, accepted(Provider::Generic).to_string().as_bytes()),
        DialAnswer::InDoubt
    );
}

/// One line per response: its status, its body, and the answer.
pub(crate) fn answers<const N: usize>(provider: Provider, responses: [(u16, Value); N]) -> String {
    let line = |(status, body): (u16, Value)| {
        let answer = match read_dial_answer(provider, &number(), status, None, body.to_string().as_bytes()) {
            DialAnswer::Accepted { provider_call_id } => format!("accepted as {provider_call_id}"),
            DialAnswer::Rejected { reason } => format!("number: {reason}"),
            DialAnswer::AccountProblem { reason } => format!("account: {reason}"),
            DialAnswer::NumberOrAccountProblem { reason } => format!("number or account: {reason}"),
            DialAnswer::CallingNumberProblem { reason } => format!("calling number: {reason}"),
            DialAnswer::Busy { reason, retry_after: _ } => format!("busy: {reason}"),
            DialAnswer::TooManyCalls { reason, retry_after: _ } => format!("too many calls: {reason}"),
            DialAnswer::NotDialled { provider_call_id, refusal } => {
                format!("not dialled as {provider_call_id}: {}", refusal.reason().unwrap())
            }
            DialAnswer::InDoubt => "in doubt".to_owned(),
        };
        format!("{status} {body} -> {answer}")
    };
    responses.map(line).join("\n")
}

#[test]
fn retells_refusals_are_read_from_their_text() {
    let error = |message: &str| json!({"status": "error", "message": message});
    assert_snapshot!(answers(Provider::Retell, [
        (422, error("Cannot find requested asset under given api key.")),
        (404, error("Cannot find requested asset under given api key.")),
        (404, error("Item +14155550100 not found from phone-number")),
        (400, error("No outbound agent id set up for phone number.")),
        (400, error("to_number is not a valid number")),
        (400, json!({"status": "error", "error_message": "Invalid to number"})),
        (400, error("from_number and to_number must be in E.164 format")),
        (400, error("Invalid request format, please check API reference.")),
        (400, error("The contact is marked do_not_call.")),
        (400, error("The number is on the DNC list")),
        (400, error("honor_internal_dnc must be a boolean")),
        (400, error("Calls to numbers need a verified account")),
        (400, error("International calls to numbers outside the US are not enabled")),
        (400, error("to_number must begin with its country code")),
        (402, error("Trial has ended, please add payment method.")),
        (403, error("Concurrency limit reached")),
        (500, error("Concurrency limit reached")),
    ]), @r#"
    422 {"message":"Cannot find requested asset under given api key.","status":"error"} -> account: unknown_asset
    404 {"message":"Cannot find requested asset under given api key.","status":"error"} -> account: unknown_asset
    404 {"message":"Item +14155550100 not found from phone-number","status":"error"} -> calling number: unknown_calling_number
    400 {"message":"No outbound agent id set up for phone number.","status":"error"} -> calling number: no_outbound_agent
    400 {"message":"to_number is not a valid number","status":"error"} -> number: invalid_number
    400 {"error_message":"Invalid to number","status":"error"} -> number: invalid_number
    400 {"message":"from_number and to_number must be in E.164 format","status":"error"} -> account: bad_request
    400 {"message":"Invalid request format, please check API reference.","status":"error"} -> account: bad_request
    400 {"message":"The contact is marked do_not_call.","status":"error"} -> number: do_not_call
    400 {"message":"The number is on the DNC list","status":"error"} -> number: do_not_call
    400 {"message":"honor_internal_dnc must be a boolean","status":"error"} -> account: bad_request
    400 {"message":"Calls to numbers need a verified account","status":"error"} -> account: bad_request
    400 {"message":"International calls to numbers outside the US are not enabled","status":"error"} -> number or account: country_not_enabled
    400 {"message":"to_number must begin with its country code","status":"error"} -> number: invalid_number
    402 {"message":"Trial has ended, please add payment method.","status":"error"} -> account: payment_required
    403 {"message":"Concurrency limit reached","status":"error"} -> too many calls: concurrency_limit
    500 {"message":"Concurrency limit reached","status":"error"} -> in doubt
    "#);
}

#[test]
fn vapis_refusals_are_read_from_their_texts() {
    let error = |messages: Value| json!({"message": messages, "error": "Bad Request", "statusCode": 400});
    let limits =
        |blocked: bool| json!({"id": "v1", "status": "queued", "subscriptionLimits": {"concurrencyBlocked": blocked}});
    assert_snapshot!(answers(Provider::Vapi, [
        (400, error(json!(["customer.number must be a valid phone number in the E.164 format. Hot tip, …"]))),
        (400, error(json!(["customer.number must be a valid phone number", "phoneNumberId must be a UUID"]))),
        (400, error(json!(["property phoneNumberId should not exist"]))),
        (400, error(json!("Over Concurrency Limit"))),
        (400, error(json!("Numbers Bought On Vapi Have A Daily Outbound Call Limit."))),
        (400, error(json!("Wallet Balance is 0. Purchase More Credits Or Upgrade Your Plan."))),
        (400, json!({
            "statusCode": 400, "message": "Couldn't start call. Free Vapi numbers do not support international calls.",
            "error": "Bad Request", "subscriptionLimits": {"concurrencyBlocked": false},
        })),
        (201, limits(false)),
        (201, limits(true)),
        (201, json!({"subscriptionLimits": {"concurrencyBlocked": true}})),
    ]), @r#"
    400 {"error":"Bad Request","message":["customer.number must be a valid phone number in the E.164 format. Hot tip, …"],"statusCode":400} -> number: invalid_number
    400 {"error":"Bad Request","message":["customer.number must be a valid phone number","phoneNumberId must be a UUID"],"statusCode":400} -> account: bad_request
    400 {"error":"Bad Request","message":["property phoneNumberId should not exist"],"statusCode":400} -> account: bad_request
    400 {"error":"Bad Request","message":"Over Concurrency Limit","statusCode":400} -> too many calls: concurrency_limit
    400 {"error":"Bad Request","message":"Numbers Bought On Vapi Have A Daily Outbound Call Limit.","statusCode":400} -> account: daily_limit
    400 {"error":"Bad Request","message":"Wallet Balance is 0. Purchase More Credits Or Upgrade Your Plan.","statusCode":400} -> account: bad_request
    400 {"error":"Bad Request","message":"Couldn't start call. Free Vapi numbers do not support international calls.","statusCode":400,"subscriptionLimits":{"concurrencyBlocked":false}} -> number or account: country_not_enabled
    201 {"id":"v1","status":"queued","subscriptionLimits":{"concurrencyBlocked":false}} -> accepted as v1
    201 {"id":"v1","status":"queued","subscriptionLimits":{"concurrencyBlocked":true}} -> not dialled as v1: concurrency_limit
    201 {"subscriptionLimits":{"concurrencyBlocked":true}} -> too many calls: concurrency_limit
    "#);
}

#[test]
fn plivo_refusals_are_read_from_their_message() {
    let refused = |message: &str| json!({"api_id": "a", "error": message});
    assert_snapshot!(answers(Provider::Plivo, [
        (400, refused("destination number is invalid")),
        (400, refused("'to' parameter is not valid")),
        (400, refused("from parameter is not valid")),
        (400, refused("answer_url is required")),
        (403, refused("Geo permissions disabled for this country")),
        (403, refused("account not verified")),
        (400, refused("The destination number needs to be verified for trial accounts")),
        (403, refused("Unverified 'to' number")),
        (400, refused("sandbox: destination number not verified")),
        (429, refused("concurrent call limit reached")),
        (429, refused("too many requests")),
        (201, json!({"message": "call fired", "api_id": "a"})),
    ]), @r#"
    400 {"api_id":"a","error":"destination number is invalid"} -> number: invalid_number
    400 {"api_id":"a","error":"'to' parameter is not valid"} -> number: invalid_number
    400 {"api_id":"a","error":"from parameter is not valid"} -> calling number: invalid_calling_number
    400 {"api_id":"a","error":"answer_url is required"} -> account: bad_request
    403 {"api_id":"a","error":"Geo permissions disabled for this country"} -> number or account: country_not_enabled
    403 {"api_id":"a","error":"account not verified"} -> account: forbidden
    400 {"api_id":"a","error":"The destination number needs to be verified for trial accounts"} -> number or account: trial_account
    403 {"api_id":"a","error":"Unverified 'to' number"} -> number or account: trial_account
    400 {"api_id":"a","error":"sandbox: destination number not verified"} -> number or account: trial_account
    429 {"api_id":"a","error":"concurrent call limit reached"} -> too many calls: concurrency_limit
    429 {"api_id":"a","error":"too many requests"} -> busy: rate_limited
    201 {"api_id":"a","message":"call fired"} -> in doubt
    "#);
}

#[test]
fn elevenlabs_refusals_are_read_from_their_detail() {
    let detail = |status: &str| json!({"detail": {"status": status, "message": "…"}});
    let invalid = |fields: &[&str]| {
        let problems = fields.iter().map(|field| json!({"loc": ["body", field], "msg": "…", "type": "value_error"}));
        json!({"detail": problems.collect::<Value>()})
    };
    assert_snapshot!(answers(Provider::ElevenLabs, [
        (422, invalid(&["to_number"])),
        (422, invalid(&["agent_id"])),
        (422, invalid(&["to_number", "agent_id"])),
        (422, invalid(&[])),
        (400, detail("invalid_provider_config")),
        (400, detail("quota_exceeded")),
        (401, detail("quota_exceeded")),
        (404, detail("document_not_found")),
        (429, detail("too_many_concurrent_requests")),
        (429, detail("system_busy")),
        (500, detail("too_many_concurrent_requests")),
        (400, json!({"detail": "Bad Request"})),
        // Nothing says that such a call is not placed, so a search has to find out.
        (200, json!({"success": false, "message": "…"})),
        (200, json!({"success": false, "message": "…", "callSid": "CA1"})),
        (200, json!({"success": false, "message": "…", "conversation_id": "c1"})),
    ]), @r#"
    422 {"detail":[{"loc":["body","to_number"],"msg":"…","type":"value_error"}]} -> number: invalid_number
    422 {"detail":[{"loc":["body","agent_id"],"msg":"…","type":"value_error"}]} -> account: unprocessable
    422 {"detail":[{"loc":["body","to_number"],"msg":"…","type":"value_error"},{"loc":["body","agent_id"],"msg":"…","type":"value_error"}]} -> account: unprocessable
    422 {"detail":[]} -> account: unprocessable
    400 {"detail":{"message":"…","status":"invalid_provider_config"}} -> account: bad_request
    400 {"detail":{"message":"…","status":"quota_exceeded"}} -> account: quota_exceeded
    401 {"detail":{"message":"…","status":"quota_exceeded"}} -> account: unauthorized
    404 {"detail":{"message":"…","status":"document_not_found"}} -> account: not_found
    429 {"detail":{"message":"…","status":"too_many_concurrent_requests"}} -> too many calls: concurrency_limit
    429 {"detail":{"message":"…","status":"system_busy"}} -> busy: rate_limited
    500 {"detail":{"message":"…","status":"too_many_concurrent_requests"}} -> in doubt
    400 {"detail":"Bad Request"} -> account: bad_request
    200 {"message":"…","success":false} -> in doubt
    200 {"callSid":"CA1","message":"…","success":false} -> in doubt
    200 {"conversation_id":"c1","message":"…","success":false} -> accepted as c1
    "#);
}

#[test]
fn repetitions_are_safe_where_the_request_carries_the_dial_key() {
    for provider in DIALLED {
        let body = String::from_utf8(dial_request(provider).body).unwrap();
        // At LiveKit it names a participant, and nothing says that this prevents a second call.
        let carries_dial_key = body.contains("call 1/ä#2") && provider != Provider::LiveKit;
        assert_eq!(repeats_safely_for(provider).is_some(), carries_dial_key, "{provider}");
    }
}

/// Webhook in which the provider echoes the metadata of the request.
fn echoed(provider: Provider, request: &ApiRequest) -> VerifiedWebhook {
    let json = || serde_json::from_slice::<Value>(&request.body).unwrap();
    let (query, body) = match provider {
        Provider::Retell => {
            let call = json!({"call_id": "p1", "metadata": json()["metadata"]});
            (String::new(), json!({"event": "call_started", "call": call}).to_string())
        }
        Provider::Twilio => {
            let form: BTreeMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
            let (_, query) = form["StatusCallback"].split_once('?').unwrap();
            let (query, _fragment) = query.split_once('#').unwrap();
            assert_eq!(form["StatusCallback"], form["AsyncAmdStatusCallback"]);
            (query.to_owned(), "CallSid=p1&CallStatus=ringing&SequenceNumber=1".to_owned())
        }
        Provider::Vapi => {
            let overrides = &json()["assistantOverrides"];
            let call = json!({"id": "p1", "type": "outboundPhoneCall", "assistantOverrides": overrides});
            let message = json!({"type": "status-update", "status": "ringing", "call": call});
            (String::new(), json!({"message": message}).to_string())
        }
        Provider::Telnyx => {
            let payload = json!({"call_control_id": "p1", "client_state": json()["client_state"]});
            let data = json!({"id": "e1", "event_type": "call.answered", "payload": payload});
            (String::new(), json!({"data": data}).to_string())
        }
        Provider::ElevenLabs => {
            let client_data = &json()["conversation_initiation_client_data"];
            let data = json!({
                "conversation_id": "p1", "status": "done", "metadata": {"phone_call": {"call_result": "answered"}},
                "conversation_initiation_client_data": client_data,
            });
            (String::new(), json!({"type": "post_call_transcription", "data": data}).to_string())
        }
        Provider::Plivo => {
            let request = json();
            assert_eq!(request["ring_url"], request["hangup_url"]);
            assert_eq!(request["ring_url"], request["machine_detection_url"]);
            let (_, query) = request["ring_url"].as_str().unwrap().split_once('?').unwrap();
            let (query, _fragment) = query.split_once('#').unwrap();
            (query.to_owned(), "CallUUID=p1&Event=Ring&CallStatus=ringing".to_owned())
        }
        Provider::LiveKit => {
            let mut attributes = json()["participant_attributes"].clone();
            attributes["sip.callID"] = "p1".into();
            let participant = json!({"kind": "SIP", "attributes": attributes});
            (String::new(), json!({"event": "participant_joined", "participant": participant}).to_string())
        }
        Provider::Bland => {
            let metadata = &json()["metadata"];
            assert_eq!(metadata, &json()["request_data"]);
            let body = json!({"call_id": "p1", "completed": true, "answered_by": "human", "metadata": metadata});
            (String::new(), body.to_string())
        }
        Provider::SignalWire => {
            let form: BTreeMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
            let (_, query) = form["StatusCallback"].split_once('?').unwrap();
            assert_eq!(form["StatusCallback"], form["AsyncAmdStatusCallback"]);
            (query.to_owned(), "CallSid=p1&CallStatus=ringing&SequenceNumber=1".to_owned())
        }
        Provider::Vonage => panic!("vonage repeats nothing that the dial names"),
        Provider::Daily | Provider::Generic | Provider::Named(_) => panic!("{provider} places no calls"),
    };
    VerifiedWebhook::from_inbox(provider, query, body.into_bytes(), 0)
}

/// Providers that repeat our ids in their webhooks.
fn echoing() -> impl Iterator<Item = Provider> {
    DIALLED.into_iter().filter(|provider| *provider != Provider::Vonage)
}

#[test]
fn what_is_echoed_finds_its_call_again() {
    for provider in echoing() {
        let Reading::Event(event) = read(&echoed(provider, &dial_request(provider)), NOW) else { panic!("{provider}") };
        assert_eq!(event.call_id, CallId::new("call 1/ä"));
        assert_eq!(event.attempt, Some(AttemptKey::new("2")));
        assert_eq!(event.appointment_id.as_deref(), Some("appt_7"));
        assert_eq!(event.provider_call_id.as_deref(), Some("p1"));
    }
}

#[test]
fn metadata_never_passes_for_ours() {
    let job = Job::new(&[
        ("appointment_id", "theirs"),
        ("switchhook_call_id", "theirs"),
        ("switchhook_attempt", "theirs"),
        ("switchhook_last_attempt", "theirs"),
        ("switchhook_anything", "theirs"),
        ("bodySHA256", "00"),
        ("x&switchhook_call_id=theirs", "1"),
        ("note", "a\"b&switchhook_attempt=9#rc=0"),
    ]);
    let request = DialRequest { appointment_id: None, ..job.request() };
    for provider in echoing() {
        let request = dial_api_request(provider, &config(provider), &request).unwrap();
        let Reading::Event(event) = read(&echoed(provider, &request), NOW) else { panic!("{provider}") };
        assert_eq!(event.call_id, CallId::new("call 1/ä"));
        assert_eq!(event.attempt, Some(AttemptKey::new("2")));
        assert_eq!(event.appointment_id, None);
    }
}

/// API Gateway takes 10,240 bytes of headers and request line, and every proxy on the way has its own limit.
#[test]
fn callback_url_stays_short_however_much_metadata_a_call_has() {
    let value = "é".repeat(256);
    let names: Vec<String> = (0..20).map(|number| format!("name_{number}")).collect();
    let metadata: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    let job = Job::new(&metadata);
    for (provider, fields) in [
        (Provider::Twilio, ["StatusCallback", "AsyncAmdStatusCallback"]),
        (Provider::SignalWire, ["StatusCallback", "AsyncAmdStatusCallback"]),
        (Provider::Plivo, ["ring_url", "hangup_url"]),
        (Provider::Vonage, ["event_url", "event_url"]),
    ] {
        let request = dial_api_request(provider, &config(provider), &job.request()).unwrap();
        let json = serde_json::from_slice::<Value>(&request.body);
        let form: BTreeMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
        let fields =
            fields.map(|field| json.as_ref().map_or_else(|_| form[field].clone(), |json| json[field].to_string()));
        assert!(fields.iter().all(|url| url.contains("/webhooks/") && url.len() < 2_000), "{provider}");
    }
}
