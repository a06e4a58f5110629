//! Responses of the fake provider's API.

use serde_json::{Value, json};
use switchhook_domain::Provider;

/// A response of the provider's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    pub status: u16,
    pub body: String,
    /// Seconds in the header `Retry-After`. `None` if the response has no such header.
    pub retry_after: Option<u64>,
    pub fate: ResponseFate,
}

/// Way of a response to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFate {
    Arrives,
    /// The provider carried out the request, and the connection breaks before the response arrives.
    Lost,
    /// The provider neither carries out the request nor responds. The client waits until its own timeout.
    NeverSent,
}

/// Response that arrives.
pub(super) fn respond(status: u16, body: &Value) -> ApiResponse {
    ApiResponse { status, body: body.to_string(), retry_after: None, fate: ResponseFate::Arrives }
}

/// Error response in Retell's form.
pub(super) fn error(status: u16, message: &str) -> ApiResponse {
    respond(status, &json!({"status": "error", "message": message}))
}

/// Response that refuses the called number.
pub(super) fn wrong_number(provider: Provider) -> ApiResponse {
    match provider.vendor() {
        Provider::Retell | Provider::Daily | Provider::Generic | Provider::Named(_) => {
            error(422, "to_number is not valid")
        }
        Provider::Twilio | Provider::SignalWire => {
            respond(400, &json!({"code": 21_211, "message": "Invalid 'To' phone number", "status": 400}))
        }
        Provider::Vapi => respond(400, &json!({"message": ["customer.number must be a valid phone number"]})),
        Provider::Telnyx => {
            let error = json!({"code": "10016", "title": "Phone number is invalid", "source": {"pointer": "/to"}});
            respond(422, &json!({"errors": [error]}))
        }
        Provider::Vonage => {
            let problem = json!({"title": "Bad Request", "invalid_parameters": {"to[0].number": "not a phone number"}});
            respond(400, &problem)
        }
        Provider::LiveKit => {
            let message = "SipCallTo should be a phone number or SIP user, not a full SIP URI";
            respond(400, &json!({"code": "invalid_argument", "msg": message}))
        }
        Provider::Bland => respond(400, &json!({"status": "error", "message": "phone_number is not valid"})),
        Provider::Plivo => respond(400, &json!({"error": "destination number is invalid"})),
        Provider::ElevenLabs => {
            let problem = json!({"loc": ["body", "to_number"], "msg": "not a phone number", "type": "value_error"});
            respond(422, &json!({"detail": [problem]}))
        }
    }
}

/// Response to a call from a number that the account must not call from. `None` if this provider calls from every number.
pub(super) fn refused_calling_number(provider: Provider) -> Option<ApiResponse> {
    match provider.vendor() {
        Provider::Twilio => {
            Some(respond(400, &json!({"code": 21_212, "message": "Invalid From Number", "status": 400})))
        }
        Provider::Bland => {
            let errors = ["from number is not on your account"];
            Some(respond(400, &json!({"status": "error", "message": "Invalid parameters", "errors": errors})))
        }
        Provider::Retell
        | Provider::Vapi
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => None,
    }
}

/// Twilio's response that blocks a call: because of the number, or because of the account.
pub(super) fn blocked_number() -> ApiResponse {
    respond(400, &json!({"code": 21_216, "message": "Call blocked by Twilio", "status": 400}))
}
