//! Requests that ask about a call, and the meaning of their responses.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, EventKind, Provider, ProviderEvent};
use switchhook_providers::{
    ApiRequest, CallSearch, ClientError, Lookup, LookupAnswer, Reading, SearchStep, VerifiedWebhook, content_hash,
    read, read_with_notes,
};

use crate::api::{DIALLED, NOW, alive, config, job, lookup_request, shown, undecided};
use crate::reading::read_body;

#[test]
fn every_provider_is_asked_by_its_own_call_id() {
    let requests: Vec<String> =
        DIALLED.iter().map(|provider| shown(&lookup_request(*provider, Some("v3:a/b")).unwrap())).collect();
    assert_snapshot!(requests.join("\n\n"), @r#"
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

    GET /v1/convai/conversations/v3%3Aa%2Fb
    xi-api-key: …
    accept: application/json

    GET /v1/Account/MA1/Call/v3%3Aa%2Fb/?status=live
    authorization: Basic
    accept: application/json

    GET /v1/calls/v3%3Aa%2Fb
    accept: application/json

    POST /twirp/livekit.RoomService/ListParticipants
    accept: application/json
    content-type: application/json
    {
      "room": "switchhook-e7dee10ea3f6a193ac72cf4cb8dce203"
    }

    GET /v1/calls/v3%3Aa%2Fb
    authorization: …
    accept: application/json

    GET /api/laml/2010-04-01/Accounts/project-1/Calls/v3%3Aa%2Fb.json
    authorization: Basic
    accept: application/json
    "#);
}

#[test]
fn unknown_calls_are_searched_by_our_ids_or_by_numbers_and_time() {
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
    let searched =
        [Provider::Twilio, Provider::Vapi, Provider::Telnyx, Provider::ElevenLabs, Provider::Plivo, Provider::Vonage];
    let requests = searched.map(|provider| {
        let request = lookup_request(provider, None).unwrap();
        format!("{} {}", request.method, request.path)
    });
    assert_snapshot!(requests.join("\n"), @r"
    GET /2010-04-01/Accounts/AC1/Calls.json?To=%2B447700900000&From=%2B442079460018&Status=queued&PageSize=50
    GET /call?createdAtGe=2025-10-20T12%3A12%3A55.000Z&createdAtLe=2025-10-20T12%3A15%3A55.000Z&limit=10
    GET /v2/call_events?filter%5Bfrom%5D=%2B442079460018&filter%5Bto%5D=%2B447700900000&filter%5Btype%5D=webhook&filter%5Boccurred_at%5D%5Bgte%5D=2025-10-20T12%3A12%3A55.000Z&page%5Bnumber%5D=1&page%5Bsize%5D=100
    GET /v1/convai/conversations?dynamic_variable_params=switchhook_dial%3Aeq%3Adial-c7e73438f6f4a204&page_size=10
    GET /v1/Account/MA1/Call/?status=queued&to_number=447700900000&limit=20&offset=0
    GET /v1/calls?date_start=2025-10-20T12%3A12%3A55Z&date_end=2025-10-20T12%3A15%3A55Z&order=asc&page_size=100&record_index=0
    ");
    // These lists are limited to the time around our dial, so the search needs that time.
    let job = job();
    for provider in [Provider::Twilio, Provider::Vapi, Provider::Telnyx, Provider::Plivo, Provider::Vonage] {
        let config = config(provider);
        let undated = Lookup { dialled_at: None, ..job.lookup(None) };
        assert!(matches!(CallSearch::start(provider, &config, undated), Err(ClientError::LookupUnsupported)));
    }
}

/// Plays a search against these responses. Returns its requests, and its answer once it has one.
pub(crate) fn play(
    provider: Provider,
    provider_call_id: Option<&str>,
    responses: impl IntoIterator<Item = (u16, Value)>,
) -> (Vec<String>, Option<LookupAnswer>) {
    let (requests, answer) = job().search(provider, provider_call_id, NOW, responses);
    let text = |request: ApiRequest| {
        let body = String::from_utf8(request.body).unwrap();
        format!("{} {} {body}", request.method, request.path).trim_end().to_owned()
    };
    (requests.into_iter().map(text).collect(), answer)
}

pub(crate) fn answer(provider: Provider, provider_call_id: Option<&str>, answer: &Value) -> LookupAnswer {
    play(provider, provider_call_id, [(200, answer.clone())]).1.unwrap()
}

/// Event of an ended call. Also checks that reading the webhook from the inbox gives the same event.
pub(crate) fn event(answer: LookupAnswer) -> ProviderEvent {
    let LookupAnswer::Ended { webhook, event, .. } = answer else { panic!("{answer:?}") };
    let (query, body) = (webhook.query().to_owned(), webhook.body().to_vec());
    let from_inbox = VerifiedWebhook::from_inbox(webhook.provider(), query, body, webhook.key_index());
    assert_eq!(read(&from_inbox, NOW), Reading::Event((*event).clone()));
    *event
}

pub(crate) fn summary(answer: LookupAnswer) -> String {
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

pub(crate) fn ours() -> Value {
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

pub(crate) fn telnyx_call(is_alive: bool, end_time: Option<&str>) -> Value {
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

/// Nothing says whether anybody answered. The status says that the call is over.
#[test]
fn retell_analysis_of_an_unclear_ending_ends_the_call() {
    let mut call = retell_call("ended");
    call["start_timestamp"] = Value::Null;
    call["call_analysis"] = json!({"call_summary": "…"});
    for reason in [Value::Null, json!("a_reason_of_next_year")] {
        call["disconnection_reason"] = reason;
        let event = event(answer(Provider::Retell, Some("c1"), &call));
        assert_eq!(event.event_type, "call_analyzed");
        assert_eq!(event.call_events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Completed]);
    }
}

#[test]
fn ended_call_that_changes_no_call_is_no_failed_request() {
    // Another leg of a call.
    let mut call = twilio_call("completed");
    call["parent_call_sid"] = "CA0".into();
    assert_eq!(answer(Provider::Twilio, Some("CA1"), &call), undecided("no_call_event"));
}

#[test]
fn half_of_a_character_in_an_answer_hides_no_call() {
    let answer_of_text = |provider: Provider, id: Option<&str>, body: &str| {
        let (config, job) = (config(provider), job());
        let search = CallSearch::start(provider, &config, job.lookup(id)).unwrap();
        let SearchStep::Answer(answer) = search.respond(200, body.as_bytes(), NOW) else { panic!("an answer") };
        answer
    };
    let broken = |call: &Value| call.to_string().replacen('{', r#"{"transcript":"ok \ud83d","#, 1);
    for (provider, id, call) in
        [(Provider::Retell, "c1", retell_call("ended")), (Provider::Vapi, "v1", vapi_call("ended"))]
    {
        let whole = event(answer(provider, Some(id), &call));
        assert_eq!(event(answer_of_text(provider, Some(id), &broken(&call))), whole);
    }
    // The text of another call in the list.
    let mut other = vapi_call("ended");
    other["assistantOverrides"]["metadata"]["switchhook_call_id"] = "another".into();
    let list = format!("[{},{}]", broken(&other), vapi_call("ended"));
    let whole = answer(Provider::Vapi, Some("v1"), &vapi_call("ended"));
    assert_eq!(answer_of_text(Provider::Vapi, None, &list), whole);

    // The webhook and the lookup of a conversation are one event with one content.
    let conversation = broken(&conversation("c1", "done"));
    let webhook = format!(r#"{{"type":"post_call_transcription","event_timestamp":7,"data":{conversation}}}"#);
    let looked_up = answer_of_text(Provider::ElevenLabs, Some("c1"), &conversation);
    let LookupAnswer::Ended { webhook: looked_up, .. } = looked_up else { panic!("{looked_up:?}") };
    let hash = |body: &[u8]| content_hash(Provider::ElevenLabs, body);
    assert_eq!(hash(webhook.as_bytes()), hash(looked_up.body()));
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
    twilio:CA1:completed:-:28304a2d6e8c03da completed
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    in_progress implied 2025-10-20T12:14:47.000Z
    completed 2025-10-20T12:14:47.000Z
    ");
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &twilio_call("busy"))), @r"
    twilio:CA1:busy:-:9483983e5594bf3f busy
    call 1/ä 2
    ringing implied 2025-10-20T12:14:47.000Z
    busy 2025-10-20T12:14:47.000Z
    ");
    let mut machine = twilio_call("completed");
    machine["answered_by"] = "machine_start".into();
    assert_snapshot!(summary(answer(Provider::Twilio, Some("CA1"), &machine)), @r"
    twilio:CA1:completed:-:0719d058db3589d8 completed
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
    vapi:v1:end-of-call-report end-of-call-report
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
    vapi:v1:end-of-call-report:5f321246665e9b42 end-of-call-report
    call 1/ä 2
    ringing implied 2025-10-20T12:14:04.430Z
    in_progress implied 2025-10-20T12:14:04.430Z
    user_declined 2025-10-20T12:14:47.610Z
    completed implied 2025-10-20T12:14:47.610Z
    ");
    let mut with_output = vapi_call("ended");
    with_output["artifact"] = json!({"structuredOutputs": {"id": {"name": "outcome", "result": "declined"}}});
    let answers = [analysed, with_output].map(|call| event(answer(Provider::Vapi, Some("v1"), &call)).call_events);
    assert_eq!(answers[0], answers[1]);
}

/// The status update `ended` has no times, so it says less than the lookup, which must count although its call has no analysis.
#[test]
fn vapi_lookup_without_a_result_is_not_the_status_update() {
    let mut call = vapi_call("ended");
    call["endedReason"] = "manually-canceled".into();
    call["startedAt"] = Value::Null;
    let looked_up = event(answer(Provider::Vapi, Some("v1"), &call));
    call["endedAt"] = Value::Null;
    let update = json!({"type": "status-update", "status": "ended", "call": call});
    let update = read_body(Provider::Vapi, "", json!({"message": update}).to_string().as_bytes());
    assert_ne!(looked_up.event_id, *update.event_id());
    // Without its times, the call of a lookup says no more than the status update.
    assert_eq!(event(answer(Provider::Vapi, Some("v1"), &call)).event_id, *update.event_id());
    // The webhook with this reason is only recorded, and its report follows. A lookup must tell that the call is over.
    for reason in ["worker-shutdown", "call.in-progress.error-providerfault-outbound-sip-401-unauthorized"] {
        call["endedReason"] = reason.into();
        let looked_up = event(answer(Provider::Vapi, Some("v1"), &call));
        assert_eq!(looked_up.event_id, *update.event_id());
        assert_eq!(looked_up.call_events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Completed]);
    }
}

#[test]
fn vapi_report_and_the_lookup_of_the_same_result_are_one_event() {
    let report: Value = serde_json::from_str(include_str!("../../fixtures/vapi/end_of_call_report.json")).unwrap();
    let message = &report["message"];
    let mut call = message["call"].clone();
    call["status"] = "ended".into();
    let id = call["id"].as_str().unwrap().to_owned();
    for name in ["endedReason", "startedAt", "endedAt"] {
        call[name] = message[name].clone();
    }
    let reading = read_body(Provider::Vapi, "", report.to_string().as_bytes());
    let looked_up = |call: &Value| event(answer(Provider::Vapi, Some(&id), call));
    // The report was sent before the result existed, or with it.
    let early = looked_up(&call).event_id;
    call["analysis"] = message["analysis"].clone();
    call["artifact"] = message["artifact"].clone();
    assert_eq!(looked_up(&call).event_id, *reading.event_id());
    assert_ne!(early, *reading.event_id());
}

/// A conversation of ElevenLabs with our ids.
fn conversation(id: &str, status: &str) -> Value {
    let variables = json!({"switchhook_call_id": "call 1/ä", "switchhook_attempt": "2", "appointment_id": "appt_7"});
    json!({
        "conversation_id": id, "status": status,
        "metadata": {"start_time_unix_secs": 1_760_962_444, "call_duration_secs": 43, "phone_call": {"call_result": "answered"}},
        "analysis": {"data_collection_results": {"outcome": {"value": "declined"}}},
        "conversation_initiation_client_data": {"dynamic_variables": variables},
    })
}

/// A list of ElevenLabs' conversations.
fn conversations(ids: &[&str], next_cursor: Option<&str>) -> Value {
    let rows = ids.iter().map(|id| json!({"conversation_id": id, "status": "done"}));
    json!({"conversations": rows.collect::<Value>(), "has_more": next_cursor.is_some(), "next_cursor": next_cursor})
}

#[test]
fn elevenlabs_tells_how_a_conversation_ended() {
    assert_snapshot!(summary(answer(Provider::ElevenLabs, Some("c1"), &conversation("c1", "done"))), @r"
    elevenlabs:c1:post_call_transcription:94893376f15b5810 post_call_transcription
    call 1/ä 2
    ringing implied 2025-10-20T12:14:04.000Z
    in_progress implied 2025-10-20T12:14:04.000Z
    user_declined 2025-10-20T12:14:47.000Z
    completed implied 2025-10-20T12:14:47.000Z
    ");
    // The webhook of the same conversation is the same event.
    let webhook = json!({"type": "post_call_transcription", "event_timestamp": 7, "data": conversation("c1", "done")});
    let webhook = VerifiedWebhook::from_inbox(Provider::ElevenLabs, String::new(), webhook.to_string().into_bytes(), 0);
    let LookupAnswer::Ended { webhook: looked_up, event, .. } =
        answer(Provider::ElevenLabs, Some("c1"), &conversation("c1", "done"))
    else {
        panic!("ended")
    };
    assert_eq!(read(&webhook, NOW), Reading::Event(*event));
    let hash = |webhook: &VerifiedWebhook| content_hash(Provider::ElevenLabs, webhook.body());
    assert_eq!(hash(&webhook), hash(&looked_up));
}

/// Somebody else gave this session our ids. Nothing of it counts, and the search does not find that nobody was dialled.
#[test]
fn session_of_a_web_page_is_never_found() {
    let mut retell = retell_call("ended");
    retell["call_type"] = "web_call".into();
    let mut vapi = vapi_call("ended");
    vapi["type"] = "webCall".into();
    let mut elevenlabs = conversation("c1", "done");
    elevenlabs["metadata"] = json!({"call_duration_secs": 43, "conversation_initiation_source": "twilio"});
    let no_phone_call = undecided("no_phone_call");
    assert_eq!(answer(Provider::Retell, None, &json!({"items": [retell]})), no_phone_call);
    assert_eq!(answer(Provider::Vapi, None, &json!([vapi])), no_phone_call);
    let responses = vec![(200, conversations(&["c1"], None)), (200, elevenlabs)];
    assert_eq!(play(Provider::ElevenLabs, None, responses).1.unwrap(), no_phone_call);
}

/// The SDK's model of a phone call needs the id of a stream, so a call that nobody answered may have none.
#[test]
fn elevenlabs_call_that_never_connected_does_not_tell_why() {
    for (metadata, kinds, lacks_detail) in [
        (json!({"phone_call": {}}), vec![EventKind::Ringing, EventKind::NoAnswer], true),
        (json!({"conversation_initiation_source": "twilio"}), vec![EventKind::Ringing, EventKind::NoAnswer], true),
        (json!({"conversation_initiation_source": "sip_trunk"}), vec![EventKind::Ringing, EventKind::NoAnswer], true),
        (json!({"conversation_initiation_source": "js_sdk"}), vec![EventKind::Failed], false),
    ] {
        let mut call = conversation("c1", "failed");
        call["metadata"] = metadata;
        call["metadata"]["call_duration_secs"] = 0.into();
        let answer = answer(Provider::ElevenLabs, Some("c1"), &call);
        let LookupAnswer::Ended { webhook, event, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(event.call_events.iter().map(|event| event.kind).collect::<Vec<_>>(), kinds, "{call}");
        assert_eq!(read_with_notes(&webhook, NOW).1.lacks_detail, lacks_detail, "{call}");
    }
}

#[test]
fn elevenlabs_text_conversation_is_no_call() {
    let mut text = conversation("c1", "done");
    text["metadata"] = json!({"start_time_unix_secs": 1_760_962_444, "call_duration_secs": 43, "text_only": true});
    assert_eq!(answer(Provider::ElevenLabs, Some("c1"), &text), LookupAnswer::Gone);
}

#[test]
fn elevenlabs_lists_name_conversations_that_are_then_read() {
    let mut other = conversation("c1", "done");
    other["conversation_initiation_client_data"]["dynamic_variables"]["switchhook_attempt"] = "1".into();
    let search = |responses: Vec<(u16, Value)>| play(Provider::ElevenLabs, None, responses);
    let listed = || (200, conversations(&["c1", "c2", "c3"], None));
    // The first is another call, and the second was deleted.
    let (requests, found) =
        search(vec![listed(), (200, other.clone()), (404, json!({})), (200, conversation("c3", "done"))]);
    assert_eq!(found, Some(answer(Provider::ElevenLabs, Some("c3"), &conversation("c3", "done"))));
    assert_snapshot!(requests.join("\n"), @r"
    GET /v1/convai/conversations?dynamic_variable_params=switchhook_dial%3Aeq%3Adial-c7e73438f6f4a204&page_size=10
    GET /v1/convai/conversations/c1
    GET /v1/convai/conversations/c2
    GET /v1/convai/conversations/c3
    ");
    let answer_of = |responses: Vec<(u16, Value)>| search(responses).1.unwrap();
    let none_is_ours = |cursor: Option<&str>| vec![(200, conversations(&["c1"], cursor)), (200, other.clone())];
    assert_eq!(answer_of(none_is_ours(None)), LookupAnswer::NotFound);
    let unread_calls = undecided("unread_calls");
    assert_eq!(answer_of(none_is_ours(Some("x"))), unread_calls);
    // A listed conversation that was deleted may have been ours, and so may one that does not show its variables.
    let list = || (200, conversations(&["c1"], None));
    assert_eq!(answer_of(vec![list(), (404, json!({}))]), unread_calls);
    for hidden in [json!({}), json!({"conversation_id": "c1", "status": "done"})] {
        let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
        assert_eq!(answer_of(vec![list(), (200, hidden)]), unreadable);
    }
    assert_eq!(answer_of(vec![(200, conversations(&[], None))]), LookupAnswer::NotFound);
    assert_eq!(answer_of(vec![listed(), (429, json!({}))]), LookupAnswer::RetryLater { reason: "rate_limited" });
    // A list that may be cut off does not prove that there is no such call.
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for list in [
        json!({"conversations": []}),
        json!({"conversations": [], "has_more": true}),
        json!({"conversations": [{}], "has_more": false}),
    ] {
        assert_eq!(answer_of(vec![(200, list)]), unreadable);
    }
}

/// Vapi's call that was created this many seconds after our dial. The call with number 25 is ours.
fn vapi_listed(number: u64) -> Value {
    let mut call = vapi_call("in-progress");
    call["createdAt"] = format!("2025-10-20T12:{}:{:02}.000Z", 14 + number / 60, number % 60).into();
    if number != 25 {
        call["assistantOverrides"]["metadata"]["switchhook_call_id"] = "another".into();
    }
    call
}

#[test]
fn vapis_pages_are_followed_in_either_order() {
    let page = |numbers: &[u64]| (200, numbers.iter().map(|number| vapi_listed(*number)).collect::<Value>());
    let descending: Vec<u64> = (0..31).rev().collect();
    let ascending: Vec<u64> = (0..31).collect();
    for numbers in [&descending, &ascending] {
        // Each page begins with the last call of the page before.
        let pages = [page(&numbers[..10]), page(&numbers[9..19]), page(&numbers[18..28])];
        let (requests, answer) = play(Provider::Vapi, None, pages);
        assert_eq!(answer, Some(alive("v1")));
        assert!((1..=3).contains(&requests.len()), "{requests:?}");
    }
    let (requests, _) = play(Provider::Vapi, None, [page(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), page(&[0])]);
    assert!(requests[1].contains("createdAtLe=2025-10-20T12%3A14%3A00.000Z"), "{requests:?}");
    let (requests, answer) = play(Provider::Vapi, None, [page(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), page(&[9])]);
    assert!(requests[1].contains("createdAtGe=2025-10-20T12%3A14%3A09.000Z"), "{requests:?}");
    assert_eq!(answer, Some(LookupAnswer::NotFound));
    // Ten calls of the same instant fill the page, so the next page would be the same.
    let (_, answer) = play(Provider::Vapi, None, [page(&[115; 10])]);
    assert_eq!(answer, Some(undecided("too_many_calls")));
}

#[test]
fn searches_are_bounded() {
    let page = json!({"items": [{"call_id": "x"}], "has_more": true, "pagination_key": "x"});
    let (requests, answer) = play(Provider::Retell, None, std::iter::repeat_n((200, page), 100));
    assert_eq!((requests.len(), answer), (30, Some(undecided("too_many_calls"))));
    assert!(requests[1].contains(r#""pagination_key":"x""#));
}

#[test]
fn calls_that_are_not_over_are_alive() {
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
    for status in ["initiated", "in-progress", "processing"] {
        assert_eq!(answer(Provider::ElevenLabs, Some("c1"), &conversation("c1", status)), alive("c1"));
    }
    assert_eq!(answer(Provider::Telnyx, Some("v3:1"), &telnyx_call(true, None)), alive("v3:1"));
}

#[test]
fn a_call_is_not_found_only_where_all_of_them_were_seen() {
    let too_many = undecided("too_many_calls");
    assert_eq!(answer(Provider::Retell, None, &json!({"items": [], "has_more": false})), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Retell, None, &json!({"items": []})), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Retell, None, &json!({"items": [{"call_id": "x"}], "has_more": true})), too_many);
    assert_eq!(answer(Provider::Vapi, None, &json!([])), LookupAnswer::NotFound);
    let calls = |count: usize| Value::from(vec![json!({"id": "x", "status": "ended"}); count]);
    assert_eq!(answer(Provider::Vapi, None, &calls(9)), LookupAnswer::NotFound);
    assert_eq!(answer(Provider::Vapi, None, &calls(10)), too_many);
    // Without stored data, Vapi's list does not tell which call is ours.
    let unclear = undecided("unclear_calls");
    let mut unnamed = vapi_call("ended");
    unnamed["assistantOverrides"] = json!({});
    unnamed["customer"]["number"] = job().to.as_str().into();
    assert_eq!(answer(Provider::Vapi, None, &json!([unnamed])), unclear);
    let mut full = vec![unnamed.clone(); 10];
    full[0]["createdAt"] = json!("2025-10-20T12:14:00Z");
    full[9]["createdAt"] = json!("2025-10-20T12:13:00Z");
    let last_page = json!([{"id": "x", "type": "webCall"}]);
    assert_eq!(play(Provider::Vapi, None, [(200, full.into()), (200, last_page)]).1, Some(unclear.clone()));
    unnamed["customer"] = Value::Null;
    assert_eq!(answer(Provider::Vapi, None, &json!([unnamed])), unclear);
    unnamed["customer"] = json!({"number": "+15550123"});
    assert_eq!(answer(Provider::Vapi, None, &json!([unnamed])), LookupAnswer::NotFound);
    // A call with a provider call id was placed, so it is gone, not never placed.
    for provider in [Provider::Retell, Provider::Twilio, Provider::Vapi, Provider::ElevenLabs] {
        assert_eq!(play(provider, Some("c1"), [(404, json!({}))]).1, Some(LookupAnswer::Gone));
    }
    // Retell answers 422 about an unknown call.
    let unknown = json!({"status": "error", "message": "Cannot find requested asset under given api key."});
    assert_eq!(play(Provider::Retell, Some("c1"), [(422, unknown)]).1, Some(LookupAnswer::Gone));
}

#[test]
fn what_cannot_be_read_is_asked_for_again() {
    let unreadable = LookupAnswer::RetryLater { reason: "unreadable" };
    for provider in DIALLED {
        let (config, job) = (config(provider), job());
        let respond = |id, status, body: &str| {
            let search = CallSearch::start(provider, &config, job.lookup(id)).unwrap();
            match search.respond(status, body.as_bytes(), NOW) {
                SearchStep::Answer(answer) => answer,
                SearchStep::Ask(next) => panic!("{provider} {body}: asks {next:?}"),
            }
        };
        for id in [Some("c1"), None] {
            // The JSON of an empty list of LiveKit may leave the list out.
            let empty = ["{}", "{\"items\":{}}", "{\"status\":\"ended\"}"];
            let others = empty.into_iter().filter(|_| provider != Provider::LiveKit);
            for body in ["", "null", "7", "<html>"].into_iter().chain(others) {
                assert_eq!(respond(id, 200, body), unreadable, "{provider} {body}");
            }
        }
        for (status, reason) in [
            (401, "unauthorized"),
            (403, "unauthorized"),
            (408, "failed"),
            (422, "failed"),
            (429, "rate_limited"),
            (500, "failed"),
            (0, "failed"),
        ] {
            assert_eq!(respond(Some("c1"), status, "{}"), LookupAnswer::RetryLater { reason });
        }
    }
    // A call other than the one in the lookup.
    assert_eq!(answer(Provider::Retell, Some("c2"), &retell_call("ended")), unreadable);
    assert_eq!(answer(Provider::Twilio, Some("CA2"), &twilio_call("completed")), unreadable);
    assert_eq!(answer(Provider::Vapi, Some("v2"), &vapi_call("ended")), unreadable);
    assert_eq!(answer(Provider::Telnyx, Some("v3:2"), &telnyx_call(true, None)), unreadable);
    assert_eq!(answer(Provider::ElevenLabs, Some("c2"), &conversation("c1", "done")), unreadable);
    assert_eq!(answer(Provider::Vapi, Some("v1"), &vapi_call("not-found")), unreadable);
    // A dial that is still being set up.
    assert_eq!(answer(Provider::Telnyx, Some("v3:1"), &telnyx_call(false, None)), unreadable);
}

/// A vendor's list of statuses grows. The provider works all the same, so this is an answer.
#[test]
fn unknown_status_is_an_answer_that_names_its_field() {
    for (provider, id, call, field) in [
        (Provider::Retell, "c1", retell_call("paused"), "call_status"),
        (Provider::Twilio, "CA1", twilio_call("paused"), "status"),
        (Provider::Vapi, "v1", vapi_call("paused"), "status"),
        (Provider::ElevenLabs, "c1", conversation("c1", "paused"), "status"),
    ] {
        assert_eq!(answer(provider, Some(id), &call), LookupAnswer::UnknownValue { field });
    }
}

#[test]
fn what_is_told_belongs_to_the_attempt_that_was_asked_about() {
    for (provider, id, call) in [
        (Provider::Retell, "c1", retell_call("ended")),
        (Provider::Twilio, "CA1", twilio_call("completed")),
        (Provider::Vapi, "v1", vapi_call("ended")),
        (Provider::ElevenLabs, "c1", conversation("c1", "done")),
    ] {
        let event = event(answer(provider, Some(id), &call));
        assert_eq!((event.call_id, event.attempt), (job().call_id, Some(job().attempt)));
        assert_eq!(event.provider_call_id.as_deref(), Some(id));
    }
}
