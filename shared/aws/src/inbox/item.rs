//! Items of the inbox table, as they are stored. The name of a field is the name of its attribute.
//!
//! An item is a provider event, or a *companion item*: anything else, such as a note on an event or the progress of the sweep.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};
use switchhook_domain::{CallId, DO_NOT_CALL_PREFIX, Disposition, EventId, Origin, Provider, Timestamp};

use crate::dynamodb::Item;
use crate::error::Error;

/// Schema version of an event's item.
pub(super) const INBOX_SCHEMA: u32 = 1;

/// Prefixes of the keys of companion items. No event has such a key: the keys of events begin with a provider or with
/// `switchhook`.
const COMPANION_PREFIXES: [&str; 10] = [
    "audit:",
    "chunk:",
    CONFLICT_PREFIX,
    DIALS_PREFIX,
    DO_NOT_CALL_PREFIX,
    NOTE_PREFIX,
    "plan:",
    "run:",
    "sweep:",
    UNFOLDED_PREFIX,
];
const CONFLICT_PREFIX: &str = "conflict:";
const DIALS_PREFIX: &str = "dials:";
const NOTE_PREFIX: &str = "note:";
const UNFOLDED_PREFIX: &str = "unfolded:";

pub(super) const SWEEP_CURSOR_KEY: &str = "sweep:cursor";
pub(super) const ATTENTION_CURSOR_KEY: &str = "sweep:attention";
pub(super) const RETRY_CURSOR_KEY: &str = "sweep:retries";

/// Provider event, as it was received.
#[derive(Serialize, Deserialize)]
pub(super) struct EventItem {
    pub(super) event_id: EventId,
    pub(super) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call_id: Option<CallId>,
    pub(super) origin: Origin,
    #[serde(rename = "type")]
    pub(super) event_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) occurred_at: Option<Timestamp>,
    pub(super) received_at: Timestamp,
    /// Minute of receipt and shard: the partition of the event in the index `by_received`.
    pub(super) received_bucket: String,
    /// Query of the webhook's URL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) query: String,
    /// Headers of the webhook that are needed to read it again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    /// Index of the key that verified the webhook.
    #[serde(default)]
    pub(super) key_index: usize,
    /// Compressed body. Absent if the body is in chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<ByteBuf>,
    /// Compressed event that ingress read from the body, if the provider is a configured one. Its mapping may change, but never
    /// the meaning of a stored event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reading: Option<ByteBuf>,
    /// Name of the person's decision, if a rule of the configuration found it in the body. The rule may change, but never the meaning of a
    /// stored event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<String>,
    /// Number of chunks. Absent if the body is in this item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body_chunks: Option<u32>,
    /// Number of the dictionary that compressed the body. Absent in items written before there was a dictionary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dictionary: Option<u32>,
    /// Removed, and so read as an empty text, once the event is erased.
    #[serde(default)]
    pub(super) body_hash: String,
    /// Time at which the person was forgotten. In such an item `body` holds only the call events that were read from the webhook,
    /// and `body_chunks` is the number of chunks that must still be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) erased_at: Option<Timestamp>,
    /// Name of a [`Disposition`] that ingress decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) disposition: Option<String>,
    #[serde(default)]
    pub(super) trace_id: String,
    /// Value of [`Inbox::attention_key`](super::Inbox::attention_key), while a person should look at the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attention: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attention_at: Option<Timestamp>,
    /// Short name of the reason why a person should look at the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// Time in seconds at which DynamoDB deletes the item.
    pub(super) expires_at: i64,
}

/// Webhook that has the id of a stored event, but another body. It is kept beside that event.
#[derive(Serialize)]
pub(super) struct ConflictItem<'a> {
    pub(super) event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call_id: Option<&'a CallId>,
    pub(super) origin: Origin,
    #[serde(rename = "type")]
    pub(super) event_type: &'a str,
    pub(super) received_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<&'a Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body_chunks: Option<u32>,
    pub(super) dictionary: u32,
    pub(super) body_hash: &'a str,
    pub(super) attention: String,
    pub(super) attention_at: Timestamp,
    pub(super) cause: &'static str,
    pub(super) expires_at: i64,
}

/// [`ConflictItem`] as it is read.
#[derive(Deserialize)]
pub(super) struct StoredConflictItem {
    pub(super) received_at: Timestamp,
    pub(super) body: Option<ByteBuf>,
    pub(super) body_chunks: Option<u32>,
    pub(super) dictionary: Option<u32>,
    pub(super) body_hash: String,
}

/// Part of a compressed body that is too large for one item.
#[derive(Serialize)]
pub(super) struct ChunkItem<'a> {
    pub(super) event_id: String,
    pub(super) body: &'a Bytes,
    pub(super) expires_at: i64,
}

/// Note on an event. See [`Note`](super::Note).
#[derive(Serialize, Deserialize)]
pub(super) struct NoteItem {
    pub(super) event_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(super) event_type: Option<String>,
    #[serde(default)]
    pub(super) attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_tried_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) waits: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_lettered_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) discarded_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) disposition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attention: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attention_at: Option<Timestamp>,
    pub(super) expires_at: i64,
}

/// Progress of the sweep, which queues stored events that never reached the queue. It never expires.
#[derive(Serialize, Deserialize)]
pub(super) struct CursorItem {
    pub(super) event_id: String,
    pub(super) minute: i64,
    /// Shards that are swept less far. The keys are the numbers of the shards.
    pub(super) left: BTreeMap<String, LeftItem>,
}

