//! Meaning of Retell's events.
//!
//! Retell sends no event id, no sequence number and no time of the event. But every event repeats the whole call:
//! `call_ended` contains when the call was answered, and `call_analyzed` contains how it ended. These repeated facts
//! become implied call events, so that each event repairs the loss of the earlier ones.

use switchhook_domain::{Direction, EventId, EventKind, NeverDialled, Provider, Timestamp};

use super::payload::{self, Call, CallStatus, CallType, DisconnectionReason, Event};
use crate::call_events::CallEventSet;
use crate::correlation::{Correlation, EchoedIds, correlate, correlate_without_echo};
use crate::ending::{CallTimes, Ending};
use crate::ids;
use crate::lenient;
use crate::normalized::NormalizedEvent;
use crate::reading::{ReadError, ReadNotes, Reading};
use crate::user_decision::UserDecision;
use crate::webhook::VerifiedWebhook;

/// Event that asks which agent shall take an inbound call.
pub(crate) const QUESTION: &str = "call_inbound";

pub(crate) fn read(
    webhook: &VerifiedWebhook,
    received_at: Timestamp,
    notes: &mut ReadNotes,
) -> Result<Reading, ReadError> {
    let payload: payload::Webhook = lenient::from_body(webhook.body())?;
    let event_type = payload.event.ok_or(ReadError::MissingEventType)?;
    let call = payload.call.or(payload.data).unwrap_or_default();
    let event = Event::from_name(&event_type);
    let event_id = event_id(event, &event_type, &call, webhook);
    let correlation = correlation(webhook.provider(), &call, notes);
    notes.unknown_value = unknown_value(event, &call);
    let block_number = call.disconnection_reason == Some(DisconnectionReason::UserRequestedDnc);

    let call_events = match event {
        Event::CallStarted => started(&call),
        Event::CallEnded => ended(&call),
        Event::CallAnalyzed => analyzed(&call, webhook.decision()),
        Event::Ignored | Event::Other => return Ok(Reading::recorded(event_id, &event_type, correlation.call_id)),
    };
    let normalized = NormalizedEvent {
        provider: webhook.provider(),
        event_id,
        event_type,
        correlation,
        direction: call.direction,
        from: call.from_number,
        to: call.to_number,
        call_events: call_events.into_sorted(),
        block_number,
    };
    normalized.into_reading(received_at)
}

/// Makes an event id, because Retell sends none. A call starts once and ends once. An analysis is identified by its
/// hash, since it can be repeated. Every other event may occur any number of times, so the hash of its body identifies
/// it.
fn event_id(event: Event, event_type: &str, call: &Call, webhook: &VerifiedWebhook) -> EventId {
    let (provider, body) = (webhook.provider(), webhook.body());
    let Some(call_id) = &call.call_id else {
        return ids::event_id_of_body(provider, body);
    };
    let hash = match event {
        Event::CallStarted | Event::CallEnded => None,
        Event::CallAnalyzed => call.canonical_analysis().map(|analysis| ids::short_hash(analysis.as_bytes())),
        Event::Ignored | Event::Other => Some(ids::short_hash(body)),
    };
    let suffix = match hash {
        Some(hash) => format!("{call_id}:{event_type}:{hash}"),
        None => format!("{call_id}:{event_type}"),
    };
    ids::event_id(provider, &suffix)
}

fn correlation(provider: Provider, call: &Call, notes: &mut ReadNotes) -> Correlation {
    let metadata = call.metadata.clone().unwrap_or_default();
    // Retell fills the variables of an inbound call from SIP headers too, which the caller chooses.
    let is_inbound = call.direction == Some(Direction::Inbound);
    let variables: EchoedIds = call.retell_llm_dynamic_variables.clone().filter(|_| !is_inbound).unwrap_or_default();
    let (echoed, call_id) = (metadata.or(variables), call.call_id.as_deref());
    match call.call_type {
        Some(CallType::PhoneCall) | None => correlate(provider, &echoed, call_id, notes),
        Some(CallType::Other) => correlate_without_echo(provider, &echoed, call_id, notes),
    }
}

