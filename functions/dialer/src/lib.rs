//! The dialer: places the calls that the scheduler claimed.
//!
//! **Nothing is dialled before the row records the dial, and nothing is dialled twice for one claim.** A conditional
//! write moves the row from CLAIMED to IN_PROGRESS and stores the key of this dial. Only the dialer that made this
//! write asks the provider, and it asks once. A lost answer is asked for again only where the provider has an idempotency key. If
//! the dialer dies after the write, the attempt is in doubt and the reconciler looks it up at the provider. So a phone that may
//! have rung never rings again because a function died.
//!
//! **Nothing is dialled before the inbox records the dial, and the inbox records one dial of each attempt.** A row that was
//! restored from a backup may lack a dial. The inbox refuses to record it a second time, and the row gets it back, in doubt.
//!
//! **Nobody is dialled while an event of the call waits for its next try, or is a dead letter.** It may tell that the person has answered.
//!
//! **If a provider refuses a dial for a reason that is not the number's, the refusal counts in the provider's health.** The dial
//! is withdrawn and is no attempt. If the provider takes no calls at the moment, the call is released before it is dialled. So is it if this
//! dialer could not get the accounts: that tells nothing about the provider, and other dialers may have them.
//!
//! **A claim waits for the time of its [place](Place) in the dial rate**, so all dialers together ask the provider at its rate, and one after
//! the other. A claim that comes long after that time is returned, so that those behind it do not expire.
//!
//! A message leaves the queue even if its dial failed, or if this version cannot read it. The claim of such a call expires, and the reconciler
//! returns the call to PENDING. A message that stayed would block its lane for longer than its claim lasts.

mod health;
mod outcome;
mod repeated;
mod undo;

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, Calls, HealthCache, StoreOutcome};
use switchhook_aws::config::{Environment, EnvironmentError};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::inbox::{self, Inbox, NewEvent, submit, write_alias_and_adopt};
use switchhook_aws::provider::{ApiUrls, ProviderApi, SendError};
use switchhook_aws::queue::{self, ClaimMessage, Queue};
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk::Clock;
use switchhook_aws::secret::DialAccounts;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::Decision;
#[cfg(doc)]
use switchhook_domain::Place;
use switchhook_domain::{
    AttemptKey, Call, CallId, DialFailure, DialSignal, DialStarted, EventId, Policy, Provider, ProviderEvent,
    StopReason, Timestamp,
};
use switchhook_providers::{
    AccountConfig, BOOKED_SHARE, DialAnswer, DialRequest, Entries, Entry, derived_call_id, dial_api_request, ids_of,
};

use crate::outcome::{
    ACCOUNT_DISABLED, DialOutcome, NO_CONNECTION, NO_RESPONSE, NOT_CONFIGURED, NextStep, Pause, RequestNotes,
    UNCLEAR_ANSWER, pause_after, signal,
};
use crate::repeated::repeated;

/// Maximum number of tries of a conditional write that loses the race against another writer.
const RACES_MAX: u32 = 5;
/// Longest delay in milliseconds before the call is due again, after the provider did not dial. It may ask for a longer one.
const BACKOFF_MS: u64 = 60_000;

/// Shortest time for which a call with an event that is not folded is not dialled: the shortest pause between two tries of such an event.
const HOLD_MIN: Duration = Duration::from_secs(5 * 60);
/// Longest such time. Calls that wait for somebody to look at a dead letter take few places in the dial rate.
const HOLD_MAX: Duration = Duration::from_secs(60 * 60);

/// Configuration, read from environment variables at cold start.
#[derive(Debug)]
pub struct Config {
    pub inbox_table: String,
    pub shards: Shards,
    pub inbox_retention: Duration,
    pub calls_table: String,
    pub index_numbers: bool,
    pub call_retention: Duration,
    pub queue_url: String,
    pub dial_accounts_secret_id: String,
    pub policy: Policy,
    pub api_urls: ApiUrls,
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
            queue_url: environment.text("QUEUE_URL"),
            dial_accounts_secret_id: environment.text("DIAL_ACCOUNTS_SECRET_ID"),
            policy: environment.policy(),
            api_urls: ApiUrls::from_environment(&mut environment),
        };
        environment.check(config)
    }
}

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Dialer {
    pub inbox: Inbox,
    pub calls: Calls,
    /// The queue of call events, for the answers of providers.
    pub queue: Queue,
    pub dial_accounts: DialAccounts,
    pub api: ProviderApi,
    /// Health of the providers, as this process read it last.
    pub health: HealthCache,
    pub policy: Policy,
    /// Source of dial keys.
    pub random_ids: RandomIds,
    pub clock: Clock,
}

