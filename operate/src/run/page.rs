//! The work of one page of a run.

use switchhook_aws::inbox::StoredEvent;
use switchhook_aws::queue::SentAgain;
use switchhook_domain::{CallId, ProviderEvent, Transition};

use crate::concurrent::{CONCURRENCY, concurrently};
use crate::error::Error;
use crate::plan::PlanItem;
use crate::stack::Stack;

/// Work of one page, after every item was checked.
#[derive(Default)]
pub(crate) struct PageWork {
    /// Next rows of placed calls, each with its item. They are stored before anything is queued.
    pub(crate) rows: Vec<(PlanItem, Transition)>,
    /// Events of the calls of these rows, each with its call. They are queued after the rows are stored.
    pub(crate) unfolded: Vec<(CallId, StoredEvent)>,
    /// Events to queue, in order.
    pub(crate) sends: Vec<SentAgain>,
    /// Events that ask for a refold. They are queued after the other events of their call.
    pub(crate) refolds: Vec<ProviderEvent>,
    pub(crate) acts: Vec<PlanItem>,
    /// Parts of tables to copy.
    pub(crate) copies: Vec<PlanItem>,
    /// Items whose dead letter or notice is deleted once their event is in its call.
    pub(crate) finishing: Vec<PlanItem>,
    /// Items that are counted as unchanged.
    pub(crate) unchanged: Vec<PlanItem>,
    /// Items whose events may have been quarantined. Replayed ones are taken off the list once they are queued.
    pub(crate) replayed: Vec<PlanItem>,
}

impl PageWork {
    /// Marks the events of the calls whose rows are stored next as not folded. **Call this before a row is stored**: a lost row comes back as one
    /// that is due, and only its events tell that the person has answered. The dialer holds the call while one of them is marked, also if
    /// the run is killed. The fold of an event removes its mark.
    pub(crate) async fn mark_unfolded(&self, stack: &Stack) -> Result<(), Error> {
        let now = stack.now();
        let marks = self.unfolded.iter().map(|(call_id, stored)| async move {
            stack.inbox.list_unfolded(call_id, &stored.event_id, now).await?;
            stack.inbox.mark_unfolded(stored, now, now).await
        });
        concurrently(CONCURRENCY, marks).await.map(drop).map_err(Error::Aws)
    }
}
