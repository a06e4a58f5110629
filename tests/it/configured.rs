//! Providers that the configuration of a stack describes: from the webhook to the settled call, and what stays the same when the
//! configuration changes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};

use boon::{Compiler, Schemas};
use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_aws::inbox::{NewEvent, PutOutcome, submit};
use switchhook_domain::{EventId, Provider, ProviderEvent};
use switchhook_local::{CloudOptions, WEBHOOK_KEYS_SECRET};
use switchhook_providers::{ProvidersFile, Reading, VerifiedWebhook, read_as_configured, sign_as_configured};
use switchhook_tests::{KEY, MINUTE, World, options, text};

const ACME: &str = "x-acme";

/// Entry of a provider with one webhook for each change of a call.
fn acme() -> Value {
    json!({
        "keys": [KEY],
        "signature": {"scheme": "hmac", "header": "x-acme-signature", "timestamp_header": "x-acme-time"},
        "reports_outcome": true,
        "events": {
            "event_id": "/id",
            "type": "/kind",
            "call_id": "/call/id",
            "appointment_id": "/call/labels/appointment",
            "time": "/at",
            "rules": [
                {"when": {"type": "ring"}, "event": "ringing"},
                {"when": {"type": "talk"}, "event": "in_progress"},
                {"when": {"type": "end", "/call/result": "busy"}, "event": "busy"},
                {"when": {"type": "end"}, "event": "completed"},
                {"when": {"type": "answer", "/yes": true}, "event": "user_confirmed"},
                {"when": {"type": "answer", "/yes": false}, "event": "user_declined"},
            ],
        },
    })
}

fn secret(entry: &Value) -> Value {
    json!({ACME: entry, "generic": {"keys": [KEY]}})
}

