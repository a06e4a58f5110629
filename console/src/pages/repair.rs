//! Repair: what could not be processed, grouped by cause, with a button for each plan that helps.

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use switchhook_domain::{Origin, Timestamp};
use switchhook_operate::audit::{self, AuditRecord, Counts};
use switchhook_operate::mask::Masker;
use switchhook_operate::repair::{COUNTED_MAX, FailedMessages, Group, Groups, Trouble, failed_messages, groups};
use switchhook_operate::run::{self, Run, RunState};
use switchhook_operate::{Error, Stack, age};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::plan::{Kind, button};
use crate::parts::{self, counted};
use crate::query::{Query, url};
use crate::session::Session;
use crate::text::{short_id, visible};

/// Ids that a group shows.
const IDS_SHOWN: usize = 3;
/// Audit records and runs that the page shows.
const RECORDS_SHOWN: usize = 50;
const RUNS_SHOWN: usize = 10;

/// Section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    DeadLetters,
    Quarantined,
    Retrying,
    Conflicts,
    Relay,
    Audit,
}

impl Tab {
    const ALL: [Self; 6] =
        [Self::DeadLetters, Self::Quarantined, Self::Retrying, Self::Conflicts, Self::Relay, Self::Audit];

    const fn title(self) -> &'static str {
        match self {
            Self::DeadLetters => "Dead letters",
            Self::Quarantined => "Quarantined",
            Self::Retrying => "Retrying",
            Self::Conflicts => "Conflicts",
            Self::Relay => "Relay",
            Self::Audit => "Audit",
        }
    }

    /// Value of the parameter `tab`.
    const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead-letters",
            Self::Quarantined => "quarantined",
            Self::Retrying => "retrying",
            Self::Conflicts => "conflicts",
            Self::Relay => "relay",
            Self::Audit => "audit",
        }
    }

    /// Command that prints the same.
    const fn command(self) -> &'static str {
        match self {
            Self::DeadLetters => "dlq list",
            Self::Quarantined => "quarantine list",
            Self::Retrying => "event list --status retrying",
            Self::Conflicts | Self::Relay => "status",
            Self::Audit => "audit list",
        }
    }
}

/// Sources of the page. Each is read by itself.
struct Read {
    dead_letters: Result<Groups, Error>,
    quarantined: Result<Groups, Error>,
    retrying: Result<Groups, Error>,
    conflicts: Result<Groups, Error>,
    messages: FailedMessages,
    now: Timestamp,
}

impl Read {
    async fn of(stack: &Stack) -> Self {
        let (dead_letters, quarantined, retrying, conflicts, messages) = tokio::join!(
            groups(stack, Trouble::DeadLetters),
            groups(stack, Trouble::Quarantined),
            groups(stack, Trouble::Retrying),
            groups(stack, Trouble::Conflicts),
            failed_messages(stack)
        );
        Self { dead_letters, quarantined, retrying, conflicts, messages, now: stack.now() }
    }

    /// Returns the number beside the name of a section. `None` for the audit.
    fn count(&self, tab: Tab) -> Option<String> {
        let counted = |groups: &Result<Groups, Error>| match groups {
            Ok(groups) if groups.more => format!("{COUNTED_MAX}+"),
            Ok(groups) => groups.count.to_string(),
            Err(_) => "?".to_owned(),
        };
        match tab {
            Tab::DeadLetters => Some(counted(&self.dead_letters)),
            Tab::Quarantined => Some(counted(&self.quarantined)),
            Tab::Retrying => Some(counted(&self.retrying)),
            Tab::Conflicts => Some(counted(&self.conflicts)),
            Tab::Relay => Some(self.messages.relay.as_ref().map_or_else(|_| "?".to_owned(), u64::to_string)),
            Tab::Audit => None,
        }
    }

