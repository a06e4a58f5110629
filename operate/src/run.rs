//! Runs: plans that are carried out.
//!
//! **A run can be killed at any instruction, and goes on from any machine.** It works in pages, and stores its position after each
//! page, on the condition that nobody else has moved it. What a page did is safe to do again: an event that is in its call is
//! not queued again, and the fold ignores a repetition. A process that finds the position moved stops at once.
//!
//! **Each item is checked again before the run acts.** If the call has changed since the plan, so that it would not end in the
//! planned state, the item is skipped and named. A run makes no phone ring that its plan did not count.

mod id;
mod page;
mod stored;

use std::ops::ControlFlow;
use std::time::Duration;

use switchhook_aws::inbox::{DocumentKind, NewEvent, submit};
use switchhook_aws::queue::SentAgain;
use switchhook_domain::{Disposition, Timestamp};

use crate::act;
use crate::audit::{self, AuditRecord, Counts, Moment, Operation};
use crate::concurrent::concurrently;
use crate::copy;
use crate::dead_letters;
use crate::draft::forecast_group;
use crate::error::{Error, Refusal};
use crate::forecast::{Forecast, Step};
use crate::plan::{self, Action, Plan, PlanId, PlanItem, Verb};
use crate::quarantine;
use crate::run::page::PageWork;
use crate::run::stored::{load, refusal_of};
use crate::stack::{OPERATOR_RETENTION, Stack};

pub use id::RunId;
pub use stored::{Run, RunState, check_plan, get, list};

/// Default rate of a run, in items per second.
pub const RATE_DEFAULT: u32 = 50;
/// Largest number of items in a page, unless one call has more.
const PAGE_MAX: usize = 50;
/// Items in a page of a discard at the default rate or above. Each page searches the dead-letter queue.
const DISCARD_PAGE: usize = 1_000;
/// Calls that are checked at the same time.
const CONCURRENCY: usize = 8;

/// Operator's choices for a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub who: String,
    pub reason: String,
    /// Items per second.
    pub rate: u32,
    /// True if the phones that the plan counts may ring.
    pub allow_ringing: bool,
}

/// Function that is called after each page. It may stop the run before the next page.
pub type Progress<'a> = &'a mut (dyn FnMut(&Run) -> ControlFlow<()> + Send);

/// Run in the hands of this process.
struct Held<'a> {
    stack: &'a Stack,
    plan: Plan,
    run: Run,
    version: u64,
    /// True if another process may have done a part of the next page.
    repeats_page: bool,
}

/// Starts the run of a plan that `verb` made. After each page it calls `progress`, which may stop the run; it can be resumed.
///
/// # Errors
/// [`Refusal`] if the plan cannot be run, and nothing was done then. Any other error stops the run where it is.
pub async fn start(
    stack: &Stack,
    plan_id: &PlanId,
    verb: Verb,
    options: RunOptions,
    progress: Progress<'_>,
) -> Result<Run, Error> {
    let stack = &stack.with_unread_entries();
    audit::require_reason(&options.reason)?;
    let plan = Plan::load(stack, plan_id).await?;
    check_plan(stack, &plan, verb).await?;
    let (id, now) = (RunId::of_plan(plan_id), stack.now());
    if plan.phones > 0 && !options.allow_ringing {
        return Err(Refusal::CouldRing(plan.phones).into());
    }
    let RunOptions { who, reason, rate, allow_ringing: _ } = options;
    let run = Run {
        id,
        plan_id: plan_id.clone(),
        verb,
        who,
        reason: reason.trim().to_owned(),
        rate: rate.max(1),
        state: RunState::Unfinished,
        started_at: now,
        updated_at: now,
        position: 0,
        items: plan.items.len(),
        counts: Counts::default(),
        skipped: Vec::new(),
        left_call: false,
        holder: stack.random_ids.hex::<8>()?,
    };
    let content = serde_json::to_vec(&run).map_err(Error::Encode)?;
    if !stack.inbox.put_document(DocumentKind::Run, run.id.as_str(), &content, OPERATOR_RETENTION, now).await? {
        // If the response to this write was lost, the SDK has repeated it, and the stored run is this one.
        match load(stack, &run.id).await? {
            Some((stored, _)) if stored.holder == run.holder => {}
            Some((stored, _)) => return Err(refusal_of(&stored).into()),
            None => return Err(Refusal::UnknownRun(run.id.to_string()).into()),
        }
    }
    let held = Held { stack, plan, run, version: 1, repeats_page: false };
    held.record(Moment::Started, now).await?;
    held.carry_out(progress).await
}

