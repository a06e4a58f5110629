//! Creation of calls: repetitions without an idempotency key, callers, and batches.

#![expect(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use switchhook_local::connector::Fault;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World, down, text};

use crate::outbound::send;

fn request() -> Value {
    json!({"provider": "retell", "from": "+14155550100", "to": "+14155550123"})
}

async fn post(world: &World, request: &Value) -> (StatusCode, String) {
    let (code, answer) = send(world, "POST", "/calls", None, request).await;
    (code, text(&answer["call_id"]))
}

#[tokio::test(start_paused = true)]
async fn same_request_within_five_minutes_finds_the_first_call() {
    // A world begins at the start of five minutes. The last request is sent when two of these have passed.
    for begin_s in [0, 1, 150, 299] {
        let world = World::stopped();
        world.wait(Duration::from_secs(begin_s)).await;
        let (code, first) = post(&world, &request()).await;
        assert_eq!(code, StatusCode::CREATED);
        for wait_ms in [1, 999, 148_000, 150_000] {
            world.wait(Duration::from_millis(wait_ms)).await;
            assert_eq!(post(&world, &request()).await, (StatusCode::OK, first.clone()), "from {begin_s} s");
        }
        assert_eq!(world.items(CALLS_TABLE).await.len(), 1);
        world.wait(Duration::from_secs(2)).await;
        let (code, second) = post(&world, &request()).await;
        assert_eq!(code, StatusCode::CREATED, "from {begin_s} s");
        assert_ne!(first, second);
    }
}

