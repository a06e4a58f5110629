//! The rule of the configuration that finds the person's decision in the webhooks of a built-in provider.

use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, CallId, EventKind, Provider};
use switchhook_providers::{
    CallSearch, Lookup, LookupAnswer, ProvidersFile, Reading, SearchStep, UserDecision, VerifiedWebhook, read,
    read_as_configured, sign, verify, verifying_key,
};

use crate::api::NOW;

/// Entry of a provider with this rule.
fn entry(provider: Provider, rule: &Value) -> Value {
    let key = switchhook_providers::Key::new(KEY).unwrap();
    let mut entry = json!({"keys": [verifying_key(provider, &key)], "decision": rule});
    if provider == Provider::Retell {
        entry["dial"] = json!({"api_key": "an API key of the tests"});
    }
    entry
}

const KEY: &str = "a key of the tests, long enough";

fn file(provider: Provider, rule: &Value) -> ProvidersFile {
    ProvidersFile::from_json(&json!({provider.as_str(): entry(provider, rule)}).to_string()).unwrap()
}

/// Reads a body as ingress does. Returns the kinds of its call events, and whether a decision is stored with it.
fn kinds(provider: Provider, rule: &Value, body: &Value) -> (Vec<&'static str>, bool) {
    kinds_of_text(provider, rule, &body.to_string())
}

fn kinds_of_text(provider: Provider, rule: &Value, body: &str) -> (Vec<&'static str>, bool) {
    let file = file(provider, rule);
    let config = file.webhook_keys().config(provider).unwrap();
    let signed =
        sign(provider, &switchhook_providers::Key::new(KEY).unwrap(), "https://example.com/", body.as_bytes(), NOW);
    let headers = signed.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    let webhook =
        switchhook_providers::UnverifiedWebhook { headers: &headers, path: "/", query: "", body: body.as_bytes() };
    let webhook = verify(provider, config, &webhook, NOW).unwrap();
    let is_stored = webhook.decision().is_some();
    match read_as_configured(config, &webhook, NOW).0 {
        Reading::Event(event) => (event.call_events.iter().map(|event| event.kind.as_str()).collect(), is_stored),
        Reading::Recorded { .. } => (vec!["recorded"], is_stored),
        Reading::Quarantined { error, .. } => panic!("{error}"),
    }
}

fn retell(reason: &str, analysis: &Value) -> Value {
    json!({"event": "call_analyzed", "call": {
        "call_id": "c1", "call_status": "ended", "disconnection_reason": reason,
        "start_timestamp": 1_760_962_400_000_i64, "end_timestamp": 1_760_962_440_000_i64, "call_analysis": analysis,
    }})
}

fn rule() -> Value {
    json!({
        "pointer": ["/call/call_analysis/custom_analysis_data/result", "/call/call_analysis/result"],
        "confirmed": ["yes", 1], "declined": ["no", false],
    })
}

#[test]
fn value_of_the_rule_decides() {
    let talked = |analysis: Value| kinds(Provider::Retell, &rule(), &retell("user_hangup", &analysis));
    let confirmed = (vec!["ringing", "in_progress", "user_confirmed", "completed"], true);
    let declined = (vec!["ringing", "in_progress", "user_declined", "completed"], true);
    let undecided = (vec!["ringing", "in_progress", "completed"], false);
    for (analysis, expected) in [
        (json!({"custom_analysis_data": {"result": "yes"}}), &confirmed),
        (json!({"custom_analysis_data": {"result": "1"}}), &confirmed),
        (json!({"custom_analysis_data": {"result": null}, "result": "yes"}), &confirmed),
        (json!({"custom_analysis_data": {"result": "no"}}), &declined),
        (json!({"custom_analysis_data": {"result": false}}), &declined),
        (json!({"custom_analysis_data": {"result": "perhaps"}}), &undecided),
        (json!({"custom_analysis_data": {}}), &undecided),
        // The rule comes before the built-in fields, which count where it finds nothing.
        (json!({"custom_analysis_data": {"result": "no", "outcome": "confirmed"}}), &declined),
    ] {
        assert_eq!(&talked(analysis.clone()), expected, "{analysis}");
    }
    let built_in = talked(json!({"custom_analysis_data": {"outcome": "confirmed"}}));
    assert_eq!(built_in, (confirmed.0, false));
}

