//! The public functions of this crate. Each chooses the provider's module; a new provider gets one arm in each.

use std::collections::BTreeSet;

use switchhook_domain::{Call, CallId, PhoneNumber, Provider, Timestamp};

use crate::api::{ApiRequest, ClientError};
use crate::config::{AccountConfig, WebhookConfig};
use crate::dial::{DialAnswer, DialRequest};
use crate::ids;
use crate::key::Key;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::scheme::{Proof, Scheme};
use crate::webhook::{SignedWebhook, UnverifiedWebhook, VerifiedWebhook, VerifyError};
use crate::{
    bland, configured, daily, ed25519, elevenlabs, form, generic, livekit, plivo, retell, signalwire, telnyx, twilio,
    twiml, vapi, vonage,
};

/// Checks the provider's signature over the raw bytes, with every configured key, in constant time.
///
/// # Errors
///
/// The cause, for the log and the metric. Do not show it to the sender. The timestamp is checked after the signature,
/// so [`VerifyError::StaleTimestamp`] always means that the provider did sign this: earlier, or with a wrong clock.
pub fn verify(
    provider: Provider,
    config: &WebhookConfig,
    webhook: &UnverifiedWebhook<'_>,
    now: Timestamp,
) -> Result<VerifiedWebhook, VerifyError> {
    let keys = (config.keys(), config.window());
    let key_index = match provider.vendor() {
        Provider::Named(_) => {
            let scheme = config.scheme().ok_or(VerifyError::MissingScheme)?;
            let Proof { key_index, webhook_id } = scheme.verify(keys, config.public_url(), webhook, now)?;
            let query = if scheme.signs_url() { webhook.query } else { "" };
            let verified = VerifiedWebhook::new(provider, query, webhook.body.to_vec(), key_index);
            return Ok(verified.with_signed_id(webhook_id));
        }
        Provider::Retell => retell::SCHEME.verify(keys, webhook, now)?.key_index,
        Provider::Twilio => twilio::verify(config, webhook)?,
        Provider::Vapi => match config.scheme() {
            Some(scheme) => scheme.verify(keys, config.public_url(), webhook, now)?.key_index,
            None => vapi::SCHEME.verify(keys, webhook, now)?.key_index,
        },
        Provider::Telnyx => telnyx::SCHEME.verify(keys, webhook, now)?.key_index,
        Provider::ElevenLabs => elevenlabs::SCHEME.verify(keys, webhook, now)?.key_index,
        Provider::Plivo => plivo::SCHEME.verify(config.keys(), config.public_url(), webhook)?.key_index,
        Provider::Vonage => vonage::verify(config, webhook, now)?,
        Provider::LiveKit => livekit::verify(config, webhook, now)?,
        Provider::Daily => daily::SCHEME.verify(keys, webhook, now)?.key_index,
        Provider::Bland => bland::SCHEME.verify(keys, webhook, now)?.key_index,
        Provider::SignalWire => signalwire::SCHEME.verify(config.keys(), config.public_url(), webhook)?.key_index,
        Provider::Generic => generic::SCHEME.verify(keys, webhook, now)?.key_index,
    };
    Ok(VerifiedWebhook::new(provider, webhook.query, webhook.body.to_vec(), key_index).decided_by(config.decision()))
}

/// Reads a verified webhook of a provider that Switchhook has code for. The same webhook always gives the same event id and the same call events.
///
/// `received_at` is the time at which the event was first stored. It is copied into the event and decides nothing.
#[must_use]
pub fn read(webhook: &VerifiedWebhook, received_at: Timestamp) -> Reading {
    read_with_notes(webhook, received_at).0
}

