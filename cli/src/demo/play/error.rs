//! Errors that stop a run of the demo.

use switchhook_local::LocalError;
use switchhook_providers::{ConfigError, DialRatesError, KeyError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlayError {
    #[error("a signing key of the demo was refused")]
    SigningKey(#[source] KeyError),
    #[error("the demo's provider configuration was refused")]
    ProviderConfig(#[source] ConfigError),
    #[error("could not use the demo's dial rates")]
    DialRates(#[source] DialRatesError),
    #[error("the local cloud did not open")]
    Open(#[source] LocalError),
    #[error("Switchhook does not know the provider {0}")]
    UnknownProvider(&'static str),
    #[error("an HTTP request could not be built")]
    Request(#[source] http::Error),
    #[error("the local cloud stopped before the run was over")]
    Stopped,
    #[error("could not write the keys, the time and the metrics into the data directory")]
    Keep(#[source] std::io::Error),
    #[error("the async runtime did not start")]
    Runtime(#[source] std::io::Error),
}
