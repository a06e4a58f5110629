//! Replay: folds stored events again.
//!
//! Each kind of event has its own effect:
//! - An event that is not in its call is queued, and folded.
//! - An event that is in its call, and that this version reads alike, changes nothing. It is not queued.
//! - An event that is in its call, but that this version reads differently, has its whole call folded again from the
//!   inbox. The fold of one event would ignore it as a duplicate.
//! - A recorded or quarantined event that this version can read loses that decision, and is folded.
//! - An event that this version reads as an event of another call is skipped, and named.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::json;
use switchhook_aws::calls::Resolved;
use switchhook_aws::inbox::{ReceivedEvent, StoredEvent, minute_of};
use switchhook_domain::{
    Call, CallId, Disposition, Entity, EntityFate, EntityPosition, EventId, Origin, Provider, Timestamp,
};
use switchhook_providers::ids_of;

use crate::concurrent::{CONCURRENCY, concurrently};
use crate::draft::Draft;
use crate::error::{Error, Refusal};
use crate::events::entity_fate;
use crate::plan::{Action, ITEMS_MAX, NotFound, Plan, PlanItem, Verb};
use crate::selection::{self, Progress};
use crate::stack::Stack;

const MINUTE_MS: i64 = 60_000;
/// Number of events that arrived in a few minutes, above which the next minutes are read one by one.
const BUSY: usize = 1_000;
/// Limit on the entries of the index that one plan looks at.
const EXAMINED_MAX: usize = 1_000_000;
/// Limit on the events that one plan reads to compare them with the filter.
const READ_MAX: usize = 50_000;
/// Minutes before and after the creation of a call, and each of its attempts, in which its events are looked for.
const AROUND_MINUTES: i64 = 60;
/// Limit on the minutes in which the events of one call are looked for, if no time is given: a day. The plan says where the next goes on.
const CALL_MINUTES_MAX: usize = 24 * 60;

/// Disposition that events are selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selected {
    /// Events that are to be folded, and are in no call: they never reached the consumer, or it refused them. An event that decides a booking counts
    /// as long as the calls of the booking do not agree with it. Without those that an operator has discarded.
    NotFolded,
    #[serde(serialize_with = "disposition_name", untagged)]
    As(Disposition),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn disposition_name<S: serde::Serializer>(disposition: &Disposition, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(disposition.as_str())
}

/// Selection of stored events.
#[derive(Clone, Debug, Default)]
pub struct ReplayFilter {
    pub call: Option<CallId>,
    /// Time of receipt of the first event.
    pub since: Option<Timestamp>,
    /// Time of receipt of the last event. `None` for now.
    pub until: Option<Timestamp>,
    pub provider: Option<Provider>,
    /// The provider's name of the type, for example `call_ended`.
    pub event_type: Option<String>,
    pub disposition: Option<Selected>,
}

/// Event that was found, before it is compared with the whole filter.
struct Candidate {
    event_id: EventId,
    call_id: Option<CallId>,
    received_at: Timestamp,
}

/// Events that match a filter.
#[derive(Default)]
struct Matches {
    items: Vec<PlanItem>,
    examined: usize,
    /// Events that were read to compare them with the filter.
    read: usize,
    /// Time of receipt at which the next plan goes on, if this one reached a limit.
    continue_at: Option<Timestamp>,
    /// True if the filter names a call, and there is no row of it.
    is_without_row: bool,
}

/// Makes a plan to replay the events that match the filter, at most `items_max` of them. `progress` gets the number of minutes
/// that were searched, and the number of all minutes.
///
/// # Errors
/// [`Refusal`] if the filter selects neither a call nor a time, if no time lies in its span, or if the limit is too high. The errors of the
/// tables.
pub async fn plan(
    stack: &Stack,
    filter: &ReplayFilter,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    if filter.call.is_none() && filter.since.is_none() {
        return Err(Refusal::EmptyFilter("give --call, or --since").into());
    }
    if let Some(since) = filter.since {
        selection::refuse_future(stack, since).await?;
        filter.until.map_or(Ok(()), |until| selection::refuse_empty_span(since, until))?;
    }
    if items_max > ITEMS_MAX {
        return Err(Refusal::TooManyItems { asked: items_max, most: ITEMS_MAX }.into());
    }
    let matches = matches(stack, filter, items_max, progress).await?;
    let draft = Draft {
        verb: Verb::Replay,
        filter: filter.to_json(),
        capped: matches.continue_at.is_some(),
        continue_at: matches.continue_at,
        examined: matches.examined,
        not_found: matches.not_found(stack, filter).into_iter().collect(),
        items: matches.items,
    };
    draft.into_plan(stack).await
}

