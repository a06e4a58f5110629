//! The HTTP API: creates, cancels, lists and shows calls, shows the status of an event, and keeps the do-not-call list.
//!
//! **Every write of a call is conditional, and repeating a request changes nothing.** The answer to a creation holds only fields
//! that never change, so a repetition gets the same body.

mod api;
mod body;
mod caller;
mod create;
#[cfg(test)]
mod document;
mod idempotency;
mod list;
mod number;
mod request;
mod response;
mod route;
mod time;
mod view;

use std::time::Duration;

use http::StatusCode;
use lambda_http::{Body, Request, Response};
use serde_json::{Map, Value, json};
use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_aws::http::{path_of, trace_id_of};
use switchhook_aws::problem::{FieldError, Problem, ProblemKind};
use switchhook_aws::query::only_parameter;
use switchhook_aws::shards::Shards;
use switchhook_domain::{
    AppointmentStatus, Call, CallCreation, CallDefaults, CallId, EntityFate, EventId, Job, NewCall, Plan, Policy,
    StopReason, Timestamp,
};

pub use crate::api::Api;
use crate::api::RACES_MAX;
pub use crate::body::{BATCH_CALLS_MAX, BODY_BYTES_MAX, DELAY_SECONDS_MAX, check_entry};
use crate::list::ListQuery;
use crate::number::{INVALID_NUMBER, number_in_query};
use crate::response::{Answer, RequestError};
use crate::route::RouteError;
pub use crate::route::{OTHER_ROUTES, Operation, ROUTES};
use crate::view::{CallView, EventView, StatusView};

/// Limit on the calls in the answer about an appointment. All its calls count for its status.
const APPOINTMENT_CALLS_MAX: usize = 50;
/// Limit on the calls of an appointment that is shown. To read them takes about a second of the function's ten.
const APPOINTMENT_READS_MAX: usize = 1_000;

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub shards: Shards,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub index_numbers: bool,
    pub call_retention: Duration,
    pub policy: Policy,
    pub defaults: CallDefaults,
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
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            index_numbers: environment.flag("INDEX_NUMBERS"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            policy: environment.policy(),
            defaults: environment.call_defaults(),
        };
        environment.check(config)
    }
}

