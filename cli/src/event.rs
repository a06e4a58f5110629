//! `switchhook event`: lists received events, and shows the path and the payload of one.

use std::io::{self, Write};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use switchhook_domain::{CallId, ENTITY_PREFIX, EventId, Origin, Timestamp};
use switchhook_operate::duration;
use switchhook_operate::events::{
    self, EventLine, EventPage, EventPath, Filter, STATUSES, UnfoldedPage, UnreadableEvent,
};
use switchhook_operate::search::{SearchResult, find, search};
use switchhook_operate::selection::{call_or_entity, refuse_empty_span};

use crate::error::CommandError;
use crate::mark::mark;
use crate::provider_name;
use crate::since::{self, Since};
use crate::stack_choice::{Connection, StackChoice};
use crate::table::wrapped;
use crate::words::print_json;

const EXAMPLES: &str = "\
Examples:
  switchhook event list
  switchhook event list --status quarantined --provider retell --since 2h
  switchhook event list --call appt_201
  switchhook event show retell:call_5d0b8f6e:call_ended

Exit status: 0 if something was found, 1 if nothing was, 2 if the stack could not be reached, 3 if the command was refused.";

const LIST_EXAMPLES: &str = "\
Examples:
  switchhook event list --since 30m
  switchhook event list --type call_ended --since 2026-11-20T09:00:00Z --until 2026-11-20T10:00:00Z
  switchhook event list --status parked --limit 50 --json
  switchhook event list --call appt_201 --unfolded

The latest event comes first. A page reads a bounded number of minutes and events; then it says which span it examined, and how
to go on.

Events with --status retrying, queued or dead_lettered are found by their trouble, however many others have arrived since. --since and
--until count from the trouble. Dead letters that were discarded are not among them.

Exit status: 0 if an event was found, 1 if none was, 2 if the stack could not be reached, 3 if the times were refused.";

const SHOW_EXAMPLES: &str = "\
Examples:
  switchhook event show retell:call_5d0b8f6e:call_ended
  switchhook event show retell:call_5d0b8f6e:call_ended --headers --json

  switchhook event show retell:call_5d0b8f6e:call_ended --body --reason 'ticket 812'

Phone numbers, addresses, names and what people said are masked: equal values get equal letters. --body prints the exact bytes
that the provider sent, and nothing else. It writes an audit record with your reason first.

Exit status: 0 if the event was found, 1 if it was not, 2 if the stack could not be reached, 3 if the reason was refused.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Event {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List received events, the latest first
    List(List),
    /// Show the path of one event, and its masked payload
    Show(Show),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
struct List {
    #[command(flatten)]
    stack: StackChoice,
    /// Events with this disposition, or queued, retrying, dead_lettered or discarded
    #[arg(long, value_name = "STATUS", value_parser = clap::builder::PossibleValuesParser::new(STATUSES))]
    status: Option<String>,
    /// Events of this provider, or of switchhook itself
    #[arg(long, value_name = "PROVIDER", value_parser = provider_name::sender)]
    provider: Option<Origin>,
    /// Events of this type, in the provider's own words
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Events that arrived since this time: a time ago such as 2h, or a time in RFC 3339 format [default: 1h, or all with
    /// --call and the three statuses below]
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<Since>,
    /// Events that arrived before this time
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    until: Option<Since>,
    /// Events of this call: its id, the provider's id of a call that Switchhook dialled, an appointment or a phone number
    #[arg(long, value_name = "CALL", value_parser = NonEmptyStringValueParser::new())]
    call: Option<String>,
    /// With --call: only events that are not in the call's history, because they are not folded yet or never will be
    #[arg(long, requires = "call", conflicts_with_all = ["status", "provider", "event_type", "since", "limit"])]
    unfolded: bool,
    /// Number of events to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// Id of the event
    #[arg(value_name = "EVENT", value_parser = NonEmptyStringValueParser::new())]
    event: String,
    #[command(flatten)]
    stack: StackChoice,
    /// Show the stored headers too
    #[arg(long)]
    headers: bool,
    /// Print the payload as it was sent, without masking
    #[arg(long, requires = "reason", conflicts_with_all = ["headers", "json"])]
    body: bool,
    /// Why the payload must be read, for the audit record
    #[arg(long, value_name = "TEXT", requires = "body")]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Event {
    /// Returns true if something was found.
    pub(crate) fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        match &self.verb {
            Verb::List(list) => list.run(out, errors),
            Verb::Show(show) => show.run(out, errors),
        }
    }
}

impl List {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        let now = connection.stack.now();
        if let (true, Some(text)) = (self.unfolded, &self.call) {
            return self.list_unfolded(&connection, text, now, out, errors);
        }
        let call = match &self.call {
            // An entity has events of its own, beside those of the call that its booking schedules.
            Some(text) if call_or_entity(text).is_entity() => Some(call_or_entity(text)),
            Some(text) => {
                let SearchResult { calls, unreadable, .. } = connection.block_on(search(&connection.stack, text))?;
                let found = calls.into_iter().map(|(call, _)| call.call_id).chain(unreadable).next();
                Some(found.unwrap_or_else(|| CallId::new(text)))
            }
            None => None,
        };
        let is_by_trouble = self.status.as_deref().is_some_and(|status| events::mark_of(status).is_some());
        // An event that arrives right now is shown too.
        let until = self.until.map_or(Timestamp::from_millis(now.as_millis() + 1_000), |until| until.at(now));
        let hour_before = Timestamp::from_millis(now.min(until).as_millis() - 3_600_000);
        let default_since = match &call {
            Some(_) => Timestamp::from_millis(0),
            None if is_by_trouble => now.minus(connection.stack.inbox_retention()),
            None => hour_before,
        };
        let filter = Filter {
            status: self.status.clone(),
            provider: self.provider,
            event_type: self.event_type.clone(),
            call,
            since: self.since.map_or(default_since, |since| since.at(now)),
            until,
            limit: usize::from(self.limit),
        };
        refuse_empty_span(filter.since, filter.until)?;
        let page = connection.block_on(events::list(&connection.stack, &filter))?;
        if self.json {
            print_json(&page, out)?;
        } else {
            print_page(&page, out, errors)?;
        }
        Ok(!page.events.is_empty() || !page.unreadable.is_empty())
    }

    /// Lists the events of a call that are not in its history.
    fn list_unfolded(
        &self,
        connection: &Connection,
        text: &str,
        now: Timestamp,
        out: &mut impl Write,
        errors: &mut impl Write,
    ) -> Result<bool, CommandError> {
        let Some(found) = connection.block_on(find(&connection.stack, text))? else {
            writeln!(errors, "switchhook: the stack {} has no call {text:?}", connection.stack.names.stack)?;
            return Ok(false);
        };
        let until = self.until.map(|until| until.at(now));
        let page = connection.block_on(events::unfolded(&connection.stack, &found.call, until))?;
        if self.json {
            print_json(&page, out)?;
        } else {
            print_unfolded(&page, out, errors)?;
        }
        Ok(!page.events.is_empty() || !page.unreadable.is_empty())
    }
}

