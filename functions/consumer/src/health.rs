//! News about dials that change the health of a provider.

use switchhook_aws::telemetry::Decision;
use switchhook_domain::{
    Call, Circuit, DialSignal, Origin, Provider, ProviderEvent, ProviderHealth, Timestamp, Undialled,
};

use crate::Consumer;

impl Consumer {
    /// Updates the health of a provider by the first event that says that an accepted dial was not made, and by each event that proves
    /// a [watched](switchhook_domain::AttemptRecord::is_watched) dial. An error is logged and otherwise ignored: the next such event updates
    /// the health again.
    pub(crate) async fn note_dials(&self, call: Option<&Call>, folded: &[&ProviderEvent], now: Timestamp) {
        let signals = folded.iter().filter_map(|event| Some((event, dial_signal(call, event)?)));
        for (event, (provider, signal)) in signals {
            let change = |health: &ProviderHealth| {
                let next = health.after_dial(&event.call_id, signal, now)?;
                let has_changed = next.sequence != health.sequence;
                let opened_by = match next.circuit {
                    Circuit::Open { failure, .. } => Some(failure),
                    Circuit::Closed => None,
                };
                Some((next, has_changed.then_some(opened_by)))
            };
            let changed = self.calls.change_provider_health(provider, change).await;
            let (action_taken, cause) = match &changed {
                Ok(None | Some(None)) => continue,
                Ok(Some(Some(Some(failure)))) => ("circuit_open", Some(failure.as_str())),
                Ok(Some(Some(None))) => ("circuit_closed", None),
                Err(_) => ("health_not_noted", None),
            };
            let failure = Decision::from_error(changed.as_ref().err());
            let decision = Decision {
                function: "consumer",
                message: if changed.is_ok() {
                    "a report of a dial changed the provider's circuit"
                } else {
                    "provider's health not updated"
                },
                action_taken,
                provider: Some(provider.as_str()),
                cause: cause.or(failure.cause),
                ..failure
            };
            decision.log(now, changed.is_err());
        }
    }
}

/// Returns what a folded event means for the health of its provider. `None` if it means nothing.
fn dial_signal(call: Option<&Call>, event: &ProviderEvent) -> Option<(Provider, DialSignal<'static>)> {
    let call = call?;
    // If the provider said so in its answer to the dial, the event is Switchhook's own, and the dialer has noted the answer.
    let undialled = call.undialled(&event.event_id).filter(|_| event.origin != Origin::Switchhook);
    if let Some(Undialled { provider, dialled_at, reason }) = undialled {
        return Some((provider, DialSignal::Undialled { reason, dialled_at }));
    }
    let (provider, dialled_at) = call.watched_dial(&event.event_id)?;
    Some((provider, DialSignal::Heard { dialled_at }))
}
