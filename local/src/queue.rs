//! The model of an SQS queue: pure, `now` is an argument, ids are numbers that the caller counts.
//!
//! A FIFO queue is a row of messages, each in a group, and the rules are about the group:
//!
//! - messages of a group are received in the order in which they were sent;
//! - **while a message of a group is in flight, no other receive gets anything of that group**, though one receive may
//!   get several messages of it, in order;
//! - a message whose visibility timeout ends is back in its place, not at the end;
//! - the message that was received `max_receive_count` times is moved to the dead-letter queue by the receive that would
//!   have been one more, and the group goes on behind it;
//! - a second send of a deduplication id within a group and five minutes is answered like the first and adds nothing,
//!   whether or not the first message was received or deleted since.
//!
//! In a standard queue every message is a group of its own and nothing is deduplicated.
//!
//! `DeleteMessage` with the receipt handle of an earlier receive does nothing and says so to nobody: a handle is not a
//! fencing token. On a FIFO queue a handle whose timeout has ended, and which no later receive has replaced, is refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

pub const DEDUPLICATION_WINDOW_MS: u64 = 5 * 60 * 1_000;
/// Of the message ids of FIFO queues: group and deduplication.
pub const FIFO_ID_CHARS_MAX: usize = 128;
/// 1 MiB: of one message with its attributes, and of all messages of a batch together.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
pub const BATCH_ENTRIES_MAX: usize = 10;
pub const RECEIVE_MESSAGES_MAX: usize = 10;
/// 12 hours.
pub const VISIBILITY_TIMEOUT_MS_MAX: u64 = 12 * 60 * 60 * 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    pub name: String,
    pub fifo: bool,
    pub visibility_timeout_ms: u64,
    pub redrive_policy: Option<RedrivePolicy>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedrivePolicy {
    pub dead_letter_queue: String,
    pub max_receive_count: u32,
}

/// A message as it lies in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Unique over all queues, and given once: the id is made of it.
    pub number: u64,
    /// The place in its queue; a message that is moved gets a new one.
    pub sequence: u64,
    pub body: String,
    pub group: Option<String>,
    pub deduplication_id: Option<String>,
    pub attributes: BTreeMap<String, MessageAttribute>,
    pub trace_header: Option<String>,
    pub sent_at_ms: u64,
    pub first_received_at_ms: Option<u64>,
    pub receive_count: u32,
    /// The queue that gave up on the message, where this one is its dead-letter queue.
    pub dead_letter_source: Option<String>,
}

/// The value is a string, or bytes in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageAttribute {
    #[serde(rename = "DataType")]
    pub data_type: String,
    #[serde(rename = "StringValue", skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    #[serde(rename = "BinaryValue", skip_serializing_if = "Option::is_none")]
    pub binary_value: Option<String>,
}

/// A message as its sender gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    pub body: String,
    pub group: Option<String>,
    pub deduplication_id: Option<String>,
    pub attributes: BTreeMap<String, MessageAttribute>,
    pub trace_header: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendOutcome {
    Queued(Message),
    /// What the first send of this deduplication id was answered with.
    Duplicate {
        number: u64,
        sequence: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("The request must contain the parameter MessageBody.")]
    EmptyBody,
    #[error("Message contains characters outside of the allowed set.")]
    InvalidCharacters,
    #[error("One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")]
    TooLarge,
    #[error("The request must contain the parameter MessageGroupId.")]
    MissingGroup,
    #[error(
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )]
    MissingDeduplicationId,
    #[error(
        "Value for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and \
         punctuation characters. 1 to 128 in length."
    )]
    InvalidGroup,
    #[error(
        "Value for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include \
         alphanumeric and punctuation characters. 1 to 128 in length."
    )]
    InvalidDeduplicationId,
}

/// A message as a receive returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub message: Message,
    pub receipt_handle: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReceiveOutcome {
    pub messages: Vec<ReceivedMessage>,
    /// Messages that this receive took out of the queue because they had been received often enough; they belong into
    /// the dead-letter queue, in this order.
    pub dead_letters: Vec<Message>,
}

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

