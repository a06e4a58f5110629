//! Stored webhooks that are read anew, after the entry of their provider was corrected.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::minute_of;
use switchhook_domain::{CallId, Disposition, EventId, EventKind, Provider};
use switchhook_local::connector::{Fault, Service};
use switchhook_local::{CloudOptions, INBOX_TABLE, WEBHOOK_KEYS_SECRET};
use switchhook_operate::plan::Plan;
use switchhook_operate::quarantine::{LISTED_DEFAULT, QuarantineFilter, list, plan_reprocess};
use switchhook_operate::replay::{ReplayFilter, Selected};
use switchhook_providers::ProvidersFile;
use switchhook_tests::{KEY, World, all_providers, down, generic, is_request_to, options, text};

use super::{MAX, carry_out, stack};
use crate::configured::signed;
use crate::repair::{everything, of_call, plan_replay};

const ACME: &str = "x-acme";

/// Entry whose rules know one type of event, `ring`.
pub(crate) fn entry() -> Value {
    json!({
        "keys": [KEY],
        "signature": {"scheme": "hmac", "header": "x-signature", "timestamp_header": "x-time"},
        "events": {
            "event_id": "/id", "type": "/kind", "call_id": "/call/id", "time": "/at",
            "rules": [{"when": {"type": "ring"}, "event": "ringing"}],
        },
    })
}

/// The entry with a second rule.
pub(crate) fn better() -> Value {
    let mut entry = entry();
    entry["events"]["rules"].as_array_mut().unwrap().push(json!({"when": {"type": "hangup"}, "event": "busy"}));
    entry
}

pub(crate) fn secret(acme: Option<Value>, retell_decision: Option<Value>) -> Value {
    let mut secret = all_providers();
    secret[ACME] = acme.unwrap_or_default();
    secret.as_object_mut().unwrap().retain(|_, entry| !entry.is_null());
    if let Some(decision) = retell_decision {
        secret["retell"]["decision"] = decision;
    }
    secret
}

/// A stack that reads this secret, as a deployed one does.
pub(crate) fn world(secret: &Value) -> World {
    let mut world = World::with_options(CloudOptions { reads_secrets: true, ..options(secret) });
    world.start();
    world
}

/// Stores the webhook keys of a providers file. A wrong document is stored as it is.
pub(crate) fn put(world: &World, secret: &Value) {
    let text = match ProvidersFile::from_json(&secret.to_string()) {
        Ok(file) => Value::from(file.webhook_keys_document()).to_string(),
        Err(_) => secret.to_string(),
    };
    world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, &text);
}

pub(crate) fn body(id: &str, kind: &str) -> Value {
    json!({"id": id, "kind": kind, "at": 1_767_225_600, "call": {"id": "c1"}})
}

/// Posts a webhook, signed as the entry says. Returns its id and the status of the answer.
pub(crate) async fn post(world: &World, entry: &Value, body: &Value) -> (EventId, String) {
    let (code, answer) = world.send(signed(world, ACME, entry, body)).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    world.quiesce().await;
    (EventId::new(text(&answer["event_id"])), text(&answer["status"]))
}

fn counts(plan: &Plan) -> (usize, usize, usize) {
    (plan.items.len(), plan.unaffected, plan.skipped_count)
}

async fn lifecycle(world: &World, call: &str) -> Value {
    world.get(&format!("/call?id={call}")).await.1["lifecycle"].clone()
}

#[tokio::test(start_paused = true)]
async fn recorded_event_is_replayed_once_a_rule_knows_it() {
    let world = world(&secret(Some(entry()), None));
    let stack = stack(&world);
    post(&world, &entry(), &body("e1", "ring")).await;
    let (id, status) = post(&world, &entry(), &body("e2", "hangup")).await;
    assert_eq!(status, "recorded");
    assert_eq!(counts(&plan_replay(&stack, &everything()).await), (0, 2, 0));

    put(&world, &secret(Some(better()), None));
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(counts(&plan), (1, 1, 0), "{plan:?}");
    assert_eq!(plan.effects[0].after.as_ref().unwrap().lifecycle, "busy");
    assert_eq!(lifecycle(&world, "x-acme:c1").await, "ringing", "a plan changes nothing");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert_eq!(lifecycle(&world, "x-acme:c1").await, "busy");
    assert_eq!(world.status(&id).await["status"], "processed");

    // From now on the event has this meaning, whatever the entry says, and also without one.
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    assert!(world.call("x-acme:c1").await.contains_event(&event.event_id));
    for later in [Some(entry()), None] {
        put(&world, &secret(later, None));
        assert_eq!(counts(&plan_replay(&stack, &everything()).await), (0, 2, 0));
    }
}

