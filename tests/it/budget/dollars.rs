//! The price of a million webhooks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use switchhook_aws::shards::Shards;
use switchhook_local::CloudOptions;
use switchhook_local::dynamodb::Count;
use switchhook_operate::cost::RECONCILER_MEMORY_GB;
use switchhook_operate::scale::{
    BATCH, BATCH_LINE_BYTES, IDLE_STACK, MONTH_DAYS, PROVISIONED_TABLES, RETELL, TWILIO, Traffic,
};
use switchhook_tests::{MINUTE, World, all_providers, options};

use super::{LOG_LINE_BYTES, RUNS, access_log_bytes, added_by_batches_of_one, consume, post, price, reset_counters};
use crate::files::read;
use crate::traffic::{Webhook, retell_call, twilio_call};

/// Upper limit for the cost of a million accepted webhooks in USD, without the index of phone numbers. The limit includes two
/// cents for the events to operators, which do not depend on the traffic, and 20 cents for metrics and trace ids in the log lines.
const DOLLARS_MAX: f64 = 8.00;
/// Upper limit for the same webhooks if they come by the URL of ingress, without the API and its access log.
const DOLLARS_BY_URL_MAX: f64 = 6.90;
/// Upper limit for the same webhooks by the API, with provisioned tables (the parameter `TableUnits`) of whose capacity the assumed share
/// is used. It is for [`MILLIONS_PROVISIONED`] webhooks a month, with all that such tables cost beside it.
const DOLLARS_PROVISIONED_MAX: f64 = 6.15;
/// Aim for the cost of a million accepted webhooks. Provisioned tables reach it by the URL of ingress.
const DOLLARS_AIM: f64 = 6.00;
const MILLIONS_PROVISIONED: f64 = 100.0;
/// Millions of webhooks a month, for which the page about cost compares both kinds of tables.
const MONTHS: [(&str, f64); 3] =
    [("10 million", 10.0), ("100 million", MILLIONS_PROVISIONED), ("1,000 million", 1_000.0)];
/// Writes of the inbox table in a quiet hour, as a share of the mean. `TableUnits` is chosen by them.
const QUIET_SHARE: f64 = 1.0 / 3.0;
/// Upper limit for the additional cost of the index of phone numbers, while the parameter `IndexNumbers` is on.
const NUMBERS_DOLLARS_MAX: f64 = 0.25;

/// Usage of AWS by some hundred webhooks. The price of a million webhooks is computed from it.
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
    /// USD for the scheduled runs that these webhooks caused. The price of a run that finds nothing is not included.
    sweep: f64,
}

impl Ledger {
    /// Adds the capacity units of some requests.
    fn add(&mut self, capacity: &BTreeMap<&'static str, Count>) {
        for count in capacity.values() {
            self.write_units += count.write_units;
            self.index_write_units += count.index_write_units;
            self.read_units += count.read_units;
        }
    }

    /// Reduction of the USD per million webhooks by provisioned tables.
    fn saved_by_provisioning(&self) -> f64 {
        price::saved_by_provisioning(self.write_units + self.index_write_units, self.read_units) * 1e6 / self.webhooks
    }

    /// USD per million webhooks by purpose, if each webhook causes this number of domain events.
    fn dollars(&self, events: f64) -> Vec<(&'static str, f64)> {
        let million = 1e6 / self.webhooks;
        let writes = self.write_units * price::WRITE_UNIT;
        let lambda = self.invocations * price::invocation();
        let logs = (self.log_bytes + self.webhooks * access_log_bytes()) / 1e9 * price::LOG_GB;
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

pub(super) fn sum(dollars: &[(&str, f64)]) -> f64 {
    dollars.iter().map(|(_, dollars)| dollars).sum()
}

/// USD for the capacity units of some requests.
pub(super) fn dollars_of(capacity: &BTreeMap<&'static str, Count>) -> f64 {
    let dollars = |count: &Count| {
        (count.write_units + count.index_write_units) * price::WRITE_UNIT + count.read_units * price::READ_UNIT
    };
    capacity.values().map(dollars).sum()
}

/// Plays calls of a provider, three at a time, so that each batch of the consumer has messages of three calls. Returns
/// their usage, and the USD of a run of the reconciler that finds nothing, with its invocation.
async fn play(calls: Vec<Vec<Webhook>>, index_numbers: bool) -> (Ledger, f64) {
    let world = World::with_options(CloudOptions {
        index_numbers,
        index_shards: Shards::default(),
        ..options(&all_providers())
    });
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
            // The requests of the event source mapping: it receives a batch and deletes it.
            ledger.sqs_requests += requests["SendMessage"] as f64 + 2.0;
            // Ingress is invoked for each webhook; the consumer and the relay are invoked for each batch.
            ledger.invocations += now.len() as f64 + 2.0;
            ledger.webhooks += now.len() as f64;
        }
        world.wait(Duration::from_secs(2)).await;
    }
    ledger.events = world.domain_events().len() as f64;
    ledger.log_bytes = (world.log_text().len() - lines_before) as f64
        + (world.log_text().lines().count() - line_count) as f64 * LOG_LINE_BYTES;

