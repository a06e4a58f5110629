//! Lookups at the provider, for facts that no webhook brought: dials in doubt, missing endings, drift.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::{CallId, EventKind};
use switchhook_local::Cloud;
use switchhook_local::fake::DeliveryFaults;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World};
use tokio::task::JoinError;

use super::{HOUR, call_request, call_state, create, expected_state, get_call, send};

#[tokio::test(start_paused = true)]
async fn provider_down_for_an_hour_loses_nothing_and_is_asked_seldom() {
    let world = World::new();
    let fake = world.cloud.fake();
    // Some calls are under way. All their webhooks are lost, so only lookups can settle them.
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut calls = Vec::new();
    for _ in 0..20 {
        calls.push(create(&world, &call_request("confirms")).await);
    }
    world.wait(MINUTE * 3).await;
    assert_eq!(fake.dials().len(), 20);
    fake.set_down(true);
    let before = fake.requests();
    // Other calls are due to be placed.
    for _ in 0..20 {
        calls.push(create(&world, &call_request("confirms")).await);
    }
    world.wait(HOUR).await;
    let asked = fake.requests() - before;
    assert!(asked < 10 * 40, "{asked} requests in an hour for 40 calls");
    fake.set_down(false);
    fake.set_delivery_faults(DeliveryFaults::USUAL);
    world.wait(HOUR * 8).await;
    for call_id in &calls {
        let (job, appointment, _) = call_state(&world, call_id).await;
        assert_eq!((job.as_str(), appointment.as_str()), ("COMPLETED", "Confirmed"), "{call_id}");
    }
    assert_eq!(fake.duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_answer_of_the_provider_leaves_it_in_doubt_and_is_looked_up() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("response_lost")).await;
    world.wait(MINUTE * 4).await;
    let call = world.load(&call_id).await.unwrap();
    assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1));
    world.wait(MINUTE * 10).await;
    // Long before the inactivity timeout ends.
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Confirmed", &["completed"]));
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn event_that_knows_only_the_providers_id_finds_its_call_whenever_it_comes() {
    let world = World::stopped();
    let call_id = create(&world, &call_request("confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    let provider_call_id = {
        let (_, body) = send(&world, "GET", &format!("/calls/{call_id}"), None, &Value::Null).await;
        let consumed = world.receive();
        world.consume(&consumed).await;
        drop(body);
        world.load(&call_id).await.unwrap().attempt_records[0].provider_call_id.clone().unwrap()
    };
    let body = json!({"event": "call_ended", "call": {"call_id": provider_call_id, "call_status": "not_connected", "disconnection_reason": "dial_busy"}});
    world.accept(switchhook_domain::Provider::Retell, &body.to_string()).await;
    let consumed = world.receive();
    world.consume(&consumed).await;
    let (job, _, attempts) = call_state(&world, &call_id).await;
    assert_eq!((job.as_str(), attempts), ("PENDING", vec!["busy".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn events_that_came_before_their_alias_are_adopted() {
    let world = World::new();
    // The provider's first event has none of our ids, and arrives before the response to the dial.
    let body = json!({"event": "call_started", "call": {"call_id": "p1", "call_status": "ongoing", "start_timestamp": 1_767_225_600_000_i64}});
    world.accept(switchhook_domain::Provider::Retell, &body.to_string()).await;
    world.quiesce().await;
    let call_id = create(&world, &call_request("forgotten")).await;
    world.wait(MINUTE).await;
    let alias = switchhook_aws::calls::Alias {
        call_id: CallId::new(&call_id),
        attempt: switchhook_domain::AttemptKey::new("1"),
    };
    // The function that wrote the alias dies right after. The sweep does the rest.
    let orphaned_events = world.calls.write_alias(&CallId::new("retell:p1"), &alias, world.now()).await.unwrap();
    assert_eq!(orphaned_events.len(), 1);
    world.wait(MINUTE * 5).await;
    let call = world.load(&call_id).await.unwrap();
    assert!(call.history.iter().any(|entry| entry.event.kind == EventKind::InProgress), "{:?}", call.history);
}

#[tokio::test(start_paused = true)]
async fn drift_run_repairs_a_row_that_was_altered_by_hand() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let call_id = create(&world, &call_request("declines")).await;
    world.wait(MINUTE * 20).await;
    let before = get_call(&world, &call_id).await;
    assert_eq!(before["lifecycle"], "completed");
    // Its ending is removed from the history, and its job is changed.
    world.alter_history(&call_id, |history| history.retain(|entry| !entry.contains("completed"))).await;
    world.alter_text(&call_id, "job", "FAILED").await;
    assert_ne!(get_call(&world, &call_id).await["lifecycle"], "completed");
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert!(report.drifted >= 1 && report.lookups >= 1, "{report:?}");
    world.quiesce().await;
    let after = get_call(&world, &call_id).await;
    assert_eq!(
        (&after["lifecycle"], &after["job"], &after["appointment_status"]),
        (&before["lifecycle"], &before["job"], &before["appointment_status"])
    );
    assert_eq!(world.published_types(&call_id).iter().filter(|kind| *kind == "call.drift_repaired").count(), 1);
    // A second check finds nothing.
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!(report.drifted, 0);
}

#[tokio::test(start_paused = true)]
async fn drift_run_finds_what_no_webhook_told() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("declines")).await;
    world.wait(MINUTE * 13).await;
    assert_eq!(call_state(&world, &call_id).await.0, "IN_PROGRESS");
    world.cloud.check_drift().await.unwrap().unwrap();
    world.quiesce().await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Declined", &["completed"]));
    assert!(INACTIVITY_TIMEOUT > MINUTE * 13, "or the inactivity timeout would have ended first");
}

#[tokio::test(start_paused = true)]
async fn webhook_that_comes_after_the_provider_was_asked_is_no_conflict() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("busy")).await;
    world.wait(MINUTE * 20).await;
    let provider_call_id = world.load(&call_id).await.unwrap().attempt_records[0].provider_call_id.clone().unwrap();
    // The same analysis, in a webhook with additional fields.
    let body = json!({"event": "call_analyzed", "call": {
        "call_id": provider_call_id, "call_status": "not_connected", "disconnection_reason": "dial_busy",
        "metadata": {"switchhook_call_id": call_id, "switchhook_attempt": "1"}, "transcript": "",
        "call_analysis": {
            "in_voicemail": false, "call_successful": false, "user_sentiment": "Unknown", "custom_analysis_data": {},
        },
    }});
    let (code, answer) = world.post(switchhook_domain::Provider::Retell, &body.to_string()).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("already_processed")));
    assert!(world.logged("duplicate").iter().all(|line| line.get("conflicting_body").is_none()));
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_dies_anywhere_leaves_nothing_that_two_others_do_not_finish() {
    let waking = async |cloud: &Cloud| cloud.reconcile().await.map(|run| run.is_ok());
    finishes_whoever_dies(INACTIVITY_TIMEOUT + MINUTE, waking).await;
}

