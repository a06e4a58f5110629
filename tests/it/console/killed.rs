//! Runs of the console that are killed: each verb, at any request. Another console goes on, and nothing is done twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use switchhook_domain::{Disposition, Provider};
use switchhook_local::queue::NewMessage;
use switchhook_local::{EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE};
use switchhook_operate::plan::{CallSummary, Plan, PlanId, Verb};
use switchhook_operate::run::{self, RunId, RunState};
use switchhook_tests::{World, generic};

use super::repair::{REASON, ended, token};
use super::{Browser, console};
use crate::operator::quarantine::quarantined_by_older_version;
use crate::repair::{drop_messages, post_folded, stack_of};

/// A button of the console that makes a plan.
struct Case {
    verb: Verb,
    fields: &'static [(&'static str, &'static str)],
    /// Number of messages that are left in the dead-letter queue. It begins with two dead letters and two notices.
    left: usize,
}

const CASES: [Case; 7] = [
    Case { verb: Verb::Reprocess, fields: &[("kind", "reprocess"), ("all", "yes")], left: 2 },
    Case { verb: Verb::DiscardQuarantined, fields: &[("kind", "discard_quarantined"), ("all", "yes")], left: 2 },
    Case { verb: Verb::Redrive, fields: &[("kind", "redrive"), ("all", "yes")], left: 2 },
    Case { verb: Verb::DiscardDeadLetters, fields: &[("kind", "discard_dead_letters"), ("all", "yes")], left: 2 },
    Case { verb: Verb::Replay, fields: &[("kind", "replay"), ("call", "unqueued")], left: 4 },
    Case { verb: Verb::Republish, fields: &[("kind", "republish"), ("call", "folded")], left: 4 },
    Case { verb: Verb::Verify, fields: &[("kind", "verify"), ("call", "altered")], left: 4 },
];

/// A running stack with something to do for each verb.
async fn world() -> World {
    let mut world = World::stopped();
    post_folded(&world, "folded", "e1", "RINGING", 0).await;
    post_folded(&world, "altered", "e2", "RINGING", 0).await;
    post_folded(&world, "unqueued", "e3", "RINGING", 0).await;
    for (event, kind) in [("e4", "ANSWERED"), ("e5", "ENDED")] {
        world.accept(Provider::Generic, &generic("unqueued", event, kind, 9)).await;
    }
    drop_messages(&world);
    for call in ["dead-1", "dead-2"] {
        world.accept(Provider::Generic, &generic(call, call, "RINGING", 0)).await;
        for message in world.receive() {
            let letter = NewMessage {
                body: message.message.body.clone(),
                group: Some(call.to_owned()),
                deduplication_id: Some(call.to_owned()),
                ..NewMessage::default()
            };
            world.cloud.services().sqs().send(EVENTS_DEAD_LETTER_QUEUE, letter).unwrap();
            world.cloud.services().sqs().delete(EVENTS_QUEUE, &message.receipt_handle).unwrap();
        }
    }
    for call in ["older-1", "older-2"] {
        let _ = quarantined_by_older_version(&world, call, Disposition::Quarantined).await;
    }
    world.alter_text("altered", "job", "FAILED").await;
    world.start();
    world
}

/// Kills the console's run at the request that follows the first `requests`, counted from the write that begins the run. Returns the
/// flag that tells whether it was killed.
fn kill_after(world: &World, requests: u64) -> std::sync::Arc<AtomicBool> {
    let (has_begun, left) = (AtomicBool::new(false), AtomicU64::new(requests));
    let killed = std::sync::Arc::new(AtomicBool::new(false));
    let flag = killed.clone();
    world.set_fault_hook(move |call| {
        let body = String::from_utf8_lossy(call.body);
        let begins = call.operation == "PutItem" && body.contains("\"run:");
        if call.sender != Some("console-changes") || (!begins && !has_begun.load(Ordering::SeqCst)) {
            return None;
        }
        has_begun.store(true, Ordering::SeqCst);
        let more = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if more.is_err() {
            killed.store(true, Ordering::SeqCst);
            panic!("the run is killed here, as the test demands");
        }
        None
    });
    flag
}

