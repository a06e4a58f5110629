//! From trouble to the audit, by forms alone: a plan, its run, and everything that keeps a run from starting.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_domain::{Disposition, EventId};
use switchhook_operate::audit;
use switchhook_operate::plan::{CallSummary, Plan, PlanId};
use switchhook_operate::quarantine::{LISTED_DEFAULT, list};
use switchhook_tests::{World, down, generic};

use super::{Browser, Form, Page, console, id_in};
use crate::operator::dead_letters::with_dead_letters;
use crate::operator::quarantine::{quarantined_by_older_version, unreadable};
use crate::repair::stack_of;

pub(super) const REASON: (&str, &str) = ("reason", "ticket 812: a new version reads it");

/// A stack with two events that this version can read, and a browser on its console.
async fn with_quarantined() -> (World, Browser) {
    let world = World::new();
    for call in ["c1", "c2"] {
        let _ = quarantined_by_older_version(&world, call, Disposition::Quarantined).await;
    }
    let browser = Browser::open(&console(&world, true)).await;
    (world, browser)
}

/// Presses a button that makes a plan. Returns the page of the plan, and its id.
async fn plan(browser: &Browser, from: &str, label: &str) -> (Page, PlanId) {
    let list = browser.get(from).await;
    let made = browser.submit(&list.form(label), &[]).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.html);
    let to = made.location.unwrap();
    let id = PlanId::new(to.strip_prefix("/plan?id=").unwrap());
    (browser.get(&to).await, id)
}

