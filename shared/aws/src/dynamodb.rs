//! Parts that both tables share: items, conditional writes, pages of an index, and shards.

use std::collections::HashMap;
use std::hash::Hasher;
use std::time::Duration;

pub use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::query::{QueryError, QueryOutput};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_smithy_async::future::pagination_stream::PaginationStream;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use switchhook_domain::Timestamp;

use crate::error::{Error, Source};

/// Longest key that DynamoDB accepts, in bytes: it rejects a read with a longer one. Our own ids are far shorter.
pub const KEY_BYTES_MAX: usize = 2_048;

/// Item of a table, or its key: attribute names and values.
pub type Item = HashMap<String, AttributeValue>;

/// Refuses a row that a later version of Switchhook wrote.
///
/// # Errors
/// [`Error::NewerSchema`].
pub(crate) fn refuse_newer_schema(item: &serde_dynamo::Item, known: u32) -> Result<(), Error> {
    match item.get("schema_version") {
        Some(serde_dynamo::AttributeValue::N(text)) if text.parse().is_ok_and(|version: u32| version > known) => {
            Err(Error::NewerSchema(text.parse().unwrap_or(u32::MAX)))
        }
        _ => Ok(()),
    }
}

/// One page of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Key at which the next page starts. `None` on the last page.
    pub next: Option<Item>,
}

/// Pages of an index. Each is one request, which is sent when the page is asked for.
#[derive(Debug)]
pub struct Pages<T> {
    stream: PaginationStream<Result<QueryOutput, SdkError<QueryError, HttpResponse>>>,
    parse: fn(Item) -> Option<T>,
    error: fn(Source) -> Error,
}

impl<T> Pages<T> {
    /// Leaves out items that `parse` cannot read.
    pub(crate) fn new(query: QueryFluentBuilder, parse: fn(Item) -> Option<T>, error: fn(Source) -> Error) -> Self {
        Self { stream: query.into_paginator().send(), parse, error }
    }

    /// Reads the next page. `None` after the last page.
    ///
    /// # Errors
    /// [`Error::ListCalls`] for the calls table, [`Error::ListInbox`] for the inbox. No page follows an error.
    pub async fn next(&mut self) -> Result<Option<Page<T>>, Error> {
        let Some(page) = self.stream.next().await else { return Ok(None) };
        let page = page.map_err(|error| (self.error)(Box::new(error)))?;
        let items = page.items.unwrap_or_default().into_iter().filter_map(self.parse).collect();
        Ok(Some(Page { items, next: page.last_evaluated_key }))
    }
}

/// Result of a write with a condition.
pub(crate) enum ConditionalWrite<T> {
    Applied(T),
    /// The condition did not hold. Carries the item that is stored under the key, if the request asked for it.
    Refused(Option<Item>),
}

impl<T> ConditionalWrite<T> {
    /// # Errors
    /// Any error of the SDK but a condition that did not hold.
    pub(crate) fn from_result<E: ConditionalError>(
        result: Result<T, SdkError<E, HttpResponse>>,
    ) -> Result<Self, Source> {
        match result {
            Ok(output) => Ok(Self::Applied(output)),
            Err(error) => match error.as_service_error().and_then(E::failed_condition) {
                Some(refusal) => Ok(Self::Refused(refusal.item.clone())),
                None => Err(Box::new(error)),
            },
        }
    }

    pub(crate) const fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

/// Error of an operation that takes a condition.
pub(crate) trait ConditionalError: std::error::Error + Send + Sync + 'static {
    fn failed_condition(&self) -> Option<&ConditionalCheckFailedException>;
}

impl ConditionalError for PutItemError {
    fn failed_condition(&self) -> Option<&ConditionalCheckFailedException> {
        if let Self::ConditionalCheckFailedException(refusal) = self { Some(refusal) } else { None }
    }
}

impl ConditionalError for UpdateItemError {
    fn failed_condition(&self) -> Option<&ConditionalCheckFailedException> {
        if let Self::ConditionalCheckFailedException(refusal) = self { Some(refusal) } else { None }
    }
}

/// Returns the shard of an id, below `shards`. Uses FNV-1a: the same in every version and on every machine.
#[must_use]
pub fn shard_of(id: &str, shards: u64) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(id.as_bytes());
    hasher.finish() % shards
}

/// Time after which DynamoDB may remove an item, in Unix seconds.
pub(crate) fn expires_at(from: Timestamp, retention: Duration) -> i64 {
    from.plus(retention).as_millis() / 1_000
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
