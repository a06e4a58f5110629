//! The database: the tables of the embedded DynamoDB, and those of the local cloud beside them, in one SQLite file.
//!
//! `dynoxide::Database` hides its connection, so this calls the actions below it. With the connection, a trigger makes the records of
//! the stream, and the journals of the queues and the bus are plain tables.
//!
//! **A commit is in the file when the call returns, and on the disk after the next [`Disk::flush`].** With the write-ahead log, a
//! killed process loses no commit. A power cut loses the commits since the last flush, always the latest ones, and corrupts nothing.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dynoxide::DynoxideError;
use dynoxide::storage::Storage;
use futures_util::FutureExt;

use crate::error::LocalError;
use crate::sync::lock;

/// Statements that stay compiled: those of every table, every index and every journal.
const STATEMENTS: usize = 128;
/// Settings of a database in a file. `NORMAL` leaves the fsync of a commit to [`Disk::flush`], which does it for many commits at once.
/// The log is moved into the file less often than by default: after 16 MiB, because a page that changed often is moved only once.
/// With `EXCLUSIVE`, the connection keeps its locks instead of taking them for each transaction: the data directory belongs to one
/// process anyway.
const FILE_SETTINGS: &str = "
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA synchronous = NORMAL;
    PRAGMA wal_autocheckpoint = 4096;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
";

/// Clones share the same database.
#[derive(Clone)]
pub(crate) struct Database(Arc<Mutex<Storage>>);

impl Database {
    pub(crate) fn memory() -> Result<Self, DynoxideError> {
        Ok(Self::over(Storage::memory()?))
    }

    pub(crate) fn file(path: &Path) -> Result<Self, DynoxideError> {
        let storage = Storage::new(&path.to_string_lossy())?;
        storage.conn().execute_batch(FILE_SETTINGS)?;
        Ok(Self::over(storage))
    }

    fn over(storage: Storage) -> Self {
        storage.conn().set_prepared_statement_cache_capacity(STATEMENTS);
        Self(Arc::new(Mutex::new(storage)))
    }

    /// Runs an action of the embedded DynamoDB, or statements of the local cloud. Others wait meanwhile.
    pub(crate) fn run<T>(
        &self,
        action: impl AsyncFnOnce(&Storage) -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let storage = lock(&self.0);
        // Actions are asynchronous only for a backend in the browser. On this one they never wait.
        let done = action(&storage).now_or_never();
        done.unwrap_or_else(|| Err(DynoxideError::InternalServerError("the database did not answer".to_owned())))
    }

    /// Runs statements in one transaction: all of them are carried out, or none.
    pub(crate) fn transaction<T>(
        &self,
        statements: impl FnOnce(&Storage) -> Result<T, DynoxideError>,
    ) -> Result<T, DynoxideError> {
        let storage = lock(&self.0);
        let transaction = storage.conn().unchecked_transaction()?;
        let done = statements(&storage)?;
        transaction.commit()?;
        Ok(done)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database")
    }
}

/// The disk under a database file.
#[derive(Debug)]
pub(crate) struct Disk {
    log: Arc<File>,
    flushes: Arc<Flushes>,
}

impl Disk {
    /// Opens the write-ahead log of a database that is open.
    pub(crate) fn open(database: &Path) -> Result<Self, LocalError> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let path = PathBuf::from(path);
        // SQLite never locks this file, so a second handle cannot release its locks.
        let log = File::open(&path).map_err(|source| LocalError::OpenLog { path, source })?;
        Ok(Self { log: Arc::new(log), flushes: Arc::default() })
    }

    /// Returns when every commit before the call is on the disk.
    pub(crate) async fn flush(&self) -> Result<(), LocalError> {
        let log = self.log.clone();
        let flush = async move {
            let flushed = tokio::task::spawn_blocking(move || log.sync_data()).await;
            flushed.map_err(std::io::Error::other).flatten()
        };
        self.flushes.clone().share(flush).await
    }
}

