//! One run of the simulator: a plan carried out against the production handlers, on one thread, in virtual time.
//!
//! The simulator plays AWS around the handlers: event sources, schedules and timeouts, disturbed by the plan's faults.
//! It also plays the senders of webhooks and the clients of the API, which retry until they get an answer.
//!
//! **Every random choice is drawn from the plan's seed**, in the order of events. So the same plan always gives the
//! same run.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use switchhook_local::bus::BusEvent;
use switchhook_tests::MINUTE;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use crate::mutation::Mutation;
use crate::plan::{FAULTS_END, FaultKind, Plan};
use crate::sim::{NO_FAULTS, Sim};
use crate::state::RunResult;

/// Virtual time within which every call must be settled. It is this long because an unreadable message is retried for
/// hours.
const SETTLED_WITHIN: Duration = Duration::from_secs(12 * 60 * 60);
/// Pause between two runs of the schedules. AWS runs them every minute. A longer pause makes a run of the simulator
/// cheaper and changes little.
pub(crate) const TICK: Duration = Duration::from_secs(2 * 60);
/// Virtual time in which queued work is done. It is longer than the visibility timeout of a message.
const AT_REST_WITHIN: Duration = Duration::from_secs(2 * 60);
const CONSUMERS: usize = 3;
const DIALERS: usize = 2;

/// Carries out a plan, with a mutation of the program if there is one.
pub(crate) fn run(plan: &Plan, mutation: Option<Mutation>) -> RunResult {
    switchhook_local::clock::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let plan = plan.clone();
    LocalSet::new().block_on(&runtime, async move {
        let sim = Rc::new(Sim::new(plan, mutation));
        sim.carry_out().await
    })
}

impl Sim {
    async fn carry_out(self: &Rc<Self>) -> RunResult {
        self.world.cloud.fake().start_recording();
        let state = self.state.clone();
        self.world.set_fault_hook(move |call| match NO_FAULTS.try_with(|()| ()) {
            Ok(()) => None,
            Err(_) => state.lock().unwrap().fault(call),
        });
        let state = self.state.clone();
        let refuses =
            move |_: &BusEvent| state.lock().unwrap().hit(FaultKind::BusRefusal).then(|| "InternalFailure".to_owned());
        self.world.cloud.bus().fail_entries(Some(Arc::new(refuses)));

        let mut background_tasks =
            vec![spawn_local(self.clone().poll_stream()), spawn_local(self.clone().run_schedules())];
        background_tasks.extend((0..CONSUMERS).map(|_| spawn_local(self.clone().poll_events_queue())));
        background_tasks.extend((0..DIALERS).map(|_| spawn_local(self.clone().poll_dial_queue())));
        background_tasks
            .extend([spawn_local(self.clone().deliver_fake_webhooks()), spawn_local(self.clone().set_provider_mode())]);
        background_tasks
            .extend([spawn_local(self.clone().poll_due_queue()), spawn_local(self.clone().poll_due_records())]);
        background_tasks.push(spawn_local(self.clone().poll_repair_queue()));
        background_tasks.push(spawn_local(self.clone().repair_dead_letters()));
        background_tasks.push(spawn_local(self.clone().report_dials()));
        background_tasks.push(spawn_local(self.clone().receive_unreported_calls()));
        background_tasks.push(spawn_local(self.clone().watch()));
        let mut senders = vec![spawn_local(self.clone().poison())];
        for (index, call) in self.plan.external_calls.iter().enumerate() {
            senders.extend((0..call.webhooks.len()).map(|webhook| spawn_local(self.clone().deliver(index, webhook))));
        }
        senders.extend((0..self.plan.call_requests.len()).map(|index| spawn_local(self.clone().request_call(index))));

        let is_broken = || self.state().result.violation.is_some();
        let faults_end = self.began + Duration::from_secs(FAULTS_END);
        while !is_broken() && (Instant::now() < faults_end || !senders.iter().all(JoinHandle::is_finished)) {
            sleep(MINUTE).await;
        }
        if !is_broken() && self.state().result.injected.contains_key(&FaultKind::RelayDown) {
            self.republish_all().await;
        }
        while !is_broken() && self.began.elapsed() < SETTLED_WITHIN && !self.is_over().await {
            sleep(5 * MINUTE).await;
        }
        // Time in which the reconciler finishes the adoption of orphaned events.
        sleep(5 * MINUTE).await;
        // The last run of the schedules may have begun new work, such as the repair of a drift. The final state is judged when all of
        // it is done. If it takes long, as a new attempt does, the schedules go on meanwhile.
        while !is_broken() {
            // While this lock is held, no run of the schedules is under way, and none begins.
            let paused = self.schedules.lock().await;
            if self.comes_to_rest().await || self.began.elapsed() >= SETTLED_WITHIN {
                self.check_final_state().await;
                break;
            }
            drop(paused);
            sleep(5 * MINUTE).await;
        }
        for task in background_tasks.into_iter().chain(senders) {
            task.abort();
            // A panic in a task of the simulator must fail the test.
            assert!(!task.await.is_err_and(|error| error.is_panic()), "a task of the simulator panicked, see above");
        }
        std::mem::take(&mut self.state().result)
    }

    /// Waits until the queued work is done. Returns false if that takes too long.
    async fn comes_to_rest(&self) -> bool {
        let since = Instant::now();
        loop {
            self.check_changes().await;
            if self.is_over().await {
                return true;
            }
            if since.elapsed() >= AT_REST_WITHIN {
                return false;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}
