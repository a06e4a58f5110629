//! The calls that Switchhook itself is asked to place: what is asked and when, and what the person at the other end truly does.
//!
//! **This is the truth of these calls.** The fake provider is told with every dial what will happen, in a word of the call's
//! metadata; what must come of it is written down here, and nothing of Switchhook's own is used for it.

mod check;
mod learned;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::script::{HOUR, MINUTE, Millis, SECOND, START};

pub(super) use check::{LearnedBy, findings, learned_by};

/// While it lasts the provider's API answers nothing but errors. The calls that others placed are over by then.
pub(super) const DOWN_FROM: Millis = START + 200 * MINUTE + 30 * SECOND;
pub(super) const DOWN_UNTIL: Millis = DOWN_FROM + 10 * MINUTE;
/// All calls are asked for within this time.
const ASKED_WITHIN: Millis = 200 * MINUTE;
/// The calling window, as the API takes it and by our clock: the demo's day is one of summer time in London.
const WINDOW_OPENS: Millis = START + HOUR;
const WINDOW_CLOSES: Millis = START + 11 * HOUR - MINUTE;
/// The stack's own retry policy, and that of who asks for more.
const ATTEMPTS_MAX: usize = 3;
const ATTEMPTS_MAX_OF_PATIENT: usize = 5;
/// The longest delay before the second attempt, which doubles with every attempt, and the longest before any.
const RETRY_DELAY: Millis = 5 * MINUTE;
const RETRY_DELAY_MAX: Millis = HOUR;

/// What happens in one attempt: who is at the other end, or what goes wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Person {
    Confirms,
    Declines,
    Voicemail,
    Busy,
    NoAnswer,
    Fails,
    /// The provider takes the call, forgets it, and never says a word.
    Hangs,
    /// Confirms, but the provider's answer to the dial is lost.
    AnswerLost,
    /// Confirms, and every webhook of it is lost.
    Silent,
    /// Confirms, once the provider takes the call.
    RateLimited,
    /// There is no such number.
    Invalid,
    /// Nobody: the provider is down, and does not even say whether it took the call.
    Down,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) lifecycle: &'static str,
    pub(super) outcome: &'static str,
    /// A phone rings.
    pub(super) rings: bool,
}

impl Person {
    /// The word that tells the fake provider; none: it is not for it to decide.
    pub(super) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Confirms => Some("confirms"),
            Self::Declines => Some("declines"),
            Self::Voicemail => Some("voicemail"),
            Self::Busy => Some("busy"),
            Self::NoAnswer => Some("no_answer"),
            Self::Fails => Some("fails"),
            Self::Hangs => Some("forgotten"),
            Self::AnswerLost => Some("response_lost"),
            Self::Silent => Some("silent"),
            Self::RateLimited => Some("rate_limited"),
            Self::Invalid => Some("invalid"),
            Self::Down => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Confirms => "confirmed",
            Self::Declines => "declined",
            Self::Voicemail => "voicemail",
            Self::Busy => "busy",
            Self::NoAnswer => "no answer",
            Self::Fails => "failed",
            Self::Hangs => "taken and forgotten by the provider",
            Self::AnswerLost => "confirmed, the answer to the dial lost",
            Self::Silent => "confirmed, every webhook lost",
            Self::RateLimited => "confirmed, not taken at once",
            Self::Invalid => "no such number",
            Self::Down => "not taken, the provider was down",
        }
    }

    pub(super) const fn truth(self) -> Truth {
        let (lifecycle, outcome, rings) = match self {
            Self::Confirms | Self::AnswerLost | Self::Silent | Self::RateLimited => ("completed", "confirmed", true),
            Self::Declines => ("completed", "declined", true),
            Self::Voicemail => ("completed", "voicemail", true),
            Self::Busy => ("busy", "no_answer", true),
            Self::NoAnswer => ("no_answer", "no_answer", true),
            Self::Fails => ("failed", "no_answer", true),
            Self::Hangs => ("inconclusive", "inconclusive", true),
            Self::Invalid => ("failed", "no_answer", false),
            Self::Down => ("inconclusive", "inconclusive", false),
        };
        Truth { lifecycle, outcome, rings }
    }
}

