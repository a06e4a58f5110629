//! The calls of bookings: makes them agree with the row of the booking.
//!
//! **Every step can be repeated.** The row says that its calls do not agree yet, from the fold until all steps are done. A consumer
//! that dies between leaves it so: the next delivery, or the sweep, repeats the steps. A call is created as the API creates one, under
//! an id that the booking gives. So a repetition finds the call, whoever created it. If the row of the call was lost, it is rebuilt, and the dialer
//! holds the call until its events are folded again. If they are too old to be found at once, the event of the booking fails.
//!
//! **If a booking is moved while its call is under way, the call for the new start waits.** Otherwise both would ring at once.

use std::collections::BTreeSet;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::inbox::{CreationOutcome, creation_id};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    Booking, Call, CallCreation, CallId, NewCall, NotScheduled, Plan, ProviderEvent, StopReason, Timestamp, TraceId,
    Transition,
};
use switchhook_providers::replaced_booking;

use crate::{Consumer, Counts, RACES_MAX};

/// Time for which the new call of a booking waits if an earlier one is under way. Few calls about an appointment ring and last longer.
const UNDER_WAY_PAUSE: Duration = Duration::from_secs(10 * 60);

/// Result of calling off a call.
struct CallOff {
    /// True if the call was waiting or under way until now.
    is_new: bool,
    /// True if the phone may be ringing, or people may be talking.
    is_under_way: bool,
}

impl Consumer {
    /// Calls off the earlier calls of a booking, and creates the present one. A forgotten booking gets no call. `events` are events at
    /// hand, which may include the one that decides. Returns the counts for the line of the batch, and the state of the booking after that.
    ///
    /// # Errors
    /// The errors of the tables. The caller may safely try again.
    pub(crate) async fn agree_with_booking(
        &self,
        booking: &Booking,
        is_forgotten: bool,
        events: &[ProviderEvent],
        now: Timestamp,
    ) -> Result<(Counts, Booking), Error> {
        let mut counts = Counts::new();
        let mut under_way = BTreeSet::new();
        for call_id in &booking.superseded {
            let call_off = self.call_off(call_id, now).await?;
            if call_off.is_new {
                counts.push(("call_called_off", 1));
            }
            if call_off.is_under_way {
                under_way.insert(call_id.clone());
            }
        }
        let is_under_way = !under_way.is_empty();
        let agreed = booking.agreed(under_way);
        if booking.is_canceled {
            return Ok((counts, agreed));
        }
        let id = &booking.decided_by.event_id;
        let event = match events.iter().find(|event| event.event_id == *id) {
            Some(event) => Some(event.clone()),
            None => self.inbox.get_normalized(id).await?,
        };
        // The row is kept until the appointment begins, and the event may have expired long before. The next webhook that changes the booking
        // schedules its call.
        let Some(event) = event else { return Ok((counts, agreed)) };
        let waits = is_under_way || self.is_replaced_under_way(&event).await?;
        let not_before = waits.then(|| now.plus(UNDER_WAY_PAUSE));
        let scheduled = match event.booked_call(&self.defaults, not_before.unwrap_or(now)) {
            None => return Ok((counts, agreed)),
            Some(Ok(_)) if is_forgotten => Err(NotScheduled::Forgotten),
            Some(Ok(call)) => self.create_booked(call, not_before, now).await?,
            Some(Err(reason)) => Err(reason),
        };
        match scheduled {
            Ok(true) => counts.push(("call_booked", 1)),
            Ok(false) => {}
            Err(reason) => self.log_not_scheduled(&event, reason, now),
        }
        Ok((counts, agreed))
    }

