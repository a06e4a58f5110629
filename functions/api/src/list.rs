//! `GET /calls`: lists calls from the wake-up index, never by a scan.
//!
//! **A list has one order: open calls by `wake_at`, the earliest first, then settled calls by `settled_at`, the latest first.**
//! The index has several wake queues of several shards each, which are [merged](Merge). The index holds only keys, so
//! each row is read, and calls that do not match the filters are dropped.
//!
//! A request reads a limited number of rows. So a page may hold fewer calls than `limit`, or none, and still have a next page.

use std::collections::BTreeSet;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Merge, Order, Position, WakeQueue};
use switchhook_aws::problem::FieldError;
use switchhook_aws::query::parameters;
use switchhook_domain::{Call, CallId, Job, JobState, Timestamp, lifecycle_labels};

pub(crate) const LIMIT_DEFAULT: usize = 20;
pub(crate) const LIMIT_MAX: usize = 100;
/// Limit on the rows read for one answer: twice the largest page.
const ROWS_MAX: usize = 200;
/// Limit on the digits in `stuck_for`. 9999 days are longer than the retention of any call.
const STUCK_DIGITS_MAX: usize = 4;
const PARAMETERS: [&str; 5] = ["job", "lifecycle", "stuck_for", "limit", "cursor"];

/// Filters, size and start of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListQuery {
    job: Option<JobState>,
    lifecycle: Option<&'static str>,
    stuck_for: Option<Duration>,
    limit: usize,
    start: Option<Position>,
}

/// One page of calls.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) calls: Vec<Call>,
    /// Calls whose rows cannot be read. They may or may not match the filters.
    pub(crate) unreadable: Vec<CallId>,
    pub(crate) cursor: Option<String>,
}

impl ListQuery {
    /// Parses the query of the URL. Returns all errors together.
    pub(crate) fn parse(query: &str, now: Timestamp) -> Result<Self, Vec<FieldError>> {
        let ([job, lifecycle, stuck_for, limit, cursor], mut errors) = parameters(query, PARAMETERS);
        let mut error = |name: &str, message: String| errors.push(FieldError::new(name, message));
        let job = job.and_then(|text| {
            let job = JobState::parse(&text);
            if job.is_none() {
                error("job", format!("must be one of {}", JobState::ALL.map(JobState::as_str).join(", ")));
            }
            job
        });
        let lifecycle = lifecycle.and_then(|text| {
            let lifecycle = lifecycle_labels().into_iter().find(|known| *known == text);
            if lifecycle.is_none() {
                error("lifecycle", format!("must be one of {}", lifecycle_labels().join(", ")));
            }
            lifecycle
        });
        let stuck_for = stuck_for.and_then(|text| {
            let duration = duration(&text);
            if duration.is_none() {
                error("stuck_for", "must be a duration such as 90s, 10m, 2h or 3d, with at most 4 digits".to_owned());
            }
            duration
        });
        let limit = limit.map_or(LIMIT_DEFAULT, |text| {
            let limit = whole_number(&text).and_then(|limit| usize::try_from(limit).ok());
            limit.filter(|limit| (1..=LIMIT_MAX).contains(limit)).unwrap_or_else(|| {
                error("limit", format!("must be a whole number from 1 to {LIMIT_MAX}"));
                LIMIT_DEFAULT
            })
        });
        let mut query = Self { job, lifecycle, stuck_for, limit, start: None };
        if let Some(text) = cursor {
            query.start = Position::parse(&text).filter(|start| query.can_start_at(start, now));
            if query.start.is_none() {
                error("cursor", "must be the cursor of a page with the same job and stuck_for".to_owned());
            }
        }
        if errors.is_empty() { Ok(query) } else { Err(errors) }
    }

