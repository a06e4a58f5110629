//! Plans: frozen lists of items, and what a run would do to them.
//!
//! **A run touches the items of its plan and no others.** So what an operator has read and confirmed is what happens. A plan
//! needs no count of what matches its filter: it collects items up to its limit, and says when it reached the limit.

mod item;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchhook_aws::inbox::DocumentKind;
use switchhook_aws::random::RandomIds;
use switchhook_domain::{AttemptState, Call, CallId, Job, NOT_PLACED, Timestamp};

use crate::cost::Cost;
use crate::duration::counted;
use crate::error::{Error, Refusal};
use crate::stack::Stack;
use crate::time_text;

pub(crate) use item::LeftAlone;
pub use item::{Action, PlanItem};

/// Time for which a plan can be run. Later, too much may have changed since the operator read it.
pub const VALID_FOR: Duration = Duration::from_secs(15 * 60);
/// Time for which a plan can be read, by a run that is resumed too.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Default limit on the items of a plan.
pub const ITEMS_MAX_DEFAULT: usize = 10_000;
/// Highest limit on the items of a plan that an operator can ask for. The plan is then about 20 MB long.
pub const ITEMS_MAX: usize = 100_000;
/// Number of calls, from the start of the plan, whose effect the plan shows.
pub const EFFECTS_MAX: usize = 500;
/// Number of skipped events, and of skipped items of a run, that are named. The others are counted.
pub const NAMED_MAX: usize = 100;

/// Id of a plan, such as `p-7f3a90c1d2e4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanId(String);

impl PlanId {
    /// Id as an operator wrote it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn random(random_ids: &RandomIds) -> Result<Self, Error> {
        Ok(Self(format!("p-{}", random_ids.hex::<6>()?)))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Command that made a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Replay,
    Redrive,
    DiscardDeadLetters,
    Reprocess,
    DiscardQuarantined,
    Republish,
    Verify,
    Copy,
    Refill,
    Stop,
    Forget,
}

impl Verb {
    pub const ALL: [Self; 11] = [
        Self::Replay,
        Self::Redrive,
        Self::DiscardDeadLetters,
        Self::Reprocess,
        Self::DiscardQuarantined,
        Self::Republish,
        Self::Verify,
        Self::Copy,
        Self::Refill,
        Self::Stop,
        Self::Forget,
    ];

    /// Returns the words of the command, for example `dlq redrive`.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Redrive => "dlq redrive",
            Self::DiscardDeadLetters => "dlq discard",
            Self::Reprocess => "quarantine reprocess",
            Self::DiscardQuarantined => "quarantine discard",
            Self::Republish => "republish",
            Self::Verify => "verify",
            Self::Copy => "recover copy",
            Self::Refill => "recover inbox",
            Self::Stop => "recover stop",
            Self::Forget => "forget",
        }
    }

    /// Returns the name used in audit records and in domain events, for example `redrive`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Redrive => "redrive",
            Self::DiscardDeadLetters => "discard_dead_letters",
            Self::Reprocess => "reprocess",
            Self::DiscardQuarantined => "discard_quarantined",
            Self::Republish => "republish",
            Self::Verify => "verify",
            Self::Copy => "copy",
            Self::Refill => "refill",
            Self::Stop => "stop",
            Self::Forget => "forget",
        }
    }
}

/// State of a call, as an operator compares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSummary {
    /// State of the latest attempt.
    pub lifecycle: String,
    /// Outcome of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<String>,
    pub appointment_status: String,
    pub job: String,
    /// Due time of a pending call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub due_at: Option<String>,
    pub attempts: usize,
    pub settled: bool,
}

impl CallSummary {
    #[must_use]
    pub fn new(call: &Call) -> Self {
        let attempts = call.attempts();
        let latest = attempts.last();
        Self {
            lifecycle: latest.map_or(NOT_PLACED, AttemptState::lifecycle_label).to_owned(),
            outcome: latest.map(|attempt| attempt.outcome_label().to_owned()),
            appointment_status: call.appointment_status().as_str().to_owned(),
            job: call.job.as_str().to_owned(),
            due_at: due_at(call).map(|at| at.to_string()),
            attempts: attempts.len(),
            settled: call.is_settled(),
        }
    }
}

