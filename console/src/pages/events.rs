//! Events: the received webhooks and findings, the latest first.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::{Origin, Timestamp};
use switchhook_operate::events::{EventLine, EventPage, Filter, MinuteCount, STATUSES, UnreadableEvent, list};
use switchhook_operate::selection::refuse_empty_span;

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::calls::{choice, provider_names};
use crate::parts::{self, counted};
use crate::query::{Query, url};
use crate::text::short_duration;

/// Events of a page.
const LIMIT: usize = 25;
/// Time without an event that gets a row of its own.
const QUIET_MS: i64 = 10 * 60_000;
/// Time after which an event counts as late.
const LATE_MS: i64 = 10_000;
/// Size of the bars, in pixels.
const BAR_WIDTH: usize = 12;
const BAR_HEIGHT: usize = 32;

/// Filters of the URL. The times are kept as they were written.
#[derive(Clone, Debug, Default)]
struct Wanted {
    since: Option<String>,
    until: Option<String>,
    provider: Option<Origin>,
    status: Option<&'static str>,
    event_type: Option<String>,
}

pub(crate) async fn show(State(console): State<Console>, uri: Uri) -> Response {
    let wanted = Wanted::of(&Query::of(&uri));
    let frame = Frame { title: "Events".to_owned(), entry: Some(Entry::Events), command: wanted.command() };
    let reader = console.clone();
    page::stream(&console, frame, async move {
        let stack = reader.stack();
        let now = stack.now();
        let filter = wanted.filter(now, stack.inbox_retention());
        let is_empty = refuse_empty_span(filter.since, filter.until).is_err();
        let read = async { if is_empty { None } else { Some(list(stack, &filter).await) } };
        let (found, providers) = tokio::join!(read, provider_names(stack));
        html! {
            h1 { "Events" }
            (fields(&wanted, providers))
            @match found {
                None => p.refused role="alert" {
                    "No time lies between " (parts::date_and_time(&filter.since.to_string())) " and "
                    (parts::date_and_time(&filter.until.to_string())) " " (parts::zone()) ". Choose an earlier Since, or a later Until."
                },
                Some(Ok(page)) => (content(&reader, &wanted, &page)),
                Some(Err(error)) => (parts::problem("the list of events", &error)),
            }
        }
    })
}

impl Wanted {
    fn of(query: &Query) -> Self {
        let owned = |name| query.get(name).map(str::to_owned);
        Self {
            since: owned("since").filter(|text| time_in(text).is_some()),
            until: owned("until").filter(|text| time_in(text).is_some()),
            provider: query.get("provider").and_then(|name| name.parse().ok()),
            status: query.get("status").and_then(|name| STATUSES.into_iter().find(|known| *known == name)),
            event_type: owned("type"),
        }
    }

    fn filter(&self, now: Timestamp, retention: Duration) -> Filter {
        let time = |text: &Option<String>| text.as_deref().and_then(time_in);
        Filter {
            status: self.status.map(str::to_owned),
            provider: self.provider,
            event_type: self.event_type.clone(),
            call: None,
            since: time(&self.since).unwrap_or(now.minus(retention)),
            // An event that arrives right now is shown too.
            until: time(&self.until).unwrap_or(now.plus(Duration::from_secs(1))),
            limit: LIMIT,
        }
    }

    const fn is_filtered(&self) -> bool {
        self.provider.is_some() || self.status.is_some() || self.event_type.is_some()
    }

    /// Returns the URL of the events before `until` with the same filters.
    fn url(&self, until: Option<&str>) -> String {
        let parameters = [
            ("since", self.since.as_deref()),
            ("until", until),
            ("provider", self.provider.as_ref().map(Origin::as_str)),
            ("status", self.status),
            ("type", self.event_type.as_deref()),
        ];
        let given: Vec<(&str, &str)> =
            parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        url("/events", &given)
    }

    fn command(&self) -> String {
        let time = |text: &Option<String>| text.as_deref().and_then(time_in).map(|time| time.to_string());
        let options = [
            ("--since", time(&self.since)),
            ("--until", time(&self.until)),
            ("--provider", self.provider.map(|origin| origin.as_str().to_owned())),
            ("--status", self.status.map(str::to_owned)),
            ("--type", self.event_type.as_deref().map(parts::quoted)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?)));
        format!("event list{} --limit {LIMIT}", given.collect::<String>())
    }
}

