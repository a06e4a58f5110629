//! `switchhook`: Switchhook on one's own machine.

mod arguments;
mod demo;
mod paths;

use std::process::ExitCode;

fn main() -> ExitCode {
    arguments::run(std::env::args_os(), &mut std::io::stdout().lock(), &mut std::io::stderr().lock())
}
