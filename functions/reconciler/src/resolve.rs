//! Asks the provider about an attempt that a call woke up for, and stores the answer as an event.
//!
//! **"Not found" withdraws a dial in doubt only if all of this holds:**
//! - The dial is ten minutes old, so the provider has had the time to register the call (`not_found`).
//! - The account of the configuration made the dial, and the dial is not older than two days (`proves_nothing` in `lookup.rs`).
//! - The inbox holds no event of the call that the row lacks, and no record of another dial (`unless_inbox_knows_more`).
//! - No event of the attempt shows that the provider took or made the dial (`Call::was_not_dialled` in `withdrawal.rs`).

use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{ALIVE_MAX, AttemptKey, AttemptRecord, AttemptState, Call, Policy, Timestamp};

use crate::findings::{StoredEnding, StoredId};
use crate::lookup::{LookupOutcome, Lookups, Urgency};
use crate::reconciler::{Reconciler, log_unreported};

/// Shortest time from a dial in doubt, or from a lookup without a result, to the next lookup. A dial in doubt is mostly looked up first when
/// the lease of its claim ends. The time between lookups doubles, up to the inactivity timeout.
pub(crate) const LOOKUP_PAUSE_MIN: Duration = Duration::from_secs(60);
/// Time from a dial in doubt until "not found" means that nobody was dialled. Before, the provider may still be registering the call,
/// however short the inactivity timeout is.
const NOT_FOUND_COUNTS_AFTER: Duration = Duration::from_secs(10 * 60);
/// Longest time between lookups while the provider gives no usable answer. So a dial in doubt is looked up soon after the provider
/// is back.
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
/// Time from a dial until a provider that reports more than endings has reported something: a phone rings for a minute or two. An ending is
/// reported within the same time.
const REPORT_EXPECTED_AFTER: Duration = Duration::from_secs(2 * 60);
/// Mean time of a provider's answers, in milliseconds, above which questions about accepted dials fall behind. A run has 36 s for 600 of them, and asks
/// 16 at the same time.
const SLOW_MS: u64 = 960;
/// Time after which a call wakes up again if all its findings were in the inbox already, and are not folded yet.
pub(crate) const UNFOLDED_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Result of handling one attempt.
pub(crate) enum Resolution {
    /// The result of a lookup is in the inbox as an event, or the inbox held events that the call lacks.
    Stored { is_new: bool },
    /// The inactivity timeout has passed, and the lookup found nothing new.
    DeadlinePassed,
    /// The provider has no such call, and has had the time to register it.
    NotFound,
    /// Nothing is known yet; the next lookup is due at this time.
    RetryAt(Timestamp),
    /// The provider has given no usable answer about an overdue attempt since this time; the next lookup is due at `retry_at`.
    Unanswered { since: Timestamp, retry_at: Timestamp },
    /// There was no lookup: the run has no time or no requests left.
    OverBudget,
    /// The row lacked something that the inbox records, such as a dial. It has that now, and the call is due at once.
    DialRestored,
}

