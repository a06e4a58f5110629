//! Lists of calls, and the calls that are stuck: why, what happens next, and when.
//!
//! **Nothing reads the whole table.** Open calls are read from the wake queues, at most [`EXAMINED_MAX`] of them, and no queue takes the places of
//! another. A page of a
//! list reads at most 200 rows.

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use switchhook_aws::calls::{Loaded, Resolved, TimeRange, WakeQueue};
use switchhook_aws::inbox::{Attention, AttentionKind};
use switchhook_domain::{AttemptState, Call, CallId, EVENTS_UNFOLDED, Job, Lifecycle, MoveKind, Provider, Timestamp};

use crate::attention;
use crate::concurrent::CONCURRENCY;
use crate::error::Error;
use crate::stack::Stack;
use crate::time_text;

pub use list::{CallFilter, CallPage, ListedCall, Tab, list};

/// Largest number of open calls, and of dead letters, that one report examines.
pub const EXAMINED_MAX: usize = 1_000;
/// Time after a dial in which its answer and its first event are on their way. After it, a dial without either is in doubt.
pub(crate) const DOUBT_AFTER: Duration = Duration::from_secs(60);
/// Time by which a wake-up may be late. The reconciler and the scheduler run every minute.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(3 * 60);

/// Way in which a call is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StuckKind {
    /// The call was dialled, and nobody knows whether the provider placed it.
    InDoubt,
    /// A dialer holds the call, and has not dialled it.
    Claimed,
    /// The call is due, and was not claimed.
    Overdue,
    /// The call was due, and is not dialled, because an event of it is a dead letter.
    Held,
    /// The attempt was never answered and has not ended.
    Dialling,
    /// The attempt goes on or its outcome is missing, and no event has arrived.
    Silent,
}

impl StuckKind {
    /// Name for display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InDoubt => "in doubt",
            Self::Claimed => "claimed",
            Self::Overdue => "overdue",
            Self::Held => "held",
            Self::Dialling => "dialling",
            Self::Silent => "silent",
        }
    }
}

/// One stuck call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StuckCall {
    pub call_id: CallId,
    pub kind: StuckKind,
    pub provider: Option<Provider>,
    pub job: &'static str,
    pub appointment_id: Option<String>,
    /// Time since which nothing has moved.
    #[serde(serialize_with = "time_text::serialize")]
    pub since: Timestamp,
    /// Reason, as a sentence without its full stop.
    pub why: String,
    /// Next step. It needs nobody's help, unless a dead letter holds the call.
    pub next: &'static str,
    /// Time of the next step. `None` if it is the next run of a schedule.
    #[serde(serialize_with = "time_text::optional::serialize")]
    pub next_at: Option<Timestamp>,
    /// True if the next step is late: then a schedule does not run, or does not come to it.
    pub late: bool,
}

/// Stuck calls of a stack, the longest stuck first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StuckReport {
    pub calls: Vec<StuckCall>,
    /// Calls whose row cannot be read.
    pub unreadable: Vec<CallId>,
    pub examined: usize,
    /// True if there are more open calls than were examined.
    pub more: bool,
}

/// Rows of open calls.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    pub(crate) calls: Vec<Call>,
    pub(crate) unreadable: Vec<CallId>,
    pub(crate) examined: usize,
    pub(crate) more: bool,
}

/// Returns the calls that have not moved for this time, those that are in doubt, and those that one of the latest dead letters holds.
///
/// # Errors
/// An index or a row could not be read.
pub async fn stuck(stack: &Stack, limit: Duration) -> Result<StuckReport, Error> {
    let now = stack.now();
    let overdue = TimeRange::UpTo(now.minus(limit));
    let pending = stack.calls.pending_queues().await?.into_iter().map(|queue| (queue, overdue));
    let open = WakeQueue::OPEN.into_iter().map(|queue| (queue, TimeRange::UpTo(Timestamp::MAX)));
    let OpenCalls { calls, mut unreadable, examined, more } = open_calls(stack, pending.chain(open).collect()).await?;
    let mut calls: Vec<StuckCall> = calls.iter().filter_map(|call| judge(call, now, limit)).collect();
    let (mut held, unread, more_letters) = held_calls(stack).await?;
    held.retain(|held| calls.iter().all(|call| call.call_id != held.call_id));
    calls.extend(held);
    unreadable.extend(unread);
    calls.sort_by(|a, b| (a.since, &a.call_id).cmp(&(b.since, &b.call_id)));
    unreadable.sort();
    unreadable.dedup();
    Ok(StuckReport { calls, unreadable, examined, more: more || more_letters })
}

