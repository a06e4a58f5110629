//! The pure core of Switchhook: no async, no clock, no randomness, no AWS types; `now` and ids are arguments.
//!
//! The modules build on each other in this order:
//! - `time`, `provider`, `number`: plain values;
//! - `entity_report`, `booking_report`, `event`: what a provider reported;
//! - `machine`, `lifecycle`: the state of one attempt as a function of its events;
//! - `window`, `plan`, `announcement`, `moves`, `call`: a call as data;
//! - `attempt`, `job`, `appointment`: what follows from the history of a call;
//! - `finding`: events that Switchhook itself makes, to be folded like those of a provider;
//! - `announce`, `domain_event`, `operator`: events that Switchhook publishes;
//! - `derive`, `record`, `transition`, `fold`, `forget`: the next row of a call;
//! - `compare`: how a row differs from its events;
//! - `dialling`: when the next dial is due, and which provider is asked;
//! - `reason`, `explain`: why an event has its disposition;
//! - `past`: a call as it was known at an earlier time;
//! - `summary`: the state of a call, as the API and the tool show it;
//! - `entity_position`, `booking`, `entity`: things that webhooks are about and that are no calls;
//! - `provider_health`: whether a provider gets calls, and how fast.

mod announce;
mod announcement;
mod appointment;
mod attempt;
mod booking;
mod booking_report;
mod call;
mod compare;
mod derive;
mod dialling;
mod domain_event;
mod entity;
mod entity_position;
mod entity_report;
mod event;
mod explain;
mod finding;
mod fold;
mod forget;
mod job;
mod lifecycle;
mod machine;
mod moves;
mod number;
mod operator;
mod past;
mod plan;
mod provider;
mod provider_health;
mod reason;
mod record;
mod summary;
mod time;
mod transition;
mod window;
mod withdrawal;

pub use announcement::{Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, NOT_PLACED};
pub use attempt::AttemptState;
pub use booking::{APPOINTMENT_ID_BYTES_MAX, Booking, NotScheduled};
pub use booking_report::{Booked, BookingReport, BookingRule};
pub use call::{
    ATTEMPT_EVENTS_MAX, AttemptRecord, CALL_ATTEMPTS_MAX, Call, Disposition, HistoryEntry, InFlight, Job, JobState,
    Policy, TRACED_ENTRIES_MAX, WITHDRAWN_DIALS_MAX, WakeFor,
};
pub use compare::{Difference, differences};
pub use derive::Transition;
pub use domain_event::{
    DOMAIN_EVENT_SCHEMA_VERSION, DomainEvent, OperatorAttention, TroubledEvent, WebhookQuarantined,
};
pub use entity::{
    AnnouncedEvent, ENTITY_EVENTS_MAX, ENTITY_TIED_MAX, Entity, EntityFate, EntityFold, WebhookReceived, fold_entity,
};
pub use entity_position::EntityPosition;
pub use entity_report::{EntityReport, Scalar};
pub use event::{
    AttemptKey, CallEvent, CallId, DO_NOT_CALL_PREFIX, Direction, ENTITY_PREFIX, EventId, EventKind, NeverDialled,
    Origin, PROVIDER_HEALTH_PREFIX, ProviderEvent, TraceId,
};
pub use explain::{explain, explain_all};
pub use finding::{ALIVE_MAX, STUCK_AFTER};
pub use fold::{Fold, FoldOutcome, fold, refold};
pub use lifecycle::{INCONCLUSIVE, LIFECYCLE, Lifecycle, OUTCOME, Outcome, lifecycle_labels};
pub use machine::{Input, Machine, MachineFold, State, StateEdges, Verdict};
pub use moves::{MOVES_MAX, Move, MoveKind};
pub use number::{NUMBER_BYTES_MAX, NumberTag, PhoneNumber};
pub use operator::OperatorAction;
pub use past::{PastCall, Write};
pub use plan::{
    CallDefaults, DUE_AHEAD_MAX, EndReason, ManualTrigger, NewCall, Plan, Refusals, RetryPolicy, StopReason,
};
pub use provider::{Provider, ProviderName, ProviderSet, ProviderSetError, UnknownProvider};
pub use provider_health::{
    AcceptedProbe, COUNT_AGE_MAX, CallLimit, CallsInFlight, Circuit, DialFailure, DialSignal, FULL_RATE, LANE_SECONDS,
    LATE_MAX, Pace, Place, ProviderAvailability, ProviderHealth, Slowdown,
};
pub use reason::{EntryRef, Reason, Step};
pub use record::{CallCreation, DIALS_RETENTION_MIN, DialRecord, DialRecords};
pub use summary::{AttemptSummary, CallSummary, JobSummary};
pub use time::Timestamp;
pub use transition::{ACCOUNTS_UNREAD, DialStarted, EVENTS_UNFOLDED};
pub use window::{CallingWindow, Day, WindowError};
pub use withdrawal::Undialled;
