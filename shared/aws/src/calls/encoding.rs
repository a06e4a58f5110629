//! Compact text of history entries and announcements. A full call holds a thousand of them, and its row must fit into
//! one item of DynamoDB, which may have 400 KB.

use switchhook_domain::{
    Announcement, AnnouncementKind, AnnouncementSource, AppointmentStatus, AttemptKey, CallEvent, CallId, Disposition,
    EndReason, EventId, EventKind, HistoryEntry, INCONCLUSIVE, InFlight, Lifecycle, Move, MoveKind, NOT_PLACED,
    NeverDialled, Outcome, State, StopReason, Timestamp, TraceId,
};

/// Mark in place of the beginning of a source event id, if the row holds that elsewhere. The id of most events begins with the key of
/// the attempt.
const MARK: char = '*';
/// Beginning of the ids of Switchhook's own events. The id of the call and a slash follow.
const OWN: &str = "switchhook:";

/// Text of a history entry: `{attempt index} {kind} {occurred_at - received_at} {sequence} {disposition} {received_at}
/// {folded_at - received_at} {trace id} {source event id}`. Times are Unix milliseconds, and differences are milliseconds.
///
/// - `-` stands for an absent value.
/// - `~` before the kind marks an implied event, `!` after it a permanent failure, `^` with a reason a call that was never dialled.
/// - `+` before `received_at` marks a difference from the entry before.
/// - `*` at the beginning of the source event id stands for the key of the attempt, if a colon follows. `*/` stands for `switchhook:{call
///   id}/`, `*//` for `switchhook:{call id}/{key of the attempt}/`, and `**` for `*`.
/// - `=` in place of the last four values repeats those of the entry before. Example: `0 ~ringing - - applied =`.
pub(super) fn encode_entry(
    entry: &HistoryEntry,
    before: Option<&HistoryEntry>,
    call_id: &CallId,
    key_of: impl Fn(usize) -> Option<AttemptKey>,
) -> String {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let event = &entry.event;
    let head = format!(
        "{} {}{}{}{} {} {}",
        or_dash(entry.attempt_index.map(|index| index.to_string())),
        if event.implied { "~" } else { "" },
        event.kind,
        if event.permanent { "!" } else { "" },
        event.never_dialled.map_or(String::new(), |reason| format!("^{}", reason.as_str())),
        or_dash(event.occurred_at.map(|at| at.millis_since(entry.received_at).to_string())),
        or_dash(event.sequence.map(|sequence| sequence.to_string())),
    );
    let disposition = entry.disposition.as_str();
    let same = |other: &&HistoryEntry| {
        (&other.source_event_id, other.received_at, other.folded_at, &other.trace_id)
            == (&entry.source_event_id, entry.received_at, entry.folded_at, &entry.trace_id)
    };
    if before.as_ref().is_some_and(same) {
        return format!("{head} {disposition} =");
    }
    let received_at = match before {
        Some(before) => format!("+{}", entry.received_at.millis_since(before.received_at)),
        None => entry.received_at.as_millis().to_string(),
    };
    let folded = entry.folded_at.millis_since(entry.received_at);
    let trace_id = entry.trace_id.as_ref().map_or("-", TraceId::as_str);
    let key = entry.attempt_index.and_then(key_of);
    let id = encode_id(entry.source_event_id.as_str(), call_id, key.as_ref());
    format!("{head} {disposition} {received_at} {folded} {trace_id} {id}")
}

/// Text of a source event id. See [`encode_entry`].
fn encode_id(id: &str, call_id: &CallId, key: Option<&AttemptKey>) -> String {
    if let Some(rest) = after_key(id, key, ':') {
        return format!("{MARK}{rest}");
    }
    let name = id.strip_prefix(OWN).and_then(|own| own.strip_prefix(call_id.as_str())?.strip_prefix('/'));
    match name.map(|name| (name, after_key(name, key, '/'))) {
        Some((_, Some(rest))) => format!("{MARK}/{rest}"),
        // A second slash would mean the key.
        Some((name, None)) if !name.starts_with('/') => format!("{MARK}/{name}"),
        None if id.starts_with(MARK) => format!("{MARK}{id}"),
        Some(_) | None => id.to_owned(),
    }
}

