//! The operations of the SQS JSON protocol.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Sqs;
use super::format::{md5_hex, md5_of_attributes, queue_arn, sequence_number, system_attributes};
use super::rejection::Rejection;
use super::request::{
    Batch, DeleteEntry, DeleteMessage, Entry, GetQueueAttributes, Operation, QueueRequest, ReceiveMessage, SendEntry,
    SendMessage, SentMessage, VisibilityEntry,
};
use crate::queue::{
    BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX, RECEIVE_MESSAGES_MAX, ReceivedMessage, SendOutcome, message_id,
};
use crate::response::ServiceResponse;

/// Longest wait of a receive that SQS allows.
const WAIT_SECONDS_MAX: u64 = 20;
/// Maximum length of the id of a batch entry.
const ENTRY_ID_CHARS_MAX: usize = 80;

impl Sqs {
    /// Answers a request of the SDK.
    pub(crate) async fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        let Some(operation) = Operation::parse(operation) else {
            return ServiceResponse::unknown_operation(operation);
        };
        match self.perform(operation, body).await {
            Ok(answer) => ServiceResponse::ok(&answer),
            Err(error) => error.into_response(),
        }
    }

    async fn perform(&self, operation: Operation, body: &[u8]) -> Result<Value, Rejection> {
        match operation {
            Operation::SendMessage => {
                let request: SendMessage = read(body)?;
                Ok(Value::Object(self.send_one(&request.queue_url, request.message)?))
            }
            Operation::SendMessageBatch => self.send_batch(read(body)?),
            Operation::ReceiveMessage => self.receive_messages(read(body)?).await,
            Operation::DeleteMessage => {
                let request: DeleteMessage = read(body)?;
                self.delete(queue_name(&request.queue_url), &request.receipt_handle)?;
                Ok(json!({}))
            }
            Operation::DeleteMessageBatch => {
                let request: Batch<DeleteEntry> = read(body)?;
                let queue = queue_name(&request.queue_url).to_owned();
                self.perform_batch(request, |entry| {
                    self.delete(&queue, &entry.receipt_handle)?;
                    Ok(Map::new())
                })
            }
            Operation::ChangeMessageVisibilityBatch => {
                let request: Batch<VisibilityEntry> = read(body)?;
                let queue = queue_name(&request.queue_url).to_owned();
                self.perform_batch(request, |entry| {
                    self.change_visibility(&queue, &entry.receipt_handle, entry.visibility_timeout * 1_000)?;
                    Ok(Map::new())
                })
            }
            Operation::GetQueueAttributes => self.queue_attributes(read(body)?),
            Operation::PurgeQueue => {
                let request: QueueRequest = read(body)?;
                self.purge(queue_name(&request.queue_url))?;
                Ok(json!({}))
            }
        }
    }

    fn send_one(&self, queue_url: &str, message: SentMessage) -> Result<Map<String, Value>, Rejection> {
        let queue = queue_name(queue_url);
        let new = message.into_new();
        let body_digest = md5_hex(new.body.as_bytes());
        let attributes_digest = md5_of_attributes(&new.attributes);
        let fifo = new.deduplication_id.is_some();
        let (number, sequence) = match self.send(queue, new)? {
            SendOutcome::Queued(message) => (message.number, message.sequence),
            SendOutcome::Duplicate { number, sequence } => (number, sequence),
        };

        let mut answer = Map::new();
        answer.insert("MessageId".to_owned(), json!(message_id(number)));
        answer.insert("MD5OfMessageBody".to_owned(), json!(body_digest));
        if let Some(digest) = attributes_digest {
            answer.insert("MD5OfMessageAttributes".to_owned(), json!(digest));
        }
        if fifo {
            answer.insert("SequenceNumber".to_owned(), json!(sequence_number(sequence)));
        }
        Ok(answer)
    }

    fn send_batch(&self, request: Batch<SendEntry>) -> Result<Value, Rejection> {
        let bytes: usize = request.entries.iter().map(|entry| entry.message.bytes()).sum();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Rejection::BatchTooLong);
        }
        let queue_url = request.queue_url.clone();
        self.perform_batch(request, |entry| self.send_one(&queue_url, entry.message))
    }

    /// Performs a batch. Each entry succeeds or fails by itself.
    fn perform_batch<E: Entry>(
        &self,
        request: Batch<E>,
        mut perform: impl FnMut(E) -> Result<Map<String, Value>, Rejection>,
    ) -> Result<Value, Rejection> {
        self.watch(queue_name(&request.queue_url))?;
        check_entry_ids(&request.entries)?;
        let mut successful = Vec::new();
        let mut failed = Vec::new();
        for entry in request.entries {
            let id = entry.id().to_owned();
            match perform(entry) {
                Ok(mut answer) => {
                    answer.insert("Id".to_owned(), json!(id));
                    successful.push(Value::Object(answer));
                }
                Err(rejection) => failed.push(json!({
                    "Id": id,
                    "Code": rejection.code(),
                    "Message": rejection.message(),
                    "SenderFault": rejection.is_sender_fault(),
                })),
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }))
    }

    async fn receive_messages(&self, request: ReceiveMessage) -> Result<Value, Rejection> {
        let messages_max = request.max_number_of_messages.unwrap_or(1);
        if !(1..=RECEIVE_MESSAGES_MAX).contains(&messages_max) {
            return Err(Rejection::Parameter(
                "Value for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
            ));
        }
        let wait_seconds = request.wait_time_seconds.unwrap_or(0);
        if wait_seconds > WAIT_SECONDS_MAX {
            return Err(Rejection::Parameter(
                "Value for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
            ));
        }
        let timeout_ms = request.visibility_timeout.map(|seconds| seconds * 1_000);
        let queue = queue_name(&request.queue_url);
        let received = self.long_poll(queue, messages_max, timeout_ms, wait_seconds * 1_000).await?;

        let mut answer = Map::new();
        if !received.is_empty() {
            let messages: Vec<Value> = received.iter().map(|received| message_json(&request, received)).collect();
            answer.insert("Messages".to_owned(), Value::Array(messages));
        }
        Ok(Value::Object(answer))
    }

    fn queue_attributes(&self, request: GetQueueAttributes) -> Result<Value, Rejection> {
        let queue = queue_name(&request.queue_url);
        let depth = self.depth(queue)?;
        let settings = self.settings(queue)?;
        let mut attributes = BTreeMap::from([
            ("QueueArn", queue_arn(queue)),
            ("ApproximateNumberOfMessages", depth.visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", depth.in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", "0".to_owned()),
            ("VisibilityTimeout", (settings.visibility_timeout_ms / 1_000).to_string()),
            ("MaximumMessageSize", MESSAGE_BYTES_MAX.to_string()),
        ]);
        if settings.fifo {
            attributes.insert("FifoQueue", "true".to_owned());
            attributes.insert("ContentBasedDeduplication", "false".to_owned());
            attributes.insert("DeduplicationScope", "messageGroup".to_owned());
            attributes.insert("FifoThroughputLimit", "perMessageGroupId".to_owned());
        }
        if let Some(redrive) = &settings.redrive_policy {
            let policy = json!({
                "deadLetterTargetArn": queue_arn(&redrive.dead_letter_queue),
                "maxReceiveCount": redrive.max_receive_count,
            });
            attributes.insert("RedrivePolicy", policy.to_string());
        }
        attributes.retain(|name, _| is_requested(&request.attribute_names, name));
        Ok(json!({ "Attributes": attributes }))
    }
}

