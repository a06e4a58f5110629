//! Times that are not in RFC 3339.

use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use switchhook_domain::Timestamp;

/// Parses `2020-04-08 11:34:33.238707`, with or without a fraction, and with or without an offset. A time without an offset counts as
/// UTC.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp::from(time));
    }
    let time = text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(Timestamp::from(time.timestamp()))
}

/// True if a time that [`parse_time`] accepts states its offset from UTC.
pub(crate) fn has_offset(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

/// Parses RFC 2822, for example `Sat, 07 May 2022 14:30:10 +0000`. Resolution: one second. A wrong day of the week is
/// accepted.
pub(crate) fn parse_rfc2822(text: &str) -> Option<Timestamp> {
    const PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text).ok().map(Timestamp::from)
}