    /// True if the event replaces another booking, and a call of that one is under way. It may not be called off yet.
    async fn is_replaced_under_way(&self, event: &ProviderEvent) -> Result<bool, Error> {
        let Some(replaced) = replaced_booking(event) else { return Ok(false) };
        let Some(booking) = self.calls.entity(&replaced.call_id).await?.and_then(|row| row.booking) else {
            return Ok(false);
        };
        for call_id in booking.call_id.iter().chain(&booking.superseded) {
            if self.calls.get_call(call_id).await?.is_some_and(|call| call.in_flight.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates the call of a booking, or resumes it, and then not before a time. Returns false if the call is there already.
    async fn create_booked(
        &self,
        call: NewCall,
        not_before: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Result<bool, NotScheduled>, Error> {
        if let Some(account) = self.calls.unlisted_account(&call.plan.providers).await? {
            return Err(Error::UnlistedAccount(account));
        }
        let call_id = call.call_id.clone();
        let trace_id = call.plan.trace_id.clone();
        let creation = CallCreation { call, created_at: now };
        let recorded = self.inbox.put_creation(&creation, trace_id.as_ref().map_or("", TraceId::as_str)).await?;
        let (creation, is_new) = match recorded {
            CreationOutcome::Stored => (creation, true),
            CreationOutcome::Exists(first) => (*first, false),
            CreationOutcome::Erased => return Ok(Err(NotScheduled::Forgotten)),
        };
        for race in 0..RACES_MAX {
            let is_first = is_new && race == 0;
            let row = if is_first {
                None
            } else {
                // The row outlives the record of its creation. So a new record is no proof that the call was never called off.
                self.inbox.lift_cancellation(&call_id).await?;
                self.calls.get_call(&call_id).await?
            };
            let transition = match &row {
                None if is_first => Some(Call::schedule(creation.call.clone(), &self.policy, creation.created_at)),
                Some(row) if row.forgotten_at.is_some() => {
                    self.inbox.erase(&creation_id(&call_id), now).await?;
                    return Ok(Err(NotScheduled::Forgotten));
                }
                Some(row) if row.plan.is_some() => row.resume(not_before, &self.policy, now),
                Some(_) | None => {
                    let records = self.inbox.dial_records(&call_id).await?;
                    let rebuilt = Call::rebuild(row.as_ref(), Some(&creation), &records, &self.policy, now);
                    if let Some(rebuilt) = &rebuilt {
                        self.inbox.await_events_of_rebuilt(&rebuilt.call, now, &self.clock).await?;
                    }
                    rebuilt
                }
            };
            let Some(transition) = transition else { return Ok(Ok(false)) };
            if self.store_call(&transition).await? {
                return Ok(Ok(true));
            }
        }
        Err(Error::Contended(RACES_MAX))
    }

    /// Calls off a call of a booking. One that is under way goes on, and gets no further attempt.
    async fn call_off(&self, call_id: &CallId, now: Timestamp) -> Result<CallOff, Error> {
        for _ in 0..RACES_MAX {
            let call = match self.calls.get_call(call_id).await? {
                Some(call) if call.plan.is_some() => call,
                // The row was lost, or never written. A later webhook may have made one without a plan. If it comes back, nobody is called.
                row => {
                    if let Some(creation) = self.inbox.creation(call_id).await? {
                        self.record_call_off(call_id, creation.call.plan.kept_from(), now).await?;
                    }
                    let is_under_way = row.is_some_and(|call| call.in_flight.is_some());
                    return Ok(CallOff { is_new: false, is_under_way });
                }
            };
            let transition = call.call_off(&self.policy, now);
            if let Some(transition) = &transition
                && !self.store_call(transition).await?
            {
                continue;
            }
            if transition.is_some() || call.stop_reason == Some(StopReason::BookingChanged) {
                let kept_from = call.plan.as_ref().map_or(now, Plan::kept_from);
                self.record_call_off(call_id, kept_from, now).await?;
            }
            let is_new = transition.is_some();
            let call = transition.map_or(call, |transition| transition.call);
            return Ok(CallOff { is_new, is_under_way: call.in_flight.is_some() });
        }
        Err(Error::Contended(RACES_MAX))
    }

    /// Records in the inbox that a call was called off. So it stays so if its row is lost.
    async fn record_call_off(&self, call_id: &CallId, kept_from: Timestamp, now: Timestamp) -> Result<(), Error> {
        self.inbox.record_cancellation(call_id, StopReason::BookingChanged, Some(kept_from), now).await
    }

    async fn store_call(&self, transition: &Transition) -> Result<bool, Error> {
        Ok(self.calls.store(transition).await? == StoreOutcome::Committed)
    }

    fn log_not_scheduled(&self, event: &ProviderEvent, reason: NotScheduled, now: Timestamp) {
        let decision = Decision {
            function: "consumer",
            message: "booking schedules no call",
            action_taken: "booking_without_call",
            provider: Some(event.origin.as_str()),
            event_id: Some(event.event_id.as_str()),
            call_id: Some(event.call_id.as_str()),
            cause: Some(reason.as_str()),
            trace_id: event.trace_id.as_ref().map(TraceId::as_str),
            ..Decision::default()
        };
        decision.log(now, false);
    }
}
