//! The pure core of Switchhook: no async, no clock, no randomness, no AWS types; `now` and ids are arguments.

mod event;
mod time;

pub use event::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider,
    ProviderEvent, SwitchhookName, UnknownProvider,
};
pub use time::Timestamp;
