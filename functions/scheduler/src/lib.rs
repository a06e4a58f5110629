//! The scheduler: claims calls that are due, and queues the claims for the dialer.
//!
//! Four ways lead to it, and all of them take the same path (`claim`):
//! - The schedule, every minute, finds all calls that are due, and those that will be due before its next run.
//! - The stream of the calls table reports a call that was written and is due within a minute.
//! - The queue of due calls delivers a call at the second at which it is due.
//! - The manual trigger names a call. It ignores the due time.
//!
//! **A claim is one conditional write, and only the scheduler that made it queues it.** A claim has a token and a lease. The
//! dialer dials only with the token of the current claim. If a scheduler dies before it queues a claim, the lease ends and the
//! reconciler returns the call to PENDING.
//!
//! Any number of schedulers may run at once. **Together they claim no more calls than can be dialled while the claims last, and no
//! more than the provider may have in flight.** Each books places ([`ProviderHealth`]) before it claims. Calls of a provider that is
//! unavailable stay pending, but for one probe, or go to the next provider that they name.
//!
//! **A due call that must not be dialled now gets no claim.** If it is too late for it, the scheduler ends it. If its calling window has
//! closed, the scheduler has it wait for the opening. So such calls take no place, and are no probe. The dialer checks both again.
//!
//! A provider may be full: it has as many calls as it may have. If calls wait for it, the scheduler looks at the provider again every ten
//! seconds until the next run. The invocation that is first to know it sends the messages for that, and so does each run. If a provider is
//! paused, the scheduler looks again when the pause ends. After the claim of a probe, it looks twice whether the circuit has closed.
//! **Calls that wait for a full provider come before those that are woken later.** If a scheduler was woken and finds a free place at such a
//! provider, it claims the oldest calls instead.

mod claim;
mod flow;
mod run;
mod wake;

use std::time::Duration;

use http::StatusCode;
use lambda_http::{Body, Request, Response};
use serde::Serialize;
use serde_json::{Value, json};
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, StoreOutcome};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_aws::error::both;
use switchhook_aws::http::trace_id_of;
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_aws::query::only_parameter;
use switchhook_aws::queue::Queue;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk::Clock;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::Decision;
#[cfg(doc)]
use switchhook_domain::ProviderHealth;
use switchhook_domain::{Call, CallId, LATE_MAX, Policy, Timestamp, TraceId};
use switchhook_providers::DialRates;

use crate::flow::{Flow, Route, Turn};
pub use crate::run::RUN_MAX;

/// Concurrent claims.
const CONCURRENCY: usize = 16;
/// Time from a claim to its expiry.
pub const LEASE: Duration = Duration::from_secs(5 * 60);
// Every claim is dialled or returned before it expires, unless a dialer dies and blocks its lane. A dial takes less than a minute.
const _: () = assert!(Turn::OldestFirst.ahead().as_secs() + LATE_MAX.as_secs() + 60 <= LEASE.as_secs());
/// Tries of the manual trigger to claim a call that other writers keep changing.
const RACES_MAX: u32 = 5;

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub calls_table: String,
    pub shards: Shards,
    pub index_numbers: bool,
    pub call_retention: Duration,
    pub dial_queue_url: String,
    pub due_queue_url: String,
    pub dial_rates: DialRates,
    pub policy: Policy,
    pub dialers: u32,
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
            calls_table: environment.text("CALLS_TABLE"),
            shards: environment.shards(),
            index_numbers: environment.flag("INDEX_NUMBERS"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            dial_queue_url: environment.text("DIAL_QUEUE_URL"),
            due_queue_url: environment.text("DUE_QUEUE_URL"),
            dial_rates: environment.optional_parsed("DIAL_RATES", str::parse).unwrap_or_default(),
            policy: environment.policy(),
            dialers: environment.number("DIALER_MAX_CONCURRENCY"),
        };
        environment.check(config)
    }
}

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Scheduler {
    pub calls: Calls,
    pub queue: Queue,
    /// Queue that delivers calls at the second at which they are due.
    pub due_queue: Queue,
    /// Rates of the providers. Calls of another provider wait.
    pub dial_rates: DialRates,
    pub policy: Policy,
    /// Limit on dialers that run at the same time.
    pub dialers: u32,
    /// Source of claim tokens.
    pub random_ids: RandomIds,
    pub clock: Clock,
}

