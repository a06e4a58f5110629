//! Calls: lists of them, each from one index.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::{CallId, Direction, JobState, Provider, Timestamp, lifecycle_labels};
use switchhook_operate::calls::{CallFilter, CallPage, ListedCall, Tab, list};
use switchhook_operate::stack::Stack;

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts::{self, counted};
use crate::query::{Query, url};
use crate::text::short_duration;

/// Calls of a page.
const LIMIT: usize = 25;

pub(crate) async fn show(State(console): State<Console>, uri: Uri) -> Response {
    let filter = filter_of(&Query::of(&uri));
    let frame = Frame { title: "Calls".to_owned(), entry: Some(Entry::Calls), command: command_of(&filter) };
    let reader = console.clone();
    page::stream(&console, frame, async move {
        let (found, providers) = tokio::join!(list(reader.stack(), &filter), provider_names(reader.stack()));
        let now = reader.stack().now();
        html! {
            h1 { "Calls" }
            (tabs(&filter))
            (filters(&filter, providers))
            @match found {
                Ok(page) => (content(&reader, &filter, &page, now)),
                Err(error) => (parts::problem("the list of calls", &error)),
            }
        }
    })
}

fn filter_of(query: &Query) -> CallFilter {
    let known = |state: &&str| lifecycle_labels().contains(state);
    CallFilter {
        tab: query.get("tab").and_then(Tab::parse).unwrap_or(Tab::Recent),
        job: query.get("job").and_then(JobState::parse),
        lifecycle: query.get("state").filter(known).map(str::to_owned),
        provider: query.get("provider").and_then(|name| name.parse().ok()),
        limit: LIMIT,
        cursor: query.get("from").map(str::to_owned),
    }
}

const fn title(tab: Tab) -> &'static str {
    match tab {
        Tab::Recent => "Recent",
        Tab::InFlight => "In flight",
        Tab::Waiting => "Waiting",
        Tab::Stuck => "Stuck > 10 min",
        Tab::InDoubt => "In doubt",
        Tab::Settled => "Settled",
    }
}

/// Says which calls are in the list, and in which order.
const fn caption(tab: Tab) -> &'static str {
    match tab {
        Tab::Recent => "Calls of the latest received events, the latest first",
        Tab::InFlight => "Calls that are being placed, go on, or whose outcome is awaited, the latest first",
        Tab::Waiting => "Calls that wait to be placed, the next due first",
        Tab::Stuck => "Calls that have not moved for ten minutes, the longest stuck first",
        Tab::InDoubt => "Calls that were dialled, and nobody knows yet whether the phone rang",
        Tab::Settled => "Calls about which nothing more is expected, the latest settled first",
    }
}

/// Returns the URL of a page with this list and these filters, which begins at the position `from`.
fn url_of(filter: &CallFilter, from: Option<&str>) -> String {
    let parameters = [
        ("tab", Some(filter.tab.as_str()).filter(|_| filter.tab != Tab::Recent)),
        ("job", filter.job.map(JobState::as_str)),
        ("state", filter.lifecycle.as_deref()),
        ("provider", filter.provider.as_ref().map(Provider::as_str)),
        ("from", from),
    ];
    let given: Vec<(&str, &str)> = parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    url("/calls", &given)
}

/// Returns the command that prints this list with these filters.
fn command_of(filter: &CallFilter) -> String {
    let parameters = [
        (" --job ", filter.job.map(JobState::as_str)),
        (" --lifecycle ", filter.lifecycle.as_deref()),
        (" --provider ", filter.provider.as_ref().map(Provider::as_str)),
    ];
    let given = parameters.into_iter().filter_map(|(name, value)| Some([name, value?]));
    let options: String = given.flatten().collect();
    let from = filter.cursor.as_deref().map_or_else(String::new, |from| format!(" --cursor {}", parts::quoted(from)));
    format!("call list --tab {}{options}{from}", filter.tab.as_str())
}

/// Returns the same list without filters.
fn unfiltered(filter: &CallFilter) -> CallFilter {
    CallFilter { job: None, lifecycle: None, provider: None, cursor: None, ..filter.clone() }
}

const fn is_filtered(filter: &CallFilter) -> bool {
    filter.job.is_some() || filter.lifecycle.is_some() || filter.provider.is_some()
}

fn tabs(filter: &CallFilter) -> Markup {
    html! {
        div.tabs role="navigation" aria-label="Lists of calls" {
            @for tab in Tab::ALL {
                a href=(url_of(&CallFilter { tab, ..filter.clone() }, None))
                    aria-current=[(tab == filter.tab).then_some("page")] { (title(tab)) }
            }
        }
    }
}

