//! The generic state machine. It knows nothing about calls.
//!
//! **The state is a function of the set of events.** The events are sorted into their canonical order. Starting with the
//! initial state, each event adds every state that a legal edge reaches from a state in the set. The state of the machine is
//! the highest state in the set.
//!
//! So the order of delivery, repetitions and late arrivals do not change the result. Adding an event can only add states.

use std::fmt::Debug;
use std::sync::OnceLock;

/// State of a machine. States are ordered by precedence: the highest reached state is the state of the machine.
pub trait State: Copy + Ord + Debug + 'static {
    /// Every state, lowest precedence first. At most 16.
    const ALL: &'static [Self];

    /// Position in [`State::ALL`].
    fn rank(self) -> u8;
}

/// Input of a machine.
pub trait Input: Copy + Eq + 'static {
    /// Number of the input, less than 32. No other input has it.
    fn number(self) -> u8;
}

/// Largest number of inputs of a machine.
pub(crate) const INPUTS_MAX: usize = 32;

/// Declares the states of a machine by precedence, lowest first: `First < Second < Third`.
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

/// Edges from one state: the state, and for each input the state that it leads to.
pub type StateEdges<S, I> = (S, &'static [(I, S)]);

/// State machine, declared as data.
#[derive(Debug)]
pub struct Machine<S: 'static, I: 'static> {
    pub initial: S,
    pub edges: &'static [StateEdges<S, I>],
    /// Edges that are legal only after a deadline has passed. Each of them presumes that an event happened which never arrived.
    pub presumed_edges: &'static [StateEdges<S, I>],
    /// For each input, by its number: the states with an edge for it, presumed edges included. Computed at first use.
    pub(crate) sources: OnceLock<[StateSet; INPUTS_MAX]>,
}

/// Effect of one event in one machine. The variants are in ascending strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The machine has no edge for the event.
    Unhandled,
    /// No legal path reaches the event.
    Parked,
    /// The event is legal, not on the path to the present state, and superseded.
    Stale,
    /// The event is legal but contradicts the present state: it comes after the event that made that state and leads off the
    /// path.
    Refused,
    /// The event repeats an applied event. So it is superseded, although it may contradict the present state of the other machine.
    Repeated,
    /// The event is on the path of legal edges that leads to the present state.
    Applied,
}

impl Verdict {
    /// Returns the stronger of two verdicts on one event: of two machines, or of two attempts.
    #[must_use]
    pub fn stronger(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Result of folding a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFold<S> {
    pub state: S,
    /// States that were the highest at some point of the fold, after the initial state. Each has the index of the event that
    /// made it.
    pub running_maxima: Vec<(S, usize)>,
    /// Verdict on each event, in the order given.
    pub verdicts: Vec<Verdict>,
}

/// Explanation of the [`Verdict`] on one event in one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding<S, I> {
    /// The machine has no edge for the event.
    Unhandled,
    /// No legal path reaches the event. `missing` are the inputs that would make it legal if they came before it. It is empty if
    /// only a passed deadline makes the event legal.
    NoPath { missing: Vec<I> },
    /// The event is legal and leads to `state`. The event at index `by` had reached that state before. With `is_applied`, that
    /// event is of the same kind and on the path to the present state.
    Repeated { state: S, by: usize, is_applied: bool },
    /// The event is legal and leads to `state`. The later event at index `by` made the present state, on another path.
    Outranked { state: S, by: usize },
    /// The event is legal and leads to `state`. The earlier event at index `by` made the present state, on another path.
    Contradicts { state: S, by: usize },
    /// The event is on the path to the present state, by this edge.
    Step { from: S, to: S, is_presumed: bool },
}

impl<S, I> Finding<S, I> {
    pub(crate) const fn verdict(&self) -> Verdict {
        match self {
            Self::Unhandled => Verdict::Unhandled,
            Self::NoPath { .. } => Verdict::Parked,
            Self::Repeated { is_applied: true, .. } => Verdict::Repeated,
            Self::Repeated { is_applied: false, .. } | Self::Outranked { .. } => Verdict::Stale,
            Self::Contradicts { .. } => Verdict::Refused,
            Self::Step { .. } => Verdict::Applied,
        }
    }
}

/// Set of at most 16 states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateSet(u16);

impl StateSet {
    /// Returns the states that are in this set and not in the other.
    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the states that are in both sets.
    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn contains(self, state: impl State) -> bool {
        self.0 & (1 << state.rank()) != 0
    }

    fn insert(&mut self, state: impl State) {
        self.0 |= 1 << state.rank();
    }
}

/// Set of inputs.
#[derive(Clone, Copy, Default)]
struct InputSet(u32);

impl InputSet {
    fn contains(self, input: impl Input) -> bool {
        self.0 & (1 << input.number()) != 0
    }

