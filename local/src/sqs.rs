//! SQS: the queues, the JSON protocol for the SDK, and direct methods for event sources and tests.
//!
//! With a data directory, every message has one entry in a journal. The entry is written before the sender gets its
//! response, and deleted with the message. **A message whose send succeeded survives a kill: it keeps its position and
//! is visible.** Its receive count and visibility timeout are not stored.
//!
//! A message that moves to another queue gets a new entry, and loses the old one, in one commit.

mod format;
mod protocol;
mod rejection;
mod request;

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::{Change, Journal};
use crate::queue::{
    Depth, Message, NewMessage, Queue, QueueSettings, ReceiptHandleError, ReceivedMessage, SendError, SendOutcome,
};
use crate::sync::{Signal, Watch, lock};

pub use format::{queue_url, to_event_record};

pub(crate) const JOURNAL: &str = "switchhook-local-queue";

#[derive(Debug)]
pub struct Sqs {
    state: Mutex<State>,
    signals: BTreeMap<String, Signal>,
    journal: Option<Journal>,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    queues: BTreeMap<String, Queue>,
    next_number: u64,
    /// Messages that were sent, received and deleted since the start, by queue and name of the metric.
    traffic: BTreeMap<(String, &'static str), u64>,
}

/// A rejected request, or a failure to store it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("The specified queue does not exist.")]
    UnknownQueue,
    #[error("{0}")]
    Send(SendError),
    #[error("{0}")]
    ReceiptHandle(ReceiptHandleError),
    #[error("could not store the queue in the data directory")]
    Persist(#[source] LocalError),
}

impl Sqs {
    pub(crate) fn open(
        settings: Vec<QueueSettings>,
        journal: Option<Journal>,
        clock: Clock,
    ) -> Result<Self, LocalError> {
        let signals = settings.iter().map(|queue| (queue.name.clone(), Signal::default())).collect();
        let mut queues: BTreeMap<String, Queue> =
            settings.into_iter().map(|settings| (settings.name.clone(), Queue::new(settings))).collect();
        let has_no_target = |queue: &&Queue| {
            let redrive = queue.settings().redrive_policy.as_ref();
            redrive.is_some_and(|redrive| !queues.contains_key(&redrive.dead_letter_queue))
        };
        if let Some(queue) = queues.values().find(has_no_target) {
            return Err(LocalError::NoDeadLetterQueue { queue: queue.settings().name.clone() });
        }
        // A number made from the time is higher than every number of an earlier process, even of a message that was
        // deleted. No message has the number 0.
        let mut next_number = (clock.now_ms() << 20) + 1;
        if let Some(journal) = &journal {
            for mut entry in journal.read::<JournalEntry>()? {
                entry.message.receive_count = 0;
                entry.message.first_received_at_ms = None;
                next_number = next_number.max(entry.message.sequence + 1);
                if let Some(queue) = queues.get_mut(&entry.queue) {
                    queue.reload(entry.message);
                }
            }
        }
        Ok(Self { state: Mutex::new(State { queues, next_number, traffic: BTreeMap::new() }), signals, journal, clock })
    }

    pub fn send(&self, queue: &str, new: NewMessage) -> Result<SendOutcome, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let number = state.next_number;
        let target = state.queue(queue)?;
        let sent = target.send(now_ms, number, new).map_err(QueueError::Send)?;
        if let SendOutcome::Queued(message) = &sent {
            let entry = JournalEntry { queue: queue.to_owned(), message: message.clone() };
            if let Err(error) = self.persist(&[Change::Write(number, &entry)]) {
                target.undo_send(message);
                return Err(error);
            }
            state.next_number += 1;
            state.count(queue, "NumberOfMessagesSent", 1);
            drop(state);
            self.changed(queue);
        }
        Ok(sent)
    }

