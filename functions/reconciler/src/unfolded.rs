//! The age of the oldest event that is not known to be folded, for the alarm on events that fail again and again.
//!
//! **SQS does not tell of them.** Its metric `ApproximateAgeOfOldestMessage` leaves out a message that was received more than three
//! times and not deleted. So this reads the marks of the events that are retried. The consumer marks an event that it fails to fold, and
//! the sweep one that it finds not folded. Events that arrived after the time up to which the sweep has come are not known to be folded.
//!
//! A mark may stay although its event is folded: if the fold came between the sweep's read of the call and its mark. So a mark counts
//! for the age only while a fold of its event would change something, and is removed otherwise. The marks behind it are taken as they are,
//! and so are all marks once the time for this is up.

use std::time::Duration;

use futures_util::future::join_all;
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Resolved};
use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_domain::{CallId, EventId, Origin, ProviderEvent, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Time since the first try after which an event that is not folded is trouble. P1EventsNotFoldedAlarm has the same limit.
pub(crate) const UNFOLDED_FOR: Duration = Duration::from_secs(5 * 60);
/// Age in milliseconds of the oldest event, while the marks of a shard cannot be read: the least that is trouble.
const UNREADABLE_MS: u64 = UNFOLDED_FOR.as_secs() * 1_000 + 1;
/// Longest time for which a run looks at marks.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Marks that are read from the index at once.
const PAGE: i32 = 250;
/// Marks examined at the same time.
const CONCURRENCY: usize = 16;

/// Marks of events that have not been folded for [`UNFOLDED_FOR`].
#[derive(Debug, Default)]
pub(crate) struct Unfolded {
    /// The oldest marks of each shard.
    pub(crate) marks: Vec<Attention>,
    /// The shards that have such marks.
    pub(crate) shards: Vec<u64>,
    /// True if there are more.
    pub(crate) is_more: bool,
}

/// The step that a marked event still needs.
enum Fate {
    /// Nothing: the call or entity takes the event into account, or the inbox has nothing to fold.
    Done,
    /// The same, and the person of the call or entity was forgotten. So the consumer may still have to erase the event.
    Forgotten,
    /// A note: the consumer refuses an event of Switchhook itself whose call became an alias.
    Refused(Box<ProviderEvent>),
    /// A fold.
    NotFolded,
}

impl Fate {
    const fn of(is_included: bool, forgotten_at: Option<Timestamp>) -> Self {
        match (is_included, forgotten_at) {
            (true, None) => Self::Done,
            (true, Some(_)) => Self::Forgotten,
            (false, _) => Self::NotFolded,
        }
    }
}

impl Reconciler {
    /// Finds the oldest event that is not known to be folded. Removes the marks before it, whose events are folded. Returns the others, and an error
    /// if the marks of a shard could not be read at the second try either. Such a shard counts as one with old marks. So its events are tried
    /// again, and the alarm stays.
    pub(crate) async fn find_unfolded(&self, report: &mut Report) -> (Unfolded, Option<Error>) {
        let now = self.clock.now();
        let stop_at = now.plus(LOOK_MAX);
        let mut unfolded = Unfolded::default();
        let age = |since: Timestamp| now.millis_since(since).unsigned_abs();
        // An error below must not hide that the sweep does not come on.
        report.unfolded_ms = report.swept_until.map_or(0, age);
        let (mut shards, mut error): (Vec<u64>, _) = (self.inbox.attention_shards().collect(), None);
        for _ in 0..2 {
            error = None;
            let mut unread = Vec::new();
            for shard in shards {
                // In an outage, each read takes seconds. The run must come to its end, and tell of it.
                if error.is_some() && self.is_time_up(stop_at) {
                    unread.push(shard);
                    continue;
                }
                match self.oldest_marks(shard, now, stop_at, report).await {
                    Ok((marks, is_more)) => {
                        let Some(first) = marks.first() else { continue };
                        report.unfolded_ms = report.unfolded_ms.max(age(first.at));
                        unfolded.is_more |= is_more;
                        unfolded.shards.push(shard);
                        unfolded.marks.extend(marks);
                    }
                    Err(failed) => {
                        unread.push(shard);
                        error = error.or(Some(failed));
                    }
                }
            }
            shards = unread;
        }
        if error.is_some() {
            report.unfolded_ms = report.unfolded_ms.max(UNREADABLE_MS);
            unfolded.is_more = true;
            unfolded.shards.extend(shards);
        }
        (unfolded, error)
    }

    /// Returns the oldest marks of a shard whose events are not folded, and true if there are more. Removes those before them.
    async fn oldest_marks(
        &self,
        shard: u64,
        now: Timestamp,
        stop_at: Timestamp,
        report: &mut Report,
    ) -> Result<(Vec<Attention>, bool), Error> {
        let (start, until) = (Timestamp::from_millis(0), now.minus(UNFOLDED_FOR));
        let mut pages = self.inbox.attention_between(AttentionKind::Retrying, shard, start, until, PAGE);
        while let Some(page) = pages.next().await? {
            let is_more = page.next.is_some();
            let marks = self.remove_folded(page.items, stop_at, report).await;
            if !marks.is_empty() {
                return Ok((marks, is_more));
            }
        }
        Ok((Vec::new(), false))
    }

    /// Removes the marks of events that need no fold, up to the first event that needs one. Returns the marks from there on.
    ///
    /// It examines one mark first, and then up to [`CONCURRENCY`] at once. So a run in an incident, which folds nothing, examines one.
    async fn remove_folded(&self, marks: Vec<Attention>, stop_at: Timestamp, report: &mut Report) -> Vec<Attention> {
        let (mut left, mut examined) = (Vec::new(), 0);
        let mut marks = marks.into_iter();
        while left.is_empty() && !self.is_time_up(stop_at) {
            let next: Vec<Attention> = marks.by_ref().take(examined.clamp(1, CONCURRENCY)).collect();
            if next.is_empty() {
                break;
            }
            examined += next.len();
            let removed = join_all(next.iter().map(|mark| self.remove_if_folded(mark))).await;
            for (mark, removed) in next.into_iter().zip(removed) {
                match removed {
                    Ok(true) => {}
                    Ok(false) => left.push(mark),
                    // An error must not hide the other events. The next run removes the mark.
                    Err(_) => report.failed += 1,
                }
            }
        }
        left.extend(marks);
        left
    }

    /// Removes the mark of an event that needs no fold. Returns false if it needs one, or if that cannot be read. Returns false too if the event
    /// waits and its person was forgotten: the consumer erases the event when it comes again, and removes the mark.
    pub(crate) async fn remove_if_folded(&self, mark: &Attention) -> Result<bool, Error> {
        let (Some(event_id), Some(call_id)) = (&mark.event_id, &mark.call_id) else { return Ok(true) };
        match self.fate(call_id, event_id).await {
            Ok(Fate::Done) => self.inbox.clear_retry(event_id).await.map(|_| true),
            Ok(Fate::Forgotten) => self.inbox.clear_attention(&mark.item_key).await,
            // The note of the refusal takes the place of the mark.
            Ok(Fate::Refused(event)) => self.refuse(&event).await.map(|()| true),
            Ok(Fate::NotFolded) | Err(_) => Ok(false),
        }
    }

    /// True if the call or entity of an event takes it into account, and nothing is left to do. False too if that cannot be read.
    pub(crate) async fn is_done(&self, event: ProviderEvent) -> bool {
        matches!(self.fate_of(event).await, Ok(Fate::Done))
    }

    /// Returns the step that a marked event still needs. A folded event costs one read, of its call.
    async fn fate(&self, call_id: &CallId, event_id: &EventId) -> Result<Fate, Error> {
        if call_id.is_entity() {
            return match self.read_unfolded(event_id).await? {
                Ok(event) => self.fate_of(event).await,
                Err(fate) => Ok(fate),
            };
        }
        let resolved = self.calls.resolve_eventual(call_id).await;
        let call = resolved.as_ref().ok().and_then(|resolved| resolved.call.as_ref());
        if let Some(call) = call.filter(|call| call.contains_event(event_id)) {
            return Ok(Fate::of(true, call.forgotten_at));
        }
        match self.read_unfolded(event_id).await? {
            Ok(event) => Ok(fate_in_call(event, resolved?)),
            Err(fate) => Ok(fate),
        }
    }

    /// Reads an event. Returns its fate if this version does not fold it. One that waits and was stored to be folded is `NotFolded`: another version can
    /// fold it.
    async fn read_unfolded(&self, event_id: &EventId) -> Result<Result<ProviderEvent, Fate>, Error> {
        let Some(stored) = self.inbox.get(event_id).await? else { return Ok(Err(Fate::Done)) };
        if let Some(event) = self.inbox.renormalize(&stored).await? {
            return Ok(Ok(event));
        }
        let is_to_be_folded = stored.disposition.is_none() && stored.erased_at.is_none();
        let waits = is_to_be_folded && self.inbox.get_note(event_id).await?.is_some_and(|note| note.waits);
        Ok(Err(if waits { Fate::NotFolded } else { Fate::Done }))
    }

    /// Returns the step that an event still needs.
    async fn fate_of(&self, event: ProviderEvent) -> Result<Fate, Error> {
        if event.call_id.is_entity() {
            let entity = self.calls.entity_eventual(&event.call_id).await?;
            let forgotten_at = entity.as_ref().and_then(|entity| entity.forgotten_at);
            return Ok(Fate::of(entity.is_some_and(|entity| entity.includes_event(&event)), forgotten_at));
        }
        let resolved = self.calls.resolve_eventual(&event.call_id).await?;
        Ok(fate_in_call(event, resolved))
    }
}

/// Returns the step that an event still needs, if its call id leads to this row.
fn fate_in_call(event: ProviderEvent, Resolved { call, alias }: Resolved) -> Fate {
    let event = match alias {
        Some(_) if event.origin == Origin::Switchhook => return Fate::Refused(Box::new(event)),
        Some(Alias { call_id, attempt }) => ProviderEvent { call_id, attempt: Some(attempt), ..event },
        None => event,
    };
    let forgotten_at = call.as_ref().and_then(|call| call.forgotten_at);
    Fate::of(call.is_some_and(|call| call.includes_event(&event)), forgotten_at)
}
