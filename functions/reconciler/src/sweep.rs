//! The sweep: finds stored events that are missing in their call, and queues them again.
//!
//! **Everything before the cursor is swept: each shard up to the end of the cursor's minute, or up to the position that the cursor has for
//! it.** An event that was swept stays swept. So an old position that is written late is still true. It only makes a worker sweep again.
//!
//! A run sweeps minute after minute, two minutes behind the clock. It does not sweep a shard of a minute that has more than a page, or
//! that it has no time for. It leaves such a shard to a worker: it stores the shard's position together with the new minute, and then
//! sends a message of the repair queue. The worker pages on up to the cursor's minute, and stores the position after each page. If a
//! message is lost or a worker dies, the next run finds the shard behind the cursor and sends another message.
//!
//! Only runs add shards to the cursor and remove them, each on the condition that the minute is the one it read. A worker changes
//! nothing but the position of its shard. So a shard that one run still counts as left cannot vanish from the cursor meanwhile.
//!
//! **The sweep marks each event that it queues.** An event whose consumer crashes, is throttled or cannot read the message has no other
//! mark. [`Reconciler::find_unfolded`] reads the marks.
//!
//! An event that ingress decided not to fold never reaches the consumer. So the sweep [erases](switchhook_aws::inbox::Inbox::erase)
//! it if the person of its call was forgotten, or its entity.

use std::collections::{BTreeMap, HashMap};

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Resolved};
use switchhook_aws::dynamodb::Page;
use switchhook_aws::error::{both, note_error};
use switchhook_aws::inbox::{
    Note, READ_AT_ONCE_MAX, ReceivedEvent, StoredEvent, SweepCursor, SweepPosition, adopt, minute_of,
};
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, Entity, EventId, Origin, ProviderEvent, Timestamp, TraceId};

use crate::limits::SWEEP_MAX;
use crate::reconciler::{Reconciler, Report, WORK_WINDOW};

/// Calls whose rows a sweep reads by one request.
pub const CALLS_PER_READ: usize = 100;
/// Such requests at the same time.
pub const READS_AT_ONCE: usize = 4;
/// Calls whose missing events are queued at the same time.
const CONCURRENCY: usize = 16;
/// Distance of the sweep from the current minute. By then an event that was stored normally is also queued and folded.
const SWEEP_BEHIND_MINUTES: i64 = 2;
/// Limit on the minutes of one run, after an outage of the schedules: a day. An empty minute takes a query for each shard, a question for the
/// depth of the queue and a write. [`SWEEP_MAX`] ends a run that takes longer.
const SWEEP_MINUTES_MAX: i64 = 24 * 60;
/// Minutes before the first run of a stack at which its sweep begins.
const FIRST_SWEEP_MINUTES: i64 = 60;
/// Events of a shard and minute that are read at once. A run that finds more leaves the shard to a worker.
pub const PAGE: i32 = 1_000;
/// Messages in the events queue, for each shard of the inbox, above which the sweep pauses. The consumer is behind then, and the missing
/// events are probably in the queue. A shard takes 1,000 events per second, and each is in the queue for about 0.1 s. So more
/// than twice as many messages wait as at the highest rate.
///
/// The age of the oldest message would be the better measure. SQS does not report it, and CloudWatch reports it minutes later.
pub const QUEUE_DEPTH_PER_SHARD: u64 = 250;

/// Place of the first event of a call in a page, the call, and its events in the page.
type SweptCall = (usize, CallId, Vec<ReceivedEvent>);

/// Events of one call that its row lacks.
struct Missing {
    events: Vec<ReceivedEvent>,
    /// Alias that was followed to the row.
    alias: Option<Alias>,
    /// Time at which the person of the call was forgotten.
    forgotten_at: Option<Timestamp>,
}

/// Result of queueing the missing events of one call.
#[derive(Default)]
struct Requeued {
    events: u64,
    /// True if there was no time for all events.
    is_incomplete: bool,
}

impl Reconciler {
    /// Sweeps the minutes after the cursor, as many as there is time for, in a run that started at `started`. Hands the shards that are
    /// left to [workers](Self::work).
    pub(crate) async fn sweep(&self, report: &mut Report, started: Timestamp) -> Result<(), Error> {
        let stored = self.inbox.sweep_cursor().await?;
        let from = stored.as_ref().map(|cursor| cursor.minute);
        report.swept_until = stored.as_ref().map(|cursor| end_of(cursor.swept_minute()));
        let last = minute_of(self.clock.now()) - SWEEP_BEHIND_MINUTES;
        let mut cursor =
            stored.unwrap_or_else(|| SweepCursor { minute: last - FIRST_SWEEP_MINUTES, left: BTreeMap::new() });
        // The retention of what arrived earlier has ended.
        cursor.minute = cursor.minute.max(minute_of(self.clock.now().minus(self.inbox.retention())) - 1);
        let swept = self.sweep_minutes(&mut cursor, from, last, report, started.plus(SWEEP_MAX)).await;
        let work_on = |shard| RepairWork::first(RepairKind::Sweep, shard, started, started.plus(WORK_WINDOW));
        let left = cursor.shards_behind().map(work_on);
        let handed_on = self.hand_on(&left.collect::<Vec<_>>(), report).await;
        both(swept, handed_on)
    }