fn webhook(id: &str, kind: &str, second: u32, more: &Value) -> Value {
    let mut body = json!({
        "id": id, "kind": kind, "at": 1_767_225_600 + second,
        "call": {"id": "c1", "labels": {"appointment": "apt_1"}},
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Request that the provider would send, by its entry.
pub(crate) fn signed(world: &World, name: &str, entry: &Value, body: &Value) -> Request<Bytes> {
    let provider: Provider = name.parse().unwrap();
    let providers = ProvidersFile::from_json(&json!({name: entry}).to_string()).unwrap();
    let config = providers.webhook_keys().config(provider).unwrap();
    let path = format!("/webhooks/{name}");
    let body = body.to_string();
    let webhook = sign_as_configured(provider, config, &path, body.as_bytes(), world.now()).unwrap();
    let mut request = Request::post(&path).header("content-type", webhook.content_type);
    for (name, value) in &webhook.headers {
        request = request.header(name, value);
    }
    request.body(Bytes::from(body)).unwrap()
}

/// Event that ingress would read with this entry.
fn read(world: &World, entry: &Value, body: &Value) -> ProviderEvent {
    let provider: Provider = ACME.parse().unwrap();
    let providers = ProvidersFile::from_json(&json!({ACME: entry}).to_string()).unwrap();
    let webhook = VerifiedWebhook::from_inbox(provider, String::new(), body.to_string().into_bytes(), 0);
    let config = providers.webhook_keys().config(provider).unwrap();
    match read_as_configured(config, &webhook, world.now()).0 {
        Reading::Event(event) => event,
        other @ (Reading::Recorded { .. } | Reading::Quarantined { .. }) => panic!("{other:?}"),
    }
}

fn new_event(world: &World, event: &ProviderEvent, body: &Value) -> NewEvent {
    NewEvent {
        event_id: event.event_id.clone(),
        call_id: Some(event.call_id.clone()),
        origin: event.origin,
        event_type: event.event_type.clone(),
        occurred_at: None,
        received_at: world.now(),
        query: String::new(),
        body: body.to_string().into_bytes(),
        key_index: 0,
        headers: BTreeMap::new(),
        disposition: None,
        reading: None,
        decision: None,
        cause: None,
        trace_id: String::new(),
    }
}

async fn post(world: &World, body: &Value) -> (StatusCode, Value) {
    world.send(signed(world, ACME, &acme(), body)).await
}

#[tokio::test(start_paused = true)]
async fn call_of_a_configured_provider_is_settled() {
    let world = World::with_secret(&secret(&acme()));
    // The webhooks come out of order, one comes twice, and one has no meaning.
    for (body, status) in [
        (webhook("e3", "end", 60, &json!({})), "accepted"),
        (webhook("e1", "ring", 0, &json!({})), "accepted"),
        (webhook("e3", "end", 60, &json!({})), "already_processed"),
        (webhook("e4", "answer", 70, &json!({"yes": true})), "accepted"),
        (webhook("e2", "talk", 20, &json!({})), "accepted"),
        (webhook("e5", "mood", 71, &json!({})), "recorded"),
    ] {
        let (code, answer) = post(&world, &body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!(status)), "{body}: {answer}");
        world.quiesce().await;
    }
    let (code, call) = world.get("/call?id=appointment:apt_1").await;
    assert_eq!(code, StatusCode::OK, "{call}");
    assert_eq!(
        json!([call["provider"], call["lifecycle"], call["outcome"], call["appointment_status"], call["settled"]]),
        json!([ACME, "completed", "confirmed", "Confirmed", true]),
        "{call}"
    );
    let status = world.status(&EventId::new("x-acme:e1")).await;
    assert_eq!(json!([status["status"], status["provider"], status["type"]]), json!(["processed", ACME, "ring"]));
}

#[tokio::test(start_paused = true)]
async fn change_of_the_mapping_changes_no_stored_event() {
    let world = World::with_secret(&secret(&acme()));
    let ended = webhook("e1", "end", 60, &json!({"call": {"id": "c9", "result": "busy"}}));
    assert_eq!(post(&world, &ended).await.1["status"], "accepted");
    world.quiesce().await;
    let id = EventId::new("x-acme:e1");
    // The functions that read it again do not know the mapping at all.
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    assert_eq!(event.call_id.as_str(), "x-acme:c9");
    assert_eq!(event.call_events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["ringing", "busy"]);
    assert_eq!(world.get("/call?id=x-acme:c9").await.1["lifecycle"], "busy");
}

#[tokio::test(start_paused = true)]
async fn recorded_event_gets_a_meaning_when_it_is_sent_again_under_a_better_mapping() {
    let mut world = World::with_options(CloudOptions { reads_secrets: true, ..options(&secret(&acme())) });
    world.start();
    let id = EventId::new("x-acme:e1");
    let body = webhook("e1", "hangup", 60, &json!({}));
    assert_eq!(post(&world, &body).await.1["status"], "recorded");
    assert_eq!(world.inbox.get_normalized(&id).await.unwrap(), None);
    let stored = world.inbox.get(&id).await.unwrap().unwrap();

    // The operator adds a rule, and the provider sends the event again.
    let mut better = acme();
    better["events"]["rules"].as_array_mut().unwrap().push(json!({"when": {"type": "hangup"}, "event": "busy"}));
    world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, &secret(&better).to_string());
    world.wait(MINUTE * 6).await;
    for _ in 0..2 {
        assert_eq!(post(&world, &body).await.1["status"], "already_processed");
        world.quiesce().await;
        let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
        assert_eq!(event.received_at, stored.received_at);
        let (_, call) = world.get("/call?id=appointment:apt_1").await;
        assert_eq!((&call["lifecycle"], &call["version"]), (&json!("busy"), &json!(1)));
    }
}

/// The body identifies these events, so the same body is the same event under both mappings.
#[tokio::test(start_paused = true)]
async fn quarantined_event_gets_a_meaning_when_it_is_sent_again_under_a_better_mapping() {
    let mut wrong = acme();
    wrong["events"].as_object_mut().unwrap().remove("event_id");
    let mut right = wrong.clone();
    wrong["events"]["call_id"] = json!("/calls/id");
    wrong["events"].as_object_mut().unwrap().remove("appointment_id");
    right["events"].as_object_mut().unwrap().remove("appointment_id");
    let world = World::with_secret(&secret(&wrong));
    let body = webhook("e1", "ring", 0, &json!({}));
    let (code, answered) = world.send(signed(&world, ACME, &wrong, &body)).await;
    assert_eq!((code, &answered["status"]), (StatusCode::OK, &json!("quarantined")));

    // A second stack has the same tables, and the right place of the call.
    let reading = read(&world, &right, &body);
    assert_eq!(reading.event_id.as_str(), answered["event_id"]);
    let new_event = NewEvent { reading: Some(reading.clone()), ..new_event(&world, &reading, &body) };
    let outcome = submit(&world.inbox, &world.queue, &new_event, &reading).await.unwrap();
    assert!(matches!(outcome, PutOutcome::Duplicate { same_content: true, .. }));
    world.quiesce().await;
    assert_eq!(world.get("/call?id=x-acme:c1").await.1["lifecycle"], "ringing");

    // Under the wrong mapping, the event that was read stays as it is, and nobody is alarmed.
    let dead_letters = world.dead_letters().len();
    assert_eq!(world.send(signed(&world, ACME, &wrong, &body)).await.1["status"], "already_processed");
    world.quiesce().await;
    assert_eq!(world.dead_letters().len(), dead_letters);
    assert_eq!(world.get("/call?id=x-acme:c1").await.1["lifecycle"], "ringing");
}

#[tokio::test(start_paused = true)]
async fn webhook_that_the_entry_does_not_allow_is_refused() {
    let world = World::with_secret(&secret(&acme()));
    let body = webhook("e1", "ring", 0, &json!({}));
    let refused = async |request: Request<Bytes>| text(&world.send(request).await.1["error"]);
    let mut other = acme();
    other["keys"] = json!(["another key, as long as it must be"]);
    assert_eq!(refused(signed(&world, ACME, &other, &body)).await, "invalid_signature");
    for invented in ["x-other", "twilio-other"] {
        let mut request = signed(&world, ACME, &acme(), &body);
        *request.uri_mut() = format!("/webhooks/{invented}").parse().unwrap();
        assert_eq!(refused(request).await, "unknown_provider");
    }
    let mut tampered = signed(&world, ACME, &acme(), &body);
    *tampered.body_mut() = Bytes::from(body.to_string().replace("ring", "talk"));
    assert_eq!(refused(tampered).await, "invalid_signature");
    let lines = world.logged("rejected");
    let logged: Vec<&Value> = lines.iter().map(|line| &line["provider"]).collect();
    // Anybody can invent the name of a provider, so only names of the secret reach the log.
    assert_eq!(logged, [&json!(ACME), &Value::Null, &Value::Null, &json!(ACME)]);
}

#[tokio::test(start_paused = true)]
async fn webhook_from_an_address_that_the_entry_does_not_allow_is_refused() {
    // The local gateway reports 127.0.0.1 as the source.
    for (allowed, status) in [("203.0.113.0/24", StatusCode::FORBIDDEN), ("127.0.0.0/8", StatusCode::OK)] {
        let mut entry = acme();
        entry["allowed_sources"] = json!([allowed]);
        let world = World::with_secret(&secret(&entry));
        let body = webhook("e1", "ring", 0, &json!({}));
        assert_eq!(world.send(signed(&world, ACME, &entry, &body)).await.0, status, "{allowed}");
        assert_eq!(world.requests().is_empty(), status == StatusCode::FORBIDDEN, "{allowed}");
    }
}

/// The schema for editors.
const SCHEMA: &str = include_str!("../../infra/providers.schema.json");

/// Returns the violation of the schema. `None` if the document is as described.
fn violation(document: &Value) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("providers.json", serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let index = compiler.compile("providers.json", &mut schemas).unwrap();
    schemas.validate(document, index).err().map(|error| format!("{error:#}"))
}

#[test]
fn examples_are_as_the_schema_describes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/providers");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let document = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(violation(&document), None, "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 5, "{count} examples");
    assert_eq!(violation(&secret(&acme())), None);
}