impl Reconciler {
    /// Looks up an attempt whose inactivity timeout has passed.
    pub(crate) async fn resolve_overdue(
        &self,
        call: &Call,
        attempt: &AttemptState,
        urgency: Urgency,
        lookups: &Lookups<'_>,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<Resolution, Error> {
        let Some(record) = call.attempt_records.get(attempt.index) else { return Ok(Resolution::DeadlinePassed) };
        let overdue_since = attempt.last_event_at.plus(self.policy.inactivity_timeout);
        match lookups.look_up(call, record, urgency, now).await? {
            // The call has this ending already, it did not end the attempt, and no other event says more.
            LookupOutcome::Ended(ending) if ending.others.is_empty() && call.contains_event(&ending.event.event_id) => {
                Ok(Resolution::DeadlinePassed)
            }
            LookupOutcome::Ended(ending) => match self.store_ending(call, record, &ending, now, trace_id).await? {
                StoredEnding::New => Ok(Resolution::Stored { is_new: true }),
                // There was time to fold the ending, and it is not folded: it belongs to another call, or was refused. It was
                // queued once more just now, before the passed deadline. If it is folded after all, it wins.
                StoredEnding::Known { since } if since.max(overdue_since).plus(UNFOLDED_PAUSE) <= now => {
                    Ok(Resolution::DeadlinePassed)
                }
                StoredEnding::Known { .. } => Ok(Resolution::Stored { is_new: false }),
                StoredEnding::OfAnotherAttempt | StoredEnding::Unreadable => Ok(Resolution::DeadlinePassed),
            },
            LookupOutcome::Alive(_) if attempt.started_at.plus(ALIVE_MAX) <= now => Ok(Resolution::DeadlinePassed),
            LookupOutcome::Alive(provider_call_id) => {
                let stored = self.store_provider_call_id(call, record, &provider_call_id, now, trace_id).await?;
                let is_new_id = match stored {
                    StoredId::New => true,
                    StoredId::Known => false,
                    StoredId::OfAnotherAttempt => return Ok(Resolution::DeadlinePassed),
                };
                let is_new_alive = self.submit(&call.alive_event(attempt, now), trace_id).await?;
                Ok(Resolution::Stored { is_new: is_new_alive || is_new_id })
            }
            LookupOutcome::OverBudget => Ok(Resolution::OverBudget),
            LookupOutcome::NotFound => {
                let dialled_at = record.dialled_at.filter(|_| call.in_doubt().contains(&record));
                Ok(dialled_at.map_or(Resolution::NotFound, |dialled_at| not_found(dialled_at, now)))
            }
            LookupOutcome::Unavailable => Ok(Resolution::DeadlinePassed),
            // A provider outage ends no attempt, unless it lasts for a second inactivity timeout. A dial in doubt waits longer:
            // when the provider is back, or shows more about a call, it can tell whether it dialled. Only time in which it was
            // asked counts: the reconciler may have stood still, or the call may have waited for the budget.
            LookupOutcome::RetryLater | LookupOutcome::Failing => {
                let in_doubt = call.in_doubt().contains(&record);
                let limit = if in_doubt { ALIVE_MAX } else { self.policy.inactivity_timeout };
                let since = call.unanswered_from(attempt, &self.policy, now);
                let elapsed = Duration::from_millis(now.millis_since(since).unsigned_abs());
                let retry_at = now.plus(elapsed.clamp(LOOKUP_PAUSE_MIN, OUTAGE_PAUSE_MAX));
                let is_limit_reached = elapsed >= limit;
                Ok(if is_limit_reached {
                    Resolution::DeadlinePassed
                } else {
                    Resolution::Unanswered { since, retry_at }
                })
            }
        }
    }

    /// Looks up a dial that got no answer from the provider, before its inactivity timeout has passed.
    pub(crate) async fn resolve_doubt(
        &self,
        call: &Call,
        record: &AttemptRecord,
        dialled_at: Timestamp,
        lookups: &Lookups<'_>,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<Resolution, Error> {
        if now < dialled_at.plus(LOOKUP_PAUSE_MIN) {
            return Ok(Resolution::RetryAt(dialled_at.plus(LOOKUP_PAUSE_MIN)));
        }
        let elapsed = Duration::from_millis(now.millis_since(dialled_at).unsigned_abs());
        // A lookup at the end of the inactivity timeout decides. An event that names no attempt may have begun it anew.
        let deadline = Some(dialled_at.plus(self.policy.inactivity_timeout)).filter(|deadline| *deadline > now);
        let retry_after =
            |pause: Duration| Resolution::RetryAt(deadline.into_iter().fold(now.plus(pause), Timestamp::min));
        let undecided = retry_after(elapsed);
        match lookups.look_up(call, record, Urgency::Doubt, now).await? {
            LookupOutcome::Ended(ending) => Ok(match self.store_ending(call, record, &ending, now, trace_id).await? {
                StoredEnding::New => Resolution::Stored { is_new: true },
                StoredEnding::Known { .. } => Resolution::Stored { is_new: false },
                StoredEnding::OfAnotherAttempt | StoredEnding::Unreadable => undecided,
            }),
            LookupOutcome::Alive(provider_call_id) => {
                Ok(match self.store_provider_call_id(call, record, &provider_call_id, now, trace_id).await? {
                    StoredId::New => Resolution::Stored { is_new: true },
                    StoredId::Known => Resolution::Stored { is_new: false },
                    StoredId::OfAnotherAttempt => undecided,
                })
            }
            LookupOutcome::OverBudget => Ok(Resolution::OverBudget),
            LookupOutcome::NotFound => Ok(not_found(dialled_at, now)),
            LookupOutcome::Unavailable => Ok(undecided),
            LookupOutcome::RetryLater | LookupOutcome::Failing => Ok(retry_after(elapsed.min(OUTAGE_PAUSE_MAX))),
        }
    }

