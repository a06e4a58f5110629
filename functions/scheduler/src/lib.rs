//! The scheduler: claims calls that are due, and hands them to the dialer.
//!
//! **A claim is one conditional write, and who wrote it is the only one to hand it on.** It carries a token, without which
//! nobody dials, and a lease, after which the reconciler takes it back: so a scheduler that dies between claiming and handing
//! on loses nothing but the lease. Any number of schedulers may run at once, and the manual trigger is one of them: it waives
//! the due time and takes the same path.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use lambda_http::{Body, Request, Response};
use serde_json::json;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, KEY_BYTES_MAX, StoreOutcome, TimeRange, WAKE_SHARDS, WakeQueue, shard_of};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::http::path_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, CallId, Policy, Provider, Timestamp};
use switchhook_providers::api_url;

/// A run starts nothing new after this: the function's timeout is 50 s.
const RUN_MAX: Duration = Duration::from_secs(40);
/// Calls that are claimed at once.
const CONCURRENCY: usize = 16;
/// How long a claim stands.
pub const LEASE: Duration = Duration::from_secs(5 * 60);
/// A run claims what a provider's lanes place in this time, so that what is claimed within a lease can be placed within it.
const RUN_EVERY: Duration = Duration::from_secs(60);
/// How often a trigger reads a call again that others keep changing.
const RACES_MAX: u32 = 5;

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub calls_table: String,
    pub call_retention: Duration,
    pub dial_queue_url: String,
    pub providers_secret_id: String,
    pub patience: Duration,
    pub lanes: u32,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            calls_table: environment.text("CALLS_TABLE"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            dial_queue_url: environment.text("DIAL_QUEUE_URL"),
            providers_secret_id: environment.text("PROVIDERS_SECRET_ID"),
            patience: environment.seconds("INACTIVITY_TIMEOUT_SECONDS"),
            lanes: environment.number("CONCURRENT_DIALS_PER_PROVIDER"),
        };
        environment.check(config)
    }
}

/// The handler and what it works with.
#[derive(Debug)]
pub struct Scheduler {
    pub calls: Calls,
    pub call_retention: Duration,
    pub queue: Queue,
    /// For the rate of each provider.
    pub secrets: ProviderSecrets,
    pub policy: Policy,
    /// Calls of one provider that are placed at once, at most.
    pub lanes: u32,
    pub clock: Clock,
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls that were due in the index.
    pub due: u64,
    pub claimed: u64,
    /// Calls that another worker had moved meanwhile.
    pub lost_races: u64,
    /// Calls that must be tried again by the next run.
    pub failed: u64,
    /// Providers without a `dial` in the secret for which calls are due, as far as one shard a run shows it.
    pub unconfigured: u64,
}

/// What became of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    Claimed,
    /// The job is in this state, or is not due.
    NotPending(&'static str),
    /// Another worker changed the call meanwhile.
    LostRace,
    /// Nothing of ours is known under this id.
    NotFound,
}

