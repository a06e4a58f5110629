//! Parts that many pages share: ids, times, states, panels, commands, problems.

use maud::{Markup, html};
use switchhook_operate::Error;
use switchhook_operate::cost::Spent;
use switchhook_operate::status::Level;

use crate::console::Console;
use crate::query::url;
use crate::text::{short_event_id, short_id, visible};

pub(crate) use switchhook_operate::counted;

/// Command that prints the same as a page, with the option that chooses the stack.
pub(crate) fn command(console: &Console, command: &str) -> Markup {
    html! { code { "switchhook " (visible(command)) " " (visible(&console.stack().options())) } }
}

/// Text of the stack, which may be of any language and hold anything.
pub(crate) fn foreign(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// Link to a call.
pub(crate) fn call_link(id: &str) -> Markup {
    html! { a.id href=(url("/call", &[("id", id)])) title=(visible(id)) { bdi { (short_id(id)) } } }
}

/// Requests of this console since it started, and their cost.
pub(crate) fn cost(console: &Console) -> Markup {
    let Spent { requests, read_units, write_units: _, metrics, dollars } = Spent::of(&console.stack().ledger);
    let place = if console.stack().local.is_some() { "on AWS about" } else { "about" };
    html! {
        span #cost {
            "This console: " (requests) " requests, " (read_units) " read units, " (metrics) " metrics, " (place) " "
            "$" (format!("{dollars:.4}"))
        }
    }
}

/// Time of the day in UTC. `at` is an RFC 3339 text, which a script shows in local time if the user wishes.
pub(crate) fn time(at: &str) -> Markup {
    time_of(at, at.get(11..19))
}

/// Time with its date.
pub(crate) fn date_and_time(at: &str) -> Markup {
    let shown = at.get(..10).zip(at.get(11..19)).map(|(date, time)| format!("{date} {time}"));
    time_of(at, shown.as_deref())
}

/// Time with its milliseconds, in a list of times with this name. The first of a day has its date. A script decides that again for
/// the days of local time. `None` if an element around the times has the name, as `data-days`.
pub(crate) fn time_in_list(at: &str, has_date: bool, list: Option<&str>) -> Markup {
    let shown = at.get(..10).zip(at.get(11..23).filter(|text| !text.ends_with('Z')));
    let Some((date, time)) = shown else { return time_of(at, None) };
    html! { time datetime=(at) data-days=[list] { @if has_date { (date) " " } (time) } }
}

/// Name of the zone in which the times of a page are shown. A script changes it with them.
pub(crate) fn zone() -> Markup {
    html! { span.zone-word { "UTC" } }
}

fn time_of(at: &str, shown: Option<&str>) -> Markup {
    html! { time datetime=(at) { (shown.unwrap_or(at)) } }
}

/// Whole id with a button that copies it. Scripts show the button.
pub(crate) fn copyable(id: &str) -> Markup {
    html! {
        span.id { (foreign(id)) }
        " "
        button.copy type="button" data-copy=(id) aria-label={ "Copy " (visible(id)) } hidden { "copy" }
    }
}

/// Shape and word of a verdict.
pub(crate) fn level(level: Level) -> Markup {
    badge(level.as_str())
}

/// Word of a state, a disposition or a verdict, with its shape and colour. The word alone carries the meaning.
pub(crate) fn badge(word: &str) -> Markup {
    let (shape, tone) = look(word).unwrap_or(("dash", "quiet"));
    // Names of the API, such as `IN_PROGRESS`, stay as they are.
    let shown = if word.chars().any(char::is_lowercase) { word.replace('_', " ") } else { word.to_owned() };
    html! { span class={ "badge " (shape) " " (tone) } { i {} (visible(&shown)) } }
}

/// Shape and colour of a word, as the classes of the style sheet. `None` if the word is not known.
fn look(word: &str) -> Option<(&'static str, &'static str)> {
    let look = match word.to_ascii_lowercase().as_str() {
        // Verdicts.
        "ok" => ("disc", "ok"),
        "watch" => ("half", "watch"),
        "act" => ("up", "act"),
        "unknown" => ("question", "quiet"),
        // Dispositions, and statuses of events without one.
        "applied" => ("disc", "applied"),
        "parked" => ("half", "watch"),
        "refused" => ("cross", "act"),
        "stale" => ("ring", "quiet"),
        "duplicate" => ("double", "quiet"),
        "processed" => ("dash", "quiet"),
        "recorded" => ("square", "quiet"),
        "quarantined" => ("up", "strong"),
        "dead_lettered" => ("down", "strong"),
        "discarded" => ("check", "quiet"),
        "queued" => ("dotted", "quiet"),
        "retrying" => ("turn", "quiet"),
        "conflict" => ("diamond", "watch"),
        // Jobs, attempts, outcomes and appointments.
        "pending" | "not_placed" => ("dotted", "quiet"),
        "claimed" | "dialing" | "ringing" => ("half", "applied"),
        "initiated" => ("half", "quiet"),
        "in_progress" | "connected" => ("disc", "applied"),
        "completed" | "confirmed" => ("check", "ok"),
        "declined" => ("cross", "strong"),
        "failed" => ("cross", "act"),
        "no_answer" | "noanswer" => ("ring", "quiet"),
        "busy" | "voicemail" => ("square", "quiet"),
        "missed" => ("down", "watch"),
        "inconclusive" | "in_doubt" => ("diamond", "watch"),
        "canceled" | "withdrawn" => ("dash", "quiet"),
        "blocked" => ("up", "strong"),
        // Circuits of providers, and runs.
        "closed" => ("disc", "ok"),
        "half_open" | "paused" | "unfinished" => ("half", "watch"),
        "open" => ("up", "act"),
        "running" => ("half", "applied"),
        "done" | "finished" => ("check", "ok"),
        "stopped" => ("square", "watch"),
        "skipped" => ("dash", "quiet"),
        _ => return None,
    };
    Some(look)
}

