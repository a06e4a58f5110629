//! Health: is it healthy, is there a backlog, is there poison?

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_operate::status::{Evidence, Question, Status, status};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts;

pub(crate) async fn show(State(console): State<Console>) -> Response {
    let frame = Frame { title: "Health".to_owned(), entry: Some(Entry::Health), command: "status".to_owned() };
    let stack = console.stack().clone();
    page::stream(&console, frame, async move { content(&status(&stack).await) })
}

fn content(status: &Status) -> Markup {
    html! {
        h1.hidden { "Health" }
        div.questions {
            @for question in &status.questions { (panel(question)) }
        }
    }
}

fn panel(question: &Question) -> Markup {
    html! {
        section.panel {
            h2 { (question.question) " " (parts::level(question.answer)) }
            dl.evidence {
                @for line in &question.evidence { (evidence(line)) }
            }
        }
    }
}

fn evidence(line: &Evidence) -> Markup {
    html! {
        div.line {
            dt { (line.name) }
            dd { (parts::foreign(&line.text)) " " (parts::level(line.level)) }
            @if let Some(advice) = &line.advice {
                dd.advice {
                    (advice.text) ": " code { (advice.command) }
                    @if let Some(section) = &advice.runbook { " (runbook: " (section) ")" }
                }
            }
        }
    }
}
