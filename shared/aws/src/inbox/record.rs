//! Records of calls that Switchhook places: the request that created a call, its dials, and its cancellation.
//!
//! **The inbox holds them so that the row of a call can be rebuilt, and so that a forgotten dial is not repeated.** The creation is
//! stored like a recorded event, before the row, under an id made of the call's id. So the index of received events finds it,
//! and no fold takes it. The dials of a call share one companion item, with an attribute for each attempt.
//!
//! A dial is recorded on the condition that no dial of its attempt is recorded, and that nobody has canceled or stopped the call. The
//! database decides, whatever the row of the call says.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use switchhook_domain::{
    AttemptKey, CallCreation, CallId, DIALS_RETENTION_MIN, DialRecord, DialRecords, Disposition, EventId, Origin,
    StopReason, Timestamp,
};

use super::event::{PutOutcome, StoredEvent};
use super::item::dials_key;
use super::new_event::NewEvent;
use super::table::Inbox;
use crate::dynamodb::{ConditionalWrite, Item, KEY_BYTES_MAX, expires_at, number, text};
use crate::error::Error;

/// Type of the recorded event that holds the request which created a call.
const CREATION_TYPE: &str = "call_created";
/// End of the id of such an event.
const CREATION_SUFFIX: &str = "/created";
/// Prefix of the attribute that holds the dial of an attempt.
const DIAL_PREFIX: &str = "dial_";
const CANCELED_BECAUSE: &str = "canceled_because";
/// Value of an update expression: the recorded reason, or the new one if there is none.
const RECORDED_REASON: &str = "if_not_exists(canceled_because, :reason)";

/// Outcome of recording a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreationOutcome {
    Stored,
    /// A call with this id was created before, by this request.
    Exists(Box<CallCreation>),
    /// A call with this id was created before, and its person was forgotten.
    Erased,
}

/// Outcome of recording a dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialRecordOutcome {
    Recorded,
    /// The attempt was dialled before, or the call is canceled or stopped. These are the records of the call.
    Refused(DialRecords),
}

/// Returns the id of the recorded event that holds the request which created a call.
#[must_use]
pub fn creation_id(call_id: &CallId) -> EventId {
    EventId::new(format!("{}:{call_id}{CREATION_SUFFIX}", Origin::Switchhook.as_str()))
}

