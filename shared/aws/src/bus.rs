//! The event bus on which subscribers put their rules.

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use serde::Serialize;
use switchhook_domain::{
    DomainEvent, OperatorAction, OperatorAttention, ProviderAvailability, Timestamp, WebhookQuarantined,
    WebhookReceived,
};

use crate::error::Error;

/// Largest number of events in one request.
pub const BATCH_MAX: usize = 10;
/// Variable in which the Lambda runtime puts the X-Ray trace of an invocation. EventBridge hands it to the subscribers.
const TRACE_HEADER: &str = "_X_AMZN_TRACE_ID";
/// Source of every event. Subscribers' rules match it.
pub const SOURCE: &str = "switchhook";

/// Domain event that a committed write carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OutboxEvent {
    OfCall(Box<DomainEvent>),
    OfProvider(ProviderAvailability),
    OfEntity(WebhookReceived),
}

impl OutboxEvent {
    /// Type of the event, which is also the `detail-type` on the bus.
    #[must_use]
    pub fn event_type(&self) -> &str {
        match self {
            Self::OfCall(event) => &event.event_type,
            Self::OfProvider(event) => &event.event_type,
            Self::OfEntity(event) => event.event_type,
        }
    }

    /// Trace id of the request that caused the event. `None` if it is not known.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        match self {
            Self::OfCall(event) => event.trace_id.as_deref(),
            Self::OfEntity(event) => event.trace_id.as_deref(),
            Self::OfProvider(_) => None,
        }
    }

    fn occurred_at(&self) -> &str {
        match self {
            Self::OfCall(event) => &event.occurred_at,
            Self::OfProvider(event) => &event.occurred_at,
            Self::OfEntity(event) => &event.occurred_at,
        }
    }
}

impl From<DomainEvent> for OutboxEvent {
    fn from(event: DomainEvent) -> Self {
        Self::OfCall(Box::new(event))
    }
}

/// Client of one event bus.
#[derive(Clone, Debug)]
pub struct Bus {
    client: Client,
    name: String,
}

impl Bus {
    #[must_use]
    pub const fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Opens the connection, so that the first event does not wait for it.
    pub async fn warm_up(&self) {
        drop(self.client.describe_event_bus().name(&self.name).send().await);
    }

    /// Publishes up to [`BATCH_MAX`] events in one request. Returns the index and the error code of each event that the
    /// bus rejected.
    ///
    /// # Errors
    /// [`Error::Publish`] if the whole request failed.
    pub async fn publish<'a>(
        &self,
        events: impl IntoIterator<Item = &'a OutboxEvent>,
    ) -> Result<Vec<(usize, String)>, Error> {
        let mut request = self.client.put_events();
        for event in events {
            request = request.entries(self.entry(event.event_type(), event.occurred_at(), event)?);
        }
        let answer = request.send().await.map_err(|error| Error::Publish(Box::new(error)))?;
        let entries = answer.entries.unwrap_or_default().into_iter().enumerate();
        Ok(entries.filter_map(|(index, entry)| entry.error_code.map(|code| (index, code))).collect())
    }

    /// Publishes a `webhook.quarantined` event.
    ///
    /// # Errors
    /// [`Error::Publish`], [`Error::PublishRefused`].
    pub async fn publish_quarantined(&self, event: &WebhookQuarantined) -> Result<(), Error> {
        self.publish_one(event.event_type, &event.occurred_at, event).await
    }

    /// Publishes an `operator.action` event.
    ///
    /// # Errors
    /// [`Error::Publish`], [`Error::PublishRefused`].
    pub async fn publish_operator_action(&self, event: &OperatorAction) -> Result<(), Error> {
        self.publish_one(event.event_type, &event.occurred_at, event).await
    }

    /// Publishes an `operator.attention` event.
    ///
    /// # Errors
    /// [`Error::Publish`], [`Error::PublishRefused`].
    pub async fn publish_attention(&self, event: &OperatorAttention) -> Result<(), Error> {
        self.publish_one(event.event_type, &event.occurred_at, event).await
    }

    async fn publish_one(&self, event_type: &str, occurred_at: &str, event: &impl Serialize) -> Result<(), Error> {
        let answer = self.client.put_events().entries(self.entry(event_type, occurred_at, event)?).send().await;
        let answer = answer.map_err(|error| Error::Publish(Box::new(error)))?;
        match answer.entries.unwrap_or_default().into_iter().find_map(|entry| entry.error_code) {
            Some(code) => Err(Error::PublishRefused(code)),
            None => Ok(()),
        }
    }

    fn entry(
        &self,
        event_type: &str,
        occurred_at: &str,
        event: &impl Serialize,
    ) -> Result<PutEventsRequestEntry, Error> {
        let detail = serde_json::to_string(event).map_err(|error| Error::Publish(Box::new(error)))?;
        let time = Timestamp::parse_rfc3339(occurred_at);
        Ok(PutEventsRequestEntry::builder()
            .event_bus_name(&self.name)
            .source(SOURCE)
            .detail_type(event_type)
            .set_time(time.map(|time| DateTime::from_millis(time.as_millis())))
            .detail(detail)
            .set_trace_header(std::env::var(TRACE_HEADER).ok().filter(|header| !header.is_empty()))
            .build())
    }
}
