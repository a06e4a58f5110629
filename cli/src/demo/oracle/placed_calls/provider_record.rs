//! The evidence about a call that Switchhook placed, taken from the fake provider's record of dials, webhooks and
//! lookups.
//!
//! **The record decides which evidence there is.** Between the fake provider and the stack nothing is lost: a webhook
//! that was sent was received at that moment, and so was every response. An ending can become known in two ways: by a
//! webhook, or by a lookup because the webhook was never sent. The record shows which way it was.

use crate::demo::json::text;
use crate::demo::observation::{PhoneRing, PlacedCall, ProviderResponse, RequestResult};
use crate::demo::oracle::evidence::{
    CheckedAttempt, CheckedCall, EndWithoutAttempt, Evidence, Placement, ReceivedReport, Retry,
};
use crate::demo::placed_script::{
    ApiAction, Course, DO_NOT_CALL, Decision, DialScenario, PlacedScript, REJECTED, RETRY_DELAY, RETRY_DELAY_MAX,
};
use crate::demo::script::{Ending, Fact, MINUTE, Millis, Provider, Report, SECOND, Statement};

/// Longest time from the moment when a call is due until a dialer takes it. While the provider is unavailable, and for
/// some time after, Switchhook holds calls back.
const DIALLED_WITHIN: Millis = 30 * MINUTE;

/// Evidence about one call, together with its script and its observations.
#[derive(Debug)]
pub(super) struct ProviderRecord<'a> {
    script: &'a PlacedScript,
    observed: &'a PlacedCall,
    /// All kinds of [`ReportKind::ALL`] for the first dial, then for the second, and so on.
    reports: Vec<Report>,
    placement: Placement,
}

/// The kinds of reports that an attempt can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportKind {
    /// The provider's response to the dial.
    DialResponse,
    Started,
    Ended,
    Analysed,
}

impl ReportKind {
    const ALL: [Self; 4] = [Self::DialResponse, Self::Started, Self::Ended, Self::Analysed];

    /// Kind of the webhook with this event name.
    fn of_webhook(event: &str) -> Option<Self> {
        match event {
            "call_started" => Some(Self::Started),
            "call_ended" => Some(Self::Ended),
            "call_analyzed" => Some(Self::Analysed),
            _ => None,
        }
    }
}

impl<'a> ProviderRecord<'a> {
    pub(super) fn new(script: &'a PlacedScript, observed: &'a PlacedCall, course: &Course) -> Self {
        let reports = course.dials.iter().zip(1..).flat_map(|(scenario, number)| {
            let ring = observed.phone_ring(number);
            ReportKind::ALL.map(|kind| report(*scenario, number, kind, ring))
        });
        let attempts: Vec<usize> = course.attempts().map(|(number, _)| number).collect();
        let retry = |number: usize| {
            let place = attempts.iter().position(|attempt| *attempt == number)?;
            (place + 1 < attempts.len() || number < course.dials.len()).then(|| retry_after(observed, number, place))
        };
        let last = attempts.last().map(|number| number - 1);
        let placement = Placement {
            retries: (1..=course.dials.len()).map(retry).collect(),
            fails_after: match course.decision {
                Decision::Fail(reason) => last.map(|index| (index, reason)),
                Decision::Complete | Decision::Retry | Decision::Cancel => None,
            },
            ended: if attempts.is_empty() { end_without_attempt(script, observed, course.decision) } else { None },
        };
        Self { script, observed, reports: reports.collect(), placement }
    }

