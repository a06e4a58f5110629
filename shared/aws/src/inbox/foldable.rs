//! Recorded and quarantined events that become foldable, because their meaning is known since.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::ProviderEvent;
use switchhook_providers::{UserDecision, WebhookConfig, replaced_booking};

use super::event::{StoredEvent, compressed_reading};
use super::new_event::NewEvent;
use super::reread::{Findings, Reread};
use super::table::Inbox;
use crate::dynamodb::{ConditionalWrite, number, text};
use crate::error::Error;

impl Inbox {
    /// Makes a recorded or quarantined event foldable, if this version of the program can fold it. `config` is the entry that its
    /// provider has now, by which it may be read too. The stored item loses its disposition, and gets its call, its type, and the result
    /// of `config`. The body and the id stay. So the sweep, the refold and the drift check treat it like any other event. The caller
    /// must then queue it, and take its mark away only after that: until then, the mark keeps it on the list of quarantined events.
    ///
    /// An event that is foldable already gets only the decision that `config` found. The caller must then have its call folded again.
    ///
    /// # Errors
    /// The same as [`Inbox::renormalize`], and [`Error::WriteInbox`]. A repetition is safe.
    pub async fn make_foldable(&self, stored: &StoredEvent, config: Option<&WebhookConfig>) -> Result<Reread, Error> {
        let (reread, findings) = self.find_again(stored, config).await?;
        let Reread::Foldable(event) = &reread else { return Ok(reread) };
        let is_written = match (stored.disposition, findings.decision) {
            (Some(_), _) => self.clear_disposition(stored, event, &findings).await?,
            (None, Some(decision)) => self.keep_decision(stored, decision).await?,
            (None, None) => true,
        };
        if is_written {
            return Ok(reread);
        }
        // Somebody else was faster, or the event is deleted. The stored meaning counts.
        match self.get(&stored.event_id).await? {
            Some(stored) => self.read_again(&stored, None).await,
            None => Ok(reread),
        }
    }

    /// Makes an event foldable that was recorded because its provider's mapping had no rule for it, with the reading of a later
    /// delivery. Returns false if that is not possible: another delivery was faster, or the event is deleted or was compressed by a
    /// newer program.
    ///
    /// # Errors
    /// [`Error::WriteInbox`]. A repetition is safe.
    pub(super) async fn adopt_reading(&self, stored: &StoredEvent, event: &ProviderEvent) -> Result<bool, Error> {
        let findings = Findings { reading: Some(event.clone()), decision: None };
        self.clear_disposition(stored, event, &findings).await
    }

    /// Removes the disposition of a stored event, and sets its call, its type and the findings. Returns false if the event has no
    /// disposition any more, or if a newer program compressed it with a dictionary that this one does not have.
    async fn clear_disposition(
        &self,
        stored: &StoredEvent,
        event: &ProviderEvent,
        Findings { reading, decision }: &Findings,
    ) -> Result<bool, Error> {
        let reading = match reading {
            Some(reading) => {
                let Some(reading) = compressed_reading(reading, stored.dictionary)? else { return Ok(false) };
                Some(reading)
            }
            None => None,
        };
        let bucket = self.received_bucket(Some(&event.call_id), &event.event_id, stored.received_at);
        let occurred_at = event.occurred_at();
        let mut update = "SET call_id = :call, #type = :type, received_bucket = :bucket".to_owned();
        if occurred_at.is_some() {
            update.push_str(", occurred_at = :occurred");
        }
        if reading.is_some() {
            update.push_str(", reading = :reading");
        }
        if decision.is_some() {
            update.push_str(", decision = :decision");
        }
        update.push_str(" REMOVE disposition");
        let mut condition = "attribute_exists(event_id) AND attribute_exists(disposition)".to_owned();
        // The call, the type and the reading come from the body. If the person was forgotten since, they must not come back.
        if stored.erased_at.is_none() {
            condition.push_str(" AND attribute_not_exists(erased_at)");
        }
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(stored.event_id.as_str()))
            .condition_expression(condition)
            .update_expression(update)
            .expression_attribute_names("#type", "type")
            .expression_attribute_values(":call", text(event.call_id.as_str()))
            .expression_attribute_values(":type", text(&event.event_type))
            .expression_attribute_values(":bucket", text(&bucket));
        let request = match occurred_at {
            Some(at) => request.expression_attribute_values(":occurred", number(at.as_millis())),
            None => request,
        };
        let request = match reading {
            Some(reading) => request.expression_attribute_values(":reading", AttributeValue::B(reading.into())),
            None => request,
        };
        let request = match decision {
            Some(decision) => request.expression_attribute_values(":decision", text(decision.as_str())),
            None => request,
        };
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)? {
            ConditionalWrite::Applied(_) => Ok(true),
            ConditionalWrite::Refused(_) => Ok(false),
        }
    }

    /// Stores the person's decision beside the body of an event that has none. Returns false if it has one by now, or is erased or
    /// deleted.
    async fn keep_decision(&self, stored: &StoredEvent, decision: UserDecision) -> Result<bool, Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("event_id", text(stored.event_id.as_str()))
            .condition_expression(
                "attribute_exists(event_id) AND attribute_not_exists(decision) AND attribute_not_exists(erased_at)",
            )
            .update_expression("SET decision = :decision")
            .expression_attribute_values(":decision", text(decision.as_str()));
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteInbox)? {
            ConditionalWrite::Applied(_) => Ok(true),
            ConditionalWrite::Refused(_) => Ok(false),
        }
    }
}

impl NewEvent {
    /// Event that calls off the booking that `event` replaces, for the inbox. It must be stored before `event`. `None` if `event`
    /// replaces no booking.
    #[must_use]
    pub fn of_replaced_booking(
        event: &ProviderEvent,
        key_index: usize,
        trace_id: &str,
    ) -> Option<(Self, ProviderEvent)> {
        let replaced = replaced_booking(event)?;
        let new_event = Self {
            event_id: replaced.event_id.clone(),
            call_id: Some(replaced.call_id.clone()),
            origin: replaced.origin,
            event_type: replaced.event_type.clone(),
            occurred_at: replaced.occurred_at(),
            received_at: replaced.received_at,
            // The body stands in the event that was received, with its query and headers.
            query: String::new(),
            body: Vec::new(),
            key_index,
            headers: BTreeMap::new(),
            disposition: None,
            reading: Some(replaced.clone()),
            decision: None,
            cause: None,
            trace_id: trace_id.to_owned(),
        };
        Some((new_event, replaced))
    }
}
