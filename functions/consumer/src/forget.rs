//! Late events of calls whose person was forgotten, and of forgotten entities: only what the fold needs is kept of the stored event.

use switchhook_aws::Error;
use switchhook_domain::{Origin, ProviderEvent, Timestamp};

use crate::Consumer;

impl Consumer {
    /// Erases the person's data from the stored events, if the person of their call, or their entity, was forgotten. Events that Switchhook itself
    /// made hold no such data.
    ///
    /// Call this after the fold is stored, and also for duplicates: an earlier invocation may have stored the fold and then died.
    pub(crate) async fn erase_late_events(
        &self,
        forgotten_at: Option<Timestamp>,
        events: &[ProviderEvent],
    ) -> Result<(), Error> {
        let Some(forgotten_at) = forgotten_at else { return Ok(()) };
        for event in events.iter().filter(|event| event.origin != Origin::Switchhook) {
            self.inbox.erase(&event.event_id, forgotten_at).await?;
        }
        Ok(())
    }
}
