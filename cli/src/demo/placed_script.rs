//! Scripts of the calls that Switchhook places. A script says when the demo asks for the call, and what truly happens
//! in each attempt.
//!
//! **The oracle compares everything with this truth.** The metadata of each call tells the fake provider what will
//! happen in each attempt. The required results are written down here, without any code of Switchhook.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::script::{HOUR, MINUTE, Millis, SECOND, START};

/// During the outage the provider's API answers every request with an error. The calls that others place are over by
/// then.
pub(super) const OUTAGE_START: Millis = START + 200 * MINUTE + 30 * SECOND;
pub(super) const OUTAGE_END: Millis = OUTAGE_START + 10 * MINUTE;
/// Time after the start within which all calls are created.
const CREATED_WITHIN: Millis = 200 * MINUTE;
/// The calling window by the system's clock. The API gets it in London time, which is summer time on the day of the
/// demo.
const WINDOW_OPENS: Millis = START + HOUR;
const WINDOW_CLOSES: Millis = START + 11 * HOUR - MINUTE;
/// Number of attempts that the default retry policy allows.
const ATTEMPTS_MAX: usize = 3;
/// Number of attempts that [`RequestPattern::MoreAttempts`] asks for.
const MORE_ATTEMPTS_MAX: usize = 5;
/// Longest delay before the second attempt. It doubles with every further attempt.
pub(super) const RETRY_DELAY: Millis = 5 * MINUTE;
/// Longest delay before any attempt.
pub(super) const RETRY_DELAY_MAX: Millis = HOUR;
/// Reason of a call that ended because its number is on the do-not-call list.
pub(super) const DO_NOT_CALL: &str = "do_not_call";
/// Reason of a call that ended because the provider will never dial its number.
pub(super) const REJECTED: &str = "rejected_by_provider";
/// Reason of a call that ended after its last attempt.
const ATTEMPTS_USED: &str = "attempts_used";
/// Reason of a call that ended because nobody knows whether the person answered.
const UNHEARD: &str = "unheard";

/// The course of one attempt: how the called person behaves, or what goes wrong before the phone rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialScenario {
    Confirms,
    Declines,
    Voicemail,
    Busy,
    NoAnswer,
    Fails,
    /// The provider accepts the call, forgets it, and never reports anything.
    Forgotten,
    /// Confirms, but the provider's answer to the dial request is lost.
    ResponseLost,
    /// Confirms, and every webhook about it is lost.
    Silent,
    /// Confirms, after the provider has refused the dial because of its rate limit.
    RateLimited,
    /// The number does not exist, and the provider refuses the dial for good. Nothing was dialled, so this is no attempt.
    Invalid,
    /// The provider is down. Its answer does not say whether it accepted the call. Later it has no such call, so nothing
    /// was dialled, and this is no attempt either.
    Outage,
}

/// The true result of one attempt. Empty for a dial that is no attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptResult {
    pub(super) lifecycle: &'static str,
    pub(super) outcome: &'static str,
    /// True if a phone rings.
    pub(super) rings: bool,
}

impl DialScenario {
    /// Keyword that tells the fake provider what to play. `None` for an outage, which the demo switches on and off
    /// itself.
    pub(super) const fn keyword(self) -> Option<&'static str> {
        match self {
            Self::Confirms => Some("confirms"),
            Self::Declines => Some("declines"),
            Self::Voicemail => Some("voicemail"),
            Self::Busy => Some("busy"),
            Self::NoAnswer => Some("no_answer"),
            Self::Fails => Some("fails"),
            Self::Forgotten => Some("forgotten"),
            Self::ResponseLost => Some("response_lost"),
            Self::Silent => Some("silent"),
            Self::RateLimited => Some("rate_limited"),
            Self::Invalid => Some("invalid"),
            Self::Outage => None,
        }
    }

    /// Description for the printed output.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Confirms => "confirmed",
            Self::Declines => "declined",
            Self::Voicemail => "voicemail",
            Self::Busy => "busy",
            Self::NoAnswer => "no answer",
            Self::Fails => "failed",
            Self::Forgotten => "accepted and then forgotten by the provider",
            Self::ResponseLost => "confirmed, but the answer to the dial was lost",
            Self::Silent => "confirmed, but every webhook was lost",
            Self::RateLimited => "confirmed, after the provider's rate limit delayed the dial",
            Self::Invalid => "no such number",
            Self::Outage => "no answer from the provider, which was down",
        }
    }

    pub(super) const fn result(self) -> AttemptResult {
        let (lifecycle, outcome, rings) = match self {
            Self::Confirms | Self::ResponseLost | Self::Silent | Self::RateLimited => ("completed", "confirmed", true),
            Self::Declines => ("completed", "declined", true),
            Self::Voicemail => ("completed", "voicemail", true),
            Self::Busy => ("busy", "no_answer", true),
            Self::NoAnswer => ("no_answer", "no_answer", true),
            Self::Fails => ("failed", "no_answer", true),
            Self::Forgotten => ("inconclusive", "inconclusive", true),
            Self::Invalid | Self::Outage => ("", "", false),
        };
        AttemptResult { lifecycle, outcome, rings }
    }

    /// False if the provider dialled nobody. The API does not show such a dial, and it does not count.
    pub(super) const fn is_attempt(self) -> bool {
        match self {
            Self::Confirms
            | Self::Declines
            | Self::Voicemail
            | Self::Busy
            | Self::NoAnswer
            | Self::Fails
            | Self::Forgotten
            | Self::ResponseLost
            | Self::Silent
            | Self::RateLimited => true,
            Self::Invalid | Self::Outage => false,
        }
    }
}

