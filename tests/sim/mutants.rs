//! The simulator's own test: the program without one of its parts must be caught, and by the law that the part is there for.
//!
//! Nothing is switched off in the program. What a part does, it does by a request or by its answer to an event source; so it is
//! cut there: the request reaches its service without the condition, or not at all and is answered as if it had.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchhook_local::connector::{CallInfo, Fault};
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_tests::text;

use crate::laws::Law;
use crate::plan::{Kind, Plan};
use crate::run::run;

/// A part of the program that can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The condition under which a call's row is written: that nobody else wrote it meanwhile.
    VersionCondition,
    /// That an event which is there already is queued again.
    ResendOnDuplicate,
    /// That what comes after a failed message of a call fails with it.
    Tail,
    /// What tells one claim from another.
    ClaimToken,
    /// The condition under which a claim is used.
    ClaimCondition,
    /// That the relay reports what it could not publish.
    RelayRetry,
    /// The condition under which an event is put into the inbox.
    InboxCondition,
    /// When a call that is not settled is to be looked at.
    WakeAt,
}

struct Mutant {
    without: Part,
    /// What must go wrong for the part to be missed.
    troubles: &'static [Kind],
    /// The laws of which one must be broken first.
    caught_by: &'static [Law],
    /// The sweep, which heals what is lost on the way to the queue, is off too.
    sweep_off: bool,
}

const fn mutant(without: Part, troubles: &'static [Kind], caught_by: &'static [Law], sweep_off: bool) -> Mutant {
    Mutant { without, troubles, caught_by, sweep_off }
}

const MUTANTS: [Mutant; 8] = [
    mutant(
        Part::VersionCondition,
        &[Kind::Overlap, Kind::Shuffled],
        &[Law::OneContent, Law::Grows, Law::IsFold, Law::Accounted],
        true,
    ),
    mutant(Part::ResendOnDuplicate, &[Kind::Death], &[Law::Accounted], true),
    mutant(Part::Tail, &[Kind::Conflict, Kind::Shuffled], &[Law::Accounted], true),
    mutant(Part::ClaimToken, &[Kind::ClaimLate], &[Law::ClaimInTime], false),
    mutant(Part::ClaimCondition, &[Kind::ClaimTwice], &[Law::OnePhone], false),
    mutant(Part::RelayRetry, &[Kind::BusRefuses], &[Law::Published], false),
    mutant(Part::InboxCondition, &[Kind::Twice], &[Law::AcceptedOnce], false),
    mutant(Part::WakeAt, &[Kind::Never], &[Law::Settles], false),
];

/// A mutant that lives through so many seeds is not caught.
const SEEDS: std::ops::Range<u64> = 0..40;

impl Part {
    /// What happens, in place of what was asked for, to a request of the program without this part.
    pub(crate) fn cut(self, call: &CallInfo<'_>, body: &Value, inbox: &BTreeMap<String, u32>) -> Option<Fault> {
        let sweep_off = MUTANTS.iter().any(|mutant| mutant.without == self && mutant.sweep_off);
        let of_table = |table: &str| body["TableName"] == table;
        let to_queue = |queue: &str| text(&body["QueueUrl"]).ends_with(queue);
        let unconditional = || {
            let mut body = body.clone();
            for name in ["ConditionExpression", "ExpressionAttributeValues", "ReturnValuesOnConditionCheckFailure"] {
                body.as_object_mut()?.remove(name);
            }
            Some(Fault::Rewritten(body.to_string().into_bytes()))
        };
        let with = |pointer: &str, value: Value| {
            let mut body = body.clone();
            *body.pointer_mut(pointer)? = value;
            Some(Fault::Rewritten(body.to_string().into_bytes()))
        };
        match (self, call.operation) {
            (_, "Query") if sweep_off && of_table(INBOX_TABLE) => pretended(&json!({"Items": [], "Count": 0})),
            (Self::VersionCondition, "PutItem") if of_table(CALLS_TABLE) => unconditional(),
            // Of the rows of calls that are in progress only one that was just dialled has no history.
            (Self::ClaimCondition, "PutItem") if of_table(CALLS_TABLE) => {
                let item = &body["Item"];
                let dialled = item["job"]["S"] == "IN_PROGRESS" && item["history"]["L"] == json!([]);
                dialled.then(unconditional).flatten()
            }
            (Self::InboxCondition, "PutItem") if of_table(INBOX_TABLE) => unconditional(),
            (Self::ResendOnDuplicate, "SendMessage") if to_queue(EVENTS_QUEUE) => {
                let message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                let puts = inbox.get(&text(&message["event"]["event_id"])).copied().unwrap_or_default();
                (puts > 1).then(|| pretended(&json!({"MessageId": "never", "MD5OfMessageBody": ""}))).flatten()
            }
            (Self::ClaimToken, "PutItem") if of_table(CALLS_TABLE) => with("/Item/claim_token/S", "one for all".into()),
            (Self::ClaimToken, "SendMessage") if to_queue(DIAL_QUEUE) => {
                let mut message: Value = serde_json::from_str(&text(&body["MessageBody"])).unwrap_or_default();
                message["token"] = "one for all".into();
                with("/MessageBody", message.to_string().into())
            }
            (Self::WakeAt, "PutItem") if of_table(CALLS_TABLE) => {
                let key = text(&body["Item"]["wake_key"]["S"]);
                let never = key.starts_with("settle#").then(|| json!("9999999999999"));
                never.and_then(|never| with("/Item/wake_at/N", never))
            }
            (_, _) => None,
        }
    }
}

fn pretended(answer: &Value) -> Option<Fault> {
    Some(Fault::Pretended { body: answer.to_string() })
}

/// The rows of the table whose number is even, or odd: two threads.
pub(crate) fn check(half: usize) {
    for mutant in MUTANTS.iter().skip(half).step_by(2) {
        let plans = SEEDS.map(|seed| Plan::with_troubles(seed, mutant.troubles));
        let broken = plans.filter_map(|plan| Some((plan.seed, run(&plan, Some(mutant.without)).broken?)));
        let mut others = Vec::new();
        let caught = broken.into_iter().find(|(seed, breach)| {
            others.push(format!("{seed}: {breach:?}"));
            mutant.caught_by.contains(&breach.law)
        });
        let Some((seed, breach)) = caught else {
            panic!("without {:?} none of {:?} is broken: {others:#?}", mutant.without, mutant.caught_by);
        };
        println!("without {:?} seed {seed} breaks {:?}: {:.200}", mutant.without, breach.law, breach.what);
    }
}
