//! A part of the program that is taken out for a test.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::text;

/// A part of the program that can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The condition under which a call's row is written: that nobody else wrote it meanwhile.
    NoVersionCondition,
    /// That an event which is there already is queued again.
    NoResendOnDuplicate,
    /// That what comes after a failed message of a call fails with it.
    TailNotFailed,
    /// What tells one claim from another.
    SharedClaimToken,
    /// The condition under which a claim is used.
    NoClaimCondition,
    /// That the relay reports what it could not publish.
    NoRelayRetry,
    /// The condition under which an event is put into the inbox.
    NoInboxCondition,
    /// When a call that is not settled is to be looked at.
    NeverWakes,
}

impl Mutation {
    /// What happens, in place of what was asked for, to a request of the program without this part.
    pub(crate) fn apply(self, call: &RequestInfo<'_>, body: &Value, inbox: &BTreeMap<String, u32>) -> Option<Fault> {
        let sweep_off = self.disables_sweep();
        let of_table = |table: &str| body["TableName"] == table;
        let to_queue = |queue: &str| text(&body["QueueUrl"]).ends_with(queue);
        let unconditional = || {
            let mut body = body.clone();
            for name in ["ConditionExpression", "ExpressionAttributeValues", "ReturnValuesOnConditionCheckFailure"] {
                body.as_object_mut()?.remove(name);
            }
            Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
        };
        let with = |pointer: &str, value: Value| {
            let mut body = body.clone();
            *body.pointer_mut(pointer)? = value;
            Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
        };
        match (self, call.operation) {
            (_, "Query") if sweep_off && of_table(INBOX_TABLE) => pretended(&json!({"Items": [], "Count": 0})),
            (Self::NoVersionCondition, "PutItem") if of_table(CALLS_TABLE) => unconditional(),
            // Of the rows of calls that are in progress only one that was just dialled has no history.
            (Self::NoClaimCondition, "PutItem") if of_table(CALLS_TABLE) => {
                let item = &body["Item"];
                let dialled = item["job"]["S"] == "IN_PROGRESS" && item["history"]["L"] == json!([]);
                dialled.then(unconditional).flatten()
            }
            (Self::NoInboxCondition, "PutItem") if of_table(INBOX_TABLE) => unconditional(),
            (Self::NoResendOnDuplicate, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let puts = inbox.get(&text(&message["event"]["event_id"])).copied().unwrap_or_default();
                (puts > 1).then(|| pretended(&json!({"MessageId": "never", "MD5OfMessageBody": ""}))).flatten()
            }
            (Self::SharedClaimToken, "PutItem") if of_table(CALLS_TABLE) => {
                with("/Item/claim_token/S", "one for all".into())
            }
            (Self::SharedClaimToken, "SendMessage") if to_queue(DIAL_QUEUE) => {
                let mut message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                message["token"] = "one for all".into();
                with("/MessageBody", message.to_string().into())
            }
            (Self::NeverWakes, "PutItem") if of_table(CALLS_TABLE) => {
                let key = text(&body["Item"]["wake_key"]["S"]);
                let never = key.starts_with("reconcile#").then(|| json!("9999999999999"));
                never.and_then(|never| with("/Item/wake_at/N", never))
            }
            (_, _) => None,
        }
    }

    /// True if the sweep is off too: it heals what is lost on the way to the queue, and would hide the mutation.
    const fn disables_sweep(self) -> bool {
        match self {
            Self::NoVersionCondition | Self::NoResendOnDuplicate | Self::TailNotFailed => true,
            Self::SharedClaimToken
            | Self::NoClaimCondition
            | Self::NoRelayRetry
            | Self::NoInboxCondition
            | Self::NeverWakes => false,
        }
    }
}

fn pretended(answer: &Value) -> Option<Fault> {
    Some(Fault::FakedResponse { body: answer.to_string() })
}