impl Dialer {
    /// Places the calls of a batch, one after another. The event source mapping hands over one claim at a time.
    pub async fn handle(&self, batch: SqsEvent) {
        for message in &batch.records {
            self.handle_claim(message.body.as_deref().unwrap_or_default()).await;
        }
    }

    /// Places the call of one claim, and then waits until its lane may dial again.
    async fn handle_claim(&self, body: &str) {
        let (started, mut notes) = (self.clock.now(), RequestNotes::default());
        let (claim, dialled) = match queue::decode::<ClaimMessage>(body) {
            Ok(claim) => {
                let dialled = self.dial(&claim, &mut notes).await;
                if dialled.as_ref().is_ok_and(DialOutcome::may_end_probe) {
                    self.release_probe(claim.provider, &claim.call_id).await;
                }
                (Some(claim), dialled)
            }
            Err(error) => (None, Err(error)),
        };
        self.log(claim.as_ref(), &dialled, notes, started);
        // A dialer without accounts does not take claims faster than one that dials. Otherwise it would get most of them.
        let is_unread = matches!(dialled, Ok(DialOutcome::AccountsUnread));
        let pauses_from = notes.asked_at.or_else(|| is_unread.then(|| self.clock.now()));
        if let (Some(pauses_from), Some(place)) = (pauses_from, claim.and_then(|claim| claim.place)) {
            let spent = Duration::from_millis(self.clock.now().millis_since(pauses_from).unsigned_abs());
            tokio::time::sleep(place.pause(BOOKED_SHARE).saturating_sub(spent)).await;
        }
    }

    /// Time until this claim may be dialled. A claim that is lost, or that the provider does not take any more, waits for nothing, so that the
    /// call is soon free again.
    async fn time_to_dial(&self, call: &Call, claim: &ClaimMessage) -> Result<Duration, Error> {
        let now = self.clock.now();
        let wait = claim.place.map_or(Duration::ZERO, |place| place.wait(now));
        let may_be_dialled = !wait.is_zero()
            && call.is_claimed_by(&claim.token, now)
            && self.health_that_allows(claim.provider, call, now).await?.is_some();
        Ok(if may_be_dialled { wait } else { Duration::ZERO })
    }

    async fn dial(&self, claim: &ClaimMessage, notes: &mut RequestNotes) -> Result<DialOutcome, Error> {
        let accounts = self.dial_accounts.current(self.clock.now()).await;
        let random_id = self.random_ids.hex::<8>()?;
        let dial_key = accounts.config(claim.provider).map_or(random_id.clone(), |config| config.dial_key(&random_id));
        let (mut last_error, mut has_waited) = (None, false);
        for round in 0..=RACES_MAX {
            let read = || self.calls.get_call(&claim.call_id);
            // If the last write was committed, only this dialer knows that the provider was not asked yet. So the read is repeated.
            let call = if round == 0 { read().await? } else { repeated(read).await? };
            let Some(call) = call else { return Ok(DialOutcome::ClaimLost) };
            // No other dial has this key. So the write of the last round was committed, and only its answer was lost.
            if let Some((attempt, is_last_attempt)) = call.started_dial(&dial_key) {
                return self.place(&call, &attempt, is_last_attempt, &accounts, claim, notes).await;
            }
            // There is no further try.
            if round == RACES_MAX {
                break;
            }
            if !has_waited {
                // If the row changes meanwhile, the write of the next step is refused, and the row is read again.
                tokio::time::sleep(self.time_to_dial(&call, claim).await?).await;
                has_waited = true;
            }
            let now = self.clock.now();
            let step = self.next_step(&call, claim, &accounts, &dial_key, now).await?;
            let Some(transition) = step.transition() else {
                // The call was called off since it was claimed, or has ended. If it is under way, its dial may be the probe.
                if call.in_flight.is_none() {
                    self.release_probe(claim.provider, &claim.call_id).await;
                }
                return Ok(DialOutcome::ClaimLost);
            };
            match self.calls.store(transition).await {
                Ok(StoreOutcome::Committed) => {}
                Ok(StoreOutcome::LostRace) => continue,
                Err(error) => {
                    last_error = Some(error);
                    continue;
                }
            }
            return match step {
                NextStep::Dial(DialStarted { transition, attempt, is_last_attempt }) => {
                    self.place(&transition.call, &attempt, is_last_attempt, &accounts, claim, notes).await
                }
                NextStep::Postpone(_) => Ok(DialOutcome::WindowClosed),
                NextStep::Hold(_) => Ok(DialOutcome::Held),
                NextStep::Release(_) => Ok(DialOutcome::Released),
                NextStep::AwaitAccounts(_) => Ok(DialOutcome::AccountsUnread),
                NextStep::GiveUp(_, reason) => Ok(DialOutcome::Stopped(reason)),
                NextStep::ClaimLost => Ok(DialOutcome::ClaimLost),
            };
        }
        Err(last_error.unwrap_or(Error::Contended(RACES_MAX)))
    }

