//! Runs that are interrupted: they go on where they stopped, and in the end nothing is left of the person.

use std::collections::BTreeSet;

use switchhook_domain::Provider;
use switchhook_operate::run::RunState;
use switchhook_tests::World;

use super::places::places;
use super::{about, calls, finished_call, planned};
use crate::operator::{carry_out_killed, stack};
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
        let large = about("c2", "large", "BUSY", 5, &format!("my hip is broken {}", noise(420_000)));
        world.accept(Provider::Generic, &large).await;
        consume_all(&world).await;
        let stack = stack(&world);
        let plan = planned(&stack, calls(&["c1", "c2"]), false).await;
        assert_eq!((plan.items.len(), plan.calls), (7, 2), "{plan:#?}");

        let (run, was_killed) = carry_out_killed(&world, &plan, requests, async || {}).await;
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
