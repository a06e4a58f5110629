//! Items of a plan, and the actions of a run on them.

use serde::{Deserialize, Serialize};
use switchhook_domain::{CallId, EventId, ProviderEvent};

/// Action of a run on one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Queues a stored event again.
    Replay,
    /// Queues the event of a dead letter again, and deletes the dead letter once the event is folded.
    Redrive,
    /// Deletes a dead letter.
    DiscardDeadLetter,
    /// Makes a quarantined event foldable, and queues it.
    Reprocess,
    /// Takes a quarantined event off the list of those that need attention.
    DiscardQuarantined,
    /// Publishes the domain events of a call again.
    Republish,
    /// Deletes a message of the relay's failures queue, once its calls are published again.
    DeleteRelayFailure,
    /// Has a call folded again from its events in the inbox.
    Refold,
    /// Gives the row of a placed call what the inbox records and the row lacks: its creation, its dials, its cancellation.
    Rebuild,
    /// Ends a placed call, because its dials may be forgotten.
    Stop,
    /// Copies a part of a restored table into the table of the stack.
    CopyPart,
    /// Writes what the row of a call holds, and the inbox has lost, into the inbox.
    Refill,
    /// Takes the number of a call off the do-not-call list, before the call is forgotten.
    UnblockNumber,
    /// Erases the person from the row of a call or of an entity.
    ForgetCall,
    /// Erases the person from a stored event.
    EraseEvent,
    /// Deletes the body that contradicts a stored event. The event stays: it may be about another person.
    EraseConflict,
    /// Deletes a dead letter of a forgotten call. Its erased event stays in the inbox.
    EraseDeadLetter,
}

impl Action {
    /// True if something is left to do once the event of an item is in its call: its dead letter or its notice is to be deleted.
    pub(crate) const fn is_finished_after_fold(self) -> bool {
        match self {
            Self::Redrive | Self::Reprocess => true,
            Self::Replay
            | Self::DiscardDeadLetter
            | Self::DiscardQuarantined
            | Self::Republish
            | Self::DeleteRelayFailure
            | Self::Refold
            | Self::Rebuild
            | Self::Stop
            | Self::CopyPart
            | Self::Refill
            | Self::UnblockNumber
            | Self::ForgetCall
            | Self::EraseEvent
            | Self::EraseConflict
            | Self::EraseDeadLetter => false,
        }
    }

    /// True if the action is a part of forgetting a person.
    pub(crate) const fn forgets(self) -> bool {
        match self {
            Self::UnblockNumber | Self::ForgetCall | Self::EraseEvent | Self::EraseConflict | Self::EraseDeadLetter => {
                true
            }
            Self::Replay
            | Self::Redrive
            | Self::DiscardDeadLetter
            | Self::Reprocess
            | Self::DiscardQuarantined
            | Self::Republish
            | Self::DeleteRelayFailure
            | Self::Refold
            | Self::Rebuild
            | Self::Stop
            | Self::CopyPart
            | Self::Refill => false,
        }
    }
}

/// Item that a run left alone, and the reason.
pub(crate) type LeftAlone = (PlanItem, String);

/// One thing that a run does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    pub action: Action,
    /// Stored event. `None` if the item is a call, or a dead letter without an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Call that the item belongs to. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Key of an item that is neither an event nor a call, for example the message id of a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Number of messages that the item had in its queue when the plan was made. The dead letters of one event are one item.
    #[serde(default, skip_serializing_if = "has_none")]
    pub messages: usize,
    /// Event of such a message, if the inbox no longer holds it. It is no part of the stored plan, because it holds personal data: a run reads
    /// it from the queue.
    #[serde(skip)]
    pub message: Option<Box<ProviderEvent>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn has_none(messages: &usize) -> bool {
    *messages == 0
}

impl PlanItem {
    /// Item that is a stored event.
    #[must_use]
    pub fn of_event(action: Action, event_id: EventId, call_id: Option<CallId>) -> Self {
        Self { event_id: Some(event_id), call_id, ..Self::of_nothing(action) }
    }

    /// Item that is a call.
    #[must_use]
    pub fn of_call(action: Action, call_id: CallId) -> Self {
        Self { call_id: Some(call_id), ..Self::of_nothing(action) }
    }

    /// Item that has only a key, for example the id of a message.
    pub(crate) fn of_key(action: Action, key: String) -> Self {
        Self { key: Some(key), ..Self::of_nothing(action) }
    }

    const fn of_nothing(action: Action) -> Self {
        Self { action, event_id: None, call_id: None, key: None, messages: 0, message: None }
    }

    /// True if the item had a message in its queue when the plan was made.
    pub(crate) const fn has_message(&self) -> bool {
        self.messages > 0
    }

    /// Returns the id of the item for people.
    #[must_use]
    pub fn name(&self) -> &str {
        let event = self.event_id.as_ref().map(EventId::as_str);
        event.or(self.key.as_deref()).or(self.call_id.as_ref().map(CallId::as_str)).unwrap_or("-")
    }
}
