//! Repairs by operators: plans that show their effect, and runs that have exactly this effect, once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod bookings;
pub(crate) mod effects;
mod interrupted;
mod random;
mod replayed;
mod runs;

use std::ops::ControlFlow;

use switchhook_aws::sdk::{self, Patience};
use switchhook_domain::{CallId, EventId, Provider, Timestamp};
use switchhook_local::sqs::queue_url;
use switchhook_local::{
    CALLS_TABLE, DIAL_ACCOUNTS_SECRET, DIAL_QUEUE, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE,
    INBOX_TABLE, REGION, RELAY_FAILURES_QUEUE, WEBHOOK_KEYS_SECRET,
};
use switchhook_operate::plan::{CallSummary, Plan, Verb};
use switchhook_operate::replay::{self, ReplayFilter};
use switchhook_operate::run::{self, Run, RunOptions};
use switchhook_operate::{Error, Stack, StackNames, StackSettings};
use switchhook_tests::{INACTIVITY_TIMEOUT, World, generic};

/// The stack of a world, as an operator reaches it.
pub(crate) fn stack_of(world: &World) -> Stack {
    stack_for(world, "operator")
}

/// Returns the clients of the world's stack. Their requests are recorded under the name of their sender.
pub(crate) fn stack_for(world: &World, sender: &'static str) -> Stack {
    Stack::new(names(world), &sdk::with_timeouts_and_retries(&world.cloud.services().sdk_config_for(sender)), None)
}

/// Returns the clients of the world's stack, with the limits that they have for a deployed one.
pub(crate) fn stack_with(world: &World, patience: Patience) -> Stack {
    Stack::new(names(world), &sdk::with_patience(&world.cloud.services().sdk_config_for("operator"), patience), None)
}

fn names(world: &World) -> StackNames {
    StackNames {
        stack: "dev".to_owned(),
        region: REGION.to_owned(),
        api_url: "http://127.0.0.1:1".to_owned(),
        inbox_table: INBOX_TABLE.to_owned(),
        calls_table: CALLS_TABLE.to_owned(),
        events_queue_url: queue_url(EVENTS_QUEUE),
        events_dlq_url: queue_url(EVENTS_DEAD_LETTER_QUEUE),
        dial_queue_url: queue_url(DIAL_QUEUE),
        due_queue_url: queue_url(DUE_QUEUE),
        relay_failures_queue_url: queue_url(RELAY_FAILURES_QUEUE),
        event_bus: EVENT_BUS.to_owned(),
        scheduler_function: "scheduler".to_owned(),
        reconciler_function: "reconciler".to_owned(),
        webhook_keys_secret: WEBHOOK_KEYS_SECRET.to_owned(),
        dial_accounts_secret: DIAL_ACCOUNTS_SECRET.to_owned(),
        settings: StackSettings {
            inactivity_timeout_seconds: INACTIVITY_TIMEOUT.as_secs(),
            outcome_providers: Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()).collect(),
            inbox_retention_days: 30,
            call_retention_days: 400,
            block_on_request: true,
            dial_rates: "retell=100".to_owned(),
            index_numbers: true,
            index_shards: world.calls.index_shards().to_string(),
        },
    }
}

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
