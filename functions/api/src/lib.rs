//! What happened to a call, and to an event. Reads only; what cannot be found is 404.

use std::borrow::Cow;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use lambda_http::{Body, Request, Response};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, KEY_BYTES_MAX};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::http::path_of;
use switchhook_aws::inbox::{Inbox, Note, StoredEvent};
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Attempt, Call, CallId, Direction, Disposition, EventId, HistoryEntry, Timestamp};

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub calls_table: String,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config =
            Self { inbox_table: environment.text("INBOX_TABLE"), calls_table: environment.text("CALLS_TABLE") };
        environment.check(config)
    }
}

/// The inbox as this function uses it: it writes nothing, so it keeps nothing.
pub const NO_RETENTION: Duration = Duration::ZERO;

/// The handler and what it works with.
#[derive(Debug)]
pub struct Api {
    pub inbox: Inbox,
    pub calls: Calls,
    pub clock: Clock,
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Call(CallId),
    CallEvents(CallId),
    EventStatus(EventId),
}

impl Api {
    /// Answers one request, whatever it holds.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let started = self.clock.now();
        let mut route = if request.method() == Method::GET { Route::parse(&path_of(&request)) } else { None };
        let mut found = self.find(route.as_ref()).await;
        // An HTTP API has decoded the path, other front doors have not: an id is taken as it stands, then as it decodes.
        if let (Ok(None), Some(decoded)) = (&found, route.as_ref().and_then(Route::decoded)) {
            route = Some(decoded);
            found = self.find(route.as_ref()).await;
        }
        let (code, body) = match &found {
            Ok(Some(body)) => (StatusCode::OK, body.clone()),
            Ok(None) => (
                StatusCode::NOT_FOUND,
                json!({
                    "error": "not_found",
                    "message": if route.is_some() {
                        "nothing is known under this id; one with characters that a path cannot hold must be percent-encoded"
                    } else {
                        "there is GET /calls/{call_id}, /calls/{call_id}/events and /events/{event_id}/status"
                    },
                }),
            ),
            Err(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!({"error": "storage_failure", "message": "the tables could not be read; ask again"}),
            ),
        };
        self.log(route.as_ref(), found.as_ref(), started);
        let mut response = Response::new(Body::Text(body.to_string()));
        *response.status_mut() = code;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        response
    }

    async fn find(&self, route: Option<&Route>) -> Result<Option<Value>, Error> {
        match route {
            Some(Route::Call(id)) => self.call(id).await,
            Some(Route::CallEvents(id)) => self.call_events(id).await,
            Some(Route::EventStatus(id)) => self.event_status(id).await,
            None => Ok(None),
        }
    }

    async fn call(&self, id: &CallId) -> Result<Option<Value>, Error> {
        Ok(self.calls.load(id).await?.map(|call| json!(CallView::of(&call))))
    }

    async fn call_events(&self, id: &CallId) -> Result<Option<Value>, Error> {
        let Some(call) = self.calls.load(id).await? else { return Ok(None) };
        let attempts = call.attempts();
        let events: Vec<EventView> = call.timeline().into_iter().map(|entry| EventView::of(entry, &attempts)).collect();
        Ok(Some(json!({"call_id": call.call_id, "events": events})))
    }

    async fn event_status(&self, id: &EventId) -> Result<Option<Value>, Error> {
        let Some(stored) = self.inbox.load(id).await? else { return Ok(None) };
        let note = self.inbox.note(id).await?;
        let call = match &stored.call_id {
            Some(call_id) => self.calls.load(call_id).await?,
            None => None,
        };
        Ok(Some(json!(StatusView::of(&stored, note, call.as_ref()))))
    }

    fn log(&self, route: Option<&Route>, found: Result<&Option<Value>, &Error>, started: Timestamp) {
        let now = self.clock.now();
        let chain = found.err().map(Error::chain);
        let (call_id, event_id) = match route {
            Some(Route::Call(id) | Route::CallEvents(id)) => (Some(id.as_str()), None),
            Some(Route::EventStatus(id)) => (None, Some(id.as_str())),
            None => (None, None),
        };
        let decision = Decision {
            stage: "api",
            message: "question answered",
            action_taken: match found {
                Ok(Some(_)) => "shown",
                Ok(None) => "not_found",
                Err(_) => "storage_failure",
            },
            call_id,
            event_id,
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            ..Decision::default()
        };
        decision.log(now, found.is_err());
    }
}

