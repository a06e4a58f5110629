//! Senders of webhooks and clients of the API. They retry until they get an answer, as real ones do.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::Value;
use switchhook_domain::Provider;
use switchhook_local::EVENTS_QUEUE;
use switchhook_local::fake::{Delivery as Webhook, Mode};
use switchhook_local::queue::NewMessage;
use switchhook_tests::{KEY, OLD_KEY, text};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::law::Law;
use crate::mutation::Mutation;
use crate::plan::{FAULTS_END, FaultKind};
use crate::requests::{Block, CallRequest, Delivery, OTHER_PROVIDERS, RequestPattern};
use crate::sim::Sim;

impl Sim {
    /// Delivers a webhook at its time. Faults may lose, delay, reorder or repeat it.
    pub(crate) async fn deliver(self: Rc<Self>, call: usize, index: usize) {
        let webhook = &self.plan.external_calls[call].webhooks[index];
        // The times in the webhooks are by the provider's clock.
        self.sleep_to(webhook.at - self.clock_ahead_ms(self.plan.external_calls[call].provider.parse().unwrap())).await;
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

    /// Waits as long as the faults delay a webhook. Returns false if the webhook is lost.
    async fn arrives(&self) -> bool {
        if self.hit(FaultKind::LostWebhook) {
            return false;
        }
        if self.hit(FaultKind::DelayedWebhook) {
            sleep(Duration::from_secs(self.random(60..900))).await;
        }
        if self.hit(FaultKind::ReorderedWebhooks) {
            // Reordered webhooks are held back, and released together in random order every two minutes.
            let now = self.began.elapsed().as_millis();
            let held_ms = 120_000 - u64::try_from(now % 120_000).unwrap();
            sleep(Duration::from_millis(held_ms + self.random(0..1_500))).await;
        }
        true
    }

    /// Posts a webhook until it is acknowledged, or the provider gives up.
    async fn post(&self, call_index: usize, webhook_index: usize) {
        let call = &self.plan.external_calls[call_index];
        let webhook = &call.webhooks[webhook_index];
        let provider: Provider = call.provider.parse().unwrap();
        for pause_s in [5, 10, 20, 40, 80, 160, 300, 300] {
            let request = self.signed(provider, self.key(), &webhook.query, &webhook.body);
            let (code, answer) = self.send(request).await;
            let (event_id, status) = (text(&answer["event_id"]), text(&answer["status"]));
            self.trace(&format!("{} of {} is answered {code} {status} {event_id}", webhook.name, call.call_id));
            match code.as_u16() {
                200 => return self.acknowledge(Some((call_index, webhook_index)), event_id, &status).await,
                500.. => sleep(Duration::from_secs(pause_s)).await,
                _ => {
                    return self
                        .state()
                        .report_violation(Law::Answered, format!("{} of {}: {code}", webhook.name, call.call_id));
                }
            }
        }
    }

    /// The key with which providers sign now.
    pub(crate) fn key(&self) -> &'static str {
        let mut state = self.state();
        if state.now() < FAULTS_END / 2 && state.hit(FaultKind::KeyRotation) { OLD_KEY } else { KEY }
    }

