//! Requests that ask about a call, and the meaning of their responses.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, Provider, ProviderEvent};
use switchhook_providers::{
    ClientError, Lookup, LookupAnswer, Reading, VerifiedWebhook, lookup_api_request, read, read_lookup_answer,
};

use crate::api::{DIALLED, NOW, config, job, lookup_request, shown};

#[test]
fn every_provider_is_asked_by_its_own_call_id() {
    let requests: Vec<String> =
        DIALLED.iter().map(|provider| shown(&lookup_request(*provider, Some("v3:a/b")).unwrap())).collect();
    assert_snapshot!(requests.join("\n\n"), @r"
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
    assert_snapshot!(shown(&lookup_request(Provider::Retell, None).unwrap()), @r#"
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
    assert_snapshot!(shown(&lookup_request(Provider::Vapi, None).unwrap()), @r"
    GET /call?createdAtGe=2025-10-20T12%3A11%3A55.000Z&createdAtLe=2025-10-20T12%3A23%3A55.000Z&limit=100
    authorization: Bearer
    accept: application/json
    ");
    for provider in [Provider::Twilio, Provider::Telnyx] {
        assert_eq!(lookup_request(provider, None), Err(ClientError::LookupUnsupported));
    }
    // The list of Vapi's calls is limited to the time around our dial, so the lookup needs that time.
    let job = job();
    let undated = Lookup { dialled_at: None, ..job.lookup(None) };
    assert_eq!(
        lookup_api_request(Provider::Vapi, &config(Provider::Vapi), &undated),
        Err(ClientError::LookupUnsupported)
    );
}

fn answer(provider: Provider, provider_call_id: Option<&str>, answer: &Value) -> LookupAnswer {
    read_lookup_answer(provider, &job().lookup(provider_call_id), 200, answer.to_string().as_bytes(), NOW)
}

/// Event of an ended call. Also checks that reading the webhook from the inbox gives the same event.
fn event(answer: LookupAnswer) -> ProviderEvent {
    let LookupAnswer::Ended { webhook, event } = answer else { panic!("{answer:?}") };
    let (query, body) = (webhook.query().to_owned(), webhook.body().to_vec());
    let from_inbox = VerifiedWebhook::from_inbox(webhook.provider(), query, body, webhook.key_index());
    assert_eq!(read(&from_inbox, NOW), Reading::Event((*event).clone()));
    *event
}

fn summary(answer: LookupAnswer) -> String {
    let event = event(answer);
    let attempt = event.attempt.as_ref().map_or("-", AttemptKey::as_str);
    let mut lines = format!("{} {}\n{} {attempt}", event.event_id, event.event_type, event.call_id);
    for call_event in &event.call_events {
        let implied = if call_event.implied { " implied" } else { "" };
        let permanent = if call_event.permanent { " permanent" } else { "" };
        let at = call_event.occurred_at.map_or(String::new(), |at| format!(" {at}"));
        write!(lines, "\n{}{implied}{at}{permanent}", call_event.kind).unwrap();
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
    assert_snapshot!(summary(answer(Provider::Retell, Some("c1"), &retell_call("ended"))), @r"
    retell:c1:call_ended call_ended
    call 1/ä 2
    ringing implied 2025-10-20T12:13:57.211Z
    in_progress implied 2025-10-20T12:13:57.211Z
    completed 2025-10-20T12:15:21.846Z
    ");
    // A list that Retell did not filter: only the call with our ids counts.
    let mut other = retell_call("ended");
    other["metadata"]["switchhook_attempt"] = "1".into();
    let listed = json!({"items": [other, 7, retell_call("ended")], "has_more": true});
    assert_eq!(answer(Provider::Retell, None, &listed), answer(Provider::Retell, Some("c1"), &retell_call("ended")));

    let mut analysed = retell_call("ended");
    analysed["call_analysis"] = json!({"in_voicemail": false, "custom_analysis_data": {"outcome": "confirmed"}});
    assert_snapshot!(summary(answer(Provider::Retell, Some("c1"), &analysed)), @r"
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
    assert_snapshot!(summary(answer(Provider::Retell, Some("c1"), &unreachable)), @r"
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
    assert_eq!(posted, Reading::Event(event(answer(Provider::Retell, Some("c1"), &call))));
}

#[test]
fn twilio_tells_how_a_call_ended() {
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &twilio_call("completed"))), @r"
    twilio:CA1:completed:-:ab69801ab647b36f completed
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    in_progress implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &twilio_call("busy"))), @r"
    twilio:CA1:busy:-:b55e7cac6c65697e busy
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    busy 2025-10-20T12:14:47.000Z
    ");
    let mut machine = twilio_call("completed");
    machine["answered_by"] = "machine_start".into();
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &machine)), @r"
    twilio:CA1:completed:-:9ef83b6ad306d39f completed
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    in_progress implied 2025-10-20T12:14:47.000Z
    voicemail_detected implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    let mut undated = twilio_call("no-answer");
    undated["end_time"] = Value::Null;
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &undated)), @r"
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
    let id = |call: &Value| event(answer(Provider::Twilio, Some("CA1"), call)).event_id;
    assert_eq!(id(&twilio_call("completed")), id(&later));
    assert_ne!(id(&twilio_call("completed")), id(&twilio_call("busy")));
}

