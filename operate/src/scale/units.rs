//! Use of AWS by one webhook and by one dial. The tests in `tests/it/budget/scale.rs` measure it in the local cloud.

use serde::Serialize;

/// Messages in each batch of the consumer in the measurement, and in the largest mean batch of the model.
pub const BATCH: f64 = 3.0;

/// Bytes of the log line that the consumer writes for a batch of up to three messages. It has the metrics of the batch.
pub const BATCH_LINE_BYTES: f64 = 426.0;

/// Bytes of the log line that the relay writes for a batch of one record.
pub const RELAY_LINE_BYTES: f64 = 480.0;

/// Use of AWS by one webhook, or by one dial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    /// Requests to the HTTP API.
    pub http_requests: f64,
    /// Invocations of functions other than the consumer and the relay, which are invoked once per batch.
    pub invocations: f64,
    /// Messages of the events queue.
    pub messages: f64,
    /// Requests to SQS other than the two by which Lambda receives and deletes a batch of the events queue.
    pub sqs_requests: f64,
    pub inbox_writes: f64,
    pub received_writes: f64,
    pub calls_writes: f64,
    /// Records of the calls table's stream that pass the filter of the relay.
    pub relay_records: f64,
    pub wake_writes: f64,
    /// Writes to `by_wake` that concern the queue of the reconciler. Each costs one unit.
    pub reconcile_writes: f64,
    /// Write units of `by_appointment` and `by_party`.
    pub other_index_writes: f64,
    pub reads: f64,
    /// Read units of the sweep.
    pub sweep_reads: f64,
    pub domain_events: f64,
    /// Bytes of log lines, with the access log of the HTTP API and without the lines of batches of the consumer and of the relay.
    pub log_bytes: f64,
    /// Bytes that the inbox table stores, without its indexes. DynamoDB adds 100 bytes to each item.
    pub inbox_bytes: f64,
    /// Bytes that the calls table stores, without its indexes, and with the same addition.
    pub calls_bytes: f64,
    /// Bytes that the indexes of the inbox table store, with the same addition to each of their entries.
    pub inbox_index_bytes: f64,
    /// Bytes that the indexes of the calls table store, with the same addition.
    pub calls_index_bytes: f64,
}

impl Units {
    /// Adds other units so many times.
    #[must_use]
    pub fn plus(&self, times: f64, other: &Self) -> Self {
        Self {
            http_requests: self.http_requests + times * other.http_requests,
            invocations: self.invocations + times * other.invocations,
            messages: self.messages + times * other.messages,
            sqs_requests: self.sqs_requests + times * other.sqs_requests,
            inbox_writes: self.inbox_writes + times * other.inbox_writes,
            received_writes: self.received_writes + times * other.received_writes,
            calls_writes: self.calls_writes + times * other.calls_writes,
            relay_records: self.relay_records + times * other.relay_records,
            wake_writes: self.wake_writes + times * other.wake_writes,
            reconcile_writes: self.reconcile_writes + times * other.reconcile_writes,
            other_index_writes: self.other_index_writes + times * other.other_index_writes,
            reads: self.reads + times * other.reads,
            sweep_reads: self.sweep_reads + times * other.sweep_reads,
            domain_events: self.domain_events + times * other.domain_events,
            log_bytes: self.log_bytes + times * other.log_bytes,
            inbox_bytes: self.inbox_bytes + times * other.inbox_bytes,
            calls_bytes: self.calls_bytes + times * other.calls_bytes,
            inbox_index_bytes: self.inbox_index_bytes + times * other.inbox_index_bytes,
            calls_index_bytes: self.calls_index_bytes + times * other.calls_index_bytes,
        }
    }

