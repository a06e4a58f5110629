//! Generic events folded into a call: each word alone, in pairs, in threes and in natural sequences, in every order of
//! delivery.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_domain::{
    AnnouncementKind, AppointmentStatus, Call, Policy, Provider, ProviderEvent, ProviderSet, Timestamp, fold,
};

use crate::reading::{into_event, read_body};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };

/// The upper-case words, and the lower-case words that mean the same.
const WORDS: [[&str; 2]; 13] = [
    ["CALL_STARTED", "call.initiated"],
    ["RINGING", "call.ringing"],
    ["ANSWERED", "call.in_progress"],
    ["ENDED", "call.completed"],
    ["FAILED", "call.failed"],
    ["BUSY", "call.busy"],
    ["NO_ANSWER", "call.no_answer"],
    ["TIMEOUT", "call.no_answer"],
    ["CANCELED", "call.canceled"],
    ["VOICEMAIL_DETECTED", "voicemail.detected"],
    ["USER_CONFIRMED", "user.confirmed"],
    ["USER_DECLINED", "user.declined"],
    ["RETRY_SCHEDULED", "retry.scheduled"],
];

/// Way in which a sender names the attempt.
#[derive(Clone, Copy, Debug)]
enum Naming {
    Unnamed,
    CallSid,
    Number,
}

/// The event of a word that happened in this second of the call.
fn event(word: &str, second: i64, naming: Naming, attempt: u8) -> ProviderEvent {
    let mut body = json!({
        "event_id": format!("{word}-{second}"),
        "type": word,
        "appointment_id": "a1",
        "occurred_at": Timestamp::from_millis(1_760_962_445_000 + second * 1000).to_string(),
    });
    match naming {
        Naming::Unnamed => {}
        Naming::CallSid => body["call"] = json!({"sid": format!("sid-{attempt}")}),
        Naming::Number => body["meta"] = json!({"attempt": attempt}),
    }
    into_event(read_body(Provider::Generic, "", body.to_string().as_bytes()))
}

/// Folds the events one by one.
fn folded(events: &[&ProviderEvent]) -> Call {
    folded_by(&POLICY, events)
}

fn folded_by(policy: &Policy, events: &[&ProviderEvent]) -> Call {
    let mut call: Option<Call> = None;
    for (second, event) in (100..).zip(events) {
        let now = Timestamp::from_millis(1_760_962_445_000 + second * 1000);
        let event = ProviderEvent { received_at: now, ..(*event).clone() };
        if let Some(transition) = fold(call.as_ref(), &[event], policy, now).transition {
            call = Some(transition.call);
        }
    }
    call.unwrap()
}

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
    let insert = |rest: Vec<T>| {
        (0..=rest.len()).map(move |at| {
            let mut all = rest.clone();
            all.insert(at, first.clone());
            all
        })
    };
    permutations(rest).into_iter().flat_map(insert).collect()
}

/// The words in lower case, in upper case, and in both by turns.
fn spellings(words: &[&str]) -> [Vec<&'static str>; 3] {
    let spelled = |(at, word): (usize, &&str), lower: fn(usize) -> bool| {
        let [upper, small] = WORDS.iter().find(|[upper, _]| upper == word).unwrap();
        if lower(at) { *small } else { *upper }
    };
    let rules: [fn(usize) -> bool; 3] = [|_| false, |_| true, |at| at % 2 == 0];
    rules.map(|lower| words.iter().enumerate().map(|word| spelled(word, lower)).collect())
}

/// Folds the passed deadlines, and checks that nothing is called inconclusive beside a decision.
fn check_after_the_deadline(call: &Call, arrived: &[&str]) {
    let now = call.updated_at.plus(POLICY.inactivity_timeout);
    let deadlines = call.deadline_passed_events(&POLICY, now);
    let call = fold(Some(call), &deadlines, &POLICY, now).transition.map_or_else(|| call.clone(), |next| next.call);
    let types: Vec<String> = call.domain_events_from(1).into_iter().map(|event| event.event_type).collect();
    let has = |name: &str| types.iter().any(|event_type| event_type == name);
    let is_decided = has("appointment.confirmed") || has("appointment.declined");
    assert!(!(is_decided && has("call.inconclusive")), "{arrived:?}: {types:?}");
    assert!(call.is_settled(), "{arrived:?}");
}

