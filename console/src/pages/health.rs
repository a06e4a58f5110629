//! Health: is it healthy, is there a backlog, is there poison?

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_operate::status::{
    Advice, Evidence, Level, Minute, Question, Silence, Status, Subject, Traffic, status,
};
use switchhook_operate::{ErrorKind, age};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::parts;

pub(crate) async fn show(State(console): State<Console>) -> Response {
    let frame = Frame { title: "Health".to_owned(), entry: Some(Entry::Health), command: "status".to_owned() };
    let stack = console.stack().clone();
    let reader = console.clone();
    page::stream(&console, frame, async move {
        let status = status(&stack).await;
        content(&reader, &status)
    })
}

fn content(console: &Console, status: &Status) -> Markup {
    html! {
        h1.hidden { "Health" }
        (first_steps(console, status))
        div.questions {
            @for question in &status.questions { (panel(console, question)) }
        }
        @match &status.traffic {
            Some(traffic) => (received(traffic)),
            None => p.muted { "Received webhooks: unknown, because the metrics cannot be read." }
        }
    }
}

/// Hint for a newcomer: what to look at first, or how something comes here.
fn first_steps(console: &Console, status: &Status) -> Markup {
    let is_quiet = status.traffic.as_ref().is_some_and(|traffic| traffic.minutes.iter().all(|minute| all(minute) == 0));
    html! {
        @if console.options().is_frozen {
            p.panel {
                strong { "The clock stands still " } "at " (parts::date_and_time(&status.at.to_string()))
                " " (parts::zone()) ", where the demo ended. Nothing runs, nothing arrives, and these answers are those of that moment."
            }
        }
        @if let Some(call) = &console.options().look_first {
            p.panel {
                strong { "Start here. " } "This call was confirmed, although its webhooks came late, twice and in the wrong order: " (parts::call_link(call.as_str()))
            }
        } @else if is_quiet && console.playground().is_some() {
            p.panel {
                strong { "Start here. " } "Nothing has arrived yet. On the page " a href="/try" { "Try" } ", play the story “Late ending”: its webhooks come late, twice and in the wrong order."
            }
        }
    }
}

fn panel(console: &Console, question: &Question) -> Markup {
    html! {
        section.panel {
            h2 { (question.question) " " (parts::level(question.answer)) }
            dl.evidence {
                @for line in &question.evidence { (evidence(console, line)) }
            }
        }
    }
}

fn evidence(console: &Console, line: &Evidence) -> Markup {
    html! {
        div {
            dt {
                @match rows(line.name) {
                    Some(path) => a href=(path) { (line.name) },
                    None => (line.name),
                }
            }
            dd {
                @match line.level {
                    Level::Ok => (parts::foreign(&line.text)),
                    Level::Watch | Level::Act => { (parts::foreign(&line.text)) " " (parts::level(line.level)) },
                    Level::Unknown => (parts::level(line.level)),
                }
            }
            // The reason may be long. A page that AWS throttles knows by its kind to read less often.
            @if line.level == Level::Unknown { dd.more data-kind=[line.error.map(ErrorKind::as_str)] { (parts::foreign(&line.text)) } }
            @for subject in &line.first {
                dd.more { (subject_link(subject)) }
            }
            @if let Some(advice) = &line.advice {
                dd.more {
                    (advice.text) ": " (command(console, advice))
                    @if let Some(section) = &advice.runbook { " (runbook: " (section) ")" }
                }
            }
        }
    }
}

/// Command of an advice, with the option that chooses the stack.
fn command(console: &Console, advice: &Advice) -> Markup {
    parts::command(console, advice.command.trim_start_matches("switchhook "))
}

fn subject_link(subject: &Subject) -> Markup {
    match subject {
        Subject::Call(id) => parts::call_link(id),
        Subject::Event(id) => parts::event_link(id),
    }
}

/// Returns the page that lists what a line counts. `None` if it counts metrics alone.
fn rows(line: &str) -> Option<&'static str> {
    let path = match line {
        "received to applied p99" | "received to announced p99" | "last webhook" => "/events",
        "events queue age" => "/events?status=queued",
        "dials in doubt" => "/calls?tab=in_doubt",
        "calls due within a minute" | "due calls" => "/calls?tab=waiting",
        "overdue wake-ups" | "calls stuck in dialling" => "/calls?tab=stuck",
        "provider circuits" | "dial queue age" | "scheduler runs" => "/dials",
        "dead letters" => "/repair?tab=dead-letters",
        "quarantined" => "/repair?tab=quarantined",
        "retrying" | "events not folded" => "/repair?tab=retrying",
        "conflicting bodies" => "/repair?tab=conflicts",
        "relay gave up" => "/repair?tab=relay",
        _ => return None,
    };
    Some(path)
}

/// Width of a minute's bar with its gap, and height of the drawing, in its own units.
const BAR: u64 = 8;
const HEIGHT: u64 = 48;

fn received(traffic: &Traffic) -> Markup {
    let total = |of: fn(&Minute) -> u64| traffic.minutes.iter().map(of).sum::<u64>();
    let largest = traffic.minutes.iter().map(all).max().unwrap_or_default().max(1);
    let width = BAR * traffic.minutes.len() as u64;
    html! {
        section.panel {
            h2 { "Received, last 60 minutes" }
            figure.received {
                svg viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                    @for (minute, index) in traffic.minutes.iter().zip(0..) { (bar(minute, index, largest)) }
                }
                figcaption {
                    span.key.applied { i {} (total(|minute| minute.accepted)) " accepted" }
                    span.key.quiet { i {} (total(|minute| minute.duplicate)) " duplicate" }
                    span.key.act { i {} (total(|minute| minute.rejected)) " rejected" }
                    span.muted { "most in a minute: " (traffic.minutes.iter().map(all).max().unwrap_or_default()) }
                }
            }
            p {
                "Last webhook: "
                @for (silence, index) in traffic.last.iter().zip(0..) {
                    @if index > 0 { " · " }
                    (last_webhook(silence))
                }
                @if traffic.last.is_empty() { "none in the last ten days." }
            }
        }
    }
}

