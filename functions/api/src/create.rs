//! Creation of calls, one by one and in batches.
//!
//! **The id of a new call is a hash, so the table itself detects a repetition.** With an idempotency key, it is the hash of the
//! caller and the key. Without one, it is the hash of the caller, the content of the request and the five minutes in which it
//! was received. The five minutes before are read too, so a repetition within five minutes finds the first call, or the record of its
//! request.
//!
//! **The request is recorded in the inbox before the row is written.** So a row that was lost can be rebuilt, and a repetition of the
//! request rebuilds it, with every dial that the inbox records. It never makes a second call. The dialer holds the call until the events that
//! the inbox holds of it are folded again. If they are too old to be found at once, the row is not rebuilt. Equal requests of one batch make one
//! call too, and those after the first are answered as repetitions.
//!
//! **A repetition of a request whose person was forgotten is refused.** The erased record in the inbox decides, also if the row was
//! lost. Otherwise a client that repeats its request would have the forgotten person dialled.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderName, LOCATION};
use lambda_http::Request;
use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::http::trace_id_of;
use switchhook_aws::inbox::{CreationOutcome, creation_id};
use switchhook_aws::problem::{FieldError, Problem, ProblemKind};
use switchhook_domain::{Call, CallCreation, CallId, NewCall, Provider, Timestamp, TraceId, Transition};

use crate::api::{Api, RACES_MAX};
use crate::body::{self, BatchEntry, KEY_FIELD};
use crate::caller::Caller;
use crate::idempotency::{DUPLICATE_WINDOW, IDEMPOTENCY_KEY, content_call_id, idempotency_key, keyed_call_id};
use crate::request::CallRequest;
use crate::response::{Answer, RequestError};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Action of a request whose call existed already.
const REPEATED: &str = "repeated";
/// Calls of a batch that are created at the same time.
const CONCURRENCY: usize = 16;

impl Api {
    /// Answers `POST /calls`.
    pub(crate) async fn create(&self, request: &Request) -> Result<Answer, RequestError> {
        let now = self.clock.now();
        let (key, errors) = match idempotency_key(request.headers()) {
            Ok(key) => (key, Vec::new()),
            Err(error) => (None, vec![error]),
        };
        let (caller, trace_id) = (Caller::of(request), trace_id_of(request));
        let call = body::read(request.body(), errors, now).map_err(|problem| refused_body(problem, request))?;
        self.create_call(&caller, key, call, trace_id, now).await
    }

    /// Answers `POST /calls/batch`. Each call is created by itself: one that is refused does not affect the others. A key in the header
    /// is refused: it would be ignored, and a batch that is sent again later would create every call again.
    pub(crate) async fn create_batch(&self, request: &Request) -> Result<Answer, RequestError> {
        if request.headers().contains_key(IDEMPOTENCY_KEY) {
            let message = format!("is not for a batch; give each call an {KEY_FIELD} of its own");
            let error = FieldError::new("Idempotency-Key", message);
            return Err(RequestError::Problem(Problem::invalid(vec![error])));
        }
        let now = self.clock.now();
        let (caller, trace_id) = (&Caller::of(request), &trace_id_of(request));
        let entries = body::read_batch(request.body(), now).map_err(|problem| refused_body(problem, request))?;
        let creations = entries.into_iter().map(|entry| async move {
            let started = self.clock.now();
            let result = match entry {
                Ok(BatchEntry { key, request }) => {
                    let key = key.as_deref().map(str::as_bytes);
                    self.create_call(caller, key, request, trace_id.clone(), now).await
                }
                Err(problem) => Err(RequestError::Problem(problem)),
            };
            (result, started, self.clock.now())
        });
        let creations: Vec<_> = creations.collect();
        let mut call_ids = BTreeSet::new();
        let results = stream::iter(creations).buffered(CONCURRENCY).map(|(result, started, ended)| {
            // Equal requests of a batch have the same time of receipt, so none of them finds that another one created the call.
            let result = result.map(|answer| {
                let is_first = answer.call_id.as_ref().is_none_or(|call_id| call_ids.insert(call_id.clone()));
                if is_first { answer } else { Answer { status: StatusCode::OK, action_taken: REPEATED, ..answer } }
            });
            self.log(result.as_ref(), trace_id.as_ref(), started, ended);
            match result {
                Ok(answer) => (answer.status, json!({"status": answer.status.as_u16(), "call": answer.body})),
                Err(error) => {
                    let (problem, _) = error.into_problem();
                    let status = problem.kind.status();
                    (status, json!({"status": status.as_u16(), "problem": problem.to_json()}))
                }
            }
        });
        let results: Vec<(StatusCode, Value)> = results.collect().await;
        let count = |wanted: StatusCode| results.iter().filter(|(status, _)| *status == wanted).count();
        let (created, repeated) = (count(StatusCode::CREATED), count(StatusCode::OK));
        let body = json!({
            "created": created,
            "repeated": repeated,
            "refused": results.len() - created - repeated,
            "results": results.into_iter().map(|(_, result)| result).collect::<Value>(),
        });
        Ok(Answer::ok("batch_answered", body))
    }

