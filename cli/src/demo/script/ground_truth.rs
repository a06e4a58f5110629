//! The ground truth of one attempt: what truly happens at the phone, drawn at random. Webhooks only report it.

use fastrand::Rng;

use super::{Fact, Millis, Provider, SECOND};

/// The way in which an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Completed,
    NoAnswer,
    Busy,
    Failed,
    Canceled,
}

impl Ending {
    /// Name of the ending in the API.
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

/// The course that an attempt takes. [`GroundTruth::draw`] gives it times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Confirmed,
    Declined,
    /// Answered and completed. No report states the outcome.
    Talked,
    Voicemail,
    NoAnswer,
    Busy,
    Failed,
    Canceled,
    /// Answered, and then the line failed.
    CutOff,
}

impl Scenario {
    /// Returns the scenarios that the provider can report. A scenario that is listed three times is three times as
    /// likely.
    pub(crate) const fn weighted_for(provider: Provider) -> &'static [Self] {
        const ALL: &[Scenario] = &[
            Scenario::Confirmed,
            Scenario::Confirmed,
            Scenario::Confirmed,
            Scenario::Declined,
            Scenario::Declined,
            Scenario::Talked,
            Scenario::Voicemail,
            Scenario::NoAnswer,
            Scenario::NoAnswer,
            Scenario::Busy,
            Scenario::Failed,
            Scenario::Canceled,
            Scenario::CutOff,
        ];
        // ElevenLabs has no word for a call that was canceled.
        const ELEVENLABS: &[Scenario] = &[
            Scenario::Confirmed,
            Scenario::Confirmed,
            Scenario::Declined,
            Scenario::Talked,
            Scenario::Voicemail,
            Scenario::NoAnswer,
            Scenario::Busy,
            Scenario::Failed,
            Scenario::CutOff,
        ];
        // A provider that carries the voice and does not analyse it cannot report that somebody confirmed or declined.
        const CARRIER: &[Scenario] = &[
            Scenario::Talked,
            Scenario::Talked,
            Scenario::Talked,
            Scenario::Voicemail,
            Scenario::Voicemail,
            Scenario::NoAnswer,
            Scenario::NoAnswer,
            Scenario::Busy,
            Scenario::Failed,
            Scenario::Canceled,
        ];
        // LiveKit says whether somebody answered, and detects no voicemail. It has no word for a call that was canceled.
        const LIVEKIT: &[Scenario] =
            &[Scenario::Talked, Scenario::Talked, Scenario::NoAnswer, Scenario::Busy, Scenario::Failed];
        // Daily does not say why nobody answered.
        const DAILY: &[Scenario] = &[Scenario::Talked, Scenario::Talked, Scenario::Talked, Scenario::Failed];
        match provider {
            Provider::LiveKit => LIVEKIT,
            Provider::Daily => DAILY,
            Provider::Retell | Provider::Vapi | Provider::Bland | Provider::Generic => ALL,
            Provider::ElevenLabs => ELEVENLABS,
            Provider::Twilio | Provider::Telnyx | Provider::Plivo | Provider::Vonage | Provider::SignalWire => CARRIER,
        }
    }

    /// Returns the scenarios of inbound calls that the provider can report. Assistants answer every inbound call themselves.
    pub(crate) const fn weighted_for_inbound(provider: Provider) -> &'static [Self] {
        match provider {
            Provider::LiveKit | Provider::Daily => &[Scenario::Talked],
            Provider::Retell | Provider::Vapi | Provider::ElevenLabs | Provider::Bland | Provider::Generic => {
                &[Scenario::Talked, Scenario::Talked, Scenario::Confirmed]
            }
            Provider::Twilio | Provider::Telnyx | Provider::Plivo | Provider::Vonage | Provider::SignalWire => {
                &[Scenario::Talked, Scenario::NoAnswer, Scenario::Canceled]
            }
        }
    }

    /// Scenarios of calls that two providers report.
    pub(crate) const OF_TWO_PROVIDERS: &'static [Self] = &[
        Scenario::Confirmed,
        Scenario::Confirmed,
        Scenario::Confirmed,
        Scenario::Declined,
        Scenario::Declined,
        Scenario::Talked,
        Scenario::NoAnswer,
    ];

    /// Description for the printed output, also used as the summary of an analysis.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Confirmed => "answered, confirmed",
            Self::Declined => "answered, declined",
            Self::Talked => "answered, outcome never reported",
            Self::Voicemail => "voicemail",
            Self::NoAnswer => "no answer",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::CutOff => "answered, then cut off",
        }
    }

    /// True if the system that places the call may try again after this course.
    pub(crate) const fn is_worth_a_retry(self) -> bool {
        match self {
            Self::Voicemail | Self::NoAnswer | Self::Busy | Self::Failed => true,
            Self::Confirmed | Self::Declined | Self::Talked | Self::Canceled | Self::CutOff => false,
        }
    }
}

