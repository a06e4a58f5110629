//! HMAC over a message in several parts, checked with a list of keys. Every comparison takes constant time.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::Sha256;

use crate::key::Key;

pub(crate) type HmacSha1 = Hmac<Sha1>;
pub(crate) type HmacSha256 = Hmac<Sha256>;

/// Index of the first key under which `tag` is the MAC of the parts. The parts are joined without a separator.
pub(crate) fn matching_key<M: Mac + KeyInit>(keys: &[Key], parts: &[&[u8]], tag: &[u8]) -> Option<usize> {
    keys.iter().position(|key| keyed::<M>(key, parts).verify_slice(tag).is_ok())
}

/// MAC of the parts, joined without a separator.
pub(crate) fn tag<M: Mac + KeyInit>(key: &Key, parts: &[&[u8]]) -> Vec<u8> {
    keyed::<M>(key, parts).finalize().into_bytes().to_vec()
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of any length")]
fn keyed<M: Mac + KeyInit>(key: &Key, parts: &[&[u8]]) -> M {
    let mut mac = <M as Mac>::new_from_slice(key.as_bytes()).expect("HMAC accepts keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}
