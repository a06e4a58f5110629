//! The drift check: looks up calls that need no repair, and reports where their provider disagrees.
//!
//! **Each settled call is looked at once.** A cursor per shard walks the settled calls in the order in which they were settled. The
//! hourly run moves its target to [`DELIVERY_MARGIN`] before now and begins the walk. If calls are left over, because no time is left,
//! the runs of the following minutes go on. Calls that were settled more than [`LAG_MAX`] ago are left out, so that no walk falls
//! behind for ever. The metric `drift_skipped_ms` tells how much of the time was left out.
//!
//! **No provider keeps the walk from the calls of another.** A provider that has no requests left, or does not answer, falls behind. It
//! gets a walk of its own, which begins at its first call that was left. The walk of all others passes over its calls until its own
//! walk has caught up. So each provider is still asked once about a call, and the call is read once more. The runs of the next minutes ask
//! a provider that had no requests left, and the next hourly check one that does not answer. With more calls than a provider may be
//! asked about, its walk looks at the first ones of each minute.
//!
//! **Open calls are looked at in turn**, at most [`OPEN_CALLS`] per hour, because each wakes up at its own time. One whose provider cannot be
//! asked has its next turn with all others.
//!
//! **A repair takes the same path as every event.** An ending that the call does not have becomes an event in the inbox. Then
//! a `drift_found` event makes the consumer refold the call from the inbox. The call announces `call.drift_repaired`, and the
//! metric `drifted` counts it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use switchhook_aws::Error;
use switchhook_aws::calls::{WakeEntry, WakeQueue};
use switchhook_aws::inbox::{DriftCursor, minute_of};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, Provider, Timestamp};

use crate::compare::{Asked, CheckedCall, DELIVERY_MARGIN};
use crate::lookup::Lookups;
use crate::reconciler::{RUN_MAX, Reconciler, RequestStats};

/// Longest time after which a settled call is still looked at.
const LAG_MAX: Duration = Duration::from_secs(6 * 60 * 60);
/// Time before the first check of a stack since which settled calls are looked at.
const FIRST_LOOK_BACK: Duration = Duration::from_secs(2 * 60 * 60);
/// Settled calls that are read from the index at once.
const PAGE: i32 = 100;
/// Limit on the open calls that one hourly run looks at, in all shards together. It leaves some of the requests of the minute to settled calls.
const OPEN_CALLS: u64 = 400;
/// Calls checked at the same time.
const CONCURRENCY: usize = 8;

/// Result of one drift check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriftReport {
    /// Calls that were checked.
    pub checked: u64,
    /// Requests to providers.
    pub lookups: u64,
    /// Disagreements found: attempts that the provider reports differently, and rows that do not match their own events.
    pub drifted: u64,
    /// Calls and index pages that failed with an error.
    pub failed: u64,
    /// 1 if the check had no time or no requests left for all calls.
    pub budget_used_up: u64,
    /// Time whose settled calls were left out because a walk fell behind, in milliseconds. The sum of all shards, and of the providers
    /// that have a walk of their own.
    pub skipped_ms: u64,
    pub requests: RequestStats,
}

/// Result of looking at the calls of a page.
struct CheckedPage {
    /// Number of calls before the first for which no time was left.
    looked_at: usize,
    /// Providers that could not be asked, each with the number of calls before the first of its calls that was left.
    left: BTreeMap<Provider, usize>,
}

/// A run of the drift check.
struct DriftRun<'a> {
    lookups: &'a Lookups<'a>,
    trace_id: &'a str,
    report: DriftReport,
    first_error: Option<Error>,
}

impl DriftRun<'_> {
    fn add_error(&mut self, error: Error) {
        self.report.failed += 1;
        self.first_error.get_or_insert(error);
    }
}

