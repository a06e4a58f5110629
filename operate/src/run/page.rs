//! The work of one page of a run.

use switchhook_aws::queue::SentAgain;
use switchhook_domain::{ProviderEvent, Transition};

use crate::plan::PlanItem;

/// Work of one page, after every item was checked.
#[derive(Default)]
pub(crate) struct PageWork {
    /// Next rows of placed calls, each with its item. They are stored before anything is queued.
    pub(crate) rows: Vec<(PlanItem, Transition)>,
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