    pub(super) fn checked_call(&self) -> CheckedCall<'_> {
        let attempt = |number| {
            let ring = self.observed.phone_ring(number);
            CheckedAttempt {
                provider: Provider::Retell,
                provider_call_id: ring.map(|ring| ring.provider_call_id.as_str()),
            }
        };
        CheckedCall {
            call_id: &self.observed.call_id,
            appointment_id: self.script.appointment_id.as_deref(),
            attempts: (1..=self.placement.retries.len()).map(attempt).collect(),
            reports: &self.reports,
            placement: Some(self.placement.clone()),
        }
    }

    /// Returns all evidence in the order of time.
    pub(super) fn evidence(&self, scenarios: &[DialScenario]) -> Vec<Evidence> {
        let mut evidence: Vec<Evidence> = Vec::new();
        for (scenario, number) in scenarios.iter().zip(1..) {
            let received = |kind, at| self.received_report(number, kind, at);
            for response in self.observed.responses_about(number) {
                let at = response.at;
                match response.result {
                    RequestResult::Accepted if *scenario == DialScenario::ResponseLost => {}
                    RequestResult::Accepted => {
                        evidence.push(Evidence::Received(received(ReportKind::DialResponse, at)));
                    }
                    RequestResult::RateLimited
                    | RequestResult::Refused
                    | RequestResult::Unavailable
                    | RequestResult::Rejected => {}
                    RequestResult::NotFound => evidence.push(Evidence::LookupNotFound { attempt: number - 1, at }),
                    // The answer that the call is in progress tells no more than the response to its dial.
                    RequestResult::InProgress => {
                        evidence.push(Evidence::LookupAnswered(received(ReportKind::DialResponse, at)));
                    }
                    RequestResult::Ended => evidence.push(Evidence::LookupAnswered(received(ReportKind::Ended, at))),
                    RequestResult::Analysed => {
                        evidence.push(Evidence::LookupAnswered(received(ReportKind::Analysed, at)))
                    }
                }
            }
            let Some(ring) = self.observed.phone_ring(number) else { continue };
            for webhook in &self.observed.sent_webhooks {
                if webhook.provider_call_id == ring.provider_call_id {
                    let kind = ReportKind::of_webhook(webhook.event);
                    evidence.extend(kind.map(|kind| Evidence::Received(received(kind, webhook.at))));
                }
            }
        }
        evidence.sort_by_key(Evidence::at);
        evidence
    }

    fn received_report(&self, number: usize, kind: ReportKind, at: Millis) -> ReceivedReport {
        let place = ReportKind::ALL.iter().position(|other| *other == kind).unwrap_or_default();
        let provider_call_id = self.observed.phone_ring(number).map_or("", |ring| ring.provider_call_id.as_str());
        let event_id = match kind {
            ReportKind::DialResponse => format!("switchhook:{}/{number}/dial_accepted", self.observed.call_id),
            ReportKind::Started => format!("retell:{provider_call_id}:call_started"),
            ReportKind::Ended => format!("retell:{provider_call_id}:call_ended"),
            ReportKind::Analysed => self.analysis_event_id(provider_call_id),
        };
        ReceivedReport { report: (number - 1) * ReportKind::ALL.len() + place, event_id, at }
    }

    /// Event id of the analysis of a call. It ends in a hash of the content, so it is read from the timeline. Each call
    /// is analysed once.
    fn analysis_event_id(&self, provider_call_id: &str) -> String {
        let prefix = format!("retell:{provider_call_id}:call_analyzed:");
        let ids = self.observed.observed.timeline.iter().map(|entry| text(entry, "event_id"));
        let id = ids.filter(|id| id.starts_with(&prefix)).find_map(|id| id.split('~').next());
        id.map_or(prefix, str::to_owned)
    }
}

/// Retry after the dial with this number. `place` is the index of its attempt.
fn retry_after(observed: &PlacedCall, number: usize, place: usize) -> Retry {
    let delay_max = (0..place).fold(RETRY_DELAY, |delay, _| (delay * 2).min(RETRY_DELAY_MAX));
    let first_dial = observed.dial_responses(number + 1).map(|response| response.at).next();
    Retry { delay_max, dialled_at: first_dial.unwrap_or(Millis::MAX) }
}