impl Reconciler {
    /// Begins the hourly check: looks at calls that were settled since the last one, and at open calls, as many as there is time
    /// for.
    ///
    /// # Errors
    /// Returns the first error, after the run has tried every other call.
    pub async fn check_drift(&self, trace_id: &str) -> Result<DriftReport, Error> {
        let started = self.clock.now();
        let target = started.minus(DELIVERY_MARGIN);
        let mut cursors = Vec::new();
        let mut first_error = None;
        for shard in self.calls.wake_shards_from(minute_of(started).unsigned_abs() / 60) {
            match self.inbox.drift_cursor(shard).await {
                Ok(cursor) => {
                    let mut cursor = cursor.unwrap_or(DriftCursor::starting_at(started.minus(FIRST_LOOK_BACK)));
                    cursor.set_target(target);
                    cursors.push((shard, cursor));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        self.walk(cursors, true, (started, started.plus(RUN_MAX)), first_error, trace_id).await
    }

    /// Goes on with the hourly check, if it has left calls over. Each minute belongs to one shard, so that an idle minute costs one
    /// read.
    pub(crate) async fn continue_drift_check(&self, stop_at: Timestamp, trace_id: &str) -> Result<(), Error> {
        let started = self.clock.now();
        let Some(shard) = self.calls.wake_shards_from(minute_of(started).unsigned_abs()).next() else { return Ok(()) };
        match self.inbox.drift_cursor(shard).await?.filter(|cursor| !cursor.walks_left().is_empty()) {
            Some(cursor) => {
                self.walk(vec![(shard, cursor)], false, (started, stop_at), None, trace_id).await.map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Looks at open calls if `with_open`, and then at settled calls, one page of each walk in turn. Logs the run.
    async fn walk(
        &self,
        mut cursors: Vec<(u64, DriftCursor)>,
        with_open: bool,
        (started, stop_at): (Timestamp, Timestamp),
        first_error: Option<Error>,
        trace_id: &str,
    ) -> Result<DriftReport, Error> {
        let accounts = self.dial_accounts.current(started).await;
        let lookups = &self.lookups(&accounts, stop_at);
        let report = DriftReport { failed: u64::from(first_error.is_some()), ..DriftReport::default() };
        let mut run = DriftRun { lookups, trace_id, report, first_error };
        if with_open {
            for (shard, cursor) in &mut cursors {
                self.check_open(*shard, cursor, &mut run).await;
                // From now on, the runs of the next minutes know the target, even if this one ends early.
                if let Err(error) = self.inbox.set_drift_cursor(*shard, cursor).await {
                    run.add_error(error);
                }
            }
        }
        let walks_of = |(index, (_, cursor)): (usize, &(u64, DriftCursor))| {
            cursor.walks_left().into_iter().map(move |provider| (index, provider))
        };
        let mut walks: VecDeque<(usize, Option<Provider>)> = cursors.iter().enumerate().flat_map(walks_of).collect();
        while let Some((index, provider)) = walks.pop_front() {
            let Some((shard, cursor)) = cursors.get_mut(index).filter(|_| !lookups.is_time_up()) else { break };
            if self.check_settled(*shard, provider, cursor, &mut run).await {
                walks.push_back((index, provider));
            }
        }
        let DriftRun { mut report, first_error, .. } = run;
        report.lookups = lookups.sent();
        report.requests = self.finish_lookups(lookups, trace_id).await;
        report.budget_used_up = u64::from(lookups.is_over_budget() || lookups.is_time_up());
        self.log_drift(&report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    /// Looks at the next page of settled calls in the walk of a provider, or in the walk of all others, and stores the cursor. Returns
    /// true if there are more and they can be looked at now.
    async fn check_settled(
        &self,
        shard: u64,
        provider: Option<Provider>,
        cursor: &mut DriftCursor,
        run: &mut DriftRun<'_>,
    ) -> bool {
        let Some((mut walk, until)) = cursor.walk(provider) else { return false };
        let oldest = self.clock.now().minus(LAG_MAX).min(until);
        if walk.settled_until < oldest {
            run.report.skipped_ms += oldest.millis_since(walk.settled_until).unsigned_abs();
            walk.go_to(oldest, None);
        }
        let after = walk.settled_call.clone().map(|call_id| WakeEntry { call_id, wake_at: walk.settled_until });
        let range = walk.settled_until..=until;
        let page = self.calls.wake_entries(WakeQueue::Settled, shard, range, false, PAGE, after.as_ref()).await;
        let (entries, is_more) = match page {
            Ok(page) => page,
            Err(error) => {
                run.add_error(error);
                return false;
            }
        };
        let asked = provider.map_or(Asked::AllBut(&cursor.behind), Asked::Only);
        let CheckedPage { looked_at, left } = self.check_calls(&entries, &asked, run).await;
        // The walk as it is after the first calls of the page.
        let after_calls = |count: usize| {
            let mut walk = walk.clone();
            if let Some(last) = count.checked_sub(1).and_then(|last| entries.get(last)) {
                walk.go_to(last.wake_at, Some(last.call_id.clone()));
            }
            walk
        };
        let is_page_done = looked_at == entries.len();
        let mut next = after_calls(looked_at);
        if is_page_done && !is_more {
            next.go_to(until.plus(Duration::from_millis(1)), None);
        }
        for (left, before) in &left {
            let mut walk = after_calls(*before);
            if run.lookups.has_failed_last(*left) {
                // The next hourly run goes on. Until then, the provider is left alone.
                walk.target = walk.settled_until;
            }
            cursor.behind.insert(*left, walk);
        }
        let is_left = provider.is_some_and(|provider| left.contains_key(&provider));
        if !is_left {
            cursor.set_walk(provider, next);
        }
        if let Err(error) = self.inbox.set_drift_cursor(shard, cursor).await {
            run.add_error(error);
            return false;
        }
        is_page_done && is_more && !is_left
    }

    /// Looks at the next open calls of a shard.
    async fn check_open(&self, shard: u64, cursor: &mut DriftCursor, run: &mut DriftRun<'_>) {
        // Every open call wakes up within its inactivity timeout, so this range holds all of them.
        let range = Timestamp::from_millis(0)..=self.clock.now().plus(Duration::from_secs(24 * 60 * 60));
        let shards = self.calls.wake_shards().end.max(1);
        let mut left = i32::try_from((OPEN_CALLS / shards).max(1)).unwrap_or(1);
        let first = cursor.open.as_ref().and_then(|(queue, _)| WakeQueue::OPEN.iter().position(|open| open == queue));
        for queue in WakeQueue::OPEN.into_iter().skip(first.unwrap_or(0)) {
            if run.lookups.is_time_up() || left == 0 {
                return;
            }
            let after = cursor.open.take().filter(|(of, _)| *of == queue).map(|(_, entry)| entry);
            let page = self.calls.wake_entries(queue, shard, range.clone(), false, left, after.as_ref()).await;
            let (entries, is_more) = match page {
                Ok(page) => page,
                Err(error) => return run.add_error(error),
            };
            let looked_at = self.check_calls(&entries, &Asked::AllBut(&BTreeMap::new()), run).await.looked_at;
            if looked_at < entries.len() || is_more {
                let last = looked_at.checked_sub(1).map_or(after, |last| entries.get(last).cloned());
                cursor.open = last.map(|last| (queue, last));
                return;
            }
            left -= i32::try_from(looked_at).unwrap_or(left);
        }
    }

    /// Looks at calls, and adds them to the report.
    async fn check_calls(&self, entries: &[WakeEntry], asked: &Asked<'_>, run: &mut DriftRun<'_>) -> CheckedPage {
        let (lookups, trace_id) = (run.lookups, run.trace_id);
        let ids: Vec<CallId> = entries.iter().map(|entry| entry.call_id.clone()).collect();
        let checked: Vec<Option<Result<CheckedCall, Error>>> = stream::iter(ids)
            .map(|id| async move {
                if lookups.is_time_up() { None } else { Some(self.check_call(&id, asked, lookups, trace_id).await) }
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let is_out_of_time = |checked: &Option<Result<CheckedCall, Error>>| match checked {
            None => true,
            Some(Ok(checked)) => checked.is_out_of_time,
            Some(Err(_)) => false,
        };
        let looked_at = checked.iter().position(is_out_of_time).unwrap_or(checked.len());
        let mut left = BTreeMap::new();
        for (index, checked) in checked.into_iter().enumerate() {
            match checked {
                None => {}
                Some(Ok(checked)) => {
                    // A provider that failed last may be down. A single call without an answer is passed over.
                    let unanswered = checked.unanswered_by.iter().filter(|by| lookups.has_failed_last(**by));
                    let left_by: Vec<&Provider> = checked.out_of_requests.iter().chain(unanswered).collect();
                    // The walk of a provider counts the calls that it asks about, and the walk of all others the rest.
                    let is_counted = match asked {
                        Asked::AllBut(_) => !checked.is_passed_over,
                        Asked::Only(_) => checked.is_asked,
                    };
                    let is_checked = is_counted && left_by.is_empty() && !checked.is_out_of_time;
                    run.report.checked += u64::from(is_checked);
                    run.report.drifted += checked.drifted;
                    for provider in left_by.into_iter().filter(|_| index < looked_at) {
                        left.entry(*provider).or_insert(index);
                    }
                }
                Some(Err(error)) => {
                    run.report.checked += 1;
                    run.add_error(error);
                }
            }
        }
        CheckedPage { looked_at, left }
    }

    fn log_drift(&self, report: &DriftReport, error: Option<&Error>, started: Timestamp, trace_id: &str) {
        let now = self.clock.now();
        let mut counts = vec![
            ("drift_checked", report.checked),
            ("drift_lookups", report.lookups),
            ("drifted", report.drifted),
            ("failed", report.failed),
            ("budget_used_up", report.budget_used_up),
        ];
        // CloudWatch would charge for a series of zeros.
        counts.extend(Some(("drift_skipped_ms", report.skipped_ms)).filter(|(_, skipped)| *skipped > 0));
        let decision = Decision {
            function: "reconciler",
            message: "drift check done",
            action_taken: if error.is_some() { "drift_run_failed" } else { "drift_run" },
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts,
            ..Decision::from_error(error)
        };
        decision.log(now, error.is_some());
    }
}
