//! The list of received events, the latest first.
//!
//! **The number of queries of a page is bounded.** A page says which span it examined, and where the next one starts.
//!
//! **An event with trouble is found however many others have arrived since**, because the index of trouble names it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use switchhook_aws::calls::Resolved;
use switchhook_aws::inbox::{Attention, AttentionKind, ReceivedEvent, first_receipt, minute_of};
use switchhook_domain::{Call, CallId, EventId, Origin, Timestamp};
use switchhook_providers::ids_of;

use super::{AHEAD, EventLine, Fate, Fates, UnreadableEvent};
use crate::attention;
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::Error;
use crate::received::{MinuteCount, QUERIES_MAX, Scope, Walk, chunk_len, read_minute};
use crate::stack::Stack;

/// Limits on the events that a page reads to apply the filters. A page examines as many as it may show, within these limits. With
/// their notes and the rows of their calls, a small page reads at most 200 items.
const EXAMINED_MIN: usize = 64;
const EXAMINED_MAX: usize = 200;
/// Largest number of events of each minute among which the events of one call are looked for.
const BUCKET_LIMIT: i32 = 250;
/// Minutes before the first receipt of an attempt, and after its last event, in which the events of a call are looked for.
const BEFORE_MINUTES: i64 = 2;
const AFTER_MINUTES: i64 = 15;

/// Status of an event that has no disposition, and no note.
const QUEUED: &str = "queued";

/// Events that a list shows.
#[derive(Clone, Debug)]
pub struct Filter {
    pub status: Option<String>,
    pub provider: Option<Origin>,
    pub event_type: Option<String>,
    pub call: Option<CallId>,
    /// Earliest time of receipt. For a status that [`mark_of`] knows, the earliest time of the trouble.
    pub since: Timestamp,
    /// Time of receipt, or of the trouble, before which events are shown. Nothing is looked for in the future.
    pub until: Timestamp,
    /// Number of events to show. A page never ends between two events of one millisecond, so it may have a few more.
    pub limit: usize,
}

/// Page of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventPage {
    /// The latest first.
    pub events: Vec<EventLine>,
    /// Events that this program cannot read. The filters for a type and a status do not apply to them.
    pub unreadable: Vec<UnreadableEvent>,
    /// Earliest time of receipt that the page examined.
    pub examined_since: String,
    pub examined_until: String,
    /// Number of events in that span that were read to apply the filters.
    pub examined: usize,
    /// Number of queries of the indexes.
    pub queries: usize,
    /// Number of events of each minute that was read, the latest minute first. The filters do not apply to it. Empty for the
    /// events of one call, and for those that are found by their trouble.
    pub minutes: Vec<MinuteCount>,
    /// `until` of the next page. `None` if the whole span was examined.
    pub next_until: Option<String>,
}

/// Returns the kind of trouble under which events of this status are listed, unless they are those of one call. `None` if they are found by their
/// time of receipt.
#[must_use]
pub fn mark_of(status: &str) -> Option<AttentionKind> {
    match status {
        "retrying" | QUEUED => Some(AttentionKind::Retrying),
        "dead_lettered" => Some(AttentionKind::DeadLettered),
        _ => None,
    }
}

/// Lists received events, the latest first. The events of one call are found by its history and by the list of events that were not folded in
/// time. They are also looked for in the minutes around its attempts and its creation. If its row is missing or cannot be read, they are looked for back from `until`.
///
/// # Errors
/// A read failed.
pub async fn list(stack: &Stack, filter: &Filter) -> Result<EventPage, Error> {
    // No query is spent on minutes that have not come.
    let until = filter.until.min(stack.now().plus(AHEAD)).max(filter.since);
    let filter = &Filter { until, ..filter.clone() };
    let Some(call_id) = &filter.call else {
        return match filter.status.as_deref().and_then(mark_of) {
            Some(kind) => by_mark(stack, kind, filter).await,
            None => by_time(stack, Scope::All, filter).await,
        };
    };
    match stack.calls.resolve_eventual(call_id).await {
        Ok(Resolved { call: Some(call), alias: _ }) => of_call(stack, &call, filter).await,
        Ok(Resolved { call: None, alias: _ }) => by_time(stack, Scope::Calls(vec![call_id.clone()]), filter).await,
        // Its events can be read, and their lines name the error of the row.
        Err(error) if error.is_unreadable() => by_time(stack, Scope::Calls(vec![call_id.clone()]), filter).await,
        Err(error) => Err(error.into()),
    }
}

