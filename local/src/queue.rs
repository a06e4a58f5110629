//! Model of an SQS queue. It is pure: `now_ms` is an argument, and the caller supplies the message numbers.
//!
//! In a FIFO queue every message belongs to a group, and the rules are about groups:
//!
//! - Messages of a group are received in the order in which they were sent.
//! - **While a message of a group is in flight, no other receive returns a message of that group.** One receive may
//!   return several messages of the group, in order.
//! - A message whose visibility timeout expires returns to its old position, not to the end of the queue.
//! - A message may be received `max_receive_count` times. The next receive moves it to the dead-letter queue instead,
//!   and continues with the following message of the group.
//! - A second send with the same group and deduplication id within five minutes gets the response of the first send and
//!   adds nothing. This holds even if the first message was received or deleted in the meantime.
//!
//! A message that is older than the retention of its queue is deleted, even if it is in flight.
//!
//! In a standard queue every message forms a group of its own, and nothing is deduplicated. A message may have a delay: it
//! is then in flight until the delay is over.
//!
//! `DeleteMessage` with the receipt handle of an earlier receive does nothing and still succeeds: a receipt handle is
//! not a fencing token. A FIFO queue rejects a handle whose visibility timeout has expired, unless a later receive has
//! replaced it.

mod message;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use message::{FIFO_ID_CHARS_MAX, MESSAGE_BYTES_MAX, Message, MessageAttribute, NewMessage, SendError, message_id};

pub const DEDUPLICATION_WINDOW_MS: u64 = 5 * 60 * 1_000;
pub const BATCH_ENTRIES_MAX: usize = 10;
pub const RECEIVE_MESSAGES_MAX: usize = 10;
/// Receives of a message after which `ApproximateAgeOfOldestMessage` leaves it out, until it is deleted. Source: the page "Available
/// CloudWatch metrics for Amazon SQS" of the AWS documentation. It names no exception for FIFO queues.
const AGED_RECEIVES_MAX: u32 = 3;
/// Longest visibility timeout: 12 hours.
pub const VISIBILITY_TIMEOUT_MS_MAX: u64 = 12 * 60 * 60 * 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    pub name: String,
    pub fifo: bool,
    pub visibility_timeout_ms: u64,
    pub retention_ms: u64,
    pub redrive_policy: Option<RedrivePolicy>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedrivePolicy {
    pub dead_letter_queue: String,
    pub max_receive_count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendOutcome {
    Queued(Message),
    /// Number and sequence of the message that the first send with this deduplication id created.
    Duplicate {
        number: u64,
        sequence: u64,
    },
}

/// A message and the receipt handle that this receive gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub message: Message,
    pub receipt_handle: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReceiveOutcome {
    pub messages: Vec<ReceivedMessage>,
    /// Messages that this receive removed because they had reached the maximum receive count. The caller moves them to
    /// the dead-letter queue, in this order.
    pub dead_letters: Vec<Message>,
}

/// The reason why SQS rejects a receipt handle. The texts are those of SQS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptHandleError {
    #[error("The input receipt handle is invalid.")]
    Invalid,
    #[error("Value for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.")]
    Expired,
    #[error(
        "Value for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for \
         visibility timeout change."
    )]
    NotInFlight,
    #[error("Value for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200.")]
    InvalidTimeout,
}

/// Number of messages in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    pub visible: usize,
    pub in_flight: usize,
}

impl Depth {
    pub fn total(self) -> usize {
        self.visible + self.in_flight
    }
}

#[derive(Debug)]
pub struct Queue {
    settings: QueueSettings,
    messages: BTreeMap<u64, StoredMessage>,
    groups: BTreeMap<String, Group>,
    /// Groups without a message in flight, ordered by the sequence of their first message: `(sequence, group)`.
    ready: BTreeSet<(u64, String)>,
    /// Messages in flight: `(end of the visibility timeout, sequence)`.
    in_flight: BTreeSet<(u64, u64)>,
    /// Sends within the deduplication window, by group and deduplication id.
    recent_sends: BTreeMap<(String, String), RecentSend>,
    /// Keys of `recent_sends` with the time of the send, oldest first.
    recent_sends_by_age: VecDeque<(u64, (String, String))>,
}

