//! Records of what no provider reports: the request that created a call, its dials, and its cancellation. A call that is
//! [stopped](Call::stop_unknown) after a disaster counts as canceled here.
//!
//! **The inbox holds these records beside the events, so a row that was lost or restored from a backup can be rebuilt.** Everything
//! else that workers decide is in the row alone. Losing it may delay a call, and never makes a phone ring twice.
//!
//! **A dial is recorded before the provider is asked, and only if no dial of that attempt is recorded.** So a dial that is missing
//! from a restored row is not made again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::announce::Cause;
use crate::call::{AttemptRecord, Call, HistoryEntry, Policy};
use crate::derive::Transition;
use crate::event::{AttemptKey, Direction, EventId, EventKind, ProviderEvent};
use crate::plan::{NewCall, StopReason};
use crate::provider::Provider;
use crate::time::Timestamp;

/// Shortest time for which dials and cancellations are recorded. Continuous backups reach back 35 days, and a recovery may take eight more. A row
/// that is restored from such a backup must not ring a phone again. The row of a call is kept for longer: otherwise, a request with the key of an expired call would get the dials of that
/// call.
pub const DIALS_RETENTION_MIN: Duration = Duration::from_secs((35 + 8) * 24 * 60 * 60);

/// Request that created a call, and the time of the creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCreation {
    #[serde(flatten)]
    pub call: NewCall,
    pub created_at: Timestamp,
}

impl CallCreation {
    /// Returns the time at which the retention of the record begins: the creation, or the [due time](crate::Plan::kept_from) if that is later.
    #[must_use]
    pub fn kept_from(&self) -> Timestamp {
        self.created_at.max(self.call.plan.kept_from())
    }

    /// True if the records of the dials may have expired. This record may be kept for longer than they are, because the retention of the inbox
    /// was shorter when they were written.
    fn may_outlive_dials(&self, now: Timestamp) -> bool {
        now >= self.kept_from().plus(DIALS_RETENTION_MIN)
    }

    /// False if a row without a plan is older than the creation. Then it belongs to another system's call that has the same id.
    #[must_use]
    pub fn is_of(&self, row: &Call) -> bool {
        row.created_at >= self.created_at
    }
}

/// One dial of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialRecord {
    pub attempt: AttemptKey,
    pub provider: Provider,
    pub dialled_at: Timestamp,
    /// Id of the dial. See [`AttemptRecord::dial_key`].
    pub dial_key: String,
}

/// Records of the dials of a call in the inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialRecords {
    /// Latest dial of each attempt, in the order of their numbers.
    pub dials: Vec<DialRecord>,
    /// Reason why the call was canceled or [stopped](Call::stop_unknown). `None` if it was neither.
    pub canceled: Option<StopReason>,
}

impl DialRecords {
    /// Returns the recorded dial of an attempt. `None` if there is none.
    #[must_use]
    pub fn dial_of(&self, attempt: &AttemptKey) -> Option<&DialRecord> {
        self.dials.iter().find(|dial| dial.attempt == *attempt)
    }
}

impl Call {
    /// Returns the record of the dial of an attempt. `None` if Switchhook did not dial it.
    #[must_use]
    pub fn dial_record(&self, attempt: &AttemptKey) -> Option<DialRecord> {
        let record = self.attempt_records.iter().find(|record| record.key.as_ref() == Some(attempt))?;
        Some(DialRecord {
            attempt: attempt.clone(),
            provider: record.provider?,
            dialled_at: record.dialled_at?,
            dial_key: record.dial_key.clone()?,
        })
    }

    /// Returns the request that created the call. `None` if Switchhook does not place the call.
    #[must_use]
    pub fn creation(&self) -> Option<CallCreation> {
        let call = NewCall {
            call_id: self.call_id.clone(),
            from: self.from.clone()?,
            to: self.to.clone()?,
            appointment_id: self.appointment_id.clone(),
            plan: self.plan.clone()?,
        };
        Some(CallCreation { call, created_at: self.created_at })
    }

    /// Returns the dials of the call.
    #[must_use]
    pub fn dials(&self) -> Vec<DialRecord> {
        let keys = self.attempt_records.iter().filter_map(|record| record.key.as_ref());
        keys.filter_map(|key| self.dial_record(key)).collect()
    }

    /// Returns the events in the history of the row, without `drift_found`. The row holds neither
    /// the bodies of the webhooks nor the providers' names for their types. The kind of the call event stands in for the type.
    #[must_use]
    pub fn held_events(&self) -> Vec<ProviderEvent> {
        let mut seen: Vec<&EventId> = Vec::new();
        let mut events = Vec::new();
        for entry in self.history.iter().filter(|entry| entry.event.kind != EventKind::DriftFound) {
            if !seen.contains(&&entry.source_event_id) {
                seen.push(&entry.source_event_id);
                events.extend(self.held_event(entry));
            }
        }
        events
    }