    /// Reads the page.
    pub(crate) async fn run(&self, calls: &Calls, now: Timestamp) -> Result<Page, Error> {
        let mut page = Page { calls: Vec::new(), unreadable: Vec::new(), cursor: None };
        let mut last = self.start.clone();
        let mut rows = 0;
        let starts_settled = last.as_ref().is_some_and(|last| last.queue == WakeQueue::Settled);
        let (settled, open): (Vec<_>, Vec<_>) =
            self.queues(calls).await?.into_iter().partition(|queue| *queue == WakeQueue::Settled);
        let parts = [(open, Order::EarliestFirst), (settled, Order::LatestFirst)];
        for (queues, order) in
            parts.into_iter().skip(usize::from(starts_settled)).filter(|(queues, _)| !queues.is_empty())
        {
            let size = i32::try_from(self.limit).unwrap_or(i32::MAX);
            let start = last.as_ref().filter(|last| queues.contains(&last.queue));
            let mut merge = Merge::new(calls, &queues, order, |queue| self.until(queue, now), start, size);
            loop {
                let room = self.limit.saturating_sub(page.calls.len()).min(ROWS_MAX.saturating_sub(rows));
                if room == 0 {
                    let is_end = order == Order::LatestFirst && merge.is_at_end().await?;
                    page.cursor = last.filter(|_| !is_end).map(|last| last.to_cursor()).transpose()?;
                    return Ok(page);
                }
                let mut ids = Vec::new();
                while ids.len() < room
                    && let Some(next) = merge.next().await?
                {
                    ids.push(next.entry.call_id.clone());
                    last = Some(next);
                }
                if ids.is_empty() {
                    break;
                }
                rows += ids.len();
                // A call that changes its wake queue while it is listed may appear in both.
                ids.retain(|id| page.calls.iter().all(|call| call.call_id != *id));
                let loaded = calls.load(ids).await?;
                page.calls.extend(loaded.calls.into_iter().filter(|call| self.matches(call, now)));
                page.unreadable.extend(loaded.unreadable.into_iter().map(|(id, _)| id));
            }
        }
        Ok(page)
    }

    /// Returns the wake queues that may hold matching calls.
    async fn queues(&self, calls: &Calls) -> Result<Vec<WakeQueue>, Error> {
        let starts_settled = self.start.as_ref().is_some_and(|start| start.queue == WakeQueue::Settled);
        let has_pending = !starts_settled && self.job.is_none_or(|job| job == JobState::Pending);
        let accounts = if has_pending { calls.accounts().await? } else { BTreeSet::new() };
        Ok(WakeQueue::all(&accounts).into_iter().filter(|queue| self.includes(*queue)).collect())
    }

    /// True if the wake queue may hold matching calls.
    fn includes(&self, queue: WakeQueue) -> bool {
        let of_job = match self.job {
            Some(JobState::Pending) => queue.is_pending(),
            Some(JobState::Claimed) => queue == WakeQueue::Claims,
            Some(JobState::InProgress) => WakeQueue::OPEN.contains(&queue),
            // A call with a final job is not settled until all its attempts have ended and their outcomes are known.
            Some(JobState::Completed | JobState::Failed | JobState::Missed | JobState::Canceled) => !queue.is_pending(),
            None => true,
        };
        // A settled call is never stuck.
        of_job && (self.stuck_for.is_none() || queue != WakeQueue::Settled)
    }

    /// True if the position is inside this list.
    fn can_start_at(&self, at: &Position, now: Timestamp) -> bool {
        at.entry.wake_at <= self.until(at.queue, now) && self.includes(at.queue)
    }

    /// Latest time of the entries of a wake queue that may match.
    fn until(&self, queue: WakeQueue, now: Timestamp) -> Timestamp {
        match (queue, self.stuck_for) {
            // A call that is due later is not stuck.
            (WakeQueue::Dial(_) | WakeQueue::DialAny(_), Some(stuck_for)) => now.minus(stuck_for),
            (WakeQueue::Dial(_) | WakeQueue::DialAny(_), None)
            | (WakeQueue::Claims | WakeQueue::Endings | WakeQueue::Outcomes | WakeQueue::Settled, _) => Timestamp::MAX,
        }
    }

    fn matches(&self, call: &Call, now: Timestamp) -> bool {
        self.job.is_none_or(|job| job == call.job.state())
            && self.lifecycle.is_none_or(|lifecycle| {
                call.attempts().last().is_some_and(|attempt| attempt.lifecycle_label() == lifecycle)
            })
            && self.stuck_for.is_none_or(|stuck_for| is_stuck(call, now.minus(stuck_for)))
    }
}

/// True if the job is not final, and the call has not changed since then and was due by then.
fn is_stuck(call: &Call, since: Timestamp) -> bool {
    let is_due = match &call.job {
        Job::Pending { due_at } => *due_at <= since,
        Job::Claimed { .. } | Job::InProgress => true,
        Job::Completed | Job::Failed | Job::Missed | Job::Canceled => false,
    };
    call.updated_at <= since && is_due
}

fn whole_number(text: &str) -> Option<u64> {
    Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|unit: char| unit.is_ascii_lowercase());
    let seconds: u64 = match text.strip_prefix(number)? {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number = whole_number(number).filter(|_| number.len() <= STUCK_DIGITS_MAX && !number.starts_with('0'))?;
    Some(Duration::from_secs(number * seconds))
}

#[cfg(test)]
mod tests;
