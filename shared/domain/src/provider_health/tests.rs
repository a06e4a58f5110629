use std::collections::VecDeque;

use super::*;
use crate::event::NeverDialled;
use crate::number::PhoneNumber;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(0).plus(Duration::from_secs(seconds))
}

fn call(number: u64) -> CallId {
    CallId::new(format!("call-{number}"))
}

/// One dial per second, booked this number of seconds ahead.
fn pace(ahead: u32) -> Pace {
    Pace { interval: SECOND, ahead: ahead * SECOND, calls_max: None, in_flight: None, is_in_turn: true }
}

fn failed(failure: DialFailure) -> DialSignal<'static> {
    DialSignal::Failed { failure, cause: failure.as_str(), retry_after: None }
}

fn undialled(reason: NeverDialled, dialled_at: u64) -> DialSignal<'static> {
    DialSignal::Undialled { reason, dialled_at: at(dialled_at) }
}

/// Numbers of places that were booked together.
fn numbers(places: &[Place]) -> Vec<u64> {
    places.iter().map(|place| place.number).collect()
}

/// Returns the times in seconds of the dials of a provider that fails each of them for an hour. Each dial is sent as soon
/// as the health allows it, as a scheduler that looks every second would do.
fn dials_in_an_hour(failure: DialFailure) -> Vec<u64> {
    let mut health = ProviderHealth::new(Provider::Retell);
    let mut dials = Vec::new();
    for second in 0..3_600 {
        let (now, call_id) = (at(second), call(second));
        if health.needs_probe(now) {
            health = health.start_probe(&call_id, now).expect("open");
        }
        if health.allows(&call_id, now, now) {
            dials.push(second);
            health = health.after_dial(&call_id, failed(failure), now).unwrap_or(health);
        }
    }
    dials
}

#[test]
fn provider_that_fails_every_dial_for_an_hour_gets_a_handful() {
    let probes = [32, 92, 212, 452, 932, 1_832, 2_732];
    for failure in [DialFailure::AccountProblem, DialFailure::Unreachable, DialFailure::UnclearAnswer] {
        let expected: Vec<u64> = [0, 1, 2].into_iter().chain(probes).collect();
        assert_eq!(dials_in_an_hour(failure), expected, "{failure:?}");
    }
    let busy = dials_in_an_hour(DialFailure::Busy);
    assert_eq!(busy.len(), 19, "{busy:?}");
    assert!(busy[11] < 8 * 60, "the circuit opens after some minutes: {busy:?}");
}

#[test]
fn success_of_the_probe_closes_the_circuit_and_nothing_else_does() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for second in 0..3 {
        assert!(!health.is_open());
        health = health.after_dial(&call(second), failed(DialFailure::AccountProblem), at(second)).expect("changes");
    }
    let opened = health.domain_event().expect("opened");
    assert_eq!((opened.event_type.as_str(), opened.id.as_str()), ("provider.unavailable", "provider-health:retell/1"));
    assert_eq!(opened.reason, Some("account_problem"));
    // A dial that was under way when the circuit opened changes nothing. The first probe is due after 30 seconds.
    assert_eq!(health.after_dial(&call(9), DialSignal::Works, at(3)), None);
    assert!(!health.needs_probe(at(31)) && health.needs_probe(at(32)));
    let probing = health.start_probe(&call(4), at(32)).expect("open");
    assert!(!probing.needs_probe(at(60)) && probing.needs_probe(at(32 + 120)), "a lost probe is replaced");
    assert!(probing.allows(&call(4), at(32), at(33)) && !probing.allows(&call(5), at(32), at(33)));
    assert_eq!(probing.after_dial(&call(5), DialSignal::Works, at(33)), None);
    let closed = probing.after_dial(&call(4), DialSignal::Works, at(34)).expect("changes");
    assert!(closed.is_available(at(34)));
    let event = closed.domain_event().expect("closed");
    assert_eq!((event.event_type.as_str(), event.sequence, event.reason), ("provider.available", 2, None));
}

#[test]
fn probe_that_is_not_dialled_leaves_its_place_to_the_next_call() {
    let mut health = ProviderHealth::new(Provider::Retell);
    assert_eq!(health.release_probe(&call(4), at(0)), None);
    for second in 0..3 {
        health = health.after_dial(&call(second), failed(DialFailure::AccountProblem), at(second)).expect("changes");
    }
    assert_eq!(health.release_probe(&call(4), at(3)), None, "there is no probe");
    let probing = health.start_probe(&call(4), at(32)).expect("open");
    assert_eq!(probing.release_probe(&call(5), at(33)), None);
    let released = probing.release_probe(&call(4), at(33)).expect("the probe");
    assert!(released.needs_probe(at(33)) && !released.allows(&call(4), at(32), at(33)));
    assert_eq!(released.sequence, probing.sequence, "nothing is announced");
    // The pause after the next probe is the one that follows the first.
    let next = released.start_probe(&call(5), at(60)).expect("open");
    let refused = next.after_dial(&call(5), failed(DialFailure::AccountProblem), at(61)).expect("changes");
    assert!(!refused.needs_probe(at(120)) && refused.needs_probe(at(121)));
}

