//! The refold: folds a call again from its events in the inbox.
//!
//! If the events of a call cannot be read in time, the row stays as it is and the message is deleted. The next hourly drift check
//! reports the same call again if it is open. A settled call is looked at once, so its difference stays until somebody runs
//! `switchhook verify`, as P2RefoldLimitAlarm says.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::inbox::{Inbox, is_kept_without_event};
use switchhook_domain::{Call, EventKind, Fold, Policy, ProviderEvent, Timestamp, refold};

/// Longest time from the start of the invocation to the last read, for all calls of the batch together. The rest of the
/// function's 10 s is for the write, and for handling a failure.
const READ_MAX: Duration = Duration::from_secs(3);

/// Reads the events of a call from the inbox, and folds them.
#[derive(Debug)]
pub(crate) struct Refolder<'a> {
    inbox: &'a Inbox,
    policy: &'a Policy,
}

/// True if the event reports drift, and so asks for a refold of its call.
pub(crate) fn is_drift_event(event: &ProviderEvent) -> bool {
    event.entity.is_none() && event.call_events.iter().all(|event| event.kind == EventKind::DriftFound)
}

/// Returns those of the events that a refold read from the inbox which it added to its call. **Nobody else acts on them**: their own messages
/// are duplicates now, and the sweep queues no event that its call contains.
pub(crate) fn added<'a>(read: &'a [ProviderEvent], before: Option<&Call>, fold: &Fold) -> Vec<&'a ProviderEvent> {
    let after = fold.transition.as_ref().map(|transition| &transition.call);
    let contains =
        |call: Option<&Call>, event: &ProviderEvent| call.is_some_and(|it| it.contains_event(&event.event_id));
    read.iter().filter(|event| contains(after, event) && !contains(before, event)).collect()
}

impl<'a> Refolder<'a> {
    pub(crate) const fn new(inbox: &'a Inbox, policy: &'a Policy) -> Self {
        Self { inbox, policy }
    }

    /// Folds a call again from its events in the inbox, and returns them too. `None` if the call has too many events to read in the time that is left.
    /// `invoked_at` is the start of the invocation.
    pub(crate) async fn refold(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        invoked_at: Timestamp,
        now: Timestamp,
    ) -> Result<Option<(Fold, Vec<ProviderEvent>)>, Error> {
        let spent = Duration::from_millis(now.millis_since(invoked_at).unsigned_abs());
        let read = self.inbox.events_of_call(call, now);
        let read = tokio::time::timeout(READ_MAX.saturating_sub(spent), read).await;
        // If the time is up, the refold is skipped without an error.
        let Some(events) = read.unwrap_or(Ok(None))? else { return Ok(None) };
        let is_kept = |entry: &_| is_kept_without_event(call, entry, now);
        Ok(Some((refold(call, &events, is_kept, drift, self.policy, now), events)))
    }
}
