//! Scripts of the calls that others place: what truly happens to each call, and every webhook that its provider makes
//! about it. The seed decides all of it.
//!
//! **The oracle compares everything with this truth.** Each report states its facts here in plain values. The code by
//! which Switchhook reads webhooks is not used.
//!
//! The simulator in `tests/sim` compiles this module too.

mod bland;
mod daily;
mod elevenlabs;
mod generic;
mod ground_truth;
mod livekit;
mod plivo;
mod retell;
mod telnyx;
mod twilio;
mod vapi;
mod vonage;

use fastrand::Rng;
use form_urlencoded::Serializer;
use serde_json::{Value, json};

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
    Vapi,
    Telnyx,
    ElevenLabs,
    Plivo,
    Vonage,
    LiveKit,
    Daily,
    Bland,
    SignalWire,
    Generic,
}

impl Provider {
    pub(crate) const ALL: [Self; 12] = [
        Self::Retell,
        Self::Twilio,
        Self::Vapi,
        Self::Telnyx,
        Self::ElevenLabs,
        Self::Plivo,
        Self::Vonage,
        Self::LiveKit,
        Self::Daily,
        Self::Bland,
        Self::SignalWire,
        Self::Generic,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Vapi => "vapi",
            Self::Telnyx => "telnyx",
            Self::ElevenLabs => "elevenlabs",
            Self::Plivo => "plivo",
            Self::Vonage => "vonage",
            Self::LiveKit => "livekit",
            Self::Daily => "daily",
            Self::Bland => "bland",
            Self::SignalWire => "signalwire",
            Self::Generic => "generic",
        }
    }

    /// True if a report after the end of a call may state what the person said. Bland states it with the ending. A provider that
    /// only carries the voice does not listen to it.
    pub(crate) const fn reports_outcome(self) -> bool {
        match self {
            Self::Retell | Self::Vapi | Self::ElevenLabs | Self::Generic => true,
            Self::Twilio
            | Self::Telnyx
            | Self::Plivo
            | Self::Vonage
            | Self::LiveKit
            | Self::Daily
            | Self::Bland
            | Self::SignalWire => false,
        }
    }

    /// True if the provider listens to the person.
    pub(crate) fn hears(self) -> bool {
        self == Self::Bland || self.reports_outcome()
    }

    /// Returns the id by which calls of the provider can be found, if that is the one. Some echo no ids, or only one.
    const fn correlation(self, wanted: Correlation) -> Correlation {
        match (self, wanted) {
            (Self::Vonage, _) => Correlation::ProviderCall,
            (Self::Daily, Correlation::Call) => Correlation::Appointment,
            (_, wanted) => wanted,
        }
    }

    /// Time by which the provider's clock is ahead of the system's clock. In reality no two clocks agree either.
    const fn clock_skew(self) -> Millis {
        match self {
            Self::Retell => 700,
            Self::Twilio => -1_300,
            Self::Vapi => 250,
            Self::Telnyx => -400,
            Self::Plivo => 500,
            Self::Vonage => -900,
            Self::LiveKit => 350,
            Self::Daily => -200,
            Self::Bland => 600,
            Self::SignalWire => -1_100,
            Self::ElevenLabs | Self::Generic => 0,
        }
    }

    /// Converts a time of the provider's clock into a time of the system's clock.
    const fn to_system_time(self, at: Millis) -> Millis {
        at - self.clock_skew()
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
    /// True if the report carries the appointment id of the call.
    pub(crate) names_appointment: bool,
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
    /// The provider that places the attempt and reports it.
    pub(crate) provider: Provider,
    /// `None` if the provider has no id for the attempt.
    pub(crate) provider_call_id: Option<String>,
    pub(crate) truth: GroundTruth,
}