#[test]
fn schema_has_the_fields_of_the_parser() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let signature = |scheme: &str| json!({"scheme": scheme, "header": "x-sig"});
    for (definition, place, scheme) in [
        ("entry", "", "hmac"),
        ("hmac", "/signature", "hmac"),
        ("ed25519", "/signature", "ed25519"),
        ("standard_webhooks", "/signature", "standard_webhooks"),
        ("jwt", "/signature", "jwt"),
        ("twilio", "/signature", "twilio"),
        ("signalwire", "/signature", "signalwire"),
        ("plivo", "/signature", "plivo"),
        ("shared_secret", "/signature", "shared_secret"),
        ("events", "/events", "hmac"),
        ("rule", "/events/rules/0", "hmac"),
        ("booked_call", "/events/booked_call", "hmac"),
    ] {
        let mut entry = acme();
        entry["signature"] = signature(scheme);
        if definition == "booked_call" {
            entry["events"]["booked_call"] = json!({});
        }
        entry.pointer_mut(place).unwrap()["zzz"] = json!(1);
        let document = json!({ACME: entry});
        // The parser names every field that it knows.
        let error = ProvidersFile::from_json(&document.to_string()).unwrap_err();
        let known =
            error.problems().iter().find_map(|problem| problem.split_once("\"zzz\": unknown field: known are "));
        let (_, known) = known.unwrap_or_else(|| panic!("{:?}", error.problems()));
        let known: BTreeSet<&str> = known.split(", ").collect();
        let described: BTreeSet<&str> =
            schema["$defs"][definition]["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known, described, "{definition}");
        assert!(violation(&document).is_some(), "{definition}");
    }
}

