//! The inbox: an append-only table of every authentic provider event.
//!
//! **An event is acknowledged only when it is both stored and queued, and what is queued is always what is stored.** The
//! write has the condition that the id is free. If it is not, the item that stands there comes back with the refusal, and
//! the event is queued again from it, never from the request: whoever died between storing and queueing, the retry of the
//! provider or the sweep of the reconciler finishes the work, and both do it by [`submit`].
//!
//! Beside the events the table holds their companions, under keys that no event id can have: chunks of bodies that do not
//! fit into one item (written before the event's item, so that an item is never without its body), one conflicting body
//! per event, a note of what the consumer could not fold, and the cursor of the sweep.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use sha2::{Digest, Sha256};
use switchhook_domain::{AttemptKey, CallId, Disposition, EventId, Origin, ProviderEvent, Timestamp};
use switchhook_providers::{Reading, VerifiedWebhook, content_hash};

use crate::calls::{Alias, Calls, Item, shard_of};
use crate::compression::{self, Compressed};
use crate::error::Error;
use crate::queue::Queue;

/// The largest body that is accepted, in bytes: Lambda's 6 MB include the envelope and base64.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Of an event's item.
const INBOX_SCHEMA: u32 = 1;
/// A compressed body up to this size goes into the event's item; an item may have 400 KB. Larger ones go into chunks.
const INLINE_BYTES_MAX: usize = 300_000;
/// Index of what was received when: `received_bucket` and `received_at`.
pub const BY_RECEIVED: &str = "by_received";
/// Partitions of one minute of `by_received`: each takes 1,000 writes a second.
pub const RECEIVED_SHARDS: u64 = 4;
const MINUTE_MS: i64 = 60_000;
/// Header that no webhook has. It marks a provider's answer to a lookup.
const SOURCE_HEADER: &str = "switchhook-source";
/// Another: the attempt that it was asked about. An answer need not name it, nor its call.
const ATTEMPT_HEADER: &str = "switchhook-attempt";
const SWEEP_CURSOR: &str = "sweep:cursor";
/// How the keys of what is no event begin; those of events begin with a provider or with `switchhook`.
const COMPANIONS: [&str; 4] = ["chunk:", "conflict:", "note:", "sweep:"];

/// An authentic event on its way into the inbox. `Debug` shows its id alone: a body never reaches a log.
#[derive(Clone)]
pub struct NewEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub origin: Origin,
    pub event_type: String,
    pub occurred_at: Option<Timestamp>,
    pub received_at: Timestamp,
    /// The query that was signed with it.
    pub query: String,
    /// Exactly as signed.
    pub body: Vec<u8>,
    /// Which of the provider's keys verified it.
    pub key_index: usize,
    /// For debugging; never a signature or an authorisation.
    pub headers: BTreeMap<String, String>,
    /// Where it is decided already: recorded or quarantined.
    pub disposition: Option<Disposition>,
    pub trace_id: String,
}

/// An event as the inbox holds it. `Debug` shows its id alone: a body never reaches a log.
#[derive(Clone)]
pub struct StoredEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub origin: Origin,
    pub event_type: String,
    pub received_at: Timestamp,
    pub disposition: Option<Disposition>,
    pub trace_id: String,
    /// True if the event is a provider's answer to a lookup, not a webhook.
    from_lookup: bool,
    lookup_attempt: Option<AttemptKey>,
    query: String,
    key_index: usize,
    body: StoredBody,
    /// With which the body was compressed.
    dictionary: Option<u32>,
    body_hash: String,
}

#[derive(Clone)]
enum StoredBody {
    Inline(Blob),
    Chunks(u32),
}

impl fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewEvent").field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent").field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

/// What storing an event found.
#[derive(Debug)]
#[must_use]
pub enum PutOutcome {
    Stored,
    /// The id was taken. `same_content` is false if what stands there says something else than what came.
    Duplicate {
        stored: Box<StoredEvent>,
        same_content: bool,
    },
}

/// What is known of an event besides its item: why it was not folded, or how often that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// How often the consumer tried and failed.
    pub attempts: u32,
    pub error: Option<String>,
    pub next_retry_at: Option<Timestamp>,
    pub dead_lettered_at: Option<Timestamp>,
    /// Where the consumer decided against folding it: refused or quarantined.
    pub disposition: Option<Disposition>,
}

/// One line of the index of what was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub received_at: Timestamp,
    pub decided: bool,
}

