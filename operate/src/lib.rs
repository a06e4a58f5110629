//! Library for operators of a stack, local or deployed: reads, verdicts, plans and repairs.
//!
//! **Data in, data out.** Nothing here parses arguments or prints: the commands of the `switchhook` tool and the pages of its
//! console do. Every result can be serialised, so that both show the same.
//!
//! A repair has two steps. A command makes a [`plan`]: the items, and what will happen to each. A [`run`] then carries the plan
//! out. It can be interrupted and resumed.
//!
//! A stack is reached with the operator's own AWS credentials, through the same SDK clients as in the functions.
//! `switchhook dev` answers the same requests at a URL of its own, so one code path serves both.

mod act;
mod attention;
pub mod audit;
mod aws;
pub mod bench;
pub mod calls;
pub mod check;
mod concurrent;
pub mod copy;
pub mod cost;
pub mod dead_letters;
pub mod dials;
mod draft;
mod duration;
mod entries;
mod error;
pub mod events;
mod forecast;
pub mod forget;
pub mod mask;
mod metrics;
pub mod plan;
pub mod providers;
pub mod quarantine;
mod received;
pub mod reconcile;
pub mod recover;
pub mod repair;
pub mod replay;
pub mod republish;
mod reread;
pub mod run;
pub mod scale;
pub mod search;
pub mod secrets;
pub mod selection;
pub mod stack;
pub mod status;
mod time_text;
pub mod timeline;
pub mod verify;
mod visible;
pub mod web;

pub use aws::{Alarm, AlarmState, MetricQuery, Series};
pub use duration::{age, counted, duration};
pub use error::{Error, ErrorKind, Explanation, Refusal};
pub use stack::{Address, DevTime, Stack, StackNames, StackSettings, time_of_dev};
pub use visible::visible;
