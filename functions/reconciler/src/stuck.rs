//! Stuck calls: counts the calls that have been dialling for too long.
//!
//! Most providers report within seconds that it rings, and within a minute or two whether somebody answered. A longer silence is worth
//! an alarm long before the inactivity timeout ends the attempt.

use std::collections::VecDeque;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::{TimeRange, WakeQueue};
use switchhook_aws::dynamodb::Pages;
use switchhook_aws::inbox::minute_of;
use switchhook_domain::{AppointmentStatus, Call, CallId, Job, STUCK_AFTER, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Minutes between two counts. AWS starts a run up to a minute late, so the minute of a count may have no run. Then the count is skipped.
const EVERY_MINUTES: i64 = 10;
/// Calls that one count reads of a shard before it reads the next shard, those with the earliest wake-up time first.
const CALLS_PER_PAGE: i32 = 100;
/// Wake queues that may hold such calls.
const QUEUES: [WakeQueue; 2] = [WakeQueue::Claims, WakeQueue::Endings];
/// Time limit of a count. It comes before the calls that are due, so that a run with more of them than it has time for counts too.
const COUNT_MAX: Duration = Duration::from_secs(5);

impl Reconciler {
    /// Counts the stuck calls, about every ten minutes, in a run that started at `started`. It reads a page of each shard in turn until all are read
    /// or its time is up. Most of the calls that it reads are long conversations, which wake up before a call that is stuck.
    pub(crate) async fn count_stuck(&self, report: &mut Report, started: Timestamp) -> Result<(), Error> {
        if minute_of(started) % EVERY_MINUTES != 0 {
            return Ok(());
        }
        let now = self.clock.now();
        // An attempt without a report since then wakes its call before this time.
        let silent_since = now.minus(STUCK_AFTER);
        let range = TimeRange::UpTo(silent_since.plus(self.policy.inactivity_timeout));
        let stop_at = now.plus(COUNT_MAX);
        let mut stuck = 0;
        let pages_of = |queue| {
            let pages = move |shard| self.calls.wake_queue_pages(queue, shard, range, Some(CALLS_PER_PAGE));
            self.calls.wake_shards_from(0).map(pages)
        };
        let mut shards: VecDeque<Pages<CallId>> = QUEUES.into_iter().flat_map(pages_of).collect();
        while !self.is_time_up(stop_at)
            && let Some(mut pages) = shards.pop_front()
        {
            let Some(page) = pages.next().await? else { continue };
            for call in self.calls.get_calls(page.items).await {
                match call {
                    Ok(call) => stuck += u64::from(call.is_some_and(|call| is_stuck_dialing(&call, silent_since))),
                    // The row of a later version, for example, must not hide the others. It is logged when its call is due.
                    Err(error) if error.is_unreadable() => {}
                    Err(error) => return Err(error),
                }
            }
            shards.push_back(pages);
        }
        let is_complete = shards.is_empty();
        // A count that found nothing in time would say that nothing is stuck.
        report.stuck_dialing = Some(stuck).filter(|stuck| is_complete || *stuck > 0);
        Ok(())
    }
}

/// True if the call is dialling, and nothing was reported about it since this time.
fn is_stuck_dialing(call: &Call, silent_since: Timestamp) -> bool {
    let attempts = call.attempts();
    let is_silent = attempts.last().is_some_and(|attempt| attempt.last_event_at <= silent_since);
    is_silent && call.job == Job::InProgress && call.appointment_status() == AppointmentStatus::Dialing
}
