//! Plays the traffic against the local cloud in virtual time, and collects everything that can be seen of it from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde_json::Value;
use switchhook_domain::{Provider, Timestamp};
use switchhook_local::clock::Clock;
use switchhook_local::dynamodb::Count;
use switchhook_local::fake::DeliveryFaults;
pub(super) use switchhook_local::fake::RequestResult;
use switchhook_local::queue::Depth;
use switchhook_local::{
    CONCURRENT_DIALS_PER_PROVIDER, Cloud, CloudOptions, DEFAULT_RETRY_POLICY, DIAL_QUEUE, EVENTS_DEAD_LETTER_QUEUE,
    EVENTS_QUEUE, LocalError, RELAY_FAILURES_QUEUE,
};
use switchhook_providers::{ConfigError, Key, KeyError, Providers, sign};
use tokio::time::{Instant, sleep_until};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::placed::{DOWN_FROM, DOWN_UNTIL, Demand, Order, Request as Asked};
use super::script::{HOUR, MINUTE, Millis, START, Vendor};
use super::traffic::{Delivered, Delivery, Forgery, PATIENCE, TICK, Traffic};
use crate::paths::encoded;

const PUBLIC_URL: &str = "https://hooks.example.com";
const WRONG_KEY: &str = "a key that nobody configured";
/// Calls that the fake provider lets be placed in a second.
const DIALS_PER_SECOND: f64 = 20.0;
/// Between two looks at whether everything is settled.
const LOOK_EVERY: Millis = 5 * MINUTE;
/// So many in a row must find it so.
const LOOKS: u32 = 2;
/// By then it must be.
const SETTLED_WITHIN: Millis = 24 * HOUR;

/// What was answered to one delivery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// `accepted`, `already_processed`, …; of a refusal its error.
    pub(crate) status: String,
    pub(crate) event_id: Option<String>,
}

/// What the system shows of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// None: there is no such call.
    pub(crate) call: Option<Value>,
    pub(crate) timeline: Vec<Value>,
    /// Its domain events in the order of publication, each once.
    pub(crate) announced: Vec<Value>,
    /// When each of them was published, by our clock.
    pub(crate) published_at: Vec<Millis>,
}

/// The answer to one request to the API.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) request: Asked,
    pub(super) code: u16,
    pub(super) body: Value,
}

/// A phone that rang, as the provider knows it.
#[derive(Clone, Debug)]
pub(super) struct Rang {
    pub(super) provider_call_id: String,
    /// As the dial named it.
    pub(super) attempt: String,
    pub(super) behaviour: &'static str,
    pub(super) began: Millis,
    pub(super) answered: Option<Millis>,
    pub(super) ended: Millis,
}

/// A webhook that the provider sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) provider_call_id: String,
    pub(super) at: Millis,
    /// The provider's word for what it tells.
    pub(super) event: &'static str,
}

/// What the provider answered to a dial, or to a question about an attempt.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// As the dial named it.
    pub(super) attempt: String,
    pub(super) at: Millis,
    pub(super) tale: RequestResult,
}

/// The provider's id of a call, and when a webhook of it was sent.
pub(super) type Webhook = (String, Millis);

