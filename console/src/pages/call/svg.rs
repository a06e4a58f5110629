//! The drawing of a call as SVG.
//!
//! **Geometry stands in attributes, look in classes**, because the pages' security policy forbids inline style.

use maud::{Markup, html};

use super::drawing::{Bar, Drawing, JOIN_HEIGHT, Join, Label, Mark, Shape};
use super::phases::Fill;
use crate::text::visible;

/// Half the height of a bar.
const BAR_HALF: i64 = 8;
/// Height of the ruler.
const RULER_HEIGHT: i64 = 36;

/// Prints the drawing. It is hidden from screen readers: the table says the same.
pub(super) fn print(drawing: &Drawing) -> Markup {
    let Drawing { width, height, .. } = drawing;
    html! {
        svg.story viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) aria-hidden="true" {
            defs { (symbols()) }
            @for cut in &drawing.breaks {
                rect.silence x=(cut.from_x) y="0" width=(cut.to_x - cut.from_x) height=(height) {}
            }
            @for x in &drawing.ticks { path.tick d=(format!("M{x} {RULER_HEIGHT}V{height}")) {} }
            @for y in &drawing.rails { path.rail d=(format!("M88 {y}H{}", width - 8)) {} }
            @if let Some(x) = drawing.cursor { path.cursor d=(format!("M{x} 0V{height}")) {} }
            @for bar in &drawing.bars { (bar_of(bar)) }
            @for join in &drawing.joins { (join_of(join, drawing.happened_y)) }
            @for mark in &drawing.marks { (mark_of(mark)) }
            @for label in &drawing.labels { (label_of(label)) }
        }
    }
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

fn bar_of(bar: &Bar) -> Markup {
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
        html! { rect class=(class) x=(x) y=(y - half) width=(width) height=(2 * half) fill=[fill] {} }
    };
    match fill {
        // The dashes of a ringing phone are those of its line.
        Fill::Ringing | Fill::Dialled => html! { path class=(class) d=(format!("M{x} {y}h{width}")) {} },
        Fill::Doubt => rect(BAR_HALF - 2, Some("url(#hatch)")),
        Fill::Job(_) => rect(BAR_HALF, None),
        Fill::InProgress | Fill::Inconclusive => rect(BAR_HALF - 2, None),
    }
}

fn join_of(join: &Join, y: i64) -> Markup {
    let class = if join.is_late { "join late" } else { "join" };
    let path = format!("M{} {y}L{} {}", join.from_x, join.to_x, y + JOIN_HEIGHT);
    html! { path class=(class) d=(path) data-rows=(list(&join.rows)) {} }
}

fn mark_of(mark: &Mark) -> Markup {
    let Mark { x, y, shape, rows } = mark;
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
            Shape::Event(_) | Shape::Move if count > 1 => g class=(format!("{class} many")) data-rows=(list(rows)) {
                circle cx=(x) cy=(y) r="7" {}
                text x=(x) y=(y + 4) { (count) }
            },
            Shape::Event(_) | Shape::Move => use class=(class) href=(symbol) x=(x) y=(y) data-rows=(list(rows)) {},
        }
    }
}

fn label_of(label: &Label) -> Markup {
    let Label { x, y, text, class, rows } = label;
    html! { text class=(class) x=(x) y=(y) data-rows=[(!rows.is_empty()).then(|| list(rows))] { (visible(text)) } }
}

/// Returns the numbers of rows, separated by blanks.
fn list(rows: &[usize]) -> String {
    let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
    rows.join(" ")
}
