//! The option that says why a command without a plan changes something.

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reason {
    /// Why, for the audit record; without it, the record says what the command does
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Reason {
    pub(crate) fn as_deref(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}
