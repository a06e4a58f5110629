//! Settings of the stack that the demo runs on.

use super::script::{MINUTE, Millis};

/// Inactivity timeout.
pub(super) const INACTIVITY_TIMEOUT: Millis = 15 * MINUTE;
/// Time between two runs of the reconciler.
pub(super) const RECONCILER_PERIOD: Millis = MINUTE;
