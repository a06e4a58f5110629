//! Ids in the query of a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of an id that are percent-encoded: all except letters, digits and `-._~:`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Returns an id, percent-encoded as the value of a parameter.
pub(crate) fn encoded(id: &str) -> String {
    utf8_percent_encode(id, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        assert_eq!(encoded("appointment:a/b c"), "appointment:a%2Fb%20c");
        assert_eq!(encoded("a?b&c=d#e%f+g"), "a%3Fb%26c%3Dd%23e%25f%2Bg");
        assert_eq!(encoded("retell:call_1"), "retell:call_1");
    }
}