#[derive(Debug)]
struct StoredMessage {
    message: Message,
    /// End of the visibility timeout, in Unix milliseconds. `None` if the message is not in flight.
    visible_at_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Group {
    sequences: BTreeSet<u64>,
    in_flight: usize,
}

#[derive(Debug, Clone, Copy)]
struct RecentSend {
    number: u64,
    sequence: u64,
}

impl Queue {
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            messages: BTreeMap::new(),
            groups: BTreeMap::new(),
            ready: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            recent_sends: BTreeMap::new(),
            recent_sends_by_age: VecDeque::new(),
        }
    }

    pub fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Adds a message. `number` becomes its number and its sequence; a duplicate does not use it.
    pub fn send(&mut self, now_ms: u64, number: u64, new: NewMessage) -> Result<SendOutcome, SendError> {
        new.validate(self.settings.fifo)?;
        if self.settings.fifo {
            self.drop_old_deduplication_ids(now_ms);
            let key = deduplication_key(&new.group, &new.deduplication_id);
            if let Some(first) = self.recent_sends.get(&key) {
                return Ok(SendOutcome::Duplicate { number: first.number, sequence: first.sequence });
            }
            self.add_deduplication_id(now_ms, key, RecentSend { number, sequence: number });
        }
        let message = Message {
            number,
            sequence: number,
            body: new.body,
            group: new.group,
            deduplication_id: new.deduplication_id,
            attributes: new.attributes,
            trace_header: new.trace_header,
            sent_at_ms: now_ms,
            first_received_at_ms: None,
            receive_count: 0,
            dead_letter_source: None,
        };
        self.insert(message.clone());
        if new.delay_ms > 0 {
            self.hide(&message, now_ms + new.delay_ms);
        }
        Ok(SendOutcome::Queued(message))
    }

    /// Inserts a visible message at the position that its sequence gives. For messages that come from another queue.
    pub fn insert(&mut self, message: Message) {
        let group_key = self.group_key(&message);
        let sequence = message.sequence;
        self.messages.insert(sequence, StoredMessage { message, visible_at_ms: None });
        self.update_group(&group_key, |group| {
            group.sequences.insert(sequence);
        });
    }

    /// Inserts a message that was in the queue before a restart. Its deduplication window starts at its original send
    /// time.
    pub fn reload(&mut self, message: Message) {
        if self.settings.fifo && message.dead_letter_source.is_none() {
            let key = deduplication_key(&message.group, &message.deduplication_id);
            let recent_send = RecentSend { number: message.number, sequence: message.sequence };
            self.add_deduplication_id(message.sent_at_ms, key, recent_send);
        }
        self.insert(message);
    }

    /// Removes a message that was just sent, and its deduplication id, as if the send had never happened.
    pub fn undo_send(&mut self, message: &Message) {
        self.remove(message.sequence);
        let key = deduplication_key(&message.group, &message.deduplication_id);
        self.recent_sends.remove(&key);
        self.recent_sends_by_age.retain(|(_, other)| *other != key);
    }

    /// Receives at most `messages_max` messages. Each stays invisible for `visibility_timeout_ms`, or for the timeout
    /// of the queue if that is `None`.
    ///
    /// Like SQS, it takes as many messages as possible from one group before it continues with the next.
    pub fn receive(&mut self, now_ms: u64, messages_max: usize, visibility_timeout_ms: Option<u64>) -> ReceiveOutcome {
        self.expire_timeouts(now_ms);
        let timeout_ms = visibility_timeout_ms.unwrap_or(self.settings.visibility_timeout_ms);
        let visible_at_ms = now_ms + timeout_ms;

        let mut outcome = ReceiveOutcome::default();
        while outcome.messages.len() < messages_max {
            let Some((_, group_key)) = self.ready.first().cloned() else { break };
            let mut after = 0;
            while outcome.messages.len() < messages_max {
                let Some(sequence) = self.next_in_group(&group_key, after) else { break };
                after = sequence;
                if self.reached_receive_limit(sequence) {
                    outcome.dead_letters.extend(self.remove(sequence));
                    continue;
                }
                let Some(stored) = self.messages.get_mut(&sequence) else { continue };
                stored.visible_at_ms = Some(visible_at_ms);
                stored.message.receive_count += 1;
                stored.message.first_received_at_ms.get_or_insert(now_ms);
                let message = stored.message.clone();
                self.in_flight.insert((visible_at_ms, sequence));
                self.update_group(&group_key, |group| group.in_flight += 1);
                outcome.messages.push(ReceivedMessage { receipt_handle: self.handle(&message), message });
            }
        }
        outcome
    }

    /// Removes the message and returns it. Returns `None`, and removes nothing, if the handle comes from an earlier
    /// receive or the message is gone.
    pub fn delete(&mut self, now_ms: u64, receipt_handle: &str) -> Result<Option<Message>, ReceiptHandleError> {
        self.expire_timeouts(now_ms);
        let handle = self.parse_handle(receipt_handle)?;
        match self.messages.get(&handle.sequence) {
            Some(stored) if stored.message.receive_count == handle.receive_count => {
                if self.settings.fifo && stored.visible_at_ms.is_none() {
                    return Err(ReceiptHandleError::Expired);
                }
                Ok(self.remove(handle.sequence))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Makes the message visible again `timeout_ms` from now.
    pub fn change_visibility(
        &mut self,
        now_ms: u64,
        receipt_handle: &str,
        timeout_ms: u64,
    ) -> Result<(), ReceiptHandleError> {
        self.expire_timeouts(now_ms);
        if timeout_ms > VISIBILITY_TIMEOUT_MS_MAX {
            return Err(ReceiptHandleError::InvalidTimeout);
        }
        let handle = self.parse_handle(receipt_handle)?;
        let stored = self
            .messages
            .get_mut(&handle.sequence)
            .filter(|stored| stored.message.receive_count == handle.receive_count)
            .ok_or(ReceiptHandleError::NotInFlight)?;
        let until_ms = stored.visible_at_ms.ok_or(ReceiptHandleError::NotInFlight)?;
        stored.visible_at_ms = Some(now_ms + timeout_ms);
        self.in_flight.remove(&(until_ms, handle.sequence));
        self.in_flight.insert((now_ms + timeout_ms, handle.sequence));
        self.expire_timeouts(now_ms);
        Ok(())
    }

    /// Removes all messages, including those in flight, and returns them.
    pub fn purge(&mut self) -> Vec<Message> {
        self.groups.clear();
        self.ready.clear();
        self.in_flight.clear();
        std::mem::take(&mut self.messages).into_values().map(|stored| stored.message).collect()
    }

    /// Removes all messages that are not in flight, and returns them in order.
    pub fn remove_visible(&mut self, now_ms: u64) -> Vec<Message> {
        self.expire_timeouts(now_ms);
        let visible: Vec<u64> = self
            .messages
            .values()
            .filter(|stored| stored.visible_at_ms.is_none())
            .map(|stored| stored.message.sequence)
            .collect();
        visible.into_iter().filter_map(|sequence| self.remove(sequence)).collect()
    }

    /// Removes all messages that are older than the retention of the queue, and returns them in order.
    pub fn remove_expired(&mut self, now_ms: u64) -> Vec<Message> {
        let retention_ms = self.settings.retention_ms;
        // A message that comes from another queue counts as sent then, so the first messages are the oldest.
        let is_expired = |stored: &&StoredMessage| stored.message.sent_at_ms + retention_ms <= now_ms;
        let expired: Vec<u64> =
            self.messages.values().take_while(is_expired).map(|stored| stored.message.sequence).collect();
        expired.into_iter().filter_map(|sequence| self.remove(sequence)).collect()
    }

    /// Time of the next receive that may return a message: now, or the end of a visibility timeout. `None` if the queue
    /// is empty.
    ///
    /// A receive at the end of a timeout may still return nothing, because another message of the group can be in
    /// flight for longer.
    pub fn next_visible_at(&mut self, now_ms: u64) -> Option<u64> {
        self.expire_timeouts(now_ms);
        if !self.ready.is_empty() {
            return Some(now_ms);
        }
        self.in_flight.first().map(|(visible_at_ms, _)| *visible_at_ms)
    }

    pub fn depth(&mut self, now_ms: u64) -> Depth {
        self.expire_timeouts(now_ms);
        let in_flight = self.in_flight.len();
        Depth { visible: self.messages.len() - in_flight, in_flight }
    }

    /// Time at which the oldest message was sent that counts for `ApproximateAgeOfOldestMessage`. `None` if there is none.
    pub fn oldest_sent_at(&self) -> Option<u64> {
        self.messages().find(|message| message.receive_count <= AGED_RECEIVES_MAX).map(|message| message.sent_at_ms)
    }

    /// All messages in order, including those in flight.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values().map(|stored| &stored.message)
    }

    fn hide(&mut self, message: &Message, visible_at_ms: u64) {
        if let Some(stored) = self.messages.get_mut(&message.sequence) {
            stored.visible_at_ms = Some(visible_at_ms);
            self.in_flight.insert((visible_at_ms, message.sequence));
            let group_key = self.group_key(message);
            self.update_group(&group_key, |group| group.in_flight += 1);
        }
    }

    fn drop_old_deduplication_ids(&mut self, now_ms: u64) {
        while let Some((at_ms, _)) = self.recent_sends_by_age.front() {
            if at_ms + DEDUPLICATION_WINDOW_MS > now_ms {
                break;
            }
            if let Some((_, key)) = self.recent_sends_by_age.pop_front() {
                self.recent_sends.remove(&key);
            }
        }
    }

    fn add_deduplication_id(&mut self, at_ms: u64, key: (String, String), recent_send: RecentSend) {
        self.recent_sends.insert(key.clone(), recent_send);
        self.recent_sends_by_age.push_back((at_ms, key));
    }

    fn expire_timeouts(&mut self, now_ms: u64) {
        while let Some((visible_at_ms, sequence)) = self.in_flight.first().copied() {
            if visible_at_ms > now_ms {
                break;
            }
            self.in_flight.pop_first();
            let Some(stored) = self.messages.get_mut(&sequence) else { continue };
            stored.visible_at_ms = None;
            let group_key = group_key(self.settings.fifo, &stored.message);
            self.update_group(&group_key, |group| group.in_flight -= 1);
        }
    }

    fn next_in_group(&self, group_key: &str, after: u64) -> Option<u64> {
        self.groups.get(group_key)?.sequences.range(after + 1..).next().copied()
    }

    fn reached_receive_limit(&self, sequence: u64) -> bool {
        match (&self.settings.redrive_policy, self.messages.get(&sequence)) {
            (Some(redrive), Some(stored)) => stored.message.receive_count >= redrive.max_receive_count,
            _ => false,
        }
    }

    fn remove(&mut self, sequence: u64) -> Option<Message> {
        let stored = self.messages.remove(&sequence)?;
        if let Some(visible_at_ms) = stored.visible_at_ms {
            self.in_flight.remove(&(visible_at_ms, sequence));
        }
        let group_key = self.group_key(&stored.message);
        self.update_group(&group_key, |group| {
            group.sequences.remove(&sequence);
            group.in_flight -= usize::from(stored.visible_at_ms.is_some());
        });
        Some(stored.message)
    }

    /// Changes a group and updates `ready` to match. All changes of groups go through here.
    fn update_group(&mut self, group_key: &str, change: impl FnOnce(&mut Group)) {
        let group = self.groups.entry(group_key.to_owned()).or_default();
        let first_before = group.sequences.first().copied();
        change(group);
        let first = group.sequences.first().copied();
        let ready = group.in_flight == 0;
        if group.sequences.is_empty() {
            self.groups.remove(group_key);
        }
        if let Some(first) = first_before {
            self.ready.remove(&(first, group_key.to_owned()));
        }
        if let (Some(first), true) = (first, ready) {
            self.ready.insert((first, group_key.to_owned()));
        }
    }

    fn group_key(&self, message: &Message) -> String {
        group_key(self.settings.fifo, message)
    }

    fn handle(&self, message: &Message) -> String {
        format!("{}/{}/{}", self.settings.name, message.sequence, message.receive_count)
    }

    fn parse_handle(&self, handle: &str) -> Result<Handle, ReceiptHandleError> {
        let parse = || {
            let (rest, receive_count) = handle.rsplit_once('/')?;
            let (queue, sequence) = rest.rsplit_once('/')?;
            (queue == self.settings.name)
                .then_some(Handle { sequence: sequence.parse().ok()?, receive_count: receive_count.parse().ok()? })
        };
        parse().ok_or(ReceiptHandleError::Invalid)
    }
}

struct Handle {
    sequence: u64,
    receive_count: u32,
}

/// Returns the key under which messages block each other while one is in flight: the message group, or in a standard
/// queue the message's own sequence.
fn group_key(fifo: bool, message: &Message) -> String {
    match &message.group {
        Some(group) if fifo => group.clone(),
        Some(_) | None => message.sequence.to_string(),
    }
}

fn deduplication_key(group: &Option<String>, id: &Option<String>) -> (String, String) {
    (group.clone().unwrap_or_default(), id.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;
