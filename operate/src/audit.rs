//! Audit records: who changed what, and why.
//!
//! **No audit record, no action.** A run writes a record before its first action, another one whenever it is resumed, and one when
//! it ends. If a record cannot be written, the run stops. A payload that is not masked is read only after its record is written.
//! Each record is also published as the domain event `operator.action`.

use serde::{Deserialize, Serialize};
use switchhook_aws::inbox::{AttentionKind, DocumentKind, audit_id};
use switchhook_aws::random::RandomIds;
use switchhook_domain::{EventId, OperatorAction, Timestamp};

use crate::attention;
use crate::error::{Error, Refusal};
use crate::plan::Verb;
use crate::stack::{OPERATOR_RETENTION, Stack};
use crate::time_text;

/// Moment of a run that a record is about, or the reading of a payload that is not masked.
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

/// Numbers of items of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Items that the run has processed.
    pub done: usize,
    /// Items for which nothing was left to do.
    pub unchanged: usize,
    /// Items that were left alone, because their call has changed since the plan or because they cannot be processed.
    pub skipped: usize,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the record, such as `r-7f3a90c1d2e4/started`.
    pub id: String,
    #[serde(with = "time_text")]
    pub at: Timestamp,
    pub moment: Moment,
    /// Operator: the ARN of the caller, or the name of the user of a local stack.
    pub who: String,
    /// Reason that the operator gave.
    pub reason: String,
    pub verb: Verb,
    /// `None` if the record is about no run.
    pub run_id: Option<String>,
    pub plan_id: Option<String>,
    /// Event whose payload was read.
    pub event_id: Option<String>,
    /// Number of items of the plan, or 1 for a payload.
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

/// Writes a record and publishes it. A record that is stored already stays, and is published again.
pub(crate) async fn record(stack: &Stack, record: &AuditRecord) -> Result<(), Error> {
    let content = serde_json::to_vec(record).map_err(Error::Encode)?;
    stack.inbox.put_document(DocumentKind::Audit, &record.id, &content, OPERATOR_RETENTION, record.at).await?;
    stack.bus.publish_operator_action(&event_of(record)).await?;
    Ok(())
}

/// Records that an operator reads the payload of an event as it was sent.
///
/// # Errors
/// [`Refusal::NoReason`], and the errors of the caller's identity, the inbox and the bus.
pub async fn record_unmasking(stack: &Stack, event_id: &EventId, reason: &str) -> Result<(), Error> {
    if reason.trim().is_empty() {
        return Err(Refusal::NoReason.into());
    }
    let unmasking = AuditRecord {
        id: format!("u-{}/{}", RandomIds::from_system().hex::<6>()?, Moment::Unmasked.as_str()),
        at: stack.now(),
        moment: Moment::Unmasked,
        who: stack.caller().await?,
        reason: reason.trim().to_owned(),
        verb: Verb::ShowBody,
        run_id: None,
        plan_id: None,
        event_id: Some(event_id.to_string()),
        items: 1,
        counts: Counts::default(),
    };
    record(stack, &unmasking).await
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
        items: count(record.items),
        done: count(record.counts.done),
        unchanged: count(record.counts.unchanged),
        skipped: count(record.counts.skipped),
        occurred_at: record.at.to_string(),
    }
}
