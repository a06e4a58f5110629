//! Tests of single rules of the oracle. Each gives the reports of one call, and the state and the domain events that
//! Switchhook must make of them. A changed, missing or additional domain event must be found.

use serde_json::{Value, json};

use super::evidence::ReceivedReport;
use super::scripted_calls;
use crate::demo::observation::ObservedCall;
use crate::demo::script::{
    Attempt, Correlation, Ending, Fact, GroundTruth, MINUTE, Millis, Provider, Report, SECOND, START, Scenario, Script,
    Statement,
};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

const ID: &str = "call-1";
const NO_ANSWER: Fact = Fact::Ended(Ending::NoAnswer);
const COMPLETED: Fact = Fact::Ended(Ending::Completed);
/// Seconds after which a silence has been detected.
const LATER: Millis = (INACTIVITY_TIMEOUT + 10 * MINUTE) / SECOND;

/// A report: index of its attempt, its facts, and the second at which it is made and arrives. The ids of the reports are
/// `e0`, `e1`, and so on.
type ShortReport<'a> = (usize, &'a [Fact], Millis);

/// A domain event: `{type} {attempt} {previous} {status}`, the source event id, the time, and the sequence of the
/// corrected event, or 0. The status may be left out. `-` stands for null.
type ShortEvent<'a> = (&'a str, &'a str, Millis, usize);

/// An attempt as the API shows it: index into the attempts, lifecycle, outcome, and time of its end.
type ShortAttempt<'a> = (usize, &'a str, &'a str, Millis);

struct Story<'a> {
    providers: &'a [Provider],
    reports: &'a [ShortReport<'a>],
    /// Index of the first report that carries the appointment id. `None` if none does.
    appointment_from: Option<usize>,
    inbound: bool,
    attempts: &'a [ShortAttempt<'a>],
    appointment: &'a str,
    job: &'a str,
    events: &'a [ShortEvent<'a>],
    /// Sequence of the first event that carries the appointment id.
    appointment_known_from: usize,
}