/// Reads a time: as RFC 3339, or as a browser's field sends it, which is then in UTC.
fn time_in(text: &str) -> Option<Timestamp> {
    let forms = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
    forms.iter().find_map(|form| Timestamp::parse_rfc3339(form))
}

/// Returns the time as a browser's field shows it. The field has no place for a zone.
fn field_value(text: Option<&str>) -> Option<String> {
    let time = time_in(text?)?.to_string();
    time.get(..19).map(str::to_owned)
}

fn fields(wanted: &Wanted, mut origins: BTreeSet<String>) -> Markup {
    origins.extend(wanted.provider.into_iter().chain([Origin::Switchhook]).map(|origin| origin.to_string()));
    let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
    html! {
        form.filters method="get" action="/events" {
            label { "Since (UTC)" input type="datetime-local" name="since" step="1" value=[field_value(wanted.since.as_deref())]; }
            label { "Until (UTC)" input type="datetime-local" name="until" step="1" value=[field_value(wanted.until.as_deref())]; }
            (choice("Provider", "provider", &origins, wanted.provider.as_ref().map(Origin::as_str)))
            (choice("Disposition", "status", &STATUSES, wanted.status))
            label { "Type" input name="type" size="14" autocomplete="off" spellcheck="false" value=[wanted.event_type.as_deref()]; }
            button type="submit" { "Filter" }
            @if wanted.is_filtered() || wanted.since.is_some() || wanted.until.is_some() { a.button href="/events" { "Clear" } }
        }
    }
}

fn content(console: &Console, wanted: &Wanted, page: &EventPage) -> Markup {
    html! {
        @if !page.minutes.is_empty() { (bars(wanted, &page.minutes)) }
        (unreadable(&page.unreadable))
        @if page.events.is_empty() {
            (parts::empty(&nothing(console, wanted, page)))
        } @else {
            table.received data-days="events" {
                caption { "Received events, the latest first" }
                thead {
                    tr {
                        th scope="col" { "Arrived" }
                        th scope="col" { "Event" }
                        th scope="col" { "Call" }
                        th scope="col" { "Disposition" }
                        th.number scope="col" { "Applied after" }
                        th.number scope="col" { "Tries" }
                    }
                }
                tbody {
                    @for (index, event) in page.events.iter().enumerate() {
                        @let newer = index.checked_sub(1).and_then(|index| page.events.get(index));
                        (quiet(wanted, newer.map_or(&page.examined_until, |event| &event.received_at), &event.received_at))
                        (row(event, newer.is_none_or(|newer| newer.received_at.get(..10) != event.received_at.get(..10))))
                    }
                    @if let Some(last) = page.events.last() { (quiet(wanted, &last.received_at, &page.examined_since)) }
                }
            }
        }
        div.row.further {
            @if wanted.until.is_some() { a.button href=(wanted.url(None)) { "Back to the top" } }
            @if let Some(until) = page.next_until.as_deref().filter(|_| !page.events.is_empty()) { a.button rel="next" href=(wanted.url(Some(until))) { "Older" } }
            span.muted {
                (page.events.len()) " shown; " (page.examined) " events were examined, back to "
                (parts::date_and_time(&page.examined_since)) " " (parts::zone())
            }
        }
    }
}

/// Events that cannot be read, each with the reason. They hide no other event.
pub(crate) fn unreadable(events: &[UnreadableEvent]) -> Markup {
    html! {
        @if !events.is_empty() {
            div.problem role="alert" {
                strong { "Unknown: " (counted(events.len(), "event")) " could not be read. " }
                "A newer version of this tool may be able to: "
                ul { @for event in events { li { (parts::event_link(&event.event_id)) ": " (parts::foreign(&event.error)) } } }
            }
        }
    }
}

