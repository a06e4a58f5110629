//! What happened in one attempt.

use fastrand::Rng;

use super::{Fact, Millis, SECOND, Vendor};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Completed,
    NoAnswer,
    Busy,
    Failed,
    Canceled,
}

impl Ending {
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NoAnswer => "no_answer",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// The ways in which an attempt can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plot {
    Confirmed,
    Declined,
    /// Answered and completed, and nobody says what came of it.
    Talked,
    Voicemail,
    NoAnswer,
    Busy,
    Failed,
    Canceled,
    /// Answered, and then the line failed.
    CutOff,
}

impl Plot {
    /// What the vendor can tell of, as often as it is to happen.
    pub(crate) const fn of(vendor: Vendor) -> &'static [Self] {
        const ALL: &[Plot] = &[
            Plot::Confirmed,
            Plot::Confirmed,
            Plot::Confirmed,
            Plot::Declined,
            Plot::Declined,
            Plot::Talked,
            Plot::Voicemail,
            Plot::NoAnswer,
            Plot::NoAnswer,
            Plot::Busy,
            Plot::Failed,
            Plot::Canceled,
            Plot::CutOff,
        ];
        // Twilio carries the voice and does not listen.
        const TWILIO: &[Plot] = &[
            Plot::Talked,
            Plot::Talked,
            Plot::Talked,
            Plot::Voicemail,
            Plot::Voicemail,
            Plot::NoAnswer,
            Plot::NoAnswer,
            Plot::Busy,
            Plot::Failed,
            Plot::Canceled,
        ];
        match vendor {
            Vendor::Retell | Vendor::Generic => ALL,
            Vendor::Twilio => TWILIO,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "answered, confirmed",
            Self::Declined => "answered, declined",
            Self::Talked => "answered, no word of the outcome",
            Self::Voicemail => "voicemail",
            Self::NoAnswer => "no answer",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::CutOff => "answered, then cut off",
        }
    }

    pub(crate) const fn is_worth_a_retry(self) -> bool {
        match self {
            Self::Voicemail | Self::NoAnswer | Self::Busy | Self::Failed => true,
            Self::Confirmed | Self::Declined | Self::Talked | Self::Canceled | Self::CutOff => false,
        }
    }
}

/// All times by the vendor's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) plot: Plot,
    pub(crate) placed_at: Millis,
    pub(crate) rang_at: Option<Millis>,
    pub(crate) answered_at: Option<Millis>,
    /// Confirmed, declined or recognised as a machine.
    pub(crate) word: Option<(Fact, Millis)>,
    pub(crate) ending: Ending,
    pub(crate) ended_at: Millis,
}

impl Story {
    pub(crate) fn draw(plot: Plot, placed_at: Millis, rng: &mut Rng) -> Self {
        let mut seconds = |from: i64, to: i64| rng.i64(from * SECOND..to * SECOND);
        let rings = match plot {
            Plot::Failed | Plot::Canceled => seconds(0, 2) < SECOND,
            Plot::Confirmed
            | Plot::Declined
            | Plot::Talked
            | Plot::Voicemail
            | Plot::NoAnswer
            | Plot::Busy
            | Plot::CutOff => true,
        };
        let ring_at = placed_at + seconds(1, 4);
        let answer_at = ring_at + seconds(3, 15);
        let rang_at = rings.then_some(ring_at);
        let unanswered =
            |ending, ended_at| Self { plot, placed_at, rang_at, answered_at: None, word: None, ending, ended_at };
        let answered = |word: Option<(Fact, Millis)>, ending, ended_at| Self {
            plot,
            placed_at,
            rang_at,
            answered_at: Some(answer_at),
            word,
            ending,
            ended_at,
        };
        match plot {
            Plot::Confirmed | Plot::Declined => {
                let fact = if plot == Plot::Confirmed { Fact::Confirmed } else { Fact::Declined };
                let said_at = answer_at + seconds(5, 60);
                answered(Some((fact, said_at)), Ending::Completed, said_at + seconds(2, 20))
            }
            Plot::Talked => answered(None, Ending::Completed, answer_at + seconds(5, 90)),
            Plot::Voicemail => {
                let heard_at = answer_at + seconds(3, 6);
                answered(Some((Fact::Voicemail, heard_at)), Ending::Completed, heard_at + seconds(4, 20))
            }
            Plot::CutOff => answered(None, Ending::Failed, answer_at + seconds(3, 60)),
            Plot::NoAnswer => unanswered(Ending::NoAnswer, ring_at + seconds(20, 45)),
            Plot::Busy => unanswered(Ending::Busy, ring_at + seconds(1, 4)),
            Plot::Failed => unanswered(Ending::Failed, ring_at + seconds(1, 5)),
            Plot::Canceled => unanswered(Ending::Canceled, ring_at + seconds(1, 20)),
        }
    }
}
