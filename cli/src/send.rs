//! `switchhook send`: posts one webhook, signed the way its provider signs.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;
use http::{Method, Request};
use switchhook_aws::inbox::BODY_BYTES_MAX;
use switchhook_domain::{Provider, Timestamp};
use switchhook_operate::time_of_dev;
use switchhook_operate::web::WebError;
use switchhook_providers::{
    Key, KeyError, ProvidersFile, SignedWebhook, samples, sign, sign_as_configured, sign_with_key,
};

use crate::client::{self, ClientError};
use crate::provider_name;
use crate::providers_file::{self, ProvidersFileError};
use crate::signing_key::{self, STANDARD_INPUT, SigningKeyError};
use crate::stack_choice::{self, StackChoice, StackChoiceError};

const EXAMPLES: &str = "\
Examples:
  switchhook send --provider retell --key KEY --sample retell/call_ended
  switchhook send --provider generic --key KEY --file event.json --to https://abc.execute-api.eu-west-1.amazonaws.com
  switchhook send --provider twilio --key TOKEN --sample twilio/completed \\
      --to 'http://127.0.0.1:8787/webhooks/twilio?appointment_id=appt_1'
  switchhook send --provider x-acme --providers providers.json --file event.json --to http://127.0.0.1:8787
  switchhook send --provider vapi --providers providers.json --sample vapi/end_of_call_report --to http://127.0.0.1:8787

The webhook is signed with the current time, or with the time of a `switchhook dev`, in the way that the provider signs. With --key
that is the provider's usual way. `--key -` reads the key from standard input, so that it is neither in the history of the shell nor in
the list of processes.
With --providers it is the way that the stack's secret configures: Vapi's signature settings, the first shared key of Twilio, and the
signature of a configured provider, whose name begins with x-. If the file has only a public key of a pair that you made, add
the private key: `--key - < private.pem`.
It goes to /webhooks/PROVIDER at the URL of the stack, unless --to ends with that path, or with /webhooks/PROVIDER/inbound. An
unknown --sample prints the list of samples.

