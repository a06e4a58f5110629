//! The page of a call: plans, the payload of an event, and the events that are not in its history.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use switchhook_domain::Provider;
use switchhook_tests::{World, generic};

use super::{Browser, Page, console, id_in};

const CALL: &str = "/call?id=c%2F1";

/// Posts an event of a type that changes no call. Returns its id.
async fn recorded(world: &World, call_id: &str, event_id: &str) -> String {
    let body = json!({"event_id": event_id, "type": "call.transferred", "call_id": call_id});
    let (code, answer) = world.post(Provider::Generic, &body.to_string()).await;
    assert_eq!((code, &answer["status"]), (StatusCode::OK, &json!("recorded")), "{answer}");
    format!("generic:{event_id}")
}

/// Ids of the events in the section of the events that are not folded.
fn unfolded(page: &Page) -> Vec<String> {
    page.links("/event").iter().map(|url| id_in(url)).collect()
}

/// URL of the button with this label.
fn button(page: &Page, label: &str) -> Option<String> {
    let (before, _) = page.html.split_once(&format!("\">{label}</a>"))?;
    Some(before.rsplit_once("href=\"")?.1.split('#').next()?.replace("&amp;", "&"))
}

#[tokio::test(start_paused = true)]
async fn call_is_planned_to_be_repaired_from_its_page() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c/1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    let page = browser.get(CALL).await;
    for label in ["Plan: replay this call", "Republish"] {
        let made = browser.submit(&page.form(label), &[]).await;
        assert_eq!(made.status, StatusCode::SEE_OTHER, "{label}: {}", made.html);
        let plan = browser.get(&made.location.unwrap()).await;
        assert!(
            plan.contains("Nothing has changed by it") && !plan.contains(">Run</button>"),
            "{label}: {}",
            plan.html
        );
        // It names the call, even if it has no item.
        assert_eq!(plan.calls().first().map(String::as_str), Some("c/1"), "{label}: {}", plan.html);
        assert!(!plan.contains("other item"), "{label}: {}", plan.html);
    }
    let verified = browser.submit(&page.form("Verify"), &[]).await;
    assert!(verified.contains("The call matches its events"), "{}", verified.html);
    assert!(verified.contains(&format!("href=\"{CALL}\">Back to the call</a>")), "{}", verified.html);
}

#[tokio::test(start_paused = true)]
async fn payload_of_an_event_is_read_when_it_is_opened() {
    let world = World::new();
    let body = json!({
        "event_id": "e?1", "type": "RINGING", "call_id": "c/1", "occurred_at": world.now().to_string(),
        "call": {"sid": "s", "direction": "outbound", "from": "+15550100123", "to": "+447700900456"},
    });
    world.accept(Provider::Generic, &body.to_string()).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    drop(world.requests());
    let shut = browser.get(CALL).await;
    assert_eq!(world.requests().values().sum::<u64>(), 1, "the row of the call is all that the page needs");
    assert!(!shut.contains("Payload, masked"), "{}", shut.html);

    let links = shut.links("/call");
    let link = links.iter().find(|url| url.contains("event=generic")).unwrap_or_else(|| panic!("{links:?}"));
    let open = browser.get(link.split('#').next().unwrap()).await;
    let requests = world.requests();
    assert!(requests.values().sum::<u64>() <= 6, "{requests:?}");
    for part in
        ["Payload, masked", "by key 1 of the provider, the newest", "Trace id", "Headers, masked", "&quot;sid&quot;"]
    {
        assert!(open.contains(part), "{part} is missing: {}", open.html);
    }
    assert!(!open.contains("7700900"), "{}", open.html);
    assert!(open.contains("+44…456 A") && !open.contains("+44…456 B"), "one person has one letter: {}", open.html);

    let foreign = browser.get(&format!("{CALL}&event=generic%3Aforeign")).await;
    assert!(foreign.status == StatusCode::OK && !foreign.contains("Payload, masked"), "{}", foreign.html);
}

#[tokio::test(start_paused = true)]
async fn page_at_an_earlier_time_names_the_command_of_that_time() {
    let world = World::new();
    world.accept(Provider::Generic, &generic("c/1", "e1", "RINGING", 0)).await;
    world.quiesce().await;
    let at = world.now();
    world.wait(Duration::from_secs(5)).await;
    world.accept(Provider::Generic, &generic("c/1", "e2", "ANSWERED", 5)).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    assert!(browser.get(CALL).await.contains("<code>switchhook timeline c/1 --"));
    let past = browser.get(&format!("{CALL}&as_of={at}")).await;
    assert!(past.contains(&format!("<code>switchhook timeline c/1 --as-of {at} --")), "{}", past.html);
    let unfolded = browser.get(&format!("{CALL}&unfolded={at}")).await;
    let command = format!("<code>switchhook event list --call c/1 --unfolded --until {at} --");
    assert!(unfolded.contains(&command), "{}", unfolded.html);
}

#[tokio::test(start_paused = true)]
async fn events_that_are_not_folded_are_looked_for_in_bounded_steps() {
    let mut world = World::new();
    world.accept(Provider::Generic, &generic("c/1", "e1", "RINGING", 0)).await;
    let early = recorded(&world, "c/1", "early").await;
    recorded(&world, "other", "other").await;
    world.quiesce().await;
    world.skip(Duration::from_secs(6 * 60 * 60)).await;
    let late = recorded(&world, "c/1", "late").await;
    world.accept(Provider::Generic, &generic("c/1", "e2", "ANSWERED", 5)).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, false)).await;
    let offered = browser.get(CALL).await;
    assert_eq!(unfolded(&offered), Vec::<String>::new());

    drop(world.requests());
    let first = browser.get(&button(&offered, "Look for them").unwrap()).await;
    let requests = world.requests();
    assert_eq!(unfolded(&first), [late], "{}", first.html);
    assert_eq!(requests["Query"], 240, "{requests:?}");
    assert!(first.contains("with 240 queries") && first.contains("recorded"), "{}", first.html);
    assert!(requests["GetItem"] <= 3 && requests.len() == 2, "{requests:?}");

    let second = browser.get(&button(&first, "Look earlier").unwrap()).await;
    assert_eq!(unfolded(&second), [early], "{}", second.html);
    assert!(world.requests()["Query"] <= 240);
    assert_eq!(button(&second, "Look earlier"), None, "the call was not known before");
    let third = browser.get(&button(&second, "Look later").unwrap()).await;
    assert!(button(&third, "Look later").is_some() || unfolded(&third).len() == 1, "{}", third.html);
}
