//! Webhooks of Twilio, and of SignalWire, which has the same.
//!
//! - A numbered callback for each status that the team asked for. Its time is rounded down to a second.
//! - If the team uses asynchronous answering-machine detection: one callback with its result, without a time.
//! - For an inbound call: the request for instructions.

use fastrand::Rng;
use form_urlencoded::Serializer;
use serde_json::{Map, Value};

use super::{
    Ending, Fact, GroundTruth, Millis, Provider, Report, SECOND, Scenario, Script, Statement, echoing_query,
    reporting_delay,
};

/// The team's settings at Twilio.
struct CallbackSettings {
    /// True if Twilio posts a callback for every status, false if only for the last.
    all_statuses: bool,
    detection: MachineDetection,
    as_json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MachineDetection {
    None,
    /// The last status callback carries the result.
    Sync,
    /// A separate callback carries the result.
    Async,
}

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(provider: Provider, script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let settings = CallbackSettings {
        all_statuses: rng.u8(..5) > 0,
        detection: if rng.bool() { MachineDetection::Sync } else { MachineDetection::Async },
        as_json: rng.u8(..8) == 0 && provider == Provider::Twilio,
    };
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let provider_call_id = attempt.provider_call_id.as_deref();
        let builder = ReportBuilder { provider, script, attempt: *index, provider_call_id };
        if script.inbound {
            reports.extend(builder.inbound(&attempt.truth, rng));
        } else {
            reports.extend(builder.outbound(&attempt.truth, &settings, rng));
        }
    }
    reports
}

/// Builds the reports of one attempt.
struct ReportBuilder<'a> {
    provider: Provider,
    script: &'a Script,
    attempt: usize,
    provider_call_id: Option<&'a str>,
}

