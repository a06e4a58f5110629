//! The calls table: one row per call.
//!
//! **A call's state is written by [`Calls::store`] alone, on the condition of the version that was read**, so a lost race is
//! seen and never overwrites. One write carries dedupe, state, job and what to announce together: `outbox_start` names the first
//! announcement that this very write added to the log, and the relay publishes from there. Two writes more touch a call's row,
//! change no state and raise its version, so that whoever read it before loses the race: [`Calls::set_wake_at`], on the same
//! condition, and [`Calls::write_alias`], which makes an alias of a call that nobody placed, whatever its version, and on the
//! condition that Switchhook did not place it.
//!
//! Beside the calls the table holds, under keys of their own: aliases, which lead from what a provider calls an attempt to the
//! call that it belongs to, and the numbers that may not be called.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hasher;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use serde::{Deserialize, Serialize};
use switchhook_domain::{
    Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, AttemptKey, AttemptRecord, Call, CallEvent,
    CallId, Direction, Disposition, EventId, EventKind, HistoryEntry, INCONCLUSIVE, Job, Lifecycle, ManualTrigger,
    NOT_PLACED, PhoneNumber, Plan, Provider, State, StopReason, Timestamp, Transition,
};
use switchhook_providers::DO_NOT_CALL_PREFIX;

use crate::error::Error;

/// Of a row. A row of a later version is left to the later program.
pub const CALL_SCHEMA: u32 = 1;
/// Index by which calls wake up and are listed: `wake_key` and `wake_at`, keys only.
pub const BY_WAKE: &str = "by_wake";
/// Index of the calls of an appointment: `appointment_id`, keys only.
pub const BY_APPOINTMENT: &str = "by_appointment";
/// The longest that an alias is followed: longer than any call lives, and than any webhook is late.
const ALIAS_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Partitions of `by_wake` per kind of work: each takes 1,000 writes a second.
pub const WAKE_SHARDS: u64 = 4;

/// What is stored of a call. Serialised by its field names, which are the attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    pub call_id: CallId,
    schema_version: u32,
    pub version: u64,
    provider: Provider,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    appointment_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    triggered: Option<ManualTrigger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<StopReason>,
    #[serde(default, skip_serializing_if = "is_zero")]
    refusals: u32,
    job: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ends_at: Option<Timestamp>,
    /// In the order in which the attempts were first heard of.
    slots: Vec<SlotRow>,
    /// See [`encode_entry`].
    history: Vec<String>,
    /// See [`encode_announcement`].
    log: Vec<String>,
    /// Sequence of the first announcement that the last write of the state added; none if it added none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox_start: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Unix seconds: DynamoDB removes the row some time after.
    expires_at: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SlotRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<AttemptKey>,
    /// Left out where it is the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dial_key: Option<String>,
}

const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Where in `by_wake` a call stands: with others that the same worker looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeQueue {
    /// Waits to be placed by this provider: for the scheduler. By when it is due.
    Dial(Provider),
    /// Waits for an ending, or for a claim to be used: for the reconciler. By when it wakes.
    Reconcile,
    /// Waits for nothing: for the drift run and for lists. By since when.
    Settled,
}

impl WakeQueue {
    pub const ALL: [Self; 7] = [
        Self::Dial(Provider::Retell),
        Self::Dial(Provider::Twilio),
        Self::Dial(Provider::Vapi),
        Self::Dial(Provider::Telnyx),
        Self::Dial(Provider::Generic),
        Self::Reconcile,
        Self::Settled,
    ];

    fn of(call: &Call) -> Self {
        if call.wake_at.is_none() {
            Self::Settled
        } else if call.is_pending() {
            Self::Dial(call.provider)
        } else {
            Self::Reconcile
        }
    }
}

/// The name in `wake_key`. A slow provider's calls starve nobody else's.
impl fmt::Display for WakeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(provider) => write!(f, "dial.{provider}"),
            Self::Reconcile => f.write_str("reconcile"),
            Self::Settled => f.write_str("settled"),
        }
    }
}

