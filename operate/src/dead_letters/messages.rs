//! Messages of a dead-letter queue: received, shown again, and deleted by key.
//!
//! A key is the id of a message's event, or the id of the message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchhook_aws::queue::{Message, QuarantineNotice, Queue, ReceivedMessage};
use switchhook_domain::{EventId, ProviderEvent};

use crate::error::Error;
use crate::stack::Stack;

/// Time for which received messages are hidden from other receivers. A list shows them again at its end.
const HIDDEN: Duration = Duration::from_secs(120);
/// Longest wait for messages that another reader hides. A list hides them for a moment.
const HIDDEN_WAIT: Duration = Duration::from_secs(20);
/// Time between two searches for hidden messages.
const HIDDEN_POLL: Duration = Duration::from_secs(2);

/// Deletes the messages with these keys. The value of a key is true if its message was in the queue before. A key without a message is
/// not an error: a run that is repeated finds it deleted.
///
/// It does not wait for a message that was not in the queue. It may have expired, and the eleventh message of another call is hidden for as
/// long as that call's dead letters stay.
///
/// # Errors
/// [`Error::HiddenMessages`] if messages of the queue could not be received for a while, so that they may be the missing ones.
/// Nothing is lost then, and a repetition deletes them.
pub(crate) async fn delete_messages(
    stack: &Stack,
    queue: &Queue,
    keys: impl IntoIterator<Item = (String, bool)>,
) -> Result<(), Error> {
    let mut keys: BTreeMap<String, bool> = keys.into_iter().collect();
    let give_up_at = stack.now().plus(HIDDEN_WAIT);
    // Messages of one call come ten at a time: the next ones follow when these are deleted.
    while !keys.is_empty() {
        let Taken { found, others } = take(queue, &keys).await?;
        if found.is_empty() {
            let missing = keys.values().filter(|was_in_queue| **was_in_queue).count();
            let hidden = queue.depth().await?.saturating_sub(others);
            if missing == 0 || hidden == 0 {
                break;
            }
            if stack.now() >= give_up_at {
                return Err(Error::HiddenMessages { missing, hidden });
            }
            tokio::time::sleep(HIDDEN_POLL).await;
        }
        for (key, message) in &found {
            keys.remove(key);
            keys.remove(&message.message_id);
        }
        queue.delete(&receipts(found.into_iter().map(|(_, message)| message))).await?;
    }
    Ok(())
}

/// Receives messages until the queue returns none or `goes_on` is false, and then shows all of them again.
pub(super) async fn receive(
    queue: &Queue,
    goes_on: impl Fn(&[ReceivedMessage]) -> bool,
) -> Result<Vec<ReceivedMessage>, Error> {
    let mut all: Vec<ReceivedMessage> = Vec::new();
    let mut result = Ok(());
    while goes_on(&all) {
        match queue.receive(HIDDEN).await {
            Ok(page) if page.is_empty() => break,
            Ok(page) => all.extend(page),
            Err(error) => {
                result = Err(error.into());
                break;
            }
        }
    }
    let released = release_messages(queue, all.iter().cloned()).await;
    result.and(released).map(|()| all)
}

/// Reads these events from the messages of the dead-letter queue. Those that are not found are left out.
pub(super) async fn events_in_queue(
    stack: &Stack,
    mut missing: BTreeSet<EventId>,
) -> Result<BTreeMap<EventId, ProviderEvent>, Error> {
    let mut found = BTreeMap::new();
    let give_up_at = stack.now().plus(HIDDEN_WAIT);
    while !missing.is_empty() {
        let keys: BTreeSet<String> = missing.iter().map(EventId::to_string).collect();
        let is_complete = |so_far: &[ReceivedMessage]| {
            let received: BTreeSet<String> = so_far.iter().map(key_of).collect();
            keys.is_subset(&received)
        };
        let messages = receive(&stack.dlq, |so_far| !is_complete(so_far)).await?;
        let hidden = stack.dlq.depth().await?.saturating_sub(messages.len() as u64);
        for message in &messages {
            if let Content::Event(content) = content_of(message)
                && missing.remove(&content.event.event_id)
            {
                found.insert(content.event.event_id.clone(), content.event);
            }
        }
        if hidden == 0 || stack.now() >= give_up_at {
            break;
        }
        tokio::time::sleep(HIDDEN_POLL).await;
    }
    Ok(found)
}

/// Messages that were received to find some of them.
struct Taken {
    /// Messages with a wanted key, each with its key. They stay hidden.
    found: Vec<(String, ReceivedMessage)>,
    /// Number of the other messages, which are shown again.
    others: u64,
}

/// Receives messages until each key is found or the queue returns none.
async fn take(queue: &Queue, keys: &BTreeMap<String, bool>) -> Result<Taken, Error> {
    let mut found: Vec<(String, ReceivedMessage)> = Vec::new();
    let mut others = Vec::new();
    let mut missing: BTreeSet<&String> = keys.keys().collect();
    let mut result = Ok(());
    while !missing.is_empty() {
        let page = match queue.receive(HIDDEN).await {
            Ok(page) => page,
            Err(error) => {
                result = Err(error.into());
                break;
            }
        };
        if page.is_empty() {
            break;
        }
        for message in page {
            let key = key_of(&message);
            if keys.contains_key(&key) || keys.contains_key(&message.message_id) {
                missing.remove(&key);
                missing.remove(&message.message_id);
                found.push((key, message));
            } else {
                others.push(message);
            }
        }
    }
    if result.is_err() {
        others.extend(found.drain(..).map(|(_, message)| message));
    }
    let taken = Taken { found, others: others.len() as u64 };
    let released = release_messages(queue, others).await;
    result.and(released).map(|()| taken)
}

async fn release_messages(queue: &Queue, messages: impl IntoIterator<Item = ReceivedMessage>) -> Result<(), Error> {
    let receipts: Vec<(String, Duration)> =
        messages.into_iter().map(|message| (message.receipt, Duration::ZERO)).collect();
    Ok(queue.delay(&receipts).await?)
}

fn receipts(messages: impl Iterator<Item = ReceivedMessage>) -> Vec<String> {
    messages.map(|message| message.receipt).collect()
}

/// Content of a message of the dead-letter queue.
pub(super) enum Content {
    Event(Box<Message>),
    Notice(QuarantineNotice),
    Unreadable(switchhook_aws::Error),
}

pub(super) fn content_of(message: &ReceivedMessage) -> Content {
    match (Message::decode(&message.body), QuarantineNotice::decode(&message.body)) {
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
