//! The reasons with which Telnyx refuses a dial.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::api::{object, text};
use crate::dial::Refusal;

/// Reads the `errors` of a response: each has a `code`, texts, and the field that it is about in `source.pointer`. If the network refused
/// the dial, its own code says more.
pub(crate) fn refusal(body: &[u8]) -> Option<Refusal> {
    let answer = object(body)?;
    let errors: Vec<&Map<String, Value>> =
        answer.get("errors")?.as_array()?.iter().filter_map(Value::as_object).collect();
    let says = |error: &&Map<String, Value>, words: &[&str]| {
        let texts = ["title", "detail"].into_iter().filter_map(|name| text(error, name)).map(str::to_lowercase);
        texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
    };
    let all_are_about = |field: &str| {
        let is_about = |error: &&Map<String, Value>| {
            let source = error.get("source");
            let pointer = source.and_then(|source| source.get("pointer").or_else(|| source.get("parameter")));
            pointer.and_then(Value::as_str).is_some_and(|pointer| pointer.trim_start_matches('/') == field)
        };
        !errors.is_empty() && errors.iter().all(is_about)
    };
    if let Some(refusal) = network_code(&answer, &errors).and_then(network_refusal) {
        Some(refusal)
    } else if errors.iter().any(|error| says(error, &["channel limit", "concurrent call", "concurrency"])) {
        Some(Refusal::Capacity("concurrency_limit"))
    } else if errors.iter().any(|error| says(error, &["whitelisted countries"])) {
        // The outbound voice profile of the account allows some countries only.
        Some(Refusal::NumberOrAccount("country_not_enabled"))
    } else if all_are_about("to") {
        Some(Refusal::Number("invalid_number"))
    } else if all_are_about("from") {
        Some(Refusal::CallingNumber("invalid_calling_number"))
    } else {
        None
    }
}

/// Code with which Telnyx's network refused the dial, for example `D60`. Without a field of its own, it is a word of the texts. `None` if
/// there is no code, or if the texts have several.
fn network_code<'a>(answer: &'a Map<String, Value>, errors: &[&'a Map<String, Value>]) -> Option<&'a str> {
    if let Some(Value::Object(error)) = answer.get("telnyx_error") {
        return text(error, "error_code");
    }
    let words = errors.iter().filter_map(|error| text(error, "detail")).flat_map(str::split_whitespace);
    let words = words.map(|word| word.trim_end_matches(['.', ',', ':']));
    let is_code = |word: &&str| {
        let digits = word.strip_prefix('D').unwrap_or_default();
        (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let codes: BTreeSet<&str> = words.filter(is_code).collect();
    codes.first().copied().filter(|_| codes.len() == 1)
}

/// Meaning of a code of Telnyx's network: <https://support.telnyx.com/en/articles/4409457-telnyx-sip-response-codes>. A code that is not
/// listed here is one of the account, for example D17 (account disabled) and D38 (no outbound profile). So is D10, about which Telnyx's
/// pages disagree: too many calls at once, a header that nobody may send, or an account that is disabled.
fn network_refusal(code: &str) -> Option<Refusal> {
    match code {
        // Invalid, an emergency number, or a special number.
        "D11" | "D14" | "D37" | "D50" | "D59" => Some(Refusal::Number("invalid_number")),
        // A prefix that Telnyx forbids to everybody, and a restricted number.
        "D41" | "D58" => Some(Refusal::Number("call_blocked")),
        "D12" | "D13" => Some(Refusal::NumberOrAccount("country_not_enabled")),
        // No route, a SIP address that Telnyx does not call for the account, too expensive, or beyond the limits on calls abroad.
        "D9" | "D21" | "D24" | "D30" | "D31" | "D39" | "D40" | "TM1" => {
            Some(Refusal::NumberOrAccount("destination_forbidden"))
        }
        "D60" => Some(Refusal::NumberOrAccount("trial_account")),
        "D34" | "D35" | "D36" | "D46" | "D49" | "D51" | "D53" | "D54" | "D63" | "D64" => {
            Some(Refusal::CallingNumber("invalid_calling_number"))
        }
        "D1" | "D2" | "D3" | "D22" => Some(Refusal::Capacity("concurrency_limit")),
        _ => None,
    }
}