    /// Decides at the last moment whether this claim is still valid, whether the provider takes the call, and whether the person
    /// may be called at this time.
    async fn next_step(
        &self,
        call: &Call,
        claim: &ClaimMessage,
        accounts: &Entries<AccountConfig>,
        dial_key: &str,
        now: Timestamp,
    ) -> Result<NextStep, Error> {
        let ClaimMessage { token, provider, .. } = claim;
        if !call.is_claimed_by(token, now) {
            return Ok(NextStep::ClaimLost);
        }
        let give_up = |reason: StopReason| {
            let transition = call.give_up(token, reason, &self.policy, now);
            transition.map_or(NextStep::ClaimLost, |transition| NextStep::GiveUp(transition, reason))
        };
        if call.is_too_late(now) {
            return Ok(give_up(StopReason::TooLate));
        }
        if accounts.is_unread() {
            let release = call.await_accounts(token, now.plus(backoff()), &self.policy, now);
            return Ok(release.map_or(NextStep::ClaimLost, NextStep::AwaitAccounts));
        }
        if claim.place.is_some_and(|place| place.is_missed(now)) {
            let release = call.release_late(token, &self.policy, now);
            return Ok(release.map_or(NextStep::ClaimLost, NextStep::Release));
        }
        let Some(health) = self.health_that_allows(*provider, call, now).await? else {
            let release = call.release(token, &self.policy, now);
            return Ok(release.map_or(NextStep::ClaimLost, NextStep::Release));
        };
        if let Some(to) = &call.to
            && DoNotCallList::new(&self.calls, &self.inbox).contains(to).await?
        {
            return Ok(give_up(StopReason::DoNotCall));
        }
        let window = call.plan.as_ref().and_then(|plan| plan.window.as_ref());
        let opening = window.map(|window| window.next_opening(now));
        if matches!(opening, None | Some(Ok(None)))
            && let Some(since) = self.unfolded_since(call).await?
        {
            let hold = call.hold(token, now.plus(hold_pause(since, now)), &self.policy, now);
            return Ok(hold.map_or(NextStep::ClaimLost, NextStep::Hold));
        }
        Ok(match opening {
            None | Some(Ok(None)) => call
                .start_dial(token, dial_key, *provider, &self.policy, now)
                .map(|started| if health.watches_dials(now) { started.watched() } else { started })
                .map_or(NextStep::ClaimLost, NextStep::Dial),
            Some(Ok(Some(opening))) => {
                call.postpone(token, opening, &self.policy, now).map_or(NextStep::ClaimLost, NextStep::Postpone)
            }
            // Without a time zone nobody knows whether it is night where the person is.
            Some(Err(_)) => give_up(StopReason::UnknownTimeZone),
        })
    }

