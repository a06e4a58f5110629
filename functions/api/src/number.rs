//! Phone numbers in a body and in a query.

use switchhook_domain::PhoneNumber;

/// Error message for an invalid phone number.
pub(crate) const INVALID_NUMBER: &str =
    "must be an E.164 number such as +14155550123, or a SIP address such as sip:desk@example.com";

/// Parses the number in a query. In a query a plus sign stands for a blank. No number contains a blank, so a blank was a plus
/// sign that is not percent-encoded.
pub(crate) fn number_in_query(text: &str) -> Option<PhoneNumber> {
    PhoneNumber::parse(&text.replace(' ', "+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plus_sign_in_a_query_need_not_be_encoded() {
        let check = |text: &str, number: Option<&str>| {
            assert_eq!(number_in_query(text).as_ref().map(PhoneNumber::as_str), number, "{text}");
        };
        check("+14155550123", Some("+14155550123"));
        check(" 14155550123", Some("+14155550123"));
        check("sip: 1415@example.com", Some("sip:+1415@example.com"));
        check("sip:desk%40example.com", Some("sip:desk%40example.com"));
        check("14155550123", None);
        check("%2B14155550123", None);
        check("", None);
    }
}
