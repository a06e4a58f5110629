//! The path of one event: received, verified, stored, folded, announced.

use std::collections::BTreeMap;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use switchhook_aws::inbox::Note;
use switchhook_domain::{AnnouncementSource, Call, Disposition, EntityFate, EventId, Origin, WebhookReceived, explain};
use switchhook_providers::key_number;

use super::{EventLine, Fate};
use crate::error::Error;
use crate::mask::Masker;
use crate::stack::Stack;

/// Largest number of lines of a masked body that are shown.
const SHOWN_LINES_MAX: usize = 5_000;

/// The path of one event, with its masked payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventPath {
    #[serde(flatten)]
    pub line: EventLine,
    /// Number of the provider's key that verified the webhook: 1 is the newest. `None` if nothing was verified, because the
    /// event is an answer to a lookup or Switchhook itself made it.
    pub key_number: Option<usize>,
    /// `webhook`, `lookup` or `switchhook`.
    pub source: &'static str,
    pub trace_id: String,
    pub body_bytes: usize,
    pub folded: Vec<FoldedEntry>,
    pub folded_at: Option<String>,
    pub announced: Vec<Announced>,
    pub retries: Option<Retries>,
    pub headers: BTreeMap<String, String>,
    /// Time at which the person was forgotten. The body then holds only the call events that were read from it.
    pub erased_at: Option<String>,
    /// Lines of the masked body.
    pub body: Vec<String>,
    pub body_is_cut: bool,
    /// Body that arrived later under the same id, as a difference from the stored one. Masked.
    pub conflict: Option<Conflict>,
}

/// One call event that was read from the event, and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoldedEntry {
    pub kind: &'static str,
    pub implied: bool,
    pub disposition: &'static str,
    pub reason: &'static str,
    pub why: String,
}

/// Domain event that was made from the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Announced {
    pub id: String,
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time of the write that committed it. The relay publishes it right after.
    pub at: Option<String>,
}

/// Failed tries to fold the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retries {
    pub count: u32,
    pub error: Option<String>,
    pub next_retry_at: Option<String>,
    pub dead_lettered_at: Option<String>,
    pub discarded_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    pub received_at: String,
    pub diff: Vec<DiffLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// `+` for a line of the later body alone, `-` for one of the stored body alone, a space for a line of both.
    pub sign: char,
    pub line: String,
}

/// Reads the path of an event. `None` if there is no such event.
///
/// # Errors
/// A read failed.
pub async fn show(stack: &Stack, id: &EventId) -> Result<Option<EventPath>, Error> {
    show_masked(stack, id, &mut Masker::new()).await
}

/// Reads the path of an event, as [`show`] does. The masker gives values the letters that they have elsewhere on the same page.
///
/// # Errors
/// A read failed.
pub async fn show_masked(stack: &Stack, id: &EventId, masker: &mut Masker) -> Result<Option<EventPath>, Error> {
    let Some(fate) = Fate::read(stack, id).await? else { return Ok(None) };
    let stored = &fate.stored;
    let body = stack.inbox.read_body(stored).await?;
    let conflict = stack.inbox.get_conflict(id).await?;
    let mut lines = masker.first_lines(&body, SHOWN_LINES_MAX + 1);
    let body_is_cut = lines.len() > SHOWN_LINES_MAX;
    lines.truncate(SHOWN_LINES_MAX);
    let conflict = conflict.map(|conflict| Conflict {
        received_at: conflict.received_at.to_string(),
        diff: diff(&lines, &masker.first_lines(&conflict.body, SHOWN_LINES_MAX)),
    });
    let is_webhook = stored.origin != Origin::Switchhook && !stored.from_lookup;
    let source = match (stored.origin, stored.from_lookup) {
        (Origin::Switchhook, _) => "switchhook",
        (Origin::Provider(_), true) => "lookup",
        (Origin::Provider(_), false) => "webhook",
    };
    let headers = stored.headers.iter().map(|(name, value)| (name.clone(), masker.text(value))).collect();
    Ok(Some(EventPath {
        line: fate.line(),
        key_number: is_webhook.then(|| key_number(stored.key_index)),
        source,
        trace_id: stored.trace_id.clone(),
        body_bytes: body.len(),
        folded: folded(&fate),
        folded_at: fate.entries().first().map(|(_, entry)| entry.folded_at.to_string()),
        announced: match (&fate.call, fate.in_entity) {
            (Some(call), _) => announced(call, id),
            (
                None,
                EntityFate::Folded(Some(Disposition::Applied)) | EntityFate::CallsDisagree(Some(Disposition::Applied)),
            ) => vec![received(id)],
            (None, _) => Vec::new(),
        },
        retries: retries(&fate.note, masker),
        headers,
        erased_at: stored.erased_at.map(|at| at.to_string()),
        body: lines,
        body_is_cut,
        conflict,
    }))
}

