//! Items of the tables, as DynamoDB stores them. Tests read and change them without the code under test.

use std::collections::BTreeMap;

use serde_dynamo::AttributeValue;
use switchhook_aws::sdk;
use switchhook_local::CALLS_TABLE;

use crate::world::World;

/// An item of a table.
pub type Item = BTreeMap<String, AttributeValue>;

impl World {
    /// Sets a text attribute of a call's row, as an operator could do in the AWS console.
    ///
    /// # Panics
    /// If there is no such call.
    pub async fn alter_text(&self, call_id: &str, name: &str, value: &str) {
        self.alter(call_id, name, AttributeValue::S(value.to_owned())).await;
    }

    /// Changes the history in a call's row, as an operator could do in the AWS console.
    ///
    /// # Panics
    /// If there is no such call.
    pub async fn alter_history(&self, call_id: &str, change: impl FnOnce(&mut Vec<String>)) {
        let item = self
            .items(CALLS_TABLE)
            .await
            .into_iter()
            .find(|item| item["call_id"] == AttributeValue::S(call_id.to_owned()));
        let mut history: Vec<String> = match item.as_ref().and_then(|item| item.get("history")) {
            Some(AttributeValue::L(entries)) => entries
                .iter()
                .map(|entry| if let AttributeValue::S(text) = entry { text.clone() } else { panic!("{entry:?}") })
                .collect(),
            other => panic!("the history of {call_id} is {other:?}"),
        };
        change(&mut history);
        self.alter(call_id, "history", AttributeValue::L(history.into_iter().map(AttributeValue::S).collect())).await;
    }

    async fn alter(&self, call_id: &str, name: &str, value: AttributeValue) {
        let aws = sdk::with_timeouts_and_retries(&self.cloud.services().sdk_config());
        let request = sdk::dynamodb(&aws)
            .update_item()
            .table_name(CALLS_TABLE)
            .key("call_id", AttributeValue::S(call_id.to_owned()).into())
            .condition_expression("attribute_exists(call_id)")
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value.into());
        request.send().await.unwrap_or_else(|error| panic!("{error:?}"));
    }

    /// Every item of a table as it is stored, in no particular order.
    ///
    /// # Panics
    /// If there is no such table.
    pub async fn items(&self, table: &str) -> Vec<Item> {
        let aws = sdk::with_timeouts_and_retries(&self.cloud.services().sdk_config());
        let mut items = Vec::new();
        let mut start = None;
        loop {
            let page = sdk::dynamodb(&aws).scan().table_name(table).set_exclusive_start_key(start).send().await;
            let page = page.unwrap_or_else(|error| panic!("{error:?}"));
            for item in page.items.unwrap_or_default() {
                let item: serde_dynamo::Item = item.into();
                items.push(item.into_inner().into_iter().collect());
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                return items;
            }
        }
    }

    /// The item of a table with this partition key.
    ///
    /// # Panics
    /// If the item does not exist.
    pub async fn item(&self, table: &str, key: &str) -> Item {
        let name = if table == CALLS_TABLE { "call_id" } else { "event_id" };
        let is_it = |item: &Item| item.get(name) == Some(&AttributeValue::S(key.to_owned()));
        self.items(table).await.into_iter().find(is_it).unwrap_or_else(|| panic!("there is no {key} in {table}"))
    }

    /// Deletes the item with this key.
    ///
    /// # Panics
    /// If DynamoDB refuses the request.
    pub async fn delete_item(&self, table: &str, key: &str) {
        let aws = sdk::with_timeouts_and_retries(&self.cloud.services().sdk_config());
        let name = if table == CALLS_TABLE { "call_id" } else { "event_id" };
        let key = AttributeValue::S(key.to_owned()).into();
        let deleted = sdk::dynamodb(&aws).delete_item().table_name(table).key(name, key).send().await;
        deleted.unwrap_or_else(|error| panic!("{error:?}"));
    }

    /// Stores copies of an item, each with some attributes of its own. It is much faster than [`put_item`](Self::put_item), and no
    /// function learns of the copies.
    ///
    /// # Panics
    /// If the database refuses a copy.
    pub fn store_copies(
        &self,
        table: &str,
        item: &Item,
        copies: impl IntoIterator<Item = Vec<(&'static str, AttributeValue)>>,
    ) {
        let json = |value: &AttributeValue| serde_json::to_value(value).unwrap_or_else(|error| panic!("{error}"));
        let item = item.iter().map(|(name, value)| (name.clone(), json(value))).collect();
        let copies =
            copies.into_iter().map(|own| own.iter().map(|(name, value)| ((*name).to_owned(), json(value))).collect());
        let stored = self.cloud.services().dynamodb().store_copies(table, item, copies);
        stored.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Puts an item without any condition.
    ///
    /// # Panics
    /// If DynamoDB refuses the item.
    pub async fn put_item(&self, table: &str, item: Item) {
        let aws = sdk::with_timeouts_and_retries(&self.cloud.services().sdk_config());
        let item = serde_dynamo::Item::from(item.into_iter().collect::<std::collections::HashMap<_, _>>());
        let put = sdk::dynamodb(&aws).put_item().table_name(table).set_item(Some(item.into())).send().await;
        put.unwrap_or_else(|error| panic!("{error:?}"));
    }
}