/// Goes on with a run that was interrupted. If another process still carries it out, that process stops.
///
/// # Errors
/// [`Refusal`] if there is no such run or it is finished. Any other error stops the run where it is.
pub async fn resume(stack: &Stack, id: &RunId, who: &str, progress: Progress<'_>) -> Result<Run, Error> {
    let stack = &stack.with_unread_entries();
    let (plan, mut run, version) = load_unfinished(stack, id).await?;
    run.holder = stack.random_ids.hex::<8>()?;
    who.clone_into(&mut run.who);
    let mut held = Held { stack, plan, run, version, repeats_page: true };
    held.save().await?;
    held.record(Moment::Resumed, held.run.updated_at).await?;
    held.carry_out(progress).await
}

/// Reads the plan of a run that can be resumed.
///
/// # Errors
/// [`Refusal`] if there is no such run or it is finished, and the errors of the table.
pub async fn plan_to_resume(stack: &Stack, id: &RunId) -> Result<Plan, Error> {
    Ok(load_unfinished(stack, id).await?.0)
}

async fn load_unfinished(stack: &Stack, id: &RunId) -> Result<(Plan, Run, u64), Error> {
    let (run, version) = load(stack, id).await?.ok_or_else(|| Refusal::UnknownRun(id.to_string()))?;
    if run.state == RunState::Finished {
        return Err(refusal_of(&run).into());
    }
    Ok((Plan::load(stack, &run.plan_id).await?, run, version))
}

