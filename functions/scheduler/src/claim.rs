//! The one path by which calls are claimed, whoever found them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{Call, CallId, Provider, Timestamp};

use crate::flow::{Flow, Route};
use crate::{CONCURRENCY, ClaimOutcome, LEASE, Report, Scheduler};

impl Scheduler {
    /// Claims those of the calls that are due, as far as their providers take them within the time `ahead`. The others stay
    /// pending.
    ///
    /// An error of one call counts as failed, and the first is returned at the end.
    pub(crate) async fn claim_all(
        &self,
        flow: &mut Flow<'_>,
        call_ids: Vec<CallId>,
        ahead: Duration,
        report: &mut Report,
        trace_id: &str,
    ) -> Result<(), Error> {
        let mut first_error = None;
        let mut fail = |report: &mut Report, error| {
            report.failed += 1;
            first_error.get_or_insert(error);
        };
        report.due += call_ids.len() as u64;
        let reads = stream::iter(call_ids).map(|call_id| async move { self.calls.get_call(&call_id).await });
        let reads: Vec<Result<Option<Call>, Error>> = reads.buffered(CONCURRENCY).collect().await;
        let now = self.clock.now();
        let mut by_provider: BTreeMap<Provider, Vec<Call>> = BTreeMap::new();
        let mut probes = Vec::new();
        for read in reads {
            match read {
                Ok(Some(call)) if call.is_due(now) => match flow.route(&call, false, now).await? {
                    Some(Route::AtRate(provider)) => by_provider.entry(provider).or_default().push(call),
                    Some(Route::Probe(provider)) => probes.push((provider, call)),
                    None => report.waiting += 1,
                },
                Ok(Some(call)) => match self.correct_wake_at(&call, now).await {
                    Ok(()) => report.lost_races += 1,
                    Err(error) => fail(report, error),
                },
                Ok(None) => report.lost_races += 1,
                Err(error) => fail(report, error),
            }
        }
        let mut claims = probes;
        for (provider, calls) in by_provider {
            let booked = flow.book(provider, calls.len() as u64, ahead, now).await?;
            report.waiting += (calls.len() as u64).saturating_sub(booked);
            let booked = usize::try_from(booked).unwrap_or(usize::MAX);
            claims.extend(calls.into_iter().take(booked).map(|call| (provider, call)));
        }
        let flow = &*flow;
        let claims = stream::iter(claims)
            .map(|(provider, call)| async move { self.claim(flow, call, provider, false, trace_id).await });
        let claims: Vec<Result<ClaimOutcome, Error>> = claims.buffered(CONCURRENCY).collect().await;
        for claim in claims {
            match claim {
                Ok(ClaimOutcome::Claimed) => report.claimed += 1,
                Ok(
                    ClaimOutcome::NotPending(_)
                    | ClaimOutcome::LostRace
                    | ClaimOutcome::NotFound
                    | ClaimOutcome::Waiting { .. },
                ) => report.lost_races += 1,
                Err(error) => fail(report, error),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Moves a call from PENDING to CLAIMED, and queues the claim for the dialer. A manual claim ignores the due time.
    pub(crate) async fn claim(
        &self,
        flow: &Flow<'_>,
        mut call: Call,
        provider: Provider,
        is_manual: bool,
        trace_id: &str,
    ) -> Result<ClaimOutcome, Error> {
        let token = self.random_ids.hex::<16>()?;
        let now = self.clock.now();
        let due_at = call.pending_due_at().filter(|due_at| *due_at <= now);
        let Some(transition) = call.claim(&token, provider, LEASE, is_manual, &self.policy, now) else {
            return Ok(ClaimOutcome::NotPending(call.job.as_str()));
        };
        let failure = match self.calls.store(&transition, self.call_retention).await {
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
        let lane = flow.lane(provider, &call.call_id);
        self.queue.send_claim(&call.call_id, &token, provider, lane, due_at, trace_id).await?;
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