fn last_webhook(silence: &Silence) -> Markup {
    html! {
        @match silence.longest_pause {
            Some(pause) if silence.is_unusual() => {
                (parts::level(Level::Watch)) " " strong { (silence.provider) " silent for " (span(silence.seconds)) }
                ", its longest pause of the last ten days was " (span(pause))
            }
            Some(_) | None => { (silence.provider) " " (span(silence.seconds)) " ago" }
        }
    }
}

fn bar(minute: &Minute, index: u64, largest: u64) -> Markup {
    // The smallest count is still seen.
    let height = |count: u64| if count == 0 { 0 } else { (count * HEIGHT / largest).max(1) };
    let (rejected, duplicate) = (height(minute.rejected), height(minute.duplicate));
    html! {
        (part("act", index, 0, rejected))
        (part("quiet", index, rejected, duplicate))
        (part("applied", index, rejected + duplicate, height(minute.accepted)))
    }
}

fn part(class: &str, index: u64, below: u64, height: u64) -> Markup {
    let y = HEIGHT.saturating_sub(below + height);
    html! {
        @if height > 0 {
            rect class=(class) x=(index * BAR + 1) y=(y) width=(BAR - 2) height=(height) {}
        }
    }
}

const fn all(minute: &Minute) -> u64 {
    minute.accepted + minute.duplicate + minute.rejected
}

fn span(seconds: u64) -> String {
    age(i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use switchhook_aws::sdk;
    use switchhook_domain::{Provider, Timestamp};
    use switchhook_operate::status::{SCHEDULES, THRESHOLDS};
    use switchhook_operate::{Stack, StackNames};

    use super::*;
    use crate::console::Options;

    /// A console of a deployed stack.
    fn console() -> Console {
        let names = StackNames { stack: "prod".to_owned(), region: "eu-west-1".to_owned(), ..StackNames::default() };
        let stack = Stack::new(names, &sdk::from_url("http://127.0.0.1:1", "eu-west-1"), None);
        let options =
            Options { host: "localhost:1".to_owned(), allows_changes: false, is_frozen: false, look_first: None };
        Console::new(stack, options)
    }

    #[test]
    fn line_in_trouble_has_its_word_its_first_rows_and_its_advice() {
        let advice = Advice { text: "mend it", runbook: Some("P1Alarm".to_owned()), command: "switchhook dlq list" };
        let first = vec![Subject::Event("<a/b>".to_owned()), Subject::Call("call 1".to_owned())];
        let text = "2".to_owned();
        let line = Evidence { name: "dead letters", level: Level::Act, text, error: None, first, advice: Some(advice) };
        let shown = evidence(&console(), &line).into_string();
        assert!(shown.contains("<a href=\"/repair?tab=dead-letters\">dead letters</a>"), "{shown}");
        assert!(shown.contains("<bdi>2</bdi> <span class=\"badge up act\"><i></i>Act</span>"), "{shown}");
        assert!(shown.contains("href=\"/event?id=%3Ca%2Fb%3E\""), "{shown}");
        assert!(shown.contains("href=\"/call?id=call+1\""), "{shown}");
        // A bare command would choose its stack by the settings of the terminal.
        let command = "<code>switchhook dlq list --stack prod --region eu-west-1</code>";
        assert!(shown.contains(&format!("mend it: {command} (runbook: P1Alarm)")), "{shown}");
    }

    #[test]
    fn every_advice_is_a_command_of_the_tool() {
        let of_schedules = SCHEDULES.iter().map(|(_, _, command)| *command);
        for command in THRESHOLDS.iter().map(|(_, threshold)| threshold.command).chain(of_schedules) {
            assert!(command.starts_with("switchhook "), "{command}");
        }
    }

    #[test]
    fn lines_that_count_rows_lead_to_them() {
        for name in ["dead letters", "quarantined", "retrying", "conflicting bodies", "due calls", "overdue wake-ups"] {
            assert!(rows(name).is_some() && THRESHOLDS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn silent_provider_is_told_apart_by_a_word() {
        let quiet = Silence { provider: Provider::Vapi, seconds: 10_800, longest_pause: Some(1_800) };
        let shown = last_webhook(&quiet).into_string();
        assert!(shown.contains("Watch") && shown.contains("vapi silent for 3 h"), "{shown}");
        assert!(shown.contains("its longest pause of the last ten days was 30 min"), "{shown}");
        let usual = last_webhook(&Silence { seconds: 2, ..quiet }).into_string();
        assert_eq!(usual, "vapi 2 s ago");
    }

    #[test]
    fn bars_of_a_minute_stand_on_each_other() {
        let minute = Minute { at: Timestamp::from_millis(0), accepted: 2, duplicate: 1, rejected: 1 };
        let drawn = bar(&minute, 3, 4).into_string();
        let expected = "<rect class=\"act\" x=\"25\" y=\"36\" width=\"6\" height=\"12\"></rect>\
                        <rect class=\"quiet\" x=\"25\" y=\"24\" width=\"6\" height=\"12\"></rect>\
                        <rect class=\"applied\" x=\"25\" y=\"0\" width=\"6\" height=\"24\"></rect>";
        assert_eq!(drawn, expected);
    }
}
