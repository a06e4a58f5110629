//! One run: a plan carried out against the production handlers, on one thread, in virtual time.
//!
//! Here stands what AWS does around the handlers (event sources, schedules, timeouts), done badly where the plan says so; and
//! the senders of webhooks and askers of the API, who try again until they are answered, as theirs do.
//!
//! **Every die is thrown from the plan's seed**, in the order of events, so that one plan is one run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use aws_lambda_events::event::dynamodb::Event as StreamEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use bytes::Bytes;
use fastrand::Rng;
use http::Request;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::bus::BusEvent;
use switchhook_local::clock::Clock;
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::fake::{CrashPoint, DeliveryFaults};
use switchhook_local::queue::{NewMessage, ReceivedMessage};
use switchhook_local::sqs::to_event_record;
use switchhook_local::{CALLS_TABLE, CloudOptions, DIAL_QUEUE, EVENTS_QUEUE, INBOX_TABLE};
use switchhook_providers::{Key, verifying_key};
use switchhook_tests::{KEY, MINUTE, OLD_KEY, PUBLIC_URL, World, options, text};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use crate::calls::{CallRequest, Millis, RequestPattern, START};
use crate::laws::{Law, Observed, Violation};
use crate::mutants::Mutation;
use crate::plan::{FAULTS_END, FaultKind, Plan};

pub(crate) const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// By then everything must be over: poison alone is tried for hours.
const SETTLED_WITHIN: Duration = Duration::from_secs(12 * 60 * 60);
pub(crate) const API_KEY: &str = "an API key of the simulator";
/// Between two runs of the schedules. It is a minute there; what happens in between is much the same.
const TICK: Duration = Duration::from_secs(2 * 60);
const CONSUMERS: usize = 3;
const DIALERS: usize = 2;
/// As template.yaml has them, in seconds.
const CONSUMER_TIMEOUT: u64 = 10;
const DIALER_TIMEOUT: u64 = 30;
const RELAY_TIMEOUT: u64 = 30;

tokio::task_local! {
    /// What the simulator itself asks of the services suffers no fault.
    static NO_FAULTS: ();
}

/// What became of a run.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    /// The first law that was broken.
    pub(crate) violation: Option<Violation>,
    /// What happened, in order.
    pub(crate) trace: Vec<String>,
    /// How often each kind of trouble was made.
    pub(crate) injected: BTreeMap<FaultKind, u64>,
    /// Calls whose true ending was learned.
    pub(crate) verified_calls: usize,
}

/// What the requests of the functions and the senders have in common.
pub(crate) struct State {
    clock: Clock,
    rng: Rng,
    plan: Plan,
    mutation: Option<Mutation>,
    pub(crate) result: RunResult,
    /// Rows of calls that were written since they were last looked at.
    pub(crate) written: BTreeSet<String>,
    /// Every event that was put into the inbox, and how often.
    pub(crate) inbox: BTreeMap<String, u32>,
    /// When a claim was handed on: by call and trace.
    pub(crate) claims: BTreeMap<(String, String), u64>,
}

/// A webhook that was answered with a success.
pub(crate) struct Acknowledged {
    /// Index of the call, and of its report.
    pub(crate) report: (usize, usize),
    pub(crate) event_id: String,
}

/// What was answered to who asked for a call.
#[derive(Clone, Default)]
pub(crate) struct RequestedCall {
    pub(crate) call_id: String,
    pub(crate) canceled: bool,
}

pub(crate) struct Sim {
    pub(crate) world: World,
    pub(crate) plan: Plan,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) acknowledged: RefCell<Vec<Acknowledged>>,
    pub(crate) requested: RefCell<Vec<RequestedCall>>,
    pub(crate) observed: RefCell<Observed>,
    began: Instant,
}

/// Carries out a plan, with one mutation of the program if a mutant is to be tried.
pub(crate) fn run(plan: &Plan, mutation: Option<Mutation>) -> RunResult {
    switchhook_local::clock::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let plan = plan.clone();
    LocalSet::new().block_on(&runtime, async move {
        let sim = Rc::new(Sim::new(plan, mutation));
        sim.carry_out().await
    })
}

