//! Ed25519 public keys, as they are written in the configuration.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::VerifyingKey;

use crate::key::Key;

/// Parses the base64 of a public key's 32 bytes. `None` if the text is anything else, or if the key is weak: anybody
/// could sign for a weak key.
pub(crate) fn parse_public_key(key: &Key) -> Option<VerifyingKey> {
    let bytes: [u8; 32] = BASE64_STANDARD.decode(key.as_bytes()).ok()?.try_into().ok()?;
    VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak())
}
