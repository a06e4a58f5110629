//! Whole flows: signed HTTP in, domain events out, through the handlers, the real SDK clients and the local cloud.

mod alarms;
mod answers;
mod api;
mod api_flow;
mod attention;
mod budget;
mod console;
mod create;
mod files;
mod flow;
mod layout;
mod logs;
mod operator;
mod outbound;
mod outbound_budget;
mod privacy;
mod reconciled;
mod recovery;
mod repair;
mod schemas;
mod secrets;
mod store;
mod trace;
mod traffic;
mod windows;
