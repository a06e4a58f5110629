//! The age of the oldest event that is not known to be folded, for the alarm on events that fail again and again.
//!
//! **SQS does not tell of them.** Its metric `ApproximateAgeOfOldestMessage` leaves out a message that was received more than three
//! times and not deleted. So this reads the marks of the events that are retried. The consumer marks an event that it fails to fold, and
//! the sweep one that it finds not folded. Events that arrived after the time up to which the sweep has come are not known to be folded.
//!
//! A mark may stay although its event is folded: if the fold came between the sweep's read of the call and its mark. So a mark counts
//! only while the call lacks the event, and is removed otherwise.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::inbox::{ATTENTION_SHARDS, Attention, AttentionKind};
use switchhook_domain::{CallId, EventId, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Time since the first try after which an event that is not folded is trouble. P1EventsNotFoldedAlarm has the same limit.
pub(crate) const UNFOLDED_FOR: Duration = Duration::from_secs(5 * 60);
/// Limit on the marks per shard that one run looks at.
const MARKS_MAX: i32 = 100;

impl Reconciler {
    /// Finds the oldest event that is not known to be folded. Removes marks of events that are folded.
    pub(crate) async fn find_unfolded(&self, report: &mut Report) -> Result<(), Error> {
        let now = self.clock.now();
        let mut oldest = report.swept_until;
        for shard in 0..ATTENTION_SHARDS {
            let (start, until) = (Timestamp::from_millis(0), now.minus(UNFOLDED_FOR));
            let mut pages = self.inbox.attention_between(AttentionKind::Retrying, shard, start, until, MARKS_MAX);
            for Attention { event_id, call_id, at, .. } in pages.next().await?.into_iter().flat_map(|page| page.items) {
                let (Some(event_id), Some(call_id)) = (event_id, call_id) else { continue };
                if !self.is_folded(&call_id, &event_id).await {
                    oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
                    break;
                }
                self.inbox.clear_retry(&event_id).await?;
            }
        }
        report.unfolded_ms = oldest.map_or(0, |oldest| now.millis_since(oldest).unsigned_abs());
        Ok(())
    }

    /// True if the call or entity includes the event. An event or a row that cannot be read leaves that open, and counts as not folded.
    async fn is_folded(&self, call_id: &CallId, event_id: &EventId) -> bool {
        if !call_id.is_entity() {
            let resolved = self.calls.resolve_eventual(call_id).await;
            return resolved.is_ok_and(|it| it.call.is_some_and(|call| call.contains_event(event_id)));
        }
        let Ok(Some(entity)) = self.calls.entity_eventual(call_id).await else { return false };
        let Ok(Some(stored)) = self.inbox.get(event_id).await else { return false };
        let event = self.inbox.renormalize(&stored).await;
        event.is_ok_and(|event| event.is_some_and(|event| entity.includes_event(&event)))
    }
}
