//! Mutations of the program: each takes one safeguard away.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchhook_aws::inbox::BY_RECEIVED;
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE, REPAIR_QUEUE};
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
    /// A dialer starts a dial without the condition on the claim, and records it without the condition that no dial of the attempt
    /// is recorded.
    NoClaimCondition,
    /// Records that the relay could not publish are not retried.
    NoRelayRetry,
    /// An event is put into the inbox without the condition that its id is free.
    NoInboxCondition,
    /// The reconciler never finds a call that is due.
    NeverWakes,
    /// A dial whose answer was lost counts as not dialled, so the call is dialled again.
    LostAnswerWithdrawn,
    /// The reconciler never looks up a dial that is in doubt.
    DoubtForgotten,
    /// Events that arrived before the alias of their attempt stay with the call that they made.
    NoAdoption,
    /// The dialer does not look at the do-not-call list.
    NoDoNotCallList,
    /// Calls have no calling window.
    NoWindow,
    /// The dialer does not look at the calling window.
    NoWindowGuard,
    /// An unheard attempt is always retried.
    UnheardRetried,
    /// A dial that the provider refuses because of the account fails the call.
    RefusalFails,
    /// The circuit of a provider never opens.
    NoCircuit,
    /// A call has only the first of the providers that it names.
    NoFallback,
    /// A call whose dial got no answer is given to its other provider.
    DoubtGivenToOtherProvider,
    /// Webhooks that are signed with the old key are refused.
    NoOldKey,
    /// A webhook is acknowledged and not stored.
    NotStored,
    /// A writer overwrites the row of an ended call with an older row, under the next version.
    OlderRowWritten,
    /// The limit on the attempts of a call is not kept.
    NoAttemptLimit,
    /// The trace id of a dial is the called number.
    NumberInTraceId,
    /// A message whose consumer failed once goes to the dead-letter queue.
    DeadLetteredAtOnce,
    /// Nothing is mutated but the sweep, which is off.
    NoSweep,
    /// A duplicate webhook is not queued again. Only the sweep queues events that never reached the queue.
    OnlySweepResends,
    /// Does the same as [`Self::OnlySweepResends`]. Moreover the sweep forgets the shards that it has left to workers.
    LeftShardsForgotten,
    /// The message of a failing event is deleted, although no note says that the event waits.
    WaitingUnnoted,
    /// An event that waits is never tried again.
    WaitingNotRetried,
    /// The dialer does not know of the events that wait.
    WaitingUnlisted,
    /// The events that an operator sends again never reach the queue.
    RedriveNotSent,
    /// The providers' lists of calls are never read.
    ListsUnread,
    /// A dialer does not wait for the place of its claim in the dial rate.
    NoPlaces,
    /// The scheduler finds no call in flight at a provider.
    InFlightUncounted,
}

/// An event of the inbox, as the requests of the program show it.
#[derive(Default)]
pub(crate) struct InboxEvent {
    /// Number of `PutItem` requests.
    pub(crate) puts: u32,
    /// Number of `GetItem` requests.
    pub(crate) reads: u32,
    /// Id of the call that the event belongs to when it arrives.
    pub(crate) call_id: String,
}

