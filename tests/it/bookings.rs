//! Bookings: an appointment that is booked schedules a call, one that is moved moves it, and one that is canceled calls it off.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod discarded;
mod moved;

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::inbox::creation_id;
use switchhook_domain::{CallId, Entity, EventId, Job, PhoneNumber, StopReason, Timestamp};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, CloudOptions, EVENTS_QUEUE, INBOX_TABLE, WEBHOOK_KEYS_SECRET};
use switchhook_operate::forget::{self, ForgetFilter, ForgetRequest};
use switchhook_operate::plan::{EFFECTS_MAX, Plan, Subject};
use switchhook_operate::run::{self, Run, RunId, RunOptions};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{KEY, MINUTE, START_S, World, all_providers, down, is_request_to, options, text};

use crate::budget::{request_counts, reset_counters};
use crate::configured;
use crate::operator::{HOUR, carry_out, stack};
use crate::repair::{self, everything, plan_replay};

pub(crate) const CALCOM: &str = "x-calcom";
const CALENDLY: &str = "x-calendly";
/// The number that the attendee of most bookings gives. It is always busy.
const WRITTEN: &str = "+1 415-555-0123";
const MINUTE_S: i64 = 60;
pub(crate) const HOUR_S: i64 = 60 * MINUTE_S;

/// Entry of the example, with the key of the tests. Calls are placed an hour before the start, at any time of the day.
fn entry(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/providers/{name}.json"));
    let mut entry =
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()[format!("x-{name}")].take();
    entry["keys"] = json!([KEY]);
    entry["events"]["booked_call"] = json!({"providers": ["retell"], "from": "+15550100", "before_minutes": 60});
    entry
}

pub(crate) fn secret() -> Value {
    let mut secret = all_providers();
    for name in ["calcom", "calendly"] {
        secret[format!("x-{name}")] = entry(name);
    }
    secret
}

fn at(second: i64) -> String {
    Timestamp::from_millis((i64::try_from(START_S).unwrap() + second) * 1_000).to_string()
}

/// Webhook of Cal.com. `second` is its time, and `starts` the start of the appointment, in seconds from the start of the test.
pub(crate) fn calcom(trigger: &str, uid: &str, second: i64, starts: i64) -> Value {
    json!({
        "triggerEvent": trigger, "createdAt": at(second),
        "payload": {
            "uid": uid, "startTime": at(starts), "status": "ACCEPTED",
            "responses": {"attendeePhoneNumber": {"label": "phone_number", "value": WRITTEN}},
        },
    })
}

pub(crate) fn created(uid: &str, second: i64, starts: i64) -> Value {
    calcom("BOOKING_CREATED", uid, second, starts)
}

pub(crate) fn canceled(uid: &str, second: i64) -> Value {
    calcom("BOOKING_CANCELLED", uid, second, 0)
}

/// The booking `old` was moved, and has a new id.
pub(crate) fn moved(old: &str, new: &str, second: i64, starts: i64) -> Value {
    let mut body = calcom("BOOKING_RESCHEDULED", new, second, starts);
    body["payload"]["rescheduleUid"] = json!(old);
    body
}

fn signed(world: &World, name: &str, body: &Value) -> Request<Bytes> {
    configured::signed(world, name, &secret()[name], body)
}