    /// Returns the kind of the error that kept a section from being read.
    fn problem(&self, tab: Tab) -> Option<&'static str> {
        let error = match tab {
            Tab::DeadLetters => self.dead_letters.as_ref().err(),
            Tab::Quarantined => self.quarantined.as_ref().err(),
            Tab::Retrying => self.retrying.as_ref().err(),
            Tab::Conflicts => self.conflicts.as_ref().err(),
            Tab::Relay => self.messages.relay.as_ref().err(),
            Tab::Audit => None,
        };
        error.map(|error| error.kind().as_str())
    }

    /// Returns the messages of the dead-letter queue that the index does not explain.
    fn unexplained(&self) -> u64 {
        let (Ok(letters), Ok(quarantined), Ok(messages)) =
            (&self.dead_letters, &self.quarantined, &self.messages.dead_letters)
        else {
            return 0;
        };
        let explained = u64::try_from(letters.count + quarantined.notices).unwrap_or(u64::MAX);
        if letters.more || quarantined.more { 0 } else { messages.saturating_sub(explained) }
    }

    /// Returns the first section that is not empty.
    fn first(&self) -> Tab {
        let is_full = |tab: &Tab| self.count(*tab).is_some_and(|count| count != "0");
        if self.unexplained() > 0 {
            Tab::DeadLetters
        } else {
            Tab::ALL.into_iter().find(is_full).unwrap_or(Tab::DeadLetters)
        }
    }
}

pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let asked = query.get("tab").and_then(|name| Tab::ALL.into_iter().find(|tab| tab.as_str() == name));
    // The frame is sent before the page knows which section is the first that is not empty.
    let command = asked.map_or("status", Tab::command).to_owned();
    let frame = Frame { title: "Repair".to_owned(), entry: Some(Entry::Repair), command };
    let reader = console.clone();
    page::stream(&console, frame, async move {
        let stack = reader.stack();
        let read = Read::of(stack).await;
        let tab = asked.unwrap_or_else(|| read.first());
        let section = match tab {
            Tab::DeadLetters => dead_letters(stack, &session, &read).await,
            Tab::Quarantined => quarantined(stack, &session, &read).await,
            Tab::Retrying => retrying(&read),
            Tab::Conflicts => conflicts(&read),
            Tab::Relay => relay(&session, &read),
            Tab::Audit => audit_of(&reader).await,
        };
        html! {
            h1 { "Repair" }
            nav.tabs aria-label="Sections of this page" {
                @for one in Tab::ALL {
                    a href=(url("/repair", &[("tab", one.as_str())])) aria-current=[(one == tab).then_some("page")] {
                        (one.title()) @if let Some(count) = read.count(one) { " " span.count data-kind=[read.problem(one)] { (count) } }
                    }
                }
            }
            section aria-label=(tab.title()) { (section) }
        }
    })
}

async fn dead_letters(stack: &Stack, session: &Session, read: &Read) -> Markup {
    let letters = match &read.dead_letters {
        Ok(letters) => letters,
        Err(error) => return parts::problem("the index of dead letters", error),
    };
    let unexplained = read.unexplained();
    let messages = &read.messages.dead_letters;
    let nothing = letters.count == 0 && messages.as_ref().is_ok_and(|messages| *messages == 0);
    html! {
        p.muted { "Events that could not be folded within two hours. Each stays in its queue until its event is in its call." }
        @match messages {
            Ok(messages) if !nothing => {
                p { "Messages in the dead-letter queue: " strong { (messages) } ". Beside dead letters, it holds a notice for each "
                    a href=(url("/repair", &[("tab", Tab::Quarantined.as_str())])) { "quarantined webhook" }
                    ", which goes with the webhook. Of one call, it gives out ten messages at a time: further ones come when those are "
                    "deleted. So a plan may hold a part of them." }
            }
            Ok(_) => {}
            Err(error) => (parts::problem("the dead-letter queue", error)),
        }
        @if unexplained > 0 {
            div.row {
                p { strong { (unexplained) " more than the index names." } " A plan looks at the messages themselves." }
                (button(session, "Plan: redrive all", Kind::Redrive, &[("all", "yes")]))
                (button(session, "Plan: discard all", Kind::DiscardDeadLetters, &[("all", "yes")]))
            }
        }
        @if nothing { (last_repair(stack).await) }
        @else if letters.count > 0 {
            (table(letters, read.now, "Dead letters by cause", Some("dead_lettered"), |group| {
                let filter = filter(group);
                let fields: Vec<(&str, &str)> = filter.iter().map(|(name, value)| (*name, value.as_str())).collect();
                html! {
                    (button(session, "Plan: redrive", Kind::Redrive, &fields))
                    (button(session, "Plan: discard", Kind::DiscardDeadLetters, &fields))
                }
            }))
        }
    }
}

