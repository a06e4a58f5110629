//! The health of providers, as the dialer reads it and changes it.

use switchhook_aws::Error;
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{Call, CallId, Circuit, DialSignal, Provider, ProviderHealth, Timestamp};

use crate::Dialer;

impl Dialer {
    /// Returns the health of the provider if it takes this call now. The cached health may allow a call. It may refuse only a
    /// [void](ProviderHealth::voids) claim: any other call may be a probe that was started after the health was read.
    pub(crate) async fn health_that_allows(
        &self,
        provider: Provider,
        call: &Call,
        now: Timestamp,
    ) -> Result<Option<ProviderHealth>, Error> {
        // The claim wrote the row last, unless an event was folded since then. After such a fold, a claim from before a slowdown may look
        // like a later one. Then it is dialled, which is one dial more than the lowered rate allows.
        let allows = |health: &ProviderHealth| health.allows(&call.call_id, call.updated_at, now);
        if let Some(cached) = self.health.get(provider, now) {
            // One refusal may void thousands of claims, which come within seconds. If each read the row, DynamoDB would refuse some reads.
            if cached.voids(call.updated_at) {
                return Ok(None);
            }
            if allows(&cached) {
                return Ok(Some(cached));
            }
        }
        let health = self.calls.provider_health(provider).await?;
        self.health.set(health.clone(), now);
        Ok(Some(health).filter(allows))
    }

    /// Notes the result of a dial in the health of the provider. A successful dial at a healthy provider changes nothing and costs
    /// half a read unit. An error is logged and otherwise ignored: the next result is noted again.
    pub(crate) async fn note(&self, provider: Provider, call_id: &CallId, signal: DialSignal<'_>) {
        let now = self.clock.now();
        if signal == DialSignal::Works && !self.success_is_news(provider, call_id, now).await {
            return;
        }
        let change = |health: &ProviderHealth| {
            let next = health.after_dial(call_id, signal, now)?;
            let has_changed = next.sequence != health.sequence;
            Some((next.clone(), (next, has_changed)))
        };
        let changed = self.calls.change_provider_health(provider, change).await;
        let (action_taken, cause) = match &changed {
            Ok(Some((health, has_changed))) => {
                self.health.set(health.clone(), now);
                match &health.circuit {
                    Circuit::Open { failure, .. } if *has_changed => ("circuit_open", Some(failure.as_str())),
                    Circuit::Closed if *has_changed => ("circuit_closed", None),
                    Circuit::Open { .. } | Circuit::Closed => return,
                }
            }
            Ok(None) => return,
            Err(_) => ("health_not_noted", None),
        };
        let failure = Decision::from_error(changed.as_ref().err());
        let decision = Decision {
            function: "dialer",
            message: if changed.is_ok() { "a dial changed the circuit" } else { "provider's health not updated" },
            action_taken,
            provider: Some(provider.as_str()),
            cause: cause.or(failure.cause),
            ..failure
        };
        decision.log(now, changed.is_err());
    }

    /// True if the health may change because this call was dialled. The cached health alone cannot tell: another dialer may have noted a
    /// failure since it was read. **Each success clears the failures before it**, or a few of them among many successes would open the
    /// circuit. The next dial uses the health that this reads, so a busy dialer needs no other read.
    async fn success_is_news(&self, provider: Provider, call_id: &CallId, now: Timestamp) -> bool {
        let changes = |health: &ProviderHealth| health.after_dial(call_id, DialSignal::Works, now).is_some();
        // An eventual read may miss that this call is the probe.
        if self.health.get(provider, now).is_some_and(|cached| changes(&cached)) {
            return true;
        }
        match self.calls.provider_health_eventual(provider).await {
            Ok(health) => {
                let is_news = changes(&health);
                self.health.set(health, now);
                is_news
            }
            // The change reads the health again, and tells if that fails too.
            Err(_) => true,
        }
    }

    /// Lets another call be the probe of the provider, if this one was, because its claim ended without a request to the provider. An
    /// error is logged and otherwise ignored: a probe without a result is given up after some time.
    pub(crate) async fn release_probe(&self, provider: Provider, call_id: &CallId) {
        let now = self.clock.now();
        // The pause before the first probe is longer than the age of a cached health. So a provider that was healthy has no probe yet.
        if self.health.get(provider, now).is_some_and(|health| !health.is_open()) {
            return;
        }
        let release = |health: &ProviderHealth| {
            let next = health.release_probe(call_id, now)?;
            Some((next.clone(), next))
        };
        match self.calls.change_provider_health(provider, release).await {
            Ok(released) => released.into_iter().for_each(|health| self.health.set(health, now)),
            Err(error) => {
                let decision = Decision {
                    function: "dialer",
                    message: "provider's health not updated",
                    action_taken: "health_not_noted",
                    provider: Some(provider.as_str()),
                    ..Decision::from_error(Some(&error))
                };
                decision.log(now, true);
            }
        }
    }
}
