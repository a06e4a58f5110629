//! What was asked of a call that Switchhook places, and the moves that its workers make.
//!
//! **Each move has one owner and is one conditional write of the row that it was made from.** The moves here are pure: they
//! say what the next row is, or that the call is not in the state that the move starts from; the database decides whether it is
//! written.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::call::{AttemptRecord, AttemptState, Call, Job, Policy};
use crate::event::{AttemptKey, CallId, Direction, PhoneNumber, Provider};
use crate::lifecycle::{Lifecycle, Outcome};
use crate::time::Timestamp;

/// What was asked of a call when it was created. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Not before this.
    pub due_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CallingWindow>,
    pub retry: RetryPolicy,
    /// Told to the provider with every attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Of the request that created the call: by it a repetition is told from another request under the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
}

/// How often a call is tried again, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub attempts_max: u8,
    /// The longest delay before the second attempt; it doubles with every attempt.
    pub delay_seconds: u32,
    /// The longest delay before any attempt.
    pub delay_max_seconds: u32,
    /// Whether a call that reached a voicemail is tried again.
    #[serde(default)]
    pub voicemail: bool,
}

/// Whether an attempt that ended so is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryDecision {
    Yes,
    /// If no attempt before ended so.
    Once,
    Never,
}

/// When a person may be called, by the clock where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallingWindow {
    /// IANA name of the callee's time zone, for example `Europe/London`.
    pub time_zone: String,
    /// Local time from which on calls may be placed.
    pub opens: civil::Time,
    /// Local time from which on they may not, the same day.
    pub closes: civil::Time,
    /// Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// What is wrong with a calling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    #[error("unknown time zone: an IANA name such as Europe/London is needed")]
    UnknownTimeZone,
    #[error("the window closes before it opens")]
    ClosesBeforeItOpens,
}

impl CallingWindow {
    /// Checks that the window can be open at all.
    ///
    /// # Errors
    /// See [`WindowError`].
    pub fn check(&self) -> Result<(), WindowError> {
        TimeZone::get(&self.time_zone).map_err(|_| WindowError::UnknownTimeZone)?;
        if self.closes <= self.opens { Err(WindowError::ClosesBeforeItOpens) } else { Ok(()) }
    }

    /// When the window opens next; none: it is open now.
    ///
    /// # Errors
    /// See [`WindowError`]: a window that cannot be understood is never open.
    pub fn next_opening(&self, now: Timestamp) -> Result<Option<Timestamp>, WindowError> {
        self.check()?;
        let zone = TimeZone::get(&self.time_zone).map_err(|_| WindowError::UnknownTimeZone)?;
        let now = jiff::Timestamp::from_millisecond(now.as_millis()).map_err(|_| WindowError::UnknownTimeZone)?;
        let local = now.to_zoned(zone.clone());
        if self.is_day(local.weekday()) && (self.opens..self.closes).contains(&local.time()) {
            return Ok(None);
        }
        // A week holds every day that the window has, and the eighth day is today's again.
        let openings = (0..=7).filter_map(|days| {
            let date = local.date().checked_add(jiff::Span::new().days(days)).ok()?;
            let opening = date.to_datetime(self.opens).to_zoned(zone.clone()).ok()?.timestamp();
            (self.is_day(date.weekday()) && opening > now).then(|| Timestamp::from(opening))
        });
        Ok(Some(openings.min().unwrap_or(Timestamp::MAX)))
    }

    fn is_day(&self, weekday: civil::Weekday) -> bool {
        self.days.is_empty() || self.days.iter().any(|day| day.weekday() == weekday)
    }
}

impl Day {
    const fn weekday(self) -> civil::Weekday {
        match self {
            Self::Mon => civil::Weekday::Monday,
            Self::Tue => civil::Weekday::Tuesday,
            Self::Wed => civil::Weekday::Wednesday,
            Self::Thu => civil::Weekday::Thursday,
            Self::Fri => civil::Weekday::Friday,
            Self::Sat => civil::Weekday::Saturday,
            Self::Sun => civil::Weekday::Sunday,
        }
    }
}

