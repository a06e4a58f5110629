//! Attention: marks dead letters that nobody noted, and tells operators about new trouble.
//!
//! **At most one domain event per kind and ten minutes.** It has the number of new items and names the first of them, so that
//! an alarm says more than a number. The event is published before the cursor moves, and its content and id follow from the
//! items alone. So if a run dies in between, the next one publishes the same event again.
//!
//! **The index of dead letters follows the dead-letter queue.** A consumer that crashes or is throttled at the last receive of
//! a message writes no note. If the queue has grown since the last run, its messages are read, and events without a note
//! get one. A run that has no time to read all publishes its notices all the same. It leaves the old length in the cursor, so that
//! the next run reads them.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::inbox::{Attention, AttentionKind, SeenUntil};
use switchhook_aws::queue::Message;
use switchhook_domain::{ENTITY_PREFIX, OperatorAttention, ProviderEvent, Timestamp, TroubledEvent};

use crate::reconciler::{Reconciler, Report};
use crate::unfolded::{UNFOLDED_FOR, Unfolded};

/// Kinds that are published.
const KINDS: [AttentionKind; 3] = [AttentionKind::DeadLettered, AttentionKind::Quarantined, AttentionKind::Retrying];
/// Shortest time between two domain events of one kind.
const PAUSE: Duration = Duration::from_secs(10 * 60);
/// Distance from the clock. By then an item that was marked is also written, and the index shows it.
const BEHIND: Duration = Duration::from_secs(20);
/// Limit on the items that are counted per shard.
const COUNTED_MAX: i32 = 250;
/// Number of items that a domain event names.
const NAMED_MAX: usize = 10;
/// Limit on the messages of the dead-letter queue that one run reads.
const MESSAGES_MAX: usize = 1_000;
/// Messages whose events are marked at the same time: all that SQS returns at once.
const CONCURRENCY: usize = 10;
/// Time of a run after which no further message is read. The sweep may take 18 s of it, and the calls that are due need the rest.
pub(crate) const MARK_UNTIL: Duration = Duration::from_secs(24);
/// Time for which messages that are read are hidden. They are shown again when all are read.
const HIDDEN: Duration = Duration::from_secs(30);
/// Cause of a dead letter that the consumer did not note.
const UNNOTED: &str = "crashed_or_throttled";

/// New items of one kind.
#[derive(Default)]
struct Found {
    /// The first items, in the order of their times.
    first: Vec<Attention>,
    count: u64,
    /// True if there are more items than were counted.
    is_more: bool,
    /// Time of the last item that was counted.
    last_at: Option<Timestamp>,
}

impl Found {
    /// Names the first of all items, which are in `first` so far.
    fn named(mut self) -> Self {
        self.last_at = self.first.iter().map(|one| one.at).max();
        self.first.sort_by(|a, b| (a.at, &a.item_key).cmp(&(b.at, &b.item_key)));
        self.first.truncate(NAMED_MAX);
        self
    }
}

impl Unfolded {
    /// Events that were marked after this time.
    fn after(&self, after: Timestamp) -> Found {
        let first: Vec<Attention> = self.marks.iter().filter(|mark| mark.at > after).cloned().collect();
        Found { count: first.len() as u64, is_more: self.is_more, first, last_at: None }.named()
    }
}

/// Result of marking dead letters.
struct Marked {
    /// Events that had no mark.
    count: u64,
    /// True if all messages were read, or as many as a run reads. Otherwise the next run reads the queue again.
    is_finished: bool,
}

impl Marked {
    /// Nothing had to be read.
    const ALL: Self = Self { count: 0, is_finished: true };
}

