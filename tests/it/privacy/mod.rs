//! Forgetting a person: afterwards no row, no body and no queue holds the person's data, and everything else works as before.
//!
//! The tables and queues are searched by [`places`], which knows nothing of the code under test: it decompresses every body, and
//! looks for the person in every byte.

#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod after;
mod entities;
mod interrupted;
mod late;
mod places;
mod reached;
mod records;
mod recovered;
mod words;

use std::ops::ControlFlow;

use serde_json::{Value, json};
use switchhook_domain::{CallId, EventId, PhoneNumber, Provider};
use switchhook_operate::Stack;
use switchhook_operate::forget::{self, ForgetFilter, ForgetRequest};
use switchhook_operate::plan::{Plan, Verb};
use switchhook_operate::run::{self, RunOptions};
use switchhook_tests::{World, generic, sample};

use crate::operator::HOUR;

pub(crate) const NUMBER: &str = "+447700900123";
const NAME: &str = "Ottilie Zwickau";
/// Traces of the person: the number in any notation that holds its digits, the name, and something that the person said.
const TRACES: [&str; 3] = ["447700900123", NAME, "my hip is broken"];
/// Call that Retell's samples report.
const RETELL_CALL: &str = "appointment:appt_201";
const MAX: usize = 1_000;

/// A realistic webhook of Retell about our person.
fn retell(name: &str) -> String {
    let body = sample(&format!("retell/{name}")).replace("+447700900000", NUMBER);
    body.replace("Ada", NAME).replace("Yes, that works for me.", "Yes, my hip is broken.")
}

/// A generic webhook about a call with our person.
fn about(call_id: &str, event_id: &str, event_type: &str, second: u64, data: &str) -> String {
    let mut body: Value = serde_json::from_str(&generic(call_id, event_id, event_type, second)).unwrap();
    body["call"]["to"] = json!(NUMBER);
    body["call"]["from"] = json!("+442079460018");
    body["call"]["direction"] = json!("outbound");
    body["data"] = json!({"customer": NAME, "note": data});
    body.to_string()
}

/// Stores a call of our person that rang, was answered, confirmed and ended.
async fn finished_call(world: &World, id: &str) {
    for (kind, second) in [("RINGING", 1), ("ANSWERED", 3), ("USER_CONFIRMED", 20), ("ENDED", 60)] {
        world.accept(Provider::Generic, &about(id, &format!("{id}-{kind}"), kind, second, "my hip is broken")).await;
    }
}

/// Plans to forget. Only an hour of the inbox is read, because all of its retention takes long.
async fn planned(stack: &Stack, filter: ForgetFilter, also_do_not_call: bool) -> Plan {
    let request = ForgetRequest { filter, since: Some(stack.now().minus(HOUR)), also_do_not_call };
    forget::plan(stack, &request, MAX, &mut |_, _| {}).await.unwrap()
}

/// Plans to forget, and to leave the do-not-call list as it is.
async fn plan_of_last_hour(world: &World, filter: ForgetFilter) -> Plan {
    planned(&crate::repair::stack_of(world), filter, false).await
}

fn calls(ids: &[&str]) -> ForgetFilter {
    ForgetFilter::Calls(ids.iter().copied().map(CallId::new).collect())
}

fn number() -> ForgetFilter {
    ForgetFilter::Number(PhoneNumber::new("+44 7700 900123"))
}

/// Forgets the persons of these calls.
async fn forget_calls(world: &World, ids: &[&str]) {
    let stack = crate::repair::stack_of(world);
    for id in ids {
        let plan = planned(&stack, calls(&[*id]), false).await;
        let options = RunOptions { reason: "ticket 812".to_owned(), ..crate::repair::options() };
        let goes_on = &mut |_: &run::Run| ControlFlow::Continue(());
        let run = run::start(&stack, &plan.id, Verb::Forget, options, goes_on).await.unwrap();
        assert_eq!(run.counts.skipped, 0, "{run:?}");
    }
}

async fn stored(world: &World, id: &str) -> switchhook_aws::inbox::StoredEvent {
    world.inbox.get(&EventId::new(id)).await.unwrap().unwrap_or_else(|| panic!("there is no event {id}"))
}
