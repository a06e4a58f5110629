//! Items that need attention, over all shards of the index.

use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_domain::Timestamp;
use switchhook_providers::ReadError;

use crate::error::Error;
use crate::stack::Stack;

/// Cause that the consumer notes, and the cause in words.
const CALL_FULL: &str = "call_full";
const CALL_FULL_TEXT: &str = "the call has reached its limit of events";

/// Returns the cause of a quarantine in words. `None` if this version does not know it.
#[must_use]
pub fn text_of_cause(cause: &str) -> Option<String> {
    ReadError::text_of(cause).or_else(|| (cause == CALL_FULL).then(|| CALL_FULL_TEXT.to_owned()))
}

/// Returns the items of a kind, the latest first, at most `limit` of them.
pub(crate) async fn all(stack: &Stack, kind: AttentionKind, limit: usize) -> Result<Vec<Attention>, Error> {
    Ok(before(stack, kind, None, limit).await?.0)
}

/// Returns the items of a kind that were marked before a time, the latest first, at most `limit` of them. Returns the number of queries too.
pub(crate) async fn before(
    stack: &Stack,
    kind: AttentionKind,
    until: Option<Timestamp>,
    limit: usize,
) -> Result<(Vec<Attention>, usize), Error> {
    let (mut found, mut queries) = (Vec::new(), 0);
    let page_max = i32::try_from(limit).unwrap_or(i32::MAX).max(1);
    for shard in stack.inbox.attention_shards() {
        let mut pages = stack.inbox.attention_pages(kind, shard, until, Some(page_max));
        let mut of_shard = 0;
        while let Some(page) = pages.next().await? {
            queries += 1;
            of_shard += page.items.len();
            found.extend(page.items);
            if of_shard >= limit {
                break;
            }
        }
    }
    found.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.item_key.cmp(&b.item_key)));
    found.truncate(limit);
    Ok((found, queries))
}
