//! What Twilio posts: a numbered callback for each status that the team asked for, to the second; perhaps one of its own
//! from answering-machine detection, which names no time; and for an inbound call the request for instructions.

use fastrand::Rng;
use form_urlencoded::Serializer;
use serde_json::{Map, Value};

use super::{Ending, Fact, Keyed, Millis, Plot, Report, SECOND, Said, Script, Story, soon};

/// How the team has set up its number.
struct Setup {
    /// Every status is reported, or only the last.
    all_statuses: bool,
    detection: Detection,
    as_json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detection {
    None,
    /// Told with the last callback.
    Sync,
    /// Told by a callback of its own.
    Async,
}

pub(super) fn reports(script: &Script, rng: &mut Rng) -> Vec<Report> {
    let setup = Setup {
        all_statuses: rng.u8(..5) > 0,
        detection: if rng.bool() { Detection::Sync } else { Detection::Async },
        as_json: rng.u8(..8) == 0,
    };
    let mut reports = Vec::new();
    for (number, attempt) in script.attempts.iter().enumerate() {
        let caller = Caller { script, attempt: number, vendor_call_id: attempt.vendor_call_id.as_deref() };
        if script.inbound {
            reports.extend(caller.inbound(&attempt.story, rng));
        } else {
            reports.extend(caller.outbound(&attempt.story, &setup, rng));
        }
    }
    reports
}

struct Caller<'a> {
    script: &'a Script,
    attempt: usize,
    vendor_call_id: Option<&'a str>,
}

impl Caller<'_> {
    fn outbound(&self, story: &Story, setup: &Setup, rng: &mut Rng) -> Vec<Report> {
        let statuses = [
            Some(("initiated", story.placed_at, vec![Fact::Begun])),
            story.rang_at.map(|at| ("ringing", at, vec![Fact::Rang])),
            story.answered_at.map(|at| ("in-progress", at, vec![Fact::Rang, Fact::Answered])),
        ];
        let mut reports = Vec::new();
        let mut sequence = 0;
        for (status, at, facts) in statuses.into_iter().flatten() {
            if setup.all_statuses {
                reports.push(self.status(status, sequence, at, &facts, &[], setup, rng));
                sequence += 1;
            }
        }
        let detection =
            if story.plot == Plot::Voicemail || rng.u8(..3) == 0 { setup.detection } else { Detection::None };
        let machine = story.plot == Plot::Voicemail;
        let answered_by = if machine { "machine_end_beep" } else { "human" };
        let mut facts = match story.ending {
            Ending::Completed => vec![Fact::Rang, Fact::Answered],
            Ending::NoAnswer | Ending::Busy => vec![Fact::Rang],
            Ending::Failed | Ending::Canceled => Vec::new(),
        };
        facts.push(Fact::Ended(story.ending));
        let mut more = vec![("CallDuration", ((story.ended_at - story.placed_at) / SECOND).to_string())];
        if story.answered_at.is_some() && detection == Detection::Sync {
            more.push(("AnsweredBy", answered_by.to_owned()));
            facts.extend(machine.then_some(Fact::Voicemail));
        }
        if let (Some(at), Detection::Async) = (story.answered_at, detection) {
            let facts = [Fact::Rang, Fact::Answered].into_iter().chain(machine.then_some(Fact::Voicemail));
            let says = facts.map(|fact| Said { fact, at: None }).collect();
            let fields = [("AnsweredBy", answered_by), ("MachineDetectionDuration", "2910")];
            let emitted_at = self.script.our_time(at) + rng.i64(3 * SECOND..4 * SECOND);
            reports.push(self.report(&format!("amd {answered_by}"), emitted_at, says, &fields, false));
        }
        let status = match story.ending {
            Ending::Completed => "completed",
            Ending::NoAnswer => "no-answer",
            Ending::Busy => "busy",
            Ending::Failed => "failed",
            Ending::Canceled => "canceled",
        };
        reports.push(self.status(status, sequence, story.ended_at, &facts, &more, setup, rng));
        if story.answered_at.is_some() && rng.u8(..8) == 0 {
            let fields = [("RecordingSid", "RE00000000000000000000000000000001"), ("RecordingStatus", "completed")];
            let emitted_at = self.script.our_time(story.ended_at) + 3 * SECOND;
            reports.push(self.report("recording", emitted_at, Vec::new(), &fields, false));
        }
        reports
    }

    fn inbound(&self, story: &Story, rng: &mut Rng) -> Vec<Report> {
        let rang_at = story.rang_at.unwrap_or(story.placed_at);
        let asked_at = self.script.our_time(rang_at) + soon(rng);
        let says = vec![Said { fact: Fact::Rang, at: None }];
        let request = [("CallStatus", "ringing"), ("Direction", "inbound")];
        let setup = Setup { all_statuses: false, detection: Detection::None, as_json: false };
        let facts = [Fact::Rang, Fact::Answered, Fact::Ended(story.ending)];
        vec![
            self.report("ringing", asked_at, says, &request, false),
            self.status("completed", 0, story.ended_at, &facts, &[], &setup, rng),
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
        setup: &Setup,
        rng: &mut Rng,
    ) -> Report {
        let to_the_second = at - at.rem_euclid(SECOND);
        let says = facts.iter().map(|fact| Said { fact: *fact, at: Some(to_the_second) }).collect();
        let (sequence, timestamp) = (sequence.to_string(), rfc2822(at));
        let mut fields = vec![
            ("CallStatus", status),
            ("Direction", if self.script.inbound { "inbound" } else { "outbound-api" }),
            ("Timestamp", &timestamp),
            ("CallbackSource", "call-progress-events"),
            ("SequenceNumber", &sequence),
        ];
        fields.extend(more.iter().map(|(name, value)| (*name, value.as_str())));
        self.report(status, self.script.our_time(at) + soon(rng), says, &fields, setup.as_json)
    }

    fn report(
        &self,
        name: &str,
        emitted_at: Millis,
        says: Vec<Said>,
        fields: &[(&str, &str)],
        as_json: bool,
    ) -> Report {
        let common = [
            ("AccountSid", "AC00000000000000000000000000000001"),
            ("ApiVersion", "2010-04-01"),
            ("CallSid", self.vendor_call_id.unwrap_or_default()),
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
            names_attempt: true,
            says,
            emitted_at,
            query: self.query(),
            body: body.into_bytes(),
        }
    }

    /// Twilio has no metadata: what is to be echoed stands in the callback's URL.
    fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        if self.script.keyed == Keyed::OurId {
            query.append_pair("switchhook_call_id", &self.script.call_id);
            query.append_pair("switchhook_attempt", &(self.attempt + 1).to_string());
        }
        if let Some(appointment_id) = &self.script.appointment_id {
            query.append_pair("appointment_id", appointment_id);
        }
        query.finish()
    }
}

/// For example `Sat, 07 May 2022 14:30:10 +0000`.
fn rfc2822(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at)
        .map(|time| time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string())
        .unwrap_or_default()
}
