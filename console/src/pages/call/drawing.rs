//! The layout of the drawing of a call: where its bars, marks, lines and labels stand.
//!
//! **Nothing here is read or printed**: a story goes in, positions come out. [`super::svg`] prints them.
//!
//! Time runs across, or down on narrow pages: see `down`. In both, `x` is a position along the axis of time, and `y` one across it.

use switchhook_domain::{INCONCLUSIVE, Timestamp};
use switchhook_operate::timeline::{AttemptSummary, EventInStory, Line, Story};

use super::phases::{Fill, phases};
use super::scale::{Axis, Break, Scale};
use super::times::{happened, millis};

/// Marks of one rail that are closer than this become one mark with a number.
const MARK_DISTANCE: i64 = 14;
/// Width of a character of a label, rounded up.
const CHARACTER_WIDTH: i64 = 7;
const RULER_DATE_Y: i64 = 12;
const RULER_TIME_Y: i64 = 28;
const FIRST_RAIL_Y: i64 = 52;
const RAIL_HEIGHT: i64 = 26;
/// Distance of the rails Happened and Arrived in the drawing across.
const JOIN_HEIGHT: i64 = 64;
/// Distance of a rail's line of text from its middle.
const BASELINE: i64 = 4;
/// Longest reason of a move that is drawn. The table has it whole.
const REASON_MAX: usize = 28;

/// Text of the drawing. It begins at `x` of the page, whatever the direction of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) text: String,
    /// Class of the style sheet. Empty for plain text.
    pub(super) class: &'static str,
    /// Rows of the table that it belongs to.
    pub(super) rows: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) width: i64,
    pub(super) fill: Fill,
}

/// Kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An event, by the name of its disposition.
    Event(&'static str),
    /// An event that another one implies.
    Implied(&'static str),
    Move,
    Announced,
}

/// Mark of one or more rows of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) shape: Shape,
    pub(super) rows: Vec<usize>,
}

/// Line that joins the two times of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) from_x: i64,
    pub(super) to_x: i64,
    pub(super) is_late: bool,
    pub(super) rows: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) breaks: Vec<Break>,
    /// Positions of the times on the ruler.
    pub(super) ticks: Vec<i64>,
    pub(super) bars: Vec<Bar>,
    pub(super) joins: Vec<Join>,
    pub(super) marks: Vec<Mark>,
    pub(super) labels: Vec<Label>,
    /// Heights of the rails' lines.
    pub(super) rails: Vec<i64>,
    /// Height of the rail Happened.
    pub(super) happened_y: i64,
    /// Distance of the rail Arrived from it. Lines between the two join the times of events.
    pub(super) join: i64,
    /// Position of the time at which the story is known.
    pub(super) cursor: Option<i64>,
}

/// Lays out a story. `rows` are the indexes of the lines that the table shows.
///
/// `whole` is the story as it is known now. Its times make the scale, so that nothing moves while a user steps through time.
pub(super) fn draw(story: &Story, whole: &Story, rows: &[usize], zoom: i64) -> Drawing {
    let scale = Scale::of(&times(whole), Axis::across(zoom));
    let mut drawing = Drawing::empty(story, &scale);
    let cursor = drawing.cursor;
    drawing.ruler(&scale);
    let lines: Vec<(usize, &Line)> = rows.iter().filter_map(|row| Some((*row, story.story.get(*row)?))).collect();
    let end_x = cursor.unwrap_or_else(|| scale.length() - 8);
    let mut y = drawing.rail(FIRST_RAIL_Y, "Job");
    for (from_x, to_x, state) in drawing.job(story, &scale, y, end_x) {
        if text_width(state) + 8 <= to_x - from_x {
            drawing.label(from_x + 4, y, state.to_owned(), "job", Vec::new());
        }
    }
    let moves: Vec<(usize, i64, String)> = lines.iter().filter_map(|(row, line)| moved(*row, line, &scale)).collect();
    if !moves.is_empty() {
        y = drawing.rail(y + RAIL_HEIGHT, "Moves");
        drawing.moves(&moves, y);
    }
    for attempt in &story.call.attempts {
        y = drawing.rail(y + RAIL_HEIGHT, &format!("Attempt {}", attempt.number));
        // Behind the bar of an open attempt, there is room for its state.
        drawing.attempt(story, attempt, &scale, y, cursor.unwrap_or_else(|| scale.end() + 8));
    }
    drawing.happened_y = drawing.rail(y + RAIL_HEIGHT + 4, "Happened");
    let arrived_y = drawing.rail(drawing.happened_y + drawing.join, "Arrived");
    drawing.events(&lines, &scale, MARK_DISTANCE);
    let announced_y = drawing.rail(arrived_y + RAIL_HEIGHT, "Announced");
    drawing.announced(&lines, &scale, announced_y);
    drawing.height = announced_y + RAIL_HEIGHT / 2;
    drawing
}

