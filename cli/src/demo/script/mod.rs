//! Scripts of the calls that others place: what truly happens to each call, and every webhook that its provider makes
//! about it. The seed decides all of it.
//!
//! **The oracle compares everything with this truth.** Each report states its facts here in plain values. The code by
//! which Switchhook reads webhooks is not used.
//!
//! The simulator in `tests/sim` compiles this module too.

mod generic;
mod ground_truth;
mod retell;
mod twilio;

use fastrand::Rng;
use serde_json::Value;

pub(crate) use ground_truth::{Ending, GroundTruth, Scenario};

/// Milliseconds since the Unix epoch, or a duration in milliseconds.
pub(crate) type Millis = i64;

pub(crate) const SECOND: Millis = 1_000;
pub(crate) const MINUTE: Millis = 60 * SECOND;
pub(crate) const HOUR: Millis = 60 * MINUTE;

/// Start of the demo by the system's clock: 2025-10-20T12:00:00Z.
pub(crate) const START: Millis = 1_760_961_600_000;
/// Time after the start within which all first attempts are placed.
const PLACED_WITHIN: Millis = 30 * MINUTE;

/// The providers that have scripts. This is the demo's own list: it shares no type with Switchhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Retell,
    Twilio,
    Generic,
}

impl Provider {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Generic => "generic",
        }
    }

    /// Time by which the provider's clock is ahead of the system's clock. In reality no two clocks agree either.
    const fn clock_skew(self) -> Millis {
        match self {
            Self::Retell => 700,
            Self::Twilio => -1_300,
            Self::Generic => 0,
        }
    }
}

/// One thing that happened in an attempt, or that was decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Initiated,
    Ringing,
    Answered,
    Voicemail,
    Declined,
    Confirmed,
    Ended(Ending),
    /// The party that places these calls will try again.
    RetryPlanned,
}

impl Fact {
    /// The ending, if the fact is one.
    pub(crate) const fn ending(self) -> Option<Ending> {
        match self {
            Self::Ended(ending) => Some(ending),
            Self::Initiated
            | Self::Ringing
            | Self::Answered
            | Self::Voicemail
            | Self::Declined
            | Self::Confirmed
            | Self::RetryPlanned => None,
        }
    }
}

/// A fact as a report states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) fact: Fact,
    /// Time of the fact by the provider's clock. `None` if the report carries no time.
    pub(crate) at: Option<Millis>,
}

/// One message in which a provider reports about a call. In a script it is a webhook, which may be delivered several
/// times.
///
/// For calls that Switchhook places, the oracle also treats the provider's answers to dials and lookups as reports.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The provider's name for the event, such as `call_ended`.
    pub(crate) name: String,
    /// Index into [`Script::attempts`].
    pub(crate) attempt: usize,
    /// True if the report carries the provider's id of the attempt.
    pub(crate) has_provider_call_id: bool,
    /// Empty if the report does not concern the state of a call, such as a billing event.
    pub(crate) statements: Vec<Statement>,
    /// Time at which the provider makes the report, by the system's clock.
    pub(crate) emitted_at: Millis,
    /// Query of the URL to which the webhook is posted.
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
}

impl Report {
    /// True if Switchhook folds the report into the state of a call.
    pub(crate) fn is_folded(&self) -> bool {
        !self.statements.is_empty()
    }

    pub(crate) fn states(&self, fact: Fact) -> bool {
        self.statements.iter().any(|statement| statement.fact == fact)
    }

    pub(crate) fn states_ending(&self) -> bool {
        self.statements.iter().any(|statement| statement.fact.ending().is_some())
    }
}

/// The id by which Switchhook finds the call of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Correlation {
    /// Switchhook's call id, which the provider was given with the call and echoes.
    Call,
    /// The appointment id, which the provider echoes.
    Appointment,
    /// The provider's own call id, and nothing else.
    ProviderCall,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// `None` if the provider has no id for the attempt.
    pub(crate) provider_call_id: Option<String>,
    pub(crate) truth: GroundTruth,
}

/// One call: what truly happens in it, and every report about it.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) provider: Provider,
    pub(crate) correlation: Correlation,
    /// Id under which Switchhook has to show the call.
    pub(crate) call_id: String,
    pub(crate) appointment_id: Option<String>,
    pub(crate) inbound: bool,
    pub(crate) attempts: Vec<Attempt>,
    /// In the order in which the provider makes them.
    pub(crate) reports: Vec<Report>,
    /// Seed that decides the form of the reports.
    pub(crate) seed: u64,
}