    /// Receives at most `messages_max` messages. Each stays invisible for `visibility_timeout_ms`, or for the timeout
    /// of the queue if that is `None`. Messages that reached the maximum receive count move to the dead-letter queue
    /// instead.
    pub fn receive(
        &self,
        queue: &str,
        messages_max: usize,
        visibility_timeout_ms: Option<u64>,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        self.expire(&mut state, queue, now_ms)?;
        let source = state.queue(queue)?;
        let outcome = source.receive(now_ms, messages_max, visibility_timeout_ms);
        let redrive = source.settings().redrive_policy.clone();
        state.count(queue, "NumberOfMessagesReceived", outcome.messages.len());
        if let (Some(redrive), false) = (redrive, outcome.dead_letters.is_empty()) {
            for message in outcome.dead_letters {
                let dead = Message {
                    deduplication_id: Some(message.id()),
                    dead_letter_source: Some(queue.to_owned()),
                    sent_at_ms: now_ms,
                    ..message
                };
                self.move_to(&mut state, &redrive.dead_letter_queue, dead)?;
            }
            self.changed(&redrive.dead_letter_queue);
        }
        Ok(outcome.messages)
    }

    /// Deletes a message. Returns false if nothing was deleted, because the handle comes from an earlier receive or the
    /// message is gone.
    pub fn delete(&self, queue: &str, receipt_handle: &str) -> Result<bool, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let deleted = state.queue(queue)?.delete(now_ms, receipt_handle).map_err(QueueError::ReceiptHandle)?;
        let Some(message) = deleted else { return Ok(false) };
        self.erase(&[message])?;
        state.count(queue, "NumberOfMessagesDeleted", 1);
        drop(state);
        self.changed(queue);
        Ok(true)
    }

    /// Deletes the messages of an event source's batch in one commit. A message whose handle has expired stays, and is delivered again.
    pub fn delete_batch<'a>(
        &self,
        queue: &str,
        receipt_handles: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let source = state.queue(queue)?;
        let delete = |handle| source.delete(now_ms, handle).ok().flatten();
        let deleted: Vec<Message> = receipt_handles.into_iter().filter_map(delete).collect();
        self.erase(&deleted)?;
        state.count(queue, "NumberOfMessagesDeleted", deleted.len());
        drop(state);
        self.changed(queue);
        Ok(())
    }

    pub fn change_visibility(&self, queue: &str, receipt_handle: &str, timeout_ms: u64) -> Result<(), QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        state.queue(queue)?.change_visibility(now_ms, receipt_handle, timeout_ms).map_err(QueueError::ReceiptHandle)?;
        drop(state);
        self.changed(queue);
        Ok(())
    }

    /// Time of the next receive that may return a message, in Unix milliseconds. `None` if the queue is empty.
    pub fn next_visible_at(&self, queue: &str) -> Result<Option<u64>, QueueError> {
        let now_ms = self.clock.now_ms();
        Ok(lock(&self.state).queue(queue)?.next_visible_at(now_ms))
    }

    pub fn depth(&self, queue: &str) -> Result<Depth, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        self.expire(&mut state, queue, now_ms)?;
        Ok(state.queue(queue)?.depth(now_ms))
    }

    /// Time at which the oldest message was sent that counts for `ApproximateAgeOfOldestMessage`. `None` if there is none.
    pub fn oldest_sent_at(&self, queue: &str) -> Result<Option<u64>, QueueError> {
        let mut state = lock(&self.state);
        self.expire(&mut state, queue, self.clock.now_ms())?;
        Ok(state.queue(queue)?.oldest_sent_at())
    }

    /// Messages that were sent, received and deleted since the start, by queue and name of the metric.
    pub fn traffic(&self) -> BTreeMap<(String, &'static str), u64> {
        lock(&self.state).traffic.clone()
    }

    pub fn settings(&self, queue: &str) -> Result<QueueSettings, QueueError> {
        Ok(lock(&self.state).queue(queue)?.settings().clone())
    }

    /// Returns all messages in order, without receiving them.
    pub fn messages(&self, queue: &str) -> Result<Vec<Message>, QueueError> {
        let mut state = lock(&self.state);
        self.expire(&mut state, queue, self.clock.now_ms())?;
        Ok(state.queue(queue)?.messages().cloned().collect())
    }

    /// Deletes all messages. Returns their number.
    pub fn purge(&self, queue: &str) -> Result<usize, QueueError> {
        let mut state = lock(&self.state);
        let purged = state.queue(queue)?.purge();
        self.erase(&purged)?;
        drop(state);
        self.changed(queue);
        Ok(purged.len())
    }

    /// Moves all visible messages of a dead-letter queue to `destination`. Returns the number of moved messages. They
    /// arrive as new messages at the end of the queue, with a new id and a receive count of 0.
    pub fn redrive(&self, dead_letter_queue: &str, destination: &str) -> Result<usize, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        self.expire(&mut state, dead_letter_queue, now_ms)?;
        state.queue(destination)?;
        let messages = state.queue(dead_letter_queue)?.remove_visible(now_ms);
        let moved = messages.len();
        for message in messages {
            let message = Message {
                number: state.next_number,
                sent_at_ms: now_ms,
                receive_count: 0,
                first_received_at_ms: None,
                dead_letter_source: None,
                ..message
            };
            self.move_to(&mut state, destination, message)?;
        }
        drop(state);
        self.changed(destination);
        self.changed(dead_letter_queue);
        Ok(moved)
    }

    /// Returns a watcher that resolves when a message is sent, deleted or moved, or when its visibility changes. The
    /// watcher does not resolve when a visibility timeout expires; use [`Sqs::next_visible_at`] for that.
    pub fn watch(&self, queue: &str) -> Result<Watch, QueueError> {
        Ok(self.signals.get(queue).ok_or(QueueError::UnknownQueue)?.watch())
    }

    /// Like [`Sqs::receive`], but waits up to `wait_ms` for the first message.
    pub async fn long_poll(
        &self,
        queue: &str,
        messages_max: usize,
        visibility_timeout_ms: Option<u64>,
        wait_ms: u64,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let deadline_ms = self.clock.now_ms() + wait_ms;
        let mut watch = self.watch(queue)?;
        loop {
            let received = self.receive(queue, messages_max, visibility_timeout_ms)?;
            if !received.is_empty() || self.clock.now_ms() >= deadline_ms {
                return Ok(received);
            }
            let until_ms = self.next_visible_at(queue)?.map_or(deadline_ms, |at_ms| at_ms.min(deadline_ms));
            tokio::select! {
                biased;
                () = watch.changed() => {}
                () = self.clock.sleep_until(until_ms) => {}
            }
        }
    }

    /// Deletes the messages of a queue that are older than its retention.
    fn expire(&self, state: &mut State, queue: &str, now_ms: u64) -> Result<(), QueueError> {
        let expired = state.queue(queue)?.remove_expired(now_ms);
        if expired.is_empty() { Ok(()) } else { self.erase(&expired) }
    }

    /// Adds the message at the end of `queue`.
    fn move_to(&self, state: &mut State, queue: &str, message: Message) -> Result<(), QueueError> {
        let (old, new) = (message.sequence, state.next_number);
        state.next_number += 1;
        let entry = JournalEntry { queue: queue.to_owned(), message: Message { sequence: new, ..message } };
        self.persist(&[Change::Erase(old), Change::Write(new, &entry)])?;
        state.queue(queue)?.insert(entry.message);
        Ok(())
    }

    fn erase(&self, messages: &[Message]) -> Result<(), QueueError> {
        let changes: Vec<_> = messages.iter().map(|message| Change::Erase(message.sequence)).collect();
        self.persist(&changes)
    }

    fn persist(&self, changes: &[Change<'_, JournalEntry>]) -> Result<(), QueueError> {
        match &self.journal {
            Some(journal) => journal.change(changes).map_err(QueueError::Persist),
            None => Ok(()),
        }
    }

    fn changed(&self, queue: &str) {
        if let Some(signal) = self.signals.get(queue) {
            signal.changed();
        }
    }
}

impl State {
    fn count(&mut self, queue: &str, metric: &'static str, messages: usize) {
        let count = self.traffic.entry((queue.to_owned(), metric)).or_default();
        *count += u64::try_from(messages).unwrap_or(u64::MAX);
    }

    fn queue(&mut self, name: &str) -> Result<&mut Queue, QueueError> {
        self.queues.get_mut(name).ok_or(QueueError::UnknownQueue)
    }
}

/// A message and its queue, as stored in the journal.
#[derive(Debug, Serialize, Deserialize)]
struct JournalEntry {
    queue: String,
    message: Message,
}

#[cfg(test)]
mod tests;
