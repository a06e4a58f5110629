//! Durations on the command line: `15m`, `1h 30m`, `30d`, `PT15M`. A day has 24 hours.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Longest duration for which a command waits or pauses.
const LONGEST: Duration = Duration::from_secs(30 * DAY_SECONDS);
const DAY_SECONDS: u64 = 24 * 60 * 60;
const HOUR_SECONDS: u64 = 60 * 60;
/// Shortest duration. With a shorter one, the reconciler would never pause.
const SHORTEST: Duration = Duration::from_millis(100);

/// Reads a duration for clap.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    parse_up_to(LONGEST, text)
}

/// Reads a duration that is at most `longest`.
pub(crate) fn parse_up_to(longest: Duration, text: &str) -> Result<Duration, String> {
    let duration = read(text)?;
    if (SHORTEST..=longest).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("not between 100ms and {} days", longest.as_secs() / DAY_SECONDS))
    }
}

/// Reads a duration that the API takes as whole seconds: at least one, and at most `longest`.
pub(crate) fn parse_seconds(longest: Duration, text: &str) -> Result<Duration, String> {
    let duration = read(text)?;
    if duration.subsec_nanos() == 0 && (Duration::from_secs(1)..=longest).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("not a whole number of seconds between 1s and {}h", longest.as_secs() / HOUR_SECONDS))
    }
}

fn read(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let parsed = parsed.map_err(|_| "not a time such as 15m, 1h 30m or 2d".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a time cannot be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("15m"), Ok(900));
        assert_eq!(seconds("1h 30m"), Ok(5_400));
        assert_eq!(seconds("PT15M"), Ok(900));
        assert_eq!((seconds("30d"), seconds("1d 12h")), (Ok(2_592_000), Ok(129_600)));
        assert_eq!(parse("1500ms"), Ok(Duration::from_millis(1_500)));
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        for text in ["", "soon", "15", "0s", "-5m", "1ms", "1000000h", "31d", "1 month"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
