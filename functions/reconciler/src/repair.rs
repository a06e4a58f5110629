//! Workers: invocations by the repair queue, which do the work that a scheduled run leaves over.
//!
//! **A scheduled run handles one page of each shard, and hands the rest of a shard to a worker.** A shard with less costs no message.
//! A worker handles page after page until its time is up, and then hands the rest to the next worker. So it is with calls that are due, and
//! with received events that are not [swept](crate::sweep). Providers' own [lists of calls](crate::discovery), and what the
//! [drift check](crate::drift) left over, are worked on by workers alone. A run sends its messages in the order of their urgency.
//!
//! **Nothing depends on a message.** The wake queue holds all due calls, and each other kind of work has a cursor that holds its progress. The
//! next scheduled run reads them. So a worker that dies loses nothing. The workers of a minute stop before the next scheduled run, so that
//! no call is handled twice at the same time, and an old message does nothing.

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use switchhook_aws::Error;
use switchhook_aws::calls::{WakeEntry, WakeQueue};
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_domain::Timestamp;

use crate::reconciler::{RUN_MAX, Reconciler, Report};
use crate::wake::PageResult;

impl Reconciler {
    /// Works on the shards that these messages name. An error is logged and counted. The next scheduled run finds the rest of the work, so
    /// a second delivery of a message is left alone: its work would count as postponed.
    pub async fn work(&self, batch: SqsEvent, trace_id: &str) -> Report {
        let started = self.clock.now();
        let mut report = Report::default();
        let (mut first_error, mut done) = (None, "shard_worked");
        let is_first = |message: &&SqsMessage| {
            message.attributes.get("ApproximateReceiveCount").is_none_or(|receives| receives == "1")
        };
        for message in batch.records.iter().filter(is_first).filter_map(|message| message.body.as_deref()) {
            let result = match RepairWork::decode(message) {
                Ok(Some(work)) => {
                    done = action_taken(&work.kind);
                    let is_alone = matches!(work.kind, RepairKind::Discovery(_) | RepairKind::Drift);
                    let result = self.work_on_shard(work, &mut report, trace_id).await;
                    report.failed_alone += u64::from(is_alone && result.is_err());
                    result
                }
                Ok(None) => Ok(()),
                Err(error) => {
                    report.failed += 1;
                    Err(error)
                }
            };
            first_error = first_error.or(result.err());
        }
        let action = if first_error.is_some() { "shard_failed" } else { done };
        self.log_run(("worked on a shard", action), &report, first_error.as_ref(), started, trace_id);
        report
    }

    /// Works on one shard until the time is up, and then hands the rest to the next worker. Returns the first error.
    async fn work_on_shard(&self, work: RepairWork, report: &mut Report, trace_id: &str) -> Result<(), Error> {
        let stop_at = self.clock.now().plus(RUN_MAX).min(work.stop_at);
        let (left, error) = match work.kind {
            RepairKind::Due { queue, ref after } => {
                self.wake_shard(queue, after.clone(), &work, report, stop_at, trace_id).await
            }
            RepairKind::Sweep => match self.sweep_shard(work.shard, report, stop_at).await {
                Ok(is_left) => (is_left.then_some(RepairKind::Sweep), None),
                Err(error) => {
                    report.failed += 1;
                    (None, Some(error))
                }
            },
            RepairKind::Retry { after } => {
                let error = self.retry_shard((work.shard, after, work.read_at), report, stop_at).await.err();
                report.failed += u64::from(error.is_some());
                (None, error)
            }
            RepairKind::Discovery(provider) => (None, self.discover(provider, report, stop_at, trace_id).await.err()),
            RepairKind::Drift => {
                let (is_left, error) = self.continue_drift_check(work.shard, report, stop_at, trace_id).await;
                (is_left.then_some(RepairKind::Drift), error)
            }
        };
        match left {
            Some(_) if self.is_time_up(work.stop_at) => report.budget_used_up = 1,
            Some(kind) => {
                let next = RepairWork { kind, workers_before: work.workers_before + 1, ..work };
                let handed_on = self.hand_on(&[next], report).await;
                return error.map_or(handed_on, Err);
            }
            None => {}
        }
        error.map_or(Ok(()), Err)
    }

    /// Handles the due calls of one shard, page by page. Returns the work that is left, and the first error.
    async fn wake_shard(
        &self,
        queue: WakeQueue,
        mut after: Option<WakeEntry>,
        work: &RepairWork,
        report: &mut Report,
        stop_at: Timestamp,
        trace_id: &str,
    ) -> (Option<RepairKind>, Option<Error>) {
        let accounts = self.dial_accounts.current(self.clock.now()).await;
        let lookups = &self.lookups(&accounts, stop_at);
        let mut first_error = None;
        let mut is_left = true;
        while is_left && !self.is_time_up(stop_at) {
            let page = match self.due_page((queue, work.shard), work.read_at, after.as_ref()).await {
                Ok(page) => self.wake_page(&page, lookups, report, trace_id).await,
                Err(error) => {
                    report.failed += 1;
                    PageResult { error: Some(error), ..PageResult::default() }
                }
            };
            first_error = first_error.or(page.error);
            after = page.last_handled.or(after);
            is_left = page.is_left;
        }
        self.add_lookups(lookups, report, trace_id).await;
        (is_left.then_some(RepairKind::Due { queue, after }), first_error)
    }

    /// Hands work to workers.
    pub(crate) async fn hand_on(&self, works: &[RepairWork], report: &mut Report) -> Result<(), Error> {
        match self.repair_queue.send_repairs(works).await {
            Ok(()) => {
                for RepairWork { kind, .. } in works {
                    match kind {
                        RepairKind::Due { .. } | RepairKind::Sweep => report.handed_on += 1,
                        RepairKind::Discovery(_) => report.lists_handed_on += 1,
                        // The drift check has a report of its own, and workers report the events that they send again.
                        RepairKind::Drift | RepairKind::Retry { .. } => {}
                    }
                }
                Ok(())
            }
            Err(error) => {
                report.failed += 1;
                Err(error)
            }
        }
    }
}

/// Returns what the log says of work that was done. Lists and the drift check are worked on every hour, however little there is to do, so no
/// metric counts this work: CloudWatch charges for each hour in which a series gets a value.
const fn action_taken(kind: &RepairKind) -> &'static str {
    match kind {
        RepairKind::Due { .. } | RepairKind::Sweep | RepairKind::Retry { .. } => "shard_worked",
        RepairKind::Discovery(_) => "list_worked",
        RepairKind::Drift => "drift_worked",
    }
}
