//! The model of the load at scale has the units that the local cloud counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_aws::calls::{BY_WAKE, WakeQueue};
use switchhook_aws::inbox::BY_RECEIVED;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::dynamodb::Units as Counted;
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::cost::{MEMORY_GB, RECONCILER_MEMORY_GB, price};
use switchhook_operate::scale::{
    BATCH, BATCH_LINE_BYTES, CLAIM_RUN_S, DIAL, IDLE_STACK, METRICS_IN_USE, MONTH_DAYS, PROVISIONED_TABLES,
    REFOLD_READ_S, RELAY_LINE_BYTES, RETELL, TWILIO, Units, parameter,
};
use switchhook_providers::{DialRates, KeyLengths, Pacing, Period, ProvidersFile, discovery_api_request};
use switchhook_tests::{KEY, MINUTE, World};

use super::dollars::sized_retell_call;
use super::{LOG_LINE_BYTES, access_log_bytes, added_by_batches_of_one, consume, post};
use crate::files::{read, yaml};
use crate::outbound::{call_request, create};
use crate::outbound_budget::wake_scheduler;
use crate::traffic::{Webhook, twilio_call};

/// Largest difference between a measured unit and the unit of the model, as a share.
const TOLERANCE: f64 = 0.01;
/// Bytes that DynamoDB adds to each item and to each entry of an index when it bills storage. Source: the DynamoDB pricing page.
const ITEM_OVERHEAD_BYTES: usize = 100;
/// Calls of one measurement.
const CALLS: u64 = 60;

/// World whose use of AWS is measured from its start.
struct Meter {
    world: World,
    /// Use that the world itself does not count.
    used: Units,
    /// Use before the measurement.
    base: Units,
}

impl Meter {
    async fn new() -> Self {
        let world = World::stopped();
        world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
        // The first sweep of a stack goes back an hour.
        world.reconciler.run("test").await.unwrap();
        let mut meter = Self { world, used: Units::default(), base: Units::default() };
        meter.base = meter.read().await;
        // Without the reads by which the test has just measured.
        meter.base.reads = meter.reads();
        meter
    }

    /// Consumes the messages of the queue in one batch, and publishes what follows.
    async fn consume(&mut self) {
        self.used.messages += self.world.queued().len() as f64;
        consume(&self.world).await;
        for record in self.world.cloud.services().dynamodb().stream().next_batch(usize::MAX) {
            let record = record.to_event_record();
            // The filter of the relay's event source mapping.
            self.used.relay_records +=
                f64::from(u8::from(record["dynamodb"]["NewImage"]["outbox_start"]["N"].is_string()));
            let place = |image: &str| {
                let image = &record["dynamodb"][image];
                Some((image["wake_key"]["S"].as_str()?.to_owned(), image["wake_at"]["N"].to_string()))
            };
            let (old, new) = (place("OldImage"), place("NewImage"));
            let is_reconciled = |place: &Option<(String, String)>| {
                place
                    .as_ref()
                    .is_some_and(|(key, _)| WakeQueue::OPEN.iter().any(|queue| key.starts_with(&format!("{queue}#"))))
            };
            if old != new {
                self.used.reconcile_writes += f64::from(u8::from(is_reconciled(&old)) + u8::from(is_reconciled(&new)));
            }
        }
        self.world.relay().await;
    }

    /// Write units of a table, or of some of its indexes.
    fn writes(&self, table: &str, is_wanted: impl Fn(Option<&str>) -> bool) -> f64 {
        let units = self.world.cloud.services().dynamodb().units();
        let wanted = |unit: &Counted| unit.is_write && unit.table == table && is_wanted(unit.index.as_deref());
        units.iter().filter(|(unit, _)| wanted(unit)).map(|(_, count)| count).sum()
    }

    fn reads(&self) -> f64 {
        let units = self.world.cloud.services().dynamodb().units();
        units.iter().filter(|(unit, _)| !unit.is_write).map(|(_, count)| count).sum()
    }

