//! `switchhook`: the command-line tool for developers and operators of Switchhook.

mod arguments;
mod audit;
mod bench;
mod call;
mod change;
mod check;
mod client;
mod completions;
mod console;
mod data_dir;
mod demo;
mod dev;
mod dials;
mod dlq;
mod duration;
mod error;
mod event;
mod fake;
mod forget;
mod import;
mod mark;
mod paths;
mod provider_name;
mod providers;
mod providers_file;
mod quarantine;
mod reason;
mod reconcile;
mod recover;
mod replay;
mod republish;
mod run;
mod running_dev;
mod send;
mod serving;
mod shell;
mod show;
mod signing_key;
mod simulate;
mod since;
mod stack_choice;
mod status;
mod stuck;
mod table;
mod tail;
mod timeline;
mod verify;
mod words;

use std::process::ExitCode;

/// The local stack needs 5 % less CPU time with it than with the allocator of the system (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    arguments::run(std::env::args_os(), &mut std::io::stdout(), &mut std::io::stderr())
}
