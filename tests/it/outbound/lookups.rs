//! Lookups at the provider, for facts that no webhook brought: dials in doubt, missing endings, drift.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use switchhook_aws::calls::AliasOutcome;
use switchhook_domain::{AttemptRecord, CallId, EventKind, Job, Provider, Timestamp};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_local::{Cloud, CloudOptions, EVENTS_QUEUE};
use switchhook_reconciler::limits;
use switchhook_tests::{INACTIVITY_TIMEOUT, INBOX_RETENTION, MINUTE, World, all_providers, down, options};
use tokio::task::JoinError;

use super::{HOUR, all_accounts, call_request, call_state, create, get_call};
use crate::attention::folded::fold_own;
use crate::reconciled::{consume_all, place_outside, started};

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
    let requests = fake.requests() - before;
    assert!(requests < 10 * 40, "{requests} requests in an hour for 40 calls");
    fake.set_down(false);
    fake.set_delivery_faults(DeliveryFaults::USUAL);
    let all_are_completed = async || {
        for call_id in &calls {
            if world.call(call_id).await.job != Job::Completed {
                return false;
            }
        }
        true
    };
    world.wait_until(HOUR * 8, all_are_completed).await;
    for call_id in &calls {
        let call = get_call(&world, call_id).await;
        assert_eq!(
            json!([call["job"]["state"], call["appointment_status"]]),
            json!(["COMPLETED", "Confirmed"]),
            "{call_id}"
        );
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
    // This is long before the inactivity timeout ends.
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// A stack with a call that was dialled a minute ago, and whose webhooks are all lost. The third value is the number of requests that the
/// provider has had.
async fn dialled_without_webhooks() -> (World, String, u64) {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    let dialled = world.cloud.fake().requests();
    (world, call_id, dialled)
}

/// The webhooks of the provider do not arrive. Its calls are settled long before their inactivity timeout, and operators learn of it.
#[tokio::test(start_paused = true)]
async fn accepted_dial_without_a_report_is_looked_up_after_five_minutes() {
    let (world, call_id, dialled) = dialled_without_webhooks().await;
    let fake = world.cloud.fake();
    let call = world.call(&call_id).await;
    assert_eq!((call.in_doubt().len(), call.unreported_dials().len(), fake.dials().len()), (0, 1, 1));
    world.wait(MINUTE * 3).await;
    assert_eq!(fake.requests(), dialled, "the provider may report it yet");
    world.wait(MINUTE * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(fake.requests(), dialled + 1);
    assert_eq!(world.call(&call_id).await.unreported_dials(), Vec::<&AttemptRecord>::new());
    let lines = world.logged("unreported_ending_found");
    let named: Vec<_> =
        lines.iter().map(|line| (&line["call_id"], &line["provider"], &line["stuck_dialing"])).collect();
    assert_eq!(named, [(&json!(call_id), &json!("retell"), &json!(1))]);
}

/// One report shows that the webhooks arrive. So the inactivity timeout decides.
#[tokio::test(start_paused = true)]
async fn accepted_dial_with_a_report_is_not_looked_up_early() {
    let (world, call_id, dialled) = dialled_without_webhooks().await;
    let fake = world.cloud.fake();
    let provider_call_id = fake.dials()[0].provider_call_id.clone();
    let started = json!({"event": "call_started", "call": {
        "call_id": provider_call_id, "call_status": "ongoing", "call_type": "phone_call", "direction": "outbound",
        "metadata": {"switchhook_call_id": call_id, "switchhook_attempt": "1"},
    }});
    world.accept(Provider::Retell, &started.to_string()).await;
    world.wait(MINUTE * 12).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job IN_PROGRESS, appointment Connected, attempts [in_progress]");
    assert_eq!(fake.requests(), dialled);
}

/// A provider may send no webhook about a call that it accepted and cannot start.
#[tokio::test(start_paused = true)]
async fn accepted_dial_that_the_provider_cannot_start_is_made_again_within_minutes() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    fake.set_mode(Mode::OverCapacity);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job IN_PROGRESS, appointment Dialing, attempts [initiated]");
    fake.set_mode(Mode::Normal);
    fake.set_delivery_faults(DeliveryFaults::NONE);
    world.wait(MINUTE * 9).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!((fake.dials().len(), fake.duplicate_dials()), (1, 0));
}

/// An accepted dial that the provider does not know yet may be registered later.
#[tokio::test(start_paused = true)]
async fn accepted_dial_that_the_provider_does_not_know_is_looked_up_again_after_twice_the_time() {
    let world = World::new();
    let fake = world.cloud.fake();
    let call_id = create(&world, &call_request("forgotten")).await;
    world.wait(MINUTE).await;
    let dialled = fake.requests();
    let mut lookups = Vec::new();
    for _ in 0..4 {
        world.wait(MINUTE * 3).await;
        lookups.push(fake.requests() - dialled);
    }
    assert_eq!(lookups, [0, 1, 1, 2], "after 4, 7, 10 and 13 minutes");
    assert_snapshot!(call_state(&world, &call_id).await, @"job IN_PROGRESS, appointment Dialing, attempts [initiated]");
    world.wait(INACTIVITY_TIMEOUT).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job FAILED, appointment Inconclusive, attempts [inconclusive]");
    assert_eq!(fake.dials().len(), 1);
}

/// A later timeout passes than the one that began with the dial. The call must not wake each minute between them.
#[tokio::test(start_paused = true)]
async fn accepted_dial_whose_timeout_began_anew_is_not_looked_up_each_minute() {
    let world = World::stopped();
    let fake = world.cloud.fake();
    let call_id = create(&world, &call_request("forgotten")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 14).await;
    let call = world.call(&call_id).await;
    fold_own(&world, &call.alive_event(&call.attempts()[0], world.now())).await;
    let asked = fake.requests();
    let mut woken = 0;
    for _ in 0..8 {
        world.wait(MINUTE).await;
        woken += world.reconciler.run("test").await.unwrap().woken;
    }
    assert_eq!((woken, fake.requests() - asked), (1, 0), "it was found alive just now");
    let call = world.call(&call_id).await;
    let (dialled_at, alive_at) = (call.attempt_records[0].dialled_at.unwrap(), call.attempts()[0].last_event_at);
    let after = Duration::from_millis(alive_at.millis_since(dialled_at).unsigned_abs());
    assert_eq!(call.wake_at, Some(alive_at.plus(after)), "after twice the time");
}

/// Dials in doubt, attempts without an ending and awaited outcomes get their requests first. No call waits for such a lookup.
#[tokio::test(start_paused = true)]
async fn accepted_dial_without_a_report_is_looked_up_later_if_no_request_is_left() {
    let (world, call_id, dialled) = dialled_without_webhooks().await;
    let fake = world.cloud.fake();
    // A worker takes twenty requests at once.
    let left_to_others = limits::Urgency::Unreported.ceiling() - 19;
    assert!(limits::Urgency::Outcome.ceiling() > left_to_others + 20);
    for _ in 0..5 {
        let taken = world.inbox.take_lookups(Provider::Retell, world.now(), left_to_others, u32::MAX).await.unwrap();
        assert!(taken, "the other work of this minute takes these requests");
        world.wait(MINUTE).await;
    }
    assert_eq!(fake.requests(), dialled);
    assert_eq!(world.logged("reconciled").iter().filter_map(|run| run["budget_used_up"].as_u64()).sum::<u64>(), 0);
    let wake_at = world.call(&call_id).await.wake_at.unwrap();
    assert!(wake_at.millis_since(world.now()) > 60_000, "it does not stay due");
    world.wait(MINUTE * 6).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

/// An event that names no attempt begins the inactivity timeout anew, and leaves the dial in doubt. No search proves that Vonage was not asked.
#[tokio::test(start_paused = true)]
async fn dial_in_doubt_whose_timeout_began_anew_is_not_looked_up_each_minute() {
    let mut world = World::with_options(options(&all_accounts()));
    world.start();
    let fake = world.cloud.fake();
    fake.set_mode_of(Provider::Vonage, Mode::Unresponsive);
    let mut request = call_request("confirms");
    request["provider"] = json!("vonage");
    let call_id = create(&world, &request).await;
    world.wait(MINUTE).await;
    fake.set_mode_of(Provider::Vonage, Mode::Normal);
    world.wait(INACTIVITY_TIMEOUT * 2 / 3).await;
    let ringing = json!({"event_type": "RINGING", "event_id": "r1", "call_id": call_id});
    world.accept(Provider::Generic, &ringing.to_string()).await;
    world.wait(INACTIVITY_TIMEOUT / 3 + MINUTE).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1), "{call:?}");
    let asked = fake.requests();
    let mut overdue = 0;
    for _ in 0..6 {
        world.wait(MINUTE).await;
        overdue += u64::from(world.call(&call_id).await.wake_at.is_some_and(|at| at.plus(MINUTE) < world.now()));
    }
    assert_eq!(overdue, 0);
    assert!(fake.requests() - asked <= 2, "{} requests", fake.requests() - asked);
}

