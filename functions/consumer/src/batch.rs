//! The messages of a batch by their groups, and the read of all their calls by one request.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsMessage;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, Found};
use switchhook_aws::queue::Message;
use switchhook_domain::CallId;
use tokio::time::timeout;

/// Time that the read of all calls of a batch may take. A function has 10 s, of which a failing read of each call takes up to 2.5 s.
const READ_MAX: Duration = Duration::from_millis(500);

/// Messages of one group of the queue, in order.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) messages: Vec<SqsMessage>,
    /// What the messages say, up to the first that cannot be read.
    pub(crate) readable: Vec<Message>,
    /// Why the message after them cannot be read.
    pub(crate) unreadable: Option<Error>,
}

/// The first failed message of a group, and all messages after it.
#[derive(Debug)]
pub(crate) struct FailedTail {
    pub(crate) messages: Vec<SqsMessage>,
    pub(crate) error: Error,
}

impl Group {
    pub(crate) fn of(messages: Vec<SqsMessage>) -> Self {
        let mut readable = Vec::new();
        let mut unreadable = None;
        for message in &messages {
            match Message::decode(message.body.as_deref().unwrap_or_default()) {
                Ok(decoded) => readable.push(decoded),
                Err(error) => {
                    unreadable = Some(error);
                    break;
                }
            }
        }
        Self { messages, readable, unreadable }
    }

    /// Returns the ids of the calls that the messages name.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.readable.iter().map(|message| &message.event.call_id).filter(|id| !id.is_entity())
    }
}

/// Reads the calls of a batch by one request instead of one for each call. A batch of one call needs none. If the request fails or takes
/// long, each call is read alone, so that a call that cannot be read fails no other.
pub(crate) async fn read_calls(calls: &Calls, groups: &[Group]) -> HashMap<CallId, Found> {
    let ids: BTreeSet<&CallId> = groups.iter().flat_map(Group::call_ids).collect();
    if ids.len() < 2 {
        return HashMap::new();
    }
    let read = timeout(READ_MAX, calls.get_at_once(&ids)).await;
    read.ok().and_then(Result::ok).unwrap_or_default()
}
