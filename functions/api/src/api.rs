//! The state of the function.

use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk::Clock;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{CallDefaults, CallId, EventId, Policy, Timestamp, TraceId};

use crate::response::{Answer, RequestError};

/// Tries of a conditional write that loses the race against another writer.
pub(crate) const RACES_MAX: u32 = 5;

/// The handler, with its clients and settings.
#[derive(Debug)]
pub struct Api {
    pub inbox: Inbox,
    pub calls: Calls,
    pub policy: Policy,
    pub defaults: CallDefaults,
    /// Source of call ids, for calls whose request says `allow_duplicate`.
    pub random_ids: RandomIds,
    pub clock: Clock,
}

impl Api {
    /// Logs how a request was answered, or one call of a batch.
    pub(crate) fn log(
        &self,
        result: Result<&Answer, &RequestError>,
        trace_id: Option<&TraceId>,
        started: Timestamp,
        ended: Timestamp,
    ) {
        let (action_taken, error, failed) = match result {
            Ok(answer) => (answer.action_taken, None, false),
            Err(error) => (error.kind().code(), error.cause(), error.kind().status().is_server_error()),
        };
        let answer = result.ok();
        let decision = Decision {
            function: "api",
            message: "request answered",
            action_taken,
            call_id: answer.and_then(|answer| answer.call_id.as_ref()).map(CallId::as_str),
            event_id: answer.and_then(|answer| answer.event_id.as_ref()).map(EventId::as_str),
            error,
            duration_ms: Some(ended.millis_since(started)),
            trace_id: trace_id.map(TraceId::as_str),
            ..Decision::default()
        };
        decision.log(ended, failed);
    }
}
