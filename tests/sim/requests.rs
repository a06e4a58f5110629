//! Requests for calls that Switchhook places. A request also says how the person called behaves, whether the webhooks
//! of the call arrive, and when the person may not be called.
//!
//! **This module uses none of the code under test**, so a bug there cannot distort the truth.

use std::ops::Range;

use fastrand::Rng;
use serde_json::{Value, json};

use switchhook_local::fake::Behaviour;

use crate::calls::{MINUTE, Millis, START, Truth, merge, rfc3339};

/// A request to place a call, as a client of the API sends it.
#[derive(Clone, Debug)]
pub(crate) struct CallRequest {
    pub(crate) key: String,
    pub(crate) pattern: RequestPattern,
    pub(crate) at: Millis,
    /// The number to call. Each request has its own.
    pub(crate) to: String,
    /// Behaviour of the person called in each attempt, in the fake provider's words. The last behaviour repeats.
    pub(crate) behaviours: Vec<&'static str>,
    pub(crate) delivery: Delivery,
    pub(crate) block: Option<Block>,
    pub(crate) window: Option<Window>,
    /// True if the call is retried although nobody knows whether the person answered.
    pub(crate) retries_unheard: bool,
    pub(crate) has_appointment: bool,
    pub(crate) fallback: Fallback,
}

/// Requests that a client sends for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPattern {
    /// One request to create the call.
    Plain,
    /// Two requests to create the call at the same time, with one idempotency key.
    SentTwice,
    /// A request for a later due time, and a request to trigger the call before then.
    Triggered,
    /// A request for a later due time, and a request to cancel the call within ten minutes. The call may be claimed or under way then.
    Canceled,
}

/// Delivery of the webhooks of a placed call. It comes before the faults of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Each webhook is sent within seconds.
    Usual,
    /// Each webhook is sent 5 to 15 minutes late.
    Late,
    /// No webhook is sent.
    Lost,
    /// The webhooks of Retell carry no metadata, so they do not name the call.
    WithoutIds,
}

/// The provider of a call besides Retell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    None,
    /// This provider is asked if Retell is unavailable.
    Second(&'static str),
    /// Retell is asked if this provider is unavailable.
    First(&'static str),
}

/// Providers that place calls besides Retell.
pub(crate) const OTHER_PROVIDERS: [&str; 8] =
    ["twilio", "vapi", "telnyx", "plivo", "vonage", "elevenlabs", "bland", "signalwire"];

/// True if the lists of the provider never prove that a dial in doubt placed no call.
pub(crate) fn proves_no_absence(provider: &str) -> bool {
    ["plivo", "vonage", "bland", "signalwire"].contains(&provider)
}

/// Time at which the number of a request is put on the do-not-call list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    BeforeCreation,
    /// This many milliseconds after the call was created.
    AfterCreation(Millis),
}

/// A calling window that is closed once during the run.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    time_zone: &'static str,
    opens: String,
    closes: String,
    /// The time during which the window is closed.
    pub(crate) closed: Range<Millis>,
}

/// Highest number of attempts of a call under the stack's default retry policy.
pub(crate) const ATTEMPTS_MAX: usize = 3;

const BEHAVIOURS: [&[&str]; 20] = [
    &["confirms"],
    &["declines"],
    &["voicemail"],
    &["busy", "confirms"],
    &["no_answer"],
    &["no_answer", "declines"],
    &["fails", "confirms"],
    &["fails"],
    &["forgotten", "declines"],
    &["response_lost"],
    &["busy", "response_lost"],
    &["silent"],
    &["rate_limited"],
    &["invalid"],
    &["busy", "invalid"],
    &["first_response_lost"],
    &["no_response"],
    &["out_of_credit"],
    &["unknown_asset"],
    &["busy", "over_capacity"],
];
/// Behaviours of calls whose dial may be in doubt. Without it, webhooks that are late or lost matter less.
const IN_DOUBT: [&[&str]; 2] = [&["response_lost"], &["busy", "response_lost"]];