/// The team's own agent reports the call under an id of its own. The provider does not know that id.
#[tokio::test(start_paused = true)]
async fn dial_in_doubt_is_not_looked_up_under_the_id_of_another_sender() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("response_lost")).await;
    world.wait(MINUTE * 2).await;
    let started = json!({
        "event_type": "CALL_STARTED", "call_id": call_id, "call": {"sid": "room-77"}, "meta": {"switchhook_attempt": "1"},
    });
    world.accept(Provider::Generic, &started.to_string()).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 4).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    let id = fake.dials()[0].provider_call_id.clone();
    assert_eq!(world.call(&call_id).await.attempt_records[0].provider_call_id, Some(id));
}

/// The team called the person itself an hour ago, and numbers its calls. A late report about its first call does not end Switchhook's first dial.
#[tokio::test(start_paused = true)]
async fn numbered_report_about_an_earlier_call_makes_the_phone_ring_no_second_time() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    assert_eq!(fake.dials().len(), 1);
    let an_hour_ago = Timestamp::from_millis(world.now().as_millis() - 3_600_000).to_string();
    let missed = json!({
        "event_id": "missed", "type": "NO_ANSWER", "call_id": call_id, "occurred_at": an_hour_ago, "meta": {"attempt": 1},
    });
    world.accept(Provider::Generic, &missed.to_string()).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 4).await;
    assert_eq!(fake.dials().len(), 1);
    let state = call_state(&world, &call_id).await;
    assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [no_answer, completed]");
}

