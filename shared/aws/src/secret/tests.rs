use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::Region;
use aws_config::retry::RetryConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_providers::{AccountConfig, Entry, WebhookConfig};

use super::*;

const GOOD: &str = r#"{"retell": {"keys": ["a key that is as long as it must be"]}, "generic": {"keys": ["a key that is as long as it must be"]}}"#;
/// Retell has a second key.
const NEW: &str = r#"{"retell": {"keys": ["the next, a key that is as long as it must be", "a key that is as long as it must be"]}, "generic": {"keys": ["a key that is as long as it must be"]}}"#;
/// Names a field `key`, which should be `keys`.
const TYPO: &str = r#"{"retell": {"key": ["SECRET"]}, "generic": {"keys": ["the next, a key that is as long as it must be", "a key that is as long as it must be"]}}"#;
/// Names a provider that does not exist.
const TYPO_IN_NAME: &str = r#"{"retel": {"keys": ["SECRET"]}, "generic": {"keys": ["the next, a key that is as long as it must be", "a key that is as long as it must be"]}}"#;
const TYPO_IN_JSON: &str = r#"{"retell": {"keys": ["SECRET"]}, "generic": }"#;

/// One secret in Secrets Manager, with the texts of its versions.
#[derive(Clone, Debug, Default)]
struct Stored {
    versions: Arc<Mutex<BTreeMap<String, String>>>,
    /// While this is true, each request for the current version fails.
    is_current_throttled: Arc<AtomicBool>,
}

impl Stored {
    /// Stores a new version.
    fn put(&self, text: &str) {
        let mut versions = self.versions.lock().unwrap();
        if let Some(before) = versions.insert("AWSCURRENT".to_owned(), text.to_owned()) {
            versions.insert("AWSPREVIOUS".to_owned(), before);
        }
    }

    fn with(texts: &[&str]) -> Self {
        let stored = Self::default();
        for text in texts {
            stored.put(text);
        }
        stored
    }

    /// Lets requests for the current version fail, or succeed again.
    fn throttle_current(&self, is_throttled: bool) {
        self.is_current_throttled.store(is_throttled, Ordering::Relaxed);
    }

    fn secret<C: SecretHalf>(&self) -> ProviderSecret<C> {
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new("a", "b", None, None, "test")))
            .retry_config(RetryConfig::disabled())
            .http_client(self.clone())
            .build();
        ProviderSecret::new(&config, "the-secret".to_owned())
    }
}

impl HttpConnector for Stored {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        assert_eq!(request.headers().get("x-amz-target"), Some("secretsmanager.GetSecretValue"));
        assert_eq!(body["SecretId"], "the-secret");
        let stage = body["VersionStage"].as_str().unwrap();
        let text = self.versions.lock().unwrap().get(stage).cloned();
        let (status, answer) = match text {
            Some(_) if stage == "AWSCURRENT" && self.is_current_throttled.load(Ordering::Relaxed) => {
                (400, json!({"__type": "ThrottlingException", "message": "too many requests"}))
            }
            Some(text) => (200, json!({"Name": "the-secret", "SecretString": text})),
            None => (400, json!({"__type": "ResourceNotFoundException", "message": "there is no such version"})),
        };
        let response = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::from(answer.to_string()));
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Stored {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(0).plus(Duration::from_secs(seconds))
}

/// Returns how many keys each provider has at this time, or that it is disabled: `retell disabled, generic 2`.
async fn keys(secret: &ProviderSecret<WebhookConfig>, now: Timestamp) -> String {
    let entries = secret.current(now).await;
    let shown = Provider::ALL.into_iter().filter_map(|provider| match entries.entry(provider) {
        Entry::Configured(config) => Some(format!("{provider} {}", config.keys().len())),
        Entry::Disabled => Some(format!("{provider} disabled")),
        Entry::Unnamed => None,
    });
    shown.collect::<Vec<_>>().join(", ")
}

const ALL_DISABLED: &str = "retell disabled, twilio disabled, vapi disabled, telnyx disabled, elevenlabs disabled, plivo disabled, vonage disabled, livekit disabled, daily disabled, bland disabled, signalwire disabled, generic disabled";

#[tokio::test]
async fn rotated_key_is_used_after_five_minutes() {
    let stored = Stored::with(&[GOOD]);
    let secret = stored.secret();
    assert_eq!(keys(&secret, at(0)).await, "retell 1, generic 1");
    stored.put(NEW);
    assert_eq!(keys(&secret, at(299)).await, "retell 1, generic 1");
    assert_eq!(keys(&secret, at(300)).await, "retell 2, generic 1");
}

