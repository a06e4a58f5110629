//! Looking a call up at its provider: the question, and the meaning of the response.
//!
//! **The response is rewritten as a webhook of the same provider.** So it is stored, read and replayed like every other
//! event. The webhook contains only facts from the response, and its event id is made from these facts. So two lookups
//! of an ended call give the same event. If the id of the provider's own webhook can be predicted (Retell, Vapi), the
//! event gets that id.

use http::StatusCode;
use switchhook_domain::{AttemptKey, CallId, ProviderEvent, Timestamp};

use crate::correlation::EchoedIds;
use crate::webhook::VerifiedWebhook;

/// Question to a provider about one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    pub call_id: &'a CallId,
    pub attempt: &'a AttemptKey,
    /// `None` if the provider's response to the dial was lost. Then only our own ids can identify the call.
    pub provider_call_id: Option<&'a str>,
    /// Time of our dial, by our clock. `None` if the call was placed by somebody else.
    pub dialled_at: Option<Timestamp>,
}

impl Lookup<'_> {
    /// True if the echoed ids are those of exactly this attempt.
    pub(crate) fn matches(&self, echoed: &EchoedIds) -> bool {
        echoed.switchhook_call_id.as_deref() == Some(self.call_id.as_str())
            && echoed.switchhook_attempt.as_deref() == Some(self.attempt.as_str())
    }
}

/// Meaning of a provider's response to a [`Lookup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupAnswer {
    /// The call is over.
    Ended {
        /// The response as a webhook. Store its query and body in the inbox.
        webhook: VerifiedWebhook,
        /// The event that [`read`](crate::read) makes of this webhook, now and from the inbox.
        event: Box<ProviderEvent>,
    },
    /// The call is not over.
    Alive { provider_call_id: String },
    /// No call at the provider carries our ids, so nothing was dialled. Given only for an attempt without a provider
    /// call id.
    NotFound,
    /// The provider knows no call under the provider call id. The call was placed, and the provider has deleted it
    /// since: Telnyx does so after ten minutes.
    Gone,
    /// The response contains no answer. Ask again later.
    RetryLater { reason: &'static str },
}

/// Answer that follows from the HTTP status alone. `None` if the status is a success: then the body contains the
/// answer.
pub(crate) fn answer_without_body(status: u16) -> Option<LookupAnswer> {
    match StatusCode::from_u16(status) {
        Ok(status) if status.is_success() => None,
        Ok(StatusCode::NOT_FOUND) => Some(LookupAnswer::Gone),
        Ok(StatusCode::TOO_MANY_REQUESTS) => Some(LookupAnswer::RetryLater { reason: "rate_limited" }),
        Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            Some(LookupAnswer::RetryLater { reason: "unauthorized" })
        }
        Ok(_) | Err(_) => Some(LookupAnswer::RetryLater { reason: "failed" }),
    }
}

/// A successful response, parsed by one provider's `client.rs`.
pub(crate) enum ParsedAnswer {
    /// The call is over. `query` and `body` are those of the webhook that reports the same ending.
    Ended {
        query: String,
        body: Vec<u8>,
    },
    Alive {
        provider_call_id: String,
    },
    NotFound,
    /// The first page of the provider's list does not contain the call, and there are more pages.
    NotOnFirstPage,
    Unreadable,
}
