//! The playground of `switchhook dev`: what the forms of the page Try do to the local stack.
//!
//! **Everything goes the way that it goes in production**: webhooks are signed and posted, calls are created by the API, and the
//! schedules run. The playground only decides when.

mod calls;
mod orders;
mod story;
#[cfg(test)]
mod tests;
mod webhooks;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use switchhook_aws::calls::WakeQueue;
use switchhook_console::{
    Choice, HeldEvent, LogLine, Playground, PlaygroundAction, PlaygroundView, Release, Sending, Skip,
};
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::Cloud;
use switchhook_local::fake::{Behaviour, CrashPoint, DeliveryFaults, Mode};
use switchhook_operate::Stack;

use crate::data_dir::DataDir;
use crate::words::counted;

/// Lines that the log keeps.
const LOG_MAX: usize = 8;
/// Time that messages in the queues get after the clock has moved.
const PUMP: Duration = Duration::from_millis(150);
const NO_CRASH: &str = "never";
const FAULT_LEVELS: [(&str, DeliveryFaults); 3] =
    [("none", DeliveryFaults::NONE), ("usual", DeliveryFaults::USUAL), ("all_lost", DeliveryFaults::ALL_LOST)];

/// Reason why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaygroundError {
    #[error("the stack has no keys that sign for {0}: start `switchhook dev` without --providers")]
    NoKey(Provider),
    #[error("there is no sample {0}")]
    NoSample(String),
    #[error("{0} is not one of the choices")]
    NoChoice(String),
    #[error("the stack answered {status}: {body}")]
    Refused { status: u16, body: String },
    #[error("{0} did not come to its end in time: look at it, and run the reconciler")]
    TooSlow(String),
    #[error("a request could not be built")]
    Request(#[from] http::Error),
    #[error(transparent)]
    Aws(#[from] switchhook_aws::Error),
    #[error("a function stopped")]
    Stopped(#[from] tokio::task::JoinError),
    #[error("the time could not be kept in --data")]
    Keep(#[from] std::io::Error),
}

/// Result of an action, and the calls and events that it concerns.
struct Done {
    text: String,
    calls: Vec<String>,
    events: Vec<String>,
}

impl Done {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new(), events: Vec::new() }
    }

    fn call(self, call: &str) -> Self {
        Self { calls: vec![call.to_owned()], ..self }
    }
}

/// The playground of one local stack. Clones share it.
#[derive(Clone)]
pub(super) struct LocalPlayground {
    cloud: Cloud,
    stack: Stack,
    /// `None` if the data is in memory.
    data: Option<DataDir>,
    log: Arc<Mutex<VecDeque<LogLine>>>,
    /// Actions run one after another: each moves the one clock.
    acting: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for LocalPlayground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalPlayground").finish_non_exhaustive()
    }
}

impl Playground for LocalPlayground {
    fn view(&self) -> BoxFuture<'_, PlaygroundView> {
        Box::pin(self.read())
    }

    fn act(&self, action: PlaygroundAction) -> BoxFuture<'_, ()> {
        let playground = self.clone();
        // A page that is closed takes the request with it. Its action goes on, because half of one would leave the fake provider set
        // as a story needs it.
        let acting = tokio::spawn(async move { playground.act_in_turn(action).await });
        Box::pin(async move {
            if let Err(error) = acting.await {
                self.note(Err(error.into()));
            }
        })
    }
}

impl LocalPlayground {
    pub(super) fn new(cloud: Cloud, stack: Stack, data: Option<DataDir>) -> Self {
        Self { cloud, stack, data, log: Arc::default(), acting: Arc::default() }
    }

    async fn act_in_turn(&self, action: PlaygroundAction) {
        let _acting = self.acting.lock().await;
        self.note(self.carry_out(action).await);
    }

