//! Dials: whether calls go out, which provider is blocked, and whether a phone could ring twice.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::{FULL_RATE, PhoneNumber, Timestamp};
use switchhook_operate::age;
use switchhook_operate::calls::StuckCall;
use switchhook_operate::dials::{DialReport, EXAMINED_MAX, ProviderDials, dials, is_blocked};
use switchhook_operate::mask::Masker;
use switchhook_operate::search::parse_pasted;

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::calls::unreadable;
use crate::pages::plan::refuse_form;
use crate::pages::repair::ago;
use crate::parts;
use crate::query::Query;
use crate::session::Session;

/// Purpose of the token in the form that checks a number.
const CHECK_FORM: &str = "do-not-call";

pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>) -> Response {
    let stack = console.stack().clone();
    page::stream(&console, frame(), async move {
        match dials(&stack).await {
            Ok(report) => html! { (content(&report)) (check_form(&session)) },
            Err(error) => html! { h1 { "Dials" } (parts::problem("the dials", &error)) (check_form(&session)) },
        }
    })
}

/// Says whether a number is on the do-not-call list. The number is posted, and no page shows it whole.
pub(crate) async fn check_number(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    if !session.accepts(CHECK_FORM, form.get("form_token").unwrap_or_default()) {
        return refuse_form(&console, "/dials");
    }
    let text = form.get("number").unwrap_or_default();
    let (status, content) = match parse_typed(text) {
        None => (
            StatusCode::UNPROCESSABLE_ENTITY,
            html! { p.refused role="alert" { "A number starts with + and its country, and a SIP address with sip:." } },
        ),
        Some(number) => {
            let shown = Masker::new().field("number", number.as_str());
            match is_blocked(console.stack(), &number).await {
                Ok(true) => (
                    StatusCode::OK,
                    html! { p role="status" { strong { (parts::foreign(&shown)) " is on the do-not-call list." } " It is not called." } },
                ),
                Ok(false) => (
                    StatusCode::OK,
                    html! { p role="status" { strong { (parts::foreign(&shown)) " is not on the do-not-call list." } } },
                ),
                Err(error) => (StatusCode::BAD_GATEWAY, parts::problem("the do-not-call list", &error)),
            }
        }
    };
    let content =
        html! { h1 { "Do-not-call list" } (content) (check_form(&session)) p { a href="/dials" { "All dials" } } };
    page::answer(&console, status, &frame(), &content)
}

/// Parses a number or a SIP address as a person types it or pastes it. `None` for any other text: the list would
/// not have it, although it may have the number that is meant.
fn parse_typed(text: &str) -> Option<PhoneNumber> {
    parse_pasted(text).or_else(|| PhoneNumber::parse(text.trim()))
}

fn frame() -> Frame {
    Frame { title: "Dials".to_owned(), entry: Some(Entry::Dials), command: "dials".to_owned() }
}

fn content(report: &DialReport) -> Markup {
    html! {
        h1 { "Dials" }
        (unreadable(&report.unreadable))
        @if report.providers.is_empty() {
            (parts::empty(&html! { "No provider is asked to place calls. The parameter " code { "DialRates" } " names those that are." }))
        } @else {
            (providers(report))
            @if report.providers.iter().any(|dials| dials.open.is_some()) {
                p.muted { "The section P2CircuitOpenAlarm of infra/runbook.md says what to do about each error." }
            }
        }
        @if report.more {
            p.muted { "In flight and in doubt are counted among the " (EXAMINED_MAX) " open calls that are looked at first. There are more." }
        }
        (stuck("In doubt", &nothing(report, "No call is in doubt: each dial was answered, or an event of it has arrived.", "is in doubt"), &report.in_doubt, report.at))
        h2 { "Due next" }
        @if report.next.is_empty() { (parts::empty(&html! { "No call waits for its time." })) }
        @else {
            ul.due {
                @for call in &report.next {
                    li { (parts::date_and_time(&call.due_at.to_string())) " " (parts::call_link(call.call_id.as_str())) " " span.muted { (call.provider.as_str()) } }
                }
            }
        }
        (stuck("Expired claims", &nothing(report, "No claim waits longer than it may.", "has a claim that waits longer than it may"), &report.expired_claims, report.at))
    }
}

