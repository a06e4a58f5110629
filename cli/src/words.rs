//! Words of the output: errors, numbers and progress for people, and JSON for programs.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

pub(crate) use switchhook_aws::failure::with_causes;
pub(crate) use switchhook_operate::{counted, visible};

/// Progress bar on standard error. Hidden with `--json`, and if standard error is no terminal. Its end is unknown without a length.
pub(crate) fn progress(json: bool, length: Option<u64>, template: &str) -> ProgressBar {
    let target = if json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(length, target);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Prints a value as JSON, on several lines.
pub(crate) fn print_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(value)?)
}
