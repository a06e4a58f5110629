//! Events that are about an entity, not about a call: one read and one conditional write for each entity and batch.

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::queue::Message;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Disposition, Entity, EntityFold, ProviderEvent, Timestamp, fold_entity};

use crate::{Consumer, Counts, FOLD_MS_MAX, RACES_MAX};

impl Consumer {
    /// Folds events of one entity. Returns the counts for the line of the batch.
    ///
    /// # Errors
    /// The errors of the calls table. No event is announced then.
    pub(crate) async fn fold_entity(&self, messages: &[Message]) -> Result<Counts, Error> {
        let Some(first) = messages.first() else { return Ok(Counts::new()) };
        let key = &first.event.call_id;
        let events: Vec<ProviderEvent> = messages.iter().map(|message| message.event.clone()).collect();
        let started = self.clock.now();
        for race in 0..RACES_MAX {
            let now = self.clock.now();
            if now.millis_since(started) > FOLD_MS_MAX {
                return Err(Error::Contended(race));
            }
            let entity = self.calls.entity(key).await?;
            let EntityFold { next, dispositions } = fold_entity(entity.as_ref(), key, &events);
            let forgotten_at = next.as_ref().or(entity.as_ref()).and_then(|row| row.forgotten_at);
            let mut outcome = StoreOutcome::Committed;
            if let Some(next) = &next {
                outcome = self.calls.store_entity(next, now, self.inbox.retention()).await?;
            }
            let mut booking_counts = Counts::new();
            if outcome == StoreOutcome::Committed
                && let Some(entity) = next.or(entity)
                && let Some(booking) = entity.booking.as_ref().filter(|booking| !booking.calls_agree)
            {
                let (counts, agreed) = self.agree_with_booking(booking, forgotten_at.is_some(), &events, now).await?;
                booking_counts = counts;
                let agreed = Entity { version: entity.version + 1, booking: Some(agreed), ..entity.clone() };
                outcome = self.calls.store_entity(&agreed, now, self.inbox.retention()).await?;
            }
            if outcome == StoreOutcome::LostRace {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=(20 << race)))).await;
                continue;
            }
            self.erase_late_events(forgotten_at, events.iter()).await?;
            let mut counts = self.log_entity(messages, &dispositions, race, started);
            counts.extend(booking_counts);
            return Ok(counts);
        }
        Err(Error::Contended(RACES_MAX))
    }

    fn log_entity(
        &self,
        messages: &[Message],
        dispositions: &[Disposition],
        lost_races: u32,
        started: Timestamp,
    ) -> Counts {
        let now = self.clock.now();
        let mut counts = vec![("fold_conflicts", lost_races.into())];
        for (message, disposition) in messages.iter().zip(dispositions) {
            let event = &message.event;
            counts.extend([("received", 1), (disposition.as_str(), 1)]);
            if *disposition == Disposition::Applied {
                counts.push(("received_to_applied_ms", now.millis_since(event.received_at).unsigned_abs()));
            }
            let decision = Decision {
                function: "consumer",
                action_taken: disposition.as_str(),
                provider: Some(event.origin.as_str()),
                event_id: Some(event.event_id.as_str()),
                call_id: Some(event.call_id.as_str()),
                duration_ms: Some(now.millis_since(started)),
                trace_id: Some(&message.trace_id),
                counted_elsewhere: true,
                ..Decision::default()
            };
            decision.log(now, false);
        }
        counts
    }
}