/// Returns all times of a story that have a place in the drawing.
pub(super) fn times(story: &Story) -> Vec<i64> {
    let mut times = Vec::new();
    for line in &story.story {
        match line {
            Line::Event(event) => {
                times.extend(millis(&event.received_at));
                times.extend(happened(event));
            }
            Line::Move { at, .. } => times.extend(millis(at)),
            Line::Write(write) => times.extend(millis(&write.at)),
        }
    }
    for attempt in &story.call.attempts {
        let of_attempt = [attempt.dialled_at.as_ref(), Some(&attempt.started_at), attempt.ended_at.as_ref()];
        times.extend(of_attempt.into_iter().flatten().filter_map(|at| millis(at)));
    }
    times
}

fn moved(row: usize, line: &Line, scale: &Scale) -> Option<(usize, i64, String)> {
    match line {
        Line::Move { at, kind, reason } => {
            let reason = reason.as_ref().map(|reason| {
                let cut: String = reason.chars().take(REASON_MAX).collect();
                let more = if cut.len() < reason.len() { "…" } else { "" };
                format!(": {}{more}", cut.replace('_', " "))
            });
            let text = format!("{}{}", kind.replace('_', " "), reason.unwrap_or_default());
            Some((row, scale.x(millis(at)?), text))
        }
        Line::Event(_) | Line::Write(_) => None,
    }
}

/// Returns the width that a text takes at most.
pub(super) fn text_width(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX / CHARACTER_WIDTH) * CHARACTER_WIDTH
}

/// Joins positions that are closer to each other than `distance`. Each group stands where its first member stands.
pub(super) fn grouped(mut marks: Vec<(i64, usize)>, distance: i64) -> Vec<(i64, Vec<usize>)> {
    marks.sort_unstable();
    let mut groups: Vec<(i64, Vec<usize>)> = Vec::new();
    for (x, row) in marks {
        match groups.last_mut() {
            Some((first, rows)) if x - *first < distance => rows.push(row),
            Some(_) | None => groups.push((x, vec![row])),
        }
    }
    groups
}

/// Returns the place of a row's group.
fn place_of(groups: &[(i64, Vec<usize>)], row: usize) -> Option<i64> {
    groups.iter().find(|(_, rows)| rows.contains(&row)).map(|(x, _)| *x)
}

