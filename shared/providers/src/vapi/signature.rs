//! Vapi's signatures, as a server credential of Vapi makes them (`HmacAuthenticationPlan` in Vapi's own SDK).
//!
//! * HMAC over `{timestamp}.{body}`, or over the body alone. Header names, algorithm, encoding and prefix are
//!   configured as in the credential. By default: HMAC-SHA256 in hex, `x-signature` and `x-timestamp`.
//! * A shared secret in `X-Vapi-Secret`, or as a bearer token. **It signs nothing**, so it is accepted only if the
//!   configuration asks for it.
//!
//! Vapi does not document the unit of the timestamp, so the size of the number decides.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};

/// Default settings of a credential.
pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Text },
    header: "x-signature",
    form: HeaderForm::Single,
    prefix: "",
    encoding: Encoding::Hex,
    timestamp: Some(SignedTime { place: TimePlace::Header("x-timestamp"), unit: TimeUnit::Either }),
    id_header: None,
    signed: "{timestamp}.{body}",
};
