//! Looking a call up at its provider: the question, and the meaning of the response.
//!
//! **The response is rewritten as a webhook of the same provider.** So it is stored, read and replayed like every other
//! event. The webhook contains only facts from the response, and its event id is made from these facts. So two lookups
//! of an ended call give the same event. If the id of the provider's own webhook can be predicted (Retell, Vapi), the
//! event gets that id.

use serde_json::Value;
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, ProviderEvent, Timestamp};

use crate::api::{ApiRequest, query};
use crate::correlation::EchoedIds;
use crate::webhook::VerifiedWebhook;

/// The provider's clock and ours may differ by this much.
const CREATED_BEFORE_MS: i64 = 60 * 1000;
/// A request may take this long to become a call, and the clocks may differ. A call that waits in a queue of its provider may take longer.
const CREATED_AFTER_MS: i64 = 2 * 60 * 1000;

/// Question to a provider about one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    pub call_id: &'a CallId,
    pub attempt: &'a AttemptKey,
    /// `None` if the provider's response to the dial was lost. Then only our own ids can identify the call.
    pub provider_call_id: Option<&'a str>,
    /// Time of our dial, by our clock. `None` if the call was placed by somebody else.
    pub dialled_at: Option<Timestamp>,
    /// Calling number. If the provider call id is unknown, a provider whose lists cannot be filtered by our ids is searched by both
    /// numbers.
    pub from: Option<&'a PhoneNumber>,
    pub to: Option<&'a PhoneNumber>,
}

impl Lookup<'_> {
    /// Our ids, as in the query of a callback URL.
    pub(crate) fn ids_query(&self) -> String {
        query([("switchhook_call_id", self.call_id.as_str()), ("switchhook_attempt", self.attempt.as_str())])
    }

    /// True if a list that is filtered by both numbers shows every call that could be ours. Providers document E.164 numbers as filters,
    /// and not how they compare SIP addresses.
    pub(crate) fn is_filtered_by_numbers(&self) -> bool {
        [self.from, self.to].into_iter().flatten().all(PhoneNumber::is_e164)
    }

    /// Time in which our call was created, by the provider's clock, unless it waited in the provider's queue. `None` if the time of the dial is
    /// unknown.
    pub(crate) fn period(&self) -> Option<Period> {
        let dialled_at = self.dialled_at?;
        let until = Timestamp::from_millis(dialled_at.as_millis().saturating_add(CREATED_AFTER_MS));
        Some(Period { from: created_from(dialled_at), until })
    }

    /// True if the echoed ids are those of exactly this attempt.
    pub(crate) fn matches(&self, echoed: &EchoedIds) -> bool {
        echoed.switchhook_call_id.as_deref() == Some(self.call_id.as_str())
            && echoed.switchhook_attempt.as_deref() == Some(self.attempt.as_str())
    }
}

/// Meaning of a provider's response to a [`Lookup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupAnswer {
    /// The call is over.
    Ended {
        /// Other events of the call, in the same form. Only a list of webhooks has them. They may say more than the ending: Telnyx's ending
        /// does not say whether anybody answered.
        others: Vec<(VerifiedWebhook, ProviderEvent)>,
        /// The response as a webhook. Store its query and body in the inbox.
        webhook: VerifiedWebhook,
        /// The event that [`read`](crate::read) makes of this webhook, now and from the inbox.
        event: Box<ProviderEvent>,
    },
    /// The call is not over.
    Alive { provider_call_id: String },
    /// The search covered every call that could be ours, and none is. So the provider does not have the call at this
    /// time. Given only for an attempt without a provider call id.
    NotFound,
    /// The search cannot tell whether one of the provider's calls is ours. Or the call is over, and the answer changes no call: for example,
    /// it is about another leg.
    Undecided { reason: &'static str },
    /// The search cannot tell yet. The provider shows more about a call that it found some time after the end of the call. Ask again later.
    TooEarly { reason: &'static str },
    /// The provider knows no call under the provider call id. The call was placed, and the provider has deleted it
    /// since.
    Gone,
    /// The provider has the call, with a status that Switchhook does not know: the vendor's list has grown. Ask again later.
    UnknownValue {
        /// The vendor's name of the field.
        field: &'static str,
    },
    /// The response contains no answer. Ask again later.
    RetryLater { reason: &'static str },
}

/// Next step of a search at one provider. `S` says how to read the response.
pub(crate) enum Step<S> {
    Ask(ApiRequest, S),
    Answer(ParsedAnswer),
}

/// Result of a search, in the terms of one provider's `client.rs`.
pub(crate) enum ParsedAnswer {
    /// The call is over. `query` and `body` are those of the webhook that reports the same ending. `others` are the bodies of the
    /// call's other webhooks, if the provider lists them.
    Ended {
        others: Vec<Vec<u8>>,
        query: String,
        body: Vec<u8>,
    },
    Alive {
        provider_call_id: String,
    },
    NotFound,
    Undecided(&'static str),
    TooEarly(&'static str),
    Gone,
    /// The call has a status that Switchhook does not know, in the field of this name.
    UnknownValue(&'static str),
    Unreadable,
}

impl ParsedAnswer {
    /// Ending of a call, with a webhook that has no query and a body of JSON.
    pub(crate) fn ended(body: &Value) -> Self {
        Self::Ended { others: Vec::new(), query: String::new(), body: body.to_string().into_bytes() }
    }
}

/// Answer of a search by numbers that found no call of a [SIP address](Lookup::is_filtered_by_numbers).
pub(crate) const SIP_ADDRESS: ParsedAnswer = ParsedAnswer::Undecided("sip_address");

/// Answer about a session that has our ids and is no phone call. Somebody else gave it these ids, so it is not ours, and such a list does not
/// prove that there was no call.
pub(crate) const NO_PHONE_CALL: ParsedAnswer = ParsedAnswer::Undecided("no_phone_call");

/// First time at which a call that was dialled at `dialled_at` may have been created, by the provider's clock.
pub(crate) fn created_from(dialled_at: Timestamp) -> Timestamp {
    Timestamp::from_millis(dialled_at.as_millis().saturating_sub(CREATED_BEFORE_MS))
}

/// Time in which calls were created, from its first millisecond to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Period {
    pub(crate) fn contains(&self, time: Timestamp) -> bool {
        (self.from..=self.until).contains(&time)
    }
}

/// Calls of a page in the terms of one provider's `client.rs`.
#[derive(Default)]
pub(crate) struct ListedCalls {
    /// Webhooks of the ended calls, each a query and a body.
    pub(crate) webhooks: Vec<(String, Vec<u8>)>,
    /// Names of the fields with a status that Switchhook does not know, one for each call that cannot be read because of it.
    pub(crate) unknown_values: Vec<&'static str>,
}

/// A page in the terms of one provider's `client.rs`: its calls, and the next page.
pub(crate) type ParsedPage = (ListedCalls, Option<String>);

/// Returns the ended calls, and the calls with a status that Switchhook does not know.
pub(crate) fn endings(answers: impl Iterator<Item = ParsedAnswer>) -> ListedCalls {
    let mut calls = ListedCalls::default();
    for answer in answers {
        match answer {
            ParsedAnswer::Ended { query, body, others: _ } => calls.webhooks.push((query, body)),
            ParsedAnswer::UnknownValue(field) => calls.unknown_values.push(field),
            ParsedAnswer::Alive { .. }
            | ParsedAnswer::NotFound
            | ParsedAnswer::Undecided(_)
            | ParsedAnswer::TooEarly(_)
            | ParsedAnswer::Gone
            | ParsedAnswer::Unreadable => {}
        }
    }
    calls
}