impl Reconciler {
    /// Marks dead letters without a note until `stop_at`, and then publishes notices about new trouble. These are a few requests, so
    /// they need no limit.
    pub(crate) async fn notify(
        &self,
        unfolded: &Unfolded,
        report: &mut Report,
        stop_at: Timestamp,
    ) -> Result<(), Error> {
        let before = self.inbox.attention_cursor().await?;
        let mut after = before.clone();
        let depth = self.dlq.depth().await?;
        let mut failed = None;
        let marked = if depth > before.dead_letters {
            // A dead letter that cannot be marked must not hide other trouble.
            self.mark_dead_letters(depth, stop_at).await.unwrap_or_else(|error| {
                failed = Some(error);
                Marked { count: 0, is_finished: false }
            })
        } else {
            Marked::ALL
        };
        report.dead_letters_marked += marked.count;
        if marked.is_finished {
            after.dead_letters = depth;
        }
        let now = self.clock.now();
        for kind in KINDS {
            let Some(seen) = after.seen(kind) else { continue };
            if seen.published_at.is_some_and(|at| now < at.plus(PAUSE)) {
                continue;
            }
            let found = match kind {
                // The oldest marks of a shard fill the list, so later ones are read for themselves.
                AttentionKind::Retrying if unfolded.is_more => {
                    self.find_new(kind, seen.until, now.minus(UNFOLDED_FOR)).await?
                }
                AttentionKind::Retrying => unfolded.after(seen.until),
                AttentionKind::DeadLettered
                | AttentionKind::Quarantined
                | AttentionKind::Conflict
                | AttentionKind::Audit => self.find_new(kind, seen.until, now.minus(BEHIND)).await?,
            };
            let Some(until) = found.last_at else { continue };
            self.bus.publish_attention(&event_of(kind, (seen.until, until), &found)).await?;
            *seen = SeenUntil { until, published_at: Some(now) };
            report.notices += 1;
        }
        if after != before {
            self.inbox.set_attention_cursor(&after).await?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Items of a kind that were marked after `after`, up to `until`.
    async fn find_new(&self, kind: AttentionKind, after: Timestamp, until: Timestamp) -> Result<Found, Error> {
        let mut found = Found::default();
        for shard in self.inbox.attention_shards() {
            let mut pages = self.inbox.attention_between(kind, shard, after, until, COUNTED_MAX);
            let Some(page) = pages.next().await? else { continue };
            found.count += page.items.len() as u64;
            found.is_more |= page.next.is_some();
            found.first.extend(page.items);
        }
        Ok(found.named())
    }

    /// Reads the messages of the dead-letter queue, which has about `depth` of them, and marks their events.
    async fn mark_dead_letters(&self, depth: u64, stop_at: Timestamp) -> Result<Marked, Error> {
        let (mut count, mut receipts) = (0, Vec::new());
        let mut failure = None;
        let is_finished = loop {
            if receipts.len() >= MESSAGES_MAX {
                break true;
            }
            if self.is_time_up(stop_at) {
                break receipts.len() as u64 >= depth;
            }
            let received = match self.dlq.receive(HIDDEN).await {
                Ok(received) if !received.is_empty() => received,
                Ok(_) => match self.is_all_read(receipts.len() as u64, depth).await {
                    Ok(is_all_read) => break is_all_read,
                    Err(error) => {
                        failure = Some(error);
                        break false;
                    }
                },
                Err(error) => {
                    failure = Some(error);
                    break false;
                }
            };
            receipts.extend(received.iter().map(|message| (message.receipt.clone(), Duration::ZERO)));
            // A message that is no event has no inbox item: a notice of ingress, or a message of another program.
            let messages: Vec<Message> =
                received.iter().filter_map(|message| Message::decode(&message.body).ok()).collect();
            let now = self.clock.now();
            let marked: Vec<Result<bool, Error>> = stream::iter(messages)
                .map(|message| self.mark_dead_letter(message.event, now))
                .buffered(CONCURRENCY)
                .collect()
                .await;
            for marked in marked {
                match marked {
                    Ok(is_new) => count += u64::from(is_new),
                    Err(error) => failure = Some(error),
                }
            }
        };
        self.dlq.delay(&receipts).await?;
        failure.map_or(Ok(Marked { count, is_finished }), Err)
    }

    /// Marks the event of a message in the dead-letter queue. Returns true if it had no mark, and needs one. The message of an event that was
    /// redriven and then folded late stays in the queue, and needs none.
    async fn mark_dead_letter(&self, event: ProviderEvent, now: Timestamp) -> Result<bool, Error> {
        if self.is_done(event.clone()).await {
            return Ok(false);
        }
        self.inbox.mark_dead_letter(&event, UNNOTED, now).await
    }

    /// True if no other reader hides messages of the dead-letter queue, after this run has read all that it could get.
    ///
    /// Messages behind ten others of their call cannot be read at all, so a run does not wait for them.
    async fn is_all_read(&self, read: u64, depth: u64) -> Result<bool, Error> {
        Ok(read >= depth || self.dlq.in_flight().await? <= read)
    }
}

fn event_of(kind: AttentionKind, period: (Timestamp, Timestamp), found: &Found) -> OperatorAttention {
    let named = |one: &Attention| {
        let (entity, call_id) = one.call_id.as_ref().map(ToString::to_string).map_or((None, None), |key| {
            if key.starts_with(ENTITY_PREFIX) { (Some(key), None) } else { (None, Some(key)) }
        });
        let event_id = one.event_id.as_ref().map_or_else(|| one.item_key.clone(), ToString::to_string);
        TroubledEvent { event_id, call_id, entity, cause: one.cause.clone() }
    };
    let events = found.first.iter().map(named).collect();
    OperatorAttention::new(kind.as_str(), period, found.count, found.is_more, events)
}
