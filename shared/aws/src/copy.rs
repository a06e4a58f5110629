//! Copies of whole tables, part by part.
//!
//! **A copy never replaces an item.** The list of accounts gets the names that it lacks. So a part that was copied half-way is copied again, and nothing is lost.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::scan::ScanError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt};
use switchhook_domain::Timestamp;
use tokio::time::{Instant, sleep};

use crate::calls::accounts;
use crate::dynamodb::{ConditionalWrite, Item};
use crate::error::{Error, Source};
use crate::telemetry::hide_number;

/// Parts of a table that are counted at the same time.
const COUNT_CONCURRENCY: u32 = 8;
/// Writes at the same time.
const WRITE_CONCURRENCY: usize = 32;
/// Largest number of items that are read at once.
const PAGE_ITEMS_MAX: u32 = 250;
/// Number of items whose keys a plan shows.
const SAMPLE: i32 = 3;

/// Size of a table, found by reading it once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableSize {
    /// Number of items. Counting stops soon after the limit.
    pub items: u64,
    pub read_units: f64,
    pub requests: u64,
    /// Number of shards in which the items are filed. 0 if none is filed in an index with shards.
    pub shards: u64,
    /// Keys of some items, without phone numbers.
    pub sample: Vec<String>,
}

/// Part of a table: the part `index` of `of` parts of about the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePart {
    pub index: u32,
    pub of: u32,
}

/// Table to copy from, and table to copy to. Both have the same key.
#[derive(Clone, Copy, Debug)]
pub struct TableCopy<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// Name of the key attribute.
    pub key: &'a str,
}

/// Numbers of items of a part that was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    pub copied: u64,
    /// Items whose key the other table has. They stay as they are.
    pub present: u64,
    /// Items that were not copied, because DynamoDB may remove them already.
    pub expired: u64,
}

impl CopyCounts {
    /// Returns the number of items that were read.
    #[must_use]
    pub const fn read(&self) -> u64 {
        self.copied + self.present + self.expired
    }
}

/// Function that gets the number of newly counted items, once for each page that is read.
pub type Counted<'a> = &'a (dyn Fn(u64) + Sync);

/// True if the key of a table is this text attribute alone. DynamoDB refuses a scan that starts at a key of another name.
///
/// # Errors
/// [`Error::CopyTable`].
pub async fn has_key(client: &Client, table: &str, key: &str) -> Result<bool, Error> {
    let scan = client.scan().table_name(table).limit(1).projection_expression("#key");
    let scan = scan.expression_attribute_names("#key", key).exclusive_start_key(key, AttributeValue::S("-".to_owned()));
    let Err(error) = scan.send().await else { return Ok(true) };
    let refusal = error.as_service_error().map(ScanError::meta);
    let is_of_key = refusal.is_some_and(|refusal| {
        refusal.code() == Some("ValidationException") && refusal.message().is_some_and(|text| text.contains(" key "))
    });
    if is_of_key { Ok(false) } else { Err(failed(error)) }
}

/// Counts the items of a table by reading it, until a part has more than `most`.
///
/// # Errors
/// [`Error::CopyTable`].
pub async fn measure(
    client: &Client,
    table: &str,
    key: &str,
    most: u64,
    counted: Counted<'_>,
) -> Result<TableSize, Error> {
    let first = client.scan().table_name(table).limit(SAMPLE).projection_expression("#key");
    let first = first.expression_attribute_names("#key", key).send().await.map_err(failed)?;
    let keys = first.items.unwrap_or_default().into_iter().filter_map(|item| item.get(key)?.as_s().ok().cloned());
    let sample = keys.map(|key| hide_number(&key).into_owned()).collect();
    let parts = (0..COUNT_CONCURRENCY).map(|index| count_part(client, table, index, most, counted));
    let mut size = TableSize { sample, ..TableSize::default() };
    for part in try_join_all(parts).await? {
        size.items += part.items;
        size.read_units += part.read_units;
        size.requests += part.requests;
        size.shards = size.shards.max(part.shards);
    }
    Ok(size)
}

