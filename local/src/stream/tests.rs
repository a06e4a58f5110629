use std::time::UNIX_EPOCH;

use dynoxide::AttributeValue;
use dynoxide::actions::delete_item::{self, DeleteItemRequest};
use dynoxide::actions::put_item::{self, PutItemRequest};
use futures_util::FutureExt;

use super::*;
use crate::stack::{CALLS_TABLE, INBOX_TABLE};
use crate::tables::create_tables;

struct Table {
    database: Database,
    stream: Stream,
}

fn open(database: &Database) -> Table {
    create_tables(database, INBOX_TABLE, CALLS_TABLE).unwrap();
    let clock = Clock::starting_at(UNIX_EPOCH + std::time::Duration::from_secs(1_000));
    let stream = Stream::open(database, CALLS_TABLE, clock).unwrap();
    Table { database: database.clone(), stream }
}

fn row(call_id: &str, version: u64) -> Item {
    Item::from([
        ("call_id".to_owned(), AttributeValue::S(call_id.to_owned())),
        ("version".to_owned(), AttributeValue::N(version.to_string())),
    ])
}

fn put(storage: &Storage, row: Item, condition: Option<&str>) -> Result<(), DynoxideError> {
    let condition_expression = condition.map(str::to_owned);
    let table_name = CALLS_TABLE.to_owned();
    let request = PutItemRequest { table_name, item: row, condition_expression, ..Default::default() };
    put_item::execute(storage, request).now_or_never().unwrap().map(|_| ())
}

impl Table {
    fn put(&self, row: Item) {
        let write = || self.database.run(async |storage| put(storage, row, None));
        self.stream.record_changes(write).unwrap();
    }

    fn delete(&self, call_id: &str) {
        let key = Item::from([("call_id".to_owned(), AttributeValue::S(call_id.to_owned()))]);
        let request = DeleteItemRequest { table_name: CALLS_TABLE.to_owned(), key, ..Default::default() };
        let write = || self.database.run(async |storage| delete_item::execute(storage, request).await);
        self.stream.record_changes(write).unwrap();
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
fn sequence_of_a_trimmed_record_is_not_used_again() {
    let database = Database::memory().unwrap();
    let table = open(&database);
    table.put(row("a", 1));
    let sequence = table.stream.next_batch(1)[0].sequence();
    table.stream.trim(sequence).unwrap();

    let table = open(&database);
    table.put(row("a", 2));
    assert!(table.stream.next_batch(1)[0].sequence() > sequence);
}

#[test]
fn write_whose_condition_fails_makes_no_record() {
    let table = open(&Database::memory().unwrap());
    table.put(row("a", 1));
    let write = || {
        let condition = Some("attribute_not_exists(call_id)");
        table.database.run(async |storage| put(storage, row("a", 2), condition))
    };
    table.stream.record_changes(write).unwrap_err();

    assert_eq!(table.changes(), [(EventName::Insert, None, Some(row("a", 1)))]);
}

#[test]
fn record_of_a_write_that_only_its_own_process_committed_is_found_by_the_next() {
    let database = Database::memory().unwrap();
    let table = open(&database);
    table.put(row("a", 1));
    // The process is killed after the commit, before it takes over the record.
    database.run(async |storage| put(storage, row("a", 2), None)).unwrap();

    assert_eq!(
        open(&database).changes(),
        [(EventName::Insert, None, Some(row("a", 1))), (EventName::Modify, Some(row("a", 1)), Some(row("a", 2)))]
    );
}

#[test]
fn rows_can_be_written_without_records() {
    let table = open(&Database::memory().unwrap());
    let write = || table.database.run(async |storage| put(storage, row("a", 1), None));
    table.stream.without_records(write).unwrap();
    table.put(row("a", 2));

    assert_eq!(table.changes(), [(EventName::Modify, Some(row("a", 1)), Some(row("a", 2)))]);
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
