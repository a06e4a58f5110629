//! Idempotency keys, and the ids of calls that are created with one.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use switchhook_aws::problem::FieldError;
use switchhook_domain::CallId;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Limit on the length of an idempotency key, in characters.
const KEY_LENGTH_MAX: usize = 255;
/// Length of a shortened hash. 128 bits are enough to tell requests apart.
const HASH_BYTES: usize = 16;

/// Reads the header `Idempotency-Key`. `None` if the request has none.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, FieldError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(key), None) if (1..=KEY_LENGTH_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic) => {
            Ok(Some(key))
        }
        (Some(_), _) => {
            let max = KEY_LENGTH_MAX;
            let message = format!("must be given once, with 1 to {max} visible ASCII characters");
            Err(FieldError::new("Idempotency-Key", message))
        }
    }
}

/// Id of the call that is created with this idempotency key.
pub(crate) fn keyed_call_id(key: &[u8]) -> CallId {
    CallId::new(format!("call-{}", short_hash(key)))
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
        for wrong in
            [headers(&[b""]), headers(&[b"a b"]), headers(&[b"\xe9"]), headers(&[&too_long]), headers(&[b"a", b"a"])]
        {
            assert_eq!(idempotency_key(&wrong).unwrap_err().field, "Idempotency-Key");
        }
    }

    #[test]
    fn id_of_a_call_is_made_of_the_key() {
        assert_eq!(keyed_call_id(b"order-7").as_str(), "call-df8cf80227ec3237922df0ecd88385c5");
    }
}
