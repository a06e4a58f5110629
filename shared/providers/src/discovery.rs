//! Discovery: reads a provider's own list of recent calls, page by page.
//!
//! **Every ended call of the list is rewritten as a webhook of the same provider**, as in a lookup. So a call enters like
//! every other event, even if all its webhooks were lost. If the list has the webhooks of a call, as Telnyx's does, they are taken as they
//! are.

use http::StatusCode;
use switchhook_domain::{EventId, Provider, ProviderEvent, Timestamp};

use crate::api::{ApiRequest, ClientError};
use crate::config::AccountConfig;
use crate::lookup::Period;
use crate::search::read_answer;
use crate::webhook::VerifiedWebhook;
use crate::{bland, elevenlabs, plivo, retell, signalwire, telnyx, twilio, twiml, vapi, vonage};

/// One page of a provider's list of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPage {
    /// Events of the ended calls of the page: the webhook to store, and the event that [`read`](crate::read) makes of it. Those of one call stand
    /// together, the one that ends it last.
    pub events: Vec<(VerifiedWebhook, ProviderEvent)>,
    /// Provider call ids of the calls that the page only names, and that have ended or have a status that Switchhook does not know. A
    /// [`CallSearch`](crate::CallSearch) returns the ending of each.
    pub named: Vec<String>,
    /// Names of the fields with a status that Switchhook does not know, one for each call of the page that cannot be read because of
    /// it.
    pub unknown_values: Vec<&'static str>,
    /// Names the next page to [`discovery_api_request`]. `None` if this was the last one.
    pub next_page: Option<String>,
}

/// The HTTP request for a page of the calls that were created in a period. `page` is `None` for the first page.
///
/// # Errors
///
/// [`ClientError::LookupUnsupported`] for LiveKit and generic, and for the account of another provider.
pub fn discovery_api_request(
    provider: Provider,
    config: &AccountConfig,
    period: Period,
    page: Option<&str>,
) -> Result<ApiRequest, ClientError> {
    let request = match provider.vendor() {
        Provider::Retell => retell::discovery_request(config, period, page),
        Provider::Twilio => twilio::discovery_request(config, period, page),
        Provider::Vapi => vapi::discovery_request(config, period, page),
        Provider::Telnyx => telnyx::discovery_request(config, period, page),
        Provider::ElevenLabs => elevenlabs::discovery_request(config, period, page),
        Provider::Plivo => plivo::discovery_request(config, period, page),
        Provider::Vonage => vonage::discovery_request(config, period, page),
        Provider::Bland => bland::discovery_request(config, period, page),
        Provider::SignalWire => signalwire::discovery_request(config, period, page),
        Provider::LiveKit | Provider::Daily | Provider::Generic | Provider::Named(_) => None,
    };
    request.map(|request| request.of_account(config)).ok_or(ClientError::LookupUnsupported)
}

/// Reads the provider's response to the request of [`discovery_api_request`] for `page`. `None` if the response is no
/// page of calls.
#[must_use]
pub fn read_discovery_answer(
    provider: Provider,
    config: &AccountConfig,
    period: Period,
    page: Option<&str>,
    status: u16,
    body: &[u8],
    now: Timestamp,
) -> Option<CallPage> {
    if !StatusCode::from_u16(status).is_ok_and(|status| status.is_success()) {
        return None;
    }
    let (calls, next_page) = match provider.vendor() {
        Provider::Retell => retell::parse_page(body),
        Provider::Twilio => twilio::parse_page(body, period),
        Provider::Vapi => vapi::parse_page(body, period, page),
        Provider::Telnyx => telnyx::parse_page(body, period, page),
        Provider::Plivo => plivo::parse_page(body, period, page),
        Provider::Vonage => vonage::parse_page(body, period, page),
        Provider::SignalWire => signalwire::parse_page(body, period),
        Provider::ElevenLabs => {
            let (named, next_page) = elevenlabs::parse_page(body)?;
            return Some(CallPage { events: Vec::new(), named, unknown_values: Vec::new(), next_page });
        }
        Provider::Bland => {
            let (named, next_page) = bland::parse_page(body, period, page)?;
            return Some(CallPage { events: Vec::new(), named, unknown_values: Vec::new(), next_page });
        }
        Provider::LiveKit | Provider::Daily | Provider::Generic | Provider::Named(_) => None,
    }?;
    let webhooks = calls.webhooks.into_iter();
    let events = webhooks.filter_map(|(query, body)| read_answer(config, &query, body, now)).collect();
    Some(CallPage { events, named: Vec::new(), unknown_values: calls.unknown_values, next_page })
}

/// Ids of the webhooks that may have reported a listed call under a call id that the list does not show. If the inbox has one of them,
/// the call is known. Twilio, SignalWire and Plivo return ids only in the query of a callback, and Plivo may name another id when a call is
/// placed. Empty for the others.
#[must_use]
pub fn reporting_event_ids(provider: Provider, provider_call_id: &str) -> Vec<EventId> {
    match provider.vendor() {
        Provider::Plivo => plivo::callback_event_ids(provider, provider_call_id),
        Provider::Twilio | Provider::SignalWire => twiml::callback_event_ids(provider, provider_call_id),
        Provider::Retell
        | Provider::Vapi
        | Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::Generic
        | Provider::Named(_) => Vec::new(),
    }
}