/// Reads a verified webhook as [`read`] does, and returns notes for the log too.
#[must_use]
pub fn read_with_notes(webhook: &VerifiedWebhook, received_at: Timestamp) -> (Reading, ReadNotes) {
    let mut notes = ReadNotes::default();
    let reading = match webhook.provider().vendor() {
        Provider::Retell => retell::read(webhook, received_at, &mut notes),
        Provider::Twilio => twilio::read(webhook, received_at, &mut notes),
        Provider::Vapi => vapi::read(webhook, received_at, &mut notes),
        Provider::Telnyx => telnyx::read(webhook, received_at, &mut notes),
        Provider::ElevenLabs => elevenlabs::read(webhook, received_at, &mut notes),
        Provider::Plivo => plivo::read(webhook, received_at, &mut notes),
        Provider::Vonage => vonage::read(webhook, received_at, &mut notes),
        Provider::LiveKit => livekit::read(webhook, received_at, &mut notes),
        Provider::Daily => daily::read(webhook, received_at, &mut notes),
        Provider::Bland => bland::read(webhook, received_at, &mut notes),
        Provider::SignalWire => signalwire::read(webhook, received_at, &mut notes),
        Provider::Generic => generic::read(webhook, received_at, &mut notes),
        Provider::Named(_) => Err(ReadError::UnknownMapping),
    };
    (or_quarantined(reading, webhook), notes)
}

/// Reads a verified webhook as [`read_with_notes`] does, by the mapping of its provider if the configuration has one.
#[must_use]
pub fn read_as_configured(
    config: &WebhookConfig,
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
) -> (Reading, ReadNotes) {
    let Some(mapping) = config.mapping() else { return read_with_notes(webhook, received_at) };
    let mut notes = ReadNotes::default();
    let signs_form = |scheme: &Scheme| scheme.is_form(webhook.query(), webhook.body());
    let is_form = mapping.is_form || config.scheme().is_some_and(signs_form);
    let reading = configured::read(mapping, is_form, webhook, received_at, &mut notes);
    let quarantined = |error| Reading::Quarantined { event_id: configured::body_id(is_form, webhook), error };
    (reading.unwrap_or_else(quarantined), notes)
}

/// Adds the person's decision to a webhook of the inbox that has none, if the rule of the configuration finds one now.
#[must_use]
pub fn decided_as_configured(config: &WebhookConfig, webhook: VerifiedWebhook) -> VerifiedWebhook {
    if webhook.decision().is_some() { webhook } else { webhook.decided_by(config.decision()) }
}

fn or_quarantined(reading: Result<Reading, ReadError>, webhook: &VerifiedWebhook) -> Reading {
    reading.unwrap_or_else(|error| Reading::Quarantined {
        event_id: configured::body_id(is_form(webhook), webhook),
        error,
    })
}

/// True if a verified webhook is a form, whose parameters the provider signs in no certain order.
fn is_form(webhook: &VerifiedWebhook) -> bool {
    match webhook.provider().vendor() {
        Provider::Twilio => !twiml::is_json(webhook.query()),
        Provider::SignalWire => signalwire::SCHEME.is_form(webhook.query(), webhook.body()),
        Provider::Plivo => plivo::SCHEME.is_form(webhook.query(), webhook.body()),
        Provider::Retell
        | Provider::Vapi
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::Generic
        | Provider::Named(_) => false,
    }
}

/// True if the provider asks what to do with an inbound call, and waits for the answer.
#[must_use]
pub fn is_question(webhook: &VerifiedWebhook, reading: &Reading) -> bool {
    let has_type = |question: &str| matches!(reading, Reading::Recorded { event_type, .. } if event_type == question);
    match webhook.provider().vendor() {
        Provider::Retell => has_type(retell::QUESTION),
        Provider::Vapi => has_type(vapi::QUESTION),
        Provider::Twilio => twiml::is_question(webhook),
        Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => false,
    }
}

