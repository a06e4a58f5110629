//! Reads of several rows by one request for each hundred of them.

use serde_dynamo::AttributeValue;
use serde_json::json;
use switchhook_aws::Error;
use switchhook_aws::calls::{Alias, AliasOutcome, Resolved};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_tests::{INBOX_RETENTION, World, database_down, down};

use super::*;

/// A stack with the calls `c0` to `c{count}`, and their ids.
async fn with_calls(count: usize) -> (World, Vec<CallId>) {
    let world = World::stopped();
    let ids: Vec<CallId> = (0..count).map(|number| CallId::new(format!("c{number}"))).collect();
    for id in &ids {
        let event = provider_event(id.as_str(), &format!("{id}-e"), EventKind::Ringing, 1);
        assert_eq!(store(&world, &folded(None, &[event], 1)).await, StoreOutcome::Committed);
    }
    drop((world.requests(), world.capacity()));
    (world, ids)
}

/// Makes the row of a call one that this version cannot read.
async fn let_a_later_version_write(world: &World, call_id: &str) {
    let mut later = world.item(CALLS_TABLE, call_id).await;
    later.insert("schema_version".to_owned(), AttributeValue::N("2".to_owned()));
    world.put_item(CALLS_TABLE, later).await;
}

#[tokio::test(start_paused = true)]
async fn hundred_rows_cost_one_request_and_the_units_of_each_row() {
    let (world, mut ids) = with_calls(130).await;
    ids.insert(3, CallId::new("deleted"));
    let loaded = world.calls.load(ids.clone()).await.unwrap();
    ids.remove(3);
    assert_eq!(
        loaded.calls.iter().map(|call| call.call_id.clone()).collect::<Vec<_>>(),
        ids,
        "in the order of the ids"
    );
    assert_eq!(world.requests(), [("BatchGetItem".to_owned(), 2)].into());
    assert_eq!(
        world.capacity()["BatchGetItem"].read_units,
        65.5,
        "half a unit for each, also for the one that is not there"
    );

    let read = world.calls.get_calls(ids[..10].to_vec()).await;
    assert!(read.iter().all(|call| matches!(call, Ok(Some(_)))));
    assert_eq!(world.capacity()["BatchGetItem"].read_units, 10.0, "a strongly consistent read takes a unit");
    drop(world.requests());

    // A request may name an id once. One id needs no such request.
    let twice = world.calls.get_calls(vec![ids[0].clone(), ids[0].clone()]).await;
    assert!(twice.iter().all(|call| matches!(call, Ok(Some(call)) if call.call_id == ids[0])));
    let none = world.calls.get_calls(Vec::new()).await;
    assert!(none.is_empty());
    assert_eq!(world.requests(), [("GetItem".to_owned(), 2)].into());
}

#[tokio::test(start_paused = true)]
async fn row_that_the_request_left_out_is_read_alone() {
    let (world, ids) = with_calls(3).await;
    let_a_later_version_write(&world, "c1").await;
    drop(world.requests());
    let read = world.calls.resolve_all(ids.clone()).await;
    assert_eq!(world.requests(), [("BatchGetItem".to_owned(), 1), ("GetItem".to_owned(), 1)].into());
    let [(_, Ok(_)), (_, Err(error)), (_, Ok(_))] = &read[..] else { panic!("{read:?}") };
    assert!(matches!(error, Error::NewerSchema(_)), "{error:?}");

    // DynamoDB answers only a part if the rows are large, or if it throttles.
    let keys = json!([{"call_id": {"S": "c0"}}, {"call_id": {"S": "c2"}}]);
    let answer = json!({"Responses": {CALLS_TABLE: []}, "UnprocessedKeys": {CALLS_TABLE: {"Keys": keys}}});
    let answer = Fault::FakedResponse { body: answer.to_string() };
    world.set_fault_hook(move |request| (request.operation == "BatchGetItem").then(|| answer.clone()));
    let loaded = world.calls.load(ids).await.unwrap();
    let found: Vec<&str> = loaded.calls.iter().map(|call| call.call_id.as_str()).collect();
    assert_eq!(found, ["c0", "c2"], "c1 is in neither part of the answer, so its row does not exist");
}