impl Inbox {
    /// Records the request that creates a call, if none is recorded under the id of the call.
    ///
    /// # Errors
    /// [`Error::WriteInbox`], [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn put_creation(&self, creation: &CallCreation, trace_id: &str) -> Result<CreationOutcome, Error> {
        let body = serde_json::to_vec(creation).map_err(|error| Error::WriteInbox(Box::new(error)))?;
        let event = creation_event(&creation.call.call_id, creation.created_at, body, trace_id);
        // A call may wait for months until it is due.
        match self.put_kept_from(&event, creation.kept_from()).await? {
            PutOutcome::Stored => Ok(CreationOutcome::Stored),
            PutOutcome::Duplicate { stored, .. } if stored.erased_at.is_some() => Ok(CreationOutcome::Erased),
            PutOutcome::Duplicate { stored, .. } => {
                Ok(CreationOutcome::Exists(Box::new(self.decode_creation(&stored).await?)))
            }
        }
    }

    /// Records that a request created a call, and that the person of the call was forgotten. A record of the request loses the person.
    ///
    /// # Errors
    /// [`Error::WriteInbox`], [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`]. A repetition is safe.
    pub async fn put_erased_creation(
        &self,
        call_id: &CallId,
        created_at: Timestamp,
        kept_from: Timestamp,
        forgotten_at: Timestamp,
    ) -> Result<(), Error> {
        let event = creation_event(call_id, created_at, Vec::new(), "");
        match self.put_kept_from(&event, created_at.max(kept_from)).await? {
            PutOutcome::Stored | PutOutcome::Duplicate { .. } => {}
        }
        self.erase(&event.event_id, forgotten_at).await.map(drop)
    }

    /// Reads the request that created a call. `None` if none is recorded: another system placed the call, the record expired, or
    /// the person was forgotten.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn creation(&self, call_id: &CallId) -> Result<Option<CallCreation>, Error> {
        let event_id = creation_id(call_id);
        // A user may ask for any id. No call was created under one whose record would have a longer key than DynamoDB accepts.
        if event_id.as_str().len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        match self.get(&event_id).await? {
            Some(stored) if stored.erased_at.is_none() => self.decode_creation(&stored).await.map(Some),
            Some(_) | None => Ok(None),
        }
    }

    async fn decode_creation(&self, stored: &StoredEvent) -> Result<CallCreation, Error> {
        let body = self.read_body(stored).await?;
        serde_json::from_slice(&body).map_err(|_| Error::DecodeInbox("the creation of a call"))
    }

    /// Records a dial, unless a dial of the same attempt is recorded or the call is canceled or stopped. **Only who gets
    /// [`DialRecordOutcome::Recorded`] may ask the provider.**
    ///
    /// The records of the dials are [kept](DIALS_RETENTION_MIN) from now, or from `kept_from` if that is later. So they are kept as long as the
    /// record of the request, also if the call is dialled before it is due.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. The dial may be recorded then.
    pub async fn record_dial(
        &self,
        call_id: &CallId,
        dial: &DialRecord,
        kept_from: Timestamp,
        now: Timestamp,
    ) -> Result<DialRecordOutcome, Error> {
        let request = self
            .update_dials(call_id)
            .condition_expression("attribute_not_exists(#dial) AND attribute_not_exists(canceled_at)")
            .update_expression("SET #dial = :dial, expires_at = :end")
            .expression_attribute_names("#dial", attribute_of(&dial.attempt))
            .expression_attribute_values(":dial", text(&encode_dial(dial)))
            .expression_attribute_values(":end", number(self.dials_expire_at(kept_from.max(now))))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)? {
            ConditionalWrite::Applied(_) => Ok(DialRecordOutcome::Recorded),
            ConditionalWrite::Refused(item) => {
                let records = decode_records(&item.unwrap_or_default());
                // The response to this write may have been lost, and the SDK has repeated the request.
                let is_own = records.dial_of(&dial.attempt).is_some_and(|known| known.dial_key == dial.dial_key);
                Ok(if is_own { DialRecordOutcome::Recorded } else { DialRecordOutcome::Refused(records) })
            }
        }
    }

    /// Deletes the record of a dial that the provider did not make, so that the attempt can be dialled. Does nothing if another
    /// dial of the attempt is recorded.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn delete_dial(&self, call_id: &CallId, dial: &DialRecord) -> Result<(), Error> {
        let request = self
            .update_dials(call_id)
            .condition_expression("#dial = :dial")
            .update_expression("REMOVE #dial")
            .expression_attribute_names("#dial", attribute_of(&dial.attempt))
            .expression_attribute_values(":dial", text(&encode_dial(dial)));
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }

    /// Records that a call was canceled or stopped, for this reason. The time of an earlier record stays. So does its reason, if the booking of
    /// the call changed now: that is the only reason that can be [lifted](Inbox::lift_cancellation). A stop because the dials are unknown does
    /// not replace the reason that the user canceled the call.
    ///
    /// The record is [kept](DIALS_RETENTION_MIN) from now, or from `kept_from` if that is later. Until then, a row that is restored to a time
    /// before the cancellation could become due.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub async fn record_cancellation(
        &self,
        call_id: &CallId,
        reason: StopReason,
        kept_from: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let kept_from = kept_from.map_or(now, |kept_from| kept_from.max(now));
        let update = |because: &str| {
            self.update_dials(call_id)
                .update_expression(format!(
                    "SET canceled_at = if_not_exists(canceled_at, :now), canceled_because = {because}, expires_at = :end"
                ))
                .expression_attribute_values(":now", number(now.as_millis()))
                .expression_attribute_values(":reason", text(reason.as_str()))
                .expression_attribute_values(":end", number(self.dials_expire_at(kept_from)))
        };
        if reason == StopReason::DialsUnknown {
            let request = update(":reason")
                .condition_expression("attribute_not_exists(canceled_because) OR canceled_because <> :user")
                .expression_attribute_values(":user", text(StopReason::CanceledByUser.as_str()));
            if ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?.is_applied() {
                return Ok(());
            }
        }
        let is_kept = matches!(reason, StopReason::BookingChanged | StopReason::DialsUnknown);
        let request = update(if is_kept { RECORDED_REASON } else { ":reason" });
        request.send().await.map(drop).map_err(|error| Error::WriteInbox(Box::new(error)))
    }

    /// Deletes the record that a call was canceled, if its reason is that its booking changed. So the call can be dialled again.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub async fn lift_cancellation(&self, call_id: &CallId) -> Result<(), Error> {
        let request = self
            .update_dials(call_id)
            .condition_expression("canceled_because = :reason")
            .update_expression("REMOVE canceled_at, canceled_because")
            .expression_attribute_values(":reason", text(StopReason::BookingChanged.as_str()));
        ConditionalWrite::from_result(request.send().await).map(drop).map_err(Error::WriteInbox)
    }

    /// Reads the records of the dials of a call.
    ///
    /// # Errors
    /// [`Error::ReadInbox`].
    pub async fn dial_records(&self, call_id: &CallId) -> Result<DialRecords, Error> {
        Ok(self.get_item(&dials_key(call_id)).await?.map(|item| decode_records(&item)).unwrap_or_default())
    }

    /// Time after which DynamoDB may remove the records of dials that are kept from this time, in Unix seconds.
    fn dials_expire_at(&self, kept_from: Timestamp) -> i64 {
        expires_at(kept_from, self.retention().max(DIALS_RETENTION_MIN))
    }

    fn update_dials(&self, call_id: &CallId) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.table).key("event_id", text(&dials_key(call_id)))
    }
}

