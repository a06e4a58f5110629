//! Words of the output: numbers and ages for people, and JSON for programs.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use switchhook_aws::failure::cause_text;
use switchhook_domain::Timestamp;

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

/// Returns the time from `since` to `now` in its largest unit, for example `3 h`.
pub(crate) fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.millis_since(since).max(0) / 1_000;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Prints a value as JSON, on several lines.
pub(crate) fn print_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(|seconds| age(at(seconds), at(0)));
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
        // The clocks of two machines differ.
        assert_eq!(age(at(0), at(5)), "0 s");
    }

    #[test]
    fn one_has_no_plural() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "call")), ["0 calls", "1 call", "2 calls"]);
    }
}
