//! Messages of a dead-letter queue: received, shown again, and deleted by key.
//!
//! A key is the id of a message's event, or the id of the message.
//!
//! **Every search ends, however long the queue is.** The messages that it has received are hidden until it shows them again. A search
//! stops before the first of them comes again by itself, and when a round of requests brings nothing new.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use switchhook_aws::queue::{self, Message, QuarantineNotice, Queue, ReceivedMessage};
use switchhook_domain::{EventId, ProviderEvent, Timestamp};

use crate::concurrent::concurrently;
use crate::error::Error;
use crate::plan::{LeftAlone, PlanItem};
use crate::stack::Stack;

/// Time for which a search hides the messages of a short queue from other receivers.
const HIDDEN: Duration = Duration::from_secs(120);
/// Further time for each message of the queue. Eight requests at a time bring 80 messages, and others show or delete them. So a search from
/// another continent, with 200 ms for a request, takes this time.
const HIDDEN_PER_MESSAGE: Duration = Duration::from_millis(5);
/// Longest time for which a search hides messages. It is enough for 120,000 messages, and a queue hides no more at a time.
const HIDDEN_MAX: Duration = Duration::from_secs(12 * 60);
/// Longest wait of a read for messages that another reader hides. A list hides them for a moment.
const HIDDEN_WAIT: Duration = Duration::from_secs(20);
/// Time between two searches for hidden messages.
const HIDDEN_POLL: Duration = Duration::from_secs(2);
/// Reason to leave an item alone whose message did not come.
const HIDDEN_MESSAGE: &str = "its message did not come out of the queue: another reader hides it for a few minutes, or it is behind ten \
                              others of its call, or it is deleted already. If `switchhook dlq list` still shows it, discard or \
                              redrive it later";
/// Requests of a search at the same time.
const CONCURRENCY: usize = 8;
/// Messages of one request, which SQS limits.
const REQUEST_MAX: usize = 10;

/// Deletes the messages of items. `key_of_item` names the message of an item. An item without a message is not left alone: a run that is
/// repeated finds it deleted.
///
/// Returns the items whose messages were in the queue when the plan was made, and did not come for a while. The queue holds messages that
/// could not be received, and they may be among these. The eleventh message of a call is hidden for as long as the ten before it stay. So
/// nobody can tell such a message from one that is deleted.
///
/// # Errors
/// The errors of the queue. A repetition is safe.
pub(crate) async fn delete_messages<'a>(
    stack: &Stack,
    queue: &Queue,
    items: &'a [PlanItem],
    key_of_item: impl Fn(&'a PlanItem) -> Option<&'a str>,
) -> Result<Vec<LeftAlone>, Error> {
    let keys = items.iter().filter_map(|item| Some((key_of_item(item)?, item)));
    let keys: BTreeMap<&str, &PlanItem> = keys.collect();
    // Each key is searched to the end if the plan knows no message of it.
    let mut missing: BTreeMap<&str, usize> = keys.iter().map(|(key, item)| (*key, item.messages.max(1))).collect();
    // A search that was killed hides its messages for this time.
    let give_up_at = stack.now().plus(hidden_for(queue).await?);
    while !missing.is_empty() {
        let before: usize = missing.values().sum();
        let mut search = Search::start(stack, queue).await?;
        let deleted = search.delete(&keys, &mut missing).await;
        let others = search.end().await?;
        deleted?;
        // The search may have found others of the same call behind those that it deleted.
        if missing.values().sum::<usize>() == before {
            let items = missing.keys().filter_map(|key| keys.get(key)).filter(|item| item.has_message());
            let expected: Vec<LeftAlone> = items.map(|item| ((*item).clone(), HIDDEN_MESSAGE.to_owned())).collect();
            if expected.is_empty() || queue.depth().await? <= others {
                break;
            }
            if stack.now() >= give_up_at {
                return Ok(expected);
            }
            tokio::time::sleep(HIDDEN_POLL).await;
        }
    }
    Ok(Vec::new())
}

/// Hands the messages of a queue to `take`, until it returns false or all have come. Then shows all of them again. Returns their number.
pub(crate) async fn receive(
    stack: &Stack,
    queue: &Queue,
    mut take: impl FnMut(Vec<ReceivedMessage>) -> bool + Send,
) -> Result<u64, Error> {
    let mut search = Search::start(stack, queue).await?;
    let received = loop {
        match search.next().await {
            Ok(messages) => {
                if messages.is_empty() || !take(messages) {
                    break Ok(());
                }
            }
            Err(error) => break Err(error),
        }
    };
    let number = search.end().await?;
    received.map(|()| number)
}

/// Reads these events from the messages of the dead-letter queue. Those that are not found are left out.
pub(super) async fn events_in_queue(
    stack: &Stack,
    mut missing: BTreeSet<EventId>,
) -> Result<BTreeMap<EventId, ProviderEvent>, Error> {
    let mut found = BTreeMap::new();
    let give_up_at = stack.now().plus(HIDDEN_WAIT);
    while !missing.is_empty() {
        let received = receive(stack, &stack.dlq, |messages| {
            for message in &messages {
                if let Content::Event(content) = content_of(message)
                    && missing.remove(&content.event.event_id)
                {
                    found.insert(content.event.event_id.clone(), content.event);
                }
            }
            !missing.is_empty()
        });
        let received = received.await?;
        if missing.is_empty() || stack.dlq.depth().await? <= received || stack.now() >= give_up_at {
            break;
        }
        tokio::time::sleep(HIDDEN_POLL).await;
    }
    Ok(found)
}