/// Which part of a queue is asked for.
#[derive(Clone, Copy, Debug)]
pub enum TimeRange {
    /// Everything up to then, the earliest first.
    UpTo(Timestamp),
    /// Everything since then, the latest first.
    Since(Timestamp),
}

/// What stands under a key of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Call(Box<Call>),
    /// What a provider calls an attempt of another call.
    Alias(Alias),
    Nothing,
}

/// Leads from what a provider calls an attempt to the attempt.
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

/// The end of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StoreOutcome {
    Committed,
    /// Another writer came first: read again.
    LostRace,
}

/// The calls table.
#[derive(Clone, Debug)]
pub struct Calls {
    client: Client,
    table: String,
}

impl Calls {
    #[must_use]
    pub const fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Opens the connection, so that the first event does not wait for it.
    pub async fn warm_up(&self) {
        drop(self.get_call(&CallId::new("warm")).await);
    }

    /// Reads the latest state of a call. One read of its row's size.
    ///
    /// # Errors
    /// [`Error::ReadCall`], [`Error::DecodeCall`], [`Error::NewerSchema`].
    pub async fn get_call(&self, call_id: &CallId) -> Result<Option<Call>, Error> {
        Ok(match self.get(call_id).await? {
            Found::Call(call) => Some(*call),
            Found::Alias(_) | Found::Nothing => None,
        })
    }

    /// As [`Calls::get`], of what may be some hundred milliseconds old, at half the price.
    ///
    /// # Errors
    /// As [`Calls::get_call`].
    pub async fn get_eventual(&self, call_id: &CallId) -> Result<Found, Error> {
        self.get_row(call_id, false).await
    }

    /// What stands under an id: a call, or the alias of one.
    ///
    /// # Errors
    /// As [`Calls::get_call`].
    pub async fn get(&self, call_id: &CallId) -> Result<Found, Error> {
        self.get_row(call_id, true).await
    }

    /// Returns the call that an id leads to. An alias costs a second read.
    ///
    /// # Errors
    /// As [`Calls::get_call`].
    pub async fn resolve(&self, call_id: &CallId) -> Result<Resolved, Error> {
        self.follow(call_id, true).await
    }

    /// Does the same as [`Calls::resolve`] with eventually consistent reads.
    ///
    /// # Errors
    /// As [`Calls::get_call`].
    pub async fn resolve_eventual(&self, call_id: &CallId) -> Result<Resolved, Error> {
        self.follow(call_id, false).await
    }

    async fn follow(&self, call_id: &CallId, consistent: bool) -> Result<Resolved, Error> {
        let alias = match self.get_row(call_id, consistent).await? {
            Found::Call(call) => return Ok(Resolved { call: Some(*call), alias: None }),
            Found::Nothing => return Ok(Resolved { call: None, alias: None }),
            Found::Alias(alias) => alias,
        };
        // An alias leads to a call, never to another alias.
        let call = match self.get_row(&alias.call_id, consistent).await? {
            Found::Call(call) => Some(*call),
            Found::Alias(_) | Found::Nothing => None,
        };
        Ok(Resolved { call, alias: Some(alias) })
    }

