//! Bland's names. The post-call webhook is the call itself, as the API shows it. A webhook of `webhook_events` has a category and a
//! message instead. A second webhook about a call, for example with its citations, may show no call either.
//!
//! The words of `queue_status` and `answered_by` are those of Bland's SDK (`bland` 0.3.0, `calls/types/call_details_response.py`).
//! Those of `status` are on <https://docs.bland.ai/api-v1/get/calls-id> and in programs that read Bland's webhooks.

use serde::Deserialize;
use serde_json::{Value, json};
use switchhook_domain::Timestamp;

use crate::correlation::EchoedIds;
use crate::ids;
use crate::lenient;
use crate::times::parse_time;
use crate::user_decision::{CustomData, UserDecision};

/// Value of the field `event` in a body that [`client`](super::client) makes of an answer of the API. Bland has no such field.
pub(super) const CALL_RECORD: &str = "call_record";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) call_id: Option<String>,
    /// [`CALL_RECORD`] if this is no webhook, but an answer of the API.
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event: Option<String>,
    /// Category of a webhook of `webhook_events`.
    #[serde(deserialize_with = "lenient::text")]
    category: Option<String>,
    /// Content of a second webhook, for example `citations`. A webhook that shows the call may name it too.
    #[serde(deserialize_with = "lenient::text")]
    event_type: Option<String>,
    /// True if this is the second call of a warm transfer, in which Bland's agent briefs a colleague of yours.
    #[serde(deserialize_with = "lenient::flag")]
    is_proxy_agent_call: Option<bool>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) from: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) to: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) inbound: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) completed: Option<bool>,
    #[serde(deserialize_with = "lenient::text")]
    status: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    queue_status: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    answered_by: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    call_ended_by: Option<String>,
    /// Minutes, with a fraction.
    call_length: Option<Value>,
    #[serde(deserialize_with = "lenient::text")]
    created_at: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    started_at: Option<String>,
    #[serde(deserialize_with = "lenient::object")]
    pub(super) metadata: Option<EchoedIds>,
    /// Results of Bland's analysis. Their hash is part of the event id, so that a second analysis of the same call is another event.
    analysis: Option<Value>,
    disposition_tag: Option<Value>,
    variables: Option<Value>,
    summary: Option<Value>,
}

impl Call {
    /// Type of a webhook that shows no call: the category of `webhook_events`, or the content of a second webhook. `None` if the webhook
    /// shows the call, or has no type.
    pub(super) fn message_type(&self) -> Option<&str> {
        if self.shows_a_call() { None } else { self.category.as_deref().or(self.event_type.as_deref()) }
    }

    /// True if this is the call to a colleague during a warm transfer. It may repeat the metadata of the call that is transferred.
    pub(super) fn is_proxy_agent_call(&self) -> bool {
        self.is_proxy_agent_call == Some(true)
    }

    /// True if the body says whether the call is over.
    pub(super) const fn shows_a_call(&self) -> bool {
        self.completed.is_some() || self.status.is_some() || self.queue_status.is_some()
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.status.as_deref().map(Status::from_name)
    }

    pub(super) fn queue_status(&self) -> Option<QueueStatus> {
        self.queue_status.as_deref().map(QueueStatus::from_name)
    }

    pub(super) fn answered_by(&self) -> Option<AnsweredBy> {
        self.answered_by.as_deref().map(AnsweredBy::from_name)
    }

