//! Reads and conditional writes of calls and aliases.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, ReturnValue};
use switchhook_domain::{
    AttemptKey, Call, CallId, DO_NOT_CALL_PREFIX, ENTITY_PREFIX, EventId, PROVIDER_HEALTH_PREFIX, Timestamp, Transition,
};

use super::encoding::encode_move;
use super::known_accounts::KnownAccounts;
use super::row::CallRow;
use super::wake_queue::{WakeQueue, wake_key};
use crate::dynamodb::{ConditionalWrite, Item, expires_at, number, text};
use crate::error::Error;
use crate::sdk::Clock;
use crate::shards::Shards;

/// Time after which no event needs an alias any more. No call lasts as long, and no webhook arrives as late.
const ALIAS_USE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Longest time that the adoption of orphaned events takes. After it the reconciler starts the adoption again.
const ADOPTION_MAX: Duration = Duration::from_secs(60);
/// Condition that an id is free, or leads to the same attempt already.
const NO_CALL_AND_NO_OTHER_ALIAS: &str = "attribute_not_exists(#plan) AND attribute_not_exists(history) \
     AND (attribute_not_exists(alias_of) OR (alias_of = :call AND alias_attempt = :attempt))";
/// Condition that an id leads to no other attempt, and is not the id of a call that Switchhook placed.
const NO_PLACED_CALL_AND_NO_OTHER_ALIAS: &str = "attribute_not_exists(#plan) \
     AND (attribute_not_exists(alias_of) OR (alias_of = :call AND alias_attempt = :attempt))";
/// Update expression that makes an item an alias.
const SET_ALIAS: &str = "SET alias_of = :call, alias_attempt = :attempt, version = if_not_exists(version, :none) + :one, \
                         expires_at = :end";

/// Item that is stored under an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Call(Box<Call>),
    /// The id is a provider's id of an attempt, which belongs to another call.
    Alias(Alias),
    Nothing,
}

impl Found {
    /// Returns the call. `None` also if the item is an alias.
    pub(super) fn into_call(self) -> Option<Call> {
        match self {
            Self::Call(call) => Some(*call),
            Self::Alias(_) | Self::Nothing => None,
        }
    }
}

/// Attempt that a provider's id leads to, and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub call_id: CallId,
    pub attempt: AttemptKey,
}

/// Call that an id leads to, directly or by an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// `None` if there is no such call.
    pub call: Option<Call>,
    /// Alias that was followed. `None` if the id is the call's own.
    pub alias: Option<Alias>,
}

/// Outcome of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StoreOutcome {
    Committed,
    /// Another writer came first. Read the call again.
    LostRace,
}

/// Outcome of writing an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum AliasOutcome {
    /// The id leads to the attempt now, or did before. `orphaned_events` are those of a call that was stored under the id. The caller must
    /// have them [adopted](crate::inbox::adopt) and then call [`Calls::finish_adoption`].
    Leads { orphaned_events: BTreeSet<EventId> },
    /// Nothing was written: the id leads to another call, or is the id of a call that Switchhook placed.
    Refused,
}

/// Client of the calls table.
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) client: Client,
    pub(crate) table: String,
    retention: Duration,
    index_numbers: bool,
    shards: Shards,
    pub(super) known_accounts: KnownAccounts,
}

impl Calls {
    /// Client that keeps the row of a call for `retention`, and writes the numbers of calls into the index `by_party`.
    #[must_use]
    pub fn new(client: Client, table: String, retention: Duration) -> Self {
        let (shards, known_accounts) = (Shards::default(), KnownAccounts::default());
        Self { client, table, retention, index_numbers: true, shards, known_accounts }
    }

    /// Returns the time for which the client keeps the row of a call after its last change.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// The same client, for a stack with these shards.
    #[must_use]
    pub fn shards(self, shards: Shards) -> Self {
        Self { shards, ..self }
    }

    /// Returns the shards of the stack.
    #[must_use]
    pub const fn index_shards(&self) -> &Shards {
        &self.shards
    }

    /// Returns the shards in which entries of a wake queue may be.
    #[must_use]
    pub fn wake_shards(&self) -> Range<u64> {
        0..self.shards.max()
    }

