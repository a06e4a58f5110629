//! Events on their way into the inbox.

use std::collections::BTreeMap;
use std::fmt;

use switchhook_domain::{CallId, Disposition, EventId, Origin, ProviderEvent, Timestamp, TraceId};
use switchhook_providers::{UserDecision, VerifiedWebhook};

use crate::error::Error;

/// Header that no webhook has. It marks an event that no webhook brought.
pub(super) const SOURCE_HEADER: &str = "switchhook-source";
/// Value of the header for a provider's answer to a lookup.
pub(super) const LOOKUP_SOURCE: &str = "lookup";
/// Value of the header for an event that was restored from the row of its call.
pub(super) const ROW_SOURCE: &str = "row";
/// Header with the attempt that was looked up: a provider's answer may name neither the attempt nor its call.
pub(super) const ATTEMPT_HEADER: &str = "switchhook-attempt";

/// Authentic event on its way into the inbox. `Debug` shows its id alone, because a body must never reach a log.
#[derive(Clone)]
pub struct NewEvent {
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub origin: Origin,
    pub event_type: String,
    pub occurred_at: Option<Timestamp>,
    pub received_at: Timestamp,
    /// Query of the URL, which some providers sign.
    pub query: String,
    /// Exact bytes that were signed.
    pub body: Vec<u8>,
    /// Index of the provider's key that verified the event.
    pub key_index: usize,
    /// Headers for debugging, never a signature or an authorisation.
    pub headers: BTreeMap<String, String>,
    /// Recorded or quarantined, if ingress decided so. `None` for an event that is to be folded.
    pub disposition: Option<Disposition>,
    /// Event that was read from the body by the mapping of a configured provider. `None` for every other event, which is read from its
    /// body again.
    pub reading: Option<ProviderEvent>,
    /// The person's decision, which a rule of the configuration found in the body.
    pub decision: Option<UserDecision>,
    /// Short name of the reason for a quarantine.
    pub cause: Option<&'static str>,
    pub trace_id: String,
}

impl fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewEvent").field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

impl NewEvent {
    /// Event that Switchhook itself made. Its body is the event as JSON.
    ///
    /// # Errors
    /// [`Error::WriteInbox`] if the event cannot be written as JSON.
    pub fn from_switchhook(event: &ProviderEvent, trace_id: &str) -> Result<Self, Error> {
        Ok(Self {
            event_id: event.event_id.clone(),
            call_id: Some(event.call_id.clone()),
            origin: event.origin,
            event_type: event.event_type.clone(),
            occurred_at: event.call_events.first().and_then(|e| e.occurred_at),
            received_at: event.received_at,
            query: String::new(),
            body: serde_json::to_vec(event).map_err(|error| Error::WriteInbox(Box::new(error)))?,
            key_index: 0,
            headers: BTreeMap::new(),
            disposition: None,
            reading: None,
            decision: None,
            cause: None,
            trace_id: trace_id.to_owned(),
        })
    }

    /// Event that Switchhook read from a provider's answer to a lookup. `answer` is that answer in the form of a
    /// webhook.
    #[must_use]
    pub fn from_lookup(answer: &VerifiedWebhook, event: &ProviderEvent, trace_id: &str) -> Self {
        let mut headers = BTreeMap::from([(SOURCE_HEADER.to_owned(), LOOKUP_SOURCE.to_owned())]);
        headers.extend(event.attempt.as_ref().map(|attempt| (ATTEMPT_HEADER.to_owned(), attempt.to_string())));
        Self {
            event_id: event.event_id.clone(),
            call_id: Some(event.call_id.clone()),
            origin: Origin::Provider(answer.provider()),
            event_type: event.event_type.clone(),
            occurred_at: event.occurred_at(),
            received_at: event.received_at,
            query: answer.query().to_owned(),
            body: answer.body().to_vec(),
            key_index: 0,
            headers,
            disposition: None,
            reading: None,
            decision: answer.decision(),
            cause: None,
            trace_id: trace_id.to_owned(),
        }
    }

    /// Event that the row of its call holds and the inbox has lost. The body of its webhook is lost too, so its body is the event
    /// as Switchhook read it.
    ///
    /// # Errors
    /// [`Error::WriteInbox`] if the event cannot be written as JSON.
    pub fn from_row(event: &ProviderEvent) -> Result<Self, Error> {
        let trace_id = event.trace_id.as_ref().map_or("", TraceId::as_str);
        let mut new_event = Self::from_switchhook(event, trace_id)?;
        if let Origin::Provider(_) = event.origin {
            new_event.headers.insert(SOURCE_HEADER.to_owned(), ROW_SOURCE.to_owned());
        }
        Ok(new_event)
    }
}
