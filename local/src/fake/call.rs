//! A call at the fake provider.

use serde_json::{Map, Value, json};

use super::behaviour::Behaviour;
use super::records::RequestResult;

/// A call with its whole true course. Times are Unix milliseconds.
#[derive(Debug)]
pub(super) struct FakeCall {
    pub(super) behaviour: Behaviour,
    /// True if the account has as many calls as it may have, so that the call ends before a phone rings.
    pub(super) is_over_capacity: bool,
    pub(super) from: Value,
    pub(super) to: Value,
    pub(super) metadata: Value,
    pub(super) created_ms: i64,
    /// `None` if nobody picks up.
    pub(super) answered_ms: Option<i64>,
    pub(super) ended_ms: i64,
    /// Time at which the analysis of the conversation is ready.
    pub(super) analysed_ms: i64,
}

impl FakeCall {
    /// Result of a lookup of this call at `now`.
    pub(super) fn lookup_result(&self, now: i64) -> RequestResult {
        if self.behaviour == Behaviour::Forgotten {
            RequestResult::NotFound
        } else if self.analysed_ms <= now {
            RequestResult::Analysed
        } else if self.ended_ms <= now {
            RequestResult::Ended
        } else {
            RequestResult::InProgress
        }
    }

    /// The call as Retell's API and webhooks show it at `now`.
    pub(super) fn to_json(&self, id: &str, now: i64) -> Value {
        let mut call = Map::new();
        let mut set = |name: &str, value: Value| call.insert(name.to_owned(), value);
        for (name, value) in [
            ("call_id", id.into()),
            ("call_type", "phone_call".into()),
            ("agent_id", "agent_fake".into()),
            ("direction", "outbound".into()),
            ("from_number", self.from.clone()),
            ("to_number", self.to.clone()),
            ("metadata", self.metadata.clone()),
        ] {
            set(name, value);
        }
        let answered = self.answered_ms.filter(|at| *at <= now);
        let over = self.ended_ms <= now;
        let status = match (answered, over, self.behaviour.disconnection_reason()) {
            (_, true, _) if self.is_over_capacity => "error",
            (_, true, Some(_)) => "not_connected",
            (_, true, None) => "ended",
            (Some(_), false, _) => "ongoing",
            (None, false, _) => "registered",
        };
        set("call_status", status.into());
        if let Some(at) = answered {
            set("start_timestamp", at.into());
        }
        if over {
            set("end_timestamp", self.ended_ms.into());
            let reason = if self.is_over_capacity {
                "concurrency_limit_reached"
            } else if self.behaviour == Behaviour::Voicemail {
                "voicemail_reached"
            } else {
                self.behaviour.disconnection_reason().unwrap_or("user_hangup")
            };
            set("disconnection_reason", reason.into());
        }
        if self.analysed_ms <= now {
            let outcome = if self.answered_ms.is_none() {
                json!({})
            } else if self.behaviour.confirms() {
                json!({"outcome": "confirmed"})
            } else if self.behaviour == Behaviour::Declines {
                json!({"outcome": "declined"})
            } else {
                json!({})
            };
            let analysis = json!({
                "in_voicemail": self.behaviour == Behaviour::Voicemail && answered.is_some(),
                "call_successful": answered.is_some(),
                "user_sentiment": "Unknown",
                "custom_analysis_data": outcome,
            });
            set("call_analysis", analysis);
        }
        Value::Object(call)
    }
}
