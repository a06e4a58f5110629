//! The calls table is restored to an earlier time, and the inbox is intact. Every way is played by which a restored row could make a
//! phone ring that had rung after the backup. The scheduler runs on, which is worse than the page allows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{CallId, EventId, Provider};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, down, generic, is_request_to};

use super::{back_up, dials, expire, found, keys, lose, repair, restore, stack, states, verified};
use crate::outbound::{HOUR, all_accounts, call_request, call_state, create, send};

/// Behaviours of persons, with the number of phones that ring.
const BEHAVIOURS: [(&str, usize); 8] = [
    ("confirms", 1),
    ("busy,confirms", 2),
    ("busy,no_answer,declines", 3),
    ("voicemail", 1),
    ("silent", 1),
    ("response_lost", 1),
    ("rate_limited", 1),
    ("no_response", 1),
];

/// A request for a call that is due some time after the start of the test.
fn due_at(behaviour: &str, time: &str) -> Value {
    let mut request = call_request(behaviour);
    request["due_at"] = json!(time);
    request
}

async fn trigger(world: &World, call_id: &str) {
    send(world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn pending_call_that_was_dialled_after_the_backup_is_not_dialled_again() {
    let world = World::new();
    let call_id = create(&world, &due_at("confirms", "2026-01-01T00:10:00Z")).await;
    let (backup, began) = (back_up(&world, CALLS_TABLE).await, world.now());
    world.wait(HOUR).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    restore(&world, &backup).await;
    // The call is due, so it is claimed within a minute. The inbox refuses the dial, and the provider is asked.
    world.wait(MINUTE * 3).await;
    assert_eq!(world.logged("dialled_before").len(), 1);
    world.wait(MINUTE * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
    let stack = stack(&world);
    repair(&stack, began).await;
    world.quiesce().await;
    assert_eq!(found(&verified(&stack, began).await), "");
}

/// The inbox has deleted the events, and the requests that created the calls. The provider has deleted one of its calls too.
#[tokio::test(start_paused = true)]
async fn calls_of_the_oldest_continuous_backup_are_not_dialled_again() {
    let mut world = World::new();
    let rang = create(&world, &due_at("confirms", "2026-01-01T00:10:00Z")).await;
    let forgotten = create(&world, &due_at("forgotten,confirms", "2026-01-01T00:10:00Z")).await;
    let canceled = create(&world, &due_at("confirms", "2026-01-01T00:30:00Z")).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, &Value::Null).await;
    world.wait(HOUR).await;
    assert_eq!((dials(&world)[&rang], dials(&world)[&forgotten]), (1, 1));
    world.stop();
    world.wait(HOUR * 24 * 35).await;
    expire(&world, INBOX_TABLE).await;
    let left = keys(&world, INBOX_TABLE).await;
    assert!(!left.iter().any(|key| key.starts_with("retell:") || key.ends_with("/created")), "{left:?}");
    restore(&world, &backup).await;
    world.start();
    world.wait(MINUTE * 10).await;
    assert_eq!(world.logged("dialled_before").len(), 2);
    assert_eq!((dials(&world)[&rang], dials(&world)[&forgotten]), (1, 1));
    assert_eq!(dials(&world).get(&canceled), None);
    assert_snapshot!(call_state(&world, &rang).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_snapshot!(call_state(&world, &canceled).await, @"job CANCELED, appointment Canceled, attempts []");
    let call = world.call(&forgotten).await;
    assert!(call.is_settled() && call.in_doubt().is_empty() && call.attempts().len() == 1, "{call:#?}");
}

/// The webhooks of the dial and its acceptance were folded into the row that was lost. The restored row lacks them.
#[tokio::test(start_paused = true)]
async fn dial_that_the_provider_has_deleted_since_is_not_made_again() {
    let world = World::new();
    let call_id = create(&world, &due_at("forgotten,confirms", "2026-01-01T00:10:00Z")).await;
    let (backup, began) = (back_up(&world, CALLS_TABLE).await, world.now());
    world.wait(MINUTE * 25).await;
    let accepted = EventId::new(format!("switchhook:{call_id}/1/dial_accepted"));
    assert!(world.call(&call_id).await.contains_event(&accepted));
    restore(&world, &backup).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(world.logged("dialled_before").len(), 1);
    world.wait(HOUR).await;
    let call = world.call(&call_id).await;
    assert!(call.contains_event(&accepted) && call.in_doubt().is_empty(), "{call:#?}");
    assert_eq!(dials(&world)[&call_id], 1);
    assert!(!found(&verified(&stack(&world), began).await).contains("missing_event"));
}

/// The provider has deleted its call, and the acceptance of the dial is damaged, or a later version stored it. So the doubt ends, and the dialer holds the
/// call until an operator has looked at the event.
#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_keeps_no_dial_in_doubt_and_nobody_is_called_again() {
    for (name, value) in
        [("schema_version", AttributeValue::N("2".to_owned())), ("body", AttributeValue::B(b"none".to_vec()))]
    {
        let world = World::new();
        let call_id = create(&world, &due_at("forgotten,confirms", "2026-01-01T00:10:00Z")).await;
        let backup = back_up(&world, CALLS_TABLE).await;
        world.wait(MINUTE * 12).await;
        let accepted = EventId::new(format!("switchhook:{call_id}/1/dial_accepted"));
        let mut damaged = world.item(INBOX_TABLE, accepted.as_str()).await;
        damaged.insert(name.to_owned(), value);
        world.put_item(INBOX_TABLE, damaged).await;
        restore(&world, &backup).await;
        world.wait(HOUR).await;
        let call = world.call(&call_id).await;
        assert!(call.in_doubt().is_empty(), "{name}: {call:#?}");
        assert_eq!(world.logged("reconcile_failed"), [] as [Value; 0], "{name}");
        let unfolded = world.inbox.unfolded_events(&[CallId::new(&call_id)].into()).await.unwrap();
        assert_eq!(unfolded.iter().map(|mark| mark.event_id.as_ref()).collect::<Vec<_>>(), [Some(&accepted)], "{name}");
        world.wait(HOUR * 8).await;
        assert_eq!(world.attention(AttentionKind::DeadLettered).await.len(), 1, "{name}");
        assert_eq!(dials(&world)[&call_id], 1, "{name}");
    }
}

/// A dialer that cannot record a dial deletes the record, because perhaps only the answer was lost.
#[tokio::test(start_paused = true)]
async fn dialer_that_cannot_record_its_dial_leaves_the_record_of_the_earlier_one() {
    let world = World::new();
    let call_id = create(&world, &due_at("confirms", "2026-01-01T00:10:00Z")).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    world.wait(HOUR).await;
    let dials_key = format!("dials:{call_id}");
    let record = world.item(INBOX_TABLE, &dials_key).await;
    restore(&world, &backup).await;
    // The record fails once, and the deletion after it is carried out.
    let is_first = AtomicBool::new(true);
    world.set_fault_hook(move |call| {
        let is_update = call.operation == "UpdateItem" && is_request_to(call, INBOX_TABLE);
        let is_of_dialer = call.sender == Some("dialer") && is_update;
        (is_of_dialer && is_first.swap(false, Ordering::Relaxed)).then(down)
    });
    world.wait(MINUTE * 3).await;
    world.clear_faults();
    assert_eq!(world.logged("dial_failed").len(), 1);
    assert_eq!(world.item(INBOX_TABLE, &dials_key).await, record);
    world.wait(MINUTE * 10).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!((dials(&world)[&call_id], world.cloud.fake().duplicate_dials()), (1, 0));
}

/// Vonage echoes none of our ids, so the inbox has its webhooks under an id of its own.
#[tokio::test(start_paused = true)]
async fn webhooks_that_lead_to_their_call_by_an_alias_are_folded_again() {
    let mut world = World::with_secret(&all_accounts());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let began = world.now();
    let mut request = call_request("confirms");
    request["provider"] = json!("vonage");
    let call_id = create(&world, &request).await;
    while world.call(&call_id).await.attempt_records.iter().all(|record| record.provider_call_id.is_none()) {
        world.wait(Duration::from_millis(200)).await;
    }
    let backup = back_up(&world, CALLS_TABLE).await;
    world.wait(MINUTE * 5).await;
    let before = world.call(&call_id).await;
    let heard = |call: &switchhook_domain::Call| {
        let ids = call.history.iter().map(|entry| entry.source_event_id.to_string());
        ids.filter(|id| id.starts_with("vonage:")).collect::<BTreeSet<String>>()
    };
    assert!(heard(&before).len() > 1, "{before:?}");
    world.stop();
    restore(&world, &backup).await;
    world.wait(MINUTE * 3).await;
    let stack = stack(&world);
    let report = found(&verified(&stack, began).await);
    assert!(report.contains("missing_event"), "{report}");
    world.start();
    repair(&stack, began).await;
    world.quiesce().await;
    assert_eq!(heard(&world.call(&call_id).await), heard(&before));
    assert_eq!(found(&verified(&stack, began).await), "");
}

#[tokio::test(start_paused = true)]
async fn claim_in_the_backup_is_not_used_again() {
    let mut world = World::stopped();
    let call_id = create(&world, &call_request("confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let backup = back_up(&world, CALLS_TABLE).await;
    let claims = world.take_claims();
    world.cloud.dialer().handle(claims.clone()).await;
    assert_eq!(dials(&world)[&call_id], 1);
    // The row shows the claim again, while its lease lasts and its message is delivered a second time.
    restore(&world, &backup).await;
    world.cloud.dialer().handle(claims).await;
    assert_eq!(world.logged("dialled_before").len(), 1);
    // And again, after which the lease ends and the call is pending.
    restore(&world, &backup).await;
    world.start();
    world.wait(HOUR).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_was_triggered_by_hand_after_the_backup_is_not_dialled_when_it_is_due() {
    let world = World::new();
    let call_id = create(&world, &due_at("declines", "2026-01-01T02:00:00Z")).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    trigger(&world, &call_id).await;
    world.wait(HOUR).await;
    restore(&world, &backup).await;
    trigger(&world, &call_id).await;
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Declined, attempts [completed]");
    assert_eq!(dials(&world)[&call_id], 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_was_canceled_after_the_backup_stays_canceled() {
    let world = World::new();
    let call_id = create(&world, &due_at("confirms", "2026-01-01T01:00:00Z")).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
    restore(&world, &backup).await;
    world.wait(MINUTE * 70).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
    assert_eq!(dials(&world).get(&call_id), None);
}

/// The row of the call is canceled, and the client repeats the request because of the error.
#[tokio::test(start_paused = true)]
async fn cancellation_whose_record_failed_is_recorded_by_its_repetition() {
    let world = World::new();
    let call_id = create(&world, &due_at("confirms", "2026-01-01T01:00:00Z")).await;
    let backup = back_up(&world, CALLS_TABLE).await;
    let cancel = async || send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await.0;
    world.inject_fault("UpdateItem", INBOX_TABLE, u64::MAX, down());
    assert_eq!(cancel().await, StatusCode::INTERNAL_SERVER_ERROR);
    world.clear_faults();
    assert_eq!(cancel().await, StatusCode::OK);
    restore(&world, &backup).await;
    world.wait(MINUTE * 70).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
    assert_eq!(dials(&world).get(&call_id), None);
}

#[tokio::test(start_paused = true)]
async fn canceled_call_is_found_before_it_is_due() {
    let world = World::new();
    let call_id = create(&world, &due_at("confirms", "2026-01-01T05:00:00Z")).await;
    let (backup, began) = (back_up(&world, CALLS_TABLE).await, world.now());
    send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
    restore(&world, &backup).await;
    world.wait(MINUTE * 3).await;
    let stack = stack(&world);
    assert_eq!(found(&verified(&stack, began).await), "differs: forgotten_cancellation");
    repair(&stack, began).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
}

#[tokio::test(start_paused = true)]
async fn backup_of_any_minute_rings_no_phone_twice() {
    // Backups of the pending, the claimed, the dialled, the retried and the settled call. All worlds are alike until the restore.
    for minutes in [0, 1, 3, 8, 20] {
        let world = World::new();
        let mut calls = Vec::new();
        for (behaviour, phones) in BEHAVIOURS {
            calls.push((behaviour, phones, create(&world, &due_at(behaviour, "2026-01-01T00:00:30Z")).await));
        }
        let began = world.now();
        world.wait(MINUTE * minutes).await;
        let backup = back_up(&world, CALLS_TABLE).await;
        world.wait(MINUTE * (80 - minutes)).await;
        let before = states(&world).await;
        for (behaviour, phones, call_id) in &calls {
            assert_eq!(dials(&world)[call_id], *phones, "{behaviour} before the disaster");
        }
        // No webhook is repeated. The provider can only be asked.
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        restore(&world, &backup).await;
        world.wait(MINUTE * 80).await;
        for (behaviour, phones, call_id) in &calls {
            assert_eq!(dials(&world)[call_id], *phones, "{behaviour}, restored to minute {minutes}");
        }
        assert_eq!(world.cloud.fake().duplicate_dials(), 0);
        let stack = stack(&world);
        repair(&stack, began).await;
        world.wait(MINUTE * 3).await;
        assert_eq!(found(&verified(&stack, began).await), "", "restored to minute {minutes}");
        assert_eq!(states(&world).await, before, "restored to minute {minutes}");
    }
}

#[tokio::test(start_paused = true)]
async fn repair_before_the_dialer_runs_brings_every_call_back_at_once() {
    for minutes in [0, 3] {
        let mut world = World::new();
        for (behaviour, _) in BEHAVIOURS {
            create(&world, &due_at(behaviour, "2026-01-01T00:00:30Z")).await;
        }
        let began = world.now();
        world.wait(MINUTE * minutes).await;
        let backup = back_up(&world, CALLS_TABLE).await;
        world.wait(MINUTE * 80).await;
        let (before, rang) = (states(&world).await, dials(&world));
        // The steps of the page: dialling is stopped, and the calls are repaired before it starts again.
        world.stop();
        restore(&world, &backup).await;
        let stack = stack(&world);
        let is_forgetful = states(&world).await != before;
        assert_eq!(found(&verified(&stack, began).await).is_empty(), !is_forgetful, "restored to minute {minutes}");
        repair(&stack, began).await;
        crate::repair::consume_all(&world).await;
        assert_eq!(states(&world).await, before, "restored to minute {minutes}");
        assert_eq!(found(&verified(&stack, began).await), "", "restored to minute {minutes}");
        world.start();
        world.wait(HOUR).await;
        assert_eq!((states(&world).await, dials(&world)), (before, rang), "restored to minute {minutes}");
    }
}

/// The provider does not have the dial of the row, because it was never sent. The earlier dial rang, and only the inbox knows it. If Vonage does
/// not have a dial, nobody knows whether it was made. The call could be tried again then.
#[tokio::test(start_paused = true)]
async fn dialer_that_dies_before_the_row_has_its_earlier_dial_back_has_nobody_called_again() {
    // The first provider of two refuses the earlier dial, and would take the one of the restored row.
    for providers in [&["twilio"][..], &["vapi"], &["vonage"], &["twilio", "vapi"]] {
        let world = World::with_secret(&all_accounts());
        let mut request = due_at("confirms", "2026-01-01T00:10:00Z");
        request.as_object_mut().unwrap().remove("provider");
        request["providers"] = json!(providers);
        request["retry"] = json!({"attempts_max": 3, "delay_seconds": 60, "delay_max_seconds": 60, "unheard": true});
        let names: Vec<Provider> = providers.iter().map(|name| name.parse().unwrap()).collect();
        let (last, refusing) = names.split_last().unwrap();
        for provider in refusing {
            world.cloud.fake().set_mode_of(*provider, Mode::RateLimited);
        }
        let call_id = create(&world, &request).await;
        let backup = back_up(&world, CALLS_TABLE).await;
        world.wait(HOUR).await;
        assert_eq!(dials(&world)[&call_id], 1, "{providers:?} before the disaster");
        for provider in refusing {
            world.cloud.fake().set_mode_of(*provider, Mode::Normal);
        }
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        restore(&world, &backup).await;
        let is_refused = AtomicBool::new(false);
        world.set_fault_hook(move |call| {
            let is_of_dialer = call.sender == Some("dialer");
            let is_record = is_of_dialer && call.operation == "UpdateItem" && is_request_to(call, INBOX_TABLE);
            is_refused.fetch_or(is_record, Ordering::Relaxed);
            let is_write = is_of_dialer && call.operation == "PutItem" && is_request_to(call, CALLS_TABLE);
            (is_write && is_refused.load(Ordering::Relaxed)).then(down)
        });
        world.wait(MINUTE * 3).await;
        world.clear_faults();
        let call = world.call(&call_id).await;
        assert_eq!((call.in_doubt().len(), world.logged("dial_failed").len()), (1, 1), "{providers:?}: {call:#?}");
        assert_eq!(call.attempt_records[0].provider, Some(names[0]), "{providers:?}");
        world.wait(HOUR).await;
        assert_eq!((dials(&world)[&call_id], world.cloud.fake().duplicate_dials()), (1, 0), "{providers:?}");
        let call = world.call(&call_id).await;
        assert!(call.is_settled() && call.attempts().len() == 1, "{providers:?}: {call:#?}");
        assert_eq!(call.attempt_records[0].provider, Some(*last), "{providers:?}");
    }
}

/// A row that the webhook made would stand in the way of the restored row. So the page has the consumer stopped.
#[tokio::test(start_paused = true)]
async fn webhook_that_arrives_before_the_copy_waits_and_is_folded_into_the_restored_row() {
    let mut world = World::new();
    world.accept(Provider::Generic, &generic("team", "t-1", "RINGING", 0)).await;
    world.quiesce().await;
    let backup = back_up(&world, CALLS_TABLE).await;
    world.stop();
    lose(&world, CALLS_TABLE).await;
    let later = world.accept(Provider::Generic, &generic("team", "t-2", "ANSWERED", 5)).await;
    restore(&world, &backup).await;
    world.start();
    world.quiesce().await;
    let call = world.call("team").await;
    assert!(call.contains_event(&EventId::new("generic:t-1")) && call.contains_event(&later), "{call:?}");
}