    /// Creates a call, or finds the call that the same request created before.
    async fn create_call(
        &self,
        caller: &Caller,
        key: Option<&[u8]>,
        request: CallRequest,
        trace_id: Option<TraceId>,
        now: Timestamp,
    ) -> Result<Answer, RequestError> {
        let finds_first = key.is_some() || !request.allow_duplicate;
        let result = self.create_or_find(caller, key, request, trace_id, now).await;
        result.map_err(|error| if finds_first { error } else { error.of_duplicate() })
    }

    async fn create_or_find(
        &self,
        caller: &Caller,
        key: Option<&[u8]>,
        mut request: CallRequest,
        trace_id: Option<TraceId>,
        now: Timestamp,
    ) -> Result<Answer, RequestError> {
        if let Some(account) = self.calls.unlisted_account(&request.providers).await? {
            return Err(unknown_account(account, request.providers.len()));
        }
        let hash = request.hash().map_err(RequestError::Hash)?;
        let (mut call_id, earlier_id) = match key {
            Some(key) => (keyed_call_id(caller, key), None),
            None if request.allow_duplicate => (self.random_call_id()?, None),
            None => {
                let earlier_id = content_call_id(caller, &hash, now.minus(DUPLICATE_WINDOW));
                (content_call_id(caller, &hash, now), Some(earlier_id))
            }
        };
        let appointment_id = request.appointment_id.clone();
        // The row outlives the record of its request. So it is read first, and no other request is recorded in its place.
        if key.is_some()
            && let Some(first) = self.calls.get_call(&call_id).await?
            && first.plan.is_some()
        {
            return match first.forgotten_at {
                Some(_) => Err(call_forgotten()),
                // Another request of the same batch may have created it just now.
                None if is_created_by(&first, &hash) => {
                    Ok(created(&first, appointment_id.as_deref(), first.created_at != now))
                }
                None => Err(key_reused()),
            };
        }
        if let Some(earlier_id) = earlier_id {
            let since = now.minus(DUPLICATE_WINDOW);
            match self.calls.get_call(&earlier_id).await? {
                Some(first) if first.created_at > since => {
                    if first.forgotten_at.is_some() {
                        return Err(call_forgotten());
                    }
                    if is_created_by(&first, &hash) {
                        return Ok(created(&first, appointment_id.as_deref(), true));
                    }
                }
                Some(_) => {}
                // If the same request was recorded, and its row was not written, this one writes it.
                None => {
                    let first = self.inbox.get(&creation_id(&earlier_id)).await?;
                    if first.is_some_and(|first| first.received_at > since) {
                        call_id = earlier_id;
                    }
                }
            }
        }
        if let Some(error) = request.due_at_error.take() {
            // This may repeat a request whose due time was in range when it was first sent.
            let first = self.calls.get_call(&call_id).await?;
            return match first.filter(|call| is_created_by(call, &hash)) {
                Some(first) => Ok(created(&first, appointment_id.as_deref(), true)),
                None => Err(RequestError::Problem(Problem::invalid(vec![error]))),
            };
        }
        let mut call = request.into_call(call_id.clone(), hash.clone(), &self.defaults, now);
        call.plan.trace_id = trace_id;
        for _ in 0..RACES_MAX {
            let creation = CallCreation { call: call.clone(), created_at: now };
            let first_creation = self.record_creation(&creation).await?;
            let transition = match &first_creation {
                None => Some(Call::schedule(creation.call, &self.policy, now)),
                Some(first) if is_requested_by(&first.call, &hash) => self.rebuild(first, now).await?,
                // The id of a call without a key is made of the hash, so this request has a key.
                Some(_) => return Err(key_reused()),
            };
            if let Some(transition) = transition
                && self.calls.store(&transition).await? == StoreOutcome::Committed
            {
                return Ok(created(&transition.call, appointment_id.as_deref(), first_creation.is_some()));
            }
            match self.calls.get_call(&call_id).await? {
                // If the row has this request's time of creation, this request wrote it, and only the response was lost.
                Some(first) if is_created_by(&first, &hash) => {
                    let is_repeated = first.created_at != now;
                    return Ok(created(&first, appointment_id.as_deref(), is_repeated));
                }
                // The inbox had lost the erased record, so this request was just recorded, with the person.
                Some(Call { forgotten_at: Some(forgotten_at), .. }) => {
                    self.inbox.erase(&creation_id(&call_id), forgotten_at).await?;
                    return Err(call_forgotten());
                }
                // A webhook made the row while the events of the lost one were looked for. The next round gives it the plan back.
                Some(row)
                    if row.plan.is_none() && first_creation.as_ref().is_some_and(|creation| creation.is_of(&row)) => {}
                Some(_) if key.is_some() => return Err(key_reused()),
                // Another system reported a call under this id.
                Some(_) => {
                    call_id = self.random_call_id()?;
                    call.call_id = call_id.clone();
                }
                // The row expired in the meantime.
                None => {}
            }
        }
        Err(RequestError::Storage(Error::Contended(RACES_MAX)))
    }

