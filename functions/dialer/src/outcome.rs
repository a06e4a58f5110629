//! Outcome of the work on one claim.

use std::time::Duration;

use switchhook_aws::provider::SendError;
use switchhook_domain::{
    ACCOUNTS_UNREAD, DialFailure, DialSignal, DialStarted, PhoneNumber, StopReason, Timestamp, Transition,
};
use switchhook_providers::DialAnswer;

/// Shortest pause after the first refusal that may be because of one of the numbers. It doubles with each further one.
const REFUSED_NUMBER_PAUSE_FIRST: Duration = Duration::from_secs(30);
/// Longest such pause. An operator may meanwhile have made calls to the number possible.
const REFUSED_NUMBER_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// Causes of a failed dial, for the log and for the provider's health.
pub(crate) const NO_CONNECTION: &str = "no_connection";
pub(crate) const NO_RESPONSE: &str = "no_response";
pub(crate) const UNCLEAR_ANSWER: &str = "unclear_answer";
/// The dial was not taken back, because the row shows events of its attempt, or another dial.
pub(crate) const EVENTS_RECEIVED: &str = "events_received";
/// No account of the provider is stored.
pub(crate) const NOT_CONFIGURED: &str = "not_configured";
/// The stored account of the provider cannot be read.
pub(crate) const ACCOUNT_DISABLED: &str = "account_disabled";

/// Result of working on one claim. The texts are causes for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialOutcome {
    /// Nothing was dialled: the claim was used or has expired, or the call has another claim.
    ClaimLost,
    /// The provider places the call.
    Accepted,
    /// Nothing was dialled: the calling window is closed, and the call waits until it opens.
    WindowClosed,
    /// Nothing was dialled: an event of the call waits for its next try, or is a dead letter.
    Held,
    /// Nothing was dialled: the provider takes no calls now, or the claim has missed its place in the dial rate. The call stays due.
    Released,
    /// Nothing was dialled: this dialer could not get the accounts. The call is tried again later.
    AccountsUnread,
    /// Nothing was dialled: this call must not be placed, now or later.
    Stopped(StopReason),
    /// Nothing was dialled, for a passing reason. The call is tried again later, and the attempt does not count.
    Withdrawn(&'static str),
    /// Nothing was dialled: the provider will never place this call.
    Rejected(&'static str),
    /// Nobody knows whether the provider placed the call.
    InDoubt(&'static str),
    /// Nothing was dialled: the inbox holds an earlier dial of the attempt, which the row lacked.
    DialledBefore,
}

/// Pause that the answer to a dial demands before the call is dialled again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    pub(crate) min: Duration,
    /// True if the refusal may be because of one of the numbers. The row counts such pauses.
    pub(crate) is_of_number: bool,
}

/// The request to the provider that a claim led to, for the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestNotes {
    /// Time at which the provider was asked. `None` if there was no request.
    pub(crate) asked_at: Option<Timestamp>,
    /// Time of the request, with its repetition. `None` if there was no request.
    pub(crate) request_ms: Option<u64>,
    /// Time from the due time of the call to the request. `None` if there was no request, or if somebody triggered the call
    /// before it was due.
    pub(crate) due_to_request_ms: Option<u64>,
    /// True if the request failed for a reason that is not the number's, or perhaps not: no clear answer, a busy provider, or a
    /// problem with the account.
    pub(crate) is_failed: bool,
    /// True if there was no request, because the provider has no account that can be read.
    pub(crate) has_no_account: bool,
}

impl RequestNotes {
    /// Numbers for the log line and the metrics.
    pub(crate) fn counts(self) -> Vec<(&'static str, u64)> {
        let Self { asked_at: _, request_ms, due_to_request_ms, is_failed, has_no_account } = self;
        let times = [("due_to_request_ms", due_to_request_ms), ("provider_request_ms", request_ms)];
        let mut counts =
            vec![("provider_request_failed", u64::from(is_failed)), ("no_account", u64::from(has_no_account))];
        counts.extend(times.into_iter().filter_map(|(name, time)| Some((name, time?))));
        counts
    }
}

/// The next step with a call under a valid claim. The row must hold its transition before anything else happens.
pub(crate) enum NextStep {
    Dial(DialStarted),
    Postpone(Transition),
    Hold(Transition),
    Release(Transition),
    AwaitAccounts(Transition),
    GiveUp(Transition, StopReason),
    /// The claim is no longer valid, so there is nothing to store.
    ClaimLost,
}

impl NextStep {
    pub(crate) const fn transition(&self) -> Option<&Transition> {
        match self {
            Self::Dial(started) => Some(&started.transition),
            Self::Postpone(transition)
            | Self::Hold(transition)
            | Self::Release(transition)
            | Self::AwaitAccounts(transition)
            | Self::GiveUp(transition, _) => Some(transition),
            Self::ClaimLost => None,
        }
    }
}

