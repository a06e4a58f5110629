//! Times on the command line: a time ago, or a point in time.

use std::time::Duration;

use switchhook_domain::Timestamp;

use crate::duration;

/// Time that an option names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

impl Since {
    /// Returns the point in time.
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => now.minus(ago),
            Self::At(at) => at,
        }
    }
}

/// Reads a time for clap.
pub(crate) fn parse(text: &str) -> Result<Since, String> {
    match (Timestamp::parse_rfc3339(text), duration::parse(text)) {
        (Some(at), _) => Ok(Since::At(at)),
        (None, Ok(ago)) => Ok(Since::Ago(ago)),
        (None, Err(_)) => {
            Err("not a time ago such as 2h, up to 30 days, and not a time such as 2026-11-20T09:00:00Z".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_time_ago() {
        assert_eq!(parse("2h"), Ok(Since::Ago(Duration::from_secs(7_200))));
        assert_eq!(parse("1970-01-01T00:00:01Z"), Ok(Since::At(Timestamp::from_millis(1_000))));
        for text in ["", "yesterday", "90d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_ago_counts_from_now() {
        let now = Timestamp::from_millis(5_000);
        assert_eq!(Since::Ago(Duration::from_secs(2)).at(now), Timestamp::from_millis(3_000));
        assert_eq!(Since::At(now).at(Timestamp::from_millis(0)), now);
    }
}
