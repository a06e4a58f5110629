//! Each attempt is claimed once and dialled once, however many schedulers, dialers and triggers there are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_aws::calls::{Found, StoreOutcome};
use switchhook_domain::{CallId, Job, PROVIDER_HEALTH_PREFIX, Plan, Provider, StopReason};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::fake::{CrashPoint, DeliveryFaults, Mode};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_scheduler::ClaimOutcome;
use switchhook_tests::{MINUTE, World, down, is_request_to};

use super::provider_health::{plan, policy, schedule, schedule_plan};
use super::providers::all_accounts;
use super::{call_request, call_state, create, send, wait_for_the_end};

#[tokio::test(start_paused = true)]
async fn schedulers_dialers_and_triggers_at_once_make_one_claim_and_one_dial() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    for round in 0..250 {
        let call_id = CallId::new(create(&world, &call_request("confirms")).await);
        let (first, second) = (world.cloud.scheduler(), world.cloud.scheduler());
        let trigger = world.cloud.scheduler();
        let (one, two, three) = tokio::join!(first.run("one"), second.run("two"), trigger.trigger(&call_id, "by hand"));
        let claimed =
            one.unwrap().claimed + two.unwrap().claimed + u64::from(matches!(three.unwrap(), ClaimOutcome::Claimed));
        assert_eq!(claimed, 1, "round {round}");
        // Two dialers get the message, and each gets it a second time.
        let batch = world.take_claims();
        let (one, two) = (world.cloud.dialer(), world.cloud.dialer());
        tokio::join!(one.handle(batch.clone()), two.handle(batch.clone()));
        tokio::join!(one.handle(batch.clone()), two.handle(batch));
        assert_eq!(world.cloud.fake().dials().len(), round + 1, "round {round}");
    }
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn dialer_killed_between_its_write_and_the_answer_does_not_ring_twice() {
    let mut endings = Vec::new();
    for (crash_point, dials) in [(CrashPoint::BeforeRequest, 0), (CrashPoint::BeforeResponse, 1)] {
        let mut world = World::stopped();
        let call_id = create(&world, &call_request("confirms")).await;
        world.cloud.schedule().await.unwrap().unwrap();
        let batch = world.take_claims();
        world.cloud.fake().crash_next(crash_point);
        let (dialer, first) = (world.cloud.dialer(), batch.clone());
        assert!(tokio::spawn(async move { dialer.handle(first).await }).await.is_err(), "{crash_point:?}");
        let call = world.load(&call_id).await.unwrap();
        assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1), "{crash_point:?}");
        // The message is delivered twice more.
        world.cloud.dialer().handle(batch.clone()).await;
        world.cloud.dialer().handle(batch).await;
        assert_eq!(world.cloud.fake().dials().len(), dials, "{crash_point:?}");
        // The reconciler looks the dial up at the provider, and the call goes on.
        world.start();
        wait_for_the_end(&world, &call_id).await;
        endings.push(format!("{crash_point:?}: {}", call_state(&world, &call_id).await));
        assert_eq!(world.cloud.fake().duplicate_dials(), 0, "{crash_point:?}");
    }
    assert_snapshot!(endings.join("\n"), @r"
    BeforeRequest: job COMPLETED, appointment Confirmed, attempts [completed]
    BeforeResponse: job COMPLETED, appointment Confirmed, attempts [completed]
    ");
}

/// The row of the health cannot be read, and the dialer is stopped while it tries to.
#[tokio::test(start_paused = true)]
async fn answer_of_the_provider_is_recorded_before_its_health() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("confirms")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let batch = world.take_claims();
    let reads = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        let is_read = request.sender == Some("dialer") && request.operation == "GetItem";
        let is_of_health = is_read && String::from_utf8_lossy(request.body).contains(PROVIDER_HEALTH_PREFIX);
        // The first read is before the dial.
        (is_of_health && reads.fetch_add(1, Ordering::Relaxed) > 0).then_some(Fault::Timeout)
    });
    let dialer = world.cloud.dialer();
    let handled = tokio::time::timeout(Duration::from_secs(2), dialer.handle(batch)).await;
    assert!(handled.is_err(), "the dialer waits for the row");
    world.clear_faults();
    world.consume(&world.receive()).await;
    let call = world.call(&call_id).await;
    assert!(call.attempt_records[0].provider_call_id.is_some() && call.in_doubt().is_empty(), "{call:#?}");
}

