//! Keys in PEM form.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Returns the bytes of a text that is one PEM block with this label. `None` if it is anything else.
pub(crate) fn decode(text: &str, label: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let inner = inner.strip_suffix(&format!("-----END {label}-----"))?;
    BASE64_STANDARD.decode(inner.split_whitespace().collect::<String>()).ok()
}

/// True if the text begins like a PEM block.
pub(crate) fn is_pem(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN ")
}

/// True if the text is a PEM block with a private key of any kind.
pub(crate) fn is_private_key(text: &str) -> bool {
    is_pem(text) && text.contains("PRIVATE KEY-----")
}
