//! Providers that refuse calls, and the calls that wait for them or go to another provider.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use switchhook_domain::{
    CallId, DialFailure, DialSignal, NewCall, PhoneNumber, Plan, Policy, Provider, ProviderHealth, RetryPolicy,
    Timestamp,
};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_local::fake::{DeliveryFaults, Mode, RequestResult};
use switchhook_tests::{INACTIVITY_TIMEOUT, KEY, MINUTE, World, all_providers, text};

use super::providers::all_accounts;
use super::{HOUR, call_request, call_state, create, post_stored_only, report_drift, send};

/// The types of the domain events about providers, in order.
pub(super) fn provider_events(world: &World) -> Vec<String> {
    let types = world.domain_events().into_iter().map(|event| text(&event["type"]));
    types.filter(|event_type| event_type.starts_with("provider.")).collect()
}

/// Lets a provider fail in this way for an hour, while this many calls are due. Returns the number of dial requests in that
/// hour. All calls must be dialled within an hour after it, each once, and none may have lost an attempt.
async fn requests_of_a_bad_hour(mode: Mode, calls: usize) -> u64 {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    fake.set_mode(mode);
    let mut request = call_request("confirms");
    request["retry"] = json!({"attempts_max": 1});
    let mut created = Vec::new();
    for number in 0..calls {
        request["appointment_id"] = json!(format!("apt-{number}"));
        created.push(create(&world, &request).await);
    }
    world.wait(HOUR).await;
    let requests = fake.requests();
    assert_eq!(fake.dials(), [], "{mode:?}");
    assert_eq!(provider_events(&world), ["provider.unavailable"], "{mode:?}");
    for call_id in created.iter().step_by(50) {
        let call = world.call(call_id).await;
        assert_eq!((call.job.as_str(), call.attempt_records.len()), ("PENDING", 0), "{mode:?} {call_id}");
    }
    fake.set_mode(Mode::Normal);
    world.wait(HOUR).await;
    assert_eq!(fake.dials().len(), calls, "{mode:?}");
    assert_eq!(fake.duplicate_dials(), 0, "{mode:?}");
    assert!(fake.dials().iter().all(|dial| dial.attempt == "1"), "{mode:?}: no refusal counts as an attempt");
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"], "{mode:?}");
    assert_eq!(world.logged("claim_lost").len(), 0, "{mode:?}: every claim is dialled while it lasts");
    requests
}

#[tokio::test(start_paused = true)]
async fn provider_with_an_account_problem_for_an_hour_costs_a_handful_of_requests_and_no_call() {
    let requests = requests_of_a_bad_hour(Mode::UnknownAsset, 300).await;
    assert!(requests <= 12, "{requests}");
}

#[tokio::test(start_paused = true)]
async fn provider_that_is_busy_for_an_hour_costs_a_handful_of_requests_and_no_call() {
    let requests = requests_of_a_bad_hour(Mode::RateLimited, 200).await;
    assert!(requests <= 25, "{requests}");
}

