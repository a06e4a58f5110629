//! The local services as the real SDK clients see them.
#![expect(clippy::unwrap_used, reason = "allow-unwrap-in-tests does not cover the helpers of a test")]

mod dynamodb;
mod services;
mod sqs;
mod world;
