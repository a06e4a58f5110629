//! Searches: from a number, an appointment or an id to a page, without a number in a URL.

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_tests::{World, generic, text};

use super::{Browser, console, id_in};
use crate::outbound::create;

const NUMBER: &str = "+447700900123";

fn request(to: &str, appointment: &str) -> Value {
    json!({"provider": "retell", "from": "+15550100", "to": to, "appointment_id": appointment, "allow_duplicate": true})
}

#[tokio::test(start_paused = true)]
async fn one_result_is_opened_and_several_are_listed() {
    let world = World::stopped();
    let first = create(&world, &request(NUMBER, "apt_1")).await;
    let second = create(&world, &request(NUMBER, "apt/2 née")).await;
    let other = create(&world, &request("+447700900999", "apt_3")).await;
    let browser = Browser::open(&console(&world, false)).await;
    for (typed, call) in [
        (first.as_str(), &first),
        ("apt_1", &first),
        (" apt/2 née ", &second),
        ("+44 7700 900-999", &other),
        ("447700900999", &other),
        ("0044 7700 900999", &other),
    ] {
        let found = browser.post("/search", &[("text", typed)]).await;
        let location = found.location.unwrap_or_else(|| panic!("{typed}: {}", found.html));
        assert_eq!((found.status, id_in(&location)), (StatusCode::SEE_OTHER, call.clone()), "{typed}");
        assert!(location.starts_with("/call?id="), "{location}");
    }
    let found = browser.post("/search", &[("text", NUMBER)]).await;
    let location = found.location.unwrap();
    assert!(location.starts_with("/search?found=") && !location.contains("7700900"), "{location}");
    let page = browser.get(&location).await;
    let mut calls = page.calls();
    calls.sort();
    let mut expected = vec![first, second];
    expected.sort();
    assert_eq!((page.status, calls), (StatusCode::OK, expected));
    assert!(!page.html.contains("7700900") && page.html.contains("+44…123 A"), "{}", page.html);
    assert!(!page.html.contains("123 B"), "both calls are of one number: {}", page.html);

    // Another session does not know the search.
    let stranger = Browser::open(&console(&world, false)).await;
    assert_eq!(stranger.get(&location).await.status, StatusCode::NOT_FOUND);
    assert!(!world.log_text().contains("7700900"));
}

#[tokio::test(start_paused = true)]
async fn event_leads_to_its_call_or_to_its_own_page() {
    let world = World::new();
    let folded = world.accept(Provider::Generic, &generic("c/1", "e/1", "RINGING", 0)).await;
    let (_, answer) = world.post(Provider::Generic, "not JSON").await;
    let unreadable = EventId::new(text(answer.get("event_id").unwrap()));
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    let location = |page: super::Page| page.location.unwrap_or_else(|| panic!("{}", page.html));
    let call = location(browser.post("/search", &[("text", folded.as_str())]).await);
    assert_eq!((call.starts_with("/call?"), id_in(&call)), (true, "c/1".to_owned()));
    let event = location(browser.post("/search", &[("text", unreadable.as_str())]).await);
    assert_eq!((event.starts_with("/event?"), id_in(&event)), (true, unreadable.to_string()));
    let page = browser.get(&event).await;
    assert!(page.status == StatusCode::OK && page.html.contains("quarantined"), "{}", page.html);
    for typed in ["nothing", "", "+15550000000", "generic:none", &"x".repeat(3_000)] {
        let none = browser.post("/search", &[("text", typed)]).await;
        assert_eq!((none.status, none.location), (StatusCode::NOT_FOUND, None), "{}", none.html);
    }
    for url in ["/event", "/event?id=", "/event?id=generic%3Anone", &format!("/event?id={}", "x".repeat(3_000))] {
        assert_eq!(browser.get(url).await.status, StatusCode::NOT_FOUND, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn search_reads_one_key_per_provider_and_six_more() {
    let world = World::stopped();
    create(&world, &request(NUMBER, "apt_1")).await;
    let browser = Browser::open(&console(&world, false)).await;
    drop(world.requests());
    browser.post("/search", &[("text", "447700900123")]).await;
    let requests = world.requests();
    assert!(requests.values().sum::<u64>() <= Provider::ALL.len() as u64 + 6, "{requests:?}");
    assert!(!requests.contains_key("Scan"), "{requests:?}");
}
