//! Reads of the rows of several calls at once.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use futures_util::future::join_all;
use switchhook_domain::{Call, CallId};
use tokio::time::timeout;

use super::table::{Calls, Found, Resolved};
use crate::error::Error;
use crate::telemetry::Decision;

/// Limit on the items that one request reads. DynamoDB refuses more.
const REQUEST_ITEMS_MAX: usize = 100;
/// Rows that are read one by one at the same time.
const CONCURRENCY: usize = 16;

/// Result of reading several rows.
#[derive(Debug, Default)]
pub struct Loaded {
    pub calls: Vec<Call>,
    /// Calls whose rows exist and cannot be read.
    pub unreadable: Vec<(CallId, Error)>,
}

impl Calls {
    /// Reads the rows of calls by eventually consistent reads. The calls have the order of `ids`. Deleted rows and aliases are
    /// left out.
    ///
    /// # Errors
    /// [`Error::ReadCall`].
    pub async fn load(&self, ids: impl IntoIterator<Item = CallId>) -> Result<Loaded, Error> {
        let mut loaded = Loaded::default();
        for (id, read) in self.read_all(ids.into_iter().collect(), false).await {
            match read {
                Ok(Found::Call(call)) => loaded.calls.push(*call),
                Ok(Found::Alias(_) | Found::Nothing) => {}
                Err(error @ (Error::DecodeCall(_) | Error::NewerSchema(_))) => loaded.unreadable.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }

    /// Reads the latest state of calls by strongly consistent reads, in the order of `ids`. Each result has the form of
    /// [`Calls::get_call`].
    pub async fn get_calls(&self, ids: Vec<CallId>) -> Vec<Result<Option<Call>, Error>> {
        let reads = self.read_all(ids, true).await;
        reads.into_iter().map(|(_, read)| read.map(Found::into_call)).collect()
    }

    /// Reads the calls that ids lead to, in the order of `ids`, by eventually consistent reads. Each result has the form of
    /// [`Calls::resolve_eventual`]. Calls behind aliases cost a read each, by another request for a hundred of them.
    pub async fn resolve_all(&self, ids: Vec<CallId>) -> Vec<(CallId, Result<Resolved, Error>)> {
        let found = self.read_all(ids, false).await;
        let behind: BTreeSet<CallId> =
            found.iter().filter_map(|(_, found)| behind_alias(found.as_ref().ok()?).cloned()).collect();
        let behind: HashMap<CallId, Result<Found, Error>> =
            self.read_all(behind.into_iter().collect(), false).await.into_iter().collect();
        let mut resolved = Vec::with_capacity(found.len());
        for (id, found) in found {
            let call = found.as_ref().ok().and_then(|found| behind.get(behind_alias(found)?));
            let one = match (found, call) {
                (Ok(Found::Alias(alias)), Some(Ok(Found::Call(call)))) => {
                    Ok(Resolved { call: Some(Call::clone(call)), alias: Some(alias) })
                }
                (Ok(Found::Alias(_)), Some(Err(error))) if !error.is_unreadable() => Err(not_read()),
                // The row behind an alias is not there, or cannot be read. It is read once more, for its error.
                (Ok(found), _) => self.resolve_found(found, false).await,
                (Err(error), _) => Err(error),
            };
            resolved.push((id, one));
        }
        resolved
    }

    /// Does the same as [`Calls::get_at_once`] within a time limit. If the request fails or takes longer, logs it and returns nothing. Then each
    /// item must be read alone, so that one that cannot be read fails no other.
    pub async fn read_together(
        &self,
        ids: &BTreeSet<&CallId>,
        consistent: bool,
        limit: Duration,
    ) -> HashMap<CallId, Found> {
        let error = match timeout(limit, self.get_at_once(ids, consistent)).await {
            Ok(Ok(found)) => return found,
            Ok(Err(error)) => error,
            Err(elapsed) => Error::ReadCall(Box::new(elapsed)),
        };
        let decision = Decision {
            function: "calls",
            message: "calls not read together, each is read alone",
            action_taken: "calls_read_alone",
            ..Decision::from_error(Some(&error))
        };
        decision.log(self.clock().now(), true);
        HashMap::new()
    }

    /// Reads the items under ids, in their order. One request reads a hundred items. Those that it leaves out are read one by one, and all that
    /// follow if it fails. So an item that cannot be read fails no other, and each error is returned. Once single reads fail too, no more are sent: the
    /// function's time would end before all of them have.
    async fn read_all(&self, ids: Vec<CallId>, consistent: bool) -> Vec<(CallId, Result<Found, Error>)> {
        let mut read = Vec::with_capacity(ids.len());
        let (mut is_failing, mut reads_together) = (false, true);
        // A request that is not tried again. The tools of operators wait longer for an answer than functions do.
        let timeouts = self.client.config().timeout_config();
        let limit = timeouts.and_then(TimeoutConfig::operation_attempt_timeout).unwrap_or(Duration::MAX);
        for ids in ids.chunks(REQUEST_ITEMS_MAX) {
            let distinct: BTreeSet<&CallId> = ids.iter().collect();
            let mut found = match distinct.len() {
                // A request for one item costs the same, and tells its error.
                2.. if reads_together && !is_failing => self.read_together(&distinct, consistent, limit).await,
                _ => HashMap::new(),
            };
            reads_together &= distinct.len() < 2 || !found.is_empty();
            for ids in ids.chunks(CONCURRENCY) {
                let reads = ids.iter().map(|id| {
                    let found = found.remove(id);
                    async move {
                        match found {
                            Some(found) => Ok(found),
                            None if is_failing => Err(not_read()),
                            None => self.get(id, consistent).await,
                        }
                    }
                });
                let reads = join_all(reads.collect::<Vec<_>>()).await;
                is_failing |= reads.iter().any(|read| read.as_ref().is_err_and(|error| !error.is_unreadable()));
                read.extend(ids.iter().cloned().zip(reads));
            }
        }
        read
    }
}

/// Error of an item that was not read, because other reads failed.
fn not_read() -> Error {
    Error::ReadCall("the reads of other calls failed".into())
}

/// Returns the id of the call that an alias leads to.
const fn behind_alias(found: &Found) -> Option<&CallId> {
    match found {
        Found::Alias(alias) => Some(&alias.call_id),
        Found::Call(_) | Found::Nothing => None,
    }
}
