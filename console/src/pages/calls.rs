//! Calls: lists of them, each from one index.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_operate::calls::{StuckReport, stuck};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts;

/// Time without a move after which a call counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10 * 60);

pub(crate) async fn show(State(console): State<Console>) -> Response {
    let frame = Frame { title: "Calls".to_owned(), entry: Some(Entry::Calls), command: "stuck".to_owned() };
    let stack = console.stack().clone();
    page::stream(&console, frame, async move {
        match stuck(&stack, STUCK_AFTER).await {
            Ok(report) => content(&report),
            Err(error) => parts::problem("the index of calls", &error),
        }
    })
}

fn content(report: &StuckReport) -> Markup {
    html! {
        h1 { "Calls" }
        @if report.calls.is_empty() {
            (parts::empty(&html! { "No call is stuck. " (report.examined) " open calls were examined." }))
        } @else {
            table {
                thead { tr { th scope="col" { "Call" } th scope="col" { "Stuck" } th scope="col" { "Why" } } }
                tbody {
                    @for call in &report.calls {
                        tr {
                            td { (parts::call_link(call.call_id.as_str())) }
                            td { (call.kind.as_str()) }
                            td { (call.why) }
                        }
                    }
                }
            }
        }
    }
}
