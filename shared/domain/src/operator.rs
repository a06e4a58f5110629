//! Domain events about what operators do.

use serde::Serialize;

/// Event that Switchhook publishes when an operator starts, resumes or finishes a run of repairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorAction {
    pub schema_version: u32,
    /// `{run_id}/{action}`, with a number if the run was resumed. A repetition of the event has the same id.
    pub id: String,
    /// [`OperatorAction::TYPE`].
    #[serde(rename = "type")]
    pub event_type: &'static str,
    /// `started`, `resumed` or `finished`.
    pub action: &'static str,
    /// What the run does, for example `replay`.
    pub verb: &'static str,
    /// Operator: the ARN of the caller, or the name of the user of a local stack.
    pub who: String,
    /// Reason that the operator gave.
    pub reason: String,
    pub run_id: String,
    pub plan_id: String,
    /// Number of items of the plan.
    pub items: u64,
    /// Items that were processed so far.
    pub done: u64,
    /// Items for which nothing was left to do.
    pub unchanged: u64,
    /// Items that were left alone.
    pub skipped: u64,
    /// Time of the action. RFC 3339.
    pub occurred_at: String,
}

impl OperatorAction {
    pub const TYPE: &'static str = "operator.action";
}
