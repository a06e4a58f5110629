//! Requests, answers and errors of SQS in its JSON protocol.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{QueueError, Sqs, md5_hex, queue_arn, queue_url, sequence_number, system_attributes};
use crate::queue::{
    BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX, MessageAttribute, NewMessage, RECEIVE_MESSAGES_MAX, ReceiptHandleError,
    ReceivedMessage, SendError, SendOutcome, message_id,
};
use crate::wire::ServiceResponse;

/// The most that SQS lets a receive wait.
const WAIT_SECONDS_MAX: u64 = 20;

/// What a batch entry's id may have.
const ENTRY_ID_CHARS_MAX: usize = 80;

const TRACE_HEADER: &str = "AWSTraceHeader";

impl Sqs {
    pub(crate) async fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        let Some(operation) = Operation::parse(operation) else {
            return ServiceResponse::unknown_operation(operation);
        };
        match self.perform(operation, body).await {
            Ok(answer) => ServiceResponse::ok(&answer),
            Err(error) => error.into_response(),
        }
    }

    async fn perform(&self, operation: Operation, body: &[u8]) -> Result<Value, Refusal> {
        match operation {
            Operation::SendMessage => {
                let request: SendMessage = read(body)?;
                Ok(Value::Object(self.send_one(&request.queue_url, request.message)?))
            }
            Operation::SendMessageBatch => self.send_batch(read(body)?),
            Operation::ReceiveMessage => self.receive_messages(read(body)?).await,
            Operation::DeleteMessage => {
                let request: DeleteMessage = read(body)?;
                self.delete(queue_of(&request.queue_url), &request.receipt_handle)?;
                Ok(json!({}))
            }
            Operation::DeleteMessageBatch => {
                let request: Batch<DeleteEntry> = read(body)?;
                let queue = queue_of(&request.queue_url).to_owned();
                self.each(request, |entry| {
                    self.delete(&queue, &entry.receipt_handle)?;
                    Ok(Map::new())
                })
            }
            Operation::ChangeMessageVisibility => {
                let request: ChangeVisibility = read(body)?;
                let timeout_ms = request.visibility_timeout * 1_000;
                self.change_visibility(queue_of(&request.queue_url), &request.receipt_handle, timeout_ms)?;
                Ok(json!({}))
            }
            Operation::ChangeMessageVisibilityBatch => {
                let request: Batch<VisibilityEntry> = read(body)?;
                let queue = queue_of(&request.queue_url).to_owned();
                self.each(request, |entry| {
                    self.change_visibility(&queue, &entry.receipt_handle, entry.visibility_timeout * 1_000)?;
                    Ok(Map::new())
                })
            }
            Operation::GetQueueAttributes => self.queue_attributes(read(body)?),
            Operation::GetQueueUrl => {
                let request: GetQueueUrl = read(body)?;
                self.watch(&request.queue_name)?;
                Ok(json!({ "QueueUrl": queue_url(&request.queue_name) }))
            }
            Operation::PurgeQueue => {
                let request: QueueRequest = read(body)?;
                self.purge(queue_of(&request.queue_url))?;
                Ok(json!({}))
            }
            Operation::StartMessageMoveTask => {
                let request: MoveTask = read(body)?;
                let source = name_of_arn(&request.source_arn);
                self.watch(source).map_err(|_| Refusal::UnknownArn)?;
                let destination = request.destination_arn.as_deref().map(name_of_arn);
                self.redrive(source, destination)?;
                Ok(json!({ "TaskHandle": BASE64.encode(&request.source_arn) }))
            }
        }
    }

    fn send_one(&self, queue_url: &str, message: SentMessage) -> Result<Map<String, Value>, Refusal> {
        let queue = queue_of(queue_url);
        if message.delay_seconds > 0 {
            return Err(Refusal::Delay);
        }
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

    fn send_batch(&self, request: Batch<SendEntry>) -> Result<Value, Refusal> {
        let bytes: usize = request.entries.iter().map(|entry| entry.message.bytes()).sum();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Refusal::BatchTooLong);
        }
        let queue_url = request.queue_url.clone();
        self.each(request, |entry| self.send_one(&queue_url, entry.message))
    }

    /// Answers a batch: what an entry is refused for concerns that entry alone.
    fn each<E: Entry>(
        &self,
        request: Batch<E>,
        mut act: impl FnMut(E) -> Result<Map<String, Value>, Refusal>,
    ) -> Result<Value, Refusal> {
        self.watch(queue_of(&request.queue_url))?;
        check_entry_ids(&request.entries)?;
        let mut successful = Vec::new();
        let mut failed = Vec::new();
        for entry in request.entries {
            let id = entry.id().to_owned();
            match act(entry) {
                Ok(mut answer) => {
                    answer.insert("Id".to_owned(), json!(id));
                    successful.push(Value::Object(answer));
                }
                Err(refusal) => failed.push(json!({
                    "Id": id,
                    "Code": refusal.code(),
                    "Message": refusal.message(),
                    "SenderFault": refusal.is_senders(),
                })),
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }))
    }

    async fn receive_messages(&self, request: ReceiveMessage) -> Result<Value, Refusal> {
        let messages_max = request.max_number_of_messages.unwrap_or(1);
        if !(1..=RECEIVE_MESSAGES_MAX).contains(&messages_max) {
            return Err(Refusal::Parameter(
                "Value for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
            ));
        }
        let wait_seconds = request.wait_time_seconds.unwrap_or(0);
        if wait_seconds > WAIT_SECONDS_MAX {
            return Err(Refusal::Parameter(
                "Value for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
            ));
        }
        let timeout_ms = request.visibility_timeout.map(|seconds| seconds * 1_000);
        let queue = queue_of(&request.queue_url);
        let received = self.long_poll(queue, messages_max, timeout_ms, wait_seconds * 1_000).await?;

        let mut answer = Map::new();
        if !received.is_empty() {
            let messages: Vec<Value> = received.iter().map(|received| request.show(received)).collect();
            answer.insert("Messages".to_owned(), Value::Array(messages));
        }
        Ok(Value::Object(answer))
    }

    fn queue_attributes(&self, request: GetQueueAttributes) -> Result<Value, Refusal> {
        let queue = queue_of(&request.queue_url);
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
        attributes.retain(|name, _| is_asked_for(&request.attribute_names, name));
        Ok(json!({ "Attributes": attributes }))
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    SendMessage,
    SendMessageBatch,
    ReceiveMessage,
    DeleteMessage,
    DeleteMessageBatch,
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    GetQueueAttributes,
    GetQueueUrl,
    PurgeQueue,
    StartMessageMoveTask,
}

