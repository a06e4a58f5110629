//! Conversion between a call and its row.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchhook_domain::{
    AttemptKey, AttemptRecord, Call, CallId, Direction, HistoryEntry, InFlight, Job, JobState, ManualTrigger,
    PhoneNumber, Plan, Provider, Refusals, StopReason, Timestamp, WakeFor,
};

use super::encoding::{
    decode_announcement, decode_entry, decode_in_flight, decode_move, encode_announcement, encode_entry,
    encode_in_flight, encode_move,
};
use super::wake_queue::{WakeQueue, wake_key};
use crate::dynamodb::{KEY_BYTES_MAX, expires_at, refuse_newer_schema};
use crate::error::Error;
use crate::shards::Shards;

/// Highest schema version of a stored call that this program reads. A row with a higher one is an error, so that only a newer program changes it.
/// `CONTRIBUTING.md` says when a row needs a higher one.
pub const CALL_SCHEMA: u32 = 1;

/// Time within which a pending call is due soon. The schedule of the scheduler finds calls that are due later.
const DUE_SOON: Duration = Duration::from_secs(60);

/// Stored call. The names of the fields are the attributes of the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    pub call_id: CallId,
    schema_version: u32,
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<PhoneNumber>,
    /// Number of the other person in canonical form, by which the index `by_party` finds the call. `None` if the index is
    /// not written, or the number is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    party: Option<PhoneNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    appointment_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manual_trigger: Option<ManualTrigger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusals: Option<Refusals>,
    job: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ends_at: Option<Timestamp>,
    /// Set by a write that leaves the call pending and due within [`DUE_SOON`]. The event source that wakes the scheduler
    /// passes on only records with this attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_soon: Option<u8>,
    /// In the order in which their first events were folded.
    attempts: Vec<AttemptRow>,
    /// See [`encode_entry`].
    history: Vec<String>,
    /// See [`encode_announcement`].
    announcements: Vec<String>,
    /// See [`encode_move`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    moves: Vec<String>,
    /// Sequence of the first announcement that the last write of the state added. `None` if that write added no
    /// announcement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox_start: Option<usize>,
    /// Place among the calls of a provider. See [`encode_in_flight`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_flight: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_key: Option<String>,
    /// Time at which the call wakes up or, in the queue of settled calls, was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unanswered_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Unix seconds. DynamoDB removes the row some time after.
    expires_at: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AttemptRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<AttemptKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<Provider>,
    /// Absent if it is the part of `key` after the first colon, which saves space. Empty if the provider's id is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_false")]
    is_watched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dial_key: Option<String>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    awaits_outcome: bool,
}

impl CallRow {
    /// Reads a row, from the table or from its stream.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], [`Error::DecodeCall`].
    pub fn parse(item: serde_dynamo::Item) -> Result<Self, Error> {
        refuse_newer_schema(&item, CALL_SCHEMA)?;
        // The text of serde's error is left out: it may quote the value, which may be a phone number.
        serde_dynamo::from_item(item).map_err(|_| Error::DecodeCall("an attribute".to_owned()))
    }

    /// Returns the row of a call. Its last `new_announcements` announcements are new, and the relay publishes them.
    pub(super) fn encode(
        call: &Call,
        new_announcements: usize,
        retention: Duration,
        index_numbers: bool,
        shards: &Shards,
    ) -> Self {
        let (due_at, claim_token, lease_ends_at) = match &call.job {
            Job::Pending { due_at } => (Some(*due_at), None, None),
            Job::Claimed { token, lease_ends_at, .. } => (None, Some(token.clone()), Some(*lease_ends_at)),
            Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => (None, None, None),
        };
        let before = |index: usize| index.checked_sub(1).and_then(|index| call.history.get(index));
        let key_of = |attempt: usize| call.attempt_records.get(attempt).and_then(|attempt| attempt.key.clone());
        let entries = call.history.iter().enumerate();
        let history = entries.map(|(index, entry)| encode_entry(entry, before(index), &call.call_id, key_of));
        let kept_from = call.wake_at.into_iter().chain(call.plan.as_ref().map(Plan::kept_from));
        Self {
            call_id: call.call_id.clone(),
            schema_version: CALL_SCHEMA,
            version: call.version,
            direction: call.direction,
            from: call.from.clone(),
            to: call.to.clone(),
            party: call.party().filter(|party| index_numbers && is_key(party.as_str())),
            appointment_id: call.appointment_id.clone(),
            plan: call.plan.clone(),
            not_before: call.not_before,
            manual_trigger: call.manual_trigger,
            stop_reason: call.stop_reason,
            refusals: call.refusals.clone(),
            job: call.job.as_str().to_owned(),
            due_at,
            due_soon: due_at.filter(|at| *at <= call.updated_at.plus(DUE_SOON)).map(|_| 1),
            claim_token,
            lease_ends_at,
            attempts: call.attempt_records.iter().map(AttemptRow::encode).collect(),
            history: history.collect(),
            announcements: call.announcements.iter().map(encode_announcement).collect(),
            moves: call.moves.iter().map(encode_move).collect(),
            outbox_start: (new_announcements > 0).then_some(call.announcements.len() + 1 - new_announcements),
            in_flight: call.in_flight.map(encode_in_flight),
            wake_key: Some(wake_key(call, shards)),
            wake_at: call.wake_at.or(call.settled_at),
            unanswered_since: call.unanswered_since,
            forgotten_at: call.forgotten_at,
            created_at: call.created_at,
            updated_at: call.updated_at,
            // The retention of a call that waits begins at its wake-up, which may be months away, or later.
            expires_at: expires_at(kept_from.fold(call.updated_at, Timestamp::max), retention),
        }
    }

