//! Deliveries of webhooks.

use crate::demo::script::{Millis, Provider};

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::demo) enum DeliveryKind {
    /// The first delivery of a report.
    First,
    /// A further delivery with the same body.
    Repeated,
    /// A further delivery with the same meaning and other bytes.
    Reworded,
    /// A correctly signed webhook that is not valid JSON.
    Unreadable,
    Forged(Forgery),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::demo) enum Forgery {
    WrongKey,
    FlippedBit,
    NoSignature,
    /// A genuine webhook that an attacker recorded and sends again later.
    OldRecording,
}

impl Forgery {
    pub(in crate::demo) const fn name(self) -> &'static str {
        match self {
            Self::WrongKey => "wrong key",
            Self::FlippedBit => "one bit flipped",
            Self::NoSignature => "no signature",
            Self::OldRecording => "old recording",
        }
    }
}

/// One HTTP request to the webhook endpoint.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Delivery {
    /// Time of arrival by the system's clock.
    pub(in crate::demo) at: Millis,
    /// Index of the call's script in the traffic's list.
    pub(in crate::demo) call: usize,
    /// Index into the script's reports. `None` if the delivery is not one of them.
    pub(in crate::demo) report: Option<usize>,
    pub(in crate::demo) kind: DeliveryKind,
    pub(in crate::demo) provider: Provider,
    /// The provider's name for the event.
    pub(in crate::demo) name: String,
    pub(in crate::demo) query: String,
    pub(in crate::demo) body: Vec<u8>,
    pub(in crate::demo) signed_at: Millis,
    /// True if the old key signs, which is still valid during a key rotation.
    pub(in crate::demo) old_key: bool,
    /// Bit of the body that is flipped after signing.
    pub(in crate::demo) flipped_bit: Option<usize>,
}