fn print_unfolded(page: &UnfoldedPage, out: &mut impl Write, errors: &mut impl Write) -> io::Result<()> {
    for line in &page.events {
        print_line(line, out)?;
    }
    for event in &page.unreadable {
        print_unreadable(event, errors)?;
    }
    let UnfoldedPage { events, unreadable: _, examined_since, examined_until, queries, earlier_until, later_until } =
        page;
    let found = events.len();
    writeln!(errors, "{found} shown; examined {examined_since} to {examined_until}, with {queries} queries")?;
    for (when, until) in [("earlier", earlier_until), ("later", later_until)] {
        if let Some(until) = until {
            writeln!(errors, "there may be {when} ones: repeat the command with --until {until}")?;
        }
    }
    Ok(())
}

fn print_page(page: &EventPage, out: &mut impl Write, errors: &mut impl Write) -> io::Result<()> {
    for line in &page.events {
        print_line(line, out)?;
    }
    for event in &page.unreadable {
        print_unreadable(event, errors)?;
    }
    let EventPage { examined_since, examined_until, examined, queries, .. } = page;
    let found = page.events.len();
    writeln!(
        errors,
        "{found} shown; examined {examined} events between {examined_since} and {examined_until}, with {queries} queries"
    )?;
    match &page.next_until {
        Some(until) => writeln!(errors, "there may be older ones: repeat the command with --until {until}"),
        None => Ok(()),
    }
}

/// Prints an event that this version cannot read.
pub(crate) fn print_unreadable(event: &UnreadableEvent, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}; a newer version of this tool may be able to read it", event.event_id, event.error)
}

/// Returns the type of an event. A dash if it could not be read.
fn type_of(line: &EventLine) -> &str {
    if line.event_type.is_empty() { "-" } else { &line.event_type }
}

/// Returns the key of an entity for people: its sender, and the sender's id of it.
fn entity_text(key: &str) -> &str {
    key.strip_prefix(ENTITY_PREFIX).unwrap_or(key)
}

/// Prints an event in two lines. Ids are never cut, because they are pasted into the next command.
pub(crate) fn print_line(line: &EventLine, out: &mut impl Write) -> io::Result<()> {
    let after = line.applied_after_ms.map_or_else(String::new, |ms| format!("after {}", duration(ms)));
    let retries = if line.attempts > 1 { format!(", {} tries", line.attempts) } else { String::new() };
    writeln!(out, "{}  {} {:<13}  {}", line.received_at, mark(line.status), line.status, line.event_id)?;
    let subject = match &line.entity {
        Some(entity) => format!("entity {}", entity_text(entity)),
        None => format!("call {}", line.call_id.as_deref().unwrap_or("-")),
    };
    writeln!(out, "    {} {}  {subject}  {after}{retries}", line.provider, type_of(line))?;
    match &line.error {
        Some(error) => wrapped(error, 4).iter().try_for_each(|line| writeln!(out, "{line}")),
        None => Ok(()),
    }
}

