//! The inbox: events, conflicting bodies, the cursor of the sweep, notes, and the expiry of every item.

use std::collections::BTreeMap;

use serde_dynamo::AttributeValue;
use switchhook_aws::Error;
use switchhook_aws::inbox::{
    NewEvent, Note, PutOutcome, ReceivedEvent, Reread, SweepCursor, SweepPosition, creation_id,
};
use switchhook_domain::{CallId, Disposition, EventId, EventKind, Origin, Provider, StopReason, Timestamp};
use switchhook_local::{CALLS_TABLE, INBOX_TABLE};
use switchhook_providers::{ProvidersFile, UserDecision};
use switchhook_tests::{Item, MINUTE, World, generic};

use super::provider_event;
use crate::repair::post_folded;
use crate::traffic::{at, noise};

fn new_event(event_id: &str, body: &str) -> NewEvent {
    NewEvent {
        event_id: EventId::new(event_id),
        call_id: Some(CallId::new("c1")),
        origin: Origin::Provider(Provider::Generic),
        event_type: "RINGING".to_owned(),
        occurred_at: None,
        received_at: at(0),
        query: String::new(),
        body: body.as_bytes().to_vec(),
        key_index: 0,
        headers: BTreeMap::new(),
        disposition: None,
        reading: None,
        decision: None,
        cause: None,
        trace_id: "t".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn event_is_kept_once_and_what_stands_there_comes_back() {
    let world = World::stopped();
    let first = new_event("generic:e1", "{\"first\":true}");
    assert!(matches!(world.inbox.put(&first).await.unwrap(), PutOutcome::Stored));
    let item = world.item(INBOX_TABLE, "generic:e1").await;
    for (body, same) in [("{\"first\":true}", true), ("{ \"first\" : true }", true), ("{\"first\":false}", false)] {
        let again = NewEvent { received_at: at(99), trace_id: "u".to_owned(), ..new_event("generic:e1", body) };
        let PutOutcome::Duplicate { stored, same_content } = world.inbox.put(&again).await.unwrap() else {
            panic!("the event was stored twice");
        };
        assert_eq!((same_content, stored.received_at, stored.trace_id.as_str()), (same, at(0), "t"));
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), first.body);
        assert_eq!(world.item(INBOX_TABLE, "generic:e1").await, item);
    }
}

/// A booking can be restored, so its reason gives way to the others. That the user canceled the call stays known for good.
#[tokio::test(start_paused = true)]
async fn later_reason_of_a_stop_replaces_only_a_weaker_one() {
    use StopReason::{BookingChanged, CanceledByUser, DialsUnknown};
    let world = World::stopped();
    for (first, second, kept) in [
        (BookingChanged, CanceledByUser, CanceledByUser),
        (BookingChanged, DialsUnknown, DialsUnknown),
        (CanceledByUser, BookingChanged, CanceledByUser),
        (CanceledByUser, DialsUnknown, CanceledByUser),
        (DialsUnknown, BookingChanged, DialsUnknown),
        (DialsUnknown, CanceledByUser, CanceledByUser),
    ] {
        let call_id = CallId::new(format!("{}-{}", first.as_str(), second.as_str()));
        for reason in [first, second, second] {
            world.inbox.record_cancellation(&call_id, reason, None, world.now()).await.unwrap();
        }
        assert_eq!(world.inbox.dial_records(&call_id).await.unwrap().canceled, Some(kept), "{call_id}");
    }
}

#[tokio::test(start_paused = true)]
async fn decision_of_a_rule_counts_whenever_the_event_is_read_again() {
    let world = World::stopped();
    let body = r#"{"event": "call_analyzed", "call": {"call_id": "p1", "call_status": "ended",
        "disconnection_reason": "user_hangup", "start_timestamp": 1760962400000, "end_timestamp": 1760962440000}}"#;
    for (id, disposition) in
        [("retell:e1", None), ("retell:e2", Some(Disposition::Recorded)), ("retell:e3", Some(Disposition::Quarantined))]
    {
        let decision = Some(UserDecision::Declined);
        let origin = Origin::Provider(Provider::Retell);
        let event = NewEvent { origin, disposition, decision, ..new_event(id, body) };
        assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
        let stored = world.inbox.get(&event.event_id).await.unwrap().unwrap();
        let Reread::Foldable(event) = world.inbox.make_foldable(&stored, None).await.unwrap() else { panic!("{id}") };
        assert!(event.call_events.iter().any(|event| event.kind == EventKind::UserDeclined), "{:?}", event.call_events);
        assert!(world.inbox.erase(&event.event_id, at(9)).await.unwrap());
        assert!(!world.item(INBOX_TABLE, id).await.contains_key("decision"));
    }
}