    // The schedules of the next half hour: the reconciler sweeps the inbox and wakes silent calls.
    let mut runs = Vec::new();
    let mut idle_requests = u64::MAX;
    for _ in 0..32 {
        world.wait(MINUTE).await;
        reset_counters(&world);
        world.reconciler.run("test").await.unwrap();
        while !world.queued().is_empty() {
            consume(&world).await;
            world.relay().await;
        }
        let requests = world.requests();
        idle_requests = idle_requests.min(requests.values().sum());
        runs.push(
            dollars_of(&world.capacity())
                + requests.get("SendMessage").map_or(0.0, |sent| *sent as f64 * 3.0 * price::SQS_FIFO),
        );
    }
    let idle = runs.iter().copied().fold(f64::MAX, f64::min);
    ledger.sweep = runs.iter().map(|run| run - idle).sum();
    (ledger, idle + price::idle_run(idle_requests as f64, RECONCILER_MEMORY_GB))
}

#[tokio::test(start_paused = true)]
async fn million_webhooks_cost_about_eight_dollars_at_most() {
    let calls = 60_u64;
    let retell = |numbers| play((0..calls).map(sized_retell_call).collect(), numbers);
    let twilio = |numbers| play((0..calls).map(|number| twilio_call(number, true)).collect(), numbers);
    let played = [
        ("retell, 5 KB", RETELL, retell(false).await, retell(true).await.0),
        ("twilio", TWILIO, twilio(false).await, twilio(true).await.0),
    ];
    // Rows of the page about cost: name, and dollars of each kind.
    let mut rows: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut add_row = |name: &'static str, dollars: f64| match rows.iter_mut().find(|(known, _)| *known == name) {
        Some((_, cells)) => cells.push(dollars),
        None => rows.push((name, vec![dollars])),
    };
    let mut idle_runs = 0.0;
    let (mut of_one, mut dearer_below, mut aim_from) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, profile, (ledger, idle), with_numbers) in played {
        let events = ledger.events / ledger.webhooks;
        let runs = RUNS * idle;
        idle_runs = runs;
        let budget = ledger.dollars(1.0);
        let (as_budgeted, as_played) = (sum(&budget) + runs, sum(&ledger.dollars(events)) + runs);
        println!("{kind}: ${as_budgeted:.2} with one domain event per webhook, ${as_played:.2} with {events:.2}");
        for (what, dollars) in &budget {
            println!("    {what}: ${dollars:.2}");
        }
        println!("    runs of the reconciler that find nothing, in a month: ${runs:.2}");
        let numbers = sum(&with_numbers.dollars(1.0)) - sum(&budget);
        println!("    index of numbers: ${numbers:.2}");
        assert!(as_budgeted <= DOLLARS_MAX, "{kind}: {budget:?}");
        assert!(numbers <= NUMBERS_DOLLARS_MAX, "{kind}: {numbers}");
        let is_of_tables = |what: &str| what.starts_with("tables") || what.starts_with("indexes");
        for (what, dollars) in budget.iter().filter(|(what, _)| !is_of_tables(what)) {
            add_row(what, *dollars);
        }
        let of_tables = budget.iter().filter(|(what, _)| is_of_tables(what));
        add_row("tables and indexes, written and read", of_tables.map(|(_, dollars)| dollars).sum());
        add_row("reconciler runs that find nothing, per month", runs);
        add_row("index of numbers (`IndexNumbers`)", numbers);
        add_row("**together**", as_budgeted + numbers);
        add_row("together, with every domain event of these calls", as_played + numbers);
        of_one.push(as_budgeted + numbers + added_by_batches_of_one(profile.webhook.relay_records).iter().sum::<f64>());
        let of_api = 1e6 * (price::HTTP_API + access_log_bytes() / 1e9 * price::LOG_GB);
        let by_url = as_budgeted - of_api;
        assert!(by_url <= DOLLARS_BY_URL_MAX, "{kind}: {by_url}");
        add_row("by the URL of ingress, without the index of numbers", by_url);
        // The writes of `by_attention` wait for trouble.
        let inbox_writes = 1e6 * profile.webhook.inbox_writes / (MONTH_DAYS * 86_400.0);
        let saved = ledger.saved_by_provisioning() - price::capacity_month(QUIET_SHARE * inbox_writes, 0.0);
        let (_, fixed) = PROVISIONED_TABLES;
        // The calls are played in batches of three. Little traffic has smaller ones.
        let on_demand = |millions: f64| {
            let traffic = Traffic { dialled_share: 0.0, profile, ..Traffic::new(millions * 1e6 / MONTH_DAYS) };
            let batch = price::invocation() + 2.0 * price::SQS_FIFO + BATCH_LINE_BYTES / 1e9 * price::LOG_GB;
            as_budgeted - runs + runs / millions + (1.0 / traffic.batch() - 1.0 / BATCH) * 1e6 * batch
        };
        for (name, millions) in MONTHS {
            let on_demand = on_demand(millions);
            let provisioned = on_demand - saved + fixed / millions;
            for dollars in [on_demand, provisioned, provisioned - of_api] {
                add_row(name, dollars);
            }
            if millions == MILLIONS_PROVISIONED {
                assert!(provisioned <= DOLLARS_PROVISIONED_MAX, "{kind}: {provisioned}");
                assert!(provisioned - of_api <= DOLLARS_AIM, "{kind}: {provisioned} with the API");
            }
        }
        dearer_below.push((fixed / saved).ceil());
        let by_url_of = |millions: &f64| on_demand(*millions) - saved + fixed / millions - of_api;
        aim_from.push((1..1_000).map(f64::from).find(|millions| by_url_of(millions) <= DOLLARS_AIM).unwrap());
    }
    let words = |page: &str| page.split_whitespace().collect::<Vec<_>>().join(" ");
    let (page, decisions) = (read("docs/cost.md"), words(&read("docs/decisions.md")));
    let text = words(&page);
    let mut missing = Vec::new();
    let aim = format!("from {} million webhooks of Retell a month on", aim_from[0]);
    if !decisions.contains(&aim) {
        missing.push(format!("docs/decisions.md: {aim}"));
    }
    let fifty = 50.0 * price::capacity_month(5.0, 1.0) + PROVISIONED_TABLES.1;
    let of_tables = rows.iter().find(|(name, _)| *name == "tables and indexes, written and read").unwrap().1[0];
    for sentence in [
        format!("of Retell cost ${:.2}", of_one[0]),
        format!("of Twilio's cost ${:.2}", of_one[1]),
        format!("{aim}, by the URL of ingress"),
        format!(
            "With fewer than {} million webhooks of Retell a month, or {} million of Twilio, it costs more",
            dearer_below[0], dearer_below[1]
        ),
        format!("pays ${:.2} a month", PROVISIONED_TABLES.1),
        format!("${:.2} for the capacities that do not fall below 5", price::capacity_month(10.0, 30.0)),
        format!("They cost ${:.2} of the ${:.2}", price::capacity_month(1.0, 0.0), price::capacity_month(5.0, 1.0)),
        format!(
            "`TableUnits=50` costs ${fifty:.2} a month before the first webhook, as much as tables on demand for {:.0} million webhooks",
            fifty / of_tables
        ),
    ] {
        if !text.contains(&sentence) {
            missing.push(sentence);
        }
    }
    for (name, cells) in rows {
        let bold = if name.starts_with("**") { "**" } else { "" };
        let cells: Vec<String> = cells.iter().map(|dollars| format!("{bold}{dollars:.2}{bold}")).collect();
        let row = format!("| {} |", cells.join(" | "));
        let is_row = |line: &str| line.starts_with(&format!("| {name}")) && line.ends_with(&row);
        if !page.lines().any(is_row) {
            missing.push(format!("{name}: {row}"));
        }
    }
    // The line of an idle stack adds the requests for the lengths of two queues.
    let idle = idle_runs + 2.0 * RUNS * price::SQS_FIFO;
    let (item, idle_stack) = IDLE_STACK.into_iter().find(|(item, _)| item.starts_with("the reconciler")).unwrap();
    if format!("{idle:.2}") != format!("{idle_stack:.2}") {
        missing.push(format!("{item}: {idle:.4}"));
    }
    assert!(missing.is_empty(), "docs/cost.md must have these rows and sentences: {missing:#?}");
}

/// A Retell call whose webhooks have 5 KB on average.
pub(super) fn sized_retell_call(number: u64) -> Vec<Webhook> {
    let bytes = |call: &[Webhook]| call.iter().map(|webhook| webhook.body.len()).sum::<usize>() / call.len();
    let calls = (0..).map(|turns| retell_call(number, turns, 2));
    calls.into_iter().find(|call| bytes(call) >= 5_120).unwrap()
}

#[test]
fn prices_add_up() {
    // The expected prices are calculated by hand, for ten webhooks with one unit of each kind.
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
            ["logs", 78],
            ["sweep and wake-up", 0]
        ])
    );
}
