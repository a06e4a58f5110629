//! Journals: tables in the data directory that hold the entries of the queues, the bus and the stream.
//!
//! A journal belongs to the embedded DynamoDB. It has one partition, in which entries are ordered by key. An entry can
//! be larger than a DynamoDB item (a message has up to 1 MiB), so it is stored in parts.
//!
//! **An entry exists if and only if its first part exists.** Parts are therefore written from last to first and deleted
//! from first to last. If the process is killed in between, parts remain without a first part. The next read deletes
//! them.

use std::collections::{BTreeMap, HashMap};

use dynoxide::actions::delete_item::DeleteItemRequest;
use dynoxide::actions::put_item::PutItemRequest;
use dynoxide::actions::query::QueryRequest;
use dynoxide::{AttributeValue, Database, DynoxideError, Item};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::LocalError;
use crate::tables::create_table;

/// Prefix of the table names of journals. Tables of the application have other names.
pub(crate) const PREFIX: &str = "switchhook-local-";

/// Bytes of an entry in one item. DynamoDB limits an item to 400 KB.
const PART_BYTES_MAX: usize = 256 * 1024;

const LOG: &str = "log";
const KEY: &str = "key";
const PARTS: &str = "parts";
const BYTES: &str = "bytes";

pub(crate) struct Journal {
    database: Database,
    table: &'static str,
}

