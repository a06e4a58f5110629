//! Id of a benchmark, from which the names of its calls and events follow.

use std::fmt;
use std::str::FromStr;

use switchhook_aws::random::RandomIds;
use switchhook_domain::{CallId, EventId};

use super::CALLS_MAX;
use crate::error::Error;

const PREFIX: &str = "bench-";
/// Random digits after the prefix.
const DIGITS: usize = 12;

/// Id of a benchmark, for example `bench-7f3a90c1d2e4-20`. It ends with the number of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchId {
    name: String,
    calls: u32,
}

/// Reason why a text is no id of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a benchmark, such as bench-7f3a90c1d2e4-20")]
pub struct NotABenchId;

impl BenchId {
    pub(super) fn new(calls: u32) -> Result<Self, Error> {
        Ok(Self { name: format!("{PREFIX}{}", RandomIds::from_system().hex::<{ DIGITS / 2 }>()?), calls })
    }

    pub(super) const fn calls(&self) -> u32 {
        self.calls
    }

    pub(super) fn call_id(&self, call: u32) -> CallId {
        CallId::new(format!("{}-{call}", self.name))
    }

    /// Name that the sender gives to an event.
    pub(super) fn event_name(&self, call: u32, event_type: &str) -> String {
        format!("{}-{call}-{event_type}", self.name)
    }

    pub(super) fn event_id(&self, call: u32, event_type: &str) -> EventId {
        EventId::new(format!("generic:{}", self.event_name(call, event_type)))
    }
}

impl FromStr for BenchId {
    type Err = NotABenchId;

    /// Accepts nothing but the id of a benchmark, so that its clean-up can delete no other call.
    fn from_str(text: &str) -> Result<Self, NotABenchId> {
        let (name, calls) = text.rsplit_once('-').ok_or(NotABenchId)?;
        let digits = name.strip_prefix(PREFIX).ok_or(NotABenchId)?;
        let is_id = digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let calls = calls.parse().ok().filter(|calls| (1..=CALLS_MAX).contains(calls)).ok_or(NotABenchId)?;
        if is_id { Ok(Self { name: name.to_owned(), calls }) } else { Err(NotABenchId) }
    }
}

impl fmt::Display for BenchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name, self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_benchmark_is_accepted() {
        let id = BenchId::new(20).unwrap();
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(id.event_id(3, "call.ringing").as_str(), format!("generic:{}-call.ringing", id.call_id(3).as_str()));
        for other in [
            "",
            "bench-",
            "bench-7f3a90c1d2e4",
            "bench-7f3a90c1d2e4-0",
            "bench-7f3a90c1d2e4-10001",
            "bench-7F3A90C1D2E4-2",
            "check-7f3a90c1d2e4-2",
        ] {
            assert_eq!(other.parse::<BenchId>(), Err(NotABenchId), "{other}");
        }
    }
}
