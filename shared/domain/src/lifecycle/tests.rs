use std::collections::BTreeSet;
use std::fmt::Debug;

use super::*;
use crate::machine::{State, Verdict};

const HISTORY_MAX: usize = 6;

fn inputs<S: State>(machine: &Machine<S, EventKind>) -> Vec<EventKind> {
    EventKind::ALL.into_iter().filter(|kind| machine.handles(*kind)).collect()
}

/// Calls `visit` with every history over `inputs` up to `length`, including the empty history.
fn histories(inputs: &[EventKind], length: usize, visit: &mut impl FnMut(&[EventKind])) {
    fn go(inputs: &[EventKind], left: usize, history: &mut Vec<EventKind>, visit: &mut impl FnMut(&[EventKind])) {
        visit(history);
        if left == 0 {
            return;
        }
        for input in inputs {
            history.push(*input);
            go(inputs, left - 1, history, visit);
            history.pop();
        }
    }
    go(inputs, length, &mut Vec::new(), visit);
}

fn next<S: State>(machine: &Machine<S, EventKind>, state: S, input: EventKind) -> Option<S> {
    let row = machine.edges.iter().find(|(from, _)| *from == state)?;
    row.1.iter().find(|(on, _)| *on == input).map(|(_, to)| *to)
}

/// Applies the events in order, as a plain reducer does. `None` if an event is not legal in the state before it.
fn reduce<S: State>(machine: &Machine<S, EventKind>, history: &[EventKind]) -> Option<S> {
    history.iter().try_fold(machine.initial, |state, input| next(machine, state, *input))
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, *item);
            all.push(tail);
        }
    }
    all
}

/// Every edge of both machines leads to a state of higher precedence. Property 4, faithful, depends on it.
#[test]
fn every_edge_leads_upwards() {
    fn check<S: State>(machine: &Machine<S, EventKind>) {
        assert!(S::ALL.len() <= 16, "a set of states is one u16");
        assert!(S::ALL.is_sorted());
        for (from, edges) in machine.edges.iter().chain(machine.presumed_edges) {
            for (_, to) in *edges {
                assert!(to > from, "{from:?} -> {to:?}");
            }
        }
    }
    check(&LIFECYCLE);
    check(&OUTCOME);
}

#[test]
fn endings_are_the_states_without_edges() {
    for state in Lifecycle::ALL {
        assert_eq!(state.is_ending(), LIFECYCLE.edges.iter().all(|(from, _)| from != state));
    }
    for state in Outcome::ALL {
        assert_eq!(state.is_ending(), OUTCOME.edges.iter().all(|(from, _)| from != state));
    }
}

/// Checks properties 2 to 5 of the design for every history up to length 6, with and without presumed edges. Insertions are
/// tried up to length 5. Property 1, order does not matter, concerns whole calls, which sort their events: see tests/call.rs.
fn invariant_of_every_history<S: State>(machine: &Machine<S, EventKind>) {
    let inputs = inputs(machine);
    for presuming in [false, true] {
        let mut seen = 0;
        histories(&inputs, HISTORY_MAX, &mut |history| {
            seen += 1;
            let folded = machine.fold(history, presuming);
            // 4. Faithful.
            if let Some(state) = reduce(machine, history)
                && !presuming
            {
                assert_eq!(folded.state, state, "{history:?}");
                assert!(folded.verdicts.iter().all(|v| *v == Verdict::Applied), "{history:?}");
            }
            // 5. Entered at most once, upwards.
            let run: BTreeSet<S> = folded.running_maxima.iter().map(|(state, _)| *state).collect();
            assert_eq!(run.len(), folded.running_maxima.len());
            assert!(folded.running_maxima.is_sorted());
            let those = |wanted: fn(Verdict) -> bool| -> Vec<EventKind> {
                let verdicts = history.iter().zip(&folded.verdicts);
                verdicts.filter(|(_, verdict)| wanted(**verdict)).map(|(input, _)| *input).collect()
            };
            // The applied events alone give the same state.
            let path = those(|verdict| verdict == Verdict::Applied);
            assert_eq!(machine.fold(&path, presuming).state, folded.state, "{history:?}");
            // Without the parked events, nothing changes.
            let unparked = machine.fold(&those(|verdict| verdict != Verdict::Parked), presuming);
            let states = |run: &[(S, usize)]| run.iter().map(|(state, _)| *state).collect::<Vec<_>>();
            assert_eq!(states(&unparked.running_maxima), states(&folded.running_maxima), "{history:?}");
            if history.len() == HISTORY_MAX {
                return;
            }
            for at in 0..=history.len() {
                for input in &inputs {
                    let mut more = history.to_vec();
                    more.insert(at, *input);
                    let grown = machine.fold(&more, presuming);
                    // 3. Never backwards.
                    assert!(grown.state >= folded.state, "{history:?} + {input:?} at {at}");
                    // 2. Duplicates do not matter: an equal event next to it changes nothing.
                    if history.get(at) == Some(input) {
                        assert_eq!(grown.state, folded.state);
                    }
                    // Presumed edges only add states.
                    assert!(machine.fold(history, true).state >= folded.state);
                }
            }
        });
        let expected: usize = (0..=HISTORY_MAX as u32).map(|n| inputs.len().pow(n)).sum();
        assert_eq!(seen, expected);
    }
}

