//! Random input: nothing panics, and only webhooks signed with a configured key are accepted.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider, Timestamp};
use switchhook_providers::{
    CallSearch, DialAnswer, Entries, ID_BYTES_MAX, Key, LookupAnswer, ProvidersFile, Reading, SearchStep, SecretHalf,
    UnverifiedWebhook, VerifiedWebhook, WebhookConfig, read, read_dial_answer, samples, sign, verify, verifying_key,
};

use crate::api::{DIALLED, Job, config};

const NOW: Timestamp = Timestamp::from_millis(1_760_962_445_000);

fn providers() -> ProvidersFile {
    let document: serde_json::Map<String, serde_json::Value> = Provider::ALL
        .into_iter()
        .map(|provider| {
            let key = verifying_key(provider, &Key::new("the key").unwrap());
            (provider.to_string(), serde_json::json!({"keys": [key], "public_url": "https://example.com"}))
        })
        .collect();
    crate::providers_file(&serde_json::Value::from(document).to_string()).unwrap()
}

fn accepted(provider: Provider, headers: &HeaderMap, path: &str, query: &str, body: &[u8]) -> bool {
    let webhook = UnverifiedWebhook { headers, path, query, body };
    verify(provider, providers().webhook_keys().config(provider).unwrap(), &webhook, NOW).is_ok()
}

/// Checks the limits that hold for every reading.
fn check(reading: &Reading) {
    assert!(reading.event_id().as_str().len() <= ID_BYTES_MAX);
    assert!(!reading.event_id().as_str().contains(char::is_control));
    if let Some(call_id) = reading.call_id() {
        assert!(!call_id.as_str().is_empty() && !call_id.as_str().contains(char::is_control));
    }
    if let Reading::Event(event) = reading {
        assert!(!event.call_events.is_empty());
        assert!(event.call_events.iter().filter(|event| !event.implied).count() <= 1);
        let mut kinds: Vec<_> = event.call_events.iter().map(|event| event.kind).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), event.call_events.len());
    }
}

fn provider() -> impl Strategy<Value = Provider> {
    prop::sample::select(Provider::ALL.as_slice())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let name = prop::sample::select(vec![
        "x-retell-signature",
        "x-twilio-signature",
        "x-webhook-signature",
        "x-webhook-timestamp",
        "x-signature",
        "x-timestamp",
        "telnyx-signature-ed25519",
        "elevenlabs-signature",
        "x-plivo-signature-v3",
        "x-plivo-signature-v3-nonce",
        "authorization",
        "telnyx-timestamp",
    ]);
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "v=[0-9]{1,20},d=[0-9a-fA-F]{62,66}".prop_map(String::into_bytes),
        "sha256=[0-9a-fA-F]{64}".prop_map(String::into_bytes),
        "[0-9a-fA-F]{64}".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{85}A==".prop_map(String::into_bytes),
        "[0-9]{1,20}".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{27}=".prop_map(String::into_bytes),
    ];
    prop::collection::vec((name, value), 0..6).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        headers
    })
}

/// Random bytes, or a sample body with changed bytes. Parsers get further into a changed sample than into random bytes.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let sample = prop::sample::select(samples());
    let spoilt = (sample, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), any::<bool>())
        .prop_map(|((_, body), changes, cut)| {
            let mut body = body.as_bytes().to_vec();
            for (index, byte) in changes {
                let index = index.index(body.len());
                if cut {
                    body.truncate(index + 1);
                }
                if let Some(place) = body.get_mut(index) {
                    *place = byte;
                }
            }
            body
        });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), spoilt]
}

