//! Rows of entities: things that webhooks are about and that are no calls.
//!
//! **Each change is one conditional write, which carries the domain events that it announces.** The row of a booking is written once
//! more when the booking's calls agree with it. An event that is stale changes
//! nothing, so it costs a read.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchhook_domain::{AnnouncedEvent, Booking, CallId, Entity, EntityPosition, EventId, Timestamp};

use super::table::{Calls, StoreOutcome};
use crate::dynamodb::{ConditionalWrite, Item, expires_at, refuse_newer_schema, text};
use crate::error::Error;

/// Schema version of a stored entity.
const ENTITY_SCHEMA: u32 = 1;

/// Stored entity. The names of the fields are the attributes of the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityRow {
    /// Key of the entity. Its attribute is the key of the calls table.
    call_id: CallId,
    schema_version: u32,
    version: u64,
    /// Version of the last write that announced something. It tells the relay so. `None` in a copied table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outbox_start: Option<u64>,
    /// `{time} {counter} {event id}` of the latest events. `-` stands for a missing counter.
    latest: Vec<String>,
    announced: Vec<AnnouncedEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    booking: Option<BookingRow>,
    /// Unix seconds. DynamoDB removes the row some time after.
    expires_at: i64,
}

/// Stored booking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct BookingRow {
    /// The same text as in [`EntityRow::latest`].
    decided_by: String,
    is_canceled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    starts_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest_start: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    superseded: BTreeSet<CallId>,
    calls_agree: bool,
}

impl BookingRow {
    fn of(booking: &Booking) -> Self {
        let Booking { decided_by, is_canceled, starts_at, latest_start, call_id, superseded, calls_agree } =
            booking.clone();
        Self {
            decided_by: encode_position(&decided_by),
            is_canceled,
            starts_at,
            latest_start,
            call_id,
            superseded,
            calls_agree,
        }
    }

    /// Returns the booking. `None` if its event is malformed.
    fn decode(self) -> Option<Booking> {
        let Self { decided_by, is_canceled, starts_at, latest_start, call_id, superseded, calls_agree } = self;
        let decided_by = decode_position(&decided_by)?;
        Some(Booking { decided_by, is_canceled, starts_at, latest_start, call_id, superseded, calls_agree })
    }
}

impl EntityRow {
    /// Reads a row, from the table or from its stream.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], [`Error::DecodeEntity`].
    pub fn decode(item: serde_dynamo::Item) -> Result<Entity, Error> {
        refuse_newer_schema(&item, ENTITY_SCHEMA)?;
        // The message of the cause may quote a value of the row.
        let row: Self = serde_dynamo::from_item(item).map_err(|_| Error::DecodeEntity("an attribute"))?;
        let latest: Option<Vec<EntityPosition>> = row.latest.iter().map(|text| decode_position(text)).collect();
        let booking = row.booking.map(|booking| booking.decode().ok_or(Error::DecodeEntity("booking"))).transpose()?;
        Ok(Entity {
            key: row.call_id,
            version: row.version,
            outbox_start: row.outbox_start,
            latest: latest.ok_or(Error::DecodeEntity("latest"))?,
            announced: row.announced,
            forgotten_at: row.forgotten_at,
            booking,
        })
    }
}

impl Calls {
    /// Reads an entity by one strongly consistent read. `None` if it has no row.
    ///
    /// # Errors
    /// [`Error::ReadEntity`], [`Error::DecodeEntity`], [`Error::NewerSchema`].
    pub async fn entity(&self, key: &CallId) -> Result<Option<Entity>, Error> {
        self.read_entity(key, true).await
    }

    /// Does the same by one eventually consistent read. It costs half as much, and may miss writes of the last few hundred
    /// milliseconds.
    ///
    /// # Errors
    /// The same as [`Calls::entity`].
    pub async fn entity_eventual(&self, key: &CallId) -> Result<Option<Entity>, Error> {
        self.read_entity(key, false).await
    }

    /// Writes an entity, if its row still has the version before. The row is kept for `retention`, which begins with the start of the
    /// appointment if the entity is a booking.
    ///
    /// # Errors
    /// [`Error::WriteEntity`].
    pub async fn store_entity(
        &self,
        entity: &Entity,
        now: Timestamp,
        retention: Duration,
    ) -> Result<StoreOutcome, Error> {
        // The booking may be moved or canceled until then, and a canceled one may be reported again.
        let latest_start = entity.booking.as_ref().and_then(|booking| booking.latest_start);
        let row = EntityRow {
            call_id: entity.key.clone(),
            schema_version: ENTITY_SCHEMA,
            version: entity.version,
            outbox_start: entity.outbox_start,
            latest: entity.latest.iter().map(encode_position).collect(),
            announced: entity.announced.clone(),
            forgotten_at: entity.forgotten_at,
            booking: entity.booking.as_ref().map(BookingRow::of),
            expires_at: expires_at(latest_start.map_or(now, |at| at.max(now)), retention),
        };
        let item: Item = serde_dynamo::to_item(row).map_err(|error| Error::WriteEntity(Box::new(error)))?;
        let request = self.put(item, entity.version - 1);
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteEntity)?;
        Ok(if write.is_applied() { StoreOutcome::Committed } else { StoreOutcome::LostRace })
    }

    async fn read_entity(&self, key: &CallId, consistent: bool) -> Result<Option<Entity>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", text(key.as_str()))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(|error| Error::ReadEntity(Box::new(error)))?;
        answer.item.map(|item| EntityRow::decode(item.into())).transpose()
    }
}

fn encode_position(position: &EntityPosition) -> String {
    let sequence = position.sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string());
    format!("{} {sequence} {}", position.at.as_millis(), position.event_id)
}

/// Reads the text of a position. `None` if it is malformed.
fn decode_position(text: &str) -> Option<EntityPosition> {
    let mut parts = text.splitn(3, ' ');
    let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
    let sequence = match parts.next()? {
        "-" => None,
        sequence => Some(sequence.parse().ok()?),
    };
    Some(EntityPosition { at, sequence, event_id: EventId::new(parts.next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_read_as_it_was_written() {
        for sequence in [None, Some(0), Some(u32::MAX)] {
            let (at, event_id) = (Timestamp::from_millis(-1), EventId::new("x-acme:an id: with blanks"));
            let position = EntityPosition { at, sequence, event_id };
            assert_eq!(decode_position(&encode_position(&position)), Some(position));
        }
        for malformed in ["", "1", "1 -", "a - id", "1 a id"] {
            assert_eq!(decode_position(malformed), None, "{malformed}");
        }
    }
}
