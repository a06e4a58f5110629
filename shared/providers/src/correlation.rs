//! The call and the attempt that an event belongs to. The event alone decides, without reading any table.

use std::fmt::Display;

use serde::Deserialize;
use switchhook_domain::{AttemptKey, CallId, DO_NOT_CALL_PREFIX, ENTITY_PREFIX, PROVIDER_HEALTH_PREFIX, Provider};

use crate::form::query_value;
use crate::ids::bounded;
use crate::lenient;
use crate::reading::ReadNotes;

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
/// * Call: our own call id, unless it is [reserved](is_reserved); otherwise `appointment:{appointment id}`; otherwise
///   `{provider}:{provider call id}`.
/// * Attempt: our own attempt key; otherwise `{provider}:{provider call id}`.
pub(crate) fn correlate(
    provider: Provider,
    echoed: &EchoedIds,
    provider_call_id: Option<&str>,
    notes: &mut ReadNotes,
) -> Correlation {
    let EchoedIds { switchhook_call_id, switchhook_attempt, appointment_id } = echoed;
    let derived = provider_call_id.map(|id| bounded(&format!("{provider}:"), id));
    let is_allowed = |id: &&str| !is_reserved(provider, id);
    let (call_id, attempt) = (switchhook_call_id.as_deref(), switchhook_attempt.as_deref());
    notes.reserved_call_id = [call_id, attempt].into_iter().flatten().any(|id| is_reserved(provider, id));
    let named = call_id.filter(is_allowed).map(|id| CallId::new(bounded("", id)));
    let of_appointment = || appointment_id.as_deref().map(appointment_call_id);
    let attempt = attempt.filter(is_allowed).map(|key| bounded("", key));
    Correlation {
        call_id: named.or_else(of_appointment).or_else(|| derived.clone().map(CallId::new)),
        attempt: attempt.or(derived).map(AttemptKey::new),
        provider_call_id: provider_call_id.map(|id| bounded("", id)),
        appointment_id: appointment_id.as_deref().map(|id| bounded("", id)),
    }
}

/// Returns the key of an attempt that its sender numbers itself. It differs from the keys of Switchhook's dials, which are numbers: the first call
/// of another system must not end the first dial.
pub(crate) fn numbered_attempt(provider: Provider, number: impl Display) -> AttemptKey {
    AttemptKey::new(format!("{provider}#{number}"))
}

/// Returns the id that the call of an appointment has, if its sender gives it no id of its own.
#[must_use]
pub fn appointment_call_id(appointment_id: &str) -> CallId {
    CallId::new(bounded("appointment:", appointment_id))
}

/// Chooses the ids of a session that is no phone call, such as one of a web page. The visitor of the page may have chosen what such a
/// session echoes, so these ids are ignored.
pub(crate) fn correlate_without_echo(
    provider: Provider,
    echoed: &EchoedIds,
    provider_call_id: Option<&str>,
    notes: &mut ReadNotes,
) -> Correlation {
    let correlation = correlate(provider, &EchoedIds::default(), provider_call_id, notes);
    notes.reserved_call_id = *echoed != EchoedIds::default();
    correlation
}

/// True if a sender of this provider may not name a call or an attempt by this id. The id is the key of another row, or it belongs to
/// another provider: `{other provider}:…`.
fn is_reserved(provider: Provider, id: &str) -> bool {
    let owner = id.split_once(':').and_then(|(name, _)| name.parse::<Provider>().ok());
    id.starts_with(DO_NOT_CALL_PREFIX)
        || id.starts_with(ENTITY_PREFIX)
        || id.starts_with(PROVIDER_HEALTH_PREFIX)
        || owner.is_some_and(|owner| owner != provider)
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

    fn correlate(provider: Provider, echoed: &EchoedIds, provider_call_id: Option<&str>) -> Correlation {
        let mut notes = ReadNotes::default();
        let correlation = super::correlate(provider, echoed, provider_call_id, &mut notes);
        assert_eq!(notes, ReadNotes::default());
        correlation
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
                attempt: Some(AttemptKey::new("twilio:CA1")),
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
                attempt: Some(AttemptKey::new("twilio:CA1")),
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
    fn reserved_ids_are_ignored_and_counted() {
        let call_id = |provider: Provider, named: &str, appointment_id: Option<&str>| {
            let mut notes = ReadNotes::default();
            let correlation =
                super::correlate(provider, &echo(Some(named), None, appointment_id), Some("p1"), &mut notes);
            (correlation.call_id.unwrap().to_string(), notes.reserved_call_id)
        };
        for (provider, named) in [
            (Provider::Generic, "retell:call_1"),
            (Provider::Twilio, "generic:call_1"),
            (Provider::Twilio, "twilio-eu:call_1"),
            (Provider::Generic, "generic-crm:call_1"),
            ("generic-crm".parse().unwrap(), "generic:call_1"),
            (Provider::Generic, "do-not-call:+15550100"),
            (Provider::Generic, "provider-health:retell"),
            (Provider::Generic, "entity:generic:1"),
        ] {
            assert_eq!(call_id(provider, named, None), (format!("{provider}:p1"), true), "{named}");
            assert_eq!(call_id(provider, named, Some("a")), ("appointment:a".to_owned(), true), "{named}");
        }
        for (provider, named) in [
            (Provider::Retell, "retell:call_1"),
            (Provider::Twilio, "appointment:a"),
            (Provider::Generic, "retellers:1"),
            (Provider::Generic, "retell"),
            (Provider::Generic, "Retell:call_1"),
        ] {
            assert_eq!(call_id(provider, named, None), (named.to_owned(), false));
        }
    }

    #[test]
    fn attempt_of_another_provider_is_ignored_and_counted() {
        let attempt = |provider: Provider, named: &str| {
            let mut notes = ReadNotes::default();
            let correlation = super::correlate(provider, &echo(None, Some(named), Some("a")), Some("p1"), &mut notes);
            (correlation.attempt.unwrap().as_str().to_owned(), notes.reserved_call_id)
        };
        assert_eq!(attempt(Provider::Generic, "retell:call_1"), ("generic:p1".to_owned(), true));
        for named in ["2", "generic:p0", "retry of monday"] {
            assert_eq!(attempt(Provider::Generic, named), (named.to_owned(), false));
        }
    }

    #[test]
    fn echo_is_read_from_a_query() {
        assert_eq!(
            EchoedIds::from_query("switchhook_call_id=call%201&switchhook_attempt=&appointment_id=7"),
            echo(Some("call 1"), None, Some("7"))
        );
    }
}
