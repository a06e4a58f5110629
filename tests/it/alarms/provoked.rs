//! Alarms that can be provoked in the local cloud. Each test makes one thing go wrong, and expects that its alarm fires.

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::fake::DeliveryFaults;
use switchhook_local::queue::NewMessage;
use switchhook_local::{CALLS_TABLE, CloudOptions, DIAL_ACCOUNTS_SECRET, DIAL_QUEUE, INBOX_TABLE, WEBHOOK_KEYS_SECRET};
use switchhook_tests::{
    INACTIVITY_TIMEOUT, MINUTE, World, all_providers, database_down, down, generic, is_request_to, options,
};

use super::{fired, generic_event, ordinary_call};
use crate::outbound::{HOUR, call_request, create};

/// Declares the table of causes: name of the test, alarm, and what happens in a fresh world.
macro_rules! provoked {
    ($($test:ident: $alarm:literal, $secret:expr, |$world:ident| $cause:block)*) => {
        /// Alarms that are provoked here.
        pub(super) const ALARMS: &[&str] = &[$($alarm),*];

        $(
            #[tokio::test(start_paused = true)]
            async fn $test() {
                #[allow(unused_mut, reason = "some causes stop the stack, and most do not")]
                let mut $world = World::with_secret(&$secret);
                let start = $world.now();
                $cause
                let fired = fired(&$world, start);
                assert!(fired.contains_key($alarm), "{} did not fire; these did: {:?}", $alarm, fired.keys());
            }
        )*
    };
}