/// Decision about the job after a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The job is completed.
    Complete,
    /// The job has failed, for this reason.
    Fail(&'static str),
    /// Another dial follows.
    Retry,
    /// The call was canceled.
    Cancel,
}

/// The true course of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// Every dial, whether it became an attempt or not.
    pub(super) dials: Vec<DialScenario>,
    /// The last decision about the job.
    pub(super) decision: Decision,
}

impl Course {
    /// Returns the attempts in order, each with the number of its dial, counted from 1.
    pub(super) fn attempts(&self) -> impl DoubleEndedIterator<Item = (usize, DialScenario)> {
        let numbered = self.dials.iter().copied().enumerate().map(|(index, scenario)| (index + 1, scenario));
        numbered.filter(|(_, scenario)| scenario.is_attempt())
    }

    /// Final appointment status.
    pub(super) fn final_appointment(&self) -> &'static str {
        let outcome = self.attempts().next_back().map(|(_, scenario)| scenario.result().outcome);
        match (outcome, self.decision) {
            (Some("confirmed"), _) => "Confirmed",
            (Some("declined"), _) => "Declined",
            (Some("voicemail"), _) => "Voicemail",
            (Some("no_answer"), _) => "NoAnswer",
            (Some("inconclusive"), _) => "Inconclusive",
            (None, Decision::Cancel) => "Canceled",
            (None, Decision::Fail(DO_NOT_CALL)) => "Blocked",
            (None, Decision::Fail(_)) => "Failed",
            (Some(_), _) | (None, Decision::Complete | Decision::Retry) => "Pending",
        }
    }
}

/// The way in which a call is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPattern {
    DueNow,
    DueLater,
    /// The same request is sent several times, and once a different call under the same idempotency key.
    Repeated,
    /// The call is due in a day, and is triggered by hand.
    Triggered,
    Canceled,
    /// The number is put on the do-not-call list before the call is due.
    Blocked,
    /// The person may be called at certain hours only.
    CallingWindow,
    /// The call is due while the provider is down.
    DuringOutage,
    /// The call gets more attempts than usual, also after a voicemail and after an unheard attempt.
    MoreAttempts,
}

const PATTERNS: [RequestPattern; 14] = [
    RequestPattern::DueNow,
    RequestPattern::Repeated,
    RequestPattern::DueNow,
    RequestPattern::Triggered,
    RequestPattern::DueNow,
    RequestPattern::Canceled,
    RequestPattern::DueLater,
    RequestPattern::DuringOutage,
    RequestPattern::DueNow,
    RequestPattern::CallingWindow,
    RequestPattern::MoreAttempts,
    RequestPattern::Blocked,
    RequestPattern::DueNow,
    RequestPattern::DuringOutage,
];

