//! The drift check: looks up calls that need no repair, and reports where their provider disagrees.
//!
//! **Each settled call is looked at once.** A cursor per shard walks the settled calls in the order in which they were settled. The
//! hourly run moves its target to [`DELIVERY_MARGIN`] before now, and walks a few shards at the same time. Shards for which it has no time go to
//! [workers](crate::repair). If calls are left over, because no time or no requests are left, workers of the following minutes go on. Calls that
//! were settled more than [`LAG_MAX`] ago are left out, so that no walk falls behind for ever. The metric `drift_skipped_ms` tells how much
//! of the time was left out.
//!
//! **No provider keeps the walk from the calls of another.** A provider that has no requests left, does not answer, answers
//! [slowly](crate::compare), or lacks an account falls behind. It gets a walk of its own, which begins at its first call that was left. The walk
//! of all others passes over its calls until its own walk has caught up. So the call is read once more. A provider is still asked once
//! about a call, and twice about one that gets no answer while others do. The walks of a shard go on at the same time. The workers of the
//! next minutes ask a provider that had no requests left or is slow. One that does not answer, or lacked its account, is asked by the next
//! hourly check. With more calls than a provider may be asked about, its walk looks at the first ones of each minute.
//!
//! **Open calls are looked at in turn**, at most [`OPEN_CALLS`] per hour, because each wakes up at its own time. One whose provider cannot be
//! asked has its next turn with all others.
//!
//! **A repair takes the same path as every event.** An ending that the call does not have becomes an event in the inbox, and is announced
//! as if a webhook had brought it. Then a `drift_found` event makes the consumer refold the call from the inbox. If that changes the call,
//! because its row did not match its own events, the call announces `call.drift_repaired`. The metric `drifted` counts both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use switchhook_aws::Error;
use switchhook_aws::calls::{WakeEntry, WakeQueue};
use switchhook_aws::inbox::{DriftCursor, minute_of};
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, Provider, Timestamp};

use crate::compare::{Asked, CONCURRENCY, CheckedCall, DELIVERY_MARGIN};
use crate::lookup::Lookups;
use crate::reconciler::{RUN_MAX, Reconciler, Report, RequestStats, WORK_WINDOW};

/// Longest time after which a settled call is still looked at.
pub const LAG_MAX: Duration = Duration::from_secs(6 * 60 * 60);
/// Time before the first check of a stack since which settled calls are looked at. It is shorter than [`LAG_MAX`], so that the first walk may take some
/// time and leaves nothing out.
const FIRST_LOOK_BACK: Duration = Duration::from_secs(5 * 60 * 60);
/// Settled calls that are read from the index at once.
const PAGE: i32 = 100;
/// Limit on the open calls that one hourly run looks at, in all shards together. It leaves some of the requests of the minute to settled calls.
const OPEN_CALLS: u64 = 400;
/// Shards that the hourly run looks at at the same time.
const SHARDS_AT_ONCE: usize = 4;

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

/// Progress in the settled calls of one shard.
struct ShardWalks {
    cursor: DriftCursor,
    /// Walks that do not go on in this run.
    stopped: BTreeSet<Option<Provider>>,
}

/// A run of the drift check, or the work of a worker.
struct DriftRun<'a> {
    lookups: &'a Lookups<'a>,
    trace_id: &'a str,
    result: Mutex<(DriftReport, Option<Error>)>,
}

impl<'a> DriftRun<'a> {
    fn new(lookups: &'a Lookups<'a>, trace_id: &'a str) -> Self {
        Self { lookups, trace_id, result: Mutex::default() }
    }

    fn add(&self, change: impl FnOnce(&mut DriftReport)) {
        change(&mut self.result.lock().unwrap_or_else(PoisonError::into_inner).0);
    }

    fn add_error(&self, error: Error) {
        let (report, first_error) = &mut *self.result.lock().unwrap_or_else(PoisonError::into_inner);
        report.failed += 1;
        first_error.get_or_insert(error);
    }
}