/// What becomes of a call, on the way there or in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Completed,
    Failed,
    /// Another attempt.
    Retried,
}

/// What is special about the asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    AtOnce,
    /// It is due at a later time.
    Later,
    /// Asked for more than once, and another call under the same key.
    Repeated,
    /// Due in a day, and triggered by hand.
    Triggered,
    Canceled,
    /// The person may be called at some hours alone.
    Windowed,
    /// Due while the provider is down.
    WhileDown,
    /// Tried more often, and again after a voicemail.
    Patient,
}

const COURSES: [Course; 13] = [
    Course::AtOnce,
    Course::Repeated,
    Course::AtOnce,
    Course::Triggered,
    Course::AtOnce,
    Course::Canceled,
    Course::Later,
    Course::WhileDown,
    Course::AtOnce,
    Course::Windowed,
    Course::Patient,
    Course::AtOnce,
    Course::WhileDown,
];

/// What happens in the attempts of calls in turn, the last in all that follow.
const LIVES: [&[Person]; 17] = [
    &[Person::Busy, Person::Confirms],
    &[Person::Confirms],
    &[Person::Silent],
    &[Person::NoAnswer],
    &[Person::AnswerLost],
    &[Person::Voicemail],
    &[Person::Hangs, Person::Declines],
    &[Person::Fails, Person::Confirms],
    &[Person::Confirms],
    &[Person::RateLimited],
    &[Person::Declines],
    &[Person::Invalid],
    &[Person::NoAnswer, Person::Busy, Person::AnswerLost],
    &[Person::Fails],
    &[Person::Confirms],
    &[Person::Voicemail, Person::Voicemail, Person::Confirms],
    &[Person::Hangs],
];

/// What is asked of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Create,
    /// The same once more.
    CreateAgain,
    /// Another call under the same key.
    CreateOther,
    Trigger,
    Cancel,
    TriggerCanceled,
}

impl Demand {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "POST /calls",
            Self::CreateAgain => "POST /calls, again",
            Self::CreateOther => "POST /calls, another under the same key",
            Self::Trigger | Self::TriggerCanceled => "POST trigger",
            Self::Cancel => "POST cancel",
        }
    }

    /// What it must be answered.
    const fn answer(self) -> u16 {
        match self {
            Self::Create => 201,
            Self::CreateAgain | Self::Trigger | Self::Cancel => 200,
            Self::CreateOther | Self::TriggerCanceled => 409,
        }
    }
}

/// One request to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// By our clock.
    pub(super) at: Millis,
    /// Index into the orders.
    pub(super) order: usize,
    pub(super) demand: Demand,
}

/// One call that Switchhook is asked to place.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The idempotency key: of it the id of the call is made.
    pub(super) key: String,
    pub(super) course: Course,
    pub(super) appointment_id: Option<String>,
    people: Vec<Person>,
    due_at: Option<Millis>,
    triggered_at: Option<Millis>,
    to: String,
}

