//! Sources that cannot be read: each panel is unknown, and names the reason and the remedy. Nothing unknown is green.

use serde_dynamo::AttributeValue;
use switchhook_domain::Provider;
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{
    CALLS_TABLE, DIAL_QUEUE, DUE_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, RELAY_FAILURES_QUEUE,
};
use switchhook_tests::{World, generic, is_request_to};

use super::{Browser, Page, console};
use crate::operator::quarantine::unreadable;

/// Codes of refusals, each with its kind and a part of its remedy.
const REFUSALS: [(&str, &str, &str); 3] = [
    ("AccessDeniedException", "denied", "attach ConsoleReadPolicy to your role"),
    ("ThrottlingException", "throttled", "load the page again in a minute"),
    ("ExpiredTokenException", "expired", "aws sso login"),
];
/// Mark of a verdict or a state that is fine.
const GREEN: &str = "badge disc ok";

/// Source of pages: a table, an index or a queue.
type Source = (&'static str, fn(&RequestInfo<'_>) -> bool);

fn is_of_index(call: &RequestInfo<'_>, index: &str) -> bool {
    String::from_utf8_lossy(call.body).contains(&format!("\"IndexName\":\"{index}\""))
}

const CALLS: Source = ("rows of calls", |call| call.operation == "GetItem" && is_request_to(call, CALLS_TABLE));
const EVENTS: Source = ("events", |call| call.operation == "GetItem" && is_request_to(call, INBOX_TABLE));
const BY_WAKE: Source = ("by_wake", |call| is_of_index(call, "by_wake"));
const BY_RECEIVED: Source = ("by_received", |call| is_of_index(call, "by_received"));
const BY_ATTENTION: Source = ("by_attention", |call| is_of_index(call, "by_attention"));
const QUEUE: Source = ("events queue", |call| is_request_to(call, EVENTS_QUEUE));
const DIALS: Source = ("dial queue", |call| is_request_to(call, DIAL_QUEUE));
const DUE: Source = ("due queue", |call| is_request_to(call, DUE_QUEUE));
const DEAD: Source = ("dead letters", |call| is_request_to(call, EVENTS_DEAD_LETTER_QUEUE));
const RELAY: Source = ("relay failures", |call| is_request_to(call, RELAY_FAILURES_QUEUE));

/// Pages with one panel, each with the sources without which it is unknown.
const PANELS: [(&str, &[Source]); 13] = [
    ("/calls", &[BY_RECEIVED, CALLS]),
    ("/calls?tab=in_flight", &[BY_WAKE, CALLS]),
    ("/calls?tab=settled", &[BY_WAKE]),
    ("/events", &[BY_RECEIVED, EVENTS]),
    ("/call?id=c1", &[CALLS]),
    ("/event?id=generic%3Ae1", &[EVENTS]),
    ("/plan?id=p-000000000000", &[EVENTS]),
    ("/run?id=r-000000000000", &[EVENTS]),
    ("/dials", &[BY_WAKE, CALLS]),
    ("/repair?tab=dead-letters", &[BY_ATTENTION, DEAD]),
    ("/repair?tab=quarantined", &[BY_ATTENTION]),
    ("/repair?tab=audit", &[BY_ATTENTION]),
    ("/repair?tab=relay", &[RELAY]),
];

async fn world() -> World {
    let mut world = World::new();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    unreadable(&world).await;
    world.quiesce().await;
    world.stop();
    world
}

fn refuse(world: &World, is_refused: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static, code: &'static str) {
    world.set_fault_hook(move |call| {
        let is_of_console = call.sender == Some("console");
        (is_of_console && is_refused(call)).then(|| Fault::ErrorBefore { status: 400, code: code.to_owned() })
    });
}

#[tokio::test(start_paused = true)]
async fn each_panel_tells_denied_throttled_and_expired_apart() {
    let world = world().await;
    let browser = Browser::open(&console(&world, false)).await;
    for (url, sources) in PANELS {
        for (source, is_refused) in sources {
            for (code, kind, remedy) in REFUSALS {
                refuse(&world, is_refused, code);
                let page = browser.get(url).await;
                let shown = format!("{url} without {source}, {code}: {}", page.html);
                assert!(page.contains("Unknown:") && page.contains(&format!("data-kind=\"{kind}\"")), "{shown}");
                assert!(page.contains(remedy), "{shown}");
                assert_eq!(page.html.matches("<h1").count(), 1, "{shown}");
                assert!(!page.contains(GREEN) && !page.contains("Nothing waits"), "{shown}");
            }
        }
        world.clear_faults();
        let page = browser.get(url).await;
        assert!(!page.contains("class=\"problem\""), "{url}: {}", page.html);
    }
}

#[tokio::test(start_paused = true)]
async fn queue_that_cannot_be_read_is_named_and_hides_no_other() {
    let world = world().await;
    let browser = Browser::open(&console(&world, false)).await;
    let pages = async || {
        let letters = browser.get("/repair?tab=dead-letters").await;
        (letters, browser.get("/repair?tab=relay").await)
    };
    refuse(&world, RELAY.1, "AccessDeniedException");
    let (letters, relay) = pages().await;
    assert!(
        !letters.contains("class=\"problem\"") && letters.contains("dead-letter queue: <strong>1"),
        "{}",
        letters.html
    );
    assert!(letters.contains("Relay <span class=\"count\" data-kind=\"denied\">?</span>"), "{}", letters.html);
    assert!(relay.contains("Unknown: the queue of the relay's failures could not be read"), "{}", relay.html);
    refuse(&world, DEAD.1, "AccessDeniedException");
    let (letters, relay) = pages().await;
    assert!(letters.contains("Unknown: the dead-letter queue could not be read"), "{}", letters.html);
    assert!(!relay.contains("class=\"problem\"") && relay.contains("The relay gave up nothing"), "{}", relay.html);
}

