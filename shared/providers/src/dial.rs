//! Placing a call: the data that a provider gets, and the meaning of its response.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider};

/// Longest accepted `Retry-After`. Without a limit, a provider could postpone a person's call for days.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Query parameter by which Twilio marks a JSON body. No metadata may have this name, because Twilio gets metadata in
/// the query of a URL.
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
    /// Idempotency key of this one dial: unique, and the same if the request is sent again. See
    /// [`repeats_safely_for`].
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
        let mut echo: BTreeMap<&str, &str> = metadata.filter(|(name, _)| !is_reserved_metadata(name)).collect();
        echo.insert("switchhook_call_id", self.call_id.as_str());
        echo.insert("switchhook_attempt", self.attempt.as_str());
        echo.insert("switchhook_last_attempt", if self.is_last_attempt { "true" } else { "false" });
        if let Some(appointment_id) = self.appointment_id {
            echo.insert(APPOINTMENT_ID, appointment_id);
        }
        echo
    }
}

/// True for the names of metadata that Switchhook or a provider's signature needs. No provider gets metadata with such a name.
#[must_use]
pub fn is_reserved_metadata(name: &str) -> bool {
    RESERVED.contains(&name) || name.starts_with(RESERVED_PREFIX)
}

/// Time after a dial request during which the same request again places no second call. `None` if the provider has no
/// idempotency key: then a repeated request may ring the same phone twice.
#[must_use]
pub fn repeats_safely_for(provider: Provider) -> Option<Duration> {
    match provider.vendor() {
        Provider::Retell => Some(Duration::from_secs(60 * 60)),
        Provider::Telnyx => Some(Duration::from_secs(60)),
        Provider::Twilio
        | Provider::Vapi
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => None,
    }
}

/// Meaning of a provider's response to a [`DialRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialAnswer {
    Accepted {
        provider_call_id: String,
    },
    /// Nothing was dialled, because of the called number: the same request can never succeed.
    Rejected {
        reason: &'static str,
    },
    /// Nothing was dialled, because of the account: its credentials, its credit, its settings. Every call of the
    /// account has this problem until an operator repairs it.
    AccountProblem {
        reason: &'static str,
    },
    /// Nothing was dialled, because of the called number or because of the account. The provider does not say which. Other numbers
    /// may work.
    NumberOrAccountProblem {
        reason: &'static str,
    },
    /// Nothing was dialled, because of the calling number of this call. Calls from other numbers may work.
    CallingNumberProblem {
        reason: &'static str,
    },
    /// Nothing was dialled, because the account sends too many requests at the moment.
    Busy {
        reason: &'static str,
        /// The provider's `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
    },
    /// Nothing was dialled, because the account has too many calls at the moment.
    TooManyCalls {
        reason: &'static str,
        /// The provider's `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
    },
    /// The provider took the request under this id, and says in the same answer that it dials nobody. It may report the call all the
    /// same.
    NotDialled {
        provider_call_id: String,
        /// The answer without the id: a problem, or too many requests or calls.
        refusal: Box<Self>,
    },
    /// The call may have been placed. Only a lookup can tell.
    InDoubt,
}

