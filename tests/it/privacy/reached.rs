//! Reach of forgetting: everything that Switchhook stores about a person.

use std::collections::BTreeSet;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::inbox::Note;
use switchhook_aws::queue::{MESSAGE_SCHEMA, Message};
use switchhook_domain::{CallId, EventId, PhoneNumber, Provider};
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, EVENTS_DEAD_LETTER_QUEUE, INBOX_TABLE};
use switchhook_operate::dead_letters::{LetterFilter, plan_redrive};
use switchhook_operate::forget::{self, ForgetFilter, ForgetRequest};
use switchhook_operate::plan::{Action, Verb};
use switchhook_operate::run::{self, RunOptions};
use switchhook_operate::verify::{VerifyFilter, verify};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{MINUTE, World, generic};

use super::places::places;
use super::{
    MAX, NAME, NUMBER, RETELL_CALL, about, calls, finished_call, forget_calls, number, plan_of_last_hour, planned,
    retell, stored,
};
use crate::operator::{HOUR, carry_out, carry_out_in_two, stack};
use crate::outbound::{call_request, create, send};
use crate::repair::{consume_all, drop_messages};
use crate::traffic::noise;

const LARGE_CALL: &str = "large";

/// Dead letter with an event of the call `c1`, which the consumer could not fold.
async fn dead_letter(world: &World) {
    world.accept(Provider::Generic, &about("c1", "dead", "RINGING", 2, "my hip is broken")).await;
    drop_messages(world);
    make_dead_letter(world, "generic:dead").await;
}

/// Makes a dead letter of a stored event.
pub(super) async fn make_dead_letter(world: &World, event_id: &str) {
    let event = world.inbox.get_normalized(&EventId::new(event_id)).await.unwrap().unwrap();
    let note = Note {
        attempts: 20,
        error: Some(format!("could not call {NAME}")),
        dead_lettered_at: Some(world.now()),
        ..Note::default()
    };
    world.inbox.put_note(&event, &note, world.now()).await.unwrap();
    let group = event.call_id.to_string();
    let body = Message { schema_version: MESSAGE_SCHEMA, trace_id: "t".to_owned(), event };
    let message = NewMessage {
        body: serde_json::to_string(&body).unwrap(),
        group: Some(group),
        deduplication_id: Some(event_id.to_owned()),
        ..NewMessage::default()
    };
    world.cloud.services().sqs().send(EVENTS_DEAD_LETTER_QUEUE, message).unwrap();
}

/// A world that holds our person wherever a person can be. Returns it with the id of the call that Switchhook placed.
async fn seeded() -> (World, String) {
    let mut world = World::new();
    for name in ["call_started", "transcript_updated", "call_ended", "call_analyzed"] {
        let (code, answer) = world.post(Provider::Retell, &retell(name)).await;
        assert_eq!(code, 200, "{answer}");
    }
    finished_call(&world, "c1").await;
    // A second body under the id of a stored event.
    world.post(Provider::Generic, &about("c1", "c1-ENDED", "ENDED", 61, "my hip is broken again")).await;
    // A body in chunks.
    let large = about(LARGE_CALL, "large", "BUSY", 5, &format!("my hip is broken {}", noise(900_000)));
    world.accept(Provider::Generic, &large).await;
    // A webhook that cannot be read, and names no call.
    world
        .post(
            Provider::Retell,
            &json!({"event": "call_ended", "call": {"to_number": NUMBER, "name": NAME}}).to_string(),
        )
        .await;
    // A call that Switchhook places.
    let mut request = call_request("confirms");
    request["to"] = json!(NUMBER);
    request["metadata"]["customer"] = json!(NAME);
    request["appointment_id"] = json!("apt_9");
    let placed = create(&world, &request).await;
    world.wait(MINUTE * 20).await;
    // Its alias was a call of its own before.
    let alias = world.items(CALLS_TABLE).await.into_iter().find(|item| item.contains_key("alias_of"));
    let mut alias = alias.unwrap();
    for name in ["to", "party"] {
        alias.insert(name.to_owned(), AttributeValue::S(NUMBER.to_owned()));
    }
    alias.insert("created_at".to_owned(), AttributeValue::N("1".to_owned()));
    world.put_item(CALLS_TABLE, alias).await;
    world.stop();
    dead_letter(&world).await;
    // A plan is stored for a day.
    let all = LetterFilter { all: true, ..LetterFilter::default() };
    assert!(!plan_redrive(&stack(&world), &all, MAX).await.unwrap().items.is_empty());
    // Another person's call.
    world.start();
    world.accept(Provider::Generic, &generic("other", "other-1", "BUSY", 3)).await;
    world.quiesce().await;
    (world, placed)
}