/// An operator has an event read again. Since it was read, another operator stored a decision, or the person was forgotten.
#[tokio::test(start_paused = true)]
async fn decision_is_added_to_no_event_that_has_one_or_is_erased() {
    let world = World::stopped();
    let body = r#"{"event": "call_analyzed", "call": {"call_id": "p1", "call_status": "ended",
        "disconnection_reason": "user_hangup", "start_timestamp": 1760962400000, "end_timestamp": 1760962440000,
        "call_analysis": {"custom_analysis_data": {"will_come": "yes"}}}}"#;
    let file = |confirmed: &str, declined: &str| {
        let pointer = "/call/call_analysis/custom_analysis_data/will_come";
        let rule = serde_json::json!({"pointer": pointer, "confirmed": [confirmed], "declined": [declined]});
        let entry = serde_json::json!({"keys": [switchhook_tests::KEY], "decision": rule});
        ProvidersFile::from_json(&serde_json::json!({"retell": entry}).to_string()).unwrap()
    };
    let (one, other) = (file("yes", "no"), file("no", "yes"));
    let (one, other) =
        (one.webhook_keys().config(Provider::Retell).unwrap(), other.webhook_keys().config(Provider::Retell).unwrap());
    for is_erased in [false, true] {
        let id = format!("retell:{is_erased}");
        let event = NewEvent { origin: Origin::Provider(Provider::Retell), ..new_event(&id, body) };
        assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
        let read = world.inbox.get(&event.event_id).await.unwrap().unwrap();
        if is_erased {
            assert!(world.inbox.erase(&event.event_id, at(9)).await.unwrap());
        } else {
            drop(world.inbox.make_foldable(&read, Some(one)).await.unwrap());
        }
        drop(world.inbox.make_foldable(&read, Some(other)).await.unwrap());
        let decision = world.item(INBOX_TABLE, &id).await.get("decision").cloned();
        assert_eq!(decision, (!is_erased).then(|| AttributeValue::S("confirmed".to_owned())), "{id}");
    }
}

