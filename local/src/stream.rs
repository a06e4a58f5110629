//! The stream of the calls table, with old and new images, as the relay reads it.
//!
//! The embedded DynamoDB has its own streams, but they do not fit. Their writes become slower with every stored record,
//! and a write that changes nothing creates a record. The stream is therefore made here, by a trigger of SQLite: it keeps the
//! row before and after each write in a table.
//!
//! **Every committed change of a row has exactly one record, which stays until the reader trims it. A kill at any
//! moment loses none**, because a row and its record are one commit. Writes to the table happen one at a time, under the lock of
//! the stream, so that records are read in the order of their commits.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use dynoxide::storage::Storage;
use dynoxide::types::item_size;
use dynoxide::{DynoxideError, Item};
use rusqlite::functions::FunctionFlags;
use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::database::Database;
use crate::error::LocalError;
use crate::journal::row_id;
use crate::stack::{ACCOUNT, REGION};
use crate::sync::{Signal, Watch, lock};

/// Table of the records that are not trimmed.
const TABLE: &str = "switchhook-local-stream";

#[derive(Debug)]
pub struct Stream {
    database: Database,
    table: String,
    signal: Signal,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Sequence of the latest record.
    last: u64,
    records: VecDeque<StreamRecord>,
    /// Records with the attribute [`DUE_SOON`], for the scheduler. They are in memory only.
    due: VecDeque<StreamRecord>,
}

/// Attribute of the calls table that is its key.
const KEY: &str = "call_id";
/// Attribute of the records that the scheduler's event source passes on. `template.yaml` has the same filter.
pub const DUE_SOON: &str = "due_soon";
/// Largest number of records that wait for the scheduler. The oldest ones are dropped: the schedule finds their calls.
const DUE_RECORDS_MAX: usize = 10_000;

/// Kind of change of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    Insert,
    Modify,
    Remove,
}

/// One committed change of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRecord {
    table: String,
    sequence: u64,
    at_ms: u64,
    old: Option<Item>,
    new: Option<Item>,
}

impl Stream {
    /// Opens the stream of an existing table, with the records of an earlier process that are not trimmed.
    pub(crate) fn open(database: &Database, table: &str, clock: Clock) -> Result<Self, LocalError> {
        let failed = |source| LocalError::OpenStream { source };
        let create = format!(
            "CREATE TABLE IF NOT EXISTS \"{TABLE}\" \
             (sequence INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, old TEXT, new TEXT)"
        );
        let records = database.run(async |storage| {
            storage.conn().execute_batch(&create)?;
            let flags = FunctionFlags::SQLITE_UTF8;
            storage.conn().create_scalar_function("clock_ms", 0, flags, move |_| Ok(row_id(clock.now_ms())))?;
            create_triggers(storage, table)?;
            records_after(storage, table, 0)
        });
        let records = VecDeque::from(records.map_err(failed)?);
        let last = records.back().map_or(0, |last| last.sequence);
        Ok(Self {
            database: database.clone(),
            table: table.to_owned(),
            signal: Signal::default(),
            state: Mutex::new(State { last, records, due: VecDeque::new() }),
        })
    }

    /// Returns the oldest records, at most `records_max`. They stay in the stream until they are trimmed.
    pub fn next_batch(&self, records_max: usize) -> Vec<StreamRecord> {
        lock(&self.state).records.iter().take(records_max).cloned().collect()
    }

    /// Deletes all records up to and including `sequence`. The reader calls this after it has processed them.
    pub fn trim(&self, sequence: u64) -> Result<(), LocalError> {
        let mut state = lock(&self.state);
        let delete = format!("DELETE FROM \"{TABLE}\" WHERE sequence <= ?1");
        let deleted = self.database.run(async |storage| {
            storage.conn().prepare_cached(&delete)?.execute((row_id(sequence),))?;
            Ok(())
        });
        deleted.map_err(|source| LocalError::TrimStream { source })?;
        while state.records.front().is_some_and(|record| record.sequence <= sequence) {
            state.records.pop_front();
        }
        drop(state);
        self.signal.changed();
        Ok(())
    }

    /// Removes the oldest records of calls that are due soon, at most `records_max`, and returns them. The stream has two
    /// readers, as on AWS: this one does not wait for the other, which trims.
    pub fn take_due(&self, records_max: usize) -> Vec<StreamRecord> {
        let mut state = lock(&self.state);
        let count = records_max.min(state.due.len());
        state.due.drain(..count).collect()
    }