/// Name of a field with a value that Retell has added to its list.
fn unknown_value(event: Event, call: &Call) -> Option<&'static str> {
    if event == Event::Other {
        Some("event")
    } else if call.disconnection_reason == Some(DisconnectionReason::Other) {
        Some("disconnection_reason")
    } else if call.call_status == Some(CallStatus::Other) {
        Some("call_status")
    } else {
        None
    }
}

fn started(call: &Call) -> CallEventSet {
    let at = started_at(call);
    let mut call_events = CallEventSet::reporting(EventKind::InProgress, at);
    call_events.imply(EventKind::Ringing, at, None);
    call_events
}

fn ended(call: &Call) -> CallEventSet {
    let mut call_events = ending(call).reported(call_times(call));
    imply_refusal(call, &mut call_events);
    call_events
}

/// Adds a refusal of the appointment if the person asked not to be called again.
fn imply_refusal(call: &Call, call_events: &mut CallEventSet) {
    if call.disconnection_reason == Some(DisconnectionReason::UserRequestedDnc) {
        call_events.imply(EventKind::UserDeclined, ended_at(call), None);
    }
}

/// Call events of an analysis, which contains how the call ended and perhaps the person's decision.
///
/// The decision is ignored if nobody answered, whatever Retell found in the empty transcript. Nor was a mailbox reached then. It is
/// also ignored if the analysis says `in_voicemail`, or if the call ended at a mailbox or at a phone menu. A machine cannot decide, and a
/// boolean of the analysis is false if nobody said anything. Only a confirmation counts there if the analysis says that no voicemail answered:
/// for example, the person picked up after an assistant that screens calls. A person who asked not to be called again has declined, whatever
/// the analysis says.
fn analyzed(call: &Call, decided: Option<UserDecision>) -> CallEventSet {
    let ending = ending(call);
    let analysis = call.analysis();
    let decision = decided.or_else(|| analysis.custom_analysis_data.and_then(|data| data.decision()));
    let asked_not_to_be_called = call.disconnection_reason == Some(DisconnectionReason::UserRequestedDnc);
    let ended_at_machine = matches!(ending, Ending::Answered { voicemail: true, .. })
        || call.disconnection_reason == Some(DisconnectionReason::IvrReached);
    let outcome = match (analysis.in_voicemail, ending) {
        (_, _) if asked_not_to_be_called => None,
        (_, Ending::NotAnswered { .. } | Ending::NeverDialled(_)) => None,
        (Some(true), Ending::Answered { .. } | Ending::Unclear) => Some(EventKind::VoicemailDetected),
        (None, Ending::Answered { .. } | Ending::Unclear) if ended_at_machine => None,
        (Some(false), Ending::Answered { .. } | Ending::Unclear) if ended_at_machine => {
            decision.filter(|decision| *decision == UserDecision::Confirmed).map(UserDecision::event_kind)
        }
        (Some(false) | None, Ending::Answered { .. } | Ending::Unclear) => decision.map(UserDecision::event_kind),
    };
    let mut call_events = ending.implied_with(outcome, call_times(call));
    if matches!(ending, Ending::Unclear) && call.call_status == Some(CallStatus::Ended) {
        // The status says that the call is over, as `call_ended` does.
        call_events.imply(EventKind::Completed, ended_at(call), None);
    }
    imply_refusal(call, &mut call_events);
    call_events
}