#[test]
fn refusals_of_one_number_open_no_circuit_and_those_of_several_numbers_do() {
    let refused =
        |number: &str| DialSignal::NumberRefused { number: PhoneNumber::new(number).tag(), cause: "call_blocked" };
    let healthy = ProviderHealth::new(Provider::Twilio);
    let mut health = healthy.after_dial(&call(0), refused("+15550101"), at(0)).expect("changes");
    for second in 1..100 {
        assert_eq!(health.after_dial(&call(second), refused("+1 555 0101"), at(second)), None);
    }
    assert_eq!(health.after_dial(&call(1), DialSignal::Works, at(1)), Some(healthy), "a call that works clears it");
    for number in ["+15550102", "+15550103"] {
        assert!(!health.is_open());
        health = health.after_dial(&call(100), refused(number), at(100)).expect("changes");
    }
    let opened = health.domain_event().expect("opened");
    assert_eq!((opened.reason, opened.cause.as_deref()), (Some("account_problem"), Some("call_blocked")));
    // A probe with one of these numbers proves nothing, so the pause stays the same. The refusal of another number doubles it.
    let probing = health.start_probe(&call(4), at(200)).expect("open");
    let same = probing.after_dial(&call(4), refused("+15550102"), at(200)).expect("changes");
    assert!(!same.needs_probe(at(229)) && same.needs_probe(at(230)));
    let other = probing.after_dial(&call(4), refused("+15550104"), at(200)).expect("changes");
    assert!(!other.needs_probe(at(259)) && other.needs_probe(at(260)));
    let closed = probing.after_dial(&call(4), DialSignal::Works, at(201)).expect("changes");
    assert!(closed.is_available(at(201)) && closed.refused_numbers.is_empty());
}

#[test]
fn health_remembers_few_refused_numbers() {
    let mut health = ProviderHealth::new(Provider::Twilio);
    for number in 0..40 {
        let refused = PhoneNumber::new(format!("+155501{number:02}")).tag();
        let signal = DialSignal::NumberRefused { number: refused, cause: "call_blocked" };
        health = health.start_probe(&call(number), at(number)).unwrap_or(health);
        health = health.after_dial(&call(number), signal, at(number)).unwrap_or(health);
        assert_eq!(health.refused_numbers.last(), Some(&refused));
    }
    assert_eq!(health.refused_numbers.len(), REFUSED_NUMBERS_MAX);
}

#[test]
fn accepted_calls_prove_nothing_until_one_of_them_is_heard_of() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for second in 0..6 {
        assert!(!health.is_open() && health.after_dial(&call(90), DialSignal::Works, at(second)).is_none());
        let report = undialled(NeverDialled::Capacity, second);
        health = health.after_dial(&call(second), report, at(second)).expect("changes");
    }
    assert_eq!(health.domain_event().expect("opened").reason, Some("not_dialled"));
    let probing = health.start_probe(&call(6), at(40)).expect("open");
    assert_eq!(probing.after_dial(&call(6), DialSignal::Works, at(41)), None, "an accepted probe proves nothing");
    let heard = |seconds| DialSignal::Heard { dialled_at: at(seconds) };
    assert_eq!(probing.after_dial(&call(0), heard(4), at(42)), None, "sent before the circuit opened");
    let failed_again = probing.after_dial(&call(6), undialled(NeverDialled::Unclear, 40), at(42)).expect("changes");
    assert!(failed_again.is_doubted() && !failed_again.needs_probe(at(101)) && failed_again.needs_probe(at(102)));
    let probing = failed_again.start_probe(&call(7), at(102)).expect("open");
    let closed = probing.after_dial(&call(7), heard(102), at(110)).expect("changes");
    assert!(closed.is_available(at(110)) && !closed.is_doubted() && closed.failure_score == 0);
    assert_eq!(closed.after_dial(&call(7), heard(102), at(111)), None, "later news of the call costs no write");
}

