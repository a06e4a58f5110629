//! What a run is made of: calls and troubles, all of them drawn from one seed. A plan is plain data, so that a run that fails
//! can be made smaller by leaving things out.

use fastrand::Rng;

use crate::calls::{Made, Order};

/// Seconds from the start after which nothing goes wrong any more.
pub(crate) const TROUBLES_END: u64 = 50 * 60;
/// Of so many seeds in a row each kind of trouble has one to itself, and one has none.
const CYCLE: u64 = 100;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    // Webhooks
    Twice,
    Late,
    Shuffled,
    Never,
    /// The provider reports an ending, and then another.
    TwoEndings,
    /// The providers sign with the old key, and from the middle on with the new one.
    Rotation,
    // Requests of a function to a service
    Throttled,
    Conflict,
    ServerError,
    /// It is done, and an error is answered.
    DoneButError,
    NotSent,
    AnswerLost,
    NoAnswer,
    Slow,
    /// The function dies before its request, or after it was done and before the answer.
    Death,
    // Event sources and schedules
    /// Messages are visible again while their consumer is at work.
    Overlap,
    /// A consumer did its work and dies before its messages are deleted.
    NotDeleted,
    ClaimTwice,
    /// A claim reaches its dialer when its lease is over.
    ClaimLate,
    ScheduleTwice,
    ScheduleNever,
    /// For longer than the stream keeps its records.
    RelayDown,
    BusRefuses,
    /// What nobody can read: a message, and a webhook.
    Poison,
    // The provider that places our calls
    DialDeath,
    ProviderDown,
}

/// Each with how often it happens where it can, while it lasts, in percent.
pub(crate) const KINDS: [(Kind, u8); 26] = [
    (Kind::Twice, 35),
    (Kind::Late, 15),
    (Kind::Shuffled, 35),
    (Kind::Never, 15),
    (Kind::TwoEndings, 50),
    (Kind::Rotation, 100),
    (Kind::Throttled, 8),
    (Kind::Conflict, 8),
    (Kind::ServerError, 8),
    (Kind::DoneButError, 8),
    (Kind::NotSent, 8),
    (Kind::AnswerLost, 8),
    (Kind::NoAnswer, 4),
    (Kind::Slow, 35),
    (Kind::Death, 4),
    (Kind::Overlap, 60),
    (Kind::NotDeleted, 15),
    (Kind::ClaimTwice, 50),
    (Kind::ClaimLate, 50),
    (Kind::ScheduleTwice, 35),
    (Kind::ScheduleNever, 50),
    (Kind::RelayDown, 100),
    (Kind::BusRefuses, 15),
    (Kind::Poison, 100),
    (Kind::DialDeath, 50),
    (Kind::ProviderDown, 100),
];

/// A kind of trouble for some time, in seconds from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    pub(crate) percent: u8,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Of every die that is thrown while the plan is carried out.
    pub(crate) seed: u64,
    pub(crate) made: Vec<Made>,
    pub(crate) orders: Vec<Order>,
    pub(crate) troubles: Vec<Trouble>,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let made = (0..rng.usize(3..9)).map(|index| Made::draw(index, &mut rng.fork())).collect();
        let orders = (0..rng.usize(2..8)).map(|index| Order::draw(index, &mut rng.fork())).collect();
        let turn = usize::try_from(seed % CYCLE).unwrap();
        let troubles = match KINDS.get(turn) {
            Some(alone) => vec![Trouble::draw(*alone, 0, &mut rng)],
            None if turn == KINDS.len() => Vec::new(),
            None => {
                let some: Vec<(Kind, u8)> = KINDS.into_iter().filter(|_| rng.u8(..5) == 0).collect();
                some.into_iter().map(|kind| Trouble::draw(kind, rng.u64(0..TROUBLES_END / 2), &mut rng)).collect()
            }
        };
        Self { seed, made, orders, troubles }
    }

    /// The same calls, and troubles of these kinds all the time.
    pub(crate) fn with_troubles(seed: u64, kinds: &[Kind]) -> Self {
        let troubles = KINDS.into_iter().filter(|(kind, _)| kinds.contains(kind));
        let all_the_time = |(kind, percent)| Trouble { kind, percent, from: 0, until: TROUBLES_END };
        Self { troubles: troubles.map(all_the_time).collect(), ..Self::draw(seed) }
    }

    /// The plans that have one thing less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        fn without<T: Clone>(all: &[T], index: usize) -> Vec<T> {
            all.iter().enumerate().filter(|(place, _)| *place != index).map(|(_, one)| one.clone()).collect()
        }
        let troubles =
            (0..self.troubles.len()).map(|index| Self { troubles: without(&self.troubles, index), ..self.clone() });
        let made = (0..self.made.len()).map(|index| Self { made: without(&self.made, index), ..self.clone() });
        let orders = (0..self.orders.len()).map(|index| Self { orders: without(&self.orders, index), ..self.clone() });
        troubles.chain(made).chain(orders).collect()
    }
}

impl Trouble {
    fn draw((kind, percent): (Kind, u8), from: u64, rng: &mut Rng) -> Self {
        // Longer than that, and the provider counts as one that cannot say anything.
        let longest = if kind == Kind::ProviderDown { 6 * 60 } else { TROUBLES_END - from };
        Self { kind, percent, from, until: from + rng.u64(longest / 2..=longest) }
    }
}
