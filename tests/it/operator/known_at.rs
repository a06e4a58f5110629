//! "Known at": the story of a call at an earlier time equals the row that was written then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::{Call, MoveKind, Provider};
use switchhook_local::CALLS_TABLE;
use switchhook_local::fake::DeliveryFaults;
use switchhook_operate::timeline::{CallSummary, FoundCall, How, Line, story, write_times};
use switchhook_tests::{MINUTE, World, generic, is_request_to};

use crate::outbound::{call_request, create, send};

/// Time between two looks at the calls. It is shorter than any worker takes between two writes of one call.
const GLANCE: Duration = Duration::from_millis(20);

/// The rows of some calls, as each write left them.
struct Recorded {
    rows: Vec<Vec<Call>>,
    has_written: Arc<AtomicBool>,
}

impl Recorded {
    fn of(world: &World, calls: usize) -> Self {
        let has_written = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&has_written);
        world.set_fault_hook(move |request| {
            let is_write = matches!(request.operation, "PutItem" | "UpdateItem") && is_request_to(request, CALLS_TABLE);
            if is_write {
                flag.store(true, Ordering::SeqCst);
            }
            None
        });
        Self { rows: vec![Vec::new(); calls], has_written }
    }

    /// Lets time pass, and reads the calls after each write.
    async fn watch(&mut self, world: &World, ids: &[String], time: Duration) {
        let mut passed = Duration::ZERO;
        let mut is_late = false;
        while passed < time {
            world.wait(GLANCE).await;
            passed += GLANCE;
            // A request that was sent may be carried out a little later.
            let is_new = self.has_written.swap(false, Ordering::SeqCst);
            if is_new || std::mem::replace(&mut is_late, is_new) {
                for (rows, id) in self.rows.iter_mut().zip(ids) {
                    let Some(call) = world.load(id).await else { continue };
                    if rows.last().is_none_or(|last| last.version != call.version) {
                        rows.push(call);
                    }
                }
            }
        }
    }
}

fn found(call: &Call) -> FoundCall {
    FoundCall { call: call.clone(), how: How::CallId, others: Vec::new() }
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
    let mut recorded = Recorded::of(&world, ids.len());
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

    for rows in &recorded.rows {
        let last = rows.last().unwrap();
        let whole = found(last);
        assert!(rows.len() >= 2, "{} was written once", last.call_id);
        for row in rows {
            let then = story(&found(row), None).unwrap().call;
            let known = story(&whole, Some(row.updated_at)).unwrap().call;
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
        for pair in rows.windows(2) {
            let states = [&pair[0], &pair[1]].map(|row| story(&found(row), None).unwrap().call);
            if shown(&states[0]) != shown(&states[1]) || states[0].job.state != states[1].job.state {
                assert!(times.contains(&pair[1].updated_at), "{} at {}", last.call_id, pair[1].updated_at);
            }
        }
        let written =
            story(&whole, None).unwrap().story.into_iter().filter(|line| matches!(line, Line::Write(_))).count();
        assert_eq!(written, times.len());
    }
}
