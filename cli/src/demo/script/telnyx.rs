//! Webhooks of Telnyx: `call.initiated`, `call.answered`, `call.machine.detection.ended` and `call.hangup`. A hangup does not say
//! whether anybody answered.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;
use serde_json::json;

use super::{
    Ending, Fact, Fields, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoed_ids,
    object, reporting_delay, rfc3339,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    let detects_machines = !attempts.is_empty() && rng.bool();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        let mut report = |name, at, statements, fields, delay| {
            reports.push(build(script, *index, (name, at), statements, fields, delay, rng));
        };
        let placed = vec![Statement { fact: Fact::Initiated, at: Some(truth.placed_at) }];
        report("call.initiated", truth.placed_at, placed, Vec::new(), 90);
        if let Some(at) = truth.answered_at {
            let answered = [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) });
            report("call.answered", at, answered.to_vec(), Vec::new(), 110);
            let machine = truth.scenario == Scenario::Voicemail;
            if machine || detects_machines && !script.inbound {
                let at = at + 3 * SECOND;
                let mut statements =
                    [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) }).to_vec();
                statements.extend(machine.then_some(Statement { fact: Fact::Voicemail, at: Some(at) }));
                let fields = vec![("result", if machine { "machine" } else { "human" }.into())];
                report("call.machine.detection.ended", at, statements, fields, 70);
            }
        }
        let fields = vec![
            ("start_time", rfc3339(truth.placed_at).into()),
            ("end_time", rfc3339(truth.ended_at).into()),
            ("hangup_cause", hangup_cause(truth).into()),
        ];
        report("call.hangup", truth.ended_at, hangup_statements(truth), fields, 130);
    }
    reports
}

/// Statements of a hangup. Its start is the time of the dial, so this is the latest time at which the phone can have rung.
fn hangup_statements(truth: &GroundTruth) -> Vec<Statement> {
    let rang = match truth.ending {
        Ending::NoAnswer | Ending::Busy => Some(Statement { fact: Fact::Ringing, at: Some(truth.placed_at) }),
        Ending::Completed | Ending::Failed | Ending::Canceled => None,
    };
    let ended = Statement { fact: Fact::Ended(truth.ending), at: Some(truth.ended_at) };
    rang.into_iter().chain([ended]).collect()
}

fn build(
    script: &Script,
    attempt: usize,
    (name, at): (&str, Millis),
    statements: Vec<Statement>,
    fields: Fields,
    delay: Millis,
    rng: &mut Rng,
) -> Report {
    let id = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.clone());
    let (us, them) = ("+442079460018", "+447700900000");
    let mut payload: Fields = vec![
        ("call_control_id", id.into()),
        ("connection_id", "2811212257810187875".into()),
        ("direction", if script.inbound { "incoming" } else { "outgoing" }.into()),
        ("from", if script.inbound { them } else { us }.into()),
        ("to", if script.inbound { us } else { them }.into()),
    ];
    if let Some(ids) = echoed_ids(script, attempt) {
        payload.push(("client_state", BASE64_STANDARD.encode(ids.to_string()).into()));
    }
    payload.extend(fields);
    let event = json!({
        "record_type": "event",
        "event_type": name,
        "id": format!("{:032x}", rng.u128(..)),
        "occurred_at": rfc3339(at),
        "payload": object(payload),
    });
    Report {
        name: name.to_owned(),
        attempt,
        has_provider_call_id: true,
        names_appointment: script.appointment_id.is_some(),
        statements,
        emitted_at: Provider::Telnyx.to_system_time(at) + delay + reporting_delay(rng),
        query: String::new(),
        body: json!({"data": event, "meta": {"attempt": 1}}).to_string().into_bytes(),
    }
}

const fn hangup_cause(truth: &GroundTruth) -> &'static str {
    match truth.ending {
        Ending::Completed => "normal_clearing",
        Ending::NoAnswer => "timeout",
        Ending::Busy => "user_busy",
        Ending::Failed => "not_found",
        Ending::Canceled => "originator_cancel",
    }
}
