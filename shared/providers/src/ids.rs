//! Ids made from a provider's data: prefixed, of limited length, and safe as a table key, a path segment and a log
//! field.

use sha2::{Digest, Sha256};
use switchhook_domain::{EventId, Provider};

/// Longest id that leaves this crate, in bytes. The row of a full call contains a thousand ids, and a DynamoDB item has
/// at most 400 KB.
pub const ID_BYTES_MAX: usize = 128;

/// Longest event type, in bytes. A longer name is cut. No provider documents a name that is this long.
const EVENT_TYPE_BYTES_MAX: usize = 128;

/// Hex digits of a short hash, which only has to distinguish the events of one call.
const SHORT_HASH_DIGITS: usize = 16;

/// Returns an id as it is stored: `{prefix}{id}`. If that is too long, or if `id` has control characters, returns
/// `{prefix}sha256-{hash of id}` instead.
#[must_use]
pub fn bounded(prefix: &str, id: &str) -> String {
    if prefix.len() + id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        format!("{prefix}{}", sha256(id.as_bytes()))
    } else {
        format!("{prefix}{id}")
    }
}

/// Returns `{provider}:{suffix}`, shortened by [`bounded`] if necessary.
pub(crate) fn event_id(provider: Provider, suffix: &str) -> EventId {
    EventId::new(bounded(&format!("{provider}:"), suffix))
}

/// Returns `{provider}:sha256-{hash of the body}`, for an event without an id, or one that cannot be read.
pub(crate) fn event_id_of_body(provider: Provider, body: &[u8]) -> EventId {
    EventId::new(format!("{provider}:{}", sha256(body)))
}

/// First 64 bits of the SHA-256, in hex.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    let mut digits = hex::encode(Sha256::digest(bytes));
    digits.truncate(SHORT_HASH_DIGITS);
    digits
}

/// The event type, cut to [`EVENT_TYPE_BYTES_MAX`]. Control characters become spaces.
pub(crate) fn event_type(name: &str) -> String {
    let mut end = name.len().min(EVENT_TYPE_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().replace(char::is_control, " ")
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256-{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_HASH: &str = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn ids_that_are_too_long_or_hold_control_characters_become_hashes() {
        let fits = "a".repeat(ID_BYTES_MAX - 2);
        assert_eq!(bounded("p:", &fits), format!("p:{fits}"));
        let hash_form = |id: &str| {
            let id = bounded("p:", id);
            assert!(id.starts_with("p:sha256-") && id.len() == 73, "{id}");
        };
        hash_form(&format!("{fits}a"));
        hash_form("a\nb");
        hash_form("a\u{85}b");
        assert_eq!(bounded("p:", ""), "p:");
    }

    #[test]
    fn event_of_an_empty_body_has_an_id() {
        assert_eq!(event_id_of_body(Provider::Generic, b"").as_str(), format!("generic:{EMPTY_HASH}"));
    }

    #[test]
    fn event_types_are_cut_at_a_character() {
        assert_eq!(event_type("call_ended"), "call_ended");
        assert_eq!(event_type("a\tb"), "a b");
        let cut = event_type(&format!("a{}", "é".repeat(100)));
        assert_eq!(cut, format!("a{}", "é".repeat(63)));
    }
}
