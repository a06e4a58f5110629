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
use switchhook_tests::{INACTIVITY_TIMEOUT, World};

use crate::traffic::at;

const POLICY: Policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: ProviderSet::ALL };

/// A provider event with one call event, both at `second` seconds after the start of the test.
fn provider_event(call_id: &str, event_id: &str, kind: EventKind, second: u64) -> ProviderEvent {
    let (event_id, origin) = (EventId::new(event_id), Origin::Provider(Provider::Generic));
    ProviderEvent {
        attempt: Some(AttemptKey::new("a1")),
        provider_call_id: Some("a1".to_owned()),
        call_events: vec![CallEvent::new(kind, Some(at(second)))],
        ..ProviderEvent::new(event_id, origin, kind.as_str(), CallId::new(call_id), at(second))
    }
}

/// The call that a fold of these events into `call` gives.
fn folded(call: Option<&Call>, events: &[ProviderEvent], second: u64) -> Call {
    fold(call, events, &POLICY, at(second)).transition.unwrap().call
}

async fn store(world: &World, call: &Call) -> StoreOutcome {
    world.calls.store(&unannounced(call)).await.unwrap()
}

/// A transition to this call that announces nothing.
fn unannounced(call: &Call) -> Transition {
    Transition { call: call.clone(), new_announcements: 0 }
}
