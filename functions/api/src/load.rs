//! Reading the rows of several calls at once.

use futures_util::StreamExt;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Found};
use switchhook_domain::{Call, CallId};

/// Rows read at the same time.
const CONCURRENCY: usize = 16;

/// Result of reading several rows.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) calls: Vec<Call>,
    /// Calls whose rows exist and cannot be read.
    pub(crate) unreadable: Vec<(CallId, Error)>,
}

/// Reads the rows of calls, in the order of `ids`. Deleted rows are left out.
pub(crate) async fn load(calls: &Calls, ids: Vec<CallId>) -> Result<Loaded, Error> {
    let reads = ids.into_iter().map(|id| async move {
        let read = calls.get_eventual(&id).await;
        (id, read)
    });
    let reads: Vec<_> = futures_util::stream::iter(reads).buffered(CONCURRENCY).collect().await;
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
