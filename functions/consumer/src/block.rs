//! The do-not-call list, for people who asked not to be called again: the consumer adds their numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, Direction, EventId, FoldOutcome, HistoryEntry, PhoneNumber, ProviderEvent, Timestamp};

use crate::Consumer;

/// Age of an event of a phone call that is surely over.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

impl Consumer {
    /// Blocks the person's numbers for each new event that reports such a wish, also if its call has no room for it. `before` is the row
    /// before the fold, and `after` the one after it. `None` if there is no such row, or the fold changes nothing.
    ///
    /// Call this before the fold is stored, so that a failure here repeats both. **A wish counts once, so it does not block a number again
    /// that a user has unblocked.** Once the fold is stored, a second delivery of the event is a duplicate. Another event about the same
    /// phone call reports no new wish. Example: a second analysis by Retell. In a call without room each event counts by itself, and the
    /// inbox has a note about it.
    ///
    /// A wish in a phone call that was forgotten blocks nothing. The number in a late event must not come back, and the erased events no
    /// longer tell whether the wish is new. A later phone call under the same id counts.
    pub(crate) async fn block_numbers<'a>(
        &self,
        before: Option<&Call>,
        after: Option<&Call>,
        events: impl Iterator<Item = (&'a ProviderEvent, FoldOutcome)>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let call = after.or(before);
        let is_forgotten = |event: &ProviderEvent| before.is_some_and(|call| is_of_forgotten_phone_call(call, event));
        let wishes = events.filter(|(event, _)| event.block_number && self.block_on_request && !is_forgotten(event));
        for (event, outcome) in wishes {
            let is_new = match outcome {
                FoldOutcome::Folded => true,
                FoldOutcome::Quarantined => !self.is_noted(event).await?,
                FoldOutcome::Duplicate | FoldOutcome::Refused => false,
            };
            if !is_new || self.is_wish_known(before, event).await? {
                continue;
            }
            let numbers = numbers_of_person(call, event);
            for number in &numbers {
                DoNotCallList::new(&self.calls, &self.inbox).block(number, now).await?;
            }
            let is_known = !numbers.is_empty();
            let decision = Decision {
                function: "consumer",
                message: if is_known { "number blocked, as the person asked" } else { "no number to block" },
                action_taken: if is_known { "number_blocked" } else { "number_unknown" },
                provider: Some(event.origin.as_str()),
                event_id: Some(event.event_id.as_str()),
                call_id: Some(call.map_or(event.call_id.as_str(), |call| call.call_id.as_str())),
                ..Decision::default()
            };
            decision.log(now, !is_known);
        }
        Ok(())
    }

    /// True if the inbox says what became of the event. The numbers are blocked before that is noted.
    async fn is_noted(&self, event: &ProviderEvent) -> Result<bool, Error> {
        let note = self.inbox.get_note(&event.event_id).await?;
        Ok(note.is_some_and(|note| note.disposition.is_some()))
    }

    /// True if an event that was folded before reports the same phone call and the same wish. If the inbox no longer has an event of the phone
    /// call that is older than [`OLD`], its wish was acted on long ago. A younger one may be missing because the table was restored.
    async fn is_wish_known(&self, before: Option<&Call>, event: &ProviderEvent) -> Result<bool, Error> {
        let Some((call, provider_call_id)) = before.zip(event.provider_call_id.as_ref()) else { return Ok(false) };
        let attempt =
            call.attempt_records.iter().position(|record| record.provider_call_id.as_ref() == Some(provider_call_id));
        let provider = format!("{}:", event.origin.as_str());
        let entries = call.history.iter().filter(|entry| attempt.is_some() && entry.attempt_index == attempt);
        let entries = entries.filter(|entry| entry.source_event_id.as_str().starts_with(&provider));
        let earlier = entries.map(|entry| (entry.source_event_id.clone(), entry.received_at));
        let earlier: BTreeMap<EventId, Timestamp> = earlier.collect();
        let read = self.inbox.read_by_id(earlier.keys().cloned().collect()).await?;
        let is_lost = |(id, received_at): (&EventId, &Timestamp)| {
            received_at.plus(OLD) <= event.received_at && read.iter().all(|other| other.event_id != *id)
        };
        Ok(read.iter().any(|other| other.block_number) || earlier.iter().any(is_lost))
    }
}

/// Returns the numbers of the person, without repetition: the one that the event reports, and the one that Switchhook dialled in this call.
/// The next call has the second one. Example: a provider that dials `sip:+14155550123@example.com` may report `+14155550123`.
fn numbers_of_person(call: Option<&Call>, event: &ProviderEvent) -> Vec<PhoneNumber> {
    let (reported, dialled) = match event.direction.or(call.and_then(|call| call.direction)) {
        Some(Direction::Inbound) => (event.from.as_ref().or(call.and_then(|call| call.from.as_ref())), None),
        Some(Direction::Outbound) | None => {
            let call = call.filter(|call| call.plan.is_some() || event.to.is_none());
            (event.to.as_ref(), call.and_then(|call| call.to.as_ref()))
        }
    };
    let mut numbers: Vec<PhoneNumber> = reported.into_iter().chain(dialled).map(PhoneNumber::canonical).collect();
    numbers.dedup();
    numbers
}

/// True if the person of the event's phone call was forgotten: the call knows the phone call from before then, or the event does not name it.
fn is_of_forgotten_phone_call(call: &Call, event: &ProviderEvent) -> bool {
    let Some(forgotten_at) = call.forgotten_at else { return false };
    let Some(provider_call_id) = &event.provider_call_id else { return true };
    let attempt =
        call.attempt_records.iter().position(|record| record.provider_call_id.as_ref() == Some(provider_call_id));
    let is_before = |entry: &HistoryEntry| entry.attempt_index == attempt && entry.received_at <= forgotten_at;
    attempt.is_some() && call.history.iter().any(is_before)
}
