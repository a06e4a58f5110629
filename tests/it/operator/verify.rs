//! A call is verified: its events are folded again and compared with its row.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::sdk::Patience;
use switchhook_domain::{Call, CallId, Provider};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::plan::{Action, CallSummary};
use switchhook_operate::verify::{Problem, VerifyFilter, VerifyReport, plan_repair, verify};
use switchhook_tests::{Item, MINUTE, World, generic, is_request_to};
use tokio::time::Instant;

use super::{HOUR, MAX, carry_out, carry_out_in_two, stack};
use crate::outbound::{all_accounts, call_request, create};
use crate::repair::{drop_messages, stack_with};

/// Stores a call that rang, was answered and ended.
async fn finished_call(world: &World, id: &str) {
    for (type_, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &generic(id, &format!("{id}-{type_}"), type_, second)).await;
    }
    world.quiesce().await;
}

async fn verified(world: &World, filter: &VerifyFilter) -> VerifyReport {
    let stack = stack(world);
    let since = stack.now().minus(HOUR);
    verify(&stack, filter, since, &mut |_, _| {}).await.unwrap()
}

fn calls(ids: &[&str]) -> VerifyFilter {
    VerifyFilter::Calls(ids.iter().copied().map(CallId::new).collect())
}

/// The entries of a call's history, in no particular order.
fn history_of(call: &Call) -> BTreeSet<String> {
    call.history.iter().map(|entry| format!("{} {}", entry.id(), entry.disposition.as_str())).collect()
}

/// The findings, one line each.
fn found(report: &VerifyReport) -> String {
    let line = |id: &CallId, problem: &Problem| match problem {
        Problem::Different { differences, .. } => {
            let names: Vec<&str> = differences.iter().map(|difference| difference.name).collect();
            format!("{id} differs: {}", names.join(" "))
        }
        Problem::Lost { events, .. } => format!("{id} is lost: {} events", events.len()),
        Problem::Unknown => format!("{id} is unknown"),
        Problem::Unreadable { error } => format!("{id}: {error}"),
        Problem::TooManyEvents => format!("{id} has too many events"),
        Problem::TooFarBack => format!("{id}: the period is too long"),
    };
    report.findings.iter().map(|finding| line(&finding.call_id, &finding.problem)).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn calls_of_every_kind_match_their_events() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.accept(Provider::Generic, &generic("c2", "open", "RINGING", 0)).await;
    create(&world, &call_request("busy,confirms")).await;
    create(&world, &call_request("no_answer,no_answer,no_answer")).await;
    create(&world, &call_request("voicemail")).await;
    world.wait(MINUTE * 30).await;
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, found(&report).as_str()), (5, ""));
    let report = verified(&world, &VerifyFilter::Appointment("apt".to_owned())).await;
    assert_eq!((report.matching, found(&report).as_str()), (3, ""));
}

/// A provisioned index takes ten requests a second, and a search sends many at the same time. So AWS refuses most of them.
#[tokio::test(start_paused = true)]
async fn search_of_a_command_ends_at_the_pace_of_the_table() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE * 3).await;
    let next = Mutex::new(Instant::now());
    world.set_fault_hook(move |call| {
        if call.operation != "Query" || !is_request_to(call, INBOX_TABLE) {
            return None;
        }
        let mut next = next.lock().unwrap();
        if Instant::now() >= *next {
            *next = Instant::now() + Duration::from_millis(100);
            return None;
        }
        Some(Fault::ErrorBefore { status: 400, code: "ProvisionedThroughputExceededException".to_owned() })
    });
    let search = async |patience| {
        let stack = stack_with(&world, patience);
        verify(&stack, &VerifyFilter::Since, stack.now().minus(HOUR), &mut |_, _| {}).await
    };
    assert!(search(Patience::Short).await.is_err(), "the table refuses too little for this test");
    let report = search(Patience::Long).await.unwrap();
    assert_eq!((report.matching, found(&report).as_str()), (1, ""));
}