impl Order {
    /// The `index`-th order, and what is asked of it when.
    pub(super) fn draw(index: usize, rng: &mut Rng) -> (Self, Vec<Request>) {
        let course = COURSES.get(index % COURSES.len()).copied().unwrap_or(Course::AtOnce);
        let mut people = LIVES.get(index % LIVES.len()).copied().unwrap_or(&[Person::Confirms]).to_vec();
        // Before the window opens, so that somebody has to wait.
        let within = if course == Course::Windowed { WINDOW_OPENS - START - 5 * MINUTE } else { ASKED_WITHIN };
        let created_at = START + rng.i64(0..within);
        let mut asked = vec![(created_at, Demand::Create)];
        let mut due_at = None;
        let mut triggered_at = None;
        match course {
            Course::AtOnce | Course::Windowed | Course::Patient => {}
            Course::Later => due_at = Some(created_at + rng.i64(2 * MINUTE..HOUR)),
            Course::Repeated => {
                asked.push((created_at + rng.i64(1..10 * SECOND), Demand::CreateAgain));
                asked.push((created_at + rng.i64(10 * SECOND..20 * MINUTE), Demand::CreateOther));
                asked.push((created_at + rng.i64(20 * MINUTE..HOUR), Demand::CreateAgain));
            }
            Course::Triggered => {
                let at = created_at + rng.i64(SECOND..10 * MINUTE);
                due_at = Some(created_at + 24 * HOUR);
                triggered_at = Some(at);
                asked.push((at, Demand::Trigger));
                // A trigger waives the due time of one claim: what the provider does not take then waits for its day.
                for person in people.iter_mut().filter(|person| **person == Person::RateLimited) {
                    *person = Person::Confirms;
                }
            }
            Course::Canceled => {
                let at = created_at + rng.i64(SECOND..50 * MINUTE);
                due_at = Some(created_at + HOUR);
                asked.push((at, Demand::Cancel));
                asked.push((at + rng.i64(SECOND..2 * HOUR), Demand::TriggerCanceled));
            }
            Course::WhileDown => due_at = Some(DOWN_FROM + rng.i64(MINUTE..8 * MINUTE)),
        }
        let order = Self {
            key: format!("order-{index:04}"),
            course,
            appointment_id: (rng.u8(..4) > 0).then(|| format!("placed_{index:04}")),
            people,
            due_at,
            triggered_at,
            to: format!("+4477009{index:05}"),
        };
        (order, asked.into_iter().map(|(at, demand)| Request { at, order: index, demand }).collect())
    }

    /// The body of the request that creates it; `other`: of one that asks for something else.
    pub(super) fn body(&self, other: bool) -> Value {
        let words: Vec<&str> = self.people.iter().filter_map(|person| person.word()).collect();
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("provider", "retell".into());
        set("from", "+442079460018".into());
        set("to", if other { "+442079460019" } else { self.to.as_str() }.into());
        set("metadata", json!({"fake": words.join(",")}));
        if let Some(appointment_id) = &self.appointment_id {
            set("appointment_id", appointment_id.as_str().into());
        }
        if let Some(due_at) = self.due_at {
            set("due_at", json!(jiff::Timestamp::from_millisecond(due_at).map(|at| at.to_string()).ok()));
        }
        match self.course {
            Course::Windowed => {
                let days = ["mon", "tue"];
                let window = json!({"time_zone": "Europe/London", "opens": "14:00", "closes": "23:59", "days": days});
                set("window", window);
            }
            Course::Patient => {
                set("retry", json!({"attempts_max": ATTEMPTS_MAX_OF_PATIENT, "voicemail": true}));
            }
            Course::AtOnce
            | Course::Later
            | Course::Repeated
            | Course::Triggered
            | Course::Canceled
            | Course::WhileDown => {}
        }
        Value::Object(body)
    }

    /// What happens in the attempts, some of which found the provider down, up to the one that is the last, and what the call
    /// comes to. The first has number 1.
    pub(super) fn life(&self, found_down: impl Fn(usize) -> bool) -> (Vec<Person>, Job) {
        let mut lived = Vec::new();
        loop {
            let place = lived.len();
            lived.push(if found_down(place + 1) { Person::Down } else { self.person(place + 1) });
            match self.job(&lived) {
                Job::Retried => {}
                job @ (Job::Completed | Job::Failed) => return (lived, job),
            }
        }
    }

    /// Who would be at the other end of this attempt. The first has number 1.
    pub(super) fn person(&self, number: usize) -> Person {
        self.people.get(number - 1).or(self.people.last()).copied().unwrap_or(Person::Confirms)
    }

