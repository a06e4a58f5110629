//! Domain events are published again, with the same ids and the same content.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchhook_domain::{CallId, Provider};
use switchhook_local::bus::BusEvent;
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, RELAY_FAILURES_QUEUE};
use switchhook_operate::plan::PlanItem;
use switchhook_operate::republish::{RepublishFilter, failures, plan};
use switchhook_operate::{Error, Refusal, Stack};
use switchhook_tests::{MINUTE, World, generic};

use super::{HOUR, MAX, carry_out, carry_out_in_two, stack};
use crate::bookings::{self, HOUR_S};
use crate::outbound::{call_request, create, send};

async fn planned(stack: &Stack, filter: &RepublishFilter) -> switchhook_operate::plan::Plan {
    plan(stack, filter, MAX, &mut |_, _| {}).await.unwrap()
}

fn details(world: &World) -> Vec<String> {
    let events = world.cloud.bus().events_since(0).into_iter();
    // The records of the operator's own actions are events too.
    events.filter(|event| event.detail_type != "operator.action").map(|event| event.detail).collect()
}

#[tokio::test(start_paused = true)]
async fn same_events_are_published_again_with_the_same_ids() {
    let world = World::new();
    let began = world.now();
    create(&world, &call_request("busy,confirms")).await;
    world.wait(MINUTE * 5).await;
    let mut later = call_request("confirms");
    later["due_at"] = json!("2026-01-02T00:00:00Z");
    let canceled = create(&world, &later).await;
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, &Value::Null).await;
    world.wait(HOUR * 2).await;

    let first = details(&world);
    let stack = stack(&world);
    let mut minutes = (0, 0);
    let since = RepublishFilter::Since(began);
    let made = plan(&stack, &since, MAX, &mut |done, all| minutes = (done, all)).await.unwrap();
    assert_eq!((made.items.len(), made.phones), (2, 0), "{made:?}");
    assert!(minutes.0 == minutes.1 && minutes.1 > 120, "{minutes:?}");
    let run = carry_out_in_two(&stack, &made).await;
    assert_eq!(run.result(), "2 done, 0 unchanged, 0 skipped");
    let again = details(&world);
    let (mut once, mut twice) = (first.clone(), again[first.len()..].to_vec());
    once.sort();
    twice.sort();
    assert_eq!(once, twice);

    let nobody = planned(&stack, &RepublishFilter::Calls(vec![CallId::new("nobody")])).await;
    assert_eq!((nobody.items.len(), nobody.skipped[0].reason.as_str()), (0, "the call does not exist"));
    let empty = plan(&stack, &RepublishFilter::Calls(Vec::new()), MAX, &mut |_, _| {}).await;
    assert!(matches!(empty, Err(Error::Refusal(Refusal::EmptyFilter(_)))), "{empty:?}");
}

/// The booking has moved away before the period, and moves back in it. No event of the call tells that the call waits again.
#[tokio::test(start_paused = true)]
async fn call_that_its_booking_brought_back_is_published_again() {
    let world = World::with_secret(&bookings::secret());
    let again = |second, starts| bookings::calcom("BOOKING_RESCHEDULED", "b1", second, starts);
    bookings::receive(&world, &[bookings::created("b1", 0, 5 * HOUR_S)]).await;
    let call_id = bookings::call_id(&world, "b1").await.unwrap();
    bookings::receive(&world, &[again(10, 6 * HOUR_S)]).await;
    world.wait(MINUTE * 2).await;
    let since = world.now();
    let plan = async || planned(&stack(&world), &RepublishFilter::Since(since)).await;
    let has_call = |item: &PlanItem| item.call_id.as_ref().is_some_and(|id| id.as_str() == call_id);
    assert!(!plan().await.items.iter().any(has_call));
    bookings::receive(&world, &[again(20, 5 * HOUR_S)]).await;
    assert!(plan().await.items.iter().any(has_call));
}

