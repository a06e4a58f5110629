//! An event: the path of one webhook in five steps, with its masked payload.

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::EventId;
use switchhook_operate::events::{
    Announced, Conflict, EventLine, EventPath, FoldedEntry, PROCESSED, Retries, show as read,
};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::events::precise;
use crate::pages::unmask;
use crate::parts;
use crate::query::{Query, url};
use crate::session::Session;
use crate::text::{SHOWN_BYTES_MAX, short_duration, visible};

/// Largest part of an unknown id that is shown, in characters.
const ID_SHOWN_MAX: usize = 200;
/// Time after which an event counts as late.
const LATE_MS: i64 = 10_000;

pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = query.id("id").unwrap_or_default();
    let frame = Frame {
        title: format!("Event {}", visible(id)),
        entry: Some(Entry::Events),
        command: format!("event show {}", parts::quoted(id)),
    };
    match read(console.stack(), &EventId::new(id)).await {
        Ok(Some(path)) => {
            page::whole(&console, StatusCode::OK, &frame, &content(&path, &unmask_form(&console, &session, id)))
        }
        Ok(None) => page::whole(&console, StatusCode::NOT_FOUND, &frame, &nothing(id)),
        Err(error) => {
            let content = html! { h1 { "Event " (parts::foreign(id)) } (parts::problem("the event", &error)) };
            page::whole(&console, StatusCode::OK, &frame, &content)
        }
    }
}

fn nothing(id: &str) -> Markup {
    let is_cut = id.chars().count() > ID_SHOWN_MAX;
    let shown: String = id.chars().take(ID_SHOWN_MAX).collect();
    html! {
        h1 { "No event was found" }
        p {
            @if id.is_empty() { "The address names no event. " }
            @else { "The inbox holds no event with the id " (parts::foreign(&shown)) @if is_cut { "…" } ". " }
            "Ids are like " code { "retell:call_5d0b8f6e:call_ended" } ". An event is kept for as long as the parameter "
            code { "InboxRetentionDays" } " says."
        }
        p { "The search above also looks for calls, appointments and numbers." }
        p { a href="/events" { "Events that arrived lately" } }
    }
}

/// Returns the form that unmasks the payload. A console that changes nothing names the command instead.
fn unmask_form(console: &Console, session: &Session, id: &str) -> Markup {
    html! {
        details.panel {
            summary { "Payload, unmasked" }
            p { "The body may hold numbers, names and what people said. An audit record will say that you looked, and why." }
            @if console.runs().is_some() {
                (unmask::form(console, session, id))
            } @else {
                p { "In the terminal: " (parts::command(console, &format!("event show {} --body --reason TEXT", parts::quoted(id)))) }
            }
        }
    }
}

fn content(path: &EventPath, unmask: &Markup) -> Markup {
    let line = &path.line;
    html! {
        h1 { "Event " (parts::copyable(&line.event_id)) }
        p.row {
            (parts::badge(line.status))
            span { (line.provider) " " (parts::foreign(&line.event_type)) }
            @if let Some(call) = &line.call_id { span { "call " (parts::call_link(call)) } }
            @if let Some(entity) = &line.entity { span { (parts::foreign(entity)) } }
        }
        (steps(path))
        @if !path.folded.is_empty() { (folded(&path.folded)) }
        @if !path.announced.is_empty() { (announced(&path.announced)) }
        @if let Some(conflict) = &path.conflict { (difference(conflict)) }
        (payload(path))
        (unmask)
        (headers(path))
    }
}

fn steps(path: &EventPath) -> Markup {
    let line = &path.line;
    let late = line.late_ms.filter(|ms| *ms >= LATE_MS && path.source != "switchhook");
    html! {
        ol.steps {
            li {
                strong { "Received " }
                (parts::date_and_time(&line.received_at))
                p.muted {
                    @if let Some(at) = &line.occurred_at { "It happened at " (parts::date_and_time(at)) ", by the provider's clock. " }
                    @if let Some(late) = late { (short_duration(late)) " late." }
                }
            }
            li { strong { "Verified " } (verified(path)) }
            li {
                strong { "Stored " }
                (path.body_bytes) " bytes, trace id " span.id { (parts::foreign(&path.trace_id)) }
                @if let Some(at) = &path.erased_at {
                    p.muted { "Erased " (parts::date_and_time(at)) ", because its person was forgotten." }
                }
            }
            li.missing[path.folded_at.is_none() && !is_ordered(line)] {
                strong { "Folded " }
                @match (&path.folded_at, line.applied_after_ms) {
                    (_, _) if is_ordered(line) => "among the events of its entity",
                    (Some(at), Some(after)) => { (parts::date_and_time(at)) ", after " (precise(after)) },
                    (_, _) => { "not: " (unfolded(line.status)) },
                }
                @match (&path.retries, &line.error) {
                    (Some(retries), _) => (tries(retries)),
                    (None, Some(error)) => p.muted { (parts::foreign(error)) },
                    (None, None) => {},
                }
            }
            li.missing[path.announced.is_empty()] {
                strong { "Announced " }
                @match path.announced.len() {
                    0 => "nothing: no domain event has this event as its source",
                    1 => "1 domain event",
                    count => { (count) " domain events" },
                }
            }
        }
    }
}

