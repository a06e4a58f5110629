//! Reads of the rows of several calls at once.

use futures_util::stream::{self, StreamExt};
use switchhook_domain::{Call, CallId};

use super::table::{Calls, Found};
use crate::error::Error;

/// Rows read at the same time.
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
        let reads = ids.into_iter().map(|id| async move {
            let read = self.get_eventual(&id).await;
            (id, read)
        });
        let reads: Vec<_> = stream::iter(reads).buffered(CONCURRENCY).collect().await;
        let mut loaded = Loaded::default();
        for (id, read) in reads {
            match read {
                Ok(Found::Call(call)) => loaded.calls.push(*call),
                Ok(Found::Alias(_) | Found::Nothing) => {}
                Err(error @ (Error::DecodeCall(_) | Error::NewerSchema(_))) => loaded.unreadable.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }
}