/// Plays an hour with 50 calls a second. The provider does not dial every n-th call. It reports that after two seconds, and that it
/// dialled a call after ten. Each dialer reads the health every three seconds. Returns the times in milliseconds at which the circuit opened.
fn openings(undialled_every: u64) -> Vec<u64> {
    let pace = Pace { interval: SECOND / 50, ..pace(120) };
    let mut health = ProviderHealth::new(Provider::Vapi);
    let (mut cached, mut openings) = (health.clone(), Vec::new());
    let (mut not_dialled, mut watched) = (VecDeque::new(), VecDeque::new());
    for number in 0..50 * 3_600 {
        let now = at(0).plus(SECOND / 50 * u32::try_from(number).expect("small"));
        if number % (50 * 60) == 0 {
            health = health.book(u64::MAX, &pace, now).map_or(health, |(booked, _)| booked);
        }
        if number % (50 * 3) == 0 {
            cached = health.clone();
        }
        if health.is_available(now) {
            if number % undialled_every == 0 {
                not_dialled.push_back(now);
            } else if cached.watches_dials(now) {
                watched.push_back(now);
            }
            health = health.after_dial(&call(number), DialSignal::Works, now).unwrap_or(health);
        }
        let was_open = health.is_open();
        let has_passed = |since: &Timestamp, time: Duration| since.plus(time) <= now;
        if let Some(dialled_at) = not_dialled.pop_front_if(|at| has_passed(at, SECOND * 2)) {
            let signal = DialSignal::Undialled { reason: NeverDialled::Unclear, dialled_at };
            health = health.after_dial(&call(number), signal, now).unwrap_or(health);
        }
        if let Some(dialled_at) = watched.pop_front_if(|at| has_passed(at, SECOND * 10)) {
            health = health.after_dial(&call(number), DialSignal::Heard { dialled_at }, now).unwrap_or(health);
        }
        openings.extend((health.is_open() && !was_open).then_some(number * 20));
    }
    openings
}

#[test]
fn few_calls_among_many_that_are_not_dialled_open_no_circuit() {
    assert_eq!([100, 3, 1].map(openings), [vec![], vec![2_300], vec![2_100]]);
}

/// No call was reported as dialled. Or an earlier version has dropped the number of places before the doubt.
#[test]
fn provider_that_fails_after_a_long_doubt_is_stopped_at_once() {
    let health = ProviderHealth::new(Provider::Retell);
    let doubted = health.after_dial(&call(0), undialled(NeverDialled::Unclear, 0), at(0)).expect("changes");
    let [(short, _), (long, _)] = [101, 3_000].map(|dials| doubted.book(dials, &pace(3_000), at(0)).expect("free"));
    let dropped = ProviderHealth { places_booked: 1_000_000, ..doubted };
    for mut health in [short, long, dropped] {
        assert!(health.dials_since_doubt(at(3_000)) > 100);
        for second in 3_000..3_003 {
            assert!(!health.is_open());
            let failure = failed(DialFailure::UnclearAnswer);
            health = health.after_dial(&call(second), failure, at(second)).expect("changes");
        }
        assert!(health.is_open(), "three failures in a row");
    }
}

#[test]
fn void_places_are_no_dials_since_a_doubt() {
    let (health, _) = ProviderHealth::new(Provider::Retell).book(120, &pace(120), at(0)).expect("free");
    let doubted = health.after_dial(&call(0), undialled(NeverDialled::Unclear, 9), at(10)).expect("changes");
    assert_eq!([10, 30, 500].map(|second| doubted.dials_since_doubt(at(second))), [0, 20, 110]);
    let slowed = doubted.after_dial(&call(1), failed(DialFailure::Busy), at(30)).expect("changes");
    assert_eq!([30, 500].map(|second| slowed.dials_since_doubt(at(second))), [20, 20]);
}

/// Retell accepts calls of an account without credit, and reports a moment later that it dialled nobody.
#[test]
fn late_refusals_because_of_the_account_open_the_circuit_like_early_ones() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for second in 0..3 {
        assert!(!health.is_open() && health.after_dial(&call(90), DialSignal::Works, at(second * 10)).is_none());
        let report = undialled(NeverDialled::Account, second * 10);
        health = health.after_dial(&call(second), report, at(second * 10 + 5)).expect("changes");
        assert!(
            health.is_doubted() && health.call_limit.since().is_none(),
            "credit is no matter of the number of calls"
        );
    }
    let event = health.domain_event().expect("opened");
    assert_eq!((event.reason, event.cause.as_deref()), (Some("account_problem"), Some("account_not_dialled")));
    // The answer to a probe proves nothing, and the report of an earlier dial of the same call neither.
    let probing = health.start_probe(&call(0), at(60)).expect("open");
    assert_eq!(probing.after_dial(&call(0), DialSignal::Works, at(61)), None);
    assert_eq!(probing.after_dial(&call(0), undialled(NeverDialled::Account, 24), at(62)), None);
    let failed_again = probing.after_dial(&call(0), undialled(NeverDialled::Account, 60), at(62)).expect("changes");
    assert!(failed_again.is_open() && !failed_again.needs_probe(at(121)) && failed_again.needs_probe(at(122)));
}

