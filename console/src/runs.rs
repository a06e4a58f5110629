//! Runs that this console carries out.
//!
//! **A run goes on when its page is closed.** It is a task of the console. It stops at the end of a page of items if an operator
//! asks for it, or if the console closes. Its position is in the table, so any machine can resume it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchhook_operate::plan::{PlanId, Verb};
use switchhook_operate::run::{self, Run, RunId, RunOptions};
use switchhook_operate::{Error, Stack};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longest wait for runs to reach the end of their page. A run that is cut off later can be resumed too.
const STOP_WAIT: Duration = Duration::from_secs(25);
/// Longest wait for the start of a run. It reads its plan and writes two items.
const START_WAIT: Duration = Duration::from_secs(5);

/// Function that a run calls after each page of items.
type OnPage = Box<dyn FnMut(&Run) -> ControlFlow<()> + Send>;

/// Runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<HashMap<String, Task>>);

#[derive(Debug)]
struct Task {
    is_stopping: Arc<AtomicBool>,
    stage: watch::Receiver<Stage>,
    /// Reason of the start. `None` for a run that was resumed, whose reason is in the table.
    reason: Option<String>,
    work: JoinHandle<()>,
}

/// Stage of a run in this process.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Starting,
    /// It has finished at least one page.
    Working,
    /// It has ended, or stopped, perhaps with an error.
    Ended(Option<Arc<Error>>),
}

/// Operator's choices for a run.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) reason: String,
    pub(crate) rate: u32,
    pub(crate) allow_ringing: bool,
}

impl Runs {
    /// Starts the run of a plan. Returns its stage as soon as it has finished a page, or has ended, or takes long. `None` if the plan is running
    /// already, with another reason. A button that is pressed twice starts one run.
    pub(crate) async fn start(&self, stack: &Stack, plan_id: &PlanId, verb: Verb, choices: Choices) -> Option<Stage> {
        let (stack, plan_id) = (stack.clone(), plan_id.clone());
        let id = RunId::of_plan(&plan_id);
        let reason = Some(choices.reason.clone());
        let (started, is_ours) = self.spawn(&id, reason, |mut on_page| async move {
            let who = stack.caller().await?;
            let Choices { reason, rate, allow_ringing } = choices;
            let options = RunOptions { who, reason, rate, allow_ringing };
            run::start(&stack, &plan_id, verb, options, &mut *on_page).await
        });
        let stage = first_stage(started).await;
        is_ours.then_some(stage)
    }

    /// Goes on with a run.
    pub(crate) async fn resume(&self, stack: &Stack, id: &RunId) -> Stage {
        let (stack, run_id) = (stack.clone(), id.clone());
        let (resumed, _) = self.spawn(id, None, |mut on_page| async move {
            let who = stack.caller().await?;
            run::resume(&stack, &run_id, &who, &mut *on_page).await
        });
        first_stage(resumed).await
    }

    /// Asks a run to stop at the end of its page.
    pub(crate) fn stop(&self, id: &RunId) {
        if let Some(task) = self.lock().get(id.as_str()) {
            task.is_stopping.store(true, Ordering::Relaxed);
        }
    }

    /// Stops all runs, and waits until each has reached the end of its page.
    pub(crate) async fn stop_all(&self) {
        let tasks: Vec<Task> = self.lock().drain().map(|(_, task)| task).collect();
        for task in &tasks {
            task.is_stopping.store(true, Ordering::Relaxed);
        }
        let all = async {
            for task in tasks {
                // A task that panicked has stopped too.
                drop(task.work.await);
            }
        };
        drop(tokio::time::timeout(STOP_WAIT, all).await);
    }

    /// Returns the stage of a run, and whether it was asked to stop. `None` if this process does not know the run.
    pub(crate) fn stage(&self, id: &RunId) -> Option<(Stage, bool)> {
        let tasks = self.lock();
        let task = tasks.get(id.as_str())?;
        let stage = task.stage.borrow().clone();
        let stage = match stage {
            Stage::Starting | Stage::Working if task.work.is_finished() => Stage::Ended(None),
            stage @ (Stage::Starting | Stage::Working | Stage::Ended(_)) => stage,
        };
        Some((stage, task.is_stopping.load(Ordering::Relaxed)))
    }

    /// Carries out a run as a task. A run that is already a task stays one task. Returns its stage, and whether its task has this reason.
    fn spawn<W, F>(&self, id: &RunId, reason: Option<String>, work: W) -> (watch::Receiver<Stage>, bool)
    where
        W: FnOnce(OnPage) -> F,
        F: Future<Output = Result<Run, Error>> + Send + 'static,
    {
        let mut tasks = self.lock();
        tasks.retain(|_, task| !task.work.is_finished());
        if let Some(task) = tasks.get(id.as_str()) {
            return (task.stage.clone(), task.reason == reason);
        }
        let (stages, stage) = watch::channel(Stage::Starting);
        let stages = Arc::new(stages);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let on_page: OnPage = Box::new({
            let (stages, is_stopping) = (Arc::clone(&stages), Arc::clone(&is_stopping));
            move |_: &Run| {
                stages.send_replace(Stage::Working);
                if is_stopping.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        });
        let run = work(on_page);
        let work = tokio::spawn(async move {
            let result = run.await;
            stages.send_replace(Stage::Ended(result.err().map(Arc::new)));
        });
        tasks.insert(id.to_string(), Task { is_stopping, stage: stage.clone(), reason, work });
        (stage, true)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Task>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn first_stage(mut stage: watch::Receiver<Stage>) -> Stage {
    // The stage also tells if the wait or the task has ended.
    drop(tokio::time::timeout(START_WAIT, stage.wait_for(|stage| !matches!(stage, Stage::Starting))).await);
    stage.borrow().clone()
}
