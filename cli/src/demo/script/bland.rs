//! Webhooks of Bland: one per call, after its end. It also says what the person decided. A message about the course of the call may come
//! before, and changes nothing.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Ending, Fact, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoed_ids, rfc3339,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let (truth, id) = (&attempt.truth, attempt.provider_call_id.as_deref());
        if let Some(at) = truth.answered_at.filter(|_| rng.u8(..8) == 0) {
            let message = json!({"call_id": id, "category": "call", "message": "Hello", "created_at": rfc3339(at)});
            reports.push(build(script, *index, "call", at, Vec::new(), &message));
        }
        let at = truth.ended_at + rng.i64(2 * SECOND..30 * SECOND);
        let (statements, call) = post_call(script, *index, truth);
        reports.push(build(script, *index, "post_call", at, statements, &call));
    }
    reports
}

/// The call as Bland shows it after its end, and what that states. Its start is a whole second.
fn post_call(script: &Script, attempt: usize, truth: &GroundTruth) -> (Vec<Statement>, Value) {
    let id = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.as_deref());
    let started_at = truth.answered_at.unwrap_or(truth.placed_at).div_euclid(SECOND) * SECOND;
    let seconds = truth.answered_at.map_or(0, |at| ((truth.ended_at - at) / SECOND).max(1));
    let ended_at = started_at + seconds * SECOND;
    let before: &[Fact] = match truth.ending {
        _ if truth.answered_at.is_some() => &[Fact::Ringing, Fact::Answered],
        Ending::NoAnswer | Ending::Busy => &[Fact::Ringing],
        Ending::Completed | Ending::Failed | Ending::Canceled => &[],
    };
    let mut statements: Vec<Statement> =
        before.iter().map(|fact| Statement { fact: *fact, at: Some(started_at) }).collect();
    statements.extend(truth.outcome_fact.map(|(fact, _)| Statement { fact, at: Some(ended_at) }));
    statements.push(Statement { fact: Fact::Ended(truth.ending), at: Some(ended_at) });
    let (status, queue_status, answered_by) = match (truth.scenario, truth.ending) {
        (Scenario::Voicemail, _) => ("completed", "complete", Some("voicemail")),
        (Scenario::CutOff, _) => ("completed", "call_error", Some("human")),
        (_, Ending::Completed) => ("completed", "complete", Some("human")),
        (_, Ending::NoAnswer) => ("no-answer", "complete", Some("no-answer")),
        (_, Ending::Busy) => ("busy", "complete", None),
        (_, Ending::Failed) => ("failed", "complete", None),
        (_, Ending::Canceled) => ("canceled", "complete", None),
    };
    let (us, them) = ("+442079460018", "+447700900000");
    let call = json!({
        "call_id": id,
        "completed": true,
        "status": status,
        "queue_status": queue_status,
        "answered_by": answered_by,
        "inbound": script.inbound,
        "from": if script.inbound { them } else { us },
        "to": if script.inbound { us } else { them },
        "created_at": rfc3339(truth.placed_at),
        "started_at": rfc3339(started_at),
        "call_length": seconds as f64 / 60.0,
        "disposition_tag": truth.decision_word(),
        "summary": truth.scenario.description(),
        "metadata": echoed_ids(script, attempt),
    });
    (statements, call)
}

fn build(script: &Script, attempt: usize, name: &str, at: Millis, statements: Vec<Statement>, body: &Value) -> Report {
    Report {
        name: name.to_owned(),
        attempt,
        has_provider_call_id: true,
        names_appointment: script.appointment_id.is_some(),
        statements,
        emitted_at: Provider::Bland.to_system_time(at),
        query: String::new(),
        body: body.to_string().into_bytes(),
    }
}
