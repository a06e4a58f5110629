//! Search: leads from an id or a number to its call.
//!
//! **The text is posted, and never stands in a URL**, because it may be a phone number.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use switchhook_operate::timeline;

use crate::console::Console;
use crate::page::{self, Frame};
use crate::parts;
use crate::query::{Query, url};
use crate::session::Session;

pub(crate) async fn find(
    State(console): State<Console>,
    Extension(_session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    let text = form.get("text").unwrap_or_default();
    let frame = Frame { title: "Search".to_owned(), entry: None, command: "timeline".to_owned() };
    match timeline::find(console.stack(), text).await {
        Ok(Some(found)) => Redirect::to(&url("/call", &[("id", found.call.call_id.as_str())])).into_response(),
        Ok(None) => page::whole(
            &console,
            StatusCode::NOT_FOUND,
            &frame,
            &html! {
                h1 { "Nothing was found" }
                p { "No call, event, attempt of a provider, appointment or number is equal to this text." }
            },
        ),
        Err(error) => page::whole(&console, StatusCode::OK, &frame, &parts::problem("the search", &error)),
    }
}
