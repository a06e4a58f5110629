//! A subscriber for the time of a check: a rule and a queue in a deployed stack, the event stream of a local one.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use switchhook_aws::bus::SOURCE;
use tokio::time::{Instant, sleep};

use super::id::CheckId;
use crate::aws::AwsServices;
use crate::error::Error;
use crate::web;

/// Time between two requests for messages.
const POLL: Duration = Duration::from_millis(250);
/// Time between two trial events.
const TRIAL_PERIOD: Duration = Duration::from_secs(2);
/// Time for which one request reads the event stream of a local stack.
const STREAM_READ: Duration = Duration::from_secs(1);
/// Source and type of the trial events. The rules of other subscribers match the source of the stack.
const TRIAL_SOURCE: &str = "switchhook.check";
const TRIAL_TYPE: &str = "check.trial";

/// Subscriber of the domain events of a check's call.
pub(super) enum Subscription {
    /// URL of a `switchhook dev`.
    Local(String),
    Queue {
        services: Box<AwsServices>,
        bus: String,
        url: String,
    },
}

impl Subscription {
    /// Makes a rule and a queue.
    pub(super) async fn make(services: &AwsServices, bus: &str, id: &CheckId) -> Result<Self, Error> {
        let name = id.subscription();
        let (url, arn) = services.create_queue(&name).await?;
        let rule = services.put_rule(bus, &name, &json!({"detail": {"call_id": [id.as_str()]}})).await?;
        services.allow_rule(&url, &arn, &rule).await?;
        services.put_target(bus, &name, &arn).await?;
        Ok(Self::Queue { services: Box::new(services.clone()), bus: bus.to_owned(), url })
    }

    /// Waits until the subscription works. **EventBridge takes a while to know a new rule, and an event before that is lost.**
    /// So this puts trial events on the bus until one arrives. False if none arrives in time.
    pub(super) async fn wait_until_ready(&self, id: &CheckId, timeout: Duration) -> Result<bool, Error> {
        let Self::Queue { services, bus, url } = self else { return Ok(true) };
        let started = Instant::now();
        let mut next_trial = started;
        while started.elapsed() < timeout {
            if Instant::now() >= next_trial {
                services.put_event(bus, TRIAL_SOURCE, TRIAL_TYPE, &json!({"call_id": id.as_str()})).await?;
                next_trial = Instant::now() + TRIAL_PERIOD;
            }
            let bodies = services.receive_bodies(url).await?;
            if bodies.iter().any(|body| type_of(body, TRIAL_SOURCE, id).is_some()) {
                return Ok(true);
            }
            sleep(POLL).await;
        }
        Ok(false)
    }

    /// Waits for a domain event of the call. Returns the types of all that arrived until then.
    pub(super) async fn wait_for(
        &self,
        wanted: &'static str,
        id: &CheckId,
        timeout: Duration,
    ) -> Result<BTreeSet<String>, Error> {
        let started = Instant::now();
        let mut types = BTreeSet::new();
        while started.elapsed() < timeout && !types.contains(wanted) {
            match self {
                Self::Queue { services, url, .. } => {
                    let bodies = services.receive_bodies(url).await?;
                    types.extend(bodies.iter().filter_map(|body| type_of(body, SOURCE, id)));
                    if !types.contains(wanted) {
                        sleep(POLL).await;
                    }
                }
                Self::Local(url) => types.extend(read_stream(url, wanted, id).await?),
            }
        }
        Ok(types)
    }
}

/// Reads the types of the call's events from the stream of a local stack, which begins with the first event of the stack.
async fn read_stream(url: &str, wanted: &'static str, id: &CheckId) -> Result<Vec<String>, Error> {
    let request = web::request(Method::GET, &format!("{url}/domain-events"))?;
    let (of_call, of_wanted) = (id.clone(), id.clone());
    let lines = web::lines_until(
        request,
        STREAM_READ,
        move |line| type_of_line(line, &of_call).is_some(),
        move |line| type_of_line(line, &of_wanted).is_some_and(|kind| kind == wanted),
    );
    Ok(lines.await?.iter().filter_map(|line| type_of_line(line, id)).collect())
}

/// Returns the type of an event in a message of EventBridge. `None` if it is of another source or call.
fn type_of(body: &str, source: &str, id: &CheckId) -> Option<String> {
    let event: Value = serde_json::from_str(body).ok()?;
    let is_ours = event.get("source")? == source && event.pointer("/detail/call_id")? == id.as_str();
    is_ours.then(|| event.get("detail-type")?.as_str().map(str::to_owned))?
}

/// Returns the type of a domain event in a line of the stream. `None` if the line is another, or the event of another call.
fn type_of_line(line: &str, id: &CheckId) -> Option<String> {
    let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    let is_ours = event.get("call_id")? == id.as_str();
    is_ours.then(|| event.get("type")?.as_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_the_call_and_of_the_source_count() {
        let id: CheckId = "check-7f3a90c1d2e4".parse().unwrap();
        let message = |source: &str, call: &str| {
            json!({"source": source, "detail-type": "call.canceled", "detail": {"call_id": call}}).to_string()
        };
        assert_eq!(type_of(&message(SOURCE, id.as_str()), SOURCE, &id).as_deref(), Some("call.canceled"));
        assert_eq!(type_of(&message(TRIAL_SOURCE, id.as_str()), SOURCE, &id), None);
        assert_eq!(type_of(&message(SOURCE, "check-000000000000"), SOURCE, &id), None);
        let line = r#"data: {"type":"call.initiated","call_id":"check-7f3a90c1d2e4"}"#;
        assert_eq!(type_of_line(line, &id).as_deref(), Some("call.initiated"));
        assert_eq!(type_of_line("event: call.initiated", &id), None);
    }
}