fn verified(path: &EventPath) -> Markup {
    match (path.key_number, path.source) {
        (Some(1), _) => html! { "by key 1 of the provider, the newest" },
        (Some(number), _) => html! { "by key " (number) " of the provider; key 1 is the newest" },
        (None, "lookup") => html! { "not needed: it is the provider's answer to a lookup" },
        (None, _) => html! { "not needed: Switchhook made it" },
    }
}

/// True if the event is about no call, and its entity says what became of it.
fn is_ordered(line: &EventLine) -> bool {
    line.entity.is_some() && ["applied", "stale", PROCESSED].contains(&line.status)
}

/// Says why an event of this status is in no call's history.
fn unfolded(status: &str) -> &'static str {
    match status {
        "recorded" => "its type changes no call, so it is only kept",
        "quarantined" => "it is quarantined",
        "refused" => "its call refused it",
        "retrying" => "folding it failed, and it is tried again",
        "dead_lettered" => "folding it failed every time, and it waits in the dead-letter queue",
        "discarded" => "folding it failed every time, and an operator discarded it",
        "queued" => "it waits in the queue",
        "unknown" => "nothing says so, and the row of its call cannot be read",
        _ => "its call does not have it in its history",
    }
}

/// Details of an event for the page of its call: the key that verified it, its trace id, headers and payload.
pub(crate) fn details(path: &EventPath) -> Markup {
    html! {
        p {
            "Verified " (verified(path)) ". Trace id " span.id { (parts::foreign(&path.trace_id)) } ". "
            a href=(url("/event", &[("id", &path.line.event_id)])) { "The whole path of this webhook" }
        }
        @if let Some(at) = &path.erased_at {
            p.muted { "Erased " (parts::date_and_time(at)) ", because its person was forgotten." }
        }
        (payload(path))
        (headers(path))
    }
}

fn tries(retries: &Retries) -> Markup {
    html! {
        p.muted {
            (retries.count) " failed " @if retries.count == 1 { "try. " } @else { "tries. " }
            @if let Some(at) = &retries.next_retry_at { "Next try " (parts::date_and_time(at)) ". " }
            @if let Some(at) = &retries.dead_lettered_at { "Dead letter since " (parts::date_and_time(at)) ". " }
            @if let Some(at) = &retries.discarded_at { "Discarded " (parts::date_and_time(at)) ". " }
            @if let Some(error) = &retries.error { (parts::foreign(error)) }
        }
    }
}

fn folded(entries: &[FoldedEntry]) -> Markup {
    html! {
        table {
            caption { "Call events that were read from it, and their effect" }
            (parts::columns(&["Call event", "Disposition", "Why"]))
            tbody {
                @for entry in entries {
                    tr {
                        td { (entry.kind) @if entry.implied { span.muted { " (implied)" } } }
                        td data-label="Disposition" { (parts::badge(entry.disposition)) }
                        td data-label="Why" { (parts::foreign(&entry.why)) }
                    }
                }
            }
        }
    }
}

fn announced(events: &[Announced]) -> Markup {
    html! {
        table {
            caption { "Domain events that it caused. They are published right after the write that committed them." }
            (parts::columns(&["Type", "Committed", "Id"]))
            tbody {
                @for event in events {
                    tr {
                        td { (event.event_type) }
                        td data-label="Committed" { @if let Some(at) = &event.at { (parts::date_and_time(at)) } @else { "-" } }
                        td data-label="Id" { span.id { (parts::foreign(&event.id)) } }
                    }
                }
            }
        }
    }
}

fn difference(conflict: &Conflict) -> Markup {
    let lines = beginning(&conflict.diff, |line| line.line.len());
    html! {
        section.panel {
            h2 { "Another body arrived under the same id, " (parts::date_and_time(&conflict.received_at)) }
            p.muted {
                "The stored body counts: the later one was kept, and changed nothing. Lines with - are of the stored body, lines with + "
                "of the later one."
                @if lines.len() < conflict.diff.len() { " Only the beginning is shown." }
            }
            pre.diff tabindex="0" aria-label="Difference of the two bodies" {
                @for line in lines {
                    @match line.sign {
                        '+' => ins { "+ " (visible(&line.line)) },
                        '-' => del { "- " (visible(&line.line)) },
                        _ => span { "  " (visible(&line.line)) },
                    }
                    "\n"
                }
            }
        }
    }
}

