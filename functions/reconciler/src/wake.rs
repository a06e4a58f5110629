//! The wake-up: handles every call whose `wake_at` has come, and stores its findings as events.
//!
//! A call wakes up because its claim expired, or because the inactivity timeout of an attempt passed. It also wakes up while the outcome of
//! a dial is unknown, or nothing was reported about it. In all but the first case the attempt is looked up at its provider.

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, AliasOutcome, Found, StoreOutcome, WakeEntry, WakeQueue};
use switchhook_aws::error::note_error;
use switchhook_aws::inbox::{adopt, minute_of};
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_domain::{AttemptRecord, AttemptState, Call, CallId, Timestamp};

use crate::lookup::{Lookups, Urgency};
use crate::reconciler::{RUN_MAX, Reconciler, Report, WORK_WINDOW};
use crate::resolve::{LOOKUP_PAUSE_MIN, Resolution, UNFOLDED_PAUSE};

/// Calls that are read from the index at once.
const PAGE: i32 = 100;
/// Calls of a page handled at the same time.
const CONCURRENCY: usize = 16;
/// Pages of a wake queue that a run handles at the same time. With many shards, each has few of the due calls. One after the other, a few calls of
/// a slow provider on each of them would use up the time of the run.
const PAGES_AT_ONCE: usize = 8;

/// Result of waking one call.
#[derive(Default)]
struct WokenCall {
    deadlines_passed: u64,
    lookup_events: u64,
    claims_expired: u64,
    timeouts: u64,
    doubts: u64,
    /// Time since the wake-up time, in milliseconds.
    overdue_ms: u64,
    is_rescheduled: bool,
    /// True if the call stays due, because no time or no requests are left.
    is_over_budget: bool,
}

/// Page of the due calls of one shard.
pub(crate) struct DuePage {
    pub(crate) queue: WakeQueue,
    pub(crate) shard: u64,
    calls: Vec<WakeEntry>,
    /// True if more calls are due after those of the page.
    is_more: bool,
}

/// Result of working on one page.
#[derive(Default)]
pub(crate) struct PageResult {
    /// True if calls of the shard are left that can be worked on now.
    pub(crate) is_left: bool,
    /// Last call of the page that was handled, before the first that was not. `None` if the first call was not handled.
    pub(crate) last_handled: Option<WakeEntry>,
    /// [One](note_error) of the errors.
    pub(crate) error: Option<Error>,
}

impl DuePage {
    /// Work that is left after this first page of a shard. `None` if no further call is due.
    fn rest(&self, due_until: Timestamp, stop_at: Timestamp) -> Option<RepairWork> {
        let after = self.calls.last().filter(|_| self.is_more)?.clone();
        let kind = RepairKind::Due { queue: self.queue, after: Some(after) };
        Some(RepairWork::first(kind, self.shard, due_until, stop_at))
    }
}

impl Reconciler {
    /// Reads the first page of each shard with calls that are due, the most urgent queue first, in a run that started at `started`. Returns
    /// the pages, and the work that is left behind them. The third value is the first error.
    pub(crate) async fn due_pages(
        &self,
        report: &mut Report,
        started: Timestamp,
    ) -> (Vec<DuePage>, Vec<RepairWork>, Option<Error>) {
        let due_until = self.clock.now();
        // Each run starts with another shard, so that no shard is always the last.
        let first = minute_of(due_until).unsigned_abs();
        let shards = WakeQueue::OPEN
            .into_iter()
            .flat_map(|queue| self.calls.wake_shards_from(first).map(move |shard| (queue, shard)));
        let (mut pages, mut rest, mut first_error) = (Vec::new(), Vec::new(), None);
        for (queue, shard) in shards {
            if self.is_time_up(started.plus(RUN_MAX)) {
                break;
            }
            match self.due_page((queue, shard), due_until, None).await {
                Ok(page) => {
                    rest.extend(page.rest(due_until, started.plus(WORK_WINDOW)));
                    pages.push(page);
                }
                Err(error) => {
                    report.failed += 1;
                    first_error.get_or_insert(error);
                }
            }
        }
        (pages, rest, first_error)
    }

