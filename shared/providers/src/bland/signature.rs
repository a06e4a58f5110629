//! Bland's signature: `X-Webhook-Signature` is the hex of HMAC-SHA256 over the body.
//!
//! **The signature does not prevent a replay.** It covers no time, so whoever has seen a webhook can send it again at any time. The
//! inbox turns it into a duplicate.
//!
//! Bland's own sample signs a body that it has parsed and written again. The raw bytes are verified here, so a webhook whose bytes
//! are others than Bland signed is refused.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Algorithm, Encoding, HeaderForm, HeaderScheme, KeyForm};

pub(crate) const SCHEME: HeaderScheme<&str> = HeaderScheme {
    algorithm: Algorithm::Hmac { hash: HmacAlgorithm::Sha256, keys: KeyForm::Text },
    header: "x-webhook-signature",
    form: HeaderForm::Single,
    prefix: "",
    encoding: Encoding::Hex,
    timestamp: None,
    id_header: None,
    signed: "{body}",
};
