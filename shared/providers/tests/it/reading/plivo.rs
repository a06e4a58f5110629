//! Meaning of Plivo's callbacks.

use switchhook_domain::{CallId, EventId, Timestamp};
use switchhook_providers::Reading;

use super::{ids, into_event, kinds, plivo};

#[test]
fn plivo_statuses_say() {
    for (form, expected) in [
        ("CallStatus=ringing", "ringing"),
        ("CallStatus=in-progress", "~ringing in_progress"),
        ("CallStatus=completed", "~ringing ~in_progress completed"),
        ("CallStatus=completed&BillDuration=0", "~ringing ~in_progress completed"),
        ("CallStatus=busy", "~ringing busy"),
        ("CallStatus=busy&HangupCauseCode=4000", "~ringing busy"),
        ("CallStatus=busy&BillDuration=9", "~ringing ~in_progress busy"),
        ("CallStatus=no-answer", "~ringing no_answer"),
        ("CallStatus=timeout", "failed"),
        ("CallStatus=timeout&BillDuration=9", "~ringing ~in_progress completed"),
        ("CallStatus=failed", "failed"),
        ("CallStatus=failed&BillDuration=9", "~ringing ~in_progress failed"),
        ("CallStatus=cancel", "canceled"),
        ("CallStatus=cancel&HangupCauseCode=1000", "canceled"),
        ("CallStatus=cancel&BillDuration=9", "~ringing ~in_progress completed"),
        // Plivo canceled the call, because of the account: nobody called it off.
        ("CallStatus=cancel&HangupCauseCode=1010", "failed"),
        ("CallStatus=cancel&HangupCauseCode=1020", "failed"),
        ("CallStatus=cancel&HangupCauseCode=1010&BillDuration=9", "~ringing ~in_progress failed"),
        // There is no such number.
        ("CallStatus=failed&HangupCauseCode=2000", "failed!"),
        ("CallStatus=failed&HangupCauseCode=3050", "failed!"),
        ("CallStatus=failed&HangupCauseCode=3120", "failed!"),
        // The account may not call it.
        ("CallStatus=failed&HangupCauseCode=2030", "failed^unclear"),
        ("CallStatus=failed&HangupCauseCode=2040", "failed^unclear"),
        ("CallStatus=failed&HangupCauseCode=2050", "failed^unclear"),
        ("CallStatus=failed&HangupCauseCode=2050&BillDuration=0", "failed^unclear"),
        // The phone may have rung.
        ("CallStatus=failed&HangupCauseCode=1010", "failed"),
        ("CallStatus=failed&HangupCauseCode=1020", "failed"),
        ("CallStatus=failed&HangupCauseCode=2010", "failed"),
        ("CallStatus=failed&HangupCauseCode=new", "failed"),
        ("CallStatus=failed&HangupCauseCode=2000&BillDuration=9", "~ringing ~in_progress failed"),
        ("CallStatus=failed&HangupCauseCode=2030&BillDuration=9", "~ringing ~in_progress failed"),
        // The cause counts for a failed call alone.
        ("CallStatus=timeout&HangupCauseCode=2000", "failed"),
        ("CallStatus=no-answer&HangupCauseCode=3050", "~ringing no_answer"),
        ("Event=CallRecord&CallStatus=ended", "completed"),
        ("CallStatus=Completed", "recorded"),
        ("CallStatus=completed&ALegUUID=p1", "~ringing ~in_progress completed"),
        ("CallStatus=completed&ALegUUID=p0", "recorded"),
        ("Event=MachineDetection&CallStatus=in-progress&Machine=true", "~ringing ~in_progress voicemail_detected"),
        ("Event=MachineDetection&CallStatus=in-progress&Machine=false", "~ringing ~in_progress"),
        ("Event=MachineDetection&CallStatus=in-progress", "~ringing in_progress"),
        // Only the callback about a machine is its verdict.
        ("Event=Hangup&CallStatus=no-answer&Machine=false", "~ringing no_answer"),
        ("Event=RecordStop", "recorded"),
    ] {
        assert_eq!(kinds(&plivo("", &format!("CallUUID=p1&{form}"))), expected, "{form}");
    }
    assert_eq!(kinds(&plivo("", "CallStatus=ringing")), "the event names no call");
}

#[test]
fn plivo_times_count_as_utc_without_an_offset() {
    let times = |form: &str| {
        let event = into_event(plivo("", &format!("CallUUID=p1&{form}")));
        event.call_events.iter().map(|event| event.occurred_at).collect::<Vec<_>>()
    };
    let at = |seconds: i64| Some(Timestamp::from_millis(1_760_962_400_000 + seconds * 1000));
    let answered = "StartTime=2025-10-20+12:13:20&AnswerTime=2025-10-20+12:13:25&EndTime=2025-10-20+12:14:20";
    assert_eq!(times(&format!("CallStatus=completed&{answered}")), [at(5), at(5), at(60)]);
    let unanswered = "StartTime=2025-10-20+12:13:20&AnswerTime=&EndTime=2025-10-20+12:14:20";
    assert_eq!(times(&format!("CallStatus=no-answer&{unanswered}")), [at(0), at(60)]);
    assert_eq!(times("CallStatus=ringing&SessionStart=2025-10-20+12:13:20.000000"), [at(0)]);
    assert_eq!(times("CallStatus=ringing&SessionStart=2025-10-20+17:43:20%2B05:30"), [at(0)]);
    for wrong in ["20.10.2025+12:13:20", "now", "1760962400", "2025-13-20+12:13:20"] {
        assert_eq!(times(&format!("CallStatus=ringing&SessionStart={wrong}")), [None], "{wrong}");
    }
}

