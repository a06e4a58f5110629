//! A second sender of a placed call: a program of the team that takes part in the call, and reports it too. It is a generic sender, or it has
//! an account of its own at Vapi. It names the call and the attempt by the ids that Switchhook gave the provider. Some programs know what the
//! person decided, and nothing about attempts.
//!
//! **Its reports are true**, but it may report a part only, late or twice, and it has a clock of its own.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::fake::{Behaviour, Dial};
use switchhook_tests::text;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::calls::{Millis, Truth, merge, rfc3339};
use crate::law::Law;
use crate::plan::FaultKind;
use crate::requests::truth_of;
use crate::sim::{AcknowledgedReport, Sim, Told};

/// A report about an attempt, as the second sender posts it.
#[derive(Clone, Debug)]
struct Report {
    provider: Provider,
    /// Time of the fact. The report is posted then or later.
    at: Millis,
    body: Value,
    told: Vec<Told>,
    /// True if it does not name the attempt.
    is_of_call: bool,
}

/// The facts that a second sender reports about an attempt.
#[derive(Clone, Copy, Debug)]
enum Part {
    All,
    OutcomeOnly,
    AnswerOnly,
    EndingOnly,
    /// The decision of the person, without the attempt in which it was made.
    DecisionOfCall,
}

impl Sim {
    /// Lets a second sender report each dial from now on, if the plan has one.
    pub(crate) async fn report_dials(self: Rc<Self>) {
        if !self.plan.has_fault(FaultKind::SecondSender) {
            return;
        }
        let mut known = 0;
        loop {
            let dials = self.world.cloud.fake().dials();
            for dial in dials.iter().skip(std::mem::replace(&mut known, dials.len())) {
                // Nobody heard more of a call that its provider forgot.
                if dial.behaviour == Behaviour::Forgotten || !self.hit(FaultKind::SecondSender) {
                    continue;
                }
                for report in self.draw_reports(dial) {
                    spawn_local(self.clone().report(dial.provider_call_id.clone(), report));
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn draw_reports(&self, dial: &Dial) -> Vec<Report> {
        let part = [Part::All, Part::OutcomeOnly, Part::AnswerOnly, Part::EndingOnly, Part::DecisionOfCall];
        let part = part[usize::try_from(self.random(0..5)).unwrap()];
        // Vapi has no word for a call that fails for a reason that passes.
        let is_of_call = matches!(part, Part::DecisionOfCall);
        let may_be_at_vapi = !is_of_call && dial.provider != Provider::Vapi && dial.behaviour != Behaviour::Fails;
        if may_be_at_vapi && self.random(0..2) == 0 {
            self.reports_at_vapi(dial, part)
        } else {
            self.generic_reports(dial, part)
        }
    }

    fn generic_reports(&self, dial: &Dial, part: Part) -> Vec<Report> {
        let theirs = |at: Millis| at + self.clock_ahead_ms(Provider::Generic);
        let report = |kind: &str, at: Millis, told: &[Told]| Report {
            provider: Provider::Generic,
            at,
            body: json!({
                "event_id": format!("second-{}-{kind}", dial.provider_call_id), "type": kind, "call_id": dial.call_id,
                "occurred_at": rfc3339(theirs(at)), "meta": {"switchhook_attempt": dial.attempt},
            }),
            told: told.to_vec(),
            is_of_call: false,
        };
        let ending = report(&format!("call.{}", seen_end(dial).lifecycle), dial.ended_ms, &[]);
        let answer = dial.answered_ms.map(|at| report("call.in_progress", at, &[Told::Answer]));
        let outcome = outcome_of(dial).map(|(word, at)| {
            let kind = match word {
                "voicemail" => "voicemail.detected",
                "declined" => "user.declined",
                _ => "user.confirmed",
            };
            report(kind, at, &[Told::Answer, Told::Outcome(word)])
        });
        match part {
            Part::All => {
                let rang = dial.behaviour != Behaviour::Fails;
                let ringing = rang.then(|| report("call.ringing", dial.started_ms + 1_000, &[]));
                ringing.into_iter().chain(answer).chain(outcome).chain([ending]).collect()
            }
            Part::OutcomeOnly => outcome.into_iter().collect(),
            Part::AnswerOnly => answer.into_iter().collect(),
            Part::EndingOnly => vec![ending],
            Part::DecisionOfCall => {
                let of_call = outcome.filter(|outcome| !outcome.told.contains(&Told::Outcome("voicemail")));
                of_call.map(without_attempt).into_iter().collect()
            }
        }
    }

    fn reports_at_vapi(&self, dial: &Dial, part: Part) -> Vec<Report> {
        let theirs = |at: Millis| at + self.clock_ahead_ms(Provider::Vapi);
        let report = |kind: &str, at: Millis, more: Value, told: &[Told]| {
            let metadata = json!({"switchhook_call_id": dial.call_id, "switchhook_attempt": dial.attempt});
            let mut message = json!({
                "type": kind, "timestamp": theirs(at), "customer": {"number": "+447700900000"},
                "call": {
                    "id": format!("second-{}", dial.provider_call_id), "type": "outboundPhoneCall", "metadata": metadata,
                },
            });
            merge(&mut message, more);
            Report {
                provider: Provider::Vapi,
                at,
                body: json!({"message": message}),
                told: told.to_vec(),
                is_of_call: false,
            }
        };
        let status = |status: &str, at, told: &[Told]| report("status-update", at, json!({"status": status}), told);
        let answer = dial.answered_ms.map(|at| status("in-progress", at, &[Told::Answer]));
        let outcome = outcome_of(dial).map(|(word, _)| word);
        let (reason, data) = match (seen_end(dial).lifecycle, outcome) {
            ("busy", _) => ("customer-busy", json!({})),
            ("no_answer", _) => ("customer-did-not-answer", json!({})),
            (_, Some("voicemail")) => ("voicemail", json!({})),
            (_, word) => ("customer-ended-call", json!({"outcome": word})),
        };
        let more = json!({
            "endedReason": reason, "analysis": {"structuredData": data},
            "startedAt": rfc3339(theirs(dial.answered_ms.unwrap_or(dial.ended_ms))), "endedAt": rfc3339(theirs(dial.ended_ms)),
        });
        let told: Vec<Told> = outcome.into_iter().flat_map(|word| [Told::Answer, Told::Outcome(word)]).collect();
        let end = report("end-of-call-report", dial.ended_ms, more, &told);
        match part {
            Part::All => {
                let ringing = status("ringing", dial.started_ms + 1_000, &[]);
                [ringing].into_iter().chain(answer).chain([end]).collect()
            }
            Part::AnswerOnly => answer.into_iter().collect(),
            Part::OutcomeOnly | Part::EndingOnly | Part::DecisionOfCall => vec![end],
        }
    }

    /// Posts a report when its fact has happened, or late, once or twice.
    async fn report(self: Rc<Self>, provider_call_id: String, report: Report) {
        self.sleep_to(report.at).await;
        let late_s = if self.random(0..4) == 0 { self.random(60..900) } else { self.random(0..3) };
        sleep(Duration::from_secs(late_s)).await;
        let copies = if self.random(0..4) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            self.post_report(&provider_call_id, &report).await;
            sleep(Duration::from_secs(self.random(0..60))).await;
        }
    }

    /// Posts a report until it is acknowledged, or the sender gives up.
    async fn post_report(&self, provider_call_id: &str, report: &Report) {
        let body = report.body.to_string();
        let name = text(report.body.pointer("/type").or(report.body.pointer("/message/type")).unwrap_or(&Value::Null));
        for pause_s in [5, 10, 20, 40, 80, 160, 300, 300] {
            let request = self.signed(report.provider, self.key(), "", body.as_bytes());
            let (code, answer) = self.send(request).await;
            let (event_id, status) = (text(&answer["event_id"]), text(&answer["status"]));
            self.trace(&format!("{name} of a second sender about {provider_call_id} is answered {code} {status}"));
            if code.is_success() {
                self.acknowledge(None, event_id, &status).await;
                return self.told.borrow_mut().push(AcknowledgedReport {
                    provider_call_id: provider_call_id.to_owned(),
                    told: report.told.clone(),
                    is_of_call: report.is_of_call,
                    at: self.world.now().as_millis(),
                });
            }
            if !code.is_server_error() {
                return self
                    .state()
                    .report_violation(Law::Answered, format!("a second sender's {name}: {code} {answer}"));
            }
            sleep(Duration::from_secs(pause_s)).await;
        }
    }

    /// Time at which a second sender's first report of this fact about a dial was acknowledged. `None` if there was none.
    pub(crate) fn told_at(&self, dial: &Dial, fact: Told) -> Option<Millis> {
        let is_it = |it: &&AcknowledgedReport| it.provider_call_id == dial.provider_call_id && it.told.contains(&fact);
        self.told.borrow().iter().filter(is_it).map(|it| it.at).min()
    }

    /// Outcome of a dial that a second sender reported. `None` if no report that names the attempt was acknowledged.
    pub(crate) fn told_outcome(&self, dial: &Dial) -> Option<&'static str> {
        let (word, _) = outcome_of(dial)?;
        let of_dial = |it: &AcknowledgedReport| it.provider_call_id == dial.provider_call_id && !it.is_of_call;
        let is_told = self.told.borrow().iter().any(|it| of_dial(it) && it.told.contains(&Told::Outcome(word)));
        is_told.then_some(word)
    }

    /// True if a second sender reported what the person decided in one of these dials, and did not name the attempt.
    pub(crate) fn is_decision_of_call_told(&self, dials: &[Dial]) -> bool {
        let is_of = |it: &AcknowledgedReport| dials.iter().any(|dial| dial.provider_call_id == it.provider_call_id);
        self.told.borrow().iter().any(|it| it.is_of_call && is_of(it))
    }
}

/// Outcome of a dial that somebody or a machine answered, in the word of the API, and its time.
fn outcome_of(dial: &Dial) -> Option<(&'static str, Millis)> {
    let answered = dial.answered_ms?;
    let word = seen_end(dial).outcome;
    Some((word, if word == "voicemail" { answered + 2_000 } else { dial.ended_ms - 5_000 }))
}

/// The same report about the call, without the attempt.
fn without_attempt(mut report: Report) -> Report {
    if let Value::Object(body) = &mut report.body {
        body.remove("meta");
    }
    Report { is_of_call: true, ..report }
}

/// True end of a dial, as its second sender knows it: whatever the provider of the dial reports.
fn seen_end(dial: &Dial) -> Truth {
    truth_of(dial.behaviour, "generic")
}
