//! Trouble that waits for an operator, grouped by cause.
//!
//! **Only the index of items that need attention is read, and no message is received.** So a page can show it again and again
//! beside a run that works on the same queue. A plan looks at the messages themselves.

use std::collections::BTreeMap;

use serde::Serialize;
use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_domain::{EventId, Origin, Timestamp};

use crate::attention;
use crate::error::Error;
use crate::stack::Stack;
use crate::time_text;

pub use crate::attention::text_of_cause;

/// Largest number of items that are counted.
pub const COUNTED_MAX: usize = 1_000;
/// Largest number of events that a group names.
pub const NAMED_MAX: usize = 50;

/// Kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The consumer has failed to fold the event as often as it may try.
    DeadLetters,
    /// The webhook cannot be read, or its call has no room for the event.
    Quarantined,
    /// The consumer has failed to fold the event, and will try again.
    Retrying,
    /// The id of the event came again with other content.
    Conflicts,
}

impl Trouble {
    const fn kind(self) -> AttentionKind {
        match self {
            Self::DeadLetters => AttentionKind::DeadLettered,
            Self::Quarantined => AttentionKind::Quarantined,
            Self::Retrying => AttentionKind::Retrying,
            Self::Conflicts => AttentionKind::Conflict,
        }
    }
}

/// Events with the same cause and the same sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Cause in the index. A filter by cause takes it.
    pub cause: Option<String>,
    /// The cause in words, or the error of the earliest event. `None` if there is no note on it, or if the cause is unknown to this version.
    pub error: Option<String>,
    pub origin: Option<Origin>,
    pub count: usize,
    /// The earliest events, at most [`NAMED_MAX`] of them. Of conflicts, the latest, because no other list has those.
    pub events: Vec<EventId>,
    #[serde(with = "time_text")]
    pub earliest: Timestamp,
    #[serde(with = "time_text")]
    pub latest: Timestamp,
}

/// Trouble of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// The group with the most events first.
    pub groups: Vec<Group>,
    pub count: usize,
    /// True if there are more events than were counted.
    pub more: bool,
    /// Events whose trouble ingress found. Each has a notice in the dead-letter queue.
    #[serde(skip)]
    pub notices: usize,
}

/// Numbers of messages in the queues of what failed. Each queue is read by itself.
#[derive(Debug)]
pub struct FailedMessages {
    /// Dead letters, and notices of unreadable webhooks.
    pub dead_letters: Result<u64, Error>,
    /// Parts of the stream that the relay gave up.
    pub relay: Result<u64, Error>,
}

/// Returns the trouble of one kind. It reads one index entry for each event, at most [`COUNTED_MAX`], and one note for each group.
///
/// # Errors
/// The errors of the inbox.
pub async fn groups(stack: &Stack, trouble: Trouble) -> Result<Groups, Error> {
    let entries = attention::all(stack, trouble.kind(), COUNTED_MAX + 1).await?;
    let mut found = grouped(entries, trouble == Trouble::Conflicts);
    for group in &mut found.groups {
        let Some(first) = group.events.first() else { continue };
        group.error = match trouble {
            Trouble::DeadLetters | Trouble::Retrying => stack.inbox.get_note(first).await?.and_then(|note| note.error),
            Trouble::Quarantined => group.cause.as_deref().and_then(text_of_cause),
            Trouble::Conflicts => Some("its id came again with another body".to_owned()),
        };
    }
    Ok(found)
}

/// Counts the messages in the queues of what failed. None is received.
pub async fn failed_messages(stack: &Stack) -> FailedMessages {
    let (dead_letters, relay) = tokio::join!(stack.dlq.depth(), stack.relay_failures_queue.depth());
    FailedMessages { dead_letters: dead_letters.map_err(Error::from), relay: relay.map_err(Error::from) }
}

/// Groups entries by cause and sender. Each group names its earliest events, or its latest ones.
fn grouped(mut entries: Vec<Attention>, names_latest: bool) -> Groups {
    let more = entries.len() > COUNTED_MAX;
    entries.truncate(COUNTED_MAX);
    let count = entries.len();
    let is_notice = |entry: &&Attention| entry.event_id.as_ref().is_some_and(|id| id.as_str() == entry.item_key);
    let notices = entries.iter().filter(is_notice).count();
    let mut groups: BTreeMap<(Option<String>, Option<String>), Group> = BTreeMap::new();
    entries.sort_by(|a, b| (a.at, &a.item_key).cmp(&(b.at, &b.item_key)));
    if names_latest {
        entries.reverse();
    }
    for entry in entries {
        let Some(event_id) = entry.event_id else { continue };
        let cause = entry.cause;
        let origin = entry.origin.or_else(|| event_id.origin());
        let group =
            groups.entry((cause.clone(), origin.map(|origin| origin.as_str().to_owned()))).or_insert_with(|| Group {
                cause,
                error: None,
                origin,
                count: 0,
                events: Vec::new(),
                earliest: entry.at,
                latest: entry.at,
            });
        group.count += 1;
        group.earliest = group.earliest.min(entry.at);
        group.latest = group.latest.max(entry.at);
        if group.events.len() < NAMED_MAX {
            group.events.push(event_id);
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Groups { groups, count, more, notices }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, cause: &str, at: i64) -> Attention {
        Attention {
            kind: AttentionKind::Quarantined,
            item_key: id.to_owned(),
            event_id: Some(EventId::new(id)),
            call_id: None,
            origin: None,
            event_type: None,
            cause: Some(cause.to_owned()),
            at: Timestamp::from_millis(at),
        }
    }

    #[test]
    fn events_are_grouped_by_cause_and_sender() {
        let entries = vec![
            entry("generic:3", "invalid_json", 3),
            entry("generic:1", "invalid_json", 1),
            entry("retell:2", "invalid_json", 2),
        ];
        let found = grouped(entries.clone(), false);
        assert_eq!((found.count, found.more, found.notices), (3, false, 3));
        let [most, other] = found.groups.as_slice() else { panic!("{found:?}") };
        assert_eq!((most.cause.as_deref(), most.count), (Some("invalid_json"), 2));
        assert_eq!(most.events, [EventId::new("generic:1"), EventId::new("generic:3")], "the earliest first");
        assert_eq!((most.earliest.as_millis(), most.latest.as_millis(), other.count), (1, 3, 1));
        let conflicts = grouped(entries, true);
        let [most, _] = conflicts.groups.as_slice() else { panic!("{conflicts:?}") };
        assert_eq!(most.events, [EventId::new("generic:3"), EventId::new("generic:1")], "the latest first");
        assert_eq!((most.earliest.as_millis(), most.latest.as_millis()), (1, 3));
    }

    #[test]
    fn count_stops_at_its_limit() {
        let entries =
            (0..=COUNTED_MAX).map(|n| entry(&format!("generic:{n}"), "x", i64::try_from(n).unwrap())).collect();
        let found = grouped(entries, false);
        assert_eq!((found.count, found.more, found.groups[0].events.len()), (COUNTED_MAX, true, NAMED_MAX));
    }
}
