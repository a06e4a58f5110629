//! Signature of the generic provider: HMAC-SHA256 over `{timestamp}.{body}`.
//!
//! Headers: `x-webhook-timestamp: <unix seconds>` and `x-webhook-signature: sha256=<hex>`.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Text },
    header: "x-webhook-signature",
    form: HeaderForm::Single,
    prefix: "sha256=",
    encoding: Encoding::Hex,
    timestamp: Some(SignedTime { place: TimePlace::Header("x-webhook-timestamp"), unit: TimeUnit::Seconds }),
    id_header: None,
    signed: "{timestamp}.{body}",
};
