//! Webhooks that arrive after their person was forgotten. [`places`] lists every place in the stack that holds a trace of the
//! person.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde_json::json;
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{EventId, Provider};
use switchhook_local::{CALLS_TABLE, CloudOptions, INBOX_TABLE};
use switchhook_operate::forget::{self, ForgetRequest};
use switchhook_operate::verify::{VerifyFilter, verify};
use switchhook_tests::{MINUTE, World, all_providers, down, is_request_to, options};

use super::places::places;
use super::{RETELL_CALL, about, calls, finished_call, forget_calls, retell, stored};
use crate::operator::{HOUR, carry_out, stack};
use crate::outbound::{post_stored_only, report_drift};

/// A stack with the finished call `c1`, whose person was forgotten.
async fn with_forgotten_call() -> World {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.quiesce().await;
    forget_calls(&world, &["c1"]).await;
    world
}

#[tokio::test(start_paused = true)]
async fn late_webhook_is_folded_and_leaves_no_trace_of_the_person() {
    let world = World::new();
    for name in ["call_started", "call_ended"] {
        world.accept(Provider::Retell, &retell(name)).await;
    }
    world.wait(MINUTE).await;
    forget_calls(&world, &[RETELL_CALL]).await;
    assert_eq!(places(&world).await, BTreeSet::new());
    let late = world.accept(Provider::Retell, &retell("call_analyzed")).await;
    world.quiesce().await;
    assert_eq!(places(&world).await, BTreeSet::new());
    let call = world.call(RETELL_CALL).await;
    assert!(call.contains_event(&late) && call.is_settled(), "{call:?}");
    assert!(world.published_types(RETELL_CALL).contains(&"appointment.confirmed".to_owned()));
    let stack = stack(&world);
    let report = verify(&stack, &VerifyFilter::Since, stack.now().minus(HOUR), &mut |_, _| {}).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn erasure_that_failed_is_repeated_at_the_next_delivery() {
    let world = with_forgotten_call().await;
    // Erasing the event is the first update of the inbox table. The fault lasts for every try that the SDK makes of it.
    world.inject_fault("UpdateItem", INBOX_TABLE, 3, switchhook_tests::down());
    world.accept(Provider::Generic, &about("c1", "late", "VOICEMAIL_DETECTED", 50, "my hip is broken")).await;
    world.quiesce().await;
    assert!(!places(&world).await.is_empty());
    world.wait(MINUTE * 5).await;
    assert_eq!(places(&world).await, BTreeSet::new());
    assert!(stored(&world, "generic:late").await.is_erased());
}

/// The erasure fails until the event waits in the inbox. The call has the event by then, so only its erasure is missing.
#[tokio::test(start_paused = true)]
async fn event_that_waits_is_erased_although_its_call_has_it() {
    let world = with_forgotten_call().await;
    world.set_fault_hook(|call| {
        let is_of_event = String::from_utf8_lossy(call.body).contains("{\"S\":\"generic:late\"}");
        (call.operation == "UpdateItem" && is_request_to(call, INBOX_TABLE) && is_of_event).then(down)
    });
    let late = about("c1", "late", "VOICEMAIL_DETECTED", 50, "my hip is broken");
    let id = world.accept(Provider::Generic, &late).await;
    world.wait(MINUTE * 4).await;
    assert!(world.call("c1").await.contains_event(&id));
    assert!(world.inbox.get_note(&id).await.unwrap().unwrap().waits);
    assert!(!places(&world).await.is_empty());
    world.clear_faults();
    world.wait(MINUTE * 10).await;
    assert_eq!(places(&world).await, BTreeSet::new());
    assert!(stored(&world, "generic:late").await.is_erased());
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// The webhook is stored and not queued, and a refold reads it from the inbox before the sweep queues it. The sweep then skips it.
#[tokio::test(start_paused = true)]
async fn late_webhook_that_a_refold_finds_is_erased() {
    for fails in [false, true] {
        let world = with_forgotten_call().await;
        let late = about("c1", "late", "VOICEMAIL_DETECTED", 50, "my hip is broken");
        post_stored_only(&world, Provider::Generic, &late).await;
        assert_eq!(places(&world).await.len(), 1);
        if fails {
            // The refold is stored, and the erasure after it fails.
            world.inject_fault("UpdateItem", INBOX_TABLE, u64::MAX, switchhook_tests::down());
        }
        report_drift(&world, "c1", "drift").await;
        world.quiesce().await;
        assert!(world.call("c1").await.contains_event(&EventId::new("generic:late")));
        assert_eq!(places(&world).await.is_empty(), !fails);
        world.clear_faults();
        world.wait(MINUTE * 5).await;
        assert_eq!(places(&world).await, BTreeSet::new(), "fails: {fails}");
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_webhook_is_erased_by_the_sweep() {
    let world = World::new();
    for name in ["call_started", "call_ended"] {
        world.accept(Provider::Retell, &retell(name)).await;
    }
    world.wait(MINUTE).await;
    forget_calls(&world, &[RETELL_CALL]).await;
    let (code, answer) = world.post(Provider::Retell, &retell("transcript_updated")).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("recorded")));
    assert_eq!(places(&world).await.len(), 1);
    world.wait(MINUTE * 5).await;
    assert_eq!(places(&world).await, BTreeSet::new());
}

/// A webhook that was only recorded is in no row. It may arrive long before the first event of its call, and it is kept for as long as the
/// parameter said when it arrived. All minutes of the retention are read, so the index has one shard here.
#[tokio::test(start_paused = true)]
async fn recorded_webhook_is_found_whenever_it_arrived_and_after_the_retention_was_lowered() {
    let index_shards = "1".parse().unwrap();
    let mut world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
    let (_, answer) = world.post(Provider::Retell, &retell("transcript_updated")).await;
    assert_eq!(answer["status"], "recorded", "{answer}");
    world.skip(HOUR * 5).await;
    for name in ["call_started", "call_ended"] {
        world.accept(Provider::Retell, &retell(name)).await;
    }
    world.wait(MINUTE).await;
    world.skip(HOUR * 24 * 8).await;
    let mut stack = crate::repair::stack_of(&world);
    stack.names.settings.inbox_retention_days = 7;
    let request = ForgetRequest { filter: calls(&[RETELL_CALL]), since: None, also_do_not_call: false };
    let plan = forget::plan(&stack, &request, 100, &mut |_, _| {}).await.unwrap();
    carry_out(&stack, &plan).await;
    assert_eq!(places(&world).await, BTreeSet::new());

    // Without a row, nobody knows when the first webhook came. The search would take long, so it fails after its first minutes.
    world.delete_item(CALLS_TABLE, RETELL_CALL).await;
    let queries = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        let is_late = request.operation == "Query" && queries.fetch_add(1, Ordering::Relaxed) > 200;
        is_late.then(down)
    });
    let mut minutes = 0;
    forget::plan(&stack, &request, 100, &mut |_, all| minutes = all).await.unwrap_err();
    assert_eq!(minutes, 30 * 24 * 60 + 1);
}

#[tokio::test(start_paused = true)]
async fn repeated_webhook_is_a_duplicate_whatever_it_says() {
    let world = with_forgotten_call().await;
    for (second, data) in [(60, "my hip is broken"), (61, "and my hip is broken again")] {
        let body = about("c1", "c1-ENDED", "ENDED", second, data);
        let (code, answer) = world.post(Provider::Generic, &body).await;
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("already_processed")));
    }
    world.wait(MINUTE * 5).await;
    assert_eq!(places(&world).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn message_that_was_queued_when_its_call_was_forgotten_is_folded_without_its_number() {
    let mut world = World::new();
    finished_call(&world, "c1").await;
    world.quiesce().await;
    world.stop();
    world.accept(Provider::Generic, &about("c1", "queued", "VOICEMAIL_DETECTED", 50, "my hip is broken")).await;
    forget_calls(&world, &["c1"]).await;
    assert_eq!(places(&world).await.len(), 1, "the message is still in the queue");
    world.start();
    world.wait(MINUTE * 5).await;
    assert_eq!(places(&world).await, BTreeSet::new());
    assert_eq!(world.call("c1").await.to, None);
}
