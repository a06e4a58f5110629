//! The budget of requests by which workers look calls up at a provider.
//!
//! **All workers share one budget per provider and minute**: a counter in the inbox table. A worker takes some requests from it
//! at once, on the condition that its own ceiling is not exceeded, and gives back those that it does not send. Less urgent work has a lower ceiling, so it leaves
//! requests to more urgent work, even if another worker does that at the same time.

use std::time::Duration;

use switchhook_domain::{Provider, Timestamp};

use super::item::lookup_budget_key;
use super::sweep::minute_of;
use super::table::Inbox;
use crate::dynamodb::{ConditionalWrite, expires_at, number, text};
use crate::error::Error;

/// Time after which DynamoDB may remove the counter of a minute.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

impl Inbox {
    /// Takes `count` requests to a provider from the budget of the minute of `now`. Returns false if more than `ceiling` requests
    /// would then be taken in that minute.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. The requests may be taken all the same.
    pub async fn take_lookups(
        &self,
        provider: Provider,
        now: Timestamp,
        count: u32,
        ceiling: u32,
    ) -> Result<bool, Error> {
        let Some(taken_max) = ceiling.checked_sub(count) else { return Ok(false) };
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(&lookup_budget_key(provider, minute_of(now))))
            .update_expression("SET expires_at = :expires_at ADD taken :count")
            .condition_expression("attribute_not_exists(taken) OR taken <= :taken_max")
            .expression_attribute_values(":expires_at", number(expires_at(now, RETENTION)))
            .expression_attribute_values(":count", number(count.into()))
            .expression_attribute_values(":taken_max", number(taken_max.into()));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(write.is_applied())
    }

    /// Gives back requests that were taken from the budget of a minute and not sent.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. The requests are lost for that minute. If only the answer was lost, the SDK repeats the write, and they may be
    /// given back twice.
    pub async fn return_lookups(&self, provider: Provider, minute: i64, count: u32) -> Result<(), Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(&lookup_budget_key(provider, minute)))
            .update_expression("ADD taken :count")
            // The counter of an earlier minute may be gone.
            .condition_expression("taken >= :returned")
            .expression_attribute_values(":count", number(-i64::from(count)))
            .expression_attribute_values(":returned", number(count.into()));
        ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)?;
        Ok(())
    }
}