#[tokio::test]
async fn rotated_key_is_used_at_once_after_a_rejection() {
    let stored = Stored::with(&[GOOD]);
    let secret: ProviderSecret<WebhookConfig> = stored.secret();
    let count = |entries: Option<Arc<Entries<WebhookConfig>>>| {
        entries.map(|entries| entries.config(Provider::Retell).map_or(0, |config| config.keys().len()))
    };
    assert_eq!(count(secret.after_rejection(at(0)).await), None, "nothing was read yet");
    assert_eq!(keys(&secret, at(0)).await, "retell 1, generic 1");
    stored.put(NEW);
    assert_eq!(count(secret.after_rejection(at(9)).await), None, "the secret was read within ten seconds");
    assert_eq!(count(secret.after_rejection(at(10)).await), Some(2));
    assert_eq!(keys(&secret, at(11)).await, "retell 2, generic 1");
    assert_eq!(count(secret.after_rejection(at(19)).await), None);
    assert_eq!(count(secret.after_rejection(at(20)).await), Some(2));
    // A version that cannot be read changes nothing.
    stored.put(TYPO_IN_JSON);
    assert_eq!(count(secret.after_rejection(at(30)).await), Some(2));
}

#[tokio::test]
async fn running_function_keeps_the_entry_that_a_typo_breaks_and_takes_the_others() {
    for typo in [TYPO, TYPO_IN_NAME] {
        let stored = Stored::with(&[NEW]);
        let secret = stored.secret();
        assert_eq!(keys(&secret, at(0)).await, "retell 2, generic 1");
        // Two wrong versions in a row: the one before is of no use either.
        stored.put(typo);
        stored.put(typo);
        assert_eq!(keys(&secret, at(300)).await, "retell 2, generic 2", "{typo}");
        stored.put(GOOD);
        assert_eq!(keys(&secret, at(600)).await, "retell 1, generic 1");
    }
}

#[tokio::test]
async fn function_that_starts_takes_a_broken_entry_from_the_version_before() {
    for typo in [TYPO, TYPO_IN_NAME] {
        let secret = Stored::with(&[NEW, typo]).secret();
        assert_eq!(keys(&secret, at(0)).await, "retell 2, generic 2", "{typo}");
    }
}

#[tokio::test]
async fn version_before_bridges_the_providers_it_names_while_the_current_one_is_no_json() {
    let stored = Stored::with(&[NEW, TYPO_IN_JSON]);
    let secret = stored.secret();
    // The current version may name any other provider.
    let bridged = ALL_DISABLED.replace("retell disabled", "retell 2").replace("generic disabled", "generic 1");
    assert_eq!(keys(&secret, at(0)).await, bridged);
    let described = "x-acme".parse().unwrap();
    let described_entry = async |now| match secret.current(now).await.entry(described) {
        Entry::Configured(_) => "configured",
        Entry::Disabled => "disabled",
        Entry::Unnamed => "unnamed",
    };
    assert_eq!(described_entry(at(0)).await, "disabled");
    // The version before names no edge, and the current one was never in use. So the webhooks of the bridged providers are accepted.
    assert!(matches!(secret.current(at(0)).await.edge(), Entry::Unnamed));
    stored.put(GOOD);
    assert_eq!(keys(&secret, at(29)).await, bridged);
    assert_eq!(keys(&secret, at(30)).await, "retell 1, generic 1");
    assert_eq!(described_entry(at(30)).await, "unnamed");

    // A new stack has the version `{}` before.
    let stored = Stored::with(&["{}", TYPO_IN_JSON]);
    let secret = stored.secret();
    assert_eq!(keys(&secret, at(0)).await, ALL_DISABLED);
    stored.put(GOOD);
    assert_eq!(keys(&secret, at(30)).await, "retell 1, generic 1");
}

#[tokio::test]
async fn running_function_keeps_its_entries_while_the_current_version_is_no_json_and_disables_the_others() {
    let stored = Stored::with(&[NEW]);
    let secret = stored.secret();
    assert_eq!(keys(&secret, at(0)).await, "retell 2, generic 1");
    stored.put(TYPO_IN_JSON);
    let kept = ALL_DISABLED.replace("retell disabled", "retell 2").replace("generic disabled", "generic 1");
    assert_eq!(keys(&secret, at(300)).await, kept);
    assert!(matches!(secret.current(at(300)).await.edge(), Entry::Unnamed));
    stored.put(GOOD);
    assert_eq!(keys(&secret, at(330)).await, "retell 1, generic 1");
}

