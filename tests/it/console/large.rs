//! Large tables: what a page or a plan reads does not grow with the number of stored calls and events.
//!
//! `SWITCHHOOK_CONSOLE_ROWS=100000` stores as many calls as the console is made for.

#![expect(clippy::print_stdout, reason = "it prints how long each page took, and judges only what was read")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use http::StatusCode;
use serde_dynamo::AttributeValue;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::{SHARDS_DEFAULT, shards_of_marks};
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::plan::ITEMS_MAX_DEFAULT;
use switchhook_operate::replay::{self, ReplayFilter};
use switchhook_tests::{Item, World, generic};

use super::{Browser, console};
use crate::operator::quarantine::unreadable;
use crate::outbound::{call_request, create};
use crate::repair::stack_of;

/// Rows that a page may read one by one: of calls and events, the health of each provider, and the list of accounts.
const ROWS_MAX: u64 = 201 + Provider::ALL.len() as u64;
/// Pages of lists, each with the largest number of queries that it may send.
const LISTS: [(&str, u64); 16] = [
    ("/calls", 240),
    ("/calls?tab=in_flight", 6 * SHARDS_DEFAULT),
    ("/calls?tab=waiting", 25 * SHARDS_DEFAULT),
    ("/calls?tab=waiting&state=busy", 32 * SHARDS_DEFAULT),
    ("/calls?tab=stuck", 32 * SHARDS_DEFAULT),
    ("/calls?tab=in_doubt", 9 * SHARDS_DEFAULT),
    ("/calls?tab=settled", 2 * SHARDS_DEFAULT),
    ("/calls?tab=settled&job=PENDING", 9 * SHARDS_DEFAULT),
    ("/events", 240),
    ("/events?status=quarantined", 240),
    ("/repair", 10),
    ("/repair?tab=quarantined", 10),
    ("/repair?tab=audit", 14),
    ("/dials", 51 * SHARDS_DEFAULT),
    // Overdue calls of each wake queue, and four kinds of trouble.
    ("/", 27 * SHARDS_DEFAULT + 8),
    ("/search", 0),
];