    /// What policy makes of the attempts so far.
    fn job(&self, lived: &[Person]) -> Job {
        let Some(latest) = lived.last() else { return Job::Retried };
        let patient = self.course == Course::Patient;
        let left = lived.len() < if patient { ATTEMPTS_MAX_OF_PATIENT } else { ATTEMPTS_MAX };
        let again = match latest {
            Person::Confirms | Person::Declines | Person::AnswerLost | Person::Silent | Person::RateLimited => {
                return Job::Completed;
            }
            Person::Voicemail if !patient => return Job::Completed,
            Person::Voicemail if left => true,
            // Nobody was reached, and nobody will be tried again: but that a machine answered is an end.
            Person::Voicemail => false,
            Person::Busy | Person::NoAnswer | Person::Hangs | Person::Down => true,
            // What may pass is tried once more.
            Person::Fails => lived.iter().filter(|person| **person == Person::Fails).count() == 1,
            Person::Invalid => false,
        };
        if again && left { Job::Retried } else { Job::Failed }
    }

    /// What the appointment comes to.
    pub(super) fn appointment(lived: &[Person]) -> &'static str {
        match lived.last().map(|person| person.truth().outcome) {
            Some("confirmed") => "Confirmed",
            Some("declined") => "Declined",
            Some("voicemail") => "Voicemail",
            Some("no_answer") => "NoAnswer",
            Some("inconclusive") => "Inconclusive",
            Some(_) | None => "Pending",
        }
    }

    /// No attempt may be made before this, whatever comes of it; none may be made at all if it is canceled.
    fn not_before(&self) -> Millis {
        match self.course {
            Course::Windowed => WINDOW_OPENS,
            Course::Triggered => self.triggered_at.unwrap_or(START),
            Course::Canceled => Millis::MAX,
            Course::AtOnce | Course::Later | Course::Repeated | Course::WhileDown | Course::Patient => {
                self.due_at.unwrap_or(START)
            }
        }
    }

    /// The last moment at which an attempt may be made.
    fn not_after(&self) -> Millis {
        match self.course {
            Course::Windowed => WINDOW_CLOSES,
            Course::AtOnce
            | Course::Later
            | Course::Repeated
            | Course::Triggered
            | Course::Canceled
            | Course::WhileDown
            | Course::Patient => Millis::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(people: &[Person], course: Course) -> Order {
        let (drawn, _) = Order::draw(0, &mut Rng::with_seed(1));
        Order { people: people.to_vec(), course, ..drawn }
    }

    fn life(people: &[Person], course: Course) -> (usize, Job) {
        let (lived, job) = order(people, course).life(|_| false);
        (lived.len(), job)
    }

    #[test]
    fn calls_are_tried_as_often_as_policy_allows() {
        for (people, course, attempts, job) in [
            (&[Person::Confirms][..], Course::AtOnce, 1, Job::Completed),
            (&[Person::Busy, Person::Confirms], Course::AtOnce, 2, Job::Completed),
            (&[Person::NoAnswer], Course::AtOnce, 3, Job::Failed),
            (&[Person::NoAnswer], Course::Patient, 5, Job::Failed),
            (&[Person::Voicemail], Course::AtOnce, 1, Job::Completed),
            (&[Person::Voicemail, Person::Confirms], Course::Patient, 2, Job::Completed),
            (&[Person::Fails], Course::AtOnce, 2, Job::Failed),
            (&[Person::Invalid], Course::AtOnce, 1, Job::Failed),
            (&[Person::Hangs, Person::Declines], Course::AtOnce, 2, Job::Completed),
        ] {
            assert_eq!(life(people, course), (attempts, job), "{people:?}");
        }
    }

    #[test]
    fn attempt_at_a_provider_that_is_down_reaches_nobody() {
        let (lived, job) = order(&[Person::Busy, Person::Confirms], Course::AtOnce).life(|number| number == 1);
        assert_eq!((lived, job), (vec![Person::Down, Person::Confirms], Job::Completed));
    }
}
