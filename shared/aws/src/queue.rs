//! The queues. The queue of events leads from ingress to the consumer, the dial queue from the scheduler to the dialer.
//! Both are FIFO queues. The queue of due calls is a standard queue from the scheduler to itself: it delays each message
//! until its call is due. The [repair queue](RepairWork) is a FIFO queue from the reconciler to itself.
//!
//! **In the queue of events the message group is the call, and the deduplication id is the event.** SQS accepts only
//! printable ASCII of up to 128 characters for both, so any other id is hashed. The ids themselves are in the body of
//! the message, which stays the same in a dead-letter queue. A message carries the normalized event without the
//! webhook's body, so the consumer need not read the inbox.

mod repair;

use std::fmt;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, MessageSystemAttributeName,
    QueueAttributeName, SendMessageBatchRequestEntry,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use switchhook_domain::{CallId, EventId, Place, Provider, ProviderEvent, Timestamp, TraceId};

use crate::error::Error;
use crate::inbox::WAITS_AFTER;

pub use repair::{RepairKind, RepairWork};

/// Schema version of a message's body.
pub const MESSAGE_SCHEMA: u32 = 1;
/// Longest group or deduplication id that SQS accepts.
const FIFO_ID_MAX: usize = 128;

/// Receives after which a queue that returned nothing counts as empty.
const EMPTY_RECEIVES_MAX: u32 = 3;

/// Codes with which SQS refuses the receipt of a message whose visibility timeout is over. A FIFO queue answers with the second.
const EXPIRED_RECEIPT: [&str; 3] = ["MessageNotInflight", "InvalidParameterValue", "ReceiptHandleIsInvalid"];

const BACKOFF_BASE: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);

/// Body of a message on the queue of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub schema_version: u32,
    /// Trace id of the request that brought the event, by which its log lines can be found.
    pub trace_id: String,
    pub event: ProviderEvent,
}

/// Body of a message on the dial queue, which carries claimed calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMessage {
    pub schema_version: u32,
    pub trace_id: String,
    pub call_id: CallId,
    /// Claim token. Its holder may dial the call once.
    pub token: String,
    /// Provider that is asked to place the call.
    pub provider: Provider,
    /// Time at which the call was due. `None` if somebody triggered it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Place of the claim in the dial rate. `None` for a probe: it is dialled at once, in the first lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Body of a message on the queue of due calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueMessage {
    pub schema_version: u32,
    pub work: DueWork,
}

/// Work for the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DueWork {
    /// This call is due.
    Call(CallId),
    /// Calls that wait for this provider may find a place, because others have ended or a pause is over.
    Provider(Provider),
}

/// Body of a message that ingress put on the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineNotice {
    pub schema_version: u32,
    pub trace_id: String,
    pub quarantined: EventId,
    pub reason: String,
}

/// Message that a queue delivered. `Debug` leaves out its body, which may hold a phone number.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub message_id: String,
    /// Handle by which this receive can delete the message or show it again.
    pub receipt: String,
    pub body: String,
    /// Time at which the message was sent to this queue.
    pub sent_at: Timestamp,
}

impl fmt::Debug for ReceivedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedMessage").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}

/// Stored event that an operator sends to the consumer again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAgain {
    pub event: ProviderEvent,
    pub trace_id: String,
    /// Names the run that sends the event. SQS drops an event that it accepted from the same run in the last 5 minutes, but not one
    /// that it accepted from ingress.
    pub run: String,
}

/// Client of one queue.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    url: String,
}

impl Queue {
    #[must_use]
    pub const fn new(client: Client, url: String) -> Self {
        Self { client, url }
    }

    /// Sends an event to the consumer, which folds it into its call. SQS drops an event that it accepted in the last 5
    /// minutes.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept it.
    pub async fn send(&self, event: &ProviderEvent, trace_id: &str) -> Result<(), Error> {
        let message = Message { schema_version: MESSAGE_SCHEMA, trace_id: trace_id.to_owned(), event: event.clone() };
        self.send_body(event.call_id.as_str(), event.event_id.as_str(), &message).await
    }

    /// Sends stored events to the consumer again, ten in a request. Events of one call are delivered in this order.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept all of them. A repetition is safe.
    pub async fn send_again(&self, events: &[SentAgain]) -> Result<(), Error> {
        for ten in events.chunks(10) {
            let mut entries = Vec::new();
            for SentAgain { event, trace_id, run } in ten {
                let message =
                    Message { schema_version: MESSAGE_SCHEMA, trace_id: trace_id.clone(), event: event.clone() };
                let entry = SendMessageBatchRequestEntry::builder()
                    .message_group_id(group_of(&event.call_id))
                    .message_deduplication_id(fifo_id(&format!("{run}:{}", event.event_id)));
                entries.push((entry, ascii_json(&message)));
            }
            self.send_batch(entries).await?;
        }
        Ok(())
    }

