//! The evidence about a call that Switchhook placed, taken from the fake provider's record of dials, webhooks and
//! lookups.
//!
//! **The record decides which evidence there is.** Between the fake provider and the stack nothing is lost: a webhook
//! that was sent was received at that moment, and so was every response. An ending can become known in two ways: by a
//! webhook, or by a lookup because the webhook was never sent. The record shows which way it was.

use crate::demo::json::text;
use crate::demo::observation::{PhoneRing, PlacedCall, RequestResult};
use crate::demo::oracle::evidence::{CheckedCall, Evidence, Placement, ReceivedReport, Retry};
use crate::demo::placed_script::{ApiAction, DialScenario, PlacedScript, PolicyDecision, RETRY_DELAY, RETRY_DELAY_MAX};
use crate::demo::script::{Ending, Fact, Millis, Provider, Report, Statement};

/// Evidence about one call, together with its script and its observations.
#[derive(Debug)]
pub(super) struct ProviderRecord<'a> {
    script: &'a PlacedScript,
    observed: &'a PlacedCall,
    /// All kinds of [`ReportKind::ALL`] for the first attempt, then for the second, and so on.
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
    /// `scenarios` holds one scenario for each attempt that took place. `decision` is the last decision of the retry
    /// policy, or `None` if the call was canceled.
    pub(super) fn new(
        script: &'a PlacedScript,
        observed: &'a PlacedCall,
        scenarios: &[DialScenario],
        decision: Option<PolicyDecision>,
    ) -> Self {
        let reports = scenarios.iter().zip(1..).flat_map(|(scenario, number)| {
            let ring = observed.phone_ring(number);
            ReportKind::ALL.map(|kind| report(*scenario, number, kind, ring))
        });
        let canceled = observed.api_responses.iter().find(|response| response.request.action == ApiAction::Cancel);
        let dialled_at = |number| observed.dialled_at(number).unwrap_or(Millis::MAX);
        let placement = Placement {
            dialled_at: (1..=scenarios.len()).map(dialled_at).collect(),
            retries: (1..scenarios.len()).map(|number| retry_after(observed, number)).collect(),
            fails: decision == Some(PolicyDecision::Fail),
            canceled_at: canceled.map(|response| response.request.at),
        };
        Self { script, observed, reports: reports.collect(), placement }
    }

    pub(super) fn checked_call(&self) -> CheckedCall<'_> {
        let numbers = 1..=self.placement.dialled_at.len();
        let rings = numbers.map(|number| self.observed.phone_ring(number));
        CheckedCall {
            call_id: &self.observed.call_id,
            provider: Provider::Retell,
            appointment_id: self.script.appointment_id.as_deref(),
            provider_call_ids: rings.map(|ring| ring.map(|ring| ring.provider_call_id.as_str())).collect(),
            reports: &self.reports,
            placement: Some(self.placement.clone()),
        }
    }

    /// Returns all evidence in the order of time.
    pub(super) fn evidence(&self, scenarios: &[DialScenario]) -> Vec<Evidence> {
        let mut evidence: Vec<Evidence> = Vec::new();
        for (scenario, number) in scenarios.iter().zip(1..) {
            let received = |kind, at| self.received_report(*scenario, number, kind, at);
            for response in self.observed.responses_about(number) {
                let at = response.at;
                match response.result {
                    RequestResult::Accepted if *scenario == DialScenario::ResponseLost => {}
                    RequestResult::Accepted | RequestResult::Rejected => {
                        evidence.push(Evidence::Received(received(ReportKind::DialResponse, at)));
                    }
                    RequestResult::RateLimited | RequestResult::Refused | RequestResult::Unavailable => {}
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

    fn received_report(&self, scenario: DialScenario, number: usize, kind: ReportKind, at: Millis) -> ReceivedReport {
        let place = ReportKind::ALL.iter().position(|other| *other == kind).unwrap_or_default();
        let provider_call_id = self.observed.phone_ring(number).map_or("", |ring| ring.provider_call_id.as_str());
        let event_id = match kind {
            ReportKind::DialResponse => {
                let result = if scenario == DialScenario::Invalid { "dial_refused" } else { "dial_accepted" };
                format!("switchhook:{}/{number}/{result}", self.observed.call_id)
            }
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

/// Retry after the attempt with this number.
fn retry_after(observed: &PlacedCall, number: usize) -> Retry {
    let delay_max = (1..number).fold(RETRY_DELAY, |delay, _| (delay * 2).min(RETRY_DELAY_MAX));
    let first_dial = observed.dial_responses(number + 1).map(|response| response.at).next();
    Retry { delay_max, dialled_at: first_dial.unwrap_or(Millis::MAX) }
}

fn report(scenario: DialScenario, number: usize, kind: ReportKind, ring: Option<&PhoneRing>) -> Report {
    let statements = match (kind, ring) {
        (ReportKind::DialResponse, _) if scenario == DialScenario::Invalid => {
            vec![Statement { fact: Fact::Ended(Ending::Failed), at: None }]
        }
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
            statements.extend(outcome.map(|fact| Statement { fact, at: Some(ring.ended_at) }));
            statements
        }
    };
    Report {
        name: format!("{kind:?}"),
        attempt: number - 1,
        has_provider_call_id: true,
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
            vec![Statement { fact: Fact::Ringing, at: Some(ring.ended_at) }]
        }
        (None, _) => Vec::new(),
    }
}

/// Statements of a report that is made after the end of the attempt.
fn ended_statements(scenario: DialScenario, ring: &PhoneRing) -> Vec<Statement> {
    let at = Some(ring.ended_at);
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
