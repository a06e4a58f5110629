//! Limits on the cost of placed calls. The local services count the requests of each step and of whole calls.

#![expect(clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{CallId, LANE_SECONDS, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::RequestInfo;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::stream::StreamRecord;
use switchhook_providers::api_url;
use switchhook_scheduler::Report;
use switchhook_tests::{MINUTE, World};

use crate::budget::{LOG_LINE_BYTES, access_log_bytes, index_writes, price, request_counts, reset_counters};
use crate::outbound::{call_request, create, get_call};

/// Upper limit for the changes of a call's keys in `by_wake`, per attempt.
const WAKE_CHANGES_MAX: usize = 4;
/// The same for an attempt that the provider knows nothing about. It is looked up twice before the inactivity timeout of the tests.
const WAKE_CHANGES_OF_FORGOTTEN: usize = 5;
/// Upper limit for the cost of a thousand attempts, in USD. Storage and the provider's charges are not included.
const DOLLARS_MAX: f64 = 0.06;

/// A request without an appointment, so that the index of appointments is not written.
fn without_appointment(behaviour: &str) -> Value {
    let mut request = call_request(behaviour);
    request.as_object_mut().unwrap().remove("appointment_id");
    request
}

#[tokio::test(start_paused = true)]
async fn creating_a_call_costs_two_writes() {
    let world = World::stopped();
    reset_counters(&world);
    create(&world, &without_appointment("confirms")).await;
    assert_eq!(world.requests(), request_counts(&[("PutItem", 2)]));
    let put = world.capacity()["PutItem"];
    let indexes = 3.0;
    let units = (put.write_units, put.index_write_units, put.read_units);
    assert_eq!(units, (2.0, indexes, 0.0), "by_wake, by_party and, for the recorded creation, by_received");
}

#[tokio::test(start_paused = true)]
async fn detecting_a_repeated_creation_costs_two_reads() {
    let world = World::stopped();
    let mut request = without_appointment("confirms");
    request.as_object_mut().unwrap().remove("allow_duplicate");
    reset_counters(&world);
    create(&world, &request).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 2), ("PutItem", 2)]));
}

#[tokio::test(start_paused = true)]
async fn claiming_costs_one_read_one_write_and_one_message_per_call_and_one_booking_per_run() {
    let world = World::stopped();
    let call_id = CallId::new(create(&world, &without_appointment("confirms")).await);
    reset_counters(&world);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    assert_eq!(world.requests(), request_counts(&[("GetItem", 3), ("PutItem", 2), ("SendMessage", 1)]));
    // The trigger reads the call, and the health of its provider. It books a place, with one more read and a write.
    assert_eq!(index_writes(&world), 2.0, "the old index entry is deleted and a new one written");

    // A run of the scheduler reads one page per shard of both wake queues of the provider that places calls. For each other provider
    // that has an API, it reads one page per shard of the calls that name others too. Every ten minutes it reads those that wait for it alone. It
    // also reads the due calls by one request, and books their places in the dial rate: two reads and one write for each page with due calls. One more read has the list of accounts.
    for _ in 0..7 {
        create(&world, &without_appointment("confirms")).await;
    }
    reset_counters(&world);
    let report = world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!((report.due, report.claimed), (7, 7));
    let others = Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some()).count() as u64 - 1;
    let (pages, counted) = ((2 + others) * SHARDS_DEFAULT, others * SHARDS_DEFAULT);
    let requests = world.requests();
    let bookings = requests["PutItem"] - 7;
    assert!((1..=SHARDS_DEFAULT).contains(&bookings), "{requests:?}");
    assert_eq!(
        requests,
        request_counts(&[
            ("BatchGetItem", 1),
            ("GetItem", 2 + bookings),
            ("PutItem", 7 + bookings),
            ("Query", pages + counted),
            ("SendMessage", 7),
        ])
    );
    world.wait(MINUTE).await;
    reset_counters(&world);
    world.cloud.schedule().await.unwrap().unwrap();
    assert_eq!(world.requests(), request_counts(&[("GetItem", 2), ("Query", pages)]));
}

/// Invokes the scheduler with the records of calls that are due soon.
pub(crate) async fn wake_scheduler(world: &World) -> Report {
    let records = world.cloud.services().dynamodb().stream().take_due(10);
    let records: Vec<Value> = records.iter().map(StreamRecord::to_event_record).collect();
    let event = serde_json::from_value(json!({"Records": records})).unwrap();
    world.cloud.scheduler().claim_written(event, "test").await
}