impl Api {
    /// Handles one request. Every request gets an answer, also when the tables fail.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let started = self.clock.now();
        let result = self.answer(&request).await;
        self.log(result.as_ref(), trace_id_of(&request).as_ref(), started, self.clock.now());
        match result {
            Ok(answer) => answer.into_response(),
            Err(error) => error.into_response(),
        }
    }

    async fn answer(&self, request: &Request) -> Result<Answer, RequestError> {
        let operation = Operation::find(request.method(), &path_of(request)).map_err(|error| match error {
            RouteError::NoSuchPath => RequestError::not_found("no operation of the API has this path"),
            RouteError::MethodNotAllowed(methods) => RequestError::MethodNotAllowed(methods),
        })?;
        let query = request.uri().query().unwrap_or_default();
        match operation {
            Operation::ListCalls => self.list(query).await,
            Operation::CreateCall => self.create(request).await,
            Operation::CreateCalls => self.create_batch(request).await,
            Operation::ShowCall => self.show(&CallId::new(id_in(query)?)).await,
            Operation::ShowCallEvents => self.show_events(&CallId::new(id_in(query)?)).await,
            Operation::CancelCall => self.cancel(&CallId::new(id_in(query)?)).await,
            Operation::ShowAppointment => self.show_appointment(&id_in(query)?).await,
            Operation::ShowEventStatus => self.show_status(&EventId::new(id_in(query)?)).await,
            Operation::BlockNumber => self.set_do_not_call(query, true).await,
            Operation::UnblockNumber => self.set_do_not_call(query, false).await,
        }
    }

    async fn list(&self, query: &str) -> Result<Answer, RequestError> {
        let now = self.clock.now();
        let query = ListQuery::parse(query, now).map_err(|errors| RequestError::Problem(Problem::invalid(errors)))?;
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

    async fn show(&self, id: &CallId) -> Result<Answer, RequestError> {
        Ok(Answer::with_call("shown", &self.call(id).await?))
    }

    async fn show_events(&self, id: &CallId) -> Result<Answer, RequestError> {
        let call = self.call(id).await?;
        let attempts = call.attempts();
        let events: Vec<EventView> = call.timeline().into_iter().map(|entry| EventView::of(entry, &attempts)).collect();
        let body = json!({"call_id": call.call_id, "events": events});
        Ok(Answer { call_id: Some(call.call_id), ..Answer::ok("shown", body) })
    }

    async fn cancel(&self, id: &CallId) -> Result<Answer, RequestError> {
        let began = self.clock.now();
        for _ in 0..RACES_MAX {
            let call = match self.find(id).await? {
                Some(call) if call.plan.is_some() => call,
                // The row was lost. A later webhook may have made one without a plan.
                row => {
                    let creation = self.inbox.creation(row.as_ref().map_or(id, |row| &row.call_id)).await?;
                    let is_of_row = |creation: &CallCreation| row.as_ref().is_none_or(|row| creation.is_of(row));
                    let Some(creation) = creation.filter(is_of_row) else {
                        let refused = |row: &Call| answer_to_cancel("shown", row);
                        return row.as_ref().map_or_else(|| Err(RequestError::unknown_id()), refused);
                    };
                    match self.cancel_lost(&creation, began).await? {
                        Some(call) => return answer_to_cancel("canceled", &call),
                        None => continue,
                    }
                }
            };
            let Some(canceled) = call.cancel(&self.policy, self.clock.now()) else {
                if call.stop_reason == Some(StopReason::CanceledByUser) {
                    self.record_cancellation(&call).await?;
                }
                return answer_to_cancel("shown", &call);
            };
            match self.calls.store(&canceled).await? {
                StoreOutcome::Committed => {
                    self.record_cancellation(&canceled.call).await?;
                    return answer_to_cancel("canceled", &canceled.call);
                }
                StoreOutcome::LostRace => {}
            }
        }
        Err(RequestError::Storage(Error::Contended(RACES_MAX)))
    }

    /// Brings back the row of a call that was lost, and cancels the call if it has not ended. `None` if another writer came first.
    ///
    /// **A cancellation that is refused is not recorded**, so it changes nothing. A call whose dial the inbox records is under way until its
    /// events are folded again.
    async fn cancel_lost(&self, creation: &CallCreation, began: Timestamp) -> Result<Option<Call>, RequestError> {
        let Some(rebuilt) = self.rebuilt(creation).await? else { return Ok(None) };
        let looked_for = self.inbox.await_events_of_rebuilt(&rebuilt.call, began, &self.clock).await;
        // The search may have taken seconds, and a webhook may have made a row meanwhile.
        let Some(rebuilt) = self.rebuilt(creation).await? else { return Ok(None) };
        if rebuilt.call.cancel(&self.policy, began).is_some() {
            let NewCall { call_id, plan, .. } = &creation.call;
            let kept_from = Some(plan.kept_from());
            // Before the row comes back, so that nobody is called although it cannot be rebuilt.
            self.inbox.record_cancellation(call_id, StopReason::CanceledByUser, kept_from, self.clock.now()).await?;
        }
        looked_for?;
        let Some(rebuilt) = self.rebuilt(creation).await? else { return Ok(None) };
        Ok(match self.calls.store(&rebuilt).await? {
            StoreOutcome::Committed => Some(rebuilt.call),
            StoreOutcome::LostRace => None,
        })
    }

    /// Records in the inbox that the user canceled a call. So the call stays canceled if its row is lost. The record is kept from the last change of
    /// the row. Otherwise, a repeated cancellation could make it outlive the row.
    async fn record_cancellation(&self, call: &Call) -> Result<(), Error> {
        let kept_from = call.plan.as_ref().map(Plan::kept_from);
        self.inbox.record_cancellation(&call.call_id, StopReason::CanceledByUser, kept_from, call.updated_at).await
    }

    async fn show_appointment(&self, id: &str) -> Result<Answer, RequestError> {
        let mut pages = self.calls.by_appointment(id);
        let mut ids = Vec::new();
        while let Some(page) = pages.next().await? {
            ids.extend(page.items);
            if ids.len() > APPOINTMENT_READS_MAX {
                let message = format!(
                    "has more than {APPOINTMENT_READS_MAX} calls, too many for one answer; show its calls one by one"
                );
                return Err(RequestError::Problem(Problem::invalid(vec![FieldError::new("id", message)])));
            }
        }
        let loaded = self.calls.load(ids).await?;
        // Without one of its calls, the status of the appointment may be wrong.
        if let Some((_, error)) = loaded.unreadable.into_iter().next() {
            return Err(RequestError::Storage(error));
        }
        let mut calls = loaded.calls;
        calls.sort_by(|a, b| (b.created_at, &b.call_id).cmp(&(a.created_at, &a.call_id)));
        let (Some(latest), Some(status)) = (calls.first(), AppointmentStatus::of_calls(&calls)) else {
            return Err(RequestError::not_found("there is no call for an appointment with this id"));
        };
        let body = json!({
            "appointment_id": latest.appointment_id,
            "status": status.as_str(),
            "calls_total": calls.len(),
            "calls": calls.iter().take(APPOINTMENT_CALLS_MAX).map(CallView::of).collect::<Vec<_>>(),
        });
        Ok(Answer::ok("shown", body))
    }

    async fn show_status(&self, id: &EventId) -> Result<Answer, RequestError> {
        let Some(stored) = self.inbox.get(id).await? else { return Err(RequestError::unknown_id()) };
        let note = self.inbox.get_note(id).await?;
        let (mut call, mut in_entity) = (None, EntityFate::NotFolded);
        match &stored.call_id {
            Some(key) if key.is_entity() => {
                if let Some(entity) = self.calls.entity(key).await? {
                    in_entity = self.inbox.fate_in(&entity, &stored).await?;
                }
            }
            Some(call_id) => call = self.find(call_id).await?,
            None => {}
        }
        let body = json!(StatusView::of(&stored, note, call.as_ref(), in_entity));
        Ok(Answer { event_id: Some(stored.event_id), ..Answer::ok("shown", body) })
    }

    async fn set_do_not_call(&self, query: &str, is_blocked: bool) -> Result<Answer, RequestError> {
        let text = only_parameter(query, "number").map_err(RequestError::Problem)?;
        let Some(number) = number_in_query(&text) else {
            let error = FieldError::new("number", INVALID_NUMBER);
            return Err(RequestError::Problem(Problem::invalid(vec![error])));
        };
        let (list, now) = (DoNotCallList::new(&self.calls, &self.inbox), self.clock.now());
        if is_blocked {
            list.block(&number, now).await?
        } else {
            list.unblock(&number, now).await?
        }
        Ok(Answer::empty(if is_blocked { "number_blocked" } else { "number_unblocked" }))
    }

    async fn call(&self, id: &CallId) -> Result<Call, RequestError> {
        self.find(id).await?.ok_or_else(RequestError::unknown_id)
    }

    /// Reads the call with this id, which may also be the derived id of an attempt, such as `retell:call_1`.
    async fn find(&self, id: &CallId) -> Result<Option<Call>, Error> {
        Ok(self.calls.resolve(id).await?.call)
    }
}

