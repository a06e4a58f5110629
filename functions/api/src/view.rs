//! JSON of calls, attempts and events in answers. **No answer contains a phone number or the token of a claim.**

use std::collections::BTreeMap;

use serde::Serialize;
use switchhook_aws::inbox::{Note, StoredEvent};
use switchhook_domain::{
    AttemptState, Call, CallId, CallSummary, Disposition, EntityFate, EventId, HistoryEntry, Origin, Provider,
    WebhookReceived,
};

#[derive(Debug, Serialize)]
pub(crate) struct CallView<'a> {
    #[serde(flatten)]
    summary: CallSummary,
    /// `None` if Switchhook does not place the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a BTreeMap<String, String>>,
    /// Providers that may place the call, the preferred one first. `None` if Switchhook does not place the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    providers: Option<&'a [Provider]>,
}

impl<'a> CallView<'a> {
    pub(crate) fn of(call: &'a Call) -> Self {
        Self {
            summary: CallSummary::of(call),
            metadata: call.plan.as_ref().map(|plan| &plan.metadata),
            providers: call.plan.as_ref().map(|plan| plan.providers.as_slice()),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct EventView {
    event_id: EventId,
    kind: &'static str,
    implied: bool,
    occurred_at: Option<String>,
    received_at: String,
    disposition: &'static str,
    /// Number of the attempt. `None` if the event names no attempt, or belongs to a dial that was not made, which is no attempt.
    attempt: Option<u8>,
}

impl EventView {
    pub(crate) fn of(entry: &HistoryEntry, attempts: &[AttemptState]) -> Self {
        let attempt = attempts.iter().find(|attempt| Some(attempt.index) == entry.attempt_index);
        Self {
            event_id: entry.id(),
            kind: entry.event.kind.as_str(),
            implied: entry.event.implied,
            occurred_at: entry.event.occurred_at.map(|at| at.to_string()),
            received_at: entry.received_at.to_string(),
            disposition: entry.disposition.as_str(),
            attempt: attempt.map(|attempt| attempt.number),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct StatusView<'a> {
    event_id: &'a EventId,
    /// The call that has the event. If the event arrived under a derived id, this is the call that the alias leads to.
    call_id: Option<&'a CallId>,
    provider: Origin,
    #[serde(rename = "type")]
    event_type: &'a str,
    status: &'static str,
    disposition: Option<&'static str>,
    received_at: String,
    processed_at: Option<String>,
    duration_ms: Option<i64>,
    attempts: u32,
    error: Option<String>,
    next_retry_at: Option<String>,
    /// Types of the domain events that this event caused.
    action: Vec<String>,
}

impl<'a> StatusView<'a> {
    /// `in_entity` is what the entity of an event says about it, if the event is about no call.
    pub(crate) fn of(
        stored: &'a StoredEvent,
        note: Option<Note>,
        call: Option<&'a Call>,
        in_entity: EntityFate,
    ) -> Self {
        let note = note.unwrap_or_default();
        let entries = call.map(|call| call.history.iter().filter(|entry| entry.source_event_id == stored.event_id));
        let mut entries: Vec<&HistoryEntry> = entries.map(Iterator::collect).unwrap_or_default();
        // The event itself comes before the events that it implies.
        entries.sort_by_key(|entry| entry.event.implied);
        let folded = entries.first();
        let decided = stored.disposition.or(note.disposition);
        let (status, disposition) = match (decided, folded) {
            (_, Some(entry)) => ("processed", Some(entry.disposition)),
            (_, None) if let EntityFate::Folded(disposition) = in_entity => ("processed", disposition),
            (Some(Disposition::Refused), None) => ("processed", decided),
            (Some(disposition), None) => (disposition.as_str(), Some(disposition)),
            (None, None) if note.discarded_at.is_some() => ("discarded", None),
            (None, None) if note.dead_lettered_at.is_some() => ("dead_lettered", None),
            (None, None) if note.attempts > 0 => ("retrying", None),
            (None, None) => ("queued", None),
        };
        let mut action = call.map_or_else(Vec::new, |call| {
            let caused = |event: &switchhook_domain::DomainEvent| {
                event.source_event_id.as_deref() == Some(stored.event_id.as_str())
            };
            call.domain_events_from(1).into_iter().filter(caused).map(|event| event.event_type).collect()
        });
        let applied = Some(Disposition::Applied);
        if [EntityFate::Folded(applied), EntityFate::CallsDisagree(applied)].contains(&in_entity) {
            action.push(WebhookReceived::TYPE.to_owned());
        }
        let is_folded = folded.is_some() || matches!(in_entity, EntityFate::Folded(_));
        Self {
            event_id: &stored.event_id,
            call_id: call.map(|call| &call.call_id).or(stored.call_id.as_ref().filter(|id| !id.is_entity())),
            provider: stored.origin,
            event_type: &stored.event_type,
            status,
            disposition: disposition.map(Disposition::as_str),
            received_at: stored.received_at.to_string(),
            processed_at: folded.map(|entry| entry.folded_at.to_string()),
            duration_ms: folded.map(|entry| entry.folded_at.millis_since(entry.received_at)),
            attempts: note.tries(is_folded),
            next_retry_at: note.next_retry_at.filter(|_| !note.is_done(is_folded)).map(|at| at.to_string()),
            error: note.error,
            action,
        }
    }
}
