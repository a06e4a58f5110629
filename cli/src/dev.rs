//! `switchhook dev`: runs the whole stack on this machine, over HTTP.
//!
//! **Standard output carries exactly one line, printed when the stack is ready to answer requests.** Scripts wait for
//! it. Everything else goes to standard error.

mod frozen;
mod guard;
mod keys;
mod operator;
mod playground;
mod response;
mod server;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use switchhook_aws::random::RandomIds;
use switchhook_aws::shards::Shards;
use switchhook_aws::telemetry::JsonLines;
use switchhook_console::{Console, LinkError, Options};
use switchhook_domain::CallId;
use switchhook_local::clock::Clock;
use switchhook_local::metrics::Metrics;
use switchhook_local::{Cloud, CloudError, CloudOptions, DEFAULT_RETRY_POLICY, DIALERS, LocalError, MAX_RECEIVE_COUNT};
use switchhook_operate::Stack;
use switchhook_providers::{ConfigError, DialRates, ProvidersFile};
use tokio::sync::watch;
use tokio::task::JoinError;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::console::OWN_NAME;
use crate::data_dir::{ClockFile, DataDir, UnfinishedDemo};
use crate::duration;
use crate::providers_file::{self, ProvidersFileError};
use crate::running_dev::RunningDev;
use crate::serving::{FaultLevel, ListenError, behaviours, browser_host, enter_presses, listen, stop_signal};

use keys::GeneratedKeys;
use playground::LocalPlayground;
use server::{app, by_host};

pub(crate) use server::until_stopped;

const EXAMPLES: &str = concat!(
    "\
Examples:
  switchhook dev
  switchhook dev --port 9000 --data ./calls --inactivity-timeout 2m --tick 5s
  switchhook dev --providers providers.json --delivery-faults none --seed 7
  switchhook demo --data calls && switchhook dev --data calls --freeze

The file for --providers has the format of `switchhook providers put`:
  {\"retell\": {\"keys\": [\"new\", \"old\"], \"dial\": {\"api_key\": \"…\"}},
   \"twilio\": {\"keys\": [\"…\"], \"public_url\": \"https://example.com\"},
   \"vapi\": {\"keys\": [\"…\"]}, \"telnyx\": {\"keys\": [\"…\"]}, \"generic\": {\"keys\": [\"…\"]}}

The ready line on standard output has a link, which opens the pages of the stack once: calls, events, health and repairs. Enter
prints a new link on standard error. The page Try plays stories: a call whose webhooks come late and twice, a retry, a lost answer,
a forgery. It places calls, sends signed webhooks, holds the fake provider's webhooks to let them go in any order, and skips time.

Programs on this machine need no credentials. Send bodies with the header content-type: application/json. Pages of other sites are
refused, and so are requests by another name than localhost or 127.0.0.1. Webhooks may come by any name, so that a tunnel works.

Routes:
  POST /webhooks/{provider}          receive a provider's webhook
  GET  /calls                        list calls; filters: ?job=, lifecycle=, stuck_for=, limit=, cursor=
  POST /calls                        create a call that Switchhook places
  GET  /call?id={call_id}            show the state of a call
  GET  /call/events?id={call_id}     show the timeline of a call
  POST /call/trigger?id={call_id}    place a call now, even if it is not due
  POST /call/cancel?id={call_id}     cancel a call: no further attempt follows
  GET  /appointment?id={id}          list the calls of an appointment
  GET  /event/status?id={event_id}   show how an event was processed
  PUT, DELETE /do-not-call?number={number}   block or unblock a number
and, only in this local stack:
  GET  /domain-events                stream the last 100,000 domain events and all new ones, as server-sent events
  GET  /stack                        show the names of the tables, the queues, the bus and the secrets
  GET  /clock                        show the time of the stack: --freeze stops it, and the page Try can skip ahead
  POST /aws                          answer AWS requests to these resources; any credentials are accepted
  POST /run/{schedule}               run a schedule now: scheduler, reconciler or drift
  GET  /metrics-data                 show the metrics of each minute; ?since= takes an RFC 3339 time

While it runs, the other commands find it without --to. If several run, --to chooses one.

No phone rings. A fake provider in the same process answers all dial requests and lookups in the way that Retell does, whatever
keys the providers file has. To create calls, the file needs a \"dial\" entry for retell; generated keys have one.

",
    behaviours!(),
    "

Log lines go to standard error. RUST_LOG sets their level: error, warn or info. The default is warn.
Exit status: 0 after Ctrl-C or SIGTERM, 2 if the stack cannot start or stops by itself."
);

/// Time that open requests get to finish after the stop signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Operation on the file of the generated keys, in the text of an error.
const KEYS: &str = "read or keep the generated keys";
/// Operation on the file of the clock, in the text of an error.
const TIME: &str = "read or keep the time";

/// Name by which a browser asks for the pages. Every other name of this machine leads to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PagesHost {
    /// The cookie of the pages goes to no other server on this machine
    #[value(name = "switchhook.localhost")]
    Own,
    /// For browsers that cannot resolve names under localhost, such as Safari; the API is then at 127.0.0.1 only
    #[value(name = "localhost")]
    Localhost,
}

