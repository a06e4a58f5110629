//! What each provider is asked and told over its API, and what its answers come to.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    ApiRequest, ClientError, DialAnswer, DialRequest, Lookup, LookupAnswer, ProviderConfig, Providers, Reading,
    VerifiedWebhook, api_url, dial_api_request, lookup_api_request, read, read_dial_answer, read_lookup_answer,
};

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);
const DIALLED_AT: Timestamp = Timestamp::from_millis(1_760_962_435_000);

const CONFIG: &str = r#"{
    "retell": {"keys": ["k"], "dial": {"api_key": "SECRET", "agent_id": "agent_1"}},
    "twilio": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "account_sid": "AC1", "api_key_sid": "SK1", "api_key_secret": "SECRET",
        "twiml_url": "https://app.example.com/twiml?lang=en", "machine_detection": true}},
    "vapi": {"keys": ["k"], "dial": {"api_key": "SECRET", "assistant_id": "as-1", "phone_number_id": "pn-1"}},
    "telnyx": {"keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
        "dial": {"api_key": "SECRET", "connection_id": "281"}},
    "generic": {"keys": ["k"]}}"#;

const DIALLED: [Provider; 4] = [Provider::Retell, Provider::Twilio, Provider::Vapi, Provider::Telnyx];

fn config(provider: Provider) -> ProviderConfig {
    Providers::from_json(CONFIG).unwrap().config(provider).cloned().unwrap()
}

fn without_dial(provider: Provider) -> ProviderConfig {
    let mut document: Value = serde_json::from_str(CONFIG).unwrap();
    document[provider.as_str()].as_object_mut().unwrap().remove("dial");
    Providers::from_json(&document.to_string()).unwrap().config(provider).cloned().unwrap()
}

/// What an order is made of.
struct Job {
    call_id: CallId,
    attempt: AttemptKey,
    from: PhoneNumber,
    to: PhoneNumber,
    metadata: BTreeMap<String, String>,
}

