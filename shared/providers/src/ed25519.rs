//! Ed25519: public keys as they are written in the configuration, and signatures.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{SECRET_KEY_LENGTH, SIGNATURE_LENGTH, Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::key::Key;
use crate::pem;

/// Length of a signature.
pub(crate) const SIGNATURE_BYTES: usize = SIGNATURE_LENGTH;

/// Prefixes of keys of Standard Webhooks. Base64 follows.
pub(crate) const WHPK: &str = "whpk_";
pub(crate) const WHSK: &str = "whsk_";

/// Start of the DER of every public key (RFC 8410). The 32 bytes of the key follow.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Start of the DER of a private key (RFC 8410) without attributes. The 32 bytes of the seed follow.
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Parses a public key: hex or base64 of its 32 bytes, the latter perhaps after `whpk_`, or PEM. `None` if the text is anything else, or
/// if the key is weak: anybody could sign for a weak key.
pub(crate) fn public_key(key: &Key) -> Option<VerifyingKey> {
    let text = key.as_str();
    let bytes = match pem::decode(text, "PUBLIC KEY") {
        Some(der) => der.strip_prefix(&SPKI)?.to_vec(),
        None => decode(text.strip_prefix(WHPK).unwrap_or(text))?,
    };
    VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok().filter(|key| !key.is_weak())
}

/// Parses a private key: hex or base64 of its 32-byte seed, base64 of the seed and the public key after `whsk_`, or PEM. `None` if the
/// text is anything else, or if the public key is another one.
pub(crate) fn private_key(key: &Key) -> Option<SigningKey> {
    let text = key.as_str();
    if let Some(base64) = text.strip_prefix(WHSK) {
        return SigningKey::from_keypair_bytes(&decode(base64)?.try_into().ok()?).ok();
    }
    let seed = match pem::decode(text, "PRIVATE KEY") {
        Some(der) => der.strip_prefix(&PKCS8)?.to_vec(),
        None => decode(text)?,
    };
    let seed: [u8; SECRET_KEY_LENGTH] = seed.try_into().ok()?;
    Some(SigningKey::from_bytes(&seed))
}

/// Private key of any text. A text that is no private key is hashed to a seed with SHA-256, so that tests can sign with any key.
pub(crate) fn private_key_of_text(key: &Key) -> SigningKey {
    private_key(key).unwrap_or_else(|| SigningKey::from_bytes(&Sha256::digest(key.as_bytes()).into()))
}

/// Public key, as the configuration holds it, for the signatures of [`private_key_of_text`].
pub(crate) fn public_key_of_text(key: &Key) -> String {
    BASE64_STANDARD.encode(private_key_of_text(key).verifying_key().as_bytes())
}

/// True if the key made this signature. Strict: a weak key, or a signature with a weak point, is refused.
pub(crate) fn verifies(key: &VerifyingKey, message: &[u8], signature: &[u8]) -> bool {
    Signature::from_slice(signature).is_ok_and(|signature| key.verify_strict(message, &signature).is_ok())
}

/// Signature of the parts, which are joined without a separator.
pub(crate) fn sign(key: &SigningKey, parts: &[&[u8]]) -> Vec<u8> {
    key.sign(&parts.concat()).to_bytes().to_vec()
}

/// Bytes that are written in hex or base64. A text of 64 hex digits would be base64 of 48 bytes, which no key has.
fn decode(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).ok().or_else(|| BASE64_STANDARD.decode(text).ok())
}
