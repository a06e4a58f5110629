//! Meaning of Bland's webhooks.
//!
//! Bland sends one webhook with the call, after its end. It sends no event id. Nothing reports the beginning of a call, so the webhook
//! implies what came before. A second webhook may follow, with citations or a transcript.
//!
//! **A call counts as unanswered only if a field has a word for that.** `completed` with a length says that somebody or a machine answered. The
//! meaning of a length without that word is not documented. So where no field proves an answer or its absence, the ending stays unclear,
//! and nobody is called again.

use switchhook_domain::{Direction, EventId, Timestamp};

use super::payload::{AnsweredBy, CALL_RECORD, Call, QueueStatus, Status};
use crate::call_events::CallEventSet;
use crate::correlation::correlate;
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

/// Event type of the webhook that shows the call. Bland has no name for it in the body.
const POST_CALL: &str = "post_call";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let call: Call = lenient::from_body(webhook.body())?;
    let event_type = event_type(&call)?.to_owned();
    let event_id = event_id(&call, &event_type, webhook);
    let echoed = call.metadata.clone().unwrap_or_default();
    let correlation = correlate(webhook.provider(), &echoed, call.call_id.as_deref(), notes);
    notes.unknown_value = call.unknown_value();
    // A call that goes on is shown in an answer of the API at most. It changes nothing. The call to a colleague may have the
    // metadata of the call that is transferred, and an ending of its own.
    if call.message_type().is_some() || call.is_proxy_agent_call() || call.is_over() != Some(true) {
        return Ok(Reading::recorded(event_id, &event_type, correlation.call_id));
    }
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction: call.inbound.map(|inbound| if inbound { Direction::Inbound } else { Direction::Outbound }),
        from: call.from.clone(),
        to: call.to.clone(),
        call_events: call_events(&call, webhook.decision()).into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

fn event_type(call: &Call) -> Result<&str, ReadError> {
    if let Some(message_type) = call.message_type() {
        Ok(message_type)
    } else if !call.shows_a_call() {
        Err(ReadError::MissingEventType)
    } else if call.event.as_deref() == Some(CALL_RECORD) {
        Ok(CALL_RECORD)
    } else {
        Ok(POST_CALL)
    }
}

/// Makes an event id, because Bland sends none. The hash of the call's meaning is part of it: a webhook that is sent again by hand is the
/// same event, unless the analysis has changed since. A webhook that shows no call, or the call to a colleague, is identified by the hash of
/// its body.
fn event_id(call: &Call, event_type: &str, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(call_id) = &call.call_id else {
        return ids::event_id_of_body(provider, body);
    };
    let is_known_by_its_body = call.message_type().is_some() || call.is_proxy_agent_call();
    let hash = if is_known_by_its_body { ids::short_hash(body) } else { call.meaning_hash() };
    ids::event_id(provider, &format!("{call_id}:{event_type}:{hash}"))
}

/// Call events of a call that is over. It contains how the call ended, and perhaps the person's decision.
///
/// The decision is ignored if nobody answered, whatever the analysis found in the empty transcript, and if a voicemail answered.
fn call_events(call: &Call, decided: Option<UserDecision>) -> CallEventSet {
    let ending = ending(call);
    let times = CallTimes { started_at: call.started_at(), ended_at: call.ended_at() };
    let decision = match ending {
        Ending::NotAnswered { .. } | Ending::NeverDialled(_) | Ending::Answered { voicemail: true, .. } => None,
        // The analysis of an empty transcript decides nothing.
        Ending::Unclear if call.is_known_to_be_empty() => None,
        Ending::Answered { voicemail: false, .. } | Ending::Unclear => decided.or_else(|| call.decision()),
    };
    let Some(decision) = decision else { return ending.reported(times) };
    let mut call_events = ending.implied_with(Some(decision.event_kind()), times);
    if matches!(ending, Ending::Unclear) {
        call_events.imply(switchhook_domain::EventKind::Completed, times.ended_at, None);
    }
    call_events
}

/// Reads how a call ended.
fn ending(call: &Call) -> Ending {
    let (status, queue) = (call.status(), call.queue_status());
    let has_failed = status == Some(Status::Failed) || queue == Some(QueueStatus::ErrorInTheCall);
    let lasted = call.has_length();
    // Something answered, or may have.
    let is_answer_open = matches!(call.answered_by(), Some(AnsweredBy::Unknown | AnsweredBy::Other))
        || queue == Some(QueueStatus::ErrorInTheCall)
        || !call.is_known_to_be_empty();
    let was_ended_by_the_person = lasted && !has_failed && call.was_ended_by_the_person();
    // Bland's agent answers an inbound call, and says nothing about the caller.
    let was_answered = call.answered_by() == Some(AnsweredBy::Human) || call.inbound == Some(true);
    match (call.answered_by(), status, queue) {
        (Some(AnsweredBy::Voicemail), _, _) => Ending::VOICEMAIL,
        _ if was_answered && has_failed => Ending::FAILED_AFTER_ANSWER,
        _ if was_answered => Ending::COMPLETED,
        (_, Some(Status::Busy), _) => Ending::BUSY,
        (_, Some(Status::NoAnswer), _) => Ending::NO_ANSWER,
        (_, _, Some(QueueStatus::ErrorBeforeTheCall)) => Ending::FAILED,
        (_, Some(Status::Failed), _) if !is_answer_open => Ending::FAILED,
        (_, Some(Status::Canceled), _) if !lasted => Ending::CANCELED,
        // Somebody who hung up had answered, so the words contradict each other.
        (Some(AnsweredBy::NoAnswer), _, _) if !was_ended_by_the_person => Ending::NO_ANSWER,
        // Bland calls a call completed that a person or a machine answered. It may not have tried to find out which of them.
        (Some(AnsweredBy::Unknown) | None, Some(Status::Completed), _) if lasted && !has_failed => Ending::COMPLETED,
        (_, Some(Status::Completed), _) if was_ended_by_the_person => Ending::COMPLETED,
        // Nothing says whether anybody answered.
        (_, _, _) => Ending::Unclear,
    }
}
