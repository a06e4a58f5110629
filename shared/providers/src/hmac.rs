//! HMAC over a message in several parts, checked with a list of keys. Every comparison takes constant time.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::key::Key;

pub(crate) type HmacSha1 = Hmac<Sha1>;

/// Hash of an HMAC, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HmacAlgorithm {
    Sha1,
    Sha256,
    Sha512,
}

impl HmacAlgorithm {
    /// Length of a MAC in bytes.
    pub(crate) const fn tag_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// True if `tag` is the MAC of the parts under this secret. Takes constant time.
    pub(crate) fn verifies(self, secret: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
        match self {
            Self::Sha1 => verifies::<HmacSha1>(secret, parts, tag),
            Self::Sha256 => verifies::<Hmac<Sha256>>(secret, parts, tag),
            Self::Sha512 => verifies::<Hmac<Sha512>>(secret, parts, tag),
        }
    }

    /// MAC of the parts under this secret.
    pub(crate) fn tag(self, secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        fn of<M: Mac + KeyInit>(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
            keyed::<M>(secret, parts).finalize().into_bytes().to_vec()
        }
        match self {
            Self::Sha1 => of::<HmacSha1>(secret, parts),
            Self::Sha256 => of::<Hmac<Sha256>>(secret, parts),
            Self::Sha512 => of::<Hmac<Sha512>>(secret, parts),
        }
    }
}

/// Index of the first key under which `tag` is the MAC of the parts. The parts are joined without a separator.
pub(crate) fn matching_key<M: Mac + KeyInit>(keys: &[Key], parts: &[&[u8]], tag: &[u8]) -> Option<usize> {
    keys.iter().position(|key| verifies::<M>(key.as_bytes(), parts, tag))
}

fn verifies<M: Mac + KeyInit>(secret: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
    keyed::<M>(secret, parts).verify_slice(tag).is_ok()
}

#[expect(clippy::expect_used, reason = "HMAC accepts keys of any length")]
fn keyed<M: Mac + KeyInit>(secret: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as Mac>::new_from_slice(secret).expect("HMAC accepts keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}
