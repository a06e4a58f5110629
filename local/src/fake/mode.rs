//! Modes of the whole provider: outages, and problems of the account.

use serde_json::json;
use switchhook_domain::Provider;

use super::behaviour::Behaviour;
use super::records::RequestResult;
use super::response::{ApiResponse, ResponseFate, error, respond, wrong_number};

/// Way in which one provider treats all requests for some time. Calls that it accepted go on, and their webhooks are
/// sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Each call has its own [`Behaviour`].
    #[default]
    Normal,
    /// Every request is answered with 503, and not carried out.
    Down,
    /// No request is ever answered or carried out.
    Unresponsive,
    /// Every dial is carried out, and answered with 500. Lookups work.
    FailsAfterDial,
    /// Every request is answered with 401.
    Unauthorized,
    /// Every dial is answered with 402. Lookups work.
    OutOfCredit,
    /// Every dial is answered with 422: the account has no such agent. Lookups work.
    UnknownAsset,
    /// Every dial is refused: the called number is wrong. Lookups work.
    RejectsNumbers,
    /// Every dial is answered with 429, and every other one of these with `Retry-After`. Lookups work.
    RateLimited,
    /// The account has as many calls as it may have. Retell accepts every dial, and no phone rings: the call ends at once with the
    /// status `error` and the reason `concurrency_limit_reached`. Vapi accepts it and says at once that it dials nobody. Twilio,
    /// Telnyx, ElevenLabs, Plivo, Vonage, LiveKit, Bland and SignalWire refuse it. Lookups work.
    OverCapacity,
}

impl Mode {
    pub const ALL: [Self; 10] = [
        Self::Normal,
        Self::Down,
        Self::Unresponsive,
        Self::FailsAfterDial,
        Self::Unauthorized,
        Self::OutOfCredit,
        Self::UnknownAsset,
        Self::RejectsNumbers,
        Self::RateLimited,
        Self::OverCapacity,
    ];

    /// Name for display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "up",
            Self::Down => "down",
            Self::Unresponsive => "unresponsive",
            Self::FailsAfterDial => "fails_after_the_dial",
            Self::Unauthorized => "refuses_the_key",
            Self::OutOfCredit => "out_of_credit",
            Self::UnknownAsset => "unknown_asset",
            Self::RejectsNumbers => "rejects_numbers",
            Self::RateLimited => "rate_limited",
            Self::OverCapacity => "over_capacity",
        }
    }

    /// Mode in which the provider treats some dial requests of this behaviour.
    pub(super) const fn occasional(behaviour: Behaviour) -> Option<Self> {
        match behaviour {
            Behaviour::RateLimited => Some(Self::RateLimited),
            Behaviour::NoResponse => Some(Self::Unresponsive),
            Behaviour::OutOfCredit => Some(Self::OutOfCredit),
            Behaviour::UnknownAsset => Some(Self::UnknownAsset),
            Behaviour::OverCapacity => Some(Self::OverCapacity),
            Behaviour::Confirms
            | Behaviour::Declines
            | Behaviour::Voicemail
            | Behaviour::Busy
            | Behaviour::NoAnswer
            | Behaviour::Fails
            | Behaviour::Forgotten
            | Behaviour::ResponseLost
            | Behaviour::Silent
            | Behaviour::Invalid
            | Behaviour::FirstResponseLost => None,
        }
    }

    /// Response with which the mode refuses requests. `None` if it refuses none.
    pub(super) fn response(self, provider: Provider) -> Option<Refusal> {
        let every = |response, result| Some(Refusal { response, result, is_for_dials_only: false });
        let dials = |response, result| Some(Refusal { response, result, is_for_dials_only: true });
        match self {
            Self::Normal | Self::FailsAfterDial => None,
            Self::OverCapacity => match provider.vendor() {
                Provider::Retell | Provider::Vapi | Provider::Daily | Provider::Generic | Provider::Named(_) => None,
                Provider::Twilio => {
                    let message = json!({"code": 10_004, "message": "Call concurrency limit exceeded", "status": 400});
                    dials(respond(400, &message), RequestResult::RateLimited)
                }
                Provider::Telnyx => {
                    let error = json!({"code": "90041", "title": "User channel limit exceeded"});
                    dials(respond(403, &json!({"errors": [error]})), RequestResult::RateLimited)
                }
                Provider::Vonage => {
                    dials(respond(429, &json!({"title": "Throughput exceeded"})), RequestResult::RateLimited)
                }
                Provider::LiveKit => {
                    let error = json!({"code": "resource_exhausted", "msg": "concurrent call limit exceeded"});
                    dials(respond(429, &error), RequestResult::RateLimited)
                }
                Provider::SignalWire => {
                    let message = json!({"code": 429, "message": "Too many calls", "status": 429});
                    dials(respond(429, &message), RequestResult::RateLimited)
                }
                Provider::Bland => {
                    let message = json!({"status": "error", "message": "Concurrent call limit reached"});
                    dials(respond(429, &message), RequestResult::RateLimited)
                }
                Provider::Plivo => {
                    let message = json!({"error": "concurrent call limit reached"});
                    dials(respond(429, &message), RequestResult::RateLimited)
                }
                Provider::ElevenLabs => {
                    let detail =
                        json!({"status": "too_many_concurrent_requests", "message": "Too many concurrent calls"});
                    dials(respond(429, &json!({"detail": detail})), RequestResult::RateLimited)
                }
            },
            Self::Down => every(error(503, "the service is unavailable"), RequestResult::Unavailable),
            Self::Unresponsive => {
                let silence = ApiResponse { fate: ResponseFate::NeverSent, ..error(503, "") };
                every(silence, RequestResult::Unavailable)
            }
            Self::Unauthorized => every(error(401, "API key is missing or invalid."), RequestResult::Refused),
            Self::OutOfCredit => {
                dials(error(402, "Trial has ended, please add payment method."), RequestResult::Refused)
            }
            Self::UnknownAsset => {
                dials(error(422, "Cannot find requested asset under given api key."), RequestResult::Refused)
            }
            Self::RejectsNumbers => dials(wrong_number(provider), RequestResult::Rejected),
            Self::RateLimited => {
                dials(error(429, "Account rate limited, please throttle your requests."), RequestResult::RateLimited)
            }
        }
    }
}

/// Response that refuses a request.
pub(super) struct Refusal {
    pub(super) response: ApiResponse,
    pub(super) result: RequestResult,
    /// True if lookups work.
    pub(super) is_for_dials_only: bool,
}
