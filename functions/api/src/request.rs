//! A call that a client asks for, with what was left out still left out.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use switchhook_aws::problem::FieldError;
use switchhook_domain::{CallId, CallingWindow, NewCall, PhoneNumber, Plan, Provider, RetryPolicy, Timestamp};

use crate::idempotency::short_hash;

/// A call that is asked for. What was left out is left out here too, so that a repetition hashes alike whatever the
/// time and the stack's defaults are. `Debug` hides all but the provider.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CallRequest {
    pub(crate) provider: Provider,
    pub(crate) from: PhoneNumber,
    pub(crate) to: PhoneNumber,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) appointment_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<CallingWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<RetryOptions>,
    /// Wrong by the clock alone: a repetition of a request that was right in its time is still one.
    #[serde(skip)]
    pub(crate) due_at_error: Option<FieldError>,
}

/// What a request says of retries; the rest is the stack's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RetryOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_max_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) voicemail: Option<bool>,
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl CallRequest {
    /// The same for the same request, however it is written.
    pub(crate) fn hash(&self) -> serde_json::Result<String> {
        Ok(short_hash(&serde_json::to_vec(self)?))
    }

    /// The call that is asked for, with what was left out filled in.
    pub(crate) fn into_call(self, call_id: CallId, hash: String, retry: RetryPolicy, now: Timestamp) -> NewCall {
        NewCall {
            call_id,
            provider: self.provider,
            from: self.from,
            to: self.to,
            appointment_id: self.appointment_id,
            plan: Plan {
                due_at: self.due_at.map_or(now, |due_at| due_at.max(now)),
                window: self.window,
                retry: self.retry.unwrap_or_default().over(retry),
                metadata: self.metadata,
                request_hash: Some(hash),
            },
        }
    }
}

impl RetryOptions {
    /// What is asked for wins; the stack's delays give way to it.
    pub(crate) fn over(self, default: RetryPolicy) -> RetryPolicy {
        let (delay_seconds, delay_max_seconds) = match (self.delay_seconds, self.delay_max_seconds) {
            (Some(delay), Some(max)) => (delay, max),
            (Some(delay), None) => (delay, default.delay_max_seconds.max(delay)),
            (None, Some(max)) => (default.delay_seconds.min(max), max),
            (None, None) => (default.delay_seconds, default.delay_max_seconds),
        };
        RetryPolicy {
            attempts_max: self.attempts_max.unwrap_or(default.attempts_max),
            delay_seconds,
            delay_max_seconds,
            voicemail: self.voicemail.unwrap_or(default.voicemail),
        }
    }
}