impl Journal {
    pub(crate) fn open(database: &Database, table: &'static str) -> Result<Self, LocalError> {
        let definition = json!({
            "TableName": table,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": LOG, "AttributeType": "S"},
                {"AttributeName": KEY, "AttributeType": "S"},
            ],
            "KeySchema": [
                {"AttributeName": LOG, "KeyType": "HASH"},
                {"AttributeName": KEY, "KeyType": "RANGE"},
            ],
        });
        create_table(database, table, definition)?;
        Ok(Self { database: database.clone(), table })
    }

    /// Writes an entry. The key must not exist yet.
    pub(crate) fn write(&self, key: &str, entry: &impl Serialize) -> Result<(), LocalError> {
        let bytes =
            serde_json::to_vec(entry).map_err(|source| LocalError::EncodeEntry { table: self.table, source })?;
        let parts: Vec<&[u8]> = bytes.chunks(PART_BYTES_MAX).collect();
        for (number, part) in parts.iter().enumerate().rev() {
            let item = HashMap::from([
                (LOG.to_owned(), AttributeValue::S(LOG.to_owned())),
                (KEY.to_owned(), AttributeValue::S(part_key(key, number))),
                (PARTS.to_owned(), AttributeValue::N(parts.len().to_string())),
                (BYTES.to_owned(), AttributeValue::B(part.to_vec())),
            ]);
            let request = PutItemRequest { table_name: self.table.to_owned(), item, ..Default::default() };
            self.database.put_item(request).map_err(|source| self.failed_write(source))?;
        }
        Ok(())
    }

    /// Deletes an entry. Does nothing if it does not exist.
    pub(crate) fn erase(&self, key: &str) -> Result<(), LocalError> {
        let parts = self.erase_part(key, 0)?;
        for number in 1..parts {
            self.erase_part(key, number)?;
        }
        Ok(())
    }

    /// Returns all entries, ordered by key.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<(String, T)>, LocalError> {
        let mut entries: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for item in self.items()? {
            let (Some(AttributeValue::S(part)), Some(AttributeValue::B(bytes))) = (item.get(KEY), item.get(BYTES))
            else {
                continue;
            };
            let Some((key, number)) = part.rsplit_once('#') else { continue };
            match entries.get_mut(key) {
                Some(entry) => entry.extend_from_slice(bytes),
                None if number == FIRST_PART => {
                    entries.insert(key.to_owned(), bytes.clone());
                }
                None => self.erase_row(part.clone()).map(|_| ())?,
            }
        }
        entries
            .into_iter()
            .map(|(key, bytes)| {
                let entry = serde_json::from_slice(&bytes)
                    .map_err(|source| LocalError::DecodeEntry { table: self.table, source })?;
                Ok((key, entry))
            })
            .collect()
    }

    fn items(&self) -> Result<Vec<Item>, LocalError> {
        let mut items = Vec::new();
        let mut from = None;
        loop {
            let request = QueryRequest {
                table_name: self.table.to_owned(),
                key_condition_expression: Some("#log = :log".to_owned()),
                expression_attribute_names: Some(HashMap::from([("#log".to_owned(), LOG.to_owned())])),
                expression_attribute_values: Some(HashMap::from([(
                    ":log".to_owned(),
                    AttributeValue::S(LOG.to_owned()),
                )])),
                scan_index_forward: true,
                consistent_read: Some(true),
                exclusive_start_key: from,
                ..Default::default()
            };
            let page =
                self.database.query(request).map_err(|source| LocalError::ReadJournal { table: self.table, source })?;
            items.extend(page.items.unwrap_or_default());
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(items);
            }
        }
    }

    /// Deletes one part of an entry. Returns the number of parts that the entry has, or 0 if the part does not exist.
    fn erase_part(&self, key: &str, number: usize) -> Result<usize, LocalError> {
        let old = self.erase_row(part_key(key, number))?;
        let parts = match old.as_ref().and_then(|item| item.get(PARTS)) {
            Some(AttributeValue::N(parts)) => parts.parse().unwrap_or(1),
            _ => 0,
        };
        Ok(parts)
    }

    fn erase_row(&self, row: String) -> Result<Option<Item>, LocalError> {
        let request = DeleteItemRequest {
            table_name: self.table.to_owned(),
            key: HashMap::from([
                (LOG.to_owned(), AttributeValue::S(LOG.to_owned())),
                (KEY.to_owned(), AttributeValue::S(row)),
            ]),
            return_values: Some("ALL_OLD".to_owned()),
            ..Default::default()
        };
        let response = self.database.delete_item(request).map_err(|source| self.failed_write(source))?;
        Ok(response.attributes)
    }

    fn failed_write(&self, source: DynoxideError) -> LocalError {
        LocalError::WriteJournal { table: self.table, source }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Returns a key for a number. Keys sort in the order of their numbers, because all have the same length.
pub(crate) fn ordered_key(number: u64) -> String {
    format!("{number:020}")
}

const FIRST_PART: &str = "000";

fn part_key(key: &str, number: usize) -> String {
    format!("{key}#{number:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        Journal::open(&Database::memory().unwrap(), "switchhook-local-test").unwrap()
    }

    #[test]
    fn entries_come_back_in_the_order_of_their_keys() {
        let journal = journal();
        for number in [300, 2, 10] {
            journal.write(&ordered_key(number), &number).unwrap();
        }
        journal.erase(&ordered_key(10)).unwrap();

        let entries: Vec<u64> = journal.read().unwrap().into_iter().map(|(_, n)| n).collect();
        assert_eq!(entries, [2, 300]);
    }

    #[test]
    fn entry_larger_than_an_item_survives() {
        let journal = journal();
        let large = "x".repeat(1024 * 1024);
        journal.write("a", &large).unwrap();
        journal.write("b", &"small").unwrap();

        let entries: Vec<(String, String)> = journal.read().unwrap();
        assert_eq!(entries, [("a".to_owned(), large), ("b".to_owned(), "small".to_owned())]);

        journal.erase("a").unwrap();
        assert_eq!(journal.items().unwrap().len(), 1);
    }

    #[test]
    fn part_without_a_first_part_is_removed() {
        let journal = journal();
        journal.write("a", &"x".repeat(600 * 1024)).unwrap();
        journal.erase_part("a", 0).unwrap();

        assert_eq!(journal.read::<String>().unwrap(), []);
        assert_eq!(journal.items().unwrap().len(), 0);
    }
}
