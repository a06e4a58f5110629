//! Secrets from the configuration. They are never empty, and never printed.

use std::fmt;

use thiserror::Error;

/// Secret, used verbatim as UTF-8: a key that signs webhooks, or one that opens a provider's API. `Debug` hides it.
///
/// Under an empty key anybody could sign. Under a key with white space around it, such as a pasted line end, nobody
/// could. Both are rejected.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// Makes a key of a text.
    ///
    /// # Errors
    ///
    /// The text is empty, or it starts or ends with white space. The error never contains the text.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(KeyError::Empty);
        }
        if text.trim().len() != text.len() {
            return Err(KeyError::SurroundingWhiteSpace);
        }
        Ok(Self(text))
    }

    /// Makes a key of a text of at least `chars_min` characters.
    ///
    /// # Errors
    ///
    /// The same as [`Self::new`], and [`KeyError::TooShort`].
    pub(crate) fn with_length(text: impl Into<String>, chars_min: usize) -> Result<Self, KeyError> {
        let key = Self::new(text)?;
        if key.0.chars().count() < chars_min { Err(KeyError::TooShort(chars_min)) } else { Ok(key) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// Reason why a text cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("the key is empty")]
    Empty,
    #[error("the key begins or ends with white space")]
    SurroundingWhiteSpace,
    #[error("the key is shorter than {0} characters")]
    TooShort(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_padded_keys_are_refused() {
        let error = |text: &str| Key::new(text).err();
        assert_eq!(error(""), Some(KeyError::Empty));
        assert_eq!(error(" \t\n"), Some(KeyError::Empty));
        assert_eq!(error("secret\n"), Some(KeyError::SurroundingWhiteSpace));
        assert_eq!(error("a secret"), None);
    }

    #[test]
    fn debug_hides_the_key() {
        let key = Key::new("hunter2").unwrap();
        assert_eq!(format!("{key:?}"), "Key(hidden)");
    }
}
