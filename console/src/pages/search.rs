//! Search: leads from an id, an appointment or a number to its calls.
//!
//! **The text is posted, and never stands in a URL**, because it may be a phone number. A page of several results has a handle in
//! its URL, which only the session knows.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_domain::Timestamp;
use switchhook_operate::calls::ListedCall;
use switchhook_operate::mask::Masker;
use switchhook_operate::search::{SearchResult, search};
use switchhook_operate::timeline::How;
use switchhook_operate::{Error, Stack};

use crate::console::Console;
use crate::page::{self, Frame};
use crate::pages::calls::{table, unreadable};
use crate::parts;
use crate::query::{Query, url};
use crate::session::Session;

/// Page to which a result leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Page(String),
    /// Several results, which need a page of their own.
    List,
    Nothing,
}

pub(crate) async fn find(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    let (text, result) = search_typed(console.stack(), form.id("text").unwrap_or_default()).await;
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            let content = html! { h1 { "Search" } (parts::problem("the search", &error)) };
            return page::answer(&console, StatusCode::OK, &frame(), &content);
        }
    };
    match target(&result) {
        Target::Page(url) => Redirect::to(&url).into_response(),
        Target::List => match console.sessions().keep_search(&session, text) {
            Ok(handle) => Redirect::to(&url("/search", &[("found", &handle)])).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        },
        Target::Nothing => page::answer(&console, StatusCode::NOT_FOUND, &frame(), &nothing()),
    }
}

/// Searches for the text as it was typed, because an id may begin or end with a blank. If nothing is found, searches without the blanks.
/// Returns the text that was searched for last.
async fn search_typed<'a>(stack: &Stack, typed: &'a str) -> (&'a str, Result<SearchResult, Error>) {
    let result = search(stack, typed).await;
    let text = typed.trim();
    let is_nothing = result.as_ref().is_ok_and(|result| target(result) == Target::Nothing);
    if is_nothing && text != typed { (text, search(stack, text).await) } else { (typed, result) }
}

/// Shows several results.
pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let kept = query.get("found").and_then(|handle| console.sessions().search(&session, handle));
    let Some(text) = kept else {
        let content = html! {
            h1 { "This search is over" }
            p { "A search by number is kept only in its session. Search again in the field above." }
        };
        return page::whole(&console, StatusCode::NOT_FOUND, &frame(), &content);
    };
    let reader = console.clone();
    page::stream(&console, frame(), async move {
        match search(reader.stack(), &text).await {
            Ok(result) => content(&result, reader.stack().now()),
            Err(error) => html! { h1 { "Search" } (parts::problem("the search", &error)) },
        }
    })
}

fn frame() -> Frame {
    Frame { title: "Search".to_owned(), entry: None, command: "timeline TEXT".to_owned() }
}

fn target(result: &SearchResult) -> Target {
    let SearchResult { calls, event, unreadable, more: _ } = result;
    match (calls.as_slice(), event, unreadable.as_slice()) {
        ([(call, _)], _, []) => Target::Page(url("/call", &[("id", call.call_id.as_str())])),
        ([], _, [id]) => Target::Page(url("/call", &[("id", id.as_str())])),
        ([], Some(event), []) => Target::Page(url("/event", &[("id", event.as_str())])),
        ([], None, []) => Target::Nothing,
        (_, _, _) => Target::List,
    }
}

fn nothing() -> Markup {
    html! {
        h1 { "Nothing was found" }
        p {
            "No call, event, entity, appointment or number is equal to this text. Parts of an id or a number are not "
            "looked for: copy the whole id, and write a number with its country, like +44 7700 900123."
        }
        p {
            "A provider's call id finds a call that Switchhook dialled, for 30 days and then for as long as the parameter "
            code { "InboxRetentionDays" } " says. For a call that another system dialled, search for its appointment, its number or one of "
            "its events, like " code { "retell:call_5d0b8f6e:call_ended" } ". Write the name of a provider that the configuration describes "
            "before its ids, like " code { "x-acme:c_5" } "."
        }
        p { "A number is found only if the stack had " code { "IndexNumbers" } " on when the call was last written." }
    }
}

fn content(result: &SearchResult, now: Timestamp) -> Markup {
    let mut masker = Masker::new();
    let calls: Vec<ListedCall> = result.calls.iter().map(|(call, _)| ListedCall::of(call, &mut masker, now)).collect();
    html! {
        h1 { (result.calls.len()) @if result.more { "+" } " calls were found" }
        (unreadable(&result.unreadable))
        @if let Some(event) = &result.event { p { "The event " (parts::event_link(event.as_str())) " has this id." } }
        (table(caption(result), &calls, now))
        @if result.more { p.muted { "Only the first calls of the index are shown: there are more." } }
    }
}

fn caption(result: &SearchResult) -> &'static str {
    let is_all = |wanted: &How| result.calls.iter().all(|(_, how)| how == wanted);
    if is_all(&How::Appointment) {
        "Calls of this appointment, the latest first"
    } else if is_all(&How::Number) {
        "Calls to and from this number, the latest first"
    } else {
        "Calls that the text leads to: as an id first, then as an appointment, then as a number"
    }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{CallId, EventId};

    use super::*;

    #[test]
    fn one_result_is_opened_at_once() {
        let nothing = SearchResult::default();
        assert_eq!(target(&nothing), Target::Nothing);
        let event = SearchResult { event: Some(EventId::new("generic:a/b")), ..SearchResult::default() };
        assert_eq!(target(&event), Target::Page("/event?id=generic%3Aa%2Fb".to_owned()));
        let unreadable = SearchResult { unreadable: vec![CallId::new("c1")], ..SearchResult::default() };
        assert_eq!(target(&unreadable), Target::Page("/call?id=c1".to_owned()));
        let both = SearchResult { unreadable: vec![CallId::new("c1"), CallId::new("c2")], ..SearchResult::default() };
        assert_eq!(target(&both), Target::List);
    }
}
