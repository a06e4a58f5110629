//! The two machines of an attempt, as tables.

use crate::event::EventKind::{
    self, Busy, Canceled, Completed, Failed, InProgress, NoAnswer, Ringing, UserConfirmed, UserDeclined,
    VoicemailDetected,
};
use crate::machine::{Machine, states};
use Lifecycle as L;
use Outcome as O;

states! {
    /// Where an attempt stands. An answered call outranks one that was not, so the endings that can follow an answer
    /// exist twice: `Busy` and `Failed` before it, `BusyAfterAnswer` and `FailedAfterAnswer` after it.
    pub enum Lifecycle {
        Initiated
        < Ringing
        < /// Completed, but the answer was never reported: believed when patience ended.
          PresumedCompleted
        < NoAnswer
        < Canceled
        < Busy
        < Failed
        < InProgress
        < BusyAfterAnswer
        < FailedAfterAnswer
        < Completed
    }
}

/// `Lifecycle`, driven by call events.
pub static LIFECYCLE: Machine<Lifecycle, EventKind> = Machine {
    initial: L::Initiated,
    edges: &[
        (L::Initiated, &[(Ringing, L::Ringing), (Failed, L::Failed), (Canceled, L::Canceled)]),
        (
            L::Ringing,
            &[
                (InProgress, L::InProgress),
                (Busy, L::Busy),
                (NoAnswer, L::NoAnswer),
                (Failed, L::Failed),
                (Canceled, L::Canceled),
            ],
        ),
        (L::InProgress, &[(Completed, L::Completed), (Failed, L::FailedAfterAnswer), (Busy, L::BusyAfterAnswer)]),
    ],
    presumed_edges: &[
        (L::Initiated, &[(NoAnswer, L::NoAnswer), (Busy, L::Busy), (Completed, L::PresumedCompleted)]),
        (L::Ringing, &[(Completed, L::PresumedCompleted)]),
    ],
};

states! {
    /// What an attempt achieved.
    pub enum Outcome { Dialing < NoAnswer < Connected < Voicemail < Declined < Confirmed }
}

/// `Outcome`, driven by the same call events.
pub static OUTCOME: Machine<Outcome, EventKind> = Machine {
    initial: O::Dialing,
    edges: &[
        (
            O::Dialing,
            &[
                (InProgress, O::Connected),
                (NoAnswer, O::NoAnswer),
                (Busy, O::NoAnswer),
                (Failed, O::NoAnswer),
                (Canceled, O::NoAnswer),
                (VoicemailDetected, O::Voicemail),
            ],
        ),
        (
            O::Connected,
            &[(UserConfirmed, O::Confirmed), (UserDeclined, O::Declined), (VoicemailDetected, O::Voicemail)],
        ),
    ],
    presumed_edges: &[(O::Dialing, &[(UserConfirmed, O::Confirmed), (UserDeclined, O::Declined)])],
};

impl Lifecycle {
    /// True if nothing follows.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        match self {
            L::Initiated | L::Ringing | L::InProgress => false,
            L::PresumedCompleted
            | L::NoAnswer
            | L::Canceled
            | L::Busy
            | L::Failed
            | L::BusyAfterAnswer
            | L::FailedAfterAnswer
            | L::Completed => true,
        }
    }

    /// The name that people and programs are shown: one for each kind of ending.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            L::Initiated => "initiated",
            L::Ringing => "ringing",
            L::NoAnswer => "no_answer",
            L::Canceled => "canceled",
            L::InProgress => "in_progress",
            L::Busy | L::BusyAfterAnswer => "busy",
            L::Failed | L::FailedAfterAnswer => "failed",
            L::Completed | L::PresumedCompleted => "completed",
        }
    }
}

impl Outcome {
    /// True if nothing follows.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        match self {
            O::Dialing | O::Connected => false,
            O::NoAnswer | O::Voicemail | O::Declined | O::Confirmed => true,
        }
    }

    /// The name that people and programs are shown.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            O::Dialing => "dialing",
            O::NoAnswer => "no_answer",
            O::Connected => "connected",
            O::Voicemail => "voicemail",
            O::Declined => "declined",
            O::Confirmed => "confirmed",
        }
    }
}

/// What is shown, announced and settled of an attempt that went silent without an ending: not evidence but its absence.
pub const INCONCLUSIVE: &str = "inconclusive";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Debug;

    use super::*;
    use crate::machine::{State, Verdict};

    const HISTORY_MAX: usize = 6;

    fn inputs<S: State>(machine: &Machine<S, EventKind>) -> Vec<EventKind> {
        EventKind::ALL.into_iter().filter(|kind| machine.handles(*kind)).collect()
    }

    /// Calls `visit` with every history over `inputs` up to `length`, the empty one included.
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

    /// The plain reducer in order: `None` if some event is not legal after the one before.
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

    /// Every edge of both machines leads to a higher precedence: what faithfulness needs.
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

    /// Properties 2 to 5 of the design, for every history up to length 6 (5 before an insertion), with and without belief. The
    /// first, that order does not matter, is one of whole calls, which put their events in order: see tests/call.rs.
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
                // The events on the path alone give the same state: a verdict of applied is the whole reason.
                let path = those(|verdict| verdict == Verdict::Applied);
                assert_eq!(machine.fold(&path, presuming).state, folded.state, "{history:?}");
                // Parked means that nothing would change without it.
                let heard = machine.fold(&those(|verdict| verdict != Verdict::Parked), presuming);
                let states = |run: &[(S, usize)]| run.iter().map(|(state, _)| *state).collect::<Vec<_>>();
                assert_eq!(states(&heard.running_maxima), states(&folded.running_maxima), "{history:?}");
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
                        // 2. Duplicates do not matter: beside its twin it changes nothing.
                        if history.get(at) == Some(input) {
                            assert_eq!(grown.state, folded.state);
                        }
                        // Belief only adds.
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

    /// How many orders of how many legal histories the usual reducer gets wrong. It keeps the present state,
    /// applies an event if the edge is legal, and drops one that is older than the last applied.
    fn wrong_orders<S: State + Debug>(
        machine: &Machine<S, EventKind>,
        shown: impl Fn(S) -> &'static str,
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
                wrong += usize::from(shown(state) != shown(truth));
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
        assert_eq!(folded.verdicts, [Verdict::Applied, Verdict::Applied, Verdict::Stale]);
    }

    #[test]
    fn completed_after_busy_ranks_below_it_even_when_believed() {
        assert_eq!(LIFECYCLE.fold(&[Ringing, Busy, Completed], true).state, L::Busy);
        assert_eq!(LIFECYCLE.fold(&[Completed], true).state, L::PresumedCompleted);
        assert_eq!(LIFECYCLE.fold(&[Completed], false).state, L::Initiated);
    }

    #[test]
    fn confirmation_without_an_answer_waits_until_it_is_believed() {
        let parked = OUTCOME.fold(&[UserConfirmed], false);
        assert_eq!((parked.state, parked.verdicts), (O::Dialing, vec![Verdict::Parked]));
        assert_eq!(OUTCOME.fold(&[UserConfirmed], true).state, O::Confirmed);
    }
}
