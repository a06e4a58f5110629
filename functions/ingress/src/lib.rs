//! `POST /webhooks/{provider}`: verifies a webhook, stores it, queues it, answers.
//!
//! **2xx means that the event is stored and queued.** An event that cannot be folded is stored only.
//!
//! Some providers ask what to do with an inbound call. Their question is stored like any event, and the response is the
//! configured answer.
//!
//! The order of checks is fixed: edge, provider, source address, body size, signature, content. A rejected request costs no AWS
//! call, with one exception. If the provider has no entry, or its entry refuses the source address or the signature, the webhook keys are
//! read again, at most once in ten seconds.

mod answer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use lambda_http::request::RequestContext;
use lambda_http::{Body, Request, RequestExt, Response};
use switchhook_aws::Error;
use switchhook_aws::bus::Bus;
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::http::{path_of, trace_id_of};
use switchhook_aws::inbox::{BODY_BYTES_MAX, Inbox, NewEvent, PutOutcome, submit};
use switchhook_aws::question::{AnswerClient, GivenAnswer};
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::WebhookKeys;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallId, Disposition, EventId, Origin, Provider, Timestamp, TraceId, WebhookQuarantined};
use switchhook_providers::{
    DEDUPE_RETENTION, Entries, Entry, ReadNotes, Reading, UnverifiedWebhook, VerifiedWebhook, VerifyError,
    WebhookConfig, is_question, key_number, read_as_configured, verify,
};

use self::answer::{Answer, respond_to_question};

/// Request headers stored with an event, for debugging. None of them holds a secret.
const STORED_HEADERS: [&str; 4] = ["content-type", "user-agent", "x-event-id", "i-twilio-idempotency-token"];
const HEADER_CHARS_MAX: usize = 120;

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub shards: Shards,
    pub queue_url: String,
    pub dlq_url: String,
    pub event_bus: String,
    pub webhook_keys_secret_id: String,
    pub inbox_retention: Duration,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Names every variable that is missing or not valid.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            shards: environment.shards(),
            queue_url: environment.text("QUEUE_URL"),
            dlq_url: environment.text("DLQ_URL"),
            event_bus: environment.text("EVENT_BUS"),
            webhook_keys_secret_id: environment.text("WEBHOOK_KEYS_SECRET_ID"),
            // The inbox must know an id for as long as a replayed webhook passes the check of its timestamp.
            inbox_retention: environment.days_at_least("INBOX_RETENTION_DAYS", DEDUPE_RETENTION),
        };
        environment.check(config)
    }
}

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Ingress {
    pub webhook_keys: WebhookKeys,
    pub inbox: Inbox,
    pub queue: Queue,
    pub dlq: Queue,
    pub bus: Bus,
    /// Client that asks for answers to the questions of providers.
    pub answers: AnswerClient,
    pub clock: Clock,
}

/// Names of the metrics that count which of several keys verified a webhook. Every later key counts as the last.
const KEY_METRICS: [&str; 4] = ["key_1", "key_2", "key_3", "key_4"];

/// Facts about an authentic webhook, for the log and the metrics.
#[derive(Clone, Debug, Default)]
struct Notes {
    /// Provider in the path. `None` if neither Switchhook nor the configuration knows it.
    provider: Option<Provider>,
    /// True if the webhook proves only that its sender knows a key.
    unsigned: bool,
    read: ReadNotes,
    /// Index of the key that verified the webhook. `None` if the provider has only one key.
    key_index: Option<usize>,
    event_type: Option<String>,
    call_id: Option<CallId>,
    appointment_id: Option<String>,
    /// Answer to the provider's question. `None` if it asked none, or if no answer is configured.
    question: Option<GivenAnswer>,
}

