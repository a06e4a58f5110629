//! Lists of calls, each from one index and in its order.
//!
//! **A page reads a bounded number of rows.** The index holds keys only, so each row is read, and calls that do not match the
//! filters are left out. So a page may hold few calls, or none, and still have a next page: it says how many it examined.
//!
//! Between two pages, calls may change. A call that changes may move in the list, and be on no page or on two. All others are on
//! exactly one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use switchhook_aws::calls::{Calls, Loaded, Merge, Order, Position, Resolved, WakeQueue};
use switchhook_aws::inbox::ReceivedEvent;
use switchhook_domain::{Call, CallId, JobState, Provider, STUCK_AFTER, Timestamp};

use super::{StuckCall, StuckKind, judge};
use crate::error::{Error, Refusal};
use crate::mask::Masker;
use crate::received::{Scope, Walk, chunk_len};
use crate::stack::Stack;
use crate::timeline::{CallSummary, is_late};

/// Limit on the rows that a page reads.
const ROWS_MAX: usize = 200;
/// Rows that are read at once if only some of them match.
const CHUNK: usize = 50;
/// Events that are followed to their calls at once.
const EVENTS_CHUNK: usize = 16;

/// List of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// Calls of the latest received events, the latest first.
    Recent,
    /// Calls that are claimed or dialled, or whose ending or outcome is awaited. The latest wake-up is first.
    InFlight,
    /// Calls that wait to be placed, the earliest due time first.
    Waiting,
    /// Calls that have not moved for ten minutes. The earliest wake-up is first, and within a page the longest stuck.
    Stuck,
    /// Calls that were dialled, while it is unknown if the provider placed them. The latest wake-up is first.
    InDoubt,
    /// Settled calls, the latest first.
    Settled,
}

impl Tab {
    pub const ALL: [Self; 6] = [Self::Recent, Self::InFlight, Self::Waiting, Self::Stuck, Self::InDoubt, Self::Settled];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::InFlight => "in_flight",
            Self::Waiting => "waiting",
            Self::Stuck => "stuck",
            Self::InDoubt => "in_doubt",
            Self::Settled => "settled",
        }
    }

    /// Returns the list of this name. `None` if there is no such list.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.as_str() == name)
    }

    /// Returns the wake queues of the list, and its order. `None` for the list by received events.
    async fn queues(self, calls: &Calls) -> Result<Option<(Vec<WakeQueue>, Order)>, Error> {
        Ok(match self {
            Self::Recent => None,
            Self::InFlight => Some((WakeQueue::OPEN.to_vec(), Order::LatestFirst)),
            Self::InDoubt => Some((vec![WakeQueue::Claims], Order::LatestFirst)),
            Self::Waiting => Some((calls.pending_queues().await?, Order::EarliestFirst)),
            Self::Stuck => {
                let queues = [calls.pending_queues().await?.as_slice(), &WakeQueue::OPEN].concat();
                Some((queues, Order::EarliestFirst))
            }
            Self::Settled => Some((vec![WakeQueue::Settled], Order::LatestFirst)),
        })
    }
}

/// Calls that a page shows.
#[derive(Clone, Debug)]
pub struct CallFilter {
    pub tab: Tab,
    pub job: Option<JobState>,
    /// State of the latest attempt, as it is shown: one of [`switchhook_domain::lifecycle_labels`].
    pub lifecycle: Option<String>,
    /// Provider of any attempt, or of the next one.
    pub provider: Option<Provider>,
    /// Number of calls to show.
    pub limit: usize,
    /// [`CallPage::next`] of the page before.
    pub cursor: Option<String>,
}

impl CallFilter {
    const fn has_filters(&self) -> bool {
        self.job.is_some() || self.lifecycle.is_some() || self.provider.is_some()
    }

    fn matches(&self, listed: &ListedCall) -> bool {
        let ListedCall { call, stuck, .. } = listed;
        let is_of_tab = match self.tab {
            Tab::Recent | Tab::InFlight | Tab::Waiting | Tab::Settled => true,
            Tab::Stuck => stuck.is_some(),
            Tab::InDoubt => stuck.as_ref().is_some_and(|stuck| stuck.kind == StuckKind::InDoubt),
        };
        let is_provider = |wanted: Provider| {
            let shown = call.attempts.iter().map(|attempt| attempt.provider).chain([call.provider]);
            shown.flatten().any(|provider| provider == wanted)
        };
        is_of_tab
            && self.job.is_none_or(|job| call.job.state == Some(job.as_str()))
            && self.lifecycle.as_deref().is_none_or(|wanted| call.lifecycle == Some(wanted))
            && self.provider.is_none_or(is_provider)
    }
}

