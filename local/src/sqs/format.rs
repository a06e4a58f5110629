//! Messages in the formats of SQS and Lambda: URLs, ARNs, event records, attributes and digests.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::queue::{Message, MessageAttribute, ReceivedMessage};
use crate::stack::{ACCOUNT, REGION};

/// Returns the URL of a queue.
pub fn queue_url(queue: &str) -> String {
    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{queue}")
}

/// Returns the ARN of a queue.
pub(super) fn queue_arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")
}

/// Returns a received message as an element of `Records` in the event that a Lambda function receives.
pub fn to_event_record(queue: &str, received: &ReceivedMessage) -> Value {
    let attributes: BTreeMap<String, Value> = received
        .message
        .attributes
        .iter()
        .map(|(name, attribute)| {
            let attribute = json!({
                "dataType": attribute.data_type,
                "stringValue": attribute.string_value,
                "binaryValue": attribute.binary_value,
                "stringListValues": [],
                "binaryListValues": [],
            });
            (name.clone(), attribute)
        })
        .collect();
    json!({
        "messageId": received.message.id(),
        "receiptHandle": received.receipt_handle,
        "body": received.message.body,
        "md5OfBody": md5_hex(received.message.body.as_bytes()),
        "attributes": system_attributes(&received.message),
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn(queue),
        "awsRegion": REGION,
    })
}

/// Returns the system attributes that SQS adds to a received message.
pub(super) fn system_attributes(message: &Message) -> BTreeMap<&'static str, String> {
    let mut attributes = BTreeMap::from([
        ("ApproximateReceiveCount", message.receive_count.to_string()),
        ("SentTimestamp", message.sent_at_ms.to_string()),
        ("SenderId", ACCOUNT.to_owned()),
    ]);
    if let Some(at_ms) = message.first_received_at_ms {
        attributes.insert("ApproximateFirstReceiveTimestamp", at_ms.to_string());
    }
    if let Some(group) = &message.group {
        attributes.insert("MessageGroupId", group.clone());
    }
    if let Some(id) = &message.deduplication_id {
        attributes.insert("MessageDeduplicationId", id.clone());
        attributes.insert("SequenceNumber", sequence_number(message.sequence));
    }
    if let Some(header) = &message.trace_header {
        attributes.insert("AWSTraceHeader", header.clone());
    }
    if let Some(source) = &message.dead_letter_source {
        attributes.insert("DeadLetterQueueSourceArn", queue_arn(source));
    }
    attributes
}

pub(super) fn sequence_number(sequence: u64) -> String {
    format!("{sequence:020}")
}

pub(super) fn md5_hex(bytes: &[u8]) -> String {
    format!("{:x}", md5::compute(bytes))
}

/// Returns the MD5 digest of the attributes, which the SDKs verify. `None` if there are no attributes.
///
/// The digest covers name, type and value of each attribute, sorted by name. Every part is preceded by its length, and
/// the value also by a byte for its kind.
pub(super) fn md5_of_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Option<String> {
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