/// Questions of Health: their names, verdicts, and lines of evidence.
fn questions(page: &Page) -> Vec<(String, Vec<String>)> {
    let panels = page.html.split("<section class=\"panel\"><h2>").skip(1);
    let panels = panels.filter_map(|panel| panel.split_once("</h2>"));
    let panels = panels.filter(|(_, rest)| rest.trim_start().starts_with("<dl class=\"evidence\">"));
    panels
        .map(|(question, rest)| {
            let lines = rest.split("</dl>").next().unwrap().split("<div><dt>").skip(1);
            (question.to_owned(), lines.map(str::to_owned).collect())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn line_of_health_that_cannot_be_read_is_unknown_and_its_verdict_is_never_ok() {
    let world = world().await;
    let browser = Browser::open(&console(&world, false)).await;
    let names = ["events queue age", "dial queue age", "calls due within a minute", "dead letters", "relay gave up"];
    let lines: [(Source, &[&str]); 9] = [
        (QUEUE, &names[0..1]),
        (DIALS, &names[1..2]),
        (DUE, &names[2..3]),
        (DEAD, &names[3..4]),
        (RELAY, &names[4..5]),
        (BY_ATTENTION, &["quarantined", "retrying", "conflicting bodies"]),
        (BY_WAKE, &["due calls", "overdue wake-ups"]),
        (CALLS, &["provider circuits"]),
        (EVENTS, &["sweep lag"]),
    ];
    for ((source, is_refused), unknown) in lines {
        for (code, kind, remedy) in REFUSALS {
            refuse(&world, is_refused, code);
            let page = browser.get("/").await;
            let questions = questions(&page);
            assert_eq!(questions.len(), 3, "{}", page.html);
            for name in unknown {
                let of_name = format!(">{name}<");
                let plain = format!("{name}</dt>");
                let line = |lines: &Vec<String>| {
                    lines.iter().find(|line| line.contains(&of_name) || line.starts_with(&plain)).cloned()
                };
                let (question, line) = questions
                    .iter()
                    .find_map(|(question, lines)| Some((question, line(lines)?)))
                    .unwrap_or_else(|| {
                        panic!("no line {name}: {}", page.html);
                    });
                assert!(line.contains("Unknown") && line.contains(remedy), "{name} without {source}, {code}: {line}");
                // An open page reads less often while it is throttled.
                assert!(line.contains(&format!("data-kind=\"{kind}\"")), "{name} without {source}, {code}: {line}");
                assert!(
                    !line.contains(GREEN) && !question.contains(GREEN),
                    "{name} without {source}: {question} {line}"
                );
            }
        }
    }
}

/// Changes an item so that only a newer version can read it.
async fn renew(world: &World, table: &str, key: &str) {
    let mut item = world.item(table, key).await;
    item.insert("schema_version".to_owned(), AttributeValue::N("9999".to_owned()));
    world.put_item(table, item).await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_event_or_call_is_named_and_hides_no_other_event() {
    let mut world = World::new();
    for call in ["c1", "c2", "c3"] {
        world.accept(Provider::Generic, &generic(call, &format!("of-{call}"), "RINGING", 0)).await;
    }
    world.quiesce().await;
    world.stop();
    renew(&world, INBOX_TABLE, "generic:of-c1").await;
    renew(&world, CALLS_TABLE, "c2").await;
    let browser = Browser::open(&console(&world, false)).await;
    let page = browser.get("/events?since=2026-01-01T00:00").await;
    let (before, table) = page.html.split_once("<table").unwrap();
    assert!(before.contains("1 event could not be read") && before.contains("generic%3Aof-c1"), "{before}");
    assert!(before.contains("schema version 9999 is newer"), "{before}");
    let row = |id: &str| table.split("<tr>").find(|row| row.contains(id)).unwrap_or_else(|| panic!("no {id}: {table}"));
    assert!(row("generic%3Aof-c3").contains("applied"), "{table}");
    let unknown = row("generic%3Aof-c2");
    assert!(unknown.contains("unknown") && unknown.contains("schema version 9999 is newer"), "{unknown}");
    assert!(!table.contains("of-c1"), "{table}");
    // The page of the event shows everything else that is stored of it.
    let event = browser.get("/event?id=generic:of-c2").await;
    assert!(event.contains("Payload, masked") && event.contains("schema version 9999 is newer"), "{}", event.html);
    assert!(event.contains("nothing says so, and the row of its call cannot be read"), "{}", event.html);
    // Its call may be in doubt.
    let dials = browser.get("/dials").await;
    assert!(dials.contains("1 calls could not be read") && dials.contains("/call?id=c2"), "{}", dials.html);
    let doubt = "No call among the 2 that were read is in doubt. Others could not be read.";
    assert!(dials.contains(doubt) && !dials.contains("No call is in doubt"), "{}", dials.html);
}
