use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::call::Policy;
use crate::event::{AttemptKey, CallEvent, CallId, EventId, EventKind, Origin, ProviderEvent};
use crate::fold::fold;
use crate::provider::{Provider, ProviderSet};

const POLICY: Policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };
/// Kinds of events. The call keeps only the latest of each, so that an earlier one is not known any more.
const FORGOTTEN: [EventKind; 2] = [EventKind::Alive, EventKind::ClaimExpired];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn event(n: usize, kind: EventKind, attempt: Option<&str>, occurred: Option<i64>, received: i64) -> ProviderEvent {
    let is_own = !kind.is_evidence();
    let (sender, origin) =
        if is_own { ("switchhook", Origin::Switchhook) } else { ("retell", Origin::Provider(Provider::Retell)) };
    let occurred_at = if is_own { Some(at(received)) } else { occurred.map(at) };
    let event_id = EventId::new(format!("{sender}:e{n}"));
    ProviderEvent {
        attempt: attempt.map(AttemptKey::new),
        provider_call_id: attempt.map(str::to_owned),
        appointment_id: Some("apt".to_owned()),
        call_events: vec![CallEvent::new(kind, occurred_at)],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new("retell:c"), at(received))
    }
}

fn some_events() -> impl Strategy<Value = Vec<ProviderEvent>> {
    let kinds: Vec<EventKind> = EventKind::ALL.into_iter().filter(|kind| !FORGOTTEN.contains(kind)).collect();
    let attempt = prop::option::of(prop::sample::select(vec!["a", "b"]));
    let one = (prop::sample::select(kinds), attempt, prop::option::of(0..6_i64));
    prop::collection::vec(one, 1..9).prop_map(|all| {
        let events = all.into_iter().enumerate();
        let opener = event(99, EventKind::Initiated, None, Some(0), 100);
        let rest = events.map(|(n, (kind, attempt, occurred))| {
            event(n, kind, attempt, occurred, 100 + i64::try_from(n).expect("small"))
        });
        [opener].into_iter().chain(rest).collect()
    })
}

mod random {
    use super::*;

    proptest! {
        #![proptest_config(switchhook_random::config(2_000, None))]

        /// The state as of the time of a write is the row that was written then.
        #[test]
        fn invariant_past_call_is_the_row_that_was_written_then(events in some_events(), size in 1..4_usize) {
            let mut rows: Vec<Call> = Vec::new();
            for (n, batch) in events.chunks(size).enumerate() {
                let now = at(1_000 + i64::try_from(n).expect("small"));
                rows.extend(fold(rows.last(), batch, &POLICY, now).transition.map(|it| it.call));
            }
            let last = rows.last().expect("the first event opens a call");
            prop_assert_eq!(last.as_of(at(99)), None);
            for row in &rows {
                for time in [row.updated_at, Timestamp::from_millis(row.updated_at.as_millis() + 999)] {
                    let past = last.as_of(time).expect("known by then");
                    prop_assert_eq!(past.job, Some(row.job.state()));
                    prop_assert_eq!(&past.call.history, &row.history);
                    prop_assert_eq!(past.call.attempts(), row.attempts());
                    prop_assert_eq!(&past.call.job, &row.job);
                    prop_assert_eq!(past.call.appointment_status(), row.appointment_status());
                    prop_assert_eq!(&past.call.announcements, &row.announcements);
                    prop_assert_eq!(past.call.domain_events_from(1), row.domain_events_from(1));
                }
            }
        }
    }
}
