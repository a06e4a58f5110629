//! Faults that a test or a developer asks the fake provider for.

/// Share of webhooks that are delivered wrongly, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFaults {
    /// Webhooks that are sent twice.
    pub duplicate_percent: u8,
    /// Webhooks that are sent 30 to 120 seconds late.
    pub delay_percent: u8,
    /// Webhooks that are never sent.
    pub loss_percent: u8,
}

impl DeliveryFaults {
    /// Faults at a rate that a real integration should expect.
    pub const USUAL: Self = Self { duplicate_percent: 15, delay_percent: 15, loss_percent: 8 };
    /// Every webhook is sent once and within seconds.
    pub const NONE: Self = Self { duplicate_percent: 0, delay_percent: 0, loss_percent: 0 };
    /// No webhook is ever sent.
    pub const ALL_LOST: Self = Self { duplicate_percent: 0, delay_percent: 0, loss_percent: 100 };
}

/// Point at which the function that makes the next request to the provider crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the request reaches the provider.
    BeforeRequest,
    /// After the provider has carried out the request, before its response arrives.
    BeforeResponse,
}

impl CrashPoint {
    pub const ALL: [Self; 2] = [Self::BeforeRequest, Self::BeforeResponse];

    /// Name for display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeRequest => "before_the_request",
            Self::BeforeResponse => "before_the_answer",
        }
    }
}
