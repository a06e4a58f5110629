//! Requests, responses and webhooks of the fake provider in the form of each vendor.
//!
//! A vendor's module reads its dial requests ([`Order`]), shows a call, lists its webhooks, and answers questions about calls.

mod bland;
mod elevenlabs;
mod livekit;
mod plivo;
mod retell;
mod signalwire;
mod telnyx;
mod twilio;
mod twiml;
mod vapi;
mod vonage;

use std::collections::BTreeMap;

use jiff::fmt::rfc2822;
use serde_json::{Value, json};
use switchhook_domain::Provider;

use super::call::FakeCall;
use super::records::RequestResult;
use super::response::{ApiResponse, error, respond};
use super::state::State;

/// Request to the API of a vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// Provider whose API it is, or a further account of it. Each knows its own calls alone.
    pub(super) provider: Provider,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
}

/// A dial request, in no vendor's words.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) provider: Provider,
    pub(super) from: Value,
    pub(super) to: Value,
    /// Ids and behaviour that the request carries.
    pub(super) metadata: Value,
    pub(super) idempotency_key: Option<String>,
    /// Fields that the vendor repeats in its webhooks and responses.
    pub(super) echoed: Value,
}

/// A webhook of a call.
#[derive(Clone, Debug)]
pub(super) struct Webhook {
    pub(super) event: &'static str,
    /// Time of the event, in Unix milliseconds.
    pub(super) at: i64,
    pub(super) body: String,
}

/// Vendor to whose API a request belongs. Vonage and Bland have the same paths. Only a login at Vonage is a bearer token.
fn provider_of(path: &str, login: Option<&str>) -> Option<Provider> {
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
    if starts_with(&["/v2/calls", "/v2/call_events", "/v2/connections/"]) {
        Some(Provider::Telnyx)
    } else if starts_with(&["/v2/", "/v3/"]) {
        Some(Provider::Retell)
    } else if starts_with(&["/api/laml/2010-04-01/"]) {
        Some(Provider::SignalWire)
    } else if starts_with(&["/2010-04-01/"]) {
        Some(Provider::Twilio)
    } else if path == "/call" || starts_with(&["/call/"]) {
        Some(Provider::Vapi)
    } else if starts_with(&["/v1/convai/"]) {
        Some(Provider::ElevenLabs)
    } else if starts_with(&["/v1/Account/"]) {
        Some(Provider::Plivo)
    } else if path == "/v1/calls" || starts_with(&["/v1/calls/"]) {
        let is_token = login.is_none_or(|login| login.starts_with("Bearer "));
        Some(if is_token { Provider::Vonage } else { Provider::Bland })
    } else if starts_with(&["/twirp/livekit."]) {
        Some(Provider::LiveKit)
    } else {
        None
    }
}

/// Start of the paths of further accounts. The functions of the local cloud have it in the URLs of such accounts.
const ACCOUNTS_PATH: &str = "/accounts/";

/// Base URL of the API of a further account, for the functions of the local cloud.
pub(crate) fn account_url(account: Provider) -> String {
    format!("https://fake.example{ACCOUNTS_PATH}{account}")
}

/// Provider or further account to whose API a request belongs, and the vendor's own path of it.
pub(super) fn addressee<'a>(path: &'a str, login: Option<&str>) -> Option<(Provider, &'a str)> {
    let of_account = path.strip_prefix(ACCOUNTS_PATH).and_then(|path| {
        let (name, _) = path.split_once('/')?;
        Some((name.parse::<Provider>().ok()?, path.get(name.len()..)?))
    });
    match of_account {
        Some((account, path)) => {
            provider_of(path, login).filter(|own| *own == account.vendor()).map(|_| (account, path))
        }
        None => provider_of(path, login).map(|provider| (provider, path)),
    }
}

/// Reads a dial request. `None` for any other request.
pub(super) fn order(request: &Request<'_>) -> Option<Order> {
    match request.provider.vendor() {
        Provider::Retell => retell::order(request),
        Provider::Twilio => twilio::order(request),
        Provider::Vapi => vapi::order(request),
        Provider::Telnyx => telnyx::order(request),
        Provider::ElevenLabs => elevenlabs::order(request),
        Provider::Plivo => plivo::order(request),
        Provider::Vonage => vonage::order(request),
        Provider::Bland => bland::order(request),
        Provider::SignalWire => signalwire::order(request),
        Provider::LiveKit => livekit::order(request),
        Provider::Daily | Provider::Generic | Provider::Named(_) => None,
    }
}

/// Response to the dial request of this call. A call above the limit of the account has a phone that never rings.
pub(super) fn dialled(call: &FakeCall, id: &str, now: i64) -> ApiResponse {
    match call.provider.vendor() {
        Provider::Twilio => respond(201, &twilio::call(call, id, now)),
        Provider::Telnyx => respond(200, &json!({"data": telnyx::call(call, id, now)})),
        Provider::ElevenLabs => respond(200, &elevenlabs::dialled(id)),
        Provider::Plivo => respond(201, &plivo::dialled(id)),
        Provider::Vonage => respond(201, &vonage::dialled(id)),
        Provider::LiveKit => respond(200, &livekit::dialled(call, id)),
        Provider::Bland => respond(200, &bland::dialled(id)),
        Provider::SignalWire => respond(201, &signalwire::call(call, id, now)),
        Provider::Vapi if call.is_over_capacity => vapi::blocked(id),
        Provider::Vapi => respond(201, &vapi::call(call, id, now)),
        Provider::Retell | Provider::Daily | Provider::Generic | Provider::Named(_) => {
            respond(201, &retell::call(call, id, now))
        }
    }
}