#[tokio::test(start_paused = true)]
async fn claiming_a_call_at_its_creation_costs_three_reads_two_writes_and_one_message() {
    let world = World::stopped();
    create(&world, &without_appointment("confirms")).await;
    reset_counters(&world);
    assert_eq!(wake_scheduler(&world).await.claimed, 1);
    // It reads the call, and twice the health of the provider, in which it books a place.
    assert_eq!(world.requests(), request_counts(&[("GetItem", 3), ("PutItem", 2), ("SendMessage", 1)]));
    // A call that is due within a minute costs one message, which SQS delays. Up to ten share a request.
    let mut soon = without_appointment("confirms");
    soon["due_at"] = json!(world.now().plus(Duration::from_secs(30)).to_string());
    for _ in 0..3 {
        create(&world, &soon).await;
    }
    reset_counters(&world);
    assert_eq!(wake_scheduler(&world).await.delayed, 3);
    assert_eq!(world.requests(), request_counts(&[("SendMessageBatch", 1)]));
    // The scheduler is not woken for a call that is due later.
    soon["due_at"] = json!(world.now().plus(MINUTE * 2).to_string());
    create(&world, &soon).await;
    assert_eq!(world.cloud.services().dynamodb().stream().take_due(10), []);
}

#[tokio::test(start_paused = true)]
async fn dialling_costs_six_reads_four_writes_and_one_message() {
    let world = World::stopped();
    let call_id = CallId::new(create(&world, &without_appointment("confirms")).await);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    let claims = world.take_claims();
    reset_counters(&world);
    world.cloud.dialer().handle(claims.clone()).await;
    // The dialer reads the call, the health of its provider, the do-not-call list in both tables, and the list of the events that are not folded. It writes the started dial, its
    // record in the inbox, and the alias of the provider call id. It also stores and queues the event that the provider accepted the dial. It
    // reads the health again, for half a unit, in case that another dialer has noted a failure meanwhile.
    let dial = [("BatchGetItem", 1), ("GetItem", 5), ("PutItem", 2), ("SendMessage", 1), ("UpdateItem", 2)];
    assert_eq!(world.requests(), request_counts(&dial));
    let units = world.capacity();
    assert_eq!(units["GetItem"].read_units, 4.5, "five small items, four of them by consistent reads");
    assert_eq!(units["PutItem"].index_write_units, 2.0, "the index of the inbox, and the place in flight in `by_wake`");
    assert_eq!(world.cloud.fake().requests(), 1);

    // The same claim again costs one read of the row.
    reset_counters(&world);
    world.cloud.dialer().handle(claims).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1)]));
    assert_eq!(world.cloud.fake().requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn dialling_again_costs_one_more_read_unit() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let call_id = CallId::new(create(&world, &without_appointment("busy,confirms")).await);
    // The list of the events that were not folded in time: one for the call, and one for the provider's id of each attempt. None exists.
    for lists in [1.0, 2.0] {
        world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
        let claims = world.take_claims();
        reset_counters(&world);
        world.cloud.dialer().handle(claims).await;
        let read = world.capacity()["BatchGetItem"];
        assert_eq!((read.requests, read.read_units), (1, lists));
        deliver_for_a_minute(&world, &mut CallCost::default()).await;
    }
    assert_eq!(world.cloud.fake().dials().len(), 2);
}

/// Usage of AWS by one placed call, from its creation to its end.
#[derive(Debug, Default)]
struct CallCost {
    attempts: usize,
    requests: BTreeMap<String, u64>,
    write_units: f64,
    index_write_units: f64,
    read_units: f64,
    /// Number of changes of the call's keys in `by_wake`.
    wake_changes: usize,
    /// Number of index writes that these changes caused.
    wake_writes: usize,
    webhooks: usize,
    messages: u64,
    events: usize,
    invocations: usize,
    /// Seconds for which the dialer ran: it waits until its lane may dial again.
    dialer_seconds: f64,
    log_bytes: f64,
    /// Length of the log when the current step began.
    log_before: usize,
}

