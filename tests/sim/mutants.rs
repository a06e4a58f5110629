//! The simulator's own test: the program without one of its parts must be caught, and by the law that the part is there for.
//!
//! Nothing is switched off in the program. What a part does, it does by a request or by its answer to an event source; so it is
//! cut there: the request reaches its service without the condition, or not at all and is answered as if it had.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchhook_local::connector::{Fault, RequestInfo};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::text;

use crate::laws::Law;
use crate::plan::{FaultKind, Plan};
use crate::run::run;

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

struct Mutant {
    mutation: Mutation,
    /// What must go wrong for the part to be missed.
    faults: &'static [FaultKind],
    /// The laws of which one must be broken first.
    caught_by: &'static [Law],
    /// The sweep, which heals what is lost on the way to the queue, is off too.
    sweep_off: bool,
}

const fn mutant(
    mutation: Mutation,
    faults: &'static [FaultKind],
    caught_by: &'static [Law],
    sweep_off: bool,
) -> Mutant {
    Mutant { mutation, faults, caught_by, sweep_off }
}

const MUTANTS: [Mutant; 8] = [
    mutant(
        Mutation::NoVersionCondition,
        &[FaultKind::VisibilityOverlap, FaultKind::ReorderedWebhooks],
        &[Law::OneContent, Law::VersionGrows, Law::IsFold, Law::Accounted],
        true,
    ),
    mutant(Mutation::NoResendOnDuplicate, &[FaultKind::FunctionCrash], &[Law::Accounted], true),
    mutant(Mutation::TailNotFailed, &[FaultKind::Conflict, FaultKind::ReorderedWebhooks], &[Law::Accounted], true),
    mutant(Mutation::SharedClaimToken, &[FaultKind::LateClaim], &[Law::ClaimInTime], false),
    mutant(Mutation::NoClaimCondition, &[FaultKind::DuplicateClaim], &[Law::OnePhone], false),
    mutant(Mutation::NoRelayRetry, &[FaultKind::BusRefusal], &[Law::Published], false),
    mutant(Mutation::NoInboxCondition, &[FaultKind::DuplicateWebhook], &[Law::AcceptedOnce], false),
    mutant(Mutation::NeverWakes, &[FaultKind::LostWebhook], &[Law::Settles], false),
];

/// A mutant that lives through so many seeds is not caught.
const SEEDS: std::ops::Range<u64> = 0..40;

impl Mutation {
    /// What happens, in place of what was asked for, to a request of the program without this part.
    pub(crate) fn apply(self, call: &RequestInfo<'_>, body: &Value, inbox: &BTreeMap<String, u32>) -> Option<Fault> {
        let sweep_off = MUTANTS.iter().any(|mutant| mutant.mutation == self && mutant.sweep_off);
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
}

fn pretended(answer: &Value) -> Option<Fault> {
    Some(Fault::FakedResponse { body: answer.to_string() })
}

/// The rows of the table whose number is even, or odd: two threads.
pub(crate) fn check(half: usize) {
    for mutant in MUTANTS.iter().skip(half).step_by(2) {
        let plans = SEEDS.map(|seed| Plan::with_faults(seed, mutant.faults));
        let violations = plans.filter_map(|plan| Some((plan.seed, run(&plan, Some(mutant.mutation)).violation?)));
        let mut others = Vec::new();
        let caught = violations.into_iter().find(|(seed, violation)| {
            others.push(format!("{seed}: {violation:?}"));
            mutant.caught_by.contains(&violation.law)
        });
        let Some((seed, violation)) = caught else {
            panic!("with {:?} none of {:?} is broken: {others:#?}", mutant.mutation, mutant.caught_by);
        };
        println!("with {:?} seed {seed} breaks {:?}: {:.200}", mutant.mutation, violation.law, violation.detail);
    }
}