impl Operation {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "SendMessage" => Self::SendMessage,
            "SendMessageBatch" => Self::SendMessageBatch,
            "ReceiveMessage" => Self::ReceiveMessage,
            "DeleteMessage" => Self::DeleteMessage,
            "DeleteMessageBatch" => Self::DeleteMessageBatch,
            "ChangeMessageVisibility" => Self::ChangeMessageVisibility,
            "ChangeMessageVisibilityBatch" => Self::ChangeMessageVisibilityBatch,
            "GetQueueAttributes" => Self::GetQueueAttributes,
            "GetQueueUrl" => Self::GetQueueUrl,
            "PurgeQueue" => Self::PurgeQueue,
            "StartMessageMoveTask" => Self::StartMessageMoveTask,
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendMessage {
    queue_url: String,
    #[serde(flatten)]
    message: SentMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry {
    id: String,
    #[serde(flatten)]
    message: SentMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SentMessage {
    #[serde(default)]
    message_body: String,
    #[serde(default)]
    delay_seconds: u64,
    #[serde(default)]
    message_attributes: BTreeMap<String, MessageAttribute>,
    #[serde(default)]
    message_system_attributes: BTreeMap<String, MessageAttribute>,
    message_deduplication_id: Option<String>,
    message_group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", bound = "E: DeserializeOwned")]
struct Batch<E> {
    queue_url: String,
    entries: Vec<E>,
}

trait Entry {
    fn id(&self) -> &str;
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveMessage {
    queue_url: String,
    #[serde(default)]
    attribute_names: Vec<String>,
    #[serde(default)]
    message_system_attribute_names: Vec<String>,
    #[serde(default)]
    message_attribute_names: Vec<String>,
    max_number_of_messages: Option<usize>,
    visibility_timeout: Option<u64>,
    wait_time_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteMessage {
    queue_url: String,
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteEntry {
    id: String,
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeVisibility {
    queue_url: String,
    receipt_handle: String,
    visibility_timeout: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VisibilityEntry {
    id: String,
    receipt_handle: String,
    visibility_timeout: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetQueueAttributes {
    queue_url: String,
    #[serde(default)]
    attribute_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetQueueUrl {
    queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueRequest {
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MoveTask {
    source_arn: String,
    destination_arn: Option<String>,
}

impl Entry for SendEntry {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Entry for DeleteEntry {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Entry for VisibilityEntry {
    fn id(&self) -> &str {
        &self.id
    }
}

impl SentMessage {
    fn into_new(mut self) -> NewMessage {
        let trace_header = self.message_system_attributes.remove(TRACE_HEADER);
        NewMessage {
            body: self.message_body,
            group: self.message_group_id,
            deduplication_id: self.message_deduplication_id,
            attributes: self.message_attributes,
            trace_header: trace_header.and_then(|header| header.string_value),
        }
    }

    fn bytes(&self) -> usize {
        self.message_body.len() + self.message_attributes.iter().map(|(name, value)| value.bytes(name)).sum::<usize>()
    }
}

impl ReceiveMessage {
    fn show(&self, received: &ReceivedMessage) -> Value {
        let message = &received.message;
        let mut shown = json!({
            "MessageId": message.id(),
            "ReceiptHandle": received.receipt_handle,
            "MD5OfBody": md5_hex(message.body.as_bytes()),
            "Body": message.body,
        });
        let Value::Object(fields) = &mut shown else { return shown };

        let mut system = system_attributes(message);
        system.retain(|name, _| {
            is_asked_for(&self.attribute_names, name) || is_asked_for(&self.message_system_attribute_names, name)
        });
        if !system.is_empty() {
            fields.insert("Attributes".to_owned(), json!(system));
        }

        let mut attributes = message.attributes.clone();
        attributes.retain(|name, _| is_asked_for(&self.message_attribute_names, name));
        if let Some(digest) = md5_of_attributes(&attributes) {
            fields.insert("MD5OfMessageAttributes".to_owned(), json!(digest));
            fields.insert("MessageAttributes".to_owned(), json!(attributes));
        }
        shown
    }
}

/// Why a request was refused.
#[derive(Debug)]
enum Refusal {
    Queue(QueueError),
    Malformed(serde_json::Error),
    Parameter(&'static str),
    Delay,
    UnknownArn,
    EmptyBatch,
    TooManyEntries,
    BatchTooLong,
    InvalidEntryId,
    EntryIdsNotDistinct,
}

impl From<QueueError> for Refusal {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

impl Refusal {
    /// The name of the error in the JSON protocol, and the one by which it was known before there was one. SDKs read the
    /// second.
    fn names(&self) -> (&'static str, &'static str) {
        let same = |name| (name, name);
        match self {
            Self::Queue(QueueError::UnknownQueue) => ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
            Self::Queue(QueueError::Send(SendError::EmptyBody | SendError::MissingGroup)) => same("MissingParameter"),
            Self::Queue(QueueError::Send(SendError::InvalidCharacters)) => same("InvalidMessageContents"),
            Self::Queue(QueueError::Send(
                SendError::TooLarge
                | SendError::MissingDeduplicationId
                | SendError::InvalidGroup
                | SendError::InvalidDeduplicationId,
            )) => same("InvalidParameterValue"),
            Self::Queue(QueueError::ReceiptHandle(ReceiptHandleError::Invalid)) => same("ReceiptHandleIsInvalid"),
            Self::Queue(QueueError::ReceiptHandle(
                ReceiptHandleError::Expired | ReceiptHandleError::NotInFlight | ReceiptHandleError::InvalidTimeout,
            )) => same("InvalidParameterValue"),
            Self::Queue(QueueError::Persist(_)) => same("InternalError"),
            Self::Malformed(_) => same("SerializationException"),
            Self::Parameter(_) | Self::Delay => same("InvalidParameterValue"),
            Self::UnknownArn => same("ResourceNotFoundException"),
            Self::EmptyBatch => ("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"),
            Self::TooManyEntries => {
                ("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
            }
            Self::BatchTooLong => ("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"),
            Self::InvalidEntryId => ("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"),
            Self::EntryIdsNotDistinct => {
                ("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct")
            }
        }
    }

    fn code(&self) -> &'static str {
        self.names().1
    }

    fn message(&self) -> String {
        match self {
            Self::Queue(error) => error.to_string(),
            Self::Malformed(error) => error.to_string(),
            Self::Parameter(message) => (*message).to_owned(),
            Self::Delay => {
                "Value for parameter DelaySeconds is invalid. Reason: The request include parameter that is \
                            not valid for this queue type."
                    .to_owned()
            }
            Self::UnknownArn => "The resource that you specified for the SourceArn parameter doesn't exist.".to_owned(),
            Self::EmptyBatch => "There should be at least one entry in the request.".to_owned(),
            Self::TooManyEntries => "Maximum number of entries per request are 10.".to_owned(),
            Self::BatchTooLong => "Batch requests cannot be longer than 1048576 bytes.".to_owned(),
            Self::InvalidEntryId => "A batch entry id can only contain alphanumeric characters, hyphens and \
                                     underscores. It can be at most 80 letters long."
                .to_owned(),
            Self::EntryIdsNotDistinct => "Two or more batch entries have the same id.".to_owned(),
        }
    }

    fn is_senders(&self) -> bool {
        !matches!(self, Self::Queue(QueueError::Persist(_)))
    }

    fn into_response(self) -> ServiceResponse {
        if let Self::Queue(QueueError::Persist(error)) = &self {
            tracing::error!(error = error as &dyn std::error::Error, "queue of the local cloud failed");
        }
        let (name, query_name) = self.names();
        let (status, fault) = if self.is_senders() { (400, "Sender") } else { (500, "Receiver") };
        ServiceResponse {
            query_error: Some(format!("{query_name};{fault}")),
            ..ServiceResponse::error(status, &format!("com.amazonaws.sqs#{name}"), &self.message())
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(Refusal::Malformed)
}

fn check_entry_ids<E: Entry>(entries: &[E]) -> Result<(), Refusal> {
    if entries.is_empty() {
        return Err(Refusal::EmptyBatch);
    }
    if entries.len() > BATCH_ENTRIES_MAX {
        return Err(Refusal::TooManyEntries);
    }
    let is_id = |id: &str| {
        (1..=ENTRY_ID_CHARS_MAX).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if !entries.iter().all(|entry| is_id(entry.id())) {
        return Err(Refusal::InvalidEntryId);
    }
    let distinct: BTreeSet<&str> = entries.iter().map(Entry::id).collect();
    if distinct.len() < entries.len() {
        return Err(Refusal::EntryIdsNotDistinct);
    }
    Ok(())
}

fn is_asked_for(names: &[String], name: &str) -> bool {
    names.iter().any(|asked| asked == name || asked == "All" || asked == ".*")
}

fn queue_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

fn name_of_arn(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// The digest that SDKs compare: name, type and value in the order of the names, each behind its length, the value also
/// behind its kind.
fn md5_of_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Option<String> {
    const STRING: u8 = 1;
    const BINARY: u8 = 2;

    fn add(bytes: &mut Vec<u8>, part: &[u8]) {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(part);
    }

    if attributes.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    for (name, attribute) in attributes {
        add(&mut bytes, name.as_bytes());
        add(&mut bytes, attribute.data_type.as_bytes());
        if let Some(value) = &attribute.string_value {
            bytes.push(STRING);
            add(&mut bytes, value.as_bytes());
        } else if let Some(value) = &attribute.binary_value {
            bytes.push(BINARY);
            add(&mut bytes, &BASE64.decode(value).unwrap_or_default());
        }
    }
    Some(md5_hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_attributes_is_what_sdks_compute() {
        let attribute = |data_type: &str, value: &str| MessageAttribute {
            data_type: data_type.to_owned(),
            string_value: Some(value.to_owned()),
            binary_value: None,
        };
        let one = BTreeMap::from([("timestamp".to_owned(), attribute("Number", "1493147359900"))]);

        assert_eq!(md5_of_attributes(&one).as_deref(), Some("235c5c510d26fb653d073faed50ae77c"));
        assert_eq!(md5_of_attributes(&BTreeMap::new()), None);
    }
}
