//! The embedded DynamoDB with the JSON protocol of the SDK, and the capacity that each operation consumed.
//!
//! Only the operations in `Operation` exist, so the handlers cannot use any other. `Scan` and `CreateTable` are for
//! tests and tools.
//!
//! [`DynamoDb::counts`] returns the requests and capacity units that AWS would bill. To compute them, every request
//! asks the database for the capacity of the indexes too (`ReturnConsumedCapacity: INDEXES`), and the response is
//! reduced to what the client requested. DynamoDB also bills a conditional write that fails, by the larger of the
//! stored item and the new item. The database does not report that, so it is computed here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynoxide::actions::batch_get_item::{self, BatchGetItemRequest};
use dynoxide::actions::create_table::{self, CreateTableRequest};
use dynoxide::actions::delete_item::{self, DeleteItemRequest};
use dynoxide::actions::describe_table::{self, DescribeTableRequest, DescribeTableResponse};
use dynoxide::actions::get_item::{self, GetItemRequest};
use dynoxide::actions::import_items;
use dynoxide::actions::put_item::{self, PutItemRequest};
use dynoxide::actions::query::{self, QueryRequest};
use dynoxide::actions::scan::{self, ScanRequest};
use dynoxide::actions::update_item::{self, UpdateItemRequest};
use dynoxide::actions::vector_lifecycle::VectorIndexLifecycle;
use dynoxide::storage::Storage;
use dynoxide::types::{ConsumedCapacity, item_size, write_capacity_units};
use dynoxide::{DynoxideError, ImportOptions, Item};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::database::Database;
use crate::error::LocalError;
use crate::lagging::LaggingIndexes;
use crate::response::ServiceResponse;
use crate::stream::Stream;
use crate::sync::lock;
use crate::tables;

/// Requests and capacity units of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count {
    pub requests: u64,
    pub read_units: f64,
    /// Write units of the table, without its indexes.
    pub write_units: f64,
    /// Write units of all indexes together.
    pub index_write_units: f64,
}

/// Table or index that consumes capacity units, and their kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units {
    pub table: String,
    pub index: Option<String>,
    pub is_write: bool,
}

pub struct DynamoDb {
    database: Database,
    calls: Stream,
    counts: Mutex<BTreeMap<&'static str, Count>>,
    units: Mutex<BTreeMap<Units, f64>>,
    keys: Mutex<BTreeMap<String, Arc<[String]>>>,
    /// `None` if no query may miss the latest writes.
    lagging: Mutex<Option<LaggingIndexes>>,
    clock: Clock,
}