/// Signs a webhook as the provider would, for tests, the simulator and `switchhook send`.
///
/// `url` is the full public URL with its query. Only Twilio, Plivo and SignalWire sign it, without the fragment.
///
/// * Twilio and SignalWire: a JSON object or array is signed as JSON, and any other body as a form.
/// * Telnyx: the key is a private Ed25519 key, for example base64 of the 32 bytes of its seed. Any other text stands for the seed that is
///   its SHA-256. [`verifying_key`] returns the public key that verifies the webhooks.
/// * Daily: the key is the base64 of the secret. Any other text is the secret itself, and [`verifying_key`] returns its base64.
#[must_use]
pub fn sign(provider: Provider, key: &Key, url: &str, body: &[u8], now: Timestamp) -> SignedWebhook {
    match provider.vendor() {
        Provider::Retell => retell::SCHEME.sign_with_text(key, url, body, now),
        Provider::Twilio => twilio::sign(key, url, body),
        Provider::Vapi => vapi::SCHEME.sign_with_text(key, url, body, now),
        Provider::Telnyx => telnyx::SCHEME.sign_with_text(key, url, body, now),
        Provider::ElevenLabs => elevenlabs::SCHEME.sign_with_text(key, url, body, now),
        Provider::Plivo => plivo::SCHEME.sign(key, url, body, now),
        Provider::Vonage => vonage::sign(key, url, body, now),
        Provider::LiveKit => livekit::sign(key, url, body, now),
        Provider::Daily => daily::sign(key, url, body, now),
        Provider::Bland => bland::SCHEME.sign_with_text(key, url, body, now),
        Provider::SignalWire => signalwire::SCHEME.sign(key, url, body, now),
        Provider::Generic | Provider::Named(_) => generic::SCHEME.sign_with_text(key, url, body, now),
    }
}

/// Signs a webhook in the way that the configuration of its provider asks for. `switchhook send` uses it.
///
/// The first of Twilio's shared keys signs if there are any, else the first key. `None` if the configuration holds only public keys, as
/// Telnyx's does. [`sign_with_key`] signs for it.
#[must_use]
pub fn sign_as_configured(
    provider: Provider,
    config: &WebhookConfig,
    url: &str,
    body: &[u8],
    now: Timestamp,
) -> Option<SignedWebhook<String>> {
    let key = config.keys().first();
    match provider.vendor() {
        Provider::Twilio => match config.shared_keys().first() {
            Some(shared) => Some(twilio::sign_with_shared_key(shared, url, body).into()),
            None => Some(twilio::sign(key?, url, body).into()),
        },
        Provider::Vapi => match config.scheme() {
            Some(scheme) => scheme.sign(key?, url, body, now),
            None => Some(sign(provider, key?, url, body, now).into()),
        },
        Provider::Named(_) if config.scheme().is_some_and(Scheme::has_public_keys) => None,
        Provider::Named(_) => sign_with_key(provider, config, key?, url, body, now),
        Provider::Telnyx => None,
        Provider::Retell
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic => Some(sign(provider, key?, url, body, now).into()),
    }
}

/// Signs a webhook in the way that the configuration of its provider asks for, with this secret or private key. `switchhook send` uses it
/// if the configuration holds only public keys. `None` if the key does not have the form that the configuration asks for.
#[must_use]
pub fn sign_with_key(
    provider: Provider,
    config: &WebhookConfig,
    key: &Key,
    url: &str,
    body: &[u8],
    now: Timestamp,
) -> Option<SignedWebhook<String>> {
    if provider.vendor() == Provider::Telnyx {
        return telnyx::SCHEME.sign(key, url, body, now).map(Into::into);
    }
    let Some(scheme) = config.scheme() else { return Some(sign(provider, key, url, body, now).into()) };
    let signed = scheme.sign(key, url, body, now)?;
    let is_form = config.mapping().is_some_and(|mapping| mapping.is_form);
    Some(if is_form { SignedWebhook { content_type: form::CONTENT_TYPE, ..signed } } else { signed })
}

