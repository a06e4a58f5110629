//! What a webhook may cost, as a gate: requests and capacity units are counted by the services, dollars follow from them.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use switchhook_aws::calls::WAKE_SHARDS;
use switchhook_aws::inbox::RECEIVED_SHARDS;
use switchhook_domain::Provider;
use switchhook_local::dynamodb::Count;
use switchhook_tests::{INACTIVITY_TIMEOUT, KEY, MINUTE, World, generic};

use crate::traffic::{
    CONVERSATIONS, Webhook, dense_body, retell_call, retell_ended, retell_ended_unrepeated, twilio_call,
};

/// us-east-1 list prices in dollars, as published in November 2026, without free tiers.
pub(crate) mod price {
    /// Per request to an HTTP API of up to 512 KB.
    pub(crate) const HTTP_API: f64 = 1.00 / 1e6;
    pub(crate) const LAMBDA_REQUEST: f64 = 0.20 / 1e6;
    /// Per GB-second on arm64.
    pub(crate) const LAMBDA_GB_S: f64 = 0.000_013_333_4;
    /// On demand.
    pub(crate) const WRITE_UNIT: f64 = 0.625 / 1e6;
    pub(crate) const READ_UNIT: f64 = 0.125 / 1e6;
    /// Per request of up to 64 KB, a batch being one.
    pub(crate) const SQS_FIFO: f64 = 0.50 / 1e6;
    /// Per event of up to 64 KB.
    pub(crate) const EVENT: f64 = 1.00 / 1e6;
    pub(crate) const LOG_GB: f64 = 0.50;

    /// Of a function.
    pub(crate) const fn invocation() -> f64 {
        LAMBDA_REQUEST + super::MEMORY_GB * super::INVOCATION_S * LAMBDA_GB_S
    }
}

/// Dollars per million accepted webhooks, everything included.
const DOLLARS_MAX: f64 = 8.00;
/// What the functions are given, and what an invocation takes at that, network included: an assumption, with a margin.
const MEMORY_GB: f64 = 0.25;
const INVOCATION_S: f64 = 0.020;
/// A line of the HTTP API's access log.
pub(crate) const ACCESS_LOG_BYTES: f64 = 230.0;
/// What CloudWatch adds to each line.
pub(crate) const LOG_LINE_BYTES: f64 = 26.0;

pub(crate) fn request_counts(requests: &[(&str, u64)]) -> BTreeMap<String, u64> {
    requests.iter().map(|(operation, count)| ((*operation).to_owned(), *count)).collect()
}

/// Forgets what was counted so far.
pub(crate) fn reset_counters(world: &World) {
    drop((world.requests(), world.capacity()));
}

async fn post(world: &World, webhook: &Webhook) -> String {
    let body = webhook.body.as_bytes();
    let (code, answer) = world.post_signed(webhook.provider, KEY, &webhook.query, body).await;
    assert_eq!(code, StatusCode::OK, "{}: {answer}", webhook.name);
    switchhook_tests::text(&answer["status"])
}

/// One invocation of the consumer with everything that waits, up to ten.
async fn consume(world: &World) {
    let received = world.receive();
    assert_eq!(world.consume(&received).await, received.len());
}

fn generic_webhook(call_id: &str, event_id: &str, event_type: &str) -> Webhook {
    Webhook {
        name: format!("generic/{event_type}"),
        provider: Provider::Generic,
        query: String::new(),
        body: generic(call_id, event_id, event_type, 0),
    }
}

fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1_024.0
}

/// Write units of the table and of its indexes for each of these webhooks, each the first of its call.
async fn ingress_units(webhooks: &[Webhook]) -> Vec<(f64, f64)> {
    let world = World::stopped();
    let mut units = Vec::new();
    for webhook in webhooks {
        reset_counters(&world);
        assert_eq!(post(&world, webhook).await, "accepted", "{}", webhook.name);
        assert_eq!(world.requests(), request_counts(&[("PutItem", 1), ("SendMessage", 1)]), "{}", webhook.name);
        let put = world.capacity()["PutItem"];
        units.push((put.write_units, put.index_write_units));
    }
    units
}