    /// Records the request that creates a call. Returns the creation that is recorded already, if it is another one.
    async fn record_creation(&self, creation: &CallCreation) -> Result<Option<Box<CallCreation>>, RequestError> {
        let trace_id = creation.call.plan.trace_id.as_ref().map_or("", TraceId::as_str);
        Ok(match self.inbox.put_creation(creation, trace_id).await? {
            CreationOutcome::Stored => None,
            CreationOutcome::Erased => return Err(call_forgotten()),
            // The response to this write may have been lost, and the SDK has repeated the request.
            CreationOutcome::Exists(first) if *first == *creation => None,
            CreationOutcome::Exists(first) => Some(first),
        })
    }

    /// Returns the row of a call whose creation is recorded, if the row was lost or never written. `None` if it is there. The events that the row
    /// lacks wait, so that it is not dialled before they are folded. `began` is the time at which the request came.
    pub(crate) async fn rebuild(&self, creation: &CallCreation, began: Timestamp) -> Result<Option<Transition>, Error> {
        let rebuilt = self.rebuilt(creation).await?;
        if let Some(rebuilt) = &rebuilt {
            self.inbox.await_events_of_rebuilt(&rebuilt.call, began, &self.clock).await?;
        }
        Ok(rebuilt)
    }

    /// Returns the row that [`Api::rebuild`] returns, and changes nothing. **Do not store it**: its events do not wait yet.
    pub(crate) async fn rebuilt(&self, creation: &CallCreation) -> Result<Option<Transition>, Error> {
        let row = self.calls.get_call(&creation.call.call_id).await?;
        if row.as_ref().is_some_and(|row| row.plan.is_some()) {
            return Ok(None);
        }
        let records = self.inbox.dial_records(&creation.call.call_id).await?;
        Ok(Call::rebuild(row.as_ref(), Some(creation), &records, &self.policy, self.clock.now()))
    }

    fn random_call_id(&self) -> Result<CallId, RequestError> {
        Ok(CallId::new(format!("call-{}", self.random_ids.hex::<16>().map_err(RequestError::RandomId)?)))
    }
}

/// Answer to a request that created a call, now or before. It holds only fields that no later event changes.
fn created(call: &Call, appointment_id: Option<&str>, is_repeated: bool) -> Answer {
    let body = json!({
        "call_id": call.call_id,
        "providers": call.plan.as_ref().map(|plan| &plan.providers),
        "appointment_id": appointment_id,
        "due_at": call.plan.as_ref().map(|plan| plan.moved_into_window(plan.due_at).to_string()),
        "created_at": call.created_at.to_string(),
    });
    let mut headers = vec![(LOCATION, format!("/call?id={}", call.call_id))];
    if is_repeated {
        headers.push((IDEMPOTENT_REPLAYED, "true".to_owned()));
    }
    let (status, action_taken) =
        if is_repeated { (StatusCode::OK, REPEATED) } else { (StatusCode::CREATED, "created") };
    Answer { status, headers, call_id: Some(call.call_id.clone()), ..Answer::ok(action_taken, body) }
}

/// Returns the error for a body that is refused. A compressed body is not JSON, and the header tells the client why.
fn refused_body(mut problem: Problem, request: &Request) -> RequestError {
    if problem.kind == ProblemKind::InvalidJson && request.headers().contains_key(CONTENT_ENCODING) {
        problem.detail.push_str("; a Content-Encoding is not supported, so send the body without one");
    }
    RequestError::Problem(problem)
}

/// Error about a further account that never had a rate, in a list of so many providers. The scheduler would not read its wake queue.
fn unknown_account(account: Provider, providers: usize) -> RequestError {
    let message = format!(
        "names the account {account}, which has no rate: give it one in the parameter DialRates, and send the call again a minute later; \
         `switchhook dev` takes its rates from --dial-rates when it starts"
    );
    RequestError::Problem(Problem::invalid(vec![FieldError::new(
        if providers > 1 { "providers" } else { "provider" },
        message,
    )]))
}

fn key_reused() -> RequestError {
    let detail = "this idempotency key was used for another request; send a new call with a new key";
    RequestError::Problem(Problem::new(ProblemKind::IdempotencyKeyReused, detail))
}

fn call_forgotten() -> RequestError {
    let detail = "this request created a call before, and the person of that call was forgotten; if the person is to be called all \
                  the same, send the call with a new idempotency key";
    RequestError::Problem(Problem::new(ProblemKind::CallForgotten, detail))
}

/// True if a request with this hash created the call.
fn is_created_by(call: &Call, hash: &str) -> bool {
    call.plan.as_ref().is_some_and(|plan| plan.request_hash.as_deref() == Some(hash))
}

/// True if a request with this hash asked for the call.
fn is_requested_by(call: &NewCall, hash: &str) -> bool {
    call.plan.request_hash.as_deref() == Some(hash)
}
