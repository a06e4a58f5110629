//! Ledger of the requests that a program sends to AWS, from which it can tell their cost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::date_time::{DateTime, Format};
use switchhook_domain::Timestamp;

use crate::sdk::Clock;

/// Bytes that one eventually consistent read of half a unit returns.
const READ_BYTES: u64 = 4 * 1024;
/// Bytes that one write unit stores.
const WRITE_BYTES: u64 = 1024;

/// Requests of one program. Clones write into the same ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    usage: Arc<Mutex<BTreeMap<(String, String), Usage>>>,
    ahead_ms: Arc<AtomicI64>,
}

/// Use of one operation of one service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub requests: u64,
    /// Halves of read units, estimated from the size of the responses.
    pub half_read_units: u64,
    /// Write units, estimated from the size of the requests.
    pub write_units: u64,
    /// Metrics whose values were asked for.
    pub metrics: u64,
}

impl Usage {
    /// Adds another use to this one.
    pub const fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.half_read_units += other.half_read_units;
        self.write_units += other.write_units;
        self.metrics += other.metrics;
    }
}

impl Ledger {
    /// Adds a use of an operation, for example of `GetItem` of `dynamodb`.
    pub fn record(&self, service: &str, operation: &str, usage: Usage) {
        let mut entries = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        entries.entry((service.to_owned(), operation.to_owned())).or_default().add(usage);
    }

    /// Returns the use of each operation, by service and operation.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<(String, String), Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the `date` of a response that arrived at `now`, by the clock of this machine.
    pub fn note_date(&self, date: Option<&str>, now: Timestamp) {
        let date = date.and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
        if let Some(at_ms) = date.and_then(|date| date.to_millis().ok()) {
            self.ahead_ms.store(Timestamp::from_millis(at_ms).millis_since(now), Ordering::Relaxed);
        }
    }

    /// Milliseconds by which AWS is ahead of the clock of this machine, by the `date` of the last response. That has whole seconds, so the
    /// true figure is up to a second more. 0 before the first response.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }

    /// Returns the same configuration, whose clients write their requests into this ledger. A repeated request counts again.
    #[must_use]
    pub fn watch(&self, config: &SdkConfig) -> SdkConfig {
        let Some(inner) = config.http_client() else { return config.clone() };
        let client = Recording { inner, ledger: self.clone(), clock: Clock::from_config(config) };
        config.to_builder().http_client(SharedHttpClient::new(client)).build()
    }
}

/// HTTP client, or one of its connectors, that records its requests.
#[derive(Clone, Debug)]
struct Recording<T> {
    inner: T,
    ledger: Ledger,
    clock: Clock,
}

impl HttpClient for Recording<SharedHttpClient> {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Recording { inner, ledger: self.ledger.clone(), clock: self.clock.clone() })
    }
}

impl HttpConnector for Recording<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
        let sent = request.body().content_length().unwrap_or_default();
        let (ledger, clock) = (self.ledger.clone(), self.clock.clone());
        let response = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let response = response.await;
            if let Ok(response) = &response {
                ledger.note_date(response.headers().get("date"), clock.now());
            }
            let got = response.as_ref().map_or(0, |response| {
                let header = response.headers().get("content-length").and_then(|length| length.parse().ok());
                header.or_else(|| response.body().content_length()).unwrap_or_default()
            });
            let (service, operation) = names(&target);
            ledger.record(&service, operation, usage(&service, operation, sent, got));
            response
        })
    }
}

/// Returns service and operation of a target, for example `dynamodb` and `GetItem` of `DynamoDB_20120810.GetItem`.
fn names(target: &str) -> (String, &str) {
    let (prefix, operation) = target.split_once('.').unwrap_or((target, ""));
    let service = prefix.split('_').next().unwrap_or_default().to_ascii_lowercase();
    let service = service.trim_start_matches("amazon").trim_start_matches("aws");
    (service.to_owned(), operation)
}

fn usage(service: &str, operation: &str, sent: u64, got: u64) -> Usage {
    let one = Usage { requests: 1, ..Usage::default() };
    if service != "dynamodb" {
        return one;
    }
    match operation {
        "GetItem" | "BatchGetItem" | "Query" | "Scan" | "TransactGetItems" => {
            Usage { half_read_units: got.div_ceil(READ_BYTES).max(1), ..one }
        }
        _ => Usage { write_units: sent.div_ceil(WRITE_BYTES).max(1), ..one },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_from_their_targets() {
        assert_eq!(names("DynamoDB_20120810.GetItem"), ("dynamodb".to_owned(), "GetItem"));
        assert_eq!(names("AmazonSQS.GetQueueAttributes"), ("sqs".to_owned(), "GetQueueAttributes"));
        assert_eq!(names("AWSEvents.PutEvents"), ("events".to_owned(), "PutEvents"));
        assert_eq!(names("secretsmanager.GetSecretValue"), ("secretsmanager".to_owned(), "GetSecretValue"));
        assert_eq!(names(""), (String::new(), ""));
    }

    #[test]
    fn units_follow_the_size_of_what_is_read_or_written() {
        let reads = |bytes| usage("dynamodb", "Query", 100, bytes).half_read_units;
        assert_eq!([reads(0), reads(4_096), reads(4_097)], [1, 1, 2]);
        assert_eq!(usage("dynamodb", "PutItem", 1_025, 2).write_units, 2);
        assert_eq!(usage("sqs", "SendMessage", 5_000, 5_000), Usage { requests: 1, ..Usage::default() });
    }

    #[test]
    fn response_tells_how_far_aws_is_ahead() {
        let ledger = Ledger::default();
        let now = Timestamp::parse_rfc3339("2026-11-20T09:01:00.250Z").unwrap();
        ledger.note_date(Some("Fri, 20 Nov 2026 09:00:00 GMT"), now);
        assert_eq!(ledger.clone().ahead_ms(), -60_250);
        for unknown in [None, Some("yesterday")] {
            ledger.note_date(unknown, now);
        }
        assert_eq!(ledger.ahead_ms(), -60_250, "a response without a date tells nothing");
    }

    #[test]
    fn clones_share_one_ledger() {
        let ledger = Ledger::default();
        let one = Usage { requests: 1, metrics: 3, ..Usage::default() };
        ledger.record("monitoring", "GetMetricData", one);
        ledger.clone().record("monitoring", "GetMetricData", one);
        let entries = ledger.entries();
        let usage = entries[&("monitoring".to_owned(), "GetMetricData".to_owned())];
        assert_eq!((usage.requests, usage.metrics), (2, 6));
    }
}