    /// Wakes the calls of these pages, until `stop_at`. Returns [one](note_error) of the errors, after it has tried every call.
    ///
    /// The wake queues are handled at the same time, and some pages of each. So calls that wait for a slow provider keep few others waiting.
    pub(crate) async fn wake(
        &self,
        mut pages: Vec<DuePage>,
        report: &mut Report,
        stop_at: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let accounts = self.dial_accounts.current(self.clock.now()).await;
        let lookups = &self.lookups(&accounts, stop_at);
        pages.retain(|page| !page.calls.is_empty());
        let woken = join_all(WakeQueue::OPEN.map(|queue| {
            let of_queue: Vec<DuePage> = pages.extract_if(.., |page| page.queue == queue).collect();
            let woken = stream::iter(of_queue).map(|page| async move {
                if self.is_time_up(stop_at) {
                    return None;
                }
                let woken = self.wake_calls(&page, lookups, trace_id).await;
                Some((page, woken))
            });
            woken.buffer_unordered(PAGES_AT_ONCE).collect::<Vec<_>>()
        }));
        let mut first_error = None;
        for (page, woken) in woken.await.into_iter().flatten().flatten() {
            note_error(&mut first_error, sum_up(&page, woken, lookups, report).error);
        }
        self.add_lookups(lookups, report, trace_id).await;
        report.budget_used_up |= u64::from(self.is_time_up(stop_at));
        first_error.map_or(Ok(()), Err)
    }

    /// Ends the lookups of an invocation, and adds them to its report.
    pub(crate) async fn add_lookups(&self, lookups: &Lookups<'_>, report: &mut Report, trace_id: &str) {
        report.lookups += lookups.sent();
        report.requests.add(self.finish_lookups(lookups, trace_id).await);
        report.budget_used_up |= u64::from(lookups.is_over_budget());
    }

    /// Reads the next page of the calls of a shard that were due at `due_until`, after the call `after`.
    pub(crate) async fn due_page(
        &self,
        (queue, shard): (WakeQueue, u64),
        due_until: Timestamp,
        after: Option<&WakeEntry>,
    ) -> Result<DuePage, Error> {
        let range = Timestamp::from_millis(0)..=due_until;
        let (calls, is_more) = self.calls.wake_entries(queue, shard, range, false, PAGE, after).await?;
        Ok(DuePage { queue, shard, calls, is_more })
    }

    /// Wakes the calls of one page.
    pub(crate) async fn wake_page(
        &self,
        page: &DuePage,
        lookups: &Lookups<'_>,
        report: &mut Report,
        trace_id: &str,
    ) -> PageResult {
        sum_up(page, self.wake_calls(page, lookups, trace_id).await, lookups, report)
    }

    /// Wakes the calls of one page. Returns a result for each of them, and `None` for one that no time is left for.
    async fn wake_calls(
        &self,
        page: &DuePage,
        lookups: &Lookups<'_>,
        trace_id: &str,
    ) -> Vec<Option<Result<WokenCall, Error>>> {
        let urgency = urgency_of(page.queue);
        let ids: Vec<CallId> = page.calls.iter().map(|entry| entry.call_id.clone()).collect();
        let woken = stream::iter(ids.into_iter().enumerate()).map(|(at, id)| async move {
            let is_in_time = !lookups.is_time_up();
            (at, if is_in_time { Some(self.wake_call(&id, urgency, lookups, trace_id).await) } else { None })
        });
        // A call that waits for a slow provider must not hold up those behind it.
        let mut woken: Vec<_> = woken.buffer_unordered(CONCURRENCY).collect().await;
        woken.sort_by_key(|(at, _)| *at);
        woken.into_iter().map(|(_, woken)| woken).collect()
    }

