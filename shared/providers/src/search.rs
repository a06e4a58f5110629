//! Search for one attempt at its provider: a small state machine of requests and responses.
//!
//! One request is enough if the provider call id is known. Otherwise the provider's lists are read page by page, until
//! the call is found or the lists end.

use http::StatusCode;
use switchhook_domain::{Provider, ProviderEvent, Timestamp};

use crate::api::{ApiRequest, ClientError};
use crate::config::AccountConfig;
use crate::dispatch::read;
use crate::lookup::{Lookup, LookupAnswer, ParsedAnswer, Step};
use crate::reading::Reading;
use crate::webhook::VerifiedWebhook;
use crate::{bland, elevenlabs, livekit, plivo, retell, signalwire, telnyx, twilio, vapi, vonage};

/// Limit on the requests of one search. Beyond it, the search is undecided.
const REQUESTS_MAX: u32 = 30;

/// A search that waits for the response to its [`request`](Self::request).
#[derive(Clone, Debug)]
pub struct CallSearch<'a> {
    config: &'a AccountConfig,
    lookup: Lookup<'a>,
    request: ApiRequest,
    stage: Stage,
    requests: u32,
}

/// Next step of a search.
#[derive(Clone, Debug)]
pub enum SearchStep<'a> {
    /// Send the request of this search, and continue it.
    Ask(CallSearch<'a>),
    Answer(LookupAnswer),
}

#[derive(Clone, Debug)]
enum Stage {
    Retell(retell::Search),
    Twilio(twilio::Search),
    Vapi(vapi::Search),
    Telnyx(telnyx::Search),
    ElevenLabs(elevenlabs::Search),
    Plivo(plivo::Search),
    Vonage(vonage::Search),
    LiveKit(livekit::Search),
    Bland(bland::Search),
    SignalWire(signalwire::Search),
}

impl<'a> CallSearch<'a> {
    /// Starts the search for an attempt. If the provider call id is unknown, the search is by our own ids, or by the
    /// numbers and the time of the dial.
    ///
    /// # Errors
    ///
    /// [`ClientError::LookupUnsupported`] for generic, and for the account of another provider. Also if the provider call id is
    /// unknown and the provider cannot be searched by the other facts in `lookup`.
    pub fn start(provider: Provider, config: &'a AccountConfig, lookup: Lookup<'a>) -> Result<Self, ClientError> {
        let first = match provider.vendor() {
            Provider::Retell => retell::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Retell(next))),
            Provider::Twilio => twilio::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Twilio(next))),
            Provider::Vapi => vapi::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Vapi(next))),
            Provider::Telnyx => telnyx::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Telnyx(next))),
            Provider::ElevenLabs => {
                elevenlabs::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::ElevenLabs(next)))
            }
            Provider::Plivo => plivo::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Plivo(next))),
            Provider::Vonage => vonage::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Vonage(next))),
            Provider::Bland => bland::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::Bland(next))),
            Provider::SignalWire => {
                signalwire::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::SignalWire(next)))
            }
            Provider::LiveKit => livekit::start_search(config, &lookup).map(|(ask, next)| (ask, Stage::LiveKit(next))),
            Provider::Daily | Provider::Generic | Provider::Named(_) => None,
        };
        let (request, stage) = first.ok_or(ClientError::LookupUnsupported)?;
        Ok(Self { config, lookup, request: request.of_account(config), stage, requests: 1 })
    }

    /// The request to send now.
    #[must_use]
    pub fn request(&self) -> &ApiRequest {
        &self.request
    }

    /// Reads the response to the request. `now` is the current time.
    #[must_use]
    pub fn respond(self, status: u16, body: &[u8], now: Timestamp) -> SearchStep<'a> {
        // `None` means that the provider does not know the call.
        let body = match StatusCode::from_u16(status) {
            Ok(status) if status.is_success() => Some(body),
            Ok(StatusCode::NOT_FOUND) => None,
            Ok(StatusCode::UNPROCESSABLE_ENTITY) if self.is_unknown_call(body) => None,
            Ok(StatusCode::TOO_MANY_REQUESTS) => return retry_later("rate_limited"),
            Ok(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => return retry_later("unauthorized"),
            Ok(_) | Err(_) => return retry_later("failed"),
        };
        let Self { config, lookup, stage, requests, .. } = self;
        let step = match stage {
            Stage::Retell(search) => wrap(retell::next_step(config, &lookup, search, body), Stage::Retell),
            Stage::Twilio(search) => wrap(twilio::next_step(config, &lookup, search, body, now), Stage::Twilio),
            Stage::Vapi(search) => wrap(vapi::next_step(config, &lookup, search, body), Stage::Vapi),
            Stage::Telnyx(search) => wrap(telnyx::next_step(config, &lookup, search, body, now), Stage::Telnyx),
            Stage::ElevenLabs(search) => wrap(elevenlabs::next_step(config, &lookup, search, body), Stage::ElevenLabs),
            Stage::Plivo(search) => wrap(plivo::next_step(config, &lookup, search, body), Stage::Plivo),
            Stage::Vonage(search) => wrap(vonage::next_step(config, &lookup, search, body), Stage::Vonage),
            Stage::LiveKit(livekit::Search) => wrap(livekit::next_step(&lookup, body), Stage::LiveKit),
            Stage::Bland(search) => wrap(bland::next_step(config, &lookup, search, body), Stage::Bland),
            Stage::SignalWire(search) => wrap(signalwire::next_step(config, &lookup, search, body), Stage::SignalWire),
        };
        let answer = match step {
            Step::Ask(_, _) if requests >= REQUESTS_MAX => LookupAnswer::Undecided { reason: "too_many_calls" },
            Step::Ask(request, stage) => {
                let request = request.of_account(config);
                return SearchStep::Ask(Self { config, lookup, request, stage, requests: requests + 1 });
            }
            Step::Answer(parsed) => lookup_answer(config, parsed, now),
        };
        SearchStep::Answer(answer)
    }

    /// True if this body of a 422 says that the provider does not know the call. Retell and Telnyx answer so, where others answer 404.
    fn is_unknown_call(&self, body: &[u8]) -> bool {
        match self.stage {
            Stage::Retell(_) => retell::is_unknown(body),
            Stage::Telnyx(telnyx::Search::ById) => telnyx::is_unknown(body),
            Stage::Telnyx(
                telnyx::Search::Hangup { .. } | telnyx::Search::Events { .. } | telnyx::Search::ActiveCalls { .. },
            )
            | Stage::Twilio(_)
            | Stage::Vapi(_)
            | Stage::ElevenLabs(_)
            | Stage::Plivo(_)
            | Stage::Vonage(_)
            | Stage::LiveKit(_)
            | Stage::Bland(_)
            | Stage::SignalWire(_) => false,
        }
    }
}

