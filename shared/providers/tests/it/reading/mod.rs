//! Meaning of the less usual events, one module per provider, and treatment of webhooks that cannot be read.

mod bland;
mod daily;
mod elevenlabs;
mod generic;
mod livekit;
mod plivo;
mod retell;
mod signalwire;
mod telnyx;
mod twilio;
mod unknown;
mod unreadable;
mod vapi;
mod vonage;

use serde_json::{Value, json};
use switchhook_domain::{Provider, ProviderEvent, Timestamp};
use switchhook_providers::{Reading, VerifiedWebhook, read};

pub(crate) use retell::REASONS;

pub(super) const RECEIVED_AT: Timestamp = Timestamp::from_millis(1_760_962_600_000);

pub(crate) fn read_body(provider: Provider, query: &str, body: &[u8]) -> Reading {
    read(&VerifiedWebhook::from_inbox(provider, query.to_owned(), body.to_vec(), 0), RECEIVED_AT)
}

pub(super) fn retell(event: &str, call: Value) -> Reading {
    read_body(Provider::Retell, "", json!({"event": event, "call": call}).to_string().as_bytes())
}

pub(super) fn twilio(query: &str, form: &str) -> Reading {
    read_body(Provider::Twilio, query, form.as_bytes())
}

pub(super) fn plivo(query: &str, form: &str) -> Reading {
    read_body(Provider::Plivo, query, form.as_bytes())
}

pub(super) fn vonage(body: Value) -> Reading {
    read_body(Provider::Vonage, "", body.to_string().as_bytes())
}

pub(super) fn livekit(body: Value) -> Reading {
    read_body(Provider::LiveKit, "", body.to_string().as_bytes())
}

pub(super) fn daily(body: Value) -> Reading {
    read_body(Provider::Daily, "", body.to_string().as_bytes())
}

pub(super) fn bland(body: Value) -> Reading {
    read_body(Provider::Bland, "", body.to_string().as_bytes())
}

pub(super) fn generic(body: Value) -> Reading {
    read_body(Provider::Generic, "", body.to_string().as_bytes())
}

pub(crate) fn into_event(reading: Reading) -> ProviderEvent {
    match reading {
        Reading::Event(event) => event,
        Reading::Recorded { .. } | Reading::Quarantined { .. } => panic!("{reading:?}"),
    }
}

/// Kinds of the call events in order: `~` marks an implied one, `!` a permanent failure, `^` with the reason a call that was
/// never dialled. For a reading without call events, its name
/// or its error.
pub(super) fn kinds(reading: &Reading) -> String {
    match reading {
        Reading::Event(event) => {
            let kinds: Vec<String> = event
                .call_events
                .iter()
                .map(|event| {
                    let implied = if event.implied { "~" } else { "" };
                    let permanent = if event.permanent { "!" } else { "" };
                    let never_dialled =
                        event.never_dialled.map_or(String::new(), |reason| format!("^{}", reason.as_str()));
                    format!("{implied}{}{permanent}{never_dialled}", event.kind)
                })
                .collect();
            kinds.join(" ")
        }
        Reading::Recorded { .. } => "recorded".to_owned(),
        Reading::Quarantined { error, .. } => error.to_string(),
    }
}

pub(super) fn ids(reading: Reading) -> (String, Option<String>, Option<String>) {
    let event = into_event(reading);
    (event.call_id.to_string(), event.attempt.map(|key| key.to_string()), event.appointment_id)
}

pub(super) fn vapi(message: Value) -> Reading {
    read_body(Provider::Vapi, "", json!({"message": message}).to_string().as_bytes())
}

pub(super) fn telnyx(event_type: &str, payload: Value) -> Reading {
    let body = json!({"data": {"event_type": event_type, "id": "e1", "payload": payload}, "meta": {"attempt": 1}});
    read_body(Provider::Telnyx, "", body.to_string().as_bytes())
}
