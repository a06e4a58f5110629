//! Events that an invocation has folded.

use std::collections::BTreeSet;

use switchhook_domain::{Call, FoldOutcome, ProviderEvent, Timestamp};

/// Returns the events that this invocation added to a call, each once. `read` are those that a refold read, and `before` is the call before the last
/// fold.
///
/// `refused_at` has the times of the folds whose writes the row refused. The SDK repeats a write whose answer is lost, and the row refuses the
/// repetition. **So a refused write may have been made**: then the call has the event with one of these times. That is also
/// true of every further copy of the event that the queue delivered in the same batch.
pub(crate) fn folded_events<'a>(
    outcomes: &[(&'a ProviderEvent, FoldOutcome)],
    read: &'a [ProviderEvent],
    before: Option<&Call>,
    refused_at: &[Timestamp],
) -> Vec<&'a ProviderEvent> {
    let is_written = |event: &ProviderEvent| {
        let mut entries = before.into_iter().flat_map(|call| &call.history);
        entries.any(|entry| entry.source_event_id == event.event_id && refused_at.contains(&entry.folded_at))
    };
    let folded = outcomes.iter().filter(|(event, outcome)| *outcome == FoldOutcome::Folded || is_written(event));
    let folded = folded.map(|(event, _)| *event).chain(read.iter().filter(|event| is_written(event)));
    let mut ids = BTreeSet::new();
    folded.filter(|event| ids.insert(&event.event_id)).collect()
}
