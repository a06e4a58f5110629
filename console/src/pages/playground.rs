//! Try: play stories, place calls, send webhooks, hold them, and skip time. Only `switchhook dev` has this page.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_operate::age;

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::not_found;
use crate::parts;
use crate::playground::{
    Choice, HeldEvent, LogLine, Orders, PlaygroundAction, PlaygroundView, Release, Sending, Skip, Story,
};
use crate::query::Query;
use crate::session::Session;

/// Purpose of the token in the forms of this page.
const PURPOSE: &str = "try";
/// Attempts that the form for a call offers.
const ATTEMPTS: usize = 3;
/// Behaviours that the form offers first: a retry that succeeds.
const DEFAULTS: [(usize, &str); 2] = [(1, "busy"), (2, "confirms")];
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>) -> Response {
    let Some(playground) = console.playground() else { return not_found(State(console)).await };
    let view = playground.view().await;
    let frame = Frame { title: "Try".to_owned(), entry: Some(Entry::Try), command: "send --help".to_owned() };
    page::whole(&console, StatusCode::OK, &frame, &content(&view, &session.form_token(PURPOSE)))
}

/// Does what a form asks for, and shows the page again.
pub(crate) async fn act(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let Some(playground) = console.playground() else { return not_found(State(console)).await };
    let form = Query::parse(&form);
    if !session.accepts(PURPOSE, form.get("token").unwrap_or_default()) {
        return (StatusCode::FORBIDDEN, "This form is not of this session. Load the page Try again.\n").into_response();
    }
    let Some(action) = action(&form) else {
        return (StatusCode::BAD_REQUEST, "This form is not one of the page Try.\n").into_response();
    };
    playground.act(action).await;
    Redirect::to("/try").into_response()
}

/// Reads what a form asks for. `None` if it is none of the page's forms.
fn action(form: &Query) -> Option<PlaygroundAction> {
    let text = |name| form.get(name).unwrap_or_default().to_owned();
    Some(match form.get("do")? {
        "play" => {
            let title = form.get("story")?;
            PlaygroundAction::Play(Story::ALL.into_iter().find(|story| story.title() == title)?)
        }
        "place" => {
            // An attempt without a choice is like the one before it.
            let behaviours = (1..=ATTEMPTS).scan(None, |before, number| {
                *before = form.get(&format!("attempt_{number}")).or(*before);
                *before
            });
            let behaviours = behaviours.map(str::to_owned).collect();
            PlaygroundAction::Place { behaviours, office_hours: form.get("window") == Some("office hours") }
        }
        "send" => {
            let label = form.get("sending")?;
            PlaygroundAction::Send {
                sample: text("sample"),
                appointment: form.get("appointment").map(str::to_owned),
                sending: Sending::ALL.into_iter().find(|sending| sending.label() == label)?,
            }
        }
        "set" => PlaygroundAction::Set { faults: text("faults"), mode: text("mode"), crash: text("crash") },
        "hold" => PlaygroundAction::Hold(true),
        "stop holding" => PlaygroundAction::Hold(false),
        "release" => PlaygroundAction::Release { numbers: numbers(form), how: Release::Once },
        "release twice" => PlaygroundAction::Release { numbers: numbers(form), how: Release::Twice },
        "drop" => PlaygroundAction::Release { numbers: numbers(form), how: Release::Drop },
        "shuffle" => PlaygroundAction::Release { numbers: numbers(form), how: Release::Shuffled },
        "scheduler" => PlaygroundAction::RunScheduler,
        "reconciler" => PlaygroundAction::RunReconciler,
        "skip to the next" => PlaygroundAction::Skip(Skip::ToNextWakeUp),
        "skip 1" => PlaygroundAction::Skip(Skip::By(MINUTE)),
        "skip 15" => PlaygroundAction::Skip(Skip::By(15 * MINUTE)),
        _ => return None,
    })
}