    /// Sweeps the minutes from the cursor to `last`, as many as there is time for. `from` is the stored minute.
    async fn sweep_minutes(
        &self,
        cursor: &mut SweepCursor,
        mut from: Option<i64>,
        last: i64,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        for minute in cursor.minute + 1..=last.min(cursor.minute + SWEEP_MINUTES_MAX) {
            report.budget_used_up |= u64::from(self.is_time_up(stop_at));
            if self.is_time_up(stop_at) || self.is_behind(minute).await? {
                break;
            }
            self.sweep_minute(minute, cursor, report, stop_at).await?;
            if !self.inbox.advance_sweep_cursor(from, cursor).await? {
                // Another run moved the cursor.
                break;
            }
            from = Some(minute);
            report.swept_until = Some(end_of(cursor.swept_minute()));
            report.swept_minutes += 1;
        }
        Ok(())
    }

    /// Sweeps the next minute, and moves the cursor to its end. Shards with more than a page, and those that there is no time for, are
    /// left to workers.
    async fn sweep_minute(
        &self,
        minute: i64,
        cursor: &mut SweepCursor,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        // The workers of these shards have caught up.
        cursor.left.retain(|_, position| position.minute < minute);
        for shard in self.inbox.received_shards(minute) {
            if cursor.left.contains_key(&shard) {
                continue;
            }
            let mut position = SweepPosition::start_of(minute);
            if !self.is_time_up(stop_at) {
                let page = self.inbox.received_page(&position, shard, PAGE).await?;
                if page.next.is_none() {
                    position = self.sweep_page(shard, position, &page, report, stop_at).await?;
                }
            }
            if position.minute == minute {
                cursor.left.insert(shard, position);
            }
        }
        cursor.minute = minute;
        Ok(())
    }

