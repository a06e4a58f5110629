//! Calls over HTTP: created, canceled and shown; what happened to an event; the numbers that may not be called.
//!
//! **Whatever is written is written under a condition, and a request that is sent again changes nothing.** The id of a
//! call that is created under an idempotency key is made of the key, so that the table itself knows a repetition; the
//! answer holds only what never changes of a call, so that a repetition is answered alike.

mod body;
mod cursor;
#[cfg(test)]
mod document;
mod idempotency;
mod list;
mod load;
mod number;
mod request;
mod response;
mod route;
mod time;
mod view;

use std::time::Duration;

use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, StatusCode};
use lambda_http::{Body, Request, Response};
use serde_json::{Map, Value, json};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, StoreOutcome};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::http::path_of;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::problem::{FieldError, Problem, ProblemKind};
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CALL_ATTEMPTS_MAX, Call, CallId, EventId, Job, Policy, RetryPolicy, Timestamp};

pub use crate::body::BODY_BYTES_MAX;
use crate::idempotency::{idempotency_key, keyed_call_id, random_call_id};
use crate::list::ListQuery;
use crate::number::{INVALID_NUMBER, numbers_in_path};
use crate::response::{Answer, Refusal};
pub use crate::route::{OTHER_ROUTES, Operation, ROUTES};
use crate::route::{Route, RouteError};
use crate::view::{CallView, EventView, StatusView};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Calls shown of one appointment.
const APPOINTMENT_CALLS_MAX: i32 = 50;
/// Other writers that a request may lose to before it gives up.
const RACES_MAX: u32 = 5;

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub calls_table: String,
    pub call_retention: Duration,
    pub policy: Policy,
    /// Of calls that ask for nothing else.
    pub retry: RetryPolicy,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let attempts_max = environment.number("RETRY_ATTEMPTS_MAX");
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            calls_table: environment.text("CALLS_TABLE"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            policy: Policy { inactivity_timeout: environment.seconds("INACTIVITY_TIMEOUT_SECONDS") },
            retry: RetryPolicy {
                // A call holds no more attempts, whatever is asked for.
                attempts_max: u8::try_from(attempts_max).unwrap_or(u8::MAX).min(CALL_ATTEMPTS_MAX as u8),
                delay_seconds: environment.number("RETRY_DELAY_SECONDS"),
                delay_max_seconds: environment.number("RETRY_DELAY_MAX_SECONDS"),
                voicemail: false,
            },
        };
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
    pub call_retention: Duration,
    pub policy: Policy,
    /// Of calls that ask for nothing else.
    pub retry: RetryPolicy,
    pub clock: Clock,
}

impl Api {
    /// Answers one request, whatever it holds.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let started = self.clock.now();
        let answered = self.answer(&request).await;
        self.log(answered.as_ref(), started);
        match answered {
            Ok(answer) => answer.into_response(),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        let route = Route::parse(request.method(), &path_of(request)).map_err(|error| match error {
            RouteError::NoSuchPath => Refusal::not_found("there is nothing under this path"),
            RouteError::MethodNotAllowed(methods) => Refusal::Methods(methods),
        })?;
        match (self.carry_out(&route, request).await, route.decoded()) {
            // An HTTP API has decoded the path, other front doors have not: an id is taken as it stands, then as it
            // decodes.
            (Err(Refusal::Problem(Problem { kind: ProblemKind::NotFound, .. })), Some(decoded)) => {
                self.carry_out(&decoded, request).await
            }
            (answered, _) => answered,
        }
    }

    async fn carry_out(&self, Route { operation, id }: &Route, request: &Request) -> Result<Answer, Refusal> {
        match operation {
            Operation::ListCalls => self.list(request.uri().query().unwrap_or_default()).await,
            Operation::CreateCall => self.create(request.headers(), request.body()).await,
            Operation::ShowCall => self.show(&CallId::new(id)).await,
            Operation::ShowCallEvents => self.show_events(&CallId::new(id)).await,
            Operation::CancelCall => self.cancel(&CallId::new(id)).await,
            Operation::ShowAppointment => self.show_appointment(id).await,
            Operation::ShowEventStatus => self.show_status(&EventId::new(id)).await,
            Operation::BlockNumber => self.set_do_not_call(id, true).await,
            Operation::UnblockNumber => self.set_do_not_call(id, false).await,
        }
    }

