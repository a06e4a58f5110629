//! Runs that are interrupted: they go on where they stopped, and in the end nothing is left of the person.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use switchhook_domain::Provider;
use switchhook_operate::run::{self, RunId, RunState};
use switchhook_operate::{Error, Refusal};
use switchhook_tests::World;

use super::places::places;
use super::{about, calls, finished_call, planned};
use crate::operator::{carry_out, stack};
use crate::repair::consume_all;
use crate::traffic::noise;

/// Kills a run at its first request, resumes it, and searches. Repeats this with a kill at the second request, the third, and so
/// on, until a run ends before it is killed.
#[tokio::test(start_paused = true)]
async fn run_that_is_killed_at_any_request_forgets_everything_once() {
    let mut requests = 0;
    loop {
        let world = World::stopped();
        finished_call(&world, "c1").await;
        world.post(Provider::Generic, &about("c1", "c1-ENDED", "ENDED", 61, "my hip is broken again")).await;
        let large = about("c2", "large", "BUSY", 5, &format!("my hip is broken {}", noise(700_000)));
        world.accept(Provider::Generic, &large).await;
        consume_all(&world).await;
        let stack = stack(&world);
        let plan = planned(&stack, calls(&["c1", "c2"]), false).await;
        assert_eq!((plan.items.len(), plan.calls), (7, 2), "{plan:#?}");

        let left = AtomicU64::new(requests);
        world.set_fault_hook(move |_| {
            let more = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(more.is_ok(), "the run is killed here, as the test demands");
            None
        });
        let (killed_stack, killed_plan) = (stack.clone(), plan.clone());
        let killed = async move { carry_out(&killed_stack, &killed_plan).await };
        let tasks = tokio::task::LocalSet::new();
        let first = tasks.run_until(async move { tokio::task::spawn_local(killed).await }).await;
        world.clear_faults();
        let was_killed = first.is_err();
        let run = match first {
            Ok(run) => run,
            Err(_) => {
                let id = RunId::of_plan(&plan.id);
                match run::resume(&stack, &id, "bob", &mut |_| ControlFlow::Continue(())).await {
                    Ok(run) => run,
                    // It was killed before it was stored, or after its last write.
                    Err(Error::Refusal(Refusal::UnknownRun(_))) => carry_out(&stack, &plan).await,
                    Err(Error::Refusal(Refusal::Finished { .. })) => run::get(&stack, &id).await.unwrap().unwrap(),
                    Err(other) => panic!("{other}"),
                }
            }
        };
        assert_eq!((run.state, run.counts.skipped), (RunState::Finished, 0), "after {requests} requests");
        assert_eq!(places(&world).await, BTreeSet::new(), "after {requests} requests");
        for (id, attempts) in [("c1", 1), ("c2", 1)] {
            let call = world.call(id).await;
            assert_eq!(call.attempts().len(), attempts, "{id} after {requests} requests");
            assert!(call.forgotten_at.is_some() && call.matches_history());
        }
        if !was_killed {
            break;
        }
        requests += 1;
    }
    assert!(requests > 20, "a run sends only {requests} requests");
}
