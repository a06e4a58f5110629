//! Verifies calls: folds the events of each call from the inbox again, and compares the result with the row.
//!
//! **A row that was lost is found by its events.** The index of received events names the call of each event, so a call that has
//! events and no row is reported. Its events are queued again to rebuild it.
//!
//! **A placed call is also compared with what the inbox records of it**: the request that created it, its dials, and its
//! cancellation. So a row that was restored to an earlier time gets its forgotten parts back.

mod entity;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use switchhook_aws::calls::Resolved;
use switchhook_aws::inbox::{is_kept_without_event, minute_of};
use switchhook_domain::{
    AttemptKey, AttemptRecord, Call, CallId, Difference, EventId, Origin, ProviderEvent, StopReason, Timestamp,
    differences,
};
use switchhook_providers::appointment_call_id;

use crate::concurrent::concurrently;
use crate::draft::Draft;
use crate::error::Error;
use crate::forecast;
use crate::plan::{Action, Plan, PlanItem, Verb};
use crate::replay::received_around;
use crate::selection::{self, Progress, Selected};
use crate::stack::Stack;

/// Calls, each with the foldable events that it received in a period.
type CallEvents = BTreeMap<CallId, Vec<EventId>>;

/// Time after its receipt in which an event may still be on its way to its call.
const ARRIVAL_MARGIN: Duration = Duration::from_secs(2 * 60);
/// Period in which the events of a call without a row are searched, if the operator names no period.
pub const SEARCHED_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);
/// Limit on the index pages that are read for one call without a row, or for one entity.
const PAGES_MAX: u64 = 100_000;
/// Calls that are verified at the same time.
const CONCURRENCY: usize = 8;
/// Times that a call is read again if its row changes meanwhile.
const READS_MAX: usize = 3;

/// Names of differences between a row and what the inbox records of its placed call.
const FORGOTTEN_PLAN: &str = "forgotten_plan";
const FORGOTTEN_DIAL: &str = "forgotten_dial";
const FORGOTTEN_CANCELLATION: &str = "forgotten_cancellation";
const FORGOTTEN: [&str; 3] = [FORGOTTEN_PLAN, FORGOTTEN_DIAL, FORGOTTEN_CANCELLATION];

/// Calls that are verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyFilter {
    /// These calls. Ids of attempts, such as `retell:call_1`, are followed to their calls.
    Calls(Vec<CallId>),
    /// The calls of an appointment.
    Appointment(String),
    /// All calls that received an event, or were settled, since `since`.
    Since,
}

/// Result of verifying calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Calls whose row matches their events.
    pub matching: usize,
    /// Calls that do not match, or could not be verified.
    pub findings: Vec<Finding>,
    /// Times of the findings, if the calls were searched by time. A search since this time, or an earlier one, has all that this search
    /// has found of the call.
    #[serde(skip)]
    pub found_at: BTreeMap<CallId, Timestamp>,
}

/// Call that does not match its events, or could not be verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub call_id: CallId,
    #[serde(flatten)]
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum Problem {
    /// The row says something else than the events.
    Different {
        differences: Vec<NamedDifference>,
        /// Events that the row lacks, and events that its entity must fold again to be forgotten.
        missing: Vec<EventId>,
        /// True if the inbox records something about the placed call that the row lacks.
        is_forgetful: bool,
    },
    /// There is no row, although the inbox holds events of the call, or the request that created it.
    Lost {
        events: Vec<EventId>,
        /// True if Switchhook places the call.
        is_placed: bool,
    },
    /// There is no row, and the inbox holds no event of the call in the searched period.
    Unknown,
    /// The row, or an event of the call, cannot be read.
    Unreadable { error: String },
    /// Too many events of other calls arrived in the same minutes to read those of this call.
    TooManyEvents,
    /// The index has too many pages for the searched period to find the events of this call.
    TooFarBack,
}

/// Difference between a row and its events, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedDifference {
    /// Name for programs, for example `missing_event`.
    pub name: &'static str,
    pub text: String,
}

impl From<Difference> for NamedDifference {
    fn from(difference: Difference) -> Self {
        Self { name: difference.name(), text: difference.to_string() }
    }
}

