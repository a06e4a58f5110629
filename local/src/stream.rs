//! The stream of the calls table, with old and new images, as the relay reads it.
//!
//! The embedded DynamoDB has its own streams, but they do not fit. Their writes become slower with every stored record,
//! and a write that changes nothing creates a record. The stream is therefore made here: read the row, write, read the
//! row again, and append a record if the row differs.
//!
//! With a data directory, a record has two journal entries. The *intent* (key and old image) is written before the row,
//! and the *completion* (new image) after it. If the process is killed between the two, the next start repairs the
//! record. Nothing was written after the interrupted write. So if the row still equals the old image, the write did not
//! happen; otherwise the row is the new image.
//!
//! **Every committed change of a row has exactly one record, which stays until the reader trims it. A kill at any
//! moment loses none.** For this reason, writes to the table happen one at a time, under the lock of the stream.
//! Trimming deletes the intent first, so that a partly deleted record does not look like an interrupted write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use dynoxide::actions::get_item::GetItemRequest;
use dynoxide::types::item_size;
use dynoxide::{Database, DynoxideError, Item};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::{Journal, ordered_key};
use crate::stack::{ACCOUNT, REGION};
use crate::sync::{Signal, Watch, lock};

pub(crate) const JOURNAL: &str = "switchhook-local-stream";

#[derive(Debug)]
pub struct Stream {
    database: DatabaseHandle,
    table: String,
    journal: Option<Journal>,
    clock: Clock,
    signal: Signal,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next_sequence: u64,
    records: VecDeque<StreamRecord>,
    /// Records with the attribute [`DUE_SOON`], for the scheduler. They are in memory only.
    due: VecDeque<StreamRecord>,
}

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
    key: Item,
    old: Option<Item>,
    new: Option<Item>,
}

impl Stream {
    /// Opens the stream of an existing table, and repairs a write that a kill interrupted.
    pub(crate) fn open(
        database: &Database,
        table: &str,
        journal: Option<Journal>,
        clock: Clock,
    ) -> Result<Self, LocalError> {
        let database = DatabaseHandle(database.clone());
        let records = match &journal {
            Some(journal) => recover(&database, table, journal)?,
            None => VecDeque::new(),
        };
        // A number made from the time is higher than every number of an earlier process, even of a record that was
        // trimmed.
        let fresh = clock.now_ms() << 20;
        let next_sequence = records.back().map_or(fresh, |last| fresh.max(last.sequence + 1));
        Ok(Self {
            database,
            table: table.to_owned(),
            journal,
            clock,
            signal: Signal::default(),
            state: Mutex::new(State { next_sequence, records, due: VecDeque::new() }),
        })
    }

    /// Returns the oldest records, at most `records_max`. They stay in the stream until they are trimmed.
    pub fn next_batch(&self, records_max: usize) -> Vec<StreamRecord> {
        lock(&self.state).records.iter().take(records_max).cloned().collect()
    }

