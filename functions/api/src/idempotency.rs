//! Idempotency keys, and the ids of calls that are created with one.

use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use switchhook_aws::problem::FieldError;
use switchhook_domain::{CallId, Timestamp};

use crate::caller::Caller;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Limit on the length of an idempotency key, in characters.
const KEY_LENGTH_MAX: usize = 255;
/// Time for which the same request without an idempotency key counts as a repetition.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(5 * 60);
#[expect(clippy::cast_possible_truncation, reason = "five minutes are few milliseconds")]
const DUPLICATE_WINDOW_MS: i64 = DUPLICATE_WINDOW.as_millis() as i64;
/// Length of a shortened hash. 128 bits are enough to tell requests apart.
const HASH_BYTES: usize = 16;

/// Reads the header `Idempotency-Key`. `None` if the request has none.
///
/// Refuses a key with a comma: API Gateway joins two headers by one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, FieldError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(key), None) if is_key(key) && !key.contains(&b',') => Ok(Some(key)),
        (Some(_), _) => {
            let max = KEY_LENGTH_MAX;
            let message = format!("must be given once, with 1 to {max} visible ASCII characters and without a comma");
            Err(FieldError::new("Idempotency-Key", message))
        }
    }
}

/// True if this can be an idempotency key.
pub(crate) fn is_key(key: &[u8]) -> bool {
    (1..=KEY_LENGTH_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic)
}

/// Id of the call that this caller creates with this idempotency key.
pub(crate) fn keyed_call_id(caller: &Caller, key: &[u8]) -> CallId {
    // A key has no zero byte, so no two pairs of key and caller are written alike.
    call_id(&[key, caller.as_bytes()])
}

/// Id of the call that this caller creates without an idempotency key. `at` is the time of the request, and `hash` the hash of
/// its content. The id is the same for all of a [`DUPLICATE_WINDOW`].
pub(crate) fn content_call_id(caller: &Caller, hash: &str, at: Timestamp) -> CallId {
    let window = at.as_millis().div_euclid(DUPLICATE_WINDOW_MS).to_string();
    // An idempotency key is not empty, so it never gives the same id.
    call_id(&[b"", hash.as_bytes(), window.as_bytes(), caller.as_bytes()])
}

fn call_id(parts: &[&[u8]]) -> CallId {
    CallId::new(format!("call-{}", short_hash(&parts.join(&0))))
}

/// SHA-256, shortened to 32 hex digits.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    hex::encode(digest.iter().copied().take(HASH_BYTES).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(keys: &[&[u8]]) -> HeaderMap {
        keys.iter().map(|key| (IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap())).collect()
    }

    #[test]
    fn idempotency_key_is_given_once_in_visible_ascii() {
        let longest = [b'k'; KEY_LENGTH_MAX];
        assert_eq!(idempotency_key(&headers(&[])), Ok(None));
        assert_eq!(idempotency_key(&headers(&[b"a-1\"~"])), Ok(Some(&b"a-1\"~"[..])));
        assert_eq!(idempotency_key(&headers(&[&longest])), Ok(Some(&longest[..])));
        let too_long = [b'k'; KEY_LENGTH_MAX + 1];
        for wrong in [
            headers(&[b""]),
            headers(&[b"a b"]),
            headers(&[b"\xe9"]),
            headers(&[&too_long]),
            headers(&[b"a", b"a"]),
            headers(&[b"a,a"]),
        ] {
            assert_eq!(idempotency_key(&wrong).unwrap_err().field, "Idempotency-Key");
        }
    }

    #[test]
    fn id_of_a_call_is_made_of_the_key_and_the_caller() {
        let id = |caller, key| keyed_call_id(&Caller::new(caller), key);
        assert_eq!(id("", b"order-7"), id("", b"order-7"));
        assert_ne!(id("AROAORDERS", b"order-7"), id("AROACLINIC", b"order-7"));
        assert_ne!(id("AROAORDERS", b"order-7"), id("AROAORDERS", b"order-8"));
    }

    #[test]
    fn same_content_gives_the_same_id_for_five_minutes() {
        let id = |caller, hash, seconds: i64| {
            content_call_id(&Caller::new(caller), hash, Timestamp::from_millis(seconds * 1_000))
        };
        assert_eq!(id("a", "h", 0), id("a", "h", 299));
        assert_ne!(id("a", "h", 299), id("a", "h", 300));
        assert_ne!(id("a", "h", 0), id("b", "h", 0));
        assert_ne!(id("a", "h", 0), id("a", "g", 0));
        assert_ne!(id("a", "h", -1), id("a", "h", 0));
    }
}
