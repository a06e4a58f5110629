//! Audit records: who changed what, and why.
//!
//! **No audit record, no action.** A run writes a record before its first action, another one whenever it is resumed, and one when
//! it ends. A change without a plan has a record before it and one with its result: [`begin`] and [`finish`]. If a record cannot be
//! written, nothing is done. A payload that is not masked is read only after its record is written. Each record is also published as
//! the domain event `operator.action`.
//!
//! **No record holds a phone number, a key or a payload.**

mod operation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use switchhook_aws::inbox::{AttentionKind, DocumentKind, audit_id};
use switchhook_aws::random::RandomIds;
use switchhook_aws::telemetry::hide_number;
use switchhook_domain::{EventId, OperatorAction, Timestamp};

use crate::attention;
use crate::error::{Error, Refusal};
use crate::plan::KEPT_FOR;
use crate::stack::{OPERATOR_RETENTION, Stack};
use crate::time_text;

pub use operation::{Direct, Operation};

/// Number of consecutive digits of a text that may be a phone number.
const NUMBER_DIGITS_MIN: usize = 9;
/// Text in place of a name that may hold a phone number.
const HIDDEN: &str = "***";

/// Audit records of one page, when runs are looked for among them. Changes without a plan have records too.
const RECORDS_PAGE_MAX: i32 = 200;

/// Moment of an operation that a record is about, or the reading of a payload that is not masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Started,
    Resumed,
    Finished,
    Unmasked,
}

impl Moment {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Resumed => "resumed",
            Self::Finished => "finished",
            Self::Unmasked => "unmasked",
        }
    }
}

/// Numbers of items of a run or of a change without a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Items that were processed.
    pub done: usize,
    /// Items for which nothing was left to do.
    pub unchanged: usize,
    /// Items that were left alone, because their call has changed since the plan, they cannot be processed, or the stack refused
    /// them.
    pub skipped: usize,
}

/// Text such as `40 done, 2 unchanged, 1 skipped`.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, unchanged, skipped } = self;
        write!(f, "{done} done, {unchanged} unchanged, {skipped} skipped")
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the record, such as `r-7f3a90c1d2e4/started`. It begins with `r` for a run, with `a` for a change without a plan, and
    /// with `u` for a payload.
    pub id: String,
    #[serde(with = "time_text")]
    pub at: Timestamp,
    pub moment: Moment,
    /// Operator: the ARN of the caller, or the name of the user of a local stack.
    pub who: String,
    /// Reason that the operator gave, or the purpose of the command.
    pub reason: String,
    pub verb: Operation,
    /// `None` if the record is about no run.
    pub run_id: Option<String>,
    pub plan_id: Option<String>,
    /// Event whose payload was read.
    pub event_id: Option<String>,
    /// Call that was changed without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Name of the import, or of the providers that were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Number of items of the plan or of the change. 1 for a payload.
    pub items: usize,
    pub counts: Counts,
}

/// Returns the latest records, at most `limit`, the latest first.
///
/// # Errors
/// The errors of the inbox.
pub async fn list(stack: &Stack, limit: usize) -> Result<Vec<AuditRecord>, Error> {
    let entries = attention::all(stack, AttentionKind::Audit, limit).await?;
    let mut records = Vec::new();
    for id in entries.iter().filter_map(|entry| audit_id(&entry.item_key)) {
        let Some(document) = stack.inbox.get_document(DocumentKind::Audit, id).await? else { continue };
        records.push(serde_json::from_slice(&document.content).map_err(|_| Error::Decode("the audit record"))?);
    }
    Ok(records)
}

