//! People who ask not to be called again.

use serde_json::{Value, json};
use switchhook_aws::do_not_call::DoNotCallList;
use switchhook_domain::{CALL_ATTEMPTS_MAX, CallId, EventId, PhoneNumber, Provider};
use switchhook_local::{CloudOptions, INBOX_TABLE};
use switchhook_operate::forget::{self, ForgetFilter, ForgetRequest};
use switchhook_tests::{MINUTE, World, all_providers, down, options};

use super::{HOUR, call_request, call_state, create, get_call, post_stored_only, report_drift, send, wait_for_the_end};
use crate::operator::{carry_out, stack};

/// Retell's report that the person asked not to be called again.
fn report(call_id: &str, direction: &str) -> String {
    json!({
        "event": "call_ended",
        "call": {
            "call_id": call_id, "call_status": "ended", "direction": direction, "disconnection_reason": "user_requested_dnc",
            "from_number": if direction == "inbound" { "+15550199" } else { "+15550100" },
            "to_number": if direction == "inbound" { "+15550100" } else { "+15550199" },
            "start_timestamp": 1_767_225_600_000_i64, "end_timestamp": 1_767_225_660_000_i64,
            "metadata": {"appointment_id": "apt_0"},
        },
    })
    .to_string()
}

/// Retell's analysis of the same phone call, which repeats the wish.
fn analysis(call_id: &str, summary: &str) -> String {
    let mut body: Value = serde_json::from_str(&report(call_id, "outbound")).unwrap();
    body["event"] = "call_analyzed".into();
    body["call"]["call_analysis"] = json!({"call_summary": summary});
    body.to_string()
}

#[tokio::test(start_paused = true)]
async fn person_who_asks_not_to_be_called_is_not_called_again() {
    for direction in ["outbound", "inbound"] {
        let world = World::new();
        world.accept(Provider::Retell, &report("call_1", direction)).await;
        world.quiesce().await;
        assert_eq!(
            call_state(&world, "appointment:apt_0").await,
            "job COMPLETED, appointment Declined, attempts [completed]"
        );
        assert_eq!(world.logged("number_blocked").len(), 1);
        create(&world, &call_request("confirms")).await;
        world.wait(MINUTE * 5).await;
        assert_eq!(world.cloud.fake().dials(), [], "{direction}");
    }
}