/// Result of one run, or of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Due calls that were found.
    pub due: u64,
    pub claimed: u64,
    /// Due calls that ended, because the time after which they make no sense had come.
    pub expired: u64,
    /// Due calls whose calling window was closed. They wait until it opens.
    pub postponed: u64,
    /// Due calls that no provider takes now: it is unavailable, its dial rate is booked, or it has as many calls as it may have.
    pub waiting: u64,
    /// Providers that have as many calls as they may have.
    pub full: u64,
    /// Calls that the queue of due calls delivers when they are due.
    pub delayed: u64,
    /// Calls that were no longer pending and due, or that another writer changed at the same time.
    pub lost_races: u64,
    /// Calls whose claim failed with an error. The next run tries them again.
    pub failed: u64,
    /// Providers with due calls that wait because no provider of the call has a dial rate. The schedule looks for them every ten
    /// minutes.
    pub unconfigured: u64,
    /// 1 if the run ended because its time was up.
    pub budget_used_up: u64,
    /// Time since the oldest due time that a run of the schedule found, in milliseconds. `None` for a batch, and for a run that found
    /// no due call: CloudWatch would charge for a series of zeros.
    pub due_overdue_ms: Option<u64>,
}

/// Result of claiming one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claimed,
    /// The job is in this state, or it is pending and not due.
    NotPending(&'static str),
    /// Another writer changed the call at the same time.
    LostRace,
    /// There is no call with this id.
    NotFound,
    /// The call waits, and is due at this time. No provider of the call takes calls now, its calling window is closed, or the call has [no
    /// room](Call::has_room_for_dial) for another dial.
    Waiting {
        due_at: Timestamp,
    },
}