    fn note(&self, result: Result<Done, PlaygroundError>) {
        let (Done { text, calls, events }, failed) = match result {
            Ok(done) => (done, false),
            Err(error) => (Done::new(error.to_string()), true),
        };
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push_front(LogLine { at: self.now(), text, failed, calls, events });
        log.truncate(LOG_MAX);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.cloud.clock().now_ms()).unwrap_or(i64::MAX))
    }

    async fn carry_out(&self, action: PlaygroundAction) -> Result<Done, PlaygroundError> {
        match action {
            PlaygroundAction::Play(story) => self.play(story).await,
            PlaygroundAction::Place { behaviours, office_hours } => self.place(&behaviours, office_hours).await,
            PlaygroundAction::Send { sample, appointment, sending } => {
                self.send_sample(&sample, appointment.as_deref(), sending).await
            }
            PlaygroundAction::Set { faults, mode, crash } => self.set(&faults, &mode, &crash),
            PlaygroundAction::Hold(hold) => {
                let fake = self.cloud.fake();
                fake.hold(hold);
                if hold {
                    return Ok(Done::new("Webhooks of the fake provider are held from now on."));
                }
                self.release(fake.held().iter().map(|held| held.number).collect(), Release::Once).await
            }
            PlaygroundAction::Release { numbers, how } => self.release(numbers, how).await,
            PlaygroundAction::RunScheduler => {
                let report = self.cloud.schedule().await??;
                Ok(Done::new(format!("The scheduler ran and claimed {}.", counted(report.claimed, "call"))))
            }
            PlaygroundAction::RunReconciler => {
                self.cloud.reconcile().await??;
                Ok(Done::new("The reconciler ran."))
            }
            PlaygroundAction::Skip(Skip::By(time)) => {
                self.skip(time).await?;
                Ok(Done::new("Time was skipped, and the scheduler and the reconciler ran."))
            }
            PlaygroundAction::Skip(Skip::ToNextWakeUp) => match self.next_wake_up().await? {
                Some(at) => {
                    self.skip_to(at).await?;
                    Ok(Done::new("Time was skipped to the next wake-up, and the scheduler and the reconciler ran."))
                }
                None => Ok(Done::new("Nothing waits, so no time was skipped.")),
            },
        }
    }

    fn set(&self, faults: &str, mode: &str, crash: &str) -> Result<Done, PlaygroundError> {
        let wrong = |name: &str| PlaygroundError::NoChoice(name.to_owned());
        let level = FAULT_LEVELS.into_iter().find(|(name, _)| *name == faults).ok_or_else(|| wrong(faults))?;
        let mode = Mode::ALL.into_iter().find(|known| known.as_str() == mode).ok_or_else(|| wrong(mode))?;
        let point = CrashPoint::ALL.into_iter().find(|known| known.as_str() == crash);
        if point.is_none() && crash != NO_CRASH {
            return Err(wrong(crash));
        }
        let fake = self.cloud.fake();
        fake.set_delivery_faults(level.1);
        fake.set_mode(mode);
        fake.set_crash(point);
        Ok(Done::new("The fake provider is set."))
    }

    async fn release(&self, mut numbers: Vec<u64>, how: Release) -> Result<Done, PlaygroundError> {
        let fake = self.cloud.fake();
        let mut calls: Vec<String> = Vec::new();
        let held = fake.held();
        // Another tab may have let them go.
        numbers.retain(|number| held.iter().any(|held| held.number == *number));
        for held in held.into_iter().filter(|held| numbers.contains(&held.number)) {
            if !calls.contains(&held.call_id) {
                calls.push(held.call_id);
            }
        }
        match how {
            Release::Once => fake.release(&numbers),
            Release::Twice => fake.release(&numbers.iter().flat_map(|number| [*number; 2]).collect::<Vec<_>>()),
            Release::Drop => fake.drop_held(&numbers),
            Release::Shuffled => {
                fastrand::shuffle(&mut numbers);
                fake.release(&numbers);
            }
        }
        tokio::time::sleep(PUMP).await;
        let webhooks = counted(numbers.len(), "webhook");
        let text = match how {
            Release::Once => format!("{webhooks} arrived."),
            Release::Twice => format!("{webhooks} arrived twice."),
            Release::Drop => format!("{webhooks} will never arrive."),
            Release::Shuffled => format!("{webhooks} arrived in random order."),
        };
        Ok(Done { calls, ..Done::new(text) })
    }

    /// Moves the clock, and runs what its schedules would have run.
    async fn skip(&self, time: Duration) -> Result<(), PlaygroundError> {
        let clock = self.cloud.clock();
        // The file comes first: a clock that went back after a restart would have rows in its future.
        if let Some(data) = &self.data {
            let skipped_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let ahead_ms = Some(clock.offset_ms().saturating_add(skipped_ms));
            data.write_clock(crate::data_dir::ClockFile { ahead_ms, ..data.clock()? })?;
        }
        clock.skip(time);
        tokio::time::sleep(PUMP).await;
        self.cloud.schedule().await??;
        self.cloud.reconcile().await??;
        tokio::time::sleep(PUMP).await;
        Ok(())
    }

    /// Moves the clock to this time, unless it is past.
    async fn skip_to(&self, at: Timestamp) -> Result<(), PlaygroundError> {
        let ms = u64::try_from(at.millis_since(self.now())).unwrap_or_default();
        self.skip(Duration::from_millis(ms)).await
    }

    /// Returns the next time at which a webhook is due or a call wakes up. Calls that are due already do not count.
    async fn next_wake_up(&self) -> Result<Option<Timestamp>, PlaygroundError> {
        let fake = self.cloud.fake();
        let webhook = fake.next_webhook_at().map(Timestamp::from_millis);
        let mut next = webhook.map(|at| at.max(self.now()));
        let pending = self.stack.calls.pending_queues().await?;
        for queue in [pending.as_slice(), &WakeQueue::OPEN].concat() {
            for shard in self.stack.calls.wake_shards() {
                let later = self.now().plus(Duration::from_millis(1))..=Timestamp::MAX;
                let (entries, _) = self.stack.calls.wake_entries(queue, shard, later, false, 1, None).await?;
                next = entries.iter().map(|entry| entry.wake_at).chain(next).min();
            }
        }
        Ok(next)
    }

    async fn read(&self) -> PlaygroundView {
        let fake = self.cloud.fake();
        let (faults, mode) = (fake.delivery_faults(), fake.mode());
        let level = FAULT_LEVELS.into_iter().find(|(_, level)| *level == faults).map_or("usual", |(name, _)| name);
        let crash = fake.next_crash().map_or(NO_CRASH, CrashPoint::as_str);
        let held = fake.held();
        let choice = |names: &mut dyn Iterator<Item = &'static str>, chosen: &str| Choice {
            names: names.map(str::to_owned).collect(),
            chosen: chosen.to_owned(),
        };
        PlaygroundView {
            behaviours: Behaviour::ALL.iter().map(|behaviour| behaviour.as_str().to_owned()).collect(),
            samples: self.samples().await,
            faults: choice(&mut FAULT_LEVELS.into_iter().map(|(name, _)| name), level),
            mode: choice(&mut Mode::ALL.into_iter().map(Mode::as_str), mode.as_str()),
            crash: choice(&mut [NO_CRASH].into_iter().chain(CrashPoint::ALL.map(CrashPoint::as_str)), crash),
            holds: fake.is_holding(),
            orders: self.all_orders(&held).await,
            held: held
                .into_iter()
                .map(|held| HeldEvent { number: held.number, call_id: held.call_id, event: held.event.to_owned() })
                .collect(),
            now: self.now(),
            ahead_ms: self.cloud.clock().offset_ms(),
            next_wake_up: self.next_wake_up().await.unwrap_or_default(),
            log: self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect(),
        }
    }
}