impl Script {
    /// Draws the call of this index. Its provider is one of `providers`.
    pub(crate) fn draw(index: usize, providers: &[Provider], rng: &mut Rng) -> Self {
        let provider = rng.choice(providers).copied().unwrap_or(Provider::Generic);
        let inbound = provider != Provider::Generic && rng.u8(..10) == 0;
        let correlation = if inbound {
            Correlation::ProviderCall
        } else {
            match rng.u8(..10) {
                0..5 => Correlation::Appointment,
                5..7 => Correlation::Call,
                _ => Correlation::ProviderCall,
            }
        };
        let attempts = draw_attempts(provider, correlation, inbound, rng);
        let appointment_id = match correlation {
            Correlation::Appointment => Some(format!("appt_{index:04}")),
            Correlation::Call => rng.bool().then(|| format!("appt_{index:04}")),
            Correlation::ProviderCall => None,
        };
        let first = attempts.first().and_then(|attempt| attempt.provider_call_id.clone());
        let call_id = match correlation {
            Correlation::Appointment => format!("appointment:appt_{index:04}"),
            Correlation::Call => format!("call-{index:04}"),
            Correlation::ProviderCall => format!("{}:{}", provider.name(), first.unwrap_or_default()),
        };
        let seed = rng.u64(..);
        let mut script =
            Self { provider, correlation, call_id, appointment_id, inbound, attempts, reports: Vec::new(), seed };
        script.reports = script.make_reports();
        script
    }

    /// Returns reports of the same call with other endings than the true ones, such as a forger might post.
    pub(crate) fn false_reports(&self, rng: &mut Rng) -> Vec<Report> {
        let mut false_script = self.clone();
        for attempt in &mut false_script.attempts {
            let all = Scenario::weighted_for(self.provider).iter().copied();
            let other: Vec<Scenario> = all.filter(|scenario| *scenario != attempt.truth.scenario).collect();
            let scenario = rng.choice(&other).copied().unwrap_or(Scenario::NoAnswer);
            attempt.truth = GroundTruth::draw(scenario, attempt.truth.placed_at, rng);
        }
        false_script.make_reports()
    }

    fn make_reports(&self) -> Vec<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let mut reports = match self.provider {
            Provider::Retell => retell::reports(self, &mut rng),
            Provider::Twilio => twilio::reports(self, &mut rng),
            Provider::Generic => generic::reports(self, &mut rng),
        };
        reports.sort_by_key(|report| report.emitted_at);
        reports
    }

    /// Converts a time of the provider's clock into a time of the system's clock.
    fn to_system_time(&self, at: Millis) -> Millis {
        at - self.provider.clock_skew()
    }
}

fn draw_attempts(provider: Provider, correlation: Correlation, inbound: bool, rng: &mut Rng) -> Vec<Attempt> {
    let mut placed_at = START + provider.clock_skew() + rng.i64(0..PLACED_WITHIN);
    let has_id = provider != Provider::Generic || correlation == Correlation::ProviderCall || rng.u8(..5) > 0;
    let possible = Scenario::weighted_for(provider);
    let mut attempts = Vec::new();
    loop {
        let scenario = if inbound {
            let answered = [Scenario::Talked, Scenario::Talked, Scenario::Confirmed];
            rng.choice(answered).filter(|scenario| possible.contains(scenario))
        } else {
            rng.choice(possible).copied()
        };
        let truth = GroundTruth::draw(scenario.unwrap_or(Scenario::Talked), placed_at, rng);
        placed_at = truth.ended_at + rng.i64(2 * MINUTE..10 * MINUTE);
        let provider_call_id = has_id.then(|| new_call_id(provider, rng));
        attempts.push(Attempt { provider_call_id, truth });
        // A second attempt needs an id that both attempts share, and one that tells them apart.
        let may_retry = has_id && correlation != Correlation::ProviderCall;
        let again = may_retry && truth.scenario.is_worth_a_retry() && attempts.len() < 3;
        if !again || rng.u8(..10) < 4 {
            return attempts;
        }
    }
}

fn new_call_id(provider: Provider, rng: &mut Rng) -> String {
    let number = rng.u128(..);
    match provider {
        Provider::Retell => format!("call_{number:032x}"),
        Provider::Twilio => format!("CA{number:032x}"),
        Provider::Generic => format!("line-{:08x}", number as u32),
    }
}

/// Fields from which [`object`] makes a JSON object.
type Fields = Vec<(&'static str, Value)>;

fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Draws the time between an event and the provider's report of it.
fn reporting_delay(rng: &mut Rng) -> Millis {
    rng.i64(20..300)
}
