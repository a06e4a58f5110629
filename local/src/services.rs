//! The local AWS services, and the SDK configuration that reaches them.

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
use serde_json::Value;
use switchhook_domain::ProviderSet;
use switchhook_providers::{ProvidersFile, SecretHalf, WebhookConfig};

use crate::bus::Bus;
use crate::clock::{Clock, FunctionClock};
use crate::connector::Connector;
use crate::database::{Database, Disk};
use crate::dynamodb::DynamoDb;
use crate::error::LocalError;
use crate::journal::Journal;
use crate::queue::QueueSettings;
use crate::secrets_manager::SecretsManager;
use crate::sqs::Sqs;
use crate::stack::{
    CALLS_TABLE, DIAL_ACCOUNTS_SECRET, INBOX_TABLE, MAX_RECEIVE_COUNT, REGION, WEBHOOK_KEYS_SECRET, stack_queues,
};
use crate::{bus, fake, sqs, tables};

/// Endpoint of all clients. The name does not resolve, so a client without the connector reaches nothing.
const ENDPOINT: &str = "http://switchhook.local.invalid";

/// Options of [`Services::open`].
#[derive(Debug)]
pub struct Options {
    /// Directory for all data. `None` keeps the data in memory.
    pub data_dir: Option<PathBuf>,
    pub clock: Clock,
    pub queues: Vec<QueueSettings>,
}

impl Options {
    /// Data in memory, and the queues of the stack.
    pub fn new(clock: Clock) -> Self {
        Self { data_dir: None, clock, queues: stack_queues(MAX_RECEIVE_COUNT) }
    }

    pub fn data_dir(self, data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(data_dir.into()), ..self }
    }
}

/// The services and the connector to them. Clones share the same services.
#[derive(Debug, Clone)]
pub struct Services {
    clock: Clock,
    dynamodb: Arc<DynamoDb>,
    sqs: Arc<Sqs>,
    bus: Arc<Bus>,
    secrets_manager: Arc<SecretsManager>,
    connector: Connector,
    /// `None` if the data is in memory.
    disk: Option<Arc<Disk>>,
    database: Database,
    _data_dir: Option<Arc<DataDir>>,
}

impl Services {
    /// Opens the data directory, repairs what a killed process left unfinished, and creates missing tables.
    ///
    /// # Errors
    /// The directory cannot be used, or another process is using it.
    pub fn open(options: Options) -> Result<Self, LocalError> {
        let Options { data_dir, clock, queues } = options;
        let data_dir = data_dir.map(|path| DataDir::open(&path)).transpose()?;
        let (database, disk) = match &data_dir {
            Some(data_dir) => open_database(data_dir).map(|(database, disk)| (database, Some(Arc::new(disk))))?,
            None => (Database::memory().map_err(|source| LocalError::OpenDatabase { source })?, None),
        };
        let journal = |table| match &data_dir {
            Some(_) => Journal::open(&database, table).map(Some),
            None => Ok(None),
        };
        let sqs = Arc::new(Sqs::open(queues, journal(sqs::JOURNAL)?, clock)?);
        let bus = Arc::new(Bus::open(journal(bus::JOURNAL)?, clock)?);
        let dynamodb = Arc::new(DynamoDb::open(database.clone(), INBOX_TABLE, CALLS_TABLE, clock)?);
        let secrets_manager = Arc::new(SecretsManager::open(data_dir.as_ref().map(|dir| dir.path.as_path()), clock)?);
        let connector = Connector::new(dynamodb.clone(), sqs.clone(), bus.clone(), secrets_manager.clone());
        Ok(Self {
            clock,
            dynamodb,
            sqs,
            bus,
            secrets_manager,
            connector,
            disk,
            database,
            _data_dir: data_dir.map(Arc::new),
        })
    }

    /// Opens a journal of the data directory. `None` if the data is in memory.
    pub(crate) fn journal(&self, table: &'static str) -> Result<Option<Journal>, LocalError> {
        self.disk.as_ref().map(|_| Journal::open(&self.database, table)).transpose()
    }