    /// Handles one call that the index returned as due. Its findings become events in the inbox. If there are none, it gets a
    /// later wake-up time.
    async fn wake_call(
        &self,
        call_id: &CallId,
        urgency: Urgency,
        lookups: &Lookups<'_>,
        trace_id: &str,
    ) -> Result<WokenCall, Error> {
        let now = self.clock.now();
        let mut woken = WokenCall::default();
        let call = match self.calls.find(call_id).await? {
            Found::Call(call) => call,
            // A function began to adopt the events of a call, and did not finish.
            Found::Alias(alias) => {
                self.end_adoption(call_id, &alias, now).await?;
                return Ok(woken);
            }
            // The index may lag behind the row, and the row may have been deleted.
            Found::Nothing => return Ok(woken),
        };
        let Some(wake_at) = call.wake_at.filter(|at| *at <= now && !call.is_pending()) else { return Ok(woken) };
        woken.overdue_ms = now.millis_since(wake_at).unsigned_abs();
        // A finding is an event in the inbox. It is new if the inbox did not have it before.
        let (mut has_findings, mut has_new_findings) = (false, false);
        let (mut next_lookup, mut unanswered_since): (Option<Timestamp>, _) = (None, call.unanswered_since);
        if let Some(expired) = call.claim_expired_event(now) {
            has_new_findings |= self.submit(&expired, trace_id).await?;
            has_findings = true;
            woken.claims_expired += 1;
        }
        if let Some(missed) = call.retry_missed_event(&self.policy, now) {
            has_new_findings |= self.submit(&missed, trace_id).await?;
            has_findings = true;
            woken.deadlines_passed += 1;
        }
        let overdue = call.overdue_attempts(&self.policy, now);
        for attempt in &overdue {
            let record = call.attempt_records.get(attempt.index);
            let resolution = self.resolve_overdue(&call, attempt, urgency, lookups, now, trace_id).await?;
            match self.unless_inbox_knows_more(&call, record, resolution, now).await? {
                Resolution::Stored { is_new } => {
                    has_new_findings |= is_new;
                    has_findings = true;
                    woken.lookup_events += 1;
                }
                resolution @ (Resolution::DeadlinePassed | Resolution::NotFound) => {
                    // Nobody was dialled, if the provider never reported the dial and does not have it now.
                    let not_found = record
                        .filter(|record| matches!(resolution, Resolution::NotFound) && call.in_doubt().contains(record))
                        .and_then(|record| Some(call.dial_not_found_event(record.key.as_ref()?, now)));
                    let is_timeout = not_found.is_none();
                    let event = not_found.unwrap_or_else(|| call.deadline_passed_event(attempt, now));
                    let is_new = self.submit(&event, trace_id).await?;
                    woken.timeouts += u64::from(is_timeout && is_new);
                    has_new_findings |= is_new;
                    has_findings = true;
                    woken.deadlines_passed += 1;
                }
                Resolution::RetryAt(at) => next_lookup = Some(next_lookup.map_or(at, |earlier| earlier.min(at))),
                Resolution::Unanswered { since, retry_at } => {
                    unanswered_since = unanswered_since.max(Some(since));
                    next_lookup = Some(next_lookup.map_or(retry_at, |earlier| earlier.min(retry_at)));
                }
                // The call stays due for the next run.
                Resolution::OverBudget => return Ok(WokenCall { is_over_budget: true, ..woken }),
                Resolution::DialRestored => return Ok(woken),
            }
        }
        let is_overdue = |record: &AttemptRecord| {
            let is_of = |attempt: &AttemptState| call.attempt_records.get(attempt.index) == Some(record);
            overdue.iter().any(is_of)
        };
        let doubts = call.in_doubt().into_iter().map(|record| (record, true));
        let unreported = call.unreported_dials().into_iter().map(|record| (record, false));
        for (record, is_in_doubt) in doubts.chain(unreported).filter(|(record, _)| !is_overdue(record)) {
            let Some(dialled_at) = record.dialled_at else { continue };
            woken.doubts += u64::from(is_in_doubt);
            let resolution = if is_in_doubt {
                self.resolve_doubt(&call, record, dialled_at, lookups, now, trace_id).await?
            } else {
                self.resolve_unreported(&call, record, dialled_at, lookups, now, trace_id).await?
            };
            match self.unless_inbox_knows_more(&call, Some(record), resolution, now).await? {
                Resolution::Stored { is_new } => {
                    has_new_findings |= is_new;
                    has_findings = true;
                    woken.lookup_events += 1;
                }
                Resolution::NotFound => {
                    if let Some(attempt) = &record.key {
                        has_new_findings |= self.submit(&call.dial_not_found_event(attempt, now), trace_id).await?;
                        has_findings = true;
                    }
                }
                // The deadline of an attempt that is not overdue has not passed.
                Resolution::DeadlinePassed => {}
                Resolution::RetryAt(at) | Resolution::Unanswered { since: _, retry_at: at } => {
                    next_lookup = Some(next_lookup.map_or(at, |earlier| earlier.min(at)));
                }
                Resolution::OverBudget => return Ok(WokenCall { is_over_budget: true, ..woken }),
                Resolution::DialRestored => return Ok(woken),
            }
        }
        // The fold of a new finding decides when the call wakes up next. If all findings were known already, they wait in the
        // queue, and repeating them every minute would only make it longer.
        let wake_at = match (has_findings, has_new_findings) {
            (true, true) => next_lookup,
            (true, false) => Some(now.plus(UNFOLDED_PAUSE)),
            (false, _) if overdue.is_empty() => next_lookup.into_iter().chain(self.next_wake_at(&call, now)).min(),
            (false, _) => next_lookup.or_else(|| self.next_wake_at(&call, now)),
        };
        if let Some(wake_at) = wake_at {
            let waiting = Call { unanswered_since, ..call.doubted(now).unwrap_or(*call) };
            let stored = self.calls.set_wake_at(&waiting, wake_at).await?;
            woken.is_rescheduled = stored == StoreOutcome::Committed;
        }
        Ok(woken)
    }