impl Reconciler {
    /// Begins the hourly check: looks at open calls, and at calls that were settled since the last one. It hands the shards for which it
    /// has no time to workers.
    ///
    /// # Errors
    /// Returns the first error, after the run has tried every other call.
    pub async fn check_drift(&self, trace_id: &str) -> Result<DriftReport, Error> {
        let started = self.clock.now();
        let accounts = self.dial_accounts.current(started).await;
        let lookups = &self.lookups(&accounts, started.plus(RUN_MAX));
        let run = DriftRun::new(lookups, trace_id);
        let mut cursors = Vec::new();
        for shard in self.calls.wake_shards_from(minute_of(started).unsigned_abs() / 60) {
            let stored = match self.inbox.drift_cursor(shard).await {
                Ok(stored) => stored,
                Err(error) => {
                    run.add_error(error);
                    continue;
                }
            };
            let mut cursor = stored.unwrap_or(DriftCursor::starting_at(started.minus(FIRST_LOOK_BACK)));
            cursor.set_target(started.minus(DELIVERY_MARGIN));
            self.check_open(shard, &mut cursor, &run).await;
            // From now on, the workers of the next minutes know the target, even if this run ends early.
            if let Err(error) = self.inbox.set_drift_cursor(shard, &cursor).await {
                run.add_error(error);
            }
            cursors.push((shard, cursor));
        }
        let run_ref = &run;
        let left: Vec<RepairWork> = stream::iter(cursors)
            .map(|(shard, cursor)| async move {
                let is_left = self.check_settled(shard, cursor, run_ref).await;
                is_left.then(|| drift_work(shard, started))
            })
            .buffer_unordered(SHARDS_AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        if let Err(error) = self.repair_queue.send_repairs(&left).await {
            run.add_error(error);
        }
        self.end_drift(run, started).await
    }

    /// Returns the work that the check has left over in one shard. Each minute belongs to one shard, so that an idle minute costs one read.
    pub(crate) async fn drift_left(&self, started: Timestamp) -> Result<Option<RepairWork>, Error> {
        let Some(shard) = self.calls.wake_shards_from(minute_of(started).unsigned_abs()).next() else {
            return Ok(None);
        };
        let cursor = self.inbox.drift_cursor(shard).await?;
        Ok(cursor.filter(|cursor| !cursor.walks_left().is_empty()).map(|_| drift_work(shard, started)))
    }

    /// Goes on with the check in one shard. Returns true if more can be done at once, and the first error. The run has a log line of its
    /// own, which counts its failures.
    pub(crate) async fn continue_drift_check(
        &self,
        shard: u64,
        report: &mut Report,
        stop_at: Timestamp,
        trace_id: &str,
    ) -> (bool, Option<Error>) {
        let started = self.clock.now();
        let cursor = match self.inbox.drift_cursor(shard).await {
            Ok(cursor) => cursor.filter(|cursor| !cursor.walks_left().is_empty()),
            Err(error) => {
                report.failed += 1;
                return (false, Some(error));
            }
        };
        let Some(cursor) = cursor else { return (false, None) };
        if self.is_time_up(stop_at) {
            report.budget_used_up = 1;
            return (false, None);
        }
        let accounts = self.dial_accounts.current(started).await;
        let lookups = &self.lookups(&accounts, stop_at);
        let run = DriftRun::new(lookups, trace_id);
        let is_left = self.check_settled(shard, cursor, &run).await;
        (is_left, self.end_drift(run, started).await.err())
    }

    /// Logs a run, and returns its report or its first error.
    async fn end_drift(&self, run: DriftRun<'_>, started: Timestamp) -> Result<DriftReport, Error> {
        let DriftRun { lookups, trace_id, result } = run;
        let (mut report, first_error) = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.lookups = lookups.sent();
        report.requests = self.finish_lookups(lookups, trace_id).await;
        report.budget_used_up = u64::from(lookups.is_over_budget() || lookups.is_time_up());
        self.log_drift(&report, first_error.as_ref(), started, trace_id);
        first_error.map_or(Ok(report), Err)
    }

    /// Looks at the settled calls of a shard, in all its walks at the same time. Returns true if the time ended it.
    async fn check_settled(&self, shard: u64, cursor: DriftCursor, run: &DriftRun<'_>) -> bool {
        let shared = &tokio::sync::Mutex::new(ShardWalks { cursor, stopped: BTreeSet::new() });
        loop {
            let walks = {
                let ShardWalks { cursor, stopped } = &*shared.lock().await;
                let left = cursor.walks_left().into_iter();
                left.filter(|walk| !stopped.contains(walk)).collect::<Vec<_>>()
            };
            if walks.is_empty() || run.lookups.is_time_up() {
                return !walks.is_empty();
            }
            // A provider that falls behind meanwhile has its turn in the next round.
            let walked = stream::iter(walks).for_each_concurrent(None, |walk| async move {
                while self.check_page((shard, walk), shared, run).await {}
                if !run.lookups.is_time_up() {
                    shared.lock().await.stopped.insert(walk);
                }
            });
            walked.await;
        }
    }

    /// Looks at the next page of settled calls in the walk of a provider, or in the walk of all others, and stores the cursor. Returns
    /// true if there are more and they can be looked at now.
    async fn check_page(
        &self,
        (shard, provider): (u64, Option<Provider>),
        shared: &tokio::sync::Mutex<ShardWalks>,
        run: &DriftRun<'_>,
    ) -> bool {
        let (mut walk, until, behind) = {
            let ShardWalks { cursor, .. } = &mut *shared.lock().await;
            if provider.is_none() {
                cursor.join();
            }
            let Some((walk, until)) = cursor.walk(provider) else { return false };
            (walk, until, cursor.behind.clone())
        };
        let oldest = self.clock.now().minus(LAG_MAX).min(until);
        if walk.settled_until < oldest {
            // Nobody expects that a provider is asked which the accounts do not name.
            if provider.is_none_or(|provider| run.lookups.is_named(provider)) {
                run.add(|report| report.skipped_ms += oldest.millis_since(walk.settled_until).unsigned_abs());
            }
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
        let asked = provider.map_or(Asked::AllBut(&behind), Asked::Only);
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
        let ShardWalks { cursor, stopped } = &mut *shared.lock().await;
        for (left, before) in &left {
            let mut walk = after_calls(*before);
            if run.lookups.is_unreachable(*left) {
                // The next hourly run goes on. Until then, the provider is left alone.
                walk.target = walk.settled_until;
            }
            cursor.behind.insert(*left, walk);
            stopped.insert(Some(*left));
        }
        let is_left = provider.is_some_and(|provider| left.contains_key(&provider));
        if !is_left {
            cursor.set_walk(provider, next);
        }
        if let Err(error) = self.inbox.set_drift_cursor(shard, cursor).await {
            run.add_error(error);
            return false;
        }
        is_page_done && is_more && !is_left && !run.lookups.is_time_up()
    }

    /// Looks at the next open calls of a shard.
    async fn check_open(&self, shard: u64, cursor: &mut DriftCursor, run: &DriftRun<'_>) {
        // Every open call wakes up within its inactivity timeout, so this range holds all of them. The day is a margin.
        let latest = self.clock.now().plus(self.policy.inactivity_timeout).plus(Duration::from_secs(24 * 60 * 60));
        let range = Timestamp::from_millis(0)..=latest;
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
    async fn check_calls(&self, entries: &[WakeEntry], asked: &Asked<'_>, run: &DriftRun<'_>) -> CheckedPage {
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
                    // A call without an answer is left to the walk of its provider. That walk passes over it, unless the provider
                    // failed last, and may be down.
                    let is_first_walk = matches!(asked, Asked::AllBut(_));
                    let unanswered = checked.unanswered_by.iter();
                    let unanswered = unanswered.filter(|by| is_first_walk || lookups.is_unreachable(**by));
                    let left_by: Vec<&Provider> = checked.not_asked.iter().chain(unanswered).collect();
                    // The walk of a provider counts the calls that it asks about, and the walk of all others the rest.
                    let is_counted = match asked {
                        Asked::AllBut(_) => !checked.is_passed_over,
                        Asked::Only(_) => checked.is_asked,
                    };
                    let is_checked = is_counted && left_by.is_empty() && !checked.is_out_of_time;
                    run.add(|report| {
                        report.checked += u64::from(is_checked);
                        report.drifted += checked.drifted;
                    });
                    for provider in left_by.into_iter().filter(|_| index < looked_at) {
                        left.entry(*provider).or_insert(index);
                    }
                }
                Some(Err(error)) => {
                    run.add(|report| report.checked += 1);
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

/// Work that the check has left over in a shard, as a run finds it that started at `started`.
fn drift_work(shard: u64, started: Timestamp) -> RepairWork {
    RepairWork::first(RepairKind::Drift, shard, started, started.plus(WORK_WINDOW))
}
