//! Dials that were recorded in the row and not made: the dialer takes them back.
//!
//! **A request that fails is repeated.** Only this dialer knows that nobody was dialled. Without its write, the reconciler looks for the dial
//! at the provider, and at some providers no search proves that there was none. Such a call would end as `inconclusive`.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::queue::ClaimMessage;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{AttemptKey, Call, DialRecord, DialRecords, StopReason, Timestamp, Transition};

use crate::outcome::{DialOutcome, EVENTS_RECEIVED, Pause};
use crate::repeated::{repeated, repeated_within};
use crate::{Dialer, RACES_MAX, backoff};

/// Time after which the dialer no longer tries to delete the record of a dial. It is shorter than the SDK's timeout: a table that does not
/// answer gets one request. The time that is left is for the event that withdraws the dial. It goes to the same table, which may answer again
/// by then. If it does not, the dial stays in doubt, and the reconciler looks it up.
const DELETE_TIME: Duration = Duration::from_secs(2);

impl Dialer {
    /// Takes back a recorded dial that the provider did not make: deletes its record and withdraws the attempt. The call is due again later.
    ///
    /// If the record stays, the inbox refuses every further dial of the attempt. So the attempt stays in the row too, and an event withdraws it.
    /// The next dial has another number.
    pub(crate) async fn take_back(
        &self,
        call: &Call,
        dial: &DialRecord,
        reason: &'static str,
        pause: Pause,
        claim: &ClaimMessage,
    ) -> Result<DialOutcome, Error> {
        if self.delete_dial_record(call, dial).await {
            return self.withdraw(call, &dial.dial_key, reason, pause).await;
        }
        let not_made = call.dial_not_found_event(&dial.attempt, self.clock.now());
        repeated(|| self.submit(&not_made, claim)).await?;
        Ok(DialOutcome::Withdrawn(reason))
    }

    /// Deletes the record of a dial that the provider did not make. Returns false if that failed.
    pub(crate) async fn delete_dial_record(&self, call: &Call, dial: &DialRecord) -> bool {
        let deleted = repeated_within(DELETE_TIME, || self.inbox.delete_dial(&call.call_id, dial)).await;
        if let Err(error) = &deleted {
            let now = self.clock.now();
            let decision = Decision {
                function: "dialer",
                message: "record of a dial that was not made stays in the inbox",
                action_taken: "record_not_deleted",
                provider: Some(dial.provider.as_str()),
                call_id: Some(call.call_id.as_str()),
                ..Decision::from_error(Some(error))
            };
            decision.log(now, true);
        }
        deleted.is_ok()
    }

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
            match repeated(|| self.calls.store(&undone)).await? {
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
        pause: Pause,
    ) -> Result<DialOutcome, Error> {
        let time = backoff().max(pause.min);
        let withdrawal = |call: &Call, now: Timestamp| {
            let withdrawn = call.withdraw(dial_key, now.plus(time), &self.policy, now)?.because(reason);
            Some(if pause.is_of_number { withdrawn.counting_pause() } else { withdrawn })
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
            match repeated(|| self.calls.store(&undone)).await? {
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
