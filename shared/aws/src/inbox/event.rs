//! Events of the inbox: written once under their id, and read back as they were signed.

use std::collections::BTreeMap;
use std::fmt;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use serde_bytes::{ByteBuf, Bytes};
use sha2::{Digest, Sha256};
use switchhook_domain::{AttemptKey, CallId, Disposition, EventId, Origin, ProviderEvent, Timestamp};
use switchhook_providers::{UserDecision, content_hash};

use super::attention::AttentionKind;
use super::item::{ChunkItem, EventItem, INBOX_SCHEMA, chunk_body, chunk_key, disposition_of, is_companion};
use super::new_event::{ATTEMPT_HEADER, LOOKUP_SOURCE, NewEvent, ROW_SOURCE, SOURCE_HEADER};
use super::table::{Inbox, encode};
use crate::compression::{self, Compressed};
use crate::dynamodb::{ConditionalWrite, Item, text};
use crate::error::Error;

/// Largest body that is accepted, in bytes. Lambda's limit of 6 MB includes the envelope and base64.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest compressed body that is stored in the event's item, in bytes. An item may have 400 KB. A larger body is
/// stored in chunks.
pub(super) const INLINE_BYTES_MAX: usize = 300_000;
/// Hex digits of a body's hash. 128 bits are enough: only the holder of the provider's key could use a collision.
const BODY_HASH_DIGITS: usize = 32;
/// Header with the version of the program that could not read a webhook.
const VERSION_HEADER: &str = "switchhook-version";

/// Event that the inbox holds. `Debug` shows its id alone, because a body must never reach a log.
#[derive(Clone)]
pub struct StoredEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub origin: Origin,
    pub event_type: String,
    pub occurred_at: Option<Timestamp>,
    pub received_at: Timestamp,
    pub disposition: Option<Disposition>,
    /// Short name of the reason why ingress quarantined the event.
    pub cause: Option<String>,
    pub trace_id: String,
    /// Time at which the person was erased from the event. `None` if the event is as it was received.
    pub erased_at: Option<Timestamp>,
    /// Headers that were stored for debugging.
    pub headers: BTreeMap<String, String>,
    /// True if the event is a provider's answer to a lookup, not a webhook.
    pub from_lookup: bool,
    /// True if the event was restored from the row of its call, and its body is the event as Switchhook read it.
    pub is_from_row: bool,
    /// Attempt that was looked up.
    pub(super) lookup_attempt: Option<AttemptKey>,
    pub(super) query: String,
    /// Index of the provider's key that verified the event.
    pub key_index: usize,
    pub(super) body: StoredBody,
    /// Compressed event that ingress read from the body, if the provider is a configured one.
    pub(super) reading: Option<Vec<u8>>,
    /// The person's decision, which a rule of the configuration found in the body.
    pub(super) decision: Option<UserDecision>,
    /// Number of the dictionary that compressed the body and the reading.
    pub(super) dictionary: Option<u32>,
    /// Number of chunks. In an erased event, those that are yet to be deleted.
    pub(super) body_chunks: Option<u32>,
    pub(super) body_hash: String,
}

/// Compressed body.
#[derive(Clone)]
pub(super) enum StoredBody {
    Inline(Vec<u8>),
    /// Number of chunk items.
    Chunks(u32),
    /// The event is erased, and no call event was read from its body.
    Erased,
}

/// Outcome of storing an event.
#[derive(Debug)]
#[must_use]
pub enum PutOutcome {
    Stored,
    /// The id was taken. `same_content` is false if the stored event says something else than the new one.
    Duplicate {
        stored: Box<StoredEvent>,
        same_content: bool,
    },
}

impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent").field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Stores an event if its id is free. Costs one write. A body in chunks costs a read before it, so that a duplicate
    /// writes no chunks, and one more write for each chunk.
    ///
    /// # Errors
    /// [`Error::WriteInbox`], [`Error::ReadInbox`]. If the stored event cannot be read: [`Error::DecodeInbox`],
    /// [`Error::NewerSchema`].
    pub async fn put(&self, event: &NewEvent) -> Result<PutOutcome, Error> {
        self.put_kept_from(event, event.received_at).await
    }

    /// Does the same as [`Inbox::put`], and keeps the event for the retention of the inbox after `kept_from`.
    pub(super) async fn put_kept_from(&self, event: &NewEvent, kept_from: Timestamp) -> Result<PutOutcome, Error> {
        let body_hash = body_hash(&event.body);
        let Compressed { bytes, dictionary } = compress(&event.body)?;
        if bytes.len() > INLINE_BYTES_MAX
            && let Some(item) = self.get_item(event.event_id.as_str()).await?
        {
            return self.duplicate(item, event, &body_hash).await;
        }
        let body_chunks = self.put_chunks(event, &body_hash, &bytes).await?;
        let reading = match &event.reading {
            Some(event) => compressed_reading(event, Some(dictionary))?.map(ByteBuf::from),
            None => None,
        };
        let is_quarantined = event.disposition == Some(Disposition::Quarantined);
        let mut headers = event.headers.clone();
        if is_quarantined {
            headers.insert(VERSION_HEADER.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        }
        let item = EventItem {
            event_id: event.event_id.clone(),
            schema_version: INBOX_SCHEMA,
            call_id: event.call_id.clone(),
            origin: event.origin,
            event_type: event.event_type.clone(),
            occurred_at: event.occurred_at,
            received_at: event.received_at,
            received_bucket: self.received_bucket(event.call_id.as_ref(), &event.event_id, event.received_at),
            query: event.query.clone(),
            headers,
            key_index: event.key_index,
            body: body_chunks.is_none().then(|| ByteBuf::from(bytes)),
            reading,
            decision: event.decision.map(|decision| decision.as_str().to_owned()),
            body_chunks,
            dictionary: Some(dictionary),
            body_hash,
            erased_at: None,
            disposition: event.disposition.map(|disposition| disposition.as_str().to_owned()),
            trace_id: event.trace_id.clone(),
            attention: is_quarantined
                .then(|| self.attention_key(AttentionKind::Quarantined, event.event_id.as_str(), event.received_at)),
            attention_at: is_quarantined.then_some(event.received_at),
            cause: event.cause.map(str::to_owned),
            expires_at: self.expires_at(kept_from),
        };
        let request = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(encode(&item)?))
            .condition_expression("attribute_not_exists(event_id)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)? {
            ConditionalWrite::Applied(_) => Ok(PutOutcome::Stored),
            ConditionalWrite::Refused(Some(stored)) => self.duplicate(stored, event, &item.body_hash).await,
            ConditionalWrite::Refused(None) => Err(Error::WriteInbox("the refusal carries no stored item".into())),
        }
    }

    /// Returns the stored event, and whether it has the same content as the new one.
    async fn duplicate(&self, item: Item, event: &NewEvent, body_hash: &str) -> Result<PutOutcome, Error> {
        let stored = Box::new(StoredEvent::decode(EventItem::parse(item)?)?);
        let same_content = self.has_same_content(&stored, event, body_hash).await?;
        Ok(PutOutcome::Duplicate { stored, same_content })
    }

    /// True if a stored event has the same content as a new one, whose body has this hash. The content is compared only if the bytes
    /// differ: a provider that repeats an event may format it differently.
    pub(super) async fn has_same_content(
        &self,
        stored: &StoredEvent,
        event: &NewEvent,
        body_hash: &str,
    ) -> Result<bool, Error> {
        // A provider writes its answer to a lookup and its webhook differently. That is no contradiction. Nobody knows any more
        // what an erased event said.
        if stored.from_lookup || stored.is_from_row || stored.erased_at.is_some() || stored.body_hash == body_hash {
            return Ok(true);
        }
        let Origin::Provider(provider) = event.origin else { return Ok(false) };
        let before = self.read_body(stored).await?;
        // A rule of the configuration may have found the decision in a part of the body that the hash leaves out.
        Ok(stored.decision == event.decision && content_hash(provider, &before) == content_hash(provider, &event.body))
    }

    /// Reads the event with this id. `None` if there is none, or if the id is the key of a companion item.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn get(&self, event_id: &EventId) -> Result<Option<StoredEvent>, Error> {
        if is_companion(event_id) {
            return Ok(None);
        }
        let Some(item) = self.get_item(event_id.as_str()).await? else { return Ok(None) };
        StoredEvent::decode(EventItem::parse(item)?).map(Some)
    }

    /// Reads the exact bytes that were signed. If the event is erased, reads the call events that were read from them, as JSON, or
    /// nothing.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn read_body(&self, stored: &StoredEvent) -> Result<Vec<u8>, Error> {
        self.read_stored_body(&stored.event_id, &stored.body, &stored.body_hash, stored.dictionary).await
    }

    pub(super) async fn read_stored_body(
        &self,
        event_id: &EventId,
        body: &StoredBody,
        body_hash: &str,
        dictionary: Option<u32>,
    ) -> Result<Vec<u8>, Error> {
        match body {
            StoredBody::Inline(bytes) => compression::decompress(bytes, dictionary, BODY_BYTES_MAX),
            StoredBody::Erased => Ok(Vec::new()),
            StoredBody::Chunks(count) => {
                let mut bytes = Vec::new();
                for index in 0..*count {
                    let key = chunk_key(event_id, body_hash, index);
                    let chunk = self.get_item(&key).await?.ok_or(Error::DecodeInbox("a chunk of the body"))?;
                    bytes.extend(chunk_body(chunk)?);
                }
                compression::decompress(&bytes, dictionary, BODY_BYTES_MAX)
            }
        }
    }

    /// Writes a compressed body in chunks and returns their number. `None`, and nothing written, if the body fits into
    /// one item.
    pub(super) async fn put_chunks(
        &self,
        event: &NewEvent,
        body_hash: &str,
        bytes: &[u8],
    ) -> Result<Option<u32>, Error> {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(None);
        }
        let mut count = 0;
        for chunk in bytes.chunks(INLINE_BYTES_MAX) {
            self.put_item(&ChunkItem {
                event_id: chunk_key(&event.event_id, body_hash, count),
                body: Bytes::new(chunk),
                expires_at: self.expires_at(event.received_at),
            })
            .await?;
            count += 1;
        }
        Ok(Some(count))
    }
}

