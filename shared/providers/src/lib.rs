//! Webhooks of telephony providers, verified and read as call events, and requests to the providers' APIs.
//!
//! This crate is pure: no IO, no clock, no randomness. The current time is an argument.
//!
//! [`verify`] turns an [`UnverifiedWebhook`] into a [`VerifiedWebhook`], and [`read`] turns that into a [`Reading`].
//! Outside of this crate, only `verify` makes a `VerifiedWebhook` of a request. **An event's meaning, its call and its
//! id are read from signed bytes only.** So nobody can move an event to another call, or make a duplicate pass as new.
//!
//! [`dial_api_request`] makes the HTTP request that places a call, and [`read_dial_answer`] reads the response.
//! [`discovery_api_request`] makes the one that lists recent calls, and [`read_discovery_answer`] reads the response.
//! A [`CallSearch`] makes the requests that ask about a call, and reads the responses.
//!
//! Each provider has one folder with the same files:
//!
//! * `signature.rs`: the signature scheme. Most are data for the engine in `scheme/`.
//! * `payload.rs`: the vendor's own names.
//! * `normalize.rs`: their meaning as call events.
//! * `client.rs`: the vendor's API. Daily and generic have none.
//!
//! Twilio and SignalWire speak one protocol. Its payload, its meaning and its signature are in `twiml/`.
//! The entry of a configured provider can name every scheme in `scheme/`.
//!
//! A provider that Switchhook has no code for is described by the configuration: `configured` reads its events.
//!
//! Shared parts are files beside the folders. `dispatch.rs`, `search.rs` and `discovery.rs` use the folders, and the
//! folders use the other files, never the reverse.

mod api;
mod bland;
mod call_events;
mod config;
mod configured;
mod content_hash;
mod correlation;
mod daily;
mod dial;
mod discovery;
mod dispatch;
mod distinct;
mod ed25519;
mod elevenlabs;
mod ending;
mod form;
mod generic;
mod hmac;
mod ids;
mod json;
mod jwt;
mod key;
mod lenient;
mod livekit;
mod lookup;
mod normalized;
mod pem;
mod plivo;
mod reading;
mod retell;
mod samples;
mod scheme;
mod search;
mod signalwire;
mod telnyx;
mod times;
mod twilio;
mod twiml;
mod user_decision;
mod vapi;
mod vonage;
mod webhook;

pub use api::{ApiRequest, ApiUrl, ClientError, api_url};
pub use config::{
    AccountConfig, BOOKED_SHARE, ConfigError, DEDUPE_RETENTION, DialRates, DialRatesError, Edge, Entries, Entry,
    Forwarded, KeyLengths, PER_SECOND_MAX, PER_SECOND_MIN, Pacing, ProvidersFile, QuestionConfig, SecretHalf,
    WINDOW_MAX, WebhookConfig, can_decide,
};
pub use content_hash::content_hash;
pub use correlation::appointment_call_id;
pub use dial::{DialAnswer, DialRequest, is_reserved_metadata, repeats_safely_for};
pub use discovery::{CallPage, discovery_api_request, read_discovery_answer, reporting_event_ids};
pub use dispatch::{
    decided_as_configured, derived_call_id, dial_api_request, ids_of, is_question, read, read_as_configured,
    read_dial_answer, read_with_notes, sign, sign_as_configured, sign_with_key, verify, verifying_key,
};
pub use distinct::distinct_json;
pub use ids::{ID_BYTES_MAX, bounded};
pub use jwt::TokenLogin;
pub use key::{Key, KeyError};
pub use lookup::{Lookup, LookupAnswer, Period};
pub use normalized::{entity_key, replaced_booking};
pub use reading::{ReadError, ReadNotes, Reading};
pub use samples::samples;
pub use search::{CallSearch, SearchStep};
pub use user_decision::UserDecision;
pub use webhook::{SignedWebhook, UnverifiedWebhook, VerifiedWebhook, VerifyError, key_number};
