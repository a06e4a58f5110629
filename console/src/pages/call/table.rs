//! The tables of a call: its attempts, and everything that happened to it. They say all that the drawing shows.

use maud::{Markup, html};
use switchhook_domain::Provider;
use switchhook_operate::duration;
use switchhook_operate::timeline::{AttemptSummary, EventInStory, Line, Story, WriteInStory};

use super::phases::{concerns, is_unnamed};
use super::view::View;
use crate::parts::{self, counted};
use crate::text::visible;

/// Largest number of events that are all shown at once. Of more, those of one attempt are.
const EVENTS_MAX: usize = 128;

/// Attempts whose events are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    All,
    /// One attempt is open, or none has this number. Events that name no attempt are always shown.
    Attempt(u8),
}

impl Open {
    /// Returns which attempts are open. A call with many events shows those of the attempt that the user chose.
    pub(super) fn of(story: &Story, chosen: Option<&str>) -> Self {
        let events = story.story.iter().filter(|line| matches!(line, Line::Event(_))).count();
        match chosen {
            Some("all") => Self::All,
            Some(number) => Self::Attempt(number.parse().unwrap_or_default()),
            None if events > EVENTS_MAX => Self::Attempt(0),
            None => Self::All,
        }
    }

    const fn shows(self, attempt: Option<u8>) -> bool {
        match (self, attempt) {
            (Self::All, _) | (Self::Attempt(_), None) => true,
            (Self::Attempt(open), Some(of)) => open == of,
        }
    }
}

/// Returns the indexes of the lines that are shown: the events of the open attempts, all moves, and the writes that changed or
/// announced something. Of shut attempts, only the writes that changed the job are shown.
pub(super) fn rows(story: &Story, open: Open) -> Vec<usize> {
    let mut rows = Vec::new();
    let mut follows_shown = false;
    let (mut last_state, mut last_job) = (None, None);
    for (index, line) in story.story.iter().enumerate() {
        let is_shown = match line {
            Line::Event(event) => open.shows(event.attempt),
            Line::Move { .. } => true,
            Line::Write(write) => {
                let state = (write.lifecycle, write.outcome, write.appointment_status);
                let has_moved = last_job.replace(write.job) != Some(write.job);
                let has_changed = last_state.replace(state) != Some(state) || !write.announced.is_empty();
                has_moved || (has_changed && (std::mem::take(&mut follows_shown) || open == Open::All))
            }
        };
        if is_shown {
            rows.push(index);
            follows_shown |= !matches!(line, Line::Write(_));
        }
    }
    rows
}

/// Prints the attempts.
pub(super) fn attempts(story: &Story, open: Open, view: &View<'_>) -> Markup {
    let call = &story.call;
    let count = |is_counted: &dyn Fn(&EventInStory) -> bool| {
        story.story.iter().filter(|line| matches!(line, Line::Event(event) if is_counted(event))).count()
    };
    let named = |attempt: &AttemptSummary| count(&|event| event.attempt == Some(attempt.number));
    let concerning = |attempt: &AttemptSummary| count(&|event| concerns(story, event, attempt.number));
    // If there are several attempts, nobody can tell which one such an event concerns.
    let unnamed = if call.attempts.len() > 1 { count(&is_unnamed) } else { 0 };
    let opened = |number: u8| {
        let number = number.to_string();
        View { attempt: Some(&number), ..*view }.url() + "#events"
    };
    html! {
        table.attempts {
            caption { "Attempts" }
            (parts::columns(&["Attempt", "Provider", "Provider's call id", "State", "Outcome", "Dialled", "Started", "Ended", "Events"]))
            tbody {
                @for attempt in &call.attempts {
                    tr {
                        th scope="row" { (attempt.number) }
                        td { (attempt.provider.as_ref().map_or("-", Provider::as_str)) }
                        td { @if let Some(id) = &attempt.provider_call_id { (parts::foreign(id)) } @else { "-" } }
                        td { (parts::badge(attempt.lifecycle)) }
                        td { (parts::badge(attempt.outcome)) }
                        @for time in times_of(attempt) { td { (time) } }
                        td {
                            // Events that name no attempt are never shut.
                            @if !open.shows(Some(attempt.number)) && named(attempt) > 0 {
                                a href=(opened(attempt.number)) { (named(attempt)) " shut ▸" }
                            }
                            @else if unnamed > 0 && named(attempt) == 0 { "-" }
                            @else { (concerning(attempt)) }
                        }
                    }
                }
            }
        }
        @if unnamed > 0 { p.muted { (counted(unnamed, "event")) @if unnamed == 1 { " names" } @else { " name" } " no attempt." } }
    }
}

