//! Reading the rows of several calls at once.

use futures_util::StreamExt;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Found};
use switchhook_domain::{Call, CallId};

/// Rows read at once.
const READS_AT_ONCE: usize = 16;

/// What became of reading some rows.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) calls: Vec<Call>,
    pub(crate) unreadable: Vec<(CallId, Error)>,
}

/// Reads the rows of some calls, in their order. One that is gone is left out, one that cannot be understood is told
/// apart.
pub(crate) async fn load(calls: &Calls, ids: Vec<CallId>) -> Result<Loaded, Error> {
    let reads = ids.into_iter().map(|id| async move {
        let read = calls.get_eventual(&id).await;
        (id, read)
    });
    let reads: Vec<_> = futures_util::stream::iter(reads).buffered(READS_AT_ONCE).collect().await;
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