/// Call of a list. It holds no phone number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedCall {
    #[serde(flatten)]
    pub call: CallSummary,
    /// The other person's number, masked.
    pub who: Option<String>,
    /// Number of events that arrived late.
    pub late_events: usize,
    /// Reason why the call is stuck, and its next step. `None` if it moves or is settled.
    pub stuck: Option<StuckCall>,
}

impl ListedCall {
    /// Returns what a list shows of a call. Lists of one page share a masker, so that equal numbers get equal letters.
    #[must_use]
    pub fn of(call: &Call, masker: &mut Masker, now: Timestamp) -> Self {
        Self {
            call: CallSummary::of(call),
            who: call.party().map(|party| masker.number(&party)),
            late_events: call.history.iter().filter(|entry| !entry.event.implied && is_late(entry)).count(),
            stuck: if call.is_settled() { None } else { judge(call, now, STUCK_AFTER) },
        }
    }
}

/// Page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallPage {
    pub calls: Vec<ListedCall>,
    /// Calls whose rows cannot be read.
    pub unreadable: Vec<CallId>,
    /// Number of calls that were examined to apply the filters.
    pub examined: usize,
    /// Time of receipt down to which the page examined events. `None` if the list does not follow events.
    pub examined_since: Option<String>,
    /// Time of receipt before which the page examined events. `None` if the list does not follow events.
    pub examined_until: Option<String>,
    /// Number of events of that span, also of those that are in no call.
    pub events: usize,
    /// Position at which the next page begins. `None` at the end.
    pub next: Option<String>,
}

/// Reads a page of a list.
///
/// # Errors
/// A read failed, or the cursor is of no page of this list.
pub async fn list(stack: &Stack, filter: &CallFilter) -> Result<CallPage, Error> {
    match filter.tab.queues(&stack.calls).await? {
        Some((queues, order)) => by_queue(stack, filter, &queues, order).await,
        None => by_event(stack, filter).await,
    }
}

async fn by_queue(stack: &Stack, filter: &CallFilter, queues: &[WakeQueue], order: Order) -> Result<CallPage, Error> {
    let now = stack.now();
    let overdue = now.minus(STUCK_AFTER);
    // A call that is due later is not stuck.
    let latest = |queue: WakeQueue| {
        if filter.tab == Tab::Stuck && queue.is_pending() { overdue } else { Timestamp::MAX }
    };
    let start = filter.cursor.as_deref().map(|text| {
        Position::parse(text).filter(|start| queues.contains(&start.queue)).ok_or(Refusal::UnknownPosition)
    });
    let mut last = start.transpose()?;
    let (mut page, mut masker, mut rows) = (CallPage::default(), Masker::new(), 0);
    let all_match = !filter.has_filters() && !matches!(filter.tab, Tab::Stuck | Tab::InDoubt);
    let size = i32::try_from(filter.limit).unwrap_or(i32::MAX);
    let mut merge = Merge::new(&stack.calls, queues, order, latest, last.as_ref(), size);
    let mut seen = BTreeSet::new();
    let mut is_cut = false;
    while page.calls.len() < filter.limit && rows < ROWS_MAX {
        let wanted = if all_match { filter.limit - page.calls.len() } else { CHUNK };
        let mut entries = Vec::new();
        while entries.len() < wanted.min(ROWS_MAX - rows)
            && let Some(next) = merge.next().await?
        {
            entries.push(next);
        }
        if entries.is_empty() {
            break;
        }
        rows += entries.len();
        let ids: Vec<CallId> = entries.iter().map(|at| at.entry.call_id.clone()).collect();
        let Loaded { calls, unreadable } = stack.calls.load(ids).await?;
        let mut calls: BTreeMap<CallId, Call> = calls.into_iter().map(|call| (call.call_id.clone(), call)).collect();
        for at in entries {
            if page.calls.len() == filter.limit {
                is_cut = true;
                break;
            }
            page.examined += 1;
            let id = at.entry.call_id.clone();
            last = Some(at);
            // A call that changes its wake queue while it is listed may appear in both.
            let Some(call) = calls.remove(&id).filter(|_| seen.insert(id.clone())) else {
                page.unreadable.extend(unreadable.iter().map(|(id, _)| id).find(|known| **known == id).cloned());
                continue;
            };
            let listed = ListedCall::of(&call, &mut masker, now);
            page.calls.extend(Some(listed).filter(|listed| filter.matches(listed)));
        }
    }
    if is_cut || !merge.is_at_end().await? {
        page.next = last.map(|last| last.to_cursor()).transpose()?;
    }
    if filter.tab == Tab::Stuck {
        page.calls.sort_by_key(|listed| listed.stuck.as_ref().map(|stuck| stuck.since));
    }
    Ok(page)
}