    /// Leads from what the provider calls an attempt to the attempt. If a call stands under that key already, its first event
    /// having come without our ids, it stays and leads there from now on; the ids of its events are returned, to be
    /// [adopted](crate::inbox::adopt).
    ///
    /// **No call becomes an alias of itself, and none that Switchhook placed becomes one at all**: then nothing is written, and
    /// there is nothing to adopt.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn write_alias(&self, from: &CallId, alias: &Alias, now: Timestamp) -> Result<BTreeSet<EventId>, Error> {
        if *from == alias.call_id {
            return Ok(BTreeSet::new());
        }
        let expires_at = now.plus(ALIAS_RETENTION).as_millis() / 1_000;
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", AttributeValue::S(from.to_string()))
            .condition_expression("attribute_not_exists(#plan)")
            .update_expression(
                "SET alias_of = :call, alias_attempt = :attempt, version = if_not_exists(version, :none) + :one, \
                 expires_at = if_not_exists(expires_at, :end) REMOVE wake_key, wake_at",
            )
            .expression_attribute_names("#plan", "plan")
            .expression_attribute_values(":none", number(0))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":call", AttributeValue::S(alias.call_id.to_string()))
            .expression_attribute_values(":attempt", AttributeValue::S(alias.attempt.to_string()))
            .expression_attribute_values(":end", AttributeValue::N(expires_at.to_string()))
            .return_values(ReturnValue::AllOld);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(Error::WriteCall(Box::new(error))),
        };
        let Some(item) = answer.attributes.filter(|item| item.contains_key("history")) else {
            return Ok(BTreeSet::new());
        };
        let call = CallRow::parse(item.into())?.decode()?;
        Ok(call.history.into_iter().map(|entry| entry.source_event_id).collect())
    }

    /// True if the number may not be called.
    ///
    /// # Errors
    /// [`Error::ReadCall`].
    pub async fn is_on_do_not_call_list(&self, number: &PhoneNumber) -> Result<bool, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", do_not_call_key(number))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| Error::ReadCall(Box::new(error)))?;
        Ok(answer.item.is_some())
    }

    /// Puts a number on the do-not-call list, or takes it off.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn set_do_not_call(&self, number: &PhoneNumber, listed: bool) -> Result<(), Error> {
        let key = do_not_call_key(number);
        if listed {
            let request = self.client.put_item().table_name(&self.table).item("call_id", key);
            request.send().await.map_err(|error| Error::WriteCall(Box::new(error)))?;
        } else {
            let request = self.client.delete_item().table_name(&self.table).key("call_id", key);
            request.send().await.map_err(|error| Error::WriteCall(Box::new(error)))?;
        }
        Ok(())
    }

    /// The calls of an appointment, at most `limit`.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn calls_of_appointment(&self, appointment_id: &str, limit: i32) -> Result<Vec<CallId>, Error> {
        let page = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_APPOINTMENT)
            .key_condition_expression("appointment_id = :id")
            .expression_attribute_values(":id", AttributeValue::S(appointment_id.to_owned()))
            .limit(limit)
            .send()
            .await
            .map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok(call_ids(page.items))
    }

    /// Writes what a fold or a worker made of a call, if the row still has the version that it started from. The row is kept for
    /// `retention`.
    ///
    /// # Errors
    /// [`Error::WriteCall`], [`Error::EncodeCall`].
    pub async fn store(&self, transition: &Transition, retention: Duration) -> Result<StoreOutcome, Error> {
        let Transition { call, new_announcements } = transition;
        let row = CallRow::encode(call, *new_announcements, retention);
        let item: HashMap<String, AttributeValue> =
            serde_dynamo::to_item(row).map_err(|error| Error::EncodeCall(Box::new(error)))?;
        let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let request = if call.version == 1 {
            request.condition_expression("attribute_not_exists(call_id)")
        } else {
            request
                .condition_expression("version = :read")
                .expression_attribute_values(":read", number(call.version - 1))
        };
        match request.send().await {
            Ok(_) => Ok(StoreOutcome::Committed),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                Ok(StoreOutcome::LostRace)
            }
            Err(error) => Err(Error::WriteCall(Box::new(error))),
        }
    }

    /// Moves on when a call wakes up. It changes no state and leaves `outbox_start` as it is, by which the relay knows it.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn set_wake_at(&self, call: &Call, wake_at: Timestamp) -> Result<StoreOutcome, Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", AttributeValue::S(call.call_id.to_string()))
            .condition_expression("version = :read")
            .update_expression("SET version = :next, wake_at = :at")
            .expression_attribute_values(":read", number(call.version))
            .expression_attribute_values(":next", number(call.version + 1))
            .expression_attribute_values(":at", AttributeValue::N(wake_at.as_millis().to_string()));
        match request.send().await {
            Ok(_) => Ok(StoreOutcome::Committed),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()) => {
                Ok(StoreOutcome::LostRace)
            }
            Err(error) => Err(Error::WriteCall(Box::new(error))),
        }
    }

    /// One page of one shard of a queue, and where the next page starts.
    ///
    /// # Errors
    /// [`Error::ListCalls`].
    pub async fn wake_queue_page(
        &self,
        queue: WakeQueue,
        shard: u64,
        range: TimeRange,
        limit: Option<i32>,
        start: Option<Item>,
    ) -> Result<(Vec<CallId>, Option<Item>), Error> {
        let (condition, time, forward) = match range {
            TimeRange::UpTo(time) => ("wake_key = :key AND wake_at <= :time", time, true),
            TimeRange::Since(time) => ("wake_key = :key AND wake_at >= :time", time, false),
        };
        let page = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(BY_WAKE)
            .key_condition_expression(condition)
            .expression_attribute_values(":key", AttributeValue::S(format!("{queue}#{shard}")))
            .expression_attribute_values(":time", AttributeValue::N(time.as_millis().to_string()))
            .scan_index_forward(forward)
            .set_limit(limit)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|error| Error::ListCalls(Box::new(error)))?;
        Ok((call_ids(page.items), page.last_evaluated_key))
    }

    async fn get_row(&self, call_id: &CallId, consistent: bool) -> Result<Found, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", AttributeValue::S(call_id.to_string()))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(|error| Error::ReadCall(Box::new(error)))?;
        let Some(item) = answer.item else { return Ok(Found::Nothing) };
        if let (Some(AttributeValue::S(of)), Some(AttributeValue::S(attempt))) =
            (item.get("alias_of"), item.get("alias_attempt"))
        {
            return Ok(Found::Alias(Alias { call_id: CallId::new(of), attempt: AttemptKey::new(attempt) }));
        }
        // A number on the do-not-call list is no call.
        if !item.contains_key("schema_version") && item.len() == 1 {
            return Ok(Found::Nothing);
        }
        CallRow::parse(item.into())?.decode().map(|call| Found::Call(Box::new(call)))
    }
}

