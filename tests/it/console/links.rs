//! Every link of every page leads to a page, and to the section that it names.

use std::collections::{BTreeSet, VecDeque};

use http::StatusCode;
use switchhook_domain::Provider;
use switchhook_tests::generic;

use super::{Browser, Page, console};
use crate::operator::dead_letters::with_dead_letters;
use crate::operator::quarantine::unreadable;

/// Pages that are followed. A list of rows has many alike.
const PAGES_MAX: usize = 150;

/// Addresses of this console to which a page links.
fn links(page: &Page) -> Vec<String> {
    let addresses = page.html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let own = addresses.filter(|url| url.starts_with('/') && !url.starts_with("/assets/"));
    own.map(|url| url.replace("&amp;", "&")).collect()
}

/// Returns the value of a parameter of a URL.
fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[tokio::test(start_paused = true)]
async fn every_link_leads_to_a_page_and_its_section() {
    let world = with_dead_letters().await;
    let quarantined = unreadable(&world).await;
    world.accept(Provider::Generic, &generic("c3", "e3", "RINGING", 0)).await;
    world.quiesce().await;
    let browser = Browser::open(&console(&world, true)).await;
    let starts = ["/", "/calls", "/events", "/repair", "/dials"].map(str::to_owned);
    let mut ahead = VecDeque::from(starts);
    let mut known: BTreeSet<String> = ahead.iter().cloned().collect();
    let mut sections = BTreeSet::new();
    while let Some(url) = ahead.pop_front() {
        let page = browser.get(&url).await;
        // Only `switchhook dev` has the page Try.
        // A dead letter may have no call yet. The page of the call then shows a search.
        let is_no_call = page.status == StatusCode::NOT_FOUND && page.contains("No call was found");
        if url != "/try" && !(url.starts_with("/call?") && is_no_call) {
            assert_eq!(page.status, StatusCode::OK, "{url}: {}", page.html);
            assert!(!page.contains("class=\"problem\""), "{url}: {}", page.html);
        }
        if let Some(tab) = parameter(&url, "tab") {
            let path = url.split('?').next().unwrap().to_owned();
            let marked = page.html.split("<a ").find(|link| link.contains("aria-current") && link.contains("tab="));
            // The first list of Calls has no parameter.
            assert!(marked.is_some_and(|link| link.contains(&format!("tab={tab}"))), "{url} marks {marked:?}");
            sections.insert((path, tab));
        }
        for link in links(&page) {
            if known.len() < PAGES_MAX && known.insert(link.clone()) {
                ahead.push_back(link);
            }
        }
    }
    for tab in ["dead-letters", "quarantined", "retrying", "conflicts", "relay", "audit"] {
        assert!(sections.contains(&("/repair".to_owned(), tab.to_owned())), "{tab} is not in {sections:?}");
    }
    assert!(known.iter().any(|url| parameter(url, "id").as_deref() == Some(quarantined.as_str())), "{known:?}");
}

#[tokio::test(start_paused = true)]
async fn page_without_an_id_or_with_an_impossible_one_says_what_to_do() {
    let world = switchhook_tests::World::new();
    let browser = Browser::open(&console(&world, false)).await;
    let long = "x".repeat(3_000);
    for path in ["/event", "/call"] {
        for id in [String::new(), "?id=".to_owned(), format!("?id={long}")] {
            let page = browser.get(&format!("{path}{id}")).await;
            assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}{id}: {}", page.html);
            assert!(page.contains("The search above"), "{path}: {}", page.html);
            assert_eq!(page.contains("The address names no "), !id.contains('x'), "{path}{id}: {}", page.html);
            assert!(!page.contains("class=\"problem\"") && page.html.len() < 20_000, "{path}: {}", page.html);
        }
    }
    for path in ["/plan", "/run"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}: {}", page.html);
        assert!(page.contains("The address names no "), "{path}: {}", page.html);
    }
}