/// Text to put into `keys` of the configuration, so that webhooks that [`sign`] made with this key are accepted. For
/// Telnyx it is the public key. For Daily it is base64. For all other providers it is the key itself. So it is secret, except
/// Telnyx's.
#[must_use]
pub fn verifying_key(provider: Provider, key: &Key) -> String {
    match provider.vendor() {
        Provider::Telnyx => ed25519::public_key_of_text(key),
        Provider::Daily => daily::verifying_key(key),
        Provider::Retell
        | Provider::Twilio
        | Provider::Vapi
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => key.as_str().to_owned(),
    }
}

/// The HTTP request that places a call.
///
/// # Errors
///
/// [`ClientError::DialUnsupported`] if the provider has no API that places calls (Daily, generic), or if the account is another provider's.
pub fn dial_api_request(
    provider: Provider,
    config: &AccountConfig,
    request: &DialRequest<'_>,
) -> Result<ApiRequest, ClientError> {
    let api_request = match provider.vendor() {
        Provider::Retell => retell::dial_api_request(config, request),
        Provider::Twilio => twilio::dial_api_request(config, request),
        Provider::Vapi => vapi::dial_api_request(config, request),
        Provider::Telnyx => telnyx::dial_api_request(config, request),
        Provider::ElevenLabs => elevenlabs::dial_api_request(config, request),
        Provider::Plivo => plivo::dial_api_request(config, request),
        Provider::Vonage => vonage::dial_api_request(config, request),
        Provider::Bland => bland::dial_api_request(config, request),
        Provider::SignalWire => signalwire::dial_api_request(config, request),
        Provider::LiveKit => livekit::dial_api_request(config, request),
        Provider::Daily | Provider::Generic | Provider::Named(_) => None,
    };
    api_request.map(|request| request.of_account(config)).ok_or(ClientError::DialUnsupported)
}

/// Reads the provider's response to the request of [`dial_api_request`] that calls `to`. `retry_after` is the response's header
/// of that name.
#[must_use]
pub fn read_dial_answer(
    provider: Provider,
    to: &PhoneNumber,
    status: u16,
    retry_after: Option<&str>,
    body: &[u8],
) -> DialAnswer {
    let (provider_call_id, refusal) = match provider.vendor() {
        Provider::Retell => (retell::dialled_call_id(body), retell::refusal(body)),
        Provider::Twilio => (twilio::dialled_call_id(body), twilio::refusal(body, to)),
        Provider::Vapi => (vapi::dialled_call_id(body), vapi::refusal(body)),
        Provider::Telnyx => (telnyx::dialled_call_id(body), telnyx::refusal(body)),
        Provider::ElevenLabs => (elevenlabs::dialled_call_id(body), elevenlabs::refusal(body)),
        Provider::Plivo => (plivo::dialled_call_id(body), plivo::refusal(body)),
        Provider::Vonage => (vonage::dialled_call_id(body), vonage::refusal(status, body)),
        Provider::Bland => (bland::dialled_call_id(body), bland::refusal(status, body)),
        Provider::SignalWire => (signalwire::dialled_call_id(body), signalwire::refusal(body)),
        Provider::LiveKit => (livekit::dialled_call_id(body), livekit::refusal(status, body)),
        Provider::Daily | Provider::Generic | Provider::Named(_) => (None, None),
    };
    DialAnswer::from_response(status, retry_after, provider_call_id, refusal)
}

/// Call id that is derived from a provider call id, for example `retell:call_1`. Events that carry none of our ids
/// belong to this call, so the alias that leads to the real call is stored under it.
#[must_use]
pub fn derived_call_id(provider: Provider, provider_call_id: &str) -> String {
    ids::bounded(&format!("{provider}:"), provider_call_id)
}

/// Returns the ids under which events of a call may be stored: its own, and those that are [derived](derived_call_id) from the attempts that
/// Switchhook dialled.
#[must_use]
pub fn ids_of(call: &Call) -> BTreeSet<CallId> {
    let derived = call.attempt_records.iter().filter_map(|record| {
        let provider_call_id = record.provider_call_id.as_deref()?;
        Some(CallId::new(derived_call_id(record.provider?, provider_call_id)))
    });
    derived.chain([call.call_id.clone()]).collect()
}