#[tokio::test(start_paused = true)]
async fn accepted_event_costs_one_write_and_one_message() {
    let many = |make: fn(u64) -> Webhook| (0..40).map(make).collect::<Vec<_>>();
    let at = |event: usize| move |number| retell_call(number, 0, 0).swap_remove(event);
    let kinds: Vec<(&str, Vec<Webhook>, f64)> = vec![
        ("retell, 4 KB, word by word", many(|n| retell_ended(n, 3_900, 2)), 2.0),
        ("retell, 5 KB, word by word", many(|n| retell_ended(n, 5_120, 2)), 2.0),
        ("retell, 5 KB, word by word twice", many(|n| retell_ended(n, 5_120, 3)), 2.0),
        ("retell, 5 KB, text alone", many(|n| retell_ended(n, 5_120, 1)), 2.0),
        // Retell does not send such: it repeats the text word by word.
        ("retell, 5 KB, text alone that says nothing twice", many(|n| retell_ended_unrepeated(n, 5_120)), 3.0),
        ("retell, 10 KB, word by word", many(|n| retell_ended(n, 10_240, 2)), 3.0),
        ("retell, 20 KB, word by word twice", many(|n| retell_ended(n, 20_480, 3)), 4.0),
        ("retell, 50 KB, word by word twice", many(|n| retell_ended(n, 51_200, 3)), 7.0),
        ("retell, 5 KB, text that does not repeat", many(|n| dense_body(n, 5_120)), 3.0),
        ("retell, call started", (0..40).map(at(0)).collect(), 1.0),
        ("twilio, ringing", many(|n| twilio_call(n, true).swap_remove(1)), 1.0),
        ("twilio, amd", many(|n| twilio_call(n, true).swap_remove(3)), 1.0),
        ("generic", many(|n| generic_webhook(&format!("c{n}"), &format!("e{n}"), "RINGING")), 1.0),
    ];
    for (kind, webhooks, units_max) in kinds {
        let units = ingress_units(&webhooks).await;
        let bytes: usize = webhooks.iter().map(|webhook| webhook.body.len()).sum();
        let mean = units.iter().map(|(table, _)| table).sum::<f64>() / units.len() as f64;
        let most = units.iter().map(|(table, _)| *table).fold(0.0, f64::max);
        println!(
            "{kind}: {:.1} KB, write units {mean:.2} on average, {most} at most",
            kilobytes(bytes) / webhooks.len() as f64
        );
        assert!(most <= units_max, "{kind}: {most} write units");
        assert!(units.iter().all(|(_, index)| *index == 1.0), "{kind}: of the index");
    }
}

