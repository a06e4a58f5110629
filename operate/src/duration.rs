//! Durations and numbers as text for people.

use std::fmt::Display;

/// Returns a duration for people: `41 ms`, `3.2 s`, `2 min 5 s`, `3 h 12 min`, `2 d 4 h`.
#[must_use]
pub fn duration(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let (seconds, minutes, hours, days) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    let text = match (days, hours, minutes) {
        (0, 0, 0) if ms < 1_000 => format!("{ms} ms"),
        (0, 0, 0) => format!("{}.{} s", seconds, ms % 1_000 / 100),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        (_, _, _) => format!("{days} d {} h", hours % 24),
    };
    format!("{sign}{text}")
}

/// Returns the age of something for people, in one unit: `41 s`, `119 min`, `3 h`, `4 d`. The clocks of two machines differ, so it may be
/// negative, and counts as 0.
#[must_use]
pub fn age(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns a number and its noun, for example `1 call` or `2 calls`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_plural() {
        assert_eq!([0_u64, 1, 2].map(|number| counted(number, "call")), ["0 calls", "1 call", "2 calls"]);
    }

    #[test]
    fn durations_are_short() {
        let texts = [41, 3_290, 125_000, 11_520_000, 187_200_000, -41].map(duration);
        assert_eq!(texts, ["41 ms", "3.2 s", "2 min 5 s", "3 h 12 min", "2 d 4 h", "-41 ms"]);
    }

    #[test]
    fn age_has_one_unit() {
        let ages = [-5, 0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(|seconds| age(seconds * 1_000));
        assert_eq!(ages, ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
    }
}