proptest! {
    #![proptest_config(switchhook_random::config(256, None))]

    #[test]
    fn read_never_panics(provider in provider(), query in any::<String>(), body in body()) {
        for query in [query.as_str(), "bodySHA256=00", ""] {
            let webhook = VerifiedWebhook::from_inbox(provider, query.to_owned(), body.clone(), 0);
            check(&read(&webhook, NOW));
        }
    }

    #[test]
    fn foreign_texts_never_break_an_id(event in any::<String>(), id in any::<String>(), status in any::<String>()) {
        let retell = serde_json::json!({"event": event, "call": {"call_id": id, "call_status": status}});
        let generic = serde_json::json!({"event_id": id, "type": "RINGING", "call_id": event, "call": {"sid": status}});
        let twilio = serde_json::json!({"CallSid": id, "CallStatus": event, "SequenceNumber": status});
        let vapi = serde_json::json!({"message": {"type": event, "status": status, "call": {"id": id}}});
        let telnyx = serde_json::json!({"data": {"id": id, "event_type": event, "payload": {"call_control_id": status}}});
        let elevenlabs = serde_json::json!({"type": event, "data": {"conversation_id": id, "status": status}});
        for (provider, body) in [
            (Provider::ElevenLabs, elevenlabs),
            (Provider::Retell, retell),
            (Provider::Generic, generic),
            (Provider::Twilio, twilio),
            (Provider::Vapi, vapi),
            (Provider::Telnyx, telnyx),
        ] {
            let query = "bodySHA256=00".to_owned();
            check(&read(&VerifiedWebhook::from_inbox(provider, query, body.to_string().into_bytes(), 0), NOW));
        }
    }

    #[test]
    fn answers_of_an_api_never_panic(provider in prop::sample::select(DIALLED.as_slice()), status in any::<u16>(), id in any::<String>(), body in body()) {
        let job = Job { call_id: CallId::new(id.as_str()), attempt: AttemptKey::new(id.as_str()), ..Job::new(&[]) };
        // The generic provider has no account, and uses none of another.
        let config = config(if provider == Provider::Generic { Provider::Retell } else { provider });
        // The random body, the call itself, and lists that contain only this call and name a next page.
        let ended = serde_json::json!({
            "call_id": id, "call_status": "ended", "id": id, "sid": id, "status": "ended", "endedReason": id,
            "disconnection_reason": id, "end_time": id, "answered_by": id,
            "metadata": {"switchhook_call_id": id, "switchhook_attempt": id}, "conversation_id": id,
            "conversation_initiation_client_data": {"dynamic_variables": {"switchhook_call_id": id, "switchhook_attempt": id}},
            "direction": "outbound-api", "date_created": "Mon, 20 Oct 2025 12:13:56 +0000",
            "uuid": id, "call_uuid": id, "bill_duration": 1, "from_number": "442079460018", "to_number": "447700900000",
            "initiation_time": "2025-10-20 12:13:56+00:00",
            "data": {"call_control_id": id, "is_alive": false, "end_time": "2025-10-20T12:14:47Z", "client_state": id},
        });
        let list = serde_json::json!({
            "items": [ended], "has_more": true, "pagination_key": id, "calls": [ended], "next_page_uri": id,
            "data": [{"metadata": {"event_type": "call.hangup", "id": id, "payload": ended["data"]}}],
            "meta": {"total_pages": 99}, "conversations": [ended], "next_cursor": id, "objects": [ended],
            "count": 999, "_embedded": {"calls": [ended]},
        });
        let bodies = [body, ended.to_string().into_bytes(), list.to_string().into_bytes()];
        for body in bodies {
            if let DialAnswer::Accepted { provider_call_id } = read_dial_answer(provider, &PhoneNumber::new(id.as_str()), status, Some(&id), &body) {
                prop_assert!((200..300).contains(&status) && provider_call_id.len() <= ID_BYTES_MAX);
            }
            for (status, id) in [(status, Some(id.as_str())), (200, Some(&id)), (200, None)] {
                let Ok(mut search) = CallSearch::start(provider, &config, job.lookup(id)) else { continue };
                let mut requests = 1;
                while let SearchStep::Ask(next) = search.clone().respond(status, &body, NOW) {
                    search = next;
                    requests += 1;
                }
                prop_assert!(requests <= 30);
                if let SearchStep::Answer(LookupAnswer::Ended { webhook, event, .. }) = search.respond(status, &body, NOW) {
                    check(&Reading::Event(*event.clone()));
                    prop_assert_eq!(read(&webhook, NOW), Reading::Event(*event));
                }
            }
        }
    }

    #[test]
    fn nothing_is_accepted_without_the_key(
        provider in provider(),
        headers in headers(),
        path in any::<String>(),
        query in any::<String>(),
        body in body(),
    ) {
        prop_assert!(!accepted(provider, &headers, &path, &query, &body));
    }

    #[test]
    fn only_the_key_opens(provider in provider(), key in "[!-~]{1,80}", body in body(), query in "[a-z0-9=&%+']{0,20}") {
        let url = format!("https://example.com/webhooks?{query}");
        let signed = sign(provider, &Key::new(key.as_str()).unwrap(), &url, &body, NOW);
        let (_, query) = signed.url.split_once('?').unwrap_or((&signed.url, ""));
        let headers: HeaderMap = signed
            .headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        prop_assert!(!accepted(provider, &headers, "/webhooks", query, &body));

        let signed = sign(provider, &Key::new("the key").unwrap(), &url, &body, NOW);
        let headers: HeaderMap = signed
            .headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        prop_assert!(accepted(provider, &headers, "/webhooks", query, &body));
    }

    #[test]
    fn configuration_never_panics(text in any::<String>()) {
        // Random text gives an error or a configuration without providers.
        let none = |keys: &Entries<WebhookConfig>| Provider::ALL.into_iter().all(|one| keys.config(one).is_none());
        prop_assert!(ProvidersFile::from_json(&text).map_or(true, |providers| none(providers.webhook_keys())));
        prop_assert!(none(&WebhookConfig::parse(&text)));
    }
}
