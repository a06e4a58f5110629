//! A call: its story, and why its state is what it is.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::Timestamp;
use switchhook_operate::timeline::{self, EventInStory, Line, Story};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts;
use crate::query::Query;
use crate::text::visible;

pub(crate) async fn show(State(console): State<Console>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = query.get("id").unwrap_or_default().to_owned();
    let as_of = query.get("as_of").and_then(Timestamp::parse_rfc3339);
    let frame =
        Frame { title: format!("Call {}", visible(&id)), entry: Some(Entry::Calls), command: format!("timeline {id}") };
    let found = timeline::find(console.stack(), &id).await;
    let story = found.map(|found| found.and_then(|found| timeline::story(&found, as_of)));
    match story {
        Ok(Some(story)) => page::whole(&console, StatusCode::OK, &frame, &content(&story)),
        Ok(None) => page::whole(&console, StatusCode::NOT_FOUND, &frame, &nothing(&id)),
        Err(error) => page::whole(&console, StatusCode::OK, &frame, &parts::problem("the call", &error)),
    }
}

fn nothing(id: &str) -> Markup {
    html! {
        h1 { "No call was found" }
        p { "Nothing has the id " (parts::foreign(id)) ": no call, event, attempt of a provider, or appointment." }
    }
}

fn content(story: &Story) -> Markup {
    let call = &story.call;
    html! {
        h1 { (parts::foreign(&call.call_id)) }
        p { (call.appointment_status) " · job " (call.job.state.unwrap_or("not known")) " · version " (call.version) }
        table {
            caption { "Events in the order in which Switchhook learned of them" }
            thead {
                tr {
                    th scope="col" { "Occurred" }
                    th scope="col" { "Arrived" }
                    th scope="col" { "Attempt" }
                    th scope="col" { "Event" }
                    th scope="col" { "Disposition" }
                    th scope="col" { "Why" }
                }
            }
            tbody {
                @for line in &story.story {
                    @match line {
                        Line::Event(event) => (event_row(event)),
                        Line::Move { .. } | Line::Write(_) => {}
                    }
                }
            }
        }
    }
}

fn event_row(event: &EventInStory) -> Markup {
    html! {
        tr {
            td { @if let Some(at) = &event.occurred_at { (parts::time(at)) } @else { "-" } }
            td { (parts::time(&event.received_at)) }
            td { @if let Some(attempt) = event.attempt { (attempt) } @else { "-" } }
            td { (event.kind) }
            td { (event.disposition) }
            td { (event.why) }
        }
    }
}
