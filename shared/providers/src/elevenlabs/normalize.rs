//! Meaning of ElevenLabs' events.
//!
//! ElevenLabs sends one webhook per call, after its end: `post_call_transcription`, or `call_initiation_failure` if nobody
//! answered. It sends no event id. Nothing reports the beginning of a call, so each webhook implies what came before.

use switchhook_domain::{Direction, EventId, EventKind, Timestamp};

use super::payload::{self, CallResult, Conversation, Event, FailureReason, Status};
use crate::call_events::CallEventSet;
use crate::correlation::{correlate, correlate_without_echo};
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let mut payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let event_type = payload.event_type.take().ok_or(ReadError::MissingEventType)?;
    let conversation = payload.data.take().unwrap_or_default();
    let event = Event::from_name(&event_type);
    let event_id = event_id(event, &event_type, &conversation, webhook);
    let provider_call_id = conversation.conversation_id.as_deref();
    let echoed = conversation.echoed_ids();
    // Only a phone call fails to start. The source of a conversation proves nothing: its client names it.
    let correlation = if conversation.phone_call().is_some() || event == Event::CallInitiationFailure {
        correlate(webhook.provider(), &echoed, provider_call_id, notes)
    } else {
        correlate_without_echo(webhook.provider(), &echoed, provider_call_id, notes)
    };
    notes.unknown_value = unknown_value(event, &conversation);
    let lacks_reason = event == Event::PostCallTranscription && payload.is_record() && lacks_reason(&conversation);
    notes.lacks_detail = lacks_reason;

    let times = CallTimes {
        started_at: conversation.started_at(),
        ended_at: conversation.ended_at().or_else(|| payload.occurred_at()),
    };
    let call_events = match event {
        // The reason in the webhook makes the same ending, or one with precedence over it.
        Event::PostCallTranscription if lacks_reason => Ending::NO_ANSWER.reported(times),
        Event::PostCallTranscription if conversation.is_call() => {
            transcription(&conversation, webhook.decision(), times)
        }
        Event::CallInitiationFailure => initiation_failure(&conversation).reported(times),
        Event::PostCallTranscription | Event::Ignored | Event::Other => {
            return Ok(Reading::recorded(event_id, &event_type, correlation.call_id));
        }
    };
    let direction = conversation.phone_call().and_then(|call| call.direction);
    let numbers = conversation.phone_call().map(|call| (call.agent_number.clone(), call.external_number.clone()));
    let (agent, person) = numbers.unwrap_or_default();
    let (from, to) = match direction {
        Some(Direction::Inbound) => (person, agent),
        Some(Direction::Outbound) => (agent, person),
        None => (None, None),
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction,
        from,
        to,
        call_events: call_events.into_sorted(),
        block_number: false,
    };
    normalized.into_reading(received_at)
}

/// Makes an event id, because ElevenLabs sends none. A call fails to start once. A transcription is identified by the hash of
/// its analysis, since an analysis may be repeated. Every other event may occur any number of times, so the hash of its body
/// identifies it.
fn event_id(event: Event, event_type: &str, conversation: &Conversation, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(conversation_id) = &conversation.conversation_id else {
        return ids::event_id_of_body(provider, body);
    };
    let hash = match event {
        Event::PostCallTranscription => {
            conversation.canonical_analysis().map(|analysis| ids::short_hash(analysis.as_bytes()))
        }
        Event::CallInitiationFailure => None,
        Event::Ignored | Event::Other => Some(ids::short_hash(body)),
    };
    let suffix = match hash {
        Some(hash) => format!("{conversation_id}:{event_type}:{hash}"),
        None => format!("{conversation_id}:{event_type}"),
    };
    ids::event_id(provider, &suffix)
}