fn kinds(places: &BTreeSet<String>) -> BTreeSet<&str> {
    let kind = |place: &str| {
        let (of, key) = place.split_once(' ').unwrap();
        match (of, key.split(':').next().unwrap()) {
            ("queue", _) => "queue",
            (INBOX_TABLE, "chunk") => "chunk",
            (INBOX_TABLE, "conflict") => "conflict",
            (INBOX_TABLE, "note") => "note",
            (INBOX_TABLE, "plan") => "plan",
            (INBOX_TABLE, _) => "event",
            (CALLS_TABLE, _) => "row",
            (_, _) => "elsewhere",
        }
    };
    places.iter().map(|place| kind(place)).collect()
}

#[tokio::test(start_paused = true)]
async fn forgotten_person_is_in_no_row_no_body_and_no_queue() {
    let (world, placed) = seeded().await;
    let before = places(&world).await;
    assert_eq!(kinds(&before), BTreeSet::from(["chunk", "conflict", "event", "note", "queue", "row"]), "{before:#?}");
    let stack = stack(&world);
    let plan = planned(&stack, number(), false).await;
    assert_eq!((plan.calls, plan.skipped_count, plan.capped), (4, 0, false), "{plan:#?}");
    assert!(
        plan.effects.iter().all(|effect| effect.before == effect.after && effect.announces.is_empty()),
        "{plan:#?}"
    );
    assert_eq!(places(&world).await, before, "a plan changes nothing and holds no number");
    let run = carry_out_in_two(&stack, &plan).await;
    assert_eq!((run.counts.skipped, run.counts.unchanged), (0, 0), "{run:#?}");
    assert_eq!(places(&world).await, BTreeSet::new());

    for id in ["c1", LARGE_CALL, RETELL_CALL, &placed] {
        let call = world.call(id).await;
        assert!(call.forgotten_at.is_some() && call.party().is_none(), "{call:?}");
    }
    assert_eq!(world.call("other").await.forgotten_at, None);
    assert!(world.dead_letters().iter().all(|letter| !letter.to_string().contains("generic:dead")));
    let chunks = world.items(INBOX_TABLE).await.into_iter();
    let chunks = chunks.filter(|item| matches!(&item["event_id"], AttributeValue::S(key) if key.starts_with("chunk:")));
    assert_eq!(chunks.count(), 0);
    assert!(stored(&world, "generic:large").await.is_erased());
    let again = planned(&stack, calls(&["c1", LARGE_CALL, RETELL_CALL, &placed]), false).await;
    assert_eq!(again.items, [], "nothing is left to do");
}

/// The consumer gave the event up twice.
#[tokio::test(start_paused = true)]
async fn dead_letters_of_one_event_are_one_item_and_all_are_deleted() {
    let mut world = World::new();
    finished_call(&world, "c1").await;
    world.quiesce().await;
    world.stop();
    dead_letter(&world).await;
    // SQS drops a repetition within five minutes.
    world.wait(MINUTE * 6).await;
    make_dead_letter(&world, "generic:dead").await;
    assert_eq!(world.dead_letters().len(), 2);
    let stack = stack(&world);
    let plan = planned(&stack, calls(&["c1"]), false).await;
    let letters = plan.items.iter().filter(|item| item.action == Action::EraseDeadLetter);
    assert_eq!(letters.map(|item| item.messages).collect::<Vec<_>>(), [2], "{plan:#?}");
    assert_eq!(carry_out(&stack, &plan).await.counts.skipped, 0);
    assert!(world.dead_letters().is_empty());
}

/// The consumer gave the event up before another one made the row. So it arrived before the time since which the index is read.
#[tokio::test(start_paused = true)]
async fn event_of_a_dead_letter_is_erased_whenever_it_arrived() {
    let world = World::stopped();
    dead_letter(&world).await;
    world.wait(MINUTE * 70).await;
    finished_call(&world, "c1").await;
    consume_all(&world).await;
    let plan = plan_of_last_hour(&world, calls(&["c1"])).await;
    assert_eq!(carry_out(&stack(&world), &plan).await.counts.skipped, 0);
    assert_eq!(places(&world).await, BTreeSet::new());
    assert!(stored(&world, "generic:dead").await.is_erased());
}

