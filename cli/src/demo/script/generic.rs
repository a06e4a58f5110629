//! Webhooks of a sender that uses the generic provider: one event for each fact.
//!
//! An event also states what its word implies. `ANSWERED` implies that the phone rang, and `USER_CONFIRMED` implies that
//! the call was answered, at a time that it does not state. `ENDED` implies no answer, because a call may end unanswered.

use fastrand::Rng;
use serde_json::json;

use super::{Correlation, Ending, Fact, Fields, Millis, Report, SECOND, Script, Statement, object, reporting_delay};

/// Form in which the sender posts the events of one call.
struct EventStyle {
    upper_case: bool,
    /// False if events carry no times. Then only the kinds of the events tell their order.
    has_times: bool,
    /// Index of the first event of an attempt that carries the provider's id of the attempt. 0 if all events do.
    provider_call_id_from: usize,
    /// True if the sender adds a `completed` when the line is free again, after whatever ending was reported before.
    always_adds_completed: bool,
}

pub(super) fn reports(script: &Script, rng: &mut Rng) -> Vec<Report> {
    let one_attempt = script.attempts.len() == 1;
    let may_omit_id = one_attempt && script.correlation != Correlation::ProviderCall;
    let style = EventStyle {
        upper_case: rng.bool(),
        has_times: !(one_attempt && rng.u8(..8) == 0),
        provider_call_id_from: if may_omit_id && rng.u8(..5) == 0 { 2 } else { 0 },
        always_adds_completed: rng.u8(..3) == 0,
    };
    let reports_start = rng.u8(..4) > 0;
    let mut reports = Vec::new();
    for (attempt_index, attempt) in script.attempts.iter().enumerate() {
        let truth = &attempt.truth;
        let facts = [
            reports_start.then_some((Fact::Initiated, truth.placed_at)),
            truth.rang_at.map(|at| (Fact::Ringing, at)),
            truth.answered_at.map(|at| (Fact::Answered, at)),
            truth.outcome_fact,
            Some((Fact::Ended(truth.ending), truth.ended_at)),
            (style.always_adds_completed && truth.answered_at.is_none() && truth.ending != Ending::Completed)
                .then_some((Fact::Ended(Ending::Completed), truth.ended_at + SECOND)),
        ];
        for (place, (fact, at)) in facts.into_iter().flatten().enumerate() {
            let has_id = attempt.provider_call_id.is_some() && place >= style.provider_call_id_from;
            reports.push(report(script, attempt_index, fact, at, has_id, &style, rng));
        }
        if rng.u8(..8) == 0 {
            let body = json!({"event_id": event_id(rng), "type": "billing.updated", "call_id": script.call_id});
            reports.push(Report {
                name: "billing.updated".to_owned(),
                attempt: attempt_index,
                has_provider_call_id: false,
                statements: Vec::new(),
                emitted_at: script.to_system_time(truth.ended_at) + 5 * SECOND,
                query: String::new(),
                body: body.to_string().into_bytes(),
            });
        }
        if attempt_index + 1 < script.attempts.len() && rng.u8(..4) > 0 {
            let at = truth.ended_at + rng.i64(SECOND..30 * SECOND);
            reports.push(report(script, attempt_index, Fact::RetryPlanned, at, false, &style, rng));
        }
    }
    reports
}

fn report(
    script: &Script,
    attempt: usize,
    fact: Fact,
    at: Millis,
    has_provider_call_id: bool,
    style: &EventStyle,
    rng: &mut Rng,
) -> Report {
    let (lower, upper) = names(fact);
    let name = if style.upper_case { upper } else { lower };
    let occurred_at = style.has_times.then_some(at);
    let mut event: Fields = vec![
        ("event_id", event_id(rng).into()),
        (if style.upper_case { "type" } else { "event_type" }, name.into()),
        ("meta", json!({"source": "orchestrator"})),
    ];
    if let Some(time) = occurred_at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok()) {
        event.push((if style.upper_case { "created_at" } else { "occurred_at" }, format!("{time:.3}").into()));
    }
    if script.correlation == Correlation::Call {
        event.push(("call_id", script.call_id.as_str().into()));
    }
    event.extend(script.appointment_id.as_deref().map(|id| ("appointment_id", id.into())));
    if has_provider_call_id {
        let sid = script.attempts.get(attempt).and_then(|attempt| attempt.provider_call_id.clone());
        let line = json!({"sid": sid, "to": "+447700900000", "from": "+442079460018", "direction": "outbound"});
        event.push(("call", line));
    }
    Report {
        name: name.to_owned(),
        attempt,
        has_provider_call_id,
        statements: statements(fact, occurred_at),
        emitted_at: script.to_system_time(at) + reporting_delay(rng),
        query: String::new(),
        body: object(event).to_string().into_bytes(),
    }
}

/// Returns the facts that the word for this fact implies, and the fact itself.
fn statements(fact: Fact, at: Option<Millis>) -> Vec<Statement> {
    let implied: &[(Fact, Option<Millis>)] = match fact {
        Fact::Answered | Fact::Ended(Ending::Completed | Ending::NoAnswer | Ending::Busy) => &[(Fact::Ringing, at)],
        Fact::Voicemail | Fact::Declined | Fact::Confirmed => &[(Fact::Ringing, None), (Fact::Answered, None)],
        Fact::Initiated | Fact::Ringing | Fact::Ended(Ending::Failed | Ending::Canceled) | Fact::RetryPlanned => &[],
    };
    implied.iter().copied().chain([(fact, at)]).map(|(fact, at)| Statement { fact, at }).collect()
}

fn event_id(rng: &mut Rng) -> String {
    format!("evt_{:012x}", rng.u64(..) >> 16)
}

/// Names of the event in lower case and in upper case.
const fn names(fact: Fact) -> (&'static str, &'static str) {
    match fact {
        Fact::Initiated => ("call.initiated", "CALL_STARTED"),
        Fact::Ringing => ("call.ringing", "RINGING"),
        Fact::Answered => ("call.in_progress", "ANSWERED"),
        Fact::Voicemail => ("voicemail.detected", "VOICEMAIL_DETECTED"),
        Fact::Declined => ("user.declined", "USER_DECLINED"),
        Fact::Confirmed => ("user.confirmed", "USER_CONFIRMED"),
        Fact::Ended(Ending::Completed) => ("call.completed", "ENDED"),
        Fact::Ended(Ending::NoAnswer) => ("call.no_answer", "TIMEOUT"),
        Fact::Ended(Ending::Busy) => ("call.busy", "BUSY"),
        Fact::Ended(Ending::Failed) => ("call.failed", "FAILED"),
        Fact::Ended(Ending::Canceled) => ("call.canceled", "CANCELED"),
        Fact::RetryPlanned => ("retry.scheduled", "RETRY_SCHEDULED"),
    }
}