#[tokio::test]
async fn version_before_is_not_used_if_the_request_for_the_current_one_fails() {
    // The first is the version before of a new stack. The second has a key that was removed, and lacks a provider that was added.
    let before_with_removed_key = r#"{"retell": {"keys": ["a removed key that is as long as it must be"]}}"#;
    for before in ["{}", before_with_removed_key] {
        let stored = Stored::with(&[before, GOOD]);
        stored.throttle_current(true);
        let secret = stored.secret();
        assert_eq!(keys(&secret, at(0)).await, ALL_DISABLED, "{before}");
        assert!(matches!(secret.current(at(0)).await.edge(), Entry::Disabled), "{before}");
        assert_eq!(keys(&secret, at(30)).await, ALL_DISABLED, "{before}");
        stored.throttle_current(false);
        assert_eq!(keys(&secret, at(59)).await, ALL_DISABLED, "{before}");
        assert_eq!(keys(&secret, at(60)).await, "retell 1, generic 1", "{before}");
        assert!(matches!(secret.current(at(60)).await.edge(), Entry::Unnamed), "{before}");

        // A running function goes on as before.
        stored.throttle_current(true);
        assert_eq!(keys(&secret, at(360)).await, "retell 1, generic 1", "{before}");
        assert!(matches!(secret.current(at(360)).await.edge(), Entry::Unnamed), "{before}");
    }
}

#[tokio::test]
async fn accounts_are_disabled_if_the_request_for_the_current_version_fails() {
    let good = r#"{"retell": {"dial": {"api_key": "a key that is as long as it must be"}}}"#;
    let stored = Stored::with(&["{}", good]);
    stored.throttle_current(true);
    let secret = stored.secret::<AccountConfig>();
    let entries = secret.current(at(0)).await;
    assert!(entries.is_unread() && entries.disabled() == Provider::ALL);
    assert!(secret.current(at(30)).await.is_unread());
    stored.throttle_current(false);
    let entries = secret.current(at(60)).await;
    assert!(entries.config(Provider::Retell).is_some() && entries.disabled().is_empty() && !entries.is_unread());
    stored.throttle_current(true);
    assert!(!secret.current(at(360)).await.is_unread(), "a running function has the entries");
    // A text that is no JSON is the same for every process.
    assert!(!Stored::with(&["{", "{"]).secret::<AccountConfig>().current(at(0)).await.is_unread());
}

#[tokio::test]
async fn provider_is_disabled_if_both_versions_are_broken_until_one_is_right() {
    let stored = Stored::with(&[TYPO, TYPO]);
    let secret = stored.secret();
    assert_eq!(keys(&secret, at(0)).await, "retell disabled, generic 2");
    stored.put(NEW);
    assert_eq!(keys(&secret, at(29)).await, "retell disabled, generic 2");
    assert_eq!(keys(&secret, at(30)).await, "retell 2, generic 1");

    let secret = Stored::with(&[TYPO_IN_JSON, TYPO_IN_JSON]).secret();
    assert_eq!(keys(&secret, at(0)).await, ALL_DISABLED);
}

#[tokio::test]
async fn first_version_of_a_new_stack_has_no_version_before() {
    let secret = Stored::with(&["{}"]).secret();
    assert_eq!(keys(&secret, at(0)).await, "");
    let secret = Stored::with(&["{}", TYPO]).secret();
    assert_eq!(keys(&secret, at(0)).await, "retell disabled, generic 2");
    let secret = Stored::with(&[TYPO]).secret();
    assert_eq!(keys(&secret, at(0)).await, "retell disabled, generic 2");
}

#[tokio::test]
async fn missing_secret_disables_every_provider_of_a_function_that_starts_and_none_of_a_running_one() {
    let stored = Stored::with(&[]);
    let secret = stored.secret();
    assert_eq!(keys(&secret, at(0)).await, ALL_DISABLED);
    stored.put(GOOD);
    assert_eq!(keys(&secret, at(30)).await, "retell 1, generic 1");
    stored.versions.lock().unwrap().clear();
    assert_eq!(keys(&secret, at(330)).await, "retell 1, generic 1");
}

#[tokio::test]
async fn removed_entry_does_not_come_back() {
    let stored = Stored::with(&[GOOD, r#"{"retell": {"keys": ["a key that is as long as it must be"]}}"#]);
    assert_eq!(keys(&stored.secret(), at(0)).await, "retell 1");
}

#[tokio::test]
async fn accounts_are_read_like_keys() {
    let good = r#"{"retell": {"dial": {"api_key": "a key that is as long as it must be"}}}"#;
    let wrong_half = r#"{"retell": {"keys": ["SECRET"]}}"#;
    let accounts = |texts: &[&str]| Stored::with(texts).secret::<AccountConfig>();
    assert!(accounts(&[good, wrong_half]).current(at(0)).await.config(Provider::Retell).is_some());
    assert_eq!(accounts(&[wrong_half]).current(at(0)).await.disabled(), [Provider::Retell]);
    assert_eq!(accounts(&[GOOD]).current(at(0)).await.disabled(), [Provider::Retell, Provider::Generic]);
}
