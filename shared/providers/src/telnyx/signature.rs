//! Telnyx's signature: Ed25519 over `{timestamp}|{body}`, as in Telnyx's own SDK (`telnyx-node/src/lib/webhooks.ts`).
//!
//! Headers: `telnyx-timestamp: <unix seconds>` and `telnyx-signature-ed25519: <base64>`. A configured key is the
//! account's public key: base64 of its 32 bytes. It is not secret, because only Telnyx can sign.

use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, SignedTime, TimePlace, TimeUnit};

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Ed25519,
    header: "telnyx-signature-ed25519",
    form: HeaderForm::Single,
    prefix: "",
    encoding: Encoding::Base64,
    timestamp: Some(SignedTime { place: TimePlace::Header("telnyx-timestamp"), unit: TimeUnit::Seconds }),
    id_header: None,
    signed: "{timestamp}|{body}",
};