/// How many messages a queue holds.
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
    /// The groups that a receive may take from, by the place of their first message.
    ready: BTreeSet<(u64, String)>,
    /// `(visible again at, sequence)`.
    in_flight: BTreeSet<(u64, u64)>,
    recent_sends: BTreeMap<(String, String), RecentSend>,
    /// The keys of `recent_sends`, oldest first.
    recent_sends_by_age: VecDeque<(u64, (String, String))>,
}

#[derive(Debug)]
struct StoredMessage {
    message: Message,
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

    /// Adds a message under the given number, which is its place too; a duplicate uses neither.
    pub fn send(&mut self, now_ms: u64, number: u64, new: NewMessage) -> Result<SendOutcome, SendError> {
        self.check(&new)?;
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
        Ok(SendOutcome::Queued(message))
    }

    /// Puts a message where its sequence says, visible: one that comes from another queue, or from before a restart.
    pub fn insert(&mut self, message: Message) {
        let group_key = self.group_key(&message);
        let sequence = message.sequence;
        self.messages.insert(sequence, StoredMessage { message, visible_at_ms: None });
        self.update_group(&group_key, |group| {
            group.sequences.insert(sequence);
        });
    }

    /// Puts a message back that was there before a restart: its deduplication id counts from when it was sent.
    pub fn reload(&mut self, message: Message) {
        if self.settings.fifo && message.dead_letter_source.is_none() {
            let key = deduplication_key(&message.group, &message.deduplication_id);
            let recent_send = RecentSend { number: message.number, sequence: message.sequence };
            self.add_deduplication_id(message.sent_at_ms, key, recent_send);
        }
        self.insert(message);
    }

    /// Takes back a message that was just sent, as if it never had been.
    pub fn undo_send(&mut self, message: &Message) {
        self.remove(message.sequence);
        let key = deduplication_key(&message.group, &message.deduplication_id);
        self.recent_sends.remove(&key);
        self.recent_sends_by_age.retain(|(_, other)| *other != key);
    }

    /// Takes at most `messages_max` messages, each invisible for the timeout: the queue's, or the one given.
    ///
    /// Fills up from one group before it turns to the next, as SQS does.
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

    /// Removes the message, or does nothing where the handle is of an earlier receive or the message is gone; returns
    /// the removed message.
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

    /// Makes the message of the handle visible in `timeout_ms` from now.
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

    /// Removes every message, those in flight included.
    pub fn purge(&mut self) -> Vec<Message> {
        self.groups.clear();
        self.ready.clear();
        self.in_flight.clear();
        std::mem::take(&mut self.messages).into_values().map(|stored| stored.message).collect()
    }

    /// Removes every message that is not in flight, in order.
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

    /// When a receive may next get something: now, at the end of a timeout, or, where there is nothing, never. (At the
    /// end of a timeout it may still get nothing: another message of the group may be in flight for longer.)
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

    /// Every message in order, received or not.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values().map(|stored| &stored.message)
    }

    fn check(&self, new: &NewMessage) -> Result<(), SendError> {
        if new.body.is_empty() {
            return Err(SendError::EmptyBody);
        }
        if !new.body.chars().all(is_xml_char) {
            return Err(SendError::InvalidCharacters);
        }
        if new.bytes() > MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge);
        }
        if self.settings.fifo {
            let group = new.group.as_deref().ok_or(SendError::MissingGroup)?;
            if !is_fifo_id(group) {
                return Err(SendError::InvalidGroup);
            }
            let id = new.deduplication_id.as_deref().ok_or(SendError::MissingDeduplicationId)?;
            if !is_fifo_id(id) {
                return Err(SendError::InvalidDeduplicationId);
            }
        }
        Ok(())
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

    /// The only place where a group changes: keeps `ready` in step with it.
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

impl NewMessage {
    /// What counts against the limit: the body and the attributes, names and types included.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.attributes.iter().map(|(name, attribute)| attribute.bytes(name)).sum::<usize>()
    }
}

impl MessageAttribute {
    pub(crate) fn bytes(&self, name: &str) -> usize {
        let value = self.string_value.as_ref().or(self.binary_value.as_ref());
        name.len() + self.data_type.len() + value.map_or(0, String::len)
    }
}

impl Message {
    pub fn id(&self) -> String {
        message_id(self.number)
    }
}