fn ending(call: &Call) -> Ending {
    use DisconnectionReason as Reason;

    let not_connected = call.call_status == Some(CallStatus::NotConnected);
    let connected = call.start_timestamp.is_some() && !not_connected;
    let Some(reason) = call.disconnection_reason else {
        return by_status(call.call_status, connected);
    };
    match reason {
        Reason::UserHangup
        | Reason::AgentHangup
        | Reason::UserRequestedCallback
        | Reason::CallTransfer
        | Reason::IvrReached
        | Reason::Inactivity
        | Reason::MaxDurationReached
        | Reason::TransferBridged
        | Reason::TransferCancelled
        | Reason::CallTakeOver => {
            if not_connected {
                Ending::FAILED
            } else {
                Ending::COMPLETED
            }
        }
        // A call that is stopped before anybody answers is canceled.
        Reason::ManualStopped => {
            if not_connected {
                Ending::CANCELED
            } else {
                Ending::COMPLETED
            }
        }
        // The request itself proves a conversation.
        Reason::UserRequestedDnc => Ending::COMPLETED,
        Reason::VoicemailReached => Ending::VOICEMAIL,
        Reason::DialBusy | Reason::UserDeclined => Ending::BUSY,
        Reason::DialNoAnswer => Ending::NO_ANSWER,
        Reason::DialFailed
        | Reason::TelephonyProviderUnavailable
        | Reason::SipRoutingError
        | Reason::NetworkBlocked
        | Reason::ErrorUserNotJoined
        | Reason::RegisteredCallTimeout => Ending::FAILED,
        // The number itself is the cause: it does not exist.
        Reason::InvalidDestination => Ending::FAILED_PERMANENTLY,
        // The account has no free line.
        Reason::ConcurrencyLimitReached | Reason::NoConcurrencyFallback => Ending::NeverDialled(NeverDialled::Capacity),
        // The trunk of the account rejects the credentials.
        Reason::TelephonyProviderPermissionDenied => Ending::NeverDialled(NeverDialled::Account),
        // The account is out of money, before the dial or during the conversation.
        Reason::NoValidPayment | Reason::CreditExhausted | Reason::BudgetReached => {
            if connected {
                Ending::FAILED_AFTER_ANSWER
            } else {
                Ending::NeverDialled(NeverDialled::Account)
            }
        }
        // Retell blocks the account or this one call.
        Reason::ScamDetected => {
            if connected {
                Ending::FAILED_AFTER_ANSWER
            } else {
                Ending::NeverDialled(NeverDialled::Unclear)
            }
        }
        // These faults occur before the answer as well as after it.
        Reason::MarkedAsSpam
        | Reason::ErrorLlmWebsocketOpen
        | Reason::ErrorLlmWebsocketLostConnection
        | Reason::ErrorLlmWebsocketRuntime
        | Reason::ErrorLlmWebsocketCorruptPayload
        | Reason::ErrorNoAudioReceived
        | Reason::ErrorAsr
        | Reason::ErrorRetell
        | Reason::ErrorUnknown => {
            if connected {
                Ending::FAILED_AFTER_ANSWER
            } else {
                Ending::FAILED
            }
        }
        Reason::Other => by_status(call.call_status, connected),
    }
}

/// Ending of a call without a known reason.
fn by_status(status: Option<CallStatus>, connected: bool) -> Ending {
    match (status, connected) {
        (Some(CallStatus::NotConnected), _) | (Some(CallStatus::Error), false) => Ending::FAILED,
        (Some(CallStatus::Error), true) => Ending::FAILED_AFTER_ANSWER,
        (Some(CallStatus::Ended | CallStatus::Ongoing | CallStatus::Registered | CallStatus::Other) | None, true) => {
            Ending::COMPLETED
        }
        (Some(CallStatus::Ended | CallStatus::Ongoing | CallStatus::Registered | CallStatus::Other) | None, false) => {
            Ending::Unclear
        }
    }
}

fn call_times(call: &Call) -> CallTimes {
    CallTimes { started_at: started_at(call), ended_at: ended_at(call) }
}

fn started_at(call: &Call) -> Option<Timestamp> {
    call.start_timestamp.map(Timestamp::from_millis)
}

fn ended_at(call: &Call) -> Option<Timestamp> {
    call.end_timestamp.map(Timestamp::from_millis)
}
