//! Descriptions of dead letters, of messages and of entries of the index.

use switchhook_aws::inbox::Attention;
use switchhook_aws::queue::ReceivedMessage;
use switchhook_domain::EventId;

use super::letter::{DeadLetter, LetterKind};
use super::messages::{Content, content_of, key_of};
use crate::error::Error;
use crate::stack::Stack;

/// Describes a message, together with its cause. `limit` is the largest number of entries that were read from each list of the index.
pub(super) async fn describe(
    stack: &Stack,
    message: &ReceivedMessage,
    marked: &[Attention],
    quarantined: &[Attention],
    limit: usize,
) -> Result<(String, DeadLetter), Error> {
    let entry =
        |entries: &[Attention], id: &EventId| entries.iter().find(|one| one.event_id.as_ref() == Some(id)).cloned();
    let blank = DeadLetter {
        kind: LetterKind::Unreadable,
        key: key_of(message),
        message_id: Some(message.message_id.clone()),
        event_id: None,
        call_id: None,
        origin: None,
        event_type: None,
        tries: None,
        error: None,
        dead_lettered_at: message.sent_at,
        in_index: false,
        index_cause: None,
        event: None,
    };
    Ok(match content_of(message) {
        Content::Event(content) => {
            let event = content.event;
            let note = stack.inbox.get_note(&event.event_id).await?;
            let error = note.as_ref().and_then(|note| note.error.clone());
            let entry = entry(marked, &event.event_id);
            let cause = error.clone().or_else(|| entry.as_ref()?.cause.clone());
            let letter = DeadLetter {
                kind: LetterKind::Event,
                event_id: Some(event.event_id.clone()),
                call_id: Some(event.call_id.clone()),
                origin: Some(event.origin),
                event_type: Some(event.event_type.clone()),
                tries: note.as_ref().map(|note| note.attempts),
                error,
                // If the list was cut, the note tells: it is the item that the index names.
                in_index: entry.is_some()
                    || (marked.len() >= limit && note.as_ref().is_some_and(|note| note.dead_lettered_at.is_some())),
                dead_lettered_at: note.and_then(|note| note.dead_lettered_at).unwrap_or(message.sent_at),
                index_cause: entry.and_then(|entry| entry.cause),
                event: Some(Box::new(event)),
                ..blank
            };
            (cause.unwrap_or_else(|| "unknown: the consumer wrote no note".to_owned()), letter)
        }
        Content::Notice(notice) => {
            let entry = entry(quarantined, &notice.quarantined);
            let letter = DeadLetter {
                kind: LetterKind::QuarantineNotice,
                origin: notice.quarantined.origin(),
                call_id: entry.as_ref().and_then(|entry| entry.call_id.clone()),
                event_id: Some(notice.quarantined),
                error: Some(notice.reason.clone()),
                // Nobody knows whether a list that was cut names it, so no difference is shown.
                in_index: entry.is_some() || quarantined.len() >= limit,
                ..blank
            };
            (notice.reason, letter)
        }
        Content::Unreadable(error) => {
            let text = error.to_string();
            // Nothing could have marked it in the index.
            (text.clone(), DeadLetter { error: Some(text), in_index: true, ..blank })
        }
    })
}

/// Describes an entry of the index that no received message belongs to.
pub(super) async fn of_index(stack: &Stack, entry: &Attention) -> Result<(String, DeadLetter), Error> {
    let note = match &entry.event_id {
        Some(id) => stack.inbox.get_note(id).await?,
        None => None,
    };
    let error = note.as_ref().and_then(|note| note.error.clone());
    let letter = DeadLetter {
        kind: LetterKind::Event,
        key: entry.event_id.as_ref().map_or_else(|| entry.item_key.clone(), EventId::to_string),
        message_id: None,
        event_id: entry.event_id.clone(),
        call_id: entry.call_id.clone(),
        origin: entry.origin,
        event_type: entry.event_type.clone(),
        tries: note.map(|note| note.attempts),
        error: error.clone(),
        dead_lettered_at: entry.at,
        in_index: true,
        index_cause: entry.cause.clone(),
        event: None,
    };
    Ok((error.or_else(|| entry.cause.clone()).unwrap_or_else(|| "unknown".to_owned()), letter))
}
