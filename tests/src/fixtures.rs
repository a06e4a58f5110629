//! Keys, providers, webhooks and faults that most tests use.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use switchhook_aws::random::RandomIds;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::clock::Clock;
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::fake::DeliveryFaults;
pub use switchhook_local::{CALL_RETENTION, INBOX_RETENTION, MAX_RECEIVE_COUNT};
use switchhook_local::{CALLS_TABLE, CloudOptions, DEFAULT_RETRY_POLICY};
use switchhook_providers::{DialRates, Key, ProvidersFile, samples, verifying_key};

/// Signing key of every provider.
pub const KEY: &str = "a key of the tests, as long as it must be";
/// Second signing key of Retell, whose keys are being rotated.
pub const OLD_KEY: &str = "the key before, as long as it must be";
pub const PUBLIC_URL: &str = "https://hooks.example.com";
pub const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(900);
/// Start of every test's virtual time: 2026-01-01T00:00:00Z, in Unix seconds.
pub const START_S: u64 = 1_767_225_600;
pub const MINUTE: Duration = Duration::from_secs(60);
/// Rate of every provider in most tests.
const DIAL_RATE: &str = "2.5";
/// Shards of the indexes in most tests. There are others than the first one, and an idle run of a schedule sends half as many requests as
/// with the default number.
const SHARDS: &str = "2";

/// Options of the local stack in most tests, with this secret.
///
/// # Panics
/// If the secret is not valid.
#[must_use]
pub fn options(secret: &Value) -> CloudOptions {
    CloudOptions {
        providers: ProvidersFile::from_json(&secret.to_string()).unwrap_or_else(|error| panic!("{error}")),
        replaces_secrets: false,
        reads_secrets: false,
        dial_rates: dial_rates(secret, DIAL_RATE),
        inactivity_timeout: INACTIVITY_TIMEOUT,
        tick: MINUTE,
        data_dir: None,
        clock: Clock::starting_at(UNIX_EPOCH + Duration::from_secs(START_S)),
        default_retry_policy: DEFAULT_RETRY_POLICY,
        dialers: 100,
        block_on_request: true,
        index_numbers: true,
        index_shards: SHARDS.parse().unwrap_or_else(|error| panic!("{error}")),
        max_receive_count: MAX_RECEIVE_COUNT,
        random_ids: RandomIds::seeded(1),
        seed: 1,
        delivery_faults: DeliveryFaults::NONE,
    }
}

/// Rates at which calls are placed with every provider and further account that has a `dial` in the secret.
///
/// # Panics
/// If the rate is out of range.
#[must_use]
pub fn dial_rates(secret: &Value, rate: &str) -> DialRates {
    let entries = secret.as_object().into_iter().flatten();
    let rates = entries.filter(|(_, entry)| entry["dial"].is_object()).map(|(name, _)| format!("{name}={rate}"));
    let rates: Vec<String> = rates.collect();
    rates.join(",").parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A secret that configures every provider. Retell has two keys, as in the middle of a key rotation.
#[must_use]
pub fn all_providers() -> Value {
    let verifying = |provider| Key::new(KEY).map(|key| verifying_key(provider, &key)).unwrap_or_default();
    json!({
        "retell": {"keys": [KEY, OLD_KEY], "dial": {"api_key": "an API key of the tests"}},
        "twilio": {"keys": [KEY], "public_url": PUBLIC_URL},
        "vapi": {"keys": [KEY]},
        "telnyx": {"keys": [verifying(Provider::Telnyx)]},
        "elevenlabs": {"keys": [KEY]},
        "plivo": {"keys": [KEY], "public_url": PUBLIC_URL},
        "vonage": {"keys": [KEY]},
        "livekit": {"keys": [KEY]},
        "daily": {"keys": [verifying(Provider::Daily)]},
        "bland": {"keys": [KEY]},
        "signalwire": {"keys": [KEY], "public_url": PUBLIC_URL},
        "generic": {"keys": [KEY]},
    })
}

/// The text of a JSON string. Empty for any other value.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A realistic webhook body, by its name.
///
/// # Panics
/// If no body has that name.
#[must_use]
pub fn sample(name: &str) -> &'static str {
    let found = samples().iter().find(|(known, _)| *known == name);
    found.map_or_else(|| panic!("there is no sample {name}"), |(_, body)| body)
}

/// The body of a generic webhook about a call. `second` is the time of the event, counted from the start of the test.
#[must_use]
pub fn generic(call_id: &str, event_id: &str, event_type: &str, second: u64) -> String {
    let at = i64::try_from((START_S + second) * 1_000).unwrap_or(i64::MAX);
    json!({
        "event_id": event_id, "type": event_type, "call_id": call_id,
        "occurred_at": Timestamp::from_millis(at).to_string(), "call": {"sid": format!("sid-{call_id}")},
    })
    .to_string()
}

/// The error of a service that is down. The SDK does not retry this error. Otherwise a long outage would use up the
/// client's retry quota.
#[must_use]
pub fn down() -> Fault {
    Fault::ErrorBefore { status: 400, code: "AccessDeniedException".to_owned() }
}

/// A fault hook that makes every request to DynamoDB fail.
#[must_use]
pub fn database_down(call: &RequestInfo<'_>) -> Option<Fault> {
    (call.service == Service::DynamoDb).then(down)
}

/// Returns true if the request is for the table or queue with this name. A request to EventBridge or to Secrets Manager
/// matches every name.
#[must_use]
pub fn is_request_to(call: &RequestInfo<'_>, name: &str) -> bool {
    let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
    match call.service {
        Service::DynamoDb => body["TableName"] == name || body["RequestItems"].get(name).is_some(),
        Service::Sqs => text(&body["QueueUrl"]).ends_with(&format!("/{name}")),
        Service::EventBridge | Service::SecretsManager => true,
    }
}

/// True for the requests by which the consumer reads calls.
#[must_use]
pub fn reads_calls_to_fold(call: &RequestInfo<'_>) -> bool {
    let is_read = ["GetItem", "BatchGetItem"].contains(&call.operation);
    is_read && call.sender == Some("consumer") && is_request_to(call, CALLS_TABLE)
}
