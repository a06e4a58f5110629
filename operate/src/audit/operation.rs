//! Operations of operators that leave an audit record.

use serde::{Deserialize, Serialize};

use crate::plan::Verb;

/// Operation that a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Operation {
    /// Run of a plan.
    Planned(Verb),
    Direct(Direct),
}

/// Operation without a plan: a change that an operator names exactly, or the reading of a payload that is not masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direct {
    ShowBody,
    CreateCall,
    ImportCalls,
    TriggerCall,
    CancelCall,
    PutProviders,
    Reconcile,
    DriftCheck,
}

impl Operation {
    /// Returns the words of the command, for example `dlq redrive`.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Planned(verb) => verb.command(),
            Self::Direct(direct) => direct.command(),
        }
    }

    /// Returns the name used in audit records and in domain events, for example `redrive`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned(verb) => verb.as_str(),
            Self::Direct(direct) => direct.as_str(),
        }
    }
}

impl Direct {
    pub const ALL: [Self; 8] = [
        Self::ShowBody,
        Self::CreateCall,
        Self::ImportCalls,
        Self::TriggerCall,
        Self::CancelCall,
        Self::PutProviders,
        Self::Reconcile,
        Self::DriftCheck,
    ];

    /// Returns the words of the command, for example `call cancel`.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::ShowBody => "event show --body",
            Self::CreateCall => "call create",
            Self::ImportCalls => "call import",
            Self::TriggerCall => "call trigger",
            Self::CancelCall => "call cancel",
            Self::PutProviders => "providers put",
            Self::Reconcile => "reconcile",
            Self::DriftCheck => "reconcile --drift",
        }
    }

    /// Returns the name used in audit records and in domain events, for example `cancel_call`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShowBody => "show_body",
            Self::CreateCall => "create_call",
            Self::ImportCalls => "import_calls",
            Self::TriggerCall => "trigger_call",
            Self::CancelCall => "cancel_call",
            Self::PutProviders => "put_providers",
            Self::Reconcile => "reconcile",
            Self::DriftCheck => "drift_check",
        }
    }

    /// Returns the reason for the record if the operator gives none: the purpose of the command.
    #[must_use]
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::ShowBody => "read a payload",
            Self::CreateCall => "create a call",
            Self::ImportCalls => "create the calls of a file",
            Self::TriggerCall => "place the call now",
            Self::CancelCall => "cancel the call",
            Self::PutProviders => "store the providers file",
            Self::Reconcile => "run the reconciler now",
            Self::DriftCheck => "run the drift check now",
        }
    }
}
