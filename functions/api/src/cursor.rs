//! The `cursor` of a page: the position at which the next page of a list starts.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use switchhook_aws::Error;
use switchhook_aws::calls::{WAKE_SHARDS, WakeQueue};
use switchhook_aws::dynamodb::{Item, KEY_BYTES_MAX};

/// Limit on the length of a cursor, before it is decoded.
pub(crate) const CURSOR_BYTES_MAX: usize = 4 * 1024;

/// Position in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) queue: WakeQueue,
    pub(crate) shard: u64,
    /// Last index entry that was read. `None` at the start of a shard.
    pub(crate) last_read: Option<LastRead>,
}

/// Key of an index entry inside its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub(crate) call_id: String,
    pub(crate) wake_at: i64,
}

/// JSON form of a position. The cursor is this JSON in base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    queue: String,
    shard: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_at: Option<i64>,
}

/// Full key of an index entry.
#[derive(Debug, Serialize, Deserialize)]
struct IndexKey {
    call_id: String,
    wake_key: String,
    wake_at: i64,
}

impl Position {
    /// Parses a cursor. `None` if it is not one that [`Position::to_cursor`] made.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= CURSOR_BYTES_MAX)?).ok()?;
        let cursor: Cursor = serde_json::from_slice(&bytes).ok()?;
        let queue = WakeQueue::all().find(|queue| queue.to_string() == cursor.queue)?;
        let last_read = match (cursor.call_id, cursor.wake_at) {
            (Some(call_id), Some(wake_at)) if (1..=KEY_BYTES_MAX).contains(&call_id.len()) => {
                Some(LastRead { call_id, wake_at })
            }
            (None, None) => None,
            (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => return None,
        };
        Some(Self { queue, shard: cursor.shard, last_read }).filter(|at| at.shard < WAKE_SHARDS)
    }

    pub(crate) fn to_cursor(&self) -> Result<String, Error> {
        let cursor = Cursor {
            queue: self.queue.to_string(),
            shard: self.shard,
            call_id: self.last_read.as_ref().map(|last| last.call_id.clone()),
            wake_at: self.last_read.as_ref().map(|last| last.wake_at),
        };
        let json = serde_json::to_vec(&cursor).map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(json))
    }

    /// Key after which DynamoDB continues. `None` at the start of a shard.
    pub(crate) fn start_key(&self) -> Result<Option<Item>, Error> {
        let Some(LastRead { call_id, wake_at }) = self.last_read.clone() else { return Ok(None) };
        let wake_key = self.queue.key(self.shard);
        let key = serde_dynamo::to_item(IndexKey { call_id, wake_key, wake_at });
        key.map(Some).map_err(|error| Error::ListCalls(Box::new(error)))
    }
}

impl LastRead {
    pub(crate) fn from_key(key: Item) -> Result<Self, Error> {
        let key: IndexKey = serde_dynamo::from_item(key).map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(Self { call_id: key.call_id, wake_at: key.wake_at })
    }
}