    async fn list(&self, query: &str) -> Result<Answer, Refusal> {
        let now = self.clock.now();
        let query = ListQuery::parse(query, now).map_err(|errors| Refusal::Problem(Problem::invalid(errors)))?;
        let page = query.run(&self.calls, now).await?;
        let mut body = Map::new();
        body.insert("calls".to_owned(), page.calls.iter().map(|call| json!(CallView::of(call))).collect());
        if !page.unreadable.is_empty() {
            body.insert("unreadable".to_owned(), json!(page.unreadable));
        }
        if let Some(cursor) = page.cursor {
            body.insert("cursor".to_owned(), Value::String(cursor));
        }
        Ok(Answer::ok("listed", Value::Object(body)))
    }

    /// Creates a call, or finds that the same request created it before.
    async fn create(&self, headers: &HeaderMap, body: &[u8]) -> Result<Answer, Refusal> {
        let now = self.clock.now();
        let (key, errors) = match idempotency_key(headers) {
            Ok(key) => (key, Vec::new()),
            Err(error) => (None, vec![error]),
        };
        let mut request = body::read(body, errors, now).map_err(Refusal::Problem)?;
        let call_id = match key {
            Some(key) => keyed_call_id(key),
            None => random_call_id().map_err(Refusal::NoId)?,
        };
        let hash = request.hash().map_err(Refusal::NoHash)?;
        if let Some(error) = request.due_at_error.take() {
            // It may have been timely when it was sent first.
            let first = match key {
                Some(_) => self.calls.get_call(&call_id).await?,
                None => None,
            };
            return match first.filter(|call| is_made_by(call, &hash)) {
                Some(first) => Ok(created(&first, request.appointment_id.as_deref(), true)),
                None => Err(Refusal::Problem(Problem::invalid(vec![error]))),
            };
        }
        let appointment_id = request.appointment_id.clone();
        let call = request.into_call(call_id.clone(), hash.clone(), self.retry, now);
        let placed = Call::schedule(call, &self.policy, now);
        for _ in 0..RACES_MAX {
            match self.calls.store(&placed, self.call_retention).await? {
                StoreOutcome::Committed => return Ok(created(&placed.call, appointment_id.as_deref(), false)),
                StoreOutcome::LostRace => {}
            }
            match self.calls.get_call(&call_id).await? {
                // A row of this very moment is our own, whose answer was lost on its way from the table.
                Some(first) if is_made_by(&first, &hash) => {
                    let repeated = first.created_at != placed.call.created_at;
                    return Ok(created(&first, appointment_id.as_deref(), repeated));
                }
                Some(_) => {
                    let detail = "another request was made under this key; a new call needs a new key";
                    return Err(Refusal::Problem(Problem::new(ProblemKind::IdempotencyKeyReused, detail)));
                }
                // It expired in between.
                None => {}
            }
        }
        Err(Refusal::Storage(Error::Contended(RACES_MAX)))
    }

    async fn show(&self, id: &CallId) -> Result<Answer, Refusal> {
        Ok(Answer::of_call("shown", &self.call(id).await?))
    }

    async fn show_events(&self, id: &CallId) -> Result<Answer, Refusal> {
        let call = self.call(id).await?;
        let attempts = call.attempts();
        let events: Vec<EventView> = call.timeline().into_iter().map(|entry| EventView::of(entry, &attempts)).collect();
        let body = json!({"call_id": call.call_id, "events": events});
        Ok(Answer { call_id: Some(call.call_id), ..Answer::ok("shown", body) })
    }

    async fn cancel(&self, id: &CallId) -> Result<Answer, Refusal> {
        for _ in 0..RACES_MAX {
            let call = self.call(id).await?;
            let Some(canceled) = call.cancel(&self.policy, self.clock.now()) else { return cannot_cancel(&call) };
            match self.calls.store(&canceled, self.call_retention).await? {
                StoreOutcome::Committed => return Ok(Answer::of_call("canceled", &canceled.call)),
                StoreOutcome::LostRace => {}
            }
        }
        Err(Refusal::Storage(Error::Contended(RACES_MAX)))
    }

    async fn show_appointment(&self, id: &str) -> Result<Answer, Refusal> {
        let ids = self.calls.calls_of_appointment(id, APPOINTMENT_CALLS_MAX).await?;
        let loaded = load::load(&self.calls, ids).await?;
        // Without one of its calls, what is said of an appointment may be wrong.
        if let Some((_, error)) = loaded.unreadable.into_iter().next() {
            return Err(Refusal::Storage(error));
        }
        let mut calls = loaded.calls;
        calls.sort_by(|a, b| (b.created_at, &b.call_id).cmp(&(a.created_at, &a.call_id)));
        let Some(latest) = calls.first() else {
            return Err(Refusal::not_found("there is no call for this appointment"));
        };
        let body = json!({
            "appointment_id": latest.appointment_id,
            "status": latest.appointment_status().as_str(),
            "calls": calls.iter().map(CallView::of).collect::<Vec<_>>(),
        });
        Ok(Answer::ok("shown", body))
    }

