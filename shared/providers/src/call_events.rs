//! Call events of one webhook: the one that it reports, and those that must have happened before.

use switchhook_domain::{CallEvent, EventKind, NeverDialled, Timestamp};

/// Call events of one webhook. Each kind occurs at most once.
///
/// Example: Twilio's `completed` reports `completed`, and implies `ringing` and `in_progress`.
pub(crate) struct CallEventSet {
    reported: Option<CallEvent>,
    implied: Vec<CallEvent>,
}

impl CallEventSet {
    /// A set with nothing implied yet. `reported` is `None` if the webhook itself reports no call event.
    pub(crate) fn new(reported: Option<CallEvent>) -> Self {
        Self { reported, implied: Vec::new() }
    }

    /// A set for a provider that numbers no events.
    pub(crate) fn reporting(kind: EventKind, occurred_at: Option<Timestamp>) -> Self {
        Self::new(Some(CallEvent::new(kind, occurred_at)))
    }

    /// Adds an implied event, unless the set already has one of this kind.
    pub(crate) fn imply(&mut self, kind: EventKind, occurred_at: Option<Timestamp>, sequence: Option<u32>) {
        if self.reported.iter().chain(&self.implied).all(|event| event.kind != kind) {
            self.implied.push(CallEvent { implied: true, sequence, ..CallEvent::new(kind, occurred_at) });
        }
    }

    /// Sets the flags of the event `failed`, if the set has one. `permanent`: another attempt would fail for the same reason.
    /// `never_dialled`: the provider accepted the call, and dialled nobody for this reason.
    pub(crate) fn mark_failure(&mut self, permanent: bool, never_dialled: Option<NeverDialled>) {
        let events = self.reported.iter_mut().chain(&mut self.implied);
        for event in events.filter(|event| event.kind == EventKind::Failed) {
            event.permanent |= permanent;
            event.never_dialled = event.never_dialled.or(never_dialled);
        }
    }

    /// All events in the order of a call's life: ringing before in_progress, and so on.
    pub(crate) fn into_sorted(self) -> Vec<CallEvent> {
        let mut events: Vec<CallEvent> = self.implied.into_iter().chain(self.reported).collect();
        events.sort_by_key(|event| event.kind);
        events
    }
}
