//! The local cloud: everything that AWS runs around the handlers, in one process.
//!
//! The real SDK clients reach an embedded DynamoDB, a model of SQS and an event bus through an HTTP client that opens
//! no socket ([`connector`]). All time comes from one clock ([`clock`]). It shows real time in `switchhook dev`, and
//! virtual time in `switchhook demo`, in the simulator and in the tests. In virtual time, one seed always gives the
//! same run.
//!
//! **On one thread, everything here is deterministic**: ids are counted, maps are ordered, and watchers wake in the
//! order in which they started to wait. Two things are up to the caller: `tokio::select!` needs `biased`, and
//! `clock::seed` must seed the SDK.
//!
//! With a data directory, all data survives a kill of the process. Without one, all data is in memory.

pub mod bus;
pub mod clock;
mod cloud;
pub mod connector;
mod database;
pub mod dynamodb;
mod error;
pub mod fake;
mod file;
mod journal;
mod lagging;
pub mod metrics;
pub mod queue;
mod response;
pub mod secrets_manager;
mod services;
pub mod sqs;
mod stack;
pub mod stream;
mod sync;
mod tables;

pub use crate::cloud::{Cloud, CloudError, CloudOptions, RunResult};
pub use crate::error::LocalError;
pub use crate::file::replace_file;
pub use crate::services::{Options, Services};
pub use crate::stack::{
    ACCOUNT, CALL_RETENTION, CALLS_TABLE, DEFAULT_RETRY_POLICY, DIAL_ACCOUNTS_SECRET, DIAL_BATCH, DIAL_QUEUE, DIALERS,
    DUE_BATCH, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_RETENTION, INBOX_TABLE,
    MAX_RECEIVE_COUNT, QUEUE_BATCH, RECORD_AGE_MAX, REGION, RELAY_FAILURES_QUEUE, REPAIR_BATCH, REPAIR_QUEUE,
    REPAIR_WORKERS, STREAM_BATCH, WEBHOOK_KEYS_SECRET, stack_queues,
};
pub use crate::sync::Watch;
pub use crate::tables::stack_tables;
