//! Measures the fold of the core, without any request. Prints one line per case: nanoseconds per fold, a tab, and the case.
//!
//! Each case is measured in rounds, and the fastest counts, because other programs on the machine only add time.

#![expect(clippy::print_stdout, reason = "the output is what `make bench` reads")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, Direction, EventId, EventKind, Origin, PhoneNumber, Policy, Provider,
    ProviderEvent, ProviderSet, Timestamp, fold,
};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(4_500), outcome_providers: ProviderSet::ALL };
const NOW: Timestamp = Timestamp::from_millis(1_800_000_100_000);
/// Events of the call that a late event arrives for.
const HISTORY: usize = 50;
const ROUNDS: u32 = 30;
const FOLDS_PER_ROUND: u32 = 500;

/// Kinds of the events of a call. A longer history repeats them.
const KINDS: [EventKind; 5] =
    [EventKind::Initiated, EventKind::Ringing, EventKind::InProgress, EventKind::UserConfirmed, EventKind::Completed];

fn main() {
    for count in [1, 10, 64] {
        let events: Vec<ProviderEvent> = (0..count).map(event).collect();
        report(&format!("{count} events into a new call"), None, &events);
    }
    let history: Vec<ProviderEvent> = (0..HISTORY + 1).filter(|number| *number != 1).map(event).collect();
    let call = fold(None, &history, &POLICY, NOW).transition.map(|transition| transition.call);
    report(&format!("1 late event into a call with {HISTORY}"), call.as_ref(), &[event(1)]);
    // The fold asks more of the events of an attempt that Switchhook dialled.
    let dialled = call.map(|mut call| {
        for record in &mut call.attempt_records {
            record.provider = Some(Provider::Retell);
            record.dialled_at = Some(call.created_at);
        }
        call
    });
    report(&format!("1 late event into a dialled call with {HISTORY}"), dialled.as_ref(), &[event(1)]);
}

fn report(case: &str, call: Option<&Call>, events: &[ProviderEvent]) {
    let round = |_| {
        let started = Instant::now();
        for _ in 0..FOLDS_PER_ROUND {
            black_box(fold(black_box(call), black_box(events), &POLICY, NOW));
        }
        started.elapsed() / FOLDS_PER_ROUND
    };
    let fastest = (0..ROUNDS).map(round).min().unwrap_or_default();
    println!("{}\t{case}", fastest.as_nanos());
}

/// Event of a call at Retell, by its number in the canonical order.
fn event(number: usize) -> ProviderEvent {
    let kind = KINDS.iter().cycle().nth(number).copied().unwrap_or(EventKind::Ringing);
    let occurred_at = Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(number as u64));
    let call_id = CallId::new("retell:call_8f3e2a71c5d94b06a1e7f0c2d4b6");
    let (event_id, origin) = (EventId::new(format!("{call_id}:{kind}:{number}")), Origin::Provider(Provider::Retell));
    ProviderEvent {
        attempt: Some(AttemptKey::new(call_id.as_str())),
        provider_call_id: Some("call_8f3e2a71c5d94b06a1e7f0c2d4b6".to_owned()),
        appointment_id: Some("appt_4711".to_owned()),
        direction: Some(Direction::Outbound),
        from: Some(PhoneNumber::new("+15550199")),
        to: Some(PhoneNumber::new("+15550100")),
        call_events: vec![CallEvent::new(kind, Some(occurred_at))],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), call_id, occurred_at)
    }
}