#[test]
fn nothing_beside_the_value_hides_it() {
    let body = retell("user_hangup", &json!({"custom_analysis_data": {"result": "yes"}})).to_string();
    let confirmed = (vec!["ringing", "in_progress", "user_confirmed", "completed"], true);
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    for transcript in [r#""ok \ud83d""#, r#""\uDE00""#, "1e999", &deep] {
        let body = body.replacen(r#""call":{"#, &format!(r#""call":{{"transcript":{transcript},"#), 1);
        assert_eq!(kinds_of_text(Provider::Retell, &rule(), &body), confirmed, "{transcript}");
    }
    let cut = body.replacen(r#""result":"yes""#, r#""result":"\ud83d""#, 1);
    let (found, is_stored) = kinds_of_text(Provider::Retell, &rule(), &cut);
    assert_eq!((found, is_stored), (vec!["ringing", "in_progress", "completed"], false));
}

#[test]
fn every_place_of_a_value_can_be_named() {
    let of = |pointer: Value, body: &Value| {
        let rule = json!({"pointer": pointer, "confirmed": ["yes"], "declined": ["no"]});
        kinds(Provider::Retell, &rule, body).0.contains(&"user_confirmed")
    };
    let mut body =
        retell("user_hangup", &json!({"list": [["no"], ["maybe", "yes"]], "a/b~": {"": "yes"}, "10": "yes"}));
    body["said"] = json!("yes");
    for pointer in ["/said", "/call/call_analysis/list/1/1", "/call/call_analysis/a~1b~0/", "/call/call_analysis/10"] {
        assert!(of(json!(pointer), &body), "{pointer}");
    }
    for pointer in
        ["/said/0", "/call/call_analysis/list/01/1", "/call/call_analysis/list/+1/1", "/call/call_analysis/list"]
    {
        assert!(!of(json!(pointer), &body), "{pointer}");
    }
    assert!(of(json!(["/none", "/call/call_analysis/list/9", "/said"]), &body));
    assert!(!of(json!(["/call/call_analysis/list/0/0", "/said"]), &body));
}

#[test]
fn nobody_who_was_not_reached_decides() {
    let yes = json!({"custom_analysis_data": {"result": "yes"}});
    let (busy, _) = kinds(Provider::Retell, &rule(), &retell("dial_busy", &yes));
    assert!(!busy.contains(&EventKind::UserConfirmed.as_str()), "{busy:?}");
    let voicemail = json!({"in_voicemail": true, "custom_analysis_data": {"result": "yes"}});
    let (voicemail, _) = kinds(Provider::Retell, &rule(), &retell("voicemail_reached", &voicemail));
    assert!(!voicemail.contains(&EventKind::UserConfirmed.as_str()), "{voicemail:?}");
    let telnyx = |result: Value| {
        let rule = json!({"pointer": "/data/payload/said", "confirmed": ["yes"], "declined": ["no"]});
        let payload = json!({"call_control_id": "v3:c", "duration_sec": 9, "said": "yes", "result": result});
        kinds(
            Provider::Telnyx,
            &rule,
            &json!({"data": {"event_type": "call.analyzed", "id": "e1", "payload": payload}}),
        )
        .0
    };
    assert_eq!(telnyx(json!("human")), ["ringing", "in_progress", "user_confirmed"]);
    assert_eq!(telnyx(json!("machine")), ["ringing", "in_progress"]);
}

#[test]
fn every_provider_that_analyses_calls_has_the_rule() {
    let rule = |pointer: &str| json!({"pointer": pointer, "confirmed": ["yes"], "declined": ["no"]});
    let vapi = json!({"message": {
        "type": "end-of-call-report", "endedReason": "customer-ended-call", "call": {"id": "c1"},
        "startedAt": "2025-10-20T12:00:00.000Z", "endedAt": "2025-10-20T12:01:00.000Z",
        "analysis": {"structuredData": {"will_come": "yes"}},
    }});
    let insight = json!([{"conversation_insights": [{"result": {"will_come": "yes"}}]}]);
    let telnyx = json!({"data": {"event_type": "call.analyzed", "id": "e1", "payload": {
        "call_control_id": "v3:c", "conversation_insights": insight, "duration_sec": 9,
    }}});
    let elevenlabs = json!({"type": "post_call_transcription", "event_timestamp": 1_760_962_440, "data": {
        "conversation_id": "c1", "status": "done",
        "metadata": {"start_time_unix_secs": 1_760_962_400, "call_duration_secs": 40, "phone_call": {"call_result": "answered"}},
        "analysis": {"data_collection_results": {"will_come": {"value": "yes"}}},
    }});
    let bland = json!({
        "call_id": "c1", "completed": true, "status": "completed", "answered_by": "human", "analysis": {"will_come": "yes"},
    });
    for (provider, pointer, body) in [
        (Provider::Bland, "/analysis/will_come", bland),
        (Provider::Vapi, "/message/analysis/structuredData/will_come", vapi),
        (Provider::Telnyx, "/data/payload/conversation_insights/0/conversation_insights/0/result/will_come", telnyx),
        (Provider::ElevenLabs, "/data/analysis/data_collection_results/will_come/value", elevenlabs),
    ] {
        let (found, is_stored) = kinds(provider, &rule(pointer), &body);
        assert!(found.contains(&"user_confirmed") && is_stored, "{provider}: {found:?}");
        let (found, is_stored) = kinds(provider, &rule("/none"), &body);
        assert!(!found.contains(&"user_confirmed") && !is_stored, "{provider}: {found:?}");
    }
}

/// Question about the call that the provider names `c1`.
fn lookup<'a>(call_id: &'a CallId, attempt: &'a AttemptKey) -> Lookup<'a> {
    Lookup { call_id, attempt, provider_call_id: Some("c1"), dialled_at: None, from: None, to: None }
}

#[test]
fn answer_to_a_lookup_is_decided_alike() {
    let file = file(Provider::Retell, &rule());
    let config = file.dial_accounts().config(Provider::Retell).unwrap();
    let (call_id, attempt) = (CallId::new("call-1"), AttemptKey::new("1"));
    let search = CallSearch::start(Provider::Retell, config, lookup(&call_id, &attempt)).unwrap();
    let analysis = json!({"custom_analysis_data": {"result": "yes"}});
    let answer = retell("user_hangup", &analysis)["call"].to_string();
    let SearchStep::Answer(LookupAnswer::Ended { webhook, event, .. }) = search.respond(200, answer.as_bytes(), NOW)
    else {
        panic!("the call has ended");
    };
    assert_eq!(webhook.decision(), Some(UserDecision::Confirmed));
    assert!(event.call_events.iter().any(|event| event.kind == EventKind::UserConfirmed));
    // The stored bytes alone lead to no decision, because the rule is not stored. The decision is stored beside them.
    let stored = VerifiedWebhook::from_inbox(Provider::Retell, String::new(), webhook.body().to_vec(), 0);
    let Reading::Event(reread) = read(&stored, NOW) else { panic!("an event") };
    assert!(reread.call_events.iter().all(|event| event.kind != EventKind::UserConfirmed));
    assert_eq!(reread.event_id, event.event_id);
    let Reading::Event(reread) = read(&stored.with_decision(webhook.decision()), NOW) else { panic!("an event") };
    assert_eq!(reread.call_events, event.call_events);
}

#[test]
fn lookup_at_vapi_has_the_value_where_the_webhook_has_it() {
    let rule =
        json!({"pointer": "/message/analysis/structuredData/will_come", "confirmed": ["yes"], "declined": ["no"]});
    let mut entry = entry(Provider::Vapi, &rule);
    entry["dial"] = json!({"api_key": "a key of Vapi for tests", "assistant_id": "a", "phone_number_id": "p"});
    let file = ProvidersFile::from_json(&json!({"vapi": entry}).to_string()).unwrap();
    let config = file.dial_accounts().config(Provider::Vapi).unwrap();
    let (call_id, attempt) = (CallId::new("call-1"), AttemptKey::new("1"));
    let search = CallSearch::start(Provider::Vapi, config, lookup(&call_id, &attempt)).unwrap();
    let call = json!({
        "id": "c1", "status": "ended", "endedReason": "customer-ended-call", "analysis": {"structuredData": {"will_come": "yes"}},
        "startedAt": "2025-10-20T12:00:00.000Z", "endedAt": "2025-10-20T12:01:00.000Z", "artifact": {"transcript": "…"},
    });
    let SearchStep::Answer(LookupAnswer::Ended { event, .. }) = search.respond(200, call.to_string().as_bytes(), NOW)
    else {
        panic!("the call has ended");
    };
    assert!(event.call_events.iter().any(|event| event.kind == EventKind::UserConfirmed), "{:?}", event.call_events);
}

#[test]
fn both_secrets_have_the_rule() {
    let file = file(Provider::Retell, &rule());
    assert_eq!(file.webhook_keys_document()["retell"]["decision"], rule());
    assert_eq!(file.dial_accounts_document()["retell"]["decision"], rule());
}

#[test]
fn wrong_rule_is_refused_by_name() {
    let problems = |entry: Value| ProvidersFile::from_json(&entry.to_string()).unwrap_err().problems().join("\n");
    let of = |rule: Value| problems(json!({"retell": {"keys": [KEY], "decision": rule}}));
    insta::assert_snapshot!(of(json!({})), @r"
    retell.decision.pointer: missing: the place of the value in the body
    retell.decision.confirmed: not a list of one to 20 values
    retell.decision.declined: not a list of one to 20 values
    ");
    insta::assert_snapshot!(
        of(json!({"pointer": "result", "confirmed": "yes", "declined": [[1]], "then": 1})), @r#"
        retell.decision.pointer[0]: not a JSON pointer such as /data/id
        retell.decision.confirmed: not a list of one to 20 values
        retell.decision.declined[0]: not a text, a number, true or false
        retell.decision."then": unknown field: known are pointer, confirmed, declined
        "#
    );
    insta::assert_snapshot!(of(json!({"pointer": "/a", "confirmed": ["yes"], "declined": ["yes"]})), @r"retell.decision.declined: has a value of confirmed");
    insta::assert_snapshot!(
        problems(json!({"twilio": {"keys": [KEY], "public_url": "https://example.com", "decision": rule()}})), @r"twilio.decision: not for twilio, whose webhooks do not say what the person decided"
    );
}
