//! Dials that were recorded in the row and not made: the dialer takes them back.
//!
//! **A request that fails is repeated.** Only this dialer knows that nobody was dialled. Without its write, the reconciler looks for the dial
//! at the provider, and at some providers no search proves that there was none. Such a call would end as `inconclusive`.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{AttemptKey, Call, DialRecords, StopReason, Timestamp, Transition};

use crate::outcome::{DialOutcome, EVENTS_RECEIVED};
use crate::repeated::repeated;
use crate::{BACKOFF_MS, Dialer, RACES_MAX};

impl Dialer {
    /// Adds to a row what the inbox records and the row lacks: an earlier dial of this attempt, or the cancellation by the user.
    /// Nothing is dialled.
    pub(crate) async fn recall(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        dial_key: &str,
        mut records: DialRecords,
    ) -> Result<DialOutcome, Error> {
        let outcome = if records.dial_of(attempt).is_some() {
            DialOutcome::DialledBefore
        } else {
            DialOutcome::Stopped(records.canceled.unwrap_or(StopReason::CanceledByUser))
        };
        let mut call = call.clone();
        for _ in 0..RACES_MAX {
            let Some(undone) = call.recall(dial_key, &records, &self.policy, self.clock.now()) else {
                return Ok(undone_or_in_doubt(&call, dial_key, outcome));
            };
            match repeated(|| self.calls.store(&undone, self.call_retention)).await? {
                StoreOutcome::Committed => return Ok(outcome),
                StoreOutcome::LostRace => {}
            }
            match repeated(|| self.calls.get_call(&call.call_id)).await? {
                Some(read) => call = read,
                None => return Ok(DialOutcome::ClaimLost),
            }
            // The booking may have resumed the call meanwhile. It deletes the record of the cancellation before it changes the row.
            records = repeated(|| self.inbox.dial_records(&call.call_id)).await?;
        }
        Err(Error::Contended(RACES_MAX))
    }

    /// Withdraws an attempt that was not dialled, so that the call is due again later.
    pub(crate) async fn withdraw(
        &self,
        call: &Call,
        dial_key: &str,
        reason: &'static str,
        pause_min: Option<Duration>,
    ) -> Result<DialOutcome, Error> {
        let pause =
            Duration::from_millis(fastrand::u64(BACKOFF_MS / 2..=BACKOFF_MS)).max(pause_min.unwrap_or_default());
        let withdrawal = |call: &Call, now: Timestamp| {
            Some(call.withdraw(dial_key, now.plus(pause), &self.policy, now)?.because(reason))
        };
        self.undo_dial(call, dial_key, withdrawal, DialOutcome::Withdrawn(reason)).await
    }

    /// Stores the transition of a call whose dial was not made. If events of the attempt have arrived, the attempt stays: it may
    /// have been dialled after all. The dial of another dialer stays too.
    pub(crate) async fn undo_dial(
        &self,
        call: &Call,
        dial_key: &str,
        transition: impl Fn(&Call, Timestamp) -> Option<Transition>,
        outcome: DialOutcome,
    ) -> Result<DialOutcome, Error> {
        let mut call = call.clone();
        for _ in 0..RACES_MAX {
            let Some(undone) = transition(&call, self.clock.now()) else {
                return Ok(undone_or_in_doubt(&call, dial_key, outcome));
            };
            match repeated(|| self.calls.store(&undone, self.call_retention)).await? {
                StoreOutcome::Committed => return Ok(outcome),
                StoreOutcome::LostRace => {}
            }
            match repeated(|| self.calls.get_call(&call.call_id)).await? {
                Some(read) => call = read,
                None => return Ok(DialOutcome::ClaimLost),
            }
        }
        Err(Error::Contended(RACES_MAX))
    }
}

/// Returns the outcome for a row that takes no transition back. If the dial is still there, events of it have arrived. If not, an earlier
/// write took it back, whose answer was lost.
fn undone_or_in_doubt(call: &Call, dial_key: &str, undone: DialOutcome) -> DialOutcome {
    if call.started_dial(dial_key).is_some() { DialOutcome::InDoubt(EVENTS_RECEIVED) } else { undone }
}