    /// Deletes all records up to and including `sequence`. The reader calls this after it has processed them.
    pub fn trim(&self, sequence: u64) -> Result<(), LocalError> {
        let mut state = lock(&self.state);
        while let Some(record) = state.records.front().filter(|record| record.sequence <= sequence) {
            if let Some(journal) = &self.journal {
                journal.erase(&intent_key(record.sequence))?;
                journal.erase(&completion_key(record.sequence))?;
            }
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

    /// Runs `write` and records the changes that it makes. `write` must not change rows other than those of `keys`.
    pub(crate) fn record_changes<T>(
        &self,
        keys: Vec<Item>,
        write: impl FnOnce() -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let mut state = lock(&self.state);

        let mut intents = Vec::with_capacity(keys.len());
        for key in keys {
            let old = self.database.row(&self.table, &key)?;
            let intent = Intent { key, old, at_ms: self.clock.now_ms() };
            let sequence = state.next_sequence;
            state.next_sequence += 1;
            if let Some(journal) = &self.journal {
                journal.write(&intent_key(sequence), &intent).map_err(|error| internal(&error))?;
            }
            intents.push((sequence, intent));
        }

        let answer = write();

        let mut appended = false;
        for (sequence, intent) in intents {
            let new = self.database.row(&self.table, &intent.key)?;
            if new == intent.old {
                if let Some(journal) = &self.journal {
                    journal.erase(&intent_key(sequence)).map_err(|error| internal(&error))?;
                }
                continue;
            }
            let completion = Completion { new };
            if let Some(journal) = &self.journal {
                journal.write(&completion_key(sequence), &completion).map_err(|error| internal(&error))?;
            }
            let record = record(&self.table, sequence, intent, completion);
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
        let mut change = json!({
            "ApproximateCreationDateTime": self.at_ms / 1_000,
            "Keys": self.key,
            "SequenceNumber": self.sequence.to_string(),
            "SizeBytes": self.size_bytes(),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        if let Value::Object(change) = &mut change {
            if let Some(old) = &self.old {
                change.insert("OldImage".to_owned(), json!(old));
            }
            if let Some(new) = &self.new {
                change.insert("NewImage".to_owned(), json!(new));
            }
        }
        json!({
            "eventID": format!("{:032x}", self.sequence),
            "eventName": self.event_name().as_str(),
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "eventSourceARN": format!(
                "arn:aws:dynamodb:{REGION}:{}:table/{}/stream/local",
                ACCOUNT,
                self.table
            ),
            "awsRegion": REGION,
            "dynamodb": change,
        })
    }

    fn size_bytes(&self) -> usize {
        [Some(&self.key), self.old.as_ref(), self.new.as_ref()].into_iter().flatten().map(item_size).sum()
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

#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    key: Item,
    old: Option<Item>,
    at_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Completion {
    new: Option<Item>,
}

fn intent_key(sequence: u64) -> String {
    format!("{}-intent", ordered_key(sequence))
}

fn completion_key(sequence: u64) -> String {
    format!("{}-completion", ordered_key(sequence))
}

fn record(table: &str, sequence: u64, intent: Intent, completion: Completion) -> StreamRecord {
    StreamRecord {
        table: table.to_owned(),
        sequence,
        at_ms: intent.at_ms,
        key: intent.key,
        old: intent.old,
        new: completion.new,
    }
}

fn recover(database: &DatabaseHandle, table: &str, journal: &Journal) -> Result<VecDeque<StreamRecord>, LocalError> {
    #[derive(Default)]
    struct Entries {
        intent: Option<Intent>,
        completion: Option<Completion>,
    }

    let mut found: BTreeMap<u64, Entries> = BTreeMap::new();
    for (key, entry) in journal.read::<Value>()? {
        let decode = |source| LocalError::DecodeEntry { table: JOURNAL, source };
        let Some((sequence, kind)) = key.split_once('-') else { continue };
        let Ok(sequence) = sequence.parse::<u64>() else { continue };
        let entries = found.entry(sequence).or_default();
        match kind {
            "intent" => entries.intent = Some(serde_json::from_value(entry).map_err(decode)?),
            _ => entries.completion = Some(serde_json::from_value(entry).map_err(decode)?),
        }
    }

    let mut records = VecDeque::new();
    for (sequence, entries) in found {
        match (entries.intent, entries.completion) {
            (Some(intent), Some(completion)) => {
                records.push_back(record(table, sequence, intent, completion));
            }
            (Some(intent), None) => {
                let new = database
                    .row(table, &intent.key)
                    .map_err(|source| LocalError::ReadRow { table: table.to_owned(), source })?;
                if new == intent.old {
                    journal.erase(&intent_key(sequence))?;
                } else {
                    let completion = Completion { new };
                    journal.write(&completion_key(sequence), &completion)?;
                    records.push_back(record(table, sequence, intent, completion));
                }
            }
            (None, _) => journal.erase(&completion_key(sequence))?,
        }
    }
    Ok(records)
}

/// The database, with a `Debug` implementation.
struct DatabaseHandle(Database);

impl DatabaseHandle {
    fn row(&self, table: &str, key: &Item) -> Result<Option<Item>, DynoxideError> {
        let request = GetItemRequest {
            table_name: table.to_owned(),
            key: key.clone(),
            consistent_read: Some(true),
            ..Default::default()
        };
        Ok(self.0.get_item(request)?.item)
    }
}

impl std::fmt::Debug for DatabaseHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database")
    }
}

fn internal(error: &LocalError) -> DynoxideError {
    tracing::error!(error = error as &dyn std::error::Error, "stream of the local cloud failed");
    DynoxideError::InternalServerError(error.to_string())
}

#[cfg(test)]
mod tests;