/// Row of an event. The first one of a day has its date.
fn row(event: &EventLine, has_date: bool) -> Markup {
    let late = event.late_ms.filter(|ms| *ms >= LATE_MS && event.provider != Origin::Switchhook);
    html! {
        tr {
            td {
                (parts::time_in_list(&event.received_at, has_date, None))
                @if let Some(late) = late { " " span.muted { (short_duration(late)) " late" } }
            }
            td data-label="Event" { (parts::event_link(&event.event_id)) " " span.muted { (parts::foreign(&event.event_type)) } }
            td data-label="Call" { @if let Some(call) = &event.call_id { (parts::call_link(call)) } @else { (parts::foreign(event.entity.as_deref().unwrap_or("-"))) } }
            td data-label="Disposition" {
                (parts::badge(event.status))
                @if let Some(error) = &event.error { " " span.muted { (parts::foreign(error)) } }
            }
            td.number data-label="Applied after" { @if let Some(ms) = event.applied_after_ms { (precise(ms)) } @else { "-" } }
            td.number data-label="Tries" { (event.attempts) }
        }
    }
}

/// Row that says for how long nothing arrived.
fn quiet(wanted: &Wanted, newer: &str, older: &str) -> Markup {
    let times = Timestamp::parse_rfc3339(newer).zip(Timestamp::parse_rfc3339(older));
    let gap = times.map(|(newer, older)| newer.millis_since(older)).filter(|gap| *gap >= QUIET_MS);
    let what = if wanted.is_filtered() { "no such event" } else { "nothing" };
    html! {
        @if let Some(gap) = gap {
            tr.silent {
                td colspan="6" {
                    (what) " between " (parts::date_and_time(older)) " and " (parts::date_and_time(newer))
                    " (" (short_duration(gap)) " examined)"
                }
            }
        }
    }
}

fn nothing(console: &Console, wanted: &Wanted, page: &EventPage) -> Markup {
    let EventPage { examined_since, examined_until, examined, .. } = page;
    html! {
        p {
            "No event " @if wanted.is_filtered() { "with these filters " } "arrived between " (parts::date_and_time(examined_since))
            " and " (parts::date_and_time(examined_until)) " " (parts::zone()) ". "
            @if wanted.is_filtered() { (examined) " events were examined." }
        }
        p.row {
            @if wanted.is_filtered() { a.button href="/events" { "Without the filters" } }
            @if let Some(until) = &page.next_until { a.button rel="next" href=(wanted.url(Some(until))) { "Look further back" } }
        }
        @if !wanted.is_filtered() && wanted.until.is_none() && console.stack().local.is_none() {
            p { "This command sends an event and follows it: " (parts::command(console, "check")) }
        }
    }
}

/// Bars of the minutes that were read, the latest at the right. Each leads to the events of its minute and before. The list and
/// the field for the time do the same, so the bars are left out for screen readers and the keyboard.
fn bars(wanted: &Wanted, minutes: &[MinuteCount]) -> Markup {
    let most = minutes.iter().map(|minute| minute.events).max().unwrap_or_default();
    if most == 0 {
        return html! {};
    }
    let width = minutes.len() * BAR_WIDTH;
    let span = minutes.last().zip(minutes.first());
    html! {
        p.muted.bars-text {
            "Events of each minute"
            @if let Some((oldest, newest)) = span { " from " (parts::time(&oldest.minute)) " to " (parts::time(&newest.minute)) }
            ". A bar leads to its minute."
        }
        svg.bars width=(width) height=(BAR_HEIGHT) viewBox={ "0 0 " (width) " " (BAR_HEIGHT) } aria-hidden="true" {
            @for (index, minute) in minutes.iter().rev().enumerate() {
                @if minute.events > 0 {
                    @let height = (minute.events * BAR_HEIGHT).div_ceil(most).max(2);
                    a href=(wanted.url(end_of(&minute.minute).as_deref())) tabindex="-1" {
                        rect x=(index * BAR_WIDTH) y=(BAR_HEIGHT - height) width=(BAR_WIDTH - 2) height=(height) {
                            title {
                                (minute.minute.get(11..16).unwrap_or_default()) ": " (minute.events)
                                @if minute.more { "+" } " events"
                            }
                        }
                    }
                }
            }
        }
    }
}

fn end_of(minute: &str) -> Option<String> {
    Timestamp::parse_rfc3339(minute).map(|start| start.plus(Duration::from_secs(60)).to_string())
}

