//! One request reads all calls of a batch. Each test lets it fail in another way, and no call fails with it.

use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_aws::calls::{Alias, AliasOutcome};
use switchhook_domain::{AttemptKey, CallId, EventId, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::{INBOX_RETENTION, World, database_down, down, generic};

/// Calls `c1` and `c2` with a first event that was folded, and second events of them and a first one of `c3` in the queue.
async fn with_a_batch_of_three_calls() -> World {
    let world = World::stopped();
    for call in ["c1", "c2"] {
        world.accept(Provider::Generic, &generic(call, &format!("{call}-1"), "RINGING", 0)).await;
        assert_eq!(world.consume(&world.receive()).await, 1);
    }
    for call in ["c1", "c2", "c3"] {
        world.accept(Provider::Generic, &generic(call, &format!("{call}-2"), "ANSWERED", 3)).await;
    }
    drop(world.requests());
    world
}

/// Lets the request that reads the batch meet this fault.
fn inject_into_shared_read(world: &World, fault: Fault) {
    world.set_fault_hook(move |request| (request.operation == "BatchGetItem").then(|| fault.clone()));
}

async fn versions(world: &World) -> [u64; 3] {
    [world.call("c1").await.version, world.call("c2").await.version, world.call("c3").await.version]
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_batch_are_read_by_one_request() {
    let world = with_a_batch_of_three_calls().await;
    assert_eq!(world.consume(&world.receive()).await, 3);
    assert_eq!(world.requests(), [("BatchGetItem".to_owned(), 1), ("PutItem".to_owned(), 3)].into());
    assert_eq!(world.capacity()["BatchGetItem"].read_units, 3.0, "three consistent reads, one of nothing");
    assert_eq!(versions(&world).await, [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn each_call_is_read_alone_if_the_shared_read_fails_or_hangs() {
    let lost = || Fault::FakedResponse { body: "{\"Responses\":".to_owned() };
    let throttled = || Fault::ErrorBefore { status: 400, code: "ThrottlingException".to_owned() };
    // One of the ids is no valid key.
    let invalid = || Fault::ErrorBefore { status: 400, code: "ValidationException".to_owned() };
    for fault in [down(), throttled(), invalid(), Fault::Timeout, Fault::ResponseDelay(Duration::from_secs(2)), lost()]
    {
        let world = with_a_batch_of_three_calls().await;
        inject_into_shared_read(&world, fault.clone());
        let started = world.now();
        assert_eq!(world.consume(&world.receive()).await, 3, "{fault:?}");
        assert!(world.now().millis_since(started) <= 500, "{fault:?}");
        assert_eq!(world.requests()["GetItem"], 3, "{fault:?}");
        assert_eq!(versions(&world).await, [2, 2, 1], "{fault:?}");
        assert_eq!(world.logged("calls_read_alone").len(), 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_dynamodb_left_out_is_read_alone() {
    let world = with_a_batch_of_three_calls().await;
    let keys = json!([{"call_id": {"S": "c1"}}, {"call_id": {"S": "c2"}}]);
    let answer = json!({"Responses": {CALLS_TABLE: []}, "UnprocessedKeys": {CALLS_TABLE: {"Keys": keys}}});
    inject_into_shared_read(&world, Fault::FakedResponse { body: answer.to_string() });
    assert_eq!(world.consume(&world.receive()).await, 3);
    let requests = world.requests();
    assert_eq!((requests["GetItem"], requests["PutItem"]), (2, 3), "no fold may take such a call for a new one");
    assert_eq!(versions(&world).await, [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn call_that_nobody_can_read_fails_no_other_of_its_batch() {
    let world = with_a_batch_of_three_calls().await;
    let mut later = world.item(CALLS_TABLE, "c1").await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
    drop(world.requests());
    assert_eq!(world.consume(&world.receive()).await, 2);
    assert_eq!(world.requests()["GetItem"], 1, "only this call is read alone");
    assert_eq!((world.call("c2").await.version, world.call("c3").await.version), (2, 1));
    let tried = world.logged("retried");
    assert_eq!((tried.len(), &tried[0]["call_id"], &tried[0]["cause"]), (1, &json!("c1"), &json!("newer_schema")));
}

/// The calls changed after the shared read. So its rows are old, and the folds read their calls again.
#[tokio::test(start_paused = true)]
async fn fold_that_lost_a_race_reads_its_call_again() {
    let world = with_a_batch_of_three_calls().await;
    let received = world.receive();
    world.inject_fault("PutItem", CALLS_TABLE, 3, Fault::Delay(Duration::from_millis(300)));
    let folds = tokio::join!(world.invoke_consumer(&received), world.invoke_consumer(&received));
    assert_eq!((folds.0.len(), folds.1.len()), (3, 3));
    let lost = world.logged("batch_folded").iter().filter_map(|line| line["fold_conflicts"].as_u64()).sum::<u64>();
    assert_eq!(lost, 3);
    assert_eq!(versions(&world).await, [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn events_by_an_alias_and_by_the_id_of_its_call_reach_one_row() {
    let world = with_a_batch_of_three_calls().await;
    let alias = Alias { call_id: CallId::new("c1"), attempt: AttemptKey::new("1") };
    let written = world.calls.write_alias(&CallId::new("p1"), &alias, INBOX_RETENTION, world.now()).await.unwrap();
    assert!(matches!(written, AliasOutcome::Leads { .. }));
    let by_alias = world.accept(Provider::Generic, &generic("p1", "p1-1", "ENDED", 9)).await;
    drop(world.requests());
    assert_eq!(world.consume(&world.receive()).await, 4);
    assert_eq!(world.requests()["BatchGetItem"], 1);
    let call = world.call("c1").await;
    assert!(call.contains_event(&by_alias) && call.contains_event(&EventId::new("generic:c1-2")), "{call:?}");
    assert!(world.load("p1").await.is_none());
}

/// Ids of two calls can have the same hash. A call that comes again in its group has changed since the shared read.
#[tokio::test(start_paused = true)]
async fn call_that_comes_again_in_its_group_is_read_again() {
    let world = with_a_batch_of_three_calls().await;
    world.accept(Provider::Generic, &generic("c1", "c1-3", "ENDED", 9)).await;
    drop(world.requests());
    let mut received = world.receive();
    received.sort_by_key(|received| received.message.body.contains("c1-3"));
    for received in &mut received {
        received.message.group = Some("one".to_owned());
    }
    assert_eq!(world.invoke_consumer(&received).await.len(), 4);
    let requests = world.requests();
    assert_eq!((requests["BatchGetItem"], requests["GetItem"], requests["PutItem"]), (1, 1, 4));
    assert_eq!(versions(&world).await, [3, 2, 1]);
}

/// Nothing of the table works. The function must note the failures before its own time is over.
#[tokio::test(start_paused = true)]
async fn batch_that_meets_a_dead_table_returns_to_the_queue_in_time() {
    let world = with_a_batch_of_three_calls().await;
    world.set_fault_hook(|request| database_down(request).map(|_| Fault::Timeout));
    let started = world.now();
    assert_eq!(world.invoke_consumer(&world.receive()).await.len(), 0);
    let took = world.now().millis_since(started);
    assert!((5_000..6_000).contains(&took), "{took} ms");
}