#[tokio::test(start_paused = true)]
async fn altered_row_is_named_and_repaired_once() {
    let world = World::new();
    finished_call(&world, "c1").await;
    finished_call(&world, "c2").await;
    world.wait(MINUTE * 3).await;
    let before = world.call("c1").await;
    world.alter_text("c1", "job", "FAILED").await;
    world.alter_text("c2", "job", "FAILED").await;
    let report = verified(&world, &calls(&["c1", "c2"])).await;
    assert_eq!(found(&report), "c1 differs: job\nc2 differs: job");

    let stack = stack(&world);
    let plan = plan_repair(&stack, &calls(&["c1", "c2"]), &report, MAX).await.unwrap();
    assert_eq!((plan.items.len(), plan.phones), (2, 0));
    assert_eq!(plan.effects[0].after.as_ref().unwrap().job, "COMPLETED");
    let run = carry_out_in_two(&stack, &plan).await;
    assert_eq!(run.result(), "2 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert_eq!(world.call("c1").await.job, before.job);
    let again = verified(&world, &calls(&["c1", "c2"])).await;
    assert_eq!((again.matching, found(&again).as_str()), (2, ""));
}

/// The person confirmed by text message, most of an hour after the call. Then the row was restored to an earlier time.
#[tokio::test(start_paused = true)]
async fn event_that_came_long_after_the_last_one_of_the_row_is_missing() {
    let world = World::new();
    finished_call(&world, "c1").await;
    let row = world.item(CALLS_TABLE, "c1").await;
    world.wait(MINUTE * 40).await;
    world.accept(Provider::Generic, &generic("c1", "late", "USER_CONFIRMED", 2_400)).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&world, &calls(&["c1"])).await), "");
    world.put_item(CALLS_TABLE, row).await;
    let differences = found(&verified(&world, &calls(&["c1"])).await);
    assert!(differences.starts_with("c1 differs: missing_event"), "{differences}");
}

#[tokio::test(start_paused = true)]
async fn lost_row_is_found_by_its_events_and_rebuilt() {
    let world = World::new();
    finished_call(&world, "c1").await;
    finished_call(&world, "c2").await;
    let (before, announced) = (world.call("c1").await, world.published_types("c1"));
    world.wait(MINUTE * 3).await;
    world.delete_item(CALLS_TABLE, "c1").await;
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, found(&report).as_str()), (1, "c1 is lost: 4 events"));
    assert_eq!(found(&verified(&world, &calls(&["c1", "nobody"])).await), "c1 is lost: 4 events\nnobody is unknown");

    let stack = stack(&world);
    let plan = plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
    assert!(plan.items.iter().all(|item| item.action == Action::Replay), "{plan:?}");
    assert_eq!((plan.items.len(), plan.phones, plan.effects[0].before.as_ref()), (4, 0, None));
    carry_out(&stack, &plan).await;
    world.quiesce().await;
    let after = world.call("c1").await;
    assert_eq!((CallSummary::new(&after), history_of(&after)), (CallSummary::new(&before), history_of(&before)));
    // The call announces again, from its first id on. Subscribers that have these ids ignore them.
    assert_eq!(world.published_types("c1").len(), 2 * announced.len());
    assert_eq!(found(&verified(&world, &VerifyFilter::Since).await), "");
}

/// The search for calls has read these minutes, with the events of all calls.
#[tokio::test(start_paused = true)]
async fn minutes_of_the_search_are_not_read_again_for_each_call() {
    let world = World::new();
    for id in ["c1", "c2", "c3"] {
        finished_call(&world, id).await;
    }
    world.wait(MINUTE * 3).await;
    let searched: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&searched);
    world.set_fault_hook(move |call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        if body["IndexName"] == "by_received" {
            record.lock().unwrap().push(body["ExpressionAttributeValues"][":bucket"].to_string());
        }
        None
    });
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, found(&report).as_str()), (3, ""));
    let searched = searched.lock().unwrap();
    let different: BTreeSet<&String> = searched.iter().collect();
    assert!(!searched.is_empty() && different.len() == searched.len(), "{searched:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_event_is_found_though_it_came_before_the_searched_time() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "never-folded", "RINGING", 1)).await;
    drop_messages(&world);
    world.wait(MINUTE).await;
    let since = world.now();
    world.accept(Provider::Generic, &generic("c1", "folded", "ENDED", 60)).await;
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 3).await;
    let report = verify(&stack(&world), &VerifyFilter::Since, since, &mut |_, _| {}).await.unwrap();
    assert_eq!(found(&report), "c1 differs: missing_event");
}

/// One call's events are searched minute by minute, so a long period is not searched to its end.
#[tokio::test(start_paused = true)]
async fn call_without_a_row_is_not_unknown_if_the_period_is_too_long_to_search() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE * 3).await;
    world.delete_item(CALLS_TABLE, "c1").await;
    let stack = stack(&world);
    let since = stack.now().minus(HOUR * 24 * 80);
    let named = calls(&["c1", "entity:x-acme:pay_1"]);
    let report = verify(&stack, &named, since, &mut |_, _| {}).await.unwrap();
    assert_eq!(found(&report), "c1: the period is too long\nentity:x-acme:pay_1: the period is too long");
    assert!(!report.is_repairable());
}

/// Time after which DynamoDB may remove an item, in Unix seconds. `None` if it never does.
fn expires_at(item: &Item) -> Option<i64> {
    let AttributeValue::N(at) = item.get("expires_at")? else { panic!("{:?} is no number", item["expires_at"]) };
    Some(at.parse().unwrap())
}

