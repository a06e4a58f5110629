//! Hash of a body's content, independent of its formatting.

use sha2::{Digest, Sha256};
use switchhook_domain::{Provider, Timestamp};

use crate::dispatch::read;
use crate::form::canonical_form;
use crate::json;
use crate::reading::Reading;
use crate::webhook::VerifiedWebhook;

/// SHA-256 of a body's content. Two bodies with one event id and the same hash are one event, delivered twice. With
/// different hashes they contradict each other.
///
/// White space, the order of fields or parameters, escapes, and the notation of numbers do not change the hash. A body
/// that cannot be parsed is hashed byte for byte. If a provider changes a part of the body from one retry to the next,
/// its arm leaves that part out. If an event id is made of the meaning of the body, the meaning is hashed.
///
/// Hashes are comparable within one version of this crate only: compute them, do not store them.
#[must_use]
pub fn content_hash(provider: Provider, body: &[u8]) -> [u8; 32] {
    let content = match provider.vendor() {
        // These name no event ids, so an id is made of what the body means. A body that is sent again may have another price or another
        // address of the recording.
        vendor @ (Provider::Retell | Provider::Vapi | Provider::Bland) => {
            meaning(vendor, body).or_else(|| canonical_json(body))
        }
        Provider::Vonage | Provider::LiveKit | Provider::Generic => canonical_json(body),
        // `event_ts` is the time of the delivery.
        Provider::Daily => canonical_json_without(body, "event_ts"),
        // `event_timestamp` describes the delivery, or is missing if the event comes from a lookup. The type is part of the
        // event id.
        Provider::ElevenLabs => canonical_json(body).map(|whole| data_of(body).unwrap_or(whole)),
        // `meta` describes the delivery, not the event: which delivery attempt it is, and to which address.
        Provider::Telnyx => canonical_json(body).map(|whole| data_of(body).unwrap_or(whole)),
        Provider::Plivo => Some(canonical_form(body)),
        // The callback is either JSON or a form. The query or the configuration says which, but no form parses as a JSON object.
        Provider::Twilio | Provider::SignalWire | Provider::Named(_) => {
            Some(canonical_json(body).unwrap_or_else(|| canonical_form(body)))
        }
    };
    match content {
        Some(content) => Sha256::digest(content).into(),
        None => Sha256::digest(body).into(),
    }
}

/// The event that the body is read as, with its id, as JSON text. `None` if it is read as no event.
fn meaning(vendor: Provider, body: &[u8]) -> Option<String> {
    // Neither the key nor the time of receipt is part of the meaning.
    let webhook = VerifiedWebhook::new(vendor, "", body.to_vec(), 0);
    match read(&webhook, Timestamp::from_millis(0)) {
        Reading::Event(event) => serde_json::to_string(&event).ok(),
        Reading::Recorded { .. } | Reading::Quarantined { .. } => None,
    }
}

/// The body as JSON text with sorted fields. `None` if it is not a JSON object.
fn canonical_json(body: &[u8]) -> Option<String> {
    let mut value = json::value(body)?;
    value.sort_all_objects();
    value.is_object().then(|| value.to_string())
}

/// The body as JSON text with sorted fields, without one of them. `None` if it is not a JSON object.
fn canonical_json_without(body: &[u8], name: &str) -> Option<String> {
    let mut value = json::value(body)?;
    value.as_object_mut()?.remove(name);
    value.sort_all_objects();
    Some(value.to_string())
}

