//! `switchhook fake`: serves the fake provider over HTTP, for a stack that runs anywhere.
//!
//! **Standard output carries exactly one line, printed when the provider is ready to answer requests**, as with `dev`.
//! `switchhook_local::fake` decides what happens to a call; this module adds the HTTP server and posts the webhooks.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::Args;
use serde_json::json;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::clock::Clock;
use switchhook_local::fake::{Delivery, FakeProvider, ResponseFate};
use switchhook_providers::{Key, sign};
use tokio::task::{JoinError, JoinSet};

use crate::client::{self, ClientError};
use crate::serving::{FaultLevel, ListenError, behaviours, listen, stop_signal};
use crate::signing_key::{self, SigningKeyError};
use crate::words::with_causes;

const EXAMPLES: &str = concat!(
    "\
Examples:
  switchhook fake --key KEY --webhooks-to https://abc.execute-api.eu-west-1.amazonaws.com/webhooks/retell
  switchhook fake --port 9090 --key KEY --webhooks-to http://127.0.0.1:8787/webhooks/retell --delivery-faults none --seed 7

To use it with a deployed stack, set the stack's parameter ProviderApiUrl to an address where the stack can reach it.
If a webhook is not accepted, standard error says why. It is sent again, at most three times.

Routes, as Retell has them:
  POST /v2/create-phone-call         place a call
  GET  /v2/get-call/{id}             show a call
  POST /v3/list-calls                list the calls with given metadata
and one of its own:
  GET  /dials                        list all accepted dials, and count those that should not have happened

",
    behaviours!(),
    "

Exit status: 0 after Ctrl-C or SIGTERM, 2 if the provider cannot start or stops by itself."
);

