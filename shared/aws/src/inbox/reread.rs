//! Reading stored events again: by the rules of this program, and by what ingress found with the configuration of the provider.
//!
//! **A meaning that ingress found in a body never changes.** Ingress reads the webhooks of a configured provider by a mapping, and looks
//! for the person's decision by a rule. Both may change, and no other function has them. So the result is stored beside the body.
//! Only if ingress found nothing, an operator may have the body read by the configuration of today.

use switchhook_domain::{
    Disposition, Entity, EntityFate, EntityPosition, EventId, Origin, Provider, ProviderEvent, TraceId,
};
use switchhook_providers::{
    ReadError, Reading, UserDecision, VerifiedWebhook, WebhookConfig, can_decide, decided_as_configured, read,
    read_as_configured,
};

use super::event::{BODY_BYTES_MAX, StoredBody, StoredEvent};
use super::table::Inbox;
use crate::compression;
use crate::error::Error;

/// Result of reading a stored event again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reread {
    Foldable(Box<ProviderEvent>),
    /// This version of the program folds no event of its type.
    Recorded,
    /// This version of the program cannot read it either.
    Quarantined(ReadError),
    /// The event is erased, and no call event was read from it before.
    Erased,
}

/// Results that the configuration of today finds in a body in which ingress found nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Event that the mapping of a configured provider reads.
    pub(super) reading: Option<ProviderEvent>,
    /// The person's decision, by the rule of any other provider.
    pub(super) decision: Option<UserDecision>,
}

impl Inbox {
    /// Reads the event with this id, and renormalizes it as [`Inbox::renormalize`] does. `None` also if there is no
    /// such event.
    ///
    /// # Errors
    /// The same as [`Inbox::get`] and [`Inbox::renormalize`].
    pub async fn get_normalized(&self, event_id: &EventId) -> Result<Option<ProviderEvent>, Error> {
        match self.get(event_id).await? {
            Some(stored) => self.renormalize(&stored).await,
            None => Ok(None),
        }
    }

    /// Reads the body of a stored event again, by the rules that this program has for its provider. `None` if the event
    /// is not to be folded.
    ///
    /// # Errors
    /// [`Error::ReadInbox`], [`Error::DecodeInbox`], [`Error::NewerSchema`].
    pub async fn renormalize(&self, stored: &StoredEvent) -> Result<Option<ProviderEvent>, Error> {
        if stored.disposition.is_some() {
            return Ok(None);
        }
        Ok(match self.read_again(stored, None).await? {
            Reread::Foldable(event) => Some(*event),
            Reread::Recorded | Reread::Quarantined(_) | Reread::Erased => None,
        })
    }

    /// Returns what the row of its entity says about a stored event.
    ///
    /// # Errors
    /// The same as [`Inbox::renormalize`].
    pub async fn fate_in(&self, entity: &Entity, stored: &StoredEvent) -> Result<EntityFate, Error> {
        let event = self.renormalize(stored).await?;
        let position = event.as_ref().and_then(EntityPosition::of);
        Ok(position.map_or(EntityFate::NotFolded, |position| entity.fate(&position)))
    }

    /// Reads the body of a stored event again, whatever its disposition. The event keeps the id under which it is stored.
    ///
    /// `config` is the entry that the event's provider has now. It is used only where
    /// [ingress found nothing](StoredEvent::provider_to_ask). Without it, such an event stays as it is.
    ///
    /// # Errors
    /// The same as [`Inbox::renormalize`].
    pub async fn read_again(&self, stored: &StoredEvent, config: Option<&WebhookConfig>) -> Result<Reread, Error> {
        Ok(self.find_again(stored, config).await?.0)
    }