    /// Requests a call, and then triggers or cancels it, as its pattern demands. Retries until there is an answer.
    pub(crate) async fn request_call(self: Rc<Self>, index: usize) {
        let request = &self.plan.call_requests[index];
        self.sleep_to(request.at).await;
        if request.block == Some(Block::BeforeCreation) {
            self.block(index).await;
        }
        let mut body = request.body();
        // A program that does not look at windows is one that never gets them.
        if self.has_mutation(Mutation::NoWindow) {
            body.as_object_mut().unwrap().remove("window");
        }
        let created = if request.pattern == RequestPattern::SentTwice {
            let both = tokio::join!(self.api(request, "/calls", &body), self.api(request, "/calls", &body));
            if both.0.1["call_id"] != both.1.1["call_id"] {
                self.state().report_violation(Law::Answered, format!("one idempotency key made two calls: {both:?}"));
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
        if let Some(Block::AfterCreation(wait_ms)) = request.block {
            let sim = self.clone();
            spawn_local(async move {
                sleep(Duration::from_millis(wait_ms.unsigned_abs())).await;
                sim.block(index).await;
            });
        }
        sleep(Duration::from_secs(self.random(1..600))).await;
        match request.pattern {
            RequestPattern::Plain | RequestPattern::SentTwice => {}
            RequestPattern::Triggered => {
                drop(self.api(request, &format!("/call/trigger?id={call_id}"), &Value::Null).await)
            }
            RequestPattern::Canceled => {
                let (code, _) = self.api(request, &format!("/call/cancel?id={call_id}"), &Value::Null).await;
                let dials = self.world.cloud.fake().dials();
                let dials = dials.iter().filter(|dial| dial.call_id == call_id).count();
                self.requested.borrow_mut()[index].dials_max = match code {
                    200 => Some(dials),
                    202 => Some(dials + 1),
                    _ => None,
                };
            }
        }
    }

    /// Puts the number of a request on the do-not-call list.
    async fn block(&self, index: usize) {
        let path = format!("/do-not-call?number={}", self.plan.call_requests[index].to.replace('+', "%2B"));
        loop {
            let (code, _) = self.send(Request::put(&path).body(Bytes::new()).unwrap()).await;
            self.trace(&format!("PUT {path} is answered {code}"));
            if code.is_success() {
                break;
            }
            sleep(Duration::from_secs(5)).await;
        }
        self.requested.borrow_mut()[index].blocked_at = Some(self.world.now().as_millis());
    }

    /// Posts an API request until the answer is no server error.
    async fn api(&self, request: &CallRequest, path: &str, body: &Value) -> (u16, Value) {
        loop {
            let http = Request::post(path).header("content-type", "application/json");
            let http = http.header("idempotency-key", &request.key);
            let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
            let (code, answer) = self.send(http.body(body).unwrap()).await;
            self.trace(&format!("POST {path} of {} is answered {code}", request.key));
            if !code.is_server_error() {
                return (code.as_u16(), answer);
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// Delivers the webhooks of the fake provider.
    pub(crate) async fn deliver_fake_webhooks(self: Rc<Self>) {
        loop {
            let delivery = self.world.cloud.fake().next_delivery().await;
            let sim = self.clone();
            spawn_local(async move {
                let Some(body) = sim.body_to_send(&delivery).await else { return };
                if !sim.arrives().await {
                    return;
                }
                let copies = if sim.hit(FaultKind::DuplicateWebhook) { 2 } else { 1 };
                for _ in 0..copies {
                    let (provider, query) = (delivery.provider(), delivery.query());
                    let request = sim.signed(provider, sim.key(), query, body.as_bytes());
                    let (code, answer) = sim.send(request).await;
                    let (event_id, status) = (text(&answer["event_id"]), text(&answer["status"]));
                    sim.trace(&format!("a placed call's webhook is answered {code} {status} {event_id}"));
                    if code.is_success() {
                        sim.acknowledge(None, event_id, &status).await;
                    } else if code.is_server_error() {
                        sim.world.cloud.fake().retry_delivery(delivery.clone());
                    } else {
                        sim.state().report_violation(Law::Answered, format!("a webhook of {provider}: {code}"));
                    }
                }
            });
        }
    }

    /// Waits as long as the webhooks of this placed call are late. Returns the body to send, or `None` if they are lost.
    async fn body_to_send(&self, webhook: &Webhook) -> Option<String> {
        let body = webhook.body().to_owned();
        let order = text(&webhook.metadata()["order"]);
        let request = self.plan.call_requests.iter().find(|request| request.key == order);
        match request.map_or(Delivery::Usual, |request| request.delivery) {
            Delivery::Usual => Some(body),
            Delivery::Late => {
                sleep(Duration::from_secs(self.random(300..900))).await;
                Some(body)
            }
            Delivery::Lost => None,
            Delivery::WithoutIds if webhook.provider() == Provider::Retell => {
                let mut parsed: Value = serde_json::from_str(&body).unwrap();
                *parsed.pointer_mut("/call/metadata")? = Value::Null;
                Some(parsed.to_string())
            }
            Delivery::WithoutIds => Some(body),
        }
    }

    /// Sets the modes of the fake providers, as the plan and its faults demand.
    pub(crate) async fn set_provider_mode(self: Rc<Self>) {
        let closed: Provider = self.plan.closed_provider.parse().unwrap();
        self.world.cloud.fake().set_mode_of(closed, Mode::OutOfCredit);
        let others = OTHER_PROVIDERS.map(|name| name.parse::<Provider>().unwrap());
        let all: Vec<Provider> = [Provider::Retell].into_iter().chain(others).collect();
        let count = if self.plan.are_all_providers_faulty { all.len() } else { 1 };
        let faulty: Vec<Provider> = all.into_iter().take(count).filter(|provider| *provider != closed).collect();
        let account_problem = *self.state().rng.choice(&[Mode::OutOfCredit, Mode::UnknownAsset]).unwrap();
        let modes = [
            (FaultKind::ProviderDown, Mode::Down),
            (FaultKind::ProviderSilent, Mode::Unresponsive),
            (FaultKind::ErrorAfterDial, Mode::FailsAfterDial),
            (FaultKind::AccountProblem, account_problem),
            (FaultKind::KeyRefused, Mode::Unauthorized),
            (FaultKind::ProviderBusy, Mode::RateLimited),
            (FaultKind::OverCapacity, Mode::OverCapacity),
        ];
        let mut before = Mode::Normal;
        loop {
            let mode = modes.into_iter().find(|(kind, _)| self.hit(*kind)).map_or(Mode::Normal, |(_, mode)| mode);
            if mode != before {
                self.trace(&format!("the mode of {faulty:?} is {mode:?}"));
                for provider in &faulty {
                    self.world.cloud.fake().set_mode_of(*provider, mode);
                }
                before = mode;
            }
            sleep(Duration::from_secs(10)).await;
        }
    }

    /// Sends a queue message and a webhook that nobody can read.
    pub(crate) async fn poison(self: Rc<Self>) {
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
