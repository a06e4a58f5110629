//! `switchhook dev`: the whole stack on this machine, over HTTP.
//!
//! **Standard output carries one line, and only when requests are answered**: a script waits for it. Everything else goes
//! to standard error.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Args;
use futures_util::stream::{Stream, StreamExt, iter, unfold};
use serde_json::{Value, json};
use switchhook_aws::telemetry::JsonLines;
use switchhook_domain::{CallId, Timestamp};
use switchhook_local::bus::BusEvent;
use switchhook_local::clock::Clock;
use switchhook_local::{
    CONCURRENT_DIALS_PER_PROVIDER, Cloud, CloudError, CloudOptions, DEFAULT_RETRY_POLICY, LocalError,
};
use switchhook_providers::{ConfigError, Providers};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use crate::duration;
use crate::fake::FaultLevel;

const EXAMPLES: &str = "\
Examples:
  switchhook dev
  switchhook dev --port 9000 --data ./calls --inactivity-timeout 2m --tick 5s
  switchhook dev --providers providers.json --delivery-faults none --seed 7

FILE has the shape of the deployed secret:
  {\"retell\": {\"keys\": [\"new\", \"old\"], \"dial\": {\"api_key\": \"…\", \"per_second\": 5}},
   \"twilio\": {\"keys\": [\"…\"], \"public_url\": \"https://example.com\"},
   \"vapi\": {\"keys\": [\"…\"]}, \"telnyx\": {\"keys\": [\"…\"]}, \"generic\": {\"keys\": [\"…\"]}}

It answers
  POST /webhooks/{provider}          a provider's webhook
  GET  /calls                        calls; ?job=, lifecycle=, stuck_for=, limit=, cursor=
  POST /calls                        have a call placed
  GET  /calls/{call_id}              the state of a call
  GET  /calls/{call_id}/events       its timeline
  POST /calls/{call_id}/trigger      place it now, whenever it is due
  POST /calls/{call_id}/cancel       cancel it, if it waits to be placed
  GET  /appointments/{id}            the calls of an appointment
  GET  /events/{event_id}/status     what became of an event
  PUT, DELETE /do-not-call/{number}  a number that may not be called
  GET  /domain-events                every domain event, as server-sent events
  POST /republish                    {\"call_id\": …} or {\"since\": …}: publish domain events again; here alone

It dials nobody, whatever FILE says: where it is to ask a provider, a fake one in the same process answers, as Retell does. Calls
of Retell can be placed then, if FILE has a dial for it; the keys that are made have one. What the person at the other end does
says the metadata of the call, a word for each attempt, {\"fake\": \"busy,confirms\"}, or else the last digit of the number:
  0 confirms      1 declines        2 voicemail   3 busy          4 no_answer   5 fails
  6 forgotten     7 response_lost   8 silent      9 rate_limited                - invalid

Log lines go to standard error, at the level of RUST_LOG (warn).
Exit status: 0 after Ctrl-C or SIGTERM, 2 if it cannot start or go on.";

/// API Gateway takes no larger body.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Between two signs of life on a stream without events.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Of a key made for one run: 192 bits.
const KEY_BYTES: usize = 24;
/// Calls that the fake provider lets be placed in a second.
const DIALS_PER_SECOND: f64 = 5.0;
/// How long requests that are being answered may take at the end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8787)]
    port: u16,
    /// Keys of the providers; without it keys are made for this run, and printed
    #[arg(long, value_name = "FILE.json")]
    providers: Option<PathBuf>,
    /// How long to wait for a call that went silent
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration::parse)]
    inactivity_timeout: Duration,
    /// Time between two runs of the scheduler, and of the reconciler
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    tick: Duration,
    /// Keep everything in this directory, and go on from there; without it everything is forgotten
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How badly the fake provider sends webhooks
    #[arg(long, value_name = "HOW", default_value = "usual")]
    delivery_faults: FaultLevel,
    /// Of the fake provider's dice: the same seed and the same calls give the same endings; without it any
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error(
        "could not listen on {address}: if something else does, stop it or choose another --port (0 takes a free one)"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("could not read the providers from {path}: check --providers")]
    ReadProviders {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} does not say which providers there are: mend it, `switchhook dev --help` shows its shape")]
    BadProviders {
        path: PathBuf,
        #[source]
        source: ConfigError,
    },
    #[error("no random keys could be made")]
    Random(#[source] getrandom::Error),
    #[error("the keys that were made were refused")]
    GeneratedProviders(#[source] ConfigError),
    #[error("could not open the stack in {}: check --data", path.display())]
    OpenIn {
        path: PathBuf,
        #[source]
        source: Box<LocalError>,
    },
    #[error("could not open the stack")]
    Open(#[source] Box<LocalError>),
    #[error("could not start")]
    Start(#[source] io::Error),
    #[error("could not go on")]
    Run(#[source] Box<CloudError>),
    #[error("could not serve")]
    Serve(#[source] io::Error),
    #[error("could not say where it listens")]
    Print(#[source] io::Error),
}

impl Dev {
    /// Serves until it is told to stop.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, DevError> {
        log_to_stderr();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(DevError::Start)?;
        runtime.block_on(self.serve(out, errors))?;
        Ok(true)
    }

    async fn serve(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<(), DevError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let listen = |source| DevError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let base_url = format!("http://{}", listener.local_addr().map_err(listen)?);
        let (providers, generated) = match &self.providers {
            Some(path) => (read_providers(path)?, None),
            None => {
                let generated = GeneratedKeys::draw()?;
                (generated.providers(&base_url)?, Some(generated))
            }
        };
        let cloud = self.open(providers)?;
        // Before the ready line: a signal that comes right after it must find its handler.
        let stop = stop_signal().map_err(DevError::Start)?;
        if let Some(generated) = generated {
            generated.print(&program(), &base_url, errors).map_err(DevError::Print)?;
        }
        writeln!(out, "listening on {base_url}").and_then(|()| out.flush()).map_err(DevError::Print)?;

        let running = tokio::spawn({
            let cloud = cloud.clone();
            async move { cloud.run().await }
        });
        let (stopping, stopped) = watch::channel(false);
        let app = app(cloud, stopped.clone());
        let serving = axum::serve(listener, app).with_graceful_shutdown(until_stopped(stopped));
        let serving = tokio::spawn(async move { serving.await });
        let result = tokio::select! {
            () = stop => Ok(()),
            result_of_run = running => Err(match result_of_run {
                Ok(error) => DevError::Run(Box::new(error)),
                Err(panicked) => DevError::Start(io::Error::other(panicked)),
            }),
        };
        stopping.send_replace(true);
        match tokio::time::timeout(SHUTDOWN_GRACE, serving).await {
            Ok(Ok(Err(error))) => result.and(Err(DevError::Serve(error))),
            // Who has not been answered by then has not been told that anything was kept.
            Ok(Ok(Ok(())) | Err(_)) | Err(_) => result,
        }
    }

    fn open(&self, providers: Providers) -> Result<Cloud, DevError> {
        let options = CloudOptions {
            providers,
            inactivity_timeout: self.inactivity_timeout,
            tick: self.tick,
            data_dir: self.data.clone(),
            clock: Clock::system(),
            concurrent_dials_per_provider: CONCURRENT_DIALS_PER_PROVIDER,
            default_retry_policy: DEFAULT_RETRY_POLICY,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            delivery_faults: self.delivery_faults.into(),
        };
        Cloud::open(options).map_err(|source| match &self.data {
            Some(path) => DevError::OpenIn { path: path.clone(), source: Box::new(source) },
            None => DevError::Open(Box::new(source)),
        })
    }
}

fn log_to_stderr() {
    let set = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = set.unwrap_or_else(|| Targets::new().with_default(tracing::Level::WARN));
    let subscriber = tracing_subscriber::registry().with(filter).with(JsonLines::new(io::stderr()));
    // Only a second call could fail, and there is none.
    drop(tracing::subscriber::set_global_default(subscriber));
}

fn read_providers(path: &Path) -> Result<Providers, DevError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| DevError::ReadProviders { path: path.to_owned(), source })?;
    Providers::from_json(&text).map_err(|source| DevError::BadProviders { path: path.to_owned(), source })
}

/// Keys for one run.
struct GeneratedKeys {
    retell: String,
    /// Of the fake provider's API.
    retell_api: String,
    twilio: String,
    generic: String,
}

impl GeneratedKeys {
    fn draw() -> Result<Self, DevError> {
        let key = || {
            let mut bytes = [0; KEY_BYTES];
            getrandom::fill(&mut bytes).map(|()| hex::encode(bytes)).map_err(DevError::Random)
        };
        Ok(Self { retell: key()?, retell_api: key()?, twilio: key()?, generic: key()? })
    }

    fn providers(&self, base_url: &str) -> Result<Providers, DevError> {
        let document = json!({
            "retell": {
                "keys": [self.retell],
                "dial": {"api_key": self.retell_api, "per_second": DIALS_PER_SECOND},
            },
            "twilio": {"keys": [self.twilio], "public_url": base_url},
            "generic": {"keys": [self.generic]},
        });
        Providers::from_json(&document.to_string()).map_err(DevError::GeneratedProviders)
    }

    /// Commands to paste: they call the program as it was called.
    fn print(&self, program: &str, base_url: &str, errors: &mut impl Write) -> io::Result<()> {
        writeln!(errors, "Keys for this run, and how to use them:")?;
        for (provider, key, sample) in [
            ("retell", &self.retell, "retell/call_ended"),
            ("twilio", &self.twilio, "twilio/completed"),
            ("generic", &self.generic, "generic/user_confirmed"),
        ] {
            writeln!(errors, "  {program} send --provider {provider} --key {key} --sample {sample} --to {base_url}")?;
        }
        writeln!(errors, "  {program} show appointment:appt_201 --to {base_url}")?;
        writeln!(
            errors,
            "  {program} call create --provider retell --from-number +442079460018 --to-number +447700900120 \
             --to {base_url}",
        )?;
        writeln!(errors, "  curl -N {base_url}/domain-events")
    }
}

/// How this program was called, as a word of a shell command.
fn program() -> String {
    let called = std::env::args_os().next().filter(|called| !called.is_empty());
    called.map_or_else(|| "switchhook".to_owned(), |called| shell_word(&called.to_string_lossy()))
}

fn shell_word(text: &str) -> String {
    if text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Resolves when somebody wants it to stop.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error says that nobody can stop it any more, because the stopper is gone: then it has stopped.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

#[derive(Clone)]
struct AppState {
    cloud: Cloud,
    stopped: watch::Receiver<bool>,
}

fn app(cloud: Cloud, stopped: watch::Receiver<bool>) -> Router {
    Router::new()
        .route("/domain-events", get(domain_events))
        .route("/republish", post(republish))
        .fallback(forward)
        .with_state(AppState { cloud, stopped })
}

/// What an operator does to a deployed stack with their own credentials. It is no part of the stack's API.
async fn republish(State(state): State<AppState>, body: String) -> Response {
    let asked: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |name: &str| asked.get(name).and_then(Value::as_str);
    let done = match (text("call_id"), text("since").map(Timestamp::parse_rfc3339)) {
        (Some(call_id), None) => state.cloud.republish(&CallId::new(call_id)).await,
        (None, Some(Some(since))) => state.cloud.republish_since(since).await,
        (Some(_) | None, Some(_) | None) => {
            return json_answer(StatusCode::BAD_REQUEST, &json!({"message": "either a call_id or since, in RFC 3339"}));
        }
    };
    match done {
        Ok(done) => json_answer(StatusCode::OK, &json!({"calls": done.calls, "events": done.events})),
        Err(error) => json_answer(StatusCode::INTERNAL_SERVER_ERROR, &json!({"message": error.to_string()})),
    }
}

fn json_answer(code: StatusCode, body: &Value) -> Response {
    (code, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Everything but the stream goes to the stack as it came.
async fn forward(State(state): State<AppState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => state.cloud.request(Request::from_parts(parts, body)).await.map(Body::from),
        Err(_) => json_answer(StatusCode::PAYLOAD_TOO_LARGE, &json!({"message": "Request Entity Too Large"})),
    }
}

/// The domain events from the first on, or from the one after `Last-Event-ID`, and then those to come.
async fn domain_events(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let next = last.and_then(|id| index_after(&state.cloud, id)).unwrap_or_default();
    let watch = state.cloud.bus().watch();
    let stream = unfold((state.cloud, watch, next), |(cloud, mut watch, next)| async move {
        loop {
            let events = cloud.bus().events_since(next);
            if let Some(last) = events.last() {
                let next = last.index + 1;
                return Some((iter(events), (cloud, watch, next)));
            }
            watch.changed().await;
        }
    });
    let stream = stream.flatten().map(|event| Ok(sse_event(&event))).take_until(until_stopped(state.stopped));
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// The place after the last event of this id.
fn index_after(cloud: &Cloud, id: &str) -> Option<u64> {
    let events = cloud.bus().events_since(0);
    events.iter().rfind(|event| id_of(event).as_deref() == Some(id)).map(|event| event.index + 1)
}

fn sse_event(event: &BusEvent) -> Event {
    let id = id_of(event).unwrap_or_else(|| event.id.clone());
    Event::default().id(id).event(&event.detail_type).data(&event.detail)
}

/// The id of the domain event, by which a subscriber tells a repetition.
fn id_of(event: &BusEvent) -> Option<String> {
    let detail: Value = serde_json::from_str(&event.detail).ok()?;
    detail.get("id").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_named_as_a_shell_takes_it() {
        for (called, word) in [
            ("switchhook", "switchhook"),
            ("target/debug/switchhook", "target/debug/switchhook"),
            ("/my tools/switchhook", "'/my tools/switchhook'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(called), word);
        }
    }
}
