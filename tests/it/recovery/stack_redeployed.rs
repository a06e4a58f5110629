//! The stack is deployed again, under new names or in another region. Its tables are new, and the old ones were retained or restored
//! from backups: their items are copied.

use insta::assert_snapshot;
use serde_json::json;
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_aws::inbox::{AttentionKind, DiscoveryCursor};
use switchhook_domain::{PhoneNumber, Provider};
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::{CALLS_TABLE, CloudOptions, INBOX_TABLE};
use switchhook_operate::Stack;
use switchhook_operate::copy::{self, CopyFrom};
use switchhook_operate::recover::plan_stop;
use switchhook_tests::{MINUTE, World, down, generic, options, reads_calls_to_fold};

use super::{MAX, carry_out, copy_tables, dials, found, make_table, repair, stack, verified};
use crate::outbound::{HOUR, all_accounts, call_request, call_state, create};

const OLD_INBOX: &str = "old-inbox";
const OLD_CALLS: &str = "old-calls";

/// Opens a new stack, beside which the tables of an old one are.
async fn redeploy(old: &World) -> World {
    redeploy_as(old, World::stopped()).await
}

/// Does the same with this new stack.
async fn redeploy_as(old: &World, world: World) -> World {
    make_table(&world, OLD_INBOX, "event_id", old.items(INBOX_TABLE).await).await;
    make_table(&world, OLD_CALLS, "call_id", old.items(CALLS_TABLE).await).await;
    // The clock of a new world starts anew.
    world.wait(std::time::Duration::from_millis(old.now().millis_since(world.now()).unsigned_abs())).await;
    world
}

/// Copies both tables. Returns the number of items that were copied.
async fn copy_both(stack: &Stack) -> usize {
    let from = CopyFrom { inbox: Some(OLD_INBOX.to_owned()), calls: Some(OLD_CALLS.to_owned()) };
    copy_tables(stack, &from).await.counts.done
}

#[tokio::test(start_paused = true)]
async fn retained_tables_are_copied_and_every_call_goes_on() {
    let mut old = World::new();
    let began = old.now();
    let blocked = PhoneNumber::new("+15550111");
    DoNotCallList::new(&old.calls, &old.inbox).block(&blocked, old.now()).await.unwrap();
    old.accept(Provider::Generic, &generic("team", "t-1", "RINGING", 0)).await;
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T02:00:00Z");
    let later = create(&old, &request).await;
    let done = create(&old, &call_request("declines")).await;
    old.wait(HOUR).await;
    assert_eq!(dials(&old)[&done], 1);
    // An event waits in the queue of the old stack, which is deleted with it.
    old.stop();
    old.accept(Provider::Generic, &generic("team", "t-2", "ANSWERED", 3_500)).await;

    let mut world = redeploy(&old).await;
    let new = stack(&world);
    let all = old.items(INBOX_TABLE).await.len() + old.items(CALLS_TABLE).await.len();
    assert_eq!(copy_both(&new).await, all);
    assert_eq!(copy_both(&new).await, 0, "a repetition copies nothing");
    assert!(DoNotCallList::new(&world.calls, &world.inbox).contains(&blocked).await.unwrap());
    world.start();
    world.wait(MINUTE * 5).await;
    repair(&new, began).await;
    world.wait(MINUTE * 3).await;
    assert_eq!(found(&verified(&new, began).await), "");
    assert!(world.call("team").await.contains_event(&switchhook_domain::EventId::new("generic:t-2")));
    world.wait(HOUR * 2).await;
    assert_snapshot!(call_state(&world, &later).await, @"job COMPLETED, appointment Confirmed, attempts [completed]");
    // The provider of the new world has its own record: only the later call was dialled there.
    assert_eq!((dials(&world).get(&done), dials(&world)[&later]), (None, 1));
}