/// Returns the disposition that the mark of a group shows: the one that needs most attention.
fn most_notable(dispositions: impl Iterator<Item = &'static str>) -> &'static str {
    const ORDER: [&str; 7] = ["refused", "quarantined", "parked", "stale", "duplicate", "recorded", "applied"];
    dispositions.min_by_key(|one| ORDER.iter().position(|known| known == one)).unwrap_or_default()
}

/// True if the event has marks of its own. If a webhook has only implied events, the last of them has.
fn stands_for_webhook(events: &[(usize, &EventInStory)], row: usize, event: &EventInStory) -> bool {
    let is_sibling = |other: &EventInStory| other.source_event_id == event.source_event_id;
    !event.implied || !events.iter().any(|(at, other)| is_sibling(other) && (!other.implied || *at > row))
}

impl Drawing {
    /// Returns a drawing with nothing but its scale.
    pub(super) fn empty(story: &Story, scale: &Scale) -> Self {
        Self {
            width: scale.length(),
            height: 0,
            breaks: scale.breaks(),
            ticks: Vec::new(),
            bars: Vec::new(),
            joins: Vec::new(),
            marks: Vec::new(),
            labels: Vec::new(),
            rails: Vec::new(),
            happened_y: 0,
            join: JOIN_HEIGHT,
            cursor: story.as_of.as_deref().and_then(millis).map(|at_ms| scale.x(at_ms)),
        }
    }

    /// Adds a rail with its name. Returns its height.
    fn rail(&mut self, y: i64, name: &str) -> i64 {
        self.rails.push(y);
        self.label(0, y, name.to_owned(), "rail", Vec::new());
        y
    }

    pub(super) fn label(&mut self, x: i64, y: i64, text: String, class: &'static str, rows: Vec<usize>) {
        self.labels.push(Label { x, y: y + BASELINE, text, class, rows });
    }

    fn ruler(&mut self, scale: &Scale) {
        let text = |at_ms: i64| Timestamp::from_millis(at_ms).to_string();
        for tick in scale.ticks() {
            let at = text(tick.at_ms);
            if tick.has_date
                && let Some(date) = at.get(..10)
            {
                self.label(tick.x, RULER_DATE_Y - BASELINE, date.to_owned(), "date", Vec::new());
            }
            // A burst within a second needs the digits behind it.
            let end = if tick.at_ms % 1_000 == 0 { 19 } else { 21 };
            if let Some(time) = at.get(11..end) {
                self.label(tick.x, RULER_TIME_Y - BASELINE, time.to_owned(), "time", Vec::new());
            }
            self.ticks.push(tick.x);
        }
        for cut in scale.breaks() {
            let x = (cut.from_x + cut.to_x - text_width(&cut.text)) / 2;
            self.label(x, RULER_DATE_Y - BASELINE, cut.text, "silence", Vec::new());
        }
    }

    fn bar(&mut self, from_x: i64, to_x: i64, y: i64, fill: Fill) {
        self.bars.push(Bar { x: from_x, y, width: (to_x - from_x).max(2), fill });
    }

    /// Draws the job: one bar for each of its states. Returns where each begins and ends.
    pub(super) fn job(&mut self, story: &Story, scale: &Scale, y: i64, end_x: i64) -> Vec<(i64, i64, &'static str)> {
        let mut states: Vec<(i64, &'static str)> = Vec::new();
        for line in &story.story {
            let Line::Write(write) = line else { continue };
            let (Some(at_ms), state) = (millis(&write.at), write.job.unwrap_or("not known")) else { continue };
            if states.last().is_none_or(|(_, last)| *last != state) {
                states.push((scale.x(at_ms), state));
            }
        }
        let ends: Vec<i64> = states.iter().skip(1).map(|(x, _)| *x).chain([end_x]).collect();
        let bars: Vec<_> = states.into_iter().zip(ends).map(|((from_x, state), to_x)| (from_x, to_x, state)).collect();
        for (from_x, to_x, state) in &bars {
            self.bar(*from_x, *to_x, y, Fill::Job(state));
        }
        bars
    }

    /// Draws what workers and users did to the job. A move has its name beside it if there is room.
    fn moves(&mut self, moves: &[(usize, i64, String)], y: i64) {
        let groups = grouped(moves.iter().map(|(row, x, _)| (*x, *row)).collect(), MARK_DISTANCE);
        let ends: Vec<i64> = groups.iter().skip(1).map(|(x, _)| *x - 8).chain([self.width]).collect();
        for ((x, rows), end_x) in groups.into_iter().zip(ends) {
            let name = match rows.as_slice() {
                [only] => moves.iter().find(|(row, _, _)| row == only).map(|(_, _, name)| name.clone()),
                _ => None,
            };
            if let Some(name) = name.filter(|name| x + 8 + text_width(name) <= end_x) {
                self.label(x + 8, y, name, "move", rows.clone());
            }
            self.marks.push(Mark { x, y, shape: Shape::Move, rows });
        }
    }

    /// Draws the phases of an attempt. Returns where its last bar ends. `None` if it has no time.
    pub(super) fn phases(
        &mut self,
        story: &Story,
        attempt: &AttemptSummary,
        scale: &Scale,
        y: i64,
        now_x: i64,
    ) -> Option<i64> {
        let begin = [attempt.dialled_at.as_deref(), Some(attempt.started_at.as_str())];
        let begin_ms = begin.into_iter().flatten().filter_map(millis).min()?;
        let end_ms = attempt.ended_at.as_deref().and_then(millis);
        let begin_x = scale.x(begin_ms);
        let end_x = end_ms.map_or(now_x, |at_ms| scale.x(at_ms)).max(begin_x);
        let mut phases = phases(story, attempt, begin_ms);
        if attempt.lifecycle == INCONCLUSIVE {
            let last = phases.iter().map(|(at_ms, _)| *at_ms).max().unwrap_or(begin_ms);
            phases.push((last, Fill::Inconclusive));
        }
        let ends: Vec<i64> = phases.iter().skip(1).map(|(at_ms, _)| scale.x(*at_ms)).chain([end_x]).collect();
        for ((at_ms, fill), to_x) in phases.into_iter().zip(ends) {
            let from_x = scale.x(at_ms);
            if from_x < to_x || from_x == begin_x {
                self.bar(from_x, to_x.min(end_x.max(from_x)), y, fill);
            }
        }
        Some(self.bars.iter().filter(|bar| bar.y == y).map(|bar| bar.x + bar.width).fold(end_x, i64::max))
    }

    /// Draws the phases of an attempt, and behind them how it ended. The margin behind the scale has room for every ending.
    fn attempt(&mut self, story: &Story, attempt: &AttemptSummary, scale: &Scale, y: i64, now_x: i64) {
        let Some(end_x) = self.phases(story, attempt, scale, y, now_x) else { return };
        let outcome = Some(attempt.outcome).filter(|one| ["confirmed", "declined", "voicemail"].contains(one));
        let text: Vec<String> =
            [Some(attempt.lifecycle), outcome].into_iter().flatten().map(|one| one.replace('_', " ")).collect();
        self.label(end_x + 8, y, text.join(" · "), "", Vec::new());
    }

    /// Draws the two times of each event, and the lines between them. Marks that are closer than `distance` become one.
    pub(super) fn events(&mut self, lines: &[(usize, &Line)], scale: &Scale, distance: i64) {
        let events: Vec<(usize, &EventInStory)> = lines
            .iter()
            .filter_map(|(row, line)| match line {
                Line::Event(event) => Some((*row, event)),
                Line::Move { .. } | Line::Write(_) => None,
            })
            .collect();
        let reported: Vec<(usize, &EventInStory)> =
            events.iter().copied().filter(|(row, event)| stands_for_webhook(&events, *row, event)).collect();
        let of_rail = |time: &dyn Fn(&EventInStory) -> Option<i64>| {
            let times = reported.iter().filter_map(|(row, event)| Some((scale.x(time(event)?), *row)));
            grouped(times.collect(), distance)
        };
        let happened = of_rail(&happened);
        let arrived = of_rail(&|event| millis(&event.received_at));
        let (upper_y, lower_y) = (self.happened_y, self.happened_y + self.join);
        for (row, event) in &reported {
            let (Some(from_x), Some(to_x)) = (place_of(&happened, *row), place_of(&arrived, *row)) else { continue };
            match self.joins.iter_mut().find(|join| (join.from_x, join.to_x) == (from_x, to_x)) {
                Some(join) => {
                    join.rows.push(*row);
                    join.is_late |= event.is_late;
                }
                None => self.joins.push(Join { from_x, to_x, is_late: event.is_late, rows: vec![*row] }),
            }
        }
        for (groups, y) in [(&happened, upper_y), (&arrived, lower_y)] {
            for (x, rows) in groups {
                let of_group =
                    reported.iter().filter(|(row, _)| rows.contains(row)).map(|(_, event)| event.disposition);
                let shape = Shape::Event(most_notable(of_group));
                self.marks.push(Mark { x: *x, y, shape, rows: rows.clone() });
            }
        }
        let is_reported = |row: usize| reported.iter().any(|(known, _)| *known == row);
        for (row, event) in events.iter().filter(|(row, _)| !is_reported(*row)) {
            let is_sibling = |other: &&(usize, &EventInStory)| other.1.source_event_id == event.source_event_id;
            let siblings = events.iter().filter(is_sibling).filter(|(row, _)| !is_reported(*row));
            let (count, before) =
                siblings.fold((0, 0), |(count, before), (other, _)| (count + 1, before + i64::from(other < row)));
            let source = reported.iter().find(is_sibling).map(|(row, _)| *row);
            let to_x = source
                .and_then(|source| place_of(&arrived, source))
                .or_else(|| Some(scale.x(millis(&event.received_at)?)));
            let Some(to_x) = to_x else { continue };
            let from_x = source.and_then(|source| place_of(&happened, source)).unwrap_or(to_x);
            let (part, parts) = (before + 1, count + 1);
            let down = self.join * part / parts;
            let (x, y) = (from_x + (to_x - from_x) * down / self.join, upper_y + down);
            let is_near = |mark: &&mut Mark| {
                matches!(mark.shape, Shape::Implied(_))
                    && (mark.x - x).abs() < MARK_DISTANCE / 2
                    && (mark.y - y).abs() < MARK_DISTANCE / 2
            };
            match self.marks.iter_mut().find(is_near) {
                Some(mark) => mark.rows.push(*row),
                None => self.marks.push(Mark { x, y, shape: Shape::Implied(event.disposition), rows: vec![*row] }),
            }
        }
    }

    /// Draws the numbers of the domain events. Those that have no room beside each other become a range.
    fn announced(&mut self, lines: &[(usize, &Line)], scale: &Scale, y: i64) {
        struct Range {
            x: i64,
            first: usize,
            last: usize,
            rows: Vec<usize>,
        }
        let text = |range: &Range| match range {
            Range { first, last, .. } if first == last => format!("#{first}"),
            Range { first, last, .. } => format!("#{first}–#{last}"),
        };
        let mut ranges: Vec<Range> = Vec::new();
        for (row, line) in lines {
            let Line::Write(write) = line else { continue };
            let (Some(first), Some(last)) = (write.announced.first(), write.announced.last()) else { continue };
            let Some(x) = millis(&write.at).map(|at_ms| scale.x(at_ms)) else { continue };
            match ranges.last_mut() {
                Some(range) if x < range.x + text_width(&text(range)) + 8 => {
                    range.last = last.sequence;
                    range.rows.push(*row);
                }
                Some(_) | None => {
                    ranges.push(Range { x, first: first.sequence, last: last.sequence, rows: vec![*row] });
                }
            }
        }
        // A range may have become wider than the room before the next.
        let mut index = 0;
        while let (Some(range), Some(next)) = (ranges.get(index), ranges.get(index + 1)) {
            if next.x < range.x + text_width(&text(range)) + 8 {
                let next = ranges.remove(index + 1);
                if let Some(range) = ranges.get_mut(index) {
                    range.last = next.last;
                    range.rows.extend(next.rows);
                }
            } else {
                index += 1;
            }
        }
        for range in ranges {
            let text = text(&range);
            self.marks.push(Mark { x: range.x, y, shape: Shape::Announced, rows: range.rows.clone() });
            self.label(range.x + 4, y, text, "announced", range.rows);
        }
    }
}

#[cfg(test)]
mod tests;
