//! The walk of a check: one signed webhook, followed to its domain event.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use switchhook_aws::secret::DISABLED_AGE_MAX;
use switchhook_aws::sign;
use switchhook_domain::{Call, CallId, EventId, Timestamp};
use tokio::time::{Instant, sleep};

use super::advice;
use super::id::CheckId;
use super::key::{StoredKey, url_of_webhooks};
use super::step::{Finding, Steps};
use super::subscription::Subscription;
use crate::error::Error;
use crate::events::Fate;
use crate::stack::Stack;
use crate::web::{self, Response};

/// Steps of the walk of a deployed stack, before the clean-up. A local stack has no bus to subscribe to.
pub(super) const DEPLOYED: [&str; 7] = ["key", "subscription", "webhook", "inbox", "fold", "call", "domain event"];
pub(super) const LOCAL: [&str; 6] = ["key", "webhook", "inbox", "fold", "call", "domain event"];

/// Time between two reads of the call.
const POLL: Duration = Duration::from_millis(250);
/// Type of the webhook, and of the domain event that it causes. Of all endings, it means least to a subscriber.
const ENDING: &str = "call.canceled";
/// Name of the HTTP API in a signature.
const HTTP_API: &str = "execute-api";

/// Things that the walk has made, or may have made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub(super) subscription: bool,
    pub(super) event: bool,
    /// True if the event may be folded after the end of the check.
    pub(super) waits: bool,
}

/// One walk.
pub(super) struct Walk<'a> {
    pub(super) stack: &'a Stack,
    pub(super) id: &'a CheckId,
    /// Base URL of the webhooks, if it differs from the URL of the API.
    pub(super) webhook_url: Option<&'a str>,
    /// Time limit of each wait.
    pub(super) timeout: Duration,
}