impl Show {
    fn run(&self, out: &mut impl Write, errors: &mut impl Write) -> Result<bool, CommandError> {
        let connection = self.stack.connect()?;
        if let (true, Some(reason)) = (self.body, &self.reason) {
            let body = connection.block_on(events::unmasked(&connection.stack, &EventId::new(&self.event), reason))?;
            let Some(body) = body else { return not_found(&self.event, &connection, errors) };
            out.write_all(&body)?;
            return Ok(true);
        }
        let found = connection.block_on(events::show(&connection.stack, &EventId::new(&self.event)))?;
        let Some(path) = found else { return not_found(&self.event, &connection, errors) };
        if self.json {
            print_json(&path, out)?;
        } else {
            print_path(&path, self.headers, out)?;
        }
        Ok(true)
    }
}

fn not_found(event: &str, connection: &Connection, errors: &mut impl Write) -> Result<bool, CommandError> {
    let stack = &connection.stack.names.stack;
    writeln!(
        errors,
        "switchhook: the inbox of the stack {stack} holds no event {event:?}. Ids are like retell:CALL_ID:call_ended; \
         `switchhook event list` shows them."
    )?;
    Ok(false)
}

fn print_path(path: &EventPath, with_headers: bool, out: &mut impl Write) -> io::Result<()> {
    let line = &path.line;
    writeln!(out, "{}", line.event_id)?;
    writeln!(out, "  type       {} from {}, {} {}", type_of(line), line.provider, mark(line.status), line.status)?;
    match &line.entity {
        Some(entity) => writeln!(out, "  entity     {}", entity_text(entity))?,
        None => writeln!(out, "  call       {}", line.call_id.as_deref().unwrap_or("-"))?,
    }
    let late = line.late_ms.map_or_else(String::new, |ms| format!(", {} after it happened", duration(ms)));
    writeln!(out, "  received   {}{late}", line.received_at)?;
    match (path.key_number, path.source) {
        (Some(1), _) => writeln!(out, "  verified   by key 1 of the provider, the newest")?,
        (Some(number), _) => writeln!(out, "  verified   by key {number} of the provider; key 1 is the newest")?,
        (None, "lookup") => writeln!(out, "  verified   not needed: the provider's answer to a lookup")?,
        (None, _) => writeln!(out, "  verified   not needed: Switchhook made it")?,
    }
    writeln!(out, "  stored     {} bytes, trace id {}", path.body_bytes, path.trace_id)?;
    if let Some(at) = &path.erased_at {
        writeln!(out, "  erased     {at}, because its person was forgotten; the payload is what was read from it")?;
    }
    match (&path.folded_at, line.applied_after_ms) {
        (Some(at), Some(after)) => writeln!(out, "  folded     {at}, after {}", duration(after))?,
        (_, _) if line.entity.is_some() => {}
        (_, _) => writeln!(out, "  folded     no: {}", line.status)?,
    }
    // The error of a try stands behind the number of tries.
    for text in line.error.iter().filter(|_| path.retries.is_none()).flat_map(|error| wrapped(error, 4)) {
        writeln!(out, "{text}")?;
    }
    for entry in &path.folded {
        let implied = if entry.implied { " (implied)" } else { "" };
        writeln!(out, "    {} {}{implied}, {}", mark(entry.disposition), entry.kind, entry.disposition)?;
        for line in wrapped(&entry.why, 6) {
            writeln!(out, "{line}")?;
        }
    }
    for event in &path.announced {
        writeln!(out, "  announced  {} {}, id {}", event.at.as_deref().unwrap_or("-"), event.event_type, event.id)?;
    }
    if let Some(retries) = &path.retries {
        let ends = [
            ("next try", &retries.next_retry_at),
            ("dead letter since", &retries.dead_lettered_at),
            ("discarded", &retries.discarded_at),
        ];
        let ends: String = ends.iter().filter_map(|(name, at)| Some(format!(", {name} {}", at.as_ref()?))).collect();
        writeln!(out, "  retries    {}{ends}", retries.count)?;
        for line in retries.error.iter().flat_map(|error| wrapped(error, 4)) {
            writeln!(out, "{line}")?;
        }
    }
    if with_headers {
        for (name, value) in &path.headers {
            writeln!(out, "  header     {name}: {value}")?;
        }
    }
    match &path.conflict {
        Some(conflict) => {
            writeln!(out, "\nOther body under the same id, received {} (- stored, + later):", conflict.received_at)?;
            for line in &conflict.diff {
                writeln!(out, "{}{}", line.sign, line.line)?;
            }
            Ok(())
        }
        None => {
            writeln!(out, "\nPayload, masked{}:", if path.body_is_cut { " and cut" } else { "" })?;
            path.body.iter().try_for_each(|line| writeln!(out, "{line}"))
        }
    }
}
