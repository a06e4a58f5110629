//! A local stack in virtual time, and a sender that signs.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::Value;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::{Cloud, CloudOptions};
use switchhook_providers::{Key, Providers, sign};

pub const KEY: &str = "a key of the tests";
pub const OLD_KEY: &str = "the key before";
pub const PUBLIC_URL: &str = "https://hooks.example.com";
pub const PATIENCE: Duration = Duration::from_secs(900);
/// 2026-01-01T00:00:00Z.
pub const START_S: u64 = 1_767_225_600;

/// A stack whose pumps and schedule run until it is dropped. Make it in a runtime with paused time.
#[derive(Debug)]
pub struct World {
    pub cloud: Cloud,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    /// A stack with all three providers.
    #[must_use]
    pub fn new() -> Self {
        let secret = serde_json::json!({
            "retell": {"keys": [KEY, OLD_KEY]},
            "twilio": {"keys": [KEY], "public_url": PUBLIC_URL},
            "generic": {"keys": [KEY]},
        });
        Self::with(&secret)
    }

    /// A stack with these providers.
    ///
    /// # Panics
    /// If the secret is not right.
    #[must_use]
    pub fn with(secret: &Value) -> Self {
        let options = CloudOptions {
            providers: Providers::from_json(&secret.to_string()).unwrap_or_else(|error| panic!("{error}")),
            patience: PATIENCE,
            tick: Duration::from_secs(60),
            data_dir: None,
            start: UNIX_EPOCH + Duration::from_secs(START_S),
        };
        let cloud = Cloud::open(options).unwrap_or_else(|error| panic!("{error}"));
        let run = cloud.clone();
        let running = tokio::spawn(async move { panic!("the stack stopped: {}", run.run().await) });
        Self { cloud, running }
    }

    /// What the stack's clock reads.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.cloud.clock().now_ms()).unwrap_or(i64::MAX))
    }

    /// Posts a body, signed with [`KEY`].
    pub async fn post(&self, provider: Provider, body: &str) -> (StatusCode, Value) {
        self.post_signed(provider, KEY, "", body.as_bytes()).await
    }

    /// Posts a body, signed with a key, with a query (without `?`).
    ///
    /// # Panics
    /// If the key is empty.
    pub async fn post_signed(&self, provider: Provider, key: &str, query: &str, body: &[u8]) -> (StatusCode, Value) {
        let mut url = format!("{PUBLIC_URL}/webhooks/{provider}");
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let key = Key::new(key).unwrap_or_else(|error| panic!("{error}"));
        let signed = sign(provider, &key, &url, body, self.now());
        let path = signed.url.strip_prefix(PUBLIC_URL).unwrap_or_default();
        let mut request = Request::post(path).header("content-type", signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        self.send(request.body(Bytes::copy_from_slice(body))).await
    }

    /// Asks for a path.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Request::get(path).body(Bytes::new())).await
    }

    /// Sends a request as it is.
    ///
    /// # Panics
    /// If it is not a request.
    pub async fn send(&self, request: http::Result<Request<Bytes>>) -> (StatusCode, Value) {
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        let response = self.cloud.request(request).await;
        let body = serde_json::from_slice(response.body()).unwrap_or(Value::Null);
        (response.status(), body)
    }

    /// Lets virtual time pass.
    pub async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets what is on its way arrive.
    pub async fn settle(&self) {
        self.wait(Duration::from_secs(2)).await;
    }

    /// The types of the domain events of a call, in order.
    #[must_use]
    pub fn published(&self, call_id: &str) -> Vec<String> {
        let of_call = |event: &Value| event["call_id"] == call_id;
        self.domain_events().into_iter().filter(of_call).map(|event| text(&event["type"])).collect()
    }

    /// Every domain event that was published, in order.
    #[must_use]
    pub fn domain_events(&self) -> Vec<Value> {
        let events = self.cloud.bus().events_since(0).into_iter();
        events.map(|event| serde_json::from_str(&event.detail).unwrap_or(Value::Null)).collect()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A JSON string as text.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
