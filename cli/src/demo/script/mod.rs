//! How each call truly went, and what its provider would post about it: all of it decided by the seed.
//!
//! **This is the truth that everything is compared with.** A report says here, in plain facts, what its vendor says with
//! it; how Switchhook reads it plays no part.

mod generic;
mod retell;
mod story;
mod twilio;

use fastrand::Rng;
use serde_json::Value;

pub(crate) use story::{Ending, Plot, Story};

/// Milliseconds since the Unix epoch.
pub(crate) type Millis = i64;

pub(crate) const SECOND: Millis = 1_000;
pub(crate) const MINUTE: Millis = 60 * SECOND;
pub(crate) const HOUR: Millis = 60 * MINUTE;

/// When the demo begins, by our clock: 2025-10-20T12:00:00Z.
pub(crate) const START: Millis = 1_760_961_600_000;
/// All calls are placed within this time.
const PLACED_WITHIN: Millis = 30 * MINUTE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    Retell,
    Twilio,
    Generic,
}

impl Vendor {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retell => "retell",
            Self::Twilio => "twilio",
            Self::Generic => "generic",
        }
    }

    /// How far its clock is ahead of ours: no two clocks agree.
    const fn skew(self) -> Millis {
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
    Begun,
    Rang,
    Answered,
    Voicemail,
    Declined,
    Confirmed,
    Ended(Ending),
    /// Whoever places these calls will try again.
    RetryPlanned,
}

impl Fact {
    /// How the attempt ended, if that is what the fact is.
    pub(crate) const fn ending(self) -> Option<Ending> {
        match self {
            Self::Ended(ending) => Some(ending),
            Self::Begun
            | Self::Rang
            | Self::Answered
            | Self::Voicemail
            | Self::Declined
            | Self::Confirmed
            | Self::RetryPlanned => None,
        }
    }
}

/// A fact as a report tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) fact: Fact,
    /// By the vendor's clock, where the report names a time.
    pub(crate) at: Option<Millis>,
}

/// One webhook that a vendor makes, however often and however late it is delivered.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The vendor's own word for it.
    pub(crate) name: String,
    /// Index into [`Script::attempts`].
    pub(crate) attempt: usize,
    /// Whether it names the vendor's id of the attempt.
    pub(crate) names_attempt: bool,
    /// Empty: it is about something that is no part of a call's state.
    pub(crate) says: Vec<Said>,
    /// By our clock.
    pub(crate) emitted_at: Millis,
    /// Of the URL that it is posted to.
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
}

impl Report {
    pub(crate) fn is_folded(&self) -> bool {
        !self.says.is_empty()
    }

    pub(crate) fn says(&self, fact: Fact) -> bool {
        self.says.iter().any(|said| said.fact == fact)
    }

    pub(crate) fn says_ending(&self) -> bool {
        self.says.iter().any(|said| matches!(said.fact, Fact::Ended(_)))
    }
}

/// What tells Switchhook which call a report belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyed {
    /// Our own call id, which whoever placed the call gave to the vendor.
    OurId,
    Appointment,
    /// Nothing but the vendor's own id.
    VendorId,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// None: the vendor has no id for it.
    pub(crate) vendor_call_id: Option<String>,
    pub(crate) story: Story,
}

/// One call: how it truly went, and every report of it in the order in which they were made.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) vendor: Vendor,
    pub(crate) keyed: Keyed,
    /// As Switchhook is to know it.
    pub(crate) call_id: String,
    pub(crate) appointment_id: Option<String>,
    pub(crate) inbound: bool,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) reports: Vec<Report>,
    /// What decided how the reports look.
    pub(crate) seed: u64,
}

