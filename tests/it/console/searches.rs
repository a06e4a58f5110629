//! Searches: from a number, an appointment or an id to a page, without a number in a URL.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_providers::entity_key;
use switchhook_tests::{World, generic, text};

use super::{Browser, console, id_in};
use crate::bookings;
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
    assert!(
        page.html.contains("not: it is quarantined") && page.html.contains("the body is not JSON"),
        "{}",
        page.html
    );
    let list = browser.get("/events").await;
    assert!(list.html.contains("the body is not JSON"), "{}", list.html);
    for typed in ["nothing", "", "+15550000000", "generic:none", &"x".repeat(3_000)] {
        let none = browser.post("/search", &[("text", typed)]).await;
        assert_eq!((none.status, none.location), (StatusCode::NOT_FOUND, None), "{}", none.html);
    }
    // A provider's id finds no call that another system dialled, and the page explains it.
    world.accept(Provider::Generic, &generic("c/9", "e/9", "RINGING", 0)).await;
    world.quiesce().await;
    assert!(browser.get("/call?id=c%2F9").await.html.contains("sid-c/9"));
    let none = browser.post("/search", &[("text", "sid-c/9")]).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    assert!(none.html.contains("finds a call that Switchhook dialled"), "{}", none.html);
    for url in ["/event", "/event?id=", "/event?id=generic%3Anone", &format!("/event?id={}", "x".repeat(3_000))] {
        assert_eq!(browser.get(url).await.status, StatusCode::NOT_FOUND, "{url}");
    }
}

/// Ids that are too long for a key are stored as a hash. Users have them as their provider or calendar gives them.
#[tokio::test(start_paused = true)]
async fn id_that_is_too_long_for_a_key_leads_to_its_call() {
    let world = World::new();
    let accept = async |id: &str, change: &dyn Fn(&mut Value)| {
        let mut body: Value = serde_json::from_str(&generic("c1", id, "RINGING", 0)).unwrap();
        change(&mut body);
        world.accept(Provider::Generic, &body.to_string()).await
    };
    let (named, of_provider, event) = ("c".repeat(300), "p".repeat(200), "e".repeat(200));
    let appointment = format!("https://example.com/appointments/{}", "a".repeat(120));
    accept("e1", &|body| body["call_id"] = json!(named)).await;
    accept("e2", &|body| {
        body.as_object_mut().unwrap().remove("call_id");
        body["call"]["sid"] = json!(of_provider);
    })
    .await;
    accept("e3", &|body| {
        body["call_id"] = json!("c3");
        body["appointment_id"] = json!(appointment);
    })
    .await;
    accept(&event, &|body| body["call_id"] = json!("c4")).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    let mut opened = BTreeSet::new();
    let long = [format!("generic:{of_provider}"), format!("generic:{event}"), named, of_provider, appointment];
    for typed in long {
        let found = browser.post("/search", &[("text", &typed)]).await;
        let location = found.location.unwrap_or_else(|| panic!("{typed}: {}", found.html));
        assert!(location.starts_with("/call?id="), "{typed}: {location}");
        opened.insert(id_in(&location));
    }
    assert_eq!(opened.len(), 4, "{opened:?}");
}

#[tokio::test(start_paused = true)]
async fn entity_leads_to_the_call_of_its_booking_or_to_its_latest_event() {
    let world = World::with_secret(&bookings::secret());
    let long = format!("https://api.example.com/scheduled_events/{}", "e".repeat(200));
    for uid in ["b1", &long] {
        bookings::receive(&world, &[bookings::created(uid, 0, 18_000), bookings::created(uid, 5, 18_000)]).await;
    }
    bookings::receive(&world, &[bookings::created("b2", 0, 18_000), bookings::canceled("b2", 10)]).await;
    let browser = Browser::open(&console(&world, false)).await;
    for uid in ["b1", &long] {
        let entity = world.calls.entity(&entity_key(bookings::CALCOM.parse().unwrap(), uid)).await.unwrap().unwrap();
        let call = entity.booking.unwrap().call_id.unwrap();
        for typed in
            [format!("entity:x-calcom:{uid}"), format!("x-calcom:{uid}"), entity.key.to_string(), uid.to_owned()]
        {
            let found = browser.post("/search", &[("text", &typed)]).await;
            let location = found.location.unwrap_or_else(|| panic!("{typed}: {}", found.html));
            assert_eq!((location.starts_with("/call?"), id_in(&location)), (true, call.to_string()), "{typed}");
        }
    }
    let found = browser.post("/search", &[("text", "entity:x-calcom:b2")]).await;
    let location = found.location.unwrap_or_else(|| panic!("{}", found.html));
    assert!(location.starts_with("/event?") && id_in(&location).contains("BOOKING_CANCELLED"), "{location}");
    let none = browser.post("/search", &[("text", "entity:x-calcom:b3")]).await;
    assert_eq!((none.status, none.location), (StatusCode::NOT_FOUND, None));
}

#[tokio::test(start_paused = true)]
async fn search_reads_one_key_per_provider_and_seven_more() {
    let world = World::stopped();
    create(&world, &request(NUMBER, "apt_1")).await;
    let browser = Browser::open(&console(&world, false)).await;
    drop(world.requests());
    browser.post("/search", &[("text", "447700900123")]).await;
    let requests = world.requests();
    assert!(requests.values().sum::<u64>() <= Provider::ALL.len() as u64 + 7, "{requests:?}");
    assert!(!requests.contains_key("Scan"), "{requests:?}");
}