/// Returns the names of the built-in providers and of the listed accounts. Without the accounts, if their list cannot be read.
pub(crate) async fn provider_names(stack: &Stack) -> BTreeSet<String> {
    let accounts = stack.calls.accounts().await.unwrap_or_default();
    Provider::ALL.into_iter().chain(accounts).map(|provider| provider.to_string()).collect()
}

fn filters(filter: &CallFilter, mut providers: BTreeSet<String>) -> Markup {
    let jobs: Vec<&str> = JobState::ALL.map(JobState::as_str).into();
    providers.extend(filter.provider.as_ref().map(Provider::to_string));
    let providers: Vec<&str> = providers.iter().map(String::as_str).collect();
    html! {
        form.filters method="get" action="/calls" {
            input type="hidden" name="tab" value=(filter.tab.as_str());
            (choice("Job", "job", &jobs, filter.job.map(JobState::as_str)))
            (choice("State", "state", &lifecycle_labels(), filter.lifecycle.as_deref()))
            (choice("Provider", "provider", &providers, filter.provider.as_ref().map(Provider::as_str)))
            button type="submit" { "Filter" }
            @if is_filtered(filter) { a.button href=(url_of(&unfiltered(filter), None)) { "Clear" } }
        }
    }
}

/// Field that chooses one of some words, or any.
pub(crate) fn choice(label: &str, name: &str, words: &[&str], chosen: Option<&str>) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "any" }
                @for word in words {
                    option value=(word) selected[chosen == Some(*word)] { (word.replace('_', " ")) }
                }
            }
        }
    }
}

fn content(console: &Console, filter: &CallFilter, page: &CallPage, now: Timestamp) -> Markup {
    // The text of an empty page has this button already.
    let offers_further = page.calls.is_empty() && is_filtered(filter);
    html! {
        (unreadable(&page.unreadable))
        @if page.calls.is_empty() {
            (parts::empty(&nothing(console, filter, page)))
        } @else {
            (table(caption(filter.tab), &page.calls, now))
        }
        div.row.further {
            @if filter.cursor.is_some() { a.button href=(url_of(filter, None)) { "Back to the top" } }
            @if let Some(next) = page.next.as_deref().filter(|_| !offers_further) { a.button rel="next" href=(url_of(filter, Some(next))) { (further(filter.tab)) } }
            span.muted { (summary(filter, page)) }
        }
    }
}

/// Calls whose rows cannot be read.
pub(crate) fn unreadable(ids: &[CallId]) -> Markup {
    html! {
        @if !ids.is_empty() {
            div.problem role="alert" {
                strong { "Unknown: " (ids.len()) " calls could not be read. " }
                "A newer version of this tool may be able to: "
                @for id in ids { (parts::call_link(id.as_str())) " " }
            }
        }
    }
}

const fn further(tab: Tab) -> &'static str {
    match tab {
        Tab::Recent | Tab::InFlight | Tab::InDoubt | Tab::Settled => "Older",
        Tab::Waiting => "Later",
        Tab::Stuck => "More",
    }
}

fn summary(filter: &CallFilter, page: &CallPage) -> String {
    let shown = page.calls.len();
    let examined = page.examined;
    let since = page.examined_since.as_deref().and_then(|at| at.get(..19)).map(|at| at.replace('T', " "));
    match since {
        Some(since) if is_filtered(filter) => {
            format!("{shown} of {} match, with events since {since} UTC", counted(examined, "call"))
        }
        Some(since) => format!("{} with events since {since} UTC", counted(shown, "call")),
        None if examined > shown => format!("{shown} of {} that were examined", counted(examined, "call")),
        None => counted(shown, "call"),
    }
}

/// Text of an empty page: where was looked, and what to do.
fn nothing(console: &Console, filter: &CallFilter, page: &CallPage) -> Markup {
    let examined = page.examined;
    let is_first = filter.cursor.is_none();
    html! {
        @if is_filtered(filter) {
            p { "None of the " (examined) " calls that were examined has this job, state and provider." }
            p.row {
                a.button href=(url_of(&unfiltered(filter), None)) { "Without the filters" }
                @if let Some(next) = &page.next { a.button rel="next" href=(url_of(filter, Some(next))) { "Look further" } }
            }
        } @else {
            @match filter.tab {
                Tab::Recent => (nothing_recent(console, page, is_first)),
                Tab::InFlight => p { "No call is under way. A call comes here when it is claimed, or when its first webhook arrives." },
                Tab::Waiting if is_first => p {
                    "No call waits to be placed. A call that your software creates with " code { "POST /calls" }
                    " waits here until it is due."
                },
                Tab::Waiting => p { "No further call waits to be placed." },
                Tab::Stuck => p { "No call is stuck: each of the " (examined) " open calls that were examined moved within ten minutes." },
                Tab::InDoubt => p {
                    "No call is in doubt: of the " (examined)
                    " open calls that were examined, each dial was answered. A dial whose answer was lost comes here after a minute."
                },
                Tab::Settled => p { "No call is settled. A call settles when its last attempt has ended and its outcome is known." },
            }
        }
    }
}