impl VerifyReport {
    /// True if calls were verified, and each of them matches its events.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.matching > 0 && self.findings.is_empty()
    }

    /// True if there is a finding that a repair can mend.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        self.findings.iter().any(|finding| match &finding.problem {
            // The row of an entity is mended by its events alone.
            Problem::Different { missing, .. } if finding.call_id.is_entity() => !missing.is_empty(),
            Problem::Different { .. } | Problem::Lost { .. } => true,
            Problem::Unknown | Problem::Unreadable { .. } | Problem::TooManyEvents | Problem::TooFarBack => false,
        })
    }
}

/// Verifies the calls of a filter. `since` limits the search for events of calls that have no row.
///
/// # Errors
/// [`Refusal::FutureTime`](crate::Refusal::FutureTime), and the errors of the tables. A row or an event that cannot be read is a finding, not an
/// error.
pub async fn verify(
    stack: &Stack,
    filter: &VerifyFilter,
    since: Timestamp,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    selection::refuse_future(stack, since).await?;
    let now = stack.now();
    let mut found_at = BTreeMap::new();
    let named: CallEvents = match filter {
        VerifyFilter::Calls(calls) => calls.iter().map(|id| (id.clone(), Vec::new())).collect(),
        VerifyFilter::Appointment(appointment_id) => {
            let mut calls = stack.calls.calls_of_appointment(appointment_id).await?;
            // The index does not hold a call whose row was lost. The id of a call that another system placed tells its
            // appointment.
            if calls.is_empty() {
                calls.push(appointment_call_id(appointment_id));
            }
            calls.into_iter().map(|id| (id, Vec::new())).collect()
        }
        VerifyFilter::Since => {
            let found = selection::calls_since(&stack.inbox, &stack.calls, since, now, progress).await?;
            found_at = found.iter().map(|(id, selected)| (id.clone(), selected.first_at())).collect();
            let events = |selected: Selected| selected.events.into_iter().map(|(_, id)| id).collect();
            found.into_iter().map(|(id, selected)| (id, events(selected))).collect()
        }
    };
    let is_search = *filter == VerifyFilter::Since;
    let (entities, named): (CallEvents, CallEvents) = named.into_iter().partition(|(key, _)| key.is_entity());
    let resolved = named.into_iter().map(|(id, events)| async move {
        let searched_as = id.clone();
        Ok::<_, Error>((searched_as, locate(stack, id, events, is_search).await?))
    });
    let resolved = concurrently(CONCURRENCY, resolved).await?;
    let mut report = VerifyReport::default();
    // Only the ids are kept. Each row is read again when it is compared, so that few of them are in memory at a time.
    let mut rows = CallEvents::new();
    let mut lost = CallEvents::new();
    for (searched_as, located) in resolved {
        if let Some(at) = found_at.get(&searched_as).copied() {
            found_at.entry(located.call_id().clone()).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
        match located {
            Located::Row(call_id, events) => rows.entry(call_id).or_default().extend(events),
            Located::NoRow(call_id, events) => lost.entry(call_id).or_default().extend(events),
            Located::Unreadable(call_id, error) => {
                report.findings.push(Finding { call_id, problem: Problem::Unreadable { error } });
            }
        }
    }
    // A search by time has read all minutes that follow.
    let unread_until = if is_search { since } else { Timestamp::from_millis(i64::MAX) };
    let verified = rows.into_iter().map(|(call_id, events)| verify_call(stack, call_id, events, unread_until));
    for finding in concurrently(CONCURRENCY, verified).await? {
        match finding {
            Some(finding) => report.findings.push(finding),
            None => report.matching += 1,
        }
    }
    let period = (!is_search).then_some((since, now));
    let looked_up = lost.into_iter().map(|(call_id, events)| lost_call(stack, call_id, events, period, now));
    report.findings.extend(concurrently(CONCURRENCY, looked_up).await?.into_iter().flatten());
    let checked = entities.into_iter().map(|(key, events)| entity::verify(stack, key, events, period));
    for finding in concurrently(CONCURRENCY, checked).await? {
        match finding {
            Some(finding) => report.findings.push(finding),
            None => report.matching += 1,
        }
    }
    report.findings.sort_by(|a, b| a.call_id.cmp(&b.call_id));
    found_at.retain(|call_id, _| report.findings.binary_search_by(|finding| finding.call_id.cmp(call_id)).is_ok());
    report.found_at = found_at;
    Ok(report)
}

/// Plans the repair of findings: a refold of every row that differs, and a replay of the events of every row that was lost. Before
/// that, the row of a placed call is rebuilt from what the inbox records of it. A plan that reached its limit has the calls that were found
/// first.
///
/// # Errors
/// The errors of the tables.
pub async fn plan_repair(
    stack: &Stack,
    filter: &VerifyFilter,
    report: &VerifyReport,
    items_max: usize,
) -> Result<Plan, Error> {
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| report.found_at.get(&finding.call_id));
    let mut items: Vec<PlanItem> = Vec::new();
    let mut left_out = None;
    for finding in findings {
        let mut of_call = repair_of(finding);
        let room = items_max - items.len();
        if of_call.len() > room {
            left_out = Some(finding);
            // A call without some of its events has another state, so it is left to the next plan. One that no plan can hold is repaired in
            // parts.
            of_call.truncate(if items.is_empty() { room } else { 0 });
        }
        items.extend(of_call);
        if left_out.is_some() {
            break;
        }
    }
    let capped = left_out.is_some();
    let continue_at = left_out.and_then(|finding| report.found_at.get(&finding.call_id)).copied();
    let examined = report.matching + report.findings.len();
    let filter = json!({ "verify": filter });
    Draft { verb: Verb::Verify, filter, items, capped, continue_at, examined, not_found: Vec::new() }
        .into_plan(stack)
        .await
}

