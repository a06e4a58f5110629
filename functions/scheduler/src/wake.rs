//! Calls that are due at once, or within a minute.
//!
//! **The schedule alone would find every call; this makes it sooner.** A write that leaves a call pending and due within a
//! minute reaches the scheduler through the stream of the calls table. If the call is due, it is claimed. If not, a message
//! of the queue of due calls waits until then. Both only name calls: the claim decides.
//!
//! Another message of that queue names a provider that had as many calls as it may have, that was paused, or that got a probe. Then the
//! calls that wait for it are claimed, as far as there are places.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lambda_events::event::dynamodb::{Event as StreamEvent, EventRecord};
use aws_lambda_events::event::sqs::SqsEvent;
use switchhook_aws::Error;
use switchhook_aws::calls::decode_in_flight;
use switchhook_aws::error::both;
use switchhook_aws::queue::{self, DueMessage, DueWork};
use switchhook_domain::{CallId, InFlight, Provider, Timestamp};

use crate::flow::{Flow, Turn};
use crate::{Report, Scheduler};

/// Longest delay of a message. A call that is due later is left to the schedule, which looks as far ahead.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(90);

impl Scheduler {
    /// Claims the calls of a batch of stream records that are due, and has the others delivered when they are.
    pub async fn claim_written(&self, batch: StreamEvent, trace_id: &str) -> Report {
        let started = self.clock.now();
        let (mut due, mut later) = (BTreeSet::new(), Vec::new());
        let left = batch.records.iter().filter_map(left_provider).collect();
        for (call_id, due_at) in batch.records.iter().filter_map(due_call) {
            if due_at <= started {
                due.insert(call_id);
            } else {
                later.push((call_id, due_at));
            }
        }
        self.claim_woken(due, later, left, &BTreeSet::new(), "written calls claimed", trace_id).await
    }

    /// Claims the calls of a batch of messages whose delay is over.
    pub async fn claim_delayed(&self, batch: SqsEvent, trace_id: &str) -> Report {
        let bodies = batch.records.iter().filter_map(|message| message.body.as_deref());
        let (mut due, mut providers) = (BTreeSet::new(), BTreeSet::new());
        for message in bodies.filter_map(|body| queue::decode::<DueMessage>(body).ok()) {
            match message.work {
                DueWork::Call(call_id) => drop(due.insert(call_id)),
                DueWork::Provider(provider) => drop(providers.insert(provider)),
            }
        }
        self.claim_woken(due, Vec::new(), BTreeSet::new(), &providers, "delayed calls claimed", trace_id).await
    }

    async fn claim_woken(
        &self,
        due: BTreeSet<CallId>,
        later: Vec<(CallId, Timestamp)>,
        left: BTreeSet<Provider>,
        providers: &BTreeSet<Provider>,
        message: &'static str,
        trace_id: &str,
    ) -> Report {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut flow = self.flow();
        let mut result = self.delay(later, &mut report).await;
        // A call that left its provider may have been refused, because the provider has too many. Then those that it has are counted, before
        // they end.
        for provider in left {
            result = both(result, flow.health(provider).await.map(drop));
        }
        // Calls that wait have waited longer than those that are due now.
        result =
            both(result, self.claim_for(providers, Duration::ZERO, &mut flow, &mut report, started, trace_id).await);
        if !due.is_empty() {
            let due = due.into_iter().collect();
            result = both(result, self.claim_all(&mut flow, due, Turn::Woken, &mut report, trace_id).await);
            result = both(result, self.claim_waiting(&mut flow, &mut report, started, trace_id).await);
        }
        result = both(result, self.look_again(flow.newly_full(), &flow).await);
        // An alarm counts the failed runs of the schedule, so a batch has an action of its own.
        self.log((message, "batch_failed"), &report, &flow, result.as_ref().err(), started, trace_id);
        report
    }

    /// Claims the calls that have waited longest for the providers of the woken calls that got no place, as far as there are places. If all
    /// that waited got one, it claims the woken calls too: the index may not show them yet.
    async fn claim_waiting(
        &self,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        for (provider, calls) in flow.take_behind() {
            let now = self.clock.now();
            if !flow.calls_wait(provider, now).await? || flow.free_places(provider, Turn::OldestFirst, now).await? == 0
            {
                continue;
            }
            let provider_alone = BTreeSet::from([provider]);
            self.claim_for(&provider_alone, Duration::ZERO, flow, report, started, trace_id).await?;
            if !flow.calls_wait(provider, self.clock.now()).await? {
                // They were counted before.
                report.waiting -= calls.len() as u64;
                report.due -= calls.len() as u64;
                self.claim_all(flow, calls, Turn::Woken, report, trace_id).await?;
            }
        }
        Ok(())
    }

    /// Has calls delivered to the scheduler when they are due.
    pub(crate) async fn delay(&self, calls: Vec<(CallId, Timestamp)>, report: &mut Report) -> Result<(), Error> {
        let now = self.clock.now();
        let delayed = calls.into_iter().map(|(call_id, due_at)| {
            let delay = u64::try_from(due_at.millis_since(now)).unwrap_or_default();
            (DueWork::Call(call_id), Duration::from_millis(delay))
        });
        let delayed: Vec<(DueWork, Duration)> = delayed.filter(|(_, delay)| *delay <= DELAY_MAX).collect();
        report.delayed += delayed.len() as u64;
        self.due_queue.send_due(&delayed).await
    }
}

/// Provider with which the call of a record was in flight before. `None` if it was with none.
fn left_provider(record: &EventRecord) -> Option<Provider> {
    let serde_dynamo::AttributeValue::S(in_flight) = record.change.old_image.get("in_flight")? else { return None };
    decode_in_flight(in_flight).map(InFlight::provider)
}

/// Id and due time of the pending call that a record shows. `None` if the record shows none.
fn due_call(record: &EventRecord) -> Option<(CallId, Timestamp)> {
    let (key, due_at) = (record.change.keys.get("call_id")?, record.change.new_image.get("due_at")?);
    match (key, due_at) {
        (serde_dynamo::AttributeValue::S(call_id), serde_dynamo::AttributeValue::N(due_at)) => {
            Some((CallId::new(call_id), Timestamp::from_millis(due_at.parse().ok()?)))
        }
        (_, _) => None,
    }
}