/// What was seen of one call that Switchhook was asked to place.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    /// As the answer to its creation names it.
    pub(super) call_id: String,
    /// In the order of time.
    pub(super) replies: Vec<Reply>,
    pub(super) rang: Vec<Rang>,
    /// In the order of time.
    pub(super) sent: Vec<Sent>,
    /// In the order of time.
    pub(super) told: Vec<Told>,
    pub(super) shown: Shown,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// One for each delivery.
    pub(crate) answers: Vec<Answer>,
    /// One for each script.
    pub(crate) calls: Vec<Shown>,
    /// One for each order.
    pub(super) placed: Vec<Placed>,
    /// Every webhook that the fake provider sent.
    pub(super) sent: BTreeSet<Webhook>,
    pub(crate) phones_rung_twice: usize,
    /// What workers decided, and how often.
    pub(crate) decided: BTreeMap<String, u64>,
    /// Calls whose provider disagreed.
    pub(crate) drifts: Vec<String>,
    /// What `GET /events/{id}/status` tells of the claims of other providers.
    pub(crate) claims: Vec<Value>,
    /// Domain events of calls that nobody made.
    pub(crate) strangers: Vec<Value>,
    /// What was published of webhooks that cannot be used, each once.
    pub(crate) quarantined: Vec<Value>,
    /// Ids of domain events that were published with two contents.
    pub(crate) two_faced: Vec<String>,
    /// Refused requests by the cause that the log names.
    pub(crate) causes: BTreeMap<String, u64>,
    /// Lines of the log that tell of a failure.
    pub(crate) failures: Vec<String>,
    pub(crate) waiting: Depth,
    pub(crate) dials_waiting: Depth,
    pub(crate) dead_letters: Depth,
    pub(crate) relay_failures: Depth,
    /// Up to the last delivery and what came of it; the questions asked afterwards are not in it.
    pub(crate) database: BTreeMap<&'static str, Count>,
    pub(crate) took: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlayError {
    #[error("the demo's own keys were refused")]
    Keys(#[source] KeyError),
    #[error("the demo's own provider configuration was refused")]
    Providers(#[source] ConfigError),
    #[error("the local cloud did not open")]
    Open(#[source] LocalError),
    #[error("{0} is no vendor that can sign")]
    Vendor(&'static str),
    #[error("a request could not be made")]
    Request(#[source] http::Error),
    #[error("the local cloud stopped")]
    Stopped,
    #[error("the demo's runtime did not start")]
    Runtime(#[source] std::io::Error),
}

/// Plays all of it, on this thread. `progress` is told of every delivery and every request, with the time by our clock.
pub(crate) fn play(traffic: &Traffic, seed: u64, progress: impl Fn(Millis)) -> Result<Played, PlayError> {
    let log = Log::default();
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    switchhook_local::clock::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(PlayError::Runtime)?;
    let started = std::time::Instant::now();
    let mut played = runtime.block_on(run(traffic, progress))?;
    played.took = started.elapsed();
    let mut log = log.0.lock().unwrap_or_else(PoisonError::into_inner);
    played.causes = std::mem::take(&mut log.causes);
    played.failures = std::mem::take(&mut log.failures);
    played.decided = std::mem::take(&mut log.decided);
    played.drifts = std::mem::take(&mut log.drifts);
    Ok(played)
}

async fn run(traffic: &Traffic, progress: impl Fn(Millis)) -> Result<Played, PlayError> {
    let keys = Keys::new()?;
    let start = UNIX_EPOCH + Duration::from_millis(START.unsigned_abs());
    let cloud = Cloud::open(CloudOptions {
        providers: keys.providers()?,
        inactivity_timeout: Duration::from_millis(PATIENCE.unsigned_abs()),
        tick: Duration::from_millis(TICK.unsigned_abs()),
        data_dir: None,
        clock: Clock::starting_at(start),
        default_retry_policy: DEFAULT_RETRY_POLICY,
        concurrent_dials_per_provider: CONCURRENT_DIALS_PER_PROVIDER,
        seed: traffic.seed,
        delivery_faults: DeliveryFaults::USUAL,
    })
    .map_err(PlayError::Open)?;
    let running = tokio::spawn({
        let cloud = cloud.clone();
        async move { cloud.run().await }
    });
    let began = Instant::now();
    let instant_of = |at: Millis| began + Duration::from_millis((at - START).unsigned_abs());

    cloud.fake().start_recording();
    let mut announced = Announced::default();
    let mut requests = Vec::with_capacity(traffic.deliveries.len());
    let mut placed = vec![Placed::default(); traffic.orders.len()];
    for (at, step) in steps(traffic) {
        sleep_until(instant_of(at)).await;
        announced.hear(&cloud);
        match step {
            Step::Deliver(delivery) => {
                progress(at);
                let request = keys.request(delivery)?;
                let cloud = cloud.clone();
                requests.push(tokio::spawn(async move { answer_of(cloud.request(request).await) }));
            }
            Step::Ask(asked) => {
                progress(at);
                if let (Some(order), Some(placed)) = (traffic.orders.get(asked.order), placed.get_mut(asked.order)) {
                    placed.ask(asked, &cloud, order).await?;
                }
            }
            Step::Down(down) => cloud.fake().set_down(down),
        }
    }
    // Nothing more can come of the deliveries when the patience with the last word is over, found by a run, and folded.
    let last = traffic.deliveries.iter().map(|delivery| delivery.at).max().unwrap_or(START);
    let mut now = (last + PATIENCE + 3 * TICK).max(if placed.is_empty() { START } else { DOWN_UNTIL });
    sleep_until(instant_of(now)).await;
    announced.hear(&cloud);
    // What changed a moment ago does not look as if it stood still: once is not enough.
    let mut looks = if placed.is_empty() { LOOKS } else { 0 };
    while now < START + SETTLED_WITHIN && looks < LOOKS {
        looks = if is_settled(&cloud).await? { looks + 1 } else { 0 };
        now += LOOK_EVERY;
        sleep_until(instant_of(now)).await;
        announced.hear(&cloud);
    }

    let mut played = Played::default();
    for request in requests {
        played.answers.push(request.await.map_err(|_| PlayError::Stopped)?);
    }
    played.database = cloud.services().dynamodb().counts();
    let depth = |queue| cloud.services().sqs().depth(queue).map_err(|_| PlayError::Stopped);
    played.waiting = depth(EVENTS_QUEUE)?;
    played.dials_waiting = depth(DIAL_QUEUE)?;
    played.dead_letters = depth(EVENTS_DEAD_LETTER_QUEUE)?;
    played.relay_failures = depth(RELAY_FAILURES_QUEUE)?;
    if running.is_finished() {
        return Err(PlayError::Stopped);
    }
    announced.hear(&cloud);

    for script in &traffic.scripts {
        played.calls.push(announced.shown(&cloud, &script.call_id).await?);
    }
    played.see_phones(&cloud, &mut placed);
    for mut placed in placed {
        placed.shown = announced.shown(&cloud, &placed.call_id).await?;
        played.placed.push(placed);
    }
    let strangers = announced.by_call.into_values().flat_map(|(_, events)| events);
    played.strangers.extend(strangers);
    played.two_faced = announced.two_faced;
    played.quarantined = announced.quarantined;
    for (delivery, answer) in traffic.deliveries.iter().zip(&played.answers) {
        if let (Delivered::Claimed, Some(event_id)) = (delivery.how, &answer.event_id) {
            let status = ask(&cloud, &format!("/events/{}/status", encoded(event_id))).await?;
            played.claims.push(status.unwrap_or_default());
        }
    }
    running.abort();
    Ok(played)
}

/// Domain events by call, each once.
#[derive(Default)]
struct Announced {
    heard: u64,
    by_id: BTreeMap<String, Value>,
    by_call: BTreeMap<String, (Vec<Millis>, Vec<Value>)>,
    two_faced: Vec<String>,
    quarantined: Vec<Value>,
}

impl Announced {
    /// Everything that can be seen of a call.
    async fn shown(&mut self, cloud: &Cloud, call_id: &str) -> Result<Shown, PlayError> {
        let path = format!("/calls/{}", encoded(call_id));
        let call = ask(cloud, &path).await?;
        let timeline = ask(cloud, &format!("{path}/events")).await?;
        let events = timeline.as_ref().and_then(|timeline| timeline.get("events")).and_then(Value::as_array);
        let (published_at, announced) = self.by_call.remove(call_id).unwrap_or_default();
        Ok(Shown { call, timeline: events.cloned().unwrap_or_default(), announced, published_at })
    }

    /// Takes what was published since. Often, because the bus does not keep everything.
    fn hear(&mut self, cloud: &Cloud) {
        for event in cloud.bus().events_since(self.heard) {
            self.heard = event.index + 1;
            self.take(&event.detail, event.received_at_ms.cast_signed());
        }
    }

    fn take(&mut self, detail: &str, at: Millis) {
        let event: Value = serde_json::from_str(detail).unwrap_or_default();
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, call_id) = (text("id"), text("call_id"));
        match self.by_id.get(&id) {
            Some(before) if *before == event => {}
            Some(_) => self.two_faced.push(id),
            None if text("type") == "webhook.quarantined" => {
                self.by_id.insert(id, event.clone());
                self.quarantined.push(event);
            }
            None => {
                self.by_id.insert(id, event.clone());
                let (published_at, events) = self.by_call.entry(call_id).or_default();
                published_at.push(at);
                events.push(event);
            }
        }
    }
}

/// What is done at one moment.
enum Step<'a> {
    Deliver(&'a Delivery),
    Ask(Asked),
    /// The fake provider's API goes down, or comes back.
    Down(bool),
}

/// All of it, in the order of time.
fn steps(traffic: &Traffic) -> Vec<(Millis, Step<'_>)> {
    let mut steps: Vec<(Millis, Step<'_>)> =
        traffic.deliveries.iter().map(|delivery| (delivery.at, Step::Deliver(delivery))).collect();
    steps.extend(traffic.requests.iter().map(|request| (request.at, Step::Ask(*request))));
    if !traffic.orders.is_empty() {
        steps.extend([(DOWN_FROM, Step::Down(true)), (DOWN_UNTIL, Step::Down(false))]);
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// True if no call waits to be placed, and none that is not settled has stood still.
async fn is_settled(cloud: &Cloud) -> Result<bool, PlayError> {
    for question in ["/calls?job=PENDING&limit=1", "/calls?job=CLAIMED&limit=1", "/calls?stuck_for=1s&limit=1"] {
        let page = ask(cloud, question).await?.unwrap_or_default();
        let none = page.get("calls").and_then(Value::as_array).is_some_and(Vec::is_empty);
        if !none || page.get("cursor").is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Placed {
    /// One request to the API, and its answer.
    async fn ask(&mut self, asked: Asked, cloud: &Cloud, order: &Order) -> Result<(), PlayError> {
        let path = match asked.demand {
            Demand::Create | Demand::CreateAgain | Demand::CreateOther => "/calls".to_owned(),
            Demand::Trigger | Demand::TriggerCanceled => format!("/calls/{}/trigger", encoded(&self.call_id)),
            Demand::Cancel => format!("/calls/{}/cancel", encoded(&self.call_id)),
        };
        let body = match asked.demand {
            Demand::Create | Demand::CreateAgain => order.body(false).to_string(),
            Demand::CreateOther => order.body(true).to_string(),
            Demand::Trigger | Demand::TriggerCanceled | Demand::Cancel => String::new(),
        };
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("idempotency-key", &order.key)
            .body(Bytes::from(body))
            .map_err(PlayError::Request)?;
        let response = cloud.request(request).await;
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if asked.demand == Demand::Create {
            self.call_id = body.get("call_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        self.replies.push(Reply { request: asked, code: response.status().as_u16(), body });
        Ok(())
    }
}

impl Played {
    /// What the fake provider knows: the phones that rang, the webhooks that it sent, and what it answered.
    fn see_phones(&mut self, cloud: &Cloud, placed: &mut [Placed]) {
        self.phones_rung_twice = cloud.fake().duplicate_dials();
        let mut of_call: BTreeMap<String, &mut Placed> =
            placed.iter_mut().map(|placed| (placed.call_id.clone(), placed)).collect();
        let mut call_of: BTreeMap<String, String> = BTreeMap::new();
        for dial in cloud.fake().dials() {
            call_of.insert(dial.provider_call_id.clone(), dial.call_id.clone());
            match of_call.get_mut(&dial.call_id) {
                Some(placed) => placed.rang.push(Rang {
                    provider_call_id: dial.provider_call_id,
                    attempt: dial.attempt,
                    behaviour: dial.behaviour.as_str(),
                    began: dial.started_ms,
                    answered: dial.answered_ms,
                    ended: dial.ended_ms,
                }),
                None => self.strangers.push(Value::String(format!("a phone rang for {}", dial.call_id))),
            }
        }
        for sent in cloud.fake().sent_webhooks() {
            let placed = call_of.get(&sent.provider_call_id).and_then(|call_id| of_call.get_mut(call_id));
            if let Some(placed) = placed {
                let provider_call_id = sent.provider_call_id.clone();
                placed.sent.push(Sent { provider_call_id, at: sent.at_ms, event: sent.event });
            }
            self.sent.insert((sent.provider_call_id, sent.at_ms));
        }
        for told in cloud.fake().api_records() {
            if let Some(placed) = of_call.get_mut(&told.call_id) {
                placed.told.push(Told { attempt: told.attempt, at: told.at_ms, tale: told.result });
            }
        }
    }
}

async fn ask(cloud: &Cloud, path: &str) -> Result<Option<Value>, PlayError> {
    let request = Request::builder().uri(path).body(Bytes::new()).map_err(PlayError::Request)?;
    let response = cloud.request(request).await;
    let found = response.status() == StatusCode::OK;
    Ok(found.then(|| serde_json::from_slice(response.body()).unwrap_or_default()))
}

fn answer_of(response: http::Response<Bytes>) -> Answer {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    Answer {
        code: response.status().as_u16(),
        status: text("status").or_else(|| text("error")).unwrap_or_default(),
        event_id: text("event_id"),
    }
}

/// The vendors' keys: a new one, and an old one that is still good. The same in every run, and good for nothing else.
struct Keys {
    wrong: Key,
    of: BTreeMap<&'static str, [(Key, String); 2]>,
}

impl Keys {
    fn new() -> Result<Self, PlayError> {
        let key = |text: &str| Key::new(text).map_err(PlayError::Keys);
        let mut of = BTreeMap::new();
        for vendor in [Vendor::Retell, Vendor::Twilio, Vendor::Generic] {
            let (new, old) = (format!("demo-{}-new", vendor.name()), format!("demo-{}-old", vendor.name()));
            of.insert(vendor.name(), [(key(&new)?, new), (key(&old)?, old)]);
        }
        Ok(Self { wrong: key(WRONG_KEY)?, of })
    }

    fn providers(&self) -> Result<Providers, PlayError> {
        let mut document = serde_json::Map::new();
        for (vendor, keys) in &self.of {
            let texts: Vec<&str> = keys.iter().map(|(_, text)| text.as_str()).collect();
            document.insert((*vendor).to_owned(), serde_json::json!({"keys": texts, "public_url": PUBLIC_URL}));
        }
        if let Some(retell) = document.get_mut(Vendor::Retell.name()) {
            retell["dial"] = serde_json::json!({"api_key": "the demo's own", "per_second": DIALS_PER_SECOND});
        }
        Providers::from_json(&Value::Object(document).to_string()).map_err(PlayError::Providers)
    }

    fn request(&self, delivery: &Delivery) -> Result<Request<Bytes>, PlayError> {
        let vendor = delivery.vendor.name();
        let provider: Provider = vendor.parse().map_err(|_| PlayError::Vendor(vendor))?;
        let [new, old] = self.of.get(vendor).ok_or(PlayError::Vendor(vendor))?;
        let key = match (delivery.how, delivery.old_key) {
            (Delivered::Forged(Forgery::WrongKey), _) => &self.wrong,
            (_, true) => &old.0,
            (_, false) => &new.0,
        };
        let query = if delivery.query.is_empty() { String::new() } else { format!("?{}", delivery.query) };
        let url = format!("{PUBLIC_URL}/webhooks/{vendor}{query}");
        let signed = sign(provider, key, &url, &delivery.body, Timestamp::from_millis(delivery.signed_at));
        let path = signed.url.strip_prefix(PUBLIC_URL).unwrap_or(&signed.url);
        let mut request = Request::builder().method(Method::POST).uri(path).header("content-type", signed.content_type);
        if delivery.how != Delivered::Forged(Forgery::NoSignature) {
            for (name, value) in &signed.headers {
                request = request.header(*name, value);
            }
        }
        let mut body = delivery.body.clone();
        if let Some(bit) = delivery.flipped_bit
            && let Some(byte) = body.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        request.body(Bytes::from(body)).map_err(PlayError::Request)
    }
}

/// What the functions log of refusals and failures.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    causes: BTreeMap<String, u64>,
    failures: Vec<String>,
    decided: BTreeMap<String, u64>,
    drifts: Vec<String>,
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(None);
        event.record(&mut line);
        let failed = *event.metadata().level() == tracing::Level::ERROR;
        let Some(line) = line.0 else { return };
        let rejected = line.contains("\"action_taken\":\"rejected\"");
        let of_worker = ["scheduler", "dialer"].iter().any(|stage| line.contains(&format!("\"stage\":\"{stage}\"")));
        if !failed && !rejected && !of_worker {
            return;
        }
        let fields: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rejected {
            let cause = fields.get("cause").and_then(Value::as_str).unwrap_or("unnamed");
            *lines.causes.entry(cause.to_owned()).or_default() += 1;
        }
        if of_worker {
            *lines.decided.entry(text("action_taken").to_owned()).or_default() += 1;
            let claimed = fields.get("claimed").and_then(Value::as_u64).unwrap_or_default();
            *lines.decided.entry("claimed".to_owned()).or_default() += claimed;
        }
        if failed && text("action_taken") == "drift_found" {
            lines.drifts.push(text("call_id").to_owned());
        } else if failed {
            lines.failures.push(line);
        }
    }
}

struct Line(Option<String>);

impl tracing::field::Visit for Line {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        if field.name() == "line" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}