    /// Bytes that DynamoDB bills for all items of a table, and for their entries in its indexes.
    async fn bytes(&self, table: &str) -> (f64, f64) {
        let items = self.world.items(table).await;
        let resource = if table == INBOX_TABLE { "InboxTable" } else { "CallsTable" };
        let properties = &yaml("template.yaml")["Resources"][resource]["Properties"];
        let of_table = items.iter().map(|item| item_bytes(item.iter())).sum::<usize>();
        let mut of_indexes = 0;
        for index in properties["GlobalSecondaryIndexes"].as_array().unwrap() {
            let keys = key_names(index);
            let others = index["Projection"]["NonKeyAttributes"].as_array().into_iter().flatten();
            let mut projected: BTreeSet<&str> = others.filter_map(Value::as_str).collect();
            projected.extend(key_names(properties));
            projected.extend(&keys);
            for item in items.iter().filter(|item| keys.iter().all(|key| item.contains_key(*key))) {
                of_indexes += item_bytes(item.iter().filter(|(name, _)| projected.contains(name.as_str())));
            }
        }
        (of_table as f64, of_indexes as f64)
    }

    /// Use of AWS since the start of the measurement.
    async fn read(&self) -> Units {
        let log = self.world.log_text();
        // Before the test reads the tables itself.
        let reads = self.reads();
        let (inbox_bytes, inbox_index_bytes) = self.bytes(INBOX_TABLE).await;
        let (calls_bytes, calls_index_bytes) = self.bytes(CALLS_TABLE).await;
        let used = Units {
            inbox_writes: self.writes(INBOX_TABLE, |index| index.is_none()),
            received_writes: self.writes(INBOX_TABLE, |index| index == Some(BY_RECEIVED)),
            calls_writes: self.writes(CALLS_TABLE, |index| index.is_none()),
            wake_writes: self.writes(CALLS_TABLE, |index| index == Some(BY_WAKE)),
            other_index_writes: self.writes(CALLS_TABLE, |index| index.is_some_and(|index| index != BY_WAKE)),
            reads,
            domain_events: self.world.domain_events().len() as f64,
            log_bytes: log.lines().filter(|line| !is_of_relay(line) && !is_of_batch(line)).map(line_bytes).sum::<f64>()
                + self.used.http_requests * access_log_bytes(),
            inbox_bytes,
            calls_bytes,
            inbox_index_bytes,
            calls_index_bytes,
            ..self.used
        };
        used.plus(-1.0, &self.base)
    }
}

fn is_of_relay(line: &str) -> bool {
    line.contains("\"action_taken\":\"relayed\"")
}

/// True for the line of a batch of the consumer.
fn is_of_batch(line: &str) -> bool {
    line.contains("\"action_taken\":\"batch_folded\"")
}

/// Bytes that CloudWatch bills for a line.
fn line_bytes(line: &str) -> f64 {
    line.len() as f64 + 1.0 + LOG_LINE_BYTES
}

/// Names of the keys of a table or an index.
fn key_names(schema: &Value) -> Vec<&str> {
    schema["KeySchema"].as_array().unwrap().iter().filter_map(|key| key["AttributeName"].as_str()).collect()
}

/// Bytes that DynamoDB bills for an item, or for an entry of an index, with these attributes.
fn item_bytes<'a>(attributes: impl Iterator<Item = (&'a String, &'a AttributeValue)>) -> usize {
    ITEM_OVERHEAD_BYTES + attributes.map(|(name, value)| name.len() + size(value)).sum::<usize>()
}

/// Size of a value as DynamoDB counts it.
fn size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::L(values) => 3 + values.iter().map(|value| 1 + size(value)).sum::<usize>(),
        AttributeValue::M(values) => 3 + values.iter().map(|(name, value)| name.len() + 1 + size(value)).sum::<usize>(),
        AttributeValue::Ss(values) | AttributeValue::Ns(values) => values.iter().map(String::len).sum(),
        AttributeValue::Bs(values) => values.iter().map(Vec::len).sum(),
    }
}

/// Returns the units that differ from those of the model.
fn differences(what: &str, measured: &Units, model: &Units) -> Vec<String> {
    let mut differing = Vec::new();
    for ((name, measured), (_, expected)) in measured.rows().into_iter().zip(model.rows()) {
        if (measured - expected).abs() > TOLERANCE * expected.abs() {
            differing.push(format!("{what}: {name}: {measured:.4} instead of {expected}"));
        }
    }
    differing
}