/// The end of a call without any attempt.
fn end_without_attempt(script: &PlacedScript, observed: &PlacedCall, decision: Decision) -> Option<EndWithoutAttempt> {
    let (between, status, appointment_status, reason) = match decision {
        Decision::Cancel => {
            let canceled = observed.api_responses.iter().find(|response| response.request.action == ApiAction::Cancel);
            let at = canceled.map(|response| response.request.at)?;
            ((at, at), "canceled", "canceled", "canceled_by_user")
        }
        Decision::Fail(DO_NOT_CALL) => {
            let due_at = script.due_at?;
            ((due_at, due_at + DIALLED_WITHIN), "exhausted", "blocked", DO_NOT_CALL)
        }
        Decision::Fail(REJECTED) => {
            let rejected = |response: &&ProviderResponse| response.result == RequestResult::Rejected;
            let at = observed.provider_responses.iter().find(rejected).map(|response| response.at)?;
            ((at, at + SECOND), "exhausted", "failed", REJECTED)
        }
        Decision::Fail(_) | Decision::Complete | Decision::Retry => return None,
    };
    Some(EndWithoutAttempt { between, status, appointment_status, reason })
}

fn report(scenario: DialScenario, number: usize, kind: ReportKind, ring: Option<&PhoneRing>) -> Report {
    let statements = match (kind, ring) {
        (ReportKind::DialResponse, _) => vec![Statement { fact: Fact::Initiated, at: None }],
        (_, None) => Vec::new(),
        (ReportKind::Started, Some(ring)) => answered_statements(scenario, ring),
        (ReportKind::Ended, Some(ring)) => ended_statements(scenario, ring),
        (ReportKind::Analysed, Some(ring)) => {
            let outcome = match scenario.result().outcome {
                "confirmed" => Some(Fact::Confirmed),
                "declined" => Some(Fact::Declined),
                _ => None,
            };
            let mut statements = ended_statements(scenario, ring);
            statements.extend(outcome.map(|fact| Statement { fact, at: ended_at(ring) }));
            statements
        }
    };
    Report {
        name: format!("{kind:?}"),
        attempt: number - 1,
        has_provider_call_id: true,
        names_appointment: true,
        statements,
        emitted_at: Millis::MIN,
        query: String::new(),
        body: Vec::new(),
    }
}

/// Statements that the phone rang and that the call was answered. Retell gives one time for both.
fn answered_statements(scenario: DialScenario, ring: &PhoneRing) -> Vec<Statement> {
    match (ring.answered_at, scenario) {
        (Some(at), _) => [Fact::Ringing, Fact::Answered].map(|fact| Statement { fact, at: Some(at) }).to_vec(),
        (None, DialScenario::Busy | DialScenario::NoAnswer) => {
            vec![Statement { fact: Fact::Ringing, at: None }]
        }
        (None, _) => Vec::new(),
    }
}

/// Time of the end, as Retell reports it: a call that nobody answered has none.
pub(super) fn ended_at(ring: &PhoneRing) -> Option<Millis> {
    ring.answered_at.map(|_| ring.ended_at)
}

/// Statements of a report that is made after the end of the attempt.
fn ended_statements(scenario: DialScenario, ring: &PhoneRing) -> Vec<Statement> {
    let at = ended_at(ring);
    let ending = match scenario {
        DialScenario::Busy => Ending::Busy,
        DialScenario::NoAnswer => Ending::NoAnswer,
        DialScenario::Fails | DialScenario::Invalid | DialScenario::Outage => Ending::Failed,
        DialScenario::Confirms
        | DialScenario::Declines
        | DialScenario::Voicemail
        | DialScenario::Forgotten
        | DialScenario::ResponseLost
        | DialScenario::Silent
        | DialScenario::RateLimited => Ending::Completed,
    };
    let mut statements = answered_statements(scenario, ring);
    if scenario == DialScenario::Voicemail {
        statements.push(Statement { fact: Fact::Voicemail, at });
    }
    statements.push(Statement { fact: Fact::Ended(ending), at });
    statements
}