/// Short time with its fraction of a second.
pub(crate) fn precise(ms: i64) -> String {
    if (1_000..60_000).contains(&ms) { format!("{}.{} s", ms / 1_000, ms % 1_000 / 100) } else { short_duration(ms) }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::Provider;

    use super::*;

    fn event(id: &str, received_at: &str) -> EventLine {
        EventLine {
            event_id: id.to_owned(),
            provider: Origin::Provider(Provider::Retell),
            event_type: "call_ended".to_owned(),
            call_id: Some("call/1".to_owned()),
            entity: None,
            status: "applied",
            received_at: received_at.to_owned(),
            occurred_at: None,
            late_ms: Some(7_300_000),
            applied_after_ms: Some(1_250),
            attempts: 1,
            error: None,
        }
    }

    fn wanted(query: &str) -> Wanted {
        Wanted::of(&Query::parse(query.as_bytes()))
    }

    #[test]
    fn filters_come_from_the_url_and_go_into_links_and_the_command() {
        let wanted = wanted("since=2026-11-22T15:00&until=&provider=retell&status=parked&type=it%27s");
        let filter = wanted.filter(Timestamp::from_millis(1_795_400_000_000), Duration::from_secs(60));
        assert_eq!(filter.since, Timestamp::parse_rfc3339("2026-11-22T15:00:00Z").unwrap());
        assert_eq!((filter.until.as_millis(), filter.limit), (1_795_400_001_000, LIMIT));
        assert_eq!(
            wanted.url(Some("2026-11-22T16:00:00.000Z")),
            "/events?since=2026-11-22T15%3A00&until=2026-11-22T16%3A00%3A00.000Z&provider=retell&status=parked&type=it%27s"
        );
        assert_eq!(
            wanted.command(),
            "event list --since 2026-11-22T15:00:00.000Z --provider retell --status parked --type 'it'\\''s' --limit 25"
        );
        assert_eq!(field_value(wanted.since.as_deref()).as_deref(), Some("2026-11-22T15:00:00"));
    }

    #[test]
    fn filter_that_is_none_is_left_out() {
        let odd = wanted("since=yesterday&until=1&provider=x&status=x&type=");
        assert_eq!((odd.url(None), odd.command()), ("/events".to_owned(), "event list --limit 25".to_owned()));
    }

    #[test]
    fn row_leads_to_the_event_and_to_its_call() {
        let event = event("retell:a b#1:call_ended", "2026-11-22T15:49:36.343Z");
        assert!(
            row(&event, true).into_string().contains(">2026-11-22 15:49:36.343<"),
            "the first of a day has its date"
        );
        let html = row(&event, false).into_string();
        for part in [
            r#"href="/event?id=retell%3Aa+b%231%3Acall_ended""#,
            r#"href="/call?id=call%2F1""#,
            ">15:49:36.343<",
            "2 h late",
            "1.2 s",
        ] {
            assert!(html.contains(part), "{part} is missing: {html}");
        }
    }

    #[test]
    fn quiet_time_is_told() {
        let (newer, older) = ("2026-11-22T15:40:00.000Z", "2026-11-22T15:12:00.000Z");
        let told = quiet(&Wanted::default(), newer, older).into_string();
        assert!(told.contains("nothing between") && told.contains("(28 min examined)"), "{told}");
        assert_eq!(quiet(&Wanted::default(), newer, "2026-11-22T15:31:00.000Z").into_string(), "");
    }

    #[test]
    fn bars_grow_with_the_events_and_lead_to_their_minutes() {
        let minute = |minute: &str, events, more| MinuteCount { minute: minute.to_owned(), events, more };
        let minutes = [
            minute("2026-11-22T15:42:00.000Z", 10, true),
            minute("2026-11-22T15:41:00.000Z", 0, false),
            minute("2026-11-22T15:40:00.000Z", 1, false),
        ];
        let html = bars(&Wanted::default(), &minutes).into_string();
        assert_eq!(html.matches("<rect").count(), 2);
        assert!(html.contains(r#"<rect x="24" y="0" width="10" height="32">"#), "{html}");
        assert!(html.contains("15:42: 10+ events") && html.contains("until=2026-11-22T15%3A43%3A00.000Z"), "{html}");
        assert_eq!(bars(&Wanted::default(), &[]).into_string(), "");
    }
}