/// Text of an empty page of the list by received events.
fn nothing_recent(console: &Console, page: &CallPage, is_first: bool) -> Markup {
    let time = |at: &Option<String>| parts::date_and_time(at.as_deref().unwrap_or_default());
    html! {
        p {
            @if is_first { "No call had an event between " } @else { "No other call had its latest event between " }
            (time(&page.examined_since)) " and " @if is_first { "now" } @else { (time(&page.examined_until)) } "."
            @if page.events > 0 {
                " " (counted(page.events, "event")) " arrived in this time. "
                @if is_first { "They are in no call, or not yet: " } @else { "They are in no call, or in one of the pages before: " }
                a href="/events" { "Events" } "."
            }
        }
        @if is_first { (hint(console)) }
    }
}

/// Says how to bring a call into the list.
fn hint(console: &Console) -> Markup {
    html! {
        @if console.playground().is_some() {
            p { "Place a call or play a story on the page " a href="/try" { "Try" } ", and it comes here." }
        } @else if console.stack().local.is_none() {
            p {
                "Providers post their webhooks to "
                @for provider in Provider::ALL {
                    code { (console.stack().names.api_url) "/webhooks/" (provider.as_str()) } " "
                }
            }
            p { "This command sends one and follows it: " (parts::command(console, "check")) }
        }
    }
}

/// Table of calls. Lists and search results have the same.
pub(crate) fn table(caption: &str, calls: &[ListedCall], now: Timestamp) -> Markup {
    html! {
        table.calls {
            caption { (caption) }
            (parts::columns(&["Call", "Who", "Attempts", "State", "Appointment", "Job", "Changed"]))
            tbody { @for call in calls { (row(call, now)) } }
        }
    }
}

fn row(listed: &ListedCall, now: Timestamp) -> Markup {
    let ListedCall { call, who, late_events, stuck } = listed;
    html! {
        tr {
            td { (parts::call_link(&call.call_id)) " " span.muted { (call.provider.as_ref().map_or("", Provider::as_str)) (direction(call.direction)) } }
            td data-label="Who" { @if let Some(who) = who { span.mono { (parts::foreign(who)) } } @else { "-" } }
            td data-label="Attempts" {
                @for attempt in &call.attempts { (parts::shape(&attempt.number.to_string(), attempt.lifecycle)) " " }
                @if call.attempts.is_empty() { "-" }
            }
            td data-label="State" { @if let Some(state) = call.lifecycle { (parts::badge(state)) } @else { "-" } }
            td data-label="Appointment" {
                (parts::badge(call.appointment_status))
                @if let Some(id) = &call.appointment_id { " " span.muted { (parts::foreign(&cut(id))) } }
            }
            td data-label="Job" { @if let Some(job) = call.job.state { (parts::badge(job)) } @else { "-" } }
            td data-label="Changed" {
                span {
                    span title=(call.updated_at) { (since(&call.updated_at, now)) " ago" }
                    @if let Some(due_at) = &call.job.due_at { ", " span title=(due_at) { (due(due_at, now)) } }
                    @if *late_events > 0 { ", " (late_events) @if *late_events == 1 { " late event" } @else { " late events" } }
                    @if let Some(stuck) = stuck { ", " span.stuck title=(stuck.why) { (stuck.kind.as_str()) } }
                }
            }
        }
    }
}

/// Longest appointment id that a list shows whole.
const APPOINTMENT_MAX: usize = 16;

fn cut(id: &str) -> String {
    if id.chars().count() <= APPOINTMENT_MAX {
        return id.to_owned();
    }
    id.chars().take(APPOINTMENT_MAX).chain(['…']).collect()
}

fn direction(direction: Option<Direction>) -> Markup {
    let (arrow, word) = match direction {
        Some(Direction::Outbound) => (" ↗", "outbound"),
        Some(Direction::Inbound) => (" ↙", "inbound"),
        None => return html! {},
    };
    html! { span role="img" aria-label=(word) title=(word) { (arrow) } }
}

/// Time since a moment, as text.
fn since(at: &str, now: Timestamp) -> String {
    Timestamp::parse_rfc3339(at).map_or_else(|| "-".to_owned(), |at| short_duration(now.millis_since(at)))
}

fn due(at: &str, now: Timestamp) -> String {
    let Some(at) = Timestamp::parse_rfc3339(at) else { return String::new() };
    let left = at.millis_since(now);
    if left > 0 {
        format!("due in {}", short_duration(left))
    } else {
        format!("due since {}", short_duration(now.millis_since(at)))
    }
}