impl ReportBuilder<'_> {
    fn outbound(&self, truth: &GroundTruth, settings: &CallbackSettings, rng: &mut Rng) -> Vec<Report> {
        let statuses = [
            Some(("initiated", truth.placed_at, vec![Fact::Initiated])),
            truth.rang_at.map(|at| ("ringing", at, vec![Fact::Ringing])),
            truth.answered_at.map(|at| ("in-progress", at, vec![Fact::Ringing, Fact::Answered])),
        ];
        let mut reports = Vec::new();
        let mut sequence = 0;
        for (status, at, facts) in statuses.into_iter().flatten() {
            if settings.all_statuses {
                reports.push(self.status(status, sequence, at, &facts, &[], settings, rng));
                sequence += 1;
            }
        }
        let detection = if truth.scenario == Scenario::Voicemail || rng.u8(..3) == 0 {
            settings.detection
        } else {
            MachineDetection::None
        };
        let machine = truth.scenario == Scenario::Voicemail;
        let answered_by = if machine { "machine_end_beep" } else { "human" };
        let mut facts = ending_facts(truth.ending);
        let mut more = vec![("CallDuration", ((truth.ended_at - truth.placed_at) / SECOND).to_string())];
        if truth.answered_at.is_some() && detection == MachineDetection::Sync {
            more.push(("AnsweredBy", answered_by.to_owned()));
            facts.extend(machine.then_some(Fact::Voicemail));
        }
        if let (Some(at), MachineDetection::Async) = (truth.answered_at, detection) {
            let facts = [Fact::Ringing, Fact::Answered].into_iter().chain(machine.then_some(Fact::Voicemail));
            let statements = facts.map(|fact| Statement { fact, at: None }).collect();
            let fields = [("AnsweredBy", answered_by), ("MachineDetectionDuration", "2910")];
            let emitted_at = self.provider.to_system_time(at) + rng.i64(3 * SECOND..4 * SECOND);
            reports.push(self.report(&format!("amd {answered_by}"), emitted_at, statements, &fields, false));
        }
        reports.push(self.status(status_word(truth.ending), sequence, truth.ended_at, &facts, &more, settings, rng));
        if truth.answered_at.is_some() && rng.u8(..8) == 0 {
            let fields = [("RecordingSid", "RE00000000000000000000000000000001"), ("RecordingStatus", "completed")];
            let emitted_at = self.provider.to_system_time(truth.ended_at) + 3 * SECOND;
            reports.push(self.report("recording", emitted_at, Vec::new(), &fields, false));
        }
        reports
    }

    fn inbound(&self, truth: &GroundTruth, rng: &mut Rng) -> Vec<Report> {
        let rang_at = truth.rang_at.unwrap_or(truth.placed_at);
        let asked_at = self.provider.to_system_time(rang_at) + reporting_delay(rng);
        let statements = vec![Statement { fact: Fact::Ringing, at: None }];
        let request = [("CallStatus", "ringing"), ("Direction", "inbound")];
        let settings = CallbackSettings { all_statuses: false, detection: MachineDetection::None, as_json: false };
        let facts = ending_facts(truth.ending);
        vec![
            self.report("ringing", asked_at, statements, &request, false),
            self.status(status_word(truth.ending), 0, truth.ended_at, &facts, &[], &settings, rng),
        ]
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a callback")]
    fn status(
        &self,
        status: &str,
        sequence: u32,
        at: Millis,
        facts: &[Fact],
        more: &[(&str, String)],
        settings: &CallbackSettings,
        rng: &mut Rng,
    ) -> Report {
        let to_the_second = at - at.rem_euclid(SECOND);
        let statements = facts.iter().map(|fact| Statement { fact: *fact, at: Some(to_the_second) }).collect();
        let (sequence, timestamp) = (sequence.to_string(), rfc2822(at));
        let mut fields = vec![
            ("CallStatus", status),
            ("Direction", if self.script.inbound { "inbound" } else { "outbound-api" }),
            ("Timestamp", &timestamp),
            ("CallbackSource", "call-progress-events"),
            ("SequenceNumber", &sequence),
        ];
        fields.extend(more.iter().map(|(name, value)| (*name, value.as_str())));
        self.report(
            status,
            self.provider.to_system_time(at) + reporting_delay(rng),
            statements,
            &fields,
            settings.as_json,
        )
    }

    fn report(
        &self,
        name: &str,
        emitted_at: Millis,
        statements: Vec<Statement>,
        fields: &[(&str, &str)],
        as_json: bool,
    ) -> Report {
        let common = [
            ("AccountSid", "AC00000000000000000000000000000001"),
            ("ApiVersion", "2010-04-01"),
            ("CallSid", self.provider_call_id.unwrap_or_default()),
            ("From", if self.script.inbound { "+447700900000" } else { "+442079460018" }),
            ("To", if self.script.inbound { "+442079460018" } else { "+447700900000" }),
        ];
        let all = common.iter().chain(fields);
        let body = if as_json {
            let fields: Map<String, Value> =
                all.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
            Value::Object(fields).to_string()
        } else {
            Serializer::new(String::new()).extend_pairs(all).finish()
        };
        Report {
            name: name.to_owned(),
            attempt: self.attempt,
            has_provider_call_id: true,
            names_appointment: self.script.appointment_id.is_some(),
            statements,
            emitted_at,
            query: echoing_query(self.script, self.attempt),
            body: body.into_bytes(),
        }
    }
}

/// Facts that the last status callback states.
fn ending_facts(ending: Ending) -> Vec<Fact> {
    let mut facts = match ending {
        Ending::Completed => vec![Fact::Ringing, Fact::Answered],
        Ending::NoAnswer | Ending::Busy => vec![Fact::Ringing],
        Ending::Failed | Ending::Canceled => Vec::new(),
    };
    facts.push(Fact::Ended(ending));
    facts
}

const fn status_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::NoAnswer => "no-answer",
        Ending::Busy => "busy",
        Ending::Failed => "failed",
        Ending::Canceled => "canceled",
    }
}

/// Formats a time as Twilio does, such as `Sat, 07 May 2022 14:30:10 +0000`.
fn rfc2822(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at)
        .map(|time| time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
        .unwrap_or_default()
}
