//! The dialer: places the calls that the scheduler claimed.
//!
//! **Nothing is dialled before the row says so, and nothing is dialled twice for one claim.** The row moves from CLAIMED to
//! IN_PROGRESS by a conditional write that names this very dial; only who made that write asks the provider, and only once.
//! Whoever dies after it leaves the attempt in doubt, and the reconciler finds out what became of it: a phone that may have
//! rung is not rung again because a function died.
//!
//! A message is always taken off the queue: what could not be done with it is done when its claim expires.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures_util::future::join_all;
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Calls, StoreOutcome};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::inbox::{Inbox, NewEvent, adopt, submit};
use switchhook_aws::provider::{ApiUrls, ProviderApi, SendError};
use switchhook_aws::queue::{ClaimMessage, Queue};
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::ProviderSecrets;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    AttemptKey, Call, CallId, DialStarted, Policy, Provider, ProviderEvent, StopReason, Timestamp, Transition,
};
use switchhook_providers::{DialAnswer, DialRequest, derived_call_id, dial_api_request, read_dial_answer};

/// How often a write that lost its race is tried again.
const RACES_MAX: u32 = 5;
/// After a provider would not take a call: doubled with every refusal in a row.
const BACKOFF_FIRST: Duration = Duration::from_secs(30);
const BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);
/// Refusals in a row after which a call fails: a day of them.
const REFUSALS_MAX: u32 = 100;

/// What the function reads from its environment.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub call_retention: Duration,
    pub queue_url: String,
    pub providers_secret_id: String,
    pub patience: Duration,
    pub lanes: u32,
    pub api_urls: ApiUrls,
}

impl Config {
    /// # Errors
    /// Names every variable that is missing or bad.
    pub fn from_environment(
        mut environment: Environment<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvironmentError> {
        let config = Self {
            inbox_table: environment.text("INBOX_TABLE"),
            inbox_retention: environment.days("INBOX_RETENTION_DAYS"),
            calls_table: environment.text("CALLS_TABLE"),
            call_retention: environment.days("CALL_RETENTION_DAYS"),
            queue_url: environment.text("QUEUE_URL"),
            providers_secret_id: environment.text("PROVIDERS_SECRET_ID"),
            patience: environment.seconds("INACTIVITY_TIMEOUT_SECONDS"),
            lanes: environment.number("CONCURRENT_DIALS_PER_PROVIDER"),
            api_urls: ApiUrls::from_environment(&mut environment),
        };
        environment.check(config)
    }
}

/// The handler and what it works with.
#[derive(Debug)]
pub struct Dialer {
    pub inbox: Inbox,
    pub calls: Calls,
    pub call_retention: Duration,
    /// Of events.
    pub queue: Queue,
    pub secrets: ProviderSecrets,
    pub api: ProviderApi,
    pub policy: Policy,
    /// Calls of one provider that are placed at once, at most.
    pub lanes: u32,
    pub clock: Clock,
}

/// What became of one claim.
#[derive(Debug, PartialEq, Eq)]
enum DialOutcome {
    /// The claim is used up, expired, or another's: nothing was dialled.
    ClaimLost,
    Accepted,
    /// The person may not be called now.
    WindowClosed,
    /// The person may not be called at all.
    Stopped(StopReason),
    /// Nothing was dialled; tried again later, and not counted.
    Withdrawn(&'static str),
    /// Nothing was dialled, and nothing will be.
    Refused(&'static str),
    /// It may have been dialled.
    InDoubt(&'static str),
}

impl DialOutcome {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::ClaimLost => "claim_lost",
            Self::Accepted => "dialled",
            Self::WindowClosed => "window_closed",
            Self::Stopped(_) => "dial_stopped",
            Self::Withdrawn(_) => "dial_withdrawn",
            Self::Refused(_) => "dial_refused",
            Self::InDoubt(_) => "dial_in_doubt",
        }
    }

    const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::ClaimLost | Self::Accepted | Self::WindowClosed => None,
            Self::Stopped(why) => Some(why.as_str()),
            Self::Withdrawn(reason) | Self::Refused(reason) | Self::InDoubt(reason) => Some(reason),
        }
    }

    /// True if a request went to the provider: the next one waits its turn.
    const fn sent_a_request(&self) -> bool {
        match self {
            Self::ClaimLost | Self::WindowClosed | Self::Stopped(_) => false,
            Self::Accepted | Self::Withdrawn(_) | Self::Refused(_) | Self::InDoubt(_) => true,
        }
    }
}

impl Dialer {
    /// Places the calls of a batch: the lanes side by side, one call after the other in each.
    pub async fn handle(&self, batch: SqsEvent) -> SqsBatchResponse {
        let mut lanes: BTreeMap<&str, Vec<&SqsMessage>> = BTreeMap::new();
        for message in &batch.records {
            let lane = message.attributes.get("MessageGroupId").map_or("", String::as_str);
            lanes.entry(lane).or_default().push(message);
        }
        let waiting = join_all(lanes.into_values().map(|messages| self.dial_lane(messages))).await;
        let mut response = SqsBatchResponse::default();
        response.batch_item_failures = waiting.into_iter().flatten().collect();
        response
    }

