//! What Switchhook must have learned of a call that it placed, and when: what the provider's record says of dials, webhooks and
//! answers, in the words of the oracle.
//!
//! **How a call became known is no matter of opinion.** A webhook that was sent was received, and an answer that was given was
//! read, in the same instant: nothing is lost between the fake provider and the stack. So where a history branches (the webhook
//! of an ending was never sent, and the reconciler was answered instead), the record says which branch was taken.

use super::{Demand, Job, Millis, Order, Person, RETRY_DELAY, RETRY_DELAY_MAX};
use crate::demo::oracle::{Moment, Plan, Receipt, Retry, Subject};
use crate::demo::play::{Placed, Rang, RequestResult, Told};
use crate::demo::script::{Ending, Fact, Report, Said, Vendor};

/// The reports that there can be of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The answer to the dial.
    Dial,
    Started,
    Ended,
    Analysed,
}

impl Word {
    const ALL: [Self; 4] = [Self::Dial, Self::Started, Self::Ended, Self::Analysed];

    /// Of a webhook.
    fn of(event: &str) -> Option<Self> {
        match event {
            "call_started" => Some(Self::Started),
            "call_ended" => Some(Self::Ended),
            "call_analyzed" => Some(Self::Analysed),
            _ => None,
        }
    }
}

/// What was learned of one call.
#[derive(Debug)]
pub(super) struct Learned<'a> {
    order: &'a Order,
    placed: &'a Placed,
    /// [`Word::ALL`] of the first attempt, then of the second, and so on.
    reports: Vec<Report>,
    plan: Plan,
}

impl<'a> Learned<'a> {
    /// `lived` is what happened in the attempts, and `job` what the call comes to; none if it is canceled.
    pub(super) fn of(order: &'a Order, placed: &'a Placed, lived: &[Person], job: Option<Job>) -> Self {
        let attempts = lived.iter().zip(1..);
        let reports = attempts.flat_map(|(person, number)| {
            let rang = placed.rang_for(number);
            Word::ALL.map(|word| report(*person, number, word, rang))
        });
        let canceled = placed.replies.iter().find(|reply| reply.request.demand == Demand::Cancel);
        let plan = Plan {
            dialled_at: (1..=lived.len()).map(|number| placed.dialled_at(number).unwrap_or(Millis::MAX)).collect(),
            retries: (1..lived.len()).map(|number| retry_after(placed, number)).collect(),
            fails: job == Some(Job::Failed),
            canceled_at: canceled.map(|reply| reply.request.at),
        };
        Self { order, placed, reports: reports.collect(), plan }
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        let attempts = 1..=self.plan.dialled_at.len();
        let rang = attempts.map(|number| self.placed.rang_for(number));
        Subject {
            call_id: &self.placed.call_id,
            vendor: Vendor::Retell,
            appointment_id: self.order.appointment_id.as_deref(),
            vendor_call_ids: rang.map(|rang| rang.map(|rang| rang.provider_call_id.as_str())).collect(),
            reports: &self.reports,
            plan: Some(self.plan.clone()),
        }
    }

    /// Everything that came or was answered, in the order of time.
    pub(super) fn moments(&self, lived: &[Person]) -> Vec<Moment> {
        let mut moments: Vec<Moment> = Vec::new();
        for (person, number) in lived.iter().zip(1..) {
            let receipt = |word, at| self.receipt(*person, number, word, at);
            for told in self.placed.told_of(number) {
                match told.tale {
                    RequestResult::Accepted if *person == Person::AnswerLost => {}
                    RequestResult::Accepted | RequestResult::Rejected => {
                        moments.push(Moment::Came(receipt(Word::Dial, told.at)))
                    }
                    RequestResult::RateLimited | RequestResult::Unavailable => {}
                    RequestResult::NotFound => moments.push(Moment::Unknown { attempt: number - 1, at: told.at }),
                    // That it lives is all that a dial's answer would have said.
                    RequestResult::InProgress => moments.push(Moment::Asked(receipt(Word::Dial, told.at))),
                    RequestResult::Ended => moments.push(Moment::Asked(receipt(Word::Ended, told.at))),
                    RequestResult::Analysed => moments.push(Moment::Asked(receipt(Word::Analysed, told.at))),
                }
            }
            let Some(rang) = self.placed.rang_for(number) else { continue };
            for sent in self.placed.sent.iter().filter(|sent| sent.provider_call_id == rang.provider_call_id) {
                moments.extend(Word::of(sent.event).map(|word| Moment::Came(receipt(word, sent.at))));
            }
        }
        moments.sort_by_key(Moment::at);
        moments
    }

    fn receipt(&self, person: Person, number: usize, word: Word, at: Millis) -> Receipt {
        let place = Word::ALL.iter().position(|other| *other == word).unwrap_or_default();
        let provider_call_id = self.placed.rang_for(number).map_or("", |rang| rang.provider_call_id.as_str());
        let event_id = match word {
            Word::Dial => {
                let answer = if person == Person::Invalid { "dial_refused" } else { "dial_accepted" };
                format!("switchhook:{}/{number}/{answer}", self.placed.call_id)
            }
            Word::Started => format!("retell:{provider_call_id}:call_started"),
            Word::Ended => format!("retell:{provider_call_id}:call_ended"),
            Word::Analysed => self.id_of_analysis(provider_call_id),
        };
        Receipt { report: (number - 1) * Word::ALL.len() + place, event_id, at }
    }

