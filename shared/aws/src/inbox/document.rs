//! Documents of operators: plans, runs and audit records.
//!
//! They are companion items of the inbox, so a stack needs no table for them. A document that does not fit into one item has
//! its content in chunks, which are written first. So no document lacks a part of its content.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};
use switchhook_domain::Timestamp;

use super::attention::AttentionKind;
use super::event::{INLINE_BYTES_MAX, compress};
use super::item::{ChunkItem, chunk_body};
use super::table::{Inbox, encode};
use crate::compression::{self, Compressed};
use crate::dynamodb::{ConditionalWrite, expires_at, number};
use crate::error::Error;

/// Kind of a document. Each kind has ids of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Plan,
    Run,
    Audit,
}

/// Returns the id of the audit record under this key. `None` if the key belongs to another item.
#[must_use]
pub fn audit_id(item_key: &str) -> Option<&str> {
    item_key.strip_prefix("audit:")
}

/// Document that the inbox table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub content: Vec<u8>,
    /// Version of the document. Grows by one with every write.
    pub version: u64,
}

#[derive(Serialize, Deserialize)]
struct DocumentItem {
    event_id: String,
    version: u64,
    /// Compressed content. Absent if the content is in chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<ByteBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_chunks: Option<u32>,
    dictionary: u32,
    /// Size of the content before compression.
    content_bytes: usize,
    /// Only in audit records: it puts them into the index of items that a person should look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attention: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attention_at: Option<Timestamp>,
    expires_at: i64,
}

impl DocumentKind {
    fn key(self, id: &str) -> String {
        let prefix = match self {
            Self::Plan => "plan",
            Self::Run => "run",
            Self::Audit => "audit",
        };
        format!("{prefix}:{id}")
    }
}

impl Inbox {
    /// Stores a document if its id is free. Returns true if it was. DynamoDB may remove the document after `retention`.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn put_document(
        &self,
        kind: DocumentKind,
        id: &str,
        content: &[u8],
        retention: Duration,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let key = kind.key(id);
        let is_audit = kind == DocumentKind::Audit;
        let expires_at = expires_at(now, retention);
        let Compressed { bytes, dictionary } = compress(content)?;
        let mut item = DocumentItem {
            event_id: key.clone(),
            version: 1,
            body: None,
            body_chunks: None,
            dictionary,
            content_bytes: content.len(),
            attention: is_audit.then(|| self.attention_key(AttentionKind::Audit, &key, now)),
            attention_at: is_audit.then_some(now),
            expires_at,
        };
        if bytes.len() <= INLINE_BYTES_MAX {
            item.body = Some(ByteBuf::from(bytes));
        } else {
            let mut count = 0;
            for chunk in bytes.chunks(INLINE_BYTES_MAX) {
                let chunk = ChunkItem { event_id: chunk_of(&key, count), body: Bytes::new(chunk), expires_at };
                self.put_item(&chunk).await?;
                count += 1;
            }
            item.body_chunks = Some(count);
        }
        self.put_new_item(&item).await
    }

    /// Replaces the content of a document that has the version `read`. Returns false if another writer came first. The content
    /// must fit into one item.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn replace_document(
        &self,
        kind: DocumentKind,
        id: &str,
        content: &[u8],
        read: u64,
        retention: Duration,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let Compressed { bytes, dictionary } = compress(content)?;
        let item = DocumentItem {
            event_id: kind.key(id),
            version: read + 1,
            body: Some(ByteBuf::from(bytes)),
            body_chunks: None,
            dictionary,
            content_bytes: content.len(),
            attention: None,
            attention_at: None,
            expires_at: expires_at(now, retention),
        };
        let request = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(encode(&item)?))
            .condition_expression("version = :read")
            .expression_attribute_values(":read", number(i64::try_from(read).unwrap_or(i64::MAX)));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Reads a document. `None` if there is none with this id, or DynamoDB has begun to delete it.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn get_document(&self, kind: DocumentKind, id: &str) -> Result<Option<Document>, Error> {
        let key = kind.key(id);
        let Some(item) = self.get_item(&key).await? else { return Ok(None) };
        let item: DocumentItem = serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the document"))?;
        let bytes = match (item.body, item.body_chunks) {
            (Some(bytes), None) => bytes.into_vec(),
            (None, Some(count)) => {
                let mut bytes = Vec::new();
                for index in 0..count {
                    let Some(chunk) = self.get_item(&chunk_of(&key, index)).await? else { return Ok(None) };
                    bytes.extend(chunk_body(chunk)?);
                }
                bytes
            }
            (Some(_), Some(_)) | (None, None) => return Err(Error::DecodeInbox("the document")),
        };
        let content = compression::decompress(&bytes, Some(item.dictionary), item.content_bytes)?;
        Ok(Some(Document { content, version: item.version }))
    }
}

fn chunk_of(key: &str, index: u32) -> String {
    format!("chunk:{index}:{key}")
}