/// The webhooks are three hours late, or the clock of their sender is three hours ahead. The row has lost the second one.
#[tokio::test(start_paused = true)]
async fn event_that_arrived_hours_from_the_start_of_its_attempt_is_found_without_the_row() {
    let world = World::stopped();
    world.wait(MINUTE * 180).await;
    for (call, second) in [("late", 0), ("ahead", 6 * 60 * 60)] {
        post_folded(&world, call, &format!("{call}-1"), "RINGING", second).await;
        let row = world.call(call).await;
        let lost = post_folded(&world, call, &format!("{call}-2"), "ANSWERED", second + 20).await;
        let events = world.inbox.events_of_call(&row, world.now()).await.unwrap().unwrap();
        assert!(events.iter().any(|event| event.event_id == lost), "{call}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_before_there_was_a_dictionary_is_read_and_one_of_a_later_dictionary_waits() {
    let world = World::stopped();
    let body = r#"{"event_id":"e1","type":"RINGING","call_id":"c1"}"#;
    let event = new_event("generic:e1", body);
    assert!(matches!(world.inbox.put(&event).await.unwrap(), PutOutcome::Stored));
    let mut item = world.item(INBOX_TABLE, "generic:e1").await;
    assert_eq!(
        item.insert("dictionary".to_owned(), AttributeValue::N("2".to_owned())),
        Some(AttributeValue::N("1".to_owned()))
    );
    world.put_item(INBOX_TABLE, item.clone()).await;
    // This program does not have dictionary 2.
    let later = world.inbox.get(&event.event_id).await.unwrap().unwrap();
    assert!(matches!(world.inbox.read_body(&later).await, Err(Error::NewerSchema(2))));

    // The body, compressed with zstd without a dictionary.
    let frame = "28b52ffd20318901007b226576656e745f6964223a226531222c2274797065223a2252494e47494e47222c2263616c6c5f6964223a226331227d";
    let bytes = (0..frame.len()).step_by(2).map(|at| u8::from_str_radix(&frame[at..at + 2], 16).unwrap());
    item.insert("body".to_owned(), AttributeValue::B(bytes.collect()));
    item.remove("dictionary");
    world.put_item(INBOX_TABLE, item).await;
    let before = world.inbox.get(&event.event_id).await.unwrap().unwrap();
    assert_eq!(world.inbox.read_body(&before).await.unwrap(), body.as_bytes());
    let PutOutcome::Duplicate { same_content, .. } = world.inbox.put(&event).await.unwrap() else {
        panic!("the event was stored twice")
    };
    assert!(same_content);
}

#[tokio::test(start_paused = true)]
async fn one_conflicting_body_is_kept() {
    let world = World::stopped();
    assert!(world.inbox.put_conflict(&new_event("generic:e1", "second")).await.unwrap());
    assert!(!world.inbox.put_conflict(&new_event("generic:e1", "third")).await.unwrap());
    assert!(world.inbox.put_conflict(&new_event("generic:e2", "other")).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn cursor_of_the_sweep_moves_from_where_it_was_read() {
    let world = World::stopped();
    let inbox = &world.inbox;
    assert_eq!(inbox.sweep_cursor().await.unwrap(), None);
    let at = |minute| SweepCursor { minute, left: BTreeMap::new() };
    assert!(!inbox.advance_sweep_cursor(Some(4), &at(5)).await.unwrap(), "there is no cursor yet");
    assert!(inbox.advance_sweep_cursor(None, &at(5)).await.unwrap());
    assert!(!inbox.advance_sweep_cursor(None, &at(6)).await.unwrap(), "another sweep has created the cursor");
    assert!(!inbox.advance_sweep_cursor(Some(4), &at(6)).await.unwrap(), "another sweep has advanced the cursor");
    assert!(inbox.advance_sweep_cursor(Some(5), &at(6)).await.unwrap());
    assert_eq!(inbox.sweep_cursor().await.unwrap(), Some(at(6)));
}

#[tokio::test(start_paused = true)]
async fn worker_of_the_sweep_moves_only_the_position_of_a_shard_that_was_left() {
    let world = World::stopped();
    let inbox = &world.inbox;
    assert!(!inbox.set_sweep_position(1, &SweepPosition::start_of(5)).await.unwrap(), "there is no cursor yet");
    let left = BTreeMap::from([(1, SweepPosition::start_of(5)), (12, SweepPosition::start_of(3))]);
    let cursor = SweepCursor { minute: 5, left };
    assert!(inbox.advance_sweep_cursor(None, &cursor).await.unwrap());
    assert_eq!(cursor.swept_minute(), 2);
    assert!(!inbox.set_sweep_position(2, &SweepPosition::start_of(6)).await.unwrap(), "the shard was not left");
    let received = ReceivedEvent {
        event_id: EventId::new("generic:e"),
        call_id: None,
        received_at: Timestamp::from_millis(240_000),
        decided: false,
    };
    let start = Some(received.start_key_after(4, 12).unwrap());
    let position = SweepPosition { minute: 4, start };
    assert!(inbox.set_sweep_position(12, &position).await.unwrap());
    assert!(inbox.set_sweep_position(1, &SweepPosition::start_of(6)).await.unwrap());
    let stored = inbox.sweep_cursor().await.unwrap().unwrap();
    let left = BTreeMap::from([(1, SweepPosition::start_of(6)), (12, position)]);
    assert_eq!(stored, SweepCursor { minute: 5, left });
    assert_eq!((stored.swept_minute(), stored.shards_behind().collect::<Vec<_>>()), (3, vec![12]));
}

#[tokio::test(start_paused = true)]
async fn note_reads_back_as_it_was_written_and_the_last_one_stands() {
    let world = World::stopped();
    let event = provider_event("c1", "generic:e1", EventKind::Ringing, 0);
    let id = &event.event_id;
    assert_eq!(world.inbox.get_note(id).await.unwrap(), None);
    let notes = [
        Note {
            attempts: 3,
            error: Some("could not read the call".to_owned()),
            cause: Some("read_call".to_owned()),
            first_tried_at: Some(at(1)),
            next_retry_at: Some(at(5)),
            waits: true,
            dead_lettered_at: None,
            discarded_at: None,
            disposition: None,
        },
        Note { attempts: 20, dead_lettered_at: Some(at(6)), ..Note::default() },
        Note { attempts: 20, dead_lettered_at: Some(at(6)), discarded_at: Some(at(7)), ..Note::default() },
        Note { disposition: Some(Disposition::Refused), ..Note::default() },
    ];
    for note in notes {
        world.inbox.put_note(&event, &note, at(0)).await.unwrap();
        assert_eq!(world.inbox.get_note(id).await.unwrap(), Some(note));
    }
}

/// A consumer that is slow notes a failure after another one has decided against folding the event.
#[tokio::test(start_paused = true)]
async fn note_on_a_failure_replaces_no_decision() {
    let world = World::new();
    let event = provider_event("c1", "generic:e1", EventKind::Ringing, 0);
    world.inbox.put_note(&event, &Note::no_call(), at(0)).await.unwrap();
    let failure = Note { attempts: 1, next_retry_at: Some(at(5)), ..Note::default() };
    world.inbox.put_note(&event, &failure, at(1)).await.unwrap();
    assert_eq!(world.inbox.get_note(&event.event_id).await.unwrap(), Some(Note::no_call()));
}

#[tokio::test(start_paused = true)]
async fn everything_stored_knows_when_it_may_be_removed() {
    let world = World::new();
    let large = serde_json::json!({"event_id": "large", "type": "RINGING", "call_id": "c1", "noise": noise(500_000)})
        .to_string();
    world.accept(Provider::Generic, &large).await;
    world.accept(Provider::Generic, &generic("c1", "e1", "RINGING", 0)).await;
    drop(world.post(Provider::Generic, &generic("c1", "e1", "BUSY", 0)).await);
    world.quiesce().await;
    let event = provider_event("c1", "generic:e1", EventKind::Ringing, 0);
    world.inbox.put_note(&event, &Note::default(), world.now()).await.unwrap();

    let days = |item: &Item| match item.get("expires_at") {
        Some(AttributeValue::N(seconds)) => (seconds.parse::<i64>().unwrap() - at(0).as_millis() / 1_000) / 86_400,
        other => panic!("{other:?} in {:?}", item.keys()),
    };
    let inbox = world.items(INBOX_TABLE).await;
    assert!(inbox.len() > 5, "the inbox must hold events, chunks, a conflict and a note");
    assert!(inbox.iter().all(|item| days(item) == 30));
    assert!(world.items(CALLS_TABLE).await.iter().all(|item| days(item) == 400));

    // A call that is due in a year expires after its due time.
    let request = serde_json::json!({
        "provider": "retell", "from": "+15550100", "to": "+15550199", "due_at": "2026-12-31T00:00:00Z",
    });
    let call_id = crate::outbound::create(&world, &request).await;
    assert_eq!(days(&world.item(CALLS_TABLE, &call_id).await), 364 + 400);
    // The records of its creation and of its cancellation are kept as long. The second one outlives the continuous backups.
    let creation = creation_id(&CallId::new(&call_id));
    assert_eq!(days(&world.item(INBOX_TABLE, creation.as_str()).await), 364 + 30);
    let cancel = format!("/call/cancel?id={call_id}");
    let (code, _) = crate::outbound::send(&world, "POST", &cancel, None, &serde_json::Value::Null).await;
    assert_eq!(code, http::StatusCode::OK);
    assert_eq!(days(&world.item(INBOX_TABLE, &format!("dials:{call_id}")).await), 364 + 43);
}

/// Otherwise, the record could outlive the row, and a request with the key of the call would find it.
#[tokio::test(start_paused = true)]
async fn repeated_cancellation_is_kept_no_longer_than_the_first() {
    let world = World::stopped();
    let request = serde_json::json!({
        "provider": "retell", "from": "+15550100", "to": "+15550199", "due_at": "2026-01-01T01:00:00Z",
    });
    let call_id = crate::outbound::create(&world, &request).await;
    let cancel = async || {
        let path = format!("/call/cancel?id={call_id}");
        let (code, _) = crate::outbound::send(&world, "POST", &path, None, &serde_json::Value::Null).await;
        assert_eq!(code, http::StatusCode::OK);
        world.item(INBOX_TABLE, &format!("dials:{call_id}")).await
    };
    let first = cancel().await;
    world.wait(MINUTE * 60 * 24 * 10).await;
    assert_eq!(cancel().await, first);
}
