//! Webhooks of ElevenLabs: one per call, after its end. `call_initiation_failure` names the conversation and none of our ids, so it
//! is used only where the conversation is enough.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{
    Correlation, Ending, Fact, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoed_ids,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let truth = &attempt.truth;
        let emitted_at = Provider::ElevenLabs.to_system_time(truth.ended_at) + rng.i64(2 * SECOND..30 * SECOND);
        let builder = ReportBuilder { script, attempt: *index, truth, emitted_at };
        let was_answered = truth.answered_at.is_some();
        if was_answered && rng.u8(..8) == 0 {
            let audio = json!({"conversation_id": attempt.provider_call_id, "full_audio": "SUQzBAAAAAAA"});
            reports.push(builder.report("post_call_audio", Vec::new(), audio));
        }
        let is_failure = !was_answered && script.correlation == Correlation::ProviderCall && rng.bool();
        reports.push(if is_failure { builder.failure() } else { builder.transcription() });
    }
    reports
}

/// Builds the reports of one attempt.
struct ReportBuilder<'a> {
    script: &'a Script,
    attempt: usize,
    truth: &'a GroundTruth,
    emitted_at: Millis,
}

impl ReportBuilder<'_> {
    /// The whole conversation. Its times are whole seconds.
    fn transcription(&self) -> Report {
        let truth = self.truth;
        let started = truth.answered_at.unwrap_or(truth.ended_at).div_euclid(SECOND);
        let seconds = truth.answered_at.map_or(0, |at| ((truth.ended_at - at) / SECOND).max(1));
        let (at, ended_at) = (started * SECOND, (started + seconds) * SECOND);
        let before: &[Fact] = match truth.ending {
            _ if truth.answered_at.is_some() => &[Fact::Ringing, Fact::Answered],
            Ending::NoAnswer | Ending::Busy => &[Fact::Ringing],
            Ending::Completed | Ending::Failed | Ending::Canceled => &[],
        };
        let mut statements: Vec<Statement> =
            before.iter().map(|fact| Statement { fact: *fact, at: Some(at) }).collect();
        statements.extend(truth.outcome_fact.map(|(fact, _)| Statement { fact, at: Some(ended_at) }));
        statements.push(Statement { fact: Fact::Ended(truth.ending), at: Some(ended_at) });
        let results = match truth.decision_word() {
            None => json!({}),
            Some(word) => json!({"outcome": {"value": word, "rationale": "The person said so."}}),
        };
        let (result, status) = match (truth.scenario, truth.ending) {
            (Scenario::Voicemail, _) => ("voicemail", "done"),
            (Scenario::CutOff, _) => ("answered", "failed"),
            (_, Ending::Completed) => ("answered", "done"),
            (_, Ending::NoAnswer) => ("no_answer", "failed"),
            (_, Ending::Busy) => ("busy", "failed"),
            (_, Ending::Failed | Ending::Canceled) => ("failed", "failed"),
        };
        let mut data = json!({
            "conversation_id": self.provider_call_id(),
            "status": status,
            "metadata": {
                "start_time_unix_secs": started,
                "call_duration_secs": seconds,
                "phone_call": {
                    "type": "twilio",
                    "direction": if self.script.inbound { "inbound" } else { "outbound" },
                    "agent_number": "+442079460018",
                    "external_number": "+447700900000",
                    "call_result": result,
                },
            },
            "analysis": {"data_collection_results": results, "transcript_summary": truth.scenario.description()},
        });
        if let (Some(ids), Some(data)) = (echoed_ids(self.script, self.attempt), data.as_object_mut()) {
            let variables = Map::from_iter([("dynamic_variables".to_owned(), ids)]);
            data.insert("conversation_initiation_client_data".to_owned(), variables.into());
        }
        self.report("post_call_transcription", statements, data)
    }

    /// A call that never became a conversation. The time of the report is all that is known.
    fn failure(&self) -> Report {
        let at = Some(self.reported_at() * SECOND);
        let (reason, rang) = match self.truth.ending {
            Ending::Busy => ("busy", true),
            Ending::NoAnswer => ("no-answer", true),
            Ending::Completed | Ending::Failed | Ending::Canceled => ("unknown", false),
        };
        let rang = rang.then_some(Statement { fact: Fact::Ringing, at });
        let ended = Statement { fact: Fact::Ended(self.truth.ending), at };
        let data = json!({"conversation_id": self.provider_call_id(), "failure_reason": reason});
        self.report("call_initiation_failure", rang.into_iter().chain([ended]).collect(), data)
    }

    fn provider_call_id(&self) -> Option<&str> {
        self.script.attempts.get(self.attempt)?.provider_call_id.as_deref()
    }

    /// Time of the report by the provider's clock, in seconds.
    fn reported_at(&self) -> i64 {
        self.emitted_at.div_euclid(SECOND)
    }

    fn report(&self, event: &str, statements: Vec<Statement>, data: Value) -> Report {
        Report {
            name: event.to_owned(),
            attempt: self.attempt,
            has_provider_call_id: true,
            names_appointment: self.script.appointment_id.is_some() && event == "post_call_transcription",
            statements,
            emitted_at: self.emitted_at,
            query: String::new(),
            body: json!({"type": event, "event_timestamp": self.reported_at(), "data": data}).to_string().into_bytes(),
        }
    }
}
