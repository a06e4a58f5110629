//! Words of the output: errors and numbers for people, and JSON for programs.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use switchhook_aws::failure::cause_text;

/// Returns the text of an error, followed by the texts of its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&cause_text(error));
        cause = error.source();
    }
    text
}

/// Returns a number and its noun, for example `1 call` or `2 calls`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Prints a value as JSON, on several lines.
pub(crate) fn print_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_plural() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "call")), ["0 calls", "1 call", "2 calls"]);
    }
}
