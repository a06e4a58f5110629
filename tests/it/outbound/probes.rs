//! Probes of a provider that is unavailable: a call that cannot be dialled is no probe, and delays none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::{CallId, CallingWindow, Job, PROVIDER_HEALTH_PREFIX, PhoneNumber, Plan, Provider, StopReason};
use switchhook_local::connector::Fault;
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_scheduler::ClaimOutcome;
use switchhook_tests::{MINUTE, World, down};

use super::provider_health::{open, plan, policy, provider_events, schedule, schedule_plan};
use super::{HOUR, call_request, create, send};

const RETELL: [Provider; 1] = [Provider::Retell];

/// Lets three calls fail, so that the circuit of Retell opens.
async fn open_circuit(world: &World, plan: &Plan) {
    world.cloud.fake().set_mode(Mode::OutOfCredit);
    for number in 0..3 {
        schedule_plan(world, &format!("unpaid-{number}"), plan.clone()).await;
    }
    world.wait(Duration::from_secs(5)).await;
    assert_eq!(provider_events(world), ["provider.unavailable"]);
}

/// Waits until Retell needs a probe, at a time from `after` on.
async fn wait_for_probe(world: &World, after: Duration) {
    world.wait(after).await;
    while !world.calls.provider_health(Provider::Retell).await.unwrap().needs_probe(world.now()) {
        world.wait(Duration::from_secs(1)).await;
    }
}

/// Calls of bookings that are made in advance: one is due each minute, an hour before its appointment.
#[tokio::test(start_paused = true)]
async fn calls_that_are_too_late_keep_no_provider_unavailable() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    fake.set_mode(Mode::OutOfCredit);
    for minute in 1..=180 {
        let due = plan(&world, &RETELL, MINUTE * minute);
        let not_after = Some(due.due_at.plus(HOUR));
        schedule_plan(&world, &format!("booked-{minute}"), Plan { not_after, ..due }).await;
    }
    world.wait(HOUR * 2).await;
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    fake.set_mode(Mode::Normal);
    // The pause before a probe is at most 15 minutes.
    world.wait(MINUTE * 17).await;
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
    world.wait(MINUTE * 15).await;
    assert!(fake.dials().iter().any(|dial| dial.call_id == "booked-150"), "{} dials", fake.dials().len());
    // A call whose appointment had begun was ended by the scheduler, or as a probe by the dialer.
    let expired = world.call("booked-10").await;
    assert_eq!((expired.job, expired.stop_reason), (Job::Failed, Some(StopReason::TooLate)));
    let moves: Vec<_> = expired.moves.iter().map(|one| (one.kind.as_str(), one.reason.as_deref())).collect();
    assert_eq!(moves.last(), Some(&("given_up", Some("too_late"))));
    assert_eq!(fake.duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_whose_window_has_closed_delay_no_probe() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    // A world begins at midnight in London.
    let window: CallingWindow = "Europe/London 00:00-00:06".parse().unwrap();
    let within = |plan: Plan| Plan { window: Some(window.clone()), ..plan };
    open_circuit(&world, &within(plan(&world, &RETELL, Duration::ZERO))).await;
    for number in 0..10 {
        let due = within(plan(&world, &RETELL, Duration::from_secs(90)));
        schedule_plan(&world, &format!("asleep-{number}"), due).await;
    }
    schedule(&world, "awake", &RETELL, MINUTE * 6).await;
    world.wait(MINUTE * 6).await;
    world.cloud.fake().set_mode(Mode::Normal);
    wait_for_probe(&world, Duration::from_secs(5)).await;
    world.wait(MINUTE * 2).await;
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
    let dials: Vec<_> = world.cloud.fake().dials().into_iter().map(|dial| dial.call_id).collect();
    assert_eq!(dials, ["awake"]);
    let asleep = world.call("asleep-3").await;
    assert!(asleep.pending_due_at() > Some(world.now().plus(HOUR * 23)), "{:?}", asleep.job);
    let moves: Vec<_> = asleep.moves.iter().map(|one| (one.kind.as_str(), one.reason.as_deref())).collect();
    assert_eq!(moves.last(), Some(&("returned", Some("window_closed"))));
}