/// No call of this provider was reported as not dialled before, so its acceptance of the probe closed the circuit.
#[test]
fn report_that_the_accepted_probe_was_not_dialled_opens_the_circuit_again() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for second in 0..3 {
        health = health.after_dial(&call(second), failed(DialFailure::AccountProblem), at(second)).expect("changes");
    }
    let probing = health.start_probe(&call(0), at(32)).expect("open");
    let closed = probing.after_dial(&call(0), DialSignal::Works, at(34)).expect("changes");
    let account = |dialled_at| undialled(NeverDialled::Account, dialled_at);
    assert_eq!(closed.after_dial(&call(0), account(31), at(40)), None, "an earlier dial of the same call");
    assert_eq!(closed.after_dial(&call(1), account(33), at(40)), None, "a call that was not the probe");
    assert_eq!(closed.after_dial(&call(0), account(33), at(634)), None, "ten minutes later");

    let reopened = closed.after_dial(&call(0), account(33), at(40)).expect("changes");
    let event = reopened.domain_event().expect("opened");
    assert_eq!((event.event_type.as_str(), event.sequence), ("provider.unavailable", 3));
    assert_eq!((event.reason, event.cause.as_deref()), (Some("account_problem"), Some("account_not_dialled")));
    // It is as if the report had come before the answer: the pause has doubled, and an accepted probe proves nothing.
    let early = probing.after_dial(&call(0), account(33), at(40)).expect("changes");
    assert_eq!((&reopened.circuit, reopened.doubted_since), (&early.circuit, early.doubted_since));
    assert!(!reopened.needs_probe(at(99)) && reopened.needs_probe(at(100)));
    assert_eq!(reopened.after_dial(&call(0), account(33), at(41)), None, "it counts once");
    let probing = reopened.start_probe(&call(2), at(100)).expect("open");
    assert_eq!(probing.after_dial(&call(2), DialSignal::Works, at(101)), None);
}

/// The report about the probe is so late that later calls have been dialled.
#[test]
fn call_that_is_dialled_after_the_accepted_probe_confirms_it() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for second in 0..3 {
        health = health.after_dial(&call(second), failed(DialFailure::AccountProblem), at(second)).expect("changes");
        assert!(!health.watches_dials(at(second)));
    }
    let probing = health.start_probe(&call(0), at(32)).expect("open");
    let closed = probing.after_dial(&call(0), DialSignal::Works, at(34)).expect("changes");
    assert!(
        closed.watches_dials(at(634)) && !closed.watches_dials(at(635)),
        "a later report of the probe does not count"
    );
    let heard = |dialled_at| DialSignal::Heard { dialled_at: at(dialled_at) };
    assert_eq!(closed.after_dial(&call(4), heard(33), at(40)), None, "sent before the circuit closed");

    let confirmed = closed.after_dial(&call(4), heard(34), at(40)).expect("changes");
    assert_eq!((confirmed.closed_by.as_ref(), confirmed.sequence), (None, closed.sequence));
    assert!(!confirmed.watches_dials(at(40)));
    assert_eq!(confirmed.after_dial(&call(5), heard(35), at(41)), None, "it costs one write");
    assert_eq!(confirmed.after_dial(&call(0), undialled(NeverDialled::Account, 33), at(42)), None);
}

#[test]
fn old_report_of_a_dial_that_was_not_made_opens_no_circuit() {
    let health = ProviderHealth::new(Provider::Retell);
    assert_eq!(health.after_dial(&call(1), undialled(NeverDialled::Account, 100), at(701)), None, "ten minutes");
    assert!(health.after_dial(&call(1), undialled(NeverDialled::Account, 100), at(700)).is_some());
    // The credit was used up, and was paid: reports from before say nothing about the provider since.
    let closed = ProviderHealth { sequence: 2, changed_at: Some(at(500)), ..health };
    assert_eq!(closed.after_dial(&call(1), undialled(NeverDialled::Account, 499), at(501)), None);
    assert!(closed.after_dial(&call(1), undialled(NeverDialled::Account, 500), at(501)).is_some());
}

#[test]
fn report_of_a_call_that_was_dialled_clears_failures_of_single_calls() {
    let mut health = ProviderHealth::new(Provider::Retell);
    for hour in 0..24 {
        let now = at(hour * 3_600);
        let report = undialled(NeverDialled::Unclear, hour * 3_600);
        health = health.after_dial(&call(1), report, now).expect("changes");
        let heard = DialSignal::Heard { dialled_at: now.plus(10 * SECOND) };
        assert_eq!(health.after_dial(&call(0), DialSignal::Heard { dialled_at: at(0) }, now).is_some(), hour == 0);
        health = health.after_dial(&call(2), heard, now.plus(20 * SECOND)).expect("changes");
    }
    assert!(!health.is_open() && health.failure_score == 0);
}

