//! Names of SWML's JSON. Those of cXML's callbacks are in [`twiml`](crate::twiml).

use serde::Deserialize;

use crate::lenient;

/// Webhook of SWML.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(deserialize_with = "lenient::text")]
    pub(super) event_type: Option<String>,
}
