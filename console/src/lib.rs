//! The console: pages on which operators look at a stack, local or deployed, and repair it.
//!
//! **The console is served on this machine only, to browsers that were opened with its one-time link.** The guard refuses every
//! other request before a page is made.
//!
//! A page reads through [`switchhook_operate`], as the command of the same name does, so both show the same. It is complete
//! without JavaScript. Every text of a stack is escaped by `maud`, and shown without control characters by `text`.

mod assets;
mod console;
mod guard;
mod live;
mod page;
mod pages;
mod parts;
mod playground;
mod query;
mod routes;
mod runs;
mod session;
mod text;

pub use console::{Console, Options};
pub use playground::{
    Choice, HeldEvent, LogLine, ORDERED_MAX, Orders, Playground, PlaygroundAction, PlaygroundView, Release, Sending,
    Skip, Story,
};
pub use session::LinkError;
