//! The three questions of an operator: is it healthy, is there a backlog, is there poison?
//!
//! **A value that cannot be read is unknown, and never fine.** Each line of evidence is read by itself, so one failure hides no
//! other line. The verdict of a question is the worst level of its lines.

mod evidence;
mod sources;
mod thresholds;
mod traffic;

use serde::Serialize;
use switchhook_domain::Timestamp;

use crate::error::ErrorKind;
use crate::stack::Stack;
use crate::time_text;

pub use thresholds::{REJECTED_MIN, RUNS_MIN, SCHEDULES, THRESHOLDS, Threshold};
pub use traffic::{Minute, Silence, Traffic};

/// Largest count that is read: a larger one is shown as `1,000+`.
pub const COUNT_MAX: usize = 1_000;

/// Answer to a question, or level of a line. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    /// Nothing is lost, and somebody should look today.
    Watch,
    /// It could not be read.
    Unknown,
    /// Somebody must act now.
    Act,
}

impl Level {
    /// Word for display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Watch => "Watch",
            Self::Unknown => "Unknown",
            Self::Act => "Act",
        }
    }
}

/// One line below a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub name: &'static str,
    pub level: Level,
    /// Value as text, for example `212, oldest 41 s`. If it could not be read: the reason.
    pub text: String,
    /// Kind of the error, if the value could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    /// A few of the items that the value counts, the most urgent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<Subject>,
    /// Advice and command, if the level is not OK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
}

/// Item that a line of evidence counts, by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Event(String),
    Call(String),
}

impl Subject {
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Event(id) | Self::Call(id) => id,
        }
    }
}

/// Advice about a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub text: &'static str,
    /// Section of the runbook.
    pub runbook: Option<String>,
    pub command: &'static str,
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    pub question: &'static str,
    pub answer: Level,
    pub evidence: Vec<Evidence>,
}

/// Status of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    pub stack: String,
    pub region: String,
    #[serde(serialize_with = "time_text::serialize")]
    pub at: Timestamp,
    pub questions: [Question; 3],
    /// Received webhooks of the last hour. `None` if the metrics cannot be read.
    pub traffic: Option<Traffic>,
}

impl Question {
    fn new(question: &'static str, evidence: Vec<Evidence>) -> Self {
        let answer = evidence.iter().map(|line| line.level).max().unwrap_or(Level::Unknown);
        Self { question, answer, evidence }
    }
}

impl Status {
    /// True if all answers are OK.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.questions.iter().all(|question| question.answer == Level::Ok)
    }
}

/// Reads the status of a stack. It never fails: what cannot be read is unknown.
pub async fn status(stack: &Stack) -> Status {
    let now = stack.now();
    let sources = sources::read(stack, now).await;
    Status {
        stack: stack.names.stack.clone(),
        region: stack.names.region.clone(),
        at: now,
        questions: [
            Question::new("Healthy?", evidence::healthy(&sources, now)),
            Question::new("Backlog?", evidence::backlog(&sources, now)),
            Question::new("Poison?", evidence::poison(&sources)),
        ],
        traffic: sources.metrics.as_ref().ok().map(|metrics| Traffic::of(metrics, now)),
    }
}