impl RetryPolicy {
    /// When the attempt after this one is due: full jitter, drawn from what names the attempt, so that every fold of the same
    /// events draws the same.
    fn due_after(&self, call_id: &CallId, key: Option<&AttemptKey>, number: u8, ended_at: Timestamp) -> Timestamp {
        let doublings = u32::from(number.saturating_sub(1)).min(31);
        let cap = u64::from(self.delay_seconds) << doublings;
        let cap_ms = cap.min(self.delay_max_seconds.into()) * 1_000;
        let mut hasher = Sha256::new();
        hasher.update(call_id.as_str());
        hasher.update([0]);
        hasher.update(key.map_or("", AttemptKey::as_str));
        let drawn = hasher.finalize().iter().take(8).fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
        ended_at.plus(Duration::from_millis(drawn % (cap_ms + 1)))
    }
}

/// Why no further attempt will be made, whatever policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// By the user.
    Canceled,
    /// The number may not be called.
    DoNotCall,
    /// Nobody knows when the person may be called.
    UnknownTimeZone,
    /// The provider would not take the call for too long.
    ProviderRefused,
}

impl StopReason {
    /// The name in answers and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::DoNotCall => "do_not_call",
            Self::UnknownTimeZone => "unknown_time_zone",
            Self::ProviderRefused => "provider_refused",
        }
    }
}

/// The due time of one attempt, waived by the manual trigger. It stays waived until that attempt was made: a provider that
/// will not take it now, or a dialer that dies, does not send it back to a due time that somebody waived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualTrigger {
    /// Attempts made before the one that was triggered.
    pub after_attempts: usize,
    pub at: Timestamp,
}

/// Who is to be called, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    pub call_id: CallId,
    pub provider: Provider,
    pub from: PhoneNumber,
    pub to: PhoneNumber,
    pub appointment_id: Option<String>,
    pub plan: Plan,
}

/// The next row of a call, and how many announcements at the end of its log are new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub call: Call,
    pub new_announcements: usize,
}

/// An attempt that its dialer may now place: once the row that says so is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialStarted {
    pub transition: Transition,
    pub attempt: AttemptKey,
    /// Policy allows none after it.
    pub is_last_attempt: bool,
}

impl Call {
    /// A call that is to be placed: → PENDING.
    #[must_use]
    pub fn schedule(new: NewCall, policy: &Policy, now: Timestamp) -> Transition {
        let NewCall { call_id, provider, from, to, appointment_id, plan } = new;
        let due_at = plan.due_at;
        let mut call = Self::empty(call_id, provider, Job::Pending { due_at }, now);
        call.direction = Some(Direction::Outbound);
        call.from = Some(from);
        call.to = Some(to);
        call.appointment_id = appointment_id;
        call.plan = Some(plan);
        call.into_transition(policy, now)
    }

    /// PENDING → CLAIMED, for the scheduler. None if the call is not pending, or not due and not to be `forced`: the manual
    /// trigger waives the due time and nothing else.
    #[must_use]
    pub fn claim(
        &self,
        token: &str,
        lease: Duration,
        forced: bool,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        match &self.job {
            Job::Pending { due_at } if self.plan.is_some() && (forced || *due_at <= now) => {}
            Job::Pending { .. }
            | Job::Claimed { .. }
            | Job::InProgress
            | Job::Completed
            | Job::Failed
            | Job::Canceled => return None,
        }
        let mut call = self.clone();
        if forced {
            call.manual_trigger = Some(ManualTrigger { after_attempts: self.attempt_records.len(), at: now });
        }
        call.job = Job::Claimed { token: token.to_owned(), lease_ends_at: now.plus(lease) };
        Some(call.into_transition(policy, now))
    }

