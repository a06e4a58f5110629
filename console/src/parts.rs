//! Parts that many pages share: ids, times, states, panels, commands, problems.

use maud::{Markup, html};
use switchhook_operate::Error;
use switchhook_operate::status::Level;

use crate::console::Console;
use crate::query::url;
use crate::text::{short_id, visible};

/// Command that prints the same as a page, with the option that chooses the stack.
pub(crate) fn command(console: &Console, command: &str) -> Markup {
    let names = &console.stack().names;
    let address = match &console.stack().local {
        Some(url) => format!("--to {url}"),
        None => format!("--stack {} --region {}", names.stack, names.region),
    };
    html! { code { "switchhook " (visible(command)) " " (visible(&address)) } }
}

/// Text of the stack, which may be of any language and hold anything.
pub(crate) fn foreign(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// Link to a call.
pub(crate) fn call_link(id: &str) -> Markup {
    html! { a.id href=(url("/call", &[("id", id)])) title=(visible(id)) { bdi { (short_id(id)) } } }
}

/// Time in UTC, with its date where a page needs it. `at` is an RFC 3339 text.
pub(crate) fn time(at: &str) -> Markup {
    let shown = at.get(11..19).filter(|_| at.is_ascii()).unwrap_or(at);
    html! { time datetime=(at) title=(at) { (shown) } }
}

/// Shape and word of a verdict.
pub(crate) fn level(level: Level) -> Markup {
    let (class, shape) = match level {
        Level::Yes => ("ok", "●"),
        Level::Watch => ("watch", "◐"),
        Level::Unknown => ("unknown", "?"),
        Level::Act => ("act", "▲"),
    };
    html! { span class={ "level " (class) } { span.shape aria-hidden="true" { (shape) } " " (level.as_str()) } }
}

/// What could not be read, and what to do about it.
pub(crate) fn problem(what: &str, error: &Error) -> Markup {
    html! {
        div.problem role="alert" {
            strong { "Unknown: " (what) " could not be read. " }
            (visible(&error.with_causes()))
        }
    }
}

/// Text where a list is empty. It says what would be there, and how it comes there.
pub(crate) fn empty(text: &Markup) -> Markup {
    html! { p.empty { (text) } }
}