/// Largest request body. The longest request creates a call with its metadata.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Part of the path of every webhook.
const WEBHOOKS_PATH: &str = "/webhooks/";
/// Number of webhooks that wait for a response at the same time. Further webhooks are sent late, as real providers do.
const DELIVERIES_MAX: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fake {
    /// Port on 127.0.0.1; 0 chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    port: u16,
    /// URL that receives the webhooks: /webhooks/retell of the stack
    #[arg(long, value_name = "URL")]
    webhooks_to: String,
    /// Key that signs the webhooks: one of the keys that the stack has for retell; - reads standard input
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Seed of the provider: the same seed and the same calls give the same results; without it, the seed is random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Faults in delivering webhooks
    #[arg(long, value_name = "LEVEL", default_value = "usual")]
    delivery_faults: FaultLevel,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FakeError {
    #[error(transparent)]
    Key(#[from] SigningKeyError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("--webhooks-to {0} lacks the path of the webhooks: add /webhooks/retell")]
    NoPath(String),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("could not start the provider")]
    Start(#[source] io::Error),
    #[error("could not serve requests")]
    Serve(#[source] io::Error),
    #[error("could not deliver webhooks")]
    Deliver(#[source] JoinError),
    #[error("could not print the address of the provider")]
    Print(#[source] io::Error),
}

impl Fake {
    /// Serves until Ctrl-C or SIGTERM.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, FakeError> {
        let key = signing_key::read(&self.key)?;
        if !client::base_url(&self.webhooks_to)?.path().contains(WEBHOOKS_PATH) {
            return Err(FakeError::NoPath(self.webhooks_to.clone()));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(FakeError::Start)?;
        let served = runtime.block_on(self.serve(key, out, errors));
        // Does not wait for webhooks that have no response yet.
        runtime.shutdown_background();
        served.map(|()| true)
    }

    async fn serve(&self, key: Key, out: &mut impl Write, errors: &mut impl Write) -> Result<(), FakeError> {
        let (listener, address) = listen(self.port).await?;
        let stop = stop_signal().map_err(FakeError::Start)?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let provider = Arc::new(FakeProvider::new(Clock::system(), seed, self.delivery_faults.into()));
        let target = Arc::new(WebhookTarget { key, url: self.webhooks_to.clone(), reported: Mutex::default() });
        let delivering = tokio::spawn(deliver_webhooks(provider.clone(), target));
        let app = Router::new().route("/dials", get(dials)).fallback(handle).with_state(provider);
        writeln!(errors, "seed {seed}").map_err(FakeError::Print)?;
        writeln!(out, "listening on http://{address}").map_err(FakeError::Print)?;
        out.flush().map_err(FakeError::Print)?;
        tokio::select! {
            () = stop => Ok(()),
            served = async { axum::serve(listener, app).await } => served.map_err(FakeError::Serve),
            Err(panicked) = delivering => Err(FakeError::Deliver(panicked)),
        }
    }
}

async fn handle(State(provider): State<Arc<FakeProvider>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let login = parts.headers.get(FakeProvider::login_header(parts.uri.path())).and_then(|value| value.to_str().ok());
    let response = provider.handle(parts.method.as_str(), parts.uri.path(), login, &body);
    if response.fate != ResponseFate::Arrives {
        // A gateway in front of a provider answers like this after its timeout, whether or not the request was carried out.
        return StatusCode::GATEWAY_TIMEOUT.into_response();
    }
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = response.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
    let headers = [(CONTENT_TYPE, "application/json")];
    match retry_after {
        Some(retry_after) => (status, headers, retry_after, Body::from(response.body)).into_response(),
        None => (status, headers, Body::from(response.body)).into_response(),
    }
}

/// Lists the accepted dials, without phone numbers.
async fn dials(State(provider): State<Arc<FakeProvider>>) -> Response {
    let dials: Vec<_> = provider
        .dials()
        .into_iter()
        .map(|dial| {
            json!({
                "call_id": dial.call_id,
                "attempt": dial.attempt,
                "behaviour": dial.behaviour.as_str(),
                "started_ms": dial.started_ms,
                "ended_ms": dial.ended_ms,
            })
        })
        .collect();
    let body = json!({
        "dials": dials,
        "duplicate_dials": provider.duplicate_dials(),
        "requests": provider.requests(),
    });
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Sends every webhook when it is due. A webhook that waits for its response does not delay the others.
async fn deliver_webhooks(provider: Arc<FakeProvider>, target: Arc<WebhookTarget>) {
    let mut sending = JoinSet::new();
    loop {
        let delivery = provider.next_delivery().await;
        // There is one key and one URL, and both are Retell's.
        if delivery.provider() != Provider::Retell {
            continue;
        }
        while sending.len() >= DELIVERIES_MAX {
            drop(sending.join_next().await);
        }
        let (provider, target) = (provider.clone(), target.clone());
        sending.spawn(async move {
            let posted = delivery.clone();
            let accepted = tokio::task::spawn_blocking(move || target.post(&posted)).await;
            if !accepted.unwrap_or(false) {
                provider.retry_delivery(delivery);
            }
        });
    }
}

/// Receiver of the webhooks, and the key that signs them.
struct WebhookTarget {
    key: Key,
    url: String,
    /// The problem that was reported last.
    reported: Mutex<String>,
}

impl WebhookTarget {
    /// Signs a webhook with the current time and posts it. Returns true if the response is 2xx.
    fn post(&self, delivery: &Delivery) -> bool {
        let body = delivery.body().as_bytes().to_vec();
        let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
        let signed = sign(Provider::Retell, &self.key, &self.url, &body, now);
        let mut request = http::Request::post(&signed.url).header(CONTENT_TYPE, signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(body) else { return false };
        let problem = match client::send(request) {
            Ok(response) if (200..300).contains(&response.status) => return true,
            Ok(response) => format!("{} answered {}", self.url, response.status),
            Err(error) => with_causes(&error),
        };
        self.report(problem);
        false
    }

    /// Reports on standard error why a webhook was not accepted. The same problem is reported once until there is another one.
    fn report(&self, problem: String) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != problem {
            // The provider goes on if nobody can read that.
            drop(writeln!(io::stderr(), "switchhook: a webhook was not accepted: {problem}"));
            *reported = problem;
        }
    }
}
