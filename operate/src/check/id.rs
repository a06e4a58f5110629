//! Id of a check, from which the names of everything that it makes follow.

use std::fmt;
use std::str::FromStr;

use switchhook_aws::random::RandomIds;
use switchhook_domain::{CallId, EventId};

use crate::error::Error;

const PREFIX: &str = "check-";
/// Random digits after the prefix.
const DIGITS: usize = 12;

/// Id of a check, for example `check-7f3a90c1d2e4`. It is also the id of the call that the check makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckId(String);

/// Reason why a text is no id of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a check, such as check-7f3a90c1d2e4")]
pub struct NotACheckId;

impl CheckId {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self(format!("{PREFIX}{}", RandomIds::from_system().hex::<{ DIGITS / 2 }>()?)))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn call_id(&self) -> CallId {
        CallId::new(&*self.0)
    }

    pub(super) fn event_id(&self) -> EventId {
        EventId::new(format!("generic:{}", self.0))
    }

    /// Name of the temporary rule and of the temporary queue.
    pub(super) fn subscription(&self) -> String {
        format!("switchhook-{}", self.0)
    }
}

impl FromStr for CheckId {
    type Err = NotACheckId;

    /// Accepts nothing but the id of a check, so that its clean-up can delete no other call.
    fn from_str(text: &str) -> Result<Self, NotACheckId> {
        let digits = text.strip_prefix(PREFIX).ok_or(NotACheckId)?;
        let is_id = digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_id { Ok(Self(text.to_owned())) } else { Err(NotACheckId) }
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_check_is_accepted() {
        let id = CheckId::new().unwrap();
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_eq!(id.event_id().as_str(), format!("generic:{id}"));
        for other in
            ["", "check-", "check-7f3a", "check-7F3A90C1D2E4", "check-7f3a90c1d2e4x", "appointment:1", "retell:call_1"]
        {
            assert_eq!(other.parse::<CheckId>(), Err(NotACheckId), "{other}");
        }
    }
}
