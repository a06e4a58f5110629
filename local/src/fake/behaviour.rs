//! Behaviours of the person who is called, and of the provider on the way.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Course of a call at the fake provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// The person answers and confirms. Last digit 0.
    Confirms,
    /// The person answers and declines. Last digit 1.
    Declines,
    /// An answering machine picks up. Last digit 2.
    Voicemail,
    /// The line is busy. Last digit 3.
    Busy,
    /// Nobody picks up. Last digit 4.
    NoAnswer,
    /// The call fails for a temporary reason. Last digit 5.
    Fails,
    /// The provider accepts the call and then forgets it: it sends no webhook, and a lookup answers 404. Last digit 6.
    Forgotten,
    /// The person confirms, but the provider's responses to the dial request and to its repetition are lost. Last
    /// digit 7.
    ResponseLost,
    /// The person confirms, but all webhooks of the call are lost. Last digit 8.
    Silent,
    /// The provider answers some dial requests with 429. Once it accepts one, the person confirms. Last digit 9.
    RateLimited,
    /// The number does not exist. No digit selects this behaviour, nor those that follow.
    Invalid,
    /// The person confirms. The response to the first dial request is lost, and the one to its repetition arrives.
    FirstResponseLost,
    /// Some dial requests are never answered and never carried out. Once one is accepted, the person confirms.
    NoResponse,
    /// Some dial requests are answered with 402. Once one is accepted, the person confirms.
    OutOfCredit,
    /// Some dial requests are answered with 422, because the account has no such agent. Once one is accepted, the
    /// person confirms.
    UnknownAsset,
    /// The provider accepts some dial requests, and then ends the call with `concurrency_limit_reached` before a phone
    /// rings. Later the person confirms.
    OverCapacity,
}

/// End of a call, in no vendor's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A person answered.
    Conversation,
    /// A machine answered.
    Voicemail,
    Busy,
    NoAnswer,
    /// The call failed before the phone rang, for a temporary reason.
    Failed,
    /// The number does not exist.
    WrongNumber,
}

impl Ending {
    /// True if a person or a machine answered.
    pub(super) const fn is_answered(self) -> bool {
        match self {
            Self::Conversation | Self::Voicemail => true,
            Self::Busy | Self::NoAnswer | Self::Failed | Self::WrongNumber => false,
        }
    }
}

impl Behaviour {
    /// All behaviours. The first ten are ordered by the digit that selects them.
    pub const ALL: [Self; 16] = [
        Self::Confirms,
        Self::Declines,
        Self::Voicemail,
        Self::Busy,
        Self::NoAnswer,
        Self::Fails,
        Self::Forgotten,
        Self::ResponseLost,
        Self::Silent,
        Self::RateLimited,
        Self::Invalid,
        Self::FirstResponseLost,
        Self::NoResponse,
        Self::OutOfCredit,
        Self::UnknownAsset,
        Self::OverCapacity,
    ];

    /// Name of the behaviour in a call's metadata.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirms => "confirms",
            Self::Declines => "declines",
            Self::Voicemail => "voicemail",
            Self::Busy => "busy",
            Self::NoAnswer => "no_answer",
            Self::Fails => "fails",
            Self::Forgotten => "forgotten",
            Self::ResponseLost => "response_lost",
            Self::Silent => "silent",
            Self::RateLimited => "rate_limited",
            Self::Invalid => "invalid",
            Self::FirstResponseLost => "first_response_lost",
            Self::NoResponse => "no_response",
            Self::OutOfCredit => "out_of_credit",
            Self::UnknownAsset => "unknown_asset",
            Self::OverCapacity => "over_capacity",
        }
    }

    /// Chooses the behaviour of a dial from the metadata of the call, or else from the last digit of the number `to`.
    ///
    /// The metadata field `fake` lists one name per attempt, for example `busy,confirms`. The last name also applies to
    /// all later attempts.
    pub(super) fn select(metadata: &Map<String, Value>, to: &str) -> Self {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let attempt: usize = text("switchhook_attempt").and_then(|number| number.parse().ok()).unwrap_or(1);
        let word = text("fake").and_then(|words| {
            let words: Vec<&str> = words.split(',').map(str::trim).collect();
            words.get(attempt - 1).or(words.last()).copied()
        });
        let named = word.and_then(|word| Self::ALL.into_iter().find(|behaviour| behaviour.as_str() == word));
        let digit = to.bytes().next_back().filter(u8::is_ascii_digit).map_or(0, |digit| usize::from(digit - b'0'));
        named.or_else(|| Self::ALL.get(digit).copied()).unwrap_or(Self::Confirms)
    }

    /// End of a call that the provider has accepted.
    pub(super) const fn ending(self) -> Ending {
        match self {
            Self::Voicemail => Ending::Voicemail,
            Self::Busy => Ending::Busy,
            Self::NoAnswer => Ending::NoAnswer,
            Self::Fails => Ending::Failed,
            Self::Invalid => Ending::WrongNumber,
            Self::Confirms
            | Self::Declines
            | Self::Forgotten
            | Self::ResponseLost
            | Self::Silent
            | Self::RateLimited
            | Self::FirstResponseLost
            | Self::NoResponse
            | Self::OutOfCredit
            | Self::UnknownAsset
            | Self::OverCapacity => Ending::Conversation,
        }
    }

    /// True if the person confirms once the provider has accepted the call.
    pub(super) const fn confirms(self) -> bool {
        match self {
            Self::Confirms
            | Self::ResponseLost
            | Self::Silent
            | Self::RateLimited
            | Self::FirstResponseLost
            | Self::NoResponse
            | Self::OutOfCredit
            | Self::UnknownAsset
            | Self::OverCapacity => true,
            Self::Declines
            | Self::Voicemail
            | Self::Busy
            | Self::NoAnswer
            | Self::Fails
            | Self::Forgotten
            | Self::Invalid => false,
        }
    }
}
