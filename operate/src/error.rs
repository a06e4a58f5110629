//! Errors of operations on a stack.

mod kind;

use switchhook_aws::failure::with_causes;
use switchhook_aws::sign::SignError;
use switchhook_domain::Timestamp;

use crate::web::WebError;

pub use kind::{ErrorKind, Explanation};

/// One variant for each operation that can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Aws(#[from] switchhook_aws::Error),
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("{0} is not the URL of a running `switchhook dev`; name a deployed stack with --stack")]
    NotDev(String),
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("no AWS region: name it with --region, or set AWS_REGION")]
    NoRegion,
    #[error("{service} refused {operation} with status {status}: {code}: {message}")]
    Refused { service: &'static str, operation: String, status: u16, code: String, message: String },
    #[error("the answer of {service} could not be read")]
    Unreadable { service: &'static str },
    #[error("the function {function} failed: {message}")]
    FunctionFailed { function: String, message: String },
    #[error(
        "the outputs and parameters of the stack {stack} lack {}: it is not a Switchhook stack, or an older one, which must be deployed \
         again",
        missing.join(", ")
    )]
    MissingOutputs { stack: String, missing: Vec<&'static str> },
    #[error("could not encode a document")]
    Encode(#[source] serde_json::Error),
    #[error("could not read {0}: another version of this tool wrote it")]
    Decode(&'static str),
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

impl Error {
    /// Text of the error and of each of its causes, separated by colons.
    #[must_use]
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }
}

/// Reason why nothing was done. Each tells the operator what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the secret of the {0} is not a JSON object, so its entries cannot be kept: add --replace to store the file alone"
    )]
    UnreadableSecret(&'static str),
    #[error(
        "the secret of the {secret} would have {bytes} bytes, and Secrets Manager stores at most {most}: shorten its entries, \
         for example fixed answers, or remove some with --replace"
    )]
    LargeSecret { secret: &'static str, bytes: usize, most: usize },
    #[error("the selection is empty, and would match everything: {0}")]
    EmptyFilter(&'static str),
    #[error("{text}; {advice}")]
    NoKey { text: String, advice: String },
    #[error("{since} is later than now, {now}, where Z means UTC: name an earlier time")]
    FutureTime { since: Timestamp, now: Timestamp },
    #[error("no time lies between {since} and {until}, where Z means UTC: name an earlier --since, or a later --until")]
    EmptySpan { since: Timestamp, until: Timestamp },
    #[error("a plan has at most {most} items, not {asked}")]
    TooManyItems { asked: usize, most: usize },
    #[error("{0} is the table of the stack itself: name the table that was restored")]
    SameTable(String),
    #[error("there is no table {0} in the account and region of the stack: name the table that was restored")]
    UnknownTable(String),
    #[error(
        "the key of {table} is not {key}: name the restored inbox with --inbox-from, and the restored table of calls with --calls-from"
    )]
    OtherKey { table: String, key: &'static str },
    #[error("{table} has more than {most} items: if that is right, raise the limit with --max")]
    LargeTable { table: String, most: u64 },
    #[error(
        "{table} has items in {shards} shards, and the stack reads only {most} of them: deploy the stack with the parameter IndexShards that \
         the old stack had"
    )]
    MoreShards { table: String, shards: u64, most: u64 },
    #[error("the position is of no page of this list: open the list again")]
    UnknownPosition,
    #[error("there is no plan {0}: plans are kept for a day")]
    UnknownPlan(String),
    #[error("the plan {plan} was made by `{made_by}`, not by `{asked}`")]
    OtherCommand { plan: String, made_by: &'static str, asked: &'static str },
    #[error("the plan {0} is older than 15 minutes: make a new one")]
    Expired(String),
    #[error("a reason is needed, for the audit record: add --reason TEXT")]
    NoReason,
    #[error("the reason may hold a phone number, and the audit record would keep it: name a ticket instead")]
    NumberInReason,
    #[error("the reason has a line break or another control character: write it in one line of plain text")]
    ControlInReason,
    #[error("phones that could ring: {0}. If that is wanted, add --allow-ringing")]
    CouldRing(usize),
    #[error("the plan was run already, as {run}: {result}")]
    Finished { run: String, result: String },
    #[error("the plan is being run already, as {0}. If that run was interrupted: switchhook run resume {0}")]
    Started(String),
    #[error("there is no run {0}")]
    UnknownRun(String),
    #[error("another process has taken over the run {0}, and carries it out")]
    TakenOver(String),
}
