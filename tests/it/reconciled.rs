//! The reconciler. It loses no call, whatever a provider answers to a lookup. A run ends before its timeout, however
//! much there is to do.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::calls::{Alias, AliasOutcome, StoreOutcome};
use switchhook_domain::{AttemptKey, Call, CallId, EventId, EventKind, Job, Provider, Timestamp, Transition};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::fake::{Behaviour, DeliveryFaults};
use switchhook_local::{CALLS_TABLE, CloudOptions, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::{
    INACTIVITY_TIMEOUT, INBOX_RETENTION, KEY, MINUTE, World, all_providers, generic, is_request_to, options, text,
};

use crate::budget::{request_counts, reset_counters};
use crate::outbound::{HOUR, all_accounts, call_request, call_state, create, get_call};

/// Timeout of the reconciler, in ms.
const RECONCILER_TIMEOUT_MS: i64 = 50_000;

/// Timeout of the consumer, in ms.
const CONSUMER_TIMEOUT_MS: i64 = 10_000;

/// Delay of a request, just below the time that the SDK waits for a response.
const SLOW: Duration = Duration::from_millis(950);

/// Lets the provider place a call that Switchhook did not ask for. Returns its provider call id.
pub(crate) fn place_outside(world: &World, behaviour: &str) -> String {
    let request = json!({"from_number": "+15550100", "to_number": "+15550199", "metadata": {"fake": behaviour}});
    let fake = world.cloud.fake();
    let answer = fake.handle("POST", "/v2/create-phone-call", Some("Bearer key"), request.to_string().as_bytes());
    text(&serde_json::from_str::<Value>(&answer.body).unwrap()["call_id"])
}

/// Looks a call up at the fake provider.
fn look_up_at_provider(world: &World, provider_call_id: &str) -> Value {
    let path = format!("/v2/get-call/{provider_call_id}");
    let answer = world.cloud.fake().handle("GET", &path, Some("Bearer key"), b"");
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The provider call id of the first call that the fake provider places. Its random numbers are the same in every
/// world.
fn first_provider_call_id() -> String {
    place_outside(&World::stopped(), "confirms")
}

/// The body of Retell's webhook about a call that has begun.
pub(crate) fn started(provider_call_id: &str, metadata: &Value, at: Timestamp) -> String {
    let call = json!({
        "call_id": provider_call_id, "call_status": "ongoing", "start_timestamp": at.as_millis(), "metadata": metadata,
    });
    json!({"event": "call_started", "call": call}).to_string()
}

/// The webhook of an ended call, without the metadata that the provider should have sent back.
pub(crate) fn ended_without_our_ids(world: &World, provider_call_id: &str) -> String {
    let mut call = look_up_at_provider(world, provider_call_id);
    assert!(call["call_analysis"].is_object(), "{call}");
    call.as_object_mut().unwrap().remove("metadata");
    json!({"event": "call_analyzed", "call": call}).to_string()
}

pub(crate) async fn post(world: &World, body: &str) -> EventId {
    world.accept(Provider::Retell, body).await
}

/// Consumes messages until the events queue is empty. Returns their number.
pub(crate) async fn consume_all(world: &World) -> usize {
    let mut all = 0;
    loop {
        let received = world.receive();
        if received.is_empty() {
            return all;
        }
        all += received.len();
        assert_eq!(world.consume(&received).await, received.len());
    }
}

/// Delays every request for these operations on these tables or queues.
fn delay_requests(world: &World, operations: &'static [(&'static str, &'static str)]) {
    world.set_fault_hook(move |call: &RequestInfo<'_>| {
        let hit = operations.iter().any(|(operation, on)| call.operation == *operation && is_request_to(call, on));
        hit.then_some(Fault::Delay(SLOW))
    });
}

/// Stores calls that ring, and that have been overdue for a long time. While [`slow_down`] delays requests, a run has no time for all of
/// them.
pub(crate) async fn store_overdue(world: &World) {
    world.accept(Provider::Generic, &generic("ringing", "overdue", "RINGING", 0)).await;
    consume_all(world).await;
    let call = world.call("ringing").await;
    store_copies(world, &call, "ringing-", 600).await;
    world.wait(INACTIVITY_TIMEOUT * 3).await;
}

/// Delays the requests that store and queue an event, almost as long as the SDK waits for a response.
pub(crate) fn slow_down(world: &World) {
    delay_requests(world, &[("PutItem", INBOX_TABLE), ("SendMessage", EVENTS_QUEUE)]);
}

/// Stores `count` copies of a call, under the ids `name` with a number.
pub(crate) async fn store_copies(world: &World, call: &Call, name: &str, count: usize) {
    for number in 0..count {
        let call = Call { call_id: CallId::new(format!("{name}{number}")), version: 1, ..call.clone() };
        let transition = Transition { call, new_announcements: 0 };
        assert_eq!(world.calls.store(&transition).await.unwrap(), StoreOutcome::Committed);
    }
}

// Calls that nobody reported

#[tokio::test(start_paused = true)]
async fn call_that_nobody_reported_is_discovered_once() {
    let mut secret = all_providers();
    secret["retell"]["discover"] = true.into();
    let world = World::with_secret(&secret);
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    world.wait(MINUTE * 5).await;
    // More calls than the provider lists on one page.
    for number in 0..25 {
        let metadata = json!({"fake": "confirms", "appointment_id": number.to_string()});
        let request = json!({"from_number": "+15550100", "to_number": "+15550199", "metadata": metadata}).to_string();
        let answer = world.cloud.fake().handle("POST", "/v2/create-phone-call", Some("Bearer key"), request.as_bytes());
        assert_eq!(answer.status, 201);
    }
    world.wait(INACTIVITY_TIMEOUT + HOUR * 2).await;
    for number in 0..25 {
        let call_id = format!("appointment:{number}");
        assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Confirmed, attempts [completed]");
        let call = world.call(&call_id).await;
        let reports: BTreeSet<&EventId> = call.history.iter().map(|entry| &entry.source_event_id).collect();
        assert_eq!(reports.len(), 1, "{:?}", call.history);
    }
}

/// The list of ElevenLabs only names the calls, so each unknown one is asked about by its id.
#[tokio::test(start_paused = true)]
async fn call_that_a_list_only_names_is_discovered_once() {
    let mut secret = all_providers();
    secret["elevenlabs"]["discover"] = true.into();
    secret["elevenlabs"]["dial"] =
        json!({"api_key": "a key of ElevenLabs for tests", "agent_id": "a", "agent_phone_number_id": "p"});
    let world = World::with_secret(&secret);
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    world.wait(MINUTE * 5).await;
    // More calls than the provider lists on one page.
    for number in 0..15 {
        let variables = json!({"fake": "confirms", "appointment_id": number.to_string()});
        let client_data = json!({"dynamic_variables": variables});
        let request = json!({"to_number": "+15550199", "conversation_initiation_client_data": client_data}).to_string();
        let answer = fake.handle("POST", "/v1/convai/twilio/outbound-call", Some("key"), request.as_bytes());
        assert_eq!(answer.status, 200);
    }
    world.wait(INACTIVITY_TIMEOUT + HOUR * 2).await;
    for number in 0..15 {
        let call_id = format!("appointment:{number}");
        assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Confirmed, attempts [completed]");
        let call = world.call(&call_id).await;
        let reports: BTreeSet<&EventId> = call.history.iter().map(|entry| &entry.source_event_id).collect();
        assert_eq!(reports.len(), 1, "{:?}", call.history);
    }
    // The drift check asks about each settled call once. While the periods overlap, discovery asks again: the list does not show the
    // appointment, under which the call is known.
    world.wait(HOUR * 5).await;
    let before = fake.requests();
    world.wait(HOUR).await;
    assert!(fake.requests() - before < 15, "{} requests", fake.requests() - before);
}

/// Calls are placed until the list is read for the second time, so the last of them are alive at that time.
#[tokio::test(start_paused = true)]
async fn call_that_a_callback_reported_under_another_id_is_not_discovered() {
    let mut secret = all_providers();
    secret["plivo"]["discover"] = true.into();
    secret["plivo"]["dial"] = json!({
        "auth_id": "MA1", "auth_token": "a token of Plivo for tests", "answer_url": "https://app.example.com/answer",
    });
    let world = World::with_secret(&secret);
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    world.wait(MINUTE * 5).await;
    let place = |number: &str| {
        let url = format!("https://app.example.com/answer?fake=busy&number={number}");
        let request = json!({"from": "442079460018", "to": number, "answer_url": url, "hangup_url": url}).to_string();
        let login = Some("Basic TUExOmEgdG9rZW4gb2YgUGxpdm8gZm9yIHRlc3Rz");
        let answer = fake.handle("POST", "/v1/Account/MA1/Call/", login, request.as_bytes());
        text(&serde_json::from_str::<Value>(&answer.body).unwrap()["request_uuid"])
    };
    let (reported, unreported) = (place("447700900001"), place("447700900002"));
    world.wait(MINUTE * 2).await;
    // The query of its callback has the ids of a call, and the record in Plivo's list has none.
    let body = format!("CallUUID={reported}&RequestUUID=r1&Event=Hangup&CallStatus=busy");
    let query = "switchhook_call_id=ours&switchhook_attempt=1";
    let (status, answer) = world.post_signed(Provider::Plivo, KEY, query, body.as_bytes()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    world.wait(INACTIVITY_TIMEOUT + HOUR * 2).await;
    assert!(world.load("ours").await.is_some());
    assert!(world.load(&format!("plivo:{unreported}")).await.is_some());
    assert!(world.load(&format!("plivo:{reported}")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn call_that_was_alive_when_its_period_was_read_is_discovered_later() {
    let mut secret = all_providers();
    secret["retell"]["discover"] = true.into();
    let options = CloudOptions { inactivity_timeout: Duration::from_secs(10), ..options(&secret) };
    let mut world = World::with_options(options);
    world.start();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    world.wait(MINUTE * 55).await;
    let mut placed = 0;
    while world.load("appointment:0").await.is_none() {
        assert!(placed < 240, "the list was not read");
        let metadata = json!({"fake": "confirms", "appointment_id": placed.to_string()});
        let request = json!({"from_number": "+15550100", "to_number": "+15550199", "metadata": metadata}).to_string();
        let answer = world.cloud.fake().handle("POST", "/v2/create-phone-call", Some("Bearer key"), request.as_bytes());
        assert_eq!(answer.status, 201);
        placed += 1;
        world.wait(Duration::from_secs(20)).await;
    }
    world.wait(HOUR * 3).await;
    for number in 0..placed {
        let state = call_state(&world, &format!("appointment:{number}")).await;
        assert_eq!(state, "job COMPLETED, appointment Confirmed, attempts [completed]", "{number} of {placed}");
    }
}

// The provider answers that a call is alive

/// Telnyx delivers a webhook again for a minute at most, so a longer outage loses the answer and the ending of a call.
#[tokio::test(start_paused = true)]
async fn answer_that_was_lost_with_the_ending_is_found_with_it() {
    let world = World::with_options(options(&all_accounts()));
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let id = fake.receive_call(Provider::Telnyx, "+447700900123", "+442079460018", Behaviour::Confirms);
    world.wait(MINUTE).await;
    let listed = fake.handle("GET", "/v2/call_events", Some("Bearer key"), b"");
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    let initiated = &listed["data"][0]["metadata"]["event"];
    assert_eq!(initiated["event_type"], "call.initiated", "{listed}");
    world.accept(Provider::Telnyx, &json!({"data": initiated}).to_string()).await;
    consume_all(&world).await;

    world.wait(INACTIVITY_TIMEOUT + MINUTE * 5).await;
    world.reconciler.run("test").await.unwrap();
    consume_all(&world).await;
    let call_id = format!("telnyx:{id}");
    let call = world.call(&call_id).await;
    let events: BTreeSet<&EventId> = call.history.iter().map(|entry| &entry.source_event_id).collect();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Connected, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn call_that_others_placed_and_that_is_told_to_live_gets_its_patience_anew_and_no_alias() {
    let id = first_provider_call_id();
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = format!("retell:{id}");
    post(&world, &started(&id, &Value::Null, world.now())).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE * 2).await;
    assert_eq!(get_call(&world, &call_id).await["lifecycle"], "inconclusive", "the provider does not know it yet");

    // The drift check leaves a call alone for ten minutes.
    world.wait(MINUTE * 10).await;
    assert_eq!(place_outside(&world, "confirms"), id);
    let report = world.cloud.check_drift().await.unwrap().unwrap();
    assert_eq!((report.lookups, report.drifted), (1, 1));
    world.quiesce().await;
    let call = get_call(&world, &call_id).await;
    assert_eq!(json!([call["lifecycle"], call["settled"]]), json!(["in_progress", false]));
    let call = world.call(&call_id).await;
    assert!(call.history.iter().any(|entry| entry.event.kind == EventKind::Alive), "{:?}", call.history);
    assert!(!call.history.iter().any(|entry| entry.event.kind == EventKind::Initiated), "Switchhook did not dial it");
    assert_eq!(world.cloud.check_drift().await.unwrap().unwrap().drifted, 0, "the row and the provider must agree");

    world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn call_that_ended_and_is_told_to_live_is_repaired_once() {
    let id = first_provider_call_id();
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let ended = json!({"event": "call_ended", "call": {
        "call_id": id, "call_status": "not_connected", "disconnection_reason": "dial_busy",
    }});
    post(&world, &ended.to_string()).await;
    world.wait(MINUTE * 12).await;
    assert_eq!(place_outside(&world, "confirms"), id);
    let mut drifted = Vec::new();
    for _ in 0..3 {
        drifted.push(world.cloud.check_drift().await.unwrap().unwrap().drifted);
        world.quiesce().await;
    }
    assert_eq!(drifted, [1, 0, 0]);
    assert_snapshot!(
        call_state(&world, &format!("retell:{id}")).await,
        @"job FAILED, appointment NoAnswer, attempts [busy]"
    );
}

#[tokio::test(start_paused = true)]
async fn no_call_becomes_an_alias_of_itself_and_none_of_ours_becomes_one() {
    let world = World::stopped();
    post(&world, &started("p1", &Value::Null, world.now())).await;
    consume_all(&world).await;
    let ours = create(&world, &call_request("confirms")).await;
    for (from, to) in [("retell:p1", "retell:p1"), (ours.as_str(), "retell:p1")] {
        let before = world.item(CALLS_TABLE, from).await;
        let alias = Alias { call_id: CallId::new(to), attempt: AttemptKey::new("1") };
        let outcome = world.calls.write_alias(&CallId::new(from), &alias, INBOX_RETENTION, world.now()).await.unwrap();
        let expected = if from == to { leads_to_no_event() } else { AliasOutcome::Refused };
        assert_eq!((outcome, world.item(CALLS_TABLE, from).await), (expected, before), "{from} to {to}");
        assert!(world.load(from).await.is_some(), "{from} to {to}");
    }
    // An alias is for a call that a webhook made: it becomes part of a call that Switchhook placed. A repeated write of
    // the alias changes nothing.
    for _ in 0..2 {
        let alias = Alias { call_id: CallId::new(&ours), attempt: AttemptKey::new("1") };
        let outcome =
            world.calls.write_alias(&CallId::new("retell:p1"), &alias, INBOX_RETENTION, world.now()).await.unwrap();
        assert!(matches!(outcome, AliasOutcome::Leads { orphaned_events } if orphaned_events.len() == 1));
        assert!(world.load("retell:p1").await.is_none());
    }
    // It never leads to another call: of two dials to one person, none takes the other's call.
    let other = create(&world, &call_request("busy")).await;
    let before = world.item(CALLS_TABLE, "retell:p1").await;
    let alias = Alias { call_id: CallId::new(&other), attempt: AttemptKey::new("1") };
    for id in ["retell:p1", "retell:p2"] {
        let first = Alias { call_id: CallId::new(&ours), attempt: AttemptKey::new("1") };
        drop(world.calls.write_alias(&CallId::new(id), &first, INBOX_RETENTION, world.now()).await.unwrap());
        let outcome = world.calls.write_alias(&CallId::new(id), &alias, INBOX_RETENTION, world.now()).await.unwrap();
        assert_eq!(outcome, AliasOutcome::Refused, "{id}");
        assert_eq!(world.item(CALLS_TABLE, id).await["alias_of"], before["alias_of"], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn alias_is_kept_for_the_retention_of_the_inbox_and_thirty_days_more() {
    let world = World::stopped();
    // A call has the first id, and becomes the alias. The second id is free.
    post(&world, &started("p1", &Value::Null, world.now())).await;
    consume_all(&world).await;
    let alias = Alias { call_id: CallId::new("ours"), attempt: AttemptKey::new("1") };
    for id in ["retell:p1", "retell:p2"] {
        for days in [90, 3_650] {
            let retention = HOUR * 24 * days;
            drop(world.calls.write_alias(&CallId::new(id), &alias, retention, world.now()).await.unwrap());
            let end = world.now().plus(HOUR * 24 * (days + 30)).as_millis() / 1_000;
            assert_eq!(world.item(CALLS_TABLE, id).await["expires_at"], AttributeValue::N(end.to_string()), "{id}");
        }
    }
}

fn leads_to_no_event() -> AliasOutcome {
    AliasOutcome::Leads { orphaned_events: BTreeSet::new() }
}

// The ending is stored under another call

#[tokio::test(start_paused = true)]
async fn call_in_doubt_whose_ending_made_another_call_takes_it_over() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let call_id = create(&world, &call_request("response_lost")).await;
    world.wait(MINUTE * 4).await;
    assert_eq!(world.call(&call_id).await.in_doubt().len(), 1);
    let id = fake.dials()[0].provider_call_id.clone();
    let other_call = format!("retell:{id}");
    let event_id = post(&world, &ended_without_our_ids(&world, &id)).await;
    world.quiesce().await;
    // The webhook has none of our ids, so it makes a call of its own.
    assert_snapshot!(
        call_state(&world, &other_call).await,
        @"job COMPLETED, appointment Confirmed, attempts [completed]"
    );

    world.wait(MINUTE * 15).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    let call = world.call(&call_id).await;
    assert!(call.is_settled() && call.contains_event(&event_id), "{call:?}");
    assert_eq!(call.attempt_records[0].provider_call_id.as_deref(), Some(id.as_str()));
    assert!(world.load(&other_call).await.is_none(), "the other call must have become an alias of ours");
    let requests = fake.requests();
    world.wait(HOUR / 2).await;
    assert_eq!((fake.requests(), fake.duplicate_dials()), (requests, 0), "no lookup must be left");
}

/// Two webhooks made another call, and a later version stored one of them. In the second case the lookup finds that one, so nobody knows the
/// person's decision.
#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_keeps_no_other_event_of_its_call_from_being_taken_over() {
    for (unreadable, outcome) in [("call_ended", "Confirmed"), ("call_analyzed", "Inconclusive")] {
        let world = World::new();
        let fake = world.cloud.fake();
        fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
        let call_id = create(&world, &call_request("response_lost")).await;
        world.wait(MINUTE * 4).await;
        let id = fake.dials()[0].provider_call_id.clone();
        let analyzed = ended_without_our_ids(&world, &id);
        let mut ended: Value = serde_json::from_str(&analyzed).unwrap();
        ended["event"] = "call_ended".into();
        ended["call"].as_object_mut().unwrap().remove("call_analysis");
        let ids = [post(&world, &ended.to_string()).await, post(&world, &analyzed).await];
        world.quiesce().await;
        let event_id = ids.iter().find(|id| id.as_str().contains(unreadable)).unwrap();
        let mut later = world.item(INBOX_TABLE, event_id.as_str()).await;
        later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
        world.put_item(INBOX_TABLE, later).await;

        world.wait(MINUTE * 15).await;
        let state = call_state(&world, &call_id).await;
        assert_eq!(state, format!("job COMPLETED, appointment {outcome}, attempts [completed]"), "{unreadable}");
        let alias = world.item(CALLS_TABLE, &format!("retell:{id}")).await;
        assert!(!alias.contains_key("wake_at"), "{unreadable}: {alias:?}");
        assert_eq!(world.logged("reconcile_failed"), [] as [Value; 0], "{unreadable}");
    }
}

#[tokio::test(start_paused = true)]
async fn ending_that_stays_with_another_call_leads_to_the_deadline() {
    let world = World::new();
    let fake = world.cloud.fake();
    fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
    let id = place_outside(&world, "confirms");
    // Others placed the call. One of its webhooks names the appointment, and the other one does not.
    post(&world, &started(&id, &json!({"appointment_id": "apt"}), world.now())).await;
    world.wait(MINUTE * 3).await;
    post(&world, &ended_without_our_ids(&world, &id)).await;
    world.wait(INACTIVITY_TIMEOUT + MINUTE).await;
    let call = world.call("appointment:apt").await;
    assert!(!call.is_settled(), "the ending may still be on its way");

    world.wait(MINUTE * 7).await;
    assert_snapshot!(
        call_state(&world, "appointment:apt").await,
        @"job FAILED, appointment Inconclusive, attempts [inconclusive]"
    );
    assert_snapshot!(
        call_state(&world, &format!("retell:{id}")).await,
        @"job COMPLETED, appointment Confirmed, attempts [completed]"
    );
    let requests = fake.requests();
    world.wait(HOUR / 4).await;
    assert_eq!(fake.requests(), requests, "a settled call must not be looked up again");
}

#[tokio::test(start_paused = true)]
async fn answer_that_was_stored_but_not_queued_is_swept_to_the_call_that_was_asked_about() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let id = place_outside(&world, "confirms");
    // The provider's answer names no appointment.
    post(&world, &started(&id, &json!({"appointment_id": "apt"}), world.now())).await;
    consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT).await;
    world.inject_fault("SendMessage", EVENTS_QUEUE, 3, Fault::NotSent);
    assert!(world.reconciler.run("one").await.is_err());
    world.clear_faults();
    assert_eq!(world.queued(), [] as [Value; 0], "the event must be stored and not queued");

    world.wait(MINUTE * 3).await;
    assert_eq!(world.reconciler.run("two").await.unwrap().requeued, 1);
    consume_all(&world).await;
    assert_snapshot!(
        call_state(&world, "appointment:apt").await,
        @"job COMPLETED, appointment Confirmed, attempts [completed]"
    );
    assert!(world.load(&format!("retell:{id}")).await.is_none(), "no other call may be made");
}

#[tokio::test(start_paused = true)]
async fn what_switchhook_found_out_about_a_stray_call_is_refused_by_the_call_that_it_became_part_of() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
    let ours = create(&world, &call_request("forgotten")).await;
    world.cloud.schedule().await.unwrap().unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    post(&world, &started("p1", &Value::Null, world.now())).await;
    consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT).await;
    // A deadline and another event of the call are queued when it becomes an attempt of our call.
    assert!(world.reconciler.run("test").await.unwrap().deadlines_passed > 0);
    let ended = json!({"event": "call_ended", "call": {
        "call_id": "p1", "call_status": "not_connected", "disconnection_reason": "dial_busy",
    }});
    let ended = post(&world, &ended.to_string()).await;
    let deadline = world.queued().iter().map(|message| text(&message["event"]["event_id"])).collect::<Vec<_>>();
    let deadline = EventId::new(deadline.iter().find(|id| id.starts_with("switchhook:retell:p1/")).unwrap());
    let alias = Alias { call_id: CallId::new(&ours), attempt: AttemptKey::new("1") };
    drop(world.calls.write_alias(&CallId::new("retell:p1"), &alias, INBOX_RETENTION, world.now()).await.unwrap());
    consume_all(&world).await;

    let call = world.call(&ours).await;
    assert_eq!(call.attempt_records.len(), 1, "{:?}", call.attempt_records);
    assert!(call.contains_event(&ended) && !call.contains_event(&deadline), "{:?}", call.history);
    let mut refused = world.logged("refused");
    refused.retain(|line| line["cause"] == "no_call");
    assert_eq!(refused.iter().map(|line| text(&line["event_id"])).collect::<Vec<_>>(), [deadline.as_str()]);
    let note = world.inbox.get_note(&deadline).await.unwrap().unwrap();
    assert_eq!(note.disposition.map(|disposition| disposition.as_str()), Some("refused"));
    assert_eq!(world.dead_letters(), [] as [Value; 0]);
}

// Refolding

/// Stores a call with an event per minute, changes the job in its row, and lets a drift check find the difference.
async fn altered_call(world: &World, minutes: u64) {
    for minute in 0..=minutes {
        let body = generic("c1", &format!("e{minute}"), "RINGING", minute * 60);
        world.accept(Provider::Generic, &body).await;
        consume_all(world).await;
        if minute < minutes {
            world.wait(MINUTE).await;
        }
    }
    world.alter_text("c1", "job", "FAILED").await;
    assert_eq!(world.reconciler.check_drift("test").await.unwrap().drifted, 1);
}

#[tokio::test(start_paused = true)]
async fn refold_that_would_take_too_long_leaves_the_row_to_the_next_drift_run() {
    let world = World::stopped();
    altered_call(&world, 40).await;
    let before = world.item(CALLS_TABLE, "c1").await;
    delay_requests(&world, &[("Query", INBOX_TABLE)]);
    let began = world.now();
    let received = world.receive();
    assert_eq!((received.len(), world.consume(&received).await), (1, 1), "the message must be deleted");
    assert!(world.now().millis_since(began) <= CONSUMER_TIMEOUT_MS / 2, "{:?}", world.now());
    assert_eq!(world.item(CALLS_TABLE, "c1").await, before);
    let lines = world.logged("refold_too_long");
    assert_eq!(lines.len(), 1);
    assert_eq!(json!([lines[0]["function"], lines[0]["call_id"]]), json!(["consumer", "c1"]));
    // The note tells the sweep that this event does not wait for its fold.
    let note = world.inbox.get_note(&EventId::new(text(&lines[0]["event_id"]))).await.unwrap().unwrap();
    assert_eq!(note.cause.as_deref(), Some("refold_too_long"));

    world.clear_faults();
    world.wait(HOUR).await;
    assert_eq!(world.reconciler.check_drift("again").await.unwrap().drifted, 1);
    consume_all(&world).await;
    assert_eq!(world.call("c1").await.job, Job::InProgress);
    assert_eq!(world.reconciler.check_drift("again").await.unwrap().drifted, 0);
}

#[tokio::test(start_paused = true)]
async fn refold_costs_a_read_for_each_event_and_a_page_for_each_minute_around_the_call() {
    let world = World::stopped();
    altered_call(&world, 2).await;
    reset_counters(&world);
    let received = world.receive();
    world.consume(&received).await;
    // The reads: the call, and its three events by the ids in its row. The pages: two minutes before the call, its own
    // three, and fifteen after it.
    let minutes = 2 + 3 + 15;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1 + 3), ("PutItem", 1), ("Query", minutes)]));
    let capacity = world.capacity();
    assert_eq!(capacity["GetItem"].read_units, 4.0);
    assert!(capacity["Query"].read_units <= minutes as f64 * 0.5, "{capacity:?}");
}