/// The request is recorded and its row is not written. When it is sent again, the next five minutes have begun.
#[tokio::test(start_paused = true)]
async fn request_whose_row_could_not_be_written_makes_one_call_when_it_is_sent_again() {
    let world = World::stopped();
    world.wait(Duration::from_secs(299)).await;
    world.inject_fault("PutItem", CALLS_TABLE, 1, down());
    let (code, _) = send(&world, "POST", "/calls", None, &request()).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    world.wait(Duration::from_secs(2)).await;
    let (code, first) = post(&world, &request()).await;
    assert_eq!(code, StatusCode::OK);
    world.wait(MINUTE * 4).await;
    assert_eq!(post(&world, &request()).await, (StatusCode::OK, first));
    assert_eq!((world.items(CALLS_TABLE).await.len(), world.items(INBOX_TABLE).await.len()), (1, 1));
    // Five minutes after the first request, the same content makes another call.
    world.wait(MINUTE).await;
    assert_eq!(post(&world, &request()).await.0, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn other_content_or_a_wish_for_a_duplicate_makes_another_call() {
    let world = World::stopped();
    let (_, first) = post(&world, &request()).await;
    world.wait(MINUTE).await;
    let mut other = request();
    other["metadata"] = json!({"name": "Zoë"});
    assert_eq!(post(&world, &other).await.0, StatusCode::CREATED);
    let mut wish = request();
    wish["allow_duplicate"] = json!(true);
    for _ in 0..2 {
        assert_eq!(post(&world, &wish).await.0, StatusCode::CREATED);
    }
    assert_eq!(post(&world, &request()).await, (StatusCode::OK, first));
    assert_eq!(world.items(CALLS_TABLE).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn same_request_many_times_at_once_makes_one_call() {
    let world = World::stopped();
    let request = request();
    let create = || post(&world, &request);
    let (one, two, three, four) = tokio::join!(create(), create(), create(), create());
    let all = [one, two, three, four];
    assert!(all.iter().all(|(_, call_id)| *call_id == all[0].1));
    assert_eq!(world.items(CALLS_TABLE).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_batch_are_answered_one_by_one_in_their_order() {
    let world = World::stopped();
    let entry = |to: &str, key: Option<&str>| {
        let mut entry = request();
        entry["to"] = json!(to);
        if let Some(key) = key {
            entry["idempotency_key"] = json!(key);
        }
        entry
    };
    let batch = json!({"calls": [
        entry("+14155550123", Some("row-1")), entry("12", None), entry("+14155550124", None),
        entry("+14155550125", Some("row-1")), 7,
    ]});
    let (code, answer) = send(&world, "POST", "/calls/batch", None, &batch).await;
    assert_eq!(code, StatusCode::OK);
    let statuses = |answer: &Value| -> Vec<u64> {
        answer["results"].as_array().unwrap().iter().map(|result| result["status"].as_u64().unwrap()).collect()
    };
    // Which of the two rows with one key is created first is left to chance.
    let of = statuses(&answer);
    assert_eq!((of[1], of[2], of[4]), (400, 201, 400), "{answer}");
    assert!([[201, 409], [409, 201]].contains(&[of[0], of[3]]), "{answer}");
    assert_eq!((&answer["created"], &answer["repeated"], &answer["refused"]), (&json!(2), &json!(0), &json!(3)));
    assert_eq!(answer["results"][1]["problem"]["errors"][0]["field"], "to");
    assert!(!answer.to_string().contains("+14155550124"), "{answer}");
    assert_eq!(world.items(CALLS_TABLE).await.len(), 2);

    world.wait(MINUTE).await;
    let (_, again) = send(&world, "POST", "/calls/batch", None, &batch).await;
    assert_eq!((&again["created"], &again["repeated"], &again["refused"]), (&json!(0), &json!(2), &json!(3)));
    assert_eq!(again["results"][2]["call"], answer["results"][2]["call"]);
    for body in [json!({"calls": []}), json!([]), json!({"calls": vec![request(); 101]})] {
        let (code, problem) = send(&world, "POST", "/calls/batch", None, &body).await;
        assert_eq!((code, &problem["errors"][0]["field"]), (StatusCode::BAD_REQUEST, &json!("calls")));
    }
}

/// One key cannot stand for a hundred calls. If it were ignored, a batch that is sent again later would ring every phone again.
#[tokio::test(start_paused = true)]
async fn batch_with_a_key_in_the_header_is_refused() {
    let world = World::stopped();
    for key in ["import-2026-11", "not a key"] {
        let (code, problem) = send(&world, "POST", "/calls/batch", Some(key), &json!({"calls": [request()]})).await;
        assert_eq!((code, &problem["errors"][0]["field"]), (StatusCode::BAD_REQUEST, &json!("Idempotency-Key")));
        assert!(text(&problem["errors"][0]["message"]).contains("idempotency_key"), "{problem}");
    }
    assert!(world.items(CALLS_TABLE).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn equal_calls_of_a_batch_are_created_once_and_repeated() {
    let world = World::stopped();
    let mut keyed = request();
    keyed["idempotency_key"] = json!("row-1");
    let batch = json!({"calls": [request(), keyed, request(), keyed]});
    let (code, answer) = send(&world, "POST", "/calls/batch", None, &batch).await;
    assert_eq!(code, StatusCode::OK);
    let statuses: Vec<&Value> = answer["results"].as_array().unwrap().iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, [201, 201, 200, 200], "{answer}");
    assert_eq!((&answer["created"], &answer["repeated"], &answer["refused"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(answer["results"][0]["call"], answer["results"][2]["call"]);
    assert_eq!(world.items(CALLS_TABLE).await.len(), 2);
    assert_eq!((world.logged("created").len(), world.logged("repeated").len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn call_of_a_batch_that_cannot_be_stored_fails_alone() {
    let world = World::stopped();
    let entries: Vec<Value> = (0..3)
        .map(|number| json!({"provider": "retell", "from": "+14155550100", "to": format!("+1415555012{number}"), "allow_duplicate": true}))
        .collect();
    world.inject_fault(
        "PutItem",
        CALLS_TABLE,
        1,
        Fault::ErrorBefore { status: 400, code: "AccessDeniedException".to_owned() },
    );
    let (code, answer) = send(&world, "POST", "/calls/batch", None, &json!({"calls": entries})).await;
    assert_eq!((code, &answer["created"], &answer["refused"]), (StatusCode::OK, &json!(2), &json!(1)), "{answer}");
    let failed = answer["results"].as_array().unwrap().iter().find(|result| result["status"] == 500).unwrap();
    assert_eq!(failed["problem"]["type"], "urn:switchhook:problem:storage_failure");
    assert_eq!(world.logged("storage_failure").len(), 1);
}

/// Advice to send the request again would be advice to call the person twice.
#[tokio::test(start_paused = true)]
async fn storage_failure_says_whether_a_repetition_may_create_another_call() {
    let world = World::stopped();
    let mut wish = request();
    wish["allow_duplicate"] = json!(true);
    for (key, request, is_recognised) in
        [(None, request(), true), (Some("order-7"), wish.clone(), true), (None, wish, false)]
    {
        world.inject_fault("PutItem", CALLS_TABLE, 1, down());
        let (code, problem) = send(&world, "POST", "/calls", key, &request).await;
        assert_eq!((code, &problem["status"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!(500)));
        assert_eq!(problem["type"], "urn:switchhook:problem:storage_failure");
        let detail = text(&problem["detail"]);
        assert_eq!(detail.contains("send the request again"), is_recognised, "{detail}");
        assert_eq!(detail.contains("another call"), !is_recognised, "{detail}");
    }
    assert_eq!(world.logged("storage_failure").len(), 3);
}