/// Number of calls, and of events. Half of the calls wait, more than are counted.
fn rows() -> u64 {
    std::env::var("SWITCHHOOK_CONSOLE_ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(12_000)
}

/// Items that the copies are made of.
struct Originals {
    settled: Item,
    in_flight: Item,
    waiting: Item,
    event: Item,
    quarantined: Item,
}

impl Originals {
    /// Lets one of each come into being, and stops the stack.
    async fn of(world: &mut World) -> Self {
        let event = world.accept(Provider::Generic, &generic("settled", "e1", "ENDED", 0)).await;
        world.wait(Duration::from_secs(40 * 60 + 30)).await;
        world.accept(Provider::Generic, &generic("in-flight", "e2", "RINGING", 0)).await;
        let mut later = call_request("confirms");
        later["due_at"] = "2026-01-02T00:00:00Z".into();
        let waiting = create(world, &later).await;
        let quarantined = unreadable(world).await;
        world.quiesce().await;
        world.stop();
        let mut event = world.item(INBOX_TABLE, event.as_str()).await;
        // The bodies of the copies are compressed without it.
        event.remove("dictionary");
        Self {
            settled: world.item(CALLS_TABLE, "settled").await,
            in_flight: world.item(CALLS_TABLE, "in-flight").await,
            waiting: world.item(CALLS_TABLE, &waiting).await,
            event,
            quarantined: world.item(INBOX_TABLE, quarantined.as_str()).await,
        }
    }

    /// Stores the calls with these numbers, an event of each call, and some events that cannot be read. A quarter of the calls
    /// is settled, a quarter is in flight, and half of them wait.
    fn store(&self, world: &World, numbers: Range<u64>, now: Timestamp) {
        let of_kind =
            |kind: u64| numbers.clone().filter(move |n| [0, 2, 1, 2][usize::try_from(n % 4).unwrap()] == kind);
        for (kind, item) in [(0, &self.settled), (1, &self.in_flight), (2, &self.waiting)] {
            let copy = |n: u64| {
                let id = call_id(n);
                // Some are due, and others later. Each time is another one.
                let wake_at = now.as_millis() - 1_000_000 + 7 * i64::try_from(n).unwrap();
                let queue = text_of(&item["wake_key"]).rsplit_once('#').unwrap().0.to_owned();
                let wake_key = format!("{queue}#{}", shard_of(&id, SHARDS_DEFAULT));
                vec![("call_id", text(id)), ("wake_key", text(wake_key)), ("wake_at", number(wake_at))]
            };
            world.store_copies(CALLS_TABLE, item, of_kind(kind).map(copy));
        }
        let received = |n: u64, id: &str| {
            let at = now.as_millis() - 7 * i64::try_from(n).unwrap();
            let minute = minute_of(Timestamp::from_millis(at));
            let bucket = format!("{minute}#{}", shard_of(id, SHARDS_DEFAULT));
            [("received_at", number(at)), ("received_bucket", text(bucket))]
        };
        let event = |n: u64| {
            let (call_id, event_id) = (call_id(n), format!("e-{n:07}"));
            let body = zstd::bulk::compress(generic(&call_id, &event_id, "RINGING", 0).as_bytes(), 1).unwrap();
            let own = [
                ("event_id", text(format!("generic:{event_id}"))),
                ("call_id", text(call_id.clone())),
                ("body", AttributeValue::B(body)),
            ];
            own.into_iter().chain(received(n, &call_id)).collect()
        };
        world.store_copies(INBOX_TABLE, &self.event, numbers.clone().map(event));
        let unreadable = |n: u64| {
            let id = format!("generic:sha256-{n:07}");
            let attention = format!("quarantined#{}", shard_of(&id, shards_of_marks(SHARDS_DEFAULT)));
            let own = [("event_id", text(id.clone())), ("attention", text(attention))];
            own.into_iter().chain(received(n, &id)).collect()
        };
        world.store_copies(INBOX_TABLE, &self.quarantined, numbers.filter(|n| n % 5 == 0).map(unreadable));
    }
}

fn call_id(n: u64) -> String {
    format!("call-{n:07}")
}

fn text(text: String) -> AttributeValue {
    AttributeValue::S(text)
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn text_of(value: &AttributeValue) -> &str {
    let AttributeValue::S(text) = value else { panic!("{value:?}") };
    text
}

/// Requests and read units of something, and the rows that were read by their ids.
#[derive(Debug, PartialEq)]
struct Read {
    requests: BTreeMap<String, u64>,
    rows: u64,
    units: f64,
}

impl Read {
    /// Returns the requests and read units since the last call.
    fn of(world: &World) -> Self {
        let (requests, capacity) = (world.requests(), world.capacity());
        let alone = requests.get("GetItem").copied().unwrap_or_default();
        // A row of these tables takes half a unit.
        let together = capacity.get("BatchGetItem").map_or(0.0, |count| 2.0 * count.read_units);
        let units = capacity.values().map(|count| count.read_units).sum();
        Self { requests, rows: alone + together as u64, units }
    }

    fn of_operation(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or_default()
    }
}

/// Reads every list. Returns what each read.
async fn read_lists(world: &World, stored: u64) -> Vec<(&'static str, Read)> {
    let browser = Browser::open(&console(world, false)).await;
    drop(Read::of(world));
    let mut reads = Vec::new();
    for (url, queries_max) in LISTS {
        let started = Instant::now();
        let page = browser.get(url).await;
        let took = started.elapsed();
        let read = Read::of(world);
        println!("{stored} rows: {url} took {took:?}: {:?}, {} read units", read.requests, read.units);
        let is_found = url != "/search";
        assert_eq!(page.status == StatusCode::OK, is_found, "{url}: {}", page.html);
        assert!(!page.contains("class=\"problem\""), "{url}: {}", page.html);
        let (rows, queries) = (read.rows, read.of_operation("Query"));
        assert!(rows <= ROWS_MAX && queries <= queries_max, "{url}: {rows} rows, {queries} queries");
        let others = ["BatchGetItem", "GetItem", "Query", "GetQueueAttributes"];
        assert!(read.requests.keys().all(|operation| others.contains(&operation.as_str())), "{url}: {read:?}");
        let words = numbers_of(&page.html);
        let kinds = [stored, stored / 2, stored / 4, stored / 5].into_iter().filter(|count| *count > 1_000);
        for count in kinds {
            let with_commas = format!("{},{:03}", count / 1_000, count % 1_000);
            let is_shown = [count.to_string(), with_commas].iter().any(|total| words.contains(total.as_str()));
            assert!(!is_shown, "{url} shows the total {count}");
        }
        reads.push((url, read));
    }
    reads
}

/// Returns the numbers that a page shows. The digits within an id or a random token are no number.
fn numbers_of(html: &str) -> BTreeSet<&str> {
    let words = html.split(|char: char| !char.is_alphanumeric() && char != ',').map(|word| word.trim_matches(','));
    words.filter(|word| word.starts_with(|char: char| char.is_ascii_digit())).collect()
}

#[test]
fn total_is_found_in_a_page_and_digits_of_a_token_are_not() {
    let numbers = numbers_of("<p title=\"9000\">all 4,500, of</p><i value=\"f0a1800c2250\">2250e</i>");
    assert_eq!(numbers, BTreeSet::from(["9000", "4,500", "2250e"]));
}

/// Plans a replay of all events. Returns what this read.
async fn read_plan(world: &World, stored: u64, cap: usize, since: Timestamp) -> Read {
    let stack = stack_of(world);
    drop(Read::of(world));
    let started = Instant::now();
    let filter = ReplayFilter { since: Some(since), provider: Some(Provider::Generic), ..ReplayFilter::default() };
    let plan = replay::plan(&stack, &filter, cap, &mut |_, _| {}).await.unwrap();
    let took = started.elapsed();
    let read = Read::of(world);
    println!("{stored} rows: a plan took {took:?}: {:?}, {} read units", read.requests, read.units);
    assert!(plan.capped && plan.continue_at.is_some(), "the plan says that more may match");
    assert_eq!(plan.items.len() + plan.skipped_count + plan.unaffected, cap);
    // The events that cannot be read are among the first, and have no effect.
    assert_eq!(plan.effects.len() + plan.skipped_count, 500);
    assert!(!read.requests.contains_key("Scan"), "{read:?}");
    let browser = Browser::open(&console(world, false)).await;
    let page = browser.get(&format!("/plan?id={}", plan.id)).await;
    let next = plan.continue_at.unwrap();
    let limit = format!(
        "The plan has reached a limit, so more may match. Run it, and then go on in the terminal with --since {next}."
    );
    assert!(page.contains(&limit), "{}", page.html);
    assert!(page.contains("The effect on ") && page.contains("is not worked out, because a plan shows 500"));
    drop(Read::of(world));
    read
}

#[tokio::test(start_paused = true)]
async fn lists_and_plans_read_no_more_of_a_larger_table() {
    let mut world = World::new();
    let originals = Originals::of(&mut world).await;
    let (now, all) = (world.now(), rows());
    let some = all / 4 * 3;
    let cap = ITEMS_MAX_DEFAULT.min(usize::try_from(some / 2).unwrap());
    let started = Instant::now();
    originals.store(&world, 0..some, now);
    println!("{some} calls and as many events were stored in {:?}", started.elapsed());
    let fewer = read_lists(&world, some).await;
    let since = |stored: u64| now.minus(Duration::from_millis(7 * stored));
    let fewer_planned = read_plan(&world, some, cap, since(some)).await;
    originals.store(&world, some..all, now);
    let more = read_lists(&world, all).await;
    for ((url, fewer), (_, more)) in fewer.iter().zip(&more) {
        // The newest rows are spread over the shards in another way, so a page may need one more round of queries.
        let sent = |read: &Read| read.requests.values().sum::<u64>();
        assert!(sent(more) <= sent(fewer) + 3 * SHARDS_DEFAULT, "{url}: {fewer:?} and {more:?}");
        assert!(more.units <= 1.1 * fewer.units + 8.0, "{url}: {} and {} read units", fewer.units, more.units);
    }
    // The earliest minute of a period is not always a full one.
    let more_planned = read_plan(&world, all, cap, since(all)).await;
    let queries = [&fewer_planned, &more_planned].map(|read| read.of_operation("Query"));
    assert!(queries[1] <= queries[0] + 2 * SHARDS_DEFAULT, "{queries:?}");
    let items = [fewer_planned.rows, more_planned.rows];
    assert!(items[1] <= items[0] + items[0] / 10, "{items:?}");
    assert!(more_planned.units <= 1.3 * fewer_planned.units, "{fewer_planned:?} {more_planned:?}");
}
