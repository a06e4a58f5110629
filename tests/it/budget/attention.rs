//! The cost of troubled events: a table unit for each try and one for the end, and an index unit when the trouble begins and when it ends.

use std::collections::BTreeMap;

use switchhook_aws::inbox::AttentionKind;
use switchhook_aws::shards::{SHARDS_DEFAULT, shards_of_marks};
use switchhook_domain::EventId;
use switchhook_local::CALLS_TABLE;
use switchhook_tests::{MINUTE, World, down, reads_calls_to_fold};

use super::{consume, generic_webhook, post, price, request_counts, reset_counters};
use crate::attention::folded::mark;
use crate::files::read;
use crate::repair::drop_messages;

/// Marked events.
const MARKS: u64 = 20;
/// Failed tries of an event in an outage of an hour, after the first one: seven in the first minutes, and six at the ages of 5, 10, 20, 30, 45 and 60
/// minutes.
const TRIES_IN_AN_HOUR: f64 = 13.0;
/// Table units for listing an event under its call: one at its fourth receive, and one when it begins to wait.
const LISTS: f64 = 2.0;
/// Cursors that a run reads: those of the sweep, of the notices and of the drift check.
const CURSORS: u64 = 3;

#[tokio::test(start_paused = true)]
async fn retried_event_costs_an_index_unit_at_its_first_failure_and_one_when_it_is_folded() {
    let world = World::stopped();
    post(&world, &generic_webhook("c1", "e1", "RINGING")).await;
    let mut units = Vec::new();
    for fails in [true, true, true, false] {
        world.inject_fault("PutItem", CALLS_TABLE, u64::from(fails), down());
        let received = world.receive();
        assert_eq!(received.len(), 1);
        reset_counters(&world);
        assert_eq!(world.consume(&received).await, usize::from(!fails));
        let capacity = world.capacity();
        let note = if fails { capacity["PutItem"] } else { capacity["UpdateItem"] };
        units.push((note.write_units, note.index_write_units));
        world.wait(MINUTE / 3).await;
    }
    // The fourth receive lists the event under its call too.
    assert_eq!(units, [(1.0, 1.0), (1.0, 0.0), (1.0, 0.0), (2.0, 1.0)]);
    let dollars = |units: f64| units * price::WRITE_UNIT * 1e6;
    let (once, try_again) = (2.0 + 2.0, 1.0);
    let hour = once + TRIES_IN_AN_HOUR * try_again + LISTS;
    let (event, again, hour) = (dollars(once), dollars(try_again), dollars(hour));
    let sentence = format!(
        "That is ${event:.2} per million.\n  Each further failed try adds one table unit, ${again:.3}. The fourth receive and the start of the wait add one \
         each. So a million events cost about ${hour:.2} in units in an outage of an hour"
    );
    assert!(read("docs/cost.md").contains(&sentence), "docs/cost.md must say: {sentence}");
    assert_eq!(world.attention(AttentionKind::Retrying).await, []);
}

/// Events that wait in the inbox at the same time.
const WAITING: u64 = 8;

#[tokio::test(start_paused = true)]
async fn try_of_an_event_that_waits_costs_four_reads_of_it_and_of_its_note() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    for number in 0..WAITING {
        post(&world, &generic_webhook(&format!("c{number}"), &format!("e{number}"), "RINGING")).await;
    }
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    let mut listed = Vec::new();
    for _ in 0..2 {
        reset_counters(&world);
        world.consume(&world.receive()).await;
        listed.push(world.capacity().get("UpdateItem").map_or(0.0, |count| count.write_units));
        world.wait(MINUTE * 3).await;
        world.reconcile().await;
    }
    assert_eq!(listed, [0.0, WAITING as f64], "the events wait from the second failure on");
    assert_eq!(world.queued().len() as u64, WAITING);
    world.consume(&world.receive()).await;
    world.wait(MINUTE * 4).await;
    world.reconciler.run("test").await.unwrap();
    reset_counters(&world);
    world.repair().await;
    let mut requests = world.requests();
    requests.retain(|operation, _| operation != "Query" && !operation.contains("RepairQueue"));
    // One batch of each shard.
    let sent = shards_of_marks(SHARDS_DEFAULT);
    assert_eq!(requests, request_counts(&[("GetItem", 2 * WAITING), ("SendMessageBatch", sent)]));
    let received = world.receive();
    assert_eq!(received.len() as u64, WAITING);
    reset_counters(&world);
    assert_eq!(world.consume(&received).await as u64, WAITING, "no message stays");
    let capacity = world.capacity();
    // The reads of the calls were refused. Each event and each note is a unit of a consistent read.
    assert_eq!(
        (capacity["GetItem"].read_units, capacity["PutItem"].write_units),
        (2.0 * WAITING as f64, WAITING as f64)
    );
    assert_eq!(capacity["PutItem"].index_write_units, 0.0, "the mark stays as it is");
    assert!(!capacity.contains_key("UpdateItem"), "the list has them already");
    let dollars = 4.0 * price::READ_UNIT * 1e6;
    let hour = 6.0 * dollars;
    let sentence = format!(
        "reads the event and its note twice, ${dollars:.2} per million: ${hour:.2} for the six such tries of that hour"
    );
    assert!(read("docs/cost.md").contains(&sentence), "docs/cost.md must say: {sentence}");
}

