//! Events of other senders about attempts that Switchhook dialled.

use super::*;

/// The team's own agent reports the attempt with its own id before the answer to the dial arrives, or after it.
#[test]
fn id_of_another_sender_is_not_the_provider_call_id_of_a_dial() {
    let call = dialled(&call_with(RETRY), 10);
    let mut of_agent = reports("started", "1", EventKind::Initiated, 12);
    of_agent.event_id = EventId::new("generic:started");
    of_agent.origin = Origin::Provider(Provider::Generic);
    of_agent.provider_call_id = Some("room-77".to_owned());
    let accepted = call.dial_accepted_event(&AttemptKey::new("1"), "p1", at(11));
    let id = |call: &Call| call.attempt_records[0].provider_call_id.clone();
    assert_eq!(id(&folded(&call, &of_agent)), None);
    for named in [accepted, reports("ringing", "1", EventKind::Ringing, 11)] {
        for [first, second] in [[&of_agent, &named], [&named, &of_agent]] {
            assert_eq!(id(&folded(&folded(&call, first), second)).as_deref(), Some("p1"));
        }
    }
    // Switchhook did not dial this attempt, so whoever reports it names its id.
    assert_eq!(id(&folded(&call_with(RETRY), &of_agent)).as_deref(), Some("room-77"));
}