impl Scheduler {
    /// One run of the schedule.
    ///
    /// # Errors
    /// The first error met, after everything that could be done was done.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let result = self.claim_due(&mut report, started, trace_id).await;
        let now = self.clock.now();
        let chain = result.as_ref().err().map(Error::chain);
        let decision = Decision {
            stage: "scheduler",
            message: "due calls claimed",
            action_taken: if result.is_ok() { "scheduled" } else { "schedule_failed" },
            cause: result.as_ref().err().map(Error::operation),
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts: vec![
                ("due", report.due),
                ("claimed", report.claimed),
                ("lost_races", report.lost_races),
                ("failed", report.failed),
                ("unconfigured", report.unconfigured),
            ],
            ..Decision::default()
        };
        decision.log(now, result.is_err());
        result.map(|()| report)
    }

    /// Answers `POST /calls/{call_id}/trigger`.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let path = path_of(&request);
        let id = path.strip_prefix("/calls/").and_then(|rest| rest.strip_suffix("/trigger"));
        let id = id.filter(|id| !id.is_empty() && id.len() <= KEY_BYTES_MAX);
        let Some(id) = id else {
            return respond(Problem::new(ProblemKind::NotFound, "there is POST /calls/{call_id}/trigger"));
        };
        let id = CallId::new(id);
        let trace_id = format!("trigger-{}", minute_of(self.clock.now()));
        match self.trigger(&id, &trace_id).await {
            Ok(ClaimOutcome::Claimed) => {
                let mut response =
                    Response::new(Body::Text(json!({"call_id": id, "job": {"state": "CLAIMED"}}).to_string()));
                response
                    .headers_mut()
                    .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
                response
            }
            Ok(ClaimOutcome::NotPending(state)) => respond(Problem::new(
                ProblemKind::NotPending,
                format!("the call is {state}; only a call that is PENDING can be triggered"),
            )),
            Ok(ClaimOutcome::LostRace) => respond(Problem::new(
                ProblemKind::NotPending,
                "the call is changing; only a call that is PENDING can be triggered",
            )),
            Ok(ClaimOutcome::NotFound) => {
                respond(Problem::new(ProblemKind::NotFound, "no call is known under this id"))
            }
            Err(_) => respond(Problem::new(
                ProblemKind::StorageFailure,
                "the call may be claimed or not; ask again, that is safe",
            )),
        }
    }

    /// Claims one call whether it is due or not.
    ///
    /// # Errors
    /// Those of the tables and the queue. After an error the call may be claimed: the claim then expires.
    pub async fn trigger(&self, call_id: &CallId, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let started = self.clock.now();
        let mut claim = Ok(ClaimOutcome::LostRace);
        for _ in 0..RACES_MAX {
            claim = self.claim(call_id, true, trace_id).await;
            if !matches!(claim, Ok(ClaimOutcome::LostRace)) {
                break;
            }
        }
        let now = self.clock.now();
        let chain = claim.as_ref().err().map(Error::chain);
        let decision = Decision {
            stage: "scheduler",
            message: "call triggered",
            action_taken: match &claim {
                Ok(ClaimOutcome::Claimed) => "triggered",
                Ok(ClaimOutcome::NotPending(_) | ClaimOutcome::LostRace) => "not_pending",
                Ok(ClaimOutcome::NotFound) => "not_found",
                Err(_) => "storage_failure",
            },
            // What is no call of ours may be anything, a phone number for one.
            call_id: Some(call_id.as_str()).filter(|_| !matches!(claim, Ok(ClaimOutcome::NotFound))),
            cause: claim.as_ref().err().map(Error::operation),
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            ..Decision::default()
        };
        decision.log(now, claim.is_err());
        claim
    }

    async fn claim_due(&self, report: &mut Report, started: Timestamp, trace_id: &str) -> Result<(), Error> {
        let stop_at = started.plus(RUN_MAX);
        let mut first_error = None;
        let providers = self.secrets.current(started).await;
        // Each run starts with another shard, so that none is always the last.
        let first = minute_of(started).unsigned_abs();
        let shards = || (first..first + WAKE_SHARDS).map(|shard| shard % WAKE_SHARDS);
        for provider in Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some()) {
            let Some(dial) = providers.config(provider).and_then(|config| config.dial()) else {
                // Whoever takes `dial` out of the secret wants these calls to wait; whoever never put it there is told.
                let shard = first % WAKE_SHARDS;
                let range = TimeRange::UpTo(started);
                let (waiting, _) =
                    self.calls.wake_queue_page(WakeQueue::Dial(provider), shard, range, Some(1), None).await?;
                report.unconfigured += u64::from(!waiting.is_empty());
                continue;
            };
            let mut left = claims_of_one_run(dial.throughput(self.lanes));
            for shard in shards() {
                let mut start = None;
                while left > 0 && self.clock.now() < stop_at {
                    let limit = i32::try_from(left).unwrap_or(i32::MAX).min(1_000);
                    let range = TimeRange::UpTo(self.clock.now());
                    let (due, next) =
                        self.calls.wake_queue_page(WakeQueue::Dial(provider), shard, range, Some(limit), start).await?;
                    let claims: Vec<Result<ClaimOutcome, Error>> = stream::iter(due)
                        .map(|call_id| async move { self.claim(&call_id, false, trace_id).await })
                        .buffered(CONCURRENCY)
                        .collect()
                        .await;
                    for claim in claims {
                        report.due += 1;
                        match claim {
                            Ok(ClaimOutcome::Claimed) => {
                                report.claimed += 1;
                                left = left.saturating_sub(1);
                            }
                            Ok(ClaimOutcome::NotPending(_) | ClaimOutcome::LostRace | ClaimOutcome::NotFound) => {
                                report.lost_races += 1
                            }
                            Err(error) => {
                                report.failed += 1;
                                first_error.get_or_insert(error);
                            }
                        }
                    }
                    start = next;
                    if start.is_none() {
                        break;
                    }
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// PENDING → CLAIMED, and on to the dialer.
    async fn claim(&self, call_id: &CallId, forced: bool, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let token = new_token()?;
        let mut lost = None;
        for _ in 0..2 {
            let now = self.clock.now();
            let Some(call) = self.calls.get_call(call_id).await? else { return Ok(ClaimOutcome::NotFound) };
            // The write before was done, and its answer lost: nobody else has this token.
            if call.is_claimed_by(&token, now) {
                return self.hand_on(&call, &token, trace_id).await;
            }
            if let Some(lost) = lost {
                return lost;
            }
            let Some(moved) = call.claim(&token, LEASE, forced, &self.policy, now) else {
                return self.not_claimed(&call, forced, now).await;
            };
            lost = match self.calls.store_moved(&moved, self.call_retention).await {
                Ok(StoreOutcome::Committed) => return self.hand_on(&moved.call, &token, trace_id).await,
                Ok(StoreOutcome::LostRace) => Some(Ok(ClaimOutcome::LostRace)),
                Err(error) => Some(Err(error)),
            };
        }
        Ok(ClaimOutcome::LostRace)
    }

    async fn hand_on(&self, call: &Call, token: &str, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let providers = self.secrets.current(self.clock.now()).await;
        let lanes = providers.config(call.provider).and_then(|config| Some(config.dial()?.lanes(self.lanes)));
        let lane = shard_of(call.call_id.as_str(), lanes.unwrap_or(1).into());
        self.queue.send_claim(&call.call_id, token, &format!("{}-{lane}", call.provider), trace_id).await?;
        Ok(ClaimOutcome::Claimed)
    }

    /// A call may wake too early; then it is moved on, or it would wake every minute.
    async fn not_claimed(&self, call: &Call, forced: bool, now: Timestamp) -> Result<ClaimOutcome, Error> {
        let next = call.next_wake_at(&self.policy).filter(|next| *next > now);
        if let (false, true, Some(next)) = (forced, call.is_pending(), next) {
            match self.calls.set_wake_at(call, next).await? {
                StoreOutcome::Committed | StoreOutcome::LostRace => {}
            }
        }
        Ok(ClaimOutcome::NotPending(call.job.as_str()))
    }
}

/// Nobody can guess it, and no two are the same.
fn new_token() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string().into()))?;
    Ok(hex::encode(bytes))
}

fn respond(problem: Problem) -> Response<Body> {
    problem.into_response().map(Body::Text)
}

/// At least one, however slow the provider is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and at most 100")]
fn claims_of_one_run(per_second: f64) -> u64 {
    (per_second * RUN_EVERY.as_secs_f64()).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_claims_what_is_placed_until_the_next() {
        assert_eq!([0.001, 0.5, 1.0, 100.0].map(claims_of_one_run), [1, 30, 60, 6_000]);
    }
}
