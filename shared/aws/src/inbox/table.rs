//! Client of the inbox table, and the reads and writes that every kind of item needs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use serde::Serialize;
use switchhook_domain::Timestamp;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::compression;
use crate::dynamodb::{ConditionalWrite, Item, expires_at, text};
use crate::error::{Error, Source};
use crate::shards::Shards;

/// Limit on the items of one request, which DynamoDB sets.
pub const READ_AT_ONCE_MAX: usize = 100;
/// Pause before the rest of a request that DynamoDB answered in part.
const UNPROCESSED_PAUSE: Duration = Duration::from_millis(50);

/// Client of the inbox table.
#[derive(Clone, Debug)]
pub struct Inbox {
    pub(crate) client: Client,
    pub(crate) table: String,
    retention: Duration,
    pub(super) shards: Shards,
    /// Locked while the events of a rebuilt row are looked for.
    pub(super) rebuilding: Arc<Mutex<()>>,
}

impl Inbox {
    #[must_use]
    pub fn new(client: Client, table: String, retention: Duration) -> Self {
        Self { client, table, retention, shards: Shards::default(), rebuilding: Arc::default() }
    }

    /// The same client, for a stack with these shards.
    #[must_use]
    pub fn shards(self, shards: Shards) -> Self {
        Self { shards, ..self }
    }

    /// Time for which an event is kept.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// Opens the connection and prepares the compression, so that the first event waits for neither.
    pub async fn warm_up(&self) {
        compression::warm_up();
        drop(self.get_item("warm").await);
    }

    pub(super) async fn get_item(&self, key: &str) -> Result<Option<Item>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("event_id", text(key))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| Error::ReadInbox(Box::new(error)))?;
        Ok(answer.item)
    }

    /// Reads up to [`READ_AT_ONCE_MAX`] items by one request. Leaves out those that the inbox does not hold.
    pub(super) async fn read_items(&self, keys: &[String]) -> Result<Vec<Item>, Error> {
        let failed = |error: Source| Error::ReadInbox(error);
        let key = |key: &String| Item::from([("event_id".to_owned(), text(key))]);
        let asked = KeysAndAttributes::builder().set_keys(Some(keys.iter().map(key).collect()));
        let asked = asked.consistent_read(true).build().map_err(|error| failed(Box::new(error)))?;
        let mut wanted = (!keys.is_empty()).then(|| HashMap::from([(self.table.clone(), asked)]));
        let mut read = Vec::new();
        while let Some(asked) = wanted {
            let answer = self.client.batch_get_item().set_request_items(Some(asked)).send().await;
            let answer = answer.map_err(|error| failed(Box::new(error)))?;
            read.extend(answer.responses.into_iter().flatten().flat_map(|(_, items)| items));
            // DynamoDB answers only a part of the request if the items are large, or if it throttles.
            wanted = answer.unprocessed_keys.filter(|keys| !keys.is_empty());
            if wanted.is_some() {
                sleep(UNPROCESSED_PAUSE).await;
            }
        }
        Ok(read)
    }

    /// Writes an item over whatever is stored under its key.
    pub(super) async fn put_item(&self, item: &impl Serialize) -> Result<(), Error> {
        let request = self.client.put_item().table_name(&self.table).set_item(Some(encode(item)?));
        request.send().await.map_err(|error| Error::WriteInbox(Box::new(error)))?;
        Ok(())
    }

    /// Writes an item if its key is free. Returns true if it was.
    pub(super) async fn put_new_item(&self, item: &impl Serialize) -> Result<bool, Error> {
        self.put_item_if(item, "attribute_not_exists(event_id)").await
    }

    /// Writes an item on a condition. Returns true if it held.
    pub(super) async fn put_item_if(&self, item: &impl Serialize, condition: &str) -> Result<bool, Error> {
        let request = self.client.put_item().table_name(&self.table).set_item(Some(encode(item)?));
        let request = request.condition_expression(condition);
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Time after which DynamoDB may remove an item that was received at `received_at`, in Unix seconds.
    pub(super) fn expires_at(&self, received_at: Timestamp) -> i64 {
        expires_at(received_at, self.retention)
    }
}

pub(super) fn encode(item: &impl Serialize) -> Result<Item, Error> {
    serde_dynamo::to_item(item).map_err(|error| Error::WriteInbox(Box::new(error)))
}
