//! `switchhook fake`: the fake provider over HTTP, for a stack that runs anywhere.
//!
//! **Standard output carries one line, and only when requests are answered**, as with `dev`. What the provider decides is in
//! `switchhook_local::fake`; here are its socket, its clock, which is real, and the way of its webhooks.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::{Args, ValueEnum};
use serde_json::json;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::clock::Clock;
use switchhook_local::fake::{Delivery, DeliveryFaults, FakeProvider};
use switchhook_providers::{Key, KeyError, sign};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};

use crate::client::{self, ClientError};
use crate::dev::stop_signal;

const EXAMPLES: &str = "\
Examples:
  switchhook fake --key KEY --webhooks-to https://abc.execute-api.eu-west-1.amazonaws.com/webhooks/retell
  switchhook fake --port 9090 --key KEY --webhooks-to http://127.0.0.1:8787/webhooks/retell --delivery-faults none --seed 7

It answers as Retell does
  POST /v2/create-phone-call         place a call
  GET  /v2/get-call/{id}             what is known of one
  POST /v3/list-calls                what is known of those with some metadata
and of itself
  GET  /dials                        every phone that rang, and how many rang twice for one call

A stack asks it in Retell's stead if its parameter RetellApiUrl names it. What a person does says the metadata of the call, a
word for each attempt, {\"fake\": \"busy,confirms\"}, or else the last digit of the number:
  0 confirms      1 declines        2 voicemail   3 busy          4 no_answer   5 fails
  6 forgotten     7 response_lost   8 silent      9 rate_limited                - invalid

Exit status: 0 after Ctrl-C or SIGTERM, 2 if it cannot start or go on.";

/// Of a request. The longest asks for a call with its metadata.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Webhooks that are on their way at once. The next ones are late, as a provider's are.
const DELIVERIES_MAX: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fake {
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    port: u16,
    /// Where its webhooks go: the stack's /webhooks/retell
    #[arg(long, value_name = "URL")]
    webhooks_to: String,
    /// The key that they are signed with, one of those that the stack has for retell
    #[arg(long, value_name = "K")]
    key: String,
    /// Of its dice: the same seed and the same calls give the same endings; without it any
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How badly webhooks are sent
    #[arg(long, value_name = "HOW", default_value = "usual")]
    delivery_faults: FaultLevel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FaultLevel {
    /// Each once and at once
    None,
    /// Some twice, some late, some never
    Usual,
    /// None at all
    AllLost,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FakeError {
    // Not checked where arguments are: there a complaint repeats the value.
    #[error("--key is no key")]
    Key(#[source] KeyError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "could not listen on {address}: if something else does, stop it or choose another --port (0 takes a free one)"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("could not start")]
    Start(#[source] io::Error),
    #[error("could not serve")]
    Serve(#[source] io::Error),
    #[error("could not go on sending webhooks")]
    Deliver(#[source] JoinError),
    #[error("could not say where it listens")]
    Print(#[source] io::Error),
}

impl Fake {
    /// Serves until it is told to stop.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, FakeError> {
        let key = Key::new(self.key.as_str()).map_err(FakeError::Key)?;
        client::base_url(&self.webhooks_to)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(FakeError::Start)?;
        let served = runtime.block_on(self.serve(key, out, errors));
        // A webhook that is still waiting for its answer keeps nobody from going.
        runtime.shutdown_background();
        served.map(|()| true)
    }

    async fn serve(&self, key: Key, out: &mut impl Write, errors: &mut impl Write) -> Result<(), FakeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let listener = TcpListener::bind(address).await.map_err(|source| FakeError::Listen { address, source })?;
        let address = listener.local_addr().map_err(FakeError::Start)?;
        let stop = stop_signal().map_err(FakeError::Start)?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let provider = Arc::new(FakeProvider::new(Clock::system(), seed, self.delivery_faults.into()));
        let webhooks = Arc::new(Webhooks { key, url: self.webhooks_to.clone() });
        let delivering = tokio::spawn(deliver(provider.clone(), webhooks));
        let app = Router::new().route("/dials", get(dials)).fallback(handle).with_state(provider);
        writeln!(errors, "seed {seed}").map_err(FakeError::Print)?;
        writeln!(out, "listening on http://{address}").map_err(FakeError::Print)?;
        out.flush().map_err(FakeError::Print)?;
        tokio::select! {
            () = stop => Ok(()),
            served = async { axum::serve(listener, app).await } => served.map_err(FakeError::Serve),
            Err(broke) = delivering => Err(FakeError::Deliver(broke)),
        }
    }
}

impl From<FaultLevel> for DeliveryFaults {
    fn from(how: FaultLevel) -> Self {
        match how {
            FaultLevel::None => Self::NONE,
            FaultLevel::Usual => Self::USUAL,
            FaultLevel::AllLost => Self::ALL_LOST,
        }
    }
}

async fn handle(State(provider): State<Arc<FakeProvider>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let answer = provider.handle(parts.method.as_str(), parts.uri.path(), authorization, &body);
    if answer.lost {
        // As a gateway in front of a provider does when it has waited too long: what was asked for is done all the same.
        return StatusCode::GATEWAY_TIMEOUT.into_response();
    }
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], Body::from(answer.body)).into_response()
}

/// Without numbers: of a call its id, and what happened to it.
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
    let body = json!({"dials": dials, "duplicate_dials": provider.duplicate_dials(), "requests": provider.requests()});
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Where webhooks go, and what they are signed with.
struct Webhooks {
    key: Key,
    url: String,
}

/// Sends every webhook when its time has come. One that waits for its answer holds up no other.
async fn deliver(provider: Arc<FakeProvider>, webhooks: Arc<Webhooks>) {
    let mut sending = JoinSet::new();
    loop {
        let delivery = provider.next_delivery().await;
        while sending.len() >= DELIVERIES_MAX {
            drop(sending.join_next().await);
        }
        let (provider, webhooks) = (provider.clone(), webhooks.clone());
        sending.spawn(async move {
            let sent = delivery.clone();
            let taken = tokio::task::spawn_blocking(move || webhooks.post(&sent)).await;
            if !taken.unwrap_or(false) {
                provider.retry_delivery(delivery);
            }
        });
    }
}

impl Webhooks {
    /// True if it was taken. It is signed at the moment at which it is sent.
    fn post(&self, delivery: &Delivery) -> bool {
        let body = delivery.body().as_bytes().to_vec();
        let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
        let signed = sign(Provider::Retell, &self.key, &self.url, &body, now);
        let mut request = http::Request::post(&signed.url).header(CONTENT_TYPE, signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(body) else { return false };
        client::send(request).is_ok_and(|answer| (200..300).contains(&answer.status))
    }
}
