//! Meaning of LiveKit's webhooks.

use serde_json::{Value, json};
use switchhook_domain::{Direction, Timestamp};
use switchhook_providers::Reading;

use super::{ids, into_event, kinds, livekit};

/// Webhook about a SIP participant.
fn sip(event: &str, status: &str, more: Value) -> Reading {
    let mut participant = json!({"kind": "SIP", "attributes": {"sip.callID": "SCL_1", "sip.callStatus": status}});
    participant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    livekit(json!({"event": event, "id": "EV_1", "createdAt": "1760962400", "participant": participant}))
}

#[test]
fn livekit_join_says_how_far_the_call_is() {
    for (status, expected) in [
        ("dialing", "initiated"),
        ("ringing", "ringing"),
        ("automation", "~ringing in_progress"),
        ("active", "~ringing in_progress"),
        ("hangup", "initiated"),
        ("", "initiated"),
        ("new", "initiated"),
    ] {
        assert_eq!(kinds(&sip("participant_joined", status, json!({}))), expected, "{status}");
    }
}

#[test]
fn livekit_leave_says_how_the_call_ended() {
    const NO_ANSWER: &str = "~ringing no_answer";
    const BUSY: &str = "~ringing busy";
    const COMPLETED: &str = "~ringing ~in_progress completed";
    const FAILED_AFTER_ANSWER: &str = "~ringing ~in_progress failed";
    // Without an answer that is known, `completed` leaves open whether anybody answered.
    const UNCLEAR: &str = "completed";
    for (reason, before_answer, after_answer) in [
        (json!("USER_UNAVAILABLE"), NO_ANSWER, COMPLETED),
        (json!(11), NO_ANSWER, COMPLETED),
        (json!("USER_REJECTED"), BUSY, COMPLETED),
        (json!(12), BUSY, COMPLETED),
        (json!("SIP_TRUNK_FAILURE"), "failed", FAILED_AFTER_ANSWER),
        (json!(13), "failed", FAILED_AFTER_ANSWER),
        (json!("MEDIA_FAILURE"), UNCLEAR, FAILED_AFTER_ANSWER),
        (json!(15), UNCLEAR, FAILED_AFTER_ANSWER),
        (json!("CLIENT_INITIATED"), UNCLEAR, COMPLETED),
        (json!(1), UNCLEAR, COMPLETED),
        (json!("UNKNOWN_REASON"), UNCLEAR, COMPLETED),
        (json!("SERVER_SHUTDOWN"), UNCLEAR, COMPLETED),
        (json!("PARTICIPANT_REMOVED"), UNCLEAR, COMPLETED),
        (json!("ROOM_DELETED"), UNCLEAR, COMPLETED),
        (json!("ROOM_CLOSED"), UNCLEAR, COMPLETED),
        (json!("STATE_MISMATCH"), UNCLEAR, COMPLETED),
        (json!("JOIN_FAILURE"), UNCLEAR, COMPLETED),
        (json!("SIGNAL_CLOSE"), UNCLEAR, COMPLETED),
        (json!("CONNECTION_TIMEOUT"), UNCLEAR, COMPLETED),
        (json!("AGENT_ERROR"), UNCLEAR, COMPLETED),
        (json!("NEW"), UNCLEAR, COMPLETED),
        (json!(99), UNCLEAR, COMPLETED),
        (json!(null), UNCLEAR, COMPLETED),
        // The call may go on with another connection.
        (json!("MIGRATION"), "recorded", "~ringing in_progress"),
        (json!(8), "recorded", "~ringing in_progress"),
        (json!("DUPLICATE_IDENTITY"), "recorded", "~ringing in_progress"),
        (json!(2), "recorded", "~ringing in_progress"),
    ] {
        for event in ["participant_left", "participant_connection_aborted"] {
            let left = |status: &str| kinds(&sip(event, status, json!({"disconnectReason": reason})));
            for status in ["dialing", "ringing", "", "new"] {
                assert_eq!(left(status), before_answer, "{event} {reason} {status}");
            }
            // An outbound call has the status `hangup` only after an answer.
            for status in ["automation", "active", "hangup"] {
                assert_eq!(left(status), after_answer, "{event} {reason} {status}");
            }
        }
    }
    // The caller of an inbound call may have given up.
    let inbound = |status: &str| {
        let attributes = json!({"sip.callID": "SCL_1", "sip.callStatus": status, "sip.ruleID": "SDR_1"});
        kinds(&sip("participant_left", "", json!({"attributes": attributes, "disconnectReason": "CLIENT_INITIATED"})))
    };
    assert_eq!((inbound("hangup").as_str(), inbound("active").as_str()), (UNCLEAR, COMPLETED));
}

