//! A forgotten person stays forgotten when a row is lost, and when the inbox is lost or restored.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::json;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_operate::recover::plan_refill;
use switchhook_operate::verify::{VerifyFilter, verify};
use switchhook_tests::{MINUTE, World};

use super::places::places;
use super::{MAX, NAME, NUMBER, calls, finished_call, forget_calls, planned};
use crate::operator::{carry_out, stack};
use crate::outbound::send;
use crate::recovery::{back_up, lose, restore};

/// Asks for a call to our person. Returns the status, the id of the call, and the type of a problem.
async fn ask_for_call(world: &World, key: Option<&str>) -> (StatusCode, String, String) {
    let request = json!({
        "provider": "retell", "from": "+442079460018", "to": NUMBER, "metadata": {"fake": "confirms", "name": NAME},
    });
    let (code, answer) = send(world, "POST", "/calls", key, &request).await;
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    (code, text("call_id"), text("type"))
}

/// Places a call to our person, and forgets the person when it has ended.
async fn forgotten_call(world: &World, key: Option<&str>) -> String {
    let (code, call_id, _) = ask_for_call(world, key).await;
    assert_eq!(code, StatusCode::CREATED);
    world.wait(MINUTE * 4).await;
    forget_calls(world, &[&call_id]).await;
    call_id
}

fn is_refused(answer: &(StatusCode, String, String)) -> bool {
    answer.0 == StatusCode::CONFLICT && answer.2 == "urn:switchhook:problem:call_forgotten"
}

#[tokio::test(start_paused = true)]
async fn repeated_request_dials_no_forgotten_person_whatever_is_lost() {
    for key in [Some("order-7"), None] {
        for lost in [None, Some(CALLS_TABLE), Some(INBOX_TABLE)] {
            let world = World::new();
            forgotten_call(&world, key).await;
            if let Some(table) = lost {
                lose(&world, table).await;
            }
            let answer = ask_for_call(&world, key).await;
            assert!(is_refused(&answer), "{key:?}, lost {lost:?}: {answer:?}");
            world.wait(MINUTE * 5).await;
            assert_eq!(world.cloud.fake().dials().len(), 1, "{key:?}, lost {lost:?}");
            assert_eq!(places(&world).await, BTreeSet::new(), "{key:?}, lost {lost:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn request_without_a_key_is_a_new_one_after_five_minutes() {
    let world = World::new();
    let call_id = forgotten_call(&world, None).await;
    world.wait(MINUTE * 5).await;
    let (code, second, _) = ask_for_call(&world, None).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_ne!(second, call_id);
}

#[tokio::test(start_paused = true)]
async fn refilled_inbox_holds_no_forgotten_person() {
    for is_restored in [true, false] {
        let world = World::new();
        let began = world.now();
        finished_call(&world, "c1").await;
        let (_, placed, _) = ask_for_call(&world, Some("order-7")).await;
        world.wait(MINUTE * 4).await;
        let backup = back_up(&world, INBOX_TABLE).await;
        // The calls were settled before the backup. A lost inbox has lost everything since the start.
        let since = if is_restored { world.now() } else { began };
        world.wait(MINUTE).await;
        forget_calls(&world, &["c1", &placed]).await;
        if is_restored {
            restore(&world, &backup).await;
            assert_ne!(places(&world).await, BTreeSet::new(), "the backup holds the person");
        } else {
            lose(&world, INBOX_TABLE).await;
        }
        let stack = stack(&world);
        let plan = plan_refill(&stack, since, MAX, &mut |_, _| {}).await.unwrap();
        assert_eq!(plan.items.len(), 2, "{plan:#?}");
        carry_out(&stack, &plan).await;
        assert_eq!(places(&world).await, BTreeSet::new(), "restored: {is_restored}");
        world.wait(MINUTE * 3).await;
        let report = verify(&stack, &VerifyFilter::Since, began, &mut |_, _| {}).await.unwrap();
        assert!(report.is_clean(), "restored: {is_restored}: {report:#?}");
        // The refilled record refuses the request after the row is lost too.
        world.delete_item(CALLS_TABLE, &placed).await;
        assert!(is_refused(&ask_for_call(&world, Some("order-7")).await), "restored: {is_restored}");
        assert_eq!(world.cloud.fake().dials().len(), 1);
        assert_eq!(planned(&stack, calls(&["c1"]), false).await.items.len(), 0, "nothing is left to forget");
    }
}