impl Route {
    /// Reads a path. An id may hold slashes, so it is what stands between the fixed words.
    fn parse(path: &str) -> Option<Self> {
        let filled = |id: &str| Some(id.to_owned()).filter(|id| !id.is_empty() && id.len() <= KEY_BYTES_MAX);
        if let Some(rest) = path.strip_prefix("/events/") {
            return rest.strip_suffix("/status").and_then(filled).map(|id| Self::EventStatus(EventId::new(id)));
        }
        let rest = path.strip_prefix("/calls/")?;
        match rest.strip_suffix("/events") {
            Some(id) => filled(id).map(|id| Self::CallEvents(CallId::new(id))),
            None => filled(rest).map(|id| Self::Call(CallId::new(id))),
        }
    }

    /// The same with its id decoded; none if it is decoded.
    fn decoded(&self) -> Option<Self> {
        let decode =
            |id: &str| percent_decode_str(id).decode_utf8().ok().filter(|text| text != id).map(Cow::into_owned);
        match self {
            Self::Call(id) => decode(id.as_str()).map(|id| Self::Call(CallId::new(id))),
            Self::CallEvents(id) => decode(id.as_str()).map(|id| Self::CallEvents(CallId::new(id))),
            Self::EventStatus(id) => decode(id.as_str()).map(|id| Self::EventStatus(EventId::new(id))),
        }
    }
}

#[derive(Debug, Serialize)]
struct CallView<'a> {
    call_id: &'a CallId,
    provider: &'static str,
    direction: Option<Direction>,
    appointment_id: Option<&'a str>,
    appointment_status: &'static str,
    job: Value,
    lifecycle: Option<&'static str>,
    outcome: Option<&'static str>,
    settled: bool,
    attempts: Vec<AttemptView<'a>>,
    version: u64,
    created_at: String,
    updated_at: String,
}

impl<'a> CallView<'a> {
    fn of(call: &'a Call) -> Self {
        let attempts = call.attempts();
        let latest = attempts.last();
        Self {
            call_id: &call.call_id,
            provider: call.provider.as_str(),
            direction: call.direction,
            appointment_id: call.appointment_id.as_deref(),
            appointment_status: call.appointment_status().as_str(),
            job: json!({"state": call.job.as_str()}),
            lifecycle: latest.map(Attempt::lifecycle_shown),
            outcome: latest.map(Attempt::outcome_shown),
            settled: call.is_settled(),
            attempts: attempts.iter().map(|attempt| AttemptView::of(call, attempt)).collect(),
            version: call.version,
            created_at: call.created_at.to_string(),
            updated_at: call.updated_at.to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
struct AttemptView<'a> {
    number: u8,
    provider_call_id: Option<&'a str>,
    lifecycle: &'static str,
    outcome: &'static str,
    started_at: String,
    ended_at: Option<String>,
}

impl<'a> AttemptView<'a> {
    fn of(call: &'a Call, attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            provider_call_id: call.slots.get(attempt.slot).and_then(|slot| slot.provider_call_id.as_deref()),
            lifecycle: attempt.lifecycle_shown(),
            outcome: attempt.outcome_shown(),
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.map(|at| at.to_string()),
        }
    }
}

#[derive(Debug, Serialize)]
struct EventView {
    event_id: EventId,
    kind: &'static str,
    implied: bool,
    occurred_at: Option<String>,
    received_at: String,
    disposition: &'static str,
    /// None: it names no attempt.
    attempt: Option<u8>,
}

impl EventView {
    fn of(entry: &HistoryEntry, attempts: &[Attempt]) -> Self {
        let attempt = attempts.iter().find(|attempt| Some(attempt.slot) == entry.slot);
        Self {
            event_id: entry.id(),
            kind: entry.event.kind.as_str(),
            implied: entry.event.implied,
            occurred_at: entry.event.occurred_at.map(|at| at.to_string()),
            received_at: entry.received_at.to_string(),
            disposition: entry.disposition.as_str(),
            attempt: attempt.map(|attempt| attempt.number),
        }
    }
}

#[derive(Debug, Serialize)]
struct StatusView<'a> {
    event_id: &'a EventId,
    call_id: Option<&'a CallId>,
    provider: &'static str,
    #[serde(rename = "type")]
    event_type: &'a str,
    status: &'static str,
    disposition: Option<&'static str>,
    received_at: String,
    processed_at: Option<String>,
    duration_ms: Option<i64>,
    attempts: u32,
    error: Option<String>,
    next_retry_at: Option<String>,
    /// The domain events that it brought about.
    action: Vec<String>,
}

