//! Webhooks that are about no call, and hold data of our person: in their bodies, and in the values that `data` names.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use switchhook_domain::CallId;
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, INBOX_TABLE};
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::forget::ForgetFilter;
use switchhook_operate::selection::call_or_entity;
use switchhook_operate::verify::{VerifyFilter, plan_repair, verify};
use switchhook_tests::{MINUTE, World};

use super::places::places;
use super::reached::make_dead_letter;
use super::{MAX, NAME, NUMBER, calls, plan_of_last_hour, stored};
use crate::bookings;
use crate::operator::{HOUR, carry_out, stack};
use crate::outbound::send;
use crate::received::{KEY_OF_PAYMENT, payment, post, received, secret};

/// A webhook about the payment of our person, for an appointment.
fn of_person(id: &str, second: u32, appointment: &str) -> Value {
    let mut body = payment(id, second);
    body["payment"]["note"] = json!(NAME);
    body["payment"]["appointment"] = json!(appointment);
    body
}

fn appointment(id: &str) -> ForgetFilter {
    ForgetFilter::Appointment(id.to_owned())
}

/// Places in the stack that hold a trace of our person. The bus is left out: an event that was published is out of reach.
async fn places_in_stack(world: &World) -> BTreeSet<String> {
    let mut found = places(world).await;
    found.remove("bus");
    found
}

