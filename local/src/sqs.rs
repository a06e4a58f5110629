//! The queues behind the JSON that the SDK speaks, and for those who need no SDK: the pump and the tests.
//!
//! With a data directory every message is one entry of a journal, written before its sender is answered and erased when
//! it is deleted. **A message that a sender was told of is there after a kill, in its place, visible.** Its receive count
//! and what was in flight are not kept. A move to another queue is a new entry and then the end of the old one; where
//! both are found, the later place holds.

mod protocol;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::{Journal, ordered_key};
use crate::queue::{
    Depth, Message, NewMessage, Queue, QueueSettings, ReceiptHandleError, ReceivedMessage, SendError, SendOutcome,
};
use crate::sync::{Signal, Watch, lock};
use crate::{ACCOUNT, REGION};

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
}

/// What a queue refuses, and what it failed to do.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("The specified queue does not exist.")]
    UnknownQueue,
    #[error("{0}")]
    Send(SendError),
    #[error("{0}")]
    ReceiptHandle(ReceiptHandleError),
    #[error("the queue could not be stored in the data directory")]
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
        // Later than every number that an earlier process gave out, whether or not its message is still there; none is 0.
        let mut next_number = (clock.now_ms() << 20) + 1;
        if let Some(journal) = &journal {
            for entry in read_journal(journal)? {
                next_number = next_number.max(entry.message.sequence + 1);
                if let Some(queue) = queues.get_mut(&entry.queue) {
                    queue.reload(entry.message);
                }
            }
        }
        Ok(Self { state: Mutex::new(State { queues, next_number }), signals, journal, clock })
    }

    pub fn send(&self, queue: &str, new: NewMessage) -> Result<SendOutcome, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let number = state.next_number;
        let target = state.queue(queue)?;
        let sent = target.send(now_ms, number, new).map_err(QueueError::Send)?;
        if let SendOutcome::Queued(message) = &sent {
            if let Err(error) = self.persist(queue, message) {
                target.undo_send(message);
                return Err(error);
            }
            state.next_number += 1;
            drop(state);
            self.changed(queue);
        }
        Ok(sent)
    }

    /// At most `messages_max` messages, each invisible for the timeout of the queue or the one given. What was received
    /// too often is moved to the dead-letter queue on the way.
    pub fn receive(
        &self,
        queue: &str,
        messages_max: usize,
        visibility_timeout_ms: Option<u64>,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let source = state.queue(queue)?;
        let outcome = source.receive(now_ms, messages_max, visibility_timeout_ms);
        let redrive = source.settings().redrive_policy.clone();
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

    /// Whether there was something to delete: there is not where the handle is of an earlier receive.
    pub fn delete(&self, queue: &str, receipt_handle: &str) -> Result<bool, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        let deleted = state.queue(queue)?.delete(now_ms, receipt_handle).map_err(QueueError::ReceiptHandle)?;
        let Some(message) = deleted else { return Ok(false) };
        self.erase(message.sequence)?;
        drop(state);
        self.changed(queue);
        Ok(true)
    }

    pub fn change_visibility(&self, queue: &str, receipt_handle: &str, timeout_ms: u64) -> Result<(), QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        state.queue(queue)?.change_visibility(now_ms, receipt_handle, timeout_ms).map_err(QueueError::ReceiptHandle)?;
        drop(state);
        self.changed(queue);
        Ok(())
    }

    /// When a receive may next get something, in milliseconds since the Unix epoch; None where the queue is empty.
    pub fn next_visible_at(&self, queue: &str) -> Result<Option<u64>, QueueError> {
        let now_ms = self.clock.now_ms();
        Ok(lock(&self.state).queue(queue)?.next_visible_at(now_ms))
    }

    pub fn depth(&self, queue: &str) -> Result<Depth, QueueError> {
        let now_ms = self.clock.now_ms();
        Ok(lock(&self.state).queue(queue)?.depth(now_ms))
    }

    pub fn settings(&self, queue: &str) -> Result<QueueSettings, QueueError> {
        Ok(lock(&self.state).queue(queue)?.settings().clone())
    }

    /// Every message in order, without receiving it.
    pub fn messages(&self, queue: &str) -> Result<Vec<Message>, QueueError> {
        Ok(lock(&self.state).queue(queue)?.messages().cloned().collect())
    }

    /// Removes every message and says how many there were.
    pub fn purge(&self, queue: &str) -> Result<usize, QueueError> {
        let mut state = lock(&self.state);
        let purged = state.queue(queue)?.purge();
        for message in &purged {
            self.erase(message.sequence)?;
        }
        drop(state);
        self.changed(queue);
        Ok(purged.len())
    }

    /// Moves what is visible in a dead-letter queue back to the queues that gave up on it, or to `destination`, and says
    /// how many messages were moved. They are new messages there: new id, received never, behind what is already queued.
    /// Without a destination it ends at a message that was sent to the dead-letter queue itself: SQS cannot tell where that
    /// came from, and the task fails (`CouldNotDetermineMessageSource`).
    pub fn redrive(&self, dead_letter_queue: &str, destination: Option<&str>) -> Result<usize, QueueError> {
        let now_ms = self.clock.now_ms();
        let mut state = lock(&self.state);
        if let Some(destination) = destination {
            state.queue(destination)?;
        }
        let mut moved = 0;
        let mut targets = BTreeSet::new();
        let mut messages = state.queue(dead_letter_queue)?.remove_visible(now_ms).into_iter();
        while let Some(message) = messages.next() {
            let source = message.dead_letter_source.clone().filter(|source| state.queues.contains_key(source));
            let Some(target) = destination.map(str::to_owned).or(source) else {
                for message in std::iter::once(message).chain(messages) {
                    state.queue(dead_letter_queue)?.insert(message);
                }
                break;
            };
            let message = Message {
                number: state.next_number,
                sent_at_ms: now_ms,
                receive_count: 0,
                first_received_at_ms: None,
                dead_letter_source: None,
                ..message
            };
            self.move_to(&mut state, &target, message)?;
            targets.insert(target);
            moved += 1;
        }
        drop(state);
        targets.iter().for_each(|target| self.changed(target));
        self.changed(dead_letter_queue);
        Ok(moved)
    }

    /// Resolves when the queue changed: a send, a delete, a change of visibility, a move. It does not resolve when a
    /// timeout ends; for that there is [`Sqs::next_visible_at`].
    pub fn watch(&self, queue: &str) -> Result<Watch, QueueError> {
        Ok(self.signals.get(queue).ok_or(QueueError::UnknownQueue)?.watch())
    }

    /// Like [`Sqs::receive`], but waits for a first message until `wait_ms` have passed.
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
                () = tokio::time::sleep_until(self.clock.instant_of(until_ms)) => {}
            }
        }
    }

    /// Gives the message its new place, last in `queue`; its old entry, if any, ends after the new one is written.
    fn move_to(&self, state: &mut State, queue: &str, message: Message) -> Result<(), QueueError> {
        let old = message.sequence;
        let moved = Message { sequence: state.next_number, ..message };
        state.next_number += 1;
        self.persist_moved(queue, &moved, Some(old))?;
        self.erase(old)?;
        state.queue(queue)?.insert(moved);
        Ok(())
    }

    fn persist(&self, queue: &str, message: &Message) -> Result<(), QueueError> {
        self.persist_moved(queue, message, None)
    }

    fn persist_moved(&self, queue: &str, message: &Message, moved_from: Option<u64>) -> Result<(), QueueError> {
        match &self.journal {
            Some(journal) => {
                let entry = JournalEntry { queue: queue.to_owned(), message: message.clone(), moved_from };
                journal.write(&ordered_key(message.sequence), &entry).map_err(QueueError::Persist)
            }
            None => Ok(()),
        }
    }

    fn erase(&self, sequence: u64) -> Result<(), QueueError> {
        match &self.journal {
            Some(journal) => journal.erase(&ordered_key(sequence)).map_err(QueueError::Persist),
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
    fn queue(&mut self, name: &str) -> Result<&mut Queue, QueueError> {
        self.queues.get_mut(name).ok_or(QueueError::UnknownQueue)
    }
}

/// A message and where it lies.
#[derive(Debug, Serialize, Deserialize)]
struct JournalEntry {
    queue: String,
    message: Message,
    /// The entry of the place where the message lay before, which a kill may have left behind.
    #[serde(default)]
    moved_from: Option<u64>,
}

fn read_journal(journal: &Journal) -> Result<Vec<JournalEntry>, LocalError> {
    let mut entries: BTreeMap<u64, JournalEntry> = BTreeMap::new();
    for (_, mut entry) in journal.read::<JournalEntry>()? {
        entry.message.receive_count = 0;
        entry.message.first_received_at_ms = None;
        entries.insert(entry.message.sequence, entry);
    }
    let left_behind: Vec<u64> = entries.values().filter_map(|entry| entry.moved_from).collect();
    for sequence in left_behind {
        if entries.remove(&sequence).is_some() {
            journal.erase(&ordered_key(sequence))?;
        }
    }
    Ok(entries.into_values().collect())
}

pub fn queue_url(queue: &str) -> String {
    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{queue}")
}

pub fn queue_arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")
}