/// All webhooks of a call, in the order of its events.
pub(super) fn webhooks(call: &FakeCall, id: &str) -> Vec<Webhook> {
    match call.provider.vendor() {
        Provider::Retell | Provider::Daily | Provider::Generic | Provider::Named(_) => retell::webhooks(call, id),
        Provider::Twilio => twilio::webhooks(call, id),
        Provider::Vapi => vapi::webhooks(call, id),
        Provider::Telnyx => telnyx::webhooks(call, id),
        Provider::ElevenLabs => elevenlabs::webhooks(call, id),
        Provider::Plivo => plivo::webhooks(call, id),
        Provider::Vonage => vonage::webhooks(call, id),
        Provider::LiveKit => livekit::webhooks(call, id),
        Provider::Bland => bland::webhooks(call, id),
        Provider::SignalWire => signalwire::webhooks(call, id),
    }
}

impl State {
    /// Answers a question about calls.
    pub(super) fn answer(&mut self, request: &Request<'_>, now: i64) -> ApiResponse {
        let answer = match request.provider.vendor() {
            Provider::Retell => retell::answer(self, request, now),
            Provider::Twilio => twilio::answer(self, request, now),
            Provider::Vapi => vapi::answer(self, request, now),
            Provider::Telnyx => telnyx::answer(self, request, now),
            Provider::ElevenLabs => elevenlabs::answer(self, request, now),
            Provider::Plivo => plivo::answer(self, request, now),
            Provider::Vonage => vonage::answer(self, request, now),
            Provider::Bland => bland::answer(self, request, now),
            Provider::SignalWire => signalwire::answer(self, request, now),
            Provider::LiveKit => livekit::answer(self, request, now),
            Provider::Daily | Provider::Generic | Provider::Named(_) => None,
        };
        answer.unwrap_or_else(|| error(404, "no such path"))
    }

    /// Answers a question about one call, and records the answer. `show` puts the call into the vendor's words.
    fn get(
        &mut self,
        provider: Provider,
        id: &str,
        now: i64,
        unknown: ApiResponse,
        show: impl Fn(&FakeCall, &str, i64) -> Value,
    ) -> ApiResponse {
        let Some(call) = self.calls.get(id).filter(|call| call.provider == provider) else { return unknown };
        let (metadata, result) = (call.metadata.clone(), call.lookup_result(now));
        let answer = if result == RequestResult::NotFound { unknown } else { respond(200, &show(call, id, now)) };
        self.record(provider, &metadata, now, result);
        answer
    }

    /// The calls that this vendor knows, the newest first.
    fn known(&self, provider: Provider, now: i64) -> Vec<(&String, &FakeCall)> {
        let is_known =
            |call: &FakeCall| call.provider == provider && call.lookup_result(now) != RequestResult::NotFound;
        let mut known: Vec<(&String, &FakeCall)> = self.calls.iter().filter(|(_, call)| is_known(call)).collect();
        known.sort_by_key(|(id, call)| std::cmp::Reverse((call.created_ms, *id)));
        known
    }
}

/// Parameters of a query or a form. Of a parameter that occurs several times, the last one counts.
fn parameters(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

/// The query of a URL. Empty if it has none.
fn query_of(url: &str) -> &str {
    url.split_once('?').map_or("", |(_, query)| query)
}

/// The metadata of a call, which is in the query of this URL.
fn metadata_of(url: &str) -> Value {
    parameters(query_of(url).as_bytes()).into_iter().collect()
}

/// Page `number` (counted from 0) of a list, and whether another one follows.
fn page<T>(rows: Vec<T>, number: usize, size: usize) -> (Vec<T>, bool) {
    let size = size.clamp(1, 1_000);
    let skipped = number.saturating_mul(size);
    let has_more = rows.len() > skipped.saturating_add(size);
    (rows.into_iter().skip(skipped).take(size).collect(), has_more)
}

fn number(parameters: &BTreeMap<String, String>, name: &str, otherwise: usize) -> usize {
    parameters.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// RFC 3339 time of a Unix time in milliseconds.
fn rfc3339(at: i64) -> String {
    switchhook_domain::Timestamp::from_millis(at).to_string()
}

/// RFC 2822 time of a Unix time in milliseconds, without the milliseconds.
fn rfc2822_time(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default()
}

/// Unix time in milliseconds of an RFC 3339 time.
fn millis_of(text: Option<&String>) -> Option<i64> {
    switchhook_domain::Timestamp::parse_rfc3339(text?).map(switchhook_domain::Timestamp::as_millis)
}