/// Reason that the body of a refusal states, in one provider's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The called number is wrong, blocked or not supported.
    Number(&'static str),
    /// The called number is blocked, or the account may not call it or numbers like it.
    NumberOrAccount(&'static str),
    /// The calling number that the request names is wrong, or the account must not call from it.
    CallingNumber(&'static str),
    /// The account has as many calls as it may have.
    Capacity(&'static str),
    /// The account has a problem with a better name than the HTTP status.
    Account(&'static str),
}

impl DialAnswer {
    /// Reads an answer from the HTTP status and from what one provider's `client.rs` found in the body.
    ///
    /// **Only a status that rules out a dial counts as "nothing was dialled".** No provider documents that about its
    /// server errors, so all of them are [`DialAnswer::InDoubt`]. A refusal counts as one of the account unless the
    /// body blames one of the numbers, or leaves open which of them it is. So a wrong setting never ends a call. A `Retry-After` that holds a date is
    /// ignored.
    ///
    /// **A refusal that names a call keeps the id.** Vapi refuses calls with a 201, and Telnyx with a 403 about a call that it ended at once.
    /// Such a call may be reported, with our ids. Without its id, the report would count for the next dial, which has the same ids.
    pub(crate) fn from_response(
        status: u16,
        retry_after: Option<&str>,
        provider_call_id: Option<String>,
        refusal: Option<Refusal>,
    ) -> Self {
        let answer = Self::without_id(status, retry_after, provider_call_id.as_ref(), refusal);
        let named_call = match &answer {
            Self::AccountProblem { .. }
            | Self::NumberOrAccountProblem { .. }
            | Self::CallingNumberProblem { .. }
            | Self::Busy { .. }
            | Self::TooManyCalls { .. } => provider_call_id,
            // After a rejection, no dial follows that the report could count for.
            Self::Rejected { .. } | Self::Accepted { .. } | Self::NotDialled { .. } | Self::InDoubt => None,
        };
        match named_call {
            Some(provider_call_id) => Self::NotDialled { provider_call_id, refusal: Box::new(answer) },
            None => answer,
        }
    }

    /// The provider's reason in our words. `None` if nothing was refused.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Rejected { reason }
            | Self::AccountProblem { reason }
            | Self::NumberOrAccountProblem { reason }
            | Self::CallingNumberProblem { reason }
            | Self::Busy { reason, .. }
            | Self::TooManyCalls { reason, .. } => Some(reason),
            Self::NotDialled { refusal, .. } => refusal.reason(),
            Self::Accepted { .. } | Self::InDoubt => None,
        }
    }

    /// Meaning of a response, without the id of the call that a refusal names.
    fn without_id(
        status: u16,
        retry_after: Option<&str>,
        provider_call_id: Option<&String>,
        refusal: Option<Refusal>,
    ) -> Self {
        let retry_after = retry_after.and_then(parse_retry_after);
        let too_many_calls = |reason| Self::TooManyCalls { reason, retry_after };
        let refused = |reason| match refusal {
            Some(Refusal::Number(reason)) => Self::Rejected { reason },
            Some(Refusal::NumberOrAccount(reason)) => Self::NumberOrAccountProblem { reason },
            Some(Refusal::CallingNumber(reason)) => Self::CallingNumberProblem { reason },
            Some(Refusal::Capacity(reason)) => too_many_calls(reason),
            Some(Refusal::Account(reason)) => Self::AccountProblem { reason },
            None => Self::AccountProblem { reason },
        };
        match (status, refusal) {
            // Vapi accepts a request, and says in the same response that it places no call for it.
            (200..=299, Some(Refusal::Capacity(reason))) => too_many_calls(reason),
            (
                200..=299,
                Some(
                    Refusal::Number(_) | Refusal::NumberOrAccount(_) | Refusal::CallingNumber(_) | Refusal::Account(_),
                )
                | None,
            ) => provider_call_id.map_or(Self::InDoubt, |id| Self::Accepted { provider_call_id: id.clone() }),
            (401, _) => Self::AccountProblem { reason: "unauthorized" },
            (402, _) => Self::AccountProblem { reason: "payment_required" },
            (429, Some(Refusal::Capacity(reason))) => too_many_calls(reason),
            (429, _) => Self::Busy { reason: "rate_limited", retry_after },
            (400, _) => refused("bad_request"),
            (403, _) => refused("forbidden"),
            (404, _) => refused("not_found"),
            (422, _) => refused("unprocessable"),
            // A timeout, a conflict with the same request that is still under way, and a client that went away.
            (408 | 409 | 425 | 499, _) => Self::InDoubt,
            (405..=498, _) => refused("refused"),
            (_, _) => Self::InDoubt,
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