/// Plays one placed call until some minutes after it is settled, at most for some hours. It runs the schedules itself, so nothing else causes cost. No relay trims the
/// stream, so the stream keeps every write of the call's row.
async fn play_call(behaviour: &str, delivery_faults: DeliveryFaults, hours: u32) -> CallCost {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(delivery_faults);
    let mut cost = CallCost { invocations: 1, ..CallCost::default() };
    start_metering(&world, &mut cost);
    let call_id = create(&world, &without_appointment(behaviour)).await;
    add_usage(&world, &mut cost);
    let mut minutes_since = 0;
    for _ in 0..hours * 60 {
        if world.load(&call_id).await.is_some_and(|call| call.settled_at.is_some()) {
            minutes_since += 1;
        }
        if minutes_since > 15 {
            break;
        }
        deliver_for_a_minute(&world, &mut cost).await;
        for run in ["schedule", "reconcile"] {
            // A run that finds nothing is not charged to the call.
            start_metering(&world, &mut cost);
            let found = match run {
                "schedule" => world.cloud.schedule().await.unwrap().unwrap().due > 0,
                _ => world.cloud.reconcile().await.unwrap().unwrap().woken > 0,
            };
            if found {
                cost.invocations += 1;
                add_usage(&world, &mut cost);
            }
        }
        let claims = world.take_claims();
        if !claims.records.is_empty() {
            start_metering(&world, &mut cost);
            let started = tokio::time::Instant::now();
            world.cloud.dialer().handle(claims).await;
            cost.dialer_seconds += started.elapsed().as_secs_f64();
            cost.invocations += 1;
            add_usage(&world, &mut cost);
        }
        consume(&world, &mut cost).await;
    }
    let call = get_call(&world, &call_id).await;
    assert_eq!(call["settled"], true, "{call}");
    cost.attempts = call["attempts"].as_array().unwrap().len();
    cost.events = world.load(&call_id).await.unwrap().announcements.len();
    count_wake_writes(&world, &mut cost);
    cost
}

/// Starts a step: usage before it is not charged to the call.
fn start_metering(world: &World, cost: &mut CallCost) {
    reset_counters(world);
    cost.log_before = world.log_text().len();
}

/// Ends a step: adds the usage since its start to the cost of the call.
fn add_usage(world: &World, cost: &mut CallCost) {
    let log = world.log_text();
    let lines = &log[cost.log_before..];
    cost.log_bytes += lines.len() as f64 + lines.lines().count() as f64 * LOG_LINE_BYTES;
    for count in world.capacity().values() {
        cost.write_units += count.write_units;
        cost.index_write_units += count.index_write_units;
        cost.read_units += count.read_units;
    }
    for (operation, count) in world.requests() {
        if operation == "SendMessage" {
            // Each message is also received and deleted.
            cost.messages += 3 * count;
        }
        *cost.requests.entry(operation).or_default() += count;
    }
}

/// Posts the webhooks that the fake provider sends within a minute.
async fn deliver_for_a_minute(world: &World, cost: &mut CallCost) {
    let end = tokio::time::Instant::now() + MINUTE;
    while let Ok(delivery) = tokio::time::timeout_at(end, world.cloud.fake().next_delivery()).await {
        start_metering(world, cost);
        let (code, answer) = world.post(Provider::Retell, delivery.body()).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        cost.webhooks += 1;
        cost.invocations += 1;
        add_usage(world, cost);
        consume(world, cost).await;
    }
}

async fn consume(world: &World, cost: &mut CallCost) {
    while !world.queued().is_empty() {
        start_metering(world, cost);
        world.consume(&world.receive()).await;
        // The consumer is invoked, and after its write the relay.
        cost.invocations += 2;
        add_usage(world, cost);
        world.wait(Duration::from_millis(10)).await;
    }
}

/// Counts the writes of the calls table that changed the keys of `by_wake`.
fn count_wake_writes(world: &World, cost: &mut CallCost) {
    for record in world.cloud.services().dynamodb().stream().next_batch(usize::MAX) {
        let record = record.to_event_record();
        let place = |image: &str| {
            let image = &record["dynamodb"][image];
            let key = image["wake_key"]["S"].as_str()?;
            Some((key.to_owned(), image["wake_at"]["N"].to_string()))
        };
        let (old, new) = (place("OldImage"), place("NewImage"));
        if old != new {
            cost.wake_changes += 1;
            cost.wake_writes += usize::from(old.is_some()) + usize::from(new.is_some());
        }
    }
}

