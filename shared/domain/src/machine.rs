//! The generic machine: what states a set of events reaches, and which of them stands.
//!
//! **The state is a function of the set of events.** They are put into their canonical order, every state that a legal
//! edge leads to from a state reached before joins the set of reached states, and the highest of the set is the state.
//! So no order of delivery, no repetition and no late arrival can change the result, and adding an event can only add
//! states. The engine knows nothing about calls.

use std::fmt::Debug;

/// A state of a machine. States are ordered by precedence: of the reached states the highest one stands.
pub trait State: Copy + Ord + Debug + 'static {
    /// Every state, lowest precedence first; at most 16.
    const ALL: &'static [Self];

    /// The place in [`State::ALL`].
    fn rank(self) -> u8;
}

/// Declares the states of a machine in their precedence, lowest first, as `First < Second < Third`.
macro_rules! states {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$state_doc:meta])* $state:ident)<+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$state_doc])* $state),+ }

        impl $crate::machine::State for $name {
            const ALL: &'static [Self] = &[$(Self::$state),+];

            fn rank(self) -> u8 {
                self as u8
            }
        }
    };
}
pub(crate) use states;

/// One row of a table of edges: from this state, each input leads to that state.
pub type StateEdges<S, I> = (S, &'static [(I, S)]);

/// A machine, declared as data.
#[derive(Debug)]
pub struct Machine<S: 'static, I: 'static> {
    pub initial: S,
    pub edges: &'static [StateEdges<S, I>],
    /// Edges that are legal as well once patience has ended: what waited for a missing link is believed.
    pub presumed_edges: &'static [StateEdges<S, I>],
}

/// What became of one event in one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On the path of legal edges that leads to the present state.
    Applied,
    /// No legal path reaches it.
    Parked,
    /// Legal, after the event that made the present state, and leading off the path: contradictory.
    Refused,
    /// Legal, not on the path, and superseded.
    Stale,
    /// The machine has no edge for it.
    Unhandled,
}

/// The result of folding a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFold<S> {
    pub state: S,
    /// The running maximum after the initial state, each with the index of the event that made it.
    pub running_maxima: Vec<(S, usize)>,
    /// One for each event, in the order given.
    pub verdicts: Vec<Verdict>,
}

/// A set of at most 16 states.
#[derive(Clone, Copy)]
struct StateSet(u16);

impl StateSet {
    fn contains(self, state: impl State) -> bool {
        self.0 & (1 << state.rank()) != 0
    }

    fn insert(&mut self, state: impl State) {
        self.0 |= 1 << state.rank();
    }
}

/// How a state was first reached.
#[derive(Clone, Copy)]
struct Step<S> {
    to: S,
    from: S,
    event: usize,
}

impl<S: State, I: Copy + Eq> Machine<S, I> {
    /// Folds `events`, which are in canonical order. With `presuming`, the believed edges are legal too.
    #[must_use]
    pub fn fold(&self, events: &[I], presuming: bool) -> MachineFold<S> {
        let mut reached = StateSet(0);
        reached.insert(self.initial);
        let mut highest = self.initial;
        let mut steps: Vec<Step<S>> = Vec::new();
        let mut run = Vec::new();
        for (event, input) in events.iter().enumerate() {
            let before = reached;
            for (from, to) in self.legal(*input, presuming, before) {
                if !before.contains(to) {
                    reached.insert(to);
                    // From its highest predecessor: of two ways into a state, the later row replaces a lower one.
                    match steps.iter_mut().find(|step| step.to == to) {
                        Some(step) if step.from < from => step.from = from,
                        Some(_) => {}
                        None => steps.push(Step { to, from, event }),
                    }
                    if to > highest {
                        highest = to;
                    }
                }
            }
            if highest != run.last().map_or(self.initial, |(state, _)| *state) {
                run.push((highest, event));
            }
        }
        let path = path_to(highest, &steps);
        let made = path.first().map(|step| step.event);
        let mut reached = StateSet(0);
        reached.insert(self.initial);
        let verdicts = events
            .iter()
            .enumerate()
            .map(|(event, input)| {
                let before = reached;
                let targets: Vec<S> = self.legal(*input, presuming, before).map(|(_, to)| to).collect();
                for to in &targets {
                    reached.insert(*to);
                }
                let off_path = |to: &S| *to != self.initial && !path.iter().any(|step| step.to == *to);
                if path.iter().any(|step| step.event == event) {
                    Verdict::Applied
                } else if targets.is_empty() {
                    if self.handles(*input) { Verdict::Parked } else { Verdict::Unhandled }
                } else if made.is_some_and(|made| event > made) && targets.iter().any(off_path) {
                    Verdict::Refused
                } else {
                    Verdict::Stale
                }
            })
            .collect();
        MachineFold { state: highest, running_maxima: run, verdicts }
    }

    /// True if any edge, believed ones included, bears this input.
    #[must_use]
    pub fn handles(&self, input: I) -> bool {
        self.rows(true).any(|(_, edges)| edges.iter().any(|(on, _)| *on == input))
    }

    fn legal(&self, input: I, presuming: bool, reached: StateSet) -> impl Iterator<Item = (S, S)> {
        self.rows(presuming)
            .filter(move |(from, _)| reached.contains(*from))
            .flat_map(|(from, edges)| edges.iter().map(move |(on, to)| (*from, *on, *to)))
            .filter(move |(_, on, _)| *on == input)
            .map(|(from, _, to)| (from, to))
    }

    fn rows(&self, presuming: bool) -> impl Iterator<Item = &'static StateEdges<S, I>> {
        self.edges.iter().chain(self.presumed_edges.iter().filter(move |_| presuming))
    }
}

/// The steps from `state` back to the initial state, the last one first.
fn path_to<S: State>(state: S, steps: &[Step<S>]) -> Vec<Step<S>> {
    let mut path = Vec::new();
    let mut at = state;
    while let Some(step) = steps.iter().find(|step| step.to == at) {
        path.push(*step);
        at = step.from;
    }
    path
}
