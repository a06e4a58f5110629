//! The choice of the providers that report calls.

use clap::ValueEnum;

use crate::demo::script::Provider;

/// The providers that post webhooks about the calls that others place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::demo) enum Senders {
    /// Retell, Twilio and a generic sender
    #[default]
    Usual,
    /// Every provider that Switchhook has code for
    All,
}

impl Senders {
    pub(super) const fn providers(self) -> &'static [Provider] {
        match self {
            Self::Usual => &[Provider::Retell, Provider::Twilio, Provider::Generic],
            Self::All => &Provider::ALL,
        }
    }
}