#[test]
fn invariant_of_every_lifecycle_history() {
    invariant_of_every_history(&LIFECYCLE);
}

#[test]
fn invariant_of_every_outcome_history() {
    invariant_of_every_history(&OUTCOME);
}

/// Counts the orders of legal histories, and those in which the usual reducer ends in a wrong state. The usual reducer keeps
/// the present state, applies an event if its edge is legal, and drops an event that is older than the last one applied.
/// Returns (wrong, all).
fn wrong_orders<S: State + Debug>(
    machine: &Machine<S, EventKind>,
    label: impl Fn(S) -> &'static str,
) -> (usize, usize) {
    let (mut orders, mut wrong) = (0, 0);
    histories(&inputs(machine), HISTORY_MAX, &mut |history| {
        let Some(truth) = reduce(machine, history) else {
            return;
        };
        let indices: Vec<usize> = (0..history.len()).collect();
        for order in permutations(&indices) {
            let (mut state, mut last) = (machine.initial, None);
            for at in &order {
                if last.is_none_or(|last| last < *at)
                    && let Some(to) = next(machine, state, history[*at])
                {
                    (state, last) = (to, Some(*at));
                }
            }
            orders += 1;
            wrong += usize::from(label(state) != label(truth));
        }
    });
    (wrong, orders)
}

#[test]
fn usual_reducer_gets_eleven_of_the_lifecycles_32_orders_wrong() {
    assert_eq!(wrong_orders(&LIFECYCLE, Lifecycle::label), (11, 32));
}

#[test]
fn late_answer_unparks_completion() {
    let parked = LIFECYCLE.fold(&[Ringing, Completed], false);
    assert_eq!(parked.state, L::Ringing);
    assert_eq!(parked.verdicts, [Verdict::Applied, Verdict::Parked]);
    let folded = LIFECYCLE.fold(&[Ringing, InProgress, Completed], false);
    assert_eq!(folded.state, L::Completed);
    assert_eq!(folded.running_maxima, [(L::Ringing, 0), (L::InProgress, 1), (L::Completed, 2)]);
}

#[test]
fn no_answer_while_in_progress_does_not_end_the_call() {
    let before = LIFECYCLE.fold(&[Ringing, NoAnswer, InProgress], false);
    assert_eq!(before.state, L::InProgress);
    assert_eq!(before.verdicts, [Verdict::Applied, Verdict::Stale, Verdict::Applied]);
    let after = LIFECYCLE.fold(&[Ringing, InProgress, NoAnswer], false);
    assert_eq!(after.state, L::InProgress);
    assert_eq!(after.verdicts, [Verdict::Applied, Verdict::Applied, Verdict::Refused]);
}

#[test]
fn second_ringing_is_stale() {
    let folded = LIFECYCLE.fold(&[Ringing, InProgress, Ringing], false);
    assert_eq!(folded.verdicts, [Verdict::Applied, Verdict::Applied, Verdict::Repeated]);
}

/// The lifecycle's edge from `Initiated` leads elsewhere, and the outcome's edge leads to `NoAnswer`. Neither makes the
/// repetition a contradiction.
#[test]
fn second_failure_after_an_answer_is_repeated() {
    for ending in [Failed, Busy] {
        let history = [Ringing, InProgress, ending, ending];
        assert_eq!(LIFECYCLE.fold(&history, false).verdicts.last(), Some(&Verdict::Repeated), "{ending:?}");
        let outcome = OUTCOME.fold(&history, false).verdicts;
        assert_eq!(outcome.last(), Some(&Verdict::Refused), "{ending:?}");
    }
    // A repetition of an event that was refused is refused too.
    let refused = LIFECYCLE.fold(&[Ringing, InProgress, NoAnswer, NoAnswer], false);
    assert_eq!(refused.verdicts.get(2..), Some([Verdict::Refused, Verdict::Refused].as_slice()));
}

#[test]
fn completed_after_busy_ranks_below_it_even_when_presumed() {
    assert_eq!(LIFECYCLE.fold(&[Ringing, Busy, Completed], true).state, L::Busy);
    assert_eq!(LIFECYCLE.fold(&[Completed], true).state, L::PresumedCompleted);
    assert_eq!(LIFECYCLE.fold(&[Completed], false).state, L::Initiated);
}

#[test]
fn confirmation_without_an_answer_waits_until_it_is_presumed() {
    let parked = OUTCOME.fold(&[UserConfirmed], false);
    assert_eq!((parked.state, parked.verdicts), (O::Dialing, vec![Verdict::Parked]));
    assert_eq!(OUTCOME.fold(&[UserConfirmed], true).state, O::Confirmed);
}