/// Returns the items that repair a call. Empty if nothing can.
fn repair_of(Finding { call_id, problem }: &Finding) -> Vec<PlanItem> {
    let rebuild = || PlanItem::of_call(Action::Rebuild, call_id.clone());
    let replay = |id: &EventId| PlanItem::of_event(Action::Replay, id.clone(), Some(call_id.clone()));
    match problem {
        Problem::Different { differences, missing, is_forgetful } => {
            let is_refolded = differences.iter().any(|difference| !FORGOTTEN.contains(&difference.name));
            let refold =
                (is_refolded && !call_id.is_entity()).then(|| PlanItem::of_call(Action::Refold, call_id.clone()));
            is_forgetful.then(rebuild).into_iter().chain(missing.iter().map(replay)).chain(refold).collect()
        }
        Problem::Lost { events, is_placed } => {
            is_placed.then(rebuild).into_iter().chain(events.iter().map(replay)).collect()
        }
        Problem::Unknown | Problem::Unreadable { .. } | Problem::TooManyEvents | Problem::TooFarBack => Vec::new(),
    }
}

/// Place to which the id of a call leads.
enum Located {
    /// There is a row under this id. The events were received for the call, under this id or under an alias.
    Row(CallId, Vec<EventId>),
    /// There is no row under this id, which is the end of an alias if there is one.
    NoRow(CallId, Vec<EventId>),
    Unreadable(CallId, String),
}

impl Located {
    const fn call_id(&self) -> &CallId {
        match self {
            Self::Row(call_id, _) | Self::NoRow(call_id, _) | Self::Unreadable(call_id, _) => call_id,
        }
    }
}

