//! The local cloud: in one process, what AWS runs around our handlers.
//!
//! The real SDK clients reach an embedded DynamoDB, a model of SQS FIFO queues and an event bus through an HTTP client
//! that opens no socket ([`connector`]). Time is tokio's ([`clock`]), so a run is in real time (`switchhook dev`) or in
//! virtual time, where one seed is one run (`switchhook demo`, the simulator, the tests).
//!
//! **On one thread, everything here is deterministic**: ids are counted, maps are ordered, watchers wake in the order in
//! which they began to wait. (What is not ours: `tokio::select!` needs `biased`, and `clock::seed` seeds the SDK.)
//!
//! With a data directory everything survives a kill; without one everything is in memory.

pub mod bus;
pub mod clock;
mod cloud;
pub mod connector;
pub mod dynamodb;
mod error;
pub mod fake;
mod journal;
pub mod queue;
pub mod sqs;
pub mod stream;
mod sync;
mod wire;

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_types::SdkConfig;
use aws_types::region::Region;
use dynoxide::Database;
use switchhook_domain::RetryPolicy;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::connector::Connector;
use crate::dynamodb::DynamoDb;
use crate::journal::Journal;
use crate::queue::{QueueSettings, RedrivePolicy};
use crate::sqs::Sqs;

pub use crate::cloud::{CONCURRENT_DIALS_PER_PROVIDER, Cloud, CloudError, CloudOptions};
pub use crate::error::LocalError;
pub use crate::sync::Watch;

pub const REGION: &str = "us-east-1";
pub const ACCOUNT: &str = "000000000000";

pub const INBOX_TABLE: &str = "switchhook-inbox";
pub const CALLS_TABLE: &str = "switchhook-calls";

/// FIFO: what the ingress queues for the consumer.
pub const EVENTS_QUEUE: &str = "switchhook-events.fifo";
/// FIFO: what the scheduler claimed, for the dialer.
pub const DIAL_QUEUE: &str = "switchhook-dial.fifo";
/// FIFO: what the consumer could not process.
pub const EVENTS_DEAD_LETTER_QUEUE: &str = "switchhook-events-dlq.fifo";
/// Standard: where the relay's event source puts what it gave up on.
pub const RELAY_FAILURES_QUEUE: &str = "switchhook-relay-failures";

/// How a call is tried again that does not say, as template.yaml has it.
pub const DEFAULT_RETRY_POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay_seconds: 300, delay_max_seconds: 3_600, voicemail: false };

/// Where a client that is not given the connector would go: nowhere.
const ENDPOINT: &str = "http://switchhook.local.invalid";

/// Six times the ten seconds that the consumer may take.
const VISIBILITY_TIMEOUT_MS: u64 = 60_000;
/// Six times the half minute that the dialer may take.
const DIAL_VISIBILITY_TIMEOUT_MS: u64 = 180_000;
/// Of a queue that does not say.
const DEFAULT_VISIBILITY_TIMEOUT_MS: u64 = 30_000;
const MAX_RECEIVE_COUNT: u32 = 20;

#[derive(Debug)]
pub struct Options {
    /// Where everything is kept; None keeps it in memory.
    pub data_dir: Option<PathBuf>,
    pub clock: Clock,
    pub queues: Vec<QueueSettings>,
}

impl Options {
    /// In memory, with the queues of the stack.
    pub fn new(clock: Clock) -> Self {
        Self { data_dir: None, clock, queues: stack_queues() }
    }

    pub fn data_dir(self, data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..self }
    }
}

/// The queues as template.yaml declares them.
pub fn stack_queues() -> Vec<QueueSettings> {
    let queue = |name: &str, fifo, visibility_timeout_ms, redrive_policy| QueueSettings {
        name: name.to_owned(),
        fifo,
        visibility_timeout_ms,
        redrive_policy,
    };
    let redrive_policy =
        RedrivePolicy { dead_letter_queue: EVENTS_DEAD_LETTER_QUEUE.to_owned(), max_receive_count: MAX_RECEIVE_COUNT };
    vec![
        queue(EVENTS_QUEUE, true, VISIBILITY_TIMEOUT_MS, Some(redrive_policy)),
        queue(DIAL_QUEUE, true, DIAL_VISIBILITY_TIMEOUT_MS, None),
        queue(EVENTS_DEAD_LETTER_QUEUE, true, DEFAULT_VISIBILITY_TIMEOUT_MS, None),
        queue(RELAY_FAILURES_QUEUE, false, DEFAULT_VISIBILITY_TIMEOUT_MS, None),
    ]
}