#[test]
fn livekit_calls_are_sip_participants_alone() {
    for kind in [json!("STANDARD"), json!(0), json!("AGENT"), json!(4), json!("CONNECTOR"), json!("NEW"), json!(null)] {
        let reading = sip("participant_joined", "active", json!({"kind": kind}));
        assert!(matches!(reading, Reading::Recorded { call_id: None, .. }), "{reading:?}");
    }
    assert_eq!(kinds(&sip("participant_joined", "active", json!({"kind": 3}))), "~ringing in_progress");
    // Other events about the call leave it as it is.
    for event in ["track_published", "track_unpublished", "participant_new"] {
        let reading = sip(event, "active", json!({}));
        assert!(matches!(&reading, Reading::Recorded { call_id: Some(_), .. }), "{reading:?}");
    }
    for event in ["room_started", "room_finished", "egress_ended", "ingress_started", "agent_job_ended", "new"] {
        let reading = livekit(json!({"event": event, "id": "EV_1", "room": {"name": "r"}}));
        assert!(matches!(reading, Reading::Recorded { call_id: None, .. }), "{reading:?}");
    }
    assert_eq!(kinds(&livekit(json!({"id": "EV_1"}))), "the event names no type");
    let nameless = sip("participant_joined", "", json!({"attributes": {"sip.callStatus": "active"}}));
    assert_eq!(kinds(&nameless), "the event names no call");
    assert_eq!(kinds(&sip("participant_joined", "", json!({"attributes": []}))), "the event names no call");
}

#[test]
fn livekit_times_are_texts_or_numbers() {
    let times = |created: Value, more: Value| {
        let mut participant = json!({"kind": "SIP", "attributes": {"sip.callID": "c", "sip.callStatus": "active"}});
        participant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"event": "participant_left", "createdAt": created, "participant": participant});
        into_event(livekit(body)).call_events.iter().map(|event| event.occurred_at).collect::<Vec<_>>()
    };
    let at = |millis: i64| Some(Timestamp::from_millis(1_760_962_400_000 + millis));
    for created in [json!("1760962400"), json!(1_760_962_400)] {
        assert_eq!(times(created.clone(), json!({"joinedAt": "1760962390"})), [at(-10_000), at(-10_000), at(0)]);
        let exact = json!({"joinedAt": "1760962390", "joinedAtMs": "1760962390404"});
        assert_eq!(times(created.clone(), exact), [at(-9_596), at(-9_596), at(0)]);
        // The time of the event has whole seconds, so it may lie before the join.
        assert_eq!(times(created, json!({"joinedAtMs": "1760962400404"})), [at(0), at(0), at(0)]);
    }
    assert_eq!(times(json!("soon"), json!({})), [None, None, None]);
    assert_eq!(times(json!("9223372036854775807"), json!({})), [None, None, None]);
}

#[test]
fn livekit_call_is_known_by_our_ids_or_its_own() {
    let some = |text: &str| Some(text.to_owned());
    let event = |more: Value| {
        let mut attributes = json!({"sip.callID": "SCL_1", "sip.callStatus": "dialing"});
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sip("participant_joined", "", json!({"attributes": attributes}))
    };
    assert_eq!(ids(event(json!({}))), ("livekit:SCL_1".to_owned(), some("livekit:SCL_1"), None));
    let ours = json!({"switchhook_call_id": "call-1", "switchhook_attempt": "2", "appointment_id": "apt_7"});
    assert_eq!(ids(event(ours.clone())), ("call-1".to_owned(), some("2"), some("apt_7")));
    assert_eq!(into_event(event(ours)).provider_call_id, some("SCL_1"));
    let appointment = ids(event(json!({"appointment_id": "apt_7"})));
    assert_eq!(appointment, ("appointment:apt_7".to_owned(), some("livekit:SCL_1"), some("apt_7")));
}

#[test]
fn livekit_event_has_its_own_id() {
    let id = |body: Value| livekit(body).event_id().to_string();
    assert_eq!(id(json!({"event": "room_started", "id": "EV_1"})), "livekit:EV_1");
    let first = id(json!({"event": "room_started", "room": {"name": "a"}}));
    assert_ne!(first, id(json!({"event": "room_started", "room": {"name": "b"}})));
    assert!(first.starts_with("livekit:sha256-"), "{first}");
}

#[test]
fn livekit_numbers_follow_the_direction() {
    let numbers = |rule: Value| {
        let attributes = json!({
            "sip.callID": "c", "sip.phoneNumber": "+447700900123", "sip.trunkPhoneNumber": "442079460018", "sip.ruleID": rule,
        });
        let event = into_event(sip("participant_joined", "", json!({"attributes": attributes})));
        (event.direction.unwrap(), event.from.unwrap().as_str().to_owned(), event.to.unwrap().as_str().to_owned())
    };
    let (person, own) = ("+447700900123".to_owned(), "+442079460018".to_owned());
    assert_eq!(numbers(json!(null)), (Direction::Outbound, own.clone(), person.clone()));
    assert_eq!(numbers(json!("SDR_1")), (Direction::Inbound, person, own));
}