impl State {
    /// Seconds since the start.
    fn now(&self) -> u64 {
        self.clock.now_ms().saturating_sub(START.unsigned_abs()) / 1_000
    }

    pub(crate) fn trace(&mut self, what: &str) {
        let ms = self.clock.now_ms().saturating_sub(START.unsigned_abs());
        self.result.trace.push(format!("{:>4}:{:06.3} {what}", ms / 60_000, (ms % 60_000) as f64 / 1_000.0));
    }

    pub(crate) fn report_violation(&mut self, law: Law, detail: String) {
        self.trace(&format!("BROKEN {law:?}: {detail}"));
        self.result.violation.get_or_insert(Violation { law, detail });
    }

    /// True if trouble of this kind happens now.
    fn hit(&mut self, kind: FaultKind) -> bool {
        let now = self.now();
        let lasts = self.plan.faults.iter().find(|it| it.kind == kind && (it.from..it.until).contains(&now));
        let hit = lasts.is_some_and(|planned| self.rng.u8(..100) < planned.percent);
        if hit {
            *self.result.injected.entry(kind).or_default() += 1;
        }
        hit
    }

    /// What happens to a request of a function.
    fn fault(&mut self, call: &RequestInfo<'_>) -> Option<Fault> {
        let body: Value = serde_json::from_slice(call.body).unwrap();
        self.note(call, &body);
        if let Some(fault) = self.mutation.and_then(|mutation| mutation.apply(call, &body, &self.inbox)) {
            return Some(fault);
        }
        let conflict = match call.service {
            Service::DynamoDb => "TransactionConflictException",
            Service::Sqs => "OverLimit",
            Service::EventBridge => "ConcurrentModificationException",
        };
        let refused = |status, code: &str| Fault::ErrorBefore { status, code: code.to_owned() };
        let (heads, delay) = (self.rng.bool(), Duration::from_millis(self.rng.u64(1..900)));
        let slow = if heads { Fault::Delay(delay) } else { Fault::ResponseDelay(delay) };
        let faults = [
            (FaultKind::Throttled, refused(400, "ThrottlingException")),
            (FaultKind::Conflict, refused(400, conflict)),
            (FaultKind::ServerError, refused(503, "ServiceUnavailable")),
            (FaultKind::ErrorAfterEffect, Fault::ErrorAfter { status: 500, code: "InternalServerError".to_owned() }),
            (FaultKind::NotSent, Fault::NotSent),
            (FaultKind::ResponseLost, Fault::ResponseLost),
            (FaultKind::Timeout, Fault::Timeout),
            (
                FaultKind::FunctionCrash,
                Fault::Crash(if heads { CrashPoint::BeforeRequest } else { CrashPoint::BeforeResponse }),
            ),
            (FaultKind::Slow, slow.clone()),
            // Where two are at the same work, they are not equally fast.
            (FaultKind::VisibilityOverlap, slow.clone()),
            (FaultKind::DuplicateClaim, slow.clone()),
        ];
        let (kind, fault) = faults.into_iter().find(|(kind, _)| self.hit(*kind))?;
        if fault != slow {
            self.trace(&format!("{kind:?} at {}", call.operation));
        }
        Some(fault)
    }

    /// Remembers what a request asks for, whatever comes of it.
    fn note(&mut self, call: &RequestInfo<'_>, body: &Value) {
        let of_table = |table: &str| body["TableName"] == table;
        let message = || serde_json::from_str::<Value>(&text(&body["MessageBody"])).unwrap_or_default();
        match call.operation {
            "PutItem" | "UpdateItem" if of_table(CALLS_TABLE) => {
                let id = body.pointer("/Item/call_id/S").or_else(|| body.pointer("/Key/call_id/S"));
                self.written.extend(id.map(text));
            }
            "PutItem" if of_table(INBOX_TABLE) && !body["Item"]["received_bucket"].is_null() => {
                *self.inbox.entry(text(&body["Item"]["event_id"]["S"])).or_default() += 1;
            }
            "SendMessage" if text(&body["QueueUrl"]).ends_with(DIAL_QUEUE) => {
                let message = message();
                let claim = (text(&message["call_id"]), text(&message["trace_id"]));
                self.claims.entry(claim).or_insert(self.clock.now_ms());
            }
            _ => {}
        }
    }
}

