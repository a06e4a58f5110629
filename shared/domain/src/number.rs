//! Phone numbers, and how they are compared.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest phone number or SIP address, in bytes.
pub const NUMBER_BYTES_MAX: usize = 256;
/// Zero that people write after the country code, although it is dialled within the country only.
const NATIONAL_ZERO: &str = "(0)";
/// Country code of Italy, where the zero belongs to the number: <https://en.wikipedia.org/wiki/Telephone_numbers_in_Italy>.
const ITALY: &str = "39";
/// Characters beside letters and digits that a SIP address need not escape: RFC 3261, section 25.1.
const UNRESERVED_MARKS: &str = "-_.!~*'()";
/// Characters that people write between the digits of a number.
const SEPARATORS: [char; 5] = [' ', '-', '.', '(', ')'];

/// Phone number or SIP address. `Debug` hides it, so that a number never reaches a log or an error.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhoneNumber(String);

impl PhoneNumber {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhoneNumber(hidden)")
    }
}

/// Short tag of a number. It tells a few numbers apart. It does not tell which number it is: one number in 65,536 has the same tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberTag(u16);

impl PhoneNumber {
    /// Parses an E.164 number such as `+14155550123`, or a SIP address such as `sip:desk@example.com`. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let sip = |address: &str| !address.is_empty() && address.bytes().all(is_of_sip_address);
        let is_number = is_e164(text)
            || (text.len() <= NUMBER_BYTES_MAX
                && text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:")).is_some_and(sip));
        is_number.then(|| Self::new(text))
    }

    /// True if this is an E.164 number, and no SIP address.
    #[must_use]
    pub fn is_e164(&self) -> bool {
        is_e164(self.as_str())
    }

    /// Parses an E.164 number as people write it: with blanks, hyphens, dots and brackets between the digits, and perhaps with `(0)`
    /// after the country code. `None` for any other text. So a SIP address is none, and neither is a number without its country
    /// code.
    #[must_use]
    pub fn parse_written(text: &str) -> Option<Self> {
        let digits: String =
            without_national_zero(text.trim()).chars().filter(|char| !SEPARATORS.contains(char)).collect();
        is_e164(&digits).then(|| Self::new(digits))
    }

    /// Returns the form in which numbers are compared: two spellings of one number have the same canonical form.
    ///
    /// - An E.164 number: a plus sign and the digits, without separators such as blanks and hyphens, and without `(0)` after the
    ///   country code.
    /// - A SIP address: `sip:`, the user, and the host in lower case. `sips:`, password, port, parameters and headers are left out, and so
    ///   is the dot at the end of a host. The case of the user stays. A character that needs no escape is not escaped: `d%65sk` is `desk`.
    ///   A user that is an E.164 number has no separators: `+1-415-555-0123` is `+14155550123`.
    ///
    /// Any other text is its own canonical form.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let text = self.as_str().trim();
        if text.starts_with('+') {
            return Self::new(format!("+{}", digits(&without_national_zero(text))));
        }
        let address = text.split_once(':').and_then(|(scheme, address)| {
            (scheme.eq_ignore_ascii_case("sip") || scheme.eq_ignore_ascii_case("sips")).then_some(address)
        });
        match address {
            Some(address) => Self::new(format!("sip:{}", canonical_address(address))),
            None => self.clone(),
        }
    }

    /// Returns the tag of the number. All spellings of one number have the same tag.
    #[must_use]
    pub fn tag(&self) -> NumberTag {
        let hash = Sha256::digest(self.canonical().as_str());
        NumberTag(hash.iter().take(2).fold(0, |tag, byte| (tag << 8) | u16::from(*byte)))
    }
}

/// Returns a number with its country code as it is dialled from another country.
fn without_national_zero(written: &str) -> Cow<'_, str> {
    match written.split_once(NATIONAL_ZERO) {
        Some((country, rest)) if digits(country) != ITALY => Cow::Owned(format!("{country}{rest}")),
        Some(_) | None => Cow::Borrowed(written),
    }
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

fn is_e164(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0')
}

/// True if the character may be in a SIP address: RFC 3261 allows it there, and it separates no addresses as a comma may. With `<`, Plivo
/// would call several phones for one dial, and the do-not-call list would know none of them.
fn is_of_sip_address(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()%&=+$;?/:@[]".contains(&byte)
}

