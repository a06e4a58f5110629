//! Configuration of the providers. `docs/providers/` explains every field.
//!
//! A **providers file** is one JSON object with one object per provider. A deployed stack stores its two
//! halves in two secrets. Only ingress reads the webhook keys. Only the functions that call the providers' APIs read the dial
//! accounts. So no function holds more than it uses. `public_url` and `decision` are in both halves: they are not secret.
//!
//! **A wrong entry disables its provider alone.** A providers file is checked before it is stored, and refused with all its
//! problems. A stored half that is wrong nevertheless is read entry by entry.

mod account;
mod booking;
mod decision;
mod edge;
mod entries;
mod fields;
mod file;
mod keys;
mod mapping;
mod pacing;
mod parse;
mod question;
mod scheme;
mod signature;
#[cfg(test)]
mod tests;
mod webhook;

pub use account::AccountConfig;
pub use decision::can_decide;
pub use edge::{Edge, Forwarded};
pub use entries::{Entries, Entry, SecretHalf};
pub use fields::ConfigError;
pub use file::ProvidersFile;
pub use pacing::{BOOKED_SHARE, DialRates, DialRatesError, PER_SECOND_MAX, PER_SECOND_MIN, Pacing};
pub use parse::KeyLengths;
pub use question::QuestionConfig;
pub use webhook::{DEDUPE_RETENTION, WINDOW_MAX, WebhookConfig};

pub(crate) use account::{
    BlandAccount, BlandAgent, ElevenLabsAccount, LiveKitAccount, PlivoAccount, RetellAccount, SignalWireAccount,
    TelnyxAccount, TwilioAccount, VapiAccount, VonageAccount,
};
pub(crate) use scheme::SharedKey;
