//! Progress of the notices to operators about new items that need attention.

use switchhook_domain::Timestamp;

use super::attention::AttentionKind;
use super::item::{ATTENTION_CURSOR_KEY, AttentionCursorItem};
use super::table::Inbox;
use crate::error::Error;

/// Progress of the notices to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionCursor {
    /// Length of the dead-letter queue at the last run.
    pub dead_letters: u64,
    pub dead_lettered: SeenUntil,
    pub quarantined: SeenUntil,
    pub retrying: SeenUntil,
}

/// Progress of the notices about one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenUntil {
    /// Items that were marked up to this time were published.
    pub until: Timestamp,
    /// Time of the last notice. `None` before the first one.
    pub published_at: Option<Timestamp>,
}

impl SeenUntil {
    const NOTHING: Self = Self { until: Timestamp::from_millis(0), published_at: None };
}

impl Default for AttentionCursor {
    fn default() -> Self {
        let nothing = SeenUntil::NOTHING;
        Self { dead_letters: 0, dead_lettered: nothing, quarantined: nothing, retrying: nothing }
    }
}

impl AttentionCursor {
    /// Returns the progress of a kind. `None` if no notices are published about it.
    pub const fn seen(&mut self, kind: AttentionKind) -> Option<&mut SeenUntil> {
        match kind {
            AttentionKind::DeadLettered => Some(&mut self.dead_lettered),
            AttentionKind::Quarantined => Some(&mut self.quarantined),
            AttentionKind::Retrying => Some(&mut self.retrying),
            AttentionKind::Conflict | AttentionKind::Audit => None,
        }
    }
}

impl Inbox {
    /// Reads the progress of the notices to operators.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn attention_cursor(&self) -> Result<AttentionCursor, Error> {
        let Some(item) = self.get_item(ATTENTION_CURSOR_KEY).await? else { return Ok(AttentionCursor::default()) };
        let unreadable = |_| Error::DecodeInbox("the cursor of the notices");
        let item: AttentionCursorItem = serde_dynamo::from_item(item).map_err(unreadable)?;
        Ok(AttentionCursor {
            dead_letters: item.dead_letters,
            dead_lettered: SeenUntil { until: item.dead_lettered_until, published_at: item.dead_lettered_published_at },
            quarantined: SeenUntil { until: item.quarantined_until, published_at: item.quarantined_published_at },
            retrying: SeenUntil { until: item.retrying_until, published_at: item.retrying_published_at },
        })
    }

    /// Stores the progress of the notices to operators. Two runs at the same time at worst publish one notice twice, under
    /// the same id.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_attention_cursor(&self, cursor: &AttentionCursor) -> Result<(), Error> {
        self.put_item(&AttentionCursorItem {
            event_id: ATTENTION_CURSOR_KEY.to_owned(),
            dead_letters: cursor.dead_letters,
            dead_lettered_until: cursor.dead_lettered.until,
            dead_lettered_published_at: cursor.dead_lettered.published_at,
            quarantined_until: cursor.quarantined.until,
            quarantined_published_at: cursor.quarantined.published_at,
            retrying_until: cursor.retrying.until,
            retrying_published_at: cursor.retrying.published_at,
        })
        .await
    }
}
