//! Results of dials, as far as they tell about the provider.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::NeverDialled;
use crate::number::NumberTag;
use crate::time::Timestamp;

/// Reason of a failed dial that is not the number's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialFailure {
    /// The provider refused because of the account: its keys, its credit, its permissions, its settings.
    AccountProblem,
    /// The provider refused because it gets too many requests.
    Busy,
    /// The provider refused because it has too many calls.
    TooManyCalls,
    /// No connection to the provider could be made.
    Unreachable,
    /// The provider gave no answer, or none that says whether it places the call.
    UnclearAnswer,
    /// The provider accepted the call, and reported later that it dialled nobody. The account has too many calls, or the provider does
    /// not say that the account is the reason.
    NotDialled,
}

impl DialFailure {
    pub const ALL: [Self; 6] = [
        Self::AccountProblem,
        Self::Busy,
        Self::TooManyCalls,
        Self::Unreachable,
        Self::UnclearAnswer,
        Self::NotDialled,
    ];

    /// Returns the name used in domain events, logs and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AccountProblem => "account_problem",
            Self::Busy => "busy",
            Self::TooManyCalls => "too_many_calls",
            Self::Unreachable => "unreachable",
            Self::UnclearAnswer => "unclear_answer",
            Self::NotDialled => "not_dialled",
        }
    }

    /// Weight of one failure in the failure score. Three failures in a row open the circuit. A busy provider works, so only twelve
    /// such answers in a row open it. Six calls that were accepted and not dialled open it: perhaps only the surplus calls of a busy provider
    /// were not dialled. While the provider is doubted, accepted calls clear no failures. So the failures of all kinds must also be a share of
    /// the calls since the doubt began. That is 15 % where three are enough, 30 % where six are, and 60 % where twelve are.
    pub(super) const fn score(self) -> u32 {
        match self {
            Self::AccountProblem | Self::Unreachable | Self::UnclearAnswer => 4,
            Self::NotDialled => 2,
            Self::Busy | Self::TooManyCalls => 1,
        }
    }

    /// True if nobody knows whether a call was placed whose dial failed in this way.
    pub(super) const fn leaves_doubt(self) -> bool {
        match self {
            Self::UnclearAnswer => true,
            Self::AccountProblem | Self::Busy | Self::TooManyCalls | Self::Unreachable | Self::NotDialled => false,
        }
    }
}

/// Result of one dial, as far as it tells about the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialSignal<'a> {
    /// The provider accepted the call, or refused the number.
    Works,
    /// The provider reported that it really dialled a call. Switchhook had sent it the call at this time.
    Heard { dialled_at: Timestamp },
    /// The provider reported that it dialled nobody for a call that it had accepted. Only the first such report about a dial is a
    /// signal. Switchhook had sent the call at this time.
    Undialled { reason: NeverDialled, dialled_at: Timestamp },
    /// The provider refused the dial because of the called number or because of the account, and does not say which. Or it refused the
    /// calling number of this call.
    NumberRefused {
        /// The number that may be the reason.
        number: NumberTag,
        /// The provider's reason in our words, for example `call_blocked`.
        cause: &'a str,
    },
    /// The dial failed for a reason that is not the number's.
    Failed {
        failure: DialFailure,
        /// The provider's reason in our words, for example `payment_required`.
        cause: &'a str,
        /// Time that the provider asks to wait.
        retry_after: Option<Duration>,
    },
}

/// True if the provider has too many calls. A reason that is not clear may concern this one call alone, so it limits no other.
pub(super) const fn limits_calls(reason: NeverDialled) -> bool {
    match reason {
        NeverDialled::Capacity => true,
        NeverDialled::Account | NeverDialled::Unclear => false,
    }
}

/// Returns the failure that a call which was accepted and not dialled means for the provider, with the reason in our words.
pub(super) const fn undialled_failure(reason: NeverDialled) -> (DialFailure, &'static str) {
    match reason {
        NeverDialled::Account => (DialFailure::AccountProblem, "account_not_dialled"),
        NeverDialled::Capacity => (DialFailure::NotDialled, "concurrency_limit"),
        NeverDialled::Unclear => (DialFailure::NotDialled, "never_dialled"),
    }
}