/// Returns the part of a text after the key of the attempt. `None` if the text does not begin with the key, or if another character than
/// `next` follows.
fn after_key<'a>(text: &'a str, key: Option<&AttemptKey>, next: char) -> Option<&'a str> {
    text.strip_prefix(key?.as_str()).filter(|rest| rest.starts_with(next))
}

/// Reads the text of a history entry. `None` if the text is malformed.
pub(super) fn decode_entry(
    text: &str,
    before: Option<&HistoryEntry>,
    call_id: &CallId,
    key_of: impl Fn(usize) -> Option<AttemptKey>,
) -> Option<HistoryEntry> {
    fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
        if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
    }
    let mut parts = text.splitn(6, ' ');
    let attempt_index = optional(parts.next()?)?;
    let kind = parts.next()?;
    let (implied, kind) = kind.strip_prefix('~').map_or((false, kind), |kind| (true, kind));
    let (kind, never_dialled) = match kind.split_once('^') {
        Some((kind, reason)) => (kind, Some(NeverDialled::ALL.into_iter().find(|known| known.as_str() == reason)?)),
        None => (kind, None),
    };
    let (permanent, kind) = kind.strip_suffix('!').map_or((false, kind), |kind| (true, kind));
    let kind = EventKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
    let occurred: Option<i64> = optional(parts.next()?)?;
    let sequence = optional(parts.next()?)?;
    let disposition = parts.next()?;
    let disposition = Disposition::ALL.into_iter().find(|known| known.as_str() == disposition)?;
    let plus = |at: Timestamp, millis: i64| Timestamp::from_millis(at.as_millis().saturating_add(millis));
    let (received_at, folded_at, trace_id, source_event_id) = match parts.next()? {
        "=" => before
            .map(|entry| (entry.received_at, entry.folded_at, entry.trace_id.clone(), entry.source_event_id.clone()))?,
        tail => {
            let mut tail = tail.splitn(4, ' ');
            let received_at = tail.next()?;
            let received_at = match received_at.strip_prefix('+') {
                Some(millis) => plus(before?.received_at, millis.parse().ok()?),
                None => Timestamp::from_millis(received_at.parse().ok()?),
            };
            let folded_at = plus(received_at, tail.next()?.parse().ok()?);
            let trace_id = tail.next()?;
            let trace_id = TraceId::new(trace_id).filter(|_| trace_id != "-");
            let id = decode_id(tail.next()?, call_id, || attempt_index.and_then(key_of))?;
            (received_at, folded_at, trace_id, EventId::new(id))
        }
    };
    let occurred_at = occurred.map(|millis| plus(received_at, millis));
    let event = CallEvent { kind, implied, occurred_at, sequence, permanent, never_dialled };
    Some(HistoryEntry { source_event_id, event, received_at, folded_at, attempt_index, disposition, trace_id })
}

/// Reads the text of a source event id. `None` if it needs the key of an attempt, and there is none.
fn decode_id(text: &str, call_id: &CallId, key: impl FnOnce() -> Option<AttemptKey>) -> Option<String> {
    let Some(rest) = text.strip_prefix(MARK) else { return Some(text.to_owned()) };
    Some(match rest.strip_prefix('/') {
        Some(name) if name.starts_with('/') => format!("{OWN}{call_id}/{}{name}", key()?),
        Some(name) => format!("{OWN}{call_id}/{name}"),
        None if rest.starts_with(':') => format!("{}{rest}", key()?),
        None => rest.to_owned(),
    })
}

