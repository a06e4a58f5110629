//! The pure core of Switchhook: no async, no clock, no randomness, no AWS types; `now` and ids are arguments.

mod announce;
mod call;
mod event;
mod lifecycle;
mod machine;
mod plan;
mod time;

pub use announce::{
    Announcement, AnnouncementKind, AnnouncementSource, DOMAIN_EVENT_SCHEMA_VERSION, DomainEvent, NOT_PLACED,
    WebhookQuarantined,
};
pub use call::{
    ATTEMPT_EVENTS_MAX, AppointmentStatus, AttemptRecord, AttemptState, CALL_ATTEMPTS_MAX, Call, Disposition, Fold,
    FoldOutcome, HistoryEntry, Job, Policy, fold, refold,
};
pub use event::{
    AttemptKey, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Provider, ProviderEvent,
    UnknownProvider,
};
pub use lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome};
pub use machine::{Machine, MachineFold, State, StateEdges, Verdict};
pub use plan::{
    CallingWindow, Day, DialStarted, ManualTrigger, NewCall, Plan, RetryPolicy, StopReason, Transition, WindowError,
};
pub use time::Timestamp;