/// The true course of one attempt. All times are by the provider's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroundTruth {
    pub(crate) scenario: Scenario,
    pub(crate) placed_at: Millis,
    pub(crate) rang_at: Option<Millis>,
    pub(crate) answered_at: Option<Millis>,
    /// [`Fact::Confirmed`], [`Fact::Declined`] or [`Fact::Voicemail`], with its time.
    pub(crate) outcome_fact: Option<(Fact, Millis)>,
    pub(crate) ending: Ending,
    pub(crate) ended_at: Millis,
}

impl GroundTruth {
    /// Word of an analysis for the person's decision. `None` if the person decided nothing.
    pub(crate) fn decision_word(&self) -> Option<&'static str> {
        match self.scenario {
            Scenario::Confirmed => Some("confirmed"),
            Scenario::Declined => Some("declined"),
            Scenario::Talked
            | Scenario::Voicemail
            | Scenario::NoAnswer
            | Scenario::Busy
            | Scenario::Failed
            | Scenario::Canceled
            | Scenario::CutOff => None,
        }
    }

    /// Returns the same course by a clock that is ahead by this time.
    pub(crate) fn shifted(self, by: Millis) -> Self {
        Self {
            scenario: self.scenario,
            placed_at: self.placed_at + by,
            rang_at: self.rang_at.map(|at| at + by),
            answered_at: self.answered_at.map(|at| at + by),
            outcome_fact: self.outcome_fact.map(|(fact, at)| (fact, at + by)),
            ending: self.ending,
            ended_at: self.ended_at + by,
        }
    }

    /// Draws the times of an attempt that takes this course.
    pub(crate) fn draw(scenario: Scenario, placed_at: Millis, rng: &mut Rng) -> Self {
        let mut seconds = |from: i64, to: i64| rng.i64(from * SECOND..to * SECOND);
        let rings = match scenario {
            Scenario::Failed | Scenario::Canceled => seconds(0, 2) < SECOND,
            Scenario::Confirmed
            | Scenario::Declined
            | Scenario::Talked
            | Scenario::Voicemail
            | Scenario::NoAnswer
            | Scenario::Busy
            | Scenario::CutOff => true,
        };
        let ring_at = placed_at + seconds(1, 4);
        let answer_at = ring_at + seconds(3, 15);
        let rang_at = rings.then_some(ring_at);
        let unanswered = |ending, ended_at| Self {
            scenario,
            placed_at,
            rang_at,
            answered_at: None,
            outcome_fact: None,
            ending,
            ended_at,
        };
        let answered = |outcome_fact: Option<(Fact, Millis)>, ending, ended_at| Self {
            scenario,
            placed_at,
            rang_at,
            answered_at: Some(answer_at),
            outcome_fact,
            ending,
            ended_at,
        };
        match scenario {
            Scenario::Confirmed | Scenario::Declined => {
                let fact = if scenario == Scenario::Confirmed { Fact::Confirmed } else { Fact::Declined };
                let stated_at = answer_at + seconds(5, 60);
                answered(Some((fact, stated_at)), Ending::Completed, stated_at + seconds(2, 20))
            }
            Scenario::Talked => answered(None, Ending::Completed, answer_at + seconds(5, 90)),
            Scenario::Voicemail => {
                let detected_at = answer_at + seconds(3, 6);
                answered(Some((Fact::Voicemail, detected_at)), Ending::Completed, detected_at + seconds(4, 20))
            }
            Scenario::CutOff => answered(None, Ending::Failed, answer_at + seconds(3, 60)),
            Scenario::NoAnswer => unanswered(Ending::NoAnswer, ring_at + seconds(20, 45)),
            Scenario::Busy => unanswered(Ending::Busy, ring_at + seconds(1, 4)),
            Scenario::Failed => unanswered(Ending::Failed, ring_at + seconds(1, 5)),
            Scenario::Canceled => unanswered(Ending::Canceled, ring_at + seconds(1, 20)),
        }
    }
}
