//! Backtracking over yes-or-no choices. If a run does not determine which of two things came first, the oracle tries
//! both, in every combination.

/// One combination of choices. A pass of the oracle makes its choices in order, and [`Choices::next`] starts the next pass with
/// another combination.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// Choices of the present combination, the first one first.
    taken: Vec<bool>,
    /// Number of choices that the current pass has made so far.
    made: usize,
}

impl Choices {
    /// Makes the next choice of this pass. It is `false` in the first combination.
    pub(super) fn choose(&mut self) -> bool {
        if self.made == self.taken.len() {
            self.taken.push(false);
        }
        self.made += 1;
        self.taken.get(self.made - 1).copied().unwrap_or_default()
    }

    /// Starts a new pass with the next combination. Returns `false` if all combinations were tried.
    pub(super) fn next(&mut self) -> bool {
        // Choices that this pass did not reach do not belong to its combination.
        self.taken.truncate(self.made);
        self.made = 0;
        while let Some(last) = self.taken.pop() {
            if !last {
                self.taken.push(true);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_tried_once() {
        let mut choices = Choices::default();
        let mut tried = Vec::new();
        loop {
            let first = choices.choose();
            let second = if first { None } else { Some(choices.choose()) };
            tried.push((first, second));
            if !choices.next() {
                break;
            }
        }
        assert_eq!(tried, [(false, Some(false)), (false, Some(true)), (true, None)]);
    }
}
