//! Placing a call: the data that a provider gets, and the meaning of its response.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use switchhook_domain::{AttemptKey, CallId, PhoneNumber};

/// Longest accepted `Retry-After`. Without a limit, a provider could postpone a person's call for days.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Query parameter by which Twilio marks a JSON body. No metadata may have this name, because Twilio gets metadata in
/// the query of the callback URL.
pub(crate) const TWILIO_BODY_HASH: &str = "bodySHA256";

const APPOINTMENT_ID: &str = "appointment_id";
const RESERVED: [&str; 2] = [APPOINTMENT_ID, TWILIO_BODY_HASH];
const RESERVED_PREFIX: &str = "switchhook_";

/// Everything that a provider needs in order to place a call. `Debug` hides the numbers and the metadata.
#[derive(Clone, Copy)]
pub struct DialRequest<'a> {
    pub call_id: &'a CallId,
    pub attempt: &'a AttemptKey,
    /// True if the retry policy allows no attempt after this one. The provider's agent gets this as
    /// `switchhook_last_attempt`, because it may want to mention it to the person.
    pub is_last_attempt: bool,
    pub from: &'a PhoneNumber,
    pub to: &'a PhoneNumber,
    pub appointment_id: Option<&'a str>,
    /// Passed on unchanged, without reserved names: `appointment_id`, `bodySHA256`, and every name that starts with
    /// `switchhook_`.
    pub metadata: &'a BTreeMap<String, String>,
    /// Idempotency key of this one dial: unique, and the same if the request is sent again. Telnyx ignores a second
    /// request with the same key within a minute; the other providers have no such key.
    pub dial_key: &'a str,
}

impl fmt::Debug for DialRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialRequest")
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .field("is_last_attempt", &self.is_last_attempt)
            .finish_non_exhaustive()
    }
}

impl DialRequest<'_> {
    /// Metadata that the provider echoes in its webhooks and gives to its agent. Our own names are added last, so that
    /// nothing can replace them.
    pub(crate) fn metadata_to_echo(&self) -> BTreeMap<&str, &str> {
        let metadata = self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut echo: BTreeMap<&str, &str> = metadata.filter(|(name, _)| !is_reserved(name)).collect();
        echo.insert("switchhook_call_id", self.call_id.as_str());
        echo.insert("switchhook_attempt", self.attempt.as_str());
        echo.insert("switchhook_last_attempt", if self.is_last_attempt { "true" } else { "false" });
        if let Some(appointment_id) = self.appointment_id {
            echo.insert(APPOINTMENT_ID, appointment_id);
        }
        echo
    }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX)
}

/// Meaning of a provider's response to a [`DialRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialAnswer {
    Accepted {
        provider_call_id: String,
    },
    /// Nothing was dialled, and the same request may succeed later: the rate was too high, or an operator must repair
    /// the account.
    RetryLater {
        reason: &'static str,
        /// The provider's `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
    },
    /// Nothing was dialled, and the same request can never succeed: the request itself is wrong.
    Rejected {
        reason: &'static str,
    },
    /// The call may have been placed. Only a lookup can tell.
    InDoubt,
}

impl DialAnswer {
    /// Reads an answer from the HTTP status. `provider_call_id` is the id in the body of a successful response.
    ///
    /// **Only a status that rules out a dial counts as "nothing was dialled".** No provider documents that about its
    /// server errors, so all of them are [`DialAnswer::InDoubt`]. A `Retry-After` that holds a date is ignored.
    pub(crate) fn from_response(status: u16, retry_after: Option<&str>, provider_call_id: Option<String>) -> Self {
        let retry_later = |reason| Self::RetryLater { reason, retry_after: retry_after.and_then(parse_retry_after) };
        match status {
            200..=299 => provider_call_id.map_or(Self::InDoubt, |provider_call_id| Self::Accepted { provider_call_id }),
            400 => Self::Rejected { reason: "bad_request" },
            401 => retry_later("unauthorized"),
            402 => retry_later("payment_required"),
            403 => retry_later("forbidden"),
            404 => retry_later("not_found"),
            422 => Self::Rejected { reason: "unprocessable" },
            429 => retry_later("rate_limited"),
            _ => Self::InDoubt,
        }
    }
}

/// Parses a whole number of seconds.
fn parse_retry_after(header: &str) -> Option<Duration> {
    header.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_whole_seconds_and_an_hour_at_most() {
        assert_eq!(parse_retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse_retry_after(" 0 "), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("99999999999"), Some(RETRY_AFTER_MAX));
        for other in ["", "-1", "1.5", "soon", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            assert_eq!(parse_retry_after(other), None, "{other}");
        }
    }
}