impl CallRequest {
    pub(crate) fn draw(index: usize, rng: &mut Rng) -> Self {
        let pattern = match rng.u8(..8) {
            0 => RequestPattern::SentTwice,
            1 => RequestPattern::Triggered,
            2 => RequestPattern::Canceled,
            _ => RequestPattern::Plain,
        };
        let behaviours = *rng.choice(&BEHAVIOURS).unwrap();
        let at = START + rng.i64(0..20 * MINUTE);
        let delivery = match rng.u8(..8) {
            0 => Delivery::Late,
            1 => Delivery::Lost,
            2 => Delivery::WithoutIds,
            _ => Delivery::Usual,
        };
        let is_doubt_wanted = delivery != Delivery::Usual && rng.bool();
        let behaviours = if is_doubt_wanted { *rng.choice(&IN_DOUBT).unwrap() } else { behaviours };
        let block = match rng.u8(..16) {
            0 => Some(Block::BeforeCreation),
            1 => Some(Block::AfterCreation(rng.i64(0..20 * MINUTE))),
            _ => None,
        };
        Self {
            key: format!("order-{index}"),
            pattern,
            at,
            to: format!("+44770090010{index}"),
            behaviours: behaviours.to_vec(),
            delivery,
            block,
            window: (rng.u8(..5) == 0).then(|| Window::draw(rng)),
            retries_unheard: rng.u8(..4) == 0,
            has_appointment: rng.u8(..4) != 0,
            fallback: match rng.u8(..8) {
                0 | 1 => Fallback::Second(rng.choice(&OTHER_PROVIDERS).unwrap()),
                2 | 3 => Fallback::First(rng.choice(&OTHER_PROVIDERS).unwrap()),
                _ => Fallback::None,
            },
        }
    }

    /// The body of `POST /calls`.
    pub(crate) fn body(&self) -> Value {
        let providers: &[&str] = match self.fallback {
            Fallback::None => &["retell"],
            Fallback::Second(other) => &["retell", other],
            Fallback::First(other) => &[other, "retell"],
        };
        let mut body = json!({
            "from": "+442079460018", "to": self.to,
            "metadata": {"fake": self.behaviours.join(","), "order": self.key},
            "retry": {"delay_seconds": 60, "delay_max_seconds": 120, "unheard": self.retries_unheard},
        });
        match providers {
            [provider] => merge(&mut body, json!({"provider": provider})),
            several => merge(&mut body, json!({"providers": several})),
        }
        if self.has_appointment {
            merge(&mut body, json!({"appointment_id": self.key}));
        }
        // Canceled calls are due before their cancellation, about then, or after it.
        let due_after = match self.pattern {
            RequestPattern::Plain | RequestPattern::SentTwice => None,
            RequestPattern::Triggered => Some(20),
            RequestPattern::Canceled => Some(2 + (self.at / 1_000) % 18),
        };
        if let Some(minutes) = due_after {
            merge(&mut body, json!({"due_at": rfc3339(self.at + minutes * MINUTE)}));
        }
        if let Some(Window { time_zone, opens, closes, .. }) = &self.window {
            merge(&mut body, json!({"window": {"time_zone": time_zone, "opens": opens, "closes": closes}}));
        }
        body
    }
}

impl Window {
    /// Draws a window that is closed at first, or one that closes early in the run and opens an hour after the start.
    fn draw(rng: &mut Rng) -> Self {
        if rng.bool() {
            // In London a run starts at 13:00.
            let minutes = rng.i64(10..45);
            let closed = START - MINUTE..START + minutes * MINUTE;
            Self { time_zone: "Europe/London", opens: format!("13:{minutes}"), closes: "22:00".to_owned(), closed }
        } else {
            // In Nouméa a run starts at 23:00.
            let minutes = rng.i64(1..30);
            let closed = START + minutes * MINUTE..START + 60 * MINUTE;
            let closes = format!("23:{minutes:02}");
            Self { time_zone: "Pacific/Noumea", opens: "00:00".to_owned(), closes, closed }
        }
    }
}

/// True end of an attempt in which the person called behaves like this. A provider that reports no outcome does not say what the person
/// decided, and detects no voicemail.
pub(crate) fn truth_of(behaviour: Behaviour, provider: &str) -> Truth {
    let (lifecycle, outcome) = match behaviour {
        Behaviour::Confirms
        | Behaviour::ResponseLost
        | Behaviour::FirstResponseLost
        | Behaviour::Silent
        | Behaviour::RateLimited
        | Behaviour::NoResponse
        | Behaviour::OutOfCredit
        | Behaviour::UnknownAsset
        | Behaviour::OverCapacity => ("completed", "confirmed"),
        Behaviour::Declines => ("completed", "declined"),
        Behaviour::Voicemail => ("completed", "voicemail"),
        Behaviour::Busy => ("busy", "no_answer"),
        Behaviour::NoAnswer => ("no_answer", "no_answer"),
        Behaviour::Fails | Behaviour::Invalid => ("failed", "no_answer"),
        Behaviour::Forgotten => ("inconclusive", "inconclusive"),
    };
    let hears_nothing = ["twilio", "telnyx", "plivo", "vonage", "signalwire"].contains(&provider);
    let outcome = if hears_nothing && lifecycle == "completed" { "connected" } else { outcome };
    Truth { lifecycle, outcome }
}
