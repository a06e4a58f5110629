//! Checks of the laws that hold after every step of a run. They are made while the run goes on.

use std::rc::Rc;
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::Value;
use switchhook_aws::calls::Found;
use switchhook_aws::inbox::AttentionKind;
use switchhook_domain::{AttemptState, Call, CallId, EventId};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, DUE_QUEUE, EVENTS_QUEUE, REPAIR_QUEUE};
use switchhook_tests::{contract, text};
use tokio::time::{Instant, sleep};

use crate::law::Law;
use crate::mutation::Mutation;
use crate::plan::FaultKind;
use crate::sim::{Acknowledged, Sim};

/// Time from the receipt of a webhook until the sweep has queued it again, if it is missing. The sweep waits for two minutes and the rest of
/// a minute. Two of its runs may fail.
const SWEPT_WITHIN: Duration = Duration::from_secs(5 * 60);

impl Sim {
    /// Checks the laws on all changes every second.
    pub(crate) async fn watch(self: Rc<Self>) {
        loop {
            self.check_changes().await;
            self.check_doubts();
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Checks the calls that were written, and the domain events that were published, since the last check.
    pub(crate) async fn check_changes(&self) {
        let written = std::mem::take(&mut self.state().written);
        // A write that was requested before the last check may have taken effect after it.
        let before = std::mem::replace(&mut self.observed.borrow_mut().written_before, written.clone());
        for id in written.union(&before) {
            let call_id = CallId::new(id.as_str());
            let call = match self.without_faults(self.world.calls.get_eventual(&call_id)).await.unwrap() {
                Found::Call(call) => *call,
                Found::Alias(alias) => {
                    self.observed.borrow_mut().merge(&call_id, alias);
                    continue;
                }
                // The write was refused.
                Found::Nothing => continue,
            };
            if self.observed.borrow().calls.get(&call_id) == Some(&call) {
                continue;
            }
            if self.has_mutation(Mutation::OlderRowWritten) {
                self.without_faults(self.write_older_row(&call)).await;
            }
            let attempts = call.attempts();
            let shown: Vec<_> = attempts.iter().map(|it| (it.lifecycle_label(), it.outcome_label())).collect();
            self.state().trace(&format!("{id} version {}: {} {shown:?}", call.version, call.job.as_str()));
            if let Some((law, what)) = self.observed.borrow_mut().check_call(call) {
                self.state().report_violation(law, format!("{id}: {what}"));
            }
        }
        self.check_dials();
        let observed = &mut *self.observed.borrow_mut();
        for event in self.world.cloud.bus().events_since(observed.bus_index) {
            observed.bus_index = event.index + 1;
            let detail: Value = serde_json::from_str(&event.detail).unwrap();
            let id = text(&detail["id"]);
            let before = observed.published.insert(id.clone(), detail.clone());
            if before.as_ref().is_some_and(|before| *before != detail) {
                self.state().report_violation(Law::OneContent, format!("{id}: {before:?}, then {detail}"));
            }
            if let Some(violation) = contract::bus_event_violation(&event) {
                self.state().report_violation(Law::OneContent, format!("{id}: {violation}"));
            }
        }
    }

    /// Once a call has ended, overwrites its row with one from before, as a writer would that keeps no order.
    async fn write_older_row(&self, call: &Call) {
        let (id, attempts) = (call.call_id.as_str(), call.attempts());
        if attempts.is_empty() || self.state().result.violation.is_some() {
            return;
        }
        if !attempts.iter().all(AttemptState::has_ended) {
            let row = self.world.item(CALLS_TABLE, id).await;
            self.observed.borrow_mut().older_rows.entry(call.call_id.clone()).or_insert(row);
            return;
        }
        let older = self.observed.borrow_mut().older_rows.remove(&call.call_id);
        if let Some(mut row) = older {
            row.insert("version".to_owned(), AttributeValue::N((call.version + 1).to_string()));
            self.world.put_item(CALLS_TABLE, row).await;
            self.state().written.insert(id.to_owned());
        }
    }

    /// Records that a webhook was answered with a success, and checks the laws about that.
    pub(crate) async fn acknowledge(&self, webhook: Option<(usize, usize)>, event_id: String, status: &str) {
        if self.without_faults(self.world.inbox.get(&EventId::new(event_id.as_str()))).await.unwrap().is_none() {
            self.state().report_violation(
                Law::Stored,
                format!("{event_id} was answered `{status}`, but it is not in the inbox"),
            );
        }
        let mut all = self.acknowledged.borrow_mut();
        // Two deliveries may come at the same time. The one that finds the event stored may then be answered first.
        let is_accepted = status == "accepted";
        if is_accepted && all.iter().any(|known| known.is_accepted && known.event_id == event_id) {
            self.state().report_violation(Law::AcceptedOnce, event_id.clone());
        }
        all.push(Acknowledged { webhook, event_id, is_accepted, at: Instant::now() });
    }

    /// Returns true if every queue is empty, no event waits for its next try, and every call is found and settled. The sweep must have
    /// looked for each acknowledged webhook too.
    pub(crate) async fn is_over(&self) -> bool {
        if self.acknowledged.borrow().iter().any(|webhook| webhook.at.elapsed() < SWEPT_WITHIN) {
            return false;
        }
        let cloud = &self.world.cloud;
        let empty = |queue| cloud.services().sqs().depth(queue).unwrap().total() == 0;
        let retried = self.without_faults(self.world.attention(AttentionKind::Retrying)).await;
        let settled = self.observed.borrow().calls.values().all(|call| call.settled_at.is_some());
        empty(EVENTS_QUEUE)
            && empty(DIAL_QUEUE)
            && empty(DUE_QUEUE)
            && empty(REPAIR_QUEUE)
            && cloud.services().dynamodb().stream().is_empty()
            && settled
            && retried.is_empty()
            && self.is_discovery_over()
            && !(self.plan.has_fault(FaultKind::DeadLetters) && self.has_dead_letters().await)
    }
}
