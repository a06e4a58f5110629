//! The inbox: an append-only table of every authentic provider event.
//!
//! **An event is acknowledged only when it is both stored and queued, and the queue always receives the stored event.**
//! An event is written on the condition that its id is free. If the id is taken, the refusal carries the stored item,
//! and the event is queued again from that item, never from the request. A function that died between storing and
//! queueing therefore loses nothing: the provider's retry, by [`submit()`], or the reconciler's sweep finishes its work.
//!
//! Beside the events the table holds companion items, under keys that no event id can have:
//! - chunks of a body that does not fit into one item, written before the event's item, so that no item lacks its body;
//! - one conflicting body per event;
//! - a note on an event that the consumer could not fold;
//! - the [list](Inbox::list_unfolded) of the events of a call that were not folded in time;
//! - the dials of a call that Switchhook places;
//! - the entries of the [do-not-call list](crate::do_not_call), which the calls table holds too;
//! - the cursors of the sweep, of the notices to operators, and of the retries;
//! - a cursor of discovery per provider, and one of the drift check per shard;
//! - the counters of lookups, per provider and minute;
//! - the plans, the runs and the audit records of operators.
//!
//! An item that a person should look at is in a second index, `by_attention`, as long as the trouble lasts.

mod attention;
mod conflict;
mod discovery;
mod document;
mod drift;
mod erase;
mod event;
mod foldable;
mod item;
mod lookup_budget;
mod new_event;
mod note;
mod notice;
mod of_call;
mod record;
mod remove;
mod reread;
mod submit;
mod sweep;
mod table;
mod unfolded;
mod waiting;

pub use attention::{Attention, AttentionKind, BY_ATTENTION};
pub use conflict::ConflictingBody;
pub use discovery::DiscoveryCursor;
pub use document::{Document, DocumentKind, audit_id};
pub use drift::{DriftCursor, DriftWalk};
pub use event::{BODY_BYTES_MAX, PutOutcome, StoredEvent};
pub use new_event::NewEvent;
pub use note::Note;
pub use notice::{AttentionCursor, SeenUntil};
pub use of_call::{
    AFTER_MINUTES as REFOLD_AFTER_MINUTES, BEFORE_MINUTES as REFOLD_BEFORE_MINUTES, PAGES_MAX as REFOLD_PAGES_MAX,
    first_receipt, is_kept_without_event, may_be_deleted,
};
pub use record::{CreationOutcome, DialRecordOutcome, creation_id};
pub use reread::Reread;
pub use submit::{adopt, replaces, submit, write_alias_and_adopt};
pub use sweep::{BY_RECEIVED, ReceivedEvent, SweepCursor, SweepPosition, minute_of};
pub use table::{Inbox, READ_AT_ONCE_MAX};
pub use waiting::{GIVEN_UP_AFTER, GIVEN_UP_ANYWAY, UNANSWERED_EVERY, WAITS_AFTER, next_retry, retry_ages};
