//! The playground of a local stack: what the page Try shows, and what its forms ask for.
//!
//! This crate does not know the local cloud. `switchhook dev` gives the console a [`Playground`], and a deployed stack has none.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use switchhook_domain::Timestamp;

/// Largest number of held events of one call whose orders are tried: 720 orders.
pub const ORDERED_MAX: usize = 6;

/// Access to a local stack for the page Try.
pub trait Playground: fmt::Debug + Send + Sync {
    /// Returns everything that the page shows.
    fn view(&self) -> BoxFuture<'_, PlaygroundView>;

    /// Does one thing, and adds its result to the log.
    fn act(&self, action: PlaygroundAction) -> BoxFuture<'_, ()>;
}

/// A story: one call, played from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    LateEnding,
    ConfirmedAfterTimeout,
    DialAnswerLost,
    BusyThenConfirms,
    ForgedWebhook,
}

impl Story {
    pub const ALL: [Self; 5] = [
        Self::LateEnding,
        Self::ConfirmedAfterTimeout,
        Self::DialAnswerLost,
        Self::BusyThenConfirms,
        Self::ForgedWebhook,
    ];

    /// Name of the button.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::LateEnding => "Late ending",
            Self::ConfirmedAfterTimeout => "Confirmed after the timeout",
            Self::DialAnswerLost => "Dial answer lost",
            Self::BusyThenConfirms => "Busy, then confirms",
            Self::ForgedWebhook => "Forged webhook",
        }
    }

    /// Course of the story, in one or two sentences.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::LateEnding => {
                "The confirmation arrives first, and twice. The answer comes after it, and the ending ten minutes late."
            }
            Self::ConfirmedAfterTimeout => {
                "No ending arrives, so the call becomes inconclusive after the timeout. Then the confirmation comes in."
            }
            Self::DialAnswerLost => {
                "The provider dials, and its answer is lost. Nobody dials again; the webhooks tell that a phone rang."
            }
            Self::BusyThenConfirms => "The line is busy. The retry a little later reaches the person, who confirms.",
            Self::ForgedWebhook => {
                "The person declines. Somebody without the key sends a confirmation, and repeats an old webhook."
            }
        }
    }

    /// State in which the story ends: lifecycle and appointment.
    #[must_use]
    pub const fn ends(self) -> &'static str {
        match self {
            Self::LateEnding | Self::ConfirmedAfterTimeout | Self::DialAnswerLost | Self::BusyThenConfirms => {
                "completed, Confirmed"
            }
            Self::ForgedWebhook => "completed, Declined",
        }
    }
}

/// Way in which a sample is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Once,
    Twice,
    /// The signature is a minute old when the webhook arrives.
    Late,
    WrongKey,
    /// The signature is an hour old, as in a replayed recording.
    OldTimestamp,
}

impl Sending {
    pub const ALL: [Self; 5] = [Self::Once, Self::Twice, Self::Late, Self::WrongKey, Self::OldTimestamp];

    /// Label of the choice.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Twice => "twice",
            Self::Late => "late by 60 s",
            Self::WrongKey => "with a wrong key",
            Self::OldTimestamp => "with an old timestamp",
        }
    }
}

/// Step of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    By(Duration),
    /// To the next time at which a webhook is due or a call wakes up.
    ToNextWakeUp,
}

/// Choice for held webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Once,
    Twice,
    /// The webhooks are never sent.
    Drop,
    /// All are sent, in random order.
    Shuffled,
}

/// One thing that a developer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaygroundAction {
    Play(Story),
    /// Places a call. The person plays one behaviour in each attempt. With `office_hours` the call may be placed on weekdays from 9
    /// to 18 o'clock only.
    Place {
        behaviours: Vec<String>,
        office_hours: bool,
    },
    Send {
        sample: String,
        appointment: Option<String>,
        sending: Sending,
    },
    /// Sets the delivery faults, the mode of the provider, and where the next request dies, by their names.
    Set {
        faults: String,
        mode: String,
        crash: String,
    },
    Hold(bool),
    /// Lets held webhooks go in the order of their numbers.
    Release {
        numbers: Vec<u64>,
        how: Release,
    },
    RunScheduler,
    RunReconciler,
    Skip(Skip),
}

/// Choice among names, and the one that holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub names: Vec<String>,
    pub chosen: String,
}

/// A webhook that waits until somebody lets it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldEvent {
    pub number: u64,
    pub call_id: String,
    pub event: String,
}

/// Results of all orders of the held webhooks of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    pub call_id: String,
    pub events: usize,
    /// Number of orders that were tried. `None` if there are too many webhooks to try all.
    pub tried: Option<usize>,
    /// Every state that an order gave. There should be one.
    pub results: Vec<String>,
    /// For each webhook, the state without it.
    pub without: Vec<(String, String)>,
}

/// Result of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub at: Timestamp,
    pub text: String,
    pub failed: bool,
    /// Calls to look at.
    pub calls: Vec<String>,
    /// Events to look at.
    pub events: Vec<String>,
}

/// Everything that the page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaygroundView {
    pub behaviours: Vec<String>,
    pub samples: Vec<String>,
    pub faults: Choice,
    pub mode: Choice,
    pub crash: Choice,
    pub holds: bool,
    pub held: Vec<HeldEvent>,
    pub orders: Vec<Orders>,
    pub now: Timestamp,
    /// Milliseconds that the clock runs ahead of the machine's. Negative if it runs behind.
    pub ahead_ms: i64,
    /// Next time at which a webhook is due or a call wakes up.
    pub next_wake_up: Option<Timestamp>,
    /// Results of the latest actions, the newest first.
    pub log: Vec<LogLine>,
}