#[test]
fn schema_has_the_names_of_every_entry_of_a_built_in_provider() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for provider in Provider::ALL {
        let document = json!({provider.as_str(): {"keys": ["a key, as long as it must be"], "zzz": 1}});
        let error = ProvidersFile::from_json(&document.to_string()).unwrap_err();
        let known =
            error.problems().iter().find_map(|problem| problem.split_once("\"zzz\": unknown field: known are "));
        let (_, known) = known.unwrap_or_else(|| panic!("{:?}", error.problems()));
        let known: BTreeSet<&str> = known.split(", ").collect();
        let described = schema["properties"][provider.as_str()]["properties"].as_object().unwrap();
        assert_eq!(known, described.keys().map(String::as_str).collect(), "{provider}");
        assert!(violation(&document).is_some(), "{provider}");
        // A name that is called known must not be refused next.
        for name in known {
            let value = match name {
                "dial" => json!({}),
                "discover" => json!(true),
                _ => json!(1),
            };
            let mut entry = json!({"keys": ["a key, as long as it must be"], "dial": {}});
            entry.as_object_mut().unwrap().retain(|field, _| field != "dial" || name == "discover");
            entry[name] = value;
            let document = json!({provider.as_str(): entry});
            let problems = match ProvidersFile::from_json(&document.to_string()) {
                Ok(_) => Vec::new(),
                Err(error) => error.problems().to_vec(),
            };
            let refused = format!("{provider}.{name}: not for");
            assert!(!problems.iter().any(|problem| problem.starts_with(&refused)), "{problems:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn example_of_the_page_works_as_the_page_says() {
    let page = include_str!("../../docs/providers/configured.md");
    let blocks: Vec<Value> = page
        .split("```json\n")
        .skip(1)
        .map(|rest| serde_json::from_str(rest.split_once("```").unwrap().0).unwrap())
        .collect();
    let [body, document] = blocks.as_slice() else { panic!("{} examples", blocks.len()) };
    assert_eq!(violation(document), None);
    let world = World::with_secret(document);
    let (code, answer) = world.send(signed(&world, ACME, &document[ACME], body)).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("accepted")), "{answer}");
    world.quiesce().await;
    assert_eq!(world.get("/call?id=appointment:apt_1").await.1["lifecycle"], "no_answer");
}
