//! Due times of calls: their format, and their distance from now.

use std::time::Duration;

use switchhook_aws::problem::FieldError;
use switchhook_domain::{DUE_AHEAD_MAX, Timestamp};

/// Limit on a due time in the past. An older one is probably a mistake in the date.
const DUE_PAST_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks that a due time is near enough to now.
pub(crate) fn due_at_error(due_at: Timestamp, now: Timestamp) -> Option<FieldError> {
    let message = if due_at < now.minus(DUE_PAST_MAX) {
        "must be at most 1 day in the past"
    } else if due_at > now.plus(DUE_AHEAD_MAX) {
        "must be at most 365 days in the future"
    } else {
        return None;
    };
    Some(FieldError::new("due_at", message))
}

/// True if the text has the format of RFC 3339. The time parser alone accepts more formats; it checks the values later.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let Some((head, tail)) = text.split_at_checked(19) else { return false };
    let zone = match tail.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if zone.len() == fraction.len() || fraction.len() - zone.len() > 9 {
                return false;
            }
            zone
        }
        None => tail,
    };
    let offset = || zone.strip_prefix(['+', '-']).is_some_and(|offset| is_like(offset, "00:00"));
    is_like(&head.to_ascii_uppercase(), "0000-00-00T00:00:00") && (zone.eq_ignore_ascii_case("z") || offset())
}

/// True if the text matches the pattern, in which `0` stands for any digit.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}
