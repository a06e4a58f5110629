//! Steps of a check, and what each of them found.

use serde::Serialize;

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Short name, for example `webhook`.
    pub step: &'static str,
    #[serde(flatten)]
    pub finding: Finding,
}

/// Result of a step, with its finding and advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub result: StepResult,
    pub text: String,
    /// Advice, for a note and a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    Passed,
    /// The stack works, and a person should know something.
    Note,
    Failed,
    /// The step was not made, because an earlier one failed.
    Skipped,
}

impl StepResult {
    /// Word for display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Note => "note",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

impl Finding {
    pub(super) fn passed(text: impl Into<String>) -> Self {
        Self { result: StepResult::Passed, text: text.into(), advice: None }
    }

    pub(super) fn note(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { result: StepResult::Note, text: text.into(), advice: Some(advice.into()) }
    }

    pub(super) fn failed(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { result: StepResult::Failed, text: text.into(), advice: Some(advice.into()) }
    }

    pub(super) fn skipped(text: impl Into<String>) -> Self {
        Self { result: StepResult::Skipped, text: text.into(), advice: None }
    }

    pub(super) fn is_failed(&self) -> bool {
        self.result == StepResult::Failed
    }
}

/// Steps so far. Each new one is also handed to a listener.
pub(super) struct Steps<'a> {
    all: Vec<Step>,
    listener: &'a mut (dyn FnMut(&Step) + Send),
}

impl<'a> Steps<'a> {
    pub(super) fn new(listener: &'a mut (dyn FnMut(&Step) + Send)) -> Self {
        Self { all: Vec::new(), listener }
    }

    /// Adds a step. Returns true if it did not fail.
    pub(super) fn add(&mut self, step: &'static str, finding: Finding) -> bool {
        let is_right = !finding.is_failed();
        let step = Step { step, finding };
        (self.listener)(&step);
        self.all.push(step);
        is_right
    }

    /// Adds those of these steps that are missing, as skipped.
    pub(super) fn skip_missing(&mut self, steps: &[&'static str], why: &str) {
        for name in steps {
            if !self.all.iter().any(|step| step.step == *name) {
                self.add(name, Finding::skipped(why));
            }
        }
    }

    pub(super) fn into_all(self) -> Vec<Step> {
        self.all
    }
}
