//! Webhooks of Vapi: a `status-update` for each status that the call reaches, and an `end-of-call-report` with how it ended and the
//! analysis.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Ending, Fact, Fields, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoed_ids,
    object, reporting_delay, rfc3339,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        let builder = ReportBuilder { script, attempt: *index, truth };
        // The team chooses the messages that it gets.
        let all_statuses = rng.u8(..4) > 0;
        let statuses = [
            Some(("queued", truth.placed_at, vec![Fact::Initiated])),
            truth.rang_at.map(|at| ("ringing", at, vec![Fact::Ringing])),
            truth.answered_at.map(|at| ("in-progress", at, vec![Fact::Ringing, Fact::Answered])),
        ];
        for (status, at, facts) in statuses.into_iter().flatten().filter(|_| all_statuses) {
            let statements = facts.into_iter().map(|fact| Statement { fact, at: Some(at) }).collect();
            let fields = vec![("status", status.into())];
            reports.push(builder.report("status-update", at, statements, fields, reporting_delay(rng)));
        }
        if truth.answered_at.is_some() && rng.u8(..8) == 0 {
            let fields = vec![("role", "user".into()), ("transcript", "Yes, that works for me.".into())];
            reports.push(builder.report("transcript", truth.ended_at, Vec::new(), fields, 0));
        }
        reports.push(builder.end_of_call(rng));
    }
    reports
}

/// Builds the reports of one attempt.
struct ReportBuilder<'a> {
    script: &'a Script,
    attempt: usize,
    truth: &'a GroundTruth,
}

impl ReportBuilder<'_> {
    /// The report that Vapi makes after the end of the call. It repeats what happened before.
    fn end_of_call(&self, rng: &mut Rng) -> Report {
        let truth = self.truth;
        let ended_at = Some(truth.ended_at);
        let mut statements = match (truth.answered_at, truth.ending) {
            (Some(at), _) => [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) }).to_vec(),
            (None, Ending::NoAnswer | Ending::Busy) => vec![Statement { fact: Fact::Ringing, at: ended_at }],
            (None, Ending::Completed | Ending::Failed | Ending::Canceled) => Vec::new(),
        };
        statements.extend(truth.outcome_fact.map(|(fact, _)| Statement { fact, at: ended_at }));
        statements.push(Statement { fact: Fact::Ended(truth.ending), at: ended_at });
        let data = match truth.decision_word() {
            None => json!({}),
            Some(word) => json!({"outcome": word}),
        };
        let mut fields = vec![
            ("endedReason", ended_reason(truth, rng)),
            ("endedAt", rfc3339(truth.ended_at).into()),
            ("analysis", json!({"summary": truth.scenario.description(), "structuredData": data})),
        ];
        fields.extend(truth.answered_at.map(|at| ("startedAt", rfc3339(at).into())));
        self.report("end-of-call-report", truth.ended_at, statements, fields, rng.i64(2 * SECOND..20 * SECOND))
    }

    fn report(
        &self,
        message_type: &str,
        at: Millis,
        statements: Vec<Statement>,
        fields: Fields,
        delay: Millis,
    ) -> Report {
        let script = self.script;
        let id = script.attempts.get(self.attempt).and_then(|attempt| attempt.provider_call_id.clone());
        let mut call = vec![
            ("id", id.into()),
            ("type", if script.inbound { "inboundPhoneCall" } else { "outboundPhoneCall" }.into()),
            ("customer", json!({"number": "+447700900000"})),
            ("phoneNumber", json!({"number": "+442079460018"})),
        ];
        if let Some(ids) = echoed_ids(script, self.attempt) {
            call.push(("assistantOverrides", json!({"metadata": ids})));
        }
        let mut message: Fields = vec![("type", message_type.into()), ("timestamp", at.into())];
        message.extend(fields);
        message.push(("call", object(call)));
        Report {
            name: message_type.to_owned(),
            attempt: self.attempt,
            has_provider_call_id: true,
            names_appointment: script.appointment_id.is_some(),
            statements,
            emitted_at: Provider::Vapi.to_system_time(at) + delay,
            query: String::new(),
            body: json!({"message": object(message)}).to_string().into_bytes(),
        }
    }
}

fn ended_reason(truth: &GroundTruth, rng: &mut Rng) -> Value {
    let reasons: &[&str] = match truth.scenario {
        Scenario::Confirmed | Scenario::Declined | Scenario::Talked => {
            &["customer-ended-call", "assistant-ended-call", "silence-timed-out"]
        }
        Scenario::Voicemail => &["voicemail"],
        Scenario::NoAnswer => &["customer-did-not-answer"],
        Scenario::Busy => &["customer-busy", "call.start.error-vapi-outbound-sip-486-busy-here"],
        Scenario::Failed => &["twilio-failed-to-connect-call", "sip-outbound-unallocated-number"],
        Scenario::Canceled => &["manually-canceled"],
        Scenario::CutOff => &["call.in-progress.error-assistant-did-not-receive-customer-audio", "worker-shutdown"],
    };
    rng.choice(reasons).copied().into()
}
