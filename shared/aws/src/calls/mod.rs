//! The calls table: one row per call.
//!
//! **Only [`Calls::store`] writes the state of a call, on the condition that the row still has the version that was
//! read.** A lost race is therefore seen and overwrites nothing. One write carries deduplication, state, job and
//! announcements together: `outbox_start` names the first announcement that this write added, and the relay publishes
//! from there.
//!
//! Three more writes touch the row of a call. They change no state, but raise its version, so that a worker that read the
//! row before loses its race:
//! - [`Calls::set_wake_at`] has the same condition. It also stores the moves, and since when the provider gave no answer. Neither is part
//!   of the state.
//! - [`Calls::write_alias`] turns a call into an alias. It accepts every version, but no call that Switchhook placed.
//!   [`Calls::erase_alias`] removes from an alias what the call left there.
//!
//! The table holds four more kinds of item, under keys of their own. An alias leads from a provider's id of an attempt
//! to the call that the attempt belongs to. An entry of the [do-not-call list](crate::do_not_call) blocks a phone number. The
//! health of a provider says whether it gets calls, and how fast. An [entity](switchhook_domain::Entity) orders the webhooks that are
//! about one thing that is no call. One more item lists the further [accounts](Calls::accounts) of providers.

pub(crate) mod accounts;
mod encoding;
mod entity;
mod erase;
mod index;
mod known_accounts;
mod load;
mod merge;
mod position;
mod provider_health;
mod row;
mod table;
mod wake_queue;

pub use encoding::decode_in_flight;
pub use entity::EntityRow;
pub use index::{BY_APPOINTMENT, BY_PARTY, BY_WAKE, TimeRange, WakeEntry};
pub use load::Loaded;
pub use merge::{Merge, Order};
pub use position::{CURSOR_BYTES_MAX, Position};
pub use provider_health::{HealthCache, HealthRow};
pub use row::{CALL_SCHEMA, CallRow};
pub use table::{Alias, AliasOutcome, Calls, Found, Resolved, StoreOutcome};
pub use wake_queue::WakeQueue;
