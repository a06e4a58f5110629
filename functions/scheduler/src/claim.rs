//! The one path by which calls are claimed, whoever found them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_aws::error::note_error;
use switchhook_aws::queue::{ClaimMessage, DueWork, MESSAGE_SCHEMA};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, CallId, Place, Provider, Timestamp, Transition};

use crate::flow::{Flow, Route, Turn};
use crate::{CONCURRENCY, ClaimOutcome, LEASE, Report, Scheduler};

/// Delays after the claim of a probe at which the scheduler looks whether the provider takes calls again.
const PROBE_LOOKS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(15)];

/// Write that a run makes for a due call.
enum Step {
    /// The call is claimed, to be placed in this way. A probe needs no place in the dial rate.
    Claim(Route, Option<Place>, Box<Call>),
    /// The call ends, because it is too late for it.
    Expire(Box<Transition>),
    /// The call waits until its calling window opens.
    Postpone(Box<Transition>),
}

/// Outcome of a [`Step`].
enum StepOutcome {
    Claimed,
    Expired,
    Postponed,
    /// Another writer changed the call at the same time.
    LostRace,
    /// The same. The call was meant to be the probe of this provider, and is not under way with it.
    LostProbe(Provider, CallId),
}

impl Scheduler {
    /// Claims those of the calls that are due, as far as their providers take them. If several want the last places of a provider, the first
    /// in the list get them. The others stay pending. Calls that were woken get no place if others have waited longer, and are
    /// [put behind](Flow::put_behind) them.
    ///
    /// A call that must not be dialled now takes no place: it ends if it is too late for it, or waits until its calling window opens.
    ///
    /// An error of one call counts as failed, and [one](note_error) is returned at the end.
    pub(crate) async fn claim_all(
        &self,
        flow: &mut Flow<'_>,
        call_ids: Vec<CallId>,
        turn: Turn,
        report: &mut Report,
        trace_id: &str,
    ) -> Result<(), Error> {
        let mut first_error = None;
        let mut fail = |report: &mut Report, error: Error| {
            report.failed += 1;
            note_error(&mut first_error, error);
        };
        report.due += call_ids.len() as u64;
        let reads = self.calls.get_calls(call_ids).await;
        let now = self.clock.now();
        let mut by_provider: BTreeMap<Provider, Vec<Call>> = BTreeMap::new();
        let mut steps = Vec::new();
        for read in reads {
            match read {
                Ok(Some(call)) if call.is_due(now) => match self.undialable(&call, now) {
                    Some(step) => steps.push(step),
                    None => match flow.route(&call, false, now).await {
                        Ok(Some(Route::AtRate(provider))) => by_provider.entry(provider).or_default().push(call),
                        Ok(Some(probe @ Route::Probe(_))) => steps.push(Step::Claim(probe, None, Box::new(call))),
                        Ok(None) => {
                            report.waiting += 1;
                            flow.note_if_unconfigured(&call);
                            for provider in call.dial_providers() {
                                flow.await_resumption(provider, now).await;
                            }
                        }
                        Err(error) => fail(report, error),
                    },
                },
                Ok(Some(call)) => match self.correct_wake_at(&call, now).await {
                    Ok(()) => report.lost_races += 1,
                    Err(error) => fail(report, error),
                },
                Ok(None) => report.lost_races += 1,
                Err(error) => fail(report, error),
            }
        }
        for (provider, calls) in by_provider {
            match flow.book(provider, calls.len() as u64, turn, now).await {
                Ok(places) => {
                    let mut calls = calls.into_iter();
                    let booked = places.into_iter().zip(calls.by_ref());
                    steps.extend(
                        booked.map(|(place, call)| Step::Claim(Route::AtRate(provider), Some(place), Box::new(call))),
                    );
                    report.waiting += calls.len() as u64;
                    if turn == Turn::Woken {
                        flow.put_behind(provider, calls.map(|call| call.call_id));
                    }
                }
                Err(error) => fail(report, error),
            }
        }
        let outcomes = stream::iter(steps).map(|step| async move { self.carry_out(step, trace_id).await });
        let outcomes: Vec<Result<StepOutcome, Error>> = outcomes.buffered(CONCURRENCY).collect().await;
        for outcome in outcomes {
            match outcome {
                Ok(StepOutcome::Claimed) => report.claimed += 1,
                Ok(StepOutcome::Expired) => report.expired += 1,
                Ok(StepOutcome::Postponed) => report.postponed += 1,
                Ok(StepOutcome::LostRace) => report.lost_races += 1,
                Ok(StepOutcome::LostProbe(provider, call_id)) => {
                    report.lost_races += 1;
                    if let Err(error) = flow.release_probe(provider, &call_id, now).await {
                        fail(report, error);
                    }
                }
                Err(error) => fail(report, error),
            }
        }
        note_error(&mut first_error, flow.take_error().err());
        first_error.map_or(Ok(()), Err)
    }

    /// Returns the step for a due call that must not be dialled now. `None` if nothing in the row speaks against a dial.
    fn undialable(&self, call: &Call, now: Timestamp) -> Option<Step> {
        let expired = call.expire(&self.policy, now).map(|expired| Step::Expire(Box::new(expired)));
        expired.or_else(|| Some(Step::Postpone(Box::new(call.await_opening(&self.policy, now)?))))
    }