impl fmt::Display for CallSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.lifecycle, self.appointment_status, self.job)?;
        self.due_at.as_ref().map_or(Ok(()), |at| write!(f, " due {at}"))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Returns the due time of a pending call.
pub(crate) const fn due_at(call: &Call) -> Option<Timestamp> {
    match call.job {
        Job::Pending { due_at } => Some(due_at),
        Job::Claimed { .. } | Job::InProgress | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => None,
    }
}

/// Kind of thing that an effect is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    #[default]
    Call,
    /// The booking schedules a call, whose row is another one.
    Booking,
}

/// Effect of a plan's items on one call, or on one booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Id of the call, or key of the booking.
    pub call_id: CallId,
    #[serde(default)]
    pub about: Subject,
    /// Number of items of the call or booking that change something.
    pub items: usize,
    /// `None` if there is no row of the call, and for a booking.
    pub before: Option<CallSummary>,
    pub after: Option<CallSummary>,
    /// Types of the domain events that would be published.
    pub announces: Vec<String>,
    /// Number of those domain events that correct an earlier one.
    pub corrections: usize,
    /// True if a phone could ring: the call would become pending, be due earlier, or no longer be held because of an event.
    pub could_ring: bool,
    /// True if the person's number would be added to the do-not-call list, where `BlockOnRequest` is on.
    pub blocks_number: bool,
}

impl Effect {
    /// Effect of `items` items after which a phone could ring, while the rows before and after are not known.
    pub(crate) const fn ringing(call_id: CallId, about: Subject, items: usize) -> Self {
        Self {
            call_id,
            about,
            items,
            before: None,
            after: None,
            announces: Vec::new(),
            corrections: 0,
            could_ring: true,
            blocks_number: false,
        }
    }
}

/// Item that cannot be processed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub item: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    pub reason: String,
}

/// Id that an operator named, and that nothing to process was found under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotFound {
    pub id: String,
    /// Sentence that says where the id was looked for, and what to do.
    pub reason: String,
}

/// Table of a stack that is copied into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    Inbox,
    Calls,
}

/// Table that a plan copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopiedTable {
    pub table: Table,
    /// Name of the table that is copied.
    pub from: String,
    /// Number of its items.
    pub items: u64,
    pub parts: u32,
    /// Keys of some items, without phone numbers.
    pub sample: Vec<String>,
}

impl Table {
    pub(crate) const ALL: [Self; 2] = [Self::Inbox, Self::Calls];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Calls => "calls",
        }
    }
}

/// Frozen list of items, and what a run would do to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub id: PlanId,
    pub verb: Verb,
    #[serde(with = "time_text")]
    pub made_at: Timestamp,
    #[serde(with = "time_text")]
    pub valid_until: Timestamp,
    /// Selection that the operator asked for.
    pub filter: Value,
    /// Items, in the order of a run. Items of one call stand together.
    pub items: Vec<PlanItem>,
    /// True if the plan reached its limit, so that more may match.
    pub capped: bool,
    /// Time of receipt at which the next plan goes on, if this one reached its limit.
    #[serde(with = "time_text::optional", skip_serializing_if = "Option::is_none", default)]
    pub continue_at: Option<Timestamp>,
    /// Number of events that were looked at.
    pub examined: usize,
    /// Number of matching items that a run would not change. They are not among the items.
    pub unaffected: usize,
    /// Matching items that cannot be processed, the first [`NAMED_MAX`] of them. They are not among the items.
    pub skipped: Vec<Skipped>,
    pub skipped_count: usize,
    /// Number of these items whose event is not folded yet. The relay never had its domain event.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_folded_count: usize,
    /// Ids that the operator named and that nothing was found under, and what to do. The items are those of the other ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<NotFound>,
    /// Sentences about what the plan could not take into account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Effects on the first [`EFFECTS_MAX`] calls and bookings.
    pub effects: Vec<Effect>,
    /// Calls of the items, those without a shown effect included.
    pub calls: usize,
    /// Entities of the items whose effect is not worked out. Those that are bookings may schedule calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub entities_without_effect: usize,
    /// Phones that could ring because of the shown effects.
    pub phones: usize,
    pub corrections: usize,
    pub domain_events: usize,
    pub cost: Cost,
    /// Tables that are copied. The items of the plan are their parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<CopiedTable>,
}

