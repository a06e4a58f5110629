//! State of one run: the stack, the plan, and the observations so far. All tasks of the simulator share it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use fastrand::Rng;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_aws::random::RandomIds;
use switchhook_domain::{Policy, Provider, ProviderSet, Timestamp};
use switchhook_local::clock::{Clock, with_skew};
use switchhook_local::fake::{Behaviour, DeliveryFaults};
use switchhook_local::{CALLS_TABLE, CloudOptions, INBOX_TABLE};
use switchhook_providers::{Key, verifying_key};
use switchhook_tests::{KEY, MAX_RECEIVE_COUNT, OLD_KEY, PUBLIC_URL, World, dial_rates, options};
use tokio::time::{Instant, sleep_until};

use crate::calls::{Millis, START};
use crate::mutation::Mutation;
use crate::observed::Observed;
use crate::plan::{CLOCK_SKEW_MS_MAX, FaultKind, Plan};
use crate::state::{RunResult, State};

/// Longer than a dial may be in doubt.
pub(crate) const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Receives of a message before it is a dead letter, in plans with [dead letters](FaultKind::DeadLetters). The runbook advises this number if
/// the queue fills in an outage.
const FEW_RECEIVES: u32 = 5;
pub(crate) const API_KEY: &str = "an API key of the simulator";
/// Private key of Vonage's application.
const PRIVATE_KEY: &str = include_str!("../../shared/providers/fixtures/vonage/private_key.pem");

tokio::task_local! {
    /// Set while the simulator sends requests for its own checks. They suffer no faults.
    pub(crate) static NO_FAULTS: ();
}

/// A webhook that was answered with a success.
pub(crate) struct Acknowledged {
    /// Index of the external call, and of the webhook within it. `None` if the webhook is about a placed call.
    pub(crate) webhook: Option<(usize, usize)>,
    pub(crate) event_id: String,
    /// True if it was answered `accepted`.
    pub(crate) is_accepted: bool,
    pub(crate) at: Instant,
}

/// A fact that a second sender reports, if it matters to the truth of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Somebody or a machine has answered.
    Answer,
    /// The outcome of the attempt, in the word of the API: what the person said, or that a machine answered.
    Outcome(&'static str),
}

/// A report of a second sender that was answered with a success.
pub(crate) struct AcknowledgedReport {
    /// Provider's id of the dial that it is about.
    pub(crate) provider_call_id: String,
    pub(crate) told: Vec<Told>,
    /// True if it does not name the attempt.
    pub(crate) is_of_call: bool,
    pub(crate) at: Millis,
}

/// A call that nobody reports.
#[derive(Clone, Debug)]
pub(crate) struct UnreportedCall {
    pub(crate) provider: Provider,
    /// Id under which Switchhook finds it.
    pub(crate) call_id: String,
    pub(crate) behaviour: Behaviour,
}

/// The result of one [`CallRequest`](crate::requests::CallRequest).
#[derive(Clone, Default)]
pub(crate) struct RequestedCall {
    /// Id of the created call. Empty before the API has answered.
    pub(crate) call_id: String,
    /// Largest number of dials at the fake provider once the API has canceled the call: those at that time, and one more if an attempt was
    /// under way. Its request may not have been sent by then.
    pub(crate) dials_max: Option<usize>,
    /// Time at which the API answered that the number is blocked.
    pub(crate) blocked_at: Option<Millis>,
}

pub(crate) struct Sim {
    pub(crate) world: World,
    pub(crate) plan: Plan,
    pub(crate) state: Arc<Mutex<State>>,
    /// Milliseconds that the clock of each provider is ahead of the true time.
    provider_clocks: BTreeMap<Provider, Millis>,
    pub(crate) acknowledged: RefCell<Vec<Acknowledged>>,
    pub(crate) requested: RefCell<Vec<RequestedCall>>,
    /// Calls that nobody reports.
    pub(crate) unreported: RefCell<Vec<UnreportedCall>>,
    /// Reports of second senders.
    pub(crate) told: RefCell<Vec<AcknowledgedReport>>,
    pub(crate) observed: RefCell<Observed>,
    pub(crate) began: Instant,
    /// Held by a run of the schedules.
    pub(crate) schedules: tokio::sync::Mutex<()>,
}