/// A message id for a number: a UUID in form.
pub fn message_id(number: u64) -> String {
    let hex = format!("{number:016x}");
    let (head, tail) = hex.split_at(4);
    format!("00000000-0000-4000-{head}-{tail}")
}

/// What blocks while one of its messages is in flight: the group, or in a standard queue the message itself.
fn group_key(fifo: bool, message: &Message) -> String {
    match &message.group {
        Some(group) if fifo => group.clone(),
        Some(_) | None => message.sequence.to_string(),
    }
}

fn deduplication_key(group: &Option<String>, id: &Option<String>) -> (String, String) {
    (group.clone().unwrap_or_default(), id.clone().unwrap_or_default())
}

fn is_fifo_id(id: &str) -> bool {
    (1..=FIFO_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_xml_char(char: char) -> bool {
    matches!(char, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000;
    const TIMEOUT: u64 = 30 * SECOND;

    struct World {
        queue: Queue,
        dead: Vec<Message>,
        next: u64,
    }

    fn world(max_receive_count: Option<u32>) -> World {
        let redrive_policy = max_receive_count
            .map(|max_receive_count| RedrivePolicy { dead_letter_queue: "dlq.fifo".to_owned(), max_receive_count });
        let settings =
            QueueSettings { name: "q.fifo".to_owned(), fifo: true, visibility_timeout_ms: TIMEOUT, redrive_policy };
        World { queue: Queue::new(settings), dead: Vec::new(), next: 1 }
    }

    fn message(group: &str, body: &str) -> NewMessage {
        NewMessage {
            body: body.to_owned(),
            group: Some(group.to_owned()),
            deduplication_id: Some(body.to_owned()),
            ..Default::default()
        }
    }

    impl World {
        fn send(&mut self, now: u64, new: NewMessage) -> Result<SendOutcome, SendError> {
            self.next += 1;
            self.queue.send(now, self.next, new)
        }

        /// Bodies named `group` and a number.
        fn send_all(&mut self, bodies: &[&str]) {
            for body in bodies {
                self.send(0, message(&body[..1], body)).unwrap();
            }
        }

        fn receive(&mut self, now: u64, max: usize) -> Vec<ReceivedMessage> {
            let outcome = self.queue.receive(now, max, None);
            self.dead.extend(outcome.dead_letters);
            outcome.messages
        }

        fn bodies(&mut self, now: u64, max: usize) -> Vec<String> {
            self.receive(now, max).into_iter().map(|received| received.message.body).collect()
        }
    }

    #[test]
    fn group_is_received_in_the_order_of_sending() {
        let mut world = world(None);
        world.send_all(&["a1", "b1", "a2", "a3"]);

        assert_eq!(world.bodies(0, 10), ["a1", "a2", "a3", "b1"]);
    }

    #[test]
    fn one_receive_may_return_several_messages_of_a_group() {
        let mut world = world(None);
        world.send_all(&["a1", "a2", "a3"]);

        assert_eq!(world.bodies(0, 2), ["a1", "a2"]);
    }

    #[test]
    fn group_with_a_message_in_flight_is_blocked() {
        let mut world = world(None);
        world.send_all(&["a1", "a2", "b1"]);

        let first = world.receive(0, 1);
        assert_eq!(world.bodies(0, 10), ["b1"]);
        world.send_all(&["a3"]);
        assert_eq!(world.bodies(0, 10), [""; 0]);

        world.queue.delete(0, &first[0].receipt_handle).unwrap();
        assert_eq!(world.bodies(0, 10), ["a2", "a3"]);
    }

    #[test]
    fn group_stays_blocked_until_its_last_message_in_flight_is_done() {
        let mut world = world(None);
        world.send_all(&["a1", "a2"]);
        let received = world.receive(0, 10);

        world.queue.change_visibility(0, &received[0].receipt_handle, 0).unwrap();
        assert_eq!(world.bodies(0, 10), [""; 0]);
        world.queue.delete(0, &received[1].receipt_handle).unwrap();
        assert_eq!(world.bodies(0, 10), ["a1"]);
    }

    #[test]
    fn message_whose_timeout_ends_is_back_in_its_place() {
        let mut world = world(None);
        world.send_all(&["a1", "a2"]);
        world.receive(0, 1);

        assert_eq!(world.bodies(TIMEOUT - 1, 10), [""; 0]);
        assert_eq!(world.bodies(TIMEOUT, 10), ["a1", "a2"]);
    }

    #[test]
    fn receive_count_rises_with_every_receive() {
        let mut world = world(None);
        world.send_all(&["a1"]);

        for count in 1..=3 {
            let now = u64::from(count) * TIMEOUT;
            let received = world.receive(now, 1);
            assert_eq!(received[0].message.receive_count, count);
            assert_eq!(received[0].message.first_received_at_ms, Some(TIMEOUT));
        }
    }

    #[test]
    fn visibility_zero_makes_visible_at_once() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        let received = world.receive(0, 1);

        world.queue.change_visibility(5, &received[0].receipt_handle, 0).unwrap();
        assert_eq!(world.queue.next_visible_at(5), Some(5));
        assert_eq!(world.bodies(5, 1), ["a1"]);
    }

    #[test]
    fn visibility_can_be_extended_from_now() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        let received = world.receive(0, 1);

        world.queue.change_visibility(10 * SECOND, &received[0].receipt_handle, 900 * SECOND).unwrap();
        assert_eq!(world.queue.next_visible_at(TIMEOUT), Some(910 * SECOND));
        assert_eq!(world.bodies(910 * SECOND - 1, 1), [""; 0]);
        assert_eq!(world.bodies(910 * SECOND, 1), ["a1"]);
    }

    #[test]
    fn visibility_of_a_message_not_in_flight_cannot_change() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        let first = world.receive(0, 1);

        let queue = &mut world.queue;
        let too_long = VISIBILITY_TIMEOUT_MS_MAX + 1;
        assert_eq!(
            queue.change_visibility(0, &first[0].receipt_handle, too_long),
            Err(ReceiptHandleError::InvalidTimeout)
        );
        assert_eq!(queue.change_visibility(TIMEOUT, &first[0].receipt_handle, 5), Err(ReceiptHandleError::NotInFlight));
        queue.receive(TIMEOUT, 1, None);
        assert_eq!(queue.change_visibility(TIMEOUT, &first[0].receipt_handle, 5), Err(ReceiptHandleError::NotInFlight));
        assert_eq!(queue.change_visibility(0, "nonsense", 5), Err(ReceiptHandleError::Invalid));
    }

    #[test]
    fn handle_of_an_earlier_receive_deletes_nothing() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        let first = world.receive(0, 1);
        let second = world.receive(TIMEOUT, 1);

        assert_eq!(world.queue.delete(TIMEOUT, &first[0].receipt_handle), Ok(None));
        assert_eq!(world.queue.depth(TIMEOUT).in_flight, 1);
        assert!(world.queue.delete(TIMEOUT, &second[0].receipt_handle).unwrap().is_some());
        assert_eq!(world.queue.delete(TIMEOUT, &second[0].receipt_handle), Ok(None));
        assert_eq!(world.queue.depth(TIMEOUT), Depth::default());
    }

    #[test]
    fn expired_handle_is_refused_by_a_fifo_queue() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        let received = world.receive(0, 1);

        assert_eq!(world.queue.delete(TIMEOUT, &received[0].receipt_handle), Err(ReceiptHandleError::Expired));
        assert_eq!(world.bodies(TIMEOUT, 1), ["a1"]);
    }

    #[test]
    fn handle_of_another_queue_is_invalid() {
        let mut world = world(None);
        assert_eq!(world.queue.delete(0, "other.fifo/1/1"), Err(ReceiptHandleError::Invalid));
    }

    #[test]
    fn duplicate_is_answered_like_the_first_even_after_delete() {
        let mut world = world(None);
        let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
        let received = world.receive(0, 1);
        world.queue.delete(0, &received[0].receipt_handle).unwrap();

        let again = world.send(DEDUPLICATION_WINDOW_MS - 1, message("a", "x")).unwrap();
        assert_eq!(again, SendOutcome::Duplicate { number: first.number, sequence: first.sequence });
        assert_eq!(world.bodies(DEDUPLICATION_WINDOW_MS - 1, 10), [""; 0]);
    }

    #[test]
    fn deduplication_ends_five_minutes_after_the_first_send() {
        let mut world = world(None);
        world.send(0, message("a", "x")).unwrap();
        world.send(DEDUPLICATION_WINDOW_MS - 1, message("a", "x")).unwrap();
        let later = world.send(DEDUPLICATION_WINDOW_MS, message("a", "x")).unwrap();

        assert!(matches!(later, SendOutcome::Queued(_)), "{later:?}");
    }

    #[test]
    fn deduplication_is_per_group() {
        let mut world = world(None);
        world.send(0, message("a", "x")).unwrap();
        let other = world.send(0, message("b", "x")).unwrap();

        assert!(matches!(other, SendOutcome::Queued(_)), "{other:?}");
    }

    #[test]
    fn group_and_deduplication_id_are_required() {
        let mut world = world(None);
        let without_group = NewMessage { group: None, ..message("a", "x") };
        let without_id = NewMessage { deduplication_id: None, ..message("a", "x") };

        assert_eq!(world.send(0, without_group), Err(SendError::MissingGroup));
        assert_eq!(world.send(0, without_id), Err(SendError::MissingDeduplicationId));
    }

    #[test]
    fn ids_are_at_most_128_graphic_ascii_characters() {
        let longest = "!~".repeat(64);
        let mut world = world(None);
        world.send(0, message(&longest, "x")).unwrap();

        for bad in ["", "a b", "é", &format!("{longest}x")] {
            assert_eq!(world.send(0, message(bad, "x")), Err(SendError::InvalidGroup), "{bad}");
            let new = NewMessage { deduplication_id: Some(bad.to_owned()), ..message("a", "x") };
            assert_eq!(world.send(0, new), Err(SendError::InvalidDeduplicationId), "{bad}");
        }
    }

    #[test]
    fn body_that_xml_cannot_carry_is_rejected() {
        let mut world = world(None);
        world.send(0, message("a", "tab\tline\ncarriage\rümlaut 🎉")).unwrap_err();
        let body = "tab\tline\ncarriage\rümlaut 🎉".to_owned();
        world.send(0, NewMessage { body, ..message("a", "x") }).unwrap();

        for bad in ["\u{0}", "\u{b}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
            let new = NewMessage { body: bad.to_owned(), ..message("a", "y") };
            assert_eq!(world.send(0, new), Err(SendError::InvalidCharacters), "{bad:?}");
        }
    }

    #[test]
    fn message_has_at_most_one_mebibyte() {
        let mut world = world(None);
        let largest = NewMessage { body: "x".repeat(MESSAGE_BYTES_MAX), ..message("a", "x") };
        let larger = NewMessage { body: "x".repeat(MESSAGE_BYTES_MAX + 1), ..message("a", "y") };
        let empty = NewMessage { body: String::new(), ..message("a", "z") };

        world.send(0, largest).unwrap();
        assert_eq!(world.send(0, larger), Err(SendError::TooLarge));
        assert_eq!(world.send(0, empty), Err(SendError::EmptyBody));
    }

    #[test]
    fn message_received_often_enough_is_dead_and_its_group_goes_on() {
        let mut world = world(Some(2));
        world.send_all(&["a1", "a2"]);
        for now in [0, TIMEOUT] {
            assert_eq!(world.receive(now, 1)[0].message.body, "a1");
        }

        assert_eq!(world.bodies(2 * TIMEOUT, 1), ["a2"]);
        let dead: Vec<(&str, u32)> = world.dead.iter().map(|m| (m.body.as_str(), m.receive_count)).collect();
        assert_eq!(dead, [("a1", 2)]);
    }

    #[test]
    fn followers_received_with_a_poison_message_die_with_it_in_order() {
        let mut world = world(Some(1));
        world.send_all(&["a1", "a2", "b1"]);
        world.bodies(0, 2);

        assert_eq!(world.bodies(TIMEOUT, 10), ["b1"]);
        let dead: Vec<&str> = world.dead.iter().map(|message| message.body.as_str()).collect();
        assert_eq!(dead, ["a1", "a2"]);
    }

    #[test]
    fn depth_tells_visible_from_in_flight() {
        let mut world = world(None);
        world.send_all(&["a1", "a2", "b1"]);
        world.receive(0, 1);

        assert_eq!(world.queue.depth(0), Depth { visible: 2, in_flight: 1 });
        assert_eq!(world.queue.depth(TIMEOUT), Depth { visible: 3, in_flight: 0 });
    }

    #[test]
    fn purge_removes_what_is_in_flight_too() {
        let mut world = world(None);
        world.send_all(&["a1", "b1"]);
        let received = world.receive(0, 1);

        assert_eq!(world.queue.purge().len(), 2);
        assert_eq!(world.queue.depth(0), Depth::default());
        assert_eq!(world.queue.next_visible_at(0), None);
        assert_eq!(world.queue.delete(0, &received[0].receipt_handle), Ok(None));
    }

    #[test]
    fn receive_with_timeout_zero_leaves_the_message_visible() {
        let mut world = world(None);
        world.send_all(&["a1"]);
        world.queue.receive(0, 1, Some(0));

        assert_eq!(world.bodies(0, 1), ["a1"]);
    }

    #[test]
    fn standard_queue_blocks_nothing() {
        let settings =
            QueueSettings { name: "q".to_owned(), fifo: false, visibility_timeout_ms: TIMEOUT, redrive_policy: None };
        let mut queue = Queue::new(settings);
        for number in 1..=2 {
            queue.send(0, number, message("a", "x")).unwrap();
        }

        let first = queue.receive(0, 1, None).messages;
        let second = queue.receive(0, 1, None).messages;
        assert_ne!(first[0].message.number, second[0].message.number);
        assert!(queue.delete(TIMEOUT, &first[0].receipt_handle).unwrap().is_some(), "an expired handle still deletes");
    }

    #[test]
    fn withdrawn_message_can_be_sent_again() {
        let mut world = world(None);
        let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
        world.queue.undo_send(&first);

        assert_eq!(world.bodies(0, 10), [""; 0]);
        assert!(matches!(world.send(0, message("a", "x")), Ok(SendOutcome::Queued(_))));
    }

    #[test]
    fn restored_message_still_deduplicates() {
        let mut world = world(None);
        let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
        let mut queue = Queue::new(world.queue.settings().clone());
        queue.reload(first);

        assert!(matches!(queue.send(10, 99, message("a", "x")), Ok(SendOutcome::Duplicate { .. })));
        assert!(matches!(queue.send(DEDUPLICATION_WINDOW_MS, 99, message("a", "x")), Ok(SendOutcome::Queued(_))));
    }

    /// Random operations, against the rules stated naively.
    #[test]
    fn invariant_a_group_is_never_received_twice_at_once_nor_out_of_order() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut world = world(Some(5));
            let mut now = 0;
            let mut flying: BTreeMap<u64, (ReceivedMessage, u64)> = BTreeMap::new();
            for step in 0..300_u64 {
                now += random.u64(0..10 * SECOND);
                flying.retain(|_, (_, until)| *until > now);
                match random.u32(0..5) {
                    0 | 1 => {
                        let group = ["a", "b", "c"][random.usize(0..3)];
                        world.send(now, message(group, &step.to_string())).unwrap();
                    }
                    2 => {
                        let max = random.usize(1..5);
                        for received in world.receive(now, max) {
                            let group = &received.message.group;
                            let earlier = flying
                                .values()
                                .find(|(other, until)| other.message.group == *group && *until != now + TIMEOUT);
                            assert!(earlier.is_none(), "seed {seed}: {received:?} beside {earlier:?}");
                            let before = world.queue.messages().find(|other| other.group == *group).unwrap();
                            let first = flying.values().filter(|(other, _)| other.message.group == *group).count();
                            assert!(first > 0 || before.sequence == received.message.sequence, "seed {seed}");
                            flying.insert(received.message.sequence, (received, now + TIMEOUT));
                        }
                    }
                    3 => {
                        if let Some(sequence) = flying.keys().next().copied() {
                            let (received, _) = flying.remove(&sequence).unwrap();
                            assert!(world.queue.delete(now, &received.receipt_handle).unwrap().is_some());
                        }
                    }
                    _ => {
                        if let Some((received, until)) = flying.values_mut().next() {
                            let timeout = random.u64(1..60) * SECOND + 1;
                            world.queue.change_visibility(now, &received.receipt_handle, timeout).unwrap();
                            *until = now + timeout;
                        }
                    }
                }
                let depth = world.queue.depth(now);
                assert_eq!(depth.in_flight, flying.len(), "seed {seed} step {step}");
            }
        }
    }
}
