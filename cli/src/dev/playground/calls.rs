//! Calls that the playground places, and how it waits for them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::Timestamp;

use super::{Done, LocalPlayground, PUMP, PlaygroundError};
use crate::paths::encoded;
use crate::words::counted;

/// Time that a dial, or the fold of a webhook, may take.
pub(super) const SOON: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(40);
/// Skips of time after which a call should have come to its end.
const SKIPS_MAX: usize = 60;
/// Least time of one skip, so that a stack with many calls does not stop at each of their wake-ups.
const STEP_MIN: Duration = Duration::from_secs(10);
/// Time until the due time of a call that waits for nothing, at the most.
const DUE_SOON_MS: i64 = 60_000;
const FROM: &str = "+442079460018";
const TO: &str = "+447700900123";

impl LocalPlayground {
    /// Places a call, and holds its webhooks at once if webhooks are held.
    pub(super) async fn place(&self, behaviours: &[String], office_hours: bool) -> Result<Done, PlaygroundError> {
        let mut request =
            json!({"metadata": {"fake": behaviours.join(",")}, "retry": {"attempts_max": 3, "delay_seconds": 60}});
        if office_hours {
            let window = json!({
                "time_zone": "Europe/London", "opens": "09:00", "closes": "18:00",
                "days": ["mon", "tue", "wed", "thu", "fri"],
            });
            set(&mut request, "window", window);
        }
        let call = self.create(request).await?;
        let fake = self.cloud.fake();
        if !fake.is_holding() {
            let shown = self.shown(&call).await?.unwrap_or_default();
            return Ok(Done::new(format!("The call was created. {}", next_step(&shown, self.now()))).call(&call));
        }
        let is_dialled = || fake.last_webhook_at(&call).is_some();
        let started = Instant::now();
        // A call that waits for its window is not dialled.
        let most = if office_hours { SOON / 4 } else { SOON };
        while !is_dialled() && started.elapsed() < most {
            tokio::time::sleep(POLL).await;
        }
        match fake.last_webhook_at(&call) {
            Some(at) => {
                self.skip_to(Timestamp::from_millis(at)).await?;
                let held = fake.held().iter().filter(|held| held.call_id == call).count();
                let text = format!("The call was placed and ended. {} held.", are(held));
                Ok(Done::new(text).call(&call))
            }
            None => Ok(Done::new("The call was created. It has no webhook to hold yet.").call(&call)),
        }
    }

    /// Creates a call by the API. Returns its id.
    pub(super) async fn create(&self, mut request: Value) -> Result<String, PlaygroundError> {
        for (name, value) in [("provider", "retell"), ("from", FROM), ("to", TO)] {
            set(&mut request, name, json!(value));
        }
        let key = format!("try-{:016x}", fastrand::u64(..));
        let http_request = Request::post("/calls")
            .header(http::header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", key)
            .body(Bytes::from(request.to_string()))?;
        let response = self.cloud.request(http_request).await;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        match answer.get("call_id").and_then(Value::as_str) {
            Some(id) if response.status().is_success() => Ok(id.to_owned()),
            Some(_) | None => Err(PlaygroundError::Refused {
                status: response.status().as_u16(),
                body: answer.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Returns the call as the API shows it. `None` if there is no such call.
    pub(super) async fn shown(&self, call: &str) -> Result<Option<Value>, PlaygroundError> {
        let request = Request::builder().method(Method::GET).uri(format!("/call?id={}", encoded(call)));
        let response = self.cloud.request(request.body(Bytes::new())?).await;
        Ok((response.status() == StatusCode::OK).then(|| serde_json::from_slice(response.body()).unwrap_or_default()))
    }

    /// Waits until the call is as it should be.
    pub(super) async fn wait_until(
        &self,
        call: &str,
        is_so: impl Fn(&Value) -> bool + Send + Sync,
    ) -> Result<Value, PlaygroundError> {
        self.poll(call, SOON, is_so).await?.ok_or_else(|| PlaygroundError::TooSlow(call.to_owned()))
    }

    /// Waits until the call is as it should be, for at most this time. `None` if it never was.
    pub(super) async fn poll(
        &self,
        call: &str,
        time: Duration,
        is_so: impl Fn(&Value) -> bool + Send + Sync,
    ) -> Result<Option<Value>, PlaygroundError> {
        let started = Instant::now();
        loop {
            if let Some(shown) = self.shown(call).await?.filter(&is_so) {
                return Ok(Some(shown));
            }
            if started.elapsed() > time {
                return Ok(None);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Skips from one wake-up to the next until the call is settled. Its webhooks, retries and lookups come as they would in time.
    pub(super) async fn settle(&self, call: &str) -> Result<Value, PlaygroundError> {
        let is_settled = |shown: &Value| shown["settled"] == true;
        for _ in 0..SKIPS_MAX {
            if let Some(shown) = self.poll(call, 2 * PUMP, is_settled).await? {
                return Ok(shown);
            }
            if let Some(at) = self.next_wake_up().await? {
                self.skip_to(at.max(self.now().plus(STEP_MIN))).await?;
            }
        }
        Err(PlaygroundError::TooSlow(call.to_owned()))
    }
}

/// Says when the webhooks of a call come that was just created.
pub(super) fn next_step(shown: &Value, now: Timestamp) -> String {
    let due_at = shown.pointer("/job/due_at").and_then(Value::as_str).and_then(Timestamp::parse_rfc3339);
    match due_at {
        Some(at) if at.millis_since(now) > DUE_SOON_MS => {
            format!("It waits for its calling window, and is due at {at}.")
        }
        Some(_) | None => "Its webhooks come within the next minutes.".to_owned(),
    }
}

fn are(held: usize) -> String {
    format!("{} {}", counted(held, "webhook"), if held == 1 { "is" } else { "are" })
}

/// Sets a field of an object.
fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}