impl ReplayFilter {
    fn to_json(&self) -> serde_json::Value {
        let Self { call, since, until, provider, event_type, disposition } = self;
        let mut json = json!({
            "call": call,
            "since": since.map(|at| at.to_string()),
            "until": until.map(|at| at.to_string()),
            "provider": provider,
            "type": event_type,
            "disposition": disposition,
        });
        if let Some(fields) = json.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        json
    }

    /// True if the index alone tells whether an event matches.
    const fn needs_no_read(&self) -> bool {
        self.event_type.is_none() && self.disposition.is_none()
    }

    fn matches_origin(&self, event_id: &EventId) -> bool {
        self.provider.is_none_or(|provider| event_id.origin() == Some(Origin::Provider(provider)))
    }
}

async fn matches(
    stack: &Stack,
    filter: &ReplayFilter,
    items_max: usize,
    progress: Progress<'_>,
) -> Result<Matches, Error> {
    let now = stack.now();
    let row = match &filter.call {
        Some(call_id) => stack.calls.resolve(call_id).await?.call,
        None => None,
    };
    let entity = match filter.call.as_ref().filter(|id| id.is_entity()) {
        Some(key) => stack.calls.entity(key).await?,
        None => None,
    };
    let is_without_row = filter.call.is_some() && row.is_none() && entity.is_none();
    let mut matches = Matches { is_without_row, ..Matches::default() };
    let mut seen = BTreeSet::new();
    // The events of a call that its row names are found by their ids, whenever they arrived.
    let mut of_row: Vec<Candidate> = match &row {
        Some(row) => row.history.iter().map(|entry| of_entry(row, entry)).collect(),
        None => Vec::new(),
    };
    of_row.extend(
        entity.iter().flat_map(|entity| entity.latest.iter().map(move |position| of_position(entity, position))),
    );
    for candidate in of_row {
        let is_in_time = filter.since.is_none_or(|since| since <= candidate.received_at)
            && filter.until.is_none_or(|until| candidate.received_at <= until);
        if is_in_time && seen.insert(candidate.event_id.clone()) {
            matches.take(stack, filter, vec![candidate], items_max).await?;
        }
    }
    // A provider may report a call under its own id of an attempt.
    let ids: BTreeSet<CallId> =
        row.as_ref().map(ids_of).unwrap_or_default().into_iter().chain(filter.call.clone()).collect();
    let mut minutes = minutes_of(filter, row.as_ref(), now);
    let not_searched = minutes.get(CALL_MINUTES_MAX).filter(|_| filter.since.is_none()).copied();
    if not_searched.is_some() {
        minutes.truncate(CALL_MINUTES_MAX);
    }
    let all = minutes.len() as u64;
    let shards_of = |minute: i64| -> BTreeSet<u64> {
        match &filter.call {
            // All events under one id are in one shard of their minute.
            Some(_) => ids.iter().map(|id| stack.inbox.shard_of_call(id, minute)).collect(),
            None => stack.inbox.received_shards(minute).collect(),
        }
    };
    // The events that the plan takes are among the first of each shard.
    let most = if filter.needs_no_read() { items_max } else { READ_MAX }.saturating_add(seen.len() + 1);
    let (mut done, mut ahead, mut rest) = (0, 1, minutes.as_slice());
    while !rest.is_empty() {
        let (some, later) = rest.split_at(ahead.min(rest.len()));
        rest = later;
        let buckets = some.iter().flat_map(|minute| shards_of(*minute).into_iter().map(move |shard| (*minute, shard)));
        let found = buckets.map(|(minute, shard)| received(stack, minute, shard, filter, &ids, most));
        let found = concurrently(CONCURRENCY, found).await?;
        let mut candidates: Vec<Candidate> = found.into_iter().flatten().collect();
        // Busy minutes are read one by one, so that little is read beyond the limit. Quiet ones are read at the same time.
        ahead = if candidates.len() > BUSY { 1 } else { (2 * ahead).min(CONCURRENCY) };
        candidates.retain(|candidate| seen.insert(candidate.event_id.clone()));
        candidates.sort_by(|a, b| (a.received_at, &a.event_id).cmp(&(b.received_at, &b.event_id)));
        matches.take(stack, filter, candidates, items_max).await?;
        done += some.len() as u64;
        progress(done, all);
        if matches.continue_at.is_some() {
            return Ok(matches);
        }
    }
    matches.continue_at = not_searched.map(|minute| Timestamp::from_millis(minute * MINUTE_MS));
    Ok(matches)
}