async fn quarantined(stack: &Stack, session: &Session, read: &Read) -> Markup {
    let events = match &read.quarantined {
        Ok(events) => events,
        Err(error) => return parts::problem("the index of quarantined events", error),
    };
    html! {
        p.muted { "Authentic webhooks that this version could not read, and events for which their call has no room. A newer version may read them." }
        @if events.count == 0 { (last_repair(stack).await) }
        @else {
            (table(events, read.now, "Quarantined events by cause", Some("quarantined"), |group| {
                let filter = filter(group);
                let fields: Vec<(&str, &str)> = filter.iter().map(|(name, value)| (*name, value.as_str())).collect();
                html! {
                    (button(session, "Plan: process again", Kind::Reprocess, &fields))
                    (button(session, "Plan: discard", Kind::DiscardQuarantined, &fields))
                }
            }))
        }
    }
}

fn retrying(read: &Read) -> Markup {
    html! {
        p.muted { "These events are tried again by themselves. One that fails for two hours becomes a dead letter." }
        @match &read.retrying {
            Ok(events) if events.count == 0 => (parts::empty(&html! { "No event is tried again." })),
            Ok(events) => {
                (table(events, read.now, "Events that are tried again, by cause", Some("retrying"), |_| {
                    html! { span.muted { "goes on by itself" } }
                }))
            }
            Err(error) => (parts::problem("the index of events that are tried again", error)),
        }
    }
}

fn conflicts(read: &Read) -> Markup {
    html! {
        p.muted { "The id of an event came again with another body. The first body counts, and the page of the event shows both." }
        @match &read.conflicts {
            Ok(events) if events.count == 0 => (parts::empty(&html! { "No event came again with another body." })),
            Ok(events) => {
                (table(events, read.now, "Conflicting events", None, |_| html! { span.muted { "compare the bodies" } }))
            }
            Err(error) => (parts::problem("the index of conflicts", error)),
        }
    }
}

fn relay(session: &Session, read: &Read) -> Markup {
    html! {
        p.muted { "Parts of the stream that the relay gave up. The domain events of the calls in them may never have been published." }
        @match &read.messages.relay {
            Ok(0) => (parts::empty(&html! { "The relay gave up nothing." })),
            Ok(messages) => {
                div.row {
                    p { strong { (messages) } " parts of the stream were given up." }
                    (button(session, "Plan: publish again", Kind::Republish, &[("failed", "yes")]))
                }
            }
            Err(error) => (parts::problem("the queue of the relay's failures", error)),
        }
    }
}

/// Returns the fields of a form that selects a group. A cause in the index decides, or else the events.
fn filter(group: &Group) -> Vec<(&'static str, String)> {
    match &group.cause {
        Some(cause) => {
            let sender = group.origin.map(|origin| ("provider", origin.as_str().to_owned()));
            [("cause", cause.clone())].into_iter().chain(sender).collect()
        }
        None => group.events.iter().map(|id| ("event", id.to_string())).collect(),
    }
}

/// Table of groups. `status` is the one by which the list of events has them. Of conflicts there is no such list, so the latest are named.
fn table(
    found: &Groups,
    now: Timestamp,
    caption: &str,
    status: Option<&str>,
    actions: impl Fn(&Group) -> Markup,
) -> Markup {
    let mut masker = Masker::new();
    // If there are more events than are counted, nobody knows the earliest.
    let (named, oldest) = match (status.is_some(), found.more) {
        (true, false) => ("First events", "Oldest"),
        (true, true) => ("First of these", "Oldest of these"),
        (false, false) => ("Latest events", "Oldest"),
        (false, true) => ("Latest events", "Oldest of these"),
    };
    html! {
        table.groups {
            caption.hidden { (caption) }
            (parts::columns(&["Events", "Cause", "Sender", oldest, named, "Repair"]))
            tbody {
                @for group in &found.groups {
                    @let cause = group.error.as_deref().or(group.cause.as_deref()).unwrap_or("no cause is recorded");
                    // While the page is open, other events may become the ones that are named.
                    tr #(row_id(group)) {
                        td data-label="Events" { strong { (group.count) } }
                        td data-label="Cause" { (parts::foreign(&masker.text(cause))) }
                        td data-label="Sender" { @if let Some(origin) = group.origin { (origin.as_str()) } @else { "-" } }
                        td data-label=(oldest) { (ago(now, group.earliest)) ", " (parts::time(&group.earliest.to_string())) }
                        td data-label=(named) { (events_of(group)) }
                        td.actions data-label="Repair" { (actions(group)) }
                    }
                }
            }
        }
        @if found.more { p.muted { "The latest " (COUNTED_MAX) " events are counted. There are more." } }
        @if let Some(status) = status {
            p { a href=(url("/events", &[("status", status)])) { "These events one by one, the latest first" } }
        }
    }
}

