//! Calls and webhooks that outlive the process of the fake provider. They are in a journal of the data directory.
//!
//! **A call is kept before its dial request is answered.** So a dial that was made stays made, whatever kills the process.

use serde::{Deserialize, Serialize};

use super::call::FakeCall;
use super::delivery::Delivery;
use super::records::Dial;

/// Table of the journal.
pub(crate) const JOURNAL: &str = "switchhook-local-fake";

/// Entry of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Entry {
    Call(Box<KeptCall>),
    /// Webhook that is scheduled or held.
    Webhook {
        number: u64,
        at: i64,
        delivery: Delivery,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptCall {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) call: FakeCall,
    pub(super) idempotency_key: Option<String>,
    /// `None` if no phone rang.
    pub(super) dial: Option<Dial>,
}

/// Change that is not written yet.
#[derive(Debug)]
pub(super) enum Unsaved {
    Write(u64, Entry),
    Erase(u64),
}