/// Numbers of held webhooks, in the order that the form gives.
fn numbers(form: &Query) -> Vec<u64> {
    let text = form.get("numbers").unwrap_or_default();
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

fn content(view: &PlaygroundView, token: &str) -> Markup {
    html! {
        h1 { "Try" }
        p.lead { "No phone rings here: a fake provider answers all dials. Play a story, then look at its call." }
        (log(&view.log))
        (stories(token))
        div.try-columns {
            (place(view, token))
            (send(view, token))
            (deliveries(view, token))
            (time(view, token))
        }
        (held(view, token))
    }
}

/// Results of the latest actions, the newest first. The newest is the status of the page.
fn log(lines: &[LogLine]) -> Markup {
    html! {
        @if let Some((latest, earlier)) = lines.split_first() {
            section.panel.try-log aria-labelledby="done" {
                h2 #done { "Just now" }
                div role="status" { (log_line(latest)) }
                @if !earlier.is_empty() {
                    details {
                        summary { "Before" }
                        ul { @for line in earlier { li { (log_line(line)) } } }
                    }
                }
            }
        }
    }
}

fn log_line(line: &LogLine) -> Markup {
    html! {
        p.try-line.failed[line.failed] {
            (parts::time(&line.at.to_string())) " "
            @if line.failed { strong { "Not done: " } }
            (parts::foreign(&line.text))
            @for call in &line.calls { " " span.try-look { "Look at " (parts::call_link(call)) } }
            @for event in &line.events { " " span.try-look { "Look at " (parts::event_link(event)) } }
        }
    }
}

fn stories(token: &str) -> Markup {
    html! {
        section.panel aria-labelledby="stories" {
            h2 #stories { "Stories" }
            p { "Each plays one call to its end, in a few seconds. Some of them skip time." }
            ul.try-stories {
                @for story in Story::ALL {
                    li {
                        form method="post" action="/try" {
                            (hidden(token))
                            input type="hidden" name="story" value=(story.title());
                            button.primary name="do" value="play" { (story.title()) }
                        }
                        p { (story.about()) " Ends as " strong { (story.ends()) } "." }
                    }
                }
            }
        }
    }
}

fn place(view: &PlaygroundView, token: &str) -> Markup {
    html! {
        section.panel aria-labelledby="place" {
            h2 #place { "Place a call" }
            form.try-form method="post" action="/try" {
                (hidden(token))
                @for number in 1..=ATTEMPTS {
                    label {
                        "Attempt " (number)
                        select name={ "attempt_" (number) } {
                            @if number > 1 { option value="" { "the same" } }
                            @for name in &view.behaviours {
                                option value=(name) selected[DEFAULTS.contains(&(number, name.as_str()))] { (words(name)) }
                            }
                        }
                    }
                }
                label {
                    "Calling window"
                    select name="window" { option { "none" } option { "office hours" } }
                }
                button name="do" value="place" { "Place" }
            }
        }
    }
}

fn send(view: &PlaygroundView, token: &str) -> Markup {
    html! {
        section.panel aria-labelledby="send" {
            h2 #send { "Send a sample" }
            form.try-form method="post" action="/try" {
                (hidden(token))
                label {
                    "Webhook"
                    select name="sample" { @for name in &view.samples { option { (name) } } }
                }
                label {
                    "Appointment"
                    input name="appointment" value="apt_1" maxlength="64" pattern="[A-Za-z0-9_\\-]+" autocomplete="off";
                }
                label {
                    "Sent"
                    select name="sending" { @for sending in Sending::ALL { option { (sending.label()) } } }
                }
                button name="do" value="send" { "Send" }
            }
        }
    }
}

fn deliveries(view: &PlaygroundView, token: &str) -> Markup {
    html! {
        section.panel aria-labelledby="deliveries" {
            h2 #deliveries { "The fake provider" }
            form.try-form method="post" action="/try" {
                (hidden(token))
                (choice("Delivery faults", "faults", &view.faults))
                (choice("Its API", "mode", &view.mode))
                (choice("The next request to it dies", "crash", &view.crash))
                button name="do" value="set" { "Set" }
            }
            p.note { "Delivery faults count for the calls that are placed from now on. Usual faults: of all webhooks, 15 % are sent twice, 15 % late, 8 % never." }
        }
    }
}

fn choice(label: &str, name: &str, choice: &Choice) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                @for name in &choice.names { option value=(name) selected[*name == choice.chosen] { (words(name)) } }
            }
        }
    }
}

fn time(view: &PlaygroundView, token: &str) -> Markup {
    let next = view.next_wake_up.map(|at| at.to_string());
    html! {
        section.panel aria-labelledby="time" {
            h2 #time { "Time" }
            p {
                "The clock of this stack shows " (parts::time(&view.now.to_string())) " " (parts::zone())
                @if view.ahead_ms != 0 {
                    ", " (age(view.ahead_ms.saturating_abs())) @if view.ahead_ms > 0 { " ahead of" } @else { " behind" } " this machine"
                }
                "."
            }
            form.try-buttons method="post" action="/try" {
                (hidden(token))
                button name="do" value="scheduler" { "Run scheduler" }
                button name="do" value="reconciler" { "Run reconciler" }
                @if let Some(next) = &next {
                    button name="do" value="skip to the next" { "Skip to the next wake-up: " (parts::time(next)) }
                }
                button name="do" value="skip 1" { "Skip 1 minute" }
                button name="do" value="skip 15" { "Skip 15 minutes" }
            }
            @if u128::from(view.ahead_ms.unsigned_abs()) > 4 * MINUTE.as_millis() {
                p.note { "Webhooks that other programs sign with the time of this machine are refused now." }
            }
        }
    }
}