impl Story<'_> {
    fn provider(&self, attempt: usize) -> Provider {
        self.providers[attempt.min(self.providers.len() - 1)]
    }

    fn script(&self) -> Script {
        let attempts = self.reports.iter().map(|(attempt, ..)| attempt + 1).max().unwrap();
        let truth = GroundTruth {
            scenario: Scenario::Talked,
            placed_at: START,
            rang_at: None,
            answered_at: None,
            outcome_fact: None,
            ending: Ending::Failed,
            ended_at: START,
        };
        let attempt =
            |index| Attempt { provider: self.provider(index), provider_call_id: Some(format!("line-{index}")), truth };
        let report = |(place, (attempt, facts, seconds)): (usize, &ShortReport<'_>)| Report {
            name: format!("{facts:?}"),
            attempt: *attempt,
            has_provider_call_id: true,
            names_appointment: self.appointment_from.is_some_and(|from| place >= from),
            statements: facts.iter().map(|fact| Statement { fact: *fact, at: Some(at(*seconds)) }).collect(),
            emitted_at: at(*seconds),
            query: String::new(),
            body: Vec::new(),
        };
        Script {
            correlation: Correlation::Call,
            call_id: ID.to_owned(),
            appointment_id: self.appointment_from.map(|_| "appt-1".to_owned()),
            inbound: self.inbound,
            foreign_call_id: None,
            attempts: (0..attempts).map(attempt).collect(),
            // A report that never arrives keeps the script incomplete, so that its truth is not compared.
            reports: self
                .reports
                .iter()
                .enumerate()
                .map(report)
                .chain([report((0, &(0, &[Fact::Ringing], 0)))])
                .collect(),
            seed: 0,
        }
    }

    fn domain_events(&self) -> Vec<Value> {
        let event = |((head, source, at, corrects), sequence): (&ShortEvent<'_>, usize)| {
            let mut words = head.split(' ');
            let event_type = words.next().unwrap();
            let mut word = || words.next().filter(|word| *word != "-");
            let number = word().map(|number| number.parse::<usize>().unwrap());
            let previous = word();
            let status = word().or_else(|| event_type.split('.').next_back());
            let index = number.map(|number| self.attempts[number - 1].0);
            let mut event = json!({
                "schema_version": 1,
                "id": format!("{ID}/{sequence}"),
                "type": event_type,
                "call_id": ID,
                "sequence": sequence,
                "provider": index.map(|index| self.provider(index).name()),
                "provider_call_id": index.map(|index| format!("line-{index}")),
                "appointment_id": (sequence >= self.appointment_known_from).then_some("appt-1"),
                "attempt": number,
                "previous": previous,
                "status": status,
                "source_event_id": source,
                "occurred_at": rfc3339(*at),
            });
            if *corrects > 0 {
                event["corrects"] = json!(format!("{ID}/{corrects}"));
            }
            event
        };
        self.events.iter().zip(1..).map(event).collect()
    }

    fn observed(&self, domain_events: Vec<Value>) -> ObservedCall {
        let attempts = self.attempts.iter().zip(1..).map(|((index, lifecycle, outcome, ended_at), number)| {
            json!({
                "number": number,
                "provider": self.provider(*index).name(),
                "provider_call_id": format!("line-{index}"),
                "lifecycle": lifecycle,
                "outcome": outcome,
                "ended_at": rfc3339(*ended_at),
            })
        });
        let latest = self.attempts.last().unwrap();
        let timeline = (0..self.reports.len()).map(|place| json!({"event_id": format!("e{place}"), "kind": "x"}));
        ObservedCall {
            call: Some(json!({
                "call_id": ID,
                "provider": self.provider(latest.0).name(),
                "direction": if self.inbound { "inbound" } else { "outbound" },
                "appointment_id": self.appointment_from.map(|_| "appt-1"),
                "appointment_status": self.appointment,
                "job": {"state": self.job},
                "lifecycle": latest.1,
                "outcome": latest.2,
                "settled": true,
                "attempts": attempts.collect::<Vec<_>>(),
            })),
            timeline: timeline.collect(),
            published_at: vec![START; domain_events.len()],
            domain_events,
        }
    }

    fn mismatches(&self, observed: &ObservedCall) -> Vec<String> {
        let received: Vec<ReceivedReport> = (self.reports.iter().enumerate())
            .map(|(place, (_, _, seconds))| ReceivedReport {
                report: place,
                event_id: format!("e{place}"),
                at: at(*seconds),
            })
            .collect();
        scripted_calls::mismatches(&self.script(), &received, observed)
    }

    /// Expects that the story is right, and that it is wrong as soon as something is changed.
    #[track_caller]
    fn check(&self) {
        let events = self.domain_events();
        assert_eq!(self.mismatches(&self.observed(events.clone())), [""; 0]);
        for place in 0..events.len() {
            let mut fewer = events.clone();
            fewer.remove(place);
            assert_ne!(self.mismatches(&self.observed(fewer)), [""; 0], "without event {}", place + 1);
            for (field, wrong) in [
                ("provider", json!("else")),
                ("previous", json!("else")),
                ("status", json!("else")),
                ("appointment_id", json!("else")),
                ("corrects", json!("else")),
                ("reason", json!("else")),
            ] {
                let mut changed = events.clone();
                changed[place][field] = wrong;
                assert_ne!(self.mismatches(&self.observed(changed)), [""; 0], "{field} of event {}", place + 1);
            }
        }
        for (pointer, wrong) in [("/job/state", "else"), ("/appointment_status", "else"), ("/outcome", "else")] {
            let mut observed = self.observed(events.clone());
            *observed.call.as_mut().unwrap().pointer_mut(pointer).unwrap() = json!(wrong);
            assert_ne!(self.mismatches(&observed), [""; 0], "{pointer}");
        }
    }
}

fn at(seconds: Millis) -> Millis {
    START + seconds * SECOND
}

fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

/// Id of the event that detects the silence of an attempt since this second.
fn silence(attempt: usize, seconds: Millis) -> String {
    format!("switchhook:{ID}/line-{attempt}/deadline/{}", at(seconds))
}

const fn detected(seconds: Millis) -> Millis {
    START + seconds * SECOND + INACTIVITY_TIMEOUT
}

