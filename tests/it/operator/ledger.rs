//! The ledger of an operator's requests holds what was sent, and no request reads a whole table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use switchhook_domain::Provider;
use switchhook_operate::cost::Spent;
use switchhook_operate::quarantine::{self, QuarantineFilter};
use switchhook_operate::{audit, events, status};
use switchhook_tests::{MINUTE, World};

use super::{carry_out, stack};

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
    // An hour of Health, read once a minute, with the alarms. It reads the lists of every provider.
    let hour = 60.0 * (spent.dollars + switchhook_operate::cost::price::CLOUDWATCH);
    assert!(hour < 0.03, "{hour}");
}

#[tokio::test(start_paused = true)]
async fn list_reads_no_more_entries_than_it_shows() {
    let world = World::new();
    for number in 0..6 {
        world.post(Provider::Generic, &format!("not JSON {number}")).await;
    }
    let stack = stack(&world);
    let all = QuarantineFilter { all: true, ..QuarantineFilter::default() };
    let plan = quarantine::plan_discard(&stack, &all, 4).await.unwrap();
    carry_out(&stack, &plan).await;
    let limits: Arc<Mutex<Vec<u64>>> = Arc::default();
    let read = Arc::clone(&limits);
    world.set_fault_hook(move |call| {
        let body: Value = serde_json::from_slice(call.body).unwrap_or_default();
        if body["IndexName"] == "by_attention" {
            read.lock().unwrap().push(body["Limit"].as_u64().unwrap_or(u64::MAX));
        }
        None
    });
    assert_eq!(quarantine::list(&stack, 1).await.unwrap().len(), 1);
    assert_eq!(audit::list(&stack, 1).await.unwrap().len(), 1);
    let limits = limits.lock().unwrap();
    assert!(!limits.is_empty() && limits.iter().all(|limit| *limit == 1), "{limits:?}");
}