async fn post_to(world: &World, name: &str, body: &Value) {
    let (code, answer) = world.send(signed(world, name, body)).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

async fn post(world: &World, body: &Value) {
    post_to(world, CALCOM, body).await;
}

/// Posts webhooks one after the other, and has each folded before the next.
pub(crate) async fn receive(world: &World, bodies: &[Value]) {
    for body in bodies {
        post(world, body).await;
        world.quiesce().await;
    }
}

pub(crate) async fn booking(world: &World, name: &str, id: &str) -> Entity {
    world.calls.entity(&CallId::new(format!("entity:{name}:{id}"))).await.unwrap().unwrap()
}

/// Id of the present call of a booking of Cal.com. `None` if it has none.
pub(crate) async fn call_id(world: &World, uid: &str) -> Option<String> {
    booking(world, CALCOM, uid).await.booking.unwrap().call_id.map(|id| id.to_string())
}

#[tokio::test(start_paused = true)]
async fn booking_schedules_a_call_and_its_end_calls_it_off() {
    let mut world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, 3 * HOUR_S)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    let call = world.call(&id).await;
    assert_eq!(
        call.job,
        Job::Pending { due_at: Timestamp::from_millis((i64::try_from(START_S).unwrap() + 2 * HOUR_S) * 1_000) }
    );
    assert_eq!(call.to.as_ref().map(|to| to.as_str()), Some("+14155550123"));
    assert_eq!(call.appointment_id.as_deref(), Some("b1"));
    receive(&world, &[canceled("b1", 10)]).await;
    let call = world.call(&id).await;
    assert_eq!((call.job, call.stop_reason), (Job::Canceled, Some(StopReason::BookingChanged)));
    world.skip(MINUTE * 115).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(world.cloud.fake().dials(), []);
    // The webhook of the calendar tells whether the appointment is over.
    assert_eq!(world.published_types(&id), ["call.canceled"]);
    let status = world.status(&EventId::new("x-calcom:b1:BOOKING_CREATED:2026-01-01T00%3A00%3A00.000Z")).await;
    assert_eq!(text(&status["status"]), "processed", "{status}");
}

/// Returns the job of the call of each booking, and the number of dials. Checks that the calls of each booking agree with its row.
async fn outcome(world: &World, ids: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for id in ids {
        let booking = booking(world, CALCOM, id).await.booking.unwrap();
        assert!(booking.calls_agree && booking.superseded.is_empty(), "{booking:?}");
        let job = match &booking.call_id {
            Some(call_id) => world.call(call_id.as_str()).await.job.as_str(),
            None => "no call",
        };
        lines.push(format!("{id}: {job}"));
    }
    let dialled = world.cloud.fake().dials().len();
    lines.push(format!("dials: {dialled}"));
    lines
}

async fn waiting_calls(world: &World) -> usize {
    let (code, answer) = world.get("/calls?job=PENDING").await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    answer["calls"].as_array().unwrap().len()
}

fn permutations(bodies: &[Value]) -> Vec<Vec<Value>> {
    if bodies.len() < 2 {
        return vec![bodies.to_vec()];
    }
    let with_first = |first: usize| {
        let mut rest = bodies.to_vec();
        let first = rest.remove(first);
        permutations(&rest).into_iter().map(move |rest| [vec![first.clone()], rest].concat())
    };
    (0..bodies.len()).flat_map(with_first).collect()
}

