//! Ground truth of the external calls, which others place: the true ending of each, and the webhooks that its provider
//! posts.
//!
//! **This module uses none of the code under test**, so a bug there cannot distort the truth.

use fastrand::Rng;
use serde_json::{Value, json};

/// Generator of ground truth of `switchhook demo`, for Retell, Twilio and a generic sender.
#[path = "../../cli/src/demo/script/mod.rs"]
#[expect(dead_code, reason = "only the demo uses the rest")]
mod script;

use script::{Ending, Fact, GroundTruth, Provider, SECOND, Scenario, Script};
pub(crate) use script::{MINUTE, Millis, START};

/// True end of an attempt, in the words that the API uses for lifecycle and outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) lifecycle: &'static str,
    pub(crate) outcome: &'static str,
}

/// A call that Switchhook did not place. Switchhook learns of it only from webhooks.
#[derive(Clone, Debug)]
pub(crate) struct ExternalCall {
    pub(crate) provider: &'static str,
    pub(crate) call_id: String,
    /// True end of each attempt.
    pub(crate) attempts: Vec<Truth>,
    pub(crate) webhooks: Vec<Webhook>,
}

/// A webhook that the provider posts about an external call.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(crate) at: Millis,
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
    /// True if the webhook carries call events, so that the consumer folds it.
    pub(crate) is_folded: bool,
    /// Lifecycle endings that the webhook reports.
    pub(crate) endings: Vec<&'static str>,
    /// True if the webhook contradicts an ending that the provider reported before. It is posted only under the fault
    /// [`FaultKind::TwoEndings`](crate::plan::FaultKind).
    pub(crate) is_contradiction: bool,
}

impl ExternalCall {
    pub(crate) fn draw(index: usize, rng: &mut Rng) -> Self {
        let provider = match rng.u8(..6) {
            0 => return Self::draw_telnyx(index, rng),
            1 => return Self::draw_vapi(index, rng),
            2 => Provider::Twilio,
            3 => Provider::Generic,
            _ => Provider::Retell,
        };
        let script = Script::draw(index, &[provider], rng);
        let mut webhooks: Vec<Webhook> = script.reports.iter().map(|report| Webhook::of(report, false)).collect();
        let false_report = script.false_reports(rng).into_iter().find(script::Report::states_ending);
        webhooks.extend(
            false_report.map(|false_report| Webhook {
                at: false_report.emitted_at + SECOND,
                ..Webhook::of(&false_report, true)
            }),
        );
        Self {
            provider: provider.name(),
            call_id: script.call_id.clone(),
            attempts: script.attempts.iter().map(|attempt| truth(&attempt.truth, provider.name())).collect(),
            webhooks,
        }
    }

    /// Draws a call of Telnyx, which reports the start, the answer, an answering machine, and the cause of the end.
    /// Telnyx never reports ringing.
    fn draw_telnyx(index: usize, rng: &mut Rng) -> Self {
        let story = draw_story(
            &[Scenario::Talked, Scenario::Voicemail, Scenario::NoAnswer, Scenario::Busy, Scenario::Canceled],
            rng,
        );
        let id = format!("v3:sim-{index}");
        let event = |name: &str, at: Millis, more: Value| {
            let mut payload = json!({
                "call_control_id": id, "from": "+442079460018", "to": "+447700900000", "direction": "outgoing",
                "start_time": rfc3339(story.placed_at),
            });
            merge(&mut payload, more);
            json!({"data": {
                "record_type": "event", "event_type": name, "id": format!("{index}-{name}"), "occurred_at": rfc3339(at),
                "payload": payload,
            }})
        };
        let cause = match story.ending {
            Ending::Completed => "normal_clearing",
            Ending::NoAnswer => "timeout",
            Ending::Busy => "user_busy",
            Ending::Failed => "not_found",
            Ending::Canceled => "originator_cancel",
        };
        let mut bodies = vec![(story.placed_at, event("call.initiated", story.placed_at, json!({})))];
        bodies.extend(story.answered_at.map(|at| (at, event("call.answered", at, json!({})))));
        if let Some((Fact::Voicemail, at)) = story.outcome_fact {
            bodies.push((at, event("call.machine.detection.ended", at, json!({"result": "machine"}))));
        }
        let end = json!({"hangup_cause": cause, "end_time": rfc3339(story.ended_at)});
        bodies.push((story.ended_at, event("call.hangup", story.ended_at, end)));
        Self::from_bodies("telnyx", format!("telnyx:{id}"), &story, bodies)
    }

