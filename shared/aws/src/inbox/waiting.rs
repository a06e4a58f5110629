//! Events that wait in the inbox for their next try.
//!
//! **An event of a call that keeps failing waits in the inbox, not in the queue.** SQS counts a message that waits for its next try as one in flight, and a
//! FIFO queue with 120,000 of them hands out no other message. So events that fail for hours would stop the healthy ones. The
//! consumer tries a failing event from the queue for [`WAITS_AFTER`]. Then it notes that the event waits, and deletes the message. The
//! reconciler sends the event to the queue again at each of [`retry_ages`], and to the dead-letter queue at [`GIVEN_UP_AFTER`]. It gives up only an event
//! whose last try has failed. If no consumer has tried it, for example because none runs, it is sent every [`UNANSWERED_EVERY`], and given up at
//! [`GIVEN_UP_ANYWAY`]. An event that can no longer be read is given up then too.
//!
//! Ages count from the first try of the event. The index of items that a person should look at holds that time of each event that is retried. So
//! the events that reach an age are a part of the index, and nobody reads those that wait longer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchhook_domain::Timestamp;

use super::item::RETRY_CURSOR_KEY;
use super::note::Note;
use super::table::Inbox;
use crate::error::Error;

/// Time since its first try after which a failing event waits in the inbox.
pub const WAITS_AFTER: Duration = Duration::from_secs(2 * 60);
/// Minutes of [`retry_ages`].
const RETRY_MINUTES: [u64; 10] = [5, 10, 20, 30, 45, 60, 75, 90, 105, 120];
/// Age at which an event that waits becomes a dead letter, if it failed at the last age. Longer than an outage of an hour.
pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(125 * 60);
/// Time after which an event older than [`GIVEN_UP_AFTER`] is sent once more, if no consumer has tried it at the last age.
pub const UNANSWERED_EVERY: Duration = Duration::from_secs(15 * 60);
/// Age at which an event that waits becomes a dead letter although no consumer has tried it at the last age, or although it cannot be read.
pub const GIVEN_UP_ANYWAY: Duration = Duration::from_secs(6 * 60 * 60);
/// Returns the ages at which an event that waits is tried again, in their order.
pub fn retry_ages() -> impl Iterator<Item = Duration> {
    RETRY_MINUTES.into_iter().map(|minutes| Duration::from_secs(minutes * 60))
}

/// Returns the time of the next try of an event that waits since its first try at `first_tried_at`: when it reaches the next age.
#[must_use]
pub fn next_retry(first_tried_at: Timestamp, now: Timestamp) -> Timestamp {
    let mut ages = retry_ages().map(|age| first_tried_at.plus(age));
    ages.find(|at| *at > now).unwrap_or_else(|| first_tried_at.plus(GIVEN_UP_AFTER))
}

impl Note {
    /// Returns the first try of an event that waits, and the number of its failures so far. `None` if it does not wait: then the note is about
    /// earlier trouble.
    #[must_use]
    pub fn series(&self) -> Option<(Timestamp, u32)> {
        self.first_tried_at.filter(|_| self.waits).map(|first| (first, self.attempts))
    }

    /// True if the event failed at the last age.
    #[must_use]
    pub fn is_at_its_end(&self) -> bool {
        let end = self.first_tried_at.map(|first| first.plus(GIVEN_UP_AFTER));
        self.next_retry_at.zip(end).is_some_and(|(next, end)| next >= end)
    }
}

/// Progress of the retries. It never expires.
#[derive(Serialize, Deserialize)]
struct RetryCursorItem {
    event_id: String,
    until: Timestamp,
}

impl Inbox {
    /// Reads the time up to which events were sent to the queue again. `None` if none was so far.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`].
    pub async fn retry_cursor(&self) -> Result<Option<Timestamp>, Error> {
        let Some(item) = self.get_item(RETRY_CURSOR_KEY).await? else { return Ok(None) };
        let item: RetryCursorItem =
            serde_dynamo::from_item(item).map_err(|_| Error::DecodeInbox("the cursor of the retries"))?;
        Ok(Some(item.until))
    }

    /// Stores the time up to which events were sent to the queue again.
    ///
    /// # Errors
    /// [`Error::WriteInbox`].
    pub async fn set_retry_cursor(&self, until: Timestamp) -> Result<(), Error> {
        self.put_item(&RetryCursorItem { event_id: RETRY_CURSOR_KEY.to_owned(), until }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000)
    }

    #[test]
    fn next_try_comes_at_the_next_age() {
        let next = [2, 5, 44, 104, 105, 120, 200].map(|now| next_retry(at(0), at(now)));
        assert_eq!(next, [5, 10, 45, 105, 120, 125, 125].map(at));
    }

    #[test]
    fn ages_grow_and_outlast_an_outage_of_an_hour() {
        let ages: Vec<Duration> = [WAITS_AFTER].into_iter().chain(retry_ages()).chain([GIVEN_UP_AFTER]).collect();
        assert!(ages.is_sorted() && ages.iter().filter(|age| age.as_secs() > 60 * 60).count() >= 2);
    }
}