// Runs end before their timeout

#[tokio::test(start_paused = true)]
async fn minute_that_is_too_much_for_one_run_is_swept_by_workers_and_keeps_no_call_from_waking() {
    const LOST: usize = 900;
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("silent", "silent", "RINGING", 0)).await;
    consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT).await;
    world.reconciler.run("before").await.unwrap();
    consume_all(&world).await;
    world.accept(Provider::Generic, &generic("later", "later", "RINGING", 0)).await;
    consume_all(&world).await;
    world.wait(INACTIVITY_TIMEOUT - MINUTE * 3).await;
    world.reconciler.run("before").await.unwrap();
    world.crash_at("SendMessage", EVENTS_QUEUE);
    for number in 0..LOST {
        let body = generic(&format!("c{number}"), &format!("e{number}"), "RINGING", 0);
        assert_eq!(world.post(Provider::Generic, &body).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    }
    world.wait(MINUTE * 3).await;

    delay_requests(&world, &[("SendMessage", EVENTS_QUEUE)]);
    let began = world.now();
    let report = world.reconciler.run("test").await.unwrap();
    let took = world.now().millis_since(began);
    assert!(took < RECONCILER_TIMEOUT_MS, "{took} ms: {report:?}");
    assert_eq!(report.deadlines_passed, 1, "the sweep must not keep a call from being woken: {report:?}");
    assert!(report.requeued > 0 && report.handed_on > 0, "{report:?}");
    let mut requeued = report.requeued + world.repair().await.iter().map(|worker| worker.requeued).sum::<u64>();
    // The workers of the test come one after the other, and stop before the next run.
    world.wait(MINUTE).await;
    requeued += world.reconciler.run("next").await.unwrap().requeued;
    requeued += world.repair().await.iter().map(|worker| worker.requeued).sum::<u64>();
    assert_eq!(requeued, LOST as u64);
    let lost = world.queued().iter().filter(|message| text(&message["event"]["event_id"]).contains(":e")).count();
    assert_eq!(lost, LOST);
}

