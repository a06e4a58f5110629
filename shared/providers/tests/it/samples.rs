//! Call events of each sample body.
//!
//! The samples contain every event type of a telephone call that a vendor documents, also those that change no call. Their sources are
//! Retell's webhook overview, `ServerMessageMessage` of Vapi's package for TypeScript (0.11), ElevenLabs' post-call webhooks, and
//! `webhook_events` of Bland. Those of Telnyx are in `resources/webhooks.ts` of its package for JavaScript (August 2026), which agrees with
//! its packages for Python, PHP and Go. Its API reference alone has `call.conversation.created` and `call.conversation.start_failed`.
//!
//! A documented event type is no unknown value. The first line of a sample with an unknown value ends with `unknown=` and the field's name.

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
mod vapi;
mod vonage;

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use switchhook_domain::{CallEvent, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    Key, Reading, UnverifiedWebhook, VerifiedWebhook, read, read_with_notes, samples, sign, verify, verifying_key,
};

const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);

#[test]
fn bodies_read_alike_from_the_wire_and_from_the_inbox() {
    for (name, _) in samples() {
        let webhook = verified(name);
        let again = VerifiedWebhook::from_inbox(
            webhook.provider(),
            webhook.query().to_owned(),
            webhook.body().to_vec(),
            webhook.key_index(),
        );
        assert_eq!(read(&webhook, NOW), read(&again, NOW), "{name}");
    }
}

#[test]
fn event_ids_of_bodies_are_distinct_and_fit_a_path() {
    let mut ids: Vec<String> =
        samples().iter().map(|(name, _)| read(&verified(name), NOW).event_id().to_string()).collect();
    assert!(ids.iter().all(|id| !id.contains(['/', '#', '?'])), "{ids:?}");
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// The sample, signed as its provider would sign it, for a callback URL with an appointment id.
pub(crate) fn verified(name: &str) -> VerifiedWebhook {
    verified_as(name.split_once('/').unwrap().0.parse().unwrap(), name)
}

/// The same, sent to this provider or to a further account of it.
pub(crate) fn verified_as(provider: Provider, name: &str) -> VerifiedWebhook {
    let (_, body) = samples().iter().find(|(candidate, _)| *candidate == name).unwrap();
    let url = "https://example.com/webhooks?appointment_id=7";
    let signed = sign(provider, &Key::new("key").unwrap(), url, body.as_bytes(), NOW);
    let headers: HeaderMap = signed
        .headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    let query = signed.url.split_once('?').unwrap().1;
    let webhook = UnverifiedWebhook { headers: &headers, path: "/webhooks", query, body: body.as_bytes() };
    let document = json!({provider.as_str(): {
        "keys": [verifying_key(provider, &Key::new("key").unwrap())],
        "public_url": "https://example.com",
    }});
    let providers = crate::providers_file(&document.to_string()).unwrap();
    verify(provider, providers.webhook_keys().config(provider).unwrap(), &webhook, NOW).unwrap()
}

/// Readings of all samples of a provider.
fn summaries(provider: &str) -> String {
    let prefix = format!("{provider}/");
    let names = samples().iter().map(|(name, _)| *name).filter(|name| name.starts_with(&prefix));
    names.map(summary).collect::<Vec<_>>().join("\n")
}

/// Reading of a sample. A recorded one is a line with its event id, event type and call id. An event is a line with its event id and event
/// type, a line with its ids, direction and numbers, and a line per call event.
fn summary(name: &str) -> String {
    let (reading, notes) = read_with_notes(&verified(name), NOW);
    let unknown = notes.unknown_value.map_or(String::new(), |field| format!(" unknown={field}"));
    match reading {
        Reading::Event(event) => {
            format!("{name} {} {}{unknown}{}", event.event_id, event.event_type, event_summary(&event))
        }
        Reading::Recorded { event_id, event_type, call_id } => {
            let call_id = call_id.map_or("-".to_owned(), |id| id.to_string());
            format!("{name} recorded {event_id} {event_type} {call_id}{unknown}")
        }
        Reading::Quarantined { event_id, error } => panic!("{event_id}: {error}"),
    }
}

fn event_summary(event: &ProviderEvent) -> String {
    let attempt = event.attempt.as_ref().map_or("-", |key| key.as_str());
    let direction = event.direction.map_or("-".to_owned(), |direction| format!("{direction:?}"));
    let provider_call_id = event.provider_call_id.as_deref().unwrap_or("-");
    let appointment_id = event.appointment_id.as_deref().unwrap_or("-");
    let from = event.from.as_ref().map_or("-", |number| number.as_str());
    let to = event.to.as_ref().map_or("-", |number| number.as_str());
    let call_id = &event.call_id;
    let mut lines = format!("\n  {call_id} {attempt} {provider_call_id} {appointment_id} {direction} {from} {to}");
    for CallEvent { kind, implied, occurred_at, sequence, permanent, never_dialled } in &event.call_events {
        let implied = if *implied { " implied" } else { "" };
        let at = occurred_at.map_or(String::new(), |at| format!(" {at}"));
        let sequence = sequence.map_or(String::new(), |sequence| format!(" #{sequence}"));
        let permanent = if *permanent { " permanent" } else { "" };
        let never_dialled = if never_dialled.is_some() { " never_dialled" } else { "" };
        write!(lines, "\n  {kind}{implied}{at}{sequence}{permanent}{never_dialled}").unwrap();
    }
    lines
}
