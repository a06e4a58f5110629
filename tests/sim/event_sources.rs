//! Event sources and schedules that invoke the handlers, as AWS runs them. The faults of the plan disturb them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, Call, Provider, StopReason};
use switchhook_local::fake::{Behaviour, CrashPoint, RequestResult};
use switchhook_local::queue::{NewMessage, ReceivedMessage};
use switchhook_local::sqs::to_event_record;
use switchhook_local::stream::StreamRecord;
use switchhook_local::{
    DIAL_QUEUE, DUE_BATCH, DUE_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, REPAIR_BATCH, REPAIR_QUEUE,
};
use switchhook_tests::MINUTE;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::mutation::Mutation;
use crate::plan::FaultKind;
use crate::run::TICK;
use crate::sim::{Sim, policy};

/// Timeouts of the functions in seconds, as in `template.yaml`.
const CONSUMER_TIMEOUT: u64 = 10;
const DIALER_TIMEOUT: u64 = 30;
const SCHEDULER_TIMEOUT: u64 = 50;
const RECONCILER_TIMEOUT: u64 = 50;
const RELAY_TIMEOUT: u64 = 30;

impl Sim {
    /// Polls the events queue and invokes a consumer.
    pub(crate) async fn poll_events_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        loop {
            let visible_again_ms = if self.hit(FaultKind::VisibilityOverlap) { 300 } else { 60_000 };
            let received = sqs.long_poll(EVENTS_QUEUE, 10, Some(visible_again_ms), 20_000).await.unwrap();
            if received.is_empty() {
                continue;
            }
            let (consumer, batch) = (self.world.consumer.clone(), batch_of(EVENTS_QUEUE, &received));
            let Some(response) = self.invoke(CONSUMER_TIMEOUT, async move { consumer.handle(batch).await }).await
            else {
                continue;
            };
            let failed: BTreeSet<String> =
                response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
            let mut groups = BTreeSet::new();
            let mut is_done = |one: &ReceivedMessage| {
                let mut is_tail = || !groups.insert(one.message.group.clone());
                !failed.contains(&one.message.id()) || self.has_mutation(Mutation::TailNotFailed) && is_tail()
            };
            let done: Vec<&ReceivedMessage> = received.iter().filter(|one| is_done(one)).collect();
            if self.has_mutation(Mutation::DeadLetteredAtOnce) {
                for one in received.iter().filter(|one| failed.contains(&one.message.id())) {
                    let (body, id) = (one.message.body.clone(), Some(one.message.id()));
                    let message = NewMessage { body, group: id.clone(), deduplication_id: id, ..NewMessage::default() };
                    sqs.send(EVENTS_DEAD_LETTER_QUEUE, message).unwrap();
                    drop(sqs.delete(EVENTS_QUEUE, &one.receipt_handle));
                }
            }
            if self.hit(FaultKind::NotDeleted) {
                continue;
            }
            for done in done {
                // If the receipt handle has expired meanwhile, the queue delivers the message again.
                drop(sqs.delete(EVENTS_QUEUE, &done.receipt_handle));
            }
        }
    }

    /// Polls the dial queue and invokes a dialer.
    pub(crate) async fn poll_dial_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        loop {
            for one in sqs.long_poll(DIAL_QUEUE, 1, None, 20_000).await.unwrap() {
                let batch = batch_of(DIAL_QUEUE, std::slice::from_ref(&one));
                if self.hit(FaultKind::LateClaim) {
                    drop(sqs.delete(DIAL_QUEUE, &one.receipt_handle));
                    let (sim, late) = (self.clone(), Duration::from_secs(self.random(240..600)));
                    spawn_local(async move {
                        sleep(late).await;
                        sim.dial(batch).await
                    });
                    continue;
                }
                let done = if self.hit(FaultKind::DuplicateClaim) {
                    tokio::join!(self.dial(batch.clone()), self.dial(batch)).0
                } else {
                    self.dial(batch).await
                };
                if done {
                    drop(sqs.delete(DIAL_QUEUE, &one.receipt_handle));
                }
            }
        }
    }

    /// Invokes a dialer once. Returns true if its messages can be deleted.
    async fn dial(&self, batch: SqsEvent) -> bool {
        if self.hit(FaultKind::DialerCrash) {
            let crash_point =
                if self.random(0..2) == 0 { CrashPoint::BeforeRequest } else { CrashPoint::BeforeResponse };
            self.world.cloud.fake().crash_next(crash_point);
        }
        let dialer = self.world.cloud.dialer();
        let done = self.invoke(DIALER_TIMEOUT, async move { dialer.handle(batch).await }).await;
        if self.has_mutation(Mutation::LostAnswerWithdrawn) {
            self.without_faults(self.withdraw_unanswered(|_| true)).await;
        }
        if self.has_mutation(Mutation::DoubtGivenToOtherProvider) {
            let has_other = |call: &Call| call.dial_providers().len() > 1;
            self.without_faults(self.withdraw_unanswered(has_other)).await;
        }
        if self.has_mutation(Mutation::RefusalFails) {
            self.without_faults(self.fail_refused()).await;
        }
        done.is_some()
    }

    /// Polls the queue of due calls and invokes the scheduler.
    pub(crate) async fn poll_due_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        for run in 1.. {
            let received = sqs.long_poll(DUE_QUEUE, DUE_BATCH, Some(60_000), 20_000).await.unwrap();
            if received.is_empty() {
                continue;
            }
            let (scheduler, batch) = (self.world.cloud.scheduler(), batch_of(DUE_QUEUE, &received));
            let invocation = async move { scheduler.claim_delayed(batch, &format!("due-{run}")).await };
            if self.invoke(SCHEDULER_TIMEOUT, invocation).await.is_some() && !self.hit(FaultKind::NotDeleted) {
                for done in &received {
                    drop(sqs.delete(DUE_QUEUE, &done.receipt_handle));
                }
            }
        }
    }

    /// Polls the repair queue and invokes a worker of the reconciler.
    pub(crate) async fn poll_repair_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        for run in 1.. {
            for one in sqs.long_poll(REPAIR_QUEUE, REPAIR_BATCH, Some(60_000), 20_000).await.unwrap() {
                let reconciler = self.world.cloud.reconciler();
                let batch = batch_of(REPAIR_QUEUE, std::slice::from_ref(&one));
                let invocation = async move { reconciler.work(batch, &format!("repair-{run}")).await };
                if self.invoke(RECONCILER_TIMEOUT, invocation).await.is_some() && !self.hit(FaultKind::NotDeleted) {
                    drop(sqs.delete(REPAIR_QUEUE, &one.receipt_handle));
                }
            }
        }
    }

    /// Invokes the scheduler with the stream records of calls that are due soon. A record that fails is not tried
    /// again.
    pub(crate) async fn poll_due_records(self: Rc<Self>) {
        let stream = self.world.cloud.services().dynamodb().stream();
        for run in 1.. {
            let mut watch = stream.watch();
            let batch = stream.take_due(DUE_BATCH);
            if batch.is_empty() {
                watch.changed().await;
                continue;
            }
            let records: Vec<Value> = batch.iter().map(StreamRecord::to_event_record).collect();
            let event: StreamEvent = serde_json::from_value(json!({"Records": records})).unwrap();
            let scheduler = self.world.cloud.scheduler();
            let invocation = async move { scheduler.claim_written(event, &format!("stream-{run}")).await };
            self.invoke(SCHEDULER_TIMEOUT, invocation).await;
        }
    }

    /// Fails the calls whose dial the provider refused because of the account, as a wrong dialer would.
    async fn fail_refused(&self) {
        let records = self.world.cloud.fake().api_records().into_iter();
        for record in records.filter(|record| record.result == RequestResult::Refused) {
            let (call, now) = (self.world.call(&record.call_id).await, self.world.now());
            let Some(claimed) = call.claim("wrong", Provider::Retell, Duration::from_secs(60), true, &policy(), now)
            else {
                continue;
            };
            let reason = StopReason::RejectedByProvider;
            if let Some(mut failed) = claimed.call.give_up("wrong", reason, &policy(), now) {
                failed.call.version = call.version + 1;
                drop(self.world.calls.store(&failed).await);
                // The dialer waits for its lane before this write, so the watch would not look at the row again.
                self.state().written.insert(call.call_id.to_string());
            }
        }
    }

    /// Withdraws the attempts of such calls whose dial got no answer, as a wrong dialer would.
    async fn withdraw_unanswered(&self, is_meant: impl Fn(&Call) -> bool) {
        let dials = self.world.cloud.fake().dials().into_iter();
        for dial in dials.filter(|dial| dial.behaviour == Behaviour::ResponseLost) {
            let (call, now) = (self.world.call(&dial.call_id).await, self.world.now());
            let until = now.plus(Duration::from_secs(30));
            let attempt = AttemptKey::new(dial.attempt);
            if !is_meant(&call) {
                continue;
            }
            let Some(record) = call.dial_record(&attempt) else { continue };
            if let Some(transition) = call.withdraw(&record.dial_key, until, &policy(), now) {
                drop(self.world.inbox.delete_dial(&call.call_id, &record).await);
                drop(self.world.calls.store(&transition).await);
            }
        }
    }

    /// Polls the stream of the calls table and invokes the relay.
    pub(crate) async fn poll_stream(self: Rc<Self>) {
        let stream = self.world.cloud.services().dynamodb().stream();
        let mut pause = Duration::from_millis(500);
        loop {
            if self.hit(FaultKind::RelayDown) {
                sleep(Duration::from_secs(30)).await;
                stream.next_batch(usize::MAX).last().inspect(|last| stream.trim(last.sequence()).unwrap());
                continue;
            }
            let mut watch = stream.watch();
            let batch = stream.next_batch(100);
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
                watch.changed().await;
                continue;
            };
            let records: Vec<Value> = batch.iter().map(|record| record.to_event_record()).collect();
            let event: StreamEvent = serde_json::from_value(json!({"Records": records})).unwrap();
            let relay = self.world.relay.clone();
            let failed_at = match self.invoke(RELAY_TIMEOUT, async move { relay.handle(event).await }).await {
                Some(response) => {
                    response.batch_item_failures.iter().filter_map(|f| f.item_identifier.as_ref()?.parse().ok()).min()
                }
                None => Some(first.sequence()),
            };
            let failed_at = failed_at.filter(|_| !self.has_mutation(Mutation::NoRelayRetry));
            stream.trim(failed_at.map_or(last.sequence(), |failed: u64| failed - 1)).unwrap();
            if failed_at.is_none() {
                pause = Duration::from_millis(500);
                continue;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MINUTE);
        }
    }

    /// Runs the scheduler and the reconciler at every [`TICK`], and the drift check every hour.
    pub(crate) async fn run_schedules(self: Rc<Self>) {
        let cloud = &self.world.cloud;
        for ticks in 1.. {
            sleep(TICK).await;
            let _running = self.schedules.lock().await;
            if self.hit(FaultKind::MissedSchedule) {
                continue;
            }
            if self.hit(FaultKind::DuplicateSchedule) {
                drop(tokio::join!(
                    self.on_machine(cloud.schedule()),
                    self.on_machine(cloud.schedule()),
                    self.on_machine(cloud.reconcile()),
                    self.on_machine(cloud.reconcile()),
                ));
                continue;
            }
            drop(self.on_machine(cloud.schedule()).await);
            drop(self.on_machine(cloud.reconcile()).await);
            if ticks % 30 == 0 {
                drop(self.on_machine(cloud.check_drift()).await);
            }
        }
    }
}

fn batch_of(queue: &str, received: &[ReceivedMessage]) -> SqsEvent {
    let records: Vec<Value> = received.iter().map(|one| to_event_record(queue, one)).collect();
    serde_json::from_value(json!({"Records": records})).unwrap()
}