impl Ingress {
    /// Handles one request. Every request gets an answer, also when storing fails.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let now = self.clock.now();
        let context = Context::of(&request);
        let mut notes = Notes::default();
        let answer = match self.receive(request, &context, &mut notes, now).await {
            Ok(answer) => answer,
            Err(error) => Answer::StorageFailure(error),
        };
        self.log(&answer, &context, &notes, now);
        match notes.question {
            Some(given) if answer.is_stored() => respond_to_question(given),
            Some(_) | None => answer.respond(),
        }
    }

    async fn receive(
        &self,
        request: Request,
        context: &Context,
        notes: &mut Notes,
        now: Timestamp,
    ) -> Result<Answer, Error> {
        let keys = self.webhook_keys.current(now).await;
        let (added_keys, newer_keys);
        let (provider, mut config) = match admit(&keys, context, request.headers(), notes) {
            Ok(admitted) => admitted,
            Err(answer) => {
                // Somebody may have added the provider, or a source address, a moment ago. Many providers do not repeat a webhook that is
                // answered 404 or 403.
                let may_be_new = context.provider.is_some() && answer.may_be_of_new_entry();
                added_keys = if may_be_new { self.webhook_keys.after_rejection(now).await } else { None };
                let Some(added) = &added_keys else { return Ok(answer) };
                match admit(added, context, request.headers(), notes) {
                    Ok(admitted) => admitted,
                    Err(answer) => return Ok(answer),
                }
            }
        };
        let (parts, body) = request.into_parts();
        if body.len() > BODY_BYTES_MAX {
            return Ok(Answer::TooLarge);
        }
        let webhook = UnverifiedWebhook {
            headers: &parts.headers,
            path: &context.path,
            query: parts.uri.query().unwrap_or_default(),
            body: &body,
        };
        let webhook = match verify(provider, config, &webhook, now) {
            Ok(webhook) => webhook,
            Err(error) => {
                let rejected = |error: VerifyError| Ok(Answer::InvalidSignature(error.cause(), error.to_string()));
                // Somebody may have changed the entry a moment ago.
                newer_keys =
                    if error.may_be_of_new_entry() { self.webhook_keys.after_rejection(now).await } else { None };
                let Some(newer) = newer_keys.as_ref().and_then(|keys| keys.config(provider)) else {
                    return rejected(error);
                };
                config = newer;
                match verify(provider, config, &webhook, now) {
                    Ok(webhook) => webhook,
                    Err(error) => return rejected(error),
                }
            }
        };
        notes.unsigned = config.is_unsigned();
        // Which key matched tells when an old key can be removed. With one key there is nothing to tell.
        notes.key_index = (config.keys_total() > 1).then_some(webhook.key_index());
        let reading;
        (reading, notes.read) = read_as_configured(config, &webhook, now);
        notes.event_type = Some(reading.event_type_label().to_owned());
        notes.call_id = reading.call_id().cloned();
        let question = config.question().filter(|_| is_question(&webhook, &reading));
        if let Reading::Event(event) = &reading {
            notes.appointment_id.clone_from(&event.appointment_id);
        }
        let stored = self.store(&webhook, reading, stored_headers(&parts.headers), &context.trace_id, now);
        let Some(question) = question else { return stored.await };
        // The provider holds the line, so storing and asking share the time.
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let asked = self.answers.answer(question, provider, (content_type, webhook.body()), now);
        let (answer, given) = tokio::join!(stored, asked);
        notes.question = Some(given);
        answer
    }

    /// Stores a verified webhook, and queues it if it can be folded.
    async fn store(
        &self,
        webhook: &VerifiedWebhook,
        reading: Reading,
        headers: BTreeMap<String, String>,
        trace_id: &str,
        now: Timestamp,
    ) -> Result<Answer, Error> {
        let new_event = |event_id: EventId| NewEvent {
            event_id,
            call_id: None,
            origin: Origin::Provider(webhook.provider()),
            event_type: String::new(),
            occurred_at: None,
            received_at: now,
            query: webhook.query().to_owned(),
            key_index: webhook.key_index(),
            body: webhook.body().to_vec(),
            headers: headers.clone(),
            disposition: None,
            reading: None,
            decision: webhook.decision(),
            cause: None,
            trace_id: trace_id.to_owned(),
        };
        match reading {
            Reading::Event(event) => {
                let new_event = NewEvent {
                    call_id: Some(event.call_id.clone()),
                    event_type: event.event_type.clone(),
                    occurred_at: event.occurred_at(),
                    reading: webhook.provider().is_configured().then(|| event.clone()),
                    ..new_event(event.event_id.clone())
                };
                let outcome = submit(&self.inbox, &self.queue, &new_event, &event).await?;
                self.answer_outcome(outcome, &new_event, Answer::Accepted(event.event_id)).await
            }
            Reading::Recorded { event_id, event_type, call_id } => {
                let disposition = Some(Disposition::Recorded);
                let new_event = NewEvent { event_type, call_id, disposition, ..new_event(event_id.clone()) };
                let outcome = self.inbox.put(&new_event).await?;
                self.answer_outcome(outcome, &new_event, Answer::Recorded(event_id)).await
            }
            Reading::Quarantined { event_id, error } => {
                let disposition = Some(Disposition::Quarantined);
                let new_event = NewEvent { disposition, cause: Some(error.cause()), ..new_event(event_id.clone()) };
                let outcome = self.inbox.put(&new_event).await?;
                let reason = error.to_string();
                // A configured mapping that is wrong now may once have read the same body.
                let was_read =
                    matches!(&outcome, PutOutcome::Duplicate { stored, .. } if stored.disposition != disposition);
                if was_read {
                    return self.answer_outcome(outcome, &new_event, Answer::Quarantined(event_id, reason)).await;
                }
                // Also for a duplicate: the function that stored it may have died before it sent the notice. Within five
                // minutes, SQS drops a second notice.
                self.dlq.send_quarantine_notice(&event_id, &reason, trace_id).await?;
                // A duplicate publishes the same domain event as the first delivery, with the time of that delivery.
                let (received_at, first_trace_id) = match &outcome {
                    PutOutcome::Stored => (now, trace_id),
                    PutOutcome::Duplicate { stored, .. } => (stored.received_at, stored.trace_id.as_str()),
                };
                let first_trace_id = TraceId::new(first_trace_id);
                let quarantined = WebhookQuarantined::new(
                    &event_id,
                    new_event.origin,
                    None,
                    &reason,
                    first_trace_id.as_ref(),
                    received_at,
                );
                self.bus.publish_quarantined(&quarantined).await?;
                self.answer_outcome(outcome, &new_event, Answer::Quarantined(event_id, reason)).await
            }
        }
    }

    /// Chooses the answer by what storing the event found: `if_stored` for a new event.
    async fn answer_outcome(
        &self,
        outcome: PutOutcome,
        new_event: &NewEvent,
        if_stored: Answer,
    ) -> Result<Answer, Error> {
        match outcome {
            PutOutcome::Stored => Ok(if_stored),
            PutOutcome::Duplicate { same_content: true, .. } => {
                Ok(Answer::AlreadyProcessed { event_id: new_event.event_id.clone(), conflict: false })
            }
            PutOutcome::Duplicate { same_content: false, .. } => {
                self.inbox.put_conflict(new_event).await?;
                Ok(Answer::AlreadyProcessed { event_id: new_event.event_id.clone(), conflict: true })
            }
        }
    }

    fn log(&self, answer: &Answer, context: &Context, notes: &Notes, started: Timestamp) {
        let now = self.clock.now();
        let event_id = match answer {
            Answer::Accepted(id)
            | Answer::AlreadyProcessed { event_id: id, .. }
            | Answer::Quarantined(id, _)
            | Answer::Recorded(id) => Some(id.as_str()),
            Answer::EdgeBypassed
            | Answer::EdgeDisabled
            | Answer::UnknownProvider
            | Answer::ProviderDisabled
            | Answer::Forbidden
            | Answer::TooLarge
            | Answer::InvalidSignature(..)
            | Answer::StorageFailure(_) => None,
        };
        let error = match answer {
            Answer::StorageFailure(error) => Some(error.with_causes()),
            Answer::InvalidSignature(_, reason) | Answer::Quarantined(_, reason) => Some(reason.clone()),
            Answer::Accepted(_)
            | Answer::AlreadyProcessed { .. }
            | Answer::Recorded(_)
            | Answer::EdgeBypassed
            | Answer::EdgeDisabled
            | Answer::UnknownProvider
            | Answer::ProviderDisabled
            | Answer::Forbidden
            | Answer::TooLarge => None,
        };
        let fallback = notes.question.as_ref().and_then(|given| given.fallback);
        let (action_taken, cause) = match answer {
            Answer::Accepted(_) => ("accepted", None),
            Answer::AlreadyProcessed { conflict: false, .. } => ("duplicate", None),
            Answer::AlreadyProcessed { conflict: true, .. } => ("duplicate", Some("conflicting_body")),
            Answer::Quarantined(..) => ("quarantined", None),
            Answer::Recorded(_) => ("recorded", None),
            Answer::EdgeBypassed => ("rejected", Some("edge_bypassed")),
            Answer::EdgeDisabled => ("edge_disabled", None),
            Answer::UnknownProvider => ("rejected", Some("unknown_provider")),
            Answer::ProviderDisabled => ("provider_disabled", None),
            Answer::Forbidden => ("rejected", Some("forbidden_source")),
            Answer::TooLarge => ("rejected", Some("too_large")),
            Answer::InvalidSignature(cause, _) => ("rejected", Some(*cause)),
            Answer::StorageFailure(error) => ("storage_failure", Some(error.operation())),
        };
        let is_conflict = matches!(answer, Answer::AlreadyProcessed { conflict: true, .. });
        let mut counts = vec![
            ("received", 1),
            ("answer_ms", now.millis_since(started).unsigned_abs()),
            ("conflicting_body", u64::from(is_conflict)),
            ("unsigned", u64::from(notes.unsigned)),
            ("reserved_call_id", u64::from(notes.read.reserved_call_id)),
            ("unknown_value", u64::from(notes.read.unknown_value.is_some())),
            ("question_fallback", u64::from(fallback.is_some())),
        ];
        let key_metric = notes.key_index.and_then(|index| KEY_METRICS.get(index.min(KEY_METRICS.len() - 1)));
        counts.extend(key_metric.map(|name| (*name, 1)));
        let decision = Decision {
            function: "ingress",
            action_taken,
            provider: notes.provider.as_ref().map(Provider::as_str),
            event_type: notes.event_type.as_deref(),
            event_id,
            call_id: notes.call_id.as_ref().map(CallId::as_str),
            appointment_id: notes.appointment_id.as_deref(),
            cause,
            error: error.or_else(|| fallback.map(str::to_owned)),
            unknown_field: notes.read.unknown_value,
            key_number: notes.key_index.map(key_number),
            trace_id: Some(&context.trace_id),
            counts,
            ..Decision::default()
        };
        decision
            .log(now, matches!(answer, Answer::StorageFailure(_) | Answer::ProviderDisabled | Answer::EdgeDisabled));
    }
}