/// Returns the ids of events of a call that its row may lack. A replay finds those that arrived in the minutes around the times that the row knows.
/// These are the latest minutes, a day together at most. Those that are retried, wait or are dead letters are found whenever they arrived.
pub(crate) async fn received_around(stack: &Stack, row: &Call) -> Result<Vec<EventId>, Error> {
    let ids = &ids_of(row);
    let filter = &ReplayFilter { call: Some(row.call_id.clone()), ..ReplayFilter::default() };
    let mut minutes = minutes_of(filter, Some(row), stack.now());
    minutes.drain(..minutes.len().saturating_sub(CALL_MINUTES_MAX));
    let buckets = minutes.into_iter().flat_map(|minute| {
        let shards: BTreeSet<u64> = ids.iter().map(|id| stack.inbox.shard_of_call(id, minute)).collect();
        shards.into_iter().map(move |shard| (minute, shard))
    });
    let found = buckets.map(|(minute, shard)| received(stack, minute, shard, filter, ids, READ_MAX));
    let found = concurrently(CONCURRENCY, found).await?;
    let mut received: Vec<EventId> = found.into_iter().flatten().map(|candidate| candidate.event_id).collect();
    received.extend(stack.inbox.unfolded_events(ids).await?.into_iter().filter_map(|mark| mark.event_id));
    Ok(received)
}

fn of_entry(row: &Call, entry: &switchhook_domain::HistoryEntry) -> Candidate {
    Candidate {
        event_id: entry.source_event_id.clone(),
        call_id: Some(row.call_id.clone()),
        received_at: entry.received_at,
    }
}

fn of_position(entity: &Entity, position: &EntityPosition) -> Candidate {
    Candidate {
        event_id: position.event_id.clone(),
        call_id: Some(entity.key.clone()),
        // The row does not tell the time of receipt, and most events arrive soon after their time.
        received_at: position.at,
    }
}

/// Returns the minutes in which the events are looked for.
fn minutes_of(filter: &ReplayFilter, row: Option<&Call>, now: Timestamp) -> Vec<i64> {
    let until = filter.until.unwrap_or(now).min(now);
    match (filter.since, row) {
        (Some(since), _) => (minute_of(since)..=minute_of(until)).collect(),
        (None, Some(row)) => {
            let received = row.history.iter().map(|entry| entry.received_at);
            let known: Vec<Timestamp> = received.chain([row.created_at]).collect();
            let first = known.iter().min().copied().unwrap_or(row.created_at);
            let mut spans: Vec<(Timestamp, Timestamp)> = known.into_iter().map(|at| (at, at)).collect();
            spans.extend(row.attempts().iter().map(|attempt| (attempt.started_at, attempt.last_event_at)));
            if !row.is_settled() {
                // The latest attempt may go on, and the provider may report one that the row does not know.
                let latest = row.attempts().last().map_or(now, |attempt| attempt.started_at);
                spans.extend([(latest, now), (now, now)]);
            }
            // The times of attempts are those of the provider, whose clock may be wrong.
            let around = |(start, end): (Timestamp, Timestamp)| {
                let minutes = minute_of(start.max(first)) - AROUND_MINUTES..=minute_of(end) + AROUND_MINUTES;
                // One more than a plan searches, so that the next plan goes on before the first minute that is left out.
                minutes.take(CALL_MINUTES_MAX + 1)
            };
            let minutes: BTreeSet<i64> = spans.into_iter().flat_map(around).collect();
            minutes.into_iter().take_while(|minute| *minute <= minute_of(until)).collect()
        }
        (None, None) => Vec::new(),
    }
}

/// Reads the events that one shard received in one minute, and that the index knows to match: the first `most` of them, or a few
/// more. `ids` are the ids of the call that the filter names.
async fn received(
    stack: &Stack,
    minute: i64,
    shard: u64,
    filter: &ReplayFilter,
    ids: &BTreeSet<CallId>,
    most: usize,
) -> Result<Vec<Candidate>, Error> {
    let mut found = Vec::new();
    let mut pages = stack.inbox.received_pages(minute, shard);
    while let Some(page) = pages.next().await? {
        let is_wanted = |event: &ReceivedEvent| {
            filter.since.is_none_or(|since| since <= event.received_at)
                && filter.until.is_none_or(|until| event.received_at <= until)
                && (filter.call.is_none() || event.call_id.as_ref().is_some_and(|id| ids.contains(id)))
                && filter.matches_origin(&event.event_id)
        };
        found.extend(page.items.into_iter().filter(is_wanted).map(|event| Candidate {
            event_id: event.event_id,
            call_id: event.call_id,
            received_at: event.received_at,
        }));
        if page.next.is_none() || found.len() >= most {
            break;
        }
    }
    Ok(found)
}

