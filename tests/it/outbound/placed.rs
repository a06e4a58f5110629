//! Placed calls from the request to the true ending, and requests to cancel or trigger them on the way.

use bytes::Bytes;
use http::{Request, StatusCode};
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::{CallId, PhoneNumber};
use switchhook_local::fake::{Behaviour, DeliveryFaults};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, down, is_request_to, text};

use super::{HOUR, call_request, call_state, create, get_call, send, wait_for_the_end};

#[tokio::test(start_paused = true)]
async fn call_is_created_claimed_dialled_and_settled() {
    let world = World::new();
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    assert_eq!(world.cloud.fake().dials().len(), 1);
    assert_snapshot!(world.timeline().replace(&call_id, "call"), @r"
    call/1 call.initiated
    call/2 appointment.dialing
    call/3 call.ringing
    call/4 call.in_progress
    call/5 appointment.connected
    call/6 call.completed
    call/7 appointment.confirmed
    ");
    assert_eq!(get_call(&world, &call_id).await["settled"], true);
}

#[tokio::test(start_paused = true)]
async fn every_behaviour_ends_as_it_truly_did() {
    let world = World::new();
    let behaviours = [
        "confirms",
        "declines",
        "voicemail",
        "busy,confirms",
        "no_answer",
        "fails,fails",
        "invalid",
        "forgotten,declines",
        "response_lost",
        "silent",
        "rate_limited",
    ];
    let mut calls = Vec::new();
    for behaviour in behaviours {
        calls.push((behaviour, create(&world, &call_request(behaviour)).await));
    }
    for (_, call_id) in &calls {
        wait_for_the_end(&world, call_id).await;
    }
    let mut endings = Vec::new();
    for (behaviour, call_id) in calls {
        endings.push(format!("{behaviour}: {}", call_state(&world, &call_id).await));
    }
    assert_snapshot!(endings.join("\n"), @r"
    confirms: job COMPLETED, appointment Confirmed, attempts [completed]
    declines: job COMPLETED, appointment Declined, attempts [completed]
    voicemail: job COMPLETED, appointment Voicemail, attempts [completed]
    busy,confirms: job COMPLETED, appointment Confirmed, attempts [busy, completed]
    no_answer: job FAILED, appointment NoAnswer, attempts [no_answer, no_answer, no_answer]
    fails,fails: job FAILED, appointment NoAnswer, attempts [failed, failed]
    invalid: job FAILED, appointment Failed, attempts []
    forgotten,declines: job FAILED, appointment Inconclusive, attempts [inconclusive]
    response_lost: job COMPLETED, appointment Confirmed, attempts [completed]
    silent: job COMPLETED, appointment Confirmed, attempts [completed]
    rate_limited: job COMPLETED, appointment Confirmed, attempts [completed]
    ");
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_webhooks_dropped_and_the_call_still_ends_with_its_true_ending() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("no_answer,declines")).await;
    wait_for_the_end(&world, &call_id).await;
    assert_snapshot!(
        call_state(&world, &call_id).await,
        @"job COMPLETED, appointment Declined, attempts [no_answer, completed]"
    );
    assert_eq!(world.cloud.fake().duplicate_dials(), 0);
}

#[tokio::test(start_paused = true)]
async fn calling_window_is_checked_at_the_last_moment() {
    let mut world = World::new();
    // It is midnight in London, on Thursday the first of January. The window opens on Friday at nine.
    let mut closed = call_request("confirms");
    closed["window"] = json!({"time_zone": "Europe/London", "opens": "09:00", "closes": "18:00", "days": ["fri"]});
    let call_id = create(&world, &closed).await;
    world.wait(HOUR).await;
    world.skip(HOUR * 30).await;
    world.wait(HOUR).await;
    assert_eq!(world.cloud.fake().dials(), []);
    let job = json!({"state": "PENDING", "due_at": "2026-01-02T09:00:00.000Z"});
    assert_eq!(get_call(&world, &call_id).await["job"], job);
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn number_on_the_do_not_call_list_is_not_called() {
    let world = World::new();
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    list.block(&PhoneNumber::new("+15550199"), world.now()).await.unwrap();
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job FAILED, appointment Blocked, attempts []");
    assert_eq!(get_call(&world, &call_id).await["job"]["stop_reason"], "do_not_call");
    assert_snapshot!(world.timeline().replace(&call_id, "call"), @r"
    call/1 call.exhausted
    call/2 appointment.blocked
    ");
    assert_eq!(world.cloud.fake().dials(), []);
    list.unblock(&PhoneNumber::new("+15550199"), world.now()).await.unwrap();
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

/// The list is in two tables. The number is in both, and one of them cannot be read.
#[tokio::test(start_paused = true)]
async fn nobody_is_dialled_while_the_do_not_call_list_cannot_be_read() {
    for table in [CALLS_TABLE, INBOX_TABLE] {
        let world = World::new();
        let list = DoNotCallList::new(&world.calls, &world.inbox);
        list.block(&PhoneNumber::new("+15550199"), world.now()).await.unwrap();
        world.set_fault_hook(move |call| {
            let is_entry = String::from_utf8_lossy(call.body).contains("do-not-call:");
            (call.operation == "GetItem" && is_entry && is_request_to(call, table)).then(down)
        });
        let call_id = create(&world, &call_request("confirms")).await;
        world.wait(MINUTE * 3).await;
        assert!(!world.logged("dial_failed").is_empty(), "{table}");
        world.clear_faults();
        world.wait(MINUTE * 15).await;
        assert_eq!(world.cloud.fake().dials(), [], "{table}");
        assert_eq!(call_state(&world, &call_id).await, "job FAILED, appointment Blocked, attempts []", "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn canceled_call_is_never_dialled() {
    let world = World::new();
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-01T01:00:00Z");
    let call_id = create(&world, &later).await;
    let path = format!("/call/cancel?id={call_id}");
    let (code, _) = send(&world, "POST", &path, None, &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::CONFLICT);
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job CANCELED, appointment Canceled, attempts []");
    assert_snapshot!(world.timeline().replace(&call_id, "call"), @r"
    call/1 call.canceled
    call/2 appointment.canceled
    ");
    assert_eq!(world.cloud.fake().dials(), []);
}

/// The dialer has the message of the claim already.
#[tokio::test(start_paused = true)]
async fn call_that_is_canceled_while_it_is_claimed_is_not_dialled() {
    let world = World::stopped();
    let call_id = CallId::new(create(&world, &call_request("confirms")).await);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    let claims = world.take_claims();
    let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
    assert_eq!((code, &answer["job"]["state"]), (StatusCode::OK, &json!("CANCELED")));
    world.cloud.dialer().handle(claims).await;
    assert_eq!(world.cloud.fake().dials(), []);
}

/// Nobody is called again after the user has canceled the call.
#[tokio::test(start_paused = true)]
async fn call_that_is_canceled_while_it_rings_goes_on_and_is_not_retried() {
    for (behaviour, state) in [
        ("no_answer,confirms", "job CANCELED, appointment NoAnswer, attempts [no_answer]"),
        ("response_lost,confirms", "job COMPLETED, appointment Confirmed, attempts [completed]"),
        ("confirms", "job COMPLETED, appointment Confirmed, attempts [completed]"),
    ] {
        let world = World::new();
        let call_id = create(&world, &call_request(behaviour)).await;
        world.wait(MINUTE / 20).await;
        for _ in 0..2 {
            let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={call_id}"), None, &Value::Null).await;
            let job = json!({"state": "IN_PROGRESS", "stop_reason": "canceled_by_user"});
            assert_eq!((code, &answer["job"]), (StatusCode::ACCEPTED, &job), "{behaviour}");
        }
        world.wait(HOUR * 2).await;
        assert_eq!(call_state(&world, &call_id).await, state, "{behaviour}");
        assert_eq!(world.cloud.fake().dials().len(), 1, "{behaviour}");
    }
}

#[tokio::test(start_paused = true)]
async fn trigger_waives_the_due_time_alone() {
    let world = World::new();
    let mut later = call_request("declines");
    later["due_at"] = json!("2026-01-03T00:00:00Z");
    let call_id = create(&world, &later).await;
    let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
    assert_eq!((code, &answer["job"]["state"]), (StatusCode::OK, &json!("CLAIMED")));
    world.wait(MINUTE * 5).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Declined, attempts [completed]");
    // The provider's id of the attempt leads to the call, which is over.
    let by_provider = format!("retell:{}", world.cloud.fake().dials()[0].provider_call_id);
    let (code, _) = send(&world, "POST", &format!("/call/trigger?id={by_provider}"), None, &Value::Null).await;
    assert_eq!(code, StatusCode::CONFLICT);
    let (code, _) = send(&world, "POST", "/call/trigger?id=nobody", None, &Value::Null).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

/// If the attempt has ended meanwhile, a further trigger calls the person again at once.
#[tokio::test(start_paused = true)]
async fn failed_trigger_says_whether_the_call_may_be_claimed() {
    let world = World::new();
    let mut later = call_request("declines");
    later["due_at"] = json!("2026-01-03T00:00:00Z");
    let call_id = create(&world, &later).await;
    for (operation, on, may_be_claimed) in [("GetItem", CALLS_TABLE, false), ("SendMessage", DIAL_QUEUE, true)] {
        world.inject_fault(operation, on, 1, down());
        let (code, problem) = send(&world, "POST", &format!("/call/trigger?id={call_id}"), None, &Value::Null).await;
        assert_eq!((code, &problem["status"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!(500)));
        assert_eq!(problem["type"], "urn:switchhook:problem:storage_failure");
        let detail = text(&problem["detail"]);
        assert_eq!(detail.contains("send the request again"), !may_be_claimed, "{detail}");
        assert_eq!(detail.contains("look at the call before you trigger it again"), may_be_claimed, "{detail}");
        let job = if may_be_claimed { "CLAIMED" } else { "PENDING" };
        assert_eq!(get_call(&world, &call_id).await["job"]["state"], job);
    }
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
        let mut request = call_request("confirms");
        for (name, value) in change.as_object().unwrap() {
            request[name] = value.clone();
        }
        let (code, problem) = send(&world, "POST", "/calls", None, &request).await;
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
    check(json!({"window": {"time_zone": "Europe/London", "opens": "09:00", "closes": "09:00"}})).await;
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
    assert_eq!(get_call(&world, "retell:in1").await["direction"], "inbound");
    assert_snapshot!(
        call_state(&world, "retell:in1").await,
        @"job IN_PROGRESS, appointment Connected, attempts [in_progress]"
    );
    world.wait(HOUR * 2).await;
    assert_snapshot!(
        call_state(&world, "retell:in1").await,
        @"job FAILED, appointment Inconclusive, attempts [inconclusive]"
    );
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
