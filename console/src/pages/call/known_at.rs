//! "Known at": the choice of an earlier time, one for each write of the call's row.

use maud::{Markup, html};
use switchhook_domain::Timestamp;
use switchhook_operate::timeline::CallSummary;

use super::view::View;
use crate::parts;

/// Position among the times at which the row was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownAt<'a> {
    pub(super) view: &'a View<'a>,
    /// Times at which the row was written, the earliest first.
    pub(super) times: &'a [Timestamp],
}

impl KnownAt<'_> {
    /// Returns the number of writes up to the time that is shown.
    fn step(&self) -> usize {
        let Some(as_of) = self.view.as_of else { return self.times.len() };
        self.times.iter().filter(|at| **at <= as_of).count()
    }

    /// Returns the time of a write. The first has the number 1.
    pub(super) fn time_of(times: &[Timestamp], step: usize) -> Option<Timestamp> {
        times.get(step.checked_sub(1)?).copied()
    }

    fn url_of(&self, step: usize) -> Option<String> {
        let at = Self::time_of(self.times, step)?;
        Some(View { as_of: Some(at), ..*self.view }.url())
    }

    /// Prints the choice of a time, and the state of that time.
    pub(super) fn print(&self, call: Option<&CallSummary>) -> Markup {
        let (step, count) = (self.step(), self.times.len());
        let shown = self.view.as_of.map(|at| at.to_string());
        let before = if self.view.as_of.is_none() { count.saturating_sub(1) } else { step.saturating_sub(1) };
        html! {
            section.known aria-label="Known at" data-still {
                form #known method="get" action="/call" {
                    input type="hidden" name="id" value=(self.view.call_id);
                    @if self.view.zoom > 1 { input type="hidden" name="zoom" value=(self.view.zoom); }
                    @if let Some(attempt) = self.view.attempt { input type="hidden" name="attempt" value=(attempt); }
                    @if let Some(event) = self.view.event { input type="hidden" name="event" value=(event); }
                    label for="step" { "Known at" }
                    // Its room is kept, so that the range stays in its place when the second write comes.
                    @match self.url_of(before) {
                        Some(url) => a.previous rel="prev" href=(url) title="the write before (,)" { "◀ previous" },
                        None => a.previous aria-hidden="true" { "◀ previous" },
                    }
                    input #step type="range" name="step" min="1" max=(count.max(1)) value=(step.max(1))
                        aria-valuetext=(format!("write {step} of {count}"));
                    @if let Some(url) = self.url_of(step + 1) { a.next rel="next" href=(url) title="the next write (.)" { "next ▶" } }
                    button type="submit" { "Show" }
                    @if self.view.as_of.is_some() { a.now href=(View { as_of: None, ..*self.view }.url()) { "now" } }
                }
                p.believed {
                    @match (&shown, call) {
                        (Some(at), Some(call)) => {
                            time datetime=(at) { (at) } ", write " (step) " of " (count) ": Switchhook then believed: "
                            strong { (state(call)) }
                        },
                        (Some(at), None) => {
                            time datetime=(at) { (at) } ": Switchhook did not know this call yet."
                            @if let Some(first) = self.times.first() { " It is known since " (parts::time(&first.to_string())) "." }
                        },
                        (None, Some(call)) => { "Now, after write " (count) " of " (count) ": " strong { (state(call)) } },
                        (None, None) => {},
                    }
                }
            }
        }
    }
}

/// Returns the state of a call in one line: `in_progress, connected, Dialing, IN_PROGRESS`.
pub(super) fn state(call: &CallSummary) -> String {
    let job = call.job.state.unwrap_or("job not known");
    let parts = [call.lifecycle, call.outcome, Some(call.appointment_status), Some(job)];
    parts.into_iter().flatten().collect::<Vec<&str>>().join(", ")
}
