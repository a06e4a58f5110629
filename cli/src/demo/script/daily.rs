//! Webhooks of Daily about a phone in a room: `dialout.connected`, `dialout.answered` and `dialout.stopped`, or `dialout.error`; for a caller
//! `dialin.connected` and `dialin.stopped`. The end does not say whether anybody answered. Their times are whole seconds.

use fastrand::Rng;
use serde_json::json;

use super::{Correlation, Ending, Fact, Millis, Provider, Report, SECOND, Script, Statement, object, reporting_delay};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        let mut report = |name, at, facts: &[Fact]| reports.push(build(script, *index, name, at, facts, rng));
        let answered = [Fact::Ringing, Fact::Answered];
        if script.inbound {
            report("dialin.connected", truth.answered_at.unwrap_or(truth.placed_at), &answered);
            report("dialin.stopped", truth.ended_at, &[Fact::Ended(Ending::Completed)]);
            continue;
        }
        if let Some(at) = truth.rang_at {
            report("dialout.connected", at, &[Fact::Ringing]);
        }
        if let Some(at) = truth.answered_at {
            report("dialout.answered", at, &answered);
        }
        let last = if truth.ending == Ending::Failed { "dialout.error" } else { "dialout.stopped" };
        report(last, truth.ended_at, &[Fact::Ended(truth.ending)]);
    }
    reports
}

fn build(script: &Script, attempt: usize, name: &str, at: Millis, facts: &[Fact], rng: &mut Rng) -> Report {
    let id = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.as_deref());
    let seconds = at.div_euclid(SECOND);
    let mut payload = vec![
        ("session_id", json!(id)),
        ("room", "reminders".into()),
        ("timestamp", seconds.to_string().into()),
        ("domain_id", "00000000-0000-4000-8000-000000000001".into()),
    ];
    if script.correlation == Correlation::Appointment
        && let Some(appointment_id) = &script.appointment_id
    {
        payload.push(("user_id", format!("appointment:{appointment_id}").into()));
    }
    let emitted_at = Provider::Daily.to_system_time(at) + reporting_delay(rng);
    let event = json!({
        "version": "1.0.0",
        "type": name,
        "id": format!("{:032x}", rng.u128(..)),
        "payload": object(payload),
        "event_ts": emitted_at as f64 / 1_000.0,
    });
    Report {
        name: name.to_owned(),
        attempt,
        has_provider_call_id: true,
        names_appointment: script.appointment_id.is_some(),
        statements: facts.iter().map(|fact| Statement { fact: *fact, at: Some(seconds * SECOND) }).collect(),
        emitted_at,
        query: String::new(),
        body: event.to_string().into_bytes(),
    }
}
