//! Events of Vonage: `started`, `ringing`, `answered`, `human` or `machine`, an ending, and `completed` after most endings. None carries
//! our ids.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Ending, Fact, Fields, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, object,
    reporting_delay, rfc3339,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    let detects_machines = !attempts.is_empty() && rng.bool();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        let mut report = |status, at, facts: &[Fact], fields: Fields| {
            let statements = facts.iter().map(|fact| Statement { fact: *fact, at: Some(at) }).collect();
            reports.push(build(script, *index, (status, at), statements, fields, rng));
        };
        report("started", truth.placed_at, &[Fact::Initiated], Vec::new());
        if let Some(at) = truth.rang_at {
            report("ringing", at, &[Fact::Ringing], Vec::new());
        }
        if let Some(at) = truth.answered_at {
            report("answered", at, &[Fact::Ringing, Fact::Answered], Vec::new());
            let detected_at = at + 3 * SECOND;
            if truth.scenario == Scenario::Voicemail {
                report("machine", detected_at, &[Fact::Ringing, Fact::Answered, Fact::Voicemail], Vec::new());
            } else if detects_machines && !script.inbound {
                report("human", detected_at, &[Fact::Ringing, Fact::Answered], Vec::new());
            }
        } else if let Some((status, detail)) = unanswered_status(truth.ending) {
            let rang = matches!(truth.ending, Ending::NoAnswer | Ending::Busy).then_some(Fact::Ringing);
            let facts: Vec<Fact> = rang.into_iter().chain([Fact::Ended(truth.ending)]).collect();
            report(status, truth.ended_at, &facts, vec![("detail", detail.into())]);
        }
        if truth.answered_at.is_some() || rng.u8(..4) > 0 {
            reports.push(completed(script, *index, truth, rng));
        }
    }
    reports
}

/// Status and detail of a call that nobody answered.
const fn unanswered_status(ending: Ending) -> Option<(&'static str, &'static str)> {
    match ending {
        Ending::Completed => None,
        Ending::NoAnswer => Some(("unanswered", "timeout")),
        Ending::Busy => Some(("busy", "busy")),
        Ending::Failed => Some(("failed", "unavailable")),
        Ending::Canceled => Some(("cancelled", "cancelled")),
    }
}

/// The event after the ending of every call. It says only that the call is over, unless the call has a duration. Its times are whole
/// seconds.
fn completed(script: &Script, attempt: usize, truth: &GroundTruth, rng: &mut Rng) -> Report {
    let to_the_second = |at: Millis| at - at.rem_euclid(SECOND);
    let (at, ended_at) = (truth.ended_at + 150, to_the_second(truth.ended_at));
    let answered_at = truth.answered_at.map(to_the_second);
    let statements = match answered_at {
        Some(answered) => {
            let before = [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(answered) });
            let ended = Statement { fact: Fact::Ended(Ending::Completed), at: Some(ended_at) };
            before.into_iter().chain([ended]).collect()
        }
        None => vec![Statement { fact: Fact::Ended(Ending::Completed), at: Some(at) }],
    };
    let seconds = answered_at.map_or(0, |answered| ((ended_at - answered) / SECOND).max(1));
    let fields = vec![
        ("start_time", answered_at.map_or(Value::Null, |at| rfc3339(at).into())),
        ("end_time", rfc3339(ended_at).into()),
        ("duration", seconds.to_string().into()),
    ];
    build(script, attempt, ("completed", at), statements, fields, rng)
}

fn build(
    script: &Script,
    attempt: usize,
    (status, at): (&str, Millis),
    statements: Vec<Statement>,
    fields: Fields,
    rng: &mut Rng,
) -> Report {
    let id = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.clone());
    let (us, them) = ("442079460018", "447700900000");
    let mut event: Fields = vec![
        ("uuid", id.into()),
        ("status", status.into()),
        ("direction", if script.inbound { "inbound" } else { "outbound" }.into()),
        ("from", if script.inbound { them } else { us }.into()),
        ("to", if script.inbound { us } else { them }.into()),
        ("timestamp", json!(rfc3339(at))),
    ];
    event.extend(fields);
    Report {
        name: status.to_owned(),
        attempt,
        has_provider_call_id: true,
        names_appointment: false,
        statements,
        emitted_at: Provider::Vonage.to_system_time(at) + reporting_delay(rng),
        query: String::new(),
        body: object(event).to_string().into_bytes(),
    }
}