/// Id of the row of a group.
fn row_id(group: &Group) -> String {
    let sender = group.origin.as_ref().map_or("-", Origin::as_str);
    format!("group-{sender}-{}", group.cause.as_deref().unwrap_or_default())
}

/// Links to the events that a group names. The first ones are visible at once.
fn events_of(group: &Group) -> Markup {
    let (shown, others) = group.events.split_at(group.events.len().min(IDS_SHOWN));
    let unnamed = group.count.saturating_sub(group.events.len());
    html! {
        @for id in shown { (event_link(id.as_str())) " " }
        @if !others.is_empty() {
            details {
                summary { "and " (group.count - shown.len()) " more" }
                @for id in others { (event_link(id.as_str())) " " }
                @if unnamed > 0 { span.muted { "and " (unnamed) " others" } }
            }
        }
    }
}

fn event_link(id: &str) -> Markup {
    html! { a.id href=(url("/event", &[("id", id)])) title=(visible(id)) { bdi { (short_id(id)) } } }
}

/// Returns a time before now for display, for example `3 h ago`.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> String {
    format!("{} ago", age(now.millis_since(at)))
}

/// Text of a section without trouble. It names the last repair.
async fn last_repair(stack: &Stack) -> Markup {
    let last = run::list(stack, 1).await;
    parts::empty(&html! {
        "Nothing waits. "
        @match last.as_ref().map(|runs| runs.first()) {
            Ok(Some(run)) => {
                "The last repair was " (run_link(run)) " (" (run.verb.command()) "), " (ago(stack.now(), run.updated_at)) ": " (run.result()) "."
            }
            Ok(None) => { "Nothing was ever repaired." }
            Err(error) => span data-kind=(error.kind().as_str()) { "What was repaired last could not be read." },
        }
    })
}

fn run_link(run: &Run) -> Markup {
    html! { a href=(url("/run", &[("id", run.id.as_str())])) { (run.id.as_str()) } }
}

async fn audit_of(console: &Console) -> Markup {
    let stack = console.stack();
    // One more than is shown tells whether there are more.
    let (runs, records) = tokio::join!(run::list(stack, RUNS_SHOWN + 1), audit::list(stack, RECORDS_SHOWN + 1));
    html! {
        p.muted { "Who changed what, and why. No run starts, no command changes anything, and no body is unmasked, without a record." }
        h2 { "Runs" }
        @match &runs {
            Ok(runs) if runs.is_empty() => (parts::empty(&html! { "Nothing was ever repaired." })),
            Ok(runs) => {
                (runs_table(runs.get(..RUNS_SHOWN).unwrap_or(runs)))
                (more(console, runs.len(), RUNS_SHOWN, "run list --max 100"))
            }
            Err(error) => (parts::problem("the list of runs", error)),
        }
        h2 { "Records" }
        @match &records {
            Ok(records) if records.is_empty() => (parts::empty(&html! { "There is no audit record." })),
            Ok(records) => {
                (records_table(records.get(..RECORDS_SHOWN).unwrap_or(records)))
                (more(console, records.len(), RECORDS_SHOWN, "audit list --max 500"))
            }
            Err(error) => (parts::problem("the audit records", error)),
        }
    }
}

/// Says that a list shows only its latest items, with the command that prints more of them. Empty if it shows all.
fn more(console: &Console, found: usize, shown: usize, command: &str) -> Markup {
    html! {
        @if found > shown { p { "These are the latest " (shown) ". There are more: " (parts::command(console, command)) } }
    }
}

fn runs_table(runs: &[Run]) -> Markup {
    html! {
        table {
            caption { "Latest runs" }
            (parts::columns(&["Run", "Command", "State", "Items", "Result", "Last step"]))
            tbody {
                @for run in runs {
                    tr {
                        td data-label="Run" { (run_link(run)) }
                        td data-label="Command" { (run.verb.command()) }
                        td data-label="State" {
                            @match run.state { RunState::Finished => (parts::badge("finished")), RunState::Unfinished => (parts::badge("unfinished")) }
                        }
                        td data-label="Items" { (run.position) " of " (run.items) }
                        td data-label="Result" { (run.result()) }
                        td data-label="Last step" { (parts::date_and_time(&run.updated_at.to_string())) }
                    }
                }
            }
        }
    }
}

