//! The ledger of an operator's requests holds what was sent, and no request reads a whole table.

use std::collections::BTreeMap;

use switchhook_operate::cost::Spent;
use switchhook_operate::{events, status};
use switchhook_tests::{MINUTE, World};

use super::stack;

#[tokio::test(start_paused = true)]
async fn ledger_holds_every_request() {
    let world = World::new();
    let stack = stack(&world);
    drop(world.requests());
    status::status(&stack).await;
    let since = world.now().minus(MINUTE);
    let filter = events::Filter {
        status: None,
        provider: None,
        event_type: None,
        call: None,
        since,
        until: world.now(),
        limit: 10,
    };
    events::list(&stack, &filter).await.unwrap();
    let sent = world.requests();

    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for ((service, operation), usage) in stack.ledger.entries() {
        // Metrics come from no AWS service here.
        if service != "monitoring" {
            *recorded.entry(operation).or_default() += usage.requests;
        }
    }
    assert_eq!(recorded, sent);
    assert!(!recorded.contains_key("Scan"), "{recorded:?}");
    let spent = Spent::of(&stack.ledger);
    assert!(spent.read_units >= 0.5 * recorded["Query"] as f64, "{spent:?}");
    // An hour of Health, read once a minute, with the alarms.
    let hour = 60.0 * (spent.dollars + switchhook_operate::cost::price::CLOUDWATCH);
    assert!(hour < 0.02, "{hour}");
}