impl Plan {
    /// Number of calls whose effect the plan does not show. A run makes none of their phones ring.
    #[must_use]
    pub fn calls_without_effect(&self) -> usize {
        self.calls.saturating_sub(self.effects_on(Subject::Call))
    }

    /// Names the calls and bookings whose effect the plan does not show, for example `2 more calls and up to 1 more booking`. `None` if it
    /// shows all. Entities other than bookings count too. A run makes none of their phones ring.
    #[must_use]
    pub fn without_effect(&self) -> Option<String> {
        let named = |count: usize, noun: &str| (count > 0).then(|| counted(count, noun));
        let calls = named(self.calls_without_effect(), "more call");
        let bookings = named(self.entities_without_effect, "more booking").map(|bookings| format!("up to {bookings}"));
        match (calls, bookings) {
            (Some(calls), Some(bookings)) => Some(format!("{calls} and {bookings}")),
            (calls, bookings) => calls.or(bookings),
        }
    }

    /// Number of the shown effects on calls, or on bookings.
    #[must_use]
    pub fn effects_on(&self, subject: Subject) -> usize {
        self.effects.iter().filter(|effect| effect.about == subject).count()
    }

    /// Number of things that were selected: items, and things that a run would not or cannot change.
    #[must_use]
    pub const fn found(&self) -> usize {
        self.items.len() + self.unaffected + self.skipped_count
    }

    /// Number of things that a run does at its rate: the items, or the items of the tables that it copies.
    #[must_use]
    pub fn steps(&self) -> u64 {
        if self.tables.is_empty() { self.items.len() as u64 } else { self.tables.iter().map(|table| table.items).sum() }
    }

    /// Returns the planned effect on a call. `None` if the plan shows none.
    #[must_use]
    pub fn effect_on(&self, call_id: &CallId) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.call_id == *call_id)
    }

    /// Stores the plan. A run can then start from it, on any machine.
    pub(crate) async fn store(&self, stack: &Stack) -> Result<(), Error> {
        let content = serde_json::to_vec(self).map_err(Error::Encode)?;
        let now = stack.now();
        stack.inbox.put_document(DocumentKind::Plan, self.id.as_str(), &content, KEPT_FOR, now).await?;
        Ok(())
    }

    /// Reads a stored plan.
    ///
    /// # Errors
    /// [`Refusal::UnknownPlan`] if there is none with this id, or it is more than a day old, and the errors of the table.
    pub async fn load(stack: &Stack, id: &PlanId) -> Result<Self, Error> {
        let document = stack.inbox.get_document(DocumentKind::Plan, id.as_str()).await?;
        let document = document.ok_or_else(|| Refusal::UnknownPlan(id.to_string()))?;
        let plan: Self = serde_json::from_slice(&document.content).map_err(|_| Error::Decode("the plan"))?;
        // DynamoDB may delete it days later.
        if plan.made_at.plus(KEPT_FOR) <= stack.now() {
            return Err(Refusal::UnknownPlan(id.to_string()).into());
        }
        Ok(plan)
    }
}

/// Returns the reason why the items of a call are left alone. `None` if their effect is the planned one.
///
/// `planned` is `None` for a call whose effect the plan did not work out.
pub(crate) fn objection(planned: Option<&Effect>, effect: &Effect) -> Option<String> {
    let state = |summary: &Option<CallSummary>| summary.as_ref().map_or("no call".to_owned(), ToString::to_string);
    match planned {
        Some(planned) if planned.after != effect.after => Some(format!(
            "the call has changed since the plan, and would become {}, not {}",
            state(&effect.after),
            state(&planned.after)
        )),
        Some(_) | None => uncounted_phone(planned, effect),
    }
}

/// Returns the reason why the items of a call are left alone, if its phone could ring and the plan does not count it.
pub(crate) fn uncounted_phone(planned: Option<&Effect>, effect: &Effect) -> Option<String> {
    let is_counted = planned.is_some_and(|planned| planned.could_ring);
    (effect.could_ring && !is_counted)
        .then(|| "its phone could ring, and the plan did not count it: plan again".to_owned())
}
