//! The repair queue leads from the reconciler to itself. A message hands one kind of work on one shard to a worker.
//!
//! **The message group is the kind of work and the shard**, so a shard has one worker of a kind at a time. Lists of calls have no shards: each
//! provider's list is a kind of its own.
//!
//! **The deduplication id holds the end of the work**, which follows from the start of the run. So a batch that one run sends twice adds
//! nothing. And the messages of the next run are not taken for repetitions, however long each run took before it sent them.

use serde::{Deserialize, Serialize};
use switchhook_domain::{CallId, Provider, Timestamp};

use super::{MESSAGE_SCHEMA, Queue, SendMessageBatchRequestEntry, ascii_json, decode, fifo_id};
use crate::calls::{WakeEntry, WakeQueue};
use crate::error::Error;

/// Work on one shard, which a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairWork {
    pub kind: RepairKind,
    pub shard: u64,
    /// Time at which the scheduled run read the shard.
    pub read_at: Timestamp,
    /// Time at which the worker stops. The next scheduled run finds the rest.
    pub stop_at: Timestamp,
    /// Number of workers of this shard and run before this one.
    pub workers_before: u32,
}

/// Kind of work on a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// Calls of a wake queue that were due at `read_at`.
    Due {
        queue: WakeQueue,
        /// Last call that was handled. The worker goes on after it. `None` if no call of the shard was handled.
        after: Option<WakeEntry>,
    },
    /// Received events that are not swept. The cursor of the sweep tells where the worker begins.
    Sweep,
    /// Events that [wait in the inbox](crate::inbox) and reached one of the ages after `after`, up to `read_at`. The shard is one of `by_attention`.
    Retry { after: Timestamp },
    /// Provider's own list of calls that is due. The cursor of discovery tells where the worker begins. The shard is 0.
    Discovery(Provider),
    /// Settled calls that the drift check has left. Its cursor tells where the worker begins.
    Drift,
}

/// Name of [`RepairKind::Sweep`].
const SWEEP: &str = "sweep";
/// Name of [`RepairKind::Retry`].
const RETRY: &str = "retry";
/// Name of [`RepairKind::Drift`].
const DRIFT: &str = "drift";
/// The name of [`RepairKind::Discovery`] is this text and the provider. The names of due calls are those of their wake queues.
const DISCOVERY: &str = "discovery-";

/// Body of a message on the repair queue.
#[derive(Serialize, Deserialize)]
struct RepairMessage {
    schema_version: u32,
    kind: String,
    shard: u64,
    read_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_wake_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retried_until: Option<Timestamp>,
    stop_at: Timestamp,
    workers_before: u32,
}

impl RepairWork {
    /// Work for the first worker of a shard.
    #[must_use]
    pub const fn first(kind: RepairKind, shard: u64, read_at: Timestamp, stop_at: Timestamp) -> Self {
        Self { kind, shard, read_at, stop_at, workers_before: 0 }
    }

    /// Reads the body of a message from the repair queue. `None` if its kind belongs to another version.
    ///
    /// # Errors
    /// The same as [`super::Message::decode`].
    pub fn decode(body: &str) -> Result<Option<Self>, Error> {
        let message: RepairMessage = decode(body)?;
        let after = message.after_call.zip(message.after_wake_at);
        let after = after.map(|(call_id, wake_at)| WakeEntry { call_id, wake_at });
        let due = WakeQueue::OPEN.into_iter().map(|queue| RepairKind::Due { queue, after: after.clone() });
        let list = message.kind.strip_prefix(DISCOVERY).and_then(|name| name.parse().ok()).map(RepairKind::Discovery);
        let retry = message.retried_until.map(|after| RepairKind::Retry { after });
        let mut known = due.chain([RepairKind::Sweep, RepairKind::Drift]).chain(retry).chain(list);
        let Some(kind) = known.find(|kind| kind.name() == message.kind) else { return Ok(None) };
        Ok(Some(Self {
            kind,
            shard: message.shard,
            read_at: message.read_at,
            stop_at: message.stop_at,
            workers_before: message.workers_before,
        }))
    }

    fn to_message(&self) -> RepairMessage {
        let (after_call, after_wake_at) = match &self.kind {
            RepairKind::Due { after: Some(after), .. } => (Some(after.call_id.clone()), Some(after.wake_at)),
            RepairKind::Due { after: None, .. }
            | RepairKind::Sweep
            | RepairKind::Retry { .. }
            | RepairKind::Discovery(_)
            | RepairKind::Drift => (None, None),
        };
        let retried_until = if let RepairKind::Retry { after } = self.kind { Some(after) } else { None };
        RepairMessage {
            schema_version: MESSAGE_SCHEMA,
            kind: self.kind.name(),
            shard: self.shard,
            read_at: self.read_at,
            after_call,
            after_wake_at,
            retried_until,
            stop_at: self.stop_at,
            workers_before: self.workers_before,
        }
    }

