//! The ledger of an operator's requests holds each of them, and no request reads a whole table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_dynamo::AttributeValue;
use serde_json::Value;
use switchhook_aws::dynamodb::shard_of;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::shards::SHARDS_DEFAULT;
use switchhook_domain::{Origin, Provider, Timestamp};
use switchhook_local::INBOX_TABLE;
use switchhook_operate::cost::Spent;
use switchhook_operate::quarantine::{self, QuarantineFilter};
use switchhook_operate::{audit, events, status};
use switchhook_tests::{MINUTE, World, generic};

use super::{HOUR, carry_out, stack};

/// Selects all events that arrived in this time.
const fn between(since: Timestamp, until: Timestamp) -> events::Filter {
    events::Filter { status: None, provider: None, event_type: None, call: None, since, until, limit: 10 }
}

#[tokio::test(start_paused = true)]
async fn ledger_holds_every_request() {
    let world = World::new();
    let stack = stack(&world);
    drop(world.requests());
    status::status(&stack).await;
    let now = world.now();
    events::list(&stack, &between(now.minus(MINUTE), now)).await.unwrap();
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

/// An operator names an import, or its file has a name.
#[tokio::test(start_paused = true)]
async fn name_that_holds_a_number_is_in_no_record_and_on_no_bus() {
    let world = World::stopped();
    let stack = stack(&world);
    for about in ["call 447700900171.csv", "447700900171", "reminders.csv"] {
        let subject = audit::Subject { about: Some(about.to_owned()), items: 1, ..audit::Subject::default() };
        let begun = audit::begin(&stack, audit::Direct::ImportCalls, None, subject).await.unwrap();
        audit::finish(&stack, begun, audit::Counts { done: 1, ..audit::Counts::default() }).await.unwrap();
    }
    let records = audit::list(&stack, 10).await.unwrap();
    let named: Vec<&str> = records.iter().filter_map(|record| record.about.as_deref()).collect();
    let count = |about: &str| named.iter().filter(|name| **name == about).count();
    assert_eq!((count("***"), count("reminders.csv"), named.len()), (4, 2, 6));
    let everything = format!("{:?}{:?}", world.items(INBOX_TABLE).await, world.domain_events());
    assert!(everything.contains("reminders.csv") && !everything.contains("447700900171"), "{everything}");
}

/// A sender may put a number into the id of an event. The row of the event has it as its key, and the record does not repeat it.
#[tokio::test(start_paused = true)]
async fn record_of_a_payload_that_was_read_repeats_no_number() {
    let world = World::new();
    let stack = stack(&world);
    let event = world.accept(Provider::Generic, &generic("call", "+447700900171", "RINGING", 0)).await;
    assert!(events::unmasked(&stack, &event, "ticket 812").await.unwrap().is_some());
    let records = audit::list(&stack, 10).await.unwrap();
    let ids: Vec<Option<&str>> = records.iter().map(|record| record.event_id.as_deref()).collect();
    assert_eq!(ids, [Some("generic:***")]);
}

/// One query returns a hundred events of a shard and a minute, and minutes are read ahead.
#[tokio::test(start_paused = true)]
async fn events_of_a_busy_minute_and_of_those_before_it_are_counted_once() {
    let world = World::stopped();
    let event_id = world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let item = world.item(INBOX_TABLE, event_id.as_str()).await;
    world.wait(MINUTE * 10).await;
    let copy = |minute: i64, n: i64| {
        let at = 60_000 * minute + 7 * n;
        let bucket = format!("{minute}#{}", shard_of("c1", SHARDS_DEFAULT));
        vec![
            ("event_id", AttributeValue::S(format!("generic:{minute}-{n}"))),
            ("received_at", AttributeValue::N(at.to_string())),
            ("received_bucket", AttributeValue::S(bucket)),
        ]
    };
    let busy = minute_of(world.now()) - 1;
    let copies = (0..10).map(|n| copy(busy - 1, n)).chain((0..250).map(|n| copy(busy, n)));
    world.store_copies(INBOX_TABLE, &item, copies);
    let all = between(world.now().minus(MINUTE * 30), world.now());
    // No event is one of this provider, so the page goes on through all minutes.
    let other = events::Filter { provider: Some(Origin::Provider(Provider::Twilio)), ..all };
    let page = events::list(&stack(&world), &other).await.unwrap();
    let counts: Vec<(usize, bool)> =
        page.minutes.iter().filter(|minute| minute.events > 0).map(|minute| (minute.events, minute.more)).collect();
    assert_eq!((counts.as_slice(), page.next_until), ([(250, false), (10, false), (1, false)].as_slice(), None));
}

#[tokio::test(start_paused = true)]
async fn list_of_events_spends_no_query_on_the_future() {
    let world = World::stopped();
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    let now = world.now();
    let page = events::list(&stack(&world), &between(now.minus(MINUTE), now.plus(HOUR * 24))).await.unwrap();
    assert_eq!((page.events.len(), page.next_until), (1, None));
    assert!(page.queries <= 16, "{} queries", page.queries);
}