    /// Sweeps a shard that a run has left, page by page, up to the cursor's minute. Returns true if there was no time for all of it.
    pub(crate) async fn sweep_shard(&self, shard: u64, report: &mut Report, stop_at: Timestamp) -> Result<bool, Error> {
        let Some(mut cursor) = self.inbox.sweep_cursor().await? else { return Ok(false) };
        let Some(mut position) = cursor.left.remove(&shard) else { return Ok(false) };
        while position.minute <= cursor.minute {
            if self.is_time_up(stop_at) {
                return Ok(true);
            }
            if self.is_behind(position.minute).await? {
                return Ok(false);
            }
            let page = self.inbox.received_page(&position, shard, PAGE).await?;
            position = self.sweep_page(shard, position, &page, report, stop_at).await?;
            if !self.inbox.set_sweep_position(shard, &position).await? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// True if so many messages wait in the events queue that the sweep pauses.
    async fn is_behind(&self, minute: i64) -> Result<bool, Error> {
        let shards = self.inbox.received_shards(minute).end;
        Ok(self.queue.depth().await? > QUEUE_DEPTH_PER_SHARD * shards)
    }

    /// Queues the events of a page that are missing in their call. Returns the position after those that there was time for.
    async fn sweep_page(
        &self,
        shard: u64,
        position: SweepPosition,
        page: &Page<ReceivedEvent>,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<SweepPosition, Error> {
        // Calls in the order of the page, each with the place of its first event in the page.
        let mut calls: Vec<SweptCall> = Vec::new();
        let mut by_id: BTreeMap<&CallId, usize> = BTreeMap::new();
        for (place, event) in page.items.iter().enumerate() {
            let Some(call_id) = &event.call_id else { continue };
            let index = *by_id.entry(call_id).or_insert(calls.len());
            match calls.get_mut(index) {
                Some((_, _, events)) => events.push(event.clone()),
                None => calls.push((place, call_id.clone(), vec![event.clone()])),
            }
        }
        let reads: Vec<_> = calls.chunks(CALLS_PER_READ).map(|calls| self.find_missing(calls, stop_at)).collect();
        let found: Vec<Vec<Result<Option<Missing>, Error>>> =
            stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
        let requeues = found.into_iter().flatten().zip(&calls).map(|(missing, (_, call_id, events))| async move {
            match missing? {
                None => Ok(Requeued { events: 0, is_incomplete: true }),
                Some(_) if call_id.is_entity() => self.requeue_missing_of_entity(call_id, events, stop_at).await,
                Some(missing) => self.requeue_missing(call_id, &missing, stop_at).await,
            }
        });
        let requeues: Vec<_> = requeues.collect();
        let requeued: Vec<Result<Requeued, Error>> = stream::iter(requeues).buffered(CONCURRENCY).collect().await;
        let (mut first_incomplete, mut first_error) = (None, None);
        for (requeued, (place, ..)) in requeued.into_iter().zip(&calls) {
            match requeued {
                Ok(Requeued { events, is_incomplete }) => {
                    report.requeued += events;
                    first_incomplete = first_incomplete.or(is_incomplete.then_some(*place));
                }
                Err(error) => {
                    note_error(&mut first_error, error);
                }
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        let minute = position.minute;
        let start = match first_incomplete {
            Some(0) => return Ok(position),
            Some(place) => page.items.get(place - 1).map(|last| last.start_key_after(minute, shard)).transpose()?,
            None => page.next.clone(),
        };
        Ok(if start.is_some() { SweepPosition { minute, start } } else { SweepPosition::start_of(minute + 1) })
    }

    /// Returns the events of each call that its row lacks. One request reads the rows. The row of an entity is not read, so all its events are
    /// returned. `None` if there is no time.
    async fn find_missing(&self, calls: &[SweptCall], stop_at: Timestamp) -> Vec<Result<Option<Missing>, Error>> {
        if self.is_time_up(stop_at) {
            return calls.iter().map(|_| Ok(None)).collect();
        }
        let ids = calls.iter().map(|(_, call_id, _)| call_id).filter(|call_id| !call_id.is_entity());
        let read = self.calls.resolve_all(ids.cloned().collect()).await;
        let mut rows: HashMap<CallId, Result<Resolved, Error>> = read.into_iter().collect();
        let find = |(_, call_id, events): &SweptCall| {
            let Resolved { call, alias } = match rows.remove(call_id) {
                Some(Ok(resolved)) => resolved,
                // An unreadable row counts as empty. The consumer reports the same error for each event, and retries.
                Some(Err(error)) if !error.is_unreadable() => return Err(error),
                Some(Err(_)) | None => Resolved { call: None, alias: None },
            };
            let lacks =
                |event: &&ReceivedEvent| !call.as_ref().is_some_and(|call| call.contains_event(&event.event_id));
            let events = events.iter().filter(lacks).cloned().collect();
            Ok(Some(Missing { events, alias, forgotten_at: call.as_ref().and_then(|call| call.forgotten_at) }))
        };
        calls.iter().map(find).collect()
    }

    /// Queues the missing events of one call. If the person of the call was forgotten, erases those that are not to be folded.
    async fn requeue_missing(
        &self,
        call_id: &CallId,
        missing: &Missing,
        stop_at: Timestamp,
    ) -> Result<Requeued, Error> {
        let mut requeued = Requeued::default();
        for ReceivedEvent { event_id, decided, .. } in &missing.events {
            if *decided && missing.forgotten_at.is_none() {
                continue;
            }
            if self.is_time_up(stop_at) {
                requeued.is_incomplete = true;
                break;
            }
            let handled = match missing.forgotten_at.filter(|_| *decided) {
                Some(forgotten_at) => self.inbox.erase(event_id, forgotten_at).await.map(|_| false),
                None => self.requeue(event_id, missing.alias.as_ref()).await,
            };
            requeued.events += u64::from(self.if_readable(event_id, call_id, handled)? == Some(true));
        }
        Ok(requeued)
    }

    /// Queues the events of one entity that its row does not include. If the entity was forgotten, erases those that are not to be
    /// folded.
    async fn requeue_missing_of_entity(
        &self,
        key: &CallId,
        events: &[ReceivedEvent],
        stop_at: Timestamp,
    ) -> Result<Requeued, Error> {
        let mut requeued = Requeued::default();
        let entity = match self.calls.entity_eventual(key).await {
            Ok(entity) => entity,
            // The consumer reports the same error for each event, and retries.
            Err(error) if error.is_unreadable() => None,
            Err(error) => return Err(error),
        };
        for event in events.iter().filter(|event| event.decided) {
            let Some(forgotten_at) = entity.as_ref().and_then(|entity| entity.forgotten_at) else { break };
            if self.is_time_up(stop_at) {
                requeued.is_incomplete = true;
                break;
            }
            let erased = self.inbox.erase(&event.event_id, forgotten_at).await;
            self.if_readable(&event.event_id, key, erased)?;
        }
        let is_latest = |id: &EventId| {
            let has_agreed = |entity: &&Entity| entity.booking.as_ref().is_none_or(|booking| booking.calls_agree);
            let latest = entity.iter().filter(has_agreed).flat_map(|entity| &entity.latest);
            latest.map(|position| &position.event_id).any(|known| known == id)
        };
        let unknown = events.iter().filter(|event| !event.decided && !is_latest(&event.event_id));
        let unknown: Vec<EventId> = unknown.map(|event| event.event_id.clone()).collect();
        // Only the events themselves say whether they are older than the row.
        for ids in unknown.chunks(READ_AT_ONCE_MAX) {
            if self.is_time_up(stop_at) {
                requeued.is_incomplete = true;
                break;
            }
            for (event_id, stored) in self.inbox.read_at_once(ids).await? {
                requeued.events += u64::from(self.requeue_of_entity(key, entity.as_ref(), &event_id, stored).await?);
            }
        }
        Ok(requeued)
    }

    /// Queues a stored event if the row of its entity does not include it. Returns true if it did.
    async fn requeue_of_entity(
        &self,
        key: &CallId,
        entity: Option<&Entity>,
        event_id: &EventId,
        stored: Result<StoredEvent, Error>,
    ) -> Result<bool, Error> {
        let read = match stored {
            Ok(stored) => self.inbox.renormalize(&stored).await.map(|event| event.map(|event| (stored, event))),
            Err(error) => Err(error),
        };
        let Some((stored, event)) = self.if_readable(event_id, key, read)?.flatten() else { return Ok(false) };
        if entity.is_some_and(|entity| entity.includes_event(&event)) || self.is_discarded(&event).await? {
            return Ok(false);
        }
        self.inbox.mark_unfolded(&stored, stored.received_at, self.clock.now()).await?;
        let trace_id = event.trace_id.as_ref().map_or("", TraceId::as_str);
        self.queue.send(&event, trace_id).await?;
        Ok(true)
    }

    /// Marks one stored event as not folded, and queues it. The mark comes first, so that the fold that follows removes it. Returns false
    /// if the inbox no longer has the event, it is not to be folded, it is discarded, or it is refused.
    async fn requeue(&self, event_id: &EventId, alias: Option<&Alias>) -> Result<bool, Error> {
        let Some(stored) = self.inbox.get(event_id).await? else { return Ok(false) };
        let Some(event) = self.inbox.renormalize(&stored).await? else { return Ok(false) };
        if alias.is_some() && event.origin == Origin::Switchhook {
            return self.refuse(&event).await.map(|()| false);
        }
        if self.is_discarded(&event).await? {
            return Ok(false);
        }
        self.inbox.mark_unfolded(&stored, stored.received_at, self.clock.now()).await?;
        match alias {
            Some(alias) => {
                if let Some((_, error)) = adopt(&self.inbox, &self.queue, [event_id.clone()], alias).await?.pop() {
                    return Err(error);
                }
            }
            None => self.queue.send(&event, &stored.trace_id).await?,
        }
        Ok(true)
    }

    /// True if an operator has discarded the event before the sweep came to it.
    async fn is_discarded(&self, event: &ProviderEvent) -> Result<bool, Error> {
        Ok(!self.inbox.discarded(std::slice::from_ref(&event.event_id)).await?.is_empty())
    }

    /// Notes that an event of Switchhook itself is refused, because its call became an alias. Nothing else would tell: the call that folded
    /// the event is gone, or the event never reached the consumer, which refuses such events with the same note.
    pub(crate) async fn refuse(&self, event: &ProviderEvent) -> Result<(), Error> {
        // A mark of an earlier run of the sweep is a note too.
        let note = self.inbox.get_note(&event.event_id).await?;
        if note.is_none_or(|note| note.disposition.is_none() && note.dead_lettered_at.is_none()) {
            self.inbox.put_note(event, &Note::no_call(), self.clock.now()).await?;
        }
        Ok(())
    }

    /// Returns the result of work on a stored event. If the event [cannot be read](Error::is_unreadable), logs that and returns `None`: it must
    /// not stop the work on others.
    pub(crate) fn if_readable<T>(
        &self,
        event_id: &EventId,
        call_id: &CallId,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_unreadable() => {
                self.log_unreadable(event_id, call_id, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn log_unreadable(&self, event_id: &EventId, call_id: &CallId, error: &Error) {
        let decision = Decision {
            function: "reconciler",
            message: "stored event cannot be read",
            action_taken: "not_requeued",
            event_id: Some(event_id.as_str()),
            call_id: Some(call_id.as_str()),
            ..Decision::from_error(Some(error))
        };
        decision.log(self.clock.now(), true);
    }
}

/// Returns the end of a minute of the inbox.
const fn end_of(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute.saturating_add(1).saturating_mul(60_000))
}
