//! Lists of calls and of events: their order, their pages, and the number of rows that they read.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{CallId, Provider};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{Item, World, generic};

use super::{Browser, Page, console, console_of, id_in};
use crate::repair::stack_for;

/// Rows of the test that counts what a page reads: three times as many as a page may read. With 100,000 rows, nothing but the time
/// to store them would differ, because a page reads from an index and stops at its limits.
const ROWS: u32 = 600;
/// Rows that a page may read.
const ROWS_MAX: u64 = 200;

/// Posts one event about each of these calls, one a second.
async fn ring(world: &World, calls: impl IntoIterator<Item = u32>, kind: &str) {
    for n in calls {
        let event = format!("{kind}-{n}");
        world.accept(Provider::Generic, &generic(&format!("c{n:03}"), &event, kind, 0)).await;
        world.wait(Duration::from_secs(1)).await;
    }
    world.quiesce().await;
}

/// Reads all pages of a list.
async fn all_pages(browser: &Browser, url: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut next = Some(url.to_owned());
    while let Some(url) = next {
        let page = browser.get(&url).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.html);
        next = page.next().filter(|_| pages.len() < 20);
        pages.push(page);
    }
    pages
}

fn calls_of(pages: &[Page]) -> Vec<String> {
    pages.iter().flat_map(Page::calls).collect()
}

fn names(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("c{n:03}")).collect()
}

#[tokio::test(start_paused = true)]
async fn recent_calls_are_on_one_page_each_where_their_latest_event_is() {
    let world = World::new();
    ring(&world, 0..60, "RINGING").await;
    // Every third call gets a second event, the last one first.
    ring(&world, (0..60).rev().step_by(3), "ANSWERED").await;
    let browser = Browser::open(&console(&world, false)).await;
    let again: Vec<u32> = (0..60).rev().step_by(3).collect();
    let once = (0..60).rev().filter(|n| !again.contains(n));
    let expected = names(again.iter().rev().copied().chain(once));
    let pages = all_pages(&browser, "/calls").await;
    assert_eq!(pages.first().unwrap().calls().len(), 25);
    assert_eq!(calls_of(&pages), expected);

    // A call that moves leaves its page; no other call is missed or shown twice.
    let first = browser.get("/calls").await;
    ring(&world, [0, 100], "ENDED").await;
    let mut rest = all_pages(&browser, &first.next().unwrap()).await;
    rest.insert(0, first);
    let expected: Vec<String> = expected.into_iter().filter(|call| call != "c000").collect();
    assert_eq!(calls_of(&rest), expected);
    assert!(browser.get("/calls").await.calls().starts_with(&names([100, 0])));
}