#[cfg(test)]
mod tests {
    use switchhook_operate::timeline::{AttemptSummary, CallSummary, JobSummary};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_000);

    fn filter() -> CallFilter {
        filter_of(&Query::default())
    }

    pub(crate) fn listed(id: &str) -> ListedCall {
        let at = NOW.minus(std::time::Duration::from_secs(12)).to_string();
        let attempt = AttemptSummary {
            number: 1,
            provider: Some(Provider::Retell),
            provider_call_id: Some("call_1".to_owned()),
            lifecycle: "busy",
            outcome: "no_answer",
            dialled_at: None,
            started_at: at.clone(),
            ended_at: Some(at.clone()),
        };
        let call = CallSummary {
            call_id: id.to_owned(),
            provider: Some(Provider::Retell),
            direction: Some(Direction::Outbound),
            appointment_id: Some("apt_201".to_owned()),
            appointment_status: "Retrying",
            job: JobSummary {
                state: Some("PENDING"),
                due_at: Some(NOW.plus(std::time::Duration::from_secs(190)).to_string()),
                lease_ends_at: None,
                stop_reason: None,
            },
            lifecycle: Some("busy"),
            outcome: Some("no_answer"),
            settled: false,
            attempts: vec![attempt],
            version: 7,
            created_at: at.clone(),
            updated_at: at,
            settled_at: None,
            forgotten_at: None,
        };
        ListedCall { call, who: Some("+44…123 A".to_owned()), late_events: 2, stuck: None }
    }

    #[test]
    fn command_prints_the_same_list() {
        assert_eq!(command_of(&filter()), "call list --tab recent");
        let query = b"tab=waiting&job=PENDING&state=no_answer&provider=retell&from=a+b";
        let expected = "call list --tab waiting --job PENDING --lifecycle no_answer --provider retell --cursor 'a b'";
        assert_eq!(command_of(&filter_of(&Query::parse(query))), expected);
    }

    #[test]
    fn row_says_what_is_known_of_a_call() {
        let html = table("Calls", &[listed("call-1")], NOW).into_string();
        for part in [
            r#"href="/call?id=call-1""#,
            "+44…123 A",
            r#"title="busy""#,
            "PENDING",
            "Retrying",
            "apt_201",
            ">12 s ago<",
            ">due in 3 min<",
            "2 late",
            r#"aria-label="outbound""#,
        ] {
            assert!(html.contains(part), "{part} is missing: {html}");
        }
    }

    #[test]
    fn any_id_is_a_link_to_its_call() {
        for (id, encoded) in [
            ("a/b?c#d%e", "a%2Fb%3Fc%23d%25e"),
            ("née 😀", "n%C3%A9e+%F0%9F%98%80"),
            ("<b>\"x\"&", "%3Cb%3E%22x%22%26"),
            ("\u{202e}x", "%E2%80%AEx"),
        ] {
            let html = table("Calls", &[listed(id)], NOW).into_string();
            assert!(html.contains(&format!("href=\"/call?id={encoded}\"")), "{html}");
            assert!(!html.contains("<b>") && !html.contains('\u{202e}'), "{html}");
        }
    }

    #[test]
    fn page_of_a_list_is_small() {
        let calls: Vec<ListedCall> =
            (0..LIMIT).map(|n| listed(&format!("call-5e2c4b1f9a3d4c7e8b6a5d4c3b2a{n:04}"))).collect();
        let length = table("Calls", &calls, NOW).into_string().len();
        assert!(length < 28_000, "{length} bytes; a page with its frame may have 32 KB");
    }

    #[test]
    fn url_keeps_the_list_and_its_filters() {
        let uri: Uri = "/calls?tab=stuck&job=PENDING&state=busy&provider=retell&from=x%2B".parse().unwrap();
        let filter = filter_of(&Query::of(&uri));
        assert_eq!(url_of(&filter, filter.cursor.as_deref()), uri.to_string());
        assert_eq!(url_of(&unfiltered(&filter), None), "/calls?tab=stuck");
        let odd: Uri = "/calls?tab=x&job=pending&state=x&provider=x".parse().unwrap();
        assert_eq!(url_of(&filter_of(&Query::of(&odd)), None), "/calls");
    }

    #[test]
    fn summary_says_what_was_examined() {
        let page = CallPage { calls: vec![listed("c")], examined: 200, ..CallPage::default() };
        assert_eq!(summary(&filter(), &page), "1 of 200 calls that were examined");
        let page = CallPage { examined_since: Some("2026-11-22T15:00:00.000Z".to_owned()), ..page };
        assert_eq!(summary(&filter(), &page), "1 call with events since 2026-11-22 15:00:00 UTC");
    }
}