    /// Returns what only a later version of this program can read, and what comes after it.
    async fn dial_lane(&self, messages: Vec<&SqsMessage>) -> Vec<BatchItemFailure> {
        let mut waiting = Vec::new();
        for message in messages {
            let started = self.clock.now();
            let decoded = ClaimMessage::decode(message.body.as_deref().unwrap_or_default());
            if matches!(decoded, Err(Error::NewerSchema(_))) || !waiting.is_empty() {
                let mut failure = BatchItemFailure::default();
                failure.item_identifier = message.message_id.clone().unwrap_or_default();
                waiting.push(failure);
                continue;
            }
            let dialled = match &decoded {
                Ok(claim) => self.dial(claim).await,
                Err(error) => Err(Error::DecodeMessage(error.to_string())),
            };
            self.log(decoded.as_ref().ok(), &dialled, started);
            // All lanes of a provider together keep its rate. What failed may have used the line.
            if dialled.as_ref().map_or(true, DialOutcome::sent_a_request) {
                let spent = Duration::from_millis(self.clock.now().millis_since(started).unsigned_abs());
                tokio::time::sleep(self.pause_of(message).await.saturating_sub(spent)).await;
            }
        }
        waiting
    }

    /// From one call to the next in the lane of a message, which is named after its provider.
    async fn pause_of(&self, message: &SqsMessage) -> Duration {
        let lane = message.attributes.get("MessageGroupId").and_then(|lane| lane.split_once('-'));
        let provider = lane.and_then(|(provider, _)| provider.parse::<Provider>().ok());
        let providers = self.secrets.current(self.clock.now()).await;
        let dial = provider.and_then(|provider| providers.config(provider)?.dial());
        dial.map_or(Duration::ZERO, |dial| dial.lane_interval(self.lanes))
    }

    async fn dial(&self, claim: &ClaimMessage) -> Result<DialOutcome, Error> {
        let dial_key = new_dial_key()?;
        let mut last_error = None;
        for _ in 0..RACES_MAX {
            let Some(call) = self.calls.get_call(&claim.call_id).await? else { return Ok(DialOutcome::ClaimLost) };
            // The write before was done, and its answer lost: no other dial has this key.
            if let Some((attempt, last_attempt)) = call.started_dial(&dial_key) {
                return self.place(&call, &attempt, last_attempt, &dial_key, claim).await;
            }
            let now = self.clock.now();
            if !call.is_claimed_by(&claim.token, now) {
                return Ok(DialOutcome::ClaimLost);
            }
            let (moved, dial) = self.decide(&call, &claim.token, &dial_key, now).await?;
            match self.calls.store_moved(&moved, self.call_retention).await {
                Ok(StoreOutcome::Committed) => {}
                Ok(StoreOutcome::LostRace) => continue,
                Err(error) => {
                    last_error = Some(error);
                    continue;
                }
            }
            return match dial {
                Ok((attempt, last_attempt)) => self.place(&moved.call, &attempt, last_attempt, &dial_key, claim).await,
                Err(dial) => Ok(dial),
            };
        }
        Err(last_error.unwrap_or(Error::Contended(RACES_MAX)))
    }