async fn count_part(
    client: &Client,
    table: &str,
    index: u32,
    most: u64,
    counted: Counted<'_>,
) -> Result<TableSize, Error> {
    let scan = client.scan().table_name(table).projection_expression("wake_key, received_bucket");
    let scan = scan.return_consumed_capacity(ReturnConsumedCapacity::Total);
    let scan = scan.segment(segment(index)).total_segments(segment(COUNT_CONCURRENCY));
    let mut pages = scan.into_paginator().send();
    let mut size = TableSize::default();
    while let Some(page) = pages.next().await {
        let page = page.map_err(failed)?;
        size.requests += 1;
        let items = u64::try_from(page.count).unwrap_or_default();
        counted(items);
        let shards = page.items().iter().flat_map(|item| item.values().filter_map(shard_of_key));
        size.shards = shards.map(|shard| shard.saturating_add(1)).fold(size.shards, u64::max);
        size.items += items;
        size.read_units += page.consumed_capacity.and_then(|used| used.capacity_units).unwrap_or_default();
        if size.items > most {
            break;
        }
    }
    Ok(size)
}

/// Shard in the key of an index, for example 3 in `dial.retell#3`.
fn shard_of_key(key: &AttributeValue) -> Option<u64> {
    key.as_s().ok()?.rsplit_once('#')?.1.parse().ok()
}

/// Copies the items of one part of a table, at most `rate` a second.
///
/// # Errors
/// [`Error::CopyTable`]. A repetition is safe.
pub async fn copy_part(
    client: &Client,
    TableCopy { from, to, key }: TableCopy<'_>,
    part: TablePart,
    rate: u32,
    now: Timestamp,
) -> Result<CopyCounts, Error> {
    let limit = i32::try_from(rate.clamp(1, PAGE_ITEMS_MAX)).unwrap_or(1);
    let scan = client.scan().table_name(from).consistent_read(true).limit(limit);
    let scan = scan.segment(segment(part.index)).total_segments(segment(part.of));
    let mut pages = scan.into_paginator().send();
    let started = Instant::now();
    let mut counts = CopyCounts::default();
    while let Some(page) = pages.next().await {
        let items = page.map_err(failed)?.items.unwrap_or_default();
        let due = Duration::from_millis(counts.read().saturating_mul(1_000) / u64::from(rate.max(1)));
        sleep(due.saturating_sub(started.elapsed())).await;
        let (live, expired): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|item| !is_expired(item, now));
        counts.expired += expired.len() as u64;
        for names in live.iter().filter_map(accounts::names_in) {
            accounts::add(client, to, names.clone()).await.map_err(Error::CopyTable)?;
        }
        let puts = live.into_iter().map(|mut item| {
            // The announcements of the last write in the other table are no news: the relay must not publish them again.
            item.remove("outbox_start");
            let put = client.put_item().table_name(to).set_item(Some(item));
            put.condition_expression("attribute_not_exists(#key)").expression_attribute_names("#key", key).send()
        });
        let puts: Vec<_> = stream::iter(puts).buffered(WRITE_CONCURRENCY).collect().await;
        for put in puts {
            let is_copied = ConditionalWrite::from_result(put).map_err(Error::CopyTable)?.is_applied();
            counts.copied += u64::from(is_copied);
            counts.present += u64::from(!is_copied);
        }
    }
    Ok(counts)
}

fn failed<E: std::error::Error + Send + Sync + 'static>(error: E) -> Error {
    Error::CopyTable(Box::new(error) as Source)
}

fn segment(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// True if DynamoDB may remove the item.
fn is_expired(item: &Item, now: Timestamp) -> bool {
    let end = item.get("expires_at").and_then(|end| end.as_n().ok()?.parse::<i64>().ok());
    end.is_some_and(|end| end < now.as_millis() / 1_000)
}
