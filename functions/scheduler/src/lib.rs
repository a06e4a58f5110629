//! The scheduler: claims calls that are due, and queues the claims for the dialer.
//!
//! **A claim is one conditional write, and only the scheduler that made it queues it.** A claim has a token and a lease. The
//! dialer dials only with the token of the current claim. If a scheduler dies before it queues a claim, the lease ends and the
//! reconciler returns the call to PENDING.
//!
//! Any number of schedulers may run at once. The manual trigger is one of them: it ignores the due time, and otherwise takes
//! the same path.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use lambda_http::{Body, Request, Response};
use serde_json::json;
use switchhook_aws::Error;
use switchhook_aws::calls::{Calls, StoreOutcome, TimeRange, WAKE_SHARDS, WakeQueue, wake_shards_from};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::dynamodb::{KEY_BYTES_MAX, shard_of};
use switchhook_aws::http::path_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_aws::queue::Queue;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, CallId, Policy, Provider, Timestamp};
use switchhook_providers::api_url;

/// Time after which a run starts no further claims. The function's timeout is 50 s.
const RUN_MAX: Duration = Duration::from_secs(40);
/// Concurrent claims.
const CONCURRENCY: usize = 16;
/// Time from a claim to its expiry.
pub const LEASE: Duration = Duration::from_secs(5 * 60);
/// Period of the schedule. A run claims as many calls as the provider's dial rate allows until the next run, so every claim
/// can be dialled within its lease.
const RUN_PERIOD: Duration = Duration::from_secs(60);
/// Tries of the manual trigger to claim a call that other writers keep changing.
const RACES_MAX: u32 = 5;

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub calls_table: String,
    pub call_retention: Duration,
    pub dial_queue_url: String,
    pub providers_secret_id: String,
    pub policy: Policy,
    pub lanes: u32,
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
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            dial_queue_url: environment.text("DIAL_QUEUE_URL"),
            providers_secret_id: environment.text("PROVIDERS_SECRET_ID"),
            policy: environment.policy(),
            lanes: environment.number("CONCURRENT_DIALS_PER_PROVIDER"),
        };
        environment.check(config)
    }
}

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Scheduler {
    pub calls: Calls,
    pub call_retention: Duration,
    pub queue: Queue,
    /// Configuration of the providers, for their dial rates.
    pub secrets: ProviderSecrets,
    pub policy: Policy,
    /// Limit on concurrent dials per provider. Each lane is one message group of the dial queue.
    pub lanes: u32,
    /// Source of claim tokens.
    pub random_ids: RandomIds,
    pub clock: Clock,
}

/// Result of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Due calls that the index returned.
    pub due: u64,
    pub claimed: u64,
    /// Calls that were no longer pending and due, or that another writer changed at the same time.
    pub lost_races: u64,
    /// Calls whose claim failed with an error. The next run tries them again.
    pub failed: u64,
    /// Providers that have due calls but no `dial` in the secret. Each run reads only one shard of such a provider.
    pub unconfigured: u64,
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
}