/// Plays calls three at a time, so that each batch of the consumer has messages of three calls. Returns the use per webhook.
async fn per_webhook(calls: Vec<Vec<Webhook>>) -> Units {
    let mut meter = Meter::new().await;
    for some in calls.chunks(BATCH as usize) {
        let longest = some.iter().map(Vec::len).max().unwrap_or(0);
        for event in 0..longest {
            for webhook in some.iter().filter_map(|call| call.get(event)) {
                assert_eq!(post(&meter.world, webhook).await, "accepted");
                meter.used.http_requests += 1.0;
                meter.used.invocations += 1.0;
                meter.used.sqs_requests += 1.0;
            }
            meter.consume().await;
        }
        meter.world.wait(Duration::from_secs(2)).await;
    }
    let mut used = meter.read().await;
    // The schedules of the next half hour sweep the inbox. A run that finds nothing costs as much as the cheapest.
    let mut runs = Vec::new();
    for _ in 0..32 {
        meter.world.wait(MINUTE).await;
        let before = meter.reads();
        meter.world.reconciler.run("test").await.unwrap();
        runs.push(meter.reads() - before);
        assert_eq!(meter.world.queued().len(), 0);
    }
    let idle = runs.iter().copied().fold(f64::MAX, f64::min);
    used.sweep_reads = runs.iter().map(|run| run - idle).sum();
    Units::default().plus(1.0 / used.http_requests, &used)
}

#[tokio::test(start_paused = true)]
async fn webhooks_have_the_units_of_the_model() {
    let retell: Vec<Vec<Webhook>> = (0..CALLS).map(sized_retell_call).collect();
    let twilio: Vec<Vec<Webhook>> = (0..CALLS).map(|number| twilio_call(number, true)).collect();
    let mut differing = Vec::new();
    for (profile, calls) in [(RETELL, retell), (TWILIO, twilio)] {
        assert!(calls.iter().all(|call| call.len() as f64 == profile.webhooks_per_call));
        differing.extend(differences(profile.name, &per_webhook(calls).await, &profile.webhook));
    }
    assert!(differing.is_empty(), "write these units into operate/src/scale/units.rs: {differing:#?}");
}

/// Checks the number and the mean size of some lines.
fn check_lines(log: &str, is_wanted: fn(&str) -> bool, count: f64, bytes: f64) {
    let lines: Vec<f64> = log.lines().filter(|line| is_wanted(line)).map(line_bytes).collect();
    assert_eq!(lines.len() as f64, count);
    let mean = lines.iter().sum::<f64>() / count;
    assert!((mean - bytes).abs() <= TOLERANCE * bytes, "{mean} instead of {bytes}");
}

#[tokio::test(start_paused = true)]
async fn batches_have_lines_of_the_size_of_the_model() {
    for batch in [1, BATCH as usize] {
        let mut meter = Meter::new().await;
        let mut batches = 0.0;
        let calls: Vec<Vec<Webhook>> = (0..CALLS / 2).map(sized_retell_call).collect();
        for some in calls.chunks(batch) {
            for event in 0..RETELL.webhooks_per_call as usize {
                for call in some {
                    post(&meter.world, &call[event]).await;
                }
                meter.consume().await;
                batches += 1.0;
            }
        }
        let log = meter.world.log_text();
        check_lines(&log, is_of_batch, batches, BATCH_LINE_BYTES);
        if batch == 1 {
            check_lines(&log, is_of_relay, meter.used.relay_records, RELAY_LINE_BYTES);
        }
    }
}

/// Creates, claims and dials one call.
async fn dial(meter: &mut Meter) {
    create(&meter.world, &call_request("confirms")).await;
    assert_eq!(wake_scheduler(&meter.world).await.claimed, 1);
    meter.world.cloud.dialer().handle(meter.world.take_claims()).await;
    // The API, the scheduler and the dialer are invoked. The message to the dialer is sent, received and deleted, and the event that
    // the provider accepted the dial is sent.
    meter.used.http_requests += 1.0;
    meter.used.invocations += 3.0;
    meter.used.sqs_requests += 4.0;
}