#[test]
fn vapi_tells_how_a_call_ended() {
    assert_snapshot!(summary(answer(Provider::Vapi, Some("v1"), &vapi_call("ended"))), @r"
    vapi:v1:status-update:ended status-update:ended
    call 1/ä 2
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    completed 2025-10-20T12:14:47.610Z
    ");
    let mut other = vapi_call("ended");
    other["assistantOverrides"]["metadata"]["switchhook_call_id"] = "another".into();
    let listed = json!([other, null, vapi_call("ended")]);
    assert_eq!(answer(Provider::Vapi, None, &listed), answer(Provider::Vapi, Some("v1"), &vapi_call("ended")));

    let mut analysed = vapi_call("ended");
    analysed["analysis"] = json!({"structuredData": {"outcome": "declined"}});
    assert_snapshot!(summary(answer(Provider::Vapi, Some("v1"), &analysed)), @r"
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
    assert_snapshot!(summary(answer(Provider::Telnyx, Some("v3:1"), &call)), @r"
    telnyx:v3:1:call.hangup call.hangup
    call 1/ä 2
    completed 2025-10-20T12:14:47.224Z
    ");
}

#[test]
fn calls_that_are_not_over_are_alive() {
    let alive = |id: &str| LookupAnswer::Alive { provider_call_id: id.to_owned() };
    for status in ["registered", "ongoing"] {
        assert_eq!(answer(Provider::Retell, Some("c1"), &retell_call(status)), alive("c1"));
        assert_eq!(answer(Provider::Retell, None, &json!({"items": [retell_call(status)]})), alive("c1"));
    }
    for status in ["queued", "initiated", "ringing", "in-progress"] {
        assert_eq!(answer(Provider::Twilio, Some("CA1"), &twilio_call(status)), alive("CA1"));
    }
    for status in ["scheduled", "queued", "ringing", "in-progress", "forwarding"] {
        assert_eq!(answer(Provider::Vapi, Some("v1"), &vapi_call(status)), alive("v1"));
        assert_eq!(answer(Provider::Vapi, None, &json!([vapi_call(status)])), alive("v1"));
    }
    assert_eq!(answer(Provider::Telnyx, Some("v3:1"), &telnyx_call(true, None)), alive("v3:1"));
}

#[test]
fn a_call_is_not_found_only_where_all_of_them_were_seen() {
    let too_many = LookupAnswer::RetryLater { reason: "too_many" };
    assert_eq!(answer(Provider::Retell, None, &json!({"items": [], "has_more": false})), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Retell, None, &json!({"items": []})), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Retell, None, &json!({"items": [{"call_id": "x"}], "has_more": true})), too_many);
    assert_eq!(answer(Provider::Vapi, None, &json!([])), LookupAnswer::NotFound);
    let calls = |count: usize| Value::from(vec![json!({"id": "x", "status": "ended"}); count]);
    assert_eq!(answer(Provider::Vapi, None, &calls(99)), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Vapi, None, &calls(100)), too_many);
    // A call with a provider call id was placed, so it is gone, not never placed.
    for provider in DIALLED {
        let answer = read_lookup_answer(provider, &job().lookup(Some("c1")), 404, b"{}", NOW);
        assert_eq!(answer, LookupAnswer::Gone);
    }
}

#[test]
fn what_cannot_be_read_is_asked_for_again() {
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for provider in Provider::ALL {
        for id in [Some("c1"), None] {
            for body in ["", "null", "{}", "7", "<html>", "{\"items\":{}}", "{\"data\":{}}", "{\"status\":\"ended\"}"] {
                let answer = read_lookup_answer(provider, &job().lookup(id), 200, body.as_bytes(), NOW);
                assert_eq!(answer, unreadable, "{provider} {body}");
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
            let answer = read_lookup_answer(provider, &job().lookup(Some("c1")), status, b"{}", NOW);
            assert_eq!(answer, LookupAnswer::RetryLater { reason });
        }
    }
    // A call other than the one in the lookup, and unknown statuses.
    assert_eq!(answer(Provider::Retell, Some("c2"), &retell_call("ended")), unreadable);
    assert_eq!(answer(Provider::Twilio, Some("CA2"), &twilio_call("completed")), unreadable);
    assert_eq!(answer(Provider::Vapi, Some("v2"), &vapi_call("ended")), unreadable);
    assert_eq!(answer(Provider::Telnyx, Some("v3:2"), &telnyx_call(true, None)), unreadable);
    assert_eq!(answer(Provider::Retell, Some("c1"), &retell_call("paused")), unreadable);
    assert_eq!(answer(Provider::Twilio, Some("CA1"), &twilio_call("paused")), unreadable);
    assert_eq!(answer(Provider::Vapi, Some("v1"), &vapi_call("not-found")), unreadable);
    // A dial that is still being set up.
    assert_eq!(answer(Provider::Telnyx, Some("v3:1"), &telnyx_call(false, None)), unreadable);
}

#[test]
fn what_is_told_belongs_to_the_attempt_that_was_asked_about() {
    for (provider, id, call) in [
        (Provider::Retell, "c1", retell_call("ended")),
        (Provider::Twilio, "CA1", twilio_call("completed")),
        (Provider::Vapi, "v1", vapi_call("ended")),
        (Provider::Telnyx, "v3:1", telnyx_call(false, Some("2025-10-20T12:14:47Z"))),
    ] {
        let event = event(answer(provider, Some(id), &call));
        assert_eq!((event.call_id, event.attempt), (job().call_id, Some(job().attempt)));
        assert_eq!(event.provider_call_id.as_deref(), Some(id));
    }
}