impl Script {
    /// The `index`-th call. Its vendor is drawn, unless it has to be one of `vendors`.
    pub(crate) fn draw(index: usize, vendors: &[Vendor], rng: &mut Rng) -> Self {
        let vendor = rng.choice(vendors).copied().unwrap_or(Vendor::Generic);
        let inbound = vendor != Vendor::Generic && rng.u8(..10) == 0;
        let keyed = if inbound {
            Keyed::VendorId
        } else {
            match rng.u8(..10) {
                0..5 => Keyed::Appointment,
                5..7 => Keyed::OurId,
                _ => Keyed::VendorId,
            }
        };
        let attempts = draw_attempts(vendor, keyed, inbound, rng);
        let appointment_id = match keyed {
            Keyed::Appointment => Some(format!("appt_{index:04}")),
            Keyed::OurId => rng.bool().then(|| format!("appt_{index:04}")),
            Keyed::VendorId => None,
        };
        let first = attempts.first().and_then(|attempt| attempt.vendor_call_id.clone());
        let call_id = match keyed {
            Keyed::Appointment => format!("appointment:appt_{index:04}"),
            Keyed::OurId => format!("call-{index:04}"),
            Keyed::VendorId => format!("{}:{}", vendor.name(), first.unwrap_or_default()),
        };
        let mut script =
            Self { vendor, keyed, call_id, appointment_id, inbound, attempts, reports: Vec::new(), seed: rng.u64(..) };
        script.reports = script.make_reports();
        script
    }

    /// The reports that the same call would have made had every attempt gone otherwise: what a forger might claim.
    pub(crate) fn lies(&self, rng: &mut Rng) -> Vec<Report> {
        let mut false_script = self.clone();
        for attempt in &mut false_script.attempts {
            let other: Vec<Plot> =
                Plot::of(self.vendor).iter().copied().filter(|plot| *plot != attempt.story.plot).collect();
            let plot = rng.choice(&other).copied().unwrap_or(Plot::NoAnswer);
            attempt.story = Story::draw(plot, attempt.story.placed_at, rng);
        }
        false_script.make_reports()
    }

    fn make_reports(&self) -> Vec<Report> {
        let mut rng = Rng::with_seed(self.seed);
        let mut reports = match self.vendor {
            Vendor::Retell => retell::reports(self, &mut rng),
            Vendor::Twilio => twilio::reports(self, &mut rng),
            Vendor::Generic => generic::reports(self, &mut rng),
        };
        reports.sort_by_key(|report| report.emitted_at);
        reports
    }

    /// Our clock when the vendor's reads `at`.
    fn our_time(&self, at: Millis) -> Millis {
        at - self.vendor.skew()
    }
}

fn draw_attempts(vendor: Vendor, keyed: Keyed, inbound: bool, rng: &mut Rng) -> Vec<Attempt> {
    let mut placed_at = START + vendor.skew() + rng.i64(0..PLACED_WITHIN);
    let named = vendor != Vendor::Generic || keyed == Keyed::VendorId || rng.u8(..5) > 0;
    let mut attempts = Vec::new();
    loop {
        let plot = if inbound {
            rng.choice([Plot::Talked, Plot::Talked, Plot::Confirmed]).filter(|plot| Plot::of(vendor).contains(plot))
        } else {
            rng.choice(Plot::of(vendor)).copied()
        };
        let story = Story::draw(plot.unwrap_or(Plot::Talked), placed_at, rng);
        placed_at = story.ended_at + rng.i64(2 * MINUTE..10 * MINUTE);
        let vendor_call_id = named.then(|| new_call_id(vendor, rng));
        attempts.push(Attempt { vendor_call_id, story });
        // Retried by whoever placed it, which takes an id that both attempts share and one that tells them apart.
        let again = named && keyed != Keyed::VendorId && story.plot.is_worth_a_retry() && attempts.len() < 3;
        if !again || rng.u8(..10) < 4 {
            return attempts;
        }
    }
}

fn new_call_id(vendor: Vendor, rng: &mut Rng) -> String {
    let number = rng.u128(..);
    match vendor {
        Vendor::Retell => format!("call_{number:032x}"),
        Vendor::Twilio => format!("CA{number:032x}"),
        Vendor::Generic => format!("line-{:08x}", number as u32),
    }
}

/// Fields of a JSON object in the making.
type Fields = Vec<(&'static str, Value)>;

fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A moment after something happened: what it takes a vendor to make a report of it.
fn soon(rng: &mut Rng) -> Millis {
    rng.i64(20..300)
}