    /// Returns when everything that was written before the call is on the disk. Does nothing if the data is in memory.
    ///
    /// # Errors
    /// The data could not be written, now or earlier. Writes that were acknowledged since then may be lost.
    pub async fn flush(&self) -> Result<(), LocalError> {
        match &self.disk {
            Some(disk) => disk.flush().await,
            None => Ok(()),
        }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Time source for the handlers. It may be [skewed](crate::clock::with_skew).
    pub fn time_source(&self) -> SharedTimeSource {
        SharedTimeSource::new(FunctionClock(self.clock))
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

    /// Sets up the secrets of the stack, and returns the providers that report an outcome.
    ///
    /// With `replaces_secrets`, the secrets become those of `providers`, and the data directory keeps them. Without it, functions that read
    /// secrets go on with those that the data directory holds, and other secrets are for this run.
    ///
    /// # Errors
    /// The secrets could not be written to the data directory.
    pub(crate) fn set_up_secrets(
        &self,
        providers: &ProvidersFile,
        reads_secrets: bool,
        replaces_secrets: bool,
    ) -> Result<ProviderSet, LocalError> {
        let mut outcome_providers = ProviderSet::reporting_outcome();
        if reads_secrets && !replaces_secrets && self.secrets_manager.is_restored() {
            let stored = WebhookConfig::parse(&self.secrets_manager.current(WEBHOOK_KEYS_SECRET).unwrap_or_default());
            for provider in stored.named() {
                if stored.config(provider).is_some_and(WebhookConfig::reports_outcome) {
                    outcome_providers.insert(provider);
                }
            }
            return Ok(outcome_providers);
        }
        self.store_secrets(providers);
        if replaces_secrets {
            self.secrets_manager.keep()?;
        }
        for provider in providers.outcome_providers() {
            outcome_providers.insert(provider);
        }
        Ok(outcome_providers)
    }

    /// Stores the halves of a providers file in the secrets of the stack, in memory. A secret that has the half already stays as it is.
    fn store_secrets(&self, providers: &ProvidersFile) {
        let halves = [
            (WEBHOOK_KEYS_SECRET, providers.webhook_keys_document()),
            (DIAL_ACCOUNTS_SECRET, providers.dial_accounts_document()),
        ];
        for (secret, document) in halves {
            let text = Value::from(document).to_string();
            if self.secrets_manager.current(secret).as_ref() != Some(&text) {
                self.secrets_manager.put(secret, &text);
            }
        }
    }

    pub fn secrets_manager(&self) -> &SecretsManager {
        &self.secrets_manager
    }

    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// SDK configuration for any client. The client talks to the local services and to nothing else.
    pub fn sdk_config(&self) -> SdkConfig {
        let credentials = Credentials::new("local", "local", None, None, "switchhook-local");
        let credentials = SharedCredentialsProvider::new(credentials);
        self.sdk_config_over(self.connector.clone()).credentials_provider(credentials).build()
    }

    /// SDK configuration for the clients of [`switchhook_aws::sdk`], whose requests name their sender. It has no credentials, so
    /// these clients do not sign: nobody would check the signatures.
    pub fn sdk_config_for(&self, sender: &'static str) -> SdkConfig {
        self.sdk_config_over(self.connector.with_sender(sender)).build()
    }

    fn sdk_config_over(&self, connector: Connector) -> aws_types::sdk_config::Builder {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(REGION))
            .endpoint_url(ENDPOINT)
            .http_client(connector)
            .time_source(self.time_source())
            .sleep_impl(TokioSleep::new())
    }
}

/// A data directory, locked for this process. The operating system releases the lock when the process ends, even by a
/// kill.
#[derive(Debug)]
struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    fn open(path: &Path) -> Result<Self, LocalError> {
        let path = path.to_owned();
        create_dir(&path).map_err(|source| LocalError::CreateDataDir { path: path.clone(), source })?;
        let lock =
            File::create(path.join("lock")).map_err(|source| LocalError::LockDataDir { path: path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(LocalError::DataDirInUse { path }),
            Err(TryLockError::Error(source)) => Err(LocalError::LockDataDir { path, source }),
        }
    }
}

/// Creates a directory and those above it, so that a power cut loses none of them.
fn create_dir(path: &Path) -> std::io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.exists() {
        return Ok(());
    }
    if !above.exists() {
        create_dir(above)?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::open(above)?.sync_all()
}

/// Opens the database file, and creates it first if it does not exist.
///
/// **A database under its final name has all its tables.** Creating them takes several transactions, so the file gets
/// its final name afterwards. If the first start is killed before, the next start deletes the unfinished file. It also deletes a
/// write-ahead log without its database: SQLite would replay it into the new one.
fn open_database(data_dir: &DataDir) -> Result<(Database, Disk), LocalError> {
    let path = data_dir.path.join("switchhook.sqlite");
    let open = |source| LocalError::OpenDatabase { source };
    let create = |source| LocalError::CreateDataDir { path: data_dir.path.clone(), source };
    if !path.exists() {
        let unfinished = data_dir.path.join("unfinished.sqlite");
        for file in [
            "unfinished.sqlite",
            "unfinished.sqlite-wal",
            "unfinished.sqlite-shm",
            "switchhook.sqlite-wal",
            "switchhook.sqlite-shm",
        ] {
            match std::fs::remove_file(data_dir.path.join(file)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(create(error)),
            }
        }
        let database = Database::file(&unfinished).map_err(open)?;
        tables::create_tables(&database, INBOX_TABLE, CALLS_TABLE)?;
        for table in [sqs::JOURNAL, bus::JOURNAL, fake::JOURNAL] {
            Journal::open(&database, table)?;
        }
        close(database, &unfinished)?;
        std::fs::rename(unfinished, &path).map_err(create)?;
    }
    let database = Database::file(&path).map_err(open)?;
    let disk = Disk::open(&path)?;
    // The names of the files must be on the disk too.
    File::open(&data_dir.path).and_then(|dir| dir.sync_all()).map_err(create)?;
    Ok((database, disk))
}

/// Closes a database. This moves the content of the write-ahead log into the file itself, and deletes the log.
///
/// # Errors
/// The log is still there, so a part of the content may be in it alone. Closing reports no error itself.
fn close(database: Database, path: &Path) -> Result<(), LocalError> {
    drop(database);
    if path.with_extension("sqlite-wal").exists() {
        return Err(LocalError::IncompleteDatabase { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_whose_log_is_left_is_not_complete() {
        let directory = std::env::temp_dir().join(format!("switchhook-close-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("unfinished.sqlite");
        let database = Database::file(&path).unwrap();
        tables::create_tables(&database, INBOX_TABLE, CALLS_TABLE).unwrap();
        // The connection of the clone stays open, so the log is not moved into the file.
        let other = database.clone();
        assert!(matches!(close(database, &path), Err(LocalError::IncompleteDatabase { .. })));
        close(other, &path).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