    /// At the last moment: whether the person may be called at all, whether now, and whether this dialer may.
    async fn decide(
        &self,
        call: &Call,
        token: &str,
        dial_key: &str,
        now: Timestamp,
    ) -> Result<(Transition, Result<(AttemptKey, bool), DialOutcome>), Error> {
        let lost = || Error::Contended(0);
        let stop = |why: StopReason| {
            let moved = call.give_up(token, why, &self.policy, now).ok_or_else(lost)?;
            Ok((moved, Err(DialOutcome::Stopped(why))))
        };
        if let Some(to) = &call.to
            && self.calls.is_on_do_not_call_list(to).await?
        {
            return stop(StopReason::DoNotCall);
        }
        let window = call.plan.as_ref().and_then(|plan| plan.window.as_ref());
        match window.map(|window| window.next_opening(now)) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(opening))) => {
                let moved = call.postpone(token, opening, &self.policy, now).ok_or_else(lost)?;
                return Ok((moved, Err(DialOutcome::WindowClosed)));
            }
            // Nobody knows whether the person sleeps.
            Some(Err(_)) => return stop(StopReason::UnknownTimeZone),
        }
        let DialStarted { transition: moved, attempt, is_last_attempt: last_attempt } =
            call.start_dial(token, dial_key, &self.policy, now).ok_or_else(lost)?;
        Ok((moved, Ok((attempt, last_attempt))))
    }

    /// Asks the provider to place the attempt that the row says is dialled. Once.
    async fn place(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        last_attempt: bool,
        dial_key: &str,
        claim: &ClaimMessage,
    ) -> Result<DialOutcome, Error> {
        let providers = self.secrets.current(self.clock.now()).await;
        let (Some(plan), Some(from), Some(to)) = (&call.plan, &call.from, &call.to) else {
            return Ok(DialOutcome::ClaimLost);
        };
        let order = DialRequest {
            call_id: &call.call_id,
            attempt,
            last_attempt,
            from,
            to,
            appointment_id: call.appointment_id.as_deref(),
            metadata: &plan.metadata,
            dial_key,
        };
        let request =
            providers.config(call.provider).and_then(|config| dial_api_request(call.provider, config, &order).ok());
        let Some(request) = request else { return self.withdraw(call, attempt, "not_configured", None).await };
        let answer = match self.api.send(call.provider, request).await {
            Ok(answer) => answer,
            Err(SendError::NotSent(_)) => return self.withdraw(call, attempt, "no_connection", None).await,
            Err(SendError::NoResponse(_)) => return Ok(DialOutcome::InDoubt("no_response")),
        };
        match read_dial_answer(call.provider, answer.status, answer.retry_after.as_deref(), &answer.body) {
            DialAnswer::Accepted { provider_call_id } => {
                let now = self.clock.now();
                let alias = Alias { call_id: call.call_id.clone(), attempt: attempt.clone() };
                let from = CallId::new(derived_call_id(call.provider, &provider_call_id));
                let orphaned_events = self.calls.write_alias(&from, &alias, now).await?;
                adopt(&self.inbox, &self.queue, orphaned_events, &alias).await?;
                self.submit(&call.dial_accepted_event(attempt, &provider_call_id, now), claim).await?;
                Ok(DialOutcome::Accepted)
            }
            DialAnswer::RetryLater { reason, retry_after } => self.withdraw(call, attempt, reason, retry_after).await,
            DialAnswer::Rejected { reason } => {
                self.submit(&call.dial_refused_event(attempt, self.clock.now()), claim).await?;
                Ok(DialOutcome::Refused(reason))
            }
            DialAnswer::InDoubt => Ok(DialOutcome::InDoubt("unclear_answer")),
        }
    }

    /// Nothing was dialled: the attempt is taken back, if nothing was heard of it, and made again later.
    async fn withdraw(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        reason: &'static str,
        retry_after: Option<Duration>,
    ) -> Result<DialOutcome, Error> {
        let mut call = call.clone();
        for _ in 0..RACES_MAX {
            let now = self.clock.now();
            let cap = BACKOFF_FIRST.saturating_mul(1 << call.refusals.min(16)).min(BACKOFF_MAX).as_millis();
            let cap = u64::try_from(cap).unwrap_or(u64::MAX);
            let pause = Duration::from_millis(fastrand::u64(cap / 2..=cap)).max(retry_after.unwrap_or_default());
            let moved = call.withdraw(attempt, now.plus(pause), REFUSALS_MAX, &self.policy, now);
            let Some(moved) = moved else { return Ok(DialOutcome::InDoubt("heard_of")) };
            match self.calls.store_moved(&moved, self.call_retention).await? {
                StoreOutcome::Committed => return Ok(DialOutcome::Withdrawn(reason)),
                StoreOutcome::LostRace => {}
            }
            match self.calls.get_call(&call.call_id).await? {
                Some(read) => call = read,
                None => return Ok(DialOutcome::ClaimLost),
            }
        }
        Err(Error::Contended(RACES_MAX))
    }

    async fn submit(&self, event: &ProviderEvent, claim: &ClaimMessage) -> Result<(), Error> {
        submit(&self.inbox, &self.queue, &NewEvent::from_switchhook(event, &claim.trace_id)?, event).await.map(drop)
    }

    fn log(&self, claim: Option<&ClaimMessage>, dialled: &Result<DialOutcome, Error>, started: Timestamp) {
        let now = self.clock.now();
        let chain = dialled.as_ref().err().map(Error::chain);
        let decision = Decision {
            stage: "dialer",
            message: "claim used",
            action_taken: dialled.as_ref().map_or("dial_failed", DialOutcome::as_str),
            call_id: claim.map(|claim| claim.call_id.as_str()),
            cause: match dialled {
                Ok(dial) => dial.cause(),
                Err(error) => Some(error.operation()),
            },
            error: chain.as_deref(),
            duration_ms: Some(now.millis_since(started)),
            trace_id: claim.map(|claim| claim.trace_id.as_str()),
            ..Decision::default()
        };
        decision.log(now, dialled.is_err());
    }
}

fn new_dial_key() -> Result<String, Error> {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string().into()))?;
    Ok(hex::encode(bytes))
}
