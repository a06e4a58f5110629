//! Model of indexes that lag behind their tables.
//!
//! DynamoDB writes an index after its table, so a query of an index may miss the latest writes. The embedded database writes both at
//! once. So this is a copy of the tables, to which each write comes when its lag has passed. **The copy never goes back:** after a query
//! with a small lag, one with a larger lag sees as much.

use std::collections::VecDeque;

use dynoxide::actions::delete_item::{self, DeleteItemRequest};
use dynoxide::actions::put_item::{self, PutItemRequest};
use dynoxide::actions::query::{self, QueryRequest, QueryResponse};
use dynoxide::{DynoxideError, Item};

use crate::database::Database;
use crate::error::LocalError;
use crate::tables;

pub(crate) struct LaggingIndexes {
    copy: Database,
    /// Writes that the copy does not have, oldest first.
    writes: VecDeque<Write>,
}

/// A row after a write.
struct Write {
    at_ms: u64,
    table: String,
    key: Item,
    /// `None` if the write deleted the row.
    item: Option<Item>,
}

impl LaggingIndexes {
    /// Makes a copy of empty tables.
    pub(crate) fn open(inbox_table: &str, calls_table: &str) -> Result<Self, LocalError> {
        let copy = Database::memory().map_err(|source| LocalError::OpenDatabase { source })?;
        tables::create_tables(&copy, inbox_table, calls_table)?;
        Ok(Self { copy, writes: VecDeque::new() })
    }

    pub(crate) fn add(&mut self, at_ms: u64, table: &str, key: Item, item: Option<Item>) {
        self.writes.push_back(Write { at_ms, table: table.to_owned(), key, item });
    }

    /// Answers a query from the rows as they were at a time.
    pub(crate) fn query(&mut self, request: QueryRequest, at_ms: u64) -> Result<QueryResponse, DynoxideError> {
        while let Some(write) = self.writes.pop_front_if(|write| write.at_ms <= at_ms) {
            let Write { table: table_name, key, item, .. } = write;
            match item {
                Some(item) => {
                    let request = PutItemRequest { table_name, item, ..Default::default() };
                    self.copy.run(async |storage| put_item::execute(storage, request).await)?;
                }
                None => {
                    let request = DeleteItemRequest { table_name, key, ..Default::default() };
                    self.copy.run(async |storage| delete_item::execute(storage, request).await)?;
                }
            }
        }
        self.copy.run(async |storage| query::execute(storage, request).await)
    }
}