/// Wraps the search of one provider in the [`Stage`] of any.
fn wrap<S>(step: Step<S>, stage: fn(S) -> Stage) -> Step<Stage> {
    match step {
        Step::Ask(request, search) => Step::Ask(request, stage(search)),
        Step::Answer(answer) => Step::Answer(answer),
    }
}

fn retry_later<'a>(reason: &'static str) -> SearchStep<'a> {
    SearchStep::Answer(LookupAnswer::RetryLater { reason })
}

/// Reads a provider's answer that was rewritten as a webhook. `None` if it makes no event.
pub(crate) fn read_answer(
    config: &AccountConfig,
    query: &str,
    body: Vec<u8>,
    now: Timestamp,
) -> Option<(VerifiedWebhook, ProviderEvent)> {
    let webhook = as_webhook(config, query, body);
    match read(&webhook, now) {
        Reading::Event(event) => Some((webhook, event)),
        Reading::Recorded { .. } | Reading::Quarantined { .. } => None,
    }
}

/// The webhook that a provider's answer was rewritten as.
fn as_webhook(config: &AccountConfig, query: &str, body: Vec<u8>) -> VerifiedWebhook {
    // Only the provider answers on this connection, so its response is as trustworthy as a signed webhook.
    VerifiedWebhook::new(config.provider, query, body, 0).decided_by(config.decision())
}

fn lookup_answer(config: &AccountConfig, parsed: ParsedAnswer, now: Timestamp) -> LookupAnswer {
    match parsed {
        ParsedAnswer::Ended { others, query, body } => {
            let webhook = as_webhook(config, &query, body);
            match read(&webhook, now) {
                Reading::Event(event) => {
                    let others = others.into_iter().filter_map(|body| read_answer(config, "", body, now));
                    let others = others.collect();
                    LookupAnswer::Ended { others, webhook, event: Box::new(event) }
                }
                // The provider works, and a later answer says no more.
                Reading::Recorded { .. } => LookupAnswer::Undecided { reason: "no_call_event" },
                Reading::Quarantined { .. } => LookupAnswer::RetryLater { reason: "unreadable" },
            }
        }
        ParsedAnswer::Alive { provider_call_id } => LookupAnswer::Alive { provider_call_id },
        ParsedAnswer::NotFound => LookupAnswer::NotFound,
        ParsedAnswer::Undecided(reason) => LookupAnswer::Undecided { reason },
        ParsedAnswer::TooEarly(reason) => LookupAnswer::TooEarly { reason },
        ParsedAnswer::Gone => LookupAnswer::Gone,
        ParsedAnswer::UnknownValue(field) => LookupAnswer::UnknownValue { field },
        ParsedAnswer::Unreadable => LookupAnswer::RetryLater { reason: "unreadable" },
    }
}