/// The id in a query.
fn id_in(query: &str) -> Result<String, RequestError> {
    let id = only_parameter(query, "id").map_err(RequestError::Problem)?;
    // A key of a table is not longer.
    if id.len() <= KEY_BYTES_MAX { Ok(id) } else { Err(RequestError::unknown_id()) }
}

/// Returns the answer to a cancellation that left the call like this: 202 if an attempt is under way, after which no further one follows.
fn answer_to_cancel(action_taken: &'static str, call: &Call) -> Result<Answer, RequestError> {
    if call.plan.is_none() {
        let detail = "Switchhook does not place this call, so it cannot cancel it";
        return Err(RequestError::Problem(Problem::new(ProblemKind::NotPlacedBySwitchhook, detail)));
    }
    let answer = Answer::with_call(action_taken, call);
    match &call.job {
        Job::Canceled => Ok(answer),
        Job::InProgress if call.stop_reason.is_some() => Ok(Answer { status: StatusCode::ACCEPTED, ..answer }),
        Job::Pending { .. } | Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed => {
            let detail =
                format!("the job of the call is {}; only a call that has not ended can be canceled", call.job.as_str());
            Err(RequestError::Problem(Problem::new(ProblemKind::NotPending, detail)))
        }
    }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CALL_ATTEMPTS_MAX, RetryPolicy};

    use super::*;

    #[test]
    fn default_retry_policy_stays_within_what_a_call_holds() {
        let config = |attempts: &'static str| {
            let environment = Environment::new(move |name| match name {
                "RETRY_ATTEMPTS_MAX" => Some(attempts.to_owned()),
                "CALLING_WINDOW" => None,
                "OUTCOME_PROVIDERS" => Some("retell".to_owned()),
                "INDEX_NUMBERS" => Some("true".to_owned()),
                "INDEX_SHARDS" => Some("4".to_owned()),
                _ => Some("7".to_owned()),
            });
            Config::from_environment(environment).unwrap()
        };
        assert_eq!(config("3").defaults.retry.attempts_max, 3);
        assert_eq!(usize::from(config("300").defaults.retry.attempts_max), CALL_ATTEMPTS_MAX);
        let expected =
            RetryPolicy { attempts_max: 3, delay_seconds: 7, delay_max_seconds: 7, voicemail: false, unheard: false };
        assert_eq!(config("3").defaults.retry, expected);
    }

    #[test]
    fn default_calling_window_is_read_when_the_function_starts() {
        let window = |window: &'static str| {
            let environment = Environment::new(move |name| match name {
                "CALLING_WINDOW" => Some(window.to_owned()),
                "OUTCOME_PROVIDERS" => Some("retell".to_owned()),
                "INDEX_NUMBERS" => Some("true".to_owned()),
                "INDEX_SHARDS" => Some("4".to_owned()),
                _ => Some("7".to_owned()),
            });
            Config::from_environment(environment)
                .map(|config| config.defaults.window)
                .map_err(|error| error.to_string())
        };
        assert_eq!(window(""), Ok(None));
        let text = "Europe/London 20:00-24:00 mon,tue 2026-12-25";
        assert_eq!(window(text), Ok(Some(text.parse().unwrap())));
        assert!(window("Europe/London").unwrap_err().starts_with("bad configuration: CALLING_WINDOW: "));
        // The API must go on, so such a window never opens.
        let unknown = window("Europe/Nowhere 09:00-18:00").unwrap().unwrap();
        assert!(unknown.next_opening(Timestamp::from_millis(0)).is_err());
    }
}