    /// Name of a field with a value that is not in Bland's list.
    pub(super) fn unknown_value(&self) -> Option<&'static str> {
        if self.answered_by() == Some(AnsweredBy::Other) {
            Some("answered_by")
        } else if self.status() == Some(Status::Other) {
            Some("status")
        } else if self.queue_status() == Some(QueueStatus::Other) {
            Some("queue_status")
        } else {
            None
        }
    }

    /// True if the call is over. `None` if no field has a known word for it.
    ///
    /// `completed` is more up to date than `queue_status`, says Bland. A call that failed may never be completed.
    pub(super) fn is_over(&self) -> Option<bool> {
        let status = self.status().and_then(Status::is_over);
        let queue = self.queue_status().and_then(QueueStatus::is_over);
        let has_error = self.queue_status().is_some_and(QueueStatus::is_error);
        match (self.completed, status) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            _ if has_error => Some(true),
            (Some(false), _) | (None, Some(false)) => Some(false),
            (None, None) => queue,
        }
    }

    /// True if the person hung up.
    pub(super) fn was_ended_by_the_person(&self) -> bool {
        self.call_ended_by.as_deref().is_some_and(|name| name.eq_ignore_ascii_case("user"))
    }

    /// True if the call had a length.
    pub(super) fn has_length(&self) -> bool {
        self.minutes().is_some_and(|minutes| minutes > 0.0)
    }

    /// True if the length is zero. A missing length proves nothing.
    pub(super) fn is_known_to_be_empty(&self) -> bool {
        self.minutes().is_some_and(|minutes| minutes <= 0.0)
    }

    fn minutes(&self) -> Option<f64> {
        match self.call_length.as_ref()? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        parse_time(self.created_at.as_deref()?)
    }

    pub(super) fn started_at(&self) -> Option<Timestamp> {
        parse_time(self.started_at.as_deref()?)
    }

    /// End of the call, from its start and its length. (`end_at` is the time at which Bland would have ended it.)
    pub(super) fn ended_at(&self) -> Option<Timestamp> {
        /// A longer length is a mistake. It also keeps the conversion exact.
        const MINUTES_MAX: f64 = 60.0 * 24.0 * 30.0;
        let minutes = self.minutes().filter(|minutes| (0.0..=MINUTES_MAX).contains(minutes))?;
        let millis = (minutes * 60_000.0).round() as i64;
        Some(Timestamp::from_millis(self.started_at()?.as_millis().saturating_add(millis)))
    }

    /// The person's decision: from the fields of the analysis, or from a disposition of that name.
    pub(super) fn decision(&self) -> Option<UserDecision> {
        let read = |data: Value| lenient::object::<_, CustomData>(data).ok().flatten()?.decision();
        let of_analysis = self.analysis.clone().and_then(read);
        of_analysis.or_else(|| read(json!({"outcome": self.disposition_tag.clone()?})))
    }

    /// Hash of everything that the meaning of the call comes from.
    pub(super) fn meaning_hash(&self) -> String {
        let mut meaning = json!({
            "completed": self.completed,
            "status": self.status,
            "queue_status": self.queue_status,
            "answered_by": self.answered_by,
            "call_ended_by": self.call_ended_by,
            "call_length": self.call_length,
            "analysis": self.analysis,
            "disposition_tag": self.disposition_tag,
            "variables": self.variables,
            "summary": self.summary,
        });
        meaning.sort_all_objects();
        ids::short_hash(meaning.to_string().as_bytes())
    }
}

/// State of a call, in the words of the carrier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The call waits, rings, or goes on.
    Live,
    Completed,
    Busy,
    NoAnswer,
    Canceled,
    Failed,
    /// Bland could not determine it.
    Unknown,
    /// Unknown names.
    Other,
}

impl Status {
    fn from_name(name: &str) -> Self {
        match name {
            "queued" | "initiated" | "ringing" | "in-progress" | "started" => Self::Live,
            "completed" => Self::Completed,
            "busy" => Self::Busy,
            "no-answer" => Self::NoAnswer,
            "canceled" => Self::Canceled,
            "failed" => Self::Failed,
            "unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }

    const fn is_over(self) -> Option<bool> {
        match self {
            Self::Completed | Self::Busy | Self::NoAnswer | Self::Canceled | Self::Failed => Some(true),
            Self::Live => Some(false),
            Self::Unknown | Self::Other => None,
        }
    }
}

/// Place of a call in Bland's queue, or the place at which it failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueStatus {
    /// `new`, `queued`, `allocated` (it is dispatched) and `started` (it goes on).
    Live,
    Complete,
    /// The call failed before it was dispatched: a parameter was wrong, or the number lies in a region that Bland does not serve.
    ErrorBeforeTheCall,
    /// The call failed while it went on.
    ErrorInTheCall,
    /// Something failed after the call, for example the webhook.
    ErrorAfterTheCall,
    /// Unknown names.
    Other,
}

impl QueueStatus {
    fn from_name(name: &str) -> Self {
        match name {
            "new" | "queued" | "allocated" | "started" => Self::Live,
            // The documentation shows both.
            "complete" | "completed" => Self::Complete,
            "pre_queue_error" | "queue_error" => Self::ErrorBeforeTheCall,
            "call_error" => Self::ErrorInTheCall,
            "complete_error" => Self::ErrorAfterTheCall,
            _ => Self::Other,
        }
    }

    const fn is_over(self) -> Option<bool> {
        match self {
            Self::Complete | Self::ErrorBeforeTheCall | Self::ErrorInTheCall | Self::ErrorAfterTheCall => Some(true),
            Self::Live => Some(false),
            Self::Other => None,
        }
    }

    const fn is_error(self) -> bool {
        match self {
            Self::ErrorBeforeTheCall | Self::ErrorInTheCall | Self::ErrorAfterTheCall => true,
            Self::Live | Self::Complete | Self::Other => false,
        }
    }
}

/// Verdict of Bland's detection. It is missing if the request did not ask for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    Human,
    Voicemail,
    NoAnswer,
    /// There was not enough sound at the start of the call to tell.
    Unknown,
    /// Unknown names.
    Other,
}

impl AnsweredBy {
    fn from_name(name: &str) -> Self {
        match name {
            "human" => Self::Human,
            "voicemail" => Self::Voicemail,
            "no-answer" => Self::NoAnswer,
            "unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }
}