    /// Number of records that are not trimmed.
    pub fn len(&self) -> usize {
        lock(&self.state).records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a watcher that resolves when records are appended or trimmed.
    pub fn watch(&self) -> Watch {
        self.signal.watch()
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Runs `write`, which may change rows of the table, and takes over the records of its changes.
    pub(crate) fn record_changes<T>(
        &self,
        write: impl FnOnce() -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let mut state = lock(&self.state);
        let answer = write();
        let new = self.database.run(async |storage| records_after(storage, &self.table, state.last))?;
        let mut appended = false;
        for record in new {
            state.last = record.sequence;
            if record.new.as_ref().is_some_and(|row| row.contains_key(DUE_SOON)) {
                if state.due.len() == DUE_RECORDS_MAX {
                    state.due.pop_front();
                }
                state.due.push_back(record.clone());
            }
            state.records.push_back(record);
            appended = true;
        }
        drop(state);
        if appended {
            self.signal.changed();
        }
        answer
    }

    /// Runs `write`, which may change rows of the table, and makes no records.
    pub(crate) fn without_records<T>(
        &self,
        write: impl FnOnce() -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let _state = lock(&self.state);
        self.database.run(async |storage| Ok(storage.conn().execute_batch(DROP_TRIGGERS)?))?;
        let answer = write();
        self.database.run(async |storage| create_triggers(storage, &self.table))?;
        answer
    }
}

impl StreamRecord {
    /// Position in the stream, which is also the `SequenceNumber` of the event.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Time of the write, in Unix milliseconds.
    pub(crate) const fn written_at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Time since the change.
    pub fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.at_ms))
    }

    pub fn event_name(&self) -> EventName {
        match (&self.old, &self.new) {
            (None, _) => EventName::Insert,
            (Some(_), Some(_)) => EventName::Modify,
            (Some(_), None) => EventName::Remove,
        }
    }

    /// Returns the record as an element of `Records` in the event that a Lambda function receives.
    pub fn to_event_record(&self) -> Value {
        json!(self.event_record())
    }

    /// Does the same as [`Self::to_event_record`], without copies of the images.
    pub(crate) fn event_record(&self) -> EventRecord<'_> {
        EventRecord {
            event_id: format!("{:032x}", self.sequence),
            event_name: self.event_name().as_str(),
            event_version: "1.1",
            event_source: "aws:dynamodb",
            event_source_arn: format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{}/stream/local", self.table),
            aws_region: REGION,
            dynamodb: RecordedChange {
                approximate_creation_date_time: self.at_ms / 1_000,
                keys: self.key(),
                sequence_number: self.sequence.to_string(),
                size_bytes: self.size_bytes(),
                stream_view_type: "NEW_AND_OLD_IMAGES",
                old_image: self.old.as_ref(),
                new_image: self.new.as_ref(),
            },
        }
    }

    /// Key of the row. It is the only part that the images of a row share for sure.
    fn key(&self) -> Item {
        let image = self.new.as_ref().or(self.old.as_ref());
        let key = image.and_then(|image| image.get_key_value(KEY));
        key.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn size_bytes(&self) -> usize {
        item_size(&self.key()) + [&self.old, &self.new].into_iter().flatten().map(item_size).sum::<usize>()
    }
}

impl EventName {
    pub fn as_str(self) -> &'static str {
        match self {
            EventName::Insert => "INSERT",
            EventName::Modify => "MODIFY",
            EventName::Remove => "REMOVE",
        }
    }
}

/// A record in the form in which a Lambda function receives it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventRecord<'a> {
    #[serde(rename = "eventID")]
    event_id: String,
    event_name: &'static str,
    event_version: &'static str,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: String,
    aws_region: &'static str,
    dynamodb: RecordedChange<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RecordedChange<'a> {
    approximate_creation_date_time: u64,
    keys: Item,
    sequence_number: String,
    size_bytes: usize,
    stream_view_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_image: Option<&'a Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_image: Option<&'a Item>,
}

/// Makes the triggers of this connection: before each write, they add a record. The embedded DynamoDB replaces rows, for which
/// SQLite runs no trigger of a deletion.
fn create_triggers(storage: &Storage, table: &str) -> Result<(), DynoxideError> {
    let triggers = format!(
        "{DROP_TRIGGERS}
         CREATE TEMP TRIGGER record_put BEFORE INSERT ON main.\"{table}\" BEGIN
           INSERT INTO \"{TABLE}\" (at_ms, old, new) VALUES (
             clock_ms(), (SELECT item_json FROM \"{table}\" WHERE pk = NEW.pk AND sk = NEW.sk), NEW.item_json);
         END;
         CREATE TEMP TRIGGER record_delete BEFORE DELETE ON main.\"{table}\" BEGIN
           INSERT INTO \"{TABLE}\" (at_ms, old, new) VALUES (clock_ms(), OLD.item_json, NULL);
         END;"
    );
    Ok(storage.conn().execute_batch(&triggers)?)
}

const DROP_TRIGGERS: &str = "DROP TRIGGER IF EXISTS temp.record_put; DROP TRIGGER IF EXISTS temp.record_delete;";

/// Returns the records after a sequence, in order. A write that changes nothing has none: its row in the table goes with the next trim.
fn records_after(storage: &Storage, table: &str, sequence: u64) -> Result<Vec<StreamRecord>, DynoxideError> {
    let select = format!("SELECT sequence, at_ms, old, new FROM \"{TABLE}\" WHERE sequence > ?1 ORDER BY sequence");
    let mut statement = storage.conn().prepare_cached(&select)?;
    let mut rows = statement.query((row_id(sequence),))?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let image = |column| -> Result<Option<Item>, DynoxideError> {
            let text = row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?;
            let parsed = text.map(serde_json::from_str).transpose();
            parsed.map_err(|error| DynoxideError::InternalServerError(format!("an image cannot be read: {error}")))
        };
        let (old, new) = (image(2)?, image(3)?);
        if old != new {
            let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            records.push(StreamRecord { table: table.to_owned(), sequence: number(0)?, at_ms: number(1)?, old, new });
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests;
