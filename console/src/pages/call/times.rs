//! Times of events, for the drawing.

use switchhook_domain::{EventId, Origin, Timestamp};
use switchhook_operate::timeline::EventInStory;

pub(super) fn millis(at: &str) -> Option<i64> {
    Timestamp::parse_rfc3339(at).map(Timestamp::as_millis)
}

/// Returns the time at which the provider says that the event happened. A finding of Switchhook names the start of a silence, which
/// is no time of the event.
pub(super) fn happened(event: &EventInStory) -> Option<i64> {
    let is_finding = EventId::new(event.source_event_id.as_str()).origin() == Some(Origin::Switchhook);
    event.occurred_at.as_deref().filter(|_| !is_finding).and_then(millis)
}