/// Plans, starts a run that is killed, and goes on in another console. Returns false if the run ended before it was killed.
async fn is_killed(case: &Case, requests: u64) -> bool {
    let told = format!("{:?} after {requests} requests", case.verb);
    let world = world().await;
    let browser = Browser::open(&console(&world, true)).await;
    let form_token = token(&browser.get("/repair?tab=quarantined").await.form("Plan: discard"));
    let fields: Vec<(&str, &str)> = case.fields.iter().copied().chain([("form_token", form_token.as_str())]).collect();
    let made = browser.post("/plan", &fields).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{told}: {}", made.html);
    let plan_page = made.location.unwrap();
    let id = PlanId::new(plan_page.strip_prefix("/plan?id=").unwrap());
    let stack = stack_of(&world);
    let plan = Plan::load(&stack, &id).await.unwrap();
    assert!(plan.verb == case.verb && !plan.items.is_empty(), "{told}: {plan:?}");
    let count = plan.items.len().to_string();
    let filled = [REASON, ("count", count.as_str()), ("rate", "50")];

    let killed = kill_after(&world, requests);
    let form = browser.get(&plan_page).await.form("Run");
    browser.submit(&form, &filled).await;
    let run_page = format!("/run?id={}", RunId::of_plan(&id));
    // A run that is not killed ends by itself.
    for _ in 0..60 {
        let stored = run::get(&stack, &RunId::of_plan(&id)).await.unwrap();
        if killed.load(Ordering::SeqCst) || stored.is_some_and(|run| run.state == RunState::Finished) {
            break;
        }
        world.wait(Duration::from_secs(1)).await;
    }
    let was_killed = killed.load(Ordering::SeqCst);
    world.clear_faults();

    let other = Browser::open(&console(&world, true)).await;
    let page = other.get(&run_page).await;
    if page.status == StatusCode::NOT_FOUND {
        // It was killed before it was stored.
        let form = other.get(&plan_page).await.form("Run");
        ended(&other, &other.submit(&form, &filled).await).await;
    }
    // The process that was killed may hide dead letters for two minutes. The run waits for them.
    let page = other.get(&run_page).await;
    if page.contains(">Go on</button>") {
        ended(&other, &other.submit(&page.form("Go on"), &[]).await).await;
    }
    world.quiesce().await;
    let run = run::get(&stack, &RunId::of_plan(&id)).await.unwrap().unwrap();
    assert_eq!(
        (run.state, run.position, run.counts.skipped),
        (RunState::Finished, plan.items.len(), 0),
        "{told}: {run:?}"
    );
    assert_eq!(run.counts.done + run.counts.unchanged, plan.items.len(), "{told}: {run:?}");
    for effect in &plan.effects {
        let row = world.load(effect.call_id.as_str()).await;
        assert_eq!(row.as_ref().map(CallSummary::new), effect.after, "{told}: {}", effect.call_id);
        let Some(row) = row else { continue };
        let events: BTreeSet<&str> = row.history.iter().map(|entry| entry.source_event_id.as_str()).collect();
        let own = row.history.iter().filter(|entry| !entry.event.implied).count();
        assert_eq!(events.len(), own, "{told}: an event of {} was folded twice", effect.call_id);
    }
    assert_eq!(world.dead_letters().len(), case.left, "{told}: {:?}", world.dead_letters());
    was_killed
}

async fn kill_at_each_request(cases: &[Case]) {
    for case in cases {
        let mut requests = 0;
        while is_killed(case, requests).await {
            // A redrive looks again and again whether its events are folded.
            requests += if requests < 20 { 1 } else { 3 };
        }
        assert!(requests > 5, "a run of {:?} sends only {requests} requests", case.verb);
    }
}

#[tokio::test(start_paused = true)]
async fn killed_repair_of_quarantined_events_goes_on() {
    kill_at_each_request(&CASES[..2]).await;
}

#[tokio::test(start_paused = true)]
async fn killed_repair_of_dead_letters_goes_on() {
    kill_at_each_request(&CASES[2..4]).await;
}

#[tokio::test(start_paused = true)]
async fn killed_repair_of_calls_goes_on() {
    kill_at_each_request(&CASES[4..]).await;
}