#[test]
fn dial_that_works_changes_nothing_at_a_healthy_provider() {
    let health = ProviderHealth::new(Provider::Twilio);
    assert_eq!(health.after_dial(&call(1), DialSignal::Works, at(1)), None);
    let doubtful = health.after_dial(&call(1), failed(DialFailure::UnclearAnswer), at(1)).expect("changes");
    let works = doubtful.after_dial(&call(2), DialSignal::Works, at(2)).expect("changes");
    assert_eq!(works, health);
}

#[test]
fn busy_provider_is_paused_and_slowed_down_once_per_burst() {
    let health = ProviderHealth::new(Provider::Retell);
    let busy = health.after_dial(&call(1), failed(DialFailure::Busy), at(100)).expect("changes");
    assert!(!busy.is_available(at(101)) && busy.is_available(at(102)));
    assert_eq!(busy.after_dial(&call(2), failed(DialFailure::Busy), at(100)), None);
    assert!(!busy.allows(&call(3), at(99), at(102)), "a claim from before the slowdown is void");
    assert!(busy.allows(&call(3), at(102), at(102)));
    assert_eq!(busy.free_places(&pace(60), at(101)), 0);
    assert_eq!(busy.free_places(&pace(60), at(102)), 30);
    // Half of the rate comes back in 25 minutes.
    assert_eq!(busy.free_places(&pace(60), at(100 + 25 * 60)), 60);
    let signal = DialSignal::Failed {
        failure: DialFailure::Busy,
        cause: "rate_limited",
        retry_after: Some(Duration::from_secs(300)),
    };
    let asked = health.after_dial(&call(1), signal, at(0)).expect("changes");
    assert!(!asked.is_available(at(299)) && asked.is_available(at(300)));
}

#[test]
fn claims_book_the_dial_rate_and_no_more() {
    let health = ProviderHealth::new(Provider::Retell);
    let (health, booked) = health.book(100, &pace(60), at(0)).expect("free");
    assert_eq!((numbers(&booked), health.booked_until), ((0..60).collect(), Some(at(60))));
    assert_eq!(health.book(1, &pace(60), at(0)), None);
    // A scheduler that may book further ahead still finds free places.
    let (health, booked) = health.book(100, &pace(120), at(0)).expect("free");
    assert_eq!((numbers(&booked), health.booked_until), ((60..120).collect(), Some(at(120))));
    assert_eq!(health.free_places(&pace(60), at(61)), 1);
    // However low the rate is, an idle provider gets a call.
    let slow = Pace { interval: 1_000 * SECOND, ..pace(60) };
    let (health, booked) = ProviderHealth::new(Provider::Vapi).book(5, &slow, at(0)).expect("free");
    assert_eq!((numbers(&booked), health.booked_until), ((0..1).collect(), Some(at(1_000))));
    // A rate that is no whole number of milliseconds is kept.
    let odd = Pace { interval: SECOND / 194, ..pace(60) };
    let (health, booked) = ProviderHealth::new(Provider::Vapi).book(20_000, &odd, at(0)).expect("free");
    assert_eq!((numbers(&booked), health.booked_until), ((0..11_640).collect(), Some(at(60))));
    let mut one_by_one = ProviderHealth::new(Provider::Vapi);
    while let Some((next, _)) = one_by_one.book(1, &odd, at(0)) {
        one_by_one = next;
    }
    assert!((9_900..=11_640).contains(&one_by_one.places_booked), "{}", one_by_one.places_booked);
}

/// At this rate only the limit on calls in flight holds calls back.
fn pace_with(calls_max: Option<u64>, claimed: u64, dialled: u64) -> Pace {
    Pace { interval: SECOND / 100, calls_max, in_flight: Some(CallsInFlight { claimed, dialled }), ..pace(120) }
}

#[test]
fn claims_and_calls_in_flight_keep_to_the_configured_limit() {
    let health = ProviderHealth::new(Provider::Retell);
    assert_eq!(health.free_places(&Pace { in_flight: None, ..pace_with(Some(20), 0, 0) }, at(0)), 0, "nobody counted");
    let (health, booked) = health.book(100, &pace_with(Some(20), 3, 5), at(0)).expect("free");
    assert_eq!(numbers(&booked), Vec::from_iter(0..12));
    // Until the index shows these claims, their places are taken. A count that shows them before takes them twice.
    assert!(health.is_full(&pace_with(Some(20), 3, 5), at(9)) && health.is_full(&pace_with(Some(20), 15, 5), at(9)));
    assert!(health.is_full(&pace_with(Some(20), 15, 5), at(10)));
    assert_eq!(health.free_places(&pace_with(Some(20), 9, 5), at(10)), 6);
    let lowered = &pace_with(Some(20), 30, 0);
    assert_eq!(health.book(9, lowered, at(10)), None, "a lowered limit cancels no claim");
}