/// Progress of the sweep in a shard that was left to a worker.
#[derive(Serialize, Deserialize)]
pub(super) struct LeftItem {
    pub(super) minute: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<ReceivedKey>,
}

/// Progress of discovery, which reads a provider's own list of calls. It never expires.
#[derive(Serialize, Deserialize)]
pub(super) struct DiscoveryItem {
    pub(super) event_id: String,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<String>,
    #[serde(default)]
    pub(super) handled: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unreadable_since: Option<Timestamp>,
}

/// Progress of the drift check in one shard of the calls. It never expires.
#[derive(Serialize, Deserialize)]
pub(super) struct DriftItem {
    pub(super) event_id: String,
    pub(super) settled: DriftWalkItem,
    /// Walks of single providers, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) behind: BTreeMap<String, DriftWalkItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) open_queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) open_wake_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) open_call: Option<CallId>,
}

/// Progress of one walk of the drift check.
#[derive(Serialize, Deserialize)]
pub(super) struct DriftWalkItem {
    pub(super) settled_until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settled_call: Option<CallId>,
    pub(super) target: Timestamp,
}

/// Progress of the domain events that tell operators about trouble. It never expires.
#[derive(Serialize, Deserialize)]
pub(super) struct AttentionCursorItem {
    pub(super) event_id: String,
    pub(super) dead_letters: u64,
    pub(super) dead_lettered_until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dead_lettered_published_at: Option<Timestamp>,
    pub(super) quarantined_until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quarantined_published_at: Option<Timestamp>,
    pub(super) retrying_until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retrying_published_at: Option<Timestamp>,
}

/// Key of an event in the index `by_received`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReceivedKey {
    pub(super) event_id: String,
    pub(super) received_bucket: String,
    pub(super) received_at: Timestamp,
}

/// Event in the index `by_received`. The index holds only these attributes.
#[derive(Deserialize)]
pub(super) struct ReceivedItem {
    pub(super) event_id: EventId,
    pub(super) call_id: Option<CallId>,
    pub(super) received_at: Timestamp,
    pub(super) disposition: Option<String>,
}

/// Item in the index `by_attention`. The index holds only these attributes.
#[derive(Deserialize)]
pub(super) struct AttentionItem {
    pub(super) event_id: String,
    pub(super) attention: String,
    pub(super) attention_at: Timestamp,
    pub(super) call_id: Option<CallId>,
    pub(super) origin: Option<Origin>,
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    pub(super) cause: Option<String>,
}

impl EventItem {
    /// Reads an item of the table.
    ///
    /// # Errors
    /// [`Error::NewerSchema`] if a newer program wrote the item, [`Error::DecodeInbox`] if it cannot be read.
    pub(super) fn parse(item: Item) -> Result<Self, Error> {
        let version = item.get("schema_version").and_then(|version| version.as_n().ok());
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(version) if version > INBOX_SCHEMA => return Err(Error::NewerSchema(version)),
            Some(_) => {}
            None => return Err(Error::DecodeInbox("the schema version")),
        }
        // The text of serde's error is left out: it may quote the value, which may be a phone number.
        serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("an attribute"))
    }
}

/// Returns the disposition with this name. `None` if the name is unknown.
pub(super) fn disposition_of(name: &str) -> Option<Disposition> {
    Disposition::ALL.into_iter().find(|known| known.as_str() == name)
}

/// Takes the compressed bytes out of a chunk.
pub(super) fn chunk_body(mut item: Item) -> Result<Vec<u8>, Error> {
    match item.remove("body") {
        Some(AttributeValue::B(bytes)) => Ok(bytes.into_inner()),
        _ => Err(Error::DecodeInbox("a chunk of the body")),
    }
}

/// True if the id is the key of a companion item, which is not an event.
pub(super) fn is_companion(event_id: &EventId) -> bool {
    COMPANION_PREFIXES.iter().any(|prefix| event_id.as_str().starts_with(prefix))
}

pub(super) fn discovery_key(provider: Provider) -> String {
    format!("sweep:discovery:{provider}")
}

/// Key of the progress of the drift check in a shard.
pub(super) fn drift_key(shard: u64) -> String {
    format!("sweep:drift:{shard}")
}

/// Key of the counter of requests to a provider in a minute.
pub(super) fn lookup_budget_key(provider: Provider, minute: i64) -> String {
    format!("sweep:lookups:{provider}:{minute}")
}

pub(super) fn chunk_key(event_id: &EventId, body_hash: &str, index: u32) -> String {
    format!("chunk:{index}:{body_hash}:{event_id}")
}

pub(super) fn conflict_key(event_id: &EventId) -> String {
    format!("{CONFLICT_PREFIX}{event_id}")
}

/// Key of the item that holds the dials of a call.
pub(super) fn dials_key(call_id: &CallId) -> String {
    format!("{DIALS_PREFIX}{call_id}")
}

/// Key of the list of the events of a call that were not folded in time.
pub(super) fn unfolded_key(call_id: &CallId) -> String {
    format!("{UNFOLDED_PREFIX}{call_id}")
}

pub(super) fn note_key(event_id: &EventId) -> String {
    format!("{NOTE_PREFIX}{event_id}")
}

/// Returns the id of the event that an item concerns. The item is the event itself, a note on it, or a conflicting body. `None`
/// for any other item.
pub(super) fn marked_event(item_key: &str) -> Option<&str> {
    let of_companion = item_key.strip_prefix(NOTE_PREFIX).or_else(|| item_key.strip_prefix(CONFLICT_PREFIX));
    of_companion.or_else(|| (!is_companion(&EventId::new(item_key))).then_some(item_key))
}