/// Returns the first lines that together keep to `SHOWN_BYTES_MAX`.
fn beginning<T>(lines: &[T], bytes: impl Fn(&T) -> usize) -> &[T] {
    let mut left = SHOWN_BYTES_MAX;
    let end = lines.iter().position(|line| {
        left = left.saturating_sub(bytes(line) + 1);
        left == 0
    });
    end.and_then(|end| lines.get(..end)).unwrap_or(lines)
}

fn payload(path: &EventPath) -> Markup {
    let lines = beginning(&path.body, String::len);
    let is_cut = path.body_is_cut || lines.len() < path.body.len();
    html! {
        section.panel {
            h2 { "Payload, masked" }
            p.muted {
                "Numbers, addresses, names and what people said are hidden. Equal values have equal letters."
                @if is_cut { " Only its beginning is shown." }
            }
            pre.payload tabindex="0" aria-label="Payload" {
                @for line in lines { (visible(line)) "\n" }
            }
        }
    }
}

fn headers(path: &EventPath) -> Markup {
    html! {
        @if !path.headers.is_empty() {
            details.panel {
                summary { "Headers, masked (" (path.headers.len()) ")" }
                dl.headers {
                    @for (name, value) in &path.headers {
                        div { dt.mono { (parts::foreign(name)) } dd.mono { (parts::foreign(value)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use switchhook_domain::{Origin, Provider};
    use switchhook_operate::events::DiffLine;

    use super::*;

    fn path() -> EventPath {
        let at = "2026-11-22T15:49:36.343Z".to_owned();
        let line = EventLine {
            event_id: "retell:call_1:call_ended".to_owned(),
            provider: Origin::Provider(Provider::Retell),
            event_type: "call_ended".to_owned(),
            call_id: Some("call-1".to_owned()),
            entity: None,
            status: "applied",
            received_at: at.clone(),
            occurred_at: Some("2026-11-22T14:49:36.343Z".to_owned()),
            late_ms: Some(3_600_000),
            applied_after_ms: Some(41),
            attempts: 1,
            error: None,
        };
        EventPath {
            line,
            key_number: Some(2),
            source: "webhook",
            trace_id: "1-abc".to_owned(),
            body_bytes: 120,
            folded: vec![FoldedEntry {
                kind: "completed",
                implied: false,
                disposition: "applied",
                reason: "first_legal_step",
                why: "ended attempt 1".to_owned(),
            }],
            folded_at: Some(at.clone()),
            announced: vec![Announced {
                id: "call-1#2".to_owned(),
                event_type: "call.outcome".to_owned(),
                at: Some(at.clone()),
            }],
            retries: None,
            headers: BTreeMap::from([("x-retell-signature".to_owned(), "‹text A, 64 characters›".to_owned())]),
            erased_at: None,
            body: vec!["{".to_owned(), "  \"to\": \"+44…123 A\"".to_owned(), "}".to_owned()],
            body_is_cut: false,
            conflict: None,
        }
    }

    #[test]
    fn path_is_told_in_five_steps() {
        let html = content(&path(), &html! {}).into_string();
        for part in [
            "Received ",
            "1 h late",
            "by key 2 of the provider",
            "120 bytes, trace id",
            "after 41 ms",
            "1 domain event<",
            "ended attempt 1",
            r#"href="/call?id=call-1""#,
            "+44…123 A",
            "x-retell-signature",
        ] {
            assert!(html.contains(part), "{part} is missing: {html}");
        }
        assert_eq!(html.matches("<li").count(), 5);
    }

    #[test]
    fn event_that_was_not_folded_says_why() {
        let mut path = path();
        (path.folded_at, path.line.status, path.key_number) = (None, "dead_lettered", None);
        path.retries = Some(Retries {
            count: 20,
            error: Some("throttled".to_owned()),
            next_retry_at: None,
            dead_lettered_at: Some("2026-11-22T16:00:00.000Z".to_owned()),
            discarded_at: None,
        });
        let html = content(&path, &html! {}).into_string();
        assert!(html.contains("waits in the dead-letter queue") && html.contains("20 failed tries. "), "{html}");
        assert!(html.contains("throttled") && html.contains("not needed: Switchhook made it"), "{html}");
    }

    #[test]
    fn conflict_is_a_difference_of_lines() {
        let line = |sign, line: &str| DiffLine { sign, line: line.to_owned() };
        let diff = vec![line(' ', "{"), line('-', "\"a\": 1"), line('+', "<script>\u{202e}")];
        let conflict = Conflict { received_at: "2026-11-22T16:00:00.000Z".to_owned(), diff };
        let html = difference(&conflict).into_string();
        assert!(html.contains("<del>- &quot;a&quot;: 1</del>\n<ins>+ &lt;script&gt;⟨U+202E⟩</ins>"), "{html}");
    }

    #[test]
    fn long_payload_is_cut() {
        let long = EventPath { body: vec!["x".repeat(1_000); 1_000], ..path() };
        let html = payload(&long).into_string();
        assert!(html.len() < SHOWN_BYTES_MAX + 1_000 && html.contains("Only its beginning is shown"), "{}", html.len());
    }
}