async fn by_time(stack: &Stack, scope: Scope, filter: &Filter) -> Result<EventPage, Error> {
    let examined_max = filter.limit.clamp(EXAMINED_MIN, EXAMINED_MAX);
    let (mut until, mut examined) = (filter.until, 0);
    let Fates { mut found, mut unreadable } = Fates::default();
    let mut walk = Walk::new(stack, scope, filter.since, filter.until);
    while found.len() < filter.limit
        && examined < examined_max
        && let Some(mut events) = walk.next().await?
    {
        until = walk.until;
        events.retain(|event| is_wanted(event, filter));
        while !events.is_empty() {
            let rest = events.split_off(chunk_len(&events, CONCURRENCY));
            let last = events.last().map(|event| event.received_at);
            examined += events.len();
            let ids: Vec<EventId> = events.into_iter().map(|event| event.event_id).collect();
            let read = read_all(stack, &ids).await?;
            found.extend(read.found.into_iter().filter(|fate| matches(fate, filter)));
            unreadable.extend(read.unreadable);
            events = rest;
            if let (false, Some(last)) = (events.is_empty(), last)
                && (found.len() >= filter.limit || examined >= examined_max)
            {
                until = last;
                break;
            }
        }
    }
    if let Some(last) = cut(&mut found, filter.limit, |fate| fate.stored.received_at) {
        until = last;
    }
    Ok(EventPage {
        events: found.iter().map(Fate::line).collect(),
        unreadable,
        examined_since: until.max(filter.since).to_string(),
        examined_until: filter.until.to_string(),
        examined,
        queries: walk.queries,
        minutes: walk.minutes,
        next_until: (until > filter.since).then(|| until.to_string()),
    })
}

/// Lists the events that are marked with a kind of trouble. A page has those with the latest trouble. Queued events have a mark only once the
/// sweep has come to them, and it pauses behind a backlog. So their page also has those of a page by time, and the next page goes on with these.
/// It may name marked events again.
async fn by_mark(stack: &Stack, kind: AttentionKind, filter: &Filter) -> Result<EventPage, Error> {
    let (marks, rest, mut queries) = marks_of_page(stack, kind, filter).await?;
    let marks: Vec<(EventId, Timestamp)> =
        marks.into_iter().filter_map(|mark| Some((mark.event_id?, mark.at))).collect();
    let ids: Vec<EventId> = marks.iter().map(|(id, _)| id.clone()).collect();
    let Fates { found, mut unreadable } = read_all(stack, &ids).await?;
    let times: BTreeMap<String, Timestamp> = marks.into_iter().map(|(id, at)| (id.to_string(), at)).collect();
    let marked_at = |fate: &Fate| times.get(fate.stored.event_id.as_str()).copied().unwrap_or(filter.until);
    let mut found: Vec<Fate> = found.into_iter().filter(|fate| is_of(fate, filter) && matches(fate, filter)).collect();
    let mut next_until = cut(&mut found, filter.limit, marked_at).or(rest).map(|until| until.to_string());
    let mut examined_since = next_until.clone().unwrap_or_else(|| filter.since.to_string());
    let mut examined = ids.len();
    let mut events = Vec::new();
    if filter.status.as_deref() == Some(QUEUED) {
        let recent = by_time(stack, Scope::All, filter).await?;
        (next_until, examined_since) = (recent.next_until, recent.examined_since);
        examined += recent.examined;
        queries += recent.queries;
        events.extend(recent.events.into_iter().filter(|line| !times.contains_key(&line.event_id)));
        unreadable.extend(recent.unreadable.into_iter().filter(|event| !times.contains_key(&event.event_id)));
    }
    events.extend(found.iter().map(Fate::line));
    events.sort_by(|a, b| b.received_at.cmp(&a.received_at));
    Ok(EventPage {
        events,
        unreadable,
        examined_since,
        examined_until: filter.until.to_string(),
        examined,
        queries,
        minutes: Vec::new(),
        next_until,
    })
}

/// Returns the latest marks of a kind, those of one millisecond together: [`EXAMINED_MAX`] of them, or a few less, or all of one millisecond.
/// Returns `until` of the next page too, and the number of queries.
async fn marks_of_page(
    stack: &Stack,
    kind: AttentionKind,
    filter: &Filter,
) -> Result<(Vec<Attention>, Option<Timestamp>, usize), Error> {
    let (mut most, mut queries) = (EXAMINED_MAX + 1, 0);
    loop {
        let (mut marks, more) = attention::before(stack, kind, Some(filter.until), most).await?;
        queries += more;
        let beyond = marks.get(most - 1).map(|mark| mark.at);
        marks.retain(|mark| mark.at >= filter.since);
        let Some(beyond) = beyond.filter(|at| *at >= filter.since) else { return Ok((marks, None, queries)) };
        // The last millisecond may have more marks than were read.
        marks.retain(|mark| mark.at > beyond);
        if let Some(last) = marks.last() {
            let rest = last.at;
            return Ok((marks, Some(rest), queries));
        }
        most *= 2;
    }
}