/// `{lifecycle}/{outcome}` of every attempt.
fn states(call: &Call) -> String {
    let attempts = call.attempts();
    let states: Vec<String> =
        attempts.iter().map(|attempt| format!("{}/{}", attempt.lifecycle_label(), attempt.outcome_label())).collect();
    states.join(" ")
}

/// Checks the state of a sequence, in every order of delivery and with each way of naming the attempt.
fn check(words: &[&str], expected: &str) {
    for naming in [Naming::Unnamed, Naming::CallSid, Naming::Number] {
        let events: Vec<ProviderEvent> = (0..).zip(words).map(|(at, word)| event(word, at, naming, 1)).collect();
        for order in permutations(&events.iter().collect::<Vec<_>>()) {
            let arrived: Vec<&str> = order.iter().map(|event| event.event_id.as_str()).collect();
            assert_eq!(states(&folded(&order)), expected, "{words:?}, {naming:?}, arrived as {arrived:?}");
        }
    }
}

/// State of an attempt with these words, in the order in which they happened. Written from the meaning of the words,
/// without the state machines.
fn expected(words: &[&str]) -> String {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let position = |name: &str| words.iter().position(|word| *word == name);
    let decided = has(&["VOICEMAIL_DETECTED", "USER_CONFIRMED", "USER_DECLINED"]);
    // A decision proves an answer at some earlier time.
    let answered_at = if decided { Some(0) } else { position("ANSWERED") };
    let after_answer =
        |name: &str| answered_at.is_some_and(|answer| words.iter().skip(answer).any(|word| *word == name));
    let lifecycle = if after_answer("ENDED") {
        "completed"
    } else if after_answer("FAILED") {
        "failed"
    } else if after_answer("BUSY") {
        "busy"
    } else if answered_at.is_some() {
        "in_progress"
    } else if has(&["FAILED"]) {
        "failed"
    } else if has(&["BUSY"]) {
        "busy"
    } else if has(&["CANCELED"]) {
        "canceled"
    } else if has(&["NO_ANSWER", "TIMEOUT"]) {
        "no_answer"
    } else if has(&["RINGING", "ENDED"]) {
        "ringing"
    } else {
        "initiated"
    };
    let outcome = if has(&["USER_CONFIRMED"]) {
        "confirmed"
    } else if has(&["USER_DECLINED"]) {
        "declined"
    } else if has(&["VOICEMAIL_DETECTED"]) {
        "voicemail"
    } else if has(&["ANSWERED"]) {
        "connected"
    } else if has(&["FAILED", "BUSY", "CANCELED", "NO_ANSWER", "TIMEOUT"]) {
        "no_answer"
    } else {
        "dialing"
    };
    format!("{lifecycle}/{outcome}")
}

/// Upper-case words about an attempt. `RETRY_SCHEDULED` is about the call.
fn words_of_attempts() -> impl Iterator<Item = &'static str> + Clone {
    WORDS.iter().map(|[upper, _]| *upper).filter(|word| *word != "RETRY_SCHEDULED")
}

/// Also of the words about the call, and in either spelling.
#[test]
fn nothing_is_inconclusive_beside_a_decision() {
    let words = || WORDS.iter().map(|[upper, _]| *upper);
    let natural = NATURAL.iter().map(|(words, _)| words.to_vec());
    let pairs = words().flat_map(|first| words().map(move |second| vec![first, second]));
    for words in words().map(|word| vec![word]).chain(pairs).chain(natural) {
        for spelled in spellings(&words) {
            for naming in [Naming::Unnamed, Naming::CallSid, Naming::Number] {
                let events: Vec<ProviderEvent> =
                    (0..).zip(&spelled).map(|(at, word)| event(word, at, naming, 1)).collect();
                for order in permutations(&events.iter().collect::<Vec<_>>()) {
                    let arrived: Vec<&str> = order.iter().map(|event| event.event_id.as_str()).collect();
                    check_after_the_deadline(&folded(&order), &arrived);
                }
            }
        }
    }
}

#[test]
fn each_word_alone_means_what_it_implies() {
    for word in words_of_attempts() {
        check(&[word], &expected(&[word]));
    }
    for [upper, lower] in WORDS {
        let call_events = |word: &str| event(word, 0, Naming::Unnamed, 1).call_events;
        assert_eq!(call_events(upper), call_events(lower), "{upper}");
    }
}