/// Text of an announcement: `[{appointment|outcome}.]{status}[={detail}] {attempt index} {attempt number} {source}
/// {known}[:{provider}]`.
///
/// - A status without such a word is a status of the call.
/// - The attempt index is `-` if the announcement is about no attempt.
/// - The source is an index into the history, or `@` and the time of a worker's transition.
/// - `known` holds `p` if the provider's call id was known, and `a` if the appointment was.
/// - The provider is absent if it is the provider of the source event.
///
/// Example: `ringing 0 1 1 p`.
pub(super) fn encode_announcement(announcement: &Announcement) -> String {
    let (subject, status) = match announcement.kind {
        AnnouncementKind::Lifecycle(state) => ("", lifecycle_name(state).to_owned()),
        AnnouncementKind::Inconclusive => ("", INCONCLUSIVE.to_owned()),
        AnnouncementKind::Corrected(state, ending) => ("", format!("corrected={}={ending}", lifecycle_name(state))),
        AnnouncementKind::RetryScheduled(due_at) => ("", format!("retry_scheduled={}", due_at.as_millis())),
        AnnouncementKind::Exhausted(reason) => ("", format!("exhausted={}", reason.as_str())),
        AnnouncementKind::JobCanceled(reason) => ("", format!("job_canceled={}", reason.as_str())),
        AnnouncementKind::DriftRepaired { before, after } => ("", format!("drift_repaired={before}={after}")),
        AnnouncementKind::Appointment(status) => ("appointment.", status.as_str().to_owned()),
        AnnouncementKind::AppointmentEnded(reason) => ("appointment.", format!("ended={}", reason.as_str())),
        AnnouncementKind::Outcome(outcome) => ("outcome.", outcome.label().to_owned()),
        AnnouncementKind::OutcomeInconclusive => ("outcome.", INCONCLUSIVE.to_owned()),
    };
    let attempt_index = announcement.attempt_index.map_or_else(|| "-".to_owned(), |index| index.to_string());
    let source = match announcement.source {
        AnnouncementSource::Event(index) => index.to_string(),
        AnnouncementSource::Transition(at) => format!("@{}", at.as_millis()),
    };
    let provider_call = if announcement.provider_call_known { "p" } else { "" };
    let appointment = if announcement.appointment_known { "a" } else { "" };
    let provider = announcement.provider.map_or_else(String::new, |provider| format!(":{provider}"));
    let number = announcement.attempt_number;
    format!("{subject}{status} {attempt_index} {number} {source} {provider_call}{appointment}{provider}")
}

/// Reads the text of an announcement. `None` if the text is malformed.
pub(super) fn decode_announcement(text: &str) -> Option<Announcement> {
    let mut parts = text.splitn(5, ' ');
    let status = parts.next()?;
    let (subject, status) = status.split_once('.').unwrap_or(("call", status));
    let lifecycle = |name: &str| Lifecycle::ALL.iter().find(|state| lifecycle_name(**state) == name).copied();
    let label = |name: &str| {
        let labels = Lifecycle::ALL.iter().map(|state| state.label());
        labels.chain([INCONCLUSIVE, NOT_PLACED]).find(|known| *known == name)
    };
    let (name, detail) = status.split_once('=').unwrap_or((status, ""));
    let kind = match (subject, name) {
        ("call", INCONCLUSIVE) => AnnouncementKind::Inconclusive,
        ("call", "corrected") => {
            let (state, ending) = detail.split_once('=')?;
            AnnouncementKind::Corrected(lifecycle(state)?, ending.parse().ok()?)
        }
        ("call", "retry_scheduled") => AnnouncementKind::RetryScheduled(Timestamp::from_millis(detail.parse().ok()?)),
        ("call", "exhausted") => AnnouncementKind::Exhausted(EndReason::parse(detail)?),
        ("call", "job_canceled") => {
            AnnouncementKind::JobCanceled(StopReason::ALL.into_iter().find(|reason| reason.as_str() == detail)?)
        }
        ("call", "drift_repaired") => {
            let (before, after) = detail.split_once('=')?;
            AnnouncementKind::DriftRepaired { before: label(before)?, after: label(after)? }
        }
        ("call", state) => AnnouncementKind::Lifecycle(lifecycle(state)?),
        ("appointment", "ended") => AnnouncementKind::AppointmentEnded(EndReason::parse(detail)?),
        ("outcome", INCONCLUSIVE) => AnnouncementKind::OutcomeInconclusive,
        ("outcome", _) => {
            AnnouncementKind::Outcome(Outcome::ALL.iter().copied().find(|outcome| outcome.label() == status)?)
        }
        ("appointment", _) => {
            AnnouncementKind::Appointment(AppointmentStatus::ALL.into_iter().find(|known| known.as_str() == status)?)
        }
        (_, _) => return None,
    };
    let attempt_index = match parts.next()? {
        "-" => None,
        index => Some(index.parse().ok()?),
    };
    let attempt_number = parts.next()?.parse().ok()?;
    let source = parts.next()?;
    let source = match source.strip_prefix('@') {
        Some(at) => AnnouncementSource::Transition(Timestamp::from_millis(at.parse().ok()?)),
        None => AnnouncementSource::Event(source.parse().ok()?),
    };
    let known = parts.next()?;
    let (known, provider) = match known.split_once(':') {
        None => (known, None),
        Some((known, provider)) => (known, Some(provider.parse().ok()?)),
    };
    Some(Announcement {
        kind,
        attempt_index,
        attempt_number,
        source,
        provider,
        provider_call_known: known.contains('p'),
        appointment_known: known.contains('a'),
    })
}

