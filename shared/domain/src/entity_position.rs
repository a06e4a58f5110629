//! The place of an event among the events of its entity.

use std::time::Duration;

use crate::entity_report::EntityReport;
use crate::event::{EventId, ProviderEvent};
use crate::time::Timestamp;

/// An event that claims to be further in the future counts as this far in the future. Otherwise it would make every later event
/// stale.
const CLOCK_MARGIN: Duration = Duration::from_secs(5 * 60);

/// Place of an event among the events of its entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityPosition {
    pub at: Timestamp,
    pub sequence: Option<u32>,
    pub event_id: EventId,
}

/// Time by which an event is ordered.
pub(crate) fn ordered_at(report: &EntityReport, received_at: Timestamp) -> Timestamp {
    report.occurred_at.map_or(received_at, |at| at.min(received_at.plus(CLOCK_MARGIN)))
}

impl EntityPosition {
    /// Place of an event. `None` if the event is not about an entity.
    #[must_use]
    pub fn of(event: &ProviderEvent) -> Option<Self> {
        let report = event.entity.as_ref()?;
        let at = ordered_at(report, event.received_at);
        Some(Self { at, sequence: report.sequence, event_id: event.event_id.clone() })
    }

    /// True if the time or the counter says that this event came first.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let counters = self.sequence.zip(other.sequence);
        self.at < other.at || (self.at == other.at && counters.is_some_and(|(own, other)| own < other))
    }
}
