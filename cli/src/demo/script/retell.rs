//! What Retell posts: `call_started` of a call that was answered, `call_ended` and `call_analyzed` of every call, and each
//! of them tells the whole call as far as it has gone.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{Ending, Fact, Fields, Keyed, MINUTE, Millis, Plot, Report, SECOND, Said, Script, Story, object, soon};

pub(super) fn reports(script: &Script, rng: &mut Rng) -> Vec<Report> {
    let mut reports = Vec::new();
    for attempt in 0..script.attempts.len() {
        attempt_reports(script, attempt, rng, &mut reports);
    }
    reports
}

fn attempt_reports(script: &Script, number: usize, rng: &mut Rng, reports: &mut Vec<Report>) {
    let Some(attempt) = script.attempts.get(number) else { return };
    let story = &attempt.story;
    let talk = script.our_time(story.answered_at.unwrap_or(story.ended_at));
    let ended = script.our_time(story.ended_at);
    // Of a call that never connected Retell does not always say when it ended.
    let ended_at = (story.answered_at.is_some() || rng.bool()).then_some(story.ended_at);
    let told = Told { script, attempt: number, reason: reason(story, rng), ended_at };

    if story.answered_at.is_some() {
        reports.push(told.report(
            "call_started",
            talk + soon(rng),
            told.path(),
            vec![("call_status", "ongoing".into())],
        ));
        if rng.u8(..8) == 0 {
            let transcript =
                vec![("call_status", "ongoing".into()), ("transcript", "Agent: Hello, this is the clinic.".into())];
            reports.push(told.report("transcript_updated", talk + 2 * SECOND, Vec::new(), transcript));
        }
    }
    let voicemail = || Said { fact: Fact::Voicemail, at: ended_at };
    let mut says = told.path();
    if story.plot == Plot::Voicemail {
        says.push(voicemail());
    }
    says.push(told.ending());
    reports.push(told.report("call_ended", ended + soon(rng), says.clone(), told.over()));

    let mut analyzed_at = ended + rng.i64(2 * SECOND..30 * SECOND);
    if story.answered_at.is_some() && rng.u8(..10) == 0 {
        // An analysis that had no opinion, and is run again.
        let with = told.analysis(json!({"call_summary": "Unclear.", "custom_analysis_data": {}}));
        reports.push(told.report("call_analyzed", analyzed_at, says.clone(), with));
        analyzed_at += rng.i64(MINUTE..4 * MINUTE);
    }
    let (word, data) = match story.plot {
        Plot::Confirmed => (Some(Fact::Confirmed), json!({"appointment_confirmed": true})),
        Plot::Declined => (Some(Fact::Declined), json!({"outcome": "declined"})),
        Plot::Voicemail | Plot::Talked | Plot::CutOff => (None, json!({})),
        // Of an empty transcript an analysis may hold anything; it says nothing.
        Plot::NoAnswer | Plot::Busy | Plot::Failed | Plot::Canceled => (None, json!({"appointment_confirmed": false})),
    };
    says.extend(word.map(|fact| Said { fact, at: ended_at }));
    let with = told.analysis(json!({
        "call_summary": story.plot.name(),
        "in_voicemail": story.plot == Plot::Voicemail,
        "custom_analysis_data": data,
    }));
    reports.push(told.report("call_analyzed", analyzed_at, says, with));
}

/// What every report of one attempt has in common.
struct Told<'a> {
    script: &'a Script,
    attempt: usize,
    reason: &'static str,
    ended_at: Option<Millis>,
}

impl Told<'_> {
    fn story(&self) -> Option<&Story> {
        self.script.attempts.get(self.attempt).map(|attempt| &attempt.story)
    }

    /// That it rang, and that it was answered, at the one time that Retell keeps of both.
    fn path(&self) -> Vec<Said> {
        let Some(story) = self.story() else { return Vec::new() };
        match (story.answered_at, story.ending) {
            (Some(at), _) => [Fact::Rang, Fact::Answered].map(|fact| Said { fact, at: Some(at) }).to_vec(),
            (None, Ending::NoAnswer | Ending::Busy) => vec![Said { fact: Fact::Rang, at: self.ended_at }],
            (None, Ending::Completed | Ending::Failed | Ending::Canceled) => Vec::new(),
        }
    }

    fn ending(&self) -> Said {
        Said { fact: Fact::Ended(self.story().map_or(Ending::Failed, |story| story.ending)), at: self.ended_at }
    }

    /// The fields of a call that is over.
    fn over(&self) -> Fields {
        let connected = self.story().is_some_and(|story| story.answered_at.is_some());
        let mut fields = vec![
            ("call_status", if connected { "ended" } else { "not_connected" }.into()),
            ("disconnection_reason", self.reason.into()),
        ];
        fields.extend(self.ended_at.map(|at| ("end_timestamp", at.into())));
        fields
    }

    fn analysis(&self, analysis: Value) -> Fields {
        let mut fields = self.over();
        fields.push(("call_analysis", analysis));
        fields
    }

    fn report(&self, event: &str, emitted_at: Millis, says: Vec<Said>, with: Fields) -> Report {
        let script = self.script;
        let vendor_call_id = script.attempts.get(self.attempt).and_then(|attempt| attempt.vendor_call_id.clone());
        let (us, them) = ("+442079460018", "+447700900000");
        let mut call = vec![
            ("call_id", vendor_call_id.into()),
            ("call_type", "phone_call".into()),
            ("agent_id", "agent_0f1e2d3c4b5a69788796a5b4c3".into()),
            ("direction", if script.inbound { "inbound" } else { "outbound" }.into()),
            ("from_number", if script.inbound { them } else { us }.into()),
            ("to_number", if script.inbound { us } else { them }.into()),
        ];
        call.extend(self.story().and_then(|story| story.answered_at).map(|at| ("start_timestamp", at.into())));
        let mut metadata = Fields::new();
        if script.keyed == Keyed::OurId {
            metadata.push(("switchhook_call_id", script.call_id.as_str().into()));
            metadata.push(("switchhook_attempt", (self.attempt + 1).into()));
        }
        metadata.extend(script.appointment_id.as_deref().map(|id| ("appointment_id", id.into())));
        if !metadata.is_empty() {
            call.push(("metadata", object(metadata)));
        }
        call.extend(with);
        Report {
            name: event.to_owned(),
            attempt: self.attempt,
            names_attempt: true,
            says,
            emitted_at,
            query: String::new(),
            body: json!({"event": event, "call": object(call)}).to_string().into_bytes(),
        }
    }
}

fn reason(story: &Story, rng: &mut Rng) -> &'static str {
    let of = |reasons: &[&'static str], rng: &mut Rng| rng.choice(reasons).copied().unwrap_or("error_unknown");
    match story.plot {
        Plot::Confirmed | Plot::Declined | Plot::Talked => of(&["user_hangup", "agent_hangup", "inactivity"], rng),
        Plot::Voicemail => "voicemail_reached",
        Plot::NoAnswer => "dial_no_answer",
        Plot::Busy => of(&["dial_busy", "user_declined"], rng),
        Plot::Failed => of(&["dial_failed", "invalid_destination", "sip_routing_error"], rng),
        Plot::Canceled => "manual_stopped",
        Plot::CutOff => of(&["error_llm_websocket_lost_connection", "error_asr", "error_retell"], rng),
    }
}