impl Matches {
    /// Returns the call of the filter if nothing is known of it: it has no row, and no event of it was found.
    fn not_found(&self, stack: &Stack, filter: &ReplayFilter) -> Option<NotFound> {
        let id = filter.call.as_ref().filter(|_| self.is_without_row && self.examined == 0)?.to_string();
        let name = &stack.names.stack;
        let inbox = match filter.since {
            Some(since) => format!(", and the inbox holds no such event of it since {since}"),
            None => String::new(),
        };
        let lost = match filter.since {
            Some(_) => "an earlier --since searches more of the inbox",
            None => "if its row was lost, add --since TIME, which searches the inbox for its events",
        };
        let reason = format!(
            "the stack {name} has no call with this id, and no attempt with this id of a provider{inbox}. `switchhook timeline` \
             also finds a call by an appointment, an event or a number; {lost}"
        );
        Some(NotFound { id, reason })
    }

    /// Takes the candidates that match, up to the limits.
    async fn take(
        &mut self,
        stack: &Stack,
        filter: &ReplayFilter,
        candidates: Vec<Candidate>,
        items_max: usize,
    ) -> Result<(), Error> {
        // Chunks of this size can be read at the same time, and little is read beyond the limit.
        for some in candidates.chunks(CONCURRENCY) {
            let is_over = self.examined >= EXAMINED_MAX || self.read >= READ_MAX;
            if let Some(first) = some.first().filter(|_| is_over) {
                self.continue_at.get_or_insert(first.received_at);
                return Ok(());
            }
            let matching = concurrently(CONCURRENCY, some.iter().map(|one| is_match(stack, filter, one))).await?;
            self.read += if filter.needs_no_read() { 0 } else { some.len() };
            for (candidate, is_match) in some.iter().zip(matching) {
                if !is_match {
                    self.examined += 1;
                    continue;
                }
                if self.items.len() >= items_max {
                    self.continue_at.get_or_insert(candidate.received_at);
                    return Ok(());
                }
                self.examined += 1;
                let Candidate { event_id, call_id, .. } = candidate;
                self.items.push(PlanItem::of_event(Action::Replay, event_id.clone(), call_id.clone()));
            }
        }
        Ok(())
    }
}

/// Compares an event with the parts of the filter that the index does not know.
async fn is_match(stack: &Stack, filter: &ReplayFilter, candidate: &Candidate) -> Result<bool, Error> {
    if !filter.matches_origin(&candidate.event_id) {
        return Ok(false);
    }
    if filter.needs_no_read() {
        return Ok(true);
    }
    let stored = match stack.inbox.get(&candidate.event_id).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(false),
        // The plan names an event that cannot be read.
        Err(error) if error.is_unreadable() => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if filter.event_type.as_ref().is_some_and(|wanted| *wanted != stored.event_type) {
        return Ok(false);
    }
    match filter.disposition {
        None => Ok(true),
        Some(selected) => match disposition_of(stack, &stored, candidate).await {
            Ok(disposition) => Ok(disposition == Some(selected)),
            // The plan names an event whose row cannot be read.
            Err(Error::Aws(error)) if error.is_unreadable() => Ok(true),
            Err(error) => Err(error),
        },
    }
}

/// Returns the disposition that an event has now. `None` if it is folded, and its entity no longer tells the disposition. `None` too if it is not
/// folded, and an operator has discarded it.
async fn disposition_of(stack: &Stack, stored: &StoredEvent, candidate: &Candidate) -> Result<Option<Selected>, Error> {
    if let Some(decided) = stored.disposition {
        return Ok(Some(Selected::As(decided)));
    }
    let Some(call_id) = &candidate.call_id else { return Ok(Some(Selected::NotFolded)) };
    let folded = if call_id.is_entity() {
        match entity_fate(stack, call_id, stored).await? {
            EntityFate::CallsDisagree(_) | EntityFate::NotFolded => None,
            EntityFate::Folded(disposition) => Some(disposition),
        }
    } else {
        let Resolved { call, .. } = stack.calls.resolve(call_id).await?;
        let entries = || {
            let history = call.iter().flat_map(|call| &call.history);
            history.filter(|entry| entry.source_event_id == stored.event_id)
        };
        // The event that the provider reported decides, not one that it implies.
        let entry = entries().find(|entry| !entry.event.implied).or_else(|| entries().next());
        entry.map(|entry| Some(entry.disposition))
    };
    if let Some(disposition) = folded {
        return Ok(disposition.map(Selected::As));
    }
    let discarded = stack.inbox.discarded(std::slice::from_ref(&stored.event_id)).await?;
    Ok(discarded.is_empty().then_some(Selected::NotFolded))
}