/// Time for which a search hides messages.
async fn hidden_for(queue: &Queue) -> Result<Duration, Error> {
    let depth = u32::try_from(queue.depth().await?).unwrap_or(u32::MAX);
    Ok(HIDDEN_PER_MESSAGE.saturating_mul(depth).saturating_add(HIDDEN).min(HIDDEN_MAX))
}

/// One search of a queue. [`Search::end`] must follow, or the messages stay hidden for a while.
struct Search<'a> {
    stack: &'a Stack,
    queue: &'a Queue,
    hidden_for: Duration,
    ends_at: Timestamp,
    /// Requests of the next round.
    requests: usize,
    /// Receipts of the hidden messages, by the ids of the messages.
    hidden: BTreeMap<String, String>,
}

impl<'a> Search<'a> {
    async fn start(stack: &'a Stack, queue: &'a Queue) -> Result<Self, Error> {
        let hidden_for = hidden_for(queue).await?;
        let ends_at = stack.now().plus(hidden_for * 5 / 6);
        Ok(Self { stack, queue, hidden_for, ends_at, requests: 1, hidden: BTreeMap::new() })
    }

    /// Receives the next messages. None at the end of the search.
    async fn next(&mut self) -> Result<Vec<ReceivedMessage>, Error> {
        let mut new = Vec::new();
        if self.stack.now() >= self.ends_at {
            return Ok(new);
        }
        let (queue, hidden_for) = (self.queue, self.hidden_for);
        let round = join_all((0..self.requests).map(|_| queue.receive(hidden_for))).await;
        let (mut failed, mut is_at_end) = (None, false);
        for messages in round {
            match messages {
                Ok(messages) => {
                    is_at_end |= messages.is_empty();
                    for message in messages {
                        if self.hidden.insert(message.message_id.clone(), message.receipt.clone()).is_none() {
                            new.push(message);
                        }
                    }
                }
                Err(error) => failed = Some(Error::from(error)),
            }
        }
        self.requests = if is_at_end { 1 } else { (self.requests * 2).min(CONCURRENCY) };
        failed.map_or(Ok(new), Err)
    }

    /// Deletes the messages with these keys while it receives, until none is missing and the last round brought none. `missing` has the number
    /// of messages that the plan knows of each key. More of them may have been behind ten others of their call.
    async fn delete(
        &mut self,
        keys: &BTreeMap<&str, &PlanItem>,
        missing: &mut BTreeMap<&str, usize>,
    ) -> Result<(), Error> {
        let mut has_found = false;
        while has_found || !missing.is_empty() {
            let messages = self.next().await?;
            if messages.is_empty() {
                break;
            }
            let of_key = messages.into_iter().map(|message| (key_of(&message), message));
            let is_wanted = |(key, message): &(String, ReceivedMessage)| {
                keys.contains_key(key.as_str()) || keys.contains_key(message.message_id.as_str())
            };
            let found: Vec<(String, ReceivedMessage)> = of_key.filter(is_wanted).collect();
            has_found = !found.is_empty();
            let receipts: Vec<String> = found.iter().map(|(_, message)| message.receipt.clone()).collect();
            let queue = self.queue;
            let deleted = receipts.chunks(REQUEST_MAX).map(|some| async move { queue.delete(some).await });
            concurrently(CONCURRENCY, deleted).await?;
            for (key, message) in found {
                let name = if missing.contains_key(key.as_str()) { &key } else { &message.message_id };
                match missing.get_mut(name.as_str()) {
                    Some(left) if *left > 1 => *left -= 1,
                    Some(_) | None => {
                        missing.remove(name.as_str());
                    }
                }
                self.hidden.remove(&message.message_id);
            }
        }
        Ok(())
    }

    /// Shows the hidden messages again. Returns their number.
    async fn end(self) -> Result<u64, Error> {
        let number = self.hidden.len() as u64;
        let receipts: Vec<(String, Duration)> =
            self.hidden.into_values().map(|receipt| (receipt, Duration::ZERO)).collect();
        let queue = self.queue;
        let shown = receipts.chunks(REQUEST_MAX).map(|some| async move { queue.delay(some).await });
        concurrently(CONCURRENCY, shown).await?;
        Ok(number)
    }
}

/// Content of a message of the dead-letter queue.
pub(super) enum Content {
    Event(Box<Message>),
    Notice(QuarantineNotice),
    Unreadable(switchhook_aws::Error),
}

pub(super) fn content_of(message: &ReceivedMessage) -> Content {
    match (Message::decode(&message.body), queue::decode::<QuarantineNotice>(&message.body)) {
        (Ok(event), _) => Content::Event(Box::new(event)),
        (Err(_), Ok(notice)) => Content::Notice(notice),
        (Err(error), Err(_)) => Content::Unreadable(error),
    }
}

/// Id of the event of a message, or else of the message.
pub(super) fn key_of(message: &ReceivedMessage) -> String {
    match content_of(message) {
        Content::Event(event) => event.event.event_id.to_string(),
        Content::Notice(notice) => notice.quarantined.to_string(),
        Content::Unreadable(_) => message.message_id.clone(),
    }
}