/// Scenarios of the attempts of one call. Calls take these lists in turn. The last scenario holds for all further
/// attempts.
const SCENARIOS: [&[DialScenario]; 17] = [
    &[DialScenario::Busy, DialScenario::Confirms],
    &[DialScenario::Confirms],
    &[DialScenario::Silent],
    &[DialScenario::NoAnswer],
    &[DialScenario::ResponseLost],
    &[DialScenario::Voicemail],
    &[DialScenario::Forgotten, DialScenario::Declines],
    &[DialScenario::Fails, DialScenario::Confirms],
    &[DialScenario::Confirms],
    &[DialScenario::RateLimited],
    &[DialScenario::Declines],
    &[DialScenario::Invalid],
    &[DialScenario::NoAnswer, DialScenario::Busy, DialScenario::ResponseLost],
    &[DialScenario::Fails],
    &[DialScenario::Confirms],
    &[DialScenario::Voicemail, DialScenario::Voicemail, DialScenario::Confirms],
    &[DialScenario::Forgotten],
];

/// An action that the demo requests from the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiAction {
    Create,
    /// Repeats the request that created the call.
    CreateAgain,
    /// Requests a different call under the same idempotency key.
    CreateOther,
    Trigger,
    Cancel,
    TriggerCanceled,
    /// Puts the number on the do-not-call list.
    Block,
}

impl ApiAction {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "POST /calls",
            Self::CreateAgain => "POST /calls, again",
            Self::CreateOther => "POST /calls, different body, same key",
            Self::Trigger | Self::TriggerCanceled => "POST trigger",
            Self::Cancel => "POST cancel",
            Self::Block => "PUT do-not-call",
        }
    }

    /// HTTP status that the API must answer.
    pub(super) const fn expected_status(self) -> u16 {
        match self {
            Self::Create => 201,
            Self::CreateAgain | Self::Trigger | Self::Cancel => 200,
            Self::CreateOther | Self::TriggerCanceled => 409,
            Self::Block => 204,
        }
    }
}

/// One request to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApiRequest {
    /// Time of the request by the system's clock.
    pub(super) at: Millis,
    /// Index into the scripts of placed calls.
    pub(super) script: usize,
    pub(super) action: ApiAction,
}

/// One call that Switchhook places.
#[derive(Clone, Debug)]
pub(super) struct PlacedScript {
    /// Idempotency key, from which Switchhook derives the call id.
    pub(super) key: String,
    pub(super) pattern: RequestPattern,
    pub(super) appointment_id: Option<String>,
    pub(super) scenarios: Vec<DialScenario>,
    pub(super) due_at: Option<Millis>,
    pub(super) triggered_at: Option<Millis>,
    pub(super) to: String,
}

impl PlacedScript {
    /// Draws the call of this index, and the API requests about it.
    pub(super) fn draw(index: usize, rng: &mut Rng) -> (Self, Vec<ApiRequest>) {
        let pattern = PATTERNS.get(index % PATTERNS.len()).copied().unwrap_or(RequestPattern::DueNow);
        let mut scenarios =
            SCENARIOS.get(index % SCENARIOS.len()).copied().unwrap_or(&[DialScenario::Confirms]).to_vec();
        // The call is created before the window opens, so that it has to wait.
        let within =
            if pattern == RequestPattern::CallingWindow { WINDOW_OPENS - START - 5 * MINUTE } else { CREATED_WITHIN };
        let created_at = START + rng.i64(0..within);
        let mut requests = vec![(created_at, ApiAction::Create)];
        let mut due_at = None;
        let mut triggered_at = None;
        match pattern {
            RequestPattern::DueNow | RequestPattern::CallingWindow | RequestPattern::MoreAttempts => {}
            RequestPattern::DueLater => due_at = Some(created_at + rng.i64(2 * MINUTE..HOUR)),
            RequestPattern::Repeated => {
                requests.push((created_at + rng.i64(1..10 * SECOND), ApiAction::CreateAgain));
                requests.push((created_at + rng.i64(10 * SECOND..20 * MINUTE), ApiAction::CreateOther));
                requests.push((created_at + rng.i64(20 * MINUTE..HOUR), ApiAction::CreateAgain));
            }
            RequestPattern::Triggered => {
                let at = created_at + rng.i64(SECOND..10 * MINUTE);
                due_at = Some(created_at + 24 * HOUR);
                triggered_at = Some(at);
                requests.push((at, ApiAction::Trigger));
                // A trigger waives the due time for one claim. A dial that the rate limit refuses would then wait a
                // day.
                for scenario in scenarios.iter_mut().filter(|scenario| **scenario == DialScenario::RateLimited) {
                    *scenario = DialScenario::Confirms;
                }
            }
            RequestPattern::Canceled => {
                let at = created_at + rng.i64(SECOND..50 * MINUTE);
                due_at = Some(created_at + HOUR);
                requests.push((at, ApiAction::Cancel));
                requests.push((at + rng.i64(SECOND..2 * HOUR), ApiAction::TriggerCanceled));
            }
            RequestPattern::Blocked => {
                due_at = Some(created_at + HOUR);
                requests.push((created_at + rng.i64(SECOND..50 * MINUTE), ApiAction::Block));
            }
            RequestPattern::DuringOutage => due_at = Some(OUTAGE_START + rng.i64(MINUTE..8 * MINUTE)),
        }
        let script = Self {
            key: format!("order-{index:04}"),
            pattern,
            appointment_id: (rng.u8(..4) > 0).then(|| format!("placed_{index:04}")),
            scenarios,
            due_at,
            triggered_at,
            to: format!("+4477009{index:05}"),
        };
        (script, requests.into_iter().map(|(at, action)| ApiRequest { at, script: index, action }).collect())
    }