/// Creates a call whose dial gets no answer and is not carried out. After nine minutes it is still in doubt.
async fn create_call_whose_dial_never_arrives(world: &World) -> String {
    let fake = world.cloud.fake();
    fake.set_mode(Mode::Unresponsive);
    let call_id = create(world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    fake.set_mode(Mode::Normal);
    world.wait(MINUTE * 8).await;
    let call = world.load(&call_id).await.unwrap();
    assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1), "the provider may still register it");
    call_id
}

#[tokio::test(start_paused = true)]
async fn dial_that_never_reached_a_healthy_provider_is_made_again_after_ten_minutes() {
    let world = World::new();
    let call_id = create_call_whose_dial_never_arrives(&world).await;
    // The inactivity timeout of this stack is longer: 15 minutes.
    world.wait(MINUTE * 4).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    let fake = world.cloud.fake();
    assert_eq!((fake.dials().len(), fake.duplicate_dials()), (1, 0));
}

/// A provider needs the same time to register a call, however short the inactivity timeout is.
#[tokio::test(start_paused = true)]
async fn dial_is_looked_up_for_ten_minutes_with_a_shorter_inactivity_timeout() {
    let mut world = World::with_options(CloudOptions { inactivity_timeout: MINUTE * 2, ..options(&all_providers()) });
    world.start();
    let call_id = create_call_whose_dial_never_arrives(&world).await;
    world.wait(MINUTE * 4).await;
    let fake = world.cloud.fake();
    let call = world.load(&call_id).await.unwrap();
    assert_eq!((call.attempt_records.len(), call.attempts().len()), (2, 1));
    assert_eq!((fake.dials().len(), fake.duplicate_dials()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn event_that_knows_only_the_providers_id_finds_its_call_whenever_it_comes() {
    let world = World::stopped();
    let call_id = create(&world, &call_request("confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    let accepted = world.receive();
    world.consume(&accepted).await;
    let provider_call_id = world.call(&call_id).await.attempt_records[0].provider_call_id.clone().unwrap();
    let body = json!({"event": "call_ended", "call": {
        "call_id": provider_call_id, "call_status": "not_connected", "disconnection_reason": "dial_busy",
    }});
    world.accept(switchhook_domain::Provider::Retell, &body.to_string()).await;
    let ended = world.receive();
    world.consume(&ended).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job PENDING, appointment Retrying, attempts [busy]");
}

#[tokio::test(start_paused = true)]
async fn events_that_came_before_their_alias_are_adopted() {
    let world = World::new();
    // The provider's first event has none of our ids, and arrives before the response to the dial.
    let body = json!({"event": "call_started", "call": {
        "call_id": "p1", "call_status": "ongoing", "start_timestamp": 1_767_225_600_000_i64,
    }});
    world.accept(switchhook_domain::Provider::Retell, &body.to_string()).await;
    world.quiesce().await;
    let call_id = create(&world, &call_request("forgotten")).await;
    world.wait(MINUTE).await;
    let alias = switchhook_aws::calls::Alias {
        call_id: CallId::new(&call_id),
        attempt: switchhook_domain::AttemptKey::new("1"),
    };
    // A function writes the alias and crashes before it queues the orphaned events. The reconciler finishes its work, although
    // the sweep has passed the minute of the event.
    world.wait(MINUTE * 4).await;
    let outcome =
        world.calls.write_alias(&CallId::new("retell:p1"), &alias, INBOX_RETENTION, world.now()).await.unwrap();
    assert!(matches!(outcome, AliasOutcome::Leads { orphaned_events } if orphaned_events.len() == 1));
    // At first, the reconciler cannot queue them either.
    world.inject_fault("SendMessage", EVENTS_QUEUE, u64::MAX, down());
    world.wait(MINUTE * 3).await;
    world.clear_faults();
    world.wait(MINUTE * 5).await;
    let item = world.item(switchhook_local::CALLS_TABLE, "retell:p1").await;
    assert!(!item.contains_key("wake_at"), "the adoption is finished");
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
    // Somebody removes the call's ending from its history, and changes its job.
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
    let mut world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("declines")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 13).await;
    assert_eq!(get_call(&world, &call_id).await["job"]["state"], "IN_PROGRESS", "nobody has asked about it");
    world.cloud.check_drift().await.unwrap().unwrap();
    world.start();
    world.quiesce().await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Declined, attempts [completed]");
    // The runbook says that the report of the provider is published as usual, and not as a repair of the row.
    let published = world.published_types(&call_id);
    assert!(published.contains(&"call.completed".to_owned()), "{published:?}");
    assert!(!published.contains(&"call.drift_repaired".to_owned()), "{published:?}");
}

/// A call of another system. With this inactivity timeout, it wakes up days later.
#[tokio::test(start_paused = true)]
async fn drift_run_finds_a_lost_ending_days_before_the_inactivity_timeout() {
    let world = World::with_options(CloudOptions { inactivity_timeout: HOUR * 72, ..options(&all_providers()) });
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let id = place_outside(&world, "confirms");
    world.accept(Provider::Retell, &started(&id, &json!(null), world.now())).await;
    consume_all(&world).await;
    world.wait(MINUTE * 20).await;
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().drifted, 1);
    consume_all(&world).await;
    let state = call_state(&world, &format!("retell:{id}")).await;
    assert_snapshot!(state, @"job COMPLETED, appointment Confirmed, attempts [completed]");
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
    let reconcile = async |cloud: &Cloud| cloud.reconcile().await.map(|run| run.is_ok());
    check_crash_at_each_request(INACTIVITY_TIMEOUT + MINUTE, reconcile).await;
}

#[tokio::test(start_paused = true)]
async fn drift_run_that_dies_anywhere_leaves_nothing_that_two_others_do_not_finish() {
    let check_drift = async |cloud: &Cloud| cloud.check_drift().await.map(|run| run.is_ok());
    check_crash_at_each_request(MINUTE * 13, check_drift).await;
}

/// Dials a call, waits for `after`, and crashes `run` at its first request. Two more runs at once must finish the work.
/// Repeats this with a crash at the second request, the third, and so on, until a run ends before it crashes.
///
/// `run` returns an error if it crashed, and otherwise true if it succeeded.
async fn check_crash_at_each_request(after: Duration, run: impl AsyncFn(&Cloud) -> Result<bool, JoinError>) {
    let mut requests = 0;
    loop {
        let index_shards = "1".parse().unwrap();
        let world = World::with_options(CloudOptions { index_shards, ..options(&all_providers()) });
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        let call_id = create(&world, &call_request("declines")).await;
        world.cloud.schedule().await.unwrap().unwrap();
        world.cloud.dialer().handle(world.take_claims()).await;
        let accepted = world.receive();
        world.consume(&accepted).await;
        world.wait(after).await;

        let left = std::sync::atomic::AtomicU64::new(requests);
        world.set_fault_hook(move |_| {
            let more = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(more.is_ok(), "the function crashes here, as the test demands");
            None
        });
        let has_crashed = run(&world.cloud).await.is_err();
        world.clear_faults();
        let (one, two) = tokio::join!(run(&world.cloud), run(&world.cloud));
        assert!(one.is_ok_and(|succeeded| succeeded) && two.is_ok_and(|succeeded| succeeded));
        let received = world.receive();
        world.consume(&received).await;
        let ending = "job COMPLETED, appointment Declined, attempts [completed]";
        assert_eq!(call_state(&world, &call_id).await, ending, "crash after {requests} requests");
        if !has_crashed {
            break;
        }
        requests += 1;
    }
    assert!(requests > 5, "a run sends only {requests} requests");
}
