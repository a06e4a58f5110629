//! The `cursor` of a page: the last entry that was read for it. The next page begins after that entry.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use switchhook_domain::{CallId, Timestamp};

use super::index::WakeEntry;
use super::wake_queue::WakeQueue;
use crate::dynamodb::KEY_BYTES_MAX;
use crate::error::Error;
use crate::shards::SHARDS_MAX;

/// Limit on the length of a cursor, before it is decoded.
pub const CURSOR_BYTES_MAX: usize = 4 * 1024;

/// Position in a list: an entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub queue: WakeQueue,
    pub shard: u64,
    pub entry: WakeEntry,
}

/// JSON form of a position. The cursor is this JSON in base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    queue: String,
    shard: u64,
    call_id: CallId,
    wake_at: Timestamp,
}

impl Position {
    /// Parses a cursor. `None` if it is not one that [`Position::to_cursor`] made.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= CURSOR_BYTES_MAX)?).ok()?;
        let Cursor { queue, shard, call_id, wake_at } = serde_json::from_slice(&bytes).ok()?;
        let queue = WakeQueue::parse(&queue)?;
        let is_key = (1..=KEY_BYTES_MAX).contains(&call_id.as_str().len());
        (is_key && shard < SHARDS_MAX).then_some(Self { queue, shard, entry: WakeEntry { call_id, wake_at } })
    }

    /// Returns the cursor of the position.
    ///
    /// # Errors
    /// [`Error::ListCalls`] if the position cannot be written as JSON.
    pub fn to_cursor(&self) -> Result<String, Error> {
        let WakeEntry { call_id, wake_at } = self.entry.clone();
        let cursor = Cursor { queue: self.queue.to_string(), shard: self.shard, call_id, wake_at };
        let json = serde_json::to_vec(&cursor).map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(json))
    }
}
