//! Messages of a queue, and the rules that SQS checks when a message is sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum length of a message group id and of a deduplication id.
pub const FIFO_ID_CHARS_MAX: usize = 128;
/// Maximum size of one message with its attributes, and of all messages of a batch together: 1 MiB.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
/// Longest delay of a message: 15 minutes.
const DELAY_MS_MAX: u64 = 15 * 60 * 1_000;

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Number of the message, unique across all queues and never reused. The message id is derived from it.
    pub number: u64,
    /// Position in the queue. A message that moves to another queue gets a new position.
    pub sequence: u64,
    pub body: String,
    pub group: Option<String>,
    pub deduplication_id: Option<String>,
    pub attributes: BTreeMap<String, MessageAttribute>,
    pub trace_header: Option<String>,
    pub sent_at_ms: u64,
    pub first_received_at_ms: Option<u64>,
    pub receive_count: u32,
    /// Queue from which the message was moved to this dead-letter queue. `None` in any other queue.
    pub dead_letter_source: Option<String>,
}

/// A message attribute. Its value is a string, or bytes encoded in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageAttribute {
    #[serde(rename = "DataType")]
    pub data_type: String,
    #[serde(rename = "StringValue", skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    #[serde(rename = "BinaryValue", skip_serializing_if = "Option::is_none")]
    pub binary_value: Option<String>,
}

/// A message as the sender passes it to `SendMessage`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMessage {
    pub body: String,
    pub group: Option<String>,
    pub deduplication_id: Option<String>,
    pub attributes: BTreeMap<String, MessageAttribute>,
    pub trace_header: Option<String>,
    /// Time after the send at which the message becomes visible.
    pub delay_ms: u64,
}

/// The reason why SQS rejects a message. The texts are those of SQS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("The request must contain the parameter MessageBody.")]
    EmptyBody,
    #[error("Message contains characters outside of the allowed set.")]
    InvalidCharacters,
    #[error("One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")]
    TooLarge,
    #[error("The request must contain the parameter MessageGroupId.")]
    MissingGroup,
    #[error(
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )]
    MissingDeduplicationId,
    #[error(
        "Value for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and \
         punctuation characters. 1 to 128 in length."
    )]
    InvalidGroup,
    #[error(
        "Value for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include \
         alphanumeric and punctuation characters. 1 to 128 in length."
    )]
    InvalidDeduplicationId,
    #[error("Value for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.")]
    InvalidDelay,
    #[error(
        "Value for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this \
         queue type."
    )]
    DelayInFifo,
}

impl Message {
    pub fn id(&self) -> String {
        message_id(self.number)
    }
}

impl NewMessage {
    /// Size that counts against [`MESSAGE_BYTES_MAX`]: the body, and the names, types and values of the attributes.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.attributes.iter().map(|(name, attribute)| attribute.bytes(name)).sum::<usize>()
    }

    /// Checks everything that SQS checks before it accepts a message. A FIFO queue also needs a group and a
    /// deduplication id.
    pub(super) fn validate(&self, fifo: bool) -> Result<(), SendError> {
        if self.body.is_empty() {
            return Err(SendError::EmptyBody);
        }
        if !self.body.chars().all(is_xml_char) {
            return Err(SendError::InvalidCharacters);
        }
        if self.bytes() > MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge);
        }
        if self.delay_ms > DELAY_MS_MAX {
            return Err(SendError::InvalidDelay);
        }
        if fifo && self.delay_ms > 0 {
            return Err(SendError::DelayInFifo);
        }
        if fifo {
            let group = self.group.as_deref().ok_or(SendError::MissingGroup)?;
            if !is_fifo_id(group) {
                return Err(SendError::InvalidGroup);
            }
            let id = self.deduplication_id.as_deref().ok_or(SendError::MissingDeduplicationId)?;
            if !is_fifo_id(id) {
                return Err(SendError::InvalidDeduplicationId);
            }
        }
        Ok(())
    }
}

impl MessageAttribute {
    pub(crate) fn bytes(&self, name: &str) -> usize {
        let value = self.string_value.as_ref().or(self.binary_value.as_ref());
        name.len() + self.data_type.len() + value.map_or(0, String::len)
    }
}

/// Returns the message id for a number, in the form of a UUID.
pub fn message_id(number: u64) -> String {
    let hex = format!("{number:016x}");
    let (head, tail) = hex.split_at(4);
    format!("00000000-0000-4000-{head}-{tail}")
}

fn is_fifo_id(id: &str) -> bool {
    (1..=FIFO_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// True if XML 1.0 allows the character. SQS allows no other.
fn is_xml_char(char: char) -> bool {
    matches!(char, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}
