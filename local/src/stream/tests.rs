use std::time::UNIX_EPOCH;

use dynoxide::AttributeValue;
use dynoxide::actions::delete_item::DeleteItemRequest;
use dynoxide::actions::put_item::PutItemRequest;

use super::*;
use crate::stack::{CALLS_TABLE, INBOX_TABLE};
use crate::tables::create_tables;

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
        let request = DeleteItemRequest { table_name: CALLS_TABLE.to_owned(), key: key.clone(), ..Default::default() };
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

/// Leaves the database as it is when a process is killed inside `record_changes`.
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