/// A received message as an element of `Records` in the event that a Lambda function is given.
pub fn to_event_record(queue: &str, received: &ReceivedMessage) -> Value {
    let attributes: BTreeMap<String, Value> = received
        .message
        .attributes
        .iter()
        .map(|(name, attribute)| {
            let attribute = json!({
                "dataType": attribute.data_type,
                "stringValue": attribute.string_value,
                "binaryValue": attribute.binary_value,
                "stringListValues": [],
                "binaryListValues": [],
            });
            (name.clone(), attribute)
        })
        .collect();
    json!({
        "messageId": received.message.id(),
        "receiptHandle": received.receipt_handle,
        "body": received.message.body,
        "md5OfBody": md5_hex(received.message.body.as_bytes()),
        "attributes": system_attributes(&received.message),
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn(queue),
        "awsRegion": REGION,
    })
}

fn system_attributes(message: &Message) -> BTreeMap<&'static str, String> {
    let mut attributes = BTreeMap::from([
        ("ApproximateReceiveCount", message.receive_count.to_string()),
        ("SentTimestamp", message.sent_at_ms.to_string()),
        ("SenderId", ACCOUNT.to_owned()),
    ]);
    if let Some(at_ms) = message.first_received_at_ms {
        attributes.insert("ApproximateFirstReceiveTimestamp", at_ms.to_string());
    }
    if let Some(group) = &message.group {
        attributes.insert("MessageGroupId", group.clone());
    }
    if let Some(id) = &message.deduplication_id {
        attributes.insert("MessageDeduplicationId", id.clone());
        attributes.insert("SequenceNumber", sequence_number(message.sequence));
    }
    if let Some(header) = &message.trace_header {
        attributes.insert("AWSTraceHeader", header.clone());
    }
    if let Some(source) = &message.dead_letter_source {
        attributes.insert("DeadLetterQueueSourceArn", queue_arn(source));
    }
    attributes
}