/// Name of a field with a value that ElevenLabs has added to its list.
fn unknown_value(event: Event, conversation: &Conversation) -> Option<&'static str> {
    if event == Event::Other {
        Some("type")
    } else if conversation.phone_call().is_some_and(|call| call.call_result == Some(CallResult::Other)) {
        Some("call_result")
    } else if conversation.status == Some(Status::Other) {
        Some("status")
    } else if conversation.failure_reason == Some(FailureReason::Other) {
        Some("failure_reason")
    } else {
        None
    }
}

/// Call events of a conversation, which contains how the call ended and perhaps the person's decision.
///
/// The decision is ignored if nobody answered, whatever the analysis found in the empty transcript, and if a voicemail
/// answered: a machine cannot confirm.
fn transcription(conversation: &Conversation, decided: Option<UserDecision>, times: CallTimes) -> CallEventSet {
    let ending = ending(conversation);
    let decision = match ending {
        Ending::NotAnswered { .. } | Ending::NeverDialled(_) | Ending::Answered { voicemail: true, .. } => None,
        Ending::Answered { voicemail: false, .. } | Ending::Unclear => decided.or_else(|| conversation.decision()),
    };
    let Some(decision) = decision else {
        return ending.reported(times);
    };
    let mut call_events = ending.implied_with(Some(decision.event_kind()), times);
    if matches!(ending, Ending::Unclear) {
        // ElevenLabs sends this webhook only after the end of the call.
        call_events.imply(EventKind::Completed, times.ended_at, None);
    }
    call_events
}

/// Reads how a conversation ended. The agent may have found out that a machine had answered.
fn ending(conversation: &Conversation) -> Ending {
    let ending = ending_of_call(conversation);
    let may_be_answered = matches!(ending, Ending::Answered { .. } | Ending::Unclear);
    if may_be_answered && conversation.found_voicemail() { Ending::VOICEMAIL } else { ending }
}

/// Reads how the call ended: by the result of the phone call, and without one by the status and the length. A call that
/// has a length was answered.
fn ending_of_call(conversation: &Conversation) -> Ending {
    let was_answered = conversation.seconds().map(|seconds| seconds > 0);
    let result = conversation.phone_call().and_then(|call| call.call_result);
    match (result, conversation.status, was_answered) {
        (Some(CallResult::Voicemail), _, _) => Ending::VOICEMAIL,
        (Some(CallResult::Busy), _, _) => Ending::BUSY,
        (Some(CallResult::NoAnswer), _, _) => Ending::NO_ANSWER,
        (Some(CallResult::Failed), _, Some(true)) | (Some(CallResult::Answered), Some(Status::Failed), _) => {
            Ending::FAILED_AFTER_ANSWER
        }
        (Some(CallResult::Failed), _, _) => Ending::FAILED,
        (Some(CallResult::Answered), _, _) => Ending::COMPLETED,
        (Some(CallResult::Other) | None, Some(Status::Done), Some(true)) => Ending::COMPLETED,
        (Some(CallResult::Other) | None, Some(Status::Failed), Some(true)) => Ending::FAILED_AFTER_ANSWER,
        (None, Some(Status::Failed), Some(false)) => Ending::FAILED,
        // Nothing says whether anybody answered.
        (Some(CallResult::Other) | None, _, _) => Ending::Unclear,
    }
}

/// True if the record of a phone call shows no conversation. Perhaps nobody answered: only `call_initiation_failure` tells.
///
/// Such a record may have no `phone_call`: in the SDK's model, that has the id of the stream, which begins when somebody answers.
fn lacks_reason(conversation: &Conversation) -> bool {
    let phone_call = conversation.phone_call();
    phone_call.map_or_else(|| conversation.began_by_phone(), |call| call.call_result.is_none())
        && conversation.status == Some(Status::Failed)
        && conversation.seconds() == Some(0)
}

/// Reads why a call never became a conversation.
fn initiation_failure(conversation: &Conversation) -> Ending {
    match conversation.failure_reason {
        Some(FailureReason::Busy) => Ending::BUSY,
        Some(FailureReason::NoAnswer) => Ending::NO_ANSWER,
        Some(FailureReason::Unknown | FailureReason::Other) | None => Ending::FAILED,
    }
}
