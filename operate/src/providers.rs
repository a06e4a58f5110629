//! Providers of a stack: their configuration, their circuits, and their calls.

use http::Method;
use serde::{Deserialize, Serialize};
use switchhook_aws::calls::{TimeRange, WakeQueue};
use switchhook_aws::secret::ProviderSecrets;
use switchhook_domain::{Call, Circuit, Job, Provider, ProviderHealth, Timestamp};
use switchhook_providers::Providers;

use crate::calls::{OpenCalls, open_calls};
use crate::error::Error;
use crate::stack::Stack;
use crate::{time_text, web};

/// Configuration of one provider, without keys and accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configured {
    pub provider: Provider,
    /// Number of keys that verify its webhooks.
    pub keys: usize,
    /// Calls that it is asked to place per second. `None` if it places none.
    pub per_second: Option<f64>,
    /// True if its own list of calls is read.
    pub discover: bool,
}

/// One provider of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderView {
    pub provider: Provider,
    /// `None` if the configuration could not be read, or if it does not name the provider: see
    /// [`ProviderReport::unconfigured_reason`].
    pub configured: Option<Configured>,
    /// True if the provider gets calls other than probes now.
    pub available: bool,
    /// Reason why its circuit is open. `None` if it is closed.
    pub open: Option<OpenCircuit>,
    /// Time until which it gets no calls because it was busy.
    #[serde(serialize_with = "time_text::optional::serialize")]
    pub paused_until: Option<Timestamp>,
    /// Calls that were dialled and have not ended.
    pub in_flight: usize,
}

/// Open circuit of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenCircuit {
    pub reason: &'static str,
    /// The provider's reason in our words, for example `payment_required`.
    pub cause: String,
    #[serde(serialize_with = "time_text::optional::serialize")]
    pub since: Option<Timestamp>,
    #[serde(serialize_with = "time_text::serialize")]
    pub next_probe_at: Timestamp,
    pub failed_probes: u32,
}

/// Providers of a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderReport {
    pub providers: Vec<ProviderView>,
    /// Reason why the configuration could not be read. `None` if it was read.
    pub unconfigured_reason: Option<String>,
    /// True if there are more open calls than were counted.
    pub more: bool,
}

impl Configured {
    /// Lists the configured providers of a providers document.
    #[must_use]
    pub fn list(providers: &Providers) -> Vec<Self> {
        let configured = |provider| {
            let config = providers.config(provider)?;
            let per_second = config.dial().map(|dial| dial.pacing().per_second());
            Some(Self { provider, keys: config.keys().len(), per_second, discover: config.discovers() })
        };
        Provider::ALL.into_iter().filter_map(configured).collect()
    }
}

/// Returns the providers of a stack: those that are configured, and those that have been dialled.
///
/// # Errors
/// The health of a provider or the open calls could not be read. If the configuration cannot be read, the report names the error.
pub async fn providers(stack: &Stack) -> Result<ProviderReport, Error> {
    let (configured, unconfigured_reason) = match configured(stack).await {
        Ok(configured) => (configured, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let queue = vec![(WakeQueue::Reconcile, TimeRange::UpTo(Timestamp::MAX))];
    let OpenCalls { calls, more, unreadable: _, examined: _ } = open_calls(stack, queue).await?;
    let now = stack.now();
    let mut providers = Vec::new();
    for provider in Provider::ALL {
        let health = stack.calls.provider_health_eventual(provider).await?;
        let configured = configured.iter().find(|configured| configured.provider == provider).cloned();
        let in_flight = calls.iter().filter(|call| is_in_flight(call, provider)).count();
        let is_known = configured.is_some() || in_flight > 0 || health != ProviderHealth::new(provider);
        if is_known {
            providers.push(view(&health, configured, in_flight, now));
        }
    }
    Ok(ProviderReport { providers, unconfigured_reason, more })
}

async fn configured(stack: &Stack) -> Result<Vec<Configured>, Error> {
    if let Some(services) = &stack.services {
        let secret = stack.names.providers_secret.clone();
        let secrets = ProviderSecrets::load(services.config(), secret, stack.now()).await?;
        return Ok(Configured::list(secrets.current(stack.now()).await.as_ref()));
    }
    let url = stack.local.as_deref().unwrap_or_default();
    let request = web::request(Method::GET, &format!("{url}/providers"))?;
    let response = web::send_in_background(request, web::TIMEOUT).await?;
    serde_json::from_str(&response.body).map_err(|_| Error::Unreadable { service: "/providers" })
}

fn view(health: &ProviderHealth, configured: Option<Configured>, in_flight: usize, now: Timestamp) -> ProviderView {
    let open = match &health.circuit {
        Circuit::Closed => None,
        Circuit::Open { failure, cause, probe_at, failed_probes, probe: _ } => Some(OpenCircuit {
            reason: failure.as_str(),
            cause: cause.clone(),
            since: health.changed_at,
            next_probe_at: *probe_at,
            failed_probes: *failed_probes,
        }),
    };
    ProviderView {
        provider: health.provider,
        configured,
        available: health.is_available(now),
        open,
        paused_until: health.paused_until.filter(|until| *until > now),
        in_flight,
    }
}

/// True if the latest attempt of the call was dialled through this provider and has not ended.
fn is_in_flight(call: &Call, provider: Provider) -> bool {
    match call.job {
        Job::InProgress => {}
        Job::Pending { .. } | Job::Claimed { .. } | Job::Completed | Job::Failed | Job::Missed | Job::Canceled => {
            return false;
        }
    }
    let attempts = call.attempts();
    let latest = attempts.last().filter(|attempt| attempt.provider == Some(provider) && attempt.ended_at.is_none());
    let dialled_at = latest.and_then(|attempt| call.attempt_records.get(attempt.index)?.dialled_at);
    dialled_at.is_some()
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CallId, DialFailure, DialSignal};

    use super::*;

    #[test]
    fn configuration_is_listed_without_keys() {
        let document = r#"{"retell": {"keys": ["hunter2", "hunter3"], "dial": {"api_key": "hunter4", "per_second": 2}},
            "generic": {"keys": ["hunter5"]}}"#;
        let list = Configured::list(&Providers::from_json(document).unwrap());
        let json = serde_json::to_string(&list).unwrap();
        assert!(!json.contains("hunter"), "{json}");
        assert_eq!(
            list.iter().map(|one| (one.provider, one.keys, one.per_second)).collect::<Vec<_>>(),
            [(Provider::Retell, 2, Some(2.0)), (Provider::Generic, 1, None),]
        );
    }

    #[test]
    fn open_circuit_tells_reason_and_next_probe() {
        let now = Timestamp::from_millis(1_760_961_600_000);
        let failed =
            DialSignal::Failed { failure: DialFailure::AccountProblem, cause: "payment_required", retry_after: None };
        let mut health = ProviderHealth::new(Provider::Retell);
        for _ in 0..3 {
            health = health.after_dial(&CallId::new("call-1"), failed, now).unwrap();
        }
        let view = view(&health, None, 0, now);
        let open = view.open.unwrap();
        assert_eq!((view.available, open.reason, open.cause.as_str()), (false, "account_problem", "payment_required"));
        assert!(open.next_probe_at > now);
    }
}
