//! The pure core of Switchhook: no async, no clock, no randomness, no AWS types; `now` and ids are arguments.

mod announce;
mod call;
mod event;
mod lifecycle;
mod machine;
mod plan;
mod time;

pub use announce::{Announcement, DOMAIN_EVENT_SCHEMA, DomainEvent, NOT_PLACED, News, Source, WebhookQuarantined};
pub use call::{
    ATTEMPT_EVENTS_MAX, AppointmentStatus, Attempt, CALL_ATTEMPTS_MAX, Call, Disposition, Fold, HistoryEntry, Job,
    Policy, Slot, Taken, fold, refold,
};
pub use event::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent,
    SwitchhookName, UnknownProvider,
};
pub use lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome};
pub use machine::{Folded, Machine, Row, State, Verdict};
pub use plan::{CallingWindow, Day, Dialled, Moved, NewCall, Plan, RetryPolicy, Stopped, Triggered, WindowError};
pub use time::Timestamp;
