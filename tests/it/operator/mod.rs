//! Repairs of single things by an operator: calls are verified, dead letters redriven, quarantined events read again, and domain
//! events published again. Each test provokes the failure first.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod dead_letters;
mod quarantine;
mod republish;
mod verify;

use std::ops::ControlFlow;
use std::time::Duration;

use switchhook_aws::sdk;
use switchhook_domain::Provider;
use switchhook_local::sqs::queue_url;
use switchhook_local::{
    CALLS_TABLE, DIAL_QUEUE, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_TABLE, REGION,
    RELAY_FAILURES_QUEUE,
};
use switchhook_operate::plan::Plan;
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunOptions};
use switchhook_operate::{Stack, StackNames, StackSettings};
use switchhook_tests::{INACTIVITY_TIMEOUT, World};

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
/// Limit on the items of a plan, above every plan of these tests.
pub(crate) const MAX: usize = 1_000;

/// The stack of a world, as an operator reaches it.
pub(crate) fn stack(world: &World) -> Stack {
    let names = StackNames {
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
        providers_secret: "providers".to_owned(),
        settings: StackSettings {
            inactivity_timeout_seconds: INACTIVITY_TIMEOUT.as_secs(),
            outcome_providers: Provider::ALL.into_iter().filter(|provider| provider.reports_outcome()).collect(),
            inbox_retention_days: 30,
            call_retention_days: 400,
            block_on_request: true,
        },
    };
    Stack::new(names, &sdk::with_timeouts_and_retries(&world.cloud.services().sdk_config()), None)
}

fn options() -> RunOptions {
    let (who, reason) = ("tester".to_owned(), "a test".to_owned());
    RunOptions { who, reason, rate: RATE_DEFAULT, allow_ringing: false }
}

/// Runs a plan to its end.
pub(crate) async fn carry_out(stack: &Stack, plan: &Plan) -> Run {
    run::start(stack, &plan.id, plan.verb, options(), &mut |_| ControlFlow::Continue(())).await.unwrap()
}

/// Runs a plan in pages of one item, is stopped after the first page, and goes on as another process would.
pub(crate) async fn carry_out_in_two(stack: &Stack, plan: &Plan) -> Run {
    let slow = RunOptions { rate: 1, ..options() };
    let stopped = run::start(stack, &plan.id, plan.verb, slow, &mut |_| ControlFlow::Break(())).await.unwrap();
    assert!(stopped.position > 0 && stopped.position < stopped.items, "{stopped:?}");
    let id = RunId::of_plan(&plan.id);
    run::resume(stack, &id, "another tester", &mut |_| ControlFlow::Continue(())).await.unwrap()
}