/// Text of a section without calls. It speaks of all calls only if the rows of all open ones were read.
fn nothing(report: &DialReport, of_all: &str, is_so: &str) -> String {
    if report.is_complete() {
        return of_all.to_owned();
    }
    let others = if report.more { "There are more open calls" } else { "Others could not be read" };
    format!("No call among the {} that were read {is_so}. {others}.", report.examined)
}

fn providers(report: &DialReport) -> Markup {
    html! {
        table {
            caption.hidden { "Providers and their dials" }
            (parts::columns(&["Provider", "Circuit", "Rate", "In flight", "Due now", "Oldest due", "In doubt", "Failure score", "Next probe", "Last error"]))
            tbody { @for provider in &report.providers { (row(provider, report)) } }
        }
    }
}

fn row(dials: &ProviderDials, report: &DialReport) -> Markup {
    let plus = if report.is_complete() { "" } else { "+" };
    html! {
        tr {
            th scope="row" data-label="Provider" { (dials.provider.as_str()) }
            td data-label="Circuit" { (circuit(dials, report.at)) }
            td data-label="Rate" { (rate(dials)) }
            td data-label="In flight" { (dials.in_flight) (plus) @if let Some(most) = dials.calls_max { "/" (most) } }
            td data-label="Due now" { (dials.due) @if dials.more_due { "+" } }
            td data-label="Oldest due" { @if let Some(at) = dials.oldest_due { (age(report.at.millis_since(at))) } @else { "-" } }
            td data-label="In doubt" { @if dials.in_doubt > 0 { strong.act { (dials.in_doubt) (plus) } } @else { "0" (plus) } }
            td data-label="Failure score" { (dials.failure_score) }
            td data-label="Next probe" {
                @if let Some(open) = &dials.open { (until(report.at, open.next_probe_at)) } @else { "-" }
            }
            td data-label="Last error" { @if let Some(open) = &dials.open { (parts::foreign(&open.cause)) } @else { "-" } }
        }
    }
}

fn circuit(dials: &ProviderDials, now: Timestamp) -> Markup {
    html! {
        @if let Some(open) = &dials.open {
            (parts::badge("open"))
            @if let Some(since) = open.since { " " (age(now.millis_since(since))) }
            // The cause stands beside it, and often is the same.
            @if open.reason != open.cause { span.muted { ", " (open.reason) } }
        } @else if let Some(paused_until) = dials.paused_until {
            (parts::badge("paused")) " until " (parts::time(&paused_until.to_string()))
        } @else {
            (parts::badge("closed"))
        }
    }
}

fn rate(dials: &ProviderDials) -> Markup {
    html! {
        @match (dials.per_second, dials.open.is_some()) {
            (None, _) => span.muted { "none" },
            (Some(per_second), true) => { "0 of " (per_second) "/s" },
            (Some(per_second), false) if dials.rate < FULL_RATE => {
                (format!("{:.2}", per_second * dials.rate as f64 / FULL_RATE as f64)) " of " (per_second) "/s"
            }
            (Some(per_second), false) => { (per_second) "/s" },
        }
    }
}

/// Returns a time after now for display. A probe whose time has come is dialled with the next due call.
fn until(now: Timestamp, at: Timestamp) -> String {
    let left = at.millis_since(now);
    if left <= 0 { "with the next due call".to_owned() } else { format!("in {}", age(left)) }
}

fn stuck(title: &str, nothing: &str, calls: &[StuckCall], now: Timestamp) -> Markup {
    html! {
        h2 { (title) }
        @if calls.is_empty() { (parts::empty(&html! { (nothing) })) }
        @else {
            table {
                caption.hidden { (title) }
                (parts::columns(&["Call", "Since", "Why", "What happens next"]))
                tbody {
                    @for call in calls {
                        tr {
                            td data-label="Call" { (parts::call_link(call.call_id.as_str())) }
                            td data-label="Since" { (ago(now, call.since)) }
                            td data-label="Why" { (call.why) }
                            td data-label="What happens next" {
                                (call.next)
                                @if let Some(at) = call.next_at { ", at " (parts::date_and_time(&at.to_string())) }
                                @if call.late { " " strong.act { "late" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn check_form(session: &Session) -> Markup {
    html! {
        h2 { "Do-not-call list" }
        form.change method="post" action="/dials/do-not-call" {
            input type="hidden" name="form_token" value=(session.form_token(CHECK_FORM));
            label.field { "Number" input name="number" type="tel" required autocomplete="off" placeholder="+44…"; }
            button type="submit" { "Check" }
        }
    }
}
