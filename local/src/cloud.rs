//! The whole stack in one process: the functions over the local services, the event sources that invoke them, the
//! schedules, and API Gateway in front.
//!
//! The futures that run functions are boxed, so this crate compiles the functions once, and optimised. The body of an `async fn` is
//! compiled in each crate that polls its future.

mod event_sources;
mod gateway;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use lambda_http::request::LambdaRequest;
use switchhook_api::Api;
use switchhook_aws::bus::Bus as BusClient;
use switchhook_aws::calls::{Calls, HealthCache};
use switchhook_aws::http::request_from_event;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::provider::{ApiUrls, ProviderApi};
use switchhook_aws::question::AnswerClient;
use switchhook_aws::queue::Queue as QueueClient;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk;
use switchhook_aws::secret::{DialAccounts, WebhookKeys};
use switchhook_aws::shards::Shards;
use switchhook_consumer::Consumer;
use switchhook_dialer::Dialer;
use switchhook_domain::{CallDefaults, Policy, RetryPolicy, Timestamp};
use switchhook_ingress::Ingress;
use switchhook_providers::{DialRates, Entries, ProvidersFile, WebhookConfig};
use switchhook_reconciler::Reconciler;
use switchhook_relay::Relay;
use switchhook_scheduler::Scheduler;
use tokio::task::JoinError;

use crate::bus::Bus;
use crate::clock::{Clock, skew_ms, with_skew};
use crate::connector::FakeProviderConnector;
use crate::error::LocalError;
use crate::fake::{self, DeliveryFaults, FakeProvider, account_url};
use crate::metrics::{MINUTE_MS, Metrics, Sampler};
use crate::services::{Options, Services};
use crate::sqs::queue_url;
use crate::stack::{
    CALL_RETENTION, CALLS_TABLE, DIAL_ACCOUNTS_SECRET, DIAL_QUEUE, DUE_QUEUE, EVENT_BUS, EVENTS_DEAD_LETTER_QUEUE,
    EVENTS_QUEUE, INBOX_RETENTION, INBOX_TABLE, REPAIR_QUEUE, WEBHOOK_KEYS_SECRET, stack_queues,
};
use crate::sync::lock;
use event_sources::{
    poll_dial_queue, poll_due_queue, poll_due_records, poll_events_queue, poll_repair_queue, poll_stream,
};
use gateway::{Route, gateway_error, http_api_event};

pub use event_sources::CloudError;

/// Number of consumers that run at the same time.
const CONSUMERS: usize = 4;
/// Runs of the reconciler between two drift checks: one check per hour, at one run per minute.
const RUNS_PER_DRIFT_CHECK: u32 = 60;

/// Options of a local stack.
#[derive(Debug)]
pub struct CloudOptions {
    pub providers: ProvidersFile,
    /// True if `providers` replaces the secrets that the data directory holds, and is kept there. False if those count more.
    pub replaces_secrets: bool,
    /// True if the functions read their half of the providers file from the local Secrets Manager, as on AWS. False if they keep their first copy.
    pub reads_secrets: bool,
    /// Rates of the providers that calls are placed with.
    pub dial_rates: DialRates,
    /// Time without events after which Switchhook asks the provider about an attempt.
    pub inactivity_timeout: Duration,
    /// Time between two runs of the scheduler, and between two runs of the reconciler.
    pub tick: Duration,
    /// Directory for all data. `None` keeps the data in memory.
    pub data_dir: Option<PathBuf>,
    pub clock: Clock,
    /// Retry policy for calls that are created without one.
    pub default_retry_policy: RetryPolicy,
    /// Limit on dialers that run at the same time.
    pub dialers: u32,
    /// True if a person's request not to be called again puts the number on the do-not-call list.
    pub block_on_request: bool,
    /// True if calls are found by the other person's number.
    pub index_numbers: bool,
    /// Number of shards of the indexes over time.
    pub index_shards: Shards,
    /// Receives of a message of the events queue before it is a dead letter.
    pub max_receive_count: u32,
    /// Source of the ids of calls, claims and dials.
    pub random_ids: RandomIds,
    /// Seed of the fake provider's random numbers.
    pub seed: u64,
    /// Delivery faults of the fake provider's webhooks.
    pub delivery_faults: DeliveryFaults,
}

/// Result of a run of a scheduled function. The outer error says that the run panicked.
pub type RunResult<T> = Result<Result<T, switchhook_aws::Error>, JoinError>;

/// The stack: all functions over the local services. Clones share the same stack.
#[derive(Clone, Debug)]
pub struct Cloud(Arc<Stack>);

