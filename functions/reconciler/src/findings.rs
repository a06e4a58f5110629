//! Stores the findings of the reconciler as events in the inbox, and queues them.

use switchhook_aws::Error;
use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::{NewEvent, PutOutcome, submit, write_alias_and_adopt};
use switchhook_domain::{AttemptRecord, Call, CallId, EventId, ProviderEvent, Timestamp};
use switchhook_providers::derived_call_id;

use crate::lookup::ReportedEnding;
use crate::reconciler::Reconciler;

/// Result of storing an ending.
pub(crate) enum StoredEnding {
    /// The event is new in the inbox, or another event of the call is.
    New,
    /// The event was in the inbox already, for this call or for another. `since` is the time of its receipt.
    Known { since: Timestamp },
    /// Nothing was stored: the call that the provider reported belongs to another attempt.
    OfAnotherAttempt,
    /// The inbox has the ending already, this version cannot read it, and no other event is new. So nobody can tell how the attempt ended.
    Unreadable,
}

/// Result of storing a provider call id.
pub(crate) enum StoredId {
    New,
    /// The id is known, or Switchhook did not dial the attempt.
    Known,
    /// Nothing was stored: the id belongs to another attempt.
    OfAnotherAttempt,
}

impl Reconciler {
    /// Stores and queues the ending that a provider reported for an attempt, and then the other events that say more about it.
    /// **If another attempt has the provider call id, nothing is stored.** A search by numbers and time may find the call of another
    /// dial to the same person.
    pub(crate) async fn store_ending(
        &self,
        call: &Call,
        record: &AttemptRecord,
        ending: &ReportedEnding,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<StoredEnding, Error> {
        let event = &ending.event;
        let provider_call_id = event.provider_call_id.as_deref();
        // Plivo may report the call under another id than the one of the dial.
        let is_known = |id: &&str| record.provider_call_id.as_deref() == Some(*id);
        if let Some(provider_call_id) = provider_call_id.filter(|id| !is_known(id))
            && !self.write_alias(call, record, provider_call_id, None, now).await?
        {
            return Ok(StoredEnding::OfAnotherAttempt);
        }
        let new_event = NewEvent::from_lookup(&ending.webhook, event, trace_id);
        let submitted = submit(&self.inbox, &self.queue, &new_event, event).await;
        let known = match self.if_readable(&event.event_id, &call.call_id, submitted)? {
            None => Some(StoredEnding::Unreadable),
            Some(PutOutcome::Stored) => None,
            Some(PutOutcome::Duplicate { stored, .. }) => {
                // The ending's webhook came without Switchhook's ids, so it was folded into a call of its own. The alias merges
                // that call into this one.
                let elsewhere = provider_call_id.filter(|_| stored.call_id.as_ref() != Some(&call.call_id));
                if let Some(provider_call_id) = elsewhere
                    && !self.write_alias(call, record, provider_call_id, Some(&event.event_id), now).await?
                {
                    return Ok(StoredEnding::OfAnotherAttempt);
                }
                Some(StoredEnding::Known { since: stored.received_at })
            }
        };
        let mut is_new = false;
        for (webhook, event) in &ending.others {
            let new_event = NewEvent::from_lookup(webhook, event, trace_id);
            let submitted = submit(&self.inbox, &self.queue, &new_event, event).await;
            let outcome = self.if_readable(&event.event_id, &call.call_id, submitted)?;
            is_new |= matches!(outcome, Some(PutOutcome::Stored));
        }
        Ok(known.filter(|_| !is_new).unwrap_or(StoredEnding::New))
    }

    /// Stores and queues the provider call id of an attempt whose dial got no answer. Does nothing if Switchhook did not dial the
    /// attempt, if the id is known, or if it belongs to another attempt.
    pub(crate) async fn store_provider_call_id(
        &self,
        call: &Call,
        record: &AttemptRecord,
        provider_call_id: &str,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<StoredId, Error> {
        let (Some(key), Some(_), None) = (&record.key, record.dialled_at, &record.provider_call_id) else {
            return Ok(StoredId::Known);
        };
        if !self.write_alias(call, record, provider_call_id, None, now).await? {
            return Ok(StoredId::OfAnotherAttempt);
        }
        let is_new = self.submit(&call.dial_accepted_event(key, provider_call_id, now), trace_id).await?;
        Ok(if is_new { StoredId::New } else { StoredId::Known })
    }

    /// Writes the alias that leads from the provider's call id to a dialled attempt, and queues the events that arrived under
    /// that id, `event` included, for this call. Returns false if the id belongs to another attempt, of this call or of another.
    ///
    /// An attempt that Switchhook did not dial gets no alias: the id of its call may be the very id that would become the alias.
    async fn write_alias(
        &self,
        call: &Call,
        record: &AttemptRecord,
        provider_call_id: &str,
        event: Option<&EventId>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let (Some(key), Some(provider)) = (&record.key, record.provider) else { return Ok(true) };
        let has_id = |other: &AttemptRecord| {
            other.provider == Some(provider) && other.provider_call_id.as_deref() == Some(provider_call_id)
        };
        if call.attempt_records.iter().any(|other| other.key != record.key && has_id(other)) {
            return Ok(false);
        }
        let from = CallId::new(derived_call_id(provider, provider_call_id));
        let alias = Alias { call_id: call.call_id.clone(), attempt: key.clone() };
        write_alias_and_adopt(&self.calls, &self.inbox, &self.queue, &from, &alias, event, now).await
    }

    /// Stores and queues an event that Switchhook itself made. Returns true if it is new in the inbox. A known event is queued
    /// again, and the fold ignores the repetition. So is one whose stored item cannot be read: the event in hand is whole, and each further
    /// run would make the same one.
    pub(crate) async fn submit(&self, event: &ProviderEvent, trace_id: &str) -> Result<bool, Error> {
        let new_event = NewEvent::from_switchhook(event, trace_id)?;
        match submit(&self.inbox, &self.queue, &new_event, event).await {
            Ok(outcome) => Ok(matches!(outcome, PutOutcome::Stored)),
            Err(error) if error.is_unreadable() => {
                self.queue.send(event, trace_id).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
