//! The refold: folds a call again from its events in the inbox.
//!
//! If the events of a call cannot be read in time, or one of them is unreadable, the row stays as it is and the message is deleted. **A refold
//! can be asked for again, so the events behind it do not wait.** The next hourly drift check reports the same call again if it is open. A
//! settled call is looked at once, so its difference stays until somebody runs `switchhook verify`, as the runbook says.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::inbox::{Inbox, Note, is_kept_without_event};
use switchhook_aws::queue::Message;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, Disposition, EventKind, Fold, Policy, ProviderEvent, Timestamp, refold};

/// Longest time from the start of the invocation to the last read, for all calls of the batch together. The rest of the
/// function's 10 s is for the write, and for handling a failure.
pub const READ_MAX: Duration = Duration::from_secs(3);

/// Result of a refold.
pub(crate) enum Refolded {
    /// The fold, and the events that it is made of.
    Done(Box<Fold>, Vec<ProviderEvent>),
    Skipped(SkipReason),
}

/// Reason why a call was not refolded.
pub(crate) enum SkipReason {
    /// The call has too many events to read in the time that is left.
    TooLong,
    /// An event of the call [cannot be read](Error::is_unreadable).
    Unreadable(Error),
}

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

    /// Folds a call again from its events in the inbox. `invoked_at` is the start of the invocation.
    pub(crate) async fn refold(
        &self,
        call: &Call,
        drift: &ProviderEvent,
        invoked_at: Timestamp,
        now: Timestamp,
    ) -> Result<Refolded, Error> {
        let spent = Duration::from_millis(now.millis_since(invoked_at).unsigned_abs());
        let read = self.inbox.events_of_call(call, now);
        let read = tokio::time::timeout(READ_MAX.saturating_sub(spent), read).await;
        let events = match read {
            Ok(Ok(Some(events))) => events,
            Ok(Ok(None)) | Err(_) => return Ok(Refolded::Skipped(SkipReason::TooLong)),
            Ok(Err(error)) if error.is_unreadable() => return Ok(Refolded::Skipped(SkipReason::Unreadable(error))),
            Ok(Err(error)) => return Err(error),
        };
        let is_kept = |entry: &_| is_kept_without_event(call, entry, now);
        let fold = refold(call, &events, is_kept, drift, self.policy, now);
        Ok(Refolded::Done(Box::new(fold), events))
    }

    /// Logs that a call is not refolded. Notes it too, so that nobody takes the event for one that is not folded yet.
    pub(crate) async fn skip(
        &self,
        message: &Message,
        reason: &SkipReason,
        started: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (text, action_taken, error) = match reason {
            SkipReason::TooLong => ("call not refolded, reading its events takes too long", "refold_too_long", None),
            SkipReason::Unreadable(error) => {
                ("call not refolded, one of its events cannot be read", "refold_unreadable", Some(error))
            }
        };
        let event = &message.event;
        let decision = Decision {
            function: "consumer",
            message: text,
            action_taken,
            event_id: Some(event.event_id.as_str()),
            call_id: Some(event.call_id.as_str()),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(&message.trace_id),
            counts: vec![("received", 1)],
            ..Decision::from_error(error)
        };
        decision.log(now, true);
        let note = Note {
            disposition: Some(Disposition::Refused),
            error: Some(text.to_owned()),
            cause: Some(action_taken.to_owned()),
            ..Note::default()
        };
        self.inbox.put_note(event, &note, now).await
    }
}
