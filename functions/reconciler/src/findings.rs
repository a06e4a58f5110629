//! Storing what a provider's answer says, as events in the inbox.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::Alias;
use switchhook_aws::inbox::{NewEvent, PutOutcome, adopt, submit};
use switchhook_domain::{AttemptRecord, Call, CallId, EventId, ProviderEvent, Timestamp};
use switchhook_providers::derived_call_id;

use crate::lookup::Answered;
use crate::reconciler::Reconciler;

/// A provider that says that a call lives is believed for this long since it started.
pub(crate) const ALIVE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What became of an ending that a provider told.
pub(crate) enum StoredEnding {
    New,
    /// The inbox had it since then, under this call or under another.
    Known {
        since: Timestamp,
    },
}

impl Reconciler {
    /// Puts the ending that a provider told of an attempt into the inbox.
    pub(crate) async fn store_ending(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        event: &ProviderEvent,
        answered: Answered,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<StoredEnding, Error> {
        let provider_call_id = event.provider_call_id.as_deref();
        if let Some(provider_call_id) = provider_call_id.filter(|_| slot.provider_call_id.is_none()) {
            self.write_alias(call, slot, provider_call_id, None, now).await?;
        }
        let outcome = submit(&self.inbox, &self.queue, &answered.into_new_event(event, trace_id), event).await?;
        let PutOutcome::Duplicate { stored, .. } = outcome else { return Ok(StoredEnding::New) };
        // Its webhook came without our ids. What was queued again went to the call that it made.
        if let Some(provider_call_id) = provider_call_id.filter(|_| stored.call_id.as_ref() != Some(&call.call_id)) {
            self.write_alias(call, slot, provider_call_id, Some(&event.event_id), now).await?;
        }
        Ok(StoredEnding::Known { since: stored.received_at })
    }

    /// What a provider calls an attempt that it took, and whose answer to the dial was lost, goes into the inbox. True if it is new
    /// there; nothing is learned of an attempt that was not dialled, or whose id is known.
    pub(crate) async fn store_provider_call_id(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        provider_call_id: &str,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let (Some(key), Some(_), None) = (&slot.key, slot.dialled_at, &slot.provider_call_id) else { return Ok(false) };
        self.write_alias(call, slot, provider_call_id, None, now).await?;
        self.submit(&call.dial_accepted_event(key, provider_call_id, now), trace_id).await
    }

    /// Writes the alias of an attempt that we dialled. What came for it before goes to its call now, and with it this `event`. Of an
    /// attempt that others placed there is none: its call may be the very one that the provider's id makes.
    async fn write_alias(
        &self,
        call: &Call,
        slot: &AttemptRecord,
        provider_call_id: &str,
        event: Option<&EventId>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (Some(key), Some(_)) = (&slot.key, slot.dialled_at) else { return Ok(()) };
        let from = CallId::new(derived_call_id(call.provider, provider_call_id));
        let alias = Alias { call_id: call.call_id.clone(), attempt: key.clone() };
        let mut orphaned_events = self.calls.write_alias(&from, &alias, now).await?;
        orphaned_events.extend(event.cloned());
        adopt(&self.inbox, &self.queue, orphaned_events, &alias).await
    }

    /// Puts what Switchhook itself found out into the inbox. True if it is new there. Whether it is or was found before, it is
    /// queued now; the fold takes it once.
    pub(crate) async fn submit(&self, event: &ProviderEvent, trace_id: &str) -> Result<bool, Error> {
        let outcome = submit(&self.inbox, &self.queue, &NewEvent::from_switchhook(event, trace_id)?, event).await?;
        Ok(matches!(outcome, PutOutcome::Stored))
    }
}