/// Cuts events, the latest first, to a page of at least `limit`, which does not end between two events of one millisecond. Returns
/// `until` of the next page. `None` if nothing was cut.
fn cut<T>(found: &mut Vec<T>, limit: usize, received_at: impl Fn(&T) -> Timestamp) -> Option<Timestamp> {
    let last = received_at(found.get(..limit)?.last()?);
    let all = found.len();
    found.retain(|event| received_at(event) >= last);
    (found.len() < all).then_some(last)
}

/// Lists the events of a call. All of them are read for every page, because a call has a limit on its events.
async fn of_call(stack: &Stack, call: &Call, filter: &Filter) -> Result<EventPage, Error> {
    let attempts = call.attempts();
    let of_attempts = attempts.iter().rev().map(|attempt| (first_receipt(call, attempt), attempt.last_event_at));
    // A placed call may have events before its first attempt, for example those that keep it from being dialled.
    let created = call.plan.as_ref().map(|_| (call.created_at, call.created_at));
    let mut minutes = BTreeSet::new();
    for (first, last) in of_attempts.chain(created) {
        let around = (minute_of(first) - BEFORE_MINUTES)..=(minute_of(last) + AFTER_MINUTES);
        minutes.extend(around.rev().take(QUERIES_MAX.saturating_sub(minutes.len())));
    }
    let scope = Scope::Calls(vec![call.call_id.clone()]);
    let end = Timestamp::from_millis(i64::MAX);
    let read = minutes.iter().map(|minute| read_minute(stack, *minute, &scope, end, BUCKET_LIMIT));
    let read = concurrently(CONCURRENCY, read).await?;
    let is_own = |event: &&ReceivedEvent| event.call_id.as_ref() == Some(&call.call_id);
    let mut ids: BTreeSet<EventId> =
        read.iter().flat_map(|minute| &minute.events).filter(is_own).map(|event| event.event_id.clone()).collect();
    ids.extend(call.history.iter().map(|entry| entry.source_event_id.clone()));
    // Events that are retried, wait, or are dead letters are listed whenever they arrived.
    let unfolded = stack.inbox.unfolded_events(&ids_of(call)).await?;
    ids.extend(unfolded.into_iter().filter_map(|mark| mark.event_id));
    let examined = ids.len();
    let span = filter.since..filter.until;
    let ids: Vec<EventId> = ids.into_iter().collect();
    let Fates { mut found, unreadable } = read_all(stack, &ids).await?;
    found.retain(|fate| span.contains(&fate.stored.received_at) && is_of(fate, filter) && matches(fate, filter));
    found.sort_by(|a, b| (b.stored.received_at, &b.stored.event_id).cmp(&(a.stored.received_at, &a.stored.event_id)));
    let next_until = cut(&mut found, filter.limit, |fate| fate.stored.received_at);
    Ok(EventPage {
        events: found.iter().map(Fate::line).collect(),
        unreadable,
        examined_since: next_until.unwrap_or(filter.since).to_string(),
        examined_until: filter.until.to_string(),
        examined,
        queries: minutes.len(),
        minutes: Vec::new(),
        next_until: next_until.map(|until| until.to_string()),
    })
}

/// Applies the filters that need no read.
fn is_wanted(event: &ReceivedEvent, filter: &Filter) -> bool {
    event.received_at >= filter.since
        && filter.provider.is_none_or(|origin| event.event_id.origin() == Some(origin))
        && filter.call.as_ref().is_none_or(|call_id| event.call_id.as_ref() == Some(call_id))
}

fn is_of(fate: &Fate, filter: &Filter) -> bool {
    filter.provider.is_none_or(|origin| fate.stored.origin == origin)
}

fn matches(fate: &Fate, filter: &Filter) -> bool {
    filter.event_type.as_ref().is_none_or(|wanted| fate.stored.event_type == *wanted)
        && filter.status.as_ref().is_none_or(|wanted| fate.status() == wanted)
}

async fn read_all(stack: &Stack, ids: &[EventId]) -> Result<Fates, Error> {
    Fates::read(ids, |id| Fate::read(stack, id)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_that_is_cut_says_where_the_next_one_starts() {
        let at = |n: &i64| Timestamp::from_millis(*n);
        let mut events: Vec<i64> = (1..=30).rev().collect();
        let next = cut(&mut events, 20, at);
        assert_eq!((events.len(), next), (20, Some(Timestamp::from_millis(11))));
        // The next page has the events before that time.
        let mut rest: Vec<i64> = (1..=30).rev().filter(|n| Some(at(n)) < next).collect();
        assert_eq!((rest.len(), cut(&mut rest, 20, at)), (10, None));
        let mut equal = vec![3, 2, 2, 1];
        assert_eq!((cut(&mut equal, 2, at), equal), (Some(Timestamp::from_millis(2)), vec![3, 2, 2]));
        assert_eq!(cut(&mut vec![2, 1], 2, at), None);
    }
}