    /// Body of the request that creates the call. With `different_call` the number to call is another one.
    pub(super) fn request_body(&self, different_call: bool) -> Value {
        let keywords: Vec<&str> = self.scenarios.iter().filter_map(|scenario| scenario.keyword()).collect();
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("provider", "retell".into());
        set("from", "+442079460018".into());
        set("to", if different_call { "+442079460019" } else { self.to.as_str() }.into());
        set("metadata", json!({"fake": keywords.join(",")}));
        if let Some(appointment_id) = &self.appointment_id {
            set("appointment_id", appointment_id.as_str().into());
        }
        if let Some(due_at) = self.due_at {
            set("due_at", json!(jiff::Timestamp::from_millisecond(due_at).map(|at| at.to_string()).ok()));
        }
        match self.pattern {
            RequestPattern::CallingWindow => {
                let days = ["mon", "tue"];
                let window = json!({"time_zone": "Europe/London", "opens": "14:00", "closes": "23:59", "days": days});
                set("window", window);
            }
            RequestPattern::MoreAttempts => {
                set("retry", json!({"attempts_max": MORE_ATTEMPTS_MAX, "voicemail": true, "unheard": true}));
            }
            RequestPattern::DueNow
            | RequestPattern::DueLater
            | RequestPattern::Repeated
            | RequestPattern::Triggered
            | RequestPattern::Canceled
            | RequestPattern::Blocked
            | RequestPattern::DuringOutage => {}
        }
        Value::Object(body)
    }

    /// Returns the true course of the call.
    ///
    /// `hit_outage` returns true for the number of a dial, counted from 1, that found the provider down.
    pub(super) fn course(&self, hit_outage: impl Fn(usize) -> bool) -> Course {
        let mut dials = Vec::new();
        match self.pattern {
            RequestPattern::Canceled => return Course { dials, decision: Decision::Cancel },
            RequestPattern::Blocked => return Course { dials, decision: Decision::Fail(DO_NOT_CALL) },
            RequestPattern::DueNow
            | RequestPattern::DueLater
            | RequestPattern::Repeated
            | RequestPattern::Triggered
            | RequestPattern::CallingWindow
            | RequestPattern::DuringOutage
            | RequestPattern::MoreAttempts => {}
        }
        loop {
            let number = dials.len() + 1;
            dials.push(if hit_outage(number) { DialScenario::Outage } else { self.scenario(number) });
            match self.decide(&dials) {
                Decision::Retry => {}
                decision @ (Decision::Complete | Decision::Fail(_) | Decision::Cancel) => {
                    return Course { dials, decision };
                }
            }
        }
    }

    /// Planned scenario of a dial, counted from 1. An outage may replace it.
    pub(super) fn scenario(&self, number: usize) -> DialScenario {
        self.scenarios.get(number - 1).or(self.scenarios.last()).copied().unwrap_or(DialScenario::Confirms)
    }