    /// Hands a claimed call to the dialer, in the message group of its lane. One dialer at a time works on a group.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept it. The claim then expires.
    pub async fn send_claim(&self, claim: &ClaimMessage) -> Result<(), Error> {
        let lane = claim.place.map_or(0, Place::lane);
        self.send_body(&format!("{}-{lane}", claim.provider), &claim.token, claim).await
    }

    /// Has work delivered to the scheduler, each after its delay. This queue must be a standard queue.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept all of them.
    pub async fn send_due(&self, works: &[(DueWork, Duration)]) -> Result<(), Error> {
        for ten in works.chunks(10) {
            let mut entries = Vec::new();
            for (work, delay) in ten {
                let message = DueMessage { schema_version: MESSAGE_SCHEMA, work: work.clone() };
                let entry = SendMessageBatchRequestEntry::builder()
                    // Rounded up, because a message that comes too early finds its call not due.
                    .delay_seconds(i32::try_from(delay.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX));
                entries.push((entry, ascii_json(&message)));
            }
            self.send_batch(entries).await?;
        }
        Ok(())
    }

    /// Sends up to ten messages, each with its body, in one request.
    async fn send_batch(
        &self,
        entries: Vec<(SendMessageBatchRequestEntryBuilder, Result<String, serde_json::Error>)>,
    ) -> Result<(), Error> {
        let mut request = self.client.send_message_batch().queue_url(&self.url);
        for (index, (entry, body)) in entries.into_iter().enumerate() {
            let body = body.map_err(|error| Error::Send(Box::new(error)))?;
            let entry = entry.id(index.to_string()).message_body(body).build();
            request = request.entries(entry.map_err(|error| Error::Send(Box::new(error)))?);
        }
        let answer = request.send().await.map_err(|error| Error::Send(Box::new(error)))?;
        match answer.failed.first() {
            Some(failed) => Err(Error::Send(failed.code().into())),
            None => Ok(()),
        }
    }

    /// Sends a notice about an unreadable event to this queue, which is a dead-letter queue.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept it.
    pub async fn send_quarantine_notice(&self, event_id: &EventId, reason: &str, trace_id: &str) -> Result<(), Error> {
        let notice = QuarantineNotice {
            schema_version: MESSAGE_SCHEMA,
            trace_id: trace_id.to_owned(),
            quarantined: event_id.clone(),
            reason: reason.to_owned(),
        };
        self.send_body(event_id.as_str(), event_id.as_str(), &notice).await
    }

    /// Opens the connection, so that the first event does not wait for it.
    pub async fn warm_up(&self) {
        drop(self.client.get_queue_attributes().queue_url(&self.url).send().await);
    }

    /// Approximate number of messages in the queue: those that wait, and those that are in flight or delayed by a
    /// retry.
    ///
    /// # Errors
    /// [`Error::ReadQueueDepth`].
    pub async fn depth(&self) -> Result<u64, Error> {
        self.sum_of(&[
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ])
        .await
    }

    /// Approximate number of messages that receivers hide at the moment.
    ///
    /// # Errors
    /// [`Error::ReadQueueDepth`].
    pub async fn in_flight(&self) -> Result<u64, Error> {
        self.sum_of(&[QueueAttributeName::ApproximateNumberOfMessagesNotVisible]).await
    }

    /// Sum of some attributes of the queue that are numbers.
    async fn sum_of(&self, names: &[QueueAttributeName]) -> Result<u64, Error> {
        let answer = self
            .client
            .get_queue_attributes()
            .queue_url(&self.url)
            .set_attribute_names(Some(names.to_vec()))
            .send()
            .await
            .map_err(|error| Error::ReadQueueDepth(Box::new(error)))?;
        let all = answer.attributes.unwrap_or_default();
        Ok(names.iter().filter_map(|name| all.get(name)?.parse::<u64>().ok()).sum())
    }

