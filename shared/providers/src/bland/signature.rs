//! Bland's signature: `X-Webhook-Signature` is the hex of HMAC-SHA256 over the body.
//!
//! **The signature does not prevent a replay.** It covers no time, so whoever has seen a webhook can send it again at any time. The
//! inbox turns it into a duplicate.
//!
//! Bland's own sample signs a body that it has parsed and written again. The raw bytes are verified here, so a webhook whose bytes
//! are others than Bland signed is refused.

use crate::hmac::HmacAlgorithm;
use crate::scheme::{Encoding, HeaderForm, HmacScheme, KeyForm};

pub(crate) const SCHEME: HmacScheme<&str> = HmacScheme {
    algorithm: HmacAlgorithm::Sha256,
    header: "x-webhook-signature",
    form: HeaderForm::Single,
    prefix: "",
    encoding: Encoding::Hex,
    timestamp: None,
    id_header: None,
    signed: "{body}",
    keys: KeyForm::Text,
};