#[derive(Debug)]
struct Stack {
    services: Services,
    tick: Duration,
    ingress: Arc<Ingress>,
    consumer: Arc<Consumer>,
    relay: Arc<Relay>,
    scheduler: Arc<Scheduler>,
    dialer: Arc<Dialer>,
    reconciler: Arc<Reconciler>,
    api: Arc<Api>,
    fake: Arc<FakeProvider>,
    requests: AtomicU64,
    runs: AtomicU64,
    metrics: Metrics,
    sampler: Mutex<Sampler>,
}

impl Cloud {
    /// Opens the services and builds the handlers over them. Call it inside the tokio runtime whose clock the stack
    /// uses.
    ///
    /// # Errors
    /// The data directory cannot be opened.
    pub fn open(options: CloudOptions) -> Result<Self, LocalError> {
        let CloudOptions {
            providers,
            replaces_secrets,
            reads_secrets,
            dial_rates,
            inactivity_timeout,
            tick,
            data_dir,
            clock,
            default_retry_policy,
            dialers,
            block_on_request,
            index_numbers,
            index_shards,
            max_receive_count,
            random_ids,
            seed,
            delivery_faults,
        } = options;
        let services = Services::open(Options { data_dir, clock, queues: stack_queues(max_receive_count) })?;
        let metrics = Metrics::default();
        // Every function has clients of its own, as in its own process, so that a request tells who sent it.
        let aws = |function| sdk::with_timeouts_and_retries(&services.sdk_config_for(function));
        let inbox = |of| {
            Inbox::new(sdk::dynamodb(&aws(of)), INBOX_TABLE.to_owned(), INBOX_RETENTION).shards(index_shards.clone())
        };
        let calls = |of| {
            Calls::new(sdk::dynamodb(&aws(of)), CALLS_TABLE.to_owned(), CALL_RETENTION)
                .index_numbers(index_numbers)
                .shards(index_shards.clone())
        };
        let queue = |of, name| QueueClient::new(sdk::sqs(&aws(of)), queue_url(name));
        let clock = || sdk::Clock::from_config(&services.sdk_config());
        let outcome_providers = services.set_up_secrets(&providers, reads_secrets, replaces_secrets)?;
        let policy = Policy { inactivity_timeout, outcome_providers };
        let journal = services.journal(fake::JOURNAL)?;
        let fake = Arc::new(FakeProvider::open(services.clock(), seed, delivery_faults, journal)?);
        let webhook_keys = if reads_secrets {
            WebhookKeys::new(&aws("ingress"), WEBHOOK_KEYS_SECRET.to_owned())
        } else {
            WebhookKeys::fixed(providers.webhook_keys().clone())
        };
        let dial_accounts = |of| {
            if reads_secrets {
                DialAccounts::new(&aws(of), DIAL_ACCOUNTS_SECRET.to_owned())
            } else {
                DialAccounts::fixed(providers.dial_accounts().clone())
            }
        };
        let connector = SharedHttpConnector::new(FakeProviderConnector(fake.clone()));
        let accounts = dial_rates.providers().filter(|provider| provider.is_named());
        let urls = accounts.fold(ApiUrls::default(), |urls, account| urls.with(account, &account_url(account)));
        let provider_api = || ProviderApi::with_connector(connector.clone(), urls.clone());
        let bus = |of| BusClient::new(sdk::eventbridge(&aws(of)), EVENT_BUS.to_owned());
        Ok(Self(Arc::new(Stack {
            ingress: Arc::new(Ingress {
                webhook_keys,
                inbox: inbox("ingress"),
                queue: queue("ingress", EVENTS_QUEUE),
                dlq: queue("ingress", EVENTS_DEAD_LETTER_QUEUE),
                bus: bus("ingress"),
                answers: AnswerClient::default(),
                clock: clock(),
            }),
            consumer: Arc::new(Consumer {
                inbox: inbox("consumer"),
                calls: calls("consumer"),
                queue: queue("consumer", EVENTS_QUEUE),
                bus: bus("consumer"),
                policy,
                defaults: CallDefaults { retry: default_retry_policy, window: None },
                max_receive_count,
                block_on_request,
                clock: clock(),
            }),
            relay: Arc::new(Relay { bus: bus("relay"), clock: clock() }),
            scheduler: Arc::new(Scheduler {
                calls: calls("scheduler"),
                queue: queue("scheduler", DIAL_QUEUE),
                due_queue: queue("scheduler", DUE_QUEUE),
                dial_rates,
                policy,
                dialers,
                random_ids: random_ids.clone(),
                clock: clock(),
            }),
            dialer: Arc::new(Dialer {
                inbox: inbox("dialer"),
                calls: calls("dialer"),
                queue: queue("dialer", EVENTS_QUEUE),
                dial_accounts: dial_accounts("dialer"),
                api: provider_api(),
                policy,
                random_ids: random_ids.clone(),
                health: HealthCache::default(),
                clock: clock(),
            }),
            reconciler: Arc::new(Reconciler {
                inbox: inbox("reconciler"),
                calls: calls("reconciler"),
                queue: queue("reconciler", EVENTS_QUEUE),
                dlq: queue("reconciler", EVENTS_DEAD_LETTER_QUEUE),
                repair_queue: queue("reconciler", REPAIR_QUEUE),
                bus: bus("reconciler"),
                dial_accounts: dial_accounts("reconciler"),
                api: provider_api(),
                policy,
                clock: clock(),
            }),
            api: Arc::new(Api {
                inbox: inbox("api"),
                calls: calls("api"),
                policy,
                defaults: CallDefaults { retry: default_retry_policy, window: None },
                random_ids: random_ids.clone(),
                clock: clock(),
            }),
            fake,
            sampler: Mutex::new(Sampler::new(services.clone(), metrics.clone())),
            services,
            tick,
            requests: AtomicU64::new(1),
            runs: AtomicU64::new(1),
            metrics,
        })))
    }