    /// Does the same as [`Inbox::read_again`], and returns what `config` found too.
    pub(super) async fn find_again(
        &self,
        stored: &StoredEvent,
        config: Option<&WebhookConfig>,
    ) -> Result<(Reread, Findings), Error> {
        let config = config.filter(|_| stored.provider_to_ask().is_some());
        let nothing = Findings::default();
        // A record of Switchhook itself, such as the request that created a call, is no event of a call.
        if stored.origin == Origin::Switchhook && stored.disposition == Some(Disposition::Recorded) {
            return Ok((Reread::Recorded, nothing));
        }
        if matches!(stored.body, StoredBody::Erased) {
            return Ok((Reread::Erased, nothing));
        }
        let is_mapped = stored.is_mapped();
        if is_mapped && config.is_none() {
            return Ok((stored.reading()?, nothing));
        }
        let body = self.read_body(stored).await?;
        let provider = match (stored.origin, stored.erased_at) {
            (Origin::Provider(provider), None) if !stored.is_from_row => provider,
            // The body is the event itself.
            (Origin::Switchhook | Origin::Provider(_), _) => {
                let event: ProviderEvent = serde_json::from_slice(&body).map_err(|_| Error::DecodeInbox("the body"))?;
                let trace_id = TraceId::new(&stored.trace_id);
                return Ok((Reread::Foldable(Box::new(ProviderEvent { trace_id, ..event })), nothing));
            }
        };
        let webhook = VerifiedWebhook::from_inbox(provider, stored.query.clone(), body, stored.key_index);
        let webhook = webhook.with_decision(stored.decision);
        let (reading, decision) = match config {
            None => (read(&webhook, stored.received_at), None),
            Some(config) => {
                let webhook = decided_as_configured(config, webhook);
                (read_as_configured(config, &webhook, stored.received_at).0, webhook.decision())
            }
        };
        let event = match reading {
            Reading::Event(event) => stored.event_of(event),
            Reading::Recorded { .. } => return Ok((Reread::Recorded, nothing)),
            Reading::Quarantined { error, .. } => return Ok((Reread::Quarantined(error), nothing)),
        };
        let findings = Findings { reading: is_mapped.then(|| event.clone()), decision };
        Ok((Reread::Foldable(Box::new(event)), findings))
    }
}

impl StoredEvent {
    /// Returns the event's provider if its configuration of today may give the event a meaning. Ingress found no meaning by the mapping of
    /// that time, or no decision by the rule of that time.
    #[must_use]
    pub fn provider_to_ask(&self) -> Option<Provider> {
        let Origin::Provider(provider) = self.origin else { return None };
        let is_undecided =
            can_decide(provider) && self.decision.is_none() && self.erased_at.is_none() && !self.is_from_row;
        Some(provider).filter(|_| is_undecided || self.lacks_reading())
    }

    /// True if the mapping of the event's provider gave it no meaning when it was stored: it had no rule, or found no call.
    pub(super) fn lacks_reading(&self) -> bool {
        self.is_mapped()
            && matches!(self.disposition, Some(Disposition::Recorded | Disposition::Quarantined))
            && self.reading.is_none()
    }

    /// True if the event is a webhook that a mapping of the configuration reads, and not this program.
    fn is_mapped(&self) -> bool {
        let is_configured = matches!(self.origin, Origin::Provider(provider) if provider.is_configured());
        is_configured && self.erased_at.is_none() && !self.is_from_row
    }

    /// Returns the event that ingress read from the body.
    fn reading(&self) -> Result<Reread, Error> {
        let Some(reading) = &self.reading else {
            return Ok(match self.disposition {
                Some(Disposition::Quarantined) => Reread::Quarantined(ReadError::UnknownMapping),
                Some(
                    Disposition::Applied
                    | Disposition::Parked
                    | Disposition::Refused
                    | Disposition::Stale
                    | Disposition::Duplicate
                    | Disposition::Recorded,
                )
                | None => Reread::Recorded,
            });
        };
        let json = compression::decompress(reading, self.dictionary, BODY_BYTES_MAX)?;
        let event: ProviderEvent = serde_json::from_slice(&json).map_err(|_| Error::DecodeInbox("the reading"))?;
        Ok(Reread::Foldable(Box::new(ProviderEvent { trace_id: TraceId::new(&self.trace_id), ..event })))
    }

    /// Gives an event that was read from the body the id that is stored. The id of an event that was unreadable at first is a hash of
    /// its body.
    fn event_of(&self, event: ProviderEvent) -> ProviderEvent {
        let trace_id = TraceId::new(&self.trace_id);
        let event = ProviderEvent { event_id: self.event_id.clone(), trace_id, ..event };
        if !self.from_lookup {
            return event;
        }
        // The answer to a lookup is about the attempt that was looked up, whatever ids the provider echoes.
        ProviderEvent {
            call_id: self.call_id.clone().unwrap_or(event.call_id),
            attempt: self.lookup_attempt.clone().or(event.attempt),
            ..event
        }
    }
}