    fn insert(&mut self, input: impl Input) {
        self.0 |= 1 << input.number();
    }
}

/// Legal edges for one input, given the states that are reached before it.
#[derive(Clone, Copy, Default)]
struct Targets {
    /// Reached states with an edge for the input.
    reached: StateSet,
    /// States that the legal edges from the reached sources lead to.
    states: StateSet,
}

/// Walk of a machine through its events.
struct Walk<S, I> {
    /// State after all events.
    highest: S,
    running_maxima: Vec<(S, usize)>,
    /// Step by which each state was first reached.
    steps: Vec<Step<S, I>>,
    /// For each event, the states that its legal edges lead to. `None` if the machine has no edge for the event at all.
    targets: Vec<Option<StateSet>>,
}

/// Edge and event by which a state was first reached.
#[derive(Clone, Copy)]
struct Step<S, I> {
    to: S,
    from: S,
    event: usize,
    /// Input of the event.
    input: I,
}

impl<S: State, I: Input> Machine<S, I> {
    /// Folds `events`, which must be in canonical order. With `presuming`, the presumed edges are legal too.
    #[must_use]
    pub fn fold(&self, events: &[I], presuming: bool) -> MachineFold<S> {
        let Walk { highest, running_maxima, steps, targets } = self.walk(events, presuming);
        let path = path_to(highest, &steps);
        let made = path.first().map(|step| step.event);
        let mut on_path = StateSet::default();
        on_path.insert(self.initial);
        for step in &path {
            on_path.insert(step.to);
        }
        // Each step of the path has a later event than the step before it.
        let mut ahead = path.iter().rev().peekable();
        let mut applied = InputSet::default();
        let verdicts = events
            .iter()
            .zip(targets)
            .enumerate()
            .map(|(event, (input, targets))| {
                // No event without an edge is on the path, nor repeats one that is.
                let Some(targets) = targets else { return Verdict::Unhandled };
                if ahead.next_if(|step| step.event == event).is_some() {
                    applied.insert(*input);
                    Verdict::Applied
                } else if applied.contains(*input) {
                    Verdict::Repeated
                } else if targets.is_empty() {
                    Verdict::Parked
                } else if made.is_some_and(|made| event > made) && !targets.without(on_path).is_empty() {
                    Verdict::Refused
                } else {
                    Verdict::Stale
                }
            })
            .collect();
        MachineFold { state: highest, running_maxima, verdicts }
    }

    /// Returns the state after all events, which must be in canonical order.
    pub(crate) fn state(&self, events: &[I], presuming: bool) -> S {
        self.walk(events, presuming).highest
    }

    /// Explains the verdict on the event at index `event`. The events are those of [`Machine::fold`].
    pub(crate) fn explain(&self, events: &[I], presuming: bool, event: usize) -> Finding<S, I> {
        let Some(input) = events.get(event).copied() else { return Finding::Unhandled };
        let Walk { highest, steps, .. } = self.walk(events, presuming);
        let path = path_to(highest, &steps);
        if let Some(step) = path.iter().find(|step| step.event == event) {
            let edges = self.edges.iter().filter(|(from, _)| *from == step.from);
            let is_presumed = !edges.flat_map(|(_, edges)| *edges).any(|edge| *edge == (input, step.to));
            return Finding::Step { from: step.from, to: step.to, is_presumed };
        }
        if let Some(step) = repeated(&path, input, event) {
            return Finding::Repeated { state: step.to, by: step.event, is_applied: true };
        }
        let mut before = StateSet::default();
        before.insert(self.initial);
        for step in steps.iter().filter(|step| step.event < event) {
            before.insert(step.to);
        }
        let mut targets: Vec<S> = self.legal(input, presuming, before).map(|(_, to)| to).collect();
        // The highest state first: it says most about the event.
        targets.sort_by(|a, b| b.cmp(a));
        let is_on_path = |to: S| path.iter().any(|step| step.to == to);
        let made = path.first().map(|step| step.event);
        let off_path = targets.iter().copied().find(|to| !is_on_path(*to));
        let reached_before = |to: &S| steps.iter().find(|step| step.to == *to && step.event < event);
        match (targets.first(), off_path, made) {
            (None, _, _) if self.handles(input) => Finding::NoPath { missing: self.missing(input, presuming, before) },
            (None, _, _) => Finding::Unhandled,
            (Some(_), Some(state), Some(by)) if event > by => Finding::Contradicts { state, by },
            (Some(first), _, made) => {
                let new = targets.iter().copied().find(|to| reached_before(to).is_none());
                let repeated = reached_before(first);
                let repeated =
                    repeated.map(|step| Finding::Repeated { state: *first, by: step.event, is_applied: false });
                let outranked = new.zip(made).map(|(state, by)| Finding::Outranked { state, by });
                outranked.or(repeated).unwrap_or(Finding::Unhandled)
            }
        }
    }