/// One call: what truly happens in it, and every report about it.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) correlation: Correlation,
    /// Id under which Switchhook has to show the call.
    pub(crate) call_id: String,
    pub(crate) appointment_id: Option<String>,
    pub(crate) inbound: bool,
    /// Id of a call that the sender must not name, such as `retell:call_…` in an event of a generic sender. Every report
    /// carries it as its call id.
    pub(crate) foreign_call_id: Option<String>,
    /// At least one.
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
        let inbound = provider != Provider::Generic && rng.u8(..8) == 0;
        let correlation = if inbound {
            Correlation::ProviderCall
        } else {
            provider.correlation(match rng.u8(..10) {
                0..5 => Correlation::Appointment,
                5..7 => Correlation::Call,
                _ => Correlation::ProviderCall,
            })
        };
        let attempts = draw_attempts(provider, correlation, inbound, rng);
        Self::with_attempts(index, correlation, inbound, attempts, rng)
    }

    /// Draws a call that two providers report: Twilio carries the voice, and Retell talks to the person.
    pub(crate) fn draw_two_providers(index: usize, rng: &mut Rng) -> Self {
        let correlation = if rng.bool() { Correlation::Appointment } else { Correlation::Call };
        let placed_at = START + rng.i64(0..PLACED_WITHIN);
        let scenario = rng.choice(Scenario::OF_TWO_PROVIDERS).copied().unwrap_or(Scenario::Talked);
        let truth = GroundTruth::draw(scenario, placed_at, rng);
        let attempts = [Provider::Twilio, Provider::Retell].map(|provider| Attempt {
            provider,
            provider_call_id: Some(new_call_id(provider, rng)),
            truth: truth.shifted(provider.clock_skew()),
        });
        Self::with_attempts(index, correlation, false, attempts.to_vec(), rng)
    }

    /// Draws a call whose sender uses the generic provider and names an id that is not its own.
    pub(crate) fn draw_with_foreign_id(index: usize, rng: &mut Rng) -> Self {
        let correlation = if rng.bool() { Correlation::Appointment } else { Correlation::ProviderCall };
        let mut attempts = draw_attempts(Provider::Generic, correlation, false, rng);
        for attempt in &mut attempts {
            // Without an id of its own and without an appointment, such an event would belong to no call.
            attempt.provider_call_id.get_or_insert_with(|| new_call_id(Provider::Generic, rng));
        }
        let victim = rng.choice([Provider::Retell, Provider::Twilio]).unwrap_or(Provider::Retell);
        let foreign = match rng.u8(..3) {
            0 => "do-not-call:+447700900000".to_owned(),
            _ => format!("{}:{}", victim.name(), new_call_id(victim, rng)),
        };
        let mut script = Self::with_attempts(index, correlation, false, attempts, rng);
        script.foreign_call_id = Some(foreign);
        script.reports = script.make_reports();
        script
    }

    fn with_attempts(
        index: usize,
        correlation: Correlation,
        inbound: bool,
        attempts: Vec<Attempt>,
        rng: &mut Rng,
    ) -> Self {
        let appointment_id = match correlation {
            Correlation::Appointment => Some(format!("appt_{index:04}")),
            Correlation::Call => rng.bool().then(|| format!("appt_{index:04}")),
            Correlation::ProviderCall => None,
        };
        let first = attempts.first();
        let call_id = match correlation {
            Correlation::Appointment => format!("appointment:appt_{index:04}"),
            Correlation::Call => format!("call-{index:04}"),
            Correlation::ProviderCall => {
                let provider = first.map_or(Provider::Generic, |attempt| attempt.provider).name();
                let id = first.and_then(|attempt| attempt.provider_call_id.as_deref()).unwrap_or_default();
                format!("{provider}:{id}")
            }
        };
        let mut script = Self {
            correlation,
            call_id,
            appointment_id,
            inbound,
            foreign_call_id: None,
            attempts,
            reports: Vec::new(),
            seed: rng.u64(..),
        };
        script.reports = script.make_reports();
        script
    }

    pub(crate) fn has_two_providers(&self) -> bool {
        let first = self.attempts.first().map(|attempt| attempt.provider);
        self.attempts.iter().any(|attempt| Some(attempt.provider) != first)
    }

    /// Returns the provider that makes this report.
    pub(crate) fn provider_of(&self, report: &Report) -> Provider {
        self.attempts.get(report.attempt).map_or(Provider::Generic, |attempt| attempt.provider)
    }

    /// Returns reports of the same call with other endings than the true ones, such as a forger might post.
    pub(crate) fn false_reports(&self, rng: &mut Rng) -> Vec<Report> {
        let mut false_script = self.clone();
        for attempt in &mut false_script.attempts {
            let all = Scenario::weighted_for(attempt.provider).iter().copied();
            let other: Vec<Scenario> = all.filter(|scenario| *scenario != attempt.truth.scenario).collect();
            let scenario = rng.choice(&other).copied().unwrap_or(Scenario::NoAnswer);
            attempt.truth = GroundTruth::draw(scenario, attempt.truth.placed_at, rng);
        }
        false_script.make_reports()
    }

    fn make_reports(&self) -> Vec<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let mut reports: Vec<Report> = Vec::new();
        for provider in Provider::ALL {
            let attempts: Vec<usize> =
                (0..self.attempts.len()).filter(|index| self.is_placed_by(*index, provider)).collect();
            match provider {
                Provider::Retell => reports.extend(retell::reports(self, &attempts, &mut rng)),
                Provider::SignalWire if attempts.is_empty() => {}
                Provider::Twilio | Provider::SignalWire => {
                    reports.extend(twilio::reports(provider, self, &attempts, &mut rng));
                }
                Provider::Vapi => reports.extend(vapi::reports(self, &attempts, &mut rng)),
                Provider::Telnyx => reports.extend(telnyx::reports(self, &attempts, &mut rng)),
                Provider::ElevenLabs => reports.extend(elevenlabs::reports(self, &attempts, &mut rng)),
                Provider::Plivo => reports.extend(plivo::reports(self, &attempts, &mut rng)),
                Provider::Vonage => reports.extend(vonage::reports(self, &attempts, &mut rng)),
                Provider::LiveKit => reports.extend(livekit::reports(self, &attempts, &mut rng)),
                Provider::Daily => reports.extend(daily::reports(self, &attempts, &mut rng)),
                Provider::Bland => reports.extend(bland::reports(self, &attempts, &mut rng)),
                Provider::Generic => reports.extend(generic::reports(self, &attempts, &mut rng)),
            }
        }
        reports.sort_by_key(|report| report.emitted_at);
        reports
    }

    fn is_placed_by(&self, attempt: usize, provider: Provider) -> bool {
        self.attempts.get(attempt).is_some_and(|attempt| attempt.provider == provider)
    }
}