impl Sim {
    fn new(plan: Plan, mutation: Option<Mutation>) -> Self {
        let start = UNIX_EPOCH + Duration::from_millis(START.unsigned_abs());
        let delivery_faults = DeliveryFaults::NONE;
        let options = CloudOptions {
            clock: Clock::starting_at(start),
            seed: plan.seed,
            inactivity_timeout: INACTIVITY_TIMEOUT,
            delivery_faults,
            ..options(&secret())
        };
        let world = World::with_options(options);
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
            acknowledged: RefCell::default(),
            requested,
            observed: RefCell::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn hit(&self, kind: FaultKind) -> bool {
        self.state().hit(kind)
    }

    fn trace(&self, what: &str) {
        self.state().trace(what);
    }

    fn random(&self, range: std::ops::Range<u64>) -> u64 {
        self.state().rng.u64(range)
    }

    async fn sleep_to(&self, at: Millis) {
        sleep_until(self.began + Duration::from_millis((at - START).unsigned_abs())).await;
    }

    /// Asks something of the services that is no part of the run.
    pub(crate) async fn without_faults<T>(&self, future: impl Future<Output = T>) -> T {
        NO_FAULTS.scope((), future).await
    }

    async fn carry_out(self: &Rc<Self>) -> RunResult {
        let state = self.state.clone();
        self.world.set_fault_hook(move |call| match NO_FAULTS.try_with(|()| ()) {
            Ok(()) => None,
            Err(_) => state.lock().unwrap().fault(call),
        });
        let state = self.state.clone();
        let refuses =
            move |_: &BusEvent| state.lock().unwrap().hit(FaultKind::BusRefusal).then(|| "InternalFailure".to_owned());
        self.world.cloud.bus().fail_entries(Some(Arc::new(refuses)));

        let mut pumps = vec![spawn_local(self.clone().poll_stream()), spawn_local(self.clone().run_schedules())];
        pumps.extend((0..CONSUMERS).map(|_| spawn_local(self.clone().poll_events_queue())));
        pumps.extend((0..DIALERS).map(|_| spawn_local(self.clone().poll_dial_queue())));
        pumps.extend([
            spawn_local(self.clone().deliver_fake_webhooks()),
            spawn_local(self.clone().toggle_fake_outage()),
        ]);
        pumps.push(spawn_local(self.clone().watch()));
        let mut senders = vec![spawn_local(self.clone().poison())];
        for (index, call) in self.plan.external_calls.iter().enumerate() {
            senders.extend((0..call.webhooks.len()).map(|webhook| spawn_local(self.clone().deliver(index, webhook))));
        }
        senders.extend((0..self.plan.call_requests.len()).map(|index| spawn_local(self.clone().request_call(index))));

        let is_broken = || self.state().result.violation.is_some();
        let faults_end = self.began + Duration::from_secs(FAULTS_END);
        while !is_broken() && (Instant::now() < faults_end || !senders.iter().all(JoinHandle::is_finished)) {
            sleep(MINUTE).await;
        }
        if self.state().result.injected.contains_key(&FaultKind::RelayDown) {
            let start = switchhook_domain::Timestamp::from_millis(START);
            self.world.cloud.republish_since(start).await.unwrap();
        }
        while !is_broken() && self.began.elapsed() < SETTLED_WITHIN && !self.is_over() {
            sleep(5 * MINUTE).await;
        }
        if !is_broken() {
            self.check_final_state().await;
        }
        for task in pumps.into_iter().chain(senders) {
            task.abort();
            // A task of ours that panics must not go unnoticed.
            assert!(!task.await.is_err_and(|error| error.is_panic()), "see above");
        }
        std::mem::take(&mut self.state().result)
    }

    /// One invocation of a function. None if it died.
    async fn invoke<T: Send + 'static>(
        &self,
        timeout_s: u64,
        handler: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let invocation = tokio::spawn(tokio::time::timeout(Duration::from_secs(timeout_s), handler));
        invocation.await.ok().and_then(Result::ok)
    }