/// How far the sweep got.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepCursor {
    /// The last minute that was looked at to its end.
    pub minute: i64,
    /// Where in the minute after it to go on; none: at its beginning.
    pub position: Option<SweepPosition>,
}

/// A place within a minute of the inbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepPosition {
    pub shard: u64,
    /// Where the next page starts; none: with the first.
    pub start: Option<Item>,
}

/// The inbox table.
#[derive(Clone, Debug)]
pub struct Inbox {
    client: Client,
    table: String,
    retention: Duration,
}

/// Stores an event and queues it, both or an error. An event that was there is queued again from the inbox.
///
/// # Errors
/// Whatever kept the event from being stored or queued; doing it again is safe.
pub async fn submit(
    inbox: &Inbox,
    queue: &Queue,
    new_event: &NewEvent,
    event: &ProviderEvent,
) -> Result<PutOutcome, Error> {
    let outcome = inbox.put(new_event).await?;
    match &outcome {
        PutOutcome::Stored => queue.send(event, &new_event.trace_id).await?,
        PutOutcome::Duplicate { stored, .. } => resend(inbox, queue, stored).await?,
    }
    Ok(outcome)
}

/// Queues an event again from what the inbox holds of it. One that was decided at ingress has nothing to queue.
///
/// # Errors
/// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::Send`].
pub async fn resend(inbox: &Inbox, queue: &Queue, stored: &StoredEvent) -> Result<(), Error> {
    match inbox.renormalize(stored).await? {
        Some(event) => queue.send(&event, &stored.trace_id).await,
        None => Ok(()),
    }
}

/// Queues stored events of a provider for the call and the attempt that an alias leads to, whatever call they name themselves. They
/// are of another group there, so that the queue does not take them for a repetition.
///
/// # Errors
/// As [`resend`].
pub async fn adopt(
    inbox: &Inbox,
    queue: &Queue,
    events: impl IntoIterator<Item = EventId>,
    alias: &Alias,
) -> Result<(), Error> {
    for id in events {
        let Some(stored) = inbox.get(&id).await? else { continue };
        let Some(mut event) = inbox.renormalize(&stored).await? else { continue };
        // What Switchhook found out about the other call is not about this one.
        if event.origin == Origin::Switchhook {
            continue;
        }
        event.call_id = alias.call_id.clone();
        event.attempt = Some(alias.attempt.clone());
        queue.send(&event, &stored.trace_id).await?;
    }
    Ok(())
}

/// The minute of a time, in which the index files what was received.
#[must_use]
pub const fn minute_of(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(MINUTE_MS)
}

/// Writes an alias for an attempt. Queues the events that had come under the alias's id for the attempt's call, and `event`
/// with them.
///
/// # Errors
/// As [`Calls::write_alias`] and [`adopt`]; doing it again is safe.
pub async fn write_alias_and_adopt(
    calls: &Calls,
    inbox: &Inbox,
    queue: &Queue,
    from: &CallId,
    alias: &Alias,
    event: Option<&EventId>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut orphaned_events = calls.write_alias(from, alias, now).await?;
    orphaned_events.extend(event.cloned());
    adopt(inbox, queue, orphaned_events, alias).await
}

impl NewEvent {
    /// Event that Switchhook itself made. Its body is the event as JSON.
    ///
    /// # Errors
    /// [`Error::WriteInbox`] if the event cannot be written as JSON.
    pub fn from_switchhook(event: &ProviderEvent, trace_id: &str) -> Result<Self, Error> {
        Ok(Self {
            event_id: event.event_id.clone(),
            call_id: Some(event.call_id.clone()),
            origin: event.origin,
            event_type: event.event_type.clone(),
            occurred_at: event.call_events.first().and_then(|e| e.occurred_at),
            received_at: event.received_at,
            query: String::new(),
            body: serde_json::to_vec(event).map_err(|error| Error::WriteInbox(Box::new(error)))?,
            key_index: 0,
            headers: BTreeMap::new(),
            disposition: None,
            trace_id: trace_id.to_owned(),
        })
    }