/// Waits until a run has ended in this console. Returns its page.
pub(super) async fn ended(browser: &Browser, started: &Page) -> Page {
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.html);
    let path = started.location.clone().unwrap();
    // A run may wait for two minutes for messages that a killed run hides.
    for _ in 0..300 {
        let page = browser.get(&path).await;
        if !page.contains(">Stop</button>") && !page.contains("stopping at the end") {
            return page;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the run did not end");
}

fn with(form: &Form, name: &str, value: &str) -> Form {
    let replaced =
        |field: &(String, String)| if field.0 == name { (field.0.clone(), value.to_owned()) } else { field.clone() };
    Form { action: form.action.clone(), fields: form.fields.iter().map(replaced).collect() }
}

pub(super) fn token(form: &Form) -> String {
    form.fields.iter().find(|(name, _)| name == "form_token").unwrap().1.clone()
}

pub(super) async fn audited(world: &World) -> usize {
    audit::list(&stack_of(world), 100).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn quarantined_events_are_planned_run_and_audited() {
    let (world, browser) = with_quarantined().await;
    let hopeless = unreadable(&world).await;
    let listed = browser.get("/repair").await;
    assert!(listed.contains("Quarantined <span class=\"count\">3</span>"), "{}", listed.html);
    assert!(listed.contains(hopeless.as_str()), "the first ids are shown");
    assert!(listed.contains("the body is not JSON"), "{}", listed.html);
    let (page, id) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let plan = Plan::load(&stack_of(&world), &id).await.unwrap();
    assert!(page.contains("no call") && page.contains("ringing"), "{}", page.html);
    assert!(page.contains(&format!("quarantine reprocess --plan {id}")), "{}", page.html);

    let form = page.form("Run");
    let wrong = browser.submit(&form, &[REASON, ("count", "7"), ("rate", "50")]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let without = browser.submit(&form, &[("count", "2"), ("rate", "50")]).await;
    assert!(without.status == StatusCode::UNPROCESSABLE_ENTITY && without.contains("a reason is needed"));
    assert_eq!(audited(&world).await, 0, "nothing has run");

    let count = plan.items.len().to_string();
    let started = browser.submit(&form, &[REASON, ("count", &count), ("rate", "50")]).await;
    let page = ended(&browser, &started).await;
    assert!(page.contains("finished") && page.contains("2 done, 0 unchanged, 0 skipped"), "{}", page.html);
    world.quiesce().await;
    for effect in &plan.effects {
        let row = world.call(effect.call_id.as_str()).await;
        assert_eq!(effect.after, Some(CallSummary::new(&row)), "the row is as the plan said");
    }
    let left = list(&stack_of(&world), LISTED_DEFAULT).await.unwrap();
    assert_eq!(left.iter().map(|one| &one.event_id).collect::<Vec<_>>(), [&hopeless]);
    let audit = browser.get("/repair?tab=audit").await;
    assert!(audit.contains(REASON.1) && audit.contains("quarantine reprocess started"), "{}", audit.html);
    assert!(audit.contains("quarantine reprocess finished"), "{}", audit.html);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_redriven() {
    let world = with_dead_letters().await;
    let browser = Browser::open(&console(&world, true)).await;
    let listed = browser.get("/repair").await;
    let in_queue = "Messages in the dead-letter queue: <strong>2</strong>";
    assert!(listed.contains("could not read the call") && listed.contains(in_queue), "{}", listed.html);
    let (page, _) = plan(&browser, "/repair", "Plan: redrive").await;
    let started = browser.submit(&page.form("Run"), &[REASON, ("count", "2"), ("rate", "50")]).await;
    let page = ended(&browser, &started).await;
    assert!(page.contains("2 done, 0 unchanged, 0 skipped"), "{}", page.html);
    assert!(world.dead_letters().is_empty());
    let empty = browser.get("/repair").await;
    assert!(empty.contains("Nothing waits. The last repair was"), "{}", empty.html);
    // A plan is run once.
    let again = browser.get(&format!("/plan?id={}", started.location.unwrap().replace("/run?id=r-", "p-"))).await;
    assert!(again.contains("This plan was run") && !again.contains("action=\"/run\""), "{}", again.html);
    assert!(!again.contains("Nothing has changed by it") && !again.contains("valid until"), "{}", again.html);
}

#[tokio::test(start_paused = true)]
async fn plan_names_its_items_and_what_they_were_selected_by() {
    let (world, browser) = with_quarantined().await;
    let hopeless = unreadable(&world).await;
    let list = browser.get("/repair?tab=quarantined").await;
    let forms = list.html.matches(">Plan: discard</button>").count();
    assert_eq!(forms, 2, "one for each cause: {}", list.html);
    let (page, id) = plan(&browser, "/repair?tab=quarantined", "Plan: discard").await;
    let plan = Plan::load(&stack_of(&world), &id).await.unwrap();
    let named: Vec<String> = page.links("/event").iter().map(|url| id_in(url)).collect();
    let items: Vec<&str> = plan.items.iter().filter_map(|item| item.event_id.as_ref().map(EventId::as_str)).collect();
    assert_eq!((named.len(), named.iter().map(String::as_str).collect::<Vec<_>>()), (2, items), "{}", page.html);
    assert!(page.contains("leaves the list of quarantined ones"), "{}", page.html);
    let token = token(&list.form("Plan: discard"));
    let fields = [("kind", "discard_quarantined"), ("cause", "invalid_json"), ("form_token", token.as_str())];
    let of_cause = browser.get(&browser.post("/plan", &fields).await.location.unwrap()).await;
    assert!(of_cause.contains("the body is not JSON") && of_cause.contains("invalid_json"), "{}", of_cause.html);
    assert_eq!(of_cause.links("/event").iter().map(|url| id_in(url)).collect::<Vec<_>>(), [hopeless.to_string()]);
}

#[tokio::test(start_paused = true)]
async fn audit_says_that_it_shows_only_the_latest_records() {
    let (world, browser) = with_quarantined().await;
    let (stack, event) = (stack_of(&world), EventId::new("generic:sha256-c1"));
    for _ in 0..50 {
        audit::record_unmasking(&stack, &event, "ticket 812").await.unwrap();
    }
    let all = browser.get("/repair?tab=audit").await;
    assert!(all.contains(">Latest audit records</caption>") && !all.contains("the latest 50"), "{}", all.html);
    audit::record_unmasking(&stack, &event, "ticket 812").await.unwrap();
    let latest = browser.get("/repair?tab=audit").await;
    assert_eq!(latest.html.matches("id=\"audit-").count(), 50, "{}", latest.html);
    assert!(latest.contains("These are the latest 50. There are more: <code>switchhook audit list --max 500 --"));
}

#[tokio::test(start_paused = true)]
async fn second_reason_of_a_running_plan_is_refused() {
    let (world, browser) = with_quarantined().await;
    let (page, id) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let form = page.form("Run");
    let filled = [REASON, ("count", "2"), ("rate", "1")];
    let started = browser.submit(&form, &filled).await;
    let other = browser.submit(&form, &[("reason", "ticket 813"), ("count", "2"), ("rate", "1")]).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", other.html);
    assert!(other.contains("the plan is running already, and the reason of its start counts"), "{}", other.html);
    assert!(other.contains("The run of this plan has begun") && other.contains(&format!("Plan <code>{id}")));
    // A button that is pressed twice sends the same form again.
    let twice = browser.submit(&form, &filled).await;
    assert_eq!(twice.location, started.location, "{}", twice.html);
    ended(&browser, &started).await;
    assert_eq!(audited(&world).await, 2, "one run has started and finished");
}

#[tokio::test(start_paused = true)]
async fn form_of_an_earlier_session_leads_to_the_page_that_has_a_new_one() {
    let (world, earlier) = with_quarantined().await;
    let (page, id) = plan(&earlier, "/repair?tab=quarantined", "Plan: process again").await;
    let event = world.accept(switchhook_domain::Provider::Generic, &generic("c9", "e9", "RINGING", 0)).await;
    let unmask = earlier.get(&format!("/event?id={event}")).await.form("Show the body unmasked");
    let browser = Browser::open(&console(&world, true)).await;
    for (form, to) in [(page.form("Run"), format!("/plan?id={id}")), (unmask, "/event?id=generic%3Ae9".to_owned())] {
        let refused = browser.submit(&form, &[REASON, ("count", "2"), ("rate", "50")]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.html);
        assert!(refused.contains(&format!("href=\"{to}\">Load its page again</a>")), "{}", refused.html);
        assert!(refused.contains("<h1>Nothing was done</h1>") && refused.contains("<nav"), "{}", refused.html);
    }
    assert_eq!(audited(&world).await, 0);
}

#[tokio::test(start_paused = true)]
async fn plan_that_is_too_old_does_not_run() {
    let (world, browser) = with_quarantined().await;
    let (page, id) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let form = page.form("Run");
    world.wait(Duration::from_secs(16 * 60)).await;
    let refused = browser.submit(&form, &[REASON, ("count", "2"), ("rate", "50")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.contains("older than 15 minutes") && !refused.contains("action=\"/run\""), "{}", refused.html);
    assert_eq!(audited(&world).await, 0);
    assert!(browser.get(&format!("/plan?id={id}")).await.contains("no longer valid"));
}

#[tokio::test(start_paused = true)]
async fn read_only_console_plans_and_has_no_route_that_changes() {
    let (world, changing) = with_quarantined().await;
    let event = unreadable(&world).await;
    let browser = Browser::open(&console(&world, false)).await;
    let (page, id) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    assert!(!page.contains("action=\"/run\"") && page.contains("--yes --reason TEXT"), "{}", page.html);
    let form = changing.get(&format!("/plan?id={id}")).await.form("Run");
    let fields: Vec<(&str, &str)> = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for path in ["/run", "/run/stop", "/run/resume", "/unmask"] {
        assert_eq!(browser.post(path, &fields).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let unmask = [("event", event.as_str()), ("reason", "curious")];
    assert_eq!(browser.post("/unmask", &unmask).await.status, StatusCode::NOT_FOUND);
    assert_eq!(audited(&world).await, 0);
}

#[tokio::test(start_paused = true)]
async fn form_is_good_for_its_session_and_its_plan_alone() {
    let (world, browser) = with_quarantined().await;
    let (page, _) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let (other, _) = plan(&browser, "/repair?tab=quarantined", "Plan: discard").await;
    let form = page.form("Run");
    let filled = [REASON, ("count", "2"), ("rate", "50")];
    let of_other_plan = with(&form, "form_token", &token(&other.form("Run")));
    assert_eq!(browser.submit(&of_other_plan, &filled).await.status, StatusCode::FORBIDDEN);
    let stranger = Browser::open(&console(&world, true)).await;
    assert_eq!(stranger.submit(&form, &filled).await.status, StatusCode::FORBIDDEN);
    let planned = browser.post("/plan", &[("kind", "replay"), ("call", "c1")]).await;
    assert_eq!(planned.status, StatusCode::FORBIDDEN, "a plan needs a token too");
    assert_eq!(audited(&world).await, 0);
}

/// Refuses the writes of audit records.
fn refuse_audit(world: &World) {
    world.set_fault_hook(|call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        let key = body["Item"]["event_id"]["S"].as_str().unwrap_or_default();
        (call.operation == "PutItem" && key.starts_with("audit:")).then(down)
    });
}

#[tokio::test(start_paused = true)]
async fn without_an_audit_record_nothing_runs_and_nothing_is_unmasked() {
    let (world, browser) = with_quarantined().await;
    let body = generic("c9", "e9", "RINGING", 0);
    let event = world.accept(switchhook_domain::Provider::Generic, &body).await;
    let (page, _) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let form = page.form("Run");
    refuse_audit(&world);
    let started = browser.submit(&form, &[REASON, ("count", "2"), ("rate", "50")]).await;
    let page = ended(&browser, &started).await;
    assert!(page.contains("The run stopped.") && page.contains("data-kind=\"denied\""), "{}", page.html);
    assert!(page.contains("0 of 2 items"), "{}", page.html);
    world.quiesce().await;
    assert!(world.load("c1").await.is_none() && world.load("c2").await.is_none());
    let token = unmask_token(&browser, &event).await;
    let fields = [("event", event.as_str()), ("reason", "ticket 7"), ("form_token", token.as_str())];
    let masked = browser.post("/unmask", &fields).await;
    assert_eq!(masked.status, StatusCode::BAD_GATEWAY, "{}", masked.html);
    assert!(!masked.contains("RINGING") && masked.contains("stays masked"), "{}", masked.html);

    // Once records can be written, the run goes on from its page.
    world.clear_faults();
    let resumed = browser.submit(&page.form("Go on"), &[]).await;
    let page = ended(&browser, &resumed).await;
    assert!(page.contains("2 done, 0 unchanged, 0 skipped"), "{}", page.html);
    let shown = browser.post("/unmask", &fields).await;
    assert!(shown.status == StatusCode::OK && shown.contains("RINGING"), "{}", shown.html);
    let records = audit::list(&stack_of(&world), 100).await.unwrap();
    assert!(records.iter().any(|record| record.event_id.as_deref() == Some(event.as_str())), "{records:?}");
}

/// Returns the token of the form that unmasks an event.
async fn unmask_token(browser: &Browser, event: &EventId) -> String {
    let page = browser.get(&format!("/event?id={event}")).await;
    token(&page.form("Show the body unmasked"))
}

#[tokio::test(start_paused = true)]
async fn run_that_is_stopped_goes_on_in_another_console() {
    let (world, browser) = with_quarantined().await;
    let (page, _) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    let started = browser.submit(&page.form("Run"), &[REASON, ("count", "2"), ("rate", "1")]).await;
    let working = browser.get(started.location.as_deref().unwrap()).await;
    assert!(working.contains("1 of 2 items") && working.contains("http-equiv=\"refresh\""), "{}", working.html);
    let stopped = browser.submit(&working.form("Stop"), &[]).await;
    let page = ended(&browser, &stopped).await;
    // The run may have been in its last page of items, which it finishes.
    assert!(page.contains("2 of 2 items") || page.contains(">Go on</button>"), "{}", page.html);
    let other = Browser::open(&console(&world, true)).await;
    let page = other.get(started.location.as_deref().unwrap()).await;
    if page.contains(">Go on</button>") {
        let resumed = other.submit(&page.form("Go on"), &[]).await;
        let page = ended(&other, &resumed).await;
        assert!(page.contains("2 done, 0 unchanged, 0 skipped"), "{}", page.html);
    }
    world.quiesce().await;
    for call in ["c1", "c2"] {
        assert_eq!(world.call(call).await.history.len(), 1, "nothing is done twice");
    }
}

#[tokio::test(start_paused = true)]
async fn run_that_was_killed_in_a_page_does_nothing_twice() {
    let (world, browser) = with_quarantined().await;
    let (page, _) = plan(&browser, "/repair?tab=quarantined", "Plan: process again").await;
    // The position of the first page is never stored.
    world.set_fault_hook(|call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        let is_run = body["Item"]["event_id"]["S"].as_str().unwrap_or_default().starts_with("run:");
        (is_run && body["ConditionExpression"] == "version = :read").then(down)
    });
    let started = browser.submit(&page.form("Run"), &[REASON, ("count", "2"), ("rate", "50")]).await;
    let page = ended(&browser, &started).await;
    assert!(page.contains("The run stopped.") && page.contains("0 of 2 items"), "{}", page.html);
    world.clear_faults();
    world.quiesce().await;
    let killed = world.call("c1").await;
    let other = Browser::open(&console(&world, true)).await;
    let page = other.get(started.location.as_deref().unwrap()).await;
    let resumed = other.submit(&page.form("Go on"), &[]).await;
    let page = ended(&other, &resumed).await;
    assert!(page.contains("0 done, 2 unchanged, 0 skipped"), "{}", page.html);
    world.quiesce().await;
    assert_eq!(world.call("c1").await.version, killed.version, "the second time changes nothing");
}

#[tokio::test(start_paused = true)]
async fn call_is_verified_replayed_and_published_again_by_forms() {
    let (world, browser) = with_quarantined().await;
    world.accept(switchhook_domain::Provider::Generic, &generic("c3", "e3", "RINGING", 0)).await;
    world.quiesce().await;
    let token = token(&browser.get("/repair?tab=quarantined").await.form("Plan: discard"));
    let ask = async |kind: &str| browser.post("/plan", &[("kind", kind), ("call", "c3"), ("form_token", &token)]).await;
    let verified = ask("verify").await;
    assert!(verified.contains("matches its events"), "{}", verified.html);
    for kind in ["replay", "republish"] {
        let made = ask(kind).await;
        assert_eq!(made.status, StatusCode::SEE_OTHER, "{kind}: {}", made.html);
        assert_eq!(browser.get(&made.location.unwrap()).await.status, StatusCode::OK);
    }
    let empty = browser.post("/plan", &[("kind", "redrive"), ("form_token", &token)]).await;
    assert_eq!(empty.status, StatusCode::UNPROCESSABLE_ENTITY, "an empty filter is refused");
    let unknown = browser.post("/plan", &[("kind", "stop"), ("form_token", &token)]).await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    assert_eq!(browser.get("/plan?id=p-000000000000").await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/run?id=r-000000000000").await.status, StatusCode::NOT_FOUND);
    assert_eq!(json!(world.dead_letters().len()), json!(2));
}
