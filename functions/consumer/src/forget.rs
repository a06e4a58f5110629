//! Late events of calls whose person was forgotten, and of forgotten entities: only what the fold needs is kept of the stored event.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use switchhook_aws::Error;
use switchhook_domain::{Origin, ProviderEvent, Timestamp};

use crate::Consumer;

/// Events that are erased at the same time. A refold reads all events of a call, which may be many.
const CONCURRENCY: usize = 8;

impl Consumer {
    /// Erases the person's data from the stored events, if the person of their call, or their entity, was forgotten. Events that Switchhook itself
    /// made hold no such data.
    ///
    /// Call this after the fold is stored, and also for duplicates: an earlier invocation may have stored the fold and then died.
    pub(crate) async fn erase_late_events<'a>(
        &self,
        forgotten_at: Option<Timestamp>,
        events: impl Iterator<Item = &'a ProviderEvent>,
    ) -> Result<(), Error> {
        let Some(forgotten_at) = forgotten_at else { return Ok(()) };
        let events = events.filter(|event| event.origin != Origin::Switchhook);
        let erase = async |event: &ProviderEvent| self.inbox.erase(&event.event_id, forgotten_at).await.map(drop);
        stream::iter(events).map(Ok).try_for_each_concurrent(CONCURRENCY, erase).await
    }
}