/// Reads the row of a call. A search has found its events. Those of a named call are looked for here.
async fn locate(stack: &Stack, call_id: CallId, mut events: Vec<EventId>, is_search: bool) -> Result<Located, Error> {
    match stack.calls.resolve(&call_id).await {
        Ok(Resolved { call: Some(call), alias: _ }) => {
            if !is_search {
                events.extend(received_around(stack, &call).await?);
            }
            Ok(Located::Row(call.call_id, events))
        }
        Ok(Resolved { call: None, alias }) => Ok(Located::NoRow(alias.map_or(call_id, |alias| alias.call_id), events)),
        Err(error) if error.is_unreadable() => Ok(Located::Unreadable(call_id, error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Compares a row with its events. If the row differs, it is read again: an event may have been folded meanwhile.
///
/// `received` are events of the call that were received since the operator's time, or around the times that its row knows. Others are searched
/// around its attempts, up to the minute of `unread_until`.
async fn verify_call(
    stack: &Stack,
    call_id: CallId,
    received: Vec<EventId>,
    unread_until: Timestamp,
) -> Result<Option<Finding>, Error> {
    let finding = |call_id: &CallId, problem| Ok(Some(Finding { call_id: call_id.clone(), problem }));
    let mut call = match stack.calls.get_call(&call_id).await {
        Ok(Some(call)) => call,
        // The row has expired meanwhile.
        Ok(None) => return Ok(None),
        Err(error) if error.is_unreadable() => {
            return finding(&call_id, Problem::Unreadable { error: error.to_string() });
        }
        Err(error) => return Err(error.into()),
    };
    for _ in 0..READS_MAX {
        let now = stack.now();
        let rebuilt = match forecast::rebuild(stack, Some(&call), &call.call_id, now).await {
            Ok(rebuilt) => rebuilt.map(|next| next.call),
            Err(error) if error.is_unreadable() => {
                return finding(&call.call_id, Problem::Unreadable { error: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        };
        let mut differences_found = rebuilt.as_ref().map(|rebuilt| forgotten(&call, rebuilt)).unwrap_or_default();
        let is_forgetful = !differences_found.is_empty();
        // The events of a dial are searched around its time, so a forgotten dial leads to events that the row lacks too.
        let row = rebuilt.unwrap_or_else(|| call.clone());
        let events = match events_of(stack, &row, &received, unread_until, now).await {
            Ok(Some(events)) => events,
            Ok(None) => return finding(&call.call_id, Problem::TooManyEvents),
            Err(error) if error.is_unreadable() => {
                return finding(&call.call_id, Problem::Unreadable { error: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        };
        let is_kept = |entry: &_| is_kept_without_event(&row, entry, now);
        let found = differences(&row, &events, is_kept, now.minus(ARRIVAL_MARGIN));
        let missing_event = |difference: &Difference| match difference {
            Difference::MissingEvent { event_id, .. } => Some(event_id.clone()),
            Difference::UnknownEvent { .. }
            | Difference::WrongEvent { .. }
            | Difference::WrongDisposition { .. }
            | Difference::Job { .. }
            | Difference::Attempt { .. }
            | Difference::MissingAnnouncements { .. }
            | Difference::AnnouncementWithoutSource { .. }
            | Difference::NotForgotten
            | Difference::WakeUp { .. } => None,
        };
        let missing: Vec<EventId> = found.iter().filter_map(missing_event).collect();
        differences_found.extend(found.into_iter().map(NamedDifference::from));
        if differences_found.is_empty() {
            return Ok(None);
        }
        match stack.calls.get_call(&call.call_id).await? {
            Some(again) if again.version != call.version => call = again,
            Some(_) | None => {
                let differences = differences_found;
                return finding(&call.call_id, Problem::Different { differences, missing, is_forgetful });
            }
        }
    }
    // The row changes all the time, so its events arrive now. It is verified when they have arrived.
    Ok(None)
}

/// Reads the events of a call: those that its row names, those around its attempts up to the minute of `unread_until`, and those of
/// `received`. `None` if there are too many.
async fn events_of(
    stack: &Stack,
    row: &Call,
    received: &[EventId],
    unread_until: Timestamp,
    now: Timestamp,
) -> Result<Option<Vec<ProviderEvent>>, switchhook_aws::Error> {
    let Some(mut events) = stack.inbox.events_of_call_until(row, unread_until, now).await? else { return Ok(None) };
    let is_known = |id: &EventId| row.is_drift_found_id(id) || events.iter().any(|event| event.event_id == *id);
    let others: Vec<EventId> = received.iter().filter(|id| !is_known(id)).cloned().collect();
    for mut event in stack.inbox.read_by_id(without_discarded(stack, others).await?).await? {
        if event.call_id != row.call_id {
            let alias = stack.calls.resolve(&event.call_id).await?.alias;
            let alias = alias.filter(|alias| alias.call_id == row.call_id && event.origin != Origin::Switchhook);
            // Switchhook's own events describe a call that was merged into this one.
            let Some(alias) = alias else { continue };
            event.call_id = alias.call_id;
            event.attempt = Some(alias.attempt);
        }
        events.push(event);
    }
    Ok(Some(events))
}

/// Leaves out the events that an operator has discarded: no row lacks them.
async fn without_discarded(stack: &Stack, ids: Vec<EventId>) -> Result<BTreeSet<EventId>, switchhook_aws::Error> {
    let discarded = stack.inbox.discarded(&ids).await?;
    Ok(ids.into_iter().filter(|id| !discarded.contains(id)).collect())
}

/// Describes what the inbox records of a placed call and its row lacks. `rebuilt` is the row with all of it.
fn forgotten(row: &Call, rebuilt: &Call) -> Vec<NamedDifference> {
    let mut found = Vec::new();
    if row.plan.is_none() && rebuilt.plan.is_some() {
        let text = "the inbox records the request that created the call, and the row has no plan".to_owned();
        found.push(NamedDifference { name: FORGOTTEN_PLAN, text });
    }
    for record in &rebuilt.attempt_records {
        let is_known = row.attempt_records.iter().any(|other| dial_of(other) == dial_of(record));
        if let Some(key) = record.key.as_ref().filter(|_| !is_known) {
            let text = format!("the inbox records dial {key} of the call, and the row does not");
            found.push(NamedDifference { name: FORGOTTEN_DIAL, text });
        }
    }
    let is_canceled = rebuilt.stop_reason.is_some_and(StopReason::is_recorded);
    if row.stop_reason.is_none() && is_canceled {
        let text = "the inbox records that the call was canceled or stopped, and the row does not".to_owned();
        found.push(NamedDifference { name: FORGOTTEN_CANCELLATION, text });
    }
    found
}

/// Identifies a dial.
fn dial_of(record: &AttemptRecord) -> (Option<&AttemptKey>, Option<&str>) {
    (record.key.as_ref(), record.dial_key.as_deref())
}

/// Returns the finding about a call without a row. Only an event of a provider or a creation makes a call, so a call without one
/// was never stored. If the operator named the call, its events are those that arrived in the period. `None` if there is nothing to report.
async fn lost_call(
    stack: &Stack,
    call_id: CallId,
    mut events: Vec<EventId>,
    period: Option<(Timestamp, Timestamp)>,
    now: Timestamp,
) -> Result<Option<Finding>, Error> {
    if let Some((since, until)) = period {
        let minutes = minute_of(since)..=minute_of(until);
        let Some(found) = stack.inbox.ids_received_in(minutes, &call_id, PAGES_MAX).await? else {
            return Ok(Some(Finding { call_id, problem: Problem::TooFarBack }));
        };
        events = found;
    }
    let read = async {
        let events = stack.inbox.read_by_id(without_discarded(stack, events).await?).await?;
        Ok::<_, switchhook_aws::Error>((events, stack.inbox.creation(&call_id).await?))
    };
    let (mut events, creation) = match read.await {
        Ok(read) => read,
        Err(error) if error.is_unreadable() => {
            return Ok(Some(Finding { call_id, problem: Problem::Unreadable { error: error.to_string() } }));
        }
        Err(error) => return Err(error.into()),
    };
    events.retain(|event| event.received_at <= now.minus(ARRIVAL_MARGIN));
    let is_own = |origin| match origin {
        Origin::Switchhook => true,
        Origin::Provider(_) => false,
    };
    // A call that is being created has no row yet.
    let is_placed = creation.is_some_and(|creation| creation.created_at <= now.minus(ARRIVAL_MARGIN));
    let is_lost = is_placed || events.iter().any(|event| !is_own(event.origin));
    // Switchhook's own events are refused until an event of a provider has made the call.
    events.sort_by_key(|event| (is_own(event.origin), event.received_at));
    let problem = if is_lost {
        Problem::Lost { events: events.into_iter().map(|event| event.event_id).collect(), is_placed }
    } else if period.is_none() {
        return Ok(None);
    } else {
        Problem::Unknown
    };
    Ok(Some(Finding { call_id, problem }))
}