    /// Returns the names of the units with their values.
    #[must_use]
    pub const fn rows(&self) -> [(&'static str, f64); 19] {
        [
            ("requests to the HTTP API", self.http_requests),
            ("invocations, without consumer and relay", self.invocations),
            ("messages of the events queue", self.messages),
            ("requests to SQS, without those of batches", self.sqs_requests),
            ("write units of the inbox table", self.inbox_writes),
            ("write units of `by_received`", self.received_writes),
            ("write units of the calls table", self.calls_writes),
            ("records of the stream for the relay", self.relay_records),
            ("write units of `by_wake`", self.wake_writes),
            ("of these, in the reconciler's queues", self.reconcile_writes),
            ("write units of `by_appointment` and `by_party`", self.other_index_writes),
            ("read units", self.reads),
            ("read units of the sweep", self.sweep_reads),
            ("domain events", self.domain_events),
            ("bytes of log lines, without those of batches", self.log_bytes),
            ("bytes stored in the inbox table", self.inbox_bytes),
            ("bytes stored in the calls table", self.calls_bytes),
            ("bytes stored in the indexes of the inbox table", self.inbox_index_bytes),
            ("bytes stored in the indexes of the calls table", self.calls_index_bytes),
        ]
    }
}

/// Kind of traffic whose units are measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    pub name: &'static str,
    pub description: &'static str,
    pub webhooks_per_call: f64,
    /// Calls on a page of the provider's own list, which discovery reads.
    pub calls_per_page: f64,
    pub webhook: Units,
}

/// Calls through Retell with three webhooks of 5 KB on average.
pub const RETELL: Profile = Profile {
    name: "retell",
    description: "three webhooks per call, 5 KB on average",
    webhooks_per_call: 3.0,
    calls_per_page: 10.0,
    webhook: Units {
        http_requests: 1.0,
        invocations: 1.0,
        messages: 1.0,
        sqs_requests: 1.0,
        inbox_writes: 7.0 / 3.0,
        received_writes: 1.0,
        calls_writes: 1.0,
        relay_records: 1.0,
        wake_writes: 1.0,
        reconcile_writes: 2.0 / 3.0,
        other_index_writes: 2.0 / 3.0,
        reads: 1.0,
        sweep_reads: 0.2444,
        domain_events: 7.0 / 3.0,
        log_bytes: 1_241.7,
        inbox_bytes: 1_850.0,
        calls_bytes: 338.7,
        inbox_index_bytes: 240.2,
        calls_index_bytes: 155.4,
    },
};

/// Calls through Twilio with five callbacks each.
pub const TWILIO: Profile = Profile {
    name: "twilio",
    description: "five callbacks per call, 0.6 KB on average",
    webhooks_per_call: 5.0,
    calls_per_page: 50.0,
    webhook: Units {
        inbox_writes: 1.0,
        relay_records: 0.8,
        wake_writes: 0.6,
        reconcile_writes: 0.4,
        other_index_writes: 0.4,
        sweep_reads: 0.1533,
        domain_events: 1.2,
        log_bytes: 1_159.3,
        inbox_bytes: 618.0,
        calls_bytes: 204.5,
        inbox_index_bytes: 230.4,
        calls_index_bytes: 93.3,
        ..RETELL.webhook
    },
};

/// One dial that is accepted: the request that creates the call, the claim, the dial, and their traces in the row of the call.
/// The webhooks of the call come on top.
pub const DIAL: Units = Units {
    http_requests: 1.0,
    invocations: 3.0,
    messages: 1.0,
    sqs_requests: 4.0,
    inbox_writes: 3.0,
    received_writes: 2.0,
    calls_writes: 9.0,
    relay_records: 0.933,
    wake_writes: 3.933,
    reconcile_writes: 0.0,
    other_index_writes: 0.0,
    reads: 8.0,
    sweep_reads: 0.0,
    domain_events: 0.0,
    log_bytes: 1_988.0,
    inbox_bytes: 1_419.0,
    calls_bytes: 798.7,
    inbox_index_bytes: 531.0,
    calls_index_bytes: 46.8,
};