impl Sim {
    pub(crate) fn new(plan: Plan, mutation: Option<Mutation>) -> Self {
        let start = UNIX_EPOCH + Duration::from_millis(START.unsigned_abs());
        let delivery_faults = DeliveryFaults::NONE;
        let secret = secret(mutation, plan.has_fault(FaultKind::UnreportedCalls));
        let has_dead_letters = plan.has_fault(FaultKind::DeadLetters);
        let max_receive_count = if has_dead_letters { FEW_RECEIVES } else { MAX_RECEIVE_COUNT };
        let options = CloudOptions {
            clock: Clock::starting_at(start),
            index_numbers: true,
            max_receive_count,
            random_ids: RandomIds::seeded(plan.seed),
            seed: plan.seed,
            inactivity_timeout: INACTIVITY_TIMEOUT,
            delivery_faults,
            dial_rates: dial_rates(&secret, &plan.pace().to_text()),
            ..options(&secret)
        };
        let world = World::with_options(options);
        if plan.has_fault(FaultKind::LaggingIndex) {
            world.cloud.services().dynamodb().let_indexes_lag(INBOX_TABLE, CALLS_TABLE).unwrap();
        }
        let provider_clocks = plan.provider_clocks();
        for (provider, ahead_ms) in &provider_clocks {
            world.cloud.fake().set_clock_ahead(*provider, *ahead_ms);
        }
        let state = Arc::new(Mutex::new(State {
            clock: world.cloud.clock(),
            rng: Rng::with_seed(plan.seed),
            plan: plan.clone(),
            mutation,
            result: RunResult::default(),
            written: BTreeSet::new(),
            inbox: BTreeMap::new(),
            claims: BTreeMap::new(),
        }));
        let requested = RefCell::new(plan.call_requests.iter().map(|_| RequestedCall::default()).collect());
        Self {
            world,
            plan,
            state,
            provider_clocks,
            acknowledged: RefCell::default(),
            requested,
            unreported: RefCell::default(),
            told: RefCell::default(),
            observed: RefCell::default(),
            began: Instant::now(),
            schedules: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Draws whether a fault of this kind happens now.
    pub(crate) fn hit(&self, kind: FaultKind) -> bool {
        self.state().hit(kind)
    }

    pub(crate) fn trace(&self, what: &str) {
        self.state().trace(what);
    }

    pub(crate) fn random(&self, range: std::ops::Range<u64>) -> u64 {
        self.state().rng.u64(range)
    }

    pub(crate) async fn sleep_to(&self, at: Millis) {
        let since_start = u64::try_from(at - START).unwrap_or_default();
        sleep_until(self.began + Duration::from_millis(since_start)).await;
    }

    /// Milliseconds that the clock of a provider is ahead of the true time.
    pub(crate) fn clock_ahead_ms(&self, provider: Provider) -> Millis {
        self.provider_clocks.get(&provider).copied().unwrap_or_default()
    }

    /// Draws how many milliseconds the clock of the next invocation is ahead of the true time.
    fn draw_skew_ms(&self) -> i64 {
        let mut state = self.state();
        if !state.hit(FaultKind::ClockSkew) {
            return 0;
        }
        state.rng.i64(-CLOCK_SKEW_MS_MAX..=CLOCK_SKEW_MS_MAX)
    }

    /// Runs an invocation on a machine whose clock may be wrong.
    pub(crate) async fn on_machine<T>(&self, invocation: impl Future<Output = T>) -> T {
        with_skew(self.draw_skew_ms(), invocation).await
    }

    /// Sends a request to the HTTP API, and so to a function.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> (StatusCode, Value) {
        self.on_machine(self.world.send(request)).await
    }

    /// The webhook that a provider signs now, with this key.
    pub(crate) fn signed(&self, provider: Provider, key: &str, query: &str, body: &[u8]) -> Request<Bytes> {
        let theirs = Timestamp::from_millis(self.world.now().as_millis() + self.clock_ahead_ms(provider));
        self.world.signed(provider, key, query, body, theirs)
    }

    /// Runs `future` without faults, for requests of the simulator itself.
    pub(crate) async fn without_faults<T>(&self, future: impl Future<Output = T>) -> T {
        NO_FAULTS.scope((), future).await
    }

    /// Invokes a function once. Returns `None` if the function crashed or exceeded its timeout.
    pub(crate) async fn invoke<T: Send + 'static>(
        &self,
        timeout_s: u64,
        handler: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let handler = with_skew(self.draw_skew_ms(), handler);
        let invocation = tokio::spawn(tokio::time::timeout(Duration::from_secs(timeout_s), handler));
        invocation.await.ok().and_then(Result::ok)
    }

