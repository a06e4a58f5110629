//! One module for each page.

pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod dials;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod plan;
pub(crate) mod playground;
pub(crate) mod repair;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod unmask;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use crate::console::Console;
use crate::page::{Frame, whole};

/// Answers a request for a page that does not exist.
pub(crate) async fn not_found(State(console): State<Console>) -> Response {
    let frame = Frame { title: "No such page".to_owned(), entry: None, command: "--help".to_owned() };
    let content = html! {
        h1 { (frame.title) }
        p { "Choose a page above, or search." }
    };
    whole(&console, StatusCode::NOT_FOUND, &frame, &content)
}
