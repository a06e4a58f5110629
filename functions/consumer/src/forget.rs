//! Late events of calls whose person was forgotten: nothing of them stays but the call events.

use switchhook_aws::Error;
use switchhook_domain::{Call, Origin, ProviderEvent};

use crate::Consumer;

impl Consumer {
    /// Erases the person from the stored events, if the person of their call was forgotten. Events that Switchhook made hold no
    /// such data.
    ///
    /// Call this after the fold is stored, and also for duplicates: an earlier invocation may have died in between.
    pub(crate) async fn erase_late_events(&self, call: Option<&Call>, events: &[ProviderEvent]) -> Result<(), Error> {
        let Some(forgotten_at) = call.and_then(|call| call.forgotten_at) else { return Ok(()) };
        for event in events.iter().filter(|event| event.origin != Origin::Switchhook) {
            self.inbox.erase(&event.event_id, forgotten_at).await?;
        }
        Ok(())
    }
}
