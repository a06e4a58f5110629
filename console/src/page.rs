//! The frame of every page: head, header with search and navigation, footer.
//!
//! [`stream()`] sends the frame before the first read, so that a slow stack never leaves the browser empty.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::console::Console;
use crate::parts;

/// Entry of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Health,
    Calls,
    Events,
    Repair,
    Dials,
    Try,
}

impl Entry {
    const ALL: [Self; 6] = [Self::Health, Self::Calls, Self::Events, Self::Repair, Self::Dials, Self::Try];

    const fn title(self) -> &'static str {
        match self {
            Self::Health => "Health",
            Self::Calls => "Calls",
            Self::Events => "Events",
            Self::Repair => "Repair",
            Self::Dials => "Dials",
            Self::Try => "Try",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Health => "/",
            Self::Calls => "/calls",
            Self::Events => "/events",
            Self::Repair => "/repair",
            Self::Dials => "/dials",
            Self::Try => "/try",
        }
    }
}

/// Texts of the frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Title of the page: the text of its `h1`. It holds no phone number.
    pub(crate) title: String,
    /// Entry that the page belongs to.
    pub(crate) entry: Option<Entry>,
    /// Command that prints the same in the terminal, without the options that choose the stack.
    pub(crate) command: String,
}

/// Answers with a page whose content is complete, and which its URL shows again.
pub(crate) fn whole(console: &Console, status: StatusCode, frame: &Frame, content: &Markup) -> Response {
    complete(console, status, frame, content, true)
}

/// Answers a form with a page. Its URL shows another page, or none, so scripts do not read it again.
pub(crate) fn answer(console: &Console, status: StatusCode, frame: &Frame, content: &Markup) -> Response {
    complete(console, status, frame, content, false)
}

fn complete(console: &Console, status: StatusCode, frame: &Frame, content: &Markup, is_live: bool) -> Response {
    let page = format!("{}{}{}", begin(console, frame, is_live), content.0, end(console, frame));
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// Answers with a page whose content is still to be read: the browser shows the frame at once.
pub(crate) fn stream<F>(console: &Console, frame: Frame, content: F) -> Response
where
    F: Future<Output = Markup> + Send + 'static,
{
    let console = console.clone();
    let first = begin(&console, &frame, true);
    let rest = async move { format!("{}{}", content.await.0, end(&console, &frame)) };
    let chunks = stream::iter([first]).chain(stream::once(rest));
    let body = Body::from_stream(chunks.map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk))));
    (StatusCode::OK, [(CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
}

/// Tags that the two halves of a page open and close. `maud` closes every element that it opens.
const MAIN_BEGINS: &str = "<main id=\"main\" tabindex=\"-1\">";
const PAGE_ENDS: &str = "</body></html>";

fn begin(console: &Console, frame: &Frame, is_live: bool) -> String {
    let names = &console.stack().names;
    let band = match (&console.stack().local, console.options().allows_changes) {
        (Some(_), _) => "local",
        (None, false) => "deployed",
        (None, true) => "changes",
    };
    let mode = if console.options().allows_changes { "changes allowed" } else { "read-only" };
    let place = if console.stack().local.is_some() { "this machine" } else { names.region.as_str() };
    let head = html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (frame.title) " · " (names.stack) " · Switchhook" }
            link rel="icon" type="image/svg+xml" href=(assets::url("icon.svg"));
            link rel="stylesheet" href=(assets::url("console.css"));
            // Until the scripts have chosen the theme, nothing is drawn.
            script type="module" blocking="render" src=(assets::url("keys.js")) {}
            script type="module" src=(assets::url("live.js")) {}
        }
    };
    let header = html! {
        a.skip href="#main" { "Skip to the content" }
        header {
            div class={ "band " (band) } {
                div.inner {
                    span.brand { "Switchhook" }
                    span.stack { bdi { (names.stack) } span.place { " · " (place) } }
                    span.mode { (mode) }
                    form.search role="search" method="post" action="/search" {
                        label.hidden for="search" { "Search a call, event, appointment or number" }
                        input #search name="text" type="search" autocomplete="off" spellcheck="false" required
                            placeholder="call, event, appointment or number";
                        button type="submit" { "Search" }
                    }
                    button #zone type="button" hidden { "UTC" }
                    span #live .live data-live[is_live] { i {} span { "as of " (parts::time(&console.stack().now().to_string())) } }
                }
            }
            nav aria-label="Pages" {
                div.inner {
                    @for entry in Entry::ALL.into_iter().filter(|entry| *entry != Entry::Try || console.playground().is_some()) {
                        a href=(entry.path()) aria-current=[(frame.entry == Some(entry)).then_some("page")] { (entry.title()) }
                    }
                }
            }
        }
        p #status .hidden role="status" {}
    };
    format!("{}<html lang=\"en\">{}<body>{}{MAIN_BEGINS}", DOCTYPE.0, head.0, header.0)
}

fn end(console: &Console, frame: &Frame) -> String {
    let footer = html! {
        footer {
            p.command { "In the terminal: " (parts::command(console, &frame.command)) }
            (parts::cost(console))
            div.settings {
                button #theme type="button" hidden { "Theme" }
                button #help type="button" hidden { "Keys" }
            }
        }
    };
    format!("</main>{}{PAGE_ENDS}", footer.0)
}