    /// Event that Switchhook read from a provider's answer to a lookup. `answer` is that answer in the form of a webhook.
    #[must_use]
    pub fn from_lookup(answer: &VerifiedWebhook, event: &ProviderEvent, trace_id: &str) -> Self {
        let mut headers = BTreeMap::from([(SOURCE_HEADER.to_owned(), "lookup".to_owned())]);
        headers.extend(event.attempt.as_ref().map(|attempt| (ATTEMPT_HEADER.to_owned(), attempt.to_string())));
        Self {
            event_id: event.event_id.clone(),
            call_id: Some(event.call_id.clone()),
            origin: Origin::Provider(answer.provider()),
            event_type: event.event_type.clone(),
            occurred_at: event.call_events.iter().find(|e| !e.implied).and_then(|e| e.occurred_at),
            received_at: event.received_at,
            query: answer.query().to_owned(),
            body: answer.body().to_vec(),
            key_index: 0,
            headers,
            disposition: None,
            trace_id: trace_id.to_owned(),
        }
    }
}

impl ReceivedEvent {
    /// Where a page of the index starts that is to begin after this line.
    #[must_use]
    pub fn start_key_after(&self, minute: i64, shard: u64) -> Item {
        HashMap::from([
            ("event_id".to_owned(), text(self.event_id.as_str())),
            ("received_bucket".to_owned(), text(&bucket_of(minute, shard))),
            ("received_at".to_owned(), number(self.received_at.as_millis())),
        ])
    }
}

impl Inbox {
    #[must_use]
    pub const fn new(client: Client, table: String, retention: Duration) -> Self {
        Self { client, table, retention }
    }

    /// Opens the connection and prepares what compresses, so that the first event waits for neither.
    pub async fn warm_up(&self) {
        compression::warm();
        drop(self.get_item("warm").await);
    }