/// Returns `user@host` of a SIP address, or `host` if it has no user.
fn canonical_address(address: &str) -> String {
    // A user may contain the characters that end a host, but no `@`.
    let (user, host) = match address.split_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, address),
    };
    let host = host.split([';', '?']).next().unwrap_or_default();
    // An IPv6 address stands in brackets, and its colons begin no port.
    let port_at = match host.rfind(']') {
        Some(bracket) => host.get(bracket..).and_then(|rest| rest.find(':')).map(|colon| bracket + colon),
        None => host.find(':'),
    };
    let host = unescaped(port_at.and_then(|at| host.get(..at)).unwrap_or(host));
    let is_outside = |char: char| char == '.' || char.is_whitespace();
    let host = host.trim_start().trim_end_matches(is_outside).to_ascii_lowercase();
    match user {
        // A password follows a colon, which a user has only as an escape.
        Some(user) => format!("{}@{host}", canonical_user(unescaped(user.split(':').next().unwrap_or_default()))),
        None => host,
    }
}

/// Returns a user of a SIP address without separators, if it is an E.164 number then. RFC 3261, section 19.1.4: separators do not count in the number of a
/// telephone.
fn canonical_user(user: Cow<'_, str>) -> Cow<'_, str> {
    let number: String = user.chars().filter(|char| !SEPARATORS.contains(char)).collect();
    if is_e164(&number) { Cow::Owned(number) } else { user }
}

/// Returns a part of a SIP address with one spelling of each character. RFC 3261, section 19.1.4: an escaped character is the character
/// itself, unless it is a reserved one. The escapes that stay are in upper case. A text with an invalid escape is returned as it is.
fn unescaped(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((escape, rest)) = part.split_at_checked(2) else { return Cow::Borrowed(text) };
        let mut digits = escape.chars().map(|char| char.to_digit(16));
        let code = digits.try_fold(0, |code, digit| Some(code * 16 + digit?)).and_then(char::from_u32);
        match code {
            Some(char) if char.is_ascii_alphanumeric() || UNRESERVED_MARKS.contains(char) => plain.push(char),
            Some(_) => {
                plain.push('%');
                plain.push_str(&escape.to_ascii_uppercase());
            }
            None => return Cow::Borrowed(text),
        }
        plain.push_str(rest);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        PhoneNumber::new(text).canonical().as_str().to_owned()
    }

    #[test]
    fn numbers_of_one_phone_have_one_form() {
        for text in ["+44 (0)20 7946 0123", "+44(0) 20 79460123", "(+44) 20 7946 0123", "+44 20 7946 0123"] {
            let number = PhoneNumber::parse_written(text);
            assert_eq!(number.as_ref().map(PhoneNumber::as_str), Some("+442079460123"), "{text}");
        }
        assert_eq!(canonical("+44 (0)20 7946 0123"), "+442079460123");
        // In Italy the zero belongs to the number.
        assert_eq!(canonical("+39 (0)6 1234 5678"), "+390612345678");
        for text in ["+1+4155550123", "++14155550123", "14155550123", "+1415555o123"] {
            assert_eq!(PhoneNumber::parse_written(text), None, "{text}");
        }
        for text in ["+14155550123", "+1 415 555-0123", "+1 (415) 555.0123", " +14155550123 "] {
            assert_eq!(canonical(text), "+14155550123", "{text}");
            assert_eq!(PhoneNumber::new(text).tag(), PhoneNumber::new("+14155550123").tag(), "{text}");
        }
        assert_ne!(PhoneNumber::new("+14155550124").tag(), PhoneNumber::new("+14155550123").tag());
        for text in [
            "sip:desk@example.com",
            "sips:desk@example.com",
            "SIP:desk@EXAMPLE.com",
            "sip:desk@Example.Com:5060",
            "sips:desk@example.com:5061;transport=tls",
            "sip:desk@example.com;user=phone?subject=x",
            "sip:d%65sk@example.com",
            "sip:%64%65%73%6b@ex%61mpl%45.com",
            "sip:desk:secret@example.com",
            "sip:desk:@example.com",
            "sip:desk@example.com.",
            "sip:desk@example.com.:5060;lr",
        ] {
            assert_eq!(canonical(text), "sip:desk@example.com", "{text}");
        }
        for text in ["sip:+14155550123@trunk", "sip:+1-415-555-0123@trunk", "sips:+1(415)555%2e0123@TRUNK"] {
            assert_eq!(canonical(text), "sip:+14155550123@trunk", "{text}");
        }
        assert_eq!(canonical("sip:front-desk.1@trunk"), "sip:front-desk.1@trunk");
        assert_eq!(canonical("sip:desk@[2001:DB8::1]:5060;lr"), "sip:desk@[2001:db8::1]");
        assert_eq!(canonical("sip:Example.com:5060"), "sip:example.com");
        assert_eq!(
            (canonical("sip:desk@Example.com ;lr"), canonical("sIp: :")),
            ("sip:desk@example.com".into(), "sip:".into())
        );
        assert_eq!(canonical("sip:+14155550123;ext=7@example.com"), "sip:+14155550123;ext=7@example.com");
        assert_eq!(canonical("sip:a%3ab%2e:c@example.com"), "sip:a%3Ab.@example.com");
    }

    #[test]
    fn sip_address_names_one_phone() {
        for text in [
            "sip:desk@example.com",
            "sips:desk@example.com:5061;transport=tls",
            "sip:+14155550123;ext=7@example.com",
            "sip:desk@[2001:db8::1]:5060;lr?subject=x&to=%22a%22",
            "sip:-_.!~*'()&=+$;?/@example.com",
        ] {
            assert!(PhoneNumber::parse(text).is_some(), "{text}");
        }
        for char in "<>,\"\\|^`{}# ".chars() {
            assert_eq!(PhoneNumber::parse(&format!("sip:a@b{char}14155550123")), None, "{char}");
        }
        assert_eq!(PhoneNumber::parse("sip:"), None);
    }

    #[test]
    fn numbers_of_two_phones_have_two_forms() {
        let all = [
            "+14155550123",
            "+14155550124",
            "sip:+14155550123@example.com",
            "sip:desk@example.com",
            "sip:Desk@example.com",
            "sip:desk@example.org",
            "sip:desk%3Bext=7@example.com",
            "sip:desk;ext=7@example.com",
            "sip:desk%40example.com@example.com",
            "sip:%2564esk@example.com",
            "sip:desk%@example.com",
            "desk@example.com",
            "14155550123",
        ];
        let forms: std::collections::BTreeSet<String> = all.into_iter().map(canonical).collect();
        assert_eq!(forms.len(), all.len(), "the user of a SIP address is case-sensitive");
    }

    mod random {
        use super::*;

        proptest! {
            #![proptest_config(switchhook_random::config(1_000, None))]

            #[test]
            fn canonical_form_is_its_own(text in prop_oneof!["[+]?[0-9 ().-]{0,20}", "(?i:sips?):[ -~]{0,30}", "\\PC{0,20}"]) {
                let once = canonical(&text);
                prop_assert_eq!(canonical(&once), once);
            }

            #[test]
            fn scheme_case_port_and_parameters_do_not_matter(
                user in "[A-Za-z0-9+._;-]{1,12}",
                host in "[a-z0-9-]{1,8}(\\.[a-z0-9-]{1,8}){0,2}",
                secure in any::<bool>(),
                upper in any::<bool>(),
                port in prop::option::of(1_u16..),
                parameters in "(;[a-z]{1,5}(=[a-zA-Z0-9:@]{1,5})?){0,2}",
            ) {
                let shown = if upper { host.to_uppercase() } else { host.clone() };
                let scheme = if secure { "sips" } else { "sip" };
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                let text = format!("{scheme}:{user}@{shown}{port}{parameters}");
                prop_assert_eq!(canonical(&text), format!("sip:{user}@{host}"));
            }

            #[test]
            fn separators_of_a_number_do_not_matter(digits in "[1-9][0-9]{6,14}", separators in "[ ().-]{0,3}", at in 0_usize..7) {
                let written = format!("+{}{separators}{}", &digits[..at], &digits[at..]);
                prop_assert_eq!(canonical(&written), format!("+{digits}"));
            }
        }
    }
}