    /// Hides messages for a while, after which the queue delivers them again. `receipts` pairs each receipt handle with
    /// its delay. A message whose visibility timeout is over is delivered again anyway, so an expired receipt is no error.
    ///
    /// # Errors
    /// [`Error::ChangeVisibility`]. The queue then delivers the messages again after its own visibility timeout.
    pub async fn delay(&self, receipts: &[(String, Duration)]) -> Result<(), Error> {
        for ten in receipts.chunks(10) {
            let mut request = self.client.change_message_visibility_batch().queue_url(&self.url);
            for (index, (receipt, delay)) in ten.iter().enumerate() {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(receipt)
                    .visibility_timeout(i32::try_from(delay.as_secs()).unwrap_or(i32::MAX))
                    .build()
                    .map_err(|error| Error::ChangeVisibility(Box::new(error)))?;
                request = request.entries(entry);
            }
            let answer = request.send().await.map_err(|error| Error::ChangeVisibility(Box::new(error)))?;
            let is_expired = |code: &str| EXPIRED_RECEIPT.iter().any(|expired| code.ends_with(expired));
            if let Some(failed) = answer.failed.iter().find(|failed| !is_expired(failed.code())) {
                return Err(Error::ChangeVisibility(failed.code().into()));
            }
        }
        Ok(())
    }

    /// Receives up to ten messages, and hides them from other receivers for `hidden_for`. Empty if no message is visible now.
    ///
    /// If one message of a group is hidden, a FIFO queue returns no other message of that group. A receive asks only some of the servers
    /// of SQS, so an empty one is repeated. A long poll would ask all, and takes longer than a request may.
    ///
    /// # Errors
    /// [`Error::Receive`].
    pub async fn receive(&self, hidden_for: Duration) -> Result<Vec<ReceivedMessage>, Error> {
        for _ in 0..EMPTY_RECEIVES_MAX {
            let received = self.receive_once(hidden_for).await?;
            if !received.is_empty() {
                return Ok(received);
            }
        }
        Ok(Vec::new())
    }

    async fn receive_once(&self, hidden_for: Duration) -> Result<Vec<ReceivedMessage>, Error> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(10)
            .visibility_timeout(i32::try_from(hidden_for.as_secs()).unwrap_or(i32::MAX))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .send()
            .await
            .map_err(|error| Error::Receive(Box::new(error)))?;
        let received = answer.messages.unwrap_or_default().into_iter().filter_map(|message| {
            let sent = message.attributes.as_ref()?.get(&MessageSystemAttributeName::SentTimestamp)?.parse().ok()?;
            Some(ReceivedMessage {
                message_id: message.message_id?,
                receipt: message.receipt_handle?,
                body: message.body.unwrap_or_default(),
                sent_at: Timestamp::from_millis(sent),
            })
        });
        Ok(received.collect())
    }

    /// Deletes messages, by the receipt handles of their latest receives.
    ///
    /// # Errors
    /// [`Error::Delete`] if a message was not deleted. It returns when its visibility timeout ends.
    pub async fn delete(&self, receipts: &[String]) -> Result<(), Error> {
        for ten in receipts.chunks(10) {
            let mut request = self.client.delete_message_batch().queue_url(&self.url);
            for (index, receipt) in ten.iter().enumerate() {
                let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(receipt);
                request = request.entries(entry.build().map_err(|error| Error::Delete(Box::new(error)))?);
            }
            let answer = request.send().await.map_err(|error| Error::Delete(Box::new(error)))?;
            if let Some(failed) = answer.failed.first() {
                return Err(Error::Delete(failed.code().into()));
            }
        }
        Ok(())
    }

    async fn send_body(&self, group: &str, dedup: &str, body: &impl Serialize) -> Result<(), Error> {
        let body = ascii_json(body).map_err(|error| Error::Send(Box::new(error)))?;
        self.client
            .send_message()
            .queue_url(&self.url)
            .message_group_id(fifo_id(group))
            .message_deduplication_id(fifo_id(dedup))
            .message_body(body)
            .send()
            .await
            .map_err(|error| Error::Send(Box::new(error)))?;
        Ok(())
    }
}

impl Message {
    /// Reads the body of a message from the queue.
    ///
    /// # Errors
    /// [`Error::NewerSchema`] if a newer program sent it, [`Error::DecodeMessage`] if Switchhook did not.
    pub fn decode(body: &str) -> Result<Self, Error> {
        let mut message: Self = decode(body)?;
        message.event.trace_id = TraceId::new(&message.trace_id);
        Ok(message)
    }
}

/// Reads the body of a message. A [`Message`] is read by [`Message::decode`], which restores the trace id of the event too.
///
/// # Errors
/// The same as [`Message::decode`].
pub fn decode<T: DeserializeOwned>(body: &str) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    // Only the position of a parse error is reported: the text around it may be a phone number.
    let unreadable = |error: serde_json::Error| {
        Error::DecodeMessage(format!("unreadable at line {} column {}", error.line(), error.column()))
    };
    let Version { schema_version } = serde_json::from_str(body).map_err(unreadable)?;
    if schema_version > MESSAGE_SCHEMA {
        return Err(Error::NewerSchema(schema_version));
    }
    serde_json::from_str(body).map_err(unreadable)
}

