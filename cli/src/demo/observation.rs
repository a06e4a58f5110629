//! The observations of a run: everything that can be seen from outside. These are the responses, the state that the API
//! shows, the published domain events, the logs, and the fake provider's own record. The player fills them in, and the
//! oracle checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use switchhook_local::dynamodb::Count;
pub(super) use switchhook_local::fake::RequestResult;
use switchhook_local::queue::Depth;

use super::placed_script::ApiRequest;
use super::script::Millis;

/// Everything that was observed during one run. A *script* is the planned course of one call.
#[derive(Debug, Default)]
pub(super) struct Observations {
    /// Responses to the webhooks, in the order of the deliveries.
    pub(super) webhook_responses: Vec<WebhookResponse>,
    /// Calls that others placed, in the order of their scripts.
    pub(super) calls: Vec<ObservedCall>,
    /// Calls that Switchhook placed, in the order of their scripts.
    pub(super) placed_calls: Vec<PlacedCall>,
    /// Every webhook that the fake provider sent.
    pub(super) sent_webhooks: BTreeSet<WebhookKey>,
    /// Number of phones that the fake provider rang more than once for one attempt.
    pub(super) duplicate_dials: usize,
    /// Number of log lines of the scheduler and the dialer, by `action_taken`.
    pub(super) worker_actions: BTreeMap<String, u64>,
    /// Ids of the calls for which the drift check logged a drift.
    pub(super) drifted_calls: Vec<String>,
    /// Domain events and dials that belong to no call of this run.
    pub(super) unexpected_events: Vec<Value>,
    /// Domain events about unreadable webhooks, each once.
    pub(super) quarantine_events: Vec<Value>,
    /// Domain events about the health of the provider, each once, in the order of publication.
    pub(super) provider_events: Vec<Value>,
    /// Ids of domain events that were published with two different contents.
    pub(super) ids_with_two_contents: Vec<String>,
    /// Rejected webhooks by the cause in the log.
    pub(super) rejections_by_cause: BTreeMap<String, u64>,
    /// Webhooks that named a call which their sender may not name, as counted from the log.
    pub(super) foreign_ids: u64,
    /// Log lines that report a failure.
    pub(super) logged_failures: Vec<String>,
    pub(super) events_queue: Depth,
    pub(super) dial_queue: Depth,
    pub(super) dead_letters: Depth,
    pub(super) relay_failures: Depth,
    /// Database requests by operation, without those by which the player reads the final state.
    pub(super) database_requests: BTreeMap<&'static str, Count>,
    /// Real time that the run took.
    pub(super) wall_time: Duration,
}

/// Response to one delivery.
#[derive(Clone, Debug, Default)]
pub(super) struct WebhookResponse {
    /// HTTP status.
    pub(super) code: u16,
    /// `accepted`, `already_processed`, …, or the error of a rejected webhook.
    pub(super) status: String,
    pub(super) event_id: Option<String>,
}

/// One call as the system shows and announces it.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedCall {
    /// Answer of `GET /call?id={id}`. `None` if the call does not exist.
    pub(super) call: Option<Value>,
    pub(super) timeline: Vec<Value>,
    /// Domain events of the call in the order of publication, each once.
    pub(super) domain_events: Vec<Value>,
    /// Time of publication of each domain event, by the system's clock.
    pub(super) published_at: Vec<Millis>,
}

/// Everything that was observed about one call that Switchhook placed.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacedCall {
    /// Id from the response to the request that created the call.
    pub(super) call_id: String,
    /// In the order of time.
    pub(super) api_responses: Vec<ApiResponse>,
    pub(super) phone_rings: Vec<PhoneRing>,
    /// In the order of time.
    pub(super) sent_webhooks: Vec<SentWebhook>,
    /// In the order of time.
    pub(super) provider_responses: Vec<ProviderResponse>,
    pub(super) observed: ObservedCall,
}

/// Response to one request to Switchhook's API.
#[derive(Clone, Debug)]
pub(super) struct ApiResponse {
    pub(super) request: ApiRequest,
    /// HTTP status.
    pub(super) code: u16,
    pub(super) body: Value,
}

/// A phone that rang, according to the fake provider.
#[derive(Clone, Debug)]
pub(super) struct PhoneRing {
    pub(super) provider_call_id: String,
    /// Switchhook's number of the dial, from the metadata of the request.
    pub(super) attempt: String,
    /// Keyword of the scenario that the fake provider played.
    pub(super) behaviour: &'static str,
    pub(super) started_at: Millis,
    pub(super) answered_at: Option<Millis>,
    pub(super) ended_at: Millis,
}

/// A webhook that the fake provider sent.
#[derive(Clone, Debug)]
pub(super) struct SentWebhook {
    pub(super) provider_call_id: String,
    pub(super) at: Millis,
    /// The provider's name for the event, such as `call_ended`.
    pub(super) event: &'static str,
}

/// The fake provider's response to a dial or to a lookup.
#[derive(Clone, Debug)]
pub(super) struct ProviderResponse {
    /// Switchhook's number of the dial, from the metadata of the request.
    pub(super) attempt: String,
    pub(super) at: Millis,
    pub(super) result: RequestResult,
}

/// The provider's id of a call, and the time at which a webhook about it was sent.
pub(super) type WebhookKey = (String, Millis);

impl PlacedCall {
    /// True if the dial with this number, counted from 1, found the provider down. The request may have been repeated.
    pub(super) fn hit_outage(&self, number: usize) -> bool {
        let has_result = |result: RequestResult| self.dial_responses(number).any(|response| response.result == result);
        has_result(RequestResult::Unavailable) && !has_result(RequestResult::Accepted)
    }

    /// Returns the provider's responses to the requests of a dial.
    pub(super) fn dial_responses(&self, number: usize) -> impl Iterator<Item = &ProviderResponse> {
        self.responses_about(number).filter(|response| is_of_dial(response.result))
    }

    /// Time at which the dial was made. A request that the rate limit refused does not count.
    pub(super) fn dialled_at(&self, number: usize) -> Option<Millis> {
        self.dial_responses(number)
            .find(|response| response.result != RequestResult::RateLimited)
            .map(|response| response.at)
    }

    /// Time of the last request for a dial. `None` if there was none.
    pub(super) fn last_dial_request(&self) -> Option<Millis> {
        let of_dials = self.provider_responses.iter().filter(|response| is_of_dial(response.result));
        of_dials.map(|response| response.at).max()
    }

    /// Returns the times at which a lookup of a dial found no such call at the provider.
    pub(super) fn lookups_without_result(&self, number: usize) -> impl Iterator<Item = Millis> {
        self.responses_about(number)
            .filter(|response| response.result == RequestResult::NotFound)
            .map(|response| response.at)
    }

    pub(super) fn phone_ring(&self, number: usize) -> Option<&PhoneRing> {
        self.phone_rings.iter().find(|ring| ring.attempt == number.to_string())
    }

    /// Returns the provider's responses to the requests and lookups of a dial.
    pub(super) fn responses_about(&self, number: usize) -> impl Iterator<Item = &ProviderResponse> {
        self.provider_responses.iter().filter(move |response| response.attempt == number.to_string())
    }
}

const fn is_of_dial(result: RequestResult) -> bool {
    match result {
        RequestResult::Accepted
        | RequestResult::RateLimited
        | RequestResult::Refused
        | RequestResult::Rejected
        | RequestResult::Unavailable => true,
        RequestResult::NotFound | RequestResult::InProgress | RequestResult::Ended | RequestResult::Analysed => false,
    }
}