const CONFIRMED: &[ShortReport<'static>] =
    &[(0, &[Fact::Initiated], 0), (0, &[Fact::Ringing, Fact::Answered], 10), (0, &[Fact::Confirmed], 20)];

#[test]
fn person_who_confirmed_is_presumed_to_have_hung_up() {
    let events = [
        ("call.initiated 1 -", "e0", at(0), 0),
        ("appointment.dialing 1 -", "e0", at(0), 0),
        ("call.ringing 1 initiated", "e1", at(10), 0),
        ("call.in_progress 1 ringing", "e1", at(10), 0),
        ("appointment.connected 1 dialing", "e1", at(10), 0),
        ("appointment.confirmed 1 connected", "e2", at(20), 0),
        ("call.completed 1 in_progress", "e2", at(20), 0),
    ];
    let story = Story {
        providers: &[Provider::Generic],
        reports: CONFIRMED,
        appointment_from: Some(0),
        inbound: false,
        attempts: &[(0, "completed", "confirmed", at(20))],
        appointment: "Confirmed",
        job: "COMPLETED",
        events: &events,
        appointment_known_from: 1,
    };
    story.check();
    // The ending arrives after all. It changes the time of the end, and there is nothing new to announce.
    let reports = [CONFIRMED, &[(0, &[COMPLETED][..], LATER)]].concat();
    Story { reports: &reports, attempts: &[(0, "completed", "confirmed", at(LATER))], ..story }.check();
}

#[test]
fn answered_call_of_a_provider_that_reports_no_outcome_ends_connected() {
    let reports: &[ShortReport<'_>] =
        &[(0, &[Fact::Initiated], 0), (0, &[Fact::Ringing, Fact::Answered], 10), (0, &[COMPLETED], 30)];
    let story = Story {
        providers: &[Provider::Twilio],
        reports,
        appointment_from: Some(0),
        inbound: false,
        attempts: &[(0, "completed", "connected", at(30))],
        appointment: "Connected",
        job: "COMPLETED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("appointment.dialing 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e1", at(10), 0),
            ("call.in_progress 1 ringing", "e1", at(10), 0),
            ("appointment.connected 1 dialing", "e1", at(10), 0),
            ("call.completed 1 in_progress", "e2", at(30), 0),
        ],
        appointment_known_from: 1,
    };
    story.check();
    // Without an appointment, the outcome is announced when the ending makes it final.
    let without = Story {
        appointment_from: None,
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e1", at(10), 0),
            ("call.in_progress 1 ringing", "e1", at(10), 0),
            ("call.completed 1 in_progress", "e2", at(30), 0),
            ("call.outcome 1 - connected", "e2", at(30), 0),
        ],
        appointment_known_from: 99,
        ..story
    };
    without.check();
    // A detected machine replaces it.
    let reports = [reports, &[(0, &[Fact::Voicemail][..], 40)]].concat();
    let events = [without.events, &[("call.outcome 1 connected voicemail", "e3", at(40), 5)]].concat();
    Story {
        reports: &reports,
        events: &events,
        attempts: &[(0, "completed", "voicemail", at(30))],
        appointment: "Voicemail",
        ..without
    }
    .check();
}

#[test]
fn late_ending_settles_a_connected_appointment() {
    let silence = silence(0, 10);
    Story {
        providers: &[Provider::Twilio],
        reports: &[(0, &[Fact::Initiated], 0), (0, &[Fact::Ringing, Fact::Answered], 10), (0, &[COMPLETED], LATER)],
        appointment_from: Some(0),
        inbound: false,
        attempts: &[(0, "completed", "connected", at(LATER))],
        appointment: "Connected",
        job: "COMPLETED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("appointment.dialing 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e1", at(10), 0),
            ("call.in_progress 1 ringing", "e1", at(10), 0),
            ("appointment.connected 1 dialing", "e1", at(10), 0),
            ("call.inconclusive 1 in_progress", &silence, detected(10), 0),
            ("appointment.inconclusive 1 connected", &silence, detected(10), 0),
            ("call.completed 1 inconclusive", "e2", at(LATER), 6),
            ("call.corrected 1 inconclusive completed", "e2", at(LATER), 6),
            ("appointment.connected 1 inconclusive", "e2", at(LATER), 7),
        ],
        appointment_known_from: 1,
    }
    .check();
}

#[test]
fn appointment_is_told_when_it_becomes_known() {
    Story {
        providers: &[Provider::Generic],
        reports: &[
            (0, &[Fact::Initiated], 0),
            (0, &[Fact::Ringing, Fact::Answered], 10),
            (0, &[Fact::Ringing, Fact::Answered, Fact::Confirmed], 20),
            (0, &[COMPLETED], 30),
        ],
        appointment_from: Some(3),
        inbound: false,
        attempts: &[(0, "completed", "confirmed", at(30))],
        appointment: "Confirmed",
        job: "COMPLETED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e1", at(10), 0),
            ("call.in_progress 1 ringing", "e1", at(10), 0),
            ("call.outcome 1 - confirmed", "e2", at(20), 0),
            ("call.completed 1 in_progress", "e3", at(30), 0),
            ("appointment.dialing 1 -", "e0", at(0), 0),
            ("appointment.connected 1 dialing", "e1", at(10), 0),
            ("appointment.confirmed 1 connected", "e2", at(20), 0),
        ],
        appointment_known_from: 5,
    }
    .check();
}

