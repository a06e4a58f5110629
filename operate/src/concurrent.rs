//! Reads and writes that are made at the same time.

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};

/// Reads or writes that an operation makes at the same time, if it has no limit of its own.
pub(crate) const CONCURRENCY: usize = 16;

/// Waits for futures, at most `limit` of them at a time. Returns their results in order, or the first error.
///
/// It returns a box, because the compiler cannot prove that a future is `Send` if that holds an iterator with a closure that takes
/// references (rust-lang/rust#102211). A server spawns the operations of this crate as tasks.
pub(crate) fn concurrently<'a, T, E, F>(
    limit: usize,
    futures: impl Iterator<Item = F> + Send + 'a,
) -> BoxFuture<'a, Result<Vec<T>, E>>
where
    T: Send + 'a,
    E: Send + 'a,
    F: Future<Output = Result<T, E>> + Send + 'a,
{
    stream::iter(futures).buffered(limit).try_collect().boxed()
}