#[tokio::test(start_paused = true)]
async fn forgotten_entity_leaves_no_trace_and_late_webhooks_bring_none_back() {
    let world = World::with_secret(&secret());
    for (id, second) in [("e1", 10), ("e3", 30), ("e2", 20)] {
        post(&world, &of_person(id, second, "appt_201")).await;
    }
    world.wait(MINUTE).await;
    assert_eq!(places_in_stack(&world).await.len(), 4);
    let restored = world.item(CALLS_TABLE, KEY_OF_PAYMENT).await;
    let published = received(&world).len();
    let plan = plan_of_last_hour(&world, calls(&[KEY_OF_PAYMENT])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    world.wait(MINUTE).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    assert_eq!(received(&world).len(), published, "forgetting announces nothing");
    assert!(plan_of_last_hour(&world, calls(&[KEY_OF_PAYMENT])).await.items.is_empty());
    // Late webhooks, one of them stale, are ordered as before.
    for (id, second) in [("e4", 40), ("e0", 1)] {
        post(&world, &of_person(id, second, "appt_201")).await;
    }
    world.wait(MINUTE * 5).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    let late = &received(&world)[published..];
    let [late] = late else { panic!("{late:?}") };
    assert_eq!(json!([late["event_id"], late["data"]]), json!(["x-pay:e4", {}]));
    let stack = stack(&world);
    let verified = || async { verify(&stack, &VerifyFilter::Since, stack.now().minus(HOUR), &mut |_, _| {}).await };
    assert!(verified().await.unwrap().is_clean());
    // The row is restored from a backup, or lost. Its erased events forget it again.
    for row in [Some(restored), None] {
        match row {
            Some(row) => world.put_item(CALLS_TABLE, row).await,
            None => world.delete_item(CALLS_TABLE, KEY_OF_PAYMENT).await,
        }
        let report = verified().await.unwrap();
        assert_eq!(report.findings.len(), 1);
        let plan = plan_repair(&stack, &VerifyFilter::Since, &report, MAX).await.unwrap();
        carry_out(&stack, &plan).await;
        world.quiesce().await;
        assert!(verified().await.unwrap().is_clean(), "{:?}", verified().await);
        assert_eq!(places_in_stack(&world).await, BTreeSet::new());
        assert!(world.item(CALLS_TABLE, KEY_OF_PAYMENT).await.contains_key("forgotten_at"));
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_of_an_entity_is_found_by_the_appointment_in_its_body() {
    let world = World::with_secret(&secret());
    post(&world, &of_person("e1", 10, "appt_201")).await;
    world.wait(MINUTE).await;
    assert_eq!(places_in_stack(&world).await.len(), 2);
    // Another id begins alike.
    let nothing = plan_of_last_hour(&world, appointment("appt_20")).await;
    assert!(nothing.items.is_empty(), "{nothing:?}");
    let plan = plan_of_last_hour(&world, appointment("appt_201")).await;
    let entities: BTreeSet<&CallId> = plan.items.iter().filter_map(|item| item.call_id.as_ref()).collect();
    assert_eq!(entities, BTreeSet::from([&CallId::new(KEY_OF_PAYMENT)]));
    carry_out(&stack(&world), &plan).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    assert!(stored(&world, "x-pay:e1").await.is_erased());
    // The entity itself is not forgotten: it may be about other persons too.
    let mut other = payment("e2", 20);
    other["payment"]["note"] = json!("for somebody else");
    post(&world, &other).await;
    world.wait(MINUTE).await;
    let published = received(&world);
    assert_eq!(published.last().unwrap()["data"]["note"], "for somebody else");
    let again = plan_of_last_hour(&world, appointment("appt_201")).await;
    assert!(again.items.is_empty(), "{again:?}");
}

/// Webhook of Cal.com that names our person.
fn of_attendee(mut body: Value) -> Value {
    body["payload"]["title"] = json!(NAME);
    body
}

/// No rule of the configuration knows the type of two of the webhooks. The booking was moved, which made another booking of it.
#[tokio::test(start_paused = true)]
async fn forgotten_booking_leaves_no_webhook_that_no_rule_knows_or_that_names_it() {
    let uid = "7nJ2kQ9xLm";
    let world = World::with_secret(&bookings::secret());
    let received = [
        bookings::created(uid, 0, 18_000),
        bookings::calcom("BOOKING_PAID", uid, 10, 18_000),
        bookings::moved(uid, "vB5tR8wZpc", 20, 21_600),
    ];
    bookings::receive(&world, &received.map(of_attendee)).await;
    assert_eq!(places_in_stack(&world).await.len(), 3);
    let plan = plan_of_last_hour(&world, calls(&[&format!("entity:x-calcom:{uid}")])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    bookings::receive(&world, &[of_attendee(bookings::calcom("MEETING_ENDED", uid, 30, 18_000))]).await;
    assert_eq!(places_in_stack(&world).await.len(), 1);
    world.wait(MINUTE * 5).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
}

/// Calendly's ids are URLs, which do not fit into a key. Users write them as they are.
#[tokio::test(start_paused = true)]
async fn booking_with_a_long_id_is_forgotten_by_this_id() {
    let uid = format!("https://api.example.com/scheduled_events/{}/invitees/{}", "e".repeat(36), "i".repeat(36));
    let world = World::with_secret(&bookings::secret());
    bookings::receive(&world, &[of_attendee(bookings::created(&uid, 0, 18_000))]).await;
    let written = call_or_entity(format!("entity:x-calcom:{uid}"));
    assert!(world.calls.entity(&written).await.unwrap().is_some(), "{written}");
    let plan = plan_of_last_hour(&world, ForgetFilter::Calls(vec![written.clone()])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    bookings::receive(&world, &[of_attendee(bookings::calcom("MEETING_ENDED", &uid, 30, 18_000))]).await;
    world.wait(MINUTE * 5).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    // A key is not hashed again, and an id of a call stays as it is.
    for id in [written.as_str(), "entity:x-calcom:short", "entity:event:x", "retell:c1", "entity:"] {
        assert_eq!(call_or_entity(id).as_str(), id);
    }
}

/// While the call of a booking waits, it has to know whom to call. So it is canceled before it is forgotten.
#[tokio::test(start_paused = true)]
async fn call_of_a_forgotten_booking_is_named_while_it_waits_and_forgotten_once_it_is_canceled() {
    let world = World::with_secret(&bookings::secret());
    let mut booked = bookings::created("b1", 0, 18_000);
    booked["payload"]["responses"]["attendeePhoneNumber"]["value"] = json!(NUMBER);
    bookings::receive(&world, &[booked]).await;
    let id = bookings::call_id(&world, "b1").await.unwrap();
    let stack = stack(&world);
    let plan = plan_of_last_hour(&world, calls(&["entity:x-calcom:b1"])).await;
    let waiting = plan.skipped.iter().find(|skipped| skipped.item == id).unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(waiting.reason.contains("its job is PENDING: cancel it"), "{plan:#?}");
    carry_out(&stack, &plan).await;
    let of_call = BTreeSet::from([format!("{CALLS_TABLE} {id}"), format!("{INBOX_TABLE} switchhook:{id}/created")]);
    assert_eq!(places_in_stack(&world).await, of_call);

    let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={id}"), None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
    let plan = plan_of_last_hour(&world, calls(&["entity:x-calcom:b1"])).await;
    assert_eq!((plan.skipped_count, carry_out(&stack, &plan).await.counts.skipped), (0, 0), "{plan:#?}");
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
    world.wait(HOUR * 6).await;
    assert_eq!(world.cloud.fake().dials(), []);
}

/// The appointment had begun when it was booked. The operator never named the id that its call would have had.
#[tokio::test(start_paused = true)]
async fn booking_without_a_call_is_forgotten_and_the_plan_names_nothing_that_is_missing() {
    let world = World::with_secret(&bookings::secret());
    bookings::receive(&world, &[of_attendee(bookings::created("b1", 0, -60))]).await;
    assert!(bookings::call_id(&world, "b1").await.is_some());
    let plan = plan_of_last_hour(&world, calls(&["entity:x-calcom:b1"])).await;
    assert_eq!((plan.not_found.len(), plan.skipped_count), (0, 0), "{plan:#?}");
    carry_out(&stack(&world), &plan).await;
    assert_eq!(places_in_stack(&world).await, BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn plan_of_a_redrive_holds_nothing_of_the_person() {
    let world = World::with_secret(&secret());
    post(&world, &of_person("e1", 10, "appt_201")).await;
    world.wait(MINUTE).await;
    make_dead_letter(&world, "x-pay:e1").await;
    let before = places_in_stack(&world).await;
    assert!(before.contains(&format!("queue {EVENTS_DEAD_LETTER_QUEUE}")), "{before:#?}");
    let all = LetterFilter { all: true, ..LetterFilter::default() };
    let plan = plan_redrive(&stack(&world), &all, MAX).await.unwrap();
    assert_eq!(plan.items.len(), 1, "{plan:?}");
    assert_eq!(places_in_stack(&world).await, before);
}