#[tokio::test(start_paused = true)]
async fn events_in_any_order_and_number_give_one_result() {
    let story = [created("b1", 0, 5 * HOUR_S), moved("b1", "b2", 10, 6 * HOUR_S), moved("b2", "b3", 20, 7 * HOUR_S)];
    let ended = [created("b1", 0, 5 * HOUR_S), moved("b1", "b2", 10, 6 * HOUR_S), canceled("b2", 20)];
    for (bodies, ids, expected) in [
        (story, vec!["b1", "b2", "b3"], vec!["b1: no call", "b2: no call", "b3: PENDING", "dials: 0"]),
        (ended, vec!["b1", "b2"], vec!["b1: no call", "b2: no call", "dials: 0"]),
    ] {
        for mut order in permutations(&bodies) {
            order.push(order[0].clone());
            let world = World::with_secret(&secret());
            receive(&world, &order).await;
            assert_eq!(outcome(&world, &ids).await, expected, "{order:?}");
            // Every call that was made on the way was called off.
            assert_eq!(waiting_calls(&world).await, usize::from(ids.len() == 3), "{order:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn batch_gives_the_same_result() {
    let world = World::with_options(options(&secret()));
    for body in [canceled("b1", 20), created("b1", 0, 5 * HOUR_S), calcom("BOOKING_RESCHEDULED", "b1", 10, 6 * HOUR_S)]
    {
        post(&world, &body).await;
    }
    assert_eq!(world.consume(&world.receive()).await, 3);
    assert_eq!(outcome(&world, &["b1"]).await, ["b1: no call", "dials: 0"]);
}

#[tokio::test(start_paused = true)]
async fn recorded_booking_is_replayed_once_a_rule_knows_it_and_the_plan_counts_its_phone() {
    let world = with_recorded_move().await;
    assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"]);

    let stack = stack(&world);
    let plan = plan_replay(&stack, &everything()).await;
    assert_eq!((plan.items.len(), plan.phones), (1, 1), "{plan:?}");
    // The booking is not counted among the calls, and programs can tell them apart.
    assert_eq!((plan.calls, plan.effects_on(Subject::Booking), plan.calls_without_effect()), (0, 1, 0));
    assert_eq!(json!(plan)["effects"][0]["about"], "booking");
    let refused = repair::carry_out(&stack, &plan).await.unwrap_err();
    assert!(matches!(refused, Error::Refusal(Refusal::CouldRing(1))), "{refused}");
    assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"]);
    let allowed = RunOptions { allow_ringing: true, ..repair::options() };
    let run = run::start(&stack, &plan.id, plan.verb, allowed, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(run.result(), "1 done, 0 unchanged, 0 skipped");
    world.quiesce().await;
    assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: no call", "b2: PENDING", "dials: 0"]);
    assert_eq!(waiting_calls(&world).await, 1);
}

/// Id of the event that moves `b1` to `b2`.
const MOVED_B2: &str = "x-calcom:b2:BOOKING_RESCHEDULED:2026-01-01T00%3A00%3A10.000Z";

/// A stack that has recorded the move of the booking `b1` to `b2`, because no rule knew it. Now a rule does.
async fn with_recorded_move() -> World {
    let mut old = secret();
    old[CALCOM]["events"]["rules"] = json!([{"when": {"type": "BOOKING_CREATED"}, "event": "booked"}]);
    let mut world = World::with_options(CloudOptions { reads_secrets: true, ..options(&old) });
    world.start();
    receive(&world, &[created("b1", 0, 5 * HOUR_S), moved("b1", "b2", 10, 6 * HOUR_S)]).await;
    world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, &secret().to_string());
    world
}

/// The person is forgotten after the run has read the event. An earlier run may have been killed once it had stored the event that calls
/// the old booking off.
#[tokio::test(start_paused = true)]
async fn run_calls_nothing_off_for_a_booking_that_is_erased_meanwhile() {
    for is_second_run in [false, true] {
        let world = with_recorded_move().await;
        let stack = stack(&world);
        let plan = plan_replay(&stack, &everything()).await;
        let start = {
            let (stack, id, verb) = (stack.clone(), plan.id.clone(), plan.verb);
            let allowed = RunOptions { allow_ringing: true, ..repair::options() };
            async move { run::start(&stack, &id, verb, allowed, &mut |_| ControlFlow::Continue(())).await }
        };
        let id = RunId::of_plan(&plan.id);
        let mut go_on = |_: &Run| ControlFlow::Continue(());
        let run: Pin<Box<dyn Future<Output = Result<Run, Error>> + '_>> = if is_second_run {
            world.set_fault_hook(|call| {
                let is_kept = call.operation == "UpdateItem" && is_request_to(call, INBOX_TABLE);
                assert!(
                    !(call.sender == Some("operator") && is_kept),
                    "the run is killed before it stores the meaning, as the test demands"
                );
                None
            });
            tokio::spawn(start).await.unwrap_err();
            assert_eq!(replaced_events(&world).await.len(), 1);
            Box::pin(run::resume(&stack, &id, "bob", &mut go_on))
        } else {
            Box::pin(start)
        };
        world.set_fault_hook(|call| {
            let is_first_write = call.sender == Some("operator")
                && call.operation == "PutItem"
                && String::from_utf8_lossy(call.body).contains("/replaced");
            is_first_write.then_some(Fault::Delay(Duration::from_millis(200)))
        });
        let erase = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(world.inbox.erase(&EventId::new(MOVED_B2), world.now()).await.unwrap());
        };
        let (run, ()) = tokio::join!(run, erase);
        assert_eq!(run.unwrap().result(), "0 done, 0 unchanged, 1 skipped");
        world.clear_faults();
        world.wait(MINUTE * 10).await;
        assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"]);
        assert_eq!(replaced_events(&world).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_move_that_was_erased_and_arrives_again_calls_nothing_off() {
    let world = with_recorded_move().await;
    assert!(world.inbox.erase(&EventId::new(MOVED_B2), world.now()).await.unwrap());
    // Ingress has read the corrected entry by then.
    world.wait(MINUTE * 10).await;
    post(&world, &moved("b1", "b2", 10, 6 * HOUR_S)).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"]);
    assert_eq!(replaced_events(&world).await, [""; 0]);

    // The entry is indeed another one.
    receive(&world, &[moved("b1", "b3", 20, 6 * HOUR_S)]).await;
    assert_eq!(outcome(&world, &["b1", "b3"]).await, ["b1: no call", "b3: PENDING", "dials: 0"]);
}

/// The second webhook has the id of the first and says something else. Nobody reads it, so it must not call a booking off.
#[tokio::test(start_paused = true)]
async fn webhook_that_contradicts_a_stored_move_calls_nothing_off() {
    let mut world = World::with_secret(&secret());
    world.start();
    receive(&world, &[created("b0", 0, 5 * HOUR_S), created("b1", 0, 5 * HOUR_S), moved("b1", "b2", 10, 6 * HOUR_S)])
        .await;
    let all = ["b0: PENDING", "b1: no call", "b2: PENDING", "dials: 0"];
    assert_eq!(outcome(&world, &["b0", "b1", "b2"]).await, all);

    post(&world, &moved("b0", "b2", 10, 6 * HOUR_S)).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(outcome(&world, &["b0", "b1", "b2"]).await, all);
    assert_eq!(replaced_events(&world).await.len(), 1);
}

/// Keys of the stored events that call a booking off because another one replaces it.
async fn replaced_events(world: &World) -> Vec<String> {
    let keys = world.items(INBOX_TABLE).await.into_iter().map(|item| format!("{:?}", item["event_id"]));
    keys.filter(|key| key.contains("/replaced")).collect()
}

/// A plan works out the effect on 500 calls and bookings.
#[tokio::test(start_paused = true)]
async fn plan_of_many_bookings_names_those_that_it_does_not_work_out() {
    let world = World::with_options(options(&secret()));
    for number in 0..=EFFECTS_MAX {
        post(&world, &created(&format!("b{number}"), 0, 5 * HOUR_S)).await;
    }
    let plan = plan_replay(&stack(&world), &everything()).await;
    assert_eq!((plan.calls, plan.effects_on(Subject::Booking), plan.phones), (0, EFFECTS_MAX, EFFECTS_MAX));
    assert_eq!((plan.items.len(), plan.entities_without_effect), (EFFECTS_MAX + 1, 1));
    assert_eq!(plan.without_effect().as_deref(), Some("up to 1 more booking"));
}

#[tokio::test(start_paused = true)]
async fn run_that_is_killed_at_any_request_moves_the_booking_in_the_end() {
    let mut is_killed = true;
    let mut requests = 0;
    while is_killed {
        let world = with_recorded_move().await;
        let stack = stack(&world);
        let plan = plan_replay(&stack, &everything()).await;
        let count = AtomicU64::new(0);
        world.set_fault_hook(move |call| {
            let is_last = call.sender == Some("operator") && count.fetch_add(1, Ordering::Relaxed) >= requests;
            assert!(!is_last, "the run is killed here, as the test demands");
            None
        });
        let start = |plan: &Plan| {
            let (stack, id, verb) = (stack.clone(), plan.id.clone(), plan.verb);
            let allowed = RunOptions { allow_ringing: true, ..repair::options() };
            async move { run::start(&stack, &id, verb, allowed, &mut |_| ControlFlow::Continue(())).await }
        };
        is_killed = tokio::spawn(start(&plan)).await.is_err();
        world.clear_faults();
        // The sweep and the schedules may come before somebody goes on.
        world.wait(MINUTE * 5).await;
        let resumed = run::resume(&stack, &RunId::of_plan(&plan.id), "bob", &mut |_| ControlFlow::Continue(())).await;
        match resumed {
            Ok(_) | Err(Error::Refusal(Refusal::Finished { .. })) => {}
            Err(Error::Refusal(Refusal::UnknownRun(_))) => drop(start(&plan).await.unwrap()),
            Err(other) => panic!("{other}"),
        }
        world.wait(MINUTE * 5).await;
        assert_eq!(
            outcome(&world, &["b1", "b2"]).await,
            ["b1: no call", "b2: PENDING", "dials: 0"],
            "after {requests} requests"
        );
        requests += 1;
    }
    assert!(requests > 10, "{requests}");
}

fn with_number(mut body: Value, number: &Value) -> Value {
    body["payload"]["responses"]["attendeePhoneNumber"]["value"] = number.clone();
    body
}

#[tokio::test(start_paused = true)]
async fn consumer_that_dies_at_any_request_leaves_nothing_undone() {
    // With the move, the consumer reads and writes two rows and two calls, and looks at the call of the replaced booking.
    let mut dies = true;
    let mut requests = 0;
    while dies {
        let mut world = World::with_options(options(&secret()));
        world.start();
        receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
        world.stop();
        post(&world, &moved("b1", "b2", 10, 6 * HOUR_S)).await;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        world.set_fault_hook(move |call| {
            let is_last = call.sender == Some("consumer") && counter.fetch_add(1, Ordering::Relaxed) == requests;
            assert!(!is_last, "the function crashes here, as the test demands");
            None
        });
        world.start();
        world.wait(MINUTE * 10).await;
        world.clear_faults();
        world.wait(MINUTE * 10).await;
        assert_eq!(
            outcome(&world, &["b1", "b2"]).await,
            ["b1: no call", "b2: PENDING", "dials: 0"],
            "after {requests} requests"
        );
        dies = count.load(Ordering::Relaxed) > requests;
        requests += 1;
    }
    assert!(requests > 12, "{requests}");
}

/// Ingress dies at each of its requests in turn, and the calendar does not repeat the webhook.
#[tokio::test(start_paused = true)]
async fn ingress_that_dies_at_any_request_schedules_no_call_too_many() {
    let mut is_killed = true;
    let mut requests = 0;
    while is_killed {
        let mut world = World::with_secret(&secret());
        receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
        world.stop();
        let count = AtomicU64::new(0);
        world.set_fault_hook(move |call| {
            let is_last = call.sender == Some("ingress") && count.fetch_add(1, Ordering::Relaxed) == requests;
            assert!(!is_last, "the function crashes here, as the test demands");
            None
        });
        is_killed = world.send(signed(&world, CALCOM, &moved("b1", "b2", 10, 6 * HOUR_S))).await.0 != StatusCode::OK;
        world.clear_faults();
        let queued: Vec<String> = world.queued().iter().map(|message| text(&message["event"]["call_id"])).collect();
        let order = ["entity:x-calcom:b1", "entity:x-calcom:b2"];
        assert_eq!(queued, order[..queued.len()], "after {requests} requests");
        world.start();
        world.wait(MINUTE * 10).await;
        assert!(waiting_calls(&world).await <= 1, "after {requests} requests");
        if !is_killed {
            assert_eq!(outcome(&world, &["b1", "b2"]).await, ["b1: no call", "b2: PENDING", "dials: 0"]);
        }
        requests += 1;
    }
    assert!(requests > 5, "{requests}");
}

#[tokio::test(start_paused = true)]
async fn sweep_finishes_what_a_lost_message_left_undone() {
    let mut world = World::with_options(options(&secret()));
    post(&world, &created("b1", 0, 5 * HOUR_S)).await;
    // The row is written, and then the tables fail. Somebody deletes the message.
    let messages = world.receive();
    let writes = AtomicU64::new(0);
    world.set_fault_hook(move |call| {
        let fails = call.operation == "PutItem" && writes.fetch_add(1, Ordering::Relaxed) > 0;
        fails.then(down)
    });
    assert!(world.invoke_consumer(&messages).await.is_empty());
    world.clear_faults();
    for message in &messages {
        world.cloud.services().sqs().delete(EVENTS_QUEUE, &message.receipt_handle).unwrap();
    }
    assert!(!booking(&world, CALCOM, "b1").await.booking.unwrap().calls_agree);
    // The queue drops an event that it got less than five minutes ago.
    world.wait(MINUTE * 6).await;
    world.start();
    world.wait(MINUTE * 10).await;
    assert_eq!(outcome(&world, &["b1"]).await, ["b1: PENDING", "dials: 0"]);
}

#[tokio::test(start_paused = true)]
async fn number_on_the_do_not_call_list_is_not_called() {
    let world = World::with_secret(&secret());
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    list.block(&PhoneNumber::new("+14155550123"), world.now()).await.unwrap();
    receive(&world, &[created("b1", 0, HOUR_S)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    world.wait(MINUTE * 5).await;
    let call = world.call(&id).await;
    assert_eq!((call.job, call.stop_reason), (Job::Failed, Some(StopReason::DoNotCall)));
    assert_eq!(world.cloud.fake().dials(), []);
}

fn calendly(event: &str, invitee: &str, second: i64, starts: i64) -> Value {
    json!({
        "event": event, "created_at": at(second),
        "payload": {
            "uri": format!("https://api.calendly.com/scheduled_events/{invitee}"), "text_reminder_number": WRITTEN,
            "rescheduled": event == "invitee.canceled", "scheduled_event": {"start_time": at(starts)},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn both_events_of_calendly_move_a_call_in_either_order() {
    let (first, second) = ("E1/invitees/I1", "E2/invitees/I2");
    for is_canceled_first in [true, false] {
        let world = World::with_secret(&secret());
        let mut pair =
            [calendly("invitee.canceled", first, 10, 5 * HOUR_S), calendly("invitee.created", second, 10, 6 * HOUR_S)];
        if !is_canceled_first {
            pair.reverse();
        }
        post_to(&world, CALENDLY, &calendly("invitee.created", first, 0, 5 * HOUR_S)).await;
        for body in pair {
            post_to(&world, CALENDLY, &body).await;
            world.quiesce().await;
        }
        let mut states = Vec::new();
        for invitee in [first, second] {
            let id = format!("https://api.calendly.com/scheduled_events/{invitee}");
            let booking = booking(&world, CALENDLY, &id).await.booking.unwrap();
            states.push(booking.call_id.is_some());
        }
        assert_eq!(states, [false, true]);
        assert_eq!(waiting_calls(&world).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn booking_that_names_nobody_to_call_schedules_nothing() {
    let world = World::with_secret(&secret());
    let booked = created("b1", 0, 5 * HOUR_S);
    for number in [json!(null), json!("call me"), json!("sip:desk@example.com"), json!("(415) 555-0123"), json!(5)] {
        receive(&world, &[with_number(booked.clone(), &number)]).await;
    }
    let mut without_start = created("b2", 0, 0);
    without_start["payload"]["startTime"] = json!("soon");
    receive(&world, &[without_start, created("b3", 0, -HOUR_S)]).await;
    let mut without_id = created("b4", 0, 5 * HOUR_S);
    without_id["payload"].as_object_mut().unwrap().remove("uid");
    let (code, answer) = world.send(signed(&world, CALCOM, &without_id)).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("quarantined")), "{answer}");
    world.quiesce().await;
    let reasons: Vec<String> = world.logged("booking_without_call").iter().map(|line| text(&line["cause"])).collect();
    assert_eq!(reasons, ["no_number", "no_start", "too_late"]);
    assert_eq!(call_id(&world, "b1").await, None);
    assert_eq!(waiting_calls(&world).await, 0);
    // Each of them is published all the same.
    let received = world.domain_events().into_iter().filter(|event| event["type"] == "webhook.received").count();
    assert_eq!(received, 3);
}

#[tokio::test(start_paused = true)]
async fn late_booking_is_called_at_once_and_never_after_its_start() {
    let mut world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, 30 * MINUTE_S)]).await;
    assert_eq!(world.cloud.fake().dials().len(), 1);
    // The stack stands still until the next appointment has begun.
    receive(&world, &[created("b2", 0, 3 * HOUR_S)]).await;
    let id = call_id(&world, "b2").await.unwrap();
    world.skip(Duration::from_secs(4 * 3_600)).await;
    world.wait(MINUTE * 5).await;
    let call = world.call(&id).await;
    assert_eq!((call.job, call.stop_reason), (Job::Failed, Some(StopReason::TooLate)));
    assert!(world.cloud.fake().dials().iter().all(|dial| dial.call_id != id));
}

#[tokio::test(start_paused = true)]
async fn corrected_number_moves_the_call_and_a_cancellation_by_the_user_stands() {
    let world = World::with_secret(&secret());
    let other = json!("+14155550104");
    receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
    let first = call_id(&world, "b1").await.unwrap();
    let corrected = with_number(calcom("BOOKING_RESCHEDULED", "b1", 10, 5 * HOUR_S), &other);
    receive(&world, &[corrected]).await;
    let second = call_id(&world, "b1").await.unwrap();
    assert_eq!(world.call(&first).await.stop_reason, Some(StopReason::BookingChanged));
    let request = Request::post(format!("/call/cancel?id={second}")).body(Bytes::new()).unwrap();
    assert_eq!(world.send(request).await.0, StatusCode::OK);
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 20, 6 * HOUR_S)]).await;
    receive(&world, &[with_number(calcom("BOOKING_RESCHEDULED", "b1", 30, 5 * HOUR_S), &other)]).await;
    assert_eq!(call_id(&world, "b1").await.as_ref(), Some(&second));
    let call = world.call(&second).await;
    assert_eq!((call.job, call.stop_reason), (Job::Canceled, Some(StopReason::CanceledByUser)));
}

#[tokio::test(start_paused = true)]
async fn user_cancels_a_call_that_its_booking_has_called_off() {
    let world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 10, 6 * HOUR_S)]).await;
    assert_eq!(world.call(&id).await.stop_reason, Some(StopReason::BookingChanged));
    let told = world.published_types(&id);
    for _ in 0..2 {
        let request = Request::post(format!("/call/cancel?id={id}")).body(Bytes::new()).unwrap();
        let (code, shown) = world.send(request).await;
        assert_eq!((code, &shown["job"]["stop_reason"]), (StatusCode::OK, &json!("canceled_by_user")));
    }
    receive(&world, &[]).await;
    assert_eq!(world.published_types(&id), told, "the call was canceled before");
    // The booking is again as it was when the call was created, and the row of the call is lost.
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 20, 5 * HOUR_S)]).await;
    assert_eq!(call_id(&world, "b1").await.as_ref(), Some(&id));
    let stop_reason = || async { world.call(&id).await.stop_reason };
    assert_eq!(stop_reason().await, Some(StopReason::CanceledByUser));
    world.delete_item(CALLS_TABLE, id.as_str()).await;
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 30, 5 * HOUR_S + 1)]).await;
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 40, 5 * HOUR_S)]).await;
    assert_eq!(stop_reason().await, Some(StopReason::CanceledByUser));
}