/// Another system gives all calls to a person the same appointment, so the call has room for no further attempt. The wish counts all the same.
#[tokio::test(start_paused = true)]
async fn wish_in_a_call_without_room_blocks_the_number_once() {
    let world = World::new();
    for number in 0..CALL_ATTEMPTS_MAX {
        let started = report(&format!("call_{number}"), "outbound").replace("user_requested_dnc", "user_hangup");
        world.accept(Provider::Retell, &started).await;
    }
    world.quiesce().await;
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    let number = PhoneNumber::new("+15550199");
    assert!(!list.contains(&number).await.unwrap());
    let last = report("call_last", "outbound");
    world.accept(Provider::Retell, &last).await;
    world.quiesce().await;
    let attempts = world.call("appointment:apt_0").await.attempts().len();
    assert_eq!((attempts, world.logged("number_blocked").len()), (CALL_ATTEMPTS_MAX, 1));
    assert!(list.contains(&number).await.unwrap());
    // A user takes the number off the list. The event is folded again, and the wish is known.
    send(&world, "DELETE", "/do-not-call?number=%2B15550199", None, &json!(null)).await;
    let event = world.inbox.get_normalized(&EventId::new("retell:call_last:call_ended")).await.unwrap().unwrap();
    world.wait(MINUTE * 6).await;
    world.queue.send(&event, "").await.unwrap();
    world.quiesce().await;
    assert_eq!(world.logged("number_blocked").len(), 1);
    assert!(!list.contains(&number).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn wish_blocks_no_number_where_the_configuration_says_so() {
    let mut world = World::with_options(CloudOptions { block_on_request: false, ..options(&all_providers()) });
    world.start();
    world.accept(Provider::Retell, &report("call_1", "outbound")).await;
    world.quiesce().await;
    assert_eq!(
        call_state(&world, "appointment:apt_0").await,
        "job COMPLETED, appointment Declined, attempts [completed]"
    );
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    assert!(!list.contains(&PhoneNumber::new("+15550199")).await.unwrap());
    assert_eq!(world.logged("number_blocked").len(), 0);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 5).await;
    let dialled: Vec<String> = world.cloud.fake().dials().into_iter().map(|dial| dial.call_id).collect();
    assert_eq!(dialled, [call_id.as_str()]);
    assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Confirmed, attempts [completed]");
}

#[tokio::test(start_paused = true)]
async fn sip_address_is_blocked_however_it_is_written() {
    let world = World::new();
    send(&world, "PUT", "/do-not-call?number=sips%3Adesk%40Example.com%3A5061", None, &json!(null)).await;
    let mut request = call_request("confirms");
    for (to, dials) in [("sip:desk@example.com", 0), ("sip:Desk@example.com", 1)] {
        request["to"] = to.into();
        let call_id = create(&world, &request).await;
        world.wait(MINUTE * 5).await;
        assert_eq!(world.cloud.fake().dials().len(), dials, "{to}");
        let stopped = get_call(&world, &call_id).await["job"]["stop_reason"] == "do_not_call";
        assert_eq!(stopped, dials == 0, "{to}");
    }
}

/// A provider may report another spelling than the one that it was asked to dial. The next call has the spelling of the first.
#[tokio::test(start_paused = true)]
async fn wish_blocks_the_number_that_was_dialled_and_the_one_that_is_reported() {
    for (to, reported) in [("sip:+15550199@example.com", "+15550199"), ("+15550199", "15550199")] {
        let world = World::new();
        let mut request = call_request("confirms");
        request["to"] = to.into();
        let call_id = create(&world, &request).await;
        wait_for_the_end(&world, &call_id).await;
        let provider_call_id = world.cloud.fake().dials()[0].provider_call_id.clone();
        let mut wish: Value = serde_json::from_str(&analysis(&provider_call_id, "wish")).unwrap();
        wish["call"]["to_number"] = reported.into();
        wish["call"]["metadata"] = json!({"switchhook_call_id": call_id, "switchhook_attempt": "1"});
        world.accept(Provider::Retell, &wish.to_string()).await;
        world.quiesce().await;
        assert_eq!(world.logged("number_blocked").len(), 1, "{to}");
        let list = DoNotCallList::new(&world.calls, &world.inbox);
        assert!(list.contains(&PhoneNumber::new(reported)).await.unwrap(), "{reported}");
        let again = create(&world, &request).await;
        world.wait(MINUTE * 5).await;
        assert_eq!(get_call(&world, &again).await["job"]["stop_reason"], "do_not_call", "{to}");
        assert_eq!(world.cloud.fake().dials().len(), 1, "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_report_does_not_block_an_unblocked_number() {
    let world = World::new();
    let number = PhoneNumber::new("+15550199");
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    world.accept(Provider::Retell, &report("call_1", "outbound")).await;
    world.quiesce().await;
    assert!(list.contains(&number).await.unwrap());
    send(&world, "DELETE", "/do-not-call?number=%2B15550199", None, &json!(null)).await;
    world.post(Provider::Retell, &report("call_1", "outbound")).await;
    world.quiesce().await;
    assert!(!list.contains(&number).await.unwrap());
}

/// Retell analyses a call again when somebody asks for it, even long after the call.
#[tokio::test(start_paused = true)]
async fn another_report_of_the_same_call_does_not_block_an_unblocked_number_and_another_call_does() {
    let mut world = World::new();
    let number = PhoneNumber::new("+15550199");
    let (calls, inbox) = (world.calls.clone(), world.inbox.clone());
    let list = DoNotCallList::new(&calls, &inbox);
    let mut events = vec![world.accept(Provider::Retell, &report("call_1", "outbound")).await];
    world.quiesce().await;
    send(&world, "DELETE", "/do-not-call?number=%2B15550199", None, &json!(null)).await;
    for summary in ["first", "second", "after the inbox has lost the others"] {
        events.push(world.accept(Provider::Retell, &analysis("call_1", summary)).await);
        world.quiesce().await;
        assert!(!list.contains(&number).await.unwrap(), "{summary}");
        if summary == "second" {
            world.skip(HOUR * 25).await;
            for event_id in &events {
                world.delete_item(INBOX_TABLE, event_id.as_str()).await;
            }
        }
    }
    // In a later call, the person asks again.
    world.accept(Provider::Retell, &analysis("call_2", "third")).await;
    world.quiesce().await;
    assert!(list.contains(&number).await.unwrap());
    assert_eq!(world.logged("number_blocked").len(), 2);
}

/// The second report holds the number again, until it is erased after its fold.
#[tokio::test(start_paused = true)]
async fn another_report_of_a_forgotten_call_does_not_bring_its_number_back() {
    let world = World::new();
    let number = PhoneNumber::new("+15550199");
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    world.accept(Provider::Retell, &report("call_1", "outbound")).await;
    world.quiesce().await;
    let stack = stack(&world);
    let filter = ForgetFilter::Calls(vec![CallId::new("appointment:apt_0")]);
    let request = ForgetRequest { filter, since: Some(stack.now().minus(HOUR)), also_do_not_call: true };
    let plan = forget::plan(&stack, &request, 100, &mut |_, _| {}).await.unwrap();
    assert_eq!((plan.skipped_count, carry_out(&stack, &plan).await.counts.skipped), (0, 0), "{plan:?}");
    assert!(!list.contains(&number).await.unwrap());
    let late = world.accept(Provider::Retell, &analysis("call_1", "late")).await;
    world.quiesce().await;
    assert!(world.call("appointment:apt_0").await.contains_event(&late));
    assert!(!list.contains(&number).await.unwrap());
    assert_eq!(world.logged("number_blocked").len(), 1);
}

/// The event of the wish is stored and not queued. A refold reads it from the inbox before the sweep queues it.
#[tokio::test(start_paused = true)]
async fn wish_that_a_refold_finds_blocks_the_number() {
    let world = World::new();
    let number = PhoneNumber::new("+15550199");
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    let started = json!({
        "event": "call_started",
        "call": {
            "call_id": "call_1", "call_status": "ongoing", "direction": "outbound", "from_number": "+15550100",
            "to_number": "+15550199", "start_timestamp": 1_767_225_600_000_i64, "metadata": {"appointment_id": "apt_0"},
        },
    });
    world.accept(Provider::Retell, &started.to_string()).await;
    world.quiesce().await;
    post_stored_only(&world, Provider::Retell, &report("call_1", "outbound")).await;
    report_drift(&world, "appointment:apt_0", "first").await;
    world.quiesce().await;
    assert_eq!(
        call_state(&world, "appointment:apt_0").await,
        "job COMPLETED, appointment Declined, attempts [completed]"
    );
    assert!(list.contains(&number).await.unwrap());
    assert_eq!(world.logged("number_blocked").len(), 1);
    // The sweep and another refold block no number again that a user has unblocked.
    send(&world, "DELETE", "/do-not-call?number=%2B15550199", None, &json!(null)).await;
    world.wait(MINUTE * 5).await;
    report_drift(&world, "appointment:apt_0", "another").await;
    world.quiesce().await;
    assert!(!list.contains(&number).await.unwrap());
}

/// A fold that is stored makes the event a duplicate, which blocks nothing. So the number must be on the list before.
#[tokio::test(start_paused = true)]
async fn wish_that_cannot_be_noted_is_not_folded_before_it_is() {
    let world = World::new();
    // Neither table takes the entry, because an entry in one of them blocks the number.
    world.set_fault_hook(|call| {
        let is_entry = String::from_utf8_lossy(call.body).contains("do-not-call:");
        (call.operation == "PutItem" && is_entry).then(down)
    });
    world.accept(Provider::Retell, &report("call_1", "outbound")).await;
    world.wait(MINUTE).await;
    assert!(!world.logged("retried").is_empty(), "the consumer has tried");
    assert!(world.load("appointment:apt_0").await.is_none(), "the fold waits for the entry");
    world.clear_faults();
    world.wait(MINUTE * 5).await;
    let list = DoNotCallList::new(&world.calls, &world.inbox);
    assert!(list.contains(&PhoneNumber::new("+15550199")).await.unwrap());
    assert_eq!(
        call_state(&world, "appointment:apt_0").await,
        "job COMPLETED, appointment Declined, attempts [completed]"
    );
}