impl Held<'_> {
    async fn carry_out(mut self, progress: Progress<'_>) -> Result<Run, Error> {
        while self.run.position < self.plan.items.len() {
            let started = self.stack.now();
            let until = self.page_end();
            let steps = self.process(until).await?;
            self.run.position = until;
            self.repeats_page = false;
            self.save().await?;
            let is_stopped = progress(&self.run).is_break();
            if until < self.plan.items.len() {
                if is_stopped {
                    return Ok(self.run);
                }
                self.keep_rate(steps, started).await;
            }
        }
        // The result is recorded before the run counts as finished, so that a process that is killed here records it later.
        self.record(Moment::Finished, self.stack.now()).await?;
        self.run.state = RunState::Finished;
        self.save().await?;
        Ok(self.run)
    }

    /// Returns the end of the page that starts at the position. The items of one call are in one page.
    fn page_end(&self) -> usize {
        let items = &self.plan.items;
        let size = match self.run.verb {
            Verb::Copy => 1,
            Verb::DiscardDeadLetters | Verb::DiscardQuarantined if self.run.rate >= RATE_DEFAULT => DISCARD_PAGE,
            Verb::DiscardDeadLetters
            | Verb::DiscardQuarantined
            | Verb::Replay
            | Verb::Redrive
            | Verb::Reprocess
            | Verb::Republish
            | Verb::Verify
            | Verb::Refill
            | Verb::Stop
            | Verb::Forget => usize::try_from(self.run.rate).unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX),
        };
        let mut end = (self.run.position + size).min(items.len());
        // The messages that tell of unpublished calls are deleted last, and only if no call was left alone.
        let first_failure = items.iter().position(|item| item.action == Action::DeleteRelayFailure);
        if let Some(first) = first_failure.filter(|first| *first > self.run.position) {
            end = end.min(first);
        }
        let call_before = |index: usize| items.get(index).and_then(|item| item.call_id.as_ref());
        while end < items.len() && call_before(end).is_some() && call_before(end) == call_before(end - 1) {
            end += 1;
        }
        end
    }

    /// Waits until the steps of a page have taken as long as the rate demands.
    async fn keep_rate(&self, steps: u64, started: Timestamp) {
        let due = Duration::from_millis(steps.saturating_mul(1_000) / u64::from(self.run.rate));
        let spent = Duration::from_millis(self.stack.now().millis_since(started).unsigned_abs());
        tokio::time::sleep(due.saturating_sub(spent)).await;
    }

    /// Checks the items of a page again, and processes them. Returns the number of steps: items, or items of a copied table.
    async fn process(&mut self, until: usize) -> Result<u64, Error> {
        let (stack, plan_id, now) = (self.stack, &self.plan.id, self.stack.now());
        let mut page = self.plan.items.get(self.run.position..until).unwrap_or_default().to_vec();
        dead_letters::read_lost_events(stack, &mut page).await?;
        let groups: Vec<&[PlanItem]> = page.chunk_by(|a, b| a.call_id.is_some() && a.call_id == b.call_id).collect();
        let forecasts = groups.iter().map(|items| {
            let call_id = items.first().and_then(|item| item.call_id.clone());
            forecast_group(stack, plan_id, (call_id, items.to_vec()), now)
        });
        let forecasts = concurrently(CONCURRENCY, forecasts).await?;
        let mut work = PageWork::default();
        for (planned, (items, forecast)) in groups.into_iter().zip(forecasts) {
            self.check(planned.len(), &items, forecast, &mut work).await?;
        }
        work.mark_unfolded(self.stack).await?;
        for (item, transition) in &work.rows {
            if act::store_row(self.stack, item.action, transition).await? {
                self.run.counts.done += 1;
            } else {
                self.run.skip(item, "the call changed at the same time: plan again".to_owned());
            }
        }
        self.stack.events_queue.send_again(&work.sends).await?;
        quarantine::take_off_replayed(self.stack, &work.replayed).await?;
        for drift in &work.refolds {
            let new_event = NewEvent::from_switchhook(drift, self.run.id.as_str())?;
            drop(submit(&self.stack.inbox, &self.stack.events_queue, &new_event, drift).await?);
        }
        let mut left = act::act(self.stack, &self.plan, &work.acts).await?;
        left.extend(act::finish(self.stack, work.finishing).await?);
        for (item, reason) in left {
            let Counts { unchanged, done, .. } = &mut self.run.counts;
            *(if work.unchanged.contains(&item) { unchanged } else { done }) -= 1;
            self.run.skip(&item, reason);
        }
        let mut steps = page.len() as u64;
        for part in &work.copies {
            let counts = copy::carry_out(self.stack, &self.plan, part, self.run.rate).await?;
            let number = |items: u64| usize::try_from(items).unwrap_or(usize::MAX);
            self.run.counts.done += number(counts.copied);
            self.run.counts.unchanged += number(counts.present + counts.expired);
            steps = counts.read();
        }
        Ok(steps)
    }

    /// Decides about the items of one call. Only the first `planned_items` are in the plan. The others are the refold of a call whose
    /// effect the plan did not work out. Its events are read differently now.
    async fn check(
        &mut self,
        planned_items: usize,
        items: &[PlanItem],
        Forecast { effect, steps }: Forecast,
        work: &mut PageWork,
    ) -> Result<(), Error> {
        let changes_call =
            steps.iter().any(|step| matches!(step, Step::Send { .. } | Step::Store(_) | Step::Refold(_)));
        let call_id = items.first().and_then(|item| item.call_id.as_ref());
        let planned = call_id.and_then(|call_id| self.plan.effect_on(call_id));
        let objection = if changes_call { plan::objection } else { plan::uncounted_phone };
        let objection = effect.and_then(|effect| objection(planned, &effect));
        let stores_row = steps.iter().any(|step| matches!(step, Step::Store(_)));
        let has_added_refold = items.len() > planned_items;
        for (index, (item, step)) in items.iter().zip(steps).enumerate() {
            match (&objection, step) {
                (_, Step::Skip(reason)) => self.run.skip(item, reason),
                (_, Step::Mend(mended)) => {
                    let (event, stored) = *mended;
                    self.stack.make_foldable(&stored, &event).await?;
                    let was_quarantined = stored.disposition == Some(Disposition::Quarantined);
                    work.replayed.extend(Some(item.clone()).filter(|_| was_quarantined));
                    self.run.counts.done += 1;
                    work.finishing.extend(Some(item.clone()).filter(|item| item.action.is_finished_after_fold()));
                }
                (None, Step::ReadsDifferently(decided)) if has_added_refold || decided.is_some() => {
                    if let Some((event, stored)) = decided.map(|decided| *decided) {
                        self.stack.make_foldable(&stored, &event).await?;
                        let was_quarantined = stored.disposition == Some(Disposition::Quarantined);
                        work.replayed.extend(Some(item.clone()).filter(|_| was_quarantined));
                    }
                    self.run.counts.done += 1;
                    work.finishing.extend(Some(item.clone()).filter(|item| item.action.is_finished_after_fold()));
                }
                // The refold is left alone, so the call would stay as it is, and its dead letter would be gone.
                (Some(objection), Step::ReadsDifferently(_)) => self.run.skip(item, objection.clone()),
                (None, Step::Refold(drift)) if index >= planned_items => work.refolds.push(*drift),
                (Some(_), Step::Refold(_)) if index >= planned_items => {}
                (_, Step::Unchanged | Step::ReadsDifferently(_)) => {
                    self.run.counts.unchanged += 1;
                    work.unchanged.push(item.clone());
                    work.replayed.extend(Some(item.clone()).filter(|_| self.repeats_page));
                    work.finishing.extend(Some(item.clone()).filter(|item| item.action.is_finished_after_fold()));
                }
                (Some(objection), Step::Send { .. } | Step::Store(_) | Step::Refold(_) | Step::Act) => {
                    self.run.skip(item, objection.clone());
                }
                (None, Step::Send { event, stored }) => {
                    let mut trace_id = self.run.id.to_string();
                    if let Some(stored) = stored {
                        if !self.stack.make_foldable(&stored, &event).await? {
                            self.run.skip(item, "the event changed at the same time: plan again".to_owned());
                            continue;
                        }
                        trace_id.clone_from(&stored.trace_id);
                        let was_quarantined = stored.disposition == Some(Disposition::Quarantined) || self.repeats_page;
                        work.replayed.extend(Some(item.clone()).filter(|_| was_quarantined));
                        if stores_row {
                            work.unfolded.push((event.call_id.clone(), *stored));
                        }
                    }
                    let run = self.run.id.to_string();
                    work.finishing.extend(Some(item.clone()).filter(|item| item.action.is_finished_after_fold()));
                    work.sends.push(SentAgain { event: *event, trace_id, run });
                    self.run.counts.done += 1;
                }
                (None, Step::Store(transition)) => work.rows.push((item.clone(), *transition)),
                (None, Step::Refold(drift)) => {
                    work.refolds.push(*drift);
                    self.run.counts.done += 1;
                }
                (None, Step::Act) if item.action == Action::CopyPart => work.copies.push(item.clone()),
                (None, Step::Act) if item.action == Action::DeleteRelayFailure && self.run.left_call => {
                    self.run.skip(item, "the message stays, because a call was left alone".to_owned());
                }
                (None, Step::Act) => {
                    work.acts.push(item.clone());
                    self.run.counts.done += 1;
                }
            }
        }
        Ok(())
    }

    /// Stores the run, on the condition that no other process has stored it since.
    async fn save(&mut self) -> Result<(), Error> {
        let (stack, now) = (self.stack, self.stack.now());
        self.run.updated_at = now;
        let content = serde_json::to_vec(&self.run).map_err(Error::Encode)?;
        let id = self.run.id.as_str();
        let kind = DocumentKind::Run;
        if !stack.inbox.replace_document(kind, id, &content, self.version, OPERATOR_RETENTION, now).await? {
            // If the response to this write was lost, the SDK has repeated it, and the stored run is this one.
            let stored = load(stack, &self.run.id).await?;
            if stored.is_none_or(|(run, version)| version != self.version + 1 || run != self.run) {
                return Err(Refusal::TakenOver(self.run.id.to_string()).into());
            }
        }
        self.version += 1;
        Ok(())
    }

    /// Writes an audit record about the run.
    async fn record(&self, moment: Moment, at: Timestamp) -> Result<(), Error> {
        let Run { id, plan_id, verb, who, reason, items, counts, .. } = &self.run;
        let name = match moment {
            Moment::Started | Moment::Finished | Moment::Unmasked => moment.as_str().to_owned(),
            Moment::Resumed => format!("{}-{}", moment.as_str(), self.version),
        };
        let record = AuditRecord {
            id: format!("{id}/{name}"),
            at,
            moment,
            who: who.clone(),
            reason: reason.clone(),
            verb: Operation::Planned(*verb),
            run_id: Some(id.to_string()),
            plan_id: Some(plan_id.to_string()),
            event_id: None,
            call_id: None,
            about: None,
            items: *items,
            counts: *counts,
        };
        audit::record(self.stack, &record).await
    }
}
