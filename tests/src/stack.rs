//! The stack of a world, as operators reach it.

use switchhook_aws::sdk::{self, Patience};
use switchhook_domain::Provider;
use switchhook_local::sqs::queue_url;
use switchhook_local::{
    CALLS_TABLE, DIAL_ACCOUNTS_SECRET, DIAL_QUEUE, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE,
    INBOX_TABLE, REGION, RELAY_FAILURES_QUEUE, WEBHOOK_KEYS_SECRET,
};
use switchhook_operate::{Stack, StackNames, StackSettings};

use crate::{INACTIVITY_TIMEOUT, World};

/// The stack of a world, as an operator reaches it.
#[must_use]
pub fn stack_of(world: &World) -> Stack {
    stack_for(world, "operator")
}

/// Returns the clients of the world's stack. Their requests are recorded under the name of their sender.
#[must_use]
pub fn stack_for(world: &World, sender: &'static str) -> Stack {
    Stack::new(names(world), &sdk::with_timeouts_and_retries(&world.cloud.services().sdk_config_for(sender)), None)
}

/// Returns the clients of the world's stack, with the limits that they have for a deployed one.
#[must_use]
pub fn stack_with(world: &World, patience: Patience) -> Stack {
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
