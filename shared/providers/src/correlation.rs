//! The call and the attempt that an event belongs to. The event alone decides, without reading any table.

use serde::Deserialize;
use switchhook_domain::{AttemptKey, CallId, Provider};

use crate::form::query_value;
use crate::ids::bounded;
use crate::lenient;

/// Ids that the provider got when the call was placed, and that it echoes in its webhooks. Switchhook sends them with
/// every call that it places. A team that places calls itself can send them too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct EchoedIds {
    #[serde(deserialize_with = "lenient::text")]
    pub(crate) switchhook_call_id: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(crate) switchhook_attempt: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub(crate) appointment_id: Option<String>,
}

impl EchoedIds {
    /// Reads the ids from the query of a callback URL. Use this only for a provider whose signature covers the query.
    pub(crate) fn from_query(query: &str) -> Self {
        Self {
            switchhook_call_id: query_value(query, "switchhook_call_id"),
            switchhook_attempt: query_value(query, "switchhook_attempt"),
            appointment_id: query_value(query, "appointment_id"),
        }
    }

    /// Fills missing fields from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            switchhook_call_id: self.switchhook_call_id.or(other.switchhook_call_id),
            switchhook_attempt: self.switchhook_attempt.or(other.switchhook_attempt),
            appointment_id: self.appointment_id.or(other.appointment_id),
        }
    }
}

/// Ids of an event's call, each at most [`ID_BYTES_MAX`](crate::ID_BYTES_MAX) bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Correlation {
    pub(crate) call_id: Option<CallId>,
    pub(crate) attempt: Option<AttemptKey>,
    pub(crate) provider_call_id: Option<String>,
    pub(crate) appointment_id: Option<String>,
}

/// Chooses the ids of an event.
///
/// * Call: our own call id; otherwise `appointment:{appointment id}`; otherwise `{provider}:{provider call id}`.
/// * Attempt: our own attempt key; otherwise the provider call id.
pub(crate) fn correlate(provider: Provider, echoed: &EchoedIds, provider_call_id: Option<&str>) -> Correlation {
    let EchoedIds { switchhook_call_id, switchhook_attempt, appointment_id } = echoed;
    let call_id = if let Some(id) = switchhook_call_id {
        Some(bounded("", id))
    } else if let Some(id) = appointment_id {
        Some(bounded("appointment:", id))
    } else {
        provider_call_id.map(|id| bounded(&format!("{provider}:"), id))
    };
    let attempt = switchhook_attempt.as_deref().or(provider_call_id);
    Correlation {
        call_id: call_id.map(CallId::new),
        attempt: attempt.map(|key| AttemptKey::new(bounded("", key))),
        provider_call_id: provider_call_id.map(|id| bounded("", id)),
        appointment_id: appointment_id.as_deref().map(|id| bounded("", id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(call_id: Option<&str>, attempt: Option<&str>, appointment_id: Option<&str>) -> EchoedIds {
        EchoedIds {
            switchhook_call_id: call_id.map(str::to_owned),
            switchhook_attempt: attempt.map(str::to_owned),
            appointment_id: appointment_id.map(str::to_owned),
        }
    }

    #[test]
    fn our_own_id_wins_and_the_appointment_is_kept() {
        assert_eq!(
            correlate(Provider::Retell, &echo(Some("call-1"), Some("2"), Some("apt_1")), Some("c1")),
            Correlation {
                call_id: Some(CallId::new("call-1")),
                attempt: Some(AttemptKey::new("2")),
                provider_call_id: Some("c1".to_owned()),
                appointment_id: Some("apt_1".to_owned()),
            }
        );
    }

    #[test]
    fn appointment_comes_before_the_providers_id() {
        assert_eq!(
            correlate(Provider::Twilio, &echo(None, None, Some("apt_1")), Some("CA1")),
            Correlation {
                call_id: Some(CallId::new("appointment:apt_1")),
                attempt: Some(AttemptKey::new("CA1")),
                provider_call_id: Some("CA1".to_owned()),
                appointment_id: Some("apt_1".to_owned()),
            }
        );
    }

    #[test]
    fn without_an_echo_the_providers_id_is_the_call() {
        assert_eq!(
            correlate(Provider::Twilio, &EchoedIds::default(), Some("CA1")),
            Correlation {
                call_id: Some(CallId::new("twilio:CA1")),
                attempt: Some(AttemptKey::new("CA1")),
                provider_call_id: Some("CA1".to_owned()),
                appointment_id: None,
            }
        );
        assert_eq!(
            correlate(Provider::Generic, &EchoedIds::default(), None),
            Correlation { call_id: None, attempt: None, provider_call_id: None, appointment_id: None }
        );
    }

    #[test]
    fn echo_is_read_from_a_query() {
        assert_eq!(
            EchoedIds::from_query("switchhook_call_id=call%201&switchhook_attempt=&appointment_id=7"),
            echo(Some("call 1"), None, Some("7"))
        );
    }
}