#[tokio::test(start_paused = true)]
async fn scheduler_killed_between_claim_and_message_loses_nothing_but_the_lease() {
    let world = World::new();
    world.inject_fault("SendMessage", switchhook_local::DIAL_QUEUE, 100, Fault::NotSent);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CLAIMED, appointment Pending, attempts []");
    world.clear_faults();
    world.wait(MINUTE * 15).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn more_due_calls_than_a_run_may_book_are_each_dialled_once() {
    // A run books two minutes, which are 840 calls.
    let world = World::with_dial_rate("7");
    // The test counts dials only, so no webhook is delivered.
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut request = call_request("busy");
    request["retry"] = json!({"attempts_max": 1});
    for _ in 0..1_000 {
        create(&world, &request).await;
    }
    world.wait(MINUTE * 3).await;
    assert_eq!(world.cloud.fake().dials().len(), 1_000);
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn claim_whose_write_was_done_and_answered_late_is_handed_on() {
    let world = World::stopped();
    let call_id = CallId::new(create(&world, &call_request("confirms")).await);
    world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
    assert!(matches!(world.cloud.scheduler().trigger(&call_id, "by hand").await, Ok(ClaimOutcome::Claimed)));
    world.clear_faults();
    world.cloud.dialer().handle(world.take_claims()).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// Counts the writes of this call's row by dialers, from 1. `None` for any other request.
fn number_of_write(writes: &AtomicU64, request: &RequestInfo<'_>, call_id: &str) -> Option<u64> {
    let is_row = String::from_utf8_lossy(request.body).contains(&format!("\"call_id\":{{\"S\":\"{call_id}\"}}"));
    let is_write = request.operation == "PutItem" && is_request_to(request, CALLS_TABLE) && is_row;
    (is_write && request.sender == Some("dialer")).then(|| writes.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The first provider refuses the dial. The response to the withdrawal is late, and meanwhile the second provider is asked.
#[tokio::test(start_paused = true)]
async fn dialer_withdraws_no_dial_of_another_dialer() {
    let mut secret = all_accounts();
    secret.as_object_mut().unwrap().retain(|provider, _| ["retell", "vapi"].contains(&provider.as_str()));
    let mut world = World::with_secret(&secret);
    world.stop();
    world.cloud.fake().set_mode_of(Provider::Retell, Mode::OutOfCredit);
    schedule(&world, "both", &[Provider::Retell, Provider::Vapi], Duration::ZERO).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let refused = world.take_claims();
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |request| match number_of_write(&writes, request, "both") {
        Some(2) => Some(Fault::ResponseDelay(Duration::from_secs(5))),
        _ => None,
    });
    let (one, two) = (world.cloud.dialer(), world.cloud.dialer());
    let second = async {
        world.wait(Duration::from_millis(500)).await;
        assert_eq!(world.call("both").await.job.as_str(), "PENDING");
        world.cloud.schedule().await.unwrap().unwrap();
        two.handle(world.take_claims()).await;
    };
    tokio::join!(one.handle(refused), second);
    let call = world.call("both").await;
    let dials: Vec<_> = call.attempt_records.iter().map(|record| record.provider).collect();
    assert_eq!((call.job.as_str(), dials), ("IN_PROGRESS", vec![Some(Provider::Vapi)]));
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// The inbox refuses to record a dial, because the booking was called off. Before the dialer has taken the dial back, the booking is
/// again as it was.
#[tokio::test(start_paused = true)]
async fn call_that_is_resumed_while_its_dial_is_refused_is_placed_later() {
    let mut world = World::new();
    world.stop();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, "booked", &[Provider::Retell], Duration::ZERO).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    let writes = AtomicU64::new(0);
    let late = Some(Fault::Delay(Duration::from_millis(400)));
    world.set_fault_hook(move |request| {
        let is_record = request.sender == Some("dialer")
            && request.operation == "UpdateItem"
            && is_request_to(request, INBOX_TABLE);
        let is_recall = number_of_write(&writes, request, "booked") == Some(2);
        (is_record || is_recall).then(|| late.clone()).flatten()
    });
    let dialer = world.cloud.dialer();
    let call_id = CallId::new("booked");
    let changes = async {
        world.wait(Duration::from_millis(200)).await;
        let call = world.call("booked").await;
        assert_eq!(call.job.as_str(), "IN_PROGRESS");
        assert_eq!(
            world.calls.store(&call.call_off(&policy(), world.now()).unwrap()).await.unwrap(),
            StoreOutcome::Committed
        );
        let (reason, now) = (StopReason::BookingChanged, world.now());
        world.inbox.record_cancellation(&call_id, reason, None, now).await.unwrap();
        world.wait(Duration::from_millis(400)).await;
        world.inbox.lift_cancellation(&call_id).await.unwrap();
        let resumed = world.call("booked").await.resume(None, &policy(), world.now()).unwrap();
        assert_eq!(world.calls.store(&resumed).await.unwrap(), StoreOutcome::Committed);
    };
    tokio::join!(dialer.handle(claims), changes);
    world.clear_faults();
    let call = world.call("booked").await;
    assert_eq!((call.job.as_str(), call.stop_reason, call.attempt_records.len()), ("PENDING", None, 0));
    assert_eq!(world.cloud.fake().dials(), []);
    world.start();
    world.wait(MINUTE * 10).await;
    assert_snapshot!(call_state(&world, "booked").await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

/// The user cancels the call after the dialer has stored the dial in the row, and before it records the dial in the inbox.
#[tokio::test(start_paused = true)]
async fn call_that_is_canceled_before_its_dial_is_recorded_is_not_dialled() {
    let world = World::stopped();
    schedule(&world, "canceled", &[Provider::Retell], Duration::ZERO).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    world.set_fault_hook(|request| {
        let is_record = request.sender == Some("dialer")
            && request.operation == "UpdateItem"
            && is_request_to(request, INBOX_TABLE);
        is_record.then_some(Fault::Delay(Duration::from_millis(400)))
    });
    let dialer = world.cloud.dialer();
    let cancellation = async {
        world.wait(Duration::from_millis(200)).await;
        let (code, answer) = send(&world, "POST", "/call/cancel?id=canceled", None, &Value::Null).await;
        let job = json!({"state": "IN_PROGRESS", "stop_reason": "canceled_by_user"});
        assert_eq!((code, &answer["job"]), (StatusCode::ACCEPTED, &job));
    };
    tokio::join!(dialer.handle(claims), cancellation);
    world.clear_faults();
    let call = world.call("canceled").await;
    let stopped = (call.job.as_str(), call.stop_reason, call.attempt_records.len());
    assert_eq!(stopped, ("CANCELED", Some(StopReason::CanceledByUser), 0));
    assert_eq!(world.cloud.fake().dials(), []);
}

/// No search proves that Vonage dialled nobody. So a dial that looked made would end as `inconclusive`, and the call would fail.
#[tokio::test(start_paused = true)]
async fn call_whose_dial_was_recorded_and_not_made_is_placed_soon() {
    let world = World::with_secret(&all_accounts());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    world.inject_fault("UpdateItem", INBOX_TABLE, 3, Fault::ResponseLost);
    schedule(&world, "slow", &[Provider::Vonage], Duration::ZERO).await;
    world.wait(MINUTE * 2).await;
    world.clear_faults();
    assert_eq!(world.logged("dial_failed").len(), 1);
    assert_eq!(world.logged("dialled_before").len(), 0);
    let attempts: Vec<_> = world.cloud.fake().dials().into_iter().map(|dial| dial.attempt).collect();
    assert_eq!(attempts, ["1"]);
}

/// Returns a stopped stack, and the claim of a call that Vonage is to place.
async fn claimed_for_vonage(id: &str) -> (World, SqsEvent) {
    let mut world = World::with_secret(&all_accounts());
    world.stop();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, id, &[Provider::Vonage], Duration::ZERO).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    (world, claims)
}

/// The write of the dial is done, and its answer lost: at first, and then a read fails, or at the last try. Only this dialer knows that
/// Vonage was not asked.
#[tokio::test(start_paused = true)]
async fn dial_that_was_stored_is_made_although_the_dialer_is_not_told() {
    for (failed, lost, failed_reads) in [(0, 1, 1), (4, 3, 0)] {
        let (world, claims) = claimed_for_vonage("stored").await;
        let (writes, reads) = (AtomicU64::new(0), AtomicU64::new(0));
        world.set_fault_hook(move |request| match number_of_write(&writes, request, "stored") {
            Some(write) if write <= failed => Some(down()),
            // The SDK repeats a request whose answer is lost.
            Some(write) if write <= failed + lost => Some(Fault::ResponseLost),
            Some(_) => None,
            None => {
                let is_read = request.sender == Some("dialer")
                    && request.operation == "GetItem"
                    && is_request_to(request, CALLS_TABLE)
                    && String::from_utf8_lossy(request.body).contains("\"stored\"");
                let is_written = writes.load(Ordering::Relaxed) > 0;
                (is_read && is_written && reads.fetch_add(1, Ordering::Relaxed) < failed_reads).then(down)
            }
        });
        world.cloud.dialer().handle(claims).await;
        world.clear_faults();
        assert_eq!(world.logged("dialled").len(), 1, "{failed} writes failed");
        assert_eq!(world.cloud.fake().dials().len(), 1, "{failed} writes failed");
    }
}

/// Vonage refuses the call. Only the dialer knows that, and its write of the row fails.
#[tokio::test(start_paused = true)]
async fn refused_dial_is_taken_back_although_a_write_fails() {
    for is_applied in [false, true] {
        let (world, claims) = claimed_for_vonage("refused").await;
        world.cloud.fake().set_mode_of(Provider::Vonage, Mode::Unauthorized);
        let writes = AtomicU64::new(0);
        world.set_fault_hook(move |request| {
            // The SDK repeats a request whose answer is lost.
            let last = if is_applied { 4 } else { 3 };
            let fails = number_of_write(&writes, request, "refused").is_some_and(|write| (2..=last).contains(&write));
            fails.then(|| if is_applied { Fault::ResponseLost } else { down() })
        });
        world.cloud.dialer().handle(claims).await;
        world.clear_faults();
        let call = world.call("refused").await;
        assert_eq!((call.job.as_str(), call.attempt_records.len()), ("PENDING", 0), "applied: {is_applied}");
        assert_eq!(world.logged("dial_withdrawn").len(), 1, "applied: {is_applied}");
    }
}

/// Events of Vonage carry none of our ids. Without the alias, they would make a call of their own.
#[tokio::test(start_paused = true)]
async fn alias_of_an_accepted_dial_is_written_although_a_write_fails() {
    let (mut world, claims) = claimed_for_vonage("accepted").await;
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        let is_alias = request.sender == Some("dialer")
            && request.operation == "UpdateItem"
            && is_request_to(request, CALLS_TABLE)
            && String::from_utf8_lossy(request.body).contains("vonage:");
        (is_alias && writes.fetch_add(1, Ordering::Relaxed) < 2).then(down)
    });
    world.cloud.dialer().handle(claims).await;
    world.clear_faults();
    assert_eq!(world.logged("dialled").len(), 1);
    world.start();
    world.wait(MINUTE * 10).await;
    let call = world.call("accepted").await;
    let of_vonage = CallId::new(format!("vonage:{}", call.attempt_records[0].provider_call_id.as_ref().unwrap()));
    assert!(matches!(world.calls.find(&of_vonage).await.unwrap(), Found::Alias(_)));
    assert!(call.is_settled(), "{call:#?}");
}

/// The scheduler claims the call in time, and the dialer gets the claim after the appointment has begun.
#[tokio::test(start_paused = true)]
async fn claim_that_comes_too_late_ends_the_call() {
    let world = World::stopped();
    let due = plan(&world, &[Provider::Retell], Duration::ZERO);
    schedule_plan(&world, "late", Plan { not_after: Some(world.now().plus(MINUTE)), ..due }).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    assert_eq!(claims.records.len(), 1);
    world.wait(MINUTE + Duration::from_secs(1)).await;
    world.cloud.dialer().handle(claims).await;
    let call = world.call("late").await;
    assert_eq!((call.job, call.stop_reason), (Job::Failed, Some(StopReason::TooLate)));
    assert_eq!(world.cloud.fake().dials(), []);
}

/// Vonage refuses the call. If the inbox kept the record of the dial, the next dial would be taken for a repetition, and not be made.
#[tokio::test(start_paused = true)]
async fn record_of_a_refused_dial_is_deleted_although_a_write_fails() {
    let (world, claims) = claimed_for_vonage("refused").await;
    world.cloud.fake().set_mode_of(Provider::Vonage, Mode::Unauthorized);
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        // The first one makes the record.
        (is_write_of_dials(request) && (1..=2).contains(&writes.fetch_add(1, Ordering::Relaxed))).then(down)
    });
    world.cloud.dialer().handle(claims).await;
    world.clear_faults();
    assert_eq!(world.logged("record_not_deleted").len(), 0);
    assert_eq!(world.inbox.dial_records(&CallId::new("refused")).await.unwrap().dials.len(), 0);
}

/// A dialer has 30 seconds. The wait for the place and the provider may take most of them. The record is deleted by one request at most, so that
/// the event that withdraws the dial is tried again while the same table is away. If the table stays away, the dial stays in doubt.
#[tokio::test(start_paused = true)]
async fn table_that_does_not_answer_takes_no_time_from_the_withdrawal() {
    // The SDK sends each request up to three times.
    for (unanswered, withdrawn, failed, time_max_ms) in [(5, 1, 0, 6_000), (u64::MAX, 0, 1, 13_000)] {
        let (world, claims) = claimed_for_vonage("refused").await;
        world.cloud.fake().set_mode_of(Provider::Vonage, Mode::Unauthorized);
        let (is_recorded, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        world.set_fault_hook(move |request| {
            let is_of_inbox = request.sender == Some("dialer") && is_request_to(request, INBOX_TABLE);
            let is_after_record = is_recorded.fetch_or(is_write_of_dials(request), Ordering::Relaxed);
            (is_of_inbox && is_after_record && requests.fetch_add(1, Ordering::Relaxed) < unanswered)
                .then_some(Fault::Timeout)
        });
        world.cloud.dialer().handle(claims).await;
        world.clear_faults();
        assert_eq!(world.logged("record_not_deleted").len(), 1, "{unanswered} requests");
        let lines = [world.logged("dial_withdrawn"), world.logged("dial_failed")];
        assert_eq!([lines[0].len(), lines[1].len()], [withdrawn, failed], "{unanswered} requests: {lines:?}");
        let durations = lines.iter().flatten().map(|line| line["duration_ms"].as_u64().unwrap());
        assert!(durations.max() < Some(time_max_ms), "{unanswered} requests: {lines:?}");
        world.consume(&world.receive()).await;
        let call = world.call("refused").await;
        assert_eq!((call.job.as_str() == "PENDING", call.in_doubt().len()), (withdrawn == 1, failed), "{call:#?}");
    }
}

/// Vonage is busy, and the record of the dial stays. The inbox refuses another first dial, and no search proves that Vonage dialled nobody.
#[tokio::test(start_paused = true)]
async fn call_whose_refused_dial_stays_recorded_is_placed_under_another_number() {
    let (mut world, claims) = claimed_for_vonage("refused").await;
    world.cloud.fake().set_mode_of(Provider::Vonage, Mode::RateLimited);
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        (is_write_of_dials(request) && writes.fetch_add(1, Ordering::Relaxed) > 0).then(down)
    });
    world.cloud.dialer().handle(claims).await;
    world.wait(Duration::from_secs(10)).await;
    world.clear_faults();
    world.cloud.fake().set_mode_of(Provider::Vonage, Mode::Normal);
    assert_eq!(world.logged("record_not_deleted").len(), 1);
    world.start();
    world.wait(MINUTE * 15).await;
    let attempts: Vec<_> = world.cloud.fake().dials().into_iter().map(|dial| dial.attempt).collect();
    assert_eq!(attempts, ["2"]);
    assert!(world.call("refused").await.is_settled());
    assert_eq!(world.logged("dialled_before").len(), 0);
}

fn is_write_of_dials(request: &RequestInfo<'_>) -> bool {
    request.sender == Some("dialer")
        && request.operation == "UpdateItem"
        && is_request_to(request, INBOX_TABLE)
        && String::from_utf8_lossy(request.body).contains("dials:")
}
