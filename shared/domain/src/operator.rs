//! Domain events about what operators do.

use serde::Serialize;

/// Event that Switchhook publishes when an operator starts, resumes or finishes a run of repairs, or reads a payload that is not
/// masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorAction {
    pub schema_version: u32,
    /// `{run_id}/{action}`, with a number if the run was resumed. For a payload, `u-{random}/unmasked`. A repetition of the event has
    /// the same id.
    pub id: String,
    /// [`OperatorAction::TYPE`].
    #[serde(rename = "type")]
    pub event_type: &'static str,
    /// `started`, `resumed`, `finished` or `unmasked`.
    pub action: &'static str,
    /// Command of the operator, for example `replay`.
    pub verb: &'static str,
    /// Operator: the ARN of the caller, or the name of the user of a local stack.
    pub who: String,
    /// Reason that the operator gave.
    pub reason: String,
    /// `None` if the action is no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Event whose payload was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Number of items of the plan, or 1 for a payload.
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
