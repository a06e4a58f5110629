//! Mutations of the program: each takes one safeguard away.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::text;

/// A safeguard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A call is written without the condition on its version, so it overwrites the changes of other writers.
    NoVersionCondition,
    /// A duplicate webhook is not queued again.
    NoResendOnDuplicate,
    /// Messages behind a failed message of the same call are deleted as if they had succeeded.
    TailNotFailed,
    /// All claims have the same token.
    SharedClaimToken,
    /// A dialer starts a dial without the condition on the claim.
    NoClaimCondition,
    /// Records that the relay could not publish are not retried.
    NoRelayRetry,
    /// An event is put into the inbox without the condition that its id is free.
    NoInboxCondition,
    /// The reconciler never finds a call that is due.
    NeverWakes,
}

impl Mutation {
    /// Returns the fault that replaces a request of the program by the mutated one, or that fakes its response. `None`
    /// if the mutation leaves the request as it is. `inbox` counts the `PutItem` requests for each event.
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
            (_, "Query") if sweep_off && of_table(INBOX_TABLE) => faked_response(&json!({"Items": [], "Count": 0})),
            (Self::NoVersionCondition, "PutItem") if of_table(CALLS_TABLE) => unconditional(),
            // The row of a call in progress has an empty history only if its dial has just started.
            (Self::NoClaimCondition, "PutItem") if of_table(CALLS_TABLE) => {
                let item = &body["Item"];
                let dialled = item["job"]["S"] == "IN_PROGRESS" && item["history"]["L"] == json!([]);
                dialled.then(unconditional).flatten()
            }
            (Self::NoInboxCondition, "PutItem") if of_table(INBOX_TABLE) => unconditional(),
            (Self::NoResendOnDuplicate, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let puts = inbox.get(&text(&message["event"]["event_id"])).copied().unwrap_or_default();
                (puts > 1).then(|| faked_response(&json!({"MessageId": "never", "MD5OfMessageBody": ""}))).flatten()
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

    /// Returns true if the simulator also disables the sweep. The sweep queues lost events again, which would hide the
    /// mutation.
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

fn faked_response(answer: &Value) -> Option<Fault> {
    Some(Fault::FakedResponse { body: answer.to_string() })
}