    /// Stores an event under its id if that is free. One write; for a body that does not fit, a read before it, so that a
    /// duplicate writes no chunks, and a write for each chunk.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]; [`Error::ReadInbox`]; [`Error::DecodeInbox`] or [`Error::NewerSchema`] if the item that holds the id
    /// is not readable.
    pub async fn put(&self, event: &NewEvent) -> Result<PutOutcome, Error> {
        let hash = body_hash(&event.body);
        let Compressed { bytes: compressed, dictionary } = compress(&event.body)?;
        if compressed.len() > INLINE_BYTES_MAX
            && let Some(item) = self.get_item(event.event_id.as_str()).await?
        {
            return self.duplicate(item, event, &hash).await;
        }
        // By the call, so that the sweep finds what a minute brought of it in one place.
        let sharded_by = event.call_id.as_ref().map_or(event.event_id.as_str(), CallId::as_str);
        let bucket = bucket_of(minute_of(event.received_at), shard_of(sharded_by, RECEIVED_SHARDS));
        let mut item: Item = self.companion(event.event_id.as_str(), event.received_at);
        let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
        set("schema_version", number(i64::from(INBOX_SCHEMA)));
        set("origin", text(event.origin.as_str()));
        set("type", text(&event.event_type));
        set("received_at", number(event.received_at.as_millis()));
        set("received_bucket", text(&bucket));
        set("key_index", number(i64::try_from(event.key_index).unwrap_or(i64::MAX)));
        set("body_hash", text(&hash));
        set("dictionary", number(dictionary.into()));
        set("trace_id", text(&event.trace_id));
        if let Some(call_id) = &event.call_id {
            set("call_id", text(call_id.as_str()));
        }
        if let Some(at) = event.occurred_at {
            set("occurred_at", number(at.as_millis()));
        }
        if !event.query.is_empty() {
            set("query", text(&event.query));
        }
        if !event.headers.is_empty() {
            let headers = event.headers.iter().map(|(name, value)| (name.clone(), text(value)));
            set("headers", AttributeValue::M(headers.collect()));
        }
        if let Some(disposition) = event.disposition {
            set("disposition", text(disposition.as_str()));
        }
        if compressed.len() > INLINE_BYTES_MAX {
            let chunks = self.put_chunks(&event.event_id, &hash, &compressed, event.received_at).await?;
            set("body_chunks", number(i64::from(chunks)));
        } else {
            set("body", AttributeValue::B(Blob::new(compressed)));
        }
        let answer = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(event_id)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let error = match answer {
            Ok(_) => return Ok(PutOutcome::Stored),
            Err(error) => error,
        };
        let there = match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refusal)) => refusal.item.clone(),
            Some(_) | None => None,
        };
        match there {
            Some(item) => self.duplicate(item, event, &hash).await,
            None => Err(Error::WriteInbox(Box::new(error))),
        }
    }

    /// What came under an id that is taken. Only if its bytes differ, what they say is compared: a provider may write anew what
    /// it sends again.
    async fn duplicate(&self, item: Item, event: &NewEvent, hash: &str) -> Result<PutOutcome, Error> {
        let stored = Box::new(StoredEvent::decode(item)?);
        // What a provider says when it is asked and what it posts are written differently, and are no contradiction.
        let same_content = stored.from_lookup
            || stored.body_hash == hash
            || match event.origin {
                Origin::Switchhook => false,
                Origin::Provider(provider) => {
                    let before = self.read_body(&stored).await?;
                    content_hash(provider, &before) == content_hash(provider, &event.body)
                }
            };
        Ok(PutOutcome::Duplicate { stored, same_content })
    }

    /// Keeps one body that came under the id of another event beside it. True if it is the first to be kept.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]; [`Error::ReadInbox`].
    pub async fn put_conflict(&self, event: &NewEvent) -> Result<bool, Error> {
        let id = format!("conflict:{}", event.event_id);
        let hash = body_hash(&event.body);
        let Compressed { bytes: compressed, dictionary } = compress(&event.body)?;
        if compressed.len() > INLINE_BYTES_MAX && self.get_item(&id).await?.is_some() {
            return Ok(false);
        }
        let mut item = self.companion(&id, event.received_at);
        item.insert("received_at".to_owned(), number(event.received_at.as_millis()));
        item.insert("body_hash".to_owned(), text(&hash));
        item.insert("dictionary".to_owned(), number(dictionary.into()));
        if compressed.len() > INLINE_BYTES_MAX {
            let chunks = self.put_chunks(&event.event_id, &hash, &compressed, event.received_at).await?;
            item.insert("body_chunks".to_owned(), number(i64::from(chunks)));
        } else {
            item.insert("body".to_owned(), AttributeValue::B(Blob::new(compressed)));
        }
        let answer = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(event_id)")
            .send()
            .await;
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                Ok(false)
            }
            Err(error) => Err(Error::WriteInbox(Box::new(error))),
        }
    }

    /// The event under this id. A companion is none.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn get(&self, event_id: &EventId) -> Result<Option<StoredEvent>, Error> {
        if COMPANIONS.iter().any(|prefix| event_id.as_str().starts_with(prefix)) {
            return Ok(None);
        }
        self.get_item(event_id.as_str()).await?.map(StoredEvent::decode).transpose()
    }

    /// Reads a stored event as its provider's `normalize` does today; none if it is not one to fold.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn renormalize(&self, stored: &StoredEvent) -> Result<Option<ProviderEvent>, Error> {
        if stored.disposition.is_some() {
            return Ok(None);
        }
        let body = self.read_body(stored).await?;
        match stored.origin {
            Origin::Switchhook => serde_json::from_slice(&body).map(Some).map_err(|_| Error::DecodeInbox("its body")),
            Origin::Provider(provider) => {
                let webhook = VerifiedWebhook::from_inbox(provider, stored.query.clone(), body, stored.key_index);
                match switchhook_providers::read(&webhook, stored.received_at) {
                    // The answer to a lookup is about the attempt that was looked up, whatever ids the provider echoes.
                    Reading::Event(event) if stored.from_lookup => Ok(Some(ProviderEvent {
                        call_id: stored.call_id.clone().unwrap_or(event.call_id),
                        attempt: stored.lookup_attempt.clone().or(event.attempt),
                        ..event
                    })),
                    Reading::Event(event) => Ok(Some(event)),
                    Reading::Recorded { .. } | Reading::Quarantined { .. } => Ok(None),
                }
            }
        }
    }

    /// The event under this id as it is to be folded; none if there is none.
    ///
    /// # Errors
    /// As [`Inbox::get`] and [`Inbox::renormalize`].
    pub async fn get_normalized(&self, event_id: &EventId) -> Result<Option<ProviderEvent>, Error> {
        match self.get(event_id).await? {
            Some(stored) => self.renormalize(&stored).await,
            None => Ok(None),
        }
    }

    /// The exact bytes that were signed.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn read_body(&self, stored: &StoredEvent) -> Result<Vec<u8>, Error> {
        let compressed = match &stored.body {
            StoredBody::Inline(blob) => blob.clone().into_inner(),
            StoredBody::Chunks(count) => {
                let mut all = Vec::new();
                for index in 0..*count {
                    let id = chunk_id(&stored.event_id, &stored.body_hash, index);
                    match self.get_item(&id).await?.and_then(|mut item| item.remove("body")) {
                        Some(AttributeValue::B(blob)) => all.extend(blob.into_inner()),
                        _ => return Err(Error::DecodeInbox("a chunk of its body")),
                    }
                }
                all
            }
        };
        compression::decompress(&compressed, stored.dictionary, BODY_BYTES_MAX)
    }

    /// Notes what became of an event that was not folded.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn put_note(&self, event_id: &EventId, note: &Note, now: Timestamp) -> Result<(), Error> {
        let mut item = self.companion(&note_id(event_id), now);
        item.insert("attempts".to_owned(), number(note.attempts.into()));
        if let Some(error) = &note.error {
            item.insert("error".to_owned(), text(error));
        }
        for (name, time) in [("next_retry_at", note.next_retry_at), ("dead_lettered_at", note.dead_lettered_at)] {
            if let Some(time) = time {
                item.insert(name.to_owned(), number(time.as_millis()));
            }
        }
        if let Some(disposition) = note.disposition {
            item.insert("disposition".to_owned(), text(disposition.as_str()));
        }
        let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
        request.send().await.map_err(|error| Error::WriteInbox(Box::new(error)))?;
        Ok(())
    }

    /// What was noted of an event.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn get_note(&self, event_id: &EventId) -> Result<Option<Note>, Error> {
        let Some(item) = self.get_item(&note_id(event_id)).await? else { return Ok(None) };
        let time = |name: &str| integer(&item, name).map(Timestamp::from_millis);
        Ok(Some(Note {
            attempts: integer(&item, "attempts").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            error: string(&item, "error"),
            next_retry_at: time("next_retry_at"),
            dead_lettered_at: time("dead_lettered_at"),
            disposition: disposition(&item),
        }))
    }

    /// One page of what one shard received in one minute, and where the next page starts.
    ///
    /// # Errors
    /// [`Error::ListInbox`].
    pub async fn received_page(
        &self,
        minute: i64,
        shard: u64,
        start: Option<Item>,
    ) -> Result<(Vec<ReceivedEvent>, Option<Item>), Error> {
        let page = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_RECEIVED)
            .key_condition_expression("received_bucket = :bucket")
            .expression_attribute_values(":bucket", text(&bucket_of(minute, shard)))
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|error| Error::ListInbox(Box::new(error)))?;
        let received = page.items.unwrap_or_default().into_iter().filter_map(|item| {
            Some(ReceivedEvent {
                event_id: EventId::new(string(&item, "event_id")?),
                call_id: string(&item, "call_id").map(CallId::new),
                received_at: Timestamp::from_millis(integer(&item, "received_at")?),
                decided: item.contains_key("disposition"),
            })
        });
        Ok((received.collect(), page.last_evaluated_key))
    }

    /// How far the sweep got; none: there was none yet.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn sweep_cursor(&self) -> Result<Option<SweepCursor>, Error> {
        let Some(mut item) = self.get_item(SWEEP_CURSOR).await? else { return Ok(None) };
        let Some(minute) = integer(&item, "minute") else { return Ok(None) };
        let start = match item.remove("start") {
            Some(AttributeValue::M(start)) => Some(start),
            _ => None,
        };
        let shard = integer(&item, "shard").and_then(|shard| u64::try_from(shard).ok());
        Ok(Some(SweepCursor { minute, position: shard.map(|shard| SweepPosition { shard, start }) }))
    }

    /// Moves the cursor of the sweep on, if no other sweep finished a minute since `from` was. False if one did.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn advance_sweep_cursor(&self, from: Option<i64>, to: &SweepCursor) -> Result<bool, Error> {
        let mut item =
            HashMap::from([("event_id".to_owned(), text(SWEEP_CURSOR)), ("minute".to_owned(), number(to.minute))]);
        if let Some(SweepPosition { shard, start }) = &to.position {
            item.insert("shard".to_owned(), number(i64::try_from(*shard).unwrap_or(0)));
            if let Some(start) = start {
                item.insert("start".to_owned(), AttributeValue::M(start.clone()));
            }
        }
        let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let request = match from {
            Some(from) => request
                .condition_expression("#minute = :from")
                .expression_attribute_names("#minute", "minute")
                .expression_attribute_values(":from", number(from)),
            None => request.condition_expression("attribute_not_exists(event_id)"),
        };
        match request.send().await {
            Ok(_) => Ok(true),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                Ok(false)
            }
            Err(error) => Err(Error::WriteInbox(Box::new(error))),
        }
    }

    async fn put_chunks(&self, event_id: &EventId, hash: &str, bytes: &[u8], now: Timestamp) -> Result<u32, Error> {
        let mut count = 0;
        for chunk in bytes.chunks(INLINE_BYTES_MAX) {
            let mut item = self.companion(&chunk_id(event_id, hash, count), now);
            item.insert("body".to_owned(), AttributeValue::B(Blob::new(chunk)));
            let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
            request.send().await.map_err(|error| Error::WriteInbox(Box::new(error)))?;
            count += 1;
        }
        Ok(count)
    }

    async fn get_item(&self, id: &str) -> Result<Option<Item>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("event_id", text(id))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| Error::ReadInbox(Box::new(error)))?;
        Ok(answer.item)
    }

    /// The attributes that every item has: its key, and when DynamoDB may remove it.
    fn companion(&self, id: &str, now: Timestamp) -> Item {
        let expires_at = now.plus(self.retention).as_millis() / 1_000;
        HashMap::from([("event_id".to_owned(), text(id)), ("expires_at".to_owned(), number(expires_at))])
    }
}

