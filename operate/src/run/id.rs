//! Ids of runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::PlanId;

/// Id of a run, such as `r-7f3a90c1d2e4`. The run of a plan has the digits of the plan, so a plan has one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Id as an operator wrote it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the id of the run of a plan.
    #[must_use]
    pub fn of_plan(plan: &PlanId) -> Self {
        Self(format!("r-{}", plan.as_str().trim_start_matches("p-")))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
