//! The page of one call: its story, drawn and as a table.

mod drawing;
mod known_at;
mod phases;
mod scale;
mod svg;
mod table;
mod times;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_domain::{CallId, Direction, Timestamp};
use switchhook_operate::timeline::{self, FoundCall, Story};

use self::known_at::KnownAt;
use self::table::Open;
use crate::assets;
use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts;
use crate::query::{Query, url};
use crate::text::{short_id, visible};

pub(crate) async fn show(State(console): State<Console>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = query.id("id").unwrap_or_default();
    let found = match timeline::find_by_id(console.stack(), &CallId::new(id)).await {
        Ok(Some(found)) => found,
        Ok(None) => return page::whole(&console, StatusCode::NOT_FOUND, &frame("No call was found", id), &nothing(id)),
        Err(error) => {
            return page::whole(&console, StatusCode::OK, &frame("A call", id), &parts::problem("the call", &error));
        }
    };
    let call_id = found.call.call_id.as_str();
    let times = timeline::write_times(&found.call);
    if let Some(step) = query.get("step").and_then(|step| step.parse().ok()) {
        // The range of "Known at" sends the number of a write. A page has the time of that write in its URL.
        let at = KnownAt::time_of(&times, step).filter(|at| Some(at) != times.last()).map(|at| at.to_string());
        let mut query = vec![("id", call_id)];
        query.extend(at.as_deref().map(|at| ("as_of", at)));
        return Redirect::to(&url("/call", &query)).into_response();
    }
    let as_of = query.get("as_of").and_then(Timestamp::parse_rfc3339);
    let frame = frame(&format!("Call {}", short_id(call_id)), call_id);
    page::whole(&console, StatusCode::OK, &frame, &content(&found, &times, as_of, query.get("attempt")))
}

fn frame(title: &str, id: &str) -> Frame {
    Frame { title: title.to_owned(), entry: Some(Entry::Calls), command: format!("timeline {}", parts::quoted(id)) }
}

fn nothing(id: &str) -> Markup {
    html! {
        h1 { "No call was found" }
        p { "Nothing has the id " (parts::foreign(id)) ": no call, and no attempt of a provider." }
        p { "The search above also looks for events, appointments and numbers." }
    }
}

/// Prints the page of a call as it was known at a time. `chosen` names the attempt whose events are shown, or `all`.
fn content(found: &FoundCall, times: &[Timestamp], as_of: Option<Timestamp>, chosen: Option<&str>) -> Markup {
    let call_id = found.call.call_id.as_str();
    let known_at = KnownAt { call_id, times, as_of };
    let whole = timeline::story(found, None);
    let past = as_of.map(|at| timeline::story(found, Some(at)));
    let shown = past.as_ref().map_or(whole.as_ref(), |past| past.as_ref());
    let (Some(whole), Some(story)) = (&whole, shown) else {
        return html! { div.call { h1 { span.id { (parts::foreign(call_id)) } } (known_at.print(None)) } };
    };
    let open = Open::of(story, chosen);
    let rows = table::rows(story, open);
    html! {
        div.call {
            (header(story))
            (known_at.print(Some(&story.call)))
            figure.drawing {
                div.scroll { (svg::print(&drawing::draw(story, whole, &rows))) }
                figcaption { "In short: " (visible(&story.in_short)) }
            }
            @if !story.call.attempts.is_empty() { (table::attempts(story, open)) }
            (table::events(story, open, &rows))
        }
        script type="module" src=(assets::url("timeline.js")) {}
    }
}

fn header(story: &Story) -> Markup {
    let call = &story.call;
    let direction = match call.direction {
        Some(Direction::Inbound) => "inbound",
        Some(Direction::Outbound) => "outbound",
        None => "direction not known",
    };
    let job = &call.job;
    html! {
        div.title {
            h1 { span.id { (parts::foreign(&call.call_id)) } }
            button.copy type="button" data-copy=(call.call_id) aria-label="Copy the id of the call" hidden { "copy" }
        }
        ul.facts {
            li { (call.provider.unwrap_or("no provider")) " " (direction) }
            @if let Some(person) = &story.person { li { (parts::foreign(person)) } }
            li {
                "appointment "
                @if let Some(id) = &call.appointment_id { (parts::foreign(id)) " " }
                (parts::badge(call.appointment_status))
            }
            li { "job " (parts::badge(job.state.unwrap_or("unknown"))) }
            @if let (Some(lifecycle), Some(outcome)) = (call.lifecycle, call.outcome) {
                li { "latest attempt " (parts::badge(lifecycle)) " " (parts::badge(outcome)) }
            }
            li { "version " (call.version) }
            li { @if call.settled { "settled" } @else { "not settled" } }
            @if call.forgotten_at.is_some() { li { "person forgotten" } }
        }
        @if let Some(found_by) = &story.found_by { p.found { "Found by " (visible(found_by)) "." } }
        @if !story.other_calls.is_empty() {
            p.others { "Other calls: " @for other in &story.other_calls { (parts::call_link(other)) " " } }
        }
    }
}

#[cfg(test)]
mod tests;