/// Returns a received message with the attributes that the request asked for.
fn message_json(request: &ReceiveMessage, received: &ReceivedMessage) -> Value {
    let message = &received.message;
    let mut json = json!({
        "MessageId": message.id(),
        "ReceiptHandle": received.receipt_handle,
        "MD5OfBody": md5_hex(message.body.as_bytes()),
        "Body": message.body,
    });
    let Value::Object(fields) = &mut json else { return json };

    let mut system = system_attributes(message);
    system.retain(|name, _| {
        is_requested(&request.attribute_names, name) || is_requested(&request.message_system_attribute_names, name)
    });
    if !system.is_empty() {
        fields.insert("Attributes".to_owned(), json!(system));
    }

    let mut attributes = message.attributes.clone();
    attributes.retain(|name, _| is_requested(&request.message_attribute_names, name));
    if let Some(digest) = md5_of_attributes(&attributes) {
        fields.insert("MD5OfMessageAttributes".to_owned(), json!(digest));
        fields.insert("MessageAttributes".to_owned(), json!(attributes));
    }
    json
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Rejection> {
    serde_json::from_slice(body).map_err(Rejection::Malformed)
}

fn check_entry_ids<E: Entry>(entries: &[E]) -> Result<(), Rejection> {
    if entries.is_empty() {
        return Err(Rejection::EmptyBatch);
    }
    if entries.len() > BATCH_ENTRIES_MAX {
        return Err(Rejection::TooManyEntries);
    }
    let is_id = |id: &str| {
        (1..=ENTRY_ID_CHARS_MAX).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if !entries.iter().all(|entry| is_id(entry.id())) {
        return Err(Rejection::InvalidEntryId);
    }
    let distinct: BTreeSet<&str> = entries.iter().map(Entry::id).collect();
    if distinct.len() < entries.len() {
        return Err(Rejection::EntryIdsNotDistinct);
    }
    Ok(())
}

fn is_requested(names: &[String], name: &str) -> bool {
    names.iter().any(|requested| requested == name || requested == "All" || requested == ".*")
}

fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}
