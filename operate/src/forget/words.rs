//! Ids and numbers that are searched in the bodies of webhooks.
//!
//! **A longer id or number is another one.** People number their calls and appointments, so `appt_20` is not a part of `appt_201`.

/// Shortest id or number that is searched. A shorter one would be found everywhere.
const LENGTH_MIN: usize = 7;
/// Digits before a number that dial abroad.
const DIAL_PREFIXES: [&[u8]; 2] = [b"00", b"011"];

/// Id or number that is searched. `Debug` is not derived, because it may be a phone number.
pub(super) struct Needle {
    text: String,
    is_number: bool,
}

impl Needle {
    /// Returns an id to search. `None` if it is too short.
    pub(super) fn id(text: String) -> Option<Self> {
        (text.len() >= LENGTH_MIN).then_some(Self { text, is_number: false })
    }

    /// Returns the digits of a number to search. `None` if they are too few.
    pub(super) fn number(digits: String) -> Option<Self> {
        (digits.len() >= LENGTH_MIN).then_some(Self { text: digits, is_number: true })
    }

    /// True if the body holds the id or the number, and not only as a part of a longer one.
    pub(super) fn is_in(&self, body: &[u8]) -> bool {
        (0..body.len()).any(|at| {
            let (before, rest) = body.split_at(at);
            rest.strip_prefix(self.text.as_bytes()).is_some_and(|after| !self.is_part(before, after))
        })
    }

    fn is_part(&self, before: &[u8], after: &[u8]) -> bool {
        if self.is_number {
            let digits = before.rsplit(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
            let begins = digits.is_empty() || DIAL_PREFIXES.contains(&digits) || ends_with_escape(before);
            return !begins || after.first().is_some_and(u8::is_ascii_digit);
        }
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let begins = !before.last().is_some_and(is_of_word) || ends_with_escape(before);
        !begins || after.first().is_some_and(is_of_word)
    }
}

/// True if the bytes end with an escaped character of a URL or of JSON: `%3A`, `\n`, `\u003a`.
fn ends_with_escape(before: &[u8]) -> bool {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'%', a, b] if is_hex(&[*a, *b]) => true,
        [.., b'\\', b'u', a, b, c, d] if is_hex(&[*a, *b, *c, *d]) => true,
        [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_longer_id_is_another_id() {
        let id = Needle::id("call_10".to_owned()).unwrap();
        for body in
            ["call_10", "on call_10.", r#"{"id":"call_10"}"#, "id=x%3Acall_10&b", r"\ncall_10", r"\u003acall_10"]
        {
            assert!(id.is_in(body.as_bytes()), "{body}");
        }
        for body in ["call_101", "recall_10", "my-call_10", "call_10-b", "call_1", "", "CALL_10"] {
            assert!(!id.is_in(body.as_bytes()), "{body}");
        }
        assert!(id.is_in(b"call_101 and call_10"), "a later one is whole");
    }

    #[test]
    fn part_of_a_longer_number_is_another_number() {
        let number = Needle::number("447700900123".to_owned()).unwrap();
        for body in
            ["+447700900123", "To=%2B447700900123&x", "00447700900123", "tel447700900123a", r"\u0020447700900123"]
        {
            assert!(number.is_in(body.as_bytes()), "{body}");
        }
        for body in ["4477009001234", "1447700900123", "100447700900123", "47700900123"] {
            assert!(!number.is_in(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn short_ids_are_not_searched() {
        assert!(Needle::id("call_1".to_owned()).is_none() && Needle::number("123456".to_owned()).is_none());
    }
}