#[tokio::test(start_paused = true)]
async fn forgotten_booking_schedules_no_further_call() {
    let world = World::with_secret(&secret());
    receive(&world, &[created("b1", 0, 5 * HOUR_S)]).await;
    let id = call_id(&world, "b1").await.unwrap();
    let stack = stack(&world);
    let filter = ForgetFilter::Calls(vec![CallId::new("entity:x-calcom:b1")]);
    let request = ForgetRequest { filter, since: Some(stack.now().minus(HOUR)), also_do_not_call: false };
    let plan = forget::plan(&stack, &request, 100, &mut |_, _| {}).await.unwrap();
    assert!(plan.skipped.iter().any(|skipped| skipped.item == id && skipped.reason.contains("cancel it")), "{plan:#?}");
    assert_eq!(carry_out(&stack, &plan).await.counts.skipped, 0);
    assert!(booking(&world, "x-calcom", "b1").await.forgotten_at.is_some());
    // It is moved. Its earlier call is called off, and it gets no other.
    receive(&world, &[calcom("BOOKING_RESCHEDULED", "b1", 10, 6 * HOUR_S)]).await;
    assert_eq!(waiting_calls(&world).await, 0, "{id}");
    let refused = world.logged("booking_without_call");
    assert!(refused.iter().any(|line| line["cause"] == "forgotten"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn booking_costs_five_requests_and_its_repetition_one() {
    let world = World::with_options(options(&secret()));
    post(&world, &created("b1", 0, 5 * HOUR_S)).await;
    let messages = world.receive();
    reset_counters(&world);
    world.invoke_consumer(&messages).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 4)]));
    world.invoke_consumer(&messages).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1)]));
    world.consume(&messages).await;
    world.relay().await;
    // The write that says that the calls agree announces nothing again.
    let received = world.domain_events().into_iter().filter(|event| event["type"] == "webhook.received").count();
    assert_eq!(received, 1);
}