fn call_ids(items: Option<Vec<Item>>) -> Vec<CallId> {
    let ids = items.unwrap_or_default().into_iter().filter_map(|mut item| match item.remove("call_id") {
        Some(AttributeValue::S(id)) => Some(CallId::new(id)),
        _ => None,
    });
    ids.collect()
}

fn do_not_call_key(number: &PhoneNumber) -> AttributeValue {
    AttributeValue::S(format!("{DO_NOT_CALL_PREFIX}{}", number.as_str()))
}

/// What DynamoDB takes as a key: it refuses to look for a longer one. No id of ours comes near it.
pub const KEY_BYTES_MAX: usize = 2_048;

/// Where a page of a query starts.
pub type Item = HashMap<String, AttributeValue>;

impl CallRow {
    /// Reads a row, from the table or from its stream.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], [`Error::DecodeCall`].
    pub fn parse(item: serde_dynamo::Item) -> Result<Self, Error> {
        match item.get("schema_version") {
            Some(serde_dynamo::AttributeValue::N(text)) if text.parse().is_ok_and(|v: u32| v > CALL_SCHEMA) => {
                return Err(Error::NewerSchema(text.parse().unwrap_or(u32::MAX)));
            }
            _ => {}
        }
        // What serde says of a wrong attribute may quote its value, which may be a phone number.
        serde_dynamo::from_item(item).map_err(|_| Error::DecodeCall("an attribute".to_owned()))
    }

