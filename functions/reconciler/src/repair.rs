//! Workers: invocations by the repair queue, which handle the due calls that a scheduled run leaves over.
//!
//! **A scheduled run handles one page of each shard, and hands the rest of a shard to a worker.** A shard with less due costs no message.
//! A worker handles page after page until its time is up, and then hands the rest to the next worker.
//!
//! **Nothing depends on a message.** The wake queue holds all due calls, and the next scheduled run reads it from the start. So a worker
//! that dies loses nothing. The workers of a minute stop before the next scheduled run, so that no call is handled twice at the same
//! time, and an old message does nothing.

use aws_lambda_events::event::sqs::SqsEvent;
use switchhook_aws::Error;
use switchhook_aws::queue::RepairWork;

use crate::reconciler::{RUN_MAX, Reconciler, Report};
use crate::wake::PageResult;

impl Reconciler {
    /// Handles the due calls of the shards that these messages name. An error is logged and counted. The message is not delivered
    /// again, because the next scheduled run finds the calls that are left.
    pub async fn work(&self, batch: SqsEvent, trace_id: &str) -> Report {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut first_error = None;
        for message in batch.records.iter().filter_map(|message| message.body.as_deref()) {
            let result = match RepairWork::decode(message) {
                Ok(Some(work)) => self.work_on_shard(work, &mut report, trace_id).await,
                Ok(None) => Ok(()),
                Err(error) => {
                    report.failed += 1;
                    Err(error)
                }
            };
            first_error = first_error.or(result.err());
        }
        let action = if first_error.is_some() { "shard_failed" } else { "shard_worked" };
        self.log_run(("worked on a shard", action), &report, first_error.as_ref(), started, trace_id);
        report
    }

    /// Handles the due calls of one shard, page by page. Returns the first error, after it has tried every call.
    async fn work_on_shard(&self, work: RepairWork, report: &mut Report, trace_id: &str) -> Result<(), Error> {
        let started = self.clock.now();
        let stop_at = started.plus(RUN_MAX).min(work.stop_at);
        let accounts = self.dial_accounts.current(started).await;
        let lookups = &self.lookups(&accounts, stop_at);
        let mut first_error = None;
        let mut after = work.after.clone();
        let mut is_left = true;
        while is_left && !self.is_time_up(stop_at) {
            let page = match self.due_page((work.queue, work.shard), work.due_until, after.as_ref()).await {
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
        if is_left && self.is_time_up(work.stop_at) {
            report.budget_used_up = 1;
        } else if is_left {
            let next = RepairWork { after, workers_before: work.workers_before + 1, ..work };
            first_error = first_error.or(self.hand_on(&[next], report).await.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Hands shards to workers.
    pub(crate) async fn hand_on(&self, works: &[RepairWork], report: &mut Report) -> Result<(), Error> {
        match self.repair_queue.send_repairs(works).await {
            Ok(()) => {
                report.handed_on += works.len() as u64;
                Ok(())
            }
            Err(error) => {
                report.failed += 1;
                Err(error)
            }
        }
    }
}