#[tokio::test(start_paused = true)]
async fn plan_that_reached_its_limit_says_where_the_next_one_goes_on() {
    let world = World::new();
    let mut since = world.now();
    for (number, call) in ["c3", "c1", "c2", "c4"].into_iter().enumerate() {
        let second = u64::try_from(number).unwrap();
        world.accept(Provider::Generic, &generic(call, call, "RINGING", second)).await;
        world.wait(MINUTE).await;
    }
    // The first call gets a late event, so it is the last one.
    world.accept(Provider::Generic, &generic("c3", "late", "ANSWERED", 9)).await;
    world.quiesce().await;
    let stack = stack(&world);
    let mut names = Vec::new();
    loop {
        let made = plan(&stack, &RepublishFilter::Since(since), 2, &mut |_, _| {}).await.unwrap();
        names.extend(made.items.iter().filter_map(|item| item.call_id.clone()).map(|call| call.to_string()));
        assert_eq!(made.capped, made.continue_at.is_some(), "{made:?}");
        let Some(next) = made.continue_at else { break };
        assert!(next > since, "the next plan goes on later");
        since = next;
    }
    assert_eq!(names, ["c1", "c2", "c4", "c3"]);
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_is_named_and_the_others_are_published() {
    let world = World::new();
    let began = world.now();
    for call in ["c1", "c2"] {
        world.accept(Provider::Generic, &generic(call, call, "RINGING", 0)).await;
    }
    world.quiesce().await;
    world.alter_text("c1", "job", "NONSENSE").await;
    let before = details(&world).len();
    let stack = stack(&world);
    let plan = planned(&stack, &RepublishFilter::Since(began)).await;
    assert_eq!((plan.items.len(), plan.skipped_count, plan.skipped[0].item.as_str()), (1, 1, "c1"), "{plan:?}");
    let run = carry_out(&stack, &plan).await;
    assert_eq!(run.result(), "1 done, 0 unchanged, 0 skipped");
    assert!(details(&world).len() > before);
}

/// The messages of the failures queue are all that names these calls. A newer version reads their rows.
#[tokio::test(start_paused = true)]
async fn messages_of_the_relay_stay_while_a_call_is_left_alone() {
    let mut world = World::new();
    relay_gives_up(&mut world, &["c1", "c2"]).await;
    let stack = stack(&world);
    let failed = failures(&stack).await.unwrap();

    // The run finds a row that cannot be read.
    let plan = planned(&stack, &RepublishFilter::Failed(None)).await;
    assert_eq!(plan.items.len(), 2 + failed.len());
    let row = world.item(CALLS_TABLE, "c1").await;
    world.alter_text("c1", "job", "NONSENSE").await;
    let run = carry_out(&stack, &plan).await;
    assert_eq!((run.counts.done, run.counts.skipped), (1, 1 + failed.len()), "{run:?}");
    assert_eq!(failures(&stack).await.unwrap(), failed);

    // The plan finds it.
    let plan = planned(&stack, &RepublishFilter::Failed(None)).await;
    assert_eq!((plan.items.len(), plan.skipped_count), (1, 1), "{plan:?}");
    carry_out(&stack, &plan).await;
    assert_eq!(failures(&stack).await.unwrap(), failed);

    world.put_item(CALLS_TABLE, row).await;
    let plan = planned(&stack, &RepublishFilter::Failed(None)).await;
    assert_eq!(carry_out(&stack, &plan).await.counts.skipped, 0);
    assert!(failures(&stack).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_above_the_rate_of_the_bus_are_published_a_little_later() {
    let world = World::new();
    let began = world.now();
    for call in ["c1", "c2", "c3"] {
        world.accept(Provider::Generic, &generic(call, call, "RINGING", 0)).await;
    }
    world.quiesce().await;
    let before = details(&world);
    let stack = stack(&world);
    let plan = planned(&stack, &RepublishFilter::Since(began)).await;
    // The bus takes each event at the third try.
    let tries: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let refuse = move |event: &BusEvent| {
        let mut tries = tries.lock().unwrap();
        let tries = tries.entry(event.detail.clone()).or_default();
        *tries += 1;
        (event.detail_type != "operator.action" && *tries < 3).then(|| "ThrottlingException".to_owned())
    };
    world.cloud.bus().fail_entries(Some(Arc::new(refuse)));
    assert_eq!(carry_out(&stack, &plan).await.result(), "3 done, 0 unchanged, 0 skipped");
    let (mut once, mut twice) = (before.clone(), details(&world)[before.len()..].to_vec());
    once.sort();
    twice.sort();
    assert_eq!(once, twice);
}

#[tokio::test(start_paused = true)]
async fn plans_that_reached_their_limit_publish_all_that_the_relay_gave_up() {
    let mut world = World::new();
    relay_gives_up(&mut world, &["c1", "c2", "c3"]).await;
    for call in ["c2", "c1", "c3"] {
        world.accept(Provider::Generic, &generic(call, &format!("{call}-later"), "ANSWERED", 9)).await;
        world.wait(MINUTE).await;
    }
    let stack = stack(&world);
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let made = plan(&stack, &RepublishFilter::Failed(after), 1, &mut |_, _| {}).await.unwrap();
        names.extend(made.items.iter().filter_map(|item| item.call_id.clone()).map(|call| call.to_string()));
        assert_eq!(made.capped, made.continue_at.is_some(), "{made:?}");
        carry_out(&stack, &made).await;
        after = made.continue_at;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["c2", "c1", "c3"]);
    // Nobody knows whether the plans before the last one were carried out. So only a plan of everything deletes the messages.
    assert!(!failures(&stack).await.unwrap().is_empty());
    let whole = planned(&stack, &RepublishFilter::Failed(None)).await;
    carry_out(&stack, &whole).await;
    assert!(failures(&stack).await.unwrap().is_empty());
}

/// Has these calls receive an event, one a minute, while the bus is down for longer than the relay retries a record.
async fn relay_gives_up(world: &mut World, calls: &[&str]) {
    world.cloud.bus().fail_entries(Some(Arc::new(|_| Some("ThrottlingException".to_owned()))));
    for (second, call) in (0..).zip(calls) {
        world.accept(Provider::Generic, &generic(call, call, "RINGING", second)).await;
        world.wait(MINUTE).await;
    }
    world.skip(HOUR * 22).await;
    world.wait(HOUR).await;
    world.clear_faults();
    world.quiesce().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_relay_gave_up_is_published_and_its_messages_are_deleted() {
    let mut world = World::new();
    world.accept(Provider::Generic, &generic("before", "e0", "ENDED", 0)).await;
    // The call is settled after its inactivity timeout.
    world.wait(HOUR).await;
    world.skip(HOUR * 7).await;
    relay_gives_up(&mut world, &["c1"]).await;
    let stack = stack(&world);
    let failed = failures(&stack).await.unwrap();
    assert!(!failed.is_empty());
    let published = |call: &str| world.published_types(call).len();
    assert_eq!(failures(&stack).await.unwrap(), failed, "the messages are visible again");
    let before = published("before");

    let plan = planned(&stack, &RepublishFilter::Failed(None)).await;
    let names: Vec<&str> = plan.items.iter().filter_map(|item| item.call_id.as_ref()).map(CallId::as_str).collect();
    assert_eq!(names, ["c1"], "{plan:?}");
    let run = carry_out_in_two(&stack, &plan).await;
    assert_eq!(run.counts.done, 1 + failed.len());
    assert!(published("c1") > 0);
    assert_eq!(published("before"), before);
    assert!(failures(&stack).await.unwrap().is_empty());
    let nothing = planned(&stack, &RepublishFilter::Failed(None)).await;
    assert!(nothing.items.is_empty(), "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn message_of_lambda_is_understood() {
    let world = World::stopped();
    let body = json!({
        "requestContext": {"requestId": "r", "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 1},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST"},
        "version": "1.0", "timestamp": "2026-01-02T00:33:21.747Z",
        "DDBStreamBatchInfo": {
            "shardId": "shardId-1", "startSequenceNumber": "1", "endSequenceNumber": "2",
            "approximateArrivalOfFirstRecord": "2026-01-01T00:33:19Z",
            "approximateArrivalOfLastRecord": "2026-01-01T00:34:19Z", "batchSize": 2,
            "streamArn": "arn:aws:dynamodb:us-east-1:000000000000:table/t/stream/1",
        },
    });
    let message = NewMessage { body: body.to_string(), ..NewMessage::default() };
    world.cloud.services().sqs().send(RELAY_FAILURES_QUEUE, message).unwrap();
    let failed = failures(&stack(&world)).await.unwrap();
    assert_eq!(failed[0].first_at.to_string(), "2026-01-01T00:33:19.000Z");
}
