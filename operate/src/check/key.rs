//! The key that signs the webhooks of a check or a benchmark: the first key of the generic provider, from the stack's own secret.

use http::{Method, Request};
use switchhook_aws::sdk;
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Entry, SecretHalf, WebhookConfig, sign_as_configured};

use super::advice;
use super::step::Finding;
use crate::aws::AwsServices;
use crate::error::Error;
use crate::stack::Stack;
use crate::web::{self, WebError};

/// Configuration of the generic provider, as the stack has stored it.
pub(crate) struct StoredKey {
    config: WebhookConfig,
    /// Time at which the secret was stored. `None` if it is not known.
    pub(super) stored_at: Option<Timestamp>,
}

impl StoredKey {
    /// Reads the key. Returns the finding, also if there is no key.
    pub(crate) async fn read(stack: &Stack) -> Result<(Self, Finding), Finding> {
        let (text, stored_at) = match read(stack).await {
            Ok(secret) => secret,
            Err(error) => return Err(advice::failed(&error)),
        };
        let entries = WebhookConfig::parse(&text);
        let (problems, put) =
            (entries.problems().join("; "), format!("switchhook providers put FILE {}", stack.options()));
        let config = match entries.entry(Provider::Generic) {
            Entry::Configured(config) => config.clone(),
            Entry::Unnamed => return Err(no_key(&put, text.trim() == "{}")),
            Entry::Disabled => {
                let text = format!("the secret has no entry of the generic provider that can be read: {problems}");
                return Err(Finding::failed(text, format!("correct it: {put}")));
            }
        };
        let since = stored_at.map_or_else(String::new, |at| format!(", stored {at}"));
        let found = if problems.is_empty() {
            Finding::passed(format!("the secret has a key of the generic provider{since}"))
        } else {
            let text = format!("the secret has a key of the generic provider{since}, and problems: {problems}");
            Finding::note(text, format!("correct the entries, which disable their providers: {put}"))
        };
        Ok((Self { config, stored_at }, found))
    }

    /// Returns the request of a webhook of the generic provider. `None` if the entry signs nothing.
    ///
    /// # Errors
    /// The URL is not valid.
    pub(crate) fn signed_webhook(
        &self,
        url: &str,
        body: Vec<u8>,
        now: Timestamp,
    ) -> Result<Option<Request<Vec<u8>>>, WebError> {
        web::base_url(url)?;
        let Some(signed) = sign_as_configured(Provider::Generic, &self.config, url, &body, now) else {
            return Ok(None);
        };
        let mut request =
            Request::builder().method(Method::POST).uri(&signed.url).header("content-type", signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        request.body(body).map(Some).map_err(|source| WebError::Request { url: url.to_owned(), source })
    }
}

/// URL that webhooks of the generic provider are posted to. `webhook_url` is the base URL, if it differs from the URL of the API.
pub(crate) fn url_of_webhooks(stack: &Stack, webhook_url: Option<&str>) -> String {
    let base = webhook_url.unwrap_or(&stack.names.api_url).trim_end_matches('/');
    let base = base.trim_end_matches("/webhooks/{provider}").trim_end_matches("/webhooks/generic");
    format!("{base}/webhooks/generic")
}

async fn read(stack: &Stack) -> Result<(String, Option<Timestamp>), Error> {
    let services = match &stack.services {
        Some(services) => services.clone(),
        None => {
            let url = stack.local.as_deref().unwrap_or_default();
            AwsServices::new(&sdk::from_url(&format!("{url}/aws"), &stack.names.region))?
        }
    };
    services.secret(&stack.names.webhook_keys_secret).await
}

/// Describes a secret without a key. `put` is the command that stores one.
fn no_key(put: &str, is_empty: bool) -> Finding {
    let text = if is_empty {
        "the secret is empty, so every webhook is answered 404"
    } else {
        "the secret has no key of the generic provider, with which the check signs its webhook"
    };
    let advice = format!(
        "make a key with `openssl rand -hex 32`, put {{\"generic\": {{\"keys\": [\"KEY\"]}}}} into the providers file beside the \
         providers that you use, and store it: {put}"
    );
    Finding::failed(text, advice)
}
