//! The messages of a batch by their groups, and the read of all their calls by one request.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Found};
use switchhook_aws::queue::Message;
use switchhook_domain::CallId;

/// Time limit of the shared read. If it is reached, each call is read alone. That may take 2.5 s more, of the function's 10 s.
const READ_MAX: Duration = Duration::from_millis(500);

/// Messages of one group of the queue, in order.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) messages: Vec<SqsMessage>,
    /// Decoded messages, up to the first that cannot be decoded.
    pub(crate) decoded: Vec<Message>,
    /// Error of the message after them. `None` if all were decoded.
    pub(crate) decode_error: Option<Error>,
}

/// The first failed message of a group, and all messages after it.
#[derive(Debug)]
pub(crate) struct FailedTail {
    pub(crate) messages: Vec<SqsMessage>,
    pub(crate) error: Error,
}

impl Group {
    pub(crate) fn of(messages: Vec<SqsMessage>) -> Self {
        let mut decoded = Vec::new();
        let mut decode_error = None;
        for message in &messages {
            match Message::decode(message.body.as_deref().unwrap_or_default()) {
                Ok(message) => decoded.push(message),
                Err(error) => {
                    decode_error = Some(error);
                    break;
                }
            }
        }
        Self { messages, decoded, decode_error }
    }

    /// Returns the ids of the calls that the messages name.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.decoded.iter().map(|message| &message.event.call_id).filter(|id| !id.is_entity())
    }
}

/// Reads the calls of a batch by one request instead of one for each call. Reads nothing if the batch has fewer than two calls. The fold of a
/// call that is missing in the result reads it alone.
pub(crate) async fn read_calls(calls: &Calls, groups: &[Group]) -> HashMap<CallId, Found> {
    let ids: BTreeSet<&CallId> = groups.iter().flat_map(Group::call_ids).collect();
    if ids.len() < 2 {
        return HashMap::new();
    }
    calls.read_together(&ids, true, READ_MAX).await
}