/// The services, and the way to them. Clones share everything.
#[derive(Debug, Clone)]
pub struct Services {
    clock: Clock,
    dynamodb: Arc<DynamoDb>,
    sqs: Arc<Sqs>,
    bus: Arc<Bus>,
    connector: Connector,
    _data_dir: Option<Arc<DataDir>>,
}

impl Services {
    /// Opens what the data directory holds, repairs what a kill left behind, and creates what is missing. One process at
    /// a time.
    pub fn open(options: Options) -> Result<Self, LocalError> {
        let Options { data_dir, clock, queues } = options;
        let data_dir = data_dir.map(|path| DataDir::open(&path)).transpose()?;
        let database = match &data_dir {
            Some(data_dir) => open_file(data_dir)?,
            None => Database::memory().map_err(|source| LocalError::OpenDatabase { source })?,
        };
        let journal = |table| match &data_dir {
            Some(_) => Journal::open(&database, table).map(Some),
            None => Ok(None),
        };
        let sqs = Arc::new(Sqs::open(queues, journal(sqs::JOURNAL)?, clock)?);
        let bus = Arc::new(Bus::open(journal(bus::JOURNAL)?, clock)?);
        let stream = journal(stream::JOURNAL)?;
        let dynamodb = Arc::new(DynamoDb::open(database, INBOX_TABLE, CALLS_TABLE, stream, clock)?);
        let connector = Connector::new(dynamodb.clone(), sqs.clone(), bus.clone());
        Ok(Self { clock, dynamodb, sqs, bus, connector, _data_dir: data_dir.map(Arc::new) })
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What the handlers read the time from.
    pub fn time_source(&self) -> SharedTimeSource {
        SharedTimeSource::new(self.clock)
    }

    pub fn dynamodb(&self) -> &DynamoDb {
        &self.dynamodb
    }

    pub fn sqs(&self) -> &Sqs {
        &self.sqs
    }

    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// The configuration from which any client can be built; it talks to the local services and to nothing else.
    pub fn sdk_config(&self) -> SdkConfig {
        let credentials = Credentials::new("local", "local", None, None, "switchhook-local");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(REGION))
            .endpoint_url(ENDPOINT)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.connector.clone())
            .time_source(self.time_source())
            .sleep_impl(TokioSleep::new())
            .build()
    }
}

/// A directory that is ours alone until the file is closed; a kill closes it.
#[derive(Debug)]
struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    fn open(path: &Path) -> Result<Self, LocalError> {
        let path = path.to_owned();
        std::fs::create_dir_all(&path).map_err(|source| LocalError::CreateDataDir { path: path.clone(), source })?;
        let lock =
            File::create(path.join("lock")).map_err(|source| LocalError::LockDataDir { path: path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(LocalError::DataDirInUse { path }),
            Err(TryLockError::Error(source)) => Err(LocalError::LockDataDir { path, source }),
        }
    }
}

/// **A database under its own name has all its tables.** To create one takes several transactions, so the file gets its name
/// when it has them; a first start that was killed before leaves a file that the next one throws away.
fn open_file(data_dir: &DataDir) -> Result<Database, LocalError> {
    let path = data_dir.path.join("switchhook.sqlite");
    let open = |source| LocalError::OpenDatabase { source };
    if !path.exists() {
        let unfinished = data_dir.path.join("unfinished.sqlite");
        let create = |source| LocalError::CreateDataDir { path: data_dir.path.clone(), source };
        for file in ["unfinished.sqlite", "unfinished.sqlite-wal", "unfinished.sqlite-shm"] {
            match std::fs::remove_file(data_dir.path.join(file)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(create(error)),
            }
        }
        let database = Database::new(&unfinished.to_string_lossy()).map_err(open)?;
        dynamodb::create_tables(&database, INBOX_TABLE, CALLS_TABLE)?;
        for table in [sqs::JOURNAL, bus::JOURNAL, stream::JOURNAL] {
            Journal::open(&database, table)?;
        }
        // Closing it moves what its log holds into the file itself.
        drop(database);
        std::fs::rename(unfinished, &path).map_err(create)?;
    }
    let database = Database::new(&path.to_string_lossy()).map_err(open)?;
    // This leaves SQLite's `synchronous` at NORMAL, which no other call can reach: a commit then costs no fsync. With the
    // write-ahead log a killed process loses nothing by it; a power cut may lose the last writes, but breaks nothing.
    database.disable_bulk_loading().map_err(open)?;
    Ok(database)
}
