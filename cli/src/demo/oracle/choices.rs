//! Where the demo leaves open what came first, every answer is tried.

/// The answers given to one question after the other. [`Choices::next`] goes on to the next combination.
#[derive(Debug, Default)]
pub(super) struct Choices {
    answers: Vec<bool>,
    asked: usize,
}

impl Choices {
    /// False in the first combination.
    pub(super) fn choose(&mut self) -> bool {
        if self.asked == self.answers.len() {
            self.answers.push(false);
        }
        self.asked += 1;
        self.answers.get(self.asked - 1).copied().unwrap_or_default()
    }

    /// Goes on to the next combination of answers. False: there is none.
    pub(super) fn next(&mut self) -> bool {
        // Questions that this time were not reached are no part of the next combination.
        self.answers.truncate(self.asked);
        self.asked = 0;
        while let Some(last) = self.answers.pop() {
            if !last {
                self.answers.push(true);
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