/// An event of the first program was compressed without a dictionary. Its reading stands in the same item.
#[tokio::test(start_paused = true)]
async fn event_that_an_older_program_compressed_is_replayed_too() {
    let world = world(&secret(Some(entry()), None));
    let stack = stack(&world);
    let webhook = body("e1", "hangup");
    let (id, status) = post(&world, &entry(), &webhook).await;
    assert_eq!(status, "recorded");
    let mut item = world.item(INBOX_TABLE, id.as_str()).await;
    item.remove("dictionary");
    let compressed = zstd::bulk::compress(webhook.to_string().as_bytes(), 6).unwrap();
    item.insert("body".to_owned(), AttributeValue::B(compressed));
    world.put_item(INBOX_TABLE, item).await;

    put(&world, &secret(Some(better()), None));
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(counts(&plan), (1, 0, 0), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert_eq!(lifecycle(&world, "x-acme:c1").await, "busy");
    let event = world.inbox.get_normalized(&id).await.unwrap().unwrap();
    assert!(event.call_events.iter().any(|event| event.kind == EventKind::Busy), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn quarantined_event_is_reprocessed_once_its_call_is_found() {
    let mut wrong = better();
    wrong["events"]["call_id"] = json!("/calls/id");
    // It must not read the event: a stored reading never changes.
    wrong["events"]["rules"].as_array_mut().unwrap().push(json!({"event": "received"}));
    let world = world(&secret(Some(wrong.clone()), None));
    let stack = stack(&world);
    let (id, status) = post(&world, &wrong, &body("e1", "hangup")).await;
    assert_eq!(status, "quarantined");
    let filter = QuarantineFilter { all: true, ..QuarantineFilter::default() };
    let plan = plan_reprocess(&stack, &filter, MAX).await.unwrap();
    assert_eq!(counts(&plan), (0, 0, 1));
    assert_eq!(plan.skipped[0].reason, "the event is not readable: the event names no call");

    // The corrected entry finds the call, and has no rule for the event yet.
    put(&world, &secret(Some(entry()), None));
    let plan = plan_reprocess(&stack, &filter, MAX).await.unwrap();
    assert_eq!(plan.skipped[0].reason, "no rule of the entry of x-acme applies to the event");

    put(&world, &secret(Some(better()), None));
    let plan = plan_reprocess(&stack, &filter, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &plan).await.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert!(world.call("x-acme:c1").await.contains_event(&id), "under the id that it always had");
    assert_eq!(lifecycle(&world, "x-acme:c1").await, "busy");
    assert_eq!(list(&stack, LISTED_DEFAULT).await.unwrap(), []);
    assert_eq!(world.dead_letters(), [] as [Value; 0], "its notice is deleted");
    let again = QuarantineFilter { event_ids: vec![id], ..QuarantineFilter::default() };
    let again = plan_reprocess(&stack, &again, MAX).await.unwrap();
    assert_eq!(carry_out(&stack, &again).await.result(), "0 done, 1 unchanged, 0 skipped");
}

#[tokio::test(start_paused = true)]
async fn event_whose_entry_cannot_be_used_is_named_with_what_to_do() {
    let world = world(&secret(Some(entry()), None));
    let stack = stack(&world);
    let (id, _) = post(&world, &entry(), &body("e1", "hangup")).await;
    let reason = async || {
        let recorded = Some(Selected::As(Disposition::Recorded));
        let plan = plan_replay(&stack, &ReplayFilter { disposition: recorded, ..everything() }).await;
        assert_eq!((counts(&plan), plan.skipped[0].item.as_str()), ((0, 0, 1), id.as_str()));
        plan.skipped[0].reason.clone()
    };
    put(&world, &secret(None, None));
    assert!(reason().await.contains("have no entry x-acme, by which its events are read: store it with `switchhook"));
    put(&world, &secret(Some(json!({"keys": [KEY]})), None));
    assert!(reason().await.contains("the entry of x-acme in the webhook keys of the stack dev is wrong"));
    put(&world, &json!("no object"));
    assert!(reason().await.contains("is wrong: `switchhook providers list` names the field"));
    world.set_fault_hook(|call| (call.service == Service::SecretsManager).then(down));
    let unreadable = reason().await;
    assert!(
        unreadable.contains("secretsmanager:GetSecretValue") && unreadable.contains("AccessDenied"),
        "{unreadable}"
    );
}

/// Rule that finds no decision in the webhooks of these tests.
pub(crate) fn wrong_rule() -> Value {
    json!({"pointer": "/call/nowhere", "confirmed": ["yes"], "declined": ["no"]})
}

pub(crate) fn right_rule(confirmed: &str, declined: &str) -> Value {
    json!({"pointer": "/call/call_analysis/custom_analysis_data/will_come", "confirmed": [confirmed], "declined": [declined]})
}

pub(crate) const ANALYZED: &str = r#"{"event": "call_analyzed", "call": {"call_id": "p1", "call_status": "ended",
    "disconnection_reason": "user_hangup", "start_timestamp": 1767225600000, "end_timestamp": 1767225640000,
    "call_analysis": {"custom_analysis_data": {"will_come": "yes"}}}}"#;

#[tokio::test(start_paused = true)]
async fn replay_adds_the_decision_that_a_corrected_rule_finds() {
    let world = world(&secret(None, Some(wrong_rule())));
    let stack = stack(&world);
    let id = world.accept(Provider::Retell, ANALYZED).await;
    world.quiesce().await;
    let outcome = async || world.get("/call?id=retell:p1").await.1["outcome"].clone();
    assert_eq!(outcome().await, "connected");
    let before = plan_replay(&stack, &everything()).await;
    assert_eq!((counts(&before), before.warnings.len()), ((0, 1, 0), 0));

    put(&world, &secret(None, Some(right_rule("yes", "no"))));
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!((plan.effects.len(), plan.warnings.len()), (1, 0), "{plan:?}");
    assert_eq!(plan.effects[0].after.as_ref().unwrap().outcome.as_deref(), Some("confirmed"), "{plan:?}");
    assert_eq!(outcome().await, "connected", "a plan changes nothing");
    assert_eq!(carry_out(&stack, &plan).await.result(), "2 done, 0 unchanged, 0 skipped", "the event and its call");
    world.quiesce().await;
    assert_eq!(outcome().await, "confirmed");

    // The decision is stored, and a later rule does not change it.
    let entry = world.item(INBOX_TABLE, id.as_str()).await;
    assert_eq!(entry["decision"], AttributeValue::S("confirmed".to_owned()));
    put(&world, &secret(None, Some(right_rule("no", "yes"))));
    assert_eq!(
        counts(&plan_replay(&stack, &everything()).await),
        (0, 2, 0),
        "the event, and the one that asked for the refold"
    );
}

/// Lets the operator's clients read the index of received events one event at a time, as if it had very many pages.
fn list_one_by_one(world: &World) {
    world.set_fault_hook(|call| {
        let is_list = call.sender == Some("operator") && call.operation == "Query" && is_request_to(call, INBOX_TABLE);
        let mut body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        is_list.then(|| {
            body["Limit"] = 1.into();
            Fault::ReplacedRequest(body.to_string().into_bytes())
        })
    });
}

#[tokio::test(start_paused = true)]
async fn run_stores_no_decision_in_an_event_of_a_call_that_it_cannot_fold_again() {
    let world = world(&secret(None, Some(wrong_rule())));
    let stack = stack(&world);
    let id = world.accept(Provider::Retell, ANALYZED).await;
    world.quiesce().await;
    put(&world, &secret(None, Some(right_rule("yes", "no"))));
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(counts(&plan), (2, 0, 0), "{plan:?}");
    let before = world.item(INBOX_TABLE, id.as_str()).await;
    // Other calls have many events in the same shard of the index.
    let shard = |call: &str| world.inbox.shard_of_call(&CallId::new(call), minute_of(world.now()));
    let others = (0..).map(|n| format!("c{n}")).filter(|call| shard(call) == shard("retell:p1"));
    for call in others.take(170) {
        world.accept(Provider::Generic, &generic(&call, &format!("{call}-ringing"), "RINGING", 0)).await;
    }
    world.quiesce().await;

    list_one_by_one(&world);
    let run = carry_out(&stack, &plan).await;
    assert_eq!(run.result(), "0 done, 0 unchanged, 2 skipped");
    let reasons: BTreeSet<&str> = run.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    assert_eq!(reasons, BTreeSet::from(["the call has too many events to fold it again"]));
    assert_eq!(world.item(INBOX_TABLE, id.as_str()).await, before);
    // A new plan skips both too.
    let plan = plan_replay(&stack, &of_call("retell:p1")).await;
    assert_eq!((counts(&plan), plan.effects.len()), ((0, 0, 2), 0), "{plan:?}");
}

#[tokio::test(start_paused = true)]
async fn plan_warns_if_rules_for_decisions_could_not_be_read() {
    let world = world(&secret(None, Some(wrong_rule())));
    let stack = stack(&world);
    world.accept(Provider::Retell, ANALYZED).await;
    world.quiesce().await;
    world.set_fault_hook(|call| (call.service == Service::SecretsManager).then(down));
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!(counts(&plan), (0, 1, 0), "the program itself reads the event");
    let [warning] = plan.warnings.as_slice() else { panic!("{plan:?}") };
    assert!(warning.contains("without the rules for decisions") && warning.contains("GetSecretValue"), "{warning}");
}