    /// Returns every shard of a wake queue once. `turn` decides which shard comes first, so that no shard is always the last.
    pub fn wake_shards_from(&self, turn: u64) -> impl Iterator<Item = u64> + use<> {
        let shards = self.shards.max();
        (0..shards).map(move |shard| (turn % shards + shard) % shards)
    }

    /// The same client, which writes no numbers into the index `by_party` if `index_numbers` is false.
    #[must_use]
    pub fn index_numbers(self, index_numbers: bool) -> Self {
        Self { index_numbers, ..self }
    }

    /// True if the client writes numbers into the index `by_party`.
    #[must_use]
    pub const fn indexes_numbers(&self) -> bool {
        self.index_numbers
    }

    /// Clock of the SDK client.
    pub(super) fn clock(&self) -> Clock {
        Clock::from_source(self.client.config().time_source())
    }

    /// Opens the connection, so that the first event does not wait for it.
    pub async fn warm_up(&self) {
        drop(self.get_call(&CallId::new("warm")).await);
    }

    /// Reads the latest state of a call, by one strongly consistent read. `None` also if the id is an alias.
    ///
    /// # Errors
    /// [`Error::ReadCall`], [`Error::DecodeCall`], [`Error::NewerSchema`].
    pub async fn get_call(&self, call_id: &CallId) -> Result<Option<Call>, Error> {
        Ok(self.get(call_id, true).await?.into_call())
    }

    /// Reads the item under an id by one eventually consistent read. It costs half as much, and may miss writes of the
    /// last few hundred milliseconds.
    ///
    /// # Errors
    /// The same as [`Calls::get_call`].
    pub async fn get_eventual(&self, call_id: &CallId) -> Result<Found, Error> {
        self.get(call_id, false).await
    }