fn sequence_number(sequence: u64) -> String {
    format!("{sequence:020}")
}

fn md5_hex(bytes: &[u8]) -> String {
    format!("{:x}", md5::compute(bytes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use dynoxide::Database;

    use super::*;
    use crate::queue::RedrivePolicy;

    const QUEUE: &str = "q.fifo";
    const DEAD: &str = "dead.fifo";

    fn open(database: &Database) -> Sqs {
        let settings = vec![
            QueueSettings {
                name: QUEUE.to_owned(),
                fifo: true,
                visibility_timeout_ms: 1_000,
                redrive_policy: Some(RedrivePolicy { dead_letter_queue: DEAD.to_owned(), max_receive_count: 1 }),
            },
            QueueSettings { name: DEAD.to_owned(), fifo: true, visibility_timeout_ms: 1_000, redrive_policy: None },
        ];
        let journal = Journal::open(database, JOURNAL).unwrap();
        Sqs::open(settings, Some(journal), Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1))).unwrap()
    }

    fn message(body: &str) -> NewMessage {
        NewMessage {
            body: body.to_owned(),
            group: Some("g".to_owned()),
            deduplication_id: Some(body.to_owned()),
            ..Default::default()
        }
    }

    fn bodies(sqs: &Sqs, queue: &str) -> Vec<String> {
        sqs.messages(queue).unwrap().into_iter().map(|message| message.body).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_survive_a_restart_in_order_and_visible() {
        let database = Database::memory().unwrap();
        let before = open(&database);
        for body in ["1", "2", "3", "4"] {
            before.send(QUEUE, message(body)).unwrap();
        }
        let received = before.receive(QUEUE, 2, None).unwrap();
        before.delete(QUEUE, &received[0].receipt_handle).unwrap();
        drop(before);

        let after = open(&database);
        assert_eq!(bodies(&after, QUEUE), ["2", "3", "4"]);
        assert_eq!(after.depth(QUEUE).unwrap(), Depth { visible: 3, in_flight: 0 });
        assert!(matches!(after.send(QUEUE, message("2")), Ok(SendOutcome::Duplicate { .. })));
        after.send(QUEUE, message("5")).unwrap();
        assert_eq!(bodies(&after, QUEUE), ["2", "3", "4", "5"]);
    }

    #[tokio::test(start_paused = true)]
    async fn dead_letters_keep_group_and_order_and_are_deduplicated_by_message_id() {
        let database = Database::memory().unwrap();
        let sqs = open(&database);
        for body in ["1", "2"] {
            sqs.send(QUEUE, message(body)).unwrap();
        }
        let ids: Vec<String> = sqs.messages(QUEUE).unwrap().iter().map(Message::id).collect();
        sqs.receive(QUEUE, 10, None).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sqs.receive(QUEUE, 10, None).unwrap(), []);

        for sqs in [sqs, open(&database)] {
            let dead = sqs.messages(DEAD).unwrap();
            assert_eq!(bodies(&sqs, DEAD), ["1", "2"]);
            assert_eq!(bodies(&sqs, QUEUE), [""; 0]);
            for (message, id) in dead.iter().zip(&ids) {
                assert_eq!(message.id(), *id);
                assert_eq!(message.deduplication_id.as_ref(), Some(id));
                assert_eq!(message.group.as_deref(), Some("g"));
                assert_eq!(message.dead_letter_source.as_deref(), Some(QUEUE));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn redriven_messages_are_new_in_the_queue_that_gave_up_on_them() {
        let database = Database::memory().unwrap();
        let sqs = open(&database);
        sqs.send(QUEUE, message("1")).unwrap();
        sqs.receive(QUEUE, 1, None).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        sqs.receive(QUEUE, 1, None).unwrap();
        sqs.send(QUEUE, message("2")).unwrap();
        sqs.send(DEAD, message("direct")).unwrap();

        assert_eq!(sqs.redrive(DEAD, None).unwrap(), 1);
        assert_eq!(bodies(&sqs, QUEUE), ["2", "1"]);
        assert_eq!(bodies(&sqs, DEAD), ["direct"]);
        assert_eq!(bodies(&open(&database), QUEUE), ["2", "1"]);
        assert_eq!(sqs.messages(QUEUE).unwrap()[1].receive_count, 0);

        // What was sent to the dead-letter queue itself keeps what lies behind it.
        let two = sqs.receive(QUEUE, 10, None).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        sqs.receive(QUEUE, 10, None).unwrap();
        assert_eq!((two.len(), bodies(&sqs, DEAD)), (2, vec!["direct".to_owned(), "2".to_owned(), "1".to_owned()]));
        assert_eq!(sqs.redrive(DEAD, None).unwrap(), 0);
        let direct = sqs.receive(DEAD, 1, None).unwrap().remove(0);
        sqs.delete(DEAD, &direct.receipt_handle).unwrap();
        assert_eq!(sqs.redrive(DEAD, None).unwrap(), 2);
    }

    #[test]
    fn message_found_in_two_places_is_in_the_later_one() {
        let database = Database::memory().unwrap();
        let sqs = open(&database);
        sqs.send(QUEUE, message("1")).unwrap();
        let found = sqs.messages(QUEUE).unwrap().remove(0);
        // What a kill inside a move leaves behind, also of a redrive, which makes a new message of it.
        let moved = Message { sequence: found.sequence + 1, number: found.number + 1, ..found.clone() };
        sqs.persist_moved(DEAD, &moved, Some(found.sequence)).unwrap();

        for _ in 0..2 {
            let sqs = open(&database);
            assert_eq!(bodies(&sqs, QUEUE), [""; 0]);
            assert_eq!(bodies(&sqs, DEAD), ["1"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_receive_ends_with_a_send_a_timeout_or_its_time() {
        let sqs = std::sync::Arc::new(open(&Database::memory().unwrap()));
        let started = tokio::time::Instant::now();

        assert_eq!(sqs.long_poll(QUEUE, 1, None, 20_000).await.unwrap(), []);
        assert_eq!(started.elapsed(), Duration::from_secs(20));

        let waiting = tokio::spawn({
            let sqs = sqs.clone();
            async move { sqs.long_poll(QUEUE, 1, None, 20_000).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_secs(3)).await;
        sqs.send(QUEUE, message("1")).unwrap();
        assert_eq!(waiting.await.unwrap().len(), 1);
        assert_eq!(started.elapsed(), Duration::from_secs(23));

        sqs.send(DEAD, message("2")).unwrap();
        sqs.receive(DEAD, 1, None).unwrap();
        assert_eq!(sqs.long_poll(DEAD, 1, None, 20_000).await.unwrap().len(), 1);
        assert_eq!(started.elapsed(), Duration::from_secs(24));
    }

    #[test]
    fn received_message_reads_as_the_event_of_a_function() {
        let sqs = open(&Database::memory().unwrap());
        sqs.send(QUEUE, message("hello")).unwrap();
        let received = sqs.receive(QUEUE, 1, None).unwrap();

        let records: Vec<Value> = received.iter().map(|received| to_event_record(QUEUE, received)).collect();
        let event: aws_lambda_events::event::sqs::SqsEvent =
            serde_json::from_value(json!({ "Records": records })).unwrap();
        let record = &event.records[0];
        assert_eq!(record.body.as_deref(), Some("hello"));
        assert_eq!(record.attributes["MessageGroupId"], "g");
        assert_eq!(record.attributes["ApproximateReceiveCount"], "1");
    }
}
