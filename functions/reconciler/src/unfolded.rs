//! The age of the oldest event that is not known to be folded, for the alarm on events that fail again and again.
//!
//! **SQS does not tell of them.** Its metric `ApproximateAgeOfOldestMessage` leaves out a message that was received more than three
//! times and not deleted. So this reads the marks of the events that are retried. The consumer marks an event that it fails to fold, and
//! the sweep one that it finds not folded. Events that arrived after the time up to which the sweep has come are not known to be folded.
//!
//! A mark may stay although its event is folded: if the fold came between the sweep's read of the call and its mark. So a mark counts
//! for the age only while the call lacks the event, and is removed otherwise. The marks behind it are taken as they are, and so are all
//! marks once the time for this is up.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::inbox::{ATTENTION_SHARDS, Attention, AttentionKind};
use switchhook_domain::{CallId, EventId, Timestamp};

use crate::reconciler::{Reconciler, Report};

/// Time since the first try after which an event that is not folded is trouble. P1EventsNotFoldedAlarm has the same limit.
pub(crate) const UNFOLDED_FOR: Duration = Duration::from_secs(5 * 60);
/// Longest time for which a run looks at marks.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Limit on the marks per shard that one run looks at.
const MARKS_MAX: i32 = 250;

/// Marks of events that have not been folded for [`UNFOLDED_FOR`].
#[derive(Debug, Default)]
pub(crate) struct Unfolded {
    /// The oldest marks of each shard.
    pub(crate) marks: Vec<Attention>,
    /// True if there are more.
    pub(crate) is_more: bool,
}

impl Reconciler {
    /// Finds the oldest event that is not known to be folded. Removes the marks before it, whose events are folded. Returns the others.
    pub(crate) async fn find_unfolded(&self, report: &mut Report) -> Result<Unfolded, Error> {
        let now = self.clock.now();
        let (start, until) = (Timestamp::from_millis(0), now.minus(UNFOLDED_FOR));
        let stop_at = now.plus(LOOK_MAX);
        let (mut oldest, mut unfolded) = (report.swept_until, Unfolded::default());
        let age = |oldest: Option<Timestamp>| oldest.map_or(0, |oldest| now.millis_since(oldest).unsigned_abs());
        // An error below must not hide that the sweep does not come on.
        report.unfolded_ms = age(oldest);
        for shard in 0..ATTENTION_SHARDS {
            let mut pages = self.inbox.attention_between(AttentionKind::Retrying, shard, start, until, MARKS_MAX);
            let Some(page) = pages.next().await? else { continue };
            unfolded.is_more |= page.next.is_some();
            let mut marks = page.items.into_iter();
            for mark in marks.by_ref() {
                let (Some(event_id), Some(call_id)) = (&mark.event_id, &mark.call_id) else { continue };
                if !self.is_time_up(stop_at) && self.is_folded(call_id, event_id).await {
                    // An error must not hide the other events. The next run removes the mark.
                    report.failed += u64::from(self.inbox.clear_retry(event_id).await.is_err());
                    continue;
                }
                oldest = Some(oldest.map_or(mark.at, |oldest| oldest.min(mark.at)));
                unfolded.marks.push(mark);
                break;
            }
            unfolded.marks.extend(marks);
            report.unfolded_ms = age(oldest);
        }
        Ok(unfolded)
    }

    /// True if the call or entity includes the event, or somebody removed the event from the inbox. What cannot be read leaves that open,
    /// and counts as not folded.
    async fn is_folded(&self, call_id: &CallId, event_id: &EventId) -> bool {
        let stored = match self.inbox.get(event_id).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return true,
            Err(_) => return false,
        };
        if call_id.is_entity() {
            let event = self.inbox.renormalize(&stored).await;
            let entity = self.calls.entity_eventual(call_id).await;
            return matches!((event, entity), (Ok(Some(event)), Ok(Some(entity))) if entity.includes_event(&event));
        }
        let resolved = self.calls.resolve_eventual(call_id).await;
        resolved.is_ok_and(|it| it.call.is_some_and(|call| call.contains_event(event_id)))
    }
}