    /// Adopts the events of a call that became an alias, as far as they can be read, and logs the others. No later try would read them.
    async fn end_adoption(&self, from: &CallId, alias: &Alias, now: Timestamp) -> Result<(), Error> {
        // It is the alias that is stored, so it is not refused.
        let outcome = self.calls.write_alias(from, alias, self.inbox.retention(), now).await?;
        let AliasOutcome::Leads { orphaned_events } = outcome else { return Ok(()) };
        if orphaned_events.is_empty() {
            return Ok(());
        }
        for (event_id, error) in adopt(&self.inbox, &self.queue, orphaned_events, alias).await? {
            self.log_unreadable(&event_id, &alias.call_id, &error);
        }
        self.calls.finish_adoption(from).await
    }

    /// Time at which a call without findings wakes up again. At least [`LOOKUP_PAUSE_MIN`] from now.
    fn next_wake_at(&self, call: &Call, now: Timestamp) -> Option<Timestamp> {
        call.next_wake_at(&self.policy).map(|next| next.max(now.plus(LOOKUP_PAUSE_MIN)))
    }
}

/// Adds the results for the calls of a page to the report.
///
/// If no call of the page can be worked on, because no requests are left, the rest of the shard is left to the next minute.
/// Otherwise each minute would read the whole backlog.
fn sum_up(
    page: &DuePage,
    woken: Vec<Option<Result<WokenCall, Error>>>,
    lookups: &Lookups<'_>,
    report: &mut Report,
) -> PageResult {
    let is_time_up = lookups.is_time_up();
    let is_blocked = |woken: &Option<_>| matches!(woken, Some(Ok(WokenCall { is_over_budget: true, .. })));
    // If the time is up, the next worker can look up what this one could not.
    let is_left = |woken: &Option<_>| woken.is_none() || (is_time_up && is_blocked(woken));
    let handled = woken.iter().position(is_left).unwrap_or(woken.len());
    let is_all_blocked = handled > 0 && woken.iter().take(handled).all(is_blocked);
    let mut result = PageResult {
        is_left: (page.is_more || handled < woken.len()) && !is_all_blocked,
        last_handled: handled.checked_sub(1).and_then(|last| page.calls.get(last)).cloned(),
        error: None,
    };
    for woken in woken.into_iter().flatten() {
        report.woken += 1;
        match woken {
            Ok(woken) => {
                report.deadlines_passed += woken.deadlines_passed;
                report.lookup_events += woken.lookup_events;
                report.claims_expired += woken.claims_expired;
                report.timeouts += woken.timeouts;
                report.doubts += woken.doubts;
                report.overdue_wake_ms = report.overdue_wake_ms.max(woken.overdue_ms);
                report.rescheduled += u64::from(woken.is_rescheduled);
            }
            Err(error) => {
                report.failed += 1;
                note_error(&mut result.error, error);
            }
        }
    }
    result
}

/// Urgency of the calls of a wake queue.
const fn urgency_of(queue: WakeQueue) -> Urgency {
    match queue {
        WakeQueue::Claims => Urgency::Doubt,
        WakeQueue::Endings => Urgency::Ending,
        WakeQueue::Outcomes => Urgency::Outcome,
        WakeQueue::Dial(_) | WakeQueue::DialAny(_) | WakeQueue::Settled => Urgency::Drift,
    }
}