/// Returns the times of an attempt, with the date on the first one.
fn times_of(attempt: &AttemptSummary) -> Vec<Markup> {
    let mut days = Days::of(format!("attempt-{}", attempt.number));
    let times = [attempt.dialled_at.as_deref(), Some(attempt.started_at.as_str()), attempt.ended_at.as_deref()];
    times.into_iter().map(|at| at.map_or_else(|| html! { "-" }, |at| days.moment(at))).collect()
}

/// Prints the lines of the story with these indexes. `opened` are the details of the event that the user chose; they follow its row.
pub(super) fn events(story: &Story, open: Open, rows: &[usize], view: &View<'_>, opened: Option<&Markup>) -> Markup {
    let mut days = Days::of("events");
    // One webhook may have given several events. The details follow the first of them.
    let opened_row = rows.iter().copied().find(|row| match story.story.get(*row) {
        Some(Line::Event(event)) => view.event == Some(event.source_event_id.as_str()),
        Some(Line::Move { .. } | Line::Write(_)) | None => false,
    });
    html! {
        table #events.events {
            caption {
                "What happened, in the order in which Switchhook learned of it. Times are " (parts::zone()) "."
                @if let Open::Attempt(number) = open {
                    " The events of " @if number == 0 { "all attempts" } @else { "the other attempts" } " are shut: open them above."
                }
            }
            (parts::columns(&["Occurred", "Arrived", "Attempt", "What", "Disposition", "Why"]))
            tbody {
                @for (row, line) in rows.iter().filter_map(|row| Some((row, story.story.get(*row)?))) {
                    @match line {
                        Line::Event(event) => {
                            (event_row(*row, event, view, &mut days))
                            @if let Some(details) = opened.filter(|_| opened_row == Some(*row)) {
                                tr #opened .opened { td colspan="6" { (details) } }
                            }
                        },
                        Line::Move { at, kind, reason } => tr.move #(format!("r{row}")) {
                            td {}
                            td { (days.moment(at)) }
                            td {}
                            th scope="row" { "job " (kind.replace('_', " ")) }
                            td {}
                            td { @if let Some(reason) = reason { (parts::foreign(&reason.replace('_', " "))) } }
                        },
                        Line::Write(write) => (write_row(*row, write, &mut days)),
                    }
                }
            }
        }
    }
}

/// Prints the row of an event.
fn event_row(row: usize, event: &EventInStory, view: &View<'_>, days: &mut Days) -> Markup {
    let id = event.source_event_id.as_str();
    let is_open = view.event == Some(id);
    let url = View { event: Some(id).filter(|_| !is_open), ..*view }.url();
    html! {
        tr #(format!("r{row}")) {
            td { @if let Some(at) = &event.occurred_at { (days.moment(at)) } }
            td class=[event.is_late.then_some("late")] {
                @match event.late_ms {
                    Some(ms) if event.is_late => { (duration(ms)) " late" },
                    Some(ms) if ms >= 0 => { "+" (duration(ms)) },
                    Some(ms) => { (duration(ms.saturating_neg())) " early" },
                    None => (days.moment(&event.received_at)),
                }
            }
            td { @if let Some(attempt) = event.attempt { (attempt) } }
            th scope="row" {
                a href={ (url) @if is_open { "#r" (row) } @else { "#opened" } } aria-expanded=[is_open.then_some("true")] {
                    (event.kind.replace('_', " "))
                }
                @if event.implied { " (implied)" }
            }
            td { (parts::badge(event.disposition)) }
            td { (visible(&event.why)) }
        }
    }
}

fn write_row(row: usize, write: &WriteInStory, days: &mut Days) -> Markup {
    let state = [write.lifecycle, write.outcome, Some(write.appointment_status), write.job];
    let state: Vec<&str> = state.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    html! {
        tr.write #(format!("r{row}")) {
            td {}
            td { (days.moment(&write.at)) }
            td {}
            th scope="row" { "written" }
            td colspan="2" {
                (state.join(", "))
                @if !write.announced.is_empty() {
                    "; announced "
                    @for (index, one) in write.announced.iter().enumerate() {
                        @if index > 0 { ", " } "#" (one.sequence) " " (visible(&one.event_type))
                    }
                }
            }
        }
    }
}

/// Times of one list. The date stands before the first of each day.
struct Days {
    list: String,
    last: String,
}

impl Days {
    fn of(list: impl Into<String>) -> Self {
        Self { list: list.into(), last: String::new() }
    }

    /// Prints a time to the millisecond.
    fn moment(&mut self, at: &str) -> Markup {
        let day = at.get(..10).unwrap_or_default();
        if at.get(11..23).is_none() {
            return parts::foreign(at);
        }
        let is_new = day != self.last;
        if is_new {
            day.clone_into(&mut self.last);
        }
        parts::time_in_list(at, is_new, Some(&self.list))
    }
}
