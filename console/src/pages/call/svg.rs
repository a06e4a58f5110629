//! The drawing of a call as SVG.
//!
//! **Geometry stands in attributes, look in classes**, because the pages' security policy forbids inline style.

use maud::{Markup, html};

use super::drawing::{Bar, Drawing, Join, Label, Mark, Shape};
use super::phases::Fill;
use super::scale::{Break, LEFT};
use crate::text::visible;

/// Half the height of a bar.
const BAR_HALF: i64 = 8;
/// Height of the ruler.
const RULER_HEIGHT: i64 = 36;
/// Position at which the names of the rails end. Behind it, there is room for half a mark at the beginning of the scale.
const NAMES_END: i64 = LEFT - 12;
/// Room before the names.
const NAMES_MARGIN: i64 = 8;

/// Direction of time on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Across,
    Down,
}

impl Way {
    /// Returns a position on the page.
    const fn place(self, x: i64, y: i64) -> (i64, i64) {
        match self {
            Self::Across => (x, y),
            Self::Down => (y, x),
        }
    }

    /// Returns a line along the axis of time.
    fn along(self, x: i64, y: i64, length: i64) -> String {
        let (x, y) = self.place(x, y);
        match self {
            Self::Across => format!("M{x} {y}h{length}"),
            Self::Down => format!("M{x} {y}v{length}"),
        }
    }
}

/// Prints the shapes that both drawings use. They are in neither drawing, because the page hides one of the two, with its patterns.
pub(super) fn shapes() -> Markup {
    html! { svg.story.shapes width="0" height="0" aria-hidden="true" { defs { (symbols()) } } }
}

/// Prints the drawing across: the ruler and the names of the rails stay in sight when the rest is scrolled. It is hidden from screen
/// readers: the table says the same.
pub(super) fn print(drawing: &Drawing) -> Markup {
    let Drawing { width, height, .. } = drawing;
    let (width, height) = (width - NAMES_END, height - RULER_HEIGHT);
    let names_width = NAMES_END + NAMES_MARGIN;
    let is_ruler = |label: &&Label| ["time", "date", "silence"].contains(&label.class);
    let is_name = |label: &&Label| label.class == "rail";
    html! {
        svg.story.names viewBox=(format!("-{NAMES_MARGIN} 0 {names_width} {}", drawing.height)) width=(names_width) height=(drawing.height) aria-hidden="true" {
            @for label in drawing.labels.iter().filter(is_name) { (label_of(label)) }
        }
        svg.story.ruler viewBox=(format!("{NAMES_END} 0 {width} {RULER_HEIGHT}")) width=(width) height=(RULER_HEIGHT) aria-hidden="true" {
            @for cut in &drawing.breaks { (silence(Way::Across, cut, 0, RULER_HEIGHT)) }
            @for label in drawing.labels.iter().filter(is_ruler) { (label_of(label)) }
        }
        svg.story viewBox=(format!("{NAMES_END} {RULER_HEIGHT} {width} {height}")) width=(width) height=(height) aria-hidden="true" {
            @for cut in &drawing.breaks { (silence(Way::Across, cut, RULER_HEIGHT, height)) }
            path.tick d=(path(&drawing.ticks, |x| format!("M{x} {RULER_HEIGHT}v{height}"))) {}
            path.rail d=(path(&drawing.rails, |y| format!("M{LEFT} {y}h{width}"))) {}
            (shared(drawing, Way::Across))
            @for label in drawing.labels.iter().filter(|label| !is_ruler(label) && !is_name(label)) { (label_of(label)) }
        }
    }
}

/// Prints the drawing down.
pub(super) fn print_down(drawing: &Drawing) -> Markup {
    // The axis of time has the height of the page.
    let Drawing { width: height, height: width, .. } = drawing;
    html! {
        svg.story.down viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) aria-hidden="true" {
            @for cut in &drawing.breaks { (silence(Way::Down, cut, 0, *width)) }
            path.tick d=(path(&drawing.ticks, |y| format!("M0 {y}h{width}"))) {}
            path.rail d=(path(&drawing.rails, |x| format!("M{x} {RULER_HEIGHT}V{height}"))) {}
            (shared(drawing, Way::Down))
            @for label in &drawing.labels { (label_of(label)) }
        }
    }
}

fn shared(drawing: &Drawing, way: Way) -> Markup {
    html! {
        @if let Some(x) = drawing.cursor {
            @match way {
                Way::Across => path.cursor d=(format!("M{x} 0V{}", drawing.height)) {},
                Way::Down => path.cursor d=(format!("M0 {x}H{}", drawing.height)) {},
            }
        }
        @for bar in &drawing.bars { (bar_of(bar, way)) }
        @match way {
            Way::Across => g.join { @for join in &drawing.joins { (join_of(join, drawing)) } },
            Way::Down => (joins_down(drawing)),
        }
        @for mark in &drawing.marks { (mark_of(mark, way)) }
    }
}

fn silence(way: Way, cut: &Break, from_y: i64, height: i64) -> Markup {
    let (x, y) = way.place(cut.from_x, from_y);
    let (width, height) = way.place(cut.to_x - cut.from_x, height);
    html! { rect.silence x=(x) y=(y) width=(width) height=(height) {} }
}

