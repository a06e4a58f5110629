//! The drawing for narrow pages: time runs down, and Happened and Arrived are two columns.
//!
//! It has less than the drawing across: the attempts share a column, and neither the job nor the announcements are drawn. The table
//! has them.

use switchhook_domain::Timestamp;
use switchhook_operate::timeline::{Line, Story};

use super::drawing::{Drawing, JOIN_HEIGHT, Mark, Shape, text_width, times};
use super::scale::{Axis, Scale};

/// Width of the drawing: a page of 360 px has room for it.
const WIDTH: i64 = 324;
const TITLE_Y: i64 = 8;
/// Positions of the columns.
const ATTEMPT_X: i64 = 82;
const NUMBER_X: i64 = 92;
const HAPPENED_X: i64 = 122;
const TEXT_X: i64 = HAPPENED_X + JOIN_HEIGHT + 12;
/// Marks of one column that are closer than this become one mark, so that a finger can choose it.
pub(super) const TOUCH_DISTANCE: i64 = 24;
/// Smallest distance of two lines of text.
const LINE_HEIGHT: i64 = 14;

/// Lays out a story for a narrow page. The arguments are those of [`drawing::draw`](super::drawing::draw).
pub(super) fn draw(story: &Story, whole: &Story, rows: &[usize]) -> Drawing {
    let times = times(whole);
    let scale = Scale::of(&times, Axis::down(times.len()));
    let mut drawing = Drawing { height: WIDTH, ..Drawing::empty(story, &scale) };
    let titles = [(ATTEMPT_X, "Attempt"), (HAPPENED_X, "Happened"), (HAPPENED_X + JOIN_HEIGHT, "Arrived")];
    for (x, title) in titles {
        drawing.rails.push(x);
        let end = if x == ATTEMPT_X { x + 8 } else { x + text_width(title) / 2 };
        drawing.label(end - text_width(title), TITLE_Y, title.to_owned(), "rail", Vec::new());
    }
    ruler(&mut drawing, &scale);
    let now = drawing.cursor.unwrap_or_else(|| scale.end() + 8);
    let mut free = 0;
    for attempt in &story.call.attempts {
        let bars = drawing.bars.len();
        drawing.phases(story, attempt, &scale, ATTEMPT_X, now);
        let Some(begin) = drawing.bars.get(bars..).and_then(|bars| bars.iter().map(|bar| bar.x).min()) else {
            continue;
        };
        if begin >= free {
            drawing.label(NUMBER_X, begin + 4, attempt.number.to_string(), "", Vec::new());
            free = begin + LINE_HEIGHT;
        }
    }
    drawing.happened_y = HAPPENED_X;
    let lines: Vec<(usize, &Line)> = rows.iter().filter_map(|row| Some((*row, story.story.get(*row)?))).collect();
    drawing.events(&lines, &scale, TOUCH_DISTANCE);
    names(&mut drawing, story);
    drawing
}

fn ruler(drawing: &mut Drawing, scale: &Scale) {
    for tick in scale.ticks() {
        let at = Timestamp::from_millis(tick.at_ms).to_string();
        if let (true, Some(date)) = (tick.has_date, at.get(..10)) {
            drawing.label(0, tick.x - LINE_HEIGHT, date.to_owned(), "date", Vec::new());
        }
        let end = if tick.at_ms % 1_000 == 0 { 19 } else { 21 };
        if let Some(time) = at.get(11..end) {
            drawing.label(0, tick.x, time.to_owned(), "time", Vec::new());
        }
        drawing.ticks.push(tick.x);
    }
    for cut in scale.breaks() {
        drawing.label(TEXT_X, (cut.from_x + cut.to_x) / 2, cut.text, "silence", Vec::new());
    }
}

/// Writes the name of each event, or the number of events, beside its mark of arrival.
fn names(drawing: &mut Drawing, story: &Story) {
    let arrived = |mark: &&Mark| mark.y == HAPPENED_X + JOIN_HEIGHT && matches!(mark.shape, Shape::Event(_));
    let names: Vec<(i64, String)> = drawing
        .marks
        .iter()
        .filter(arrived)
        .filter_map(|mark| {
            let name = match mark.rows.as_slice() {
                [row] => match story.story.get(*row)? {
                    Line::Event(event) => event.kind.replace('_', " "),
                    Line::Move { .. } | Line::Write(_) => return None,
                },
                rows => format!("{} events", rows.len()),
            };
            Some((mark.x, name))
        })
        .collect();
    for (x, name) in names {
        drawing.label(TEXT_X, x, name, "", Vec::new());
    }
}