#[test]
fn calls_that_wait_for_one_in_flight_to_end_come_first() {
    let (full, free) = (pace_with(Some(20), 0, 20), pace_with(Some(20), 0, 15));
    let woken = Pace { is_in_turn: false, ..free };
    let health = ProviderHealth::new(Provider::Retell);
    assert_eq!((health.calls_wait(&full, at(0)), health.free_places(&woken, at(0))), (false, 5));
    // The scheduler that finds the provider full notes it. For half a minute, no other one writes that again.
    let (noted, booked) = health.book(1, &full, at(0)).expect("a note");
    assert_eq!((booked, noted.calls_wait(&full, at(0))), (Vec::new(), true));
    assert_eq!(noted.book(1, &full, at(29)), None);
    let (renewed, _) = noted.book(1, &full, at(30)).expect("a note");
    assert!(!noted.calls_wait(&full, at(90)) && renewed.calls_wait(&full, at(119)));
    // Places are for the calls that wait.
    assert_eq!((noted.free_places(&woken, at(1)), noted.free_places(&free, at(1))), (0, 5));
    assert_eq!(noted.book(1, &woken, at(1)), None);
    let (booked, places) = noted.book(9, &free, at(1)).expect("free");
    assert_eq!((numbers(&places), booked.calls_wait(&free, at(1))), ((0..5).collect(), true));
    // The note outlasts a refusal. It ends when no call waits, and means nothing without a limit.
    let refused = noted.after_dial(&call(1), failed(DialFailure::TooManyCalls), at(2)).expect("changes");
    let ended = noted.without_waiting().expect("was noted");
    assert!(refused.calls_wait(&full, at(10)) && !ended.calls_wait(&full, at(10)));
    assert_eq!((ended.without_waiting(), noted.calls_wait(&pace(60), at(10))), (None, false));
}

#[test]
fn reservations_end_however_often_places_are_booked() {
    let mut health = ProviderHealth::new(Provider::Retell);
    let mut booked = 0;
    for tenth in 0..1_000 {
        let now = Timestamp::from_millis(tenth * 100);
        // No call stays in flight, and one place in ten seconds' reservations is always free.
        if let Some((next, places)) = health.book(1, &pace_with(Some(50), 0, 0), now) {
            (health, booked) = (next, booked + places.len());
        }
    }
    assert!((400..=600).contains(&booked) && health.call_limit != CallLimit::default(), "{booked}");
}

#[test]
fn schedulers_share_a_count_for_seconds() {
    let health = ProviderHealth::new(Provider::Retell);
    assert_eq!(health.call_limit.recent_count(at(0)), None);
    let calls = CallsInFlight { claimed: 3, dialled: 5 };
    let counted = health.with_count(calls, at(100)).expect("the first");
    assert_eq!(counted.call_limit.recent_count(at(104)), Some((calls, at(100))));
    assert_eq!(counted.call_limit.recent_count(at(105)), None);
    assert_eq!(counted.with_count(calls, at(99)), None, "an earlier count");
    // The limit that follows from a refusal needs a count that began after it.
    let refused = counted.after_dial(&call(1), failed(DialFailure::TooManyCalls), at(102)).expect("changes");
    assert_eq!((refused.call_limit.recent_count(at(103)), refused.with_count(calls, at(101))), (None, None));
    // Claims are reserved beside the count, for longer than it is used.
    let (booked, _) = counted.book(100, &pace_with(Some(20), 3, 5), at(100)).expect("free");
    assert!(booked.is_full(&pace_with(Some(20), 3, 5), at(104)));
    // A pause gives up the reservations. Without them, the count lacks the calls that were dialled since.
    let slowed = booked.after_dial(&call(1), failed(DialFailure::Busy), at(102)).expect("slows down");
    assert_eq!((slowed.call_limit.recent_count(at(104)), slowed.with_count(calls, at(101))), (None, None));
}