    /// Runs the event source mappings and the schedules until the local cloud fails, which should never happen.
    /// Dropping the future stops them.
    pub fn run(&self) -> BoxFuture<'_, CloudError> {
        Box::pin(async move {
            tokio::select! {
                biased;
                failed = self.run_event_sources() => failed,
                never = self.run_schedules() => match never {},
            }
        })
    }

    /// Runs everything but the schedules, in the same way.
    pub fn run_event_sources(&self) -> BoxFuture<'_, CloudError> {
        Box::pin(async move {
            let Stack { services, consumer, dialer, relay, scheduler, reconciler, metrics, .. } = &*self.0;
            let consumers =
                std::array::from_fn::<_, CONSUMERS, _>(|_| Box::pin(poll_events_queue(services, consumer, metrics)));
            let [first, second, third, fourth] = consumers;
            let dialers = usize::try_from(scheduler.dialers).unwrap_or(usize::MAX);
            let stopped = tokio::select! {
                biased;
                stopped = first => stopped,
                stopped = second => stopped,
                stopped = third => stopped,
                stopped = fourth => stopped,
                stopped = poll_dial_queue(services, dialer, dialers, metrics) => stopped,
                stopped = poll_stream(services, relay, metrics) => stopped,
                stopped = poll_due_queue(services, scheduler, metrics) => stopped,
                stopped = poll_repair_queue(services, reconciler, metrics) => stopped,
                never = poll_due_records(services, scheduler, metrics) => match never {},
                never = self.deliver_webhooks() => match never {},
                never = self.sample_metrics() => match never {},
            };
            match stopped {
                Err(error) => error,
            }
        })
    }

    /// Answers a request as API Gateway and the function behind its route would.
    pub fn request(&self, request: Request<Bytes>) -> BoxFuture<'_, Response<Bytes>> {
        Box::pin(async move {
            let id = self.0.requests.fetch_add(1, Ordering::Relaxed);
            let Some(route) = Route::find(request.method(), request.uri().path()) else {
                return gateway_error(StatusCode::NOT_FOUND, "Not Found");
            };
            let event = match serde_json::from_value::<LambdaRequest>(http_api_event(&request, id)) {
                Ok(event) => event,
                Err(_) => return gateway_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
            };
            let stack = self.0.clone();
            let started_ms = self.clock().now_ms();
            let function = async move {
                let request = request_from_event(event);
                match route {
                    Route::Ingress => stack.ingress.handle(request).await,
                    Route::Scheduler => stack.scheduler.handle(request).await,
                    Route::Api => stack.api.handle(request).await,
                }
            };
            let handled = tokio::spawn(with_skew(skew_ms(), function)).await;
            let (now_ms, failed) = (self.clock().now_ms(), handled.is_err());
            let answer = match handled {
                Ok(response) => response.map(|body| Bytes::from(body.to_vec())),
                Err(_) => gateway_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
            };
            let duration_ms = now_ms.saturating_sub(started_ms);
            self.0.metrics.record_invocation(route.function(), duration_ms, failed, now_ms);
            self.0.metrics.record_request(answer.status().as_u16(), duration_ms, now_ms);
            answer
        })
    }

    /// Runs the reconciler once, as its schedule does.
    ///
    /// # Errors
    /// The reconciler failed, or it panicked.
    pub fn reconcile(&self) -> BoxFuture<'_, RunResult<switchhook_reconciler::Report>> {
        let reconciler = self.0.reconciler.clone();
        Box::pin(self.invoke("reconciler", |run| async move { reconciler.run(&format!("reconcile-{run}")).await }))
    }

    /// Runs the scheduler once, as its schedule does.
    ///
    /// # Errors
    /// The scheduler failed, or it panicked.
    pub fn schedule(&self) -> BoxFuture<'_, RunResult<switchhook_scheduler::Report>> {
        let scheduler = self.0.scheduler.clone();
        Box::pin(self.invoke("scheduler", |run| async move { scheduler.run(&format!("schedule-{run}")).await }))
    }

    /// Runs the drift check once, as its schedule does.
    ///
    /// # Errors
    /// The reconciler failed, or it panicked.
    pub fn check_drift(&self) -> BoxFuture<'_, RunResult<switchhook_reconciler::DriftReport>> {
        let reconciler = self.0.reconciler.clone();
        Box::pin(self.invoke("reconciler", |run| async move { reconciler.check_drift(&format!("drift-{run}")).await }))
    }

    /// Returns the keys with which ingress verifies webhooks now.
    pub async fn webhook_keys(&self) -> Arc<Entries<WebhookConfig>> {
        let now = Timestamp::from_millis(i64::try_from(self.clock().now_ms()).unwrap_or(i64::MAX));
        self.0.ingress.webhook_keys.current(now).await
    }

    #[must_use]
    pub fn consumer(&self) -> Arc<Consumer> {
        self.0.consumer.clone()
    }

    #[must_use]
    pub fn relay(&self) -> Arc<Relay> {
        self.0.relay.clone()
    }

    #[must_use]
    pub fn scheduler(&self) -> Arc<Scheduler> {
        self.0.scheduler.clone()
    }

    #[must_use]
    pub fn dialer(&self) -> Arc<Dialer> {
        self.0.dialer.clone()
    }

    #[must_use]
    pub fn reconciler(&self) -> Arc<Reconciler> {
        self.0.reconciler.clone()
    }

    /// Fake provider to which this stack sends all dial requests and lookups.
    #[must_use]
    pub fn fake(&self) -> &FakeProvider {
        &self.0.fake
    }

    /// Event bus with the published domain events.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        self.0.services.bus()
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.services.clock()
    }

    /// Metrics of this stack. As a layer of the tracing subscriber, it collects those of the functions.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    #[must_use]
    pub fn services(&self) -> &Services {
        &self.0.services
    }

    /// Posts the fake provider's webhooks to the stack. Each is signed at the moment it is sent, with the first key of its provider
    /// that ingress knows then. Without such a key, none is sent. Nor is any of Telnyx, whose signing key ingress does not have.
    async fn deliver_webhooks(&self) -> Infallible {
        loop {
            let delivery = self.0.fake.next_delivery().await;
            let now = Timestamp::from_millis(i64::try_from(self.clock().now_ms()).unwrap_or(i64::MAX));
            let keys = self.webhook_keys().await;
            let request = keys.config(delivery.provider()).and_then(|config| delivery.signed_request(config, now));
            let is_refused = match request {
                Some(request) => !self.request(request).await.status().is_success(),
                None => false,
            };
            if is_refused {
                self.0.fake.retry_delivery(delivery);
            } else {
                self.0.fake.finish_delivery(&delivery);
            }
        }
    }

    /// Runs a scheduled function in a task of its own, and records its invocation. `handle` gets the number of the run.
    async fn invoke<T: Send + 'static, F: Future<Output = Result<T, switchhook_aws::Error>> + Send + 'static>(
        &self,
        function: &str,
        handle: impl FnOnce(u64) -> F + Send,
    ) -> RunResult<T> {
        let run = tokio::spawn(with_skew(skew_ms(), handle(self.0.runs.fetch_add(1, Ordering::Relaxed))));
        let started_ms = self.clock().now_ms();
        self.0.metrics.record_scheduled_event(function, started_ms);
        let done = run.await;
        let now_ms = self.clock().now_ms();
        let failed = !matches!(done, Ok(Ok(_)));
        self.0.metrics.record_invocation(function, now_ms.saturating_sub(started_ms), failed, now_ms);
        if failed {
            self.0.metrics.record_dropped_event(function, now_ms);
        }
        done
    }

    /// Samples the queues and tables once a minute, as AWS does.
    async fn sample_metrics(&self) -> Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(MINUTE_MS)).await;
            self.sample();
        }
    }

    /// Records what the queues and tables did since the last sample, as metrics of this minute.
    pub fn sample(&self) {
        lock(&self.0.sampler).sample();
    }

    /// Runs the scheduler, the reconciler and the drift check on their schedules. A failed run logs its error, and the
    /// next run catches up.
    async fn run_schedules(&self) -> Infallible {
        for run in (1..=RUNS_PER_DRIFT_CHECK).cycle() {
            tokio::time::sleep(self.0.tick).await;
            drop(self.schedule().await);
            drop(self.reconcile().await);
            if run == RUNS_PER_DRIFT_CHECK {
                drop(self.check_drift().await);
            }
        }
        std::future::pending().await
    }
}