provoked! {
    webhook_that_cannot_be_read: "P1DeadLettersAlarm", all_providers(), |world| {
        world.post(Provider::Retell, "{not JSON").await;
        world.wait(MINUTE * 3).await;
    }
    bus_that_is_down_for_a_day: "P1RelayFailuresAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| (call.service == Service::EventBridge).then(down));
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.quiesce().await;
        world.skip(HOUR * 22).await;
        world.wait(MINUTE * 5).await;
    }
    table_of_calls_that_cannot_be_read: "P1EventsNotFoldedAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| (call.operation == "GetItem" && is_request_to(call, CALLS_TABLE)).then(down));
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.wait(MINUTE * 15).await;
    }
    bus_that_is_down: "P1RelayAgeAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| (call.service == Service::EventBridge).then(down));
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.wait(MINUTE * 15).await;
    }
    database_that_is_down: "P1HttpErrorRateAlarm", all_providers(), |world| {
        world.set_fault_hook(database_down);
        for number in 0..30 {
            world.post(Provider::Generic, &generic("c1", &format!("e{number}"), "RINGING", 1)).await;
            world.wait(MINUTE / 2).await;
        }
        world.clear_faults();
    }
    consumer_that_crashes: "P3FunctionErrorsAlarm", all_providers(), |world| {
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.quiesce().await;
        world.crash_at("PutItem", CALLS_TABLE);
        generic_event(&world, "c1", "e2", "ANSWERED").await;
        world.wait(MINUTE * 12).await;
        world.clear_faults();
    }
    table_that_the_schedules_cannot_read: "P2RunErrorsAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| (call.operation == "Query" && is_request_to(call, CALLS_TABLE)).then(down));
        world.wait(MINUTE * 12).await;
        world.clear_faults();
    }
    drift_check_that_fails_every_hour: "P2DriftCheckFailingAlarm", all_providers(), |world| {
        for _ in 0..4 {
            world.wait(MINUTE * 59).await;
            world.set_fault_hook(|call| (call.operation == "Query" && is_request_to(call, CALLS_TABLE)).then(down));
            assert!(world.cloud.check_drift().await.unwrap().is_err());
            world.clear_faults();
            world.wait(MINUTE).await;
        }
    }
    secret_with_a_typo: "P1SecretRefreshFailedAlarm", all_providers(), |world| {
        world = reading_secrets(world);
        world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, r#"{"generic": {"key": []}}"#);
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.wait(MINUTE * 6).await;
    }
    typo_in_both_versions_of_a_secret: "P1ProviderDisabledAlarm", all_providers(), |world| {
        world = reading_secrets(world);
        for _ in 0..2 {
            world.cloud.services().secrets_manager().put(WEBHOOK_KEYS_SECRET, r#"{"generic": {"key": []}}"#);
        }
        world.post(Provider::Generic, &generic("c1", "e1", "RINGING", 1)).await;
        world.wait(MINUTE * 6).await;
    }
    account_that_was_removed: "P2DialAccountMissingAlarm", all_providers(), |world| {
        world = reading_secrets(world);
        world.cloud.services().secrets_manager().put(DIAL_ACCOUNTS_SECRET, "{}");
        create(&world, &call_request("confirms")).await;
        world.wait(MINUTE * 6).await;
    }
    event_after_event_that_fails: "P3RetryRateAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| (call.operation == "GetItem" && is_request_to(call, CALLS_TABLE)).then(down));
        for number in 0..20 {
            generic_event(&world, &format!("c{number}"), &format!("e{number}"), "RINGING").await;
            world.wait(MINUTE).await;
        }
    }
    wrong_key: "P2RejectedWebhooksAlarm", all_providers(), |world| {
        for number in 0..50 {
            let body = generic("c1", &format!("e{number}"), "RINGING", 1);
            world.post_signed(Provider::Generic, "another key", "", body.as_bytes()).await;
            world.wait(MINUTE).await;
        }
    }
    provider_that_falls_silent: "P2FewWebhooksAlarm", all_providers(), |world| {
        for number in 0..60 {
            ordinary_call(&world, number).await;
            world.wait(MINUTE * 5).await;
        }
        world.wait(HOUR).await;
    }
    slow_table: "P2LatencyAlarm", all_providers(), |world| {
        world.set_fault_hook(|call| {
            let is_slow = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE);
            is_slow.then_some(Fault::Delay(std::time::Duration::from_millis(700)))
        });
        for number in 0..25 {
            generic_event(&world, &format!("c{number}"), &format!("e{number}"), "RINGING").await;
            world.wait(MINUTE).await;
        }
    }
    dialled_calls_without_any_report: "P2StuckDialingAlarm", all_providers(), |world| {
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        for _ in 0..10 {
            create(&world, &call_request("silent")).await;
            world.wait(MINUTE * 4).await;
        }
    }
    calls_that_never_end: "P2TimeoutsAlarm", all_providers(), |world| {
        for number in 0..60 {
            generic_event(&world, &format!("c{number}"), &format!("e{number}"), "RINGING").await;
            world.wait(MINUTE).await;
        }
        world.wait(INACTIVITY_TIMEOUT).await;
    }
    provider_that_may_be_asked_too_seldom: "P2RepairBehindAlarm", all_providers(), |world| {
        world.cloud.fake().set_delivery_faults(DeliveryFaults::ALL_LOST);
        create(&world, &call_request("confirms")).await;
        world.wait(MINUTE).await;
        // Other calls take all requests of each minute.
        world.set_fault_hook(|call| {
            let takes_requests = call.operation == "UpdateItem" && String::from_utf8_lossy(call.body).contains("taken_max");
            takes_requests.then(|| Fault::ErrorBefore { status: 400, code: "ConditionalCheckFailedException".to_owned() })
        });
        world.wait(INACTIVITY_TIMEOUT + HOUR).await;
    }
    numbers_that_do_not_exist: "P2DialRefusalsAlarm", all_providers(), |world| {
        for _ in 0..10 {
            create(&world, &call_request("invalid")).await;
            world.wait(MINUTE * 3).await;
        }
    }
    provider_that_is_down: "P2CircuitOpenAlarm", all_providers(), |world| {
        world.cloud.fake().set_down(true);
        for _ in 0..20 {
            create(&world, &call_request("confirms")).await;
            world.wait(MINUTE).await;
        }
    }
    answers_to_dials_that_are_lost: "P2DialInDoubtAlarm", all_providers(), |world| {
        for _ in 0..30 {
            create(&world, &call_request("response_lost")).await;
            world.wait(MINUTE).await;
        }
    }
    row_that_was_restored_from_before_its_dial: "P2DialledBeforeAlarm", all_providers(), |world| {
        let mut request = call_request("confirms");
        request["due_at"] = json!("2026-01-01T00:10:00Z");
        let call_id = create(&world, &request).await;
        let backup = world.item(CALLS_TABLE, &call_id).await;
        world.wait(HOUR).await;
        world.put_item(CALLS_TABLE, backup).await;
        world.wait(MINUTE * 6).await;
        assert_eq!(world.cloud.fake().dials().len(), 1);
    }
    dials_that_cannot_be_noted: "P2DialFailedAlarm", all_providers(), |world| {
        // The record of a call's creation must still be written.
        let is_creation = |call: &RequestInfo<'_>| String::from_utf8_lossy(call.body).contains("/created");
        world.set_fault_hook(move |call| {
            let is_note = call.operation == "PutItem" && is_request_to(call, INBOX_TABLE) && !is_creation(call);
            is_note.then(down)
        });
        for _ in 0..10 {
            create(&world, &call_request("confirms")).await;
            world.wait(MINUTE).await;
        }
        world.clear_faults();
    }
    claim_that_crashes_every_dialer: "P2DialQueueAgeAlarm", all_providers(), |world| {
        world.crash_at("GetItem", CALLS_TABLE);
        let claim = json!({
            "schema_version": 1, "trace_id": "t", "call_id": "call-1", "token": "t", "provider": "retell",
        });
        let claim = NewMessage {
            body: claim.to_string(),
            group: Some("retell-0".to_owned()),
            deduplication_id: Some("d".to_owned()),
            ..NewMessage::default()
        };
        world.cloud.services().sqs().send(DIAL_QUEUE, claim).unwrap();
        world.wait(MINUTE * 12).await;
        world.clear_faults();
    }
    row_that_cannot_be_read: "P2RelaySkippedAlarm", all_providers(), |world| {
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.quiesce().await;
        let mut row = world.item(CALLS_TABLE, "c1").await;
        row.insert("job".to_owned(), AttributeValue::S("GARBLED".to_owned()));
        row.insert("outbox_start".to_owned(), AttributeValue::N("2".to_owned()));
        world.put_item(CALLS_TABLE, row).await;
        world.wait(MINUTE * 3).await;
    }
    call_with_too_much_to_read: "P2RefoldLimitAlarm", all_providers(), |world| {
        for minute in 0..40 {
            let body = generic("c1", &format!("e{minute}"), "RINGING", minute * 60);
            world.accept(Provider::Generic, &body).await;
            world.wait(MINUTE).await;
        }
        world.alter_text("c1", "job", "FAILED").await;
        world.set_fault_hook(|call| {
            let is_slow = call.operation == "Query" && is_request_to(call, INBOX_TABLE);
            is_slow.then_some(Fault::Delay(std::time::Duration::from_millis(950)))
        });
        world.reconciler.check_drift("test").await.unwrap();
        world.wait(MINUTE * 3).await;
    }
    provider_without_a_dial_rate: "P2DialUnconfiguredAlarm", without_dial(), |world| {
        create(&world, &call_request("confirms")).await;
        world.wait(MINUTE * 45).await;
    }
    provider_that_repeats_everything: "P3DuplicatesAlarm", all_providers(), |world| {
        let body = generic("c1", "e1", "RINGING", 1);
        for _ in 0..50 {
            world.post(Provider::Generic, &body).await;
            world.post(Provider::Generic, &body).await;
            world.wait(MINUTE).await;
        }
    }
    events_that_contradict_their_calls: "P3IllegalTransitionsAlarm", all_providers(), |world| {
        // Both endings are legal after the ringing. The later one leads elsewhere, so it is refused.
        for number in 0..50 {
            for (event_type, second) in [("RINGING", 0), ("BUSY", 5), ("NO_ANSWER", 9)] {
                let body = generic(&format!("c{number}"), &format!("{event_type}-{number}"), event_type, second);
                world.accept(Provider::Generic, &body).await;
            }
            world.wait(MINUTE).await;
        }
    }
    row_that_differs_from_its_events: "P2DriftFoundAlarm", all_providers(), |world| {
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.quiesce().await;
        world.alter_text("c1", "job", "FAILED").await;
        world.cloud.check_drift().await.unwrap().unwrap();
        world.wait(MINUTE * 10).await;
    }
    one_id_with_two_bodies: "P2ConflictingBodyAlarm", all_providers(), |world| {
        generic_event(&world, "c1", "e1", "RINGING").await;
        world.post(Provider::Generic, &generic("c1", "e1", "BUSY", 1)).await;
        world.wait(MINUTE * 2).await;
    }
    one_id_for_every_call: "P2CallLimitAlarm", all_providers(), |world| {
        for number in 0..70 {
            generic_event(&world, "c1", &format!("e{number}"), "ANSWERED").await;
        }
        world.wait(MINUTE * 2).await;
    }
}

/// Replaces a world by one whose functions read the secrets.
fn reading_secrets(world: World) -> World {
    drop(world);
    let mut world = World::with_options(CloudOptions { reads_secrets: true, ..options(&all_providers()) });
    world.start();
    world
}

/// The secret of a stack that may receive webhooks, and place no calls.
fn without_dial() -> Value {
    let mut secret = all_providers();
    secret["retell"] = json!({"keys": secret["retell"]["keys"]});
    secret
}