/// Returns the ids of the runs that the latest audit records are about, at most `limit`, the latest first. Reads at least the records of the
/// time in which a run can be resumed, unless it finds enough runs before.
pub(crate) async fn run_ids(stack: &Stack, limit: usize) -> Result<Vec<String>, Error> {
    let resumable_since = stack.now().minus(KEPT_FOR);
    let mut latest: BTreeMap<String, Timestamp> = BTreeMap::new();
    for shard in stack.inbox.attention_shards() {
        let mut pages = stack.inbox.attention_pages(AttentionKind::Audit, shard, None, Some(RECORDS_PAGE_MAX));
        let mut of_shard = BTreeSet::new();
        while of_shard.len() < limit
            && let Some(page) = pages.next().await?
        {
            for entry in &page.items {
                let run =
                    audit_id(&entry.item_key).and_then(|id| id.split('/').next()).filter(|id| id.starts_with("r-"));
                if let Some(run) = run {
                    of_shard.insert(run.to_owned());
                    let at = latest.entry(run.to_owned()).or_insert(entry.at);
                    *at = entry.at.max(*at);
                }
            }
            if page.items.last().is_some_and(|entry| entry.at < resumable_since) {
                break;
            }
        }
    }
    let mut runs: Vec<(Timestamp, String)> = latest.into_iter().map(|(run, at)| (at, run)).collect();
    runs.sort_by(|a, b| b.cmp(a));
    runs.truncate(limit);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Things that a change without a plan is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Call that is changed. `None` if it is not known yet, or if there are several.
    pub call_id: Option<String>,
    /// Short name of something else, for example of an import. The record does not show it if it may hold a phone number.
    pub about: Option<String>,
    pub items: usize,
}

/// Change without a plan that may now be made.
#[derive(Debug)]
#[must_use = "the result of the change is to be recorded"]
pub struct Begun(AuditRecord);

impl Begun {
    /// Names the call that the change has made.
    pub fn with_call(mut self, call_id: &str) -> Self {
        self.0.call_id = Some(hide_number(call_id).into_owned());
        self
    }
}

/// Records that an operator is about to make a change without a plan. Without a reason, the record has the purpose of the command.
///
/// # Errors
/// [`Refusal::NumberInReason`], [`Refusal::ControlInReason`], and the errors of the caller's identity, the inbox and the bus. Then the change must not be made.
pub async fn begin(stack: &Stack, direct: Direct, reason: Option<&str>, subject: Subject) -> Result<Begun, Error> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty()).unwrap_or_else(|| direct.purpose());
    check_reason(reason)?;
    let begun = AuditRecord {
        id: record_id('a', Moment::Started)?,
        at: stack.now(),
        moment: Moment::Started,
        who: stack.caller().await?,
        reason: reason.to_owned(),
        verb: Operation::Direct(direct),
        run_id: None,
        plan_id: None,
        event_id: None,
        call_id: subject.call_id.map(|id| hide_number(&id).into_owned()),
        about: subject.about.as_deref().map(shown),
        items: subject.items,
        counts: Counts::default(),
    };
    record(stack, &begun).await?;
    Ok(Begun(begun))
}

/// Records the result of a change without a plan. A change that lacks this record was interrupted, or its result is not known.
///
/// # Errors
/// The errors of the inbox and the bus. The change is made nevertheless.
pub async fn finish(stack: &Stack, Begun(begun): Begun, counts: Counts) -> Result<(), Error> {
    let moment = Moment::Finished;
    let id = begun.id.replace(Moment::Started.as_str(), moment.as_str());
    record(stack, &AuditRecord { id, at: stack.now(), moment, counts, ..begun }).await
}

/// Records that an operator reads the payload of an event as it was sent.
///
/// # Errors
/// [`Refusal::NoReason`], [`Refusal::NumberInReason`], [`Refusal::ControlInReason`], and the errors of the caller's identity, the inbox and the bus.
pub async fn record_unmasking(stack: &Stack, event_id: &EventId, reason: &str) -> Result<(), Error> {
    require_reason(reason)?;
    let unmasking = AuditRecord {
        id: record_id('u', Moment::Unmasked)?,
        at: stack.now(),
        moment: Moment::Unmasked,
        who: stack.caller().await?,
        reason: reason.trim().to_owned(),
        verb: Operation::Direct(Direct::ShowBody),
        run_id: None,
        plan_id: None,
        event_id: Some(hide_number(event_id.as_str()).into_owned()),
        call_id: None,
        about: None,
        items: 1,
        counts: Counts::default(),
    };
    record(stack, &unmasking).await
}

/// Writes a record and publishes it. A record that is stored already stays, and is published again.
pub(crate) async fn record(stack: &Stack, record: &AuditRecord) -> Result<(), Error> {
    let content = serde_json::to_vec(record).map_err(Error::Encode)?;
    stack.inbox.put_document(DocumentKind::Audit, &record.id, &content, OPERATOR_RETENTION, record.at).await?;
    stack.bus.publish_operator_action(&event_of(record)).await?;
    Ok(())
}

