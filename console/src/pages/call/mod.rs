//! The page of one call: its story, drawn and as a table.

mod down;
mod drawing;
mod known_at;
mod phases;
mod scale;
mod svg;
mod table;
mod times;
mod unfolded;
mod view;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_domain::{Call, CallId, Direction, EventId, Provider, Timestamp};
use switchhook_operate::mask::Masker;
use switchhook_operate::timeline::{self, Line, Story};
use switchhook_operate::{Stack, events};

use self::known_at::KnownAt;
use self::table::Open;
use self::view::View;
use crate::assets;
use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::event;
use crate::pages::plan::{self, Kind};
use crate::parts;
use crate::query::Query;
use crate::session::Session;
use crate::text::{short_id, visible};

/// Parts of the page that need more than the call's row.
#[derive(Default)]
struct Further {
    /// Buttons that plan a repair.
    plans: Markup,
    /// Details of the event that the user chose.
    opened: Option<Markup>,
    /// Events that are not folded, if the user asked for them.
    unfolded: Option<Markup>,
}

pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = query.id("id").unwrap_or_default();
    let found = match timeline::find_by_id(console.stack(), &CallId::new(id)).await {
        Ok(Some(found)) => found,
        Ok(None) => return page::whole(&console, StatusCode::NOT_FOUND, &frame("No call was found", id), &nothing(id)),
        Err(error) => {
            let content = html! { h1 { "A call" } (parts::problem("the call", &error)) };
            return page::whole(&console, StatusCode::OK, &frame("A call", id), &content);
        }
    };
    let call_id = found.call.call_id.as_str();
    let view = View::of(&query, call_id);
    let times = timeline::write_times(&found.call);
    if let Some(step) = query.get("step").and_then(|step| step.parse().ok()) {
        // The range of "Known at" sends the number of a write. A page has the time of that write in its URL.
        let as_of = KnownAt::time_of(&times, step).filter(|at| Some(at) != times.last());
        return Redirect::to(&View { as_of, ..view }.url()).into_response();
    }
    let (policy, now) = (console.stack().policy(), console.stack().now());
    let story = timeline::story(&found, &policy, now, None);
    let past = view.as_of.map(|at| timeline::story(&found, &policy, now, Some(at)));
    let further = Further {
        plans: plans(&session, call_id),
        opened: opened(console.stack(), &found.call, story.as_ref(), &view).await,
        unfolded: unfolded::read(&console, &found.call, &view).await,
    };
    let mut frame = frame(&format!("Call {}", short_id(call_id)), call_id);
    if let Some(at) = view.as_of {
        frame.command += &format!(" --as-of {at}");
    }
    page::whole(&console, StatusCode::OK, &frame, &content(story.as_ref(), past.as_ref(), &times, &view, &further))
}

/// Reads the details of the event that the user chose. `None` if the call has no such event.
async fn opened(stack: &Stack, call: &Call, story: Option<&Story>, view: &View<'_>) -> Option<Markup> {
    let mut events = story?.story.iter().filter_map(|line| match line {
        Line::Event(event) => Some(&event.source_event_id),
        Line::Move { .. } | Line::Write(_) => None,
    });
    let chosen = view.event?;
    let id = EventId::new(events.find(|id| id.as_str() == chosen)?.as_str());
    // The other person has the same letter in the details as on the rest of the page.
    let mut masker = Masker::new();
    if let Some(number) = call.party() {
        drop(masker.number(&number));
    }
    Some(match events::show_masked(stack, &id, &mut masker).await {
        Ok(Some(path)) => event::details(&path),
        Ok(None) => html! {
            p.muted {
                "The inbox no longer holds this event: the parameter " code { "InboxRetentionDays" } " says how long it is kept."
            }
        },
        Err(error) => parts::problem("the event", &error),
    })
}

/// Prints the buttons that plan a repair of the call.
fn plans(session: &Session, call_id: &str) -> Markup {
    let call = [("call", call_id)];
    html! {
        section.plans {
            h2 { "Repair this call" }
            p.muted {
                "A plan changes nothing. Replay sends the stored events of the call again, Verify compares its row with them, and "
                "Republish publishes its domain events again."
            }
            (plan::button(session, "Plan: replay this call", Kind::Replay, &call))
            (plan::button(session, "Verify", Kind::Verify, &call))
            (plan::button(session, "Republish", Kind::Republish, &call))
        }
    }
}

fn frame(title: &str, id: &str) -> Frame {
    Frame { title: title.to_owned(), entry: Some(Entry::Calls), command: format!("timeline {}", parts::quoted(id)) }
}

fn nothing(id: &str) -> Markup {
    html! {
        h1 { "No call was found" }
        p {
            @if id.is_empty() { "The address names no call." }
            @else { "Nothing has the id " (parts::foreign(id)) ": no call, and no attempt that Switchhook dialled lately." }
        }
        p { "The search above also looks for events, appointments and numbers." }
    }
}

/// Prints the page of a call as the user chose to see it. `whole` is its story as it is known now, and `past` the one of the time that
/// the user chose.
fn content(
    whole: Option<&Story>,
    past: Option<&Option<Story>>,
    times: &[Timestamp],
    view: &View<'_>,
    further: &Further,
) -> Markup {
    let known_at = KnownAt { view, times };
    let shown = past.map_or(whole, Option::as_ref);
    let (Some(whole), Some(story)) = (whole, shown) else {
        return html! { div.call { h1 { span.id { (parts::foreign(view.call_id)) } } (known_at.print(None)) } };
    };
    let open = Open::of(story, view.attempt);
    let rows = table::rows(story, open);
    html! {
        div.call {
            (header(story))
            (known_at.print(Some(&story.call)))
            figure.drawing data-still {
                figcaption { "In short: " (visible(&story.in_short)) span.muted { " The drawing's times are UTC." } }
                (zoom(view))
                (svg::shapes())
                div.scroll { (svg::print(&drawing::draw(story, whole, &rows, view.zoom))) }
                (svg::print_down(&down::draw(story, whole, &rows)))
            }
            @if !story.call.attempts.is_empty() { (table::attempts(story, open, view)) }
            (table::events(story, open, &rows, view, further.opened.as_ref()))
            (unfolded::section(view, further.unfolded.as_ref()))
            (further.plans)
        }
        script type="module" src=(assets::url("timeline.js")) {}
    }
}

/// Prints the links that make the drawing wider and narrower.
fn zoom(view: &View<'_>) -> Markup {
    let link = |view: Option<View<'_>>, key: &str, text: &str| {
        html! { @if let Some(view) = view { a.button href=(view.url()) title=(format!("{text} ({key})")) aria-label=(text) { (key) } } }
    };
    html! {
        p.zoom {
            @if view.zoom > 1 { span { (view.zoom) " ×" } }
            (link(view.zoomed(true), "+", "Zoom in"))
            (link(view.zoomed(false), "−", "Zoom out"))
            (link(view.zoomed(false).map(|view| View { zoom: 1, ..view }), "0", "Show the whole call"))
        }
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
        ul.facts data-still {
            li { (call.provider.as_ref().map_or("no provider", Provider::as_str)) " " (direction) }
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