#[test]
fn refusal_limits_the_calls_to_those_that_the_provider_had() {
    let health = ProviderHealth::new(Provider::Retell);
    let refused = health.after_dial(&call(1), failed(DialFailure::TooManyCalls), at(100)).expect("changes");
    assert!(!refused.is_available(at(104)) && refused.is_available(at(105)) && refused.call_limit.needs_count());
    assert!(!refused.allows(&call(2), at(99), at(105)), "a claim from before the refusal is void");
    assert_eq!(refused.rate(at(105)), FULL_RATE);
    assert_eq!(refused.after_dial(&call(2), failed(DialFailure::TooManyCalls), at(101)), None, "it was sent before");

    // 600 calls were claimed at the configured rate, and 20 of them were dialled.
    let limited = refused.counted(CallsInFlight { claimed: 580, dialled: 20 }, at(102)).expect("was refused");
    assert_eq!(
        (limited.counted(CallsInFlight::default(), at(102)), limited.call_limit.calls_max(None, at(105))),
        (None, Some(20))
    );
    assert!(!limited.allows(&call(2), at(99), at(105)) && limited.allows(&call(2), at(101), at(105)));
    assert_eq!(limited.call_limit.calls_max(Some(7), at(105)), Some(7));
    assert_eq!(limited.free_places(&pace_with(None, 4, 10), at(105)), 6);
    // It grows by 2 % a minute, and ends.
    assert_eq!(limited.call_limit.calls_max(None, at(100 + 10 * 60)), Some(24));
    assert_eq!(limited.call_limit.calls_max(None, at(100 + 3_599)), Some(43));
    assert_eq!(limited.call_limit.calls_max(None, at(100 + 3_600)), None);

    // Calls that ended and were not reported yet let the count be too high. So each further refusal lowers the limit.
    let again = limited.after_dial(&call(3), failed(DialFailure::TooManyCalls), at(110)).expect("changes");
    let lowered = again.counted(CallsInFlight { claimed: 0, dialled: 30 }, at(112)).expect("was refused");
    assert_eq!(lowered.call_limit.calls_max(None, at(115)), Some(18));
    let again = lowered.after_dial(&call(3), failed(DialFailure::TooManyCalls), at(130)).expect("changes");
    let least = again.counted(CallsInFlight::default(), at(131)).expect("was refused");
    assert_eq!(least.call_limit.calls_max(None, at(131)), Some(1), "one call is always tried");
    assert_eq!(least.call_limit.calls_max(None, at(130 + 5 * 60)), Some(2));
}

#[test]
fn call_of_another_provider_is_a_probe_only_if_it_comes_to_no_harm_or_no_other_call_is_found() {
    for (failure, spared) in [(DialFailure::UnclearAnswer, true), (DialFailure::AccountProblem, false)] {
        let mut health = ProviderHealth::new(Provider::Vapi);
        for second in 0..3 {
            assert!(!health.spares_calls_of_others(at(second)));
            health = health.after_dial(&call(second), failed(failure), at(second)).expect("changes");
        }
        assert!(health.needs_probe(at(32)));
        assert_eq!(health.spares_calls_of_others(at(151)), spared, "{failure:?}");
        assert!(!health.spares_calls_of_others(at(152)), "no call names this provider alone");
    }
}

/// The calls of a burst may have ended when the calls are counted.
#[test]
fn count_that_comes_a_minute_after_a_refusal_limits_nothing() {
    let health = ProviderHealth::new(Provider::Retell);
    let refused = health.after_dial(&call(1), failed(DialFailure::TooManyCalls), at(100)).expect("changes");
    let late = refused.counted(CallsInFlight::default(), at(160)).expect("was refused");
    assert_eq!((late.call_limit.calls_max(None, at(160)), late.call_limit.needs_count()), (None, false));
    // A further refusal lowers the present limit by a tenth, however many calls are left.
    let limited = refused.counted(CallsInFlight { claimed: 0, dialled: 30 }, at(101)).expect("was refused");
    let again = limited.after_dial(&call(1), failed(DialFailure::TooManyCalls), at(110)).expect("changes");
    let late = again.counted(CallsInFlight::default(), at(170)).expect("was refused");
    assert_eq!(late.call_limit.calls_max(None, at(110)), Some(27));
}

/// Retell and Vapi refuse single calls for reasons that they do not say, and name their capacity by reasons of their own.
#[test]
fn call_that_is_refused_for_its_own_sake_limits_no_other() {
    let health = ProviderHealth::new(Provider::Retell);
    let unclear = health.after_dial(&call(1), undialled(NeverDialled::Unclear, 99), at(100)).expect("changes");
    assert_eq!((unclear.call_limit.calls_max(None, at(100)), unclear.call_limit.needs_count()), (None, false));
    assert!(unclear.allows(&call(2), at(99), at(100)), "claims stay valid, and nothing is paused");
    let capacity = health.after_dial(&call(1), undialled(NeverDialled::Capacity, 99), at(100)).expect("changes");
    assert!(capacity.call_limit.needs_count() && !capacity.allows(&call(2), at(99), at(100)));
}

