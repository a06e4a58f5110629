//! Domain event about what an operator does: starts a run of repairs, resumes it, finishes it, or reads personal data.

use serde::Serialize;

/// Event that Switchhook publishes when an operator starts, resumes or finishes a run of repairs, or changes something without a
/// plan. It is also published when an operator reads the body of a webhook in full, with the phone numbers that are masked otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorAction {
    pub schema_version: u32,
    /// `{run_id}/{action}`, with a number if the run was resumed. For a change without a plan, `a-{random}/{action}`. For a body that
    /// was read, `u-{random}/unmasked`. A repetition of the event has the same id.
    pub id: String,
    /// [`OperatorAction::TYPE`].
    #[serde(rename = "type")]
    pub event_type: &'static str,
    /// `started`, `resumed`, `finished` or `unmasked`.
    pub action: &'static str,
    /// Command of the operator, for example `replay`.
    pub verb: &'static str,
    /// Operator: the ARN of the AWS credentials, or on a local stack the name of the user.
    pub who: String,
    /// Reason that the operator gave, or the purpose of the command.
    pub reason: String,
    /// Run of repairs. `None` for an action without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Plan that the run carries out. `None` for an action without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// Event whose body was read. `None` for every other action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Call that was changed without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Name of the import, or of the providers that were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Number of items in the plan or in the change. 1 for `unmasked`.
    pub items: u64,
    /// Number of items that were changed or sent so far.
    pub done: u64,
    /// Number of items that were already as the plan wants them.
    pub unchanged: u64,
    /// Number of items that the run could not or must not process.
    pub skipped: u64,
    /// Time of the action. RFC 3339.
    pub occurred_at: String,
}

impl OperatorAction {
    /// The `type` of the domain event.
    pub const TYPE: &'static str = "operator.action";
}