#[tokio::test(start_paused = true)]
async fn quarantined_and_conflicting_webhooks_cost_an_index_unit() {
    let world = World::stopped();
    reset_counters(&world);
    let healthy = generic_webhook("c1", "e1", "RINGING");
    post(&world, &healthy).await;
    assert_eq!(world.capacity()["PutItem"].index_write_units, 1.0, "only the index of received events");

    let unreadable = crate::traffic::Webhook { body: "{".to_owned(), ..healthy.clone() };
    assert_eq!(post(&world, &unreadable).await, "quarantined");
    assert_eq!(world.capacity()["PutItem"].index_write_units, 2.0);
    reset_counters(&world);

    assert_eq!(post(&world, &generic_webhook("c1", "e1", "BUSY")).await, "already_processed");
    assert_eq!(world.requests(), request_counts(&[("PutItem", 2), ("SendMessage", 1)]));
    assert_eq!(world.capacity()["PutItem"].index_write_units, 1.0);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_folded_late_costs_one_more_write() {
    let world = World::stopped();
    post(&world, &generic_webhook("c1", "e1", "RINGING")).await;
    world.wait(MINUTE * 6).await;
    reset_counters(&world);
    consume(&world).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 1), ("UpdateItem", 1)]));
    let removal = world.capacity()["UpdateItem"];
    assert_eq!((removal.write_units, removal.index_write_units), (1.0, 0.0), "it may have been dead-lettered");
}

/// Posts 20 events of one call, and lets a run pass them. Returns the requests and the read units of a run three minutes later, when their
/// marks are old enough to be trouble.
async fn cost_of_marks(is_folded: bool) -> (BTreeMap<String, u64>, f64) {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    for number in 0..MARKS {
        post(&world, &generic_webhook("c1", &format!("e{number}"), "RINGING")).await;
    }
    if is_folded {
        consume(&world).await;
        consume(&world).await;
    }
    drop_messages(&world);
    world.wait(MINUTE * 3).await;
    world.reconciler.run("test").await.unwrap();
    drop_messages(&world);
    for number in 0..MARKS {
        mark(&world, &EventId::new(format!("generic:e{number}"))).await;
    }
    world.wait(MINUTE * 3).await;
    reset_counters(&world);
    world.reconciler.run("test").await.unwrap();
    let mut requests = world.requests();
    requests.retain(|operation, _| operation == "GetItem" || operation == "UpdateItem");
    (requests, world.capacity()["GetItem"].read_units)
}

#[tokio::test(start_paused = true)]
async fn mark_of_a_folded_event_costs_a_read_of_its_call_and_its_removal() {
    let cost = request_counts(&[("GetItem", CURSORS + MARKS), ("UpdateItem", MARKS)]);
    assert_eq!(cost_of_marks(true).await, (cost, CURSORS as f64 + MARKS as f64 * 0.5));
}

/// In an incident nothing is folded, and the oldest mark of each shard tells the age.
#[tokio::test(start_paused = true)]
async fn marks_of_events_that_are_not_folded_cost_a_read_of_one_event_and_its_call_in_each_shard() {
    let shards = shards_of_marks(SHARDS_DEFAULT);
    // With marks, a run reads the cursor of the retries too.
    let cursors = CURSORS + 1;
    let cost = request_counts(&[("GetItem", cursors + 2 * shards)]);
    assert_eq!(cost_of_marks(false).await, (cost, cursors as f64 + shards as f64 * 1.5));
}