#[test]
fn words_in_twos_and_threes_mean_the_same_in_every_order() {
    for first in words_of_attempts() {
        for second in words_of_attempts() {
            for spelled in spellings(&[first, second]) {
                check(&spelled, &expected(&[first, second]));
            }
            for third in words_of_attempts() {
                check(&[first, second, third], &expected(&[first, second, third]));
            }
        }
    }
}

/// Sequences as a sender reports them, and the state to which each leads.
const NATURAL: [(&[&str], &str); 12] = [
    (&["CALL_STARTED", "ANSWERED", "USER_CONFIRMED"], "in_progress/confirmed"),
    (&["CALL_STARTED", "ANSWERED", "USER_CONFIRMED", "ENDED"], "completed/confirmed"),
    (&["CALL_STARTED", "RINGING", "ANSWERED", "USER_DECLINED", "ENDED"], "completed/declined"),
    (&["CALL_STARTED", "RINGING", "ANSWERED", "ENDED"], "completed/connected"),
    (&["CALL_STARTED", "ENDED", "USER_CONFIRMED"], "completed/confirmed"),
    (&["CALL_STARTED", "VOICEMAIL_DETECTED", "ENDED"], "completed/voicemail"),
    (&["CALL_STARTED", "NO_ANSWER"], "no_answer/no_answer"),
    (&["CALL_STARTED", "RINGING", "TIMEOUT"], "no_answer/no_answer"),
    (&["CALL_STARTED", "BUSY"], "busy/no_answer"),
    (&["CALL_STARTED", "FAILED"], "failed/no_answer"),
    (&["CALL_STARTED", "RINGING", "CANCELED"], "canceled/no_answer"),
    // Nothing says whether anybody answered.
    (&["CALL_STARTED", "RINGING", "ENDED"], "ringing/dialing"),
];

#[test]
fn natural_sequences_end_as_they_say() {
    for (words, expected) in NATURAL {
        for spelled in spellings(words) {
            check(&spelled, expected);
        }
    }
}

/// A provider's fixture as an event of the appointment `appt_201`.
fn fixture(provider: Provider, body: &str) -> ProviderEvent {
    let query = if provider == Provider::Twilio { "appointment_id=appt_201" } else { "" };
    let event = into_event(read_body(provider, query, body.as_bytes()));
    assert_eq!(event.call_id.as_str(), "appointment:appt_201");
    event
}

/// Vonage sends `completed` after the other endings too, and sometimes before them, with an earlier or a later time.
#[test]
fn vonage_call_ends_as_its_other_ending_says_in_every_order() {
    let event = |status: &str, second: i64, end: Option<i64>, duration: &str| {
        let time = |second: i64| Timestamp::from_millis(1_760_962_445_000 + second * 1000).to_string();
        let body = json!({
            "uuid": "v1", "status": status, "direction": "outbound", "timestamp": time(second),
            "end_time": end.map(time), "duration": duration,
        });
        into_event(read_body(Provider::Vonage, "", body.to_string().as_bytes()))
    };
    for (status, expected) in [
        ("busy", "busy"),
        ("unanswered", "no_answer"),
        ("timeout", "no_answer"),
        ("failed", "failed"),
        ("rejected", "busy"),
        ("cancelled", "canceled"),
    ] {
        for end in [8, 9, 10] {
            let events = [
                event("started", 0, None, ""),
                event("ringing", 2, None, ""),
                event(status, 9, None, ""),
                event("completed", 10, Some(end), "0"),
            ];
            for order in permutations(&events.iter().collect::<Vec<_>>()) {
                let call = folded(&order);
                let lifecycles: Vec<String> =
                    call.attempts().iter().map(|attempt| attempt.lifecycle_label().to_string()).collect();
                assert_eq!(lifecycles, [expected], "{status} {end}");
            }
        }
    }
    // An answered call is completed by the same event.
    let answered = [event("answered", 5, None, ""), event("completed", 10, Some(9), "4")];
    // Its end has whole seconds, so it may lie before the answer.
    let at_once = [event("answered", 9, None, ""), event("completed", 10, Some(8), "0")];
    for events in [answered, at_once] {
        for order in permutations(&events.iter().collect::<Vec<_>>()) {
            assert!(states(&folded(&order)).starts_with("completed/"), "{}", states(&folded(&order)));
        }
    }
}

