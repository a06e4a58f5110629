//! Requests of each page, exactly: more of them cost money, and a new kind of them needs a permission. And what an open page of
//! Health costs.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use http::StatusCode;
use switchhook_domain::Provider;
use switchhook_operate::cost::price;
use switchhook_operate::replay;
use switchhook_tests::{World, generic};

use super::{Browser, Page, console};
use crate::operator::quarantine::unreadable;
use crate::outbound::{call_request, create};
use crate::repair::{everything, stack_of};

/// Pages and the requests of each. `GetItem` reads one item, and `Query` one shard of an index.
const PAGES: [(&str, &str); 24] = [
    // Nothing of the stack.
    ("/search", ""),
    ("/search?found=nothing", ""),
    // The health of twelve providers, the list of accounts and the cursor of the sweep. Every wake queue except the one of settled calls, and four kinds of
    // trouble. Five queues.
    ("/", "GetItem 14, GetQueueAttributes 5, Query 100"),
    // Minutes of events, as many as a page may read, and the rows of their calls.
    ("/calls", "GetItem 2, Query 240"),
    ("/calls?tab=in_flight", "GetItem 2, Query 12"),
    ("/calls?tab=waiting", "GetItem 3, Query 80"),
    ("/calls?tab=stuck", "GetItem 3, Query 92"),
    ("/calls?tab=in_doubt", "GetItem 1, Query 4"),
    ("/calls?tab=settled", "GetItem 1, Query 4"),
    ("/call?id=c1", "GetItem 1"),
    ("/call?id=c1&as_of=2026-01-01T00:00:01Z", "GetItem 1"),
    ("/call?id=nobody", "GetItem 1"),
    // Each event, its note, and its call.
    ("/events", "GetItem 12, Query 240"),
    ("/event?id=generic%3Ae1", "GetItem 4"),
    ("/event?id=generic%3Anone", "GetItem 1"),
    ("/repair", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=dead-letters", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=quarantined", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=retrying", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=conflicts", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=relay", "GetQueueAttributes 2, Query 8"),
    ("/repair?tab=audit", "GetQueueAttributes 2, Query 12"),
    ("/dials", "GetItem 14, Query 204"),
    ("/unmask?event=generic%3Ae1", ""),
];

/// Requests since the last call, for example `GetItem 2, Query 4`.
fn requests(world: &World) -> String {
    world.requests().iter().map(|(operation, count)| format!("{operation} {count}")).collect::<Vec<_>>().join(", ")
}

/// A stopped stack with a call of another system, one that waits, and an event that cannot be read.
async fn world() -> World {
    // The requests depend on the number of shards.
    let mut world = World::stopped();
    world.start();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    world.accept(Provider::Generic, &generic("c1", "e2", "ANSWERED", 5)).await;
    unreadable(&world).await;
    let mut later = call_request("confirms");
    later["due_at"] = "2026-01-02T00:00:00Z".into();
    create(&world, &later).await;
    world.quiesce().await;
    world.stop();
    world
}

#[tokio::test(start_paused = true)]
async fn each_page_sends_exactly_these_requests() {
    let world = world().await;
    let browser = Browser::open(&console(&world, true)).await;
    drop(world.requests());
    let mut sent = Vec::new();
    for (url, _) in PAGES {
        let page = browser.get(url).await;
        assert!(
            page.status != StatusCode::INTERNAL_SERVER_ERROR && !page.contains("class=\"problem\""),
            "{}",
            page.html
        );
        sent.push((url, requests(&world)));
    }
    let expected: Vec<(&str, String)> = PAGES.iter().map(|(url, requests)| (*url, (*requests).to_owned())).collect();
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn searches_plans_and_runs_send_exactly_these_requests() {
    let world = world().await;
    let browser = Browser::open(&console(&world, true)).await;
    let mut sent = Vec::new();
    for text in ["c1", "apt", "generic:e1", "+15550199", "15550199123", "nothing"] {
        drop(world.requests());
        browser.post("/search", &[("text", text)]).await;
        sent.push(requests(&world));
    }
    // The list of accounts, fourteen ids of calls, an appointment, and an event or one or two numbers; then the calls that were found.
    let expected = [
        "GetItem 15, Query 1",
        "GetItem 16, Query 1",
        "GetItem 17, Query 1",
        "GetItem 16, Query 2",
        "GetItem 15, Query 3",
        "GetItem 15, Query 1",
    ];
    assert_eq!(sent, expected);
    let plan = replay::plan(&stack_of(&world), &everything(), 10, &mut |_, _| {}).await.unwrap();
    for (url, expected) in [
        (format!("/plan?id={}", plan.id), "GetItem 2"),
        (format!("/run?id=r-{}", plan.id.as_str().trim_start_matches("p-")), "GetItem 1"),
    ] {
        drop(world.requests());
        browser.get(&url).await;
        assert_eq!(requests(&world), expected, "{url}");
    }
}

/// Reads the next part of a stream. `None` at its end.
async fn next_part(body: &mut Body) -> Option<String> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

/// Numbers of the footer.
#[derive(Debug)]
struct Footer {
    requests: f64,
    read_units: f64,
    metrics: f64,
    dollars: f64,
}

impl Footer {
    fn of(page: &Page) -> Self {
        let footer = page.html.split("<span id=\"cost\">").nth(1).unwrap().split("</span>").next().unwrap();
        let numbers =
            footer.split([' ', '$']).filter_map(|word| word.trim_matches(',').parse().ok()).collect::<Vec<f64>>();
        let [requests, read_units, metrics, dollars] = numbers[..] else { panic!("{footer}") };
        Self { requests, read_units, metrics, dollars }
    }
}

#[tokio::test(start_paused = true)]
async fn page_of_health_that_is_open_for_an_hour_costs_less_than_three_cents() {
    let world = world().await;
    let browser = Browser::open(&console(&world, false)).await;
    drop((world.requests(), world.capacity()));
    let opened = world.now();
    let mut page = browser.get("/").await;
    let mut stream = browser.stream("/").await;
    let mut reads = 1_u32;
    while world.now().millis_since(opened) < 60 * 60 * 1_000 {
        let part = next_part(&mut stream).await.unwrap();
        if part.contains("version") {
            page = browser.get("/").await;
            reads += 1;
        }
    }
    assert!((12..=721).contains(&reads), "Health was read {reads} times in an hour");

    // The footer tells every request. Metrics come from no AWS service here, and cost as on AWS.
    let (footer, sent, units) = (Footer::of(&page), world.requests(), world.capacity());
    let reads = f64::from(reads);
    let of_metrics = footer.requests - sent.values().sum::<u64>() as f64;
    assert!([2.0 * reads, 3.0 * reads].contains(&of_metrics), "{footer:?}, and {sent:?}");
    assert!(footer.metrics >= 19.0 * reads && footer.metrics % reads == 0.0, "{footer:?}");
    let units: f64 = units.values().map(|count| count.read_units).sum();
    // The ledger estimates read units by the size of the answers.
    let ratio = footer.read_units / units;
    assert!((0.95..1.2).contains(&ratio), "{footer:?}, and DynamoDB counted {units}");
    let queues = sent["GetQueueAttributes"] as f64;
    let dollars = footer.read_units * price::READ_UNIT + queues * price::SQS_FIFO + footer.metrics * price::METRIC;
    assert!((footer.dollars - dollars).abs() < 0.000_1, "{footer:?}, which is ${dollars}");
    // The alarms of a deployed stack are one more request each time.
    let whole = footer.dollars + reads * price::CLOUDWATCH;
    println!("an hour of Health: {reads} reads, ${whole:.4}");
    assert!(whole < 0.03, "{whole}");

    // A page that is not open costs nothing.
    drop(stream);
    world.wait(Duration::from_secs(60 * 60)).await;
    assert_eq!(world.requests().len(), 0);
}