    /// The event source of a consumer.
    async fn poll_events_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        loop {
            let visible_again_ms = if self.hit(FaultKind::VisibilityOverlap) { 300 } else { 60_000 };
            let received = sqs.long_poll(EVENTS_QUEUE, 10, Some(visible_again_ms), 20_000).await.unwrap();
            if received.is_empty() {
                continue;
            }
            let (consumer, batch) = (self.world.consumer.clone(), batch_of(EVENTS_QUEUE, &received));
            let Some(response) = self.invoke(CONSUMER_TIMEOUT, async move { consumer.handle(batch).await }).await
            else {
                continue;
            };
            let failed: BTreeSet<String> =
                response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
            let mut groups = BTreeSet::new();
            let mut is_done = |one: &ReceivedMessage| {
                let mut is_tail = || !groups.insert(one.message.group.clone());
                !failed.contains(&one.message.id()) || self.has_mutation(Mutation::TailNotFailed) && is_tail()
            };
            let done: Vec<&ReceivedMessage> = received.iter().filter(|one| is_done(one)).collect();
            if self.hit(FaultKind::NotDeleted) {
                continue;
            }
            for done in done {
                // With a handle that has expired meanwhile, the message comes again.
                drop(sqs.delete(EVENTS_QUEUE, &done.receipt_handle));
            }
        }
    }

    /// The event source of a dialer.
    async fn poll_dial_queue(self: Rc<Self>) {
        let sqs = self.world.cloud.services().sqs();
        loop {
            for one in sqs.long_poll(DIAL_QUEUE, 1, None, 20_000).await.unwrap() {
                let batch = batch_of(DIAL_QUEUE, std::slice::from_ref(&one));
                if self.hit(FaultKind::LateClaim) {
                    drop(sqs.delete(DIAL_QUEUE, &one.receipt_handle));
                    let (sim, late) = (self.clone(), Duration::from_secs(self.random(240..600)));
                    spawn_local(async move {
                        sleep(late).await;
                        sim.dial(batch).await
                    });
                    continue;
                }
                let done = if self.hit(FaultKind::DuplicateClaim) {
                    tokio::join!(self.dial(batch.clone()), self.dial(batch)).0
                } else {
                    self.dial(batch).await
                };
                if done {
                    drop(sqs.delete(DIAL_QUEUE, &one.receipt_handle));
                }
            }
        }
    }

    /// One invocation of a dialer. True if the message is done with.
    async fn dial(&self, batch: SqsEvent) -> bool {
        if self.hit(FaultKind::DialerCrash) {
            let death = if self.random(0..2) == 0 { CrashPoint::BeforeRequest } else { CrashPoint::BeforeResponse };
            self.world.cloud.fake().crash_next(death);
        }
        let dialer = self.world.cloud.dialer();
        let response = self.invoke(DIALER_TIMEOUT, async move { dialer.handle(batch).await }).await;
        response.is_some_and(|response| response.batch_item_failures.is_empty())
    }

    /// The event source of the relay.
    async fn poll_stream(self: Rc<Self>) {
        let stream = self.world.cloud.services().dynamodb().stream();
        let mut pause = Duration::from_millis(500);
        loop {
            if self.hit(FaultKind::RelayDown) {
                sleep(Duration::from_secs(30)).await;
                stream.next_batch(usize::MAX).last().inspect(|last| stream.trim(last.sequence()).unwrap());
                continue;
            }
            let mut watch = stream.watch();
            let batch = stream.next_batch(100);
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
                watch.changed().await;
                continue;
            };
            let records: Vec<Value> = batch.iter().map(|record| record.to_event_record()).collect();
            let event: StreamEvent = serde_json::from_value(json!({"Records": records})).unwrap();
            let relay = self.world.relay.clone();
            let failed_at = match self.invoke(RELAY_TIMEOUT, async move { relay.handle(event).await }).await {
                Some(response) => {
                    response.batch_item_failures.iter().filter_map(|f| f.item_identifier.as_ref()?.parse().ok()).min()
                }
                None => Some(first.sequence()),
            };
            let failed_at = failed_at.filter(|_| !self.has_mutation(Mutation::NoRelayRetry));
            stream.trim(failed_at.map_or(last.sequence(), |failed: u64| failed - 1)).unwrap();
            if failed_at.is_none() {
                pause = Duration::from_millis(500);
                continue;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MINUTE);
        }
    }

    /// The schedules.
    async fn run_schedules(self: Rc<Self>) {
        let cloud = &self.world.cloud;
        for ticks in 1.. {
            sleep(TICK).await;
            if self.hit(FaultKind::MissedSchedule) {
                continue;
            }
            if self.hit(FaultKind::DuplicateSchedule) {
                drop(tokio::join!(cloud.schedule(), cloud.schedule(), cloud.reconcile(), cloud.reconcile()));
                continue;
            }
            drop(cloud.schedule().await);
            drop(cloud.reconcile().await);
            if ticks % 30 == 0 {
                drop(cloud.check_drift().await);
            }
        }
    }

    fn has_mutation(&self, mutation: Mutation) -> bool {
        self.state().mutation == Some(mutation)
    }

    /// A report on its way, as well or as badly as its provider sends it.
    async fn deliver(self: Rc<Self>, call: usize, index: usize) {
        let webhook = &self.plan.external_calls[call].webhooks[index];
        self.sleep_to(webhook.at).await;
        if webhook.is_contradiction && !self.hit(FaultKind::TwoEndings) || !self.arrives().await {
            return;
        }
        if self.hit(FaultKind::DuplicateWebhook) {
            let again = async {
                sleep(Duration::from_millis(self.random(0..400_000))).await;
                self.post(call, index).await;
            };
            tokio::join!(self.post(call, index), again);
        } else {
            self.post(call, index).await;
        }
    }

    /// The way of a webhook. False if it never arrives.
    async fn arrives(&self) -> bool {
        if self.hit(FaultKind::LostWebhook) {
            return false;
        }
        if self.hit(FaultKind::DelayedWebhook) {
            sleep(Duration::from_secs(self.random(60..900))).await;
        }
        if self.hit(FaultKind::ReorderedWebhooks) {
            // Held back, and let go together with others in any order.
            let now = self.began.elapsed().as_millis();
            let held_ms = 120_000 - u64::try_from(now % 120_000).unwrap();
            sleep(Duration::from_millis(held_ms + self.random(0..1_500))).await;
        }
        true
    }

    /// Posts a report until it is taken, or the provider gives up.
    async fn post(&self, call_index: usize, webhook_index: usize) {
        let call = &self.plan.external_calls[call_index];
        let webhook = &call.webhooks[webhook_index];
        let provider: Provider = call.provider.parse().unwrap();
        for pause_s in [5, 10, 20, 40, 80, 160, 300, 300] {
            let request = self.world.signed(provider, self.key(), &webhook.query, &webhook.body, self.world.now());
            let (code, answer) = self.world.send(request).await;
            let (event_id, status) = (text(&answer["event_id"]), text(&answer["status"]));
            self.trace(&format!("{} of {} is answered {code} {status} {event_id}", webhook.name, call.call_id));
            match code.as_u16() {
                200 => return self.acknowledge((call_index, webhook_index), event_id, &status).await,
                500.. => sleep(Duration::from_secs(pause_s)).await,
                _ => {
                    return self
                        .state()
                        .report_violation(Law::Answered, format!("{} of {}: {code}", webhook.name, call.call_id));
                }
            }
        }
    }

    /// The key that providers sign with at this time.
    fn key(&self) -> &'static str {
        let mut state = self.state();
        if state.now() < FAULTS_END / 2 && state.hit(FaultKind::KeyRotation) { OLD_KEY } else { KEY }
    }

    /// Asks for a call, and for what else its course is about, until there is an answer.
    async fn request_call(self: Rc<Self>, index: usize) {
        let request = &self.plan.call_requests[index];
        self.sleep_to(request.at).await;
        let body = request.body();
        let created = if request.pattern == RequestPattern::SentTwice {
            let both = tokio::join!(self.api(request, "/calls", &body), self.api(request, "/calls", &body));
            if both.0.1["call_id"] != both.1.1["call_id"] {
                self.state().report_violation(Law::Answered, format!("one key, two calls: {both:?}"));
            }
            both.0
        } else {
            self.api(request, "/calls", &body).await
        };
        let call_id = text(&created.1["call_id"]);
        if call_id.is_empty() {
            return self.state().report_violation(Law::Answered, format!("{}: {created:?}", request.key));
        }
        self.requested.borrow_mut()[index].call_id.clone_from(&call_id);
        sleep(Duration::from_secs(self.random(1..600))).await;
        match request.pattern {
            RequestPattern::Plain | RequestPattern::SentTwice => {}
            RequestPattern::Triggered => {
                drop(self.api(request, &format!("/calls/{call_id}/trigger"), &Value::Null).await)
            }
            RequestPattern::Canceled => {
                let (code, _) = self.api(request, &format!("/calls/{call_id}/cancel"), &Value::Null).await;
                self.requested.borrow_mut()[index].canceled = code == 200;
            }
        }
    }

    async fn api(&self, request: &CallRequest, path: &str, body: &Value) -> (u16, Value) {
        loop {
            let http = Request::post(path).header("content-type", "application/json");
            let http = http.header("idempotency-key", &request.key);
            let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
            let (code, answer) = self.world.send(http.body(body).unwrap()).await;
            self.trace(&format!("POST {path} of {} is answered {code}", request.key));
            if !code.is_server_error() {
                return (code.as_u16(), answer);
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// The fake provider's webhooks.
    async fn deliver_fake_webhooks(self: Rc<Self>) {
        loop {
            let delivery = self.world.cloud.fake().next_delivery().await;
            let sim = self.clone();
            spawn_local(async move {
                if !sim.arrives().await {
                    return;
                }
                let copies = if sim.hit(FaultKind::DuplicateWebhook) { 2 } else { 1 };
                for _ in 0..copies {
                    let (body, now) = (delivery.body().as_bytes(), sim.world.now());
                    let request = sim.world.signed(Provider::Retell, sim.key(), "", body, now);
                    let (code, answer) = sim.world.send(request).await;
                    sim.trace(&format!("a placed call's webhook is answered {code} {}", text(&answer["event_id"])));
                    if !code.is_success() {
                        sim.world.cloud.fake().retry_delivery(delivery.clone());
                    }
                }
            });
        }
    }

    async fn toggle_fake_outage(self: Rc<Self>) {
        loop {
            self.world.cloud.fake().set_down(self.hit(FaultKind::ProviderDown));
            sleep(Duration::from_secs(10)).await;
        }
    }

    async fn poison(self: Rc<Self>) {
        sleep(Duration::from_secs(20 * 60)).await;
        if !self.hit(FaultKind::Poison) {
            return;
        }
        let message = NewMessage {
            body: "{\"schema_version\":1,\"nonsense\":true}".to_owned(),
            group: Some("poison".to_owned()),
            deduplication_id: Some("poison".to_owned()),
            ..NewMessage::default()
        };
        self.world.cloud.services().sqs().send(EVENTS_QUEUE, message).unwrap();
        while !self.world.post(Provider::Generic, "{\"nonsense\":true}").await.0.is_success() {
            sleep(Duration::from_secs(5)).await;
        }
    }
}

/// Every provider has its key of before still, Telnyx those to verify with.
fn secret() -> Value {
    let telnyx = [KEY, OLD_KEY].map(|key| verifying_key(Provider::Telnyx, &Key::new(key).unwrap()));
    let keys = [KEY, OLD_KEY];
    json!({
        "retell": {"keys": keys, "dial": {"api_key": API_KEY, "per_second": 100.0}},
        "twilio": {"keys": keys, "public_url": PUBLIC_URL},
        "vapi": {"keys": keys},
        "telnyx": {"keys": telnyx},
        "generic": {"keys": keys},
    })
}

fn batch_of(queue: &str, received: &[ReceivedMessage]) -> SqsEvent {
    let records: Vec<Value> = received.iter().map(|one| to_event_record(queue, one)).collect();
    serde_json::from_value(json!({"Records": records})).unwrap()
}