/// The sender used one event id twice: first for another person's call, then for a call of our person.
#[tokio::test(start_paused = true)]
async fn conflicting_body_is_deleted_and_the_event_of_another_call_stays() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("other", "twice", "BUSY", 3)).await;
    finished_call(&world, "c1").await;
    let (_, answer) = world.post(Provider::Generic, &about("c1", "twice", "BUSY", 4, "my hip is broken")).await;
    assert_eq!(answer["status"], "already_processed", "{answer}");
    world.wait(MINUTE).await;
    let stack = stack(&world);
    let before = world.item(INBOX_TABLE, "generic:twice").await;
    let plan = planned(&stack, number(), false).await;
    assert_eq!(carry_out(&stack, &plan).await.counts.done, plan.items.len());
    assert_eq!(places(&world).await, BTreeSet::new());
    assert_eq!(world.item(INBOX_TABLE, "generic:twice").await, before);
    assert_eq!(world.call("other").await.forgotten_at, None);
    let report = verify(&stack, &VerifyFilter::Since, stack.now().minus(HOUR), &mut |_, _| {}).await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!(planned(&stack, calls(&["c1"]), false).await.items, [], "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn appointment_and_ids_of_attempts_lead_to_their_calls() {
    let (world, placed) = seeded().await;
    let stack = stack(&world);
    // The ids of an appointment and of an attempt have no row. Without a time, all minutes of the retention are read.
    let planned = async |filter| {
        let since = Some(world.now().minus(MINUTE * 60));
        let request = ForgetRequest { filter, since, also_do_not_call: false };
        forget::plan(&stack, &request, MAX, &mut |_, _| {}).await.unwrap()
    };
    let of_appointment = planned(ForgetFilter::Appointment("apt_9".to_owned())).await;
    let ids: BTreeSet<CallId> = of_appointment.items.iter().filter_map(|item| item.call_id.clone()).collect();
    assert_eq!(ids, BTreeSet::from([CallId::new(placed)]));
    let by_attempt = planned(calls(&["retell:call_5d0b8f6e2c3a4f7d9e1b0a6c8d2f4e70"])).await;
    assert_eq!(by_attempt.not_found, []);
    carry_out(&stack, &by_attempt).await;
    assert_eq!(world.call("c1").await.forgotten_at, None);
    let left = places(&world).await;
    assert!(left.iter().all(|place| !place.contains("call_5d0b")), "{left:#?}");
}

/// If an operator mistypes one of several ids, the plan names it: this person is not forgotten.
#[tokio::test(start_paused = true)]
async fn id_that_nothing_is_stored_under_is_named() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE).await;
    let ids = ["c1", "c2", "entity:x-calcom:nobody"];
    let plan = plan_of_last_hour(&world, calls(&ids)).await;
    let named: Vec<&str> = plan.not_found.iter().map(|not_found| not_found.id.as_str()).collect();
    assert_eq!(named, ids[1..]);
    assert!(!plan.items.is_empty());
    forget_calls(&world, &["c1"]).await;
    let again = plan_of_last_hour(&world, calls(&ids[..1])).await;
    assert_eq!((again.items.len(), again.not_found.len()), (0, 0), "it was forgotten before");
}

/// `timeline` finds a call by such a number, so `forget` must find it too.
#[tokio::test(start_paused = true)]
async fn number_is_found_without_its_plus_sign() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE).await;
    let written = [NUMBER, "447700900123", "00447700900123", "+44 (0)7700 900123"];
    for text in written {
        let plan = plan_of_last_hour(&world, ForgetFilter::Number(PhoneNumber::new(text))).await;
        assert!(plan.items.iter().any(|item| item.call_id == Some(CallId::new("c1"))), "{text}: {:?}", plan.items);
    }
}

#[tokio::test(start_paused = true)]
async fn appointment_with_a_call_is_searched_since_the_creation_of_the_call() {
    let (world, placed) = seeded().await;
    // Another system placed a call of the same appointment, and its row was lost.
    let mut body: Value = serde_json::from_str(&about("none", "lost", "BUSY", 2, "my hip is broken")).unwrap();
    body.as_object_mut().unwrap().remove("call_id");
    body["appointment_id"] = json!("apt_9");
    world.accept(Provider::Generic, &body.to_string()).await;
    world.quiesce().await;
    let lost = CallId::new("appointment:apt_9");
    world.delete_item(CALLS_TABLE, lost.as_str()).await;
    let request =
        ForgetRequest { filter: ForgetFilter::Appointment("apt_9".to_owned()), since: None, also_do_not_call: false };
    let mut minutes = 0;
    let plan = forget::plan(&stack(&world), &request, MAX, &mut |_, all| minutes = minutes.max(all)).await.unwrap();
    let calls: BTreeSet<CallId> = plan.items.iter().filter_map(|item| item.call_id.clone()).collect();
    assert_eq!(calls, BTreeSet::from([CallId::new(placed), lost]));
    assert!(minutes < 120, "{minutes} minutes were searched");
}