    /// An analysis has a name made of what it holds, and each call is analysed once: it is the one of that name in the timeline.
    fn id_of_analysis(&self, provider_call_id: &str) -> String {
        let begins = format!("retell:{provider_call_id}:call_analyzed:");
        let ids = self.placed.shown.timeline.iter().filter_map(|entry| entry.get("event_id")?.as_str());
        let id = ids.filter(|id| id.starts_with(&begins)).find_map(|id| id.split('~').next());
        id.map_or(begins, str::to_owned)
    }
}

impl Placed {
    /// True if this attempt, the first being 1, found the provider down.
    pub(in crate::demo) fn found_down(&self, number: usize) -> bool {
        self.told_of(number).any(|told| told.tale == RequestResult::Unavailable)
    }

    /// What the provider answered to each dial of an attempt.
    pub(super) fn dials_of(&self, number: usize) -> impl Iterator<Item = &Told> {
        self.told_of(number).filter(|told| is_of_dial(told.tale))
    }

    /// When the attempt was dialled: what the provider does not take at that time is not dialled.
    pub(super) fn dialled_at(&self, number: usize) -> Option<Millis> {
        self.dials_of(number).find(|told| told.tale != RequestResult::RateLimited).map(|told| told.at)
    }

    /// When the provider was asked about an attempt, and had no such call.
    pub(super) fn found_unknown(&self, number: usize) -> impl Iterator<Item = Millis> {
        self.told_of(number).filter(|told| told.tale == RequestResult::NotFound).map(|told| told.at)
    }

    pub(super) fn rang_for(&self, number: usize) -> Option<&Rang> {
        self.rang.iter().find(|rang| rang.attempt == number.to_string())
    }

    fn told_of(&self, number: usize) -> impl Iterator<Item = &Told> {
        self.told.iter().filter(move |told| told.attempt == number.to_string())
    }
}

const fn is_of_dial(tale: RequestResult) -> bool {
    match tale {
        RequestResult::Accepted | RequestResult::RateLimited | RequestResult::Rejected | RequestResult::Unavailable => {
            true
        }
        RequestResult::NotFound | RequestResult::InProgress | RequestResult::Ended | RequestResult::Analysed => false,
    }
}

/// The attempt after this one: when it may be due at the latest, and when it was first asked for.
fn retry_after(placed: &Placed, number: usize) -> Retry {
    let doubled = (1..number).fold(RETRY_DELAY, |delay, _| (delay * 2).min(RETRY_DELAY_MAX));
    let asked_at = placed.dials_of(number + 1).map(|told| told.at).next();
    Retry { delay_max: doubled, asked_at: asked_at.unwrap_or(Millis::MAX) }
}

fn report(person: Person, number: usize, word: Word, rang: Option<&Rang>) -> Report {
    let says = match (word, rang) {
        (Word::Dial, _) if person == Person::Invalid => vec![Said { fact: Fact::Ended(Ending::Failed), at: None }],
        (Word::Dial, _) => vec![Said { fact: Fact::Begun, at: None }],
        (_, None) => Vec::new(),
        (Word::Started, Some(rang)) => path(person, rang),
        (Word::Ended, Some(rang)) => over(person, rang),
        (Word::Analysed, Some(rang)) => {
            let word = match person.truth().outcome {
                "confirmed" => Some(Fact::Confirmed),
                "declined" => Some(Fact::Declined),
                _ => None,
            };
            let mut says = over(person, rang);
            says.extend(word.map(|fact| Said { fact, at: Some(rang.ended) }));
            says
        }
    };
    Report {
        name: format!("{word:?}"),
        attempt: number - 1,
        names_attempt: true,
        says,
        emitted_at: Millis::MIN,
        query: String::new(),
        body: Vec::new(),
    }
}

/// That it rang, and that it was answered, at the one time that Retell keeps of both.
fn path(person: Person, rang: &Rang) -> Vec<Said> {
    match (rang.answered, person) {
        (Some(at), _) => [Fact::Rang, Fact::Answered].map(|fact| Said { fact, at: Some(at) }).to_vec(),
        (None, Person::Busy | Person::NoAnswer) => vec![Said { fact: Fact::Rang, at: Some(rang.ended) }],
        (None, _) => Vec::new(),
    }
}

fn over(person: Person, rang: &Rang) -> Vec<Said> {
    let ending = match person {
        Person::Busy => Ending::Busy,
        Person::NoAnswer => Ending::NoAnswer,
        Person::Fails | Person::Invalid | Person::Down => Ending::Failed,
        Person::Confirms
        | Person::Declines
        | Person::Voicemail
        | Person::Hangs
        | Person::AnswerLost
        | Person::Silent
        | Person::RateLimited => Ending::Completed,
    };
    let mut says = path(person, rang);
    if person == Person::Voicemail {
        says.push(Said { fact: Fact::Voicemail, at: Some(rang.ended) });
    }
    says.push(Said { fact: Fact::Ended(ending), at: Some(rang.ended) });
    says
}