    fn encode(call: &Call, announced: usize, retention: Duration) -> Self {
        let (job, due_at, claim_token, lease_ends_at) = match &call.job {
            Job::Pending { due_at } => (&call.job, Some(*due_at), None, None),
            Job::Claimed { token, lease_ends_at } => (&call.job, None, Some(token.clone()), Some(*lease_ends_at)),
            Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => (&call.job, None, None, None),
        };
        let before = |index: usize| index.checked_sub(1).and_then(|index| call.history.get(index));
        let history = call.history.iter().enumerate().map(|(index, entry)| encode_entry(entry, before(index)));
        Self {
            call_id: call.call_id.clone(),
            schema_version: CALL_SCHEMA,
            version: call.version,
            provider: call.provider,
            direction: call.direction,
            from: call.from.clone(),
            to: call.to.clone(),
            appointment_id: call.appointment_id.clone(),
            plan: call.plan.clone(),
            not_before: call.not_before,
            triggered: call.manual_trigger,
            stopped: call.stop_reason,
            refusals: call.refusals,
            job: job.as_str().to_owned(),
            due_at,
            claim_token,
            lease_ends_at,
            slots: call.attempt_records.iter().map(SlotRow::encode).collect(),
            history: history.collect(),
            log: call.announcements.iter().map(encode_announcement).collect(),
            outbox_start: (announced > 0).then_some(call.announcements.len() + 1 - announced),
            wake_key: Some(wake_key(call)),
            wake_at: call.wake_at.or(call.settled_at),
            created_at: call.created_at,
            updated_at: call.updated_at,
            // A call that waits for its day is kept as long after it.
            expires_at: call.updated_at.max(call.wake_at.unwrap_or(call.updated_at)).plus(retention).as_millis()
                / 1_000,
        }
    }

