//! Questions of providers about inbound calls, which wait for an answer.

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::EventId;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{KEY, World, all_providers, database_down, sample};

use super::{OK, id_of, provider_of, storage_failure, with_body};

const TWIML: &str = "<Response><Say>Please wait.</Say></Response>";
const QUESTIONS: [&str; 3] = ["retell/call_inbound", "vapi/assistant_request", "twilio/inbound_request"];

/// Fixed answer of the tests to each provider.
fn answer_to(provider: &str) -> Value {
    match provider {
        "retell" => json!({"call_inbound": {"override_agent_id": "agent_of_the_night"}}),
        "vapi" => json!({"assistantId": "a9e8d7c6-b5a4-4392-8170-6f5e4d3c2b1a"}),
        _ => json!(TWIML),
    }
}

/// A stack whose entries have answers to questions.
fn world() -> World {
    let mut secret = all_providers();
    for name in QUESTIONS {
        let provider = provider_of(name);
        secret[provider.as_str()]["question"] = json!({"answer": answer_to(provider.as_str())});
    }
    World::with_secret(&secret)
}

/// Sends a request. Returns the status code, the content type and the whole body.
async fn ask(world: &World, request: Request<Bytes>) -> (StatusCode, String, String) {
    let response = world.cloud.request(request).await;
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status(), content_type, String::from_utf8(response.body().to_vec()).unwrap())
}

fn question(world: &World, name: &str) -> Request<Bytes> {
    world.signed(provider_of(name), KEY, "", sample(name).as_bytes(), world.now())
}

#[tokio::test(start_paused = true)]
async fn question_gets_the_configured_answer_and_is_stored() {
    for name in QUESTIONS {
        let world = world();
        let provider = provider_of(name);
        let answer = answer_to(provider.as_str());
        let expected = match answer.as_str() {
            Some(text) => (OK, "text/xml".to_owned(), text.to_owned()),
            None => (OK, "application/json".to_owned(), answer.to_string()),
        };
        assert_eq!(ask(&world, question(&world, name)).await, expected, "{name}");
        assert_eq!(ask(&world, question(&world, name)).await, expected, "{name}: the provider asks again");
        world.quiesce().await;
        assert_eq!(world.items(INBOX_TABLE).await.len(), 1, "{name}: one event");
        let actions: Vec<Value> =
            ["recorded", "accepted", "duplicate"].iter().flat_map(|it| world.logged(it)).collect();
        let from_ingress = actions.iter().filter(|line| line["function"] == "ingress").count();
        assert_eq!(from_ingress, 2, "{name}: {actions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_of_twilio_begins_the_call() {
    let world = world();
    ask(&world, question(&world, "twilio/inbound_request")).await;
    world.quiesce().await;
    let (code, call) = world.get("/call?id=twilio:CA00000000000000000000000000000008").await;
    assert_eq!((code, &call["lifecycle"], &call["direction"]), (OK, &json!("ringing"), &json!("inbound")));
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_an_answer_without_a_signature_or_while_the_store_is_down() {
    for name in QUESTIONS {
        let world = world();
        let forged = with_body(question(&world, name), b"{}");
        let (code, _, body) = ask(&world, forged).await;
        assert_eq!(code, StatusCode::UNAUTHORIZED, "{name}");
        assert!(body.contains("invalid_signature"), "{name}: {body}");
        world.set_fault_hook(database_down);
        assert_eq!(world.send(question(&world, name)).await, storage_failure(), "{name}");
        world.clear_faults();
        assert_eq!(world.items(CALLS_TABLE).await, [], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_other_webhook_gets_the_usual_answer() {
    let world = world();
    for name in
        ["retell/call_started", "vapi/status_ringing", "twilio/ringing", "twilio/completed_json", "twilio/amd_human"]
    {
        let query = if name == "twilio/completed_json" { "appointment_id=apt_7" } else { "" };
        let body = sample(name);
        let request = world.signed(provider_of(name), KEY, query, body.as_bytes(), world.now());
        let (code, answered) = world.send(request).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("accepted")), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn fixed_answer_stands_for_a_url_that_nobody_answers() {
    let mut secret = all_providers();
    secret["retell"]["question"] =
        json!({"answer": answer_to("retell"), "url": "http://127.0.0.1:1/ask?token=HIDDEN", "key": KEY});
    let world = World::with_secret(&secret);
    let (code, _, body) = ask(&world, question(&world, "retell/call_inbound")).await;
    assert_eq!((code, body), (OK, answer_to("retell").to_string()));
    let lines = world.logged("recorded");
    assert_eq!(lines.iter().map(|line| &line["question_fallback"]).collect::<Vec<_>>(), [&json!(1)]);
    assert!(lines[0]["error"].as_str().unwrap().starts_with("no answer from the URL"), "{lines:?}");
    assert!(!world.log_text().contains("HIDDEN"));
}

/// Without an answer in its entry, a question is stored and answered like any other webhook.
#[tokio::test(start_paused = true)]
async fn question_without_a_configured_answer_is_recorded() {
    let world = World::new();
    for (name, status) in [
        ("retell/call_inbound", "recorded"),
        ("vapi/assistant_request", "recorded"),
        ("twilio/inbound_request", "accepted"),
    ] {
        let (code, answered) = world.send(question(&world, name)).await;
        assert_eq!((code, &answered["status"]), (OK, &json!(status)), "{name}");
        let status = world.status(&EventId::new(id_of(&answered))).await;
        assert_eq!(status["event_id"], answered["event_id"], "{name}: {status}");
    }
    assert_eq!(world.logged("rejected"), [] as [Value; 0]);
}