/// Returns the provider of a webhook and its entry, or the answer to a request that is refused before its body is looked at.
fn admit<'a>(
    keys: &'a Entries<WebhookConfig>,
    context: &Context,
    headers: &http::HeaderMap,
    notes: &mut Notes,
) -> Result<(Provider, &'a WebhookConfig), Answer> {
    let source = match keys.edge() {
        Entry::Configured(edge) => match edge.forwarded(headers) {
            Some(forwarded) => forwarded.source,
            None => return Err(Answer::EdgeBypassed),
        },
        Entry::Unnamed => context.source,
        Entry::Disabled => return Err(Answer::EdgeDisabled),
    };
    let Some(provider) = context.provider else { return Err(Answer::UnknownProvider) };
    // Anybody can invent names of configured providers and accounts, so only those that the secret names reach the log and the metrics.
    notes.provider = Some(provider).filter(|provider| !provider.is_named() || keys.names(*provider));
    let config = match keys.entry(provider) {
        Entry::Configured(config) => config,
        Entry::Unnamed => return Err(Answer::UnknownProvider),
        Entry::Disabled => return Err(Answer::ProviderDisabled),
    };
    // A request without a known source address is refused if there is an allow-list.
    let allowed = match source {
        Some(source) => config.allows(source),
        None => config.allowed_sources().is_empty(),
    };
    if allowed { Ok((provider, config)) } else { Err(Answer::Forbidden) }
}

