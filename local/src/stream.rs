//! The stream of the calls table, NEW_AND_OLD_IMAGES, as the relay reads it.
//!
//! The embedded DynamoDB has streams of its own, but there a write costs more with every record that is kept, and a write
//! that changes nothing makes a record. So the stream is made here, around each write: read the row, write, read it
//! again, and if it differs, append a record.
//!
//! With a data directory a record takes two entries of a journal. The *intent* (key, old image) is written before the
//! row is, the *completion* (new image) after it. A death between the two is repaired at the next start: the row as it
//! is now is what the write left, because nothing was written after it; it either still equals the old image, and
//! nothing happened, or it is the new image.
//!
//! **A committed change of a row has exactly one record, which stays until its reader trims it; a kill at any
//! instruction loses none.** Writes of the table therefore happen one at a time, under the lock of the stream. (Trimming
//! erases the intent first, so that a half-erased record cannot be taken for a write that was under way.)

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use dynoxide::actions::get_item::GetItemRequest;
use dynoxide::types::item_size;
use dynoxide::{Database, DynoxideError, Item};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::REGION;
use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::{Journal, ordered_key};
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
}

/// What happened to the row.
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
    /// Opens the stream of a table that exists, and repairs what a death left behind.
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
        // Later than every number that an earlier process gave out, trimmed or not.
        let fresh = clock.now_ms() << 20;
        let next_sequence = records.back().map_or(fresh, |last| fresh.max(last.sequence + 1));
        Ok(Self {
            database,
            table: table.to_owned(),
            journal,
            clock,
            signal: Signal::default(),
            state: Mutex::new(State { next_sequence, records }),
        })
    }

    /// The oldest records, at most `records_max`. They stay until trimmed, so the same batch comes back until then.
    pub fn next_batch(&self, records_max: usize) -> Vec<StreamRecord> {
        lock(&self.state).records.iter().take(records_max).cloned().collect()
    }

    /// Forgets every record up to and including `sequence`: its reader is done with them.
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

    /// How many records wait for the reader.
    pub fn len(&self) -> usize {
        lock(&self.state).records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Resolves when records were appended or trimmed.
    pub fn watch(&self) -> Watch {
        self.signal.watch()
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Does `write`, which touches no row of the table but those of `keys`, and records what it changed.
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
            state.records.push_back(record(&self.table, sequence, intent, completion));
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
    /// The number by which records are ordered and trimmed; what `SequenceNumber` of the event says.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How long ago it was made.
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

    /// The record as an element of `Records` in the event that a Lambda function is given.
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
                crate::ACCOUNT,
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

/// Printable, which the database is not.
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
mod tests {
    use std::time::UNIX_EPOCH;

    use dynoxide::AttributeValue;
    use dynoxide::actions::delete_item::DeleteItemRequest;
    use dynoxide::actions::put_item::PutItemRequest;

    use super::*;
    use crate::dynamodb::create_tables;
    use crate::{CALLS_TABLE, INBOX_TABLE};

    struct Table {
        database: Database,
        stream: Stream,
    }

    fn open(database: &Database) -> Table {
        create_tables(database, INBOX_TABLE, CALLS_TABLE).unwrap();
        let journal = Journal::open(database, JOURNAL).unwrap();
        let clock = Clock::starting_at(UNIX_EPOCH + std::time::Duration::from_secs(1_000));
        let stream = Stream::open(database, CALLS_TABLE, Some(journal), clock).unwrap();
        Table { database: database.clone(), stream }
    }

    fn row(call_id: &str, version: u64) -> Item {
        Item::from([
            ("call_id".to_owned(), AttributeValue::S(call_id.to_owned())),
            ("version".to_owned(), AttributeValue::N(version.to_string())),
        ])
    }

    fn key_of(row: &Item) -> Item {
        Item::from([("call_id".to_owned(), row["call_id"].clone())])
    }

    fn put(database: &Database, row: Item) {
        let request = PutItemRequest { table_name: CALLS_TABLE.to_owned(), item: row, ..Default::default() };
        database.put_item(request).unwrap();
    }

    impl Table {
        fn put(&self, row: Item) {
            let write = || {
                put(&self.database, row.clone());
                Ok(())
            };
            self.stream.record_changes(vec![key_of(&row)], write).unwrap();
        }

        fn delete(&self, call_id: &str) {
            let key = key_of(&row(call_id, 0));
            let request =
                DeleteItemRequest { table_name: CALLS_TABLE.to_owned(), key: key.clone(), ..Default::default() };
            self.stream.record_changes(vec![key], || self.database.delete_item(request)).unwrap();
        }

        fn changes(&self) -> Vec<(EventName, Option<Item>, Option<Item>)> {
            let changes = self.stream.next_batch(100).into_iter();
            changes.map(|record| (record.event_name(), record.old, record.new)).collect()
        }
    }

    #[test]
    fn record_carries_both_images() {
        let table = open(&Database::memory().unwrap());
        table.put(row("a", 1));
        table.put(row("a", 2));
        table.delete("a");

        assert_eq!(
            table.changes(),
            [
                (EventName::Insert, None, Some(row("a", 1))),
                (EventName::Modify, Some(row("a", 1)), Some(row("a", 2))),
                (EventName::Remove, Some(row("a", 2)), None),
            ]
        );
    }

    #[test]
    fn write_that_changes_nothing_makes_no_record() {
        let table = open(&Database::memory().unwrap());
        table.put(row("a", 1));
        table.put(row("a", 1));
        table.delete("b");

        assert_eq!(table.stream.len(), 1);
    }

    #[test]
    fn record_stays_until_trimmed() {
        let table = open(&Database::memory().unwrap());
        for version in 1..=3 {
            table.put(row("a", version));
        }

        let batch = table.stream.next_batch(2);
        assert_eq!(batch, table.stream.next_batch(2));
        table.stream.trim(batch[0].sequence()).unwrap();
        assert_eq!(table.stream.next_batch(1)[0], batch[1]);
        assert_eq!(table.stream.len(), 2);
    }

    #[test]
    fn records_survive_a_restart_in_order() {
        let database = Database::memory().unwrap();
        let first = open(&database);
        for version in 1..=4 {
            first.put(row("a", version));
        }
        let batch = first.stream.next_batch(1);
        first.stream.trim(batch[0].sequence()).unwrap();
        let before = first.stream.next_batch(100);
        drop(first);

        let second = open(&database);
        assert_eq!(second.stream.next_batch(100), before);
        second.put(row("a", 5));
        let sequences: Vec<u64> = second.stream.next_batch(100).iter().map(StreamRecord::sequence).collect();
        assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
    }

    #[test]
    fn death_after_the_write_keeps_its_record() {
        let database = Database::memory().unwrap();
        let table = open(&database);
        table.put(row("a", 1));
        crash_inside(&table, row("a", 2), Death::AfterTheWrite);

        assert_eq!(
            open(&database).changes(),
            [(EventName::Insert, None, Some(row("a", 1))), (EventName::Modify, Some(row("a", 1)), Some(row("a", 2))),]
        );
        assert_eq!(open(&database).stream.len(), 2, "the repair is not repeated");
    }

    #[test]
    fn death_before_the_write_leaves_no_record() {
        let database = Database::memory().unwrap();
        let table = open(&database);
        table.put(row("a", 1));
        crash_inside(&table, row("a", 2), Death::BeforeTheWrite);

        assert_eq!(open(&database).changes(), [(EventName::Insert, None, Some(row("a", 1)))]);
        assert_eq!(table.stream.journal.as_ref().unwrap().read::<Value>().unwrap().len(), 2);
    }

    #[test]
    fn death_inside_a_trim_does_not_repeat_the_record() {
        let database = Database::memory().unwrap();
        let table = open(&database);
        table.put(row("a", 1));
        let sequence = table.stream.next_batch(1)[0].sequence();
        table.stream.journal.as_ref().unwrap().erase(&intent_key(sequence)).unwrap();

        assert_eq!(open(&database).changes(), []);
    }

    #[derive(PartialEq)]
    enum Death {
        BeforeTheWrite,
        AfterTheWrite,
    }

    /// What is in the database when a process dies inside `record_changes`.
    fn crash_inside(table: &Table, row: Item, death: Death) {
        let key = key_of(&row);
        let old = table.stream.database.row(CALLS_TABLE, &key).unwrap();
        let sequence = lock(&table.stream.state).next_sequence;
        let intent = Intent { key, old, at_ms: 0 };
        table.stream.journal.as_ref().unwrap().write(&intent_key(sequence), &intent).unwrap();
        if death == Death::AfterTheWrite {
            put(&table.database, row);
        }
    }

    #[test]
    fn record_reads_as_the_event_of_a_function() {
        let table = open(&Database::memory().unwrap());
        table.put(row("a", 1));
        table.put(row("a", 2));

        let records: Vec<Value> = table.stream.next_batch(2).iter().map(StreamRecord::to_event_record).collect();
        let event: aws_lambda_events::event::dynamodb::Event =
            serde_json::from_value(json!({ "Records": records })).unwrap();

        let modified = &event.records[1];
        assert_eq!(modified.event_name, "MODIFY");
        assert_eq!(modified.change.approximate_creation_date_time.timestamp(), 1_000);
        assert_eq!(modified.change.old_image.get("version"), Some(&serde_dynamo::AttributeValue::N("1".to_owned())));
        assert_eq!(modified.change.new_image.get("version"), Some(&serde_dynamo::AttributeValue::N("2".to_owned())));
        assert_eq!(modified.change.sequence_number, Some(table.stream.next_batch(2)[1].sequence().to_string()));
    }
}