#[tokio::test(start_paused = true)]
async fn webhook_that_cal_com_did_not_sign_is_refused() {
    let world = World::with_secret(&secret());
    let (mut parts, body) = signed(&world, CALCOM, &created("b1", 0, HOUR_S)).into_parts();
    parts.headers.insert("x-cal-signature-256", "no-secret-provided".parse().unwrap());
    assert_eq!(world.send(Request::from_parts(parts, body)).await.0, StatusCode::UNAUTHORIZED);
}

/// An appointment may be further away than the inbox remembers its events.
#[tokio::test(start_paused = true)]
async fn row_of_a_booking_is_kept_until_after_its_start() {
    let world = World::with_secret(&secret());
    let days = |days: i64| days * 24 * HOUR_S;
    let expires_at = async |table, key: String| {
        let item = world.item(table, &key).await;
        let AttributeValue::N(seconds) = &item["expires_at"] else { panic!("{item:?}") };
        seconds.parse::<i64>().unwrap() - i64::try_from(START_S).unwrap()
    };
    receive(&world, &[created("b1", 0, days(300))]).await;
    let row = || expires_at(CALLS_TABLE, "entity:x-calcom:b1".to_owned());
    assert!(row().await > days(300));
    // A canceled booking could be reported again, when the inbox has forgotten the events.
    let id = CallId::new(call_id(&world, "b1").await.unwrap());
    receive(&world, &[canceled("b1", 1)]).await;
    assert!(row().await > days(300));
    // The row and the records of its call are kept for their retentions after the start too, although the call is due earlier.
    let of_call = async |id: &CallId| {
        let (creation, dials) = (creation_id(id).to_string(), format!("dials:{id}"));
        [
            expires_at(CALLS_TABLE, id.to_string()).await,
            expires_at(INBOX_TABLE, creation).await,
            expires_at(INBOX_TABLE, dials).await,
        ]
    };
    let after_start = [days(700), days(330), days(343)];
    assert_eq!(of_call(&id).await, after_start);
    // So are those of a call that is dialled before it is due.
    receive(&world, &[created("b2", 2, days(300))]).await;
    let id = call_id(&world, "b2").await.unwrap();
    let request = Request::post(format!("/call/trigger?id={id}")).body(Bytes::new()).unwrap();
    assert_eq!(world.send(request).await.0, StatusCode::OK);
    world.wait(MINUTE * 5).await;
    assert!(!world.cloud.fake().dials().is_empty());
    assert_eq!(of_call(&CallId::new(&id)).await, after_start);
}