#[tokio::test(start_paused = true)]
async fn drift_run_that_dies_anywhere_leaves_nothing_that_two_others_do_not_finish() {
    let drift = async |cloud: &Cloud| cloud.check_drift().await.map(|run| run.is_ok());
    finishes_whoever_dies(MINUTE * 13, drift).await;
}

/// Lets a run die at its first request, then at its second, and so on, `after` the call was dialled. After each death
/// two runs at once must finish the work.
async fn finishes_whoever_dies(after: Duration, run: impl AsyncFn(&Cloud) -> Result<bool, JoinError>) {
    let mut deaths = 0;
    loop {
        let world = World::stopped();
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        let call_id = create(&world, &call_request("declines")).await;
        world.cloud.schedule().await.unwrap().unwrap();
        world.cloud.dialer().handle(world.take_claims()).await;
        let accepted = world.receive();
        world.consume(&accepted).await;
        world.wait(after).await;

        let left = std::sync::atomic::AtomicU64::new(deaths);
        world.set_fault_hook(move |_| {
            let more = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(more.is_ok(), "the function crashes here, as the test demands");
            None
        });
        let lived = run(&world.cloud).await.is_ok();
        world.clear_faults();
        let (one, two) = tokio::join!(run(&world.cloud), run(&world.cloud));
        assert!(one.is_ok_and(|well| well) && two.is_ok_and(|well| well));
        let received = world.receive();
        world.consume(&received).await;
        let standing = call_state(&world, &call_id).await;
        assert_eq!(standing, expected_state("COMPLETED", "Declined", &["completed"]), "after {deaths} requests");
        if lived {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 5, "{deaths}");
}
