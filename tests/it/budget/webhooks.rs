//! Requests and capacity units that one webhook costs, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use switchhook_domain::Provider;
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World};

use super::{consume, generic_webhook, index_writes, post, request_counts, reset_counters};
use crate::traffic::{
    CONVERSATIONS, Webhook, dense_body, retell_call, retell_ended, retell_ended_unrepeated, twilio_call,
};

fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1_024.0
}

/// Write units of the inbox and of its index that each of these webhooks costs. They belong to different calls.
async fn ingress_units(webhooks: &[Webhook]) -> Vec<(f64, f64)> {
    let world = World::stopped();
    let mut units = Vec::new();
    for webhook in webhooks {
        reset_counters(&world);
        assert_eq!(post(&world, webhook).await, "accepted", "{}", webhook.name);
        assert_eq!(world.requests(), request_counts(&[("PutItem", 1), ("SendMessage", 1)]), "{}", webhook.name);
        let put = world.capacity()["PutItem"];
        units.push((put.write_units, put.index_write_units));
    }
    units
}

#[tokio::test(start_paused = true)]
async fn accepted_event_costs_one_write_and_one_message() {
    let many = |make: fn(u64) -> Webhook| (0..40).map(make).collect::<Vec<_>>();
    let at = |event: usize| move |number| retell_call(number, 0, 0).swap_remove(event);
    let kinds: Vec<(&str, Vec<Webhook>, f64)> = vec![
        ("retell, 4 KB, word by word", many(|n| retell_ended(n, 3_900, 2)), 2.0),
        ("retell, 5 KB, word by word", many(|n| retell_ended(n, 5_120, 2)), 2.0),
        ("retell, 5 KB, word by word twice", many(|n| retell_ended(n, 5_120, 3)), 2.0),
        ("retell, 5 KB, text alone", many(|n| retell_ended(n, 5_120, 1)), 2.0),
        // Retell never sends such a body: its transcripts always repeat the text word by word.
        ("retell, 5 KB, text alone without repetition", many(|n| retell_ended_unrepeated(n, 5_120)), 3.0),
        ("retell, 10 KB, word by word", many(|n| retell_ended(n, 10_240, 2)), 3.0),
        ("retell, 20 KB, word by word twice", many(|n| retell_ended(n, 20_480, 3)), 4.0),
        ("retell, 50 KB, word by word twice", many(|n| retell_ended(n, 51_200, 3)), 7.0),
        ("retell, 5 KB, text that does not repeat", many(|n| dense_body(n, 5_120)), 3.0),
        ("retell, call started", (0..40).map(at(0)).collect(), 1.0),
        ("twilio, ringing", many(|n| twilio_call(n, true).swap_remove(1)), 1.0),
        ("twilio, amd", many(|n| twilio_call(n, true).swap_remove(3)), 1.0),
        ("generic", many(|n| generic_webhook(&format!("c{n}"), &format!("e{n}"), "RINGING")), 1.0),
    ];
    for (kind, webhooks, units_max) in kinds {
        let units = ingress_units(&webhooks).await;
        let bytes: usize = webhooks.iter().map(|webhook| webhook.body.len()).sum();
        let mean = units.iter().map(|(table, _)| table).sum::<f64>() / units.len() as f64;
        let most = units.iter().map(|(table, _)| *table).fold(0.0, f64::max);
        println!(
            "{kind}: {:.1} KB, write units {mean:.2} on average, {most} at most",
            kilobytes(bytes) / webhooks.len() as f64
        );
        assert!(most <= units_max, "{kind}: {most} write units");
        assert!(
            units.iter().all(|(_, index)| *index == 1.0),
            "{kind}: each event must cost one write unit of the index"
        );
    }
}