/// `SessionStart` is in UTC. The other times of the same callback are in the zone of the account.
#[test]
fn plivo_times_are_read_in_the_zone_that_the_start_of_the_session_shows() {
    let times = |form: &str| {
        let event = into_event(plivo("", &format!("CallUUID=p1&{form}")));
        event.call_events.iter().map(|event| event.occurred_at.unwrap().to_string()).collect::<Vec<_>>()
    };
    let completed = |start: &str, answer: &str, end: &str, session: &str| {
        times(&format!(
            "CallStatus=completed&StartTime={start}&AnswerTime={answer}&EndTime={end}&SessionStart={session}"
        ))
    };
    let day = "2024-09-26+";
    let at = |time: &str| format!("2024-09-26T{time}.000Z");
    // The zone of India, as in callbacks that others published.
    let india = completed(
        &format!("{day}14:05:08"),
        &format!("{day}14:05:18"),
        &format!("{day}14:06:23"),
        &format!("{day}08:35:10.910772"),
    );
    assert_eq!(india, [at("08:35:18"), at("08:35:18"), at("08:36:23")]);
    // A zone west of UTC, one with quarters of an hour, and UTC itself.
    for (hour, session) in [("14:05", "18:05"), ("14:05", "08:20"), ("14:05", "14:05")] {
        let unanswered = format!("StartTime={day}{hour}:08&AnswerTime=&EndTime={day}{hour}:38");
        let form = format!("CallStatus=no-answer&{unanswered}&SessionStart={day}{session}:05.910772");
        assert_eq!(times(&form), [at(&format!("{session}:08")), at(&format!("{session}:38"))], "{session}");
    }
    // A session that began long after the call, no session, and more than any zone differs. Then the times count as UTC.
    for session in [format!("{day}08:41:10.910772"), String::new(), "2024-09-25+14:05:10.910772".to_owned()] {
        let form = format!("CallStatus=busy&StartTime={day}14:05:08&EndTime={day}14:05:38&SessionStart={session}");
        assert_eq!(times(&form), [at("14:05:08"), at("14:05:38")], "{session}");
    }
    // A time that states its offset is right as it is.
    let form =
        format!("CallStatus=busy&StartTime={day}14:05:08&EndTime={day}14:05:38%2B05:30&SessionStart={day}08:35:10");
    assert_eq!(times(&form), [at("08:35:08"), at("08:35:38")]);
}

#[test]
fn plivo_event_ids_repeat_only_for_the_same_event() {
    let id = |form: &str| plivo("", form).event_id().to_string();
    assert_eq!(id("CallUUID=p1&Event=Ring&CallStatus=ringing"), "plivo:p1:Ring:ringing");
    assert_eq!(id("CallUUID=p1&CallStatus=ringing&Event=Ring&X=2"), "plivo:p1:Ring:ringing");
    assert_eq!(id("CallUUID=p1&Event=Hangup&CallStatus=busy"), "plivo:p1:Hangup:busy");
    let machine = |flag: &str| id(&format!("CallUUID=p1&Event=MachineDetection&CallStatus=in-progress&Machine={flag}"));
    assert_eq!(machine("true"), "plivo:p1:MachineDetection:machine");
    assert_eq!(machine("false"), "plivo:p1:MachineDetection:human");
    // Two recordings of one call are two events.
    let recording = |id_of: &str| id(&format!("CallUUID=p1&Event=RecordStop&RecordingID={id_of}"));
    assert_ne!(recording("1"), recording("2"));
    assert_eq!(recording("1"), recording("1"));
}

#[test]
fn plivo_belongs_to_the_call_in_the_signed_query() {
    let of = |query: &str| ids(plivo(query, "CallUUID=p1&CallStatus=ringing&switchhook_call_id=unasked"));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(""), ("plivo:p1".to_owned(), some("plivo:p1"), None));
    assert_eq!(of("appointment_id=a%201"), ("appointment:a 1".to_owned(), some("plivo:p1"), some("a 1")));
    assert_eq!(
        of("switchhook_call_id=x&switchhook_attempt=2&appointment_id=a"),
        ("x".to_owned(), some("2"), some("a"))
    );
    // The order of the query is not signed, so it decides nothing.
    assert_eq!(of("switchhook_call_id=y&switchhook_call_id=x").0, "x");
    assert_eq!(of("switchhook_call_id=x&switchhook_call_id=y").0, "x");
}

#[test]
fn plivo_other_leg_is_filed_with_its_call() {
    let reading = plivo("", "CallUUID=p2&ALegUUID=p1&Event=Hangup&CallStatus=completed");
    let Reading::Recorded { event_id, event_type, call_id } = reading else { panic!("{reading:?}") };
    assert!(event_id.as_str().starts_with("plivo:p2:Hangup:completed:"), "{event_id}");
    assert_ne!(event_id, EventId::new("plivo:p2:Hangup:completed"));
    assert_eq!((event_type.as_str(), call_id), ("completed", Some(CallId::new("plivo:p1"))));
}