/// Flushes that many callers share: whoever calls during a flush waits for the next one, which is for all who called meanwhile.
#[derive(Debug, Default)]
struct Flushes {
    finished: tokio::sync::Mutex<Finished>,
    /// Number of the latest flush that has begun.
    begun: AtomicU64,
}

#[derive(Debug, Default)]
struct Finished {
    /// Number of the latest flush that has succeeded.
    number: u64,
    /// True if a flush failed. Its data may be lost, and a later flush may succeed all the same.
    has_failed: bool,
}

impl Flushes {
    /// Runs `flush`, unless a flush of another caller begins after this call and succeeds.
    ///
    /// A flush that has begun ends, even if its caller goes away. Otherwise nobody would hear that it failed, and the next flush
    /// would succeed without its data.
    async fn share(
        self: Arc<Self>,
        flush: impl Future<Output = std::io::Result<()>> + Send + 'static,
    ) -> Result<(), LocalError> {
        let shared = tokio::spawn(self.run(flush)).await;
        shared.unwrap_or_else(|crash| Err(LocalError::Flush { source: std::io::Error::other(crash) }))
    }

    async fn run(self: Arc<Self>, flush: impl Future<Output = std::io::Result<()>>) -> Result<(), LocalError> {
        let needed = self.begun.load(Ordering::SeqCst) + 1;
        let mut finished = self.finished.lock().await;
        if finished.has_failed {
            return Err(LocalError::FlushFailedBefore);
        }
        if finished.number >= needed {
            return Ok(());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        if let Err(source) = flush.await {
            finished.has_failed = true;
            return Err(LocalError::Flush { source });
        }
        finished.number = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_flush_serves_all_who_called_before_it_began() {
        let (flushes, runs) = (Arc::<Flushes>::default(), Arc::new(AtomicU32::new(0)));
        let call = async |at_ms| {
            tokio::time::sleep(Duration::from_millis(at_ms)).await;
            let runs = runs.clone();
            let flush = async move {
                runs.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(())
            };
            flushes.clone().share(flush).await.unwrap();
            tokio::time::Instant::now()
        };
        let started = tokio::time::Instant::now();
        let ends = tokio::join!(call(0), call(1), call(5), call(9), call(12));
        let ends = [ends.0, ends.1, ends.2, ends.3, ends.4].map(|end| (end - started).as_millis());

        // The second flush begins at 10 ms, for the calls during the first one.
        assert_eq!(ends, [10, 20, 20, 20, 30]);
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }

    async fn fails_later() -> std::io::Result<()> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Err(std::io::Error::other("the disk is full"))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_counts_as_written_after_a_failed_flush() {
        let flushes = Arc::<Flushes>::default();
        assert!(matches!(flushes.clone().share(fails_later()).await, Err(LocalError::Flush { .. })));
        assert!(matches!(flushes.share(async { Ok(()) }).await, Err(LocalError::FlushFailedBefore)));
    }

    /// The system may tell of the failure only once. The client of a request may have gone by then.
    #[tokio::test(start_paused = true)]
    async fn failure_of_a_flush_whose_caller_went_away_is_kept() {
        let flushes = Arc::<Flushes>::default();
        let went_away = tokio::time::timeout(Duration::from_millis(1), flushes.clone().share(fails_later())).await;
        assert!(went_away.is_err());
        assert!(matches!(flushes.share(async { Ok(()) }).await, Err(LocalError::FlushFailedBefore)));
    }

    #[test]
    fn statements_of_a_failed_transaction_are_undone() {
        let database = Database::memory().unwrap();
        database.run(async |storage| Ok(storage.conn().execute_batch("CREATE TABLE t (x)")?)).unwrap();
        let failed: Result<(), DynoxideError> = database.transaction(|storage| {
            storage.conn().execute("INSERT INTO t VALUES (1)", [])?;
            Err(DynoxideError::InternalServerError("no".to_owned()))
        });
        failed.unwrap_err();
        let count = database.transaction(|storage| {
            storage.conn().execute("INSERT INTO t VALUES (2)", [])?;
            Ok(storage.conn().query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))?)
        });
        assert_eq!(count.unwrap(), 1);
    }
}
