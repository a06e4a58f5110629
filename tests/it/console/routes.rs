//! Routes that change something: without `--allow-changes`, none of them exists.

use http::{Method, StatusCode};
use switchhook_tests::World;

use super::{Browser, console};

/// Routes of the console, as its source lists them.
const SOURCE: &str = include_str!("../../../console/src/routes.rs");
/// Routes that take a form and change nothing: a search, a plan, and the check of a number.
const HARMLESS: [&str; 3] = ["/search", "/plan", "/dials/do-not-call"];
/// Routes of the playground, which a deployed stack does not have.
const OF_PLAYGROUND: [&str; 1] = ["/try"];
/// Routes that a read-only console refuses.
const CHANGING: [&str; 4] = ["/run", "/run/resume", "/run/stop", "/unmask"];

/// Paths of all routes. A part in braces gets a value.
fn paths() -> Vec<String> {
    let calls = SOURCE.split(".route(").skip(1);
    let paths: Vec<String> = calls
        .map(|call| {
            let path = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            path.unwrap_or_else(|| panic!("the path of a route is no text: {call}")).to_owned()
        })
        .collect();
    for other in [".nest(", ".route_service(", ".nest_service(", ".fallback_service(", "MethodRouter"] {
        assert!(!SOURCE.contains(other), "this test reads only `.route(`, not `{other}`");
    }
    assert!(paths.len() >= 17, "few routes were found: {paths:?}");
    paths.into_iter().map(|path| path.replace("{hash}", "0").replace("{name}", "icon.svg")).collect()
}

/// Status of the answer to a request with a form that no page made.
async fn status(browser: &Browser, method: &Method, path: &str) -> StatusCode {
    browser.request(method, path).await.status
}

#[tokio::test(start_paused = true)]
async fn read_only_console_has_no_route_that_changes() {
    let world = World::stopped();
    let changing = Browser::open(&console(&world, true)).await;
    let read_only = Browser::open(&console(&world, false)).await;
    let mut found = Vec::new();
    for path in paths() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let with_changes = status(&changing, &method, &path).await;
            let without = status(&read_only, &method, &path).await;
            let is_missing = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_FOUND].contains(&with_changes);
            if OF_PLAYGROUND.contains(&path.as_str()) || (is_missing && !HARMLESS.contains(&path.as_str())) {
                assert!(
                    [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_FOUND].contains(&without),
                    "{method} {path}: {without}"
                );
                continue;
            }
            assert!(!with_changes.is_success(), "{method} {path} took a form without a token");
            if HARMLESS.contains(&path.as_str()) {
                continue;
            }
            assert_eq!(method, Method::POST, "{path}: forms post");
            assert_eq!(without, StatusCode::NOT_FOUND, "{method} {path}");
            found.push(path.clone());
        }
    }
    found.sort();
    assert_eq!(found, CHANGING);
    // The page that asks for a reason is a part of the change.
    assert_eq!(status(&changing, &Method::GET, "/unmask?event=generic%3Ae1").await, StatusCode::OK);
    assert_eq!(status(&read_only, &Method::GET, "/unmask?event=generic%3Ae1").await, StatusCode::NOT_FOUND);
}