/// The words of a text, without what stands around them.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[test]
fn conversations_of_the_tests_are_none_that_the_dictionary_learned_from() {
    let dictionary = words(include_str!("../../shared/aws/src/dictionary-1.txt"));
    for sentence in CONVERSATIONS.concat() {
        for five in words(sentence).windows(5) {
            assert!(!dictionary.windows(5).any(|learned| learned == five), "{five:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_costs_one_refused_write_and_one_message() {
    let world = World::stopped();
    let twice = retell_ended(1, 5_120, 2);
    post(&world, &twice).await;
    for pause in [1, 400] {
        world.wait(Duration::from_secs(pause)).await;
        reset_counters(&world);
        assert_eq!(post(&world, &twice).await, "already_processed");
        assert_eq!(world.requests(), request_counts(&[("PutItem", 1), ("SendMessage", 1)]));
        let put = world.capacity()["PutItem"];
        assert!(put.write_units <= 2.0, "{put:?}");
        assert_eq!((put.index_write_units, put.read_units), (0.0, 0.0));
    }
    // What is never folded is never queued again.
    let recorded = generic_webhook("c1", "e1", "SOMETHING_ELSE");
    assert_eq!(post(&world, &recorded).await, "recorded");
    reset_counters(&world);
    assert_eq!(post(&world, &recorded).await, "already_processed");
    assert_eq!(world.requests(), request_counts(&[("PutItem", 1)]));
}

#[tokio::test(start_paused = true)]
async fn recorded_event_costs_one_write() {
    let world = World::stopped();
    assert_eq!(post(&world, &generic_webhook("c1", "e1", "SOMETHING_ELSE")).await, "recorded");
    assert_eq!(world.requests(), request_counts(&[("PutItem", 1)]));
}

#[tokio::test(start_paused = true)]
async fn refused_request_costs_nothing() {
    let world = World::stopped();
    let webhook = retell_ended(1, 5_120, 2);
    let (code, _) = world.post_signed(Provider::Retell, "other", "", webhook.body.as_bytes()).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);
    assert_eq!((world.requests(), world.capacity()), (BTreeMap::new(), BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn batch_costs_one_read_and_one_write_for_each_of_its_calls() {
    let world = World::stopped();
    // Ten messages of three calls.
    for (number, count) in [(1, 5), (2, 3), (3, 2)] {
        for webhook in twilio_call(number, true).into_iter().take(count) {
            post(&world, &webhook).await;
        }
    }
    reset_counters(&world);
    let received = world.receive();
    assert_eq!(received.len(), 10);
    assert_eq!(world.invoke_consumer(&received).await.len(), 10);
    assert_eq!(world.requests(), request_counts(&[("GetItem", 3), ("PutItem", 3)]));

    world.wait(MINUTE).await;
    let again = world.receive();
    assert_eq!(world.consume(&again).await, 10);
    assert_eq!(world.requests(), request_counts(&[("GetItem", 3)]), "nothing is written of duplicates");
}

/// What the consumer's writes along a call cost, one batch for each event: units of the table, and of its indexes.
async fn writes_along(webhooks: &[Webhook]) -> Vec<(f64, f64)> {
    let world = World::stopped();
    let mut writes = Vec::new();
    for webhook in webhooks {
        assert_eq!(post(&world, webhook).await, "accepted");
        reset_counters(&world);
        consume(&world).await;
        assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 1)]), "{}", webhook.name);
        let capacity = world.capacity();
        assert!(capacity["GetItem"].read_units <= 1.0, "a consistent read of up to 4 KB: {capacity:?}");
        writes.push((capacity["PutItem"].write_units, capacity["PutItem"].index_write_units));
        world.wait(Duration::from_secs(10)).await;
    }
    writes
}

#[tokio::test(start_paused = true)]
async fn write_of_a_typical_call_costs_at_most_two_units_over_its_whole_life() {
    let kinds = [
        ("retell", retell_call(1, 12, 2)),
        ("twilio with an appointment", twilio_call(1, true)),
        ("twilio without one", twilio_call(1, false)),
    ];
    for (kind, webhooks) in kinds {
        let writes = writes_along(&webhooks).await;
        println!("{kind}: (table, indexes) {writes:?}");
        assert!(writes.iter().all(|(table, _)| *table <= 2.0), "{kind}: {writes:?}");
    }
}

/// Units that indexes cost since this was asked for.
pub(crate) fn index_writes(world: &World) -> f64 {
    world.capacity().values().map(|count| count.index_write_units).sum()
}

#[tokio::test(start_paused = true)]
async fn wake_index_is_written_when_a_call_begins_and_when_it_is_settled_and_not_for_its_events() {
    // Twilio says nothing of an outcome beyond the answer, so this call waits for the end of its patience. No appointment,
    // so that the index of appointments stays out of it.
    let world = World::stopped();
    let mut of_events = Vec::new();
    for webhook in twilio_call(1, false) {
        post(&world, &webhook).await;
        reset_counters(&world);
        consume(&world).await;
        of_events.push(world.capacity()["PutItem"].index_write_units);
        world.wait(Duration::from_secs(10)).await;
    }
    assert_eq!(of_events, [1.0, 0.0, 0.0, 0.0, 0.0], "once, with the call");

    // Its index entry still says when it was first to be woken: it was heard of since, so the first run moves it on.
    world.wait(INACTIVITY_TIMEOUT - Duration::from_secs(45)).await;
    reset_counters(&world);
    let first = world.reconciler.run("test").await.unwrap();
    assert_eq!((first.rescheduled, first.deadlines_passed), (1, 0));
    assert_eq!(index_writes(&world), 2.0, "out of its old place and into the new one");
    world.wait(MINUTE).await;
    let second = world.reconciler.run("test").await.unwrap();
    assert_eq!((second.rescheduled, second.deadlines_passed), (0, 1));
    assert_eq!(index_writes(&world), 1.0, "of the inbox");
    consume(&world).await;
    assert_eq!(index_writes(&world), 2.0, "to those that are settled: three changes in all");

    // A call whose every event says what it achieved is settled at once.
    let writes = writes_along(&[
        generic_webhook("c1", "e1", "CALL_STARTED"),
        generic_webhook("c1", "e2", "RINGING"),
        generic_webhook("c1", "e3", "NO_ANSWER"),
    ])
    .await;
    assert_eq!(writes.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [1.0, 0.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn relay_sends_ten_domain_events_at_a_time() {
    let world = World::stopped();
    for number in 0..12 {
        post(&world, &generic_webhook(&format!("c{number}"), &format!("e{number}"), "RINGING")).await;
    }
    consume(&world).await;
    consume(&world).await;
    reset_counters(&world);
    world.relay().await;
    assert_eq!(world.domain_events().len(), 36);
    assert_eq!(world.requests(), request_counts(&[("PutEvents", 4)]));
    world.relay().await;
    assert_eq!(world.requests(), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn sweep_costs_a_page_for_each_shard_and_a_read_for_each_call() {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    for number in 0..7 {
        for webhook in twilio_call(number, true) {
            post(&world, &webhook).await;
        }
    }
    for _ in 0..4 {
        consume(&world).await;
    }
    world.wait(MINUTE * 2).await;
    // Two minutes to look at; the second holds all seven calls.
    let minutes = 2;
    reset_counters(&world);
    let report = world.reconciler.run("test").await.unwrap();
    assert_eq!((report.swept_minutes, report.requeued), (minutes, 0));
    let pages = WAKE_SHARDS + minutes * RECEIVED_SHARDS;
    let requests = world.requests();
    let sweep = [("GetItem", 1 + 7), ("GetQueueAttributes", minutes), ("PutItem", minutes), ("Query", pages)];
    assert_eq!(requests, request_counts(&sweep));
    let capacity = world.capacity();
    let read_units = 1.0 + 7.0 * 0.5;
    assert_eq!(capacity["GetItem"].read_units, read_units, "of the cursor, and half a unit for each look at a call");
    assert!(capacity["Query"].read_units <= pages as f64 * 0.5 + 1.0, "{capacity:?}");
    assert_eq!(capacity["PutItem"].write_units, minutes as f64);
}

/// Requests of one run of the reconciler.
async fn run_costs(world: &World) -> BTreeMap<String, u64> {
    reset_counters(world);
    world.reconciler.run("test").await.unwrap();
    world.requests()
}

#[tokio::test(start_paused = true)]
async fn reconciler_reads_what_is_due_and_not_what_is_stored() {
    let mut costs = Vec::new();
    for settled in [0, 200] {
        let world = World::stopped();
        world.reconciler.run("test").await.unwrap();
        for number in 0..settled {
            let call_id = format!("settled{number}");
            for event_type in ["RINGING", "NO_ANSWER"] {
                post(&world, &generic_webhook(&call_id, &format!("{call_id}-{event_type}"), event_type)).await;
            }
            consume(&world).await;
        }
        world.wait(MINUTE * 10).await;
        world.reconciler.run("test").await.unwrap();
        for number in 0..3 {
            post(&world, &generic_webhook(&format!("c{number}"), &format!("e{number}"), "RINGING")).await;
        }
        consume(&world).await;
        world.wait(INACTIVITY_TIMEOUT - MINUTE).await;
        world.reconciler.run("test").await.unwrap();
        world.wait(MINUTE).await;
        let due = run_costs(&world).await;
        world.wait(MINUTE).await;
        consume(&world).await;
        let idle = run_costs(&world).await;
        costs.push((due, idle));
    }
    assert_eq!(costs[0], costs[1]);
    let (pages, minute) = (WAKE_SHARDS + RECEIVED_SHARDS, 1);
    // Each call that is due: a read of it, and its deadline into the inbox and the queue.
    let due = [
        ("GetItem", 1 + 3),
        ("GetQueueAttributes", minute),
        ("PutItem", minute + 3),
        ("Query", pages),
        ("SendMessage", 3),
    ];
    let idle = [("GetItem", 1), ("GetQueueAttributes", minute), ("PutItem", minute), ("Query", pages)];
    assert_eq!(costs[0], (request_counts(&due), request_counts(&idle)));
}

/// Everything that a month of traffic is made of, counted on some hundred webhooks, per webhook.
#[derive(Debug, Default)]
struct Ledger {
    webhooks: f64,
    write_units: f64,
    index_write_units: f64,
    read_units: f64,
    sqs_requests: f64,
    events: f64,
    invocations: f64,
    log_bytes: f64,
    /// Of the schedule, for what came; without what a run costs that finds nothing.
    sweep: f64,
}

/// Runs of the reconciler in a month of a million webhooks.
const RUNS: f64 = 30.0 * 24.0 * 60.0;

impl Ledger {
    fn add(&mut self, capacity: &BTreeMap<&'static str, Count>) {
        for count in capacity.values() {
            self.write_units += count.write_units;
            self.index_write_units += count.index_write_units;
            self.read_units += count.read_units;
        }
    }

    /// Dollars per million webhooks, by what they are for, if each brings so many domain events.
    fn dollars(&self, events: f64) -> Vec<(&'static str, f64)> {
        let million = 1e6 / self.webhooks;
        let writes = self.write_units * price::WRITE_UNIT;
        let lambda = self.invocations * price::invocation();
        let logs = (self.log_bytes + self.webhooks * ACCESS_LOG_BYTES) / 1e9 * price::LOG_GB;
        vec![
            ("HTTP API", 1e6 * price::HTTP_API),
            ("functions", lambda * million),
            ("tables, written", writes * million),
            ("indexes, written", self.index_write_units * price::WRITE_UNIT * million),
            ("tables, read", self.read_units * price::READ_UNIT * million),
            ("queue", self.sqs_requests * price::SQS_FIFO * million),
            ("domain events", events * 1e6 * price::EVENT),
            ("logs", logs * million),
            ("sweep and wake-up", self.sweep * million),
        ]
    }
}

fn sum(dollars: &[(&str, f64)]) -> f64 {
    dollars.iter().map(|(_, dollars)| dollars).sum()
}

fn dollars_of(capacity: &BTreeMap<&'static str, Count>) -> f64 {
    let dollars = |count: &Count| {
        (count.write_units + count.index_write_units) * price::WRITE_UNIT + count.read_units * price::READ_UNIT
    };
    capacity.values().map(dollars).sum()
}

/// Plays calls of a provider, three at a time so that each batch of the consumer holds three messages of three calls. What
/// they cost, and what a run of the reconciler costs that finds nothing.
async fn play(calls: Vec<Vec<Webhook>>) -> (Ledger, f64) {
    let world = World::stopped();
    world.reconciler.run("test").await.unwrap();
    let mut ledger = Ledger::default();
    let lines_before = world.log_text().len();
    let line_count = world.log_text().lines().count();
    for three in calls.chunks(3) {
        let longest = three.iter().map(Vec::len).max().unwrap_or(0);
        for event in 0..longest {
            let now: Vec<&Webhook> = three.iter().filter_map(|call| call.get(event)).collect();
            reset_counters(&world);
            for webhook in &now {
                assert_eq!(post(&world, webhook).await, "accepted");
            }
            consume(&world).await;
            world.relay().await;
            ledger.add(&world.capacity());
            let requests = world.requests();
            assert!(!requests.contains_key("ChangeMessageVisibilityBatch") && !requests.contains_key("Scan"));
            // The mapping's own requests: it receives a batch and deletes it.
            ledger.sqs_requests += requests["SendMessage"] as f64 + 2.0;
            // Of ingress for each, of the consumer and the relay for each batch.
            ledger.invocations += now.len() as f64 + 2.0;
            ledger.webhooks += now.len() as f64;
        }
        world.wait(Duration::from_secs(2)).await;
    }
    ledger.events = world.domain_events().len() as f64;
    ledger.log_bytes = (world.log_text().len() - lines_before) as f64
        + (world.log_text().lines().count() - line_count) as f64 * LOG_LINE_BYTES;

    // The schedule of the next half hour: it sweeps what came, and wakes what is silent.
    let mut runs = Vec::new();
    for _ in 0..32 {
        world.wait(MINUTE).await;
        reset_counters(&world);
        world.reconciler.run("test").await.unwrap();
        while !world.queued().is_empty() {
            consume(&world).await;
            world.relay().await;
        }
        runs.push(
            dollars_of(&world.capacity())
                + world.requests().get("SendMessage").map_or(0.0, |sent| *sent as f64 * 3.0 * price::SQS_FIFO),
        );
    }
    let idle = runs.iter().copied().fold(f64::MAX, f64::min);
    ledger.sweep = runs.iter().map(|run| run - idle).sum();
    (ledger, idle)
}

#[tokio::test(start_paused = true)]
async fn million_webhooks_cost_at_most_eight_dollars() {
    let calls = 60_u64;
    let retell = play((0..calls).map(sized_retell_call).collect()).await;
    let twilio = play((0..calls).map(|number| twilio_call(number, true)).collect()).await;
    for (kind, (ledger, idle)) in [("retell, 5 KB", retell), ("twilio", twilio)] {
        let events = ledger.events / ledger.webhooks;
        let runs = RUNS * (idle + price::invocation());
        let budget = ledger.dollars(1.0);
        let (as_budgeted, as_played) = (sum(&budget) + runs, sum(&ledger.dollars(events)) + runs);
        println!("{kind}: ${as_budgeted:.2} with one domain event per webhook, ${as_played:.2} with {events:.2}");
        for (what, dollars) in &budget {
            println!("    {what}: ${dollars:.2}");
        }
        println!("    runs of the reconciler that find nothing, in a month: ${runs:.2}");
        assert!(as_budgeted <= DOLLARS_MAX, "{kind}: {budget:?}");
    }
}

/// A call whose bodies have 5 KB on average.
fn sized_retell_call(number: u64) -> Vec<Webhook> {
    let bytes = |call: &[Webhook]| call.iter().map(|webhook| webhook.body.len()).sum::<usize>() / call.len();
    let calls = (0..).map(|turns| retell_call(number, turns, 2));
    calls.into_iter().find(|call| bytes(call) >= 5_120).unwrap()
}

#[test]
fn prices_add_up() {
    // By hand: 1 unit of each for each of ten webhooks.
    let ledger = Ledger {
        webhooks: 10.0,
        write_units: 10.0,
        index_write_units: 10.0,
        read_units: 10.0,
        sqs_requests: 10.0,
        ..Ledger::default()
    };
    let rounded: Vec<(&str, i64)> =
        ledger.dollars(1.0).into_iter().map(|(what, dollars)| (what, (dollars * 1_000.0).round() as i64)).collect();
    assert_eq!(
        json!(rounded),
        json!([
            ["HTTP API", 1_000],
            ["functions", 0],
            ["tables, written", 625],
            ["indexes, written", 625],
            ["tables, read", 125],
            ["queue", 500],
            ["domain events", 1_000],
            ["logs", 115],
            ["sweep and wake-up", 0]
        ])
    );
}
