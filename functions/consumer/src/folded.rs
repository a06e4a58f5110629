//! Events that an invocation has folded.

use switchhook_domain::{Call, EventId, FoldOutcome, ProviderEvent, Timestamp};

/// Returns the events that this invocation added to a call. `read` are those that a refold read, and `before` is the call before the last
/// fold.
///
/// `refused` has the events of the writes that the row refused, each with the time of its fold. The SDK repeats a write whose answer is lost,
/// and the row refuses the repetition. **So a refused write may have been made**: then the call has the event with this time.
pub(crate) fn folded_events<'a>(
    outcomes: &[(&'a ProviderEvent, FoldOutcome)],
    read: &'a [ProviderEvent],
    before: Option<&Call>,
    refused: &[(EventId, Timestamp)],
) -> Vec<&'a ProviderEvent> {
    let has_entry = |id: &EventId, folded_at: Timestamp| {
        let mut entries = before.into_iter().flat_map(|call| &call.history);
        entries.any(|entry| entry.source_event_id == *id && entry.folded_at == folded_at)
    };
    let is_written = |event: &ProviderEvent| refused.iter().any(|(id, at)| *id == event.event_id && has_entry(id, *at));
    let folded = outcomes.iter().filter(|(event, outcome)| *outcome == FoldOutcome::Folded || is_written(event));
    folded.map(|(event, _)| *event).chain(read.iter().filter(|event| is_written(event))).collect()
}
