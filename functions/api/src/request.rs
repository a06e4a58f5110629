//! A valid request to create a call, before defaults are filled in.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use switchhook_aws::problem::FieldError;
use switchhook_domain::{
    CallDefaults, CallId, CallingWindow, NewCall, PhoneNumber, Plan, Provider, RetryPolicy, Timestamp,
};

use crate::idempotency::short_hash;

/// Request to create a call. Omitted fields stay omitted. So a repetition has the same hash, even if the defaults have changed
/// since. `Debug` shows only the providers.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CallRequest {
    /// Providers that may place the call, the preferred one first. At least one.
    pub(crate) providers: Vec<Provider>,
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
    /// True if the call is created even if the same request came a moment before. No part of the content.
    #[serde(skip)]
    pub(crate) allow_duplicate: bool,
    /// Error for a due time that is too far from now. It is apart from the other errors, because a repetition of a request
    /// that was valid when it was first sent must succeed.
    #[serde(skip)]
    pub(crate) due_at_error: Option<FieldError>,
}

/// Retry options of a request. Omitted fields get the default of the stack.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unheard: Option<bool>,
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest").field("providers", &self.providers).finish_non_exhaustive()
    }
}

impl CallRequest {
    /// Hash of the request. It does not depend on the order of fields or the format of values.
    pub(crate) fn hash(&self) -> serde_json::Result<String> {
        Ok(short_hash(&serde_json::to_vec(self)?))
    }

    /// Makes the call, with defaults for omitted fields.
    pub(crate) fn into_call(self, call_id: CallId, hash: String, defaults: &CallDefaults, now: Timestamp) -> NewCall {
        NewCall {
            call_id,
            from: self.from,
            to: self.to,
            appointment_id: self.appointment_id,
            plan: Plan {
                providers: self.providers,
                due_at: self.due_at.map_or(now, |due_at| due_at.max(now)),
                not_after: None,
                window: self.window.or_else(|| defaults.window.clone()),
                retry: self.retry.unwrap_or_default().with_defaults(defaults.retry),
                metadata: self.metadata,
                request_hash: Some(hash),
                trace_id: None,
            },
        }
    }
}

impl RetryOptions {
    /// Fills omitted options from the default. A default delay is adjusted if it contradicts the delay that was given.
    pub(crate) fn with_defaults(self, default: RetryPolicy) -> RetryPolicy {
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
            unheard: self.unheard.unwrap_or(default.unheard),
        }
    }
}