impl Scheduler {
    /// Claims the calls that are due, within the dial rate of their providers.
    ///
    /// # Errors
    /// Returns the first error. An error of one call does not keep the run from the other calls. An error of the index ends the
    /// run.
    pub async fn run(&self, trace_id: &str) -> Result<Report, Error> {
        let started = self.clock.now();
        let mut report = Report::default();
        let result = self.claim_due(&mut report, started, trace_id).await;
        let now = self.clock.now();
        let decision = Decision {
            stage: "scheduler",
            message: "due calls claimed",
            action_taken: if result.is_ok() { "scheduled" } else { "schedule_failed" },
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            counts: vec![
                ("due", report.due),
                ("claimed", report.claimed),
                ("lost_races", report.lost_races),
                ("failed", report.failed),
                ("unconfigured", report.unconfigured),
            ],
            ..Decision::from_error(result.as_ref().err())
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
            return respond(Problem::new(
                ProblemKind::NotFound,
                "no operation has this path; a call is triggered with POST /calls/{call_id}/trigger",
            ));
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
                format!("the job of the call is {state}; only a call whose job is PENDING can be triggered"),
            )),
            Ok(ClaimOutcome::LostRace) => respond(Problem::new(
                ProblemKind::NotPending,
                "the call changed at the same time; send the request again",
            )),
            Ok(ClaimOutcome::NotFound) => respond(Problem::new(ProblemKind::NotFound, "there is no call with this id")),
            Err(_) => respond(Problem::new(
                ProblemKind::StorageFailure,
                "the tables or the queue failed, and the call may be claimed; send the request again, a repetition is safe",
            )),
        }
    }

    /// Claims one pending call, due or not.
    ///
    /// # Errors
    /// Returns the error of the table or the queue. After an error the call may be claimed; such a claim expires.
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
        let decision = Decision {
            stage: "scheduler",
            message: "call triggered",
            action_taken: match &claim {
                Ok(ClaimOutcome::Claimed) => "triggered",
                Ok(ClaimOutcome::NotPending(_) | ClaimOutcome::LostRace) => "not_pending",
                Ok(ClaimOutcome::NotFound) => "not_found",
                Err(_) => "storage_failure",
            },
            // If there is no such call, the id can be any text, perhaps a phone number.
            call_id: Some(call_id.as_str()).filter(|_| !matches!(claim, Ok(ClaimOutcome::NotFound))),
            duration_ms: Some(now.millis_since(started)),
            trace_id: Some(trace_id),
            ..Decision::from_error(claim.as_ref().err())
        };
        decision.log(now, claim.is_err());
        claim
    }

    async fn claim_due(&self, report: &mut Report, started: Timestamp, trace_id: &str) -> Result<(), Error> {
        let stop_at = started.plus(RUN_MAX);
        let mut first_error = None;
        let providers = self.secrets.current(started).await;
        // Each run starts with another shard, so that no shard is always the last.
        let first = minute_of(started).unsigned_abs();
        for provider in Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some()) {
            let Some(dial) = providers.config(provider).and_then(|config| config.dial()) else {
                // If an operator removed `dial` from the secret on purpose, these calls wait. If it is missing by mistake, the
                // count `unconfigured` shows it.
                let shard = first % WAKE_SHARDS;
                let range = TimeRange::UpTo(started);
                let mut waiting = self.calls.wake_queue_pages(WakeQueue::Dial(provider), shard, range, Some(1), None);
                let is_waiting = waiting.next().await?.is_some_and(|page| !page.items.is_empty());
                report.unconfigured += u64::from(is_waiting);
                continue;
            };
            let mut left = claims_per_run(dial.pacing().throughput(self.lanes));
            for shard in wake_shards_from(first) {
                let limit = i32::try_from(left).unwrap_or(i32::MAX).min(1_000);
                let range = TimeRange::UpTo(self.clock.now());
                let mut index = self.calls.wake_queue_pages(WakeQueue::Dial(provider), shard, range, Some(limit), None);
                while left > 0 && self.clock.now() < stop_at {
                    let Some(page) = index.next().await? else { break };
                    let due = page.items.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX));
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
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Moves a call from PENDING to CLAIMED, and queues the claim for the dialer. A manual claim ignores the due time.
    async fn claim(&self, call_id: &CallId, is_manual: bool, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let token = self.random_ids.hex::<16>()?;
        let mut first_failure = None;
        for _ in 0..2 {
            let now = self.clock.now();
            let Some(call) = self.calls.get_call(call_id).await? else { return Ok(ClaimOutcome::NotFound) };
            // The write of the last round was committed, and only its answer was lost: no other claim has this token.
            if call.is_claimed_by(&token, now) {
                return self.queue_claim(&call, &token, trace_id).await;
            }
            if let Some(failure) = first_failure {
                return failure;
            }
            let Some(transition) = call.claim(&token, LEASE, is_manual, &self.policy, now) else {
                return self.not_claimed(&call, is_manual, now).await;
            };
            first_failure = match self.calls.store(&transition, self.call_retention).await {
                Ok(StoreOutcome::Committed) => return self.queue_claim(&transition.call, &token, trace_id).await,
                Ok(StoreOutcome::LostRace) => Some(Ok(ClaimOutcome::LostRace)),
                Err(error) => Some(Err(error)),
            };
        }
        Ok(ClaimOutcome::LostRace)
    }

    async fn queue_claim(&self, call: &Call, token: &str, trace_id: &str) -> Result<ClaimOutcome, Error> {
        let Some(provider) = call.dial_provider() else { return Ok(ClaimOutcome::NotPending(call.job.as_str())) };
        let providers = self.secrets.current(self.clock.now()).await;
        let lanes = providers.config(provider).and_then(|config| Some(config.dial()?.pacing().lanes(self.lanes)));
        let lane = shard_of(call.call_id.as_str(), lanes.unwrap_or(1).into());
        self.queue.send_claim(&call.call_id, token, &format!("{provider}-{lane}"), trace_id).await?;
        Ok(ClaimOutcome::Claimed)
    }

    /// Corrects the wake-up time of a call that is in the index too early, so that not every run reads it again.
    async fn not_claimed(&self, call: &Call, is_manual: bool, now: Timestamp) -> Result<ClaimOutcome, Error> {
        let next = call.next_wake_at(&self.policy).filter(|next| *next > now);
        if let (false, true, Some(next)) = (is_manual, call.is_pending(), next) {
            match self.calls.set_wake_at(call, next).await? {
                StoreOutcome::Committed | StoreOutcome::LostRace => {}
            }
        }
        Ok(ClaimOutcome::NotPending(call.job.as_str()))
    }
}

fn respond(problem: Problem) -> Response<Body> {
    problem.into_response().map(Body::Text)
}

/// Number of claims per run at a dial rate in calls per second. At least 1, however low the rate is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and at most 100")]
fn claims_per_run(per_second: f64) -> u64 {
    (per_second * RUN_PERIOD.as_secs_f64()).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_claims_what_is_placed_until_the_next() {
        assert_eq!([0.001, 0.5, 1.0, 100.0].map(claims_per_run), [1, 30, 60, 6_000]);
    }
}