impl CallCost {
    /// USD for the call, by purpose.
    fn dollars(&self) -> Vec<(&'static str, f64)> {
        let webhooks = self.webhooks as f64;
        vec![
            ("HTTP API", (webhooks + 1.0) * price::HTTP_API),
            ("functions", self.invocations as f64 * price::invocation() + price::running(self.dialer_seconds)),
            ("tables, written", self.write_units * price::WRITE_UNIT),
            ("indexes, written", self.index_write_units * price::WRITE_UNIT),
            ("tables, read", self.read_units * price::READ_UNIT),
            ("queues", self.messages as f64 * price::SQS_FIFO),
            ("domain events", self.events as f64 * price::EVENT),
            ("logs", (self.log_bytes + (webhooks + 1.0) * access_log_bytes()) / 1e9 * price::LOG_GB),
        ]
    }
}

#[tokio::test(start_paused = true)]
async fn whole_placed_call_keeps_to_its_budget() {
    let cases = [
        ("confirms", DeliveryFaults::NONE, 1),
        ("declines", DeliveryFaults::NONE, 1),
        ("busy,confirms", DeliveryFaults::NONE, 3),
        ("no_answer", DeliveryFaults::NONE, 6),
        ("voicemail", DeliveryFaults::NONE, 1),
        ("forgotten,confirms", DeliveryFaults::NONE, 6),
        ("response_lost", DeliveryFaults::ALL_LOST, 2),
        ("confirms", DeliveryFaults::ALL_LOST, 2),
        ("no_answer", DeliveryFaults::ALL_LOST, 8),
    ];
    for (behaviour, delivery_faults, hours) in cases {
        let cost = play_call(behaviour, delivery_faults, hours).await;
        let suffix = if delivery_faults == DeliveryFaults::ALL_LOST { ", all webhooks lost" } else { "" };
        let dollars: f64 = cost.dollars().iter().map(|(_, dollars)| dollars * 1_000.0).sum();
        println!(
            "{behaviour}{suffix}: {} attempts, {} webhooks, {} domain events, {} changes and {} writes of by_wake, {:?}, \
             ${dollars:.3} a thousand",
            cost.attempts, cost.webhooks, cost.events, cost.wake_changes, cost.wake_writes, cost.requests
        );
        for (what, dollars) in cost.dollars() {
            println!("    {what}: ${:.4}", dollars * 1_000.0);
        }
        assert!(cost.attempts > 0);
        // A dialer waits for some seconds after each dial, which costs a cent per thousand.
        assert!(cost.dialer_seconds >= LANE_SECONDS * cost.attempts as f64, "{behaviour}: {cost:?}");
        let is_forgotten = behaviour.starts_with("forgotten");
        let wake_changes_max = if is_forgotten { WAKE_CHANGES_OF_FORGOTTEN } else { WAKE_CHANGES_MAX };
        assert!(cost.wake_changes <= wake_changes_max * cost.attempts, "{behaviour}: {cost:?}");
        assert!(dollars <= DOLLARS_MAX * cost.attempts as f64, "{behaviour}: {cost:?}");
        assert!(!cost.requests.contains_key("Scan"));
    }
}

#[tokio::test(start_paused = true)]
async fn call_under_way_is_not_moved_in_the_index_by_its_events() {
    let world = World::stopped();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let call_id = CallId::new(create(&world, &without_appointment("confirms")).await);
    world.cloud.scheduler().trigger(&call_id, "test").await.unwrap();
    world.cloud.dialer().handle(world.take_claims()).await;
    let place = async || {
        let item = world.item(CALLS_TABLE, call_id.as_str()).await;
        json!([item.get("wake_key"), item.get("wake_at")])
    };
    let claimed = place().await;
    let updates = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = updates.clone();
    world.set_fault_hook(move |call: &RequestInfo<'_>| {
        counter.fetch_add(u64::from(call.operation == "UpdateItem"), std::sync::atomic::Ordering::Relaxed);
        None
    });
    consume(&world, &mut CallCost::default()).await;
    assert_eq!(place().await, claimed);
    assert_eq!(updates.load(std::sync::atomic::Ordering::Relaxed), 0);
}