impl StoredEvent {
    fn decode(mut item: Item) -> Result<Self, Error> {
        match integer(&item, "schema_version").and_then(|version| u32::try_from(version).ok()) {
            Some(version) if version > INBOX_SCHEMA => return Err(Error::NewerSchema(version)),
            Some(_) => {}
            None => return Err(Error::DecodeInbox("schema_version")),
        }
        let body = match (item.remove("body"), integer(&item, "body_chunks")) {
            (Some(AttributeValue::B(blob)), None) => StoredBody::Inline(blob),
            (None, Some(count)) => StoredBody::Chunks(u32::try_from(count).unwrap_or(0)),
            (_, _) => return Err(Error::DecodeInbox("body")),
        };
        let origin = string(&item, "origin").ok_or(Error::DecodeInbox("origin"))?;
        let origin: Origin = origin.parse().map_err(|_| Error::DecodeInbox("origin"))?;
        Ok(Self {
            event_id: string(&item, "event_id").map(EventId::new).ok_or(Error::DecodeInbox("event_id"))?,
            call_id: string(&item, "call_id").map(CallId::new),
            origin,
            event_type: string(&item, "type").ok_or(Error::DecodeInbox("type"))?,
            received_at: integer(&item, "received_at")
                .map(Timestamp::from_millis)
                .ok_or(Error::DecodeInbox("received_at"))?,
            disposition: disposition(&item),
            trace_id: string(&item, "trace_id").unwrap_or_default(),
            from_lookup: header(&item, SOURCE_HEADER).is_some(),
            lookup_attempt: header(&item, ATTEMPT_HEADER).map(AttemptKey::new),
            query: string(&item, "query").unwrap_or_default(),
            key_index: integer(&item, "key_index").and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
            body,
            // A number that is none is no dictionary that this program has.
            dictionary: integer(&item, "dictionary").map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            body_hash: string(&item, "body_hash").ok_or(Error::DecodeInbox("body_hash"))?,
        })
    }
}