/// Facts about a request that do not depend on its body.
#[derive(Debug)]
struct Context {
    /// Provider in the path. `None` if no provider has that name.
    provider: Option<Provider>,
    path: String,
    /// Address of the connection. Behind a proxy, the address of the proxy.
    source: Option<IpAddr>,
    trace_id: String,
}

impl Context {
    fn of(request: &Request) -> Self {
        let path = path_of(request);
        // A function URL hands over every method and path. API Gateway has a route for webhooks alone.
        let webhook = path.strip_prefix("/webhooks/").filter(|_| request.method() == http::Method::POST);
        let name = webhook.unwrap_or_default();
        // The webhooks of inbound calls may have a URL of their own: the usual one, followed by `/inbound`.
        let name = name.strip_suffix("/inbound").unwrap_or(name);
        let source = match request.request_context_ref() {
            Some(RequestContext::ApiGatewayV2(context)) => {
                context.http.source_ip.as_deref().and_then(|ip| ip.parse().ok())
            }
            Some(_) | None => None,
        };
        let trace_id = trace_id_of(request).map_or_else(String::new, |trace_id| trace_id.as_str().to_owned());
        Self { provider: name.parse().ok(), path, source, trace_id }
    }
}

fn stored_headers(headers: &http::HeaderMap) -> BTreeMap<String, String> {
    STORED_HEADERS
        .iter()
        .filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.chars().take(HEADER_CHARS_MAX).collect()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchhook_aws::http::request_from_event;

    use super::*;

    /// Provider that the event of a function URL names. Such a URL has no routes.
    fn provider(method: &str, path: &str) -> Option<Provider> {
        let host = "0123456789.lambda-url.us-east-1.on.aws";
        let event = json!({
            "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "", "headers": {"host": host},
            "isBase64Encoded": false,
            "requestContext": {
                "accountId": "anonymous", "apiId": "0123456789", "domainName": host, "requestId": "r", "routeKey": "$default",
                "stage": "$default", "timeEpoch": 0, "time": "",
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "::1", "userAgent": ""},
            },
        });
        Context::of(&request_from_event(serde_json::from_value(event).unwrap())).provider
    }

    #[test]
    fn only_a_post_to_the_path_of_a_provider_is_a_webhook() {
        for path in ["/webhooks/retell", "/webhooks/retell/inbound"] {
            assert_eq!(provider("POST", path), Some(Provider::Retell));
            for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD"] {
                assert_eq!(provider(method, path), None, "{method}");
            }
        }
        for path in [
            "/",
            "/retell",
            "/calls",
            "/webhooks",
            "/webhooks/",
            "/webhooks/nobody",
            "/webhooks/retell/",
            "/webhooks/retell/x",
        ] {
            assert_eq!(provider("POST", path), None, "{path}");
        }
    }
}