/// Refuses an empty reason, and one that no record may keep.
///
/// # Errors
/// [`Refusal::NoReason`], [`Refusal::NumberInReason`] and [`Refusal::ControlInReason`].
pub fn require_reason(reason: &str) -> Result<(), Refusal> {
    let reason = reason.trim();
    if reason.is_empty() { Err(Refusal::NoReason) } else { check_reason(reason) }
}

/// Refuses a reason that may hold a phone number: the audit record would keep it. Refuses one of several lines too: in a list, its lines could look
/// like records.
fn check_reason(reason: &str) -> Result<(), Refusal> {
    if reason.contains(char::is_control) {
        Err(Refusal::ControlInReason)
    } else if may_hold_number(reason) {
        Err(Refusal::NumberInReason)
    } else {
        Ok(())
    }
}

/// Returns a name as a record shows it: in one line, and without what may be a phone number.
fn shown(name: &str) -> String {
    let name = name.replace(char::is_control, " ");
    if may_hold_number(&name) { HIDDEN.to_owned() } else { hide_number(&name).into_owned() }
}

/// True if a text has as many digits in a row as a phone number. A date counts as none.
fn may_hold_number(text: &str) -> bool {
    let is_separator = |c: char| matches!(c, ' ' | '-' | '.' | '(' | ')' | '/');
    let is_other = |c: char| !c.is_ascii_digit() && !is_separator(c);
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).count();
    let words: Vec<&str> = text.split(' ').map(without_date).collect();
    words.join(" ").split(is_other).any(|part| digits(part) >= NUMBER_DIGITS_MIN)
}

/// Returns the word without a date such as 2026-11-22 at its start. A comma stands for a date alone.
fn without_date(word: &str) -> &str {
    let is_date = |text: &str| {
        text.chars().enumerate().all(|(at, c)| if matches!(at, 4 | 7) { c == '-' } else { c.is_ascii_digit() })
    };
    match word.split_at_checked(10) {
        Some((date, rest)) if is_date(date) => {
            if rest.is_empty() {
                ","
            } else {
                rest
            }
        }
        Some(_) | None => word,
    }
}

fn record_id(prefix: char, moment: Moment) -> Result<String, Error> {
    Ok(format!("{prefix}-{}/{}", RandomIds::from_system().hex::<6>()?, moment.as_str()))
}

fn event_of(record: &AuditRecord) -> OperatorAction {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    OperatorAction {
        schema_version: switchhook_domain::DOMAIN_EVENT_SCHEMA_VERSION,
        id: record.id.clone(),
        event_type: OperatorAction::TYPE,
        action: record.moment.as_str(),
        verb: record.verb.as_str(),
        who: record.who.clone(),
        reason: record.reason.clone(),
        run_id: record.run_id.clone(),
        plan_id: record.plan_id.clone(),
        event_id: record.event_id.clone(),
        call_id: record.call_id.clone(),
        about: record.about.clone(),
        items: count(record.items),
        done: count(record.counts.done),
        unchanged: count(record.counts.unchanged),
        skipped: count(record.counts.skipped),
        occurred_at: record.at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_with_a_phone_number_is_refused() {
        for reason in ["call +44 7700 900123 asked", "447700900123", "(555) 010-0123-9", "2026-11-22-447700900123"] {
            assert_eq!(check_reason(reason), Err(Refusal::NumberInReason), "{reason}");
        }
        for reason in
            ["ticket 812", "outage of 2026-11-22 09:30", "since 2026-11-22T09:30:00Z", "GDPR-2026-123, by mail"]
        {
            assert_eq!(check_reason(reason), Ok(()), "{reason}");
        }
    }

    /// A list of records would show the other lines as records of their own.
    #[test]
    fn reason_is_one_line_of_plain_text() {
        for reason in ["routine\n2026-11-30  r-1  finished  forget", "a\rb", "a\u{1b}[31m", "a\tb"] {
            assert_eq!(require_reason(reason), Err(Refusal::ControlInReason), "{reason:?}");
        }
        assert_eq!(require_reason(" ticket 812\n"), Ok(()), "the blanks at its ends are not kept");
        assert_eq!(shown("week\n47"), "week 47");
        assert_eq!(shown("+447700\n900123"), HIDDEN);
    }

    #[test]
    fn every_purpose_may_stand_as_a_reason() {
        for direct in Direct::ALL {
            assert_eq!(check_reason(direct.purpose()), Ok(()), "{direct:?}");
        }
    }
}
