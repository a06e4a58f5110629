//! The do-not-call list, for people who asked not to be called again: the consumer adds their numbers.

use switchhook_aws::Error;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, Direction, FoldOutcome, ProviderEvent, Timestamp};

use crate::Consumer;

impl Consumer {
    /// Blocks the person's number for each newly folded event that reports such a wish.
    ///
    /// Call this before the fold is stored, so that a failure here repeats both. Once the fold is stored, a second delivery of the
    /// event is a duplicate. So it does not block a number again that a user has unblocked.
    pub(crate) async fn block_numbers<'a>(
        &self,
        call: &Call,
        events: impl Iterator<Item = (&'a ProviderEvent, FoldOutcome)>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let wishes = events.filter(|(event, outcome)| event.block_number && *outcome == FoldOutcome::Folded);
        for (event, _) in wishes.filter(|_| self.block_on_request) {
            let number = match event.direction.or(call.direction) {
                Some(Direction::Inbound) => event.from.as_ref().or(call.from.as_ref()),
                Some(Direction::Outbound) | None => event.to.as_ref().or(call.to.as_ref()),
            };
            if let Some(number) = number {
                DoNotCallList::new(&self.calls, &self.inbox).block(number, now).await?;
            }
            let decision = Decision {
                function: "consumer",
                message: if number.is_some() { "number blocked, as the person asked" } else { "no number to block" },
                action_taken: if number.is_some() { "number_blocked" } else { "number_unknown" },
                provider: Some(event.origin.as_str()),
                event_id: Some(event.event_id.as_str()),
                call_id: Some(call.call_id.as_str()),
                ..Decision::default()
            };
            decision.log(now, number.is_none());
        }
        Ok(())
    }
}
