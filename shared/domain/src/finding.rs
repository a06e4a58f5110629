//! Events that Switchhook itself makes, for example when an attempt times out.
//!
//! Such an event is folded like the events of a provider. **Its id is made from its subject**, for example from the attempt and
//! the start of the inactivity timeout. If two workers find the same thing, they make the same event, and one is a duplicate.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::attempt::AttemptState;
use crate::call::{Call, Job, Policy};
use crate::event::{AttemptKey, CallEvent, EventId, EventKind, NeverDialled, Origin, ProviderEvent};
use crate::time::Timestamp;

/// Time from the start of an attempt during which Switchhook trusts a provider that reports it alive. A dial in doubt waits as long
/// for its provider, from the end of its inactivity timeout on.
pub const ALIVE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Time without a move after which a call that should move counts as stuck. Calls in doubt wait for their provider instead.
pub const STUCK_AFTER: Duration = Duration::from_secs(10 * 60);

impl EventKind {
    /// True if a call keeps only the latest event of the kind. So such an event is never the source of an announcement.
    pub(crate) fn is_kept_once(self) -> bool {
        matches!(self, Self::Alive | Self::ClaimExpired)
    }
}

impl Call {
    /// Returns an event for each inactivity timeout that has passed by `now`: `deadline_passed` for unsettled attempts, and
    /// `retry_missed` for a retry by another system.
    #[must_use]
    pub fn deadline_passed_events(&self, policy: &Policy, now: Timestamp) -> Vec<ProviderEvent> {
        let overdue = self.overdue_attempts(policy, now);
        let deadlines = overdue.iter().map(|attempt| self.deadline_passed_event(attempt, now));
        deadlines.chain(self.retry_missed_event(policy, now)).collect()
    }

    /// Returns the event that says that the deadline of an attempt has passed. Its id contains the start of the timeout.
    #[must_use]
    pub fn deadline_passed_event(&self, attempt: &AttemptState, now: Timestamp) -> ProviderEvent {
        let key = self.attempt_key(attempt);
        let name = format!("{}/deadline/{}", key_or_dash(key), attempt.last_event_at.as_millis());
        self.own_event(EventKind::DeadlinePassed, &name, key.cloned(), Some(attempt.last_event_at), now)
    }

    /// Returns the event that says that the provider was asked and reports the attempt alive. It restarts the inactivity
    /// timeout.
    #[must_use]
    pub fn alive_event(&self, attempt: &AttemptState, now: Timestamp) -> ProviderEvent {
        let key = self.attempt_key(attempt);
        let name = format!("{}/alive/{}", key_or_dash(key), attempt.last_event_at.as_millis());
        self.own_event(EventKind::Alive, &name, key.cloned(), None, now)
    }

    /// Returns the event that says that the lease of the claim has ended. `None` if there is no claim, or its lease has not
    /// ended.
    #[must_use]
    pub fn claim_expired_event(&self, now: Timestamp) -> Option<ProviderEvent> {
        match &self.job {
            Job::Claimed { lease_ends_at, .. } if *lease_ends_at <= now => {
                let name = format!("claim/{}", lease_ends_at.as_millis());
                Some(self.own_event(EventKind::ClaimExpired, &name, None, Some(*lease_ends_at), now))
            }
            Job::Claimed { .. }
            | Job::Pending { .. }
            | Job::InProgress
            | Job::Completed
            | Job::Failed
            | Job::Missed
            | Job::Canceled => None,
        }
    }

    /// Returns the event that says that the row disagrees with the provider, or with its own history. `fingerprint` identifies
    /// the disagreement, so that the same one is reported once.
    #[must_use]
    pub fn drift_found_event(&self, fingerprint: &str, now: Timestamp) -> ProviderEvent {
        self.own_event(EventKind::DriftFound, &format!("drift/{fingerprint}"), None, None, now)
    }

    /// True if the id belongs to a `drift_found` event of this call.
    #[must_use]
    pub fn is_drift_found_id(&self, event_id: &EventId) -> bool {
        let own = |text: &str| Some(text.strip_prefix(self.call_id.as_str())?.starts_with("/drift/"));
        event_id.as_str().strip_prefix("switchhook:").and_then(own).unwrap_or_default()
    }

