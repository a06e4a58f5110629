//! Calls that a stack no longer finds, because its indexes had more shards before.
//!
//! **The drift check stores a cursor for each shard that it reads, and nothing removes one.** So a stack that never had more shards costs one
//! read. Any other stack is asked for one call in each wake queue of the further shards.

use switchhook_aws::calls::{TimeRange, WakeQueue};
use switchhook_aws::shards::SHARDS_MAX;
use switchhook_domain::Timestamp;

use super::advice;
use super::step::{Finding, StepResult};
use crate::concurrent::concurrently;
use crate::error::Error;
use crate::stack::Stack;

/// Queries at the same time.
const CONCURRENCY: usize = 32;

/// Returns a failure if calls are filed in shards that the stack does not read, and a note if that cannot be found out. `None` if there are no
/// such calls.
pub(super) async fn hidden_calls(stack: &Stack) -> Option<Finding> {
    match find(stack).await {
        Ok(found) => found,
        Err(error) => {
            let failed = advice::failed(&error);
            let text = format!("could not look for calls in further shards: {}", failed.text);
            Some(Finding { result: StepResult::Note, text, ..failed })
        }
    }
}

async fn find(stack: &Stack) -> Result<Option<Finding>, Error> {
    let read = stack.calls.index_shards().max();
    let mut end = read;
    while end < SHARDS_MAX && stack.inbox.drift_cursor(end).await?.is_some() {
        end += 1;
    }
    if end == read {
        return Ok(None);
    }
    let queues = WakeQueue::all(&stack.calls.accounts().await?);
    let places: Vec<(WakeQueue, u64)> =
        (read..end).flat_map(|shard| queues.iter().map(move |queue| (*queue, shard))).collect();
    let found = places.into_iter().map(|(queue, shard)| async move {
        let mut pages = stack.calls.wake_queue_pages(queue, shard, TimeRange::UpTo(Timestamp::MAX), Some(1));
        let page = pages.next().await?;
        Ok::<_, Error>(page.is_some_and(|page| !page.items.is_empty()))
    });
    let has_hidden = concurrently(CONCURRENCY, found).await?.contains(&true);
    Ok(has_hidden.then(|| {
        let shards = &stack.names.settings.index_shards;
        Finding::failed(
            format!(
                "with IndexShards={shards} the stack reads {read} shards, and calls are filed in up to {end}: nobody dials, ends or lists \
                 the calls in the others"
            ),
            // This number alone would become the first one, and that one tells where the oldest events are filed.
            format!(
                "deploy with the `IndexShards` that the stack had before; it had {end} shards: docs/deploy.md#more-shards"
            ),
        )
    }))
}