    pub(crate) fn has_mutation(&self, mutation: Mutation) -> bool {
        self.state().mutation == Some(mutation)
    }
}

/// The policy of the stack.
pub(crate) fn policy() -> Policy {
    Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: ProviderSet::reporting_outcome() }
}

/// The secret of the stack. Each provider has an account, and its new and its old key. Telnyx has the public keys. If `discovers`, the lists
/// of the providers are read.
fn secret(mutation: Option<Mutation>, discovers: bool) -> Value {
    let mut keys = vec![KEY, OLD_KEY];
    if mutation == Some(Mutation::NoOldKey) {
        keys.pop();
    }
    let telnyx: Vec<String> =
        keys.iter().map(|key| verifying_key(Provider::Telnyx, &Key::new(*key).unwrap())).collect();
    let mut secret = json!({
        "retell": {"keys": keys, "dial": {"api_key": API_KEY}},
        "twilio": {
            "keys": keys, "public_url": PUBLIC_URL,
            "dial": {
                "account_sid": "AC00000000000000000000000000000001", "auth_token": API_KEY,
                "twiml_url": "https://app.example.com/twiml",
            },
        },
        "vapi": {
            "keys": keys,
            "dial": {"api_key": API_KEY, "assistant_id": "a", "phone_number_id": "p"},
        },
        "telnyx": {
            "keys": telnyx, "public_url": PUBLIC_URL, "dial": {"api_key": API_KEY, "connection_id": "c"},
        },
        "plivo": {
            "keys": keys, "public_url": PUBLIC_URL,
            "dial": {"auth_id": "MA1", "auth_token": API_KEY, "answer_url": "https://app.example.com/answer"},
        },
        "vonage": {
            "keys": keys, "public_url": PUBLIC_URL,
            "dial": {"application_id": "a", "private_key": PRIVATE_KEY, "answer_url": "https://app.example.com/answer"},
        },
        "elevenlabs": {
            "keys": keys, "dial": {"api_key": API_KEY, "agent_id": "a", "agent_phone_number_id": "p"},
        },
        "bland": {
            "keys": keys, "public_url": PUBLIC_URL, "dial": {"api_key": API_KEY, "task": "Ask whether the person comes."},
        },
        "signalwire": {
            "keys": keys, "public_url": PUBLIC_URL,
            "dial": {
                "api_url": "https://example.signalwire.com", "project_id": "p1", "api_token": API_KEY,
                "cxml_url": "https://app.example.com/cxml",
            },
        },
        "generic": {"keys": keys},
    });
    for (_, entry) in secret.as_object_mut().into_iter().flatten().filter(|(name, _)| discovers && *name != "generic") {
        entry["discover"] = true.into();
    }
    secret
}