/// An event of a placed call waits in the inbox, and calls are discovered. Otherwise the reconciler would send the event before there is a row,
/// and read the list of calls before there is a cursor.
#[tokio::test(start_paused = true)]
async fn consumer_and_reconciler_stand_still_until_everything_is_copied() {
    let mut secret = all_accounts();
    secret["retell"]["discover"] = true.into();
    let mut old = World::new();
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T02:00:00Z");
    let call_id = create(&old, &request).await;
    let cursor = DiscoveryCursor {
        from: old.now().minus(HOUR * 6),
        until: old.now().minus(HOUR * 5),
        page: None,
        handled: 0,
        unreadable_since: None,
    };
    old.inbox.set_discovery_cursor(Provider::Retell, &cursor).await.unwrap();
    old.set_fault_hook(|call| reads_calls_to_fold(call).then(down));
    let waiting = old.accept(Provider::Generic, &generic(&call_id, "e1", "RINGING", 0)).await;
    old.wait(MINUTE * 4).await;
    assert_eq!(old.attention(AttentionKind::Retrying).await.len(), 1);
    old.stop();

    let mut world = redeploy_as(&old, World::with_options(options(&secret))).await;
    copy_both(&stack(&world)).await;
    assert_eq!(world.inbox.discovery_cursor(Provider::Retell).await.unwrap(), Some(cursor));
    world.start();
    world.wait(MINUTE * 10).await;
    let call = world.call(&call_id).await;
    assert!(call.contains_event(&waiting) && call.plan.is_some(), "{call:?}");
}

/// The new stack has the default number of shards. Most of the copied calls would never be dialled, and `verify` would not see them.
#[tokio::test(start_paused = true)]
async fn tables_with_more_shards_than_the_stack_reads_are_refused() {
    let index_shards = "16".parse().unwrap();
    let mut old = World::with_options(CloudOptions { index_shards, ..options(&all_accounts()) });
    old.start();
    for number in 0..40 {
        old.accept(Provider::Generic, &generic(&format!("team-{number}"), &format!("t-{number}"), "RINGING", 0)).await;
    }
    old.quiesce().await;
    let world = redeploy(&old).await;
    for from in [
        CopyFrom { inbox: Some(OLD_INBOX.to_owned()), calls: None },
        CopyFrom { inbox: None, calls: Some(OLD_CALLS.to_owned()) },
    ] {
        let refused = copy::plan(&stack(&world), &from, MAX, &|_| {}).await.unwrap_err();
        assert!(refused.to_string().contains("IndexShards"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn copied_row_announces_nothing_again_by_itself() {
    let old = World::new();
    old.accept(Provider::Generic, &generic("team", "t-1", "RINGING", 0)).await;
    old.quiesce().await;
    assert!(!old.domain_events().is_empty());
    let mut world = redeploy(&old).await;
    copy_both(&stack(&world)).await;
    world.start();
    world.wait(MINUTE * 3).await;
    let is_of_a_call = |event: &serde_json::Value| event["type"] != "operator.action";
    assert_eq!(world.domain_events().into_iter().filter(is_of_a_call).collect::<Vec<_>>(), [json!(null); 0]);
}

#[tokio::test(start_paused = true)]
async fn row_that_the_new_stack_has_already_stays() {
    let old = World::new();
    old.accept(Provider::Generic, &generic("team", "t-1", "RINGING", 0)).await;
    old.quiesce().await;
    let mut world = redeploy(&old).await;
    world.start();
    world.accept(Provider::Generic, &generic("team", "t-2", "ANSWERED", 5)).await;
    world.quiesce().await;
    let new = stack(&world);
    copy_both(&new).await;
    assert_eq!(world.call("team").await.history.len(), 2, "the answer implies that the phone rang");
    world.wait(MINUTE * 3).await;
    // The sweep or the repair folds the copied event too.
    repair(&new, world.now().minus(HOUR)).await;
    world.wait(MINUTE * 3).await;
    assert!(world.call("team").await.contains_event(&switchhook_domain::EventId::new("generic:t-1")));
}

#[tokio::test(start_paused = true)]
async fn region_is_lost_and_the_backups_are_older_than_the_last_dials() {
    let old = World::new();
    old.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let mut request = call_request("confirms");
    request["due_at"] = json!("2026-01-01T00:30:00Z");
    let call_id = create(&old, &request).await;
    let restored_to = old.now();
    // The backups are copied to the other region, and the old stack goes on until it is lost.
    let mut world = redeploy(&old).await;
    old.wait(HOUR).await;
    assert_eq!(dials(&old)[&call_id], 1);
    world.wait(HOUR).await;
    let new = stack(&world);
    copy_both(&new).await;
    carry_out(&new, &plan_stop(&new, restored_to, false, MAX).await.unwrap()).await;
    world.start();
    world.wait(HOUR).await;
    assert_snapshot!(call_state(&world, &call_id).await, @"job FAILED, appointment Failed, attempts []");
    assert_eq!(dials(&world).len(), 0, "the person was called by the stack that was lost");
}