    /// Looks up a dial that the provider accepted, and about which nothing was reported since, before its inactivity timeout has passed. The
    /// provider may have accepted a call that it cannot start, or its webhooks may not arrive.
    ///
    /// If no request or no time is left, the dial is looked up later. So the call does not stay due, and keeps no other waiting.
    pub(crate) async fn resolve_unreported(
        &self,
        call: &Call,
        record: &AttemptRecord,
        dialled_at: Timestamp,
        lookups: &Lookups<'_>,
        now: Timestamp,
        trace_id: &str,
    ) -> Result<Resolution, Error> {
        // An event of Switchhook since the dial says when it was looked up last. The next lookup comes after twice the time.
        let of_dial = |attempt: &AttemptState| call.attempt_records.get(attempt.index) == Some(record);
        let known_at = call.attempts().into_iter().find(of_dial).map_or(dialled_at, |attempt| attempt.last_event_at);
        let known_after = Duration::from_millis(known_at.millis_since(dialled_at).max(0).unsigned_abs());
        let next_at = known_at.plus(known_after.max(REPORT_EXPECTED_AFTER));
        if now < next_at {
            return Ok(Resolution::RetryAt(next_at));
        }
        let elapsed = Duration::from_millis(now.millis_since(dialled_at).unsigned_abs());
        // The call wakes earlier if a timeout passes before.
        let undecided = Resolution::RetryAt(now.plus(elapsed));
        // Nobody waits for this answer, and the doubts of other providers are in the same wake queue.
        if record.provider.is_some_and(|provider| lookups.is_slower_than(SLOW_MS, provider)) {
            return Ok(undecided);
        }
        match lookups.look_up(call, record, Urgency::Unreported, now).await? {
            // The call has this ending already, and it did not end the attempt.
            LookupOutcome::Ended(ending) if call.contains_event(&ending.event.event_id) => Ok(undecided),
            LookupOutcome::Ended(ending) => Ok(match self.store_ending(call, record, &ending, now, trace_id).await? {
                StoredEnding::New => {
                    // A younger ending may still be reported. One without a time is as old as the dial.
                    let times = ending.event.call_events.iter().filter_map(|event| event.occurred_at);
                    let ended_at = times.max().unwrap_or(dialled_at);
                    if ended_at.plus(REPORT_EXPECTED_AFTER) <= now {
                        log_unreported(record.provider, &call.call_id, trace_id, now);
                    }
                    Resolution::Stored { is_new: true }
                }
                // It is in the queue, or the sweep queues it.
                StoredEnding::Known { .. } | StoredEnding::OfAnotherAttempt | StoredEnding::Unreadable => undecided,
            }),
            // A provider that has accepted the dial may know it later.
            LookupOutcome::Alive(_)
            | LookupOutcome::NotFound
            | LookupOutcome::Unavailable
            | LookupOutcome::RetryLater
            | LookupOutcome::Failing
            | LookupOutcome::OverBudget => Ok(undecided),
        }
    }