    /// The call that the row holds.
    ///
    /// # Errors
    /// [`Error::DecodeCall`], naming what is garbled.
    pub fn decode(self) -> Result<Call, Error> {
        let garbled = |what: &str| Error::DecodeCall(what.to_owned());
        let job = match (self.job.as_str(), self.due_at, self.claim_token, self.lease_ends_at) {
            ("PENDING", Some(due_at), None, None) => Job::Pending { due_at },
            ("CLAIMED", None, Some(token), Some(lease_ends_at)) => Job::Claimed { token, lease_ends_at },
            ("IN_PROGRESS", None, None, None) => Job::InProgress,
            ("COMPLETED", None, None, None) => Job::Completed,
            ("FAILED", None, None, None) => Job::Failed,
            ("CANCELED", None, None, None) => Job::Canceled,
            (_, _, _, _) => return Err(garbled("job")),
        };
        let mut history: Vec<HistoryEntry> = Vec::with_capacity(self.history.len());
        for (index, text) in self.history.iter().enumerate() {
            let entry = decode_entry(text, history.last()).ok_or_else(|| garbled(&format!("history[{index}]")))?;
            history.push(entry);
        }
        let settled = self.wake_key.as_deref().is_none_or(|key| key.starts_with("settled#"));
        let log: Option<Vec<Announcement>> = self.log.iter().map(|text| decode_announcement(text)).collect();
        Ok(Call {
            call_id: self.call_id,
            provider: self.provider,
            direction: self.direction,
            from: self.from,
            to: self.to,
            appointment_id: self.appointment_id,
            plan: self.plan,
            job,
            not_before: self.not_before,
            manual_trigger: self.triggered,
            stop_reason: self.stopped,
            refusals: self.refusals,
            attempt_records: self.slots.into_iter().map(SlotRow::decode).collect(),
            history,
            announcements: log.ok_or_else(|| garbled("log"))?,
            wake_at: self.wake_at.filter(|_| !settled),
            settled_at: self.wake_at.filter(|_| settled),
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

impl SlotRow {
    fn encode(slot: &AttemptRecord) -> Self {
        let same = slot.key.as_ref().map(AttemptKey::as_str) == slot.provider_call_id.as_deref();
        let call = if same { None } else { Some(slot.provider_call_id.clone().unwrap_or_default()) };
        Self { key: slot.key.clone(), call, dialled_at: slot.dialled_at, dial_key: slot.dial_key.clone() }
    }

    fn decode(self) -> AttemptRecord {
        let provider_call_id = match self.call {
            None => self.key.as_ref().map(|key| key.as_str().to_owned()),
            Some(call) => Some(call).filter(|call| !call.is_empty()),
        };
        AttemptRecord { key: self.key, provider_call_id, dialled_at: self.dialled_at, dial_key: self.dial_key }
    }
}

fn wake_key(call: &Call) -> String {
    format!("{}#{}", WakeQueue::of(call), shard_of(call.call_id.as_str(), WAKE_SHARDS))
}

/// Returns every shard of `by_wake` once. Each run starts at the shard of its `turn`, so that no shard is always the last.
pub fn wake_shards_from(turn: u64) -> impl Iterator<Item = u64> {
    let first = turn % WAKE_SHARDS;
    (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS)
}

/// Which of `shards` partitions an id falls into: FNV-1a, the same in every version and on every machine.
#[must_use]
pub fn shard_of(id: &str, shards: u64) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(id.as_bytes());
    hasher.finish() % shards
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// `{slot} {kind} {occurred_at} {sequence} {received_at} {folded_at - received_at} {disposition} {source}`: `-` for none,
/// `~` before an implied kind, `!` after one that is permanent, `=` for the source and the times of the entry before, times in Unix milliseconds.
fn encode_entry(entry: &HistoryEntry, before: Option<&HistoryEntry>) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let event = &entry.event;
    let head = format!(
        "{} {}{}{} {} {}",
        or_dash(entry.attempt_index.map(|slot| slot.to_string())),
        if event.implied { "~" } else { "" },
        event.kind,
        if event.permanent { "!" } else { "" },
        or_dash(event.occurred_at.map(|at| at.as_millis().to_string())),
        or_dash(event.sequence.map(|sequence| sequence.to_string())),
    );
    let disposition = entry.disposition.as_str();
    let same = |other: &&HistoryEntry| {
        (&other.source_event_id, other.received_at, other.folded_at)
            == (&entry.source_event_id, entry.received_at, entry.folded_at)
    };
    if before.as_ref().is_some_and(same) {
        format!("{head} {disposition} =")
    } else {
        let folded = entry.folded_at.millis_since(entry.received_at);
        format!("{head} {disposition} {} {folded} {}", entry.received_at.as_millis(), entry.source_event_id)
    }
}

fn decode_entry(text: &str, before: Option<&HistoryEntry>) -> Option<HistoryEntry> {
    fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
        if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
    }
    let mut parts = text.splitn(6, ' ');
    let slot = optional(parts.next()?)?;
    let kind = parts.next()?;
    let (implied, kind) = kind.strip_prefix('~').map_or((false, kind), |kind| (true, kind));
    let (permanent, kind) = kind.strip_suffix('!').map_or((false, kind), |kind| (true, kind));
    let kind = EventKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
    let occurred_at = optional(parts.next()?)?.map(Timestamp::from_millis);
    let sequence = optional(parts.next()?)?;
    let disposition = parts.next()?;
    let disposition = Disposition::ALL.into_iter().find(|known| known.as_str() == disposition)?;
    let (received_at, folded_at, source) = match parts.next()? {
        "=" => before.map(|entry| (entry.received_at, entry.folded_at, entry.source_event_id.clone()))?,
        tail => {
            let mut tail = tail.splitn(3, ' ');
            let received_at: i64 = tail.next()?.parse().ok()?;
            let folded: i64 = tail.next()?.parse().ok()?;
            let folded_at = Timestamp::from_millis(received_at.saturating_add(folded));
            (Timestamp::from_millis(received_at), folded_at, EventId::new(tail.next()?))
        }
    };
    let event = CallEvent { kind, implied, occurred_at, sequence, permanent };
    Some(HistoryEntry { source_event_id: source, event, received_at, folded_at, attempt_index: slot, disposition })
}

/// `{call|appointment} {status}[={detail}] {slot} {attempt number} {source} {what was known: p, a}`: `-` for no slot, the source as an
/// index into the history or `@` and the time of a move.
fn encode_announcement(said: &Announcement) -> String {
    let (subject, status) = match said.kind {
        AnnouncementKind::Lifecycle(state) => ("call", lifecycle_name(state).to_owned()),
        AnnouncementKind::Inconclusive => ("call", INCONCLUSIVE.to_owned()),
        AnnouncementKind::Corrected(state, ending) => ("call", format!("corrected={}={ending}", lifecycle_name(state))),
        AnnouncementKind::RetryScheduled(due_at) => ("call", format!("retry_scheduled={}", due_at.as_millis())),
        AnnouncementKind::Exhausted => ("call", "exhausted".to_owned()),
        AnnouncementKind::CanceledByUser => ("call", "canceled_by_user".to_owned()),
        AnnouncementKind::DriftRepaired { before, after } => ("call", format!("drift_repaired={before}={after}")),
        AnnouncementKind::Appointment(status) => ("appointment", status.as_str().to_owned()),
    };
    let slot = said.attempt_index.map_or_else(|| "-".to_owned(), |slot| slot.to_string());
    let source = match said.source {
        AnnouncementSource::Event(index) => index.to_string(),
        AnnouncementSource::Transition(at) => format!("@{}", at.as_millis()),
    };
    let provider_call = if said.provider_call_known { "p" } else { "" };
    let appointment = if said.appointment_known { "a" } else { "" };
    format!("{subject} {status} {slot} {} {source} {provider_call}{appointment}", said.attempt_number)
}

fn decode_announcement(text: &str) -> Option<Announcement> {
    let mut parts = text.splitn(6, ' ');
    let subject = parts.next()?;
    let status = parts.next()?;
    let lifecycle = |name: &str| Lifecycle::ALL.iter().find(|state| lifecycle_name(**state) == name).copied();
    let shown = |name: &str| {
        let states = Lifecycle::ALL.iter().map(|state| state.label());
        states.chain([INCONCLUSIVE, NOT_PLACED]).find(|known| *known == name)
    };
    let (word, detail) = status.split_once('=').unwrap_or((status, ""));
    let news = match (subject, word) {
        ("call", INCONCLUSIVE) => AnnouncementKind::Inconclusive,
        ("call", "corrected") => {
            let (state, ending) = detail.split_once('=')?;
            AnnouncementKind::Corrected(lifecycle(state)?, ending.parse().ok()?)
        }
        ("call", "retry_scheduled") => AnnouncementKind::RetryScheduled(Timestamp::from_millis(detail.parse().ok()?)),
        ("call", "exhausted") => AnnouncementKind::Exhausted,
        ("call", "canceled_by_user") => AnnouncementKind::CanceledByUser,
        ("call", "drift_repaired") => {
            let (ours, theirs) = detail.split_once('=')?;
            AnnouncementKind::DriftRepaired { before: shown(ours)?, after: shown(theirs)? }
        }
        ("call", state) => AnnouncementKind::Lifecycle(lifecycle(state)?),
        ("appointment", _) => {
            AnnouncementKind::Appointment(AppointmentStatus::ALL.into_iter().find(|known| known.as_str() == status)?)
        }
        (_, _) => return None,
    };
    let slot = match parts.next()? {
        "-" => None,
        slot => Some(slot.parse().ok()?),
    };
    let number = parts.next()?.parse().ok()?;
    let source = parts.next()?;
    let source = match source.strip_prefix('@') {
        Some(at) => AnnouncementSource::Transition(Timestamp::from_millis(at.parse().ok()?)),
        None => AnnouncementSource::Event(source.parse().ok()?),
    };
    let known = parts.next()?;
    Some(Announcement {
        kind: news,
        attempt_index: slot,
        attempt_number: number,
        source,
        provider_call_known: known.contains('p'),
        appointment_known: known.contains('a'),
    })
}

/// One name for each state, unlike the shown ones.
const fn lifecycle_name(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::Initiated => "initiated",
        Lifecycle::Ringing => "ringing",
        Lifecycle::PresumedCompleted => "presumed_completed",
        Lifecycle::NoAnswer => "no_answer",
        Lifecycle::Canceled => "canceled",
        Lifecycle::Busy => "busy",
        Lifecycle::Failed => "failed",
        Lifecycle::InProgress => "in_progress",
        Lifecycle::BusyAfterAnswer => "busy_after_answer",
        Lifecycle::FailedAfterAnswer => "failed_after_answer",
        Lifecycle::Completed => "completed",
    }
}
