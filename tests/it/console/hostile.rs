//! Hostile texts of the largest size: bodies of 4 MiB, and a call with as many events as it may have.

use http::StatusCode;
use serde_json::{Map, Value, json};
use switchhook_aws::inbox::BODY_BYTES_MAX;
use switchhook_domain::{ATTEMPT_EVENTS_MAX, CALL_ATTEMPTS_MAX, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::{World, generic, is_request_to, text};

use super::ids::is_clean;
use super::{Browser, Page, console};

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u{202e}/?#%";
/// Most bytes of a page with a payload: 256 KiB of it are shown, and a quote takes six bytes.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

fn assert_only_text(url: &str, page: &Page) {
    assert!(page.html.len() <= PAGE_BYTES_MAX, "{url}: {} bytes", page.html.len());
    let scripts = page.html.matches("<script").count();
    assert_eq!(scripts, page.html.matches("<script type=\"module\" ").count(), "{url}: {}", page.html);
    assert!(is_clean(page) && !page.contains("<img"), "{url}: {}", page.html);
}

async fn assert_opens(browser: &Browser, urls: &[String]) {
    for url in urls {
        let page = browser.get(url).await;
        assert_eq!(page.status, StatusCode::OK, "{url}: {}", page.html);
        assert_only_text(url, &page);
    }
}

fn url(path: &str, id: &str) -> String {
    format!("{path}?{}", form_urlencoded::Serializer::new(String::new()).append_pair("id", id).finish())
}

/// A webhook with these fields beside those of an event.
fn with_fields(event_id: &str, fields: Map<String, Value>) -> String {
    let mut body: Value = serde_json::from_str(&generic("c1", event_id, "RINGING", 0)).unwrap();
    body.as_object_mut().unwrap().extend(fields);
    let body = body.to_string();
    assert!((BODY_BYTES_MAX - BODY_BYTES_MAX / 8..=BODY_BYTES_MAX).contains(&body.len()), "{} bytes", body.len());
    body
}

/// Many fields with hostile names and values.
fn many_fields() -> Map<String, Value> {
    let field = |n: usize| (format!("{HOSTILE}{n}"), json!(format!("{HOSTILE}x")));
    // A control character, a quote and the digits take more bytes in JSON.
    (0..BODY_BYTES_MAX / (2 * HOSTILE.len() + 24)).map(field).collect()
}

/// One field with a name of almost 4 MiB.
fn one_field(value: &str) -> Map<String, Value> {
    [(HOSTILE.repeat(BODY_BYTES_MAX / (HOSTILE.len() + 2)), json!(value))].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn bodies_of_four_mebibytes_are_shown_in_part_and_as_text() {
    let mut world = World::new();
    world.accept(Provider::Generic, &with_fields("many", many_fields())).await;
    world.accept(Provider::Generic, &with_fields("one", one_field("a"))).await;
    // The same id with another body: the page of the event shows the difference.
    world.post(Provider::Generic, &with_fields("one", one_field("b"))).await;
    let (_, unreadable) = world.post(Provider::Generic, &HOSTILE.repeat(BODY_BYTES_MAX / HOSTILE.len())).await;
    let events = ["generic:many", "generic:one", &text(&unreadable["event_id"])].map(str::to_owned);
    world.quiesce().await;
    world.stop();
    let browser = Browser::open(&console(&world, true)).await;
    let lists = [
        "/",
        "/calls",
        "/events",
        "/repair?tab=quarantined",
        "/repair?tab=conflicts",
        "/call?id=c1&event=generic%3Ae1",
    ];
    assert_opens(&browser, &lists.map(str::to_owned)).await;
    assert_opens(&browser, &events.clone().map(|id| url("/event", &id))).await;
    let form = browser.get(&url("/event", &events[2])).await.form("Show the body unmasked");
    let page = browser.submit(&form, &[("reason", "ticket 812")]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(page.contains("The first 262144 are shown") && page.contains("&lt;img src=x"));
    assert_only_text("/unmask", &page);
}

#[tokio::test(start_paused = true)]
async fn call_with_1024_hostile_events_stays_text() {
    let mut world = World::new();
    // Stopped, so that the events are folded ten at a time.
    world.stop();
    for attempt in 0..CALL_ATTEMPTS_MAX {
        for event in 0..ATTEMPT_EVENTS_MAX {
            let mut body: Value =
                serde_json::from_str(&generic(HOSTILE, &format!("{HOSTILE}{attempt} {event}"), "RINGING", 0)).unwrap();
            body["call"] = json!({
                "sid": format!("{HOSTILE}{attempt}"), "appointment_id": HOSTILE, "metadata": {HOSTILE: HOSTILE},
            });
            world.accept(Provider::Generic, &body.to_string()).await;
        }
    }
    world.start();
    world.quiesce().await;
    assert_eq!(world.call(HOSTILE).await.history.len(), 1_024);
    // An event of a hostile type, and one whose fold fails with a hostile error.
    world.post(Provider::Generic, &generic(HOSTILE, "typed", HOSTILE, 0)).await;
    world.set_fault_hook(|call| {
        let is_failing = call.operation == "GetItem" && is_request_to(call, CALLS_TABLE);
        is_failing.then(|| Fault::ErrorBefore { status: 400, code: HOSTILE.to_owned() })
    });
    world.accept(Provider::Generic, &generic("failing", "failing", "RINGING", 0)).await;
    world.wait(std::time::Duration::from_secs(60)).await;
    world.clear_faults();
    world.stop();
    let browser = Browser::open(&console(&world, true)).await;
    let call = url("/call", HOSTILE);
    let mut urls: Vec<String> =
        ["/", "/calls", "/calls?tab=in_flight", "/events", "/repair?tab=retrying"].map(str::to_owned).into();
    let last = url("", &format!("generic:{HOSTILE}15 63")).replace("?id=", "&attempt=16&event=");
    urls.extend(["", &last, "&unfolded=latest"].map(|chosen| format!("{call}{chosen}")));
    urls.extend(["typed", "failing", &format!("{HOSTILE}15 63")].map(|id| url("/event", &format!("generic:{id}"))));
    assert_opens(&browser, &urls).await;
}
