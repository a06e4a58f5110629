//! Webhooks of LiveKit: the phone joins a room when it is dialled, and leaves it after the call. Only then its attributes say whether
//! somebody answered. Their times are whole seconds.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{
    Ending, Fact, GroundTruth, Millis, Provider, Report, SECOND, Script, Statement, echoed_ids, reporting_delay,
};

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for index in attempts {
        let Some(attempt) = script.attempts.get(*index) else { continue };
        let builder = ReportBuilder { script, attempt: *index, truth: &attempt.truth };
        reports.push(builder.joined(rng));
        if rng.u8(..8) == 0 {
            reports.push(builder.build("track_published", attempt.truth.placed_at, "dialing", Vec::new(), rng));
        }
        reports.push(builder.left(rng));
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
    /// A caller is in the room when somebody answers, and a called person before that.
    fn joined(&self, rng: &mut Rng) -> Report {
        let (status, facts): (&str, &[Fact]) = if self.script.inbound {
            ("active", &[Fact::Ringing, Fact::Answered])
        } else {
            ("dialing", &[Fact::Initiated])
        };
        let at = to_the_second(self.joined_at());
        let statements = facts.iter().map(|fact| Statement { fact: *fact, at: Some(at) }).collect();
        self.build("participant_joined", self.joined_at(), status, statements, rng)
    }

    fn left(&self, rng: &mut Rng) -> Report {
        let truth = self.truth;
        let before: &[Fact] = match truth.ending {
            _ if truth.answered_at.is_some() => &[Fact::Ringing, Fact::Answered],
            Ending::NoAnswer | Ending::Busy => &[Fact::Ringing],
            Ending::Completed | Ending::Failed | Ending::Canceled => &[],
        };
        let (joined_at, ended_at) = (to_the_second(self.joined_at()), to_the_second(truth.ended_at));
        let mut statements: Vec<Statement> =
            before.iter().map(|fact| Statement { fact: *fact, at: Some(joined_at) }).collect();
        statements.push(Statement { fact: Fact::Ended(truth.ending), at: Some(ended_at) });
        let status = match (truth.answered_at, truth.rang_at) {
            (Some(_), _) if self.script.inbound => "active",
            (Some(_), _) => "hangup",
            (None, Some(_)) => "ringing",
            (None, None) => "dialing",
        };
        self.build("participant_left", truth.ended_at, status, statements, rng)
    }

    fn joined_at(&self) -> Millis {
        let answered_at = self.truth.answered_at.filter(|_| self.script.inbound);
        answered_at.unwrap_or(self.truth.placed_at)
    }

    fn build(&self, event: &str, at: Millis, status: &str, statements: Vec<Statement>, rng: &mut Rng) -> Report {
        let script = self.script;
        let id = script.attempts.get(self.attempt).and_then(|attempt| attempt.provider_call_id.as_deref());
        let mut attributes = Map::from_iter([
            ("sip.callID".to_owned(), json!(id)),
            ("sip.callStatus".to_owned(), status.into()),
            ("sip.phoneNumber".to_owned(), "+447700900000".into()),
            ("sip.trunkPhoneNumber".to_owned(), "+442079460018".into()),
        ]);
        if script.inbound {
            attributes.insert("sip.ruleID".to_owned(), "SDR_1".into());
        }
        // Every attribute is a text.
        let ids = echoed_ids(script, self.attempt).and_then(|ids| ids.as_object().cloned()).unwrap_or_default();
        for (name, id) in ids {
            attributes.insert(name, id.as_str().map_or_else(|| id.to_string(), str::to_owned).into());
        }
        let is_over = event == "participant_left";
        let mut participant = json!({
            "sid": "PA_1", "kind": "SIP", "state": if is_over { "DISCONNECTED" } else { "ACTIVE" },
            "joinedAt": to_the_second(self.joined_at()).div_euclid(SECOND).to_string(),
            "attributes": Value::Object(attributes),
        });
        if let Some(participant) = participant.as_object_mut().filter(|_| is_over) {
            participant.insert("disconnectReason".to_owned(), disconnect_reason(self.truth.ending).into());
        }
        let webhook = json!({
            "event": event,
            "id": format!("EV_{:024x}", rng.u128(..) >> 32),
            "createdAt": at.div_euclid(SECOND).to_string(),
            "room": {"sid": "RM_1", "name": "reminders"},
            "participant": participant,
        });
        Report {
            name: event.to_owned(),
            attempt: self.attempt,
            has_provider_call_id: true,
            names_appointment: script.appointment_id.is_some(),
            statements,
            emitted_at: Provider::LiveKit.to_system_time(at) + reporting_delay(rng),
            query: String::new(),
            body: webhook.to_string().into_bytes(),
        }
    }
}

const fn disconnect_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed | Ending::Canceled => "CLIENT_INITIATED",
        Ending::NoAnswer => "USER_UNAVAILABLE",
        Ending::Busy => "USER_REJECTED",
        Ending::Failed => "SIP_TRUNK_FAILURE",
    }
}

const fn to_the_second(at: Millis) -> Millis {
    at - at.rem_euclid(SECOND)
}