impl Walk<'_> {
    /// Walks until a step fails.
    pub(super) async fn run(&self, made: &mut Made, steps: &mut Steps<'_>) {
        let key = match StoredKey::read(self.stack).await {
            Ok((key, found)) => {
                steps.add("key", found);
                key
            }
            Err(failed) => {
                steps.add("key", failed);
                return;
            }
        };
        let subscription = self.subscribe(made, steps).await;
        made.event = true;
        made.waits = true;
        if !steps.add("webhook", self.post(&key).await.unwrap_or_else(|error| advice::failed(&error))) {
            return;
        }
        if !steps.add("inbox", self.find_event().await.unwrap_or_else(|error| advice::failed(&error))) {
            return;
        }
        if !steps.add("fold", self.find_call().await.unwrap_or_else(|error| advice::failed(&error))) {
            return;
        }
        made.waits = false;
        steps.add("call", self.ask_api().await.unwrap_or_else(|error| advice::failed(&error)));
        if let Some(subscription) = subscription {
            let arrived = self.hear(&subscription).await;
            steps.add("domain event", arrived.unwrap_or_else(|error| advice::failed(&error)));
        }
    }

    async fn subscribe(&self, made: &mut Made, steps: &mut Steps<'_>) -> Option<Subscription> {
        let Some(services) = &self.stack.services else {
            return Some(Subscription::Local(self.stack.local.clone().unwrap_or_default()));
        };
        made.subscription = true;
        let ready = async {
            let subscription = Subscription::make(services, &self.stack.names.event_bus, self.id).await?;
            let is_ready = subscription.wait_until_ready(self.id, self.timeout).await?;
            Ok::<_, Error>((subscription, is_ready))
        };
        let (subscription, found) = match ready.await {
            Ok((subscription, true)) => {
                (Some(subscription), Finding::passed("a temporary rule and queue receive events of the bus"))
            }
            Ok((_, false)) => {
                let text =
                    format!("no trial event arrived through a temporary rule within {} s", self.timeout.as_secs());
                (None, Finding::failed(text, "EventBridge may be slow: run the check again with a longer --timeout"))
            }
            Err(error) => (None, advice::failed(&error)),
        };
        steps.add("subscription", found);
        subscription
    }

    /// Posts the webhook. If the key is too new, waits until ingress reads the secret again for a webhook that it cannot accept, and posts
    /// once more.
    async fn post(&self, key: &StoredKey) -> Result<Finding, Error> {
        let (found, is_about_key) = self.post_once(key).await?;
        let read_at = key.stored_at.map(|at| at.plus(DISABLED_AGE_MAX));
        let missing = read_at.map_or(0, |at| at.millis_since(self.stack.now()));
        let missing = Duration::from_millis(u64::try_from(missing).unwrap_or_default());
        if !found.is_failed() || !is_about_key || missing.is_zero() {
            return Ok(found);
        }
        if missing > self.timeout {
            let wait = format!(
                "the key is new, and ingress may not have read it yet: run the check again in {} s, or with --timeout 1m",
                missing.as_secs() + 1
            );
            return Ok(Finding { advice: Some(wait), ..found });
        }
        sleep(missing).await;
        Ok(self.post_once(key).await?.0)
    }

    /// Returns the finding, and true if a key that ingress has not read yet may be the reason.
    async fn post_once(&self, key: &StoredKey) -> Result<(Finding, bool), Error> {
        let (now, url) = (self.stack.now(), url_of_webhooks(self.stack, self.webhook_url));
        let body = json!({
            "event_id": self.id.as_str(), "event_type": ENDING, "occurred_at": now.to_string(),
            "call_id": self.id.as_str(), "call": {"sid": self.id.as_str()},
        });
        let body = body.to_string().into_bytes();
        let Some(request) = key.signed_webhook(&url, body, now)? else {
            return Ok((Finding::failed("the key signs nothing", "give the generic provider a key"), false));
        };
        let answer = web::send_in_background(request, web::TIMEOUT).await?;
        let took = self.stack.now().millis_since(now);
        Ok(self.judge(&answer, &url, took))
    }

    fn judge(&self, answer: &Response, url: &str, took_ms: i64) -> (Finding, bool) {
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default();
        let (status, error) = (answer.status, text("error"));
        let refused = |what: &str| format!("{url} answered {status} {error}: {what}");
        let log = self.log_of("ingress");
        let option = self.stack.options();
        let finding = match (status, error) {
            (200, _) if matches!(text("status"), "accepted" | "already_processed") => {
                return (Finding::passed(format!("accepted by {url} in {took_ms} ms")), false);
            }
            (401, "invalid_signature") => {
                let what = refused("ingress has another key of the generic provider than the secret");
                return (Finding::failed(what, format!("is --stack the stack that this URL belongs to? {log}")), true);
            }
            (404, "unknown_provider") => {
                let what = refused("ingress knows no key of the generic provider");
                return (
                    Finding::failed(
                        what,
                        format!("ingress has not read the secret again, or reads another one: {log}"),
                    ),
                    true,
                );
            }
            (503, "provider_disabled") => {
                let what = refused("ingress cannot read the entry of the generic provider");
                let advice = format!("correct the entry: switchhook providers put FILE {option}");
                return (Finding::failed(what, advice), true);
            }
            (503, "edge_disabled") => {
                let what =
                    refused("ingress cannot read the webhook keys or their entry `edge`, so it refuses every webhook");
                let advice = format!(
                    "correct the entry `edge`, if it is wrong: switchhook providers put FILE {option}; otherwise {log}"
                );
                return (Finding::failed(what, advice), true);
            }
            (403, "edge_bypassed") => Finding::failed(
                refused("the stack takes webhooks only through its edge, and this URL leads past it"),
                "name the URL of the edge with --webhook-url",
            ),
            (403, "forbidden") => Finding::failed(
                refused("the generic provider's allowed_sources do not contain the address of this machine"),
                "run the check from an allowed address, or add this one",
            ),
            (403, _) => Finding::failed(
                refused("the request did not reach ingress"),
                "a firewall rule (WAF), CloudFront, or an API whose default endpoint is off refused it: name the public URL with \
                 --webhook-url",
            ),
            (404, _) => Finding::failed(
                refused("the API has no such route"),
                "the URL must end before /webhooks: name the public URL with --webhook-url",
            ),
            (429, _) => Finding::failed(
                refused("API Gateway throttles webhooks"),
                "raise WebhookRatePerSecond, or wait: other senders use it up",
            ),
            (500, "storage_failure") => {
                Finding::failed(refused("ingress could not store or queue the event"), format!("read why: {log}"))
            }
            (500.., _) => Finding::failed(
                refused("API Gateway got no answer from ingress"),
                format!("ingress is throttled (see concurrency), fails when it starts, or takes too long: {log}"),
            ),
            _ => Finding::failed(
                refused("this is no answer of Switchhook"),
                "check that the URL leads to this stack, and name the public URL with --webhook-url",
            ),
        };
        (finding, false)
    }

    async fn find_event(&self) -> Result<Finding, Error> {
        Ok(match self.stack.inbox.get(&self.id.event_id()).await? {
            Some(_) => Finding::passed(format!("{} is in the inbox", self.id.event_id())),
            None => Finding::failed(
                format!("ingress accepted {}, and the inbox does not have it", self.id.event_id()),
                "the URL belongs to another stack: compare the output ApiUrl, or --webhook-url",
            ),
        })
    }

    async fn find_call(&self) -> Result<Finding, Error> {
        let (event_id, call_id): (EventId, CallId) = (self.id.event_id(), self.id.call_id());
        let started = Instant::now();
        while started.elapsed() < self.timeout {
            let call = self.stack.calls.get_call(&call_id).await?;
            if let Some(entry) =
                call.iter().flat_map(|call: &Call| &call.history).find(|entry| entry.source_event_id == event_id)
            {
                let took = entry.folded_at.millis_since(entry.received_at);
                return Ok(Finding::passed(format!("the consumer folded it into the call {call_id} after {took} ms")));
            }
            sleep(POLL).await;
        }
        let waited = self.timeout.as_secs();
        let log = self.log_of("consumer");
        let note = Fate::read(self.stack, &event_id).await?.map(|fate| fate.note).unwrap_or_default();
        let depth = self.stack.events_queue.depth().await?;
        Ok(match (note.error, depth) {
            (Some(error), _) => Finding::failed(
                format!("the consumer tried {} times within {waited} s and failed: {error}", note.attempts),
                format!("read why: {log}"),
            ),
            (None, 0) => Finding::failed(
                format!("the event left the queue within {waited} s, and its call does not exist"),
                format!("does another stack read the queue? {log}"),
            ),
            (None, depth) => Finding::failed(
                format!("the event was not folded within {waited} s; messages in the events queue: {depth}"),
                format!("is the event source enabled, or the consumer throttled (see above)? {log}"),
            ),
        })
    }

    async fn ask_api(&self) -> Result<Finding, Error> {
        let base = self.stack.names.api_url.trim_end_matches('/');
        let url = format!("{base}/call?id={}", self.id);
        let started = Instant::now();
        let answer = loop {
            let mut request = web::request(Method::GET, &url)?;
            if let Some(services) = self.stack.services.as_ref().filter(|_| !web::is_loopback(request.uri())) {
                sign::sign_for(&mut request, services.config(), HTTP_API, services.region()).await?;
            }
            let answer = web::send_in_background(request, web::TIMEOUT).await?;
            // The API reads with eventual consistency.
            if answer.status != 404 || started.elapsed() >= self.timeout {
                break answer;
            }
            sleep(POLL).await;
        };
        let call: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(match answer.status {
            200 if field("call_id") == self.id.as_str() => Finding::passed(format!(
                "GET /call shows it: lifecycle {}, outcome {}",
                field("lifecycle"),
                field("outcome")
            )),
            401 | 403 => Finding::failed(
                format!("GET {url} answered {}", answer.status),
                "your credentials need the permission execute-api:Invoke on the API",
            ),
            status => {
                Finding::failed(format!("GET {url} answered {status}"), format!("read why: {}", self.log_of("api")))
            }
        })
    }

    async fn hear(&self, subscription: &Subscription) -> Result<Finding, Error> {
        let started: Timestamp = self.stack.now();
        let types = subscription.wait_for(ENDING, self.id, self.timeout).await?;
        if types.contains(ENDING) {
            let took = self.stack.now().millis_since(started);
            let types: Vec<String> = types.into_iter().collect();
            return Ok(Finding::passed(format!("{} arrived after {took} ms", types.join(", "))));
        }
        let failures = self.stack.relay_failures_queue.depth().await?;
        Ok(Finding::failed(
            format!("no {ENDING} arrived within {} s; failed records of the relay: {failures}", self.timeout.as_secs()),
            format!("is the relay's event source enabled (see above)? {}", self.log_of("relay")),
        ))
    }

    /// Command that shows the log of a function.
    fn log_of(&self, function: &str) -> String {
        match &self.stack.local {
            Some(_) => "read the standard error of `switchhook dev`".to_owned(),
            None => {
                let (stack, region) = (&self.stack.names.stack, &self.stack.names.region);
                format!("aws logs tail /aws/lambda/{stack}-{function} --since 10m --region {region}")
            }
        }
    }
}