impl<'a> StatusView<'a> {
    fn of(stored: &'a StoredEvent, note: Option<Note>, call: Option<&Call>) -> Self {
        let note = note.unwrap_or_default();
        let entries = call.map(|call| call.history.iter().filter(|entry| entry.source == stored.event_id));
        let mut entries: Vec<&HistoryEntry> = entries.map(Iterator::collect).unwrap_or_default();
        // What the event says itself comes before what it implies.
        entries.sort_by_key(|entry| entry.event.implied);
        let folded = entries.first();
        let decided = stored.disposition.or(note.disposition);
        let (status, disposition) = match (decided, folded) {
            (_, Some(entry)) => ("processed", Some(entry.disposition)),
            (Some(Disposition::Refused), None) => ("processed", decided),
            (Some(disposition), None) => (disposition.as_str(), Some(disposition)),
            (None, None) if note.dead_lettered_at.is_some() => ("dead_lettered", None),
            (None, None) if note.attempts > 0 => ("retrying", None),
            (None, None) => ("queued", None),
        };
        let action = call.map_or_else(Vec::new, |call| {
            let caused = |event: &switchhook_domain::DomainEvent| event.source_event_id == stored.event_id.as_str();
            call.domain_events_from(1).into_iter().filter(caused).map(|event| event.event_type).collect()
        });
        let retries = note.attempts;
        Self {
            event_id: &stored.event_id,
            call_id: stored.call_id.as_ref(),
            provider: stored.origin.as_str(),
            event_type: &stored.event_type,
            status,
            disposition: disposition.map(Disposition::as_str),
            received_at: stored.received_at.to_string(),
            processed_at: folded.map(|entry| entry.folded_at.to_string()),
            duration_ms: folded.map(|entry| entry.folded_at.millis_since(entry.received_at)),
            attempts: if folded.is_some() { retries + 1 } else { retries },
            error: note.error,
            next_retry_at: note.next_retry_at.filter(|_| folded.is_none()).map(|at| at.to_string()),
            action,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_hold_slashes() {
        let check = |path: &str, route: Option<Route>| assert_eq!(Route::parse(path), route, "{path}");
        check("/calls/retell:c1", Some(Route::Call(CallId::new("retell:c1"))));
        check("/calls/appointment:a/b/events", Some(Route::CallEvents(CallId::new("appointment:a/b"))));
        check(
            "/events/switchhook:retell:c1/c1/deadline/5/status",
            Some(Route::EventStatus(EventId::new("switchhook:retell:c1/c1/deadline/5"))),
        );
        check("/calls/", None);
        check("/events//status", None);
        check("/elsewhere", None);
    }

    #[test]
    fn encoded_id_is_decoded_once() {
        let call = Route::Call(CallId::new("appointment%3Aa%252F"));
        let decoded = call.decoded();
        assert_eq!(decoded, Some(Route::Call(CallId::new("appointment:a%2F"))));
        assert_eq!(Route::EventStatus(EventId::new("retell:c1")).decoded(), None);
        assert_eq!(Route::CallEvents(CallId::new("%ff")).decoded(), None, "no text");
    }
}