#[test]
fn promised_retry_that_never_comes_is_inconclusive() {
    let missed = format!("switchhook:{ID}/retry_missed");
    let story = Story {
        providers: &[Provider::Generic],
        reports: &[(0, &[Fact::Ringing, NO_ANSWER], 0), (0, &[Fact::RetryPlanned], 10)],
        appointment_from: Some(0),
        inbound: false,
        attempts: &[(0, "no_answer", "no_answer", at(0))],
        appointment: "Inconclusive",
        job: "FAILED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e0", at(0), 0),
            ("call.no_answer 1 ringing", "e0", at(0), 0),
            ("appointment.dialing 1 -", "e0", at(0), 0),
            ("appointment.no_answer 1 dialing", "e0", at(0), 0),
            ("appointment.retrying 1 no_answer", "e1", at(10), 0),
            ("appointment.inconclusive - retrying", &missed, detected(10), 0),
        ],
        appointment_known_from: 1,
    };
    story.check();
    // The retry comes after all, and its attempt counts.
    let reports = [story.reports, &[(1, &[Fact::Ringing, NO_ANSWER][..], LATER)]].concat();
    let more = [
        ("call.initiated 2 -", "e2", at(LATER), 0),
        ("call.ringing 2 initiated", "e2", at(LATER), 0),
        ("call.no_answer 2 ringing", "e2", at(LATER), 0),
        ("appointment.dialing 2 inconclusive", "e2", at(LATER), 0),
        ("appointment.no_answer 2 dialing", "e2", at(LATER), 0),
    ];
    let events = [story.events, &more].concat();
    Story {
        reports: &reports,
        attempts: &[(0, "no_answer", "no_answer", at(0)), (1, "no_answer", "no_answer", at(LATER))],
        appointment: "NoAnswer",
        events: &events,
        ..story
    }
    .check();
}

#[test]
fn inbound_call_that_nobody_answered_is_missed() {
    let story = Story {
        providers: &[Provider::Twilio],
        reports: &[(0, &[Fact::Ringing], 0), (0, &[NO_ANSWER], 20)],
        appointment_from: None,
        inbound: true,
        attempts: &[(0, "no_answer", "no_answer", at(20))],
        appointment: "NoAnswer",
        job: "MISSED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("call.ringing 1 initiated", "e0", at(0), 0),
            ("call.no_answer 1 ringing", "e1", at(20), 0),
            ("call.outcome 1 - no_answer", "e1", at(20), 0),
        ],
        appointment_known_from: 99,
    };
    story.check();
    Story { inbound: false, job: "FAILED", ..story }.check();
}

#[test]
fn each_of_two_providers_has_its_own_attempt() {
    Story {
        providers: &[Provider::Twilio, Provider::Retell],
        reports: &[
            (0, &[Fact::Initiated], 0),
            (1, &[Fact::Ringing, Fact::Answered], 10),
            (0, &[Fact::Ringing, Fact::Answered, COMPLETED], 30),
            (1, &[Fact::Ringing, Fact::Answered, COMPLETED, Fact::Confirmed], 32),
        ],
        appointment_from: Some(0),
        inbound: false,
        attempts: &[(0, "completed", "connected", at(30)), (1, "completed", "confirmed", at(32))],
        appointment: "Confirmed",
        job: "COMPLETED",
        events: &[
            ("call.initiated 1 -", "e0", at(0), 0),
            ("appointment.dialing 1 -", "e0", at(0), 0),
            ("call.initiated 2 -", "e1", at(10), 0),
            ("call.ringing 2 initiated", "e1", at(10), 0),
            ("call.in_progress 2 ringing", "e1", at(10), 0),
            ("appointment.dialing 2 dialing", "e1", at(10), 0),
            ("appointment.connected 2 dialing", "e1", at(10), 0),
            ("call.ringing 1 initiated", "e2", at(30), 0),
            ("call.in_progress 1 ringing", "e2", at(30), 0),
            ("call.completed 1 in_progress", "e2", at(30), 0),
            ("call.completed 2 in_progress", "e3", at(32), 0),
            ("appointment.confirmed 2 connected", "e3", at(32), 0),
        ],
        appointment_known_from: 1,
    }
    .check();
}
