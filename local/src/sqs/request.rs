//! Requests of the SQS JSON protocol, as the SDK sends them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::queue::{MessageAttribute, NewMessage};

const TRACE_HEADER: &str = "AWSTraceHeader";

#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    SendMessage,
    SendMessageBatch,
    ReceiveMessage,
    DeleteMessage,
    DeleteMessageBatch,
    ChangeMessageVisibilityBatch,
    GetQueueAttributes,
    PurgeQueue,
}

impl Operation {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "SendMessage" => Self::SendMessage,
            "SendMessageBatch" => Self::SendMessageBatch,
            "ReceiveMessage" => Self::ReceiveMessage,
            "DeleteMessage" => Self::DeleteMessage,
            "DeleteMessageBatch" => Self::DeleteMessageBatch,
            "ChangeMessageVisibilityBatch" => Self::ChangeMessageVisibilityBatch,
            "GetQueueAttributes" => Self::GetQueueAttributes,
            "PurgeQueue" => Self::PurgeQueue,
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessage {
    pub(super) queue_url: String,
    #[serde(flatten)]
    pub(super) message: SentMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendEntry {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) message: SentMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SentMessage {
    #[serde(default)]
    pub(super) message_body: String,
    #[serde(default)]
    pub(super) delay_seconds: u64,
    #[serde(default)]
    pub(super) message_attributes: BTreeMap<String, MessageAttribute>,
    #[serde(default)]
    pub(super) message_system_attributes: BTreeMap<String, MessageAttribute>,
    pub(super) message_deduplication_id: Option<String>,
    pub(super) message_group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", bound = "E: DeserializeOwned")]
pub(super) struct Batch<E> {
    pub(super) queue_url: String,
    pub(super) entries: Vec<E>,
}

pub(super) trait Entry {
    fn id(&self) -> &str;
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiveMessage {
    pub(super) queue_url: String,
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
    #[serde(default)]
    pub(super) message_system_attribute_names: Vec<String>,
    #[serde(default)]
    pub(super) message_attribute_names: Vec<String>,
    pub(super) max_number_of_messages: Option<usize>,
    pub(super) visibility_timeout: Option<u64>,
    pub(super) wait_time_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeleteMessage {
    pub(super) queue_url: String,
    pub(super) receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeleteEntry {
    pub(super) id: String,
    pub(super) receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct VisibilityEntry {
    pub(super) id: String,
    pub(super) receipt_handle: String,
    pub(super) visibility_timeout: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueAttributes {
    pub(super) queue_url: String,
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueRequest {
    pub(super) queue_url: String,
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
    pub(super) fn into_new(mut self) -> NewMessage {
        let trace_header = self.message_system_attributes.remove(TRACE_HEADER);
        NewMessage {
            body: self.message_body,
            group: self.message_group_id,
            deduplication_id: self.message_deduplication_id,
            attributes: self.message_attributes,
            trace_header: trace_header.and_then(|header| header.string_value),
            delay_ms: self.delay_seconds.saturating_mul(1_000),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.message_body.len() + self.message_attributes.iter().map(|(name, value)| value.bytes(name)).sum::<usize>()
    }
}