/// The `data` field of the body, as JSON text with sorted fields.
fn data_of(body: &[u8]) -> Option<String> {
    let mut value = json::value(body)?;
    let data = value.get_mut("data")?;
    data.sort_all_objects();
    Some(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(provider: Provider, one: &str, other: &str) -> bool {
        content_hash(provider, one.as_bytes()) == content_hash(provider, other.as_bytes())
    }

    #[test]
    fn json_that_was_written_anew_says_the_same() {
        for provider in [Provider::Retell, Provider::Generic, Provider::Twilio] {
            let one = r#"{"a":{"x":1,"y":[1,2]},"b":"é/","c":1.50}"#;
            assert!(
                same(provider, one, "{ \"c\": 1.5, \"b\": \"\\u00e9\\/\",\n \"a\": {\"y\":[1, 2],\"x\":1} }"),
                "{provider}"
            );
            for other in [
                r#"{"a":{"x":1,"y":[2,1]},"b":"é/","c":1.50}"#,
                r#"{"a":{"x":"1","y":[1,2]},"b":"é/","c":1.50}"#,
                r#"{"a":{"x":1,"y":[1,2]},"b":"É/","c":1.50}"#,
                r#"{"a":{"x":1,"y":[1,2]},"b":"é/","c":1.50,"d":null}"#,
                r#"{"a":{"x":1,"y":[1,2]},"b":"é/"}"#,
            ] {
                assert!(!same(provider, one, other), "{provider}: {other}");
            }
        }
    }

    #[test]
    fn events_without_ids_of_their_own_are_compared_by_their_meaning() {
        let bland = |more: &str| format!(r#"{{"call_id":"b1","completed":true,"answered_by":"human",{more}}}"#);
        let vapi = |reason: &str, cost: &str| {
            format!(
                r#"{{"message":{{"type":"end-of-call-report","endedReason":"{reason}","cost":{cost},"call":{{"id":"c"}}}}}}"#
            )
        };
        let retell = |reason: &str, cost: &str| {
            format!(
                r#"{{"event":"call_analyzed","call":{{"call_id":"c","disconnection_reason":"{reason}","call_cost":{cost},"call_analysis":{{}}}}}}"#
            )
        };
        for (provider, sent, again, other) in [
            (
                Provider::Bland,
                bland(r#""price":0.1,"recording_url":"a","to":"+447700900123""#),
                bland(r#""price":0.2,"recording_url":"b","to":"+447700900123""#),
                bland(r#""price":0.1,"recording_url":"a","to":"+447700900124""#),
            ),
            (Provider::Vapi, vapi("voicemail", "0.1"), vapi("voicemail", "0.2"), vapi("customer-busy", "0.1")),
            (Provider::Retell, retell("user_hangup", "1"), retell("user_hangup", "2"), retell("dial_busy", "1")),
        ] {
            // All three have one event id.
            let id = |body: &str| {
                read(&VerifiedWebhook::new(provider, "", body.into(), 0), Timestamp::from_millis(0)).event_id().clone()
            };
            assert!(id(&sent) == id(&again) && id(&sent) == id(&other), "{provider}");
            assert!(same(provider, &sent, &again), "{provider}");
            assert!(!same(provider, &sent, &other), "{provider}");
        }
    }

    #[test]
    fn telnyx_tells_of_its_delivery_beside_the_event() {
        let one = r#"{"data":{"id":"1"},"meta":{"attempt":1}}"#;
        assert!(same(Provider::Telnyx, one, r#"{"data":{"id":"1"},"meta":{"attempt":2}}"#));
        assert!(!same(Provider::Telnyx, one, r#"{"data":{"id":"2"},"meta":{"attempt":1}}"#));
    }

    #[test]
    fn daily_tells_the_time_of_its_delivery_beside_the_event() {
        let one = r#"{"id":"1","payload":{"timestamp":1},"event_ts":1.5}"#;
        assert!(same(Provider::Daily, one, r#"{"event_ts":9.5,"payload":{"timestamp":1},"id":"1"}"#));
        assert!(!same(Provider::Daily, one, r#"{"id":"1","payload":{"timestamp":2},"event_ts":1.5}"#));
        assert!(!same(Provider::Daily, "[1]", "[1 ]"));
    }

    #[test]
    fn form_that_was_written_anew_says_the_same() {
        let one = "CallSid=CA1&To=%2B44&Note=a+b";
        assert!(same(Provider::Twilio, one, "Note=a%20b&To=%2b44&CallSid=CA1&To=%2B44"));
        for other in ["CallSid=CA1&To=%2B44&Note=ab", "CallSid=CA1&To=%2B44", "CallSid=CA1To&=%2B44&Note=a+b"] {
            assert!(!same(Provider::Twilio, one, other), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_read_counts_byte_for_byte() {
        for (provider, one, other) in [
            (Provider::Generic, "{\"a\":1", "{\"a\":1 "),
            (Provider::Retell, "[1]", "[1 ]"),
            (Provider::Generic, "", " "),
            (Provider::Generic, "a=1&b=2", "b=2&a=1"),
        ] {
            assert!(same(provider, one, one) && !same(provider, one, other), "{provider}: {one}");
        }
        assert_ne!(content_hash(Provider::Generic, b"\xff"), content_hash(Provider::Generic, b"\xfe"));
    }
}
