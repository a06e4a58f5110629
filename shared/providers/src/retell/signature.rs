//! Retell's signature: `x-retell-signature: v=<unix ms>,d=<hex>`.
//!
//! `d` is HMAC-SHA256 over the body, followed by the decimal milliseconds without a separator. As in Retell's own SDKs
//! (`webhook_auth.ts`, `webhook_auth.py`), the header must match exactly, the digest may be upper or lower case, and the window is inclusive.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Text },
    header: "x-retell-signature",
    form: HeaderForm::Fields { signature: "d", exact: true },
    prefix: "",
    encoding: Encoding::Hex,
    timestamp: Some(SignedTime { place: TimePlace::Field("v"), unit: TimeUnit::Millis }),
    id_header: None,
    signed: "{body}{timestamp}",
};
