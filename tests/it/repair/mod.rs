//! Repairs by operators: plans that show their effect, and runs that have exactly this effect, once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod bookings;
pub(crate) mod effects;
mod interrupted;
mod random;
mod replayed;
mod runs;

use std::ops::ControlFlow;

use switchhook_domain::{CallId, EventId, Provider, Timestamp};
use switchhook_local::EVENTS_QUEUE;
use switchhook_operate::plan::{CallSummary, Plan, Verb};
use switchhook_operate::replay::{self, ReplayFilter};
use switchhook_operate::run::{self, Run, RunOptions};
use switchhook_operate::{Error, Stack};
use switchhook_tests::{World, generic};
pub(crate) use switchhook_tests::{stack_for, stack_of, stack_with};

/// A filter for everything since the start of the test.
pub(crate) fn everything() -> ReplayFilter {
    ReplayFilter {
        since: Some(Timestamp::from_millis(switchhook_tests::START_S as i64 * 1_000)),
        ..ReplayFilter::default()
    }
}

pub(crate) fn of_call(call_id: &str) -> ReplayFilter {
    ReplayFilter { call: Some(CallId::new(call_id)), ..ReplayFilter::default() }
}

pub(crate) async fn plan_replay(stack: &Stack, filter: &ReplayFilter) -> Plan {
    replay::plan(stack, filter, 10_000, &mut |_, _| {}).await.unwrap()
}

pub(crate) fn options() -> RunOptions {
    RunOptions { who: "ada".to_owned(), reason: "a test".to_owned(), rate: 1_000, allow_ringing: false }
}

/// Runs a plan to its end.
pub(crate) async fn carry_out(stack: &Stack, plan: &Plan) -> Result<Run, Error> {
    run::start(stack, &plan.id, Verb::Replay, options(), &mut |_| ControlFlow::Continue(())).await
}

/// Posts a generic webhook, and drops its message, as if it had never reached the queue.
pub(crate) async fn post_unqueued(
    world: &World,
    call_id: &str,
    event_id: &str,
    event_type: &str,
    second: u64,
) -> EventId {
    let id = world.accept(Provider::Generic, &generic(call_id, event_id, event_type, second)).await;
    drop_messages(world);
    id
}

/// Posts a generic webhook, and folds it.
pub(crate) async fn post_folded(
    world: &World,
    call_id: &str,
    event_id: &str,
    event_type: &str,
    second: u64,
) -> EventId {
    let id = world.accept(Provider::Generic, &generic(call_id, event_id, event_type, second)).await;
    consume_all(world).await;
    id
}

/// Deletes all messages of the events queue.
pub(crate) fn drop_messages(world: &World) {
    loop {
        let received = world.receive();
        if received.is_empty() {
            return;
        }
        for message in received {
            world.cloud.services().sqs().delete(EVENTS_QUEUE, &message.receipt_handle).unwrap();
        }
    }
}

/// Has the consumer handle all messages of the events queue.
pub(crate) async fn consume_all(world: &World) {
    loop {
        let received = world.receive();
        if received.is_empty() {
            return;
        }
        assert_eq!(world.consume(&received).await, received.len());
    }
}

pub(crate) async fn summary(world: &World, call_id: &CallId) -> Option<CallSummary> {
    world.load(call_id.as_str()).await.as_ref().map(CallSummary::new)
}
