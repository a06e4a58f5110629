//! "Known at": the story of a call at an earlier time equals the row that was written then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::{Call, MoveKind, Policy, Provider, ProviderSet, Timestamp};
use switchhook_local::CALLS_TABLE;
use switchhook_local::connector::Fault;
use switchhook_local::fake::DeliveryFaults;
use switchhook_operate::timeline::{CallSummary, FoundCall, How, Line, Story, story, write_times};
use switchhook_tests::{INACTIVITY_TIMEOUT, MINUTE, World, generic, is_request_to};
use tokio::sync::Notify;

use crate::outbound::{call_request, create, send};

/// Time after a write at which its row is read.
const GLANCE: Duration = Duration::from_millis(1);
/// Time that a response to a write takes. Meanwhile the row is read, and the worker does not go on.
const RESPONSE: Duration = Duration::from_millis(2);

/// The rows of some calls, as each write left them.
struct Recorded {
    rows: BTreeMap<String, Vec<Call>>,
    /// Keys of the rows that were written since they were read.
    written: Arc<Mutex<BTreeSet<String>>>,
    is_written: Arc<Notify>,
}

impl Recorded {
    fn of(world: &World) -> Self {
        let (written, is_written) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::new(Notify::new()));
        let (keys, notify) = (Arc::clone(&written), Arc::clone(&is_written));
        world.set_fault_hook(move |request| {
            let is_write = matches!(request.operation, "PutItem" | "UpdateItem") && is_request_to(request, CALLS_TABLE);
            if !is_write {
                return None;
            }
            let body: Value = serde_json::from_slice(request.body).unwrap();
            let key = [&body["Item"], &body["Key"]].into_iter().find_map(|item| item["call_id"]["S"].as_str()).unwrap();
            keys.lock().unwrap().insert(key.to_owned());
            notify.notify_one();
            Some(Fault::ResponseDelay(RESPONSE))
        });
        Self { rows: BTreeMap::new(), written, is_written }
    }

    /// Lets time pass, and reads the calls after each write.
    async fn watch(&mut self, world: &World, ids: &[String], time: Duration) {
        let until = world.now().plus(time);
        for id in ids {
            self.read(world, id).await;
        }
        while let Some(left) = u64::try_from(until.millis_since(world.now())).ok().filter(|left| *left > 0) {
            let next = tokio::time::timeout(Duration::from_millis(left), self.is_written.notified());
            if next.await.is_err() {
                return;
            }
            // The request that was sent is carried out now.
            world.wait(GLANCE).await;
            let written = std::mem::take(&mut *self.written.lock().unwrap());
            for id in written.iter().filter(|id| ids.contains(id)) {
                self.read(world, id).await;
            }
        }
    }

    async fn read(&mut self, world: &World, id: &str) {
        let Some(call) = world.load(id).await else { return };
        let rows = self.rows.entry(id.to_owned()).or_default();
        if rows.last().is_none_or(|last| last.version != call.version) {
            rows.push(call);
        }
    }

    /// Checks that the story of each call at each earlier time is the row of that time, for every write. Returns the number of
    /// writes.
    fn check(&self) -> usize {
        self.rows.values().map(|rows| check(rows)).sum()
    }
}

fn told(call: &Call, as_of: Option<Timestamp>) -> Option<Story> {
    let found = FoundCall { call: call.clone(), how: How::CallId, others: Vec::new() };
    let policy = Policy { inactivity_timeout: INACTIVITY_TIMEOUT, outcome_providers: ProviderSet::reporting_outcome() };
    story(&found, &policy, call.updated_at, as_of)
}

/// The part of a state that the history decides.
fn shown(call: &CallSummary) -> Value {
    let attempts: Vec<Value> = call
        .attempts
        .iter()
        .map(|attempt| {
            serde_json::json!([
                attempt.number,
                attempt.lifecycle,
                attempt.outcome,
                attempt.started_at,
                attempt.ended_at
            ])
        })
        .collect();
    serde_json::json!([call.lifecycle, call.outcome, call.appointment_status, attempts])
}