    /// Keeps a doubt open if the inbox knows more about the dial than the row. Call this with every resolution, before it is carried out.
    pub(crate) async fn unless_inbox_knows_more(
        &self,
        call: &Call,
        record: Option<&AttemptRecord>,
        resolution: Resolution,
        now: Timestamp,
    ) -> Result<Resolution, Error> {
        let is_not_found = matches!(resolution, Resolution::NotFound);
        let ends_doubt = is_not_found || matches!(resolution, Resolution::DeadlinePassed);
        let in_doubt = record.filter(|record| ends_doubt && call.in_doubt().contains(record));
        let dial = in_doubt.and_then(|record| record.key.as_ref().zip(record.dialled_at));
        let Some((attempt, dialled_at)) = dial else { return Ok(resolution) };
        if self.restore_dial(call, now).await? {
            return Ok(Resolution::DialRestored);
        }
        if is_not_found && self.awaits_missing_events(call, attempt, dialled_at, now).await? {
            return Ok(Resolution::Stored { is_new: false });
        }
        Ok(resolution)
    }

    /// Stores the call with what the inbox records and the row lacks: dials, and the reason why the call stops. Returns false if it lacks nothing.
    ///
    /// **A recorded dial of another key shows that the dial of the row was never sent.** The inbox refused to record it, and the dialer died
    /// before the row got the recorded one back. That one may have rung, so it is looked up before the doubt ends. A missing record
    /// proves nothing, because records expire.
    async fn restore_dial(&self, call: &Call, now: Timestamp) -> Result<bool, Error> {
        let records = self.inbox.dial_records(&call.call_id).await?;
        let Some(rebuilt) = Call::rebuild(Some(call), None, &records, &self.policy, now) else { return Ok(false) };
        match self.calls.store(&rebuilt).await? {
            // If another writer came first, the call is still due, and the next run reads the records again.
            StoreOutcome::Committed | StoreOutcome::LostRace => Ok(true),
        }
    }

    /// Makes events of the call that the inbox holds and the row lacks wait for the consumer. Returns true if "not found" does not count yet.
    ///
    /// **The row may have been restored or rebuilt, and have lost the events that tell of the dial.** The provider may have deleted its call since. Events
    /// that are retried or dead letters already put nothing off: the dialer holds the call for them.
    async fn awaits_missing_events(
        &self,
        call: &Call,
        attempt: &AttemptKey,
        dialled_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Error> {
        // An earlier run may have stored the finding itself.
        let finding = call.dial_not_found_event(attempt, now).event_id;
        match self.inbox.missing_events(call, attempt, now).await? {
            Some(mut missing) => {
                missing.retain(|id| *id != finding);
                self.inbox.await_events(call, &missing, now).await
            }
            // Too many events of other calls arrived in the same minutes to find those of this one.
            None => Ok(is_put_off(dialled_at, &self.policy, now)),
        }
    }
}

/// True if "not found" does not count yet because the events of the dial cannot be searched. **This ends**, because the minutes of the dial get no
/// emptier, and each search reads many pages.
fn is_put_off(dialled_at: Timestamp, policy: &Policy, now: Timestamp) -> bool {
    now < dialled_at.plus(policy.inactivity_timeout)
}

/// Decides about a dial in doubt that the provider does not have.
fn not_found(dialled_at: Timestamp, now: Timestamp) -> Resolution {
    let counts_at = dialled_at.plus(NOT_FOUND_COUNTS_AFTER);
    if counts_at <= now {
        return Resolution::NotFound;
    }
    let elapsed = Duration::from_millis(now.millis_since(dialled_at).unsigned_abs());
    Resolution::RetryAt(now.plus(elapsed).min(counts_at))
}

#[cfg(test)]
mod tests {
    use switchhook_domain::ProviderSet;

    use super::*;

    const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

    #[test]
    fn dial_whose_events_cannot_be_searched_is_not_in_doubt_for_ever() {
        let put_off = [600, 899, 900, 90_000].map(|seconds| {
            let now = Timestamp::from_millis(seconds * 1_000);
            is_put_off(Timestamp::from_millis(0), &POLICY, now)
        });
        assert_eq!(put_off, [true, true, false, false]);
    }
}