/// Text of a move: `{kind} {time in Unix milliseconds}[ {reason}]`. Example: `returned 1767225600000 window_closed`.
pub(super) fn encode_move(one: &Move) -> String {
    let reason = one.reason.as_deref().map_or_else(String::new, |reason| format!(" {reason}"));
    format!("{} {}{reason}", one.kind.as_str(), one.at.as_millis())
}

/// Reads the text of a move. `None` if the text is malformed.
pub(super) fn decode_move(text: &str) -> Option<Move> {
    let mut parts = text.splitn(3, ' ');
    let kind = MoveKind::parse(parts.next()?)?;
    let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
    Some(Move { kind, at, reason: parts.next().map(str::to_owned) })
}

/// Text of a place in flight: `{claimed|dialled}.{provider}`. Example: `claimed.retell`.
pub(super) fn encode_in_flight(in_flight: InFlight) -> String {
    match in_flight {
        InFlight::Claimed(provider) => format!("claimed.{provider}"),
        InFlight::Dialled(provider) => format!("dialled.{provider}"),
    }
}

/// Reads the text of a place in flight. `None` if the text is malformed.
#[must_use]
pub fn decode_in_flight(text: &str) -> Option<InFlight> {
    let (state, provider) = text.split_once('.')?;
    let provider = provider.parse().ok()?;
    match state {
        "claimed" => Some(InFlight::Claimed(provider)),
        "dialled" => Some(InFlight::Dialled(provider)),
        _ => None,
    }
}

/// Name of a state in a row. No two states have the same name, while [`Lifecycle::label`] is the same for some states.
pub(super) const fn lifecycle_name(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::Initiated => "initiated",
        Lifecycle::Ringing => "ringing",
        Lifecycle::PresumedCompleted => "presumed_completed",
        Lifecycle::NoAnswer => "no_answer",
        Lifecycle::Canceled => "canceled",
        Lifecycle::Busy => "busy",
        Lifecycle::Failed => "failed",
        Lifecycle::InProgress => "in_progress",
        Lifecycle::PresumedCompletedAfterAnswer => "presumed_completed_after_answer",
        Lifecycle::BusyAfterAnswer => "busy_after_answer",
        Lifecycle::FailedAfterAnswer => "failed_after_answer",
        Lifecycle::Completed => "completed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_does_not_repeat_what_the_row_holds_and_reads_back() {
        let call_id = CallId::new("c/1");
        for (key, id, expected) in [
            (Some("1"), "switchhook:c/1/1/deadline/5", "*//deadline/5"),
            (Some("retell:p"), "switchhook:c/1/retell:p/not_found", "*//not_found"),
            (None, "switchhook:c/1/-/deadline/5", "*/-/deadline/5"),
            (Some("1"), "switchhook:c/1/11/deadline/5", "*/11/deadline/5"),
            (Some("1"), "switchhook:c/1//1/deadline/5", "switchhook:c/1//1/deadline/5"),
            (Some("1"), "switchhook:c/2/1/deadline/5", "switchhook:c/2/1/deadline/5"),
            (Some("retell:p"), "retell:p:ended", "*:ended"),
            (Some("retell:p"), "retell:p2:ended", "retell:p2:ended"),
            (None, "*:ended", "**:ended"),
            (None, "*/ended", "**/ended"),
        ] {
            let key = key.map(AttemptKey::new);
            assert_eq!(encode_id(id, &call_id, key.as_ref()), expected);
            assert_eq!(decode_id(expected, &call_id, || key).as_deref(), Some(id));
        }
    }
}
