//! Ids in the path of a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of an id that are percent-encoded: all except letters, digits and `-._~:`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Returns an id, encoded as one segment of a path. An id with a question mark is encoded twice: API Gateway decodes a path
/// once, and ends it at a question mark.
pub(crate) fn encoded(id: &str) -> String {
    let once = utf8_percent_encode(id, PLAIN).to_string();
    if id.contains('?') { utf8_percent_encode(&once, PLAIN).to_string() } else { once }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_spaces_do_not_end_a_segment() {
        assert_eq!(encoded("appointment:a/b c"), "appointment:a%2Fb%20c");
        assert_eq!(encoded("a b?"), "a%2520b%253F");
        assert_eq!(encoded("retell:call_1"), "retell:call_1");
    }
}
