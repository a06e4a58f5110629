//! Callbacks of Plivo: `Ring` when the phone rings, `Hangup` after the call, and the verdict about an answering machine, which alone
//! tells a voicemail. `Ring` has a time with milliseconds, and the others have whole seconds.

use fastrand::Rng;
use form_urlencoded::Serializer;

use super::{
    Ending, Fact, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoing_query,
    reporting_delay,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    if attempts.is_empty() {
        return reports;
    }
    // The team chooses the URLs that Plivo posts to.
    let (has_ring_url, detects_machines) = (rng.u8(..4) > 0, rng.bool());
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        if let Some(at) = truth.rang_at.filter(|_| has_ring_url && !script.inbound) {
            let statements = vec![Statement { fact: Fact::Ringing, at: Some(at) }];
            let fields = [("Event", "Ring"), ("CallStatus", "ringing"), ("SessionStart", &plivo_time(at, 3))];
            reports.push(build(script, *index, at + reporting_delay(rng), statements, &fields));
        }
        let is_machine = truth.scenario == Scenario::Voicemail;
        if let Some(at) = truth.answered_at.filter(|_| is_machine || detects_machines && !script.inbound) {
            let facts = [Fact::Ringing, Fact::Answered].into_iter().chain(is_machine.then_some(Fact::Voicemail));
            let statements = facts.map(|fact| Statement { fact, at: None }).collect();
            let machine = if is_machine { "true" } else { "false" };
            let fields = [("Event", "MachineDetection"), ("CallStatus", "in-progress"), ("Machine", machine)];
            reports.push(build(script, *index, at + rng.i64(3 * SECOND..4 * SECOND), statements, &fields));
        }
        reports.push(hangup(script, *index, truth, rng));
    }
    reports
}

fn hangup(script: &Script, attempt: usize, truth: &GroundTruth, rng: &mut Rng) -> Report {
    let to_the_second = |at: Millis| at - at.rem_euclid(SECOND);
    let (started_at, ended_at) = (to_the_second(truth.placed_at), to_the_second(truth.ended_at));
    let answered_at = truth.answered_at.map(to_the_second);
    let mut statements = match (answered_at, truth.ending) {
        (Some(at), _) => [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) }).to_vec(),
        (None, Ending::NoAnswer | Ending::Busy) => vec![Statement { fact: Fact::Ringing, at: Some(started_at) }],
        (None, Ending::Completed | Ending::Failed | Ending::Canceled) => Vec::new(),
    };
    statements.push(Statement { fact: Fact::Ended(truth.ending), at: Some(ended_at) });
    let seconds = answered_at.map_or(0, |at| ((ended_at - at) / SECOND).max(1)).to_string();
    let (status, cause) = status_and_cause(truth.ending, rng);
    let fields = [
        ("Event", "Hangup"),
        ("CallStatus", status),
        ("HangupCauseCode", cause),
        ("StartTime", &plivo_time(started_at, 0)),
        ("AnswerTime", &answered_at.map(|at| plivo_time(at, 0)).unwrap_or_default()),
        ("EndTime", &plivo_time(ended_at, 0)),
        ("Duration", &seconds),
        ("BillDuration", &seconds),
    ];
    build(script, attempt, truth.ended_at + reporting_delay(rng), statements, &fields)
}

/// Status and hangup cause of a call that ended in this way. Plivo calls it a timeout if the call could not be connected in time.
fn status_and_cause(ending: Ending, rng: &mut Rng) -> (&'static str, &'static str) {
    match ending {
        Ending::Completed => ("completed", "4000"),
        Ending::NoAnswer => ("no-answer", "3000"),
        Ending::Busy => ("busy", "3010"),
        Ending::Failed if rng.u8(..4) == 0 => ("timeout", "0"),
        Ending::Failed => ("failed", "2000"),
        Ending::Canceled => ("cancel", "1000"),
    }
}

/// Builds the report that Plivo makes at this time of its clock. Its event and its status name it.
fn build(script: &Script, attempt: usize, at: Millis, statements: Vec<Statement>, fields: &[(&str, &str)]) -> Report {
    let id = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.as_deref()).unwrap_or_default();
    let (us, them) = ("442079460018", "447700900000");
    let common = [
        ("CallUUID", id),
        ("Direction", if script.inbound { "inbound" } else { "outbound" }),
        ("From", if script.inbound { them } else { us }),
        ("To", if script.inbound { us } else { them }),
    ];
    let name: Vec<&str> = fields.iter().take(2).map(|(_, value)| *value).collect();
    Report {
        name: name.join(" "),
        attempt,
        has_provider_call_id: true,
        names_appointment: script.appointment_id.is_some(),
        statements,
        emitted_at: Provider::Plivo.to_system_time(at),
        query: echoing_query(script, attempt),
        body: Serializer::new(String::new()).extend_pairs(common.iter().chain(fields)).finish().into_bytes(),
    }
}

/// Formats a time as Plivo does, in UTC without a zone, with this number of decimals.
fn plivo_time(at: Millis, decimals: usize) -> String {
    let format = if decimals > 0 { "%Y-%m-%d %H:%M:%S%.3f" } else { "%Y-%m-%d %H:%M:%S" };
    jiff::Timestamp::from_millisecond(at).map(|time| time.strftime(format).to_string()).unwrap_or_default()
}