fn records_table(records: &[AuditRecord]) -> Markup {
    let mut masker = Masker::new();
    html! {
        table {
            caption { "Latest audit records" }
            (parts::columns(&["Time", "Who", "What", "Why", "Items", "Result", "About"]))
            tbody {
                @for record in records {
                    tr #(format!("audit-{}", record.id)) {
                        td data-label="Time" { (parts::date_and_time(&record.at.to_string())) }
                        td data-label="Who" { (parts::foreign(&record.who)) }
                        td data-label="What" { (record.verb.command()) " " (record.moment.as_str()) }
                        td data-label="Why" { (parts::foreign(&masker.text(&record.reason))) }
                        td data-label="Items" { (counted(record.items, "item")) }
                        td data-label="Result" {
                            @if record.counts == Counts::default() { "-" } @else { (record.counts) }
                        }
                        td data-label="About" {
                            @if let Some(run) = &record.run_id { a href=(url("/run", &[("id", run)])) { (visible(run)) } }
                            @if let Some(event) = &record.event_id { (event_link(event)) }
                            @if let Some(call) = &record.call_id { (parts::call_link(call)) }
                            @if let Some(about) = &record.about { (parts::foreign(&masker.text(about))) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchhook_domain::{EventId, Provider};
    use switchhook_operate::audit::{Direct, Moment, Operation};
    use switchhook_operate::repair::NAMED_MAX;

    use super::*;

    /// A refused change must not look like one that was made.
    #[test]
    fn change_that_the_stack_refused_shows_its_result() {
        let started = AuditRecord {
            id: "a-1/started".to_owned(),
            at: Timestamp::from_millis(0),
            moment: Moment::Started,
            who: "ada".to_owned(),
            reason: "cancel the call".to_owned(),
            verb: Operation::Direct(Direct::CancelCall),
            run_id: None,
            plan_id: None,
            event_id: None,
            call_id: Some("call-9".to_owned()),
            about: None,
            items: 1,
            counts: Counts::default(),
        };
        let finished = AuditRecord {
            id: "a-1/finished".to_owned(),
            moment: Moment::Finished,
            counts: Counts { skipped: 1, ..Counts::default() },
            ..started.clone()
        };
        let html = |record| records_table(&[record]).into_string();
        assert!(html(finished).contains(r#"<td data-label="Result">0 done, 0 unchanged, 1 skipped</td>"#));
        assert!(html(started).contains(r#"<td data-label="Result">-</td>"#));
    }

    fn group() -> Group {
        let at = Timestamp::from_millis(0);
        Group {
            cause: Some("read_call".to_owned()),
            error: None,
            origin: Some(Origin::Provider(Provider::Retell)),
            count: 2,
            events: vec![EventId::new("retell:a")],
            earliest: at,
            latest: at,
        }
    }

    #[test]
    fn each_named_event_of_a_group_is_a_link() {
        let events = (0..NAMED_MAX).map(|n| EventId::new(format!("retell:e{n}"))).collect();
        let groups = vec![Group { count: 60, events, ..group() }];
        let found = Groups { groups, count: 60, ..Groups::default() };
        let shown =
            |status| table(&found, Timestamp::from_millis(0), "Events", status, |_| html! { "none" }).into_string();
        let conflicts = shown(None);
        assert_eq!(conflicts.matches("/event?id=").count(), NAMED_MAX, "{conflicts}");
        assert!(conflicts.contains("Latest events") && conflicts.contains("and 57 more"), "{conflicts}");
        assert!(conflicts.contains("and 10 others") && !conflicts.contains("/events?status="), "{conflicts}");
        assert!(shown(Some("quarantined")).contains("href=\"/events?status=quarantined\""));
        let few = Groups { groups: vec![group()], count: 2, ..Groups::default() };
        let few = table(&few, Timestamp::from_millis(0), "Events", None, |_| html! {}).into_string();
        assert!(!few.contains("<details"), "{few}");
    }

    #[test]
    fn button_of_a_group_names_its_cause_and_its_sender() {
        let group = group();
        assert_eq!(filter(&group), [("cause", "read_call".to_owned()), ("provider", "retell".to_owned())]);
        assert_eq!(filter(&Group { cause: None, ..group }), [("event", "retell:a".to_owned())]);
    }
}
