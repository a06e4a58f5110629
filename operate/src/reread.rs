//! Stored events that are read anew, by the entries that their providers have now.
//!
//! Ingress reads the webhooks of some providers by their entry in the webhook keys, and stores the result. Where it found nothing,
//! because the entry was wrong or had no rule, a corrected entry gives the event its meaning here. The secret is read once per plan
//! and run, and only if such an event is selected.

use switchhook_aws::Error;
use switchhook_aws::inbox::{NewEvent, Reread, StoredEvent, replaces, submit};
use switchhook_domain::{EntityFate, EntityPosition, Provider, ProviderEvent};
use switchhook_providers::{Entry, WebhookConfig};

use crate::entries::StoredEntries;
use crate::stack::Stack;

/// Result of reading a stored event by the entry of its provider.
#[derive(Debug)]
pub(crate) enum ReadAnew {
    Read(Reread),
    /// Ingress found no meaning in the event, and its provider has no entry that could be used. The text says what to do.
    NoEntry(String),
}

impl Stack {
    /// Returns this stack with entries that are not read yet. A console uses one stack for hours, and an operator corrects an entry
    /// meanwhile.
    pub(crate) fn with_unread_entries(&self) -> Self {
        let mut stack = self.clone();
        stack.entries = StoredEntries::default();
        stack
    }

    /// Reads a stored event again, whatever its disposition.
    pub(crate) async fn read_anew(&self, stored: &StoredEvent) -> Result<ReadAnew, Error> {
        let Some(provider) = stored.provider_to_ask() else {
            return Ok(ReadAnew::Read(self.inbox.read_again(stored, None).await?));
        };
        match self.entry(provider).await {
            Ok(config) => Ok(ReadAnew::Read(self.inbox.read_again(stored, config).await?)),
            Err(reason) if provider.is_configured() => Ok(ReadAnew::NoEntry(reason)),
            // The program itself reads the event. The plan warns that a rule for decisions was not applied.
            Err(_) => Ok(ReadAnew::Read(self.inbox.read_again(stored, None).await?)),
        }
    }

    /// True if the entry of today finds another meaning in an event than the one that is stored.
    pub(crate) async fn is_read_anew(&self, stored: &StoredEvent, read: &ProviderEvent) -> Result<bool, Error> {
        if stored.provider_to_ask().is_none() {
            return Ok(false);
        }
        let reread = self.inbox.read_again(stored, None).await?;
        Ok(!matches!(reread, Reread::Foldable(kept) if has_same_meaning(&kept, read)))
    }

    /// Stores the meaning that [`Stack::read_anew`] finds in an event, which is then foldable, and queues the event that calls off a
    /// booking which it replaces. Returns false if the stored event is not read as `event` by now. The event that calls off is then
    /// removed, unless the sweep was faster and it is folded already.
    pub(crate) async fn make_foldable(&self, stored: &StoredEvent, event: &ProviderEvent) -> Result<bool, Error> {
        // The event is stored before the booking, so that a run that is killed schedules no call too many. It is queued last, because it
        // calls a call off, and the booking may have been erased since it was read.
        let replaced = NewEvent::of_replaced_booking(event, stored.key_index, &stored.trace_id);
        if let Some((new_event, _)) = &replaced {
            drop(self.inbox.put(new_event).await?);
        }
        let config = match stored.provider_to_ask() {
            Some(provider) => self.entry(provider).await.ok().flatten(),
            None => None,
        };
        let reread = self.inbox.make_foldable(stored, config).await?;
        let is_kept = matches!(&reread, Reread::Foldable(kept) if has_same_meaning(kept, event));
        let is_replacing = |second: &ProviderEvent| matches!(&reread, Reread::Foldable(kept) if replaces(kept, second));
        match replaced {
            Some((new_event, replaced)) if is_kept => {
                drop(submit(&self.inbox, &self.events_queue, &new_event, &replaced).await?);
            }
            // Ingress stores no such event for one that it does not have folded, as long as no webhook contradicts another one. So a run
            // stored it: this one, or one that was killed.
            Some((_, replaced))
                if !is_replacing(&replaced) && stored.disposition.is_some() && !self.is_folded(&replaced).await? =>
            {
                self.inbox.remove(&replaced.event_id).await?;
            }
            Some(_) | None => {}
        }
        Ok(is_kept)
    }

    /// True if the entity of an event has folded it.
    async fn is_folded(&self, event: &ProviderEvent) -> Result<bool, Error> {
        let entity = self.calls.entity(&event.call_id).await?;
        let fate = entity.zip(EntityPosition::of(event)).map(|(entity, position)| entity.fate(&position));
        Ok(match fate {
            Some(EntityFate::Folded(_) | EntityFate::CallsDisagree(_)) => true,
            Some(EntityFate::NotFolded) | None => false,
        })
    }

    /// Returns a warning if entries were asked for and could not be used, so that the rules for decisions in them did not count.
    pub(crate) fn entries_warning(&self) -> Option<String> {
        let problem = self.entries.problem()?;
        Some(format!("stored webhooks were read without the rules for decisions of the providers' entries: {problem}"))
    }

    /// Returns the entry of a provider. `None` if a provider that Switchhook has code for has none. An error says what to do.
    async fn entry(&self, provider: Provider) -> Result<Option<&WebhookConfig>, String> {
        let entries = self.entries.of(&self.secrets, &self.names.webhook_keys_secret).await.as_ref()?;
        let names = self.names.stack.as_str();
        match entries.entry(provider) {
            Entry::Configured(config) => Ok(Some(config)),
            Entry::Unnamed if !provider.is_configured() => Ok(None),
            Entry::Unnamed => Err(format!(
                "the webhook keys of the stack {names} have no entry {provider}, by which its events are read: store it with \
                 `switchhook providers put`, and plan again"
            )),
            Entry::Disabled => Err(format!(
                "the entry of {provider} in the webhook keys of the stack {names} is wrong: `switchhook providers list` names the \
                 field; correct it with `switchhook providers put`, and plan again"
            )),
        }
    }
}

/// True if two readings of an event say the same. They may name the call by different aliases.
fn has_same_meaning(a: &ProviderEvent, b: &ProviderEvent) -> bool {
    (&a.call_events, &a.entity, &a.booking) == (&b.call_events, &b.entity, &b.booking)
}