fn creation_event(call_id: &CallId, created_at: Timestamp, body: Vec<u8>, trace_id: &str) -> NewEvent {
    NewEvent {
        event_id: creation_id(call_id),
        call_id: Some(call_id.clone()),
        origin: Origin::Switchhook,
        event_type: CREATION_TYPE.to_owned(),
        occurred_at: None,
        received_at: created_at,
        query: String::new(),
        body,
        key_index: 0,
        headers: BTreeMap::new(),
        disposition: Some(Disposition::Recorded),
        reading: None,
        decision: None,
        cause: None,
        trace_id: trace_id.to_owned(),
    }
}

fn attribute_of(attempt: &AttemptKey) -> String {
    format!("{DIAL_PREFIX}{attempt}")
}

/// Text of a dial: `{provider} {time in Unix milliseconds} {dial key}`.
fn encode_dial(dial: &DialRecord) -> String {
    format!("{} {} {}", dial.provider, dial.dialled_at.as_millis(), dial.dial_key)
}

/// Reads the text of a dial. `None` if the text is malformed.
fn decode_dial(attempt: &str, dial: &str) -> Option<DialRecord> {
    let mut parts = dial.splitn(3, ' ');
    Some(DialRecord {
        attempt: AttemptKey::new(attempt),
        provider: parts.next()?.parse().ok()?,
        dialled_at: Timestamp::from_millis(parts.next()?.parse().ok()?),
        dial_key: parts.next()?.to_owned(),
    })
}

fn decode_records(item: &Item) -> DialRecords {
    let dial =
        |(name, value): (&String, &AttributeValue)| decode_dial(name.strip_prefix(DIAL_PREFIX)?, value.as_s().ok()?);
    let mut dials: Vec<DialRecord> = item.iter().filter_map(dial).collect();
    dials.sort_by_key(|dial| (dial.attempt.as_str().parse::<u32>().unwrap_or(u32::MAX), dial.dialled_at));
    let because = item.get(CANCELED_BECAUSE).and_then(|reason| reason.as_s().ok());
    let canceled = StopReason::ALL.into_iter().find(|reason| because.is_some_and(|because| because == reason.as_str()));
    DialRecords { dials, canceled }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Provider;

    use super::*;

    #[test]
    fn dials_of_a_call_read_back_in_the_order_of_their_numbers() {
        let dial = |attempt: u32| DialRecord {
            attempt: AttemptKey::new(attempt.to_string()),
            provider: Provider::Twilio,
            dialled_at: Timestamp::from_millis(1_767_225_600_000),
            dial_key: "0a 1b".to_owned(),
        };
        let dials: Vec<DialRecord> = (1..=11).map(dial).collect();
        let mut item: Item = dials.iter().map(|dial| (attribute_of(&dial.attempt), text(&encode_dial(dial)))).collect();
        item.insert("event_id".to_owned(), text("dials:call-1"));
        assert_eq!(decode_records(&item), DialRecords { dials: dials.clone(), canceled: None });
        for reason in [StopReason::CanceledByUser, StopReason::BookingChanged, StopReason::DialsUnknown] {
            item.insert(CANCELED_BECAUSE.to_owned(), text(reason.as_str()));
            assert_eq!(decode_records(&item), DialRecords { dials: dials.clone(), canceled: Some(reason) });
        }
    }
}