#[tokio::test(start_paused = true)]
async fn dials_have_the_units_of_the_model() {
    let mut meter = Meter::new().await;
    let dials = CALLS / 2;
    for _ in 0..dials / BATCH as u64 {
        for _ in 0..BATCH as u64 {
            dial(&mut meter).await;
        }
        meter.consume().await;
    }
    let dialled = meter.read().await;
    let mut webhooks = 0.0;
    let end = tokio::time::Instant::now() + MINUTE * 10;
    while let Ok(delivery) = tokio::time::timeout_at(end, meter.world.cloud.fake().next_delivery()).await {
        let (code, answer) = meter.world.post(Provider::Retell, delivery.body()).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        webhooks += 1.0;
        meter.consume().await;
    }
    assert_eq!(webhooks, dials as f64 * RETELL.webhooks_per_call);
    // A webhook changes a row more if its call was dialled. The difference belongs to the dial.
    let ended = meter.read().await.plus(-webhooks, &RETELL.webhook);
    let per_dial = Units {
        calls_writes: ended.calls_writes,
        relay_records: ended.relay_records,
        wake_writes: ended.wake_writes,
        reconcile_writes: ended.reconcile_writes,
        other_index_writes: ended.other_index_writes,
        domain_events: ended.domain_events,
        calls_bytes: ended.calls_bytes,
        calls_index_bytes: ended.calls_index_bytes,
        ..dialled
    };
    let differing = differences("dial", &Units::default().plus(1.0 / dials as f64, &per_dial), &DIAL);
    assert!(differing.is_empty(), "write these units into operate/src/scale/units.rs: {differing:#?}");
}

/// Share by which the use of a running stack may differ from the model, whose batches have three messages.
const RUN_TOLERANCE: f64 = 0.1;

/// Lets a stack run for ten minutes, with its event sources and schedules, while calls are reported and dialled. Returns its requests
/// by operation, and its use of AWS.
async fn run_stack(calls: u64, dials: u64) -> (BTreeMap<String, u64>, Units) {
    let mut meter = Meter::new().await;
    drop(meter.world.requests());
    meter.world.start();
    let calls: Vec<Vec<Webhook>> = (0..calls).map(sized_retell_call).collect();
    // A call starts every second. Its second webhook comes 40 seconds later, and the third one 5 seconds after that.
    for second in 0..600 {
        for (event, after) in [0, 40, 45].into_iter().enumerate() {
            let call = usize::try_from(second).ok().and_then(|second: usize| calls.get(second.checked_sub(after)?));
            if let Some(webhook) = call.and_then(|call| call.get(event)) {
                assert_eq!(post(&meter.world, webhook).await, "accepted");
            }
        }
        if second % 10 == 0 && second / 10 < dials {
            create(&meter.world, &call_request("confirms")).await;
        }
        meter.world.wait(Duration::from_secs(1)).await;
    }
    meter.world.stop();
    assert_eq!(meter.world.queued().len(), 0);
    (meter.world.requests(), meter.read().await)
}

