//! The key that `--key` names, which signs webhooks.

use std::io;

use switchhook_providers::{Key, KeyError};

/// Value of `--key` for a key on standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningKeyError {
    // clap does not check the key, because its error message would repeat the value.
    #[error("--key is not a valid key")]
    Invalid(#[source] KeyError),
    #[error("could not read the key from standard input")]
    Read(#[source] io::Error),
}

/// Returns the key that a value of `--key` names. A key on standard input is the whole text without the line ends behind it.
pub(crate) fn read(value: &str) -> Result<Key, SigningKeyError> {
    let key = if value == STANDARD_INPUT {
        let text = io::read_to_string(io::stdin()).map_err(SigningKeyError::Read)?;
        Key::new(text.trim_end_matches(['\r', '\n']))
    } else {
        Key::new(value)
    };
    key.map_err(SigningKeyError::Invalid)
}
