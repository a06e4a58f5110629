//! Requests that place a call, and the meaning of their responses.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, CallId, Provider};
use switchhook_providers::{
    ApiRequest, ClientError, DialAnswer, DialRequest, Providers, Reading, VerifiedWebhook, api_url, dial_api_request,
    lookup_api_request, read, read_dial_answer,
};

use crate::api::{DIALLED, Job, NOW, config, dial_request, job, shown, without_dial};

#[test]
fn retell_is_told_to_call() {
    assert_snapshot!(shown(&dial_request(Provider::Retell)), @r#"
    POST /v2/create-phone-call
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "from_number": "+442079460018",
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
    StatusCallback = https://hooks.example.com/prod/webhooks/twilio?appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true#rc=5&rp=all
    StatusCallbackMethod = POST
    StatusCallbackEvent = initiated
    StatusCallbackEvent = ringing
    StatusCallbackEvent = answered
    StatusCallbackEvent = completed
    MachineDetection = Enable
    AsyncAmd = true
    AsyncAmdStatusCallback = https://hooks.example.com/prod/webhooks/twilio?appointment_id=appt_7&customer_name=Ada%20%26%20Co&switchhook_attempt=2&switchhook_call_id=call%201%2F%C3%A4&switchhook_last_attempt=true#rc=5&rp=all
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
fn telnyx_is_told_to_call() {
    let request = dial_request(Provider::Telnyx);
    assert_snapshot!(shown(&request), @r#"
    POST /v2/calls
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "client_state": "eyJhcHBvaW50bWVudF9pZCI6ImFwcHRfNyIsImN1c3RvbWVyX25hbWUiOiJBZGEgJiBDbyIsInN3aXRjaGhvb2tfYXR0ZW1wdCI6IjIiLCJzd2l0Y2hob29rX2NhbGxfaWQiOiJjYWxsIDEvw6QiLCJzd2l0Y2hob29rX2xhc3RfYXR0ZW1wdCI6InRydWUifQ==",
      "command_id": "call 1/ä#2",
      "connection_id": "281",
      "from": "+442079460018",
      "to": "+447700900000"
    }
    "#);
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let state = BASE64_STANDARD.decode(body["client_state"].as_str().unwrap()).unwrap();
    assert_snapshot!(String::from_utf8(state).unwrap(), @r#"
    {"appointment_id":"appt_7","customer_name":"Ada & Co","switchhook_attempt":"2","switchhook_call_id":"call 1/ä","switchhook_last_attempt":"true"}
    "#);
}

#[test]
fn who_is_not_configured_to_dial_places_no_calls() {
    let job = job();
    for provider in Provider::ALL {
        let config = without_dial(provider);
        assert_eq!(dial_api_request(provider, &config, &job.request()), Err(ClientError::DialUnsupported));
        assert_eq!(lookup_api_request(provider, &config, &job.lookup(Some("id"))), Err(ClientError::LookupUnsupported));
    }
    // The account of one provider cannot place calls with another provider.
    let retell = config(Provider::Retell);
    for provider in Provider::ALL {
        assert_eq!(dial_api_request(provider, &retell, &job.request()).is_ok(), provider == Provider::Retell);
    }
    assert_eq!(api_url(Provider::Generic), None);
    assert!(DIALLED.iter().all(|provider| api_url(*provider).unwrap().starts_with("https://api.")));
}

#[test]
fn twilio_account_logs_in_with_its_token() {
    let providers = Providers::from_json(
        r#"{"twilio": {"keys": ["k"], "public_url": "https://example.com", "dial":
            {"account_sid": "AC1", "auth_token": "token", "twiml_url": "https://app.example.com/twiml"}}}"#,
    )
    .unwrap();
    let request =
        dial_api_request(Provider::Twilio, providers.config(Provider::Twilio).unwrap(), &job().request()).unwrap();
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
        Provider::Twilio => json!({"sid": "c1", "status": "queued"}),
        Provider::Vapi => json!({"id": "c1", "status": "queued"}),
        Provider::Telnyx => json!({"data": {"call_control_id": "c1", "call_leg_id": "l1", "is_alive": false}}),
        Provider::Generic => json!({"id": "c1", "call_id": "c1", "sid": "c1"}),
    }
}

#[test]
fn only_a_certain_no_is_a_no() {
    for provider in DIALLED {
        let body = accepted(provider).to_string();
        let answer = |status: u16| read_dial_answer(provider, status, Some("7"), body.as_bytes());
        let retry_later = |reason| DialAnswer::RetryLater { reason, retry_after: Some(Duration::from_secs(7)) };
        for status in [200, 201, 202] {
            assert_eq!(answer(status), DialAnswer::Accepted { provider_call_id: "c1".to_owned() });
        }
        assert_eq!(answer(400), DialAnswer::Rejected { reason: "bad_request" });
        assert_eq!(answer(422), DialAnswer::Rejected { reason: "unprocessable" });
        assert_eq!(answer(401), retry_later("unauthorized"));
        assert_eq!(answer(402), retry_later("payment_required"));
        assert_eq!(answer(403), retry_later("forbidden"));
        assert_eq!(answer(404), retry_later("not_found"));
        assert_eq!(answer(429), retry_later("rate_limited"));
        for status in [0, 100, 302, 408, 409, 499, 500, 502, 503, 504, 599, 65535] {
            assert_eq!(answer(status), DialAnswer::InDoubt, "{status}");
        }
        assert_eq!(
            read_dial_answer(provider, 429, None, b""),
            DialAnswer::RetryLater { reason: "rate_limited", retry_after: None }
        );
        for body in
            ["", "null", "[]", "{}", "\"c1\"", "<html>", "{\"data\":[]}", "{\"id\":7,\"sid\":{},\"call_id\":\" \"}"]
        {
            assert_eq!(read_dial_answer(provider, 201, None, body.as_bytes()), DialAnswer::InDoubt, "{body}");
        }
    }
    assert_eq!(
        read_dial_answer(Provider::Generic, 201, None, accepted(Provider::Generic).to_string().as_bytes()),
        DialAnswer::InDoubt
    );
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
            let call = json!({"id": "p1", "assistantOverrides": json()["assistantOverrides"]});
            let message = json!({"type": "status-update", "status": "ringing", "call": call});
            (String::new(), json!({"message": message}).to_string())
        }
        Provider::Telnyx => {
            let payload = json!({"call_control_id": "p1", "client_state": json()["client_state"]});
            let data = json!({"id": "e1", "event_type": "call.answered", "payload": payload});
            (String::new(), json!({"data": data}).to_string())
        }
        Provider::Generic => panic!("generic places no calls"),
    };
    VerifiedWebhook::from_inbox(provider, query, body.into_bytes(), 0)
}

#[test]
fn what_is_echoed_finds_its_call_again() {
    for provider in DIALLED {
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
    for provider in DIALLED {
        let request = dial_api_request(provider, &config(provider), &request).unwrap();
        let Reading::Event(event) = read(&echoed(provider, &request), NOW) else { panic!("{provider}") };
        assert_eq!(event.call_id, CallId::new("call 1/ä"));
        assert_eq!(event.attempt, Some(AttemptKey::new("2")));
        assert_eq!(event.appointment_id, None);
    }
}
