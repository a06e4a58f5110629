//! The do-not-call list after a table was lost or restored. No step of the operator is needed.

use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_tests::{MINUTE, World};

use super::{back_up, dials, key_of, lose, restore};
use crate::outbound::{call_request, call_state, create, send};

const TABLES: [&str; 2] = [CALLS_TABLE, INBOX_TABLE];

async fn change_list(world: &World, method: &str) {
    let (code, answer) = send(world, method, "/do-not-call?number=%2B15550199", None, &Value::Null).await;
    assert!(code.is_success(), "{answer}");
}

/// Number of phones that ring for a new call to the number.
async fn phones(world: &World) -> usize {
    let call_id = create(world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    dials(world).get(&call_id).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn blocked_number_is_not_dialled_after_either_table_was_lost_or_restored() {
    for table in TABLES {
        let world = World::new();
        let backup = back_up(&world, table).await;
        change_list(&world, "PUT").await;
        restore(&world, &backup).await;
        assert_eq!(phones(&world).await, 0, "{table} restored");
        lose(&world, table).await;
        let call_id = create(&world, &call_request("confirms")).await;
        world.wait(MINUTE * 5).await;
        assert_eq!(call_state(&world, &call_id).await, "job FAILED, appointment Blocked, attempts []");
        assert_eq!(dials(&world).len(), 0, "{table} lost");
    }
}

#[tokio::test(start_paused = true)]
async fn unblocked_number_is_dialled_after_either_table_was_restored_to_when_it_was_blocked() {
    for table in TABLES {
        let world = World::new();
        change_list(&world, "PUT").await;
        let backup = back_up(&world, table).await;
        world.wait(MINUTE).await;
        change_list(&world, "DELETE").await;
        restore(&world, &backup).await;
        assert_eq!(phones(&world).await, 1, "{table}");
        // It can be blocked again.
        change_list(&world, "PUT").await;
        assert_eq!(phones(&world).await, 0, "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn person_who_asked_not_to_be_called_stays_blocked_without_the_calls_table() {
    let world = World::new();
    let report = json!({
        "event": "call_ended",
        "call": {
            "call_id": "call_1", "call_status": "ended", "direction": "outbound", "disconnection_reason": "user_requested_dnc",
            "from_number": "+15550100", "to_number": "+15550199",
            "start_timestamp": 1_767_225_600_000_i64, "end_timestamp": 1_767_225_660_000_i64,
        },
    });
    world.accept(Provider::Retell, &report.to_string()).await;
    world.quiesce().await;
    lose(&world, CALLS_TABLE).await;
    assert_eq!(phones(&world).await, 0);
}

#[tokio::test(start_paused = true)]
async fn entry_of_an_unblocked_number_expires_and_that_of_a_blocked_one_does_not() {
    let world = World::new();
    for (method, expires) in [("PUT", false), ("DELETE", true)] {
        change_list(&world, method).await;
        for table in TABLES {
            let items = world.items(table).await;
            let entries: Vec<_> = items.iter().filter(|item| key_of(table, item) == "do-not-call:+15550199").collect();
            assert_eq!(entries.len(), 1, "{table} after {method}");
            assert_eq!(entries[0].contains_key("expires_at"), expires, "{table} after {method}");
        }
    }
}