/// The probe is dialled right after a run of the schedule.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_placed_soon_after_a_probe_has_closed_the_circuit() {
    for by_hand in [false, true] {
        let mut world = World::with_dial_rate("5");
        world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
        let probe_after = if by_hand { HOUR } else { MINUTE + Duration::from_secs(1) };
        open(&world, Provider::Retell, probe_after).await;
        for number in 0..20 {
            schedule(&world, &format!("waits-{number}"), &RETELL, Duration::ZERO).await;
        }
        world.wait(MINUTE + Duration::from_secs(2)).await;
        assert_eq!(provider_events(&world).last().map(String::as_str), Some("provider.unavailable"));
        if by_hand {
            let triggered = world.cloud.scheduler().trigger(&CallId::new("waits-0"), "by hand").await;
            assert!(matches!(triggered, Ok(ClaimOutcome::Claimed)), "{triggered:?}");
        } else {
            schedule(&world, "probe", &RETELL, Duration::ZERO).await;
        }
        world.wait(Duration::from_secs(15)).await;
        let dials = world.cloud.fake().dials().len();
        assert_eq!(dials, if by_hand { 20 } else { 21 }, "by hand: {by_hand}");
        world.stop();
    }
}

/// Only the dialer reads the do-not-call list. The probe that it ends is followed by another one in the next run.
#[tokio::test(start_paused = true)]
async fn probe_that_ends_without_a_dial_is_followed_by_another_one_at_once() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let mut paid = plan(&world, &RETELL, Duration::ZERO);
    paid.not_after = Some(world.now().plus(Duration::from_secs(20)));
    open_circuit(&world, &paid).await;
    world.wait(Duration::from_secs(20)).await;
    let mut blocked = call_request("confirms");
    blocked["to"] = json!("+15550177");
    let blocked = create(&world, &blocked).await;
    DoNotCallList::new(&world.calls, &world.inbox).block(&PhoneNumber::new("+15550177"), world.now()).await.unwrap();
    schedule(&world, "callable", &RETELL, Duration::from_secs(2)).await;
    world.cloud.fake().set_mode(Mode::Normal);
    while world.call(&blocked).await.stop_reason.is_none() {
        world.wait(Duration::from_secs(1)).await;
    }
    assert_eq!(world.call(&blocked).await.stop_reason, Some(StopReason::DoNotCall));
    world.wait(Duration::from_secs(75)).await;
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_is_called_off_as_a_probe_is_followed_by_another_one_at_once() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    for id in ["first", "second"] {
        schedule(&world, id, &RETELL, Duration::ZERO).await;
    }
    open(&world, Provider::Retell, MINUTE).await;
    world.wait(MINUTE * 2).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    assert_eq!(claims.records.len(), 1);
    let mut probe = None;
    for id in ["first", "second"] {
        let call = world.call(id).await;
        if !call.is_pending() {
            let off = call.call_off(&policy(), world.now()).unwrap();
            assert_eq!(world.calls.store(&off).await.unwrap(), StoreOutcome::Committed);
            probe = Some(id);
        }
    }
    world.cloud.dialer().handle(claims).await;
    assert_eq!(world.call(probe.unwrap()).await.stop_reason, Some(StopReason::BookingChanged));
    assert!(world.calls.provider_health(Provider::Retell).await.unwrap().needs_probe(world.now()));
}

/// The message of a probe is delivered again while the provider is asked.
#[tokio::test(start_paused = true)]
async fn repeated_message_of_a_probe_ends_no_probe() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, "probe", &RETELL, Duration::ZERO).await;
    open(&world, Provider::Retell, MINUTE).await;
    world.wait(MINUTE * 2).await;
    world.cloud.schedule().await.unwrap().unwrap();
    let claims = world.take_claims();
    world.cloud.fake().set_mode(Mode::Unresponsive);
    let (one, two) = (world.cloud.dialer(), world.cloud.dialer());
    let repeated = async {
        world.wait(Duration::from_secs(2)).await;
        two.handle(claims.clone()).await;
        assert!(!world.calls.provider_health(Provider::Retell).await.unwrap().needs_probe(world.now()));
    };
    tokio::join!(one.handle(claims.clone()), repeated);
}