impl Scheduler {
    /// Claims the calls that are due, within the dial rate of their providers. Has those that will be due before the next run
    /// delivered when they are.
    ///
    /// # Errors
    /// Returns [one](switchhook_aws::error::note_error) of the errors. An error of one call does not keep the run from the other calls. An
    /// error of the index ends the run.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let mut flow = self.flow();
        let claims = self.claim_due(&mut flow, &mut report, started, trace_id).await;
        report.full = flow.full().len() as u64;
        report.unconfigured = flow.unconfigured();
        let result = both(claims, self.look_again(flow.full(), &flow).await);
        self.log(("due calls claimed", "schedule_failed"), &report, &flow, result.as_ref().err(), started, trace_id);
        result.map(|()| report)
    }

    /// Answers `POST /call/trigger?id=…`, the only route that leads to this function.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let id = match only_parameter(request.uri().query().unwrap_or_default(), "id") {
            Ok(id) if id.len() <= KEY_BYTES_MAX => CallId::new(id),
            Ok(_) => return respond(unknown_call()),
            Err(problem) => return respond(problem),
        };
        let started = self.clock.now();
        let trace_id = trace_id_of(&request);
        let trace_id = trace_id.as_ref().map_or("", TraceId::as_str);
        // The provider's id of an attempt leads to its call.
        let id = match self.calls.resolve(&id).await {
            Ok(resolved) => resolved.alias.map_or(id, |alias| alias.call_id),
            Err(error) => {
                // Nobody knows whether a call has this id, so it can be any text.
                self.log_trigger(&Err(error), None, started, trace_id);
                return respond(Problem::storage_failure());
            }
        };
        match self.trigger(&id, trace_id).await {
            Ok(ClaimOutcome::Claimed) => triggered(StatusCode::OK, &id, &json!({"state": "CLAIMED"})),
            Ok(ClaimOutcome::Waiting { due_at }) => {
                triggered(StatusCode::ACCEPTED, &id, &json!({"state": "PENDING", "due_at": due_at.to_string()}))
            }
            Ok(ClaimOutcome::NotPending(state)) => respond(Problem::new(
                ProblemKind::NotPending,
                format!("the job of the call is {state}; only a call whose job is PENDING can be triggered"),
            )),
            Ok(ClaimOutcome::LostRace) => respond(Problem::new(
                ProblemKind::NotPending,
                "the call changed at the same time; send the request again",
            )),
            Ok(ClaimOutcome::NotFound) => respond(unknown_call()),
            Err(_) => respond(failed_trigger()),
        }
    }

    /// Claims one pending call, due or not. If no provider takes it now, makes it due, so that it waits like every due call. A call for
    /// which it is too late ends.
    ///
    /// # Errors
    /// Returns the error of the table or the queue. After an error the call may be claimed; such a claim expires.
    pub async fn trigger(&self, call_id: &CallId, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let started = self.clock.now();
        let mut claim = Ok(ClaimOutcome::LostRace);
        for _ in 0..RACES_MAX {
            claim = self.claim_by_hand(call_id, trace_id).await;
            if !matches!(claim, Ok(ClaimOutcome::LostRace)) {
                break;
            }
        }
        // If there is no such call, the id can be any text, perhaps a phone number.
        let known_id = Some(call_id).filter(|_| !matches!(claim, Ok(ClaimOutcome::NotFound)));
        self.log_trigger(&claim, known_id, started, trace_id);
        claim
    }

    fn log_trigger(
        &self,
        claim: &Result<ClaimOutcome, Error>,
        call_id: Option<&CallId>,
        started: Timestamp,
        trace_id: &str,
    ) {
        let now = self.clock.now();
        let decision = Decision {
            function: "scheduler",
            message: "call triggered",
            action_taken: match claim {
                Ok(ClaimOutcome::Claimed) => "triggered",
                Ok(ClaimOutcome::NotPending(_) | ClaimOutcome::LostRace) => "not_pending",
                Ok(ClaimOutcome::NotFound) => "not_found",
                Ok(ClaimOutcome::Waiting { .. }) => "made_due",
                Err(_) => "storage_failure",
            },
            call_id: call_id.map(CallId::as_str),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            ..Decision::from_error(claim.as_ref().err())
        };
        decision.log(now, claim.is_err());
    }

    async fn claim_by_hand(&self, call_id: &CallId, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let Some(call) = self.calls.get_call(call_id).await? else { return Ok(ClaimOutcome::NotFound) };
        if !call.is_pending() {
            return Ok(ClaimOutcome::NotPending(call.job.as_str()));
        }
        if let Some(expired) = call.expire(&self.policy, self.clock.now()) {
            return Ok(match self.calls.store(&expired).await? {
                StoreOutcome::Committed => ClaimOutcome::NotPending(expired.call.job.as_str()),
                StoreOutcome::LostRace => ClaimOutcome::LostRace,
            });
        }
        let now = self.clock.now();
        // Its calling window is closed. Or its providers have accepted and not dialled it so often that the row has no room for another dial.
        if call.next_opening(now).is_some() || !call.has_room_for_dial() {
            return self.make_due(&call).await;
        }
        let mut flow = self.flow();
        let route = match flow.route(&call, false, now).await? {
            Some(route) => Some(route),
            // Somebody wants to know whether the provider works again.
            None => flow.route(&call, true, now).await?,
        };
        if route.is_none() {
            flow.take_error()?;
        }
        let place = match route {
            Some(Route::Probe(_)) => Some(None),
            Some(Route::AtRate(provider)) => flow.book(provider, 1, Turn::Woken, now).await?.pop().map(Some),
            None => None,
        };
        match route.zip(place) {
            Some((route, place)) => self.claim_on_route(call, route, place, &mut flow, trace_id).await,
            None => self.make_due(&call).await,
        }
    }

    /// Makes a pending call due.
    async fn make_due(&self, call: &Call) -> Result<ClaimOutcome, Error> {
        let transition = call.trigger(&self.policy, self.clock.now());
        let due_at = transition.as_ref().and_then(|transition| transition.call.pending_due_at());
        let (Some(transition), Some(due_at)) = (transition, due_at) else {
            return Ok(ClaimOutcome::NotPending(call.job.as_str()));
        };
        Ok(match self.calls.store(&transition).await? {
            StoreOutcome::Committed => ClaimOutcome::Waiting { due_at },
            StoreOutcome::LostRace => ClaimOutcome::LostRace,
        })
    }

    const fn flow(&self) -> Flow<'_> {
        Flow::new(&self.calls, &self.dial_rates, self.dialers, &self.clock)
    }

    /// Logs a run or a batch: its message, its action if it failed, and the counts of its report.
    fn log(
        &self,
        (message, failed): (&'static str, &'static str),
        report: &Report,
        flow: &Flow<'_>,
        error: Option<&Error>,
        started: Timestamp,
        trace_id: &str,
    ) {
        let now = self.clock.now();
        let mut counts = vec![
            ("due", report.due),
            ("claimed", report.claimed),
            ("expired", report.expired),
            ("postponed", report.postponed),
            ("waiting", report.waiting),
            ("providers_full", report.full),
            ("delayed", report.delayed),
            ("lost_races", report.lost_races),
            ("failed", report.failed),
            ("unconfigured", flow.unconfigured()),
            ("providers_unavailable", flow.unavailable()),
            ("budget_used_up", report.budget_used_up),
        ];
        counts.extend(report.due_overdue_ms.map(|overdue_ms| ("due_overdue_ms", overdue_ms)));
        let decision = Decision {
            function: "scheduler",
            message,
            action_taken: if error.is_none() { "scheduled" } else { failed },
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts,
            ..Decision::from_error(error)
        };
        decision.log(now, error.is_some());
    }
}

/// Response to a trigger that failed after the call was found. A repetition during the attempt is refused, and one after the attempt waives
/// the delay of the retry.
fn failed_trigger() -> Problem {
    Problem::new(
        ProblemKind::StorageFailure,
        "the tables or the queue failed, and the call may be claimed; look at the call before you trigger it again, because a further \
         trigger places its next attempt at once",
    )
}

fn unknown_call() -> Problem {
    Problem::new(ProblemKind::NotFound, "there is no call with this id")
}

/// Response to a trigger.
fn triggered(status: StatusCode, call_id: &CallId, job: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Text(json!({"call_id": call_id, "job": job}).to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn respond(problem: Problem) -> Response<Body> {
    problem.into_response().map(Body::Text)
}
