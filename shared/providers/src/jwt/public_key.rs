//! Public keys of tokens, in PEM form.
//!
//! The DER of a public key (RFC 5280, `SubjectPublicKeyInfo`) is the name of its algorithm and the key itself. The name is compared as a
//! whole, so no parser is needed. The library that verifies signatures reads the key, and refuses a wrong one.

use crate::key::Key;
use crate::pem;

/// DER of a key on P-256 (RFC 5480) up to the key, which is the 65 bytes of a point without compression.
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_BYTES: usize = 65;

/// DER of the name of RSA (RFC 3279).
const RSA: [u8; 15] = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// Point of a public key on P-256. `None` if the text is anything else.
pub(crate) fn p256_public_key(key: &Key) -> Option<Vec<u8>> {
    let der = pem::decode(key.as_str(), "PUBLIC KEY")?;
    der.strip_prefix(&P256_SPKI).filter(|point| point.len() == P256_BYTES).map(<[u8]>::to_vec)
}

/// Modulus and exponent of an RSA public key of 2048 to 8192 bits, as the DER of PKCS #1. `None` if the text is anything else.
pub(crate) fn rsa_public_key(key: &Key) -> Option<Vec<u8>> {
    let key = match pem::decode(key.as_str(), "PUBLIC KEY") {
        Some(der) => of_spki(&der)?.to_vec(),
        None => pem::decode(key.as_str(), "RSA PUBLIC KEY")?,
    };
    has_accepted_length(&key)?.then_some(key)
}

fn of_spki(der: &[u8]) -> Option<&[u8]> {
    let key = long_value(SEQUENCE, der)?.strip_prefix(&RSA)?;
    // The first byte is the number of unused bits at the end.
    long_value(BIT_STRING, key)?.strip_prefix(&[0])
}

/// Content of a DER value of 256 to 65535 bytes. `None` if the value is shorter, has another tag, or is followed by anything. Every
/// part of an RSA key of 2048 bits or more is that long, except its exponent.
fn long_value(tag: u8, der: &[u8]) -> Option<&[u8]> {
    let ([first, form, high, low], content) = der.split_first_chunk::<4>()?;
    let has_length = usize::from(u16::from_be_bytes([*high, *low])) == content.len();
    ([*first, *form] == [tag, 0x82] && has_length).then_some(content)
}

/// True if the modulus has 2048 to 8192 bits, a leading zero byte not counted.
fn has_accepted_length(pkcs1: &[u8]) -> Option<bool> {
    let ([0x02, 0x82, high, low], _) = long_value(SEQUENCE, pkcs1)?.split_first_chunk::<4>()? else { return None };
    Some((257..=1025).contains(&u16::from_be_bytes([*high, *low])))
}