#[tokio::test(start_paused = true)]
async fn trigger_of_a_call_that_is_too_late_ends_the_call() {
    let world = World::new();
    open_circuit(&world, &plan(&world, &RETELL, Duration::ZERO)).await;
    for id in ["late", "early"] {
        let waiting = plan(&world, &RETELL, if id == "late" { Duration::ZERO } else { HOUR });
        schedule_plan(&world, id, Plan { not_after: Some(world.now().plus(Duration::from_secs(5))), ..waiting }).await;
    }
    world.wait(Duration::from_secs(6)).await;
    for id in ["late", "early"] {
        let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={id}"), None, &Value::Null).await;
        assert_eq!(code, StatusCode::CONFLICT, "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("the job of the call is FAILED"), "{answer}");
        let call = world.call(id).await;
        assert_eq!((call.job, call.stop_reason), (Job::Failed, Some(StopReason::TooLate)));
    }
    assert_eq!(world.logged("dial_stopped").len(), 0, "no claim was made");
}

/// A run has made the call the probe, and its claim is late. Meanwhile a user triggers the call, which makes it the probe again.
#[tokio::test(start_paused = true)]
async fn run_that_loses_its_probe_to_a_trigger_leaves_the_probe_to_it() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, "probe", &RETELL, Duration::ZERO).await;
    open(&world, Provider::Retell, MINUTE).await;
    world.wait(MINUTE * 2).await;
    delay_first_claim(&world, false);
    let call_id = CallId::new("probe");
    let trigger = async {
        world.wait(Duration::from_millis(200)).await;
        let triggered = world.cloud.scheduler().trigger(&call_id, "by hand").await;
        assert!(matches!(triggered, Ok(ClaimOutcome::Claimed)), "{triggered:?}");
    };
    let (run, ()) = tokio::join!(world.cloud.schedule(), trigger);
    let report = run.unwrap().unwrap();
    assert_eq!((report.claimed, report.lost_races), (0, 1));
    world.clear_faults();
    world.cloud.dialer().handle(world.take_claims()).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
    assert!(!world.calls.provider_health(Provider::Retell).await.unwrap().is_open());
}

/// Has the next write of the row of `probe` come late. Then the scheduler can change the health of no provider, if `health_is_down`.
fn delay_first_claim(world: &World, health_is_down: bool) {
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |request| {
        let body = String::from_utf8_lossy(request.body);
        let is_health = request.sender == Some("scheduler") && body.contains(PROVIDER_HEALTH_PREFIX);
        if health_is_down && is_health && writes.load(Ordering::Relaxed) > 0 {
            return Some(down());
        }
        let is_claim = request.operation == "PutItem" && body.contains("\"call_id\":{\"S\":\"probe\"}");
        let is_first = is_claim && writes.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then_some(Fault::Delay(Duration::from_millis(400)))
    });
}

/// A trigger has made the call the probe, and its claim is late. Meanwhile the user cancels the call. The answer tells that, also if the probe
/// cannot be left to another call.
#[tokio::test(start_paused = true)]
async fn trigger_that_loses_its_claim_leaves_the_probe_to_another_call() {
    for health_is_down in [false, true] {
        let world = World::stopped();
        schedule(&world, "probe", &RETELL, Duration::ZERO).await;
        open(&world, Provider::Retell, MINUTE).await;
        world.wait(MINUTE * 2).await;
        delay_first_claim(&world, health_is_down);
        let call_id = CallId::new("probe");
        let scheduler = world.cloud.scheduler();
        let cancellation = async {
            world.wait(Duration::from_millis(200)).await;
            let health = world.calls.provider_health(Provider::Retell).await.unwrap();
            assert!(!health.needs_probe(world.now()), "the call is the probe");
            let canceled = world.call("probe").await.cancel(&policy(), world.now()).unwrap();
            assert_eq!(world.calls.store(&canceled).await.unwrap(), StoreOutcome::Committed);
        };
        let (triggered, ()) = tokio::join!(scheduler.trigger(&call_id, "by hand"), cancellation);
        assert!(matches!(triggered, Ok(ClaimOutcome::NotPending("CANCELED"))), "{triggered:?}");
        let health = world.calls.provider_health(Provider::Retell).await.unwrap();
        assert_eq!(health.needs_probe(world.now()), !health_is_down);
        assert_eq!(world.logged("health_not_noted").len(), usize::from(health_is_down));
    }
}