    /// True if the claim with this token stands and its lease is alive.
    #[must_use]
    pub fn is_claimed_by(&self, token: &str, now: Timestamp) -> bool {
        match &self.job {
            Job::Claimed { token: held, lease_ends_at } => held == token && now < *lease_ends_at,
            Job::Pending { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Canceled => false,
        }
    }

    /// CLAIMED → IN_PROGRESS, for the dialer that holds the claim. **Only who wrote this row may ask the provider to place the
    /// attempt, and only once.** `dial_key` names this very dial and no other. None if the claim is not the dialer's, or the call
    /// holds no further attempt.
    #[must_use]
    pub fn start_dial(&self, token: &str, dial_key: &str, policy: &Policy, now: Timestamp) -> Option<DialStarted> {
        let plan = self.plan.as_ref().filter(|_| self.is_claimed_by(token, now))?;
        if self.attempt_records.len() >= crate::call::CALL_ATTEMPTS_MAX {
            return None;
        }
        let numbers = self.attempt_records.iter().filter_map(|slot| slot.key.as_ref()?.as_str().parse::<u32>().ok());
        let attempt = AttemptKey::new((numbers.max().unwrap_or(0) + 1).to_string());
        let is_last_attempt = self.attempt_records.len() + 1 >= usize::from(plan.retry.attempts_max);
        let mut call = self.clone();
        call.attempt_records.push(AttemptRecord {
            key: Some(attempt.clone()),
            provider_call_id: None,
            dialled_at: Some(now),
            dial_key: Some(dial_key.to_owned()),
        });
        call.not_before = None;
        // It goes on waking when the claim's lease would have ended: the index need not be written, and by then it is known
        // whether the provider's answer was lost.
        let new_announcements = call.rederive(policy, now);
        Some(DialStarted { transition: Transition { call, new_announcements }, attempt, is_last_attempt })
    }

    /// The attempt that this very dial made, and whether policy allows none after it: for the dialer whose write was done, and
    /// the answer to it lost.
    #[must_use]
    pub fn started_dial(&self, dial_key: &str) -> Option<(AttemptKey, bool)> {
        let index = self.attempt_records.iter().position(|slot| slot.dial_key.as_deref() == Some(dial_key))?;
        let attempts_max = self.plan.as_ref().map_or(0, |plan| usize::from(plan.retry.attempts_max));
        Some((self.attempt_records.get(index)?.key.clone()?, index + 1 >= attempts_max))
    }

    /// CLAIMED → PENDING, for the dialer that holds the claim: the person may not be called before `until`.
    #[must_use]
    pub fn postpone(&self, token: &str, until: Timestamp, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let mut call = self.clone().release_claim(token, now)?;
        call.not_before = Some(until);
        Some(call.into_transition(policy, now))
    }

    /// CLAIMED → FAILED, for the dialer that holds the claim.
    #[must_use]
    pub fn give_up(&self, token: &str, why: StopReason, policy: &Policy, now: Timestamp) -> Option<Transition> {
        let mut call = self.clone().release_claim(token, now)?;
        call.stop_reason = Some(why);
        Some(call.into_transition(policy, now))
    }

    /// IN_PROGRESS → PENDING, for the dialer whose attempt the provider would not take: nothing was dialled, so the attempt
    /// does not count. None if anything has been heard of it after all, which then decides. After `refusals_max` of these in a
    /// row the call fails.
    #[must_use]
    pub fn withdraw(
        &self,
        attempt: &AttemptKey,
        until: Timestamp,
        refusals_max: u32,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Transition> {
        let last = self.attempt_records.len().checked_sub(1)?;
        let slot = self.attempt_records.get(last)?;
        let heard_of =
            slot.provider_call_id.is_some() || self.history.iter().any(|entry| entry.attempt_index == Some(last));
        if slot.key.as_ref() != Some(attempt) || slot.dialled_at.is_none() || heard_of {
            return None;
        }
        let mut call = self.clone();
        call.attempt_records.pop();
        call.not_before = Some(until);
        call.refusals += 1;
        if call.refusals >= refusals_max {
            call.stop_reason = Some(StopReason::ProviderRefused);
        }
        Some(call.into_transition(policy, now))
    }

    /// PENDING → CANCELED, for the user. None if the call is not pending.
    #[must_use]
    pub fn cancel(&self, policy: &Policy, now: Timestamp) -> Option<Transition> {
        match self.job {
            Job::Pending { .. } if self.plan.is_some() => {}
            Job::Pending { .. }
            | Job::Claimed { .. }
            | Job::InProgress
            | Job::Completed
            | Job::Failed
            | Job::Canceled => return None,
        }
        let mut call = self.clone();
        call.stop_reason = Some(StopReason::Canceled);
        Some(call.into_transition(policy, now))
    }

    /// The attempts that were dialled and never heard of: the provider's answer was lost, and with it what it calls them.
    #[must_use]
    pub fn in_doubt(&self) -> Vec<&AttemptRecord> {
        let of_slot = |index: usize| self.history.iter().any(|entry| entry.attempt_index == Some(index));
        let attempt_records = self.attempt_records.iter().enumerate();
        let doubtful = attempt_records
            .filter(|(index, slot)| slot.dialled_at.is_some() && slot.provider_call_id.is_none() && !of_slot(*index));
        doubtful.map(|(_, slot)| slot).collect()
    }

    /// What the job of a call of ours is once every attempt has ended without success: by policy on the latest attempt.
    pub(crate) fn job_by_policy(&self, plan: &Plan, attempts: &[AttemptState]) -> Job {
        let due_at = match attempts.last() {
            None => Some(plan.due_at),
            Some(latest) => self.retry_at(plan, attempts, latest),
        };
        let triggered = self.manual_trigger.filter(|triggered| triggered.after_attempts == self.attempt_records.len());
        let due_at = due_at.map(|due_at| triggered.map_or(due_at, |triggered| due_at.min(triggered.at)));
        match (self.stop_reason, due_at, &self.job) {
            (Some(StopReason::Canceled), _, _) => Job::Canceled,
            (Some(StopReason::DoNotCall | StopReason::UnknownTimeZone | StopReason::ProviderRefused), _, _) => {
                Job::Failed
            }
            (None, None, _) => Job::Failed,
            (None, Some(_), Job::Claimed { lease_ends_at, .. }) if !self.claim_has_expired(*lease_ends_at) => {
                self.job.clone()
            }
            (None, Some(due_at), _) => Job::Pending { due_at: self.not_before.map_or(due_at, |at| at.max(due_at)) },
        }
    }

    /// Rule 3 of the job: whether an attempt that was completed makes the whole call so.
    pub(crate) fn is_completed_by(&self, attempt: &AttemptState) -> bool {
        let completed = match attempt.lifecycle {
            Lifecycle::Completed | Lifecycle::PresumedCompleted => true,
            Lifecycle::Initiated
            | Lifecycle::Ringing
            | Lifecycle::NoAnswer
            | Lifecycle::Canceled
            | Lifecycle::Busy
            | Lifecycle::Failed
            | Lifecycle::InProgress
            | Lifecycle::BusyAfterAnswer
            | Lifecycle::FailedAfterAnswer => false,
        };
        completed && !(attempt.outcome == Outcome::Voicemail && self.plan.as_ref().is_some_and(|p| p.retry.voicemail))
    }

    fn retry_at(&self, plan: &Plan, attempts: &[AttemptState], latest: &AttemptState) -> Option<Timestamp> {
        let retried = match retry_decision(latest, &plan.retry) {
            RetryDecision::Yes => true,
            RetryDecision::Once => {
                attempts.iter().filter(|attempt| retry_decision(attempt, &plan.retry) == RetryDecision::Once).count()
                    == 1
            }
            RetryDecision::Never => false,
        };
        let left = attempts.len() < usize::from(plan.retry.attempts_max).min(crate::call::CALL_ATTEMPTS_MAX);
        let key = self.attempt_records.get(latest.index).and_then(|slot| slot.key.as_ref());
        (retried && left).then(|| plan.retry.due_after(&self.call_id, key, latest.number, latest.end_received_at))
    }

    fn claim_has_expired(&self, lease_ends_at: Timestamp) -> bool {
        let kind = crate::event::EventKind::ClaimExpired;
        self.history.iter().any(|entry| entry.event.kind == kind && entry.event.occurred_at >= Some(lease_ends_at))
    }

    fn release_claim(mut self, token: &str, now: Timestamp) -> Option<Self> {
        if !self.is_claimed_by(token, now) {
            return None;
        }
        self.job = Job::Pending { due_at: now };
        Some(self)
    }

    fn into_transition(mut self, policy: &Policy, now: Timestamp) -> Transition {
        // It stands where the index expects it, exactly: a move is a write of the index anyway.
        self.wake_at = None;
        let new_announcements = self.rederive(policy, now);
        Transition { call: self, new_announcements }
    }
}

/// By ending: an attempt that anybody answered is never followed by another, a machine apart.
fn retry_decision(attempt: &AttemptState, retry: &RetryPolicy) -> RetryDecision {
    if attempt.outcome == Outcome::Voicemail {
        return if retry.voicemail { RetryDecision::Yes } else { RetryDecision::Never };
    }
    match attempt.lifecycle {
        Lifecycle::NoAnswer | Lifecycle::Busy => RetryDecision::Yes,
        Lifecycle::Initiated | Lifecycle::Ringing if attempt.timed_out => RetryDecision::Yes,
        Lifecycle::Failed if !attempt.permanent => RetryDecision::Once,
        Lifecycle::Failed
        | Lifecycle::Initiated
        | Lifecycle::Ringing
        | Lifecycle::Canceled
        | Lifecycle::InProgress
        | Lifecycle::BusyAfterAnswer
        | Lifecycle::FailedAfterAnswer
        | Lifecycle::Completed
        | Lifecycle::PresumedCompleted => RetryDecision::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &[Day]) -> CallingWindow {
        CallingWindow {
            time_zone: "Europe/London".to_owned(),
            opens: civil::time(9, 0, 0, 0),
            closes: civil::time(18, 0, 0, 0),
            days: days.to_vec(),
        }
    }

    fn opening(window: &CallingWindow, now: &str) -> Result<Option<String>, WindowError> {
        let opens = window.next_opening(Timestamp::parse_rfc3339(now).unwrap())?;
        Ok(opens.map(|at| at.to_string()))
    }

    #[test]
    fn window_is_read_on_the_callees_clock() {
        // British summer time is an hour ahead of UTC.
        assert_eq!(opening(&window(&[]), "2025-07-01T08:00:00Z"), Ok(None));
        assert_eq!(opening(&window(&[]), "2025-07-01T07:59:59Z"), Ok(Some("2025-07-01T08:00:00.000Z".to_owned())));
        assert_eq!(opening(&window(&[]), "2025-12-01T08:00:00Z"), Ok(Some("2025-12-01T09:00:00.000Z".to_owned())));
        assert_eq!(opening(&window(&[]), "2025-07-01T17:00:00Z"), Ok(Some("2025-07-02T08:00:00.000Z".to_owned())));
    }

    #[test]
    fn window_opens_on_its_days_and_across_a_change_of_clocks() {
        // Friday evening before the clocks go forward on Sunday, 30 March 2025.
        let weekdays = window(&[Day::Mon, Day::Tue]);
        assert_eq!(opening(&weekdays, "2025-03-28T20:00:00Z"), Ok(Some("2025-03-31T08:00:00.000Z".to_owned())));
        let mondays = window(&[Day::Mon]);
        assert_eq!(opening(&mondays, "2025-03-31T18:00:00Z"), Ok(Some("2025-04-07T08:00:00.000Z".to_owned())));
    }

    #[test]
    fn window_that_cannot_be_understood_is_never_open() {
        let nowhere = CallingWindow { time_zone: "Europe/Nowhere".to_owned(), ..window(&[]) };
        assert_eq!(opening(&nowhere, "2025-07-01T08:00:00Z"), Err(WindowError::UnknownTimeZone));
        let inside_out = CallingWindow { closes: civil::time(9, 0, 0, 0), ..window(&[]) };
        assert_eq!(opening(&inside_out, "2025-07-01T08:00:00Z"), Err(WindowError::ClosesBeforeItOpens));
    }

    #[test]
    fn delays_are_drawn_once_up_to_a_cap_that_doubles() {
        let retry = RetryPolicy { attempts_max: 9, delay_seconds: 60, delay_max_seconds: 300, voicemail: false };
        let ended = Timestamp::from_millis(0);
        let mut latest = 0;
        for call in 0..200 {
            let id = CallId::new(format!("call-{call}"));
            for number in 1..=8_u8 {
                let key = AttemptKey::new(number.to_string());
                let due = retry.due_after(&id, Some(&key), number, ended);
                assert_eq!(due, retry.due_after(&id, Some(&key), number, ended));
                let cap_ms = (60_000_i64 << (number - 1)).min(300_000);
                assert!((0..=cap_ms).contains(&due.as_millis()), "{due:?} after attempt {number}");
                latest = latest.max(due.as_millis());
            }
        }
        assert!(latest > 290_000, "the whole range is used: {latest}");
    }
}