    /// Decides about the job after the dials so far.
    fn decide(&self, dials: &[DialScenario]) -> Decision {
        let Some(latest) = dials.last() else { return Decision::Retry };
        let more_attempts = self.pattern == RequestPattern::MoreAttempts;
        let attempts = dials.iter().filter(|scenario| scenario.is_attempt()).count();
        let attempts_left = attempts < if more_attempts { MORE_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        let again = match latest {
            DialScenario::Confirms
            | DialScenario::Declines
            | DialScenario::ResponseLost
            | DialScenario::Silent
            | DialScenario::RateLimited => return Decision::Complete,
            DialScenario::Outage => return Decision::Retry,
            DialScenario::Invalid => return Decision::Fail(REJECTED),
            DialScenario::Voicemail if !more_attempts => return Decision::Complete,
            DialScenario::Forgotten if !more_attempts => return Decision::Fail(UNHEARD),
            DialScenario::Voicemail | DialScenario::Forgotten | DialScenario::Busy | DialScenario::NoAnswer => true,
            // A temporary failure is retried once.
            DialScenario::Fails => dials.iter().filter(|scenario| **scenario == DialScenario::Fails).count() == 1,
        };
        if again && attempts_left { Decision::Retry } else { Decision::Fail(ATTEMPTS_USED) }
    }

    /// Earliest time at which an attempt may be made. A canceled or blocked call gets none.
    pub(super) fn not_before(&self) -> Millis {
        match self.pattern {
            RequestPattern::CallingWindow => WINDOW_OPENS,
            RequestPattern::Triggered => self.triggered_at.unwrap_or(START),
            RequestPattern::Canceled | RequestPattern::Blocked => Millis::MAX,
            RequestPattern::DueNow
            | RequestPattern::DueLater
            | RequestPattern::Repeated
            | RequestPattern::DuringOutage
            | RequestPattern::MoreAttempts => self.due_at.unwrap_or(START),
        }
    }

    /// Latest time at which an attempt may be made.
    pub(super) fn not_after(&self) -> Millis {
        match self.pattern {
            RequestPattern::CallingWindow => WINDOW_CLOSES,
            RequestPattern::DueNow
            | RequestPattern::DueLater
            | RequestPattern::Repeated
            | RequestPattern::Triggered
            | RequestPattern::Canceled
            | RequestPattern::Blocked
            | RequestPattern::DuringOutage
            | RequestPattern::MoreAttempts => Millis::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(scenarios: &[DialScenario], pattern: RequestPattern) -> PlacedScript {
        let (drawn, _) = PlacedScript::draw(0, &mut Rng::with_seed(1));
        PlacedScript { scenarios: scenarios.to_vec(), pattern, ..drawn }
    }

    fn course(scenarios: &[DialScenario], pattern: RequestPattern) -> (usize, Decision) {
        let course = script(scenarios, pattern).course(|_| false);
        (course.attempts().count(), course.decision)
    }

    #[test]
    fn calls_are_tried_as_often_as_policy_allows() {
        let (used, unheard) = (Decision::Fail(ATTEMPTS_USED), Decision::Fail(UNHEARD));
        for (scenarios, pattern, attempts, decision) in [
            (&[DialScenario::Confirms][..], RequestPattern::DueNow, 1, Decision::Complete),
            (&[DialScenario::Busy, DialScenario::Confirms], RequestPattern::DueNow, 2, Decision::Complete),
            (&[DialScenario::NoAnswer], RequestPattern::DueNow, 3, used),
            (&[DialScenario::NoAnswer], RequestPattern::MoreAttempts, 5, used),
            (&[DialScenario::Voicemail], RequestPattern::DueNow, 1, Decision::Complete),
            (&[DialScenario::Voicemail, DialScenario::Confirms], RequestPattern::MoreAttempts, 2, Decision::Complete),
            (&[DialScenario::Fails], RequestPattern::DueNow, 2, used),
            (&[DialScenario::Invalid], RequestPattern::DueNow, 0, Decision::Fail(REJECTED)),
            (&[DialScenario::Forgotten, DialScenario::Declines], RequestPattern::DueNow, 1, unheard),
            (&[DialScenario::Forgotten, DialScenario::Declines], RequestPattern::MoreAttempts, 2, Decision::Complete),
            (&[DialScenario::Confirms], RequestPattern::Blocked, 0, Decision::Fail(DO_NOT_CALL)),
            (&[DialScenario::Confirms], RequestPattern::Canceled, 0, Decision::Cancel),
        ] {
            assert_eq!(course(scenarios, pattern), (attempts, decision), "{scenarios:?}");
        }
    }

    #[test]
    fn dial_at_a_provider_that_is_down_is_no_attempt() {
        let course =
            script(&[DialScenario::Busy, DialScenario::Confirms], RequestPattern::DueNow).course(|number| number == 1);
        assert_eq!(course.dials, [DialScenario::Outage, DialScenario::Confirms]);
        assert_eq!(course.attempts().collect::<Vec<_>>(), [(2, DialScenario::Confirms)]);
    }
}