impl DynamoDb {
    pub(crate) fn open(
        database: Database,
        inbox_table: &str,
        calls_table: &str,
        clock: Clock,
    ) -> Result<Self, LocalError> {
        tables::create_tables(&database, inbox_table, calls_table)?;
        let calls = Stream::open(&database, calls_table, clock)?;
        let (counts, units, keys) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { database, calls, counts, units, keys, lagging: Mutex::default(), clock })
    }

    /// Makes a table with a text key and no index, beside the tables of the stack. For tests of restored tables.
    ///
    /// # Errors
    /// The database refuses the table.
    pub fn make_table(&self, table: &str, key: &str) -> Result<(), LocalError> {
        let definition = json!({
            "TableName": table,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        });
        tables::create_table(&self.database, table, definition)
    }

    /// Stores copies of an item in one transaction, each with some attributes of its own, in DynamoDB's JSON. For tests of large
    /// tables: the stream gets no record, and nothing is counted.
    ///
    /// # Errors
    /// An attribute cannot be read, or the database refuses a copy.
    pub fn store_copies(
        &self,
        table: &str,
        item: Map<String, Value>,
        copies: impl IntoIterator<Item = Map<String, Value>>,
    ) -> Result<(), LocalError> {
        let parse = |attributes| -> Result<Item, LocalError> {
            serde_json::from_value(Value::Object(attributes))
                .map_err(|source| LocalError::ReadCopy { table: table.to_owned(), source })
        };
        let item = parse(item)?;
        let copy = |own| Ok(item.clone().into_iter().chain(parse(own)?).collect());
        let copies: Vec<Item> = copies.into_iter().map(copy).collect::<Result<_, LocalError>>()?;
        let store = || {
            let options = ImportOptions::default();
            self.database.run(async |storage| import_items::execute(storage, table, copies, &options).await)
        };
        let stored = if table == self.calls.table() { self.calls.without_records(store) } else { store() };
        stored.map_err(|source| LocalError::StoreCopies { table: table.to_owned(), source })?;
        Ok(())
    }

    /// Keeps each further write apart until an index with a lag would show it, for [`Fault::LaggingIndex`]. The tables must be empty.
    ///
    /// # Errors
    /// The copy of the tables cannot be made.
    ///
    /// [`Fault::LaggingIndex`]: crate::connector::Fault::LaggingIndex
    pub fn let_indexes_lag(&self, inbox_table: &str, calls_table: &str) -> Result<(), LocalError> {
        *lock(&self.lagging) = Some(LaggingIndexes::open(inbox_table, calls_table)?);
        Ok(())
    }

    /// Stream of the calls table.
    pub fn stream(&self) -> &Stream {
        &self.calls
    }

    /// Requests and capacity units by operation, since the start or the last reset.
    pub fn counts(&self) -> BTreeMap<&'static str, Count> {
        lock(&self.counts).clone()
    }

    pub fn reset_counts(&self) {
        lock(&self.counts).clear();
    }

    /// Capacity units of each table and index since the start.
    pub fn units(&self) -> BTreeMap<Units, f64> {
        lock(&self.units).clone()
    }

    pub(crate) fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        let Some(operation) = Operation::parse(operation) else {
            return ServiceResponse::unknown_operation(operation);
        };
        lock(&self.counts).entry(operation.name()).or_default().requests += 1;
        match self.perform(operation, body) {
            Ok(answer) => answer,
            Err(error) => ServiceResponse { status: error.status_code(), body: error.to_json(), query_error: None },
        }
    }

    /// Answers a query of an index from the rows as they were some time ago. Its capacity is not counted.
    pub(crate) fn handle_lagging(&self, body: &[u8], lag: Duration) -> ServiceResponse {
        let lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        let at_ms = self.clock.now_ms().saturating_sub(lag_ms);
        let answer = read(body).and_then(|request: QueryRequest| match &mut *lock(&self.lagging) {
            Some(lagging) => ok(&lagging.query(request, at_ms)?),
            None => self.perform(Operation::Query, body),
        });
        answer.unwrap_or_else(|error| ServiceResponse {
            status: error.status_code(),
            body: error.to_json(),
            query_error: None,
        })
    }

    fn perform(&self, operation: Operation, body: &[u8]) -> Result<ServiceResponse, DynoxideError> {
        match operation {
            Operation::CreateTable => {
                let request: CreateTableRequest = read(body)?;
                ok(&self.database.run(async |storage| create_table::execute(storage, request).await)?)
            }
            Operation::GetItem => {
                let mut request: GetItemRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let mut response = self.database.run(async |storage| get_item::execute(storage, request).await)?;
                self.count_read(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::BatchGetItem => {
                let mut request: BatchGetItemRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let mut response =
                    self.database.run(async |storage| batch_get_item::execute(storage, request).await)?;
                self.count_read(operation, response.consumed_capacity.iter().flatten());
                reduce_all_capacities(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::Query => {
                let mut request: QueryRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let mut response = self.database.run(async |storage| query::execute(storage, request).await)?;
                self.count_read(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::Scan => {
                let mut request: ScanRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let mut response = self.database.run(async |storage| scan::execute(storage, request).await)?;
                self.count_read(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::PutItem => {
                let mut request: PutItemRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let row = self.row_of_item(&request.table_name, &request.item);
                let mut response =
                    self.write(operation, row, async |storage| put_item::execute(storage, request).await)?;
                self.count_write(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::UpdateItem => {
                let mut request: UpdateItemRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let row = Row::of_key(&request.table_name, &request.key);
                let mut response =
                    self.write(operation, row, async |storage| update_item::execute(storage, request).await)?;
                self.count_write(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
            Operation::DeleteItem => {
                let mut request: DeleteItemRequest = read(body)?;
                let requested = request_index_capacity(&mut request.return_consumed_capacity);
                let row = Row::of_key(&request.table_name, &request.key);
                let mut response =
                    self.write(operation, row, async |storage| delete_item::execute(storage, request).await)?;
                self.count_write(operation, &response.consumed_capacity);
                reduce_capacity(&mut response.consumed_capacity, &requested);
                ok(&response)
            }
        }
    }

    /// Writes one row. A write to the calls table also goes into its stream. A write whose condition fails is counted
    /// too.
    fn write<T>(
        &self,
        operation: Operation,
        row: Row,
        action: impl AsyncFnOnce(&Storage) -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let write = || self.database.run(action);
        let written = if row.table == self.calls.table() { self.calls.record_changes(write) } else { write() };
        if let Err(DynoxideError::ConditionalCheckFailedException(..)) = &written {
            self.count_failed_write(operation, &row);
        }
        if let (Some(lagging), Ok(_), Some(key)) = (&mut *lock(&self.lagging), &written, &row.key) {
            lagging.add(self.clock.now_ms(), &row.table, key.clone(), self.stored(&row));
        }
        written
    }

    fn describe(&self, request: DescribeTableRequest) -> Result<DescribeTableResponse, DynoxideError> {
        // No table has a vector index.
        let lifecycle = VectorIndexLifecycle::new();
        self.database.run(async |storage| describe_table::execute(storage, request, &lifecycle).await)
    }

    fn count_read<'a>(&self, operation: Operation, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let mut counts = lock(&self.counts);
        let count = counts.entry(operation.name()).or_default();
        for consumed in consumed {
            count.read_units += consumed.capacity_units;
            self.count_units(consumed, false);
        }
    }

    fn count_write<'a>(&self, operation: Operation, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let mut counts = lock(&self.counts);
        let count = counts.entry(operation.name()).or_default();
        for consumed in consumed {
            let indexes = consumed.global_secondary_indexes.iter().flat_map(|indexes| indexes.values());
            let index_units: f64 = indexes.map(|index| index.capacity_units).sum();
            count.index_write_units += index_units;
            self.count_units(consumed, true);
            count.write_units += consumed.capacity_units - index_units;
        }
    }

    fn count_failed_write(&self, operation: Operation, row: &Row) {
        let stored = self.stored(row).as_ref().map_or(0, item_size);
        let units = write_capacity_units(stored.max(row.item_bytes));
        lock(&self.counts).entry(operation.name()).or_default().write_units += units;
        let table = Units { table: row.table.clone(), index: None, is_write: true };
        *lock(&self.units).entry(table).or_default() += units;
    }

    /// Adds what a request consumed to the units of its table and of each index.
    fn count_units(&self, consumed: &ConsumedCapacity, is_write: bool) {
        let mut units = lock(&self.units);
        let mut add = |index: Option<&String>, more: f64| {
            let key = Units { table: consumed.table_name.clone(), index: index.cloned(), is_write };
            *units.entry(key).or_default() += more;
        };
        let mut rest = consumed.capacity_units;
        for (index, detail) in consumed.global_secondary_indexes.iter().flatten() {
            add(Some(index), detail.capacity_units);
            rest -= detail.capacity_units;
        }
        add(None, rest);
    }

    fn stored(&self, row: &Row) -> Option<Item> {
        let request = GetItemRequest {
            table_name: row.table.clone(),
            key: row.key.clone()?,
            consistent_read: Some(true),
            ..Default::default()
        };
        self.database.run(async |storage| get_item::execute(storage, request).await).ok()?.item
    }

    fn row_of_item(&self, table: &str, item: &Item) -> Row {
        let key = self.key_names(table).and_then(|names| {
            let attribute = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            names.iter().map(attribute).collect()
        });
        Row { table: table.to_owned(), key, item_bytes: item_size(item) }
    }

    fn key_names(&self, table: &str) -> Option<Arc<[String]>> {
        let mut keys = lock(&self.keys);
        if let Some(names) = keys.get(table) {
            return Some(names.clone());
        }
        let description = self.describe(DescribeTableRequest { table_name: table.to_owned() }).ok()?;
        let names: Arc<[String]> = description.table.key_schema.into_iter().map(|key| key.attribute_name).collect();
        keys.insert(table.to_owned(), names.clone());
        Some(names)
    }
}

impl std::fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamoDb").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    CreateTable,
    GetItem,
    BatchGetItem,
    Query,
    Scan,
    PutItem,
    UpdateItem,
    DeleteItem,
}

impl Operation {
    const ALL: [Self; 8] = [
        Self::CreateTable,
        Self::GetItem,
        Self::BatchGetItem,
        Self::Query,
        Self::Scan,
        Self::PutItem,
        Self::UpdateItem,
        Self::DeleteItem,
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::CreateTable => "CreateTable",
            Self::GetItem => "GetItem",
            Self::BatchGetItem => "BatchGetItem",
            Self::Query => "Query",
            Self::Scan => "Scan",
            Self::PutItem => "PutItem",
            Self::UpdateItem => "UpdateItem",
            Self::DeleteItem => "DeleteItem",
        }
    }
}

/// The row that a write changes.
struct Row {
    table: String,
    /// `None` if the new item has no key. The database rejects such a write.
    key: Option<Item>,
    /// Size of the new item. 0 if the write contains no whole item.
    item_bytes: usize,
}

impl Row {
    fn of_key(table: &str, key: &Item) -> Self {
        Self { table: table.to_owned(), key: Some(key.clone()), item_bytes: 0 }
    }
}

/// Parses a request.
///
/// The database marks its validation errors with a prefix of the text. Any other parse error means that the request is
/// malformed.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, DynoxideError> {
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        match text.strip_prefix("VALIDATION:").or_else(|| text.strip_prefix("VALIDATION_REQUEST:")) {
            Some(message) => {
                let message = message.split(" at line ").next().unwrap_or(message);
                DynoxideError::ValidationException(message.to_owned())
            }
            None => DynoxideError::SerializationException(text),
        }
    })
}

fn ok(response: &impl Serialize) -> Result<ServiceResponse, DynoxideError> {
    Ok(ServiceResponse::ok(response))
}

/// Requests the consumed capacity of the indexes too. Returns the level that the client requested.
fn request_index_capacity(return_consumed_capacity: &mut Option<String>) -> Option<String> {
    return_consumed_capacity.replace("INDEXES".to_owned())
}

fn reduce_capacity(consumed: &mut Option<ConsumedCapacity>, requested: &Option<String>) {
    match requested.as_deref() {
        Some("INDEXES") => {}
        Some("TOTAL") => {
            if let Some(consumed) = consumed {
                consumed.table = None;
                consumed.global_secondary_indexes = None;
                consumed.local_secondary_indexes = None;
            }
        }
        _ => *consumed = None,
    }
}

fn reduce_all_capacities(consumed: &mut Option<Vec<ConsumedCapacity>>, requested: &Option<String>) {
    let Some(all) = consumed.take() else { return };
    let cut: Vec<ConsumedCapacity> = all
        .into_iter()
        .filter_map(|one| {
            let mut one = Some(one);
            reduce_capacity(&mut one, requested);
            one
        })
        .collect();
    *consumed = (!cut.is_empty()).then_some(cut);
}