/// The end of a call at Daily does not say whether anybody answered.
#[test]
fn daily_call_is_completed_only_after_an_answer_in_every_order() {
    let event = |event_type: &str, second: i64| {
        let payload = json!({"session_id": "s1", "timestamp": 1_760_962_445 + second});
        let body = json!({"type": event_type, "id": event_type, "payload": payload});
        into_event(read_body(Provider::Daily, "", body.to_string().as_bytes()))
    };
    // An ending that is not clear counts once no other event has come for some time.
    for (types, expected) in [
        (&["dialout.connected", "dialout.stopped"][..], "ringing/dialing"),
        (&["dialout.stopped"], "initiated/dialing"),
        (&["dialout.connected", "dialout.answered", "dialout.stopped"], "completed/connected"),
        (&["dialout.answered", "dialout.stopped"], "completed/connected"),
        (&["dialin.connected", "dialin.stopped"], "completed/connected"),
        (&["dialout.error"], "failed/no_answer"),
        (&["dialout.connected", "dialout.error"], "failed/no_answer"),
        (&["dialout.connected", "dialout.answered", "dialout.error"], "failed/connected"),
        (&["dialout.connected", "dialout.error", "dialout.stopped"], "failed/no_answer"),
    ] {
        // Daily's times are whole seconds, so two events may have the same.
        for step in [0, 3] {
            let events: Vec<_> =
                types.iter().zip(0..).map(|(event_type, place)| event(event_type, place * step)).collect();
            for order in permutations(&events.iter().collect::<Vec<_>>()) {
                assert_eq!(states(&folded(&order)), expected, "{types:?}");
            }
        }
    }
}

