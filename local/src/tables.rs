//! Tables of the embedded DynamoDB.

use dynoxide::DynoxideError;
use dynoxide::actions::create_table::{self, CreateTableRequest};
use serde_json::{Value, json};

use crate::database::Database;
use crate::error::LocalError;

/// Creates the inbox table and the calls table. A table that exists stays as it is.
pub(crate) fn create_tables(database: &Database, inbox: &str, calls: &str) -> Result<(), LocalError> {
    let [inbox_table, calls_table] = stack_tables(inbox, calls);
    create_table(database, inbox, inbox_table)?;
    create_table(database, calls, calls_table)
}

/// `CreateTable` requests of the inbox table and the calls table, with these names.
#[must_use]
pub fn stack_tables(inbox: &str, calls: &str) -> [Value; 2] {
    [
        json!({
            "TableName": inbox,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": "event_id", "AttributeType": "S"},
                {"AttributeName": "received_bucket", "AttributeType": "S"},
                {"AttributeName": "received_at", "AttributeType": "N"},
                {"AttributeName": "attention", "AttributeType": "S"},
                {"AttributeName": "attention_at", "AttributeType": "N"},
            ],
            "KeySchema": [{"AttributeName": "event_id", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by_received",
                    "KeySchema": [
                        {"AttributeName": "received_bucket", "KeyType": "HASH"},
                        {"AttributeName": "received_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["call_id", "disposition"]},
                },
                {
                    "IndexName": "by_attention",
                    "KeySchema": [
                        {"AttributeName": "attention", "KeyType": "HASH"},
                        {"AttributeName": "attention_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {
                        "ProjectionType": "INCLUDE",
                        "NonKeyAttributes": ["call_id", "origin", "type", "cause"],
                    },
                },
            ],
        }),
        json!({
            "TableName": calls,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": "call_id", "AttributeType": "S"},
                {"AttributeName": "wake_key", "AttributeType": "S"},
                {"AttributeName": "wake_at", "AttributeType": "N"},
                {"AttributeName": "appointment_id", "AttributeType": "S"},
                {"AttributeName": "party", "AttributeType": "S"},
                {"AttributeName": "created_at", "AttributeType": "N"},
            ],
            "KeySchema": [{"AttributeName": "call_id", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by_wake",
                    "KeySchema": [
                        {"AttributeName": "wake_key", "KeyType": "HASH"},
                        {"AttributeName": "wake_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["in_flight"]},
                },
                {
                    "IndexName": "by_appointment",
                    "KeySchema": [{"AttributeName": "appointment_id", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                },
                {
                    "IndexName": "by_party",
                    "KeySchema": [
                        {"AttributeName": "party", "KeyType": "HASH"},
                        {"AttributeName": "created_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                },
            ],
        }),
    ]
}

/// Creates a table from the JSON of a `CreateTable` request. A table that exists stays as it is.
pub(crate) fn create_table(database: &Database, table: &str, definition: Value) -> Result<(), LocalError> {
    let request: CreateTableRequest = serde_json::from_value(definition)
        .map_err(|source| LocalError::DescribeTable { table: table.to_owned(), source })?;
    match database.run(async |storage| create_table::execute(storage, request).await) {
        Ok(_) | Err(DynoxideError::ResourceInUseException(_)) => Ok(()),
        Err(source) => Err(LocalError::CreateTable { table: table.to_owned(), source }),
    }
}