impl StoredEvent {
    /// True if the person is erased from the event, and no chunk of its body is left.
    #[must_use]
    pub const fn is_erased(&self) -> bool {
        self.erased_at.is_some() && self.body_chunks.is_none()
    }

    pub(super) fn decode(item: EventItem) -> Result<Self, Error> {
        let body = match (item.erased_at, item.body) {
            (Some(_), Some(bytes)) => StoredBody::Inline(bytes.into_vec()),
            (Some(_), None) => StoredBody::Erased,
            (None, bytes) => StoredBody::decode(bytes, item.body_chunks)?,
        };
        Ok(Self {
            event_id: item.event_id,
            call_id: item.call_id,
            origin: item.origin,
            event_type: item.event_type,
            occurred_at: item.occurred_at,
            received_at: item.received_at,
            disposition: item.disposition.as_deref().and_then(disposition_of),
            cause: item.cause,
            trace_id: item.trace_id,
            from_lookup: item.headers.get(SOURCE_HEADER).is_some_and(|source| source == LOOKUP_SOURCE),
            is_from_row: item.headers.get(SOURCE_HEADER).is_some_and(|source| source == ROW_SOURCE),
            lookup_attempt: item.headers.get(ATTEMPT_HEADER).map(AttemptKey::new),
            query: item.query,
            key_index: item.key_index,
            body,
            reading: item.reading.map(ByteBuf::into_vec),
            decision: item.decision.as_deref().and_then(UserDecision::from_name),
            dictionary: item.dictionary,
            body_chunks: item.body_chunks,
            body_hash: item.body_hash,
            erased_at: item.erased_at,
            headers: item.headers,
        })
    }

    /// Headers that Switchhook itself added, as an attribute.
    pub(super) fn own_headers(&self) -> AttributeValue {
        let own = [SOURCE_HEADER, VERSION_HEADER, ATTEMPT_HEADER].into_iter();
        let own = own.filter_map(|name| Some((name.to_owned(), text(self.headers.get(name)?))));
        AttributeValue::M(own.collect())
    }
}

impl StoredBody {
    pub(super) fn decode(body: Option<ByteBuf>, chunks: Option<u32>) -> Result<Self, Error> {
        match (body, chunks) {
            (Some(bytes), None) => Ok(Self::Inline(bytes.into_vec())),
            (None, Some(count)) => Ok(Self::Chunks(count)),
            (Some(_), Some(_)) | (None, None) => Err(Error::DecodeInbox("the body")),
        }
    }
}

pub(super) fn compress(body: &[u8]) -> Result<Compressed, Error> {
    compression::compress(body).map_err(|error| Error::WriteInbox(Box::new(error)))
}

/// Compresses an event that was read by a mapping, with the dictionary of the item that has its body. `None` if a newer program wrote the
/// item, with a dictionary that this one does not have.
pub(super) fn compressed_reading(event: &ProviderEvent, dictionary: Option<u32>) -> Result<Option<Vec<u8>>, Error> {
    let json = serde_json::to_vec(event).map_err(|error| Error::WriteInbox(Box::new(error)))?;
    compression::compress_with(&json, dictionary).map_err(|error| Error::WriteInbox(Box::new(error)))
}

pub(super) fn body_hash(body: &[u8]) -> String {
    let mut hash = hex::encode(Sha256::digest(body));
    hash.truncate(BODY_HASH_DIGITS);
    hash
}
