//! Unmasking: the stored body of one event as it was sent, after the audit record says who looked and why.
//!
//! Nothing remembers that a body was unmasked: the next look needs a reason again. The page of an event shows [`form`].

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::EventId;
use switchhook_operate::Error;
use switchhook_operate::events;

use crate::console::Console;
use crate::page::{self, Frame};
use crate::pages::plan::{refuse_form, refused};
use crate::parts;
use crate::query::{Query, url};
use crate::session::Session;
use crate::text::{SHOWN_BYTES_MAX, visible};

/// Returns the form that unmasks the body of an event. Empty if the console may change nothing.
pub(crate) fn form(console: &Console, session: &Session, event_id: &str) -> Markup {
    html! {
        @if console.runs().is_some() {
            form.change method="post" action="/unmask" {
                input type="hidden" name="form_token" value=(session.form_token(&purpose(event_id)));
                input type="hidden" name="event" value=(event_id);
                label.field.reason { "Reason, for the audit record"
                    input name="reason" required maxlength="500" autocomplete="off" placeholder="a ticket, and why the body is needed"; }
                button type="submit" { "Show the body unmasked" }
            }
        }
    }
}

/// Purpose of the token in that form.
fn purpose(event_id: &str) -> String {
    format!("unmask {event_id}")
}

/// Asks for the reason, on a page of its own.
pub(crate) async fn ask(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let event = query.id("event").unwrap_or_default();
    let content = html! {
        h1 { "Unmask the body of " (parts::foreign(event)) }
        p { "The body may hold numbers, names and what people said. An audit record will say that you looked, and why." }
        (form(&console, &session, event))
    };
    page::whole(&console, StatusCode::OK, &frame(event), &content)
}

/// Writes the audit record, and then shows the body.
pub(crate) async fn show(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    let event = form.id("event").unwrap_or_default();
    let page_of_event = url("/event", &[("id", event)]);
    if console.runs().is_none() || !session.accepts(&purpose(event), form.get("form_token").unwrap_or_default()) {
        return refuse_form(&console, &page_of_event);
    }
    let back = html! { p { a href=(page_of_event) { "Back to the event" } } };
    let reason = form.get("reason").unwrap_or_default();
    let (status, content) = match events::unmasked(console.stack(), &EventId::new(event), reason).await {
        Ok(Some(body)) => (StatusCode::OK, content(event, &body)),
        Ok(None) => (StatusCode::NOT_FOUND, html! { h1 { "There is no such event" } }),
        Err(Error::Refusal(reason)) => {
            (StatusCode::UNPROCESSABLE_ENTITY, html! { h1 { "The body stays masked" } (refused(&reason)) })
        }
        Err(error) => (
            StatusCode::BAD_GATEWAY,
            html! { h1 { "The body stays masked" } (parts::problem("the body, or its audit record,", &error)) },
        ),
    };
    page::answer(&console, status, &frame(event), &html! { (content) (back) })
}

fn frame(event: &str) -> Frame {
    let command = format!("event show {} --body --reason TEXT", parts::quoted(event));
    Frame { title: "Body, unmasked".to_owned(), entry: None, command }
}

fn content(event: &str, body: &[u8]) -> Markup {
    let shown = body.get(..SHOWN_BYTES_MAX).unwrap_or(body);
    html! {
        h1 { "Body of " (parts::foreign(event)) }
        p.muted { "An audit record says that you looked. Nothing on this page is remembered." }
        @if shown.len() < body.len() {
            p { "The body has " (body.len()) " bytes. The first " (SHOWN_BYTES_MAX) " are shown." }
        }
        pre.payload tabindex="0" {
            @for line in String::from_utf8_lossy(shown).lines() { bdi { (visible(line)) } "\n" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_one_word_of_the_command() {
        let plain = "event show retell:call_1:call_ended --body --reason TEXT";
        assert_eq!(frame("retell:call_1:call_ended").command, plain);
        let quoted = r"event show 'generic:a; b '\''c'\''' --body --reason TEXT";
        assert_eq!(frame("generic:a; b 'c'").command, quoted);
    }
}
