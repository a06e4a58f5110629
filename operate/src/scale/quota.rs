//! Default quotas of AWS for one account in us-east-1, as published in November 2026. AWS raises most of them on request.

/// Requests per second to all HTTP APIs of an account. Source: the API Gateway quotas page.
pub const API_GATEWAY: f64 = 10_000.0;
/// Concurrent invocations of all functions. Source: the Lambda quotas page.
pub const LAMBDA_CONCURRENCY: f64 = 1_000.0;
/// The same in a new account. AWS raises it with use. Source: the Lambda quotas page, and the error message of a reservation.
pub const LAMBDA_CONCURRENCY_NEW: f64 = 10.0;
/// Invocations per second for each concurrent invocation of the quota. Source: the Lambda page "scaling behavior".
pub const LAMBDA_RATE_PER_CONCURRENCY: f64 = 10.0;
/// Memory for which a function has one vCPU, in MB. CPU grows in proportion to memory. Source: the Lambda page about memory.
pub const VCPU_MB: f64 = 1_769.0;
/// Concurrent invocations of one provisioned poller of a queue. Source: the API of Lambda's event source mappings.
pub const POLLER_CONCURRENCY: f64 = 10.0;
/// Requests for messages that one provisioned poller of a queue makes per second. Each receives one batch. Source: the Lambda page about
/// the scaling of queues.
pub const POLLER_POLLS: f64 = 10.0;
/// Fewest provisioned pollers of a queue. Source: the API of Lambda's event source mappings.
pub const POLLERS_MIN: f64 = 2.0;
/// Requests per second of one kind to a FIFO queue with high throughput. Source: the SQS page of message quotas.
pub const FIFO_REQUESTS: f64 = 70_000.0;
/// Messages of a FIFO queue in flight: received, and not deleted. Beyond it SQS hands out no more. Source: the SQS page of message quotas.
pub const FIFO_IN_FLIGHT: f64 = 120_000.0;
/// Write units per second of a table, and of each of its indexes. Source: the DynamoDB quotas page.
pub const TABLE_WRITES: f64 = 40_000.0;
/// Read units per second of a table. Source: the DynamoDB quotas page.
pub const TABLE_READS: f64 = 40_000.0;
/// Write units per second of one partition of a table or index. No request raises it. Source: the DynamoDB developer guide.
pub const PARTITION_WRITES: f64 = 1_000.0;
/// Bytes of one partition. Source: the DynamoDB developer guide.
pub const PARTITION_BYTES: f64 = 10.0 * GB;
/// Partitions of a new table, which takes 4,000 write units per second. Source: the DynamoDB page about warm throughput.
pub const NEW_TABLE_PARTITIONS: f64 = 4.0;
/// Polls per second of each shard of a table's stream by Lambda. Source: the Lambda page about DynamoDB streams.
pub const STREAM_POLLS: f64 = 4.0;
/// `PutEvents` requests per second to all event buses of an account. Source: the EventBridge quotas page.
pub const PUT_EVENTS: f64 = 10_000.0;
/// `PutLogEvents` requests per second to all log groups of an account. Source: the CloudWatch Logs quotas page.
pub const PUT_LOG_EVENTS: f64 = 5_000.0;

/// Bytes of a GB as DynamoDB counts it.
pub const GB: f64 = 1_073_741_824.0;
