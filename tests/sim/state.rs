//! State that the fault hook and the senders share: random numbers, faults and the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use switchhook_aws::inbox::BY_RECEIVED;
use switchhook_local::clock::Clock;
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::fake::CrashPoint;
use switchhook_local::{CALLS_TABLE, DIAL_QUEUE, INBOX_TABLE};
use switchhook_reconciler::limits::SWEEP_PAGE;
use switchhook_tests::{reads_calls_to_fold, text};

use crate::calls::START;
use crate::law::{Law, Violation};
use crate::mutation::{InboxEvent, Mutation};
use crate::plan::{FaultKind, Plan};

/// Longest lag of an index behind its table. DynamoDB promises no limit, and normally takes a fraction of a second. The notices to
/// operators have the smallest margin for it: 20 s.
const INDEX_LAG_MS_MAX: u64 = 10_000;

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    /// The first violation of a law. `None` if the run kept every law.
    pub(crate) violation: Option<Violation>,
    /// One line for each thing that happened, in order.
    pub(crate) trace: Vec<String>,
    /// Number of times that each kind of fault was injected.
    pub(crate) injected: BTreeMap<FaultKind, u64>,
    /// Number of notes that an event waits in the inbox.
    pub(crate) waited: u64,
    /// Number of items that the runs of the operator have done.
    pub(crate) repaired: u64,
    /// Number of calls that were compared with their truth, and agree.
    pub(crate) verified_calls: usize,
}

/// State shared by the requests of the functions and by the senders.
pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) mutation: Option<Mutation>,
    pub(crate) result: RunResult,
    /// Ids of the calls that were written since the last check.
    pub(crate) written: BTreeSet<String>,
    /// Events that were put into the inbox.
    pub(crate) inbox: BTreeMap<String, InboxEvent>,
    /// Time in ms at which a claim was sent to the dial queue, by call id and trace id.
    pub(crate) claims: BTreeMap<(String, String), u64>,
}

impl State {
    /// Seconds since the start of the run.
    pub(crate) fn now(&self) -> u64 {
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

    /// True if the plan has a fault of such a kind at this time.
    pub(crate) fn has_fault(&self, is_it: impl Fn(FaultKind) -> bool) -> bool {
        let now = self.now();
        self.plan.faults.iter().any(|it| is_it(it.kind) && (it.from..it.until).contains(&now))
    }

    /// Draws whether a fault of this kind happens now, and counts it.
    pub(crate) fn hit(&mut self, kind: FaultKind) -> bool {
        let now = self.now();
        let lasts = self.plan.faults.iter().find(|it| it.kind == kind && (it.from..it.until).contains(&now));
        let hit = lasts.is_some_and(|planned| self.rng.u8(..100) < planned.percent);
        if hit {
            *self.result.injected.entry(kind).or_default() += 1;
        }
        hit
    }

    /// The fault that a request of a function suffers. `None` if it suffers none.
    pub(crate) fn fault(&mut self, call: &RequestInfo<'_>) -> Option<Fault> {
        let body: Value = serde_json::from_slice(call.body).unwrap();
        self.note(call, &body);
        if let Some(fault) = self.mutation.and_then(|mutation| mutation.apply(call, &body, &self.inbox)) {
            return Some(fault);
        }
        let conflict = match call.service {
            Service::DynamoDb => "TransactionConflictException",
            Service::Sqs => "OverLimit",
            Service::EventBridge => "ConcurrentModificationException",
            Service::SecretsManager => "DecryptionFailure",
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
            // Two functions that do the same work need different delays, or they would stay in step.
            (FaultKind::VisibilityOverlap, slow.clone()),
            (FaultKind::DuplicateClaim, slow.clone()),
        ];
        let is_unreadable = reads_calls_to_fold(call) && keys_of(&body).any(is_in_part);
        if is_unreadable && (self.hit(FaultKind::UnreadableCalls) || self.hit(FaultKind::DeadLetters)) {
            return Some(refused(400, "ThrottlingException"));
        }
        let is_index = call.operation == "Query" && !body["IndexName"].is_null();
        if is_index && self.hit(FaultKind::LaggingIndex) {
            return Some(Fault::LaggingIndex(Duration::from_millis(self.rng.u64(..=INDEX_LAG_MS_MAX))));
        }
        let Some((kind, fault)) = faults.into_iter().find(|(kind, _)| self.hit(*kind)) else {
            return with_small_page(call, body);
        };
        if fault != slow {
            self.trace(&format!("{kind:?} at {}", call.operation));
        }
        Some(fault)
    }

    /// Records what a request asks for, even if the request then fails.
    fn note(&mut self, call: &RequestInfo<'_>, body: &Value) {
        let of_table = |table: &str| body["TableName"] == table;
        let message = || serde_json::from_str::<Value>(&text(&body["MessageBody"])).unwrap_or_default();
        match call.operation {
            "PutItem" | "UpdateItem" if of_table(CALLS_TABLE) => {
                let id = body.pointer("/Item/call_id/S").or_else(|| body.pointer("/Key/call_id/S"));
                self.written.extend(id.map(text));
            }
            "GetItem" if of_table(INBOX_TABLE) => {
                if let Some(event) = self.inbox.get_mut(&text(&body["Key"]["event_id"]["S"])) {
                    event.reads += 1;
                }
            }
            "PutItem" if of_table(INBOX_TABLE) && !body["Item"]["received_bucket"].is_null() => {
                let event = self.inbox.entry(text(&body["Item"]["event_id"]["S"])).or_default();
                event.puts += 1;
                if event.puts == 1 {
                    event.call_id = text(&body["Item"]["call_id"]["S"]);
                }
            }
            "PutItem" if of_table(INBOX_TABLE) && body["Item"]["waits"]["BOOL"] == true => self.result.waited += 1,
            "SendMessage" if text(&body["QueueUrl"]).ends_with(DIAL_QUEUE) => {
                let message = message();
                let claim = (text(&message["call_id"]), text(&message["trace_id"]));
                self.claims.entry(claim).or_insert(self.clock.now_ms());
            }
            _ => {}
        }
    }
}

/// Ids of the calls that a read names.
fn keys_of(body: &Value) -> impl Iterator<Item = &str> {
    let tables = body["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
    let keys = tables.flat_map(|table| table["Keys"].as_array().into_iter().flatten()).chain([&body["Key"]]);
    keys.filter_map(|key| key["call_id"]["S"].as_str())
}

/// True for about half of all calls, always the same.
fn is_in_part(call_id: &str) -> bool {
    call_id.bytes().fold(0u8, u8::wrapping_add) % 2 == 0
}

/// Lets the sweep read pages of two events. So it leaves shards to workers, although a run of the simulator has few events.
fn with_small_page(call: &RequestInfo<'_>, mut body: Value) -> Option<Fault> {
    if call.operation != "Query" || body["IndexName"] != BY_RECEIVED || body["Limit"] != json!(SWEEP_PAGE) {
        return None;
    }
    body["Limit"] = json!(2);
    Some(Fault::ReplacedRequest(body.to_string().into_bytes()))
}
