//! Phone numbers in a body and in a path.

use percent_encoding::percent_decode_str;
use switchhook_domain::PhoneNumber;

pub(crate) const NUMBER_BYTES_MAX: usize = 256;
/// Error message for an invalid phone number.
pub(crate) const INVALID_NUMBER: &str =
    "must be an E.164 number such as +14155550123, or a SIP address such as sip:desk@example.com";

/// Parses an E.164 number or a SIP address.
pub(crate) fn phone_number(text: &str) -> Option<PhoneNumber> {
    let e164 = |digits: &str| {
        (7..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0')
    };
    let sip = |address: &str| !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_graphic());
    let is_number = text.strip_prefix('+').is_some_and(e164)
        || (text.len() <= NUMBER_BYTES_MAX
            && text.strip_prefix("sip:").or_else(|| text.strip_prefix("sips:")).is_some_and(sip));
    is_number.then(|| PhoneNumber::new(text))
}

/// Parses the number in a path. Nothing tells whether the server in front has decoded the path. So a SIP address with a
/// percent sign stands for two numbers: as received, and decoded.
pub(crate) fn numbers_in_path(text: &str) -> Vec<PhoneNumber> {
    let decoded = percent_decode_str(text).decode_utf8().ok().filter(|decoded| *decoded != text);
    let texts = [Some(text), decoded.as_deref()];
    texts.into_iter().flatten().filter_map(phone_number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_in_a_path_may_be_encoded() {
        let check = |text: &str, numbers: &[&str]| {
            let found = numbers_in_path(text);
            assert_eq!(found.iter().map(PhoneNumber::as_str).collect::<Vec<_>>(), numbers, "{text}");
        };
        check("+14155550123", &["+14155550123"]);
        check("%2B14155550123", &["+14155550123"]);
        check("sip%3Adesk%40example.com", &["sip:desk@example.com"]);
        check("sip:desk%40example.com", &["sip:desk%40example.com", "sip:desk@example.com"]);
        check("14155550123", &[]);
        check("%252B14155550123", &[]);
        check("%ff", &[]);
    }
}