mod random {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// A scheduler claims up to this many calls, and every claim is dialled at once.
        Claim(u64),
        Answer(u64, Option<DialFailure>),
        Trigger(u64),
        /// News of a call that was dialled at this time.
        Heard(u64),
        /// News that a call which was dialled at this time was accepted and not dialled.
        Undialled(u64, NeverDialled, u64),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let failure = prop_oneof![
            3 => Just(None),
            4 => (0..DialFailure::ALL.len()).prop_map(|index| DialFailure::ALL.get(index).copied()),
        ];
        prop_oneof![
            (1_u64..200).prop_map(Step::Claim),
            (0_u64..4, failure).prop_map(|(number, failure)| Step::Answer(number, failure)),
            (0_u64..4).prop_map(Step::Trigger),
            (0_u64..4_000).prop_map(Step::Heard),
            (0_u64..4, prop::sample::select(NeverDialled::ALL.to_vec()), 0_u64..4_000)
                .prop_map(|(number, reason, dialled_at)| Step::Undialled(number, reason, dialled_at)),
            (0_u64..400).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #![proptest_config(switchhook_random::config(2_000, None))]

        #[test]
        fn circuit_opens_and_closes_in_turn_and_claims_keep_the_rate(steps in prop::collection::vec(step(), 1..80)) {
            let mut health = ProviderHealth::new(Provider::Retell);
            // Claims since the last slowdown. Those from before are void.
            let (mut now, mut since, mut claimed) = (0_u64, 0_u64, 0_u64);
            for step in steps {
                let before = health.clone();
                match step {
                    Step::Wait(seconds) => now += seconds,
                    Step::Claim(wanted) => {
                        if let Some((next, booked)) = health.book(wanted, &pace(60), at(now)) {
                            let booked = booked.len() as u64;
                            prop_assert!(booked >= 1 && booked <= wanted && health.is_available(at(now)));
                            claimed += booked;
                            health = next;
                        }
                        let seconds = now - since;
                        prop_assert!(claimed <= seconds + 61, "{claimed} claims in {seconds} s at one per second");
                    }
                    Step::Trigger(number) => {
                        let next = health.start_probe(&call(number), at(now));
                        prop_assert_eq!(next.is_some(), health.is_open());
                        health = next.unwrap_or(health);
                    }
                    Step::Heard(dialled_at) => {
                        let signal = DialSignal::Heard { dialled_at: at(dialled_at) };
                        let Some(next) = health.after_dial(&call(0), signal, at(now)) else { continue };
                        prop_assert!(!next.is_open() && !next.is_doubted() && next.failure_score == 0);
                        health = next;
                    }
                    Step::Undialled(number, reason, dialled_at) => {
                        let allowed = health.allows(&call(number), at(now), at(now));
                        let signal = undialled(reason, dialled_at);
                        let Some(next) = health.after_dial(&call(number), signal, at(now)) else { continue };
                        prop_assert!(now <= dialled_at + 600, "old reports say nothing");
                        prop_assert!(next.is_doubted() && (allowed || !before.is_open()));
                        if next.call_limit.since() != health.call_limit.since() {
                            (since, claimed) = (now, 0);
                        }
                        health = next;
                    }
                    Step::Answer(number, failure) => {
                        let signal = failure.map_or(DialSignal::Works, failed);
                        let allowed = health.allows(&call(number), at(now), at(now));
                        let Some(next) = health.after_dial(&call(number), signal, at(now)) else { continue };
                        prop_assert_ne!(&next, &health, "a change is written, and nothing else");
                        if (next.slowdown, next.call_limit.since()) != (health.slowdown, health.call_limit.since()) {
                            (since, claimed) = (now, 0);
                        }
                        if before.is_open() {
                            prop_assert!(allowed, "only the probe counts");
                            prop_assert_eq!(next.is_open(), failure.is_some());
                        }
                        prop_assert!(failure.is_some() || !before.is_doubted(), "an accepted call proves nothing");
                        health = next;
                    }
                }
                // Each change is announced once, and the announcements alternate.
                let changed = before.is_open() != health.is_open();
                prop_assert_eq!(health.sequence, before.sequence + u64::from(changed));
                prop_assert_eq!(health.is_open(), health.sequence % 2 == 1);
            }
            // Whatever happened, a provider that works again gets calls again within the longest pause.
            let later = at(now).plus(PROBE_PAUSE_MAX);
            if health.needs_probe(later) {
                let probing = health.start_probe(&call(7), later).expect("open");
                let signal =
                    if health.is_doubted() { DialSignal::Heard { dialled_at: later } } else { DialSignal::Works };
                health = probing.after_dial(&call(7), signal, later).expect("closes");
            }
            prop_assert!(health.is_available(later));
        }
    }
}