#[tokio::test(start_paused = true)]
async fn rows_are_read_one_by_one_if_their_request_hangs_and_a_line_says_so() {
    let (world, ids) = with_calls(3).await;
    for fault in [Fault::Timeout, down()] {
        let started = world.now();
        let hangs = fault.clone();
        world.set_fault_hook(move |request| (request.operation == "BatchGetItem").then(|| hangs.clone()));
        let loaded = world.calls.load(ids.clone()).await.unwrap();
        assert_eq!(loaded.calls.len(), 3, "{fault:?}");
        assert!(world.now().millis_since(started) <= 1_000, "{fault:?}");
    }
    assert_eq!(world.logged("calls_read_alone").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_behind_aliases_are_read_by_another_request() {
    let (world, ids) = with_calls(3).await;
    let_a_later_version_write(&world, "c2").await;
    // Two of the aliases lead to one call, and one to a call that this version cannot read.
    for (from, to) in [("p0", 0), ("p00", 0), ("p1", 1), ("p2", 2)] {
        let alias = Alias { call_id: ids[to].clone(), attempt: AttemptKey::new(from) };
        let written = world.calls.write_alias(&CallId::new(from), &alias, INBOX_RETENTION, world.now()).await;
        assert!(matches!(written, Ok(AliasOutcome::Leads { .. })));
    }
    drop(world.requests());
    let asked = ["p0", "c0", "p00", "p1", "p2", "nobody"].map(CallId::new);
    let resolved = world.calls.resolve_all(asked.to_vec()).await;
    assert_eq!(world.requests(), [("BatchGetItem".to_owned(), 2), ("GetItem".to_owned(), 2)].into());
    let found = resolved.iter().map(|(id, read)| {
        let found = read.as_ref().map(|Resolved { call, alias }| {
            let attempt = alias.as_ref().map(|alias| alias.attempt.as_str());
            (call.as_ref().map(|call| call.call_id.as_str()), attempt)
        });
        (id.as_str(), found.map_err(Error::is_unreadable))
    });
    let expected = [
        ("p0", Ok((Some("c0"), Some("p0")))),
        ("c0", Ok((Some("c0"), None))),
        ("p00", Ok((Some("c0"), Some("p00")))),
        ("p1", Ok((Some("c1"), Some("p1")))),
        ("p2", Err(true)),
        ("nobody", Ok((None, None))),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// A request that fails for all its rows is no answer about any of them. The rows are too large for the time of a request, for example.
#[tokio::test(start_paused = true)]
async fn rows_are_read_one_by_one_if_the_request_for_all_fails() {
    let (world, ids) = with_calls(3).await;
    world.set_fault_hook(|request| (request.operation == "BatchGetItem").then_some(Fault::Timeout));
    let loaded = world.calls.load(ids.clone()).await.unwrap();
    assert_eq!(loaded.calls.iter().map(|call| &call.call_id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert_eq!(world.requests()["GetItem"], 3);
    // Nothing of the table works. No row counts as deleted.
    world.set_fault_hook(database_down);
    assert!(matches!(world.calls.load(ids.clone()).await, Err(Error::ReadCall(_))));
    assert!(world.calls.get_calls(ids.clone()).await.iter().all(|read| matches!(read, Err(Error::ReadCall(_)))));
    let resolved = world.calls.resolve_all(ids).await;
    assert!(resolved.iter().all(|(_, read)| matches!(read, Err(Error::ReadCall(_)))));
}

/// The functions have seconds for their work. A table that does not answer must not take them for each row.
#[tokio::test(start_paused = true)]
async fn reads_end_soon_if_nothing_of_the_table_works() {
    let (world, _) = with_calls(0).await;
    let ids: Vec<CallId> = (0..250).map(|number| CallId::new(format!("c{number}"))).collect();
    world.set_fault_hook(|request| database_down(request).map(|_| Fault::Timeout));
    let started = world.now();
    let read = world.calls.get_calls(ids.clone()).await;
    assert!(read.len() == ids.len() && read.iter().all(|read| matches!(read, Err(Error::ReadCall(_)))));
    let took = world.now().millis_since(started);
    assert!(took < 6_000, "{took} ms");
}
