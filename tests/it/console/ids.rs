//! Ids that hold anything: each opens from every list that shows it.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::Provider;
use switchhook_tests::{World, down, generic, reads_calls_to_fold};

use super::{Browser, Page, console, id_in};

/// Ids with what means something in a URL, in HTML and in a shell, and with what readers do not see.
const IDS: [&str; 7] =
    ["a/b?c#d%e f", "née 😀", "<b>&amp;\"'", "x=y&id=z+1", "\u{202e}abc", "%2F..%2F", "javascript:alert(1)//`$(id)"];

/// True if no id became markup, a link that runs something, or text that reads backwards. Fields and buttons hold the ids as they
/// are, because a browser sends or copies them.
pub(super) fn is_clean(page: &Page) -> bool {
    let mut parts = page.html.split('\u{202e}');
    let last = parts.next_back();
    let is_in_value = parts.clone().all(|part| {
        let attribute = part.rsplit_once("=\"").filter(|(_, value)| !value.contains('"')).map(|(name, _)| name);
        attribute.is_some_and(|name| name.ends_with(" value") || name.ends_with(" data-copy"))
    });
    let is_only_text = !page.contains("<b>") && !page.contains("href=\"javascript");
    last.is_some() && is_in_value && is_only_text
}

async fn open_all(browser: &Browser, list: &Page, told: &str, opened: &mut BTreeSet<String>) {
    for path in ["/call", "/event"] {
        for url in list.links(path) {
            let page = browser.get(&url).await;
            assert_eq!(page.status, StatusCode::OK, "{told}: {url}: {}", page.html);
            assert!(is_clean(&page), "{told}: {url}: {}", page.html);
            opened.insert(id_in(&url));
        }
    }
}

/// Opens every link of a list, and checks that it shows these ids.
async fn assert_opens(browser: &Browser, url: &str, ids: impl IntoIterator<Item = String>) {
    let mut opened = BTreeSet::new();
    let list = browser.get(url).await;
    assert_eq!(list.status, StatusCode::OK, "{url}: {}", list.html);
    assert!(is_clean(&list), "{url}: {}", list.html);
    open_all(browser, &list, url, &mut opened).await;
    let expected: BTreeSet<String> = ids.into_iter().collect();
    assert!(opened.is_superset(&expected), "{url} lacks {:?}: {}", expected.difference(&opened), list.html);
}

fn calls() -> impl Iterator<Item = String> {
    IDS.into_iter().map(str::to_owned)
}

fn events() -> impl Iterator<Item = String> {
    IDS.into_iter().map(|id| format!("generic:{id}"))
}

#[tokio::test(start_paused = true)]
async fn any_id_opens_from_every_list_of_calls_and_from_a_search() {
    let world = World::new();
    for id in IDS {
        let mut body: Value = serde_json::from_str(&generic(id, id, "RINGING", 0)).unwrap();
        body["call"]["appointment_id"] = "apt/1?x#y%z 😀".into();
        body["appointment_id"] = body["call"]["appointment_id"].clone();
        world.accept(Provider::Generic, &body.to_string()).await;
        world.wait(Duration::from_secs(1)).await;
    }
    world.quiesce().await;
    let browser = Browser::open(&console(&world, true)).await;
    assert_opens(&browser, "/calls?tab=in_flight", calls()).await;
    assert_opens(&browser, "/events", calls().chain(events())).await;
    let found = browser.post("/search", &[("text", "apt/1?x#y%z 😀")]).await;
    let results = found.location.unwrap_or_else(|| panic!("{}", found.html));
    assert_opens(&browser, &results, calls()).await;
    for id in IDS {
        let found = browser.post("/search", &[("text", id)]).await;
        let url = found.location.unwrap_or_else(|| panic!("{id}: {}", found.html));
        assert_eq!(id_in(&url), id);
    }
    world.wait(Duration::from_secs(11 * 60)).await;
    assert_opens(&browser, "/calls?tab=stuck", calls()).await;
    world.wait(Duration::from_secs(60 * 60)).await;
    assert_opens(&browser, "/calls?tab=settled", calls()).await;
}

#[tokio::test(start_paused = true)]
async fn any_id_opens_from_every_list_of_trouble() {
    let mut world = World::new();
    world.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    for id in IDS {
        world.accept(Provider::Generic, &generic(id, id, "RINGING", 0)).await;
        // The same id with another body.
        world.post(Provider::Generic, &generic(id, id, "ENDED", 7)).await;
    }
    world.wait(Duration::from_secs(5 * 60)).await;
    let browser = Browser::open(&console(&world, true)).await;
    for tab in ["retrying", "conflicts"] {
        let page = browser.get(&format!("/repair?tab={tab}")).await;
        let shown: Vec<String> = page.links("/event").iter().map(|url| id_in(url)).collect();
        assert_eq!(shown.iter().cloned().collect::<BTreeSet<_>>(), events().collect(), "{tab}: {}", page.html);
        assert_opens(&browser, &format!("/repair?tab={tab}"), shown).await;
    }
    world.wait_for_dead_letters(IDS.len()).await;
    world.clear_faults();
    for url in ["/repair?tab=dead-letters", "/"] {
        let page = browser.get(url).await;
        let shown: Vec<String> = page.links("/event").iter().map(|url| id_in(url)).collect();
        assert!(shown.len() >= 3 && shown.iter().all(|id| events().any(|known| known == *id)), "{url}: {}", page.html);
        assert_opens(&browser, url, shown).await;
    }
    let list = browser.get("/repair?tab=dead-letters").await;
    let made = browser.submit(&list.form("Plan: redrive"), &[]).await;
    let plan = browser.get(&made.location.unwrap()).await;
    let mut opened = BTreeSet::new();
    let planned: BTreeSet<String> = plan.calls().into_iter().collect();
    assert_eq!(planned, calls().collect(), "{}", plan.html);
    for url in plan.links("/call") {
        // No row exists before the run.
        let page = browser.get(&url).await;
        assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&page.status), "{url}: {}", page.html);
        assert!(is_clean(&page), "{url}: {}", page.html);
    }
    let started = browser.submit(&plan.form("Run"), &[super::repair::REASON, ("count", "7"), ("rate", "50")]).await;
    super::repair::ended(&browser, &started).await;
    open_all(&browser, &plan, "the plan", &mut opened).await;
    assert_eq!(opened, calls().chain(events()).collect());
}
