//! The resources of the stack: names, queues, batch sizes and defaults, as `template.yaml` declares them. A test
//! compares the two.

use std::time::Duration;

use switchhook_domain::RetryPolicy;

use crate::queue::{QueueSettings, RedrivePolicy};

pub const REGION: &str = "us-east-1";
pub const ACCOUNT: &str = "000000000000";

pub const INBOX_TABLE: &str = "switchhook-inbox";
pub const CALLS_TABLE: &str = "switchhook-calls";
pub const EVENT_BUS: &str = "switchhook";

/// Secret of the keys that verify webhooks.
pub const WEBHOOK_KEYS_SECRET: &str = "switchhook-webhook-keys";
/// Secret of the accounts that place calls.
pub const DIAL_ACCOUNTS_SECRET: &str = "switchhook-dial-accounts";

/// FIFO queue from the ingress to the consumer.
pub const EVENTS_QUEUE: &str = "switchhook-events.fifo";
/// FIFO queue of claimed calls, from the scheduler to the dialer.
pub const DIAL_QUEUE: &str = "switchhook-dial.fifo";
/// Standard queue of calls that are due within a minute. Each message is delayed until its call is due.
pub const DUE_QUEUE: &str = "switchhook-due";
/// FIFO queue of shards with many due calls, from the reconciler to its workers.
pub const REPAIR_QUEUE: &str = "switchhook-repair.fifo";
/// FIFO queue of messages that the consumer could not process.
pub const EVENTS_DEAD_LETTER_QUEUE: &str = "switchhook-events-dlq.fifo";
/// Standard queue of stream records that the relay could not publish: the on-failure destination of its event source.
pub const RELAY_FAILURES_QUEUE: &str = "switchhook-relay-failures";

/// Retry policy for calls that are created without one.
pub const DEFAULT_RETRY_POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay_seconds: 300, delay_max_seconds: 3_600, voicemail: false, unheard: false };
/// Default limit on dialers that run at the same time.
pub const DIALERS: u32 = 30;

/// Retention of inbox events. No local stack runs that long.
pub const INBOX_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Retention of settled calls. No local stack runs that long.
pub const CALL_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Messages per invocation of the consumer. SQS returns at most 10 messages of a FIFO queue at once.
pub const QUEUE_BATCH: usize = 10;
/// Stream records per invocation of the relay.
pub const STREAM_BATCH: usize = 100;
/// Stream records, or messages of the queue of due calls, per invocation of the scheduler.
pub const DUE_BATCH: usize = 10;
/// Messages per invocation of a worker of the reconciler. It works on one shard, until its time is up.
pub const REPAIR_BATCH: usize = 1;
/// Workers of the reconciler that run at the same time.
pub const REPAIR_WORKERS: usize = 8;
/// Messages per invocation of the dialer. It waits until the provider's rate limit allows the dial, and a second
/// message would have to wait with the first.
pub const DIAL_BATCH: usize = 1;
/// Age at which a stream record that cannot be published goes to the failures queue. A stream keeps a record for 24
/// hours.
pub const RECORD_AGE_MAX: Duration = Duration::from_secs(21 * 60 * 60);

/// Visibility timeout of the events queue: six times the 10 s timeout of the consumer.
pub(crate) const VISIBILITY_TIMEOUT_MS: u64 = 60_000;
/// Visibility timeout of the dial queue: six times the 30 s timeout of the dialer.
pub(crate) const DIAL_VISIBILITY_TIMEOUT_MS: u64 = 180_000;
/// Visibility timeout of the queue of due calls: six times the 50 s timeout of the scheduler.
pub(crate) const DUE_VISIBILITY_TIMEOUT_MS: u64 = 300_000;
/// Visibility timeout of the repair queue: more than the 50 s timeout of the reconciler, and no more than a minute.
pub(crate) const REPAIR_VISIBILITY_TIMEOUT_MS: u64 = 60_000;
/// SQS's default, for queues whose template does not set a timeout.
const DEFAULT_VISIBILITY_TIMEOUT_MS: u64 = 30_000;
/// Retention of the queues whose messages only an operator or their function deletes: 14 days, the longest of SQS.
const RETENTION_MS: u64 = 14 * 24 * 60 * 60 * 1_000;
/// Retention of the dial queue. The claim of an older message has expired.
const DIAL_RETENTION_MS: u64 = 60 * 60 * 1_000;
/// Retention of the queue of due calls. The schedule finds the call of an older message.
const DUE_RETENTION_MS: u64 = 5 * 60 * 1_000;
/// Retention of the repair queue. The next run finds the work of an older message.
const REPAIR_RETENTION_MS: u64 = 2 * 60 * 1_000;
/// Default of the template's `MaxReceiveCount`.
pub const MAX_RECEIVE_COUNT: u32 = 20;

/// Returns the settings of the stack's queues.
pub fn stack_queues(max_receive_count: u32) -> Vec<QueueSettings> {
    let queue = |name: &str, fifo, visibility_timeout_ms, retention_ms| QueueSettings {
        name: name.to_owned(),
        fifo,
        visibility_timeout_ms,
        retention_ms,
        redrive_policy: None,
    };
    let redrive_policy = RedrivePolicy { dead_letter_queue: EVENTS_DEAD_LETTER_QUEUE.to_owned(), max_receive_count };
    let events = queue(EVENTS_QUEUE, true, VISIBILITY_TIMEOUT_MS, RETENTION_MS);
    vec![
        QueueSettings { redrive_policy: Some(redrive_policy), ..events },
        queue(DIAL_QUEUE, true, DIAL_VISIBILITY_TIMEOUT_MS, DIAL_RETENTION_MS),
        queue(DUE_QUEUE, false, DUE_VISIBILITY_TIMEOUT_MS, DUE_RETENTION_MS),
        queue(REPAIR_QUEUE, true, REPAIR_VISIBILITY_TIMEOUT_MS, REPAIR_RETENTION_MS),
        queue(EVENTS_DEAD_LETTER_QUEUE, true, DEFAULT_VISIBILITY_TIMEOUT_MS, RETENTION_MS),
        queue(RELAY_FAILURES_QUEUE, false, DEFAULT_VISIBILITY_TIMEOUT_MS, RETENTION_MS),
    ]
}