#[tokio::test(start_paused = true)]
async fn more_due_calls_than_there_is_time_for_are_left_to_the_next_run() {
    const DUE: usize = 1_200;
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c", "e", "RINGING", 0)).await;
    consume_all(&world).await;
    store_copies(&world, &world.call("c").await, "c", DUE - 1).await;
    world.wait(INACTIVITY_TIMEOUT).await;
    delay_requests(&world, &[("GetItem", CALLS_TABLE)]);
    let mut woken = 0;
    let mut runs = 0;
    while woken < DUE as u64 && runs < 9 {
        let began = world.now();
        let report = world.reconciler.run("test").await.unwrap();
        let took = world.now().millis_since(began);
        assert!(took < RECONCILER_TIMEOUT_MS, "{took} ms: {report:?}");
        assert_eq!((report.woken, report.failed), (report.deadlines_passed, 0));
        woken += report.woken;
        runs += 1;
        assert_eq!(world.logged("reconciled").len(), runs);
        // The deadlines that were found are folded. The other calls stay due.
        world.clear_faults();
        consume_all(&world).await;
        delay_requests(&world, &[("GetItem", CALLS_TABLE)]);
    }
    assert!(woken == DUE as u64 && runs > 1, "{woken} calls were woken in {runs} runs");
}

