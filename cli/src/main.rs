//! `switchhook`: Switchhook on one's own machine.

mod arguments;
mod call;
mod client;
mod demo;
mod dev;
mod duration;
mod fake;
mod paths;
mod republish;
mod send;
mod show;

use std::process::ExitCode;

fn main() -> ExitCode {
    arguments::run(std::env::args_os(), &mut std::io::stdout(), &mut std::io::stderr())
}
