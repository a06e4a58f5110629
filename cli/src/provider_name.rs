//! Names of providers on the command line. An error lists every name that the option accepts.

use switchhook_domain::{Origin, Provider, UnknownProvider};

/// Part of an error about an unknown name.
const CONFIGURED: &str = "names such as x-acme of configured providers";

/// Reads the name of a provider for clap.
pub(crate) fn provider(text: &str) -> Result<Provider, String> {
    text.parse().map_err(|unknown: UnknownProvider| format!("{unknown}, and {CONFIGURED}"))
}

/// Reads the sender of an event for clap: a provider, or Switchhook itself.
pub(crate) fn sender(text: &str) -> Result<Origin, String> {
    text.parse().map_err(|unknown: UnknownProvider| format!("{unknown}, {}, and {CONFIGURED}", Origin::Switchhook))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_an_error_lists_is_read() {
        let list = |error: String| {
            let (_, names) = error.split_once("known are ").unwrap();
            let names =
                names.replace(CONFIGURED, "x-acme").replace("accounts of them such as ", "").replace(" and ", " ");
            names.split(", ").map(str::to_owned).collect::<Vec<_>>()
        };
        let providers = list(provider("acme").unwrap_err());
        assert_eq!(providers.len(), Provider::ALL.len() + 2);
        assert!(providers.iter().all(|name| provider(name).is_ok()), "{providers:?}");
        let senders = list(sender("acme").unwrap_err());
        assert_eq!(senders.len(), providers.len() + 1);
        assert!(senders.iter().all(|name| sender(name).is_ok()), "{senders:?}");
    }
}