fn held(view: &PlaygroundView, token: &str) -> Markup {
    let numbers =
        |events: &[HeldEvent]| events.iter().map(|event| event.number.to_string()).collect::<Vec<_>>().join(" ");
    html! {
        section.panel aria-labelledby="held" {
            h2 #held { "Held webhooks" }
            form.try-buttons method="post" action="/try" {
                (hidden(token))
                @if view.holds {
                    button name="do" value="stop holding" { "Stop holding, and send all" }
                } @else {
                    button name="do" value="hold" { "Hold webhooks" }
                }
            }
            @if view.held.is_empty() {
                @if view.holds {
                    p { "The next call that you place keeps its webhooks here. Let them go in any order, twice, or never." }
                } @else {
                    p { "While webhooks are held, you decide in which order they arrive, and whether they arrive at all." }
                }
            } @else {
                table.try-held {
                    (parts::columns(&["Webhook", "Call", "Let it arrive"]))
                    tbody {
                        @for event in &view.held {
                            tr #(format!("w{}", event.number)) {
                                td { code { (parts::foreign(&event.event)) } }
                                td { (parts::call_link(&event.call_id)) }
                                td {
                                    form.try-buttons method="post" action="/try" {
                                        (hidden(token))
                                        input type="hidden" name="numbers" value=(event.number);
                                        button name="do" value="release" { "once" }
                                        button name="do" value="release twice" { "twice" }
                                        button name="do" value="drop" { "never" }
                                    }
                                }
                            }
                        }
                    }
                }
                form.try-buttons method="post" action="/try" {
                    (hidden(token))
                    input type="hidden" name="numbers" value=(numbers(&view.held));
                    button name="do" value="release" { "All, in this order" }
                    button name="do" value="shuffle" { "All, in random order" }
                }
                @for orders in &view.orders { (all_orders(orders)) }
            }
        }
    }
}

fn all_orders(orders: &Orders) -> Markup {
    html! {
        p.try-orders {
            (parts::call_link(&orders.call_id)) ": "
            @match (orders.tried, orders.results.as_slice()) {
                (None, _) => { "too many webhooks to try every order." }
                (Some(1), [result]) => { "this event gives: " strong { (result) } "." }
                (Some(tried), [result]) => {
                    "all " (tried) " orders of these " (orders.events) " events give: " strong { (result) } "."
                }
                (Some(_), results) => { "the orders of these events disagree: " (results.join("; ")) "." }
            }
            @for (event, result) in &orders.without { " Without " code { (parts::foreign(event)) } ": " (result) "." }
        }
    }
}

fn hidden(token: &str) -> Markup {
    html! { input type="hidden" name="token" value=(token); }
}

/// Name as words: `no_answer` becomes `no answer`.
fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_read_as_the_action_that_it_names() {
        let read = |form: &str| action(&Query::parse(form.as_bytes()));
        assert_eq!(read("do=play&story=Late+ending"), Some(PlaygroundAction::Play(Story::LateEnding)));
        let behaviours = vec!["busy".to_owned(), "confirms".to_owned(), "confirms".to_owned()];
        let placed = PlaygroundAction::Place { behaviours, office_hours: false };
        assert_eq!(read("do=place&attempt_1=busy&attempt_2=confirms&attempt_3=&window=none"), Some(placed));
        let behaviours = |form: &str| match read(&format!("do=place&{form}")) {
            Some(PlaygroundAction::Place { behaviours, .. }) => behaviours.join(","),
            other => panic!("{other:?}"),
        };
        assert_eq!(behaviours("attempt_1=busy&attempt_2=&attempt_3=confirms"), "busy,busy,confirms");
        assert_eq!(behaviours("attempt_1=busy&attempt_2=&attempt_3="), "busy,busy,busy");
        let released = PlaygroundAction::Release { numbers: vec![3, 1, 2], how: Release::Twice };
        assert_eq!(read("do=release+twice&numbers=3+1+x+2"), Some(released));
        for bad in ["", "do=x", "do=play&story=x", "do=send&sending=x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn held_webhooks_say_what_their_orders_give() {
        let orders = Orders {
            call_id: "call-1".to_owned(),
            events: 3,
            tried: Some(6),
            results: vec!["completed, Confirmed".to_owned()],
            without: vec![("call_ended".to_owned(), "in_progress, Confirmed".to_owned())],
        };
        let shown = all_orders(&orders).0;
        assert!(
            shown.contains("all 6 orders of these 3 events give: <strong>completed, Confirmed</strong>."),
            "{shown}"
        );
        assert!(shown.contains("<code><bdi>call_ended</bdi></code>: in_progress, Confirmed."), "{shown}");
        let differing = Orders { results: vec!["a".to_owned(), "b".to_owned()], ..orders };
        assert!(all_orders(&differing).0.contains("disagree: a; b"));
    }
}
