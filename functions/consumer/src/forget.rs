//! Late events of calls whose person was forgotten: of the stored event, only the call events are kept.

use switchhook_aws::Error;
use switchhook_domain::{Call, Origin, ProviderEvent};

use crate::Consumer;

impl Consumer {
    /// Erases the person's data from the stored events, if the person of their call was forgotten. Events that Switchhook itself
    /// made hold no such data.
    ///
    /// Call this after the fold is stored, and also for duplicates: an earlier invocation may have stored the fold and then died.
    pub(crate) async fn erase_late_events(&self, call: Option<&Call>, events: &[ProviderEvent]) -> Result<(), Error> {
        let Some(forgotten_at) = call.and_then(|call| call.forgotten_at) else { return Ok(()) };
        for event in events.iter().filter(|event| event.origin != Origin::Switchhook) {
            self.inbox.erase(&event.event_id, forgotten_at).await?;
        }
        Ok(())
    }
}
