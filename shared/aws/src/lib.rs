//! Access to DynamoDB, SQS, EventBridge and Secrets Manager, configuration and telemetry. No other crate knows the SDK.

pub mod bus;
pub mod calls;
mod compression;
pub mod config;
pub mod copy;
pub mod do_not_call;
pub mod dynamodb;
pub mod error;
pub mod failure;
pub mod http;
pub mod inbox;
pub mod ledger;
pub mod problem;
pub mod provider;
pub mod query;
pub mod question;
pub mod queue;
pub mod random;
pub mod sdk;
pub mod secret;
pub mod shards;
pub mod sign;
pub mod telemetry;

pub use error::Error;