#[tokio::test(start_paused = true)]
async fn list_without_calls_names_its_time_and_the_events_that_are_in_no_call() {
    // The time of a page depends on the number of shards.
    let mut world = World::stopped();
    world.start();
    let body = json!({"event_id": "e0", "type": "call.transferred", "call_id": "c000"});
    assert_eq!(world.post(Provider::Generic, &body.to_string()).await.1["status"], json!("recorded"));
    assert_eq!(world.post(Provider::Generic, "not JSON").await.1["status"], json!("quarantined"));
    world.quiesce().await;
    let mut local = stack_for(&world, "console");
    local.local = Some("http://127.0.0.1:1".to_owned());
    let local = Browser::open(&console_of(local, false)).await.get("/calls").await;
    assert!(!local.contains("/try"), "only a playground has this page: {}", local.html);
    let browser = Browser::open(&console(&world, false)).await;
    for page in [local, browser.get("/calls").await] {
        assert!(page.contains("No call had an event between") && !page.contains("No event arrived"), "{}", page.html);
        assert!(page.contains("2 events arrived in this time") && page.contains("href=\"/events\""), "{}", page.html);
    }
    ring(&world, [1], "RINGING").await;
    world.wait(Duration::from_secs(3 * 60 * 60)).await;
    let pages = all_pages(&browser, "/calls").await;
    assert_eq!(calls_of(&pages), names([1]));
    let (first, second) = (&pages[0], &pages[1]);
    assert!(first.contains("</time> and now") && !first.contains("arrived in this time"), "{}", first.html);
    let end = first.next().unwrap().split_once("from=").unwrap().1.replace("%3A", ":");
    assert!(second.contains(&format!("and <time datetime=\"{end}\">")), "{end}: {}", second.html);
    assert!(!second.contains("and now") && !second.contains("switchhook check"), "{}", second.html);
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_wake_queue_are_merged_by_time() {
    let world = World::new();
    ring(&world, 0..60, "RINGING").await;
    let browser = Browser::open(&console(&world, false)).await;
    let expected = names((0..60).rev());
    assert_eq!(calls_of(&all_pages(&browser, "/calls?tab=in_flight").await), expected);
    let filtered = all_pages(&browser, "/calls?tab=in_flight&state=ringing&provider=generic&job=IN_PROGRESS").await;
    assert_eq!(calls_of(&filtered), expected);
    let none = browser.get("/calls?tab=in_flight&state=busy").await;
    assert!(none.calls().is_empty() && none.html.contains("None of the 60 calls"), "{}", none.html);
    for tab in ["waiting", "in_doubt", "settled", "stuck"] {
        let page = browser.get(&format!("/calls?tab={tab}")).await;
        assert!(page.calls().is_empty() && page.html.contains("class=\"empty\""), "{tab}: {}", page.html);
    }
    world.wait(Duration::from_secs(11 * 60)).await;
    let stuck = calls_of(&all_pages(&browser, "/calls?tab=stuck").await);
    assert_eq!(stuck, names(0..60), "the longest stuck comes first");
    let other = browser.get("/calls?tab=stuck&from=nonsense").await;
    assert!(other.html.contains("open the list again"), "{}", other.html);
}

#[tokio::test(start_paused = true)]
async fn any_id_opens_from_every_list() {
    let world = World::new();
    let ids = ["a/b?c#d%e f", "née 😀", "<b>&amp;\"'", "x=y&id=z+1", "\u{202e}abc"];
    for (n, id) in ids.iter().enumerate() {
        world.accept(Provider::Generic, &generic(id, &format!("{id}{n}"), "RINGING", 0)).await;
        world.wait(Duration::from_secs(1)).await;
    }
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    let expected: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let mut opened = 0;
    for list in ["/calls", "/calls?tab=in_flight", "/events"] {
        let page = browser.get(list).await;
        assert_eq!(page.calls().into_iter().collect::<BTreeSet<_>>(), expected, "{list}: {}", page.html);
        assert!(!page.html.contains("<b>") && !page.html.contains('\u{202e}'), "{list}: {}", page.html);
        for url in page.links("/call").into_iter().chain(page.links("/event")) {
            let one = browser.get(&url).await;
            assert_eq!(one.status, StatusCode::OK, "{url}: {}", one.html);
            assert!(!one.html.contains("<b>"), "{url}: {}", one.html);
            opened += 1;
        }
    }
    assert_eq!(opened, 4 * ids.len());
}

#[tokio::test(start_paused = true)]
async fn events_are_on_one_page_each_and_quiet_times_are_told() {
    let world = World::new();
    ring(&world, 0..30, "RINGING").await;
    world.wait(Duration::from_secs(30 * 60)).await;
    ring(&world, 30..60, "RINGING").await;
    let browser = Browser::open(&console(&world, false)).await;
    let pages = all_pages(&browser, "/events?provider=generic&since=2026-01-01T00:00").await;
    let events: Vec<String> = pages.iter().flat_map(|page| page.links("/event")).map(|url| id_in(&url)).collect();
    let expected: Vec<String> = (0..60).rev().map(|n| format!("generic:RINGING-{n}")).collect();
    assert_eq!(events, expected);
    let all = all_pages(&browser, "/events?since=2026-01-01T00:00").await;
    assert!(all.iter().any(|page| page.html.contains("nothing between")), "{}", all.first().unwrap().html);
    assert!(all.first().unwrap().html.contains("<rect"));
    let none = browser.get("/events?status=quarantined&since=2026-01-01T00:00").await;
    assert!(none.links("/event").is_empty() && none.html.contains("Without the filters"), "{}", none.html);
    let ahead = browser.get("/events?until=2026-01-09T00:00").await;
    assert_eq!(ahead.links("/event").len(), 25, "no query is spent on minutes that have not come: {}", ahead.html);
    let empty = browser.get("/events?since=2026-01-02T00:00&until=2026-01-01T00:00").await;
    assert!(empty.contains("No time lies between") && !empty.contains("No event"), "{}", empty.html);
}

/// Number of rows that were read, and of queries. No request may be a scan.
fn reads(world: &World) -> (u64, u64) {
    let (mut requests, capacity) = (world.requests(), world.capacity());
    let alone = requests.remove("GetItem").unwrap_or_default();
    // A row of these tables takes half a unit.
    let together = requests.remove("BatchGetItem").map_or(0.0, |_| 2.0 * capacity["BatchGetItem"].read_units);
    assert!(requests.keys().all(|operation| operation == "Query"), "{requests:?}");
    (alone + together as u64, requests.values().sum())
}

#[tokio::test(start_paused = true)]
async fn page_of_a_large_table_reads_few_rows() {
    let mut world = World::new();
    let event_id = world.accept(Provider::Generic, &generic("c1", "e1", "ENDED", 0)).await;
    world.wait(Duration::from_secs(40 * 60 + 30)).await;
    world.stop();
    let settled = world.item(CALLS_TABLE, "c1").await;
    let event = world.item(INBOX_TABLE, event_id.as_str()).await;
    let now = world.now();
    for n in 0..ROWS {
        let id = format!("call-{n:06}");
        world.put_item(CALLS_TABLE, changed(&settled, &[("call_id", &id), ("wake_key", &wake_key(&id))])).await;
        let bucket = format!("{}#{}", minute_of(now), shard_of(&id, SHARDS_DEFAULT));
        let event_id = format!("generic:e-{n:06}");
        let mut item = changed(&event, &[("event_id", &event_id), ("call_id", &id), ("received_bucket", &bucket)]);
        let at = now.as_millis() - 7 * i64::from(n);
        item.insert("received_at".to_owned(), AttributeValue::N(at.to_string()));
        world.put_item(INBOX_TABLE, item).await;
    }
    let browser = Browser::open(&console(&world, false)).await;
    drop((world.requests(), world.capacity()));
    for url in [
        "/calls",
        "/calls?tab=settled",
        "/calls?tab=settled&job=PENDING",
        "/calls?tab=in_flight",
        "/calls?tab=waiting",
        "/calls?tab=stuck",
        "/events",
    ] {
        let page = browser.get(url).await;
        let (rows, queries) = reads(&world);
        // One more is the list of accounts, which the filter offers.
        assert!(rows <= ROWS_MAX + 1 && queries <= 240, "{url}: {rows} rows, {queries} queries");
        assert_eq!(page.status, StatusCode::OK, "{}", page.html);
        assert!(page.html.len() < 32 * 1024, "{url}: {} bytes", page.html.len());
    }
    let settled = browser.get("/calls?tab=settled").await;
    assert_eq!(settled.calls().len(), 25);
    let filtered = browser.get("/calls?tab=settled&job=PENDING").await;
    assert!(filtered.html.contains("None of the 200 calls") && filtered.next().is_some(), "{}", filtered.html);
}

/// Key of the queue of settled calls that holds a call.
fn wake_key(id: &str) -> String {
    format!("settled#{}", shard_of(CallId::new(id).as_str(), SHARDS_DEFAULT))
}

fn changed(item: &Item, texts: &[(&str, &str)]) -> Item {
    let texts = texts.iter().map(|(name, value)| ((*name).to_owned(), AttributeValue::S((*value).to_owned())));
    item.clone().into_iter().chain(texts).collect()
}

#[tokio::test(start_paused = true)]
async fn filters_offer_the_listed_accounts() {
    let world = World::new();
    world.calls.list_accounts(&["retell-eu".parse().unwrap()].into()).await.unwrap();
    let browser = Browser::open(&console(&world, false)).await;
    for (url, others) in
        [("/calls", 0), ("/events", 1), ("/calls?provider=twilio-us", 1), ("/events?provider=switchhook", 1)]
    {
        let page = browser.get(url).await;
        for name in ["retell", "retell-eu", "generic"] {
            assert!(page.contains(&format!("<option value=\"{name}\"")), "{url}: {}", page.html);
        }
        let options = page.html.split("name=\"provider\"").nth(1).unwrap().split("</select>").next().unwrap();
        let count = options.matches("<option").count();
        assert_eq!(count, 1 + Provider::ALL.len() + 1 + others, "{url}: {options}");
    }
}
