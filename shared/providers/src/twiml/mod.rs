//! The protocol that Twilio and SignalWire share. It has the callbacks about a call, the signature over a URL and a form, and the record
//! of a call in the API.

mod normalize;
mod payload;
mod record;
mod signature;

pub(crate) use normalize::{callback_event_ids, is_question, read};
pub(crate) use record::{created_at, parse_call};
pub(crate) use signature::{candidate_urls, is_json, sign, verify, verify_joined};