    /// Returns the shortest sequence of inputs that leads from a reached state to a state with an edge for `input`. Empty if
    /// there is none.
    fn missing(&self, input: I, presuming: bool, reached: StateSet) -> Vec<I> {
        let is_wanted = |state: S| {
            self.rows(presuming).any(|(from, edges)| *from == state && edges.iter().any(|(on, _)| *on == input))
        };
        let starts = S::ALL.iter().rev().copied().filter(|state| reached.contains(*state));
        let mut paths: Vec<(S, Vec<I>)> = starts.map(|state| (state, Vec::new())).collect();
        let mut seen = reached;
        while !paths.is_empty() {
            if let Some((_, path)) = paths.iter().find(|(state, _)| is_wanted(*state)) {
                return path.clone();
            }
            let mut longer = Vec::new();
            for (state, path) in &paths {
                let edges = self.rows(presuming).filter(|(from, _)| from == state).flat_map(|(_, edges)| *edges);
                for (on, to) in edges {
                    if !seen.contains(*to) {
                        seen.insert(*to);
                        longer.push((*to, path.iter().copied().chain([*on]).collect()));
                    }
                }
            }
            paths = longer;
        }
        Vec::new()
    }

    fn walk(&self, events: &[I], presuming: bool) -> Walk<S, I> {
        let mut reached = StateSet::default();
        reached.insert(self.initial);
        let mut highest = self.initial;
        let mut steps: Vec<Step<S, I>> = Vec::with_capacity(S::ALL.len());
        let mut running_maxima = Vec::new();
        // A long history repeats its inputs, and the reached states seldom change. The index is the number of the input.
        let mut known = [Targets::default(); INPUTS_MAX];
        let sources = self.sources();
        let targets_of = |(event, input): (usize, &I)| {
            let sources = of_input(sources, *input);
            let entry = known.get_mut(usize::from(input.number())).filter(|_| !sources.is_empty())?;
            let before = reached;
            // If no source was reached since the last event with this input, the edges lead to nothing new.
            if entry.reached != before.and(sources) {
                entry.reached = before.and(sources);
                for (from, to) in self.legal(*input, presuming, before) {
                    entry.states.insert(to);
                    if before.contains(to) {
                        continue;
                    }
                    reached.insert(to);
                    // If one event reaches a state by two edges, the edge from the higher state counts.
                    match steps.iter_mut().find(|step| step.to == to) {
                        Some(step) if step.from < from => step.from = from,
                        Some(_) => {}
                        None => steps.push(Step { to, from, event, input: *input }),
                    }
                    highest = highest.max(to);
                }
                if highest != running_maxima.last().map_or(self.initial, |(state, _)| *state) {
                    running_maxima.push((highest, event));
                }
            }
            Some(entry.states)
        };
        let targets = events.iter().enumerate().map(targets_of).collect();
        Walk { highest, running_maxima, steps, targets }
    }

    /// Returns for each input, by its number, the states with an edge for it, presumed edges included.
    fn sources(&self) -> &[StateSet; INPUTS_MAX] {
        self.sources.get_or_init(|| {
            let mut sources = [StateSet::default(); INPUTS_MAX];
            for (from, edges) in self.rows(true) {
                for (on, _) in *edges {
                    if let Some(sources) = sources.get_mut(usize::from(on.number())) {
                        sources.insert(*from);
                    }
                }
            }
            sources
        })
    }

    /// True if any edge has this input, presumed edges included.
    #[must_use]
    pub fn handles(&self, input: I) -> bool {
        !of_input(self.sources(), input).is_empty()
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

fn of_input(sources: &[StateSet; INPUTS_MAX], input: impl Input) -> StateSet {
    sources.get(usize::from(input.number())).copied().unwrap_or_default()
}

/// Returns the step on the path that an earlier event with the same input made.
fn repeated<S: State, I: Input>(path: &[Step<S, I>], input: I, event: usize) -> Option<Step<S, I>> {
    path.iter().copied().find(|step| step.event < event && step.input == input)
}

/// Returns the steps from `state` back to the initial state, the last one first.
fn path_to<S: State, I: Input>(state: S, steps: &[Step<S, I>]) -> Vec<Step<S, I>> {
    let mut path = Vec::new();
    let mut at = state;
    while let Some(step) = steps.iter().find(|step| step.to == at) {
        path.push(*step);
        at = step.from;
    }
    path
}
