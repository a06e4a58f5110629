//! Results of a request, and their HTTP responses.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use lambda_http::{Body, Response};
use serde_json::json;
use switchhook_aws::Error;
use switchhook_aws::inbox::BODY_BYTES_MAX;
use switchhook_aws::question::GivenAnswer;
use switchhook_domain::EventId;

/// Result of a request. [`Answer::respond`] alone chooses its HTTP status and body.
#[derive(Debug)]
pub(crate) enum Answer {
    Accepted(EventId),
    AlreadyProcessed { event_id: EventId, conflict: bool },
    Quarantined(EventId, String),
    Recorded(EventId),
    EdgeBypassed,
    EdgeDisabled,
    UnknownProvider,
    ProviderDisabled,
    Forbidden,
    TooLarge,
    InvalidSignature(&'static str, String),
    StorageFailure(Error),
}

impl Answer {
    /// True if the webhook is in the inbox.
    pub(crate) const fn is_stored(&self) -> bool {
        match self {
            Self::Accepted(_) | Self::AlreadyProcessed { .. } | Self::Quarantined(..) | Self::Recorded(_) => true,
            Self::EdgeBypassed
            | Self::EdgeDisabled
            | Self::UnknownProvider
            | Self::ProviderDisabled
            | Self::Forbidden
            | Self::TooLarge
            | Self::InvalidSignature(..)
            | Self::StorageFailure(_) => false,
        }
    }

    /// True if an entry that is newer than the one in use could accept the webhook, before its signature is looked at.
    pub(crate) const fn may_be_of_new_entry(&self) -> bool {
        match self {
            Self::UnknownProvider | Self::Forbidden => true,
            Self::Accepted(_)
            | Self::AlreadyProcessed { .. }
            | Self::Quarantined(..)
            | Self::Recorded(_)
            | Self::EdgeBypassed
            | Self::EdgeDisabled
            | Self::ProviderDisabled
            | Self::TooLarge
            | Self::InvalidSignature(..)
            | Self::StorageFailure(_) => false,
        }
    }

    pub(crate) fn respond(&self) -> Response<Body> {
        let ok = |status: &str, id: &EventId| (StatusCode::OK, json!({"status": status, "event_id": id}));
        let refuse = |code: StatusCode, error: &str, message: &str| (code, json!({"error": error, "message": message}));
        let (code, body) = match self {
            Self::Accepted(id) => ok("accepted", id),
            Self::AlreadyProcessed { event_id, .. } => ok("already_processed", event_id),
            Self::Quarantined(id, _) => ok("quarantined", id),
            Self::Recorded(id) => ok("recorded", id),
            Self::EdgeBypassed => refuse(
                StatusCode::FORBIDDEN,
                "edge_bypassed",
                "webhooks are accepted only through the proxy in front of this stack; check the URL",
            ),
            Self::EdgeDisabled => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "edge_disabled",
                "the stack's secret, or its entry `edge`, cannot be read; send the webhook again later",
            ),
            Self::UnknownProvider => refuse(
                StatusCode::NOT_FOUND,
                "unknown_provider",
                "no provider with this name is configured; check the URL, or add the provider to the stack's secret",
            ),
            Self::ProviderDisabled => refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "provider_disabled",
                "the entry of this provider in the stack's secret cannot be read; send the webhook again later",
            ),
            Self::Forbidden => {
                refuse(StatusCode::FORBIDDEN, "forbidden", "the source address is not on the provider's allow-list")
            }
            Self::TooLarge => refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                &format!("the body is larger than the limit of {BODY_BYTES_MAX} bytes"),
            ),
            Self::InvalidSignature(..) => refuse(
                StatusCode::UNAUTHORIZED,
                "invalid_signature",
                "the signature does not match a key of this provider, or the timestamp is outside the allowed window",
            ),
            Self::StorageFailure(_) => refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "storage_failure",
                "the event could not be stored; send it again, a repetition is safe",
            ),
        };
        let mut response = Response::new(Body::Text(body.to_string()));
        *response.status_mut() = code;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        response
    }
}

/// Response to a question: nothing but the answer, because the provider reads the whole body.
pub(crate) fn respond_to_question(given: GivenAnswer) -> Response<Body> {
    let mut response = Response::new(Body::Text(given.body));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(given.content_type));
    response
}
