//! Ed25519 public keys, as the configuration holds them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::VerifyingKey;

use crate::key::Key;

/// The public key, if the text is base64 of its 32 bytes. A weak key, under which anybody could sign, is none.
pub(crate) fn parse_public_key(key: &Key) -> Option<VerifyingKey> {
    let bytes: [u8; 32] = BASE64_STANDARD.decode(key.as_bytes()).ok()?.try_into().ok()?;
    VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak())
}