/// Panel for something that could not be read, with the remedy.
pub(crate) fn problem(what: &str, error: &Error) -> Markup {
    let explanation = error.explanation();
    html! {
        div.problem role="alert" data-kind=(explanation.kind.as_str()) {
            strong { "Unknown: " (what) " could not be read. " }
            bdi { (visible(&explanation.to_string())) }
        }
    }
}

/// Text where a list is empty. It says what would be there, and how it comes there.
pub(crate) fn empty(text: &Markup) -> Markup {
    html! { div.empty { (text) } }
}

/// Text as one word of a shell. An id may hold blanks, quotes and anything else.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Link to an event.
pub(crate) fn event_link(id: &str) -> Markup {
    html! { a.id href=(url("/event", &[("id", id)])) title=(visible(id)) { bdi { (short_event_id(id)) } } }
}

/// Shape of a word, with a text before it. The word itself is there for screen readers and as a tip.
pub(crate) fn shape(before: &str, word: &str) -> Markup {
    let (shape, tone) = look(word).unwrap_or(("dash", "quiet"));
    html! { span class={ "badge " (shape) " " (tone) } title=(visible(word)) { (before) i {} span.hidden { (visible(word)) } } }
}

/// Head of a table with these columns.
pub(crate) fn columns(titles: &[&str]) -> Markup {
    html! { thead { tr { @for title in titles { th scope="col" { (title) } } } } }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use switchhook_aws::ledger::Usage;
    use switchhook_aws::sdk;
    use switchhook_domain::{AppointmentStatus, JobState, Lifecycle, Outcome, State};
    use switchhook_operate::events::STATUSES;
    use switchhook_operate::{Stack, StackNames};

    use super::*;
    use crate::console::Options;

    #[test]
    fn every_state_has_a_look() {
        let words = STATUSES.into_iter();
        let words = words
            .chain(JobState::ALL.map(JobState::as_str))
            .chain(AppointmentStatus::ALL.map(AppointmentStatus::as_str));
        let words = words.chain(Lifecycle::ALL.iter().map(|state| state.label()));
        let words = words.chain(Outcome::ALL.iter().map(|state| state.label()));
        let missing: Vec<&str> = words.filter(|word| look(word).is_none()).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn every_disposition_has_a_shape_of_its_own() {
        let shapes: BTreeSet<&str> = STATUSES.into_iter().map(|status| look(status).unwrap().0).collect();
        assert_eq!(shapes.len(), STATUSES.len());
    }

    #[test]
    fn footer_shows_the_sum_of_the_ledger() {
        let names =
            StackNames { stack: "switchhook".to_owned(), region: "eu-west-1".to_owned(), ..StackNames::default() };
        let stack = Stack::new(names, &sdk::from_url("http://127.0.0.1:1", "eu-west-1"), None);
        let ledger = stack.ledger.clone();
        let options =
            Options { host: "localhost:1".to_owned(), allows_changes: false, is_frozen: false, look_first: None };
        let console = Console::new(stack, options);
        let shown = || cost(&console).into_string();
        assert!(shown().contains("0 requests, 0 read units, 0 metrics, about $0.0000"), "{}", shown());
        ledger.record("dynamodb", "Query", Usage { requests: 30, half_read_units: 41, ..Usage::default() });
        ledger.record("monitoring", "GetMetricData", Usage { requests: 1, metrics: 19, ..Usage::default() });
        assert!(shown().contains("31 requests, 20.5 read units, 19 metrics, about $0.0002"), "{}", shown());
    }

    #[test]
    fn badge_has_a_word() {
        assert_eq!(
            badge("dead_lettered").into_string(),
            r#"<span class="badge down strong"><i></i>dead lettered</span>"#
        );
        assert!(badge("IN_PROGRESS").into_string().ends_with("</i>IN_PROGRESS</span>"));
        assert!(badge("<b>\u{202e}").into_string().ends_with("</i>&lt;b&gt;⟨U+202E⟩</span>"));
    }

    #[test]
    fn time_is_shown_as_its_page_needs_it() {
        let at = "2026-11-22T15:45:11.212Z";
        let shown = |markup: Markup| markup.into_string().split(['>', '<']).nth(2).unwrap().to_owned();
        assert_eq!(shown(time(at)), "15:45:11");
        assert_eq!(shown(time_in_list(at, false, Some("a"))), "15:45:11.212");
        assert_eq!(shown(time_in_list(at, true, None)), "2026-11-22 15:45:11.212");
        assert_eq!(shown(date_and_time(at)), "2026-11-22 15:45:11");
        assert_eq!(shown(time("é")), "é");
    }
}