    /// Returns the event that an entry of the history comes from.
    fn held_event(&self, entry: &HistoryEntry) -> Option<ProviderEvent> {
        let siblings = || self.history.iter().filter(|other| other.source_event_id == entry.source_event_id);
        let record = entry.attempt_index.and_then(|index| self.attempt_records.get(index));
        let reported = siblings().find(|other| !other.event.implied).unwrap_or(entry);
        Some(ProviderEvent {
            event_id: entry.source_event_id.clone(),
            origin: entry.source_event_id.origin()?,
            event_type: reported.event.kind.as_str().to_owned(),
            call_id: self.call_id.clone(),
            attempt: record.and_then(|record| record.key.clone()),
            provider_call_id: record.and_then(|record| record.provider_call_id.clone()),
            dialled_provider: record
                .and_then(|record| record.provider)
                .filter(|_| entry.source_event_id.provider().is_none()),
            appointment_id: self.appointment_id.clone(),
            direction: self.direction,
            from: self.from.clone(),
            to: self.to.clone(),
            received_at: entry.received_at,
            call_events: siblings().map(|other| other.event.clone()).collect(),
            block_number: false,
            entity: None,
            booking: None,
            trace_id: entry.trace_id.clone(),
            forgotten_at: self.forgotten_at,
        })
    }

    /// Adds to a row what the inbox records and the row lacks: the request that created the call, its dials, and its cancellation.
    /// A row that was lost is made anew.
    ///
    /// A dial that the row gets back is in doubt until an event about it is folded: nobody dials, and the reconciler looks it up at once.
    /// If no dial is recorded, and such a record would have expired by now, the call ends: nobody knows whether the person was called.
    ///
    /// `None` if the row lacks nothing, or if there is neither a row nor a creation.
    #[must_use]
    pub fn rebuild(
        row: Option<&Self>,
        creation: Option<&CallCreation>,
        records: &DialRecords,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        let (mut call, mut is_changed) = match (row, creation) {
            (None, None) => return None,
            (None, Some(creation)) => {
                let scheduled = Self::schedule(creation.call.clone(), policy, creation.created_at).call;
                (Self { version: 0, ..scheduled }, true)
            }
            (Some(row), creation) => {
                let mut call = row.clone();
                let is_changed = creation.is_some_and(|creation| call.restore_plan(creation));
                (call, is_changed)
            }
        };
        call.plan.as_ref()?;
        let are_dials_unknown =
            is_changed && records.dials.is_empty() && creation.is_some_and(|creation| creation.may_outlive_dials(now));
        for dial in &records.dials {
            is_changed |= call.restore_dial(dial);
        }
        let recorded = records.canceled.or(are_dials_unknown.then_some(StopReason::DialsUnknown));
        let is_canceled = recorded.is_some() && call.stop_reason.is_none();
        call.stop_reason = call.stop_reason.or(recorded);
        // With its plan back, the row may have something to announce. The events in its history are the cause of that.
        let cause = if is_canceled { Cause::Worker } else { Cause::Events };
        (is_changed || is_canceled).then(|| {
            if let Some(forgotten_at) = call.forgotten_at {
                call.erase_person(forgotten_at);
            }
            call.wake_at = None;
            let Transition { call, new_announcements } = call.rederive(cause, policy, now);
            let call = if call.in_doubt().is_empty() { call } else { call.waking_at(now) };
            Transition { call, new_announcements }
        })
    }

    /// Gives the plan back to a row that lacks it: the row of the placed call was lost, and a later event made a new row. Returns
    /// true if the plan was restored.
    ///
    /// If the row is older than the creation, it belongs to another system's call that has the same id, and stays as it is.
    fn restore_plan(&mut self, creation: &CallCreation) -> bool {
        if self.plan.is_some() || !creation.is_of(self) {
            return false;
        }
        let NewCall { call_id: _, from, to, appointment_id, plan } = creation.call.clone();
        self.direction = Some(Direction::Outbound);
        self.from = Some(from);
        self.to = Some(to);
        self.appointment_id = appointment_id.or_else(|| self.appointment_id.take());
        self.plan = Some(plan);
        self.created_at = creation.created_at;
        true
    }

    /// Gives a dial back to the row. Returns true if the row lacked it.
    fn restore_dial(&mut self, dial: &DialRecord) -> bool {
        let DialRecord { attempt, provider, dialled_at, dial_key } = dial.clone();
        let record = self.attempt_records.iter_mut().find(|record| record.key.as_ref() == Some(&attempt));
        match record {
            Some(record) if record.dial_key.as_ref() == Some(&dial_key) => return false,
            Some(record) => {
                record.provider = Some(provider);
                record.dialled_at = Some(dialled_at);
                record.dial_key = Some(dial_key);
            }
            None => self.attempt_records.push(AttemptRecord {
                key: Some(attempt),
                provider: Some(provider),
                provider_call_id: None,
                awaits_outcome: true,
                dialled_at: Some(dialled_at),
                is_watched: false,
                dial_key: Some(dial_key),
            }),
        }
        true
    }
}

#[cfg(test)]
mod tests;
