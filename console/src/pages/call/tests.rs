use std::time::Duration;

use switchhook_domain::{
    AttemptKey, Call, CallEvent, EventId, EventKind, NewCall, Origin, PhoneNumber, Plan, Policy, Provider,
    ProviderEvent, ProviderSet, RetryPolicy, fold,
};
use switchhook_operate::timeline::{FoundCall, How};

use super::*;

const START_MS: i64 = 1_800_000_000_000;
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u{202e}/?#%";

fn policy() -> Policy {
    Policy { inactivity_timeout: Duration::from_secs(3_600), outcome_providers: ProviderSet::ALL }
}

fn event(call_id: &str, id: &str, attempt: &str, kind: EventKind, second: i64, late: i64) -> ProviderEvent {
    let at = |second: i64| Timestamp::from_millis(START_MS + second * 1_000);
    let (event_id, origin) = (EventId::new(format!("retell:{id}")), Origin::Provider(Provider::Retell));
    ProviderEvent {
        attempt: Some(AttemptKey::new(attempt)),
        provider_call_id: Some(attempt.to_owned()),
        appointment_id: Some(call_id.to_owned()),
        direction: Some(Direction::Outbound),
        from: Some(PhoneNumber::new("+15550100123")),
        to: Some(PhoneNumber::new("+447700900456")),
        call_events: vec![CallEvent::new(kind, Some(at(second)))],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new(call_id), at(second + late))
    }
}

/// A call with this many attempts of this many events. Each event is folded by a write of its own.
fn call_of(call_id: &str, attempts: i64, events: i64) -> FoundCall {
    let mut call: Option<Call> = None;
    for number in 0..attempts {
        for index in 0..events {
            let kind = match index {
                0 => EventKind::Initiated,
                1 => EventKind::Ringing,
                2 => EventKind::InProgress,
                _ if index + 1 == events => EventKind::Busy,
                _ => EventKind::UserConfirmed,
            };
            let id = format!("call_5d0b8f6e7a9c4b1d2e3f:{kind}:{number:02}{index:02}2f6c8d");
            let event = event(
                call_id,
                &id,
                &format!("call_5d0b8f6e7a9c{number:02}"),
                kind,
                number * 900 + index * 3,
                index % 3,
            );
            let now = event.received_at.plus(Duration::from_millis(41));
            call = fold(call.as_ref(), &[event], &policy(), now).transition.map(|transition| transition.call).or(call);
        }
    }
    FoundCall { call: call.unwrap(), how: How::CallId, others: Vec::new() }
}