/// Vonage echoes none of Switchhook's ids, so the alias alone leads from its webhooks to their call.
#[tokio::test(start_paused = true)]
async fn alias_is_kept_until_the_last_event_that_needs_it_has_expired() {
    let world = World::with_secret(&all_accounts());
    let mut request = call_request("confirms");
    request["provider"] = json!("vonage");
    create(&world, &request).await;
    world.wait(MINUTE * 30).await;
    let is_webhook = |item: &Item| matches!(&item["event_id"], AttributeValue::S(id) if id.starts_with("vonage:"));
    let webhooks = world.items(INBOX_TABLE).await.into_iter().filter(is_webhook);
    let last = webhooks.filter_map(|item| expires_at(&item)).max().unwrap();
    // The last webhook is still in the inbox, and DynamoDB has removed everything that expires before it.
    for item in world.items(CALLS_TABLE).await {
        if expires_at(&item).is_some_and(|at| at < last)
            && let AttributeValue::S(key) = &item["call_id"]
        {
            world.delete_item(CALLS_TABLE, key).await;
        }
    }
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, found(&report).as_str()), (1, ""));
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_is_named_and_the_others_are_verified() {
    let world = World::new();
    finished_call(&world, "c1").await;
    finished_call(&world, "c2").await;
    world.alter_text("c1", "job", "NONSENSE").await;
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, report.findings.len()), (1, 1));
    assert!(found(&report).starts_with("c1: could not read"), "{}", found(&report));
}

/// A newer version of Switchhook stored the event, and was rolled back.
async fn store_as_newer_version(world: &World, key: &str, item: &str) {
    let mut newer = world.item(INBOX_TABLE, item).await;
    newer.insert("event_id".to_owned(), AttributeValue::S(key.to_owned()));
    newer.insert("schema_version".to_owned(), AttributeValue::N("99".to_owned()));
    world.put_item(INBOX_TABLE, newer).await;
}

#[tokio::test(start_paused = true)]
async fn call_whose_event_cannot_be_read_is_named_and_the_others_are_verified() {
    let world = World::new();
    for id in ["c1", "c2", "c3"] {
        finished_call(&world, id).await;
    }
    world.wait(MINUTE * 3).await;
    store_as_newer_version(&world, "generic:c1-ENDED", "generic:c1-ENDED").await;
    world.delete_item(CALLS_TABLE, "c1").await;
    store_as_newer_version(&world, "switchhook:c2/created", "generic:c2-ENDED").await;
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!((report.matching, report.findings.len()), (1, 2));
    let named = found(&report);
    let (first, second) = named.split_once('\n').unwrap();
    for (line, id) in [(first, "c1"), (second, "c2")] {
        assert!(line.starts_with(&format!("{id}: ")) && line.contains("newer than this program"), "{named}");
    }
    assert!(!report.is_repairable());
}

#[tokio::test(start_paused = true)]
async fn repair_leaves_a_call_alone_whose_creation_cannot_be_read() {
    let world = World::new();
    finished_call(&world, "c1").await;
    let placed = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 30).await;
    world.delete_item(CALLS_TABLE, "c1").await;
    world.delete_item(CALLS_TABLE, &placed).await;
    let report = verified(&world, &VerifyFilter::Since).await;
    assert_eq!(report.findings.len(), 2, "{report:?}");
    let creation = format!("switchhook:{placed}/created");
    store_as_newer_version(&world, &creation, &creation).await;
    let stack = stack(&world);
    let plan = plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
    assert_eq!(plan.items.len(), 4, "{plan:?}");
    assert!(plan.items.iter().all(|item| item.call_id == Some(CallId::new("c1"))), "{plan:?}");
    assert!(plan.skipped_count > 0 && plan.skipped[0].reason.contains("newer than this program"), "{plan:?}");
    assert_eq!(carry_out(&stack, &plan).await.result(), "4 done, 0 unchanged, 0 skipped");
}

#[tokio::test(start_paused = true)]
async fn event_on_its_way_is_no_difference() {
    let mut world = World::new();
    finished_call(&world, "c1").await;
    world.stop();
    world.accept(Provider::Generic, &generic("c1", "late", "RINGING", 2)).await;
    assert_eq!(found(&verified(&world, &calls(&["c1"])).await), "");
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&world, &calls(&["c1"])).await), "c1 differs: missing_event");
}

/// The retention was three days when the events were stored, and is thirty now.
#[tokio::test(start_paused = true)]
async fn events_that_a_shorter_retention_has_deleted_are_no_difference() {
    let mut world = World::new();
    finished_call(&world, "c1").await;
    world.stop();
    let delete = async |type_: &str| world.delete_item(INBOX_TABLE, &format!("generic:c1-{type_}")).await;
    delete("ENDED").await;
    assert!(found(&verified(&world, &calls(&["c1"])).await).contains("unknown_event"), "it cannot be deleted yet");
    world.wait(HOUR * 24 * 3).await;
    for type_ in ["RINGING", "ANSWERED", "USER_CONFIRMED"] {
        delete(type_).await;
    }
    let report = verified(&world, &calls(&["c1"])).await;
    assert_eq!((report.matching, found(&report).as_str()), (1, ""));
}
