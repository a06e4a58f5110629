//! Calls that Switchhook places: created over the API, claimed once, dialled once, retried by policy, settled by what the
//! provider knows.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::{CallId, EventKind, PhoneNumber};
use switchhook_local::connector::Fault;
use switchhook_local::fake::{Behaviour, CrashPoint, DeliveryFaults};
use switchhook_local::{CALLS_TABLE, Cloud};
use switchhook_relay::{calls_since, republish_call};
use switchhook_scheduler::ClaimOutcome;

use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World};
use tokio::task::JoinError;

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// A request for a call whose person does these things, one for each attempt.
pub(crate) fn call_request(behaviour: &str) -> Value {
    json!({"provider": "retell", "from": "+15550100", "to": "+15550199", "appointment_id": "apt", "metadata": {"fake": behaviour}})
}

pub(crate) async fn send(
    world: &World,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> (StatusCode, Value) {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    world.send(request.body(body).unwrap()).await
}

pub(crate) async fn create(world: &World, order: &Value) -> String {
    let (code, answer) = send(world, "POST", "/calls", None, order).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    answer["call_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn get_call(world: &World, call_id: &str) -> Value {
    let (code, call) = send(world, "GET", &format!("/calls/{call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK, "{call}");
    call
}

/// How a call stands: job, appointment, lifecycles of its attempts.
pub(crate) async fn call_state(world: &World, call_id: &str) -> (String, String, Vec<String>) {
    let call = get_call(world, call_id).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = call["attempts"].as_array().unwrap().iter().map(|attempt| text(&attempt["lifecycle"])).collect();
    (text(&call["job"]["state"]), text(&call["appointment_status"]), attempts)
}

pub(crate) fn expected_state(job: &str, appointment: &str, attempts: &[&str]) -> (String, String, Vec<String>) {
    (job.to_owned(), appointment.to_owned(), attempts.iter().map(|text| (*text).to_owned()).collect())
}

#[tokio::test(start_paused = true)]
async fn call_is_created_claimed_dialled_and_settled() {
    let world = World::new();
    let call_id = create(&world, &call_request("confirms")).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("PENDING", "Pending", &[]));
    world.wait(MINUTE * 5).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Confirmed", &["completed"]));
    assert_eq!(world.cloud.fake().dials().len(), 1);
    let types = world.published_types(&call_id);
    assert_eq!(types.first().map(String::as_str), Some("call.initiated"));
    assert!(types.contains(&"call.completed".to_owned()) && types.contains(&"appointment.confirmed".to_owned()));
    let settled = get_call(&world, &call_id).await;
    assert_eq!(settled["settled"], true);
}

#[tokio::test(start_paused = true)]
async fn every_behaviour_ends_as_it_truly_did() {
    let world = World::new();
    let cases = [
        ("confirms", expected_state("COMPLETED", "Confirmed", &["completed"])),
        ("declines", expected_state("COMPLETED", "Declined", &["completed"])),
        ("voicemail", expected_state("COMPLETED", "Voicemail", &["completed"])),
        ("busy,confirms", expected_state("COMPLETED", "Confirmed", &["busy", "completed"])),
        ("no_answer", expected_state("FAILED", "NoAnswer", &["no_answer", "no_answer", "no_answer"])),
        ("fails,fails", expected_state("FAILED", "NoAnswer", &["failed", "failed"])),
        ("invalid", expected_state("FAILED", "NoAnswer", &["failed"])),
        ("forgotten,declines", expected_state("COMPLETED", "Declined", &["inconclusive", "completed"])),
        ("response_lost", expected_state("COMPLETED", "Confirmed", &["completed"])),
        ("silent", expected_state("COMPLETED", "Confirmed", &["completed"])),
        ("rate_limited", expected_state("COMPLETED", "Confirmed", &["completed"])),
    ];
    let mut calls = Vec::new();
    for (behaviour, expected) in cases {
        calls.push((behaviour, create(&world, &call_request(behaviour)).await, expected));
    }
    world.wait(HOUR * 12).await;
    for (behaviour, call_id, expected) in calls {
        assert_eq!(call_state(&world, &call_id).await, expected, "{behaviour}");
    }
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_webhooks_dropped_and_the_call_still_ends_with_its_true_ending() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("no_answer,declines")).await;
    world.wait(HOUR * 6).await;
    assert_eq!(
        call_state(&world, &call_id).await,
        expected_state("COMPLETED", "Declined", &["no_answer", "completed"])
    );
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn schedulers_dialers_and_triggers_at_once_make_one_claim_and_one_dial() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    for round in 0..1_000 {
        let call_id = CallId::new(create(&world, &call_request("confirms")).await);
        let (first, second) = (world.cloud.scheduler(), world.cloud.scheduler());
        let trigger = world.cloud.scheduler();
        let (one, two, three) = tokio::join!(first.run("one"), second.run("two"), trigger.trigger(&call_id, "by hand"));
        let claimed =
            one.unwrap().claimed + two.unwrap().claimed + u64::from(matches!(three.unwrap(), ClaimOutcome::Claimed));
        assert_eq!(claimed, 1, "round {round}");
        // The message comes to two dialers, and once more to each.
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
    for (death, rang, attempts) in [
        (CrashPoint::BeforeRequest, 0, vec!["inconclusive", "completed"]),
        (CrashPoint::BeforeResponse, 1, vec!["completed"]),
    ] {
        let mut world = World::stopped();
        let call_id = create(&world, &call_request("confirms")).await;
        world.cloud.schedule().await.unwrap().unwrap();
        let batch = world.take_claims();
        world.cloud.fake().crash_next(death);
        let (dialer, first) = (world.cloud.dialer(), batch.clone());
        assert!(tokio::spawn(async move { dialer.handle(first).await }).await.is_err(), "{death:?}");
        let call = world.load(&call_id).await.unwrap();
        assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1), "{death:?}");
        // The message comes again, and again.
        world.cloud.dialer().handle(batch.clone()).await;
        world.cloud.dialer().handle(batch).await;
        assert_eq!(world.cloud.fake().dials().len(), rang, "{death:?}");
        // What became of it is found out, and the call goes on.
        world.start();
        world.wait(HOUR * 6).await;
        assert_eq!(
            call_state(&world, &call_id).await,
            expected_state("COMPLETED", "Confirmed", &attempts),
            "{death:?}"
        );
        assert_eq!(world.cloud.fake().duplicate_dials(), 0, "{death:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn scheduler_killed_between_claim_and_message_loses_nothing_but_the_lease() {
    let world = World::new();
    world.inject_fault("SendMessage", switchhook_local::DIAL_QUEUE, 100, Fault::NotSent);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 2).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("CLAIMED", "Pending", &[]));
    world.clear_faults();
    world.wait(MINUTE * 15).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Confirmed", &["completed"]));
}

#[tokio::test(start_paused = true)]
async fn provider_down_for_an_hour_loses_nothing_and_is_asked_seldom() {
    let world = World::new();
    let fake = world.cloud.fake();
    // Some are under way, and all that will be heard of them is what the provider is asked.
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut calls = Vec::new();
    for _ in 0..20 {
        calls.push(create(&world, &call_request("confirms")).await);
    }
    world.wait(MINUTE * 3).await;
    assert_eq!(fake.dials().len(), 20);
    fake.set_down(true);
    let before = fake.requests();
    // And some are to be placed.
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
    // Long before its patience ends.
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Confirmed", &["completed"]));
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn calling_window_is_checked_at_the_last_moment() {
    let world = World::new();
    // It is midnight in London, the first of January, a Thursday.
    let mut closed = call_request("confirms");
    closed["window"] = json!({"time_zone": "Europe/London", "opens": "09:00", "closes": "18:00", "days": ["fri"]});
    let call_id = create(&world, &closed).await;
    world.wait(HOUR * 32).await;
    assert_eq!(world.cloud.fake().dials(), []);
    let call = get_call(&world, &call_id).await;
    assert_eq!(
        (&call["job"]["state"], &call["job"]["due_at"]),
        (&json!("PENDING"), &json!("2026-01-02T09:00:00.000Z"))
    );
    world.wait(HOUR * 2).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Confirmed", &["completed"]));
}

#[tokio::test(start_paused = true)]
async fn number_on_the_do_not_call_list_is_not_called() {
    let world = World::new();
    world.calls.set_do_not_call(&PhoneNumber::new("+15550199"), true).await.unwrap();
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("FAILED", "Pending", &[]));
    assert_eq!(get_call(&world, &call_id).await["job"]["stopped"], "do_not_call");
    assert_eq!(world.published_types(&call_id), ["call.exhausted"]);
    assert_eq!(world.cloud.fake().dials(), []);
    world.calls.set_do_not_call(&PhoneNumber::new("+15550199"), false).await.unwrap();
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_eq!(call_state(&world, &call_id).await.0, "COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn canceled_call_is_never_dialled() {
    let world = World::new();
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-01T01:00:00Z");
    let call_id = create(&world, &later).await;
    let path = format!("/calls/{call_id}/cancel");
    let (code, _) = send(&world, "POST", &path, None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = send(&world, "POST", &format!("/calls/{call_id}/trigger"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::CONFLICT);
    world.wait(HOUR * 2).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("CANCELED", "Pending", &[]));
    assert_eq!(world.published_types(&call_id), ["call.canceled"]);
    assert_eq!(world.cloud.fake().dials(), []);
}

#[tokio::test(start_paused = true)]
async fn trigger_waives_the_due_time_alone() {
    let world = World::new();
    let mut later = call_request("declines");
    later["due_at"] = json!("2026-01-03T00:00:00Z");
    let call_id = create(&world, &later).await;
    let (code, answer) = send(&world, "POST", &format!("/calls/{call_id}/trigger"), None, &Value::Null).await;
    assert_eq!((code, &answer["job"]["state"]), (StatusCode::OK, &json!("CLAIMED")));
    world.wait(MINUTE * 5).await;
    assert_eq!(call_state(&world, &call_id).await, expected_state("COMPLETED", "Declined", &["completed"]));
    let (code, _) = send(&world, "POST", "/calls/nobody/trigger", None, &Value::Null).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_due_calls_at_once_are_each_dialled_once() {
    let world = World::with_lanes(40);
    // What is heard of them is another matter.
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut once = call_request("busy");
    once["retry"] = json!({"attempts_max": 1});
    for _ in 0..10_000 {
        create(&world, &once).await;
    }
    // Forty lanes place twenty a second.
    world.wait(MINUTE * 11).await;
    assert_eq!(world.cloud.fake().dials().len(), 10_000);
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
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
    // The provider's first event has none of our ids, and is there before the answer to the dial.
    let body = json!({"event": "call_started", "call": {"call_id": "p1", "call_status": "ongoing", "start_timestamp": 1_767_225_600_000_i64}});
    world.accept(switchhook_domain::Provider::Retell, &body.to_string()).await;
    world.quiesce().await;
    let call_id = create(&world, &call_request("forgotten")).await;
    world.wait(MINUTE).await;
    let alias = switchhook_aws::calls::Alias {
        call_id: CallId::new(&call_id),
        attempt: switchhook_domain::AttemptKey::new("1"),
    };
    // Who learned it dies right after: the sweep does the rest.
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
    // Its ending is cut out of the history, and its job is made up.
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
    // There is nothing left to find.
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
    assert!(INACTIVITY_TIMEOUT > MINUTE * 13, "or patience would have found it");
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_makes_a_repeat_return_the_first_answer() {
    let world = World::new();
    let first = send(&world, "POST", "/calls", Some("k1"), &call_request("confirms")).await;
    assert_eq!(first.0, StatusCode::CREATED);
    world.wait(MINUTE * 3).await;
    let again = send(&world, "POST", "/calls", Some("k1"), &call_request("confirms")).await;
    assert_eq!((again.0, &again.1), (StatusCode::OK, &first.1));
    let (code, problem) = send(&world, "POST", "/calls", Some("k1"), &call_request("declines")).await;
    assert_eq!((code, &problem["status"]), (StatusCode::CONFLICT, &json!(409)));
    world.wait(MINUTE * 3).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn absurd_requests_are_refused_and_leave_nothing() {
    let world = World::stopped();
    let check = async |change: Value| {
        let mut asked = call_request("confirms");
        for (name, value) in change.as_object().unwrap() {
            asked[name] = value.clone();
        }
        let (code, problem) = send(&world, "POST", "/calls", None, &asked).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{change}: {problem}");
        assert!(!problem.to_string().contains("+1555"), "{problem}");
        assert_eq!(problem["errors"].as_array().map(Vec::len), Some(1), "{change}: {problem}");
    };
    check(json!({"provider": "generic"})).await;
    check(json!({"provider": "pigeon"})).await;
    check(json!({"to": "12"})).await;
    check(json!({"to": "+0015550100"})).await;
    check(json!({"due_at": "yesterday"})).await;
    check(json!({"due_at": "1970-01-01T00:00:00Z"})).await;
    check(json!({"due_at": "9999-01-01T00:00:00Z"})).await;
    check(json!({"window": {"time_zone": "Europe/Nowhere", "opens": "09:00", "closes": "18:00"}})).await;
    check(json!({"window": {"time_zone": "Europe/London", "opens": "18:00", "closes": "09:00"}})).await;
    check(json!({"retry": {"attempts_max": 0}})).await;
    check(json!({"retry": {"attempts_max": 1_000_000_000}})).await;
    check(json!({"surprise": 1})).await;
    check(json!({"metadata": {"switchhook_call_id": "mine"}})).await;
    assert_eq!(world.items(CALLS_TABLE).await, []);
}

#[tokio::test(start_paused = true)]
async fn dialled_phones_are_those_of_the_orders() {
    let world = World::new();
    create(&world, &call_request("busy,response_lost")).await;
    world.wait(HOUR * 3).await;
    let behaviours: Vec<Behaviour> = world.cloud.fake().dials().iter().map(|dial| dial.behaviour).collect();
    assert_eq!(behaviours, [Behaviour::Busy, Behaviour::ResponseLost]);
}

#[tokio::test(start_paused = true)]
async fn webhook_that_comes_after_the_provider_was_asked_is_no_conflict() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("busy")).await;
    world.wait(MINUTE * 20).await;
    let provider_call_id = world.load(&call_id).await.unwrap().attempt_records[0].provider_call_id.clone().unwrap();
    // The same analysis, in a webhook that says more beside it.
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
async fn inbound_call_is_made_by_its_first_webhook_and_never_dialled() {
    let world = World::new();
    let body = json!({"event": "call_started", "call": {
        "call_id": "in1", "direction": "inbound", "call_status": "ongoing", "start_timestamp": 1_767_225_600_000_i64,
    }});
    let mut request = world.signed(
        switchhook_domain::Provider::Retell,
        switchhook_tests::KEY,
        "",
        body.to_string().as_bytes(),
        world.now(),
    );
    *request.uri_mut() = "/webhooks/retell/inbound".parse().unwrap();
    let (code, answer) = world.send(request).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("accepted")));
    world.quiesce().await;
    let call = get_call(&world, "retell:in1").await;
    assert_eq!((&call["direction"], &call["job"]["state"]), (&json!("inbound"), &json!("IN_PROGRESS")));
    world.wait(HOUR * 2).await;
    assert_eq!(get_call(&world, "retell:in1").await["job"]["state"], "FAILED");
    assert_eq!(world.cloud.fake().dials(), []);
    for path in ["/webhooks/retell/outbound", "/webhooks/retell/inbound/", "/webhooks//inbound"] {
        let request = Request::post(path).body(Bytes::new()).unwrap();
        assert_eq!(world.send(request).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_webhook_is_announced() {
    let world = World::new();
    for _ in 0..2 {
        let (_, answer) = world.post(switchhook_domain::Provider::Retell, "{\"event\":").await;
        assert!(answer["event_id"].is_string());
        world.quiesce().await;
    }
    let events = world.cloud.bus().events_since(0);
    assert_eq!(events.iter().map(|event| event.detail_type.as_str()).collect::<Vec<_>>(), ["webhook.quarantined"; 2]);
    assert_eq!(events[0].detail, events[1].detail);
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

/// Lets a run die at each of its requests in turn, when the call was dialled so long ago; then two run at once.
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
            assert!(more.is_ok(), "the function dies here, by intent");
            None
        });
        let lived = run(&world.cloud).await.is_ok();
        world.clear_faults();
        let (one, two) = tokio::join!(run(&world.cloud), run(&world.cloud));
        assert!(one.is_ok_and(|well| well) && two.is_ok_and(|well| well));
        let learned = world.receive();
        world.consume(&learned).await;
        let standing = call_state(&world, &call_id).await;
        assert_eq!(standing, expected_state("COMPLETED", "Declined", &["completed"]), "after {deaths} requests");
        if lived {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 5, "{deaths}");
}

#[tokio::test(start_paused = true)]
async fn republish_derives_the_same_events_with_the_same_ids() {
    let world = World::new();
    let began = world.now();
    let retried = create(&world, &call_request("busy,confirms")).await;
    world.wait(MINUTE * 5).await;
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let canceled = create(&world, &later).await;
    send(&world, "POST", &format!("/calls/{canceled}/cancel"), None, &Value::Null).await;
    world.wait(HOUR * 2).await;

    let bus = switchhook_aws::bus::Bus::new(
        switchhook_aws::sdk::eventbridge(&switchhook_aws::sdk::with_timeouts_and_retries(
            &world.cloud.services().sdk_config(),
        )),
        "switchhook".to_owned(),
    );
    let first: Vec<String> = world.cloud.bus().events_since(0).into_iter().map(|event| event.detail).collect();
    let mut minutes = 0;
    let since = calls_since(&world.inbox, &world.calls, began, world.now(), |done, all| {
        minutes = done;
        assert!(done <= all);
    });
    let since = since.await.unwrap();
    assert_eq!(
        since.iter().map(CallId::as_str).collect::<std::collections::BTreeSet<_>>(),
        [canceled.as_str(), &retried].into()
    );
    assert!(minutes > 120);
    let mut events = 0;
    for call_id in &since {
        events += republish_call(&world.calls, &bus, call_id).await.unwrap().events;
    }
    let again: Vec<String> = world.cloud.bus().events_since(0).into_iter().map(|event| event.detail).collect();
    assert_eq!(events, first.len() as u64);
    let (mut once, mut twice) = (first.clone(), again[first.len()..].to_vec());
    once.sort();
    twice.sort();
    assert_eq!(once, twice);
    let nobody = republish_call(&world.calls, &bus, &CallId::new("nobody")).await.unwrap();
    assert_eq!((nobody.calls, nobody.events), (0, 0));
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