    /// Returns the time since which an event of the call is retried, waits, or is a dead letter. `None` if no event is. It may tell that the person
    /// has answered. An event may have only the provider's id of its attempt.
    async fn unfolded_since(&self, call: &Call) -> Result<Option<Timestamp>, Error> {
        let unfolded = self.inbox.unfolded_events(&ids_of(call)).await?;
        let missing = unfolded.iter().filter(|mark| mark.is_missing_in(call));
        let Some(oldest) = missing.min_by_key(|mark| mark.at) else { return Ok(None) };
        let decision = Decision {
            function: "dialer",
            message: "not dialled, because an event of the call is not folded",
            action_taken: "unfolded_event_found",
            event_id: oldest.event_id.as_ref().map(EventId::as_str),
            call_id: Some(call.call_id.as_str()),
            ..Decision::default()
        };
        decision.log(self.clock.now(), false);
        Ok(Some(oldest.at))
    }

    /// Asks the provider, once, to place the attempt that the row records as dialled.
    async fn place(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        is_last_attempt: bool,
        accounts: &Entries<AccountConfig>,
        claim: &ClaimMessage,
        notes: &mut RequestNotes,
    ) -> Result<DialOutcome, Error> {
        let (Some(plan), Some(record), Some(from), Some(to)) =
            (&call.plan, call.dial_record(attempt), &call.from, &call.to)
        else {
            return Ok(DialOutcome::ClaimLost);
        };
        let (provider, dial_key) = (record.provider, record.dial_key.as_str());
        let dial = DialRequest {
            call_id: &call.call_id,
            attempt,
            is_last_attempt,
            from,
            to,
            appointment_id: call.appointment_id.as_deref(),
            metadata: &plan.metadata,
            dial_key,
        };
        let request = accounts.config(provider).and_then(|config| dial_api_request(provider, config, &dial).ok());
        let Some(request) = request else {
            let cause = match accounts.entry(provider) {
                Entry::Disabled => ACCOUNT_DISABLED,
                Entry::Configured(_) | Entry::Unnamed => NOT_CONFIGURED,
            };
            notes.has_no_account = true;
            let signal = DialSignal::Failed { failure: DialFailure::AccountProblem, cause, retry_after: None };
            self.note(provider, &call.call_id, signal).await;
            return self.withdraw(call, dial_key, cause, Pause::default()).await;
        };
        match self.inbox.record_dial(&call.call_id, &record, plan.kept_from(), self.clock.now()).await {
            Ok(inbox::DialRecordOutcome::Recorded) => {}
            Ok(inbox::DialRecordOutcome::Refused(records)) => {
                return self.recall(call, attempt, dial_key, records).await;
            }
            // Perhaps only the answer was lost. Then the inbox would refuse the next dial of this attempt, and this one would be looked up. If the
            // deletion fails too, the attempt keeps its number: the inbox may hold an earlier dial of it.
            Err(error) => {
                self.delete_dial_record(call, &record).await;
                return self.withdraw(call, dial_key, "dial_not_recorded", Pause::default()).await.and(Err(error));
            }
        }
        let asked_at = self.clock.now();
        notes.asked_at = Some(asked_at);
        // The scheduler's clock may be ahead of this one.
        let since_due = |due_at| u64::try_from(asked_at.millis_since(due_at)).unwrap_or_default();
        notes.due_to_request_ms = claim.due_at.map(since_due);
        let answer = self.api.dial(provider, to, request, &self.clock).await;
        notes.request_ms = Some(self.clock.now().millis_since(asked_at).unsigned_abs());
        let signal = signal(&answer, from, to);
        notes.is_failed = signal != DialSignal::Works;
        // Before the call is due again, so that no scheduler claims it for a provider that just became unavailable.
        if !matches!(answer, Ok(DialAnswer::Accepted { .. })) {
            self.note(provider, &call.call_id, signal).await;
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(SendError::NotSent(_)) => {
                return self.take_back(call, &record, NO_CONNECTION, Pause::default(), claim).await;
            }
            Err(SendError::NoResponse(_)) => return Ok(DialOutcome::InDoubt(NO_RESPONSE)),
        };
        let pause = pause_after(&answer, call.refusal_pauses(dial_key));
        match answer {
            DialAnswer::Accepted { provider_call_id } => {
                let now = self.clock.now();
                let recorded = async {
                    repeated(|| self.write_alias(call, attempt, provider, &provider_call_id, now)).await?;
                    let accepted = call.dial_accepted_event(attempt, &provider_call_id, now);
                    repeated(|| self.submit(&accepted, claim)).await
                };
                let recorded = recorded.await;
                // Last, because it may read a table that does not answer. The dialer might be stopped before the answer is recorded.
                self.note(provider, &call.call_id, signal).await;
                recorded.map(|()| DialOutcome::Accepted)
            }
            // The provider may still report this call. So the dial and its record stay, and the event withdraws the attempt.
            DialAnswer::NotDialled { provider_call_id, refusal } => {
                let now = self.clock.now();
                repeated(|| self.write_alias(call, attempt, provider, &provider_call_id, now)).await?;
                let not_dialled = call.not_dialled_event(attempt, &provider_call_id, now);
                repeated(|| self.submit(&not_dialled, claim)).await?;
                Ok(DialOutcome::Withdrawn(refusal.reason().unwrap_or(UNCLEAR_ANSWER)))
            }
            DialAnswer::Busy { reason, .. }
            | DialAnswer::TooManyCalls { reason, .. }
            | DialAnswer::AccountProblem { reason }
            | DialAnswer::NumberOrAccountProblem { reason }
            | DialAnswer::CallingNumberProblem { reason } => self.take_back(call, &record, reason, pause, claim).await,
            DialAnswer::Rejected { reason } => {
                self.delete_dial_record(call, &record).await;
                let rejection = |call: &Call, now| Some(call.reject(dial_key, &self.policy, now)?.because(reason));
                self.undo_dial(call, dial_key, rejection, DialOutcome::Rejected(reason)).await
            }
            DialAnswer::InDoubt => Ok(DialOutcome::InDoubt(UNCLEAR_ANSWER)),
        }
    }