/// An id that is too long for a key is stored as a hash. People have the id as its sender gives it.
#[tokio::test(start_paused = true)]
async fn appointment_with_a_long_id_leads_to_its_call() {
    let world = World::new();
    let appointment = "a".repeat(200);
    let mut body: Value = serde_json::from_str(&about("c1", "e1", "BUSY", 2, "my hip is broken")).unwrap();
    body["appointment_id"] = json!(appointment);
    world.accept(Provider::Generic, &body.to_string()).await;
    world.quiesce().await;
    let stack = stack(&world);
    let plan = planned(&stack, ForgetFilter::Appointment(appointment.clone()), false).await;
    let found: BTreeSet<CallId> = plan.items.iter().filter_map(|item| item.call_id.clone()).collect();
    assert_eq!(found, BTreeSet::from([CallId::new("c1")]));
    let filter = VerifyFilter::Appointment(appointment.clone());
    let report = verify(&stack, &filter, stack.now().minus(HOUR), &mut |_, _| {}).await.unwrap();
    assert_eq!((report.matching, report.findings.len()), (1, 0), "{report:#?}");
    let (_, shown) = send(&world, "GET", &format!("/appointment?id={appointment}"), None, &Value::Null).await;
    assert_eq!(shown["calls_total"], 1, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn do_not_call_list_stays_unless_it_is_named() {
    let world = World::new();
    finished_call(&world, "c1").await;
    finished_call(&world, "c2").await;
    world.wait(MINUTE).await;
    let (code, answer) = send(&world, "PUT", "/do-not-call?number=%2B447700900123", None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
    let stack = stack(&world);
    carry_out(&stack, &planned(&stack, calls(&["c1"]), false).await).await;
    for table in [CALLS_TABLE, INBOX_TABLE] {
        assert!(places(&world).await.contains(&format!("{table} do-not-call:{NUMBER}")), "{table}");
    }
    carry_out(&stack, &planned(&stack, calls(&["c2"]), true).await).await;
    assert_eq!(places(&world).await, BTreeSet::new());
}

/// Otherwise forgetting a person who asked not to be called would make the phone ring.
#[tokio::test(start_paused = true)]
async fn number_of_a_call_that_has_not_ended_stays_on_the_do_not_call_list() {
    let world = World::new();
    finished_call(&world, "c1").await;
    let mut request = call_request("confirms");
    request["to"] = json!(NUMBER);
    request["due_at"] = json!(world.now().plus(HOUR).to_string());
    let waiting = create(&world, &request).await;
    world.wait(MINUTE).await;
    let (code, answer) = send(&world, "PUT", "/do-not-call?number=%2B447700900123", None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
    let stack = stack(&world);
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    let blocked = PhoneNumber::new(NUMBER);

    let plan = planned(&stack, calls(&["c1"]), true).await;
    assert_eq!((plan.phones, plan.skipped_count), (0, 1), "{plan:#?}");
    assert!(plan.skipped[0].reason.contains(&format!("the call {waiting} has it, and has not ended")), "{plan:#?}");
    carry_out(&stack, &plan).await;
    assert!(world.call("c1").await.forgotten_at.is_some() && list.contains(&blocked).await.unwrap());

    // Another call of the number is created between a plan and its run.
    finished_call(&world, "c2").await;
    let (code, answer) = send(&world, "POST", &format!("/call/cancel?id={waiting}"), None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
    world.wait(MINUTE).await;
    let plan = planned(&stack, calls(&["c2"]), true).await;
    assert_eq!(plan.skipped_count, 0, "{plan:#?}");
    let waiting = create(&world, &request).await;
    let run = carry_out(&stack, &plan).await;
    assert!(run.skipped[0].reason.contains(&waiting), "{run:#?}");
    assert!(list.contains(&blocked).await.unwrap());
    world.wait(HOUR * 2).await;
    assert!(world.call(&waiting).await.has_ended() && world.cloud.fake().dials().is_empty(), "nothing rang");

    carry_out(&stack, &planned(&stack, number(), true).await).await;
    assert_eq!(places(&world).await, BTreeSet::new());
}

/// The plan holds no number, so it cannot take off one that no call has.
#[tokio::test(start_paused = true)]
async fn number_of_no_call_stays_on_the_do_not_call_list_and_the_plan_warns_of_it() {
    let world = World::new();
    let stack = stack(&world);
    let planned = async |also_do_not_call| {
        let request = ForgetRequest { filter: number(), since: Some(world.now()), also_do_not_call };
        forget::plan(&stack, &request, MAX, &mut |_, _| {}).await.unwrap()
    };
    assert_eq!(planned(true).await.warnings, [""; 0]);
    DoNotCallList::new(&world.calls, &world.inbox).block(&PhoneNumber::new(NUMBER), world.now()).await.unwrap();
    let plan = planned(true).await;
    assert!(plan.items.is_empty() && plan.warnings[0].contains("DELETE /do-not-call takes it off"), "{plan:#?}");
    assert!(!serde_json::to_string(&plan).unwrap().contains("900123"), "{plan:#?}");
    assert_eq!(planned(false).await.warnings, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn number_without_its_country_code_finds_nobody_and_the_plan_warns_of_it() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE).await;
    let named = |text: &str| ForgetFilter::Number(PhoneNumber::new(text));
    let plan = plan_of_last_hour(&world, named("07700 900123")).await;
    assert!(plan.found() == 0 && plan.warnings[0].contains("country code"), "{plan:#?}");
    assert!(!serde_json::to_string(&plan).unwrap().contains("07700"), "{plan:#?}");
    for text in ["447700900123", "+447700900124", "00447700900124"] {
        let plan = plan_of_last_hour(&world, named(text)).await;
        assert_eq!(plan.warnings, [""; 0], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn number_stays_on_the_do_not_call_list_if_its_calls_cannot_be_found() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE).await;
    let mut stack = stack(&world);
    stack.names.settings.index_numbers = false;
    let plan = planned(&stack, calls(&["c1"]), true).await;
    assert_eq!(plan.skipped_count, 1, "{plan:#?}");
    assert!(plan.skipped[0].reason.contains("IndexNumbers is off"), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn call_that_runs_is_skipped_as_a_whole() {
    let world = World::new();
    world.accept(Provider::Generic, &about("c1", "e1", "ANSWERED", 1, "my hip is broken")).await;
    finished_call(&world, "c2").await;
    world.wait(MINUTE).await;
    let stack = stack(&world);
    let before = places(&world).await;
    let plan = planned(&stack, calls(&["c1"]), false).await;
    assert_eq!((plan.items.len(), plan.skipped_count), (0, 2), "{plan:#?}");
    assert!(plan.skipped[0].reason.contains("IN_PROGRESS: cancel it, or wait"), "{plan:#?}");

    // The second call is answered once more after it was planned.
    let plan = planned(&stack, calls(&["c2"]), false).await;
    let again = about("c2", "again", "ANSWERED", 90, "my hip is broken").replace("sid-c2", "sid-c2-again");
    world
        .accept(Provider::Generic, &again.replace("\"call_id\":\"c2\"", "\"call_id\":\"c2\",\"meta\":{\"attempt\":2}"))
        .await;
    world.quiesce().await;
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (0, plan.items.len()), "{run:#?}");
    assert!(places(&world).await.is_superset(&before));
}

#[tokio::test(start_paused = true)]
async fn audit_record_and_plan_name_no_number() {
    let world = World::new();
    finished_call(&world, "c1").await;
    world.wait(MINUTE).await;
    let stack = stack(&world);
    let plan = planned(&stack, number(), false).await;
    let options =
        |reason: &str| RunOptions { who: "ada".to_owned(), reason: reason.to_owned(), rate: 50, allow_ringing: false };
    let refused =
        run::start(&stack, &plan.id, Verb::Forget, options(NUMBER), &mut |_| std::ops::ControlFlow::Continue(())).await;
    assert!(matches!(refused, Err(Error::Refusal(Refusal::NumberInReason))), "{refused:?}");
    carry_out(&stack, &plan).await;
    let actions: Vec<Value> =
        world.domain_events().into_iter().filter(|event| event["type"] == "operator.action").collect();
    assert_eq!((actions.len(), &actions[0]["verb"]), (2, &json!("forget")), "{actions:?}");
    assert_eq!(places(&world).await, BTreeSet::new());
}
