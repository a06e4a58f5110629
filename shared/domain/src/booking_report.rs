//! The part of a webhook that is about a booking: an appointment that schedules a call.

use serde::{Deserialize, Serialize};

use crate::number::PhoneNumber;
use crate::provider::Provider;
use crate::time::Timestamp;
use crate::window::CallingWindow;

/// The part of an event that is about a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BookingReport {
    /// The appointment is booked, or was moved to this start. The event names the number to call.
    Booked(Booked),
    /// The booking is over: it was canceled, or another booking replaced it. Or it is a request that nobody has confirmed yet.
    Canceled {
        /// The sender's id of the booking that this one replaces. `None` if it replaces none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<String>,
    },
}

impl BookingReport {
    /// Report of a booking that is over and replaces none.
    pub const CANCELED: Self = Self::Canceled { replaces: None };

    /// The sender's id of the booking that this one replaces.
    #[must_use]
    pub fn replaces(&self) -> Option<&str> {
        match self {
            Self::Booked(Booked { replaces, .. }) | Self::Canceled { replaces } => replaces.as_deref(),
        }
    }

    /// True if no call is to be made for the booking.
    #[must_use]
    pub const fn is_canceled(&self) -> bool {
        matches!(self, Self::Canceled { .. })
    }
}

/// A booking that schedules a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked {
    /// Start of the appointment. `None` if the event names none that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// The sender's id of the booking that this one replaces. `None` if it replaces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    pub rule: BookingRule,
}

/// Rule by which a booking schedules a call. The configuration of the sender holds it, and each event a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingRule {
    /// Providers that may place the call, the preferred one first. At least one.
    pub providers: Vec<Provider>,
    /// Own number that the call comes from.
    pub from: PhoneNumber,
    /// Time from the call to the start of the appointment, in minutes.
    pub before_minutes: u32,
    /// `None`: the default of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<CallingWindow>,
}
