//! Webhooks of Retell: `call_started` for an answered call, `call_ended` and `call_analyzed` for every call. Each of
//! them describes the whole call up to that point.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Ending, Fact, Fields, GroundTruth, MINUTE, Millis, Provider, Report, SECOND, Scenario, Script, Statement,
    echoed_ids, object, reporting_delay,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for attempt in attempts {
        attempt_reports(script, *attempt, rng, &mut reports);
    }
    reports
}

fn attempt_reports(script: &Script, index: usize, rng: &mut Rng, reports: &mut Vec<Report>) {
    let Some(attempt) = script.attempts.get(index) else { return };
    let truth = &attempt.truth;
    let answered = Provider::Retell.to_system_time(truth.answered_at.unwrap_or(truth.ended_at));
    let ended = Provider::Retell.to_system_time(truth.ended_at);
    // For a call that never connected, Retell does not always give the time of its end.
    let ended_at = (truth.answered_at.is_some() || rng.bool()).then_some(truth.ended_at);
    let builder = ReportBuilder { script, attempt: index, reason: disconnection_reason(truth, rng), ended_at };

    if truth.answered_at.is_some() {
        reports.push(builder.build(
            "call_started",
            answered + reporting_delay(rng),
            builder.answered_statements(),
            vec![("call_status", "ongoing".into())],
        ));
        if rng.u8(..8) == 0 {
            let transcript =
                vec![("call_status", "ongoing".into()), ("transcript", "Agent: Hello, this is the clinic.".into())];
            reports.push(builder.build("transcript_updated", answered + 2 * SECOND, Vec::new(), transcript));
        }
    }
    let voicemail = || Statement { fact: Fact::Voicemail, at: ended_at };
    let mut statements = builder.answered_statements();
    if truth.scenario == Scenario::Voicemail {
        statements.push(voicemail());
    }
    statements.push(builder.ending_statement());
    reports.push(builder.build("call_ended", ended + reporting_delay(rng), statements.clone(), builder.ended_fields()));

    let mut analyzed_at = ended + rng.i64(2 * SECOND..30 * SECOND);
    if truth.answered_at.is_some() && rng.u8(..10) == 0 {
        // The first analysis came to no result, and Retell runs it again.
        let with = builder.analysis_fields(json!({"call_summary": "Unclear.", "custom_analysis_data": {}}));
        reports.push(builder.build("call_analyzed", analyzed_at, statements.clone(), with));
        analyzed_at += rng.i64(MINUTE..4 * MINUTE);
    }
    let (outcome_fact, data) = match truth.scenario {
        Scenario::Confirmed => (Some(Fact::Confirmed), json!({"appointment_confirmed": true})),
        Scenario::Declined => (Some(Fact::Declined), json!({"outcome": "declined"})),
        Scenario::Voicemail | Scenario::Talked | Scenario::CutOff => (None, json!({})),
        // The transcript is empty, so the analysis may contain any value. It states nothing.
        Scenario::NoAnswer | Scenario::Busy | Scenario::Failed | Scenario::Canceled => {
            (None, json!({"appointment_confirmed": false}))
        }
    };
    statements.extend(outcome_fact.map(|fact| Statement { fact, at: ended_at }));
    let with = builder.analysis_fields(json!({
        "call_summary": truth.scenario.description(),
        "in_voicemail": truth.scenario == Scenario::Voicemail,
        "custom_analysis_data": data,
    }));
    reports.push(builder.build("call_analyzed", analyzed_at, statements, with));
}

/// Builds the reports of one attempt.
struct ReportBuilder<'a> {
    script: &'a Script,
    attempt: usize,
    reason: &'static str,
    /// `None` if the reports do not give the time of the end.
    ended_at: Option<Millis>,
}

impl ReportBuilder<'_> {
    fn truth(&self) -> Option<&GroundTruth> {
        self.script.attempts.get(self.attempt).map(|attempt| &attempt.truth)
    }

    /// Statements that the phone rang and that the call was answered. Retell gives one time for both.
    fn answered_statements(&self) -> Vec<Statement> {
        let Some(truth) = self.truth() else { return Vec::new() };
        match (truth.answered_at, truth.ending) {
            (Some(at), _) => [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) }).to_vec(),
            (None, Ending::NoAnswer | Ending::Busy) => vec![Statement { fact: Fact::Ringing, at: self.ended_at }],
            (None, Ending::Completed | Ending::Failed | Ending::Canceled) => Vec::new(),
        }
    }

    fn ending_statement(&self) -> Statement {
        Statement { fact: Fact::Ended(self.truth().map_or(Ending::Failed, |truth| truth.ending)), at: self.ended_at }
    }

    /// Fields that Retell adds once a call has ended.
    fn ended_fields(&self) -> Fields {
        let connected = self.truth().is_some_and(|truth| truth.answered_at.is_some());
        let mut fields = vec![
            ("call_status", if connected { "ended" } else { "not_connected" }.into()),
            ("disconnection_reason", self.reason.into()),
        ];
        fields.extend(self.ended_at.map(|at| ("end_timestamp", at.into())));
        fields
    }

    fn analysis_fields(&self, analysis: Value) -> Fields {
        let mut fields = self.ended_fields();
        fields.push(("call_analysis", analysis));
        fields
    }

    fn build(&self, event: &str, emitted_at: Millis, statements: Vec<Statement>, with: Fields) -> Report {
        let script = self.script;
        let provider_call_id = script.attempts.get(self.attempt).and_then(|attempt| attempt.provider_call_id.clone());
        let (us, them) = ("+442079460018", "+447700900000");
        let mut call = vec![
            ("call_id", provider_call_id.into()),
            ("call_type", "phone_call".into()),
            ("agent_id", "agent_0f1e2d3c4b5a69788796a5b4c3".into()),
            ("direction", if script.inbound { "inbound" } else { "outbound" }.into()),
            ("from_number", if script.inbound { them } else { us }.into()),
            ("to_number", if script.inbound { us } else { them }.into()),
        ];
        call.extend(self.truth().and_then(|truth| truth.answered_at).map(|at| ("start_timestamp", at.into())));
        call.extend(echoed_ids(script, self.attempt).map(|ids| ("metadata", ids)));
        call.extend(with);
        Report {
            name: event.to_owned(),
            attempt: self.attempt,
            has_provider_call_id: true,
            names_appointment: script.appointment_id.is_some(),
            statements,
            emitted_at,
            query: String::new(),
            body: json!({"event": event, "call": object(call)}).to_string().into_bytes(),
        }
    }
}

fn disconnection_reason(truth: &GroundTruth, rng: &mut Rng) -> &'static str {
    let one_of = |reasons: &[&'static str], rng: &mut Rng| rng.choice(reasons).copied().unwrap_or("error_unknown");
    match truth.scenario {
        Scenario::Confirmed | Scenario::Declined | Scenario::Talked => {
            one_of(&["user_hangup", "agent_hangup", "inactivity"], rng)
        }
        Scenario::Voicemail => "voicemail_reached",
        Scenario::NoAnswer => "dial_no_answer",
        Scenario::Busy => one_of(&["dial_busy", "user_declined"], rng),
        Scenario::Failed => one_of(&["dial_failed", "invalid_destination", "sip_routing_error"], rng),
        Scenario::Canceled => "manual_stopped",
        Scenario::CutOff => one_of(&["error_llm_websocket_lost_connection", "error_asr", "error_retell"], rng),
    }
}