/// Returns the message group of a call.
#[must_use]
pub fn group_of(call_id: &CallId) -> String {
    fifo_id(call_id.as_str())
}

/// Returns the delay before a message that was received `receives` times is delivered again. It is drawn at random
/// between half of an exponential cap and the whole cap. Messages that failed together therefore do not come back
/// together.
///
/// Full jitter (from zero to the cap) would be too short. After an outage of one hour, one message in 22 would have
/// drawn 19 delays of less than an hour in all, and would reach the dead-letter queue. The halves alone add up to 83
/// minutes.
#[must_use]
pub fn backoff(receives: u32) -> Duration {
    let cap = backoff_cap(receives).as_secs();
    Duration::from_secs(fastrand::u64(cap / 2..=cap))
}

/// Returns the mean time from the first receipt of a failing event of a call until it [waits in the inbox](WAITS_AFTER). In this time its message
/// is in flight.
#[must_use]
pub fn failing_time() -> Duration {
    let delays = (1..=u32::MAX).map(mean_backoff);
    let times = delays.scan(Duration::ZERO, |time, delay| {
        *time += delay;
        Some(*time)
    });
    times.into_iter().find(|time| *time >= WAITS_AFTER).unwrap_or_default()
}

fn mean_backoff(receives: u32) -> Duration {
    backoff_cap(receives) * 3 / 4
}

fn backoff_cap(receives: u32) -> Duration {
    BACKOFF_BASE.saturating_mul(1 << receives.saturating_sub(1).min(16)).min(BACKOFF_MAX)
}

fn fifo_id(id: &str) -> String {
    if id.len() <= FIFO_ID_MAX && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        id.to_owned()
    } else {
        format!("sha256-{}", hex::encode(Sha256::digest(id)))
    }
}

/// Returns the JSON of a value in ASCII. SQS rejects some characters that JSON allows.
fn ascii_json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    if text.is_ascii() {
        return Ok(text);
    }
    // Outside of strings JSON is ASCII. Inside of strings every other character may be escaped.
    let mut ascii = String::with_capacity(text.len() * 2);
    for char in text.chars() {
        if char.is_ascii() {
            ascii.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    Ok(ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_are_hashed_when_sqs_would_refuse_them() {
        assert_eq!(fifo_id("retell:call_1"), "retell:call_1");
        assert_eq!(fifo_id("appointment:Zoë").len(), "sha256-".len() + 64);
        assert_eq!(fifo_id("two words").len(), "sha256-".len() + 64);
        assert_eq!(fifo_id(&"a".repeat(129)).len(), "sha256-".len() + 64);
    }

    #[test]
    fn backoff_stays_between_half_its_cap_and_its_cap() {
        assert_eq!([1, 2, 9, 10, 40].map(|receives| backoff_cap(receives).as_secs()), [2, 4, 512, 900, 900]);
        for receives in 0..40 {
            let cap = backoff_cap(receives);
            for _ in 0..50 {
                let delay = backoff(receives);
                assert!(cap / 2 <= delay && delay <= cap, "{delay:?} after {receives} receives");
            }
        }
    }

    #[test]
    fn failing_message_leaves_the_queue_within_minutes() {
        assert_eq!(failing_time().as_secs_f64(), 190.5, "0.75 times 2, 4, … 128 s");
    }

    /// Only a message whose event cannot wait in the inbox, or is about an entity, stays in the queue for so long.
    #[test]
    fn backoff_outlives_an_outage_of_an_hour() {
        let max_receive_count = 20;
        let shortest: Duration = (1..max_receive_count).map(|receives| backoff_cap(receives) / 2).sum();
        assert!(shortest > Duration::from_secs(60 * 60), "{shortest:?}");
    }

    #[test]
    fn body_is_ascii_and_reads_back() {
        let text = "Zoë \u{1F4DE} \u{FFFE} \u{0}";
        let ascii = ascii_json(&text).unwrap();
        assert!(ascii.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        assert_eq!(serde_json::from_str::<String>(&ascii).unwrap(), text);
    }

    #[test]
    fn newer_message_waits_and_a_garbled_one_does_not_leak() {
        assert!(matches!(Message::decode("{\"schema_version\":2,\"x\":1}"), Err(Error::NewerSchema(2))));
        let error = Message::decode("{\"schema_version\":1,\"to\":\"+15550100\"}").unwrap_err().to_string();
        assert!(!error.contains("+15550100"), "{error}");
    }
}