fn draw_attempts(provider: Provider, correlation: Correlation, inbound: bool, rng: &mut Rng) -> Vec<Attempt> {
    let mut placed_at = START + provider.clock_skew() + rng.i64(0..PLACED_WITHIN);
    let has_id = provider != Provider::Generic || correlation == Correlation::ProviderCall || rng.u8(..5) > 0;
    let possible = if inbound { Scenario::weighted_for_inbound(provider) } else { Scenario::weighted_for(provider) };
    let mut attempts = Vec::new();
    loop {
        let scenario = rng.choice(possible).copied().unwrap_or(Scenario::Talked);
        let truth = GroundTruth::draw(scenario, placed_at, rng);
        placed_at = truth.ended_at + rng.i64(2 * MINUTE..10 * MINUTE);
        let provider_call_id = has_id.then(|| new_call_id(provider, rng));
        attempts.push(Attempt { provider, provider_call_id, truth });
        // A second attempt needs an id that both attempts share. An id, or else a number, tells them apart.
        let may_retry = correlation != Correlation::ProviderCall;
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
        Provider::Vapi => format!("{number:032x}"),
        Provider::Telnyx => format!("v3:{number:032x}"),
        Provider::ElevenLabs => format!("conv_{number:032x}"),
        Provider::SignalWire => format!("{number:032x}"),
        Provider::LiveKit => format!("SCL_{:012x}", number >> 80),
        Provider::Plivo | Provider::Vonage | Provider::Daily | Provider::Bland => {
            format!("{:08x}-0000-4000-8000-{:012x}", number as u32, number >> 80)
        }
        Provider::Generic => format!("line-{:08x}", number as u32),
    }
}

/// Fields from which [`object`] makes a JSON object.
type Fields = Vec<(&'static str, Value)>;

fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Our ids, as the provider echoes them. `None` if it was given none.
fn echoed_ids(script: &Script, attempt: usize) -> Option<Value> {
    let mut ids = Fields::new();
    if script.correlation == Correlation::Call {
        ids.push(("switchhook_call_id", script.call_id.as_str().into()));
        ids.push(("switchhook_attempt", json!(attempt + 1)));
    }
    ids.extend(script.appointment_id.as_deref().map(|id| ("appointment_id", id.into())));
    (!ids.is_empty()).then(|| object(ids))
}

/// Query of the callback URL, in which a provider without metadata echoes our ids.
fn echoing_query(script: &Script, attempt: usize) -> String {
    let mut query = Serializer::new(String::new());
    if script.correlation == Correlation::Call {
        query.append_pair("switchhook_call_id", &script.call_id);
        query.append_pair("switchhook_attempt", &(attempt + 1).to_string());
    }
    if let Some(appointment_id) = &script.appointment_id {
        query.append_pair("appointment_id", appointment_id);
    }
    query.finish()
}

/// Formats a time as RFC 3339 with milliseconds.
fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|time| format!("{time:.3}")).unwrap_or_default()
}

/// Draws the time between an event and the provider's report of it.
fn reporting_delay(rng: &mut Rng) -> Millis {
    rng.i64(20..300)
}
