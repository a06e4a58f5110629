//! Errors of the local cloud.

use std::path::PathBuf;

use dynoxide::DynoxideError;

/// A failure of the local cloud itself. If a service rejects a request, that is a response of the service and never one
/// of these errors.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("could not create the data directory {path}")]
    CreateDataDir {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not lock the data directory {path}")]
    LockDataDir {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not read the secrets in {path}")]
    ReadSecrets {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not write the secrets to {path}")]
    WriteSecrets {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the data directory {path} is in use by another process")]
    DataDirInUse { path: PathBuf },
    #[error("the dead-letter queue of queue {queue} does not exist")]
    NoDeadLetterQueue { queue: String },
    #[error("could not open the database")]
    OpenDatabase {
        #[source]
        source: DynoxideError,
    },
    #[error("could not write the new database {path} completely: the disk may be full")]
    IncompleteDatabase { path: PathBuf },
    #[error("could not describe table {table}")]
    DescribeTable {
        table: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not create table {table}")]
    CreateTable {
        table: String,
        #[source]
        source: DynoxideError,
    },
    #[error("could not read an attribute of a copy for table {table}")]
    ReadCopy {
        table: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not store copies of an item in table {table}")]
    StoreCopies {
        table: String,
        #[source]
        source: DynoxideError,
    },
    #[error("could not open the stream of the calls table")]
    OpenStream {
        #[source]
        source: DynoxideError,
    },
    #[error("could not trim the stream of the calls table")]
    TrimStream {
        #[source]
        source: DynoxideError,
    },
    #[error("could not open the write-ahead log {path}")]
    OpenLog {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not write the data to the disk")]
    Flush {
        #[source]
        source: std::io::Error,
    },
    #[error("the data could not be written to the disk before; start the stack again")]
    FlushFailedBefore,
    #[error("could not read table {table}")]
    ReadJournal {
        table: &'static str,
        #[source]
        source: DynoxideError,
    },
    #[error("could not write to table {table}")]
    WriteJournal {
        table: &'static str,
        #[source]
        source: DynoxideError,
    },
    #[error("could not encode an entry of table {table}")]
    EncodeEntry {
        table: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not decode an entry of table {table}")]
    DecodeEntry {
        table: &'static str,
        #[source]
        source: serde_json::Error,
    },
}
