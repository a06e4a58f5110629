//! Runs as they are stored: their position, their counts, and the items that they left alone.

use serde::{Deserialize, Serialize};
use switchhook_aws::inbox::{Document, DocumentKind};
use switchhook_domain::Timestamp;

use crate::audit::{self, Counts};
use crate::error::{Error, Refusal};
use crate::forecast::NOT_FOLDED;
use crate::plan::{KEPT_FOR, NAMED_MAX, Plan, PlanId, PlanItem, Skipped, VALID_FOR, Verb};
use crate::run::id::RunId;
use crate::stack::Stack;
use crate::time_text;

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process carries it out, or it was interrupted.
    Unfinished,
    Finished,
}

/// Plan that is or was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub plan_id: PlanId,
    pub verb: Verb,
    pub who: String,
    pub reason: String,
    /// Items per second.
    pub rate: u32,
    pub state: RunState,
    #[serde(with = "time_text")]
    pub started_at: Timestamp,
    /// Time of the last stored position.
    #[serde(with = "time_text")]
    pub updated_at: Timestamp,
    /// Number of items, from the start of the plan, that are done with.
    pub position: usize,
    pub items: usize,
    /// Counts of items. For a copy, of the items of the tables.
    pub counts: Counts,
    /// Items that were skipped, the first [`NAMED_MAX`] of them.
    pub skipped: Vec<Skipped>,
    /// True if an item of a call was skipped, which has domain events that nobody has published.
    pub(super) left_call: bool,
    /// Process that carries the run out.
    pub(super) holder: String,
}

/// Refuses a plan that another command made, that was run already, or that has expired.
///
/// # Errors
/// [`Refusal`], and the errors of the table.
pub async fn check_plan(stack: &Stack, plan: &Plan, verb: Verb) -> Result<(), Error> {
    if plan.verb != verb {
        let (made_by, asked) = (plan.verb.command(), verb.command());
        return Err(Refusal::OtherCommand { plan: plan.id.to_string(), made_by, asked }.into());
    }
    if let Some((run, _)) = load(stack, &RunId::of_plan(&plan.id)).await? {
        return Err(refusal_of(&run).into());
    }
    if stack.now() > plan.valid_until {
        return Err(Refusal::Expired(plan.id.to_string()).into());
    }
    Ok(())
}

/// Reads a run. `None` if there is none with this id.
///
/// # Errors
/// The errors of the table.
pub async fn get(stack: &Stack, id: &RunId) -> Result<Option<Run>, Error> {
    Ok(load(stack, id).await?.map(|(run, _)| run))
}

/// Returns the runs that the latest audit records name, at most `limit` of them, the latest first.
///
/// # Errors
/// The errors of the inbox.
pub async fn list(stack: &Stack, limit: usize) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = Vec::new();
    for run_id in audit::run_ids(stack, limit).await? {
        runs.extend(get(stack, &RunId::new(run_id)).await?);
    }
    Ok(runs)
}

/// Reads a run and the version of its document. `None` if there is none with this id.
pub(super) async fn load(stack: &Stack, id: &RunId) -> Result<Option<(Run, u64)>, Error> {
    let Some(Document { content, version }) = stack.inbox.get_document(DocumentKind::Run, id.as_str()).await? else {
        return Ok(None);
    };
    let run = serde_json::from_slice(&content).map_err(|_| Error::Decode("the run"))?;
    Ok(Some((run, version)))
}

/// Returns why a plan with this run cannot be run again.
pub(super) fn refusal_of(run: &Run) -> Refusal {
    match run.state {
        RunState::Finished => Refusal::Finished { run: run.id.to_string(), result: run.result() },
        RunState::Unfinished => Refusal::Started(run.id.to_string()),
    }
}

impl Run {
    /// Returns the time until which the run can surely be resumed: then its plan may be gone.
    #[must_use]
    pub fn resumable_until(&self) -> Timestamp {
        self.started_at.plus(KEPT_FOR).minus(VALID_FOR)
    }

    /// Returns the counts as text, for example `40 done, 2 unchanged, 1 skipped`.
    #[must_use]
    pub fn result(&self) -> String {
        self.counts.to_string()
    }

    /// Counts an item that is left alone, and keeps its name and the reason.
    pub(super) fn skip(&mut self, item: &PlanItem, reason: String) {
        self.counts.skipped += 1;
        self.left_call |= item.call_id.is_some() && reason != NOT_FOLDED;
        if self.skipped.len() < NAMED_MAX {
            let item = (item.name().to_owned(), item.call_id.clone());
            self.skipped.push(Skipped { item: item.0, call_id: item.1, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_domain::CallId;

    use super::*;
    use crate::plan::Action;

    /// The messages of the relay may be all that names the call, and a run names only the first items that it skipped.
    #[test]
    fn run_remembers_a_call_that_it_left_alone_after_many_other_items() {
        let mut run: Run = serde_json::from_value(json!({
            "id": "r-1", "plan_id": "p-1", "verb": "republish", "who": "ada", "reason": "a test", "rate": 50,
            "state": "unfinished", "started_at": "2026-11-22T15:58:04Z", "updated_at": "2026-11-22T15:58:04Z",
            "position": 0, "items": 200, "counts": {"done": 0, "unchanged": 0, "skipped": 0}, "skipped": [],
            "left_call": false, "holder": "h",
        }))
        .unwrap();
        let item = |id: &str| PlanItem::of_call(Action::Republish, CallId::new(id));
        for _ in 0..NAMED_MAX {
            run.skip(&item("entity:x-pay:pi_1"), NOT_FOLDED.to_owned());
        }
        assert!(!run.left_call, "nothing of these items was ever published");
        run.skip(&item("c1"), "the row cannot be read".to_owned());
        let stored: Run = serde_json::from_slice(&serde_json::to_vec(&run).unwrap()).unwrap();
        assert_eq!((stored.left_call, stored.skipped.len()), (true, NAMED_MAX));
    }
}