fn page(found: &FoundCall, as_of: Option<Timestamp>, chosen: Option<&str>) -> String {
    let view = View { as_of, attempt: chosen, ..View::of_call(found.call.call_id.as_str()) };
    let told = |as_of| timeline::story(found, &policy(), Timestamp::from_millis(START_MS), as_of);
    let (whole, past) = (told(None), as_of.map(|at| told(Some(at))));
    let times = timeline::write_times(&found.call);
    content(whole.as_ref(), past.as_ref(), &times, &view, &Further::default()).into_string()
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn everything_that_is_drawn_is_in_the_table() {
    let found = call_of("c", 3, 6);
    for (as_of, chosen) in [(None, None), (Some(Timestamp::from_millis(START_MS + 905_000)), None), (None, Some("2"))] {
        let html = page(&found, as_of, chosen);
        let ids = values(&html, "id");
        let drawn: Vec<&str> = values(&html, "data-rows").into_iter().flat_map(|rows| rows.split(' ')).collect();
        assert!(!drawn.is_empty());
        for row in drawn {
            assert!(ids.contains(&format!("r{row}").as_str()), "row {row} is drawn, but not in the table");
        }
    }
}

#[test]
fn page_of_80_events_has_at_most_80_kilobytes() {
    let html = page(&call_of("appointment:apt_2026_201", 5, 16), None, None);
    assert_eq!(html.matches("event=").count(), 80);
    assert!(html.len() <= 77_000, "{} bytes, and the frame has up to 3,000", html.len());
}

#[test]
fn largest_call_has_at_most_250_kilobytes_with_its_attempts_shut() {
    let found = call_of("appointment:apt_2026_201", 16, 64);
    assert_eq!(found.call.history.len(), 1_024);
    let shut = page(&found, None, None);
    assert_eq!(shut.matches("64 shut").count(), 16);
    assert!(shut.len() <= 100_000, "{} bytes", shut.len());
    let one = page(&found, None, Some("16"));
    assert_eq!((one.matches("64 shut").count(), one.matches("event=").count()), (15, 64));
    assert!(one.len() <= 200_000, "{} bytes", one.len());
}

#[test]
fn hostile_texts_are_only_text() {
    let hostile = event(HOSTILE, HOSTILE, HOSTILE, EventKind::Ringing, 0, 0);
    let call = fold(None, &[hostile], &policy(), Timestamp::from_millis(START_MS)).transition.unwrap().call;
    let found = FoundCall { call, how: How::Event(EventId::new(HOSTILE)), others: vec![CallId::new(HOSTILE)] };
    let html = page(&found, None, None) + &nothing(HOSTILE).into_string();
    assert_eq!(html.matches("<script").count(), 1, "its own alone");
    // The form of "Known at" has to send the id as it is.
    let shown = html.replace(values(&html, "value").first().unwrap(), "");
    assert!(!html.contains("<img") && !shown.contains('\u{202e}'), "{html}");
    assert!(html.contains("⟨U+202E⟩"));
}

#[test]
fn number_of_the_person_is_masked() {
    let html = page(&call_of("c", 1, 3), None, None);
    assert!(html.contains("+44…456 A") && !html.contains("7700900") && !html.contains("5550100"));
}

#[test]
fn known_at_leads_to_the_writes_before_and_after() {
    let found = call_of("c", 1, 3);
    let times = timeline::write_times(&found.call);
    assert_eq!(times.len(), 3);
    let html = page(&found, Some(times[1]), None);
    let url_of = |at: Timestamp| View { as_of: Some(at), ..View::of_call("c") }.url().replace('&', "&amp;");
    assert!(html.contains(&format!("rel=\"prev\" href=\"{}\"", url_of(times[0]))), "{html}");
    assert!(html.contains(&format!("rel=\"next\" href=\"{}\"", url_of(times[2]))));
    assert!(html.contains("Switchhook then believed: <strong>ringing, dialing"), "{html}");
    let before = page(&found, Some(Timestamp::from_millis(START_MS - 1)), None);
    assert!(before.contains("did not know this call yet"), "{before}");
}

#[test]
fn late_event_says_so_in_text() {
    let late = [event("c", "a", "k", EventKind::Ringing, 0, 0), event("c", "b", "k", EventKind::Busy, 10, 11_520)];
    let call = fold(None, &late, &policy(), Timestamp::from_millis(START_MS + 12_000_000)).transition.unwrap().call;
    let html = page(&FoundCall { call, how: How::CallId, others: Vec::new() }, None, None);
    assert!(html.contains(">3 h 12 min late</td>"), "{html}");
}

/// A call that Switchhook placed: refused once, then busy, then in doubt, then answered and confirmed. The end of the busy attempt
/// was reported three hours late a second time.
fn placed() -> FoundCall {
    let plan = Plan {
        providers: vec![Provider::Retell],
        due_at: Timestamp::from_millis(START_MS + 7_200_000),
        not_after: None,
        window: None,
        retry: RetryPolicy {
            attempts_max: 3,
            delay_seconds: 60,
            delay_max_seconds: 60,
            voicemail: false,
            unheard: false,
        },
        metadata: std::collections::BTreeMap::new(),
        request_hash: None,
        trace_id: None,
    };
    let (from, to) = (PhoneNumber::new("+15550100123"), PhoneNumber::new("+447700900456"));
    let call_id = CallId::new("call-5e2c4b1f9a3d4c7e8b6a5d4c3b2a196e");
    let new = NewCall { call_id, from, to, appointment_id: Some("apt_201".to_owned()), plan };
    let ms = |ms: i64| Timestamp::from_millis(START_MS + ms);
    let lease = Duration::from_secs(60);
    let mut call = Call::schedule(new, &policy(), ms(0)).call;
    let dial = |call: &mut Call, at: i64| {
        *call = call.claim("token", Provider::Retell, lease, true, &policy(), ms(at)).unwrap().call;
        let started =
            call.start_dial("token", &format!("dial-{at}"), Provider::Retell, &policy(), ms(at + 180)).unwrap();
        *call = started.transition.call;
        started.attempt
    };
    let report = |call: &mut Call, attempt: &AttemptKey, kind: EventKind, at: i64, arrived: i64| {
        let mut one =
            event(call.call_id.as_str(), &format!("call_7f{attempt}:{kind}:{at}"), attempt.as_str(), kind, 0, 0);
        one.call_events[0].occurred_at = Some(ms(at));
        one.received_at = ms(arrived);
        *call = fold(Some(call), &[one], &policy(), ms(arrived + 41)).transition.unwrap().call;
    };
    dial(&mut call, 7_200_200);
    let refused = call.withdraw("dial-7200200", ms(7_204_000), &policy(), ms(7_200_900)).unwrap();
    call = refused.because("connection_refused").call;
    let busy = dial(&mut call, 7_211_000);
    report(&mut call, &busy, EventKind::Initiated, 7_212_000, 7_212_200);
    report(&mut call, &busy, EventKind::Ringing, 7_213_000, 7_226_000);
    report(&mut call, &busy, EventKind::Busy, 7_222_000, 7_222_100);
    let attempt = dial(&mut call, 7_320_000);
    call = call.doubted(ms(7_350_000)).unwrap();
    report(&mut call, &attempt, EventKind::InProgress, 7_370_000, 7_399_000);
    report(&mut call, &attempt, EventKind::Ringing, 7_362_000, 7_405_000);
    report(&mut call, &attempt, EventKind::UserConfirmed, 7_390_000, 7_391_000);
    report(&mut call, &attempt, EventKind::Completed, 7_440_000, 7_440_300);
    report(&mut call, &busy, EventKind::NoAnswer, 7_223_000, 18_743_000);
    FoundCall { call, how: How::CallId, others: Vec::new() }
}

#[test]
fn placed_call_is_told_in_short() {
    let story = timeline::story(&placed(), &policy(), Timestamp::from_millis(START_MS), None).unwrap();
    let ends = "Not placed (connection refused), then busy, then answered and confirmed.";
    assert!(story.in_short.starts_with(ends) && story.in_short.contains("by up to 3 h 12 min"), "{}", story.in_short);
    assert!(page(&placed(), None, None).contains("<figcaption>In short: Not placed"));
}

/// Senders of other systems may name no attempt.
#[test]
fn events_that_name_no_attempt_are_counted() {
    let unnamed = |id: &str, kind: EventKind, second: i64| ProviderEvent {
        attempt: None,
        provider_call_id: None,
        ..event("c", id, "k", kind, second, 0)
    };
    let shown = |call: Call| page(&FoundCall { call, how: How::CallId, others: Vec::new() }, None, None);
    let now = Timestamp::from_millis(START_MS + 3_600_000);
    let events = [
        unnamed("a", EventKind::Ringing, 0),
        unnamed("b", EventKind::InProgress, 5),
        unnamed("c", EventKind::Completed, 60),
    ];
    let only = shown(fold(None, &events, &policy(), now).transition.unwrap().call);
    assert!(only.contains("<td>3</td></tr></tbody></table>") && !only.contains("no attempt."), "{only}");
    assert!(only.contains("class=\"progress\""), "its phases are drawn: {only}");
    let two = call_of("c", 2, 3).call;
    let several =
        shown(fold(Some(&two), &[unnamed("d", EventKind::Completed, 2_000)], &policy(), now).transition.unwrap().call);
    assert_eq!(several.matches("<td>3</td></tr>").count(), 2, "{several}");
    assert!(several.contains("1 event names no attempt."), "{several}");
}
