//! The number of shards of the indexes, as data that changes with time.
//!
//! An index entry is filed under a key that ends with the number of a shard, so that no partition takes all writes. **The number of
//! shards holds from a time on**, an *epoch*. So every function computes the same number for the same minute, whichever of them
//! was deployed first. An entry of an earlier epoch stays where it was filed, and is found there.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use switchhook_domain::Timestamp;

use crate::dynamodb::shard_of;

/// Shards of each group of entries, unless the parameter `IndexShards` says otherwise. Each shard takes 1,000 writes a second.
pub const SHARDS_DEFAULT: u64 = 4;
/// Limit on the shards of an epoch. A reader queries each of them, and a page of the console has 240 queries.
pub const SHARDS_MAX: u64 = 99;

/// Number of shards over time, written as `4` or `4,2027-01-01T00:00:00Z=16`: four shards, and sixteen from that time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    /// Number of shards in the first epoch.
    first: u64,
    /// Later epochs in the order of their beginnings, each with its number of shards.
    later: Arc<[(Timestamp, u64)]>,
}

/// Error of a text that is no number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidShards;

impl fmt::Display for InvalidShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be a number of shards from 1 to {SHARDS_MAX}, and may go on with later numbers and the times from which they \
             hold, the earliest first: 4,2027-01-01T00:00:00Z=16"
        )
    }
}

impl std::error::Error for InvalidShards {}

impl Default for Shards {
    fn default() -> Self {
        Self { first: SHARDS_DEFAULT, later: Arc::new([]) }
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.later.iter().try_for_each(|(from, shards)| write!(f, ",{from}={shards}"))
    }
}

impl FromStr for Shards {
    type Err = InvalidShards;

    fn from_str(text: &str) -> Result<Self, InvalidShards> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| (1..=SHARDS_MAX).contains(number));
            number.ok_or(InvalidShards)
        };
        let mut parts = text.split(',');
        let first = number(parts.next().unwrap_or_default())?;
        let later: Result<Vec<(Timestamp, u64)>, InvalidShards> = parts
            .map(|part| {
                let (from, shards) = part.split_once('=').ok_or(InvalidShards)?;
                Ok((Timestamp::parse_rfc3339(from).ok_or(InvalidShards)?, number(shards)?))
            })
            .collect();
        let later = later?;
        if later.is_sorted_by(|a, b| a.0 < b.0) { Ok(Self { first, later: later.into() }) } else { Err(InvalidShards) }
    }
}

impl Shards {
    /// Returns the number of shards at a time.
    #[must_use]
    pub fn at(&self, time: Timestamp) -> u64 {
        self.later.iter().rev().find(|(from, _)| *from <= time).map_or(self.first, |(_, shards)| *shards)
    }

    /// Returns the largest number of shards of any epoch. An entry that was filed at any time is in one of that many shards.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.later.iter().map(|(_, shards)| *shards).fold(self.first, u64::max)
    }

    /// Returns the number of shards of each kind of mark in `by_attention` at a time.
    #[must_use]
    pub fn of_marks_at(&self, time: Timestamp) -> u64 {
        shards_of_marks(self.at(time))
    }

    /// Returns the largest number of shards of marks of any epoch.
    #[must_use]
    pub fn of_marks_max(&self) -> u64 {
        shards_of_marks(self.max())
    }

    /// Returns the shard in which an id is filed at a time.
    #[must_use]
    pub fn shard_of(&self, id: &str, time: Timestamp) -> u64 {
        shard_of(id, self.at(time))
    }
}

/// Returns the number of shards of each kind of mark in `by_attention`, in a stack with this number of shards. Half as many are enough: only
/// an event in trouble has a mark. And each run of the reconciler reads all of them.
#[must_use]
pub const fn shards_of_marks(shards: u64) -> u64 {
    shards.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn number_of_an_epoch_holds_from_its_time_on() {
        let shards: Shards = "4,2027-01-01T00:00:00Z=16,2028-01-01T00:00:00Z=8".parse().unwrap();
        assert_eq!(shards.at(time("2026-12-31T23:59:59.999Z")), 4);
        assert_eq!(shards.at(time("2027-01-01T00:00:00Z")), 16);
        assert_eq!(shards.at(time("2028-01-01T00:00:00Z")), 8);
        assert_eq!(shards.max(), 16);
        assert_eq!(shards.of_marks_at(time("2027-01-01T00:00:00Z")), 8);
        assert_eq!(shards.of_marks_max(), 8);
        assert_eq!(shards.to_string().parse(), Ok(shards));
        assert_eq!("4".parse(), Ok(Shards::default()));
        assert_eq!("1".parse::<Shards>().unwrap().of_marks_max(), 1);
    }

    #[test]
    fn text_that_says_no_number_is_refused() {
        let refused = [
            "",
            "0",
            "100",
            "four",
            "4,8",
            "4,=8",
            "4,2027-01-01T00:00:00Z=",
            "4,2027-01-01T00:00:00Z=0",
            "4,today=8",
            "4,2027-01-01T00:00:00Z=8,2026-01-01T00:00:00Z=16",
            "4,2027-01-01T00:00:00Z=8,2027-01-01T00:00:00Z=16",
        ];
        for text in refused {
            assert_eq!(text.parse::<Shards>(), Err(InvalidShards), "{text}");
        }
    }
}
