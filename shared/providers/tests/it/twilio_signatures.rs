//! Twilio's signature: the forms of the URL that it covers, and the kinds of body.

use http::{HeaderMap, HeaderValue};
use switchhook_domain::Provider;
use switchhook_providers::{Key, UnverifiedWebhook, VerifyError, sign, verify};

use crate::signatures::{JSON_BODY, NOW, Request, TWILIO_BODY, configured};

#[test]
fn twilio_signs_path_and_query() {
    let twilio = Request::signed(Provider::Twilio, TWILIO_BODY);
    for spoilt in [
        twilio.with(|request| request.path = "/webhooks/".to_owned()),
        twilio.with(|request| request.query = "appointment_id=8".to_owned()),
        twilio.with(|request| request.query.clear()),
        twilio.with(|request| request.public_url = "https://example.org".to_owned()),
        twilio.with(|request| request.public_url = "http://example.com".to_owned()),
    ] {
        assert_eq!(spoilt.error(), Some(VerifyError::WrongSignature));
    }
}

#[test]
fn form_that_no_provider_sends_is_refused_before_its_signature() {
    for provider in [Provider::Twilio, Provider::Plivo, Provider::SignalWire] {
        let of_bytes =
            |bytes: usize| Request::signed(provider, format!("a={}", "b".repeat(bytes - 2)).as_bytes()).error();
        assert_eq!(of_bytes(256 * 1_024), None, "{provider}");
        assert_eq!(of_bytes(256 * 1_024 + 1), Some(VerifyError::FormTooLarge), "{provider}");
        let of_parameters = |count: usize| Request::signed(provider, vec!["a=1"; count].join("&").as_bytes()).error();
        assert_eq!(of_parameters(1_024), None, "{provider}");
        assert_eq!(of_parameters(1_025), Some(VerifyError::FormTooLarge), "{provider}");
    }
}

#[test]
fn twilio_port_may_be_left_out_or_put_in() {
    let key = Key::new("key").unwrap();
    for (public_url, signed_url) in [
        ("https://example.com", "https://example.com:443/webhooks"),
        ("https://example.com:443", "https://example.com/webhooks"),
        ("http://user:pass@example.com", "http://user:pass@example.com:80/webhooks"),
        ("https://example.com:8443/prod", "https://example.com/prod/webhooks"),
        ("https://example.com:8443/prod/", "https://example.com:8443/prod/webhooks"),
        ("https://[::1]:443", "https://[::1]/webhooks"),
    ] {
        let request = Request {
            provider: Provider::Twilio,
            keys: configured(Provider::Twilio, &["key"]),
            public_url: public_url.to_owned(),
            headers: sign(Provider::Twilio, &key, signed_url, TWILIO_BODY, NOW).headers,
            path: "/webhooks".to_owned(),
            query: String::new(),
            body: TWILIO_BODY.to_vec(),
            now: NOW,
        };
        assert_eq!(request.error(), None, "{public_url} {signed_url}");
    }
}

#[test]
fn twilio_query_may_be_encoded_otherwise() {
    let key = Key::new("key").unwrap();
    for (query, signed_query) in
        [("a=It's+here&b=%2B", "a=It%27s+here&b=%2B"), ("a=It%27s+here&b=", "a=It's%20here&b=")]
    {
        let url = format!("https://example.com/webhooks?{signed_query}");
        let mut request = Request::signed(Provider::Twilio, TWILIO_BODY);
        request.headers = sign(Provider::Twilio, &key, &url, TWILIO_BODY, NOW).headers;
        request.query = query.to_owned();
        assert_eq!(request.error(), None, "{query}");
    }
}

#[test]
fn twilio_takes_the_kind_of_body_from_the_query_alone() {
    let json = Request::signed(Provider::Twilio, JSON_BODY);
    let as_form = json.set("content-type", "application/x-www-form-urlencoded");
    assert_eq!(as_form.error(), None);

    let form = Request::signed(Provider::Twilio, TWILIO_BODY);
    assert_eq!(form.set("content-type", "application/json").error(), None);

    // Removing the hash from the query, or adding a second one, changes the signed text.
    let without = json.with(|request| request.query = "appointment_id=7".to_owned());
    assert_eq!(without.error(), Some(VerifyError::WrongSignature));
    let twice = json.with(|request| request.query.push_str("&bodySHA256=00"));
    assert_eq!(twice.error(), Some(VerifyError::MalformedSignature));
}

#[test]
fn twilio_order_of_parameters_is_not_signed() {
    let twilio = Request::signed(Provider::Twilio, TWILIO_BODY);
    let shuffled =
        twilio.with(|request| request.body = b"Tag=a&Name=+1%20x&CallStatus=completed&Tag=b&CallSid=CA1".to_vec());
    assert_eq!(shuffled.error(), None);
}

#[test]
fn twilio_url_is_signed_without_fragment_and_with_one_hash() {
    let url = "https://example.com/webhooks?bodySHA256=00&a=1#rc=5&rp=all";
    let signed = sign(Provider::Twilio, &Key::new("key").unwrap(), url, TWILIO_BODY, NOW);
    assert_eq!(signed.url, "https://example.com/webhooks?a=1");
    assert_eq!(signed.content_type, "application/x-www-form-urlencoded");

    let signed = sign(Provider::Twilio, &Key::new("key").unwrap(), url, b"{}", NOW);
    assert_eq!(
        signed.url,
        "https://example.com/webhooks?a=1&bodySHA256=44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
    assert_eq!(signed.content_type, "application/json");
}

#[test]
fn twilio_without_a_public_url_is_never_accepted() {
    let mut request = Request::signed(Provider::Twilio, TWILIO_BODY);
    let config = crate::providers_file(r#"{"retell":{"keys":["key"]}}"#).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.drain(..) {
        headers.insert(name, HeaderValue::from_str(&value).unwrap());
    }
    let webhook = UnverifiedWebhook { headers: &headers, path: "/webhooks", query: "", body: TWILIO_BODY };
    let error = verify(Provider::Twilio, config.webhook_keys().config(Provider::Retell).unwrap(), &webhook, NOW).err();
    assert_eq!(error, Some(VerifyError::MissingPublicUrl));
}