/// The words of a text in lower case, without punctuation.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[test]
fn conversations_of_the_tests_are_none_that_the_dictionary_learned_from() {
    let dictionary = words(include_str!("../../../shared/aws/src/dictionary-1.txt"));
    for sentence in CONVERSATIONS.concat() {
        for five in words(sentence).windows(5) {
            assert!(!dictionary.windows(5).any(|known| known == five), "{five:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_costs_one_refused_write_and_one_message() {
    let world = World::stopped();
    let twice = retell_ended(1, 5_120, 2);
    post(&world, &twice).await;
    for pause in [1, 400] {
        world.wait(Duration::from_secs(pause)).await;
        reset_counters(&world);
        assert_eq!(post(&world, &twice).await, "already_processed");
        assert_eq!(world.requests(), request_counts(&[("PutItem", 1), ("SendMessage", 1)]));
        let put = world.capacity()["PutItem"];
        assert!(put.write_units <= 2.0, "{put:?}");
        assert_eq!((put.index_write_units, put.read_units), (0.0, 0.0));
    }
    // An event that is never folded is never queued again.
    let recorded = generic_webhook("c1", "e1", "SOMETHING_ELSE");
    assert_eq!(post(&world, &recorded).await, "recorded");
    reset_counters(&world);
    assert_eq!(post(&world, &recorded).await, "already_processed");
    assert_eq!(world.requests(), request_counts(&[("PutItem", 1)]));
}

#[tokio::test(start_paused = true)]
async fn recorded_event_costs_one_write() {
    let world = World::stopped();
    assert_eq!(post(&world, &generic_webhook("c1", "e1", "SOMETHING_ELSE")).await, "recorded");
    assert_eq!(world.requests(), request_counts(&[("PutItem", 1)]));
}

#[tokio::test(start_paused = true)]
async fn refused_request_costs_nothing() {
    let world = World::stopped();
    let webhook = retell_ended(1, 5_120, 2);
    let (code, _) = world.post_signed(Provider::Retell, "other", "", webhook.body.as_bytes()).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);
    assert_eq!((world.requests(), world.capacity()), (BTreeMap::new(), BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn batch_costs_one_read_together_and_one_write_for_each_of_its_calls() {
    let world = World::stopped();
    // Ten messages of three calls.
    for (number, count) in [(1, 5), (2, 3), (3, 2)] {
        for webhook in twilio_call(number, true).into_iter().take(count) {
            post(&world, &webhook).await;
        }
    }
    reset_counters(&world);
    let received = world.receive();
    assert_eq!(received.len(), 10);
    assert_eq!(world.invoke_consumer(&received).await.len(), 10);
    assert_eq!(world.requests(), request_counts(&[("BatchGetItem", 1), ("PutItem", 3)]));

    world.wait(MINUTE).await;
    let again = world.receive();
    assert_eq!(world.consume(&again).await, 10);
    // A message that is received twice may have a note from its first failure, which is taken out of the index.
    let again = request_counts(&[("BatchGetItem", 1), ("UpdateItem", 10)]);
    assert_eq!(world.requests(), again, "duplicates must cause no write of a call");
}

/// Write units of the calls table and of its indexes that each webhook of a call costs. Each is consumed in its own
/// batch.
async fn writes_along(webhooks: &[Webhook]) -> Vec<(f64, f64)> {
    let world = World::stopped();
    let mut writes = Vec::new();
    for webhook in webhooks {
        assert_eq!(post(&world, webhook).await, "accepted");
        reset_counters(&world);
        consume(&world).await;
        assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 1)]), "{}", webhook.name);
        let capacity = world.capacity();
        assert!(capacity["GetItem"].read_units == 1.0, "a consistent read of up to 4 KB: {capacity:?}");
        writes.push((capacity["PutItem"].write_units, capacity["PutItem"].index_write_units));
        world.wait(Duration::from_secs(10)).await;
    }
    writes
}

#[tokio::test(start_paused = true)]
async fn write_of_a_typical_call_costs_at_most_two_units_over_its_whole_life() {
    let kinds = [
        ("retell", retell_call(1, 12, 2)),
        ("twilio with an appointment", twilio_call(1, true)),
        ("twilio without one", twilio_call(1, false)),
    ];
    for (kind, webhooks) in kinds {
        let writes = writes_along(&webhooks).await;
        println!("{kind}: (table, indexes) {writes:?}");
        assert!(writes.iter().all(|(table, _)| *table <= 2.0), "{kind}: {writes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wake_index_is_written_when_a_call_begins_and_when_it_is_settled_and_not_for_its_events() {
    // No outcome is reported, so this call waits for the end of the inactivity timeout. It has no appointment, so the index
    // of appointments is not written.
    let world = World::stopped();
    let mut of_events = Vec::new();
    let words = ["CALL_STARTED", "RINGING", "ANSWERED", "ENDED"];
    for (number, word) in words.into_iter().enumerate() {
        let webhook = generic_webhook("c0", &format!("e{number}"), word);
        post(&world, &webhook).await;
        reset_counters(&world);
        consume(&world).await;
        of_events.push(world.capacity()["PutItem"].index_write_units);
        world.wait(Duration::from_secs(10)).await;
    }
    assert_eq!(of_events, [1.0, 0.0, 0.0, 0.0], "the index must be written once, with the call");

    // The call's index entry still has the first wake-up time. Events have arrived since, so the first run moves the
    // entry to a later time.
    world.wait(INACTIVITY_TIMEOUT - Duration::from_secs(35)).await;
    reset_counters(&world);
    let first = world.reconciler.run("test").await.unwrap();
    assert_eq!((first.rescheduled, first.deadlines_passed), (1, 0));
    assert_eq!(index_writes(&world), 2.0, "the old index entry is deleted and a new one written");
    world.wait(MINUTE).await;
    let second = world.reconciler.run("test").await.unwrap();
    assert_eq!((second.rescheduled, second.deadlines_passed), (0, 1));
    assert_eq!(index_writes(&world), 1.0, "only the index of the inbox is written");
    consume(&world).await;
    assert_eq!(index_writes(&world), 2.0, "the call moves to the settled calls, its third change in the index");

    // Twilio reports no outcome beyond the answer, so the call is settled by its ending.
    let writes = writes_along(&twilio_call(1, false)).await;
    // The first write also puts the number of the other person into its index.
    assert_eq!(writes.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [2.0, 0.0, 0.0, 0.0, 2.0]);

    // A call whose ending implies its outcome is settled at once.
    let writes = writes_along(&[
        generic_webhook("c1", "e1", "CALL_STARTED"),
        generic_webhook("c1", "e2", "RINGING"),
        generic_webhook("c1", "e3", "NO_ANSWER"),
    ])
    .await;
    assert_eq!(writes.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [1.0, 0.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn relay_sends_ten_domain_events_at_a_time() {
    let world = World::stopped();
    for number in 0..12 {
        post(&world, &generic_webhook(&format!("c{number}"), &format!("e{number}"), "RINGING")).await;
    }
    consume(&world).await;
    consume(&world).await;
    reset_counters(&world);
    world.relay().await;
    assert_eq!(world.domain_events().len(), 24);
    assert_eq!(world.requests(), request_counts(&[("PutEvents", 3)]));
    world.relay().await;
    assert_eq!(world.requests(), BTreeMap::new());
}