/// Bland's webhook has the ending and the decision. A lookup before the analysis shows the ending alone.
#[test]
fn bland_call_is_confirmed_in_every_order_of_its_reports() {
    let event = |more: Value| {
        let mut body = json!({
            "call_id": "b1", "completed": true, "started_at": "2025-10-20T12:14:05Z", "call_length": 0.1, "to": "+447700900000",
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        into_event(read_body(Provider::Bland, "", body.to_string().as_bytes()))
    };
    let early = event(json!({"event": "call_record", "answered_by": "human"}));
    let unclear = event(json!({"event": "call_record", "answered_by": null}));
    let confirmed = event(json!({"answered_by": "human", "analysis": {"outcome": "confirmed"}}));
    for (events, expected) in [
        (vec![&early], "completed/connected"),
        (vec![&early, &confirmed], "completed/confirmed"),
        (vec![&unclear, &confirmed], "completed/confirmed"),
        (vec![&unclear, &early, &confirmed], "completed/confirmed"),
    ] {
        for order in permutations(&events) {
            // Nobody waits for an outcome of Bland.
            let policy = Policy { outcome_providers: ProviderSet::default(), ..POLICY };
            let call = folded_by(&policy, &order);
            assert_eq!(states(&call), expected);
            assert!(call.is_settled());
        }
    }
}

/// An event of Vapi about the call `v1`.
fn vapi(message: &Value) -> ProviderEvent {
    into_event(read_body(Provider::Vapi, "", json!({"message": message}).to_string().as_bytes()))
}

/// Vapi may post its report before it has the structured outputs. A later report or a lookup has them.
#[test]
fn vapi_call_is_decided_in_every_order_of_its_reports() {
    let report = |outcome: Option<&str>| {
        let outputs = outcome.map(|outcome| json!({"1": {"name": "outcome", "result": outcome}}));
        vapi(&json!({
            "type": "end-of-call-report", "endedReason": "customer-ended-call", "call": {"id": "v1"},
            "startedAt": "2025-10-20T12:14:05Z", "endedAt": "2025-10-20T12:15:05Z",
            "artifact": {"structuredOutputs": outputs},
        }))
    };
    let (early, confirmed, declined) = (report(None), report(Some("confirmed")), report(Some("declined")));
    for (events, expected) in [
        (vec![&early, &confirmed], "completed/confirmed"),
        (vec![&early, &declined], "completed/declined"),
        (vec![&early, &declined, &confirmed], "completed/confirmed"),
    ] {
        for order in permutations(&events) {
            assert_eq!(states(&folded(&order)), expected);
        }
    }
    // The deadline passes before the result arrives.
    let call = folded(&[&early]);
    let now = call.updated_at.plus(POLICY.inactivity_timeout);
    let call = fold(Some(&call), &call.deadline_passed_events(&POLICY, now), &POLICY, now).transition.unwrap().call;
    assert!(call.is_settled());
    let call = fold(Some(&call), &[confirmed], &POLICY, now).transition.unwrap().call;
    assert_eq!(states(&call), "completed/confirmed");
}

/// The status update `ended` has no times. The report shows that nobody answered: the call ended when it started.
#[test]
fn vapi_status_update_of_a_call_that_nobody_answered_proves_no_answer() {
    let at = "2025-10-20T12:14:05Z";
    for reason in ["customer-ended-call", "silence-timed-out"] {
        let message = |more: Value| {
            let mut message = json!({"endedReason": reason, "call": {"id": "v1"}});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            vapi(&message)
        };
        let ended = message(json!({"type": "status-update", "status": "ended", "timestamp": 1_760_962_445_000_i64}));
        let report = message(json!({"type": "end-of-call-report", "startedAt": at, "endedAt": at}));
        for order in permutations(&[&ended, &report]) {
            assert_eq!(states(&folded(&order)), "no_answer/no_answer", "{reason}");
        }
        let answered = message(json!({"type": "status-update", "status": "in-progress"}));
        for order in permutations(&[&ended, &answered]) {
            assert_eq!(states(&folded(&order)), "completed/connected", "{reason}");
        }
    }
}

/// A team's own application, Retell and Twilio report one appointment, two of them at once.
#[test]
fn two_providers_at_once_confirm_in_every_order() {
    let retell = [
        include_str!("../../fixtures/retell/call_started.json"),
        include_str!("../../fixtures/retell/call_ended.json"),
        include_str!("../../fixtures/retell/call_analyzed.json"),
    ]
    .map(|body| fixture(Provider::Retell, body));
    let twilio = [
        include_str!("../../fixtures/twilio/initiated.form"),
        include_str!("../../fixtures/twilio/ringing.form"),
        include_str!("../../fixtures/twilio/in_progress.form"),
        include_str!("../../fixtures/twilio/completed.form"),
    ]
    .map(|body| fixture(Provider::Twilio, body));
    let own = |words: &[&'static str]| -> Vec<ProviderEvent> {
        let of_appointment = |event: ProviderEvent| ProviderEvent {
            call_id: retell[0].call_id.clone(),
            appointment_id: retell[0].appointment_id.clone(),
            ..event
        };
        (0..).zip(words).map(|(at, word)| of_appointment(event(word, at, Naming::CallSid, 1))).collect()
    };
    let confirmed = ["CALL_STARTED", "ANSWERED", "USER_CONFIRMED"];
    let ended = ["CALL_STARTED", "RINGING", "NO_ANSWER"];
    for events in [
        [&retell[..], &twilio].concat(),
        [&own(&confirmed)[..], &twilio].concat(),
        [&own(&confirmed)[..], &retell].concat(),
        // The application gave up, and the person confirmed through Retell.
        [&own(&ended)[..], &retell].concat(),
    ] {
        for order in permutations(&events.iter().collect::<Vec<_>>()) {
            let call = folded(&order);
            let arrived: Vec<&str> = order.iter().map(|event| event.event_id.as_str()).collect();
            let state = (call.job.as_str(), call.appointment_status().as_str());
            assert_eq!(state, ("COMPLETED", "Confirmed"), "{arrived:?}");
        }
    }
}

#[test]
fn a_confirmed_call_announces_its_answer() {
    let words = ["CALL_STARTED", "ANSWERED", "USER_CONFIRMED"];
    let events: Vec<ProviderEvent> = (0..).zip(words).map(|(at, word)| event(word, at, Naming::Unnamed, 1)).collect();
    for order in permutations(&events.iter().collect::<Vec<_>>()) {
        let types: Vec<String> =
            folded(&order).domain_events_from(1).into_iter().map(|event| event.event_type).collect();
        let has = |name: &str| types.iter().any(|event_type| event_type == name);
        assert!(has("call.in_progress") && has("appointment.confirmed"), "{types:?}");
    }
}

/// A sender without an id per attempt numbers its attempts.
#[test]
fn numbered_attempts_are_told_apart() {
    let events = [
        event("CALL_STARTED", 0, Naming::Number, 1),
        event("NO_ANSWER", 30, Naming::Number, 1),
        event("RETRY_SCHEDULED", 31, Naming::Unnamed, 1),
        event("CALL_STARTED", 600, Naming::Number, 2),
        event("NO_ANSWER", 630, Naming::Number, 2),
    ];
    for order in permutations(&events.iter().collect::<Vec<_>>()) {
        let call = folded(&order);
        assert_eq!(states(&call), "no_answer/no_answer no_answer/no_answer");
        assert!(call.domain_events_from(1).iter().all(|event| event.corrects.is_none()));
    }
    let call = folded(&events.iter().collect::<Vec<_>>());
    let no_answers = call
        .announcements
        .iter()
        .filter(|announcement| announcement.kind == AnnouncementKind::Appointment(AppointmentStatus::NoAnswer));
    assert_eq!(no_answers.count(), 2);
}

/// A retry that another system promises, with a number of its own, is about the call and starts no attempt.
#[test]
fn a_promised_retry_is_no_attempt() {
    let events = [event("NO_ANSWER", 30, Naming::Number, 1), event("RETRY_SCHEDULED", 31, Naming::Number, 2)];
    for order in permutations(&events.iter().collect::<Vec<_>>()) {
        assert_eq!(states(&folded(&order)), "no_answer/no_answer");
    }
}

#[test]
fn numbers_of_attempts_are_read_wherever_they_stand() {
    let key = |mut body: Value| {
        body["type"] = json!("RINGING");
        body["appointment_id"] = json!("a1");
        let event = into_event(read_body(Provider::Generic, "", body.to_string().as_bytes()));
        event.attempt.map(|key| key.to_string())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(key(json!({"meta": {"attempt": 2}})), some("generic#2"));
    assert_eq!(key(json!({"meta": {"attempt": "2"}})), some("generic#2"));
    assert_eq!(key(json!({"data": {"attempt": 3}})), some("generic#3"));
    assert_eq!(key(json!({"attempt": "4"})), some("generic#4"));
    assert_eq!(key(json!({"attempt": 4, "data": {"attempt": 3}, "meta": {"attempt": 2}})), some("generic#2"));
    assert_eq!(key(json!({"meta": {"attempt": "first"}, "attempt": 4})), some("generic#4"));
    assert_eq!(key(json!({"meta": {"attempt": -1}})), None);
    assert_eq!(key(json!({"meta": {"attempt": 2}, "call": {"sid": "s"}})), some("generic:s"));
    assert_eq!(key(json!({"meta": {"attempt": 2, "switchhook_attempt": "7"}})), some("7"));
}

/// Nothing tells whether a decision that names no attempt was made in the attempt that has ended. So it belongs to both, and no
/// late report can take it away from one of them. The appointment is confirmed in any case.
#[test]
fn decision_without_an_attempt_belongs_to_all_that_had_started() {
    let events = [
        event("CALL_STARTED", 0, Naming::Number, 1),
        event("NO_ANSWER", 30, Naming::Number, 1),
        event("CALL_STARTED", 60, Naming::Number, 2),
        event("USER_CONFIRMED", 80, Naming::Unnamed, 2),
    ];
    for order in permutations(&events.iter().collect::<Vec<_>>()) {
        let call = folded(&order);
        assert_eq!(states(&call), "in_progress/confirmed in_progress/confirmed");
        assert_eq!((call.job.as_str(), call.appointment_status().as_str()), ("COMPLETED", "Confirmed"));
        let confirmed =
            call.domain_events_from(1).into_iter().filter(|event| event.event_type == "appointment.confirmed");
        assert!(confirmed.count() >= 1);
    }
}

/// A decision that names no attempt was made in the attempts that had started by then, also if it arrives late.
#[test]
fn late_decision_without_an_attempt_is_not_about_a_later_attempt() {
    let events = [
        event("CALL_STARTED", 0, Naming::Number, 1),
        event("VOICEMAIL_DETECTED", 20, Naming::Unnamed, 1),
        event("ENDED", 30, Naming::Number, 1),
        event("CALL_STARTED", 60, Naming::Number, 2),
        event("NO_ANSWER", 90, Naming::Number, 2),
    ];
    for order in permutations(&events.iter().collect::<Vec<_>>()) {
        assert_eq!(states(&folded(&order)), "completed/voicemail no_answer/no_answer");
    }
}
