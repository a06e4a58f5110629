//! The verbs, and what becomes of their results.

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demo::Demo;

#[derive(Debug, Parser)]
#[command(name = "switchhook", version, about)]
struct Switchhook {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Play calls with known endings through the whole system, and check every result
    Demo(Demo),
}

/// Exit status: everything is as it should be.
const RIGHT: u8 = 0;
/// Something is not as it should be.
const WRONG: u8 = 1;
/// It could not be tried.
const NOT_TRIED: u8 = 2;

pub(crate) fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> ExitCode {
    let switchhook = match Switchhook::try_parse_from(arguments) {
        Ok(switchhook) => switchhook,
        Err(error) => error.exit(),
    };
    let done: Result<bool, Box<dyn Error>> = match switchhook.verb {
        Verb::Demo(demo) => demo.run(out).map_err(Into::into),
    };
    ExitCode::from(match done {
        Ok(true) => RIGHT,
        Ok(false) => WRONG,
        Err(error) => {
            // There is nowhere left to say that it could not be said.
            drop(writeln!(errors, "switchhook: {}", chain(error.as_ref())));
            NOT_TRIED
        }
    })
}

/// An error and what caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