#[tokio::test(start_paused = true)]
async fn call_whose_provider_was_not_asked_for_want_of_requests_has_no_deadline() {
    let world = World::stopped();
    post(&world, &started("p", &Value::Null, world.now())).await;
    consume_all(&world).await;
    store_copies(&world, &world.call("retell:p").await, "retell:p", 969).await;
    // It is now so late that the reconciler no longer waits for a provider that cannot answer.
    world.wait(INACTIVITY_TIMEOUT * 3).await;
    let run = async |trace_id| {
        let reports = [world.reconciler.run(trace_id).await.unwrap()].into_iter().chain(world.repair().await);
        reports.fold((0, 0, 0), |(lookups, sent, deadlines), report| {
            (lookups + report.lookups, sent + report.requests.sent, deadlines + report.deadlines_passed)
        })
    };
    // Workers leave over less than the 20 requests that they take at once.
    let (first, sent, deadlines) = run("one").await;
    assert!(first > 940 && first <= 960, "{first} lookups");
    assert_eq!((sent, deadlines), (first, first));
    consume_all(&world).await;
    world.wait(MINUTE).await;
    let left = 970 - first;
    assert_eq!(run("two").await, (left, left, left));
}

#[tokio::test(start_paused = true)]
async fn drift_run_stops_in_time_and_says_what_it_did() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c", "e", "RINGING", 0)).await;
    consume_all(&world).await;
    // The job in every row differs from what the events give.
    let altered = Call { job: Job::Failed, ..world.call("c").await };
    store_copies(&world, &altered, "awake", 250).await;
    let settled = Call { wake_at: None, settled_at: Some(world.now()), ..altered };
    store_copies(&world, &settled, "settled", 250).await;
    world.wait(MINUTE * 11).await;
    delay_requests(&world, &[("GetItem", CALLS_TABLE), ("PutItem", INBOX_TABLE), ("SendMessage", EVENTS_QUEUE)]);
    let began = world.now();
    let report = world.reconciler.check_drift("test").await.unwrap();
    let took = world.now().millis_since(began);
    assert!(took < RECONCILER_TIMEOUT_MS, "{took} ms: {report:?}");
    assert!(report.checked > 0 && report.checked < 200 && report.drifted > 0, "{report:?}");
    let lines = world.logged("drift_run");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["drift_checked"], report.checked);
}