impl DialOutcome {
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::ClaimLost => "claim_lost",
            Self::Accepted => "dialled",
            Self::WindowClosed => "window_closed",
            Self::Held => "dial_held",
            Self::Released | Self::AccountsUnread => "dial_released",
            Self::Stopped(_) => "dial_stopped",
            Self::Withdrawn(_) => "dial_withdrawn",
            Self::Rejected(_) => "dial_rejected",
            Self::InDoubt(_) => "dial_in_doubt",
            Self::DialledBefore => "dialled_before",
        }
    }

    pub(crate) const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::ClaimLost
            | Self::Accepted
            | Self::WindowClosed
            | Self::Held
            | Self::Released
            | Self::DialledBefore => None,
            Self::AccountsUnread => Some(ACCOUNTS_UNREAD),
            Self::Stopped(reason) => Some(reason.as_str()),
            Self::Withdrawn(reason) | Self::Rejected(reason) | Self::InDoubt(reason) => Some(reason),
        }
    }

    /// True if the call may have been the probe of its provider, and the provider was not asked. A released call was no probe: its provider
    /// did not take it, or it had a place in the dial rate. Of a lost claim, the row of the call tells.
    pub(crate) const fn may_end_probe(&self) -> bool {
        match self {
            Self::WindowClosed | Self::Held | Self::AccountsUnread | Self::Stopped(_) | Self::DialledBefore => true,
            Self::ClaimLost
            | Self::Released
            | Self::Accepted
            | Self::Withdrawn(_)
            | Self::Rejected(_)
            | Self::InDoubt(_) => false,
        }
    }
}

/// Returns what the result of a dial between these numbers means for the health of its provider.
pub(crate) fn signal(
    result: &Result<DialAnswer, SendError>,
    from: &PhoneNumber,
    to: &PhoneNumber,
) -> DialSignal<'static> {
    let failed = |failure, cause| DialSignal::Failed { failure, cause, retry_after: None };
    match result {
        Ok(answer) => signal_of_answer(answer, from, to),
        Err(SendError::NotSent(_)) => failed(DialFailure::Unreachable, NO_CONNECTION),
        Err(SendError::NoResponse(_)) => failed(DialFailure::UnclearAnswer, NO_RESPONSE),
    }
}

fn signal_of_answer(answer: &DialAnswer, from: &PhoneNumber, to: &PhoneNumber) -> DialSignal<'static> {
    let (failure, cause, retry_after) = match answer {
        DialAnswer::Accepted { .. } | DialAnswer::Rejected { .. } => return DialSignal::Works,
        DialAnswer::NotDialled { refusal, .. } => return signal_of_answer(refusal, from, to),
        DialAnswer::NumberOrAccountProblem { reason } => {
            return DialSignal::NumberRefused { number: to.tag(), cause: reason };
        }
        DialAnswer::CallingNumberProblem { reason } => {
            return DialSignal::NumberRefused { number: from.tag(), cause: reason };
        }
        DialAnswer::AccountProblem { reason } => (DialFailure::AccountProblem, *reason, None),
        DialAnswer::Busy { reason, retry_after } => (DialFailure::Busy, *reason, *retry_after),
        DialAnswer::TooManyCalls { reason, retry_after } => (DialFailure::TooManyCalls, *reason, *retry_after),
        DialAnswer::InDoubt => (DialFailure::UnclearAnswer, UNCLEAR_ANSWER, None),
    };
    DialSignal::Failed { failure, cause, retry_after }
}

/// Returns the pause of a call after an answer that withdraws its dial. The attempt has paused `pauses` times before because of one of its
/// numbers, perhaps.
///
/// The circuit does not count the refusal of the same number again, so the call has to limit its dials itself. Its pause doubles with each
/// such refusal, up to an hour. The number of refusals decides, not the time: a call that waited for its calling window, or behind others, was
/// not refused meanwhile. **No number of such refusals ends a call:** each of them may be because of the account. Calls to other numbers do
/// not prove that the account may call this one.
pub(crate) fn pause_after(answer: &DialAnswer, pauses: u32) -> Pause {
    match answer {
        DialAnswer::Busy { retry_after, .. } | DialAnswer::TooManyCalls { retry_after, .. } => {
            Pause { min: retry_after.unwrap_or_default(), is_of_number: false }
        }
        DialAnswer::NumberOrAccountProblem { .. } | DialAnswer::CallingNumberProblem { .. } => {
            let pause = REFUSED_NUMBER_PAUSE_FIRST.saturating_mul(1_u32 << pauses.min(16));
            Pause { min: pause.min(REFUSED_NUMBER_PAUSE_MAX), is_of_number: true }
        }
        DialAnswer::Accepted { .. }
        | DialAnswer::Rejected { .. }
        | DialAnswer::AccountProblem { .. }
        | DialAnswer::NotDialled { .. }
        | DialAnswer::InDoubt => Pause::default(),
    }
}
