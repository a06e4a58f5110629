//! `switchhook`: the command-line tool for developers and operators of Switchhook.

mod arguments;
mod call;
mod client;
mod demo;
mod dev;
mod duration;
mod fake;
mod import;
mod paths;
mod reconcile;
mod republish;
mod running_dev;
mod send;
mod serving;
mod show;
mod stack_choice;

use std::process::ExitCode;

fn main() -> ExitCode {
    arguments::run(std::env::args_os(), &mut std::io::stdout(), &mut std::io::stderr())
}
