//! ElevenLabs' signature: `ElevenLabs-Signature: t=<unix s>,v0=<hex>`.
//!
//! `v0` is HMAC-SHA256 over the decimal seconds, a full stop, and the body. The secret is used as text. Other fields are ignored,
//! because a later version of the scheme may add them.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm, SignedTime, TimePlace, TimeUnit};

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Text },
    header: "elevenlabs-signature",
    form: HeaderForm::Fields { signature: "v0", exact: false },
    prefix: "",
    encoding: Encoding::Hex,
    timestamp: Some(SignedTime { place: TimePlace::Field("t"), unit: TimeUnit::Seconds }),
    id_header: None,
    signed: "{timestamp}.{body}",
};
