//! Reads of the rows of several calls at once.

use std::collections::{BTreeSet, HashMap};

use futures_util::stream::{self, StreamExt};
use switchhook_domain::{Call, CallId};

use super::table::{Calls, Found, Resolved};
use crate::error::Error;

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

    /// Reads the calls that ids lead to, in the order of `ids`, by strongly consistent reads or not. Each result has the form of
    /// [`Calls::resolve`]. Calls behind aliases cost a read each, by another request for a hundred of them.
    pub async fn resolve_all(&self, ids: Vec<CallId>, consistent: bool) -> Vec<(CallId, Result<Resolved, Error>)> {
        let found = self.read_all(ids, consistent).await;
        let behind: BTreeSet<CallId> = found.iter().filter_map(|(_, found)| behind_alias(found).cloned()).collect();
        let behind = self.read_all(behind.into_iter().collect(), consistent).await;
        let behind: HashMap<CallId, Option<Call>> =
            behind.into_iter().filter_map(|(id, found)| Some((id, found.ok()?.into_call()))).collect();
        let mut resolved = Vec::with_capacity(found.len());
        for (id, found) in found {
            let one = match found {
                Ok(Found::Alias(alias)) if behind.contains_key(&alias.call_id) => {
                    Ok(Resolved { call: behind.get(&alias.call_id).cloned().flatten(), alias: Some(alias) })
                }
                // The call behind an alias could not be read. It is read once more, for its error.
                Ok(found) => self.resolve_found(found, consistent).await,
                Err(error) => Err(error),
            };
            resolved.push((id, one));
        }
        resolved
    }

    /// Reads the items under ids, in their order. One request reads a hundred items. Those that it leaves out are read one by one, and all if
    /// it fails. So an item that cannot be read fails no other, and each error is returned.
    async fn read_all(&self, ids: Vec<CallId>, consistent: bool) -> Vec<(CallId, Result<Found, Error>)> {
        let mut read = Vec::with_capacity(ids.len());
        for ids in ids.chunks(REQUEST_ITEMS_MAX) {
            let distinct: BTreeSet<&CallId> = ids.iter().collect();
            let mut found = match distinct.len() {
                // A request for one item costs the same, and tells its error.
                ..2 => HashMap::new(),
                2.. => self.get_at_once(&distinct, consistent).await.unwrap_or_default(),
            };
            let reads = ids.iter().map(|id| {
                let found = found.remove(id);
                async move {
                    let found = match found {
                        Some(found) => Ok(found),
                        None => self.get(id, consistent).await,
                    };
                    (id.clone(), found)
                }
            });
            let reads: Vec<_> = reads.collect();
            read.extend(stream::iter(reads).buffered(CONCURRENCY).collect::<Vec<_>>().await);
        }
        read
    }
}

/// Returns the id of the call that an alias leads to.
const fn behind_alias(found: &Result<Found, Error>) -> Option<&CallId> {
    match found {
        Ok(Found::Alias(alias)) => Some(&alias.call_id),
        Ok(Found::Call(_) | Found::Nothing) | Err(_) => None,
    }
}
