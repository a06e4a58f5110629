//! Authentic webhooks that cannot be read are quarantined.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_domain::{EventId, Provider};
use switchhook_local::EVENTS_DEAD_LETTER_QUEUE;
use switchhook_local::connector::Fault;
use switchhook_tests::{KEY, World};

use super::{OK, answer, id_of, storage_failure};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_kept_and_reported_once() {
    let no_call_id = json!({"event_id": "e1", "type": "ANSWERED"}).to_string();
    let no_retell_id = json!({"event": "call_ended", "call": {"call_status": "ended"}}).to_string();
    let cases: [(Provider, &str, &[u8], &str); 9] = [
        (Provider::Retell, "invalid JSON", b"{\"event\":\"call_ended\",", "the body is not JSON at line 1, column 22"),
        (Provider::Generic, "invalid JSON", b"hello", "the body is not JSON at line 1, column 1"),
        (Provider::Retell, "invalid UTF-8", b"{\"event\":\"\xff\xfe\"}", "the body is not UTF-8"),
        (Provider::Generic, "invalid UTF-8", b"\xc3\x28", "the body is not UTF-8"),
        (Provider::Retell, "no call id", no_retell_id.as_bytes(), "the event names no call"),
        (Provider::Generic, "no call id", no_call_id.as_bytes(), "the event names no call"),
        (Provider::Twilio, "no call id", b"CallStatus=ringing&SequenceNumber=1", "the event names no call"),
        (Provider::Retell, "empty", b"", "the body is not JSON at line 1, column 0"),
        (Provider::Generic, "empty", b"", "the body is not JSON at line 1, column 0"),
    ];
    for (provider, what, body, reason) in cases {
        let world = World::new();
        let case = format!("{provider}, {what}");
        let (code, answered) = world.post_signed(provider, KEY, "", body).await;
        assert_eq!((code, &answered["status"]), (OK, &json!("quarantined")), "{case}: {answered}");
        let id = EventId::new(id_of(&answered));

        let notices: Vec<Value> = world.dead_letters();
        assert_eq!(notices.len(), 1, "{case}");
        let notice = json!([notices[0]["quarantined"], notices[0]["reason"], notices[0]["schema_version"]]);
        assert_eq!(notice, json!([id, reason, 1]), "{case}");
        let stored = world.inbox.get(&id).await.unwrap().unwrap();
        assert_eq!(world.inbox.read_body(&stored).await.unwrap(), body, "{case}: the body must be stored as it came");
        assert_eq!(world.queued(), [] as [Value; 0], "{case}");

        let again = world.post_signed(provider, KEY, "", body).await;
        assert_eq!(again, answer("already_processed", id.as_str()), "{case}");
        // No later sweep queues or reports the event again.
        world.wait(Duration::from_secs(600)).await;
        assert_eq!(world.dead_letters().len(), 1, "{case}");
        let status = world.status(&id).await;
        assert_eq!(
            json!([status["status"], status["disposition"], status["attempts"], status["processed_at"]]),
            json!(["quarantined", "quarantined", 0, null]),
            "{case}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_not_acknowledged_before_it_was_reported() {
    let world = World::new();
    world.inject_fault("SendMessage", EVENTS_DEAD_LETTER_QUEUE, 3, Fault::NotSent);
    assert_eq!(world.post(Provider::Generic, "hello").await, storage_failure());
    assert_eq!(world.dead_letters(), [] as [Value; 0]);
    let (code, answered) = world.post(Provider::Generic, "hello").await;
    assert_eq!((code, &answered["status"]), (OK, &json!("already_processed")));
    assert_eq!(world.dead_letters().len(), 1);
}