    /// Returns the call that the row holds.
    ///
    /// # Errors
    /// [`Error::DecodeCall`] names the attribute that cannot be read.
    pub fn decode(self) -> Result<Call, Error> {
        let unreadable = |what: &str| Error::DecodeCall(what.to_owned());
        let in_flight = match self.in_flight.as_deref() {
            Some(text) => Some(decode_in_flight(text).ok_or_else(|| unreadable("in_flight"))?),
            None => None,
        };
        let job = match (JobState::parse(&self.job), self.due_at, self.claim_token, self.lease_ends_at) {
            (Some(JobState::Pending), Some(due_at), None, None) => Job::Pending { due_at },
            (Some(JobState::Claimed), None, Some(token), Some(lease_ends_at)) => match in_flight {
                Some(InFlight::Claimed(provider)) => Job::Claimed { token, provider, lease_ends_at },
                Some(InFlight::Dialled(_)) | None => return Err(unreadable("in_flight")),
            },
            (Some(JobState::InProgress), None, None, None) => Job::InProgress,
            (Some(JobState::Completed), None, None, None) => Job::Completed,
            (Some(JobState::Failed), None, None, None) => Job::Failed,
            (Some(JobState::Missed), None, None, None) => Job::Missed,
            (Some(JobState::Canceled), None, None, None) => Job::Canceled,
            (_, _, _, _) => return Err(unreadable("job")),
        };
        let attempt_records: Vec<AttemptRecord> = self.attempts.into_iter().map(AttemptRow::decode).collect();
        let key_of = |attempt: usize| attempt_records.get(attempt).and_then(|attempt| attempt.key.clone());
        let mut history: Vec<HistoryEntry> = Vec::with_capacity(self.history.len());
        for (index, text) in self.history.iter().enumerate() {
            let entry = decode_entry(text, history.last(), &self.call_id, key_of);
            let entry = entry.ok_or_else(|| unreadable(&format!("history[{index}]")))?;
            history.push(entry);
        }
        let is_settled = self.wake_key.as_deref().is_none_or(|key| WakeQueue::Settled.contains_key(key));
        let wake_for = self.wake_key.as_deref().map_or(WakeFor::Outcome, WakeQueue::work_of_key);
        let announcements: Option<Vec<_>> = self.announcements.iter().map(|text| decode_announcement(text)).collect();
        Ok(Call {
            call_id: self.call_id,
            direction: self.direction,
            from: self.from,
            to: self.to,
            appointment_id: self.appointment_id,
            plan: self.plan,
            job,
            not_before: self.not_before,
            manual_trigger: self.manual_trigger,
            stop_reason: self.stop_reason,
            refusals: self.refusals,
            attempt_records,
            history,
            announcements: announcements.ok_or_else(|| unreadable("announcements"))?,
            // For display only: a move that cannot be read must not keep the call from being read.
            moves: self.moves.iter().filter_map(|text| decode_move(text)).collect(),
            wake_at: self.wake_at.filter(|_| !is_settled),
            wake_for,
            unanswered_since: self.unanswered_since,
            in_flight,
            settled_at: self.wake_at.filter(|_| is_settled),
            forgotten_at: self.forgotten_at,
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

impl AttemptRow {
    fn encode(attempt: &AttemptRecord) -> Self {
        let AttemptRecord { key, provider, provider_call_id, awaits_outcome, dialled_at, is_watched, dial_key } =
            attempt.clone();
        let is_in_key = provider_call_id.as_deref() == id_in_key(key.as_ref());
        let provider_call_id = if is_in_key { None } else { Some(provider_call_id.unwrap_or_default()) };
        Self { key, provider, provider_call_id, dialled_at, is_watched, dial_key, awaits_outcome }
    }

    fn decode(self) -> AttemptRecord {
        let Self { key, provider, provider_call_id, dialled_at, is_watched, dial_key, awaits_outcome } = self;
        let provider_call_id = match provider_call_id {
            None => id_in_key(key.as_ref()).map(str::to_owned),
            Some(id) => Some(id).filter(|id| !id.is_empty()),
        };
        AttemptRecord { key, provider, provider_call_id, awaits_outcome, dialled_at, is_watched, dial_key }
    }
}

/// Returns the provider's call id in a key such as `retell:call_1`.
fn id_in_key(key: Option<&AttemptKey>) -> Option<&str> {
    key?.as_str().split_once(':').map(|(_, id)| id)
}

/// True if DynamoDB accepts the text as a key.
const fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= KEY_BYTES_MAX
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_true(flag: &bool) -> bool {
    *flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests;