    /// Writes an alias from the provider's id to the attempt, for events without our ids. One that leads to another call stays.
    ///
    /// Call this before the event about the answer is submitted: a row that knows the provider's id always has its alias.
    async fn write_alias(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        provider: Provider,
        provider_call_id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let alias = Alias { call_id: call.call_id.clone(), attempt: attempt.clone() };
        let from = CallId::new(derived_call_id(provider, provider_call_id));
        write_alias_and_adopt(&self.calls, &self.inbox, &self.queue, &from, &alias, None, now).await.map(drop)
    }

    async fn submit(&self, event: &ProviderEvent, claim: &ClaimMessage) -> Result<(), Error> {
        submit(&self.inbox, &self.queue, &NewEvent::from_switchhook(event, &claim.trace_id)?, event).await.map(drop)
    }

    fn log(
        &self,
        claim: Option<&ClaimMessage>,
        dialled: &Result<DialOutcome, Error>,
        notes: RequestNotes,
        started: Timestamp,
    ) {
        let now = self.clock.now();
        let failure = Decision::from_error(dialled.as_ref().err());
        let decision = Decision {
            function: "dialer",
            message: "claim handled",
            action_taken: dialled.as_ref().map_or("dial_failed", DialOutcome::as_str),
            provider: claim.map(|claim| claim.provider.as_str()),
            call_id: claim.map(|claim| claim.call_id.as_str()),
            cause: dialled.as_ref().map_or(failure.cause, DialOutcome::cause),
            duration_ms: Some(now.millis_since(started)),
            trace_id: claim.map(|claim| claim.trace_id.as_str()),
            counts: notes.counts(),
            ..failure
        };
        decision.log(now, dialled.is_err());
    }
}

/// Returns the time for which a call with an event that is not folded `since` then is not dialled. It is the age of the trouble, so it doubles.
fn hold_pause(since: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(now.millis_since(since).unsigned_abs()).clamp(HOLD_MIN, HOLD_MAX)
}

/// Returns the time after which a call that was not dialled is due again, drawn at random.
fn backoff() -> Duration {
    Duration::from_millis(fastrand::u64(BACKOFF_MS / 2..=BACKOFF_MS))
}