    /// Reads the items under at most a hundred ids by one request, strongly consistent or not. Leaves out an id whose item DynamoDB did not
    /// read or that cannot be decoded. [`Calls::resolve`] returns the error of such an id.
    ///
    /// # Errors
    /// [`Error::ReadCall`]. One id that is no valid key makes DynamoDB refuse the whole request.
    pub async fn get_at_once(
        &self,
        ids: &BTreeSet<&CallId>,
        consistent: bool,
    ) -> Result<HashMap<CallId, Found>, Error> {
        let key = |id: &&CallId| Item::from([("call_id".to_owned(), text(id.as_str()))]);
        let keys =
            KeysAndAttributes::builder().set_keys(Some(ids.iter().map(key).collect())).consistent_read(consistent);
        let keys = keys.build().map_err(|error| Error::ReadCall(Box::new(error)))?;
        let answer = self.client.batch_get_item().request_items(&self.table, keys).send().await;
        let answer = answer.map_err(|error| Error::ReadCall(Box::new(error)))?;
        let id_of = |item: &Item| item.get("call_id").and_then(|id| id.as_s().ok()).map(CallId::new);
        let not_read = answer.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys);
        let not_read: BTreeSet<CallId> = not_read.filter_map(|key| id_of(&key)).collect();
        let items = answer.responses.into_iter().flatten().flat_map(|(_, items)| items);
        let mut items: HashMap<CallId, Item> = items.filter_map(|item| Some((id_of(&item)?, item))).collect();
        let read = ids.iter().filter(|id| !not_read.contains(**id));
        let found = read.filter_map(|id| Some(((*id).clone(), found(id, items.remove(*id)).ok()?)));
        Ok(found.collect())
    }

    /// Reads the call that an id leads to. An alias costs a second read.
    ///
    /// # Errors
    /// The same as [`Calls::get_call`].
    pub async fn resolve(&self, call_id: &CallId) -> Result<Resolved, Error> {
        self.resolve_found(self.get(call_id, true).await?, true).await
    }

    /// Does the same as [`Calls::resolve`], by eventually consistent reads.
    ///
    /// # Errors
    /// The same as [`Calls::get_call`].
    pub async fn resolve_eventual(&self, call_id: &CallId) -> Result<Resolved, Error> {
        self.resolve_found(self.get(call_id, false).await?, false).await
    }

    /// Writes the call of a transition, if the row still has the version that the transition started from.
    ///
    /// # Errors
    /// [`Error::WriteCall`], [`Error::EncodeCall`].
    pub async fn store(&self, transition: &Transition) -> Result<StoreOutcome, Error> {
        let Transition { call, new_announcements } = transition;
        let row = CallRow::encode(call, *new_announcements, self.retention, self.index_numbers, &self.shards);
        let item: Item = serde_dynamo::to_item(row).map_err(|error| Error::EncodeCall(Box::new(error)))?;
        outcome(ConditionalWrite::from_result(self.put(item, call.version - 1).send().await))
    }

    /// Sets the time at which a call wakes up, and stores its moves and since when its provider gave no answer. Changes no state and leaves
    /// `outbox_start` as it is, so that the relay publishes nothing.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn set_wake_at(&self, call: &Call, wake_at: Timestamp) -> Result<StoreOutcome, Error> {
        let queue = wake_key(&call.waking_at(wake_at), &self.shards);
        let mut update = "SET version = :next, wake_key = :queue, wake_at = :at".to_owned();
        let mut request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", text(call.call_id.as_str()))
            .condition_expression("version = :read")
            .expression_attribute_values(":read", version(call.version))
            .expression_attribute_values(":next", version(call.version + 1))
            .expression_attribute_values(":queue", text(&queue))
            .expression_attribute_values(":at", number(wake_at.as_millis()));
        if !call.moves.is_empty() {
            let moves = call.moves.iter().map(|one| text(&encode_move(one))).collect();
            update += ", moves = :moves";
            request = request.expression_attribute_values(":moves", AttributeValue::L(moves));
        }
        if let Some(since) = call.unanswered_since {
            update += ", unanswered_since = :since";
            request = request.expression_attribute_values(":since", number(since.as_millis()));
        }
        outcome(ConditionalWrite::from_result(request.update_expression(update).send().await))
    }

    /// Writes an alias under `from`, a provider's id of an attempt. A call may be stored there already, because its
    /// first event came without our ids. That call becomes the alias, and its events are orphaned. Until they are adopted, the alias wakes
    /// the reconciler, so that an adoption that stops half-way is finished.
    ///
    /// **A call never becomes an alias of itself, a call that Switchhook placed never becomes an alias, and an alias never leads to
    /// another attempt than before.** In these cases nothing is written. The id of a call leads to that call without an alias.
    ///
    /// **An alias is kept for as long as the inbox holds an event that needs it.** Otherwise `verify` would take the call that the event
    /// names for a lost one, and repair it. So it is kept for 30 days, in which the last event arrives, and then for the retention of the inbox.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn write_alias(
        &self,
        from: &CallId,
        alias: &Alias,
        inbox_retention: Duration,
        now: Timestamp,
    ) -> Result<AliasOutcome, Error> {
        let leads = |orphaned_events| AliasOutcome::Leads { orphaned_events };
        if *from == alias.call_id {
            return Ok(leads(BTreeSet::new()));
        }
        let end = expires_at(now.plus(ALIAS_USE_MAX), inbox_retention);
        let request = self.alias_update(from, alias, end, NO_CALL_AND_NO_OTHER_ALIAS);
        if ConditionalWrite::from_result(request.send().await).map_err(Error::WriteCall)?.is_applied() {
            return Ok(leads(BTreeSet::new()));
        }
        let wake_key = WakeQueue::Claims.key(self.shards.shard_of(from.as_str(), now));
        let request = self
            .alias_update(from, alias, end, NO_PLACED_CALL_AND_NO_OTHER_ALIAS)
            .update_expression(format!("{SET_ALIAS}, wake_key = :queue, wake_at = :wake"))
            .expression_attribute_values(":queue", text(&wake_key))
            .expression_attribute_values(":wake", number(now.plus(ADOPTION_MAX).as_millis()))
            .return_values(ReturnValue::AllOld);
        let item = match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteCall)? {
            ConditionalWrite::Applied(output) => output.attributes,
            // Another attempt has this id.
            ConditionalWrite::Refused(_) => return Ok(AliasOutcome::Refused),
        };
        let Some(item) = item else { return Ok(leads(BTreeSet::new())) };
        let call = CallRow::parse(item.into())?.decode()?;
        Ok(leads(call.history.into_iter().map(|entry| entry.source_event_id).collect()))
    }

    /// Ends the adoption of the events of a call that became an alias: the alias no longer wakes the reconciler.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn finish_adoption(&self, from: &CallId) -> Result<(), Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", text(from.as_str()))
            .condition_expression("attribute_exists(alias_of)")
            .update_expression("SET version = version + :one REMOVE wake_key, wake_at")
            .expression_attribute_values(":one", version(1));
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteCall)
    }

    /// Deletes the row of a call without a trace, for a call that an operator's check made. A row that does not exist is no
    /// error.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn remove(&self, call_id: &CallId) -> Result<(), Error> {
        let request = self.client.delete_item().table_name(&self.table).key("call_id", text(call_id.as_str()));
        request.send().await.map_err(|error| Error::WriteCall(Box::new(error)))?;
        Ok(())
    }

    /// `end` is the time at which DynamoDB may remove the alias, in Unix seconds.
    fn alias_update(&self, from: &CallId, alias: &Alias, end: i64, condition: &str) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key("call_id", text(from.as_str()))
            .condition_expression(condition)
            .update_expression(SET_ALIAS)
            .expression_attribute_names("#plan", "plan")
            .expression_attribute_values(":none", version(0))
            .expression_attribute_values(":one", version(1))
            .expression_attribute_values(":call", text(alias.call_id.as_str()))
            .expression_attribute_values(":attempt", text(alias.attempt.as_str()))
            .expression_attribute_values(":end", number(end))
    }

    /// Reads the item under an id, by one strongly consistent read.
    ///
    /// # Errors
    /// The same as [`Calls::get_call`].
    pub async fn find(&self, call_id: &CallId) -> Result<Found, Error> {
        self.get(call_id, true).await
    }

    /// Returns the call that the item under an id leads to. An alias costs another read, strongly consistent or not.
    ///
    /// # Errors
    /// The same as [`Calls::get_call`].
    pub async fn resolve_found(&self, found: Found, consistent: bool) -> Result<Resolved, Error> {
        let alias = match found {
            Found::Call(call) => return Ok(Resolved { call: Some(*call), alias: None }),
            Found::Nothing => return Ok(Resolved { call: None, alias: None }),
            Found::Alias(alias) => alias,
        };
        // An alias leads to a call, never to another alias.
        let call = match self.get(&alias.call_id, consistent).await? {
            Found::Call(call) => Some(*call),
            Found::Alias(_) | Found::Nothing => None,
        };
        Ok(Resolved { call, alias: Some(alias) })
    }

    /// Request that writes an item, if its row still has the version `read`. 0 stands for no row.
    pub(super) fn put(&self, item: Item, read: u64) -> PutItemFluentBuilder {
        let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
        if read == 0 {
            request.condition_expression("attribute_not_exists(call_id)")
        } else {
            request.condition_expression("version = :read").expression_attribute_values(":read", version(read))
        }
    }

    pub(super) async fn get(&self, call_id: &CallId, consistent: bool) -> Result<Found, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", text(call_id.as_str()))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(|error| Error::ReadCall(Box::new(error)))?;
        found(call_id, answer.item)
    }
}

/// Returns the call or alias of an item. Not every item of the table is a call or an alias.
fn found(id: &CallId, item: Option<Item>) -> Result<Found, Error> {
    let Some(item) = item else { return Ok(Found::Nothing) };
    if let (Some(AttributeValue::S(of)), Some(AttributeValue::S(attempt))) =
        (item.get("alias_of"), item.get("alias_attempt"))
    {
        return Ok(Found::Alias(Alias { call_id: CallId::new(of), attempt: AttemptKey::new(attempt) }));
    }
    let others = [DO_NOT_CALL_PREFIX, ENTITY_PREFIX, PROVIDER_HEALTH_PREFIX];
    if others.iter().any(|prefix| id.as_str().starts_with(prefix)) {
        return Ok(Found::Nothing);
    }
    CallRow::parse(item.into())?.decode().map(|call| Found::Call(Box::new(call)))
}

fn outcome<T>(write: Result<ConditionalWrite<T>, crate::error::Source>) -> Result<StoreOutcome, Error> {
    let write = write.map_err(Error::WriteCall)?;
    Ok(if write.is_applied() { StoreOutcome::Committed } else { StoreOutcome::LostRace })
}

pub(super) fn version(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
