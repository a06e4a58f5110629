//! Runs that are interrupted: they go on where they stopped, and do everything once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use switchhook_domain::Provider;
use switchhook_operate::plan::{ITEMS_MAX, Verb};
use switchhook_operate::replay;
use switchhook_operate::run::{self, RunId, RunState};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::{World, generic};

use super::{
    consume_all, drop_messages, everything, options, plan_replay, post_folded, post_unqueued, runs, stack_of, summary,
};
use crate::operator::carry_out_killed;

/// Crashes a run at its first request, resumes it, and compares. Repeats this with a crash at the second request, the third, and
/// so on, until a run ends before it crashes.
#[tokio::test(start_paused = true)]
async fn run_that_is_killed_at_any_request_does_everything_once() {
    let mut requests = 0;
    loop {
        let world = World::stopped();
        post_folded(&world, "c1", "e1", "RINGING", 0).await;
        post_unqueued(&world, "c1", "e2", "ANSWERED", 5).await;
        post_unqueued(&world, "c2", "e3", "RINGING", 0).await;
        post_folded(&world, "c3", "e4", "RINGING", 0).await;
        post_folded(&world, "c3", "e5", "BUSY", 3).await;
        let alter =
            |history: &mut Vec<String>| history.iter_mut().for_each(|one| *one = one.replace("busy", "no_answer"));
        world.alter_history("c3", alter).await;
        let stack = stack_of(&world);
        let plan = plan_replay(&stack, &everything()).await;
        assert_eq!((plan.items.len(), plan.calls), (3, 3));

        let between = async || {
            // Events that were queued before the kill may be folded or not.
            if requests % 2 == 0 {
                consume_all(&world).await;
            }
        };
        let (run, was_killed) = carry_out_killed(&world, &plan, requests, between).await;
        consume_all(&world).await;
        assert_eq!(
            (run.state, run.position, run.counts.skipped),
            (RunState::Finished, 3, 0),
            "after {requests} requests"
        );
        assert_eq!(run.counts.done + run.counts.unchanged, 3);
        for effect in &plan.effects {
            assert_eq!(
                summary(&world, &effect.call_id).await,
                effect.after,
                "{} after {requests} requests",
                effect.call_id
            );
        }
        let histories = ["c1", "c2", "c3"].map(|call| call.to_owned());
        for call_id in histories {
            let call = world.call(&call_id).await;
            let events: BTreeSet<String> = call.history.iter().map(|entry| entry.id().to_string()).collect();
            assert_eq!(events.len(), call.history.len(), "an event of {call_id} was folded twice");
            let repairs = call.announcements.iter().filter(|one| one.kind.is_drift_repaired()).count();
            assert_eq!(repairs, usize::from(call_id == "c3"));
        }
        let actions = runs::actions(&world);
        assert!(actions.iter().any(|(action, _)| action == "finished"));
        if !was_killed {
            break;
        }
        requests += 1;
    }
    assert!(requests > 10, "a run sends only {requests} requests");
}

/// Number of events of a long replay. `SWITCHHOOK_REPLAY_EVENTS=100000` makes it as long as one plan may be.
fn events_of_a_long_replay() -> usize {
    std::env::var("SWITCHHOOK_REPLAY_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

#[tokio::test(start_paused = true)]
async fn run_over_many_events_stops_and_goes_on() {
    let events = events_of_a_long_replay();
    let world = World::stopped();
    let stack = stack_of(&world);
    for n in 0..events as u64 {
        world
            .accept(
                Provider::Generic,
                &generic(&format!("c{}", n / 2), &format!("e{n}"), ["RINGING", "BUSY"][(n % 2) as usize], n),
            )
            .await;
    }
    drop_messages(&world);
    let plan = replay::plan(&stack, &everything(), ITEMS_MAX, &mut |_, _| {}).await.unwrap();
    assert_eq!((plan.items.len(), plan.calls, plan.effects.len(), plan.capped), (events, events / 2, 500, false));
    let mut pages = 0;
    let mut stop_after_7 = |_: &run::Run| {
        pages += 1;
        if pages == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = run::start(&stack, &plan.id, Verb::Replay, options(), &mut stop_after_7).await.unwrap();
    assert_eq!((stopped.state, stopped.position), (RunState::Unfinished, 350));
    // A part of the queued events is folded before the run goes on, on another machine.
    for _ in 0..10 {
        let received = world.receive();
        assert_eq!(world.consume(&received).await, received.len());
    }
    let other = stack_of(&world);
    let run = run::resume(&other, &stopped.id, "bob", &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((run.state, run.counts.done, run.counts.unchanged), (RunState::Finished, events, 0));
    assert_eq!(world.queued().len(), events - 100);
    consume_all(&world).await;
    for effect in plan.effects.iter().step_by(50) {
        assert_eq!(summary(&world, &effect.call_id).await, effect.after);
    }
}

#[tokio::test(start_paused = true)]
async fn process_whose_run_was_taken_over_stops() {
    let world = World::stopped();
    let stack = stack_of(&world);
    for n in 0..120 {
        post_unqueued(&world, &format!("c{n}"), &format!("e{n}"), "RINGING", 0).await;
    }
    let plan = plan_replay(&stack, &everything()).await;
    let (slow, fast) = (stack.clone(), stack.clone());
    let id = RunId::of_plan(&plan.id);
    let slow_options = run::RunOptions { rate: 50, ..options() };
    let mut goes_on = |_: &run::Run| ControlFlow::Continue(());
    let first = run::start(&slow, &plan.id, Verb::Replay, slow_options, &mut goes_on);
    let second = async {
        world.wait(std::time::Duration::from_millis(500)).await;
        run::resume(&fast, &id, "bob", &mut |_| ControlFlow::Continue(())).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first, Err(Error::Refusal(Refusal::TakenOver(_)))), "{first:?}");
    let second = second.unwrap();
    assert_eq!((second.counts.done, second.state), (120, RunState::Finished));
    consume_all(&world).await;
    assert_eq!(world.call("c119").await.history.len(), 1);
}