/// The fake provider answers the first 429 with `Retry-After: 90`. By itself, the dialer would try again within a minute.
#[tokio::test(start_paused = true)]
async fn busy_provider_is_not_asked_before_it_wants_to_be() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_mode(Mode::RateLimited);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(Duration::from_secs(5)).await;
    assert_eq!(fake.requests(), 1);
    fake.set_mode(Mode::Normal);
    world.wait(Duration::from_secs(83)).await;
    assert_eq!((fake.requests(), world.call(&call_id).await.job.as_str()), (1, "PENDING"));
    world.wait(MINUTE).await;
    assert_eq!(fake.dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn provider_that_gives_no_clear_answer_for_an_hour_leaves_few_calls_in_doubt() {
    for mode in [Mode::Down, Mode::Unresponsive] {
        let world = World::with_dial_rate("1");
        let fake = world.cloud.fake();
        fake.set_delivery_faults(DeliveryFaults::NONE);
        fake.set_mode(mode);
        let mut created = Vec::new();
        for _ in 0..50 {
            created.push(create(&world, &call_request("declines")).await);
        }
        world.wait(HOUR).await;
        let mut untouched = Vec::new();
        for call_id in &created {
            let call = world.call(call_id).await;
            untouched.extend(call.attempt_records.is_empty().then_some(call_id));
        }
        assert!(untouched.len() >= 38, "{mode:?}: only {} calls were not dialled", untouched.len());
        fake.set_mode(Mode::Normal);
        world.wait(HOUR * 2).await;
        assert_eq!(fake.duplicate_dials(), 0, "{mode:?}");
        for call_id in untouched {
            assert_eq!(world.call(call_id).await.job.as_str(), "COMPLETED", "{mode:?}");
        }
    }
}

/// Lets a provider accept calls and dial nobody for half an hour, while 100 calls are due. Returns the number of requests in
/// that time. All calls must be dialled within two hours after it, each once, and none may have lost an attempt.
async fn requests_of_a_provider_that_dials_nobody(rate: &str) -> u64 {
    let world = World::with_dial_rate(rate);
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    fake.set_mode(Mode::OverCapacity);
    let mut request = call_request("declines");
    request["retry"] = json!({"attempts_max": 1});
    let mut created = Vec::new();
    for number in 0..100 {
        request["appointment_id"] = json!(format!("apt-{number}"));
        created.push(create(&world, &request).await);
    }
    world.wait(HOUR / 2).await;
    let requests = fake.requests();
    assert_eq!((fake.dials(), provider_events(&world)), (Vec::new(), vec!["provider.unavailable".to_owned()]));
    fake.set_mode(Mode::Normal);
    world.wait(HOUR * 2).await;
    for call_id in &created {
        let call = world.call(call_id).await;
        assert_eq!((call.job.as_str(), call.attempts().len()), ("COMPLETED", 1), "{call_id}");
    }
    assert_eq!((fake.dials().len(), fake.duplicate_dials()), (100, 0));
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
    requests
}

#[tokio::test(start_paused = true)]
async fn provider_that_accepts_calls_and_dials_nobody_costs_few_requests_and_no_call() {
    let requests = requests_of_a_provider_that_dials_nobody("5").await;
    assert!(requests <= 60, "{requests}");
    // At 100 calls in a second, all are sent before the first report arrives.
    let requests = requests_of_a_provider_that_dials_nobody("100").await;
    assert!(requests <= 110, "{requests}");
}

const fn is_dial(result: RequestResult) -> bool {
    match result {
        RequestResult::Accepted
        | RequestResult::RateLimited
        | RequestResult::Rejected
        | RequestResult::Refused
        | RequestResult::Unavailable => true,
        RequestResult::NotFound | RequestResult::InProgress | RequestResult::Ended | RequestResult::Analysed => false,
    }
}

/// Number of calls around an outage. `SWITCHHOOK_OUTAGE_CALLS=1000` makes the tests longer.
fn calls_around_an_outage() -> usize {
    std::env::var("SWITCHHOOK_OUTAGE_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Lets calls become due over three hours, and the provider fail in this way in the second of them. All calls must be dialled and
/// settled in the end, none twice, and none may have lost its only attempt.
async fn outage_in_the_middle(mode: Mode, requests_max: usize) {
    let calls = calls_around_an_outage();
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    let mut request = call_request("confirms");
    request["retry"] = json!({"attempts_max": 1});
    let (started, mut created) = (world.now(), Vec::new());
    for number in 0..calls {
        request["appointment_id"] = json!(format!("apt-{number}"));
        let share = number as f64 / calls as f64;
        request["due_at"] = json!(started.plus((HOUR * 3).mul_f64(share)).to_string());
        created.push(create(&world, &request).await);
    }
    world.wait(HOUR).await;
    fake.start_recording();
    fake.set_mode(mode);
    world.wait(HOUR).await;
    // The drift check looks up calls of the hour before, and is not counted.
    let requests = fake.api_records().iter().filter(|record| is_dial(record.result)).count();
    fake.set_mode(Mode::Normal);
    world.wait(HOUR * 3).await;
    assert!(requests <= requests_max, "{mode:?}: {requests} dial requests in the hour");
    assert_eq!((fake.dials().len(), fake.duplicate_dials()), (calls, 0), "{mode:?}");
    for call_id in &created {
        let call = world.call(call_id).await;
        assert_eq!(
            (call.job.as_str(), call.attempts().len(), call.is_settled()),
            ("COMPLETED", 1, true),
            "{mode:?} {call_id}"
        );
    }
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"], "{mode:?}");
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_422_in_the_middle_of_many_calls_costs_none() {
    outage_in_the_middle(Mode::UnknownAsset, 20).await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_429_in_the_middle_of_many_calls_costs_none() {
    outage_in_the_middle(Mode::RateLimited, 30).await;
}

/// The provider dials, and answers 500.
#[tokio::test(start_paused = true)]
async fn an_hour_of_500_in_the_middle_of_many_calls_costs_none() {
    outage_in_the_middle(Mode::FailsAfterDial, 30).await;
}

/// The provider does not dial, and answers 503.
#[tokio::test(start_paused = true)]
async fn an_hour_of_503_in_the_middle_of_many_calls_costs_none() {
    outage_in_the_middle(Mode::Down, 30).await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_silence_in_the_middle_of_many_calls_costs_none() {
    outage_in_the_middle(Mode::Unresponsive, 30).await;
}

#[tokio::test(start_paused = true)]
async fn trigger_probes_a_provider_that_is_unavailable() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_mode(Mode::OutOfCredit);
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(create(&world, &call_request("confirms")).await);
    }
    world.wait(MINUTE * 20).await;
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    // Somebody pays the bill, and does not want to wait for the next probe.
    fake.set_mode(Mode::Normal);
    let (code, answer) = send(&world, "POST", &format!("/call/trigger?id={}", calls[0]), None, &Value::Null).await;
    assert_eq!((code.as_u16(), &answer["job"]["state"]), (200, &json!("CLAIMED")));
    world.wait(MINUTE * 2).await;
    assert_eq!(provider_events(&world), ["provider.unavailable", "provider.available"]);
    assert_eq!(fake.dials().len(), 4);
}

/// Creates a call to this number over Twilio. Returns its id.
async fn call_over_twilio(world: &World, to: &str) -> String {
    let mut request = call_request("confirms");
    request["provider"] = json!("twilio");
    request["to"] = json!(to);
    create(world, &request).await
}

#[tokio::test(start_paused = true)]
async fn blocked_number_keeps_twilio_from_calling_no_other() {
    let world = World::with_secret(&all_accounts());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    fake.block_number("+15550111");
    let blocked = call_over_twilio(&world, "+15550111").await;
    world.wait(HOUR * 3).await;
    let requests = fake.requests();
    assert!((8..=12).contains(&requests), "{requests} requests in three hours");
    assert_eq!(provider_events(&world), [""; 0]);
    assert_eq!(call_state(&world, &blocked).await, "job PENDING, appointment Pending, attempts []");
    let other = call_over_twilio(&world, "+15550112").await;
    world.wait(Duration::from_secs(10)).await;
    assert_eq!(fake.dials().iter().map(|dial| dial.call_id.clone()).collect::<Vec<_>>(), [other]);
    // An operator has it unblocked. The call is tried again within an hour.
    fake.unblock_number("+15550111");
    world.wait(HOUR + MINUTE * 5).await;
    assert_eq!(call_state(&world, &blocked).await, "job COMPLETED, appointment Connected, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn several_blocked_numbers_open_the_circuit_of_twilio_until_another_number_is_called() {
    let world = World::with_secret(&all_accounts());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    for number in 0..3 {
        assert_eq!(provider_events(&world), [""; 0]);
        let blocked = format!("+1555012{number}");
        fake.block_number(&blocked);
        call_over_twilio(&world, &blocked).await;
        world.wait(Duration::from_secs(5)).await;
    }
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    call_over_twilio(&world, "+15550112").await;
    world.wait(MINUTE * 5).await;
    // The other call is the oldest, so it is the first probe. The blocked numbers may open the circuit again when they are tried again.
    assert_eq!(provider_events(&world)[..2], ["provider.unavailable", "provider.available"]);
    assert_eq!(fake.dials().len(), 1);
}

/// The provider refuses a calling number. It must place the call that names another one.
async fn refused_calling_number_stops_no_other(provider: Provider) {
    let world = World::with_secret(&all_accounts());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::NONE);
    fake.block_number("+15550190");
    let mut request = call_request("confirms");
    request["provider"] = json!(provider.as_str());
    request["from"] = json!("+15550190");
    for number in 0..20 {
        request["to"] = json!(format!("+155501{number:02}"));
        create(&world, &request).await;
    }
    world.wait(MINUTE * 2).await;
    assert_eq!(fake.dials(), []);
    request["from"] = json!("+15550100");
    let other = create(&world, &request).await;
    world.wait(MINUTE * 2).await;
    assert_eq!(fake.dials().iter().map(|dial| dial.call_id.clone()).collect::<Vec<_>>(), [other]);
    assert_eq!(provider_events(&world), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn refused_calling_number_keeps_twilio_from_calling_from_no_other() {
    refused_calling_number_stops_no_other(Provider::Twilio).await;
}

#[tokio::test(start_paused = true)]
async fn refused_calling_number_keeps_bland_from_calling_from_no_other() {
    refused_calling_number_stops_no_other(Provider::Bland).await;
}

/// Plan of a call that names these providers, due after `delay`, with one attempt.
pub(super) fn plan(world: &World, providers: &[Provider], delay: Duration) -> Plan {
    let retry =
        RetryPolicy { attempts_max: 1, delay_seconds: 60, delay_max_seconds: 60, voicemail: false, unheard: false };
    Plan {
        providers: providers.to_vec(),
        due_at: world.now().plus(delay),
        not_after: None,
        window: None,
        retry,
        metadata: BTreeMap::new(),
        request_hash: None,
        trace_id: None,
    }
}

/// Policy of the calls that the tests store themselves.
pub(super) fn policy() -> Policy {
    Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: [Provider::Retell].into_iter().collect() }
}

/// Stores a call with this plan.
pub(super) async fn schedule_plan(world: &World, id: &str, plan: Plan) {
    let new = NewCall {
        call_id: CallId::new(id),
        from: PhoneNumber::new("+15550100"),
        to: PhoneNumber::new("+15550100"),
        appointment_id: Some(id.to_owned()),
        plan,
    };
    let call = switchhook_domain::Call::schedule(new, &policy(), world.now());
    let stored = world.calls.store(&call).await.unwrap();
    assert_eq!(stored, switchhook_aws::calls::StoreOutcome::Committed);
}

/// Stores a call that names these providers, due after `delay`.
pub(super) async fn schedule(world: &World, id: &str, providers: &[Provider], delay: Duration) {
    schedule_plan(world, id, plan(world, providers, delay)).await;
}

/// Opens the circuit of a provider. The first probe is due after this time.
pub(super) async fn open(world: &World, provider: Provider, probe_after: Duration) {
    open_after(world, provider, probe_after, DialFailure::AccountProblem).await;
}

/// Opens the circuit of a provider by this failure. The first probe is due after this time.
pub(super) async fn open_after(world: &World, provider: Provider, probe_after: Duration, failure: DialFailure) {
    let now = world.now();
    let signal = DialSignal::Failed { failure, cause: "test", retry_after: Some(probe_after) };
    for _ in 0..3 {
        let failed = |health: &ProviderHealth| {
            let next = health.after_dial(&CallId::new("failed"), signal, now)?;
            Some((next, ()))
        };
        world.calls.change_provider_health(provider, failed).await.unwrap();
    }
    assert!(world.calls.provider_health(provider).await.unwrap().is_open());
}

#[tokio::test(start_paused = true)]
async fn next_provider_is_asked_when_the_first_refuses_and_later_when_it_is_unavailable() {
    let mut secret = all_providers();
    secret["vapi"]["dial"] = json!({"api_key": "a key of Vapi for tests", "assistant_id": "a", "phone_number_id": "p"});
    let world = World::with_secret(&secret);
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    world.cloud.fake().set_mode_of(Provider::Vapi, Mode::Unauthorized);
    let both = [Provider::Vapi, Provider::Retell];
    for number in 0..3 {
        schedule(&world, &format!("refused-{number}"), &both, Duration::ZERO).await;
        world.wait(Duration::from_secs(10)).await;
        let call = world.call(&format!("refused-{number}")).await;
        assert_eq!(
            call.attempt_records.iter().map(|record| record.provider).collect::<Vec<_>>(),
            [Some(Provider::Retell)]
        );
    }
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    let before = world.cloud.fake().requests();
    // Vapi is not asked any more. A call that becomes due later goes to the other provider too; one without another waits.
    schedule(&world, "now", &both, Duration::ZERO).await;
    schedule(&world, "later", &both, Duration::from_secs(100)).await;
    schedule(&world, "alone", &[Provider::Vapi], Duration::from_secs(1)).await;
    world.wait(Duration::from_secs(10)).await;
    assert_eq!(world.cloud.fake().requests() - before, 1);
    assert_eq!(world.call("now").await.attempt_records.len(), 1);
    world.wait(MINUTE * 5).await;
    assert_eq!(world.call("later").await.attempt_records.len(), 1);
    let alone = world.call("alone").await;
    assert_eq!((alone.job.as_str(), alone.attempt_records.len()), ("PENDING", 0));
    assert_eq!(world.cloud.fake().dials().len(), 5);
}

/// Vapi takes a call above its limit under an id, and reports it later with our ids. That report must not withdraw the next
/// dial, and must not count as a failed attempt.
#[tokio::test(start_paused = true)]
async fn late_report_of_a_call_above_the_limit_withdraws_no_other_dial() {
    let mut secret = all_providers();
    secret["vapi"]["dial"] = json!({"api_key": "a key of Vapi for tests", "assistant_id": "a", "phone_number_id": "p"});
    let world = World::with_secret(&secret);
    // The test reports the calls itself, when it wants to.
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    world.cloud.fake().set_mode_of(Provider::Vapi, Mode::OverCapacity);
    schedule(&world, "blocked", &[Provider::Vapi], Duration::ZERO).await;
    let mut reported = 0;
    for _ in 0..20 {
        world.wait(Duration::from_secs(20)).await;
        let call = world.call("blocked").await;
        assert_eq!(call.attempts().len(), 0);
        assert_ne!(call.job.as_str(), "FAILED");
        // Each dial is reported once, while the next one is under way or waits.
        let Some(record) = call.attempt_records.get(reported) else { continue };
        reported += 1;
        assert_eq!(record.key.as_ref().map(ToString::to_string), Some(reported.to_string()));
        let ids = json!({"switchhook_call_id": "blocked", "switchhook_attempt": reported.to_string()});
        let message = json!({
            "type": "end-of-call-report",
            "endedReason": "call.start.error-subscription-concurrency-limit-reached",
            "call": {
                "id": record.provider_call_id, "type": "outboundPhoneCall", "endedAt": world.now().to_string(),
                "assistantOverrides": {"metadata": ids},
            },
        });
        world.accept(Provider::Vapi, &json!({"message": message}).to_string()).await;
    }
    assert!(reported > 1, "{reported} dials");
}

/// Retell's report that it dialled nobody, because the account has no credit.
fn undialled(event: &str, id: &str, provider_call_id: &str, ended: Timestamp) -> String {
    let ids = json!({"switchhook_call_id": id, "switchhook_attempt": "1"});
    let call = json!({
        "call_id": provider_call_id, "call_status": "not_connected", "disconnection_reason": "no_valid_payment",
        "end_timestamp": ended.as_millis(), "metadata": ids,
    });
    json!({"event": event, "call": call}).to_string()
}

/// Retell accepts the calls of an account without credit, and reports each of them twice as never dialled.
#[tokio::test(start_paused = true)]
async fn late_refusals_because_of_the_account_open_the_circuit_once() {
    let world = World::with_secret(&all_providers());
    let fake = world.cloud.fake();
    // The test reports the calls itself.
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let mut reports = Vec::new();
    for number in 0..3 {
        assert_eq!(provider_events(&world), Vec::<String>::new(), "{number} calls were not dialled");
        let id = format!("unpaid-{number}");
        schedule(&world, &id, &[Provider::Retell], Duration::ZERO).await;
        world.wait(Duration::from_secs(5)).await;
        let provider_call_id = world.call(&id).await.attempt_records[0].provider_call_id.clone().unwrap();
        for event in ["call_ended", "call_analyzed"] {
            let body = undialled(event, &id, &provider_call_id, world.now());
            world.accept(Provider::Retell, &body).await;
            reports.push(body);
        }
        world.quiesce().await;
        let call = world.call(&id).await;
        assert_eq!((call.attempts().len(), call.is_pending()), (0, true));
    }
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
    let health = world.calls.provider_health(Provider::Retell).await.unwrap();
    let event = health.domain_event().unwrap();
    assert_eq!((event.reason, event.cause.as_deref()), (Some("account_problem"), Some("account_not_dialled")));
    // Repetitions tell nothing new.
    for body in &reports {
        drop(world.post_signed(Provider::Retell, KEY, "", body.as_bytes()).await);
    }
    world.quiesce().await;
    assert_eq!(world.calls.provider_health(Provider::Retell).await.unwrap(), health);
}

/// The SDK repeats a write whose answer is lost, and the row refuses the repetition. The report counts all the same, once. The consumer gets the
/// first report twice in one batch: the sweep queues an event again that has waited in the queue for minutes.
#[tokio::test(start_paused = true)]
async fn refusals_count_although_the_answers_to_their_writes_are_lost() {
    let mut world = World::with_secret(&all_providers());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    for number in 0..3 {
        assert_eq!(provider_events(&world), Vec::<String>::new(), "{number} calls were not dialled");
        let id = format!("unpaid-{number}");
        schedule(&world, &id, &[Provider::Retell], Duration::ZERO).await;
        world.wait(Duration::from_secs(5)).await;
        let provider_call_id = world.call(&id).await.attempt_records[0].provider_call_id.clone().unwrap();
        let body = undialled("call_ended", &id, &provider_call_id, world.now());
        // The refold of the last call reads its report from the inbox.
        let is_refolded = number == 2;
        if is_refolded {
            post_stored_only(&world, Provider::Retell, &body).await;
        }
        let comes_twice = number == 0;
        if comes_twice {
            world.stop();
        }
        world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
        if is_refolded {
            report_drift(&world, &id, "drift").await;
        } else {
            world.accept(Provider::Retell, &body).await;
        }
        if comes_twice {
            let messages = world.receive();
            assert_eq!(messages.len(), 1);
            assert_eq!(world.invoke_consumer(&[&messages[..], &messages].concat()).await.len(), 2);
            world.start();
        }
        world.quiesce().await;
        world.clear_faults();
        let call = world.call(&id).await;
        assert_eq!((call.attempts().len(), call.is_pending()), (0, true));
    }
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
}

/// Retell's reports are stored and not queued, so that a refold reads them first.
#[tokio::test(start_paused = true)]
async fn refusals_that_refolds_find_open_the_circuit() {
    let world = World::with_secret(&all_providers());
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    for number in 0..3 {
        let id = format!("unpaid-{number}");
        schedule(&world, &id, &[Provider::Retell], Duration::ZERO).await;
        world.wait(Duration::from_secs(5)).await;
        let provider_call_id = world.call(&id).await.attempt_records[0].provider_call_id.clone().unwrap();
        post_stored_only(&world, Provider::Retell, &undialled("call_ended", &id, &provider_call_id, world.now())).await;
        report_drift(&world, &id, "drift").await;
        world.quiesce().await;
        let call = world.call(&id).await;
        assert_eq!((call.attempts().len(), call.is_pending()), (0, true));
    }
    assert_eq!(provider_events(&world), ["provider.unavailable"]);
}

/// A report about the probe that is late must not open the circuit again, because a later call was dialled.
#[tokio::test(start_paused = true)]
async fn call_that_is_dialled_after_the_accepted_probe_confirms_it() {
    let world = World::with_secret(&all_providers());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    fake.set_mode(Mode::OutOfCredit);
    for number in 0..3 {
        schedule(&world, &format!("unpaid-{number}"), &[Provider::Retell], Duration::ZERO).await;
    }
    world.wait(Duration::from_secs(10)).await;
    let health = async || world.calls.provider_health(Provider::Retell).await.unwrap();
    assert!(health().await.is_open());
    fake.set_mode(Mode::Normal);
    world.wait(MINUTE * 2).await;
    let closed = health().await;
    assert!(!closed.is_open() && closed.closed_by.is_some(), "{closed:?}");

    fake.set_delivery_faults(DeliveryFaults::NONE);
    schedule(&world, "paid", &[Provider::Retell], Duration::ZERO).await;
    world.wait(MINUTE).await;
    let confirmed = health().await;
    assert_eq!((confirmed.closed_by, confirmed.sequence), (None, closed.sequence));
}

/// The first provider gives no clear answer, and may have rung the phone or not. The second one would place the call.
#[tokio::test(start_paused = true)]
async fn call_in_doubt_is_given_to_no_other_provider() {
    let both = [Provider::Retell, Provider::Vapi];
    for (mode, rings) in [(Mode::Down, false), (Mode::FailsAfterDial, true)] {
        for (first, second) in [(both[0], both[1]), (both[1], both[0])] {
            let mut secret = all_providers();
            secret["vapi"]["dial"] =
                json!({"api_key": "a key of Vapi for tests", "assistant_id": "a", "phone_number_id": "p"});
            let world = World::with_secret(&secret);
            let fake = world.cloud.fake();
            fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
            fake.set_mode_of(first, mode);
            schedule(&world, "doubt", &[first, second], Duration::ZERO).await;
            world.wait(MINUTE * 4).await;
            let call = world.call("doubt").await;
            assert_eq!((call.job.as_str(), call.in_doubt().len()), ("IN_PROGRESS", 1), "{mode:?} {first}");
            let asked: Vec<_> = call.attempt_records.iter().map(|record| record.provider).collect();
            assert_eq!(asked, [Some(first)], "{mode:?} {first}");
            // The dial is found at the first provider, or it is known that it was not made.
            fake.set_mode_of(first, Mode::Normal);
            world.wait(HOUR).await;
            let rung: Vec<_> = fake.dials().into_iter().map(|dial| (dial.provider, dial.started_ms)).collect();
            assert_eq!((rung.len(), fake.duplicate_dials()), (1, 0), "{mode:?} {first}: {rung:?}");
            let began = world.now().as_millis() - i64::try_from((HOUR + MINUTE * 4).as_millis()).unwrap();
            assert_eq!(rung[0].1 < began + 60_000, rings, "{mode:?} {first}: {rung:?}");
            let call = world.call("doubt").await;
            assert_eq!((call.job.as_str(), call.attempts().len()), ("COMPLETED", 1), "{mode:?} {first}");
        }
    }
}

/// The first write creates the row, and the second changes it. The SDK repeats both, and the row refuses the repetitions.
#[tokio::test(start_paused = true)]
async fn change_whose_answer_is_lost_is_made_once() {
    let world = World::stopped();
    let change =
        |health: &ProviderHealth| Some((ProviderHealth { sequence: health.sequence + 1, ..health.clone() }, ()));
    for sequence in 1..=2 {
        world.inject_fault("PutItem", CALLS_TABLE, 1, Fault::ResponseLost);
        let changed = world.calls.change_provider_health(Provider::Retell, change).await;
        assert!(matches!(changed, Ok(Some(()))), "{changed:?}");
        assert_eq!(world.calls.provider_health(Provider::Retell).await.unwrap().sequence, sequence);
    }
}

/// Each invocation of a woken scheduler books its place alone, so many write the same row at the same moment.
#[tokio::test(start_paused = true)]
async fn forty_writers_of_a_health_at_once_all_succeed() {
    let world = World::new();
    world.inject_fault("PutItem", CALLS_TABLE, u64::MAX, Fault::Delay(Duration::from_millis(5)));
    let change =
        |health: &ProviderHealth| Some((ProviderHealth { sequence: health.sequence + 1, ..health.clone() }, ()));
    let writes = (0..40).map(|_| world.calls.change_provider_health(Provider::Retell, change));
    let refused = join_all(writes).await.iter().filter(|written| written.is_err()).count();
    let health = world.calls.provider_health(Provider::Retell).await.unwrap();
    assert_eq!((refused, health.sequence), (0, 40));
}