Exit status: 0 if the response is 2xx, 1 if it is not, 2 if the webhook could not be sent.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    /// Provider that the webhook imitates: retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, an account such as twilio-eu, or x-…
    #[arg(long, value_name = "PROVIDER", value_parser = provider_name::provider)]
    provider: Provider,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    stack: StackChoice,
    /// URL that goes into a signature that covers it (Twilio, Plivo, SignalWire, and their schemes), if it differs from the URL of the stack
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Signing {
    /// Key that signs the webhook: one of the keys that the stack has for the provider, or the private key of its public key; - reads standard input
    // A private key in PEM form begins with hyphens. clap's error about an unknown argument would repeat it.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    key: Option<String>,
    /// JSON file with the secret of the stack, which says how the provider signs and with which keys
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Content {
    /// File with the body, sent unchanged; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Sample body that comes with this tool, for example retell/call_ended
    #[arg(long, value_name = "NAME")]
    sample: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Key(#[from] SigningKeyError),
    #[error("--key and --file cannot both read standard input: name a file with --file")]
    TwoInputs,
    #[error(transparent)]
    ProvidersFile(#[from] ProvidersFileError),
    #[error("{path} has no keys of {provider}")]
    NoKeys { path: PathBuf, provider: Provider },
    #[error("{path} has no key that signs for {provider}, only a public key: add the private key with --key")]
    NoSigningKey { path: PathBuf, provider: Provider },
    #[error("only the providers file says how {provider} signs: add it with --providers")]
    UnknownScheme { provider: Provider },
    #[error(
        "--key cannot sign for {provider}: it is not a secret or private key of the kind that {path} names. No key signs with ES256 here: \
         post a webhook that the provider signed"
    )]
    WrongSigningKey { path: PathBuf, provider: Provider },
    #[error("could not read the body from {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the body has {0} bytes, and a stack takes webhooks of at most {BODY_BYTES_MAX} bytes")]
    TooLarge(usize),
    #[error("there is no sample {name:?}; the samples are:\n  {}", known.join("\n  "))]
    UnknownSample { name: String, known: Vec<&'static str> },
    #[error("the sample {sample} is not a webhook of {provider}: choose another --sample or another --provider")]
    SampleOfOtherProvider { sample: String, provider: Provider },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Stack(#[from] StackChoiceError),
    #[error("could not print the response")]
    Print(#[source] io::Error),
}

impl Send {
    /// Returns true if the response is 2xx.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, SendError> {
        let is_body_read = self.content.file.as_ref().is_some_and(|file| file.as_os_str() == STANDARD_INPUT);
        if is_body_read && self.signing.key.as_deref() == Some(STANDARD_INPUT) {
            return Err(SendError::TwoInputs);
        }
        let signer = self.signing.signer()?;
        let body = self.content.body(self.provider)?;
        // A stack may close the connection before it has read all of such a body, and then nobody sees its answer.
        if body.len() > BODY_BYTES_MAX {
            return Err(SendError::TooLarge(body.len()));
        }
        let to = self.stack.api()?.url;
        // The signature is refused if its time is far from the stack's.
        let of_stack = stack_choice::runtime()?.block_on(time_of_dev(&to));
        let request = self.request(&signer, body, &to, of_stack.map_or_else(now, |time| time.now))?;
        let response = client::send(request)?;
        writeln!(out, "{} {}", response.status, response.body).map_err(SendError::Print)?;
        Ok((200..300).contains(&response.status))
    }

    fn request(
        &self,
        signer: &Signer<'_>,
        body: Vec<u8>,
        to: &str,
        now: Timestamp,
    ) -> Result<Request<Vec<u8>>, SendError> {
        let route = route(self.provider, to)?;
        let url = webhook_url(self.provider, to, &route)?;
        let signed_url = match &self.public_url {
            Some(public_url) => {
                let query = url.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
                format!("{}{query}", webhook_url(self.provider, public_url, &route)?)
            }
            None => url.clone(),
        };
        let signed = signer.sign(self.provider, &signed_url, &body, now)?;
        // Twilio adds parameters to the query, so the query of the signed URL is the one to send.
        let base = url.split_once('?').map_or(url.as_str(), |(base, _)| base);
        let url = match signed.url.split_once('?') {
            Some((_, query)) => format!("{base}?{query}"),
            None => base.to_owned(),
        };
        let mut request = Request::builder().method(Method::POST).uri(&url).header("content-type", signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        let request = request.body(body).map_err(|source| WebError::Request { url, source });
        Ok(request.map_err(ClientError::from)?)
    }
}

/// Paths of the provider's webhooks: the usual one, and the one for inbound calls.
fn routes(provider: Provider) -> [String; 2] {
    let path = format!("/webhooks/{provider}");
    let inbound = format!("{path}/inbound");
    [path, inbound]
}

/// Returns the path of webhooks that the URL ends with, or else the usual one.
fn route(provider: Provider, to: &str) -> Result<String, ClientError> {
    let uri = client::base_url(to)?;
    let [usual, inbound] = routes(provider);
    Ok(if uri.path().trim_end_matches('/').ends_with(&inbound) { inbound } else { usual })
}

/// Returns the URL of a webhook route. `to` is the URL of the stack, which may end with a path of the provider's webhooks.
fn webhook_url(provider: Provider, to: &str, route: &str) -> Result<String, ClientError> {
    let uri = client::base_url(to)?;
    let path = uri.path().trim_end_matches('/');
    let (base, query) = to.split_once('?').map_or((to, None), |(base, query)| (base, Some(query)));
    let base = base.trim_end_matches('/');
    let end = routes(provider).into_iter().find(|end| path.ends_with(end));
    let start = end.and_then(|end| base.strip_suffix(&end)).unwrap_or(base);
    let mut url = format!("{start}{route}");
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    Ok(url)
}

/// Source of signatures.
enum Signer<'a> {
    Key(Key),
    Configured(&'a PathBuf, ProvidersFile, Option<Key>),
}

impl Signing {
    fn signer(&self) -> Result<Signer<'_>, SendError> {
        let key = self.key.as_deref().map(signing_key::read).transpose()?;
        match (&self.providers, key) {
            (Some(path), key) => Ok(Signer::Configured(path, providers_file::read(path)?, key)),
            (None, Some(key)) => Ok(Signer::Key(key)),
            // clap requires one of the two.
            (None, None) => Err(SigningKeyError::Invalid(KeyError::Empty).into()),
        }
    }
}

impl Signer<'_> {
    fn sign(
        &self,
        provider: Provider,
        url: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<SignedWebhook<String>, SendError> {
        match self {
            Self::Key(_) if provider.is_configured() => Err(SendError::UnknownScheme { provider }),
            Self::Key(key) => Ok(sign(provider, key, url, body, now).into()),
            Self::Configured(path, providers, key) => {
                let path = || (*path).clone();
                let config = providers
                    .webhook_keys()
                    .config(provider)
                    .ok_or_else(|| SendError::NoKeys { path: path(), provider })?;
                match key {
                    Some(key) => sign_with_key(provider, config, key, url, body, now)
                        .ok_or_else(|| SendError::WrongSigningKey { path: path(), provider }),
                    None => sign_as_configured(provider, config, url, body, now)
                        .ok_or_else(|| SendError::NoSigningKey { path: path(), provider }),
                }
            }
        }
    }
}

impl Content {
    fn body(&self, provider: Provider) -> Result<Vec<u8>, SendError> {
        match (&self.file, &self.sample) {
            (_, Some(name)) => sample(name, provider),
            (Some(path), None) => {
                let read = if path.as_os_str() == STANDARD_INPUT {
                    let mut body = Vec::new();
                    io::stdin().read_to_end(&mut body).map(|_| body)
                } else {
                    std::fs::read(path)
                };
                read.map_err(|source| SendError::Read { path: path.clone(), source })
            }
            // clap requires one of the two.
            (None, None) => Ok(Vec::new()),
        }
    }
}

fn sample(name: &str, provider: Provider) -> Result<Vec<u8>, SendError> {
    let Some((_, body)) = samples().iter().find(|(known, _)| *known == name) else {
        let known = samples().iter().map(|(known, _)| *known).collect();
        return Err(SendError::UnknownSample { name: name.to_owned(), known });
    };
    if !name.starts_with(&format!("{}/", provider.vendor())) {
        return Err(SendError::SampleOfOtherProvider { sample: name.to_owned(), provider });
    }
    Ok(body.as_bytes().to_vec())
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_goes_to_the_path_that_the_url_ends_with() {
        let sent = |to: &str| webhook_url(Provider::Twilio, to, &route(Provider::Twilio, to).unwrap()).unwrap();
        for (to, url) in [
            ("http://h", "http://h/webhooks/twilio"),
            ("http://h/prod/", "http://h/prod/webhooks/twilio"),
            ("http://h/webhooks/twilio?a=1", "http://h/webhooks/twilio?a=1"),
            ("http://h/webhooks/twilio/inbound?a=1", "http://h/webhooks/twilio/inbound?a=1"),
            ("http://h/prod/webhooks/twilio/inbound/", "http://h/prod/webhooks/twilio/inbound"),
            ("http://h/inbound", "http://h/inbound/webhooks/twilio"),
            ("http://h/webhooks/plivo", "http://h/webhooks/plivo/webhooks/twilio"),
        ] {
            assert_eq!(sent(to), url, "{to}");
        }
        assert!(route(Provider::Twilio, "h").is_err());
    }

    #[test]
    fn signed_url_has_the_path_of_the_webhook() {
        let inbound = route(Provider::Twilio, "http://h/webhooks/twilio/inbound").unwrap();
        for public in ["https://p", "https://p/webhooks/twilio", "https://p/webhooks/twilio/inbound"] {
            let url = webhook_url(Provider::Twilio, public, &inbound).unwrap();
            assert_eq!(url, "https://p/webhooks/twilio/inbound", "{public}");
        }
    }
}