    /// Draws a call of Vapi, which reports each status, and at the end the result of the conversation.
    fn draw_vapi(index: usize, rng: &mut Rng) -> Self {
        let scenarios = [
            Scenario::Confirmed,
            Scenario::Declined,
            Scenario::Talked,
            Scenario::Voicemail,
            Scenario::NoAnswer,
            Scenario::Busy,
        ];
        let story = draw_story(&scenarios, rng);
        let id = format!("sim-{index}");
        let message = |name: &str, at: Millis, more: Value| {
            let mut message = json!({
                "type": name, "timestamp": at, "customer": {"number": "+447700900000"},
                "call": {"id": id, "type": "outboundPhoneCall"},
            });
            merge(&mut message, more);
            json!({"message": message})
        };
        let status = |status: &str, at| (at, message("status-update", at, json!({"status": status})));
        let (reason, outcome) = match story.scenario {
            Scenario::Confirmed => ("customer-ended-call", json!({"outcome": "confirmed"})),
            Scenario::Declined => ("customer-ended-call", json!({"outcome": "declined"})),
            Scenario::Voicemail => ("voicemail", json!({})),
            Scenario::NoAnswer => ("customer-did-not-answer", json!({})),
            Scenario::Busy => ("customer-busy", json!({})),
            Scenario::Talked | Scenario::Failed | Scenario::Canceled | Scenario::CutOff => {
                ("customer-ended-call", json!({}))
            }
        };
        let mut bodies: Vec<(Millis, Value)> = story.rang_at.into_iter().map(|at| status("ringing", at)).collect();
        bodies.extend(story.answered_at.map(|at| status("in-progress", at)));
        let end = json!({
            "endedReason": reason, "analysis": {"structuredData": outcome},
            "startedAt": rfc3339(story.answered_at.unwrap_or(story.ended_at)), "endedAt": rfc3339(story.ended_at),
        });
        bodies.push((story.ended_at, message("end-of-call-report", story.ended_at, end)));
        Self::from_bodies("vapi", format!("vapi:{id}"), &story, bodies)
    }

    fn from_bodies(provider: &'static str, call_id: String, story: &GroundTruth, bodies: Vec<(Millis, Value)>) -> Self {
        let last = bodies.len() - 1;
        let webhooks = bodies.into_iter().enumerate().map(|(place, (at, body))| Webhook {
            name: body.pointer("/data/event_type").or(body.pointer("/message/type")).map(Value::to_string).unwrap(),
            at: at + 100,
            query: String::new(),
            body: body.to_string().into_bytes(),
            is_folded: true,
            endings: if place == last { vec![story.ending.status()] } else { Vec::new() },
            is_contradiction: false,
        });
        Self { provider, call_id, attempts: vec![truth(story, provider)], webhooks: webhooks.collect() }
    }
}

impl Webhook {
    fn of(report: &script::Report, is_contradiction: bool) -> Self {
        let endings = report.statements.iter().filter_map(|statement| statement.fact.ending()).map(Ending::status);
        Self {
            name: report.name.clone(),
            at: report.emitted_at,
            query: report.query.clone(),
            body: report.body.clone(),
            is_folded: report.is_folded(),
            endings: endings.collect(),
            is_contradiction,
        }
    }
}

fn draw_story(scenarios: &[Scenario], rng: &mut Rng) -> GroundTruth {
    let scenario = *rng.choice(scenarios).unwrap();
    GroundTruth::draw(scenario, START + rng.i64(0..30 * MINUTE), rng)
}

fn truth(story: &GroundTruth, provider: &str) -> Truth {
    let outcome = match (story.outcome_fact, story.answered_at) {
        (Some((Fact::Confirmed, _)), _) => "confirmed",
        (Some((Fact::Declined, _)), _) => "declined",
        (Some((Fact::Voicemail, _)), _) => "voicemail",
        // The call was answered. These providers never report what the person said.
        (_, Some(_)) if ["twilio", "telnyx"].contains(&provider) => "connected",
        // No webhook reports what the person said.
        (_, Some(_)) => "inconclusive",
        (_, None) => "no_answer",
    };
    Truth { lifecycle: story.ending.status(), outcome }
}

pub(crate) fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

pub(crate) fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