#[tokio::test(start_paused = true)]
async fn story_of_an_earlier_time_is_the_row_of_that_time() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::NONE);
    let mut ids = Vec::new();
    for behaviour in ["busy,confirms", "no_answer,declines", "confirms"] {
        ids.push(create(&world, &call_request(behaviour)).await);
    }
    let canceled = create(&world, &{
        let mut request = call_request("confirms");
        request["due_at"] = "2026-01-02T00:00:00Z".into();
        request
    })
    .await;
    ids.push(canceled.clone());
    ids.push("reported".to_owned());
    let mut recorded = Recorded::of(&world);
    recorded.watch(&world, &ids, MINUTE / 60).await;
    // A call that another system placed, whose events come in the wrong order.
    for (event, kind, second) in
        [("c", "ENDED", 30), ("a", "RINGING", 10), ("b", "ANSWERED", 20), ("d", "USER_CONFIRMED", 25)]
    {
        let (code, answer) = world.post(Provider::Generic, &generic("reported", event, kind, second)).await;
        assert!(code == StatusCode::ACCEPTED || code == StatusCode::OK, "{answer}");
        recorded.watch(&world, &ids, MINUTE / 20).await;
    }
    send(&world, "POST", &format!("/call/cancel?id={canceled}"), None, &Value::Null).await;
    recorded.watch(&world, &ids, MINUTE * 30).await;

    assert!(recorded.rows.len() == 5 && recorded.check() > 20);
}

fn check(rows: &[Call]) -> usize {
    let last = rows.last().unwrap();
    assert!(rows.len() >= 2, "{} was written once", last.call_id);
    for pair in rows.windows(2) {
        assert_eq!(pair[1].version, pair[0].version + 1, "a write of {} was missed", last.call_id);
    }
    // The row keeps no record of a dial that its worker withdrew, because the provider did not place it. So the moment between the
    // dial and its withdrawal cannot be shown later.
    let is_kept = |row: &Call| {
        let lost = row.attempt_records.iter().find(|record| {
            record.dial_key.is_some() && !last.attempt_records.iter().any(|kept| kept.dial_key == record.dial_key)
        });
        let is_end = |kind: MoveKind| matches!(kind, MoveKind::Withdrawn | MoveKind::Rejected);
        let withdrawn = last.moves.iter().any(|one| is_end(one.kind) && one.at >= row.updated_at);
        assert!(lost.is_none() || withdrawn, "{} lost {lost:?}", row.call_id);
        lost.is_none()
    };
    for row in rows.iter().filter(|row| is_kept(row)) {
        let then = told(row, None).unwrap().call;
        let known = told(last, Some(row.updated_at)).unwrap().call;
        let at = format!("{} at {} in version {}", row.call_id, row.updated_at, row.version);
        assert_eq!(shown(&known), shown(&then), "{at}");
        if known.job.state.is_some() {
            assert_eq!(known.job.state, then.job.state, "{at}");
        } else {
            assert!(last.moves.iter().any(|one| one.kind == MoveKind::Claimed), "{at}: the job is not known");
        }
    }
    // Every write that changed what a page shows is one of the times that "Known at" offers.
    let times = write_times(last);
    for pair in rows.windows(2).filter(|pair| pair.iter().all(is_kept)) {
        let states = [&pair[0], &pair[1]].map(|row| told(row, None).unwrap().call);
        if shown(&states[0]) != shown(&states[1]) || states[0].job.state != states[1].job.state {
            assert!(times.contains(&pair[1].updated_at), "{} at {}", last.call_id, pair[1].updated_at);
        }
    }
    let written = told(last, None).unwrap().story.into_iter().filter(|line| matches!(line, Line::Write(_))).count();
    assert_eq!(written, times.len());
    rows.len()
}

/// Behaviour of the people called, attempt by attempt, as in the calls of the demo.
const BEHAVIOURS: [&str; 16] = [
    "confirms",
    "declines",
    "voicemail,confirms",
    "busy,confirms",
    "no_answer,busy,confirms",
    "no_answer,no_answer,no_answer",
    "fails,confirms",
    "forgotten,confirms",
    "response_lost,confirms",
    "first_response_lost,confirms",
    "no_response,confirms",
    "silent",
    "rate_limited,confirms",
    "invalid",
    "over_capacity,declines",
    "busy,busy,busy",
];

#[tokio::test(start_paused = true)]
async fn every_write_of_every_call_is_known_later_although_webhooks_are_lost_late_and_sent_twice() {
    let world = World::new();
    world.cloud.fake().set_delivery_faults(DeliveryFaults::USUAL);
    let mut recorded = Recorded::of(&world);
    let mut ids = Vec::new();
    for behaviour in BEHAVIOURS {
        ids.push(create(&world, &call_request(behaviour)).await);
        recorded.watch(&world, &ids, Duration::from_secs(1)).await;
    }
    recorded.watch(&world, &ids, MINUTE * 240).await;
    let writes = recorded.check();
    assert!(recorded.rows.len() == ids.len() && writes > 7 * ids.len(), "{writes} writes");
}