impl PagesHost {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => OWN_NAME,
            Self::Localhost => "localhost",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dev {
    /// Port on 127.0.0.1; 0 chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = 8787)]
    port: u16,
    /// Name of this machine in the link to the pages
    #[arg(long, value_name = "NAME", default_value = OWN_NAME)]
    host: PagesHost,
    /// JSON file with the keys of the providers, which are then kept in --data; without it, the keys that an earlier --providers or
    /// `providers put` left in --data, else providers.json of --data, else generated keys, which --data keeps too
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Calls per second that each provider is asked to place; calls of another provider wait
    #[arg(long, value_name = "RATES", default_value = "retell=5")]
    dial_rates: DialRates,
    /// Time that an attempt may go without events before Switchhook asks the provider about it
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration::parse)]
    inactivity_timeout: Duration,
    /// Time between two runs of the scheduler, and between two runs of the reconciler
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse)]
    tick: Duration,
    /// Directory for all data, from which a later run continues; without it, data is kept in memory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only look at the data: the clock stands still where `switchhook demo --data` ended, and nothing runs or can be changed; refused
    /// once a run without --freeze has gone on from there
    #[arg(long, requires = "data")]
    freeze: bool,
    /// Faults of the fake provider in delivering webhooks
    #[arg(long, value_name = "LEVEL", default_value = "usual")]
    delivery_faults: FaultLevel,
    /// Seed of the fake provider: the same seed and the same calls give the same results; without it, the seed is
    /// random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    ProvidersFile(#[from] ProvidersFileError),
    #[error("could not generate keys")]
    GenerateKeys(#[source] getrandom::Error),
    #[error("could not use the generated keys")]
    UseGeneratedKeys(#[source] ConfigError),
    #[error("could not {operation} in {}: check --data", path.display())]
    Data {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not open the stack in {}: check --data", path.display())]
    OpenDataDir {
        path: PathBuf,
        #[source]
        source: Box<LocalError>,
    },
    #[error("could not open the stack")]
    Open(#[source] Box<LocalError>),
    #[error("{} holds no finished demo: write one into a new directory with `switchhook demo --data DIR`", .0.display())]
    NotADemo(PathBuf),
    #[error(
        "the stack in {} has gone on from the end of its demo: start it without --freeze, or write the demo into a new directory",
        .0.display()
    )]
    GoneOn(PathBuf),
    #[error(transparent)]
    UnfinishedDemo(#[from] UnfinishedDemo),
    #[error("could not start the stack")]
    Start(#[source] io::Error),
    #[error("the stack stopped by itself")]
    Run(#[source] Box<CloudError>),
    #[error("the stack stopped by itself: one of its tasks crashed")]
    Crash(#[source] JoinError),
    #[error("could not serve requests")]
    Serve(#[source] io::Error),
    #[error("could not make a link to the pages")]
    Link(#[from] LinkError),
    #[error("could not print the address of the stack")]
    Print(#[source] io::Error),
}

impl Dev {
    /// Serves until Ctrl-C or SIGTERM.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, DevError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(DevError::Start)?;
        runtime.block_on(self.serve(out, errors))?;
        Ok(true)
    }

    async fn serve(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<(), DevError> {
        if let Some(path) = &self.data {
            DataDir::new(path).refuse_unfinished_demo()?;
        }
        let (listener, address) = listen(self.port).await?;
        let base_url = format!("http://{address}");
        let (clock, frozen) = self.clock()?;
        let file = self.providers.clone().or_else(|| DataDir::new(self.data.as_deref()?).providers());
        let (providers, generated) = match &file {
            Some(path) => (providers_file::read(path)?, None),
            None => {
                let keys = self.generated_keys()?;
                let document = keys.providers(&base_url).to_string();
                (ProvidersFile::from_json(&document).map_err(DevError::UseGeneratedKeys)?, Some(keys))
            }
        };
        let cloud = self.open(providers, clock)?;
        self.keep_clock(&clock)?;
        let generated = generated.filter(|_| !cloud.services().secrets_manager().is_restored());
        if let Some(keys) = &generated {
            self.keep_keys(keys)?;
        }
        self.name_secrets(&cloud, errors).map_err(DevError::Print)?;
        if frozen {
            self.restore_metrics(cloud.metrics())?;
        }
        log_to_stderr(cloud.metrics().clone());
        // The signal handlers must exist before the ready line is printed, because a signal may follow it immediately.
        let stop = stop_signal().map_err(DevError::Start)?;
        if let Some(keys) = generated {
            keys.print_commands(&base_url, errors).map_err(DevError::Print)?;
        }
        let _running_dev = self.announce(&base_url, address.port(), errors).map_err(DevError::Print)?;
        let names = operator::names(&cloud, &base_url);
        let stack = Stack::new(names.clone(), &cloud.services().sdk_config(), Some(base_url.clone()));
        let look_first = self.look_first()?;
        let pages_host = browser_host(self.host.name(), address.port());
        let options = Options { host: pages_host.clone(), allows_changes: !frozen, is_frozen: frozen, look_first };
        let pages = if frozen {
            Console::new(stack, options)
        } else {
            let data = self.data.as_deref().map(DataDir::new);
            let playground = LocalPlayground::new(cloud.clone(), stack.clone(), data);
            Console::with_playground(stack, options, Arc::new(playground))
        };
        let ready = format!("listening on {base_url}; look at it: {}", pages.link()?);
        writeln!(out, "{ready}").and_then(|()| out.flush()).map_err(DevError::Print)?;

        let mut running = tokio::spawn({
            let cloud = cloud.clone();
            async move { if frozen { std::future::pending().await } else { cloud.run().await } }
        });
        let (stopping, stopped) = watch::channel(false);
        let app = by_host(pages_host, pages.router(), app(cloud.clone(), names, stopped.clone(), frozen), cloud);
        let serving = axum::serve(listener, app).with_graceful_shutdown(until_stopped(stopped));
        let serving = tokio::spawn(async move { serving.await });
        let mut pressed = enter_presses();
        tokio::pin!(stop);
        let result = loop {
            tokio::select! {
                () = &mut stop => break Ok(()),
                failed = &mut running => break Err(match failed {
                    Ok(error) => DevError::Run(Box::new(error)),
                    Err(crash) => DevError::Crash(crash),
                }),
                // Standard output has its one line already. If nobody reads standard error any more, the stack goes on.
                Some(()) = pressed.recv() => if let Ok(link) = pages.link() {
                    drop(writeln!(errors, "look at it: {link}"));
                },
            }
        };
        pages.close();
        stopping.send_replace(true);
        let served = tokio::time::timeout(SHUTDOWN_GRACE, serving).await;
        pages.stop_runs().await;
        match served {
            Ok(Ok(Err(error))) => result.and(Err(DevError::Serve(error))),
            // A request that is still open gets no response, so its sender does not assume that it was stored.
            Ok(Ok(Ok(())) | Err(_)) | Err(_) => result,
        }
    }

    /// Returns the generated keys that the data directory keeps, or new ones. With the same account, a later run can tell whether a
    /// dial of this run was made.
    fn generated_keys(&self) -> Result<GeneratedKeys, DevError> {
        let generate = || GeneratedKeys::generate().map_err(DevError::GenerateKeys);
        let Some(path) = &self.data else { return generate() };
        let read = || -> io::Result<Option<GeneratedKeys>> {
            Ok(DataDir::new(path).keys()?.map(|text| serde_json::from_str(&text)).transpose()?)
        };
        let kept = read().map_err(data_error(KEYS, path))?;
        kept.map_or_else(generate, Ok)
    }

    /// Keeps generated keys for later runs. The data directory must be locked.
    fn keep_keys(&self, keys: &GeneratedKeys) -> Result<(), DevError> {
        let Some(path) = self.data.as_ref().filter(|_| !self.freeze) else { return Ok(()) };
        let keep = || -> io::Result<()> { DataDir::new(path).write_keys(&serde_json::to_string(keys)?) };
        keep().map_err(data_error(KEYS, path))
    }

    /// Says which keys a stack has whose data directory held keys of an earlier run.
    fn name_secrets(&self, cloud: &Cloud, errors: &mut impl Write) -> io::Result<()> {
        let Some(data) = self.data.as_deref().filter(|_| cloud.services().secrets_manager().is_restored()) else {
            return Ok(());
        };
        let data = data.display();
        if self.providers.is_some() {
            return writeln!(errors, "Keys of --providers, in place of those in {data}.");
        }
        writeln!(errors, "Keys in {data}, from an earlier --providers or `providers put`.")
    }

    /// Returns the clock of the stack, and true if it is stopped. The stack of a demo goes on from the end of the demo. Otherwise its calls
    /// would be older than any retention.
    fn clock(&self) -> Result<(Clock, bool), DevError> {
        let Some(path) = &self.data else { return Ok((Clock::ahead_by_ms(0), false)) };
        let file = DataDir::new(path).clock().map_err(data_error(TIME, path))?;
        if !self.freeze {
            let ahead_ms = match (file.ahead_ms, file.ended_ms) {
                (Some(ahead_ms), _) => ahead_ms,
                (None, None) => 0,
                (None, Some(ended_ms)) => ended_ms.cast_signed() - Clock::system().now_ms().cast_signed(),
            };
            return Ok((Clock::ahead_by_ms(ahead_ms), false));
        }
        let ended_ms = file.ended_ms.ok_or_else(|| DevError::NotADemo(path.clone()))?;
        // The stopped clock would show rows of its future.
        if file.ahead_ms.is_some() {
            return Err(DevError::GoneOn(path.clone()));
        }
        Ok((Clock::stopped(UNIX_EPOCH + Duration::from_millis(ended_ms)), true))
    }

    /// Starts the clock of a demo, from which it goes on at later starts. The data directory must be locked.
    fn keep_clock(&self, clock: &Clock) -> Result<(), DevError> {
        let Some(path) = self.data.as_ref().filter(|_| !self.freeze) else { return Ok(()) };
        let data = DataDir::new(path);
        let keep = || -> io::Result<()> {
            let file = data.clock()?;
            if file.ended_ms.is_some() && file.ahead_ms.is_none() {
                data.write_clock(ClockFile { ahead_ms: Some(clock.offset_ms()), ..file })?;
            }
            Ok(())
        };
        keep().map_err(data_error(TIME, path))
    }

    /// Reads the metrics that the demo has kept. They belong to the time at which the clock stands still.
    fn restore_metrics(&self, metrics: &Metrics) -> Result<(), DevError> {
        let Some(path) = &self.data else { return Ok(()) };
        let restore = |text: Option<String>| -> io::Result<()> {
            if let Some(text) = text {
                metrics.restore(&text)?;
            }
            Ok(())
        };
        let restored = DataDir::new(path).metrics().and_then(restore);
        restored.map_err(data_error("read the metrics", path))
    }

    /// Returns the call that the demo in the directory recommends.
    fn look_first(&self) -> Result<Option<CallId>, DevError> {
        let Some(path) = &self.data else { return Ok(None) };
        let id = DataDir::new(path).look_first().map_err(data_error("read the recommended call", path))?;
        Ok(id.map(CallId::new))
    }

    /// Tells the other commands the URL of this stack. If that fails, they need --to.
    fn announce(&self, base_url: &str, port: u16, errors: &mut impl Write) -> io::Result<Option<RunningDev>> {
        match RunningDev::announce(base_url, port) {
            Ok(announced) => Ok(announced),
            Err(error) => {
                writeln!(errors, "switchhook: other commands will need --to {base_url}: {error}")?;
                Ok(None)
            }
        }
    }

    fn open(&self, providers: ProvidersFile, clock: Clock) -> Result<Cloud, DevError> {
        let options = CloudOptions {
            providers,
            replaces_secrets: self.providers.is_some(),
            reads_secrets: true,
            dial_rates: self.dial_rates.clone(),
            inactivity_timeout: self.inactivity_timeout,
            tick: self.tick,
            data_dir: self.data.clone(),
            clock,
            dialers: DIALERS,
            block_on_request: true,
            default_retry_policy: DEFAULT_RETRY_POLICY,
            index_numbers: true,
            index_shards: Shards::default(),
            max_receive_count: MAX_RECEIVE_COUNT,
            random_ids: RandomIds::from_system(),
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            delivery_faults: self.delivery_faults.into(),
        };
        Cloud::open(options).map_err(|source| match &self.data {
            Some(path) => DevError::OpenDataDir { path: path.clone(), source: Box::new(source) },
            None => DevError::Open(Box::new(source)),
        })
    }
}

/// Returns a function that makes the error of an operation on a file of the data directory.
fn data_error(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> DevError {
    move |source| DevError::Data { operation, path: path.to_owned(), source }
}

/// Sends log lines to standard error, and the metrics of every decision to the stack, whatever lines are shown.
fn log_to_stderr(metrics: Metrics) {
    let set = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = set.unwrap_or_else(|| Targets::new().with_default(tracing::Level::WARN));
    let lines = JsonLines::new(io::stderr()).with_filter(filter);
    let metrics = metrics.with_filter(Targets::new().with_target("switchhook", tracing::Level::INFO));
    let subscriber = tracing_subscriber::registry().with(lines).with(metrics);
    // This fails only if a global subscriber is already set, and nothing else sets one.
    drop(tracing::subscriber::set_global_default(subscriber));
}