/// Lists the calls of the latest events. A call stands where its latest event is.
async fn by_event(stack: &Stack, filter: &CallFilter) -> Result<CallPage, Error> {
    let now = stack.now();
    let start = filter
        .cursor
        .as_deref()
        .map(|text| Timestamp::parse_rfc3339(text).ok_or(Refusal::UnknownPosition))
        .transpose()?;
    // An event that arrives right now is shown too.
    let from = start.unwrap_or(now.plus(Duration::from_secs(1)));
    let since = now.minus(stack.inbox_retention());
    let mut walk = Walk::new(stack, Scope::All, since, from);
    let (mut page, mut masker, mut until) = (CallPage::default(), Masker::new(), from);
    let (mut seen, mut shown) = (BTreeSet::new(), BTreeSet::new());
    let mut found: Vec<(Timestamp, ListedCall)> = Vec::new();
    let mut arrived: Vec<Timestamp> = Vec::new();
    let is_full = |found: usize, examined: usize| found >= filter.limit || examined + EVENTS_CHUNK > ROWS_MAX;
    while !is_full(found.len(), page.examined)
        && let Some(mut events) = walk.next().await?
    {
        until = walk.until;
        arrived.extend(events.iter().map(|event| event.received_at));
        events.retain(|event| !event.decided);
        while !events.is_empty() {
            let rest = events.split_off(chunk_len(&events, EVENTS_CHUNK));
            let last = events.last().map(|event| event.received_at);
            let new = events.into_iter().filter_map(|event| of_new_call(event, &mut seen));
            events = rest;
            let (times, ids): (Vec<Timestamp>, Vec<CallId>) = new.unzip();
            for (at, (id, read)) in times.into_iter().zip(stack.calls.resolve_all(ids).await) {
                page.examined += 1;
                match read {
                    Ok(Resolved { call: Some(call), .. }) => {
                        if shown.insert(call.call_id.clone()) && is_older(&call, start) {
                            let listed = ListedCall::of(&call, &mut masker, now);
                            found.extend(Some((at, listed)).filter(|(_, listed)| filter.matches(listed)));
                        }
                    }
                    Ok(Resolved { call: None, .. }) => {}
                    Err(error) if error.is_unreadable() => {
                        page.unreadable.push(id);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if let (false, Some(last)) = (events.is_empty(), last)
                && is_full(found.len(), page.examined)
            {
                until = last;
                break;
            }
        }
    }
    if let Some((last, _)) = found.get(..filter.limit).and_then(|page| page.last()).cloned() {
        let all = found.len();
        found.retain(|(at, _)| *at >= last);
        until = if found.len() < all { last } else { until };
    }
    page.calls = found.into_iter().map(|(_, listed)| listed).collect();
    page.examined_since = Some(until.max(since).to_string());
    page.examined_until = Some(start.unwrap_or(now).to_string());
    page.events = arrived.into_iter().filter(|at| *at >= until).count();
    page.next = (until > since).then(|| until.to_string());
    Ok(page)
}

/// Returns the call of an event, if no event before it is of the same call.
fn of_new_call(event: ReceivedEvent, seen: &mut BTreeSet<CallId>) -> Option<(Timestamp, CallId)> {
    let call_id = event.call_id?;
    seen.insert(call_id.clone()).then_some((event.received_at, call_id))
}

/// True if the latest event of the call arrived before the page. Else the call is on an earlier page.
fn is_older(call: &Call, start: Option<Timestamp>) -> bool {
    let latest = call.history.iter().map(|entry| entry.received_at).max();
    start.zip(latest).is_none_or(|(start, latest)| latest < start)
}