    async fn carry_out(&self, step: Step, trace_id: &str) -> Result<StepOutcome, Error> {
        let (transition, outcome) = match step {
            Step::Claim(route, place, call) => {
                let call_id = call.call_id.clone();
                return match self.claim(*call, route.provider(), place, false, trace_id).await? {
                    ClaimOutcome::Claimed => Ok(StepOutcome::Claimed),
                    ClaimOutcome::NotPending(_)
                    | ClaimOutcome::LostRace
                    | ClaimOutcome::NotFound
                    | ClaimOutcome::Waiting { .. } => self.lost(route, call_id).await,
                };
            }
            Step::Expire(transition) => (transition, StepOutcome::Expired),
            Step::Postpone(transition) => (transition, StepOutcome::Postponed),
        };
        Ok(match self.calls.store(&transition).await? {
            StoreOutcome::Committed => outcome,
            StoreOutcome::LostRace => StepOutcome::LostRace,
        })
    }

    /// Claims a call by hand. If it was meant to be the probe and is not claimed, another call can be the probe.
    pub(crate) async fn claim_on_route(
        &self,
        call: Call,
        route: Route,
        place: Option<Place>,
        flow: &mut Flow<'_>,
        trace_id: &str,
    ) -> Result<ClaimOutcome, Error> {
        let (call_id, provider) = (call.call_id.clone(), route.provider());
        let claim = self.claim(call, provider, place, true, trace_id).await;
        if !matches!(claim, Ok(ClaimOutcome::Claimed))
            && let Err(error) = self.release_lost_probe(route, call_id, flow).await
        {
            let decision = Decision {
                function: "scheduler",
                message: "provider's health not updated",
                action_taken: "health_not_noted",
                provider: Some(provider.as_str()),
                trace_id: Some(trace_id),
                ..Decision::from_error(Some(&error))
            };
            decision.log(self.clock.now(), true);
        }
        claim
    }

    /// Lets another call be the probe, if this call was chosen as the probe and is not claimed. A probe without a result is given up after some time,
    /// so the result of the claim counts more than an error here.
    async fn release_lost_probe(&self, route: Route, call_id: CallId, flow: &mut Flow<'_>) -> Result<(), Error> {
        if let StepOutcome::LostProbe(provider, call_id) = self.lost(route, call_id).await? {
            flow.release_probe(provider, &call_id, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Outcome of a claim that was lost. A call that was meant to be the probe may be claimed by a trigger meanwhile, or be dialled already.
    /// Then it is the probe of whoever claimed it.
    async fn lost(&self, route: Route, call_id: CallId) -> Result<StepOutcome, Error> {
        let Route::Probe(provider) = route else { return Ok(StepOutcome::LostRace) };
        let in_flight = self.calls.get_call(&call_id).await?.and_then(|call| call.in_flight);
        let is_under_way = in_flight.is_some_and(|place| place.provider() == provider);
        Ok(if is_under_way { StepOutcome::LostRace } else { StepOutcome::LostProbe(provider, call_id) })
    }

    /// Moves a call from PENDING to CLAIMED, and queues the claim for the dialer, in the lane of its place. A manual claim ignores the due
    /// time.
    pub(crate) async fn claim(
        &self,
        mut call: Call,
        provider: Provider,
        place: Option<Place>,
        is_manual: bool,
        trace_id: &str,
    ) -> Result<ClaimOutcome, Error> {
        let token = self.random_ids.hex::<16>()?;
        let now = self.clock.now();
        let due_at = call.pending_due_at().filter(|due_at| *due_at <= now);
        let Some(transition) = call.claim(&token, provider, LEASE, is_manual, &self.policy, now) else {
            return Ok(ClaimOutcome::NotPending(call.job.as_str()));
        };
        let failure = match self.calls.store(&transition).await {
            Ok(StoreOutcome::Committed) => None,
            Ok(StoreOutcome::LostRace) => Some(Ok(ClaimOutcome::LostRace)),
            Err(error) => Some(Err(error)),
        };
        if let Some(failure) = failure {
            let Some(read) = self.calls.get_call(&call.call_id).await? else { return Ok(ClaimOutcome::NotFound) };
            call = read;
            // The write may have been committed, and only its answer lost: no other claim has this token.
            if !call.is_claimed_by(&token, self.clock.now()) {
                return failure;
            }
        }
        let claim = ClaimMessage {
            schema_version: MESSAGE_SCHEMA,
            trace_id: trace_id.to_owned(),
            call_id: call.call_id,
            token,
            provider,
            due_at,
            place,
        };
        self.queue.send_claim(&claim).await?;
        if place.is_none() {
            // The call is a probe. If it closes the circuit, the oldest calls that wait come next.
            self.due_queue.send_due(&PROBE_LOOKS.map(|delay| (DueWork::Provider(provider), delay))).await?;
        }
        Ok(ClaimOutcome::Claimed)
    }

    /// Corrects the wake-up time of a pending call that is in the index too early, so that not every run reads it again.
    async fn correct_wake_at(&self, call: &Call, now: Timestamp) -> Result<(), Error> {
        let next =
            call.next_wake_at(&self.policy).filter(|next| *next > now && call.wake_at.is_some_and(|at| at <= now));
        if let (true, Some(next)) = (call.is_pending(), next) {
            match self.calls.set_wake_at(call, next).await? {
                StoreOutcome::Committed | StoreOutcome::LostRace => {}
            }
        }
        Ok(())
    }
}