/// Returns the calls that dead letters hold, and those of dead letters whose rows cannot be read. Such a call is claimed and returned again and again, so
/// it is never overdue. The last value is true if there are more dead letters than were read.
async fn held_calls(stack: &Stack) -> Result<(Vec<StuckCall>, Vec<CallId>, bool), Error> {
    let mut letters = attention::all(stack, AttentionKind::DeadLettered, EXAMINED_MAX + 1).await?;
    let more = letters.len() > EXAMINED_MAX;
    letters.truncate(EXAMINED_MAX);
    let ids: BTreeSet<CallId> = letters.iter().filter_map(|letter| letter.call_id.clone()).collect();
    let ids = ids.into_iter().filter(|id| !id.is_entity()).collect();
    let (mut held, mut unreadable) = (BTreeMap::new(), Vec::new());
    for (id, read) in stack.calls.resolve_all(ids).await {
        let call = match read {
            Ok(Resolved { call: Some(call), .. }) => call,
            Ok(Resolved { call: None, .. }) => continue,
            Err(error) if error.is_unreadable() => {
                unreadable.push(id);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let own = letters.iter().filter(|letter| letter.call_id.as_ref() == Some(&id));
        let missing = own.filter(|letter| letter.is_missing_in(&call));
        if let Some(stuck) = missing.min_by_key(|letter| letter.at).and_then(|oldest| held_by(&call, oldest)) {
            // An event may name the call by the provider's id of an attempt, so that two ids lead to it.
            held.entry(call.call_id).or_insert(stuck);
        }
    }
    Ok((held.into_values().collect(), unreadable, more))
}

/// Returns how a dead letter holds its call. `None` if no dialer has returned the call because of it.
fn held_by(call: &Call, letter: &Attention) -> Option<StuckCall> {
    let (event_id, last, since) = (letter.event_id.as_ref()?, call.moves.last()?, letter.at);
    let is_held = last.kind == MoveKind::Returned && last.reason.as_deref() == Some(EVENTS_UNFOLDED);
    (is_held && matches!(call.job, Job::Pending { .. })).then(|| StuckCall {
        call_id: call.call_id.clone(),
        kind: StuckKind::Held,
        provider: call.dial_provider(),
        job: call.job.as_str(),
        appointment_id: call.appointment_id.clone(),
        since,
        why: format!("its event {event_id} is a dead letter since {since}, and may tell that the person has answered"),
        next: "nobody is dialled until you redrive or discard the event: switchhook dlq list",
        next_at: None,
        late: false,
    })
}

/// Reads the rows of these queues, at most [`EXAMINED_MAX`] of them. Long queues share the places that short ones leave: in an outage a
/// thousand calls may be overdue, and one in doubt.
pub(crate) async fn open_calls(stack: &Stack, queues: Vec<(WakeQueue, TimeRange)>) -> Result<OpenCalls, Error> {
    let shards: Vec<_> =
        queues.into_iter().flat_map(|queue| stack.calls.wake_shards().map(move |shard| (queue, shard))).collect();
    let size = EXAMINED_MAX / usize::try_from(stack.calls.wake_shards().end).unwrap_or(1);
    let mut pages = stream::iter(shards)
        .map(|((queue, range), shard)| async move {
            let size = i32::try_from(size).unwrap_or(i32::MAX);
            stack.calls.wake_queue_pages(queue, shard, range, Some(size)).next().await
        })
        .buffer_unordered(CONCURRENCY);
    let (mut found, mut more) = (Vec::new(), false);
    while let Some(page) = pages.try_next().await? {
        let Some(page) = page else { continue };
        more |= page.next.is_some();
        found.push(page.items);
    }
    more |= found.iter().map(Vec::len).sum::<usize>() > EXAMINED_MAX;
    let ids = shared_out(found, EXAMINED_MAX);
    let examined = ids.len();
    let Loaded { calls, unreadable } = stack.calls.load(ids).await?;
    Ok(OpenCalls { calls, unreadable: unreadable.into_iter().map(|(id, _)| id).collect(), examined, more })
}

/// Returns at most `most` items. Short lists are taken whole, and the longer ones share the rest, each from its start.
fn shared_out<T>(mut lists: Vec<Vec<T>>, most: usize) -> Vec<T> {
    lists.sort_by_key(Vec::len);
    let mut shared = Vec::new();
    for (behind, list) in (1..=lists.len()).rev().zip(lists) {
        let share = (most - shared.len()) / behind;
        shared.extend(list.into_iter().take(share));
    }
    shared
}

/// Returns how a call is stuck. `None` if it moves.
pub(crate) fn judge(call: &Call, now: Timestamp, limit: Duration) -> Option<StuckCall> {
    let is_long = |since: Timestamp| since.plus(limit) <= now;
    let attempts = call.attempts();
    let latest = attempts.last();
    let shown = |kind, provider, since, why: String, next, next_at: Option<Timestamp>| StuckCall {
        call_id: call.call_id.clone(),
        kind,
        provider,
        job: call.job.as_str(),
        appointment_id: call.appointment_id.clone(),
        since,
        why,
        next,
        next_at,
        late: next_at.is_some_and(|at| at.plus(LATE_AFTER) <= now),
    };
    let in_doubt = call.in_doubt().into_iter().filter_map(|record| Some((record.provider, record.dialled_at?))).min();
    if let Some((provider, dialled_at)) = in_doubt
        && dialled_at.plus(DOUBT_AFTER) <= now
    {
        let why = format!(
            "dialled at {dialled_at}; the provider's answer was lost and no event has arrived, so nobody knows whether the \
             phone rings"
        );
        let next = "it is not dialled again before the reconciler looks for the call at the provider";
        return Some(shown(StuckKind::InDoubt, provider, dialled_at, why, next, call.wake_at));
    }
    match &call.job {
        Job::Pending { due_at } => {
            let next = "the scheduler claims it once one of its providers takes calls: switchhook dials";
            let why = format!("due since {due_at}, and not claimed");
            is_long(*due_at).then(|| shown(StuckKind::Overdue, call.dial_provider(), *due_at, why, next, Some(*due_at)))
        }
        Job::Claimed { token: _, provider, lease_ends_at } => {
            let next = "the reconciler returns the claim when its lease ends, and the call becomes pending again";
            let why = format!("claimed, with a lease until {lease_ends_at}, and not dialled");
            let since = call.updated_at;
            let is_stuck = is_long(since) || lease_ends_at.plus(LATE_AFTER) <= now;
            is_stuck.then(|| shown(StuckKind::Claimed, Some(*provider), since, why, next, Some(*lease_ends_at)))
        }
        Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
            let provider = latest.and_then(|attempt| call.attempt_provider(attempt.index));
            let retry = call.awaited_retry_since().filter(|_| attempts.iter().all(AttemptState::has_ended));
            if let Some(since) = retry {
                let why = format!("another system announced a retry at {since}, and no attempt has begun since");
                let next = "the reconciler notes that the retry was missed, and the call ends";
                return is_long(since).then(|| shown(StuckKind::Silent, provider, since, why, next, call.wake_at));
            }
            let since = latest.map_or(call.updated_at, |attempt| attempt.last_event_at);
            if !is_long(since) {
                return None;
            }
            let (kind, why) = match latest.map(|attempt| attempt.lifecycle) {
                Some(state @ (Lifecycle::Initiated | Lifecycle::Ringing)) => {
                    (StuckKind::Dialling, format!("{} without an event since {since}", state.label()))
                }
                Some(Lifecycle::InProgress) => {
                    (StuckKind::Silent, format!("answered, and no event has arrived since {since}"))
                }
                Some(state) => (StuckKind::Silent, format!("{}, and its outcome is not known yet", state.label())),
                None => (StuckKind::Silent, format!("no event has arrived since {since}")),
            };
            let next = "the reconciler asks the provider how the call ended";
            Some(shown(kind, provider, since, why, next, call.wake_at))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use switchhook_domain::{
        AttemptKey, CallEvent, EventId, EventKind, NewCall, Origin, PhoneNumber, Plan, Policy, ProviderEvent,
        ProviderSet, RetryPolicy, fold,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);
    const LEASE: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_760_961_600_000 + seconds * 1_000)
    }

    fn policy() -> Policy {
        Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::from_iter([]) }
    }

    fn pending() -> Call {
        let retry = RetryPolicy {
            attempts_max: 3,
            delay_seconds: 60,
            delay_max_seconds: 600,
            voicemail: false,
            unheard: false,
        };
        let plan = Plan {
            providers: vec![Provider::Retell],
            due_at: at(0),
            not_after: None,
            window: None,
            retry,
            metadata: BTreeMap::new(),
            request_hash: None,
            trace_id: None,
        };
        let new = NewCall {
            call_id: CallId::new("call-1"),
            from: PhoneNumber::new("+15550100"),
            to: PhoneNumber::new("+15550101"),
            appointment_id: Some("apt_1".to_owned()),
            plan,
        };
        Call::schedule(new, &policy(), at(0)).call
    }

    fn claimed() -> Call {
        pending().claim("token", Provider::Retell, LEASE, false, &policy(), at(0)).unwrap().call
    }

    fn dialled() -> Call {
        claimed().start_dial("token", "dial", Provider::Retell, &policy(), at(10)).unwrap().transition.call
    }

    /// Way in which a call is stuck at a time, and whether its next step is late.
    fn judged(call: &Call, seconds: i64) -> Option<(StuckKind, bool)> {
        judge(call, at(seconds), LIMIT).map(|stuck| (stuck.kind, stuck.late))
    }

    #[test]
    fn long_lists_take_no_place_of_a_short_one() {
        assert_eq!(shared_out(vec![vec![1_i32; 9], vec![2], vec![3; 5]], 9), [&[2][..], &[3; 4], &[1; 4]].concat());
        assert_eq!(shared_out(vec![vec![1_i32; 2], vec![2; 5]], 9), [&[1; 2][..], &[2; 5]].concat());
        assert!(shared_out(Vec::<Vec<i32>>::new(), 9).is_empty());
    }

    #[test]
    fn pending_call_is_overdue_once_it_is_due_for_longer_than_the_limit() {
        assert_eq!(judged(&pending(), 599), None);
        assert_eq!(judged(&pending(), 600), Some((StuckKind::Overdue, true)));
        let later = Call { job: Job::Pending { due_at: at(3_600) }, ..pending() };
        assert_eq!(judged(&later, 3_600), None, "it waits until it is due");
    }

    #[test]
    fn claim_is_stuck_when_its_lease_ended_and_nobody_returned_it() {
        assert_eq!(judged(&claimed(), 300), None);
        assert_eq!(judged(&claimed(), 480), Some((StuckKind::Claimed, true)));
    }

    #[test]
    fn dial_without_an_answer_is_in_doubt_after_a_minute() {
        assert_eq!(judged(&dialled(), 69), None, "the answer is on its way");
        let stuck = judge(&dialled(), at(70), LIMIT).unwrap();
        assert_eq!((stuck.kind, stuck.provider, stuck.since), (StuckKind::InDoubt, Some(Provider::Retell), at(10)));
        assert!(stuck.next_at.is_some() && !stuck.late);
    }

    #[test]
    fn dial_that_the_provider_accepted_is_dialling_without_an_event() {
        let mut call = dialled();
        for record in &mut call.attempt_records {
            record.provider_call_id = Some("call_1".to_owned());
        }
        assert_eq!(judged(&call, 609), None);
        assert_eq!(judged(&call, 610).map(|(kind, _)| kind), Some(StuckKind::Dialling));
    }

    /// Another system places the call, and said that it would try again.
    #[test]
    fn call_that_waits_for_the_retry_of_another_system_says_so() {
        let event = |id: &str, kinds: &[EventKind], seconds: i64| {
            let (event_id, origin) = (EventId::new(format!("generic:{id}")), Origin::Provider(Provider::Generic));
            ProviderEvent {
                attempt: Some(AttemptKey::new("1")),
                call_events: kinds.iter().map(|kind| CallEvent::new(*kind, Some(at(seconds)))).collect(),
                ..ProviderEvent::new(event_id, origin, id, CallId::new("call-2"), at(seconds))
            }
        };
        let events = [
            event("no_answer", &[EventKind::Ringing, EventKind::NoAnswer], 10),
            event("retry_scheduled", &[EventKind::RetryScheduled], 20),
        ];
        let call = fold(None, &events, &policy(), at(20)).transition.unwrap().call;
        assert_eq!(judged(&call, 619), None);
        let stuck = judge(&call, at(620), LIMIT).unwrap();
        assert_eq!((stuck.kind, stuck.since, stuck.next_at), (StuckKind::Silent, at(20), Some(at(920))));
        assert_eq!(
            (stuck.why.as_str(), stuck.next),
            (
                "another system announced a retry at 2025-10-20T12:00:20.000Z, and no attempt has begun since",
                "the reconciler notes that the retry was missed, and the call ends"
            )
        );
    }

    #[test]
    fn stuck_call_shows_no_phone_number() {
        let stuck = judge(&pending(), at(700), LIMIT).unwrap();
        let json = serde_json::to_string(&stuck).unwrap();
        assert!(!json.contains("5550"), "{json}");
        assert!(json.contains("\"since\":\"2025-10-20T12:00:00.000Z\""), "{json}");
    }
}
