//! The tables: the conditions on writes, the content of rows, and the entries of the indexes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod calls;
mod documents;
mod inbox;
mod parties;
mod random;
mod several;
mod sizes;

use switchhook_aws::calls::StoreOutcome;
use switchhook_domain::{
    AttemptKey, Call, CallEvent, CallId, EventId, EventKind, Origin, Policy, Provider, ProviderEvent, ProviderSet,
    Transition, fold,
};
use switchhook_tests::{CALL_RETENTION, INACTIVITY_TIMEOUT, World};

use crate::traffic::at;

const POLICY: Policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: ProviderSet::ALL };

/// A provider event with one call event, both at `second` seconds after the start of the test.
fn provider_event(call_id: &str, event_id: &str, kind: EventKind, second: u64) -> ProviderEvent {
    ProviderEvent {
        event_id: EventId::new(event_id),
        origin: Origin::Provider(Provider::Generic),
        event_type: kind.as_str().to_owned(),
        call_id: CallId::new(call_id),
        attempt: Some(AttemptKey::new("a1")),
        provider_call_id: Some("a1".to_owned()),
        appointment_id: None,
        direction: None,
        from: None,
        to: None,
        block_number: false,
        entity: None,
        booking: None,
        dialled_provider: None,
        forgotten_at: None,
        trace_id: None,
        received_at: at(second),
        call_events: vec![CallEvent {
            kind,
            implied: false,
            occurred_at: Some(at(second)),
            sequence: None,
            permanent: false,
            never_dialled: None,
        }],
    }
}

/// The call that a fold of these events into `call` gives.
fn folded(call: Option<&Call>, events: &[ProviderEvent], second: u64) -> Call {
    fold(call, events, &POLICY, at(second)).transition.unwrap().call
}

async fn store(world: &World, call: &Call) -> StoreOutcome {
    world.calls.store(&unannounced(call), CALL_RETENTION).await.unwrap()
}

/// A transition to this call that announces nothing.
fn unannounced(call: &Call) -> Transition {
    Transition { call: call.clone(), new_announcements: 0 }
}
