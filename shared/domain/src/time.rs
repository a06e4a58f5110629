//! Points in time. The core receives them as arguments and never reads a clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch. Stored and sent as that number, displayed as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Earlier than any time that a provider can name.
    pub const MIN: Self = Self(i64::MIN);
    /// Later than any time that a provider can name.
    pub const MAX: Self = Self(i64::MAX);

    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339, for example `2025-10-20T12:14:05Z`. Digits beyond the millisecond are dropped. `None` if the text is
    /// no such time.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(Self::from)
    }

    /// Returns `self + duration`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns `self - duration`, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the milliseconds from `earlier` to `self`. Negative if `earlier` is later.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(value: jiff::Timestamp) -> Self {
        Self(value.as_millisecond())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_read_to_the_millisecond() {
        let time = Timestamp::parse_rfc3339("2025-10-20T12:14:05.1239Z");
        assert_eq!(time, Some(Timestamp::from_millis(1_760_962_445_123)));
        assert_eq!(time.map(|t| t.to_string()), Some("2025-10-20T12:14:05.123Z".to_owned()));
        assert_eq!(Timestamp::parse_rfc3339("20th of October"), None);
    }
}
