//! Call events of each sample body.

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
    Key, Reading, UnverifiedWebhook, VerifiedWebhook, read, samples, sign, verify, verifying_key,
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
    names.map(|name| format!("{name}\n{}", summary(name))).collect::<Vec<_>>().join("\n\n")
}

/// Reading of a sample as lines: event id, event type, call id, then ids, direction and numbers, then one line per call event.
fn summary(name: &str) -> String {
    match read(&verified(name), NOW) {
        Reading::Event(event) => event_summary(&event),
        Reading::Recorded { event_id, event_type, call_id } => {
            let call_id = call_id.map_or("-".to_owned(), |id| id.to_string());
            format!("recorded {event_id}\n{event_type}\n{call_id}")
        }
        Reading::Quarantined { event_id, error } => panic!("{event_id}: {error}"),
    }
}

fn event_summary(event: &ProviderEvent) -> String {
    let mut lines = format!("event {}\n{}\n{}", event.event_id, event.event_type, event.call_id);
    let attempt = event.attempt.as_ref().map_or("-", |key| key.as_str());
    let direction = event.direction.map_or("-".to_owned(), |direction| format!("{direction:?}"));
    let provider_call_id = event.provider_call_id.as_deref().unwrap_or("-");
    let appointment_id = event.appointment_id.as_deref().unwrap_or("-");
    let from = event.from.as_ref().map_or("-", |number| number.as_str());
    let to = event.to.as_ref().map_or("-", |number| number.as_str());
    write!(lines, "\n{attempt} {provider_call_id} {appointment_id} {direction} {from} {to}").unwrap();
    for CallEvent { kind, implied, occurred_at, sequence, permanent, never_dialled } in &event.call_events {
        let implied = if *implied { " implied" } else { "" };
        let at = occurred_at.map_or(String::new(), |at| format!(" {at}"));
        let sequence = sequence.map_or(String::new(), |sequence| format!(" #{sequence}"));
        let permanent = if *permanent { " permanent" } else { "" };
        let never_dialled = if never_dialled.is_some() { " never_dialled" } else { "" };
        write!(lines, "\n{kind}{implied}{at}{sequence}{permanent}{never_dialled}").unwrap();
    }
    lines
}