    /// Returns a hash that identifies a disagreement between the row and the provider or the inbox, so that the same one is
    /// reported once. After a repair the hash is another.
    #[must_use]
    pub fn drift_fingerprint(&self, disagreement: &str) -> String {
        let mut hasher = Sha256::new();
        // `drift_found` and `alive` only show how often the provider was asked, so they do not make another disagreement.
        let is_evidence = |kind: EventKind| kind != EventKind::DriftFound && kind != EventKind::Alive;
        for entry in self.history.iter().filter(|entry| is_evidence(entry.event.kind)) {
            hasher.update(format!("{} {} {:?}\n", entry.source_event_id, entry.event.kind, entry.event.occurred_at));
        }
        let repairs = self.announcements.iter().filter(|announcement| announcement.kind.is_drift_repaired()).count();
        hasher.update(format!("{} {repairs} {disagreement}", self.job.as_str()));
        let bytes = hasher.finalize();
        bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the event that says that the provider accepted an attempt, and under which id.
    #[must_use]
    pub fn dial_accepted_event(&self, attempt: &AttemptKey, provider_call_id: &str, now: Timestamp) -> ProviderEvent {
        let name = format!("{attempt}/dial_accepted");
        let event = self.own_event(EventKind::Initiated, &name, Some(attempt.clone()), None, now);
        ProviderEvent {
            event_type: "dial_accepted".to_owned(),
            provider_call_id: Some(provider_call_id.to_owned()),
            ..event
        }
    }

    /// Returns the event that says that the provider took a dial under this id, and dialled nobody. The event keeps the record of the dial
    /// in the row, so a late report of this dial is not taken for a report of the next one.
    #[must_use]
    pub fn not_dialled_event(&self, attempt: &AttemptKey, provider_call_id: &str, now: Timestamp) -> ProviderEvent {
        let name = format!("{attempt}/not_dialled");
        let mut event = self.own_event(EventKind::Failed, &name, Some(attempt.clone()), None, now);
        for call_event in &mut event.call_events {
            call_event.never_dialled = Some(NeverDialled::Unclear);
        }
        ProviderEvent {
            event_type: "not_dialled".to_owned(),
            provider_call_id: Some(provider_call_id.to_owned()),
            ..event
        }
    }

    /// Returns the event that says that the provider has no call for an attempt that Switchhook dialled.
    #[must_use]
    pub fn dial_not_found_event(&self, attempt: &AttemptKey, now: Timestamp) -> ProviderEvent {
        self.own_event(EventKind::DialNotFound, &format!("{attempt}/not_found"), Some(attempt.clone()), None, now)
    }

    /// Returns the event that says that another system promised a retry, and did not start it within the inactivity timeout. `None`
    /// if no such retry is overdue.
    #[must_use]
    pub fn retry_missed_event(&self, policy: &Policy, now: Timestamp) -> Option<ProviderEvent> {
        let attempts = self.attempts();
        let (_, retry) = self.awaited_retry(&attempts)?;
        let since = retry.received_at;
        let name = format!("retry/{}", since.as_millis());
        let event = self.own_event(EventKind::RetryMissed, &name, None, Some(since), now);
        (since.plus(policy.inactivity_timeout) <= now).then_some(event)
    }

    fn own_event(
        &self,
        kind: EventKind,
        name: &str,
        attempt: Option<AttemptKey>,
        occurred_at: Option<Timestamp>,
        now: Timestamp,
    ) -> ProviderEvent {
        let dial = attempt.as_ref().and_then(|attempt| self.dial_record(attempt));
        let event_id = EventId::new(format!("switchhook:{}/{name}", self.call_id));
        ProviderEvent {
            attempt,
            dialled_provider: dial.map(|dial| dial.provider),
            call_events: vec![CallEvent::new(kind, occurred_at)],
            ..ProviderEvent::new(event_id, Origin::Switchhook, kind.as_str(), self.call_id.clone(), now)
        }
    }
}

fn key_or_dash(key: Option<&AttemptKey>) -> &str {
    key.map_or("-", AttemptKey::as_str)
}
