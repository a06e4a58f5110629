//! Sizes of rows: a typical call is small, and a full one fits into an item.

use serde_dynamo::AttributeValue;
use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{
    ATTEMPT_EVENTS_MAX, AttemptKey, CALL_ATTEMPTS_MAX, Call, EventKind, TRACED_ENTRIES_MAX, TraceId, fold,
};
use switchhook_local::CALLS_TABLE;
use switchhook_providers::ID_BYTES_MAX;
use switchhook_tests::{INACTIVITY_TIMEOUT, Item, KEY, MINUTE, World};

use super::{POLICY, provider_event, store};
use crate::traffic::{at, retell_call, twilio_call};

/// Largest item that DynamoDB accepts: 400 KB.
const ITEM_BYTES_MAX: usize = 400 * 1_024;

/// The size of an item in bytes, as DynamoDB counts it.
fn bytes_of(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + bytes_of_value(value)).sum()
}

fn bytes_of_value(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.len(),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::L(list) => 3 + list.iter().map(|value| 1 + bytes_of_value(value)).sum::<usize>(),
        AttributeValue::M(map) => {
            3 + map.iter().map(|(name, value)| 1 + name.len() + bytes_of_value(value)).sum::<usize>()
        }
        AttributeValue::Ss(set) => set.iter().map(String::len).sum(),
        AttributeValue::Ns(set) => set.iter().map(|number| number.len().div_ceil(2) + 1).sum(),
        AttributeValue::Bs(set) => set.iter().map(Vec::len).sum(),
    }
}

#[tokio::test(start_paused = true)]
async fn settled_row_of_a_typical_call_costs_one_write_unit() {
    for (what, webhooks) in [("twilio", twilio_call(1, true)), ("retell", retell_call(1, 12, 2))] {
        let world = World::new();
        for webhook in &webhooks {
            let body = webhook.body.as_bytes();
            drop(world.post_signed(webhook.provider, KEY, &webhook.query, body).await);
            world.quiesce().await;
        }
        world.wait(INACTIVITY_TIMEOUT + MINUTE * 3).await;
        let rows = world.items(CALLS_TABLE).await;
        assert_eq!(rows.len(), 1);
        println!(
            "{what}: {} bytes, {} of them history, {} announcements",
            bytes_of(&rows[0]),
            bytes_of_value(&rows[0]["history"]),
            bytes_of_value(&rows[0]["announcements"])
        );
        assert!(bytes_of(&rows[0]) <= 1_024, "{what}: {} bytes", bytes_of(&rows[0]));
    }
}

/// A call with the highest number of attempts and events, and with ids of this length. It also has as many events
/// without an attempt as it can hold. The events are of these kinds in turn. With `deadlines`, the inactivity timeout ends after every event.
/// Each event has the longest trace id.
fn full_call(id_bytes: usize, kinds: &[EventKind], deadlines: bool) -> Call {
    let long = |text: String| format!("{text:x<id_bytes$}");
    let call_id = long("call-".to_owned());
    let trace_id = TraceId::new(&"t".repeat(TraceId::BYTES_MAX));
    let mut call = None;
    let mut second = 0;
    let attempts = (0..CALL_ATTEMPTS_MAX).map(Some).chain([None]);
    for attempt in attempts {
        for number in 0..ATTEMPT_EVENTS_MAX {
            let kind = kinds[number % kinds.len()];
            let key = attempt.map(|attempt| long(format!("attempt-{attempt:02}-")));
            let mut event = provider_event(&call_id, &long(format!("generic:{attempt:?}-{number:02}-")), kind, second);
            event.provider_call_id = key.as_ref().map(|_| long(format!("provider-call-{attempt:?}-")));
            event.appointment_id = Some(long("appointment-".to_owned()));
            event.attempt = key.map(AttemptKey::new);
            event.call_events[0].sequence = Some(u32::MAX);
            event.trace_id.clone_from(&trace_id);
            let folded = fold(call.as_ref(), &[event], &POLICY, at(second));
            call = folded.transition.map(|it| it.call).or(call);
            second += 1_000;
            if deadlines && let Some(before) = &call {
                let mut passed = before.deadline_passed_events(&POLICY, at(second));
                passed.iter_mut().for_each(|event| event.trace_id.clone_from(&trace_id));
                call = fold(Some(before), &passed, &POLICY, at(second)).transition.map(|it| it.call).or(call);
            }
        }
    }
    Call { version: 1, ..call.unwrap() }
}

#[tokio::test(start_paused = true)]
async fn row_of_a_full_call_fits_into_an_item() {
    let events_max = (CALL_ATTEMPTS_MAX + 1) * ATTEMPT_EVENTS_MAX;
    let all = &EventKind::ALL[..EventKind::ALL.len() - 7];
    for (what, id_bytes, kinds, deadlines) in [
        ("ids of Twilio's length", 52, all, false),
        ("ids of Twilio's length, silent after every event", 52, all, true),
        // No attempt ends, so each event without an attempt gives each attempt another deadline.
        ("ids as long as they can be, silent after every event", ID_BYTES_MAX, &[EventKind::Ringing][..], true),
    ] {
        let world = World::stopped();
        let call = full_call(id_bytes, kinds, deadlines);
        let provider_events = call.history.iter().filter(|entry| entry.event.kind != EventKind::DeadlinePassed).count();
        assert_eq!(provider_events, events_max, "{what}");
        // The row would have no room for the trace ids of all entries.
        let traced = call.history.iter().filter(|entry| entry.trace_id.is_some()).count();
        assert_eq!(traced, TRACED_ENTRIES_MAX, "{what}");
        assert_eq!(store(&world, &call).await, StoreOutcome::Committed, "{what}");
        assert_eq!(world.call(call.call_id.as_str()).await, call, "{what}");
        let bytes = bytes_of(&world.items(CALLS_TABLE).await[0]);
        println!("full call, {what}: {bytes} bytes, {} deadlines", call.history.len() - provider_events);
        assert!(bytes < ITEM_BYTES_MAX, "{what}: {bytes} bytes");
    }
}