fn folded(fate: &Fate) -> Vec<FoldedEntry> {
    let Some(call) = &fate.call else { return Vec::new() };
    let entries = fate.entries();
    let entries = entries.iter().filter_map(|(index, entry)| {
        let reason = explain(call, *index)?;
        Some(FoldedEntry {
            kind: entry.event.kind.as_str(),
            implied: entry.event.implied,
            disposition: entry.disposition.as_str(),
            reason: reason.name(),
            why: reason.to_string(),
        })
    });
    entries.collect()
}

/// Domain event of an event that is about no call.
fn received(id: &EventId) -> Announced {
    Announced { id: WebhookReceived::id_of(id), event_type: WebhookReceived::TYPE.to_owned(), at: None }
}

/// Returns the domain events whose source is the event.
fn announced(call: &Call, id: &EventId) -> Vec<Announced> {
    let writes = call.writes();
    let is_source = |source: AnnouncementSource| match source {
        AnnouncementSource::Event(index) => call.history.get(index).is_some_and(|entry| entry.source_event_id == *id),
        AnnouncementSource::Transition(_) => false,
    };
    let events = call.domain_events_from(1);
    let from_source = events.into_iter().filter(|event| {
        let announcement = event.sequence.checked_sub(1).and_then(|index| call.announcements.get(index));
        announcement.is_some_and(|announcement| is_source(announcement.source))
    });
    from_source
        .map(|event| Announced {
            at: writes
                .iter()
                .find(|write| write.announcements.contains(&(event.sequence - 1)))
                .map(|write| write.at.to_string()),
            id: event.id,
            event_type: event.event_type,
        })
        .collect()
}

fn retries(note: &Note, masker: &mut Masker) -> Option<Retries> {
    (note.attempts > 0 || note.error.is_some() || note.discarded_at.is_some()).then(|| Retries {
        count: note.attempts,
        error: note.error.as_deref().map(|error| masker.text(error)),
        next_retry_at: note.next_retry_at.map(|at| at.to_string()),
        dead_lettered_at: note.dead_lettered_at.map(|at| at.to_string()),
        discarded_at: note.discarded_at.map(|at| at.to_string()),
    })
}

fn diff(stored: &[String], later: &[String]) -> Vec<DiffLine> {
    let (stored, later): (Vec<&str>, Vec<&str>) =
        (stored.iter().map(String::as_str).collect(), later.iter().map(String::as_str).collect());
    let diff = TextDiff::from_slices(&stored, &later);
    let lines = diff.iter_all_changes().map(|change| DiffLine {
        sign: match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        },
        line: change.value().to_owned(),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_names_the_lines_of_each_body() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let diff = diff(&lines("{\n  \"a\": 1\n}"), &lines("{\n  \"a\": 2\n}"));
        let shown: Vec<String> = diff.iter().map(|line| format!("{}{}", line.sign, line.line)).collect();
        assert_eq!(shown, [" {", "-  \"a\": 1", "+  \"a\": 2", " }"]);
    }
}
