//! Providers of a stack: their configuration, their circuits, and their calls.

use serde::Serialize;
use switchhook_aws::calls::{TimeRange, WakeQueue};
use switchhook_aws::secret::SecretVersion;
use switchhook_domain::{Call, Circuit, InFlight, Provider, ProviderHealth, Timestamp};
use switchhook_providers::{AccountConfig, Entries, Pacing, SecretHalf, WebhookConfig};

use crate::calls::{OpenCalls, open_calls};
use crate::error::Error;
use crate::stack::Stack;
use crate::time_text;

/// Configuration of one provider, without keys and accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configured {
    pub provider: Provider,
    /// Number of keys that verify its webhooks, Twilio's shared keys included.
    pub keys: usize,
    /// True if it has an account that places calls.
    pub dial: bool,
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
    /// True if a secret has an entry of the provider that is wrong.
    pub disabled: bool,
    /// Calls that it is asked to place per second, by the stack's `DialRates`. `None` if it is asked to place none.
    pub per_second: Option<f64>,
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
    /// Problems of the configuration. None shows a key.
    pub problems: Vec<String>,
    /// True if there are more open calls than were counted.
    pub more: bool,
}

impl Configured {
    /// Lists the configured providers.
    #[must_use]
    pub fn list(webhook_keys: &Entries<WebhookConfig>, dial_accounts: &Entries<AccountConfig>) -> Vec<Self> {
        let configured = |provider| {
            let (keys, account) = (webhook_keys.config(provider), dial_accounts.config(provider));
            (keys.is_some() || account.is_some()).then(|| Self {
                provider,
                keys: keys.map_or(0, WebhookConfig::keys_total),
                dial: account.is_some(),
                discover: account.is_some_and(AccountConfig::discovers),
            })
        };
        known(webhook_keys).filter_map(configured).collect()
    }
}

/// Providers that Switchhook has code for, and others that the webhook keys name.
fn known(webhook_keys: &Entries<WebhookConfig>) -> impl Iterator<Item = Provider> {
    Provider::ALL.into_iter().chain(webhook_keys.named().filter(|provider| provider.is_named()))
}

/// Configuration in the secrets of a stack.
struct StoredConfiguration {
    webhook_keys: Entries<WebhookConfig>,
    dial_accounts: Entries<AccountConfig>,
}

/// Returns the providers of a stack: those that are configured, and those that have been dialled.
///
/// # Errors
/// The health of a provider or the open calls could not be read. If the configuration cannot be read, the report names the error.
pub async fn providers(stack: &Stack) -> Result<ProviderReport, Error> {
    let (stored, unconfigured_reason) = match stored_configuration(stack).await {
        Ok(stored) => (Some(stored), None),
        Err(error) => (None, Some(error.with_causes())),
    };
    let configured =
        stored.as_ref().map_or_else(Vec::new, |stored| Configured::list(&stored.webhook_keys, &stored.dial_accounts));
    let (mut disabled, mut problems) = (Vec::new(), Vec::new());
    if let Some(StoredConfiguration { webhook_keys, dial_accounts }) = &stored {
        disabled = [webhook_keys.disabled(), dial_accounts.disabled()].concat();
        let of = |name: &str, found: &[String]| -> Vec<String> {
            found.iter().map(|problem| format!("{name}: {problem}")).collect()
        };
        problems = of(WebhookConfig::NAME, webhook_keys.problems());
        problems.extend(of(AccountConfig::NAME, dial_accounts.problems()));
    }
    let open = WakeQueue::OPEN.map(|queue| (queue, TimeRange::UpTo(Timestamp::MAX)));
    let OpenCalls { calls, more, unreadable: _, examined: _ } = open_calls(stack, open.to_vec()).await?;
    let now = stack.now();
    let mut providers = Vec::new();
    let mut known: Vec<Provider> = match &stored {
        Some(stored) => known(&stored.webhook_keys).collect(),
        None => Provider::ALL.into(),
    };
    let dialled = stack.calls.accounts().await?.into_iter();
    let dialled: Vec<Provider> = dialled.filter(|account| !known.contains(account)).collect();
    known.extend(dialled);
    for provider in known {
        let health = stack.calls.provider_health_eventual(provider).await?;
        let configured = configured.iter().find(|configured| configured.provider == provider).cloned();
        let in_flight = calls.iter().filter(|call| is_in_flight(call, provider)).count();
        let is_known = configured.is_some() || in_flight > 0 || health != ProviderHealth::new(provider);
        if is_known || disabled.contains(&provider) {
            let per_second = stack.dial_rates().pacing(provider).map(Pacing::per_second);
            let view = view(&health, configured, in_flight, now);
            providers.push(ProviderView { disabled: disabled.contains(&provider), per_second, ..view });
        }
    }
    Ok(ProviderReport { providers, unconfigured_reason, problems, more })
}

async fn stored_configuration(stack: &Stack) -> Result<StoredConfiguration, switchhook_aws::Error> {
    let names = &stack.names;
    let webhook_keys = stack.secrets.read(&names.webhook_keys_secret, SecretVersion::Current).await?;
    let dial_accounts = stack.secrets.read(&names.dial_accounts_secret, SecretVersion::Current).await?;
    Ok(StoredConfiguration {
        webhook_keys: WebhookConfig::parse(&webhook_keys),
        dial_accounts: AccountConfig::parse(&dial_accounts),
    })
}

pub(crate) fn view(
    health: &ProviderHealth,
    configured: Option<Configured>,
    in_flight: usize,
    now: Timestamp,
) -> ProviderView {
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
        disabled: false,
        per_second: None,
        available: health.is_available(now),
        open,
        paused_until: health.paused_until.filter(|until| *until > now),
        in_flight,
    }
}

/// True if the call was dialled through this provider and has not ended.
pub(crate) fn is_in_flight(call: &Call, provider: Provider) -> bool {
    call.in_flight == Some(InFlight::Dialled(provider))
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CallId, DialFailure, DialSignal};
    use switchhook_providers::ProvidersFile;

    use super::*;

    #[test]
    fn configuration_is_listed_without_keys() {
        let document = r#"{"retell": {"keys": ["hunter2 and more characters", "hunter3 and more characters"], "dial": {"api_key": "hunter4 and more characters"}},
            "twilio": {"public_url": "https://example.com", "keys": ["hunter6 and more characters"],
                "shared_keys": [{"id": "1", "key": "hunter7 and more characters"}]},
            "generic": {"keys": ["hunter5 and more characters, 32 or more"]}}"#;
        let file = ProvidersFile::from_json(document).unwrap();
        let list = Configured::list(file.webhook_keys(), file.dial_accounts());
        let json = serde_json::to_string(&list).unwrap();
        assert!(!json.contains("hunter"), "{json}");
        assert_eq!(
            list.iter().map(|one| (one.provider, one.keys, one.dial)).collect::<Vec<_>>(),
            [(Provider::Retell, 2, true), (Provider::Twilio, 2, false), (Provider::Generic, 1, false)]
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