impl Mutation {
    /// Returns the fault that replaces a request of the program by the mutated one, or that fakes its response. `None`
    /// if the mutation leaves the request as it is. `inbox` holds the events that were put into it so far.
    pub(crate) fn apply(
        self,
        call: &RequestInfo<'_>,
        body: &Value,
        inbox: &BTreeMap<String, InboxEvent>,
    ) -> Option<Fault> {
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
            // The index of events in trouble stays: without it, the reconciler could remove no mark of an event that is folded.
            (_, "Query") if sweep_off && body["IndexName"] == BY_RECEIVED => {
                faked_response(&json!({"Items": [], "Count": 0}))
            }
            (Self::NoVersionCondition, "PutItem") if of_table(CALLS_TABLE) => unconditional(),
            // The row of a call in progress has an empty history only if its dial has just started.
            (Self::NoClaimCondition, "PutItem") if of_table(CALLS_TABLE) => {
                dial_has_started(&body["Item"]).then(unconditional).flatten()
            }
            (Self::NoClaimCondition, "UpdateItem") if text(&body["Key"]["event_id"]["S"]).starts_with("dials:") => {
                let mut body = body.clone();
                body.as_object_mut()?.remove("ConditionExpression")?;
                Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
            }
            (Self::NoInboxCondition, "PutItem") if of_table(INBOX_TABLE) => unconditional(),
            (Self::NoResendOnDuplicate, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let puts = inbox.get(&text(&message["event"]["event_id"])).map_or(0, |event| event.puts);
                (puts > 1).then(sent).flatten()
            }
            // The sweep reads an event before it queues it, and ingress does not.
            (Self::OnlySweepResends | Self::LeftShardsForgotten, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let event = inbox.get(&text(&message["event"]["event_id"]));
                event.is_some_and(|event| event.puts > 1 && event.reads == 0).then(sent).flatten()
            }
            (Self::LeftShardsForgotten, "PutItem") if body["Item"]["event_id"]["S"] == "sweep:cursor" => {
                with("/Item/left/M", json!({}))
            }
            (Self::WaitingUnnoted, "PutItem") if of_table(INBOX_TABLE) && body["Item"]["waits"]["BOOL"] == true => {
                faked_response(&json!({}))
            }
            (Self::WaitingUnlisted, "UpdateItem") if text(&body["Key"]["event_id"]["S"]).starts_with("unfolded:") => {
                faked_response(&json!({}))
            }
            (Self::WaitingNotRetried | Self::RedriveNotSent, "SendMessageBatch") if to_queue(EVENTS_QUEUE) => {
                let entries = body["Entries"].as_array()?;
                let prefix = if self == Self::RedriveNotSent { "r-" } else { "retry-" };
                let is_meant = text(&entries.first()?["MessageDeduplicationId"]).starts_with(prefix);
                let sent = |entry: &Value| json!({"Id": entry["Id"], "MessageId": "never", "MD5OfMessageBody": ""});
                let sent: Vec<Value> = entries.iter().map(sent).collect();
                is_meant.then(|| faked_response(&json!({"Successful": sent, "Failed": []}))).flatten()
            }
            // A worker leaves a kind of work alone that it does not know.
            (Self::ListsUnread, "SendMessageBatch") if to_queue(REPAIR_QUEUE) => {
                Some(Fault::ReplacedRequest(body.to_string().replace("discovery-", "unknown-").into_bytes()))
            }
            (Self::NoPlaces, "SendMessage") if to_queue(DIAL_QUEUE) => {
                let mut message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                message["place"] = Value::Null;
                with("/MessageBody", message.to_string().into())
            }
            (Self::InFlightUncounted, "Query") if body["ProjectionExpression"] == "in_flight" => {
                faked_response(&json!({"Items": [], "Count": 0}))
            }
            (Self::SharedClaimToken, "PutItem") if of_table(CALLS_TABLE) => {
                with("/Item/claim_token/S", "one for all".into())
            }
            (Self::SharedClaimToken, "SendMessage") if to_queue(DIAL_QUEUE) => {
                let mut message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                message["token"] = "one for all".into();
                // A dialer would return a claim that has missed its place, whatever token it has.
                message["place"] = Value::Null;
                with("/MessageBody", message.to_string().into())
            }
            (Self::NeverWakes, "PutItem") if of_table(CALLS_TABLE) => {
                let key = text(&body["Item"]["wake_key"]["S"]);
                let is_open = ["claims#", "endings#", "outcomes#"].iter().any(|queue| key.starts_with(queue));
                let never = is_open.then(|| json!("9999999999999"));
                never.and_then(|never| with("/Item/wake_at/N", never))
            }
            (Self::DoubtForgotten, "PutItem") if of_table(CALLS_TABLE) && dial_has_started(&body["Item"]) => {
                with("/Item/wake_at/N", json!("9999999999999"))
            }
            (Self::NoAdoption, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let stored = inbox.get(&text(&message["event"]["event_id"]))?;
                (message["event"]["call_id"] != stored.call_id).then(sent).flatten()
            }
            (Self::NoDoNotCallList, "GetItem") => {
                let is_entry = ["call_id", "event_id"]
                    .map(|key| text(&body["Key"][key]["S"]))
                    .concat()
                    .starts_with("do-not-call:");
                is_entry.then(|| faked_response(&json!({}))).flatten()
            }
            (Self::NoCircuit, "PutItem") if !body["Item"]["health"].is_null() => {
                with("/Item/health/M/circuit", json!({"S": "closed"}))
            }
            (Self::NoFallback, "PutItem") if of_table(CALLS_TABLE) => {
                let first = body.pointer("/Item/plan/M/providers/L/0")?.clone();
                with("/Item/plan/M/providers/L", json!([first]))
            }
            (Self::NotStored, "PutItem") if of_table(INBOX_TABLE) && !body["Item"]["received_bucket"].is_null() => {
                faked_response(&json!({}))
            }
            (Self::NoAttemptLimit, "PutItem") if of_table(CALLS_TABLE) => {
                with("/Item/plan/M/retry/M/attempts_max/N", json!("9"))
            }
            (Self::NumberInTraceId, "SendMessage") if to_queue(DIAL_QUEUE) => {
                let mut message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                message["trace_id"] = "+447700900100".into();
                with("/MessageBody", message.to_string().into())
            }
            (Self::UnheardRetried, "PutItem") if of_table(CALLS_TABLE) => {
                let mut body = body.clone();
                let retry = body.pointer_mut("/Item/plan/M/retry/M")?.as_object_mut()?;
                retry.insert("unheard".to_owned(), json!({"BOOL": true}));
                Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
            }
            (Self::NoWindowGuard, "PutItem") if of_table(CALLS_TABLE) && body["Item"]["job"]["S"] == "CLAIMED" => {
                without_window(body)
            }
            (_, _) => None,
        }
    }

    /// Returns true if the simulator also disables the sweep. The sweep queues lost events again, which would hide the
    /// mutation.
    const fn disables_sweep(self) -> bool {
        match self {
            Self::NoVersionCondition
            | Self::NoResendOnDuplicate
            | Self::TailNotFailed
            | Self::NoAdoption
            | Self::NoSweep => true,
            Self::SharedClaimToken
            | Self::NoClaimCondition
            | Self::NoRelayRetry
            | Self::NoInboxCondition
            | Self::NeverWakes
            | Self::LostAnswerWithdrawn
            | Self::DoubtForgotten
            | Self::NoDoNotCallList
            | Self::NoWindow
            | Self::NoWindowGuard
            | Self::UnheardRetried
            | Self::RefusalFails
            | Self::NoCircuit
            | Self::NoFallback
            | Self::DoubtGivenToOtherProvider
            | Self::NoOldKey
            | Self::NotStored
            | Self::OlderRowWritten
            | Self::NoAttemptLimit
            | Self::NumberInTraceId
            | Self::DeadLetteredAtOnce
            | Self::OnlySweepResends
            | Self::LeftShardsForgotten
            | Self::WaitingUnnoted
            | Self::WaitingNotRetried
            | Self::WaitingUnlisted
            | Self::RedriveNotSent
            | Self::ListsUnread
            | Self::NoPlaces
            | Self::InFlightUncounted => false,
        }
    }
}

/// True if this is the row of a call whose latest dial has just started. The call is in progress, and no event of that attempt is in the
/// history. An entry of the history begins with the place of its attempt.
fn dial_has_started(item: &Value) -> bool {
    let attempts = item["attempts"]["L"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(latest) = attempts.len().checked_sub(1) else { return false };
    let is_heard = |entry: &Value| text(&entry["S"]).starts_with(&format!("{latest} "));
    let is_dialled = !attempts[latest]["M"]["dialled_at"].is_null();
    item["job"]["S"] == "IN_PROGRESS"
        && is_dialled
        && !item["history"]["L"].as_array().into_iter().flatten().any(is_heard)
}

fn without_window(body: &Value) -> Option<Fault> {
    let mut body = body.clone();
    body.pointer_mut("/Item/plan/M")?.as_object_mut()?.remove("window")?;
    Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
}

/// The message is dropped, and its sender believes that it was sent.
fn sent() -> Option<Fault> {
    faked_response(&json!({"MessageId": "never", "MD5OfMessageBody": ""}))
}

fn faked_response(answer: &Value) -> Option<Fault> {
    Some(Fault::FakedResponse { body: answer.to_string() })
}
