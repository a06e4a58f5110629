//! The repair queue leads from the reconciler to itself. A message hands the due calls of one shard to a worker.
//!
//! **The message group is the shard of a wake queue**, so a shard has one worker at a time. The deduplication id is the minute and the
//! number of the worker, so a second run of the schedule in the same minute adds nothing.

use serde::{Deserialize, Serialize};
use switchhook_domain::{CallId, Timestamp};

use super::{MESSAGE_SCHEMA, Queue, SendMessageBatchRequestEntry, ascii_json, decode, fifo_id};
use crate::calls::{WakeEntry, WakeQueue};
use crate::error::Error;

/// Due calls of one shard, which a worker handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairWork {
    pub queue: WakeQueue,
    pub shard: u64,
    /// Time at which the scheduled run read the shard. Calls that wake up later are left out.
    pub due_until: Timestamp,
    /// Last call that was handled. The worker goes on after it. `None` if no call of the shard was handled.
    pub after: Option<WakeEntry>,
    /// Time at which the worker stops. The next scheduled run finds the calls that are left.
    pub stop_at: Timestamp,
    /// Number of workers of this shard and minute before this one.
    pub workers_before: u32,
}

/// Body of a message on the repair queue.
#[derive(Serialize, Deserialize)]
struct RepairMessage {
    schema_version: u32,
    wake_queue: String,
    shard: u64,
    due_until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_wake_at: Option<Timestamp>,
    stop_at: Timestamp,
    workers_before: u32,
}

impl RepairWork {
    /// Reads the body of a message from the repair queue. `None` if its wake queue belongs to another version.
    ///
    /// # Errors
    /// The same as [`super::Message::decode`].
    pub fn decode(body: &str) -> Result<Option<Self>, Error> {
        let message: RepairMessage = decode(body)?;
        let queue = WakeQueue::OPEN.into_iter().find(|known| known.to_string() == message.wake_queue);
        let after = message.after_call.zip(message.after_wake_at);
        Ok(queue.map(|queue| Self {
            queue,
            shard: message.shard,
            due_until: message.due_until,
            after: after.map(|(call_id, wake_at)| WakeEntry { call_id, wake_at }),
            stop_at: message.stop_at,
            workers_before: message.workers_before,
        }))
    }

    fn group(&self) -> String {
        fifo_id(&self.queue.key(self.shard))
    }

    fn deduplication_id(&self) -> String {
        let minute = self.due_until.as_millis().div_euclid(60_000);
        fifo_id(&format!("{}-{minute}-{}", self.group(), self.workers_before))
    }
}

impl Queue {
    /// Hands shards to workers of the reconciler. This queue must be the repair queue.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept all of them. The next scheduled run finds the same calls.
    pub async fn send_repairs(&self, works: &[RepairWork]) -> Result<(), Error> {
        for ten in works.chunks(10) {
            let mut entries = Vec::new();
            for work in ten {
                let (after_call, after_wake_at) =
                    work.after.clone().map(|entry| (entry.call_id, entry.wake_at)).unzip();
                let message = RepairMessage {
                    schema_version: MESSAGE_SCHEMA,
                    wake_queue: work.queue.to_string(),
                    shard: work.shard,
                    due_until: work.due_until,
                    after_call,
                    after_wake_at,
                    stop_at: work.stop_at,
                    workers_before: work.workers_before,
                };
                let entry = SendMessageBatchRequestEntry::builder()
                    .message_group_id(work.group())
                    .message_deduplication_id(work.deduplication_id());
                entries.push((entry, ascii_json(&message)));
            }
            self.send_batch(entries).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_another_version_is_no_error() {
        let body = |queue: &str| {
            format!(
                "{{\"schema_version\":1,\"wake_queue\":\"{queue}\",\"shard\":3,\"due_until\":60000,\"stop_at\":90000,\
                 \"workers_before\":1}}"
            )
        };
        let work = RepairWork::decode(&body(&WakeQueue::Claims.to_string())).unwrap().unwrap();
        assert_eq!((work.queue, work.shard, work.after), (WakeQueue::Claims, 3, None));
        assert_eq!(RepairWork::decode(&body("unheard-of")).unwrap(), None);
        assert!(matches!(RepairWork::decode("{\"schema_version\":2}"), Err(Error::NewerSchema(2))));
    }

    #[test]
    fn workers_of_a_shard_share_a_group_and_each_minute_has_one_first_worker() {
        let work = |shard, minute: i64, workers_before| RepairWork {
            queue: WakeQueue::Endings,
            shard,
            due_until: Timestamp::from_millis(minute * 60_000 + 7),
            after: None,
            stop_at: Timestamp::from_millis(0),
            workers_before,
        };
        let first = work(1, 1, 0);
        let later = RepairWork { due_until: Timestamp::from_millis(119_000), ..first.clone() };
        assert_eq!(first.deduplication_id(), later.deduplication_id());
        for other in [work(1, 1, 1), work(1, 2, 0), work(2, 1, 0)] {
            assert_ne!(first.deduplication_id(), other.deduplication_id());
        }
        assert_eq!(first.group(), work(1, 2, 1).group());
        assert_ne!(first.group(), work(2, 1, 0).group());
    }
}