#[tokio::test(start_paused = true)]
async fn running_stack_uses_what_the_model_reckons() {
    let (calls, dials) = (200, 20);
    let (idle_requests, idle) = run_stack(0, 0).await;
    let (requests, used) = run_stack(calls, dials).await;
    let used = used.plus(-1.0, &idle);
    let (webhooks, dials) = (calls as f64 * RETELL.webhooks_per_call, dials as f64);
    // The webhooks of dialled calls are those of the fake provider. They are small.
    let of_dialled = dials * RETELL.webhooks_per_call;
    let model = Units::default().plus(webhooks + of_dialled, &RETELL.webhook).plus(dials, &DIAL);
    let sent = |operation: &str| {
        let count = |requests: &BTreeMap<String, u64>| requests.get(operation).copied().unwrap_or_default() as f64;
        count(&requests) - count(&idle_requests)
    };
    let messages = webhooks + of_dialled + dials;
    let compared = [
        // A dial also sends a message to the dialer.
        ("SendMessage", sent("SendMessage"), messages + dials),
        // One for the inbox and one for the calls table. A dial adds two for the creation, two for the booking and the claim, two of the
        // dialer, and one of the fold.
        ("PutItem", sent("PutItem"), 2.0 * (webhooks + of_dialled) + 7.0 * dials),
        ("write units of the inbox table", used.inbox_writes, model.inbox_writes - of_dialled * SMALLER),
        ("write units of `by_received`", used.received_writes, model.received_writes),
        ("write units of the calls table", used.calls_writes, model.calls_writes),
        ("write units of `by_wake`", used.wake_writes, model.wake_writes),
        ("write units of other indexes", used.other_index_writes, model.other_index_writes),
        ("read units", used.reads, model.reads + model.sweep_reads),
        ("domain events", used.domain_events, model.domain_events),
    ];
    let mut differing = Vec::new();
    for (what, measured, expected) in compared {
        println!("{what}: {measured}, in the model {expected:.1}");
        if (measured - expected).abs() > RUN_TOLERANCE * expected {
            differing.push(format!("{what}: {measured} instead of {expected:.1}"));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

/// Write units by which a webhook of the fake provider costs less than one of 5 KB.
const SMALLER: f64 = RETELL.webhook.inbox_writes - 1.0;

#[test]
fn defaults_of_the_model_are_those_of_the_template() {
    let template = yaml("template.yaml");
    let default = |name: &str| template["Parameters"][name]["Default"].as_f64().unwrap();
    assert_eq!(default("WebhookRatePerSecond"), parameter::WEBHOOK_RATE);
    assert_eq!(default("ApiRatePerSecond"), parameter::API_RATE);
    assert_eq!(default("ConsumerMaxConcurrency"), parameter::CONSUMER_CONCURRENCY);
    let consumers = &template["Parameters"]["ConsumerMaxConcurrency"]["MaxValue"];
    assert_eq!(consumers.as_f64(), Some(parameter::CONSUMER_CONCURRENCY_MAX));
    let pollers = &template["Parameters"]["ConsumerPollers"]["MaxValue"];
    assert_eq!(pollers.as_f64(), Some(parameter::CONSUMER_POLLERS_MAX));
    assert_eq!(default("DialerMaxConcurrency"), parameter::DIALER_CONCURRENCY);
    let dialers = &template["Parameters"]["DialerMaxConcurrency"]["MaxValue"];
    assert_eq!(dialers.as_f64(), Some(parameter::DIALER_CONCURRENCY_MAX));
    assert_eq!(default("InboxRetentionDays"), parameter::INBOX_DAYS);
    assert_eq!(default("CallRetentionDays"), parameter::CALL_DAYS);
    let limit = |name: &str, limit: &str| template["Parameters"][name][limit].as_f64().unwrap();
    for (name, least) in
        [("InboxRetentionDays", parameter::INBOX_DAYS_MIN), ("CallRetentionDays", parameter::CALL_DAYS_MIN)]
    {
        assert_eq!((limit(name, "MinValue"), limit(name, "MaxValue")), (least, parameter::DAYS_MAX));
    }
    let rates: DialRates = template["Parameters"]["DialRates"]["Default"].as_str().unwrap().parse().unwrap();
    assert_eq!(rates.pacing(Provider::Retell).map(Pacing::per_second), Some(parameter::DIAL_RATE));
    let relay = &template["Resources"]["RelayMapping"]["Properties"];
    assert_eq!(relay["ParallelizationFactor"].as_f64(), Some(parameter::RELAY_PARALLELIZATION));
    assert_eq!(template["Globals"]["Function"]["MemorySize"].as_f64(), Some(MEMORY_GB * 1_024.0));
    let reconciler = &template["Resources"]["ReconcilerFunction"]["Properties"];
    assert_eq!(reconciler["MemorySize"].as_f64(), Some(RECONCILER_MEMORY_GB * 1_024.0));
    let resources = template["Resources"].as_object().unwrap().iter();
    let own: Vec<_> = resources.filter(|(_, resource)| resource["Properties"].get("MemorySize").is_some()).collect();
    assert_eq!(own.len(), 1, "every other function has the memory of Globals");
    let workers = &template["Resources"]["RepairQueueMapping"]["Properties"]["ScalingConfig"]["MaximumConcurrency"];
    assert_eq!(workers.as_f64(), Some(parameter::REPAIR_WORKERS));
}

#[test]
fn limits_of_functions_are_those_of_the_model() {
    assert_eq!(switchhook_consumer::REFOLD_READ_MAX.as_secs_f64(), REFOLD_READ_S);
    assert_eq!(switchhook_scheduler::RUN_MAX.as_secs_f64(), CLAIM_RUN_S);
}

#[test]
fn pages_of_lists_have_as_many_calls_as_in_the_model() {
    let file = json!({
        "retell": {"keys": [KEY], "dial": {"api_key": KEY}},
        "twilio": {"keys": [KEY], "public_url": "https://example.com", "dial": {
            "account_sid": "AC1", "api_key_sid": "SK1", "api_key_secret": KEY, "twiml_url": "https://example.com/twiml"}},
    });
    let file = ProvidersFile::parse(&file.to_string(), KeyLengths::Any).unwrap();
    let period = Period { from: Timestamp::from_millis(0), until: Timestamp::from_millis(3_600_000) };
    let request = |provider| {
        let config = file.dial_accounts().config(provider).unwrap();
        let request = discovery_api_request(provider, config, period, None).unwrap();
        format!("{} {}", request.path, String::from_utf8(request.body).unwrap())
    };
    let (retell, twilio) = (request(Provider::Retell), request(Provider::Twilio));
    assert!(retell.contains(&format!("\"limit\":{},", RETELL.calls_per_page)), "{retell}");
    assert!(twilio.contains(&format!("PageSize={} ", TWILIO.calls_per_page)), "{twilio}");
}

#[test]
fn batches_of_one_cost_what_the_page_about_cost_says() {
    let [invocations, queue, lines] = added_by_batches_of_one(RETELL.webhook.relay_records);
    // Batches of the relay alone, with one record instead of three.
    let part = 1e6 * (1.0 - 1.0 / BATCH);
    let (invocation, line) = (part * price::invocation(), part * RELAY_LINE_BYTES / 1e9 * price::LOG_GB);
    let page = read("docs/cost.md");
    for sentence in [
        format!("That adds ${invocations:.2} + ${queue:.2} + ${lines:.2}"),
        format!("costs up to ${:.2} more", invocation + line),
        format!("These are ${invocation:.2} for invocations and ${line:.2} for log lines"),
    ] {
        assert!(page.contains(&sentence), "docs/cost.md must say: {sentence}");
    }
}

#[test]
fn idle_stack_costs_what_the_page_about_cost_says() {
    let page = read("docs/cost.md");
    for (item, dollars) in IDLE_STACK.into_iter().chain([METRICS_IN_USE, PROVISIONED_TABLES]) {
        // Metrics have a column with their number.
        let is_row =
            |line: &&str| line.starts_with(&format!("| {item} |")) && line.ends_with(&format!("| {dollars:.2} |"));
        assert!(
            page.lines().any(|line| is_row(&line)),
            "docs/cost.md and operate/src/scale/bill.rs differ: {item}, {dollars}"
        );
    }
    let poller = price::POLLER_HOUR * 24.0 * MONTH_DAYS;
    // `TableUnits` is the number of five capacities for writes and of one for reads.
    let unit = price::capacity_month(5.0, 1.0);
    for (parameter, dollars) in [("poller of `ConsumerPollers`", poller), ("unit of `TableUnits`", unit)] {
        let row = format!("| each {parameter}, if it is not 0 | {dollars:.2} |");
        assert!(page.lines().any(|line| line == row), "docs/cost.md must have the row {row}");
    }
    let sum: f64 = IDLE_STACK.iter().map(|(_, dollars)| dollars).sum();
    let row = format!("| **an idle stack, together** | **{sum:.2}** |");
    assert!(page.lines().any(|line| line == row), "docs/cost.md must have the row {row}");
}