    async fn show_status(&self, id: &EventId) -> Result<Answer, Refusal> {
        let Some(stored) = self.inbox.get(id).await? else { return Err(Refusal::unknown_id()) };
        let note = self.inbox.get_note(id).await?;
        let call = match &stored.call_id {
            Some(call_id) => self.find(call_id).await?,
            None => None,
        };
        let body = json!(StatusView::of(&stored, note, call.as_ref()));
        Ok(Answer { event_id: Some(stored.event_id), ..Answer::ok("shown", body) })
    }

    async fn set_do_not_call(&self, text: &str, listed: bool) -> Result<Answer, Refusal> {
        let numbers = numbers_in_path(text);
        if numbers.is_empty() {
            let error = FieldError::new("number", INVALID_NUMBER);
            return Err(Refusal::Problem(Problem::invalid(vec![error])));
        }
        for number in numbers {
            self.calls.set_do_not_call(&number, listed).await?;
        }
        Ok(Answer::empty(if listed { "number_blocked" } else { "number_unblocked" }))
    }

    async fn call(&self, id: &CallId) -> Result<Call, Refusal> {
        self.find(id).await?.ok_or_else(Refusal::unknown_id)
    }

    /// The call under this id, or the one whose attempt its provider calls so.
    async fn find(&self, id: &CallId) -> Result<Option<Call>, Error> {
        Ok(self.calls.resolve(id).await?.call)
    }

    fn log(&self, answered: Result<&Answer, &Refusal>, started: Timestamp) {
        let now = self.clock.now();
        let (action_taken, error, failed) = match answered {
            Ok(answer) => (answer.action_taken, None, false),
            Err(refusal) => (refusal.kind().code(), refusal.cause(), refusal.kind().status().is_server_error()),
        };
        let answer = answered.ok();
        let decision = Decision {
            stage: "api",
            message: "question answered",
            action_taken,
            call_id: answer.and_then(|answer| answer.call_id.as_ref()).map(CallId::as_str),
            event_id: answer.and_then(|answer| answer.event_id.as_ref()).map(EventId::as_str),
            error,
            duration_ms: Some(now.millis_since(started)),
            ..Decision::default()
        };
        decision.log(now, failed);
    }
}

/// The answer to a request that created a call, now or before. It says nothing that changes: what may be in an event
/// decides nothing here.
fn created(call: &Call, appointment_id: Option<&str>, repeated: bool) -> Answer {
    let body = json!({
        "call_id": call.call_id,
        "provider": call.provider.as_str(),
        "appointment_id": appointment_id,
        "due_at": call.plan.as_ref().map(|plan| plan.due_at.to_string()),
        "created_at": call.created_at.to_string(),
    });
    let mut headers = vec![(LOCATION, format!("/calls/{}", call.call_id))];
    if repeated {
        headers.push((IDEMPOTENT_REPLAYED, "true".to_owned()));
    }
    let (status, action_taken) = if repeated { (StatusCode::OK, "repeated") } else { (StatusCode::CREATED, "created") };
    Answer { status, headers, call_id: Some(call.call_id.clone()), ..Answer::ok(action_taken, body) }
}

fn is_made_by(call: &Call, hash: &str) -> bool {
    call.plan.as_ref().is_some_and(|plan| plan.request_hash.as_deref() == Some(hash))
}

fn cannot_cancel(call: &Call) -> Result<Answer, Refusal> {
    if call.plan.is_none() {
        let detail = "Switchhook did not place the call and cannot cancel it";
        return Err(Refusal::Problem(Problem::new(ProblemKind::NotPlacedBySwitchhook, detail)));
    }
    match &call.job {
        Job::Canceled => Ok(Answer::of_call("shown", call)),
        Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed => {
            let detail = format!("the call is {}; only one that is PENDING can be canceled", call.job.as_str());
            Err(Refusal::Problem(Problem::new(ProblemKind::NotPending, detail)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_retry_policy_stays_within_what_a_call_holds() {
        let config = |attempts: &'static str| {
            let environment = Environment::new(move |name| match name {
                "RETRY_ATTEMPTS_MAX" => Some(attempts.to_owned()),
                _ => Some("7".to_owned()),
            });
            Config::from_environment(environment).unwrap()
        };
        assert_eq!(config("3").retry.attempts_max, 3);
        assert_eq!(usize::from(config("300").retry.attempts_max), CALL_ATTEMPTS_MAX);
        let expected = RetryPolicy { attempts_max: 3, delay_seconds: 7, delay_max_seconds: 7, voicemail: false };
        assert_eq!(config("3").retry, expected);
    }
}
