//! Whole flows: signed HTTP in, domain events out, through the handlers, the real SDK clients and the local cloud.

mod answers;
mod budget;
mod flow;
mod layout;
mod logs;
mod store;
mod traffic;
mod windows;