    fn group(&self) -> String {
        fifo_id(&format!("{}#{}", self.kind.name(), self.shard))
    }

    fn deduplication_id(&self) -> String {
        fifo_id(&format!("{}-{}-{}", self.group(), self.stop_at.as_millis(), self.workers_before))
    }
}

impl RepairKind {
    fn name(&self) -> String {
        match self {
            Self::Due { queue, .. } => queue.to_string(),
            Self::Sweep => SWEEP.to_owned(),
            Self::Retry { .. } => RETRY.to_owned(),
            Self::Discovery(provider) => format!("{DISCOVERY}{provider}"),
            Self::Drift => DRIFT.to_owned(),
        }
    }
}

impl Queue {
    /// Hands shards to workers of the reconciler. This queue must be the repair queue.
    ///
    /// # Errors
    /// [`Error::Send`] if SQS did not accept all of them. The next scheduled run finds the same work.
    pub async fn send_repairs(&self, works: &[RepairWork]) -> Result<(), Error> {
        for ten in works.chunks(10) {
            let mut entries = Vec::new();
            for work in ten {
                let entry = SendMessageBatchRequestEntry::builder()
                    .message_group_id(work.group())
                    .message_deduplication_id(work.deduplication_id());
                entries.push((entry, ascii_json(&work.to_message())));
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
        let body = |kind: &str| {
            format!(
                "{{\"schema_version\":1,\"kind\":\"{kind}\",\"shard\":3,\"read_at\":60000,\"stop_at\":90000,\
                 \"workers_before\":1}}"
            )
        };
        let kind = |name: &str| RepairWork::decode(&body(name)).unwrap().map(|work| (work.kind, work.shard));
        let due = RepairKind::Due { queue: WakeQueue::Claims, after: None };
        assert_eq!(kind(&WakeQueue::Claims.to_string()), Some((due, 3)));
        assert_eq!(kind("sweep"), Some((RepairKind::Sweep, 3)));
        assert_eq!(kind("drift"), Some((RepairKind::Drift, 3)));
        assert_eq!(kind("discovery-twilio"), Some((RepairKind::Discovery(Provider::Twilio), 3)));
        assert_eq!(kind("discovery-unheard-of"), None);
        assert_eq!(kind("unheard-of"), None);
        assert!(matches!(RepairWork::decode("{\"schema_version\":2}"), Err(Error::NewerSchema(2))));
    }

    #[test]
    fn work_reads_back_as_it_was_sent() {
        let entry = WakeEntry { call_id: CallId::new("c"), wake_at: Timestamp::from_millis(5) };
        let due = |after| RepairKind::Due { queue: WakeQueue::Outcomes, after };
        let list = RepairKind::Discovery(Provider::Retell);
        let retry = RepairKind::Retry { after: Timestamp::from_millis(6) };
        for kind in [due(None), due(Some(entry)), RepairKind::Sweep, retry, list, RepairKind::Drift] {
            let work = RepairWork { kind, ..work(2, 1, 3) };
            assert_eq!(RepairWork::decode(&ascii_json(&work.to_message()).unwrap()).unwrap(), Some(work));
        }
    }

    fn work(shard: u64, minute: i64, workers_before: u32) -> RepairWork {
        RepairWork {
            kind: RepairKind::Due { queue: WakeQueue::Endings, after: None },
            shard,
            read_at: Timestamp::from_millis(7),
            stop_at: Timestamp::from_millis(minute * 60_000),
            workers_before,
        }
    }

    #[test]
    fn workers_of_a_shard_share_a_group_and_each_run_has_one_first_worker() {
        let first = work(1, 1, 0);
        let later = RepairWork { read_at: Timestamp::from_millis(119_000), ..first.clone() };
        assert_eq!(first.deduplication_id(), later.deduplication_id());
        let of_kind = |kind| RepairWork { kind, ..first.clone() };
        let lists = [Provider::Retell, Provider::Vapi].map(|provider| of_kind(RepairKind::Discovery(provider)));
        let others = [of_kind(RepairKind::Sweep), of_kind(RepairKind::Drift)].into_iter().chain(lists.clone());
        for other in [work(1, 1, 1), work(1, 2, 0), work(2, 1, 0)].into_iter().chain(others.clone()) {
            assert_ne!(first.deduplication_id(), other.deduplication_id());
        }
        assert_eq!(first.group(), work(1, 2, 1).group());
        assert_ne!(first.group(), work(2, 1, 0).group());
        assert!(others.map(|other| other.group()).all(|group| group != first.group()));
        assert_ne!(lists[0].group(), lists[1].group());
    }
}
