//! The events of a call that are not in its history. They are looked for when the user asks.

use maud::{Markup, html};
use switchhook_domain::{Call, Timestamp};
use switchhook_operate::Error;
use switchhook_operate::events::{EventLine, UnfoldedPage, unfolded};

use super::view::{Unfolded, View};
use crate::console::Console;
use crate::pages::events::unreadable;
use crate::parts;

/// Reads the events that are not folded. `None` if the user did not ask for them.
pub(super) async fn read(console: &Console, call: &Call, view: &View<'_>) -> Option<Markup> {
    let until = match view.unfolded? {
        Unfolded::Latest => None,
        Unfolded::Before(until) => Some(until),
    };
    let before = until.map_or_else(String::new, |until| format!(" --until {until}"));
    let command = format!("event list --call {} --unfolded{before}", parts::quoted(view.call_id));
    Some(html! {
        (print(&unfolded(console.stack(), call, until).await, view))
        p.muted { "In the terminal: " (parts::command(console, &command)) }
    })
}

/// Prints the section of the page. Without `found`, it offers to look.
pub(super) fn section(view: &View<'_>, found: Option<&Markup>) -> Markup {
    html! {
        section #unfolded {
            h2 { "Events not folded" }
            @match found {
                Some(found) => (found),
                None => p {
                    "Events that were recorded, quarantined or not processed yet are in no history. They are looked for minute by "
                    "minute. "
                    a.button href=(url(view, Unfolded::Latest)) { "Look for them" }
                },
            }
        }
    }
}

fn url(view: &View<'_>, unfolded: Unfolded) -> String {
    View { unfolded: Some(unfolded), ..*view }.url() + "#unfolded"
}

fn print(found: &Result<UnfoldedPage, Error>, view: &View<'_>) -> Markup {
    let page = match found {
        Ok(page) => page,
        Err(error) => return parts::problem("the events that are not folded", error),
    };
    let further = |until: Option<&String>| {
        let until = until.and_then(|until| Timestamp::parse_rfc3339(until))?;
        Some(url(view, Unfolded::Before(until)))
    };
    html! {
        (unreadable(&page.unreadable))
        @if page.events.is_empty() {
            (parts::empty(&html! { "No other event of this call arrived in this time. " (span(page)) }))
        } @else {
            (table(&page.events))
            p.muted { (span(page)) }
        }
        p.row {
            @if let Some(url) = further(page.earlier_until.as_ref()) { a.button rel="prev" href=(url) { "Look earlier" } }
            @if let Some(url) = further(page.later_until.as_ref()) { a.button rel="next" href=(url) { "Look later" } }
        }
    }
}

fn span(page: &UnfoldedPage) -> Markup {
    html! {
        "Examined: " (parts::date_and_time(&page.examined_since)) " to " (parts::date_and_time(&page.examined_until)) ", with "
        (page.queries) " queries."
    }
}

fn table(events: &[EventLine]) -> Markup {
    html! {
        table {
            caption { "Events of this call that are not in its history, the latest first" }
            (parts::columns(&["Arrived", "Event", "Type", "Status", "Error"]))
            tbody {
                @for event in events {
                    tr {
                        td data-label="Arrived" { (parts::date_and_time(&event.received_at)) }
                        td data-label="Event" { (parts::event_link(&event.event_id)) }
                        td data-label="Type" { (parts::foreign(&event.event_type)) }
                        td data-label="Status" { (parts::badge(event.status)) }
                        td data-label="Error" { @if let Some(error) = &event.error { (parts::foreign(error)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{Origin, Provider};

    use super::*;

    fn page(events: Vec<EventLine>) -> UnfoldedPage {
        UnfoldedPage {
            events,
            unreadable: Vec::new(),
            examined_since: "2026-11-22T11:00:00.000Z".to_owned(),
            examined_until: "2026-11-22T15:00:00.000Z".to_owned(),
            queries: 240,
            earlier_until: Some("2026-11-22T11:00:00.000Z".to_owned()),
            later_until: None,
        }
    }

    #[test]
    fn page_names_its_span_and_offers_to_go_on() {
        let html = print(&Ok(page(Vec::new())), &View::of_call("a/b")).into_string();
        assert!(html.contains("No other event") && html.contains("with 240 queries"), "{html}");
        assert!(html.contains("2026-11-22 11:00:00") && html.contains("2026-11-22 15:00:00"), "{html}");
        assert!(html.contains("/call?id=a%2Fb&amp;unfolded=2026-11-22T11%3A00%3A00.000Z#unfolded"), "{html}");
        assert!(html.contains("Look earlier") && !html.contains("Look later"), "{html}");
    }

    #[test]
    fn error_of_an_event_is_only_text() {
        let hostile = "<img src=x>\u{202e}".to_owned();
        let event = EventLine {
            event_id: hostile.clone(),
            provider: Origin::Provider(Provider::Generic),
            event_type: hostile.clone(),
            call_id: None,
            entity: None,
            status: "quarantined",
            received_at: "2026-11-22T14:00:00.000Z".to_owned(),
            occurred_at: None,
            late_ms: None,
            applied_after_ms: None,
            attempts: 0,
            error: Some(hostile),
        };
        let html = print(&Ok(page(vec![event])), &View::of_call("a")).into_string();
        assert!(!html.contains("<img") && !html.contains('\u{202e}') && html.contains("quarantined"), "{html}");
    }
}
