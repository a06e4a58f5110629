//! The drawing for narrow pages: time runs down, and Happened and Arrived are two columns.
//!
//! The attempts share a column. One line of text beside the marks of a time says what happened then: the move of the job, the
//! event, and the numbers of the domain events. The table has all of it whole.

use switchhook_domain::Timestamp;
use switchhook_operate::timeline::{Line, Story};

use super::drawing::{Drawing, Mark, Shape, grouped, text_width, times};
use super::scale::{Axis, Scale};
use super::times::millis;

/// Width of the drawing: a page of 360 px has room for it.
const WIDTH: i64 = 324;
/// Positions of the columns.
const JOB_X: i64 = 80;
const ATTEMPT_X: i64 = 100;
const NUMBER_X: i64 = 108;
const HAPPENED_X: i64 = 132;
const JOIN_WIDTH: i64 = 40;
const ARRIVED_X: i64 = HAPPENED_X + JOIN_WIDTH;
const TEXT_X: i64 = ARRIVED_X + 12;
/// Titles of the columns, with their middles and lines. Neighbours have no room beside each other.
const TITLES: [(i64, i64, &str); 4] =
    [(JOB_X, 8, "Job"), (ATTEMPT_X, 22, "Attempt"), (HAPPENED_X, 8, "Happened"), (ARRIVED_X, 22, "Arrived")];
const TEXT_TITLE: &str = "Event, # announced";
/// Marks of one column that are closer than this become one mark, so that a finger can choose it.
pub(super) const TOUCH_DISTANCE: i64 = 24;
/// Smallest distance of two lines of text.
const LINE_HEIGHT: i64 = 14;

/// Lays out a story for a narrow page. The arguments are those of [`drawing::draw`](super::drawing::draw).
pub(super) fn draw(story: &Story, whole: &Story, rows: &[usize]) -> Drawing {
    let times = times(whole);
    let scale = Scale::of(&times, Axis::down(times.len()));
    let mut drawing =
        Drawing { height: WIDTH, happened_y: HAPPENED_X, join: JOIN_WIDTH, ..Drawing::empty(story, &scale) };
    for (x, y, title) in TITLES {
        drawing.rails.push(x);
        drawing.label(x - text_width(title) / 2, y, title.to_owned(), "rail", Vec::new());
    }
    drawing.label(TEXT_X, 8, TEXT_TITLE.to_owned(), "rail", Vec::new());
    ruler(&mut drawing, &scale);
    let lines: Vec<(usize, &Line)> = rows.iter().filter_map(|row| Some((*row, story.story.get(*row)?))).collect();
    drawing.job(story, &scale, JOB_X, drawing.cursor.unwrap_or_else(|| scale.length() - 8));
    let moves = lines.iter().filter_map(|(row, line)| match line {
        Line::Move { at, .. } => Some((scale.x(millis(at)?), *row)),
        Line::Event(_) | Line::Write(_) => None,
    });
    for (x, rows) in grouped(moves.collect(), TOUCH_DISTANCE) {
        drawing.marks.push(Mark { x, y: JOB_X, shape: Shape::Move, rows });
    }
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
    drawing.events(&lines, &scale, TOUCH_DISTANCE);
    for text in texts(&drawing, story, &lines, &scale) {
        let shown = text.shown();
        drawing.label(TEXT_X, text.x, shown, "", text.rows);
    }
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

/// Line of text: what happened at one time.
#[derive(Debug, Default)]
struct Text {
    x: i64,
    /// True if the line stands beside the mark of an event.
    is_beside_mark: bool,
    /// Name of the move, or the number of moves.
    moves: Vec<String>,
    events: String,
    /// First and last number of the domain events.
    announced: Option<(usize, usize)>,
    rows: Vec<usize>,
}

impl Text {
    /// Takes over what another line says, which would stand too close.
    fn join(&mut self, other: Self) {
        if other.is_beside_mark {
            (self.x, self.is_beside_mark) = (other.x, true);
        }
        self.moves.extend(other.moves);
        self.events.push_str(&other.events);
        self.announced = match (self.announced, other.announced) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (one, other) => one.or(other),
        };
        self.rows.extend(other.rows);
    }

    /// Returns the text. If there is no room for all of it, the move is left out, and then the event is cut.
    fn shown(&self) -> String {
        let announced = self
            .announced
            .map(|(first, last)| if first == last { format!("#{first}") } else { format!("#{first}–#{last}") });
        let announced = announced.unwrap_or_default();
        let joined = |moves: &str, events: &str| {
            let separator = if moves.is_empty() || events.is_empty() { "" } else { " · " };
            format!("{moves}{separator}{events} {announced}").trim().to_owned()
        };
        let fits = |text: &String| TEXT_X + text_width(text) <= WIDTH;
        let whole = [joined(&self.moves.join(", "), &self.events), joined("", &self.events)];
        let count = self.events.chars().count();
        let cut = (0..count).rev().map(|length| {
            let begin: String = self.events.chars().take(length).collect();
            joined("", &format!("{}…", begin.trim_end()))
        });
        whole.into_iter().chain(cut).find(fits).unwrap_or_default()
    }
}

/// Returns the lines of text, at least [`LINE_HEIGHT`] from each other.
fn texts(drawing: &Drawing, story: &Story, lines: &[(usize, &Line)], scale: &Scale) -> Vec<Text> {
    let name = |rows: &[usize], many: &str| match rows {
        [row] => match story.story.get(*row) {
            Some(Line::Event(event)) => event.kind.replace('_', " "),
            Some(Line::Move { kind, .. }) => kind.replace('_', " "),
            Some(Line::Write(_)) | None => String::new(),
        },
        rows => format!("{} {many}", rows.len()),
    };
    let of_marks = drawing.marks.iter().filter_map(|mark| {
        let line = Text { x: mark.x, rows: mark.rows.clone(), ..Text::default() };
        match mark.shape {
            Shape::Event(_) if mark.y == ARRIVED_X => {
                Some(Text { is_beside_mark: true, events: name(&mark.rows, "events"), ..line })
            }
            Shape::Move => Some(Text { moves: vec![name(&mark.rows, "moves")], ..line }),
            Shape::Event(_) | Shape::Implied(_) | Shape::Announced => None,
        }
    });
    let announced = lines.iter().filter_map(|(row, line)| match line {
        Line::Write(write) => {
            let (first, last) = (write.announced.first()?, write.announced.last()?);
            let announced = Some((first.sequence, last.sequence));
            Some(Text { x: scale.x(millis(&write.at)?), announced, rows: vec![*row], ..Text::default() })
        }
        Line::Event(_) | Line::Move { .. } => None,
    });
    let mut all: Vec<Text> = of_marks.chain(announced).collect();
    all.sort_by_key(|text| text.x);
    let mut texts: Vec<Text> = Vec::new();
    for text in all {
        match texts.last_mut() {
            Some(last) if text.x - last.x < LINE_HEIGHT => last.join(text),
            Some(_) | None => texts.push(text),
        }
    }
    texts
}