fn compress(body: &[u8]) -> Result<Compressed, Error> {
    compression::compress(body).map_err(|error| Error::WriteInbox(Box::new(error)))
}

/// 128 bits are enough: whoever could find a collision holds the provider's key.
fn body_hash(body: &[u8]) -> String {
    let mut hash = hex::encode(Sha256::digest(body));
    hash.truncate(32);
    hash
}

fn bucket_of(minute: i64, shard: u64) -> String {
    format!("{minute}#{shard}")
}

fn chunk_id(event_id: &EventId, hash: &str, index: u32) -> String {
    format!("chunk:{index}:{hash}:{event_id}")
}

fn note_id(event_id: &EventId) -> String {
    format!("note:{event_id}")
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn string(item: &Item, name: &str) -> Option<String> {
    item.get(name).and_then(|value| value.as_s().ok()).cloned()
}

fn header(item: &Item, name: &str) -> Option<String> {
    item.get("headers").and_then(|headers| headers.as_m().ok()).and_then(|headers| string(headers, name))
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.get(name).and_then(|value| value.as_n().ok()).and_then(|number| number.parse().ok())
}

fn disposition(item: &Item) -> Option<Disposition> {
    let name = string(item, "disposition")?;
    Disposition::ALL.into_iter().find(|known| known.as_str() == name)
}
