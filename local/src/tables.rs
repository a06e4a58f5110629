//! Tables of the embedded DynamoDB.

use dynoxide::DynoxideError;
use dynoxide::actions::create_table::{self, CreateTableRequest};
use serde_json::json;

use crate::database::Database;
use crate::error::LocalError;

/// Creates the inbox table and the calls table. A table that exists stays as it is.
pub(crate) fn create_tables(database: &Database, inbox: &str, calls: &str) -> Result<(), LocalError> {
    create_table(
        database,
        inbox,
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
    )?;
    create_table(
        database,
        calls,
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
    )
}

/// Creates a table from the JSON of a `CreateTable` request. A table that exists stays as it is.
pub(crate) fn create_table(database: &Database, table: &str, definition: serde_json::Value) -> Result<(), LocalError> {
    let request: CreateTableRequest = serde_json::from_value(definition)
        .map_err(|source| LocalError::DescribeTable { table: table.to_owned(), source })?;
    match database.run(async |storage| create_table::execute(storage, request).await) {
        Ok(_) | Err(DynoxideError::ResourceInUseException(_)) => Ok(()),
        Err(source) => Err(LocalError::CreateTable { table: table.to_owned(), source }),
    }
}