/// Shapes of dispositions, around the origin. They are those of the table.
fn symbols() -> Markup {
    html! {
        pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" { path.hatch d="M-1 7L7 -1M-4 4L4 -4M2 10L10 2" {} }
        circle #s-applied r="5" {}
        g #s-parked { circle.open r="4.5" {} path d="M0 -5A5 5 0 0 1 0 5Z" {} }
        path #s-refused.open d="M-4 -4L4 4M-4 4L4 -4" {}
        circle #s-stale.open r="4.5" {}
        g #s-duplicate { circle.open r="5" {} circle.open r="2" {} }
        rect #s-recorded.open x="-4" y="-4" width="8" height="8" {}
        path #s-quarantined d="M0 -6L6 5H-6Z" {}
        path #s-move d="M-1.5 -7H1.5V7H-1.5Z" {}
    }
}

fn bar_of(bar: &Bar, way: Way) -> Markup {
    let Bar { x, y, width, fill } = bar;
    let class = match fill {
        Fill::Job("PENDING") => "job pending",
        Fill::Job("CLAIMED") => "job claimed",
        Fill::Job("IN_PROGRESS") => "job running",
        Fill::Job("not known") => "job unknown",
        Fill::Job(_) => "job ended",
        Fill::Dialled => "dialled",
        Fill::Doubt => "doubt",
        Fill::Ringing => "ringing",
        Fill::InProgress => "progress",
        Fill::Inconclusive => "inconclusive",
    };
    let rect = |half: i64, fill: Option<&str>| {
        let ((x, y), (width, height)) = (way.place(*x, y - half), way.place(*width, 2 * half));
        html! { rect class=(class) x=(x) y=(y) width=(width) height=(height) fill=[fill] {} }
    };
    match fill {
        // The dashes of a ringing phone are those of its line.
        Fill::Ringing | Fill::Dialled => html! { path class=(class) d=(way.along(*x, *y, *width)) {} },
        Fill::Doubt => rect(BAR_HALF - 2, Some("url(#hatch)")),
        Fill::Job(_) => rect(BAR_HALF, None),
        Fill::InProgress | Fill::Inconclusive => rect(BAR_HALF - 2, None),
    }
}

fn join_of(join: &Join, drawing: &Drawing) -> Markup {
    let (class, y) = (join.is_late.then_some("late"), drawing.happened_y);
    let path = format!("M{} {y}l{} {}", join.from_x, join.to_x - join.from_x, drawing.join);
    html! { path class=[class] d=(path) data-rows=(list(&join.rows)) {} }
}

/// Prints the lines between the two times of all events as two paths. The marks of the arrivals lead to the rows of the table.
fn joins_down(drawing: &Drawing) -> Markup {
    let x = drawing.happened_y;
    let joins = |is_late: bool| {
        let joins: Vec<&Join> = drawing.joins.iter().filter(|join| join.is_late == is_late).collect();
        path(&joins, |join| format!("M{x} {}L{} {}", join.from_x, x + drawing.join, join.to_x))
    };
    html! { g.join { path d=(joins(false)) {} path.late d=(joins(true)) {} } }
}

/// Returns one path with a part for each item.
fn path<T>(items: &[T], part: impl Fn(&T) -> String) -> String {
    items.iter().map(part).collect()
}

fn mark_of(mark: &Mark, way: Way) -> Markup {
    let Mark { shape, rows, .. } = mark;
    let (x, y) = way.place(mark.x, mark.y);
    let (class, symbol) = match shape {
        Shape::Event(disposition) => (format!("mark {disposition}"), format!("#s-{disposition}")),
        Shape::Implied(disposition) => (format!("mark implied {disposition}"), String::new()),
        Shape::Move => ("mark move".to_owned(), "#s-move".to_owned()),
        Shape::Announced => ("mark announced".to_owned(), String::new()),
    };
    let count = rows.len();
    html! {
        @match shape {
            Shape::Implied(_) => circle class=(class) cx=(x) cy=(y) r="2.5" data-rows=(list(rows)) {},
            Shape::Announced => path class=(class) d=(format!("M{x} {}v12", y - 6)) data-rows=(list(rows)) {},
            // The bar of the job runs down, so its moves lie across.
            Shape::Move if way == Way::Down => rect class=(class) x=(x - 7) y=(y - 1) width="14" height="3" data-rows=(list(rows)) {},
            // The drawing down has the number beside the mark.
            Shape::Event(_) | Shape::Move if count > 1 && way == Way::Across => g class=(format!("{class} many")) data-rows=(list(rows)) {
                circle cx=(x) cy=(y) r="7" {}
                text x=(x) y=(y + 4) { (count) }
            },
            // A shape has its own colour.
            Shape::Event(_) | Shape::Move => use href=(symbol) x=(x) y=(y) data-rows=(list(rows)) {},
        }
    }
}

fn label_of(label: &Label) -> Markup {
    let Label { x, y, text, class, rows } = label;
    let class = (!class.is_empty()).then_some(class);
    html! { text class=[class] x=(x) y=(y) data-rows=[(!rows.is_empty()).then(|| list(rows))] { (visible(text)) } }
}

/// Returns the numbers of rows, separated by blanks.
fn list(rows: &[usize]) -> String {
    let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
    rows.join(" ")
}