impl Job {
    fn new(metadata: &[(&str, &str)]) -> Self {
        Self {
            call_id: CallId::new("call 1/ä"),
            attempt: AttemptKey::new("2"),
            from: PhoneNumber::new("+442079460018"),
            to: PhoneNumber::new("+447700900000"),
            metadata: metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    fn order(&self) -> DialRequest<'_> {
        DialRequest {
            call_id: &self.call_id,
            attempt: &self.attempt,
            last_attempt: true,
            from: &self.from,
            to: &self.to,
            appointment_id: Some("appt_7"),
            metadata: &self.metadata,
            dial_key: "call 1/ä#2",
        }
    }

    fn lookup<'a>(&'a self, provider_call_id: Option<&'a str>) -> Lookup<'a> {
        Lookup { call_id: &self.call_id, attempt: &self.attempt, provider_call_id, dialled_at: Some(DIALLED_AT) }
    }
}

fn job() -> Job {
    Job::new(&[("customer_name", "Ada & Co"), ("switchhook_call_id", "theirs"), ("appointment_id", "theirs")])
}

fn placed(provider: Provider) -> ApiRequest {
    dial_api_request(provider, &config(provider), &job().order()).unwrap()
}

fn inquired(provider: Provider, provider_call_id: Option<&str>) -> Result<ApiRequest, ClientError> {
    lookup_api_request(provider, &config(provider), &job().lookup(provider_call_id))
}

/// The request in lines; of the authorisation only what it begins with, and a form one parameter a line.
fn shown(request: &ApiRequest) -> String {
    let mut lines = format!("{} {}", request.method, request.path);
    for (name, value) in &request.headers {
        let value = if *name == "authorization" { value.split(' ').next().unwrap() } else { value };
        write!(lines, "\n{name}: {value}").unwrap();
    }
    let body = std::str::from_utf8(&request.body).unwrap();
    match serde_json::from_str::<Value>(body) {
        Ok(json) => write!(lines, "\n{}", serde_json::to_string_pretty(&json).unwrap()).unwrap(),
        Err(_) => {
            for (name, value) in form_urlencoded::parse(body.as_bytes()) {
                write!(lines, "\n{name} = {value}").unwrap();
            }
        }
    }
    lines
}

#[test]
fn retell_is_told_to_call() {
    assert_snapshot!(shown(&placed(Provider::Retell)), @r#"
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
    assert_snapshot!(shown(&placed(Provider::Twilio)), @r"
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
    assert_snapshot!(shown(&placed(Provider::Vapi)), @r#"
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
    let request = placed(Provider::Telnyx);
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
fn every_provider_is_asked_by_its_own_call_id() {
    let asked: Vec<String> =
        DIALLED.iter().map(|provider| shown(&inquired(*provider, Some("v3:a/b")).unwrap())).collect();
    assert_snapshot!(asked.join("\n\n"), @r"
    GET /v2/get-call/v3%3Aa%2Fb
    authorization: Bearer
    accept: application/json

    GET /2010-04-01/Accounts/AC1/Calls/v3%3Aa%2Fb.json
    authorization: Basic
    accept: application/json

    GET /call/v3%3Aa%2Fb
    authorization: Bearer
    accept: application/json

    GET /v2/calls/v3%3Aa%2Fb
    authorization: Bearer
    accept: application/json
    ");
}

#[test]
fn retell_and_vapi_are_asked_by_our_ids() {
    assert_snapshot!(shown(&inquired(Provider::Retell, None).unwrap()), @r#"
    POST /v3/list-calls
    authorization: Bearer
    accept: application/json
    content-type: application/json
    {
      "filter_criteria": {
        "metadata": [
          {
            "key": "switchhook_call_id",
            "op": "eq",
            "type": "string",
            "value": "call 1/ä"
          },
          {
            "key": "switchhook_attempt",
            "op": "eq",
            "type": "string",
            "value": "2"
          }
        ]
      },
      "limit": 10,
      "sort_order": "descending"
    }
    "#);
    assert_snapshot!(shown(&inquired(Provider::Vapi, None).unwrap()), @r"
    GET /call?createdAtGe=2025-10-20T12%3A11%3A55.000Z&createdAtLe=2025-10-20T12%3A23%3A55.000Z&limit=100
    authorization: Bearer
    accept: application/json
    ");
    for provider in [Provider::Twilio, Provider::Telnyx] {
        assert_eq!(inquired(provider, None), Err(ClientError::LookupUnsupported));
    }
    // Vapi's calls are looked through from when we dialled.
    let job = job();
    let undated = Lookup { dialled_at: None, ..job.lookup(None) };
    assert_eq!(
        lookup_api_request(Provider::Vapi, &config(Provider::Vapi), &undated),
        Err(ClientError::LookupUnsupported)
    );
}

#[test]
fn who_is_not_configured_to_dial_places_no_calls() {
    let job = job();
    for provider in Provider::ALL {
        let config = without_dial(provider);
        assert_eq!(dial_api_request(provider, &config, &job.order()), Err(ClientError::DialUnsupported));
        assert_eq!(lookup_api_request(provider, &config, &job.lookup(Some("id"))), Err(ClientError::LookupUnsupported));
    }
    // The account of one provider is of no use at another.
    let retell = config(Provider::Retell);
    for provider in Provider::ALL {
        assert_eq!(dial_api_request(provider, &retell, &job.order()).is_ok(), provider == Provider::Retell);
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
        dial_api_request(Provider::Twilio, providers.config(Provider::Twilio).unwrap(), &job().order()).unwrap();
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
        let debug = format!("{:?} {:?} {:?}", config, placed(provider), job.order());
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
        let said = |status: u16| read_dial_answer(provider, status, Some("7"), body.as_bytes());
        let not_now = |reason| DialAnswer::RetryLater { reason, retry_after: Some(Duration::from_secs(7)) };
        for status in [200, 201, 202] {
            assert_eq!(said(status), DialAnswer::Accepted { provider_call_id: "c1".to_owned() });
        }
        assert_eq!(said(400), DialAnswer::Rejected { reason: "bad_request" });
        assert_eq!(said(422), DialAnswer::Rejected { reason: "unprocessable" });
        assert_eq!(said(401), not_now("unauthorized"));
        assert_eq!(said(402), not_now("payment_required"));
        assert_eq!(said(403), not_now("forbidden"));
        assert_eq!(said(404), not_now("not_found"));
        assert_eq!(said(429), not_now("rate_limited"));
        for status in [0, 100, 302, 408, 409, 499, 500, 502, 503, 504, 599, 65535] {
            assert_eq!(said(status), DialAnswer::InDoubt, "{status}");
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

fn told(provider: Provider, provider_call_id: Option<&str>, answer: &Value) -> LookupAnswer {
    read_lookup_answer(provider, &job().lookup(provider_call_id), 200, answer.to_string().as_bytes(), NOW)
}

/// The event that was told, after a look whether the inbox would tell the same.
fn event(told: LookupAnswer) -> ProviderEvent {
    let LookupAnswer::Ended { webhook, event } = told else { panic!("{told:?}") };
    let (query, body) = (webhook.query().to_owned(), webhook.body().to_vec());
    let from_inbox = VerifiedWebhook::from_inbox(webhook.provider(), query, body, webhook.key_index());
    assert_eq!(read(&from_inbox, NOW), Reading::Event((*event).clone()));
    *event
}

fn said(told: LookupAnswer) -> String {
    let event = event(told);
    let attempt = event.attempt.as_ref().map_or("-", AttemptKey::as_str);
    let mut lines = format!("{} {}\n{} {attempt}", event.event_id, event.event_type, event.call_id);
    for fact in &event.call_events {
        let implied = if fact.implied { " implied" } else { "" };
        let permanent = if fact.permanent { " permanent" } else { "" };
        let at = fact.occurred_at.map_or(String::new(), |at| format!(" {at}"));
        write!(lines, "\n{}{implied}{at}{permanent}", fact.kind).unwrap();
    }
    lines
}

fn ours() -> Value {
    json!({"switchhook_call_id": "call 1/ä", "switchhook_attempt": "2", "appointment_id": "appt_7"})
}

fn retell_call(status: &str) -> Value {
    json!({
        "call_id": "c1", "call_status": status, "direction": "outbound", "disconnection_reason": "user_hangup",
        "start_timestamp": 1_760_962_437_211_i64, "end_timestamp": 1_760_962_521_846_i64, "metadata": ours(),
    })
}

fn twilio_call(status: &str) -> Value {
    json!({
        "sid": "CA1", "status": status, "direction": "outbound-api", "from": "+442079460018", "to": "+447700900000",
        "parent_call_sid": null, "answered_by": null, "start_time": "Mon, 20 Oct 2025 12:13:55 +0000",
        "end_time": "Mon, 20 Oct 2025 12:14:47 +0000", "duration": "42", "price": null, "date_updated": "x",
    })
}

fn vapi_call(status: &str) -> Value {
    json!({
        "id": "v1", "type": "outboundPhoneCall", "status": status, "endedReason": "customer-ended-call",
        "startedAt": "2025-10-20T12:14:04.430Z", "endedAt": "2025-10-20T12:14:47.610Z",
        "customer": {"number": "+447700900000"}, "assistantOverrides": {"metadata": ours()},
    })
}

fn telnyx_call(is_alive: bool, end_time: Option<&str>) -> Value {
    json!({"data": {
        "record_type": "call", "call_control_id": "v3:1", "call_leg_id": "l1", "is_alive": is_alive,
        "client_state": BASE64_STANDARD.encode(ours().to_string()), "start_time": "2025-10-20T12:13:55.127783Z",
        "end_time": end_time, "call_duration": 52,
    }})
}

#[test]
fn retell_tells_how_a_call_ended() {
    assert_snapshot!(said(told(Provider::Retell, Some("c1"), &retell_call("ended"))), @r"
    retell:c1:call_ended call_ended
    call 1/ä 2
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    completed 2025-10-20T12:15:21.846Z
    ");
    // Found by our ids, among what a filter that does not filter would return.
    let mut other = retell_call("ended");
    other["metadata"]["switchhook_attempt"] = "1".into();
    let listed = json!({"items": [other, 7, retell_call("ended")], "has_more": true});
    assert_eq!(told(Provider::Retell, None, &listed), told(Provider::Retell, Some("c1"), &retell_call("ended")));

    let mut analysed = retell_call("ended");
    analysed["call_analysis"] = json!({"in_voicemail": false, "custom_analysis_data": {"outcome": "confirmed"}});
    assert_snapshot!(said(told(Provider::Retell, Some("c1"), &analysed)), @r"
    retell:c1:call_analyzed:802c087805f208ca call_analyzed
    call 1/ä 2
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    user_confirmed 2025-10-20T12:15:21.846Z
    completed implied 2025-10-20T12:15:21.846Z
    ");

    let mut unreachable = retell_call("not_connected");
    unreachable["disconnection_reason"] = "invalid_destination".into();
    unreachable["call_analysis"] = json!({});
    assert_snapshot!(said(told(Provider::Retell, Some("c1"), &unreachable)), @r"
    retell:c1:call_ended call_ended
    call 1/ä 2
    failed 2025-10-20T12:15:21.846Z permanent
    ");
}

#[test]
fn retell_is_told_like_its_own_webhook() {
    let call = retell_call("ended");
    let webhook = json!({"event": "call_ended", "call": call}).to_string().into_bytes();
    let posted = read(&VerifiedWebhook::from_inbox(Provider::Retell, String::new(), webhook, 0), NOW);
    assert_eq!(posted, Reading::Event(event(told(Provider::Retell, Some("c1"), &call))));
}

#[test]
fn twilio_tells_how_a_call_ended() {
    assert_snapshot!(said(told(Provider::Twilio, Some("CA1"), &twilio_call("completed"))), @r"
    twilio:CA1:completed:-:ab69801ab647b36f completed
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    in_progress implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    assert_snapshot!(said(told(Provider::Twilio, Some("CA1"), &twilio_call("busy"))), @r"
    twilio:CA1:busy:-:b55e7cac6c65697e busy
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    busy 2025-10-20T12:14:47.000Z
    ");
    let mut machine = twilio_call("completed");
    machine["answered_by"] = "machine_start".into();
    assert_snapshot!(said(told(Provider::Twilio, Some("CA1"), &machine)), @r"
    twilio:CA1:completed:-:9ef83b6ad306d39f completed
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    in_progress implied 2025-10-20T12:14:47.000Z
    voicemail_detected implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    let mut undated = twilio_call("no-answer");
    undated["end_time"] = Value::Null;
    assert_snapshot!(said(told(Provider::Twilio, Some("CA1"), &undated)), @r"
    twilio:CA1:no-answer:-:5fde436b89711da4 no-answer
    call 1/ä 2
    ringing implied
    no_answer
    ");
}

#[test]
fn twilio_event_has_one_id_however_often_it_is_asked_for() {
    let mut later = twilio_call("completed");
    later["price"] = "-0.014".into();
    later["date_updated"] = "y".into();
    let id = |call: &Value| event(told(Provider::Twilio, Some("CA1"), call)).event_id;
    assert_eq!(id(&twilio_call("completed")), id(&later));
    assert_ne!(id(&twilio_call("completed")), id(&twilio_call("busy")));
}

#[test]
fn vapi_tells_how_a_call_ended() {
    assert_snapshot!(said(told(Provider::Vapi, Some("v1"), &vapi_call("ended"))), @r"
    vapi:v1:status-update:ended status-update:ended
    call 1/ä 2
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    completed 2025-10-20T12:14:47.610Z
    ");
    let mut other = vapi_call("ended");
    other["assistantOverrides"]["metadata"]["switchhook_call_id"] = "another".into();
    let listed = json!([other, null, vapi_call("ended")]);
    assert_eq!(told(Provider::Vapi, None, &listed), told(Provider::Vapi, Some("v1"), &vapi_call("ended")));

    let mut analysed = vapi_call("ended");
    analysed["analysis"] = json!({"structuredData": {"outcome": "declined"}});
    assert_snapshot!(said(told(Provider::Vapi, Some("v1"), &analysed)), @r"
    vapi:v1:end-of-call-report end-of-call-report
    call 1/ä 2
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    user_declined 2025-10-20T12:14:47.610Z
    completed implied 2025-10-20T12:14:47.610Z
    ");
}

#[test]
fn telnyx_tells_that_a_call_ended() {
    let call = telnyx_call(false, Some("2025-10-20T12:14:47.224107Z"));
    assert_snapshot!(said(told(Provider::Telnyx, Some("v3:1"), &call)), @r"
    telnyx:v3:1:call.hangup call.hangup
    call 1/ä 2
    completed 2025-10-20T12:14:47.224Z
    ");
}

#[test]
fn calls_that_are_not_over_are_alive() {
    let alive = |id: &str| LookupAnswer::Alive { provider_call_id: id.to_owned() };
    for status in ["registered", "ongoing"] {
        assert_eq!(told(Provider::Retell, Some("c1"), &retell_call(status)), alive("c1"));
        assert_eq!(told(Provider::Retell, None, &json!({"items": [retell_call(status)]})), alive("c1"));
    }
    for status in ["queued", "initiated", "ringing", "in-progress"] {
        assert_eq!(told(Provider::Twilio, Some("CA1"), &twilio_call(status)), alive("CA1"));
    }
    for status in ["scheduled", "queued", "ringing", "in-progress", "forwarding"] {
        assert_eq!(told(Provider::Vapi, Some("v1"), &vapi_call(status)), alive("v1"));
        assert_eq!(told(Provider::Vapi, None, &json!([vapi_call(status)])), alive("v1"));
    }
    assert_eq!(told(Provider::Telnyx, Some("v3:1"), &telnyx_call(true, None)), alive("v3:1"));
}

#[test]
fn a_call_is_not_found_only_where_all_of_them_were_seen() {
    let too_many = LookupAnswer::RetryLater { reason: "too_many" };
    assert_eq!(told(Provider::Retell, None, &json!({"items": [], "has_more": false})), LookupAnswer::NotFound);
    assert_eq!(told(Provider::Retell, None, &json!({"items": []})), LookupAnswer::NotFound);
    assert_eq!(told(Provider::Retell, None, &json!({"items": [{"call_id": "x"}], "has_more": true})), too_many);
    assert_eq!(told(Provider::Vapi, None, &json!([])), LookupAnswer::NotFound);
    let calls = |count: usize| Value::from(vec![json!({"id": "x", "status": "ended"}); count]);
    assert_eq!(told(Provider::Vapi, None, &calls(99)), LookupAnswer::NotFound);
    assert_eq!(told(Provider::Vapi, None, &calls(100)), too_many);
    // What was placed and is gone has not become what never was.
    for provider in DIALLED {
        let said = read_lookup_answer(provider, &job().lookup(Some("c1")), 404, b"{}", NOW);
        assert_eq!(said, LookupAnswer::Gone);
    }
}

#[test]
fn what_cannot_be_read_is_asked_for_again() {
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for provider in Provider::ALL {
        for id in [Some("c1"), None] {
            for body in ["", "null", "{}", "7", "<html>", "{\"items\":{}}", "{\"data\":{}}", "{\"status\":\"ended\"}"] {
                let said = read_lookup_answer(provider, &job().lookup(id), 200, body.as_bytes(), NOW);
                assert_eq!(said, unreadable, "{provider} {body}");
            }
        }
        for (status, reason) in [
            (401, "unauthorized"),
            (403, "unauthorized"),
            (408, "failed"),
            (429, "rate_limited"),
            (500, "failed"),
            (0, "failed"),
        ] {
            let said = read_lookup_answer(provider, &job().lookup(Some("c1")), status, b"{}", NOW);
            assert_eq!(said, LookupAnswer::RetryLater { reason });
        }
    }
    // Another call than the one that we asked about, and statuses that nobody knows yet.
    assert_eq!(told(Provider::Retell, Some("c2"), &retell_call("ended")), unreadable);
    assert_eq!(told(Provider::Twilio, Some("CA2"), &twilio_call("completed")), unreadable);
    assert_eq!(told(Provider::Vapi, Some("v2"), &vapi_call("ended")), unreadable);
    assert_eq!(told(Provider::Telnyx, Some("v3:2"), &telnyx_call(true, None)), unreadable);
    assert_eq!(told(Provider::Retell, Some("c1"), &retell_call("paused")), unreadable);
    assert_eq!(told(Provider::Twilio, Some("CA1"), &twilio_call("paused")), unreadable);
    assert_eq!(told(Provider::Vapi, Some("v1"), &vapi_call("not-found")), unreadable);
    // A dial that is not through yet.
    assert_eq!(told(Provider::Telnyx, Some("v3:1"), &telnyx_call(false, None)), unreadable);
}

/// The webhook by which each provider would echo what it was told when the call was placed.
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
        let Reading::Event(event) = read(&echoed(provider, &placed(provider)), NOW) else { panic!("{provider}") };
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
    let order = DialRequest { appointment_id: None, ..job.order() };
    for provider in DIALLED {
        let request = dial_api_request(provider, &config(provider), &order).unwrap();
        let Reading::Event(event) = read(&echoed(provider, &request), NOW) else { panic!("{provider}") };
        assert_eq!(event.call_id, CallId::new("call 1/ä"));
        assert_eq!(event.attempt, Some(AttemptKey::new("2")));
        assert_eq!(event.appointment_id, None);
    }
}

#[test]
fn what_is_told_belongs_to_the_attempt_that_was_asked_about() {
    for (provider, id, answer) in [
        (Provider::Retell, "c1", retell_call("ended")),
        (Provider::Twilio, "CA1", twilio_call("completed")),
        (Provider::Vapi, "v1", vapi_call("ended")),
        (Provider::Telnyx, "v3:1", telnyx_call(false, Some("2025-10-20T12:14:47Z"))),
    ] {
        let event = event(told(provider, Some(id), &answer));
        assert_eq!((event.call_id, event.attempt), (job().call_id, Some(job().attempt)));
        assert_eq!(event.provider_call_id.as_deref(), Some(id));
    }
}
